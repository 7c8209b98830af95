-- Registers a key that tokens may be signed with. The secret is stored as HMAC pads, and never shown again.
create or replace function pgrag.add_signing_key(p_kid text, p_secret bytea, p_issuer text, p_audience text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_inner bytea;
  v_outer bytea;
begin
  if p_kid is null or p_kid !~ '^[A-Za-z0-9_-]{1,64}$' then
    raise exception using errcode = 'RG211', message = 'this cannot be the name of a key',
      hint = 'Use 1 to 64 letters, digits, hyphens or underscores.';
  elsif p_secret is null or octet_length(p_secret) not between 32 and 1024 then
    raise exception using errcode = 'RG211', message = 'the secret must have 32 to 1024 bytes',
      hint = 'Take 32 bytes of a strong random source, for example: openssl rand -hex 32.';
  end if;
  perform pgrag_private.check_name('issuer', p_issuer);
  perform pgrag_private.check_name('audience', p_audience);
  v_inner := pgrag_private.hmac_pad(p_secret, 54); -- 0x36
  v_outer := pgrag_private.hmac_pad(p_secret, 92); -- 0x5c
  insert into pgrag_private.signing_key (kid, issuer, audience, inner_pad, outer_pad)
  values (p_kid, p_issuer, p_audience, v_inner, v_outer)
  on conflict on constraint signing_key_pkey do nothing;
  if not found then
    raise exception using errcode = 'RG211', message = 'a key of this name exists',
      hint = 'Keys do not change: add another under a new name, then retire this one.';
  end if;
end
$$;

comment on function pgrag.add_signing_key is 'Registers an HS256 key (32 bytes or more) under a kid, with the issuer and audience that its tokens must carry.';
revoke all on function pgrag.add_signing_key from public;
