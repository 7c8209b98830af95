-- Begins a revision: its text and everything that shapes its chunks. Nothing of it can be found until it is
-- verified and activated. The same content again is the same revision, in whatever state it is.
-- p_revision names it; left out, it is named by the hash of its content.
-- p_skips: parts of the text, in code points, that no chunk will cover, on purpose.
create or replace function pgrag.stage_revision(
  p_document       text,
  p_body           text,
  p_title          text default '',
  p_language       text default 'en',
  p_revision       text default null,
  p_product        text default null,
  p_version        text default null,
  p_tags           text[] default '{}',
  p_dated          date default null,
  p_effective_from timestamptz default null,
  p_effective_to   timestamptz default null,
  p_parser         text default 'text',
  p_chunker        text default '',
  p_tokenizer      text default '',
  p_space          text default null,
  p_skips          int4range[] default '{}',
  p_metadata       jsonb default '{}'
) returns table (revision text, state text, created boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal   pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_space       pgrag_data.embedding_space;
  v_document_id bigint;
  v_revision_id bigint;
  v_revision    text;
  v_name        text;
  v_hash        bytea;
  v_first       bytea;
  v_existing    record;
begin
  perform pgrag_private.check_document(p_document);
  if p_body is null or octet_length(p_body) > 16777216 then
    raise exception using errcode = 'RG408', message = 'the body must be text of at most 16 MiB',
      hint = 'Split the document in the source.';
  elsif p_language is null or not pgrag_private.is_language(p_language) then
    raise exception using errcode = 'RG406', message = 'this is no language code', hint = 'For example en, de or pt-BR.';
  elsif p_title is null or length(p_title) > 1000 or p_parser is null or p_chunker is null or p_tokenizer is null or p_tags is null
        or p_skips is null or array_ndims(p_tags) > 1 or array_ndims(p_skips) > 1 or array_position(p_tags, null) is not null or array_position(p_skips, null) is not null
        or greatest(length(p_parser), length(p_chunker), length(p_tokenizer), length(p_product), length(p_version)) > 500
        or cardinality(p_tags) > 100 or cardinality(p_skips) > 10000
        or exists (select from unnest(p_tags) as t (tag) where length(tag) > 200) then
    raise exception using errcode = 'RG408', message = 'what is said of the revision is null where it must not be, or too much',
      hint = 'title, tags, parser, chunker, tokenizer and skips are not null; '
             'a title has at most 1000 characters, the others 500; 100 tags of 200; 10000 skips.';
  elsif coalesce(p_effective_from, '-infinity') >= coalesce(p_effective_to, 'infinity')
        or (isfinite(p_effective_from) and p_effective_from not between '0001-01-01' and '9999-12-31T23:59:59.999999Z')
        or (isfinite(p_effective_to) and p_effective_to not between '0001-01-01' and '9999-12-31T23:59:59.999999Z') then
    raise exception using errcode = 'RG408', message = 'the effective period is empty, or not within the years 1 to 9999',
      hint = 'Pass effective_from before effective_to, which is the first moment at which it no longer holds.';
  end if;
  perform pgrag_private.check_metadata(p_metadata, 'RG408', 'the metadata');
  if p_space is not null then
    v_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
    if v_space.retired_at is not null then
      raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'pgrag.active_space() names the one to encode in.';
    end if;
  end if;

  -- The space is part of the hash, but the same content that was encoded for another space of the tenant is the same revision.
  for v_name in select p_space union all
                select s.space from (select s.space from pgrag_data.embedding_space s
                                      where s.tenant_id = v_principal.tenant_id and s.space <> p_space order by s.space_id desc) s loop
    v_hash := pgrag_private.fingerprint(
      p_body, p_title, p_language, p_product, p_version, p_tags::text, p_dated::text,
      coalesce(p_effective_from, '-infinity')::text, coalesce(p_effective_to, 'infinity')::text,
      p_parser, p_chunker, p_tokenizer, v_name, p_skips::text);
    if p_metadata <> '{}' then -- without any, the hash is what it was before there was metadata
      v_hash := pgrag_private.fingerprint(encode(v_hash, 'hex'), p_metadata::text);
    end if;
    v_first := coalesce(v_first, v_hash);
    exit when exists (
      select from pgrag_data.document d
        join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.document_id = d.document_id
       where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document
         and r.content_hash = v_hash and r.revision = coalesce(p_revision, r.revision)
         and (v_name is not distinct from p_space or r.state = 'verified'));
    v_hash := v_first;
  end loop;
  v_revision := pgrag_private.check_name('revision', coalesce(p_revision, left(encode(v_hash, 'hex'), 16)));

  -- A new document lets nobody in until pgrag.set_access says who. Looked for first: an insert, even one that does
  -- nothing, waits for whoever is just activating the document.
  select d.document_id into v_document_id from pgrag_data.document d
   where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document;
  if not found then
    insert into pgrag_data.document (tenant_id, source_id, document, acl_id)
    values (v_principal.tenant_id, v_principal.source_id, p_document, pgrag_private.acl_of(v_principal.tenant_id, '{}'))
    on conflict on constraint document_document_key do nothing;
    select d.document_id into v_document_id from pgrag_data.document d
     where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document;
  end if;

  insert into pgrag_data.revision (tenant_id, document_id, revision, content_hash, title, language, product, version, tags, dated,
                                   effective_from, effective_to, parser, chunker, tokenizer, space_id, skips, metadata)
  values (v_principal.tenant_id, v_document_id, v_revision, v_hash, p_title, p_language, p_product, p_version, p_tags, p_dated,
          coalesce(p_effective_from, '-infinity'), coalesce(p_effective_to, 'infinity'),
          p_parser, p_chunker, p_tokenizer, v_space.space_id, p_skips, p_metadata)
  on conflict on constraint revision_revision_key do nothing
  returning revision_id into v_revision_id;
  if v_revision_id is not null then
    insert into pgrag_data.revision_source (tenant_id, revision_id, body) values (v_principal.tenant_id, v_revision_id, p_body);
    return query select v_revision, 'staged', true;
    return;
  end if;

  select r.content_hash, r.state into v_existing from pgrag_data.revision r
   where r.tenant_id = v_principal.tenant_id and r.document_id = v_document_id and r.revision = v_revision;
  if v_existing.content_hash <> v_hash then
    raise exception using errcode = 'RG403', message = 'a revision of this name exists with other content',
      hint = 'Revisions do not change: give the new content a new name, or none.';
  end if;
  return query select v_revision, v_existing.state::text, false;
end
$$;

comment on function pgrag.stage_revision is 'Begins a revision of a document of the writer''s source: text, metadata and effective period, invisible until activated.';
revoke all on function pgrag.stage_revision from public;
