-- Every switch of a document's pointer, appended in the same transaction: recorded time beside effective
-- time, and the answer to "which revisions have been in force". A rollback withdraws what it leaves.
create table pgrag_data.activation (
  tenant_id            bigint not null,
  document_id          bigint not null,
  activation_id        bigint generated always as identity,
  revision_id          bigint not null,
  replaced_revision_id bigint,
  action               text collate "C" not null,
  recorded_at          timestamptz not null default clock_timestamp(),
  subject              text not null,
  constraint activation_pkey primary key (tenant_id, document_id, activation_id),
  constraint activation_revision_fkey foreign key (tenant_id, document_id, revision_id)
    references pgrag_data.revision (tenant_id, document_id, revision_id),
  constraint activation_replaced_fkey foreign key (tenant_id, document_id, replaced_revision_id)
    references pgrag_data.revision (tenant_id, document_id, revision_id),
  constraint activation_action_check check (action in ('activate', 'rollback'))
);
alter table pgrag_data.activation enable row level security, force row level security;
comment on table pgrag_data.activation is 'Activations and rollbacks of each document, in order.';
