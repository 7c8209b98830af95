-- Measures what the parts of a dense search cost here, on the largest tenant's own vectors, and keeps it: searches choose their
-- route by it. Each figure is the median of five questions that were asked once before: what is read from disk the first time is
-- no cost of a route. What there is nothing to measure on (no tenant with 1,000 vectors, no block) stays as it was. Takes about a
-- second; run it when nothing else is busy.
create or replace function pgrag.calibrate() returns table (part text, microseconds double precision, measured_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_sample    record;
  v_block     pgrag_data.dense_block;
  v_scope     pgrag_private.search_scope;
  v_plan      pgrag_private.dense_plan;
  v_revisions bigint[];
  v_query     public.vector;
  v_began     timestamptz;
  v_documents double precision[] := '{}';
  v_vectors   double precision[] := '{}';
  v_blocks    double precision[] := '{}';
  v_count     bigint;
begin
  select t.tenant_id, s.space_id, s.dimension, array_agg(distinct l.acl_id) as acls into v_sample
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
    join pgrag_data.scope_total l on l.tenant_id = t.tenant_id
   group by t.tenant_id, s.space_id, s.dimension
   order by sum(l.chunks) desc limit 1;
  for v_turn in 0 .. 9 loop
    exit when v_sample.tenant_id is null;
    v_began := clock_timestamp();
    v_revisions := array(select d.active_revision_id from unnest(v_sample.acls) as a (acl_id)
                           join pgrag_data.document d on d.tenant_id = v_sample.tenant_id and d.acl_id = a.acl_id
                          where d.deleted_at is null and d.active_revision_id is not null limit 2000);
    exit when cardinality(v_revisions) = 0;
    v_documents := v_documents || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6 / cardinality(v_revisions);
    select coalesce(v.embedding, v.half::public.vector) into v_query from pgrag_data.chunk_vec v
     where v.tenant_id = v_sample.tenant_id and v.space_id = v_sample.space_id and v.revision_id = v_revisions[1 + v_turn % 5 % cardinality(v_revisions)] limit 1;
    v_count := (select count(*) from pgrag_data.chunk_vec v where v.tenant_id = v_sample.tenant_id and v.space_id = v_sample.space_id
                                                              and v.revision_id = any (v_revisions));
    exit when v_count < 1000 or v_query is null;
    v_began := clock_timestamp();
    perform from pgrag_private.compare_vectors(v_sample.tenant_id, v_revisions, v_sample.space_id, v_query, 100, null, null);
    v_vectors := v_vectors || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6 / v_count * 384 / v_sample.dimension;
  end loop;

  select b.* into v_block from pgrag_data.dense_block b
   where b.state = 'live' and b.acl_id is not null and b.base_id is null and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
   order by b.vectors desc limit 1;
  for v_turn in 0 .. 9 loop
    exit when v_block.block_id is null;
    v_scope.tenant_id := v_block.tenant_id;
    v_scope.acls := array[v_block.acl_id];
    v_plan := ('class_blocks', array[v_block.block_id], v_scope.acls, array[v_block.vectors], '{}', '{}', '{}', 100, null);
    select coalesce(v.embedding, v.half::public.vector) into v_query
      from pgrag_data.document d
      join pgrag_data.chunk_vec v on v.tenant_id = d.tenant_id and v.space_id = v_block.space_id and v.revision_id = d.active_revision_id
     where d.tenant_id = v_block.tenant_id and d.acl_id <> v_block.acl_id offset v_turn % 5 * 20 limit 1;
    exit when v_query is null;
    v_began := clock_timestamp();
    perform from pgrag_private.search_blocks(v_scope, v_plan, v_query, 100, null, null);
    v_blocks := v_blocks || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6;
  end loop;

  update pgrag_data.search_cost c set microseconds = greatest(m.microseconds, 0.001), measured_at = clock_timestamp()
    from (select m.part, percentile_cont(0.5) within group (order by x.value) as microseconds
            from (values ('document', v_documents), ('vector', v_vectors), ('block', v_blocks)) as m (part, measured)
           cross join lateral unnest(m.measured[6:]) as x (value)
           group by m.part) m
   where c.part = m.part;
  return query select c.part::text, c.microseconds, c.measured_at from pgrag_data.search_cost c order by c.part collate "C";
end
$$;

comment on function pgrag.calibrate is 'Measures what exact comparison and blocks cost on this machine; searches choose their route by it.';
revoke all on function pgrag.calibrate from public;
