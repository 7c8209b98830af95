-- Text to lexemes, for chunks and questions alike. The language picks the stemmer, and one that PostgreSQL
-- does not know is split into words and otherwise left alone ('simple').
create function pgrag_private.text_config(p_language text) returns regconfig
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
  when 'ne' then 'pg_catalog.nepali'::regconfig
  when 'nl' then 'pg_catalog.dutch'::regconfig
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

-- PostgreSQL's parser reads the "-402" of "PAY-402" as a negative number and takes "snake_case" apart, so two
-- things are added: a hyphen before a digit splits, and an identifier (joined by - _ . / : # and holding a
-- digit or an underscore) is kept whole as a lexeme of its own, "pay-402".
create function pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector(pgrag_private.text_config(p_language),
                   regexp_replace(p_text, '([[:alnum:]])-([0-9])', '\1 \2', 'g'))
  || coalesce((
       select string_agg(format('''%s'':%s', lower(found[1]), least(n, 16383)), ' ')::tsvector
         from regexp_matches(p_text, '[[:alnum:]]+(?:[-_./:#][[:alnum:]]+)+', 'g') with ordinality as matches (found, n)
        where found[1] ~ '[0-9_]' and length(found[1]) <= 200
     ), ''::tsvector);

-- How many lexemes a vector stands for, repetitions counted: the length of a document in BM25.
create function pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
language sql immutable parallel safe
return (select coalesce(sum(coalesce(cardinality(positions), 1)), 0)::integer from unnest(p_lexemes) as entry (lexeme, positions, weights));
