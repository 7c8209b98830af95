-- Adds chunks p_first, p_first + 1, … to a staged revision, in arrays of one length: the bulk path, since COPY
-- cannot write under row-level security. At most 2000 chunks and 16 MiB of text a call bound the memory.
-- The same batch again changes nothing; other text under a number that is taken is refused.
create or replace function pgrag.add_chunks(
  p_document   text,
  p_revision   text,
  p_first      integer,
  p_texts      text[],
  p_starts     integer[],
  p_ends       integer[],
  p_tokens     integer[],
  p_sections   text[] default null,
  p_pages      integer[] default null,
  p_languages  text[] default null,
  p_embeddings public.vector[] default null
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_source    pgrag_data.source := pgrag_private.find_source(v_principal, null);
  v_document  pgrag_data.document := pgrag_private.find_document(v_source, p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_space     pgrag_data.embedding_space;
  v_tenant    text;
  v_count     integer := cardinality(p_texts);
  v_added     integer := 0;
  v_same      integer;
begin
  if p_first is null or p_first not between 1 and 1000000 or v_count is null or v_count not between 1 and 2000
     or (select sum(octet_length(t)) from unnest(p_texts) as u (t)) > 16777216
     or cardinality(p_starts) is distinct from v_count or cardinality(p_ends) is distinct from v_count
     or cardinality(p_tokens) is distinct from v_count
     or coalesce(cardinality(p_sections), v_count) <> v_count or coalesce(cardinality(p_pages), v_count) <> v_count
     or coalesce(cardinality(p_languages), v_count) <> v_count or coalesce(cardinality(p_embeddings), v_count) <> v_count
     or exists (select from unnest(p_texts, p_starts, p_ends, p_tokens) as u (t, s, e, n)
                 where coalesce(t, '') = '' or length(t) > 32768 or s is null or s < 0 or e is null or e <= s or n is null or n < 0)
     or exists (select from unnest(p_sections) as u (s) where length(s) > 1000)
     or exists (select from unnest(p_languages) as u (l) where not pgrag_private.is_language(l)) then
    raise exception using errcode = 'RG408', message = 'the batch of chunks is malformed',
      hint = 'Number chunks from 1; 1 to 2000 of them, 16 MiB of text, arrays of one length; '
             'texts of 1 to 32768 characters, sections of at most 1000, start < end, tokens >= 0.';
  end if;
  if (p_embeddings is null) <> (v_revision.space_id is null) then
    raise exception using errcode = 'RG305', message = 'embeddings come with a revision staged for a space, and only with it',
      hint = 'Stage the revision with p_space, and pass one embedding for each chunk.';
  end if;
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = v_revision.tenant_id and s.space_id = v_revision.space_id;
  select t.tenant into v_tenant from pgrag_data.tenant t where t.tenant_id = v_principal.tenant_id;

  -- The lock keeps verification, which freezes the revision, from passing between the check and the rows. It is the one
  -- that verification takes: were it shared, two writers that each add and then verify would wait for each other.
  perform from pgrag_data.revision r
    where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id and r.state = 'staged' for no key update;
  if found then
    with batch as (
      select p_first + (u.n - 1)::integer as chunk_no, u.text, u.span_start, u.span_end, u.tokens, coalesce(u.section, '') as section,
             u.page, coalesce(u.language, v_revision.language) as language,
             pgrag_private.fingerprint(v_tenant, v_source.source, v_document.document, v_revision.revision,
                                       u.span_start::text, u.span_end::text, u.text) as chunk_id
        from unnest(p_texts, p_starts, p_ends, p_tokens, p_sections, p_pages, p_languages)
             with ordinality as u (text, span_start, span_end, tokens, section, page, language, n)
    ), added as (
      insert into pgrag_data.chunk (tenant_id, revision_id, chunk_no, chunk_id, text, span_start, span_end,
                                    section, page, language, token_count)
      select v_revision.tenant_id, v_revision.revision_id, b.chunk_no, b.chunk_id, b.text, b.span_start, b.span_end,
             b.section, b.page, b.language, b.tokens
        from batch b
      on conflict do nothing
      returning chunk_no, language, text, section
    ), lexemes as materialized (
      -- Title and section count as words of the chunk: that is how people ask for it.
      select a.chunk_no, a.language,
             pgrag_private.to_lexemes(a.language, concat_ws(chr(10), nullif(v_revision.title, ''), nullif(a.section, ''),
                                                         a.text)) as lexemes
        from added a
    ), lexical as (
      insert into pgrag_data.chunk_lex (tenant_id, revision_id, chunk_no, language, length, lexemes)
      select v_revision.tenant_id, v_revision.revision_id, l.chunk_no, l.language,
             pgrag_private.lexeme_count(l.lexemes), l.lexemes
        from lexemes l
    )
    select count(*) into v_added from added;
    if p_embeddings is not null then
      -- Also for chunks that came without one before: a retry completes what a failed encoder left.
      perform pgrag_private.put_embeddings(v_revision, v_space, p_first, p_embeddings);
    end if;
  end if;

  -- What was just added is what was sent. Looked at only where it was not: right after a bulk load the planner, which knows
  -- nothing of the new rows, would read the whole revision for each of the batch.
  if v_added = v_count then
    return v_added;
  end if;
  select count(*) into v_same
    from unnest(p_texts, p_starts, p_ends, p_tokens, p_sections, p_pages, p_languages, p_embeddings)
         with ordinality as u (text, span_start, span_end, tokens, section, page, language, embedding, n)
    join pgrag_data.chunk c
      on c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id and c.chunk_no = p_first + (u.n - 1)::integer
     and c.chunk_no between p_first and p_first + v_count - 1 and c.text = u.text and c.span_start = u.span_start and c.span_end = u.span_end and c.token_count = u.tokens
     and c.section = coalesce(u.section, '') and c.page is not distinct from u.page
     and c.language = coalesce(u.language, v_revision.language)
    left join pgrag_data.chunk_vec v
      on v.tenant_id = c.tenant_id and v.space_id = v_revision.space_id and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no
   where u.embedding is null
      or coalesce(v.embedding operator(public.=) u.embedding, v.half operator(public.=) pgrag_private.half_of(v_space, u.embedding));
  if v_same <> v_count then
    raise exception using errcode = 'RG403', message = 'the revision has other chunks under these numbers, or is verified',
      hint = 'Revisions do not change: stage another, or send the same chunks again.';
  end if;
  return v_added;
end
$$;

comment on function pgrag.add_chunks is 'Adds a batch of chunks, with spans in Unicode code points and embeddings, to a staged revision; returns how many were new.';
revoke all on function pgrag.add_chunks from public;
