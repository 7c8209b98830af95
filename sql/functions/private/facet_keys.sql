-- The keys of the index revision_facets: what a revision can be filtered by, hashed as lexemes are.
create or replace function pgrag_private.facet_keys(
  p_tenant_id bigint, p_language text, p_product text, p_version text, p_tags text[], p_metadata jsonb
) returns bigint[]
language sql immutable parallel safe cost 10000
return pgrag_private.lexeme_keys(p_tenant_id, array(
  select facet
    from (values ('language=' || p_language), ('product=' || p_product), ('version=' || p_version)) as f (facet)
   where facet is not null
  union all
  select 'tag=' || tag from unnest(p_tags) as t (tag)
  union all
  -- 1.0 is 1 for @>, which has the last word, so it must have the same key.
  select name || '=' || case jsonb_typeof(value) when 'number' then trim_scale(value::numeric)::text else value::text end
    from jsonb_each(p_metadata) as m (name, value)
   where jsonb_typeof(value) <> 'array'
  union all
  -- A key for each element and none for the list: an empty one is in every list.
  select name || '[]=' || element
    from jsonb_each(p_metadata) as m (name, value)
   cross join lateral jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end) as e (element)));

create or replace function pgrag_private.facet_keys_any(p_tenant_id bigint, p_name text, p_values text[]) returns bigint[]
language sql immutable parallel safe
return pgrag_private.lexeme_keys(p_tenant_id, array(select p_name || '=' || value from unnest(p_values) as v (value)));

grant execute on function pgrag_private.facet_keys to pgrag_owner; -- who builds the index
