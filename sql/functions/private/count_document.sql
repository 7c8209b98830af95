-- Adds to the ledger what a document makes visible (1), or takes it away (-1). The caller has locked the document's row,
-- and moves its pointer in the same transaction. Nothing in force, or a tombstone: nothing to count.
create or replace function pgrag_private.count_document(p_document pgrag_data.document, p_sign integer) returns void
language plpgsql volatile parallel unsafe as $$
begin
  if p_document.active_revision_id is null or p_document.deleted_at is not null then
    return;
  end if;
  insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
  select p_document.tenant_id, p_document.acl_id, p_document.source_id, r.languages, r.effective_to,
         p_sign, p_sign * r.chunk_count, p_sign * r.lexeme_count
    from pgrag_data.revision r
   where r.tenant_id = p_document.tenant_id and r.revision_id = p_document.active_revision_id;
end
$$;
