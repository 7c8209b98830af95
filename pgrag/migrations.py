"""Alembic for pgrag: it orders versions and records which one a database has; what they are is in ``dist/``.

    upgrade("postgresql://installer@host/db")    # or, for psql: python -m pgrag.migrations upgrade head --sql

The other way, ``dist/pgrag--X.sql`` and ``dist/pgrag--X--Y.sql`` through psql, makes the same database and
leaves the same stamp, so that either can be carried on by the other. Every ``alembic`` command works as
``python -m pgrag.migrations …``, on the database that ``PGRAG_DSN`` names.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

import psycopg
from alembic import command, op
from alembic.config import CommandLine, Config
from sqlalchemy.exc import DBAPIError

from pgrag import _sql

VERSION_TABLE = "pgrag_alembic_version"
VERSION_TABLE_SCHEMA = "public"


def config(dsn: str = "", *, output: TextIO = sys.stdout) -> Config:
    """Alembic's configuration for the database of ``dsn``, a libpq connection string.

    What its commands print, such as SQL, goes to ``output``.
    """
    made = Config(output_buffer=output)
    made.set_main_option("script_location", str(_sql.files("migrations")).replace("%", "%%"))
    made.attributes["dsn"] = dsn
    return made


def upgrade(dsn: str, revision: str = "head") -> None:
    """Bring the database of ``dsn`` to a revision, in one transaction; an empty one gets pgrag.

    Raises psycopg.Error, with an RG code where pgrag refuses (docs/errors.md).
    """
    command.upgrade(config(dsn), revision)


def script(revision: str = "head") -> str:
    """What ``upgrade`` does to an empty database, as a script for psql that is one transaction of its own."""
    output = io.StringIO()
    command.upgrade(config(output=output), revision, sql=True)
    return output.getvalue()


def run(name: str) -> None:
    """Run a script of ``dist/`` in a migration, byte for byte but for the stamp, which Alembic leaves itself.

    ``op.execute`` is not for files: it takes ``:name`` for a parameter and doubles ``%``.
    """
    statements = _sql.unstamped(_sql.released(name))
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(statements)
    else:
        op.get_bind().connection.cursor().execute(statements)


def main() -> None:
    """Run Alembic's command line with pgrag's configuration."""
    line = CommandLine(prog="python -m pgrag.migrations")
    options = line.parser.parse_args()
    if not hasattr(options, "cmd"):
        line.parser.error("too few arguments")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as a script says of itself, whatever the locale is
    try:
        line.run_cmd(config(os.environ.get("PGRAG_DSN", "")), options)
    except (psycopg.Error, DBAPIError, UnicodeError) as error:
        sys.exit(_said(error.orig if isinstance(error, DBAPIError) else error))


def _said(error: BaseException | None) -> str:
    """What went wrong, without a traceback, in which the connection string would be."""
    if not isinstance(error, psycopg.Error) or (
        isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
    ):
        # libpq quotes what it cannot parse, and that may be a password.
        return (
            "error: PGRAG_DSN is not a connection string\nhint: for example postgresql://user@host/database"
        )
    said = error.diag
    fact = said.message_primary or str(error).strip()
    lines = [f"error: {error.sqlstate} {fact}" if error.sqlstate else f"error: {fact}"]
    lines += [f"detail: {said.message_detail}"] if said.message_detail else []
    lines += [f"hint: {said.message_hint}"] if said.message_hint else []
    return "\n".join(lines)


if __name__ == "__main__":
    main()
