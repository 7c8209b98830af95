"""What a chunker promises about any text, and what the structure chunker does with Markdown."""

from __future__ import annotations

import itertools
import re
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrag.errors import InvalidInput
from pgrag.ingest import StructureChunker, WindowChunker
from pgrag.protocols import Chunk, Chunker


def assert_covers(body: str, chunks: list[Chunk], target: int) -> None:
    """The promise of D2 and D3, in one place: each chunker and the broken one below go through it."""
    if not body.strip():
        assert chunks == []
        return
    assert chunks
    assert chunks[0].start == 0
    assert chunks[-1].end == len(body)
    for chunk in chunks:
        assert body[chunk.start : chunk.end] == chunk.text
        assert 0 < len(chunk.text.strip()) <= target
    for one, following in itertools.pairwise(chunks):
        assert one.start < following.start <= one.end < following.end


# Markdown that is dense in what can go wrong: every kind of block and of line end, deep indentation,
# long words, marks without a base, sequences that must not be torn.
PIECES = [
    *(
        "# ",
        "## ",
        "### ",
        "- ",
        "1. ",
        "> ",
        "```\n",
        "~~~\n",
        "    ",
        "\t",
        "| a | b |\n",
        "|---|---|\n",
        "---\n",
    ),
    *("===\n", "<div>\n", "<!--", "[x]: y\n", "* * *\n", "\\", "***"),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\v",
        "\f",
        "\x1c",
        "\x85",
        "\u2028",
        "\u2029",
        " ",
        "   ",
        "\u00a0",
        "\u3000",
    ),
    *("word", "Word. ", "E-42", "x" * 30, "漢字。", "日本", "نص؟ ", "e\u0301", "\u0301", "\u200d", "\ufeff"),
    *(
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f44d\U0001f3fd",
        "\U0001f1e9\U0001f1ea",
        "\U0001f1e9",
    ),
    *("\u1112\u1161\u11ab", "key: value\n", "\x00"),
]
bodies = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=60).map("".join)
sizes = st.integers(1, 60).flatmap(lambda target: st.tuples(st.just(target), st.integers(0, target - 1)))


@pytest.mark.contract("D2", "D3")
@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
@settings(max_examples=400, deadline=None)
@given(bodies, sizes)
@example("a\n" + " " * 100 + "b", (10, 9))
@example(" " * 100 + "a" + " " * 100, (1, 0))
@example("# " + "h" * 100 + "\n\ntext", (40, 0))
@example("\u0301" * 50, (7, 3))
@example("\v\n# ", (1, 0))
@example("\u00a0\n\n# a\n\n\u2028\n\n# b", (9, 0))
@example("\U0001f1e9" * 51, (7, 3))
def test_spans_cover_any_text(kind: type[Chunker], body: str, size: tuple[int, int]) -> None:
    target, overlap = size
    chunker = kind(target=target, overlap=overlap)  # type: ignore[call-arg]
    chunks = chunker.chunk(body)
    assert_covers(body, chunks, target)
    assert chunker.chunk(body) == chunks


def test_the_check_finds_a_broken_chunker() -> None:
    """Control: what a usual splitter does (strip, drop the rest) must not pass for coverage."""
    body = "One sentence here. Another one there.\n\nAnd a tail"

    def stripped(text: str) -> list[Chunk]:
        return [Chunk(m[0].strip(), m.start(), m.end()) for m in re.finditer(r"[^.]+\.", text)]

    def windows(text: str, step: int, size: int) -> list[Chunk]:
        return [Chunk(text[i : i + size], i, min(i + size, len(text))) for i in range(0, len(text), step)]

    assert_covers(body, windows(body, 10, 10), 10)  # the check is not simply always red
    for broken in (
        stripped(body),  # text is not the span, and the tail is lost
        windows(body, 10, 9),  # gaps
        windows(body, 10, 20),  # a last window that lies inside the one before
        windows(body, 10, 10)[:-1],  # the end is missing
        windows(body, 10, 10)[1:],  # the beginning is missing
        [],
    ):
        with pytest.raises(AssertionError):
            assert_covers(body, broken, 20)


clusters = st.sampled_from(
    [
        "a",
        "b ",
        "e\u0301",
        "o\u0308\u0323",
        "👨\u200d👩\u200d👧",
        "👍🏽",
        "🇩🇪",
        "각",
        "\u1112\u1161\u11ab",
        "漢",
        "नि",
    ]
)


@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
@given(st.lists(clusters, min_size=1, max_size=200), st.integers(8, 40), st.integers(0, 20))
@settings(deadline=None)
def test_what_reads_as_one_character_stays_whole(
    kind: type[Chunker], parts: list[str], target: int, overlap: int
) -> None:
    target += overlap  # the longest of the characters has room in what a chunk adds to the one before
    boundaries, position = set(), 0
    for part in parts:
        boundaries.update({position, position + len(part.rstrip())})
        position += len(part)
    body = "".join(parts)
    for chunk in kind(target=target, overlap=overlap).chunk(body):  # type: ignore[call-arg]
        assert chunk.start in boundaries
        assert chunk.end in boundaries or chunk.end == len(body)


@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
def test_a_character_larger_than_a_chunk_is_split_all_the_same(kind: type[Chunker]) -> None:
    body = "e" + "\u0301" * 9
    chunks = kind(target=4, overlap=0).chunk(body)  # type: ignore[call-arg]
    assert [len(chunk.text) for chunk in chunks] == [4, 4, 2]


@pytest.mark.contract("D3")
@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
@pytest.mark.parametrize(
    ("target", "overlap"),
    [
        (0, 0),
        (-1, 0),
        (10, 10),
        (10, 11),
        (10, -1),
        (10.0, 0),
        (10, 1.5),
        (True, 0),
        (10, True),
        ("10", 0),
        (None, 0),
    ],
)
def test_sizes_are_checked(kind: type[StructureChunker], target: int, overlap: int) -> None:
    with pytest.raises(InvalidInput, match=r"chunk (target|overlap)") as caught:
        kind(target=target, overlap=overlap)
    assert caught.value.code == "RG411"
    assert caught.value.hint


@pytest.mark.contract("D3")
@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
@pytest.mark.parametrize("body", ["", " ", "\n\n", "\r\n\t\v\f\x85\u2028\u3000"])
def test_a_body_without_text_gives_no_chunks(kind: type[StructureChunker], body: str) -> None:
    assert kind().chunk(body) == []


@pytest.mark.contract("D5")
def test_the_name_is_the_whole_configuration() -> None:
    assert StructureChunker().name == "structure-1(target=1200,overlap=0)"
    assert WindowChunker(100, 20).name == "window-1(target=100,overlap=20)"


@pytest.mark.parametrize("kind", [StructureChunker, WindowChunker])
@pytest.mark.parametrize(
    "piece",
    [
        "## Title\n\nSome words in a sentence. And more of them.\n\n- one\n- two\n\n",
        "word ",
        "x",
        "a\n\n",
        "- ",
        "> ",
        "[",
    ],
)
def test_the_time_is_linear(kind: type[StructureChunker], piece: str) -> None:
    """Five times the text takes about five times as long: a quadratic chunker would take 25 times."""

    def seconds(size: int) -> float:
        body = piece * (size // len(piece))
        start = time.perf_counter()
        assert_covers(body, kind().chunk(body), 1200)
        return time.perf_counter() - start

    small = min(seconds(100_000) for _ in range(3))
    assert seconds(500_000) < 15 * small + 0.5


# -- Windows -------------------------------------------------------------------------------------------


def test_windows_repeat_the_overlap_and_end_with_the_text() -> None:
    body = "abcdefghijklmnopqrstuvwxyz"
    assert [c.text for c in WindowChunker(10, 4).chunk(body)] == [
        "abcdefghij",
        "ghijklmnop",
        "mnopqrstuv",
        "stuvwxyz",
    ]
    assert [c.text for c in WindowChunker(26, 4).chunk(body)] == [body]
    assert [c.text for c in WindowChunker(10, 0).chunk("0123456789  x")] == ["0123456789  ", "x"]


# -- Structure -----------------------------------------------------------------------------------------

POLICY = """\
# Refunds

A refund is paid within thirty days of the return of the goods to any of our shops.

## Exceptions

Goods made to order are exempt from this rule, and so are opened recordings.

- Perishable goods
- Sealed goods, once the seal is broken

### Gift cards

Gift cards are never refunded, whether they have been used in part or not at all.

## How to ask

Write to the desk with the number of your order, or bring the goods and the slip.
"""


def outline(body: str, target: int, overlap: int = 0) -> list[tuple[str, str]]:
    chunks = StructureChunker(target, overlap).chunk(body)
    assert_covers(body, chunks, target)
    return [(chunk.section, chunk.text) for chunk in chunks]


@pytest.mark.contract("D3")
def test_headings_start_chunks_and_name_their_section() -> None:
    chunks = outline(POLICY, 200)
    assert [section for section, _ in chunks] == [
        "Refunds",
        "Refunds > Exceptions",
        "Refunds > Exceptions > Gift cards",
        "Refunds > How to ask",
    ]
    assert chunks[1][1].startswith("## Exceptions\n\nGoods")
    assert chunks[1][1].endswith("the seal is broken\n\n")


@pytest.mark.contract("D3")
@pytest.mark.parametrize(
    "block",
    [
        "".join(f"- item {n} of a list. With two sentences.\n" for n in range(5)),
        "| name | days |\n|------|-----:|\n" + "".join(f"| row {n}. Yes | {n} |\n" for n in range(8)),
        "```python\n" + "".join(f"# comment {n}. Not a heading.\n" for n in range(6)) + "```\n",
        "> " + "A quote of several sentences. " * 6 + "\n",
    ],
    ids=["list", "table", "code", "quote"],
)
def test_a_block_that_fits_is_kept_whole(block: str) -> None:
    prose = "Some sentences before the block, as there are. " * 3 + "\n\n"
    texts = [text for _, text in outline(f"{prose}{block}\n{prose}", 300)]
    assert any(block in text for text in texts), texts


def test_what_does_not_fit_is_cut_at_the_best_place() -> None:
    items = "".join(f"- item {n}. It has two sentences.\n" for n in range(20))
    rows = "| a | b |\n|---|---|\n" + "".join(f"| row {n}. Dot | {n} |\n" for n in range(30))
    code = "```\n" + "".join(f"call({n})  # why. So.\n" for n in range(30)) + "```\n"
    for block, line_start in ((items, "- "), (rows, "| "), (code, "call")):
        texts = [text for _, text in outline(block, 150)]
        assert len(texts) > 2
        assert all(text.startswith(line_start) for text in texts[1:]), texts

    sentences = "This is e.g. a sentence of moderate length. " * 20
    texts = [text for _, text in outline(sentences, 150)]
    assert all(text.startswith("This") and text.rstrip().endswith("length.") for text in texts)
    assert [text[-1] for _, text in outline("漢字が続く文です。" * 20, 50)] == ["。"] * 4

    lines = "a line without any end of a sentence\n" * 20
    assert all(text.startswith("a line") for _, text in outline(lines, 150))
    words = "word " * 200
    assert all(text.startswith("word") for _, text in outline(words, 150))
    assert [len(text) for _, text in outline("x" * 400, 150)] == [150, 150, 100]


def test_a_heading_stays_with_its_text() -> None:
    body = "## Heading\n\n" + "A sentence of some length goes here. " * 10
    first = outline(body, 120)[0][1]
    assert first.startswith("## Heading\n\nA sentence")
    # Headings without text of their own go with the first text below them, under its path.
    assert outline("# A\n\n## B\n\ntext\n", 100) == [("A > B", "# A\n\n## B\n\ntext\n")]
    assert outline("text\n\n# Last\n", 100) == [("", "text\n\n# Last\n")]


def test_tiny_sections_are_joined_but_not_out_of_their_parent() -> None:
    tiny, long = "Short.\n\n", "A sentence of some length goes here. " * 2 + "\n\n"
    joined = f"# Top\n\n{long}## A\n\n{tiny}## B\n\n{tiny}## C\n\n{tiny}"
    # A and B together are no longer tiny. What they share is that they lie under Top.
    assert [section for section, _ in outline(joined, 100)] == ["Top", "Top", "Top > C"]
    # The same title in two places is not a shared path.
    alike = f"# A\n\n## Notes\n\n{tiny}# B\n\n## Notes\n\n{tiny}"
    assert [section for section, _ in outline(alike, 200)] == [""]
    # C is tiny, but D is further up.
    apart = f"# Top\n\n{long}## B\n\n{long}### C\n\n{tiny}## D\n\n{long}"
    assert [section for section, _ in outline(apart, 100)] == ["Top", "Top > B", "Top > B > C", "Top > D"]
    # Tiny, but both together do not fit.
    large = f"## A\n\n{tiny}## B\n\n{long}"
    assert [section for section, _ in outline(large, 80)] == ["A", "B"]


def test_overlap_repeats_words_within_a_section_only() -> None:
    body = "# One\n\n" + "alpha beta gamma delta " * 20 + "\n\n# Two\n\n" + "omega " * 30
    chunks = StructureChunker(120, 30).chunk(body)
    assert_covers(body, chunks, 120)
    for one, following in itertools.pairwise(chunks):
        if one.section == following.section:
            assert 0 < one.end - following.start <= 30
            assert body[following.start - 1].isspace()
        else:
            assert following.start == one.end


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_of_markdown_are_understood(end: str) -> None:
    body = POLICY.replace("\n", end)
    assert [section for section, _ in outline(body, 200)] == [section for section, _ in outline(POLICY, 200)]


@pytest.mark.parametrize("other", ["\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_other_line_ends_do_not_shift_the_structure(other: str) -> None:
    """str.splitlines() knows more line ends than Markdown: counting with it would move every span."""
    body = f"one{other}two{other}three\n\n# Heading\n\n" + "A sentence of some length. " * 4
    assert outline(body, 120)[-1][1].startswith("# Heading\n\nA sentence")


def test_heading_texts_are_plain() -> None:
    body = "# The *new* [rules](https://x.example/y) for `cp` &amp; \\# ![a cat](c.png) ##\n\ntext\n"
    assert outline(body, 200) == [("The new rules for cp & # a cat", body)]
    assert outline("Title\n=====\n\nSub\n---\n\ntext", 200)[0][0] == "Title > Sub"
    assert outline("> # quoted\n\ntext", 200)[0][0] == ""
    assert len(outline("# " + "long " * 1000, 10_000)[0][0]) < 201


def test_front_matter_left_in_a_body_is_text_and_no_heading() -> None:
    body = "---\ntitle: Travel\nreaders: [staff]\n---\n\n# Travel\n\n" + "A sentence. " * 5
    assert outline(body, 60)[0][0] == ""


def test_link_definitions_are_text_too() -> None:
    body = "[rules]: https://example.org/rules\n\n[more]: https://example.org\n"
    assert outline(body, 200) == [("", body)]


def test_marks_are_what_unicode_says() -> None:
    """A guard for the test data above: an editor that normalises this file would empty the tests."""
    assert unicodedata.category("e\u0301"[1]) == "Mn"
    assert len("\U0001f1e9\U0001f1ea") == 2
