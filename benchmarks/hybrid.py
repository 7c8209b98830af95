"""Hybrid search: nDCG@10, recall@100 and times of pgrag's default, its lanes, other fusions and other stores.

Each arm's nDCG is set against the default's and against that of the better single lane, question by question.
Then the default with 10 to 160 candidates of each lane: which number wins, and where a larger one loses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import _metrics, _run
from benchmarks._arms import Corpus, Pgrag, Query
from benchmarks._collections import Cell, CollectionError
from benchmarks._encoder import Encoder
from benchmarks._report import Report
from pgrag.errors import EmbeddingError


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    parser = _run.parser(__doc__, "hybrid.yaml")
    _run.add_model(parser)
    options = parser.parse_args()
    try:
        return run(options)
    except CollectionError as error:
        parser.error(str(error))
    except EmbeddingError as error:
        parser.error(f"{error} ({error.hint})")


def run(options: argparse.Namespace) -> int:
    """Measure every judged cell."""
    started = time.perf_counter()
    sweep = _run.Sweep.read(options.sweep, options.arms)
    report = Report(options, "hybrid")
    chosen = [cell for cell in _run.cells(options) if cell.judged]
    if not chosen:
        print("no judged collection is here: give --data DIR, or set PGRAG_DATA", file=sys.stderr)
        report.close({}, 0)
        return 0
    if options.short:
        chosen = _run.shortened(chosen, options.seed, documents=1200, questions=200)
    pace = _run.Pace(_run.SHORT if options.short else None, len(chosen))
    encoder = Encoder(options.model, options.cache)
    ndcg: dict[str, dict[str, _metrics.Values]] = defaultdict(dict)
    steps: dict[int, dict[str, Step]] = defaultdict(dict)
    with _run.running(options, encoder) as run:
        report.meta["versions"] |= run.server.versions()
        report.meta["sweep"] = sweep.arms
        report.meta["space"] = {"space": encoder.space.space, "model_revision": encoder.space.model_revision}
        for cell in chosen:
            pace.next()
            corpus = run.put(cell)
            arms, asked = run.arms(corpus, sweep.arms), run.queries(corpus, cell.judged)
            timed = max(5, 40 // len(chosen)) if options.short else 200
            measured = _run.measure(corpus, arms, asked, timed, pace, parts=(0.55, 0.7, 0.8))
            found = _run.summarise(report, cell, measured, sweep, options.seed, model=options.model)
            for arm, values in found.items():
                ndcg[arm][cell.name] = values
            if isinstance(arms.get(sweep.default), Pgrag):
                for count, step in steps_of(corpus, asked, sweep, options.short, pace).items():
                    steps[count][cell.name] = step
            report.cell(cell, chunks=corpus.chunks, refused=dict(corpus.refused))
        macro(report, ndcg, chosen, sweep, options.seed)
        candidates(report, steps, sweep, options.seed)
        report.close(run.skipped, time.perf_counter() - started)
    return 0


def macro(
    report: Report,
    ndcg: Mapping[str, Mapping[str, _metrics.Values]],
    cells: Sequence[Cell],
    sweep: _run.Sweep,
    seed: int,
) -> None:
    """Mean nDCG over collections: each counts once, however many languages it has; and how far the default is above."""
    if sweep.default not in ndcg:
        return
    arms = dict(ndcg)
    ours = arms[sweep.default]
    if lanes := [arms[lane] for lane in sweep.more.get("lanes", ()) if lane in arms]:
        arms["better lane of each"] = {
            cell: max((lane[cell] for lane in lanes), key=lambda values: values.mean()) for cell in ours
        }
    group = {cell.name: cell.collection for cell in cells}
    lines = []
    report.meta["macro_ndcg@10"] = {}
    for arm, by_cell in arms.items():
        mean = _metrics.macro(by_cell, group, seed).value
        shared = [cell for cell in by_cell if cell in ours]
        above = _metrics.macro({cell: ours[cell] - by_cell[cell] for cell in shared}, group, seed)
        relative = above.value / (mean or 1)
        report.meta["macro_ndcg@10"][arm] = {
            "value": round(mean, 5),
            "default_above": round(above.value, 5),
            "low": round(above.low, 5),
            "high": round(above.high, 5),
            "relative": round(relative, 5),
        }
        lines.append([arm, f"{mean:.4f}", str(above), f"{100 * relative:+.1f} %"])
    columns = ["arm", "nDCG@10", f"{sweep.default} is above it by", "which is"]
    report.table("mean over collections, each counted once", columns, lines)


# -- How many candidates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """The default with one number of candidates, over one cell; the first two by question, times by timed question."""

    ndcg: _metrics.Values
    recall: _metrics.Values
    times: list[float]


def steps_of(
    corpus: Corpus, asked: Sequence[Query], sweep: _run.Sweep, short: bool, pace: _run.Pace
) -> dict[int, Step]:
    """Each number of candidates, measured by the ten best: fewer candidates than that there cannot be."""
    counts: list[int] = list(sweep.more.get("candidates", ()))
    settings = {key: value for key, value in sweep.arms[sweep.default].items() if key != "kind"}
    arms = {
        str(count): Pgrag(corpus, f"{sweep.default}/{count}", **settings | {"candidates": count})
        for count in counts
    }
    timed = 3 if short else 200
    some = asked[: 20 if short else None]
    measured = _run.measure(corpus, arms, some, timed, pace, depth=_run.TOP, parts=(0.95, 0.95, 1), fewest=3)
    golds = [question.gold for question in corpus.cell.judged]
    steps = {}
    for name, its in measured.items():
        judged = golds[: len(its.rankings)]
        ndcg, recall = (
            _metrics.of_each(measure, its.rankings, judged, _run.TOP)
            for measure in (_metrics.ndcg, _metrics.recall)
        )
        steps[int(name)] = Step(ndcg, recall, its.times)
    return steps


def candidates(report: Report, steps: Mapping[int, Mapping[str, Step]], sweep: _run.Sweep, seed: int) -> None:
    """Rows and a table by number of candidates, over all questions, and what follows from them."""
    if not steps:
        return
    ndcg = {count: np.concatenate([step.ndcg for step in cells.values()]) for count, cells in steps.items()}
    recall = {
        count: np.concatenate([step.recall for step in cells.values()]) for count, cells in steps.items()
    }
    slow = {
        count: float(np.quantile(np.concatenate([step.times for step in cells.values()]), 0.95))
        for count, cells in steps.items()
    }
    lines, verdicts, before = [], [], None
    for count, cells in steps.items():
        for cell, step in cells.items():
            fields = {"candidates": count, "of": sweep.default}
            arm = f"{sweep.default}/candidates={count}"
            report.row(arm, cell, "ndcg@10", step.ndcg.mean(), **fields)
            report.row(arm, cell, "recall@10", step.recall.mean(), **fields)
            report.row(arm, cell, "p95_ms", _metrics.percentile(step.times, 0.95), **fields)
        line = [
            str(count),
            f"{ndcg[count].mean():.4f}",
            f"{recall[count].mean():.4f}",
            f"{slow[count]:.2f}",
            "",
        ]
        if before is not None:
            gain = _metrics.paired(ndcg[count], ndcg[before], seed)
            line[-1] = str(gain)
            if gain.low > 0:
                verdicts.append(
                    f"{before} to {count} wins: nDCG@10 {gain}, p95 × {slow[count] / slow[before]:.2f}"
                )
            elif gain.high < 0:
                verdicts.append(
                    f"{before} to {count} loses: nDCG@10 {gain}, p95 × {slow[count] / slow[before]:.2f}"
                )
        before = count
        lines.append(line)
    best = max(ndcg, key=lambda count: ndcg[count].mean())
    # The fewest candidates that are not shown to be worse than the best number of them.
    enough = next(
        count for count in ndcg if count == best or _metrics.paired(ndcg[count], ndcg[best], seed).high >= 0
    )
    verdicts.append(
        f"best: {best}; {enough} is the least that is not shown to be worse, at p95 × {slow[enough] / slow[best]:.2f}"
    )
    report.meta["candidates"] = verdicts
    report.table(
        f"{sweep.default}: candidates of each lane, over all {ndcg[best].size} questions",
        ["candidates", "nDCG@10", "recall@10", "p95 ms", "nDCG@10 minus that of the line before"],
        lines,
    )
    for verdict in verdicts:
        report.say(verdict)


if __name__ == "__main__":
    sys.exit(main())
