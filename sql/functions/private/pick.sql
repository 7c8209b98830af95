-- The k that come back, taken from the ranked chunks in order: no more of one document or source than its cap, and of
-- near-duplicates the first, with the others listed under it. Stops at k, so what comes after is not looked at.
create or replace function pgrag_private.pick(
  p_tenant_id bigint, p_ranked pgrag_private.ranked_chunk[], p_k integer, p_per_document integer, p_per_source integer,
  out chunks pgrag_private.ranked_chunk[], out complete_reason text
) language plpgsql stable parallel restricted as $$
declare
  v_place      record;
  v_documents  bigint[] := '{}';
  v_sources    bigint[] := '{}';
  v_words      tsvector[] := '{}';
  v_these      tsvector;
  v_similarity double precision;
  v_capped     boolean := false;
begin
  chunks := '{}';
  <<ranked>>
  for v_place in
    select k.n, p.*
      from unnest(p_ranked) with ordinality as k (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                  dense_rank, dense_score, tf, part, duplicates, n)
     cross join lateral (
       select r.document_id, d.source_id, s.source, d.document, encode(c.chunk_id, 'hex') as chunk_id, c.text
         from pgrag_data.chunk c
        cross join lateral (select r.* from pgrag_data.revision r where r.tenant_id = c.tenant_id and r.revision_id = c.revision_id offset 0) r
        cross join lateral (select d.* from pgrag_data.document d where d.tenant_id = r.tenant_id and d.document_id = r.document_id offset 0) d
        cross join lateral (select s.* from pgrag_data.source s where s.tenant_id = d.tenant_id and s.source_id = d.source_id offset 0) s
        where c.tenant_id = p_tenant_id and c.revision_id = k.revision_id and c.chunk_no = k.chunk_no
       offset 0) p -- row by row: no row outside the scope is touched
     order by k.n
  loop
    if cardinality(array_positions(v_documents, v_place.document_id)) >= p_per_document
       or cardinality(array_positions(v_sources, v_place.source_id)) >= p_per_source then
      v_capped := true;
      continue;
    end if;
    v_these := pgrag_private.distinct_words(v_place.text);
    for v_n in 1 .. cardinality(chunks) loop
      -- What cannot be similar is not looked at more closely, which would take four times as long.
      continue when length(v_these) not between 0.9 * length(v_words[v_n]) and length(v_words[v_n]) / 0.9
                 or length(ts_delete(v_these, tsvector_to_array(v_words[v_n]))) > 0.1 * (length(v_these) + length(v_words[v_n]));
      v_similarity := pgrag_private.similarity(v_words[v_n], v_these);
      if v_similarity >= 0.9 then
        chunks[v_n].duplicates := chunks[v_n].duplicates || jsonb_build_array(jsonb_build_object(
          'chunk_id', v_place.chunk_id, 'source', v_place.source, 'document', v_place.document,
          'similarity', pgrag_private.score(v_similarity)));
        continue ranked;
      end if;
    end loop;
    chunks := chunks || p_ranked[v_place.n];
    v_documents := v_documents || v_place.document_id;
    v_sources := v_sources || v_place.source_id;
    v_words := v_words || v_these;
    exit when cardinality(chunks) = p_k; -- here, not above: to ask for another row fetches fifty
  end loop;
  complete_reason := case
    when cardinality(chunks) = p_k then 'k_returned'
    when v_capped then 'capped'
    else 'all_matches_returned' end;
end
$$;
