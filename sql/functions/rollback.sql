-- Puts an earlier revision back: by default the one that was active before. What it leaves counts as withdrawn,
-- so that a question about the past does not find it either, until it is activated again.
create or replace function pgrag.rollback(
  p_document        text,
  p_revision        text default null,
  p_expected_active text default null,
  p_source          text default null
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_revision  pgrag_data.revision;
begin
  if p_revision is not null then
    v_revision := pgrag_private.find_revision(v_document, p_revision);
  end if;
  -- As in pgrag.activate: pgrag.switch_space waits for us, and then sees what we have put in force. A revision without embeddings in the
  -- active space is put in force all the same: words find it, pgrag.space_status counts it, pgrag.missing_embeddings lists it.
  perform from pgrag_data.tenant t where t.tenant_id = v_document.tenant_id for share;
  -- The row is locked before its past is read, so that the "revision before" is the one before this switch.
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_revision.revision_id = v_document.active_revision_id then
    -- Already so, unless it is deleted: a caller that lost the first answer may ask again.
    perform pgrag_private.switch_revision(v_principal, v_document, v_revision, 'rollback', p_expected_active, false);
    return v_revision.revision;
  end if;
  -- By name, any that has been active; otherwise, of those that stand, the one put in force last before this one.
  select r.* into v_revision
    from pgrag_data.revision r
    left join pgrag_private.standing_revisions(v_document.tenant_id, v_document.document_id) s on s.revision_id = r.revision_id
   where r.tenant_id = v_document.tenant_id and r.document_id = v_document.document_id
     and r.revision_id is distinct from v_document.active_revision_id
     and case when p_revision is null then s.revision_id is not null
              else r.revision = p_revision and exists (
                select from pgrag_data.activation a
                 where a.tenant_id = r.tenant_id and a.document_id = r.document_id and a.revision_id = r.revision_id) end
   order by s.activation_id desc
   limit 1;
  if not found then
    raise exception using errcode = 'RG405', message = 'there is no revision to roll back to',
      hint = 'Only a revision that has been active can be rolled back to; pgrag.activate puts a new one in force.';
  end if;
  perform pgrag_private.switch_revision(v_principal, v_document, v_revision, 'rollback', p_expected_active, false);
  return v_revision.revision;
end
$$;

comment on function pgrag.rollback is 'Puts the previous revision, or a named earlier one, back in force; returns its name.';
revoke all on function pgrag.rollback from public;
