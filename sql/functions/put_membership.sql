create or replace function pgrag.put_membership(p_group text, p_member text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
  v_group     pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_group);
  v_member    pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_member);
begin
  if v_group.kind <> 'group' or v_member.kind = 'everyone' then
    raise exception using errcode = 'RG407', message = 'only groups have members, and everyone is a member of none',
      hint = 'Create a group with pgrag.put_principal(…, ''group'').';
  end if;
  insert into pgrag_data.membership (tenant_id, member_id, group_id)
  values (v_principal.tenant_id, v_member.principal_id, v_group.principal_id)
  on conflict on constraint membership_pkey do nothing;
end
$$;

comment on function pgrag.put_membership is 'Makes a user, service or group a member of a group.';
revoke all on function pgrag.put_membership from public;
