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
  select s.* from pgrag_data.tenant t cross join lateral pgrag_private.described_space(t.tenant_id, t.active_space_id) s
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.active_space is 'The embedding space that this tenant''s documents and questions are encoded in; no row when it has none.';
revoke all on function pgrag.active_space from public;
