-- The same search, JSON in and JSON out: the answer says why it is empty. Fields as the arguments of
-- pgrag.search, without the p_; each must have its own JSON type.
create or replace function pgrag.search_json(p_request jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  perform pgrag_private.check_json_request(p_request, 'question', 'k', 'mode', 'embedding', 'space', 'fusion', 'as_of',
                                           'filter', 'candidates', 'threshold', 'probes', 'probe_embeddings', 'per_document', 'per_source',
                                           'isolation', 'profile', 'order', 'reranker');
  return pgrag_private.retrieve_json(v_principal, p_request, 10);
end
$$;

comment on function pgrag.search_json is 'pgrag.search for JSON: one object in, one object out, with status, reason, policy and hits.';
revoke all on function pgrag.search_json from public;
