create or replace function pgrag.list_documents(p_source text default null, p_token text default null)
returns table (source text, document text, active_revision text, readers text[], deleted_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer', 'admin');
begin
  return query
  select s.source::text, d.document::text, r.revision::text,
         array(select p.name::text from pgrag_data.acl_entry e
                 join pgrag_data.principal p on p.tenant_id = e.tenant_id and p.principal_id = e.principal_id and p.dropped_at is null
                where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id order by p.name),
         d.deleted_at
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    left join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
   where d.tenant_id = v_principal.tenant_id
     and (v_principal.kind = 'admin' or s.source_id = v_principal.source_id)
     and (p_source is null or s.source = p_source)
   order by s.source, d.document;
end
$$;

comment on function pgrag.list_documents is 'The documents of the admin''s tenant, or of the writer''s source, with their readers and active revision.';
revoke all on function pgrag.list_documents from public;
