-- Where documents come from. A writer's token names one source, and the writer can write nowhere else.
create table pgrag_data.source (
  tenant_id  bigint not null,
  source_id  bigint generated always as identity,
  source     text collate "C" not null,
  trust      text collate "C" not null,
  processors text[] not null,
  created_at timestamptz not null default transaction_timestamp(),
  constraint source_pkey primary key (tenant_id, source_id),
  constraint source_source_key unique (source, tenant_id),
  constraint source_tenant_id_fkey foreign key (tenant_id) references pgrag_data.tenant (tenant_id),
  constraint source_trust_check check (trust in ('untrusted', 'external', 'internal', 'authoritative'))
);
alter table pgrag_data.source enable row level security, force row level security;
comment on table pgrag_data.source is 'Sources, their trust class, and the outside processors that may receive their text.';
