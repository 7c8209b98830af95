-- The space that is beside the active one (pgrag.build_space): writers encode for both, readers may try it.
create or replace function pgrag.next_space(p_token text default null)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer');
begin
  return query
  select s.* from pgrag_data.tenant t cross join lateral pgrag_private.described_space(t.tenant_id, t.next_space_id) s
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.next_space is 'The embedding space beside the active one, which new revisions are encoded in too; no row when there is none.';
revoke all on function pgrag.next_space from public;
