"""The scripts: sql."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pgrag import __version__, _sql
from pgrag.cli._run import Run, Usage, command


@command("sql", panel="Set up")
def script(
    run: Run,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="The script that upgrades a database of the version before.")
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="The script that may be run before that, on a large database.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="The script that takes pgrag out of a database.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it there instead.", metavar="FILE")
    ] = None,
) -> None:
    """Print the SQL that installs pgrag, for whoever installs with psql alone.

    As the owner of the database, a role with CREATEROLE, after a superuser's "create extension vector":

    $ pgrag sql > pgrag.sql && psql -X -1 -v ON_ERROR_STOP=1 -f pgrag.sql
    """
    if upgrade + prepare + uninstall > 1:
        raise Usage("--upgrade, --prepare and --uninstall are different scripts", hint="ask for one of them")
    text: str | None
    if upgrade:
        text = _sql.upgrade_script()
    elif prepare:
        text = _sql.prepare_script()
    else:
        text = _sql.uninstall_script() if uninstall else _sql.install_script()
    if text is None:
        raise Usage(f"the upgrade to {__version__} needs no preparation", hint="run the script of --upgrade")
    if output is not None:
        _write(output, text)
    if run.as_json:
        run.show(
            {"version": __version__, "output": output and str(output), "script": None if output else text},
            lambda out: None,
        )
    elif output is not None:
        run.show(None, lambda out: out.print(f"wrote {output}"))
    else:
        # Not as text: where the locale has no UTF-8, letters would become question marks without a word.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Usage(
            f"{output} cannot be written: {error.strerror}", hint="give a file in a folder of yours"
        ) from None
