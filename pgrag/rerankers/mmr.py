"""Maximal marginal relevance (Carbonell and Goldstein, 1998): what is relevant and was not said before.

It diversifies; it does not judge relevance, which it takes from the fused order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgrag.errors import RerankError
from pgrag.protocols import Passage


class MMR:
    """Scores by ``lambda_ * relevance - (1 - lambda_) * similarity to the nearest passage ranked before``.

    Relevance is the fused score over the best one (below 0 is 0). Similarity, from 0 to 1, is the cosine of
    the passages' letter trigrams, the rarer among these passages the weightier: it needs no model and knows
    no language, and takes a paraphrase for something new. With ``lambda_`` 1 the fused order stays.
    """

    processor: str | None = None

    def __init__(self, lambda_: float = 0.7) -> None:
        if isinstance(lambda_, bool) or not isinstance(lambda_, int | float) or not 0 <= lambda_ <= 1:
            raise RerankError(
                f"lambda_ must be a number from 0 to 1, not {lambda_!r:.40}",
                hint="1 is relevance alone; 0.7 is usual",
                code="RG415",
            )
        self.lambda_ = float(lambda_)
        self.name = f"mmr-{lambda_:g}"

    def rerank(self, question: str, passages: Sequence[Passage]) -> list[float]:
        """One score a passage; they fall as the passages were taken, of equal ones the one given first."""
        count = len(passages)
        if not count:
            return []
        relevance = np.array([max(passage.score, 0.0) for passage in passages])
        relevance /= relevance.max() or 1.0
        likeness = similarity([passage.text for passage in passages])
        nearest = np.zeros(count)  # to those taken
        scores = np.zeros(count)
        left = np.ones(count, dtype=bool)
        for _ in range(count):
            # Rounded: what differs in the last bits by the processor's arithmetic is equal.
            worth = np.round(self.lambda_ * relevance - (1 - self.lambda_) * nearest, 9)
            taken = int(np.argmax(np.where(left, worth, -np.inf)))
            scores[taken] = worth[taken]
            left[taken] = False
            nearest = np.maximum(nearest, likeness[taken])
        found: list[float] = scores.tolist()
        return found


def similarity(texts: Sequence[str]) -> NDArray[np.float64]:
    """How alike each two texts are, from 0 to 1: shape ``(len(texts), len(texts))``."""
    counts = [_trigrams(text) for text in texts]
    spread = Counter(gram for one in counts for gram in one)
    rarity = {gram: math.log1p(len(texts) / holders) for gram, holders in spread.items()}
    # What only one text has makes it longer, and is in no product.
    places = {gram: place for place, gram in enumerate(gram for gram in spread if spread[gram] > 1)}
    table = np.zeros((len(texts), len(places)))
    for row, one in enumerate(counts):
        weights = {gram: (1 + math.log(count)) * rarity[gram] for gram, count in one.items()}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
        shared = [gram for gram in weights if gram in places]
        table[row, [places[gram] for gram in shared]] = [weights[gram] / length for gram in shared]
    alike: NDArray[np.float64] = np.clip(table @ table.T, 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    return alike


def _trigrams(text: str) -> Counter[str]:
    """Of letters and digits, with a blank at the bounds of each word."""
    words = re.findall(r"\w+", text.casefold())
    flat = f" {' '.join(words)} "
    return Counter(flat[place : place + 3] for place in range(len(flat) - 2))
