create or replace function pgrag.list_signing_keys()
returns table (kid text, issuer text, audience text, created_at timestamptz, retired_at timestamptz)
language sql stable parallel restricted security definer set search_path = pg_catalog, pg_temp
begin atomic
  select k.kid, k.issuer, k.audience, k.created_at, k.retired_at from pgrag_private.signing_key k order by k.kid;
end;

comment on function pgrag.list_signing_keys is 'The signing keys by name, without their secrets.';
revoke all on function pgrag.list_signing_keys from public;
