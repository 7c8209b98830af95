"""Any endpoint that speaks the OpenAI ``/embeddings`` protocol.

Text leaves the machine here, so the caller is told where it goes (``processor``), and an answer is believed
only after its model, count, order, dimension and numbers were checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgrag._http import HttpEndpoint
from pgrag.embedders import unit_vector
from pgrag.errors import EmbeddingError
from pgrag.protocols import EmbeddingSpace


class HttpEmbedder(HttpEndpoint):
    """Vectors from an endpoint, scaled to length one.

    ``deadline`` bounds one batch with all its retries, in seconds; ``timeout`` one attempt's silence.
    ``reported_model`` is the name that the endpoint answers with, where that is not ``model``.
    """

    _kind = "embedding"
    _error = (EmbeddingError, "RG413")

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        dimension: int,
        model_revision: str = "unstated",
        reported_model: str | None = None,
        space: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        api_key: str | None = None,
        api_key_env: str | None = None,
        processor: str | None = None,
        batch_size: int = 64,
        retries: int = 4,
        timeout: float = 30.0,
        deadline: float = 120.0,
        allow_insecure: bool = False,
    ) -> None:
        self._check_whole("dimension", dimension, 1)
        super().__init__(
            base_url,
            "embeddings",
            api_key=api_key,
            api_key_env=api_key_env,
            processor=processor,
            batch_size=batch_size,
            retries=retries,
            timeout=timeout,
            deadline=deadline,
            allow_insecure=allow_insecure,
        )
        self.space = EmbeddingSpace(
            space=space or f"{model}-{dimension}",
            model=model,
            model_revision=model_revision,
            dimension=dimension,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )
        self._reported_model = reported_model or model

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._url!r}, model={self.space.model!r}, dimension={self.space.dimension})"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text, sent in batches."""
        rows = np.zeros((len(texts), self.space.dimension), dtype=np.float32)
        for first in range(0, len(texts), self._batch_size):
            batch = texts[first : first + self._batch_size]
            rows[first : first + len(batch)] = self._embed(
                [self.space.document_prefix + text for text in batch]
            )
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one question."""
        row: NDArray[np.float32] = self._embed([self.space.query_prefix + text])[0]
        return row

    # -- Checking ------------------------------------------------------------------------------------

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        payload = {"model": self.space.model, "input": texts, "encoding_format": "float"}
        count = len(texts)
        try:
            answer = self._post(payload)
            model = answer.get("model")
            rows = {item["index"]: item["embedding"] for item in answer["data"]}
            given = len(answer["data"])
        except (ValueError, KeyError, TypeError, AttributeError):
            self._fail("the answer is not of the OpenAI embeddings format", "check the base URL")
        if model != self._reported_model:
            self._fail(
                f"the answer is from model {str(model)[:100]!r}, not {self._reported_model!r}",
                "correct model, or state the name that the endpoint answers with as reported_model",
                "RG305",
            )
        # index True would pass for 1, and 0.0 for 0.
        if given != count or any(type(index) is not int for index in rows) or set(rows) != set(range(count)):
            self._fail(
                f"the answer has {given} vectors for {count} texts, or their numbering is broken",
                "give an endpoint that keeps to the protocol",
            )
        return np.stack([self._unit(rows[index]) for index in range(count)])

    def _unit(self, values: Any) -> NDArray[np.float32]:
        if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
            self._fail("a vector is not a list of numbers", "give an endpoint that keeps to the protocol")
        if len(values) != self.space.dimension:
            self._fail(
                f"a vector has {len(values)} dimensions, not {self.space.dimension}",
                "correct dimension, and use another space for another model",
                "RG305",
            )
        try:
            vector = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer of hundreds of digits
            vector = np.array([np.inf])
        if not np.isfinite(vector).all():
            self._fail(
                "a vector has numbers that are not finite", "look for a fault of the endpoint or its model"
            )
        return unit_vector(vector)
