create or replace function pgrag.put_tenant(p_tenant text, p_name text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint;
begin
  perform pgrag_private.check_name('tenant', p_tenant);
  insert into pgrag_data.tenant (tenant, name) values (p_tenant, coalesce(p_name, p_tenant))
    on conflict on constraint tenant_tenant_key do update set name = coalesce(p_name, tenant.name)
    returning tenant_id into v_tenant_id;
  insert into pgrag_data.principal (tenant_id, kind, name) values (v_tenant_id, 'everyone', 'everyone')
    on conflict (tenant_id, name) where dropped_at is null do nothing;
end
$$;

comment on function pgrag.put_tenant is 'Creates a tenant, or renames it.';
revoke all on function pgrag.put_tenant from public;
