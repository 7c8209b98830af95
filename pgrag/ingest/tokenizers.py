"""Counting tokens, always with the name of what counted."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pgrag.errors import IngestError


class WordTokenizer:
    """Words and punctuation, without a model.

    A token is a run of letters, digits and underscores, or one other character that is not white
    space. So ``E-42 fails.`` has five. A language model's own tokenizer finds more, by a third or so
    for English and several times for scripts written without spaces: leave room, or name the real one.
    """

    name = "words-1"
    _TOKEN = re.compile(r"\w+|[^\w\s]")

    def count(self, text: str) -> int:
        """How many words and punctuation marks the text has."""
        return sum(1 for _ in self._TOKEN.finditer(text))


class HuggingFaceTokenizer:
    """A ``tokenizer.json`` file on this machine, read with the ``tokenizers`` package."""

    def __init__(self, path: str | Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise IngestError(
                "the package tokenizers is not installed",
                hint="pip install tokenizers, or count with WordTokenizer",
                code="RG412",
            ) from None
        try:
            content = Path(path).read_bytes()
            # from_buffer, so that the name is the hash of exactly what was loaded.
            self._tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # the package raises a bare Exception for a malformed file
            raise IngestError(
                f"the tokenizer file {str(path)!r} cannot be loaded: {error}",
                hint="give the path of a tokenizer.json of the Hugging Face tokenizers format",
                code="RG412",
            ) from error
        # A file may say "cut at 512" or "pad to 128": both would falsify a count.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.name = f"hf-{hashlib.sha256(content).hexdigest()[:12]}"

    def count(self, text: str) -> int:
        """How many tokens the model would see, without its special begin and end marks."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
