create or replace function pgrag.list_memberships(p_token text default null) returns table ("group" text, member text, kind text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'admin');
begin
  return query
  select g.name::text, p.name::text, p.kind::text
    from pgrag_data.membership m
    join pgrag_data.principal g on g.tenant_id = m.tenant_id and g.principal_id = m.group_id and g.dropped_at is null
    join pgrag_data.principal p on p.tenant_id = m.tenant_id and p.principal_id = m.member_id and p.dropped_at is null
   where m.tenant_id = v_principal.tenant_id
   order by 1, 2;
end
$$;

comment on function pgrag.list_memberships is 'Who belongs directly to which group of the admin''s tenant.';
revoke all on function pgrag.list_memberships from public;
