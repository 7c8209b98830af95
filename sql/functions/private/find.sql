-- Names to internal ids. "Not there" and "not yours" are the same answer everywhere: RG401.
create or replace function pgrag_private.not_found(p_what text) returns void
language plpgsql immutable parallel safe as $$
begin
  raise exception using errcode = 'RG401', message = format('there is no such %s', p_what),
    hint = 'Check the name; what you may not see is answered in the same way.';
end
$$;

create or replace function pgrag_private.find_tenant(p_tenant text) returns bigint
language plpgsql stable parallel restricted as $$
declare
  v_id bigint;
begin
  select t.tenant_id into v_id from pgrag_data.tenant t where t.tenant = p_tenant;
  if not found then
    perform pgrag_private.not_found('tenant');
  end if;
  return v_id;
end
$$;

create or replace function pgrag_private.find_space(p_tenant_id bigint, p_space text) returns pgrag_data.embedding_space
language plpgsql stable parallel restricted as $$
declare
  v_space pgrag_data.embedding_space;
begin
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = p_tenant_id and s.space = p_space;
  if not found then
    perform pgrag_private.not_found('embedding space');
  end if;
  return v_space;
end
$$;

create or replace function pgrag_private.find_principal(p_tenant_id bigint, p_name text) returns pgrag_data.principal
language plpgsql stable parallel restricted as $$
declare
  v_principal pgrag_data.principal;
begin
  select p.* into v_principal from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.name = p_name and p.dropped_at is null;
  if not found then
    perform pgrag_private.not_found('principal');
  end if;
  return v_principal;
end
$$;

-- The source that a writer or an admin acts on: a writer's own, and no other; an admin names one of its tenant.
create or replace function pgrag_private.find_source(p_principal pgrag_private.principal, p_source text) returns pgrag_data.source
language plpgsql stable parallel restricted as $$
declare
  v_source pgrag_data.source;
begin
  if p_principal.kind = 'admin' and p_source is null then
    raise exception using errcode = 'RG408', message = 'an administrator must name the source',
      hint = 'Pass p_source: an administrator''s token is for every source of its tenant.';
  end if;
  select s.* into v_source
    from pgrag_data.source s
   where s.tenant_id = p_principal.tenant_id
     and case when p_principal.kind = 'writer'
              then s.source_id = p_principal.source_id and s.source = coalesce(p_source, s.source)
              else s.source = p_source end;
  if not found then
    perform pgrag_private.not_found('source');
  end if;
  return v_source;
end
$$;

create or replace function pgrag_private.find_document(p_source pgrag_data.source, p_document text) returns pgrag_data.document
language plpgsql stable parallel restricted as $$
declare
  v_document pgrag_data.document;
begin
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = p_source.tenant_id and d.source_id = p_source.source_id and d.document = p_document;
  if not found then
    perform pgrag_private.not_found('document');
  end if;
  return v_document;
end
$$;

create or replace function pgrag_private.find_revision(p_document pgrag_data.document, p_revision text) returns pgrag_data.revision
language plpgsql stable parallel restricted as $$
declare
  v_revision pgrag_data.revision;
begin
  select r.* into v_revision from pgrag_data.revision r
   where r.tenant_id = p_document.tenant_id and r.document_id = p_document.document_id and r.revision = p_revision;
  if not found then
    perform pgrag_private.not_found('revision');
  end if;
  return v_revision;
end
$$;
