-- The dense lane: the nearest chunks of the scope by cosine, exactly. OFFSET 0 keeps the distance an expression
-- that is computed once a row, never on a row outside the scope (a staged vector of another dimension would make
-- every search of its tenant fail), and that the planner can never answer from an approximate index. WITH TIES
-- leaves ties to the caller, who breaks them by chunk id. A zero vector has no direction: its distance is NaN,
-- and it is no candidate.
create or replace function pgrag_private.dense_lane(p_tenant_id bigint, p_revisions bigint[], p_space_id bigint,
                                         p_embedding public.vector, p_limit integer)
returns table (revision_id bigint, chunk_no integer, cosine double precision)
language plpgsql stable parallel restricted as $$
#variable_conflict use_column
begin
  return query
  select d.revision_id, d.chunk_no, 1 - d.distance
    from (select v.revision_id, v.chunk_no, v.embedding operator(public.<=>) p_embedding as distance
            from unnest(p_revisions) as s (revision_id)
            join pgrag_data.chunk_vec v
              on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
          offset 0) d
   where d.distance <> 'NaN'
   order by d.distance
   fetch first p_limit rows with ties;
end
$$;
