-- Proves who is asking and leaves it in a setting of this transaction, signed with a key that never leaves
-- this database and tied to this backend and transaction. Works on a standby: nothing is written.
create or replace function pgrag.authenticate(p_token text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal;
  v_setting   text;
begin
  v_principal := pgrag_private.verify_token(coalesce(p_token, ''));
  v_setting := concat_ws('|', 'v1', v_principal.kid, v_principal.kind, v_principal.tenant_id, v_principal.reader_id,
                         v_principal.source_id, encode(convert_to(v_principal.subject, 'UTF8'), 'hex'),
                         v_principal.expires_at, pgrag_private.transaction_mark());
  perform set_config('pgrag.principal', v_setting || '|' || pgrag_private.internal_mac('session', v_setting), true);
end
$$;

comment on function pgrag.authenticate is 'Verifies a token and makes its subject the principal of this transaction: begin; select pgrag.authenticate($1); …; commit;';
revoke all on function pgrag.authenticate from public;
