-- Of the ten nearest vectors, the share that a search of the block for a hundred candidates finds: a few of its vectors as questions,
-- against comparing all. What is as near as the tenth counts as found. Null: there is nothing to ask with.
create or replace function pgrag_private.block_recall(p_block pgrag_data.dense_block, p_questions integer) returns double precision
language plpgsql stable parallel restricted as $$
declare
  v_scope    pgrag_private.search_scope;
  v_plan     pgrag_private.dense_plan;
  v_exact    pgrag_private.dense_plan;
  v_snapshot pg_snapshot;
  v_query    public.vector;
  v_near     double precision[];
  v_found    bigint := 0;
  v_all      bigint := 0;
begin
  v_scope.tenant_id := p_block.tenant_id;
  v_scope.acls := case when p_block.acl_id is not null then array[p_block.acl_id]
                       else array(select a.acl_id from pgrag_data.acl a where a.tenant_id = p_block.tenant_id order by a.acl_id) end;
  v_exact.route := 'exact';
  v_exact.exact_acls := v_scope.acls;
  select array_agg(b.block_id order by b.block_id), array_agg(b.vectors order by b.block_id), array_agg(coalesce(b.acl_id, 0)),
         (array_agg(b.snapshot order by b.block_id desc))[1]
    into v_plan.blocks, v_plan.vectors, v_plan.lists, v_snapshot
    from pgrag_data.dense_block b
   where b.tenant_id = p_block.tenant_id and (b.block_id = p_block.block_id or b.base_id = p_block.block_id) and b.state = 'live'
     and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid;
  v_plan.route := case when p_block.acl_id is null then 'tenant_block' else 'class_blocks' end;
  v_plan.exact_acls := '{}';
  v_plan.block_acls := v_scope.acls;
  v_plan.snapshots := array_fill(v_snapshot, array[cardinality(v_scope.acls)]);
  v_plan.requested := 100;
  for v_query in
    -- Whole pages at random, of some thousand vectors, and of these some.
    execute format('select coalesce(v.embedding, v.half::public.vector)
                      from (select b.revision_id, b.chunk_no from pgrag_block.%I b tablesample system (%s) order by random() limit $3) b
                      join pgrag_data.chunk_vec v on v.tenant_id = $1 and v.space_id = $2 and v.revision_id = b.revision_id and v.chunk_no = b.chunk_no
                     where coalesce(public.vector_norm(v.embedding), public.l2_norm(v.half)) > 0',
                   'b' || p_block.block_id, least(100, 500000.0 / greatest(p_block.vectors, 1)))
      using p_block.tenant_id, p_block.space_id, p_questions
  loop
    v_near := array(select l.cosine from pgrag_private.dense_lane(v_scope, v_exact, p_block.space_id, v_query, 10, null, null) l);
    v_all := v_all + cardinality(v_near);
    v_found := v_found + (select count(*) from (select l.cosine from pgrag_private.dense_lane(v_scope, v_plan, p_block.space_id, v_query, 100, null, null) l limit 10) l
                           where l.cosine >= v_near[cardinality(v_near)] - 1e-6);
  end loop;
  return v_found::double precision / nullif(v_all, 0);
end
$$;

-- Blocks: where one pays and is not, how stale they are, tables that are nobody's, and what some of them find.
create or replace function pgrag_private.doctor_blocks() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
declare
  v_system    bigint := (select c.system_identifier from pg_control_system() c);
  v_block     record;
  v_most      record;
  v_questions integer;
  v_recall    double precision;
  v_left      bigint := 2000000; -- vectors to compare, so that it takes seconds: other blocks have their turn another time
begin
  return query
  select 'blocks', f.severity, format('tenant %s, space %s, %s', t.tenant, e.space, coalesce('list ' || s.acl_id, 'all lists')), f.finding, pgrag_private.call_maintain()
    from pgrag_private.block_state() s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
    join pgrag_data.embedding_space e on e.tenant_id = s.tenant_id and e.space_id = s.space_id
   cross join lateral (values
     (s.active and s.block_id is null and not s.building and pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id),
      case when s.chunks > 4 * s.enough then 'warning' else 'note' end, format('%s vectors are compared one by one: a block would pay', s.chunks)),
     (s.loose > greatest(s.chunks / 8, s.enough), case when s.loose > s.chunks / 4 then 'warning' else 'note' end,
      format('%s of %s vectors are loose: compared one by one, beside the block', s.loose, s.chunks)),
     (s.retired > s.vectors / 4, case when s.retired > s.vectors / 2 then 'warning' else 'note' end,
      format('%s of %s vectors in the block are retired', s.retired, s.vectors + coalesce(s.delta_vectors, 0)))) as f (is_so, severity, finding)
   where f.is_so
  union all
  select 'blocks', 'warning', format('block %s', b.block_id),
         case when b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is not null
              then 'the block was built in another system and serves nobody' else 'the block has no table and serves nobody' end,
         pgrag_private.call_maintain()
    from pgrag_data.dense_block b
   where b.state <> 'retired' and (b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is distinct from b.table_oid)
  union all
  select 'blocks', 'warning', format('block %s', b.block_id),
         case when b.state = 'retired' then 'the block was replaced long ago and is still there' else 'the block was begun long ago and is not finished' end,
         pgrag_private.call_maintain()
    from pgrag_data.dense_block b
   where b.state in ('copying', 'indexing') and b.created_at < clock_timestamp() - interval '1 day'
      or b.state = 'retired' and b.retired_at between timestamptz '2000-01-01' and clock_timestamp() - interval '1 day'
  union all
  select 'blocks', 'warning', c.oid::regclass::text, 'the table is no block''s', format('drop table %s;', c.oid::regclass)
    from pg_class c
   where c.relnamespace = to_regnamespace('pgrag_block') and c.relkind = 'r' and c.relname ~ '^b[0-9]+$'
     and not exists (select from pgrag_data.dense_block b where 'b' || b.block_id = c.relname)
  union all
  select 'indexes', 'error', format('pgrag_block.b%s', b.block_id), 'the block has no index',
         format('create index %I on pgrag_block.%I using hnsw (embedding public.halfvec_cosine_ops) with (m = 16, ef_construction = 100);',
                'b' || b.block_id || '_embedding', 'b' || b.block_id)
    from pgrag_data.dense_block b
   where b.state = 'live' and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
     and not exists (select from pg_index i where i.indrelid = to_regclass('pgrag_block.b' || b.block_id));

  -- The largest index that maintenance may have to build.
  select s.chunks * (2 * s.dimension + 700) as bytes, s.chunks into v_most
    from pgrag_private.block_state() s
   where pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id)
   order by 1 desc limit 1;
  if v_most.bytes > pg_size_bytes(current_setting('maintenance_work_mem')) then
    return query select 'server_settings', 'note', 'maintenance_work_mem',
      format('the largest block, of %s vectors, is built on disk: that takes longer', v_most.chunks),
      format('pgrag maintain --memory %sMB, or set it for the role that calls pgrag.maintain()', v_most.bytes / 1048576 + 1);
  end if;

  for v_block in
    select b as row, t.tenant, e.space
      from pgrag_data.dense_block b
      join pgrag_data.tenant t on t.tenant_id = b.tenant_id
      join pgrag_data.embedding_space e on e.tenant_id = b.tenant_id and e.space_id = b.space_id
     where b.state = 'live' and b.base_id is null and b.system_identifier = v_system and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
       and exists (select from pg_index i where i.indrelid = to_regclass('pgrag_block.b' || b.block_id) and i.indisvalid)
     order by random()
  loop
    exit when v_left <= 0;
    v_questions := case when (v_block.row).vectors > 100000 then 5 else 10 end;
    v_left := v_left - v_questions * (v_block.row).vectors;
    v_recall := pgrag_private.block_recall(v_block.row, v_questions);
    if v_recall < 0.95 then
      return query select 'recall', 'warning', format('tenant %s, space %s, %s', v_block.tenant, v_block.space, coalesce('list ' || (v_block.row).acl_id, 'all lists')),
        format('of what is nearest, a search of the block finds %s %% in a sample', round(100 * v_recall)),
        format('update pgrag_data.dense_block set state = ''retired'', retired_at = clock_timestamp() where block_id = %s; select * from pgrag.maintain();',
               (v_block.row).block_id);
    end if;
  end loop;
end
$$;
