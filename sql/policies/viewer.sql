-- What pgrag_viewer, the owner of the browsing views, may see: the scope of the session's principal. The
-- sub-selects make each an InitPlan, computed once a statement and not once a row.
create policy pgrag_source_select on pgrag_data.source for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant()));
create policy pgrag_revision_select on pgrag_data.revision for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));
create policy pgrag_document_select on pgrag_data.document for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and active_revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));
create policy pgrag_chunk_select on pgrag_data.chunk for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));

grant select on pgrag_data.source, pgrag_data.revision, pgrag_data.document, pgrag_data.chunk to pgrag_viewer;
