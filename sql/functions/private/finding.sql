-- One failing check of a reply.
create or replace function pgrag_private.finding(p_check text, p_id text, p_message text) returns jsonb
language sql immutable parallel safe
return jsonb_build_array(jsonb_build_object('check', p_check, 'id', p_id, 'message', p_message));

-- Why a cited chunk no longer counts. Only a reader who may still read the document is told which way it changed;
-- to anyone else a deleted, a forbidden and an absent one are the same.
create or replace function pgrag_private.finding_of_access(p_principal pgrag_private.principal, p_id text, p_revision_id bigint) returns jsonb
language plpgsql stable parallel restricted as $$
declare
  v_document pgrag_data.document;
begin
  select d.* into v_document
    from pgrag_data.revision r
    join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
   where r.tenant_id = p_principal.tenant_id and r.revision_id = p_revision_id
     and d.acl_id in (select acl_id from pgrag_private.permitted_acls(p_principal.tenant_id, p_principal.reader_id) as a (acl_id));
  return case
    when not found then pgrag_private.finding('readable', p_id, 'the excerpt cannot be read by this reader now')
    when v_document.deleted_at is not null then pgrag_private.finding('deleted', p_id, 'the document was deleted')
    else pgrag_private.finding('active', p_id, 'the revision is no longer the one in force') end;
end
$$;

-- Quotes are compared as written and, failing that, after this: Unicode NFC, typographic quotes and dashes made
-- plain, runs of white space made one space.
create or replace function pgrag_private.plain_quote(p_text text) returns text
language sql immutable parallel safe
return btrim(regexp_replace(
  translate(normalize(p_text, nfc), U&'\2018\2019\201A\201C\201D\201E\2010\2011\2012\2013\2014\00A0', '''''''"""----- '),
  '[[:space:]]+', ' ', 'g'));
