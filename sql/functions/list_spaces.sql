create or replace function pgrag.list_spaces(p_tenant text)
returns table (space text, active boolean, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.space, s.space_id is not distinct from t.active_space_id, s.model, s.model_revision, s.dimension, s.metric,
         s.normalisation, s.preprocessing, s.query_prefix, s.document_prefix, s.storage, s.zero_vectors
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id
   where t.tenant_id = v_tenant_id
   order by s.space;
end
$$;

comment on function pgrag.list_spaces is 'The embedding spaces of a tenant, for operators.';
revoke all on function pgrag.list_spaces from public;
