-- The one way from a question to ranked chunks; pgrag.search, pgrag.search_json and pgrag.packet are its
-- clothes. check → scope → plan → lanes → fuse → pick → describe, in one snapshot: every function below it is STABLE.
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
--   relevance  the square root of coverage * cosine: a hit is evidence if it has the question's rare words and its vector is near;
--              in lexical mode the normalised BM25, in dense mode the cosine
create or replace function pgrag_private.retrieve(p_principal pgrag_private.principal, p_search pgrag_private.search_request) returns jsonb
language plpgsql stable parallel restricted as $$
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
  v_parts       pgrag_private.scope_part[];
  v_revisions   bigint[];
  v_chunks      bigint;
  v_index       boolean;
  v_relaxed     text[] := '{}';
  v_languages   text[];
  v_conditions  tsquery[];
  v_plans       pgrag_private.lexical_plan[] := '{}';
  v_ranked      pgrag_private.ranked_chunk[];
  v_top         double precision;
  v_trust       double precision;
  v_picked      record;
  v_hits        jsonb;
  v_reason      text;
begin
  perform pgrag_private.check_search(p_search);
  perform pgrag_private.check_filter(p_search.filter);
  if v_dense then
    v_embeddings := array[p_search.embedding] || p_search.probe_embeddings;
    foreach v_embedding in array v_embeddings loop
      v_space := pgrag_private.check_embedding(v_tenant_id, p_search.space, v_embedding);
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

  v_parts := pgrag_private.scope_parts(v_tenant_id, p_principal.reader_id, p_search.as_of, p_search.filter,
                                       p_search.isolation = 'auto');
  select coalesce(array_agg(r.revision_id), '{}') into v_revisions
    from unnest(v_parts) as p cross join lateral unnest(p.revisions) as r (revision_id);
  v_chunks := (select coalesce(sum(p.chunks), 0) from unnest(v_parts) as p);
  v_index := p_search.isolation = 'auto' and v_chunks > pgrag_private.scope_first_limit();

  -- A phrase that nothing visible holds is asked for as words, and the answer says so.
  if cardinality(v_question.phrases) > 0 and not pgrag_private.phrases_occur(v_tenant_id, v_parts, v_question.phrases, v_index) then
    v_question.phrases := '{}';
    v_relaxed := '{phrases}';
  end if;
  if v_lexical then
    v_plans := pgrag_private.lexical_plans(v_tenant_id, v_parts, v_wordings, v_question.phrases, v_question.excluded, v_index);
  end if;
  if v_dense and cardinality(v_question.phrases || v_question.excluded) > 0 then
    select array_agg(l.language), array_agg(pgrag_private.question_condition(l.language, v_question.phrases, v_question.excluded))
      into v_languages, v_conditions
      from (select distinct l.language from unnest(v_parts) as p cross join lateral unnest(p.languages) as l (language)) l;
  end if;

  -- Chunk ids and vectors are looked up row by row (a scalar sub-select cannot become a join): a plan that read the
  -- tables instead would touch, and so let be counted, rows outside the scope.
  with dense as materialized (
    select d.wording, d.revision_id, d.chunk_no, d.chunk_id,
           row_number() over (partition by d.wording order by d.cosine desc, d.chunk_id) as place
      from (select (w.n - 1)::integer as wording, d.revision_id, d.chunk_no, d.cosine,
                   (select c.chunk_id from pgrag_data.chunk c
                     where c.tenant_id = v_tenant_id and c.revision_id = d.revision_id and c.chunk_no = d.chunk_no) as chunk_id
              from unnest(v_embeddings) with ordinality as w (embedding, n)
             cross join lateral pgrag_private.dense_lane(v_tenant_id, v_revisions, v_space.space_id, w.embedding, v_candidates,
                                                         v_languages, v_conditions) d) d
  ), dense_best as materialized (
    select distinct revision_id, chunk_no from dense where place <= v_candidates
  ), also as materialized (
    select array_agg(revision_id) as revisions, array_agg(chunk_no) as chunks from dense_best
  ), lexical as materialized (
    select l.wording, l.revision_id, l.chunk_no, l.chunk_id, l.score, l.share, l.coverage, l.evidence, l.tf, l.part,
           row_number() over (partition by l.wording order by l.share desc, l.score desc, l.chunk_id) as place
      from (select p.wording, l.*,
                   (select c.chunk_id from pgrag_data.chunk c
                     where c.tenant_id = v_tenant_id and c.revision_id = l.revision_id and c.chunk_no = l.chunk_no) as chunk_id
              from unnest(v_plans) as p
             cross join also a
             cross join lateral pgrag_private.lexical_lane(v_tenant_id, p, v_candidates, a.revisions, a.chunks) l) l
  ), candidate as materialized (
    select revision_id, chunk_no, chunk_id from lexical where place <= v_candidates
    union
    select revision_id, chunk_no, chunk_id from dense where place <= v_candidates
  ), scored as materialized (
    -- What one lane found is scored by both: what the other lane would have said of it is known exactly.
    select c.revision_id, c.chunk_no, c.chunk_id, w.n::integer as wording, l.score as lexical_score, l.tf, l.part,
           case when l.place <= v_candidates then l.place end as lexical_rank,
           case when d.place <= v_candidates then d.place end as dense_rank,
           coalesce(l.share, 0) as share, coalesce(l.coverage, 0) as coverage, coalesce(l.evidence, 0) as evidence,
           case when v_embeddings is not null then
             (select nullif(1 - (v.embedding operator(public.<=>) v_embeddings[w.n + 1]), 'NaN')
                from pgrag_data.chunk_vec v
               where v.tenant_id = v_tenant_id and v.space_id = v_space.space_id
                 and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
           end as cosine
      from candidate c
     cross join generate_series(0, cardinality(v_wordings) - 1) as w (n)
      left join lexical l on l.wording = w.n and l.revision_id = c.revision_id and l.chunk_no = c.chunk_no
      left join dense d on d.wording = w.n and d.revision_id = c.revision_id and d.chunk_no = c.chunk_no
  ), trusted as materialized (
    -- Of each wording's lexical candidates: their best, and how far their cosines rise with their scores. Ten candidates of
    -- full agreement are added in, so that a handful cannot decide.
    select a.wording, a.best, 1 - least(a.best / 0.3, 1) * (1 - least(greatest((a.n * coalesce(a.r, 0.3) + 3) / (a.n + 10) / 0.3, 0), 1)) as trust
      from (select s.wording, max(s.share) as best, count(s.cosine) as n, corr(s.share, s.cosine order by s.chunk_id) as r
              from scored s
             where s.lexical_rank is not null
             group by s.wording) a
  ), judged as (
    select s.*,
           (s.share / greatest(t.best, 0.3) + coalesce(t.trust, 1) * greatest(coalesce(s.cosine, 0), 0)) / 2 as convex,
           coalesce(0.7 / (rrf_constant + s.lexical_rank), 0) + coalesce(0.3 / (rrf_constant + s.dense_rank), 0) as rrf,
           case p_search.mode when 'lexical' then s.evidence
                              when 'dense' then greatest(coalesce(s.cosine, 0), 0)
                              else sqrt(s.coverage * greatest(coalesce(s.cosine, 0), 0)) end as relevance
      from scored s
      left join trusted t on t.wording = s.wording -- no lexical candidate: nothing speaks against the cosine
  ), whole as (
    -- A chunk is as relevant as the wording that it fits best says; lanes of ranks add up.
    select j.revision_id, j.chunk_no, j.chunk_id, max(j.relevance) as relevance,
           case when p_search.mode = 'dense' then max(j.cosine)
                when p_search.mode = 'lexical' then max(j.share)
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
                   order by array_position(p_search.chunk_order, encode(w.chunk_id, 'hex')), w.score desc, w.chunk_id)
    into v_trust, v_ranked
    from whole w;

  v_picked := pgrag_private.pick(v_tenant_id, v_ranked, p_search.k, p_search.per_document, p_search.per_source);
  select max(h.relevance), jsonb_agg(
           pgrag_private.describe_chunk(v_tenant_id, h.revision_id, h.chunk_no) || jsonb_build_object(
             'rank', h.n,
             'score', pgrag_private.score(h.score),
             'relevance', pgrag_private.score(h.relevance),
             'lexical_rank', h.lexical_rank,
             'lexical_score', pgrag_private.score(h.lexical_score),
             'dense_rank', h.dense_rank,
             'dense_score', pgrag_private.score(h.dense_score),
             'matched_terms', pgrag_private.matched_terms(v_tenant_id, h.revision_id, h.chunk_no, v_plans, h.tf, h.part),
             'probe', nullif(h.wording, 0),
             'duplicates', h.duplicates)
           order by h.n)
    into v_top, v_hits
    from unnest(v_picked.chunks) with ordinality as h (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                       dense_rank, dense_score, tf, part, duplicates, n);

  v_reason := case
    when v_chunks = 0 then 'nothing_visible'
    when v_hits is null and v_lexical and v_plans = '{}' then 'stop_words_only'
    when v_hits is null then 'nothing_matches'
    when v_top < v_threshold then 'below_threshold'
  end;
  return jsonb_build_object(
    'status', case when v_reason is null then 'evidence' else 'abstain' end,
    'reason', v_reason,
    'complete', v_picked.complete_reason in ('k_returned', 'all_matches_returned'),
    'complete_reason', v_picked.complete_reason,
    'policy', jsonb_strip_nulls(jsonb_build_object(
      'mode', p_search.mode, 'k', p_search.k, 'candidates', v_candidates, 'profile', p_search.profile, 'isolation', p_search.isolation,
      'fusion', case when p_search.mode = 'hybrid' then p_search.fusion end,
      'rrf_constant', case when p_search.mode = 'hybrid' and p_search.fusion = 'rrf' then rrf_constant end,
      'lexical_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.7 else 0.5 end end,
      'dense_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.3 else pgrag_private.score(0.5 * v_trust) end end,
      'bm25', case when v_lexical then jsonb_build_object('k1', 1.2, 'b', 0.75) end,
      'lexical_route', case when v_lexical then case when v_index then 'index' else 'scope' end end,
      'lexical_bound', pgrag_private.lexical_bound(v_plans),
      'dense_route', case when v_dense then 'exact' end,
      'space', v_space.space,
      'phrases', nullif(to_jsonb(v_question.phrases), '[]'),
      'excluded', nullif(to_jsonb(v_question.excluded), '[]'),
      'relaxed', nullif(to_jsonb(v_relaxed), '[]'),
      'probes', cardinality(p_search.probes),
      'per_document', p_search.per_document,
      'per_source', p_search.per_source,
      'reranker', p_search.reranker,
      'threshold', pgrag_private.score(v_threshold))),
    'scope', jsonb_build_object('documents', cardinality(v_revisions), 'chunks', v_chunks),
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

-- What is said of a chunk wherever it is shown: where it is from, and its text.
create or replace function pgrag_private.describe_chunk(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer) returns jsonb
language sql stable parallel restricted
begin atomic
  select jsonb_build_object(
    'chunk_id', encode(c.chunk_id, 'hex'),
    'source', s.source,
    'document', d.document,
    'revision', r.revision,
    'active', r.revision_id is not distinct from d.active_revision_id,
    'title', r.title,
    'section', c.section,
    'page', c.page,
    'language', c.language,
    'span_start', c.span_start,
    'span_end', c.span_end,
    'span_unit', 'code points',
    'tokens', c.token_count,
    'tokenizer', r.tokenizer,
    'trust', s.trust,
    'effective_from', pgrag_private.utc(r.effective_from),
    'effective_to', pgrag_private.utc(r.effective_to),
    'ingested_at', pgrag_private.utc(r.created_at),
    'text', c.text)
    from pgrag_data.chunk c
    join pgrag_data.revision r on r.tenant_id = c.tenant_id and r.revision_id = c.revision_id
    join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
   where c.tenant_id = p_tenant_id and c.revision_id = p_revision_id and c.chunk_no = p_chunk_no;
end;

-- Bounds of a search. Types are what PostgreSQL's own let through.
create or replace function pgrag_private.check_search(p_search pgrag_private.search_request) returns void
language plpgsql immutable parallel safe as $$
declare
  v_wording text;
begin
  foreach v_wording in array array[p_search.question] || coalesce(p_search.probes, '{}') loop
    if v_wording is null or pgrag_private.is_blank(v_wording) then
      raise exception using errcode = 'RG301', message = 'the question is empty', hint = 'Pass the question''s text; a probe is text too.';
    elsif length(v_wording) > 4000 then
      raise exception using errcode = 'RG301', message = 'the question is too long',
        detail = format('%s characters; the bound is 4000', length(v_wording)), hint = 'Ask for what is sought, without its context.';
    end if;
  end loop;
  if p_search.k is null or p_search.k not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'k must be a whole number from 1 to 100',
      detail = format('k: %s', coalesce(p_search.k::text, 'null')), hint = 'Narrow the question or filter; there are no further pages.';
  elsif p_search.candidates is null or p_search.candidates not between p_search.k and 1000 then
    raise exception using errcode = 'RG302', message = 'candidates must be a whole number from k to 1000',
      detail = format('candidates: %s, k: %s', coalesce(p_search.candidates::text, 'null'), p_search.k),
      hint = 'Leave it out for the default of 100.';
  elsif p_search.per_document not between 1 and 100 or p_search.per_source not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'a cap must be a whole number from 1 to 100',
      hint = 'Leave per_document and per_source out for no cap.';
  elsif p_search.mode is null or p_search.mode not in ('hybrid', 'lexical', 'dense') then
    raise exception using errcode = 'RG303', message = 'the mode is not known', hint = 'Modes: hybrid, lexical, dense.';
  elsif p_search.fusion is null or p_search.fusion not in ('convex', 'rrf') then
    raise exception using errcode = 'RG303', message = 'the fusion is not known', hint = 'Fusions: convex, rrf.';
  elsif p_search.isolation is null or p_search.isolation not in ('auto', 'strict') then
    raise exception using errcode = 'RG303', message = 'the isolation is not known', hint = 'Isolations: auto, strict.';
  elsif p_search.profile is null or p_search.profile not in ('normal', 'retry') then
    raise exception using errcode = 'RG303', message = 'the profile is not known', hint = 'Profiles: normal, retry.';
  elsif p_search.as_of not between '0001-01-01' and '9999-12-31T23:59:59.999999Z' then
    raise exception using errcode = 'RG303', message = 'as_of must be a point in time', hint = 'Leave it out for today''s revisions.';
  elsif p_search.threshold = 'NaN' or p_search.threshold not between 0 and 1 then
    raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1', hint = 'Leave it out for the mode''s default.';
  elsif cardinality(p_search.probes) > 4 or cardinality(p_search.probe_embeddings) <> coalesce(cardinality(p_search.probes), 0) then
    raise exception using errcode = 'RG308', message = 'there are too many probes, or not one embedding for each',
      detail = format('probes: %s, embeddings: %s', coalesce(cardinality(p_search.probes), 0),
                      coalesce(cardinality(p_search.probe_embeddings)::text, 'none')),
      hint = 'Pass at most 4 further wordings, and for all of them an embedding or for none.';
  elsif p_search.mode = 'dense' and p_search.probes is not null and p_search.probe_embeddings is null then
    raise exception using errcode = 'RG308', message = 'in dense mode a probe needs its embedding',
      hint = 'Pass p_probe_embeddings, or p_mode => ''lexical''.';
  elsif cardinality(p_search.chunk_order) > 100 or array_position(p_search.chunk_order, null) is not null
        or length(p_search.reranker) > 200 or (p_search.chunk_order is null) <> (p_search.reranker is null) then
    raise exception using errcode = 'RG308', message = 'a reranker''s order is at most 100 chunk ids, with the reranker''s name',
      hint = 'Pass p_order and p_reranker together; chunk ids as in the hits, the best first.';
  end if;
end
$$;

-- A question's vector is compared with vectors of its own space only: equal dimensions prove nothing.
create or replace function pgrag_private.check_embedding(p_tenant_id bigint, p_space text, p_embedding public.vector)
returns pgrag_data.embedding_space
language plpgsql stable parallel restricted as $$
declare
  v_space pgrag_data.embedding_space;
begin
  if p_embedding is null or p_space is null then
    raise exception using errcode = 'RG305', message = 'this mode needs the question''s embedding and the name of its space',
      hint = 'Pass p_embedding and p_space, or p_mode => ''lexical''.';
  end if;
  select s.* into v_space
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   where t.tenant_id = p_tenant_id and s.space = p_space;
  if not found then
    raise exception using errcode = 'RG305', message = 'the embedding is not of the tenant''s active space',
      hint = 'select * from pgrag.active_space() names it; encode the question with its model.';
  end if;
  if public.vector_dims(p_embedding) <> v_space.dimension then
    raise exception using errcode = 'RG305', message = 'the embedding has not the dimension of its space',
      detail = format('%s; the space has %s', public.vector_dims(p_embedding), v_space.dimension),
      hint = 'Encode the question with the space''s model.';
  end if;
  if public.vector_norm(p_embedding) = 0 then
    raise exception using errcode = 'RG305', message = 'the embedding is zero, which is near to nothing',
      hint = 'The model knows no word of the question: ask with p_mode => ''lexical''.';
  end if;
  -- pgvector sums squares in single precision: beyond these the cosine would be NaN, and the answer empty.
  if public.vector_norm(p_embedding) not between 1e-15 and 1e15 then
    raise exception using errcode = 'RG305', message = 'the embedding is too short or too long to be compared',
      detail = 'its length must be from 1e-15 to 1e15', hint = 'Scale it to length 1: the cosine does not change.';
  end if;
  return v_space;
end
$$;
