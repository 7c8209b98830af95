"""What the commands on ranking have in common: their options, cells put into a database, arms measured over them."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks import _arms, _collections, _metrics, _server
from benchmarks._arms import Arm, Corpus, Query
from benchmarks._collections import Cell, Question
from benchmarks._encoder import Encoder, say
from benchmarks._report import Report
from pgrag.ingest import WindowChunker

SWEEPS = Path(__file__).resolve().parent / "sweeps"
DEPTH, SHALLOW, TOP = 100, 20, 10
"""Chunks of a ranking: in full, where a short run only wants the ten best documents, and when time is taken."""
SHORT, FEWEST = 42.0, 6
"""Seconds for the cells of a short run, and how many questions are asked of each however slow the machine is."""


def parser(description: str | None, sweep: str) -> argparse.ArgumentParser:
    """The options of every command on ranking."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a collection (corpus.jsonl, queries.jsonl, qrels.tsv) or a folder of them; repeatable. "
        "Default: PGRAG_DATA, or ../shared/data beside the project",
    )
    made.add_argument("--short", action="store_true", help="seeded samples, under a minute in all")
    made.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="rows of arm, collection, metric, value; FILE.meta.json beside it",
    )
    made.add_argument(
        "--arms", type=lambda text: text.split(","), metavar="A,B", help="only these arms of the sweep"
    )
    made.add_argument(
        "--sweep",
        type=Path,
        default=SWEEPS / sweep,
        metavar="FILE",
        help=f"arms and their settings (default: {sweep})",
    )
    made.add_argument(
        "--only", type=lambda text: text.split(","), metavar="A,B", help="only these cells or collections"
    )
    made.add_argument("--questions", type=int, metavar="N", help="at most so many of each cell, a sample")
    made.add_argument("--language", default="en", help="of documents that state none (%(default)s)")
    made.add_argument(
        "--chunk",
        type=int,
        default=8000,
        metavar="N",
        help="characters from which a document is cut (%(default)s)",
    )
    made.add_argument("--seed", type=int, default=20, help="of samples, halves and intervals (%(default)s)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pgrag-benchmarks"
    made.add_argument(
        "--cache",
        type=Path,
        default=cache,
        metavar="DIR",
        help="where vectors and peers are kept (default: the user's cache)",
    )
    return made


def add_model(made: argparse.ArgumentParser) -> None:
    """The option that picks the embedding model."""
    made.add_argument(
        "--model", choices=("wordllama", "minilm"), default="wordllama", help="embedding model (%(default)s)"
    )


# -- What is measured ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """A sweep file: arms with their settings, the one that others are compared with, the one that times are ratios to."""

    name: str
    default: str
    clock: str
    arms: dict[str, dict[str, Any]]
    more: dict[str, Any]

    @classmethod
    def read(cls, path: Path, only: Sequence[str] | None) -> Sweep:
        """Of the file, the arms asked for. Raises CollectionError for arms that it does not have."""
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        arms = {name: dict(settings or {}) for name, settings in content.pop("arms").items()}
        if unknown := set(only or ()) - set(arms):
            raise _collections.CollectionError(
                f"{path.name} has no arm {', '.join(sorted(unknown))}; it has {', '.join(arms)}"
            )
        chosen = {name: settings for name, settings in arms.items() if not only or name in only}
        return cls(path.stem, content.pop("default", "pgrag"), content.pop("clock", "pgrag"), chosen, content)


def cells(options: argparse.Namespace) -> list[Cell]:
    """The cells of the collections asked for, whole."""
    found = [
        cell
        for folder in _collections.find(options.data)
        for cell in _collections.read(folder, options.language)
    ]
    chosen = [
        cell for cell in found if not options.only or {cell.name, cell.collection}.intersection(options.only)
    ]
    if options.questions is None:
        return chosen
    return [
        _collections.sample(cell, len(cell.documents), options.questions, options.seed) for cell in chosen
    ]


def shortened(chosen: Sequence[Cell], seed: int, documents: int = 1800, questions: int = 320) -> list[Cell]:
    """Samples of the cells, which together have about so many documents and questions."""
    share = max(1, len(chosen))
    return [
        _collections.sample(cell, max(150, documents // share), max(20, questions // share), seed)
        for cell in chosen
    ]


# -- Putting cells into a database, and arms over them ------------------------------------------------------


@dataclass
class Run:
    """A server, and what the cells on it share."""

    server: _server.Server
    options: argparse.Namespace
    encoder: Encoder | None
    stack: ExitStack
    shared: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why an arm was left out, by arm."""
    tenants: int = 0

    def put(self, cell: Cell, hidden: Sequence[str] = ()) -> Corpus:
        """The cell as a tenant of its own. ``hidden`` documents are kept from the reader SOME."""
        started = time.perf_counter()
        self.tenants += 1
        tenant = f"t{self.tenants}"
        space = None if self.encoder is None else self.encoder.space
        chunker = WindowChunker(target=self.options.chunk, overlap=0)
        chunks = [chunker.chunk(document.text) for document in cell.documents]
        vectors = None
        if self.encoder is not None:
            texts = [
                f"{document.title}\n{chunk.text}".strip()
                for document, its in zip(cell.documents, chunks, strict=True)
                for chunk in its
            ]
            vectors = self.encoder.encode(texts)
        self.server.put_tenant(tenant, space)
        # Places stand for names, since not every collection's ids may be keys of documents.
        documents = (
            (str(place), document.title, document.language, document.text, its)
            for place, (document, its) in enumerate(zip(cell.documents, chunks, strict=True))
        )
        self.server.put_documents(tenant, documents, space, vectors)
        if hidden:
            places = {document.id: str(place) for place, document in enumerate(cell.documents)}
            self.server.hide(tenant, [places[name] for name in hidden])
        languages = tuple(sorted({document.language for document in cell.documents}))
        corpus = Corpus(
            self.server,
            cell,
            tenant,
            space.space if space else None,
            languages,
            self.options.cache,
            self.stack,
            self.shared,
            vectors,
        )
        say(
            f"{cell.name}: {len(cell.documents)} documents, {corpus.chunks} chunks in {time.perf_counter() - started:.0f} s"
        )
        return corpus

    def arms(self, corpus: Corpus, sweep: Mapping[str, Mapping[str, Any]]) -> dict[str, Arm]:
        """Those of the sweep that can run; of the others, the reason is kept."""
        built = {}
        for name, settings in sweep.items():
            try:
                if settings.get("slow") and self.options.short and not self.options.arms:
                    raise _arms.Unavailable("not in a short run, unless --arms names it")
                built[name] = _arms.build(corpus, name, settings)
            except _arms.Unavailable as reason:
                if name not in self.skipped:
                    say(f"{name}: skipped, {reason}")
                self.skipped[name] = str(reason)
        return built

    def queries(self, corpus: Corpus, questions: Sequence[Question]) -> list[Query]:
        """The questions as arms need them."""
        texts = [question.text for question in questions]
        return _arms.queries(corpus, texts, None if self.encoder is None else self.encoder.encode(texts))


@contextmanager
def running(options: argparse.Namespace, encoder: Encoder | None, **settings: str) -> Iterator[Run]:
    """A server for the length of a run, and everything that arms started beside it."""
    with _server.throw_away(**settings) as server, ExitStack() as stack:
        yield Run(server, options, encoder, stack)


class Pace:
    """Shares the time of a short run among its cells, so that it ends in time on a slow machine too."""

    def __init__(self, seconds: float | None, cells: int) -> None:
        self.limited = seconds is not None
        self._end = math.inf if seconds is None else time.perf_counter() + seconds
        self._left = cells
        self._begin, self._share = 0.0, math.inf

    def next(self) -> None:
        """Begin the next cell: what is left is for it and those after it alike."""
        self._begin = time.perf_counter()
        self._share = max(0.0, self._end - self._begin) / max(1, self._left)
        self._left -= 1

    def stop(self, part: float) -> float:
        """When a part of the cell's time, from 0 to 1, is over, as of ``time.perf_counter()``."""
        return self._begin + part * self._share


@dataclass
class Measured:
    """One arm over one cell."""

    rankings: list[list[str]]
    """Names of documents, best first, for each question."""
    deep: list[list[str]]
    """The same to the full depth, for the first of the questions."""
    times: list[float]
    """Milliseconds a question, each arm asked in turn."""
    refused: int = 0

    def percentiles(self) -> dict[str, float]:
        """Of the times; nothing where none was taken."""
        if not self.times:
            return {}
        return {
            "p50_ms": _metrics.percentile(self.times, 0.5),
            "p95_ms": _metrics.percentile(self.times, 0.95),
        }


def measure(
    corpus: Corpus,
    arms: Mapping[str, Arm],
    asked: Sequence[Query],
    timed: int,
    pace: Pace,
    depth: int = DEPTH,
    top: int = TOP,
    parts: tuple[float, float, float] = (0.6, 0.8, 1.0),
    fewest: int = FEWEST,
) -> dict[str, Measured]:
    """Each arm's rankings to the depth, then its times, on one connection, for the ``top`` of some questions.

    The first pass warms what there is to warm. In the last, the arms take turns, question by question and each
    question in another order, so that what else the machine does falls on all of them alike.

    In a short run rankings are shallow at first, and deep for as many of the same questions as there is time
    for; a pass asks no further question when its part of the pace is over. All arms are asked the same ones.
    """
    names = [document.id for document in corpus.cell.documents]

    def ranked(k: int, least: int, stop: float) -> dict[str, list[list[str]]]:
        rankings: dict[str, list[list[str]]] = {name: [] for name in arms}
        for place, query in enumerate(asked):
            if place >= least and time.perf_counter() > stop:
                break
            corpus.answers = {}
            for name, arm in arms.items():
                rankings[name].append(_metrics.once(names[int(key)] for key in arm.search(query, k)))
        corpus.answers = None
        return rankings

    if pace.limited:
        rankings = ranked(min(SHALLOW, depth), fewest, pace.stop(parts[0]))
        deep = ranked(depth, 1, pace.stop(parts[1])) if depth > SHALLOW else rankings
    else:
        deep = rankings = ranked(depth, fewest, math.inf)
    refused = dict(corpus.refused)
    taken = times(
        {name: _searcher(arm, top) for name, arm in arms.items()}, asked[:timed], pace.stop(parts[2])
    )
    return {name: Measured(rankings[name], deep[name], taken[name], refused.get(name, 0)) for name in arms}


def _searcher(arm: Arm, top: int) -> Callable[[Query], object]:
    return lambda query: arm.search(query, top)


def times(
    searches: Mapping[str, Callable[[Query], object]], asked: Sequence[Query], stop: float = math.inf
) -> dict[str, list[float]]:
    """Milliseconds of each search for each question, in turns; no further question after the stop, but for two."""
    taken: dict[str, list[float]] = {name: [] for name in searches}
    order = list(searches)
    for place, query in enumerate(asked):
        if place >= 2 and time.perf_counter() > stop:
            break
        order = order[1:] + order[:1]
        for name in order:
            start = time.perf_counter()
            searches[name](query)
            taken[name].append(1000 * (time.perf_counter() - start))
    return taken


# -- What came out ------------------------------------------------------------------------------------------


def summarise(
    report: Report, cell: Cell, measured: Mapping[str, Measured], sweep: Sweep, seed: int, **more: Any
) -> dict[str, _metrics.Values]:
    """The rows and the table of one cell, and the nDCG@10 of each question by arm. ``more`` are fields of every row.

    Each arm's nDCG is set against the default's, and against that of the better lane where the sweep has lanes.
    """
    if not measured:
        return {}
    golds = [question.gold for question in cell.judged][: len(next(iter(measured.values())).rankings)]
    ndcg = {name: _metrics.of_each(_metrics.ndcg, its.rankings, golds, 10) for name, its in measured.items()}
    recall = {
        name: _metrics.of_each(_metrics.recall, its.deep, golds[: len(its.deep)], DEPTH)
        for name, its in measured.items()
    }
    clock = measured[sweep.clock].percentiles() if sweep.clock in measured else {}
    lanes = [lane for lane in sweep.more.get("lanes", ()) if lane in measured]
    better = max(lanes, key=lambda lane: ndcg[lane].mean()) if lanes else None
    others = {"default": sweep.default} | ({"better_lane": better} if better else {})
    lines = []
    for name, its in measured.items():
        fields: dict[str, Any] = {**more, "questions": len(golds)}
        line, gaps = [name, f"{ndcg[name].mean():.3f}"], dict[str, float]()
        for label, other in others.items():
            if other == name or other not in measured:
                line.append("")
                continue
            gap = _metrics.paired(ndcg[name], ndcg[other], seed)
            gaps |= {
                f"minus_{label}": gap.value,
                f"minus_{label}_low": gap.low,
                f"minus_{label}_high": gap.high,
            }
            line.append(str(gap))
        report.row(
            name,
            cell.name,
            "ndcg@10",
            ndcg[name].mean(),
            **fields,
            **gaps,
            better_lane=better,
            refused=its.refused or None,
        )
        report.row(name, cell.name, f"recall@{DEPTH}", recall[name].mean(), **more, questions=len(its.deep))
        line.append(f"{recall[name].mean():.3f}")
        for metric, value in its.percentiles().items():
            ratio = value / clock[metric] if clock else None
            report.row(
                name,
                cell.name,
                metric,
                value,
                **more,
                timed=len(its.times),
                ratio=ratio,
                ratio_to=sweep.clock if clock else None,
            )
            line += [f"{value:.2f}", "" if ratio is None else f"{ratio:.2f}"]
        lines.append(line)
    title = f"{cell.name}: {len(cell.documents)} documents, {len(golds)} judged questions; times as ratios to {sweep.clock}"
    columns = ["arm", "nDCG@10", *(f"minus {other}" for other in others.values()), f"recall@{DEPTH}"]
    report.table(title, [*columns, "p50 ms", "ratio", "p95 ms", "ratio"], lines)
    return ndcg
