"""The server under test, and databases with pgrag on it.

with running(folder) as dsn:               # embedded; PGRAG_TEST_DSN or PGRAG_TEST_BACKEND=docker change that
    databases = Databases(dsn)
    database = databases.new()             # pgrag, application roles and a signing key, and nothing else
    databases.drop(database)
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgrag import _sql
from tests.support import AUDIENCE, ISSUER, KID, PASSWORD, ROLES, SECRET, Database

TEMPLATE = "pgrag_test_template"
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


@contextmanager
def running(folder: Path) -> Iterator[str]:
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

        with embedded.start(folder, bindir=os.environ.get("PGRAG_TEST_BINDIR"), settings=FAST) as server:
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


class Databases:
    """Copies of one database with pgrag, application roles and a signing key."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._numbers = count(1)
        self._names: set[str] = set()
        with psycopg.connect(dsn, autocommit=True) as superuser:
            create_installer(superuser)
            superuser.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(TEMPLATE)))
            superuser.execute(
                sql.SQL("create database {} owner pgrag_test_installer encoding utf8 template template0").format(
                    sql.Identifier(TEMPLATE)
                )
            )
        database = Database(dsn, TEMPLATE)
        with database.superuser() as superuser:
            superuser.execute("create extension vector")
        install(database.dsn("pgrag_test_installer"))
        with database.superuser() as superuser:
            for role in ROLES:
                login, granted = sql.Identifier(f"app_{role}"), sql.Identifier(f"pgrag_{role}")
                known = superuser.execute("select 1 from pg_roles where rolname = %s", (f"app_{role}",)).fetchone()
                verb = sql.SQL("alter role {} password {}" if known else "create role {} login password {}")
                superuser.execute(verb.format(login, PASSWORD))
                superuser.execute(sql.SQL("grant {} to {}").format(granted, login))
        with database.role("keys") as keys:
            keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (KID, SECRET, ISSUER, AUDIENCE))

    def new(self) -> Database:
        """An empty pgrag database."""
        name = f"pgrag_test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self.dsn, autocommit=True) as superuser:
            superuser.execute(
                sql.SQL("create database {} template {} owner pgrag_test_installer").format(
                    sql.Identifier(name), sql.Identifier(TEMPLATE)
                )
            )
            # A copy has the template's objects, but not the privileges on the database itself.
            superuser.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(name)))
        self._names.add(name)
        return Database(self.dsn, name)

    def drop(self, *databases: Database) -> None:
        """These, or all that were made."""
        with psycopg.connect(self.dsn, autocommit=True) as superuser:
            for name in [d.name for d in databases] or list(self._names):
                superuser.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
                self._names.discard(name)
