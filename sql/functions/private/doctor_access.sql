-- Roles, and what they may do in the database beside pgrag. An application role is one of the seven that functions are granted to,
-- or one that has such a role or may take it.
create or replace function pgrag_private.doctor_access() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 20 as $$
declare
  trusted constant text[] := array['pgrag_owner', 'pgrag_engine', 'pgrag_viewer'];
  groups  constant text[] := array['pgrag_reader', 'pgrag_writer', 'pgrag_admin', 'pgrag_auditor', 'pgrag_operator', 'pgrag_keys', 'pgrag_browser'];
  v_applications oid[];
  v_reached      oid[]; -- these, and every role whose rights one of them has or may take; a superuser has all, which is said once
begin
  with recursive application (oid) as (
    select r.oid from pg_roles r where r.rolname = any (groups)
    union
    select m.member from application a join pg_auth_members m on m.roleid = a.oid where m.inherit_option or m.set_option
  )
  select array_agg(a.oid) into v_applications from application a;
  select array_agg(r.oid) into v_reached
    from pg_roles r
   where r.oid = any (v_applications)
      or exists (select from unnest(v_applications) as u (oid) join pg_roles a on a.oid = u.oid
                  where not a.rolsuper and (pg_has_role(a.oid, r.oid, 'usage') or pg_has_role(a.oid, r.oid, 'set')));

  return query
  select 'roles', 'error', n.name, 'the role is missing', format('create role %I nologin noinherit;', n.name)
    from unnest(trusted || groups) as n (name) where not exists (select from pg_roles r where r.rolname = n.name)
  union all
  select 'roles', 'error', r.rolname::text, 'the role can log in, or has an attribute',
         format('alter role %I nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication noinherit;', r.rolname)
    from pg_roles r
   where r.rolname = any (trusted || groups)
     and (r.rolcanlogin or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolinherit)
  union all
  select 'roles', 'error', m.member::regrole::text, format('the role is a member of %s', m.roleid::regrole),
         format('revoke %s from %s granted by %s;', m.roleid::regrole, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m join pg_roles r on r.oid = m.member where r.rolname = any (trusted || groups)
  union all
  select 'trusted_roles', case when m.member = any (v_reached) then 'error' when m.inherit_option then 'warning' else 'note' end, m.member::regrole::text,
         case when m.member = any (v_reached) then format('an application may act as %s', r.rolname)
              when m.inherit_option then format('the role has the rights of %s all the time', r.rolname)
              else format('the role may become %s: right for one that installs or backs up', r.rolname) end,
         format('revoke %s from %s granted by %s;', r.rolname, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m
    join pg_roles r on r.oid = m.roleid
   where r.rolname = any (trusted) and (m.inherit_option or m.set_option) and m.member::regrole::text <> all (trusted || groups)
  union all
  select 'application_roles', case when r.rolsuper or r.rolbypassrls or r.rolreplication then 'error' else 'warning' end, r.rolname::text,
         case when r.rolsuper then 'an application role is a superuser, who is above all rules'
              when r.rolbypassrls then 'an application role is above row-level security'
              when r.rolreplication then 'an application role may copy the whole server'
              else 'an application role may create roles or databases' end,
         format('alter role %I nosuperuser nobypassrls nocreaterole nocreatedb noreplication;', r.rolname)
    from pg_roles r
   where r.oid = any (v_applications) and r.rolname <> all (groups)
     and (r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication)
  union all
  select 'application_roles', 'error', m.member::regrole::text, format('an application role has %s', m.roleid::regrole),
         format('revoke %s from %s granted by %s;', m.roleid::regrole, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m
   where m.roleid::regrole::text in ('pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files',
                                     'pg_execute_server_program', 'pg_maintain', 'pg_create_subscription')
     and m.member = any (v_reached)
  union all
  select case a.privilege_type when 'TEMPORARY' then 'temporary' else 'create' end, 'error', format('%s to %s', o.object, g.grantee),
         case when a.grantee = o.owner then format('an application role owns the %s', o.object)
              when a.privilege_type = 'TEMPORARY' then 'temporary objects may be created: names that other code might find first'
              else 'an application role may create objects' end,
         case when a.grantee = o.owner then format('alter %s owner to …, a role that no application has', o.object)
              else format('revoke %s on %s from %s;', lower(a.privilege_type), o.object, g.grantee) end
    from (select format('database %I', d.datname) as object, d.datdba as owner, coalesce(d.datacl, acldefault('d', d.datdba)) as acl
            from pg_database d where d.datname = current_database()
          union all
          select format('schema %I', n.nspname), n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
            from pg_namespace n where n.nspname !~ '^(pg_temp_|pg_toast)' and n.nspname not in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block')) o
   cross join lateral aclexplode(o.acl) a
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   where a.privilege_type in ('TEMPORARY', 'CREATE') and (a.grantee = 0 or a.grantee = any (v_reached))
     and not (a.grantee = o.owner and a.privilege_type = 'TEMPORARY'); -- said once
end
$$;
