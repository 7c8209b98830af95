"""dist/ is what sql/ builds, all of it, and what is installed says what it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pgrag import __version__, _sql
from tests.support import Database

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"


def check(root: Path, *, write: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-P", "-m", "pgrag._sql", *([] if write else ["--check"])]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment)


@pytest.mark.contract("L1")
def test_dist_is_fresh() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.contract("L1")
@pytest.mark.parametrize("change", ["a word", "a file", "rows", "preparation", "no dist", "no upgrade"])
def test_the_check_notices(tmp_path: Path, change: str) -> None:
    """Control, in a copy; and building it puts it right."""
    copy(tmp_path)
    assert check(tmp_path, write=True).returncode == check(tmp_path).returncode == 0
    if change == "a word":
        (tmp_path / "sql" / "functions" / "version.sql").write_text("-- changed\n", encoding="utf-8")
    elif change == "a file":
        (tmp_path / "sql" / "new.sql").touch()
        with (tmp_path / "sql" / "MANIFEST").open("a", encoding="utf-8") as manifest:
            manifest.write("new.sql\n")
    elif change in ("rows", "preparation"):
        kind = "rows" if change == "rows" else "prepare"
        (tmp_path / "migrations" / "sql" / f"{__version__}.{kind}.sql").write_text("-- changed\n", encoding="utf-8")
    else:
        (tmp_path / "dist" / (_sql.script_name() if change == "no dist" else _sql.upgrade_name())).unlink()
    done = check(tmp_path)
    assert done.returncode == 1 and "stale" in done.stderr
    assert check(tmp_path, write=True).returncode == check(tmp_path).returncode == 0


def copy(root: Path) -> None:
    for part in ("pgrag", "sql", "migrations", "dist"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.contract("L1")
def test_what_is_released_is_not_built_again(tmp_path: Path) -> None:
    copy(tmp_path)
    check(tmp_path, write=True)
    frozen = tmp_path / "migrations" / "frozen.sha256"
    frozen.write_text(frozen.read_text(encoding="utf-8") + f"0  dist/{_sql.script_name()}\n", encoding="utf-8")
    assert check(tmp_path, write=True).returncode == 0  # it would be the same
    (tmp_path / "sql" / "functions" / "version.sql").write_text("-- changed\n", encoding="utf-8")
    before = (tmp_path / "dist" / _sql.script_name()).read_bytes()
    done = check(tmp_path, write=True)
    assert done.returncode == 1 and "raise the version" in done.stderr
    assert (tmp_path / "dist" / _sql.script_name()).read_bytes() == before


@pytest.mark.contract("L1")
def test_signatures_are_those_that_postgresql_knows(module_database: Database) -> None:
    """Every function is found by what is read from its file, and nothing else is there."""
    declared = _sql.declarations(_sql.build())
    with module_database.superuser() as superuser:
        found, there = superuser.execute("""
            select array(select to_regprocedure(s)::oid from unnest(%s::text[]) as d (s) order by 1),
                   array(select oid from pg_proc where pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) order by 1)
            """, (list(declared),)).fetchone()  # fmt: skip
    assert len(found) > 80 and found == there
    with pytest.raises(ValueError, match="not written as others are"):
        _sql.declarations("create function pgrag.f(name text) returns text\nlanguage sql")


@pytest.mark.contract("L1")
def test_the_manifest_names_every_file_once() -> None:
    lines = (SQL / "MANIFEST").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith(("#", "@", "[", "<"))]
    files = {path.relative_to(SQL).as_posix() for path in SQL.rglob("*") if path.is_file()}
    assert sorted(listed) == sorted(files - {"MANIFEST", "uninstall.sql"})


@pytest.mark.contract("L1")
def test_a_public_function_has_a_file_of_its_name() -> None:
    for path in SQL.glob("functions/*.sql"):
        made = re.findall(r"^create or replace function (\S+?)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert f"pgrag.{path.stem}" in made, path
        assert [name for name in made if name.startswith("pgrag.")] == [f"pgrag.{path.stem}"], path
        assert f"comment on function pgrag.{path.stem} is " in path.read_text(encoding="utf-8"), path


@pytest.mark.contract("L1")
def test_the_version_is_one(module_database: Database) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with module_database.superuser() as superuser:
        installed, stamped = superuser.execute(
            "select pgrag.version(), (select version_num from public.pgrag_alembic_version)"
        ).fetchone()
    assert {project["version"], installed, stamped} == {__version__}


@pytest.mark.contract("L1")
def test_everything_public_is_explained(module_database: Database) -> None:
    query = """
        select p.oid::regprocedure::text, obj_description(p.oid, 'pg_proc') from pg_proc p where p.pronamespace = 'pgrag'::regnamespace
        union all
        select c.oid::regclass::text, obj_description(c.oid, 'pg_class') from pg_class c
         where c.relnamespace in ('pgrag'::regnamespace, 'pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relkind in ('r', 'v')
        union all
        select n.nspname, obj_description(n.oid, 'pg_namespace') from pg_namespace n where n.nspname like 'pgrag%'"""
    with module_database.superuser() as superuser:
        comments = dict(superuser.execute(query).fetchall())
        assert len(comments) > 55
        assert [name for name, comment in comments.items() if not comment or comment[-1] not in ".;"] == []
        # No function has an overload: a call with named arguments means one thing.
        overloads = superuser.execute(
            "select proname from pg_proc where pronamespace = 'pgrag'::regnamespace group by 1 having count(*) > 1"
        ).fetchall()
    assert overloads == []
