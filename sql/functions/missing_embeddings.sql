-- The next chunks of the writer's source that want an embedding in a space: of revisions in force that have embeddings in another, and
-- with p_retained of all such revisions, so that a rollback finds its own. What to encode is the text, with title and section where the
-- model's preprocessing takes them. Call it until it returns no row; others may be at it too, for the same again changes nothing.
create or replace function pgrag.missing_embeddings(p_space text, p_limit integer default 256, p_retained boolean default false)
returns table (document text, revision text, chunk_no integer, title text, section text, language text, text text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_source    pgrag_data.source := pgrag_private.find_source(v_principal, null);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
begin
  if p_limit is null or p_limit not between 1 and 2000 then
    raise exception using errcode = 'RG408', message = 'p_limit must be a whole number from 1 to 2000', hint = 'Call again for more.';
  end if;
  return query
  select r.document::text, r.revision::text, c.chunk_no, r.title, c.section, c.language::text, c.text
    from (select d.document, r.revision, r.revision_id, r.title
            from pgrag_data.document d
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.document_id = d.document_id and r.state = 'verified'
                                      and (r.revision_id = d.active_revision_id or coalesce(p_retained, false))
           where d.tenant_id = v_source.tenant_id and d.source_id = v_source.source_id and d.deleted_at is null
             and (r.space_id is not null
                  or exists (select from pgrag_data.revision_space s where s.tenant_id = r.tenant_id and s.revision_id = r.revision_id))
             and not exists (select from pgrag_data.revision_space s
                              where s.tenant_id = r.tenant_id and s.revision_id = r.revision_id and s.space_id = v_space.space_id)
           order by r.revision_id
           limit p_limit) r
    join pgrag_data.chunk c on c.tenant_id = v_source.tenant_id and c.revision_id = r.revision_id
   where not exists (select from pgrag_data.chunk_vec v where v.tenant_id = c.tenant_id and v.space_id = v_space.space_id
                                                          and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
   order by r.revision_id, c.chunk_no
   limit p_limit;
end
$$;

comment on function pgrag.missing_embeddings is 'The next chunks of the writer''s source that have no embedding in a space yet, for re-encoding.';
revoke all on function pgrag.missing_embeddings from public;
