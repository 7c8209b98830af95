"""Rerankers by themselves, an endpoint that misbehaves in many ways, and the stage of a session that uses them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgrag
from pgrag import _threads
from pgrag.errors import InvalidInput, RerankError
from pgrag.models import SearchResult
from pgrag.protocols import Passage, Scores
from pgrag.rerankers import load_reranker
from pgrag.rerankers.mmr import similarity
from tests.endpoint import KEY, Answer, Endpoint, status
from tests.support import Database

QUESTION = "How long is the refund window?"


def passages(*texts: str) -> list[Passage]:
    """In fused order, with scores that fall from 1."""
    return [Passage(text, 1 - place / 10) for place, text in enumerate(texts)]


def order(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("bm25", "", "http", "cross-encoder:", "MMR", "/models/reranker"):
        with pytest.raises(RerankError, match="unknown reranker") as caught:
            load_reranker(name)
        assert caught.value.code == "RG415"
        assert "mmr, cross-encoder:<folder>, http:<base URL>" in caught.value.hint


# -- MMR -----------------------------------------------------------------------------------------------

REFUNDS = passages(
    "The refund window is thirty days after the purchase.",
    "The refund window is thirty days after purchase.",
    "Whoever returns a bicycle pays for its transport.",
)


def test_mmr_puts_the_same_again_behind_something_new() -> None:
    assert order(load_reranker("mmr").rerank(QUESTION, REFUNDS)) == [0, 2, 1]
    # Control: by relevance alone, and by a diversity that has nothing to be diverse about.
    assert order(load_reranker("mmr", lambda_=1).rerank(QUESTION, REFUNDS)) == [0, 1, 2]
    unlike = passages("refund window", "bicycle", "hotel")
    assert order(load_reranker("mmr").rerank(QUESTION, unlike)) == [0, 1, 2]


def test_mmr_knows_no_language() -> None:
    chinese = passages("退款期限為購買後三十天內", "退款期限為購買後三十天", "自行車的運費由退貨人支付")
    assert order(load_reranker("mmr").rerank("退款", chinese)) == [0, 2, 1]


def test_mmr_on_edges() -> None:
    mmr = load_reranker("mmr")
    assert mmr.rerank(QUESTION, []) == []
    assert mmr.rerank(QUESTION, [Passage("", 0.0)]) == [0.0]
    assert order(mmr.rerank(QUESTION, [Passage("x", -0.5), Passage("x", -0.9), Passage("", -1.0)])) == [0, 2, 1]
    assert (mmr.name, load_reranker("mmr", lambda_=0.25).name, mmr.processor) == ("mmr-0.7", "mmr-0.25", None)
    for wrong in (-0.1, 1.1, float("nan"), True, "0.5", None):
        with pytest.raises(RerankError, match="lambda_ must be a number from 0 to 1"):
            load_reranker("mmr", lambda_=wrong)


def test_similarity_is_that_of_the_texts() -> None:
    alike = similarity(["Refund: thirty days!", "refund thirty   DAYS", "bicycle", "", "refunds in thirty days"])
    assert np.allclose(alike, alike.T) and np.allclose(np.diag(alike), 1)
    assert alike[0, 1] == pytest.approx(1) and alike[0, 2] == 0 and not alike[3, :3].any()
    assert 0.2 < alike[0, 4] < 0.9


TEXTS = st.lists(
    st.tuples(st.text("ab c", max_size=12), st.floats(-1, 1).map(lambda value: round(value, 2))),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=150)
@given(TEXTS, st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_mmr_is_its_definition(given: list[tuple[str, float]], weight: float) -> None:
    """Against the formula, step by step; and its scores, sorted, are its order."""
    some = [Passage(text, score) for text, score in given]
    scores = load_reranker("mmr", lambda_=weight).rerank(QUESTION, some)
    alike = similarity([one.text for one in some])
    best = max(max(one.score for one in some), 0) or 1
    taken: list[int] = []
    for _ in some:
        worth = {
            place: round(
                weight * max(some[place].score, 0) / best
                - (1 - weight) * max((alike[place, other] for other in taken), default=0),
                9,
            )
            for place in range(len(some))
            if place not in taken
        }
        taken.append(max(worth, key=lambda place: (worth[place], -place)))
        assert scores[taken[-1]] == pytest.approx(worth[taken[-1]], abs=2e-9)
    assert order(scores) == taken or len({round(score, 8) for score in scores}) < len(scores)
    assert scores == load_reranker("mmr", lambda_=weight).rerank("another question", some)


# -- A cross-encoder from a folder ----------------------------------------------------------------------


@pytest.mark.contract("C6")
def test_a_cross_encoder_is_a_folder_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("sentence_transformers")
    library.CrossEncoder = lambda *a, **k: pytest.fail("loaded")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    (tmp_path / "file").touch()
    for name in ("cross-encoder/ms-marco-MiniLM-L6-v2", "https://example.org/model", tmp_path / "file", tmp_path / "no"):
        with pytest.raises(RerankError, match="is no folder on this machine") as caught:
            load_reranker(f"cross-encoder:{name}")
        assert "nothing is fetched" in caught.value.hint and caught.value.code == "RG415"
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(RerankError, match="sentence-transformers is not installed") as caught:
        load_reranker(f"cross-encoder:{tmp_path}")
    assert "pip install" in caught.value.hint


class Library:
    """As the library's CrossEncoder: scores by length, reads six tokens, a token a word."""

    max_seq_length = 6
    labels = 1

    def __init__(self, folder: str, **options: Any) -> None:
        assert options["local_files_only"] is True and not options.get("trust_remote_code")
        self.running = 0

    def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
        assert options["show_progress_bar"] is False
        self.running += 1
        assert self.running == 1, "one at a time"
        time.sleep(0.01)
        self.running -= 1
        scores = np.array([len(text) for _, text in pairs], dtype=np.float32)
        return scores if self.labels == 1 else np.stack([scores] * self.labels, axis=1)

    def tokenizer(self, questions: list[str], texts: list[str], **options: Any) -> dict[str, list[list[int]]]:
        assert options["truncation"] is False
        pairs = zip(questions, texts, strict=True)
        return {"input_ids": [[0] * len(f"{one} {other}".split()) for one, other in pairs]}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> type[Library]:
    module = types.ModuleType("sentence_transformers")
    module.CrossEncoder = Library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return Library


def test_a_cross_encoder_scores_and_counts_what_it_cuts(library: type[Library], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    reranker = load_reranker(f"cross-encoder:{tmp_path}", device="cpu")
    scores = reranker.rerank("a b", passages("1 2 3 4", "1 2 3 4 5", "1"))
    assert (scores, scores.truncated) == ([7.0, 9.0, 1.0], 1)  # type: ignore[attr-defined]
    assert reranker.rerank("a b", []) == []
    assert reranker.processor is None and reranker.name.startswith(f"{tmp_path.name}@")
    (tmp_path / "config.json").write_text("{ }")
    assert load_reranker(f"cross-encoder:{tmp_path}").name != reranker.name
    several = [threading.Thread(target=reranker.rerank, args=("a", passages("b"))) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()


def test_a_classifier_is_no_cross_encoder(
    library: type[Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "labels", 3)
    with pytest.raises(RerankError, match="gives 3 numbers for a passage, not one"):
        load_reranker(f"cross-encoder:{tmp_path}")
    monkeypatch.setattr(library, "predict", lambda *a, **k: 1 / 0)
    with pytest.raises(RerankError, match="cannot be loaded: ZeroDivisionError"):
        load_reranker(f"cross-encoder:{tmp_path}")


def random_model(folder: Path, labels: int = 1) -> None:
    """A cross-encoder that knows ten words, with random weights: for its mechanics, never for its judgement."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "refund", "window", "thirty", "days", "bicycle"]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(
        vocab_size=len(words), max_position_embeddings=32, num_labels=labels, initializer_range=1.0, **shape
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


@pytest.mark.filterwarnings("ignore")
def test_the_library_itself(tmp_path: Path) -> None:
    random_model(tmp_path)
    reranker: Any = load_reranker(f"cross-encoder:{tmp_path}", device="cpu", batch_size=2)
    texts = ["thirty days", "bicycle", "refund window", "days " * 40]
    scores = reranker.rerank("refund window", passages(*texts))
    assert scores.truncated == 1 and len(set(scores)) == 4
    alone = [reranker.rerank("refund window", passages(text))[0] for text in texts]
    assert np.allclose(scores, alone, atol=1e-5)
    short = load_reranker(f"cross-encoder:{tmp_path}", device="cpu", max_length=5)
    assert short.rerank("refund", passages(*texts)).truncated == 3  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_the_library_with_a_classifier(tmp_path: Path) -> None:
    random_model(tmp_path, labels=3)
    with pytest.raises(RerankError, match="gives 3 numbers"):
        load_reranker(f"cross-encoder:{tmp_path}", device="cpu")


# -- An endpoint, and one that misbehaves ----------------------------------------------------------------


def scored(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The longer the better, best first, as endpoints answer."""
    texts = request.get("texts", request.get("documents"))
    name = "score" if "texts" in request else "relevance_score"
    scores = [{"index": index, name: len(text) / 100} for index, text in enumerate(texts)]
    return sorted(scores, key=lambda item: -item[name])


def good(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    items = scored(request)
    answer = items if "texts" in request else {"id": "1", "model": request["model"], "results": items}
    return 200, {}, json.dumps(answer).encode()


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Answer:
    return lambda request: (200, {}, json.dumps(change(scored(request))).encode())


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    pytest.importorskip("httpx")
    server = Endpoint(good)
    yield server
    server.close()


@pytest.fixture
def connect(endpoint: Endpoint) -> Iterator[Callable[..., Any]]:
    """Builds rerankers for the endpoint and closes them before it goes away."""
    opened: list[Any] = []

    def build(*script: Answer | str, **options: Any) -> Any:
        endpoint.script = script or [good]
        opened.append(load_reranker(f"http:{endpoint.url}", **{"api_key": KEY, **options}))
        return opened[-1]

    yield build
    for reranker in opened:
        reranker.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each retry would have waited."""
    from pgrag import _http

    slept: list[float] = []
    monkeypatch.setattr(_http.time, "sleep", slept.append)
    return slept


THREE = passages("a", "bbb", "cc")


def test_http_without_a_model_asks_in_one_form(endpoint: Endpoint, connect: Callable[..., Any]) -> None:
    reranker = connect(batch_size=2)
    assert reranker.rerank("why?", THREE) == [0.01, 0.03, 0.02]
    assert endpoint.requests == [
        {"path": "/v1/rerank", "query": "why?", "texts": texts, "truncate": True} for texts in (["a", "bbb"], ["cc"])
    ]
    assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    assert (reranker.name, reranker.processor) == ("127.0.0.1", "127.0.0.1")
    assert reranker.rerank("why?", []) == [] and len(endpoint.requests) == 2


def test_http_with_a_model_asks_in_the_other(endpoint: Endpoint, connect: Callable[..., Any]) -> None:
    reranker = connect(model="tiny", processor="our-gpu")
    assert reranker.rerank("why?", THREE) == [0.01, 0.03, 0.02]
    asked = {"model": "tiny", "query": "why?", "documents": ["a", "bbb", "cc"], "top_n": 3}
    assert endpoint.requests == [{"path": "/v1/rerank", **asked}]
    assert (reranker.name, reranker.processor) == ("tiny", "our-gpu")
    assert connect(model="tiny", name="tiny@2024-02").name == "tiny@2024-02"


def test_http_counts_what_it_cuts(endpoint: Endpoint, connect: Callable[..., Any]) -> None:
    scores = connect(max_characters=2).rerank("why?", THREE)
    assert endpoint.requests[0]["texts"] == ["a", "bb", "cc"] and scores.truncated == 1
    assert connect().rerank("why?", THREE).truncated == 0  # control


def first(**changes: Any) -> Answer:
    return changed(lambda items: [{**items[0], **changes}, *items[1:]])


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        (changed(lambda items: items[:-1]), "2 scores for 3 texts"),
        (changed(lambda items: []), "0 scores for 3 texts"),
        (changed(lambda items: [*items, {"index": 3, "score": 1}]), "4 scores for 3 texts"),
        (first(index=0), "numbering is broken"),
        (first(index=7), "numbering is broken"),
        (first(index=-1), "numbering is broken"),
        (first(index=True), "numbering is broken"),
        (first(index="1"), "numbering is broken"),
        (first(index=None), "numbering is broken"),
        (first(score=float("nan")), "no finite number"),
        (first(score=float("inf")), "no finite number"),
        (first(score=10**400), "no finite number"),
        (first(score="0.9"), "no finite number"),
        (first(score=True), "no finite number"),
        (first(score=None), "no finite number"),
        (first(index=[1]), "not of a rerank endpoint's format"),
        (changed(lambda items: [{"index": item["index"]} for item in items]), "not of a rerank endpoint's format"),
        (changed(lambda items: [0.1, 0.2, 0.3]), "not of a rerank endpoint's format"),
        (changed(lambda items: {"data": items}), "not of a rerank endpoint's format"),
        (changed(lambda items: {"results": None}), "not of a rerank endpoint's format"),
        (changed(lambda items: None), "not of a rerank endpoint's format"),
        (changed(lambda items: 3), "not of a rerank endpoint's format"),
        (lambda request: (200, {}, b"<html>"), "not of a rerank endpoint's format"),
        (lambda request: (200, {}, b""), "not of a rerank endpoint's format"),
        (lambda request: (200, {}, b"\xff\xfe\x00"), "not of a rerank endpoint's format"),
        (lambda request: (200, {}, b"[" * 100_000), "not of a rerank endpoint's format"),
        (status(302, Location="http://example.org/v1/rerank"), "redirect (status 302)"),
        (status(307, Location="/v1/rerank"), "redirect (status 307)"),
        (status(400), "status 400"),
        (status(401), "status 401"),
        (status(413), "status 413"),
    ],
)
def test_http_refuses_an_answer_at_once(
    endpoint: Endpoint, connect: Callable[..., Any], answer: Answer, fact: str
) -> None:
    with pytest.raises(RerankError) as caught:
        connect(answer).rerank("why?", THREE)
    assert fact in str(caught.value) and caught.value.code == "RG415" and caught.value.hint
    assert KEY not in f"{caught.value!r}{caught.value}{caught.value.hint}{caught.value.__cause__!r}"
    assert len(endpoint.requests) == 1


def test_http_bounds_the_size_of_an_answer(connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from pgrag.rerankers.http import HttpReranker

    def padded(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, good(request)[2] + b" " * 5000

    assert connect(padded).rerank("why?", THREE) == [0.01, 0.03, 0.02]  # control
    monkeypatch.setattr(HttpReranker, "_most", 4000)
    with pytest.raises(RerankError, match="unreasonably large"):
        connect(padded).rerank("why?", THREE)


@pytest.mark.parametrize("trouble", [status(429), status(500), status(503), "hang up", "silence"])
def test_http_tries_again_and_gives_up(
    endpoint: Endpoint, connect: Callable[..., Any], pauses: list[float], trouble: Answer | str
) -> None:
    seconds = 0.2 if trouble == "silence" else 5
    assert connect(trouble, trouble, good, timeout=seconds).rerank("why?", THREE) == [0.01, 0.03, 0.02]
    assert (len(endpoint.requests), len(pauses)) == (3, 2)
    with pytest.raises(RerankError, match=r"gave up \(attempts: 2\)"):
        connect(trouble, timeout=seconds, retries=1).rerank("why?", THREE)


@pytest.mark.parametrize("trouble", ["silence", "trickle"])
def test_http_keeps_its_deadline_over_all_batches(connect: Callable[..., Any], trouble: str) -> None:
    start = time.monotonic()
    with pytest.raises(RerankError, match="gave up"):
        connect(good, trouble, deadline=0.5, batch_size=1).rerank("why?", THREE)
    assert time.monotonic() - start < 3


def unused_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_http_reports_a_port_where_nobody_listens(pauses: list[float]) -> None:
    pytest.importorskip("httpx")
    reranker: Any = load_reranker(f"http:{unused_url()}", retries=1)
    with reranker, pytest.raises(RerankError, match=r"connection failed \(ConnectError\)"):
        reranker.rerank("why?", THREE)


@pytest.mark.contract("C6")
def test_http_checks_where_texts_would_go_and_keeps_the_key_to_itself(
    connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for url, fact in (
        ("http://example.org", "unprotected"),
        ("ftp://example.org", "must be http or https"),
        (f"https://user:{KEY}@example.org", "must not carry a password"),
    ):
        with pytest.raises(RerankError, match=fact) as caught:
            load_reranker(f"http:{url}", api_key=KEY)
        assert KEY not in f"{caught.value!r}{caught.value.hint}" and caught.value.code == "RG415"
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RERANK_KEY", KEY)
    reranker = connect(status(401), api_key=None, api_key_env="RERANK_KEY")
    with pytest.raises(RerankError) as caught:
        reranker.rerank("why?", THREE)
    assert KEY not in repr(reranker) + repr(caught.value) + repr(vars(caught.value)) + caplog.text
    assert repr(reranker).startswith("HttpReranker('http://127.0.0.1") and caplog.text
    for options in ({"batch_size": 0}, {"max_characters": 0}, {"retries": -1}, {"api_key": "a b"}, {"batch_size": True}):
        with pytest.raises(RerankError):
            load_reranker("http:https://example.org", **options)


# -- The stage in a session -------------------------------------------------------------------------------

JUDGE = "judge.example"
PAGES = {
    # source, page: text, readers
    ("handbook", "window.md"): ("The refund window is thirty days. A refund goes to the card.", "everyone"),
    ("handbook", "cards.md"): ("A refund goes to the card that paid, within a window of ten days.", "everyone"),
    ("handbook", "finance.md"): ("The refund window of the finance team has no end.", "staff"),
    ("wiki", "notes.md"): ("Notes on the refund window.", "everyone"),
    ("wiki", "shop.md"): ("In the shop, ask for the refund desk.", "everyone"),
}


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    """Alice is staff and bob is not; the judge may receive the handbook's text and not the wiki's."""
    database = module_database
    database.put_tenant("a", sources=["handbook", "wiki"], space=None)
    with database.role("operator") as operator:
        operator.execute("select pgrag.put_source('a', 'handbook', %s)", ([JUDGE],))
    database.put_principals("a", users=["alice", "bob"], groups={"staff": ["alice"]})
    for (source, page), (text, readers) in PAGES.items():
        with database.writer("a", source) as writer:
            database.put_document(writer, page, text, readers=[readers])
    with database.writer("a", "handbook") as writer:
        for topic in ("parking", "lunch", "badges", "printers", "heating", "bicycles"):
            database.put_document(writer, f"{topic}.md", f"Ask the desk about {topic}.")
    return database


@pytest.fixture
def connection(world: Database) -> Iterator[psycopg.Connection[Any]]:
    with pgrag.connect(world.dsn("app_reader")) as connection:
        yield connection


@pytest.fixture
def alice(world: Database, connection: psycopg.Connection[Any]) -> Iterator[pgrag.Reader]:
    with pgrag.reader(connection, world.token("a", "alice")) as r:
        yield r


@pytest.fixture
def bob(world: Database, connection: psycopg.Connection[Any]) -> Iterator[pgrag.Reader]:
    with pgrag.reader(connection, world.token("a", "bob")) as r:
        yield r


class Judge:
    """Turns the order round, or does as it is told, and remembers what it was given."""

    name = "judge-1"

    def __init__(self, does: Callable[[int], Any] = lambda count: [float(n) for n in range(count)], processor: str | None = None) -> None:
        self.does = does
        self.processor = processor
        self.calls: list[tuple[str, list[Passage]]] = []

    def rerank(self, question: str, passages: Sequence[Passage]) -> Any:
        self.calls.append((question, list(passages)))
        return self.does(len(passages))


def pages(hits: Sequence[Any]) -> list[str]:
    return [hit.document for hit in hits]


@pytest.mark.contract("F7")
def test_a_reranker_orders_what_the_reader_may_see(alice: pgrag.Reader, bob: pgrag.Reader) -> None:
    fused = bob.search(QUESTION)
    assert len(fused.hits) == 4 and fused.rerank is None and "reranker" not in fused.policy
    judge = Judge()
    found = bob.search(QUESTION, k=3, reranker=judge)
    assert pages(found.hits) == pages(fused.hits)[:0:-1]
    assert [hit.rank for hit in found.hits] == [1, 2, 3] and found.policy["reranker"] == "judge-1"
    # Each hit says still what the lanes thought of it.
    before = {hit.document: hit for hit in fused.hits}
    assert all((hit.score, hit.lexical_rank) == (before[hit.document].score, before[hit.document].lexical_rank) for hit in found.hits)

    assert judge.calls == [(QUESTION, [Passage(hit.text, hit.score) for hit in fused.hits])]
    assert not any("finance" in passage.text for passage in judge.calls[0][1])
    done = found.rerank
    assert done is not None and (done.name, done.processor, done.status, done.reason) == ("judge-1", None, "applied", None)
    assert (done.candidates, done.truncated, done.withheld) == (4, None, ())
    assert list(done.scores.items()) == [(hit.chunk_id, float(3 - n)) for n, hit in enumerate([*found.hits, fused.hits[0]])]
    assert done.dropped == (fused.hits[0].chunk_id,) and done.latency_ms >= 0


def test_control_who_may_see_it_has_it_reranked(alice: pgrag.Reader) -> None:
    judge = Judge()
    assert "finance.md" in pages(alice.search(QUESTION, reranker=judge).hits)
    assert any("finance" in passage.text for passage in judge.calls[0][1])


@pytest.mark.contract("F7")
def test_a_packet_is_in_the_rerankers_order(bob: pgrag.Reader) -> None:
    plain, packet = bob.packet(QUESTION, threshold=0), bob.packet(QUESTION, k=3, threshold=0, reranker=Judge())
    assert len(plain.excerpts) == 4 and plain.rerank is None
    assert pages(packet.excerpts) == pages(plain.excerpts)[:0:-1]
    assert [one.id for one in packet.excerpts] == ["e1", "e2", "e3"] and packet.policy["reranker"] == "judge-1"
    done = packet.rerank
    assert done is not None and done.status == "applied" and done.dropped == (plain.excerpts[0].chunk_id,)
    reply = {"answer": "Thirty days.", "citations": [{"id": "e1"}]}
    assert bob.validate(packet, reply).valid and bob.validate(packet.to_json(), reply).valid
    # What does not fit the budget was not dropped by the reranker.
    room = len(QUESTION) + len(packet.excerpts[0].text)
    small = bob.packet(QUESTION, k=3, threshold=0, budget=room, reranker=Judge())
    assert len(small.excerpts) == 1 and len(small.omitted) == 2
    assert small.rerank is not None and small.rerank.dropped == done.dropped


@pytest.mark.contract("F7")
def test_a_right_that_ends_while_the_reranker_thinks_has_ended(world: Database) -> None:
    def revoke(count: int) -> list[float]:
        with world.writer("a", "handbook") as writer:
            writer.execute("select pgrag.set_access('cards.md', '{}')")
        return [1.0] * count

    def restore(count: int) -> list[float]:
        with world.writer("a", "handbook") as writer:
            writer.execute("select pgrag.set_access('cards.md', '{everyone}')")
        return [1.0] * count

    for ask in ("search", "packet"):
        for does, seen in ((revoke, False), (restore, True)):
            with pgrag.connect(world.dsn("app_reader")) as connection, pgrag.reader(connection, world.token("a", "bob")) as r:
                answer = getattr(r, ask)(QUESTION, threshold=0, reranker=Judge(does))
            shown = answer.hits if ask == "search" else answer.excerpts
            assert ("cards.md" in pages(shown)) is seen, (ask, seen)


def fails(error: BaseException) -> Callable[[int], Any]:
    def fail(count: int) -> Any:
        raise error

    return fail


@pytest.mark.contract("F7")
@pytest.mark.parametrize(
    ("does", "reason", "detail"),
    [
        (fails(ValueError("the passage says: secret")), "error", "ValueError"),
        (fails(RerankError("rerank endpoint https://x: status 500", code="RG415")), "error", "status 500"),
        (fails(SystemExit(3)), "error", "RuntimeError"),
        (fails(KeyboardInterrupt()), "error", "RuntimeError"),
        (fails(asyncio.CancelledError()), "error", "RuntimeError"),
        (fails(TimeoutError()), "timeout", ""),
        (lambda count: time.sleep(5), "timeout", ""),
        (lambda count: [1.0] * (count - 1), "wrong_count", "3 scores for 4 passages"),
        (lambda count: [1.0] * (count + 1), "wrong_count", "5 scores for 4 passages"),
        (lambda count: [], "wrong_count", "0 scores for 4 passages"),
        (lambda count: [[1.0, 2.0]] * count, "wrong_count", "shape (4, 2)"),
        (lambda count: None, "wrong_count", "shape ()"),
        (lambda count: 0.5, "wrong_count", "shape ()"),
        (lambda count: "0123", "wrong_count", "shape ()"),
        (lambda count: [float("nan")] + [1.0] * (count - 1), "not_finite", "1 scores are not finite"),
        (lambda count: np.array([np.inf] * count), "not_finite", "4 scores"),
        (lambda count: ["0.5"] * count, "error", "not all numbers"),
        (lambda count: [None] * count, "error", "not all numbers"),
        (lambda count: [True] * count, "error", "not all numbers"),
        (lambda count: [[1.0]] + [1.0] * (count - 1), "error", "ValueError"),
    ],
)
def test_a_reranker_that_fails_leaves_the_fused_order(
    bob: pgrag.Reader, caplog: pytest.LogCaptureFixture, does: Callable[[int], Any], reason: str, detail: str
) -> None:
    caplog.set_level(logging.DEBUG, "pgrag")
    fused, fused_packet = bob.search(QUESTION), bob.packet(QUESTION)
    found = bob.search(QUESTION, reranker=Judge(does), rerank_timeout=0.1)
    assert found.hits == fused.hits and found.status == "evidence" and found.policy == fused.policy
    done = found.rerank
    assert done is not None and (done.status, done.reason) == ("failed", reason) and detail in done.detail
    assert (done.candidates, done.scores, done.dropped) == (4, {}, ())
    packet = bob.packet(QUESTION, reranker=Judge(does), rerank_timeout=0.1)
    assert packet.excerpts == fused_packet.excerpts and packet.rerank == done
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2 and all(f"status=failed reason={reason} hits=4" in one for one in said)
    assert "secret" not in caplog.text + done.detail


def test_scores_of_many_kinds_are_taken(bob: pgrag.Reader) -> None:
    fused = pages(bob.search(QUESTION).hits)
    for does in (
        lambda count: list(range(count)),
        lambda count: tuple(range(count)),
        lambda count: np.arange(count, dtype=np.float16),
        lambda count: [np.float32(n) for n in range(count)],
        lambda count: Scores(range(count), truncated=2),
    ):
        found = bob.search(QUESTION, reranker=Judge(does))
        assert pages(found.hits) == fused[::-1]
        assert found.rerank is not None and found.rerank.truncated == getattr(does(4), "truncated", None)
    # Among equals the fused order stays.
    assert pages(bob.search(QUESTION, reranker=Judge(lambda count: [0.0] * count)).hits) == fused
    assert pages(bob.search(QUESTION, reranker=Judge(lambda count: [0.0, 0.0, 1.0, 1.0])).hits) == fused[2:] + fused[:2]


@pytest.mark.contract("C6", "F7")
def test_only_what_a_source_allows_is_sent(bob: pgrag.Reader) -> None:
    fused = bob.search(QUESTION)
    assert fused.processors == {"handbook": [JUDGE], "wiki": []}
    wiki = [hit for hit in fused.hits if hit.source == "wiki"]
    handbook = [hit for hit in fused.hits if hit.source == "handbook"]
    judge = Judge(processor=JUDGE)
    found = bob.search(QUESTION, reranker=judge)
    assert [passage.text for passage in judge.calls[0][1]] == [hit.text for hit in handbook]
    assert pages(found.hits) == pages([*handbook[::-1], *wiki])
    assert found.rerank is not None and found.rerank.withheld == tuple(hit.chunk_id for hit in wiki)
    assert found.rerank.processor == JUDGE and found.rerank.candidates == 2
    packet = bob.packet(QUESTION, threshold=0, reranker=judge)
    assert pages(packet.excerpts) == pages(found.hits)

    stranger = Judge(processor="elsewhere.example")
    unsent = bob.search(QUESTION, reranker=stranger)
    assert stranger.calls == [] and unsent.hits == fused.hits
    assert unsent.rerank is not None and (unsent.rerank.status, unsent.rerank.reason) == ("skipped", "not_permitted")
    local = Judge()  # control: this process may read all
    bob.search(QUESTION, reranker=local)
    assert len(local.calls[0][1]) == 4


@pytest.mark.contract("C6")
def test_a_source_of_which_nothing_is_said_allows_nobody(bob: pgrag.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a database of 0.1, which does not list processors."""
    answer = pgrag.Reader._answer

    def silent(self: Any, *arguments: Any) -> dict[str, Any]:
        return {name: value for name, value in answer(self, *arguments).items() if name != "processors"}

    monkeypatch.setattr(pgrag.Reader, "_answer", silent)
    judge = Judge(processor=JUDGE)
    found = bob.search(QUESTION, reranker=judge)
    assert judge.calls == [] and found.rerank is not None and found.rerank.reason == "not_permitted"


def test_without_evidence_there_is_nothing_to_rerank(bob: pgrag.Reader) -> None:
    judge = Judge()
    for question in ("quantum teleportation", "refund of a quantum teleportation particle state transfer"):
        found, packet = bob.search(question, reranker=judge), bob.packet(question, reranker=judge)
        assert found.status == packet.status == "abstain"
        for done in (found.rerank, packet.rerank):
            assert done is not None and (done.status, done.reason, done.candidates) == ("skipped", "abstained", 0)
    assert judge.calls == []


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("RG302", {"rerank_candidates": 2}),
        ("RG302", {"rerank_candidates": 101}),
        ("RG302", {"rerank_candidates": 50.0}),
        ("RG302", {"rerank_candidates": True}),
        ("RG302", {"rerank_candidates": 60, "candidates": 59}),
        ("RG303", {"rerank_timeout": 0}),
        ("RG303", {"rerank_timeout": -1}),
        ("RG303", {"rerank_timeout": float("nan")}),
        ("RG303", {"rerank_timeout": float("inf")}),
        ("RG303", {"rerank_timeout": "10"}),
        ("RG303", {"reranker": "mmr"}),
        ("RG303", {"reranker": Judge}),
        ("RG303", {"reranker": types.SimpleNamespace(name="x", processor=None)}),
        ("RG303", {"reranker": types.SimpleNamespace(name="", processor=None, rerank=len)}),
        ("RG303", {"reranker": types.SimpleNamespace(name="x", processor=3, rerank=len)}),
        ("RG303", {"reranker": types.SimpleNamespace(name="x" * 201, processor=None, rerank=len)}),
    ],
)
def test_bounds_of_reranking(bob: pgrag.Reader, code: str, arguments: dict[str, Any]) -> None:
    for ask in (bob.search, bob.packet):
        with pytest.raises(InvalidInput) as caught:
            ask(QUESTION, k=3, **{"reranker": Judge(), **arguments})
        assert caught.value.code == code and caught.value.hint
    assert bob.search(QUESTION, k=3, reranker=Judge(), rerank_candidates=3, candidates=3, rerank_timeout=1).hits  # nothing was sent


def test_how_many_candidates_a_reranker_gets(bob: pgrag.Reader) -> None:
    judge = Judge()
    bob.search(QUESTION, k=2, reranker=judge, rerank_candidates=3)
    bob.search(QUESTION, k=2, reranker=judge, candidates=2)
    bob.search(QUESTION, k=100, reranker=judge)
    assert [len(given) for _, given in judge.calls] == [3, 2, 4]


# -- Time ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("F7")
def test_a_reranker_that_hangs_holds_up_nobody(bob: pgrag.Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_given_up", set())  # those of other tests may still run
    ended = threading.Event()
    hanging = Judge(lambda count: ended.wait(30))
    start = time.monotonic()
    assert bob.search(QUESTION, reranker=hanging, rerank_timeout=0.2).hits
    assert 0.2 <= time.monotonic() - start < 5
    assert bob.search(QUESTION, reranker=Judge()).rerank.status == "applied"  # type: ignore[union-attr]
    # They are not collected for ever.
    monkeypatch.setattr(_threads, "MOST_GIVEN_UP", 2)
    reasons = [bob.search(QUESTION, reranker=hanging, rerank_timeout=0.05).rerank.reason for _ in range(3)]  # type: ignore[union-attr]
    assert reasons == ["timeout", "busy", "busy"] and len(hanging.calls) == 2
    ended.set()
    for thread in list(_threads._given_up):
        thread.join(5)
    assert bob.search(QUESTION, reranker=Judge()).rerank.status == "applied"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "use",
    [
        "from pgrag._sync._flavour import in_time\nin_time(0.2, time.sleep, 60)",
        "from pgrag._async._flavour import in_time\nasyncio.run(in_time(0.2, time.sleep, 60))",
    ],
)
def test_a_thread_that_was_given_up_does_not_hold_the_interpreter(use: str) -> None:
    script = f"import asyncio, time\n{use}"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.stderr.strip().endswith("TimeoutError") and "never retrieved" not in done.stderr
    assert time.monotonic() - start < 20
    # Control: the thread of an executor is waited for.
    waits = "import time\nfrom concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(time.sleep, 1.5)"
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", waits], check=True)
    assert time.monotonic() - start >= 1.5


async def test_asynchronous_reranking_is_the_same_and_leaves_the_loop_free(world: Database, bob: pgrag.Reader) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())

    def slow(count: int) -> list[float]:
        time.sleep(0.3)
        return [float(n) for n in range(count)]

    async with (
        await pgrag.connect_async(world.dsn("app_reader")) as other,
        pgrag.async_reader(other, world.token("a", "bob")) as r,
    ):
        found, packet = await r.search(QUESTION, reranker=Judge(slow)), await r.packet(QUESTION, reranker=Judge(slow))
        late = await r.search(QUESTION, reranker=Judge(slow), rerank_timeout=0.05)
    ticking.cancel()
    assert ticks > 10
    assert found == bob.search(QUESTION, reranker=Judge()) and found.rerank.status == "applied"  # type: ignore[union-attr]
    assert packet.excerpts == bob.packet(QUESTION, reranker=Judge()).excerpts
    assert late.rerank.reason == "timeout" and late.hits == bob.search(QUESTION).hits  # type: ignore[union-attr]


@pytest.mark.contract("F7")
async def test_a_cancelled_reranking_is_cancelled(world: Database) -> None:
    begun, ended = threading.Event(), threading.Event()

    def hang(count: int) -> list[float]:
        begun.set()
        ended.wait(30)
        return [1.0] * count

    async with await pgrag.connect_async(world.dsn("app_reader")) as other:

        async def ask() -> SearchResult:
            async with pgrag.async_reader(other, world.token("a", "bob")) as r:
                return await r.search(QUESTION, reranker=Judge(hang), rerank_timeout=30)

        asking = asyncio.create_task(ask())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        start = time.monotonic()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert time.monotonic() - start < 5
        # The session is over, rolled back, and its connection is good for the next.
        assert other.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        ended.set()
        assert (await ask()).rerank.status == "applied"  # type: ignore[union-attr]


# -- Over HTTP, to the end ------------------------------------------------------------------------------------


@pytest.mark.contract("C6", "F7")
def test_an_endpoint_reranks_by_its_own_scores(world: Database, bob: pgrag.Reader) -> None:
    """A server of this test's own that scores by the cosine of static embeddings: the mechanics, not a judgement."""
    pytest.importorskip("httpx")
    pytest.importorskip("wordllama")
    from pgrag.embedders import load_embedder

    embedder = load_embedder("wordllama")

    def cosines(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        values = embedder.embed_documents(request["texts"]) @ embedder.embed_query(request["query"])
        items = [{"index": index, "score": float(value)} for index, value in enumerate(values)]
        return 200, {}, json.dumps(sorted(items, key=lambda item: -item["score"])).encode()

    question = "Which card does the refund go to?"
    fused = bob.search(question)
    handbook = [hit for hit in fused.hits if hit.source == "handbook"]
    wanted = order((embedder.embed_documents([hit.text for hit in handbook]) @ embedder.embed_query(question)).tolist())
    server = Endpoint(cosines, "hang up", lambda request: (200, {}, b"[]"))
    try:
        reranker: Any = load_reranker(f"http:{server.url}", processor=JUDGE, retries=0)
        with reranker:
            found = bob.search(question, reranker=reranker)
            assert found.rerank is not None and found.rerank.status == "applied"
            assert pages(found.hits[: len(handbook)]) == [handbook[place].document for place in wanted]
            assert server.requests[0]["texts"] == [hit.text for hit in handbook]
            for detail in ("the connection failed", "0 scores for"):
                found = bob.search(question, reranker=reranker)
                assert found.rerank is not None and found.rerank.reason == "error" and detail in found.rerank.detail
                assert found.hits == fused.hits
    finally:
        server.close()


def test_mmr_in_a_session(bob: pgrag.Reader) -> None:
    fused = bob.search(QUESTION)
    scores = load_reranker("mmr").rerank(QUESTION, [Passage(hit.text, hit.score) for hit in fused.hits])
    found = bob.search(QUESTION, reranker=load_reranker("mmr"))
    assert pages(found.hits) == [fused.hits[place].document for place in order(scores)]
    assert found.policy["reranker"] == "mmr-0.7"
    assert bob.search(QUESTION, reranker=load_reranker("mmr", lambda_=1)).hits == fused.hits
