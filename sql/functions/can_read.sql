-- For use before an action on what was retrieved: whether the reader may see the document now.
create function pgrag.can_read(p_source text, p_document text, p_token text default null) returns boolean
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  return exists (
    select from pgrag_data.document d
      join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
     where d.tenant_id = v_principal.tenant_id and s.source = p_source and d.document = p_document
       and d.active_revision_id = any (pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null)));
end
$$;

comment on function pgrag.can_read is 'Whether the reader may see a document now; false for what is not there.';
revoke all on function pgrag.can_read from public;
