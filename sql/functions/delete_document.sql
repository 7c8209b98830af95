-- A tombstone: one row changes, and at commit no revision of the document can be found, whatever the date asked
-- about. The text stays until it is purged.
create or replace function pgrag.delete_document(p_document text, p_source text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
begin
  update pgrag_data.document d set deleted_at = transaction_timestamp()
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id and d.deleted_at is null;
  return found;
end
$$;

comment on function pgrag.delete_document is 'Hides a document and all its revisions at commit; returns whether it was there.';
revoke all on function pgrag.delete_document from public;
