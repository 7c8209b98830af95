"""Structured logging on the standard library: logger ``pgrag``, an event and its fields.

    logging.getLogger("pgrag").setLevel("DEBUG")   # reads and writes; WARNING: failures only

A record's message is ``event key=value …``; ``JsonFormatter`` writes it as one JSON object a line. No
record ever holds a token, a question, a document's text or a name from the database: a field must be on
the list below, and text that is not one short word is replaced by ``?``.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

import psycopg

from pgrag.errors import PgragError

logger = logging.getLogger("pgrag")
logger.addHandler(logging.NullHandler())

FIELDS = MappingProxyType(
    {
        "duration_ms": float,
        "rows": int,
        "hits": int,
        "excerpts": int,
        "findings": int,
        "documents": int,
        "created": int,
        "unchanged": int,
        "failed": int,
        "skipped": int,
        "valid": bool,
        "status": str,
        "reason": str,
        "mode": str,
        "code": str,
        "error": str,
    }
)
"""Every field that a record can have, with its type."""

_EVENT = re.compile(r"[a-z][a-z_]{0,39}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}|[0-9A-Z]{5}|")
Value = float | int | bool | str | None


def event(name: str, level: int = logging.INFO, **values: Value) -> None:
    """Log an event. A field that is None is left out; an unknown one, or a wrong type, is a ValueError."""
    if not _EVENT.fullmatch(name):
        raise ValueError("the name of a log event is lower-case words with underscores")
    kept = {key: _allowed(key, value) for key, value in values.items() if value is not None}
    if logger.isEnabledFor(level):
        shown = " ".join([name, *(f"{key}={_plain(value)}" for key, value in kept.items())])
        logger.log(level, "%s", shown, extra={"event": name, "fields": kept})


@contextmanager
def timed(name: str, **values: Value) -> Iterator[dict[str, Value]]:
    """Log an event with how long its block took, in milliseconds, and with what the block adds to the dict.

    DEBUG for success, WARNING for an exception, of which only the class and the code are said.
    """
    fields: dict[str, Value] = dict(values)
    start = time.perf_counter()
    try:
        yield fields
    except BaseException as error:
        code = error.code if isinstance(error, PgragError) else None
        code = error.sqlstate if isinstance(error, psycopg.Error) else code
        _finish(name, logging.WARNING, start, {**fields, "code": code, "error": type(error).__name__})
        raise
    _finish(name, logging.DEBUG, start, fields)


def _finish(name: str, level: int, start: float, fields: dict[str, Value]) -> None:
    event(name, level, duration_ms=round((time.perf_counter() - start) * 1000, 3), **fields)


def _allowed(key: str, value: Value) -> Value:
    # The value is not shown: it may be just what must not be logged.
    wanted = FIELDS.get(key)
    if wanted is None:
        raise ValueError(f"a log record has no field {key!r}")
    if type(value) is not wanted:
        raise ValueError(f"the log field {key!r} is of type {wanted.__name__}, not {type(value).__name__}")
    return word(value) if isinstance(value, str) else value


def word(text: str) -> str:
    """The text, if it is one short word or nothing; else ``?``: it could be anybody's."""
    return text if _WORD.fullmatch(text) else "?"


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, event and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; a record that is not one of pgrag's has its message as the event."""
        time_ = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        what = getattr(record, "event", None) or record.getMessage()
        fields = getattr(record, "fields", {})
        return json.dumps({"time": time_, "level": record.levelname, "event": what, **fields})
