-- Checks a staged revision and, if nothing is wrong, freezes it. Every fault is named, and with any of them
-- nothing changes: the result says so, it is not an error, and the staged chunks stay.
--
-- The chunks laid end to end, with the declared skips between them, must be the body: each contributes what
-- lies behind the end of those before it, and what overlaps must be the end of its predecessor. That proves
-- every span in one pass, where cutting each span out of the body would read the body once a chunk.
create or replace function pgrag.verify_revision(p_document text, p_revision text, p_expected_chunks integer)
returns table (state text, chunks integer, faults text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, null), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_body      text;
  v_spans     record;
  v_totals    record;
  v_faults    text[] := '{}';
begin
  select r.* into v_revision from pgrag_data.revision r
   where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id for no key update;
  if v_revision.state = 'verified' then
    return query select v_revision.state::text, v_revision.chunk_count, v_faults;
    return;
  end if;
  select s.body into v_body from pgrag_data.revision_source s
   where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id;

  -- Two scans and no join: right after a bulk load the planner knows nothing of the new rows, and would loop.
  select count(*)::integer as chunks, coalesce(sum(c.token_count), 0) as tokens,
         (select coalesce(sum(l.length), 0) from pgrag_data.chunk_lex l
           where l.tenant_id = v_revision.tenant_id and l.revision_id = v_revision.revision_id) as lexemes,
         coalesce(array_agg(distinct c.language::text), '{}') as languages,
         coalesce(max(c.chunk_no), 0) as last_no,
         count(*) filter (where length(c.text) <> c.span_end - c.span_start) as wrong_length
    into v_totals
    from pgrag_data.chunk c
   where c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id;

  if pgrag_private.is_blank(v_body) or v_totals.chunks = 0 then
    v_faults := v_faults || 'empty extraction: there is no text to find'::text;
  end if;
  if p_expected_chunks is null or v_totals.chunks <> p_expected_chunks or v_totals.last_no <> v_totals.chunks then
    v_faults := v_faults || format('chunk count: %s chunks up to number %s, %s expected',
                                   v_totals.chunks, v_totals.last_no, coalesce(p_expected_chunks::text, 'null'));
  end if;
  if v_totals.wrong_length > 0 then
    v_faults := v_faults || format('span length: %s chunks are not as long as their spans', v_totals.wrong_length);
  end if;

  with piece as (
    select c.span_start as s, c.span_end as e, c.text, c.chunk_no from pgrag_data.chunk c
     where c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id
    union all
    select lower(k), upper(k), substr(v_body, lower(k) + 1, upper(k) - lower(k)), null
      from unnest(v_revision.skips) as k
  ), ordered as (
    select p.*, lag(p.e, 1, 0) over w as before, lag(p.text) over w as text_before, lag(p.s, 1, -1) over w as start_before,
           max(p.chunk_no) over (w rows between unbounded preceding and 1 preceding) as no_before
      from piece p window w as (order by p.s, p.e)
  )
  select count(*) filter (where s > before) as gaps,
         count(*) filter (where e <= before or s <= start_before or chunk_no < no_before) as disorder,
         count(*) filter (where s < before and left(text, before - s) is distinct from right(text_before, before - s)) as overlaps,
         max(e) as ends,
         string_agg(substr(text, greatest(before - s, 0) + 1), '' order by s, e) as laid
    into v_spans
    from ordered;
  if v_spans.gaps > 0 or coalesce(v_spans.ends, 0) <> length(v_body) then
    v_faults := v_faults || format('span coverage: %s gaps; the last span ends at %s of %s',
                                   v_spans.gaps, coalesce(v_spans.ends, 0), length(v_body));
  end if;
  if v_spans.disorder > 0 then
    v_faults := v_faults || format('span order: %s spans do not go on from the one before', v_spans.disorder);
  end if;
  if v_spans.overlaps > 0 or coalesce(v_spans.laid, '') <> v_body then
    v_faults := v_faults || 'span text: the chunks'' texts are not what the body has at their spans'::text;
  end if;

  if v_revision.space_id is not null then
    v_faults := v_faults || pgrag_private.embedding_faults(v_revision.tenant_id, v_revision.revision_id, v_revision.space_id, 1, v_totals.chunks);
  end if;

  if v_faults = '{}' then
    update pgrag_data.revision r
       set state = 'verified', verified_at = clock_timestamp(), chunk_count = v_totals.chunks, token_count = v_totals.tokens,
           lexeme_count = v_totals.lexemes, languages = v_totals.languages
     where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id;
    insert into pgrag_data.revision_space (tenant_id, revision_id, space_id)
    select v_revision.tenant_id, v_revision.revision_id, v_revision.space_id where v_revision.space_id is not null
    on conflict do nothing;
    v_revision.state := 'verified';
  end if;
  return query select v_revision.state::text, v_totals.chunks, v_faults;
end
$$;

comment on function pgrag.verify_revision is 'Checks a staged revision (count, spans, text, embeddings) and freezes it, or names every fault and changes nothing.';
revoke all on function pgrag.verify_revision from public;
