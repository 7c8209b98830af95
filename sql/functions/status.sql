-- What is installed, without a word of what is in it: any role of pgrag may ask.
create or replace function pgrag.status() returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_vector text;
begin
  select e.extversion into v_vector from pg_extension e where e.extname = 'vector';
  return jsonb_build_object(
    'version', pgrag.version(),
    'server', current_setting('server_version'),
    'vector', v_vector,
    'vector_supported', string_to_array(v_vector, '.')::integer[] >= array[0, 8, 4],
    'read_only', pg_is_in_recovery());
end
$$;

comment on function pgrag.status is 'Versions of pgrag, server and pgvector, whether that pgvector is a supported one, and whether the server only reads.';
revoke all on function pgrag.status from public;
