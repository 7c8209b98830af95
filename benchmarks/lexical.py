"""Lexical search: nDCG@10, recall@100 and times of pgrag, PostgreSQL's ranking functions, bm25s and extensions.

All arms rank the same chunks by the same lexemes (extensions make their own of the same text). Times are of the
ten best, on one connection, arms in turn; look at the ratios. --scale measures them on one large tenant instead.
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks import _run, _scale
from benchmarks._collections import CollectionError
from benchmarks._report import Report


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    parser = _run.parser(__doc__, "lexical.yaml")
    parser.add_argument("--scale", action="store_true", help="times on one large tenant of made-up text")
    parser.add_argument("--chunks", type=int, metavar="N", help="of that tenant (100000; short: 10000)")
    options = parser.parse_args()
    try:
        if options.scale:
            return _scale.run(options, Report(options, "lexical --scale"))
        return run(options)
    except CollectionError as error:
        parser.error(str(error))


def run(options: argparse.Namespace) -> int:
    """Measure every judged cell."""
    started = time.perf_counter()
    sweep = _run.Sweep.read(options.sweep, options.arms)
    report = Report(options, "lexical")
    chosen = [cell for cell in _run.cells(options) if cell.judged]
    if not chosen:
        print("no judged collection is here: give --data DIR, or set PGRAG_DATA", file=sys.stderr)
        report.close({}, 0)
        return 0
    if options.short:
        chosen = _run.shortened(chosen, options.seed)
    pace = _run.Pace(_run.SHORT if options.short else None, len(chosen))
    with _run.running(options, None) as run:
        report.meta["versions"] |= run.server.versions()
        report.meta["sweep"] = sweep.arms
        for cell in chosen:
            pace.next()
            corpus = run.put(cell)
            arms, asked = run.arms(corpus, sweep.arms), run.queries(corpus, cell.judged)
            timed = max(8, 100 // len(chosen)) if options.short else 300
            measured = _run.measure(corpus, arms, asked, timed, pace)
            report.cell(cell, chunks=corpus.chunks, refused=dict(corpus.refused))
            _run.summarise(report, cell, measured, sweep, options.seed)
        report.close(run.skipped, time.perf_counter() - started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
