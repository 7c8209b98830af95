-- One customer, company or team whose text must never meet another's. tenant_id leads every key of
-- every table below, and every join: that is what lets the schema be distributed by tenant later.
create table pgrag_data.tenant (
  tenant_id       bigint generated always as identity,
  tenant          text collate "C" not null,
  name            text not null,
  active_space_id bigint,
  created_at      timestamptz not null default transaction_timestamp(),
  next_space_id   bigint,
  constraint tenant_pkey primary key (tenant_id),
  constraint tenant_tenant_key unique (tenant)
);
alter table pgrag_data.tenant enable row level security, force row level security;
comment on table pgrag_data.tenant is 'Tenants; active_space_id is the embedding space that new revisions and dense questions use, next_space_id one beside it.';
