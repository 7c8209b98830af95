-- What is kept of an embedding in a space of half precision; null in others. Where lengths are free only the direction counts, and at
-- length 1 no number leaves the range of half precision.
create or replace function pgrag_private.half_of(p_space pgrag_data.embedding_space, p_embedding public.vector) returns public.halfvec
language sql immutable parallel safe
return case when p_space.storage = 'half' then
         (case p_space.normalisation when 'none' then public.l2_normalize(p_embedding) else p_embedding end)::public.halfvec end;

-- Keeps the embeddings of chunks p_first, p_first + 1, …: what is there already stays, and null is none.
create or replace function pgrag_private.put_embeddings(
  p_revision pgrag_data.revision, p_space pgrag_data.embedding_space, p_first integer, p_embeddings public.vector[]
) returns void
language plpgsql volatile parallel unsafe as $$
begin
  if exists (select from unnest(p_embeddings) as u (e) where public.vector_dims(e) > case p_space.storage when 'half' then 4000 else 2000 end) then
    raise exception using errcode = 'RG305', message = 'an embedding has more dimensions than a space can have',
      detail = 'the bound is 2000, in half precision 4000', hint = 'Encode the chunks with the space''s model.';
  elsif p_space.storage = 'half' and exists (
          select from unnest(p_embeddings) as u (e)
           where public.vector_norm(e) > case p_space.normalisation when 'unit' then 65504 else 1e15 end) then
    raise exception using errcode = 'RG305', message = 'an embedding is too long for half precision',
      hint = 'Scale it to length 1: the cosine does not change.';
  end if;
  insert into pgrag_data.chunk_vec (tenant_id, space_id, revision_id, chunk_no, embedding, half)
  select p_revision.tenant_id, p_space.space_id, p_revision.revision_id, p_first + (u.n - 1)::integer,
         case p_space.storage when 'float' then u.embedding end, pgrag_private.half_of(p_space, u.embedding)
    from unnest(p_embeddings) with ordinality as u (embedding, n)
   where u.embedding is not null
     and (select true from pgrag_data.chunk c -- no join: of a new revision the planner knows nothing
           where c.tenant_id = p_revision.tenant_id and c.revision_id = p_revision.revision_id and c.chunk_no = p_first + (u.n - 1)::integer)
  on conflict do nothing;
end
$$;

-- What is wrong with the embeddings that chunks p_first to p_last have in a space.
create or replace function pgrag_private.embedding_faults(
  p_tenant_id bigint, p_revision_id bigint, p_space_id bigint, p_first integer, p_last integer
) returns text[]
language plpgsql stable parallel restricted as $$
declare
  v_space  pgrag_data.embedding_space;
  v_found  record;
  v_faults text[] := '{}';
begin
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = p_tenant_id and s.space_id = p_space_id;
  select count(*) as vectors,
         count(*) filter (where v.dimension <> v_space.dimension) as wrong_dimension,
         -- pgvector sums squares in single precision: beyond these lengths a cosine is NaN.
         count(*) filter (where v.length < 1e-15) as zero,
         count(*) filter (where v.length > 1e15) as too_long,
         count(*) filter (where v_space.normalisation = 'unit' and v.length >= 1e-15 and abs(v.length - 1) > v.tolerance) as not_unit
    into v_found
    from (select coalesce(public.vector_dims(v.embedding), public.vector_dims(v.half)) as dimension,
                 coalesce(public.vector_norm(v.embedding), public.l2_norm(v.half)) as length,
                 case when v.half is null then 0.001 else 0.002 end as tolerance
            from pgrag_data.chunk_vec v
           where v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = p_revision_id
             and v.chunk_no between p_first and p_last) v;
  if v_found.vectors <> p_last - p_first + 1 then
    v_faults := v_faults || format('embedding count: %s for %s chunks', v_found.vectors, p_last - p_first + 1);
  end if;
  if v_found.wrong_dimension > 0 then
    v_faults := v_faults || format('embedding dimension: %s have not the %s of space %s',
                                   v_found.wrong_dimension, v_space.dimension, v_space.space);
  end if;
  if v_found.zero > 0 and v_space.zero_vectors = 'refuse' then
    v_faults := v_faults || format('zero vectors: %s, which space %s refuses', v_found.zero, v_space.space);
  end if;
  if v_found.too_long > 0 then
    v_faults := v_faults || format('normalisation: %s vectors are longer than 1e15, which no cosine can be taken of', v_found.too_long);
  end if;
  if v_found.not_unit > 0 then
    v_faults := v_faults || format('normalisation: %s vectors of unit space %s are not of length 1', v_found.not_unit, v_space.space);
  end if;
  return v_faults;
end
$$;

-- How many documents have in force a revision that has embeddings, but not in this space.
create or replace function pgrag_private.missing_in_space(p_tenant_id bigint, p_space_id bigint) returns bigint
language sql stable parallel restricted
begin atomic
  select count(*)
    from pgrag_data.document d
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
   where d.tenant_id = p_tenant_id and d.deleted_at is null
     and (r.space_id is not null -- also where that space is retired and gone
          or exists (select from pgrag_data.revision_space s where s.tenant_id = d.tenant_id and s.revision_id = d.active_revision_id))
     and not exists (select from pgrag_data.revision_space s
                      where s.tenant_id = d.tenant_id and s.revision_id = d.active_revision_id and s.space_id = p_space_id);
end;

-- A space as it is told: what a text must be encoded with.
create or replace function pgrag_private.described_space(p_tenant_id bigint, p_space_id bigint)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language sql stable parallel restricted
begin atomic
  select s.space, s.model, s.model_revision, s.dimension, s.metric, s.normalisation, s.preprocessing,
         s.query_prefix, s.document_prefix, s.storage, s.zero_vectors
    from pgrag_data.embedding_space s
   where s.tenant_id = p_tenant_id and s.space_id = p_space_id;
end;
