"""Installing: init."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg import sql
from rich.console import Console

import pgrag
from pgrag import __version__, _sql
from pgrag.cli._output import line
from pgrag.cli._run import Run, Usage, command
from pgrag.errors import InstallError

_STAMP = "select version_num from public.pgrag_alembic_version"


@command("init", "dsn", panel="Set up")
def init(
    run: Run,
    setup: Annotated[Path | None, typer.Option(help="Then create the tenants, sources and readers of this YAML file.", metavar="FILE")] = None,
    key: Annotated[str | None, typer.Option(help="Then create a signing key of this name.", metavar="KID")] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="Where its secret goes, readable by you alone. Left out: printed, once.", metavar="FILE")
    ] = None,
) -> None:
    """Install pgrag into a database, and say what was done.

    As the owner of the database, a role with CREATEROLE, after a superuser's "create extension vector". What
    is there already stays; a failed installation changes nothing.

    pgrag init --dsn postgresql://owner@localhost/app --key app-2025 --key-file app.key
    """
