"""Ingestion, end to end: files and documents to chunks in a real database, once, whole, and only where allowed."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

import pgrag
from pgrag.embedders.http import HttpEmbedder
from pgrag.errors import Conflict, EmbeddingError, IdentityError, IngestError, InvalidInput, NotFound
from pgrag.ingest import SourceDocument, StructureChunker, WindowChunker, WordTokenizer
from pgrag.ingest.pipeline import IngestReport, Progress, ingest_folder, ingest_folder_async
from pgrag.models import Ingested
from pgrag.protocols import Chunk, EmbeddingSpace
from pgrag.setup import apply_corpus, load_corpus
from tests.support import Database

TOY = EmbeddingSpace("toy", "toy-model", "1", 3, normalisation="none")
CHUNKER = StructureChunker(target=200)
HANDBOOK = Path(__file__).resolve().parents[2] / "examples" / "handbook"


class ToyEmbedder:
    """Three numbers a text; counts what it is given, and does something first where told to."""

    processor: str | None = None

    def __init__(self, space: EmbeddingSpace = TOY, before: Callable[[int], None] | None = None) -> None:
        self.space = space
        self.calls = 0
        self.before = before

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.before is not None:
            self.before(self.calls)
        return np.array([[len(text), text.count("e"), 1] for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text])[0]


def document(key: str, body: str, **fields: Any) -> SourceDocument:
    stated: dict[str, Any] = {
        "title": key,
        "language": None,
        "product": None,
        "version": None,
        "tags": (),
        "readers": ("everyone",),
        "revision": None,
        "effective_from": None,
        "effective_to": None,
        "date": None,
        "parser": "text-1",
    }
    return SourceDocument(key=key, body=body, **(stated | fields))


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    return module_database


def put_tenant(world: Database, tenant: str, sources: Sequence[str] = ("handbook",)) -> None:
    world.put_tenant(tenant, sources=sources)
    world.put_principals(tenant, users=["alice"], groups={"staff": ["alice"]})


def writer_token(world: Database, tenant: str, source: str = "handbook") -> str:
    return world.token(tenant, "connector", "writer", source=source)


@contextmanager
def writing(
    world: Database, tenant: str, source: str = "handbook", embedder: Any = None
) -> Iterator[pgrag.Writer]:
    token = writer_token(world, tenant, source)
    with (
        pgrag.connect(world.dsn("app_writer")) as connection,
        pgrag.writer(connection, token, embedder=embedder) as w,
    ):
        yield w


@contextmanager
def operating(world: Database) -> Iterator[pgrag.Operator]:
    with pgrag.connect(world.dsn("app_operator")) as connection, pgrag.operator(connection) as o:
        yield o


def ingest(
    world: Database,
    tenant: str,
    one: SourceDocument,
    *,
    source: str = "handbook",
    embedder: Any = None,
    **options: Any,
) -> Ingested:
    with writing(world, tenant, source, embedder=embedder or ToyEmbedder()) as w:
        return w.ingest(one, **({"chunker": CHUNKER, "tokenizer": WordTokenizer()} | options))


def folder(world: Database, tenant: str, root: Path, *, embedder: Any = None, **options: Any) -> IngestReport:
    with pgrag.connect(world.dsn("app_writer")) as connection:
        return ingest_folder(
            connection,
            options.pop("token", writer_token(world, tenant)),
            root,
            embedder=embedder or ToyEmbedder(),
            chunker=CHUNKER,
            tokenizer=WordTokenizer(),
            **options,
        )


def stored(world: Database, tenant: str) -> list[tuple[Any, ...]]:
    """Every chunk of a tenant, with its vector, as the superuser sees it."""
    with world.superuser() as superuser:
        return superuser.execute(
            """
            select s.source, d.document, r.revision, r.state, r.revision_id = d.active_revision_id as active,
                   c.chunk_no, encode(c.chunk_id, 'hex') as chunk_id, c.span_start, c.span_end, c.text, v.embedding::text, l.lexemes::text
              from pgrag_data.tenant t
              join pgrag_data.source s using (tenant_id)
              join pgrag_data.document d using (tenant_id, source_id)
              join pgrag_data.revision r using (tenant_id, document_id)
              left join pgrag_data.chunk c using (tenant_id, revision_id)
              left join pgrag_data.chunk_vec v using (tenant_id, revision_id, chunk_no)
              left join pgrag_data.chunk_lex l using (tenant_id, revision_id, chunk_no)
             where t.tenant = %s
             order by 1, 2, 3, 6
            """,
            (tenant,),
        ).fetchall()


def without_tenant(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Chunk ids are a hash of the tenant too: left out, two tenants can be compared."""
    return [row[:6] + row[7:] for row in rows]


def switches(world: Database, tenant: str) -> int:
    with world.superuser() as superuser:
        found = superuser.execute(
            "select count(*) from pgrag_data.activation join pgrag_data.tenant using (tenant_id) where tenant = %s",
            (tenant,),
        ).fetchone()
        assert found is not None
        return int(found[0])


def finds(world: Database, tenant: str, question: str, **options: Any) -> list[str]:
    with (
        pgrag.connect(world.dsn("app_reader")) as connection,
        pgrag.reader(connection, world.token(tenant, "alice")) as r,
    ):
        return [hit.text for hit in r.search(question, threshold=0, **options).hits]


def long_text(sections: int) -> str:
    return "".join(
        f"# Section {n}\n\nThe rule of section {n} is number {n * 7919}, and it is kept.\n\n"
        for n in range(sections)
    )


# -- One document ----------------------------------------------------------------------------------------


@pytest.mark.contract("B1", "D1")
def test_the_same_file_name_in_two_sources(world: Database) -> None:
    put_tenant(world, "same", sources=["handbook", "wiki"])
    page = document("refund-window.md", "Thirty days, says the page.")
    for source in ("handbook", "wiki"):
        assert ingest(world, "same", page, source=source).created
    rows = stored(world, "same")
    assert [row[:2] for row in rows] == [("handbook", page.key), ("wiki", page.key)]
    assert rows[0][2] == rows[1][2] and rows[0][9] == rows[1][9]  # one revision name, one text
    assert rows[0][6] != rows[1][6]  # two chunk ids
    assert finds(world, "same", "thirty days") == [page.body, page.body]


@pytest.mark.contract("D1", "B9")
def test_chunk_ids_are_of_source_and_revision_and_last(world: Database) -> None:
    put_tenant(world, "ids", sources=["handbook", "wiki"])
    put_tenant(world, "ids-2", sources=["handbook", "wiki"])
    text = long_text(5)
    for tenant in ("ids", "ids-2"):
        for source in ("handbook", "wiki"):
            for revision in ("1", "2"):
                ingest(world, tenant, document("page.md", text, revision=revision), source=source)
    rows = stored(world, "ids")
    chunks = len(CHUNKER.chunk(text))
    assert chunks > 1 and len(rows) == 4 * chunks and len({row[9] for row in rows}) == chunks
    ids = {row[6] for row in rows}
    assert len(ids) == len(rows) and all(re.fullmatch("[0-9a-f]{64}", one) for one in ids)
    assert ids.isdisjoint(row[6] for row in stored(world, "ids-2"))
    # Control: another database, the same tenant, source, document, revision, span and text: the same ids.
    for source in ("handbook", "wiki"):
        assert not ingest(world, "ids", document("page.md", text, revision="1"), source=source).created
    assert {row[6] for row in stored(world, "ids")} == ids


@pytest.mark.contract("D3")
@pytest.mark.parametrize(
    "chunker", [CHUNKER, WindowChunker(target=50, overlap=10)], ids=["structure", "window"]
)
@pytest.mark.parametrize(
    "body",
    [
        "Short.",
        "Ends with space.  \n\n\n",
        long_text(9),
        long_text(3) + "The very last words",
        "ß日本🏕️e\u0301 " * 40,
        "\r\n# A\r\nb\r\n",
        "|a|b|\n|-|-|\n" + "|1|2|\n" * 60,
    ],
    ids=range(7),
)
def test_the_last_chunk_ends_at_the_end(world: Database, chunker: Any, body: str) -> None:
    world.put_tenant("ends")
    key = f"{chunker.name}-{abs(hash(body))}.md"
    done = ingest(world, "ends", document(key, body, readers=None), chunker=chunker)
    rows = [row for row in stored(world, "ends") if row[1] == key]
    assert not done.faults and len(rows) == done.chunks
    assert rows[0][7] == 0 and rows[-1][8] == len(body)
    assert all(body[row[7] : row[8]] == row[9] for row in rows)
    assert all(later[7] <= earlier[8] for earlier, later in pairwise(rows))  # no gap


def test_control_a_text_that_is_not_covered_is_not_verified(world: Database) -> None:
    class Forgetful:
        name = "forgetful"

        def chunk(self, body: str) -> list[Chunk]:
            return CHUNKER.chunk(body)[:-1]

    put_tenant(world, "forgetful")
    done = ingest(world, "forgetful", document("a.md", long_text(5)), chunker=Forgetful())
    assert not done.activated and done.faults[0].startswith("span coverage: 0 gaps; the last span ends at")
    assert finds(world, "forgetful", "rule of section") == []


@pytest.mark.contract("D3")
def test_empty_text_is_reported(world: Database) -> None:
    put_tenant(world, "empty")
    for number, body in enumerate(("", "   ", "\n\n\t\u00a0\n")):
        done = ingest(world, "empty", document(f"empty-{number}.md", body))
        assert (done.chunks, done.activated) == (0, False)
        assert done.faults[0] == "empty extraction: there is no text to find"
    assert ingest(world, "empty", document("full.md", "Text.")).activated  # control
    with writing(world, "empty") as w:
        assert [one.document for one in w.documents() if one.active_revision] == ["full.md"]


@pytest.mark.contract("B9")
def test_again_is_nothing_to_do(world: Database) -> None:
    put_tenant(world, "again")
    page = document("page.md", long_text(20))
    first = ingest(world, "again", page)
    assert (first.created, first.activated, first.chunks) == (True, True, len(CHUNKER.chunk(page.body)))
    before, count = stored(world, "again"), switches(world, "again")
    embedder = ToyEmbedder()
    second = ingest(world, "again", page, embedder=embedder)
    assert (second.created, second.activated, second.revision) == (False, False, first.revision)
    assert embedder.calls == 0 and stored(world, "again") == before and switches(world, "again") == count
    # Control: other content, or the same cut in another way, is work.
    for changed in (replace(page, body=page.body + "More."), replace(page, title="Another title")):
        done = ingest(world, "again", changed, embedder=embedder)
        assert done.created and done.activated
    assert ingest(world, "again", page, chunker=StructureChunker(target=100), embedder=embedder).created
    assert embedder.calls == 3


@pytest.mark.contract("B9", "B2")
@pytest.mark.parametrize("committed", [False, True], ids=["one transaction", "batches committed"])
def test_a_retry_neither_duplicates_nor_loses(world: Database, committed: bool) -> None:
    tenant, control = f"retry-{committed}".lower(), f"whole-{committed}".lower()
    for name in (tenant, control):
        put_tenant(world, name)
    page = document("long.md", long_text(700))
    chunks = CHUNKER.chunk(page.body)
    assert len(chunks) > 500  # more than one batch
    whole = ingest(world, control, page)

    connection = pgrag.connect(world.dsn("app_writer"))

    def kill(call: int) -> None:
        """Before the second batch is encoded, when the first one has been added, the server ends the connection."""
        if call == 2:
            with world.superuser() as superuser:
                superuser.execute("select pg_terminate_backend(%s, 10000)", (connection.info.backend_pid,))

    if committed:  # a connector that commits as it goes
        embedder = ToyEmbedder()
        with pgrag.writer(connection, writer_token(world, tenant)) as w:
            staged = w.stage(page, chunker=CHUNKER.name, tokenizer=WordTokenizer.name, space="toy")
        with pgrag.writer(connection, writer_token(world, tenant)) as w:
            batch = chunks[:500]
            vectors = embedder.embed_documents([chunk.text for chunk in batch])
            tokens = [WordTokenizer().count(chunk.text) for chunk in batch]
            assert w.add_chunks(page.key, staged.revision, batch, vectors, tokens) == 500
        kill(2)
        with pytest.raises(psycopg.OperationalError), pgrag.writer(connection, writer_token(world, tenant)):
            pass
        assert len(stored(world, tenant)) == 500
    else:
        killer = ToyEmbedder(before=kill)
        session = pgrag.writer(connection, writer_token(world, tenant), embedder=killer)
        with pytest.raises(psycopg.OperationalError), session as w:
            w.ingest(page, chunker=CHUNKER, tokenizer=WordTokenizer())
        assert killer.calls == 2 and stored(world, tenant) == []
    connection.close()
    assert finds(world, tenant, "rule of section") == []

    again = ingest(world, tenant, page)
    assert (again.created, again.activated, again.chunks, again.revision) == (
        True,
        True,
        whole.chunks,
        whole.revision,
    )
    rows = stored(world, tenant)
    assert without_tenant(rows) == without_tenant(stored(world, control))
    assert len(rows) == len(chunks) == len({row[6] for row in rows})
    assert not ingest(world, tenant, page).created


@pytest.mark.contract("B8")
def test_shrinking_leaves_no_trace(world: Database) -> None:
    put_tenant(world, "shrink")
    ingest(world, "shrink", document("page.md", long_text(5)))
    assert len(finds(world, "shrink", "rule of section")) == 5
    ingest(world, "shrink", document("page.md", long_text(3)))
    assert len(finds(world, "shrink", "rule of section")) == 3
    assert not any("Section 4" in text for text in finds(world, "shrink", "section 4 31676"))


def test_going_back_and_being_rolled_back(world: Database) -> None:
    put_tenant(world, "back")
    old, new = document("page.md", "The old rule."), document("page.md", "The new rule.")
    assert ingest(world, "back", old).activated and ingest(world, "back", new).activated
    assert ingest(world, "back", old).activated  # the source itself went back to the older text
    assert finds(world, "back", "rule") == ["The old rule."]
    assert ingest(world, "back", new).activated  # and forth
    with writing(world, "back") as w:
        w.rollback("page.md")
    # Somebody rolled back from the newer text: ingesting it once more does not undo that.
    again = ingest(world, "back", new)
    assert (again.created, again.activated) == (False, False)
    assert finds(world, "back", "rule") == ["The old rule."]
    with writing(world, "back") as w:
        assert w.activate("page.md", again.revision)
    assert finds(world, "back", "rule") == ["The new rule."]


@pytest.mark.contract("A3")
def test_readers_do_not_open_another_revision(world: Database, tmp_path: Path) -> None:
    put_tenant(world, "readers")
    world.put_principals("readers", users=["bob"])

    def bob_reads(key: str) -> bool:
        token = world.token("readers", "bob")
        with pgrag.connect(world.dsn("app_reader")) as connection, pgrag.reader(connection, token) as r:
            return r.can_read("handbook", key)

    private = document("page.md", "The private text.", readers=("staff",))
    public = document("page.md", "The public text.", readers=("everyone",))
    assert ingest(world, "readers", private).activated
    assert not ingest(world, "readers", public, activate=False).activated and not bob_reads("page.md")
    assert ingest(world, "readers", public).activated and bob_reads("page.md")  # control: it is in force now
    with writing(world, "readers") as w:  # somebody goes back to the private text
        w.rollback("page.md")
        w.set_access("page.md", ["staff"])
    assert not ingest(world, "readers", public).activated and not bob_reads("page.md")

    for revision, readers in (
        ("2023-01-01", "staff"),
        ("2024-01-01", "everyone"),
        ("9999-01-01", "everyone"),
    ):
        text = f"---\nreaders: [{readers}]\n---\nThe text of {revision}.\n"
        (tmp_path / f"dated@{revision}.md").write_text(text)
    folder(world, "readers", tmp_path)
    assert bob_reads("dated.md")  # control: by the file of the revision in force
    with writing(world, "readers") as w:
        w.rollback("dated.md")
    folder(world, "readers", tmp_path)  # by the file of the revision that is in force now
    assert not bob_reads("dated.md") and finds(world, "readers", "dated text 2023")


def test_options_of_one_document(world: Database) -> None:
    put_tenant(world, "options")
    page = document("page.md", "A rule.", readers=None)
    staged = ingest(world, "options", page, activate=False)
    assert staged.created and not staged.activated
    with pytest.raises(Conflict) as error:
        ingest(world, "options", page, expected_active="another")
    assert error.value.code == "RG402"
    assert ingest(world, "options", page, expected_active="").activated
    assert finds(world, "options", "rule") == []  # nobody was let in
    ingest(world, "options", replace(page, readers=("staff",)))
    assert finds(world, "options", "rule") == ["A rule."]
    with pytest.raises(NotFound, match="no such reader"):
        ingest(world, "options", replace(page, readers=("nobody-known",)))
    with writing(world, "options") as w:
        lexical = w.ingest(replace(page, key="lexical.md"), chunker=CHUNKER, tokenizer=WordTokenizer())
    assert lexical.activated  # a session without an embedder: found by its words alone
    assert [row[10] for row in stored(world, "options") if row[1] == "lexical.md"] == [None]


# -- Spaces and processors -------------------------------------------------------------------------------


@pytest.mark.contract("E1")
@pytest.mark.parametrize(
    "other", [{"model": "toy-model-2"}, {"model_revision": "2"}, {"document_prefix": "passage: "}]
)
def test_an_embedder_of_another_space_is_refused(world: Database, other: dict[str, str]) -> None:
    put_tenant(world, "space")
    stranger = ToyEmbedder(replace(TOY, **other))  # type: ignore[arg-type]
    assert stranger.space.dimension == TOY.dimension
    with pytest.raises(EmbeddingError) as error:
        ingest(world, "space", document("a.md", "Text."), embedder=stranger)
    assert (
        error.value.code == "RG305"
        and stranger.calls == 0
        and not [row for row in stored(world, "space") if row[1] == "a.md"]
    )
    own = ToyEmbedder(replace(TOY, space="another-name-for-it"))
    assert ingest(world, "space", document("b.md", f"Text {other}."), embedder=own).created and own.calls == 1


def test_vectors_that_are_not_what_was_stated(world: Database) -> None:
    class Wrong(ToyEmbedder):
        def __init__(self, vectors: Any) -> None:
            super().__init__()
            self.vectors = np.array(vectors, dtype=np.float32)

        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return self.vectors

    put_tenant(world, "wrong")
    for vectors in ([[1, 2]], [[1, 2, 3], [1, 2, 3]], [1, 2, 3], [[1, 2, float("nan")]]):
        with pytest.raises(EmbeddingError) as error:
            ingest(world, "wrong", document("a.md", "Text."), embedder=Wrong(vectors))
        assert error.value.code == "RG305"
    zero = ingest(world, "wrong", document("a.md", "Text."), embedder=Wrong([[0, 0, 0]]))
    assert zero.faults == ("zero vectors: 1, which space toy refuses",) and not zero.activated
    assert ingest(world, "wrong", document("b.md", "Text."), embedder=Wrong([[1, 2, 3]])).activated  # control


class CountingEndpoint:
    """An embeddings endpoint that counts connections and requests."""

    def __init__(self) -> None:
        endpoint = self
        self.connections = self.requests = 0
        self.texts: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                endpoint.connections += 1
                super().setup()

            def do_POST(self) -> None:
                endpoint.requests += 1
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.texts += asked["input"]
                data = [{"index": n, "embedding": [len(text), 1, 1]} for n, text in enumerate(asked["input"])]
                content = json.dumps({"model": asked["model"], "data": data}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def __enter__(self) -> CountingEndpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.contract("C6")
def test_text_goes_only_where_the_source_lets_it(world: Database, tmp_path: Path) -> None:
    world.put_tenant("egress", sources=["handbook", "wiki"], space=None)
    world.put_principals("egress", users=["alice"])
    (tmp_path / "secret.md").write_text("---\nreaders: [everyone]\n---\nThe secret recipe.\n")
    page = document("page.md", "The other secret recipe.")
    with (
        CountingEndpoint() as endpoint,
        HttpEmbedder(endpoint.url, model="m", dimension=3, processor="encoder.example") as embedder,
    ):
        with operating(world) as o:
            o.put_space("egress", embedder.space)
            o.put_source("egress", "wiki", processors=["encoder.example"])  # another source's permission
            o.put_source("egress", "handbook", processors=["other.example"])
        for refused in (
            lambda: ingest(world, "egress", page, embedder=embedder),
            lambda: folder(world, "egress", tmp_path, embedder=embedder),
        ):
            with pytest.raises(InvalidInput) as error:
                refused()
            assert error.value.code == "RG410" and "put_source" in error.value.hint
            assert (
                error.value.message == "the source handbook does not allow its text to go to encoder.example"
            )
        assert (endpoint.connections, endpoint.requests, stored(world, "egress")) == (0, 0, [])

        with operating(world) as o:  # control
            o.put_source("egress", "handbook", processors=["other.example", "encoder.example"])
        assert ingest(world, "egress", page, embedder=embedder).activated
        assert len(folder(world, "egress", tmp_path, embedder=embedder).created) == 1
        assert endpoint.requests == 2 and endpoint.texts == [
            "The other secret recipe.",
            "The secret recipe.\n",
        ]
        with operating(world) as o:
            o.put_source("egress", "handbook", processors=[])
        with pytest.raises(InvalidInput):
            ingest(world, "egress", page, embedder=embedder)
        assert endpoint.requests == 2
    # An encoder in this process needs nobody's leave.
    local = ToyEmbedder(embedder.space)
    local.embed_documents = lambda texts: np.eye(3, dtype=np.float32)[[0] * len(texts)]  # type: ignore[method-assign]
    assert ingest(world, "egress", replace(page, key="local.md"), embedder=local).activated


# -- Folders ---------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Five documents, one of them in a subfolder, and a file that is none."""
    (tmp_path / "notes").mkdir()
    for n in range(4):
        (tmp_path / f"page-{n}.md").write_text(
            f"---\nreaders: [everyone]\n---\n{long_text(4)}Page {n} ends.\n"
        )
    (tmp_path / "notes" / "page-0.md").write_text("---\nreaders: [staff]\n---\nThe note ends.\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    return tmp_path


@pytest.mark.contract("B9")
def test_a_folder(world: Database, root: Path) -> None:
    put_tenant(world, "folder")
    steps: list[Progress] = []
    embedder = ToyEmbedder()
    report = folder(world, "folder", root, embedder=embedder, progress=steps.append)
    assert [(one.document, one.outcome, one.activated) for one in report.documents] == [
        ("logo.png", "skipped", False),
        ("notes/page-0.md", "created", True),
        *((f"page-{n}.md", "created", True) for n in range(4)),
    ]
    assert [(one.done, one.total, one.report) for one in steps] == [
        (n, 6, one) for n, one in enumerate(report.documents, 1)
    ]
    assert report.skipped[0].reason == "unsupported type" and report.created[1].chunks == len(
        CHUNKER.chunk(long_text(4) + "Page 0 ends.\n")
    )
    assert len(finds(world, "folder", "ends")) == 5
    before, calls = stored(world, "folder"), embedder.calls
    again = folder(world, "folder", root, embedder=embedder)
    assert (len(again.unchanged), len(again.created), len(again.failed)) == (5, 0, 0)
    assert (
        embedder.calls == calls == 5 and stored(world, "folder") == before and switches(world, "folder") == 5
    )


def test_a_failure_is_one_documents(world: Database, root: Path) -> None:
    put_tenant(world, "failure")
    (root / "page-1.md").write_text("---\nreaders: [nobody-known]\n---\nPage 1 ends.\n")
    (root / "page-2.md").write_text("---\nreaders: [everyone]\n---\n\n\n")
    report = folder(world, "failure", root)
    assert [(one.document, one.code) for one in report.failed] == [
        ("page-1.md", "RG401"),
        ("page-2.md", "RG412"),
    ]
    unknown, empty = (one.reason for one in report.failed)
    assert unknown.startswith("there is no such reader: at least one of the names is not a user")
    assert empty.startswith(
        "the document did not pass verification: empty extraction: there is no text to find"
    )
    assert [one.document for one in report.created] == ["notes/page-0.md", "page-0.md", "page-3.md"]
    assert {row[1] for row in stored(world, "failure")} == {
        "notes/page-0.md",
        "page-0.md",
        "page-3.md",
    }  # of the failed, nothing
    (root / "page-1.md").write_text("---\nreaders: [staff]\n---\nPage 1 ends.\n")
    (root / "page-2.md").unlink()
    assert [one.document for one in folder(world, "failure", root).created] == ["page-1.md"]


def test_an_error_of_everybody_ends_it(world: Database, root: Path) -> None:
    put_tenant(world, "everybody")
    tokens = iter([writer_token(world, "everybody")] * 3)
    with pytest.raises(IdentityError):
        folder(world, "everybody", root, token=lambda: next(tokens, "nonsense"))
    assert (
        len({row[1] for row in stored(world, "everybody")}) == 2
    )  # the first token was for a look at the space
    with pytest.raises(IngestError):
        (root / "page-3.md").write_text("---\nreders: [staff]\n---\nPage 3 ends.\n")
        folder(world, "everybody", root)


@pytest.mark.contract("B9")
def test_a_lost_connection_ends_it_between_documents(world: Database, root: Path) -> None:
    put_tenant(world, "lost")
    connection = pgrag.connect(world.dsn("app_writer"))

    def kill(call: int) -> None:
        if call == 3:
            with world.superuser() as superuser:
                superuser.execute("select pg_terminate_backend(%s, 10000)", (connection.info.backend_pid,))

    with pytest.raises(psycopg.OperationalError):
        ingest_folder(
            connection,
            writer_token(world, "lost"),
            root,
            embedder=ToyEmbedder(before=kill),
            chunker=CHUNKER,
            tokenizer=WordTokenizer(),
        )
    connection.close()
    whole = stored(world, "lost")
    assert {row[1] for row in whole} == {"notes/page-0.md", "page-0.md"} and all(row[4] for row in whole)
    assert (len(folder(world, "lost", root).created), len(finds(world, "lost", "ends"))) == (3, 5)


def interrupt(call: int) -> None:
    if call == 3:
        raise KeyboardInterrupt


@pytest.mark.contract("B9")
def test_an_interruption_leaves_whole_documents(world: Database, root: Path) -> None:
    put_tenant(world, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        folder(world, "interrupted", root, embedder=ToyEmbedder(before=interrupt))
    whole = stored(world, "interrupted")
    assert {row[1] for row in whole} == {"notes/page-0.md", "page-0.md"} and all(row[4] for row in whole)
    assert len(folder(world, "interrupted", root).created) == 3
    put_tenant(world, "uninterrupted")  # control
    folder(world, "uninterrupted", root)
    assert without_tenant(stored(world, "interrupted")) == without_tenant(stored(world, "uninterrupted"))


@pytest.mark.contract("B9")
async def test_cancellation_leaves_whole_documents(world: Database, root: Path) -> None:
    put_tenant(world, "cancelled")
    reached, go = threading.Event(), threading.Event()

    def wait(call: int) -> None:
        if call == 3:
            reached.set()
            go.wait(10)

    async with await pgrag.connect_async(world.dsn("app_writer")) as connection:
        arguments = {"chunker": CHUNKER, "tokenizer": WordTokenizer()}
        task = asyncio.create_task(
            ingest_folder_async(
                connection,
                writer_token(world, "cancelled"),
                root,
                embedder=ToyEmbedder(before=wait),
                **arguments,
            )  # type: ignore[arg-type]
        )
        await asyncio.to_thread(reached.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        whole = stored(world, "cancelled")
        assert {row[1] for row in whole} == {"notes/page-0.md", "page-0.md"} and all(row[4] for row in whole)
        report = await ingest_folder_async(
            connection, writer_token(world, "cancelled"), root, embedder=ToyEmbedder(), **arguments
        )  # type: ignore[arg-type]
    assert (len(report.created), len(report.unchanged)) == (3, 2)
    assert len(finds(world, "cancelled", "ends")) == 5


@pytest.mark.contract("B7", "B9")
def test_dated_revisions(world: Database, tmp_path: Path) -> None:
    put_tenant(world, "dated")

    def page(date: str, text: str, readers: str = "everyone") -> None:
        (tmp_path / f"rule@{date}.md").write_text(f"---\nreaders: [{readers}]\n---\nThe rule is {text}.\n")

    page("2023-01-01", "one", "staff")
    page("2024-01-01", "two")
    page("9999-01-01", "later", "nobody-known")
    report = folder(world, "dated", tmp_path)
    assert [(one.document, one.revisions, one.activated) for one in report.documents] == [
        ("rule.md", ("2023-01-01", "2024-01-01", "9999-01-01"), True)
    ]
    assert finds(world, "dated", "rule") == ["The rule is two.\n"]
    assert finds(world, "dated", "rule", as_of="2023-06-01") == ["The rule is one.\n"]
    assert finds(world, "dated", "rule", as_of="2022-06-01") == []
    assert (
        folder(world, "dated", tmp_path).documents[0].outcome == "unchanged" and switches(world, "dated") == 2
    )
    # A revision from before is found at its time, and does not replace today's.
    page("2022-01-01", "zero")
    added = folder(world, "dated", tmp_path).documents[0]
    assert (added.revisions, added.activated) == (("2022-01-01",), False)
    assert finds(world, "dated", "rule") == ["The rule is two.\n"]
    assert finds(world, "dated", "rule", as_of="2022-06-01") == ["The rule is zero.\n"]
    # What was rolled back stays back, also when an older revision arrives.
    with writing(world, "dated") as w:
        assert w.rollback("rule.md", "2023-01-01") == "2023-01-01"
    page("2021-01-01", "minus one")
    for _ in range(2):
        folder(world, "dated", tmp_path)
        assert finds(world, "dated", "rule") == ["The rule is one.\n"]
    assert finds(world, "dated", "rule", as_of="2021-06-01") == ["The rule is minus one.\n"]
    page("2025-01-01", "three")  # news is put in force
    assert folder(world, "dated", tmp_path).documents[0].activated
    assert finds(world, "dated", "rule") == ["The rule is three.\n"]


def test_a_deleted_document_stays_deleted(world: Database, root: Path) -> None:
    put_tenant(world, "deleted")
    folder(world, "deleted", root)
    with writing(world, "deleted") as w:
        w.delete("page-0.md")
    report = folder(world, "deleted", root)
    assert [(one.document, one.code) for one in report.failed] == [("page-0.md", "RG409")]
    assert len(report.unchanged) == 4 and len(finds(world, "deleted", "ends")) == 4


# -- Setting up ------------------------------------------------------------------------------------------


def test_the_handbook(database: Database) -> None:
    def state() -> list[Any]:
        with database.superuser() as superuser:
            return [
                superuser.execute(f"select * from pgrag_data.{table} order by 1, 2").fetchall()
                for table in ("tenant", "source", "principal", "membership", "embedding_space")
            ]

    def apply() -> None:
        with (
            pgrag.connect(database.dsn("app_operator")) as operator,
            pgrag.connect(database.dsn("app_admin")) as admin,
        ):
            apply_corpus(
                operator,
                HANDBOOK / "corpus.yaml",
                admin_connection=admin,
                admin_token=lambda tenant: database.token(tenant, "setup", "admin"),
                space=TOY,
            )

    apply()
    before = state()
    apply()
    assert state() == before and [len(rows) for rows in before] == [2, 4, 28, 23, 2]
    for tenant, source in (
        ("halvorsen", "handbook"),
        ("halvorsen", "wiki"),
        ("kestrel", "handbook"),
        ("kestrel", "ops"),
    ):
        report = folder(
            database, tenant, HANDBOOK / tenant / source, token=writer_token(database, tenant, source)
        )
        assert report.created and len(report.created) == len(report.documents)
    frank = database.token("kestrel", "frank")
    with pgrag.connect(database.dsn("app_reader")) as connection, pgrag.reader(connection, frank) as r:
        assert r.whoami().groups == ["everyone", "managers", "staff"]
        found = r.search("Within how many days can unused goods be sent back for a refund?")
        assert any(
            "90 days" in hit.text and hit.document == "policies/refund-window.md" for hit in found.hits
        )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[", "is not YAML"),
        (r'tenants: "\UFFFFFFFF"', "is not YAML"),
        ("tenants: !!set [a]", "is not YAML: expected a mapping node"),
        ("tenants: [{tenant: a, users: [alice], users: [bob]}]", "the key 'users' is there twice"),
        ("- 1", "the file is not a mapping"),
        ("tenant: []", "the file has a key 'tenant' that is not known"),
        ("tenants: {}", None),
        ("tenants: {a: 1}", "the file has no list as tenants"),
        ("tenants: [{name: A}]", "tenant 1 has no text as tenant"),
        ("tenants: [{tenant: a, users: [yes]}]", "tenant 1 has something in users that is not text"),
        (
            "tenants: [{tenant: a, sources: [{source: s, processor: []}]}]",
            "a source of tenant a has a key 'processor'",
        ),
        (
            "tenants: [{tenant: a, memberships: [{group: g, members: m}]}]",
            "a membership of tenant a has no list as members",
        ),
    ],
)
def test_what_a_corpus_file_may_not_say(tmp_path: Path, text: str, fact: str | None) -> None:
    path = tmp_path / "corpus.yaml"
    path.write_text(text)
    if fact is None:
        assert load_corpus(path) == ()
    else:
        with pytest.raises(InvalidInput, match=re.escape(fact)) as error:
            load_corpus(path)
        assert error.value.code == "RG414"
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_corpus(tmp_path / "absent.yaml")


@pytest.fixture(autouse=True)
def nothing_is_left_open(world: Database) -> Iterator[None]:
    yield
    with world.superuser() as superuser:
        left = superuser.execute(
            """
            select usename, state, query from pg_stat_activity
             where datname = %s and pid <> pg_backend_pid() and backend_type = 'client backend' and state <> 'idle'
            """,
            (world.name,),
        ).fetchall()
    assert left == []
