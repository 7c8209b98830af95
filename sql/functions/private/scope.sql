-- The scope: the revisions that this reader may be shown, decided before any ranking. Everything after it
-- (document frequencies, average length, candidates) is computed over these rows and no others.
-- p_as_of null: the active revision, while it is in force; otherwise the one effective at that time. Access
-- and tombstones are today's either way.
--
-- What a scan touches can be counted by any role, so OFFSET 0 keeps the filters behind the access rules: a plan that begins
-- with a filter touches hidden rows that pass it. p_index allows that, for a reader who may see more documents than
-- scope_first_limit(): the filters are then answered by their indexes first.
create or replace function pgrag_private.visible_revisions(
  p_tenant_id bigint, p_acls bigint[], p_as_of timestamptz, p_filter jsonb, p_index boolean default false
)
returns table (revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
language plpgsql stable parallel restricted rows 10000 set enable_seqscan = off as $$
#variable_conflict use_column
begin
  if p_as_of is not null or coalesce(p_filter, '{}') <> '{}' then
    return query select f.* from pgrag_private.filtered_revisions(p_tenant_id, p_acls, p_as_of, p_filter, p_index) f;
    return;
  end if;
  return query
  select r.revision_id, r.languages, r.chunk_count, r.lexeme_count
    from (select d.tenant_id, d.active_revision_id from pgrag_data.document d
           where d.tenant_id = p_tenant_id and d.acl_id = any (p_acls) and d.deleted_at is null and d.active_revision_id is not null
          offset 0) d
   cross join lateral (select r.* from pgrag_data.revision r
                        where r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id offset 0) r
   where transaction_timestamp() < r.effective_to;
end
$$;

-- The same as of a date or with a filter, planned for what is asked.
create or replace function pgrag_private.filtered_revisions(
  p_tenant_id bigint, p_acls bigint[], p_as_of timestamptz, p_filter jsonb, p_index boolean
)
returns table (revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
language plpgsql stable parallel restricted rows 10000 set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  v_sources   text[]   := pgrag_private.filter_values(p_filter, 'source');
  v_languages text[]   := pgrag_private.filter_values(p_filter, 'language');
  v_products  text[]   := pgrag_private.filter_values(p_filter, 'product');
  v_versions  text[]   := pgrag_private.filter_values(p_filter, 'version');
  v_tags      text[]   := pgrag_private.filter_values(p_filter, 'tags');
  v_from      date     := pgrag_private.filter_date(p_filter, 'date_from');
  v_to        date     := pgrag_private.filter_date(p_filter, 'date_to');
  v_metadata  jsonb    := p_filter -> 'metadata';
begin
  if p_index and p_as_of is null and p_filter - 'source' <> '{}' then
    p_index := (select count(*) from (select from pgrag_data.document d where d.tenant_id = p_tenant_id and d.acl_id = any (p_acls)
                                   and d.active_revision_id is not null and d.deleted_at is null
                                 limit pgrag_private.scope_first_limit() + 1) as seen) > pgrag_private.scope_first_limit();
  else
    p_index := false;
  end if;
  if p_index then
    return query
    select r.revision_id, r.languages, r.chunk_count, r.lexeme_count
      from pgrag_data.revision r
      join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id and d.active_revision_id = r.revision_id
      join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
     where r.tenant_id = p_tenant_id
       and d.acl_id = any (p_acls)
       and d.deleted_at is null
       and transaction_timestamp() < r.effective_to
       and (v_sources is null or s.source = any (v_sources))
       and (v_languages is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'language', v_languages))
       and (v_products is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'product', v_products))
       and (v_versions is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'version', v_versions))
       and (v_tags is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   @> pgrag_private.facet_keys_any(p_tenant_id, 'tag', v_tags))
       and (v_metadata is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   @> pgrag_private.facet_keys(p_tenant_id, null, null, null, '{}', v_metadata))
       -- Keys are hashes, and of lists not the whole of containment; the values decide.
       and (v_languages is null or r.language = any (v_languages))
       and (v_products is null or r.product = any (v_products))
       and (v_versions is null or r.version = any (v_versions))
       and (v_tags is null or r.tags @> v_tags)
       and (v_metadata is null or r.metadata @> v_metadata)
       and (v_from is null or r.dated >= v_from)
       and (v_to is null or r.dated <= v_to);
    return;
  end if;
  return query
  select p.revision_id, p.languages, p.chunk_count, p.lexeme_count
    from (select r.revision_id, r.languages, r.chunk_count, r.lexeme_count,
                 s.source, r.language, r.product, r.version, r.tags, r.dated, r.metadata
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
             and d.acl_id = any (p_acls)
             and d.deleted_at is null and d.active_revision_id is not null
             and coalesce(p_as_of, transaction_timestamp()) < r.effective_to
          offset 0) p
   where (v_sources is null or p.source = any (v_sources))
     and (v_languages is null or p.language = any (v_languages))
     and (v_products is null or p.product = any (v_products))
     and (v_versions is null or p.version = any (v_versions))
     and (v_tags is null or p.tags @> v_tags)
     and (v_from is null or p.dated >= v_from)
     and (v_to is null or p.dated <= v_to)
     and (v_metadata is null or p.metadata @> v_metadata);
end
$$;

create or replace function pgrag_private.scope(p_tenant_id bigint, p_reader_id bigint, p_as_of timestamptz, p_filter jsonb)
returns bigint[]
language plpgsql stable parallel restricted as $$
begin
  return array(
    select v.revision_id
      from pgrag_private.visible_revisions(p_tenant_id, array(select pgrag_private.permitted_acls(p_tenant_id, p_reader_id)), p_as_of, p_filter) v
     order by v.revision_id);
end
$$;

-- The scope of a search. Up to scope_first_limit() chunks, in strict isolation, for an as-of question and with a filter other than
-- by source its revisions are listed, grouped by the languages of their chunks; else it is counted, which takes as long
-- for a million chunks as for none. Without p_listed, by a search that needs no list, a small one is only counted too.
create or replace function pgrag_private.search_scope(
  p_tenant_id bigint, p_reader_id bigint, p_search pgrag_private.search_request, p_listed boolean default true
)
returns pgrag_private.search_scope
language plpgsql stable parallel restricted set enable_seqscan = off as $$
declare
  v_scope   pgrag_private.search_scope;
  v_acls    bigint[];
  v_sources text[] := pgrag_private.filter_values(p_search.filter, 'source');
begin
  v_scope.tenant_id := p_tenant_id;
  v_scope.acls := array(select pgrag_private.permitted_acls(p_tenant_id, p_reader_id));
  if p_search.isolation = 'auto' and p_search.as_of is null and coalesce(p_search.filter - 'source', '{}') = '{}' then
    -- All sources are read and then compared: how many rows were touched must not tell which names there are.
    v_scope.sources := case when v_sources is not null then
                         array(select s.source_id from (select s.source_id, s.source from pgrag_data.source s where s.tenant_id = p_tenant_id offset 0) s
                                where s.source = any (v_sources)) end;
    -- Both sums in one reading of the ledger.
    with total as materialized (
      select t.acl_id, t.languages, sum(t.documents) as documents, sum(t.chunks) as chunks, sum(t.lexemes) as lexemes
        from unnest(v_scope.acls) as a (acl_id)
        join pgrag_data.scope_total t on t.tenant_id = p_tenant_id and t.acl_id = a.acl_id
       where transaction_timestamp() < t.until and (v_scope.sources is null or t.source_id = any (v_scope.sources))
       group by t.acl_id, t.languages
      having sum(t.chunks) > 0
    )
    select (select coalesce(sum(t.documents), 0) from total t), (select coalesce(sum(t.chunks), 0) from total t),
           (select array_agg(a.chunks order by a.acl_id) from (select t.acl_id, sum(t.chunks) as chunks from total t group by t.acl_id) a),
           array(select distinct t.acl_id from total t order by t.acl_id),
           array(select (t.languages, null, null, sum(t.chunks), sum(t.lexemes))::pgrag_private.scope_part
                   from total t group by t.languages order by t.languages)
      into v_scope.documents, v_scope.chunks, v_scope.acl_chunks, v_acls, v_scope.parts;
    if not p_listed or v_scope.chunks > pgrag_private.scope_first_limit() then
      v_scope.acls := v_acls;
      return v_scope;
    end if;
  end if;
  v_scope.acl_chunks := null;
  v_scope.parts := array(
    select (v.languages, array_agg(v.revision_id order by v.revision_id), array_agg(v.chunk_count order by v.revision_id),
            sum(v.chunk_count), sum(v.lexeme_count))::pgrag_private.scope_part
      from pgrag_private.visible_revisions(p_tenant_id, v_scope.acls, p_search.as_of, p_search.filter, p_search.isolation = 'auto') v
     group by v.languages
     order by v.languages);
  select coalesce(array_agg(r.revision_id), '{}'), coalesce(sum(p.chunks) filter (where r.n = 1), 0)
    into v_scope.revisions, v_scope.chunks
    from unnest(v_scope.parts) as p cross join lateral unnest(p.revisions) with ordinality as r (revision_id, n);
  v_scope.documents := cardinality(v_scope.revisions);
  return v_scope;
end
$$;

-- Whether a row that an index has found is visible: a condition for statements that are put together, on the row of that name.
-- $1 is the tenant; p_scope names the parameter that has acls, sources and revisions. A scalar sub-select, row by row:
-- it cannot become a join, by which the planner might begin.
create or replace function pgrag_private.visible_row(p_row text, p_scope text, p_counted boolean) returns text
language sql immutable parallel safe
return replace(replace(case when p_counted then
  '(select d.acl_id from pgrag_data.document d
     where d.tenant_id = $1 and d.active_revision_id = %.revision_id and d.deleted_at is null and transaction_timestamp() < d.active_until
       and ((@).sources is null or d.source_id = any ((@).sources))) = any ((@).acls)'
  else '%.revision_id + 0 = any ((@).revisions)' end, '%', p_row), '@', p_scope);

-- The languages of a scope, together those whose words are stemmed alike: "en" with "en-GB", and all that have no stemmer. What a
-- search does it does once for each of these, of which there are some thirty; of languages there is no end.
create or replace function pgrag_private.scope_languages(p_parts pgrag_private.scope_part[]) returns table (languages text[])
language sql stable parallel safe
begin atomic
  select array_agg(l.language order by l.language)
    from (select distinct l.language collate "C" as language
            from unnest(p_parts) as p cross join lateral unnest(p.languages) as l (language)) l
   group by pgrag_private.text_config(l.language)
   order by 1;
end;

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
    elsif v_key = 'metadata' then
      perform pgrag_private.check_metadata(v_value, 'RG304', 'the filter metadata');
    else
      raise exception using errcode = 'RG304', message = 'the filter has a key that is not known',
        detail = format('key: %s', left(v_key, 100)),
        hint = 'Known keys: source, language, product, version, tags, date_from, date_to, metadata.';
    end if;
  end loop;
end
$$;

-- Free metadata: names with a text, a number, a truth value, or a list of texts. A filter's are those that must be there.
create or replace function pgrag_private.check_metadata(p_metadata jsonb, p_code text, p_what text) returns void
language plpgsql immutable parallel safe as $$
begin
  if p_metadata is null or jsonb_typeof(p_metadata) <> 'object' or octet_length(p_metadata::text) > 8192
     or jsonb_path_exists(p_metadata, 'strict $.* ? (@.type() == "object" || @.type() == "null")')
     or jsonb_path_exists(p_metadata, 'strict $.* ? (@.type() == "array")[*] ? (@.type() != "string")') then
    raise exception using errcode = p_code,
      message = p_what || ' must be a JSON object of at most 8192 bytes, each value a text, number, truth value or list of texts',
      hint = 'For example {"team": "billing", "priority": 3, "regions": ["eu"]}; a number is no text that looks like one.';
  end if;
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
