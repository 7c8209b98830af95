-- What is only white space or invisible. Spelled out: what [:space:] holds depends on the database's locale.
create or replace function pgrag_private.is_blank(p_text text) returns boolean
language sql immutable parallel safe
return p_text !~ '[^[:space:]\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]';

-- Names are keys: they must be sayable in a log line and the same to every client. So no control characters, no
-- characters that show nothing or turn the direction of writing, and no white space at either end.
create or replace function pgrag_private.is_sayable(p_text text) returns boolean
language sql immutable parallel safe
return p_text <> ''
   and p_text !~ '[[:cntrl:]\u0080-\u009F\u00AD\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF]'
   and p_text !~ '^[[:space:]\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]|[[:space:]\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]$';

create or replace function pgrag_private.check_name(p_what text, p_name text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_name is null or length(p_name) > 200 or not pgrag_private.is_sayable(p_name) then
    raise exception using errcode = 'RG406', message = format('this cannot be the name of the %s', p_what),
      hint = 'Use 1 to 200 characters, without control characters and without white space at either end.';
  end if;
  return p_name;
end
$$;

create or replace function pgrag_private.is_language(p_text text) returns boolean
language sql immutable parallel safe
return length(p_text) <= 35 and p_text ~ '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$';

-- A document key is relative to its source: the path of a file on somebody's machine is not an address.
create or replace function pgrag_private.check_document(p_document text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_document is null or length(p_document) > 1000 or octet_length(p_document) > 2000 or not pgrag_private.is_sayable(p_document)
     or p_document ~* '^(/|~|[a-z]:|file:)' or p_document ~ '(^|/)[.][.](/|$)' or position(chr(92) in p_document) > 0 then
    raise exception using errcode = 'RG406', message = 'this is no key for a document',
      detail = 'a key has 1 to 1000 characters (2000 bytes), is relative to its source, and has no control characters, backslashes or ".."',
      hint = 'Use the path below the source''s root, with forward slashes, or the source''s own identifier.';
  end if;
  return p_document;
end
$$;
