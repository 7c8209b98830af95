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
