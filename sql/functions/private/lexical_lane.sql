-- The lexical lane: BM25 (k1 = 1.2, b = 0.75) over every chunk of the scope that holds a word of the question.
--
-- All statistics are the reader's own. N and the average length come from the scope, the document frequency
-- of a lexeme from the hits of this very pass, so no score depends on a row that the reader may not see.
--
-- A chunk is scored with the question's lexemes in the chunk's language. `relevance` is the score over the
-- most that the question could reach in that language, sum(idf * (k1 + 1)): a number from 0 to 1 that means
-- the same for every question.
--
-- The frequency of a term: for a single lexeme ts_rank('{1,1,1,1}', …) is 1/1 + 1/4 + … + 1/tf², over pi²/6,
-- and the tail of that series is 1/(tf + ½) to within rounding, which gives tf back exactly up to 255.
create function pgrag_private.lexical_lane(p_tenant_id bigint, p_revisions bigint[], p_question text)
returns table (revision_id bigint, chunk_no integer, score double precision, relevance double precision)
language plpgsql stable parallel restricted as $$
#variable_conflict use_column
declare
  k1 constant double precision := 1.2;
  b  constant double precision := 0.75;
  v_languages text[];
  v_lexemes   text[];
  v_queries   tsquery[];
  v_any       tsquery;
  v_n         double precision;
  v_average   double precision;
begin
  select sum(r.chunk_count), sum(r.lexeme_count)::float8 / nullif(sum(r.chunk_count), 0)
    into v_n, v_average
    from unnest(p_revisions) as s (revision_id)
    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id;
  select array_agg(distinct l.language) into v_languages
    from unnest(p_revisions) as s (revision_id)
    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id
    cross join unnest(r.languages) as l (language);

  select array_agg(lexeme order by lexeme), array_agg(query order by lexeme), string_agg(query::text, ' | ' order by lexeme)::tsquery
    into v_lexemes, v_queries, v_any
    from (select distinct lexeme collate "C" as lexeme, array_to_tsvector(array[lexeme])::text::tsquery as query
            from unnest(v_languages) as l (language)
            cross join unnest(tsvector_to_array(pgrag_private.to_lexemes(l.language, p_question))) as t (lexeme)) terms;
  if v_lexemes is null then
    return;
  end if;

  return query
  with hit as materialized (
    select l.revision_id, l.chunk_no, l.language, l.length, l.lexemes
      from unnest(p_revisions) as s (revision_id)
      join pgrag_data.chunk_lex l on l.tenant_id = p_tenant_id and l.revision_id = s.revision_id
     where l.lexemes @@ v_any
  ), occurrence as materialized (
    select h.revision_id, h.chunk_no, h.language, t.lexeme,
           round(1 / (1.6449340668482264 * (1 - ts_rank('{1,1,1,1}', h.lexemes, t.query))) - 0.5) as tf,
           k1 * (1 - b + b * h.length / v_average) as k
      from hit h
      cross join unnest(v_lexemes, v_queries) as t (lexeme, query)
     where h.lexemes @@ t.query
  ), term as (
    select t.lexeme, ln(1 + (v_n - coalesce(o.df, 0) + 0.5) / (coalesce(o.df, 0) + 0.5)) as idf
      from unnest(v_lexemes) as t (lexeme)
      left join (select lexeme, count(*) as df from occurrence group by lexeme) o on o.lexeme = t.lexeme
  ), question as (
    select l.language, t.lexeme, t.idf,
           sum(t.idf * (k1 + 1)) over (partition by l.language order by t.lexeme
                                       rows between unbounded preceding and unbounded following) as most
      from unnest(v_languages) as l (language)
      join term t on t.lexeme = any (tsvector_to_array(pgrag_private.to_lexemes(l.language, p_question)))
  )
  -- Sums are taken in the order of the lexemes: floating-point addition in another order is another number.
  select o.revision_id, o.chunk_no,
         sum(q.idf * (k1 + 1) * o.tf / (o.tf + o.k) order by q.lexeme),
         sum(q.idf * (k1 + 1) * o.tf / (o.tf + o.k) order by q.lexeme) / min(q.most)
    from occurrence o
    join question q on q.language = o.language and q.lexeme = o.lexeme
   group by o.revision_id, o.chunk_no;
end
$$;
