-- What a question or a document must be encoded with. Readers and writers ask before they encode.
create or replace function pgrag.active_space(p_token text default null)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer');
begin
  return query
  select s.space, s.model, s.model_revision, s.dimension, s.metric, s.normalisation, s.preprocessing,
         s.query_prefix, s.document_prefix, s.storage, s.zero_vectors
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.active_space is 'The embedding space that this tenant''s documents and questions are encoded in; no row when it has none.';
revoke all on function pgrag.active_space from public;
