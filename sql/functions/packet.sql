-- Evidence for a language model: whole passages within a budget, or an abstention with its reason, sealed so
-- that a reply can be validated against it later.
create or replace function pgrag.packet(
  p_question    text,
  p_k           integer default 8,
  p_mode        text default 'hybrid',
  p_embedding   public.vector default null,
  p_space       text default null,
  p_fusion      text default 'convex',
  p_as_of       timestamptz default null,
  p_filter      jsonb default null,
  p_candidates  integer default 100,
  p_threshold   double precision default null,
  p_budget      integer default 8000,
  p_budget_unit text default 'characters',
  p_reserve     integer default 0,
  p_strict      boolean default false,
  p_token       text default null,
  p_probes            text[] default null,
  p_probe_embeddings  public.vector[] default null,
  p_per_document      integer default null,
  p_per_source        integer default null,
  p_isolation         text default 'auto',
  p_profile           text default 'normal',
  p_order             text[] default null,
  p_reranker          text default null
) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  return pgrag_private.build_packet(
    v_principal, p_question, p_as_of,
    pgrag_private.retrieve(v_principal, (p_question, p_k, p_mode, p_embedding, p_space, p_fusion, p_as_of, p_filter, p_candidates, p_threshold, p_probes, p_probe_embeddings,
                           p_per_document, p_per_source, p_isolation, p_profile, p_order, p_reranker)::pgrag_private.search_request),
    p_budget, p_budget_unit, p_reserve, p_strict);
end
$$;

comment on function pgrag.packet is 'A sealed packet of evidence for a question within a budget, or an abstention that says why.';
revoke all on function pgrag.packet from public;
