-- Indexes over functions, which have to be there first. On a large database they are built before the upgrade, beside the
-- work of others: migrations/sql/*.prepare.sql.

-- Where a lexeme of a tenant is. It finds candidates for the lexical lane in large scopes; fastupdate off, so that what a
-- search costs does not depend on how long ago somebody wrote.
create index if not exists chunk_lex_keys on pgrag_data.chunk_lex
  using gin (pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes))) with (fastupdate = off);

-- What revisions can be filtered by, for readers who may see so many that looking at each would be slow.
create index if not exists revision_facets on pgrag_data.revision
  using gin (pgrag_private.facet_keys(tenant_id, language, product, version, tags, metadata)) with (fastupdate = off);
create index if not exists revision_dated on pgrag_data.revision (tenant_id, dated) where dated is not null;
