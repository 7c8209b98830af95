"""Abstention: how well the best hit's relevance tells questions that can be answered from those that cannot.

Questions that cannot be answered are, over each collection: those that it says it does not answer; those whose
gold documents are kept from the reader (a seeded third of the questions); and those of other collections in the
same language. AUROC with its bootstrap interval; then false answers against false abstentions, at the threshold
that pgrag ships and at thresholds that were chosen on one seeded half and are reported on the other.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks import _metrics, _run
from benchmarks._arms import Corpus, Pgrag
from benchmarks._collections import Cell, CollectionError, Question
from benchmarks._encoder import Encoder
from benchmarks._metrics import Errors, Values
from benchmarks._report import Report
from benchmarks._server import ALL, SOME
from pgrag.errors import EmbeddingError

HIDDEN = 1 / 3
"""The share of questions whose gold documents are kept from the reader."""
ACCEPTED = 0.05
"""The share of false abstentions that one of the thresholds is chosen for."""
FEWEST = 5
"""Positives, and negatives, below which there is nothing to tell."""


Known = dict[tuple[str, str, str], tuple[float, float | None]]
"""Signal and shipped threshold by arm, reader and question."""


@dataclass(frozen=True)
class Group:
    """Questions that should be answered, questions that should not, and the reader who asks them."""

    name: str
    negatives: str
    """What the questions are that should not be answered."""
    positive: Sequence[Question]
    negative: Sequence[Question]
    reader: str = ALL


@dataclass
class Trial:
    """The scores of a group, by arm: of those that should be answered, and of those that should not."""

    name: str
    negatives: str
    scores: dict[str, tuple[Values, Values]] = field(default_factory=dict)
    shipped: dict[str, float] = field(default_factory=dict)
    """pgrag's own threshold, by arm."""


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    parser = _run.parser(__doc__, "abstain.yaml")
    _run.add_model(parser)
    options = parser.parse_args()
    try:
        return run(options)
    except CollectionError as error:
        parser.error(str(error))
    except EmbeddingError as error:
        parser.error(f"{error} ({error.hint})")


def run(options: argparse.Namespace) -> int:
    """Ask every cell its own questions and others'."""
    started = time.perf_counter()
    sweep = _run.Sweep.read(options.sweep, options.arms)
    report = Report(options, "abstain")
    chosen = [
        cell
        for cell in _run.cells(options)
        if cell.judged or any(q.answerable is not None for q in cell.questions)
    ]
    if not chosen:
        print("no collection with answers is here: give --data DIR, or set PGRAG_DATA", file=sys.stderr)
        report.close({}, 0)
        return 0
    if options.short:
        chosen = _run.shortened(chosen, options.seed, documents=1600, questions=300)
    # Of each kind and cell; of each other collection.
    most, foreign = (max(20, 240 // len(chosen)), max(10, 80 // len(chosen))) if options.short else (400, 150)
    encoder = Encoder(options.model, options.cache)
    pace = _run.Pace(_run.SHORT if options.short else None, len(chosen))
    trials: list[Trial] = []
    with _run.running(options, encoder) as run:
        report.meta["versions"] |= run.server.versions()
        report.meta["sweep"] = sweep.arms
        for cell in chosen:
            pace.next()
            kept, robbed, hidden = rob(cell, options.seed)
            corpus = run.put(cell, hidden)
            groups = groups_of(cell, chosen, kept, robbed, most, foreign, options.seed)
            known: Known = {}
            if options.short:
                groups = fitted(run, corpus, sweep, groups, known, pace.stop(1))
            for group in groups:
                if min(len(group.positive), len(group.negative)) >= FEWEST:
                    trials.append(ask(run, corpus, sweep, group, known))
            report.cell(
                cell, chunks=corpus.chunks, hidden_documents=len(hidden), refused=dict(corpus.refused)
            )
    summarise(report, trials, sweep, options)
    report.close(run.skipped, time.perf_counter() - started)
    return 0


# -- Questions ----------------------------------------------------------------------------------------------


def groups_of(
    cell: Cell,
    cells: Sequence[Cell],
    kept: Sequence[Question],
    robbed: Sequence[Question],
    most: int,
    foreign: int,
    seed: int,
) -> list[Group]:
    """What is asked of a cell; where it has no unanswerable questions, those without their gold take that name."""
    answered = some([question for question in cell.questions if answerable(question)], most, seed)
    unanswered = some([question for question in cell.questions if not answerable(question)], most, seed)
    own = len(unanswered) >= FEWEST
    groups = [Group(cell.name, "not answered here", answered, unanswered)] if own else []
    hidden = f"{cell.name}/gold-hidden" if own else cell.name
    groups.append(
        Group(hidden, "their gold documents hidden", some(kept, most, seed), some(robbed, most, seed), SOME)
    )
    for other in cells:
        if other.collection != cell.collection and other.language == cell.language:
            asked = some(other.questions, foreign, seed)
            groups.append(
                Group(f"{cell.name}/foreign:{other.name}", f"questions of {other.name}", answered, asked)
            )
    return groups


def answerable(question: Question) -> bool:
    """As the collection says; where it says nothing, a question without gold is not."""
    return question.answerable if question.answerable is not None else bool(question.gold)


def some(questions: Sequence[Question], most: int, seed: int) -> list[Question]:
    """A seeded sample of at most so many, whose first are a sample too."""
    return random.Random(seed).sample(list(questions), min(most, len(questions)))


def rob(cell: Cell, seed: int) -> tuple[list[Question], list[Question], list[str]]:
    """Questions that keep a relevant document, questions that lose all of theirs, and the documents that go.

    Questions lose their documents one after the other, in a drawn order, until a third of all have none: several
    may be about one document, and are robbed together.
    """
    there = {document.id for document in cell.documents}
    asked = [question for question in cell.judged if question.answerable is not False]
    left = [{name for name, grade in question.gold.items() if grade > 0} & there for question in asked]
    asked_of = defaultdict(list)
    for place, names in enumerate(left):
        for name in names:
            asked_of[name].append(place)
    hidden: set[str] = set()
    robbed: list[Question] = []
    for place in random.Random(f"{seed}/{cell.name}/hidden").sample(range(len(asked)), len(asked)):
        if len(robbed) >= HIDDEN * len(asked):
            break
        for name in sorted(left[place]):
            hidden.add(name)
            for other in asked_of[name]:
                left[other].discard(name)
                robbed += [] if left[other] else [asked[other]]
    return [question for question, names in zip(asked, left, strict=True) if names], robbed, sorted(hidden)


def fitted(
    run: _run.Run, corpus: Corpus, sweep: _run.Sweep, groups: Sequence[Group], known: Known, stop: float
) -> list[Group]:
    """The groups, cut so that asking them is over at the stop: by the time that a few of the questions take."""
    few = [
        Group(group.name, group.negatives, group.positive[:2], group.negative[:2], group.reader)
        for group in groups
    ]
    started = time.perf_counter()
    for group in few:
        ask(run, corpus, sweep, group, known)
    now = time.perf_counter()
    questions = sum(len(group.positive) + len(group.negative) for group in groups)
    expected = (
        questions * (now - started) / max(1, sum(len(group.positive) + len(group.negative) for group in few))
    )
    share = min(1.0, max(0.0, stop - now) / max(expected, 1e-9))

    def cut(asked: Sequence[Question]) -> Sequence[Question]:
        return asked[: max(2 * FEWEST, round(share * len(asked)))]

    return [
        Group(group.name, group.negatives, cut(group.positive), cut(group.negative), group.reader)
        for group in groups
    ]


def ask(run: _run.Run, corpus: Corpus, sweep: _run.Sweep, group: Group, known: Known) -> Trial:
    """The signal of each question; no hit at all is 0. ``known`` are answers of other groups."""
    asked = [*group.positive, *group.negative]
    queries = run.queries(corpus, asked)
    trial = Trial(group.name, group.negatives)
    for name, settings in sweep.arms.items():
        arm = Pgrag(
            corpus, name, group.reader, **{key: value for key, value in settings.items() if key != "kind"}
        )
        values = []
        for question, query in zip(asked, queries, strict=True):
            key = (name, group.reader, question.text)
            if key not in known:
                answer = arm.ask(query, 1)
                signal = answer.get(sweep.more.get("signal", "top_relevance"))
                known[key] = float(signal or 0), answer.get("policy", {}).get("threshold")
            value, threshold = known[key]
            values.append(value)
            if threshold is not None:
                trial.shipped[name] = threshold
        trial.scores[name] = np.array(values[: len(group.positive)]), np.array(values[len(group.positive) :])
    return trial


# -- Thresholds ---------------------------------------------------------------------------------------------


def split(trial: Trial, arm: str, seed: int) -> Iterator[tuple[Values, Values]]:
    """The positives and negatives of two seeded halves: the one to choose on, the one to report."""
    positives, negatives = trial.scores[arm]
    for ours, theirs in zip(
        _metrics.halves(positives.size, seed), _metrics.halves(negatives.size, seed + 1), strict=True
    ):
        yield positives[ours], negatives[theirs]


def pooled_threshold(trials: Sequence[Trial], arm: str, seed: int) -> float:
    """One threshold for all: the least mean of both error rates over the halves to choose on, each trial counted once."""
    chosen_on = [next(split(trial, arm, seed)) for trial in trials]
    candidates = np.unique(np.concatenate([np.concatenate(both) for both in chosen_on]))
    sums = [
        np.mean([(negatives >= t).mean() + (positives < t).mean() for positives, negatives in chosen_on])
        for t in candidates
    ]
    return float(candidates[int(np.argmin(sums))])


def thresholds(trial: Trial, arm: str, pooled: float, seed: int) -> dict[str, Errors]:
    """Errors by how the threshold was chosen; the shipped one's over all questions, the others' on the second half."""
    (dev_positives, dev_negatives), (positives, negatives) = split(trial, arm, seed)
    result = {}
    if arm in trial.shipped:
        result["shipped"] = _metrics.errors(trial.shipped[arm], *trial.scores[arm])
    result["balanced"] = _metrics.errors(
        _metrics.balanced_threshold(dev_positives, dev_negatives), positives, negatives
    )
    result[f"abstain {ACCEPTED}"] = _metrics.errors(
        _metrics.quantile_threshold(dev_positives, ACCEPTED), positives, negatives
    )
    result["pooled"] = _metrics.errors(pooled, positives, negatives)
    return result


def summarise(
    report: Report, trials: Sequence[Trial], sweep: _run.Sweep, options: argparse.Namespace
) -> None:
    """Rows and tables of everything."""
    repeats = 500 if options.short else 2000
    lines = []
    for trial in trials:
        positives, negatives = next(iter(trial.scores.values()))
        line = [trial.name, str(positives.size), str(negatives.size)]
        for arm, scores in trial.scores.items():
            area = _metrics.auroc_interval(*scores, options.seed, repeats)
            about = {
                "negatives": trial.negatives,
                "positive_questions": positives.size,
                "negative_questions": negatives.size,
            }
            report.row(
                arm,
                trial.name,
                "auroc",
                area.value,
                low=area.low,
                high=area.high,
                model=options.model,
                **about,
            )
            line.append(f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]")
        lines.append(line)
    report.table(f"AUROC, {options.model}", ["questions", "to answer", "not to", *sweep.arms], lines)
    for arm in sweep.arms:
        if not trials:
            continue
        pooled = pooled_threshold(trials, arm, options.seed)
        lines, choices = [], []
        for trial in trials:
            found = thresholds(trial, arm, pooled, options.seed)
            choices = list(found)
            for choice, errors in found.items():
                fields = {
                    "choice": choice,
                    "threshold": errors.threshold,
                    "negatives": trial.negatives,
                    "model": options.model,
                }
                report.row(arm, trial.name, "false_answers", errors.false_answers, **fields)
                report.row(arm, trial.name, "false_abstentions", errors.false_abstentions, **fields)
            lines.append([trial.name, *map(_written, found.values())])
        report.table(
            f"{arm}: threshold, then false answers / false abstentions", ["questions", *choices], lines
        )


def _written(errors: Errors) -> str:
    return f"{errors.threshold:.3f}  {errors.false_answers:.2f} / {errors.false_abstentions:.2f}"


if __name__ == "__main__":
    sys.exit(main())
