-- What passes between the private functions, and lies in no table: an upgrade drops a type that has changed.

-- Who is asking, once proven: what a token says, in internal ids. reader_id is 0 for a subject that the
-- tenant does not know, which is in no access list.
create type pgrag_private.principal as (
  kid        text,
  kind       text,    -- reader, writer, admin, auditor
  tenant_id  bigint,
  reader_id  bigint,
  source_id  bigint,  -- of a writer; 0 otherwise
  subject    text,
  expires_at bigint   -- seconds since 1970
);

-- One search, as asked: the arguments of pgrag.search. Its checks are in check_search.
create type pgrag_private.search_request as (
  question         text,
  k                integer,
  mode             text,
  embedding        public.vector,
  space            text,
  fusion           text,
  as_of            timestamptz,
  filter           jsonb,
  candidates       integer,
  threshold        double precision,
  probes           text[],
  probe_embeddings public.vector[],
  per_document     integer,
  per_source       integer,
  isolation        text,
  profile          text,
  chunk_order      text[],
  reranker         text
);

-- The revisions of a scope whose chunks are in the same languages, nearly always one.
create type pgrag_private.scope_part as (
  languages    text[],
  revisions    bigint[],         -- null, with their counts: the scope is counted, not listed
  chunk_counts integer[],        -- of each revision
  chunks       bigint,
  lexemes      bigint            -- repetitions counted
);

-- What a search may look at. A large scope is only counted, from the ledger of its access lists; whether a row is in it is
-- then asked of the row's document.
create type pgrag_private.search_scope as (
  tenant_id  bigint,
  acls       bigint[],           -- the access lists that let the reader in
  acl_chunks bigint[],           -- visible chunks under each; null: not counted
  sources    bigint[],           -- null: all
  parts      pgrag_private.scope_part[],
  documents  bigint,
  chunks     bigint,
  revisions  bigint[]            -- null: counted
);

-- The blocks that serve for one access list, or for the whole tenant.
create type pgrag_private.block_list as (
  acl_id      bigint,            -- 0: the tenant
  blocks      bigint[],          -- the one of everything, and the one of what changed since, if there is one
  vectors     bigint[],
  all_vectors bigint,
  snapshot    pg_snapshot,       -- of the newest: what it does not see is in neither
  loose       double precision,  -- visible chunks of documents that changed since, about
  share       double precision   -- of the vectors, those that are visible, about
);

-- How the dense lane looks.
create type pgrag_private.dense_plan as (
  route      text,               -- 'exact', 'class_blocks', 'tenant_block'
  blocks     bigint[],
  lists      bigint[],           -- the access list of each
  vectors    bigint[],           -- and how many there are in it
  exact_acls bigint[],           -- whose vectors are all compared
  block_acls bigint[],           -- whose vectors are in a block, but for what changed since
  snapshots  pg_snapshot[],      -- of the newest block of each of these
  requested  integer,            -- candidates of each block
  costs      jsonb               -- estimates, in milliseconds, of the routes that there were
);

-- How the lexical lane looks for one wording in the chunks of languages that are stemmed alike.
create type pgrag_private.lexical_plan as (
  wording     integer,           -- 0: the question, 1 …: its probes
  languages   text[],
  revisions   bigint[],          -- of the scope, those that have chunks in these languages; null: the scope is counted
  acls        bigint[],          -- of the scope
  sources     bigint[],
  chunks      double precision,  -- N of BM25, and the average length: of the whole scope
  length      double precision,
  lexemes     text[],            -- rarest first where a sample was taken, else in order
  queries     tsquery[],         -- the same, each as a query
  worth       double precision[],-- what each counts in the most that the wording could score
  any_query   tsquery,           -- of the first `searched`: what a candidate must hold one of
  searched    integer,           -- all of them, or the rarest: the others only add to the score of what these find; or 0: the index finds must_hold
  df          double precision[],-- estimates of the document frequency; used for those that are not searched
  left_out    integer,           -- lexemes over the bound, which are not used at all
  condition   tsquery,           -- quoted phrases, and no excluded word; null: no condition
  must_hold   text[],            -- lexemes of the quoted phrases
  route       text               -- 'scope': every chunk of the revisions is read; 'index': those that the index finds
);

-- A chunk that a search may return, with what the lanes say of it.
create type pgrag_private.ranked_chunk as (
  revision_id   bigint,
  chunk_no      integer,
  score         double precision,
  relevance     double precision,
  wording       integer,            -- the one that it fits best; 0: the question itself
  lexical_rank  integer,
  lexical_score double precision,
  dense_rank    integer,
  dense_score   double precision,
  tf            double precision[], -- of each lexeme of the plan of its language, and what that adds to the lexical score
  part          double precision[],
  duplicates    jsonb
);

-- What pgrag.doctor() has found.
create type pgrag_private.doctor_finding as (
  check_name text,
  severity   text,
  object     text,
  finding    text,
  remedy     text
);
