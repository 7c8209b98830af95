"""Made-up embeddings that are near to each other as those of real text are: areas, in them topics, in these documents.

The coordinates that matter are few (48, weighted as 1 / sqrt(rank)) and turned into all dimensions, with a little noise
on top: a graph or a quantiser finds these as hard as a model's vectors, where points without structure would be harder
and separate balls would be easier than anything real.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

AREAS, TOPICS, LATENT = 50, 2_000, 48


class Space:
    """A space of ``dimension``: where its topics lie is decided by ``seed``, and so is everything drawn from it."""

    def __init__(self, dimension: int, seed: int = 20) -> None:
        draw = np.random.default_rng((seed, dimension))
        self._weights = 1 / np.sqrt(np.arange(1, LATENT + 1))
        areas = draw.standard_normal((AREAS, LATENT))
        self.area_of = draw.integers(AREAS, size=TOPICS)
        """The area of each topic."""
        self._topics = areas[self.area_of] + 0.8 * draw.standard_normal((TOPICS, LATENT))
        self._turn = np.linalg.qr(draw.standard_normal((dimension, LATENT)))[0].T
        self.dimension = dimension

    def documents(self, topics: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.float64]:
        """The middle of a document about each of these topics, in latent coordinates."""
        return self._topics[topics] + 0.6 * draw.standard_normal((len(topics), LATENT))

    def chunks(self, documents: NDArray[np.float64], each: int, draw: np.random.Generator) -> Vectors:
        """``each`` embeddings of unit length for every document, one after the other."""
        latent = np.repeat(documents, each, axis=0)
        return self._embed(latent + 0.5 * draw.standard_normal(latent.shape), draw)

    def questions(self, documents: NDArray[np.float64], draw: np.random.Generator) -> Vectors:
        """An embedding of a question about each document: farther from it than its chunks are."""
        return self._embed(documents + 0.7 * draw.standard_normal(documents.shape), draw)

    def _embed(self, latent: NDArray[np.float64], draw: np.random.Generator) -> Vectors:
        made = ((latent * self._weights) @ self._turn).astype(np.float32)
        made += draw.standard_normal(made.shape, dtype=np.float32) * np.float32(0.3 / np.sqrt(self.dimension))
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made
