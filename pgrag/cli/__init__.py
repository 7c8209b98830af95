"""The command line: ``pgrag``, or ``python -m pgrag``. A module for each group of commands."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path

from pgrag.cli import (  # noqa: F401  # they register
    ask,
    demo,
    doctor,
    ingest,
    init,
    lifecycle,
    maintain,
    space,
    sql,
    status,
    token,
)
from pgrag.cli._run import app

_ORDER = ("demo", "init", "status", "doctor", "token", "sql", "ingest", "activate", "rollback", "revoke")
app.registered_commands.sort(key=lambda one: _ORDER.index(one.name) if one.name in _ORDER else len(_ORDER))


def main() -> None:
    """Run the command line and exit with its code."""
    with ExitStack() as opened:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:  # closed by whoever started this, a service for example
                setattr(sys, name, opened.enter_context(Path(os.devnull).open(mode)))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a locale without ä is no reason to fail
        app(prog_name="pgrag")


__all__ = ["app", "main"]
