-- The state of the blocks behind dense search: what is in force of each class of vectors, what its blocks hold, what is compared
-- one by one meanwhile, and what the blocks hold in vain. Access lists are numbers here; who is in them, operators do not learn.
create or replace function pgrag.index_status()
returns table (tenant text, space text, class text, chunks bigint, state text, vectors bigint, loose bigint, retired bigint, bytes bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  select t.tenant::text, e.space::text, coalesce('list ' || s.acl_id, 'tenant'), s.chunks,
         case when s.building then 'building' when s.block_id is null then 'none'
              when not exists (select from pg_control_system() c join pgrag_data.dense_block b on b.system_identifier = c.system_identifier
                                where b.tenant_id = s.tenant_id and b.block_id = s.block_id
                                  and b.table_oid = to_regclass('pgrag_block.b' || s.block_id)) then 'unusable'
              else 'live' end,
         coalesce(s.vectors, 0) + coalesce(s.delta_vectors, 0),
         case when s.block_id is null then s.chunks else s.loose end, coalesce(s.retired, 0),
         coalesce(pg_total_relation_size(to_regclass('pgrag_block.b' || s.block_id)), 0)
           + coalesce(pg_total_relation_size(to_regclass('pgrag_block.b' || s.delta_id)), 0)
    from pgrag_private.block_state() s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
    join pgrag_data.embedding_space e on e.tenant_id = s.tenant_id and e.space_id = s.space_id
   where s.block_id is not null or s.building or pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id)
   order by t.tenant, e.space, s.acl_id nulls first;
end
$$;

comment on function pgrag.index_status is 'The blocks behind dense search: vectors in them, loose beside them, retired in them, and their size on disk.';
revoke all on function pgrag.index_status from public;
