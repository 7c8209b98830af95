"""Spans and metrics: what a search did and how long it took, and never what was asked or by whom."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgrag
from pgrag import metrics
from pgrag.errors import InvalidInput, NotFound, RerankError
from pgrag.ingest import SourceDocument, StructureChunker, WordTokenizer
from tests.python.test_sessions import TOY, ToyEmbedder
from tests.support import Database

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

SECRET_WORDS = ("Zanzibar", "quagga", "fishmonger", "alice", "handbook", "spice", "tenant-of-spice", "toy")
TEXT = "The spice of Zanzibar is sold by the fishmonger."
QUESTION = "Who sells spice of Zanzibar, the fishmonger or the quagga?"


class Watched:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(shutdown_on_exit=False), MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = metrics.Telemetry(self.tracers.get_tracer("test"), self.meters.get_meter("test"))

    def spans(self) -> list[ReadableSpan]:
        found = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return found

    def last(self) -> dict[str, Any]:
        """Attributes of the operation that ended last, without their prefix."""
        return {name.removeprefix("pgrag."): value for name, value in self.spans()[-1].attributes.items()}

    def points(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """For each metric, the attributes with the count and the sum, or the value, of each of its points."""
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in self.reader.get_metrics_data().resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = [
                        (dict(point.attributes), point.value if hasattr(point, "value") else (point.count, point.sum))
                        for point in metric.data.data_points
                    ]
        return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    found = Watched()
    monkeypatch.setattr(metrics, "_telemetry", found.telemetry)
    yield found
    found.tracers.shutdown()
    found.meters.shutdown()


@pytest.fixture(scope="module")
def spices(module_database: Database) -> Database:
    """Of tenant-of-spice: a page that alice may read, beside six for everyone."""
    module_database.put_tenant("tenant-of-spice")
    module_database.put_principals("tenant-of-spice", users=["alice"])
    with module_database.writer("tenant-of-spice", "handbook") as writer:
        module_database.put_document(writer, "spice.md", TEXT, readers=["alice"], vectors=[[2, 0, 1]])
        for topic in ("parking", "lunch", "badges", "printers", "heating", "bicycles"):
            module_database.put_document(writer, f"{topic}.md", f"Ask the desk about {topic}.", vectors=[[0, 0, 1]])
    return module_database


@pytest.fixture
def connection(spices: Database) -> Iterator[psycopg.Connection[Any]]:
    with pgrag.connect(spices.dsn("app_reader")) as connection:
        yield connection


def _page(key: str, body: str) -> SourceDocument:
    nothing = dict.fromkeys((*("language", "product", "version", "readers", "revision"), *("effective_from", "effective_to", "date")))
    return SourceDocument(key=key, body=body, title="Zanzibar", tags=(), parser="text", **nothing)


@pytest.fixture
def token(spices: Database) -> str:
    return spices.token("tenant-of-spice", "alice")


@pytest.mark.contract("L5")
def test_a_search_says_how_it_was_answered(watched: Watched, connection: psycopg.Connection[Any], token: str) -> None:
    with pgrag.reader(connection, token, embedder=ToyEmbedder()) as r:
        r.search(QUESTION, threshold=0)
        encode, database, search = watched.spans()
        assert (encode.name, database.name, search.name) == ("pgrag.encode", "pgrag.database", "pgrag.search")
        assert encode.parent == database.parent == search.context
        said = {name.removeprefix("pgrag."): value for name, value in search.attributes.items()}
        assert said.items() >= {
            "mode": "hybrid", "fusion": "convex", "candidates": 100, "k": 10, "filtered": False,
            "lexical_route": "scope", "dense_route": "exact",
            "status": "evidence", "documents": 7, "chunks": 7, "found": 7,
        }.items()  # fmt: skip
        assert "reason" not in said
        r.search("anything", mode="lexical", filter={"tags": ["none"]})
        narrowed = watched.last()
        assert narrowed.items() >= {"status": "abstain", "reason": "nothing_visible", "filtered": True, "chunks": 0, "found": 0}.items()
        assert "dense_route" not in narrowed
        packet = r.packet(QUESTION, threshold=0, mode="lexical")
        assert watched.last().items() >= {"mode": "lexical", "status": "evidence", "found": 1, "omitted": 0}.items()
        r.validate(packet, {"answer": "Nobody.", "citations": [{"id": "e9"}]})
        assert watched.last().items() >= {"status": "invalid", "findings": 1}.items()
    points = watched.points()
    durations = {
        tuple(attributes.get(f"pgrag.{name}") for name in ("operation", "status", "reason")): count
        for attributes, (count, seconds) in points["pgrag.duration"]
        if seconds > 0
    }
    assert durations[("search", "evidence", None)] == durations[("search", "abstain", "nothing_visible")] == 1
    assert durations[("packet", "evidence", None)] == durations[("validate", "invalid", None)] == 1
    assert durations[("database", None, None)] == 3 and durations[("encode", None, None)] == 1
    among = {attributes["pgrag.filtered"]: total for attributes, (_, total) in points["pgrag.scope.chunks"]}
    assert among == {False: 7, True: 0}
    routes = [attributes.get("pgrag.dense_route") for attributes, _ in points["pgrag.found"]]
    assert sorted(map(str, routes)) == ["None", "None", "exact"]
    assert not any({"pgrag.k", "pgrag.candidates", "pgrag.chunks"} & attributes.keys() for attributes, _ in points["pgrag.duration"])


@pytest.mark.contract("L5")
def test_nothing_of_what_was_asked_or_by_whom_is_exported(
    watched: Watched, spices: Database, connection: psycopg.Connection[Any], token: str
) -> None:
    with pgrag.reader(connection, token, embedder=ToyEmbedder()) as r:
        found = r.search(QUESTION, threshold=0)
        packet = r.packet(f'{QUESTION} "quagga" -fishmonger', filter={"source": "handbook"}, threshold=0)
        r.validate(packet, {"answer": "The quagga.", "citations": [{"id": "e1", "quote": "quagga"}]})
        with pytest.raises(InvalidInput):
            r.search(QUESTION, mode="quagga")
    with pytest.raises(psycopg.errors.UndefinedFunction), pgrag.reader(connection, token), metrics.measured("search"):
        connection.execute("select quagga('Zanzibar')")
    with pgrag.connect(spices.dsn("app_writer")) as writing:
        connector = spices.token("tenant-of-spice", "connector", "writer", source="handbook")
        with pgrag.writer(writing, connector, embedder=ToyEmbedder()) as w:
            page = _page("quagga.md", TEXT)
            w.ingest(page, chunker=StructureChunker(), tokenizer=WordTokenizer(), activate=False)
    spans = watched.spans()
    written = "".join(span.to_json() for span in spans) + repr(watched.points())
    for word in (*SECRET_WORDS, token, QUESTION, TEXT, packet.seal, *(hit.chunk_id for hit in found.hits)):
        assert word not in written, word
    # Control: they are all there.
    assert {span.name for span in spans} == {f"pgrag.{name}" for name in ("encode", "database", "search", "packet", "validate", "ingest")}
    assert "pgrag.ingest.chunks" in written


def test_failures_have_their_class_and_code(watched: Watched, connection: psycopg.Connection[Any], token: str) -> None:
    class Odd:
        name, processor = "odd", None

        def rerank(self, question: str, passages: Any) -> Any:
            raise RerankError("quagga", code="RG415")

    with pgrag.reader(connection, token) as r:
        with pytest.raises(InvalidInput):
            r.search(QUESTION, k=0)
        (span,) = watched.spans()
        assert dict(span.attributes) == {"error.type": "InvalidInput", "pgrag.code": "RG302"}
        assert not span.status.is_ok and span.status.description is None and span.events == ()
        r.search(QUESTION, threshold=0, reranker=Odd())
        assert [one.name for one in watched.exporter.get_finished_spans()] == [
            *("pgrag.database", "pgrag.rerank", "pgrag.database", "pgrag.search")
        ]
        assert watched.last().items() >= {"rerank": "failed", "rerank_reason": "error", "status": "evidence"}.items()
    with pytest.raises(NotFound), metrics.measured("search"):
        raise NotFound("quagga", code="RG401")
    assert watched.last() == {"error.type": "NotFound", "code": "RG401"}
    with pytest.raises(KeyboardInterrupt), metrics.measured("search"):
        raise KeyboardInterrupt
    assert watched.last() == {"error.type": "KeyboardInterrupt"}
    errors = {attributes["error.type"] for attributes, _ in watched.points()["pgrag.duration"] if "error.type" in attributes}
    assert errors == {"InvalidInput", "RerankError", "NotFound", "KeyboardInterrupt"}


async def test_asynchronous_sessions_are_measured_too(watched: Watched, spices: Database, token: str) -> None:
    async with (
        await pgrag.connect_async(spices.dsn("app_reader")) as connection,
        pgrag.async_reader(connection, token, embedder=ToyEmbedder(TOY)) as r,
    ):
        await r.search(QUESTION, threshold=0)
    encode, database, search = watched.spans()
    assert encode.parent == database.parent == search.context
    assert search.attributes["pgrag.dense_route"] == "exact"


def test_what_is_ingested_is_counted(watched: Watched, spices: Database) -> None:
    with pgrag.connect(spices.dsn("app_writer")) as connection:
        connector = spices.token("tenant-of-spice", "connector", "writer", source="handbook")
        with pgrag.writer(connection, connector) as w:
            for _ in range(2):
                page = _page("new.md", "A short page.\n")
                w.ingest(page, chunker=StructureChunker(), tokenizer=WordTokenizer())
    first, second = watched.spans()
    assert first.attributes == {"pgrag.status": "verified", "pgrag.chunks": 1, "pgrag.created": True, "pgrag.activated": True}
    assert second.attributes == {"pgrag.status": "verified", "pgrag.chunks": 0, "pgrag.created": False, "pgrag.activated": False}
    counted = {attributes["pgrag.created"]: value for attributes, value in watched.points()["pgrag.ingest.chunks"]}
    assert counted == {True: 1, False: 0}


@pytest.mark.parametrize("values", [{"question": "refund"}, {"found": "3"}, {"found": True}, {"filtered": 1}])
def test_what_a_span_cannot_hold(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no attribute"):
        metrics.Seen().add(**values)
    seen = metrics.Seen()
    seen.add(found=3, filtered=True, status="How long?", reason=None)  # control
    assert seen.attributes == {"found": 3, "filtered": True, "status": "?"}


def test_every_dimension_is_an_attribute() -> None:
    assert metrics.ATTRIBUTES.keys() > metrics.DIMENSIONS
    assert not metrics.ATTRIBUTES.keys() & {"question", "text", "tenant", "source", "document", "subject", "reader", "space"}


def test_answers_of_other_releases_do_no_harm() -> None:
    seen = metrics.Seen()
    seen.answered({"status": 1, "policy": {"dense_route": ["x"], "mode": "dense"}, "excerpts": [], "omitted": []})
    assert seen.attributes == {"mode": "dense", "found": 0, "omitted": 0}


def test_without_opentelemetry_nothing_is_missing(connection: psycopg.Connection[Any], token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; sys.modules['opentelemetry'] = None; from pgrag import metrics; print(metrics._telemetry)"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
    monkeypatch.setattr(metrics, "_telemetry", None)
    with pgrag.reader(connection, token) as r:
        assert r.search(QUESTION, threshold=0).status == "evidence"
