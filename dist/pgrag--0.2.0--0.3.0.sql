-- pgrag 0.3.0: upgrade from 0.2.0. Built by python -m pgrag._sql; do not edit.
-- As the role that installed it and owns the database, or a superuser:
--   psql -X -1 -v ON_ERROR_STOP=1 -f pgrag--0.2.0--0.3.0.sql

set local pgrag.upgrade_from = '0.2.0';
set local pgrag.upgrade_to = '0.3.0';
-- Types that both declare alike, and functions that 0.2.0 did not declare otherwise: they need not go.
set local pgrag.upgrade_keeps_types = 'pgrag_private.principal
pgrag_private.search_request
pgrag_private.ranked_chunk';
set local pgrag.upgrade_keeps_functions =
'pgrag_private.create_block_table(bigint, integer)
pgrag_private.index_block_table(bigint)
pgrag_private.drop_block_table(bigint)
pgrag_private.pinned_settings(boolean)
pgrag_private.hmac_pad(bytea, integer)
pgrag_private.random_secret()
pgrag_private.internal_mac(text, text)
pgrag_private.verify_token(text)
pgrag_private.decode_base64url(text)
pgrag_private.decode_part(text)
pgrag_private.current_principal(text, text[])
pgrag_private.transaction_mark()
pgrag_private.is_blank(text)
pgrag_private.is_sayable(text)
pgrag_private.check_name(text, text)
pgrag_private.is_language(text)
pgrag_private.check_document(text)
pgrag_private.not_found(text)
pgrag_private.find_tenant(text)
pgrag_private.find_space(bigint, text)
pgrag_private.find_principal(bigint, text)
pgrag_private.find_source(pgrag_private.principal, text)
pgrag_private.find_document(pgrag_data.source, text)
pgrag_private.find_revision(pgrag_data.document, text)
pgrag_private.fingerprint(text[])
pgrag_private.score(double precision)
pgrag_private.utc(timestamptz)
pgrag_private.text_config(text)
pgrag_private.unspaced_run()
pgrag_private.pairs_of(text)
pgrag_private.unspaced_pairs(text)
pgrag_private.split_joined(text)
pgrag_private.spaced_words(text, text)
pgrag_private.to_lexemes(text, text)
pgrag_private.lexeme_count(tsvector)
pgrag_private.lexeme_keys(bigint, text[])
pgrag_private.parse_question(text)
pgrag_private.phrase_query(text, text)
pgrag_private.question_condition(text, text[], text[])
pgrag_private.phrase_lexemes(text, text[])
pgrag_private.closure(bigint, bigint)
pgrag_private.permitted_acls(bigint, bigint)
pgrag_private.acl_of(bigint, text[])
pgrag_private.standing_revisions(bigint, bigint)
pgrag_private.effective_revision(bigint, bigint, timestamptz)
pgrag_private.facet_keys(bigint, text, text, text, text[], jsonb)
pgrag_private.facet_keys_any(bigint, text, text[])
pgrag_private.visible_revisions(bigint, bigint[], timestamptz, jsonb, boolean)
pgrag_private.filtered_revisions(bigint, bigint[], timestamptz, jsonb, boolean)
pgrag_private.scope(bigint, bigint, timestamptz, jsonb)
pgrag_private.search_scope(bigint, bigint, pgrag_private.search_request, boolean)
pgrag_private.visible_row(text, text, boolean)
pgrag_private.scope_languages(pgrag_private.scope_part[])
pgrag_private.check_filter(jsonb)
pgrag_private.check_metadata(jsonb, text, text)
pgrag_private.filter_values(jsonb, text)
pgrag_private.filter_date(jsonb, text)
pgrag_private.browse_revisions()
pgrag_private.browse_tenant()
pgrag_private.lexical_plans(pgrag_private.search_scope, text[], text[], text[], boolean)
pgrag_private.scope_first_limit()
pgrag_private.lexeme_query(text)
pgrag_private.estimate_df(pgrag_private.search_scope, bigint[], integer[], text[], text[])
pgrag_private.index_finds(bigint, pgrag_private.lexical_plan, integer)
pgrag_private.phrases_occur(pgrag_private.search_scope, text[], boolean)
pgrag_private.lexical_bound(pgrag_private.lexical_plan[])
pgrag_private.matched_terms(bigint, bigint, integer, pgrag_private.lexical_plan[], double precision[], double precision[])
pgrag_private.lexical_lane(bigint, pgrag_private.lexical_plan, integer, bigint[], integer[])
pgrag_private.each_slot(integer, text, text)
pgrag_private.tf_slot()
pgrag_private.chunk_id_lookup(text)
pgrag_private.bm25_norm()
pgrag_private.bm25_idf(double precision, double precision)
pgrag_private.half_of(pgrag_data.embedding_space, public.vector)
pgrag_private.put_embeddings(pgrag_data.revision, pgrag_data.embedding_space, integer, public.vector[])
pgrag_private.embedding_faults(bigint, bigint, bigint, integer, integer)
pgrag_private.missing_in_space(bigint, bigint)
pgrag_private.described_space(bigint, bigint)
pgrag_private.dense_plan(pgrag_private.search_scope, pgrag_data.embedding_space, integer, text)
pgrag_private.compared_revisions(pgrag_private.search_scope, pgrag_private.dense_plan)
pgrag_private.dense_lane(pgrag_private.search_scope, pgrag_private.dense_plan, bigint, public.vector, integer, text[], tsquery[])
pgrag_private.compare_vectors(bigint, bigint[], bigint, public.vector, integer, text[], tsquery[])
pgrag_private.block_effort(integer)
pgrag_private.search_blocks(pgrag_private.search_scope, pgrag_private.dense_plan, public.vector, integer, text[], tsquery[])
pgrag_private.block_least(integer)
pgrag_private.block_state()
pgrag_private.deserves_block(bigint, bigint, bigint, bigint)
pgrag_private.copy_to_block(pgrag_data.dense_block)
pgrag_private.fold_scope_totals()
pgrag_private.purge_retired_spaces()
pgrag_private.renumber_documents(bigint)
pgrag_private.similarity(tsvector, tsvector)
pgrag_private.distinct_words(text)
pgrag_private.negations()
pgrag_private.numbers()
pgrag_private.makes_a_difference(text)
pgrag_private.pick(bigint, pgrag_private.ranked_chunk[], integer, integer, integer)
pgrag_private.check_search(pgrag_private.search_request)
pgrag_private.check_embedding(bigint, text, public.vector)
pgrag_private.retrieve(pgrag_private.principal, pgrag_private.search_request)
pgrag_private.default_threshold(text)
pgrag_private.count_document(pgrag_data.document, integer)
pgrag_private.switch_revision(pgrag_private.principal, pgrag_data.document, pgrag_data.revision, text, text, boolean)
pgrag_private.finding(text, text, text)
pgrag_private.finding_of_access(pgrag_private.principal, text, bigint)
pgrag_private.plain_quote(text)
pgrag_private.seal(pgrag_private.principal, jsonb)
pgrag_private.build_packet(pgrag_private.principal, text, timestamptz, jsonb, integer, text, integer, boolean)
pgrag_private.access_state(pgrag_private.principal)
pgrag_private.corpus_state(pgrag_private.principal, timestamptz)
pgrag_private.check_json_request(jsonb, text[])
pgrag_private.json_texts(jsonb)
pgrag_private.retrieve_json(pgrag_private.principal, jsonb, integer)
pgrag.version()
pgrag.status()
pgrag.add_signing_key(text, bytea, text, text)
pgrag.retire_signing_key(text)
pgrag.list_signing_keys()
pgrag.authenticate(text)
pgrag.whoami(text)
pgrag.put_tenant(text, text)
pgrag.put_source(text, text, text[], text)
pgrag.put_space(text, text, text, text, integer, text, text, text, text, text, text, text)
pgrag.list_tenants()
pgrag.list_sources(text)
pgrag.list_spaces(text)
pgrag.put_principal(text, text)
pgrag.drop_principal(text)
pgrag.put_membership(text, text)
pgrag.drop_membership(text, text)
pgrag.list_principals(text)
pgrag.list_memberships(text)
pgrag.writer_source(text)
pgrag.stage_revision(text, text, text, text, text, text, text, text[], date, timestamptz, timestamptz, text, text, text, text, int4range[], jsonb)
pgrag.add_chunks(text, text, integer, text[], integer[], integer[], integer[], text[], integer[], text[], public.vector[])
pgrag.verify_revision(text, text, integer)
pgrag.set_access(text, text[], text)
pgrag.activate(text, text, text, boolean, text)
pgrag.rollback(text, text, text, text)
pgrag.delete_document(text, text)
pgrag.list_documents(text, text)
pgrag.list_revisions(text, text, text)
pgrag.search(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision, text, text[], public.vector[], integer, integer, text, text, text[], text)
pgrag.search_json(jsonb, text)
pgrag.packet(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision, integer, text, integer, boolean, text, text[], public.vector[], integer, integer, text, text, text[], text)
pgrag.packet_json(jsonb, text)
pgrag.validate_reply(jsonb, jsonb, text)
pgrag.excerpt(text, timestamptz, text)
pgrag.can_read(text, text, text)
pgrag.active_space(text)
pgrag.next_space(text)
pgrag.build_space(text, text)
pgrag.switch_space(text, text)
pgrag.retire_space(text, text)
pgrag.space_status(text)
pgrag.add_embeddings(text, text, text, integer, public.vector[])
pgrag.missing_embeddings(text, integer, boolean)
pgrag.maintain(interval)
pgrag.calibrate()
pgrag.index_status()
pgrag_private.expected_objects()
pgrag_private.catalog()
pgrag_private.expected_catalog()
pgrag_private.function_bodies()
pgrag_private.installed_bodies()
pgrag_private.doctor_checks()
pgrag_private.doctor_catalog()
pgrag_private.doctor_access()
pgrag_private.doctor_server()
pgrag_private.ledger_gaps(bigint)
pgrag_private.doctor_data()
pgrag_private.call_maintain()
pgrag_private.block_recall(pgrag_data.dense_block, integer)
pgrag_private.doctor_blocks()
pgrag.doctor()';

reset role;

-- sql/upgrade/begin.sql

-- Every reason not to upgrade; then the locks; then what is applied again below is cleared away. Which version
-- becomes which, and which functions stay, is said above, where this script was built.

-- Outside of a transaction nothing happens at all: see 00_roles.sql.
savepoint pgrag_install; -- noqa: PRS
set default_transaction_read_only = on;
set local pgrag.upgrading = 'begun';
-- The same upgrade whatever the session has set, and nothing found in public that is meant to be PostgreSQL's.
set local client_encoding = 'UTF8';
set local standard_conforming_strings = on;
set local search_path = pg_catalog, pg_temp;

do $$
declare
  v_from  text := current_setting('pgrag.upgrade_from', true);
  v_to    text := current_setting('pgrag.upgrade_to', true);
  v_found text;
begin
  if current_setting('pgrag.upgrading', true) is distinct from 'begun' then
    raise exception using errcode = 'RG110',
      message = 'the upgrade does not run as one transaction, so it does nothing',
      hint = 'psql -X -1 -v ON_ERROR_STOP=1 -f ...';
  end if;
  if current_setting('lock_timeout') = '0' then
    perform set_config('lock_timeout', '5s', true); -- so that it fails rather than hold up everybody behind it
  end if;

  if (select count(*) from pg_namespace n join pg_roles r on r.oid = n.nspowner
       where n.nspname in ('pgrag', 'pgrag_data', 'pgrag_private') and r.rolname = 'pgrag_owner') <> 3
     or to_regclass('public.pgrag_alembic_version') is null then
    raise exception using errcode = 'RG109', message = 'pgrag is not in this database',
      hint = 'Connect to the database that has it; to install it, run dist/pgrag--' || v_to || '.sql.';
  end if;

  -- Whoever owns the stamp installed; and only the owner of the database can take TEMP from PUBLIC.
  if not pg_has_role((select c.relowner from pg_class c where c.oid = 'public.pgrag_alembic_version'::regclass), 'usage')
     or not pg_has_role((select d.datdba from pg_database d where d.datname = current_database()), 'usage') then
    raise exception using errcode = 'RG104',
      message = format('role %I did not install pgrag or does not own this database, and may not upgrade it', current_user),
      hint = 'Upgrade as the role that installed it and owns the database, or as a superuser.';
  end if;

  -- Two upgrades at once: the second waits here, and then finds that there is nothing to do.
  begin
    lock table public.pgrag_alembic_version in share row exclusive mode;
  exception when lock_not_available then
    raise exception using errcode = 'RG112', message = 'another upgrade is under way', hint = 'Let it end, and look again.';
  end;
  select string_agg(version_num, ', ') into v_found from public.pgrag_alembic_version;
  if v_found is distinct from v_from then
    raise exception using errcode = 'RG111',
      message = format('this database has pgrag %s, and this script upgrades %s to %s', coalesce(v_found, 'without a version'), v_from, v_to),
      hint = case v_found when v_to then 'There is nothing to do.'
                          else 'Run the scripts dist/pgrag--<from>--<to>.sql that lead from the one to the other, in order.' end;
  end if;

  if not (select rolsuper from pg_roles where rolname = current_user) then
    begin
      execute format('grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with inherit false, set true', current_user);
    exception when insufficient_privilege then
      raise exception using errcode = 'RG104',
        message = format('role %I may not act as the roles that own pgrag', current_user),
        hint = format('As the role that installed pgrag first, or a superuser: '
                      'grant pgrag_owner, pgrag_engine, pgrag_viewer to %I with admin true, inherit false, set false;', current_user);
    end;
  end if;
end
$$;

-- The locks, all of them now: whoever has a token has read signing_key, so once that is had nobody is inside, no
-- statement sees half of one version and half of the other, and no two wait for each other. Readers wait from
-- here to the end.
set local role pgrag_owner;
do $$
declare
  v_tables  oid[];
  v_holders text;
begin
  select array_agg(c.oid order by c.relname <> 'signing_key', c.oid) into v_tables
    from pg_class c
   where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
     and c.relkind in ('r', 'p') and c.relowner = 'pgrag_owner'::regrole;
  begin
    execute format('lock table %s in access exclusive mode',
                   (select string_agg(t::regclass::text, ', ' order by n) from unnest(v_tables) with ordinality as u (t, n)));
  exception when lock_not_available or deadlock_detected then
    select string_agg(distinct l.pid::text, ', ') into v_holders
      from pg_locks l
     where l.database = (select oid from pg_database where datname = current_database())
       and l.relation = any (v_tables) and l.granted and l.pid <> pg_backend_pid();
    raise exception using errcode = 'RG112',
      message = format('pgrag is in use, and the upgrade waits no longer than %s', current_setting('lock_timeout')),
      detail = format('processes that have its tables locked: %s', coalesce(v_holders, 'none any more')),
      hint = 'Let their transactions end (pg_stat_activity lists them) and try again, or wait longer: PGOPTIONS="-c lock_timeout=1min".';
  end;
end
$$;

-- Policies: all of them, ours or not. A permissive one that the source has no more would let its rows out for good.
do $$
declare
  v_policy text;
begin
  for v_policy in
    select format('drop policy %I on %s', p.polname, c.oid::regclass) from pg_policy p join pg_class c on c.oid = p.polrelid
     where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relowner = 'pgrag_owner'::regrole
  loop
    execute v_policy;
  end loop;
end
$$;

-- Functions: one whose declaration has not changed is replaced in place, so that what calls it goes on. Any other goes
-- before its successor comes, or an old overload would stay and be called. So it is with types, which are in no table.
-- And with either goes what of pgrag's is built on it: functions, and indexes over them; and so does an index that
-- could not be built to the end.
set local role pgrag_engine;
do $$
declare
  v_types   oid[];
  v_gone    oid[];
  v_indexes text;
begin
  select array_agg(t.oid) into v_types
    from pg_type t join pg_class c on c.oid = t.typrelid
   where c.relkind = 'c' and t.typnamespace = 'pgrag_private'::regnamespace and t.typowner = 'pgrag_engine'::regrole
     and t.oid not in (
       select to_regtype(kept) from unnest(string_to_array(current_setting('pgrag.upgrade_keeps_types'), e'\n')) as k (kept)
        where to_regtype(kept) is not null);
  with recursive ours (oid) as (
    select p.oid from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.proowner = 'pgrag_engine'::regrole
  ), gone (oid) as (
    select o.oid from ours o
     where o.oid not in (
       select to_regprocedure(kept) from unnest(string_to_array(current_setting('pgrag.upgrade_keeps_functions'), e'\n')) as k (kept)
        where to_regprocedure(kept) is not null)
    union
    select d.objid
      from pg_depend d join pg_type t on t.oid = d.refobjid
     where d.refclassid = 'pg_type'::regclass and d.classid = 'pg_proc'::regclass
       and (t.oid = any (v_types) or t.typelem = any (v_types)) and d.objid in (select oid from ours)
    union
    select d.objid
      from gone g join pg_depend d on d.refobjid = g.oid
     where d.refclassid = 'pg_proc'::regclass and d.classid = 'pg_proc'::regclass and d.objid in (select oid from ours)
  )
  select array_agg(oid) into v_gone from gone;

  select string_agg(i.indexrelid::regclass::text, ', ') into v_indexes
    from pg_index i join pg_class c on c.oid = i.indrelid
   where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relowner = 'pgrag_owner'::regrole
     and (not i.indisvalid or exists (
       select from pg_depend d
        where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
          and d.refclassid = 'pg_proc'::regclass and d.refobjid = any (v_gone)));
  if v_indexes is not null then
    set local role pgrag_owner;
    execute 'drop index ' || v_indexes;
    set local role pgrag_engine;
  end if;
  if v_gone is not null then
    execute 'drop routine ' || (select string_agg(g::regprocedure::text, ', ') from unnest(v_gone) as u (g));
  end if;
  if v_types is not null then
    execute 'drop type ' || (select string_agg(t::regtype::text, ', ') from unnest(v_types) as u (t));
  end if;
end
$$;

-- Privileges: a grant that is not made below does not exist, whoever made it to whom.
reset role;
do $$
declare
  v_owner  text;
  v_revoke text;
begin
  for v_owner, v_revoke in
    select o.owner::regrole::text,
           format('revoke all on %s %s from %s cascade', o.kind, o.name, case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
      from (
        select c.relnamespace, c.relowner, case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, c.relacl
          from pg_class c where c.relkind in ('r', 'p', 'v', 'S')
        union all
        select c.relnamespace, c.relowner, 'table', c.oid::regclass::text, t.attacl
          from pg_attribute t join pg_class c on c.oid = t.attrelid
        union all
        select p.pronamespace, p.proowner, 'routine', p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
          from pg_proc p
        union all
        select t.typnamespace, t.typowner, 'type', t.oid::regtype::text, t.typacl from pg_type t
        union all
        select n.oid, n.nspowner, 'schema', quote_ident(n.nspname), n.nspacl from pg_namespace n
      ) o (schema, owner, kind, name, acl)
      cross join lateral aclexplode(o.acl) a
     where o.schema in ('pgrag'::regnamespace, 'pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
       and o.owner in ('pgrag_owner'::regrole, 'pgrag_engine'::regrole, 'pgrag_viewer'::regrole)
       and a.grantee <> o.owner
     group by o.kind, o.name, o.owner, a.grantee
     order by o.kind = 'schema' -- whose USAGE the others need
  loop
    execute 'set local role ' || v_owner;
    execute v_revoke;
  end loop;
  reset role;
  revoke all on public.pgrag_alembic_version from public, pgrag_engine;
end
$$;

reset role;

-- sql/01_schemas.sql

-- What is so before any object is made, or made again: nobody has TEMP, PUBLIC may not call what comes, and the
-- engine and the viewer may create. 99_grants.sql takes the last back.

-- Application roles get no TEMP: a temporary object is a name that other code might find first.
do $$
begin
  execute format('revoke temporary on database %I from public', current_database());
end
$$;

-- Only the global form of default privileges takes EXECUTE away from PUBLIC (the one with IN SCHEMA can only add).
set local role pgrag_engine;
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;
set local role pgrag_owner;
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;

-- The tables of blocks come and go, so they are kept apart: a backup can leave them out.
reset role;
do $$
begin
  if to_regnamespace('pgrag_block') is null then
    create schema pgrag_block authorization pgrag_owner;
  end if;
end
$$;
set local role pgrag_owner;
comment on schema pgrag_block is 'Tables that pgrag.maintain() builds and drops: vectors of one access list, or of a tenant, with their index.';
comment on schema pgrag is 'Evidence for retrieval-augmented generation: the functions and views that applications use.';
comment on schema pgrag_data is 'Tenant data of pgrag, under forced row-level security; reached through the functions of schema pgrag only.';
comment on schema pgrag_private is 'Keys and internals of pgrag; not for applications.';

grant usage, create on schema pgrag to pgrag_engine, pgrag_viewer;
grant usage on schema pgrag_data to pgrag_engine, pgrag_viewer;
grant usage, create on schema pgrag_private to pgrag_engine;
grant usage on schema pgrag_block to pgrag_engine;
grant usage on schema pgrag_private to pgrag_viewer;

set local role pgrag_owner;

-- migrations/sql/0.3.0.sql

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

set local role pgrag_owner;

-- sql/policies/engine.sql

-- The engine's policies: constant true, which the planner folds away, so that indexes on operators which
-- are not leakproof (@@, <=>, array and jsonb operators) stay usable. No other role has a policy, except
-- pgrag_viewer (viewer.sql): with row-level security forced, everyone else sees no row.
create policy pgrag_tenant_engine on pgrag_data.tenant for all to pgrag_engine using (true) with check (true);
create policy pgrag_principal_engine on pgrag_data.principal for all to pgrag_engine using (true) with check (true);
create policy pgrag_membership_engine on pgrag_data.membership for all to pgrag_engine using (true) with check (true);
create policy pgrag_acl_engine on pgrag_data.acl for all to pgrag_engine using (true) with check (true);
create policy pgrag_acl_entry_engine on pgrag_data.acl_entry for all to pgrag_engine using (true) with check (true);
create policy pgrag_source_engine on pgrag_data.source for all to pgrag_engine using (true) with check (true);
create policy pgrag_embedding_space_engine on pgrag_data.embedding_space for all to pgrag_engine using (true) with check (true);
create policy pgrag_document_engine on pgrag_data.document for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_engine on pgrag_data.revision for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_source_engine on pgrag_data.revision_source for all to pgrag_engine using (true) with check (true);
create policy pgrag_activation_engine on pgrag_data.activation for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_engine on pgrag_data.chunk for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_lex_engine on pgrag_data.chunk_lex for all to pgrag_engine using (true) with check (true);
create policy pgrag_chunk_vec_engine on pgrag_data.chunk_vec for all to pgrag_engine using (true) with check (true);
create policy pgrag_revision_space_engine on pgrag_data.revision_space for all to pgrag_engine using (true) with check (true);
create policy pgrag_scope_total_engine on pgrag_data.scope_total for all to pgrag_engine using (true) with check (true);
create policy pgrag_dense_block_engine on pgrag_data.dense_block for all to pgrag_engine using (true) with check (true);
create policy pgrag_search_cost_engine on pgrag_data.search_cost for all to pgrag_engine using (true) with check (true);
create policy pgrag_signing_key_engine on pgrag_private.signing_key for all to pgrag_engine using (true) with check (true);
create policy pgrag_internal_key_engine on pgrag_private.internal_key for all to pgrag_engine using (true) with check (true);

-- What the engine may do, table by table: it never truncates, and it deletes only what functions delete.
grant select, insert, update on pgrag_data.tenant, pgrag_data.principal, pgrag_data.source, pgrag_data.document,
  pgrag_data.revision, pgrag_data.embedding_space to pgrag_engine;
grant select, insert, delete on pgrag_data.membership, pgrag_data.chunk_vec, pgrag_data.revision_space to pgrag_engine;
grant select, insert, update, delete on pgrag_data.dense_block, pgrag_data.scope_total to pgrag_engine;
grant select, insert, update on pgrag_data.search_cost to pgrag_engine;
grant select, insert on pgrag_data.acl, pgrag_data.acl_entry, pgrag_data.revision_source,
  pgrag_data.activation, pgrag_data.chunk, pgrag_data.chunk_lex to pgrag_engine;
grant select, insert, update on pgrag_private.signing_key to pgrag_engine;
grant select, insert on pgrag_private.internal_key to pgrag_engine;
-- For pg_dump --role=pgrag_engine, which reads the state of the identity sequences.
grant select on all sequences in schema pgrag_data to pgrag_engine;

-- sql/functions/private/block_table.sql

-- The tables of blocks, which their owner makes, indexes and drops; pgrag.maintain() calls these, and nobody else may.
-- They are named by number: any role can read a catalog.

create or replace function pgrag_private.create_block_table(p_block_id bigint, p_dimension integer) returns oid
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp as $$
begin
  execute format('create table pgrag_block.%I (revision_id bigint not null, chunk_no integer not null, embedding public.halfvec(%s) not null)',
                 'b' || p_block_id, p_dimension);
  execute format('alter table pgrag_block.%I alter column embedding set storage plain, enable row level security, force row level security', 'b' || p_block_id);
  execute format('create policy pgrag_block_engine on pgrag_block.%I for all to pgrag_engine using (true) with check (true)', 'b' || p_block_id);
  execute format('grant select, insert on pgrag_block.%I to pgrag_engine', 'b' || p_block_id);
  return to_regclass('pgrag_block.b' || p_block_id);
end
$$;

-- Built by several workers, an index lies in shared memory while it is built, of which a container often has little: then by one.
create or replace function pgrag_private.index_block_table(p_block_id bigint) returns void
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_create constant text := format('create index %I on pgrag_block.%I using hnsw (embedding public.halfvec_cosine_ops) with (m = 16, ef_construction = 100)',
                                   'b' || p_block_id || '_embedding', 'b' || p_block_id);
begin
  begin
    execute v_create;
    return;
  exception when disk_full or out_of_memory then
    if current_setting('max_parallel_maintenance_workers') = '0' then
      raise;
    end if;
    perform set_config('max_parallel_maintenance_workers', '0', true);
  end;
  execute v_create;
exception when disk_full or out_of_memory then
  raise exception using errcode = 'RG113', message = 'the index of a block could not be built: ' || sqlerrm,
    hint = 'Make room on disk, or build with less: set maintenance_work_mem.';
end
$$;

-- False: somebody still reads it, and whoever came after would wait behind us; another time.
create or replace function pgrag_private.drop_block_table(p_block_id bigint) returns boolean
language plpgsql volatile parallel unsafe security definer set search_path = pg_catalog, pg_temp set lock_timeout = '20ms' as $$
begin
  execute format('drop table if exists pgrag_block.%I', 'b' || p_block_id);
  return true;
exception when lock_not_available then
  return false;
end
$$;

set local role pgrag_engine;

-- sql/types.sql

-- What passes between the private functions, and lies in no table: an upgrade drops a type that has changed.

-- Who is asking, once proven: what a token says, in internal ids. reader_id is 0 for a subject that the
-- tenant does not know, which is in no access list.
-- create type pgrag_private.principal: as in 0.2.0

-- One search, as asked: the arguments of pgrag.search. Its checks are in check_search.
-- create type pgrag_private.search_request: as in 0.2.0

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
-- create type pgrag_private.ranked_chunk: as in 0.2.0

-- What pgrag.doctor() has found.
create type pgrag_private.doctor_finding as (
  check_name text,
  severity   text,
  object     text,
  finding    text,
  remedy     text
);

-- sql/functions/private/pinned_settings.sql

-- What any role may set and would otherwise reach into the definer functions: each of these gets all of them, the same for all readers
-- and for all writers, at every installation and upgrade (98_settings.sql). A test compares, and so does pgrag.doctor().
--
--   row_security                         switched off, every query on a table of pgrag's would be an error
--   plan_cache_mode, jit                 a generic plan or a JIT compilation turned a search of 0.4 ms into seconds; a custom one turned a
--                                        write into seconds: of a tenant that statistics do not know yet it reads all, for each row, and
--                                        foreign keys are checked by the same setting
--   geqo                                 set to begin at few tables, it fails on those that are looked up row by row (XX000)
--   standard_conforming_strings          otherwise a backslash in a pattern changes its meaning
--   transform_null_equals, array_nulls   what "= null" and a "null" in an array literal mean
--   debug_print_…                        plans hold parameters, and parameters hold keys
--   gin_fuzzy_search_limit               answers at random
--   the rest                             the form of times and bytes, which hashes and seals are made of
create or replace function pgrag_private.pinned_settings(p_volatile boolean) returns table (name text, value text)
language sql immutable parallel safe rows 16
begin atomic
  select s.name, s.value
    from (values ('row_security', 'on'), ('plan_cache_mode', case when p_volatile then 'force_generic_plan' else 'force_custom_plan' end), ('jit', 'off'),
                 ('geqo', 'off'), ('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('array_nulls', 'on'), ('gin_fuzzy_search_limit', '0'),
                 ('TimeZone', 'UTC'), ('DateStyle', 'ISO, YMD'), ('IntervalStyle', 'iso_8601'), ('bytea_output', 'hex'), ('extra_float_digits', '1'),
                 ('debug_print_parse', 'off'), ('debug_print_rewritten', 'off'), ('debug_print_plan', 'off')) as s (name, value);
end;

-- sql/functions/private/hmac_key.sql

-- One padded block of an HMAC-SHA256 key (RFC 2104): the key, to 64 bytes, each byte xor p_byte. Made once,
-- when a key is added, so that verifying needs no more than two calls of the built-in sha256.
create or replace function pgrag_private.hmac_pad(p_secret bytea, p_byte integer) returns bytea
language plpgsql immutable parallel safe as $$
declare
  v_block bytea := case when octet_length(p_secret) > 64 then sha256(p_secret) else p_secret end;
begin
  v_block := v_block || decode(repeat('00', 64 - octet_length(v_block)), 'hex');
  for i in 0..63 loop
    v_block := set_byte(v_block, i, get_byte(v_block, i) # p_byte);
  end loop;
  return v_block;
end
$$;

-- 256 bits from the server's strong random source (each UUID carries 122).
create or replace function pgrag_private.random_secret() returns bytea
language sql volatile parallel safe
return sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- sql/functions/private/internal_mac.sql

-- HMAC-SHA256 of a text under one of this database's own keys, as hex. Key bytes stand only in plain
-- assignments: in an SQL statement or an SQL-language function they could be printed with the plan.
-- Nobody but the engine may call it: a function that signs what its caller chooses is a forge.
create or replace function pgrag_private.internal_mac(p_purpose text, p_message text) returns text
language plpgsql stable parallel restricted as $$
declare
  v_inner bytea;
  v_outer bytea;
  v_mac   bytea;
begin
  select k.inner_pad, k.outer_pad into v_inner, v_outer
    from pgrag_private.internal_key k where k.purpose = p_purpose;
  if not found then
    raise exception using errcode = 'RG212', message = 'this database has no internal keys',
      hint = 'It was restored without them: make new ones, as docs/operations.md says.';
  end if;
  v_mac := sha256(v_outer || sha256(v_inner || convert_to(p_message, 'UTF8')));
  return encode(v_mac, 'hex');
end
$$;

-- sql/functions/private/verify_token.sql

-- A JWT, HS256, to the principal that it proves. The order is fixed: sizes and alphabet, then the header (it
-- names the key, so it must be read before the signature is checked), then the signature, and only then is
-- anything of the payload looked at. An unknown key and a bad signature are one error.
create or replace function pgrag_private.verify_token(p_token text) returns pgrag_private.principal
language plpgsql stable parallel restricted as $$
declare
  v_parts     text[];
  v_header    jsonb;
  v_claims    jsonb;
  v_key       record;
  v_mac       bytea;
  v_given     bytea;
  v_now       numeric := extract(epoch from clock_timestamp());
  v_principal pgrag_private.principal;
begin
  if octet_length(p_token) > 4096 then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'it is longer than 4096 bytes', hint = 'Pass a compact JWT signed with HS256.';
  end if;
  v_parts := string_to_array(p_token, '.');
  if coalesce(cardinality(v_parts), 0) <> 3
     or translate(p_token, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.', '') <> '' then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'it is not three parts of base64url', hint = 'Pass a compact JWT signed with HS256.';
  end if;

  begin
    v_header := pgrag_private.decode_part(v_parts[1]);
    v_given  := pgrag_private.decode_base64url(v_parts[3]);
  exception when others then
    v_header := null; -- refused below, without the decoder's words
  end;
  if v_header is null or v_header ->> 'alg' is distinct from 'HS256' or v_header ? 'crit'
     or jsonb_typeof(v_header -> 'kid') is distinct from 'string' then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'its header must be a JSON object with alg HS256 and a kid, without crit',
      hint = 'Mint it with pgrag.tokens.mint, or any JWT library set to HS256.';
  end if;

  select k.issuer, k.audience, k.inner_pad, k.outer_pad into v_key
    from pgrag_private.signing_key k where k.kid = v_header ->> 'kid' and k.retired_at is null;
  if found then
    v_mac := sha256(v_key.outer_pad || sha256(v_key.inner_pad || convert_to(v_parts[1] || '.' || v_parts[2], 'UTF8')));
  end if;
  -- Digests of the two are compared, so that the time taken says nothing of the right signature.
  -- A MAC has one spelling: the last letter carries two bits that the decoder drops.
  if v_mac is null or sha256(v_mac) <> sha256(v_given)
     or translate(rtrim(encode(v_given, 'base64'), '='), '+/', '-_') <> v_parts[3] then
    raise exception using errcode = 'RG203', message = 'the token''s signature is not accepted',
      hint = 'Sign with a key that pgrag.add_signing_key registered and that is not retired.';
  end if;

  begin
    v_claims := pgrag_private.decode_part(v_parts[2]);
  exception when others then
    v_claims := null;
  end;
  if v_claims is null
     or jsonb_typeof(v_claims -> 'sub') is distinct from 'string'
     or jsonb_typeof(v_claims -> 'tenant') is distinct from 'string'
     or jsonb_typeof(v_claims -> 'exp') is distinct from 'number'
     or jsonb_typeof(coalesce(v_claims -> 'nbf', '0'::jsonb)) is distinct from 'number'
     or coalesce(v_claims ->> 'kind', '') not in ('reader', 'writer', 'admin', 'auditor')
     or (v_claims ->> 'kind' = 'writer') <> coalesce(jsonb_typeof(v_claims -> 'source') = 'string', false)
     or length(v_claims ->> 'sub') not between 1 and 200 then
    raise exception using errcode = 'RG202', message = 'the token is not a token that pgrag understands',
      detail = 'its claims must hold sub, tenant, exp and kind (reader, writer, admin, auditor); source for a writer and nobody else',
      hint = 'Mint it with pgrag.tokens.mint, or see the claims in docs/identity.md.';
  end if;
  if v_claims ->> 'iss' is distinct from v_key.issuer
     or not coalesce(v_claims -> 'aud' @> to_jsonb(v_key.audience), false) then
    raise exception using errcode = 'RG206', message = 'the token was issued by or for somebody else',
      detail = 'its iss or aud is not the one registered with its key',
      hint = 'Mint it with the issuer and audience that the key was added with.';
  end if;
  if (v_claims ->> 'exp')::numeric <= v_now then
    raise exception using errcode = 'RG204', message = 'the token has expired', hint = 'Mint a new one.';
  end if;
  if (v_claims ->> 'nbf')::numeric > v_now then
    raise exception using errcode = 'RG205', message = 'the token is not valid yet',
      hint = 'Wait, or compare the clocks of the two servers.';
  end if;

  v_principal.kid        := v_header ->> 'kid';
  v_principal.kind       := v_claims ->> 'kind';
  v_principal.subject    := v_claims ->> 'sub';
  v_principal.expires_at := least(floor((v_claims ->> 'exp')::numeric), 253402300799); -- the year 9999
  select t.tenant_id into v_principal.tenant_id
    from pgrag_data.tenant t where t.tenant = v_claims ->> 'tenant';
  select s.source_id into v_principal.source_id
    from pgrag_data.source s
   where s.tenant_id = v_principal.tenant_id and s.source = v_claims ->> 'source' and v_principal.kind = 'writer';
  if v_principal.tenant_id is null or (v_principal.kind = 'writer' and v_principal.source_id is null) then
    raise exception using errcode = 'RG207', message = 'the token''s tenant or source is not accepted',
      hint = 'Check the tenant and source that the token was minted for.';
  end if;
  select p.principal_id into v_principal.reader_id
    from pgrag_data.principal p
   where p.tenant_id = v_principal.tenant_id and p.name = v_principal.subject
     and p.kind in ('user', 'service') and p.dropped_at is null and v_principal.kind = 'reader';
  v_principal.reader_id := coalesce(v_principal.reader_id, 0);
  v_principal.source_id := coalesce(v_principal.source_id, 0);
  return v_principal;
end
$$;

-- base64url without padding to bytes. The alphabet was checked: PostgreSQL's decoder skips white space.
create or replace function pgrag_private.decode_base64url(p_part text) returns bytea
language sql immutable parallel safe
return decode(translate(p_part, '-_', '+/') || repeat('=', (4 - length(p_part) % 4) % 4), 'base64');

-- One part of a token to a JSON object, or null: an object that says a key twice is two statements, not one.
create or replace function pgrag_private.decode_part(p_part text) returns jsonb
language plpgsql immutable parallel safe as $$
declare
  v_text text := convert_from(pgrag_private.decode_base64url(p_part), 'UTF8');
begin
  if v_text is json object with unique keys then
    return v_text::jsonb;
  end if;
  return null;
end
$$;

-- sql/functions/private/current_principal.sql

-- The principal of this call: from the token where one is passed, otherwise from the setting that
-- pgrag.authenticate left in this transaction. The setting is any role's to write, so it counts only with
-- this database's MAC over it, this backend and this transaction; nothing of it is cast before that.
create or replace function pgrag_private.current_principal(p_token text, variadic p_kinds text[]) returns pgrag_private.principal
language plpgsql stable parallel restricted set plan_cache_mode = force_generic_plan as $$
declare
  v_setting   text := nullif(current_setting('pgrag.principal', true), '');
  v_fields    text[];
  v_principal pgrag_private.principal;
begin
  if p_token is not null then
    v_principal := pgrag_private.verify_token(p_token);
  elsif v_setting is null then
    raise exception using errcode = 'RG201', message = 'nobody is authenticated in this transaction',
      hint = 'begin; select pgrag.authenticate($1); …; commit; or, for a single statement, pass the token as p_token.';
  else
    v_fields := string_to_array(v_setting, '|');
    if octet_length(v_setting) > 2048 or cardinality(v_fields) <> 10
       or sha256(convert_to(v_fields[10], 'UTF8')) is distinct from
          sha256(convert_to(pgrag_private.internal_mac('session', array_to_string(v_fields[1:9], '|')), 'UTF8'))
       or v_fields[9] <> pgrag_private.transaction_mark() then
      raise exception using errcode = 'RG208', message = 'the session''s principal is not accepted',
        detail = 'the setting pgrag.principal was not made by pgrag.authenticate in this transaction',
        hint = 'Call pgrag.authenticate in each transaction, and leave the setting alone.';
    end if;
    v_principal := row(v_fields[2], v_fields[3], v_fields[4], v_fields[5], v_fields[6],
                       convert_from(decode(v_fields[7], 'hex'), 'UTF8'), v_fields[8]);
    if not exists (select from pgrag_private.signing_key k where k.kid = v_principal.kid and k.retired_at is null) then
      raise exception using errcode = 'RG203', message = 'the token''s signature is not accepted',
        hint = 'Its key was retired: mint a token with another, and authenticate again.';
    end if;
    if v_principal.expires_at <= extract(epoch from clock_timestamp()) then
      raise exception using errcode = 'RG204', message = 'the token has expired',
        hint = 'End the transaction, mint a new token and authenticate again.';
    end if;
    if clock_timestamp() > transaction_timestamp() + interval '1 hour' then
      raise exception using errcode = 'RG210', message = 'the transaction is too old for its principal',
        detail = 'a principal is accepted for one hour of a transaction',
        hint = 'Commit, begin again and authenticate again.';
    end if;
  end if;
  if v_principal.kind <> all (p_kinds) then
    raise exception using errcode = 'RG209',
      message = format('a token of kind %s cannot do this', v_principal.kind),
      detail = format('needed: %s', array_to_string(p_kinds, ' or ')),
      hint = 'Mint a token of the kind that the function is for.';
  end if;
  return v_principal;
end
$$;

-- What ties a setting to one transaction of one backend.
create or replace function pgrag_private.transaction_mark() returns text
language sql stable parallel restricted
return pg_backend_pid() || ':' || (extract(epoch from transaction_timestamp()) * 1000000)::bigint;

-- sql/functions/private/check_name.sql

-- What is only white space or invisible. Spelled out: what [:space:] holds depends on the database's locale.
create or replace function pgrag_private.is_blank(p_text text) returns boolean
language sql immutable parallel safe
return p_text !~ '[^[:space:]\u00A0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF]';

-- Names are keys: they must be sayable in a log line and the same to every client. So no control characters, no
-- characters that show nothing or turn the direction of writing, and no white space at either end.
create or replace function pgrag_private.is_sayable(p_text text) returns boolean
language sql immutable parallel safe
return p_text <> ''
   and p_text !~ '[[:cntrl:]\u0080-\u009F\u00AD\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF]'
   and p_text !~ '^[[:space:]\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]|[[:space:]\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000]$';

create or replace function pgrag_private.check_name(p_what text, p_name text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_name is null or length(p_name) > 200 or not pgrag_private.is_sayable(p_name) then
    raise exception using errcode = 'RG406', message = format('this cannot be the name of the %s', p_what),
      hint = 'Use 1 to 200 characters, without control characters and without white space at either end.';
  end if;
  return p_name;
end
$$;

create or replace function pgrag_private.is_language(p_text text) returns boolean
language sql immutable parallel safe
return length(p_text) <= 35 and p_text ~ '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$';

-- A document key is relative to its source: the path of a file on somebody's machine is not an address.
create or replace function pgrag_private.check_document(p_document text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_document is null or length(p_document) > 1000 or octet_length(p_document) > 2000 or not pgrag_private.is_sayable(p_document)
     or p_document ~* '^(/|~|[a-z]:|file:)' or p_document ~ '(^|/)[.][.](/|$)' or position(chr(92) in p_document) > 0 then
    raise exception using errcode = 'RG406', message = 'this is no key for a document',
      detail = 'a key has 1 to 1000 characters (2000 bytes), is relative to its source, and has no control characters, backslashes or ".."',
      hint = 'Use the path below the source''s root, with forward slashes, or the source''s own identifier.';
  end if;
  return p_document;
end
$$;

-- sql/functions/private/find.sql

-- Names to internal ids. "Not there" and "not yours" are the same answer everywhere: RG401.
create or replace function pgrag_private.not_found(p_what text) returns void
language plpgsql immutable parallel safe as $$
begin
  raise exception using errcode = 'RG401', message = format('there is no such %s', p_what),
    hint = 'Check the name; what you may not see is answered in the same way.';
end
$$;

create or replace function pgrag_private.find_tenant(p_tenant text) returns bigint
language plpgsql stable parallel restricted as $$
declare
  v_id bigint;
begin
  select t.tenant_id into v_id from pgrag_data.tenant t where t.tenant = p_tenant;
  if not found then
    perform pgrag_private.not_found('tenant');
  end if;
  return v_id;
end
$$;

create or replace function pgrag_private.find_space(p_tenant_id bigint, p_space text) returns pgrag_data.embedding_space
language plpgsql stable parallel restricted as $$
declare
  v_space pgrag_data.embedding_space;
begin
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = p_tenant_id and s.space = p_space;
  if not found then
    perform pgrag_private.not_found('embedding space');
  end if;
  return v_space;
end
$$;

create or replace function pgrag_private.find_principal(p_tenant_id bigint, p_name text) returns pgrag_data.principal
language plpgsql stable parallel restricted as $$
declare
  v_principal pgrag_data.principal;
begin
  select p.* into v_principal from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.name = p_name and p.dropped_at is null;
  if not found then
    perform pgrag_private.not_found('principal');
  end if;
  return v_principal;
end
$$;

-- The source that a writer or an admin acts on: a writer's own, and no other; an admin names one of its tenant.
create or replace function pgrag_private.find_source(p_principal pgrag_private.principal, p_source text) returns pgrag_data.source
language plpgsql stable parallel restricted as $$
declare
  v_source pgrag_data.source;
begin
  if p_principal.kind = 'admin' and p_source is null then
    raise exception using errcode = 'RG408', message = 'an administrator must name the source',
      hint = 'Pass p_source: an administrator''s token is for every source of its tenant.';
  end if;
  select s.* into v_source
    from pgrag_data.source s
   where s.tenant_id = p_principal.tenant_id
     and case when p_principal.kind = 'writer'
              then s.source_id = p_principal.source_id and s.source = coalesce(p_source, s.source)
              else s.source = p_source end;
  if not found then
    perform pgrag_private.not_found('source');
  end if;
  return v_source;
end
$$;

create or replace function pgrag_private.find_document(p_source pgrag_data.source, p_document text) returns pgrag_data.document
language plpgsql stable parallel restricted as $$
declare
  v_document pgrag_data.document;
begin
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = p_source.tenant_id and d.source_id = p_source.source_id and d.document = p_document;
  if not found then
    perform pgrag_private.not_found('document');
  end if;
  return v_document;
end
$$;

create or replace function pgrag_private.find_revision(p_document pgrag_data.document, p_revision text) returns pgrag_data.revision
language plpgsql stable parallel restricted as $$
declare
  v_revision pgrag_data.revision;
begin
  select r.* into v_revision from pgrag_data.revision r
   where r.tenant_id = p_document.tenant_id and r.document_id = p_document.document_id and r.revision = p_revision;
  if not found then
    perform pgrag_private.not_found('revision');
  end if;
  return v_revision;
end
$$;

-- sql/functions/private/fingerprint.sql

-- SHA-256 over parts, each with its length in front, so that no two lists of parts read alike.
create or replace function pgrag_private.fingerprint(variadic p_parts text[]) returns bytea
language sql immutable parallel safe
return (
  select sha256(convert_to(coalesce(string_agg(coalesce(octet_length(part) || ':' || part, '-'), ',' order by n), ''), 'UTF8'))
    from unnest(p_parts) with ordinality as parts (part, n)
);

-- sql/functions/private/formats.sql

-- Scores leave the database with six decimals and no trailing zeros, so that a packet's seal survives any JSON library.
create or replace function pgrag_private.score(p_score double precision) returns numeric
language sql immutable parallel safe
return trim_scale(round(p_score::numeric, 6));

-- Times leave it in UTC with microseconds, whatever the caller's settings; an open end of a period is null.
create or replace function pgrag_private.utc(p_time timestamptz) returns text
language sql stable parallel safe
return case when isfinite(p_time) then to_char(p_time, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') end;

-- sql/functions/private/to_lexemes.sql

-- Text to lexemes, for chunks and questions alike. The language picks the stemmer, and one that PostgreSQL
-- does not know is split into words and otherwise left alone ('simple').
create or replace function pgrag_private.text_config(p_language text) returns regconfig
language sql immutable parallel safe
return case split_part(lower(p_language), '-', 1)
  when 'ar' then 'pg_catalog.arabic'::regconfig
  when 'ca' then 'pg_catalog.catalan'::regconfig
  when 'da' then 'pg_catalog.danish'::regconfig
  when 'de' then 'pg_catalog.german'::regconfig
  when 'el' then 'pg_catalog.greek'::regconfig
  when 'en' then 'pg_catalog.english'::regconfig
  when 'es' then 'pg_catalog.spanish'::regconfig
  when 'eu' then 'pg_catalog.basque'::regconfig
  when 'fi' then 'pg_catalog.finnish'::regconfig
  when 'fr' then 'pg_catalog.french'::regconfig
  when 'ga' then 'pg_catalog.irish'::regconfig
  when 'hi' then 'pg_catalog.hindi'::regconfig
  when 'hu' then 'pg_catalog.hungarian'::regconfig
  when 'hy' then 'pg_catalog.armenian'::regconfig
  when 'id' then 'pg_catalog.indonesian'::regconfig
  when 'it' then 'pg_catalog.italian'::regconfig
  when 'lt' then 'pg_catalog.lithuanian'::regconfig
  when 'nb' then 'pg_catalog.norwegian'::regconfig
  when 'ne' then 'pg_catalog.nepali'::regconfig
  when 'nl' then 'pg_catalog.dutch'::regconfig
  when 'nn' then 'pg_catalog.norwegian'::regconfig
  when 'no' then 'pg_catalog.norwegian'::regconfig
  when 'pt' then 'pg_catalog.portuguese'::regconfig
  when 'ro' then 'pg_catalog.romanian'::regconfig
  when 'ru' then 'pg_catalog.russian'::regconfig
  when 'sr' then 'pg_catalog.serbian'::regconfig
  when 'sv' then 'pg_catalog.swedish'::regconfig
  when 'ta' then 'pg_catalog.tamil'::regconfig
  when 'tr' then 'pg_catalog.turkish'::regconfig
  when 'yi' then 'pg_catalog.yiddish'::regconfig
  else 'pg_catalog.simple'::regconfig
end;

-- Runs of characters from scripts that PostgreSQL's parser does not divide into words: Thai, Lao, Myanmar, Khmer, kana, Han,
-- Hangul (spaced, but its words carry their particles), and the supplementary Han planes.
create or replace function pgrag_private.unspaced_run() returns text
language sql immutable parallel safe
return '[\u0e01-\u0e4e\u0e80-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf'
       '\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003134f]+';

-- A run as its pairs of neighbours, or the one character that it is. Not with substr, which counts from the start of the text each
-- time: a long run would take seconds.
create or replace function pgrag_private.pairs_of(p_run text) returns table (pair text, place bigint)
language sql immutable parallel safe
begin atomic
  select c.one || coalesce(c.next, ''), c.place
    from (select one, lead(one) over (order by place) as next, place from string_to_table(p_run, null) with ordinality as t (one, place)) c
   where c.next is not null or c.place = 1;
end;

-- "abc" is ab and bc at neighbouring places, so that a quoted "abc" asks for ab followed by bc; a single one stands alone.
create or replace function pgrag_private.unspaced_pairs(p_text text) returns tsvector
language sql immutable parallel safe
return coalesce((
  select string_agg(format('''%s'':%s', pair, least(before + place, 16383)), ' ')::tsvector
    from (select found[1] as run, sum(length(found[1]) + 1) over (order by n) - length(found[1]) as before
            from regexp_matches(p_text, pgrag_private.unspaced_run(), 'g') with ordinality as matches (found, n)) runs
   cross join lateral pgrag_private.pairs_of(run)
), ''::tsvector);

-- PostgreSQL's parser reads the "-402" of "PAY-402" as a negative number and keeps "refund/return" whole as a file's
-- name, so a hyphen before a digit and a slash between letters or digits split.
create or replace function pgrag_private.split_joined(p_text text) returns text
language sql immutable parallel safe
return regexp_replace(p_text, '([[:alnum:]])(?:-(?=[0-9])|/(?=[[:alnum:]]))', '\1 ', 'g');

-- It takes "snake_case" and "v2.3.1" apart, so an identifier (joined by - _ . / : # and holding a digit or an underscore) is
-- kept whole as a lexeme of its own, "pay-402", and so is each part of it between / : #.
create or replace function pgrag_private.spaced_words(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector(pgrag_private.text_config(p_language), pgrag_private.split_joined(p_text))
  || coalesce((
       select string_agg(format('''%s'':%s', lexeme, n), ' ')::tsvector
         from (select distinct lower(part) as lexeme, least(n, 16383) as n
                 from regexp_matches(p_text, '[[:alnum:]]+(?:[-_./:#][[:alnum:]]+)+', 'g') with ordinality as matches (found, n)
                cross join lateral unnest(array[found[1]] || regexp_split_to_array(found[1], '[/:#]')) as parts (part)
                where part ~ '[0-9_]' and part ~ '[-_./:#]' and length(part) <= 200) identifiers
     ), ''::tsvector);

-- Letters are composed first: a base letter with a mark is the letter. Scripts that write no spaces become pairs of
-- neighbouring characters instead of words, whatever the language.
create or replace function pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
language sql immutable parallel safe
return case when p_text ~ pgrag_private.unspaced_run() then
         pgrag_private.spaced_words(p_language, regexp_replace(normalize(p_text, nfc), pgrag_private.unspaced_run(), ' ', 'g'))
         || pgrag_private.unspaced_pairs(normalize(p_text, nfc))
       else pgrag_private.spaced_words(p_language, normalize(p_text, nfc)) end;

-- How many lexemes a vector stands for, repetitions counted: the length of a document in BM25.
create or replace function pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
language sql immutable parallel safe
return (select coalesce(sum(coalesce(cardinality(positions), 1)), 0)::integer from unnest(p_lexemes) as entry (lexeme, positions, weights));

-- The keys of the index chunk_lex_keys. With the tenant as the seed, one tenant's postings and their statistics are its own. SHA-256
-- comes first because PostgreSQL's own hash can be run backwards: a word made to have the key of another tenant's word would
-- count, in what PostgreSQL tells of its scans, the chunks of that tenant that have it.
-- The cost says that no plan may compute them row by row.
create or replace function pgrag_private.lexeme_keys(p_tenant_id bigint, p_lexemes text[]) returns bigint[]
language sql immutable parallel safe cost 10000
return array(select hashtextextended(encode(sha256(convert_to(lexeme, 'UTF8')), 'hex') collate "C", p_tenant_id) from unnest(p_lexemes) as l (lexeme));
grant execute on function pgrag_private.lexeme_keys to pgrag_owner; -- who builds the index

-- sql/functions/private/question.sql

-- A question as it is written. "Two words" in double quotes is a phrase that a hit must hold; -word or -"two words" at
-- the very end is one that it must not. Anywhere else a hyphen is a hyphen, as in "lift -dash approximate methods" or
-- "Kunden und -partner", and a quote without its partner is no quote. Nothing here is a syntax error.
create or replace function pgrag_private.parse_question(p_question text, out words text, out phrases text[], out excluded text[])
language plpgsql immutable parallel safe as $$
declare
  v_question   text := translate(p_question, chr(160), ' '); -- a no-break space, which is one in some locales and not in others
  v_exclusions text := substring(v_question from '(?:^|\s)((?:-(?:"[^"]+"|[[:alpha:]][^[:space:]"]*)(?:\s+|$))+)$');
begin
  words := case when v_exclusions is null then v_question else left(v_question, length(v_question) - length(v_exclusions)) end;
  if words ~* '(?:^|\s)(?:und|oder|sowie|bzw\.|and|or)\s*$' then
    words := v_question;
    v_exclusions := null;
  end if;
  excluded := array(select coalesce(match[1], match[2])
                      from regexp_matches(v_exclusions, '-(?:"([^"]+)"|([[:alpha:]][^[:space:]"]*))', 'g') as m (match));
  phrases := array(select match[1] from regexp_matches(words, '"([^"]*[[:alnum:]][^"]*)"', 'g') as m (match));
  words := translate(words, '"', ' ');
end
$$;

-- A phrase as a query: its words in order, in a language; null if it has nothing but stop words. Unspaced scripts
-- are chains of their pairs.
create or replace function pgrag_private.phrase_query(p_language text, p_phrase text) returns tsquery
language plpgsql immutable parallel safe as $$
declare
  v_phrase text := normalize(p_phrase, nfc);
  v_config regconfig := pgrag_private.text_config(p_language);
  v_spaced text := pgrag_private.split_joined(regexp_replace(v_phrase, pgrag_private.unspaced_run(), ' ', 'g'));
  v_query  tsquery;
  v_pairs  tsquery;
begin
  if to_tsvector(v_config, v_spaced) <> ''::tsvector then -- of an empty one PostgreSQL would tell the client
    v_query := phraseto_tsquery(v_config, v_spaced);
  end if;
  for v_pairs in
    select (select string_agg(quote_literal(pair), ' <-> ' order by place) from pgrag_private.pairs_of(match[1]))::tsquery
      from regexp_matches(v_phrase, pgrag_private.unspaced_run(), 'g') as m (match)
  loop
    v_query := coalesce(v_query && v_pairs, v_pairs);
  end loop;
  return v_query;
end
$$;

-- What a chunk of a language must and must not hold; null: there is no such condition, or it has only stop words.
create or replace function pgrag_private.question_condition(p_language text, p_phrases text[], p_excluded text[]) returns tsquery
language plpgsql immutable parallel safe as $$
declare
  v_condition tsquery;
  v_query     tsquery;
  v_text      text;
begin
  foreach v_text in array p_phrases loop
    v_query := pgrag_private.phrase_query(p_language, v_text);
    v_condition := coalesce(v_condition && v_query, v_condition, v_query);
  end loop;
  foreach v_text in array p_excluded loop
    v_query := !! pgrag_private.phrase_query(p_language, v_text);
    v_condition := coalesce(v_condition && v_query, v_condition, v_query);
  end loop;
  return v_condition;
end
$$;

-- The lexemes of phrases: a chunk that holds the phrases has all of them.
create or replace function pgrag_private.phrase_lexemes(p_language text, p_phrases text[]) returns text[]
language sql immutable parallel safe
return (select array_agg(distinct lexeme)
          from unnest(p_phrases) as p (phrase)
         cross join lateral unnest(tsvector_to_array(
           to_tsvector(pgrag_private.text_config(p_language), pgrag_private.split_joined(
             regexp_replace(normalize(phrase, nfc), pgrag_private.unspaced_run(), ' ', 'g')))
           || pgrag_private.unspaced_pairs(normalize(phrase, nfc)))) as l (lexeme));

-- sql/functions/private/readers_of.sql

-- Who the reader is, for access: itself, the groups it is in, the groups they are in, and everyone. UNION
-- stops at what it has seen, so a cycle of groups ends; a dropped principal leads nowhere.
create or replace function pgrag_private.closure(p_tenant_id bigint, p_reader_id bigint) returns setof bigint
language sql stable parallel restricted
begin atomic
  with recursive closure (principal_id) as (
    select p.principal_id from pgrag_data.principal p
     where p.tenant_id = p_tenant_id and p.principal_id = p_reader_id and p.dropped_at is null
    union
    select g.principal_id
      from closure c
      join pgrag_data.membership m on m.tenant_id = p_tenant_id and m.member_id = c.principal_id
      join pgrag_data.principal g on g.tenant_id = p_tenant_id and g.principal_id = m.group_id and g.dropped_at is null
  )
  select c.principal_id from closure c
  union all
  select p.principal_id from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.kind = 'everyone' and exists (select from closure);
end;

-- The access lists that let the reader in.
create or replace function pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns setof bigint
language plpgsql stable parallel restricted as $$
begin
  return query
  select distinct e.acl_id
    from pgrag_private.closure(p_tenant_id, p_reader_id) as c (principal_id)
    join pgrag_data.acl_entry e on e.tenant_id = p_tenant_id and e.principal_id = c.principal_id;
end
$$;

-- The access list of a set of readers, found or made. Two at once make one: the fingerprint is unique, and
-- it is read again in a statement of its own, which sees what the other committed.
create or replace function pgrag_private.acl_of(p_tenant_id bigint, p_readers text[]) returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_ids         bigint[];
  v_fingerprint bytea;
  v_acl_id      bigint;
begin
  select array_agg(p.principal_id order by p.principal_id) into v_ids
    from pgrag_data.principal p
   where p.tenant_id = p_tenant_id and p.name = any (p_readers) and p.dropped_at is null;
  v_ids := coalesce(v_ids, '{}');
  if cardinality(v_ids) <> (select count(distinct reader) from unnest(p_readers) as r (reader)) then
    raise exception using errcode = 'RG401', message = 'there is no such reader',
      detail = 'at least one of the names is not a user, service or group of this tenant',
      hint = 'Create it with pgrag.put_principal; "everyone" stands for every known principal of the tenant.';
  end if;
  v_fingerprint := pgrag_private.fingerprint(variadic v_ids::text[]);

  select a.acl_id into v_acl_id from pgrag_data.acl a where a.tenant_id = p_tenant_id and a.fingerprint = v_fingerprint;
  if not found then
    insert into pgrag_data.acl (tenant_id, fingerprint) values (p_tenant_id, v_fingerprint)
      on conflict on constraint acl_fingerprint_key do nothing
      returning acl_id into v_acl_id;
    if v_acl_id is null then
      select a.acl_id into v_acl_id from pgrag_data.acl a where a.tenant_id = p_tenant_id and a.fingerprint = v_fingerprint;
    else
      insert into pgrag_data.acl_entry (tenant_id, acl_id, principal_id)
      select p_tenant_id, v_acl_id, id from unnest(v_ids) as i (id);
    end if;
  end if;
  return v_acl_id;
end
$$;

-- sql/functions/private/effective_revision.sql

-- The revisions of a document that have been put in force and were not withdrawn, with the activation that last put
-- each in force. A rollback withdraws every revision put in force after the one that it goes back to.
create or replace function pgrag_private.standing_revisions(p_tenant_id bigint, p_document_id bigint)
returns table (revision_id bigint, activation_id bigint)
language sql stable parallel restricted
begin atomic
  select put.revision_id, put.activation_id
    from (select a.revision_id, max(a.activation_id) as activation_id
            from pgrag_data.activation a
           where a.tenant_id = p_tenant_id and a.document_id = p_document_id
           group by a.revision_id) put
   where not exists (
     select from pgrag_data.activation b
      where b.tenant_id = p_tenant_id and b.document_id = p_document_id and b.action = 'rollback'
        and b.activation_id > put.activation_id
        and put.activation_id > (select coalesce(max(t.activation_id), 0) from pgrag_data.activation t
                                  where t.tenant_id = b.tenant_id and t.document_id = b.document_id
                                    and t.revision_id = b.revision_id and t.activation_id < b.activation_id));
end;

-- The revision of a document that is in force at a time: one that stands, whose effective period holds the time; of
-- several, the one that took effect last, and of those the one put in force last. A revision that was never active
-- is in force at no time. At most one row: as a set it is planned within its caller's query, where a scalar function
-- would be planned anew for each document (measured: 50 times the cost).
create or replace function pgrag_private.effective_revision(p_tenant_id bigint, p_document_id bigint, p_at timestamptz)
returns table (revision_id bigint)
language sql stable parallel restricted
begin atomic
  select r.revision_id
    from pgrag_private.standing_revisions(p_tenant_id, p_document_id) s
    join pgrag_data.revision r on r.tenant_id = p_tenant_id and r.revision_id = s.revision_id
   where r.effective_from <= p_at and p_at < r.effective_to
   order by r.effective_from desc, s.activation_id desc
   limit 1;
end;

-- sql/functions/private/facet_keys.sql

-- The keys of the index revision_facets: what a revision can be filtered by, hashed as lexemes are.
create or replace function pgrag_private.facet_keys(
  p_tenant_id bigint, p_language text, p_product text, p_version text, p_tags text[], p_metadata jsonb
) returns bigint[]
language sql immutable parallel safe cost 10000
return pgrag_private.lexeme_keys(p_tenant_id, array(
  select facet
    from (values ('language=' || p_language), ('product=' || p_product), ('version=' || p_version)) as f (facet)
   where facet is not null
  union all
  select 'tag=' || tag from unnest(p_tags) as t (tag)
  union all
  -- 1.0 is 1 for @>, which has the last word, so it must have the same key.
  select name || '=' || case jsonb_typeof(value) when 'number' then trim_scale(value::numeric)::text else value::text end
    from jsonb_each(p_metadata) as m (name, value)
   where jsonb_typeof(value) <> 'array'
  union all
  -- A key for each element and none for the list: an empty one is in every list.
  select name || '[]=' || element
    from jsonb_each(p_metadata) as m (name, value)
   cross join lateral jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end) as e (element)));

create or replace function pgrag_private.facet_keys_any(p_tenant_id bigint, p_name text, p_values text[]) returns bigint[]
language sql immutable parallel safe
return pgrag_private.lexeme_keys(p_tenant_id, array(select p_name || '=' || value from unnest(p_values) as v (value)));

grant execute on function pgrag_private.facet_keys to pgrag_owner; -- who builds the index

-- sql/functions/private/scope.sql

-- The scope: the revisions that this reader may be shown, decided before any ranking. Everything after it
-- (document frequencies, average length, candidates) is computed over these rows and no others.
-- p_as_of null: the active revision, while it is in force; otherwise the one effective at that time. Access
-- and tombstones are today's either way.
--
-- What a scan touches can be counted by any role, so OFFSET 0 keeps the filters behind the access rules: a plan that begins
-- with a filter touches hidden rows that pass it. p_index allows that, for a reader who may see more documents than
-- scope_first_limit(): the filters are then answered by their indexes first.
create or replace function pgrag_private.visible_revisions(
  p_tenant_id bigint, p_acls bigint[], p_as_of timestamptz, p_filter jsonb, p_index boolean default false
)
returns table (revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
language plpgsql stable parallel restricted rows 10000 set enable_seqscan = off as $$
#variable_conflict use_column
begin
  if p_as_of is not null or coalesce(p_filter, '{}') <> '{}' then
    return query select f.* from pgrag_private.filtered_revisions(p_tenant_id, p_acls, p_as_of, p_filter, p_index) f;
    return;
  end if;
  return query
  select r.revision_id, r.languages, r.chunk_count, r.lexeme_count
    from (select d.tenant_id, d.active_revision_id from pgrag_data.document d
           where d.tenant_id = p_tenant_id and d.acl_id = any (p_acls) and d.deleted_at is null and d.active_revision_id is not null
          offset 0) d
   cross join lateral (select r.* from pgrag_data.revision r
                        where r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id offset 0) r
   where transaction_timestamp() < r.effective_to;
end
$$;

-- The same as of a date or with a filter, planned for what is asked.
create or replace function pgrag_private.filtered_revisions(
  p_tenant_id bigint, p_acls bigint[], p_as_of timestamptz, p_filter jsonb, p_index boolean
)
returns table (revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
language plpgsql stable parallel restricted rows 10000 set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  v_sources   text[]   := pgrag_private.filter_values(p_filter, 'source');
  v_languages text[]   := pgrag_private.filter_values(p_filter, 'language');
  v_products  text[]   := pgrag_private.filter_values(p_filter, 'product');
  v_versions  text[]   := pgrag_private.filter_values(p_filter, 'version');
  v_tags      text[]   := pgrag_private.filter_values(p_filter, 'tags');
  v_from      date     := pgrag_private.filter_date(p_filter, 'date_from');
  v_to        date     := pgrag_private.filter_date(p_filter, 'date_to');
  v_metadata  jsonb    := p_filter -> 'metadata';
begin
  if p_index and p_as_of is null and p_filter - 'source' <> '{}' then
    p_index := (select count(*) from (select from pgrag_data.document d where d.tenant_id = p_tenant_id and d.acl_id = any (p_acls)
                                   and d.active_revision_id is not null and d.deleted_at is null
                                 limit pgrag_private.scope_first_limit() + 1) as seen) > pgrag_private.scope_first_limit();
  else
    p_index := false;
  end if;
  if p_index then
    return query
    select r.revision_id, r.languages, r.chunk_count, r.lexeme_count
      from pgrag_data.revision r
      join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id and d.active_revision_id = r.revision_id
      join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
     where r.tenant_id = p_tenant_id
       and d.acl_id = any (p_acls)
       and d.deleted_at is null
       and transaction_timestamp() < r.effective_to
       and (v_sources is null or s.source = any (v_sources))
       and (v_languages is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'language', v_languages))
       and (v_products is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'product', v_products))
       and (v_versions is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   && pgrag_private.facet_keys_any(p_tenant_id, 'version', v_versions))
       and (v_tags is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   @> pgrag_private.facet_keys_any(p_tenant_id, 'tag', v_tags))
       and (v_metadata is null or pgrag_private.facet_keys(r.tenant_id, r.language, r.product, r.version, r.tags, r.metadata)
                                   @> pgrag_private.facet_keys(p_tenant_id, null, null, null, '{}', v_metadata))
       -- Keys are hashes, and of lists not the whole of containment; the values decide.
       and (v_languages is null or r.language = any (v_languages))
       and (v_products is null or r.product = any (v_products))
       and (v_versions is null or r.version = any (v_versions))
       and (v_tags is null or r.tags @> v_tags)
       and (v_metadata is null or r.metadata @> v_metadata)
       and (v_from is null or r.dated >= v_from)
       and (v_to is null or r.dated <= v_to);
    return;
  end if;
  return query
  select p.revision_id, p.languages, p.chunk_count, p.lexeme_count
    from (select r.revision_id, r.languages, r.chunk_count, r.lexeme_count,
                 s.source, r.language, r.product, r.version, r.tags, r.dated, r.metadata
            from pgrag_data.document d
           cross join lateral (
             select d.active_revision_id as revision_id where p_as_of is null
             union all
             select e.revision_id from pgrag_private.effective_revision(d.tenant_id, d.document_id, p_as_of) e
              where p_as_of is not null
           ) f
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = f.revision_id
            join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
           where d.tenant_id = p_tenant_id
             and d.acl_id = any (p_acls)
             and d.deleted_at is null and d.active_revision_id is not null
             and coalesce(p_as_of, transaction_timestamp()) < r.effective_to
          offset 0) p
   where (v_sources is null or p.source = any (v_sources))
     and (v_languages is null or p.language = any (v_languages))
     and (v_products is null or p.product = any (v_products))
     and (v_versions is null or p.version = any (v_versions))
     and (v_tags is null or p.tags @> v_tags)
     and (v_from is null or p.dated >= v_from)
     and (v_to is null or p.dated <= v_to)
     and (v_metadata is null or p.metadata @> v_metadata);
end
$$;

create or replace function pgrag_private.scope(p_tenant_id bigint, p_reader_id bigint, p_as_of timestamptz, p_filter jsonb)
returns bigint[]
language plpgsql stable parallel restricted as $$
begin
  return array(
    select v.revision_id
      from pgrag_private.visible_revisions(p_tenant_id, array(select pgrag_private.permitted_acls(p_tenant_id, p_reader_id)), p_as_of, p_filter) v
     order by v.revision_id);
end
$$;

-- The scope of a search. Up to scope_first_limit() chunks, in strict isolation, for an as-of question and with a filter other than
-- by source its revisions are listed, grouped by the languages of their chunks; else it is counted, which takes as long
-- for a million chunks as for none. Without p_listed, by a search that needs no list, a small one is only counted too.
create or replace function pgrag_private.search_scope(
  p_tenant_id bigint, p_reader_id bigint, p_search pgrag_private.search_request, p_listed boolean default true
)
returns pgrag_private.search_scope
language plpgsql stable parallel restricted set enable_seqscan = off as $$
declare
  v_scope   pgrag_private.search_scope;
  v_acls    bigint[];
  v_sources text[] := pgrag_private.filter_values(p_search.filter, 'source');
begin
  v_scope.tenant_id := p_tenant_id;
  v_scope.acls := array(select pgrag_private.permitted_acls(p_tenant_id, p_reader_id));
  if p_search.isolation = 'auto' and p_search.as_of is null and coalesce(p_search.filter - 'source', '{}') = '{}' then
    -- All sources are read and then compared: how many rows were touched must not tell which names there are.
    v_scope.sources := case when v_sources is not null then
                         array(select s.source_id from (select s.source_id, s.source from pgrag_data.source s where s.tenant_id = p_tenant_id offset 0) s
                                where s.source = any (v_sources)) end;
    -- Both sums in one reading of the ledger.
    with total as materialized (
      select t.acl_id, t.languages, sum(t.documents) as documents, sum(t.chunks) as chunks, sum(t.lexemes) as lexemes
        from unnest(v_scope.acls) as a (acl_id)
        join pgrag_data.scope_total t on t.tenant_id = p_tenant_id and t.acl_id = a.acl_id
       where transaction_timestamp() < t.until and (v_scope.sources is null or t.source_id = any (v_scope.sources))
       group by t.acl_id, t.languages
      having sum(t.chunks) > 0
    )
    select (select coalesce(sum(t.documents), 0) from total t), (select coalesce(sum(t.chunks), 0) from total t),
           (select array_agg(a.chunks order by a.acl_id) from (select t.acl_id, sum(t.chunks) as chunks from total t group by t.acl_id) a),
           array(select distinct t.acl_id from total t order by t.acl_id),
           array(select (t.languages, null, null, sum(t.chunks), sum(t.lexemes))::pgrag_private.scope_part
                   from total t group by t.languages order by t.languages)
      into v_scope.documents, v_scope.chunks, v_scope.acl_chunks, v_acls, v_scope.parts;
    if not p_listed or v_scope.chunks > pgrag_private.scope_first_limit() then
      v_scope.acls := v_acls;
      return v_scope;
    end if;
  end if;
  v_scope.acl_chunks := null;
  v_scope.parts := array(
    select (v.languages, array_agg(v.revision_id order by v.revision_id), array_agg(v.chunk_count order by v.revision_id),
            sum(v.chunk_count), sum(v.lexeme_count))::pgrag_private.scope_part
      from pgrag_private.visible_revisions(p_tenant_id, v_scope.acls, p_search.as_of, p_search.filter, p_search.isolation = 'auto') v
     group by v.languages
     order by v.languages);
  select coalesce(array_agg(r.revision_id), '{}'), coalesce(sum(p.chunks) filter (where r.n = 1), 0)
    into v_scope.revisions, v_scope.chunks
    from unnest(v_scope.parts) as p cross join lateral unnest(p.revisions) with ordinality as r (revision_id, n);
  v_scope.documents := cardinality(v_scope.revisions);
  return v_scope;
end
$$;

-- Whether a row that an index has found is visible: a condition for statements that are put together, on the row of that name.
-- $1 is the tenant; p_scope names the parameter that has acls, sources and revisions. A scalar sub-select, row by row:
-- it cannot become a join, by which the planner might begin.
create or replace function pgrag_private.visible_row(p_row text, p_scope text, p_counted boolean) returns text
language sql immutable parallel safe
return replace(replace(case when p_counted then
  '(select d.acl_id from pgrag_data.document d
     where d.tenant_id = $1 and d.active_revision_id = %.revision_id and d.deleted_at is null and transaction_timestamp() < d.active_until
       and ((@).sources is null or d.source_id = any ((@).sources))) = any ((@).acls)'
  else '%.revision_id + 0 = any ((@).revisions)' end, '%', p_row), '@', p_scope);

-- The languages of a scope, together those whose words are stemmed alike: "en" with "en-GB", and all that have no stemmer. What a
-- search does it does once for each of these, of which there are some thirty; of languages there is no end.
create or replace function pgrag_private.scope_languages(p_parts pgrag_private.scope_part[]) returns table (languages text[])
language sql stable parallel safe
begin atomic
  select array_agg(l.language order by l.language)
    from (select distinct l.language collate "C" as language
            from unnest(p_parts) as p cross join lateral unnest(p.languages) as l (language)) l
   group by pgrag_private.text_config(l.language)
   order by 1;
end;

-- Filters narrow what may be seen, and never widen it. A key that is not known is refused, not ignored: a
-- filter that silently does nothing shows more than was asked for.
create or replace function pgrag_private.check_filter(p_filter jsonb) returns void
language plpgsql immutable parallel safe as $$
declare
  v_key   text;
  v_value jsonb;
begin
  if p_filter is null then
    return;
  end if;
  if jsonb_typeof(p_filter) <> 'object' or octet_length(p_filter::text) > 8192 then
    raise exception using errcode = 'RG304', message = 'the filter must be a JSON object of at most 8192 bytes',
      hint = 'For example {"source": "handbook", "tags": ["refund"]}.';
  end if;
  for v_key, v_value in select key, value from jsonb_each(p_filter) loop
    if v_key in ('source', 'language', 'product', 'version', 'tags') then
      if jsonb_typeof(v_value) = 'string' and v_key <> 'tags' then
        continue;
      end if;
      if jsonb_typeof(v_value) = 'array' and jsonb_array_length(v_value) between 1 and 100
         and not jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")') then
        continue;
      end if;
      raise exception using errcode = 'RG304', message = format('the filter %s must be text or a list of 1 to 100 texts', v_key),
        hint = 'Of a list, one must match; of tags, which are always a list, all must.';
    elsif v_key in ('date_from', 'date_to') then
      if jsonb_typeof(v_value) <> 'string' or (v_value #>> '{}') !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
         or not pg_input_is_valid(v_value #>> '{}', 'date') then
        raise exception using errcode = 'RG304', message = format('the filter %s must be a date', v_key),
          hint = 'Write it as YYYY-MM-DD.';
      end if;
    elsif v_key = 'metadata' then
      perform pgrag_private.check_metadata(v_value, 'RG304', 'the filter metadata');
    else
      raise exception using errcode = 'RG304', message = 'the filter has a key that is not known',
        detail = format('key: %s', left(v_key, 100)),
        hint = 'Known keys: source, language, product, version, tags, date_from, date_to, metadata.';
    end if;
  end loop;
end
$$;

-- Free metadata: names with a text, a number, a truth value, or a list of texts. A filter's are those that must be there.
create or replace function pgrag_private.check_metadata(p_metadata jsonb, p_code text, p_what text) returns void
language plpgsql immutable parallel safe as $$
begin
  if p_metadata is null or jsonb_typeof(p_metadata) <> 'object' or octet_length(p_metadata::text) > 8192
     or jsonb_path_exists(p_metadata, 'strict $.* ? (@.type() == "object" || @.type() == "null")')
     or jsonb_path_exists(p_metadata, 'strict $.* ? (@.type() == "array")[*] ? (@.type() != "string")') then
    raise exception using errcode = p_code,
      message = p_what || ' must be a JSON object of at most 8192 bytes, each value a text, number, truth value or list of texts',
      hint = 'For example {"team": "billing", "priority": 3, "regions": ["eu"]}; a number is no text that looks like one.';
  end if;
end
$$;

create or replace function pgrag_private.filter_values(p_filter jsonb, p_key text) returns text[]
language sql immutable parallel safe
return case jsonb_typeof(p_filter -> p_key)
  when 'string' then array[p_filter ->> p_key]
  when 'array' then array(select value from jsonb_array_elements_text(p_filter -> p_key))
end;

create or replace function pgrag_private.filter_date(p_filter jsonb, p_key text) returns date
language sql stable parallel safe
return (p_filter ->> p_key)::date;

-- sql/functions/private/browse.sql

-- What the browsing views show: the session's scope. Each policy calls it once a statement, as an InitPlan.
-- It runs as the engine for a caller who may read nothing, so its settings are pinned like a public function's.
create or replace function pgrag_private.browse_revisions() returns bigint[]
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'reader');
begin
  return pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null);
end
$$;

create or replace function pgrag_private.browse_tenant() returns bigint
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (pgrag_private.current_principal(null, 'reader')).tenant_id;
end
$$;

-- sql/functions/private/lexical_plan.sql

-- How the lexical lane will look for a question and its probes: one plan for each wording and each stemmer that the
-- scope needs, because a chunk is looked for with the lexemes of its own language.
--
-- Up to scope_first_limit() visible chunks, and always in strict isolation, every chunk of the scope is read ('scope').
-- Above it the index finds candidates ('index'): those that hold one of the rarest lexemes, as many of these as find 100
-- chunks at least, and about 10,000 at the most. The others are not searched for, only scored; how rare each is, is
-- estimated from some hundred chunks of the scope. Nothing of this depends on a chunk outside the scope but the time that it takes.
create or replace function pgrag_private.lexical_plans(
  p_scope pgrag_private.search_scope, p_wordings text[], p_phrases text[], p_excluded text[], p_index boolean
) returns pgrag_private.lexical_plan[]
language plpgsql stable parallel restricted as $$
declare
  words_bound constant integer := 64;
  v_plans     pgrag_private.lexical_plan[] := '{}';
  v_plan      pgrag_private.lexical_plan;
  v_counts    integer[];
  v_lexemes   text[];
  v_query     tsquery;
  v_sum       double precision;  -- chunks that the lexemes searched for are expected to find
begin
  v_plan.acls := p_scope.acls;
  v_plan.sources := p_scope.sources;
  select sum(p.chunks), coalesce(nullif(sum(p.lexemes), 0), 1) / sum(p.chunks) into v_plan.chunks, v_plan.length from unnest(p_scope.parts) as p;
  for v_plan.languages in select s.languages from pgrag_private.scope_languages(p_scope.parts) s loop
    select array_agg(r.revision_id), array_agg(r.chunk_count) into v_plan.revisions, v_counts
      from unnest(p_scope.parts) as p cross join lateral unnest(p.revisions, p.chunk_counts) as r (revision_id, chunk_count)
     where p.languages && v_plan.languages;
    v_plan.route := case when p_index then 'index' else 'scope' end;
    v_plan.condition := pgrag_private.question_condition(v_plan.languages[1], p_phrases, p_excluded);
    v_plan.must_hold := pgrag_private.phrase_lexemes(v_plan.languages[1], p_phrases);
    for v_wording in 0 .. cardinality(p_wordings) - 1 loop
      v_plan.wording := v_wording;
      v_lexemes := tsvector_to_array(pgrag_private.to_lexemes(v_plan.languages[1], p_wordings[v_wording + 1]));
      continue when cardinality(v_lexemes) = 0;
      v_plan.left_out := greatest(cardinality(v_lexemes) - words_bound, 0);
      v_plan.df := null;
      if p_index or v_plan.left_out > 0 then
        select array_agg(s.lexeme order by s.df, s.lexeme collate "C"), array_agg(s.df order by s.df, s.lexeme collate "C")
          into v_plan.lexemes, v_plan.df
          from (select e.lexeme, e.df
                  from pgrag_private.estimate_df(p_scope, v_plan.revisions, v_counts, v_plan.languages, v_lexemes) e
                 order by e.seen desc, e.df, e.lexeme collate "C"  -- over the bound, what the sample has not goes first
                 limit words_bound) s;
      else
        v_plan.lexemes := v_lexemes;
      end if;
      v_plan.queries := array(select pgrag_private.lexeme_query(lexeme) from unnest(v_plan.lexemes) with ordinality as l (lexeme, n) order by n);
      v_plan.searched := 0;
      v_sum := 0;
      foreach v_query in array v_plan.queries loop
        exit when p_index and v_sum + v_plan.df[v_plan.searched + 1] > 10000 and pgrag_private.index_finds(p_scope.tenant_id, v_plan, 100);
        v_plan.any_query := case when v_plan.searched = 0 then v_query else v_plan.any_query || v_query end;
        v_plan.searched := v_plan.searched + 1;
        v_sum := v_sum + coalesce(v_plan.df[v_plan.searched], 0);
      end loop;
      -- A quoted phrase: rather than some of the chunks by their rarest words, the index finds all that can hold the phrase.
      if v_plan.must_hold is not null and v_plan.searched < cardinality(v_plan.queries) then
        foreach v_query in array v_plan.queries[v_plan.searched + 1:] loop
          v_plan.any_query := v_plan.any_query || v_query;
        end loop;
        v_plan.searched := 0;
      elsif p_index and v_plan.searched = cardinality(v_lexemes) then
        -- In the order of the other route: sums of the same numbers in another order differ in the last bit, and so would ties.
        v_plan.lexemes := v_lexemes;
        v_plan.queries := array(select pgrag_private.lexeme_query(lexeme) from unnest(v_lexemes) with ordinality as l (lexeme, n) order by n);
      end if;
      -- A pair of characters that straddles two words is in no text, and so as rare as can be: pairs count half.
      v_plan.worth := array(select case when lexeme ~ pgrag_private.unspaced_run() then 0.5 else 1 end
                              from unnest(v_plan.lexemes) with ordinality as l (lexeme, n) order by n);
      v_plans := v_plans || v_plan;
    end loop;
  end loop;
  return v_plans;
end
$$;

-- Up to so many visible chunks each is read, which takes no longer than the index and tells nothing by its time.
create or replace function pgrag_private.scope_first_limit() returns integer
language sql immutable parallel safe
return 20000;

create or replace function pgrag_private.lexeme_query(p_lexeme text) returns tsquery
language sql immutable parallel safe
return array_to_tsvector(array[p_lexeme])::text::tsquery;

-- How many chunks of these languages hold each lexeme, from about 1,000 chunks (fewer for a long question). Of a listed scope it is
-- one of every n of the revisions' chunks, at another place in each n, since every nth would always be the same part of
-- documents that are alike. Of a counted one, of each access list the first so many documents by their names' hashes, as many as its
-- share asks for, and of each document's chunks any one, or more where there are fewer documents. (Not by documents' numbers, and
-- no list by its own: which these are, and how far apart, depends on what was made in between, hidden or another tenant's.)
-- A lexeme that the sample has not is taken to be in half as many as one that it has once.
create or replace function pgrag_private.estimate_df(
  p_scope pgrag_private.search_scope, p_revisions bigint[], p_chunk_counts integer[], p_languages text[], p_lexemes text[]
) returns table (lexeme text, df double precision, seen boolean)
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_sort = off as $$
#variable_conflict use_column
declare
  v_size  integer := least(greatest(60000 / cardinality(p_lexemes), 200), 1000);
  v_ends  bigint[] := array(select sum(n) over (rows unbounded preceding) from unnest(p_chunk_counts) as c (n)); -- all chunks in one row
  v_total bigint := coalesce(v_ends[cardinality(v_ends)], p_scope.chunks);
  v_all   bigint := v_total; -- in these languages
  v_step  bigint;
begin
  if p_revisions is null then
    v_size := v_size / 2; -- each takes three look-ups more
    v_all := (select sum(p.chunks) from unnest(p_scope.parts) as p where p.languages && p_languages);
  end if;
  v_step := greatest(ceil(v_total::double precision / v_size), 1);
  return query
  with place as (
    select p.place, width_bucket(p.place, v_ends) + 1 as n
      from (select b.block * v_step + (hashint8(b.block) & 2147483647) % v_step as place
              from generate_series(0, (v_total - 1) / v_step) as b (block)) p
     where p.place < v_total and p_revisions is not null
  ), drawn as materialized (
    select d.active_revision_id, d.hash, r.chunk_count, a.chunks, sum(r.chunk_count) over its as all_drawn,
           least(ceil(v_size * a.chunks::double precision / v_total / count(*) over its), r.chunk_count)::integer as times
      from unnest(p_scope.acls, p_scope.acl_chunks) as a (acl_id, chunks)
     cross join lateral (select d.active_revision_id, hashtext(d.document) as hash from pgrag_data.document d
                          where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null and d.active_revision_id is not null
                            and transaction_timestamp() < d.active_until and (p_scope.sources is null or d.source_id = any (p_scope.sources))
                          order by hashtext(d.document), d.document, d.source_id
                          limit ceil(v_size * a.chunks::double precision / v_total)) d
     cross join lateral (select r.chunk_count from pgrag_data.revision r
                          where r.tenant_id = p_scope.tenant_id and r.revision_id = d.active_revision_id offset 0) r
     where p_revisions is null
    window its as (partition by a.acl_id)
  ), sampled as materialized (
    select l.lexemes, 1::numeric as weight
      from place s
     cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                          where c.tenant_id = p_scope.tenant_id and c.revision_id = p_revisions[s.n]
                            and c.chunk_no = s.place - coalesce(v_ends[s.n - 1], 0) + 1 offset 0) l
     where l.language = any (p_languages)
    union all
    -- Of what the list has, the part that this chunk stands for; numeric, whose sum is the same in any order.
    select l.lexemes, d.chunks * d.chunk_count::numeric / (d.times * d.all_drawn)
      from drawn d
     cross join lateral generate_series(0, d.times - 1) as t (n)
     cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                          where c.tenant_id = p_scope.tenant_id and c.revision_id = d.active_revision_id
                            and c.chunk_no = ((hashint4(d.hash) & 2147483647) % d.chunk_count + t.n * d.chunk_count::bigint / d.times) % d.chunk_count + 1 offset 0) l
     where l.language = any (p_languages)
  )
  select w.lexeme,
         case when count(s.lexemes) > 0 and p_revisions is null then v_all * (sum(s.weight) / (select sum(weight) from sampled))::double precision
              else coalesce(nullif(count(s.lexemes), 0), 0.5)::double precision * v_step end,
         count(s.lexemes) > 0
    from (select l.lexeme, pgrag_private.lexeme_query(l.lexeme) as query from unnest(p_lexemes) as l (lexeme) offset 0) w
    left join sampled s on s.lexemes @@ w.query
   group by w.lexeme;
end
$$;

-- Whether the lexemes that a plan searches for so far find that many visible chunks.
create or replace function pgrag_private.index_finds(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_count integer) returns boolean
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_seqscan = off set work_mem = '32MB' as $$
declare
  v_keys bigint[] := pgrag_private.lexeme_keys(p_tenant_id, p_plan.lexemes[:p_plan.searched]);
begin
  return p_plan.searched > 0 and p_count <= (
    select count(*)
      from (select from pgrag_data.chunk_lex l
             where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) && v_keys and l.tenant_id + 0 = p_tenant_id
               and l.language = any (p_plan.languages) and l.lexemes @@ p_plan.any_query
               and case when p_plan.revisions is not null then l.revision_id + 0 = any (p_plan.revisions)
                        else (select d.acl_id from pgrag_data.document d
                               where d.tenant_id = p_tenant_id and d.active_revision_id = l.revision_id and d.deleted_at is null
                                 and transaction_timestamp() < d.active_until
                                 and (p_plan.sources is null or d.source_id = any (p_plan.sources))) = any (p_plan.acls) end
             limit p_count) as seen);
end
$$;

-- Whether anything visible holds all quoted phrases. One search of a question that has some; it ends at the first.
create or replace function pgrag_private.phrases_occur(p_scope pgrag_private.search_scope, p_phrases text[], p_index boolean)
returns boolean
language plpgsql stable parallel restricted set plan_cache_mode = force_custom_plan set enable_seqscan = off set work_mem = '32MB' as $$
declare
  v_languages text[];
  v_condition tsquery;
  v_revisions bigint[];
  v_keys      bigint[];
  v_asked     boolean := false;
begin
  for v_languages in select s.languages from pgrag_private.scope_languages(p_scope.parts) s loop
    v_condition := pgrag_private.question_condition(v_languages[1], p_phrases, '{}');
    continue when v_condition is null;
    v_asked := true;
    select array_agg(r.revision_id) into v_revisions
      from unnest(p_scope.parts) as p cross join lateral unnest(p.revisions) as r (revision_id)
     where p.languages && v_languages;
    if not p_index then
      if exists (
        select from unnest(v_revisions) as s (revision_id)
         cross join lateral (select c.language, c.lexemes from pgrag_data.chunk_lex c
                              where c.tenant_id = p_scope.tenant_id and c.revision_id = s.revision_id offset 0) l
         where l.language = any (v_languages) and l.lexemes @@ v_condition) then
        return true;
      end if;
    else
      v_keys := pgrag_private.lexeme_keys(p_scope.tenant_id, pgrag_private.phrase_lexemes(v_languages[1], p_phrases));
      if exists (
        select from pgrag_data.chunk_lex l
         where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) @> v_keys and l.tenant_id + 0 = p_scope.tenant_id
           and l.language = any (v_languages) and l.lexemes @@ v_condition
           and case when v_revisions is not null then l.revision_id + 0 = any (v_revisions)
                    else (select d.acl_id from pgrag_data.document d
                           where d.tenant_id = p_scope.tenant_id and d.active_revision_id = l.revision_id and d.deleted_at is null
                             and transaction_timestamp() < d.active_until
                             and (p_scope.sources is null or d.source_id = any (p_scope.sources))) = any (p_scope.acls) end) then
        return true;
      end if;
    end if;
  end loop;
  return not v_asked;
end
$$;

-- The words of the question that were not looked for, for the result to say; null: all were.
create or replace function pgrag_private.lexical_bound(p_plans pgrag_private.lexical_plan[]) returns jsonb
language sql stable parallel safe
return (select nullif(jsonb_strip_nulls(jsonb_build_object(
          'words_not_searched', (select jsonb_agg(distinct lexeme)
                                   from unnest(p_plans) as p
                                  cross join lateral unnest(p.lexemes[p.searched + 1:]) as l (lexeme)
                                  where p.searched > 0), -- 0: the index finds all that can hold the phrase
          'words_left_out', nullif((select max(p.left_out) from unnest(p_plans) as p), 0))), '{}'));

-- Why the lexical lane gave a hit its score: the question's lexemes that it holds, what each adds, the most first.
create or replace function pgrag_private.matched_terms(
  p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer, p_plans pgrag_private.lexical_plan[], p_tf double precision[], p_part double precision[]
) returns jsonb
language sql stable parallel restricted
begin atomic
  select coalesce(jsonb_agg(jsonb_build_object('term', t.lexeme, 'tf', t.tf::integer, 'score', pgrag_private.score(t.part))
                            order by t.part desc, t.lexeme collate "C"), '[]')
    from unnest(p_plans) as p
    join pgrag_data.chunk c on c.tenant_id = p_tenant_id and c.revision_id = p_revision_id and c.chunk_no = p_chunk_no and c.language = any (p.languages)
   cross join lateral unnest(p.lexemes, p_tf, p_part) as t (lexeme, tf, part)
   where p.wording = 0 and t.tf > 0;
end;

-- sql/functions/private/lexical_lane.sql

-- The lexical lane: BM25 (k1 = 1.2, b = 0.75) over the chunks of one plan, the best p_limit (ties broken by
-- chunk id), and those that the caller asks about (p_also_…), if they hold any word.
--
-- All statistics are the reader's own: the document frequency of a lexeme is counted among the hits of this very pass,
-- so no score depends on a row that the reader may not see. Each lexeme has a slot, a column that is computed once a
-- row: measured, a quarter of the time of joining rows with lexemes.
--
-- The frequency of a term: for a single lexeme ts_rank('{1,1,1,1}', …) is 1/1 + 1/4 + … + 1/tf², over pi²/6, and the
-- tail of that series is 1/(tf + ½) to within rounding, so that 6/pi² / (1 - ts_rank), rounded down, is tf, up to 255.
--
--   score       sum(idf * (k1 + 1) * tf / (tf + K)),  K = k1 * (1 - b + b * length / average),  idf = ln(1 + (N - df + ½) / (df + ½))
--   part        what each lexeme adds to it, and tf its frequency, in the order of the plan
--   share       score over the most that the wording could score, sum(worth * idf * (k1 + 1)): from 0 to 1, whatever the question;
--               of pairs of characters, which count half, to 2: cut off at 1, the best would be ties
--   coverage    how much of the question is there at all: the idf of the lexemes that the chunk has, over that of all
--   evidence    share again, at most 1
-- The last two are there to be compared with a threshold, across questions, scopes and readers. Their idf is smoothed as if the
-- scope had a hundred chunks more and each lexeme were in one of them more: whoever sees one chunk and whoever sees a million
-- get about the same number for the same hit.
create or replace function pgrag_private.lexical_lane(
  p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_limit integer, p_also_revisions bigint[], p_also_chunks integer[]
) returns table (revision_id bigint, chunk_no integer, chunk_id bytea, score double precision, share double precision,
                 coverage double precision, evidence double precision, tf double precision[], part double precision[])
language plpgsql stable parallel restricted rows 100 set enable_seqscan = off set work_mem = '32MB' as $$
#variable_conflict use_column
declare
  v_slots integer := cardinality(p_plan.queries);
  v_keys  bigint[];
  v_source text;
  v_visible text := '';
  v_df    text := 'count(*) filter (where tf% > 0)::float8';
begin
  if p_plan.route = 'scope' then
    -- OFFSET 0: a row outside the scope is not so much as touched.
    v_source := 'unnest(($2).revisions) as s (revision_id)
      cross join lateral (select c.revision_id, c.chunk_no, c.language, c.length, c.lexemes from pgrag_data.chunk_lex c
                           where c.tenant_id = $1 and c.revision_id = s.revision_id offset 0) l
      where ';
  else
    v_df := 'case when % <= ($2).searched then count(*) filter (where tf% > 0) else ($2).df[%] end'; -- an aggregate: one row, always
    -- With sequential scans off the index is the only way left, as long as the key of the revisions is kept from the planner.
    v_keys := pgrag_private.lexeme_keys(p_tenant_id, case when p_plan.searched = 0 then p_plan.must_hold else p_plan.lexemes[:p_plan.searched] end);
    v_source := 'pgrag_data.chunk_lex l
      where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes)) ' || case when p_plan.searched = 0 then '@>' else '&&' end || ' $3
        and l.tenant_id + 0 = $1 and ';
    v_visible := ' and ' || pgrag_private.visible_row('l', '$2', p_plan.revisions is null);
  end if;
  return query execute
    'with hit as materialized (
       select l.revision_id, l.chunk_no, l.length, ' || pgrag_private.each_slot(v_slots, pgrag_private.tf_slot() || ' as tf%', ', ') || ',
              ' || case when p_plan.condition is null then 'true' else 'l.lexemes @@ ($2).condition' end || ' as held
         from ' || v_source || 'l.lexemes @@ ($2).any_query and l.language = any (($2).languages)' || v_visible || '
     ), weight as materialized (
       select array_agg(2.2::float8 * pgrag_private.bm25_idf(($2).chunks, d.df) order by d.n) as w,
              array_agg(pgrag_private.bm25_idf(($2).chunks + 100, d.df + 1) order by d.n) as s
         from (select array[' || pgrag_private.each_slot(v_slots, v_df, ', ') || '] as df from hit) counted
        cross join lateral unnest(counted.df) with ordinality as d (df, n)
     ), best as materialized (
       select t.revision_id, t.chunk_no
         from (select h.revision_id, h.chunk_no, ' || pgrag_private.each_slot(v_slots, 'w%*tf%/(tf%+k)', '+') || ' as score
                 from (select hit.*, ' || pgrag_private.bm25_norm() || ' as k from hit where held offset 0) h
                cross join (select ' || pgrag_private.each_slot(v_slots, 'w[%] as w%', ', ') || ' from weight offset 0) w
                order by score desc
                fetch first $4 rows with ties) t
        order by t.score desc, ' || pgrag_private.chunk_id_lookup('t') || '
        limit $4
     ), chosen as (
       -- Read again: to carry all that is said of them through the sort would cost more.
       select l.revision_id, l.chunk_no, ' || pgrag_private.chunk_id_lookup('l') || ' as chunk_id, ' || pgrag_private.bm25_norm() || ' as k,
              array[' || pgrag_private.each_slot(v_slots, pgrag_private.tf_slot(), ', ') || '] as tf
         from (select revision_id, chunk_no from best union select a.revision_id, a.chunk_no from unnest($5, $6) as a (revision_id, chunk_no)) c
        cross join lateral (select c.revision_id, c.chunk_no, l.language, l.length, l.lexemes from pgrag_data.chunk_lex l
                             where l.tenant_id = $1 and l.revision_id = c.revision_id and l.chunk_no = c.chunk_no offset 0) l
        where l.language = any (($2).languages) and (($2).condition is null or l.lexemes @@ ($2).condition)
     )
     select c.revision_id, c.chunk_no, c.chunk_id, o.score, o.score / o.most, least(o.there / o.all, 1), least(o.smooth / o.all, 1), c.tf, o.part
       from chosen c
      cross join weight
      cross join lateral (
        select sum(t.w * t.tf / (t.tf + c.k) order by t.n) as score, sum(t.w * t.worth order by t.n) as most,
               coalesce(sum(t.s order by t.n) filter (where t.tf > 0), 0) as there, sum(t.s * t.tf / (t.tf + c.k) order by t.n) as smooth,
               sum(t.s * t.worth order by t.n) as all, array_agg(t.w * t.tf / (t.tf + c.k) order by t.n) as part
          from unnest(c.tf, weight.w, weight.s, ($2).worth) with ordinality as t (tf, w, s, worth, n)) o
      where o.there > 0'
    using p_tenant_id, p_plan, v_keys, p_limit, coalesce(p_also_revisions, '{}'), coalesce(p_also_chunks, '{}');
end
$$;

-- The lane's statement is written out of these pieces and whole numbers alone; every value is a parameter.
create or replace function pgrag_private.each_slot(p_slots integer, p_piece text, p_between text) returns text
language sql immutable parallel safe
return (select string_agg(replace(p_piece, '%', slot::text), p_between order by slot) from generate_series(1, p_slots) as s (slot));

create or replace function pgrag_private.tf_slot() returns text
language sql immutable parallel safe
return 'floor(0.6079271018540267::float8 / (1::float8 - ts_rank(''{1,1,1,1}'', l.lexemes, (($2).queries)[%])))';

-- Row by row: a scalar sub-select cannot become a join, and a plan that read the table would touch rows outside the scope.
create or replace function pgrag_private.chunk_id_lookup(p_row text) returns text
language sql immutable parallel safe
return replace('(select c.chunk_id from pgrag_data.chunk c
                  where c.tenant_id = $1 and c.revision_id = %.revision_id and c.chunk_no = %.chunk_no)', '%', p_row);

create or replace function pgrag_private.bm25_norm() returns text
language sql immutable parallel safe
return '1.2::float8 * (0.25::float8 + 0.75::float8 * length / ($2).length)';

create or replace function pgrag_private.bm25_idf(p_chunks double precision, p_df double precision) returns double precision
language sql immutable parallel safe
return ln(1 + (greatest(p_chunks - p_df, 0) + 0.5::float8) / (p_df + 0.5::float8));

-- sql/functions/private/embeddings.sql

-- What is kept of an embedding in a space of half precision; null in others. Where lengths are free only the direction counts, and at
-- length 1 no number leaves the range of half precision.
create or replace function pgrag_private.half_of(p_space pgrag_data.embedding_space, p_embedding public.vector) returns public.halfvec
language sql immutable parallel safe
return case when p_space.storage = 'half' then
         (case p_space.normalisation when 'none' then public.l2_normalize(p_embedding) else p_embedding end)::public.halfvec end;

-- Keeps the embeddings of chunks p_first, p_first + 1, …: what is there already stays, and null is none.
create or replace function pgrag_private.put_embeddings(
  p_revision pgrag_data.revision, p_space pgrag_data.embedding_space, p_first integer, p_embeddings public.vector[]
) returns void
language plpgsql volatile parallel unsafe as $$
begin
  if exists (select from unnest(p_embeddings) as u (e) where public.vector_dims(e) > case p_space.storage when 'half' then 4000 else 2000 end) then
    raise exception using errcode = 'RG305', message = 'an embedding has more dimensions than a space can have',
      detail = 'the bound is 2000, in half precision 4000', hint = 'Encode the chunks with the space''s model.';
  elsif p_space.storage = 'half' and exists (
          select from unnest(p_embeddings) as u (e)
           where public.vector_norm(e) > case p_space.normalisation when 'unit' then 65504 else 1e15 end) then
    raise exception using errcode = 'RG305', message = 'an embedding is too long for half precision',
      hint = 'Scale it to length 1: the cosine does not change.';
  end if;
  insert into pgrag_data.chunk_vec (tenant_id, space_id, revision_id, chunk_no, embedding, half)
  select p_revision.tenant_id, p_space.space_id, p_revision.revision_id, p_first + (u.n - 1)::integer,
         case p_space.storage when 'float' then u.embedding end, pgrag_private.half_of(p_space, u.embedding)
    from unnest(p_embeddings) with ordinality as u (embedding, n)
   where u.embedding is not null
     and (select true from pgrag_data.chunk c -- no join: of a new revision the planner knows nothing
           where c.tenant_id = p_revision.tenant_id and c.revision_id = p_revision.revision_id and c.chunk_no = p_first + (u.n - 1)::integer)
  on conflict do nothing;
end
$$;

-- What is wrong with the embeddings that chunks p_first to p_last have in a space.
create or replace function pgrag_private.embedding_faults(
  p_tenant_id bigint, p_revision_id bigint, p_space_id bigint, p_first integer, p_last integer
) returns text[]
language plpgsql stable parallel restricted as $$
declare
  v_space  pgrag_data.embedding_space;
  v_found  record;
  v_faults text[] := '{}';
begin
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = p_tenant_id and s.space_id = p_space_id;
  select count(*) as vectors,
         count(*) filter (where v.dimension <> v_space.dimension) as wrong_dimension,
         -- pgvector sums squares in single precision: beyond these lengths a cosine is NaN.
         count(*) filter (where v.length < 1e-15) as zero,
         count(*) filter (where v.length > 1e15) as too_long,
         count(*) filter (where v_space.normalisation = 'unit' and v.length >= 1e-15 and abs(v.length - 1) > v.tolerance) as not_unit
    into v_found
    from (select coalesce(public.vector_dims(v.embedding), public.vector_dims(v.half)) as dimension,
                 coalesce(public.vector_norm(v.embedding), public.l2_norm(v.half)) as length,
                 case when v.half is null then 0.001 else 0.002 end as tolerance
            from pgrag_data.chunk_vec v
           where v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = p_revision_id
             and v.chunk_no between p_first and p_last) v;
  if v_found.vectors <> p_last - p_first + 1 then
    v_faults := v_faults || format('embedding count: %s for %s chunks', v_found.vectors, p_last - p_first + 1);
  end if;
  if v_found.wrong_dimension > 0 then
    v_faults := v_faults || format('embedding dimension: %s have not the %s of space %s',
                                   v_found.wrong_dimension, v_space.dimension, v_space.space);
  end if;
  if v_found.zero > 0 and v_space.zero_vectors = 'refuse' then
    v_faults := v_faults || format('zero vectors: %s, which space %s refuses', v_found.zero, v_space.space);
  end if;
  if v_found.too_long > 0 then
    v_faults := v_faults || format('normalisation: %s vectors are longer than 1e15, which no cosine can be taken of', v_found.too_long);
  end if;
  if v_found.not_unit > 0 then
    v_faults := v_faults || format('normalisation: %s vectors of unit space %s are not of length 1', v_found.not_unit, v_space.space);
  end if;
  return v_faults;
end
$$;

-- How many documents have in force a revision that has embeddings, but not in this space.
create or replace function pgrag_private.missing_in_space(p_tenant_id bigint, p_space_id bigint) returns bigint
language sql stable parallel restricted
begin atomic
  select count(*)
    from pgrag_data.document d
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
   where d.tenant_id = p_tenant_id and d.deleted_at is null
     and (r.space_id is not null -- also where that space is retired and gone
          or exists (select from pgrag_data.revision_space s where s.tenant_id = d.tenant_id and s.revision_id = d.active_revision_id))
     and not exists (select from pgrag_data.revision_space s
                      where s.tenant_id = d.tenant_id and s.revision_id = d.active_revision_id and s.space_id = p_space_id);
end;

-- A space as it is told: what a text must be encoded with.
create or replace function pgrag_private.described_space(p_tenant_id bigint, p_space_id bigint)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language sql stable parallel restricted
begin atomic
  select s.space, s.model, s.model_revision, s.dimension, s.metric, s.normalisation, s.preprocessing,
         s.query_prefix, s.document_prefix, s.storage, s.zero_vectors
    from pgrag_data.embedding_space s
   where s.tenant_id = p_tenant_id and s.space_id = p_space_id;
end;

-- sql/functions/private/dense_plan.sql

-- How the dense lane will look: by comparing every visible vector (exact), in the blocks of the reader's own access lists, or
-- in the block of the whole tenant. The cheapest by the costs of this installation (search_cost) is taken, and what
-- the reader's own would cost is said in the result; what no block has is compared in either case. Strict isolation is exact.
--
--   exact         a document to look up and its vectors to compare
--   class_blocks  for each access list that has a block (not too stale a one), one search of it; the other lists exactly. Wholly
--                 visible, these blocks need no filter, and nothing that the reader may not see is touched
--   tenant_block  one search that passes by what is not visible, the longer the less is: 1 / share of what it takes where all is, as
--                 measured on the average at shares from 1 to 0.05 where what is visible lies together; the worst take five times that
create or replace function pgrag_private.dense_plan(p_scope pgrag_private.search_scope, p_space pgrag_data.embedding_space, p_limit integer, p_isolation text)
returns pgrag_private.dense_plan
language plpgsql stable parallel restricted set enable_seqscan = off as $$
declare
  -- Below this visible share a graph is left for the vectors themselves: what it passes by is not bounded.
  share_least      constant double precision := 0.05;
  v_plan           pgrag_private.dense_plan;
  v_document       double precision;
  v_vector         double precision;
  v_block          double precision;
  v_exact          double precision;
  v_class          double precision;
  v_tenant         double precision;
  v_compared       double precision;
  v_lists          pgrag_private.block_list[];
  v_classes        pgrag_private.block_list[];
  v_whole          pgrag_private.block_list;
  v_system         bigint;
begin
  v_plan.route := 'exact';
  v_plan.exact_acls := p_scope.acls;
  v_plan.blocks := '{}';
  select max(c.microseconds) filter (where c.part = 'document') / 1000, max(c.microseconds) filter (where c.part = 'vector') / 1000 * p_space.dimension / 384,
         max(c.microseconds) filter (where c.part = 'block') / 1000
    into v_document, v_vector, v_block
    from pgrag_data.search_cost c;
  v_plan.requested := least(p_limit, 1000);
  v_block := v_block * pgrag_private.block_effort(v_plan.requested) / 100;
  v_exact := p_scope.documents * v_document + p_scope.chunks * v_vector;
  if p_isolation = 'strict' or v_exact <= v_block then -- no choice, and nothing to say of how fast this installation is
    return v_plan;
  end if;
  v_plan.costs := jsonb_build_object('exact', pgrag_private.score(v_exact));

  v_compared := v_exact / p_scope.chunks;
  v_system := (select c.system_identifier from pg_control_system() c);
  with usable as materialized (
    select b.block_id, b.base_id, coalesce(b.acl_id, 0) as acl_id, b.vectors, b.snapshot
      from pgrag_data.dense_block b
     where b.tenant_id = p_scope.tenant_id and b.space_id = p_space.space_id and b.state = 'live' and b.system_identifier = v_system
       -- A block leaves out what was over when it was begun, which for a transaction that began before it may not be.
       and b.live_at <= transaction_timestamp()
       and (b.acl_id = any (p_scope.acls) or b.acl_id is null)
       and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
  )
  -- How stale each is: an old block is passed by for the most part, and then its lists are compared all the same.
  select array_agg((l.acl_id, l.blocks, l.vectors, l.all_vectors, l.snapshot, c.loose,
                    least(greatest(coalesce(p_scope.acl_chunks[array_position(p_scope.acls, l.acl_id)],
                                            case l.acl_id when 0 then p_scope.chunks else l.all_vectors * p_scope.chunks / l.of_lists end)
                                   - c.loose, 0) / greatest(l.all_vectors, 1), 1))::pgrag_private.block_list
                   order by l.acl_id)
    into v_lists
    from (select b.acl_id, array_agg(b.block_id order by b.block_id) as blocks, array_agg(b.vectors order by b.block_id) as vectors,
                 sum(b.vectors) as all_vectors,
                 -- Of what a filter leaves, how much lies in which list is not known: as much as in the scope.
                 greatest(sum(sum(b.vectors)) filter (where b.acl_id <> 0) over (), p_scope.chunks) as of_lists, (array_agg(b.snapshot order by b.block_id desc))[1] as snapshot
            from usable b
           where b.base_id is null or b.base_id in (select u.block_id from usable u)
           group by b.acl_id) l
   cross join lateral (
     select count(*) * p_scope.chunks::double precision / p_scope.documents as loose
       from (select from unnest(case l.acl_id when 0 then p_scope.acls else array[l.acl_id] end) as a (acl_id)
              cross join lateral (select from pgrag_data.document d
                                   where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null
                                     and d.active_revision_id is not null and d.changed_xid >= pg_snapshot_xmin(l.snapshot)
                                     -- Exactly: transactions of others, open when it was begun, are not to be told from the costs.
                                     and not pg_visible_in_snapshot(d.changed_xid, l.snapshot) offset 0) d
              limit 20000) n) c;

  select array_agg(l) into v_classes from unnest(v_lists) as l where l.acl_id <> 0 and l.share >= share_least;
  if v_classes is not null then
    v_class := (select sum(cardinality(l.blocks) * v_block / l.share) + v_compared * greatest(p_scope.chunks - sum(l.share * l.all_vectors), 0)
                  from unnest(v_classes) as l);
    v_plan.costs := v_plan.costs || jsonb_build_object('class_blocks', pgrag_private.score(v_class));
    if v_class < v_exact then
      v_plan.route := 'class_blocks';
    end if;
  end if;
  select l.* into v_whole from unnest(v_lists) as l where l.acl_id = 0;
  if v_whole.share >= share_least then
    -- Not said in the result: it would tell how many vectors of the tenant the reader may not see.
    v_tenant := cardinality(v_whole.blocks) * v_block / v_whole.share + v_compared * v_whole.loose;
    if v_tenant < least(v_exact, coalesce(v_class, 'Infinity')) then
      v_plan.route := 'tenant_block';
    end if;
  end if;

  if v_plan.route = 'class_blocks' then
    select array_agg(b.block_id order by b.block_id), array_agg(b.vectors order by b.block_id), array_agg(l.acl_id order by b.block_id)
      into v_plan.blocks, v_plan.vectors, v_plan.lists
      from unnest(v_classes) as l cross join lateral unnest(l.blocks, l.vectors) as b (block_id, vectors);
    select array_agg(l.acl_id order by l.acl_id), array_agg(l.snapshot order by l.acl_id) into v_plan.block_acls, v_plan.snapshots
      from unnest(v_classes) as l;
    v_plan.exact_acls := array(select a.acl_id from unnest(p_scope.acls) as a (acl_id) where a.acl_id <> all (v_plan.block_acls) order by a.acl_id);
  elsif v_plan.route = 'tenant_block' then
    v_plan.blocks := v_whole.blocks;
    v_plan.vectors := v_whole.vectors;
    v_plan.lists := array_fill(0::bigint, array[cardinality(v_whole.blocks)]);
    v_plan.block_acls := p_scope.acls;
    v_plan.snapshots := array_fill(v_whole.snapshot, array[cardinality(p_scope.acls)]);
    v_plan.exact_acls := '{}';
  end if;
  return v_plan;
end
$$;

-- The revisions whose vectors are compared one by one: all under exact_acls, and under block_acls those that changed since
-- the block's snapshot was taken.
create or replace function pgrag_private.compared_revisions(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan) returns bigint[]
language plpgsql stable parallel restricted set enable_seqscan = off as $$
begin
  if p_plan.route = 'exact' and p_scope.revisions is not null then
    return p_scope.revisions;
  end if;
  return array(
    select d.active_revision_id
      from unnest(p_plan.exact_acls) as a (acl_id)
      join pgrag_data.document d on d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id
     where d.deleted_at is null and d.active_revision_id is not null and transaction_timestamp() < d.active_until
       and (p_scope.sources is null or d.source_id = any (p_scope.sources))
       and (p_scope.revisions is null or d.active_revision_id = any (p_scope.revisions))
    union all
    select d.active_revision_id
      from unnest(p_plan.block_acls, p_plan.snapshots) as a (acl_id, snapshot)
     cross join lateral (select d.active_revision_id, d.source_id, d.active_until, d.changed_xid from pgrag_data.document d
                          where d.tenant_id = p_scope.tenant_id and d.acl_id = a.acl_id and d.deleted_at is null and d.active_revision_id is not null
                            and d.changed_xid >= pg_snapshot_xmin(a.snapshot) offset 0) d
     -- Of a list whose block came back short all are compared, and none twice.
     where a.acl_id <> all (p_plan.exact_acls)
       and not pg_visible_in_snapshot(d.changed_xid, a.snapshot)
       and transaction_timestamp() < d.active_until
       and (p_scope.sources is null or d.source_id = any (p_scope.sources))
       and (p_scope.revisions is null or d.active_revision_id = any (p_scope.revisions)));
end
$$;

-- sql/functions/private/dense_lane.sql

-- The dense lane: the nearest chunks of the scope by cosine. What is near is found by comparing vectors one by one and by
-- searching blocks, as the plan says; every candidate's cosine is that of the vector as stored, so that the order does not
-- depend on the route. Ties are broken by chunk id. A zero vector has no direction: its distance is NaN, and it is no candidate.
--
-- OFFSET 0 keeps the distance an expression that is computed once a row, never on a row outside the scope (a staged
-- vector of another dimension would make every search of its tenant fail), and that the planner can never answer from an
-- approximate index. Ids are looked up row by row: a scalar sub-select cannot become a join, which would touch other rows.
--
-- A block that gives fewer candidates than were requested, though it has more vectors, is not trusted with the rest: its
-- access lists are compared one by one (`fell_back`), so that no answer is short for want of luck in a graph.
-- p_conditions, one for each of p_languages: what the question says that a hit must and must not hold.
create or replace function pgrag_private.dense_lane(
  p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_space_id bigint, p_embedding public.vector, p_limit integer,
  p_languages text[], p_conditions tsquery[]
) returns table (revision_id bigint, chunk_no integer, chunk_id bytea, cosine double precision, fell_back boolean)
language plpgsql stable parallel restricted rows 100 as $$
#variable_conflict use_column
declare
  v_plan      pgrag_private.dense_plan := p_plan;
  v_found     bigint[]  := '{}';  -- in blocks
  v_found_no  integer[] := '{}';
  v_short     bigint[]  := '{}';
  v_revisions bigint[];
  v_half      public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
begin
  if p_plan.route <> 'exact' then
    select b.revisions, b.chunks, b.short_acls into v_found, v_found_no, v_short
      from pgrag_private.search_blocks(p_scope, p_plan, p_embedding, p_limit, p_languages, p_conditions) b;
    v_plan.exact_acls := v_plan.exact_acls || v_short;
  end if;
  v_revisions := pgrag_private.compared_revisions(p_scope, v_plan);
  return query
  select t.revision_id, t.chunk_no,
       (select c.chunk_id from pgrag_data.chunk c
         where c.tenant_id = p_scope.tenant_id and c.revision_id = t.revision_id and c.chunk_no = t.chunk_no) as chunk_id,
       1 - t.distance as cosine, v_short <> '{}'
    from (select d.revision_id, d.chunk_no, d.distance
            from (select e.revision_id, e.chunk_no, e.distance
                    from pgrag_private.compare_vectors(p_scope.tenant_id, v_revisions, p_space_id, p_embedding, p_limit, p_languages, p_conditions) e
                   where cardinality(v_revisions) > 0
                  union -- a document may be in a block and have changed since
                  select b.revision_id, b.chunk_no, v.distance
                    from unnest(v_found, v_found_no) as b (revision_id, chunk_no)
                   cross join lateral (select coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance from pgrag_data.chunk_vec v
                                        where v.tenant_id = p_scope.tenant_id and v.space_id = p_space_id
                                          and v.revision_id = b.revision_id and v.chunk_no = b.chunk_no offset 0) v) d
           where d.distance <> 'NaN'
           order by d.distance
           fetch first p_limit rows with ties) t
   order by cosine desc, chunk_id
   limit p_limit;
end
$$;

-- The nearest of these revisions' chunks, all compared: by the index, revision after revision, however many there are. A plan that read
-- the table would touch the vectors of others.
create or replace function pgrag_private.compare_vectors(
  p_tenant_id bigint, p_revisions bigint[], p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]
) returns table (revision_id bigint, chunk_no integer, distance double precision)
language plpgsql stable parallel restricted rows 100
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  v_half      public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
  v_revisions bigint[];
  v_chunks    integer[];
  v_distances double precision[];
begin
  if p_conditions is null then
    -- The nearest and one more: to keep so many takes less than to sort all of them, by a fifth of the whole.
    select array_agg(n.revision_id), array_agg(n.chunk_no), array_agg(n.distance) into v_revisions, v_chunks, v_distances
      from (select d.revision_id, d.chunk_no, d.distance
              from (select v.revision_id, v.chunk_no,
                           coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
                      from unnest(p_revisions) as s (revision_id)
                      join pgrag_data.chunk_vec v
                        on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
                    offset 0) d
             where d.distance <> 'NaN'
             order by d.distance
             limit p_limit + 1) n;
    if coalesce(cardinality(v_distances), 0) <= p_limit or v_distances[p_limit] < v_distances[p_limit + 1] then
      return query select n.* from unnest(v_revisions, v_chunks, v_distances) as n limit p_limit;
      return;
    end if;
    -- That is as near as the last: all that are, for the caller to decide between.
    return query
    select d.revision_id, d.chunk_no, d.distance
      from (select v.revision_id, v.chunk_no, coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
              from unnest(p_revisions) as s (revision_id)
              join pgrag_data.chunk_vec v
                on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = s.revision_id
            offset 0) d
     where d.distance <> 'NaN'
     order by d.distance
     fetch first p_limit rows with ties;
    return;
  end if;
  return query
  select d.revision_id, d.chunk_no, d.distance
    from (select v.revision_id, v.chunk_no, coalesce(v.embedding operator(public.<=>) p_embedding, v.half operator(public.<=>) v_half) as distance
            from (select l.revision_id, l.chunk_no
                    from unnest(p_revisions) as s (revision_id)
                   cross join lateral (select c.revision_id, c.chunk_no, c.language, c.lexemes from pgrag_data.chunk_lex c
                                        where c.tenant_id = p_tenant_id and c.revision_id = s.revision_id offset 0) l
                    join unnest(p_languages, p_conditions) as q (language, condition) on q.language = l.language
                   where q.condition is null or l.lexemes @@ q.condition
                  offset 0) l
            join pgrag_data.chunk_vec v
              on v.tenant_id = p_tenant_id and v.space_id = p_space_id and v.revision_id = l.revision_id and v.chunk_no = l.chunk_no
          offset 0) d
   where d.distance <> 'NaN'
   order by d.distance
   fetch first p_limit rows with ties;
end
$$;

-- How many candidates a scan keeps in view (hnsw.ef_search), for so many requested: fewer than these would be quicker and find less.
create or replace function pgrag_private.block_effort(p_requested integer) returns integer
language sql immutable parallel safe
return greatest(p_requested, 64);

-- Searches the blocks of a plan: the p_limit nearest visible chunks of all, and the access lists of blocks that came back short.
-- Each block is one ordered scan of its index, with the filter in the scan: what is not visible, or not any more, is passed by
-- and the scan goes on (hnsw.iterative_scan) until it has as many as are requested. The settings of the scan are the caller's
-- again afterwards; if something fails, the transaction's end puts them back.
create or replace function pgrag_private.search_blocks(
  p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_embedding public.vector, p_limit integer,
  p_languages text[], p_conditions tsquery[], out revisions bigint[], out chunks integer[], out short_acls bigint[]
)
language plpgsql stable parallel restricted
set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off set work_mem = '32MB' as $$
declare
  names constant text[] := array['hnsw.ef_search', 'hnsw.iterative_scan', 'hnsw.max_scan_tuples', 'hnsw.scan_mem_multiplier'];
  v_before   text[];
  v_query    public.halfvec := public.l2_normalize(p_embedding)::public.halfvec;
  v_visible  text := pgrag_private.visible_row('b', '$2', p_scope.revisions is null);
  v_counts   integer[];
begin
  if p_conditions is not null then
    v_visible := v_visible || ' and exists (select from pgrag_data.chunk_lex l join unnest($5, $6) as q (language, condition) on q.language = l.language
      where l.tenant_id = $1 and l.revision_id = b.revision_id and l.chunk_no = b.chunk_no and (q.condition is null or l.lexemes @@ q.condition))';
  end if;
  v_before := array(select current_setting(name, true) from unnest(names) with ordinality as n (name, place) order by place);
  perform set_config('hnsw.ef_search', pgrag_private.block_effort(p_plan.requested)::text, true),
          set_config('hnsw.iterative_scan', 'relaxed_order', true),
          set_config('hnsw.max_scan_tuples', '40000', true),
          set_config('hnsw.scan_mem_multiplier', '8', true);
  execute 'with found as materialized (' || (
    select string_agg(format(
             '(select %s as n, b.revision_id, b.chunk_no, b.embedding operator(public.<=>) $3 as distance from pgrag_block.%I b
                where %s order by b.embedding operator(public.<=>) $3 limit %s)', n, 'b' || block_id, v_visible, p_plan.requested), ' union all ' order by n)
      from unnest(p_plan.blocks) with ordinality as u (block_id, n)) || ')
    -- Two blocks may have the same: a list''s and that of what changed, or those of two lists between which it was moved.
    , nearest as materialized (select f.revision_id, f.chunk_no, min(f.distance) as distance from found f group by 1, 2 order by 3, 1, 2 limit $4)
    select (select array_agg(f.revision_id order by f.distance, f.revision_id, f.chunk_no) from nearest f),
           (select array_agg(f.chunk_no order by f.distance, f.revision_id, f.chunk_no) from nearest f),
           array(select count(f.n)::integer from generate_series(1, cardinality($7)) as g (n) left join found f on f.n = g.n group by g.n order by g.n)'
    into revisions, chunks, v_counts
    using p_scope.tenant_id, p_scope, v_query, greatest(p_plan.requested, p_limit) + 20, p_languages, p_conditions, p_plan.blocks;
  perform set_config(n.name, coalesce(v_before[n.place], case n.name when 'hnsw.ef_search' then '40' when 'hnsw.iterative_scan' then 'off'
                                                           when 'hnsw.max_scan_tuples' then '20000' else '1' end), true)
    from unnest(names) with ordinality as n (name, place);
  short_acls := array(select distinct s.acl_id
                        from unnest(p_plan.lists, v_counts, p_plan.vectors) as b (acl_id, n, vectors)
                       cross join lateral unnest(case b.acl_id when 0 then p_scope.acls else array[b.acl_id] end) as s (acl_id)
                       where b.n < least(p_plan.requested, b.vectors)
                       order by s.acl_id);
end
$$;

-- sql/functions/private/block_state.sql

-- From how many vectors a block pays: to compare them costs a quarter more than to search it.
create or replace function pgrag_private.block_least(p_dimension integer) returns bigint
language sql stable parallel restricted
begin atomic
  select greatest(1000, 1.25 * max(c.microseconds) filter (where c.part = 'block')
                          / (max(c.microseconds) filter (where c.part = 'vector') * p_dimension / 384))::bigint
    from pgrag_data.search_cost c;
end;

-- Every class of vectors in the active spaces and those beside them, the access lists and the tenants as wholes, with its blocks
-- and how stale they are.
--   chunks    in force now             vectors, delta_vectors   in the blocks that serve
--   loose     chunks of documents that changed since, which are compared one by one
--   retired   vectors in the blocks that are in force no more
create or replace function pgrag_private.block_state()
returns table (tenant_id bigint, space_id bigint, active boolean, dimension integer, acl_id bigint, chunks bigint, largest bigint, enough bigint,
               block_id bigint, vectors bigint, delta_id bigint, delta_vectors bigint, loose bigint, retired bigint, building boolean)
language sql stable parallel restricted rows 1000
begin atomic
  with total as materialized (
    select t.tenant_id, t.acl_id, sum(t.chunks)::bigint as chunks
      from pgrag_data.scope_total t
     where t.until > transaction_timestamp()
     group by t.tenant_id, t.acl_id
  ), class as (
    select t.tenant_id, t.acl_id, t.chunks, t.chunks as largest from total t
    union all
    select t.tenant_id, null::bigint as acl_id, sum(t.chunks)::bigint as chunks, max(t.chunks) as largest from total t group by t.tenant_id
  )
  select c.tenant_id, s.space_id, s.space_id = t.active_space_id, s.dimension, c.acl_id, c.chunks, c.largest, pgrag_private.block_least(s.dimension),
         m.block_id, m.vectors, d.block_id, d.vectors, l.loose,
         greatest(m.vectors + coalesce(d.vectors, 0) - (c.chunks - l.loose), 0),
         exists (select from pgrag_data.dense_block b
                  where b.tenant_id = c.tenant_id and b.space_id = s.space_id and b.acl_id is not distinct from c.acl_id
                    and b.state in ('copying', 'indexing'))
    from class c
    join pgrag_data.tenant t on t.tenant_id = c.tenant_id
    join pgrag_data.embedding_space s on s.tenant_id = c.tenant_id and s.space_id in (t.active_space_id, t.next_space_id)
    left join pgrag_data.dense_block m
      on m.tenant_id = c.tenant_id and m.space_id = s.space_id and m.acl_id is not distinct from c.acl_id and m.state = 'live' and m.base_id is null
    left join pgrag_data.dense_block d
      on d.tenant_id = c.tenant_id and d.space_id = s.space_id and d.base_id = m.block_id and d.state = 'live'
    left join lateral (
      select coalesce(sum(r.chunk_count), 0)::bigint as loose
        from pgrag_data.document x
        join pgrag_data.revision r on r.tenant_id = x.tenant_id and r.revision_id = x.active_revision_id
       where x.tenant_id = c.tenant_id and (c.acl_id is null or x.acl_id = c.acl_id) and x.deleted_at is null and x.active_revision_id is not null
         and transaction_timestamp() < x.active_until and x.changed_xid >= pg_snapshot_xmin(coalesce(d.snapshot, m.snapshot))
         and not pg_visible_in_snapshot(x.changed_xid, coalesce(d.snapshot, m.snapshot))) l on m.block_id is not null
   where c.chunks > 0;
end;

-- sql/functions/private/block_steps.sql

-- An access list pays from block_least() vectors on. A tenant as a whole: from ten times that, unless one list has nearly all.
create or replace function pgrag_private.deserves_block(p_chunks bigint, p_largest bigint, p_least bigint, p_acl_id bigint) returns boolean
language sql immutable parallel safe
return case when p_acl_id is not null then p_chunks >= p_least else p_chunks >= 10 * p_least and p_largest < 0.8 * p_chunks end;

-- Copies the next documents of a block's class, in order of their ids, with 20,000 vectors or so; copied_to null: there are no
-- more. What is copied is in force now, later than the block's snapshot: what it has too much is found twice, and
-- counted once.
create or replace function pgrag_private.copy_to_block(p_block pgrag_data.dense_block, out rows bigint, out copied_to bigint)
language plpgsql volatile parallel unsafe set plan_cache_mode = force_custom_plan as $$
declare
  v_revisions bigint[];
  v_base      pg_snapshot := (select b.snapshot from pgrag_data.dense_block b where b.tenant_id = p_block.tenant_id and b.block_id = p_block.base_id);
begin
  select array_agg(n.active_revision_id), max(n.document_id) into v_revisions, copied_to
    from (select d.document_id, d.active_revision_id, sum(r.chunk_count) over (order by d.document_id) - r.chunk_count as before
            from (select d.document_id, d.active_revision_id
                    from pgrag_data.document d
                   where d.tenant_id = p_block.tenant_id and (p_block.acl_id is null or d.acl_id = p_block.acl_id)
                     and d.deleted_at is null and d.active_revision_id is not null and d.document_id > p_block.copied_to
                     -- What is over now is over for good, and counted no more: copied, it would pass for retired, and the block be built anew for ever.
                     and transaction_timestamp() < d.active_until
                     and (v_base is null or d.changed_xid >= pg_snapshot_xmin(v_base) and not pg_visible_in_snapshot(d.changed_xid, v_base))
                   order by d.document_id
                   limit 5000) d
            join pgrag_data.revision r on r.tenant_id = p_block.tenant_id and r.revision_id = d.active_revision_id) n
   where n.before < 20000;
  execute format('insert into pgrag_block.%I (revision_id, chunk_no, embedding)
      select v.revision_id, v.chunk_no, coalesce(public.l2_normalize(v.embedding)::public.halfvec, public.l2_normalize(v.half))
        from unnest($1) as r (revision_id)
        join pgrag_data.chunk_vec v on v.tenant_id = $2 and v.space_id = $3 and v.revision_id = r.revision_id', 'b' || p_block.block_id)
    using v_revisions, p_block.tenant_id, p_block.space_id;
  get diagnostics rows = row_count;
end
$$;

-- Makes sums of the rows of access lists that have gathered many. Rows that somebody else is folding are left to them; what ended
-- a day ago counts for nobody any more.
create or replace function pgrag_private.fold_scope_totals() returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_rows bigint;
begin
  with key as (
    select t.tenant_id, t.acl_id, count(*) as n,
           (t.until > clock_timestamp() - interval '1 day' and (sum(t.documents) <> 0 or sum(t.chunks) <> 0 or sum(t.lexemes) <> 0))::integer as stays
      from pgrag_data.scope_total t
     group by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
  ), crowded as (
    select k.tenant_id, k.acl_id from key k
     group by k.tenant_id, k.acl_id
    having sum(k.n) > 4 and sum(k.n) > 2 * sum(k.stays)
     order by sum(k.n) desc
     limit 100
  ), chosen as (
    select t.tenant_id, t.acl_id, t.scope_total_id
      from crowded c join pgrag_data.scope_total t on t.tenant_id = c.tenant_id and t.acl_id = c.acl_id
     order by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
     limit 100000
       for update of t skip locked
  ), taken as (
    delete from pgrag_data.scope_total t using chosen c
     where t.tenant_id = c.tenant_id and t.acl_id = c.acl_id and t.scope_total_id = c.scope_total_id
    returning t.*
  ), folded as (
    insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
    select t.tenant_id, t.acl_id, t.source_id, t.languages, t.until, sum(t.documents), sum(t.chunks), sum(t.lexemes)
      from taken t
     where t.until > clock_timestamp() - interval '1 day'
     group by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
    having sum(t.documents) <> 0 or sum(t.chunks) <> 0 or sum(t.lexemes) <> 0
    returning 1
  )
  select (select count(*) from taken) - (select count(*) from folded) into v_rows;
  return v_rows;
end
$$;

-- Deletes what retired spaces still hold, so much at a time.
create or replace function pgrag_private.purge_retired_spaces() returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_space pgrag_data.embedding_space;
  v_rows  bigint;
begin
  for v_space in select s.* from pgrag_data.embedding_space s where s.retired_at is not null
                    and exists (select from pgrag_data.chunk_vec v where v.tenant_id = s.tenant_id and v.space_id = s.space_id)
                  order by s.tenant_id, s.space_id for no key update skip locked loop
    with gone as (
      delete from pgrag_data.chunk_vec v
       where v.tenant_id = v_space.tenant_id and v.space_id = v_space.space_id
         and (v.revision_id, v.chunk_no) in (select x.revision_id, x.chunk_no from pgrag_data.chunk_vec x
                                              where x.tenant_id = v_space.tenant_id and x.space_id = v_space.space_id
                                              order by x.revision_id, x.chunk_no limit 20000)
      returning v.revision_id
    ), incomplete as (
      delete from pgrag_data.revision_space s using (select distinct g.revision_id from gone g) g
       where s.tenant_id = v_space.tenant_id and s.revision_id = g.revision_id and s.space_id = v_space.space_id
    )
    select count(*) from gone into v_rows;
    if v_rows > 0 then
      return v_rows;
    end if;
  end loop;
  return 0;
end
$$;

-- A dump carries changed_xid into a cluster where the number may lie in the future, and no snapshot would see the document for years.
create or replace function pgrag_private.renumber_documents(p_tenant_id bigint) returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_rows bigint;
begin
  update pgrag_data.document d set changed_xid = pg_current_xact_id()
    from (select x.tenant_id, x.document_id from pgrag_data.document x
           where x.tenant_id = p_tenant_id and x.changed_xid > pg_current_xact_id()
           limit 20000 for no key update skip locked) f
   where d.tenant_id = f.tenant_id and d.document_id = f.document_id;
  get diagnostics v_rows = row_count;
  return v_rows;
end
$$;

-- sql/functions/private/similarity.sql

-- Whether two texts say the same in nearly the same words: how much of all their words both have, or 0 if they are too
-- short to tell, or differ in a number or a negation. 30 days beside 90 days, and "may" beside "may not", are different
-- statements however long the text around them, and both have to be seen.
create or replace function pgrag_private.similarity(p_one tsvector, p_other tsvector) returns double precision
language plpgsql immutable parallel safe as $$
declare
  v_only_one   text[] := tsvector_to_array(ts_delete(p_one, tsvector_to_array(p_other)));
  v_only_other text[] := tsvector_to_array(ts_delete(p_other, tsvector_to_array(p_one)));
  v_all        double precision := length(p_other) + cardinality(v_only_one);
begin
  if v_all < 8 or exists (
       select from unnest(v_only_one || v_only_other) as w (word) where pgrag_private.makes_a_difference(word)) then
    return 0;
  end if;
  return 1 - cardinality(v_only_one || v_only_other) / v_all;
end
$$;

-- Letters are not composed as they are for the lanes, which would double the time of a small search; and ASCII has no unspaced
-- scripts, which need not be looked for then.
create or replace function pgrag_private.distinct_words(p_text text) returns tsvector
language sql immutable parallel safe
return case when octet_length(p_text) = length(p_text) then strip(to_tsvector('pg_catalog.simple', p_text))
       else strip(to_tsvector('pg_catalog.simple', regexp_replace(p_text, pgrag_private.unspaced_run(), ' ', 'g')) || pgrag_private.unspaced_pairs(p_text)) end;

-- "t" is what the parser leaves of "isn't", and "n" of "n'est".
create or replace function pgrag_private.negations() returns text[]
language sql immutable parallel safe
return '{no,not,never,none,nor,neither,without,cannot,except,unless,t,nothing,nobody,nicht,nichts,kein,
         keine,keinen,keinem,keiner,keines,nie,niemals,niemand,ohne,außer,n,ne,ni,pas,jamais,sans,
         aucun,aucune,rien,sauf,sin,nunca,nada,jamás,ningún,ninguno,ninguna,tampoco,excepto,salvo,non,
         né,mai,senza,nessun,nessuno,nessuna,niente,tranne,niet,geen,nooit,zonder,niets,behalve,não,nem,
         sem,nenhum,nenhuma,exceto,inte,ingen,inget,inga,aldrig,utan,ikke,aldri,uden,uten,ei,eivät,älä,
         ilman,nincs,nélkül,bez,nigdy,żaden,oprócz,değil,hayır,asla,hariç,не,нет,ни,нельзя,никогда,без,
         кроме,ні,δεν,μη,μην,όχι,χωρίς,لا,لم,لن,ليس,ليست,غير,بدون,دون,إلا,नहीं,मत,बिना}'::text[];

create or replace function pgrag_private.numbers() returns text[]
language sql immutable parallel safe
return '{zero,one,two,three,four,five,six,seven,eight,nine,ten,eleven,twelve,twenty,thirty,forty,fifty,
         sixty,seventy,eighty,ninety,hundred,thousand,million,billion,half,double,triple,once,twice,first,
         second,third,"null",eins,zwei,drei,vier,fünf,sechs,sieben,acht,neun,elf,zwölf,halb,halbe,
         doppelt,erste,zweite,dritte,un,deux,trois,quatre,cinq,sept,huit,neuf,dix,onze,douze,treize,
         quatorze,quinze,seize,vingt,trente,quarante,cinquante,soixante,cent,mille,cero,dos,tres,cuatro,
         cinco,seis,siete,ocho,nueve,diez,doce,trece,catorce,quince,veinte,treinta,cuarenta,cincuenta,
         sesenta,setenta,ochenta,noventa,cien,ciento,mil,due,tre,quattro,cinque,sei,sette,otto,nove,
         dieci,undici,dodici,venti,trenta,quaranta,cinquanta,sessanta,settanta,ottanta,novanta,cento,dois,
         duas,três,quatro,sete,oito,dez,doze,vinte,trinta,quarenta,cinquenta,sessenta,oitenta,cem,twee,
         drie,vijf,zes,zeven,negen,tien,twaalf,två,fyra,fem,sex,sju,åtta,nio,tio,elva,tolv,tjugo,
         trettio,fyrtio,femtio,sextio,sjuttio,åttio,nittio,hundra,tusen,seks,syv,otte,
         один,два,две,три,четыре,пять,пяти,шесть,шести,семь,семи,восемь,девять,десять,сорок,сорока,сто,
         девяносто,девяноста,тысяча}'::text[];

-- Numbers and negations, of the languages that are known here. Of unspaced scripts the word is a pair of characters. Whatever
-- this takes for a difference and is none is shown twice; what it misses is hidden.
create or replace function pgrag_private.makes_a_difference(p_word text) returns boolean
language sql immutable parallel safe
return p_word ~ '[0-9不没沒無无非未勿莫別别禁〇零一二三四五六七八九十百千万萬億亿两兩半않없못안말]|ない|せん|ずに|なし|ไม|ห้'
  or p_word ~ '(?:teen|zehn|zig|ßig|hundert|tausend|tien|tig|honderd|duizend|дцат.*|десят.*|.сот|сот.*)$'
  or p_word ~ '^(?:ثلاث|أربع|خمس|ست|سبع|ثمان|تسع|عشر)'
  or p_word = any (pgrag_private.negations()) or p_word = any (pgrag_private.numbers());

-- sql/functions/private/pick.sql

-- The k that come back, taken from the ranked chunks in order: no more of one document or source than its cap, and of
-- near-duplicates the first, with the others listed under it. Stops at k, so what comes after is not looked at.
create or replace function pgrag_private.pick(
  p_tenant_id bigint, p_ranked pgrag_private.ranked_chunk[], p_k integer, p_per_document integer, p_per_source integer,
  out chunks pgrag_private.ranked_chunk[], out complete_reason text
) language plpgsql stable parallel restricted as $$
declare
  v_place      record;
  v_documents  bigint[] := '{}';
  v_sources    bigint[] := '{}';
  v_words      tsvector[] := '{}';
  v_these      tsvector;
  v_similarity double precision;
  v_capped     boolean := false;
begin
  chunks := '{}';
  <<ranked>>
  for v_place in
    select k.n, p.*
      from unnest(p_ranked) with ordinality as k (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                  dense_rank, dense_score, tf, part, duplicates, n)
     cross join lateral (
       select r.document_id, d.source_id, s.source, d.document, encode(c.chunk_id, 'hex') as chunk_id, c.text
         from pgrag_data.chunk c
        cross join lateral (select r.* from pgrag_data.revision r where r.tenant_id = c.tenant_id and r.revision_id = c.revision_id offset 0) r
        cross join lateral (select d.* from pgrag_data.document d where d.tenant_id = r.tenant_id and d.document_id = r.document_id offset 0) d
        cross join lateral (select s.* from pgrag_data.source s where s.tenant_id = d.tenant_id and s.source_id = d.source_id offset 0) s
        where c.tenant_id = p_tenant_id and c.revision_id = k.revision_id and c.chunk_no = k.chunk_no
       offset 0) p -- row by row: no row outside the scope is touched
     order by k.n
  loop
    if cardinality(array_positions(v_documents, v_place.document_id)) >= p_per_document
       or cardinality(array_positions(v_sources, v_place.source_id)) >= p_per_source then
      v_capped := true;
      continue;
    end if;
    v_these := pgrag_private.distinct_words(v_place.text);
    for v_n in 1 .. cardinality(chunks) loop
      -- What cannot be similar is not looked at more closely, which would take four times as long.
      continue when length(v_these) not between 0.9 * length(v_words[v_n]) and length(v_words[v_n]) / 0.9
                 or length(ts_delete(v_these, tsvector_to_array(v_words[v_n]))) > 0.1 * (length(v_these) + length(v_words[v_n]));
      v_similarity := pgrag_private.similarity(v_words[v_n], v_these);
      if v_similarity >= 0.9 then
        chunks[v_n].duplicates := chunks[v_n].duplicates || jsonb_build_array(jsonb_build_object(
          'chunk_id', v_place.chunk_id, 'source', v_place.source, 'document', v_place.document,
          'similarity', pgrag_private.score(v_similarity)));
        continue ranked;
      end if;
    end loop;
    chunks := chunks || p_ranked[v_place.n];
    v_documents := v_documents || v_place.document_id;
    v_sources := v_sources || v_place.source_id;
    v_words := v_words || v_these;
    exit when cardinality(chunks) = p_k; -- here, not above: to ask for another row fetches fifty
  end loop;
  complete_reason := case
    when cardinality(chunks) = p_k then 'k_returned'
    when v_capped then 'capped'
    else 'all_matches_returned' end;
end
$$;

-- sql/functions/private/describe_chunk.sql

-- What is said of a chunk wherever it is shown: where it is from, and its text. Put into the statement that calls it in its FROM.
-- OFFSET 0 keeps it row by row, one table after the other, so that no other row is touched: among a thousand small tenants the
-- planner read all documents of a large one for each hit.
create or replace function pgrag_private.describe_chunk(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer) returns table (described jsonb)
language sql stable parallel restricted
begin atomic
  select jsonb_build_object(
    'chunk_id', encode(c.chunk_id, 'hex'),
    'source', s.source,
    'document', d.document,
    'revision', r.revision,
    'active', r.revision_id is not distinct from d.active_revision_id,
    'title', r.title,
    'section', c.section,
    'page', c.page,
    'language', c.language,
    'span_start', c.span_start,
    'span_end', c.span_end,
    'span_unit', 'code points',
    'tokens', c.token_count,
    'tokenizer', r.tokenizer,
    'trust', s.trust,
    'effective_from', pgrag_private.utc(r.effective_from),
    'effective_to', pgrag_private.utc(r.effective_to),
    'ingested_at', pgrag_private.utc(r.created_at),
    'text', c.text)
    from pgrag_data.chunk c
   cross join lateral (select r.* from pgrag_data.revision r where r.tenant_id = c.tenant_id and r.revision_id = c.revision_id offset 0) r
   cross join lateral (select d.* from pgrag_data.document d where d.tenant_id = r.tenant_id and d.document_id = r.document_id offset 0) d
   cross join lateral (select s.* from pgrag_data.source s where s.tenant_id = d.tenant_id and s.source_id = d.source_id offset 0) s
   where c.tenant_id = p_tenant_id and c.revision_id = p_revision_id and c.chunk_no = p_chunk_no
  offset 0;
end;

-- sql/functions/private/check_search.sql

-- Bounds of a search. Types are what PostgreSQL's own let through.
create or replace function pgrag_private.check_search(p_search pgrag_private.search_request) returns void
language plpgsql immutable parallel safe as $$
declare
  v_wording text;
begin
  if greatest(array_ndims(p_search.probes), array_ndims(p_search.probe_embeddings), array_ndims(p_search.chunk_order)) > 1 then
    raise exception using errcode = 'RG308', message = 'probes, their embeddings and an order are plain lists',
      hint = 'Pass arrays of one dimension.';
  end if;
  foreach v_wording in array array[p_search.question] || coalesce(p_search.probes, '{}') loop
    if v_wording is null or pgrag_private.is_blank(v_wording) then
      raise exception using errcode = 'RG301', message = 'the question is empty', hint = 'Pass the question''s text; a probe is text too.';
    elsif length(v_wording) > 4000 then
      raise exception using errcode = 'RG301', message = 'the question is too long',
        detail = format('%s characters; the bound is 4000', length(v_wording)), hint = 'Ask for what is sought, without its context.';
    end if;
  end loop;
  if p_search.k is null or p_search.k not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'k must be a whole number from 1 to 100',
      detail = format('k: %s', coalesce(p_search.k::text, 'null')), hint = 'Narrow the question or filter; there are no further pages.';
  elsif p_search.candidates is null or p_search.candidates not between p_search.k and 1000 then
    raise exception using errcode = 'RG302', message = 'candidates must be a whole number from k to 1000',
      detail = format('candidates: %s, k: %s', coalesce(p_search.candidates::text, 'null'), p_search.k),
      hint = 'Leave it out for the default of 100.';
  elsif p_search.per_document not between 1 and 100 or p_search.per_source not between 1 and 100 then
    raise exception using errcode = 'RG302', message = 'a cap must be a whole number from 1 to 100',
      hint = 'Leave per_document and per_source out for no cap.';
  elsif p_search.mode is null or p_search.mode not in ('hybrid', 'lexical', 'dense') then
    raise exception using errcode = 'RG303', message = 'the mode is not known', hint = 'Modes: hybrid, lexical, dense.';
  elsif p_search.fusion is null or p_search.fusion not in ('convex', 'rrf') then
    raise exception using errcode = 'RG303', message = 'the fusion is not known', hint = 'Fusions: convex, rrf.';
  elsif p_search.isolation is null or p_search.isolation not in ('auto', 'strict') then
    raise exception using errcode = 'RG303', message = 'the isolation is not known', hint = 'Isolations: auto, strict.';
  elsif p_search.profile is null or p_search.profile not in ('normal', 'retry') then
    raise exception using errcode = 'RG303', message = 'the profile is not known', hint = 'Profiles: normal, retry.';
  elsif p_search.as_of not between '0001-01-01' and '9999-12-31T23:59:59.999999Z' then
    raise exception using errcode = 'RG303', message = 'as_of must be a point in time', hint = 'Leave it out for today''s revisions.';
  elsif p_search.threshold = 'NaN' or p_search.threshold not between 0 and 1 then
    raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1', hint = 'Leave it out for the mode''s default.';
  elsif cardinality(p_search.probes) > 4 or cardinality(p_search.probe_embeddings) <> coalesce(cardinality(p_search.probes), 0) then
    raise exception using errcode = 'RG308', message = 'there are too many probes, or not one embedding for each',
      detail = format('probes: %s, embeddings: %s', coalesce(cardinality(p_search.probes), 0),
                      coalesce(cardinality(p_search.probe_embeddings)::text, 'none')),
      hint = 'Pass at most 4 further wordings, and for all of them an embedding or for none.';
  elsif p_search.mode = 'dense' and cardinality(p_search.probes) > 0 and p_search.probe_embeddings is null then
    raise exception using errcode = 'RG308', message = 'in dense mode a probe needs its embedding',
      hint = 'Pass p_probe_embeddings, or p_mode => ''lexical''.';
  elsif cardinality(p_search.chunk_order) > 100 or array_position(p_search.chunk_order, null) is not null
        or length(p_search.reranker) > 200 or (p_search.chunk_order is null) <> (p_search.reranker is null) then
    raise exception using errcode = 'RG308', message = 'a reranker''s order is at most 100 chunk ids, with the reranker''s name',
      hint = 'Pass p_order and p_reranker together; chunk ids as in the hits, the best first.';
  end if;
end
$$;

-- A question's vector is compared with vectors of its own space only: equal dimensions prove nothing.
create or replace function pgrag_private.check_embedding(p_tenant_id bigint, p_space text, p_embedding public.vector)
returns pgrag_data.embedding_space
language plpgsql stable parallel restricted as $$
declare
  v_space pgrag_data.embedding_space;
begin
  if p_embedding is null or p_space is null then
    raise exception using errcode = 'RG305', message = 'this mode needs the question''s embedding and the name of its space',
      hint = 'Pass p_embedding and p_space, or p_mode => ''lexical''.';
  end if;
  select s.* into v_space
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id in (t.active_space_id, t.next_space_id)
   where t.tenant_id = p_tenant_id and s.space = p_space;
  if not found then
    raise exception using errcode = 'RG305', message = 'the embedding is not of the tenant''s active space',
      hint = 'select * from pgrag.active_space() names it; encode the question with its model.';
  end if;
  if public.vector_dims(p_embedding) <> v_space.dimension then
    raise exception using errcode = 'RG305', message = 'the embedding has not the dimension of its space',
      detail = format('%s; the space has %s', public.vector_dims(p_embedding), v_space.dimension),
      hint = 'Encode the question with the space''s model.';
  end if;
  if public.vector_norm(p_embedding) = 0 then
    raise exception using errcode = 'RG305', message = 'the embedding is zero, which is near to nothing',
      hint = 'The model knows no word of the question: ask with p_mode => ''lexical''.';
  end if;
  -- pgvector sums squares in single precision: beyond these the cosine would be NaN, and the answer empty.
  if public.vector_norm(p_embedding) not between 1e-15 and 1e15 then
    raise exception using errcode = 'RG305', message = 'the embedding is too short or too long to be compared',
      detail = 'its length must be from 1e-15 to 1e15', hint = 'Scale it to length 1: the cosine does not change.';
  end if;
  return v_space;
end
$$;

-- sql/functions/private/retrieve.sql

-- The one way from a question to ranked chunks; pgrag.search, pgrag.search_json and pgrag.packet are its
-- clothes. check → scope → plan → lanes → fuse → pick → describe, in one snapshot: every function below it is STABLE.
-- Its own statements are planned once a session, half of the time of a small search; scope and lanes are planned for what
-- they are asked (a generic plan turned 0.4 ms into 1,508 there).
--
-- The answer is an object:
--   status, reason     'evidence', or 'abstain' with nothing_visible, stop_words_only, nothing_matches, below_threshold
--   complete           whether k rows, or all rows that match, came back; complete_reason says which, or why not
--   policy             what was in force, bounds that were hit among it
--   hits               best first; each with its place, provenance, ranks, scores and matched terms
--
-- How the default fusion, convex, orders hybrid hits (docs/ranking.md has the measurements, and what lost):
--   score      (share / best share + trust * cosine) / 2
--   share      a hit's BM25 over the most that the question could score; the best of the question counts as 0.3 at the least
--   trust      1, but where the cosine is noise for this question, as that of an English model is for Arabic text: the lexical
--              lane has found something, and the cosines of what it found do not rise with its scores
-- and what the threshold applies to, whatever the order:
--   relevance  the square root of coverage * cosine: a hit is evidence if it has the question's rare words and its vector is near
--              (of a chunk that has no vector, its normalised BM25); in lexical mode the normalised BM25, in dense mode the cosine
create or replace function pgrag_private.retrieve(p_principal pgrag_private.principal, p_search pgrag_private.search_request) returns jsonb
language plpgsql stable parallel restricted set plan_cache_mode = force_generic_plan as $$
declare
  rrf_constant constant integer := 60;
  v_tenant_id   bigint := p_principal.tenant_id;
  v_lexical     boolean := p_search.mode <> 'dense';
  v_dense       boolean := p_search.mode <> 'lexical';
  v_threshold   double precision := coalesce(p_search.threshold, pgrag_private.default_threshold(p_search.mode));
  v_candidates  integer;
  v_space       pgrag_data.embedding_space;
  v_embedding   public.vector;
  v_question    record;
  v_wordings    text[];
  v_embeddings  public.vector[];
  v_halves      public.halfvec[];
  v_scope       pgrag_private.search_scope;
  v_index       boolean;
  -- Blocks have active revisions only: what was in force at another time is compared.
  v_dense_isolation constant text := case when p_search.as_of is null then p_search.isolation else 'strict' end;
  v_limit       integer;
  v_dense_plan  pgrag_private.dense_plan;
  v_fell_back   boolean;
  v_relaxed     text[] := '{}';
  v_languages   text[];
  v_conditions  tsquery[];
  v_plans       pgrag_private.lexical_plan[] := '{}';
  v_ranked      pgrag_private.ranked_chunk[];
  v_top         double precision;
  v_trust       double precision;
  v_picked      record;
  v_hits        jsonb;
  v_bound       jsonb;
  v_full        boolean;
  v_complete    text;
  v_reason      text;
begin
  perform pgrag_private.check_search(p_search);
  perform pgrag_private.check_filter(p_search.filter);
  if v_dense then
    v_embeddings := array[p_search.embedding] || p_search.probe_embeddings;
    foreach v_embedding in array v_embeddings loop
      v_space := pgrag_private.check_embedding(v_tenant_id, p_search.space, v_embedding);
      v_halves := v_halves || public.l2_normalize(v_embedding)::public.halfvec;
    end loop;
  end if;
  v_question := pgrag_private.parse_question(p_search.question);
  v_wordings := array[v_question.words] || p_search.probes;
  v_candidates := p_search.candidates;
  if p_search.profile = 'retry' then
    v_candidates := least(4 * v_candidates, 1000);
    if cardinality(v_question.phrases) > 0 then
      v_question.phrases := '{}';
      v_relaxed := '{phrases}';
    end if;
  end if;

  v_scope := pgrag_private.search_scope(v_tenant_id, p_principal.reader_id, p_search,
                                        p_listed => v_lexical or cardinality(v_question.phrases) > 0);
  v_index := p_search.isolation = 'auto' and v_scope.chunks > pgrag_private.scope_first_limit();

  -- A phrase that nothing visible holds is asked for as words, and the answer says so.
  if cardinality(v_question.phrases) > 0 and not pgrag_private.phrases_occur(v_scope, v_question.phrases, v_index) then
    v_question.phrases := '{}';
    v_relaxed := '{phrases}';
  end if;
  if v_lexical then
    v_plans := pgrag_private.lexical_plans(v_scope, v_wordings, v_question.phrases, v_question.excluded, v_index);
  end if;
  if v_dense and cardinality(v_question.phrases || v_question.excluded) > 0 then
    select array_agg(l.language), array_agg(s.condition) into v_languages, v_conditions
      from (select s.languages, pgrag_private.question_condition(s.languages[1], v_question.phrases, v_question.excluded) as condition
              from pgrag_private.scope_languages(v_scope.parts) s offset 0) s
     cross join lateral unnest(s.languages) as l (language);
  end if;

  if p_search.mode = 'dense' and cardinality(v_wordings) = 1 then
    -- One lane and one wording: there is nothing to fuse, and a few candidates are enough for k of them, unless so many are
    -- left out as near-duplicates or by a cap that fewer come back; then all are asked for.
    foreach v_limit in array case when p_search.chunk_order is null then array[least(greatest(2 * p_search.k, 20), v_candidates)] end || v_candidates loop
      v_dense_plan := pgrag_private.dense_plan(v_scope, v_space, v_limit, v_dense_isolation);
      select array_agg((d.revision_id, d.chunk_no, d.cosine, greatest(d.cosine, 0), 0, null, null, d.place, d.cosine,
                        null, null, '[]')::pgrag_private.ranked_chunk
                       order by array_position(p_search.chunk_order, encode(d.chunk_id, 'hex')), d.cosine desc, d.chunk_id),
             coalesce(bool_or(d.place = v_limit), false), bool_or(d.fell_back)
        into v_ranked, v_full, v_fell_back
        from (select l.*, row_number() over (order by l.cosine desc, l.chunk_id) as place
                from pgrag_private.dense_lane(v_scope, v_dense_plan, v_space.space_id, p_search.embedding, v_limit, v_languages, v_conditions) l) d;
      v_picked := pgrag_private.pick(v_tenant_id, v_ranked, p_search.k, p_search.per_document, p_search.per_source);
      exit when cardinality(v_picked.chunks) = p_search.k or not v_full or v_limit = v_candidates;
    end loop;
  else
    if v_dense then
      v_dense_plan := pgrag_private.dense_plan(v_scope, v_space, v_candidates, v_dense_isolation);
    end if;
    with dense as materialized (
      select (w.n - 1)::integer as wording, d.revision_id, d.chunk_no, d.chunk_id, d.fell_back,
             row_number() over (partition by w.n order by d.cosine desc, d.chunk_id) as place
        from unnest(v_embeddings) with ordinality as w (embedding, n)
       cross join lateral pgrag_private.dense_lane(v_scope, v_dense_plan, v_space.space_id, w.embedding, v_candidates,
                                                   v_languages, v_conditions) d
    ), also as materialized (
      select array_agg(d.revision_id) as revisions, array_agg(d.chunk_no) as chunks from (select distinct revision_id, chunk_no from dense) d
    ), lexical as materialized (
      select p.wording, l.revision_id, l.chunk_no, l.chunk_id, l.score, l.share, l.coverage, l.evidence, l.tf, l.part,
             row_number() over (partition by p.wording order by l.share desc, l.score desc, l.chunk_id) as place
        from unnest(v_plans) as p
       cross join also a
       cross join lateral pgrag_private.lexical_lane(v_tenant_id, p, v_candidates, a.revisions, a.chunks) l
    ), candidate as materialized (
      select revision_id, chunk_no, chunk_id from lexical where place <= v_candidates
      union
      select revision_id, chunk_no, chunk_id from dense
    ), scored as materialized (
      -- What one lane found is scored by both: what the other lane would have said of it is known exactly.
      select c.revision_id, c.chunk_no, c.chunk_id, w.n::integer as wording, l.score as lexical_score, l.tf, l.part,
             case when l.place <= v_candidates then l.place end as lexical_rank, d.place as dense_rank,
             coalesce(l.share, 0) as share, coalesce(l.coverage, 0) as coverage, coalesce(l.evidence, 0) as evidence,
             case when v_embeddings is not null then
               -- Row by row: a scalar sub-select cannot become a join, which would touch rows outside the scope.
               -- A probe without a vector of its own is a wording of the question, and has the question's.
               (select nullif(1 - coalesce(v.embedding operator(public.<=>) coalesce(v_embeddings[w.n + 1], v_embeddings[1]),
                                          v.half operator(public.<=>) coalesce(v_halves[w.n + 1], v_halves[1])), 'NaN')
                  from pgrag_data.chunk_vec v
                 where v.tenant_id = v_tenant_id and v.space_id = v_space.space_id
                   and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
             end as cosine
        from candidate c
       cross join generate_series(0, cardinality(v_wordings) - 1) as w (n)
        left join lexical l on l.wording = w.n and l.revision_id = c.revision_id and l.chunk_no = c.chunk_no
        left join dense d on d.wording = w.n and d.revision_id = c.revision_id and d.chunk_no = c.chunk_no
    ), trusted as materialized (
      -- Of each wording's lexical candidates: their best, and how far their cosines rise with their scores (a correlation of 0.2 is
      -- full agreement); ten of full agreement are added in, so that a handful cannot decide. Three points say nothing: any two
      -- are on a line.
      select a.wording, a.best, 1 - least(a.best / 0.3, 1) * (1 - least(greatest((a.n * coalesce(a.r, 0.2) + 2) / (a.n + 10) / 0.2, 0), 1)) as trust
        from (select s.wording, max(s.share) as best, greatest(count(s.cosine) - 3, 0) as n, corr(s.share, s.cosine order by s.chunk_id) as r
                from scored s
               where s.lexical_rank is not null
               group by s.wording) a
    ), judged as (
      select s.*, t.best,
             (s.share / greatest(t.best, 0.3) + coalesce(t.trust, 1) * greatest(coalesce(s.cosine, 0), 0)) / 2 as convex,
             coalesce(0.7 / (rrf_constant + s.lexical_rank), 0) + coalesce(0.3 / (rrf_constant + s.dense_rank), 0) as rrf,
             case p_search.mode when 'lexical' then s.evidence
                                when 'dense' then greatest(coalesce(s.cosine, 0), 0)
                                else sqrt(s.coverage * greatest(coalesce(s.cosine, s.evidence), 0)) end as relevance
        from scored s
        left join trusted t on t.wording = s.wording -- no lexical candidate: nothing speaks against the cosine
    ), whole as (
      -- A chunk is as relevant as the wording that it fits best says; lanes of ranks add up.
      select j.revision_id, j.chunk_no, j.chunk_id, max(j.relevance) as relevance,
             case when p_search.mode = 'dense' then max(j.cosine)
                  when p_search.mode = 'lexical' then max(j.share / greatest(j.best, 1))
                  when p_search.fusion = 'rrf' then sum(j.rrf order by j.wording)
                  else max(j.convex) end as score,
             (array_agg(j.wording order by j.relevance desc, j.wording))[1] as wording,
             max(j.lexical_rank) filter (where j.wording = 0) as lexical_rank, max(j.lexical_score) filter (where j.wording = 0) as lexical_score,
             max(j.dense_rank) filter (where j.wording = 0) as dense_rank, max(j.cosine) filter (where j.wording = 0) as dense_score,
             min(j.tf) filter (where j.wording = 0) as tf, min(j.part) filter (where j.wording = 0) as part
        from judged j
       group by j.revision_id, j.chunk_no, j.chunk_id
    )
    select (select coalesce(min(t.trust), 1) from trusted t where t.wording = 0),
           array_agg((w.revision_id, w.chunk_no, w.score, w.relevance, w.wording, w.lexical_rank, w.lexical_score, w.dense_rank,
                      w.dense_score, w.tf, w.part, '[]')::pgrag_private.ranked_chunk
                     order by array_position(p_search.chunk_order, encode(w.chunk_id, 'hex')), w.score desc, w.chunk_id),
           exists (select from lexical where place = v_candidates) or exists (select from dense where place = v_candidates),
           (select bool_or(d.fell_back) from dense d)
      into v_trust, v_ranked, v_full, v_fell_back
      from whole w;
    v_picked := pgrag_private.pick(v_tenant_id, v_ranked, p_search.k, p_search.per_document, p_search.per_source);
  end if;

  select max(h.relevance), jsonb_agg(
           c.described || jsonb_build_object(
             'rank', h.n,
             'score', pgrag_private.score(h.score),
             'relevance', pgrag_private.score(h.relevance),
             'lexical_rank', h.lexical_rank,
             'lexical_score', pgrag_private.score(h.lexical_score),
             'dense_rank', h.dense_rank,
             'dense_score', pgrag_private.score(h.dense_score),
             'matched_terms', case when v_lexical then pgrag_private.matched_terms(v_tenant_id, h.revision_id, h.chunk_no, v_plans, h.tf, h.part) else '[]' end,
             'probe', nullif(h.wording, 0),
             'duplicates', h.duplicates)
           order by h.n)
    into v_top, v_hits
    from unnest(v_picked.chunks) with ordinality as h (revision_id, chunk_no, score, relevance, wording, lexical_rank, lexical_score,
                                                       dense_rank, dense_score, tf, part, duplicates, n)
   cross join lateral pgrag_private.describe_chunk(v_tenant_id, h.revision_id, h.chunk_no) c;

  v_bound := pgrag_private.lexical_bound(v_plans);
  -- A full lane, of near-duplicates that collapsed: there may be more behind its last candidate.
  v_complete := case when v_picked.complete_reason = 'all_matches_returned' and v_full then 'capped'
                     when v_picked.complete_reason = 'all_matches_returned' and v_bound is not null then 'words_not_searched'
                     else v_picked.complete_reason end;
  v_reason := case
    when v_scope.chunks = 0 then 'nothing_visible'
    when v_hits is null and v_lexical and v_plans = '{}' then 'stop_words_only'
    when v_hits is null then 'nothing_matches'
    when v_top < v_threshold then 'below_threshold'
  end;
  return jsonb_build_object(
    'status', case when v_reason is null then 'evidence' else 'abstain' end,
    'reason', v_reason,
    'complete', v_complete in ('k_returned', 'all_matches_returned'),
    'complete_reason', v_complete,
    'policy', jsonb_strip_nulls(jsonb_build_object(
      'mode', p_search.mode, 'k', p_search.k, 'candidates', v_candidates, 'profile', p_search.profile, 'isolation', p_search.isolation,
      'fusion', case when p_search.mode = 'hybrid' then p_search.fusion end,
      'rrf_constant', case when p_search.mode = 'hybrid' and p_search.fusion = 'rrf' then rrf_constant end,
      'lexical_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.7 else 0.5 end end,
      'dense_weight', case when p_search.mode = 'hybrid' then case p_search.fusion when 'rrf' then 0.3 else pgrag_private.score(0.5 * v_trust) end end,
      'bm25', case when v_lexical then jsonb_build_object('k1', 1.2, 'b', 0.75) end,
      'lexical_route', case when v_lexical then case when v_index then 'index' else 'scope' end end,
      'lexical_bound', v_bound,
      'dense_route', v_dense_plan.route,
      'dense_costs', v_dense_plan.costs,
      'dense_blocks', nullif(cardinality(v_dense_plan.blocks), 0),  -- how many: their numbers would count those of other tenants
      'dense_requested', case when v_dense_plan.route <> 'exact' then v_dense_plan.requested end,
      'dense_fell_back', nullif(v_fell_back, false),
      'space', v_space.space,
      'phrases', nullif(to_jsonb(v_question.phrases), '[]'),
      'excluded', nullif(to_jsonb(v_question.excluded), '[]'),
      'relaxed', nullif(to_jsonb(v_relaxed), '[]'),
      'probes', cardinality(p_search.probes),
      'per_document', p_search.per_document,
      'per_source', p_search.per_source,
      'reranker', p_search.reranker,
      'threshold', pgrag_private.score(v_threshold))),
    'scope', jsonb_build_object('documents', v_scope.documents, 'chunks', v_scope.chunks),
    'top_relevance', pgrag_private.score(v_top),
    'processors', (select coalesce(jsonb_object_agg(s.source, to_jsonb(s.processors)), '{}')
                     from pgrag_data.source s
                    where s.tenant_id = v_tenant_id
                      and s.source in (select hit ->> 'source' from jsonb_array_elements(v_hits) as h (hit))),
    'hits', coalesce(v_hits, '[]'));
end
$$;

-- Below these the best hit is no evidence. Measured: see docs/ranking.md.
create or replace function pgrag_private.default_threshold(p_mode text) returns double precision
language sql immutable parallel safe
return case p_mode when 'lexical' then 0.22 when 'dense' then 0.30 else 0.40 end;

-- sql/functions/private/count_document.sql

-- Adds to the ledger what a document makes visible (1), or takes it away (-1). The caller has locked the document's row,
-- and moves its pointer in the same transaction. Nothing in force, or a tombstone: nothing to count.
create or replace function pgrag_private.count_document(p_document pgrag_data.document, p_sign integer) returns void
language plpgsql volatile parallel unsafe as $$
begin
  if p_document.active_revision_id is null or p_document.deleted_at is not null then
    return;
  end if;
  insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
  select p_document.tenant_id, p_document.acl_id, p_document.source_id, r.languages, r.effective_to,
         p_sign, p_sign * r.chunk_count, p_sign * r.lexeme_count
    from pgrag_data.revision r
   where r.tenant_id = p_document.tenant_id and r.revision_id = p_document.active_revision_id;
end
$$;

-- sql/functions/private/switch_revision.sql

-- The switch that activation and rollback are. The document's row is locked first, so that two switches of one
-- document queue; what was expected is compared on the locked row.
create or replace function pgrag_private.switch_revision(
  p_principal       pgrag_private.principal,
  p_document        pgrag_data.document,
  p_revision        pgrag_data.revision,
  p_action          text,
  p_expected_active text,
  p_restore         boolean
) returns boolean
language plpgsql volatile parallel unsafe as $$
declare
  v_locked pgrag_data.document;
  v_active text;
  v_before bigint;
begin
  select d.* into v_locked from pgrag_data.document d
   where d.tenant_id = p_document.tenant_id and d.document_id = p_document.document_id for no key update;
  select r.revision into v_active from pgrag_data.revision r
   where r.tenant_id = v_locked.tenant_id and r.revision_id = v_locked.active_revision_id;
  -- Already so: a caller that lost the first answer may ask again, whatever it then expected.
  if v_locked.active_revision_id is not distinct from p_revision.revision_id and v_locked.deleted_at is null then
    return false;
  end if;
  if p_expected_active is not null and p_expected_active <> coalesce(v_active, '') then
    raise exception using errcode = 'RG402', message = 'another revision is active than was expected',
      detail = format('active: %s; expected: %s', coalesce(v_active, 'none'), coalesce(nullif(p_expected_active, ''), 'none')),
      hint = 'Look at what is active now, and decide again.';
  elsif v_locked.deleted_at is not null and not p_restore then
    raise exception using errcode = 'RG409', message = 'the document is deleted',
      hint = 'To bring it back on purpose: pgrag.activate(…, p_restore => true).';
  end if;
  update pgrag_data.document d
     set active_revision_id = p_revision.revision_id, active_until = p_revision.effective_to, deleted_at = null, changed_xid = pg_current_xact_id()
   where d.tenant_id = v_locked.tenant_id and d.document_id = v_locked.document_id
     and d.active_revision_id is not distinct from v_locked.active_revision_id;
  perform pgrag_private.count_document(v_locked, -1);
  v_before := v_locked.active_revision_id;
  v_locked.active_revision_id := p_revision.revision_id;
  v_locked.deleted_at := null;
  perform pgrag_private.count_document(v_locked, 1);
  insert into pgrag_data.activation (tenant_id, document_id, revision_id, replaced_revision_id, action, subject)
  values (v_locked.tenant_id, v_locked.document_id, p_revision.revision_id,
          nullif(v_before, p_revision.revision_id), p_action, p_principal.subject);
  return true;
end
$$;

-- sql/functions/private/finding.sql

-- One failing check of a reply.
create or replace function pgrag_private.finding(p_check text, p_id text, p_message text) returns jsonb
language sql immutable parallel safe
return jsonb_build_array(jsonb_build_object('check', p_check, 'id', p_id, 'message', p_message));

-- Why a cited chunk no longer counts. Only a reader who may still read the document is told which way it changed;
-- to anyone else a deleted, a forbidden and an absent one are the same.
create or replace function pgrag_private.finding_of_access(p_principal pgrag_private.principal, p_id text, p_revision_id bigint) returns jsonb
language plpgsql stable parallel restricted as $$
declare
  v_document pgrag_data.document;
begin
  select d.* into v_document
    from pgrag_data.revision r
    join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
   where r.tenant_id = p_principal.tenant_id and r.revision_id = p_revision_id
     and d.acl_id in (select acl_id from pgrag_private.permitted_acls(p_principal.tenant_id, p_principal.reader_id) as a (acl_id));
  return case
    when not found then pgrag_private.finding('readable', p_id, 'the excerpt cannot be read by this reader now')
    when v_document.deleted_at is not null then pgrag_private.finding('deleted', p_id, 'the document was deleted')
    else pgrag_private.finding('active', p_id, 'the revision is no longer the one in force') end;
end
$$;

-- Quotes are compared as written and, failing that, after this: Unicode NFC, typographic quotes and dashes made
-- plain, runs of white space made one space.
create or replace function pgrag_private.plain_quote(p_text text) returns text
language sql immutable parallel safe
return btrim(regexp_replace(
  translate(normalize(p_text, nfc), U&'\2018\2019\201A\201C\201D\201E\2010\2011\2012\2013\2014\00A0', '''''''"""----- '),
  '[[:space:]]+', ' ', 'g'));

-- sql/functions/private/seal.sql

-- The seal of a packet: a MAC over the principal and everything in the packet but the excerpts' texts, which
-- their hashes stand for. So a packet can be kept without text, changed in nothing, and handed to nobody else.
create or replace function pgrag_private.seal(p_principal pgrag_private.principal, p_packet jsonb) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'packet|v1|' || p_principal.tenant_id || '|' || p_principal.reader_id || '|'
  || encode(convert_to(p_principal.subject, 'UTF8'), 'hex') || '|' || encode(sha256(convert_to(
  jsonb_set(p_packet - 'seal', '{excerpts}',
            coalesce((select jsonb_agg(excerpt - 'text' order by n)
                        from jsonb_array_elements(p_packet -> 'excerpts') with ordinality as e (excerpt, n)), '[]'))::text,
  'UTF8')), 'hex'));

-- sql/functions/private/build_packet.sql

-- Hits to a packet: whole passages in rank order while they fit, none below the threshold, none cut. What does
-- not fit is listed; strict mode refuses instead.
create or replace function pgrag_private.build_packet(
  p_principal   pgrag_private.principal,
  p_question    text,
  p_as_of       timestamptz,
  p_found       jsonb,
  p_budget      integer,
  p_budget_unit text,
  p_reserve     integer,
  p_strict      boolean
) returns jsonb
language plpgsql stable parallel restricted as $$
declare
  v_threshold numeric := (p_found #>> '{policy,threshold}')::numeric;
  v_question  integer;  -- its share of the budget
  v_left      integer;
  v_size      integer;
  v_hit       jsonb;
  v_excerpts  jsonb := '[]';
  v_omitted   jsonb := '[]';
  v_packet    jsonb;
begin
  if p_budget is null or p_budget not between 1 and 1000000 then
    raise exception using errcode = 'RG306', message = 'the budget must be a whole number from 1 to 1000000',
      hint = 'Pass it in the unit that p_budget_unit names: characters, bytes or tokens.';
  elsif p_budget_unit is null or p_budget_unit not in ('characters', 'bytes', 'tokens') then
    raise exception using errcode = 'RG306', message = 'the budget''s unit is not known', hint = 'Units: characters, bytes, tokens.';
  elsif p_reserve is null or p_reserve not between 0 and 1000000 then
    raise exception using errcode = 'RG306', message = 'the reserve must be a whole number from 0 to 1000000',
      hint = 'Leave it out for 0; it is the room for instructions and the reply, in the budget''s unit.';
  elsif p_strict is null then
    raise exception using errcode = 'RG306', message = 'strict must be true or false', hint = 'Leave it out for false.';
  end if;
  -- The question's tokens depend on the model's tokenizer, which the database has not: the reserve covers them.
  v_question := case p_budget_unit when 'characters' then length(p_question) when 'bytes' then octet_length(p_question) else 0 end;
  v_left := p_budget - v_question - p_reserve;
  if v_left <= 0 then
    raise exception using errcode = 'RG306', message = 'the budget leaves no room for evidence',
      detail = format('budget %s, reserve %s, question %s %s', p_budget, p_reserve, v_question, p_budget_unit),
      hint = 'Raise the budget or lower the reserve.';
  end if;

  if p_found ->> 'status' = 'evidence' then
    for v_hit in select hit from jsonb_array_elements(p_found -> 'hits') as h (hit) loop
      continue when (v_hit ->> 'relevance')::numeric < v_threshold;
      v_size := case p_budget_unit
        when 'characters' then length(v_hit ->> 'text')
        when 'bytes' then octet_length(v_hit ->> 'text')
        else (v_hit ->> 'tokens')::integer end;
      if v_size <= v_left then
        v_left := v_left - v_size;
        v_excerpts := v_excerpts || jsonb_build_array(
          jsonb_build_object('id', 'e' || jsonb_array_length(v_excerpts) + 1,
                             'text_sha256', encode(sha256(convert_to(v_hit ->> 'text', 'UTF8')), 'hex')) || v_hit);
      elsif p_strict then
        raise exception using errcode = 'RG502', message = 'the evidence does not fit the budget',
          detail = format('the passage at rank %s has %s %s; %s are left', v_hit ->> 'rank', v_size, p_budget_unit, v_left),
          hint = 'Raise the budget, lower k, or leave strict out to skip what does not fit.';
      else
        v_omitted := v_omitted || jsonb_build_array(jsonb_build_object(
          'chunk_id', v_hit -> 'chunk_id', 'rank', v_hit -> 'rank', 'size', v_size, 'reason', 'over_budget'));
      end if;
    end loop;
  end if;

  v_packet := jsonb_build_object(
    'version', 1,
    'question', p_question,
    'status', case when jsonb_array_length(v_excerpts) > 0 then 'evidence' else 'abstain' end,
    'reason', case when jsonb_array_length(v_excerpts) = 0 then coalesce(p_found ->> 'reason', 'over_budget') end,
    'excerpts', v_excerpts,
    'omitted', v_omitted,
    'complete', p_found -> 'complete',
    'complete_reason', p_found -> 'complete_reason',
    'as_of', pgrag_private.utc(p_as_of),
    'access_state', pgrag_private.access_state(p_principal),
    'corpus_state', pgrag_private.corpus_state(p_principal, p_as_of),
    'policy', p_found -> 'policy',
    'limits', jsonb_build_object('budget', p_budget, 'unit', p_budget_unit, 'reserve', p_reserve,
                                 'question', v_question, 'evidence', p_budget - p_reserve - v_question - v_left, 'left', v_left)
      -- Whose tokens were counted: documents may have been cut with different tokenizers.
      || case p_budget_unit when 'tokens' then jsonb_build_object('tokenizers', (
           select coalesce(jsonb_agg(distinct excerpt -> 'tokenizer'), '[]') from jsonb_array_elements(v_excerpts) as e (excerpt)))
         else '{}' end,
    'issued_at', pgrag_private.utc(statement_timestamp()));
  return v_packet || jsonb_build_object('seal', pgrag_private.seal(p_principal, v_packet));
end
$$;

-- Digests of what the reader was (self and groups) and of what the reader could see (revisions), so that two
-- packets can be told to rest on the same state. Keyed: internal ids are small numbers, and a bare hash of them
-- could be guessed back.
create or replace function pgrag_private.access_state(p_principal pgrag_private.principal) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'access|v1|' || p_principal.tenant_id || '|' || array_to_string(
  array(select c.principal_id from pgrag_private.closure(p_principal.tenant_id, p_principal.reader_id) as c (principal_id)
         order by c.principal_id), ','));

create or replace function pgrag_private.corpus_state(p_principal pgrag_private.principal, p_as_of timestamptz) returns text
language sql stable parallel restricted
return pgrag_private.internal_mac('seal', 'corpus|v1|' || p_principal.tenant_id || '|' || array_to_string(
  pgrag_private.scope(p_principal.tenant_id, p_principal.reader_id, p_as_of, null), ','));

-- sql/functions/private/request.sql

-- JSON requests: each field of exactly its JSON type, none unknown. JSON would let "2", true and 1.5 through
-- a cast to a number in one language or another; here they are refused by name.
create or replace function pgrag_private.check_json_request(p_request jsonb, variadic p_fields text[]) returns void
language plpgsql immutable parallel safe as $$
declare
  v_key   text;
  v_value jsonb;
  v_type  text;
begin
  if jsonb_typeof(p_request) is distinct from 'object' then
    raise exception using errcode = 'RG307', message = 'the request must be a JSON object',
      hint = 'For example {"question": "…", "mode": "lexical", "k": 5}.';
  end if;
  for v_key, v_value in select key, value from jsonb_each(p_request) loop
    if v_key <> all (p_fields) then
      raise exception using errcode = 'RG307', message = 'the request has a field that is not known',
        detail = format('field: %s', left(v_key, 100)), hint = format('Fields: %s.', array_to_string(p_fields, ', '));
    end if;
    v_type := jsonb_typeof(v_value);
    continue when v_type = 'null' and v_key not in ('k', 'candidates', 'budget', 'reserve', 'strict', 'question');
    if v_key in ('k', 'candidates', 'per_document', 'per_source', 'budget', 'reserve') then
      if v_type <> 'number' or (v_value #>> '{}') !~ '^-?[0-9]{1,9}$' then
        raise exception using errcode = case when v_key in ('budget', 'reserve') then 'RG306' else 'RG302' end,
          message = format('%s must be a whole number', v_key), detail = format('%s: %s', v_key, left(v_value::text, 40)),
          hint = 'Write it without a fraction and without quotes.';
      end if;
    elsif v_key = 'threshold' and v_type <> 'number'
       or v_key = 'strict' and v_type <> 'boolean'
       or v_key = 'filter' and v_type <> 'object'
       or v_key = 'embedding' and (v_type <> 'array'
            or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "number" || @ > 3e38 || @ < -3e38)'))
       or v_key in ('probes', 'order') and (v_type <> 'array' or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "string")'))
       or v_key = 'probe_embeddings' and (v_type <> 'array'
            or jsonb_path_exists(v_value, 'strict $[*] ? (@.type() != "array" || @.size() < 1 || @.size() > 4000)')
            or jsonb_path_exists(v_value, 'strict $[*][*] ? (@.type() != "number" || @ > 3e38 || @ < -3e38)'))
       or v_key not in ('threshold', 'strict', 'filter', 'embedding', 'probes', 'order', 'probe_embeddings') and v_type <> 'string' then
      raise exception using errcode = 'RG307', message = format('the field %s has the wrong type', v_key),
        hint = 'threshold is a number, strict true or false, filter an object, embedding a list of finite numbers, '
               'probes and order lists of texts, probe_embeddings a list of embeddings, all else text.';
    elsif v_key = 'threshold' and (v_value #>> '{}')::numeric not between 0 and 1 then
      raise exception using errcode = 'RG303', message = 'the threshold must be from 0 to 1',
        hint = 'Leave it out for the mode''s default.';
    elsif v_key = 'as_of' and not ((v_value #>> '{}') ~ '^[0-9]{4}-' and pg_input_is_valid(v_value #>> '{}', 'timestamptz')) then
      raise exception using errcode = 'RG303', message = 'as_of must be a point in time',
        hint = 'Write it as 2024-03-01 or 2024-03-01T12:00:00Z.';
    elsif v_key = 'embedding' and jsonb_array_length(v_value) not between 1 and 4000 then
      raise exception using errcode = 'RG305', message = 'the embedding has not the dimension of its space',
        hint = 'Encode the question with the space''s model.';
    end if;
  end loop;
end
$$;

create or replace function pgrag_private.json_texts(p_list jsonb) returns text[]
language sql immutable parallel safe
return case when jsonb_typeof(p_list) = 'array' then array(select value from jsonb_array_elements_text(p_list)) end;

create or replace function pgrag_private.retrieve_json(p_principal pgrag_private.principal, p_request jsonb, p_default_k integer) returns jsonb
language sql stable parallel restricted
return pgrag_private.retrieve(
  p_principal,
  (p_request ->> 'question',
   coalesce((p_request ->> 'k')::integer, p_default_k),
   coalesce(p_request ->> 'mode', 'hybrid'),
   (nullif(p_request -> 'embedding', 'null')::text)::public.vector,
   p_request ->> 'space',
   coalesce(p_request ->> 'fusion', 'convex'),
   (p_request ->> 'as_of')::timestamptz,
   nullif(p_request -> 'filter', 'null'),
   coalesce((p_request ->> 'candidates')::integer, greatest(100, coalesce((p_request ->> 'k')::integer, 0))),
   round((p_request ->> 'threshold')::numeric, 15)::double precision, -- rounded: 1e-400 is none of double precision
   pgrag_private.json_texts(p_request -> 'probes'),
   (select array_agg(e.embedding::text::public.vector order by e.n)
      from jsonb_array_elements(nullif(p_request -> 'probe_embeddings', 'null')) with ordinality as e (embedding, n)),
   (p_request ->> 'per_document')::integer,
   (p_request ->> 'per_source')::integer,
   coalesce(p_request ->> 'isolation', 'auto'),
   coalesce(p_request ->> 'profile', 'normal'),
   pgrag_private.json_texts(p_request -> 'order'),
   p_request ->> 'reranker')::pgrag_private.search_request);

-- sql/functions/version.sql

create or replace function pgrag.version() returns text
language sql immutable parallel safe
return '0.3.0';

comment on function pgrag.version is 'The version of pgrag that is installed in this database.';
revoke all on function pgrag.version from public;

-- sql/functions/status.sql

-- What is installed, without a word of what is in it: any role of pgrag may ask.
create or replace function pgrag.status() returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_vector text;
begin
  select e.extversion into v_vector from pg_extension e where e.extname = 'vector';
  return jsonb_build_object(
    'version', pgrag.version(),
    'server', current_setting('server_version'),
    'vector', v_vector,
    'vector_supported', string_to_array(v_vector, '.')::integer[] >= array[0, 8, 4],
    'read_only', pg_is_in_recovery());
end
$$;

comment on function pgrag.status is 'Versions of pgrag, server and pgvector, whether that pgvector is a supported one, and whether the server only reads.';
revoke all on function pgrag.status from public;

-- sql/functions/add_signing_key.sql

-- Registers a key that tokens may be signed with. The secret is stored as HMAC pads, and never shown again.
create or replace function pgrag.add_signing_key(p_kid text, p_secret bytea, p_issuer text, p_audience text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_inner bytea;
  v_outer bytea;
begin
  if p_kid is null or p_kid !~ '^[A-Za-z0-9_-]{1,64}$' then
    raise exception using errcode = 'RG211', message = 'this cannot be the name of a key',
      hint = 'Use 1 to 64 letters, digits, hyphens or underscores.';
  elsif p_secret is null or octet_length(p_secret) not between 32 and 1024 then
    raise exception using errcode = 'RG211', message = 'the secret must have 32 to 1024 bytes',
      hint = 'Take 32 bytes of a strong random source, for example: openssl rand -hex 32.';
  end if;
  perform pgrag_private.check_name('issuer', p_issuer);
  perform pgrag_private.check_name('audience', p_audience);
  v_inner := pgrag_private.hmac_pad(p_secret, 54); -- 0x36
  v_outer := pgrag_private.hmac_pad(p_secret, 92); -- 0x5c
  insert into pgrag_private.signing_key (kid, issuer, audience, inner_pad, outer_pad)
  values (p_kid, p_issuer, p_audience, v_inner, v_outer)
  on conflict on constraint signing_key_pkey do nothing;
  if not found then
    raise exception using errcode = 'RG211', message = 'a key of this name exists',
      hint = 'Keys do not change: add another under a new name, then retire this one.';
  end if;
end
$$;

comment on function pgrag.add_signing_key is 'Registers an HS256 key (32 bytes or more) under a kid, with the issuer and audience that its tokens must carry.';
revoke all on function pgrag.add_signing_key from public;

-- sql/functions/retire_signing_key.sql

-- Ends a key: tokens signed with it are refused from commit on, and so are principals already proven with it.
create or replace function pgrag.retire_signing_key(p_kid text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  update pgrag_private.signing_key k set retired_at = transaction_timestamp() where k.kid = p_kid and k.retired_at is null;
  if not found then
    perform pgrag_private.not_found('signing key');
  end if;
end
$$;

comment on function pgrag.retire_signing_key is 'Ends a signing key; its tokens are refused from then on.';
revoke all on function pgrag.retire_signing_key from public;

-- sql/functions/list_signing_keys.sql

create or replace function pgrag.list_signing_keys()
returns table (kid text, issuer text, audience text, created_at timestamptz, retired_at timestamptz)
language sql stable parallel restricted security definer set search_path = pg_catalog, pg_temp
begin atomic
  select k.kid, k.issuer, k.audience, k.created_at, k.retired_at from pgrag_private.signing_key k order by k.kid;
end;

comment on function pgrag.list_signing_keys is 'The signing keys by name, without their secrets.';
revoke all on function pgrag.list_signing_keys from public;

-- sql/functions/authenticate.sql

-- Proves who is asking and leaves it in a setting of this transaction, signed with a key that never leaves
-- this database and tied to this backend and transaction. Works on a standby: nothing is written.
create or replace function pgrag.authenticate(p_token text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal;
  v_setting   text;
begin
  v_principal := pgrag_private.verify_token(coalesce(p_token, ''));
  v_setting := concat_ws('|', 'v1', v_principal.kid, v_principal.kind, v_principal.tenant_id, v_principal.reader_id,
                         v_principal.source_id, encode(convert_to(v_principal.subject, 'UTF8'), 'hex'),
                         v_principal.expires_at, pgrag_private.transaction_mark());
  perform set_config('pgrag.principal', v_setting || '|' || pgrag_private.internal_mac('session', v_setting), true);
end
$$;

comment on function pgrag.authenticate is 'Verifies a token and makes its subject the principal of this transaction: begin; select pgrag.authenticate($1); …; commit;';
revoke all on function pgrag.authenticate from public;

-- sql/functions/whoami.sql

create or replace function pgrag.whoami(p_token text default null)
returns table (tenant text, subject text, kind text, source text, known boolean, groups text[], expires_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer', 'admin', 'auditor');
begin
  return query
  select t.tenant, v_principal.subject, v_principal.kind,
         (select s.source from pgrag_data.source s where s.tenant_id = t.tenant_id and s.source_id = v_principal.source_id),
         case when v_principal.kind = 'reader' then exists (select from pgrag_private.closure(t.tenant_id, v_principal.reader_id)) end,
         array(select p.name::text
                 from pgrag_private.closure(t.tenant_id, v_principal.reader_id) as c (principal_id)
                 join pgrag_data.principal p on p.tenant_id = t.tenant_id and p.principal_id = c.principal_id
                where p.kind in ('group', 'everyone')
                order by p.name),
         to_timestamp(v_principal.expires_at)
    from pgrag_data.tenant t
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.whoami is 'The principal of this transaction, or of the token: tenant, subject, kind, source, whether its tenant knows it, groups, expiry.';
revoke all on function pgrag.whoami from public;

-- sql/functions/put_tenant.sql

create or replace function pgrag.put_tenant(p_tenant text, p_name text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint;
begin
  perform pgrag_private.check_name('tenant', p_tenant);
  insert into pgrag_data.tenant (tenant, name) values (p_tenant, coalesce(p_name, p_tenant))
    on conflict on constraint tenant_tenant_key do update set name = coalesce(p_name, tenant.name)
    returning tenant_id into v_tenant_id;
  insert into pgrag_data.principal (tenant_id, kind, name) values (v_tenant_id, 'everyone', 'everyone')
    on conflict (tenant_id, name) where dropped_at is null do nothing;
end
$$;

comment on function pgrag.put_tenant is 'Creates a tenant, or renames it.';
revoke all on function pgrag.put_tenant from public;

-- sql/functions/put_source.sql

-- p_processors names the outside services that may receive this source's text (encoders, rerankers,
-- generators); none by default. Left out for a source that exists, an argument changes nothing.
create or replace function pgrag.put_source(p_tenant text, p_source text, p_processors text[] default null, p_trust text default null) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  perform pgrag_private.check_name('source', p_source);
  perform pgrag_private.check_name('processor', processor) from unnest(p_processors) as p (processor);
  if p_trust not in ('untrusted', 'external', 'internal', 'authoritative') then
    raise exception using errcode = 'RG407', message = 'the trust class is not known',
      hint = 'Trust classes: untrusted, external, internal, authoritative.';
  end if;
  insert into pgrag_data.source (tenant_id, source, processors, trust)
  values (v_tenant_id, p_source, coalesce(p_processors, '{}'), coalesce(p_trust, 'internal'))
  on conflict on constraint source_source_key do update
    set processors = coalesce(p_processors, source.processors), trust = coalesce(p_trust, source.trust);
end
$$;

comment on function pgrag.put_source is 'Creates a source of a tenant, or changes which processors may receive its text and its trust class.';
revoke all on function pgrag.put_source from public;

-- sql/functions/put_space.sql

-- A space does not change: the same definition again is nothing to do, another one under its name is refused.
-- The first space of a tenant becomes its active one.
create or replace function pgrag.put_space(
  p_tenant          text,
  p_space           text,
  p_model           text,
  p_model_revision  text,
  p_dimension       integer,
  p_metric          text default 'cosine',
  p_normalisation   text default 'unit',
  p_preprocessing   text default '',
  p_query_prefix    text default '',
  p_document_prefix text default '',
  p_storage         text default 'float',
  p_zero_vectors    text default 'refuse'
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space;
begin
  perform pgrag_private.check_name('space', p_space);
  perform pgrag_private.check_name('model', p_model);
  perform pgrag_private.check_name('model revision', p_model_revision);
  if p_storage is null or p_storage not in ('float', 'half')
     or p_dimension is null or p_dimension not between 1 and (case p_storage when 'half' then 4000 else 2000 end) or p_metric is distinct from 'cosine'
     or p_normalisation is null or p_normalisation not in ('unit', 'none')
     or p_zero_vectors is null or p_zero_vectors not in ('refuse', 'skip')
     or p_preprocessing is null or p_query_prefix is null or p_document_prefix is null then
    raise exception using errcode = 'RG407', message = 'the embedding space is not one that pgrag can hold',
      hint = 'dimension 1 to 2000, with storage half to 4000; metric cosine, normalisation unit or none, storage float or half, zero_vectors refuse or skip; nothing null.';
  end if;
  insert into pgrag_data.embedding_space (tenant_id, space, model, model_revision, dimension, metric, normalisation,
                                          preprocessing, query_prefix, document_prefix, storage, zero_vectors)
  values (v_tenant_id, p_space, p_model, p_model_revision, p_dimension, p_metric, p_normalisation,
          p_preprocessing, p_query_prefix, p_document_prefix, p_storage, p_zero_vectors)
  on conflict on constraint embedding_space_space_key do nothing;
  v_space := pgrag_private.find_space(v_tenant_id, p_space);
  if row(v_space.model, v_space.model_revision, v_space.dimension, v_space.metric, v_space.normalisation,
         v_space.preprocessing, v_space.query_prefix, v_space.document_prefix, v_space.storage, v_space.zero_vectors)
     is distinct from
     row(p_model, p_model_revision, p_dimension, p_metric, p_normalisation,
         p_preprocessing, p_query_prefix, p_document_prefix, p_storage, p_zero_vectors) then
    raise exception using errcode = 'RG407', message = 'a space of this name exists with another definition',
      hint = 'Spaces do not change: another model, revision, dimension or prefix is a new space under a new name.';
  end if;
  if v_space.retired_at is not null then
    raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'Register it under a new name.';
  end if;
  update pgrag_data.tenant t set active_space_id = v_space.space_id
   where t.tenant_id = v_tenant_id and t.active_space_id is null;
end
$$;

comment on function pgrag.put_space is 'Registers an embedding space of a tenant: model, revision, dimension, normalisation and prefixes, unchangeable.';
revoke all on function pgrag.put_space from public;

-- sql/functions/list_tenants.sql

create or replace function pgrag.list_tenants() returns table (tenant text, name text, active_space text, created_at timestamptz)
language sql stable parallel restricted security definer set search_path = pg_catalog, pg_temp
begin atomic
  select t.tenant, t.name, s.space, t.created_at
    from pgrag_data.tenant t
    left join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   order by t.tenant;
end;

comment on function pgrag.list_tenants is 'All tenants, for operators.';
revoke all on function pgrag.list_tenants from public;

-- sql/functions/list_sources.sql

create or replace function pgrag.list_sources(p_tenant text) returns table (source text, trust text, processors text[], created_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.source::text, s.trust::text, s.processors, s.created_at
    from pgrag_data.source s
   where s.tenant_id = v_tenant_id
   order by s.source;
end
$$;

comment on function pgrag.list_sources is 'The sources of a tenant, for operators.';
revoke all on function pgrag.list_sources from public;

-- sql/functions/list_spaces.sql

create or replace function pgrag.list_spaces(p_tenant text)
returns table (space text, active boolean, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.space, s.space_id is not distinct from t.active_space_id, s.model, s.model_revision, s.dimension, s.metric,
         s.normalisation, s.preprocessing, s.query_prefix, s.document_prefix, s.storage, s.zero_vectors
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id
   where t.tenant_id = v_tenant_id
   order by s.space;
end
$$;

comment on function pgrag.list_spaces is 'The embedding spaces of a tenant, for operators.';
revoke all on function pgrag.list_spaces from public;

-- sql/functions/put_principal.sql

create or replace function pgrag.put_principal(p_name text, p_kind text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
begin
  perform pgrag_private.check_name('principal', p_name);
  if p_kind is null or p_kind not in ('user', 'service', 'group') then
    raise exception using errcode = 'RG407', message = 'the kind of principal is not known', hint = 'Kinds: user, service, group.';
  end if;
  insert into pgrag_data.principal (tenant_id, kind, name) values (v_principal.tenant_id, p_kind, p_name)
    on conflict (tenant_id, name) where dropped_at is null do nothing;
  if (pgrag_private.find_principal(v_principal.tenant_id, p_name)).kind <> p_kind then
    raise exception using errcode = 'RG407', message = 'a principal of this name exists with another kind',
      hint = 'Take another name, or drop it first: what it could read does not pass to its successor.';
  end if;
end
$$;

comment on function pgrag.put_principal is 'Creates a user, service or group of the admin''s tenant.';
revoke all on function pgrag.put_principal from public;

-- sql/functions/drop_principal.sql

-- One row changes, however many access lists and groups name it: nothing leads to or through a dropped principal.
create or replace function pgrag.drop_principal(p_name text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
begin
  update pgrag_data.principal p set dropped_at = transaction_timestamp()
   where p.tenant_id = v_principal.tenant_id and p.name = p_name and p.kind <> 'everyone' and p.dropped_at is null;
  if not found then
    perform pgrag_private.not_found('principal');
  end if;
end
$$;

comment on function pgrag.drop_principal is 'Drops a user, service or group; what it could read, nobody of that name can read again.';
revoke all on function pgrag.drop_principal from public;

-- sql/functions/put_membership.sql

create or replace function pgrag.put_membership(p_group text, p_member text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
  v_group     pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_group);
  v_member    pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_member);
begin
  if v_group.kind <> 'group' or v_member.kind = 'everyone' then
    raise exception using errcode = 'RG407', message = 'only groups have members, and everyone is a member of none',
      hint = 'Create a group with pgrag.put_principal(…, ''group'').';
  end if;
  insert into pgrag_data.membership (tenant_id, member_id, group_id)
  values (v_principal.tenant_id, v_member.principal_id, v_group.principal_id)
  on conflict on constraint membership_pkey do nothing;
end
$$;

comment on function pgrag.put_membership is 'Makes a user, service or group a member of a group.';
revoke all on function pgrag.put_membership from public;

-- sql/functions/drop_membership.sql

create or replace function pgrag.drop_membership(p_group text, p_member text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'admin');
  v_group     pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_group);
  v_member    pgrag_data.principal := pgrag_private.find_principal(v_principal.tenant_id, p_member);
begin
  delete from pgrag_data.membership m
   where m.tenant_id = v_principal.tenant_id and m.member_id = v_member.principal_id and m.group_id = v_group.principal_id;
  if not found then
    perform pgrag_private.not_found('membership');
  end if;
end
$$;

comment on function pgrag.drop_membership is 'Ends a membership; what came with it is gone at commit.';
revoke all on function pgrag.drop_membership from public;

-- sql/functions/list_principals.sql

create or replace function pgrag.list_principals(p_token text default null) returns table (name text, kind text, created_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'admin');
begin
  return query
  select p.name::text, p.kind::text, p.created_at from pgrag_data.principal p
   where p.tenant_id = v_principal.tenant_id and p.dropped_at is null order by p.name;
end
$$;

comment on function pgrag.list_principals is 'Users, services and groups of the admin''s tenant, everyone among them.';
revoke all on function pgrag.list_principals from public;

-- sql/functions/list_memberships.sql

create or replace function pgrag.list_memberships(p_token text default null) returns table ("group" text, member text, kind text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'admin');
begin
  return query
  select g.name::text, p.name::text, p.kind::text
    from pgrag_data.membership m
    join pgrag_data.principal g on g.tenant_id = m.tenant_id and g.principal_id = m.group_id and g.dropped_at is null
    join pgrag_data.principal p on p.tenant_id = m.tenant_id and p.principal_id = m.member_id and p.dropped_at is null
   where m.tenant_id = v_principal.tenant_id
   order by 1, 2;
end
$$;

comment on function pgrag.list_memberships is 'Who belongs directly to which group of the admin''s tenant.';
revoke all on function pgrag.list_memberships from public;

-- sql/functions/writer_source.sql

-- What a connector needs to know of its own source before it sends text anywhere.
create or replace function pgrag.writer_source(p_token text default null)
returns table (tenant text, source text, trust text, processors text[])
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer');
begin
  return query
  select t.tenant::text, s.source::text, s.trust::text, s.processors
    from pgrag_data.source s join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   where s.tenant_id = v_principal.tenant_id and s.source_id = v_principal.source_id;
end
$$;

comment on function pgrag.writer_source is 'The source that the writer''s token names, and the processors that may receive its text.';
revoke all on function pgrag.writer_source from public;

-- sql/functions/stage_revision.sql

-- Begins a revision: its text and everything that shapes its chunks. Nothing of it can be found until it is
-- verified and activated. The same content again is the same revision, in whatever state it is.
-- p_revision names it; left out, it is named by the hash of its content.
-- p_skips: parts of the text, in code points, that no chunk will cover, on purpose.
create or replace function pgrag.stage_revision(
  p_document       text,
  p_body           text,
  p_title          text default '',
  p_language       text default 'en',
  p_revision       text default null,
  p_product        text default null,
  p_version        text default null,
  p_tags           text[] default '{}',
  p_dated          date default null,
  p_effective_from timestamptz default null,
  p_effective_to   timestamptz default null,
  p_parser         text default 'text',
  p_chunker        text default '',
  p_tokenizer      text default '',
  p_space          text default null,
  p_skips          int4range[] default '{}',
  p_metadata       jsonb default '{}'
) returns table (revision text, state text, created boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal   pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_space       pgrag_data.embedding_space;
  v_document_id bigint;
  v_revision_id bigint;
  v_revision    text;
  v_name        text;
  v_hash        bytea;
  v_first       bytea;
  v_existing    record;
begin
  perform pgrag_private.check_document(p_document);
  if p_body is null or octet_length(p_body) > 16777216 then
    raise exception using errcode = 'RG408', message = 'the body must be text of at most 16 MiB',
      hint = 'Split the document in the source.';
  elsif p_language is null or not pgrag_private.is_language(p_language) then
    raise exception using errcode = 'RG406', message = 'this is no language code', hint = 'For example en, de or pt-BR.';
  elsif p_title is null or length(p_title) > 1000 or p_parser is null or p_chunker is null or p_tokenizer is null or p_tags is null
        or p_skips is null or array_ndims(p_tags) > 1 or array_ndims(p_skips) > 1 or array_position(p_tags, null) is not null or array_position(p_skips, null) is not null
        or greatest(length(p_parser), length(p_chunker), length(p_tokenizer), length(p_product), length(p_version)) > 500
        or cardinality(p_tags) > 100 or cardinality(p_skips) > 10000
        or exists (select from unnest(p_tags) as t (tag) where length(tag) > 200) then
    raise exception using errcode = 'RG408', message = 'what is said of the revision is null where it must not be, or too much',
      hint = 'title, tags, parser, chunker, tokenizer and skips are not null; '
             'a title has at most 1000 characters, the others 500; 100 tags of 200; 10000 skips.';
  elsif coalesce(p_effective_from, '-infinity') >= coalesce(p_effective_to, 'infinity')
        or (isfinite(p_effective_from) and p_effective_from not between '0001-01-01' and '9999-12-31T23:59:59.999999Z')
        or (isfinite(p_effective_to) and p_effective_to not between '0001-01-01' and '9999-12-31T23:59:59.999999Z') then
    raise exception using errcode = 'RG408', message = 'the effective period is empty, or not within the years 1 to 9999',
      hint = 'Pass effective_from before effective_to, which is the first moment at which it no longer holds.';
  end if;
  perform pgrag_private.check_metadata(p_metadata, 'RG408', 'the metadata');
  if p_space is not null then
    v_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
    if v_space.retired_at is not null then
      raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'pgrag.active_space() names the one to encode in.';
    end if;
  end if;

  -- The space is part of the hash, but the same content that was encoded for another space of the tenant is the same revision.
  for v_name in select p_space union all
                select s.space from (select s.space from pgrag_data.embedding_space s
                                      where s.tenant_id = v_principal.tenant_id and s.space <> p_space order by s.space_id desc) s loop
    v_hash := pgrag_private.fingerprint(
      p_body, p_title, p_language, p_product, p_version, p_tags::text, p_dated::text,
      coalesce(p_effective_from, '-infinity')::text, coalesce(p_effective_to, 'infinity')::text,
      p_parser, p_chunker, p_tokenizer, v_name, p_skips::text);
    if p_metadata <> '{}' then -- without any, the hash is what it was before there was metadata
      v_hash := pgrag_private.fingerprint(encode(v_hash, 'hex'), p_metadata::text);
    end if;
    v_first := coalesce(v_first, v_hash);
    exit when exists (
      select from pgrag_data.document d
        join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.document_id = d.document_id
       where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document
         and r.content_hash = v_hash and r.revision = coalesce(p_revision, r.revision)
         and (v_name is not distinct from p_space or r.state = 'verified'));
    v_hash := v_first;
  end loop;
  v_revision := pgrag_private.check_name('revision', coalesce(p_revision, left(encode(v_hash, 'hex'), 16)));

  -- A new document lets nobody in until pgrag.set_access says who. Looked for first: an insert, even one that does
  -- nothing, waits for whoever is just activating the document.
  select d.document_id into v_document_id from pgrag_data.document d
   where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document;
  if not found then
    insert into pgrag_data.document (tenant_id, source_id, document, acl_id)
    values (v_principal.tenant_id, v_principal.source_id, p_document, pgrag_private.acl_of(v_principal.tenant_id, '{}'))
    on conflict on constraint document_document_key do nothing;
    select d.document_id into v_document_id from pgrag_data.document d
     where d.tenant_id = v_principal.tenant_id and d.source_id = v_principal.source_id and d.document = p_document;
  end if;

  insert into pgrag_data.revision (tenant_id, document_id, revision, content_hash, title, language, product, version, tags, dated,
                                   effective_from, effective_to, parser, chunker, tokenizer, space_id, skips, metadata)
  values (v_principal.tenant_id, v_document_id, v_revision, v_hash, p_title, p_language, p_product, p_version, p_tags, p_dated,
          coalesce(p_effective_from, '-infinity'), coalesce(p_effective_to, 'infinity'),
          p_parser, p_chunker, p_tokenizer, v_space.space_id, p_skips, p_metadata)
  on conflict on constraint revision_revision_key do nothing
  returning revision_id into v_revision_id;
  if v_revision_id is not null then
    insert into pgrag_data.revision_source (tenant_id, revision_id, body) values (v_principal.tenant_id, v_revision_id, p_body);
    return query select v_revision, 'staged', true;
    return;
  end if;

  select r.content_hash, r.state into v_existing from pgrag_data.revision r
   where r.tenant_id = v_principal.tenant_id and r.document_id = v_document_id and r.revision = v_revision;
  if v_existing.content_hash <> v_hash then
    raise exception using errcode = 'RG403', message = 'a revision of this name exists with other content',
      hint = 'Revisions do not change: give the new content a new name, or none.';
  end if;
  return query select v_revision, v_existing.state::text, false;
end
$$;

comment on function pgrag.stage_revision is 'Begins a revision of a document of the writer''s source: text, metadata and effective period, invisible until activated.';
revoke all on function pgrag.stage_revision from public;

-- sql/functions/add_chunks.sql

-- Adds chunks p_first, p_first + 1, … to a staged revision, in arrays of one length: the bulk path, since COPY
-- cannot write under row-level security. At most 2000 chunks and 16 MiB of text a call bound the memory.
-- The same batch again changes nothing; other text under a number that is taken is refused.
create or replace function pgrag.add_chunks(
  p_document   text,
  p_revision   text,
  p_first      integer,
  p_texts      text[],
  p_starts     integer[],
  p_ends       integer[],
  p_tokens     integer[],
  p_sections   text[] default null,
  p_pages      integer[] default null,
  p_languages  text[] default null,
  p_embeddings public.vector[] default null
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_source    pgrag_data.source := pgrag_private.find_source(v_principal, null);
  v_document  pgrag_data.document := pgrag_private.find_document(v_source, p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_space     pgrag_data.embedding_space;
  v_tenant    text;
  v_count     integer := cardinality(p_texts);
  v_added     integer := 0;
  v_same      integer;
begin
  if p_first is null or p_first not between 1 and 1000000 or v_count is null or v_count not between 1 and 2000
     or (select sum(octet_length(t)) from unnest(p_texts) as u (t)) > 16777216
     or cardinality(p_starts) is distinct from v_count or cardinality(p_ends) is distinct from v_count
     or cardinality(p_tokens) is distinct from v_count
     or coalesce(cardinality(p_sections), v_count) <> v_count or coalesce(cardinality(p_pages), v_count) <> v_count
     or coalesce(cardinality(p_languages), v_count) <> v_count or coalesce(cardinality(p_embeddings), v_count) <> v_count
     or exists (select from unnest(p_texts, p_starts, p_ends, p_tokens) as u (t, s, e, n)
                 where coalesce(t, '') = '' or length(t) > 32768 or s is null or s < 0 or e is null or e <= s or n is null or n < 0)
     or exists (select from unnest(p_sections) as u (s) where length(s) > 1000)
     or exists (select from unnest(p_languages) as u (l) where not pgrag_private.is_language(l)) then
    raise exception using errcode = 'RG408', message = 'the batch of chunks is malformed',
      hint = 'Number chunks from 1; 1 to 2000 of them, 16 MiB of text, arrays of one length; '
             'texts of 1 to 32768 characters, sections of at most 1000, start < end, tokens >= 0.';
  end if;
  if (p_embeddings is null) <> (v_revision.space_id is null) then
    raise exception using errcode = 'RG305', message = 'embeddings come with a revision staged for a space, and only with it',
      hint = 'Stage the revision with p_space, and pass one embedding for each chunk.';
  end if;
  select s.* into v_space from pgrag_data.embedding_space s where s.tenant_id = v_revision.tenant_id and s.space_id = v_revision.space_id;
  select t.tenant into v_tenant from pgrag_data.tenant t where t.tenant_id = v_principal.tenant_id;

  -- The lock keeps verification, which freezes the revision, from passing between the check and the rows. It is the one
  -- that verification takes: were it shared, two writers that each add and then verify would wait for each other.
  perform from pgrag_data.revision r
    where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id and r.state = 'staged' for no key update;
  if found then
    with batch as (
      select p_first + (u.n - 1)::integer as chunk_no, u.text, u.span_start, u.span_end, u.tokens, coalesce(u.section, '') as section,
             u.page, coalesce(u.language, v_revision.language) as language,
             pgrag_private.fingerprint(v_tenant, v_source.source, v_document.document, v_revision.revision,
                                       u.span_start::text, u.span_end::text, u.text) as chunk_id
        from unnest(p_texts, p_starts, p_ends, p_tokens, p_sections, p_pages, p_languages)
             with ordinality as u (text, span_start, span_end, tokens, section, page, language, n)
    ), added as (
      insert into pgrag_data.chunk (tenant_id, revision_id, chunk_no, chunk_id, text, span_start, span_end,
                                    section, page, language, token_count)
      select v_revision.tenant_id, v_revision.revision_id, b.chunk_no, b.chunk_id, b.text, b.span_start, b.span_end,
             b.section, b.page, b.language, b.tokens
        from batch b
      on conflict do nothing
      returning chunk_no, language, text, section
    ), lexemes as materialized (
      -- Title and section count as words of the chunk: that is how people ask for it.
      select a.chunk_no, a.language,
             pgrag_private.to_lexemes(a.language, concat_ws(chr(10), nullif(v_revision.title, ''), nullif(a.section, ''),
                                                         a.text)) as lexemes
        from added a
    ), lexical as (
      insert into pgrag_data.chunk_lex (tenant_id, revision_id, chunk_no, language, length, lexemes)
      select v_revision.tenant_id, v_revision.revision_id, l.chunk_no, l.language,
             pgrag_private.lexeme_count(l.lexemes), l.lexemes
        from lexemes l
    )
    select count(*) into v_added from added;
    if p_embeddings is not null then
      -- Also for chunks that came without one before: a retry completes what a failed encoder left.
      perform pgrag_private.put_embeddings(v_revision, v_space, p_first, p_embeddings);
    end if;
  end if;

  -- What was just added is what was sent. Looked at only where it was not: right after a bulk load the planner, which knows
  -- nothing of the new rows, would read the whole revision for each of the batch.
  if v_added = v_count then
    return v_added;
  end if;
  select count(*) into v_same
    from unnest(p_texts, p_starts, p_ends, p_tokens, p_sections, p_pages, p_languages, p_embeddings)
         with ordinality as u (text, span_start, span_end, tokens, section, page, language, embedding, n)
    join pgrag_data.chunk c
      on c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id and c.chunk_no = p_first + (u.n - 1)::integer
     and c.chunk_no between p_first and p_first + v_count - 1 and c.text = u.text and c.span_start = u.span_start and c.span_end = u.span_end and c.token_count = u.tokens
     and c.section = coalesce(u.section, '') and c.page is not distinct from u.page
     and c.language = coalesce(u.language, v_revision.language)
    left join pgrag_data.chunk_vec v
      on v.tenant_id = c.tenant_id and v.space_id = v_revision.space_id and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no
   where u.embedding is null
      or coalesce(v.embedding operator(public.=) u.embedding, v.half operator(public.=) pgrag_private.half_of(v_space, u.embedding));
  if v_same <> v_count then
    raise exception using errcode = 'RG403', message = 'the revision has other chunks under these numbers, or is verified',
      hint = 'Revisions do not change: stage another, or send the same chunks again.';
  end if;
  return v_added;
end
$$;

comment on function pgrag.add_chunks is 'Adds a batch of chunks, with spans in Unicode code points and embeddings, to a staged revision; returns how many were new.';
revoke all on function pgrag.add_chunks from public;

-- sql/functions/verify_revision.sql

-- Checks a staged revision and, if nothing is wrong, freezes it. Every fault is named, and with any of them
-- nothing changes: the result says so, it is not an error, and the staged chunks stay.
--
-- The chunks laid end to end, with the declared skips between them, must be the body: each contributes what
-- lies behind the end of those before it, and what overlaps must be the end of its predecessor. That proves
-- every span in one pass, where cutting each span out of the body would read the body once a chunk.
create or replace function pgrag.verify_revision(p_document text, p_revision text, p_expected_chunks integer)
returns table (state text, chunks integer, faults text[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, null), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_body      text;
  v_spans     record;
  v_totals    record;
  v_faults    text[] := '{}';
begin
  select r.* into v_revision from pgrag_data.revision r
   where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id for no key update;
  if v_revision.state = 'verified' then
    return query select v_revision.state::text, v_revision.chunk_count, v_faults;
    return;
  end if;
  select s.body into v_body from pgrag_data.revision_source s
   where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id;

  -- Two scans and no join: right after a bulk load the planner knows nothing of the new rows, and would loop.
  select count(*)::integer as chunks, coalesce(sum(c.token_count), 0) as tokens,
         (select coalesce(sum(l.length), 0) from pgrag_data.chunk_lex l
           where l.tenant_id = v_revision.tenant_id and l.revision_id = v_revision.revision_id) as lexemes,
         coalesce(array_agg(distinct c.language::text), '{}') as languages,
         coalesce(max(c.chunk_no), 0) as last_no,
         count(*) filter (where length(c.text) <> c.span_end - c.span_start) as wrong_length
    into v_totals
    from pgrag_data.chunk c
   where c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id;

  if pgrag_private.is_blank(v_body) or v_totals.chunks = 0 then
    v_faults := v_faults || 'empty extraction: there is no text to find'::text;
  end if;
  if p_expected_chunks is null or v_totals.chunks <> p_expected_chunks or v_totals.last_no <> v_totals.chunks then
    v_faults := v_faults || format('chunk count: %s chunks up to number %s, %s expected',
                                   v_totals.chunks, v_totals.last_no, coalesce(p_expected_chunks::text, 'null'));
  end if;
  if v_totals.wrong_length > 0 then
    v_faults := v_faults || format('span length: %s chunks are not as long as their spans', v_totals.wrong_length);
  end if;

  with piece as (
    select c.span_start as s, c.span_end as e, c.text, c.chunk_no from pgrag_data.chunk c
     where c.tenant_id = v_revision.tenant_id and c.revision_id = v_revision.revision_id
    union all
    select lower(k), upper(k), substr(v_body, lower(k) + 1, upper(k) - lower(k)), null
      from unnest(v_revision.skips) as k
  ), ordered as (
    select p.*, lag(p.e, 1, 0) over w as before, lag(p.text) over w as text_before, lag(p.s, 1, -1) over w as start_before,
           max(p.chunk_no) over (w rows between unbounded preceding and 1 preceding) as no_before
      from piece p window w as (order by p.s, p.e)
  )
  select count(*) filter (where s > before) as gaps,
         count(*) filter (where e <= before or s <= start_before or chunk_no < no_before) as disorder,
         count(*) filter (where s < before and left(text, before - s) is distinct from right(text_before, before - s)) as overlaps,
         max(e) as ends,
         string_agg(substr(text, greatest(before - s, 0) + 1), '' order by s, e) as laid
    into v_spans
    from ordered;
  if v_spans.gaps > 0 or coalesce(v_spans.ends, 0) <> length(v_body) then
    v_faults := v_faults || format('span coverage: %s gaps; the last span ends at %s of %s',
                                   v_spans.gaps, coalesce(v_spans.ends, 0), length(v_body));
  end if;
  if v_spans.disorder > 0 then
    v_faults := v_faults || format('span order: %s spans do not go on from the one before', v_spans.disorder);
  end if;
  if v_spans.overlaps > 0 or coalesce(v_spans.laid, '') <> v_body then
    v_faults := v_faults || 'span text: the chunks'' texts are not what the body has at their spans'::text;
  end if;

  if v_revision.space_id is not null then
    v_faults := v_faults || pgrag_private.embedding_faults(v_revision.tenant_id, v_revision.revision_id, v_revision.space_id, 1, v_totals.chunks);
  end if;

  if v_faults = '{}' then
    update pgrag_data.revision r
       set state = 'verified', verified_at = clock_timestamp(), chunk_count = v_totals.chunks, token_count = v_totals.tokens,
           lexeme_count = v_totals.lexemes, languages = v_totals.languages
     where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id;
    insert into pgrag_data.revision_space (tenant_id, revision_id, space_id)
    select v_revision.tenant_id, v_revision.revision_id, v_revision.space_id where v_revision.space_id is not null
    on conflict do nothing;
    v_revision.state := 'verified';
  end if;
  return query select v_revision.state::text, v_totals.chunks, v_faults;
end
$$;

comment on function pgrag.verify_revision is 'Checks a staged revision (count, spans, text, embeddings) and freezes it, or names every fault and changes nothing.';
revoke all on function pgrag.verify_revision from public;

-- sql/functions/set_access.sql

-- Who may read a document, whole: the list replaces the one before. One row changes, and takes effect at commit.
create or replace function pgrag.set_access(p_document text, p_readers text[], p_source text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_acl_id    bigint;
begin
  if p_readers is null or array_ndims(p_readers) > 1 or array_position(p_readers, null) is not null then
    raise exception using errcode = 'RG408', message = 'neither the readers nor one of them may be null',
      hint = 'Pass names, ''{everyone}'' for every known principal of the tenant, or ''{}'' for nobody.';
  end if;
  v_acl_id := pgrag_private.acl_of(v_principal.tenant_id, p_readers);
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_document.acl_id = v_acl_id then
    return false;
  end if;
  update pgrag_data.document d set acl_id = v_acl_id, changed_xid = pg_current_xact_id()
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id;
  perform pgrag_private.count_document(v_document, -1);
  v_document.acl_id := v_acl_id;
  perform pgrag_private.count_document(v_document, 1);
  return true;
end
$$;

comment on function pgrag.set_access is 'Sets who may read a document: users, services, groups, or everyone; returns whether that changed anything.';
revoke all on function pgrag.set_access from public;

-- sql/functions/activate.sql

-- Puts a verified revision in force: one pointer moves, in constant time, and a reader sees all of the old
-- revision or all of the new one. p_expected_active guards the switch: the revision that you believe to be
-- active, '' for none, null not to ask. p_restore also lifts a tombstone, which nothing else does.
create or replace function pgrag.activate(
  p_document        text,
  p_revision        text,
  p_expected_active text default null,
  p_restore         boolean default false,
  p_source          text default null
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_tenant    pgrag_data.tenant;
begin
  if v_revision.state <> 'verified' then
    raise exception using errcode = 'RG405', message = 'the revision is not verified',
      hint = 'select * from pgrag.verify_revision(…) names what is wrong with it.';
  elsif v_revision.effective_from > clock_timestamp() then
    raise exception using errcode = 'RG405', message = 'the revision is not in force yet',
      detail = format('effective from %s', v_revision.effective_from), hint = 'Activate it on that day.';
  end if;
  -- The row is held, beside others, so that pgrag.switch_space waits for us, and we for it.
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_document.tenant_id for share;
  -- One that was staged for a space, or has embeddings in one, has to have them in this one.
  if (v_revision.space_id is not null
      or exists (select from pgrag_data.revision_space s where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id))
     and not exists (
       select from pgrag_data.revision_space s
        where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id and s.space_id = v_tenant.active_space_id) then
    raise exception using errcode = 'RG416', message = 'the revision has no embeddings in the active space',
      hint = 'pgrag.active_space() names it: pgrag.add_embeddings adds them.';
  end if;
  return pgrag_private.switch_revision(v_principal, v_document, v_revision, 'activate', p_expected_active, coalesce(p_restore, false));
end
$$;

comment on function pgrag.activate is 'Makes a verified revision the active one, in one constant-time switch; returns whether that changed anything.';
revoke all on function pgrag.activate from public;

-- sql/functions/rollback.sql

-- Puts an earlier revision back: by default the one that was active before. What it leaves counts as withdrawn,
-- so that a question about the past does not find it either, until it is activated again.
create or replace function pgrag.rollback(
  p_document        text,
  p_revision        text default null,
  p_expected_active text default null,
  p_source          text default null
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
  v_revision  pgrag_data.revision;
begin
  if p_revision is not null then
    v_revision := pgrag_private.find_revision(v_document, p_revision);
  end if;
  -- As in pgrag.activate: pgrag.switch_space waits for us, and then sees what we have put in force. A revision without embeddings in the
  -- active space is put in force all the same: words find it, pgrag.space_status counts it, pgrag.missing_embeddings lists it.
  perform from pgrag_data.tenant t where t.tenant_id = v_document.tenant_id for share;
  -- The row is locked before its past is read, so that the "revision before" is the one before this switch.
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_revision.revision_id = v_document.active_revision_id then
    -- Already so, unless it is deleted: a caller that lost the first answer may ask again.
    perform pgrag_private.switch_revision(v_principal, v_document, v_revision, 'rollback', p_expected_active, false);
    return v_revision.revision;
  end if;
  -- By name, any that has been active; otherwise, of those that stand, the one put in force last before this one.
  select r.* into v_revision
    from pgrag_data.revision r
    left join pgrag_private.standing_revisions(v_document.tenant_id, v_document.document_id) s on s.revision_id = r.revision_id
   where r.tenant_id = v_document.tenant_id and r.document_id = v_document.document_id
     and r.revision_id is distinct from v_document.active_revision_id
     and case when p_revision is null then s.revision_id is not null
              else r.revision = p_revision and exists (
                select from pgrag_data.activation a
                 where a.tenant_id = r.tenant_id and a.document_id = r.document_id and a.revision_id = r.revision_id) end
   order by s.activation_id desc
   limit 1;
  if not found then
    raise exception using errcode = 'RG405', message = 'there is no revision to roll back to',
      hint = 'Only a revision that has been active can be rolled back to; pgrag.activate puts a new one in force.';
  end if;
  perform pgrag_private.switch_revision(v_principal, v_document, v_revision, 'rollback', p_expected_active, false);
  return v_revision.revision;
end
$$;

comment on function pgrag.rollback is 'Puts the previous revision, or a named earlier one, back in force; returns its name.';
revoke all on function pgrag.rollback from public;

-- sql/functions/delete_document.sql

-- A tombstone: one row changes, and at commit no revision of the document can be found, whatever the date asked
-- about. The text stays until it is purged.
create or replace function pgrag.delete_document(p_document text, p_source text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
begin
  select d.* into v_document from pgrag_data.document d
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id for no key update;
  if v_document.deleted_at is not null then
    return false;
  end if;
  update pgrag_data.document d set deleted_at = transaction_timestamp()
   where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id;
  perform pgrag_private.count_document(v_document, -1);
  return true;
end
$$;

comment on function pgrag.delete_document is 'Hides a document and all its revisions at commit; returns false where it was hidden already.';
revoke all on function pgrag.delete_document from public;

-- sql/functions/list_documents.sql

create or replace function pgrag.list_documents(p_source text default null, p_token text default null)
returns table (source text, document text, active_revision text, readers text[], deleted_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer', 'admin');
begin
  return query
  select s.source::text, d.document::text, r.revision::text,
         array(select p.name::text from pgrag_data.acl_entry e
                 join pgrag_data.principal p on p.tenant_id = e.tenant_id and p.principal_id = e.principal_id and p.dropped_at is null
                where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id order by p.name),
         d.deleted_at
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    left join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
   where d.tenant_id = v_principal.tenant_id
     and (v_principal.kind = 'admin' or s.source_id = v_principal.source_id)
     and (p_source is null or s.source = p_source)
   order by s.source, d.document;
end
$$;

comment on function pgrag.list_documents is 'The documents of the admin''s tenant, or of the writer''s source, with their readers and active revision.';
revoke all on function pgrag.list_documents from public;

-- sql/functions/list_revisions.sql

create or replace function pgrag.list_revisions(p_document text, p_source text default null, p_token text default null)
returns table (revision text, state text, title text, effective_from timestamptz, effective_to timestamptz, chunks integer,
               created_at timestamptz, verified_at timestamptz, activated_at timestamptz)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'writer', 'admin');
  v_document  pgrag_data.document :=
    pgrag_private.find_document(pgrag_private.find_source(v_principal, p_source), p_document);
begin
  return query
  select r.revision::text,
         case when r.revision_id = v_document.active_revision_id then 'active'
              when a.recorded_at is null then r.state::text
              when t.revision_id is null then 'withdrawn'
              else 'retired' end,
         r.title, nullif(r.effective_from, '-infinity'), nullif(r.effective_to, 'infinity'), r.chunk_count,
         r.created_at, r.verified_at, a.recorded_at
    from pgrag_data.revision r
    left join lateral (
      select max(a.recorded_at) as recorded_at from pgrag_data.activation a
       where a.tenant_id = r.tenant_id and a.document_id = r.document_id and a.revision_id = r.revision_id
    ) a on true
    left join pgrag_private.standing_revisions(v_document.tenant_id, v_document.document_id) t on t.revision_id = r.revision_id
   where r.tenant_id = v_document.tenant_id and r.document_id = v_document.document_id
   order by r.revision_id;
end
$$;

comment on function pgrag.list_revisions is 'The revisions of a document: staged, verified, active, retired (replaced) or withdrawn (rolled back from).';
revoke all on function pgrag.list_revisions from public;

-- sql/functions/search.sql

-- Ranked passages that the reader may see, as rows. In the question "two words" in quotes must be there, and a -word at its
-- end must not. p_probes are further wordings of it, each a lane more. p_order is a reranker's order of earlier hits.
-- `complete` and its reason stand in each; an application that
-- must tell "nothing" from "nothing for you to see" asks pgrag.search_json, which answers even without a row.
create or replace function pgrag.search(
  p_question   text,
  p_k          integer default 10,
  p_mode       text default 'hybrid',
  p_embedding  public.vector default null,
  p_space      text default null,
  p_fusion     text default 'convex',
  p_as_of      timestamptz default null,
  p_filter     jsonb default null,
  p_candidates integer default 100,
  p_threshold  double precision default null,
  p_token      text default null,
  p_probes            text[] default null,
  p_probe_embeddings  public.vector[] default null,
  p_per_document      integer default null,
  p_per_source        integer default null,
  p_isolation         text default 'auto',
  p_profile           text default 'normal',
  p_order             text[] default null,
  p_reranker          text default null
) returns table (
  rank integer, score double precision, relevance double precision,
  source text, document text, revision text, active boolean, title text, section text, page integer, language text,
  span_start integer, span_end integer, effective_from timestamptz, effective_to timestamptz, ingested_at timestamptz, trust text,
  lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision,
  chunk_id text, text text, status text, complete boolean, complete_reason text,
  matched_terms jsonb, duplicates jsonb, probe integer
)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_found jsonb := pgrag_private.retrieve(
    pgrag_private.current_principal(p_token, 'reader'),
    (p_question, p_k, p_mode, p_embedding, p_space, p_fusion, p_as_of, p_filter, p_candidates, p_threshold, p_probes, p_probe_embeddings,
     p_per_document, p_per_source, p_isolation, p_profile, p_order, p_reranker)::pgrag_private.search_request);
begin
  return query
  select h.rank, h.score, h.relevance, h.source, h.document, h.revision, h.active, h.title, h.section, h.page, h.language,
         h.span_start, h.span_end, h.effective_from, h.effective_to, h.ingested_at, h.trust,
         h.lexical_rank, h.lexical_score, h.dense_rank, h.dense_score, h.chunk_id, h.text,
         v_found ->> 'status', (v_found ->> 'complete')::boolean, v_found ->> 'complete_reason',
         h.matched_terms, h.duplicates, h.probe
    from jsonb_to_recordset(v_found -> 'hits') as h (
      rank integer, score double precision, relevance double precision,
      source text, document text, revision text, active boolean, title text, section text, page integer, language text,
      span_start integer, span_end integer, effective_from timestamptz, effective_to timestamptz, ingested_at timestamptz, trust text,
      lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision,
      chunk_id text, text text, matched_terms jsonb, duplicates jsonb, probe integer)
   order by h.rank;
end
$$;

comment on function pgrag.search is 'The passages that answer a question best, of those that the reader may see: hybrid, lexical or dense, today or as of a date.';
revoke all on function pgrag.search from public;

-- sql/functions/search_json.sql

-- The same search, JSON in and JSON out: the answer says why it is empty. Fields as the arguments of
-- pgrag.search, without the p_; each must have its own JSON type.
create or replace function pgrag.search_json(p_request jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  perform pgrag_private.check_json_request(p_request, 'question', 'k', 'mode', 'embedding', 'space', 'fusion', 'as_of',
                                           'filter', 'candidates', 'threshold', 'probes', 'probe_embeddings', 'per_document', 'per_source',
                                           'isolation', 'profile', 'order', 'reranker');
  return pgrag_private.retrieve_json(v_principal, p_request, 10);
end
$$;

comment on function pgrag.search_json is 'pgrag.search for JSON: one object in, one object out, with status, reason, policy and hits.';
revoke all on function pgrag.search_json from public;

-- sql/functions/packet.sql

-- Evidence for a language model: whole passages within a budget, or an abstention with its reason, sealed so
-- that a reply can be validated against it later.
create or replace function pgrag.packet(
  p_question    text,
  p_k           integer default 8,
  p_mode        text default 'hybrid',
  p_embedding   public.vector default null,
  p_space       text default null,
  p_fusion      text default 'convex',
  p_as_of       timestamptz default null,
  p_filter      jsonb default null,
  p_candidates  integer default 100,
  p_threshold   double precision default null,
  p_budget      integer default 8000,
  p_budget_unit text default 'characters',
  p_reserve     integer default 0,
  p_strict      boolean default false,
  p_token       text default null,
  p_probes            text[] default null,
  p_probe_embeddings  public.vector[] default null,
  p_per_document      integer default null,
  p_per_source        integer default null,
  p_isolation         text default 'auto',
  p_profile           text default 'normal',
  p_order             text[] default null,
  p_reranker          text default null
) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  return pgrag_private.build_packet(
    v_principal, p_question, p_as_of,
    pgrag_private.retrieve(v_principal, (p_question, p_k, p_mode, p_embedding, p_space, p_fusion, p_as_of, p_filter, p_candidates, p_threshold, p_probes, p_probe_embeddings,
                           p_per_document, p_per_source, p_isolation, p_profile, p_order, p_reranker)::pgrag_private.search_request),
    p_budget, p_budget_unit, p_reserve, p_strict);
end
$$;

comment on function pgrag.packet is 'A sealed packet of evidence for a question within a budget, or an abstention that says why.';
revoke all on function pgrag.packet from public;

-- sql/functions/packet_json.sql

create or replace function pgrag.packet_json(p_request jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
begin
  perform pgrag_private.check_json_request(p_request, 'question', 'k', 'mode', 'embedding', 'space', 'fusion', 'as_of',
                                           'filter', 'candidates', 'threshold', 'probes', 'probe_embeddings', 'per_document', 'per_source',
                                           'isolation', 'profile', 'order', 'reranker',
                                           'budget', 'budget_unit', 'reserve', 'strict');
  return pgrag_private.build_packet(
    v_principal, p_request ->> 'question', (p_request ->> 'as_of')::timestamptz,
    pgrag_private.retrieve_json(v_principal, p_request, 8),
    coalesce((p_request ->> 'budget')::integer, 8000), coalesce(p_request ->> 'budget_unit', 'characters'),
    coalesce((p_request ->> 'reserve')::integer, 0), coalesce((p_request ->> 'strict')::boolean, false));
end
$$;

comment on function pgrag.packet_json is 'pgrag.packet for JSON: one object in, the packet out.';
revoke all on function pgrag.packet_json from public;

-- sql/functions/validate_reply.sql

-- Checks a reply against the packet that it was made from. The packet must be the reader's own and unaltered,
-- which is an error otherwise; what is wrong with the reply is a finding, and each is named.
-- The database is asked again: a citation must still be readable, still in force (at the packet's as_of, where
-- it has one) and not deleted, and a quote is looked for in the stored text, not in what the packet carries.
-- Membership is not support: nothing here says that the excerpts bear the answer out, and the result says so.
create or replace function pgrag.validate_reply(p_packet jsonb, p_reply jsonb, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_as_of     timestamptz;
  v_scope     bigint[];
  v_citation  jsonb;
  v_id        text;
  v_quote     text;
  v_excerpt   jsonb;
  v_chunk     record;
  v_seen      text[] := '{}';
  v_findings  jsonb := '[]';
  v_citations jsonb := '[]';
  v_found     text;
begin
  if jsonb_typeof(p_packet) is distinct from 'object' or jsonb_typeof(p_packet -> 'excerpts') is distinct from 'array'
     or jsonb_path_exists(p_packet, 'strict $.excerpts[*] ? (@.type() != "object")')
     or sha256(convert_to(coalesce(p_packet ->> 'seal', ''), 'UTF8'))
        is distinct from sha256(convert_to(pgrag_private.seal(v_principal, p_packet), 'UTF8'))
     or exists (select from jsonb_array_elements(p_packet -> 'excerpts') as e (excerpt)
                 where excerpt ? 'text'
                   and encode(sha256(convert_to(coalesce(excerpt ->> 'text', ''), 'UTF8')), 'hex')
                       is distinct from excerpt ->> 'text_sha256') then
    raise exception using errcode = 'RG501', message = 'the packet is not one that was issued to this reader, or it was altered',
      hint = 'Pass the packet as pgrag.packet returned it, by the reader that it was made for; texts may be left out.';
  end if;
  v_as_of := (p_packet ->> 'as_of')::timestamptz;
  v_scope := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, v_as_of, null);

  if jsonb_typeof(p_reply) is distinct from 'object'
     or jsonb_typeof(p_reply -> 'answer') is distinct from 'string'
     or jsonb_typeof(p_reply -> 'citations') is distinct from 'array'
     or p_reply - array['answer', 'citations'] <> '{}' or jsonb_array_length(p_reply -> 'citations') > 100 then
    v_findings := v_findings || pgrag_private.finding(
      'shape', null, 'a reply is an object with answer (text) and citations (a list of at most 100), and nothing else');
  else
    if not pgrag_private.is_blank(p_reply ->> 'answer') and jsonb_array_length(p_reply -> 'citations') = 0 then
      v_findings := v_findings || pgrag_private.finding('citations', null, 'an answer without citations');
    end if;
    for v_citation in select citation from jsonb_array_elements(p_reply -> 'citations') as c (citation) loop
      if jsonb_typeof(v_citation) <> 'object' or jsonb_typeof(v_citation -> 'id') is distinct from 'string'
         or coalesce(jsonb_typeof(v_citation -> 'quote'), 'null') not in ('string', 'null')
         or v_citation - array['id', 'quote'] <> '{}' then
        v_findings := v_findings || pgrag_private.finding(
          'shape', null, 'a citation is an object with id (text), optionally quote (text), and nothing else');
        continue;
      end if;
      v_id    := v_citation ->> 'id';
      v_quote := v_citation ->> 'quote';
      if v_id = any (v_seen) then
        v_findings := v_findings || pgrag_private.finding('duplicate', v_id, 'cited twice');
        continue;
      end if;
      v_seen := v_seen || v_id;

      select excerpt into v_excerpt from jsonb_array_elements(p_packet -> 'excerpts') as e (excerpt) where excerpt ->> 'id' = v_id;
      if not found then
        v_findings := v_findings || pgrag_private.finding('unknown', v_id, 'no excerpt of the packet has this id');
        continue;
      end if;
      select c.text, c.revision_id into v_chunk from pgrag_data.chunk c
       where c.tenant_id = v_principal.tenant_id and c.chunk_id = decode(v_excerpt ->> 'chunk_id', 'hex');
      if not found or v_chunk.revision_id <> all (v_scope) then
        v_findings := v_findings || pgrag_private.finding_of_access(v_principal, v_id, v_chunk.revision_id);
        continue;
      end if;
      v_found := 'none';
      if v_quote is not null then
        v_found := case
          when pgrag_private.plain_quote(v_quote) = '' then 'missing'
          when position(v_quote in v_chunk.text) > 0 then 'exact'
          when position(pgrag_private.plain_quote(v_quote) in pgrag_private.plain_quote(v_chunk.text)) > 0 then 'normalised'
          else 'missing' end;
        if v_found = 'missing' then
          v_findings := v_findings || pgrag_private.finding('quote', v_id, 'the quote is not in the excerpt');
          continue;
        end if;
      end if;
      v_citations := v_citations || jsonb_build_array(jsonb_build_object(
        'id', v_id, 'chunk_id', v_excerpt -> 'chunk_id', 'source', v_excerpt -> 'source', 'document', v_excerpt -> 'document',
        'revision', v_excerpt -> 'revision', 'quote', v_found));
    end loop;
  end if;

  return jsonb_build_object(
    'valid', v_findings = '[]',
    'findings', v_findings,
    'citations', v_citations,
    'checks', '["shape", "citations", "duplicate", "unknown", "readable", "active", "deleted", "quote"]'::jsonb,
    'support', 'not proven: a citation was checked to be evidence that the reader may see, not that the answer follows from it');
end
$$;

comment on function pgrag.validate_reply is 'Checks a reply''s citations and quotes against its packet and against the database as it is now; names each failing check.';
revoke all on function pgrag.validate_reply from public;

-- sql/functions/excerpt.sql

-- One passage by its chunk id, with its provenance, if the reader may see it in the revision in force, or in the
-- one effective at p_as_of. Looked for among the chunks of the scope, not in the table: see can_read.sql.
create or replace function pgrag.excerpt(p_chunk_id text, p_as_of timestamptz default null, p_token text default null) returns jsonb
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_scope     bigint[] := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, p_as_of, null);
  v_excerpt   jsonb;
begin
  if p_chunk_id ~ '^[0-9a-f]{64}$' then
    with visible as materialized (
      select c.revision_id, c.chunk_no, c.chunk_id
        from unnest(v_scope) as v (revision_id)
        join pgrag_data.chunk c on c.tenant_id = v_principal.tenant_id and c.revision_id = v.revision_id
    )
    select c.described into v_excerpt
      from visible v cross join lateral pgrag_private.describe_chunk(v_principal.tenant_id, v.revision_id, v.chunk_no) c
     where v.chunk_id = decode(p_chunk_id, 'hex');
  end if;
  if v_excerpt is null then
    perform pgrag_private.not_found('excerpt');
  end if;
  return v_excerpt;
end
$$;

comment on function pgrag.excerpt is 'One passage by its chunk id, with its provenance; the same error whether it is absent or not the reader''s to see.';
revoke all on function pgrag.excerpt from public;

-- sql/functions/can_read.sql

-- For use before an action on what was retrieved: whether the reader may see the document now. The name is looked
-- for among the documents of the scope, not in the table: what an index lookup touches, any role can count
-- (pg_stat_xact_all_tables, pg_locks, EXPLAIN's buffers, the clock), and so tell "hidden" from "not there".
create or replace function pgrag.can_read(p_source text, p_document text, p_token text default null) returns boolean
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader');
  v_scope     bigint[] := pgrag_private.scope(v_principal.tenant_id, v_principal.reader_id, null, null);
begin
  return exists (
    with visible as materialized (
      select s.source, d.document
        from unnest(v_scope) as v (revision_id)
        join pgrag_data.revision r on r.tenant_id = v_principal.tenant_id and r.revision_id = v.revision_id
        join pgrag_data.document d on d.tenant_id = r.tenant_id and d.document_id = r.document_id
        join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    )
    select from visible where source = p_source and document = p_document);
end
$$;

comment on function pgrag.can_read is 'Whether the reader may see a document now; false for what is not there.';
revoke all on function pgrag.can_read from public;

-- sql/functions/active_space.sql

-- What a question or a document must be encoded with. Readers and writers ask before they encode.
create or replace function pgrag.active_space(p_token text default null)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer');
begin
  return query
  select s.* from pgrag_data.tenant t cross join lateral pgrag_private.described_space(t.tenant_id, t.active_space_id) s
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.active_space is 'The embedding space that this tenant''s documents and questions are encoded in; no row when it has none.';
revoke all on function pgrag.active_space from public;

-- sql/functions/next_space.sql

-- The space that is beside the active one (pgrag.build_space): writers encode for both, readers may try it.
create or replace function pgrag.next_space(p_token text default null)
returns table (space text, model text, model_revision text, dimension integer, metric text, normalisation text,
               preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(p_token, 'reader', 'writer');
begin
  return query
  select s.* from pgrag_data.tenant t cross join lateral pgrag_private.described_space(t.tenant_id, t.next_space_id) s
   where t.tenant_id = v_principal.tenant_id;
end
$$;

comment on function pgrag.next_space is 'The embedding space beside the active one, which new revisions are encoded in too; no row when there is none.';
revoke all on function pgrag.next_space from public;

-- sql/functions/build_space.sql

-- Begins to build a space beside the active one, or goes on doing so. From here on new revisions should have embeddings in both
-- (pgrag.add_embeddings), and those in force get theirs bit by bit (pgrag.missing_embeddings); questions keep to the active one,
-- unless they name this, until pgrag.switch_space.
create or replace function pgrag.build_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
begin
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  v_space := pgrag_private.find_space(v_tenant_id, p_space); -- as it is under the lock: it may just have been retired
  if v_space.space_id in (v_tenant.active_space_id, v_tenant.next_space_id) then
    return false;
  elsif v_space.retired_at is not null then
    raise exception using errcode = 'RG416', message = 'the space is retired', hint = 'Register another under a new name: pgrag.put_space.';
  elsif v_tenant.next_space_id is not null then
    raise exception using errcode = 'RG416', message = 'another space is beside the active one already',
      hint = 'pgrag.retire_space ends that; pgrag.space_status shows it.';
  end if;
  update pgrag_data.tenant t set next_space_id = v_space.space_id where t.tenant_id = v_tenant_id;
  return true;
end
$$;

comment on function pgrag.build_space is 'Begins to build an embedding space beside the tenant''s active one; returns whether that is new.';
revoke all on function pgrag.build_space from public;

-- sql/functions/switch_space.sql

-- The space that was built beside the active one becomes the active one, which is beside it from then on: the same call the other
-- way around switches back. One row changes, at once for everybody. Refused as long as a document in force has no embeddings there.
create or replace function pgrag.switch_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
  v_missing   bigint;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'RG416', message = 'spaces are switched in a read-committed transaction only',
      hint = 'Call it by itself: under an older snapshot, what was activated since would not be seen.';
  end if;
  -- From here to our end no revision is activated: pgrag.activate holds the row too.
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  if v_space.space_id = v_tenant.active_space_id then
    return false;
  elsif v_space.space_id is distinct from v_tenant.next_space_id then
    raise exception using errcode = 'RG416', message = 'the space is not the one beside the active one',
      hint = 'Build it first: pgrag.build_space, then pgrag.add_embeddings for what pgrag.missing_embeddings lists.';
  end if;
  v_missing := pgrag_private.missing_in_space(v_tenant_id, v_space.space_id);
  if v_missing > 0 then
    raise exception using errcode = 'RG416', message = 'documents in force have no embeddings in the space yet',
      detail = format('documents: %s', v_missing), hint = 'pgrag.add_embeddings for what pgrag.missing_embeddings lists, then again.';
  end if;
  update pgrag_data.tenant t set active_space_id = v_tenant.next_space_id, next_space_id = v_tenant.active_space_id
   where t.tenant_id = v_tenant_id;
  return true;
end
$$;

comment on function pgrag.switch_space is 'Makes the space beside the active one the active one, and the other way around; returns whether that changed anything.';
revoke all on function pgrag.switch_space from public;

-- sql/functions/retire_space.sql

-- Gives up a space that is not the active one. It takes effect at once, and there is no way back; pgrag.maintain() deletes its
-- embeddings bit by bit. Its definition stays, so that nobody takes its name for another.
create or replace function pgrag.retire_space(p_tenant text, p_space text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_tenant_id, p_space);
  v_tenant    pgrag_data.tenant;
begin
  select t.* into v_tenant from pgrag_data.tenant t where t.tenant_id = v_tenant_id for no key update;
  if v_space.space_id = v_tenant.active_space_id then
    raise exception using errcode = 'RG416', message = 'the space is the active one', hint = 'Switch to another first: pgrag.switch_space.';
  end if;
  update pgrag_data.tenant t set next_space_id = null where t.tenant_id = v_tenant_id and t.next_space_id = v_space.space_id;
  update pgrag_data.embedding_space s set retired_at = clock_timestamp()
   where s.tenant_id = v_tenant_id and s.space_id = v_space.space_id and s.retired_at is null;
  return found;
end
$$;

comment on function pgrag.retire_space is 'Gives up an embedding space that is not the active one; maintenance deletes its embeddings.';
revoke all on function pgrag.retire_space from public;

-- sql/functions/space_status.sql

-- How far a tenant's spaces are: of the documents in force that have embeddings, how many have them in each space.
create or replace function pgrag.space_status(p_tenant text)
returns table (space text, state text, documents bigint, chunks bigint, missing bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_tenant_id bigint := pgrag_private.find_tenant(p_tenant);
begin
  return query
  select s.space::text,
         case when s.retired_at is not null then 'retired'
              when s.space_id = t.active_space_id then 'active'
              when s.space_id = t.next_space_id then 'next'
              else 'registered' end,
         f.documents, f.chunks, case when s.retired_at is null then pgrag_private.missing_in_space(v_tenant_id, s.space_id) end
    from pgrag_data.embedding_space s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   cross join lateral (
     select count(*) as documents, coalesce(sum(r.chunk_count), 0)::bigint as chunks
       from pgrag_data.document d
       join pgrag_data.revision_space c on c.tenant_id = d.tenant_id and c.revision_id = d.active_revision_id and c.space_id = s.space_id
       join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
      where d.tenant_id = v_tenant_id and d.deleted_at is null) f
   where s.tenant_id = v_tenant_id
   order by s.space_id;
end
$$;

comment on function pgrag.space_status is 'The embedding spaces of a tenant: active, next, registered or retired, and how many documents in force are missing in each.';
revoke all on function pgrag.space_status from public;

-- sql/functions/add_embeddings.sql

-- Embeddings of a verified revision in the active space or the one beside it, for chunks p_first, p_first + 1, …: what a change of
-- encoder needs, and what a lost one left. The same again changes nothing. Each batch is checked, and with the last one the revision
-- is complete in that space.
create or replace function pgrag.add_embeddings(
  p_document   text,
  p_revision   text,
  p_space      text,
  p_first      integer,
  p_embeddings public.vector[]
) returns table (complete boolean, missing integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_document  pgrag_data.document := pgrag_private.find_document(pgrag_private.find_source(v_principal, null), p_document);
  v_revision  pgrag_data.revision := pgrag_private.find_revision(v_document, p_revision);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
  v_count     integer := cardinality(p_embeddings);
  v_active    boolean;
  v_faults    text[];
begin
  if v_revision.state <> 'verified' then
    raise exception using errcode = 'RG405', message = 'the revision is not verified',
      hint = 'A staged revision gets its embeddings with its chunks: pgrag.add_chunks.';
  elsif p_first is null or v_count is null or v_count not between 1 and 2000 or array_ndims(p_embeddings) > 1
        or p_first < 1 or p_first > v_revision.chunk_count - v_count + 1 or array_position(p_embeddings, null) is not null then
    raise exception using errcode = 'RG408', message = 'the batch of embeddings is malformed',
      detail = format('the revision has chunks 1 to %s', v_revision.chunk_count),
      hint = 'Pass 1 to 2000 embeddings, none null, for chunks that the revision has, numbered from p_first.';
  end if;
  select t.active_space_id = v_space.space_id into v_active from pgrag_data.tenant t
   where t.tenant_id = v_principal.tenant_id and v_space.space_id in (t.active_space_id, t.next_space_id);
  if not found then
    raise exception using errcode = 'RG416', message = 'the space is neither the active one nor the one beside it',
      hint = 'An operator begins a new one: pgrag.build_space.';
  end if;

  -- An update, not a lock: in a repeatable-read transaction the batch of another since must fail ours, or neither counts itself the last.
  update pgrag_data.revision r set chunk_count = r.chunk_count
   where r.tenant_id = v_revision.tenant_id and r.revision_id = v_revision.revision_id;
  perform pgrag_private.put_embeddings(v_revision, v_space, p_first, p_embeddings);
  if exists (select from unnest(p_embeddings) with ordinality as u (embedding, n)
               join pgrag_data.chunk_vec v on v.tenant_id = v_revision.tenant_id and v.space_id = v_space.space_id
                and v.revision_id = v_revision.revision_id and v.chunk_no = p_first + (u.n - 1)::integer
              where (coalesce(v.embedding operator(public.=) u.embedding, v.half operator(public.=) pgrag_private.half_of(v_space, u.embedding))) is not true) then
    raise exception using errcode = 'RG403', message = 'the revision has other embeddings in the space',
      hint = 'Embeddings do not change: another model is another space.';
  end if;
  v_faults := pgrag_private.embedding_faults(v_revision.tenant_id, v_revision.revision_id, v_space.space_id, p_first, p_first + v_count - 1);
  if v_faults <> '{}' then
    raise exception using errcode = 'RG305', message = 'the embeddings are not of their space', detail = array_to_string(v_faults, '; '),
      hint = 'Encode the chunks with the space''s model.';
  end if;

  missing := v_revision.chunk_count - (select count(*)::integer from pgrag_data.chunk_vec v where v.tenant_id = v_revision.tenant_id
                                          and v.space_id = v_space.space_id and v.revision_id = v_revision.revision_id);
  complete := missing = 0;
  if complete then
    insert into pgrag_data.revision_space (tenant_id, revision_id, space_id)
    values (v_revision.tenant_id, v_revision.revision_id, v_space.space_id) on conflict do nothing;
    -- In no block yet: until maintenance has it there, it is compared. (A space beside the active one gets blocks when it has everything.)
    -- Nor in one of any space, if these are its first: until now it was not missing there.
    -- Nor in one that this space has kept from when it was the active one.
    if found and (v_active
                  or not exists (select from pgrag_data.revision_space s
                                  where s.tenant_id = v_revision.tenant_id and s.revision_id = v_revision.revision_id and s.space_id <> v_space.space_id)
                  or exists (select from pgrag_data.dense_block b
                              where b.tenant_id = v_revision.tenant_id and b.space_id = v_space.space_id and b.state <> 'retired')) then
      update pgrag_data.document d set changed_xid = pg_current_xact_id()
       where d.tenant_id = v_document.tenant_id and d.document_id = v_document.document_id and d.active_revision_id = v_revision.revision_id;
    end if;
  end if;
  return next;
end
$$;

comment on function pgrag.add_embeddings is 'Adds embeddings of a verified revision in the active space or the one beside it; says how many are still missing.';
revoke all on function pgrag.add_embeddings from public;

-- sql/functions/missing_embeddings.sql

-- The next chunks of the writer's source that want an embedding in a space: of revisions in force that have embeddings in another, and
-- with p_retained of all such revisions, so that a rollback finds its own. What to encode is the text, with title and section where the
-- model's preprocessing takes them. Call it until it returns no row; others may be at it too, for the same again changes nothing.
create or replace function pgrag.missing_embeddings(p_space text, p_limit integer default 256, p_retained boolean default false)
returns table (document text, revision text, chunk_no integer, title text, section text, language text, text text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_principal pgrag_private.principal := pgrag_private.current_principal(null, 'writer');
  v_source    pgrag_data.source := pgrag_private.find_source(v_principal, null);
  v_space     pgrag_data.embedding_space := pgrag_private.find_space(v_principal.tenant_id, p_space);
begin
  if p_limit is null or p_limit not between 1 and 2000 then
    raise exception using errcode = 'RG408', message = 'p_limit must be a whole number from 1 to 2000', hint = 'Call again for more.';
  end if;
  return query
  select r.document::text, r.revision::text, c.chunk_no, r.title, c.section, c.language::text, c.text
    from (select d.document, r.revision, r.revision_id, r.title
            from pgrag_data.document d
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.document_id = d.document_id and r.state = 'verified'
                                      and (r.revision_id = d.active_revision_id or coalesce(p_retained, false))
           where d.tenant_id = v_source.tenant_id and d.source_id = v_source.source_id and d.deleted_at is null
             and (r.space_id is not null
                  or exists (select from pgrag_data.revision_space s where s.tenant_id = r.tenant_id and s.revision_id = r.revision_id))
             and not exists (select from pgrag_data.revision_space s
                              where s.tenant_id = r.tenant_id and s.revision_id = r.revision_id and s.space_id = v_space.space_id)
           order by r.revision_id
           limit p_limit) r
    join pgrag_data.chunk c on c.tenant_id = v_source.tenant_id and c.revision_id = r.revision_id
   where not exists (select from pgrag_data.chunk_vec v where v.tenant_id = c.tenant_id and v.space_id = v_space.space_id
                                                          and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no)
   order by r.revision_id, c.chunk_no
   limit p_limit;
end
$$;

comment on function pgrag.missing_embeddings is 'The next chunks of the writer''s source that have no embedding in a space yet, for re-encoding.';
revoke all on function pgrag.missing_embeddings from public;

-- sql/functions/maintain.sql

-- One bounded step of what keeps searches fast, and whether there is another: call it until remaining is false, from any
-- scheduler, each time in a transaction of its own. Killed, it resumes; called by two at once, they do different work, because
-- each locks the block that it is at. Nothing that it does holds up a reader or a writer; what it has not done yet, searches
-- do one by one.
--
--   fold     rows of the ledger became sums; as many as writers leave between two steps are folded beside other work
--   purge    up to 20,000 embeddings of a retired space were deleted
--   drop     a block that no longer serves is gone, p_keep after it was replaced: older snapshots may still look for it
--   renumber documents that came with a dump from a cluster whose transactions had higher numbers got numbers of this one
--   create   a block is begun: a class of vectors has grown, or changed a good deal since its block was built
--   copy     up to 20,000 vectors were copied into it
--   index    its index was built and it serves, in place of the one before: the one step that takes long (a millisecond a vector or
--            so), with maintenance_work_mem and max_parallel_maintenance_workers of the session
--   retire   a block no longer pays, or belongs to another space or system
--   busy     others are at all the work there is
--   idle     there is none
create or replace function pgrag.maintain(p_keep interval default '5 minutes')
returns table (action text, block_id bigint, rows bigint, remaining boolean, note text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_block   pgrag_data.dense_block;
  v_state   record;
  v_folded  bigint;
  v_rows    bigint;
  v_last    bigint;
  v_due      text;
  v_unfilled bigint; -- a space beside an active one that has not everything yet
  v_bytes    bigint;
  v_memory   bigint;
  v_system  bigint := (select c.system_identifier from pg_control_system() c);
begin
  if p_keep is null or p_keep < '0' then
    raise exception using errcode = 'RG408', message = 'p_keep must be a span of time, from 0 on', hint = 'For example ''5 minutes''.';
  end if;

  -- Where documents come all the time there are always a few: they do not keep the blocks waiting.
  v_folded := pgrag_private.fold_scope_totals();
  if v_folded >= 250 then
    return query select 'fold', null::bigint, v_folded, true, null::text;
    return;
  end if;

  v_rows := pgrag_private.purge_retired_spaces();
  if v_rows > 0 then
    return query select 'purge', null::bigint, v_rows, true, null::text;
    return;
  end if;

  -- What a dump brought along, or what somebody has dropped by hand, serves nobody.
  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state <> 'retired' and (b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is distinct from b.table_oid)
     order by b.block_id limit 1 for update skip locked
  loop
    update pgrag_data.dense_block b set state = 'retired', retired_at = '-infinity'
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'retire', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state = 'retired' and b.retired_at <= clock_timestamp() - p_keep order by b.block_id for update skip locked
  loop
    continue when not pgrag_private.drop_block_table(v_block.block_id);
    delete from pgrag_data.dense_block b where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'drop', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  for v_block in
    select b.* from pgrag_data.dense_block b where b.state in ('copying', 'indexing') order by b.block_id limit 1 for update skip locked
  loop
    if v_block.state = 'copying' then
      select c.rows, c.copied_to into v_rows, v_last from pgrag_private.copy_to_block(v_block) c;
      update pgrag_data.dense_block b
         set vectors = b.vectors + v_rows, copied_to = coalesce(v_last, b.copied_to), state = case when v_last is null then 'indexing' else 'copying' end
       where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
      return query select 'copy', v_block.block_id, v_rows, true, null::text;
      return;
    end if;
    perform pgrag_private.index_block_table(v_block.block_id);
    update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.space_id = v_block.space_id and b.acl_id is not distinct from v_block.acl_id and b.state = 'live'
       and (v_block.base_id is null or b.base_id is not null);
    update pgrag_data.dense_block b set state = 'live', live_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    v_bytes := v_block.vectors * (select 2 * s.dimension + 700 from pgrag_data.embedding_space s
                                   where s.tenant_id = v_block.tenant_id and s.space_id = v_block.space_id);
    v_memory := pg_size_bytes(current_setting('maintenance_work_mem'));
    return query select 'index', v_block.block_id, v_block.vectors, true,
      case when v_bytes > v_memory then format('built on disk for want of memory: with maintenance_work_mem = ''%s MB'' it would have been faster',
                                               v_bytes / 1048576 + 1) end;
    return;
  end loop;

  for v_state in select s.* from pgrag_private.block_state() s where not s.building
                  -- What has none yet, and then the oldest first: one list that always changes does not keep the others waiting.
                  order by s.block_id nulls first, s.tenant_id, s.acl_id nulls last loop
    -- A second block, of what changed, is one more to search: only beside a block that is large in comparison.
    v_due := case
      when v_state.block_id is null then
        case when pgrag_private.deserves_block(v_state.chunks, v_state.largest, v_state.enough, v_state.acl_id) then 'whole' end
      when not pgrag_private.deserves_block(v_state.chunks, v_state.largest, v_state.enough / 2, v_state.acl_id) then 'none'
      when v_state.retired > v_state.vectors / 8 or v_state.loose + coalesce(v_state.delta_vectors, 0) > v_state.vectors / 16 then 'whole'
      when v_state.loose > greatest(2 * v_state.enough, coalesce(v_state.delta_vectors, 0) / 10) then 'changes' end;
    continue when v_due is null or v_state.space_id = v_unfilled;
    -- Whoever has the space's row decides about its classes now: to wait for it would be to do its work again. (An advisory lock
    -- might be anybody's.)
    perform from pgrag_data.embedding_space s
      where s.tenant_id = v_state.tenant_id and s.space_id = v_state.space_id for no key update skip locked;
    continue when not found;
    if v_due = 'none' then
      update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
       where b.tenant_id = v_state.tenant_id and b.block_id in (v_state.block_id, v_state.delta_id);
      return query select 'retire', v_state.block_id, v_state.vectors, true, null::text;
      return;
    end if;
    v_rows := pgrag_private.renumber_documents(v_state.tenant_id);
    if v_rows > 0 then
      return query select 'renumber', null::bigint, v_rows, true, null::text;
      return;
    end if;
    insert into pgrag_data.dense_block (tenant_id, space_id, acl_id, base_id, snapshot, system_identifier)
    select v_state.tenant_id, v_state.space_id, v_state.acl_id, case v_due when 'changes' then v_state.block_id end, pg_current_snapshot(), v_system
      from pgrag_data.tenant t
     -- Asked again under the very snapshot of the block: what gets its embedding later would be in no block, and not seen to have changed.
     where t.tenant_id = v_state.tenant_id
       and (v_state.space_id = t.active_space_id or pgrag_private.missing_in_space(v_state.tenant_id, v_state.space_id) = 0)
    on conflict do nothing
    returning * into v_block;
    if not found then -- another session has begun it, or the space has not everything yet
      v_unfilled := case when not v_state.active then v_state.space_id end;
      continue;
    end if;
    update pgrag_data.dense_block b set table_oid = pgrag_private.create_block_table(v_block.block_id, v_state.dimension)
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'create', v_block.block_id, case v_due when 'whole' then v_state.chunks else v_state.loose end, true, null::text;
    return;
  end loop;

  -- Classes that are no more, and spaces that are not active any more.
  for v_block in
    select b.* from pgrag_data.dense_block b
     where b.state = 'live' and not exists (select from pgrag_private.block_state() s where b.block_id in (s.block_id, s.delta_id))
     order by b.block_id limit 1 for update skip locked
  loop
    update pgrag_data.dense_block b set state = 'retired', retired_at = clock_timestamp()
     where b.tenant_id = v_block.tenant_id and b.block_id = v_block.block_id;
    return query select 'retire', v_block.block_id, v_block.vectors, true, null::text;
    return;
  end loop;

  if v_folded > 0 then
    return query select 'fold', null::bigint, v_folded, true, null::text;
    return;
  end if;
  return query select case when exists (select from pgrag_data.dense_block b where b.state in ('copying', 'indexing')) then 'busy' else 'idle' end,
                      null::bigint, 0::bigint, false, null::text;
end
$$;

comment on function pgrag.maintain is 'One bounded step of maintenance: builds, replaces, drops blocks, folds totals, purges retired spaces; says whether work remains.';
revoke all on function pgrag.maintain from public;

-- sql/functions/calibrate.sql

-- Measures what the parts of a dense search cost here, on the largest tenant's own vectors, and keeps it: searches choose their
-- route by it. Each figure is the median of five questions that were asked once before: what is read from disk the first time is
-- no cost of a route. What there is nothing to measure on (no tenant with 1,000 vectors, no block) stays as it was. Takes about a
-- second; run it when nothing else is busy.
create or replace function pgrag.calibrate() returns table (part text, microseconds double precision, measured_at timestamptz)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_sample    record;
  v_block     pgrag_data.dense_block;
  v_scope     pgrag_private.search_scope;
  v_plan      pgrag_private.dense_plan;
  v_revisions bigint[];
  v_query     public.vector;
  v_began     timestamptz;
  v_documents double precision[] := '{}';
  v_vectors   double precision[] := '{}';
  v_blocks    double precision[] := '{}';
  v_count     bigint;
begin
  select t.tenant_id, s.space_id, s.dimension, array_agg(distinct l.acl_id) as acls into v_sample
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
    join pgrag_data.scope_total l on l.tenant_id = t.tenant_id
   group by t.tenant_id, s.space_id, s.dimension
   order by sum(l.chunks) desc limit 1;
  for v_turn in 0 .. 9 loop
    exit when v_sample.tenant_id is null;
    v_began := clock_timestamp();
    v_revisions := array(select d.active_revision_id from unnest(v_sample.acls) as a (acl_id)
                           join pgrag_data.document d on d.tenant_id = v_sample.tenant_id and d.acl_id = a.acl_id
                          where d.deleted_at is null and d.active_revision_id is not null limit 2000);
    exit when cardinality(v_revisions) = 0;
    v_documents := v_documents || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6 / cardinality(v_revisions);
    select coalesce(v.embedding, v.half::public.vector) into v_query from pgrag_data.chunk_vec v
     where v.tenant_id = v_sample.tenant_id and v.space_id = v_sample.space_id and v.revision_id = v_revisions[1 + v_turn % 5 % cardinality(v_revisions)] limit 1;
    v_count := (select count(*) from pgrag_data.chunk_vec v where v.tenant_id = v_sample.tenant_id and v.space_id = v_sample.space_id
                                                              and v.revision_id = any (v_revisions));
    exit when v_count < 1000 or v_query is null;
    v_began := clock_timestamp();
    perform from pgrag_private.compare_vectors(v_sample.tenant_id, v_revisions, v_sample.space_id, v_query, 100, null, null);
    v_vectors := v_vectors || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6 / v_count * 384 / v_sample.dimension;
  end loop;

  select b.* into v_block from pgrag_data.dense_block b
   where b.state = 'live' and b.acl_id is not null and b.base_id is null and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
   order by b.vectors desc limit 1;
  for v_turn in 0 .. 9 loop
    exit when v_block.block_id is null;
    v_scope.tenant_id := v_block.tenant_id;
    v_scope.acls := array[v_block.acl_id];
    v_plan := ('class_blocks', array[v_block.block_id], v_scope.acls, array[v_block.vectors], '{}', '{}', '{}', 100, null);
    select coalesce(v.embedding, v.half::public.vector) into v_query
      from pgrag_data.document d
      join pgrag_data.chunk_vec v on v.tenant_id = d.tenant_id and v.space_id = v_block.space_id and v.revision_id = d.active_revision_id
     where d.tenant_id = v_block.tenant_id and d.acl_id <> v_block.acl_id offset v_turn % 5 * 20 limit 1;
    exit when v_query is null;
    v_began := clock_timestamp();
    perform from pgrag_private.search_blocks(v_scope, v_plan, v_query, 100, null, null);
    v_blocks := v_blocks || extract(epoch from clock_timestamp() - v_began)::double precision * 1e6;
  end loop;

  update pgrag_data.search_cost c set microseconds = greatest(m.microseconds, 0.001), measured_at = clock_timestamp()
    from (select m.part, percentile_cont(0.5) within group (order by x.value) as microseconds
            from (values ('document', v_documents), ('vector', v_vectors), ('block', v_blocks)) as m (part, measured)
           cross join lateral unnest(m.measured[6:]) as x (value)
           group by m.part) m
   where c.part = m.part;
  return query select c.part::text, c.microseconds, c.measured_at from pgrag_data.search_cost c order by c.part collate "C";
end
$$;

comment on function pgrag.calibrate is 'Measures what exact comparison and blocks cost on this machine; searches choose their route by it.';
revoke all on function pgrag.calibrate from public;

-- sql/functions/index_status.sql

-- The state of the blocks behind dense search: what is in force of each class of vectors, what its blocks hold, what is compared
-- one by one meanwhile, and what the blocks hold in vain. Access lists are numbers here; who is in them, operators do not learn.
create or replace function pgrag.index_status()
returns table (tenant text, space text, class text, chunks bigint, state text, vectors bigint, loose bigint, retired bigint, bytes bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
  select t.tenant::text, e.space::text, coalesce('list ' || s.acl_id, 'tenant'), s.chunks,
         case when s.building then 'building' when s.block_id is null then 'none'
              when not exists (select from pg_control_system() c join pgrag_data.dense_block b on b.system_identifier = c.system_identifier
                                where b.tenant_id = s.tenant_id and b.block_id = s.block_id
                                  and b.table_oid = to_regclass('pgrag_block.b' || s.block_id)) then 'unusable'
              else 'live' end,
         coalesce(s.vectors, 0) + coalesce(s.delta_vectors, 0),
         case when s.block_id is null then s.chunks else s.loose end, coalesce(s.retired, 0),
         coalesce(pg_total_relation_size(to_regclass('pgrag_block.b' || s.block_id)), 0)
           + coalesce(pg_total_relation_size(to_regclass('pgrag_block.b' || s.delta_id)), 0)
    from pgrag_private.block_state() s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
    join pgrag_data.embedding_space e on e.tenant_id = s.tenant_id and e.space_id = s.space_id
   where s.block_id is not null or s.building or pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id)
   order by t.tenant, e.space, s.acl_id nulls first;
end
$$;

comment on function pgrag.index_status is 'The blocks behind dense search: vectors in them, loose beside them, retired in them, and their size on disk.';
revoke all on function pgrag.index_status from public;

-- sql/functions/private/expected_objects.sql

-- What a new installation has, as pgrag_private.catalog() says it; % is the object. Made by "make expected"; do not edit.
create or replace function pgrag_private.expected_objects() returns table (check_name text, object text, item text)
language sql immutable parallel safe rows 1000 as $$
  select l.part[1], l.part[2], replace(l.part[3], '%', l.part[2])
    from string_to_table($objects$
default_privileges | functions of pgrag_engine | alter default privileges for role pgrag_engine revoke all on functions from public
default_privileges | functions of pgrag_owner | alter default privileges for role pgrag_owner revoke all on functions from public
default_privileges | types of pgrag_engine | alter default privileges for role pgrag_engine revoke all on types from public
default_privileges | types of pgrag_owner | alter default privileges for role pgrag_owner revoke all on types from public
function_attributes | pgrag.activate(text,text,text,boolean,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.active_space(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.add_embeddings(text,text,text,integer,public.vector[]) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.add_signing_key(text,bytea,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.authenticate(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.build_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.calibrate() | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.can_read(text,text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.delete_document(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.doctor() | alter function % stable parallel restricted security definer
function_attributes | pgrag.drop_membership(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.drop_principal(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.excerpt(text,timestamp with time zone,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.index_status() | alter function % stable parallel unsafe security definer
function_attributes | pgrag.list_documents(text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_memberships(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_principals(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_revisions(text,text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_signing_keys() | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_sources(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_spaces(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_tenants() | alter function % stable parallel restricted security definer
function_attributes | pgrag.maintain(interval) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.missing_embeddings(text,integer,boolean) | alter function % stable parallel unsafe security definer
function_attributes | pgrag.next_space(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.packet_json(jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.put_membership(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_principal(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_source(text,text,text[],text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_tenant(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.retire_signing_key(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.retire_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.rollback(text,text,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.search_json(jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.set_access(text,text[],text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.space_status(text) | alter function % stable parallel unsafe security definer
function_attributes | pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.status() | alter function % stable parallel restricted security definer
function_attributes | pgrag.switch_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.validate_reply(jsonb,jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.verify_revision(text,text,integer) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.version() | alter function % immutable parallel safe security invoker
function_attributes | pgrag.whoami(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.writer_source(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.access_state(pgrag_private.principal) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.acl_of(bigint,text[]) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.block_effort(integer) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.block_least(integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.block_recall(pgrag_data.dense_block,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.block_state() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.bm25_idf(double precision,double precision) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.bm25_norm() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.browse_revisions() | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.browse_tenant() | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.build_packet(pgrag_private.principal,text,timestamp with time zone,jsonb,integer,text,integer,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.call_maintain() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.check_document(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_embedding(bigint,text,public.vector) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.check_filter(jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_json_request(jsonb,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_metadata(jsonb,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_name(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_search(pgrag_private.search_request) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.chunk_id_lookup(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.closure(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.copy_to_block(pgrag_data.dense_block) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.corpus_state(pgrag_private.principal,timestamp with time zone) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.count_document(pgrag_data.document,integer) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.create_block_table(bigint,integer) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.current_principal(text,text[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.decode_base64url(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.decode_part(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.default_threshold(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.dense_lane(pgrag_private.search_scope,pgrag_private.dense_plan,bigint,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.describe_chunk(bigint,bigint,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.described_space(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.deserves_block(bigint,bigint,bigint,bigint) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.distinct_words(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.doctor_access() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_blocks() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_checks() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.doctor_data() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_server() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.drop_block_table(bigint) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.each_slot(integer,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.effective_revision(bigint,bigint,timestamp with time zone) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.embedding_faults(bigint,bigint,bigint,integer,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.expected_catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.expected_objects() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.facet_keys_any(bigint,text,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.filter_date(jsonb,text) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.filter_values(jsonb,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_document(pgrag_data.source,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_principal(bigint,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_revision(pgrag_data.document,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_source(pgrag_private.principal,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_space(bigint,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_tenant(text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.finding(text,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.finding_of_access(pgrag_private.principal,text,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.fingerprint(text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.fold_scope_totals() | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.function_bodies() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.half_of(pgrag_data.embedding_space,public.vector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.hmac_pad(bytea,integer) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.index_block_table(bigint) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.installed_bodies() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.internal_mac(text,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.is_blank(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.is_language(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.is_sayable(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.json_texts(jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.ledger_gaps(bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.lexeme_count(tsvector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexeme_keys(bigint,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexeme_query(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexical_bound(pgrag_private.lexical_plan[]) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.lexical_plans(pgrag_private.search_scope,text[],text[],text[],boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.makes_a_difference(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.matched_terms(bigint,bigint,integer,pgrag_private.lexical_plan[],double precision[],double precision[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.missing_in_space(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.negations() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.not_found(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.numbers() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.pairs_of(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.parse_question(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.permitted_acls(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.phrase_lexemes(text,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.phrase_query(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.pick(bigint,pgrag_private.ranked_chunk[],integer,integer,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.pinned_settings(boolean) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.plain_quote(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.purge_retired_spaces() | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.put_embeddings(pgrag_data.revision,pgrag_data.embedding_space,integer,public.vector[]) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.question_condition(text,text[],text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.random_secret() | alter function % volatile parallel safe security invoker
function_attributes | pgrag_private.renumber_documents(bigint) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.retrieve_json(pgrag_private.principal,jsonb,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.scope(bigint,bigint,timestamp with time zone,jsonb) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.scope_first_limit() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.scope_languages(pgrag_private.scope_part[]) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.score(double precision) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.seal(pgrag_private.principal,jsonb) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.similarity(tsvector,tsvector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.spaced_words(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.split_joined(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.standing_revisions(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.switch_revision(pgrag_private.principal,pgrag_data.document,pgrag_data.revision,text,text,boolean) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.text_config(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.tf_slot() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.to_lexemes(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.transaction_mark() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.unspaced_pairs(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.unspaced_run() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.utc(timestamp with time zone) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.verify_token(text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.visible_row(text,text,boolean) | alter function % immutable parallel safe security invoker
function_settings | DateStyle of pgrag_private.catalog() | alter function pgrag_private.catalog() set DateStyle to 'ISO, YMD'
function_settings | DateStyle of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set DateStyle to 'ISO, YMD'
function_settings | IntervalStyle of pgrag_private.catalog() | alter function pgrag_private.catalog() set IntervalStyle to 'iso_8601'
function_settings | IntervalStyle of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set IntervalStyle to 'iso_8601'
function_settings | enable_bitmapscan of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_bitmapscan to 'off'
function_settings | enable_hashjoin of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_hashjoin to 'off'
function_settings | enable_mergejoin of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_mergejoin to 'off'
function_settings | enable_seqscan of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | alter function pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | alter function pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | alter function pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) set enable_seqscan to 'off'
function_settings | enable_sort of pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) set enable_sort to 'off'
function_settings | enable_sort of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_sort to 'off'
function_settings | lock_timeout of pgrag_private.drop_block_table(bigint) | alter function pgrag_private.drop_block_table(bigint) set lock_timeout to '20ms'
function_settings | plan_cache_mode of pgrag_private.copy_to_block(pgrag_data.dense_block) | alter function pgrag_private.copy_to_block(pgrag_data.dense_block) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.current_principal(text,text[]) | alter function pgrag_private.current_principal(text,text[]) set plan_cache_mode to 'force_generic_plan'
function_settings | plan_cache_mode of pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | alter function pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) set plan_cache_mode to 'force_generic_plan'
function_settings | quote_all_identifiers of pgrag_private.catalog() | alter function pgrag_private.catalog() set quote_all_identifiers to 'off'
function_settings | quote_all_identifiers of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set quote_all_identifiers to 'off'
function_settings | work_mem of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set work_mem to '32MB'
functions | pgrag.activate(text,text,text,boolean,text) | pgrag.activate(p_document text, p_revision text, p_expected_active text DEFAULT NULL::text, p_restore boolean DEFAULT false, p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.active_space(text) | pgrag.active_space(p_token text DEFAULT NULL::text) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) | pgrag.add_chunks(p_document text, p_revision text, p_first integer, p_texts text[], p_starts integer[], p_ends integer[], p_tokens integer[], p_sections text[] DEFAULT NULL::text[], p_pages integer[] DEFAULT NULL::integer[], p_languages text[] DEFAULT NULL::text[], p_embeddings public.vector[] DEFAULT NULL::public.vector[]) returns integer
functions | pgrag.add_embeddings(text,text,text,integer,public.vector[]) | pgrag.add_embeddings(p_document text, p_revision text, p_space text, p_first integer, p_embeddings public.vector[]) returns TABLE(complete boolean, missing integer)
functions | pgrag.add_signing_key(text,bytea,text,text) | pgrag.add_signing_key(p_kid text, p_secret bytea, p_issuer text, p_audience text) returns void
functions | pgrag.authenticate(text) | pgrag.authenticate(p_token text) returns void
functions | pgrag.build_space(text,text) | pgrag.build_space(p_tenant text, p_space text) returns boolean
functions | pgrag.calibrate() | % returns TABLE(part text, microseconds double precision, measured_at timestamp with time zone)
functions | pgrag.can_read(text,text,text) | pgrag.can_read(p_source text, p_document text, p_token text DEFAULT NULL::text) returns boolean
functions | pgrag.delete_document(text,text) | pgrag.delete_document(p_document text, p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.doctor() | % returns TABLE(check_name text, severity text, object text, finding text, remedy text)
functions | pgrag.drop_membership(text,text) | pgrag.drop_membership(p_group text, p_member text) returns void
functions | pgrag.drop_principal(text) | pgrag.drop_principal(p_name text) returns void
functions | pgrag.excerpt(text,timestamp with time zone,text) | pgrag.excerpt(p_chunk_id text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.index_status() | % returns TABLE(tenant text, space text, class text, chunks bigint, state text, vectors bigint, loose bigint, retired bigint, bytes bigint)
functions | pgrag.list_documents(text,text) | pgrag.list_documents(p_source text DEFAULT NULL::text, p_token text DEFAULT NULL::text) returns TABLE(source text, document text, active_revision text, readers text[], deleted_at timestamp with time zone)
functions | pgrag.list_memberships(text) | pgrag.list_memberships(p_token text DEFAULT NULL::text) returns TABLE("group" text, member text, kind text)
functions | pgrag.list_principals(text) | pgrag.list_principals(p_token text DEFAULT NULL::text) returns TABLE(name text, kind text, created_at timestamp with time zone)
functions | pgrag.list_revisions(text,text,text) | pgrag.list_revisions(p_document text, p_source text DEFAULT NULL::text, p_token text DEFAULT NULL::text) returns TABLE(revision text, state text, title text, effective_from timestamp with time zone, effective_to timestamp with time zone, chunks integer, created_at timestamp with time zone, verified_at timestamp with time zone, activated_at timestamp with time zone)
functions | pgrag.list_signing_keys() | % returns TABLE(kid text, issuer text, audience text, created_at timestamp with time zone, retired_at timestamp with time zone)
functions | pgrag.list_sources(text) | pgrag.list_sources(p_tenant text) returns TABLE(source text, trust text, processors text[], created_at timestamp with time zone)
functions | pgrag.list_spaces(text) | pgrag.list_spaces(p_tenant text) returns TABLE(space text, active boolean, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.list_tenants() | % returns TABLE(tenant text, name text, active_space text, created_at timestamp with time zone)
functions | pgrag.maintain(interval) | pgrag.maintain(p_keep interval DEFAULT 'PT5M'::interval) returns TABLE(action text, block_id bigint, rows bigint, remaining boolean, note text)
functions | pgrag.missing_embeddings(text,integer,boolean) | pgrag.missing_embeddings(p_space text, p_limit integer DEFAULT 256, p_retained boolean DEFAULT false) returns TABLE(document text, revision text, chunk_no integer, title text, section text, language text, text text)
functions | pgrag.next_space(text) | pgrag.next_space(p_token text DEFAULT NULL::text) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) | pgrag.packet(p_question text, p_k integer DEFAULT 8, p_mode text DEFAULT 'hybrid'::text, p_embedding public.vector DEFAULT NULL::public.vector, p_space text DEFAULT NULL::text, p_fusion text DEFAULT 'convex'::text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_filter jsonb DEFAULT NULL::jsonb, p_candidates integer DEFAULT 100, p_threshold double precision DEFAULT NULL::double precision, p_budget integer DEFAULT 8000, p_budget_unit text DEFAULT 'characters'::text, p_reserve integer DEFAULT 0, p_strict boolean DEFAULT false, p_token text DEFAULT NULL::text, p_probes text[] DEFAULT NULL::text[], p_probe_embeddings public.vector[] DEFAULT NULL::public.vector[], p_per_document integer DEFAULT NULL::integer, p_per_source integer DEFAULT NULL::integer, p_isolation text DEFAULT 'auto'::text, p_profile text DEFAULT 'normal'::text, p_order text[] DEFAULT NULL::text[], p_reranker text DEFAULT NULL::text) returns jsonb
functions | pgrag.packet_json(jsonb,text) | pgrag.packet_json(p_request jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.put_membership(text,text) | pgrag.put_membership(p_group text, p_member text) returns void
functions | pgrag.put_principal(text,text) | pgrag.put_principal(p_name text, p_kind text) returns void
functions | pgrag.put_source(text,text,text[],text) | pgrag.put_source(p_tenant text, p_source text, p_processors text[] DEFAULT NULL::text[], p_trust text DEFAULT NULL::text) returns void
functions | pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) | pgrag.put_space(p_tenant text, p_space text, p_model text, p_model_revision text, p_dimension integer, p_metric text DEFAULT 'cosine'::text, p_normalisation text DEFAULT 'unit'::text, p_preprocessing text DEFAULT ''::text, p_query_prefix text DEFAULT ''::text, p_document_prefix text DEFAULT ''::text, p_storage text DEFAULT 'float'::text, p_zero_vectors text DEFAULT 'refuse'::text) returns void
functions | pgrag.put_tenant(text,text) | pgrag.put_tenant(p_tenant text, p_name text DEFAULT NULL::text) returns void
functions | pgrag.retire_signing_key(text) | pgrag.retire_signing_key(p_kid text) returns void
functions | pgrag.retire_space(text,text) | pgrag.retire_space(p_tenant text, p_space text) returns boolean
functions | pgrag.rollback(text,text,text,text) | pgrag.rollback(p_document text, p_revision text DEFAULT NULL::text, p_expected_active text DEFAULT NULL::text, p_source text DEFAULT NULL::text) returns text
functions | pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) | pgrag.search(p_question text, p_k integer DEFAULT 10, p_mode text DEFAULT 'hybrid'::text, p_embedding public.vector DEFAULT NULL::public.vector, p_space text DEFAULT NULL::text, p_fusion text DEFAULT 'convex'::text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_filter jsonb DEFAULT NULL::jsonb, p_candidates integer DEFAULT 100, p_threshold double precision DEFAULT NULL::double precision, p_token text DEFAULT NULL::text, p_probes text[] DEFAULT NULL::text[], p_probe_embeddings public.vector[] DEFAULT NULL::public.vector[], p_per_document integer DEFAULT NULL::integer, p_per_source integer DEFAULT NULL::integer, p_isolation text DEFAULT 'auto'::text, p_profile text DEFAULT 'normal'::text, p_order text[] DEFAULT NULL::text[], p_reranker text DEFAULT NULL::text) returns TABLE(rank integer, score double precision, relevance double precision, source text, document text, revision text, active boolean, title text, section text, page integer, language text, span_start integer, span_end integer, effective_from timestamp with time zone, effective_to timestamp with time zone, ingested_at timestamp with time zone, trust text, lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision, chunk_id text, text text, status text, complete boolean, complete_reason text, matched_terms jsonb, duplicates jsonb, probe integer)
functions | pgrag.search_json(jsonb,text) | pgrag.search_json(p_request jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.set_access(text,text[],text) | pgrag.set_access(p_document text, p_readers text[], p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.space_status(text) | pgrag.space_status(p_tenant text) returns TABLE(space text, state text, documents bigint, chunks bigint, missing bigint)
functions | pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) | pgrag.stage_revision(p_document text, p_body text, p_title text DEFAULT ''::text, p_language text DEFAULT 'en'::text, p_revision text DEFAULT NULL::text, p_product text DEFAULT NULL::text, p_version text DEFAULT NULL::text, p_tags text[] DEFAULT '{}'::text[], p_dated date DEFAULT NULL::date, p_effective_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_effective_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_parser text DEFAULT 'text'::text, p_chunker text DEFAULT ''::text, p_tokenizer text DEFAULT ''::text, p_space text DEFAULT NULL::text, p_skips int4range[] DEFAULT '{}'::int4range[], p_metadata jsonb DEFAULT '{}'::jsonb) returns TABLE(revision text, state text, created boolean)
functions | pgrag.status() | % returns jsonb
functions | pgrag.switch_space(text,text) | pgrag.switch_space(p_tenant text, p_space text) returns boolean
functions | pgrag.validate_reply(jsonb,jsonb,text) | pgrag.validate_reply(p_packet jsonb, p_reply jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.verify_revision(text,text,integer) | pgrag.verify_revision(p_document text, p_revision text, p_expected_chunks integer) returns TABLE(state text, chunks integer, faults text[])
functions | pgrag.version() | % returns text
functions | pgrag.whoami(text) | pgrag.whoami(p_token text DEFAULT NULL::text) returns TABLE(tenant text, subject text, kind text, source text, known boolean, groups text[], expires_at timestamp with time zone)
functions | pgrag.writer_source(text) | pgrag.writer_source(p_token text DEFAULT NULL::text) returns TABLE(tenant text, source text, trust text, processors text[])
functions | pgrag_private.access_state(pgrag_private.principal) | pgrag_private.access_state(p_principal pgrag_private.principal) returns text
functions | pgrag_private.acl_of(bigint,text[]) | pgrag_private.acl_of(p_tenant_id bigint, p_readers text[]) returns bigint
functions | pgrag_private.block_effort(integer) | pgrag_private.block_effort(p_requested integer) returns integer
functions | pgrag_private.block_least(integer) | pgrag_private.block_least(p_dimension integer) returns bigint
functions | pgrag_private.block_recall(pgrag_data.dense_block,integer) | pgrag_private.block_recall(p_block pgrag_data.dense_block, p_questions integer) returns double precision
functions | pgrag_private.block_state() | % returns TABLE(tenant_id bigint, space_id bigint, active boolean, dimension integer, acl_id bigint, chunks bigint, largest bigint, enough bigint, block_id bigint, vectors bigint, delta_id bigint, delta_vectors bigint, loose bigint, retired bigint, building boolean)
functions | pgrag_private.bm25_idf(double precision,double precision) | pgrag_private.bm25_idf(p_chunks double precision, p_df double precision) returns double precision
functions | pgrag_private.bm25_norm() | % returns text
functions | pgrag_private.browse_revisions() | % returns bigint[]
functions | pgrag_private.browse_tenant() | % returns bigint
functions | pgrag_private.build_packet(pgrag_private.principal,text,timestamp with time zone,jsonb,integer,text,integer,boolean) | pgrag_private.build_packet(p_principal pgrag_private.principal, p_question text, p_as_of timestamp with time zone, p_found jsonb, p_budget integer, p_budget_unit text, p_reserve integer, p_strict boolean) returns jsonb
functions | pgrag_private.call_maintain() | % returns text
functions | pgrag_private.catalog() | % returns TABLE(check_name text, object text, item text, undo text)
functions | pgrag_private.check_document(text) | pgrag_private.check_document(p_document text) returns text
functions | pgrag_private.check_embedding(bigint,text,public.vector) | pgrag_private.check_embedding(p_tenant_id bigint, p_space text, p_embedding public.vector) returns pgrag_data.embedding_space
functions | pgrag_private.check_filter(jsonb) | pgrag_private.check_filter(p_filter jsonb) returns void
functions | pgrag_private.check_json_request(jsonb,text[]) | pgrag_private.check_json_request(p_request jsonb, VARIADIC p_fields text[]) returns void
functions | pgrag_private.check_metadata(jsonb,text,text) | pgrag_private.check_metadata(p_metadata jsonb, p_code text, p_what text) returns void
functions | pgrag_private.check_name(text,text) | pgrag_private.check_name(p_what text, p_name text) returns text
functions | pgrag_private.check_search(pgrag_private.search_request) | pgrag_private.check_search(p_search pgrag_private.search_request) returns void
functions | pgrag_private.chunk_id_lookup(text) | pgrag_private.chunk_id_lookup(p_row text) returns text
functions | pgrag_private.closure(bigint,bigint) | pgrag_private.closure(p_tenant_id bigint, p_reader_id bigint) returns SETOF bigint
functions | pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | pgrag_private.compare_vectors(p_tenant_id bigint, p_revisions bigint[], p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]) returns TABLE(revision_id bigint, chunk_no integer, distance double precision)
functions | pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | pgrag_private.compared_revisions(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan) returns bigint[]
functions | pgrag_private.copy_to_block(pgrag_data.dense_block) | pgrag_private.copy_to_block(p_block pgrag_data.dense_block, OUT rows bigint, OUT copied_to bigint) returns record
functions | pgrag_private.corpus_state(pgrag_private.principal,timestamp with time zone) | pgrag_private.corpus_state(p_principal pgrag_private.principal, p_as_of timestamp with time zone) returns text
functions | pgrag_private.count_document(pgrag_data.document,integer) | pgrag_private.count_document(p_document pgrag_data.document, p_sign integer) returns void
functions | pgrag_private.create_block_table(bigint,integer) | pgrag_private.create_block_table(p_block_id bigint, p_dimension integer) returns oid
functions | pgrag_private.current_principal(text,text[]) | pgrag_private.current_principal(p_token text, VARIADIC p_kinds text[]) returns pgrag_private.principal
functions | pgrag_private.decode_base64url(text) | pgrag_private.decode_base64url(p_part text) returns bytea
functions | pgrag_private.decode_part(text) | pgrag_private.decode_part(p_part text) returns jsonb
functions | pgrag_private.default_threshold(text) | pgrag_private.default_threshold(p_mode text) returns double precision
functions | pgrag_private.dense_lane(pgrag_private.search_scope,pgrag_private.dense_plan,bigint,public.vector,integer,text[],tsquery[]) | pgrag_private.dense_lane(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]) returns TABLE(revision_id bigint, chunk_no integer, chunk_id bytea, cosine double precision, fell_back boolean)
functions | pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | pgrag_private.dense_plan(p_scope pgrag_private.search_scope, p_space pgrag_data.embedding_space, p_limit integer, p_isolation text) returns pgrag_private.dense_plan
functions | pgrag_private.describe_chunk(bigint,bigint,integer) | pgrag_private.describe_chunk(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer) returns TABLE(described jsonb)
functions | pgrag_private.described_space(bigint,bigint) | pgrag_private.described_space(p_tenant_id bigint, p_space_id bigint) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag_private.deserves_block(bigint,bigint,bigint,bigint) | pgrag_private.deserves_block(p_chunks bigint, p_largest bigint, p_least bigint, p_acl_id bigint) returns boolean
functions | pgrag_private.distinct_words(text) | pgrag_private.distinct_words(p_text text) returns tsvector
functions | pgrag_private.doctor_access() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_blocks() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_catalog() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_checks() | % returns TABLE(place integer, check_name text, severity text, wanting text, beside text, well text)
functions | pgrag_private.doctor_data() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_server() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.drop_block_table(bigint) | pgrag_private.drop_block_table(p_block_id bigint) returns boolean
functions | pgrag_private.each_slot(integer,text,text) | pgrag_private.each_slot(p_slots integer, p_piece text, p_between text) returns text
functions | pgrag_private.effective_revision(bigint,bigint,timestamp with time zone) | pgrag_private.effective_revision(p_tenant_id bigint, p_document_id bigint, p_at timestamp with time zone) returns TABLE(revision_id bigint)
functions | pgrag_private.embedding_faults(bigint,bigint,bigint,integer,integer) | pgrag_private.embedding_faults(p_tenant_id bigint, p_revision_id bigint, p_space_id bigint, p_first integer, p_last integer) returns text[]
functions | pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | pgrag_private.estimate_df(p_scope pgrag_private.search_scope, p_revisions bigint[], p_chunk_counts integer[], p_languages text[], p_lexemes text[]) returns TABLE(lexeme text, df double precision, seen boolean)
functions | pgrag_private.expected_catalog() | % returns TABLE(check_name text, object text, item text)
functions | pgrag_private.expected_objects() | % returns TABLE(check_name text, object text, item text)
functions | pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) | pgrag_private.facet_keys(p_tenant_id bigint, p_language text, p_product text, p_version text, p_tags text[], p_metadata jsonb) returns bigint[]
functions | pgrag_private.facet_keys_any(bigint,text,text[]) | pgrag_private.facet_keys_any(p_tenant_id bigint, p_name text, p_values text[]) returns bigint[]
functions | pgrag_private.filter_date(jsonb,text) | pgrag_private.filter_date(p_filter jsonb, p_key text) returns date
functions | pgrag_private.filter_values(jsonb,text) | pgrag_private.filter_values(p_filter jsonb, p_key text) returns text[]
functions | pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | pgrag_private.filtered_revisions(p_tenant_id bigint, p_acls bigint[], p_as_of timestamp with time zone, p_filter jsonb, p_index boolean) returns TABLE(revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
functions | pgrag_private.find_document(pgrag_data.source,text) | pgrag_private.find_document(p_source pgrag_data.source, p_document text) returns pgrag_data.document
functions | pgrag_private.find_principal(bigint,text) | pgrag_private.find_principal(p_tenant_id bigint, p_name text) returns pgrag_data.principal
functions | pgrag_private.find_revision(pgrag_data.document,text) | pgrag_private.find_revision(p_document pgrag_data.document, p_revision text) returns pgrag_data.revision
functions | pgrag_private.find_source(pgrag_private.principal,text) | pgrag_private.find_source(p_principal pgrag_private.principal, p_source text) returns pgrag_data.source
functions | pgrag_private.find_space(bigint,text) | pgrag_private.find_space(p_tenant_id bigint, p_space text) returns pgrag_data.embedding_space
functions | pgrag_private.find_tenant(text) | pgrag_private.find_tenant(p_tenant text) returns bigint
functions | pgrag_private.finding(text,text,text) | pgrag_private.finding(p_check text, p_id text, p_message text) returns jsonb
functions | pgrag_private.finding_of_access(pgrag_private.principal,text,bigint) | pgrag_private.finding_of_access(p_principal pgrag_private.principal, p_id text, p_revision_id bigint) returns jsonb
functions | pgrag_private.fingerprint(text[]) | pgrag_private.fingerprint(VARIADIC p_parts text[]) returns bytea
functions | pgrag_private.fold_scope_totals() | % returns bigint
functions | pgrag_private.function_bodies() | % returns TABLE(function text, body text)
functions | pgrag_private.half_of(pgrag_data.embedding_space,public.vector) | pgrag_private.half_of(p_space pgrag_data.embedding_space, p_embedding public.vector) returns public.halfvec
functions | pgrag_private.hmac_pad(bytea,integer) | pgrag_private.hmac_pad(p_secret bytea, p_byte integer) returns bytea
functions | pgrag_private.index_block_table(bigint) | pgrag_private.index_block_table(p_block_id bigint) returns void
functions | pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | pgrag_private.index_finds(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_count integer) returns boolean
functions | pgrag_private.installed_bodies() | % returns jsonb
functions | pgrag_private.internal_mac(text,text) | pgrag_private.internal_mac(p_purpose text, p_message text) returns text
functions | pgrag_private.is_blank(text) | pgrag_private.is_blank(p_text text) returns boolean
functions | pgrag_private.is_language(text) | pgrag_private.is_language(p_text text) returns boolean
functions | pgrag_private.is_sayable(text) | pgrag_private.is_sayable(p_text text) returns boolean
functions | pgrag_private.json_texts(jsonb) | pgrag_private.json_texts(p_list jsonb) returns text[]
functions | pgrag_private.ledger_gaps(bigint) | pgrag_private.ledger_gaps(p_tenant_id bigint) returns TABLE(tenant_id bigint, acl_id bigint, source_id bigint, languages text[], until timestamp with time zone, documents bigint, chunks bigint, lexemes bigint)
functions | pgrag_private.lexeme_count(tsvector) | pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
functions | pgrag_private.lexeme_keys(bigint,text[]) | pgrag_private.lexeme_keys(p_tenant_id bigint, p_lexemes text[]) returns bigint[]
functions | pgrag_private.lexeme_query(text) | pgrag_private.lexeme_query(p_lexeme text) returns tsquery
functions | pgrag_private.lexical_bound(pgrag_private.lexical_plan[]) | pgrag_private.lexical_bound(p_plans pgrag_private.lexical_plan[]) returns jsonb
functions | pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | pgrag_private.lexical_lane(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_limit integer, p_also_revisions bigint[], p_also_chunks integer[]) returns TABLE(revision_id bigint, chunk_no integer, chunk_id bytea, score double precision, share double precision, coverage double precision, evidence double precision, tf double precision[], part double precision[])
functions | pgrag_private.lexical_plans(pgrag_private.search_scope,text[],text[],text[],boolean) | pgrag_private.lexical_plans(p_scope pgrag_private.search_scope, p_wordings text[], p_phrases text[], p_excluded text[], p_index boolean) returns pgrag_private.lexical_plan[]
functions | pgrag_private.makes_a_difference(text) | pgrag_private.makes_a_difference(p_word text) returns boolean
functions | pgrag_private.matched_terms(bigint,bigint,integer,pgrag_private.lexical_plan[],double precision[],double precision[]) | pgrag_private.matched_terms(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer, p_plans pgrag_private.lexical_plan[], p_tf double precision[], p_part double precision[]) returns jsonb
functions | pgrag_private.missing_in_space(bigint,bigint) | pgrag_private.missing_in_space(p_tenant_id bigint, p_space_id bigint) returns bigint
functions | pgrag_private.negations() | % returns text[]
functions | pgrag_private.not_found(text) | pgrag_private.not_found(p_what text) returns void
functions | pgrag_private.numbers() | % returns text[]
functions | pgrag_private.pairs_of(text) | pgrag_private.pairs_of(p_run text) returns TABLE(pair text, place bigint)
functions | pgrag_private.parse_question(text) | pgrag_private.parse_question(p_question text, OUT words text, OUT phrases text[], OUT excluded text[]) returns record
functions | pgrag_private.permitted_acls(bigint,bigint) | pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns SETOF bigint
functions | pgrag_private.phrase_lexemes(text,text[]) | pgrag_private.phrase_lexemes(p_language text, p_phrases text[]) returns text[]
functions | pgrag_private.phrase_query(text,text) | pgrag_private.phrase_query(p_language text, p_phrase text) returns tsquery
functions | pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | pgrag_private.phrases_occur(p_scope pgrag_private.search_scope, p_phrases text[], p_index boolean) returns boolean
functions | pgrag_private.pick(bigint,pgrag_private.ranked_chunk[],integer,integer,integer) | pgrag_private.pick(p_tenant_id bigint, p_ranked pgrag_private.ranked_chunk[], p_k integer, p_per_document integer, p_per_source integer, OUT chunks pgrag_private.ranked_chunk[], OUT complete_reason text) returns record
functions | pgrag_private.pinned_settings(boolean) | pgrag_private.pinned_settings(p_volatile boolean) returns TABLE(name text, value text)
functions | pgrag_private.plain_quote(text) | pgrag_private.plain_quote(p_text text) returns text
functions | pgrag_private.purge_retired_spaces() | % returns bigint
functions | pgrag_private.put_embeddings(pgrag_data.revision,pgrag_data.embedding_space,integer,public.vector[]) | pgrag_private.put_embeddings(p_revision pgrag_data.revision, p_space pgrag_data.embedding_space, p_first integer, p_embeddings public.vector[]) returns void
functions | pgrag_private.question_condition(text,text[],text[]) | pgrag_private.question_condition(p_language text, p_phrases text[], p_excluded text[]) returns tsquery
functions | pgrag_private.random_secret() | % returns bytea
functions | pgrag_private.renumber_documents(bigint) | pgrag_private.renumber_documents(p_tenant_id bigint) returns bigint
functions | pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | pgrag_private.retrieve(p_principal pgrag_private.principal, p_search pgrag_private.search_request) returns jsonb
functions | pgrag_private.retrieve_json(pgrag_private.principal,jsonb,integer) | pgrag_private.retrieve_json(p_principal pgrag_private.principal, p_request jsonb, p_default_k integer) returns jsonb
functions | pgrag_private.scope(bigint,bigint,timestamp with time zone,jsonb) | pgrag_private.scope(p_tenant_id bigint, p_reader_id bigint, p_as_of timestamp with time zone, p_filter jsonb) returns bigint[]
functions | pgrag_private.scope_first_limit() | % returns integer
functions | pgrag_private.scope_languages(pgrag_private.scope_part[]) | pgrag_private.scope_languages(p_parts pgrag_private.scope_part[]) returns TABLE(languages text[])
functions | pgrag_private.score(double precision) | pgrag_private.score(p_score double precision) returns numeric
functions | pgrag_private.seal(pgrag_private.principal,jsonb) | pgrag_private.seal(p_principal pgrag_private.principal, p_packet jsonb) returns text
functions | pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | pgrag_private.search_blocks(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[], OUT revisions bigint[], OUT chunks integer[], OUT short_acls bigint[]) returns record
functions | pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | pgrag_private.search_scope(p_tenant_id bigint, p_reader_id bigint, p_search pgrag_private.search_request, p_listed boolean DEFAULT true) returns pgrag_private.search_scope
functions | pgrag_private.similarity(tsvector,tsvector) | pgrag_private.similarity(p_one tsvector, p_other tsvector) returns double precision
functions | pgrag_private.spaced_words(text,text) | pgrag_private.spaced_words(p_language text, p_text text) returns tsvector
functions | pgrag_private.split_joined(text) | pgrag_private.split_joined(p_text text) returns text
functions | pgrag_private.standing_revisions(bigint,bigint) | pgrag_private.standing_revisions(p_tenant_id bigint, p_document_id bigint) returns TABLE(revision_id bigint, activation_id bigint)
functions | pgrag_private.switch_revision(pgrag_private.principal,pgrag_data.document,pgrag_data.revision,text,text,boolean) | pgrag_private.switch_revision(p_principal pgrag_private.principal, p_document pgrag_data.document, p_revision pgrag_data.revision, p_action text, p_expected_active text, p_restore boolean) returns boolean
functions | pgrag_private.text_config(text) | pgrag_private.text_config(p_language text) returns regconfig
functions | pgrag_private.tf_slot() | % returns text
functions | pgrag_private.to_lexemes(text,text) | pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
functions | pgrag_private.transaction_mark() | % returns text
functions | pgrag_private.unspaced_pairs(text) | pgrag_private.unspaced_pairs(p_text text) returns tsvector
functions | pgrag_private.unspaced_run() | % returns text
functions | pgrag_private.utc(timestamp with time zone) | pgrag_private.utc(p_time timestamp with time zone) returns text
functions | pgrag_private.verify_token(text) | pgrag_private.verify_token(p_token text) returns pgrag_private.principal
functions | pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | pgrag_private.visible_revisions(p_tenant_id bigint, p_acls bigint[], p_as_of timestamp with time zone, p_filter jsonb, p_index boolean DEFAULT false) returns TABLE(revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
functions | pgrag_private.visible_row(text,text,boolean) | pgrag_private.visible_row(p_row text, p_scope text, p_counted boolean) returns text
indexes | pgrag_data.acl_entry_acl | CREATE INDEX acl_entry_acl ON pgrag_data.acl_entry USING btree (acl_id, tenant_id)
indexes | pgrag_data.chunk_lex_keys | CREATE INDEX chunk_lex_keys ON pgrag_data.chunk_lex USING gin (pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes))) WITH (fastupdate=off)
indexes | pgrag_data.dense_block_state_key | CREATE UNIQUE INDEX dense_block_state_key ON pgrag_data.dense_block USING btree (tenant_id, space_id, COALESCE(acl_id, (0)::bigint), ((base_id IS NULL)), ((state = 'live'::text))) WHERE (state <> 'retired'::text)
indexes | pgrag_data.document_acl | CREATE INDEX document_acl ON pgrag_data.document USING btree (acl_id, tenant_id, document_id) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.document_active | CREATE INDEX document_active ON pgrag_data.document USING btree (active_revision_id, tenant_id) INCLUDE (acl_id, source_id, active_until) WHERE (deleted_at IS NULL)
indexes | pgrag_data.document_changed | CREATE INDEX document_changed ON pgrag_data.document USING btree (acl_id, tenant_id, changed_xid) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.document_sample | CREATE INDEX document_sample ON pgrag_data.document USING btree (acl_id, tenant_id, hashtext(document)) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.principal_name_key | CREATE UNIQUE INDEX principal_name_key ON pgrag_data.principal USING btree (name, tenant_id) WHERE (dropped_at IS NULL)
indexes | pgrag_data.revision_dated | CREATE INDEX revision_dated ON pgrag_data.revision USING btree (tenant_id, dated) WHERE (dated IS NOT NULL)
indexes | pgrag_data.revision_facets | CREATE INDEX revision_facets ON pgrag_data.revision USING gin (pgrag_private.facet_keys(tenant_id, language, product, version, tags, metadata)) WITH (fastupdate=off)
owners | function pgrag_private.create_block_table(bigint,integer) | alter % owner to pgrag_owner
owners | function pgrag_private.drop_block_table(bigint) | alter % owner to pgrag_owner
owners | function pgrag_private.index_block_table(bigint) | alter % owner to pgrag_owner
owners | schema pgrag | alter % owner to pgrag_owner
owners | schema pgrag_block | alter % owner to pgrag_owner
owners | schema pgrag_data | alter % owner to pgrag_owner
owners | schema pgrag_private | alter % owner to pgrag_owner
owners | table pgrag_data.acl | alter % owner to pgrag_owner
owners | table pgrag_data.acl_entry | alter % owner to pgrag_owner
owners | table pgrag_data.activation | alter % owner to pgrag_owner
owners | table pgrag_data.chunk | alter % owner to pgrag_owner
owners | table pgrag_data.chunk_lex | alter % owner to pgrag_owner
owners | table pgrag_data.chunk_vec | alter % owner to pgrag_owner
owners | table pgrag_data.dense_block | alter % owner to pgrag_owner
owners | table pgrag_data.document | alter % owner to pgrag_owner
owners | table pgrag_data.embedding_space | alter % owner to pgrag_owner
owners | table pgrag_data.membership | alter % owner to pgrag_owner
owners | table pgrag_data.principal | alter % owner to pgrag_owner
owners | table pgrag_data.revision | alter % owner to pgrag_owner
owners | table pgrag_data.revision_source | alter % owner to pgrag_owner
owners | table pgrag_data.revision_space | alter % owner to pgrag_owner
owners | table pgrag_data.scope_total | alter % owner to pgrag_owner
owners | table pgrag_data.search_cost | alter % owner to pgrag_owner
owners | table pgrag_data.source | alter % owner to pgrag_owner
owners | table pgrag_data.tenant | alter % owner to pgrag_owner
owners | table pgrag_private.internal_key | alter % owner to pgrag_owner
owners | table pgrag_private.signing_key | alter % owner to pgrag_owner
owners | type pgrag_private.block_list | alter % owner to pgrag_engine
owners | type pgrag_private.dense_plan | alter % owner to pgrag_engine
owners | type pgrag_private.doctor_finding | alter % owner to pgrag_engine
owners | type pgrag_private.lexical_plan | alter % owner to pgrag_engine
owners | type pgrag_private.principal | alter % owner to pgrag_engine
owners | type pgrag_private.ranked_chunk | alter % owner to pgrag_engine
owners | type pgrag_private.scope_part | alter % owner to pgrag_engine
owners | type pgrag_private.search_request | alter % owner to pgrag_engine
owners | type pgrag_private.search_scope | alter % owner to pgrag_engine
owners | view pgrag.chunks | alter % owner to pgrag_viewer
owners | view pgrag.documents | alter % owner to pgrag_viewer
policies | pgrag_acl_engine on pgrag_data.acl | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_acl_entry_engine on pgrag_data.acl_entry | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_activation_engine on pgrag_data.activation | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_engine on pgrag_data.chunk | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_lex_engine on pgrag_data.chunk_lex | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_select on pgrag_data.chunk | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_chunk_vec_engine on pgrag_data.chunk_vec | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_dense_block_engine on pgrag_data.dense_block | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_document_engine on pgrag_data.document | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_document_select on pgrag_data.document | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (active_revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_embedding_space_engine on pgrag_data.embedding_space | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_internal_key_engine on pgrag_private.internal_key | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_membership_engine on pgrag_data.membership | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_principal_engine on pgrag_data.principal | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_engine on pgrag_data.revision | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_select on pgrag_data.revision | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_revision_source_engine on pgrag_data.revision_source | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_space_engine on pgrag_data.revision_space | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_scope_total_engine on pgrag_data.scope_total | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_search_cost_engine on pgrag_data.search_cost | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_signing_key_engine on pgrag_private.signing_key | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_source_engine on pgrag_data.source | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_source_select on pgrag_data.source | create policy % as permissive for select to pgrag_viewer using ((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)))
policies | pgrag_tenant_engine on pgrag_data.tenant | create policy % as permissive for all to pgrag_engine using (true) with check (true)
privileges | delete on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | delete on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | delete on table pgrag_data.membership to pgrag_engine | grant %
privileges | delete on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | delete on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | execute on function pgrag.activate(text,text,text,boolean,text) to pgrag_admin | grant %
privileges | execute on function pgrag.activate(text,text,text,boolean,text) to pgrag_writer | grant %
privileges | execute on function pgrag.active_space(text) to pgrag_reader | grant %
privileges | execute on function pgrag.active_space(text) to pgrag_writer | grant %
privileges | execute on function pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) to pgrag_writer | grant %
privileges | execute on function pgrag.add_embeddings(text,text,text,integer,public.vector[]) to pgrag_writer | grant %
privileges | execute on function pgrag.add_signing_key(text,bytea,text,text) to pgrag_keys | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_admin | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_auditor | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_browser | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_reader | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_writer | grant %
privileges | execute on function pgrag.build_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.calibrate() to pgrag_operator | grant %
privileges | execute on function pgrag.can_read(text,text,text) to pgrag_reader | grant %
privileges | execute on function pgrag.delete_document(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.delete_document(text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.doctor() to pgrag_operator | grant %
privileges | execute on function pgrag.drop_membership(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.drop_principal(text) to pgrag_admin | grant %
privileges | execute on function pgrag.excerpt(text,timestamp with time zone,text) to pgrag_reader | grant %
privileges | execute on function pgrag.index_status() to pgrag_operator | grant %
privileges | execute on function pgrag.list_documents(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_documents(text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.list_memberships(text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_principals(text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_revisions(text,text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_revisions(text,text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.list_signing_keys() to pgrag_keys | grant %
privileges | execute on function pgrag.list_sources(text) to pgrag_operator | grant %
privileges | execute on function pgrag.list_spaces(text) to pgrag_operator | grant %
privileges | execute on function pgrag.list_tenants() to pgrag_operator | grant %
privileges | execute on function pgrag.maintain(interval) to pgrag_operator | grant %
privileges | execute on function pgrag.missing_embeddings(text,integer,boolean) to pgrag_writer | grant %
privileges | execute on function pgrag.next_space(text) to pgrag_reader | grant %
privileges | execute on function pgrag.next_space(text) to pgrag_writer | grant %
privileges | execute on function pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) to pgrag_reader | grant %
privileges | execute on function pgrag.packet_json(jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.put_membership(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.put_principal(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.put_source(text,text,text[],text) to pgrag_operator | grant %
privileges | execute on function pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.put_tenant(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.retire_signing_key(text) to pgrag_keys | grant %
privileges | execute on function pgrag.retire_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.rollback(text,text,text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.rollback(text,text,text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) to pgrag_reader | grant %
privileges | execute on function pgrag.search_json(jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.set_access(text,text[],text) to pgrag_admin | grant %
privileges | execute on function pgrag.set_access(text,text[],text) to pgrag_writer | grant %
privileges | execute on function pgrag.space_status(text) to pgrag_operator | grant %
privileges | execute on function pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) to pgrag_writer | grant %
privileges | execute on function pgrag.status() to pgrag_admin | grant %
privileges | execute on function pgrag.status() to pgrag_auditor | grant %
privileges | execute on function pgrag.status() to pgrag_browser | grant %
privileges | execute on function pgrag.status() to pgrag_keys | grant %
privileges | execute on function pgrag.status() to pgrag_operator | grant %
privileges | execute on function pgrag.status() to pgrag_reader | grant %
privileges | execute on function pgrag.status() to pgrag_writer | grant %
privileges | execute on function pgrag.switch_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.validate_reply(jsonb,jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.verify_revision(text,text,integer) to pgrag_writer | grant %
privileges | execute on function pgrag.version() to pgrag_admin | grant %
privileges | execute on function pgrag.version() to pgrag_auditor | grant %
privileges | execute on function pgrag.version() to pgrag_browser | grant %
privileges | execute on function pgrag.version() to pgrag_keys | grant %
privileges | execute on function pgrag.version() to pgrag_operator | grant %
privileges | execute on function pgrag.version() to pgrag_reader | grant %
privileges | execute on function pgrag.version() to pgrag_writer | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_admin | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_auditor | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_browser | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_reader | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_writer | grant %
privileges | execute on function pgrag.writer_source(text) to pgrag_writer | grant %
privileges | execute on function pgrag_private.browse_revisions() to pgrag_browser | grant %
privileges | execute on function pgrag_private.browse_tenant() to pgrag_browser | grant %
privileges | execute on function pgrag_private.create_block_table(bigint,integer) to pgrag_engine | grant %
privileges | execute on function pgrag_private.drop_block_table(bigint) to pgrag_engine | grant %
privileges | execute on function pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) to pgrag_owner | grant %
privileges | execute on function pgrag_private.index_block_table(bigint) to pgrag_engine | grant %
privileges | execute on function pgrag_private.lexeme_keys(bigint,text[]) to pgrag_owner | grant %
privileges | insert on table pgrag_data.acl to pgrag_engine | grant %
privileges | insert on table pgrag_data.acl_entry to pgrag_engine | grant %
privileges | insert on table pgrag_data.activation to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk_lex to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | insert on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | insert on table pgrag_data.document to pgrag_engine | grant %
privileges | insert on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | insert on table pgrag_data.membership to pgrag_engine | grant %
privileges | insert on table pgrag_data.principal to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision_source to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | insert on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | insert on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | insert on table pgrag_data.source to pgrag_engine | grant %
privileges | insert on table pgrag_data.tenant to pgrag_engine | grant %
privileges | insert on table pgrag_private.internal_key to pgrag_engine | grant %
privileges | insert on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | select on sequence pgrag_data.acl_acl_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.activation_activation_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.dense_block_block_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.document_document_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.embedding_space_space_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.principal_principal_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.revision_revision_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.scope_total_scope_total_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.source_source_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.tenant_tenant_id_seq to pgrag_engine | grant %
privileges | select on table pgrag.chunks to pgrag_browser | grant %
privileges | select on table pgrag.documents to pgrag_browser | grant %
privileges | select on table pgrag_data.acl to pgrag_engine | grant %
privileges | select on table pgrag_data.acl_entry to pgrag_engine | grant %
privileges | select on table pgrag_data.activation to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk to pgrag_viewer | grant %
privileges | select on table pgrag_data.chunk_lex to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | select on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | select on table pgrag_data.document to pgrag_engine | grant %
privileges | select on table pgrag_data.document to pgrag_viewer | grant %
privileges | select on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | select on table pgrag_data.membership to pgrag_engine | grant %
privileges | select on table pgrag_data.principal to pgrag_engine | grant %
privileges | select on table pgrag_data.revision to pgrag_engine | grant %
privileges | select on table pgrag_data.revision to pgrag_viewer | grant %
privileges | select on table pgrag_data.revision_source to pgrag_engine | grant %
privileges | select on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | select on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | select on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | select on table pgrag_data.source to pgrag_engine | grant %
privileges | select on table pgrag_data.source to pgrag_viewer | grant %
privileges | select on table pgrag_data.tenant to pgrag_engine | grant %
privileges | select on table pgrag_private.internal_key to pgrag_engine | grant %
privileges | select on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | update on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | update on table pgrag_data.document to pgrag_engine | grant %
privileges | update on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | update on table pgrag_data.principal to pgrag_engine | grant %
privileges | update on table pgrag_data.revision to pgrag_engine | grant %
privileges | update on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | update on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | update on table pgrag_data.source to pgrag_engine | grant %
privileges | update on table pgrag_data.tenant to pgrag_engine | grant %
privileges | update on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | usage on schema pgrag to pgrag_admin | grant %
privileges | usage on schema pgrag to pgrag_auditor | grant %
privileges | usage on schema pgrag to pgrag_browser | grant %
privileges | usage on schema pgrag to pgrag_engine | grant %
privileges | usage on schema pgrag to pgrag_keys | grant %
privileges | usage on schema pgrag to pgrag_operator | grant %
privileges | usage on schema pgrag to pgrag_reader | grant %
privileges | usage on schema pgrag to pgrag_viewer | grant %
privileges | usage on schema pgrag to pgrag_writer | grant %
privileges | usage on schema pgrag_block to pgrag_engine | grant %
privileges | usage on schema pgrag_data to pgrag_engine | grant %
privileges | usage on schema pgrag_data to pgrag_viewer | grant %
privileges | usage on schema pgrag_private to pgrag_engine | grant %
privileges | usage on schema pgrag_private to pgrag_viewer | grant %
row_security | pgrag_data.acl | alter table % enable row level security
row_security | pgrag_data.acl | alter table % force row level security
row_security | pgrag_data.acl_entry | alter table % enable row level security
row_security | pgrag_data.acl_entry | alter table % force row level security
row_security | pgrag_data.activation | alter table % enable row level security
row_security | pgrag_data.activation | alter table % force row level security
row_security | pgrag_data.chunk | alter table % enable row level security
row_security | pgrag_data.chunk | alter table % force row level security
row_security | pgrag_data.chunk_lex | alter table % enable row level security
row_security | pgrag_data.chunk_lex | alter table % force row level security
row_security | pgrag_data.chunk_vec | alter table % enable row level security
row_security | pgrag_data.chunk_vec | alter table % force row level security
row_security | pgrag_data.dense_block | alter table % enable row level security
row_security | pgrag_data.dense_block | alter table % force row level security
row_security | pgrag_data.document | alter table % enable row level security
row_security | pgrag_data.document | alter table % force row level security
row_security | pgrag_data.embedding_space | alter table % enable row level security
row_security | pgrag_data.embedding_space | alter table % force row level security
row_security | pgrag_data.membership | alter table % enable row level security
row_security | pgrag_data.membership | alter table % force row level security
row_security | pgrag_data.principal | alter table % enable row level security
row_security | pgrag_data.principal | alter table % force row level security
row_security | pgrag_data.revision | alter table % enable row level security
row_security | pgrag_data.revision | alter table % force row level security
row_security | pgrag_data.revision_source | alter table % enable row level security
row_security | pgrag_data.revision_source | alter table % force row level security
row_security | pgrag_data.revision_space | alter table % enable row level security
row_security | pgrag_data.revision_space | alter table % force row level security
row_security | pgrag_data.scope_total | alter table % enable row level security
row_security | pgrag_data.scope_total | alter table % force row level security
row_security | pgrag_data.search_cost | alter table % enable row level security
row_security | pgrag_data.search_cost | alter table % force row level security
row_security | pgrag_data.source | alter table % enable row level security
row_security | pgrag_data.source | alter table % force row level security
row_security | pgrag_data.tenant | alter table % enable row level security
row_security | pgrag_data.tenant | alter table % force row level security
row_security | pgrag_private.internal_key | alter table % enable row level security
row_security | pgrag_private.internal_key | alter table % force row level security
row_security | pgrag_private.signing_key | alter table % enable row level security
row_security | pgrag_private.signing_key | alter table % force row level security
search_path | search_path of pgrag_private.catalog() | alter function pgrag_private.catalog() set search_path to pg_catalog, pg_temp
search_path | search_path of pgrag_private.expected_catalog() | alter function pgrag_private.expected_catalog() set search_path to pg_catalog, pg_temp
search_path | search_path of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set search_path to pg_catalog, pg_temp
tables | acl_entry_acl_fkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | acl_entry_pkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_pkey PRIMARY KEY (tenant_id, principal_id, acl_id)
tables | acl_entry_principal_fkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_principal_fkey FOREIGN KEY (tenant_id, principal_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | acl_fingerprint_key on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_fingerprint_key UNIQUE (fingerprint, tenant_id)
tables | acl_pkey on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_pkey PRIMARY KEY (tenant_id, acl_id)
tables | acl_tenant_id_fkey on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | activation_action_check on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_action_check CHECK ((action = ANY (ARRAY['activate'::text, 'rollback'::text])))
tables | activation_pkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_pkey PRIMARY KEY (tenant_id, document_id, activation_id)
tables | activation_replaced_fkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_replaced_fkey FOREIGN KEY (tenant_id, document_id, replaced_revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | activation_revision_fkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_revision_fkey FOREIGN KEY (tenant_id, document_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | chunk_chunk_id_key on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_chunk_id_key UNIQUE (chunk_id, tenant_id)
tables | chunk_lex_chunk_fkey on pgrag_data.chunk_lex | alter table pgrag_data.chunk_lex add constraint chunk_lex_chunk_fkey FOREIGN KEY (tenant_id, revision_id, chunk_no) REFERENCES pgrag_data.chunk(tenant_id, revision_id, chunk_no)
tables | chunk_lex_pkey on pgrag_data.chunk_lex | alter table pgrag_data.chunk_lex add constraint chunk_lex_pkey PRIMARY KEY (tenant_id, revision_id, chunk_no)
tables | chunk_pkey on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_pkey PRIMARY KEY (tenant_id, revision_id, chunk_no) INCLUDE (chunk_id)
tables | chunk_revision_fkey on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | chunk_span_check on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_span_check CHECK (((0 <= span_start) AND (span_start < span_end)))
tables | chunk_vec_chunk_fkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_chunk_fkey FOREIGN KEY (tenant_id, revision_id, chunk_no) REFERENCES pgrag_data.chunk(tenant_id, revision_id, chunk_no)
tables | chunk_vec_pkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_pkey PRIMARY KEY (tenant_id, space_id, revision_id, chunk_no)
tables | chunk_vec_space_fkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | chunk_vec_storage_check on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_storage_check CHECK ((num_nonnulls(embedding, half) = 1))
tables | dense_block_acl_fkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | dense_block_pkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_pkey PRIMARY KEY (tenant_id, block_id)
tables | dense_block_space_fkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | dense_block_state_check on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_state_check CHECK ((state = ANY (ARRAY['copying'::text, 'indexing'::text, 'live'::text, 'retired'::text])))
tables | document_acl_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | document_active_revision_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_active_revision_fkey FOREIGN KEY (tenant_id, document_id, active_revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | document_document_key on pgrag_data.document | alter table pgrag_data.document add constraint document_document_key UNIQUE (source_id, document, tenant_id)
tables | document_pkey on pgrag_data.document | alter table pgrag_data.document add constraint document_pkey PRIMARY KEY (tenant_id, document_id)
tables | document_source_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_source_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES pgrag_data.source(tenant_id, source_id)
tables | embedding_space_dimension_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_dimension_check CHECK (((dimension >= 1) AND (dimension <= CASE storage WHEN 'half'::text THEN 4000 ELSE 2000 END)))
tables | embedding_space_metric_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_metric_check CHECK ((metric = 'cosine'::text))
tables | embedding_space_normalisation_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_normalisation_check CHECK ((normalisation = ANY (ARRAY['unit'::text, 'none'::text])))
tables | embedding_space_pkey on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_pkey PRIMARY KEY (tenant_id, space_id)
tables | embedding_space_space_key on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_space_key UNIQUE (space, tenant_id)
tables | embedding_space_storage_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_storage_check CHECK ((storage = ANY (ARRAY['float'::text, 'half'::text])))
tables | embedding_space_tenant_id_fkey on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | embedding_space_zero_vectors_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_zero_vectors_check CHECK ((zero_vectors = ANY (ARRAY['refuse'::text, 'skip'::text])))
tables | internal_key_pkey on pgrag_private.internal_key | alter table pgrag_private.internal_key add constraint internal_key_pkey PRIMARY KEY (purpose)
tables | internal_key_purpose_check on pgrag_private.internal_key | alter table pgrag_private.internal_key add constraint internal_key_purpose_check CHECK ((purpose = ANY (ARRAY['session'::text, 'seal'::text])))
tables | membership_group_fkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_group_fkey FOREIGN KEY (tenant_id, group_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | membership_member_fkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_member_fkey FOREIGN KEY (tenant_id, member_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | membership_pkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_pkey PRIMARY KEY (tenant_id, member_id, group_id)
tables | pgrag_data.acl | columns acl_id bigint not null, fingerprint bytea not null, tenant_id bigint not null
tables | pgrag_data.acl_entry | columns acl_id bigint not null, principal_id bigint not null, tenant_id bigint not null
tables | pgrag_data.activation | columns action text not null, activation_id bigint not null, document_id bigint not null, recorded_at timestamp with time zone not null, replaced_revision_id bigint, revision_id bigint not null, subject text not null, tenant_id bigint not null
tables | pgrag_data.chunk | columns chunk_id bytea not null, chunk_no integer not null, language text not null, page integer, revision_id bigint not null, section text not null, span_end integer not null, span_start integer not null, tenant_id bigint not null, text text not null, token_count integer not null
tables | pgrag_data.chunk_lex | columns chunk_no integer not null, language text not null, length integer not null, lexemes tsvector not null, revision_id bigint not null, tenant_id bigint not null
tables | pgrag_data.chunk_vec | columns chunk_no integer not null, embedding public.vector, half public.halfvec, revision_id bigint not null, space_id bigint not null, tenant_id bigint not null
tables | pgrag_data.dense_block | columns acl_id bigint, base_id bigint, block_id bigint not null, copied_to bigint not null, created_at timestamp with time zone not null, live_at timestamp with time zone, retired_at timestamp with time zone, snapshot pg_snapshot not null, space_id bigint not null, state text not null, system_identifier bigint not null, table_oid oid, tenant_id bigint not null, vectors bigint not null
tables | pgrag_data.document | columns acl_id bigint not null, active_revision_id bigint, active_until timestamp with time zone, changed_xid xid8 not null, created_at timestamp with time zone not null, deleted_at timestamp with time zone, document text not null, document_id bigint not null, source_id bigint not null, tenant_id bigint not null
tables | pgrag_data.embedding_space | columns created_at timestamp with time zone not null, dimension integer not null, document_prefix text not null, metric text not null, model text not null, model_revision text not null, normalisation text not null, preprocessing text not null, query_prefix text not null, retired_at timestamp with time zone, space text not null, space_id bigint not null, storage text not null, tenant_id bigint not null, zero_vectors text not null
tables | pgrag_data.membership | columns created_at timestamp with time zone not null, group_id bigint not null, member_id bigint not null, tenant_id bigint not null
tables | pgrag_data.principal | columns created_at timestamp with time zone not null, dropped_at timestamp with time zone, kind text not null, name text not null, principal_id bigint not null, tenant_id bigint not null
tables | pgrag_data.revision | columns chunk_count integer not null, chunker text not null, content_hash bytea not null, created_at timestamp with time zone not null, dated date, document_id bigint not null, effective_from timestamp with time zone not null, effective_to timestamp with time zone not null, language text not null, languages text[] not null, lexeme_count bigint not null, metadata jsonb not null, parser text not null, product text, revision text not null, revision_id bigint not null, skips int4range[] not null, space_id bigint, state text not null, tags text[] not null, tenant_id bigint not null, title text not null, token_count bigint not null, tokenizer text not null, verified_at timestamp with time zone, version text
tables | pgrag_data.revision_source | columns body text not null, revision_id bigint not null, tenant_id bigint not null
tables | pgrag_data.revision_space | columns completed_at timestamp with time zone not null, revision_id bigint not null, space_id bigint not null, tenant_id bigint not null
tables | pgrag_data.scope_total | columns acl_id bigint not null, chunks bigint not null, documents bigint not null, languages text[] not null, lexemes bigint not null, scope_total_id bigint not null, source_id bigint not null, tenant_id bigint not null, until timestamp with time zone not null
tables | pgrag_data.search_cost | columns measured_at timestamp with time zone, microseconds double precision not null, part text not null
tables | pgrag_data.source | columns created_at timestamp with time zone not null, processors text[] not null, source text not null, source_id bigint not null, tenant_id bigint not null, trust text not null
tables | pgrag_data.tenant | columns active_space_id bigint, created_at timestamp with time zone not null, name text not null, next_space_id bigint, tenant text not null, tenant_id bigint not null
tables | pgrag_private.internal_key | columns inner_pad bytea not null, outer_pad bytea not null, purpose text not null
tables | pgrag_private.signing_key | columns audience text not null, created_at timestamp with time zone not null, inner_pad bytea not null, issuer text not null, kid text not null, outer_pad bytea not null, retired_at timestamp with time zone
tables | principal_kind_check on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'service'::text, 'group'::text, 'everyone'::text])))
tables | principal_pkey on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_pkey PRIMARY KEY (tenant_id, principal_id)
tables | principal_tenant_id_fkey on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | revision_document_fkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_document_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES pgrag_data.document(tenant_id, document_id)
tables | revision_document_key on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_document_key UNIQUE (document_id, revision_id, tenant_id)
tables | revision_effective_check on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_effective_check CHECK ((effective_from < effective_to))
tables | revision_pkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_pkey PRIMARY KEY (tenant_id, revision_id)
tables | revision_revision_key on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_revision_key UNIQUE (document_id, revision, tenant_id)
tables | revision_source_pkey on pgrag_data.revision_source | alter table pgrag_data.revision_source add constraint revision_source_pkey PRIMARY KEY (tenant_id, revision_id)
tables | revision_source_revision_fkey on pgrag_data.revision_source | alter table pgrag_data.revision_source add constraint revision_source_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | revision_space_fkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | revision_space_pkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_pkey PRIMARY KEY (tenant_id, revision_id, space_id)
tables | revision_space_revision_fkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | revision_space_space_fkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | revision_state_check on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_state_check CHECK ((state = ANY (ARRAY['staged'::text, 'verified'::text])))
tables | scope_total_acl_fkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | scope_total_pkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_pkey PRIMARY KEY (tenant_id, acl_id, scope_total_id)
tables | scope_total_source_fkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_source_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES pgrag_data.source(tenant_id, source_id)
tables | search_cost_microseconds_check on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_microseconds_check CHECK (((microseconds > (0)::double precision) AND (microseconds < 'Infinity'::double precision)))
tables | search_cost_part_check on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_part_check CHECK ((part = ANY (ARRAY['document'::text, 'vector'::text, 'block'::text])))
tables | search_cost_pkey on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_pkey PRIMARY KEY (part)
tables | signing_key_pkey on pgrag_private.signing_key | alter table pgrag_private.signing_key add constraint signing_key_pkey PRIMARY KEY (kid)
tables | source_pkey on pgrag_data.source | alter table pgrag_data.source add constraint source_pkey PRIMARY KEY (tenant_id, source_id)
tables | source_source_key on pgrag_data.source | alter table pgrag_data.source add constraint source_source_key UNIQUE (source, tenant_id)
tables | source_tenant_id_fkey on pgrag_data.source | alter table pgrag_data.source add constraint source_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | source_trust_check on pgrag_data.source | alter table pgrag_data.source add constraint source_trust_check CHECK ((trust = ANY (ARRAY['untrusted'::text, 'external'::text, 'internal'::text, 'authoritative'::text])))
tables | tenant_active_space_fkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_active_space_fkey FOREIGN KEY (tenant_id, active_space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | tenant_next_space_fkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_next_space_fkey FOREIGN KEY (tenant_id, next_space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | tenant_pkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_pkey PRIMARY KEY (tenant_id)
tables | tenant_tenant_key on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_tenant_key UNIQUE (tenant)
views | pgrag.chunks | create or replace view % with (security_barrier=true) as  SELECT encode(c.chunk_id, 'hex'::text) AS chunk_id, s.source, d.document, r.revision, c.chunk_no, c.section, c.page, c.language, c.span_start, c.span_end, c.token_count AS tokens, c.text FROM (((pgrag_data.document d JOIN pgrag_data.source s ON (((s.tenant_id = d.tenant_id) AND (s.source_id = d.source_id)))) JOIN pgrag_data.revision r ON (((r.tenant_id = d.tenant_id) AND (r.revision_id = d.active_revision_id)))) JOIN pgrag_data.chunk c ON (((c.tenant_id = r.tenant_id) AND (c.revision_id = r.revision_id)))) OFFSET 0;
views | pgrag.documents | create or replace view % with (security_barrier=true) as  SELECT s.source, d.document, r.revision, r.title, r.language, r.product, r.version, r.tags, r.dated, NULLIF(r.effective_from, '-infinity'::timestamp with time zone) AS effective_from, NULLIF(r.effective_to, 'infinity'::timestamp with time zone) AS effective_to, s.trust, r.chunk_count AS chunks, r.created_at AS ingested_at, r.metadata FROM ((pgrag_data.document d JOIN pgrag_data.source s ON (((s.tenant_id = d.tenant_id) AND (s.source_id = d.source_id)))) JOIN pgrag_data.revision r ON (((r.tenant_id = d.tenant_id) AND (r.revision_id = d.active_revision_id)))) OFFSET 0;
$objects$, e'\n') as t (line)
   cross join lateral (select regexp_match(t.line, '^(\S+) \| (.+?) \| (.+)$')) as l (part)
   where t.line <> ''
$$;

-- sql/functions/private/catalog.sql

-- What pgrag.doctor() compares: what there is in pgrag's schemas, where it can be as statements that would make it so, and what
-- there should be (expected_objects.sql, made of a new installation). What is expected and not there is repaired by its statement; what
-- is there and not expected, by `undo`; null: it harms nobody. The settings are for the same words in every session.
create or replace function pgrag_private.catalog()
returns table (check_name text, object text, item text, undo text)
language sql stable parallel restricted rows 2000
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set IntervalStyle = iso_8601 set DateStyle = 'ISO, YMD' as $$
  with schemas as (
    select n.oid, n.nspname, n.nspowner, n.nspacl from pg_namespace n where n.nspname in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block')
  ), relations as (
    select c.*, c.oid::regclass::text as name,
           case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end as kind
      from pg_class c where c.relnamespace in (select oid from schemas) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  ), tables as (
    select * from relations where kind in ('table', 'foreign table', 'materialized view')
  ), functions as (
    select p.*, p.oid::regprocedure::text as name from pg_proc p where p.pronamespace in (select oid from schemas)
  ), types as (
    select t.*, t.oid::regtype::text as name
      from pg_type t left join pg_class c on c.oid = t.typrelid
     where t.typnamespace in (select oid from schemas) and t.typelem = 0 and (t.typtype <> 'c' or c.relkind = 'c')
  )
  select 'row_security', t.name, format('alter table %s %s row level security', t.name, w.word), null::text
    from tables t cross join lateral (values ('enable', t.relrowsecurity), ('force', t.relforcerowsecurity)) as w (word, is_so)
   where w.is_so
  union all
  select 'policies', format('%I on %s', p.polname, t.name),
         format('create policy %I on %s as %s for %s to %s', p.polname, t.name, case when p.polpermissive then 'permissive' else 'restrictive' end,
                case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
                (select string_agg(case r.oid when 0 then 'public' else r.oid::regrole::text end, ', ' order by r.oid::regrole::text) from unnest(p.polroles) as r (oid)))
           || coalesce(' using (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
           || coalesce(' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''),
         format('drop policy %I on %s', p.polname, t.name)
    from pg_policy p join tables t on t.oid = p.polrelid
  union all
  -- The right of one role, of one object, and the right to pass it on; an owner's own are not looked at.
  select distinct case when a.grantee = 0 and o.kind = 'function' then 'public_execute' else 'privileges' end,
         format('%s%s on %s %s to %s', p.passing, lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee),
         format('grant %s on %s %s to %s%s', lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee, case when p.passing <> '' then ' with grant option' end),
         format('revoke %s%s on %s %s from %s cascade', p.passing, lower(a.privilege_type) || o.columns, o.kind, o.name, g.grantee)
    from (select 'schema' as kind, quote_ident(s.nspname) as name, '' as columns, s.nspowner as owner, s.nspacl as acl from schemas s
          union all
          select case when r.kind = 'sequence' then 'sequence' else 'table' end, r.name, '', r.relowner, r.relacl from relations r
          union all
          select 'table', r.name, format(' (%I)', c.attname), r.relowner, c.attacl from pg_attribute c join relations r on r.oid = c.attrelid where c.attacl is not null
          union all
          select 'function', f.name, '', f.proowner, coalesce(f.proacl, acldefault('f', f.proowner)) from functions f
          union all
          select 'type', t.name, '', t.typowner, coalesce(t.typacl, acldefault('T', t.typowner)) from types t) o
   cross join lateral aclexplode(o.acl) a
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   cross join (values (''), ('grant option for ')) as p (passing)
   where a.grantee <> o.owner and (p.passing = '' or a.is_grantable)
  union all
  select 'owners', o.kind || ' ' || o.name, format('alter %s %s owner to %s', o.kind, o.name, o.owner::regrole), null
    from (select 'schema' as kind, quote_ident(s.nspname) as name, s.nspowner as owner from schemas s
          union all
          select r.kind, r.name, r.relowner from relations r where r.kind <> 'sequence' -- which belong to their tables
          union all
          select 'function', f.name, f.proowner from functions f
          union all
          select 'type', t.name, t.typowner from types t) o
  union all
  select 'functions', f.name, format('%s(%s) returns %s', f.oid::regproc, pg_get_function_arguments(f.oid), pg_get_function_result(f.oid)),
         format('drop routine %s', f.name)
    from functions f
  union all
  select 'function_attributes', f.name,
         format('alter function %s %s parallel %s%s%s%s', f.name, case f.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
                case f.proparallel when 's' then 'safe' when 'r' then 'restricted' else 'unsafe' end,
                case when f.proisstrict then ' strict' else '' end, case when f.proleakproof then ' leakproof' else '' end, -- none of pgrag's is
                case when f.prosecdef then ' security definer' else ' security invoker' end),
         null
    from functions f
  union all
  select case s.name when 'search_path' then 'search_path' else 'function_settings' end, s.name || ' of ' || f.name,
         format('alter function %s set %s to %s', f.name, s.name, case s.name when 'search_path' then s.value else quote_literal(s.value) end),
         format('alter function %s reset %s', f.name, s.name)
    from functions f
   cross join lateral unnest(f.proconfig) as c (setting)
   cross join lateral (select split_part(c.setting, '=', 1) as name, substr(c.setting, strpos(c.setting, '=') + 1) as value) s
  union all
  select 'tables', t.name,
         'columns ' || (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) || case when a.attnotnull then ' not null' else '' end,
                                          ', ' order by a.attname)
                          from pg_attribute a where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped),
         case when t.name !~ '^pgrag_block\.b[0-9]+$' then format('alter %s %s set schema public', t.kind, t.name) end
    from tables t
  union all
  select 'tables', format('%s on %s', c.conname, t.name),
         format('alter table %s add constraint %I %s', t.name, c.conname, regexp_replace(pg_get_constraintdef(c.oid), '\s+', ' ', 'g')), null
    from pg_constraint c join tables t on t.oid = c.conrelid where c.contype in ('p', 'u', 'f', 'c', 'x')
  union all
  select 'triggers', format('%I on %s', g.tgname, t.name), format('trigger %I on %s', g.tgname, t.name), format('drop trigger %I on %s', g.tgname, t.name)
    from pg_trigger g join relations t on t.oid = g.tgrelid where not g.tgisinternal
  union all
  select 'triggers', format('%I on %s', r.rulename, t.name), format('rule %I on %s', r.rulename, t.name), format('drop rule %I on %s', r.rulename, t.name)
    from pg_rewrite r join relations t on t.oid = r.ev_class where r.rulename <> '_RETURN'
  union all
  select 'views', v.name,
         format('create or replace view %s%s as %s', v.name, coalesce(' with (' || array_to_string(v.reloptions, ', ') || ')', ''),
                regexp_replace(pg_get_viewdef(v.oid), '\s+', ' ', 'g')),
         format('drop view %s', v.name)
    from relations v where v.kind = 'view'
  union all
  select 'indexes', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), null
    from pg_index i join tables t on t.oid = i.indrelid
   where not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u', 'x'))
  union all
  -- What is made next is born without rights of PUBLIC, only where its maker's default says so.
  select 'default_privileges', format('%s of %s', k.things, r.rolname),
         format('alter default privileges for role %I revoke all on %s from public', r.rolname, k.things), null
    from pg_roles r
   cross join (values ('f', 'functions'), ('T', 'types')) as k (kind, things)
   where r.rolname in ('pgrag_owner', 'pgrag_engine')
     and exists (select from pg_default_acl d where d.defaclrole = r.oid and d.defaclnamespace = 0 and d.defaclobjtype = k.kind::"char"
                    and not exists (select from aclexplode(d.defaclacl) a where a.grantee = 0))
  union all
  select distinct 'default_privileges', format('%s of %s to %s', k.things, d.defaclrole::regrole, g.grantee),
         format('default privileges of %s on %s to %s', d.defaclrole::regrole, k.things, g.grantee),
         format('alter default privileges for role %s%s revoke all on %s from %s', d.defaclrole::regrole,
                case when d.defaclnamespace <> 0 then ' in schema ' || d.defaclnamespace::regnamespace else '' end,
                k.things, g.grantee)
    from pg_default_acl d
   cross join lateral aclexplode(d.defaclacl) a
   cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types'
                                else 'schemas' end as things) k
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   where (d.defaclnamespace in (select oid from schemas)
          or d.defaclrole in (select r.oid from pg_roles r where r.rolname in ('pgrag_owner', 'pgrag_engine', 'pgrag_viewer')))
     and a.grantee <> d.defaclrole
$$;

-- What should be there. Three things are the same for many objects and so not in expected_objects(): the engine owns functions;
-- definer functions are pinned; and tables of blocks, which come and go, are alike.
create or replace function pgrag_private.expected_catalog() returns table (check_name text, object text, item text)
language sql stable parallel restricted rows 3000
set search_path = pg_catalog, pg_temp as $$
  with listed as materialized (
    select e.* from pgrag_private.expected_objects() e
  ), blocks as (
    select c.oid::regclass::text as name from pg_class c where c.relnamespace = to_regnamespace('pgrag_block') and c.relkind = 'r' and c.relname ~ '^b[0-9]+$'
  )
  select l.* from listed l
  union all
  select 'owners', 'function ' || f.object, format('alter function %s owner to pgrag_engine', f.object)
    from listed f where f.check_name = 'functions' and not exists (select from listed o where o.check_name = 'owners' and o.object = 'function ' || f.object)
  union all
  select case s.name when 'search_path' then 'search_path' else 'function_settings' end, s.name || ' of ' || f.object,
         format('alter function %s set %s to %s', f.object, s.name, case s.name when 'search_path' then s.value else quote_literal(s.value) end)
    from listed f
   cross join lateral (select p.* from pgrag_private.pinned_settings(f.item ~ ' volatile parallel ') p
                       union all select 'search_path', 'pg_catalog, pg_temp') as s (name, value)
   where f.check_name = 'function_attributes' and f.item ~ ' security definer$'
  union all
  select e.check_name, replace(e.object, '%', b.name), replace(e.item, '%', b.name)
    from blocks b
   cross join (values
     ('row_security', '%', 'alter table % enable row level security'),
     ('row_security', '%', 'alter table % force row level security'),
     ('policies', 'pgrag_block_engine on %', 'create policy pgrag_block_engine on % as permissive for all to pgrag_engine using (true) with check (true)'),
     ('privileges', 'select on table % to pgrag_engine', 'grant select on table % to pgrag_engine'),
     ('privileges', 'insert on table % to pgrag_engine', 'grant insert on table % to pgrag_engine'),
     ('owners', 'table %', 'alter table % owner to pgrag_owner')) as e (check_name, object, item)
$$;

-- What the functions do: their text, or a digest of it.
create or replace function pgrag_private.function_bodies() returns table (function text, body text)
language sql stable parallel restricted rows 200
set search_path = pg_catalog, pg_temp set quote_all_identifiers = off set IntervalStyle = iso_8601 set DateStyle = 'ISO, YMD' as $$
  select p.oid::regprocedure::text,
         case when p.prosqlbody is null then md5(p.prosrc)
              else format('%s %s', current_setting('server_version_num')::integer / 10000, md5(pg_get_function_sqlbody(p.oid))) end
    from pg_proc p
   where p.pronamespace in (to_regnamespace('pgrag'), to_regnamespace('pgrag_private')) and p.proname <> 'installed_bodies'
$$;

-- The same at the end of the installation, or of an upgrade: made by 98_settings.sql.
create or replace function pgrag_private.installed_bodies() returns jsonb
language sql immutable parallel safe
return null::jsonb;

-- sql/functions/private/doctor_checks.sql

-- What pgrag.doctor() looks at, in order, and what it says where all is well. Of objects: how bad a difference is, and what
-- is said of one that is missing or another (wanting), and of one that is not pgrag's (beside).
create or replace function pgrag_private.doctor_checks()
returns table (place integer, check_name text, severity text, wanting text, beside text, well text)
language sql immutable parallel safe rows 30
begin atomic
  select c.*
    from (values
      (1,  'row_security', 'error', 'row-level security is not enabled, or not forced', '', 'row-level security is enabled and forced on every table'),
      (2,  'policies', 'error', 'the policy is missing, or another', 'the policy is none of pgrag''s', 'the policies are pgrag''s, and no others'),
      (3,  'privileges', 'error', 'the privilege is missing', 'the privilege is none that pgrag gives', 'privileges on pgrag''s objects are those that pgrag gives'),
      (4,  'public_execute', 'error', '', 'PUBLIC may call the function', 'PUBLIC may call nothing'),
      (5,  'owners', 'error', 'the owner is another', '', 'every object has its owner'),
      (6,  'functions', 'error', 'the function is missing, or declared otherwise', 'the function is none of pgrag''s', 'functions are pgrag''s'),
      (7,  'function_attributes', 'error', 'the function is marked otherwise', '', 'functions are marked as they must be'),
      (8,  'function_bodies', 'error', 'the function does something else than what was installed', '', 'functions do what was installed'),
      (9,  'search_path', 'error', 'the search_path of the function is not pinned', 'the function has a search_path', 'functions have their search_path'),
      (10, 'function_settings', 'error', 'the function lacks the setting, or has another', 'the setting is none of pgrag''s', 'functions have their settings'),
      (11, 'tables', 'error', 'the table or constraint is missing, or another', 'the table is none of pgrag''s', 'tables have their columns and constraints'),
      (12, 'triggers', 'error', '', 'pgrag has no triggers and rules', 'no table has a trigger or a rule'),
      (13, 'views', 'error', 'the view is missing, or another', 'the view is none of pgrag''s', 'the views are pgrag''s'),
      (14, 'default_privileges', 'error', 'what it makes next would be open to PUBLIC', 'what it makes next would have it', 'what is made next is closed to PUBLIC'),
      (15, 'indexes', 'warning', 'the index is missing, or another', '', 'indexes are there and valid'),
      (16, 'roles', '', '', '', 'pgrag''s roles have no attribute and no membership'),
      (17, 'trusted_roles', '', '', '', 'nobody may become the owner, the engine or the viewer'),
      (18, 'application_roles', '', '', '', 'application roles have functions and nothing else'),
      (19, 'temporary', '', '', '', 'application roles may not create temporary objects'),
      (20, 'create', '', '', '', 'application roles may not create objects'),
      (21, 'server_version', '', '', '', 'the version of PostgreSQL is a supported one'),
      (22, 'vector', '', '', '', 'pgvector is there, in a supported version'),
      (23, 'pgrag_version', '', '', '', 'the installation is of one version'),
      (24, 'server_settings', '', '', '', 'the server''s settings do not hinder'),
      (25, 'signing_keys', '', '', '', 'there are signing keys, and none is old'),
      (26, 'internal_keys', '', '', '', 'the internal keys are there'),
      (27, 'statistics', '', '', '', 'statistics are fresh'),
      (28, 'ledger', '', '', '', 'the ledger agrees with the documents'),
      (29, 'spaces', '', '', '', 'documents in force are in the active spaces, and retired spaces are empty'),
      (30, 'search_cost', '', '', '', 'costs of searches were measured here, or do not matter yet'),
      (31, 'blocks', '', '', '', 'blocks are there where they pay, and fresh'),
      (32, 'recall', '', '', '', 'blocks find what comparing everything finds')
    ) as c (place, check_name, severity, wanting, beside, well);
end;

-- sql/functions/private/doctor_catalog.sql

-- Objects: what is expected and not there, and what is there and not expected. Where an object is gone, that is said of it and
-- nothing else.
create or replace function pgrag_private.doctor_catalog() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 100 as $$
begin
  return query
  with there as materialized (
    select c.* from pgrag_private.catalog() c
  ), expected as materialized (
    select e.* from pgrag_private.expected_catalog() e
  ), wanting as (
    select e.* from expected e where not exists (select from there t where t.check_name = e.check_name and t.item = e.item and t.object = e.object)
  ), beside as (
    select t.* from there t
     where t.undo is not null
       and not exists (select from expected e where e.check_name = t.check_name and e.item = t.item and e.object = t.object)
       and not exists (select from wanting w where w.check_name = t.check_name and w.object = t.object)
  ), gone as (
    select w.object from wanting w
     where w.check_name = 'functions' and to_regprocedure(w.object) is null
        or w.check_name in ('tables', 'views') and w.item !~ '^alter table' and to_regclass(w.object) is null
  )
  select c.check_name, c.severity, w.object,
         case c.check_name when 'row_security' then format('row-level security is not %s', case when w.item ~ ' force ' then 'forced' else 'enabled' end)
                           when 'owners' then format('the owner is not %s', substring(w.item from '\S+$'))
                           else c.wanting end,
         case when c.check_name = 'functions' then format('Take it from dist/pgrag--%s.sql (pgrag sql prints it), and run that as pgrag_engine', pgrag.version())
              when c.check_name = 'function_attributes' then format('%s called on null input not leakproof;', w.item)
              when c.check_name = 'policies' then format('drop policy if exists %s; %s;', w.object, w.item)
              when c.check_name = 'indexes' then format('drop index if exists %s; %s;', w.object, w.item)
              when c.check_name = 'tables' and w.item ~ '^columns ' then format('Bring it back from a backup, or by hand; it must have the %s', w.item)
              when c.check_name = 'tables' then
                replace(w.item, ' add constraint ', format(' drop constraint if exists %s, add constraint ', split_part(w.object, ' on ', 1))) || ';'
              else w.item || ';' end
    from wanting w join pgrag_private.doctor_checks() c on c.check_name = w.check_name
   where not exists (select from gone g where g.object <> w.object and strpos(format(' %s ', w.object), format(' %s ', g.object)) > 0)
     and not exists (select from gone g where g.object = w.object and w.check_name not in ('functions', 'tables', 'views'))
  union all
  select c.check_name, c.severity, b.object, c.beside, b.undo || ';'
    from beside b join pgrag_private.doctor_checks() c on c.check_name = b.check_name
  union all
  select c.check_name, c.severity, b.function, c.wanting,
         format('Take it from dist/pgrag--%s.sql (pgrag sql prints it), and run that as pgrag_engine', pgrag.version())
    from pgrag_private.function_bodies() b
    join pgrag_private.doctor_checks() c on c.check_name = 'function_bodies'
   where b.body <> pgrag_private.installed_bodies() ->> b.function
     -- Of another major version, a text that PostgreSQL made: it may say the same.
     and split_part(b.body, ' ', 1) = case when strpos(b.body, ' ') > 0 then split_part(pgrag_private.installed_bodies() ->> b.function, ' ', 1) else b.body end
  union all
  select c.check_name, 'error', i.indexrelid::regclass::text, 'the index is not valid: no search uses it', format('reindex index %s;', i.indexrelid::regclass)
    from pg_index i
    join pg_class t on t.oid = i.indrelid
    join pgrag_private.doctor_checks() c on c.check_name = 'indexes'
   where t.relnamespace::regnamespace::text in ('pgrag_data', 'pgrag_private', 'pgrag_block') and not (i.indisvalid and i.indisready);
end
$$;

-- sql/functions/private/doctor_access.sql

-- Roles, and what they may do in the database beside pgrag. An application role is one of the seven that functions are granted to,
-- or one that has such a role or may take it.
create or replace function pgrag_private.doctor_access() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 20 as $$
declare
  trusted constant text[] := array['pgrag_owner', 'pgrag_engine', 'pgrag_viewer'];
  groups  constant text[] := array['pgrag_reader', 'pgrag_writer', 'pgrag_admin', 'pgrag_auditor', 'pgrag_operator', 'pgrag_keys', 'pgrag_browser'];
  v_applications oid[];
  v_reached      oid[]; -- these, and every role whose rights one of them has or may take; a superuser has all, which is said once
begin
  with recursive application (oid) as (
    select r.oid from pg_roles r where r.rolname = any (groups)
    union
    select m.member from application a join pg_auth_members m on m.roleid = a.oid where m.inherit_option or m.set_option
  )
  select array_agg(a.oid) into v_applications from application a;
  select array_agg(r.oid) into v_reached
    from pg_roles r
   where r.oid = any (v_applications)
      or exists (select from unnest(v_applications) as u (oid) join pg_roles a on a.oid = u.oid
                  where not a.rolsuper and (pg_has_role(a.oid, r.oid, 'usage') or pg_has_role(a.oid, r.oid, 'set')));

  return query
  select 'roles', 'error', n.name, 'the role is missing', format('create role %I nologin noinherit;', n.name)
    from unnest(trusted || groups) as n (name) where not exists (select from pg_roles r where r.rolname = n.name)
  union all
  select 'roles', 'error', r.rolname::text, 'the role can log in, or has an attribute',
         format('alter role %I nologin nosuperuser nobypassrls nocreaterole nocreatedb noreplication noinherit;', r.rolname)
    from pg_roles r
   where r.rolname = any (trusted || groups)
     and (r.rolcanlogin or r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolinherit)
  union all
  select 'roles', 'error', m.member::regrole::text, format('the role is a member of %s', m.roleid::regrole),
         format('revoke %s from %s granted by %s;', m.roleid::regrole, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m join pg_roles r on r.oid = m.member where r.rolname = any (trusted || groups)
  union all
  select 'trusted_roles', case when m.member = any (v_reached) then 'error' when m.inherit_option then 'warning' else 'note' end, m.member::regrole::text,
         case when m.member = any (v_reached) then format('an application may act as %s', r.rolname)
              when m.inherit_option then format('the role has the rights of %s all the time', r.rolname)
              else format('the role may become %s: right for one that installs or backs up', r.rolname) end,
         format('revoke %s from %s granted by %s;', r.rolname, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m
    join pg_roles r on r.oid = m.roleid
   where r.rolname = any (trusted) and (m.inherit_option or m.set_option) and m.member::regrole::text <> all (trusted || groups)
  union all
  select 'application_roles', case when r.rolsuper or r.rolbypassrls or r.rolreplication then 'error' else 'warning' end, r.rolname::text,
         case when r.rolsuper then 'an application role is a superuser, who is above all rules'
              when r.rolbypassrls then 'an application role is above row-level security'
              when r.rolreplication then 'an application role may copy the whole server'
              else 'an application role may create roles or databases' end,
         format('alter role %I nosuperuser nobypassrls nocreaterole nocreatedb noreplication;', r.rolname)
    from pg_roles r
   where r.oid = any (v_applications) and r.rolname <> all (groups)
     and (r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolcreatedb or r.rolreplication)
  union all
  select 'application_roles', 'error', m.member::regrole::text, format('an application role has %s', m.roleid::regrole),
         format('revoke %s from %s granted by %s;', m.roleid::regrole, m.member::regrole, m.grantor::regrole)
    from pg_auth_members m
   where m.roleid::regrole::text in ('pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files',
                                     'pg_execute_server_program', 'pg_maintain', 'pg_create_subscription')
     and m.member = any (v_reached)
  union all
  select case a.privilege_type when 'TEMPORARY' then 'temporary' else 'create' end, 'error', format('%s to %s', o.object, g.grantee),
         case when a.grantee = o.owner then format('an application role owns the %s', o.object)
              when a.privilege_type = 'TEMPORARY' then 'temporary objects may be created: names that other code might find first'
              else 'an application role may create objects' end,
         case when a.grantee = o.owner then format('alter %s owner to …, a role that no application has', o.object)
              else format('revoke %s on %s from %s;', lower(a.privilege_type), o.object, g.grantee) end
    from (select format('database %I', d.datname) as object, d.datdba as owner, coalesce(d.datacl, acldefault('d', d.datdba)) as acl
            from pg_database d where d.datname = current_database()
          union all
          select format('schema %I', n.nspname), n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
            from pg_namespace n where n.nspname !~ '^(pg_temp_|pg_toast)' and n.nspname not in ('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block')) o
   cross join lateral aclexplode(o.acl) a
   cross join lateral (select case a.grantee when 0 then 'public' else a.grantee::regrole::text end as grantee) g
   where a.privilege_type in ('TEMPORARY', 'CREATE') and (a.grantee = 0 or a.grantee = any (v_reached))
     and not (a.grantee = o.owner and a.privilege_type = 'TEMPORARY'); -- said once
end
$$;

-- sql/functions/private/doctor_server.sql

-- The server, the extension, the version, and keys: how many and how old, not which; operators do not learn their names.
create or replace function pgrag_private.doctor_server() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
declare
  v_server integer := current_setting('server_version_num');
  v_vector integer[];
  v_text   text;
begin
  if v_server < 160000 or v_server >= 190000 then
    return query select 'server_version', 'warning', 'PostgreSQL ' || current_setting('server_version'),
      'pgrag is made for PostgreSQL 16, 17 and 18', 'Use one of these';
  elsif v_server < 160016 or v_server between 170000 and 170011 or v_server between 180000 and 180006 then
    return query select 'server_version', 'warning', 'PostgreSQL ' || current_setting('server_version'),
      'the version lacks a correction of row-level security, whose hole needs privileges on tables', 'Update to 16.16, 17.12 or 18.7';
  end if;

  select string_to_array(substring(e.extversion from '^[0-9.]+'), '.')::integer[], e.extversion into v_vector, v_text from pg_extension e where e.extname = 'vector';
  if v_vector < array[0, 8, 4] then
    return query select 'vector', 'error', 'vector ' || v_text, 'the version of pgvector is older than 0.8.4',
      'Update the pgvector package, and then: alter extension vector update';
  end if;
  if not has_schema_privilege('public', 'usage') then
    return query select 'vector', 'error', 'schema public', 'the schema of pgvector is closed to pgrag', 'grant usage on schema public to public;';
  else
    v_text := (select string_agg(v.version_num, ', ') from public.pgrag_alembic_version v);
    if v_text is distinct from pgrag.version() then
      return query select 'pgrag_version', 'error', 'public.pgrag_alembic_version',
        format('the stamp says %s and the functions say %s', coalesce(v_text, 'nothing'), pgrag.version()),
        'Run the upgrade to its end, or bring the database back from a backup';
    end if;
  end if;

  return query
  select 'server_settings', 'warning', s.name, s.says, format('alter system reset %s; select pg_reload_conf();', s.name)
    from (values ('autovacuum', 'autovacuum is off: statistics and dead rows are left to you'),
                 ('track_counts', 'nothing counts changes: whether statistics are stale cannot be seen')) as s (name, says)
   where current_setting(s.name) = 'off';

  return query
  select 'signing_keys', f.severity, null::text, f.finding, f.remedy
    from (select count(*) as valid,
                 count(*) filter (where k.created_at < clock_timestamp() - interval '365 days') as old,
                 count(*) filter (where k.created_at < clock_timestamp() - interval '90 days') as older
            from pgrag_private.signing_key k where k.retired_at is null) k
   cross join lateral (values
     (k.valid = 0, 'error', 'there is no signing key: every token is refused', 'As a role of pgrag_keys: pgrag.add_signing_key'),
     (k.old > 0, 'warning', format('%s of %s keys are older than 365 days', k.old, k.valid),
      'As a role of pgrag_keys: pgrag.add_signing_key, mint with it, then pgrag.retire_signing_key'),
     (k.old = 0 and k.older > 0, 'note', format('%s of %s keys are older than 90 days', k.older, k.valid),
      'As a role of pgrag_keys: pgrag.add_signing_key, mint with it, then pgrag.retire_signing_key')) as f (is_so, severity, finding, remedy)
   where f.is_so;
  return query
  select 'internal_keys', 'error', p.purpose, case p.purpose when 'session' then 'nobody can authenticate' else 'no packet can be made or validated' end,
         'As a superuser: psql -X -1 -v ON_ERROR_STOP=1 -c "delete from pgrag_private.internal_key" -f sql/97_internal_keys.sql'
    from (values ('session'), ('seal')) as p (purpose)
   where not exists (select from pgrag_private.internal_key k where k.purpose = p.purpose);
end
$$;

-- sql/functions/private/doctor_data.sql

-- What the ledger of a tenant lacks: the rows to add to it so that it agrees with the documents in force.
create or replace function pgrag_private.ledger_gaps(p_tenant_id bigint)
returns table (tenant_id bigint, acl_id bigint, source_id bigint, languages text[], until timestamptz, documents bigint, chunks bigint, lexemes bigint)
language sql stable parallel restricted rows 10
begin atomic
  select p_tenant_id, x.acl_id, x.source_id, x.languages, x.until, sum(x.documents)::bigint, sum(x.chunks)::bigint, sum(x.lexemes)::bigint
    from (select d.acl_id, d.source_id, r.languages, r.effective_to as until, 1::bigint as documents, r.chunk_count::bigint as chunks, r.lexeme_count as lexemes
            from pgrag_data.document d
            join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
           where d.tenant_id = p_tenant_id and d.deleted_at is null
          union all
          select t.acl_id, t.source_id, t.languages, t.until, -t.documents, -t.chunks, -t.lexemes
            from pgrag_data.scope_total t where t.tenant_id = p_tenant_id) x
   where x.until > transaction_timestamp()
   group by x.acl_id, x.source_id, x.languages, x.until
  having sum(x.documents) <> 0 or sum(x.chunks) <> 0 or sum(x.lexemes) <> 0;
end;

-- Documents, spaces, costs and statistics.
create or replace function pgrag_private.doctor_data() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
begin
  if pg_is_in_recovery() then
    return query select 'statistics', 'note', null::text, 'a standby does not know when its tables were analysed', 'Ask the primary';
  else
    return query
    select 'statistics', 'warning', s.relid::regclass::text,
           case when f.never then 'the table was never analysed' else 'much of the table has changed since it was analysed' end, format('analyze %s;', s.relid::regclass)
      from pg_stat_all_tables s
     cross join lateral (select s.last_analyze is null and s.last_autoanalyze is null as never) f
     where s.schemaname = 'pgrag_data' and (f.never and s.n_live_tup >= 1000 or s.n_mod_since_analyze > 1000 + s.n_live_tup / 4)
    union all
    select 'statistics', 'warning', s.relid::regclass::text,
           format('%s rows are dead, beside %s', s.n_dead_tup, s.n_live_tup), format('vacuum analyze %s;', s.relid::regclass)
      from pg_stat_all_tables s
     where s.schemaname = 'pgrag_data' and s.n_dead_tup > 1000 + s.n_live_tup / 2;
  end if;

  return query
  select 'ledger', 'error', format('tenant %s', t.tenant), format('%s sums of the ledger do not agree with the documents', count(*)),
         format('insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes) '
                'select g.* from pgrag_private.ledger_gaps(%s) g;', t.tenant_id)
    from pgrag_data.tenant t cross join lateral pgrag_private.ledger_gaps(t.tenant_id) g
   group by t.tenant_id, t.tenant;

  return query
  select 'spaces', 'warning', format('tenant %s, space %s', t.tenant, s.space),
         format('%s documents in force have no embeddings in the active space: dense search does not find them', m.missing),
         'As the connector of each source: pgrag space fill --active (pgrag.missing_embeddings, pgrag.add_embeddings)'
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.active_space_id
   cross join lateral pgrag_private.missing_in_space(t.tenant_id, s.space_id) as m (missing)
   where m.missing > 0
  union all
  select 'spaces', 'note', format('tenant %s, space %s', t.tenant, s.space),
         format('%s documents in force are to be filled in before the space can be switched to', m.missing),
         'As the connector of each source: pgrag space fill (pgrag.missing_embeddings, pgrag.add_embeddings)'
    from pgrag_data.tenant t
    join pgrag_data.embedding_space s on s.tenant_id = t.tenant_id and s.space_id = t.next_space_id
   cross join lateral pgrag_private.missing_in_space(t.tenant_id, s.space_id) as m (missing)
   where m.missing > 0
  union all
  select 'spaces', case when s.retired_at < clock_timestamp() - interval '1 day' then 'warning' else 'note' end, format('tenant %s, space %s', t.tenant, s.space),
         'the space is retired, and its embeddings are not deleted yet', pgrag_private.call_maintain()
    from pgrag_data.embedding_space s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
   where s.retired_at is not null and exists (select from pgrag_data.chunk_vec v where v.tenant_id = s.tenant_id and v.space_id = s.space_id);

  return query
  select 'search_cost', 'error', p.part, 'the cost of this part of a search is not known', 'As pgrag_engine, run sql/96_search_cost.sql'
    from (values ('document'), ('vector'), ('block')) as p (part) where not exists (select from pgrag_data.search_cost c where c.part = p.part)
  union all
  select 'search_cost', 'note', null, 'which way searches go is decided by costs that were not measured on this machine', 'select * from pgrag.calibrate();'
   where not exists (select from pgrag_data.search_cost c where c.measured_at is not null)
     and exists (select from pgrag_data.scope_total t where t.until > transaction_timestamp() group by t.tenant_id having sum(t.chunks) >= 1000);
end
$$;

create or replace function pgrag_private.call_maintain() returns text
language sql immutable parallel safe
return 'Call pgrag.maintain() until nothing remains (pgrag maintain does), and see that something does so regularly';

-- sql/functions/private/doctor_blocks.sql

-- Of the ten nearest vectors, the share that a search of the block for a hundred candidates finds: a few of its vectors as questions,
-- against comparing all. What is as near as the tenth counts as found. Null: there is nothing to ask with.
create or replace function pgrag_private.block_recall(p_block pgrag_data.dense_block, p_questions integer) returns double precision
language plpgsql stable parallel restricted as $$
declare
  v_scope    pgrag_private.search_scope;
  v_plan     pgrag_private.dense_plan;
  v_exact    pgrag_private.dense_plan;
  v_snapshot pg_snapshot;
  v_query    public.vector;
  v_near     double precision[];
  v_found    bigint := 0;
  v_all      bigint := 0;
begin
  v_scope.tenant_id := p_block.tenant_id;
  v_scope.acls := case when p_block.acl_id is not null then array[p_block.acl_id]
                       else array(select a.acl_id from pgrag_data.acl a where a.tenant_id = p_block.tenant_id order by a.acl_id) end;
  v_exact.route := 'exact';
  v_exact.exact_acls := v_scope.acls;
  select array_agg(b.block_id order by b.block_id), array_agg(b.vectors order by b.block_id), array_agg(coalesce(b.acl_id, 0)),
         (array_agg(b.snapshot order by b.block_id desc))[1]
    into v_plan.blocks, v_plan.vectors, v_plan.lists, v_snapshot
    from pgrag_data.dense_block b
   where b.tenant_id = p_block.tenant_id and (b.block_id = p_block.block_id or b.base_id = p_block.block_id) and b.state = 'live'
     and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid;
  v_plan.route := case when p_block.acl_id is null then 'tenant_block' else 'class_blocks' end;
  v_plan.exact_acls := '{}';
  v_plan.block_acls := v_scope.acls;
  v_plan.snapshots := array_fill(v_snapshot, array[cardinality(v_scope.acls)]);
  v_plan.requested := 100;
  for v_query in
    -- Whole pages at random, of some thousand vectors, and of these some.
    execute format('select coalesce(v.embedding, v.half::public.vector)
                      from (select b.revision_id, b.chunk_no from pgrag_block.%I b tablesample system (%s) order by random() limit $3) b
                      join pgrag_data.chunk_vec v on v.tenant_id = $1 and v.space_id = $2 and v.revision_id = b.revision_id and v.chunk_no = b.chunk_no
                     where coalesce(public.vector_norm(v.embedding), public.l2_norm(v.half)) > 0',
                   'b' || p_block.block_id, least(100, 500000.0 / greatest(p_block.vectors, 1)))
      using p_block.tenant_id, p_block.space_id, p_questions
  loop
    v_near := array(select l.cosine from pgrag_private.dense_lane(v_scope, v_exact, p_block.space_id, v_query, 10, null, null) l);
    v_all := v_all + cardinality(v_near);
    v_found := v_found + (select count(*) from (select l.cosine from pgrag_private.dense_lane(v_scope, v_plan, p_block.space_id, v_query, 100, null, null) l limit 10) l
                           where l.cosine >= v_near[cardinality(v_near)] - 1e-6);
  end loop;
  return v_found::double precision / nullif(v_all, 0);
end
$$;

-- Blocks: where one pays and is not, how stale they are, tables that are nobody's, and what some of them find.
create or replace function pgrag_private.doctor_blocks() returns setof pgrag_private.doctor_finding
language plpgsql stable parallel restricted rows 10 as $$
declare
  v_system    bigint := (select c.system_identifier from pg_control_system() c);
  v_block     record;
  v_most      record;
  v_questions integer;
  v_recall    double precision;
  v_left      bigint := 2000000; -- vectors to compare, so that it takes seconds: other blocks have their turn another time
begin
  return query
  select 'blocks', f.severity, format('tenant %s, space %s, %s', t.tenant, e.space, coalesce('list ' || s.acl_id, 'all lists')), f.finding, pgrag_private.call_maintain()
    from pgrag_private.block_state() s
    join pgrag_data.tenant t on t.tenant_id = s.tenant_id
    join pgrag_data.embedding_space e on e.tenant_id = s.tenant_id and e.space_id = s.space_id
   cross join lateral (values
     (s.active and s.block_id is null and not s.building and pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id),
      case when s.chunks > 4 * s.enough then 'warning' else 'note' end, format('%s vectors are compared one by one: a block would pay', s.chunks)),
     (s.loose > greatest(s.chunks / 8, s.enough), case when s.loose > s.chunks / 4 then 'warning' else 'note' end,
      format('%s of %s vectors are loose: compared one by one, beside the block', s.loose, s.chunks)),
     (s.retired > s.vectors / 4, case when s.retired > s.vectors / 2 then 'warning' else 'note' end,
      format('%s of %s vectors in the block are retired', s.retired, s.vectors + coalesce(s.delta_vectors, 0)))) as f (is_so, severity, finding)
   where f.is_so
  union all
  select 'blocks', 'warning', format('block %s', b.block_id),
         case when b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is not null
              then 'the block was built in another system and serves nobody' else 'the block has no table and serves nobody' end,
         pgrag_private.call_maintain()
    from pgrag_data.dense_block b
   where b.state <> 'retired' and (b.system_identifier <> v_system or to_regclass('pgrag_block.b' || b.block_id) is distinct from b.table_oid)
  union all
  select 'blocks', 'warning', format('block %s', b.block_id),
         case when b.state = 'retired' then 'the block was replaced long ago and is still there' else 'the block was begun long ago and is not finished' end,
         pgrag_private.call_maintain()
    from pgrag_data.dense_block b
   where b.state in ('copying', 'indexing') and b.created_at < clock_timestamp() - interval '1 day'
      or b.state = 'retired' and b.retired_at between timestamptz '2000-01-01' and clock_timestamp() - interval '1 day'
  union all
  select 'blocks', 'warning', c.oid::regclass::text, 'the table is no block''s', format('drop table %s;', c.oid::regclass)
    from pg_class c
   where c.relnamespace = to_regnamespace('pgrag_block') and c.relkind = 'r' and c.relname ~ '^b[0-9]+$'
     and not exists (select from pgrag_data.dense_block b where 'b' || b.block_id = c.relname)
  union all
  select 'indexes', 'error', format('pgrag_block.b%s', b.block_id), 'the block has no index',
         format('create index %I on pgrag_block.%I using hnsw (embedding public.halfvec_cosine_ops) with (m = 16, ef_construction = 100);',
                'b' || b.block_id || '_embedding', 'b' || b.block_id)
    from pgrag_data.dense_block b
   where b.state = 'live' and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
     and not exists (select from pg_index i where i.indrelid = to_regclass('pgrag_block.b' || b.block_id));

  -- The largest index that maintenance may have to build.
  select s.chunks * (2 * s.dimension + 700) as bytes, s.chunks into v_most
    from pgrag_private.block_state() s
   where pgrag_private.deserves_block(s.chunks, s.largest, s.enough, s.acl_id)
   order by 1 desc limit 1;
  if v_most.bytes > pg_size_bytes(current_setting('maintenance_work_mem')) then
    return query select 'server_settings', 'note', 'maintenance_work_mem',
      format('the largest block, of %s vectors, is built on disk: that takes longer', v_most.chunks),
      format('pgrag maintain --memory %sMB, or set it for the role that calls pgrag.maintain()', v_most.bytes / 1048576 + 1);
  end if;

  for v_block in
    select b as row, t.tenant, e.space
      from pgrag_data.dense_block b
      join pgrag_data.tenant t on t.tenant_id = b.tenant_id
      join pgrag_data.embedding_space e on e.tenant_id = b.tenant_id and e.space_id = b.space_id
     where b.state = 'live' and b.base_id is null and b.system_identifier = v_system and to_regclass('pgrag_block.b' || b.block_id) = b.table_oid
       and exists (select from pg_index i where i.indrelid = to_regclass('pgrag_block.b' || b.block_id) and i.indisvalid)
     order by random()
  loop
    exit when v_left <= 0;
    v_questions := case when (v_block.row).vectors > 100000 then 5 else 10 end;
    v_left := v_left - v_questions * (v_block.row).vectors;
    v_recall := pgrag_private.block_recall(v_block.row, v_questions);
    if v_recall < 0.95 then
      return query select 'recall', 'warning', format('tenant %s, space %s, %s', v_block.tenant, v_block.space, coalesce('list ' || (v_block.row).acl_id, 'all lists')),
        format('of what is nearest, a search of the block finds %s %% in a sample', round(100 * v_recall)),
        format('update pgrag_data.dense_block set state = ''retired'', retired_at = clock_timestamp() where block_id = %s; select * from pgrag.maintain();',
               (v_block.row).block_id);
    end if;
  end loop;
end
$$;

-- sql/functions/doctor.sql

-- Checks this installation: each fault with its remedy, which is SQL where it ends with a semicolon, to be run by a superuser, or as the
-- owner of the object. It changes nothing, and tells nothing of any content: names of tenants, spaces, roles and objects, and numbers.
-- Takes a fraction of a second and, for a million documents or vectors, some seconds.
--
--   error     a promise of pgrag's is not kept, or rests on luck
--   warning   something is worse than it should be, or soon will be
--   note      worth knowing
--   ok        a check that found nothing
create or replace function pgrag.doctor() returns table (check_name text, severity text, object text, finding text, remedy text)
language plpgsql stable parallel restricted security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  v_part  text;
  v_some  pgrag_private.doctor_finding[];
  v_found pgrag_private.doctor_finding[] := '{}';
begin
  foreach v_part in array array['catalog', 'access', 'server', 'data', 'blocks'] loop
    begin -- where something is broken, the rest is checked all the same
      execute format('select array_agg(f) from pgrag_private.%I() f', 'doctor_' || v_part) into v_some;
      v_found := v_found || v_some;
    exception when others then
      v_found := v_found || (v_part, 'error', null, format('this part could not be checked: %s (%s)', sqlerrm, sqlstate),
                             'Repair what else is found, and look again')::pgrag_private.doctor_finding;
    end;
  end loop;
  return query
  select f.check_name, f.severity, f.object, f.finding, f.remedy
    from (select u.*, c.place from unnest(v_found) u left join pgrag_private.doctor_checks() c on c.check_name = u.check_name
          union all
          select c.check_name, 'ok', null, c.well, null, c.place
            from pgrag_private.doctor_checks() c where not exists (select from unnest(v_found) u where u.check_name = c.check_name)) f
   order by array_position(array['error', 'warning', 'note', 'ok'], f.severity), f.place, f.object collate "C", f.finding collate "C";
end
$$;

comment on function pgrag.doctor is 'Checks the installation: security, versions, keys, indexes, statistics, blocks; each fault with its remedy.';
revoke all on function pgrag.doctor from public;

-- sql/96_search_cost.sql

-- Costs of one machine, until pgrag.calibrate() measures those of this one.
insert into pgrag_data.search_cost (part, microseconds) values ('document', 2), ('vector', 1), ('block', 1500)
  on conflict on constraint search_cost_pkey do nothing;

-- sql/98_settings.sql

-- pgrag_private.pinned_settings() for every definer function.
do $$
declare
  v_owner    text;
  v_function regprocedure;
  v_settings text;
begin
  for v_owner, v_function, v_settings in
    select p.proowner::regrole::text, p.oid,
           (select string_agg(format(' set %I = %L', s.name, s.value), '') from pgrag_private.pinned_settings(p.provolatile = 'v') s)
      from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.prosecdef
       and p.proowner in ('pgrag_engine'::regrole, 'pgrag_owner'::regrole)
  loop
    execute 'set local role ' || v_owner;
    execute format('alter function %s', v_function) || v_settings;
  end loop;
  set local role pgrag_engine;
end
$$;

-- What every function does, as it was installed: pgrag.doctor() compares. Those whose text PostgreSQL keeps are as it was sent, and
-- those whose meaning it keeps as it says it: which another major version may say otherwise, so that is kept too.
do $$
begin
  execute format('create or replace function pgrag_private.installed_bodies() returns jsonb language sql immutable parallel safe return %L::jsonb',
                 (select jsonb_object_agg(b.function, b.body) from pgrag_private.function_bodies() b));
end
$$;

set local role pgrag_engine;

-- migrations/sql/0.3.0.rows.sql

-- 0.2.0 to 0.3.0: rows that were there, with the new functions there to call. It runs as pgrag_engine, which sees every row.

update pgrag_data.document d set active_until = r.effective_to
  from pgrag_data.revision r
 where r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id;

-- The ledger begins with what is in force.
insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
select d.tenant_id, d.acl_id, d.source_id, r.languages, r.effective_to, count(*), sum(r.chunk_count), sum(r.lexeme_count)
  from pgrag_data.document d
  join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
 where d.deleted_at is null
 group by 1, 2, 3, 4, 5;

-- Verified with embeddings: complete in their space.
insert into pgrag_data.revision_space (tenant_id, revision_id, space_id, completed_at)
select r.tenant_id, r.revision_id, r.space_id, r.verified_at
  from pgrag_data.revision r
 where r.state = 'verified' and r.space_id is not null;

set local role pgrag_owner;

-- sql/indexes.sql

-- Indexes over functions, which have to be there first. On a large database they are built before the upgrade, beside the
-- work of others: migrations/sql/*.prepare.sql.

-- Where a lexeme of a tenant is. It finds candidates for the lexical lane in large scopes; fastupdate off, so that what a
-- search costs does not depend on how long ago somebody wrote.
create index if not exists chunk_lex_keys on pgrag_data.chunk_lex
  using gin (pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes))) with (fastupdate = off);

-- What revisions can be filtered by, for readers who may see so many that looking at each would be slow.
create index if not exists revision_facets on pgrag_data.revision
  using gin (pgrag_private.facet_keys(tenant_id, language, product, version, tags, metadata)) with (fastupdate = off);
create index if not exists revision_dated on pgrag_data.revision (tenant_id, dated) where dated is not null;

-- sql/policies/viewer.sql

-- What pgrag_viewer, the owner of the browsing views, may see: the scope of the session's principal. The
-- sub-selects make each an InitPlan, computed once a statement and not once a row.
create policy pgrag_source_select on pgrag_data.source for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant()));
create policy pgrag_revision_select on pgrag_data.revision for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));
create policy pgrag_document_select on pgrag_data.document for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and active_revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));
create policy pgrag_chunk_select on pgrag_data.chunk for select to pgrag_viewer
  using (tenant_id = (select pgrag_private.browse_tenant())
         and revision_id = any ((select pgrag_private.browse_revisions())::bigint[]));

grant select on pgrag_data.source, pgrag_data.revision, pgrag_data.document, pgrag_data.chunk to pgrag_viewer;

set local role pgrag_viewer;

-- sql/views/documents.sql

-- For ad-hoc reading by pgrag_browser, after pgrag.authenticate in the same transaction. OFFSET 0 keeps the caller's
-- own conditions behind the policies, leakproof ones too: a look-up by name would touch hidden rows, which can be counted.
create or replace view pgrag.documents with (security_barrier) as
  select s.source, d.document, r.revision, r.title, r.language, r.product, r.version, r.tags, r.dated,
         nullif(r.effective_from, '-infinity') as effective_from, nullif(r.effective_to, 'infinity') as effective_to,
         s.trust, r.chunk_count as chunks, r.created_at as ingested_at, r.metadata
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
  offset 0;

comment on view pgrag.documents is 'The documents that the authenticated reader may see, each in its active revision.';

-- sql/views/chunks.sql

-- As pgrag.documents, OFFSET 0 included; one row for each chunk.
create or replace view pgrag.chunks with (security_barrier) as
  select encode(c.chunk_id, 'hex') as chunk_id, s.source, d.document, r.revision, c.chunk_no, c.section, c.page,
         c.language, c.span_start, c.span_end, c.token_count as tokens, c.text
    from pgrag_data.document d
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
    join pgrag_data.chunk c on c.tenant_id = r.tenant_id and c.revision_id = r.revision_id
  offset 0;

comment on view pgrag.chunks is 'The passages of the documents that the authenticated reader may see.';

reset role;

-- sql/upgrade/stamp.sql

-- Alembic's stamp, moved on. Alembic does this itself: a migration runs every part but this one.
update public.pgrag_alembic_version set version_num = current_setting('pgrag.upgrade_to');

-- sql/99_grants.sql

-- Who may call what. Until here nobody may call anything: what is new is born so (01_schemas.sql), and an upgrade
-- began by taking every privilege back. A grant that is not below does not exist.
set local role pgrag_engine;

-- Everyone with a token.
grant execute on function
  pgrag.authenticate(text), pgrag.whoami(text), pgrag.version(), pgrag.status()
  to pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_browser;
grant execute on function pgrag.version(), pgrag.status() to pgrag_operator, pgrag_keys;

-- Readers.
grant execute on function
  pgrag.search(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision, text,
               text[], public.vector[], integer, integer, text, text, text[], text),
  pgrag.search_json(jsonb, text),
  pgrag.packet(text, integer, text, public.vector, text, text, timestamptz, jsonb, integer, double precision,
               integer, text, integer, boolean, text,
               text[], public.vector[], integer, integer, text, text, text[], text),
  pgrag.packet_json(jsonb, text),
  pgrag.validate_reply(jsonb, jsonb, text),
  pgrag.excerpt(text, timestamptz, text),
  pgrag.can_read(text, text, text),
  pgrag.active_space(text), pgrag.next_space(text)
  to pgrag_reader;

-- Connectors: their own source, by their token.
grant execute on function
  pgrag.writer_source(text),
  pgrag.active_space(text), pgrag.next_space(text),
  pgrag.add_embeddings(text, text, text, integer, public.vector[]), pgrag.missing_embeddings(text, integer, boolean),
  pgrag.stage_revision(text, text, text, text, text, text, text, text[], date, timestamptz, timestamptz,
                       text, text, text, text, int4range[], jsonb),
  pgrag.add_chunks(text, text, integer, text[], integer[], integer[], integer[], text[], integer[], text[], public.vector[]),
  pgrag.verify_revision(text, text, integer),
  pgrag.list_documents(text, text), pgrag.list_revisions(text, text, text),
  pgrag.set_access(text, text[], text), pgrag.activate(text, text, text, boolean, text),
  pgrag.rollback(text, text, text, text), pgrag.delete_document(text, text)
  to pgrag_writer;

-- Administrators of one tenant: who is in it, who may read what, what is in force.
grant execute on function
  pgrag.put_principal(text, text), pgrag.drop_principal(text),
  pgrag.put_membership(text, text), pgrag.drop_membership(text, text),
  pgrag.list_principals(text), pgrag.list_memberships(text),
  pgrag.list_documents(text, text), pgrag.list_revisions(text, text, text),
  pgrag.set_access(text, text[], text), pgrag.activate(text, text, text, boolean, text),
  pgrag.rollback(text, text, text, text), pgrag.delete_document(text, text)
  to pgrag_admin;

-- Operators set up tenants, sources and spaces, without a token, and read no content.
grant execute on function
  pgrag.put_tenant(text, text), pgrag.put_source(text, text, text[], text),
  pgrag.put_space(text, text, text, text, integer, text, text, text, text, text, text, text),
  pgrag.list_tenants(), pgrag.list_sources(text), pgrag.list_spaces(text), pgrag.build_space(text, text), pgrag.switch_space(text, text), pgrag.retire_space(text, text),
  pgrag.space_status(text),
  pgrag.maintain(interval), pgrag.calibrate(), pgrag.index_status(), pgrag.doctor()
  to pgrag_operator;

-- Whoever can add a key can mint anyone.
grant execute on function
  pgrag.add_signing_key(text, bytea, text, text), pgrag.retire_signing_key(text), pgrag.list_signing_keys()
  to pgrag_keys;

-- A policy's functions are called with the rights of whoever queries the view.
grant execute on function pgrag_private.browse_revisions(), pgrag_private.browse_tenant() to pgrag_browser;

set local role pgrag_viewer;
revoke all on pgrag.documents, pgrag.chunks
  from public, pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_operator, pgrag_keys, pgrag_browser;
grant select on pgrag.documents, pgrag.chunks to pgrag_browser;

set local role pgrag_owner;
revoke all on schema pgrag, pgrag_data, pgrag_private, pgrag_block from public;
-- Maintenance makes, indexes and drops the tables of blocks as their owner.
grant execute on function pgrag_private.create_block_table(bigint, integer), pgrag_private.index_block_table(bigint),
  pgrag_private.drop_block_table(bigint) to pgrag_engine;
grant usage on schema pgrag to pgrag_reader, pgrag_writer, pgrag_admin, pgrag_auditor, pgrag_operator, pgrag_keys, pgrag_browser;
revoke create on schema pgrag from pgrag_engine, pgrag_viewer;
revoke create on schema pgrag_private from pgrag_engine;
reset role;

-- For pg_dump --role=pgrag_engine, which reads every table of the database.
grant select on public.pgrag_alembic_version to pgrag_engine;

-- The installer gives back what it took: from here on it cannot act as the engine or the owner.
do $$
begin
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('revoke pgrag_owner, pgrag_engine, pgrag_viewer from %I granted by %I', current_user, current_user);
  end if;
end
$$;
release savepoint pgrag_install; -- noqa: PRS
reset default_transaction_read_only;
