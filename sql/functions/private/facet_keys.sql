-- The keys of the index revision_facets: what a revision can be filtered by, each as a hash with the tenant as the seed.
create or replace function pgrag_private.facet_keys(
  p_tenant_id bigint, p_language text, p_product text, p_version text, p_tags text[], p_metadata jsonb
) returns bigint[]
language sql immutable parallel safe cost 10000
return array(
  select hashtextextended(facet collate "C", p_tenant_id)
    from (values ('language=' || p_language), ('product=' || p_product), ('version=' || p_version)) as f (facet)
   where facet is not null
  union all
  select hashtextextended(('tag=' || tag) collate "C", p_tenant_id) from unnest(p_tags) as t (tag)
  union all
  -- As in containment, 1 and 1.0 are one number, and an empty list is in every list.
  select hashtextextended((name || case jsonb_typeof(value) when 'array' then '[]=' || coalesce(element::text, '')
                                                            when 'number' then '=' || trim_scale((value #>> '{}')::numeric)
                                                            else '=' || value::text end) collate "C", p_tenant_id)
    from jsonb_each(p_metadata) as m (name, value)
   cross join lateral (select null::jsonb as element union all
                       select jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end)) as e);

create or replace function pgrag_private.facet_keys_any(p_tenant_id bigint, p_name text, p_values text[]) returns bigint[]
language sql immutable parallel safe
return array(select hashtextextended((p_name || '=' || value) collate "C", p_tenant_id) from unnest(p_values) as v (value));

grant execute on function pgrag_private.facet_keys to pgrag_owner; -- who builds the index
