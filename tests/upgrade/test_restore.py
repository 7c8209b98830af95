"""The documented backup holds everything, and what was restored from it answers with the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgrag import _sql
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database
from tests.upgrade.cluster import INSTALLER, Cluster

AS_ENGINE = ("--enable-row-security", "--role=pgrag_engine")
QUESTIONS: list[dict[str, Any]] = [
    {"question": "refund within how many days?", "mode": "lexical"},
    {"question": "refund", "mode": "lexical", "as_of": "2024-03-01T00:00:00Z"},
    {"question": "refund", "mode": "hybrid", "embedding": [0.3, 1, 0.1], "space": "toy"},
    {
        "question": "Rückerstattung für Geschenkkarten",
        "mode": "hybrid",
        "embedding": [0.1, 0.2, 1],
        "space": "toy",
    },
    {"question": "refund", "mode": "dense", "embedding": [1, 0.5, 0], "space": "toy", "fusion": "rrf"},
    {"question": "quantum teleportation", "mode": "lexical"},
]
READERS = [("a", "alice"), ("a", "fay"), ("a", "nobody"), ("b", "alice")]


def fill(database: Database) -> None:
    """Something of everything: nested groups, narrow readers, revisions in force and not, a rollback, a tombstone."""
    for tenant, days in (("a", 30), ("b", 90)):
        database.put_tenant(tenant, sources=("handbook", "wiki"))
        database.put_principals(
            tenant, users=["alice", "fay", "old"], groups={"staff": ["finance"], "finance": ["fay"]}
        )
        with database.admin(tenant) as admin:
            admin.execute("select pgrag.drop_principal('old')")
        with database.writer(tenant, "handbook") as writer:
            put = database.put_document
            put(
                writer,
                "refund.md",
                [f"A refund is paid within {days} days. ", "Keep the receipt: 100% :z \\ 'quoted'."],
                revision="v1",
                vectors=[[1, 0.2, 0], [0, 1, 0]],
                effective_from="2024-01-01",
                dated="2024-01-01",
                tags=["money"],
            )
            put(
                writer,
                "refund.md",
                [f"A refund is paid within {days // 2} days."],
                revision="v2",
                vectors=[[1, 0.3, 0]],
                effective_from="2025-01-01",
            )
            put(
                writer,
                "karten.md",
                "Geschenkkarten: keine Rückerstattung 💶.",
                language="de",
                vectors=[[0, 0, 1]],
                readers=["staff"],
            )
            put(
                writer,
                "exceptions.md",
                "Refund exceptions of key accounts.",
                vectors=[[0.9, 0.1, 0]],
                readers=["finance"],
                revision="v1",
            )
            put(
                writer,
                "exceptions.md",
                "Refund exceptions, withdrawn.",
                vectors=[[0.9, 0.2, 0]],
                readers=["finance"],
                revision="v2",
            )
            writer.execute("select pgrag.rollback('exceptions.md')")
            put(writer, "staged.md", "A refund of tomorrow.", vectors=[[1, 0, 0]], activate=False)
            put(writer, "gone.md", "A refund of yesterday.", vectors=[[1, 0, 0]])
            writer.execute("select pgrag.delete_document('gone.md')")
        with database.writer(tenant, "wiki") as writer:
            database.put_document(
                writer, "refund.md", "A page of the wiki on refund.", vectors=[[0.5, 0.5, 0]]
            )
    with database.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key('retired', %s, 'x', 'y')", (b"r" * 32,))
        keys.execute("select pgrag.retire_signing_key('retired')")


def answers(database: Database) -> list[str]:
    """What every reader is answered, to the byte; of packets, all but issue time and seal."""
    found = []
    for tenant, subject in READERS:
        with database.reader(tenant, subject) as reader:
            for question in QUESTIONS:
                request = (json.dumps(question),)
                found.append(reader.execute("select pgrag.search_json(%s)::text", request).fetchone()[0])
                found.append(
                    reader.execute(
                        "select (pgrag.packet_json(%s) - array['issued_at', 'seal'])::text", request
                    ).fetchone()[0]
                )
    return found


def rows(cluster: Cluster, database: str) -> dict[str, tuple[int, str]]:
    """Count and digest of each table, and the state of each sequence."""
    with cluster.superuser(database) as superuser:
        tables = superuser.execute(
            "select oid::regclass::text, relkind from pg_class where relkind in ('r', 'S') and "
            "relnamespace in (select oid from pg_namespace where nspname in ('pgrag_data', 'pgrag_private', 'public'))"
        ).fetchall()
        assert len(tables) > 20
        query = {
            "r": "select count(*), coalesce(md5(string_agg(t::text, ' ' order by t::text)), '') from {} t",
            "S": "select last_value, is_called::text from {}",
        }
        return {name: superuser.execute(query[kind].format(name)).fetchone() for name, kind in tables}


def backup_role(cluster: Cluster) -> str:
    """As docs/operations.md says."""
    cluster.create_role("backup", "nosuperuser")
    with cluster.superuser() as superuser:
        superuser.execute("grant pgrag_engine to backup with inherit false, set true")
    return "backup"


def dump(cluster: Cluster, database: str, *options: str, user: str = "") -> str:
    done = cluster.run(
        "pg_dump", "--restrict-key=x", *options, "--dbname", database, database=database, user=user
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def restore(cluster: Cluster, script: str, database: str) -> None:
    cluster.create(database, vector=False)
    done = cluster.psql(database, script, user="")
    assert done.returncode == 0, done.stderr
    with cluster.superuser(database) as superuser:
        superuser.execute(f"revoke temporary on database {database} from public")


@pytest.fixture
def filled(cluster: Cluster) -> Database:
    cluster.create("a")
    cluster.install("a")
    database = cluster.furnish("a")
    fill(database)
    return database


@pytest.mark.contract("L1", "L4", "F9")
@pytest.mark.parametrize("how", ["as engine", "as superuser"])
def test_a_restored_database_is_the_same_and_answers_the_same(
    cluster: Cluster, filled: Database, how: str
) -> None:
    before, contents, schema, privileges = (
        answers(filled),
        rows(cluster, "a"),
        cluster.schema("a"),
        cluster.privileges("a"),
    )
    with filled.reader("a", "alice") as reader:
        packet = filled.packet(reader, "refund", "hybrid", embedding=[1, 0.2, 0], space="toy")
        reply = {"answer": "15 days.", "citations": [{"id": "e1", "quote": packet["excerpts"][0]["text"]}]}
        verdict = filled.validate(reader, packet, reply)
    assert verdict["valid"] and answers(filled) == before  # it is deterministic to begin with
    assert len(set(before)) > 24 and sum("chunk_id" in answer for answer in before) > 12

    script = (
        dump(cluster, "a", *AS_ENGINE, user=backup_role(cluster))
        if how == "as engine"
        else dump(cluster, "a")
    )
    roles = cluster.run("pg_dumpall", "--roles-only").stdout
    memberships = cluster.memberships()

    # Everything is lost, and then there is an empty cluster.
    cluster.clean()
    done = cluster.psql("postgres", roles, user="", flags=("-X",))
    assert re.findall(r"ERROR:  (.*)", done.stderr) == ['42710: role "postgres" already exists']
    restore(cluster, script, "b")
    restored = Database(filled.admin_dsn, "b")

    assert cluster.schema("b") == schema
    assert cluster.privileges("b") == privileges
    assert cluster.memberships() == memberships
    assert rows(cluster, "b") == contents
    assert answers(restored) == before
    with restored.reader("a", "alice") as reader:
        assert restored.validate(reader, packet, reply) == verdict
        packet["excerpts"][0]["document"] = "another.md"  # control
        with pytest.raises(psycopg.Error) as caught:
            restored.validate(reader, packet, reply)
        assert caught.value.sqlstate == "RG501"
    # It goes on: identities continue, and nothing that was there is in the way.
    with restored.writer("a", "handbook") as writer:
        restored.put_document(writer, "new.md", "A new refund rule.", vectors=[[1, 0, 0]])
    assert rows(cluster, "b")["pgrag_data.document"][0] == contents["pgrag_data.document"][0] + 1


@pytest.mark.contract("L4")
def test_the_archive_format_restores_too(cluster: Cluster, filled: Database, tmp_path: Path) -> None:
    contents, schema = rows(cluster, "a"), cluster.schema("a")
    archive = ("--format=custom", f"--file={tmp_path / 'a.dump'}")
    done = cluster.run("pg_dump", *AS_ENGINE, *archive, "--dbname=a", user=backup_role(cluster))
    assert done.returncode == 0, done.stderr
    cluster.create("b", vector=False)
    done = cluster.run(
        "pg_restore", "--exit-on-error", "--single-transaction", "--dbname=b", tmp_path / "a.dump"
    )
    assert done.returncode == 0, done.stderr
    assert (cluster.schema("b"), rows(cluster, "b")) == (schema, contents)


@pytest.mark.contract("L4")
@pytest.mark.parametrize("role", ["pgrag_owner", "pgrag_engine"])
def test_a_dump_without_row_security_is_an_error_and_not_an_empty_file(
    cluster: Cluster, filled: Database, role: str
) -> None:
    backup_role(cluster)
    with cluster.superuser() as superuser:
        superuser.execute("grant pgrag_owner to backup with inherit false, set true")
        superuser.execute(
            "alter database a owner to pgrag_owner"
        )  # so that nothing else is in the owner's way
    with cluster.superuser("a") as superuser:
        superuser.execute("grant select on public.pgrag_alembic_version to pgrag_owner")
    done = cluster.run("pg_dump", f"--role={role}", "--dbname=a", database="a", user="backup")
    assert done.returncode != 0
    assert "row-level security" in done.stderr


@pytest.mark.contract("L4")
def test_the_trap_as_owner_a_dump_has_no_rows(cluster: Cluster, filled: Database) -> None:
    """Why it is the engine's: the owner is let through by --enable-row-security, and sees nothing."""
    backup_role(cluster)
    with cluster.superuser("a") as superuser:
        superuser.execute("grant pgrag_owner to backup with inherit false, set true")
        superuser.execute("grant select on public.pgrag_alembic_version to pgrag_owner")
    script = dump(cluster, "a", "--enable-row-security", "--role=pgrag_owner", user="backup")
    restore(cluster, script, "b")
    counts = {name: count for name, (count, _) in rows(cluster, "b").items() if not name.endswith("_seq")}
    assert {name for name, count in counts.items() if count} == {"pgrag_alembic_version"}
    assert rows(cluster, "a")["pgrag_data.chunk"][0] > 10  # control: there was something to see


@pytest.mark.contract("L4")
def test_only_a_role_that_may_become_the_engine_backs_up(cluster: Cluster, filled: Database) -> None:
    for user in (INSTALLER, "app_reader", "app_keys"):
        done = cluster.run("pg_dump", *AS_ENGINE, "--dbname=a", database="a", user="" if user == "" else user)
        assert done.returncode != 0
        assert "permission denied to set role" in done.stderr


@pytest.mark.contract("L4")
def test_a_restore_needs_a_superuser_and_says_so(cluster: Cluster, filled: Database) -> None:
    script = dump(cluster, "a", *AS_ENGINE, user=backup_role(cluster))
    cluster.create("b")
    before = cluster.state("b")
    done = cluster.psql("b", script)
    assert done.returncode == 3 and "ERROR:" in done.stderr
    assert cluster.state("b") == before


@pytest.mark.contract("L4", "A2")
def test_a_backup_without_signing_keys(cluster: Cluster, filled: Database) -> None:
    """It cannot mint anyone; every token is refused until a key is added, and then all is as before."""
    before = answers(filled)
    script = dump(
        cluster, "a", *AS_ENGINE, "--exclude-table-data=pgrag_private.signing_key", user=backup_role(cluster)
    )
    with cluster.superuser("a") as superuser:
        (pad,) = superuser.execute(
            "select inner_pad::text from pgrag_private.signing_key where kid = %s", (KID,)
        ).fetchone()
    assert pad not in script
    assert pad in dump(cluster, "a")  # control
    restore(cluster, script, "b")
    restored = Database(filled.admin_dsn, "b")
    with pytest.raises(psycopg.Error) as caught, restored.reader("a", "alice"):
        pass
    assert caught.value.sqlstate == "RG203"
    with restored.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (KID, SECRET, ISSUER, AUDIENCE))
    assert answers(restored) == before


def maintained(database: Database) -> list[str]:
    """The steps of maintenance until nothing is left to do."""
    steps = [("", True)]
    while steps[-1][1]:
        with database.role("operator") as operator:
            steps.append(operator.execute("select action, remaining from pgrag.maintain('0')").fetchone())
    return [action for action, _ in steps[1:]]


def route(database: Database) -> tuple[str, list[str]]:
    """How a dense search went, and what it found."""
    with database.reader("c", "alice") as reader:
        found = database.search(reader, "Word", "dense", embedding=[1, 0, 1], space="toy")
    return found["policy"]["dense_route"], [hit["chunk_id"] for hit in found["hits"]]


@pytest.mark.contract("L4")
@pytest.mark.parametrize("options", [(), ("--exclude-table=pgrag_block.*",)], ids=["with them", "left out"])
def test_blocks_after_a_restore(cluster: Cluster, options: tuple[str, ...]) -> None:
    """A block serves as the very table that it was built as: of a dump, that may come from a copy of this cluster, none does."""
    cluster.create("a")
    cluster.install("a")
    database = cluster.furnish("a")
    database.put_tenant("c")
    database.put_principals("c", users=["alice"])
    database.put_many("c", "large.md")
    assert route(database)[0] == "exact"
    maintained(database)
    in_block, found = route(database)
    assert in_block == "class_blocks"
    script = dump(cluster, "a", *AS_ENGINE, *options, user=backup_role(cluster))
    assert ("CREATE TABLE pgrag_block." in script) is not bool(options)
    restore(cluster, script, "b")
    restored = Database(database.admin_dsn, "b")
    assert route(restored) == ("exact", found)
    assert maintained(restored) == ["retire", "drop", "create", "copy", "copy", "index", "idle"]
    assert route(restored) == ("class_blocks", found)


def replace_internal_keys(cluster: Cluster, database: str) -> None:
    """As docs/operations.md says."""
    from pgrag import _sql

    with cluster.superuser(database) as superuser, superuser.transaction():
        superuser.execute("delete from pgrag_private.internal_key")
        superuser.execute((_sql.files("sql") / "97_internal_keys.sql").read_text(encoding="utf-8"))


@pytest.fixture
def without_internal_keys(cluster: Cluster, filled: Database) -> tuple[Database, dict[str, Any]]:
    """A database restored from a backup that leaves them out, and a packet from before."""
    with filled.reader("a", "alice") as reader:
        packet = filled.packet(reader, "refund")
        assert filled.validate(reader, packet, REPLY)["valid"]
    script = dump(
        cluster, "a", *AS_ENGINE, "--exclude-table-data=pgrag_private.internal_key", user=backup_role(cluster)
    )
    restore(cluster, script, "b")
    return Database(filled.admin_dsn, "b"), packet


REPLY = {"answer": "15 days.", "citations": [{"id": "e1"}]}


@pytest.mark.contract("L4", "A2", "G5")
def test_a_backup_without_internal_keys(
    cluster: Cluster, without_internal_keys: tuple[Database, dict[str, Any]]
) -> None:
    """New ones are made as docs/operations.md says; then all works, but what the old ones sealed is void."""
    database, packet = without_internal_keys
    with cluster.superuser("b") as superuser, superuser.transaction():
        superuser.execute("delete from pgrag_private.internal_key")
        superuser.execute((_sql.files("sql") / "97_internal_keys.sql").read_text(encoding="utf-8"))
    with database.reader("a", "alice") as reader:
        sealed = database.packet(reader, "refund")
        assert database.validate(reader, sealed, REPLY)["valid"]
        with pytest.raises(psycopg.Error) as caught:
            database.validate(reader, packet, REPLY)
    assert caught.value.sqlstate == "RG501"


@pytest.mark.contract("A2")
def test_without_internal_keys_nobody_is_authenticated(
    without_internal_keys: tuple[Database, dict[str, Any]],
) -> None:
    database, _ = without_internal_keys
    with pytest.raises(psycopg.Error), database.reader("a", "alice") as reader:
        database.search(reader, "refund")


@pytest.mark.contract("G5")
def test_without_internal_keys_no_packet_is_accepted(
    without_internal_keys: tuple[Database, dict[str, Any]],
) -> None:
    database, packet = without_internal_keys
    packet["seal"] = "forged"
    with database.role("reader") as reader, pytest.raises(psycopg.Error):
        reader.execute(
            "select pgrag.validate_reply(%s, %s, %s)",
            (json.dumps(packet), json.dumps(REPLY), database.token("a", "alice")),
        )
