-- One row changes, however many access lists and groups name it: nothing leads to or through a dropped principal.
create or replace function pgrag.drop_principal(p_name text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
begin
  update pgrag_data.principal p set dropped_at = transaction_timestamp()
   where p.tenant_id = v_principal.tenant_id and p.name = p_name and p.kind <> 'everyone' and p.dropped_at is null;
  if not found then
    perform pgrag_private.not_found('principal');
  end if;
end
$$;

comment on function pgrag.drop_principal is 'Drops a user, service or group; what it could read, nobody of that name can read again.';
revoke all on function pgrag.drop_principal from public;
