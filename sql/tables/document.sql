-- The one row that changes. Activation, rollback, change of readers and tombstone each update this row
-- and no other, whatever the size of the document.
--
-- Here and elsewhere the tenant comes first in the primary key and last, or nearly, in every other key: where statistics say
-- that a tenant has a row or two, any index that begins with the tenant looks as good as the whole primary key to the planner,
-- and of the one tenant that is large it would read everything for each row.
create table pgrag_data.document (
  tenant_id          bigint not null,
  document_id        bigint generated always as identity,
  source_id          bigint not null,
  document           text collate "C" not null,
  acl_id             bigint not null,
  active_revision_id bigint,
  deleted_at         timestamptz,
  created_at         timestamptz not null default transaction_timestamp(),
  active_until       timestamptz,                                   -- effective_to of the active revision
  changed_xid        xid8 not null default pg_current_xact_id(),    -- who last changed what is visible of it: see dense_block
  constraint document_pkey primary key (tenant_id, document_id),
  constraint document_document_key unique (source_id, document, tenant_id),
  constraint document_source_fkey foreign key (tenant_id, source_id) references pgrag_data.source (tenant_id, source_id),
  constraint document_acl_fkey foreign key (tenant_id, acl_id) references pgrag_data.acl (tenant_id, acl_id)
);
-- What is visible under an access list; and of a revision, whether it is in force and who may see it.
create index document_acl on pgrag_data.document (acl_id, tenant_id, document_id)
  where deleted_at is null and active_revision_id is not null;
create index document_active on pgrag_data.document (active_revision_id, tenant_id) include (acl_id, source_id, active_until)
  where deleted_at is null;
-- What an access list's block cannot have yet.
create index document_changed on pgrag_data.document (acl_id, tenant_id, changed_xid)
  where deleted_at is null and active_revision_id is not null;
-- Documents of an access list in an order that has nothing to do with others: samples are drawn along it, and along document_id
-- they would depend on how many hidden ones were made in between.
create index document_sample on pgrag_data.document (acl_id, tenant_id, hashtext(document))
  where deleted_at is null and active_revision_id is not null;
alter table pgrag_data.document enable row level security, force row level security;
comment on table pgrag_data.document is 'Documents, identified by tenant, source and document key; active_revision_id is the revision in force.';
