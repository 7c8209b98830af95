-- A JWT, HS256, to the principal that it proves. The order is fixed: sizes and alphabet, then the header (it
-- names the key, so it must be read before the signature is checked), then the signature, and only then is
-- anything of the payload looked at. An unknown key and a bad signature are one error.
create or replace function pgrag_private.verify_token(p_token text) returns pgrag_private.principal
language plpgsql stable parallel restricted as $$
declare
  v_parts     text[];
  v_header    jsonb;
  v_claims    jsonb;
  v_key       record;
  v_mac       bytea;
  v_given     bytea;
  v_now       numeric := extract(epoch from clock_timestamp());
  v_principal pgrag_private.principal;
begin
  if octet_length(p_token) > 4096 then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'it is longer than 4096 bytes', hint = 'Pass a compact JWT signed with HS256.';
  end if;
  v_parts := string_to_array(p_token, '.');
  if coalesce(cardinality(v_parts), 0) <> 3
     or translate(p_token, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.', '') <> '' then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'it is not three parts of base64url', hint = 'Pass a compact JWT signed with HS256.';
  end if;

  begin
    v_header := pgrag_private.decode_part(v_parts[1]);
    v_given  := pgrag_private.decode_base64url(v_parts[3]);
  exception when others then
    v_header := null; -- refused below, without the decoder's words
  end;
  if v_header is null or v_header ->> 'alg' is distinct from 'HS256' or v_header ? 'crit'
     or jsonb_typeof(v_header -> 'kid') is distinct from 'string' then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'its header must be a JSON object with alg HS256 and a kid, without crit',
      hint = 'Mint it with pgrag.tokens.mint, or any JWT library set to HS256.';
  end if;

  select k.issuer, k.audience, k.inner_pad, k.outer_pad into v_key
    from pgrag_private.signing_key k where k.kid = v_header ->> 'kid' and k.retired_at is null;
  if found then
    v_mac := sha256(v_key.outer_pad || sha256(v_key.inner_pad || convert_to(v_parts[1] || '.' || v_parts[2], 'UTF8')));
  end if;
  -- Digests of the two are compared, so that the time taken says nothing of the right signature.
  -- A MAC has one spelling: the last letter carries two bits that the decoder drops.
  if v_mac is null or sha256(v_mac) <> sha256(v_given)
     or translate(rtrim(encode(v_given, 'base64'), '='), '+/', '-_') <> v_parts[3] then
    raise exception using errcode = 'RG203', message = 'the token''s signature is not accepted',
      hint = 'Sign with a key that pgrag.add_signing_key registered and that is not retired.';
  end if;

  begin
    v_claims := pgrag_private.decode_part(v_parts[2]);
  exception when others then
    v_claims := null;
  end;
  if v_claims is null
     or jsonb_typeof(v_claims -> 'sub') is distinct from 'string'
     or jsonb_typeof(v_claims -> 'tenant') is distinct from 'string'
     or jsonb_typeof(v_claims -> 'exp') is distinct from 'number'
     or jsonb_typeof(coalesce(v_claims -> 'nbf', '0'::jsonb)) is distinct from 'number'
     or coalesce(v_claims ->> 'kind', '') not in ('reader', 'writer', 'admin', 'auditor')
     or (v_claims ->> 'kind' = 'writer') <> coalesce(jsonb_typeof(v_claims -> 'source') = 'string', false)
     or length(v_claims ->> 'sub') not between 1 and 200 then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'its claims must hold sub, tenant, exp and kind (reader, writer, admin, auditor); source for a writer and nobody else',
      hint = 'Mint it with pgrag.tokens.mint, or see the claims in docs/identity.md.';
  end if;
  if v_claims ->> 'iss' is distinct from v_key.issuer
     or not coalesce(v_claims -> 'aud' @> to_jsonb(v_key.audience), false) then
    raise exception using errcode = 'RG206', message = 'the token was issued by or for somebody else',
      detail = 'its iss or aud is not the one registered with its key',
      hint = 'Mint it with the issuer and audience that the key was added with.';
  end if;
  if (v_claims ->> 'exp')::numeric <= v_now then
    raise exception using errcode = 'RG204', message = 'the token has expired', hint = 'Mint a new one.';
  end if;
  if (v_claims ->> 'nbf')::numeric > v_now then
    raise exception using errcode = 'RG205', message = 'the token is not valid yet',
      hint = 'Wait, or compare the clocks of the two servers.';
  end if;

  v_principal.kid        := v_header ->> 'kid';
  v_principal.kind       := v_claims ->> 'kind';
  v_principal.subject    := v_claims ->> 'sub';
  v_principal.expires_at := least(floor((v_claims ->> 'exp')::numeric), 253402300799); -- the year 9999
  select t.tenant_id into v_principal.tenant_id
    from pgrag_data.tenant t where t.tenant = v_claims ->> 'tenant';
  select s.source_id into v_principal.source_id
    from pgrag_data.source s
   where s.tenant_id = v_principal.tenant_id and s.source = v_claims ->> 'source' and v_principal.kind = 'writer';
  if v_principal.tenant_id is null or (v_principal.kind = 'writer' and v_principal.source_id is null) then
    raise exception using errcode = 'RG207', message = 'the token''s tenant or source is not accepted',
      hint = 'Check the tenant and source that the token was minted for.';
  end if;
  select p.principal_id into v_principal.reader_id
    from pgrag_data.principal p
   where p.tenant_id = v_principal.tenant_id and p.name = v_principal.subject
     and p.kind in ('user', 'service') and p.dropped_at is null and v_principal.kind = 'reader';
  v_principal.reader_id := coalesce(v_principal.reader_id, 0);
  v_principal.source_id := coalesce(v_principal.source_id, 0);
  return v_principal;
end
$$;

-- base64url without padding to bytes. The alphabet was checked: PostgreSQL's decoder skips white space.
create or replace function pgrag_private.decode_base64url(p_part text) returns bytea
language sql immutable parallel safe
return decode(translate(p_part, '-_', '+/') || repeat('=', (4 - length(p_part) % 4) % 4), 'base64');

-- One part of a token to a JSON object, or null: an object that says a key twice is two statements, not one.
create or replace function pgrag_private.decode_part(p_part text) returns jsonb
language plpgsql immutable parallel safe as $$
declare
  v_text text := convert_from(pgrag_private.decode_base64url(p_part), 'UTF8');
begin
  if v_text is json object with unique keys then
    return v_text::jsonb;
  end if;
  return null;
end
$$;
