"""Installing with psql alone: what it takes, what it leaves, and that a refusal leaves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest

from pgrag import __version__
from tests.upgrade.cluster import AS_DOCUMENTED, DIST, INSTALLER, OLD_PGVECTOR, Cluster

OWNERS = ("pgrag_owner", "pgrag_engine", "pgrag_viewer")
APPLICATION = (
    "pgrag_reader",
    "pgrag_writer",
    "pgrag_admin",
    "pgrag_auditor",
    "pgrag_operator",
    "pgrag_keys",
    "pgrag_browser",
)


def become(cluster: Cluster, database: str, user: str, role: str) -> None:
    with cluster.connect(database, user) as connection:
        connection.execute(f"set role {role}")


@pytest.mark.contract("L1", "L2")
@pytest.mark.parametrize("options", ["", "-c createrole_self_grant=set,inherit"], ids=["plain", "self_grant"])
def test_psql_installs_as_an_owner_who_then_has_no_way_in(cluster: Cluster, options: str) -> None:
    cluster.create("a")
    cluster.install("a", options=f"{OLD_PGVECTOR} {options}")
    with cluster.superuser("a") as superuser:
        assert superuser.execute("select pgrag.version()").fetchone() == (__version__,)
        assert [name for (name,) in superuser.execute("select extname from pg_extension order by 1")] == [
            "plpgsql",
            "vector",
        ]
        # Outside of its schemas there is the stamp, and nothing else.
        outside = superuser.execute(
            "select relname from pg_class where relnamespace not in "
            "(select oid from pg_namespace where nspname like 'pg\\_%' or nspname = 'information_schema' or nspname like 'pgrag%') and relkind <> 'i'"
        ).fetchall()
        assert outside == [("pgrag_alembic_version",)]

    # What a role with CREATEROLE keeps is ADMIN on the roles that it made, and it is no member of any of them.
    assert cluster.memberships() == {(role, INSTALLER, True, False, False) for role in OWNERS + APPLICATION}
    for role in OWNERS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            become(cluster, "a", INSTALLER, role)
    with cluster.connect("a") as installer, pytest.raises(psycopg.errors.InsufficientPrivilege):
        installer.execute("select from pgrag_private.signing_key")
    # Control: with what the installation took and gave back, it could.
    with cluster.superuser() as superuser:
        superuser.execute(f"grant pgrag_engine to {INSTALLER} with inherit false, set true")
    become(cluster, "a", INSTALLER, "pgrag_engine")


@pytest.mark.contract("L2")
def test_a_superuser_installs_without_becoming_a_member(cluster: Cluster) -> None:
    cluster.create_role("boss", "superuser")
    cluster.create("a")
    cluster.install("a", user="boss")
    assert cluster.memberships() == set()


@pytest.mark.contract("L2")
def test_nobody_has_temp(cluster: Cluster) -> None:
    cluster.create("a")
    assert "public TEMPORARY f" in cluster.privileges("a")  # control
    cluster.install("a")
    assert cluster.privileges("a") == ["dba CONNECT f", "dba CREATE f", "dba TEMPORARY f", "public CONNECT f"]


@pytest.mark.contract("L1")
def test_a_role_that_is_set_before_changes_nothing(cluster: Cluster) -> None:
    """The session's own role installs: the one that was set could not give back what it took."""
    cluster.create_role("boss", "superuser")
    cluster.create("a")
    cluster.install("a", user="boss", flags=(*AS_DOCUMENTED, "-c", f"set role {INSTALLER}"))
    assert cluster.memberships() == set()
    with cluster.superuser("a") as superuser:
        owner = superuser.execute(
            "select relowner::regrole::text from pg_class where relname = 'pgrag_alembic_version'"
        ).fetchone()
    assert owner == ("boss",)


# ---- refusals ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Statements of a superuser that make a database unfit, and the ones that cure it again."""

    name: str
    code: str
    break_: str
    cure: str
    template: str = "encoding utf8"
    options: str = OLD_PGVECTOR
    script: Callable[[str], str] | None = None


def newer_server_needed(script: str) -> str:
    """Every server that has pgrag's types is new enough, so the bound is what changes."""
    changed = script.replace("if v_server < 160000 then", "if v_server < 990000 then")
    assert changed != script
    return changed


VERSION = "update pg_extension set extversion = {} where extname = 'vector'"
REAL = "(select default_version from pg_available_extensions where name = 'vector')"
ATTRIBUTES = ("login", "superuser", "bypassrls", "createrole", "createdb", "replication")
REFUSALS = [
    Refusal("no vector", "RG101", "drop extension vector", "create extension vector"),
    Refusal("vector 0.6.2", "RG102", VERSION.format("'0.6.2'"), VERSION.format(REAL)),
    Refusal("vector 0.8.1", "RG102", VERSION.format("'0.8.1'"), VERSION.format(REAL), options="-c pgrag.allow_old_pgvector=on"),
    Refusal("vector 0.8.3", "RG102", VERSION.format("'0.8.3'"), VERSION.format("'0.8.4'"), options=""),
    Refusal("old server", "RG103", "", "", script=newer_server_needed),
    Refusal("not the owner", "RG104", "alter database a owner to postgres; grant all on database a to dba", "alter database a owner to dba"),
    Refusal("no CREATE", "RG104", "revoke create on database a from dba", "grant create on database a to dba"),
    Refusal("public not the owner's", "RG104", "revoke create on schema public from pg_database_owner", "grant create on schema public to pg_database_owner"),
    Refusal("no CREATEROLE", "RG104", "alter role dba nocreaterole", "alter role dba createrole"),
    *(Refusal(f"schema {name}", "RG105", f"create schema {name}", f"drop schema {name}") for name in ("pgrag", "pgrag_data", "pgrag_private")),
    Refusal("vector elsewhere", "RG106", "create schema ext; alter extension vector set schema ext", "alter extension vector set schema public"),
    Refusal("public closed", "RG106", "revoke usage on schema public from public", "grant usage on schema public to public"),
    *(Refusal(f"role with {attribute}", "RG107", f"create role pgrag_engine {attribute}; grant pgrag_engine to dba with admin true, inherit false, set false",
              f"alter role pgrag_engine no{attribute}") for attribute in ATTRIBUTES),
    Refusal("others' roles", "RG104", "create role pgrag_engine", "grant pgrag_engine to dba with admin true, inherit false, set false"),
]  # fmt: skip


@pytest.mark.contract("L2")
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_refusal_has_a_code_and_a_hint_and_changes_nothing(cluster: Cluster, refusal: Refusal) -> None:
    cluster.create("a")
    script = refusal.script(DIST.read_text(encoding="utf-8")) if refusal.script else DIST
    with cluster.superuser("a") as superuser:
        if refusal.break_:
            superuser.execute(refusal.break_)
        before = cluster.state("a")
        done = cluster.psql("a", script, options=refusal.options)
        assert done.returncode == 3
        assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == [refusal.code], done.stderr
        assert "HINT:" in done.stderr
        assert cluster.state("a") == before
        # Control: what was refused is what was wrong, and nothing else.
        if refusal.cure:
            superuser.execute(refusal.cure)
    cluster.install("a", options=refusal.options)
    assert cluster.state("a") != before


@pytest.mark.contract("L2", "D2")
@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii"])
def test_spans_need_unicode(cluster: Cluster, encoding: str) -> None:
    with cluster.superuser() as superuser:
        provider = " locale_provider libc" if superuser.info.server_version >= 150000 else ""
    cluster.create("a", template=f"encoding {encoding} lc_collate 'C' lc_ctype 'C'{provider}")
    before = cluster.state("a")
    done = cluster.psql("a", DIST)
    assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["RG108"], done.stderr
    assert cluster.state("a") == before


@pytest.mark.contract("L2")
def test_it_installs_once(cluster: Cluster) -> None:
    cluster.create("a")
    cluster.install("a")
    before = cluster.state("a")
    done = cluster.psql("a", DIST)
    assert "ERROR:  RG105:" in done.stderr
    assert cluster.state("a") == before


@pytest.mark.contract("L2", "L4")
@pytest.mark.parametrize("user", [INSTALLER, "boss"])
@pytest.mark.parametrize(
    "flags, code",
    [(("-X", "-v", "ON_ERROR_STOP=1"), "25P01"), (("-X",), "RG110")],
    ids=["no -1", "no flags at all"],
)
def test_outside_of_a_transaction_nothing_is_made(
    cluster: Cluster, user: str, flags: tuple[str, ...], code: str
) -> None:
    """Not even by a psql that goes on after each error, and not by a superuser."""
    cluster.create_role("boss", "superuser")
    for database in ("a", "b"):  # b: where the roles of another database's pgrag are there to be used
        cluster.create(database)
        before = cluster.state(database)
        done = cluster.psql(database, DIST, flags=flags, user=user)
        assert code in re.findall(r"ERROR:  (\w{5}):", done.stderr)
        assert cluster.state(database) == before
        if database == "a":
            cluster.install("a")


@pytest.mark.contract("L2", "L4")
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize(
    "fault",
    ["select 1/0;", "select pg_terminate_backend(pg_backend_pid());"],
    ids=["error", "lost connection"],
)
def test_a_failure_on_the_way_leaves_nothing(cluster: Cluster, share: float, fault: str) -> None:
    cluster.create("a")
    before = cluster.state("a")
    # Cut between two files, after that share of them.
    parts = re.split(r"^(?=-- sql/)", DIST.read_text(encoding="utf-8"), flags=re.MULTILINE)
    script = "".join(parts[: round(share * len(parts))]) + "\n" + fault + "\n"
    done = cluster.psql("a", script)
    assert done.returncode != 0 and "ERROR:  RG" not in done.stderr, done.stderr
    assert cluster.state("a") == before
    cluster.install("a")  # control: what failed was the fault


@pytest.mark.contract("L2")
@pytest.mark.parametrize(
    "version, supported", [("0.8.2", False), ("0.8.3", False), ("0.8.4", True), ("0.10.0", True)]
)
def test_an_old_pgvector_is_let_through_on_purpose_and_said(
    cluster: Cluster, version: str, supported: bool
) -> None:
    cluster.create("a")
    with cluster.superuser("a") as superuser:
        superuser.execute("update pg_extension set extversion = %s where extname = 'vector'", (version,))
        cluster.install("a", options="-c pgrag.allow_old_pgvector=on")
        status = superuser.execute("select pgrag.status()").fetchone()[0]
    assert (status["vector"], status["vector_supported"]) == (version, supported)


@pytest.mark.contract("L2")
def test_an_old_minor_version_is_a_warning(cluster: Cluster) -> None:
    cluster.create("a")
    with cluster.superuser() as superuser:
        version = superuser.info.server_version
    said = cluster.install("a")
    least = {16: 160016, 17: 170012, 18: 180007}.get(version // 10000, 0)
    assert ("lacks a correction of row-level security" in said) == (version < least)


# ---- a second database -------------------------------------------------------------------------------------


@pytest.mark.contract("L2")
def test_a_second_database_and_a_second_installer(cluster: Cluster) -> None:
    for database in ("a", "b"):
        cluster.create(database)
        said = cluster.install(database)
        assert "other roles may act" not in said
    assert cluster.schema("a") == cluster.schema("b")

    cluster.create_role("second_dba")
    cluster.create("c", owner="second_dba")
    before = cluster.state("c")
    done = cluster.psql("c", DIST, user="second_dba")
    assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["RG104"], done.stderr
    assert cluster.state("c") == before

    # The hint's statement, as it stands, by the first installer.
    hint = re.search(r"HINT:.*?: (grant .*?;)", done.stderr)
    assert hint
    with cluster.connect("a") as installer:
        installer.execute(hint[1])
    said = cluster.install("c", user="second_dba")
    assert "other roles may act" in said and f"roles: {INSTALLER}" in said  # it installed first, and may
    assert {row for row in cluster.memberships() if row[1] == "second_dba"} == {
        (role, "second_dba", True, False, False) for role in OWNERS
    }
    for role in OWNERS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            become(cluster, "c", "second_dba", role)
    assert cluster.schema("c").replace("second_dba", INSTALLER) == cluster.schema("a")


@pytest.mark.contract("L2", "A2")
def test_who_made_the_roles_in_advance_is_named(cluster: Cluster) -> None:
    """Whoever made pgrag_engine before anybody installed can become it: the installer must hear of it."""
    cluster.create_role("mallory")
    cluster.create_role("boss", "superuser")
    cluster.create("a")
    with cluster.connect("postgres", "mallory") as mallory:
        mallory.execute("create role pgrag_engine")
    said = cluster.install("a", user="boss")
    assert re.search(r"WARNING: .*other roles may act .*\nDETAIL:  roles: mallory", said)
