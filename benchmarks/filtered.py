"""Dense search for readers who may see 0.1 to 100 % of a collection, against row-level security over one HNSW index.

Cells are sizes and visible shares, as 100k/0.1%; in the cell "negative" a reader who sees 1.5 % asks about what it
cannot see. Arms take turns in one run, so look at the ratios. With --folder, what was loaded, built and measured stays,
and the same command goes on from there; --minutes ends it before that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks import _filtered_arms as made
from benchmarks import _metrics
from benchmarks._durable import Folder, OutOfTime, kept
from benchmarks._encoder import say
from benchmarks._filtered import EACH, SHARES, Asked, Company, Reader, Vectors, nearest, recall
from benchmarks._filtered_arms import Arm, K, Peer, Pgrag, PgragLane, Rls, Vectorscale
from benchmarks._report import Report, plot
from benchmarks._server import SETTINGS, Server
from pgrag import _sql, embedded
from tools.pg_trees import TreeError, peer_tree

ARMS = ("pgrag", "pgrag_lane", "rls_hnsw", "rls_hnsw_initplan", "rls_hnsw_tuned", "plain", "vectorscale")
DEFAULTS = {"hnsw.ef_search": 40, "hnsw.iterative_scan": "relaxed_order"}
TUNED = [
    {"policy": policy, "hnsw.ef_search": ef, "hnsw.iterative_scan": order, "hnsw.max_scan_tuples": tuples, "hnsw.scan_mem_multiplier": 8}
    for policy in ("inline", "initplan")
    for order in ("relaxed_order", "strict_order")
    for ef, tuples in ((40, 20_000), (100, 20_000), (200, 20_000), (400, 20_000), (400, 200_000))
]  # fmt: skip
PLAIN = [
    {"hnsw.ef_search": ef, "hnsw.iterative_scan": "off"}
    for ef in (10, 20, 40, 60, 80, 100, 150, 200, 300, 400, 600, 1000)
]
LABELLED = [
    {"diskann.query_search_list_size": size, "diskann.query_rescore": rescore}
    for size, rescore in ((100, 50), (100, 200), (200, 200), (400, 400), (1000, 1000))
]
EQUAL = 0.002
"""Recall by which two settings are held to be equal; of those the quicker one is taken."""


def main() -> int:
    """Run, print tables, and write JSON and plots where asked."""
    options = parser().parse_args()
    started = time.perf_counter()
    end = started + 60 * options.minutes if options.minutes else float("inf")
    report = Report(options, "filtered")
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        folder = options.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrag-benchmark-"))
        )
        try:
            for chunks in options.chunks or [8_000 if options.short else 100_000]:
                Size(Folder(folder.resolve() / name_of(chunks), end), chunks, options, report, skipped).run()
        except OutOfTime:
            say("the minutes are over: the same command goes on from here")
    if options.load:
        return 0
    tables(report)
    if options.json:
        plots(report, options.json)
    report.close(skipped, time.perf_counter() - started)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="8,000 chunks and 40 questions, under a minute")
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
        help="sizes, as 100k,1M (100k)",
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="only these cells, as 1%% or 100k/1%%",
    )
    parser.add_argument(
        "--arms",
        type=lambda text: text.split(","),
        default=list(ARMS),
        metavar="A,B",
        help=f"of {', '.join(ARMS)}",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where servers and results are kept from run to run"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="begin nothing more after so many minutes")
    parser.add_argument(
        "--load", action="store_true", help="load and build what the arms need, and measure nothing"
    )
    parser.add_argument(
        "--again",
        choices=("pgrag", "cells"),
        help="with --folder: install and load pgrag anew, or only measure anew",
    )
    parser.add_argument("--questions", type=int, metavar="N", help="of each cell (200; short: 40)")
    parser.add_argument("--seed", type=int, default=20, help="of everything that is made up (%(default)s)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pgrag-benchmarks"
    parser.add_argument(
        "--cache", type=Path, default=cache, metavar="DIR", help="where other servers' binaries are kept"
    )
    return parser


def number(text: str) -> int:
    """100k, 1M or digits."""
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return int(float(text[:-1] if factor > 1 else text) * factor)


def name_of(chunks: int) -> str:
    """As it stands in the names of cells."""
    return f"{chunks // 1_000_000}M" if chunks % 1_000_000 == 0 else f"{chunks // 1000}k"


# -- One size -----------------------------------------------------------------------------------------------


class Size:
    """All cells of one number of chunks, on servers that they share."""

    def __init__(
        self,
        folder: Folder,
        chunks: int,
        options: argparse.Namespace,
        report: Report,
        skipped: dict[str, str],
    ) -> None:
        self.folder, self.chunks, self.options, self.report, self.skipped = (
            folder,
            chunks,
            options,
            report,
            skipped,
        )
        self.name = name_of(chunks)
        if options.again:
            folder.forget("cell ", *(("pgrag", "maintain", "calibrate") if options.again == "pgrag" else ()))
        self.company = Company(chunks // EACH, seed=options.seed)
        self.vectors: Vectors = self.company.vectors(folder.path / "vectors.npy")
        self.readers = {
            cell: self.company.readers(cell, share, 2 if options.short else 4)
            for cell, share in SHARES.items()
        }
        self.everyone = [reader for readers in self.readers.values() for reader in readers]
        self.count = options.questions or (40 if options.short else 200)

    def run(self) -> None:
        """Load what is not yet loaded, and measure the cells that are not yet measured."""
        large = self.chunks >= 500_000
        settings = {"shared_buffers": "12GB" if large else "2GB", "max_parallel_maintenance_workers": "2"}
        settings["maintenance_work_mem"] = "4GB" if large else "1GB"
        arms = self.options.arms
        with ExitStack() as stack:
            server = stack.enter_context(kept(self.folder, **settings))
            if self.options.again == "pgrag" and "pgrag principals" not in self.folder.steps:
                server.connection.execute(_sql.uninstall_script())
                server.install()
            made.load_peer(self.folder, server.connection, self.company, self.vectors, self.everyone)
            other = self.vectorscale(stack, settings) if "vectorscale" in arms else None
            if {"pgrag", "pgrag_lane"}.intersection(arms):
                made.load_pgrag(self.folder, server, self.company, self.everyone)
                if not made.maintained(self.folder, server):
                    self.skipped["maintain"] = "this pgrag has no pgrag.maintain(): every search is exact"
                else:  # as docs/operations.md says: once, when the first blocks are there
                    self.folder.step("calibrate", lambda: made.calibrate(server))
            if self.options.load:
                return
            built = self.arms(server, other)
            chosen = [
                cell
                for cell in SHARES
                if not self.options.only or {cell, f"{self.name}/{cell}"}.intersection(self.options.only)
            ]
            # First that where everything is visible: the plain arm's setting comes from there.
            for cell in sorted(chosen, key=lambda cell: cell != "100%"):
                known = self.folder.steps.get(f"cell {cell}")
                if known and set(built) - set(known["value"]["about"]["plans"]):  # some arms were not there
                    self.folder.forget(f"cell {cell}")
                found = self.folder.step(f"cell {cell}", lambda cell=cell: self.cell(cell, built))["value"]  # type: ignore[misc]
                self.report.rows.extend(found["rows"])
                self.report.meta["cells"][f"{self.name}/{cell}"] = found["about"]
            self.report.meta["versions"] |= server.versions()
            self.report.meta.setdefault("server", {})[self.name] = {**SETTINGS, **settings}
            self.report.meta.setdefault("steps", {})[self.name] = {
                name: step["seconds"]
                for name, step in self.folder.steps.items()
                if isinstance(step, dict) and "seconds" in step
            }

    def vectorscale(self, stack: ExitStack, settings: Mapping[str, str]) -> embedded.EmbeddedServer | None:
        """The other server, or None with the reason remembered."""
        try:
            bindir = peer_tree("vectorscale", self.options.cache / "trees")
            its = {**SETTINGS, **settings, "shared_buffers": "3GB" if self.chunks >= 500_000 else "1GB"}
            server = stack.enter_context(
                embedded.start(self.folder.path / "vectorscale", bindir=bindir, settings=its, timeout=300)
            )
            with psycopg.connect(server.superuser_dsn, autocommit=True) as connection:
                made.load_vectorscale(self.folder, connection, self.company, self.vectors)
        except (TreeError, embedded.EmbeddedError, psycopg.Error) as error:
            self.skipped["vectorscale"] = str(error).splitlines()[0]
            say(f"vectorscale: skipped, {self.skipped['vectorscale']}")
            return None
        return server

    def arms(self, server: Server, other: embedded.EmbeddedServer | None) -> dict[str, Arm]:
        """Those asked for that can run here."""
        dsn, built = server.embedded.superuser_dsn, dict[str, Arm]()
        for name in self.options.arms:
            if name == "pgrag":
                built[name] = Pgrag(server, self.everyone)
            elif name == "pgrag_lane":
                built[name] = PgragLane(server, self.everyone)
            elif name in ("rls_hnsw", "rls_hnsw_tuned"):
                built[name] = Rls(dsn, DEFAULTS, Rls.ROLES["inline"])
            elif name == "rls_hnsw_initplan":
                built[name] = Rls(dsn, DEFAULTS, Rls.ROLES["initplan"])
            elif name == "plain":
                built[name] = Peer(dsn, {})
            elif name == "vectorscale" and other is not None:
                built[name] = Vectorscale(other.superuser_dsn, {})
        return built

    def cell(self, cell: str, built: Mapping[str, Arm]) -> dict[str, Any]:
        """Rows and circumstances of one cell."""
        readers = self.readers[cell]
        asked = self.company.questions(cell, readers, self.count)
        truth = nearest(self.vectors, asked)
        few = self.company.questions(cell, readers, 8 if self.options.short else 24, kind=1)
        sweep = Sweep(self.vectors, few)
        about: dict[str, Any] = {
            "readers": [described(reader, self.chunks) for reader in readers],
            "questions": len(asked),
            "plans": {},
        }
        settings = {name: self.settle(cell, name, arm, built, sweep) for name, arm in built.items()}
        about["settings"] = {name: its for name, its in settings.items() if its}
        turns(built, asked)  # what is read from disk the first time is nobody's cost
        answers, times = turns(built, asked)
        rows: list[dict[str, Any]] = []
        middle = {name: _metrics.percentile(its, 0.5) for name, its in times.items()}
        visible = float(np.mean([question.reader.chunks for question in asked]))
        for name, arm in built.items():
            looked = [arm.visited(question) for question in few[: 4 if self.options.short else 12]]
            about["plans"][name] = dict(Counter(its["plan"] for its in looked))
            found = [arm.numbers(its) for its in answers[name]]
            recalls = [recall(self.vectors, *its) for its in zip(asked, truth, found, strict=True)]
            short = sum(
                len(its) < min(K, question.reader.chunks) for its, question in zip(found, asked, strict=True)
            )
            visited = float(np.mean([its["rows"] for its in looked]))
            size = arm.index_bytes()
            values: dict[str, tuple[float, dict[str, Any]]] = {
                "p50_ms": (middle[name], {"ratio": middle[name] / middle["rls_hnsw"], "ratio_to": "rls_hnsw"} if "rls_hnsw" in middle else {}),
                "p95_ms": (_metrics.percentile(times[name], 0.95), {}),
                "short_results": (short, {}),
                "rows_visited": (visited, {"visible": visible, "of_visible": visited / visible, "buffers": float(np.mean([its["buffers"] for its in looked]))}),
                "index_bytes": (size.pop("all"), size),
            }  # fmt: skip
            if name != "plain" or cell == "100%":  # elsewhere it finds what the reader may not see
                values["recall@10"] = (
                    float(np.mean(recalls)),
                    {"worst_tenth": float(np.quantile(recalls, 0.1))},
                )
            for metric, (value, more) in values.items():
                rows.append({"arm": name, "collection": f"{self.name}/{cell}", "metric": metric, "value": round(float(value), 5),
                             **{key: its if isinstance(its, str) else round(its, 5) for key, its in more.items()}})  # fmt: skip
        return {"rows": rows, "about": about}

    def settle(
        self, cell: str, name: str, arm: Arm, built: Mapping[str, Arm], sweep: Sweep
    ) -> dict[str, Any] | None:
        """The settings with which an arm goes into a cell, of those that were tried, and what each of those gave."""
        if name == "rls_hnsw_tuned" and isinstance(arm, Rls):
            return sweep.best(arm, TUNED)
        if name == "vectorscale" and isinstance(arm, Vectorscale):
            return sweep.best(arm, LABELLED)
        if name == "plain" and isinstance(arm, Peer):
            if cell == "100%":
                # To be no better than another, a few questions are not enough.
                count = 8 if self.options.short else 150
                many = Sweep(self.vectors, self.company.questions(cell, self.readers[cell], count, kind=2))
                target = many.of(built["pgrag"])[0] if "pgrag" in built else 0.95
                self.folder.put("plain", many.best(arm, PLAIN, target))
            found: dict[str, Any] | None = self.folder.steps.get("plain")
            chosen = found["chosen"] if found else {"hnsw.ef_search": 100}
            arm.tune(chosen)
            return found if cell == "100%" else {"chosen": chosen}
        return None


class Sweep:
    """Settings tried over a few questions, which are not those that are measured."""

    def __init__(self, vectors: Vectors, asked: Sequence[Asked]) -> None:
        self._vectors, self._asked, self._truth = vectors, asked, nearest(vectors, asked)

    def of(self, arm: Arm) -> tuple[float, float]:
        """Recall and median milliseconds of an arm as it is."""
        answers, times = turns({"": arm}, self._asked)
        recalls = [recall(self._vectors, question, truth, arm.numbers(rows))
                   for question, truth, rows in zip(self._asked, self._truth, answers[""], strict=True)]  # fmt: skip
        return float(np.mean(recalls)), _metrics.percentile(times[""], 0.5)

    def best(self, arm: Peer, tried: Sequence[Mapping[str, Any]], enough: float = 1.0) -> dict[str, Any]:
        """Tune the arm to the best recall that it reaches, or to what is enough of it; of equals, to the quickest."""
        found: list[dict[str, Any]] = []
        for settings in tried:
            tune(arm, settings)
            value, middle = self.of(arm)
            found.append(
                {"settings": dict(settings), "recall@10": round(value, 4), "p50_ms": round(middle, 3)}
            )
        wanted = min(enough, max(its["recall@10"] for its in found)) - EQUAL
        best = min((its for its in found if its["recall@10"] >= wanted), key=lambda its: its["p50_ms"])
        tune(arm, best["settings"])
        return {"chosen": best["settings"], "tried": found}


def tune(arm: Peer, settings: Mapping[str, Any]) -> None:
    """Settings of the server, and ``policy``: as which role of those that the policies differ for."""
    its = dict(settings)
    if "policy" in its:
        its["role"] = Rls.ROLES[its.pop("policy")]
    arm.tune(its)


def turns(
    arms: Mapping[str, Arm], asked: Sequence[Asked]
) -> tuple[dict[str, list[Any]], dict[str, list[float]]]:
    """Answers and milliseconds of each arm, which take turns question by question, in an order that is drawn anew for each: arms
    that share pages find them warm from the one before."""
    answers: dict[str, list[Any]] = {name: [] for name in arms}
    times: dict[str, list[float]] = {name: [] for name in arms}
    draw = np.random.default_rng(len(asked))
    for question in asked:
        for name in draw.permutation(list(arms)):
            start = time.perf_counter()
            rows = arms[name].ask(question)
            times[name].append(1000 * (time.perf_counter() - start))
            answers[name].append(rows)
    return answers, times


def described(reader: Reader, chunks: int) -> dict[str, Any]:
    """A reader, for the report."""
    return {
        "groups": len(reader.groups),
        "classes": len(reader.classes),
        "chunks": reader.chunks,
        "share": round(reader.chunks / chunks, 5),
    }


# -- What came out ------------------------------------------------------------------------------------------


def tables(report: Report) -> None:
    """A table for each size, with the share that was really visible and how each arm went about it."""
    by = {(row["collection"], row["arm"], row["metric"]): row for row in report.rows}
    for size in dict.fromkeys(row["collection"].split("/")[0] for row in report.rows):
        lines = []
        for cell in (f"{size}/{share}" for share in SHARES):
            for arm in ARMS:
                if (cell, arm, "p50_ms") not in by:
                    continue
                about = report.meta["cells"][cell]
                its = {
                    metric: by[cell, arm, metric]["value"]
                    for metric in ("p50_ms", "p95_ms", "short_results", "rows_visited", "index_bytes")
                }
                ratio, found = by[cell, arm, "p50_ms"].get("ratio"), by.get((cell, arm, "recall@10"))
                share = float(np.mean([reader["share"] for reader in about["readers"]]))
                lines.append([cell if arm == next(iter(about["plans"])) else "", f"{100 * share:.2f} %", arm, f"{its['p50_ms']:.2f}",
                              "" if ratio is None else f"{ratio:.3f}", f"{its['p95_ms']:.2f}", "" if found is None else f"{found['value']:.3f}",
                              f"{its['short_results']:.0f}", f"{its['rows_visited']:.0f}", f"{its['index_bytes'] / 2**20:.0f}",
                              ", ".join(about["plans"][arm])])  # fmt: skip
        report.table(
            f"{size} chunks; times in ms, ratios to rls_hnsw",
            ["cell", "visible", "arm", "p50", "ratio", "p95", "recall@10", "short", "visited", "MB", "plan"],
            lines,
        )
        for cell, about in report.meta["cells"].items():
            for arm in ("rls_hnsw_tuned", "plain", "vectorscale"):
                if cell.startswith(f"{size}/") and arm in about["settings"]:
                    report.say(f"{cell}: {arm}: {json.dumps(about['settings'][arm]['chosen'])}")


def plots(report: Report, file: Path) -> None:
    """For each size, p50 and recall by cell, beside the JSON."""
    for size in dict.fromkeys(row["collection"].split("/")[0] for row in report.rows):
        panels = {}
        for metric, title in (("p50_ms", "p50, ms"), ("recall@10", "recall@10")):
            lines: dict[str, dict[str, float]] = {}
            for row in report.rows:
                its, cell = row["collection"].split("/")
                if its == size and row["metric"] == metric:
                    lines.setdefault(row["arm"], {})[cell] = row["value"]
            panels[title] = lines
        plot(
            file.with_name(f"{file.stem}-{size}.svg"),
            f"{size} chunks, by the share that a reader may see",
            list(SHARES),
            panels,
            {"p50, ms"},
        )


if __name__ == "__main__":
    sys.exit(main())
