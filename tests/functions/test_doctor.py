"""pgrag.doctor(): nothing to say of a healthy installation, and each fault found by its own check and put right by its remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.functions.helpers import call
from tests.support import ROLES, Database

EXPECTED = Path(__file__).resolve().parents[2] / "sql" / "functions" / "private" / "expected_objects.sql"
HEADING = """\
-- What a new installation has, as pgrag_private.catalog() says it; % is the object. Made by "make expected"; do not edit.
create or replace function pgrag_private.expected_objects() returns table (check_name text, object text, item text)
language sql immutable parallel safe rows 1000 as $$
  select l.part[1], l.part[2], replace(l.part[3], '%', l.part[2])
    from string_to_table($objects$
"""
ENDING = """\
$objects$, e'\\n') as t (line)
   cross join lateral (select regexp_match(t.line, '^(\\S+) \\| (.+?) \\| (.+)$')) as l (part)
   where t.line <> ''
$$;
"""


class Finding(NamedTuple):
    check: str
    severity: str
    object: str | None
    finding: str
    remedy: str | None


def doctor(connection: psycopg.Connection[Any]) -> list[Finding]:
    return [Finding(*row) for row in connection.execute("select * from pgrag.doctor()")]


def of_the_server(one: Finding) -> bool:
    """That the server under test is old, or its pgvector where that is allowed."""
    return one.check == "server_version" or (bool(os.environ.get("PGRAG_TEST_ALLOW_OLD_PGVECTOR")) and one.check == "vector" and "older" in one.finding)


def faults(connection: psycopg.Connection[Any], check: str | None = None) -> list[Finding]:
    """Errors, warnings and notes, of one check or of all."""
    found = [one for one in doctor(connection) if one.severity != "ok"]
    return [one for one in found if one.check == check] if check else [one for one in found if not of_the_server(one)]


def objects(connection: psycopg.Connection[Any]) -> str:
    """The file of what is expected, as this database is. What follows from a rule is left out: expected_catalog() adds it."""
    rows = connection.execute("select check_name, object, item from pgrag_private.catalog() where object !~ '\\mpgrag_block\\.'").fetchall()
    pinned = {name for (name,) in connection.execute("select name from pgrag_private.pinned_settings(false) union all select 'search_path'")}
    definer = {thing for check, thing, item in rows if check == "function_attributes" and item.endswith(" security definer")}
    lines = []
    for check, thing, item in rows:
        if item.endswith(" owner to pgrag_engine") and thing.startswith("function "):
            continue
        if check in ("search_path", "function_settings"):
            name, function = thing.split(" of ", 1)
            if name in pinned and function in definer:
                continue
        assert "%" not in item and " | " not in thing and "\n" not in thing + item
        lines.append(f"{check} | {thing} | {item.replace(thing, '%')}\n")
    return HEADING + "".join(sorted(lines)) + ENDING


@pytest.mark.contract("L3")
def test_expected_objects_are_those_of_a_new_installation(database: Database) -> None:
    with database.superuser() as superuser:
        made = objects(superuser)
    if os.environ.get("PGRAG_WRITE_DOCS"):
        EXPECTED.write_text(made, encoding="utf-8")
    assert EXPECTED.read_text(encoding="utf-8") == made, "make expected"


# -- Health --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def healthy(module_database: Database) -> Database:
    """Two tenants, one of which has 1,600 vectors in a block."""
    for tenant in ("a", "b"):
        module_database.put_tenant(tenant)
        module_database.put_principals(tenant, users=["alice", "bob"])
        with module_database.writer(tenant, "handbook") as writer:
            module_database.put_document(writer, "small.md", "Thirty days.", vectors=[[1, 0, 0]], readers=["alice"])
    module_database.put_many("a", "large.md")
    with module_database.superuser() as superuser:
        superuser.execute("update pgrag_data.search_cost set measured_at = now()")
    settle(module_database)
    return module_database


def settle(database: Database) -> None:
    """Maintenance to the end, at once, and statistics."""
    with database.role("operator") as operator:
        operator.autocommit = True
        while call(operator, "maintain", "0")[0][3]:
            pass
    with database.superuser() as superuser:
        superuser.execute("vacuum analyze")
        superuser.execute("select pg_stat_force_next_flush()")


@pytest.fixture
def superuser(healthy: Database) -> Iterator[psycopg.Connection[Any]]:
    """A superuser in a transaction that is undone."""
    with psycopg.connect(healthy.dsn()) as connection:
        yield connection
        connection.rollback()


@pytest.mark.contract("L3")
def test_a_healthy_installation_has_no_fault(healthy: Database, superuser: psycopg.Connection[Any]) -> None:
    assert superuser.execute("select count(*) from pg_class where relnamespace = 'pgrag_block'::regnamespace and relkind = 'r'").fetchone()[0] >= 1
    with healthy.role("operator") as operator:
        assert faults(operator) == []
        said = doctor(operator)
    checks = [name for (name,) in superuser.execute("select check_name from pgrag_private.doctor_checks() order by place")]
    assert sorted({one.check for one in said}) == sorted(checks) and len(checks) > 30
    assert all(one.object is one.remedy is None for one in said if one.severity == "ok")


@pytest.mark.contract("L3")
@pytest.mark.parametrize("role", [role for role in ROLES if role != "operator"])
def test_only_operators_may_ask(healthy: Database, role: str) -> None:
    with healthy.role(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        doctor(connection)


@pytest.mark.contract("L3")
def test_it_writes_nothing_and_says_no_content(healthy: Database, superuser: psycopg.Connection[Any]) -> None:
    with healthy.role("operator") as operator:
        operator.execute("set transaction read only")
        doctor(operator)
    for statement in ("delete from pgrag_data.scope_total", "delete from pgrag_data.revision_space", "update pgrag_data.dense_block set system_identifier = 1",
                      "update pgrag_private.signing_key set created_at = '2000-01-01'", "grant select on pgrag_data.chunk to pgrag_reader"):  # fmt: skip
        superuser.execute(statement)
    said = repr(faults(superuser))
    assert said.count("Finding(") > 4
    for secret in ("small.md", "large.md", "Thirty", "Word 1", "alice", "handbook", "test-key"):
        assert secret not in said


# -- Every way to break it -------------------------------------------------------------------------------------

ROLE = "pgrag_test_stray"  # made and dropped by what is undone


def sql(*statements: str) -> Callable[[psycopg.Connection[Any]], None]:
    def run(connection: psycopg.Connection[Any]) -> None:
        for statement in statements:
            connection.execute(statement)

    return run


def block(statement: str) -> Callable[[psycopg.Connection[Any]], None]:
    """With the table of the only block, by name."""

    def run(connection: psycopg.Connection[Any]) -> None:
        (name,) = connection.execute("select min(block_id) from pgrag_data.dense_block where state = 'live'").fetchone()
        connection.execute(statement.replace("BLOCK", f"b{name}"))

    return run


A = "(select tenant_id from pgrag_data.tenant where tenant = 'a')"
SPACE = "model, model_revision, dimension, metric, normalisation, preprocessing, query_prefix, document_prefix, storage, zero_vectors"
OLD_SPACE = f"""
insert into pgrag_data.embedding_space (tenant_id, space, {SPACE}, retired_at) select tenant_id, 'old', {SPACE}, now() from pgrag_data.embedding_space;
insert into pgrag_data.chunk_vec (tenant_id, space_id, revision_id, chunk_no, embedding)
select v.tenant_id, s.space_id, v.revision_id, v.chunk_no, v.embedding
  from pgrag_data.chunk_vec v join pgrag_data.embedding_space s on s.tenant_id = v.tenant_id and s.space = 'old'
"""
# How, the check that finds it, and a word of the object or finding.
BROKEN: list[tuple[Any, str, str]] = [
    # row-level security and policies
    ("alter table pgrag_data.chunk disable row level security", "row_security", "not enabled"),
    ("alter table pgrag_data.chunk no force row level security", "row_security", "not forced"),
    ("alter table pgrag_private.signing_key disable row level security", "row_security", "pgrag_private.signing_key"),
    (block("alter table pgrag_block.BLOCK no force row level security"), "row_security", "pgrag_block.b"),
    ("create policy stray on pgrag_data.chunk using (true)", "policies", "none of pgrag's"),
    ("create policy stray on pgrag_data.revision_source for select to pgrag_reader using (true)", "policies", "stray"),
    ("drop policy pgrag_chunk_select on pgrag_data.chunk", "policies", "pgrag_chunk_select"),
    ("drop policy pgrag_tenant_engine on pgrag_data.tenant", "policies", "pgrag_tenant_engine"),
    ("alter policy pgrag_document_select on pgrag_data.document using (true)", "policies", "pgrag_document_select"),
    ("alter policy pgrag_document_select on pgrag_data.document to pgrag_viewer, pgrag_reader", "policies", "pgrag_document_select"),
    (block("create policy stray on pgrag_block.BLOCK using (true)"), "policies", "stray"),
    # privileges
    ("grant select on pgrag_data.chunk to pgrag_reader", "privileges", "select on table pgrag_data.chunk to pgrag_reader"),
    ("grant select (text) on pgrag_data.chunk to pgrag_reader", "privileges", "select (text)"),
    ("grant select on pgrag_data.tenant to public", "privileges", "to public"),
    ("grant truncate on pgrag_data.chunk to pgrag_engine", "privileges", "truncate"),
    ("grant select on pgrag_data.chunk to pgrag_viewer with grant option", "privileges", "grant option"),
    ("revoke insert on pgrag_data.chunk from pgrag_engine", "privileges", "missing"),
    ("revoke select on pgrag_data.tenant from pgrag_engine", "privileges", "missing"),
    ("grant update on sequence pgrag_data.document_document_id_seq to pgrag_writer", "privileges", "sequence"),
    ("grant usage on schema pgrag_data to pgrag_reader", "privileges", "schema pgrag_data"),
    ("grant create on schema pgrag to pgrag_engine", "privileges", "create on schema pgrag"),
    ("grant usage on type pgrag_private.principal to public", "privileges", "type pgrag_private.principal"),
    ("grant execute on function pgrag.search_json(jsonb, text) to pgrag_operator", "privileges", "pgrag.search_json"),
    ("revoke execute on function pgrag.search_json(jsonb, text) from pgrag_reader", "privileges", "missing"),
    ("grant execute on function pgrag_private.internal_mac(text, text) to pgrag_reader", "privileges", "internal_mac"),
    ("grant select on pgrag.chunks to pgrag_reader", "privileges", "pgrag.chunks"),
    (block("grant select on pgrag_block.BLOCK to pgrag_reader"), "privileges", "pgrag_block.b"),
    ("grant execute on function pgrag.put_tenant(text, text) to public", "public_execute", "put_tenant"),
    ("grant execute on function pgrag_private.internal_mac(text, text) to public", "public_execute", "internal_mac"),
    # owners
    ("alter table pgrag_data.document owner to pgrag_engine", "owners", "not pgrag_owner"),
    ("alter function pgrag.whoami(text) owner to pgrag_owner", "owners", "whoami"),
    ("alter view pgrag.chunks owner to pgrag_engine", "owners", "pgrag.chunks"),
    ("alter schema pgrag_data owner to current_user", "owners", "schema pgrag_data"),
    ("alter type pgrag_private.principal owner to pgrag_owner", "owners", "pgrag_private.principal"),
    # functions
    ("create function pgrag.version(integer) returns text language sql return ''", "functions", "pgrag.version(integer)"),
    ("create function pgrag_private.stray() returns integer language sql return 1", "public_execute", "pgrag_private.stray"),
    ("drop function pgrag.can_read(text, text, text)", "functions", "pgrag.can_read"),
    ("create or replace function pgrag.version() returns text language sql immutable parallel safe return '9'", "function_bodies", "pgrag.version"),
    ("create or replace function pgrag_private.browse_tenant() returns bigint language plpgsql stable parallel restricted security definer as 'begin return 1; end'",
     "function_bodies", "browse_tenant"),
    ("alter function pgrag_private.scope(bigint, bigint, timestamptz, jsonb) security definer", "function_attributes", "scope"),
    ("alter function pgrag.whoami(text) security invoker", "function_attributes", "whoami"),
    ("alter function pgrag_private.closure(bigint, bigint) volatile", "function_attributes", "closure"),
    ("alter function pgrag.whoami(text) leakproof", "function_attributes", "whoami"),
    ("alter function pgrag.whoami(text) set search_path = public", "search_path", "whoami"),
    ("alter function pgrag.search_json(jsonb, text) reset search_path", "search_path", "search_json"),
    ("alter function pgrag.excerpt(text, timestamptz, text) reset row_security", "function_settings", "row_security"),
    ("alter function pgrag.excerpt(text, timestamptz, text) set jit = on", "function_settings", "jit"),
    ("alter function pgrag.excerpt(text, timestamptz, text) set work_mem = '1GB'", "function_settings", "none of pgrag's"),
    ("alter function pgrag_private.search_scope(bigint, bigint, pgrag_private.search_request, boolean) reset enable_seqscan", "function_settings", "search_scope"),
    ("alter function pgrag_private.drop_block_table(bigint) reset lock_timeout", "function_settings", "lock_timeout"),
    # tables, views, what fires
    ("create table pgrag_data.stray (text text)", "tables", "stray"),
    ("alter table pgrag_data.chunk drop constraint chunk_span_check", "tables", "chunk_span_check"),
    ("alter table pgrag_data.chunk drop constraint chunk_span_check, add constraint chunk_span_check check (true)", "tables", "chunk_span_check"),
    ("alter table pgrag_data.chunk add column stray integer", "tables", "pgrag_data.chunk"),
    ("create trigger stray after insert on pgrag_data.chunk execute function suppress_redundant_updates_trigger()", "triggers", "stray"),
    ("create rule stray as on insert to pgrag_data.acl do also nothing", "triggers", "stray"),
    ("alter view pgrag.chunks reset (security_barrier)", "views", "pgrag.chunks"),
    ("create or replace view pgrag.chunks with (security_barrier) as select encode(c.chunk_id, 'hex') as chunk_id, s.source, d.document, r.revision, c.chunk_no,"
     " c.section, c.page, c.language, c.span_start, c.span_end, c.token_count as tokens, c.text from pgrag_data.document d, pgrag_data.source s, pgrag_data.revision r,"
     " pgrag_data.chunk c", "views", "pgrag.chunks"),
    ("create view pgrag.stray as select 1 as one", "views", "stray"),
    ("alter default privileges for role pgrag_engine grant execute on functions to public", "default_privileges", "PUBLIC"),
    ("alter default privileges for role pgrag_owner grant select on tables to pgrag_reader", "default_privileges", "tables of pgrag_owner"),
    ("alter default privileges in schema pgrag_data grant select on tables to pgrag_reader", "default_privileges", "tables of"),
    # indexes
    ("drop index pgrag_data.chunk_lex_keys", "indexes", "chunk_lex_keys"),
    ("drop index pgrag_data.document_acl; create index document_acl on pgrag_data.document (document_id)", "indexes", "document_acl"),
    ("update pg_index set indisvalid = false where indexrelid = 'pgrag_data.document_changed'::regclass", "indexes", "not valid"),
    (block("drop index pgrag_block.BLOCK_embedding"), "indexes", "no index"),
    (block("update pg_index set indisvalid = false where indexrelid = 'pgrag_block.BLOCK_embedding'::regclass"), "indexes", "not valid"),
    # roles
    ("alter role pgrag_reader login", "roles", "pgrag_reader"),
    ("alter role pgrag_engine bypassrls", "roles", "pgrag_engine"),
    ("alter role pgrag_operator inherit", "roles", "pgrag_operator"),
    ("grant pg_read_all_data to pgrag_reader", "roles", "pg_read_all_data"),
    ("grant pgrag_engine to app_reader with inherit true, set true", "trusted_roles", "an application may act as pgrag_engine"),
    ("grant pgrag_owner to pgrag_reader", "roles", "pgrag_owner"),
    (f"create role {ROLE}; grant pgrag_owner to {ROLE} with inherit true, set false", "trusted_roles", "all the time"),
    (f"create role {ROLE}; grant pgrag_engine to {ROLE} with inherit false, set true", "trusted_roles", "may become"),
    (f"create role {ROLE}; grant pgrag_engine to {ROLE}; grant {ROLE} to app_writer", "trusted_roles", "an application may act as"),
    ("alter role app_reader bypassrls", "application_roles", "above row-level security"),
    ("alter role app_operator superuser", "application_roles", "superuser"),
    ("alter role app_writer replication", "application_roles", "copy the whole server"),
    ("alter role app_admin createrole", "application_roles", "create roles"),
    (f"create role {ROLE} bypassrls; grant pgrag_reader to {ROLE}", "application_roles", ROLE),
    ("grant pg_read_all_data to app_reader", "application_roles", "pg_read_all_data"),
    (f"create role {ROLE}; grant pg_read_server_files to {ROLE}; grant {ROLE} to app_reader with inherit false, set true", "application_roles", ROLE),
    ("do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$", "temporary", "to public"),
    ("do $$ begin execute format('grant temporary on database %I to app_reader', current_database()); end $$", "temporary", "to app_reader"),
    ("do $$ begin execute format('grant create on database %I to pgrag_writer', current_database()); end $$", "create", "to pgrag_writer"),
    ("do $$ begin execute format('alter database %I owner to app_reader', current_database()); end $$", "create", "owns the database"),
    ("grant create on schema public to public", "create", "schema public to public"),
    (f"create role {ROLE}; create schema {ROLE}; grant create on schema {ROLE} to {ROLE}; grant {ROLE} to app_writer", "create", f"schema {ROLE}"),
    # the server, versions, keys
    ("update pg_extension set extversion = '0.8.3' where extname = 'vector'", "vector", "0.8.3"),
    ("revoke usage on schema public from public", "vector", "closed"),
    ("update public.pgrag_alembic_version set version_num = '0.1.0'", "pgrag_version", "0.1.0"),
    ("delete from pgrag_private.signing_key", "signing_keys", "every token is refused"),
    ("update pgrag_private.signing_key set retired_at = now()", "signing_keys", "every token is refused"),
    ("update pgrag_private.signing_key set created_at = now() - interval '366 days'", "signing_keys", "365 days"),
    ("update pgrag_private.signing_key set created_at = now() - interval '91 days'", "signing_keys", "90 days"),
    ("delete from pgrag_private.internal_key where purpose = 'seal'", "internal_keys", "packet"),
    ("delete from pgrag_private.internal_key where purpose = 'session'", "internal_keys", "authenticate"),
    # the ledger, spaces, costs
    ("update pgrag_data.scope_total set chunks = chunks + 1", "ledger", "tenant a"),
    (f"delete from pgrag_data.scope_total where tenant_id = {A}", "ledger", "tenant a"),
    ("insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)"
     " select tenant_id, acl_id, source_id, '{xx}', until, 1, 1, 1 from pgrag_data.scope_total limit 1", "ledger", "1 sums"),
    ("update pgrag_data.document set deleted_at = now() where document = 'small.md'", "ledger", "tenant b"),
    (f"delete from pgrag_data.revision_space where tenant_id = {A}", "spaces", "2 documents"),
    (OLD_SPACE, "spaces", "retired"),
    ("delete from pgrag_data.search_cost where part = 'block'", "search_cost", "not known"),
    ("update pgrag_data.search_cost set measured_at = null", "search_cost", "not measured"),
    # blocks
    (block("drop table pgrag_block.BLOCK"), "blocks", "no table"),
    ("update pgrag_data.dense_block set system_identifier = 1", "blocks", "another system"),
    ("create table pgrag_block.b987654321 (embedding public.halfvec(3)); alter table pgrag_block.b987654321 owner to pgrag_owner", "blocks", "no block's"),
    ("update pgrag_data.dense_block set state = 'retired'", "blocks", "a block would pay"),
    ("update pgrag_data.dense_block set state = 'retired', retired_at = now() - interval '2 days'", "blocks", "long ago"),
    (block("update pgrag_data.dense_block set state = 'indexing', created_at = now() - interval '2 days'; drop index pgrag_block.BLOCK_embedding"), "blocks", "begun long ago"),
    ("update pgrag_data.dense_block set snapshot = '1:1:'", "blocks", "loose"),
    ("update pgrag_data.dense_block set vectors = 9000", "blocks", "retired"),
    (block("update pgrag_block.BLOCK set embedding = public.l2_normalize(format('[%s,%s,.1]', random(), random())::public.halfvec)"), "recall", "of what is nearest"),
]  # fmt: skip


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else "block"


@pytest.mark.contract("L3")
@pytest.mark.parametrize("broken, check, word", BROKEN, ids=name_of)
def test_what_is_broken_is_found_and_put_right(superuser: psycopg.Connection[Any], broken: Any, check: str, word: str) -> None:
    (sql(broken) if isinstance(broken, str) else broken)(superuser)
    found = faults(superuser, check)
    assert [one for one in found if word in f"{one.object} {one.finding}"], faults(superuser)
    assert all(one.finding and one.remedy for one in found)
    # What another check says is also of this fault; its remedy is a part of the whole.
    for _ in range(3):
        for one in faults(superuser):
            if one.remedy.endswith(";"):
                with suppress(psycopg.errors.UndefinedObject, psycopg.errors.DuplicateObject, psycopg.errors.UndefinedTable), superuser.transaction():
                    superuser.execute(one.remedy)
            elif "pgrag.maintain()" in one.remedy:
                while superuser.execute("select remaining from pgrag.maintain('0')").fetchone()[0]:
                    pass
    rest = faults(superuser)
    if all(one.remedy.endswith(";") or "pgrag.maintain()" in one.remedy for one in found):
        assert rest == []
    else:
        assert {one.check for one in rest if one.remedy.endswith(";")} == set()


@pytest.mark.contract("L3")
@pytest.mark.parametrize("setting, object", [("track_counts = off", "track_counts"), ("maintenance_work_mem = '1MB'", "maintenance_work_mem")])
def test_settings_that_hinder(superuser: psycopg.Connection[Any], setting: str, object: str) -> None:
    superuser.execute(f"set local {setting}")
    assert [one.object for one in faults(superuser)] == [object]


@pytest.mark.contract("L3")
@pytest.mark.parametrize("version, old", [(150010, True), (160015, True), (160016, False), (170011, True), (170012, False), (180006, True), (180007, False), (190000, True)])
def test_servers_that_lack_a_correction(superuser: psycopg.Connection[Any], version: int, old: bool) -> None:
    (body,) = superuser.execute("select pg_get_functiondef('pgrag_private.doctor_server'::regproc)").fetchone()
    superuser.execute(body.replace("current_setting('server_version_num')", str(version)))
    assert bool(faults(superuser, "server_version")) is old


@pytest.mark.contract("L3")
def test_stale_statistics_are_found(database: Database) -> None:
    with database.superuser() as superuser:
        superuser.execute("alter table pgrag_data.chunk set (autovacuum_enabled = off)")
        database.put_tenant("a")
        database.put_many("a", "large.md")

        def found() -> list[Finding]:
            superuser.execute("select pg_stat_force_next_flush()")
            return [one for one in faults(superuser, "statistics") if one.object == "pgrag_data.chunk"]

        (never,) = found()
        assert "never analysed" in never.finding
        superuser.execute(never.remedy)
        assert found() == []
        superuser.execute("update pgrag_data.chunk set page = 1")
        (changed,) = found()
        assert "has changed" in changed.finding
        superuser.execute(changed.remedy)
        superuser.execute("update pgrag_data.chunk set page = 2")
        superuser.execute("select pg_stat_force_next_flush()")
        superuser.execute("analyze pgrag_data.chunk")
        (dead,) = found()
        assert "rows are dead" in dead.finding
        superuser.execute(dead.remedy)
        assert found() == []


@pytest.mark.contract("L3")
def test_where_one_part_cannot_be_checked_the_others_are(superuser: psycopg.Connection[Any]) -> None:
    superuser.execute("revoke select on pgrag_data.tenant from pgrag_engine")
    superuser.execute("alter role app_reader bypassrls")
    found = faults(superuser)
    assert {"privileges", "application_roles"} <= {one.check for one in found}
    assert [one.finding for one in found if "could not be checked" in one.finding]
