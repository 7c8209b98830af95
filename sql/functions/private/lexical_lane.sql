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
create or replace function pgrag_private.lexical_lane(p_tenant_id bigint, p_revisions bigint[], p_question text)
returns table (revision_id bigint, chunk_no integer, score double precision, relevance double precision)
language plpgsql stable parallel restricted as $$
#variable_conflict use_column
declare
  k1 constant double precision := 1.2;
  b  constant double precision := 0.75;
  v_term_languages text[];   -- the question's terms: each language of the scope with each of its lexemes
  v_term_lexemes   text[];
  v_lexemes        text[];   -- the lexemes alone, once each
  v_queries        tsquery[];
  v_any            tsquery;
  v_n              double precision;
  v_average        double precision;
begin
  select array_agg(t.language), array_agg(t.lexeme) into v_term_languages, v_term_lexemes
    from pgrag_private.question_terms(p_tenant_id, p_revisions, p_question) t;
  if v_term_lexemes is null then
    return;
  end if;
  select array_agg(lexeme order by lexeme), array_agg(query order by lexeme), string_agg(query::text, ' | ' order by lexeme)::tsquery
    into v_lexemes, v_queries, v_any
    from (select distinct lexeme collate "C" as lexeme, array_to_tsvector(array[lexeme])::text::tsquery as query
            from unnest(v_term_lexemes) as t (lexeme)) terms;
  select sum(r.chunk_count), sum(r.lexeme_count)::float8 / nullif(sum(r.chunk_count), 0) into v_n, v_average
    from unnest(p_revisions) as s (revision_id)
    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id;

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
  ), term as materialized (
    select t.language, t.lexeme, i.idf,
           sum(i.idf * (k1 + 1)) over (partition by t.language order by t.lexeme
                                       rows between unbounded preceding and unbounded following) as most
      from unnest(v_term_languages, v_term_lexemes) as t (language, lexeme)
      left join (select lexeme, count(*) as df from occurrence group by lexeme) o on o.lexeme = t.lexeme
      cross join lateral (values (ln(1 + (v_n - coalesce(o.df, 0) + 0.5) / (coalesce(o.df, 0) + 0.5)))) as i (idf)
  )
  -- Sums are taken in the order of the lexemes: floating-point addition in another order is another number.
  select o.revision_id, o.chunk_no,
         sum(t.idf * (k1 + 1) * o.tf / (o.tf + o.k) order by t.lexeme),
         sum(t.idf * (k1 + 1) * o.tf / (o.tf + o.k) order by t.lexeme) / min(t.most)
    from occurrence o
    join term t on t.language = o.language and t.lexeme = o.lexeme
   group by o.revision_id, o.chunk_no;
end
$$;

-- The lexemes of a question in each language that the scope has. None at all: it is made of stop words.
create or replace function pgrag_private.question_terms(p_tenant_id bigint, p_revisions bigint[], p_question text)
returns table (language text, lexeme text)
language plpgsql stable parallel restricted as $$
#variable_conflict use_column
begin
  return query
  select l.language, t.lexeme
    from (select distinct l.language
            from (select distinct r.languages
                    from unnest(p_revisions) as s (revision_id)
                    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id) r
            cross join unnest(r.languages) as l (language)) l
    cross join lateral unnest(tsvector_to_array(pgrag_private.to_lexemes(l.language, p_question))) as t (lexeme);
end
$$;
