-- p_processors names the outside services that may receive this source's text (encoders, rerankers,
-- generators); none by default. Left out for a source that exists, an argument changes nothing.
create or replace function pgrag.put_source(p_tenant text, p_source text, p_processors text[] default null, p_trust text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  perform pgrag_private.check_name('source', p_source);
  perform pgrag_private.check_name('processor', processor) from unnest(p_processors) as p (processor);
  if p_trust not in ('untrusted', 'external', 'internal', 'authoritative') then
    raise exception using errcode = 'RG407', message = 'the trust class is not known',
      hint = 'Trust classes: untrusted, external, internal, authoritative.';
  end if;
  insert into pgrag_data.source (tenant_id, source, processors, trust)
  values (v_tenant_id, p_source, coalesce(p_processors, '{}'), coalesce(p_trust, 'internal'))
  on conflict on constraint source_source_key do update
    set processors = coalesce(p_processors, source.processors), trust = coalesce(p_trust, source.trust);
end
$$;

comment on function pgrag.put_source is 'Creates a source of a tenant, or changes which processors may receive its text and its trust class.';
revoke all on function pgrag.put_source from public;
