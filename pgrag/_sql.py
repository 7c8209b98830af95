"""The SQL that pgrag ships: read from its files, put in order by ``sql/MANIFEST``, never altered on the way.

``python -m pgrag._sql`` writes ``dist/`` anew; ``--check`` only says whether it is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pgrag import __version__

_PACKAGE = Path(__file__).resolve().parent


def files(part: str) -> Path:
    """The directory of shipped files called ``part`` (``sql``, ``migrations``, ``dist``, ``handbook``).

    In a wheel they lie inside the package; in a checkout, beside it.
    """
    packaged = _PACKAGE / "_files" / part
    if packaged.is_dir():
        return packaged
    return _PACKAGE.parent / ("examples/handbook" if part == "handbook" else part)


def build(*, stamp: bool = True) -> str:
    """The installation script, made of the files that ``MANIFEST`` names in the order that it gives.

    Without ``stamp`` it leaves out what Alembic does itself, for the migration that installs.
    """
    root = files("sql")
    lines = [
        f"-- pgrag {__version__}: installation. Built from sql/ by python -m pgrag._sql; do not edit.",
        "-- As the owner of the database, a role with CREATEROLE, "
        'after a superuser\'s "create extension vector":',
        f"--   psql -X -1 -v ON_ERROR_STOP=1 -f pgrag--{__version__}.sql",
        "",
    ]
    for entry in (root / "MANIFEST").read_text(encoding="utf-8").splitlines():
        if not entry or entry.startswith("#") or (entry == "stamp.sql" and not stamp):
            continue
        if entry == "@installer":
            lines += ["reset role;", ""]
        elif entry.startswith("@"):
            lines += [f"set local role {entry[1:]};", ""]
        else:
            lines += [f"-- sql/{entry}", "", (root / entry).read_text(encoding="utf-8")]
    return "\n".join(lines)


def install_script() -> str:
    """The script that installs this version, as built and committed."""
    return (files("dist") / f"pgrag--{__version__}.sql").read_text(encoding="utf-8")


def uninstall_script() -> str:
    """The script that takes pgrag out of one database, and out of the cluster if no other has it."""
    return (files("sql") / "uninstall.sql").read_text(encoding="utf-8")


def main() -> int:
    """Write ``dist/``, or check it."""
    parser = argparse.ArgumentParser(description="Build dist/ from sql/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when dist/ is stale")
    check = parser.parse_args().check
    target = files("dist") / f"pgrag--{__version__}.sql"
    script = build()
    if check:
        fresh = target.is_file() and target.read_text(encoding="utf-8") == script
        if not fresh:
            print(f"{target.name} is stale: run python -m pgrag._sql", file=sys.stderr)
        return 0 if fresh else 1
    target.write_text(script, encoding="utf-8")
    print(f"wrote {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
