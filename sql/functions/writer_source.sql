-- What a connector needs to know of its own source before it sends text anywhere.
create or replace function pgrag.writer_source(p_token text default null)
returns table (tenant text, source text, trust text, processors text[])
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer');
begin
  return query
  select t.tenant::text, s.source::text, s.trust::text, s.processors
    from pgrag_data.source s join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   where s.tenant_id = v_principal.tenant_id and s.source_id = v_principal.source_id;
end
$$;

comment on function pgrag.writer_source is 'The source that the writer''s token names, and the processors that may receive its text.';
revoke all on function pgrag.writer_source from public;
