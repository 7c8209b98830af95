create or replace function pgrag.list_tenants() returns table (tenant text, name text, active_space text, created_at timestamptz)
language sql stable parallel restricted security definer set search_path = pg_catalog, pg_temp
begin atomic
  select t.tenant, t.name, s.space, t.created_at
    from pgrag_data.tenant t
    left join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   order by t.tenant;
end;

comment on function pgrag.list_tenants is 'All tenants, for operators.';
revoke all on function pgrag.list_tenants from public;
