"""What the command line writes: tables for people, one JSON document for programs, errors beside both.

Texts of documents, questions and error messages come from others. They are shown as text: no markup, and
no control characters that a terminal would obey.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_WIDEST = 110
# Control characters steer a terminal; the marks after them reorder what a person reads; a lone surrogate
# cannot be written at all.
_STEERING = ((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F))
_REORDERING = ((0x061C, 0x061C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069))
_SURROGATES = ((0xD800, 0xDFFF),)
_UNSAFE = {
    character: "\N{REPLACEMENT CHARACTER}"
    for first, last in (*_STEERING, *_REORDERING, *_SURROGATES)
    for character in range(first, last + 1)
}


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does; where it is not for a terminal, without the spaces that fill up each line."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))
        self.file.flush()

    def on_broken_pipe(self) -> None:
        """Let the command end as it does for any interruption; rich would leave with 1 from here."""
        raise  # rich calls this while it handles the BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Standard output or error as it is now; no control codes unless a terminal understands them."""
    found = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if found.width > _WIDEST:
        found.width = _WIDEST
    return found


def safe(text: object) -> str:
    """The text with everything that could steer a terminal replaced; tabs and line ends stay."""
    return str(text).replace("\r\n", "\n").translate(_UNSAFE)


def line(*parts: str | tuple[object, str]) -> Text:
    """One line, of texts and of (text, style) pairs."""
    found = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        found.append(safe(text), style)
    return found


def table(*headings: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in which long cells are wrapped and never cut."""
    found = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for heading in headings:
        found.add_column(heading, overflow="fold", justify="right" if heading in right else "left")
    return found


def row(into: Table, *cells: object) -> None:
    """Add a row; None is an empty cell."""
    into.add_row(*(cell if isinstance(cell, Text) else safe("" if cell is None else cell) for cell in cells))


def write_json(document: Any, *, stream: TextIO | None = None) -> None:
    """One document. In ASCII, so that no locale, pipe or terminal changes what arrives."""
    print(json.dumps(document, indent=2, default=_plain), file=stream or sys.stdout)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


def write_error(message: str, *, code: str = "", detail: str = "", hint: str = "", as_json: bool) -> None:
    """A failure on standard error: the fact, safe values, the next step."""
    if as_json:
        error = {"code": code or None, "message": message, "detail": detail or None, "hint": hint or None}
        write_json({"error": error}, stream=sys.stderr)
        return
    err = console(stderr=True)
    err.print(line(("error: ", "bold red"), (f"{code} " if code else "", "bold"), message), soft_wrap=True)
    for label, text in (("detail", detail), ("hint", hint)):
        if text:
            err.print(line((f"{label}: ", "bold"), text), soft_wrap=True)


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error while the block runs, where that is a terminal.

    Yields what is to be called with how many are done and, once it is known, how many there are.
    """
    err = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = err.is_terminal and not err.is_dumb_terminal
    with Progress(*columns, console=err, transient=True, disable=not shown) as bar:
        task = bar.add_task(description, total=total)

        def advance(done: int, of: int | None = None) -> None:
            bar.update(task, completed=done, total=of if of is not None else total)

        yield advance
