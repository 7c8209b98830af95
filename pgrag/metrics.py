"""Spans and metrics by OpenTelemetry, where ``opentelemetry-api`` is installed; elsewhere nothing at all.

    pip install "pgrag-postgres[otel]"    # and an SDK with an exporter, which the application sets up

Each search, packet, validation and ingestion is a span (``pgrag.search`` …), with spans inside for what it
waited for: ``pgrag.encode``, ``pgrag.database`` and ``pgrag.rerank``. The metrics are

    pgrag.duration       seconds, of each of these operations; its count is how often they were called
    pgrag.scope.chunks   how many chunks a search was among: visible to the reader, and left by the filter
    pgrag.found          how many passages a search found, or a packet holds
    pgrag.ingest.chunks  how many chunks were cut

No attribute ever holds a question, a text, an id or a name from the database: what can be one is listed
below, and text that is not one short word is replaced by ``?``, as in the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import psycopg

from pgrag import log
from pgrag.errors import PgragError

try:
    from opentelemetry import metrics as _metrics
    from opentelemetry import trace as _trace
except ImportError:  # the extra "otel" is not installed
    _metrics, _trace = None, None  # type: ignore[assignment,unused-ignore]

Value = int | bool | str

ATTRIBUTES: Mapping[str, type] = MappingProxyType(
    {
        "mode": str,
        "fusion": str,
        "isolation": str,
        "profile": str,
        "candidates": int,
        "k": int,
        "filtered": bool,
        "lexical_route": str,
        "dense_route": str,
        "dense_requested": int,
        "dense_fell_back": bool,
        "status": str,
        "reason": str,
        "complete": bool,
        "complete_reason": str,
        "rerank": str,
        "rerank_reason": str,
        "documents": int,
        "chunks": int,
        "found": int,
        "omitted": int,
        "findings": int,
        "created": bool,
        "activated": bool,
        "code": str,
    }
)
"""Every attribute that a span can have, without its prefix ``pgrag.``, with its type. ``error.type`` is the
class of an exception."""

DIMENSIONS = frozenset(
    {
        *("mode", "filtered", "lexical_route", "dense_route", "dense_fell_back"),
        *("status", "reason", "rerank", "rerank_reason", "created", "code"),
    }
)
"""Those that metrics have, too: of each there are few values."""

_OF_POLICY = (
    *("mode", "fusion", "isolation", "profile", "candidates", "k"),
    *("lexical_route", "dense_route", "dense_requested", "dense_fell_back"),
)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_CHUNKS = (0, 10, 100, 1_000, 5_000, 20_000, 100_000, 500_000, 2_000_000, 10_000_000)
_PASSAGES = (0, 1, 2, 3, 5, 8, 10, 20, 50, 100)


class Telemetry:
    """The instruments. Those of the API's own tracer and meter go where the application sends them."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        self.tracer = tracer
        self.duration = meter.create_histogram(
            "pgrag.duration",
            unit="s",
            description="How long an operation took.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.numbers = {
            "chunks": meter.create_histogram(
                "pgrag.scope.chunks",
                unit="{chunk}",
                description="Chunks that a search was among: visible to the reader, and left by the filter.",
                explicit_bucket_boundaries_advisory=_CHUNKS,
            ),
            "found": meter.create_histogram(
                "pgrag.found",
                unit="{passage}",
                description="Passages that a search found or a packet holds.",
                explicit_bucket_boundaries_advisory=_PASSAGES,
            ),
        }
        self.ingested = meter.create_counter(
            "pgrag.ingest.chunks", unit="{chunk}", description="Chunks that were cut."
        )


def _of_the_api() -> Telemetry | None:
    if _trace is None or _metrics is None:
        return None
    from pgrag import __version__

    return Telemetry(_trace.get_tracer("pgrag", __version__), _metrics.get_meter("pgrag", __version__))


class Seen:
    """What an operation tells of itself."""

    def __init__(self) -> None:
        self.attributes: dict[str, Value] = {}

    def add(self, **values: Value | None) -> None:
        """Attributes. One that is None is left out; an unknown one, or a wrong type, is a ValueError."""
        for name, value in values.items():
            if value is None:
                continue
            wanted = ATTRIBUTES.get(name)
            if wanted is None or type(value) is not wanted:
                raise ValueError(f"a span has no attribute {name!r} of type {type(value).__name__}")
            self.attributes[name] = log.word(value) if isinstance(value, str) else value

    def asked(self, request: Mapping[str, Any]) -> None:
        """What was asked for: known before there is an answer."""
        self.add(mode=request["mode"], candidates=request["candidates"], filtered=bool(request["filter"]))

    def answered(self, answer: Mapping[str, Any], rerank: Any = None) -> None:
        """What the database says of a search or a packet. A packet does not say how large the scope was."""
        told = {name: answer.get(name) for name in ("status", "reason", "complete", "complete_reason")}
        policy = {name: answer.get("policy", {}).get(name) for name in _OF_POLICY}
        scope = {name: answer.get("scope", {}).get(name) for name in ("documents", "chunks")}
        self._known({**told, **policy, **scope})
        self.add(found=len(answer["hits"] if "hits" in answer else answer.get("excerpts", ())))
        if "omitted" in answer:
            self.add(omitted=len(answer["omitted"]))
        if rerank is not None:
            self.add(rerank=rerank.status, rerank_reason=rerank.reason)

    def _known(self, values: Mapping[str, Any]) -> None:
        # A database of another release may say it otherwise, and a search must not fail by that.
        known: dict[str, Any] = {
            name: value for name, value in values.items() if type(value) is ATTRIBUTES[name]
        }
        self.add(**known)


@contextmanager
def measured(operation: str) -> Iterator[Seen]:
    """A span and a measurement of the block; of an exception they have its class and its code alone."""
    seen = Seen()
    if _telemetry is None:
        yield seen
        return
    start = time.perf_counter()
    failed: dict[str, str] = {}
    # What an exception says could be anybody's text.
    with _telemetry.tracer.start_as_current_span(
        f"pgrag.{operation}", record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield seen
        except BaseException as error:
            code = error.code if isinstance(error, PgragError) else None
            seen.add(code=error.sqlstate if isinstance(error, psycopg.Error) else code)
            failed["error.type"] = log.word(type(error).__name__)
            span.set_status(_error_status())
            raise
        finally:
            seconds = time.perf_counter() - start
            for name, value in (*seen.attributes.items(), *failed.items()):
                span.set_attribute(name if name in failed else f"pgrag.{name}", value)
            _record(_telemetry, operation, seconds, seen.attributes, failed)


def _error_status() -> Any:
    return _trace.Status(_trace.StatusCode.ERROR)


def _record(
    telemetry: Telemetry,
    operation: str,
    seconds: float,
    attributes: Mapping[str, Value],
    failed: Mapping[str, str],
) -> None:
    dimensions: dict[str, Value] = {
        f"pgrag.{name}": attributes[name] for name in DIMENSIONS & attributes.keys()
    }
    dimensions |= {"pgrag.operation": operation, **failed}
    telemetry.duration.record(seconds, dimensions)
    if operation == "ingest":
        if "chunks" in attributes:
            telemetry.ingested.add(int(attributes["chunks"]), dimensions)
        return
    for name, instrument in telemetry.numbers.items():
        if name in attributes:
            instrument.record(attributes[name], dimensions)


_telemetry = _of_the_api()
