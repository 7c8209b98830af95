"""The command line: ``pgrag``, or ``python -m pgrag``. A module for each group of commands."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from pgrag.cli import ask, demo, ingest, init, lifecycle, sql, status, token  # noqa: F401  # they register
from pgrag.cli._run import app


def main() -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without ä is no reason to fail
    app(prog_name="pgrag")


__all__ = ["app", "main"]
