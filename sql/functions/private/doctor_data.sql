-- What the ledger of a tenant lacks: the rows to add to it so that it agrees with the documents in force.
create or replace function pgrag_private.ledger_gaps(p_tenant_id bigint)
returns table (tenant_id bigint, acl_id bigint, source_id bigint, languages text[], until timestamptz, documents bigint, chunks bigint, lexemes bigint)
language sql stable parallel restricted rows 10
begin atomic
  select p_tenant_id, x.acl_id, x.source_id, x.languages, x.until, sum(x.documents)::bigint, sum(x.chunks)::bigint, sum(x.lexemes)::bigint
    from (select d.acl_id, d.source_id, r.languages, r.effective_to as until, 1::bigint as documents, r.chunk_count::bigint as chunks, r.lexeme_count as lexemes
            from pgrag_data.document d
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
           where d.tenant_id = p_tenant_id and d.deleted_at is null
          union all
          select t.acl_id, t.source_id, t.languages, t.until, -t.documents, -t.chunks, -t.lexemes
            from pgrag_data.scope_total t where t.tenant_id = p_tenant_id) x
   where x.until > transaction_timestamp()
   group by x.acl_id, x.source_id, x.languages, x.until
  having sum(x.documents) <> 0 or sum(x.chunks) <> 0 or sum(x.lexemes) <> 0;
end;

-- Documents, spaces, costs and statistics.
create or replace function pgrag_private.doctor_data() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
begin
  if pg_is_in_recovery() then
    return query select 'statistics', 'note', null::text, 'a standby does not know when its tables were analysed', 'Ask the primary';
  else
    return query
    select 'statistics', 'warning', s.relid::regclass::text,
           case when f.never then 'the table was never analysed' else 'much of the table has changed since it was analysed' end, format('analyze %s;', s.relid::regclass)
      from pg_stat_all_tables s
     cross join lateral (select s.last_analyze is null and s.last_autoanalyze is null as never) f
     where s.schemaname = 'pgrag_data' and (f.never and s.n_live_tup >= 1000 or s.n_mod_since_analyze > 1000 + s.n_live_tup / 4)
    union all
    select 'statistics', 'warning', s.relid::regclass::text,
           format('%s rows are dead, beside %s', s.n_dead_tup, s.n_live_tup), format('vacuum analyze %s;', s.relid::regclass)
      from pg_stat_all_tables s
     where s.schemaname = 'pgrag_data' and s.n_dead_tup > 1000 + s.n_live_tup / 2;
  end if;

  return query
  select 'ledger', 'error', format('tenant %s', t.tenant), format('%s sums of the ledger do not agree with the documents', count(*)),
         format('insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes) '
                'select g.* from pgrag_private.ledger_gaps(%s) g;', t.tenant_id)
    from pgrag_data.tenant t cross join lateral pgrag_private.ledger_gaps(t.tenant_id) g
   group by t.tenant_id, t.tenant;

  return query
  select 'spaces', 'warning', format('tenant %s, space %s', t.tenant, s.space),
         format('%s documents in force have no embeddings in the active space: dense search does not find them', m.missing),
         'As the connector of each source: pgrag space fill --active (pgrag.missing_embeddings, pgrag.add_embeddings)'
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   cross join lateral pgrag_private.missing_in_space(t.tenant_id, s.space_id) as m (missing)
   where m.missing > 0
  union all
  select 'spaces', 'note', format('tenant %s, space %s', t.tenant, s.space),
         format('%s documents in force are to be filled in before the space can be switched to', m.missing),
         'As the connector of each source: pgrag space fill (pgrag.missing_embeddings, pgrag.add_embeddings)'
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.next_space_id
   cross join lateral pgrag_private.missing_in_space(t.tenant_id, s.space_id) as m (missing)
   where m.missing > 0
  union all
  select 'spaces', case when s.retired_at < clock_timestamp() - interval '1 day' then 'warning' else 'note' end, format('tenant %s, space %s', t.tenant, s.space),
         'the space is retired, and its embeddings are not deleted yet', pgrag_private.call_maintain()
    from pgrag_data.embedding_space s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   where s.retired_at is not null and exists (select from pgrag_data.chunk_vec v where v.tenant_id = s.tenant_id and v.space_id = s.space_id);

  return query
  select 'search_cost', 'error', p.part, 'the cost of this part of a search is not known', 'As pgrag_engine, run sql/96_search_cost.sql'
    from (values ('document'), ('vector'), ('block')) as p (part) where not exists (select from pgrag_data.search_cost c where c.part = p.part)
  union all
  select 'search_cost', 'note', null, 'which way searches go is decided by costs that were not measured on this machine', 'select * from pgrag.calibrate();'
   where not exists (select from pgrag_data.search_cost c where c.measured_at is not null)
     and exists (select from pgrag_data.scope_total t where t.until > transaction_timestamp() group by t.tenant_id having sum(t.chunks) >= 1000);
end
$$;

create or replace function pgrag_private.call_maintain() returns text
language sql immutable parallel safe
return 'Call pgrag.maintain() until nothing remains (pgrag maintain does), and see that something does so regularly';
