-- From how many vectors a block pays: to compare them costs a quarter more than to search it.
create or replace function pgrag_private.block_least(p_dimension integer) returns bigint
language sql stable parallel restricted
begin atomic
  select greatest(1000, 1.25 * max(c.microseconds) filter (where c.part = 'block')
                          / (max(c.microseconds) filter (where c.part = 'vector') * p_dimension / 384))::bigint
    from pgrag_data.search_cost c;
end;

-- Every class of vectors in the active spaces and those beside them, the access lists and the tenants as wholes, with its blocks
-- and how stale they are.
--   chunks    in force now             vectors, delta_vectors   in the blocks that serve
--   loose     chunks of documents that changed since, which are compared one by one
--   retired   vectors in the blocks that are in force no more
create or replace function pgrag_private.block_state()
returns table (tenant_id bigint, space_id bigint, active boolean, dimension integer, acl_id bigint, chunks bigint, largest bigint, enough bigint,
               block_id bigint, vectors bigint, delta_id bigint, delta_vectors bigint, loose bigint, retired bigint, building boolean)
language sql stable parallel restricted rows 1000
begin atomic
  with total as materialized (
    select t.tenant_id, t.acl_id, sum(t.chunks)::bigint as chunks
      from pgrag_data.scope_total t
     where t.until > transaction_timestamp()
     group by t.tenant_id, t.acl_id
  ), class as (
    select t.tenant_id, t.acl_id, t.chunks, t.chunks as largest from total t
    union all
    select t.tenant_id, null::bigint as acl_id, sum(t.chunks)::bigint as chunks, max(t.chunks) as largest from total t group by t.tenant_id
  )
  select c.tenant_id, s.space_id, s.space_id = t.active_space_id, s.dimension, c.acl_id, c.chunks, c.largest, pgrag_private.block_least(s.dimension),
         m.block_id, m.vectors, d.block_id, d.vectors, l.loose,
         greatest(m.vectors + coalesce(d.vectors, 0) - (c.chunks - l.loose), 0),
         exists (select from pgrag_data.dense_block b
                  where b.tenant_id = c.tenant_id and b.space_id = s.space_id and b.acl_id is not distinct from c.acl_id
                    and b.state in ('copying', 'indexing'))
    from class c
    join pgrag_data.tenant t on t.tenant_id = c.tenant_id
    join pgrag_data.embedding_space s on s.tenant_id = c.tenant_id and s.space_id in (t.active_space_id, t.next_space_id)
    left join pgrag_data.dense_block m
      on m.tenant_id = c.tenant_id and m.space_id = s.space_id and m.acl_id is not distinct from c.acl_id and m.state = 'live' and m.base_id is null
    left join pgrag_data.dense_block d
      on d.tenant_id = c.tenant_id and d.space_id = s.space_id and d.base_id = m.block_id and d.state = 'live'
    left join lateral (
      select coalesce(sum(r.chunk_count), 0)::bigint as loose
        from pgrag_data.document x
        join pgrag_data.revision r on r.tenant_id = x.tenant_id and r.revision_id = x.active_revision_id
       where x.tenant_id = c.tenant_id and (c.acl_id is null or x.acl_id = c.acl_id) and x.deleted_at is null and x.active_revision_id is not null
         and transaction_timestamp() < x.active_until and x.changed_xid >= pg_snapshot_xmin(coalesce(d.snapshot, m.snapshot))
         and not pg_visible_in_snapshot(x.changed_xid, coalesce(d.snapshot, m.snapshot))) l on m.block_id is not null
   where c.chunks > 0;
end;
