-- What the browsing views show: the session's scope. Each policy calls it once a statement, as an InitPlan.
-- It runs as the engine for a caller who may read nothing, so its settings are pinned like a public function's.
create or replace function pgrag_private.browse_revisions() returns bigint[]
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'reader');
begin
  return pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null);
end
$$;

create or replace function pgrag_private.browse_tenant() returns bigint
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (pgrag_private.current_principal(null, 'reader')).tenant_id;
end
$$;
