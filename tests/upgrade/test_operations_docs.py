"""docs/install.md and docs/operations.md: their commands, as they stand, one after the other, on an empty cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg import sql

from pgrag import __version__
from tests.support import PASSWORD
from tests.upgrade.cluster import BEFORE, OLD_PGVECTOR, Cluster

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/install.md", "docs/operations.md")


def blocks(page: str) -> list[str]:
    return re.findall(
        r"^```shell\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.contract("L1", "L2", "L4")
def test_the_commands_of_the_pages_work(cluster: Cluster, tmp_path: Path) -> None:
    cluster.clean()
    for part in ("dist", "sql"):
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "psql").symlink_to(cluster.psql_bindir / "psql")
    path = [tmp_path / "bin", cluster.server.bindir, Path(sys.executable).parent, os.environ["PATH"]]
    address = cluster.server.psql_env()
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:postgres:{address['PGPASSWORD']}\n*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment |= {name: address[name] for name in ("PGHOST", "PGPORT")}
    environment |= {
        "PGPASSFILE": str(passwords),
        "PGOPTIONS": OLD_PGVECTOR,
        "PATH": ":".join(map(str, path)),
    }
    environment |= cluster.libraries
    said = {}
    for page in PAGES:
        for number, block in enumerate(blocks(page)):
            for name in re.findall(r"-d (older|large)\b", block):
                if name not in said:  # what the page takes to be there
                    cluster.create(name, "app_owner")
                    said[name] = cluster.install(name, BEFORE, user="app_owner")
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", block],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, (page, block, done.stderr)
            said[page, number] = done.stdout
            with cluster.superuser() as superuser:  # "give the role a password"
                for (name,) in superuser.execute(
                    "select rolname from pg_authid where rolcanlogin and rolpassword is null"
                ).fetchall():
                    superuser.execute(
                        sql.SQL("alter role {} password {}").format(sql.Identifier(name), PASSWORD)
                    )
    assert f'"version": "{__version__}"' in said["docs/install.md", 3]
    assert set(re.findall(r"pgrag_\w+ +\| (\w+)", said["docs/operations.md", 0])) == {
        "app_owner",
        "other_owner",
    }
    assert said["docs/operations.md", 1].startswith("idle")
    assert re.findall(r"^\w+", said["docs/operations.md", 3], re.MULTILINE) == ["part", "block", "document", "vector"]
    assert "shop-2026-12" in said["docs/operations.md", 4]
    # An installation as it is documented: nothing that could be better, but for the server's own programs.
    unwell = json.loads((tmp_path / "doctor.json").read_text())["findings"]
    assert {one["check"] for one in unwell if one["severity"] != "note"} <= {"server_version", "vector"}, unwell

    def tables(database: str) -> int:
        with cluster.superuser(database) as superuser:
            return superuser.execute(
                "select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = 'pgrag_data' and relkind = 'r'"
            ).fetchone()[0]

    assert tables("app") == 0
    assert tables("restored") == tables("other") > 10
    assert "older" in said
    for name in {"older", "large"} & said.keys():  # the latter where this version has a script to prepare it
        assert cluster.schema(name) == cluster.schema("restored")
        assert cluster.privileges(name) == cluster.privileges("restored")
    assert cluster.schema("restored") == cluster.schema("other").replace("other_owner", "app_owner")
    with cluster.superuser("restored") as superuser:
        assert superuser.execute("select kid from pgrag_private.signing_key").fetchall() == [
            ("shop-2026-12",)
        ]
