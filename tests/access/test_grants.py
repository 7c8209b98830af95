"""Who may do what, read back from the catalogs: a table of every right there is, and nothing beside it."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from tests.support import ROLES, Database

TOKEN_ROLES = {"reader", "writer", "admin", "auditor", "browser"}
EVERY_ROLE = set(ROLES)

# Function of schema pgrag, and the roles (without their pgrag_) that may call it.
CALLERS = {
    "authenticate": TOKEN_ROLES, "whoami": TOKEN_ROLES, "version": EVERY_ROLE, "status": EVERY_ROLE,
    # readers
    "search": {"reader"}, "search_json": {"reader"}, "packet": {"reader"}, "packet_json": {"reader"}, "validate_reply": {"reader"},
    "excerpt": {"reader"}, "can_read": {"reader"}, "active_space": {"reader", "writer"}, "next_space": {"reader", "writer"},
    # connectors, and administrators of a tenant
    "writer_source": {"writer"}, "stage_revision": {"writer"}, "add_chunks": {"writer"}, "verify_revision": {"writer"},
    "add_embeddings": {"writer"}, "missing_embeddings": {"writer"},
    "list_documents": {"writer", "admin"}, "list_revisions": {"writer", "admin"}, "set_access": {"writer", "admin"},
    "activate": {"writer", "admin"}, "rollback": {"writer", "admin"}, "delete_document": {"writer", "admin"},
    "put_principal": {"admin"}, "drop_principal": {"admin"}, "put_membership": {"admin"}, "drop_membership": {"admin"},
    "list_principals": {"admin"}, "list_memberships": {"admin"},
    # operators, and the keeper of the keys
    "put_tenant": {"operator"}, "put_source": {"operator"}, "put_space": {"operator"},
    "list_tenants": {"operator"}, "list_sources": {"operator"}, "list_spaces": {"operator"},
    "build_space": {"operator"}, "switch_space": {"operator"}, "retire_space": {"operator"}, "space_status": {"operator"},
    "maintain": {"operator"}, "calibrate": {"operator"}, "index_status": {"operator"}, "doctor": {"operator"},
    "add_signing_key": {"keys"}, "retire_signing_key": {"keys"}, "list_signing_keys": {"keys"},
}  # fmt: skip
CALLERS_PRIVATE = {"browse_revisions": {"browser"}, "browse_tenant": {"browser"}, "lexeme_keys": {"owner"}, "facet_keys": {"owner"},
                   "create_block_table": {"engine"}, "index_block_table": {"engine"}, "drop_block_table": {"engine"}}  # fmt: skip
# What only the owner of the tables may do. The engine calls it, and nobody else.
OF_THE_OWNER = {"create_block_table", "index_block_table", "drop_block_table"}

# Functions that write (authenticate: a setting of the transaction); every other one is STABLE or IMMUTABLE.
VOLATILE = {
    "authenticate", "put_tenant", "put_source", "put_space", "put_principal", "drop_principal", "put_membership", "drop_membership",
    "stage_revision", "add_chunks", "add_embeddings", "verify_revision", "set_access", "activate", "rollback", "delete_document",
    "add_signing_key", "retire_signing_key",
    "acl_of", "switch_revision", "random_secret", "count_document",
    "maintain", "calibrate", "fold_scope_totals", "copy_to_block", "renumber_documents",
    "build_space", "switch_space", "retire_space", "put_embeddings", "purge_retired_spaces", *OF_THE_OWNER,
}  # fmt: skip
READERS = ("search", "search_json", "packet", "packet_json", "validate_reply", "excerpt", "can_read", "active_space", "next_space", "whoami",
           "browse_revisions", "browse_tenant", "list_documents", "list_revisions", "list_principals", "list_memberships",
           "writer_source")  # fmt: skip

PINNED = [
    "search_path=pg_catalog, pg_temp", "row_security=on", "jit=off", "geqo=off",
    "standard_conforming_strings=on", "transform_null_equals=off", "array_nulls=on", "gin_fuzzy_search_limit=0", "TimeZone=UTC",
    "DateStyle=ISO, YMD", "IntervalStyle=iso_8601", "bytea_output=hex", "extra_float_digits=1",
    "debug_print_parse=off", "debug_print_rewritten=off", "debug_print_plan=off",
]  # fmt: skip
NOT_DEFINER = {"version"}  # a constant

READ, ADD, CHANGE, REMOVE = "SELECT", "INSERT", "UPDATE", "DELETE"
GRANTS = {  # relation: role: rights, beside the owner's
    "pgrag_data.tenant": {"engine": {READ, ADD, CHANGE}},
    "pgrag_data.principal": {"engine": {READ, ADD, CHANGE}},
    "pgrag_data.membership": {"engine": {READ, ADD, REMOVE}},
    "pgrag_data.acl": {"engine": {READ, ADD}},
    "pgrag_data.acl_entry": {"engine": {READ, ADD}},
    "pgrag_data.source": {"engine": {READ, ADD, CHANGE}, "viewer": {READ}},
    "pgrag_data.embedding_space": {"engine": {READ, ADD, CHANGE}},
    "pgrag_data.document": {"engine": {READ, ADD, CHANGE}, "viewer": {READ}},
    "pgrag_data.revision": {"engine": {READ, ADD, CHANGE}, "viewer": {READ}},
    "pgrag_data.revision_source": {"engine": {READ, ADD}},
    "pgrag_data.activation": {"engine": {READ, ADD}},
    "pgrag_data.chunk": {"engine": {READ, ADD}, "viewer": {READ}},
    "pgrag_data.chunk_lex": {"engine": {READ, ADD}},
    "pgrag_data.chunk_vec": {"engine": {READ, ADD, REMOVE}},
    "pgrag_data.revision_space": {"engine": {READ, ADD, REMOVE}},
    "pgrag_data.scope_total": {"engine": {READ, ADD, CHANGE, REMOVE}},
    "pgrag_data.dense_block": {"engine": {READ, ADD, CHANGE, REMOVE}},
    "pgrag_data.search_cost": {"engine": {READ, ADD, CHANGE}},
    "pgrag_private.signing_key": {"engine": {READ, ADD, CHANGE}},
    "pgrag_private.internal_key": {"engine": {READ, ADD}},
    "pgrag.documents": {"browser": {READ}},
    "pgrag.chunks": {"browser": {READ}},
}
SEQUENCES = {"tenant", "principal", "acl", "source", "embedding_space", "document", "revision", "activation"}
OTHER_SEQUENCES = {"scope_total_scope_total_id", "dense_block_block_id"}
SCHEMAS = {
    "pgrag": {role: {"USAGE"} for role in ("engine", "viewer", *ROLES)},
    "pgrag_data": {role: {"USAGE"} for role in ("engine", "viewer")},
    "pgrag_private": {role: {"USAGE"} for role in ("engine", "viewer")},
    "pgrag_block": {"engine": {"USAGE"}},
}

TENANT = "(tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant))"
REVISIONS = "( SELECT pgrag_private.browse_revisions() AS browse_revisions)"


def in_scope(column: str) -> str:
    return f"({TENANT} AND ({column} = ANY ({REVISIONS}::bigint[])))"


VIEWER_POLICIES = {
    "pgrag_data.source": TENANT,
    "pgrag_data.document": in_scope("active_revision_id"),
    "pgrag_data.revision": in_scope("revision_id"),
    "pgrag_data.chunk": in_scope("revision_id"),
}
IN_PGRAG = "('pgrag', 'pgrag_data', 'pgrag_private', 'pgrag_block')"


@pytest.fixture
def superuser(module_database: Database) -> psycopg.Connection[Any]:
    """A superuser in a transaction that is undone, so that a control can break things first."""
    with psycopg.connect(module_database.dsn()) as connection:
        yield connection
        connection.rollback()


def rows(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def granted(
    connection: psycopg.Connection[Any], catalog: str, acl: str, kind: str, name: str, where: str
) -> dict[str, dict[str, set[str]]]:
    """Object: grantee: rights, of those that are not the owner's. PUBLIC is called public."""
    found: dict[str, dict[str, set[str]]] = {}
    owner = {"p": "proowner", "c": "relowner", "n": "nspowner"}[catalog.split()[1]]
    for thing, grantee, right, grantable in rows(
        connection,
        f"""
        select {name}, case a.grantee when 0 then 'public' else a.grantee::regrole::text end, a.privilege_type, a.is_grantable
          from {catalog} cross join lateral aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) a
         where a.grantee <> {owner} and {where}""",
    ):
        assert not grantable, thing
        found.setdefault(thing, {}).setdefault(grantee.removeprefix("pgrag_"), set()).add(right)
    return found


def callers(connection: psycopg.Connection[Any], schema: str) -> dict[str, set[str]]:
    named = {
        name: set()
        for (name,) in rows(
            connection, f"select proname from pg_proc where pronamespace = '{schema}'::regnamespace"
        )
    }
    found = granted(
        connection, "pg_proc p", "p.proacl", "f", "p.proname", f"p.pronamespace = '{schema}'::regnamespace"
    )
    return named | {name: set(rights) for name, rights in found.items()}


@pytest.mark.contract("A2", "A8")
def test_who_may_call_what(superuser: psycopg.Connection[Any]) -> None:
    assert callers(superuser, "pgrag") == CALLERS
    private = callers(superuser, "pgrag_private")
    assert {name: who for name, who in private.items() if who} == CALLERS_PRIVATE
    # control: a grant that is not in the table
    superuser.execute("grant execute on function pgrag_private.internal_mac(text, text) to public")
    assert callers(superuser, "pgrag_private")["internal_mac"] == {"public"}


@pytest.mark.contract("A2")
def test_a_login_role_can_call_what_its_group_can_and_no_more(superuser: psycopg.Connection[Any]) -> None:
    for role in ROLES:
        may = {
            name
            for (name,) in rows(
                superuser,
                f"""
            select p.proname from pg_proc p where p.pronamespace = 'pgrag'::regnamespace and has_function_privilege('app_{role}', p.oid, 'execute')""",
            )
        }
        assert may == {name for name, roles in CALLERS.items() if role in roles}, role
        public = rows(
            superuser,
            f"select has_schema_privilege('app_{role}', s, p) from unnest(array['pgrag_data', 'pgrag_private', 'pgrag_block']) s, unnest(array['usage', 'create']) p",
        )
        assert public == [(False,)] * 6, role


@pytest.mark.contract("A8")
def test_functions_are_what_they_must_be(superuser: psycopg.Connection[Any]) -> None:
    def faults() -> list[str]:
        found = []
        for name, schema, definer, owner, config, volatile, count in rows(
            superuser,
            f"""
            select p.proname, n.nspname, p.prosecdef, p.proowner::regrole::text, p.proconfig, p.provolatile, count(*) over (partition by n.nspname, p.proname)
              from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in {IN_PGRAG}""",
        ):
            should = (schema == "pgrag" and name not in NOT_DEFINER) or CALLERS_PRIVATE.get(name, {"owner"}) != {"owner"}
            if owner != ("pgrag_owner" if name in OF_THE_OWNER else "pgrag_engine"):
                found.append(f"{name}: owner {owner}")
            if definer != should:
                found.append(f"{name}: security definer is {definer}")
            pinned = [*PINNED, f"plan_cache_mode=force_{'generic' if volatile == 'v' else 'custom'}_plan"]
            if name == "drop_block_table":
                pinned.append("lock_timeout=20ms")
            if definer and sorted(config or []) != sorted(pinned):
                found.append(f"{name}: settings {set(config or []) ^ set(pinned)}")
            if schema == "pgrag" and count > 1:
                found.append(f"{name}: overloaded")
        return found

    assert faults() == []
    # control: each of them is seen
    superuser.execute("alter function pgrag.can_read(text, text, text) owner to pgrag_owner")
    superuser.execute("alter function pgrag.excerpt(text, timestamptz, text) reset row_security")
    superuser.execute("alter function pgrag.whoami(text) set search_path = public")
    superuser.execute(
        "alter function pgrag_private.scope(bigint, bigint, timestamptz, jsonb) security definer"
    )
    superuser.execute("create function pgrag.version(integer) returns text language sql as $$ select '' $$")
    text = "\n".join(faults())
    for part in (
        "can_read: owner",
        "excerpt: settings {'row_security=on'}",
        "whoami: settings",
        "scope: security definer",
        "version: overloaded",
    ):
        assert part in text


def reached(connection: psycopg.Connection[Any], roots: tuple[str, ...]) -> dict[str, str]:
    """The functions below `roots`, by reading their bodies, and their volatility."""
    bodies = {
        name: (volatility, body)
        for name, volatility, body in rows(
            connection,
            f"select p.proname, p.provolatile::text, pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace::regnamespace::text in {IN_PGRAG}",
        )
    }
    found: dict[str, str] = {}
    queue = list(roots)
    while queue:
        name = queue.pop()
        if name not in found:
            found[name], body = bodies[name]
            body = re.sub(r"'[^']*'|--.*", "", body)  # what comments and hints say is not called
            queue += [
                called for called in re.findall(r"pgrag(?:_private)?\.(\w+)\s*\(", body) if called in bodies
            ]
    return found


@pytest.mark.contract("B4", "F9")
def test_everything_below_a_read_is_stable(superuser: psycopg.Connection[Any]) -> None:
    """A volatile function reads a snapshot of its own, and a read that uses two is torn between two states."""
    below = reached(superuser, (*READERS, "missing_embeddings", "space_status", "doctor", "doctor_access", "doctor_server",
                                "doctor_data", "doctor_blocks"))  # fmt: skip
    assert {
        "current_principal",
        "verify_token",
        "scope",
        "search_scope",
        "dense_plan",
        "search_blocks",
        "lexical_plans",
        "lexical_lane",
        "dense_lane",
        "describe_chunk",
        "seal",
        "internal_mac",
        "closure",
    } <= set(below)
    assert [name for name, volatility in below.items() if volatility not in "si"] == []
    volatile = {
        name
        for (name,) in rows(
            superuser,
            f"select proname from pg_proc where provolatile = 'v' and pronamespace::regnamespace::text in {IN_PGRAG}",
        )
    }
    assert volatile == VOLATILE
    # control
    superuser.execute("alter function pgrag_private.closure(bigint, bigint) volatile")
    assert reached(superuser, READERS)["closure"] == "v"


@pytest.mark.contract("A1")
def test_no_reader_says_who_it_is(superuser: psycopg.Connection[Any]) -> None:
    """No argument of a function that readers, writers, auditors or browsers may call names a tenant or a reader."""
    arguments = rows(superuser, """
        select p.proname, coalesce(p.proargnames[1:p.pronargs], '{}') from pg_proc p where p.pronamespace = 'pgrag'::regnamespace""")  # fmt: skip
    names = {
        name: given for name, given in arguments if CALLERS[name] & {"reader", "writer", "auditor", "browser"}
    }
    about = re.compile("tenant|reader|user|principal|subject|group|role|owner|acl")
    said = {
        f"{name}: {argument}" for name, given in names.items() for argument in given if about.search(argument)
    }
    assert said == {"set_access: p_readers"}  # whom to let in, not who is asking
    assert [name for name in READERS if name in names and not {"p_token"} & set(names[name])] == []
    # control: the expression finds what operators must say
    assert [
        name for name, given in arguments if "operator" in CALLERS[name] and any(map(about.search, given))
    ]


@pytest.mark.contract("A8")
def test_row_level_security_is_forced_everywhere(superuser: psycopg.Connection[Any]) -> None:
    query = f"""
        select c.oid::regclass::text, c.relrowsecurity, c.relforcerowsecurity, c.relowner::regrole::text
          from pg_class c where c.relkind in ('r', 'p', 'm', 'f') and c.relnamespace::regnamespace::text in {IN_PGRAG}"""
    tables = rows(superuser, query)
    assert {table for table, *_ in tables} == {name for name in GRANTS if not name.startswith("pgrag.")}
    assert {tuple(rest) for _, *rest in tables} == {(True, True, "pgrag_owner")}
    superuser.execute("alter table pgrag_data.chunk no force row level security")  # control
    assert {tuple(rest) for _, *rest in rows(superuser, query)} != {(True, True, "pgrag_owner")}


@pytest.mark.contract("A8")
def test_the_policies_are_these_and_no_others(superuser: psycopg.Connection[Any]) -> None:
    def policies() -> set[tuple[Any, ...]]:
        return {
            (f"{schema}.{table}", *rest)
            for schema, table, *rest in rows(
                superuser,
                "select schemaname, tablename, policyname, permissive, roles::text, cmd, qual, with_check from pg_policies where schemaname ~ '^pgrag'",
            )
        }

    tables = [name for name in GRANTS if not name.startswith("pgrag.")]
    expected = {
        (table, f"pgrag_{table.split('.')[1]}_engine", "PERMISSIVE", "{pgrag_engine}", "ALL", "true", "true")
        for table in tables
    }
    expected |= {
        (table, f"pgrag_{table.split('.')[1]}_select", "PERMISSIVE", "{pgrag_viewer}", "SELECT", qual, None)
        for table, qual in VIEWER_POLICIES.items()
    }
    assert policies() == expected
    superuser.execute("create policy open on pgrag_data.chunk using (true)")  # control
    assert policies() - expected == {
        ("pgrag_data.chunk", "open", "PERMISSIVE", "{public}", "ALL", "true", None)
    }


@pytest.mark.contract("A8")
def test_table_grants(superuser: psycopg.Connection[Any]) -> None:
    def relations() -> dict[str, dict[str, set[str]]]:
        return granted(superuser, "pg_class c", "c.relacl", "r", "c.oid::regclass::text",
                       f"c.relkind in ('r', 'v', 'm', 'p', 'f') and c.relnamespace::regnamespace::text in {IN_PGRAG}")  # fmt: skip

    assert relations() == GRANTS
    sequences = granted(
        superuser,
        "pg_class c",
        "c.relacl",
        "s",
        "c.oid::regclass::text",
        f"c.relkind = 'S' and c.relnamespace::regnamespace::text in {IN_PGRAG}",
    )
    assert sequences == {
        f"pgrag_data.{name}_seq": {"engine": {READ}}
        for name in {f"{table}_{table.split('_')[-1]}_id" for table in SEQUENCES} | OTHER_SEQUENCES
    }
    assert (
        granted(superuser, "pg_namespace n", "n.nspacl", "n", "n.nspname", f"n.nspname in {IN_PGRAG}")
        == SCHEMAS
    )
    assert (
        rows(
            superuser,
            f"select attrelid::regclass, attname from pg_attribute join pg_class c on c.oid = attrelid where attacl is not null and c.relnamespace::regnamespace::text in {IN_PGRAG}",
        )
        == []
    )
    superuser.execute("grant select on pgrag_data.chunk to pgrag_reader")  # control
    assert relations()["pgrag_data.chunk"]["reader"] == {READ}


@pytest.mark.contract("A2", "A8")
def test_an_application_role_has_functions_and_nothing_else(superuser: psycopg.Connection[Any]) -> None:
    for role in ROLES:
        views = "'pgrag.documents'::regclass, 'pgrag.chunks'::regclass" if role == "browser" else "0"
        assert (
            rows(
                superuser,
                f"""
            select c.oid::regclass from pg_class c
             where c.relkind in ('r', 'v', 'm', 'p', 'f') and c.relnamespace::regnamespace::text in {IN_PGRAG} and c.oid not in ({views})
               and (has_table_privilege('app_{role}', c.oid, 'select, insert, update, delete, truncate, references, trigger')
                    or has_any_column_privilege('app_{role}', c.oid, 'select, insert, update, references'))""",
            )
            == []
        )
        assert (
            rows(
                superuser,
                f"""
            select c.oid::regclass from pg_class c
             where c.relnamespace::regnamespace::text in {IN_PGRAG}
               and case c.relkind when 'S' then has_sequence_privilege('app_{role}', c.oid, 'usage, select, update') end""",
            )
            == []
        )
        assert (
            rows(
                superuser,
                f"select has_database_privilege('app_{role}', current_database(), p) from unnest(array['temporary', 'create']) p",
            )
            == [(False,)] * 2
        )
        assert (
            rows(
                superuser,
                f"select nspname from pg_namespace where has_schema_privilege('app_{role}', oid, 'create')",
            )
            == []
        )
        assert (
            rows(
                superuser,
                f"""
            select r.rolname from pg_roles r where pg_has_role('app_{role}', r.oid, 'member') and r.rolname not in ('app_{role}', 'pgrag_{role}')""",
            )
            == []
        )
        owned = rows(
            superuser,
            f"select classid::regclass, objid from pg_shdepend where refobjid in ('app_{role}'::regrole, 'pgrag_{role}'::regrole) and deptype = 'o' and dbid = (select oid from pg_database where datname = current_database())",
        )
        assert owned == []
    # control: the questions are put right, since the engine and the owner have such rights
    assert rows(
        superuser,
        "select has_table_privilege('pgrag_engine', 'pgrag_data.chunk', 'select'), has_schema_privilege('pgrag_owner', 'pgrag', 'create')",
    ) == [(True, True)]


@pytest.mark.contract("A8")
def test_roles_have_no_attributes_and_no_members(superuser: psycopg.Connection[Any]) -> None:
    attributes = rows(superuser, """
        select rolname, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolcanlogin or rolinherit
          from pg_roles where rolname ~ '^pgrag_' and rolname !~ '^pgrag_test' and not rolname = any (
            select rolname from pg_roles where rolcreaterole)""")  # fmt: skip
    assert {name.removeprefix("pgrag_") for name, _ in attributes} == {"owner", "engine", "viewer", *ROLES}
    assert [name for name, any_attribute in attributes if any_attribute] == []
    trusted = "('pgrag_owner'::regrole, 'pgrag_engine'::regrole, 'pgrag_viewer'::regrole)"
    assert (
        rows(
            superuser,
            f"select member::regrole from pg_auth_members where roleid in {trusted} and (set_option or inherit_option)",
        )
        == []
    )
    assert rows(superuser, f"select roleid::regrole from pg_auth_members where member in {trusted}") == []


@pytest.mark.contract("A8")
def test_default_privileges_keep_public_out_of_what_comes_next(superuser: psycopg.Connection[Any]) -> None:
    defaults = rows(superuser, """
        select defaclrole::regrole::text, defaclnamespace, defaclobjtype::text, a.grantee::regrole::text
          from pg_default_acl cross join lateral aclexplode(defaclacl) a order by 1, 3""")  # fmt: skip
    assert defaults == [
        (role, 0, kind, role) for role in ("pgrag_engine", "pgrag_owner") for kind in ("T", "f")
    ]
    for role in ("pgrag_engine", "pgrag_owner"):
        superuser.execute(
            f"grant create on schema pgrag_private to {role}; set local role {role}; create function pgrag_private.new() returns integer language sql return 1; reset role"
        )
        assert callers(superuser, "pgrag_private")["new"] == set()
        superuser.execute("drop function pgrag_private.new()")
    superuser.execute(
        "create function pgrag_private.new() returns integer language sql return 1"
    )  # control: by anybody else
    assert callers(superuser, "pgrag_private")["new"] == {"public"}


@pytest.mark.contract("A8")
def test_the_owner_sees_no_row_and_the_engine_every_row(
    module_database: Database, superuser: psycopg.Connection[Any]
) -> None:
    module_database.put_tenant("a")
    module_database.put_principals("a", users=["alice"], groups={"hr": ["alice"]})
    with module_database.writer("a", "handbook") as writer:
        module_database.put_document(writer, "x.md", "A text.", vectors=[[1, 0, 0]], readers=["alice"])
    tables = [name for name in GRANTS if not name.startswith("pgrag.")]
    tables.remove("pgrag_data.dense_block")  # one document needs none
    seen = {}
    for role in ("pgrag_owner", "pgrag_engine"):
        superuser.execute(f"set local role {role}")
        seen[role] = [superuser.execute(f"select count(*) from {table}").fetchone()[0] for table in tables]
    superuser.execute("set local role pgrag_owner")
    assert not any(seen["pgrag_owner"])
    assert all(seen["pgrag_engine"])
    assert superuser.execute("update pgrag_data.document set deleted_at = now()").rowcount == 0
    with pytest.raises(psycopg.Error, match="row-level security"):
        superuser.execute("set local row_security = off; update pgrag_data.document set deleted_at = now()")


@pytest.mark.contract("A8")
def test_views_keep_predicates_out(superuser: psycopg.Connection[Any]) -> None:
    views = rows(superuser, f"""
        select c.oid::regclass::text, c.relowner::regrole::text, c.reloptions, pg_get_viewdef(c.oid) ~ 'OFFSET 0'
          from pg_class c where c.relkind = 'v' and c.relnamespace::regnamespace::text in {IN_PGRAG} order by 1""")  # fmt: skip
    assert views == [
        (view, "pgrag_viewer", ["security_barrier=true"], True)
        for view in ("pgrag.chunks", "pgrag.documents")
    ]
