-- Passages. The text is wide and read for a handful of hits; what every question scans is kept in narrow
-- tables beside it, keyed so that one revision's rows lie together.
create table pgrag_data.chunk (
  tenant_id   bigint not null,
  revision_id bigint not null,
  chunk_no    integer not null,
  chunk_id    bytea not null,      -- hash of tenant, source, document, revision, span and text
  text        text not null,
  span_start  integer not null,    -- Unicode code points from the start of the body
  span_end    integer not null,
  section     text not null,
  page        integer,
  language    text collate "C" not null,
  token_count integer not null,
  constraint chunk_pkey primary key (tenant_id, revision_id, chunk_no) include (chunk_id),
  constraint chunk_chunk_id_key unique (chunk_id, tenant_id),
  constraint chunk_revision_fkey foreign key (tenant_id, revision_id) references pgrag_data.revision (tenant_id, revision_id),
  constraint chunk_span_check check (0 <= span_start and span_start < span_end)
);
alter table pgrag_data.chunk enable row level security, force row level security;
comment on table pgrag_data.chunk is 'Passages of each revision with their exact span in its text.';

create table pgrag_data.chunk_lex (
  tenant_id   bigint not null,
  revision_id bigint not null,
  chunk_no    integer not null,
  language    text collate "C" not null,
  length      integer not null,    -- lexemes with repetitions: the document length of BM25
  lexemes     tsvector not null,
  constraint chunk_lex_pkey primary key (tenant_id, revision_id, chunk_no),
  constraint chunk_lex_chunk_fkey foreign key (tenant_id, revision_id, chunk_no)
    references pgrag_data.chunk (tenant_id, revision_id, chunk_no)
) with (toast_tuple_target = 8160); -- kept in the row: fetching it from TOAST doubles the cost of a scan
alter table pgrag_data.chunk_lex enable row level security, force row level security;
comment on table pgrag_data.chunk_lex is 'What the lexical lane reads: lexemes and length of each chunk.';

create table pgrag_data.chunk_vec (
  tenant_id   bigint not null,
  space_id    bigint not null,
  revision_id bigint not null,
  chunk_no    integer not null,
  embedding   public.vector,       -- of a space with storage float
  half        public.halfvec,      -- of one with storage half
  constraint chunk_vec_pkey primary key (tenant_id, space_id, revision_id, chunk_no),
  constraint chunk_vec_space_fkey foreign key (tenant_id, space_id) references pgrag_data.embedding_space (tenant_id, space_id),
  constraint chunk_vec_chunk_fkey foreign key (tenant_id, revision_id, chunk_no)
    references pgrag_data.chunk (tenant_id, revision_id, chunk_no),
  constraint chunk_vec_storage_check check (num_nonnulls(embedding, half) = 1)
);
-- Never compressed, never out of line: a 1024-d vector in default storage scans 3.4 times slower.
alter table pgrag_data.chunk_vec alter column embedding set storage plain, alter column half set storage plain;
alter table pgrag_data.chunk_vec enable row level security, force row level security;
comment on table pgrag_data.chunk_vec is 'What the dense lane reads: the embedding of each chunk in its space.';

-- In which spaces a revision is complete: every chunk has a checked embedding.
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
