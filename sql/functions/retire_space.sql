-- Gives up a space that is not the active one. It takes effect at once, and there is no way back; pgrag.maintain() deletes its
-- embeddings bit by bit. Its definition stays, so that nobody takes its name for another.
create or replace function pgrag.retire_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
begin
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  if v_space.space_id = v_tenant.active_space_id then
    raise exception using errcode = 'RG416', message = 'the space is the active one', hint = 'Switch to another first: pgrag.switch_space.';
  end if;
  update pgrag_data.tenant t set next_space_id = null where t.tenant_id = v_tenant_id and t.next_space_id = v_space.space_id;
  update pgrag_data.embedding_space s set retired_at = clock_timestamp()
   where s.tenant_id = v_tenant_id and s.space_id = v_space.space_id and s.retired_at is null;
  return found;
end
$$;

comment on function pgrag.retire_space is 'Gives up an embedding space that is not the active one; maintenance deletes its embeddings.';
revoke all on function pgrag.retire_space from public;
