"""Embedding models. Each adapter is imported only when it is asked for, with the package it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgrag.errors import EmbeddingError
from pgrag.protocols import Embedder

_KNOWN = "wordllama, sentence-transformers:<folder or name>, http:<base URL>"


def load_embedder(name: str, **options: Any) -> Embedder:
    """The embedder of that name; options go to its class.

    - ``wordllama``: static 256-dimensional vectors, from the wheel, never the network.
    - ``sentence-transformers:<folder or name>``: a model on this machine.
    - ``http:<base URL>``: an OpenAI-compatible endpoint; ``model`` and ``dimension`` are required.
    """
    kind, _, rest = name.partition(":")
    if name == "wordllama":
        from pgrag.embedders.wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder(**options)
    if kind == "sentence-transformers" and rest:
        from pgrag.embedders.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(rest, **options)
    if kind == "http" and rest:
        from pgrag.embedders.http import HttpEmbedder

        return HttpEmbedder(rest, **options)
    raise EmbeddingError(f"unknown embedder {name!r}", hint=f"known: {_KNOWN}", code="RG413")


def unit_vector(values: NDArray[Any]) -> NDArray[np.float32]:
    """The vector scaled to length one, in double precision; zeros stay zeros, for the space's policy."""
    vector: NDArray[np.float64] = values.astype(np.float64)
    largest = np.abs(vector).max(initial=0.0)
    if largest > 0:
        vector /= largest  # first, so that no square overflows or vanishes
        vector /= np.sqrt((vector * vector).sum())
    return vector.astype(np.float32)
