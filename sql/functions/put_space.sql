-- A space does not change: the same definition again is nothing to do, another one under its name is refused.
-- The first space of a tenant becomes its active one.
create or replace function pgrag.put_space(
  p_tenant          text,
  p_space           text,
  p_model           text,
  p_model_revision  text,
  p_dimension       integer,
  p_metric          text default 'cosine',
  p_normalisation   text default 'unit',
  p_preprocessing   text default '',
  p_query_prefix    text default '',
  p_document_prefix text default '',
  p_storage         text default 'float',
  p_zero_vectors    text default 'refuse'
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space;
begin
  perform pgrag_private.check_name('space', p_space);
  perform pgrag_private.check_name('model', p_model);
  perform pgrag_private.check_name('model revision', p_model_revision);
  if p_storage is null or p_storage not in ('float', 'half')
     or p_dimension is null or p_dimension not between 1 and (case p_storage when 'half' then 4000 else 2000 end) or p_metric is distinct from 'cosine'
     or p_normalisation is null or p_normalisation not in ('unit', 'none')
     or p_zero_vectors is null or p_zero_vectors not in ('refuse', 'skip')
     or p_preprocessing is null or p_query_prefix is null or p_document_prefix is null then
    raise exception using errcode = 'RG407', message = 'the embedding space is not one that pgrag can hold',
      hint = 'dimension 1 to 2000, with storage half to 4000; metric cosine, normalisation unit or none, storage float or half, zero_vectors refuse or skip; nothing null.';
  end if;
  insert into pgrag_data.embedding_space (tenant_id, space, model, model_revision, dimension, metric, normalisation,
                                          preprocessing, query_prefix, document_prefix, storage, zero_vectors)
  values (v_tenant_id, p_space, p_model, p_model_revision, p_dimension, p_metric, p_normalisation,
          p_preprocessing, p_query_prefix, p_document_prefix, p_storage, p_zero_vectors)
  on conflict on constraint embedding_space_space_key do nothing;
  v_space := pgrag_private.find_space(v_tenant_id, p_space);
  if row(v_space.model, v_space.model_revision, v_space.dimension, v_space.metric, v_space.normalisation,
         v_space.preprocessing, v_space.query_prefix, v_space.document_prefix, v_space.storage, v_space.zero_vectors)
     is distinct from
     row(p_model, p_model_revision, p_dimension, p_metric, p_normalisation,
         p_preprocessing, p_query_prefix, p_document_prefix, p_storage, p_zero_vectors) then
    raise exception using errcode = 'RG407', message = 'a space of this name exists with another definition',
      hint = 'Spaces do not change: another model, revision, dimension or prefix is a new space under a new name.';
  end if;
  if v_space.retired_at is not null then
    raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'Register it under a new name.';
  end if;
  update pgrag_data.tenant t set active_space_id = v_space.space_id
   where t.tenant_id = v_tenant_id and t.active_space_id is null;
end
$$;

comment on function pgrag.put_space is 'Registers an embedding space of a tenant: model, revision, dimension, normalisation and prefixes, unchangeable.';
revoke all on function pgrag.put_space from public;
