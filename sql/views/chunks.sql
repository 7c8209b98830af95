-- As pgrag.documents, OFFSET 0 included; one row for each chunk.
create or replace view pgrag.chunks with (security_barrier) as
  select encode(c.chunk_id, 'hex') as chunk_id, s.source, d.document, r.revision, c.chunk_no, c.section, c.page,
         c.language, c.span_start, c.span_end, c.token_count as tokens, c.text
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
    join pgrag_data.chunk c on c.tenant_id = r.tenant_id and c.revision_id = r.revision_id
  offset 0;

comment on view pgrag.chunks is 'The passages of the documents that the authenticated reader may see.';
