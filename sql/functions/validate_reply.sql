-- Checks a reply against the packet that it was made from. The packet must be the reader's own and unaltered,
-- which is an error otherwise; what is wrong with the reply is a finding, and each is named.
-- The database is asked again: a citation must still be readable, still in force (at the packet's as_of, where
-- it has one) and not deleted, and a quote is looked for in the stored text, not in what the packet carries.
-- Membership is not support: nothing here says that the excerpts bear the answer out, and the result says so.
create or replace function pgrag.validate_reply(p_packet jsonb, p_reply jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_as_of     timestamptz;
  v_scope     bigint[];
  v_citation  jsonb;
  v_id        text;
  v_quote     text;
  v_excerpt   jsonb;
  v_chunk     record;
  v_seen      text[] := '{}';
  v_findings  jsonb := '[]';
  v_citations jsonb := '[]';
  v_found     text;
begin
  if jsonb_typeof(p_packet) is distinct from 'object' or jsonb_typeof(p_packet -> 'excerpts') is distinct from 'array'
     or jsonb_path_exists(p_packet, 'strict $.excerpts[*] ? (@.type() != "object")')
     or sha256(convert_to(coalesce(p_packet ->> 'seal', ''), 'UTF8'))
        is distinct from sha256(convert_to(pgrag_private.seal(v_principal, p_packet), 'UTF8'))
     or exists (select from jsonb_array_elements(p_packet -> 'excerpts') as e (excerpt)
                 where excerpt ? 'text'
                   and encode(sha256(convert_to(coalesce(excerpt ->> 'text', ''), 'UTF8')), 'hex')
                       is distinct from excerpt ->> 'text_sha256') then
    raise exception using errcode = 'RG501', message = 'the packet is not one that was issued to this reader, or it was altered',
      hint = 'Pass the packet as pgrag.packet returned it, by the reader that it was made for; texts may be left out.';
  end if;
  v_as_of := (p_packet ->> 'as_of')::timestamptz;
  v_scope := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, v_as_of, null);

  if jsonb_typeof(p_reply) is distinct from 'object'
     or jsonb_typeof(p_reply -> 'answer') is distinct from 'string'
     or jsonb_typeof(p_reply -> 'citations') is distinct from 'array'
     or p_reply - array['answer', 'citations'] <> '{}' or jsonb_array_length(p_reply -> 'citations') > 100 then
    v_findings := v_findings || pgrag_private.finding(
      'shape', null, 'a reply is an object with answer (text) and citations (a list of at most 100), and nothing else');
  else
    if not pgrag_private.is_blank(p_reply ->> 'answer') and jsonb_array_length(p_reply -> 'citations') = 0 then
      v_findings := v_findings || pgrag_private.finding('citations', null, 'an answer without citations');
    end if;
    for v_citation in select citation from jsonb_array_elements(p_reply -> 'citations') as c (citation) loop
      if jsonb_typeof(v_citation) <> 'object' or jsonb_typeof(v_citation -> 'id') is distinct from 'string'
         or coalesce(jsonb_typeof(v_citation -> 'quote'), 'null') not in ('string', 'null')
         or v_citation - array['id', 'quote'] <> '{}' then
        v_findings := v_findings || pgrag_private.finding(
          'shape', null, 'a citation is an object with id (text), optionally quote (text), and nothing else');
        continue;
      end if;
      v_id    := v_citation ->> 'id';
      v_quote := v_citation ->> 'quote';
      if v_id = any (v_seen) then
        v_findings := v_findings || pgrag_private.finding('duplicate', v_id, 'cited twice');
        continue;
      end if;
      v_seen := v_seen || v_id;

      select excerpt into v_excerpt from jsonb_array_elements(p_packet -> 'excerpts') as e (excerpt) where excerpt ->> 'id' = v_id;
      if not found then
        v_findings := v_findings || pgrag_private.finding('unknown', v_id, 'no excerpt of the packet has this id');
        continue;
      end if;
      select c.text, c.revision_id into v_chunk from pgrag_data.chunk c
       where c.tenant_id = v_principal.tenant_id and c.chunk_id = decode(v_excerpt ->> 'chunk_id', 'hex');
      if not found or v_chunk.revision_id <> all (v_scope) then
        v_findings := v_findings || pgrag_private.finding_of_access(v_principal, v_id, v_chunk.revision_id);
        continue;
      end if;
      v_found := 'none';
      if v_quote is not null then
        v_found := case
          when pgrag_private.plain_quote(v_quote) = '' then 'missing'
          when position(v_quote in v_chunk.text) > 0 then 'exact'
          when position(pgrag_private.plain_quote(v_quote) in pgrag_private.plain_quote(v_chunk.text)) > 0 then 'normalised'
          else 'missing' end;
        if v_found = 'missing' then
          v_findings := v_findings || pgrag_private.finding('quote', v_id, 'the quote is not in the excerpt');
          continue;
        end if;
      end if;
      v_citations := v_citations || jsonb_build_array(jsonb_build_object(
        'id', v_id, 'chunk_id', v_excerpt -> 'chunk_id', 'source', v_excerpt -> 'source', 'document', v_excerpt -> 'document',
        'revision', v_excerpt -> 'revision', 'quote', v_found));
    end loop;
  end if;

  return jsonb_build_object(
    'valid', v_findings = '[]',
    'findings', v_findings,
    'citations', v_citations,
    'checks', '["shape", "citations", "duplicate", "unknown", "readable", "active", "deleted", "quote"]'::jsonb,
    'support', 'not proven: a citation was checked to be evidence that the reader may see, not that the answer follows from it');
end
$$;

comment on function pgrag.validate_reply is 'Checks a reply''s citations and quotes against its packet and against the database as it is now; names each failing check.';
revoke all on function pgrag.validate_reply from public;
