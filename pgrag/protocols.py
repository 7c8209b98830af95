"""The interfaces that an application can implement itself, and the values that pass through them.

A ``Protocol`` is matched by shape: a class of yours needs no import from pgrag to be a chunker, a
tokenizer, an embedder or a reranker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage of a body: ``body[start:end] == text``, counted in Unicode code points."""

    text: str
    start: int
    end: int
    section: str = ""
    page: int | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """What makes two vectors comparable; a change of any field is another space."""

    space: str
    model: str
    model_revision: str
    dimension: int
    metric: str = "cosine"
    normalisation: str = "unit"
    """``unit`` or ``none``."""
    preprocessing: str = ""
    """Version name of what is done to a text before it is encoded."""
    query_prefix: str = ""
    document_prefix: str = ""
    storage: str = "float"
    """``float``, of up to 2,000 dimensions, or ``half``, of up to 4,000: how the database keeps vectors."""
    zero_vectors: str = "refuse"
    """``refuse`` or ``skip``: what the database does with a text that has no vector."""


class Chunker(Protocol):
    """Cuts a body into passages that cover it without gaps."""

    @property
    def name(self) -> str:
        """The full configuration, recorded on the revision."""

    def chunk(self, body: str) -> list[Chunk]:
        """The passages in the order of the text; none for a body without any text."""


class Tokenizer(Protocol):
    """Measures a text in the unit of a budget."""

    @property
    def name(self) -> str:
        """Recorded beside every count: a count without its tokenizer means nothing."""

    def count(self, text: str) -> int:
        """How many tokens the text has."""


class Embedder(Protocol):
    """Turns texts into vectors of one embedding space."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space that every vector of this embedder belongs to."""

    @property
    def processor(self) -> str | None:
        """Who receives the text: None is this process, else the name that a source has to list first."""

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text: shape ``(len(texts), dimension)``."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Shape ``(dimension,)``; may differ from a document's vector by its prefix."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What a reranker gets of a hit, and all that it gets."""

    text: str
    score: float
    """The fused score; what it means depends on mode and fusion, only higher is always better."""


class Scores(list[float]):
    """One score a passage, from a reranker that knows how many passages it read in part only."""

    def __init__(self, scores: Iterable[float], truncated: int) -> None:
        super().__init__(scores)
        self.truncated = truncated


class Reranker(Protocol):
    """Scores passages against a question; higher is better, and among equals the fused order stays."""

    @property
    def name(self) -> str:
        """Identity of the model and its revision, 1 to 200 characters."""

    @property
    def processor(self) -> str | None:
        """Who receives the text: None is this process, else the name that a source has to list first."""

    def rerank(self, question: str, passages: Sequence[Passage]) -> Sequence[float]:
        """One finite score a passage, in the order given (the fused one); ``Scores`` if some were cut.

        An ordinary function, called in a thread that is given up when its time is over. Whatever it raises
        leaves the fused order as it is.
        """
