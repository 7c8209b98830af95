"""The rerank stage, but for the waiting: what a reranker may see, and what its answer does to the order."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgrag import log
from pgrag._requests import refuse, whole
from pgrag._threads import Busy
from pgrag.errors import PgragError
from pgrag.models import Rerank
from pgrag.protocols import Passage, Reranker

USUAL_CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class Stage:
    """A reranker, how many hits it is to be given, and how many seconds it has."""

    reranker: Reranker
    candidates: int
    timeout: float


def stage(
    reranker: Reranker | None, k: int, candidates: int, rerank_candidates: int | None, rerank_timeout: float
) -> Stage | None:
    """The stage, checked; None without a reranker. Raises InvalidInput (RG302, RG303)."""
    if reranker is None:
        return None
    name, processor = getattr(reranker, "name", None), getattr(reranker, "processor", 0)
    if (
        not callable(getattr(reranker, "rerank", None))
        or not (isinstance(name, str) and name.strip() and len(name) <= 200)
        or not (processor is None or isinstance(processor, str))
    ):
        refuse(
            "RG303",
            "the reranker is not one",
            "It has a name of 1 to 200 characters, a processor (None for this process) and rerank(…).",
        )
    if rerank_candidates is None:
        rerank_candidates = min(max(USUAL_CANDIDATES, k), candidates)
    whole("rerank_candidates", rerank_candidates, k, min(100, candidates), "RG302")
    if (
        isinstance(rerank_timeout, bool)
        or not isinstance(rerank_timeout, int | float)
        or not 0 < rerank_timeout <= 600
    ):
        refuse("RG303", "rerank_timeout must be more than 0 and at most 600", "It is in seconds.")
    return Stage(reranker, int(rerank_candidates), float(rerank_timeout))


class Unusable(Exception):
    """The reranker's answer is no score for each passage; ``args`` are a reason and what was wrong."""


class Attempt:
    """One use of a stage on what the database found: ``passages`` is for the reranker, if there are any."""

    def __init__(self, stage: Stage, found: Mapping[str, Any]) -> None:
        self._reranker = stage.reranker
        self._status, self._reason, self._detail = "skipped", "abstained", ""
        self._ids: list[str] = []
        self._withheld: list[str] = []
        self._truncated: int | None = None
        self._scores: dict[str, float] = {}
        self._latency = 0.0
        self.passages: list[Passage] = []
        if found["status"] == "evidence":
            self._admit(found["hits"], found.get("processors") or {})
        self._start = time.perf_counter()

    def _admit(self, hits: Sequence[Mapping[str, Any]], allowed: Mapping[str, Sequence[str]]) -> None:
        # A source of which nothing is said allows nobody.
        receiver = self._reranker.processor
        for hit in hits:
            if receiver is None or receiver in allowed.get(hit["source"], ()):
                self._ids.append(hit["chunk_id"])
                self.passages.append(Passage(hit["text"], float(hit["score"])))
            else:
                self._withheld.append(hit["chunk_id"])
        self._reason = "not_permitted"

    def succeeded(self, scores: Any) -> None:
        """Take the reranker's answer. Raises Unusable, which is to be passed to ``failed``."""
        count = len(self._ids)
        numbers = np.asarray(scores)
        if numbers.shape != (count,):
            given = str(len(numbers)) if numbers.ndim == 1 else f"shape {numbers.shape}"
            raise Unusable("wrong_count", f"{given} scores for {count} passages")
        if numbers.dtype.kind not in "iuf":
            raise Unusable("error", "the scores are not all numbers")
        if not np.isfinite(numbers).all():
            raise Unusable("not_finite", f"{np.count_nonzero(~np.isfinite(numbers))} scores are not finite")
        best = sorted(zip(numbers.tolist(), range(count), strict=True), key=lambda pair: (-pair[0], pair[1]))
        self._scores = {self._ids[place]: float(score) for score, place in best}
        self._truncated = getattr(scores, "truncated", None)
        self._end("applied", None)

    def failed(self, error: Exception) -> None:
        """The reranker did not answer, or not as it should: the order stays the fused one."""
        if isinstance(error, Unusable):
            self._end("failed", *error.args)
        elif isinstance(error, TimeoutError):
            self._end("failed", "timeout", str(error))
        elif isinstance(error, Busy):
            self._end("failed", "busy", str(error))
        else:
            # Of an exception that is not pgrag's only the class is told: its words may be a key or a passage.
            told = error.message if isinstance(error, PgragError) else type(error).__name__
            self._end("failed", "error", told)

    def _end(self, status: str, reason: str | None, detail: str = "") -> None:
        self._status, self._reason, self._detail = status, reason or "", detail
        self._latency = round((time.perf_counter() - self._start) * 1000, 3)
        log.event(
            "rerank",
            logging.WARNING if status == "failed" else logging.DEBUG,
            status=status,
            reason=reason,
            hits=len(self._ids),
            duration_ms=self._latency,
        )

    def request(self) -> dict[str, Any]:
        """What the database needs to know of the new order: nothing, unless there is one."""
        return {"order": list(self._scores), "reranker": self._reranker.name} if self._scores else {}

    def outcome(self, answer: Mapping[str, Any]) -> Rerank:
        """What became of it, by the database's final answer."""
        kept = {hit["chunk_id"] for name in ("hits", "excerpts", "omitted") for hit in answer.get(name, ())}
        return Rerank(
            name=self._reranker.name,
            processor=self._reranker.processor,
            status=self._status,
            reason=self._reason or None,
            detail=self._detail,
            latency_ms=self._latency,
            candidates=len(self._ids),
            truncated=self._truncated,
            scores=self._scores,
            dropped=tuple(one for one in self._scores if one not in kept),
            withheld=tuple(self._withheld),
        )
