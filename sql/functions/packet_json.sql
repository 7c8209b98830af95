create or replace function pgrag.packet_json(p_request jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  perform pgrag_private.check_json_request(p_request, 'question', 'k', 'mode', 'embedding', 'space', 'fusion', 'as_of',
                                           'filter', 'candidates', 'threshold', 'probes', 'probe_embeddings', 'per_document', 'per_source',
                                           'isolation', 'profile', 'order', 'reranker',
                                           'budget', 'budget_unit', 'reserve', 'strict');
  return pgrag_private.build_packet(
    v_principal, p_request ->> 'question', (p_request ->> 'as_of')::timestamptz,
    pgrag_private.retrieve_json(v_principal, p_request, 8),
    coalesce((p_request ->> 'budget')::integer, 8000), coalesce(p_request ->> 'budget_unit', 'characters'),
    coalesce((p_request ->> 'reserve')::integer, 0), coalesce((p_request ->> 'strict')::boolean, false));
end
$$;

comment on function pgrag.packet_json is 'pgrag.packet for JSON: one object in, the packet out.';
revoke all on function pgrag.packet_json from public;
