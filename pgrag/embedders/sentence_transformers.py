"""Models of the sentence-transformers library, from this machine only.

Vectors may differ in the last bits with the batch that a text is in and with the device: that is the
library's arithmetic, and far below what a ranking notices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgrag.embedders import unit_vector
from pgrag.errors import EmbeddingError
from pgrag.protocols import EmbeddingSpace

_INSTALL = "pip install 'pgrag-postgres[sentence-transformers]'"
# What decides a vector: weights, vocabulary and settings. Not the model card, nor exports to other formats.
_DECISIVE = (".safetensors", ".bin", ".pt", ".json", ".txt", ".model")
_EXPORTS = ("onnx", "openvino")


class SentenceTransformersEmbedder:
    """A model folder, or a model that was downloaded by its name before; never the network.

    ``model_revision`` is a hash of the folder's weights and settings. Prompts in the model's own settings
    are not applied: state them as ``query_prefix`` and ``document_prefix``, so that the space records them.
    """

    processor: str | None = None

    def __init__(
        self,
        model: str,
        *,
        device: str | None = None,
        batch_size: int = 32,
        space: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        try:
            from huggingface_hub import snapshot_download
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise EmbeddingError(
                "the package sentence-transformers is not installed", hint=_INSTALL, code="RG413"
            ) from None
        try:
            folder = Path(model)
            if not folder.is_dir():
                folder = Path(snapshot_download(model, local_files_only=True))
            self._model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        except Exception as error:  # the library raises whatever its many backends raise
            raise EmbeddingError(
                f"the model {model!r} cannot be loaded from this machine: {type(error).__name__}: {error}",
                hint="give the folder of a downloaded model; nothing is fetched from the network",
                code="RG413",
            ) from error
        self._batch_size = batch_size
        name = Path(model).name
        dimension = int(self._encode(["a"]).shape[1])
        self.space = EmbeddingSpace(
            space=space or f"{name}-{dimension}",
            model=name,
            model_revision=folder_hash(folder),
            dimension=dimension,
            # What is longer is cut by the model, so the limit is part of what a vector means.
            preprocessing=f"max-tokens={self._model.max_seq_length}",
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""
        if not texts:
            return np.zeros((0, self.space.dimension), dtype=np.float32)
        return self._encode([self.space.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of one question."""
        row: NDArray[np.float32] = self._encode([self.space.query_prefix + text])[0]
        return row

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(
            texts,
            batch_size=self._batch_size,
            prompt="",  # an empty prompt overrides the model's default one
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        if not np.isfinite(vectors).all():
            raise EmbeddingError(
                "the model gave numbers that are not finite",
                hint="check its weights and device",
                code="RG413",
            )
        return np.stack([unit_vector(vector) for vector in vectors])


def folder_hash(folder: Path) -> str:
    """Twelve digits that change with weights, vocabulary or settings of a model in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix in _DECISIVE and name.parts[0] not in _EXPORTS and path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            # Hashed apart, so that a byte cannot move from one file's end to the next one's beginning.
            digest.update(hashlib.sha256(name.as_posix().encode()).digest() + content)
    return digest.hexdigest()[:12]
