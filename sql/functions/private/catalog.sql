-- What pgrag.doctor() compares: what there is in pgrag's schemas, where it can be as statements that would make it so, and what
-- there should be (expected_objects.sql, made of a new installation). What is expected and not there is repaired by its statement; what
-- is there and not expected, by `undo`; null: it harms nobody. The settings are for the same words in every session.
create or replace function pgrag_private.catalog()
returns table (check_name text, object text, item text, undo text)
language sql stable parallel restricted rows 2000
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set IntervalStyle = iso_8601 set DateStyle = 'ISO, YMD' as $$
  with schemas as (
    select n.oid, n.nspname, n.nspowner, n.nspacl from pg_namespace n where n.nspname in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block')
  ), relations as (
    select c.*, c.oid::regclass::text as name,
           case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end as kind
      from pg_class c where c.relnamespace in (select oid from schemas) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  ), tables as (
    select * from relations where kind in ('table', 'foreign table', 'materialized view')
  ), functions as (
    select p.*, p.oid::regprocedure::text as name from pg_proc p where p.pronamespace in (select oid from schemas)
  ), types as (
    select t.*, t.oid::regtype::text as name
      from pg_type t left join pg_class c on c.oid = t.typrelid
     where t.typnamespace in (select oid from schemas) and t.typelem = 0 and (t.typtype <> 'c' or c.relkind = 'c')
  )
  select 'row_security', t.name, format('alter table %s %s row level security', t.name, w.word), null::text
    from tables t cross join lateral (values ('enable', t.relrowsecurity), ('force', t.relforcerowsecurity)) as w (word, is_so)
   where w.is_so
  union all
  select 'policies', format('%I on %s', p.polname, t.name),
         format('create policy %I on %s as %s for %s to %s', p.polname, t.name, case when p.polpermissive then 'permissive' else 'restrictive' end,
                case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
                (select string_agg(case r.oid when 0 then 'public' else r.oid::regrole::text end, ', ' order by r.oid::regrole::text) from unnest(p.polroles) as r (oid)))
           || coalesce(' using (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
           || coalesce(' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''),
         format('drop policy %I on %s', p.polname, t.name)
    from pg_policy p join tables t on t.oid = p.polrelid
  union all
  -- The right of one role, of one object, and the right to pass it on; an owner's own are not looked at.
  select distinct case when a.grantee = 0 and o.kind = 'function' then 'public_execute' else 'privileges' end,
         format('%s%s on %s %s to %s', p.passing, lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee),
         format('grant %s on %s %s to %s%s', lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee, case when p.passing <> '' then ' with grant option' end),
         format('revoke %s%s on %s %s from %s cascade', p.passing, lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee)
    from (select 'schema' as kind, quote_ident(s.nspname) as name, '' as columns, s.nspowner as owner, s.nspacl as acl from schemas s
          union all
          select case when r.kind = 'sequence' then 'sequence' else 'table' end, r.name, '', r.relowner, r.relacl from relations r
          union all
          select 'table', r.name, format(' (%I)', c.attname), r.relowner, c.attacl from pg_attribute c join relations r on r.oid = c.attrelid where c.attacl is not null
          union all
          select 'function', f.name, '', f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)) from functions f
          union all
          select 'type', t.name, '', t.typowner, coalesce(t.typacl, acldefault('T', t.typowner)) from types t) o
   cross join lateral aclexplode(o.acl) a
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   cross join (values (''), ('grant option for ')) as p (passing)
   where a.grantee <> o.owner and (p.passing = '' or a.is_grantable)
  union all
  select 'owners', o.kind || ' ' || o.name, format('alter %s %s owner to %s', o.kind, o.name, o.owner::regrole), null
    from (select 'schema' as kind, quote_ident(s.nspname) as name, s.nspowner as owner from schemas s
          union all
          select r.kind, r.name, r.relowner from relations r where r.kind <> 'sequence' -- which belong to their tables
          union all
          select 'function', f.name, f.proowner from functions f
          union all
          select 'type', t.name, t.typowner from types t) o
  union all
  select 'functions', f.name, format('%s(%s) returns %s', f.oid::regproc, pg_get_function_arguments(f.oid), pg_get_function_result(f.oid)),
         format('drop routine %s', f.name)
    from functions f
  union all
  select 'function_attributes', f.name,
         format('alter function %s %s parallel %s%s%s%s', f.name, case f.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
                case f.proparallel when 's' then 'safe' when 'r' then 'restricted' else 'unsafe' end,
                case when f.proisstrict then ' strict' else '' end, case when f.proleakproof then ' leakproof' else '' end, -- none of pgrag's is
                case when f.prosecdef then ' security definer' else ' security invoker' end),
         null
    from functions f
  union all
  select case s.name when 'search_path' then 'search_path' else 'function_settings' end, s.name || ' of ' || f.name,
         format('alter function %s set %s to %s', f.name, s.name, case s.name when 'search_path' then s.value else quote_literal(s.value) end),
         format('alter function %s reset %s', f.name, s.name)
    from functions f
   cross join lateral unnest(f.proconfig) as c (setting)
   cross join lateral (select split_part(c.setting, '=', 1) as name, substr(c.setting, strpos(c.setting, '=') + 1) as value) s
  union all
  select 'tables', t.name,
         'columns ' || (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || case when a.attnotnull then ' not null' else '' end,
                                          ', ' order by a.attname)
                          from pg_attribute a where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped),
         case when t.name !~ '^pgrag_block\.b[0-9]+$' then format('alter %s %s set schema public', t.kind, t.name) end
    from tables t
  union all
  select 'tables', format('%s on %s', c.conname, t.name),
         format('alter table %s add constraint %I %s', t.name, c.conname, regexp_replace(pg_get_constraintdef(c.oid), '\s+', ' ', 'g')), null
    from pg_constraint c join tables t on t.oid = c.conrelid where c.contype in ('p', 'u', 'f', 'c', 'x')
  union all
  select 'triggers', format('%I on %s', g.tgname, t.name), format('trigger %I on %s', g.tgname, t.name), format('drop trigger %I on %s', g.tgname, t.name)
    from pg_trigger g join relations t on t.oid = g.tgrelid where not g.tgisinternal
  union all
  select 'triggers', format('%I on %s', r.rulename, t.name), format('rule %I on %s', r.rulename, t.name), format('drop rule %I on %s', r.rulename, t.name)
    from pg_rewrite r join relations t on t.oid = r.ev_class where r.rulename <> '_RETURN'
  union all
  select 'views', v.name,
         format('create or replace view %s%s as %s', v.name, coalesce(' with (' || array_to_string(v.reloptions, ', ') || ')', ''),
                regexp_replace(pg_get_viewdef(v.oid), '\s+', ' ', 'g')),
         format('drop view %s', v.name)
    from relations v where v.kind = 'view'
  union all
  select 'indexes', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), null
    from pg_index i join tables t on t.oid = i.indrelid
   where not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u', 'x'))
  union all
  -- What is made next is born without rights of PUBLIC, only where its maker's default says so.
  select 'default_privileges', format('%s of %s', k.things, r.rolname),
         format('alter default privileges for role %I revoke all on %s from public', r.rolname, k.things), null
    from pg_roles r
   cross join (values ('f', 'functions'), ('T', 'types')) as k (kind, things)
   where r.rolname in ('pgrag_owner', 'pgrag_engine')
     and exists (select from pg_default_acl d where d.defaclrole = r.oid and d.defaclnamespace = 0 and d.defaclobjtype = k.kind::"char"
                    and not exists (select from aclexplode(d.defaclacl) a where a.grantee = 0))
  union all
  select distinct 'default_privileges', format('%s of %s to %s', k.things, d.defaclrole::regrole, g.grantee),
         format('default privileges of %s on %s to %s', d.defaclrole::regrole, k.things, g.grantee),
         format('alter default privileges for role %s%s revoke all on %s from %s', d.defaclrole::regrole,
                case when d.defaclnamespace <> 0 then ' in schema ' || d.defaclnamespace::regnamespace else '' end,
                k.things, g.grantee)
    from pg_default_acl d
   cross join lateral aclexplode(d.defaclacl) a
   cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types'
                                else 'schemas' end as things) k
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   where (d.defaclnamespace in (select oid from schemas)
          or d.defaclrole in (select r.oid from pg_roles r where r.rolname in ('pgrag_owner', 'pgrag_engine', 'pgrag_viewer')))
     and a.grantee <> d.defaclrole
$$;

-- What should be there. Three things are the same for many objects and so not in expected_objects(): the engine owns functions;
-- definer functions are pinned; and tables of blocks, which come and go, are alike.
create or replace function pgrag_private.expected_catalog() returns table (check_name text, object text, item text)
language sql stable parallel restricted rows 3000
set search_path = pg_catalog, pg_temp as $$
  with listed as materialized (
    select e.* from pgrag_private.expected_objects() e
  ), blocks as (
    select c.oid::regclass::text as name from pg_class c where c.relnamespace = to_regnamespace('pgrag_block') and c.relkind = 'r' and c.relname ~ '^b[0-9]+$'
  )
  select l.* from listed l
  union all
  select 'owners', 'function ' || f.object, format('alter function %s owner to pgrag_engine', f.object)
    from listed f where f.check_name = 'functions' and not exists (select from listed o where o.check_name = 'owners' and o.object = 'function ' || f.object)
  union all
  select case s.name when 'search_path' then 'search_path' else 'function_settings' end, s.name || ' of ' || f.object,
         format('alter function %s set %s to %s', f.object, s.name, case s.name when 'search_path' then s.value else quote_literal(s.value) end)
    from listed f
   cross join lateral (select p.* from pgrag_private.pinned_settings(f.item ~ ' volatile parallel ') p
                       union all select 'search_path', 'pg_catalog, pg_temp') as s (name, value)
   where f.check_name = 'function_attributes' and f.item ~ ' security definer$'
  union all
  select e.check_name, replace(e.object, '%', b.name), replace(e.item, '%', b.name)
    from blocks b
   cross join (values
     ('row_security', '%', 'alter table % enable row level security'),
     ('row_security', '%', 'alter table % force row level security'),
     ('policies', 'pgrag_block_engine on %', 'create policy pgrag_block_engine on % as permissive for all to pgrag_engine using (true) with check (true)'),
     ('privileges', 'select on table % to pgrag_engine', 'grant select on table % to pgrag_engine'),
     ('privileges', 'insert on table % to pgrag_engine', 'grant insert on table % to pgrag_engine'),
     ('owners', 'table %', 'alter table % owner to pgrag_owner')) as e (check_name, object, item)
$$;

-- What the functions do: their text, or a digest of it.
create or replace function pgrag_private.function_bodies() returns table (function text, body text)
language sql stable parallel restricted rows 200
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set IntervalStyle = iso_8601 set DateStyle = 'ISO, YMD' as $$
  select p.oid::regprocedure::text,
         case when p.prosqlbody is null then md5(p.prosrc)
              else format('%s %s', current_setting('server_version_num')::integer / 10000, md5(pg_get_function_sqlbody(p.oid))) end
    from pg_proc p
   where p.pronamespace in (to_regnamespace('pgrag'), to_regnamespace('pgrag_private')) and p.proname <> 'installed_bodies'
$$;

-- The same at the end of the installation, or of an upgrade: made by 98_settings.sql.
create or replace function pgrag_private.installed_bodies() returns jsonb
language sql immutable parallel safe
return null::jsonb;
