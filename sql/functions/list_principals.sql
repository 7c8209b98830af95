create or replace function pgrag.list_principals(p_token text default null) returns table (name text, kind text, created_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'admin');
begin
  return query
  select p.name::text, p.kind::text, p.created_at from pgrag_data.principal p
   where p.tenant_id = v_principal.tenant_id and p.dropped_at is null order by p.name;
end
$$;

comment on function pgrag.list_principals is 'Users, services and groups of the admin''s tenant, everyone among them.';
revoke all on function pgrag.list_principals from public;
