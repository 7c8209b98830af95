"""A hot standby answers as its primary does: a search writes no table and takes no transaction id, with blocks too."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, call
from tests.functions.patched import scope_limit, small_blocks
from tests.support import Database
from tests.upgrade.cluster import Cluster

SEARCHES: dict[str, dict[str, Any]] = {
    "dense": {"embedding": [1.0, 0.4, 0.2], "space": "toy", "k": 10, "threshold": 0},
    "lexical": {"k": 10, "threshold": 0},
    "hybrid": {"embedding": [1.0, 0.4, 0.2], "space": "toy", "k": 10, "threshold": 0},
}


@contextmanager
def standby(cluster: Cluster, folder: Path) -> Iterator[str]:
    """A copy of the running server that recovers for ever, from the primary's log as far as it was; its socket's directory."""
    with cluster.superuser() as superuser:
        data = Path(superuser.execute("show data_directory").fetchone()[0]).resolve()
        if not data.is_dir() or data == Path("/proc/self/fd"):
            pid = superuser.execute("select pg_backend_pid()").fetchone()[0]
            data = Path(f"/proc/{pid}/cwd").readlink()
        owner = data.stat()
        superuser.execute("select pg_backup_start('test', true)")
        copy = folder / "data"
        shutil.copytree(data, copy, ignore=lambda at, names: set(names) & {"postmaster.pid", "postmaster.opts"} if Path(at) == data else set())
        label = superuser.execute("select labelfile from pg_backup_stop(false)").fetchone()[0]
        superuser.execute("select pg_log_standby_snapshot(), pg_switch_wal()")
    shutil.rmtree(copy / "pg_wal")
    shutil.copytree(data / "pg_wal", copy / "pg_wal")  # with all that was written meanwhile
    (copy / "backup_label").write_text(label, encoding="utf-8")
    (copy / "standby.signal").touch()
    if os.getuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    copy.chmod(0o700)
    identity: dict[str, Any] = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.getuid() == 0 else {}
    settings = {
        "unix_socket_directories": f'"{folder}"', "listen_addresses": "", "port": "5432", "hot_standby": "on", "fsync": "off",
        "autovacuum": "off",
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(cluster.server.bindir / "postgres"), "-D", str(copy), *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))],
            stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **cluster.libraries}, cwd=copy, **identity,
        )  # fmt: skip
    try:
        yield str(folder)
    finally:
        server.terminate()
        server.wait(30)


def connected(folder: str, database: Database) -> psycopg.Connection[Any]:
    for _ in range(300):
        try:
            return psycopg.connect(database.dsn("app_reader", host=folder, port=5432))
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.fail((Path(folder) / "log").read_text(encoding="utf-8")[-2000:])


@pytest.mark.contract("F2", "L3", "L4")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the data directory is found through /proc")
def test_a_standby_answers_as_its_primary(cluster: Cluster) -> None:
    cluster.create("a")
    cluster.install("a")
    database = cluster.furnish("a")
    folder = Path(tempfile.mkdtemp(prefix="pgrag-standby-"))
    try:
        with scope_limit(database), small_blocks(database, 40):
            world = World(database, "a")
            for n in range(30):
                texts = [f"Rule {n} part {m}. " for m in range(4)]
                world.put(f"d{n}", texts, vectors=[[1, n / 10, m] for m in range(4)], readers=["everyone"])
            remaining = True
            while remaining:
                with world.role("operator") as operator:
                    ((_, _, _, remaining, _),) = call(operator, "maintain", "1 hour")
            world.put("loose", "Rule of a loose part.", vectors=[[1, 0.4, 0.2]], readers=["everyone"])
            answers = {mode: world.search("rule part", mode, **request) for mode, request in SEARCHES.items()}
            assert answers["dense"]["policy"]["dense_blocks"] and answers["dense"]["hits"][0]["document"] == "loose"
            World.close()
            with standby(cluster, folder) as host, connected(host, database) as reader:
                assert reader.execute("select pg_is_in_recovery()").fetchone() == (True,)
                reader.execute("select pgrag.authenticate(%s)", (database.token("a", "alice"),))
                for mode, request in SEARCHES.items():
                    assert database.search(reader, "rule part", mode, **request) == answers[mode], mode
                with psycopg.connect(database.dsn("app_operator", host=host, port=5432)) as operator:
                    found = operator.execute("select check_name, severity, finding from pgrag.doctor() where severity in ('error', 'note')").fetchall()
                assert {check for check, severity, _ in found if severity == "error"} - {"vector"} == {"function_bodies"}, found  # those that are patched
                assert ("statistics", "note") in {one[:2] for one in found}
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):  # control: it is one
                    reader.execute("create temporary table x ()")
    finally:
        World.close()
        shutil.rmtree(folder, ignore_errors=True)
