-- Keys that sign tokens, as the two padded blocks of HMAC: who can read this table can be anyone.
create table pgrag_private.signing_key (
  kid        text collate "C" not null,
  issuer     text collate "C" not null,
  audience   text collate "C" not null,
  inner_pad  bytea not null,
  outer_pad  bytea not null,
  created_at timestamptz not null default transaction_timestamp(),
  retired_at timestamptz,
  constraint signing_key_pkey primary key (kid)
);
alter table pgrag_private.signing_key enable row level security, force row level security;
comment on table pgrag_private.signing_key is 'Keys that verify tokens; several are valid at once, so that they can be rotated.';
