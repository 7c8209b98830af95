-- The space that was built beside the active one becomes the active one, which is beside it from then on: the same call the other
-- way around switches back. One row changes, at once for everybody. Refused as long as a document in force has no embeddings there.
create or replace function pgrag.switch_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
  v_missing   bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'RG416', message = 'spaces are switched in a read-committed transaction only',
      hint = 'Call it by itself: under an older snapshot, what was activated since would not be seen.';
  end if;
  -- From here to our end no revision is activated: pgrag.activate holds the row too.
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  if v_space.space_id = v_tenant.active_space_id then
    return false;
  elsif v_space.space_id is distinct from v_tenant.next_space_id then
    raise exception using errcode = 'RG416', message = 'the space is not the one beside the active one',
      hint = 'Build it first: pgrag.build_space, then pgrag.add_embeddings for what pgrag.missing_embeddings lists.';
  end if;
  v_missing := pgrag_private.missing_in_space(v_tenant_id, v_space.space_id);
  if v_missing > 0 then
    raise exception using errcode = 'RG416', message = 'documents in force have no embeddings in the space yet',
      detail = format('documents: %s', v_missing), hint = 'pgrag.add_embeddings for what pgrag.missing_embeddings lists, then again.';
  end if;
  update pgrag_data.tenant t set active_space_id = v_tenant.next_space_id, next_space_id = v_tenant.active_space_id
   where t.tenant_id = v_tenant_id;
  return true;
end
$$;

comment on function pgrag.switch_space is 'Makes the space beside the active one the active one, and the other way around; returns whether that changed anything.';
revoke all on function pgrag.switch_space from public;
