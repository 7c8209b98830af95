-- Roles and schemas, and every reason not to install.
--
--   pgrag          what applications see: functions and two views
--   pgrag_data     tables with tenant data; nobody but the roles below has USAGE
--   pgrag_block    copies of vectors that dense searches use: tables that pgrag.maintain() makes
--   pgrag_private  keys and internals
--
--   pgrag_owner    owns the tables; row-level security is forced, so it sees no rows
--   pgrag_engine   owns the SECURITY DEFINER functions; the only role whose policies show every row
--   pgrag_viewer   owns the two views; its policies show what the session's principal may see
--   pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_operator, pgrag_keys
--                  EXECUTE on their functions and nothing else; grant them to login roles
--   pgrag_browser  opt-in: SELECT on the views
--
-- Nothing here adopts an object it did not make. Roles belong to the cluster, so a second database
-- finds them there and uses them, after a look at their attributes.

-- A savepoint exists only inside a transaction: run with `psql -1`, or nothing happens at all. For a psql that
-- goes on after errors there is a second lock: the setting makes read-only what begins after it, which is every
-- statement there, and no transaction that has begun. 99_grants.sql takes it back.
savepoint pgrag_install; -- noqa: PRS
set default_transaction_read_only = on;
set local pgrag.installing = 'begun';
-- The same installation whatever the session has set, and nothing found in public that is meant to be PostgreSQL's.
set local client_encoding = 'UTF8';
set local standard_conforming_strings = on;
set local search_path = pg_catalog, pg_temp;

-- ASCII only: a database of another encoding must be able to read why it will not do.
do $$
declare
  v_server integer := current_setting('server_version_num');
begin
  if current_setting('pgrag.installing', true) is distinct from 'begun' then
    raise exception using errcode = 'RG110',
      message = 'the installation does not run as one transaction, so it does nothing',
      hint = 'psql -X -1 -v ON_ERROR_STOP=1 -f ...';
  end if;
  if v_server < 160000 then
    raise exception using errcode = 'RG103',
      message = format('PostgreSQL %s is too old for pgrag', current_setting('server_version')),
      hint = 'Use PostgreSQL 16, 17 or 18.';
  end if;
  if v_server < 160016 or v_server between 170000 and 170011 or v_server between 180000 and 180006 then
    raise warning using
      message = format('PostgreSQL %s lacks a correction of row-level security', current_setting('server_version')),
      detail = 'The hole needs privileges on tables, which no application role of pgrag has.',
      hint = 'Update to 16.16, 17.12 or 18.7, and grant no privileges on tables until then.';
  end if;
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception using errcode = 'RG108',
      message = format('this database is encoded in %s, and pgrag counts spans in Unicode code points', current_setting('server_encoding')),
      hint = 'create database ... encoding utf8 template template0;';
  end if;
end
$$;

do $$
declare
  v_version text;
  v_schema  text;
  v_taken   text;
begin
  select string_agg(nspname, ', ' order by nspname) into v_taken
    from pg_namespace where nspname in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block');
  if v_taken is not null then
    raise exception using errcode = 'RG105',
      message = 'this database already has pgrag, or a schema of its name',
      detail = format('schemas: %s', v_taken),
      hint = 'To upgrade, run dist/pgrag--<from>--<to>.sql; to start again, first run the output of "pgrag sql --uninstall".';
  end if;

  select e.extversion, n.nspname into v_version, v_schema
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
  if v_version is null then
    raise exception using errcode = 'RG101',
      message = 'the extension vector is not in this database',
      hint = 'As a superuser, or through your provider, once: create extension vector;';
  end if;
  if v_schema <> 'public' then
    raise exception using errcode = 'RG106',
      message = format('the extension vector is in schema %I, and pgrag looks for it in public', v_schema),
      hint = 'As its owner: alter extension vector set schema public;';
  end if;
  if not has_schema_privilege('public', 'public', 'usage') then
    raise exception using errcode = 'RG106',
      message = 'schema public, which has the extension vector, is closed to the roles of pgrag',
      hint = 'As its owner: grant usage on schema public to public; (CREATE is not needed.)';
  end if;
  if string_to_array(v_version, '.')::int[] < array[0, 8, 4]
     and not (string_to_array(v_version, '.')::int[] >= array[0, 8, 2]
              and coalesce(nullif(current_setting('pgrag.allow_old_pgvector', true), ''), 'off')::boolean) then
    raise exception using errcode = 'RG102',
      message = format('the extension vector is %s, and pgrag needs 0.8.4 or later', v_version),
      hint = 'Update the pgvector package, then: alter extension vector update; '
             '(0.8.2 and 0.8.3 install after: set pgrag.allow_old_pgvector = on;)';
  end if;

  -- Only the owner can take TEMP from PUBLIC; PostgreSQL merely warns anyone else.
  if not pg_has_role((select datdba from pg_database where datname = current_database()), 'usage')
     or not has_database_privilege(current_database(), 'create') or not has_schema_privilege('public', 'create') then
    raise exception using errcode = 'RG104',
      message = format('role %I does not own this database, or may not create in it or in its schema public', current_user),
      hint = 'Install as the owner of the database, a role with CREATEROLE.';
  end if;
  if lower(U&'\00C4') <> U&'\00E4' then
    raise warning using message = 'this database''s locale knows ASCII letters only: words of other languages will be missed',
      hint = 'Create the database with lc_ctype C.UTF-8, or a locale of your language.';
  end if;
  set local pgrag.installing = 'checked';
end
$$;

-- The roles. A CREATEROLE installer gets ADMIN on those it creates; it takes SET for the time of the
-- installation only, and 99_grants.sql gives it back. A superuser needs to take nothing.
do $$
declare
  v_role   text;
  v_trust  text;
  v_actors text;
begin
  if current_setting('pgrag.installing', true) is distinct from 'checked' then
    raise exception using errcode = 'RG110', message = 'the checks did not pass, so nothing is installed',
      hint = 'psql -X -1 -v ON_ERROR_STOP=1 -f … stops at the first error.';
  end if;
  set local createrole_self_grant = ''; -- otherwise the installer would become a member of all of them
  foreach v_role in array array['pgrag_owner', 'pgrag_engine', 'pgrag_viewer', 'pgrag_reader', 'pgrag_writer',
                                'pgrag_admin', 'pgrag_auditor', 'pgrag_operator', 'pgrag_keys', 'pgrag_browser']
  loop
    if not exists (select from pg_roles where rolname = v_role) then
      begin
        execute format('create role %I nologin noinherit', v_role);
      exception when insufficient_privilege then
        raise exception using errcode = 'RG104',
          message = format('role %I may not create roles', current_user),
          hint = 'Install as a role with CREATEROLE that owns the database.';
      end;
    end if;
  end loop;

  select string_agg(rolname, ', ' order by rolname) into v_trust
    from pg_roles
   where rolname in ('pgrag_owner', 'pgrag_engine', 'pgrag_viewer')
     and (rolcanlogin or rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication);
  if v_trust is not null then
    raise exception using errcode = 'RG107',
      message = 'roles of pgrag exist with attributes that they must not have',
      detail = format('roles: %s', v_trust),
      hint = 'alter role … nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication; or drop them.';
  end if;

  if not (select rolsuper from pg_roles where rolname = current_user) then
    begin
      execute format('grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with inherit false, set true', current_user);
    exception when insufficient_privilege then
      raise exception using errcode = 'RG104',
        message = format('role %I may not install with the roles that another installation made', current_user),
        hint = format('As the role that installed pgrag first, or a superuser: '
                      'grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with admin true, inherit false, set false;', current_user);
    end;
  end if;

  -- Roles that were here before may have members, and so may roles that somebody made in advance.
  select string_agg(distinct m.rolname, ', ') into v_actors
    from pg_auth_members a
    join pg_roles r on r.oid = a.roleid
    join pg_roles m on m.oid = a.member
   where r.rolname in ('pgrag_owner', 'pgrag_engine', 'pgrag_viewer') and not m.rolsuper and m.rolname <> current_user;
  if v_actors is not null then
    raise warning using
      message = 'other roles may act as the owner or the engine of pgrag, or let others',
      detail = format('roles: %s', v_actors),
      hint = 'That is right for a role that installs or backs up; revoke it from any other.';
  end if;

  create schema pgrag authorization pgrag_owner;
  create schema pgrag_data authorization pgrag_owner;
  create schema pgrag_private authorization pgrag_owner;
end
$$;
