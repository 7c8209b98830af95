-- Every reason not to upgrade; then the locks; then what is applied again below is cleared away. Which version
-- becomes which, and which functions stay, is said above, where this script was built.

-- Outside of a transaction nothing happens at all: see 00_roles.sql.
savepoint pgrag_install; -- noqa: PRS
set default_transaction_read_only = on;
set local pgrag.upgrading = 'begun';
-- The same upgrade whatever the session has set, and nothing found in public that is meant to be PostgreSQL's.
set local client_encoding = 'UTF8';
set local standard_conforming_strings = on;
set local search_path = pg_catalog, pg_temp;

do $$
declare
  v_from  text := current_setting('pgrag.upgrade_from', true);
  v_to    text := current_setting('pgrag.upgrade_to', true);
  v_found text;
begin
  if current_setting('pgrag.upgrading', true) is distinct from 'begun' then
    raise exception using errcode = 'RG110',
      message = 'the upgrade does not run as one transaction, so it does nothing',
      hint = 'psql -X -1 -v ON_ERROR_STOP=1 -f ...';
  end if;
  if current_setting('lock_timeout') = '0' then
    perform set_config('lock_timeout', '5s', true); -- so that it fails rather than hold up everybody behind it
  end if;

  if (select count(*) from pg_namespace n join pg_roles r on r.oid = n.nspowner
       where n.nspname in ('pgrag', 'pgrag_data', 'pgrag_private') and r.rolname = 'pgrag_owner') <> 3
     or to_regclass('public.pgrag_alembic_version') is null then
    raise exception using errcode = 'RG109', message = 'pgrag is not in this database',
      hint = 'Connect to the database that has it; to install it, run dist/pgrag--' || v_to || '.sql.';
  end if;

  -- Whoever owns the stamp installed; and only the owner of the database can take TEMP from PUBLIC.
  if not pg_has_role((select c.relowner from pg_class c where c.oid = 'public.pgrag_alembic_version'::regclass), 'usage')
     or not pg_has_role((select d.datdba from pg_database d where d.datname = current_database()), 'usage') then
    raise exception using errcode = 'RG104',
      message = format('role %I did not install pgrag or does not own this database, and may not upgrade it', current_user),
      hint = 'Upgrade as the role that installed it and owns the database, or as a superuser.';
  end if;

  -- Two upgrades at once: the second waits here, and then finds that there is nothing to do.
  begin
    lock table public.pgrag_alembic_version in share row exclusive mode;
  exception when lock_not_available then
    raise exception using errcode = 'RG112', message = 'another upgrade is under way', hint = 'Let it end, and look again.';
  end;
  select string_agg(version_num, ', ') into v_found from public.pgrag_alembic_version;
  if v_found is distinct from v_from then
    raise exception using errcode = 'RG111',
      message = format('this database has pgrag %s, and this script upgrades %s to %s', coalesce(v_found, 'without a version'), v_from, v_to),
      hint = case v_found when v_to then 'There is nothing to do.'
                          else 'Run the scripts dist/pgrag--<from>--<to>.sql that lead from the one to the other, in order.' end;
  end if;

  if not (select rolsuper from pg_roles where rolname = current_user) then
    begin
      execute format('grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with inherit false, set true', current_user);
    exception when insufficient_privilege then
      raise exception using errcode = 'RG104',
        message = format('role %I may not act as the roles that own pgrag', current_user),
        hint = format('As the role that installed pgrag first, or a superuser: '
                      'grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with admin true, inherit false, set false;', current_user);
    end;
  end if;
end
$$;

-- The locks, all of them now: whoever has a token has read signing_key, so once that is had nobody is inside, no
-- statement sees half of one version and half of the other, and no two wait for each other. Readers wait from
-- here to the end.
set local role pgrag_owner;
do $$
declare
  v_tables  oid[];
  v_holders text;
begin
  select array_agg(c.oid order by c.relname <> 'signing_key', c.oid) into v_tables
    from pg_class c
   where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
     and c.relkind in ('r', 'p') and c.relowner = 'pgrag_owner'::regrole;
  begin
    execute format('lock table %s in access exclusive mode',
                   (select string_agg(t::regclass::text, ', ' order by n) from unnest(v_tables) with ordinality as u (t, n)));
  exception when lock_not_available or deadlock_detected then
    select string_agg(distinct l.pid::text, ', ') into v_holders
      from pg_locks l
     where l.database = (select oid from pg_database where datname = current_database())
       and l.relation = any (v_tables) and l.granted and l.pid <> pg_backend_pid();
    raise exception using errcode = 'RG112',
      message = format('pgrag is in use, and the upgrade waits no longer than %s', current_setting('lock_timeout')),
      detail = format('processes that have its tables locked: %s', coalesce(v_holders, 'none any more')),
      hint = 'Let their transactions end (pg_stat_activity lists them) and try again, or wait longer: PGOPTIONS="-c lock_timeout=1min".';
  end;
end
$$;

-- Policies: all of them, ours or not. A permissive one that the source has no more would let its rows out for good.
do $$
declare
  v_policy text;
begin
  for v_policy in
    select format('drop policy %I on %s', p.polname, c.oid::regclass) from pg_policy p join pg_class c on c.oid = p.polrelid
     where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relowner = 'pgrag_owner'::regrole
  loop
    execute v_policy;
  end loop;
end
$$;

-- Functions: one whose declaration has not changed is replaced in place, so that what calls it goes on. Any other goes
-- before its successor comes, or an old overload would stay and be called. So it is with types, which are in no table.
-- And with either goes what of pgrag's is built on it: functions, and indexes over them; and so does an index that
-- could not be built to the end.
set local role pgrag_engine;
do $$
declare
  v_types   oid[];
  v_gone    oid[];
  v_indexes text;
begin
  select array_agg(t.oid) into v_types
    from pg_type t join pg_class c on c.oid = t.typrelid
   where c.relkind = 'c' and t.typnamespace = 'pgrag_private'::regnamespace and t.typowner = 'pgrag_engine'::regrole
     and t.oid not in (
       select to_regtype(kept) from unnest(string_to_array(current_setting('pgrag.upgrade_keeps_types'), e'\n')) as k (kept)
        where to_regtype(kept) is not null);
  with recursive ours (oid) as (
    select p.oid from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.proowner = 'pgrag_engine'::regrole
  ), gone (oid) as (
    select o.oid from ours o
     where o.oid not in (
       select to_regprocedure(kept) from unnest(string_to_array(current_setting('pgrag.upgrade_keeps_functions'), e'\n')) as k (kept)
        where to_regprocedure(kept) is not null)
    union
    select d.objid
      from pg_depend d join pg_type t on t.oid = d.refobjid
     where d.refclassid = 'pg_type'::regclass and d.classid = 'pg_proc'::regclass
       and (t.oid = any (v_types) or t.typelem = any (v_types)) and d.objid in (select oid from ours)
    union
    select d.objid
      from gone g join pg_depend d on d.refobjid = g.oid
     where d.refclassid = 'pg_proc'::regclass and d.classid = 'pg_proc'::regclass and d.objid in (select oid from ours)
  )
  select array_agg(oid) into v_gone from gone;

  select string_agg(i.indexrelid::regclass::text, ', ') into v_indexes
    from pg_index i join pg_class c on c.oid = i.indrelid
   where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relowner = 'pgrag_owner'::regrole
     and (not i.indisvalid or exists (
       select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
          and d.refclassid = 'pg_proc'::regclass and d.refobjid = any (v_gone)));
  if v_indexes is not null then
    set local role pgrag_owner;
    execute 'drop index ' || v_indexes;
    set local role pgrag_engine;
  end if;
  if v_gone is not null then
    execute 'drop routine ' || (select string_agg(g::regprocedure::text, ', ') from unnest(v_gone) as u (g));
  end if;
  if v_types is not null then
    execute 'drop type ' || (select string_agg(t::regtype::text, ', ') from unnest(v_types) as u (t));
  end if;
end
$$;

-- Privileges: a grant that is not made below does not exist, whoever made it to whom.
reset role;
do $$
declare
  v_owner  text;
  v_revoke text;
begin
  for v_owner, v_revoke in
    select o.owner::regrole::text,
           format('revoke all on %s %s from %s cascade', o.kind, o.name, case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
      from (
        select c.relnamespace, c.relowner, case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, c.relacl
          from pg_class c where c.relkind in ('r', 'p', 'v', 'S')
        union all
        select c.relnamespace, c.relowner, 'table', c.oid::regclass::text, t.attacl
          from pg_attribute t join pg_class c on c.oid = t.attrelid
        union all
        select p.pronamespace, p.proowner, 'routine', p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
          from pg_proc p
        union all
        select t.typnamespace, t.typowner, 'type', t.oid::regtype::text, t.typacl from pg_type t
        union all
        select n.oid, n.nspowner, 'schema', quote_ident(n.nspname), n.nspacl from pg_namespace n
      ) o (schema, owner, kind, name, acl)
      cross join lateral aclexplode(o.acl) a
     where o.schema in ('pgrag'::regnamespace, 'pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
       and o.owner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole, 'pgrag_viewer'::regrole)
       and a.grantee <> o.owner
     group by o.kind, o.name, o.owner, a.grantee
     order by o.kind = 'schema' -- whose USAGE the others need
  loop
    execute 'set local role ' || v_owner;
    execute v_revoke;
  end loop;
  reset role;
  revoke all on public.pgrag_alembic_version from public, pgrag_engine;
end
$$;
