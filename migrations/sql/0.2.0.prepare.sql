-- Before 0.1.0 becomes 0.2.0, on a large database: the index that the upgrade would build while everybody waits, built
-- beside the work of others. It may be left out, and it can be repeated, also after a failure. As the role that installed
-- pgrag, or a superuser, outside of a transaction:
--
--   psql -X -v ON_ERROR_STOP=1 -f pgrag--0.1.0--0.2.0.prepare.sql

set search_path = pg_catalog, pg_temp;
do $$
declare
  v_found text;
begin
  if to_regclass('public.pgrag_alembic_version') is null or to_regnamespace('pgrag_private') is null then
    raise exception using errcode = 'RG109', message = 'pgrag is not in this database', hint = 'Connect to the database that has it.';
  end if;
  select string_agg(version_num, ', ') into v_found from public.pgrag_alembic_version;
  if v_found is distinct from '0.1.0' then
    raise exception using errcode = 'RG111',
      message = format('this database has pgrag %s, and this script prepares 0.1.0 for 0.2.0', coalesce(v_found, 'without a version')),
      hint = 'Run the scripts dist/pgrag--<from>--<to>.sql that lead to the version that you want, in order.';
  end if;
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('grant pgrag_owner, pgrag_engine to %I with inherit false, set true', current_user);
  end if;
exception when insufficient_privilege then
  raise exception using errcode = 'RG104', message = format('role %I did not install pgrag, and may not prepare its upgrade', current_user),
    hint = 'Prepare as the role that installed it, or as a superuser.';
end
$$;

-- What the index is made of. Until the upgrade nothing else uses it.
set role pgrag_owner;
grant create on schema pgrag_private to pgrag_engine;
set role pgrag_engine;
create or replace function pgrag_private.lexeme_keys(p_tenant_id bigint, p_lexemes text[]) returns bigint[]
language sql immutable parallel safe cost 10000
return array(select hashtextextended(encode(sha256(convert_to(lexeme, 'UTF8')), 'hex') collate "C", p_tenant_id) from unnest(p_lexemes) as l (lexeme));
grant execute on function pgrag_private.lexeme_keys to pgrag_owner; -- who builds the index
set role pgrag_owner;
revoke create on schema pgrag_private from pgrag_engine;

-- One that was not built to the end is of no use.
do $$
begin
  if exists (select from pg_index i where i.indexrelid = to_regclass('pgrag_data.chunk_lex_keys') and not i.indisvalid) then
    drop index pgrag_data.chunk_lex_keys;
  end if;
end
$$;
create index concurrently if not exists chunk_lex_keys on pgrag_data.chunk_lex
  using gin (pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes))) with (fastupdate = off);

reset role;
do $$
begin
  if not (select rolsuper from pg_roles where rolname = current_user) then
    execute format('revoke pgrag_owner, pgrag_engine from %I granted by %I', current_user, current_user);
  end if;
end
$$;
reset search_path;
