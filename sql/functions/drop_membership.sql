create or replace function pgrag.drop_membership(p_group text, p_member text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
  v_group     pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_group);
  v_member    pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_member);
begin
  delete from pgrag_data.membership m
   where m.tenant_id = v_principal.tenant_id and m.member_id = v_member.principal_id and m.group_id = v_group.principal_id;
  if not found then
    perform pgrag_private.not_found('membership');
  end if;
end
$$;

comment on function pgrag.drop_membership is 'Ends a membership; what came with it is gone at commit.';
revoke all on function pgrag.drop_membership from public;
