-- The engine's policies: constant true, which the planner folds away, so that indexes on operators which
-- are not leakproof (@@, <=>, array and jsonb operators) stay usable. No other role has a policy, except
-- pgrag_viewer (viewer.sql): with row-level security forced, everyone else sees no row.
create policy pgrag_tenant_engine on pgrag_data.tenant for all to pgrag_engine using (true) with check (true);
create policy pgrag_principal_engine on pgrag_data.principal for all to pgrag_engine using (true) with check (true);
create policy pgrag_membership_engine on pgrag_data.membership for all to pgrag_engine using (true) with check (true);
create policy pgrag_acl_engine on pgrag_data.acl for all to pgrag_engine using (true) with check (true);
create policy pgrag_acl_entry_engine on pgrag_data.acl_entry for all to pgrag_engine using (true) with check (true);
create policy pgrag_source_engine on pgrag_data.source for all to pgrag_engine using (true) with check (true);
create policy pgrag_embedding_space_engine on pgrag_data.embedding_space for all to pgrag_engine using (true) with check (true);
create policy pgrag_document_engine on pgrag_data.document for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_engine on pgrag_data.revision for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_source_engine on pgrag_data.revision_source for all to pgrag_engine using (true) with check (true);
create policy pgrag_activation_engine on pgrag_data.activation for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_engine on pgrag_data.chunk for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_lex_engine on pgrag_data.chunk_lex for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_vec_engine on pgrag_data.chunk_vec for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_space_engine on pgrag_data.revision_space for all to pgrag_engine using (true) with check (true);
create policy pgrag_scope_total_engine on pgrag_data.scope_total for all to pgrag_engine using (true) with check (true);
create policy pgrag_dense_block_engine on pgrag_data.dense_block for all to pgrag_engine using (true) with check (true);
create policy pgrag_search_cost_engine on pgrag_data.search_cost for all to pgrag_engine using (true) with check (true);
create policy pgrag_signing_key_engine on pgrag_private.signing_key for all to pgrag_engine using (true) with check (true);
create policy pgrag_internal_key_engine on pgrag_private.internal_key for all to pgrag_engine using (true) with check (true);

-- What the engine may do, table by table: it never truncates, and it deletes only what functions delete.
grant select, insert, update on pgrag_data.tenant, pgrag_data.principal, pgrag_data.source, pgrag_data.document,
  pgrag_data.revision, pgrag_data.embedding_space to pgrag_engine;
grant select, insert, delete on pgrag_data.membership, pgrag_data.chunk_vec, pgrag_data.revision_space to pgrag_engine;
grant select, insert, update, delete on pgrag_data.dense_block, pgrag_data.scope_total to pgrag_engine;
grant select, insert, update on pgrag_data.search_cost to pgrag_engine;
grant select, insert on pgrag_data.acl, pgrag_data.acl_entry, pgrag_data.revision_source,
  pgrag_data.activation, pgrag_data.chunk, pgrag_data.chunk_lex to pgrag_engine;
grant select, insert, update on pgrag_private.signing_key to pgrag_engine;
grant select, insert on pgrag_private.internal_key to pgrag_engine;
-- For pg_dump --role=pgrag_engine, which reads the state of the identity sequences.
grant select on all sequences in schema pgrag_data to pgrag_engine;
