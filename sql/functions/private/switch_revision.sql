-- The switch that activation and rollback are. The document's row is locked first, so that two switches of one
-- document queue; what was expected is compared on the locked row.
create or replace function pgrag_private.switch_revision(
  p_principal       pgrag_private.principal,
  p_document        pgrag_data.document,
  p_revision        pgrag_data.revision,
  p_action          text,
  p_expected_active text,
  p_restore         boolean
) returns boolean
language plpgsql volatile parallel unsafe as $$
declare
  v_locked pgrag_data.document;
  v_active text;
  v_before bigint;
begin
  select d.* into v_locked from pgrag_data.document d
   where d.tenant_id = p_document.tenant_id and d.document_id = p_document.document_id for no key update;
  select r.revision into v_active from pgrag_data.revision r
   where r.tenant_id = v_locked.tenant_id and r.revision_id = v_locked.active_revision_id;
  -- Already so: a caller that lost the first answer may ask again, whatever it then expected.
  if v_locked.active_revision_id is not distinct from p_revision.revision_id and v_locked.deleted_at is null then
    return false;
  end if;
  if p_expected_active is not null and p_expected_active <> coalesce(v_active, '') then
    raise exception using errcode = 'RG402', message = 'another revision is active than was expected',
      detail = format('active: %s; expected: %s', coalesce(v_active, 'none'), coalesce(nullif(p_expected_active, ''), 'none')),
      hint = 'Look at what is active now, and decide again.';
  elsif v_locked.deleted_at is not null and not p_restore then
    raise exception using errcode = 'RG409', message = 'the document is deleted',
      hint = 'To bring it back on purpose: pgrag.activate(…, p_restore => true).';
  end if;
  update pgrag_data.document d
     set active_revision_id = p_revision.revision_id, active_until = p_revision.effective_to, deleted_at = null, changed_xid = pg_current_xact_id()
   where d.tenant_id = v_locked.tenant_id and d.document_id = v_locked.document_id
     and d.active_revision_id is not distinct from v_locked.active_revision_id;
  perform pgrag_private.count_document(v_locked, -1);
  v_before := v_locked.active_revision_id;
  v_locked.active_revision_id := p_revision.revision_id;
  v_locked.deleted_at := null;
  perform pgrag_private.count_document(v_locked, 1);
  insert into pgrag_data.activation (tenant_id, document_id, revision_id, replaced_revision_id, action, subject)
  values (v_locked.tenant_id, v_locked.document_id, p_revision.revision_id,
          nullif(v_before, p_revision.revision_id), p_action, p_principal.subject);
  return true;
end
$$;
