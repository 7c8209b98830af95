-- A tombstone: one row changes, and at commit no revision of the document can be found, whatever the date asked
-- about. The text stays until it is purged.
create or replace function pgrag.delete_document(p_document text, p_source text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
begin
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_document.deleted_at is not null then
    return false;
  end if;
  update pgrag_data.document d set deleted_at = transaction_timestamp()
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id;
  perform pgrag_private.count_document(v_document, -1);
  return true;
end
$$;

comment on function pgrag.delete_document is 'Hides a document and all its revisions at commit; returns false where it was hidden already.';
revoke all on function pgrag.delete_document from public;
