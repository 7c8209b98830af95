-- pgrag_private.pinned_settings() for every definer function.
do $$
declare
  v_owner    text;
  v_function regprocedure;
  v_settings text;
begin
  for v_owner, v_function, v_settings in
    select p.proowner::regrole::text, p.oid,
           (select string_agg(format(' set %I = %L', s.name, s.value), '') from pgrag_private.pinned_settings(p.provolatile = 'v') s)
      from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.prosecdef
       and p.proowner in ('pgrag_engine'::regrole, 'pgrag_owner'::regrole)
  loop
    execute 'set local role ' || v_owner;
    execute format('alter function %s', v_function) || v_settings;
  end loop;
  set local role pgrag_engine;
end
$$;

-- What every function does, as it was installed: pgrag.doctor() compares. Those whose text PostgreSQL keeps are as it was sent, and
-- those whose meaning it keeps as it says it: which another major version may say otherwise, so that is kept too.
do $$
begin
  execute format('create or replace function pgrag_private.installed_bodies() returns jsonb language sql immutable parallel safe return %L::jsonb',
                 (select jsonb_object_agg(b.function, b.body) from pgrag_private.function_bodies() b));
end
$$;
