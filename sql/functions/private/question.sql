-- A question as it is written. "Two words" in double quotes is a phrase that a hit must hold; -word or -"two words" at
-- the very end is one that it must not. Anywhere else a hyphen is a hyphen, as in "lift -dash approximate methods" or
-- "Kunden und -partner", and a quote without its partner is no quote. Nothing here is a syntax error.
create or replace function pgrag_private.parse_question(p_question text, out words text, out phrases text[], out excluded text[])
language plpgsql immutable parallel safe as $$
declare
  v_question   text := translate(p_question, chr(160), ' '); -- a no-break space, which is one in some locales and not in others
  v_exclusions text := substring(v_question from '(?:^|\s)((?:-(?:"[^"]+"|[[:alpha:]][^[:space:]"]*)(?:\s+|$))+)$');
begin
  words := case when v_exclusions is null then v_question else left(v_question, length(v_question) - length(v_exclusions)) end;
  if words ~* '(?:^|\s)(?:und|oder|sowie|bzw\.|and|or)\s*$' then
    words := v_question;
    v_exclusions := null;
  end if;
  excluded := array(select coalesce(match[1], match[2])
                      from regexp_matches(v_exclusions, '-(?:"([^"]+)"|([[:alpha:]][^[:space:]"]*))', 'g') as m (match));
  phrases := array(select match[1] from regexp_matches(words, '"([^"]*[[:alnum:]][^"]*)"', 'g') as m (match));
  words := translate(words, '"', ' ');
end
$$;

-- A phrase as a query: its words in order, in a language; null if it has nothing but stop words. Unspaced scripts
-- are chains of their pairs.
create or replace function pgrag_private.phrase_query(p_language text, p_phrase text) returns tsquery
language plpgsql immutable parallel safe as $$
declare
  v_phrase text := normalize(p_phrase, nfc);
  v_config regconfig := pgrag_private.text_config(p_language);
  v_spaced text := pgrag_private.split_joined(regexp_replace(v_phrase, pgrag_private.unspaced_run(), ' ', 'g'));
  v_query  tsquery;
  v_pairs  tsquery;
begin
  if to_tsvector(v_config, v_spaced) <> ''::tsvector then -- of an empty one PostgreSQL would tell the client
    v_query := phraseto_tsquery(v_config, v_spaced);
  end if;
  for v_pairs in
    select (select string_agg(quote_literal(pair), ' <-> ' order by place) from pgrag_private.pairs_of(match[1]))::tsquery
      from regexp_matches(v_phrase, pgrag_private.unspaced_run(), 'g') as m (match)
  loop
    v_query := coalesce(v_query && v_pairs, v_pairs);
  end loop;
  return v_query;
end
$$;

-- What a chunk of a language must and must not hold; null: there is no such condition, or it has only stop words.
create or replace function pgrag_private.question_condition(p_language text, p_phrases text[], p_excluded text[]) returns tsquery
language plpgsql immutable parallel safe as $$
declare
  v_condition tsquery;
  v_query     tsquery;
  v_text      text;
begin
  foreach v_text in array p_phrases loop
    v_query := pgrag_private.phrase_query(p_language, v_text);
    v_condition := coalesce(v_condition && v_query, v_condition, v_query);
  end loop;
  foreach v_text in array p_excluded loop
    v_query := !! pgrag_private.phrase_query(p_language, v_text);
    v_condition := coalesce(v_condition && v_query, v_condition, v_query);
  end loop;
  return v_condition;
end
$$;

-- The lexemes of phrases: a chunk that holds the phrases has all of them.
create or replace function pgrag_private.phrase_lexemes(p_language text, p_phrases text[]) returns text[]
language sql immutable parallel safe
return (select array_agg(distinct lexeme)
          from unnest(p_phrases) as p (phrase)
         cross join lateral unnest(tsvector_to_array(
           to_tsvector(pgrag_private.text_config(p_language), pgrag_private.split_joined(
             regexp_replace(normalize(phrase, nfc), pgrag_private.unspaced_run(), ' ', 'g')))
           || pgrag_private.unspaced_pairs(normalize(phrase, nfc)))) as l (lexeme));
