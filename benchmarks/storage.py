"""How vectors are best kept: exact scans by storage and type, a binary prefilter, halves, and HNSW over either.

Everything is measured on made-up embeddings in tables keyed as pgrag's own, without parallel workers, warm, the arms
in turn: look at the ratios. A cell is ``<rows>/<dimension>``, and of a leg ``<rows of the block>/<dimension>``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import _metrics, _run
from benchmarks._encoder import say
from benchmarks._report import Report
from benchmarks._server import Server, Vectors, literal, throw_away
from benchmarks._synthetic import TOPICS, Space

PARTS = ("scan", "binary", "hnsw", "legs")
EACH = 20
"""Chunks of a revision."""
KEY = "tenant_id bigint, space_id bigint, revision_id bigint, chunk_no integer"
PRIMARY = "primary key (tenant_id, space_id, revision_id, chunk_no)"
SERVER = {"shared_buffers": "2GB", "maintenance_work_mem": "1GB", "max_parallel_maintenance_workers": "0"}
Found = Sequence[tuple[int, int]]


class Figures(NamedTuple):
    """Milliseconds, and recall@10. The tenth percentile is what is left of a busy machine's noise."""

    p10: float
    p50: float
    p95: float
    recall: float


Search = Callable[[Any], Found]


@dataclass(frozen=True)
class Cell:
    """Vectors of one dimension in the table ``peer.plain_<dimension>``, and questions about them."""

    server: Server
    dimension: int
    rows: int
    vectors: Vectors
    questions: list[str]
    asked: Vectors

    @property
    def name(self) -> str:
        """``50k/384``."""
        return f"{_count(self.rows)}/{self.dimension}"

    def exact(self, k: int, rows: int | None = None) -> list[Found]:
        """The k nearest of the first rows to each question, reckoned here."""
        nearest = np.argsort(-(self.asked @ self.vectors[:rows].T), axis=1, kind="stable")[:, :k]
        return [[(1 + int(place) // EACH, 1 + int(place) % EACH) for place in its] for its in nearest]

    def find(self, statement: str, question: str) -> Found:
        """What a statement finds, as (revision, chunk)."""
        parameters = {"q": question, "d": self.dimension, "last": self.rows // EACH}
        return self.server.connection.execute(statement, parameters, prepare=False).fetchall()


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--short", action="store_true", help="2,000 vectors, few dimensions and questions: under a minute"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="rows of arm, collection, metric, value; FILE.meta.json beside it",
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(PARTS),
        metavar="A,B",
        help=f"of {','.join(PARTS)}",
    )
    parser.add_argument(
        "--dimensions",
        type=lambda text: [int(part) for part in text.split(",")],
        metavar="D,E",
        help="of the scans (64 to 2000; short: 64 and 1024)",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="50000; short: 2000")
    parser.add_argument("--questions", type=int, metavar="N", help="of each cell (40; short: 8)")
    parser.add_argument("--seed", type=int, default=20, help="of vectors and questions (%(default)s)")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    rows = options.rows or (2_000 if options.short else 50_000)
    dimensions = options.dimensions or ([64, 1024] if options.short else [64, 256, 384, 1024, 1536, 2000])
    asked = options.questions or (8 if options.short else 40)
    started = time.perf_counter()
    report = Report(options, "storage")
    with throw_away(**SERVER) as server:
        report.meta["versions"] |= server.versions()
        server.connection.execute("set jit = off; set max_parallel_workers_per_gather = 0")
        for dimension in dimensions if {"scan", "binary"} & set(options.only) else ():
            # Those of a thousand and more have a row a page: as many bytes, not as many rows.
            cell = put(server, dimension, rows if dimension < 1000 else rows * 2 // 5, asked, options.seed)
            if "scan" in options.only:
                scans(cell, report)
            if "binary" in options.only:
                binary(cell, report)
            server.connection.execute("drop schema peer cascade; create schema peer")
        if {"hnsw", "legs"} & set(options.only):
            largest = max(rows, 100_000) if "legs" in options.only and not options.short else rows
            cell = put(server, 384, largest, asked, options.seed)
            if "hnsw" in options.only:
                graphs(cell, report, rows)
            if "legs" in options.only:
                sizes = (500, 1_000, 2_000) if options.short else (1_000, 2_000, 5_000, 20_000, 100_000)
                legs(cell, report, [size for size in sizes if size <= largest])
    report.close({}, time.perf_counter() - started)
    return 0


# -- Tables -------------------------------------------------------------------------------------------------


def put(server: Server, dimension: int, rows: int, questions: int, seed: int) -> Cell:
    """A cell, with its vectors in a table as pgrag's: plain, in the order of their key."""
    started, draw = time.perf_counter(), np.random.default_rng((seed, dimension))
    space, count = Space(dimension), rows // EACH
    documents = space.documents(draw.integers(TOPICS, size=count), draw)
    vectors = space.chunks(documents, EACH, draw)
    # Half of the questions are about documents that are here, and easy; half about documents that are not.
    topics = draw.integers(TOPICS, size=questions // 2 + 1)
    about = np.concatenate([documents[draw.choice(count, questions // 2 + 1)], space.documents(topics, draw)])
    asked = space.questions(draw.permutation(about), draw)
    server.connection.execute(
        f"create table peer.plain_{dimension} ({KEY}, embedding public.vector({dimension}))"
    )
    server.connection.execute(f"alter table peer.plain_{dimension} alter column embedding set storage plain")
    with (
        server.connection.cursor() as cursor,
        cursor.copy(f"copy peer.plain_{dimension} from stdin (format binary)") as copy,
    ):
        copy.write(_binary(vectors))
    server.connection.execute(f"alter table peer.plain_{dimension} add {PRIMARY}")
    server.connection.execute("vacuum analyze")
    say(f"{rows} vectors of {dimension} in {time.perf_counter() - started:.0f} s")
    return Cell(server, dimension, count * EACH, vectors, [literal(its) for its in asked], asked)


def _binary(vectors: Vectors) -> bytes:
    """Rows for COPY: five fields each, the vector as pgvector's own binary form."""
    count, dimension = vectors.shape
    field = np.dtype(
        [
            ("fields", ">i2"),
            ("l1", ">i4"), ("tenant", ">i8"), ("l2", ">i4"), ("space", ">i8"), ("l3", ">i4"), ("revision", ">i8"),
            ("l4", ">i4"), ("chunk", ">i4"), ("l5", ">i4"), ("size", ">i2"), ("unused", ">i2"), ("vector", ">f4", dimension),
        ]
    )  # fmt: skip
    made = np.zeros(count, field)
    made["fields"], made["tenant"], made["space"], made["size"], made["vector"] = 5, 1, 1, dimension, vectors
    made["l1"] = made["l2"] = made["l3"] = 8
    made["l4"], made["l5"] = 4, 4 + 4 * dimension
    made["revision"], made["chunk"] = 1 + np.arange(count) // EACH, 1 + np.arange(count) % EACH
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + made.tobytes() + b"\xff\xff"


def copy(cell: Cell, name: str, column: str, expression: str, storage: str | None = "plain") -> str:
    """Another table of the same rows, with the column made by the expression."""
    table = f"peer.{name}_{cell.dimension}"
    cell.server.connection.execute(f"create table {table} ({KEY}, {column})")
    if storage:
        cell.server.connection.execute(
            f"alter table {table} alter column {column.split()[0]} set storage {storage}"
        )
    cell.server.connection.execute(
        f"insert into {table} select tenant_id, space_id, revision_id, chunk_no, {expression}"
        f" from peer.plain_{cell.dimension} order by 1, 2, 3, 4"
    )
    cell.server.connection.execute(f"alter table {table} add {PRIMARY}")
    cell.server.connection.execute(f"vacuum analyze {table}")
    return table


def size(server: Server, table: str) -> int:
    """Bytes of a table with its indexes and what it has out of line."""
    row = server.connection.execute("select pg_total_relation_size(%s::regclass)", (table,)).fetchone()
    assert row is not None
    return int(row[0])


# -- Measuring ----------------------------------------------------------------------------------------------


def measure(cell: Cell, searches: Mapping[str, Search], exact: Sequence[Found]) -> dict[str, Figures]:
    """p50 and p95 in ms and recall@10 of each; the first two questions only warm up."""
    queries: list[Any] = list(cell.questions)
    found = {
        name: [set(search(question)[:10]) for question in cell.questions] for name, search in searches.items()
    }
    taken = _run.times(searches, queries[2:])
    made = {}
    for name, its in found.items():
        recall = float(
            np.mean([len(ours & set(truth[:10])) / 10 for ours, truth in zip(its, exact, strict=True)])
        )
        p10, p50, p95 = (_metrics.percentile(taken[name], share) for share in (0.1, 0.5, 0.95))
        made[name] = Figures(p10, p50, p95, recall)
    return made


def put_rows(
    report: Report,
    cell: str,
    measured: Mapping[str, Figures],
    base: str,
    **more: Mapping[str, Any],
) -> None:
    """The rows of measured arms, with the ratio of the base's p50 to theirs; ``more`` are fields by arm."""
    for arm, (p10, p50, p95, recall) in measured.items():
        fields = {name: its[arm] for name, its in more.items() if arm in its}
        speedup = measured[base].p50 / p50
        report.row(arm, cell, "p50_ms", p50, p10_ms=p10, speedup=speedup, speedup_over=base, **fields)
        report.row(arm, cell, "p95_ms", p95)
        report.row(arm, cell, "recall@10", recall)


def table(report: Report, title: str, measured: Mapping[str, Figures], base: str, **more: Any) -> None:
    """The same as a table."""
    lines = [
        [
            arm,
            f"{p50:.2f}",
            f"{measured[base].p50 / p50:.2f}",
            f"{p10:.2f}",
            f"{measured[base].p10 / p10:.2f}",
            f"{p95:.2f}",
            f"{recall:.3f}",
            *(str(its.get(arm, "")) for its in more.values()),
        ]
        for arm, (p10, p50, p95, recall) in measured.items()
    ]
    report.table(
        title,
        ["arm", "p50 ms", f"faster than {base}", "p10 ms", "faster", "p95 ms", "recall@10", *more],
        lines,
    )


# -- Exact scans --------------------------------------------------------------------------------------------

SCAN = """select revision_id, chunk_no
            from (select revision_id, chunk_no, embedding operator(public.<=>) %(q)s::public.{type} as distance
                    from {table} where tenant_id = 1 and space_id = 1 offset 0) d
           where distance <> 'NaN' order by distance limit 100"""
LOOKUP = """select revision_id, chunk_no
              from (select v.revision_id, v.chunk_no, v.embedding operator(public.<=>) %(q)s::public.{type} as distance
                      from unnest(array(select generate_series(1::bigint, %(last)s))) as s (revision_id)
                     cross join lateral (select * from {table} v where v.tenant_id = 1 and v.space_id = 1
                                            and v.revision_id = s.revision_id offset 0) v
                    offset 0) d
             where distance <> 'NaN' order by distance limit 100"""


def scans(cell: Cell, report: Report) -> None:
    """The hundred nearest of all: by storage and type, in one scan and revision by revision."""
    tables = {
        "vector_plain": ("vector", f"peer.plain_{cell.dimension}"),
        "vector_default": (
            "vector",
            copy(cell, "default", f"embedding public.vector({cell.dimension})", "embedding", None),
        ),
        "halfvec_plain": (
            "halfvec",
            copy(cell, "half", f"embedding public.halfvec({cell.dimension})", "embedding"),
        ),
    }
    searches: dict[str, Search] = {}
    for arm, (type_, name) in tables.items():
        searches[arm] = partial(cell.find, SCAN.format(type=type_, table=name))
        if arm != "vector_default":
            searches[f"{arm}/lookup"] = partial(cell.find, LOOKUP.format(type=type_, table=name))
    measured = measure(cell, searches, cell.exact(10))
    bytes_ = {arm: size(cell.server, name) for arm, (_, name) in tables.items()}
    put_rows(report, cell.name, measured, "vector_default", bytes=bytes_)
    megabytes = {arm: f"{its / 1e6:.0f}" for arm, its in bytes_.items()}
    each = {arm: f"{1000 * p50 / cell.rows:.2f}" for arm, (_, p50, _, _) in measured.items()}
    table(
        report,
        f"{cell.name}: exact, the 100 nearest",
        measured,
        "vector_default",
        **{"us a row": each, "MB": megabytes},
    )


# -- A binary prefilter -------------------------------------------------------------------------------------

PREFILTER = """with near as materialized (
                 select revision_id, chunk_no
                   from (select revision_id, chunk_no, bits operator(public.<~>) {bits} as apart
                           from {table} where tenant_id = 1 and space_id = 1 offset 0) d
                  order by apart limit {n})
               select n.revision_id, n.chunk_no
                 from near n
                cross join lateral (select v.embedding operator(public.<=>) %(q)s::public.vector as distance
                                      from peer.plain_{dimension} v
                                     where v.tenant_id = 1 and v.space_id = 1 and v.revision_id = n.revision_id
                                       and v.chunk_no = n.chunk_no offset 0) v
                order by v.distance limit 10"""


def binary(cell: Cell, report: Report) -> None:
    """The ten nearest of all by signs first, the best of them by the vectors: as they are, and less their mean."""
    dimension, mean = cell.dimension, literal(cell.vectors.mean(axis=0))
    sign = f"public.binary_quantize({{}})::bit({dimension})"
    centred = f"{{}} operator(public.-) '{mean}'::public.vector"
    asked = "%(q)s::public.vector"
    kinds = {
        "binary": ("embedding", sign.format(asked)),
        "binary_centred": (centred.format("embedding"), sign.format(centred.format(asked))),
    }
    searches: dict[str, Search] = {
        "vector_plain": partial(
            cell.find,
            SCAN.format(type="vector", table=f"peer.plain_{dimension}").replace("limit 100", "limit 10"),
        )
    }
    for arm, (made, bits) in kinds.items():
        name = copy(cell, arm, f"bits bit({dimension})", sign.format(made))
        for n in sorted({400, *(max(10, cell.rows * share // 100) for share in (2, 5, 10))}):
            statement = PREFILTER.format(bits=bits, table=name, n=n, dimension=dimension)
            searches[f"{arm}/{n}"] = partial(cell.find, statement)
    measured = measure(cell, searches, cell.exact(10))
    put_rows(report, f"{cell.name}/prefilter", measured, "vector_plain")
    table(report, f"{cell.name}: binary prefilter, the 10 nearest", measured, "vector_plain")


# -- Graphs -------------------------------------------------------------------------------------------------

GRAPH = """with near as materialized (
             select revision_id, chunk_no from {table} order by embedding operator(public.{operator}) {asked} limit {n})
           select n.revision_id, n.chunk_no
             from near n
            cross join lateral (select v.embedding operator(public.<=>) %(q)s::public.vector as distance
                                  from peer.plain_384 v
                                 where v.tenant_id = 1 and v.space_id = 1 and v.revision_id = n.revision_id
                                   and v.chunk_no = n.chunk_no offset 0) v
            order by v.distance limit 10"""
HALF = "public.l2_normalize({})::public.halfvec"
KINDS = {  # the column, what is in it, what is asked for, operator class, operator
    "vector_cosine": ("vector(384)", "embedding", "%(q)s::public.vector", "vector_cosine_ops", "<=>"),
    "halfvec_cosine": ("halfvec(384)", HALF.format("embedding"), HALF.format("%(q)s::public.vector"), "halfvec_cosine_ops", "<=>"),
    "halfvec_ip": ("halfvec(384)", HALF.format("embedding"), HALF.format("%(q)s::public.vector"), "halfvec_ip_ops", "<#>"),
}  # fmt: skip
EFFORTS = ((40, 40), (64, 40), (100, 40), (100, 100), (200, 40), (200, 100), (400, 100))
"""hnsw.ef_search, and how many candidates are rescored."""


def block(cell: Cell, kind: str, rows: int, m: int, construction: int) -> tuple[str, float, int]:
    """A table of the first rows with its index: its name, the seconds of the build, and its bytes."""
    column, made, _, opclass, _ = KINDS[kind]
    name, run = f"graph.{kind}_{m}_{construction}", cell.server.connection.execute
    run(f"create schema if not exists graph; drop table if exists {name}")
    run(
        f"create table {name} (revision_id bigint not null, chunk_no integer not null, embedding public.{column} not null)"
    )
    run(f"alter table {name} alter column embedding set storage plain")
    run(
        f"insert into {name} select revision_id, chunk_no, {made} from peer.plain_384 where revision_id <= {rows // EACH} order by 1, 2"
    )
    run(f"analyze {name}")
    started = time.perf_counter()
    run(
        f"create index on {name} using hnsw (embedding public.{opclass}) with (m = {m}, ef_construction = {construction})"
    )
    return name, time.perf_counter() - started, size(cell.server, name)


def search(cell: Cell, name: str, kind: str, effort: int, n: int) -> Search:
    """The ten nearest through the graph."""
    _, _, asked, _, operator = KINDS[kind]
    statement = GRAPH.format(table=name, operator=operator, asked=asked, n=n)

    def found(question: str) -> Found:
        cell.server.connection.execute(f"set hnsw.ef_search = {effort}")
        return cell.find(statement, question)

    return found


def graphs(cell: Cell, report: Report, rows: int) -> None:
    """HNSW over floats and over halves: bytes, build, and p50 by recall."""
    exact, name_ = cell.exact(10, rows), f"{_count(rows)}/384/hnsw"
    cell.server.connection.execute(
        "set enable_seqscan = off; set hnsw.iterative_scan = relaxed_order; set hnsw.max_scan_tuples = 40000"
    )
    settings = [
        *((kind, 16, 64) for kind in KINDS),
        *((kind, 16, 100) for kind in KINDS),
        ("halfvec_cosine", 24, 64),
    ]
    measured, about = dict[str, Figures](), dict[str, tuple[float, int]]()
    for kind, m, construction in settings:
        arm = f"{kind}/m={m}/ef_construction={construction}"
        name, seconds, bytes_ = block(cell, kind, rows, m, construction)
        about[arm] = seconds, bytes_
        report.row(arm, name_, "build_s", seconds)
        report.row(arm, name_, "block_bytes", bytes_)
        # One graph after another: in turns each would put the others out of the processor's cache.
        efforts = {f"{arm}/{effort}/{n}": search(cell, name, kind, effort, n) for effort, n in EFFORTS}
        measured |= measure(cell, efforts, exact)
    put_rows(
        report, name_, measured, f"vector_cosine/m=16/ef_construction=64/{EFFORTS[0][0]}/{EFFORTS[0][1]}"
    )
    report.table(
        f"{name_}: p50 in ms (recall@10) at ef_search/candidates",
        ["graph", "build s", "MB", *(f"{effort}/{n}" for effort, n in EFFORTS)],
        [
            [
                arm,
                f"{seconds:.1f}",
                f"{bytes_ / 1e6:.0f}",
                *("{1:.2f} ({3:.3f})".format(*measured[f"{arm}/{effort}/{n}"]) for effort, n in EFFORTS),
            ]
            for arm, (seconds, bytes_) in about.items()
        ],
    )
    cell.server.connection.execute("drop schema graph cascade")
    cell.server.connection.execute("reset enable_seqscan")


def legs(cell: Cell, report: Report, sizes: Sequence[int]) -> None:
    """One block by its size, against comparing its vectors: from where on it pays."""
    run = cell.server.connection.execute
    run("set hnsw.iterative_scan = relaxed_order; set hnsw.max_scan_tuples = 40000")
    efforts = [(effort, n) for effort in (40, 100, 200) for n in (40, 100)]
    lines, costs = [], dict[int, tuple[float, float]]()
    for rows in sizes:
        name, _, _ = block(cell, "halfvec_cosine", rows, 16, 64)
        run(
            f"create table peer.few as select * from peer.plain_384 where revision_id <= {rows // EACH} order by 1, 2, 3, 4"
        )
        run("alter table peer.few alter column embedding set storage plain")
        run(f"alter table peer.few add {PRIMARY}")
        run("vacuum analyze peer.few")
        part = Cell(cell.server, 384, rows, cell.vectors[:rows], cell.questions, cell.asked)
        compared: dict[str, Search] = {
            "exact": partial(part.find, SCAN.format(type="vector", table="peer.few")),
            "exact/lookup": partial(part.find, LOOKUP.format(type="vector", table="peer.few")),
        }
        searches = {
            f"{effort}/{n}": graph_only(search(part, name, "halfvec_cosine", effort, n), part)
            for effort, n in efforts
        }
        # Not in turns: a scan puts the graph out of the processor's cache.
        measured = measure(part, compared, part.exact(10)) | measure(part, searches, part.exact(10))
        put_rows(report, f"{part.name}/leg", measured, "exact/lookup")
        costs[rows] = measured["exact/lookup"].p50, measured["100/100"].p50
        lines.append([part.name, *(f"{p50:.2f} ({recall:.3f})" for _, p50, _, recall in measured.values())])
        run(f"drop table {name}; drop table peer.few")
    report.table(
        "p50 in ms (recall@10) of a leg, by ef_search/candidates",
        ["block", "exact", "by revision", *(f"{effort}/{n}" for effort, n in efforts)],
        lines,
    )
    if (crossover := _crossover(costs)) is not None:
        report.row("halfvec_cosine/100/100", "384/leg", "crossover_rows", crossover)
        report.say(
            f"A block of {crossover:.0f} vectors costs what comparing them costs, revision by revision."
        )


def graph_only(found: Search, cell: Cell) -> Search:
    """The search, with the planner kept from scanning a small block."""

    def searched(question: str) -> Found:
        cell.server.connection.execute("set enable_seqscan = off; set enable_sort = on")
        try:
            return found(question)
        finally:
            cell.server.connection.execute("reset enable_seqscan")

    return searched


def _crossover(costs: Mapping[int, tuple[float, float]]) -> float | None:
    """Where the first cost passes the second, between two sizes by their logarithms; None where it does not."""
    sizes = sorted(costs)
    for low, high in itertools.pairwise(sizes):
        below, above = (math.log(costs[at][0] / costs[at][1]) for at in (low, high))
        if below < 0 <= above:
            return math.exp(math.log(low) - below * math.log(high / low) / (above - below))
    return None


def _count(rows: int) -> str:
    return f"{rows // 1000}k" if rows % 1000 == 0 else str(rows)
