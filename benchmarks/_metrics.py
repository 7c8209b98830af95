"""Measures of rankings, of abstention and of time, and how sure they are.

A ranking is a list of document names, best first, each document once: the relevance unit is the document,
and several passages of one document count once, at the best of their ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""Shape ``(questions,)``."""

LEVEL = 0.95
"""Of every interval here: percentile bootstrap, two-sided."""


def once(names: Iterable[str]) -> list[str]:
    """The names without repetitions, each at its first place."""
    return list(dict.fromkeys(names))


def ndcg(ranking: Sequence[str], gold: Mapping[str, int], k: int = 10) -> float:
    """nDCG@k from 0 to 1, as trec_eval counts it: linear gain (the grade itself), discount log2(rank + 1)."""
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([max(gold.get(name, 0), 0) for name in ranking[:k]], dtype=float)
    ideal = np.array(sorted((grade for grade in gold.values() if grade > 0), reverse=True)[:k], dtype=float)
    if ideal.size == 0:
        raise ValueError("nDCG is not defined for a question without a relevant document")
    return float(gains @ discounts[: gains.size] / (ideal @ discounts[: ideal.size]))


def recall(ranking: Sequence[str], gold: Mapping[str, int], k: int = 100) -> float:
    """The share, from 0 to 1, of the documents of a positive grade that are among the first k."""
    relevant = {name for name, grade in gold.items() if grade > 0}
    if not relevant:
        raise ValueError("recall is not defined for a question without a relevant document")
    return len(relevant.intersection(ranking[:k])) / len(relevant)


def auroc(positives: Values, negatives: Values) -> float:
    """The chance that a positive has the higher score than a negative; a tie counts as half."""
    ordered = np.sort(negatives)
    below, through = (np.searchsorted(ordered, positives, side=side) for side in ("left", "right"))
    return float((below + through).mean() / (2 * negatives.size))


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the bounds of its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired(ours: Values, theirs: Values, seed: int, repeats: int = 2000) -> Interval:
    """The mean difference per question, ours minus theirs, resampled by question."""
    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    chosen = np.random.default_rng(seed).integers(differences.size, size=(repeats, differences.size))
    return Interval(float(differences.mean()), *_bounds(differences[chosen].mean(axis=1)))


def macro(
    differences: Mapping[str, Values], group: Mapping[str, str], seed: int, repeats: int = 2000
) -> Interval:
    """The mean over groups of the means of their cells' mean differences; resampled by question within each cell."""
    random = np.random.default_rng(seed)
    means, resampled = defaultdict(list), defaultdict(list)
    for cell, values in differences.items():
        means[group[cell]].append(values.mean())
        chosen = random.integers(values.size, size=(repeats, values.size))
        resampled[group[cell]].append(values[chosen].mean(axis=1))
    mean = np.mean([np.mean(its) for its in means.values()])
    return Interval(
        float(mean), *_bounds(np.mean([np.mean(its, axis=0) for its in resampled.values()], axis=0))
    )


def auroc_interval(positives: Values, negatives: Values, seed: int, repeats: int = 1000) -> Interval:
    """AUROC, resampled within the positives and within the negatives."""
    random = np.random.default_rng(seed)
    values = [
        auroc(random.choice(positives, positives.size), random.choice(negatives, negatives.size))
        for _ in range(repeats)
    ]
    return Interval(auroc(positives, negatives), *_bounds(np.array(values)))


def _bounds(values: Values) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Errors:
    """What a threshold does: a score below it is an abstention."""

    threshold: float
    false_answers: float
    """The share of negatives, from 0 to 1, that are answered."""
    false_abstentions: float
    """The share of positives, from 0 to 1, that are not."""


def errors(threshold: float, positives: Values, negatives: Values) -> Errors:
    """Both error rates at a threshold."""
    return Errors(threshold, float((negatives >= threshold).mean()), float((positives < threshold).mean()))


def balanced_threshold(positives: Values, negatives: Values) -> float:
    """The threshold with the least sum of both error rates; of several, the lowest.

    It lies half-way to the next lower score, so that it is not fitted to one question's last digit.
    """
    scores = np.unique(np.concatenate([positives, negatives]))
    candidates = np.concatenate([scores[:1], (scores[1:] + scores[:-1]) / 2])
    sums = [(negatives >= t).mean() + (positives < t).mean() for t in candidates]
    return float(candidates[int(np.argmin(sums))])


def quantile_threshold(positives: Values, share: float) -> float:
    """The highest threshold that abstains from at most this share of the positives."""
    ordered = np.sort(positives)
    return float(ordered[int(np.floor(share * ordered.size))])


def halves(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two disjoint halves of ``range(count)``, by a seeded shuffle."""
    order = np.random.default_rng(seed).permutation(count)
    return order[: count // 2], order[count // 2 :]


def percentile(milliseconds: Sequence[float], share: float) -> float:
    """A percentile of times; linear between two."""
    return float(np.quantile(np.asarray(milliseconds), share))


def of_each(
    measure: Callable[..., float],
    rankings: Sequence[Sequence[str]],
    golds: Sequence[Mapping[str, int]],
    k: int,
) -> Values:
    """A measure of each ranking."""
    return np.array([measure(ranking, gold, k) for ranking, gold in zip(rankings, golds, strict=True)])
