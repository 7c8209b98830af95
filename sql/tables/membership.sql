-- Groups in groups. The closure is computed for each question, so a row removed here takes effect at commit.
create table pgrag_data.membership (
  tenant_id  bigint not null,
  member_id  bigint not null,
  group_id   bigint not null,
  created_at timestamptz not null default transaction_timestamp(),
  constraint membership_pkey primary key (tenant_id, member_id, group_id),
  constraint membership_member_fkey foreign key (tenant_id, member_id) references pgrag_data.principal (tenant_id, principal_id),
  constraint membership_group_fkey foreign key (tenant_id, group_id) references pgrag_data.principal (tenant_id, principal_id)
);
alter table pgrag_data.membership enable row level security, force row level security;
comment on table pgrag_data.membership is 'Which users, services and groups belong directly to which group.';
