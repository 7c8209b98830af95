-- What is said of a chunk wherever it is shown: where it is from, and its text. Put into the statement that calls it in its FROM.
-- OFFSET 0 keeps it row by row, one table after the other, so that no other row is touched: among a thousand small tenants the
-- planner read all documents of a large one for each hit.
create or replace function pgrag_private.describe_chunk(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer) returns table (described jsonb)
language sql stable parallel restricted
begin atomic
  select jsonb_build_object(
    'chunk_id', encode(c.chunk_id, 'hex'),
    'source', s.source,
    'document', d.document,
    'revision', r.revision,
    'active', r.revision_id is not distinct from d.active_revision_id,
    'title', r.title,
    'section', c.section,
    'page', c.page,
    'language', c.language,
    'span_start', c.span_start,
    'span_end', c.span_end,
    'span_unit', 'code points',
    'tokens', c.token_count,
    'tokenizer', r.tokenizer,
    'trust', s.trust,
    'effective_from', pgrag_private.utc(r.effective_from),
    'effective_to', pgrag_private.utc(r.effective_to),
    'ingested_at', pgrag_private.utc(r.created_at),
    'text', c.text)
    from pgrag_data.chunk c
   cross join lateral (select r.* from pgrag_data.revision r where r.tenant_id = c.tenant_id and r.revision_id = c.revision_id offset 0) r
   cross join lateral (select d.* from pgrag_data.document d where d.tenant_id = r.tenant_id and d.document_id = r.document_id offset 0) d
   cross join lateral (select s.* from pgrag_data.source s where s.tenant_id = d.tenant_id and s.source_id = d.source_id offset 0) s
   where c.tenant_id = p_tenant_id and c.revision_id = p_revision_id and c.chunk_no = p_chunk_no
  offset 0;
end;
