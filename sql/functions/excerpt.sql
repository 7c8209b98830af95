-- One passage by its chunk id, with its provenance, if the reader may see it in the revision in force, or in the
-- one effective at p_as_of. Looked for among the chunks of the scope, not in the table: see can_read.sql.
create or replace function pgrag.excerpt(p_chunk_id text, p_as_of timestamptz default null, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_scope     bigint[] := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, p_as_of, null);
  v_excerpt   jsonb;
begin
  if p_chunk_id ~ '^[0-9a-f]{64}$' then
    with visible as materialized (
      select c.revision_id, c.chunk_no, c.chunk_id
        from unnest(v_scope) as v (revision_id)
        join pgrag_data.chunk c on c.tenant_id = v_principal.tenant_id and c.revision_id = v.revision_id
    )
    select c.described into v_excerpt
      from visible v cross join lateral pgrag_private.describe_chunk(v_principal.tenant_id, v.revision_id, v.chunk_no) c
     where v.chunk_id = decode(p_chunk_id, 'hex');
  end if;
  if v_excerpt is null then
    perform pgrag_private.not_found('excerpt');
  end if;
  return v_excerpt;
end
$$;

comment on function pgrag.excerpt is 'One passage by its chunk id, with its provenance; the same error whether it is absent or not the reader''s to see.';
revoke all on function pgrag.excerpt from public;
