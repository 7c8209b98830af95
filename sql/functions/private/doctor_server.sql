-- The server, the extension, the version, and keys: how many and how old, not which; operators do not learn their names.
create or replace function pgrag_private.doctor_server() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
declare
  v_server integer := current_setting('server_version_num');
  v_vector integer[];
  v_text   text;
begin
  if v_server < 160000 or v_server >= 190000 then
    return query select 'server_version', 'warning', 'PostgreSQL ' || current_setting('server_version'),
      'pgrag is made for PostgreSQL 16, 17 and 18', 'Use one of these';
  elsif v_server < 160016 or v_server between 170000 and 170011 or v_server between 180000 and 180006 then
    return query select 'server_version', 'warning', 'PostgreSQL ' || current_setting('server_version'),
      'the version lacks a correction of row-level security, whose hole needs privileges on tables', 'Update to 16.16, 17.12 or 18.7';
  end if;

  select string_to_array(substring(e.extversion from '^[0-9.]+'), '.')::integer[], e.extversion into v_vector, v_text from pg_extension e where e.extname = 'vector';
  if v_vector < array[0, 8, 4] then
    return query select 'vector', 'error', 'vector ' || v_text, 'the version of pgvector is older than 0.8.4',
      'Update the pgvector package, and then: alter extension vector update';
  end if;
  if not has_schema_privilege('public', 'usage') then
    return query select 'vector', 'error', 'schema public', 'the schema of pgvector is closed to pgrag', 'grant usage on schema public to public;';
  else
    v_text := (select string_agg(v.version_num, ', ') from public.pgrag_alembic_version v);
    if v_text is distinct from pgrag.version() then
      return query select 'pgrag_version', 'error', 'public.pgrag_alembic_version',
        format('the stamp says %s and the functions say %s', coalesce(v_text, 'nothing'), pgrag.version()),
        'Run the upgrade to its end, or bring the database back from a backup';
    end if;
  end if;

  return query
  select 'server_settings', 'warning', s.name, s.says, format('alter system reset %s; select pg_reload_conf();', s.name)
    from (values ('autovacuum', 'autovacuum is off: statistics and dead rows are left to you'),
                 ('track_counts', 'nothing counts changes: whether statistics are stale cannot be seen')) as s (name, says)
   where current_setting(s.name) = 'off';

  return query
  select 'signing_keys', f.severity, null::text, f.finding, f.remedy
    from (select count(*) as valid,
                 count(*) filter (where k.created_at < clock_timestamp() - interval '365 days') as old,
                 count(*) filter (where k.created_at < clock_timestamp() - interval '90 days') as older
            from pgrag_private.signing_key k where k.retired_at is null) k
   cross join lateral (values
     (k.valid = 0, 'error', 'there is no signing key: every token is refused', 'As a role of pgrag_keys: pgrag.add_signing_key'),
     (k.old > 0, 'warning', format('%s of %s keys are older than 365 days', k.old, k.valid),
      'As a role of pgrag_keys: pgrag.add_signing_key, mint with it, then pgrag.retire_signing_key'),
     (k.old = 0 and k.older > 0, 'note', format('%s of %s keys are older than 90 days', k.older, k.valid),
      'As a role of pgrag_keys: pgrag.add_signing_key, mint with it, then pgrag.retire_signing_key')) as f (is_so, severity, finding, remedy)
   where f.is_so;
  return query
  select 'internal_keys', 'error', p.purpose, case p.purpose when 'session' then 'nobody can authenticate' else 'no packet can be made or validated' end,
         'As a superuser: psql -X -1 -v ON_ERROR_STOP=1 -c "delete from pgrag_private.internal_key" -f sql/97_internal_keys.sql'
    from (values ('session'), ('seal')) as p (purpose)
   where not exists (select from pgrag_private.internal_key k where k.purpose = p.purpose);
end
$$;
