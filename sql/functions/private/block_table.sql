-- The tables of blocks, which their owner makes, indexes and drops; pgrag.maintain() calls these, and nobody else may.
-- They are named by number: any role can read a catalog.

create or replace function pgrag_private.create_block_table(p_block_id bigint, p_dimension integer) returns oid
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp as $$
begin
  execute format('create table pgrag_block.%I (revision_id bigint not null, chunk_no integer not null, embedding public.halfvec(%s) not null)',
                 'b' || p_block_id, p_dimension);
  execute format('alter table pgrag_block.%I alter column embedding set storage plain, enable row level security, force row level security', 'b' || p_block_id);
  execute format('create policy pgrag_block_engine on pgrag_block.%I for all to pgrag_engine using (true) with check (true)', 'b' || p_block_id);
  execute format('grant select, insert on pgrag_block.%I to pgrag_engine', 'b' || p_block_id);
  return to_regclass('pgrag_block.b' || p_block_id);
end
$$;

-- Built by several workers, an index lies in shared memory while it is built, of which a container often has little: then by one.
create or replace function pgrag_private.index_block_table(p_block_id bigint) returns void
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_create constant text := format('create index %I on pgrag_block.%I using hnsw (embedding public.halfvec_cosine_ops) with (m = 16, ef_construction = 100)',
                                   'b' || p_block_id || '_embedding', 'b' || p_block_id);
begin
  begin
    execute v_create;
    return;
  exception when disk_full or out_of_memory then
    if current_setting('max_parallel_maintenance_workers') = '0' then
      raise;
    end if;
    perform set_config('max_parallel_maintenance_workers', '0', true);
  end;
  execute v_create;
exception when disk_full or out_of_memory then
  raise exception using errcode = 'RG113', message = 'the index of a block could not be built: ' || sqlerrm,
    hint = 'Make room on disk, or build with less: set maintenance_work_mem.';
end
$$;

-- False: somebody still reads it, and whoever came after would wait behind us; another time.
create or replace function pgrag_private.drop_block_table(p_block_id bigint) returns boolean
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp set lock_timeout = '20ms' as $$
begin
  execute format('drop table if exists pgrag_block.%I', 'b' || p_block_id);
  return true;
exception when lock_not_available then
  return false;
end
$$;
