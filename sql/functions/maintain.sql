-- One bounded step of what keeps searches fast, and whether there is another: call it until remaining is false, from any
-- scheduler, each time in a transaction of its own. Killed, it resumes; called by two at once, they do different work, because
-- each locks the block that it is at. Nothing that it does holds up a reader or a writer; what it has not done yet, searches
-- do one by one.
--
--   fold     rows of the ledger became sums; as many as writers leave between two steps are folded beside other work
--   purge    up to 20,000 embeddings of a retired space were deleted
--   drop     a block that no longer serves is gone, p_keep after it was replaced: older snapshots may still look for it
--   renumber documents that came with a dump from a cluster whose transactions had higher numbers got numbers of this one
--   create   a block is begun: a class of vectors has grown, or changed a good deal since its block was built
--   copy     up to 20,000 vectors were copied into it
--   index    its index was built and it serves, in place of the one before: the one step that takes long (a millisecond a vector or
--            so), with maintenance_work_mem and max_parallel_maintenance_workers of the session
--   retire   a block no longer pays, or belongs to another space or system
--   busy     others are at all the work there is
--   idle     there is none
create or replace function pgrag.maintain(p_keep interval default '5 minutes')
returns table (action text, block_id bigint, rows bigint, remaining boolean, note text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_block   pgrag_data.dense_block;
  v_state   record;
  v_folded  bigint;
  v_rows    bigint;
  v_last    bigint;
  v_due      text;
  v_unfilled bigint; -- a space beside an active one that has not everything yet
  v_bytes    bigint;
  v_memory   bigint;
  v_system  bigint := (select c.system_identifier from pg_control_system() c);
begin
  if p_keep is null or p_keep < '0' then
    raise exception using errcode = 'RG408', message = 'p_keep must be a span of time, from 0 on', hint = 'For example ''5 minutes''.';
  end if;

  -- Where documents come all the time there are always a few: they do not keep the blocks waiting.
  v_folded := pgrag_private.fold_scope_totals();
  if v_folded >= 250 then
    return query select 'fold', null::bigint, v_folded, true, null::text;
    return;
  end if;

  v_rows := pgrag_private.purge_retired_spaces();
  if v_rows > 0 then
    return query select 'purge', null::bigint, v_rows, true, null::text;
    return;
  end if;

  -- What a dump brought along, or what somebody has dropped by hand, serves nobody.
  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state <> 'retired' and (b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is distinct from b.table_oid)
     order by b.block_id limit 1 for update skip locked
  loop
    update pgrag_data.dense_block b set state = 'retired', retired_at = '-infinity'
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'retire', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state = 'retired' and b.retired_at <= clock_timestamp() - p_keep order by b.block_id for update skip locked
  loop
    continue when not pgrag_private.drop_block_table(v_block.block_id);
    delete from pgrag_data.dense_block b where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'drop', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  for v_block in
    select b.* from pgrag_data.dense_block b where b.state in ('copying', 'indexing') order by b.block_id limit 1 for update skip locked
  loop
    if v_block.state = 'copying' then
      select c.rows, c.copied_to into v_rows, v_last from pgrag_private.copy_to_block(v_block) c;
      update pgrag_data.dense_block b
         set vectors = b.vectors + v_rows, copied_to = coalesce(v_last, b.copied_to), state = case when v_last is null then 'indexing' else 'copying' end
       where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
      return query select 'copy', v_block.block_id, v_rows, true, null::text;
      return;
    end if;
    perform pgrag_private.index_block_table(v_block.block_id);
    update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.space_id = v_block.space_id and b.acl_id is not distinct from v_block.acl_id and b.state = 'live'
       and (v_block.base_id is null or b.base_id is not null);
    update pgrag_data.dense_block b set state = 'live', live_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    v_bytes := v_block.vectors * (select 2 * s.dimension + 700 from pgrag_data.embedding_space s
                                   where s.tenant_id = v_block.tenant_id and s.space_id = v_block.space_id);
    v_memory := pg_size_bytes(current_setting('maintenance_work_mem'));
    return query select 'index', v_block.block_id, v_block.vectors, true,
      case when v_bytes > v_memory then format('built on disk for want of memory: with maintenance_work_mem = ''%s MB'' it would have been faster',
                                               v_bytes / 1048576 + 1) end;
    return;
  end loop;

  for v_state in select s.* from pgrag_private.block_state() s where not s.building
                  -- What has none yet, and then the oldest first: one list that always changes does not keep the others waiting.
                  order by s.block_id nulls first, s.tenant_id, s.acl_id nulls last loop
    -- A second block, of what changed, is one more to search: only beside a block that is large in comparison.
    v_due := case
      when v_state.block_id is null then
        case when pgrag_private.deserves_block(v_state.chunks, v_state.largest, v_state.enough, v_state.acl_id) then 'whole' end
      when not pgrag_private.deserves_block(v_state.chunks, v_state.largest, v_state.enough / 2, v_state.acl_id) then 'none'
      when v_state.retired > v_state.vectors / 8 or v_state.loose + coalesce(v_state.delta_vectors, 0) > v_state.vectors / 16 then 'whole'
      when v_state.loose > greatest(2 * v_state.enough, coalesce(v_state.delta_vectors, 0) / 10) then 'changes' end;
    continue when v_due is null or v_state.space_id = v_unfilled;
    -- Whoever has the space's row decides about its classes now: to wait for it would be to do its work again. (An advisory lock
    -- might be anybody's.)
    perform from pgrag_data.embedding_space s
      where s.tenant_id = v_state.tenant_id and s.space_id = v_state.space_id for no key update skip locked;
    continue when not found;
    if v_due = 'none' then
      update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
       where b.tenant_id = v_state.tenant_id and b.block_id in (v_state.block_id, v_state.delta_id);
      return query select 'retire', v_state.block_id, v_state.vectors, true, null::text;
      return;
    end if;
    v_rows := pgrag_private.renumber_documents(v_state.tenant_id);
    if v_rows > 0 then
      return query select 'renumber', null::bigint, v_rows, true, null::text;
      return;
    end if;
    insert into pgrag_data.dense_block (tenant_id, space_id, acl_id, base_id, snapshot, system_identifier)
    select v_state.tenant_id, v_state.space_id, v_state.acl_id, case v_due when 'changes' then v_state.block_id end, pg_current_snapshot(), v_system
      from pgrag_data.tenant t
     -- Asked again under the very snapshot of the block: what gets its embedding later would be in no block, and not seen to have changed.
     where t.tenant_id = v_state.tenant_id
       and (v_state.space_id = t.active_space_id or pgrag_private.missing_in_space(v_state.tenant_id, v_state.space_id) = 0)
    on conflict do nothing
    returning * into v_block;
    if not found then -- another session has begun it, or the space has not everything yet
      v_unfilled := case when not v_state.active then v_state.space_id end;
      continue;
    end if;
    update pgrag_data.dense_block b set table_oid = pgrag_private.create_block_table(v_block.block_id, v_state.dimension)
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'create', v_block.block_id, case v_due when 'whole' then v_state.chunks else v_state.loose end, true, null::text;
    return;
  end loop;

  -- Classes that are no more, and spaces that are not active any more.
  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state = 'live' and not exists (select from pgrag_private.block_state() s where b.block_id in (s.block_id, s.delta_id))
     order by b.block_id limit 1 for update skip locked
  loop
    update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'retire', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  if v_folded > 0 then
    return query select 'fold', null::bigint, v_folded, true, null::text;
    return;
  end if;
  return query select case when exists (select from pgrag_data.dense_block b where b.state in ('copying', 'indexing')) then 'busy' else 'idle' end,
                      null::bigint, 0::bigint, false, null::text;
end
$$;

comment on function pgrag.maintain is 'One bounded step of maintenance: builds, replaces, drops blocks, folds totals, purges retired spaces; says whether work remains.';
revoke all on function pgrag.maintain from public;
