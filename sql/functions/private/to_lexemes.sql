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

-- PostgreSQL's parser reads the "-402" of "PAY-402" as a negative number, takes "snake_case" apart and keeps "refund/return"
-- whole as a file's name, so: a hyphen before a digit and a slash between letters or digits split, and an identifier
-- (joined by - _ . / : # and holding a digit or an underscore) is kept whole as a lexeme of its own, "pay-402", and so
-- is each part of it between / : #. Letters are composed first: a base letter with a mark is the letter.
create or replace function pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector(pgrag_private.text_config(p_language),
                   regexp_replace(normalize(p_text, nfc), '([[:alnum:]])(?:-(?=[0-9])|/(?=[[:alnum:]]))', '\1 ', 'g'))
  || coalesce((
       select string_agg(format('''%s'':%s', lexeme, n), ' ')::tsvector
         from (select distinct lower(part) as lexeme, least(n, 16383) as n
                 from regexp_matches(normalize(p_text, nfc), '[[:alnum:]]+(?:[-_./:#][[:alnum:]]+)+', 'g')
                      with ordinality as matches (found, n)
                cross join lateral unnest(array[found[1]] || regexp_split_to_array(found[1], '[/:#]')) as parts (part)
                where part ~ '[0-9_]' and part ~ '[-_./:#]' and length(part) <= 200) identifiers
     ), ''::tsvector);

-- How many lexemes a vector stands for, repetitions counted: the length of a document in BM25.
create or replace function pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
language sql immutable parallel safe
return (select coalesce(sum(coalesce(cardinality(positions), 1)), 0)::integer from unnest(p_lexemes) as entry (lexeme, positions, weights));
