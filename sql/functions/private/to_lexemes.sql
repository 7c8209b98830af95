-- Text to lexemes, for chunks and questions alike. The language picks the stemmer, and one that PostgreSQL
-- does not know is split into words and otherwise left alone ('simple').
create or replace function pgrag_private.text_config(p_language text) returns regconfig
language sql immutable parallel safe
return case split_part(lower(p_language), '-', 1)
  when 'ar' then 'pg_catalog.arabic'::regconfig
  when 'ca' then 'pg_catalog.catalan'::regconfig
  when 'da' then 'pg_catalog.danish'::regconfig
  when 'de' then 'pg_catalog.german'::regconfig
  when 'el' then 'pg_catalog.greek'::regconfig
  when 'en' then 'pg_catalog.english'::regconfig
  when 'es' then 'pg_catalog.spanish'::regconfig
  when 'eu' then 'pg_catalog.basque'::regconfig
  when 'fi' then 'pg_catalog.finnish'::regconfig
  when 'fr' then 'pg_catalog.french'::regconfig
  when 'ga' then 'pg_catalog.irish'::regconfig
  when 'hi' then 'pg_catalog.hindi'::regconfig
  when 'hu' then 'pg_catalog.hungarian'::regconfig
  when 'hy' then 'pg_catalog.armenian'::regconfig
  when 'id' then 'pg_catalog.indonesian'::regconfig
  when 'it' then 'pg_catalog.italian'::regconfig
  when 'lt' then 'pg_catalog.lithuanian'::regconfig
  when 'nb' then 'pg_catalog.norwegian'::regconfig
  when 'ne' then 'pg_catalog.nepali'::regconfig
  when 'nl' then 'pg_catalog.dutch'::regconfig
  when 'nn' then 'pg_catalog.norwegian'::regconfig
  when 'no' then 'pg_catalog.norwegian'::regconfig
  when 'pt' then 'pg_catalog.portuguese'::regconfig
  when 'ro' then 'pg_catalog.romanian'::regconfig
  when 'ru' then 'pg_catalog.russian'::regconfig
  when 'sr' then 'pg_catalog.serbian'::regconfig
  when 'sv' then 'pg_catalog.swedish'::regconfig
  when 'ta' then 'pg_catalog.tamil'::regconfig
  when 'tr' then 'pg_catalog.turkish'::regconfig
  when 'yi' then 'pg_catalog.yiddish'::regconfig
  else 'pg_catalog.simple'::regconfig
end;

-- Runs of characters from scripts that PostgreSQL's parser does not divide into words: Thai, Lao, Myanmar, Khmer, kana, Han,
-- Hangul (spaced, but its words carry their particles), and the supplementary Han planes.
create or replace function pgrag_private.unspaced_run() returns text
language sql immutable parallel safe
return '[\u0e01-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf'
       '\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003134f]+';

-- A run as its pairs of neighbours, or the one character that it is. Not with substr, which counts from the start of the text each
-- time: a long run would take seconds.
create or replace function pgrag_private.pairs_of(p_run text) returns table (pair text, place bigint)
language sql immutable parallel safe
begin atomic
  select c.one || coalesce(c.next, ''), c.place
    from (select one, lead(one) over (order by place) as next, place from string_to_table(p_run, null) with ordinality as t (one, place)) c
   where c.next is not null or c.place = 1;
end;

-- "abc" is ab and bc at neighbouring places, so that a quoted "abc" asks for ab followed by bc; a single one stands alone.
create or replace function pgrag_private.unspaced_pairs(p_text text) returns tsvector
language sql immutable parallel safe
return coalesce((
  select string_agg(format('''%s'':%s', pair, least(before + place, 16383)), ' ')::tsvector
    from (select found[1] as run, sum(length(found[1]) + 1) over (order by n) - length(found[1]) as before
            from regexp_matches(p_text, pgrag_private.unspaced_run(), 'g') with ordinality as matches (found, n)) runs
   cross join lateral pgrag_private.pairs_of(run)
), ''::tsvector);

-- PostgreSQL's parser reads the "-402" of "PAY-402" as a negative number and keeps "refund/return" whole as a file's
-- name, so a hyphen before a digit and a slash between letters or digits split.
create or replace function pgrag_private.split_joined(p_text text) returns text
language sql immutable parallel safe
return regexp_replace(p_text, '([[:alnum:]])(?:-(?=[0-9])|/(?=[[:alnum:]]))', '\1 ', 'g');

-- It takes "snake_case" and "v2.3.1" apart, so an identifier (joined by - _ . / : # and holding a digit or an underscore) is
-- kept whole as a lexeme of its own, "pay-402", and so is each part of it between / : #.
create or replace function pgrag_private.spaced_words(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector(pgrag_private.text_config(p_language), pgrag_private.split_joined(p_text))
  || coalesce((
       select string_agg(format('''%s'':%s', lexeme, n), ' ')::tsvector
         from (select distinct lower(part) as lexeme, least(n, 16383) as n
                 from regexp_matches(p_text, '[[:alnum:]]+(?:[-_./:#][[:alnum:]]+)+', 'g') with ordinality as matches (found, n)
                cross join lateral unnest(array[found[1]] || regexp_split_to_array(found[1], '[/:#]')) as parts (part)
                where part ~ '[0-9_]' and part ~ '[-_./:#]' and length(part) <= 200) identifiers
     ), ''::tsvector);

-- Letters are composed first: a base letter with a mark is the letter. Scripts that write no spaces become pairs of
-- neighbouring characters instead of words, whatever the language.
create or replace function pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return case when p_text ~ pgrag_private.unspaced_run() then
         pgrag_private.spaced_words(p_language, regexp_replace(normalize(p_text, nfc), pgrag_private.unspaced_run(), ' ', 'g'))
         || pgrag_private.unspaced_pairs(normalize(p_text, nfc))
       else pgrag_private.spaced_words(p_language, normalize(p_text, nfc)) end;

-- How many lexemes a vector stands for, repetitions counted: the length of a document in BM25.
create or replace function pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
language sql immutable parallel safe
return (select coalesce(sum(coalesce(cardinality(positions), 1)), 0)::integer from unnest(p_lexemes) as entry (lexeme, positions, weights));

-- The keys of the index chunk_lex_keys. With the tenant as the seed, one tenant's postings and their statistics are its own. SHA-256
-- comes first because PostgreSQL's own hash can be run backwards: a word made to have the key of another tenant's word would
-- count, in what PostgreSQL tells of its scans, the chunks of that tenant that have it.
-- The cost says that no plan may compute them row by row.
create or replace function pgrag_private.lexeme_keys(p_tenant_id bigint, p_lexemes text[]) returns bigint[]
language sql immutable parallel safe cost 10000
return array(select hashtextextended(encode(sha256(convert_to(lexeme, 'UTF8')), 'hex') collate "C", p_tenant_id) from unnest(p_lexemes) as l (lexeme));
grant execute on function pgrag_private.lexeme_keys to pgrag_owner; -- who builds the index
