"""Uninstalling: all of one database's pgrag, nothing of another's, and of the cluster's what nobody needs."""

from __future__ import annotations

import re

import pytest
from psycopg import sql

from pgrag import _sql
from tests.support import Database
from tests.upgrade.cluster import DIST, INSTALLER, UNINSTALL, Cluster

SINGLE = ("-X", "-v", "ON_ERROR_STOP=1")  # as its header says: it is one statement


def installed(cluster: Cluster, database: str) -> tuple[str, str, list[str]]:
    """Create and install; what there was before."""
    cluster.create(database)
    before = cluster.state(database)
    cluster.install(database)
    return before


def fill(database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    with database.writer("a", "handbook") as writer:
        database.put_document(
            writer,
            "refund.md",
            ["Refunds within 30 days. ", "Gift cards never."],
            vectors=[[1, 0, 0], [0, 1, 0]],
        )


def ask(database: Database) -> str:
    with database.reader("a", "alice") as reader:
        hits = database.search(reader, "refunds", "hybrid", embedding=[1, 0, 0], space="toy")["hits"]
    return "".join(hit["text"] for hit in hits)


def let_temp_again(cluster: Cluster, database: str, said: str) -> None:
    """The command that the uninstallation ends with, as it stands."""
    hint = re.search(r"HINT:  To let it again: (.*;)", said)
    assert hint
    with cluster.connect(database) as owner:
        owner.execute(hint[1])


@pytest.mark.contract("L2")
@pytest.mark.parametrize("user", [INSTALLER, "boss"])
def test_it_leaves_the_other_database_working_and_at_last_a_clean_cluster(
    cluster: Cluster, user: str
) -> None:
    cluster.create_role("boss", "superuser")
    before = installed(cluster, "a")
    installed(cluster, "b")
    a, b = cluster.furnish("a"), cluster.furnish("b")
    for database in (a, b):
        fill(database)
    answer, schema, memberships = ask(b), cluster.schema("b"), cluster.memberships()
    assert "30 days" in answer

    done = cluster.psql("a", UNINSTALL, user=user, flags=SINGLE)
    assert done.returncode == 0, done.stderr
    assert cluster.schema("a") == before[0]
    assert len(re.findall(r"NOTICE:  \S* ?role pgrag_\w+ stays", done.stderr)) == 10
    assert (ask(b), cluster.schema("b"), cluster.memberships()) == (answer, schema, memberships)
    let_temp_again(cluster, "a", done.stderr)
    assert cluster.privileges("a") == before[2]

    done = cluster.psql("b", UNINSTALL, user=user, flags=SINGLE)
    assert done.returncode == 0, done.stderr
    assert "stays" not in done.stderr
    with cluster.superuser() as superuser:  # the applications' logins are not pgrag's to drop
        for (name,) in superuser.execute(
            "select rolname from pg_roles where rolname like 'app\\_%'"
        ).fetchall():
            superuser.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
    assert cluster.schema("b") == before[0]
    assert cluster.roles() == before[1]
    cluster.install("a")  # and again


@pytest.mark.contract("L2")
def test_it_is_refused_where_pgrag_is_not(cluster: Cluster) -> None:
    cluster.create("a")
    cluster.create("b")
    with cluster.superuser("b") as superuser:  # somebody else's schemas of that name
        superuser.execute(
            "create schema pgrag; create schema pgrag_data; create schema pgrag_private; create table pgrag.precious ()"
        )
    for database in ("a", "b"):
        before = cluster.state(database)
        done = cluster.psql(database, UNINSTALL, flags=SINGLE)
        assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["RG109"], done.stderr
        assert cluster.state(database) == before


@pytest.mark.contract("L2")
@pytest.mark.parametrize("attributes", ["nocreaterole", "createrole"])
def test_another_role_cannot(cluster: Cluster, attributes: str) -> None:
    installed(cluster, "a")
    cluster.create_role("other", attributes)
    before = cluster.state("a")
    done = cluster.psql("a", UNINSTALL, user="other", flags=SINGLE)
    assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["RG104"], done.stderr
    assert cluster.state("a") == before


OBSTACLES = {  # made by a superuser: nobody else can
    "a view of yours": (
        "create view public.mine as select document from pgrag.documents",
        "drop view public.mine",
    ),
    "a table of yours in its schema": ("create table pgrag.mine (a int)", "drop table pgrag.mine"),
    "a table of yours among its tables": (
        "create table pgrag_data.mine (a int)",
        "drop table pgrag_data.mine",
    ),
    "a function of yours in its schema": (
        "create function pgrag_private.mine() returns int return 1",
        "drop function pgrag_private.mine",
    ),
    "a column of its type": (
        "create table public.mine (a pgrag_private.principal)",
        "drop table public.mine",
    ),
    "a foreign key to it": (
        "create table public.mine (a bigint references pgrag_data.tenant)",
        "drop table public.mine",
    ),
}


@pytest.mark.contract("L2")
@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("user", [INSTALLER, "boss"])
def test_what_is_yours_stops_it_and_then_nothing_is_gone(cluster: Cluster, obstacle: str, user: str) -> None:
    create, drop = OBSTACLES[obstacle]
    cluster.create_role("boss", "superuser")
    installed(cluster, "a")
    with cluster.superuser("a") as superuser:
        superuser.execute(create)
        before = cluster.state("a")
        done = cluster.psql("a", UNINSTALL, user=user, flags=SINGLE)
        assert re.findall(r"ERROR:  (\w{5}):", done.stderr) == ["2BP01"], done.stderr
        assert "mine" in done.stderr  # it is named
        assert cluster.state("a") == before
        superuser.execute(drop)
    done = cluster.psql("a", UNINSTALL, user=user, flags=SINGLE)  # control
    assert done.returncode == 0, done.stderr


@pytest.mark.contract("L2")
def test_a_role_that_something_else_depends_on_stays(cluster: Cluster) -> None:
    before = installed(cluster, "a")
    cluster.create("mine", vector=False)
    with cluster.superuser() as superuser:
        superuser.execute("grant connect on database mine to pgrag_reader")
        done = cluster.psql("a", UNINSTALL, flags=SINGLE)
        assert done.returncode == 0, done.stderr
        assert re.findall(r"role (pgrag_\w+) stays", done.stderr) == ["pgrag_reader"]
        assert {row[0] for row in cluster.memberships()} == {"pgrag_reader"}
        superuser.execute("revoke connect on database mine from pgrag_reader; drop role pgrag_reader")
    assert cluster.roles() == before[1]


@pytest.mark.contract("L2")
def test_the_script_that_python_gives_is_this_one(cluster: Cluster) -> None:
    assert _sql.uninstall_script() == UNINSTALL.read_text(encoding="utf-8")
    assert _sql.install_script() == DIST.read_text(encoding="utf-8")
