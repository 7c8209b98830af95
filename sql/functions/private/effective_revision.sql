-- The revision of a document that is in force at a time: one that has been active and was not withdrawn by a
-- rollback, whose effective period holds the time; of several, the one that took effect last, and of those
-- the one activated last. A revision that was never active is in force at no time.
create function pgrag_private.effective_revision(p_tenant_id bigint, p_document_id bigint, p_at timestamptz) returns bigint
language sql stable parallel restricted
begin atomic
  select r.revision_id
    from pgrag_data.revision r
    cross join lateral (
      select a.activation_id, a.action, a.revision_id
        from pgrag_data.activation a
       where a.tenant_id = r.tenant_id and a.document_id = r.document_id
         and r.revision_id in (a.revision_id, a.replaced_revision_id)
       order by a.activation_id desc
       limit 1
    ) last
   where r.tenant_id = p_tenant_id and r.document_id = p_document_id
     and r.effective_from <= p_at and p_at < r.effective_to
     and (last.revision_id = r.revision_id or last.action = 'activate')
   order by r.effective_from desc, last.activation_id desc
   limit 1;
end;
