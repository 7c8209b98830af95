-- Embeddings of a verified revision in the active space or the one beside it, for chunks p_first, p_first + 1, …: what a change of
-- encoder needs, and what a lost one left. The same again changes nothing. Each batch is checked, and with the last one the revision
-- is complete in that space.
create or replace function pgrag.add_embeddings(
  p_document   text,
  p_revision   text,
  p_space      text,
  p_first      integer,
  p_embeddings public.vector[]
) returns table (complete boolean, missing integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_document  pgrag_data.document := pgrag_private.find_document(pgrag_private.find_source(v_principal, null), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
  v_count     integer := cardinality(p_embeddings);
  v_active    boolean;
  v_faults    text[];
begin
  if v_revision.state <> 'verified' then
    raise exception using errcode = 'RG405', message = 'the revision is not verified',
      hint = 'A staged revision gets its embeddings with its chunks: pgrag.add_chunks.';
  elsif p_first is null or v_count is null or v_count not between 1 and 2000 or array_ndims(p_embeddings) > 1
        or p_first < 1 or p_first > v_revision.chunk_count - v_count + 1 or array_position(p_embeddings, null) is not null then
    raise exception using errcode = 'RG408', message = 'the batch of embeddings is malformed',
      detail = format('the revision has chunks 1 to %s', v_revision.chunk_count),
      hint = 'Pass 1 to 2000 embeddings, none null, for chunks that the revision has, numbered from p_first.';
  end if;
  select t.active_space_id = v_space.space_id into v_active from pgrag_data.tenant t
   where t.tenant_id = v_principal.tenant_id and v_space.space_id in (t.active_space_id, t.next_space_id);
  if not found then
    raise exception using errcode = 'RG416', message = 'the space is neither the active one nor the one beside it',
      hint = 'An operator begins a new one: pgrag.build_space.';
  end if;

  -- An update, not a lock: in a repeatable-read transaction the batch of another since must fail ours, or neither counts itself the last.
  update pgrag_data.revision r set chunk_count = r.chunk_count
   where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id;
  perform pgrag_private.put_embeddings(v_revision, v_space, p_first, p_embeddings);
  if exists (select from unnest(p_embeddings) with ordinality as u (embedding, n)
               join pgrag_data.chunk_vec v on v.tenant_id = v_revision.tenant_id and v.space_id = v_space.space_id
                and v.revision_id = v_revision.revision_id and v.chunk_no = p_first + (u.n - 1)::integer
              where (coalesce(v.embedding operator(public.=) u.embedding, v.half operator(public.=) pgrag_private.half_of(v_space, u.embedding))) is not true) then
    raise exception using errcode = 'RG403', message = 'the revision has other embeddings in the space',
      hint = 'Embeddings do not change: another model is another space.';
  end if;
  v_faults := pgrag_private.embedding_faults(v_revision.tenant_id, v_revision.revision_id, v_space.space_id, p_first, p_first + v_count - 1);
  if v_faults <> '{}' then
    raise exception using errcode = 'RG305', message = 'the embeddings are not of their space', detail = array_to_string(v_faults, '; '),
      hint = 'Encode the chunks with the space''s model.';
  end if;

  missing := v_revision.chunk_count - (select count(*)::integer from pgrag_data.chunk_vec v where v.tenant_id = v_revision.tenant_id
                                          and v.space_id = v_space.space_id and v.revision_id = v_revision.revision_id);
  complete := missing = 0;
  if complete then
    insert into pgrag_data.revision_space (tenant_id, revision_id, space_id)
    values (v_revision.tenant_id, v_revision.revision_id, v_space.space_id) on conflict do nothing;
    -- In no block yet: until maintenance has it there, it is compared. (A space beside the active one gets blocks when it has everything.)
    -- Nor in one of any space, if these are its first: until now it was not missing there.
    -- Nor in one that this space has kept from when it was the active one.
    if found and (v_active
                  or not exists (select from pgrag_data.revision_space s
                                  where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id and s.space_id <> v_space.space_id)
                  or exists (select from pgrag_data.dense_block b
                              where b.tenant_id = v_revision.tenant_id and b.space_id = v_space.space_id and b.state <> 'retired')) then
      update pgrag_data.document d set changed_xid = pg_current_xact_id()
       where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id and d.active_revision_id = v_revision.revision_id;
    end if;
  end if;
  return next;
end
$$;

comment on function pgrag.add_embeddings is 'Adds embeddings of a verified revision in the active space or the one beside it; says how many are still missing.';
revoke all on function pgrag.add_embeddings from public;
