-- Takes pgrag out of this database, with every row and key of it, and its roles out of the cluster unless
-- another database needs them. As the role that installed it, or a superuser:
--
--   psql -X -v ON_ERROR_STOP=1 -f uninstall.sql
--
-- It is one statement, so all of it happens or nothing. Nothing is dropped by CASCADE: an object of yours that
-- depends on pgrag, or lies in one of its schemas, stops it.
do $$
declare
  v_installer text := current_user;
  v_superuser boolean := (select rolsuper from pg_roles where rolname = current_user);
  v_object    text;
begin
  if (select count(*) from pg_namespace n join pg_roles r on r.oid = n.nspowner
       where n.nspname in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block') and r.rolname = 'pgrag_owner') <> 4 then
    raise exception using errcode = 'RG109', message = 'pgrag is not in this database',
      hint = 'Connect to the database that has it.';
  end if;

  -- As at installation: SET on the owners is taken, and given back below.
  if not v_superuser then
    begin
      execute format('grant pgrag_owner, pgrag_engine to %I with inherit false, set true', v_installer);
    exception when insufficient_privilege then
      raise exception using errcode = 'RG104', message = format('role %I did not install pgrag, and may not uninstall it', v_installer),
        hint = 'Uninstall as the role that installed it, or as a superuser.';
    end;
  end if;

  -- What the two have of their own in this database besides objects. The owner of a schema may drop all that
  -- is in it, and drops what pgrag's roles own; DROP SCHEMA then fails if anything else is left.
  set local search_path = pg_catalog; -- so that names come out qualified
  set local role pgrag_engine;
  alter default privileges grant execute on functions to public;
  alter default privileges grant usage on types to public;
  set local role pgrag_owner;
  alter default privileges grant execute on functions to public;
  alter default privileges grant usage on types to public;

  -- Views read tables; policies, functions and indexes name each other's tables, types and functions; so the order is
  -- this, and each kind goes as one statement, within which order does not matter.
  for v_object in
    select 'drop view ' || string_agg(c.oid::regclass::text, ', ') from pg_class c
     where c.relnamespace in ('pgrag'::regnamespace, 'pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
       and c.relkind = 'v' and c.relowner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole, 'pgrag_viewer'::regrole)
    having count(*) > 0
  loop
    execute v_object;
  end loop;
  for v_object in
    select format('drop policy %I on %s', p.polname, c.oid::regclass) from pg_policy p join pg_class c on c.oid = p.polrelid
     where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace, 'pgrag_block'::regnamespace)
       and c.relowner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole)
  loop
    execute v_object;
  end loop;
  for v_object in
    select 'drop index ' || string_agg(distinct i.indexrelid::regclass::text, ', ')
      from pg_index i
      join pg_class c on c.oid = i.indrelid
      join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
      join pg_proc p on d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
     where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relowner = 'pgrag_owner'::regrole
       and p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace)
    having count(*) > 0
  loop
    execute v_object;
  end loop;
  for v_object in
    select 'drop routine ' || string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace)
       and p.proowner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole)
    having count(*) > 0
  loop
    execute v_object;
  end loop;
  for v_object in
    select 'drop table ' || string_agg(c.oid::regclass::text, ', ') from pg_class c
     where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace, 'pgrag_block'::regnamespace)
       and c.relkind in ('r', 'p') and not c.relispartition
       and c.relowner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole)
    having count(*) > 0
  loop
    execute v_object;
  end loop;
  for v_object in
    select 'drop type ' || string_agg(c.reltype::regtype::text, ', ') from pg_class c
     where c.relnamespace = 'pgrag_private'::regnamespace and c.relkind = 'c' and c.relowner = 'pgrag_engine'::regrole
    having count(*) > 0
  loop
    execute v_object;
  end loop;
  drop schema pgrag, pgrag_data, pgrag_private, pgrag_block;

  execute format('set local role %I', v_installer);
  drop table if exists public.pgrag_alembic_version;
  if not v_superuser then
    execute format('revoke pgrag_owner, pgrag_engine from %I granted by %I', v_installer, v_installer);
  end if;

  foreach v_object in array array['pgrag_browser', 'pgrag_keys', 'pgrag_operator', 'pgrag_auditor', 'pgrag_admin',
                                  'pgrag_writer', 'pgrag_reader', 'pgrag_viewer', 'pgrag_engine', 'pgrag_owner']
  loop
    begin
      execute format('drop role %I', v_object);
    exception when dependent_objects_still_exist or insufficient_privilege or undefined_object then
      raise notice 'role % stays: %', v_object, sqlerrm
        using detail = 'Another database of the cluster has pgrag, or something else depends on the role.';
    end;
  end loop;
  if not has_database_privilege('public', current_database(), 'temporary') then
    raise notice 'PUBLIC may create no temporary objects in this database, as since the installation'
      using hint = format('To let it again: grant temporary on database %I to public;', current_database());
  end if;
end
$$;
