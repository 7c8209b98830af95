-- Who may read a document, whole: the list replaces the one before. One row changes, and takes effect at commit.
create or replace function pgrag.set_access(p_document text, p_readers text[], p_source text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_acl_id    bigint;
begin
  if p_readers is null or array_ndims(p_readers) > 1 or array_position(p_readers, null) is not null then
    raise exception using errcode = 'RG408', message = 'neither the readers nor one of them may be null',
      hint = 'Pass names, ''{everyone}'' for every known principal of the tenant, or ''{}'' for nobody.';
  end if;
  v_acl_id := pgrag_private.acl_of(v_principal.tenant_id, p_readers);
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_document.acl_id = v_acl_id then
    return false;
  end if;
  update pgrag_data.document d set acl_id = v_acl_id, changed_xid = pg_current_xact_id()
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id;
  perform pgrag_private.count_document(v_document, -1);
  v_document.acl_id := v_acl_id;
  perform pgrag_private.count_document(v_document, 1);
  return true;
end
$$;

comment on function pgrag.set_access is 'Sets who may read a document: users, services, groups, or everyone; returns whether that changed anything.';
revoke all on function pgrag.set_access from public;
