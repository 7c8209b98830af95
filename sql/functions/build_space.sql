-- Begins to build a space beside the active one, or goes on doing so. From here on new revisions should have embeddings in both
-- (pgrag.add_embeddings), and those in force get theirs bit by bit (pgrag.missing_embeddings); questions keep to the active one,
-- unless they name this, until pgrag.switch_space.
create or replace function pgrag.build_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
begin
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  v_space := pgrag_private.find_space(v_tenant_id, p_space); -- as it is under the lock: it may just have been retired
  if v_space.space_id in (v_tenant.active_space_id, v_tenant.next_space_id) then
    return false;
  elsif v_space.retired_at is not null then
    raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'Register another under a new name: pgrag.put_space.';
  elsif v_tenant.next_space_id is not null then
    raise exception using errcode = 'RG416', message = 'another space is beside the active one already',
      hint = 'pgrag.retire_space ends that; pgrag.space_status shows it.';
  end if;
  update pgrag_data.tenant t set next_space_id = v_space.space_id where t.tenant_id = v_tenant_id;
  return true;
end
$$;

comment on function pgrag.build_space is 'Begins to build an embedding space beside the tenant''s active one; returns whether that is new.';
revoke all on function pgrag.build_space from public;
