-- The one way from a question to ranked chunks; pgrag.search, pgrag.search_json and pgrag.packet are its
-- clothes. check → scope → lanes → fuse → describe, in one snapshot: every function below it is STABLE.
--
-- The answer is an object:
--   status, reason     'evidence', or 'abstain' with nothing_visible, stop_words_only, nothing_matches, below_threshold
--   complete           whether k rows, or all rows that match, came back
--   hits               best first; each with its place, provenance, ranks and scores
-- relevance is the normalised fused score, comparable across questions: 0.7 × BM25 over the most that the
-- question could score + 0.3 × cosine (never below 0) in hybrid mode, the one of the lane in the other two.
-- The threshold applies to it, whatever fusion orders the hits.
create or replace function pgrag_private.retrieve(
  p_principal  pgrag_private.principal,
  p_question   text,
  p_k          integer,
  p_mode       text,
  p_embedding  public.vector,
  p_space      text,
  p_fusion     text,
  p_as_of      timestamptz,
  p_filter     jsonb,
  p_candidates integer,
  p_threshold  double precision
) returns jsonb
language plpgsql stable parallel restricted as $$
declare
  rrf_constant constant integer := 60;
  v_threshold   double precision := coalesce(p_threshold, pgrag_private.default_threshold(p_mode));
  v_weight      double precision := case p_mode when 'hybrid' then 0.7 when 'lexical' then 1 else 0 end;
  v_space       pgrag_data.embedding_space;
  v_revisions   bigint[];
  v_chunks      bigint;
  v_matches     bigint;
  v_hits        jsonb;
  v_top         double precision;
  v_reason      text;
begin
  perform pgrag_private.check_request(p_question, p_k, p_mode, p_fusion, p_as_of, p_candidates, p_threshold);
  perform pgrag_private.check_filter(p_filter);
  if p_mode <> 'lexical' then
    v_space := pgrag_private.check_embedding(p_principal.tenant_id, p_space, p_embedding);
  end if;

  v_revisions := pgrag_private.scope(p_principal.tenant_id, p_principal.reader_id, p_as_of, p_filter);
  select coalesce(sum(r.chunk_count), 0) into v_chunks
    from pgrag_data.revision r
   where r.tenant_id = p_principal.tenant_id and r.revision_id = any (v_revisions);

  -- Chunk ids and vectors are looked up row by row (a scalar sub-select cannot become a join): a plan that read the
  -- tables instead would touch, and so let be counted, rows outside the scope.
  with lexical as materialized (
    select l.revision_id, l.chunk_no, l.score, l.relevance
      from pgrag_private.lexical_lane(p_principal.tenant_id, v_revisions, p_question) l
     where p_mode <> 'dense'
  ), lexical_ranked as (
    select l.revision_id, l.chunk_no, l.chunk_id, row_number() over (order by l.score desc, l.chunk_id) as place
      from (select l.revision_id, l.chunk_no, l.score,
                   (select c.chunk_id from pgrag_data.chunk c
                     where c.tenant_id = p_principal.tenant_id and c.revision_id = l.revision_id and c.chunk_no = l.chunk_no) as chunk_id
              from lexical l
             order by l.score desc fetch first p_candidates rows with ties) l
  ), dense_ranked as materialized (
    select d.revision_id, d.chunk_no, d.chunk_id, row_number() over (order by d.cosine desc, d.chunk_id) as place
      from (select d.revision_id, d.chunk_no, d.cosine,
                   (select c.chunk_id from pgrag_data.chunk c
                     where c.tenant_id = p_principal.tenant_id and c.revision_id = d.revision_id and c.chunk_no = d.chunk_no) as chunk_id
              from pgrag_private.dense_lane(p_principal.tenant_id, v_revisions, v_space.space_id, p_embedding, p_candidates) d
             where p_mode <> 'lexical') d
  ), candidate as (
    select revision_id, chunk_no, chunk_id from lexical_ranked where place <= p_candidates
    union
    select revision_id, chunk_no, chunk_id from dense_ranked where place <= p_candidates
  ), scored as materialized (
    -- A chunk found by one lane is scored by both: what the other lane would have said of it is known exactly.
    select c.revision_id, c.chunk_no, c.chunk_id,
           case when ll.place <= p_candidates then ll.place end as lexical_rank, l.score as lexical_score,
           case when dl.place <= p_candidates then dl.place end as dense_rank,
           case when p_mode <> 'lexical' then
             (select nullif(1 - (v.embedding operator(public.<=>) p_embedding), 'NaN')
                from pgrag_data.chunk_vec v
               where v.tenant_id = p_principal.tenant_id and v.space_id = v_space.space_id
                 and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
           end as dense_score,
           coalesce(l.relevance, 0) as lexical_relevance
      from candidate c
      left join lexical l using (revision_id, chunk_no)
      left join lexical_ranked ll using (revision_id, chunk_no)
      left join dense_ranked dl using (revision_id, chunk_no)
  ), fused as (
    select s.*,
           v_weight * s.lexical_relevance + (1 - v_weight) * greatest(coalesce(s.dense_score, 0), 0) as relevance,
           coalesce(v_weight / (rrf_constant + s.lexical_rank), 0) + coalesce((1 - v_weight) / (rrf_constant + s.dense_rank), 0) as rrf
      from scored s
  ), ordered as (
    -- One lane has nothing to fuse: lexical mode goes by relevance, which is the one that compares across languages,
    -- and dense mode by the cosine, which goes on below 0, where relevance ends.
    select f.*, case when p_mode = 'dense' then f.dense_score
                     when p_mode = 'hybrid' and p_fusion = 'rrf' then f.rrf
                     else f.relevance end as fused_score
      from fused f
  ), ranked as (
    select o.*, row_number() over (order by o.fused_score desc, o.chunk_id) as rank, count(*) over () as matches
      from ordered o
  )
  select max(x.matches), max(x.relevance),
         jsonb_agg(
           pgrag_private.describe_chunk(p_principal.tenant_id, x.revision_id, x.chunk_no) || jsonb_build_object(
             'rank', x.rank,
             'score', pgrag_private.score(x.fused_score),
             'relevance', pgrag_private.score(x.relevance),
             'lexical_rank', x.lexical_rank,
             'lexical_score', pgrag_private.score(x.lexical_score),
             'dense_rank', x.dense_rank,
             'dense_score', pgrag_private.score(x.dense_score))
           order by x.rank)
    into v_matches, v_top, v_hits
    from ranked x
   where x.rank <= p_k;

  v_reason := case
    when v_chunks = 0 then 'nothing_visible'
    when v_hits is null and p_mode <> 'dense' and not exists (
      select from pgrag_private.question_terms(p_principal.tenant_id, v_revisions, p_question)) then 'stop_words_only'
    when v_hits is null then 'nothing_matches'
    when v_top < v_threshold then 'below_threshold'
  end;
  return jsonb_build_object(
    'status', case when v_reason is null then 'evidence' else 'abstain' end,
    'reason', v_reason,
    'complete', true,
    'complete_reason', case when v_matches >= p_k then 'k_returned' else 'all_matches_returned' end,
    'policy', jsonb_strip_nulls(jsonb_build_object(
      'mode', p_mode, 'k', p_k, 'candidates', p_candidates,
      'fusion', case when p_mode = 'hybrid' then p_fusion end,
      'rrf_constant', case when p_mode = 'hybrid' and p_fusion = 'rrf' then rrf_constant end,
      'lexical_weight', case when p_mode = 'hybrid' then v_weight end,
      'dense_weight', case when p_mode = 'hybrid' then pgrag_private.score(1 - v_weight) end,
      'bm25', case when p_mode <> 'dense' then jsonb_build_object('k1', 1.2, 'b', 0.75) end,
      'dense_route', case when p_mode <> 'lexical' then 'exact' end,
      'space', v_space.space,
      'threshold', pgrag_private.score(v_threshold))),
    'scope', jsonb_build_object('documents', cardinality(v_revisions), 'chunks', v_chunks),
    'top_relevance', pgrag_private.score(v_top),
    'hits', coalesce(v_hits, '[]'));
end
$$;

-- Below these the best hit is no evidence. Measured: see docs/ranking.md.
create or replace function pgrag_private.default_threshold(p_mode text) returns double precision
language sql immutable parallel safe
return case p_mode when 'lexical' then 0.16 when 'dense' then 0.32 else 0.25 end;

-- Scores leave the database with six decimals and no trailing zeros, so that a packet's seal survives any JSON library.
create or replace function pgrag_private.score(p_score double precision) returns numeric
language sql immutable parallel safe
return trim_scale(round(p_score::numeric, 6));

-- Times leave it in UTC with microseconds, whatever the caller's settings; an open end of a period is null.
create or replace function pgrag_private.utc(p_time timestamptz) returns text
language sql stable parallel safe
return case when isfinite(p_time) then to_char(p_time, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end;

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

-- Bounds of a question. p_k and the rest are what PostgreSQL's types let through.
create or replace function pgrag_private.check_request(p_question text, p_k integer, p_mode text, p_fusion text, p_as_of timestamptz,
                                            p_candidates integer, p_threshold double precision) returns void
language plpgsql immutable parallel safe as $$
begin
  if p_question is null or pgrag_private.is_blank(p_question) then
    raise exception using errcode = 'RG301', message = 'the question is empty', hint = 'Pass the question''s text.';
  elsif length(p_question) > 4000 then
    raise exception using errcode = 'RG301', message = 'the question is too long',
      detail = format('%s characters; the bound is 4000', length(p_question)), hint = 'Ask for what is sought, without its context.';
  elsif p_k is null or p_k not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'k must be a whole number from 1 to 100',
      detail = format('k: %s', coalesce(p_k::text, 'null')), hint = 'Narrow the question or filter; there are no further pages.';
  elsif p_candidates is null or p_candidates not between p_k and 1000 then
    raise exception using errcode = 'RG302', message = 'candidates must be a whole number from k to 1000',
      detail = format('candidates: %s, k: %s', coalesce(p_candidates::text, 'null'), p_k), hint = 'Leave it out for the default of 100.';
  elsif p_mode is null or p_mode not in ('hybrid', 'lexical', 'dense') then
    raise exception using errcode = 'RG303', message = 'the mode is not known',
      hint = 'Modes: hybrid, lexical, dense.';
  elsif p_fusion is null or p_fusion not in ('convex', 'rrf') then
    raise exception using errcode = 'RG303', message = 'the fusion is not known', hint = 'Fusions: convex, rrf.';
  elsif p_as_of not between '0001-01-01' and '9999-12-31T23:59:59.999999Z' then
    raise exception using errcode = 'RG303', message = 'as_of must be a point in time', hint = 'Leave it out for today''s revisions.';
  elsif p_threshold = 'NaN' or p_threshold not between 0 and 1 then
    raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1', hint = 'Leave it out for the mode''s default.';
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
