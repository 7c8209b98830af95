-- Ranked passages that the reader may see, as rows. In the question "two words" in quotes must be there, and a -word at its
-- end must not. p_probes are further wordings of it, each a lane more. p_order is a reranker's order of earlier hits.
-- `complete` and its reason stand in each; an application that
-- must tell "nothing" from "nothing for you to see" asks pgrag.search_json, which answers even without a row.
create or replace function pgrag.search(
  p_question   text,
  p_k          integer default 10,
  p_mode       text default 'hybrid',
  p_embedding  public.vector default null,
  p_space      text default null,
  p_fusion     text default 'convex',
  p_as_of      timestamptz default null,
  p_filter     jsonb default null,
  p_candidates integer default 100,
  p_threshold  double precision default null,
  p_token      text default null,
  p_probes            text[] default null,
  p_probe_embeddings  public.vector[] default null,
  p_per_document      integer default null,
  p_per_source        integer default null,
  p_isolation         text default 'auto',
  p_profile           text default 'normal',
  p_order             text[] default null,
  p_reranker          text default null
) returns table (
  rank integer, score double precision, relevance double precision,
  source text, document text, revision text, active boolean, title text, section text, page integer, language text,
  span_start integer, span_end integer, effective_from timestamptz, effective_to timestamptz, ingested_at timestamptz, trust text,
  lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision,
  chunk_id text, text text, status text, complete boolean, complete_reason text,
  matched_terms jsonb, duplicates jsonb, probe integer
)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_found jsonb := pgrag_private.retrieve(
    pgrag_private.current_principal(p_token, 'reader'),
    (p_question, p_k, p_mode, p_embedding, p_space, p_fusion, p_as_of, p_filter, p_candidates, p_threshold, p_probes, p_probe_embeddings,
     p_per_document, p_per_source, p_isolation, p_profile, p_order, p_reranker)::pgrag_private.search_request);
begin
  return query
  select h.rank, h.score, h.relevance, h.source, h.document, h.revision, h.active, h.title, h.section, h.page, h.language,
         h.span_start, h.span_end, h.effective_from, h.effective_to, h.ingested_at, h.trust,
         h.lexical_rank, h.lexical_score, h.dense_rank, h.dense_score, h.chunk_id, h.text,
         v_found ->> 'status', (v_found ->> 'complete')::boolean, v_found ->> 'complete_reason',
         h.matched_terms, h.duplicates, h.probe
    from jsonb_to_recordset(v_found -> 'hits') as h (
      rank integer, score double precision, relevance double precision,
      source text, document text, revision text, active boolean, title text, section text, page integer, language text,
      span_start integer, span_end integer, effective_from timestamptz, effective_to timestamptz, ingested_at timestamptz, trust text,
      lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision,
      chunk_id text, text text, matched_terms jsonb, duplicates jsonb, probe integer)
   order by h.rank;
end
$$;

comment on function pgrag.search is 'The passages that answer a question best, of those that the reader may see: hybrid, lexical or dense, today or as of a date.';
revoke all on function pgrag.search from public;
