"""Any endpoint with ``/rerank``: Text Embeddings Inference, vLLM, Cohere, Jina and their like.

Text leaves the machine here, so the caller is told where it goes (``processor``), and an answer is believed
only after its count, numbering and numbers were checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from pgrag._http import HttpEndpoint
from pgrag.errors import RerankError
from pgrag.protocols import Passage, Scores


class HttpReranker(HttpEndpoint):
    """Scores from an endpoint, ``<base URL>/rerank``.

    With ``model``, a request is of the form of Cohere, Jina and vLLM (``documents``); without, of that of
    Text Embeddings Inference, which serves one model (``texts``). ``name`` is what results call it; left
    out, the model, or the host. Passages are cut to ``max_characters`` before they are sent, which
    ``truncated`` counts; what an endpoint cuts by itself it does not say.

    ``deadline`` bounds one call with all its batches and retries, in seconds; ``timeout`` one attempt's
    silence.
    """

    _kind = "rerank"
    _error = (RerankError, "RG415")
    _most = 16 * 1024 * 1024

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        name: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = None,
        processor: str | None = None,
        batch_size: int = 32,
        max_characters: int = 8000,
        retries: int = 2,
        timeout: float = 5.0,
        deadline: float = 8.0,
        allow_insecure: bool = False,
    ) -> None:
        self._check_whole("max_characters", max_characters, 1)
        super().__init__(
            base_url,
            "rerank",
            api_key=api_key,
            api_key_env=api_key_env,
            processor=processor,
            batch_size=batch_size,
            retries=retries,
            timeout=timeout,
            deadline=deadline,
            allow_insecure=allow_insecure,
        )
        self._model = model
        self._max_characters = max_characters
        self.name: str = name or model or str(self.processor)

    def __repr__(self) -> str:
        return f"HttpReranker({self._url!r}, name={self.name!r})"

    def rerank(self, question: str, passages: Sequence[Passage]) -> Scores:
        """One score a passage, sent in batches. Raises RerankError (RG415)."""
        stop = time.monotonic() + self._deadline
        texts = [passage.text[: self._max_characters] for passage in passages]
        scores: list[float] = []
        for first in range(0, len(texts), self._batch_size):
            scores += self._scores(question, texts[first : first + self._batch_size], stop)
        return Scores(scores, sum(len(passage.text) > self._max_characters for passage in passages))

    def _scores(self, question: str, texts: list[str], stop: float) -> list[float]:
        payload: dict[str, Any] = {"query": question, "texts": texts, "truncate": True}
        if self._model is not None:
            payload = {"model": self._model, "query": question, "documents": texts, "top_n": len(texts)}
        try:
            answer = self._post(payload, stop)
            items = answer if isinstance(answer, list) else answer["results"]
            given = {
                item["index"]: item["relevance_score" if "relevance_score" in item else "score"]
                for item in items
            }
            count = len(items)
        except (ValueError, KeyError, TypeError):
            self._fail("the answer is not of a rerank endpoint's format", "check the base URL")
        # index True would pass for 1, and 0.0 for 0.
        if (
            count != len(texts)
            or any(type(index) is not int for index in given)
            or given.keys() != set(range(count))
        ):
            self._fail(
                f"the answer has {count} scores for {len(texts)} texts, or their numbering is broken",
                "give an endpoint that keeps to the protocol",
            )
        return [self._number(given[index]) for index in range(count)]

    def _number(self, value: Any) -> float:
        try:
            number = float(value) if type(value) in (int, float) else math.nan
        except OverflowError:  # an integer of hundreds of digits
            number = math.inf
        if not math.isfinite(number):
            self._fail("a score is no finite number", "look for a fault of the endpoint or its model")
        return number
