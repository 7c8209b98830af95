-- 0.2.0 to 0.3.0: rows that were there, with the new functions there to call. It runs as pgrag_engine, which sees every row.

update pgrag_data.document d set active_until = r.effective_to
  from pgrag_data.revision r
 where r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id;

-- The ledger begins with what is in force.
insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
select d.tenant_id, d.acl_id, d.source_id, r.languages, r.effective_to, count(*), sum(r.chunk_count), sum(r.lexeme_count)
  from pgrag_data.document d
  join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
 where d.deleted_at is null
 group by 1, 2, 3, 4, 5;

-- Verified with embeddings: complete in their space.
insert into pgrag_data.revision_space (tenant_id, revision_id, space_id, completed_at)
select r.tenant_id, r.revision_id, r.space_id, r.verified_at
  from pgrag_data.revision r
 where r.state = 'verified' and r.space_id is not null;
