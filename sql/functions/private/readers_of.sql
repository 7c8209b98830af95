-- Who the reader is, for access: itself, the groups it is in, the groups they are in, and everyone. UNION
-- stops at what it has seen, so a cycle of groups ends; a dropped principal leads nowhere.
create or replace function pgrag_private.closure(p_tenant_id bigint, p_reader_id bigint) returns setof bigint
language sql stable parallel restricted
begin atomic
  with recursive closure (principal_id) as (
    select p.principal_id from pgrag_data.principal p
     where p.tenant_id = p_tenant_id and p.principal_id = p_reader_id and p.dropped_at is null
    union
    select g.principal_id
      from closure c
      join pgrag_data.membership m on m.tenant_id = p_tenant_id and m.member_id = c.principal_id
      join pgrag_data.principal g on g.tenant_id = p_tenant_id and g.principal_id = m.group_id and g.dropped_at is null
  )
  select c.principal_id from closure c
  union all
  select p.principal_id from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.kind = 'everyone' and exists (select from closure);
end;

-- The access lists that let the reader in.
create or replace function pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns setof bigint
language plpgsql stable parallel restricted as $$
begin
  return query
  select distinct e.acl_id
    from pgrag_private.closure(p_tenant_id, p_reader_id) as c (principal_id)
    join pgrag_data.acl_entry e on e.tenant_id = p_tenant_id and e.principal_id = c.principal_id;
end
$$;

-- The access list of a set of readers, found or made. Two at once make one: the fingerprint is unique, and
-- it is read again in a statement of its own, which sees what the other committed.
create or replace function pgrag_private.acl_of(p_tenant_id bigint, p_readers text[]) returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_ids         bigint[];
  v_fingerprint bytea;
  v_acl_id      bigint;
begin
  select array_agg(p.principal_id order by p.principal_id) into v_ids
    from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.name = any (p_readers) and p.dropped_at is null;
  v_ids := coalesce(v_ids, '{}');
  if cardinality(v_ids) <> (select count(distinct reader) from unnest(p_readers) as r (reader)) then
    raise exception using errcode = 'RG401', message = 'there is no such reader',
      detail = 'at least one of the names is not a user, service or group of this tenant',
      hint = 'Create it with pgrag.put_principal; "everyone" stands for every known principal of the tenant.';
  end if;
  v_fingerprint := pgrag_private.fingerprint(variadic v_ids::text[]);

  select a.acl_id into v_acl_id from pgrag_data.acl a where a.tenant_id = p_tenant_id and a.fingerprint = v_fingerprint;
  if not found then
    insert into pgrag_data.acl (tenant_id, fingerprint) values (p_tenant_id, v_fingerprint)
      on conflict on constraint acl_fingerprint_key do nothing
      returning acl_id into v_acl_id;
    if v_acl_id is null then
      select a.acl_id into v_acl_id from pgrag_data.acl a where a.tenant_id = p_tenant_id and a.fingerprint = v_fingerprint;
    else
      insert into pgrag_data.acl_entry (tenant_id, acl_id, principal_id)
      select p_tenant_id, v_acl_id, id from unnest(v_ids) as i (id);
    end if;
  end if;
  return v_acl_id;
end
$$;
