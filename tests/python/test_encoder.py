"""Changing the encoder from Python: a space beside the active one, filled, measured, switched to, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

import pgrag
from pgrag import _requests
from pgrag.errors import Conflict, EmbeddingError, InvalidInput, PgragError
from pgrag.ingest import WordTokenizer
from pgrag.ingest.pipeline import IngestReport, ingest_folder, ingest_folder_async
from pgrag.models import Completeness, Filled, Ingested, MaintenanceStep, MissingEmbedding
from pgrag.protocols import Chunk, EmbeddingSpace
from tests.python.test_ingest import CHUNKER, TOY, document, writer_token
from tests.python.test_ingest import ToyEmbedder as Old
from tests.support import Database

NEW = EmbeddingSpace("new", "new-model", "2", 4, document_prefix="passage: ", query_prefix="query: ")


class New:
    """Four numbers a text, of length one; keeps what it is given, and does something first where told to."""

    processor: str | None = None

    def __init__(self, space: EmbeddingSpace = NEW, before: Callable[[int], None] | None = None) -> None:
        self.space = space
        self.texts: list[str] = []
        self.calls = 0
        self.before = before

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.before is not None:
            self.before(self.calls)
        self.texts += texts
        found = np.array([[text.count(letter) + 0.5 for letter in "etao"] for text in texts])
        return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text])[0]


PAGES = {f"page-{n}.md": f"# Page {n}\n\n" + f"Number {n} is about topic {n}. " * 12 for n in range(9)}


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    """Tenant a with nine pages in the space toy, and the space new registered."""
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    put_pages(tmp_path, PAGES)
    assert len(folder(database, tmp_path).created) == 9
    with operating(database) as o:
        o.put_space("a", NEW)
    return database


def put_pages(root: Path, pages: dict[str, str]) -> None:
    for key, body in pages.items():
        (root / key).write_text(f"---\nreaders: [everyone]\n---\n{body}\n", encoding="utf-8")


@contextmanager
def operating(world: Database) -> Iterator[pgrag.Operator]:
    with pgrag.connect(world.dsn("app_operator")) as connection, pgrag.operator(connection) as o:
        yield o


def operate(world: Database, method: str, *arguments: Any) -> Any:
    """One call in a session of its own, for tenant a."""
    with operating(world) as o:
        return getattr(o, method)("a", *arguments)


def write(world: Database, method: str, *arguments: Any, **options: Any) -> Any:
    with writing(world) as w:
        return getattr(w, method)(*arguments, **options)


@contextmanager
def writing(world: Database, embedder: Any = None) -> Iterator[pgrag.Writer]:
    with (
        pgrag.connect(world.dsn("app_writer")) as connection,
        pgrag.writer(connection, writer_token(world, "a"), embedder=embedder) as w,
    ):
        yield w


@contextmanager
def reading(world: Database, embedder: Any = None) -> Iterator[pgrag.Reader]:
    with (
        pgrag.connect(world.dsn("app_reader")) as connection,
        pgrag.reader(connection, world.token("a", "alice"), embedder=embedder) as r,
    ):
        yield r


def folder(world: Database, root: Path, embedder: Any = None, **options: Any) -> IngestReport:
    with pgrag.connect(world.dsn("app_writer")) as connection:
        return ingest_folder(
            connection,
            writer_token(world, "a"),
            root,
            embedder=embedder or Old(),
            chunker=CHUNKER,
            tokenizer=WordTokenizer(),
            **options,
        )


def ingest(world: Database, key: str, body: str, embedder: Any = None, **options: Any) -> Ingested:
    with writing(world, embedder or Old()) as w:
        return w.ingest(document(key, body), chunker=CHUNKER, tokenizer=WordTokenizer(), **options)


def step(world: Database, embedder: Any, *space: str, **options: Any) -> Filled:
    with writing(world, embedder) as w:
        return w.fill_space(*space, **options)


def fill(world: Database, embedder: Any, *space: str, **options: Any) -> int:
    added = 0
    while True:
        done = step(world, embedder, *space, **options)
        added += done.added
        if not done.remaining:
            return added


def status(world: Database) -> dict[str, tuple[str, int, int | None]]:
    with operating(world) as o:
        return {one.space: (one.state, one.documents, one.missing) for one in o.space_status("a")}


def vectors(world: Database, space: str) -> dict[tuple[str, int], str]:
    """What the database keeps, by document and chunk."""
    with world.superuser() as superuser:
        rows = superuser.execute(
            """
            select d.document, v.chunk_no, coalesce(v.embedding::text, v.half::text)
              from pgrag_data.chunk_vec v
              join pgrag_data.embedding_space s using (tenant_id, space_id)
              join pgrag_data.revision r using (tenant_id, revision_id)
              join pgrag_data.document d using (tenant_id, document_id)
             where s.space = %s
            """,
            (space,),
        ).fetchall()
    return {(key, number): vector for key, number, vector in rows}


def refused(call: Callable[[], object]) -> PgragError:
    with pytest.raises(PgragError) as error:
        call()
    return error.value


@pytest.mark.contract("E2")
def test_an_encoder_is_changed_beside_the_work_of_others(world: Database, tmp_path: Path) -> None:
    with reading(world, Old()) as r:
        assert (r.next_space(), r.space().space) == (None, "toy")
    assert refused(lambda: operate(world, "switch_space", "new")).code == "RG416"
    assert operate(world, "build_space", "new") and not operate(world, "build_space", "new")
    assert status(world) == {"toy": ("active", 9, 0), "new": ("next", 0, 9)}

    # Filled in batches; one that is killed leaves nothing, and what was before it stays.
    def kill(call: int) -> None:
        if call == 3:
            with world.superuser() as superuser:
                superuser.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app_writer'"
                )

    killed = New(before=kill)
    with pytest.raises(psycopg.OperationalError):
        fill(world, killed, limit=4)
    kept = vectors(world, "new")
    assert len(kept) == 8 and len(killed.texts) == 12
    new = New()
    assert step(world, new, limit=4) == Filled(space="new", added=4, remaining=True)
    assert fill(world, new, limit=4) == len(vectors(world, "toy")) - 12
    assert kept.items() <= vectors(world, "new").items() and vectors(world, "new").keys() == vectors(world, "toy").keys()
    assert step(world, new) == Filled(space="new", added=0, remaining=False)
    assert status(world) == {"toy": ("active", 9, 0), "new": ("next", 9, 0)}

    # A document that is new has both; one that was encoded for the old space alone is missing, and found by the next step.
    (tmp_path / "tenth.md").write_text("---\nreaders: [everyone]\n---\n# Tenth\n\nNew in both.\n", encoding="utf-8")
    assert [one.document for one in folder(world, tmp_path, also=new).created] == ["tenth.md"]
    assert status(world)["new"] == ("next", 10, 0)
    ingest(world, "eleventh.md", "Only in the old one.")
    assert status(world)["new"] == ("next", 10, 1)
    assert "documents: 1" in refused(lambda: operate(world, "switch_space", "new")).detail
    assert fill(world, new) == 1 and new.texts[-1] == "Only in the old one."

    # Measured before it is switched to: by name, exactly and as it comes.
    with reading(world, New()) as r:
        named = r.search("topic 3", mode="dense", space="new")
        assert named.policy["space"] == "new"
        exact = r.search("topic 3", mode="dense", space="new", isolation="strict")
        assert [hit.chunk_id for hit in exact.hits] == [hit.chunk_id for hit in named.hits] != []
        assert r.search("topic 3", space="new", probes=["topic 4"]).status == "evidence"
        assert r.packet("topic 3", space="new").status == "evidence"
    assert refused(lambda: _search(world, New())).code == "RG305"

    assert operate(world, "switch_space", "new") and not operate(world, "switch_space", "new")
    assert status(world) == {"toy": ("next", 11, 0), "new": ("active", 11, 0)}
    assert _search(world, New()).policy["space"] == "new"
    assert refused(lambda: _search(world, Old())).code == "RG305"
    assert _search(world, Old(), space="toy").policy["space"] == "toy"  # whoever has not heard of it
    assert ingest(world, "twelfth.md", "After the switch.", Old(), also=New()).activated  # the two change places
    assert status(world) == {"toy": ("next", 12, 0), "new": ("active", 12, 0)}

    before = _search(world, Old(), space="toy")
    assert operate(world, "switch_space", "toy")
    after = _search(world, Old())
    assert [hit.chunk_id for hit in after.hits] == [hit.chunk_id for hit in before.hits]
    assert refused(lambda: operate(world, "retire_space", "toy")).code == "RG416"
    assert operate(world, "retire_space", "new") and not operate(world, "retire_space", "new")
    assert refused(lambda: operate(world, "build_space", "new")).code == "RG416"
    assert status(world)["new"] == ("retired", 12, None)
    assert ingest(world, "thirteenth.md", "One space again.", Old(), also=New()).activated


@pytest.mark.contract("E2")
def test_maintenance_deletes_what_is_retired(world: Database) -> None:
    def maintain() -> MaintenanceStep:
        with operating(world) as o:
            return o.maintain()

    operate(world, "build_space", "new")
    added = fill(world, New())
    operate(world, "retire_space", "new")
    done = maintain()
    while done.action == "fold":
        done = maintain()
    assert (done.action, done.rows) == ("purge", added) and vectors(world, "new") == {}
    assert maintain().action == "idle" and len(vectors(world, "toy")) == added


@pytest.mark.contract("E2", "B9")
def test_what_is_unchanged_is_not_encoded_again_after_a_switch(world: Database, tmp_path: Path) -> None:
    """A revision is its content, however it is encoded: also one that has its name from its file."""
    (tmp_path / "named.md").write_text("---\nreaders: [everyone]\nrevision: v1\n---\n# Named\n", encoding="utf-8")
    folder(world, tmp_path)
    operate(world, "build_space", "new")
    fill(world, New())
    operate(world, "switch_space", "new")
    new = New()
    report = folder(world, tmp_path, new, also=Old())
    assert (len(report.unchanged), report.failed, new.texts) == (10, [], [])


def _search(world: Database, embedder: Any, **options: Any) -> pgrag.SearchResult:
    with reading(world, embedder) as r:
        return r.search("topic 3", mode="dense", **options)


@pytest.mark.contract("E2")
async def test_asynchronously(world: Database, tmp_path: Path) -> None:
    async with await pgrag.connect_async(world.dsn("app_operator")) as connection:
        async with pgrag.async_operator(connection) as o:
            assert await o.build_space("a", "new")
        new = New()
        put_pages(tmp_path, {"other.md": "Another page."})
        async with await pgrag.connect_async(world.dsn("app_writer")) as writing:
            token = writer_token(world, "a")
            report = await ingest_folder_async(
                writing, token, tmp_path, embedder=Old(), also=new, chunker=CHUNKER, tokenizer=WordTokenizer()
            )
            assert len(report.created) == 1 and new.texts == ["Another page.\n"]
            async with pgrag.async_writer(writing, token, embedder=new) as w:
                assert (await w.next_space()).space == "new"
                first = await w.missing_embeddings("new", 2)
                assert [one.chunk_no for one in first] == [1, 2] and first[0].text in PAGES["page-0.md"]
                done = await w.fill_space()
                assert done.added == len(vectors(world, "toy")) - 1 and not done.remaining
        async with pgrag.async_operator(connection) as o:
            assert [one.missing for one in await o.space_status("a")] == [0, 0]
            assert await o.switch_space("a", "new") and await o.retire_space("a", "toy")


def test_a_filled_vector_is_that_of_ingestion(world: Database) -> None:
    """Title and section are no part of what is encoded, in either way."""
    operate(world, "build_space", "new")
    ingest(world, "both.md", PAGES["page-0.md"], also=New())
    fill(world, New())
    found = vectors(world, "new")
    same = {number: vector for (key, number), vector in found.items() if key == "both.md"}
    with writing(world) as w:
        assert w.missing_embeddings("new") == []
    assert len(same) > 1
    assert same == {number: vector for (key, number), vector in found.items() if key == "page-0.md"}


@pytest.mark.contract("E1")
def test_what_cannot_be_filled(world: Database) -> None:
    new = New()
    for embedder, arguments, kind, code in (
        (new, (), Conflict, "RG416"),  # nothing is beside the active one
        (new, ("new",), Conflict, "RG416"),
        (None, (), EmbeddingError, "RG305"),
    ):
        error = refused(lambda e=embedder, a=arguments: step(world, e, *a))
        assert (type(error), error.code) == (kind, code) and error.hint
    operate(world, "build_space", "new")
    for embedder, arguments, code in (
        (Old(), (), "RG305"),
        (new, ("toy",), "RG305"),
        (New(replace(NEW, model_revision="3")), (), "RG305"),
        (new, ("nowhere",), "RG416"),
    ):
        assert refused(lambda e=embedder, a=arguments: step(world, e, *a)).code == code
    assert new.texts == [] and vectors(world, "new") == {}

    class Short(New):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return super().embed_documents(texts)[:, :3]

    assert "shape" in refused(lambda: step(world, Short())).detail
    for limit in (0, 2001, True):
        assert refused(lambda n=limit: write(world, "missing_embeddings", "new", n)).code == "RG408"
        assert refused(lambda n=limit: step(world, new, limit=n)).code == "RG408"
    operate(world, "put_space", replace(NEW, space="third"))
    assert refused(lambda: operate(world, "build_space", "third")).code == "RG416"  # one at a time


def test_a_second_embedder_of_ingestion(world: Database) -> None:
    new = New()
    assert ingest(world, "x.md", "As before.", also=new).activated and new.texts == []  # no space is beside the active one
    error = refused(lambda: _ingest_without_first(world, new))
    assert (type(error), error.code) == (InvalidInput, "RG408")
    operate(world, "build_space", "new")
    wrong = New(replace(NEW, model="other"))
    error = refused(lambda: ingest(world, "y.md", "Not of the space.", also=wrong))
    assert error.code == "RG305" and "the space beside the active one" in error.message and wrong.texts == []
    assert refused(lambda: ingest(world, "y.md", "Not of the space.", new)).code == "RG305"
    done = ingest(world, "y.md", "Staged, and in both. " * 40, also=new, activate=False)
    assert done.chunks > 1 and len(new.texts) == done.chunks
    again = ingest(world, "y.md", "Staged, and in both. " * 40, also=new)
    assert again.activated and not again.created and len(new.texts) == done.chunks

    class Zero(New):
        def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.zeros((len(texts), 4), dtype=np.float32)

    error = refused(lambda: ingest(world, "z.md", "Nothing of it is kept.", also=Zero()))
    assert error.code == "RG305"
    with writing(world) as w:
        assert "z.md" not in {one.document for one in w.documents()}


def _ingest_without_first(world: Database, also: Any) -> Ingested:
    with writing(world) as w:
        return w.ingest(document("x.md", "No first."), chunker=CHUNKER, tokenizer=WordTokenizer(), also=also)


@pytest.mark.contract("C6")
def test_text_goes_where_its_source_allows_it_to_go(world: Database) -> None:
    operate(world, "build_space", "new")
    far = New()
    far.processor = "encoder.example"
    for call in (
        lambda: step(world, far),
        lambda: step(world, far, "new"),
        lambda: ingest(world, "x.md", "Not to be sent.", also=far),
    ):
        error = refused(call)
        assert (type(error), error.code) == (InvalidInput, "RG410") and far.texts == []
    with operating(world) as o:
        o.put_source("a", "handbook", processors=["encoder.example"])
    assert step(world, far).added == len(far.texts) == len(vectors(world, "toy"))
    assert ingest(world, "x.md", "To be sent.", also=far).activated


def test_earlier_revisions_are_filled_for_rollbacks(world: Database) -> None:
    ingest(world, "page-0.md", "The second one of page 0.")
    operate(world, "build_space", "new")
    new = New()
    in_force = fill(world, new)
    assert in_force < len(vectors(world, "toy"))
    operate(world, "switch_space", "new")
    assert fill(world, new, "new") == 0  # the active one, by name
    earlier = fill(world, new, "new", retained=True)
    assert earlier > 0
    with writing(world) as w:
        names = [one.revision for one in w.revisions("page-0.md") if one.state != "active"]
        assert w.activate("page-0.md", names[0])


def test_embeddings_by_hand(world: Database) -> None:
    operate(world, "build_space", "new")
    text = "A tiny passage. "
    chunks = [Chunk(text, n * len(text), (n + 1) * len(text)) for n in range(1200)]
    rows = New().embed_documents([text] * 1200)
    with writing(world) as w:
        name = w.stage("many.md", text * 1200, space="toy").revision
        w.add_chunks("many.md", name, chunks, np.ones((1200, 3)), [3] * 1200)
    assert refused(lambda: write(world, "add_embeddings", "many.md", name, "new", rows)).code == "RG405"
    with writing(world) as w:
        w.verify("many.md", name, 1200)
        some = w.add_embeddings("many.md", name, "new", rows[1100:], first=1101)
        assert some == Completeness(complete=False, missing=1100)
        assert w.add_embeddings("many.md", name, "new", rows) == Completeness(complete=True, missing=0)
        assert w.add_embeddings("many.md", name, "new", rows[:5].tolist()).complete
        assert w.activate("many.md", name)
    for given, space, first, code in (
        (rows[:1], "nowhere", 1, "RG401"),
        (rows[:, :3], "new", 1, "RG403"),
        (-rows[:1], "new", 1, "RG403"),
        (rows[:2], "new", 1200, "RG408"),
        (rows[:0], "new", 1, "RG408"),
        (rows[0], "new", 1, "RG305"),
        ([[1.0, float("nan"), 0, 0]], "new", 1, "RG305"),
    ):
        error = refused(lambda g=given, s=space, f=first: write(world, "add_embeddings", "many.md", name, s, g, first=f))
        assert error.code == code and error.hint


def test_runs_of_chunks() -> None:
    def missing(key: str, revision: str, number: int) -> MissingEmbedding:
        return MissingEmbedding(
            document=key, revision=revision, chunk_no=number, title="", section="", language="en", text=""
        )

    given = [
        *(missing("a", "1", n) for n in (1, 2, 4)),
        *(missing("a", "2", n) for n in (5, 6)),
        *(missing("b", "2", n) for n in (7,)),
    ]
    assert [(index, len(run)) for index, run in _requests.runs(given)] == [(0, 2), (2, 1), (3, 2), (5, 1)]
    assert list(_requests.runs([])) == []


@pytest.mark.contract("E4")
def test_a_space_of_half_precision_of_the_same_model(world: Database) -> None:
    """Its vectors are the same embedder's, so both embedders are one, and readers need no other after the switch."""
    half = replace(TOY, space="toy-half", storage="half")
    operate(world, "put_space", half)
    operate(world, "build_space", "toy-half")
    assert {one.space: one.storage for one in operate(world, "spaces")}["toy-half"] == "half"
    old = Old()
    assert fill(world, old) == len(vectors(world, "toy"))
    before = _search(world, old)
    operate(world, "switch_space", "toy-half")
    after = _search(world, old)
    assert after.policy["space"] == "toy-half"
    assert [hit.chunk_id for hit in after.hits] == [hit.chunk_id for hit in before.hits]
    assert ingest(world, "x.md", "In both.", old, also=old).activated
    assert status(world) == {"toy": ("next", 10, 0), "new": ("registered", 0, 10), "toy-half": ("active", 10, 0)}
    operate(world, "put_space", replace(TOY, space="wide", dimension=4000, storage="half"))
    assert refused(lambda: operate(world, "put_space", replace(TOY, space="wider", dimension=2001))).code == "RG407"
    for wrong in (replace(TOY, space="w", dimension=4001, storage="half"), replace(TOY, space="w", storage="bit")):
        assert refused(lambda w=wrong: operate(world, "put_space", w)).code == "RG407"
