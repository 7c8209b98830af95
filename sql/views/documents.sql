-- For ad-hoc reading by pgrag_browser, after pgrag.authenticate in the same transaction. OFFSET 0 keeps the caller's
-- own conditions behind the policies, leakproof ones too: a look-up by name would touch hidden rows, which can be counted.
create or replace view pgrag.documents with (security_barrier) as
  select s.source, d.document, r.revision, r.title, r.language, r.product, r.version, r.tags, r.dated,
         nullif(r.effective_from, '-infinity') as effective_from, nullif(r.effective_to, 'infinity') as effective_to,
         s.trust, r.chunk_count as chunks, r.created_at as ingested_at, r.metadata
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
  offset 0;

comment on view pgrag.documents is 'The documents that the authenticated reader may see, each in its active revision.';
