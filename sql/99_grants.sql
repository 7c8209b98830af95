-- Who may call what. Until here nobody may call anything: what is new is born so (01_schemas.sql), and an upgrade
-- began by taking every privilege back. A grant that is not below does not exist.
set local role pgrag_engine;

-- Everyone with a token.
grant execute on function
  pgrag.authenticate(text), pgrag.whoami(text), pgrag.version(), pgrag.status()
  to pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_browser;
grant execute on function pgrag.version(), pgrag.status() to pgrag_operator, pgrag_keys;

-- Readers.
grant execute on function
  pgrag.search(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision, text,
               text[], public.vector[], integer, integer, text, text, text[], text),
  pgrag.search_json(jsonb, text),
  pgrag.packet(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision,
               integer, text, integer, boolean, text,
               text[], public.vector[], integer, integer, text, text, text[], text),
  pgrag.packet_json(jsonb, text),
  pgrag.validate_reply(jsonb, jsonb, text),
  pgrag.excerpt(text, timestamptz, text),
  pgrag.can_read(text, text, text),
  pgrag.active_space(text), pgrag.next_space(text)
  to pgrag_reader;

-- Connectors: their own source, by their token.
grant execute on function
  pgrag.writer_source(text),
  pgrag.active_space(text), pgrag.next_space(text),
  pgrag.add_embeddings(text, text, text, integer, public.vector[]), pgrag.missing_embeddings(text, integer, boolean),
  pgrag.stage_revision(text, text, text, text, text, text, text, text[], date, timestamptz, timestamptz,
                       text, text, text, text, int4range[], jsonb),
  pgrag.add_chunks(text, text, integer, text[], integer[], integer[], integer[], text[], integer[], text[], public.vector[]),
  pgrag.verify_revision(text, text, integer),
  pgrag.list_documents(text, text), pgrag.list_revisions(text, text, text),
  pgrag.set_access(text, text[], text), pgrag.activate(text, text, text, boolean, text),
  pgrag.rollback(text, text, text, text), pgrag.delete_document(text, text)
  to pgrag_writer;

-- Administrators of one tenant: who is in it, who may read what, what is in force.
grant execute on function
  pgrag.put_principal(text, text), pgrag.drop_principal(text),
  pgrag.put_membership(text, text), pgrag.drop_membership(text, text),
  pgrag.list_principals(text), pgrag.list_memberships(text),
  pgrag.list_documents(text, text), pgrag.list_revisions(text, text, text),
  pgrag.set_access(text, text[], text), pgrag.activate(text, text, text, boolean, text),
  pgrag.rollback(text, text, text, text), pgrag.delete_document(text, text)
  to pgrag_admin;

-- Operators set up tenants, sources and spaces, without a token, and read no content.
grant execute on function
  pgrag.put_tenant(text, text), pgrag.put_source(text, text, text[], text),
  pgrag.put_space(text, text, text, text, integer, text, text, text, text, text, text, text),
  pgrag.list_tenants(), pgrag.list_sources(text), pgrag.list_spaces(text), pgrag.build_space(text, text), pgrag.switch_space(text, text), pgrag.retire_space(text, text),
  pgrag.space_status(text),
  pgrag.maintain(interval), pgrag.calibrate(), pgrag.index_status(), pgrag.doctor()
  to pgrag_operator;

-- Whoever can add a key can mint anyone.
grant execute on function
  pgrag.add_signing_key(text, bytea, text, text), pgrag.retire_signing_key(text), pgrag.list_signing_keys()
  to pgrag_keys;

-- A policy's functions are called with the rights of whoever queries the view.
grant execute on function pgrag_private.browse_revisions(), pgrag_private.browse_tenant() to pgrag_browser;

set local role pgrag_viewer;
revoke all on pgrag.documents, pgrag.chunks
  from public, pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_operator, pgrag_keys, pgrag_browser;
grant select on pgrag.documents, pgrag.chunks to pgrag_browser;

set local role pgrag_owner;
revoke all on schema pgrag, pgrag_data, pgrag_private, pgrag_block from public;
-- Maintenance makes, indexes and drops the tables of blocks as their owner.
grant execute on function pgrag_private.create_block_table(bigint, integer), pgrag_private.index_block_table(bigint),
  pgrag_private.drop_block_table(bigint) to pgrag_engine;
grant usage on schema pgrag to pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_operator, pgrag_keys, pgrag_browser;
revoke create on schema pgrag from pgrag_engine, pgrag_viewer;
revoke create on schema pgrag_private from pgrag_engine;
reset role;

-- For pg_dump --role=pgrag_engine, which reads every table of the database.
grant select on public.pgrag_alembic_version to pgrag_engine;

-- The installer gives back what it took: from here on it cannot act as the engine or the owner.
do $$
begin
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('revoke pgrag_owner, pgrag_engine, pgrag_viewer from %I granted by %I', current_user, current_user);
  end if;
end
$$;
release savepoint pgrag_install; -- noqa: PRS
reset default_transaction_read_only;
