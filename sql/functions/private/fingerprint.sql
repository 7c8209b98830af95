-- SHA-256 over parts, each with its length in front, so that no two lists of parts read alike.
create or replace function pgrag_private.fingerprint(variadic p_parts text[]) returns bytea
language sql immutable parallel safe
return (
  select sha256(convert_to(coalesce(string_agg(coalesce(octet_length(part) || ':' || part, '-'), ',' order by n), ''), 'UTF8'))
    from unnest(p_parts) with ordinality as parts (part, n)
);
