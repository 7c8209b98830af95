-- For use before an action on what was retrieved: whether the reader may see the document now. The name is looked
-- for among the documents of the scope, not in the table: what an index lookup touches, any role can count
-- (pg_stat_xact_all_tables, pg_locks, EXPLAIN's buffers, the clock), and so tell "hidden" from "not there".
create or replace function pgrag.can_read(p_source text, p_document text, p_token text default null) returns boolean
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_scope     bigint[] := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null);
begin
  return exists (
    with visible as materialized (
      select s.source, d.document
        from unnest(v_scope) as v (revision_id)
        join pgrag_data.revision r on r.tenant_id = v_principal.tenant_id and r.revision_id = v.revision_id
        join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
        join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    )
    select from visible where source = p_source and document = p_document);
end
$$;

comment on function pgrag.can_read is 'Whether the reader may see a document now; false for what is not there.';
revoke all on function pgrag.can_read from public;
