-- Ends a key: tokens signed with it are refused from commit on, and so are principals already proven with it.
create or replace function pgrag.retire_signing_key(p_kid text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update pgrag_private.signing_key k set retired_at = transaction_timestamp() where k.kid = p_kid and k.retired_at is null;
  if not found then
    perform pgrag_private.not_found('signing key');
  end if;
end
$$;

comment on function pgrag.retire_signing_key is 'Ends a signing key; its tokens are refused from then on.';
revoke all on function pgrag.retire_signing_key from public;
