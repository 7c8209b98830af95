-- One version of a document's text. Staged until verified, immutable afterwards; which revision is active
-- is the document's pointer, and which ones have been active is the activation log.
create table pgrag_data.revision (
  tenant_id      bigint not null,
  revision_id    bigint generated always as identity,
  document_id    bigint not null,
  revision       text collate "C" not null,
  content_hash   bytea not null,        -- of the text and of everything below that shaped the chunks
  state          text collate "C" not null default 'staged',
  title          text not null,
  language       text collate "C" not null,
  product        text collate "C",
  version        text collate "C",
  tags           text[] not null,
  dated          date,
  effective_from timestamptz not null,  -- -infinity: since ever
  effective_to   timestamptz not null,  -- infinity: until replaced
  parser         text not null,
  chunker        text not null,
  tokenizer      text not null,
  space_id       bigint,                -- null: no vectors, lexical search only
  skips          int4range[] not null,  -- parts of the text that no chunk covers, on purpose
  languages      text[] not null default '{}',  -- of its chunks; with the counts, filled in by verification
  chunk_count    integer not null default 0,
  lexeme_count   bigint not null default 0,
  token_count    bigint not null default 0,
  created_at     timestamptz not null default transaction_timestamp(),
  verified_at    timestamptz,
  metadata       jsonb not null default '{}',
  constraint revision_pkey primary key (tenant_id, revision_id),
  constraint revision_revision_key unique (document_id, revision, tenant_id),
  constraint revision_document_key unique (document_id, revision_id, tenant_id),
  constraint revision_document_fkey foreign key (tenant_id, document_id) references pgrag_data.document (tenant_id, document_id),
  constraint revision_space_fkey foreign key (tenant_id, space_id) references pgrag_data.embedding_space (tenant_id, space_id),
  constraint revision_state_check check (state in ('staged', 'verified')),
  constraint revision_effective_check check (effective_from < effective_to)
);
alter table pgrag_data.revision enable row level security, force row level security;
comment on table pgrag_data.revision is 'Revisions: metadata, effective period, and the parser, chunker, tokenizer and space that made their chunks.';

-- A foreign key, so that no pointer can be left on nothing; with document_id, so that it cannot cross documents.
alter table pgrag_data.document add constraint document_active_revision_fkey
  foreign key (tenant_id, document_id, active_revision_id)
  references pgrag_data.revision (tenant_id, document_id, revision_id);

-- The text itself, apart from what every question reads.
create table pgrag_data.revision_source (
  tenant_id   bigint not null,
  revision_id bigint not null,
  body        text not null,
  constraint revision_source_pkey primary key (tenant_id, revision_id),
  constraint revision_source_revision_fkey foreign key (tenant_id, revision_id) references pgrag_data.revision (tenant_id, revision_id)
);
alter table pgrag_data.revision_source enable row level security, force row level security;
comment on table pgrag_data.revision_source is 'The exact text of each revision, which its chunks'' spans point into.';
