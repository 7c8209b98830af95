"""Cross-encoders of the sentence-transformers library, from a folder on this machine only."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from pgrag.embedders.sentence_transformers import folder_hash
from pgrag.errors import RerankError
from pgrag.protocols import Passage, Scores

_INSTALL = "pip install 'pgrag-postgres[sentence-transformers]'"


class CrossEncoder:
    """A model that reads question and passage together and gives one number.

    ``name`` is the folder's with a hash of its weights and settings. What is longer than the model reads, or
    than ``max_length`` tokens of question and passage together, is cut by it, and counted in ``truncated``.
    One call at a time: the library's tokenizers do not take two.
    """

    processor: str | None = None

    def __init__(
        self,
        folder: str | Path,
        *,
        device: str | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
    ) -> None:
        path = Path(folder)
        # Checked first: what is not a folder, the library would look for on the network.
        if not path.is_dir():
            raise RerankError(
                f"{str(folder)!r:.200} is no folder on this machine",
                hint="give the folder of a downloaded model; nothing is fetched from the network",
                code="RG415",
            )
        try:
            from sentence_transformers import CrossEncoder as Model
        except ImportError:
            raise RerankError(
                "the package sentence-transformers is not installed", hint=_INSTALL, code="RG415"
            ) from None
        try:
            self._model = Model(str(path), device=device, max_length=max_length, local_files_only=True)
            shape = self._model.predict([("a", "b")], show_progress_bar=False).shape
        except Exception as error:  # the library raises whatever its many backends raise
            raise RerankError(
                f"the model in {str(path)!r} cannot be loaded: {type(error).__name__}: {error}",
                hint="give the folder of a cross-encoder; nothing is fetched from the network",
                code="RG415",
            ) from error
        if shape != (1,):
            raise RerankError(
                f"the model in {str(path)!r} gives {shape[-1]} numbers for a passage, not one",
                hint="give a model for ranking, not one that sorts into classes",
                code="RG415",
            )
        self.name = f"{path.resolve().name}@{folder_hash(path)}"
        self._batch_size = batch_size
        self._busy = threading.Lock()

    def rerank(self, question: str, passages: Sequence[Passage]) -> Scores:
        """One score a passage, as the model's own settings scale it."""
        if not passages:
            return Scores([], truncated=0)
        texts = [passage.text for passage in passages]
        with self._busy:
            scores = self._model.predict(
                [(question, text) for text in texts], batch_size=self._batch_size, show_progress_bar=False
            )
            return Scores(scores.tolist(), self._cut(question, texts))

    def _cut(self, question: str, texts: list[str]) -> int:
        """How many of the texts the model does not read to their ends."""
        model = self._model
        most = getattr(model, "max_seq_length", None) or getattr(model, "max_length", None)
        most = most or model.tokenizer.model_max_length
        read = model.tokenizer([question] * len(texts), texts, truncation=False, verbose=False)["input_ids"]
        return sum(len(tokens) > most for tokens in read)
