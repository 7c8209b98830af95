"""A real server for every test: embedded by default, PGRAG_TEST_DSN (a superuser's) where set, or a container."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgrag import _sql
from tests.support import AUDIENCE, ISSUER, KID, PASSWORD, ROLES, SECRET, Database

TEMPLATE = "pgrag_test_template"
_numbers = count(1)


@pytest.fixture(scope="session")
def server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A superuser's connection string to the server under test."""
    if dsn := os.environ.get("PGRAG_TEST_DSN"):
        yield dsn
    elif os.environ.get("PGRAG_TEST_BACKEND") == "docker":
        postgres = pytest.importorskip("testcontainers.postgres")
        try:
            container = postgres.PostgresContainer("pgvector/pgvector:pg18", driver=None).start()
        except Exception as error:  # the client library has no common class for "no engine answers"
            with warnings.catch_warnings(action="ignore"):
                gc.collect()  # its sockets, left open, would otherwise fail a later test
            pytest.skip(f"no container engine answers: {error}")
        with container:
            yield container.get_connection_url()
    else:
        from pgrag import embedded

        bindir = os.environ.get("PGRAG_TEST_BINDIR")
        fast = {
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": "200",
        }
        with embedded.start(
            tmp_path_factory.mktemp("server") / "data", bindir=bindir, settings=fast
        ) as server:
            yield server.superuser_dsn


def install(dsn: str, script: str | None = None) -> None:
    """Install pgrag through ``dsn`` as one transaction."""
    if os.environ.get("PGRAG_TEST_ALLOW_OLD_PGVECTOR"):
        dsn = psycopg.conninfo.make_conninfo(dsn, options="-c pgrag.allow_old_pgvector=on")
    with psycopg.connect(dsn) as connection:
        connection.execute(script or _sql.build())


def create_installer(superuser: psycopg.Connection, name: str = "pgrag_test_installer") -> None:
    """The least role that can install: CREATEROLE, and owner of the database that it is given."""
    known = superuser.execute("select 1 from pg_roles where rolname = %s", (name,)).fetchone()
    verb = sql.SQL("alter role" if known else "create role")
    superuser.execute(sql.SQL("{} {} login createrole password {}").format(verb, sql.Identifier(name), PASSWORD))


@pytest.fixture(scope="session")
def template(server_dsn: str) -> str:
    """A database with pgrag, application roles and a signing key, which tests get copies of."""
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        create_installer(superuser)
        superuser.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(TEMPLATE)))
        superuser.execute(
            sql.SQL("create database {} owner pgrag_test_installer encoding utf8 template template0").format(
                sql.Identifier(TEMPLATE)
            )
        )
    database = Database(server_dsn, TEMPLATE)
    with database.superuser() as superuser:
        superuser.execute("create extension vector")
    install(database.dsn("pgrag_test_installer"))
    with database.superuser() as superuser:
        for role in ROLES:
            login, granted = sql.Identifier(f"app_{role}"), sql.Identifier(f"pgrag_{role}")
            if not superuser.execute(
                "select 1 from pg_roles where rolname = %s", (f"app_{role}",)
            ).fetchone():
                superuser.execute(sql.SQL("create role {} login password {}").format(login, PASSWORD))
            else:
                superuser.execute(sql.SQL("alter role {} password {}").format(login, PASSWORD))
            superuser.execute(sql.SQL("grant {} to {}").format(granted, login))
    with database.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (KID, SECRET, ISSUER, AUDIENCE))
    return TEMPLATE


@pytest.fixture(scope="session")
def new_database(server_dsn: str, template: str) -> Iterator[Callable[[], Database]]:
    """Makes databases with pgrag and nothing else in them; all are dropped at the end."""
    names: list[str] = []

    def make() -> Database:
        name = f"pgrag_test_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(server_dsn, autocommit=True) as superuser:
            superuser.execute(
                sql.SQL("create database {} template {} owner pgrag_test_installer").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
            # A copy has the template's objects, but not the privileges on the database itself.
            superuser.execute(
                sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name))
            )
        names.append(name)
        return Database(server_dsn, name)

    yield make
    with psycopg.connect(server_dsn, autocommit=True) as superuser:
        for name in names:
            superuser.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Database:
    """An empty pgrag database, this test's own."""
    return new_database()


@pytest.fixture(scope="module")
def module_database(new_database: Callable[[], Database]) -> Database:
    """An empty pgrag database that the tests of one module share."""
    return new_database()


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared collections, from PGRAG_DATA or the folder beside the checkout; the test skips where there are none."""
    shared = Path(__file__).resolve().parents[2] / "shared"
    root = Path(os.environ.get("PGRAG_DATA") or shared / "data")
    if not root.is_dir():
        # A gate that has the folder and not the data would pass by not looking.
        if os.environ.get("CI") and shared.is_dir():
            pytest.fail("../shared is here, and its collections are not")
        pytest.skip("the shared collections are not here; set PGRAG_DATA to their folder")
    return root
