create or replace function pgrag.list_revisions(p_document text, p_source text default null, p_token text default null)
returns table (revision text, state text, title text, effective_from timestamptz, effective_to timestamptz, chunks integer,
               created_at timestamptz, verified_at timestamptz, activated_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
begin
  return query
  select r.revision::text,
         case when r.revision_id = v_document.active_revision_id then 'active'
              when a.recorded_at is null then r.state::text
              when t.revision_id is null then 'withdrawn'
              else 'retired' end,
         r.title, nullif(r.effective_from, '-infinity'), nullif(r.effective_to, 'infinity'), r.chunk_count,
         r.created_at, r.verified_at, a.recorded_at
    from pgrag_data.revision r
    left join lateral (
      select max(a.recorded_at) as recorded_at from pgrag_data.activation a
       where a.tenant_id = r.tenant_id and a.document_id = r.document_id and a.revision_id = r.revision_id
    ) a on true
    left join pgrag_private.standing_revisions(v_document.tenant_id, v_document.document_id) t on t.revision_id = r.revision_id
   where r.tenant_id = v_document.tenant_id and r.document_id = v_document.document_id
   order by r.revision_id;
end
$$;

comment on function pgrag.list_revisions is 'The revisions of a document: staged, verified, active, retired (replaced) or withdrawn (rolled back from).';
revoke all on function pgrag.list_revisions from public;
