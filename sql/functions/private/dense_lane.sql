-- The dense lane: the nearest chunks of the scope by cosine. What is near is found by comparing vectors one by one and by
-- searching blocks, as the plan says; every candidate's cosine is that of the vector as stored, so that the order does not
-- depend on the route. Ties are broken by chunk id. A zero vector has no direction: its distance is NaN, and it is no candidate.
--
-- OFFSET 0 keeps the distance an expression that is computed once a row, never on a row outside the scope (a staged
-- vector of another dimension would make every search of its tenant fail), and that the planner can never answer from an
-- approximate index. Ids are looked up row by row: a scalar sub-select cannot become a join, which would touch other rows.
--
-- A block that gives fewer candidates than were requested, though it has more vectors, is not trusted with the rest: its
-- access lists are compared one by one (`fell_back`), so that no answer is short for want of luck in a graph.
-- p_conditions, one for each of p_languages: what the question says that a hit must and must not hold.
create or replace function pgrag_private.dense_lane(
  p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_space_id bigint, p_embedding public.vector, p_limit integer,
  p_languages text[], p_conditions tsquery[]
) returns table (revision_id bigint, chunk_no integer, chunk_id bytea, cosine double precision, fell_back boolean)
language plpgsql stable parallel restricted rows 100 as $$
#variable_conflict use_column
declare
  v_plan      pgrag_private.dense_plan := p_plan;
  v_found     bigint[]  := '{}';  -- in blocks
  v_found_no  integer[] := '{}';
  v_short     bigint[]  := '{}';
  v_revisions bigint[];
  v_half      public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
begin
  if p_plan.route <> 'exact' then
    select b.revisions, b.chunks, b.short_acls into v_found, v_found_no, v_short
      from pgrag_private.search_blocks(p_scope, p_plan, p_embedding, p_limit, p_languages, p_conditions) b;
    v_plan.exact_acls := v_plan.exact_acls || v_short;
  end if;
  v_revisions := pgrag_private.compared_revisions(p_scope, v_plan);
  return query
  select t.revision_id, t.chunk_no,
       (select c.chunk_id from pgrag_data.chunk c
         where c.tenant_id = p_scope.tenant_id and c.revision_id = t.revision_id and c.chunk_no = t.chunk_no) as chunk_id,
       1 - t.distance as cosine, v_short <> '{}'
    from (select d.revision_id, d.chunk_no, d.distance
            from (select e.revision_id, e.chunk_no, e.distance
                    from pgrag_private.compare_vectors(p_scope.tenant_id, v_revisions, p_space_id, p_embedding, p_limit, p_languages, p_conditions) e
                   where cardinality(v_revisions) > 0
                  union -- a document may be in a block and have changed since
                  select b.revision_id, b.chunk_no, v.distance
                    from unnest(v_found, v_found_no) as b (revision_id, chunk_no)
                   cross join lateral (select coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance from pgrag_data.chunk_vec v
                                        where v.tenant_id = p_scope.tenant_id and v.space_id = p_space_id
                                          and v.revision_id = b.revision_id and v.chunk_no = b.chunk_no offset 0) v) d
           where d.distance <> 'NaN'
           order by d.distance
           fetch first p_limit rows with ties) t
   order by cosine desc, chunk_id
   limit p_limit;
end
$$;

-- The nearest of these revisions' chunks, all compared: by the index, revision after revision, however many there are. A plan that read
-- the table would touch the vectors of others.
create or replace function pgrag_private.compare_vectors(
  p_tenant_id bigint, p_revisions bigint[], p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]
) returns table (revision_id bigint, chunk_no integer, distance double precision)
language plpgsql stable parallel restricted rows 100
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  v_half      public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
  v_revisions bigint[];
  v_chunks    integer[];
  v_distances double precision[];
begin
  if p_conditions is null then
    -- The nearest and one more: to keep so many takes less than to sort all of them, by a fifth of the whole.
    select array_agg(n.revision_id), array_agg(n.chunk_no), array_agg(n.distance) into v_revisions, v_chunks, v_distances
      from (select d.revision_id, d.chunk_no, d.distance
              from (select v.revision_id, v.chunk_no,
                           coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
                      from unnest(p_revisions) as s (revision_id)
                      join pgrag_data.chunk_vec v
                        on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
                    offset 0) d
             where d.distance <> 'NaN'
             order by d.distance
             limit p_limit + 1) n;
    if coalesce(cardinality(v_distances), 0) <= p_limit or v_distances[p_limit] < v_distances[p_limit + 1] then
      return query select n.* from unnest(v_revisions, v_chunks, v_distances) as n limit p_limit;
      return;
    end if;
    -- That is as near as the last: all that are, for the caller to decide between.
    return query
    select d.revision_id, d.chunk_no, d.distance
      from (select v.revision_id, v.chunk_no, coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
              from unnest(p_revisions) as s (revision_id)
              join pgrag_data.chunk_vec v
                on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
            offset 0) d
     where d.distance <> 'NaN'
     order by d.distance
     fetch first p_limit rows with ties;
    return;
  end if;
  return query
  select d.revision_id, d.chunk_no, d.distance
    from (select v.revision_id, v.chunk_no, coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
            from (select l.revision_id, l.chunk_no
                    from unnest(p_revisions) as s (revision_id)
                   cross join lateral (select c.revision_id, c.chunk_no, c.language, c.lexemes from pgrag_data.chunk_lex c
                                        where c.tenant_id = p_tenant_id and c.revision_id = s.revision_id offset 0) l
                    join unnest(p_languages, p_conditions) as q (language, condition) on q.language = l.language
                   where q.condition is null or l.lexemes @@ q.condition
                  offset 0) l
            join pgrag_data.chunk_vec v
              on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = l.revision_id and v.chunk_no = l.chunk_no
          offset 0) d
   where d.distance <> 'NaN'
   order by d.distance
   fetch first p_limit rows with ties;
end
$$;

-- How many candidates a scan keeps in view (hnsw.ef_search), for so many requested: fewer than these would be quicker and find less.
create or replace function pgrag_private.block_effort(p_requested integer) returns integer
language sql immutable parallel safe
return greatest(p_requested, 64);

-- Searches the blocks of a plan: the p_limit nearest visible chunks of all, and the access lists of blocks that came back short.
-- Each block is one ordered scan of its index, with the filter in the scan: what is not visible, or not any more, is passed by
-- and the scan goes on (hnsw.iterative_scan) until it has as many as are requested. The settings of the scan are the caller's
-- again afterwards; if something fails, the transaction's end puts them back.
create or replace function pgrag_private.search_blocks(
  p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_embedding public.vector, p_limit integer,
  p_languages text[], p_conditions tsquery[], out revisions bigint[], out chunks integer[], out short_acls bigint[]
)
language plpgsql stable parallel restricted
set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off set work_mem = '32MB' as $$
declare
  names constant text[] := array['hnsw.ef_search', 'hnsw.iterative_scan', 'hnsw.max_scan_tuples', 'hnsw.scan_mem_multiplier'];
  v_before   text[];
  v_query    public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
  v_visible  text := pgrag_private.visible_row('b', '$2', p_scope.revisions is null);
  v_counts   integer[];
begin
  if p_conditions is not null then
    v_visible := v_visible || ' and exists (select from pgrag_data.chunk_lex l join unnest($5, $6) as q (language, condition) on q.language = l.language
      where l.tenant_id = $1 and l.revision_id = b.revision_id and l.chunk_no = b.chunk_no and (q.condition is null or l.lexemes @@ q.condition))';
  end if;
  v_before := array(select current_setting(name, true) from unnest(names) with ordinality as n (name, place) order by place);
  perform set_config('hnsw.ef_search', pgrag_private.block_effort(p_plan.requested)::text, true),
          set_config('hnsw.iterative_scan', 'relaxed_order', true),
          set_config('hnsw.max_scan_tuples', '40000', true),
          set_config('hnsw.scan_mem_multiplier', '8', true);
  execute 'with found as materialized (' || (
    select string_agg(format(
             '(select %s as n, b.revision_id, b.chunk_no, b.embedding operator(public.<=>) $3 as distance from pgrag_block.%I b
                where %s order by b.embedding operator(public.<=>) $3 limit %s)', n, 'b' || block_id, v_visible, p_plan.requested), ' union all ' order by n)
      from unnest(p_plan.blocks) with ordinality as u (block_id, n)) || ')
    -- Two blocks may have the same: a list''s and that of what changed, or those of two lists between which it was moved.
    , nearest as materialized (select f.revision_id, f.chunk_no, min(f.distance) as distance from found f group by 1, 2 order by 3, 1, 2 limit $4)
    select (select array_agg(f.revision_id order by f.distance, f.revision_id, f.chunk_no) from nearest f),
           (select array_agg(f.chunk_no order by f.distance, f.revision_id, f.chunk_no) from nearest f),
           array(select count(f.n)::integer from generate_series(1, cardinality($7)) as g (n) left join found f on f.n = g.n group by g.n order by g.n)'
    into revisions, chunks, v_counts
    using p_scope.tenant_id, p_scope, v_query, greatest(p_plan.requested, p_limit) + 20, p_languages, p_conditions, p_plan.blocks;
  perform set_config(n.name, coalesce(v_before[n.place], case n.name when 'hnsw.ef_search' then '40' when 'hnsw.iterative_scan' then 'off'
                                                           when 'hnsw.max_scan_tuples' then '20000' else '1' end), true)
    from unnest(names) with ordinality as n (name, place);
  short_acls := array(select distinct s.acl_id
                        from unnest(p_plan.lists, v_counts, p_plan.vectors) as b (acl_id, n, vectors)
                       cross join lateral unnest(case b.acl_id when 0 then p_scope.acls else array[b.acl_id] end) as s (acl_id)
                       where b.n < least(p_plan.requested, b.vectors)
                       order by s.acl_id);
end
$$;
