-- The one way from a question to ranked chunks; pgrag.search, pgrag.search_json and pgrag.packet are its
-- clothes. check → scope → plan → lanes → fuse → pick → describe, in one snapshot: every function below it is STABLE.
-- Its own statements are planned once a session, half of the time of a small search; scope and lanes are planned for what
-- they are asked (a generic plan turned 0.4 ms into 1,508 there).
--
-- The answer is an object:
--   status, reason     'evidence', or 'abstain' with nothing_visible, stop_words_only, nothing_matches, below_threshold
--   complete           whether k rows, or all rows that match, came back; complete_reason says which, or why not
--   policy             what was in force, bounds that were hit among it
--   hits               best first; each with its place, provenance, ranks, scores and matched terms
--
-- How the default fusion, convex, orders hybrid hits (docs/ranking.md has the measurements, and what lost):
--   score      (share / best share + trust * cosine) / 2
--   share      a hit's BM25 over the most that the question could score; the best of the question counts as 0.3 at the least
--   trust      1, but where the cosine is noise for this question, as that of an English model is for Arabic text: the lexical
--              lane has found something, and the cosines of what it found do not rise with its scores
-- and what the threshold applies to, whatever the order:
--   relevance  the square root of coverage * cosine: a hit is evidence if it has the question's rare words and its vector is near
--              (of a chunk that has no vector, its normalised BM25); in lexical mode the normalised BM25, in dense mode the cosine
create or replace function pgrag_private.retrieve(p_principal pgrag_private.principal, p_search pgrag_private.search_request) returns jsonb
language plpgsql stable parallel restricted set plan_cache_mode = force_generic_plan as $$
declare
  rrf_constant constant integer := 60;
  v_tenant_id   bigint := p_principal.tenant_id;
  v_lexical     boolean := p_search.mode <> 'dense';
  v_dense       boolean := p_search.mode <> 'lexical';
  v_threshold   double precision := coalesce(p_search.threshold, pgrag_private.default_threshold(p_search.mode));
  v_candidates  integer;
  v_space       pgrag_data.embedding_space;
  v_embedding   public.vector;
  v_question    record;
  v_wordings    text[];
  v_embeddings  public.vector[];
  v_halves      public.halfvec[];
  v_scope       pgrag_private.search_scope;
  v_index       boolean;
  -- Blocks have active revisions only: what was in force at another time is compared.
  v_dense_isolation constant text := case when p_search.as_of is null then p_search.isolation else 'strict' end;
  v_limit       integer;
  v_dense_plan  pgrag_private.dense_plan;
  v_fell_back   boolean;
  v_relaxed     text[] := '{}';
  v_languages   text[];
  v_conditions  tsquery[];
  v_plans       pgrag_private.lexical_plan[] := '{}';
  v_ranked      pgrag_private.ranked_chunk[];
  v_top         double precision;
  v_trust       double precision;
  v_picked      record;
  v_hits        jsonb;
  v_bound       jsonb;
  v_full        boolean;
  v_complete    text;
  v_reason      text;
begin
  perform pgrag_private.check_search(p_search);
  perform pgrag_private.check_filter(p_search.filter);
  if v_dense then
    v_embeddings := array[p_search.embedding] || p_search.probe_embeddings;
    foreach v_embedding in array v_embeddings loop
      v_space := pgrag_private.check_embedding(v_tenant_id, p_search.space, v_embedding);
      v_halves := v_halves || public.l2_normalize(v_embedding)::public.halfvec;
    end loop;
  end if;
  v_question := pgrag_private.parse_question(p_search.question);
  v_wordings := array[v_question.words] || p_search.probes;
  v_candidates := p_search.candidates;
  if p_search.profile = 'retry' then
    v_candidates := least(4 * v_candidates, 1000);
    if cardinality(v_question.phrases) > 0 then
      v_question.phrases := '{}';
      v_relaxed := '{phrases}';
    end if;
  end if;

  v_scope := pgrag_private.search_scope(v_tenant_id, p_principal.reader_id, p_search,
                                        p_listed => v_lexical or cardinality(v_question.phrases) > 0);
  v_index := p_search.isolation = 'auto' and v_scope.chunks > pgrag_private.scope_first_limit();

  -- A phrase that nothing visible holds is asked for as words, and the answer says so.
  if cardinality(v_question.phrases) > 0 and not pgrag_private.phrases_occur(v_scope, v_question.phrases, v_index) then
    v_question.phrases := '{}';
    v_relaxed := '{phrases}';
  end if;
  if v_lexical then
    v_plans := pgrag_private.lexical_plans(v_scope, v_wordings, v_question.phrases, v_question.excluded, v_index);
  end if;
  if v_dense and cardinality(v_question.phrases || v_question.excluded) > 0 then
    select array_agg(l.language), array_agg(s.condition) into v_languages, v_conditions
      from (select s.languages, pgrag_private.question_condition(s.languages[1], v_question.phrases, v_question.excluded) as condition
              from pgrag_private.scope_languages(v_scope.parts) s offset 0) s
     cross join lateral unnest(s.languages) as l (language);
  end if;

  if p_search.mode = 'dense' and cardinality(v_wordings) = 1 then
    -- One lane and one wording: there is nothing to fuse, and a few candidates are enough for k of them, unless so many are
    -- left out as near-duplicates or by a cap that fewer come back; then all are asked for.
    foreach v_limit in array case when p_search.chunk_order is null then array[least(greatest(2 * p_search.k, 20), v_candidates)] end || v_candidates loop
      v_dense_plan := pgrag_private.dense_plan(v_scope, v_space, v_limit, v_dense_isolation);
      select array_agg((d.revision_id, d.chunk_no, d.cosine, greatest(d.cosine, 0), 0, null, null, d.place, d.cosine,
                        null, null, '[]')::pgrag_private.ranked_chunk
                       order by array_position(p_search.chunk_order, encode(d.chunk_id, 'hex')), d.cosine desc, d.chunk_id),
             coalesce(bool_or(d.place = v_limit), false), bool_or(d.fell_back)
        into v_ranked, v_full, v_fell_back
        from (select l.*, row_number() over (order by l.cosine desc, l.chunk_id) as place
                from pgrag_private.dense_lane(v_scope, v_dense_plan, v_space.space_id, p_search.embedding, v_limit, v_languages, v_conditions) l) d;
      v_picked := pgrag_private.pick(v_tenant_id, v_ranked, p_search.k, p_search.per_document, p_search.per_source);
      exit when cardinality(v_picked.chunks) = p_search.k or not v_full or v_limit = v_candidates;
    end loop;
  else
    if v_dense then
      v_dense_plan := pgrag_private.dense_plan(v_scope, v_space, v_candidates, v_dense_isolation);
    end if;
    with dense as materialized (
      select (w.n - 1)::integer as wording, d.revision_id, d.chunk_no, d.chunk_id, d.fell_back,
             row_number() over (partition by w.n order by d.cosine desc, d.chunk_id) as place
        from unnest(v_embeddings) with ordinality as w (embedding, n)
       cross join lateral pgrag_private.dense_lane(v_scope, v_dense_plan, v_space.space_id, w.embedding, v_candidates,
                                                   v_languages, v_conditions) d
    ), also as materialized (
      select array_agg(d.revision_id) as revisions, array_agg(d.chunk_no) as chunks from (select distinct revision_id, chunk_no from dense) d
    ), lexical as materialized (
      select p.wording, l.revision_id, l.chunk_no, l.chunk_id, l.score, l.share, l.coverage, l.evidence, l.tf, l.part,
             row_number() over (partition by p.wording order by l.share desc, l.score desc, l.chunk_id) as place
        from unnest(v_plans) as p
       cross join also a
       cross join lateral pgrag_private.lexical_lane(v_tenant_id, p, v_candidates, a.revisions, a.chunks) l
    ), candidate as materialized (
      select revision_id, chunk_no, chunk_id from lexical where place <= v_candidates
      union
      select revision_id, chunk_no, chunk_id from dense
    ), scored as materialized (
      -- What one lane found is scored by both: what the other lane would have said of it is known exactly.
      select c.revision_id, c.chunk_no, c.chunk_id, w.n::integer as wording, l.score as lexical_score, l.tf, l.part,
             case when l.place <= v_candidates then l.place end as lexical_rank, d.place as dense_rank,
             coalesce(l.share, 0) as share, coalesce(l.coverage, 0) as coverage, coalesce(l.evidence, 0) as evidence,
             case when v_embeddings is not null then
               -- Row by row: a scalar sub-select cannot become a join, which would touch rows outside the scope.
               -- A probe without a vector of its own is a wording of the question, and has the question's.
               (select nullif(1 - coalesce(v.embedding operator(public.<=>) coalesce(v_embeddings[w.n + 1], v_embeddings[1]),
                                          v.half operator(public.<=>) coalesce(v_halves[w.n + 1], v_halves[1])), 'NaN')
                  from pgrag_data.chunk_vec v
                 where v.tenant_id = v_tenant_id and v.space_id = v_space.space_id
                   and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
             end as cosine
        from candidate c
       cross join generate_series(0, cardinality(v_wordings) - 1) as w (n)
        left join lexical l on l.wording = w.n and l.revision_id = c.revision_id and l.chunk_no = c.chunk_no
        left join dense d on d.wording = w.n and d.revision_id = c.revision_id and d.chunk_no = c.chunk_no
    ), trusted as materialized (
      -- Of each wording's lexical candidates: their best, and how far their cosines rise with their scores (a correlation of 0.2 is
      -- full agreement); ten of full agreement are added in, so that a handful cannot decide. Three points say nothing: any two
      -- are on a line.
      select a.wording, a.best, 1 - least(a.best / 0.3, 1) * (1 - least(greatest((a.n * coalesce(a.r, 0.2) + 2) / (a.n + 10) / 0.2, 0), 1)) as trust
        from (select s.wording, max(s.share) as best, greatest(count(s.cosine) - 3, 0) as n, corr(s.share, s.cosine order by s.chunk_id) as r
                from scored s
               where s.lexical_rank is not null
               group by s.wording) a
    ), judged as (
      select s.*, t.best,
             (s.share / greatest(t.best, 0.3) + coalesce(t.trust, 1) * greatest(coalesce(s.cosine, 0), 0)) / 2 as convex,
             coalesce(0.7 / (rrf_constant + s.lexical_rank), 0) + coalesce(0.3 / (rrf_constant + s.dense_rank), 0) as rrf,
             case p_search.mode when 'lexical' then s.evidence
                                when 'dense' then greatest(coalesce(s.cosine, 0), 0)
                                else sqrt(s.coverage * greatest(coalesce(s.cosine, s.evidence), 0)) end as relevance
        from scored s
        left join trusted t on t.wording = s.wording -- no lexical candidate: nothing speaks against the cosine
    ), whole as (
      -- A chunk is as relevant as the wording that it fits best says; lanes of ranks add up.
      select j.revision_id, j.chunk_no, j.chunk_id, max(j.relevance) as relevance,
             case when p_search.mode = 'dense' then max(j.cosine)
                  when p_search.mode = 'lexical' then max(j.share / greatest(j.best, 1))
                  when p_search.fusion = 'rrf' then sum(j.rrf order by j.wording)
                  else max(j.convex) end as score,
             (array_agg(j.wording order by j.relevance desc, j.wording))[1] as wording,
             max(j.lexical_rank) filter (where j.wording = 0) as lexical_rank, max(j.lexical_score) filter (where j.wording = 0) as lexical_score,
             max(j.dense_rank) filter (where j.wording = 0) as dense_rank, max(j.cosine) filter (where j.wording = 0) as dense_score,
             min(j.tf) filter (where j.wording = 0) as tf, min(j.part) filter (where j.wording = 0) as part
        from judged j
       group by j.revision_id, j.chunk_no, j.chunk_id
    )
    select (select coalesce(min(t.trust), 1) from trusted t where t.wording = 0),
           array_agg((w.revision_id, w.chunk_no, w.score, w.relevance, w.wording, w.lexical_rank, w.lexical_score, w.dense_rank,
                      w.dense_score, w.tf, w.part, '[]')::pgrag_private.ranked_chunk
                     order by array_position(p_search.chunk_order, encode(w.chunk_id, 'hex')), w.score desc, w.chunk_id),
           exists (select from lexical where place = v_candidates) or exists (select from dense where place = v_candidates),
           (select bool_or(d.fell_back) from dense d)
      into v_trust, v_ranked, v_full, v_fell_back
      from whole w;
    v_picked := pgrag_private.pick(v_tenant_id, v_ranked, p_search.k, p_search.per_document, p_search.per_source);
  end if;

  select max(h.relevance), jsonb_agg(
           c.described || jsonb_build_object(
             'rank', h.n,
             'score', pgrag_private.score(h.score),
             'relevance', pgrag_private.score(h.relevance),
             'lexical_rank', h.lexical_rank,
             'lexical_score', pgrag_private.score(h.lexical_score),
             'dense_rank', h.dense_rank,
             'dense_score', pgrag_private.score(h.dense_score),
             'matched_terms', case when v_lexical then pgrag_private.matched_terms(v_tenant_id, h.revision_id, h.chunk_no, v_plans, h.tf, h.part) else '[]' end,
             'probe', nullif(h.wording, 0),
             'duplicates', h.duplicates)
           order by h.n)
    into v_top, v_hits
    from unnest(v_picked.chunks) with ordinality as h (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                       dense_rank, dense_score, tf, part, duplicates, n)
   cross join lateral pgrag_private.describe_chunk(v_tenant_id, h.revision_id, h.chunk_no) c;

  v_bound := pgrag_private.lexical_bound(v_plans);
  -- A full lane, of near-duplicates that collapsed: there may be more behind its last candidate.
  v_complete := case when v_picked.complete_reason = 'all_matches_returned' and v_full then 'capped'
                     when v_picked.complete_reason = 'all_matches_returned' and v_bound is not null then 'words_not_searched'
                     else v_picked.complete_reason end;
  v_reason := case
    when v_scope.chunks = 0 then 'nothing_visible'
    when v_hits is null and v_lexical and v_plans = '{}' then 'stop_words_only'
    when v_hits is null then 'nothing_matches'
    when v_top < v_threshold then 'below_threshold'
  end;
  return jsonb_build_object(
    'status', case when v_reason is null then 'evidence' else 'abstain' end,
    'reason', v_reason,
    'complete', v_complete in ('k_returned', 'all_matches_returned'),
    'complete_reason', v_complete,
    'policy', jsonb_strip_nulls(jsonb_build_object(
      'mode', p_search.mode, 'k', p_search.k, 'candidates', v_candidates, 'profile', p_search.profile, 'isolation', p_search.isolation,
      'fusion', case when p_search.mode = 'hybrid' then p_search.fusion end,
      'rrf_constant', case when p_search.mode = 'hybrid' and p_search.fusion = 'rrf' then rrf_constant end,
      'lexical_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.7 else 0.5 end end,
      'dense_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.3 else pgrag_private.score(0.5 * v_trust) end end,
      'bm25', case when v_lexical then jsonb_build_object('k1', 1.2, 'b', 0.75) end,
      'lexical_route', case when v_lexical then case when v_index then 'index' else 'scope' end end,
      'lexical_bound', v_bound,
      'dense_route', v_dense_plan.route,
      'dense_costs', v_dense_plan.costs,
      'dense_blocks', nullif(cardinality(v_dense_plan.blocks), 0),  -- how many: their numbers would count those of other tenants
      'dense_requested', case when v_dense_plan.route <> 'exact' then v_dense_plan.requested end,
      'dense_fell_back', nullif(v_fell_back, false),
      'space', v_space.space,
      'phrases', nullif(to_jsonb(v_question.phrases), '[]'),
      'excluded', nullif(to_jsonb(v_question.excluded), '[]'),
      'relaxed', nullif(to_jsonb(v_relaxed), '[]'),
      'probes', cardinality(p_search.probes),
      'per_document', p_search.per_document,
      'per_source', p_search.per_source,
      'reranker', p_search.reranker,
      'threshold', pgrag_private.score(v_threshold))),
    'scope', jsonb_build_object('documents', v_scope.documents, 'chunks', v_scope.chunks),
    'top_relevance', pgrag_private.score(v_top),
    'processors', (select coalesce(jsonb_object_agg(s.source, to_jsonb(s.processors)), '{}')
                     from pgrag_data.source s
                    where s.tenant_id = v_tenant_id
                      and s.source in (select hit ->> 'source' from jsonb_array_elements(v_hits) as h (hit))),
    'hits', coalesce(v_hits, '[]'));
end
$$;

-- Below these the best hit is no evidence. Measured: see docs/ranking.md.
create or replace function pgrag_private.default_threshold(p_mode text) returns double precision
language sql immutable parallel safe
return case p_mode when 'lexical' then 0.22 when 'dense' then 0.30 else 0.40 end;
