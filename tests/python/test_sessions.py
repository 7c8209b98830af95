"""Sessions, synchronous and asynchronous, against a real database."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

import pgrag
from pgrag._async import sessions as async_sessions
from pgrag._sync import sessions as sync_sessions
from pgrag.errors import (
    Conflict,
    EmbeddingError,
    IdentityError,
    InvalidInput,
    NotFound,
    PacketError,
    PgragError,
    WriteError,
    class_of,
)
from pgrag.models import Citation, MaintenanceStep, Packet, Reply, SearchResult
from pgrag.protocols import Chunk, EmbeddingSpace
from pgrag.rerankers.mmr import MMR
from tests.support import AUDIENCE, ISSUER, Database

TOY = EmbeddingSpace("toy", "toy-model", "1", 3, normalisation="none")
REFUND = "The refund window is thirty days. Refunds go to the card."
QUESTION = "How long is the refund window?"


class ToyEmbedder:
    """Three numbers a text: how often it says refund, how often travel, and one."""

    processor: str | None = None

    def __init__(self, space: EmbeddingSpace = TOY) -> None:
        self.space = space
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.texts.append(text)
        return np.array([text.lower().count("refund"), text.lower().count("travel"), 1], dtype=np.float32)


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    """Tenant a with alice (staff) and bob, a page for staff and seven for all, of which one is about refunds."""
    database = module_database
    database.put_tenant("a", sources=["handbook", "wiki"])
    database.put_principals("a", users=["alice", "bob"], groups={"staff": ["alice"]})
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "refund.md", REFUND, vectors=[[2, 0, 1]], revision="1", title="Refunds")
        database.put_document(
            writer, "travel.md", "Travel is paid by the travel desk.", vectors=[[0, 2, 1]], readers=["staff"]
        )
        for topic in ("parking", "lunch", "badges", "printers", "heating", "bicycles"):
            database.put_document(writer, f"{topic}.md", f"Ask the desk about {topic}.", vectors=[[0, 0, 1]])
    return database


@pytest.fixture
def connection(world: Database) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the readers' role."""
    with pgrag.connect(world.dsn("app_reader")) as connection:
        yield connection


@pytest.fixture
def alice(world: Database, connection: psycopg.Connection[Any]) -> Iterator[pgrag.Reader]:
    with pgrag.reader(connection, world.token("a", "alice")) as r:
        yield r


@pytest.fixture
def writing(world: Database) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the writers' role."""
    with pgrag.connect(world.dsn("app_writer")) as connection:
        yield connection


def writer_token(world: Database, source: str = "handbook") -> str:
    return world.token("a", "connector", "writer", source=source)


def put(w: pgrag.Writer, key: str, text: str, revision: str | None = None) -> str:
    """One chunk, staged and verified."""
    staged = w.stage(key, text, revision=revision)
    w.add_chunks(key, staged.revision, [Chunk(text, 0, len(text))], None, [len(text.split())])
    assert w.verify(key, staged.revision, 1).state == "verified"
    return staged.revision


# -- Reading ---------------------------------------------------------------------------------------------


@pytest.mark.contract("A1", "F4", "G1", "H3")
def test_a_reader_from_question_to_verdict(alice: pgrag.Reader) -> None:
    who = alice.whoami()
    assert (who.tenant, who.subject, who.kind, who.known) == ("a", "alice", "reader", True)
    assert who.groups == ["everyone", "staff"] and who.expires_at.tzinfo is not None

    found = alice.search(QUESTION)
    assert (found.status, found.reason, found.complete) == ("evidence", None, True)
    assert found.scope == {"documents": 8, "chunks": 8} and found.policy["mode"] == "lexical"
    first = found.hits[0]
    assert (first.rank, first.source, first.document, first.revision) == (1, "handbook", "refund.md", "1")
    assert (first.text, first.span_start, first.span_end, first.active) == (REFUND, 0, len(REFUND), True)
    assert first.lexical_rank == 1 and first.dense_rank is None and first.ingested_at.tzinfo is not None

    packet = alice.packet(QUESTION, k=1, budget=500, reserve=100)
    assert packet.status == "evidence" and [one.id for one in packet.excerpts] == ["e1"]
    assert packet.limits["reserve"] == 100 and packet.as_of is None
    excerpt = alice.excerpt(packet.excerpts[0].chunk_id)
    assert excerpt.text == REFUND and excerpt.id == ""
    verdict = alice.validate(packet, Reply("Thirty days.", (Citation("e1", "thirty days"),)))
    assert verdict.valid and verdict.citations[0]["quote"] == "exact" and "not proven" in verdict.support
    refused = alice.validate(packet, Reply("Ninety days.", (Citation("e1", "ninety days"), Citation("e9"))))
    assert not refused.valid and [(one.check, one.id) for one in refused.findings] == [
        ("quote", "e1"),
        ("unknown", "e9"),
    ]
    assert alice.can_read("handbook", "travel.md") and not alice.can_read("wiki", "travel.md")


def test_what_is_not_the_readers_is_not_there(world: Database, connection: psycopg.Connection[Any]) -> None:
    with pgrag.reader(connection, world.token("a", "alice")) as r:
        hidden = next(hit for hit in r.search("travel").hits if hit.document == "travel.md")
    with pgrag.reader(connection, world.token("a", "bob")) as r:
        assert not r.can_read("handbook", "travel.md")
        assert [hit.document for hit in r.search("travel refund").hits] == ["refund.md"]
    for chunk_id in (hidden.chunk_id, "0" * 64):
        with pytest.raises(NotFound) as error, pgrag.reader(connection, world.token("a", "bob")) as r:
            r.excerpt(chunk_id)
        assert (error.value.code, error.value.message) == ("RG401", "there is no such excerpt")


async def test_asynchronous_sessions_answer_the_same(
    world: Database, connection: psycopg.Connection[Any]
) -> None:
    token = world.token("a", "alice")
    async with (
        await pgrag.connect_async(world.dsn("app_reader")) as other,
        pgrag.async_reader(other, token, embedder=ToyEmbedder()) as r,
    ):
        who, found, packet = await r.whoami(), await r.search(QUESTION), await r.packet(QUESTION)
        verdict = await r.validate(packet, {"answer": "Thirty.", "citations": [{"id": "e1"}]})
        excerpt = await r.excerpt(found.hits[0].chunk_id, dt.datetime.now(dt.UTC))
    with pgrag.reader(connection, token, embedder=ToyEmbedder()) as r:
        assert (who.subject, found, excerpt) == (
            r.whoami().subject,
            r.search(QUESTION),
            r.excerpt(excerpt.chunk_id),
        )
        assert r.validate(packet, {"answer": "Thirty.", "citations": [{"id": "e1"}]}) == verdict
        assert r.packet(QUESTION).excerpts == packet.excerpts
    assert found.policy["mode"] == "hybrid" and verdict.valid


def test_both_flavours_offer_the_same() -> None:
    def surface(module: Any, prefix: str) -> dict[str, str]:
        offered = {}
        for name in ("Reader", "Writer", "Admin", "Operator", "Keys"):
            for method, function in inspect.getmembers(getattr(module, prefix + name), inspect.isfunction):
                if not method.startswith("_"):
                    offered[f"{name}.{method}"] = str(inspect.signature(function)).replace("Async", "")
        return offered

    assert surface(async_sessions, "Async") == surface(sync_sessions, "")
    assert "Reader.search" in surface(sync_sessions, "")


def test_connections_of_others_keep_their_ways(world: Database) -> None:
    with psycopg.connect(world.dsn("app_reader"), row_factory=dict_row, autocommit=True) as connection:
        set_json_loads(lambda text: pytest.fail("not asked"), connection)
        with pgrag.reader(connection, world.token("a", "alice")) as r:
            assert r.search(QUESTION).hits[0].document == "refund.md"
        assert connection.execute("select 1 as one").fetchone() == {"one": 1} and connection.autocommit


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_connection_speaks_utf_8(world: Database, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    question, token = f"{QUESTION} Größe, размер, 大小", world.token("a", "alice")
    with pgrag.connect(world.dsn("app_reader")) as connection, pgrag.reader(connection, token) as r:
        assert r.whoami().subject == "alice" and r.packet(question).question == question
    async with await pgrag.connect_async(world.dsn("app_reader")) as other, pgrag.async_reader(other, token) as ar:
        assert (await ar.whoami()).subject == "alice" and (await ar.packet(question)).question == question


# -- What is refused before it is sent -------------------------------------------------------------------


@pytest.mark.contract("F6")
@pytest.mark.parametrize("k", [0, -1, 1.5, 2.0, True, "2", None, 101, np.float64(2)])
def test_k_is_a_whole_number(alice: pgrag.Reader, k: Any) -> None:
    for ask in (alice.search, alice.packet):
        with pytest.raises(InvalidInput) as error:
            ask(QUESTION, k=k)
        assert error.value.code == "RG302" and "k must be a whole number from 1 to 100" in str(error.value)
    # Nothing was sent: the database's own refusal would have failed the transaction.
    assert len(alice.search(QUESTION, k=1).hits) == 1
    assert len(alice.search("travel desk", k=np.int64(2)).hits) == 2


def test_control_the_database_refuses_by_itself(world: Database, connection: psycopg.Connection[Any]) -> None:
    with (
        pytest.raises(psycopg.errors.InFailedSqlTransaction),
        pgrag.reader(connection, world.token("a", "alice")) as r,
    ):
        with pytest.raises(psycopg.Error) as error:
            connection.execute(
                """select pgrag.search_json('{"question": "refund", "mode": "lexical", "k": true}')"""
            )
        assert error.value.sqlstate == "RG302"
        r.search(QUESTION)


@pytest.mark.contract("F6")
@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("RG301", {"question": ""}),
        ("RG301", {"question": " \n"}),
        ("RG301", {"question": None}),
        ("RG301", {"question": "x" * 4001}),
        ("RG301", {"question": "refund\0"}),
        ("RG301", {"question": "refund \ud800"}),
        ("RG302", {"candidates": 9}),
        ("RG302", {"candidates": 1001}),
        ("RG302", {"candidates": 100.0}),
        ("RG303", {"mode": "sparse"}),
        ("RG303", {"fusion": "sum"}),
        ("RG303", {"fusion": None}),
        ("RG303", {"threshold": 1.01}),
        ("RG303", {"threshold": True}),
        ("RG303", {"threshold": float("nan")}),
        ("RG303", {"threshold": "0.5"}),
        ("RG303", {"as_of": dt.datetime(2024, 1, 1)}),
        ("RG303", {"as_of": "yesterday"}),
        ("RG303", {"as_of": 20240101}),
        ("RG308", {"probes": "refund"}),
        ("RG308", {"probes": {"refund"}}),
        ("RG308", {"probes": ["a", "b", "c", "d", "e"]}),
        ("RG301", {"probes": ["refund", " "]}),
        ("RG301", {"probes": ["refund", None]}),
        ("RG301", {"probes": ["x" * 4001]}),
        ("RG301", {"probes": ["refund\0"]}),
        ("RG302", {"per_document": 0}),
        ("RG302", {"per_document": 101}),
        ("RG302", {"per_document": True}),
        ("RG302", {"per_source": 1.5}),
        ("RG302", {"per_source": "2"}),
        ("RG303", {"isolation": "loose"}),
        ("RG303", {"isolation": None}),
        ("RG303", {"retry": 1}),
        ("RG303", {"retry": None}),
        ("RG304", {"filter": ["handbook"]}),
        ("RG305", {"embedding": [1, float("inf"), 0], "space": "toy"}),
        ("RG305", {"embedding": ["1", "x", "0"], "space": "toy"}),
        ("RG305", {"embedding": [[1, 0, 0]], "space": "toy"}),
        ("RG307", {"filter": {"source": object()}}),
        ("RG307", {"filter": {"source": "a\0"}}),
    ],
)
def test_bounds_of_a_question(alice: pgrag.Reader, code: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(PgragError) as error:
        alice.search(**({"question": QUESTION} | arguments))
    assert error.value.code == code and error.value.hint and type(error.value) is class_of(code)
    assert alice.search(QUESTION).hits  # nothing was sent


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("RG306", {"budget": 0}),
        ("RG306", {"budget": True}),
        ("RG306", {"budget": "8000"}),
        ("RG306", {"budget_unit": "words"}),
        ("RG306", {"reserve": -1}),
        ("RG306", {"reserve": 0.5}),
        ("RG306", {"strict": 1}),
    ],
)
def test_bounds_of_a_packet(alice: pgrag.Reader, code: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as error:
        alice.packet(QUESTION, **arguments)
    assert error.value.code == code
    assert alice.packet(QUESTION, budget=1000, budget_unit="bytes", strict=True).excerpts


@pytest.mark.parametrize("backslashes", ["\\u0000", "\\\\u0000", "C:\\u0000 and so on"])
def test_a_backslash_is_not_a_nul(alice: pgrag.Reader, backslashes: str) -> None:
    assert alice.search(f"refund {backslashes}").hits
    assert alice.search("refund", filter={"product": backslashes}).reason == "nothing_visible"


def test_what_only_the_database_can_refuse(world: Database, connection: psycopg.Connection[Any]) -> None:
    for code, arguments in (("RG304", {"filter": {"tenant": "b"}}), ("RG305", {"mode": "dense"})):
        with pytest.raises(PgragError) as error, pgrag.reader(connection, world.token("a", "alice")) as r:
            r.search(QUESTION, **arguments)
        assert error.value.code == code and isinstance(error.value.__cause__, psycopg.Error)
    with (
        pytest.raises(PacketError, match="does not fit") as refused,
        pgrag.reader(connection, world.token("a", "alice")) as r,
    ):
        r.packet(QUESTION, budget=len(QUESTION) + 5, strict=True)
    assert refused.value.code == "RG502" and "are left" in refused.value.detail


def test_times_and_filters(alice: pgrag.Reader) -> None:
    tomorrow = dt.datetime.now(dt.timezone(dt.timedelta(hours=9))) + dt.timedelta(days=1)
    for as_of in (
        tomorrow,
        tomorrow.date() + dt.timedelta(days=1),
        tomorrow.isoformat(),
        tomorrow.strftime("%Y-%m-%dT%H:%M:%SZ"),
    ):
        assert alice.search(QUESTION, as_of=as_of).hits
    assert alice.search(QUESTION, filter={"source": ("handbook", "wiki")}).hits
    assert alice.search(QUESTION, filter={"source": "wiki"}).reason == "nothing_visible"
    assert alice.search(QUESTION, filter={"date_from": dt.date(2020, 1, 1)}).reason == "nothing_visible"


# -- Ranking ---------------------------------------------------------------------------------------------


@pytest.mark.contract("F4")
def test_a_hit_says_which_terms_it_has(alice: pgrag.Reader) -> None:
    hit = alice.search("refund card parking").hits[0]
    assert hit.document == "refund.md" and hit.duplicates == () and hit.probe is None
    assert {one.term: one.tf for one in hit.matched_terms} == {"refund": 3, "card": 1}  # its title counts too
    assert [one.score for one in hit.matched_terms] == sorted((one.score for one in hit.matched_terms), reverse=True)
    assert sum(one.score for one in hit.matched_terms) == pytest.approx(hit.lexical_score, abs=1e-4)


def test_near_duplicates_are_listed_under_one_hit(world: Database) -> None:
    text = "Every bicycle in the yard is checked by the warden on the first Monday of each month at noon."
    with world.writer("a", "wiki") as writer:
        world.put_document(writer, "yard.md", text)
        world.put_document(writer, "copy.md", text + " Thanks.")
    with pgrag.connect(world.dsn("app_reader")) as connection, pgrag.reader(connection, world.token("a", "bob")) as r:
        hit, *others = r.search("warden of the bicycle yard", filter={"source": "wiki"}).hits
        packet = r.packet("warden of the bicycle yard", filter={"source": "wiki"})
    assert not others and {hit.document, *(one.document for one in hit.duplicates)} == {"yard.md", "copy.md"}
    same = hit.duplicates[0]
    assert same.source == "wiki" and same.chunk_id != hit.chunk_id and 0.9 <= same.similarity <= 1
    assert packet.excerpts[0].duplicates == hit.duplicates
    with world.writer("a", "wiki") as writer:
        for page in ("yard.md", "copy.md"):
            writer.execute("select pgrag.delete_document(%s)", (page,))


def test_answers_of_the_first_release_are_read(alice: pgrag.Reader) -> None:
    found, packet = alice.search(QUESTION).raw, alice.packet(QUESTION).raw
    for hit in (*found["hits"], *packet["excerpts"]):
        for name in ("matched_terms", "duplicates", "probe"):
            hit.pop(name, None)
    found.pop("processors", None)
    old = SearchResult.from_dict(found)
    assert old.hits[0].matched_terms == old.hits[0].duplicates == () and old.processors == {} and old.rerank is None
    assert Packet.from_dict(packet).excerpts[0].matched_terms == ()


@pytest.mark.contract("F8")
def test_probes_are_further_lanes(world: Database) -> None:
    question, probes = "money back", ["refund window", "paid travel"]
    embedder = ToyEmbedder()
    with (
        pgrag.connect(world.dsn("app_reader")) as connection,
        pgrag.reader(connection, world.token("a", "alice"), embedder=embedder) as r,
    ):
        assert r.search(question, mode="lexical").reason == "nothing_matches"  # control
        found = r.search(question, probes=probes, mode="lexical", threshold=0)
        assert {hit.document: hit.probe for hit in found.hits} == {"refund.md": 1, "travel.md": 2}
        assert found.policy["probes"] == 2 and embedder.texts == []
        assert found.hits[0].matched_terms == ()  # of the question, which has none of its words
        found = r.search(question, probes=probes, threshold=0)
        assert {hit.document for hit in found.hits[:2]} == {"refund.md", "travel.md"}
        assert found.policy["mode"] == "hybrid" and embedder.texts == [question, *probes]
        # A question's vector that is given is not made; its probes' are.
        r.search(question, probes=probes[:1], embedding=[0, 0, 1], space="toy", threshold=0)
        assert embedder.texts[3:] == probes[:1]
        packet = r.packet(question, probes=probes, threshold=0)
        assert packet.question == question and packet.policy["probes"] == 2
        assert probes[1] not in json.dumps(packet.raw)  # a probe's text is no evidence


@pytest.mark.contract("C4")
def test_caps_and_isolation(alice: pgrag.Reader) -> None:
    wide = alice.search("ask the desk", k=6)
    assert len(wide.hits) == 6 and wide.complete
    capped = alice.search("ask the desk", k=6, per_source=2, isolation="strict")
    assert len(capped.hits) == 2 and (capped.complete, capped.complete_reason) == (False, "capped")
    assert (capped.policy["per_source"], capped.policy["isolation"]) == (2, "strict")
    assert len(alice.packet("ask the desk", threshold=0, per_source=1).excerpts) == 1
    assert len(alice.search("ask the desk", k=6, per_document=1).hits) == 6


def counted(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[dict[str, Any]]:
    """The requests that are sent from now on; ``changes`` are made to the first answer."""
    sent: list[dict[str, Any]] = []
    answer = pgrag.Reader._answer

    def count(self: Any, function: str, request: dict[str, Any]) -> dict[str, Any]:
        sent.append(request)
        return answer(self, function, request) | (changes if len(sent) == 1 else {})

    monkeypatch.setattr(pgrag.Reader, "_answer", count)
    return sent


@pytest.mark.contract("F10")
@pytest.mark.parametrize("ask", ["search", "packet"])
def test_a_retry_is_asked_for_and_said(alice: pgrag.Reader, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    sent = counted(monkeypatch)
    question = 'quantum teleportation of the particle "refund window"'
    narrow = {"k": 3, "filter": {"source": "handbook"}, "candidates": 5}
    for retry, profiles in ((False, [None]), (True, [None, "retry"])):
        sent.clear()
        answer = getattr(alice, ask)(question, retry=retry, **narrow)
        assert [request.get("profile") for request in sent] == profiles
        assert answer.status == "abstain" and answer.policy["profile"] == ("retry" if retry else "normal")
        # No wider than its profile: the same question, filter and k.
        assert all({**request, "profile": None} == {**sent[0], "profile": None} for request in sent)


def test_what_is_not_retried(world: Database, alice: pgrag.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = counted(monkeypatch)
    assert alice.search(QUESTION, retry=True).hits and alice.packet(QUESTION, retry=True).excerpts
    assert alice.search("the of and", retry=True).reason == "stop_words_only"
    assert alice.search(QUESTION, retry=True, filter={"source": "wiki"}).reason == "nothing_visible"
    assert alice.packet(QUESTION, retry=True, budget=len(QUESTION) + 5).reason == "over_budget"
    assert len(sent) == 5


@pytest.mark.parametrize(
    ("k", "complete", "asked"), [(10, True, 1), (10, False, 2), (1, False, 1)]
)
def test_an_incomplete_answer_that_is_short_is_retried(
    alice: pgrag.Reader, monkeypatch: pytest.MonkeyPatch, k: int, complete: bool, asked: int
) -> None:
    sent = counted(monkeypatch, complete=complete)
    assert alice.search(QUESTION, k=k, retry=True).hits and len(sent) == asked


def test_a_retry_is_reranked(alice: pgrag.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = counted(monkeypatch, status="abstain", reason="nothing_matches", hits=[])
    found = alice.search(QUESTION, k=3, retry=True, reranker=MMR())
    assert [(one["k"], one.get("profile"), "order" in one) for one in sent] == [(50, None, False), (50, "retry", False), (3, "retry", True)]
    assert found.policy["profile"] == "retry" and found.rerank is not None and found.rerank.status == "applied"


# -- Embeddings ------------------------------------------------------------------------------------------


def test_the_mode_follows_from_what_is_there(
    world: Database, connection: psycopg.Connection[Any], alice: pgrag.Reader
) -> None:
    assert alice.search(QUESTION).policy["mode"] == "lexical"
    assert alice.search(QUESTION, embedding=np.array([2, 0, 1]), space="toy").policy["mode"] == "hybrid"
    assert alice.search(QUESTION, embedding=[2, 0, 1], space="toy", mode="dense").hits[0].dense_score == 1
    assert alice.space() == TOY
    with pytest.raises(EmbeddingError, match="needs the question's embedding") as error, connection.transaction():
        alice.search(QUESTION, space="toy")  # not answered by words alone, as if nobody had named a space
    assert error.value.code == "RG305"
    assert alice.search(QUESTION, mode="lexical", space="toy").policy["mode"] == "lexical"
    embedder = ToyEmbedder()
    with (
        pgrag.connect(world.dsn("app_reader")) as other,
        pgrag.reader(other, world.token("a", "alice"), embedder=embedder) as r,
    ):
        assert r.search(QUESTION).policy["mode"] == "hybrid" and embedder.texts == [QUESTION]
        assert r.search(QUESTION, mode="lexical").policy["mode"] == "lexical" and embedder.texts == [QUESTION]
        assert r.packet(QUESTION, mode="dense", embedding=[0, 1, 1], space="toy").policy["mode"] == "dense"
        assert embedder.texts == [QUESTION]  # a vector that is given is not made


@pytest.mark.contract("E1")
@pytest.mark.parametrize(
    "other",
    [
        {"model": "toy-2"},
        {"model_revision": "2"},
        {"normalisation": "unit"},
        {"query_prefix": "query: "},
        {"document_prefix": "passage: "},
        {"preprocessing": "lower"},
        {"dimension": 4},
    ],
)
def test_an_embedder_of_another_space_is_refused_unasked(world: Database, other: dict[str, Any]) -> None:
    fields = {name: getattr(TOY, name) for name in TOY.__slots__}
    stranger = ToyEmbedder(EmbeddingSpace(**(fields | other)))
    own = ToyEmbedder(EmbeddingSpace(**(fields | {"space": "our-name-for-it"})))
    with pgrag.connect(world.dsn("app_reader")) as connection:
        with pgrag.reader(connection, world.token("a", "alice"), embedder=stranger) as r:
            with pytest.raises(EmbeddingError) as error:
                r.search(QUESTION)
            assert r.search(QUESTION, mode="lexical").hits
        assert (
            error.value.code == "RG305" and next(iter(other)) in error.value.detail and stranger.texts == []
        )
        with pgrag.reader(connection, world.token("a", "alice"), embedder=own) as r:  # control
            assert r.search(QUESTION).hits[0].dense_rank == 1 and own.texts == [QUESTION]


def test_a_tenant_without_a_space(world: Database) -> None:
    world.put_tenant("plain", space=None)
    world.put_principals("plain", users=["alice"])
    with (
        pgrag.connect(world.dsn("app_reader")) as connection,
        pgrag.reader(connection, world.token("plain", "alice"), embedder=ToyEmbedder()) as r,
    ):
        assert r.space() is None
        with pytest.raises(EmbeddingError, match="no embedding space"):
            r.search(QUESTION)
        assert r.search(QUESTION, mode="lexical").reason == "nothing_visible"


# -- Packets and replies ---------------------------------------------------------------------------------


def test_packets_survive_json(alice: pgrag.Reader) -> None:
    packet = alice.packet(QUESTION + " ß 日本 \U0001f3d5", embedding=[2.0000001, 1e-7, 1], space="toy")
    again = Packet.from_json(packet.to_json())
    assert again == packet and again.raw == packet.raw and isinstance(again.excerpts[0].relevance, float)
    reply = {"answer": "Thirty days.", "citations": [{"id": "e1"}]}
    for form in (again, packet.raw, packet.to_json(), Packet.from_dict(json.loads(json.dumps(packet.raw)))):
        assert alice.validate(form, reply).valid
    without = json.loads(packet.to_json())
    for excerpt in without["excerpts"]:
        del excerpt["text"]
    assert alice.validate(without, reply).valid and Packet.from_dict(without).excerpts[0].text == ""


@pytest.mark.parametrize(
    "nonsense", ["", "[", "[]", "{}", "null", '{"excerpts": [1]}', {"excerpts": None}, None, 5]
)
def test_what_is_no_packet(alice: pgrag.Reader, nonsense: Any) -> None:
    with pytest.raises(PacketError) as error:
        alice.validate(nonsense, {"answer": "", "citations": []})
    assert error.value.code == "RG501"
    assert alice.search(QUESTION).hits  # nothing was sent


def test_an_altered_packet_is_refused(world: Database, connection: psycopg.Connection[Any]) -> None:
    with pgrag.reader(connection, world.token("a", "alice")) as r:
        packet = r.packet(QUESTION)
        assert r.validate(packet, Reply("", ())).valid  # control
    altered = json.loads(packet.to_json()) | {"question": "How long may I wait?"}
    for subject, form in (("alice", altered), ("bob", packet)):
        with pytest.raises(PacketError) as error, pgrag.reader(connection, world.token("a", subject)) as r:
            r.validate(form, Reply("", ()))
        assert error.value.code == "RG501"


@pytest.mark.contract("H1")
@pytest.mark.parametrize(
    "reply",
    [
        "Thirty days [e1].",
        "",
        '{"answer": "Thirty days.", "citations": [{"id": "e1"}]',
        '{"answer": "Ninety days.", "answer": "Thirty days.", "citations": [{"id": "e1"}]}',
        '{"answer": "Thirty days.", "citations": [{"id": "e9", "id": "e1"}]}',
        '{"answer": "Thirty\\u0000 days.", "citations": [{"id": "e1"}]}',
        '{"answer": "Thirty \\ud800 days.", "citations": [{"id": "e1"}]}',
        '{"answer": "Thirty days.", "citations": [{"id": "e1"}], "confidence": NaN}',
        '{"answer": "Thirty days.", "citations": [{"id": "e1"}], "confidence": 1}',
        {"answer": "Thirty days.", "citations": [{"id": b"e1"}]},
        b"\xff",
        "[" * 100_000,
        ["Thirty days."],
        None,
    ],
    ids=range(14),
)
def test_a_reply_that_is_none_is_not_valid(alice: pgrag.Reader, reply: Any) -> None:
    packet = alice.packet(QUESTION)
    verdict = alice.validate(packet, reply)
    assert not verdict.valid and verdict.findings[0].check == "shape"
    good = '{"answer": "Thirty days.", "citations": [{"id": "e1"}]}'
    assert all(alice.validate(packet, form).valid for form in (good, good.encode(), json.loads(good)))


# -- Transactions ----------------------------------------------------------------------------------------


def active(world: Database, key: str, source: str = "handbook") -> str | None:
    with world.writer("a", source) as connection:
        found = connection.execute(
            "select active_revision from pgrag.list_documents() where document = %s", (key,)
        ).fetchone()
    return found and found[0]


def test_a_block_commits_or_rolls_back(world: Database, writing: psycopg.Connection[Any]) -> None:
    with pytest.raises(ZeroDivisionError), pgrag.writer(writing, writer_token(world)) as w:
        w.activate("block.md", put(w, "block.md", "One."))
        raise ZeroDivisionError
    assert active(world, "block.md") is None
    with pgrag.writer(writing, writer_token(world)) as w:  # control
        name = put(w, "block.md", "One.")
        w.activate("block.md", name)
    assert active(world, "block.md") == name
    assert writing.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_in_a_transaction_of_the_caller(world: Database, writing: psycopg.Connection[Any]) -> None:
    for keep in (False, True):
        writing.execute("select 1")  # the caller's transaction begins
        with pgrag.writer(writing, writer_token(world)) as w:
            w.activate("caller.md", put(w, "caller.md", "One."))
        with pytest.raises(NotFound), pgrag.writer(writing, writer_token(world)) as w:
            w.activate("absent.md", "1")
        assert writing.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS  # still the caller's
        writing.commit() if keep else writing.rollback()
        assert bool(active(world, "caller.md")) == keep


def test_an_error_that_was_caught_is_not_forgotten(world: Database, writing: psycopg.Connection[Any]) -> None:
    with (
        pytest.raises(psycopg.errors.InFailedSqlTransaction, match="nothing of the session is kept"),
        pgrag.writer(writing, writer_token(world)) as w,
    ):
        w.activate("caught.md", put(w, "caught.md", "One."))
        with pytest.raises(NotFound):
            w.activate("caught.md", "other")
    assert active(world, "caught.md") is None
    # A reader has nothing to lose, and the caller's transaction goes on.
    with pgrag.connect(world.dsn("app_reader")) as connection:
        connection.execute("set local application_name = 'kept'")
        with pgrag.reader(connection, world.token("a", "alice")) as r, pytest.raises(NotFound):
            r.excerpt("0" * 64)
        assert connection.execute("show application_name").fetchone() == ("kept",)


@pytest.mark.contract("A2")
def test_sessions_in_one_another(world: Database, connection: psycopg.Connection[Any]) -> None:
    with pgrag.reader(connection, world.token("a", "bob")) as bob:
        with pgrag.reader(connection, world.token("a", "alice")) as alice:
            assert [alice.whoami().subject, alice.search("travel").scope["documents"]] == ["alice", 8]
            # The database sees alice; asking as bob now would be answered as alice.
            assert connection.execute("select subject from pgrag.whoami()").fetchone() == ("alice",)
            with pytest.raises(IdentityError) as error:
                bob.search("travel")
            assert error.value.code == "RG208"
        assert [bob.whoami().subject, bob.search("travel refund").scope["documents"]] == ["bob", 7]
        with pytest.raises(IdentityError):
            alice.search("travel")
        with pytest.raises(ZeroDivisionError), pgrag.reader(connection, world.token("a", "alice")):
            raise ZeroDivisionError
        assert bob.whoami().subject == "bob"
    with pytest.raises(IdentityError):
        bob.search("travel")


@pytest.mark.contract("A2")
def test_nobody_is_left_authenticated(world: Database, connection: psycopg.Connection[Any]) -> None:
    for begin in (False, True):
        if begin:
            connection.execute("select 1")
        with pgrag.reader(connection, world.token("a", "alice")):
            assert connection.execute("select subject from pgrag.whoami()").fetchone() == (
                "alice",
            )  # control
        with pytest.raises(psycopg.Error) as error:
            connection.execute("select * from pgrag.whoami()")
        assert error.value.sqlstate == "RG201"
        connection.rollback()


def test_tokens_that_are_not_accepted(world: Database, connection: psycopg.Connection[Any]) -> None:
    for code, token in (
        ("RG204", world.token("a", "alice", exp=1)),
        ("RG202", "nonsense"),
        ("RG209", writer_token(world)),
    ):
        with pytest.raises(IdentityError) as error, pgrag.reader(connection, token) as r:
            r.search(QUESTION)
        assert error.value.code == code and token not in str(error.value) + error.value.detail
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.contract("A2")
def test_no_statement_is_left_prepared(world: Database) -> None:
    count = "select count(*) from pg_prepared_statements"
    with psycopg.connect(world.dsn("app_reader"), prepare_threshold=0) as connection:
        with pgrag.reader(connection, world.token("a", "alice"), embedder=ToyEmbedder()) as r:
            for _ in range(3):
                r.search(QUESTION)
                r.packet(QUESTION)
        assert connection.execute(count, prepare=False).fetchone() == (0,)
        connection.execute("select pgrag.version()")
        assert connection.execute(count, prepare=False).fetchone() == (1,)  # control
    with pgrag.connect(world.dsn("app_reader")) as connection:
        assert connection.prepare_threshold is None and not connection.autocommit


def test_only_a_psycopg_connection_will_do(world: Database) -> None:
    with pytest.raises(InvalidInput, match="psycopg 3, not str"), pgrag.reader("postgresql://", "token"):  # type: ignore[arg-type]
        pass


# -- Cancellation ----------------------------------------------------------------------------------------


def test_a_timeout_stays_psycopgs(world: Database, writing: psycopg.Connection[Any]) -> None:
    with pgrag.writer(writing, writer_token(world)) as w:
        name = put(w, "timeout.md", "One.")
    with world.superuser() as superuser, superuser.transaction():
        superuser.execute("select from pgrag_data.document where document = 'timeout.md' for update")
        with (
            pytest.raises(psycopg.errors.QueryCanceled) as error,
            pgrag.writer(writing, writer_token(world)) as w,
        ):
            writing.execute("set local statement_timeout = '50ms'")
            w.activate("timeout.md", name)
        assert error.value.sqlstate == "57014"
    with pgrag.writer(writing, writer_token(world)) as w:  # the connection goes on, and nothing is half done
        assert [one.state for one in w.revisions("timeout.md")] == ["verified"]
        assert w.activate("timeout.md", name)


async def test_a_cancelled_task_leaves_nothing_half_done(world: Database) -> None:
    async with await pgrag.connect_async(world.dsn("app_writer")) as connection:
        async with pgrag.async_writer(connection, writer_token(world)) as w:
            name = (await w.stage("cancel.md", "One.")).revision
            await w.add_chunks("cancel.md", name, [Chunk("One.", 0, 4)], None, [1])
            await w.verify("cancel.md", name, 1)

        async def change() -> None:
            async with pgrag.async_writer(connection, writer_token(world)) as w:
                await w.stage("cancel-2.md", "Two.")
                await w.activate("cancel.md", name)

        waiting = (
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        with world.superuser() as superuser, world.superuser() as observer, superuser.transaction():
            superuser.execute("select from pgrag_data.document where document = 'cancel.md' for update")
            task = asyncio.create_task(change())
            while not task.done() and not observer.execute(waiting).fetchone():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with pgrag.async_writer(connection, writer_token(world)) as w:
            there = {one.document: one.active_revision for one in await w.documents()}
            assert there["cancel.md"] is None and "cancel-2.md" not in there
            assert await w.activate("cancel.md", name)  # control: without the lock it is done


# -- Writing ---------------------------------------------------------------------------------------------


def test_a_writers_life_cycle(world: Database, writing: psycopg.Connection[Any]) -> None:
    with pgrag.writer(writing, writer_token(world, "wiki")) as w:
        assert (w.whoami().kind, w.whoami().source) == ("writer", "wiki")
        assert (w.source().source, w.source().trust, w.source().processors) == ("wiki", "internal", [])
        assert w.space() == TOY
        first, second = put(w, "cycle.md", "First text."), put(w, "cycle.md", "Second text.", "two")
        assert w.stage("cycle.md", "First text.").created is False
        assert w.activate("cycle.md", first, expected_active="") and w.activate("cycle.md", second, first)
        assert w.set_access("cycle.md", ["staff"]) and not w.set_access("cycle.md", ["staff"])
        assert [(one.revision, one.state) for one in w.revisions("cycle.md")] == [
            (first, "retired"),
            ("two", "active"),
        ]
        assert w.rollback("cycle.md") == first and w.rollback("cycle.md", "two", first) == "two"
        document = next(one for one in w.documents() if one.document == "cycle.md")
        assert (document.active_revision, document.readers, document.deleted_at) == ("two", ["staff"], None)
        assert w.delete("cycle.md") and not w.delete("cycle.md")
        staged = w.stage(
            "fields.md",
            "Ünïcode text, all of it.",
            title="T",
            language="de",
            product="P",
            version="1",
            tags=["x", "y"],
            dated=dt.date(2024, 5, 1),
            effective_from=dt.date(2024, 6, 1),
            effective_to="2025-06-01T00:00:00+02:00",
            parser="p",
            chunker="c",
            tokenizer="t",
            skips=[(15, 24)],
            revision="r",
        )
        assert (staged.revision, staged.state, staged.created) == ("r", "staged", True)
        w.add_chunks("fields.md", "r", [Chunk("Ünïcode text,", 0, 13)], None, [2])
        faulty = w.verify("fields.md", "r", 1)
        assert (faulty.state, faulty.chunks) == ("staged", 1) and "span coverage: 1 gaps" in faulty.faults[0]
        w.add_chunks(
            "fields.md", "r", [Chunk(" a", 13, 15, section="S", page=2, language="en")], None, [1], first=2
        )
        assert w.verify("fields.md", "r", 2).faults == []
        kept = w.revisions("fields.md")[0]
        assert kept.effective_to == dt.datetime(2025, 5, 31, 22, tzinfo=dt.UTC) and kept.chunks == 2
    cases: list[tuple[type[PgragError], str, str, dict[str, Any]]] = [
        (Conflict, "RG402", "activate", {"document": "fields.md", "revision": "r", "expected_active": "other"}),
        (Conflict, "RG403", "stage", {"document": "fields.md", "body": "Else.", "revision": "r"}),
        (Conflict, "RG409", "activate", {"document": "cycle.md", "revision": first}),
        (WriteError, "RG405", "rollback", {"document": "fields.md"}),
        (InvalidInput, "RG406", "stage", {"document": "/etc/passwd", "body": "x"}),
        (InvalidInput, "RG408", "stage", {"document": "x.md", "body": None}),
        (InvalidInput, "RG408", "stage", {"document": "x.md", "body": "x", "effective_from": dt.datetime(2024, 1, 1)}),
        (InvalidInput, "RG408", "stage", {"document": "x.md", "body": "x", "tags": "refund"}),
        (InvalidInput, "RG408", "set_access", {"document": "fields.md", "readers": "staff"}),
        (InvalidInput, "RG408", "add_chunks", {"document": "fields.md", "revision": "r", "chunks": [Chunk("x", 0, 1)], "embeddings": None, "tokens": []}),
        (EmbeddingError, "RG305", "add_chunks", {"document": "fields.md", "revision": "r", "chunks": [Chunk("x", 0, 1)], "embeddings": [[1, 2], [3, 4]], "tokens": [1]}),
        (EmbeddingError, "RG305", "add_chunks", {"document": "fields.md", "revision": "r", "chunks": [Chunk("x", 0, 1)], "embeddings": [[float("nan")]], "tokens": [1]}),
    ]  # fmt: skip
    for kind, code, method, arguments in cases:
        with pytest.raises(kind) as error, pgrag.writer(writing, writer_token(world, "wiki")) as w:
            getattr(w, method)(**arguments)
        assert error.value.code == code and type(error.value) is class_of(code)


@pytest.mark.contract("A6")
def test_an_administrator(world: Database, writing: psycopg.Connection[Any], alice: pgrag.Reader) -> None:
    with pgrag.writer(writing, writer_token(world)) as w:
        for name in ("1", "2"):
            w.activate("admin.md", put(w, "admin.md", f"Administered text {name}.", name))
    assert not alice.can_read("handbook", "admin.md")
    with (
        pgrag.connect(world.dsn("app_admin")) as connection,
        pgrag.admin(connection, world.token("a", "root", "admin")) as a,
    ):
        a.put_principal("carol", "user")
        a.put_principal("editors", "group")
        a.put_membership("editors", "alice")
        assert {("carol", "user"), ("editors", "group")} <= {(one.name, one.kind) for one in a.principals()}
        assert ("editors", "alice", "user") in {(one.group, one.member, one.kind) for one in a.memberships()}
        assert a.set_access("handbook", "admin.md", ["editors"])
        assert a.rollback("admin.md", source="handbook") == "1"
        assert a.activate("admin.md", "2", "1", source="handbook")
        assert [one.state for one in a.revisions("admin.md", source="handbook")] == ["retired", "active"]
        assert (
            "admin.md"
            in {one.document for one in a.documents("handbook")}
            <= {one.document for one in a.documents()}
        )
        assert a.whoami().kind == "admin"
    assert alice.can_read("handbook", "admin.md")
    with (
        pgrag.connect(world.dsn("app_admin")) as connection,
        pgrag.admin(connection, world.token("a", "root", "admin")) as a,
    ):
        a.drop_membership("editors", "alice")
        a.drop_principal("carol")
        assert a.delete("admin.md", source="handbook")
    assert not alice.can_read("handbook", "admin.md")
    with (
        pytest.raises(NotFound),
        pgrag.connect(world.dsn("app_admin")) as connection,
        pgrag.admin(connection, world.token("a", "root", "admin")) as a,
    ):
        a.drop_membership("editors", "alice")


def test_an_operator(world: Database) -> None:
    other = EmbeddingSpace("other", "m", "2", 5, query_prefix="q: ", zero_vectors="skip")
    with pgrag.connect(world.dsn("app_operator")) as connection, pgrag.operator(connection) as o:
        o.put_tenant("c", "Company")
        o.put_source("c", "mail", processors=["encoder.example"], trust="external")
        o.put_source("c", "mail", trust="untrusted")
        o.put_space("c", other)
        o.put_space("c", TOY)
        assert next((one.name, one.active_space) for one in o.tenants() if one.tenant == "c") == (
            "Company",
            "other",
        )
        assert [(one.source, one.trust, one.processors) for one in o.sources("c")] == [
            ("mail", "untrusted", ["encoder.example"])
        ]
        spaces = {one.space: one for one in o.spaces("c")}
        assert spaces["other"].active and not spaces["toy"].active
        assert all(
            getattr(spaces["other"], name) == getattr(other, name) for name in EmbeddingSpace.__slots__
        )
    for code, call in (
        ("RG401", lambda o: o.sources("nobody")),
        ("RG407", lambda o: o.put_space("c", EmbeddingSpace("toy", "m", "1", 3))),
    ):
        with (
            pytest.raises(PgragError) as error,
            pgrag.connect(world.dsn("app_operator")) as connection,
            pgrag.operator(connection) as o,
        ):
            call(o)
        assert error.value.code == code


async def test_an_operator_keeps_searches_fast(database: Database) -> None:
    database.put_tenant("a")
    database.put_many("a", "large.md")

    def step(connection: psycopg.Connection[Any], keep: dt.timedelta | None = None) -> MaintenanceStep:
        with pgrag.operator(connection) as o:
            return o.maintain(keep)

    with pgrag.connect(database.dsn("app_operator")) as connection:
        with pgrag.operator(connection) as o:
            costs = {one.part: one for one in o.calibrate()}
            assert costs.keys() == {"block", "document", "vector"}
            assert costs["vector"].measured_at is not None and costs["block"].measured_at is None
            assert [(one.tenant, one.space, one.state, one.loose) for one in o.index_status()] == []
        with database.superuser() as superuser:
            superuser.execute("update pgrag_data.search_cost set microseconds = 1000 where part = 'vector'")
        steps = [step(connection)]
        while steps[-1].remaining:
            steps.append(step(connection))
        actions = [one.action for one in steps]
        assert actions == ["create", "copy", "copy", "index", "idle"]
        assert {one.block_id for one in steps[:-1]} == {steps[0].block_id} and steps[-1].block_id is None
        assert (steps[1].rows, steps[3].rows, steps[3].note) == (1600, 1600, None)
        with pgrag.operator(connection) as o:
            (block,) = o.index_status()
        assert (block.tenant, block.space, block.state) == ("a", "toy", "live") and block.class_.startswith("list ")
        assert (block.chunks, block.vectors, block.loose, block.retired) == (1600, 1600, 0, 0) and block.bytes > 0
        # A session that rolls back has done nothing, and the next one does it.
        with database.writer("a", "handbook") as writer:
            writer.execute("select pgrag.delete_document('large.md')")
        with pytest.raises(ZeroDivisionError), pgrag.operator(connection) as o:
            assert o.maintain().action == "retire"
            raise ZeroDivisionError
        assert step(connection).action == "retire"
        assert step(connection).action == "idle"  # kept for five minutes
        assert step(connection, dt.timedelta()).action == "drop"
        for wrong in (dt.timedelta(seconds=-1), 5):
            with pytest.raises(InvalidInput) as error:
                step(connection, wrong)  # type: ignore[arg-type]
            assert error.value.code == "RG408"
    async with await pgrag.connect_async(database.dsn("app_operator")) as connection, pgrag.async_operator(connection) as o:
        assert (await o.maintain(dt.timedelta(hours=1))).action == "idle"
        assert await o.index_status() == [] and len(await o.calibrate()) == 3
    with (
        pgrag.connect(database.dsn("app_admin")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        step(connection)


@pytest.mark.contract("L3")
async def test_an_operator_asks_the_doctor(database: Database) -> None:
    with pgrag.connect(database.dsn("app_operator")) as connection, pgrag.operator(connection) as o:
        said = o.doctor()
    (well,) = [one for one in said if one.check == "row_security"]
    assert (well.severity, well.object, well.remedy) == ("ok", None, None) and well.finding
    async with await pgrag.connect_async(database.dsn("app_operator")) as connection, pgrag.async_operator(connection) as o:
        assert await o.doctor() == said
    with (
        pgrag.connect(database.dsn("app_admin")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        pgrag.operator(connection) as o,
    ):
        o.doctor()


@pytest.mark.contract("A2")
def test_keys_rotate(world: Database, connection: psycopg.Connection[Any]) -> None:
    secret = "a text of at least thirty-two bytes"

    def sees(kid: str) -> bool:
        token = pgrag.tokens.mint(
            secret, kid=kid, issuer=ISSUER, audience=AUDIENCE, tenant="a", subject="alice"
        )
        with pgrag.reader(connection, token) as r:
            return r.can_read("handbook", "refund.md")

    with pgrag.connect(world.dsn("app_keys")) as keeper:
        with pgrag.keys(keeper) as k:
            k.add("old", secret, ISSUER, AUDIENCE)
            k.add("new", secret.encode(), ISSUER, AUDIENCE)
        assert sees("old") and sees("new")
        with pgrag.keys(keeper) as k:
            k.retire("old")
            assert {one.kid: one.retired_at is not None for one in k.list()} == {
                "old": True,
                "new": False,
                "test-key": False,
            }
        assert sees("new")
        with pytest.raises(IdentityError) as error:
            sees("old")
        assert error.value.code == "RG203"
        for wrong in ("short", b"short", None):
            with pytest.raises(IdentityError) as error, pgrag.keys(keeper) as k:
                k.add("third", wrong, ISSUER, AUDIENCE)  # type: ignore[arg-type]
            assert error.value.code == "RG211"


# -- Errors ----------------------------------------------------------------------------------------------


def test_every_code_has_its_class() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("sql", "pgrag")
        for path in (root / folder).rglob("*.*")
        if path.suffix in (".sql", ".py")
    ]
    codes = {code for text in sources for code in re.findall(r"\bRG[1-9]\d\d\b", text)}
    assert {"RG101", "RG302", "RG410", "RG502"} <= codes
    assert [code for code in sorted(codes) if class_of(code) is PgragError] == []


def test_an_error_says_what_to_do() -> None:
    error = InvalidInput("k is odd", code="RG302", hint="Take another.", detail="k: 3")
    assert str(error) == "k is odd\nHint: Take another." and str(PgragError("no")) == "no"
    assert (error.message, error.code, error.detail, error.hint) == (
        "k is odd",
        "RG302",
        "k: 3",
        "Take another.",
    )
