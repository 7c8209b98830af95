-- Who can be named in an access list. A dropped principal keeps its row and loses its name: one row
-- changes however many access lists name it, and a later principal of the same name inherits nothing.
create table pgrag_data.principal (
  tenant_id    bigint not null,
  principal_id bigint generated always as identity,
  kind         text collate "C" not null,
  name         text collate "C" not null,
  created_at   timestamptz not null default transaction_timestamp(),
  dropped_at   timestamptz,
  constraint principal_pkey primary key (tenant_id, principal_id),
  constraint principal_tenant_id_fkey foreign key (tenant_id) references pgrag_data.tenant (tenant_id),
  constraint principal_kind_check check (kind in ('user', 'service', 'group', 'everyone'))
);
create unique index principal_name_key on pgrag_data.principal (name, tenant_id) where dropped_at is null;
alter table pgrag_data.principal enable row level security, force row level security;
comment on table pgrag_data.principal is 'Users, services, groups, and the one principal "everyone" of each tenant.';
