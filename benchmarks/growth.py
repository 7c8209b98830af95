"""What a search costs as a collection grows, and as tenants beside it do: p50 by size, the slope, and where it leads.

One reader sees about 2,000 chunks whatever the size, the other everything. A slope is that of log(time) over log(size):
0 where size does not matter, 1 where time grows with it. What is said of 100 million chunks is a projection along that
line, not a measurement. With --folder, what was loaded and measured stays; --minutes ends the run before that.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _filtered_arms as loading
from benchmarks import _metrics
from benchmarks._durable import Folder, OutOfTime, kept
from benchmarks._encoder import say
from benchmarks._filtered import EACH, Asked, Company, Reader
from benchmarks._report import Report, plot
from benchmarks._server import SETTINGS, Server
from benchmarks.filtered import name_of, number
from pgrag.protocols import EmbeddingSpace

MODES = ("dense", "lexical", "hybrid")
FIXED, WHOLE = "fixed", "all"
SEEN = 2_000
"""Chunks of the reader FIXED."""
PROJECTED = 100_000_000
SPACE = "synthetic"


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    options = parser().parse_args()
    started = time.perf_counter()
    end = started + 60 * options.minutes if options.minutes else float("inf")
    report, skipped = Report(options, "growth"), dict[str, str]()
    sizes = options.chunks or ([4_000, 8_000] if options.short else [10_000, 100_000])
    tenants = options.tenants or ([2, 20] if options.short else [10, 1_000])
    with ExitStack() as stack:
        path = options.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrag-benchmark-"))
        )
        run = Run(path.resolve(), end, options, report, skipped)
        try:
            for chunks in sorted(sizes):
                run.size(chunks)
            run.tenants(min(sizes), sorted(tenants))
        except OutOfTime:
            say("the minutes are over: the same command goes on from here")
    for kind in ("chunks", "tenants"):
        fit(report, kind, options.json)
    report.close(skipped, time.perf_counter() - started)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--short", action="store_true", help="4,000 and 8,000 chunks, 2 and 20 tenants, under a minute"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="rows of arm, collection, metric, value; FILE.meta.json and plots beside it",
    )
    parser.add_argument(
        "--chunks",
        type=lambda text: [number(its) for its in text.split(",")],
        metavar="N,…",
        help="sizes (10k,100k)",
    )
    parser.add_argument(
        "--tenants",
        type=lambda text: [number(its) for its in text.split(",")],
        metavar="N,…",
        help="numbers of tenants (10,1000)",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where servers and results are kept from run to run"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="begin nothing more after so many minutes")
    parser.add_argument("--questions", type=int, metavar="N", help="of each reader (100; short: 12)")
    parser.add_argument("--seed", type=int, default=20, help="of everything that is made up (%(default)s)")
    return parser


class Run:
    """The cells, each size on a server of its own, and the tenants on one more."""

    def __init__(
        self, path: Path, end: float, options: argparse.Namespace, report: Report, skipped: dict[str, str]
    ) -> None:
        self._path, self._end, self._options, self._report, self._skipped = (
            path,
            end,
            options,
            report,
            skipped,
        )

    def size(self, chunks: int) -> None:
        """One tenant of so many chunks."""
        folder, company = Folder(self._path / f"growth-{name_of(chunks)}", self._end), self._company(chunks)
        with kept(folder, **memory(chunks)) as server:
            self._load(folder, server, company)
            self._cell(folder, server, company, "chunks", chunks, name_of(chunks))

    def tenants(self, chunks: int, counts: Sequence[int]) -> None:
        """A tenant of so many chunks, which is asked, and beside it more and more others with a document each."""
        folder, company = Folder(self._path / "growth-tenants", self._end), self._company(chunks)
        with kept(folder, **memory(chunks)) as server:
            self._load(folder, server, company)
            for count in counts:
                put = partial(put_tenants, server, company, count - 1)
                folder.blocks(f"{count} tenants", count - 1, 100, put)
                folder.step(f"{count} analyze", lambda: loading.void(server.connection, "vacuum (analyze)"))
                if not loading.maintained(folder, server, f"{count} maintain"):
                    self._skipped["maintain"] = (
                        "this pgrag has no pgrag.maintain(): every dense search is exact"
                    )
                self._cell(folder, server, company, "tenants", count, f"{count} tenants")

    def _company(self, chunks: int) -> Company:
        """Two classes: what both readers see, evenly spread, and the rest."""
        company = Company(chunks // EACH, seed=self._options.seed, classes=2)
        step = max(1, company.documents * EACH // SEEN)
        company.class_of = (np.arange(company.documents) % step == 0).astype(np.int64)
        company.lists = [(0,), (0, 1)]
        return company

    def _load(self, folder: Folder, server: Server, company: Company) -> None:
        vectors = company.vectors(folder.path / "vectors.npy")
        loading.load_peer(folder, server.connection, company, vectors, readers(company), index=False)
        loading.load_pgrag(folder, server, company, readers(company))
        if not loading.maintained(folder, server):
            self._skipped["maintain"] = "this pgrag has no pgrag.maintain(): every dense search is exact"

    def _cell(
        self, folder: Folder, server: Server, company: Company, kind: str, size: int, name: str
    ) -> None:
        """The rows of one size, measured or remembered."""
        count = self._options.questions or (12 if self._options.short else 100)

        def measure() -> dict[str, Any]:
            rows, routes = [], {}
            for reader in readers(company):
                asked = company.questions("100%", [reader], count + 4)
                arms = {mode: search(server, reader, mode) for mode in MODES}
                for question in asked[:4]:
                    for arm in arms.values():
                        arm(question)
                times: dict[str, list[float]] = {mode: [] for mode in MODES}
                for question in asked[4:]:
                    for mode, arm in arms.items():
                        start = time.perf_counter()
                        arm(question)
                        times[mode].append(1000 * (time.perf_counter() - start))
                for mode, its in times.items():
                    more = {"kind": kind, "size": size, "reader": reader.name, "visible": reader.chunks}
                    for metric, share in (("p50_ms", 0.5), ("p95_ms", 0.95)):
                        value = _metrics.percentile(its, share)
                        rows.append(
                            {
                                "arm": f"pgrag/{mode}",
                                "collection": f"{name}/{reader.name}",
                                "metric": metric,
                                "value": round(value, 4),
                                **more,
                            }
                        )
                routes[reader.name] = loading.Pgrag(server, [reader]).policy(asked[0])
            return {"rows": rows, "routes": routes}

        found = folder.step(f"cell {name}", measure)["value"]
        self._report.rows.extend(found["rows"])
        self._report.meta["cells"][name] = found["routes"]
        self._report.meta["versions"] |= server.versions()
        self._report.meta["server"] = SETTINGS | memory(company.chunks)


def memory(chunks: int) -> dict[str, str]:
    """Settings for a size."""
    return (
        {"shared_buffers": "6GB", "maintenance_work_mem": "4GB"}
        if chunks >= 500_000
        else {"shared_buffers": "1GB", "maintenance_work_mem": "1GB"}
    )


def readers(company: Company) -> list[Reader]:
    """The one who sees as much at every size, and the one who sees everything."""
    return [company.reader(FIXED, [1]), company.reader(WHOLE, [0])]


def search(server: Server, reader: Reader, mode: str) -> Callable[[Asked], object]:
    """``pgrag.search`` of a reader, the whole public call."""
    token = server.token(loading.TENANT, reader.name)
    lane = (
        "p_token => %(token)s"
        if mode == "lexical"
        else "p_embedding => %(vector)s::vector, p_space => %(space)s, p_token => %(token)s"
    )
    statement = f"select document, span_start, text from pgrag.search(%(text)s, 10, '{mode}', {lane})"

    def ask(question: Asked) -> object:
        its = {"text": question.text, "vector": question.vector, "space": SPACE, "token": token}
        return server.connection.execute(statement, its).fetchall()

    return ask


def put_tenants(server: Server, company: Company, end: int, first: int) -> None:
    """At most 100 more tenants, with both readers of the framework and one document each."""
    space = EmbeddingSpace(SPACE, SPACE, "1", company.space.dimension)
    for beside in range(first, min(end, first + 100)):
        tenant = f"beside-{beside}"
        server.put_tenant(tenant, space)
        with server.connection.transaction():
            server.connection.execute(
                "select pgrag.authenticate(%s)", (server.token(tenant, "benchmark", "admin"),)
            )
            server.connection.execute(
                "select pgrag.put_principal('group-' || n, 'group') from generate_series(0, 1) n"
            )
        loading.write_block(server, SPACE, beside % company.documents, 1, tenant)


def fit(report: Report, kind: str, file: Path | None) -> None:
    """A table with the slope of each mode and reader, rows for slope and projection, and a plot."""
    measured = [row for row in report.rows if row.get("kind") == kind and row["metric"] == "p50_ms"]
    sizes = sorted({row["size"] for row in measured})
    if not sizes:
        return
    lines, curves = [], dict[str, dict[str, dict[str, float]]]()
    for reader in (FIXED, WHOLE):
        for mode in MODES:
            values = {
                row["size"]: row["value"]
                for row in measured
                if (row["arm"], row["reader"]) == (f"pgrag/{mode}", reader)
            }
            curves.setdefault(f"reader {reader}, p50 in ms", {})[mode] = {
                str(size): value for size, value in values.items()
            }
            line = [f"{mode}, {reader}", *(f"{values[size]:.2f}" if size in values else "" for size in sizes)]
            if len(values) > 1:
                slope, start = np.polyfit(np.log(list(values)), np.log(list(values.values())), 1)
                report.row(f"pgrag/{mode}", f"{kind}/{reader}", "slope", slope, sizes=list(values))
                line.append(f"{slope:.2f}")
                if kind == "chunks" and max(values) >= 10 * min(values):  # nearer ones say too little
                    projected = float(np.exp(start + slope * np.log(PROJECTED)))
                    about = (
                        f"a projection along the slope from at most {max(values)} chunks, not a measurement"
                    )
                    report.row(
                        f"pgrag/{mode}",
                        f"{kind}/{reader}",
                        "projected_p50_ms",
                        projected,
                        size=PROJECTED,
                        about=about,
                    )
                    line.append(f"{projected:.1f}")
            lines.append(line)
    columns = [f"p50 in ms by {kind}", *(f"{size:,}" for size in sizes), "slope"]
    if kind == "chunks":
        columns.append("projected to 100 M")
    report.table(f"growth: {kind}", columns, [[*line, *[""] * (len(columns) - len(line))] for line in lines])
    if file:
        plot(
            file.with_name(f"{file.stem}-{kind}.svg"),
            f"p50 as {kind} grow",
            [str(size) for size in sizes],
            curves,
            set(curves),
        )


if __name__ == "__main__":
    sys.exit(main())
