-- How the lexical lane will look for a question and its probes: one plan for each wording and each stemmer that the
-- scope needs, because a chunk is looked for with the lexemes of its own language.
--
-- Up to scope_first_limit() visible chunks, and always in strict isolation, every chunk of the scope is read ('scope').
-- Above it the index finds candidates ('index'): those that hold one of the rarest lexemes, as many of these as find 100
-- chunks at least, and about 10,000 at the most. The others are not searched for, only scored; how rare each is, is
-- estimated from some hundred chunks of the scope. Nothing of this depends on a chunk outside the scope but the time that it takes.
create or replace function pgrag_private.lexical_plans(
  p_scope pgrag_private.search_scope, p_wordings text[], p_phrases text[], p_excluded text[], p_index boolean
) returns pgrag_private.lexical_plan[]
language plpgsql stable parallel restricted as $$
declare
  words_bound constant integer := 64;
  v_plans     pgrag_private.lexical_plan[] := '{}';
  v_plan      pgrag_private.lexical_plan;
  v_counts    integer[];
  v_lexemes   text[];
  v_query     tsquery;
  v_sum       double precision;  -- chunks that the lexemes searched for are expected to find
begin
  v_plan.acls := p_scope.acls;
  v_plan.sources := p_scope.sources;
  select sum(p.chunks), coalesce(nullif(sum(p.lexemes), 0), 1) / sum(p.chunks) into v_plan.chunks, v_plan.length from unnest(p_scope.parts) as p;
  for v_plan.languages in select s.languages from pgrag_private.scope_languages(p_scope.parts) s loop
    select array_agg(r.revision_id), array_agg(r.chunk_count) into v_plan.revisions, v_counts
      from unnest(p_scope.parts) as p cross join lateral unnest(p.revisions, p.chunk_counts) as r (revision_id, chunk_count)
     where p.languages && v_plan.languages;
    v_plan.route := case when p_index then 'index' else 'scope' end;
    v_plan.condition := pgrag_private.question_condition(v_plan.languages[1], p_phrases, p_excluded);
    v_plan.must_hold := pgrag_private.phrase_lexemes(v_plan.languages[1], p_phrases);
    for v_wording in 0 .. cardinality(p_wordings) - 1 loop
      v_plan.wording := v_wording;
      v_lexemes := tsvector_to_array(pgrag_private.to_lexemes(v_plan.languages[1], p_wordings[v_wording + 1]));
      continue when cardinality(v_lexemes) = 0;
      v_plan.left_out := greatest(cardinality(v_lexemes) - words_bound, 0);
      v_plan.df := null;
      if p_index or v_plan.left_out > 0 then
        select array_agg(s.lexeme order by s.df, s.lexeme collate "C"), array_agg(s.df order by s.df, s.lexeme collate "C")
          into v_plan.lexemes, v_plan.df
          from (select e.lexeme, e.df
                  from pgrag_private.estimate_df(p_scope, v_plan.revisions, v_counts, v_plan.languages, v_lexemes) e
                 order by e.seen desc, e.df, e.lexeme collate "C"  -- over the bound, what the sample has not goes first
                 limit words_bound) s;
      else
        v_plan.lexemes := v_lexemes;
      end if;
      v_plan.queries := array(select pgrag_private.lexeme_query(lexeme) from unnest(v_plan.lexemes) with ordinality as l (lexeme, n) order by n);
      v_plan.searched := 0;
      v_sum := 0;
      foreach v_query in array v_plan.queries loop
        exit when p_index and v_sum + v_plan.df[v_plan.searched + 1] > 10000 and pgrag_private.index_finds(p_scope.tenant_id, v_plan, 100);
        v_plan.any_query := case when v_plan.searched = 0 then v_query else v_plan.any_query || v_query end;
        v_plan.searched := v_plan.searched + 1;
        v_sum := v_sum + coalesce(v_plan.df[v_plan.searched], 0);
      end loop;
      -- A quoted phrase: rather than some of the chunks by their rarest words, the index finds all that can hold the phrase.
      if v_plan.must_hold is not null and v_plan.searched < cardinality(v_plan.queries) then
        foreach v_query in array v_plan.queries[v_plan.searched + 1:] loop
          v_plan.any_query := v_plan.any_query || v_query;
        end loop;
        v_plan.searched := 0;
      elsif p_index and v_plan.searched = cardinality(v_lexemes) then
        -- In the order of the other route: sums of the same numbers in another order differ in the last bit, and so would ties.
        v_plan.lexemes := v_lexemes;
        v_plan.queries := array(select pgrag_private.lexeme_query(lexeme) from unnest(v_lexemes) with ordinality as l (lexeme, n) order by n);
      end if;
      -- A pair of characters that straddles two words is in no text, and so as rare as can be: pairs count half.
      v_plan.worth := array(select case when lexeme ~ pgrag_private.unspaced_run() then 0.5 else 1 end
                              from unnest(v_plan.lexemes) with ordinality as l (lexeme, n) order by n);
      v_plans := v_plans || v_plan;
    end loop;
  end loop;
  return v_plans;
end
$$;

-- Up to so many visible chunks each is read, which takes no longer than the index and tells nothing by its time.
create or replace function pgrag_private.scope_first_limit() returns integer
language sql immutable parallel safe
return 20000;

create or replace function pgrag_private.lexeme_query(p_lexeme text) returns tsquery
language sql immutable parallel safe
return array_to_tsvector(array[p_lexeme])::text::tsquery;

-- How many chunks of these languages hold each lexeme, from about 1,000 chunks (fewer for a long question). Of a listed scope it is
-- one of every n of the revisions' chunks, at another place in each n, since every nth would always be the same part of
-- documents that are alike. Of a counted one, of each access list the first so many documents by their names' hashes, as many as its
-- share asks for, and of each document's chunks any one, or more where there are fewer documents. (Not by documents' numbers, and
-- no list by its own: which these are, and how far apart, depends on what was made in between, hidden or another tenant's.)
-- A lexeme that the sample has not is taken to be in half as many as one that it has once.
create or replace function pgrag_private.estimate_df(
  p_scope pgrag_private.search_scope, p_revisions bigint[], p_chunk_counts integer[], p_languages text[], p_lexemes text[]
) returns table (lexeme text, df double precision, seen boolean)
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_sort = off as $$
#variable_conflict use_column
declare
  v_size  integer := least(greatest(60000 / cardinality(p_lexemes), 200), 1000);
  v_ends  bigint[] := array(select sum(n) over (rows unbounded preceding) from unnest(p_chunk_counts) as c (n)); -- all chunks in one row
  v_total bigint := coalesce(v_ends[cardinality(v_ends)], p_scope.chunks);
  v_all   bigint := v_total; -- in these languages
  v_step  bigint;
begin
  if p_revisions is null then
    v_size := v_size / 2; -- each takes three look-ups more
    v_all := (select sum(p.chunks) from unnest(p_scope.parts) as p where p.languages && p_languages);
  end if;
  v_step := greatest(ceil(v_total::double precision / v_size), 1);
  return query
  with place as (
    select p.place, width_bucket(p.place, v_ends) + 1 as n
      from (select b.block * v_step + (hashint8(b.block) & 2147483647) % v_step as place
              from generate_series(0, (v_total - 1) / v_step) as b (block)) p
     where p.place < v_total and p_revisions is not null
  ), drawn as materialized (
    select d.active_revision_id, d.hash, r.chunk_count, a.chunks, sum(r.chunk_count) over its as all_drawn,
           least(ceil(v_size * a.chunks::double precision / v_total / count(*) over its), r.chunk_count)::integer as times
      from unnest(p_scope.acls, p_scope.acl_chunks) as a (acl_id, chunks)
     cross join lateral (select d.active_revision_id, hashtext(d.document) as hash from pgrag_data.document d
                          where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null and d.active_revision_id is not null
                            and transaction_timestamp() < d.active_until and (p_scope.sources is null or d.source_id = any (p_scope.sources))
                          order by hashtext(d.document), d.document, d.source_id
                          limit ceil(v_size * a.chunks::double precision / v_total)) d
     cross join lateral (select r.chunk_count from pgrag_data.revision r
                          where r.tenant_id = p_scope.tenant_id and r.revision_id = d.active_revision_id offset 0) r
     where p_revisions is null
    window its as (partition by a.acl_id)
  ), sampled as materialized (
    select l.lexemes, 1::numeric as weight
      from place s
     cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                          where c.tenant_id = p_scope.tenant_id and c.revision_id = p_revisions[s.n]
                            and c.chunk_no = s.place - coalesce(v_ends[s.n - 1], 0) + 1 offset 0) l
     where l.language = any (p_languages)
    union all
    -- Of what the list has, the part that this chunk stands for; numeric, whose sum is the same in any order.
    select l.lexemes, d.chunks * d.chunk_count::numeric / (d.times * d.all_drawn)
      from drawn d
     cross join lateral generate_series(0, d.times - 1) as t (n)
     cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                          where c.tenant_id = p_scope.tenant_id and c.revision_id = d.active_revision_id
                            and c.chunk_no = ((hashint4(d.hash) & 2147483647) % d.chunk_count + t.n * d.chunk_count::bigint / d.times) % d.chunk_count + 1 offset 0) l
     where l.language = any (p_languages)
  )
  select w.lexeme,
         case when count(s.lexemes) > 0 and p_revisions is null then v_all * (sum(s.weight) / (select sum(weight) from sampled))::double precision
              else coalesce(nullif(count(s.lexemes), 0), 0.5)::double precision * v_step end,
         count(s.lexemes) > 0
    from (select l.lexeme, pgrag_private.lexeme_query(l.lexeme) as query from unnest(p_lexemes) as l (lexeme) offset 0) w
    left join sampled s on s.lexemes @@ w.query
   group by w.lexeme;
end
$$;

-- Whether the lexemes that a plan searches for so far find that many visible chunks.
create or replace function pgrag_private.index_finds(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_count integer) returns boolean
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_seqscan = off set work_mem = '32MB' as $$
declare
  v_keys bigint[] := pgrag_private.lexeme_keys(p_tenant_id, p_plan.lexemes[:p_plan.searched]);
begin
  return p_plan.searched > 0 and p_count <= (
    select count(*)
      from (select from pgrag_data.chunk_lex l
             where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) && v_keys and l.tenant_id + 0 = p_tenant_id
               and l.language = any (p_plan.languages) and l.lexemes @@ p_plan.any_query
               and case when p_plan.revisions is not null then l.revision_id + 0 = any (p_plan.revisions)
                        else (select d.acl_id from pgrag_data.document d
                               where d.tenant_id = p_tenant_id and d.active_revision_id = l.revision_id and d.deleted_at is null
                                 and transaction_timestamp() < d.active_until
                                 and (p_plan.sources is null or d.source_id = any (p_plan.sources))) = any (p_plan.acls) end
             limit p_count) as seen);
end
$$;

-- Whether anything visible holds all quoted phrases. One search of a question that has some; it ends at the first.
create or replace function pgrag_private.phrases_occur(p_scope pgrag_private.search_scope, p_phrases text[], p_index boolean)
returns boolean
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_seqscan = off set work_mem = '32MB' as $$
declare
  v_languages text[];
  v_condition tsquery;
  v_revisions bigint[];
  v_keys      bigint[];
  v_asked     boolean := false;
begin
  for v_languages in select s.languages from pgrag_private.scope_languages(p_scope.parts) s loop
    v_condition := pgrag_private.question_condition(v_languages[1], p_phrases, '{}');
    continue when v_condition is null;
    v_asked := true;
    select array_agg(r.revision_id) into v_revisions
      from unnest(p_scope.parts) as p cross join lateral unnest(p.revisions) as r (revision_id)
     where p.languages && v_languages;
    if not p_index then
      if exists (
        select from unnest(v_revisions) as s (revision_id)
         cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                              where c.tenant_id = p_scope.tenant_id and c.revision_id = s.revision_id offset 0) l
         where l.language = any (v_languages) and l.lexemes @@ v_condition) then
        return true;
      end if;
    else
      v_keys := pgrag_private.lexeme_keys(p_scope.tenant_id, pgrag_private.phrase_lexemes(v_languages[1], p_phrases));
      if exists (
        select from pgrag_data.chunk_lex l
         where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) @> v_keys and l.tenant_id + 0 = p_scope.tenant_id
           and l.language = any (v_languages) and l.lexemes @@ v_condition
           and case when v_revisions is not null then l.revision_id + 0 = any (v_revisions)
                    else (select d.acl_id from pgrag_data.document d
                           where d.tenant_id = p_scope.tenant_id and d.active_revision_id = l.revision_id and d.deleted_at is null
                             and transaction_timestamp() < d.active_until
                             and (p_scope.sources is null or d.source_id = any (p_scope.sources))) = any (p_scope.acls) end) then
        return true;
      end if;
    end if;
  end loop;
  return not v_asked;
end
$$;

-- The words of the question that were not looked for, for the result to say; null: all were.
create or replace function pgrag_private.lexical_bound(p_plans pgrag_private.lexical_plan[]) returns jsonb
language sql stable parallel safe
return (select nullif(jsonb_strip_nulls(jsonb_build_object(
          'words_not_searched', (select jsonb_agg(distinct lexeme)
                                   from unnest(p_plans) as p
                                  cross join lateral unnest(p.lexemes[p.searched + 1:]) as l (lexeme)
                                  where p.searched > 0), -- 0: the index finds all that can hold the phrase
          'words_left_out', nullif((select max(p.left_out) from unnest(p_plans) as p), 0))), '{}'));

-- Why the lexical lane gave a hit its score: the question's lexemes that it holds, what each adds, the most first.
create or replace function pgrag_private.matched_terms(
  p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer, p_plans pgrag_private.lexical_plan[], p_tf double precision[], p_part double precision[]
) returns jsonb
language sql stable parallel restricted
begin atomic
  select coalesce(jsonb_agg(jsonb_build_object('term', t.lexeme, 'tf', t.tf::integer, 'score', pgrag_private.score(t.part))
                            order by t.part desc, t.lexeme collate "C"), '[]')
    from unnest(p_plans) as p
    join pgrag_data.chunk c on c.tenant_id = p_tenant_id and c.revision_id = p_revision_id and c.chunk_no = p_chunk_no and c.language = any (p.languages)
   cross join lateral unnest(p.lexemes, p_tf, p_part) as t (lexeme, tf, part)
   where p.wording = 0 and t.tf > 0;
end;
