"""Searching while documents are replaced, revoked and deleted, for ten turnovers of the corpus, with maintenance and without.

A turnover touches every document once: seven of ten get a new revision, one moves to other readers, one goes and comes
back, one is replaced by another document. A process writes as fast as it can, each document in a transaction of its own;
another calls pgrag.maintain(); the reader asks all the while, and every few questions also asks exactly, in the same
snapshot. At the end, at rest, the same questions are asked of a server on which the last state was put afresh.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

import pgrag
from benchmarks import _metrics, _run
from benchmarks._encoder import say
from benchmarks._report import Report, plot
from benchmarks._scale import word
from benchmarks._server import ALL, Server, literal, throw_away
from benchmarks._synthetic import TOPICS, Space
from pgrag.protocols import EmbeddingSpace

TENANT, EACH, DIMENSION = "churn", 20, 384
"""EACH is chunks of a document."""
SPACE = EmbeddingSpace("made-up", "made-up", "1", DIMENSION)
CLASSES = (0.35, 0.25, 0.2, 0.15, 0.05)
"""The share of each access class; the reader is in the groups of all but the last."""
WAIT_MS = 50
ARMS = ("maintained", "unmaintained")
KINDS = ("replace", "revoke", "restore", "delete")
CHANCES = (0.7, 0.1, 0.1, 0.1)
SERVER = {"autovacuum": "on", "autovacuum_naptime": "10s", "maintenance_work_mem": "512MB"}


def main() -> int:
    """Run, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="3,000 chunks and 2 turnovers: about a minute")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="rows of arm, collection, metric, value; FILE.meta.json and a plot beside it",
    )
    parser.add_argument("--chunks", type=int, metavar="N", help="30000 (short: 3000)")
    parser.add_argument("--turnovers", type=int, metavar="N", help="10 (short: 2)")
    parser.add_argument("--questions", type=int, metavar="N", help="at rest (400; short: 40)")
    parser.add_argument("--seed", type=int, default=20, help="of everything drawn (%(default)s)")
    options = parser.parse_args()
    started = time.perf_counter()
    plan = Plan(
        (options.chunks or (3_000 if options.short else 30_000)) // EACH,
        options.turnovers or (2 if options.short else 10),
        options.seed,
    )
    asked = plan.questions(options.questions or (40 if options.short else 400))
    report, cell = Report(options, "churn"), f"{plan.count * EACH // 1000}k"
    for arm in ARMS:
        churned(arm, plan, asked, cell, report, options)
    if options.json:
        panels = {
            metric: {
                arm: {
                    str(row["turnover"]): row["value"]
                    for row in report.rows
                    if row["arm"] == arm and row["metric"] == metric and "turnover" in row
                }
                for arm in ARMS
            }
            for metric in ("p50_ms", "p95_ms", "recall@10", "index_bytes")
        }
        turnovers = [str(number) for number in range(1, plan.turnovers + 1)]
        plot(options.json.with_suffix(".svg"), f"{cell} chunks, by turnover", turnovers, panels)
    report.close({}, time.perf_counter() - started)
    return 0


# -- What happens -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Document:
    """What a place in the corpus has: the document's key, its revision and the class of its readers."""

    key: str
    revision: int
    group: int


@dataclass(frozen=True)
class Plan:
    """All that happens, drawn from the seed: whoever has it, in whichever process, has the same."""

    count: int
    turnovers: int
    seed: int

    def begin(self) -> list[Document]:
        """The corpus at first."""
        groups = np.random.default_rng(self.seed).choice(len(CLASSES), self.count, p=CLASSES)
        return [Document(f"{place}", 0, int(group)) for place, group in enumerate(groups)]

    def turnover(self, number: int, state: list[Document]) -> Iterator[tuple[str, int, Document, Document]]:
        """What is done in a turnover: kind, place, before, after. The state changes as one goes on."""
        draw = np.random.default_rng((self.seed, number))
        for place in draw.permutation(self.count):
            before, kind = state[place], KINDS[int(draw.choice(len(KINDS), p=CHANCES))]
            group = int(draw.choice(len(CLASSES), p=CLASSES))
            match kind:
                case "replace":
                    after = Document(before.key, number, before.group)
                case "revoke":
                    after = Document(before.key, before.revision, group)
                case "restore":
                    after = before
                case _:
                    after = Document(f"{place}.{number}", number, group)
            state[place] = after
            yield kind, int(place), before, after

    def end(self) -> list[Document]:
        """The corpus after all turnovers."""
        state = self.begin()
        for number in range(1, self.turnovers + 1):
            for _ in self.turnover(number, state):
                pass
        return state

    def middle(self, space: Space, place: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What the documents of a place are about, in latent coordinates."""
        draw = np.random.default_rng((self.seed, 1, place))
        return space.documents(draw.integers(TOPICS, size=1), draw)

    def vectors(self, space: Space, place: int, revision: int) -> list[str]:
        """Of the chunks of a revision, as text."""
        draw = np.random.default_rng((self.seed, 2, place, revision))
        return [literal(row) for row in space.chunks(self.middle(space, place), EACH, draw)]

    def questions(self, count: int) -> list[str]:
        """Vectors of questions, as text: about what is there, and every other about what is not."""
        space, draw = Space(DIMENSION), np.random.default_rng((self.seed, 3))
        places = draw.integers(2 * self.count, size=count + 5)
        middles = np.concatenate([self.middle(space, int(place)) for place in places])
        return [literal(row) for row in space.questions(middles, draw)]


class Writer:
    """Does what the plan says, on a connection of its own."""

    def __init__(self, connection: psycopg.Connection[Any], token: str, plan: Plan) -> None:
        self._connection, self._token, self._plan, self._space = connection, token, plan, Space(DIMENSION)

    def put(self, place: int, document: Document) -> None:
        """Stage, add, verify, and put in force for its readers."""
        draw = np.random.default_rng((self._plan.seed, 4, place, document.revision))
        texts = [" ".join(map(word, its)) + "\n" for its in draw.integers(3_000, size=(EACH, 12))]
        ends = np.cumsum([len(text) for text in texts]).tolist()
        starts, key, revision = [0, *ends[:-1]], document.key, str(document.revision)
        vectors = self._plan.vectors(self._space, place, document.revision)
        self._run(
            ("select pgrag.stage_revision(%s, %s, '', 'en', %s, p_space => %s)", (key, "".join(texts), revision, SPACE.space)),
            ("select pgrag.add_chunks(%s, %s, 1, %s, %s, %s, %s, p_embeddings => %s::public.vector[])",
             (key, revision, texts, starts, ends, [12] * EACH, vectors)),
            ("select pgrag.verify_revision(%s, %s, %s)", (key, revision, EACH)),
            *self._access(document),
            ("select pgrag.activate(%s, %s)", (key, revision)),
        )  # fmt: skip

    def do(self, kind: str, place: int, before: Document, after: Document) -> None:
        """One step of the plan."""
        match kind:
            case "replace":
                self.put(place, after)
            case "revoke":
                self._run(*self._access(after))
            case "restore":
                self._run(("select pgrag.delete_document(%s)", (before.key,)))
                self._run(
                    ("select pgrag.activate(%s, %s, p_restore => true)", (after.key, str(after.revision)))
                )
            case _:
                self._run(("select pgrag.delete_document(%s)", (before.key,)))
                self.put(place, after)

    def _access(self, document: Document) -> Iterator[tuple[str, tuple[Any, ...]]]:
        yield "select pgrag.set_access(%s, %s)", (document.key, [f"group {document.group}"])

    def _run(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        with self._connection.transaction(), self._connection.pipeline():
            self._connection.execute("select pgrag.authenticate(%s)", (self._token,))
            for statement, parameters in statements:
                self._connection.execute(statement.encode(), parameters)


def write(dsn: str, token: str, plan: Plan, turn: Any) -> None:
    """The writing process: all turnovers, and ``turn`` says how many are over."""
    state = plan.begin()
    with psycopg.connect(dsn, autocommit=True) as connection:
        writer = Writer(connection, token, plan)
        for number in range(1, plan.turnovers + 1):
            for step in plan.turnover(number, state):
                writer.do(*step)
            turn.value = number


# -- Servers, and what goes on beside the reader ------------------------------------------------------------


@contextmanager
def corpus(plan: Plan, state: list[Document], short: bool) -> Iterator[Server]:
    """A server with the documents of a state, maintained."""
    with throw_away(**SERVER) as server:
        server.put_tenant(TENANT, SPACE)
        if short:  # so that a small class has a block too
            server.connection.execute(
                "update pgrag_data.search_cost set microseconds = 100 where part = 'block'"
            )
        with pgrag.admin(server.connection, server.token(TENANT, "benchmark", "admin")) as admin:
            for group in range(len(CLASSES)):
                admin.put_principal(f"group {group}", "group")
                if group < len(CLASSES) - 1:
                    admin.put_membership(f"group {group}", ALL)
        writer = Writer(server.connection, server.token(TENANT, "benchmark", "writer"), plan)
        for place, document in enumerate(state):
            writer.put(place, document)
        server.connection.execute("vacuum (analyze)")
        maintain(server.connection)
        yield server


def maintain(connection: psycopg.Connection[Any]) -> bool:
    """Maintenance until nothing remains to be done; whether there was anything."""
    worked = False
    while True:
        action, *_, remaining, _ = connection.execute(
            "select * from pgrag.maintain(p_keep => '5 seconds')"
        ).fetchone() or ("idle", False, None)
        worked = worked or action not in ("idle", "busy")
        if not remaining:
            return worked


@dataclass
class Watch:
    """Threads beside the reader: one looks for its waits, one maintains where that is wanted."""

    server: Server
    pid: int
    maintained: bool
    longest: float = 0.0
    """Milliseconds of the longest wait for a lock that was seen."""
    waits: int = 0
    actions: int = 0
    failed: list[BaseException] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Run both until the end of the block."""
        threads = [
            threading.Thread(target=self._guard, args=(work,)) for work in (self._locks, self._maintain)
        ]
        for thread in threads[: 2 if self.maintained else 1]:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads[: 2 if self.maintained else 1]:
                thread.join()
        if self.failed:
            raise self.failed[0]

    def _guard(self, work: Callable[[psycopg.Connection[Any]], None]) -> None:
        try:
            with psycopg.connect(self.server.embedded.superuser_dsn, autocommit=True) as connection:
                while not self._over.is_set():
                    work(connection)
        except Exception as error:
            self.failed.append(error)

    def _locks(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(
            "select 1000 * extract(epoch from max(clock_timestamp() - waitstart))::float8 from pg_locks where pid = %s and not granted",
            (self.pid,),
        ).fetchone()
        if row and row[0] is not None:
            self.longest, self.waits = max(self.longest, row[0]), self.waits + 1
        time.sleep(0.005)

    def _maintain(self, connection: psycopg.Connection[Any]) -> None:
        if maintain(connection):
            self.actions += 1
        self._over.wait(1)


# -- Measuring ----------------------------------------------------------------------------------------------

SEARCH = """select chunk_id from pgrag.search('question', 10, 'dense', %s::public.vector, %s, p_isolation => %s, p_token => %s)"""


class Reader:
    """Asks on a connection of its own."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.connection = stack.enter_context(psycopg.connect(server.embedded.superuser_dsn, autocommit=True))
        self._token = server.token(TENANT, ALL)

    def ask(self, vector: str, isolation: str = "auto") -> list[str]:
        """The ten best chunks."""
        rows = self.connection.execute(
            SEARCH.encode(), (vector, SPACE.space, isolation, self._token), prepare=False
        )
        return [row[0] for row in rows]

    def recall(self, vector: str) -> float:
        """Of the ten that are nearest in the same snapshot, the share that is found."""
        with self.connection.transaction():
            self.connection.execute("set transaction isolation level repeatable read")
            exact = self.ask(vector, "strict")
            return len(set(exact) & set(self.ask(vector))) / max(1, len(exact))


def churned(
    arm: str, plan: Plan, asked: list[str], cell: str, report: Report, options: argparse.Namespace
) -> None:
    """One arm: the turnovers, and the end against a fresh build."""
    with ExitStack() as stack:
        server = stack.enter_context(corpus(plan, plan.begin(), options.short))
        report.meta["versions"] |= server.versions()
        reader, lines = Reader(server, stack), []
        watch = Watch(server, reader.connection.info.backend_pid, arm == "maintained")
        context = multiprocessing.get_context("spawn")
        turn = context.Value("i", 0)
        process = context.Process(
            target=write,
            args=(server.embedded.superuser_dsn, server.token(TENANT, "benchmark", "writer"), plan, turn),
        )
        started = time.perf_counter()
        process.start()
        with watch.watching():
            for number in range(1, plan.turnovers + 1):
                taken, recalls, place = list[float](), list[float](), 0
                while (turn.value < number and process.is_alive()) or len(taken) < 20:
                    vector = asked[place % len(asked)]
                    begun = time.perf_counter()
                    reader.ask(vector)
                    taken.append(1000 * (time.perf_counter() - begun))
                    if place % 10 == 0:
                        recalls.append(reader.recall(vector))
                    place += 1
                figures = {
                    "p50_ms": _metrics.percentile(taken, 0.5),
                    "p95_ms": _metrics.percentile(taken, 0.95),
                    "recall@10": float(np.mean(recalls)),
                    **sizes(server),
                }
                for metric, value in figures.items():
                    report.row(arm, f"{cell}/{number}", metric, value, turnover=number)
                lines.append([str(number), *(f"{value:.3g}" for value in figures.values()), str(len(taken))])
                say(f"{arm}: turnover {number} over at {time.perf_counter() - started:.0f} s")
            process.join()
        if process.exitcode:
            raise RuntimeError(f"the writer ended with {process.exitcode}")
        report.table(f"{arm}, {cell} chunks, under load", ["turnover", *figures, "questions"], lines)
        row = server.connection.execute(
            "select count(*) from pgrag_data.document where deleted_at is null"
        ).fetchone()
        if row != (plan.count,):
            raise RuntimeError(f"{row} of {plan.count} documents are left")
        report.row(arm, cell, "longest_lock_wait_ms", watch.longest, waits_seen=watch.waits, bound_ms=WAIT_MS)
        report.say(f"{arm}: the longest wait of the reader for a lock that was seen: {watch.longest:.1f} ms")
        fresh = stack.enter_context(corpus(plan, plan.end(), options.short))
        if watch.maintained:
            maintain(server.connection)
        at_rest(arm, {arm: reader, "fresh": Reader(fresh, stack)}, asked, cell, report, options.seed)


def at_rest(
    arm: str, readers: Mapping[str, Reader], asked: list[str], cell: str, report: Report, seed: int
) -> None:
    """Both servers asked in turns, with nothing else going on: the interval of the p95's ratio, and recall."""
    searches: dict[str, Callable[[Any], object]] = {name: reader.ask for name, reader in readers.items()}
    queries: list[Any] = asked
    _run.times(searches, queries[:5])
    taken = {name: np.array(its) for name, its in _run.times(searches, queries[5:]).items()}
    recalls = {
        name: float(np.mean([reader.recall(vector) for vector in asked])) for name, reader in readers.items()
    }
    chosen = np.random.default_rng(seed).integers(len(queries) - 5, size=(2000, len(queries) - 5))
    p95 = {name: np.quantile(its[chosen], 0.95, axis=1) for name, its in taken.items()}
    low, high = np.quantile(p95[arm] / p95["fresh"], (0.025, 0.975))
    lines = []
    for name, its in taken.items():
        middle, late = (_metrics.percentile(its.tolist(), share) for share in (0.5, 0.95))
        label = name if name == arm else f"fresh/{arm}"
        report.row(label, cell, "p50_ms", middle)
        report.row(label, cell, "p95_ms", late)
        report.row(label, cell, "recall@10", recalls[name])
        lines.append([name, f"{middle:.2f}", f"{late:.2f}", f"{recalls[name]:.3f}"])
    ratio = _metrics.percentile(taken[arm].tolist(), 0.95) / _metrics.percentile(
        taken["fresh"].tolist(), 0.95
    )
    report.row(arm, cell, "p95_ratio", ratio, low=float(low), high=float(high), ratio_to="fresh")
    report.table(f"{arm}, {cell} chunks, at rest", ["", "p50 ms", "p95 ms", "recall@10"], lines)
    report.say(f"p95 against a fresh build: {ratio:.2f} [{low:.2f}, {high:.2f}]")


def sizes(server: Server) -> dict[str, float]:
    """Bytes of the blocks that serve, of all blocks, and of the rest that grows."""
    row = server.connection.execute(
        """select coalesce(sum(pg_total_relation_size(c.oid)) filter (where b.state = 'live'), 0),
                  coalesce(sum(pg_total_relation_size(c.oid)), 0),
                  pg_total_relation_size('pgrag_data.chunk_vec') + pg_total_relation_size('pgrag_data.chunk_lex'),
                  (select count(*) from pgrag_data.scope_total)
             from pgrag_data.dense_block b join pg_class c on c.oid = to_regclass('pgrag_block.b' || b.block_id)"""
    ).fetchone()
    assert row is not None
    return dict(
        zip(("index_bytes", "all_index_bytes", "data_bytes", "ledger_rows"), map(float, row), strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
