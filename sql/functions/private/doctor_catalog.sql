-- Objects: what is expected and not there, and what is there and not expected. Where an object is gone, that is said of it and
-- nothing else.
create or replace function pgrag_private.doctor_catalog() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 100 as $$
begin
  return query
  with there as materialized (
    select c.* from pgrag_private.catalog() c
  ), expected as materialized (
    select e.* from pgrag_private.expected_catalog() e
  ), wanting as (
    select e.* from expected e where not exists (select from there t where t.check_name = e.check_name and t.item = e.item and t.object = e.object)
  ), beside as (
    select t.* from there t
     where t.undo is not null
       and not exists (select from expected e where e.check_name = t.check_name and e.item = t.item and e.object = t.object)
       and not exists (select from wanting w where w.check_name = t.check_name and w.object = t.object)
  ), gone as (
    select w.object from wanting w
     where w.check_name = 'functions' and to_regprocedure(w.object) is null
        or w.check_name in ('tables', 'views') and w.item !~ '^alter table' and to_regclass(w.object) is null
  )
  select c.check_name, c.severity, w.object,
         case c.check_name when 'row_security' then format('row-level security is not %s', case when w.item ~ ' force ' then 'forced' else 'enabled' end)
                           when 'owners' then format('the owner is not %s', substring(w.item from '\S+$'))
                           else c.wanting end,
         case when c.check_name = 'functions' then format('Take it from dist/pgrag--%s.sql (pgrag sql prints it), and run that as pgrag_engine', pgrag.version())
              when c.check_name = 'function_attributes' then format('%s called on null input not leakproof;', w.item)
              when c.check_name = 'policies' then format('drop policy if exists %s; %s;', w.object, w.item)
              when c.check_name = 'indexes' then format('drop index if exists %s; %s;', w.object, w.item)
              when c.check_name = 'tables' and w.item ~ '^columns ' then format('Bring it back from a backup, or by hand; it must have the %s', w.item)
              when c.check_name = 'tables' then
                replace(w.item, ' add constraint ', format(' drop constraint if exists %s, add constraint ', split_part(w.object, ' on ', 1))) || ';'
              else w.item || ';' end
    from wanting w join pgrag_private.doctor_checks() c on c.check_name = w.check_name
   where not exists (select from gone g where g.object <> w.object and strpos(format(' %s ', w.object), format(' %s ', g.object)) > 0)
     and not exists (select from gone g where g.object = w.object and w.check_name not in ('functions', 'tables', 'views'))
  union all
  select c.check_name, c.severity, b.object, c.beside, b.undo || ';'
    from beside b join pgrag_private.doctor_checks() c on c.check_name = b.check_name
  union all
  select c.check_name, c.severity, b.function, c.wanting,
         format('Take it from dist/pgrag--%s.sql (pgrag sql prints it), and run that as pgrag_engine', pgrag.version())
    from pgrag_private.function_bodies() b
    join pgrag_private.doctor_checks() c on c.check_name = 'function_bodies'
   where b.body <> pgrag_private.installed_bodies() ->> b.function
     -- Of another major version, a text that PostgreSQL made: it may say the same.
     and split_part(b.body, ' ', 1) = case when strpos(b.body, ' ') > 0 then split_part(pgrag_private.installed_bodies() ->> b.function, ' ', 1) else b.body end
  union all
  select c.check_name, 'error', i.indexrelid::regclass::text, 'the index is not valid: no search uses it', format('reindex index %s;', i.indexrelid::regclass)
    from pg_index i
    join pg_class t on t.oid = i.indrelid
    join pgrag_private.doctor_checks() c on c.check_name = 'indexes'
   where t.relnamespace::regnamespace::text in ('pgrag_data', 'pgrag_private', 'pgrag_block') and not (i.indisvalid and i.indisready);
end
$$;
