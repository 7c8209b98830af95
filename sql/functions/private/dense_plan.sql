-- How the dense lane will look: by comparing every visible vector (exact), in the blocks of the reader's own access lists, or
-- in the block of the whole tenant. The cheapest by the costs of this installation (search_cost) is taken, and what
-- the reader's own would cost is said in the result; what no block has is compared in either case. Strict isolation is exact.
--
--   exact         a document to look up and its vectors to compare
--   class_blocks  for each access list that has a block (not too stale a one), one search of it; the other lists exactly. Wholly
--                 visible, these blocks need no filter, and nothing that the reader may not see is touched
--   tenant_block  one search that passes by what is not visible, the longer the less is: 1 / share of what it takes where all is, as
--                 measured on the average at shares from 1 to 0.05 where what is visible lies together; the worst take five times that
create or replace function pgrag_private.dense_plan(p_scope pgrag_private.search_scope, p_space pgrag_data.embedding_space, p_limit integer, p_isolation text)
returns pgrag_private.dense_plan
language plpgsql stable parallel restricted set enable_seqscan = off as $$
declare
  -- Below this visible share a graph is left for the vectors themselves: what it passes by is not bounded.
  share_least      constant double precision := 0.05;
  v_plan           pgrag_private.dense_plan;
  v_document       double precision;
  v_vector         double precision;
  v_block          double precision;
  v_exact          double precision;
  v_class          double precision;
  v_tenant         double precision;
  v_compared       double precision;
  v_lists          pgrag_private.block_list[];
  v_classes        pgrag_private.block_list[];
  v_whole          pgrag_private.block_list;
  v_system         bigint;
begin
  v_plan.route := 'exact';
  v_plan.exact_acls := p_scope.acls;
  v_plan.blocks := '{}';
  select max(c.microseconds) filter (where c.part = 'document') / 1000, max(c.microseconds) filter (where c.part = 'vector') / 1000 * p_space.dimension / 384,
         max(c.microseconds) filter (where c.part = 'block') / 1000
    into v_document, v_vector, v_block
    from pgrag_data.search_cost c;
  v_plan.requested := least(p_limit, 1000);
  v_block := v_block * pgrag_private.block_effort(v_plan.requested) / 100;
  v_exact := p_scope.documents * v_document + p_scope.chunks * v_vector;
  if p_isolation = 'strict' or v_exact <= v_block then -- no choice, and nothing to say of how fast this installation is
    return v_plan;
  end if;
  v_plan.costs := jsonb_build_object('exact', pgrag_private.score(v_exact));

  v_compared := v_exact / p_scope.chunks;
  v_system := (select c.system_identifier from pg_control_system() c);
  with usable as materialized (
    select b.block_id, b.base_id, coalesce(b.acl_id, 0) as acl_id, b.vectors, b.snapshot
      from pgrag_data.dense_block b
     where b.tenant_id = p_scope.tenant_id and b.space_id = p_space.space_id and b.state = 'live' and b.system_identifier = v_system
       -- A block leaves out what was over when it was begun, which for a transaction that began before it may not be.
       and b.live_at <= transaction_timestamp()
       and (b.acl_id = any (p_scope.acls) or b.acl_id is null)
       and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
  )
  -- How stale each is: an old block is passed by for the most part, and then its lists are compared all the same.
  select array_agg((l.acl_id, l.blocks, l.vectors, l.all_vectors, l.snapshot, c.loose,
                    least(greatest(coalesce(p_scope.acl_chunks[array_position(p_scope.acls, l.acl_id)],
                                            case l.acl_id when 0 then p_scope.chunks else l.all_vectors * p_scope.chunks / l.of_lists end)
                                   - c.loose, 0) / greatest(l.all_vectors, 1), 1))::pgrag_private.block_list
                   order by l.acl_id)
    into v_lists
    from (select b.acl_id, array_agg(b.block_id order by b.block_id) as blocks, array_agg(b.vectors order by b.block_id) as vectors,
                 sum(b.vectors) as all_vectors,
                 -- Of what a filter leaves, how much lies in which list is not known: as much as in the scope.
                 greatest(sum(sum(b.vectors)) filter (where b.acl_id <> 0) over (), p_scope.chunks) as of_lists, (array_agg(b.snapshot order by b.block_id desc))[1] as snapshot
            from usable b
           where b.base_id is null or b.base_id in (select u.block_id from usable u)
           group by b.acl_id) l
   cross join lateral (
     select count(*) * p_scope.chunks::double precision / p_scope.documents as loose
       from (select from unnest(case l.acl_id when 0 then p_scope.acls else array[l.acl_id] end) as a (acl_id)
              cross join lateral (select from pgrag_data.document d
                                   where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null
                                     and d.active_revision_id is not null and d.changed_xid >= pg_snapshot_xmin(l.snapshot)
                                     -- Exactly: transactions of others, open when it was begun, are not to be told from the costs.
                                     and not pg_visible_in_snapshot(d.changed_xid, l.snapshot) offset 0) d
              limit 20000) n) c;

  select array_agg(l) into v_classes from unnest(v_lists) as l where l.acl_id <> 0 and l.share >= share_least;
  if v_classes is not null then
    v_class := (select sum(cardinality(l.blocks) * v_block / l.share) + v_compared * greatest(p_scope.chunks - sum(l.share * l.all_vectors), 0)
                  from unnest(v_classes) as l);
    v_plan.costs := v_plan.costs || jsonb_build_object('class_blocks', pgrag_private.score(v_class));
    if v_class < v_exact then
      v_plan.route := 'class_blocks';
    end if;
  end if;
  select l.* into v_whole from unnest(v_lists) as l where l.acl_id = 0;
  if v_whole.share >= share_least then
    -- Not said in the result: it would tell how many vectors of the tenant the reader may not see.
    v_tenant := cardinality(v_whole.blocks) * v_block / v_whole.share + v_compared * v_whole.loose;
    if v_tenant < least(v_exact, coalesce(v_class, 'Infinity')) then
      v_plan.route := 'tenant_block';
    end if;
  end if;

  if v_plan.route = 'class_blocks' then
    select array_agg(b.block_id order by b.block_id), array_agg(b.vectors order by b.block_id), array_agg(l.acl_id order by b.block_id)
      into v_plan.blocks, v_plan.vectors, v_plan.lists
      from unnest(v_classes) as l cross join lateral unnest(l.blocks, l.vectors) as b (block_id, vectors);
    select array_agg(l.acl_id order by l.acl_id), array_agg(l.snapshot order by l.acl_id) into v_plan.block_acls, v_plan.snapshots
      from unnest(v_classes) as l;
    v_plan.exact_acls := array(select a.acl_id from unnest(p_scope.acls) as a (acl_id) where a.acl_id <> all (v_plan.block_acls) order by a.acl_id);
  elsif v_plan.route = 'tenant_block' then
    v_plan.blocks := v_whole.blocks;
    v_plan.vectors := v_whole.vectors;
    v_plan.lists := array_fill(0::bigint, array[cardinality(v_whole.blocks)]);
    v_plan.block_acls := p_scope.acls;
    v_plan.snapshots := array_fill(v_whole.snapshot, array[cardinality(p_scope.acls)]);
    v_plan.exact_acls := '{}';
  end if;
  return v_plan;
end
$$;

-- The revisions whose vectors are compared one by one: all under exact_acls, and under block_acls those that changed since
-- the block's snapshot was taken.
create or replace function pgrag_private.compared_revisions(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan) returns bigint[]
language plpgsql stable parallel restricted set enable_seqscan = off as $$
begin
  if p_plan.route = 'exact' and p_scope.revisions is not null then
    return p_scope.revisions;
  end if;
  return array(
    select d.active_revision_id
      from unnest(p_plan.exact_acls) as a (acl_id)
      join pgrag_data.document d on d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id
     where d.deleted_at is null and d.active_revision_id is not null and transaction_timestamp() < d.active_until
       and (p_scope.sources is null or d.source_id = any (p_scope.sources))
       and (p_scope.revisions is null or d.active_revision_id = any (p_scope.revisions))
    union all
    select d.active_revision_id
      from unnest(p_plan.block_acls, p_plan.snapshots) as a (acl_id, snapshot)
     cross join lateral (select d.active_revision_id, d.source_id, d.active_until, d.changed_xid from pgrag_data.document d
                          where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null and d.active_revision_id is not null
                            and d.changed_xid >= pg_snapshot_xmin(a.snapshot) offset 0) d
     -- Of a list whose block came back short all are compared, and none twice.
     where a.acl_id <> all (p_plan.exact_acls)
       and not pg_visible_in_snapshot(d.changed_xid, a.snapshot)
       and transaction_timestamp() < d.active_until
       and (p_scope.sources is null or d.source_id = any (p_scope.sources))
       and (p_scope.revisions is null or d.active_revision_id = any (p_scope.revisions)));
end
$$;
