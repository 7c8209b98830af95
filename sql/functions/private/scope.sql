-- The scope: the revisions that this reader may be shown, decided before any ranking. Everything after it
-- (document frequencies, average length, candidates) is computed over these rows and no others.
-- p_as_of null: the active revision, while it is in force; otherwise the one effective at that time. Access
-- and tombstones are today's either way.
create or replace function pgrag_private.scope(p_tenant_id bigint, p_reader_id bigint, p_as_of timestamptz, p_filter jsonb)
returns bigint[]
language plpgsql stable parallel restricted as $$
declare
  v_acls      bigint[] := array(select acl_id from pgrag_private.permitted_acls(p_tenant_id, p_reader_id) as a (acl_id));
  v_sources   text[]   := pgrag_private.filter_values(p_filter, 'source');
  v_languages text[]   := pgrag_private.filter_values(p_filter, 'language');
  v_products  text[]   := pgrag_private.filter_values(p_filter, 'product');
  v_versions  text[]   := pgrag_private.filter_values(p_filter, 'version');
  v_tags      text[]   := pgrag_private.filter_values(p_filter, 'tags');
  v_from      date     := pgrag_private.filter_date(p_filter, 'date_from');
  v_to        date     := pgrag_private.filter_date(p_filter, 'date_to');
  v_revisions bigint[];
begin
  -- OFFSET 0 keeps the filters behind the access rules: what a scan touches can be counted by any role, and a plan
  -- that begins with a filter touches hidden rows that pass it.
  select array_agg(p.revision_id order by p.revision_id) into v_revisions
    from (select r.revision_id, s.source, r.language, r.product, r.version, r.tags, r.dated
            from pgrag_data.document d
           cross join lateral (
             select d.active_revision_id as revision_id where p_as_of is null
             union all
             select e.revision_id from pgrag_private.effective_revision(d.tenant_id, d.document_id, p_as_of) e
              where p_as_of is not null
           ) f
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = f.revision_id
            join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
           where d.tenant_id = p_tenant_id
             and d.acl_id = any (v_acls)
             and d.deleted_at is null
             and coalesce(p_as_of, transaction_timestamp()) < r.effective_to
          offset 0) p
   where (v_sources is null or p.source = any (v_sources))
     and (v_languages is null or p.language = any (v_languages))
     and (v_products is null or p.product = any (v_products))
     and (v_versions is null or p.version = any (v_versions))
     and (v_tags is null or p.tags @> v_tags)
     and (v_from is null or p.dated >= v_from)
     and (v_to is null or p.dated <= v_to);
  return coalesce(v_revisions, '{}');
end
$$;

-- Filters narrow what may be seen, and never widen it. A key that is not known is refused, not ignored: a
-- filter that silently does nothing shows more than was asked for.
create or replace function pgrag_private.check_filter(p_filter jsonb) returns void
language plpgsql immutable parallel safe as $$
declare
  v_key   text;
  v_value jsonb;
begin
  if p_filter is null then
    return;
  end if;
  if jsonb_typeof(p_filter) <> 'object' or octet_length(p_filter::text) > 8192 then
    raise exception using errcode = 'RG304', message = 'the filter must be a JSON object of at most 8192 bytes',
      hint = 'For example {"source": "handbook", "tags": ["refund"]}.';
  end if;
  for v_key, v_value in select key, value from jsonb_each(p_filter) loop
    if v_key in ('source', 'language', 'product', 'version', 'tags') then
      if jsonb_typeof(v_value) = 'string' and v_key <> 'tags' then
        continue;
      end if;
      if jsonb_typeof(v_value) = 'array' and jsonb_array_length(v_value) between 1 and 100
         and not jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")') then
        continue;
      end if;
      raise exception using errcode = 'RG304', message = format('the filter %s must be text or a list of 1 to 100 texts', v_key),
        hint = 'Of a list, one must match; of tags, which are always a list, all must.';
    elsif v_key in ('date_from', 'date_to') then
      if jsonb_typeof(v_value) <> 'string' or (v_value #>> '{}') !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
         or not pg_input_is_valid(v_value #>> '{}', 'date') then
        raise exception using errcode = 'RG304', message = format('the filter %s must be a date', v_key),
          hint = 'Write it as YYYY-MM-DD.';
      end if;
    else
      raise exception using errcode = 'RG304', message = 'the filter has a key that is not known',
        detail = format('key: %s', left(v_key, 100)),
        hint = 'Known keys: source, language, product, version, tags, date_from, date_to.';
    end if;
  end loop;
end
$$;

create or replace function pgrag_private.filter_values(p_filter jsonb, p_key text) returns text[]
language sql immutable parallel safe
return case jsonb_typeof(p_filter -> p_key)
  when 'string' then array[p_filter ->> p_key]
  when 'array' then array(select value from jsonb_array_elements_text(p_filter -> p_key))
end;

create or replace function pgrag_private.filter_date(p_filter jsonb, p_key text) returns date
language sql stable parallel safe
return (p_filter ->> p_key)::date;
