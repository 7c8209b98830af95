-- Access lists are immutable and shared: the fingerprint of the sorted entries finds or creates one, and
-- a document points at it. Changing who may read a document of any size is a change of one pointer.
create table pgrag_data.acl (
  tenant_id   bigint not null,
  acl_id      bigint generated always as identity,
  fingerprint bytea not null,
  constraint acl_pkey primary key (tenant_id, acl_id),
  constraint acl_fingerprint_key unique (fingerprint, tenant_id),
  constraint acl_tenant_id_fkey foreign key (tenant_id) references pgrag_data.tenant (tenant_id)
);
alter table pgrag_data.acl enable row level security, force row level security;
comment on table pgrag_data.acl is 'Access lists, one for each distinct set of readers in a tenant.';

create table pgrag_data.acl_entry (
  tenant_id    bigint not null,
  acl_id       bigint not null,
  principal_id bigint not null,
  constraint acl_entry_pkey primary key (tenant_id, principal_id, acl_id),
  constraint acl_entry_acl_fkey foreign key (tenant_id, acl_id) references pgrag_data.acl (tenant_id, acl_id),
  constraint acl_entry_principal_fkey foreign key (tenant_id, principal_id) references pgrag_data.principal (tenant_id, principal_id)
);
create index acl_entry_acl on pgrag_data.acl_entry (acl_id, tenant_id);
alter table pgrag_data.acl_entry enable row level security, force row level security;
comment on table pgrag_data.acl_entry is 'The readers of each access list; a list without entries lets nobody in.';
