-- Bounds of a search. Types are what PostgreSQL's own let through.
create or replace function pgrag_private.check_search(p_search pgrag_private.search_request) returns void
language plpgsql immutable parallel safe as $$
declare
  v_wording text;
begin
  if greatest(array_ndims(p_search.probes), array_ndims(p_search.probe_embeddings), array_ndims(p_search.chunk_order)) > 1 then
    raise exception using errcode = 'RG308', message = 'probes, their embeddings and an order are plain lists',
      hint = 'Pass arrays of one dimension.';
  end if;
  foreach v_wording in array array[p_search.question] || coalesce(p_search.probes, '{}') loop
    if v_wording is null or pgrag_private.is_blank(v_wording) then
      raise exception using errcode = 'RG301', message = 'the question is empty', hint = 'Pass the question''s text; a probe is text too.';
    elsif length(v_wording) > 4000 then
      raise exception using errcode = 'RG301', message = 'the question is too long',
        detail = format('%s characters; the bound is 4000', length(v_wording)), hint = 'Ask for what is sought, without its context.';
    end if;
  end loop;
  if p_search.k is null or p_search.k not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'k must be a whole number from 1 to 100',
      detail = format('k: %s', coalesce(p_search.k::text, 'null')), hint = 'Narrow the question or filter; there are no further pages.';
  elsif p_search.candidates is null or p_search.candidates not between p_search.k and 1000 then
    raise exception using errcode = 'RG302', message = 'candidates must be a whole number from k to 1000',
      detail = format('candidates: %s, k: %s', coalesce(p_search.candidates::text, 'null'), p_search.k),
      hint = 'Leave it out for the default of 100.';
  elsif p_search.per_document not between 1 and 100 or p_search.per_source not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'a cap must be a whole number from 1 to 100',
      hint = 'Leave per_document and per_source out for no cap.';
  elsif p_search.mode is null or p_search.mode not in ('hybrid', 'lexical', 'dense') then
    raise exception using errcode = 'RG303', message = 'the mode is not known', hint = 'Modes: hybrid, lexical, dense.';
  elsif p_search.fusion is null or p_search.fusion not in ('convex', 'rrf') then
    raise exception using errcode = 'RG303', message = 'the fusion is not known', hint = 'Fusions: convex, rrf.';
  elsif p_search.isolation is null or p_search.isolation not in ('auto', 'strict') then
    raise exception using errcode = 'RG303', message = 'the isolation is not known', hint = 'Isolations: auto, strict.';
  elsif p_search.profile is null or p_search.profile not in ('normal', 'retry') then
    raise exception using errcode = 'RG303', message = 'the profile is not known', hint = 'Profiles: normal, retry.';
  elsif p_search.as_of not between '0001-01-01' and '9999-12-31T23:59:59.999999Z' then
    raise exception using errcode = 'RG303', message = 'as_of must be a point in time', hint = 'Leave it out for today''s revisions.';
  elsif p_search.threshold = 'NaN' or p_search.threshold not between 0 and 1 then
    raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1', hint = 'Leave it out for the mode''s default.';
  elsif cardinality(p_search.probes) > 4 or cardinality(p_search.probe_embeddings) <> coalesce(cardinality(p_search.probes), 0) then
    raise exception using errcode = 'RG308', message = 'there are too many probes, or not one embedding for each',
      detail = format('probes: %s, embeddings: %s', coalesce(cardinality(p_search.probes), 0),
                      coalesce(cardinality(p_search.probe_embeddings)::text, 'none')),
      hint = 'Pass at most 4 further wordings, and for all of them an embedding or for none.';
  elsif p_search.mode = 'dense' and cardinality(p_search.probes) > 0 and p_search.probe_embeddings is null then
    raise exception using errcode = 'RG308', message = 'in dense mode a probe needs its embedding',
      hint = 'Pass p_probe_embeddings, or p_mode => ''lexical''.';
  elsif cardinality(p_search.chunk_order) > 100 or array_position(p_search.chunk_order, null) is not null
        or length(p_search.reranker) > 200 or (p_search.chunk_order is null) <> (p_search.reranker is null) then
    raise exception using errcode = 'RG308', message = 'a reranker''s order is at most 100 chunk ids, with the reranker''s name',
      hint = 'Pass p_order and p_reranker together; chunk ids as in the hits, the best first.';
  end if;
end
$$;

-- A question's vector is compared with vectors of its own space only: equal dimensions prove nothing.
create or replace function pgrag_private.check_embedding(p_tenant_id bigint, p_space text, p_embedding public.vector)
returns pgrag_data.embedding_space
language plpgsql stable parallel restricted as $$
declare
  v_space pgrag_data.embedding_space;
begin
  if p_embedding is null or p_space is null then
    raise exception using errcode = 'RG305', message = 'this mode needs the question''s embedding and the name of its space',
      hint = 'Pass p_embedding and p_space, or p_mode => ''lexical''.';
  end if;
  select s.* into v_space
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id in (t.active_space_id, t.next_space_id)
   where t.tenant_id = p_tenant_id and s.space = p_space;
  if not found then
    raise exception using errcode = 'RG305', message = 'the embedding is not of the tenant''s active space',
      hint = 'select * from pgrag.active_space() names it; encode the question with its model.';
  end if;
  if public.vector_dims(p_embedding) <> v_space.dimension then
    raise exception using errcode = 'RG305', message = 'the embedding has not the dimension of its space',
      detail = format('%s; the space has %s', public.vector_dims(p_embedding), v_space.dimension),
      hint = 'Encode the question with the space''s model.';
  end if;
  if public.vector_norm(p_embedding) = 0 then
    raise exception using errcode = 'RG305', message = 'the embedding is zero, which is near to nothing',
      hint = 'The model knows no word of the question: ask with p_mode => ''lexical''.';
  end if;
  -- pgvector sums squares in single precision: beyond these the cosine would be NaN, and the answer empty.
  if public.vector_norm(p_embedding) not between 1e-15 and 1e15 then
    raise exception using errcode = 'RG305', message = 'the embedding is too short or too long to be compared',
      detail = 'its length must be from 1e-15 to 1e15', hint = 'Scale it to length 1: the cosine does not change.';
  end if;
  return v_space;
end
$$;
