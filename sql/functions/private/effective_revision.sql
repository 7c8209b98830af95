-- The revisions of a document that have been put in force and were not withdrawn, with the activation that last put
-- each in force. A rollback withdraws every revision put in force after the one that it goes back to.
create or replace function pgrag_private.standing_revisions(p_tenant_id bigint, p_document_id bigint)
returns table (revision_id bigint, activation_id bigint)
language sql stable parallel restricted
begin atomic
  select put.revision_id, put.activation_id
    from (select a.revision_id, max(a.activation_id) as activation_id
            from pgrag_data.activation a
           where a.tenant_id = p_tenant_id and a.document_id = p_document_id
           group by a.revision_id) put
   where not exists (
     select from pgrag_data.activation b
      where b.tenant_id = p_tenant_id and b.document_id = p_document_id and b.action = 'rollback'
        and b.activation_id > put.activation_id
        and put.activation_id > (select coalesce(max(t.activation_id), 0) from pgrag_data.activation t
                                  where t.tenant_id = b.tenant_id and t.document_id = b.document_id
                                    and t.revision_id = b.revision_id and t.activation_id < b.activation_id));
end;

-- The revision of a document that is in force at a time: one that stands, whose effective period holds the time; of
-- several, the one that took effect last, and of those the one put in force last. A revision that was never active
-- is in force at no time. At most one row: as a set it is planned within its caller's query, where a scalar function
-- would be planned anew for each document (measured: 50 times the cost).
create or replace function pgrag_private.effective_revision(p_tenant_id bigint, p_document_id bigint, p_at timestamptz)
returns table (revision_id bigint)
language sql stable parallel restricted
begin atomic
  select r.revision_id
    from pgrag_private.standing_revisions(p_tenant_id, p_document_id) s
    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id
   where r.effective_from <= p_at and p_at < r.effective_to
   order by r.effective_from desc, s.activation_id desc
   limit 1;
end;
