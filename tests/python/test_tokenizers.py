"""Token counts, and the names that make them mean something."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pgrag.errors import IngestError
from pgrag.ingest import HuggingFaceTokenizer, WordTokenizer


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (" \n\t", 0),
        ("Refunds take thirty days.", 5),
        ("E-42 fails.", 5),
        ("don't", 3),
        ("snake_case v1.10", 4),
        ("Zürich 日本語 дом", 3),
        ("a\u2028b", 2),
    ],
)
def test_words_and_punctuation(text: str, count: int) -> None:
    tokenizer = WordTokenizer()
    assert tokenizer.name == "words-1"
    assert tokenizer.count(text) == count


def word_level_file(path: Path, **extra: object) -> Path:
    """A tokenizer.json in the format of the tokenizers package, small enough to read."""
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1}, "unk_token": "[UNK]"},
        **extra,
    }
    path.write_text(json.dumps(content))
    return path


@pytest.mark.contract("D2")
def test_a_tokenizer_file_counts_and_is_named_by_its_content(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = word_level_file(tmp_path / "tokenizer.json")
    tokenizer = HuggingFaceTokenizer(path)
    assert tokenizer.count("hello hello, you") == 4
    assert tokenizer.name == f"hf-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def test_truncation_and_padding_in_the_file_do_not_falsify_the_count(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = word_level_file(
        tmp_path / "tokenizer.json",
        truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        padding={
            "strategy": {"Fixed": 64},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[UNK]",
        },
    )
    assert HuggingFaceTokenizer(path).count("hello hello hello") == 3


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_a_clear_error(tmp_path: Path, content: bytes | None) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IngestError, match="tokenizer file") as caught:
        HuggingFaceTokenizer(path)
    assert caught.value.code == "RG412"
