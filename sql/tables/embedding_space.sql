-- What makes two vectors comparable. Immutable: another model, revision, prefix or dimension is another space.
create table pgrag_data.embedding_space (
  tenant_id       bigint not null,
  space_id        bigint generated always as identity,
  space           text collate "C" not null,
  model           text not null,
  model_revision  text not null,
  dimension       integer not null,
  metric          text not null,
  normalisation   text not null,
  preprocessing   text not null,
  query_prefix    text not null,
  document_prefix text not null,
  storage         text not null,
  zero_vectors    text not null,
  created_at      timestamptz not null default transaction_timestamp(),
  retired_at      timestamptz,
  constraint embedding_space_pkey primary key (tenant_id, space_id),
  constraint embedding_space_space_key unique (space, tenant_id),
  constraint embedding_space_tenant_id_fkey foreign key (tenant_id) references pgrag_data.tenant (tenant_id),
  constraint embedding_space_dimension_check check (dimension between 1 and case storage when 'half' then 4000 else 2000 end),
  constraint embedding_space_metric_check check (metric = 'cosine'),
  constraint embedding_space_normalisation_check check (normalisation in ('unit', 'none')),
  constraint embedding_space_storage_check check (storage in ('float', 'half')),
  constraint embedding_space_zero_vectors_check check (zero_vectors in ('refuse', 'skip'))
);
alter table pgrag_data.embedding_space enable row level security, force row level security;
comment on table pgrag_data.embedding_space is 'Embedding spaces: model, revision, dimension, metric, normalisation, prefixes and storage.';

-- Two foreign keys from here on, which tenant.sql cannot have: it comes before.
alter table pgrag_data.tenant add constraint tenant_next_space_fkey
  foreign key (tenant_id, next_space_id) references pgrag_data.embedding_space (tenant_id, space_id);
alter table pgrag_data.tenant add constraint tenant_active_space_fkey
  foreign key (tenant_id, active_space_id) references pgrag_data.embedding_space (tenant_id, space_id);
