"""What is installed, and whether it is as it should be: status."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row
from rich.console import Console

import pgrag
from pgrag import __version__
from pgrag.cli._output import line, row, table
from pgrag.cli._run import FAILED, OK, Run, command
from pgrag.errors import InstallError

# From the catalogs, which everybody may read.
_INSTALLED = """
    select has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute') as permitted,
           pg_has_role('pgrag_operator', 'usage') as operator
      from pg_namespace n
      join pg_proc p on p.pronamespace = n.oid and p.proname = 'status'
     where n.nspname = 'pgrag'
"""
_ROW_SECURITY = """
    select count(*) as tables,
           array_agg(n.nspname || '.' || c.relname order by c.relname)
             filter (where not (c.relrowsecurity and c.relforcerowsecurity)) as unforced
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'pgrag_data' and c.relkind in ('r', 'p')
"""


@command("status", "dsn", panel="Set up")
def status(run: Run) -> int:
    """Show what is installed: versions, forced row-level security, and to an operator what there is.

    Any role of pgrag may ask. Exit code 1 where pgrag is not installed or a table is not protected.
    """
    with run.connect() as connection:
        found = _status(connection)
    run.show(found, lambda out: _print(out, found))
    return FAILED if found["unforced"] else OK


def _status(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        installed = cursor.execute(_INSTALLED).fetchone()
        if installed is None:
            raise InstallError("pgrag is not installed in this database", hint="pgrag init installs it.")
        if not installed["permitted"]:
            raise InstallError(
                "the role of this dsn is none of pgrag's",
                hint="grant pgrag_operator, or any other of its roles, to it; or give another --dsn.",
            )
        said = cursor.execute("select pgrag.status() as status").fetchone()
        protected = cursor.execute(_ROW_SECURITY).fetchone()
    assert said is not None and protected is not None
    return {
        **said["status"],
        "client": __version__,
        "tables": protected["tables"],
        "unforced": protected["unforced"] or [],
        "tenants": _tenants(connection) if installed["operator"] else None,
    }


def _tenants(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """What an operator may know: names and numbers, no content."""
    with pgrag.operator(connection) as operator:
        return [
            {
                "tenant": one.tenant,
                "sources": [source.source for source in operator.sources(one.tenant)],
                "spaces": [space.space for space in operator.spaces(one.tenant)],
                "active_space": one.active_space,
            }
            for one in operator.tenants()
        ]


def _print(out: Console, found: dict[str, Any]) -> None:
    shown = table("", "")
    shown.show_header = False
    row(shown, "pgrag", f"{found['version']} in the database, {found['client']} here")
    row(shown, "PostgreSQL", f"{found['server']}{', read-only' if found['read_only'] else ''}")
    row(
        shown,
        "pgvector",
        found["vector"] if found["vector_supported"] else line((_old(found["vector"]), "yellow")),
    )
    row(shown, "row security", _protection(found))
    out.print(shown)
    if found["tenants"] is None:
        out.print(line(("tenants are shown to a role that has pgrag_operator", "dim")))
        return
    tenants = table("tenant", "sources", "embedding spaces")
    for one in found["tenants"]:
        spaces = (f"{name} (active)" if name == one["active_space"] else name for name in one["spaces"])
        row(tenants, one["tenant"], ", ".join(one["sources"]), ", ".join(spaces))
    out.print(tenants)


def _old(version: str) -> str:
    return f"{version}, older than 0.8.4, allowed by pgrag.allow_old_pgvector: update it"


def _protection(found: dict[str, Any]) -> Any:
    if found["unforced"]:
        return line(("NOT forced on: " + ", ".join(found["unforced"]), "bold red"))
    return f"forced on all {found['tables']} tables with tenant data"
