"""The examples, run as a user runs them, and what they say of themselves, against real servers."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import text
from sqlalchemy.orm import Session

import pgrag
from pgrag.errors import NotFound
from pgrag.protocols import Chunk
from tests.support import PASSWORD, Database

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUESTION = "What is the refund window?"


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    """Tenant a: alice is staff, bob is not; one page for all, one for staff, and some that nobody asks for."""
    module_database.put_tenant("a", space=None)
    module_database.put_principals("a", users=["alice", "bob"], groups={"staff": ["alice"]})
    with module_database.writer("a", "handbook") as writer:
        module_database.put_document(writer, "refund.md", "The refund window is thirty days.", revision="1")
        module_database.put_document(
            writer, "goodwill.md", "The goodwill refund window is sixty days.", readers=["staff"]
        )
        for topic in ("parking", "lunch", "badges", "printers", "heating"):
            module_database.put_document(writer, f"{topic}.md", f"Ask the desk about {topic}.")
    return module_database


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, dsn: str, token: str, *questions: str) -> str:
    """What the example prints, run by a Python of its own with nothing but its settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(EXAMPLES.parent),
        "PGRAG_DSN": dsn,
        "PGRAG_TOKEN": token,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", *questions],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- pool.py -----------------------------------------------------------------------------------------------


def test_pool(world: Database) -> None:
    said = run("pool", world.dsn("app_reader"), world.token("a", "bob"), QUESTION, "goodwill", "quantum")
    assert said.splitlines() == [
        f"{QUESTION} -> evidence",
        "  1. handbook:refund.md (1)  " + said.splitlines()[1].split()[-1],
        "goodwill -> abstain",
        "quantum -> abstain",
    ]
    assert "handbook:goodwill.md" in run(
        "pool", world.dsn("app_reader"), world.token("a", "alice"), "goodwill"
    )


@pytest.mark.contract("A2")
def test_the_pool_forgets(world: Database) -> None:
    """An attacker prepares a statement; the next user of the connection must not run it."""
    pool_module = load("pool")
    theft = "prepare theft as select * from pgrag.search('goodwill', p_mode => 'lexical')"
    left = (
        "select (select count(*) from pg_prepared_statements), current_setting('work_mem'), pg_backend_pid()"
    )
    outcomes = []
    for reset in (pool_module.discard, None):
        with pool_module.open_pool(world.dsn("app_reader"), size=1) as pool:
            pool._reset = reset
            with pool.connection() as connection, pgrag.reader(connection, world.token("a", "bob")):
                before = connection.execute(left).fetchone()
                connection.execute(theft)
                connection.execute("set work_mem = '17MB'")
            with pool.connection() as connection, pgrag.reader(connection, world.token("a", "alice")) as r:
                assert r.whoami().subject == "alice" and connection.prepare_threshold is None
                after = connection.execute(left).fetchone()
            assert before is not None and after is not None and before[2] == after[2]  # one connection
            outcomes.append(before == after)
            assert after[0] == (0 if reset else 1)
    assert outcomes == [True, False]  # without the reset, both are still there: the control


# -- sqlalchemy_session.py ---------------------------------------------------------------------------------


def test_sqlalchemy_session(world: Database) -> None:
    said = run("sqlalchemy_session", world.dsn("app_reader"), world.token("a", "alice"), QUESTION)
    assert said.splitlines() == [
        "evidence, 2 excerpts, within 5s",
        "  [e1] handbook:refund.md  The refund window is thirty days.",
        "  [e2] handbook:goodwill.md  The goodwill refund window is sixty days.",
    ]
    assert "1 excerpts" in run(
        "sqlalchemy_session", world.dsn("app_reader"), world.token("a", "bob"), QUESTION
    )


def test_the_transaction_stays_sqlalchemys(world: Database) -> None:
    engine = load("sqlalchemy_session").open_engine(world.dsn("app_writer"))
    token = world.token("a", "connector", "writer", source="handbook")

    def write(target: Any, key: str) -> None:
        with pgrag.writer(target, token) as w:
            revision = w.stage(key, "Text.").revision
            w.add_chunks(key, revision, [Chunk("Text.", 0, 5)], None, [1])
            w.verify(key, revision, 1)
            w.activate(key, revision)

    for keep in (False, True):
        key = f"sqlalchemy-{keep}.md"
        with Session(engine) as session:
            write(session, key)  # the first thing that happens in the session: its transaction begins here
            assert session.in_transaction()
            with pytest.raises(NotFound), pgrag.writer(session, token) as w:
                w.activate("absent.md", "1")
            assert session.execute(text("select 1")).scalar_one() == 1  # an error cost a savepoint, no more
            session.commit() if keep else session.rollback()
        with world.writer("a", "handbook") as connection:
            there = connection.execute("select document from pgrag.list_documents()").fetchall()
        assert ((key,) in there) == keep

    with engine.connect() as connection:  # a Core connection, too
        write(connection, "core.md")
        with pytest.raises(Exception, match="nobody is authenticated"):
            connection.execute(text("select * from pgrag.whoami()"))
        connection.rollback()
    engine.dispose()


# -- pgbouncer.py ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pooler(world: Database) -> Iterator[str]:
    """A connection string of the readers' role through PgBouncer in transaction mode with one server connection."""
    with running_pgbouncer(world) as dsn:
        yield dsn


@contextmanager
def running_pgbouncer(world: Database, *settings: str) -> Iterator[str]:
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer here: apt-get install pgbouncer")
    server = conninfo_to_dict(world.dsn())
    # PgBouncer refuses to be root, and whoever runs it must be able to reach the server's socket.
    socket = Path(str(server["host"])) / f".s.PGSQL.{server.get('port', 5432)}"
    uid = os.geteuid() or (socket.stat().st_uid if socket.exists() else 0) or pwd.getpwnam("nobody").pw_uid
    home = Path(tempfile.mkdtemp(prefix="pgb-"))  # short enough for a socket, and nobody's home
    target = " ".join(f"{name}={server[name]}" for name in ("host", "port") if server.get(name))
    (home / "pgbouncer.ini").write_text(
        f"""\
[databases]
{world.name} = {target} pool_size=1

[pgbouncer]
listen_port = 6432
unix_socket_dir = {home}
auth_type = scram-sha-256
auth_file = {home}/users.txt
pool_mode = transaction
logfile = {home}/log
pidfile = {home}/pid
"""
        + "\n".join(settings)
    )
    (home / "users.txt").write_text(f'"app_reader" "{PASSWORD}"\n')
    for path in (home, *home.iterdir()):
        os.chown(path, uid, -1)
    as_user = (
        {"user": uid, "group": pwd.getpwuid(uid).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    process = subprocess.Popen(
        [program, "-q", home / "pgbouncer.ini"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **as_user,
    )  # type: ignore[call-overload]
    try:
        dsn = make_conninfo(
            "", host=str(home), port=6432, dbname=world.name, user="app_reader", password=PASSWORD
        )
        deadline = time.monotonic() + 10
        while not (home / ".s.PGSQL.6432").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(
                    f"pgbouncer did not start: {(home / 'log').read_text() if (home / 'log').exists() else ''}"
                )
            time.sleep(0.02)
        yield dsn
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(home)


def test_pgbouncer(world: Database, pooler: str) -> None:
    said = run("pgbouncer", pooler, world.token("a", "alice"), QUESTION, "goodwill")
    lines = said.splitlines()
    assert lines[0].startswith("alice on backend ") and lines[0].endswith(f": {QUESTION} -> evidence")
    assert "1. handbook:refund.md" in lines[1] and "handbook:goodwill.md" in said
    assert "goodwill.md" not in run("pgbouncer", pooler, world.token("a", "bob"), QUESTION, "goodwill")


@pytest.mark.contract("A2")
def test_readers_take_turns_on_one_server_connection(world: Database, pooler: str) -> None:
    seen: dict[str, set[tuple[str, ...]]] = {"alice": set(), "bob": set()}
    backends = set()
    with pgrag.connect(pooler) as first, pgrag.connect(pooler) as second:
        for turn in range(60):
            subject = ("alice", "bob")[turn % 2]
            connection = (first, second)[turn // 2 % 2]
            with pgrag.reader(connection, world.token("a", subject)) as r:
                assert r.whoami().subject == subject
                seen[subject].add(tuple(sorted(hit.document for hit in r.search("window").hits)))
                backends.add(connection.execute("select pg_backend_pid()").fetchone())
    assert seen == {"alice": {("goodwill.md", "refund.md")}, "bob": {("refund.md",)}}
    assert len(backends) == 1


@pytest.mark.contract("A2")
def test_a_principal_that_was_left_or_stolen_is_refused(world: Database, pooler: str) -> None:
    ask = "select subject, pg_backend_pid() from pgrag.whoami()"

    def refused(connection: psycopg.Connection[Any], code: str) -> None:
        with pytest.raises(psycopg.Error) as error:
            connection.execute(ask)
        assert error.value.sqlstate == code
        connection.rollback()

    with pgrag.connect(pooler) as victim, pgrag.connect(pooler) as thief:
        with pgrag.reader(victim, world.token("a", "alice")) as r:
            stolen = victim.execute("select current_setting('pgrag.principal')").fetchone()
            assert stolen is not None and stolen[0].startswith("v1|")
            backend = victim.execute(ask).fetchone()
            assert backend is not None and backend[0] == "alice" == r.whoami().subject
            # Control: in the transaction that it was made for, the value counts, also when it is set by hand.
            victim.execute("select set_config('pgrag.principal', '', true)")
            victim.execute("select set_config('pgrag.principal', %s, true)", stolen)
            assert victim.execute(ask).fetchone() == backend
        refused(thief, "RG201")  # nothing was left by the transaction that ended

        thief.execute("select set_config('pgrag.principal', %s, true)", stolen)
        refused(thief, "RG208")  # the same backend, another transaction

        # The victim's own code, or SQL injected into it, leaves the value on the server connection.
        with pgrag.reader(victim, world.token("a", "alice")):
            victim.execute("select set_config('pgrag.principal', current_setting('pgrag.principal'), false)")
        left = thief.execute("select current_setting('pgrag.principal'), pg_backend_pid()").fetchone()
        thief.rollback()
        assert left is not None and left[0].startswith("v1|") and left[1] == backend[1]  # it is really there
        refused(thief, "RG208")
        # Control: a token of one's own works on the very same server connection, and as oneself.
        with pgrag.reader(thief, world.token("a", "bob")) as r:
            assert r.whoami().subject == "bob" and thief.execute(ask).fetchone() == ("bob", backend[1])
        refused(thief, "RG208")
        thief.execute("reset all")
        thief.commit()
        refused(thief, "RG201")


@pytest.mark.contract("A2")
def test_what_the_pooler_can_clean_up(world: Database, pooler: str) -> None:
    """A prepared statement stays on the server connection, unless PgBouncer is told to reset it always."""
    theft = "prepare theft as select document from pgrag.search('goodwill', p_mode => 'lexical')"
    with running_pgbouncer(
        world, "server_reset_query = DISCARD ALL", "server_reset_query_always = 1"
    ) as cleaning:
        for dsn, outcome in ((cleaning, None), (pooler, [("goodwill.md",)])):
            with pgrag.connect(dsn) as thief, pgrag.connect(dsn) as victim:
                with pgrag.reader(thief, world.token("a", "bob")):
                    thief.execute("deallocate all")
                    thief.execute(theft)
                    assert thief.execute("execute theft").fetchall() == []  # as bob, there is nothing
                if outcome is None:
                    session = pgrag.reader(victim, world.token("a", "alice"))
                    with pytest.raises(psycopg.errors.InvalidSqlStatementName), session:
                        victim.execute("execute theft")
                else:  # control: it runs as whoever comes next
                    with pgrag.reader(victim, world.token("a", "alice")):
                        assert victim.execute("execute theft").fetchall() == outcome
                        victim.execute("deallocate all")
