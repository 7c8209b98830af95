-- Two keys that never leave this database: one signs the session setting, one seals packets.
create table pgrag_private.internal_key (
  purpose   text collate "C" not null,
  inner_pad bytea not null,
  outer_pad bytea not null,
  constraint internal_key_pkey primary key (purpose),
  constraint internal_key_purpose_check check (purpose in ('session', 'seal'))
);
alter table pgrag_private.internal_key enable row level security, force row level security;
comment on table pgrag_private.internal_key is 'Keys of this database alone, made at installation; replace them to void every open session and packet.';
