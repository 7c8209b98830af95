"""The SQL that pgrag ships: read from its files and put in order by ``sql/MANIFEST``.

``python -m pgrag._sql`` writes this version's scripts into ``dist/`` anew: the one that installs it and the
one that upgrades the version before. ``--check`` only says whether they are stale. What an older version left
there was released, and stays as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
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


# -- What was built -------------------------------------------------------------------------------------


def script_name(version: str = __version__) -> str:
    """The name of the script that installs a version."""
    return f"pgrag--{version}.sql"


def upgrade_name(kind: str = "") -> str:
    """The name of the script that upgrades the version before; with ``.prepare``, of the one to run first."""
    return f"pgrag--{previous_version()}--{__version__}{kind}.sql"


def released(name: str) -> str:
    """A script of ``dist/``, as built and committed."""
    return (files("dist") / name).read_text(encoding="utf-8")


def install_script() -> str:
    """The script that installs this version."""
    return released(script_name())


def upgrade_script() -> str:
    """The script that upgrades the version before this one."""
    return released(upgrade_name())


def prepare_script() -> str | None:
    """The script to run before that on a large database, or None: not every version has long work to do."""
    name = upgrade_name(".prepare")
    return released(name) if (files("dist") / name).is_file() else None


def uninstall_script() -> str:
    """The script that takes pgrag out of one database, and out of the cluster if no other has it."""
    return (files("sql") / "uninstall.sql").read_text(encoding="utf-8")


def unstamped(script: str) -> str:
    """A script without the part that leaves the stamp, which Alembic does itself."""
    rest, stamps = re.subn(r"^-- sql/(?:upgrade/)?stamp\.sql\n.*?(?=^-- sql/)", "", script, flags=re.M | re.S)
    if stamps != 1:
        raise ValueError("the script does not leave a stamp, or not once")
    return rest


def previous_version() -> str:
    """The version that this one upgrades, in Alembic's order: there is no other."""
    stub = files("migrations") / "versions" / f"{__version__.replace('.', '_')}.py"
    match = re.search(r'^down_revision = "(.*)"$', stub.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{stub.name} does not say which version it follows")
    return match[1]


# -- Building -------------------------------------------------------------------------------------------


def build() -> str:
    """The script that installs this version: every file as it is, in the order of ``MANIFEST``."""
    heading = f"""\
-- pgrag {__version__}: installation. Built from sql/ by python -m pgrag._sql; do not edit.
-- As the owner of the database, a role with CREATEROLE, after a superuser's "create extension vector":
--   psql -X -1 -v ON_ERROR_STOP=1 -f {script_name()}
"""
    return "\n".join([heading, *_parts("install")])


def build_upgrade() -> str:
    """The script that makes this version of the one before: its delta, and all that can be applied again."""
    before = previous_version()
    old, new = released(script_name(before)), build()
    types = [name for name, text in _types(new).items() if _types(old).get(name) == text]
    was, is_ = declarations(old), declarations(new)
    keeps = [signature for signature, text in is_.items() if was.get(signature, text) == text]
    heading = f"""\
-- pgrag {__version__}: upgrade from {before}. Built by python -m pgrag._sql; do not edit.
-- As the role that installed it and owns the database, or a superuser:
--   psql -X -1 -v ON_ERROR_STOP=1 -f {upgrade_name()}

set local pgrag.upgrade_from = '{before}';
set local pgrag.upgrade_to = '{__version__}';
-- Types that both declare alike, and functions that {before} did not declare otherwise: they need not go.
set local pgrag.upgrade_keeps_types = '{_lines(types)}';
set local pgrag.upgrade_keeps_functions =
'{_lines(keeps)}';
"""
    script = "\n".join([heading, *_parts("upgrade")])
    for name in types:  # there is no "or replace" for them
        script = script.replace(_types(new)[name], f"-- create type {name}: as in {before}\n")
    return script


def _parts(kind: str) -> Iterator[str]:
    """The files of a script, each under its name, and the changes of role between them."""
    section = ""
    for entry in (files("sql") / "MANIFEST").read_text(encoding="utf-8").splitlines():
        if not entry or entry.startswith("#"):
            continue
        if entry.startswith("["):
            section = entry.strip("[]")
        elif section not in (kind, "both"):
            continue
        elif entry == "@installer":
            yield "reset role;\n"
        elif entry.startswith("@"):
            yield f"set local role {entry[1:]};\n"
        elif entry.startswith("<"):
            name = entry.strip("<>").replace("X", __version__)
            if (part := _delta(name)) is not None:
                yield f"-- migrations/sql/{name}\n\n{part}"
        else:
            yield f"-- sql/{entry}\n\n" + (files("sql") / entry).read_text(encoding="utf-8")


def _delta(name: str) -> str | None:
    path = files("migrations") / "sql" / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


_FUNCTION = re.compile(
    r"^create (?:or replace )?function (\S+?)\((.*?)\)\s+(?:returns (.*?)\s+)?language ",
    re.MULTILINE | re.DOTALL,
)
_ARGUMENT = re.compile(r"(?:variadic )?p_\w+ (.+?)(?: default .*)?")
_TYPE = re.compile(r"^create type (\S+) as \(\n.*?^\);\n", re.MULTILINE | re.DOTALL)


def declarations(script: str) -> dict[str, str]:
    """The functions that a script makes: signature, as PostgreSQL finds it again, to all that is declared."""
    found = {}
    for name, arguments, result in _FUNCTION.findall(script):
        plain = " ".join(re.sub(r"--.*", "", arguments).split())
        types = []
        for argument in re.split(r", (?=(?:(?:variadic )?p_|out )\w+ )", plain) if plain else ():
            match = _ARGUMENT.fullmatch(argument)
            if match is not None:
                types.append(match[1])
            elif not argument.startswith("out "):
                raise ValueError(f"{name}: an argument is not written as others are: {argument}")
        found[f"{name}({', '.join(types)})"] = f"({plain}) returns {' '.join(result.split())}"
    return found


def _lines(names: list[str]) -> str:
    return "\n".join(names)


def _types(script: str) -> dict[str, str]:
    return {match[1]: match[0] for match in _TYPE.finditer(script)}


def main() -> int:
    """Write ``dist/``, or check it."""
    parser = argparse.ArgumentParser(description="Build this version's scripts in dist/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when dist/ is stale")
    check = parser.parse_args().check
    dist = files("dist")
    frozen = (files("migrations") / "frozen.sha256").read_text(encoding="utf-8")
    stale = 0
    for name, script in {
        script_name(): build(),
        upgrade_name(): build_upgrade(),
        upgrade_name(".prepare"): _delta(f"{__version__}.prepare.sql"),
    }.items():
        if script == (released(name) if (dist / name).is_file() else None):
            continue
        stale = 1
        if check:
            print(f"{name} is stale: run python -m pgrag._sql", file=sys.stderr)
        elif f"dist/{name}\n" in frozen:
            print(f"{name} is released and stays as it is: raise the version", file=sys.stderr)
            return 1
        elif script is None:
            (dist / name).unlink()
            print(f"removed {name}")
        else:
            (dist / name).write_text(script, encoding="utf-8")
            print(f"wrote {name}")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
