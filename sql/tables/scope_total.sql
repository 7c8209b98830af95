-- How much can be seen under each access list, as a ledger: whoever moves a document's pointer adds a row of what is new and
-- one, negative, of what is no longer, in the same transaction. So the sums are exact in every snapshot, and no two writers
-- wait for each other over a counter. pgrag.maintain() folds rows into sums.
create table pgrag_data.scope_total (
  tenant_id      bigint not null,
  acl_id         bigint not null,
  scope_total_id bigint generated always as identity,
  source_id      bigint not null,
  languages      text[] not null,      -- of the revisions' chunks
  until          timestamptz not null, -- when the revisions' effective period ends: from then on the row counts no more
  documents      bigint not null,
  chunks         bigint not null,
  lexemes        bigint not null,      -- repetitions counted
  constraint scope_total_pkey primary key (tenant_id, acl_id, scope_total_id),
  constraint scope_total_acl_fkey foreign key (tenant_id, acl_id) references pgrag_data.acl (tenant_id, acl_id),
  constraint scope_total_source_fkey foreign key (tenant_id, source_id) references pgrag_data.source (tenant_id, source_id)
);
alter table pgrag_data.scope_total enable row level security, force row level security;
comment on table pgrag_data.scope_total is 'Documents, chunks and lexemes in force under each access list, as a ledger of changes.';
