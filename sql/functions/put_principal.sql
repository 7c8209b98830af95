create or replace function pgrag.put_principal(p_name text, p_kind text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
begin
  perform pgrag_private.check_name('principal', p_name);
  if p_kind is null or p_kind not in ('user', 'service', 'group') then
    raise exception using errcode = 'RG407', message = 'the kind of principal is not known', hint = 'Kinds: user, service, group.';
  end if;
  insert into pgrag_data.principal (tenant_id, kind, name) values (v_principal.tenant_id, p_kind, p_name)
    on conflict (tenant_id, name) where dropped_at is null do nothing;
  if (pgrag_private.find_principal(v_principal.tenant_id, p_name)).kind <> p_kind then
    raise exception using errcode = 'RG407', message = 'a principal of this name exists with another kind',
      hint = 'Take another name, or drop it first: what it could read does not pass to its successor.';
  end if;
end
$$;

comment on function pgrag.put_principal is 'Creates a user, service or group of the admin''s tenant.';
revoke all on function pgrag.put_principal from public;
