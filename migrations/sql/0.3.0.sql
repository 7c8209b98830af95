-- 0.2.0 to 0.3.0: what has state, and so cannot simply be applied again. It runs as pgrag_owner, once, after policies,
-- privileges, types and changed functions were cleared away, and before they are made as they are now. Each change is
-- made in sql/tables/ too; columns are added last.
--
-- No statement here may touch a row: row-level security is forced, and the policies are not there. Rows are the matter
-- of 0.3.0.rows.sql.

alter table pgrag_data.document
  add column active_until timestamptz,
  add column changed_xid xid8 not null default pg_current_xact_id();
drop index pgrag_data.document_acl;
create index document_acl on pgrag_data.document (acl_id, tenant_id, document_id)
  where deleted_at is null and active_revision_id is not null;
create index document_active on pgrag_data.document (active_revision_id, tenant_id) include (acl_id, source_id, active_until)
  where deleted_at is null;
create index document_changed on pgrag_data.document (acl_id, tenant_id, changed_xid)
  where deleted_at is null and active_revision_id is not null;
create index document_sample on pgrag_data.document (acl_id, tenant_id, hashtext(document))
  where deleted_at is null and active_revision_id is not null;

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
create table pgrag_data.dense_block (
  tenant_id         bigint not null,
  block_id          bigint generated always as identity,
  space_id          bigint not null,
  acl_id            bigint,                            -- null: the whole tenant
  base_id           bigint,                            -- a block of what changed since that one was built; null: of everything
  state             text collate "C" not null default 'copying',
  snapshot          pg_snapshot not null,
  system_identifier bigint not null,
  table_oid         oid,                               -- null in the transaction that makes the table
  copied_to         bigint not null default 0,         -- the last document that has been copied
  vectors           bigint not null default 0,
  created_at        timestamptz not null default clock_timestamp(),
  live_at           timestamptz,
  retired_at        timestamptz,
  constraint dense_block_pkey primary key (tenant_id, block_id),
  constraint dense_block_space_fkey foreign key (tenant_id, space_id) references pgrag_data.embedding_space (tenant_id, space_id),
  constraint dense_block_acl_fkey foreign key (tenant_id, acl_id) references pgrag_data.acl (tenant_id, acl_id),
  constraint dense_block_state_check check (state in ('copying', 'indexing', 'live', 'retired'))
);
create unique index dense_block_state_key on pgrag_data.dense_block
  (tenant_id, space_id, coalesce(acl_id, 0), (base_id is null), (state = 'live')) where state <> 'retired';
alter table pgrag_data.dense_block enable row level security, force row level security;
comment on table pgrag_data.dense_block is 'Blocks: tables with an HNSW index over the vectors of one access list, or of a tenant.';
create table pgrag_data.search_cost (
  part        text collate "C" not null,
  microseconds double precision not null,
  measured_at timestamptz,               -- null: as shipped
  constraint search_cost_pkey primary key (part),
  constraint search_cost_part_check check (part in ('document', 'vector', 'block')),
  constraint search_cost_microseconds_check check (microseconds > 0 and microseconds < 'Infinity')
);
alter table pgrag_data.search_cost enable row level security, force row level security;
comment on table pgrag_data.search_cost is 'Measured costs that choose between exact search and blocks; pgrag.calibrate() writes them.';

-- A space beside the active one, and half precision. The last check reads all embeddings, some seconds a million, while readers wait.
alter table pgrag_data.tenant
  add column next_space_id bigint,
  add constraint tenant_next_space_fkey foreign key (tenant_id, next_space_id) references pgrag_data.embedding_space (tenant_id, space_id);
comment on table pgrag_data.tenant is 'Tenants; active_space_id is the embedding space that new revisions and dense questions use, next_space_id one beside it.';
alter table pgrag_data.embedding_space
  add column retired_at timestamptz,
  drop constraint embedding_space_dimension_check,
  drop constraint embedding_space_storage_check,
  add constraint embedding_space_dimension_check check (dimension between 1 and case storage when 'half' then 4000 else 2000 end),
  add constraint embedding_space_storage_check check (storage in ('float', 'half'));
create table pgrag_data.revision_space (
  tenant_id    bigint not null,
  revision_id  bigint not null,
  space_id     bigint not null,
  completed_at timestamptz not null default clock_timestamp(),
  constraint revision_space_pkey primary key (tenant_id, revision_id, space_id),
  constraint revision_space_revision_fkey foreign key (tenant_id, revision_id) references pgrag_data.revision (tenant_id, revision_id),
  constraint revision_space_space_fkey foreign key (tenant_id, space_id) references pgrag_data.embedding_space (tenant_id, space_id)
);
alter table pgrag_data.revision_space enable row level security, force row level security;
comment on table pgrag_data.revision_space is 'The embedding spaces in which a revision has every embedding.';
alter table pgrag_data.chunk_vec
  add column half public.halfvec,
  alter column half set storage plain,
  alter column embedding drop not null,
  add constraint chunk_vec_storage_check check (num_nonnulls(embedding, half) = 1);

-- Keys with the tenant last: see sql/tables/document.sql. Each is built anew, and readers wait.
alter table pgrag_data.document drop constraint document_active_revision_fkey;
alter table pgrag_data.activation drop constraint activation_revision_fkey, drop constraint activation_replaced_fkey;
alter table pgrag_data.revision
  drop constraint revision_revision_key,
  drop constraint revision_document_key,
  add constraint revision_revision_key unique (document_id, revision, tenant_id),
  add constraint revision_document_key unique (document_id, revision_id, tenant_id);
alter table pgrag_data.activation
  add constraint activation_revision_fkey foreign key (tenant_id, document_id, revision_id)
    references pgrag_data.revision (tenant_id, document_id, revision_id),
  add constraint activation_replaced_fkey foreign key (tenant_id, document_id, replaced_revision_id)
    references pgrag_data.revision (tenant_id, document_id, revision_id);
alter table pgrag_data.document
  drop constraint document_document_key,
  add constraint document_document_key unique (source_id, document, tenant_id),
  add constraint document_active_revision_fkey foreign key (tenant_id, document_id, active_revision_id)
    references pgrag_data.revision (tenant_id, document_id, revision_id);
alter table pgrag_data.chunk drop constraint chunk_chunk_id_key, add constraint chunk_chunk_id_key unique (chunk_id, tenant_id);
alter table pgrag_data.source drop constraint source_source_key, add constraint source_source_key unique (source, tenant_id);
alter table pgrag_data.embedding_space
  drop constraint embedding_space_space_key,
  add constraint embedding_space_space_key unique (space, tenant_id);
alter table pgrag_data.acl drop constraint acl_fingerprint_key, add constraint acl_fingerprint_key unique (fingerprint, tenant_id);
drop index pgrag_data.acl_entry_acl;
create index acl_entry_acl on pgrag_data.acl_entry (acl_id, tenant_id);
drop index pgrag_data.principal_name_key;
create unique index principal_name_key on pgrag_data.principal (name, tenant_id) where dropped_at is null;
