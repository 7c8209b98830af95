-- The lexical lane: BM25 (k1 = 1.2, b = 0.75) over the chunks of one plan, the best p_limit (ties broken by
-- chunk id), and those that the caller asks about (p_also_…), if they hold any word.
--
-- All statistics are the reader's own: the document frequency of a lexeme is counted among the hits of this very pass,
-- so no score depends on a row that the reader may not see. Each lexeme has a slot, a column that is computed once a
-- row: measured, a quarter of the time of joining rows with lexemes.
--
-- The frequency of a term: for a single lexeme ts_rank('{1,1,1,1}', …) is 1/1 + 1/4 + … + 1/tf², over pi²/6, and the
-- tail of that series is 1/(tf + ½) to within rounding, so that 6/pi² / (1 - ts_rank), rounded down, is tf, up to 255.
--
--   score       sum(idf * (k1 + 1) * tf / (tf + K)),  K = k1 * (1 - b + b * length / average),  idf = ln(1 + (N - df + ½) / (df + ½))
--   part        what each lexeme adds to it, and tf its frequency, in the order of the plan
--   share       score over the most that the wording could score, sum(worth * idf * (k1 + 1)): from 0 to 1, whatever the question;
--               of pairs of characters, which count half, to 2: cut off at 1, the best would be ties
--   coverage    how much of the question is there at all: the idf of the lexemes that the chunk has, over that of all
--   evidence    share again, at most 1
-- The last two are there to be compared with a threshold, across questions, scopes and readers. Their idf is smoothed as if the
-- scope had a hundred chunks more and each lexeme were in one of them more: whoever sees one chunk and whoever sees a million
-- get about the same number for the same hit.
create or replace function pgrag_private.lexical_lane(
  p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_limit integer, p_also_revisions bigint[], p_also_chunks integer[]
) returns table (revision_id bigint, chunk_no integer, chunk_id bytea, score double precision, share double precision,
                 coverage double precision, evidence double precision, tf double precision[], part double precision[])
language plpgsql stable parallel restricted rows 100 set enable_seqscan = off set work_mem = '32MB' as $$
#variable_conflict use_column
declare
  v_slots integer := cardinality(p_plan.queries);
  v_keys  bigint[];
  v_source text;
  v_visible text := '';
  v_df    text := 'count(*) filter (where tf% > 0)::float8';
begin
  if p_plan.route = 'scope' then
    -- OFFSET 0: a row outside the scope is not so much as touched.
    v_source := 'unnest(($2).revisions) as s (revision_id)
      cross join lateral (select c.revision_id, c.chunk_no, c.language, c.length, c.lexemes from pgrag_data.chunk_lex c
                           where c.tenant_id = $1 and c.revision_id = s.revision_id offset 0) l
      where ';
  else
    v_df := 'case when % <= ($2).searched then count(*) filter (where tf% > 0) else ($2).df[%] end'; -- an aggregate: one row, always
    -- With sequential scans off the index is the only way left, as long as the key of the revisions is kept from the planner.
    v_keys := pgrag_private.lexeme_keys(p_tenant_id, case when p_plan.searched = 0 then p_plan.must_hold else p_plan.lexemes[:p_plan.searched] end);
    v_source := 'pgrag_data.chunk_lex l
      where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) ' || case when p_plan.searched = 0 then '@>' else '&&' end || ' $3
        and l.tenant_id + 0 = $1 and ';
    v_visible := ' and ' || pgrag_private.visible_row('l', '$2', p_plan.revisions is null);
  end if;
  return query execute
    'with hit as materialized (
       select l.revision_id, l.chunk_no, l.length, ' || pgrag_private.each_slot(v_slots, pgrag_private.tf_slot() || ' as tf%', ', ') || ',
              ' || case when p_plan.condition is null then 'true' else 'l.lexemes @@ ($2).condition' end || ' as held
         from ' || v_source || 'l.lexemes @@ ($2).any_query and l.language = any (($2).languages)' || v_visible || '
     ), weight as materialized (
       select array_agg(2.2::float8 * pgrag_private.bm25_idf(($2).chunks, d.df) order by d.n) as w,
              array_agg(pgrag_private.bm25_idf(($2).chunks + 100, d.df + 1) order by d.n) as s
         from (select array[' || pgrag_private.each_slot(v_slots, v_df, ', ') || '] as df from hit) counted
        cross join lateral unnest(counted.df) with ordinality as d (df, n)
     ), best as materialized (
       select t.revision_id, t.chunk_no
         from (select h.revision_id, h.chunk_no, ' || pgrag_private.each_slot(v_slots, 'w%*tf%/(tf%+k)', '+') || ' as score
                 from (select hit.*, ' || pgrag_private.bm25_norm() || ' as k from hit where held offset 0) h
                cross join (select ' || pgrag_private.each_slot(v_slots, 'w[%] as w%', ', ') || ' from weight offset 0) w
                order by score desc
                fetch first $4 rows with ties) t
        order by t.score desc, ' || pgrag_private.chunk_id_lookup('t') || '
        limit $4
     ), chosen as (
       -- Read again: to carry all that is said of them through the sort would cost more.
       select l.revision_id, l.chunk_no, ' || pgrag_private.chunk_id_lookup('l') || ' as chunk_id, ' || pgrag_private.bm25_norm() || ' as k,
              array[' || pgrag_private.each_slot(v_slots, pgrag_private.tf_slot(), ', ') || '] as tf
         from (select revision_id, chunk_no from best union select a.revision_id, a.chunk_no from unnest($5, $6) as a (revision_id, chunk_no)) c
        cross join lateral (select c.revision_id, c.chunk_no, l.language, l.length, l.lexemes from pgrag_data.chunk_lex l
                             where l.tenant_id = $1 and l.revision_id = c.revision_id and l.chunk_no = c.chunk_no offset 0) l
        where l.language = any (($2).languages) and (($2).condition is null or l.lexemes @@ ($2).condition)
     )
     select c.revision_id, c.chunk_no, c.chunk_id, o.score, o.score / o.most, least(o.there / o.all, 1), least(o.smooth / o.all, 1), c.tf, o.part
       from chosen c
      cross join weight
      cross join lateral (
        select sum(t.w * t.tf / (t.tf + c.k) order by t.n) as score, sum(t.w * t.worth order by t.n) as most,
               coalesce(sum(t.s order by t.n) filter (where t.tf > 0), 0) as there, sum(t.s * t.tf / (t.tf + c.k) order by t.n) as smooth,
               sum(t.s * t.worth order by t.n) as all, array_agg(t.w * t.tf / (t.tf + c.k) order by t.n) as part
          from unnest(c.tf, weight.w, weight.s, ($2).worth) with ordinality as t (tf, w, s, worth, n)) o
      where o.there > 0'
    using p_tenant_id, p_plan, v_keys, p_limit, coalesce(p_also_revisions, '{}'), coalesce(p_also_chunks, '{}');
end
$$;

-- The lane's statement is written out of these pieces and whole numbers alone; every value is a parameter.
create or replace function pgrag_private.each_slot(p_slots integer, p_piece text, p_between text) returns text
language sql immutable parallel safe
return (select string_agg(replace(p_piece, '%', slot::text), p_between order by slot) from generate_series(1, p_slots) as s (slot));

create or replace function pgrag_private.tf_slot() returns text
language sql immutable parallel safe
return 'floor(0.6079271018540267::float8 / (1::float8 - ts_rank(''{1,1,1,1}'', l.lexemes, (($2).queries)[%])))';

-- Row by row: a scalar sub-select cannot become a join, and a plan that read the table would touch rows outside the scope.
create or replace function pgrag_private.chunk_id_lookup(p_row text) returns text
language sql immutable parallel safe
return replace('(select c.chunk_id from pgrag_data.chunk c
                  where c.tenant_id = $1 and c.revision_id = %.revision_id and c.chunk_no = %.chunk_no)', '%', p_row);

create or replace function pgrag_private.bm25_norm() returns text
language sql immutable parallel safe
return '1.2::float8 * (0.25::float8 + 0.75::float8 * length / ($2).length)';

create or replace function pgrag_private.bm25_idf(p_chunks double precision, p_df double precision) returns double precision
language sql immutable parallel safe
return ln(1 + (greatest(p_chunks - p_df, 0) + 0.5::float8) / (p_df + 0.5::float8));
