-- Puts a verified revision in force: one pointer moves, in constant time, and a reader sees all of the old
-- revision or all of the new one. p_expected_active guards the switch: the revision that you believe to be
-- active, '' for none, null not to ask. p_restore also lifts a tombstone, which nothing else does.
create or replace function pgrag.activate(
  p_document        text,
  p_revision        text,
  p_expected_active text default null,
  p_restore         boolean default false,
  p_source          text default null
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_tenant    pgrag_data.tenant;
begin
  if v_revision.state <> 'verified' then
    raise exception using errcode = 'RG405', message = 'the revision is not verified',
      hint = 'select * from pgrag.verify_revision(…) names what is wrong with it.';
  elsif v_revision.effective_from > clock_timestamp() then
    raise exception using errcode = 'RG405', message = 'the revision is not in force yet',
      detail = format('effective from %s', v_revision.effective_from), hint = 'Activate it on that day.';
  end if;
  -- The row is held, beside others, so that pgrag.switch_space waits for us, and we for it.
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_document.tenant_id for share;
  -- One that was staged for a space, or has embeddings in one, has to have them in this one.
  if (v_revision.space_id is not null
      or exists (select from pgrag_data.revision_space s where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id))
     and not exists (
       select from pgrag_data.revision_space s
        where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id and s.space_id = v_tenant.active_space_id) then
    raise exception using errcode = 'RG416', message = 'the revision has no embeddings in the active space',
      hint = 'pgrag.active_space() names it: pgrag.add_embeddings adds them.';
  end if;
  return pgrag_private.switch_revision(v_principal, v_document, v_revision, 'activate', p_expected_active, coalesce(p_restore, false));
end
$$;

comment on function pgrag.activate is 'Makes a verified revision the active one, in one constant-time switch; returns whether that changed anything.';
revoke all on function pgrag.activate from public;
