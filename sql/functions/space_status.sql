-- How far a tenant's spaces are: of the documents in force that have embeddings, how many have them in each space.
create or replace function pgrag.space_status(p_tenant text)
returns table (space text, state text, documents bigint, chunks bigint, missing bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.space::text,
         case when s.retired_at is not null then 'retired'
              when s.space_id = t.active_space_id then 'active'
              when s.space_id = t.next_space_id then 'next'
              else 'registered' end,
         f.documents, f.chunks, case when s.retired_at is null then pgrag_private.missing_in_space(v_tenant_id, s.space_id) end
    from pgrag_data.embedding_space s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   cross join lateral (
     select count(*) as documents, coalesce(sum(r.chunk_count), 0)::bigint as chunks
       from pgrag_data.document d
       join pgrag_data.revision_space c on c.tenant_id = d.tenant_id and c.revision_id = d.active_revision_id and c.space_id = s.space_id
       join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
      where d.tenant_id = v_tenant_id and d.deleted_at is null) f
   where s.tenant_id = v_tenant_id
   order by s.space_id;
end
$$;

comment on function pgrag.space_status is 'The embedding spaces of a tenant: active, next, registered or retired, and how many documents in force are missing in each.';
revoke all on function pgrag.space_status from public;
