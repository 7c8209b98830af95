"""Cutting a body into passages.

What both chunkers promise, for any text:

- ``body[start:end] == text``, in Unicode code points; nothing is cleaned or rewritten;
- the first chunk starts at 0, the last ends at ``len(body)``, and no chunk starts after the end of the
  one before, so every code point is in some chunk; starts and ends strictly increase;
- every chunk has text in it, and at most ``target`` code points of it. White space at either end of a
  chunk does not count: it stays with the text before it, however long it is, because a passage of
  nothing but white space would be found by nobody and has no vector;
- a body without any text gives no chunks;
- the same body and settings give the same chunks, in time linear in the body.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple, Protocol

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pgrag.errors import InvalidInput
from pgrag.protocols import Chunk

# -- What counts as a place to cut ---------------------------------------------------------------------

_TEXT = re.compile(r"\S")
_WORD_START = re.compile(r"(?<=\s)\S")
# A sentence ends with its mark, closing quotes or brackets, and white space; the full-width marks of
# Chinese and Japanese need no white space after them.
_SENTENCE_END = re.compile(r"[.!?…؟۔।][\"'”’»)\]]*\s+|[。！？][」』”’）]*\s*")
# All that Unicode calls a line end. Markdown knows only \r\n, \n and \r, see _MARKDOWN_LINE_END.
_LINE_END = re.compile(r"\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_WORD_END = re.compile(r"\s+")
_MARKDOWN_LINE_END = re.compile(r"\r\n?|\n")
# The line under the head of a table. Its rows are lines: a table needs no parser to be cut between rows.
_TABLE_RULE = re.compile(r"^(?=[^\n]*\|)(?=[^\n]*-)[ \t|:-]+\r?$", re.MULTILINE)


def _skip_space(body: str, position: int) -> int:
    """The first character at or after the position that is not white space."""
    match = _TEXT.search(body, position)
    return match.start() if match else len(body)


def _splits_character(body: str, position: int, floor: int) -> bool:
    """Whether a cut here separates what a reader sees as one character.

    Covers base and combining marks, emoji joined by ZWJ or with a skin tone, flags, Hangul jamo and CR LF.
    """
    before, after = body[position - 1], body[position]
    if before == "\r" and after == "\n":
        return True
    if unicodedata.category(before) in ("Cc", "Zl", "Zp"):
        return False  # a mark at the start of a line has no base
    if before == "\u200d" or after == "\u200d" or unicodedata.category(after)[0] == "M":
        return True
    if after < "\u1160":  # nearly all text ends its questions here
        return False
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb":
        return unicodedata.name(before, "").startswith("HANGUL")
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if not ("\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff"):
        return False
    # Flags are pairs of letters: count the letters before, but not behind the start of the chunk.
    first = position
    while first > floor and "\U0001f1e6" <= body[first - 1] <= "\U0001f1ff":
        first -= 1
    return (position - first) % 2 == 1


def _whole_character(body: str, position: int, floor: int) -> int:
    """The position, or the nearest one before it (but after the floor) that splits no character."""
    for candidate in range(position, floor, -1):
        if not _splits_character(body, candidate, floor):
            return candidate
    return position  # a single character that is larger than the chunk: split it


def _next_character(body: str, position: int, end: int, floor: int) -> int:
    """The position, or the nearest one after it (up to the end) that splits no character."""
    for candidate in range(position, end):
        if not _splits_character(body, candidate, floor):
            return candidate
    return end


def _last_match(pattern: re.Pattern[str], body: str, low: int, high: int) -> int | None:
    """Where the last match in the range ends, unless a sentence or a character would be torn."""
    found = None
    for match in pattern.finditer(body, low, high):
        end = match.end()
        if _splits_character(body, end, low):
            continue
        if pattern is _SENTENCE_END and body[end].islower():
            continue  # "e.g. this"
        found = end
    return found


def _last_position(positions: Sequence[int], low: int, high: int) -> int | None:
    """The last of the sorted positions with ``low < position <= high``."""
    index = bisect_right(positions, high)
    return positions[index - 1] if index and positions[index - 1] > low else None


# -- The one loop --------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """Where a chunk may end: after ``fresh`` (the first text that no earlier chunk has), and at most at
    ``reach`` (where text goes on after the white space that follows the last code point that fits).
    """

    fresh: int
    limit: int
    reach: int


class _Cutter(Protocol):
    """The two decisions in which chunkers differ."""

    def end(self, window: _Window) -> int:
        """Where this chunk ends."""

    def next_start(self, previous: int, end: int) -> int:
        """Where the next chunk starts: after the start of the previous one, at most at its end."""


def _spans(body: str, begin: int, end: int, target: int, cutter: _Cutter) -> Iterator[tuple[int, int]]:
    """The chunks that cover ``body[begin:end]``, which has text in it."""
    text_end = begin + len(body[begin:end].rstrip())
    start = cut = begin
    while True:
        fresh = _skip_space(body, cut)
        limit = _skip_space(body, start) + target
        if limit <= fresh:  # a deep indentation used up the overlap: go on without it
            start, limit = cut, fresh + target
        if limit >= text_end:
            yield start, end
            return
        cut = cutter.end(_Window(fresh, limit, _skip_space(body, limit)))
        yield start, cut
        start = cutter.next_start(start, cut)


def _check_sizes(target: object, overlap: object) -> None:
    for label, value, lowest in (("target", target, 1), ("overlap", overlap, 0)):
        # bool is an int in Python, and True as a size is always a mistake.
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise InvalidInput(
                f"chunk {label} must be a whole number of code points, at least {lowest}, not {value!r}",
                hint="for example target=1200, overlap=0",
                code="RG411",
            )
    if overlap >= target:  # type: ignore[operator]  # both are ints by now
        raise InvalidInput(
            f"chunk overlap {overlap} must be smaller than the target {target}",
            hint="an overlap of a tenth to a fifth of the target is usual",
            code="RG411",
        )


# -- Fixed windows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowChunker:
    """Windows of ``target`` code points, each of which repeats the last ``overlap`` of the one before.

    It knows nothing of words or lines; only a character is kept whole (an ``é`` of two code points, a
    family emoji), where it fits into what a window adds. For text without structure, and as a baseline.
    """

    target: int = 1200
    overlap: int = 200

    def __post_init__(self) -> None:
        _check_sizes(self.target, self.overlap)

    @property
    def name(self) -> str:
        """The full configuration, recorded on the revision."""
        return f"window-1(target={self.target},overlap={self.overlap})"

    def chunk(self, body: str) -> list[Chunk]:
        """The windows, in the order of the text."""
        if not body.strip():
            return []
        cutter = _WindowCutter(body, self.overlap)
        return [
            Chunk(body[start:end], start, end)
            for start, end in _spans(body, 0, len(body), self.target, cutter)
        ]


@dataclass(frozen=True, slots=True)
class _WindowCutter:
    body: str
    overlap: int

    def end(self, window: _Window) -> int:
        return _whole_character(self.body, window.reach, window.fresh)

    def next_start(self, previous: int, end: int) -> int:
        earliest = max(end - self.overlap, previous + 1)
        return _next_character(self.body, earliest, end, previous)


# -- Markdown structure --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StructureChunker:
    """Passages that follow the structure of a Markdown text; plain text is Markdown without headings.

    - A heading starts a new chunk and stays with its text; a heading without text of its own goes with
      the next one. ``section`` is the path of headings, ``Refunds > Exceptions``.
    - Paragraphs, lists, tables, code and quotes are kept whole where they fit, and as many of them as
      fit share a chunk.
    - What does not fit is cut between items, rows or lines of code, else after a sentence, a line, a
      word, a character: the first of these that fills at least a quarter of the chunk.
    - A tiny section (less than a quarter of the target) goes with the next section if that is not
      further up and both fit; the chunk then bears the path that they share. Short sections otherwise
      stay apart, so that a citation names one section and not a handful.
    - ``overlap`` repeats at most that many code points, from the start of a word, where a section goes
      on in the next chunk; never across a heading.

    Only headings at the outermost level count: one inside a quote or a list is text.
    """

    target: int = 1200
    overlap: int = 0

    def __post_init__(self) -> None:
        _check_sizes(self.target, self.overlap)

    @property
    def name(self) -> str:
        """The full configuration, recorded on the revision."""
        return f"structure-1(target={self.target},overlap={self.overlap})"

    def chunk(self, body: str) -> list[Chunk]:
        """The passages, in the order of the text."""
        if not body.strip():
            return []
        blocks, parts = _outline(body)
        sections = _sections(body, blocks, self.target)
        starts = [block.start for block in blocks] + [len(body)]
        return [
            Chunk(body[start:end], start, end, " > ".join(section.path))
            for section in sections
            for start, end in _spans(
                body,
                section.start,
                section.end,
                self.target,
                _StructureCutter(
                    body, section.text or section.start, starts, parts, self.target, self.overlap
                ),
            )
        ]


@dataclass(frozen=True, slots=True)
class _StructureCutter:
    body: str
    text: int
    blocks: Sequence[int]
    parts: Sequence[int]
    target: int
    overlap: int

    def end(self, window: _Window) -> int:
        fresh, limit, reach = window
        room = limit - fresh
        quarter = fresh + room // 4
        if self.text < limit - room // 4:  # not between a heading and its text
            fresh = max(fresh, self.text)
            quarter = max(quarter, self.text)

        block = _last_position(self.blocks, fresh, reach)
        if block is not None and (block > quarter or self._fits(block)):
            return block
        part = _last_position(self.parts, quarter, reach)
        if part is not None:
            return part
        for pattern in (_SENTENCE_END, _LINE_END, _WORD_END):
            cut = _last_match(pattern, self.body, quarter, reach)
            if cut is not None:
                return cut
        return _whole_character(self.body, reach, fresh)

    def _fits(self, block: int) -> bool:
        following = self.blocks[bisect_right(self.blocks, block)]
        return len(self.body[block:following].rstrip()) <= self.target - self.overlap

    def next_start(self, previous: int, end: int) -> int:
        earliest = max(end - self.overlap, previous + 1)
        word = _WORD_START.search(self.body, earliest, end)
        # No word starts there: one long word, or a script without spaces.
        return word.start() if word else _next_character(self.body, earliest, end, previous)


class _Block(NamedTuple):
    start: int
    level: int
    """1 to 6 for a heading, 0 for anything else."""
    title: str


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    # Link definitions vanish from the tokens, but they are text like any other here.
    parser.disable("reference")
    # Blocks are all that is needed, and inline parsing is most of the time.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


_MARKDOWN = _parser()


def heading_text(markdown: str) -> str:
    """What a reader sees of a heading: no emphasis marks, no link targets, one line."""
    # Two hundred code points name a section; a line of a megabyte after "# " is no heading anyone wrote.
    tokens = _MARKDOWN.inline.parse(markdown[:200], _MARKDOWN, {}, [])
    shown = (" " if token.type.endswith("break") else token.content for token in tokens if _visible(token))
    return " ".join("".join(shown).split())


def _visible(token: Token) -> bool:
    return token.type in ("text", "text_special", "code_inline", "image", "softbreak", "hardbreak")


def _outline(body: str) -> tuple[list[_Block], list[int]]:
    """The outermost blocks, and where else a block that is too large may be cut, both in text order."""
    lines = [0, *(match.end() for match in _MARKDOWN_LINE_END.finditer(body)), len(body)]
    blocks: list[_Block] = []
    parts: set[int] = set()
    tokens = _MARKDOWN.parse(body)
    for index, token in enumerate(tokens):
        if token.map is None or token.type == "inline":
            continue  # closing tokens, and the text inside a block
        first, after = token.map
        start = lines[first]
        if token.level > 0:
            parts.add(start)  # an item, or a block inside an item or a quote
        # Several lines over "---" are by the book a heading; in practice they are front matter.
        elif token.type == "heading_open" and after - first <= 2:
            blocks.append(_Block(start, int(token.tag[1]), heading_text(tokens[index + 1].content)))
        else:
            blocks.append(_Block(start, 0, ""))
        if token.type in ("fence", "code_block", "html_block") or (
            token.type == "paragraph_open" and _TABLE_RULE.search(body, start, lines[after])
        ):
            parts.update(lines[first + 1 : after])
    # To Markdown, a line of \v or of no-break spaces is a paragraph. It is white space here.
    ends = [block.start for block in blocks[1:]] + [len(body)]
    blocks = [block for block, end in zip(blocks, ends, strict=True) if _skip_space(body, block.start) < end]
    return blocks, sorted(parts)


@dataclass(slots=True)
class _Section:
    start: int
    end: int
    text: int | None
    """Where the first block that is not a heading starts."""
    level: int
    path: tuple[str, ...]


def _sections(body: str, blocks: Sequence[_Block], target: int) -> list[_Section]:
    """The stretches of text that no chunk crosses."""
    sections: list[_Section] = []
    path: list[tuple[int, str]] = []
    for block in blocks:
        if block.level:
            path = [above for above in path if above[0] < block.level] + [(block.level, block.title)]
        if not sections or (block.level and sections[-1].text is not None):
            # White space before the first block belongs to it.
            start = block.start if sections else 0
            sections.append(_Section(start, len(body), None, block.level, ()))
            if len(sections) > 1:
                sections[-2].end = start
        section = sections[-1]
        if section.text is None:
            section.path = tuple(title for _, title in path if title)
            section.level = min(section.level, block.level) if block.level else section.level
            section.text = None if block.level else block.start
    return _join_tiny(body, sections, target)


def _join_tiny(body: str, sections: Sequence[_Section], target: int) -> list[_Section]:
    joined: list[_Section] = []
    for section in sections:
        last = joined[-1] if joined else None
        if (
            last
            and section.level >= last.level
            and _size(body, last.start, last.end) < target // 4
            and _size(body, last.start, section.end) <= target
        ):
            shared = takewhile(lambda pair: pair[0] == pair[1], zip(last.path, section.path, strict=False))
            last.path = tuple(title for title, _ in shared)
            last.end = section.end
        else:
            joined.append(section)
    return joined


def _size(body: str, start: int, end: int) -> int:
    return len(body[start:end].strip())
