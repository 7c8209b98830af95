"""A server of these tests' own: roles belong to a whole cluster, so installing and uninstalling need one to spare.

cluster.create("a")                                    # a database of the installer's, with vector
cluster.install("a")                                   # psql -X -1 -v ON_ERROR_STOP=1 -f dist/pgrag--X.sql
assert cluster.state("a") == before                    # dumps of schema and roles, privileges on the database
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgrag import _sql
from pgrag.embedded import EmbeddedError, EmbeddedServer, find_bindir
from tests.support import AUDIENCE, ISSUER, KID, PASSWORD, ROLES, SECRET, Database

DIST = _sql.files("dist") / _sql.script_name()
BEFORE = _sql.files("dist") / _sql.script_name(_sql.previous_version())
UPGRADE = _sql.files("dist") / _sql.upgrade_name()
PREPARE = _sql.files("dist") / _sql.upgrade_name(".prepare")
UNINSTALL = _sql.files("sql") / "uninstall.sql"
INSTALLER = "dba"
AS_DOCUMENTED = ("-X", "-1", "-v", "ON_ERROR_STOP=1")
OLD_PGVECTOR = "-c pgrag.allow_old_pgvector=on" if os.environ.get("PGRAG_TEST_ALLOW_OLD_PGVECTOR") else ""
Completed = subprocess.CompletedProcess[str]


class Cluster:
    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        # Trees differ: one does not find its own libraries, and the psql of another does not run at all.
        found = [(server.bindir, {}), (server.bindir, {"LD_LIBRARY_PATH": str(server.bindir.parent / "lib")})]
        with suppress(EmbeddedError):
            found.append((find_bindir(), {}))
        for self.psql_bindir, self.libraries in found:
            if self.works("psql"):
                break
        else:
            pytest.skip(f"{server.bindir} has no psql that runs")
        if not self.works("pg_dump"):
            pytest.skip(f"{server.bindir} has no pg_dump that runs")

    def works(self, program: str) -> bool:
        try:
            return self.run(program, "--version").returncode == 0
        except FileNotFoundError:
            return False

    # Programs.

    def run(
        self,
        program: str,
        *arguments: str | Path,
        database: str = "postgres",
        user: str = "",
        stdin: str = "",
        **environment: str,
    ) -> Completed:
        """Run a program of the server's tree, as the superuser unless ``user`` is given."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))
        }
        access = {
            **self.server.psql_env(database),
            **({"PGUSER": user, "PGPASSWORD": PASSWORD} if user else {}),
        }
        bindir = self.psql_bindir if program == "psql" else self.server.bindir
        return subprocess.run(
            [str(bindir / program), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            check=False,
            encoding="utf-8",
            env={**inherited, **access, **self.libraries, **environment},
        )

    def psql(
        self,
        database: str,
        script: str | Path,
        *,
        user: str = INSTALLER,
        flags: tuple[str, ...] = AS_DOCUMENTED,
        options: str = OLD_PGVECTOR,
        **environment: str,
    ) -> Completed:
        """Feed a file, or text, to psql; errors show their codes."""
        given = ("-f", script) if isinstance(script, Path) else ("-f", "-")
        stdin = "" if isinstance(script, Path) else script
        return self.run(
            "psql",
            *flags,
            "-v",
            "VERBOSITY=verbose",
            "-q",
            *given,
            database=database,
            user=user,
            stdin=stdin,
            PGOPTIONS=options,
            **environment,
        )

    def install(self, database: str, script: str | Path = DIST, **more: Any) -> str:
        """Install with psql, which must succeed; what psql says."""
        done = self.psql(database, script, **more)
        assert done.returncode == 0, done.stderr
        return done.stderr

    # Databases and roles.

    def superuser(self, database: str = "postgres", **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.dsn(database), autocommit=True, **more)

    def connect(self, database: str, user: str = INSTALLER) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(database, user), autocommit=True)

    def dsn(self, database: str, user: str = INSTALLER) -> str:
        return self.server.dsn(database, user=user, password=PASSWORD, options=OLD_PGVECTOR)

    def create_role(self, name: str, attributes: str = "createrole") -> None:
        with self.superuser() as superuser:
            superuser.execute(
                sql.SQL("create role {} login {} password {}").format(
                    sql.Identifier(name), sql.SQL(attributes), PASSWORD
                )
            )

    def create(
        self, database: str, owner: str = INSTALLER, *, vector: bool = True, template: str = "encoding utf8"
    ) -> str:
        """A database with an owner and, unless it is to be refused, the extension."""
        with self.superuser() as superuser:
            superuser.execute(
                sql.SQL("create database {} owner {} {} template template0").format(
                    sql.Identifier(database), sql.Identifier(owner), sql.SQL(template)
                )
            )
        if vector:
            with self.superuser(database) as superuser:
                superuser.execute("create extension vector")
        return database

    def clean(self) -> None:
        """Drop every database and role but PostgreSQL's own."""
        with self.superuser() as superuser:
            for (name,) in superuser.execute(
                "select datname from pg_database where datname not in ('postgres', 'template0', 'template1')"
            ).fetchall():
                superuser.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
            names = [
                name
                for (name,) in superuser.execute(
                    "select rolname from pg_roles where rolname not like 'pg\\_%' and not rolname = 'postgres'"
                )
            ]
            if names:
                superuser.execute(
                    sql.SQL("drop role {}").format(sql.SQL(", ").join(map(sql.Identifier, names)))
                )

    def furnish(self, database: str) -> Database:
        """The application's login roles and a signing key, as tests.support.Database wants them."""
        made = Database(self.server.superuser_dsn, database)
        with made.superuser() as superuser:
            for role in ROLES:
                if not superuser.execute(
                    "select 1 from pg_roles where rolname = %s", (f"app_{role}",)
                ).fetchone():
                    superuser.execute(
                        sql.SQL("create role {} login password {}").format(
                            sql.Identifier(f"app_{role}"), PASSWORD
                        )
                    )
                superuser.execute(
                    sql.SQL("grant {} to {}").format(
                        sql.Identifier(f"pgrag_{role}"), sql.Identifier(f"app_{role}")
                    )
                )
        with made.role("keys") as keys:
            keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (KID, SECRET, ISSUER, AUDIENCE))
        return made

    # What there is, as text to compare.

    def schema(self, database: str) -> str:
        """Everything that a dump knows but rows: definitions, owners, privileges, comments, policies."""
        done = self.run(
            "pg_dump", "--schema-only", "--restrict-key=x", "--dbname", database, database=database
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def roles(self) -> str:
        """Every role of the cluster, with attributes and memberships."""
        done = self.run("pg_dumpall", "--roles-only", "--no-role-passwords", "--restrict-key=x")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def privileges(self, database: str) -> list[str]:
        """Who may do what with the database as a whole, TEMP among it: a dump has this only with --create."""
        query = """select format('%s %s %s', coalesce(nullif(a.grantee, 0)::regrole::text, 'public'), a.privilege_type, a.is_grantable)
                     from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                    where d.datname = %s order by 1"""
        with self.superuser() as superuser:
            return [
                text
                for (text,) in superuser.execute(query.replace("'%s %s %s'", "'%%s %%s %%s'"), (database,))
            ]

    def state(self, database: str) -> tuple[str, str, list[str]]:
        return self.schema(database), self.roles(), self.privileges(database)

    def memberships(self) -> set[tuple[str, str, bool, bool, bool]]:
        """Role, member, and whether the member may grant it, inherits it, may become it."""
        query = """select roleid::regrole::text, member::regrole::text, bool_or(admin_option), bool_or(inherit_option), bool_or(set_option)
                     from pg_auth_members where roleid::regrole::text like 'pgrag\\_%' group by 1, 2"""
        with self.superuser() as superuser:
            return set(superuser.execute(query))
