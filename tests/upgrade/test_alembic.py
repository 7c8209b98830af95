"""However it is installed, it is the identical database: compared as full dumps, with roles and memberships beside."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.dialects import postgresql

from pgrag import __version__, _sql, migrations
from tests.upgrade.cluster import (
    AS_DOCUMENTED,
    INSTALLER,
    OLD_PGVECTOR,
    PREPARE,
    UNINSTALL,
    Cluster,
)

HOSTILE = f"{OLD_PGVECTOR} -c search_path=evil,pg_catalog,public -c createrole_self_grant=set,inherit -c standard_conforming_strings=off"


def by_psql(cluster: Cluster) -> None:
    cluster.install("a")


def by_psql_in_an_odd_session(cluster: Cluster) -> None:
    """Settings that would show in definitions, comments or memberships, and a function that would be found first."""
    with cluster.superuser("a") as superuser:
        superuser.execute(
            "create schema evil; create function evil.sha256(bytea) returns bytea return $1; grant usage on schema evil to public"
        )
    cluster.install("a", options=HOSTILE, PGCLIENTENCODING="LATIN1")
    with cluster.superuser("a") as superuser:
        superuser.execute("drop schema evil cascade")


def by_python(cluster: Cluster) -> None:
    with psycopg.connect(cluster.dsn("a")) as installer:
        installer.execute(_sql.install_script())


def by_alembic(cluster: Cluster) -> None:
    migrations.upgrade(cluster.dsn("a"))


def by_alembic_offline(cluster: Cluster) -> None:
    """As one would: the script that `--sql` prints, fed to psql. It is a transaction of its own."""
    done = cluster.psql("a", migrations.script(), flags=("-X", "-v", "ON_ERROR_STOP=1"))
    assert done.returncode == 0, done.stderr


def by_alembic_command(cluster: Cluster) -> None:
    alembic(cluster, "upgrade", "head")


SCRIPTS = [  # which Alembic runs, in this order
    "pgrag--" + "--".join(filter(None, (revision.down_revision, revision.revision))) + ".sql"
    for revision in reversed(list(ScriptDirectory.from_config(migrations.config()).walk_revisions()))
]
WAYS = [by_psql, by_psql_in_an_odd_session, by_python, by_alembic, by_alembic_offline, by_alembic_command]


def alembic(cluster: Cluster, *arguments: str) -> str:
    environment = {
        **os.environ,
        "PGRAG_DSN": cluster.dsn("a"),
        "PYTHONPATH": str(Path(_sql.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pgrag.migrations", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def stamp(cluster: Cluster, database: str = "a") -> list[tuple[str]]:
    with cluster.superuser(database) as superuser:
        return superuser.execute("select version_num from public.pgrag_alembic_version").fetchall()


@pytest.mark.contract("L1")
def test_every_way_of_installing_gives_the_identical_database(cluster: Cluster) -> None:
    found = {}
    for way in WAYS:
        cluster.create("a")
        way(cluster)
        found[way] = (*cluster.state("a"), cluster.memberships(), stamp(cluster))
        cluster.clean()  # the roles too: each way makes its own
        cluster.create_role(INSTALLER)
    for way in WAYS:
        for one, other in zip(found[by_psql], found[way], strict=True):
            assert one == other, way
    schema, roles, privileges, memberships, stamped = found[by_psql]
    # It is not empty on both sides.
    assert len(re.findall(r"^CREATE (?:FUNCTION|TABLE|VIEW|POLICY)", schema, re.MULTILINE)) > 100
    assert "CREATE ROLE pgrag_engine" in roles
    assert "public CONNECT f" in privileges and "public TEMPORARY f" not in privileges
    assert ("pgrag_engine", INSTALLER, True, False, False) in memberships
    assert stamped == [(__version__,)]


DIFFERENCES = [
    "alter table pgrag_data.chunk owner to postgres",
    "grant select on pgrag_data.chunk to pgrag_reader",
    "grant execute on function pgrag.put_tenant to public",
    "revoke execute on function pgrag.search_json from pgrag_reader",
    "comment on function pgrag.search is 'other words'",
    "drop policy pgrag_chunk_engine on pgrag_data.chunk",
    "alter policy pgrag_chunk_select on pgrag_data.chunk using (true)",
    "alter table pgrag_data.chunk no force row level security",
    "alter function pgrag.search_json reset plan_cache_mode",
    "alter function pgrag.search_json volatile",
    "alter function pgrag.search_json security invoker",
    "alter default privileges for role pgrag_engine grant execute on functions to public",
    "alter table pgrag_data.chunk alter column page set not null",
    "grant insert on public.pgrag_alembic_version to pgrag_engine",
    "grant temporary on database a to public",
    "grant pgrag_engine to pgrag_reader",
    "alter role pgrag_engine login",
    "update public.pgrag_alembic_version set version_num = 'other'",
]


@pytest.mark.contract("L1")
def test_the_comparison_would_notice(cluster: Cluster) -> None:
    """Control: each kind of difference, made on purpose, is seen."""
    cluster.create("a")
    cluster.install("a")
    same = (*cluster.state("a"), cluster.memberships(), stamp(cluster))
    with cluster.superuser("a") as superuser:
        for difference in DIFFERENCES:
            superuser.execute(difference)
            other = (*cluster.state("a"), cluster.memberships(), stamp(cluster))
            assert other != same, difference
            same = other


@pytest.mark.contract("L1", "L2", "L4")
@pytest.mark.parametrize(
    "break_, code", [("drop extension vector", "RG101"), ("create schema pgrag_private", "RG105")]
)
def test_a_refusal_reaches_the_caller_of_alembic_and_changes_nothing(
    cluster: Cluster, break_: str, code: str
) -> None:
    cluster.create("a")
    with cluster.superuser("a") as superuser:
        superuser.execute(break_)
    before = cluster.state("a")
    with pytest.raises(psycopg.Error) as caught:
        migrations.upgrade(cluster.dsn("a"))
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    assert cluster.state("a") == before  # no version table either
    done = cluster.psql("a", migrations.script(), flags=("-X", "-v", "ON_ERROR_STOP=1"))
    assert f"ERROR:  {code}:" in done.stderr
    assert cluster.state("a") == before


@pytest.mark.contract("L1")
def test_either_way_carries_on_the_other(cluster: Cluster) -> None:
    """What psql installed is at Alembic's head, and there is nothing for it to do; and what Alembic installed, the script removes."""
    cluster.create("a")
    before = cluster.schema("a")
    cluster.install("a")
    installed = cluster.state("a")
    assert alembic(cluster, "current").split() == [__version__, "(head)"]
    migrations.upgrade(cluster.dsn("a"))
    assert cluster.state("a") == installed
    assert cluster.psql("a", UNINSTALL).returncode == 0

    migrations.upgrade(cluster.dsn("a"))
    assert cluster.state("a") == installed
    assert cluster.psql("a", UNINSTALL, flags=AS_DOCUMENTED).returncode == 0
    assert cluster.schema("a") == before


@pytest.mark.contract("L1")
def test_offline_the_sql_comes_out_byte_for_byte() -> None:
    offline = migrations.script()
    for name in SCRIPTS:
        script = _sql.unstamped(_sql.released(name))
        assert script in offline, name
        # Control: what op.execute and text() would have made of it.
        assert re.search(r":[A-Za-z]", script) and "%" in script
        mangled = str(text(script).compile(dialect=postgresql.dialect()))
        assert mangled != script


@pytest.mark.contract("L1")
def test_alembic_leaves_out_the_stamp_and_nothing_else() -> None:
    stamps = [(_sql.files("sql") / name).read_text(encoding="utf-8") for name in ("stamp.sql", "upgrade/stamp.sql")]
    assert f"values ('{__version__}')" in stamps[0]
    for name, file, stamp in (
        (_sql.script_name(), "stamp.sql", stamps[0]),
        (_sql.upgrade_name(), "upgrade/stamp.sql", stamps[1]),
    ):
        script = _sql.released(name)
        assert _sql.unstamped(script) == script.replace(f"-- sql/{file}\n\n{stamp}\n", "") != script
    with pytest.raises(ValueError, match="stamp"):
        _sql.unstamped(_sql.unstamped(_sql.released(_sql.script_name())))


@pytest.mark.contract("L1")
def test_versions_go_forward_and_what_is_released_is_frozen() -> None:
    """Alembic runs what psql runs, and of an older version that is a file that no longer changes."""
    scripts = ScriptDirectory.from_config(migrations.config())
    assert scripts.get_heads() == [__version__]
    dist = _sql.files("dist")
    frozen = {
        name.removeprefix("dist/"): digest
        for digest, name in map(str.split, (_sql.files("migrations") / "frozen.sha256").read_text(encoding="utf-8").splitlines())
    }
    for revision in scripts.walk_revisions():
        before = [revision.down_revision] if revision.down_revision else []
        runs = re.findall(r"^    migrations\.run\(\"(.*)\"\)$", Path(revision.path).read_text(encoding="utf-8"), re.MULTILINE)
        assert runs == ["pgrag--" + "--".join([*before, revision.revision]) + ".sql"], revision.path
        if revision.revision != __version__:  # both of its scripts
            assert {*runs, _sql.script_name(revision.revision)} <= frozen.keys(), (
                "freeze them: sha256sum dist/pgrag--X--Y.sql dist/pgrag--Y.sql >> migrations/frozen.sha256"
            )
    for name, digest in frozen.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest, name
    # And nothing lies there that is neither released nor of this version.
    built = {_sql.script_name(), _sql.upgrade_name(), *([PREPARE.name] if _sql.prepare_script() else [])}
    assert {path.name for path in dist.iterdir()} == frozen.keys() | built


@pytest.mark.contract("L1")
def test_there_is_no_way_back(cluster: Cluster) -> None:
    cluster.create("a")
    migrations.upgrade(cluster.dsn("a"))
    before = cluster.state("a")
    environment = {
        **os.environ,
        "PGRAG_DSN": cluster.dsn("a"),
        "PYTHONPATH": str(Path(_sql.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pgrag.migrations", "downgrade", "base"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode != 0 and "forward only" in done.stdout + done.stderr
    assert cluster.state("a") == before
