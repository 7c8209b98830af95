create or replace function pgrag.whoami(p_token text default null)
returns table (tenant text, subject text, kind text, source text, known boolean, groups text[], expires_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer', 'admin', 'auditor');
begin
  return query
  select t.tenant, v_principal.subject, v_principal.kind,
         (select s.source from pgrag_data.source s where s.tenant_id = t.tenant_id and s.source_id = v_principal.source_id),
         case when v_principal.kind = 'reader' then exists (select from pgrag_private.closure(t.tenant_id, v_principal.reader_id)) end,
         array(select p.name::text
                 from pgrag_private.closure(t.tenant_id, v_principal.reader_id) as c (principal_id)
                 join pgrag_data.principal p on p.tenant_id = t.tenant_id and p.principal_id = c.principal_id
                where p.kind in ('group', 'everyone')
                order by p.name),
         to_timestamp(v_principal.expires_at)
    from pgrag_data.tenant t
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.whoami is 'The principal of this transaction, or of the token: tenant, subject, kind, source, whether its tenant knows it, groups, expiry.';
revoke all on function pgrag.whoami from public;
