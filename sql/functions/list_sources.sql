create or replace function pgrag.list_sources(p_tenant text) returns table (source text, trust text, processors text[], created_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.source::text, s.trust::text, s.processors, s.created_at
    from pgrag_data.source s
   where s.tenant_id = v_tenant_id
   order by s.source;
end
$$;

comment on function pgrag.list_sources is 'The sources of a tenant, for operators.';
revoke all on function pgrag.list_sources from public;
