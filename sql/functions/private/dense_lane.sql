-- The dense lane: the nearest chunks of the scope by cosine, exactly. OFFSET 0 keeps the distance an expression
-- that is computed once a row, never on a row outside the scope (a staged vector of another dimension would make
-- every search of its tenant fail), and that the planner can never answer from an approximate index. Ties are
-- broken by chunk id, looked up row by row: a scalar sub-select cannot become a join, which would touch other rows.
-- A zero vector has no direction: its distance is NaN, and it is no candidate.
-- p_conditions, one for each of p_languages: what the question says that a hit must and must not hold.
create or replace function pgrag_private.dense_lane(
  p_tenant_id bigint, p_revisions bigint[], p_space_id bigint, p_embedding public.vector, p_limit integer,
  p_languages text[], p_conditions tsquery[]
) returns table (revision_id bigint, chunk_no integer, chunk_id bytea, cosine double precision)
language plpgsql stable parallel restricted rows 100 set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
  if p_conditions is null then
    return query
    select t.revision_id, t.chunk_no,
         (select c.chunk_id from pgrag_data.chunk c
           where c.tenant_id = p_tenant_id and c.revision_id = t.revision_id and c.chunk_no = t.chunk_no) as chunk_id,
         1 - t.distance as cosine
      from (select d.revision_id, d.chunk_no, d.distance
              from (select v.revision_id, v.chunk_no, v.embedding operator(public.<=>) p_embedding as distance
                      from unnest(p_revisions) as s (revision_id)
                      join pgrag_data.chunk_vec v
                        on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
                    offset 0) d
             where d.distance <> 'NaN'
             order by d.distance
             fetch first p_limit rows with ties) t
     order by cosine desc, chunk_id
     limit p_limit;
    return;
  end if;
  return query
  select t.revision_id, t.chunk_no,
         (select c.chunk_id from pgrag_data.chunk c
           where c.tenant_id = p_tenant_id and c.revision_id = t.revision_id and c.chunk_no = t.chunk_no) as chunk_id,
         1 - t.distance as cosine
    from (select d.revision_id, d.chunk_no, d.distance
            from (select v.revision_id, v.chunk_no, v.embedding operator(public.<=>) p_embedding as distance
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
           fetch first p_limit rows with ties) t
   order by cosine desc, chunk_id
   limit p_limit;
end
$$;
