"""Logging: useful fields, and never a token, a question or a text."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import pgrag
from pgrag import log
from pgrag.errors import NotFound
from pgrag.protocols import Chunk
from tests.support import Database


class Kept(logging.Handler):
    """Keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    handler, before = Kept(), log.logger.level
    log.logger.addHandler(handler)
    log.logger.setLevel(logging.DEBUG)
    yield handler.records
    log.logger.setLevel(before)
    log.logger.removeHandler(handler)


def test_an_event_is_words_and_json(records: list[logging.LogRecord]) -> None:
    log.event("search", status="evidence", reason=None, hits=3, duration_ms=1.5, valid=True)
    assert records[0].getMessage() == "search status=evidence hits=3 duration_ms=1.5 valid=true"
    formatter = log.JsonFormatter()
    said = json.loads(formatter.format(records[0]))
    assert said.pop("time").endswith("+00:00")
    assert said == {
        "level": "INFO",
        "event": "search",
        "status": "evidence",
        "hits": 3,
        "duration_ms": 1.5,
        "valid": True,
    }
    foreign = logging.LogRecord("app", logging.ERROR, "", 0, "a %s\nline", ("second",), None)
    assert json.loads(formatter.format(foreign))["event"] == "a second\nline"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("search", {"question": "refund"}),
        ("search", {"text": "x"}),
        ("search", {"token": "x"}),
        ("search", {"document": "refund.md"}),
        ("search", {"hits": "3"}),
        ("search", {"hits": True}),
        ("search", {"valid": 1}),
        ("search", {"duration_ms": 1}),
        ("how long", {}),
        ("search\n", {}),
    ],
)
def test_what_a_record_cannot_hold(
    records: list[logging.LogRecord], name: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="log") as error:
        log.event(name, **fields)
    assert not records and not any(
        isinstance(value, str) and value in str(error.value) for value in fields.values() if value != "x"
    )
    log.event("search", **{"status": "evidence"})  # control
    assert len(records) == 1


@pytest.mark.parametrize(
    "text", ["How long?", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "x" * 41, "a\nb", "straße", "refund.md"]
)
def test_text_that_is_no_word_is_not_said(records: list[logging.LogRecord], text: str) -> None:
    log.event("search", status=text, reason="below_threshold", code="57014")
    assert records[0].getMessage() == "search status=? reason=below_threshold code=57014"
    assert text not in repr(records[0].__dict__)


def test_logging_does_not_hide_an_exception(records: list[logging.LogRecord]) -> None:
    class _Ähnlich(Exception):
        pass

    with pytest.raises(_Ähnlich), log.timed("search"):
        raise _Ähnlich("How long?")
    assert records[0].getMessage().endswith(" error=?") and "How long?" not in repr(records[0].__dict__)


def test_no_free_text_is_on_the_list() -> None:
    assert not log.FIELDS.keys() & {
        "token",
        "question",
        "text",
        "message",
        "document",
        "source",
        "tenant",
        "subject",
        "title",
        "hint",
        "detail",
    }


def test_sessions_log_what_they_do_and_not_with_what(
    database: Database, records: list[logging.LogRecord]
) -> None:
    secret_words = ("Zanzibar", "quagga", "fishmonger", "alice", "handbook", "spice.md")
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    token = database.token("a", "alice")
    text = "The spice of Zanzibar is sold by the fishmonger."
    connector = database.token("a", "connector", "writer", source="handbook")
    with pgrag.connect(database.dsn("app_writer")) as connection, pgrag.writer(connection, connector) as w:
        staged = w.stage("spice.md", text, title="Zanzibar")
        w.add_chunks("spice.md", staged.revision, [Chunk(text, 0, len(text))], None, [9])
        w.verify("spice.md", staged.revision, 1)
        w.set_access("spice.md", ["alice"])
        w.activate("spice.md", staged.revision)
    with pgrag.connect(database.dsn("app_reader")) as connection:
        with pgrag.reader(connection, token) as r:
            packet = r.packet("Who sells spice of Zanzibar, the fishmonger or the quagga?", threshold=0)
            r.validate(packet, {"answer": "The fishmonger.", "citations": [{"id": "e1", "quote": "quagga"}]})
        with pytest.raises(NotFound), pgrag.reader(connection, token) as r:
            r.excerpt("quagga")
        with pytest.raises(psycopg.errors.UndefinedTable), pgrag.reader(connection, token):
            connection.execute("select 'quagga' from fishmonger")

    stream = io.StringIO()
    for record in records:
        stream.write(
            log.JsonFormatter().format(record)
            + "\n"
            + record.getMessage()
            + "\n"
            + repr(record.__dict__)
            + "\n"
        )
    written = stream.getvalue()
    for word in (*secret_words, token, token.split(".")[2], staged.revision, packet.seal):
        assert word not in written
    assert text not in written
    # Control: the events are there, with what helps.
    events = {record.event: record for record in records if hasattr(record, "event")}  # type: ignore[attr-defined]
    assert {
        "authenticate",
        "stage",
        "add_chunks",
        "verify",
        "set_access",
        "activate",
        "packet",
        "validate",
    } <= events.keys()
    assert events["packet"].fields.items() >= {"mode": "lexical", "status": "evidence", "excerpts": 1}.items()  # type: ignore[attr-defined]
    assert events["validate"].fields.items() >= {"valid": False, "findings": 1}.items()  # type: ignore[attr-defined]
    assert events["packet"].fields["duration_ms"] > 0  # type: ignore[attr-defined]
    failed = [record for record in records if record.levelno == logging.WARNING]
    assert [(record.event, record.fields["code"], record.fields["error"]) for record in failed] == [
        ("excerpt", "RG401", "NotFound")
    ]  # type: ignore[attr-defined]


def test_silent_unless_asked() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("pgrag").handlers)
