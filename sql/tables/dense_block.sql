-- Blocks: copies of the vectors of one access list (or of a whole tenant) in one space, each in a table of its own with an
-- HNSW index, schema pgrag_block, table b<block_id>. pgrag.maintain() builds, replaces and drops them.
--
-- A block is never the authority: what it finds is looked up in `document`, so a stale one shows nothing and hides
-- nothing. What it cannot have yet is known exactly, and searched beside it: the documents whose last change (changed_xid)
-- the block's snapshot does not see. The snapshot was taken before the first row was copied.
--
-- A dump carries transaction ids into a cluster where they mean nothing, or into a copy of this one that has gone its own way
-- since: a block serves the system, and is the very table, that it was built in.
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
-- One at work and one that serves, of each kind: two sessions of maintenance cannot both begin.
create unique index dense_block_state_key on pgrag_data.dense_block
  (tenant_id, space_id, coalesce(acl_id, 0), (base_id is null), (state = 'live')) where state <> 'retired';
alter table pgrag_data.dense_block enable row level security, force row level security;
comment on table pgrag_data.dense_block is 'Blocks: tables with an HNSW index over the vectors of one access list, or of a tenant.';
