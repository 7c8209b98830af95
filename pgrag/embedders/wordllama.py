"""Static embeddings from the wordllama wheel: small, quick, and wholly on this machine.

A text's vector is the sum of the vectors of its tokens, scaled to length one. The weights were distilled
from the token tables of large Llama 2 based models ("l2_supercat", see the package's documentation).

The two files that the wheel ships are read directly. The package itself is not imported: its loader
looks for the tokenizer in a folder that does not exist and then asks the network, importing it sets up
logging for the whole application, and it pads every text of a batch to the longest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgrag.embedders import unit_vector
from pgrag.errors import EmbeddingError
from pgrag.protocols import EmbeddingSpace

_DIMENSION = 256
_INSTALL = "pip install 'pgrag-postgres[wordllama]'"


class WordLlamaEmbedder:
    """The 256-dimensional model of the wordllama wheel.

    A text without any token (an empty one, or white space) has a vector of zeros: the space's policy
    decides what becomes of it. The same text has the same vector, to the bit, alone or among others.
    """

    processor: str | None = None

    def __init__(self) -> None:
        folder = _package_folder()
        weights = _shipped(folder / "weights" / "l2_supercat_256.safetensors")
        vocabulary = _shipped(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        try:
            from safetensors.numpy import load
            from tokenizers import Tokenizer

            self._vectors: NDArray[np.float32] = load(weights)["embedding.weight"].astype(np.float32)
            self._tokenizer = Tokenizer.from_buffer(vocabulary)
        except Exception as error:  # each package has its own exceptions, and none is expected
            raise EmbeddingError(
                f"the files of the wordllama package cannot be loaded: {error}", hint=_INSTALL, code="RG413"
            ) from error
        if self._vectors.shape[1] != _DIMENSION:
            raise EmbeddingError(
                f"the wordllama package ships {self._vectors.shape[1]} dimensions, not {_DIMENSION}",
                hint=_INSTALL,
                code="RG305",
            )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.space = EmbeddingSpace(
            space="wordllama-256",
            model="wordllama-l2-supercat",
            model_revision=hashlib.sha256(weights).hexdigest()[:12],
            dimension=_DIMENSION,
            preprocessing=f"white-space-1,tokenizer={hashlib.sha256(vocabulary).hexdigest()[:12]}",
        )

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""
        rows = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self.embed_query(text)
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one text; questions and documents are encoded alike."""
        # A word at the start of a line is another token than the same word after a space, so a text
        # with hard line breaks would be a stranger to a question (nDCG@10 .528 -> .565 on a handbook).
        words = " ".join(text.split())
        tokens = self._tokenizer.encode(words, add_special_tokens=False).ids
        return unit_vector(self._vectors[tokens].sum(axis=0, dtype=np.float64))


def _package_folder() -> Path:
    found = find_spec("wordllama")  # finds the folder without running the package
    if found is None or not found.submodule_search_locations:
        raise EmbeddingError("the package wordllama is not installed", hint=_INSTALL, code="RG413")
    return Path(next(iter(found.submodule_search_locations)))


def _shipped(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmbeddingError(
            f"the installed wordllama package does not ship {path.parent.name}/{path.name}",
            hint=f"{_INSTALL}; nothing is fetched from the network",
            code="RG413",
        ) from error
