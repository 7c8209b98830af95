"""Staging, chunks and verification: nothing shows before it is activated, every fault is named, nothing is overwritten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, add, call, documents, one, refused
from tests.support import Database

DENSE = {"embedding": [1, 0, 0], "space": "toy"}
BODY = "Thirty days. Unopened items. Ask the lead."
TEXTS = ["Thirty days. ", "Unopened items. ", "Ask the lead."]
UNIT = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def stage(writer: psycopg.Connection[Any], document: str, body: str = BODY, revision: str = "v1", **more: Any) -> tuple[str, str, bool]:
    return call(writer, "stage_revision", document, body, revision=revision, **more)[0]


def verify(writer: psycopg.Connection[Any], document: str, expected: int | None, revision: str = "v1") -> tuple[str, int, list[str]]:
    return call(writer, "verify_revision", document, revision, expected)[0]


def answers(world: World, reader: str = "alice") -> str:
    """All that a reader is told, in every mode and on every path: bytes to compare."""
    told: list[Any] = [world.search("thirty days unopened", mode, reader=reader, **(DENSE if mode != "lexical" else {})) for mode in ("lexical", "dense", "hybrid")]
    told.append(world.search("thirty days unopened", reader=reader, as_of="2026-01-01"))
    packet = world.packet("thirty days unopened", reader=reader)
    told.append({key: value for key, value in packet.items() if key not in ("issued_at", "seal")})
    return json.dumps(told)


@pytest.fixture(scope="module")
def desk(module_database: Database) -> World:
    return World(module_database, "desk")


@pytest.fixture
def writer(desk: World) -> Iterator[psycopg.Connection[Any]]:
    """The handbook's writer, in a transaction that is undone."""
    with desk.writer() as connection, connection.transaction(force_rollback=True):
        yield connection


# -- Invisible until activated ------------------------------------------------------------------------


@pytest.mark.contract("B2")
@pytest.mark.parametrize("of", ["another document", "the same document"])
def test_staged_and_verified_are_invisible(world: World, of: str) -> None:
    world.put("active.md", "Thirty days for unopened items.", vectors=[[1, 0, 0]], revision="v0")
    before = answers(world)
    document = "active.md" if of == "the same document" else "new.md"
    with world.writer() as writer:
        stage(writer, document, space="toy", effective_from="2020-01-01")
        if document == "new.md":
            call(writer, "set_access", document, ["everyone"])
    assert answers(world) == before
    with world.writer() as writer:
        add(writer, document, "v1", TEXTS, vectors=UNIT)
    assert answers(world) == before
    with world.writer() as writer:
        assert verify(writer, document, 3) == ("verified", 3, [])
    assert answers(world) == before
    with world.reader() as reader:
        assert one(reader, "can_read", "handbook", "new.md") is False
        with refused(reader, "RG401"):
            one(reader, "excerpt", chunk_id(world.tenant, "handbook", document, "v1", 13, 29, TEXTS[1]))
    with world.writer() as writer:
        call(writer, "activate", document, "v1")
    assert answers(world) != before  # control
    with world.reader() as reader:
        assert one(reader, "excerpt", chunk_id(world.tenant, "handbook", document, "v1", 13, 29, TEXTS[1]))["text"] == TEXTS[1]


# -- Verification -------------------------------------------------------------------------------------

# What is wrong, and what of it is said. Each row changes one thing of a revision that verifies.
FAULTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing", {}, []),
    ("one chunk missing", {"texts": TEXTS[:2]}, ["chunk count: 2", "span coverage: 0 gaps; the last span ends at 29 of 42", "span text"]),
    ("fewer expected", {"expected": 2}, ["chunk count: 3 chunks up to number 3, 2 expected"]),
    ("null expected", {"expected": None}, ["chunk count"]),
    ("numbers from 2", {"first": 2}, ["chunk count: 3 chunks up to number 4"]),
    ("a gap", {"texts": [TEXTS[0], TEXTS[2]], "starts": [0, 29], "expected": 2}, ["span coverage: 1 gaps", "span text"]),
    ("a gap at the start", {"texts": TEXTS[1:], "starts": [13, 29], "expected": 2}, ["span coverage: 1 gaps", "span text"]),
    ("a gap, declared", {"texts": [TEXTS[0], TEXTS[2]], "starts": [0, 29], "expected": 2, "skips": ["[13,29)"]}, []),
    ("a gap at the start, declared", {"texts": TEXTS[1:], "starts": [13, 29], "expected": 2, "skips": ["[0,13)"]}, []),
    ("a gap at the end, declared", {"texts": TEXTS[:2], "expected": 2, "skips": ["[29,42)"]}, []),
    ("a skip beyond the end", {"texts": TEXTS[:2], "expected": 2, "skips": ["[29,43)"]}, ["span coverage"]),
    ("a skip one short", {"texts": TEXTS[:2], "expected": 2, "skips": ["[29,41)"]}, ["span coverage", "span text"]),
    ("a skip without end", {"texts": TEXTS[:1], "expected": 1, "skips": ["[13,)"]}, ["span coverage", "span text"]),
    ("an empty skip", {"texts": TEXTS[:1], "expected": 1, "skips": ["empty"]}, ["span coverage", "span text"]),
    ("an overlap", {"texts": [BODY[:20], BODY[15:30], BODY[25:]], "starts": [0, 15, 25]}, []),
    ("an overlap that differs", {"texts": [BODY[:20], "xxxxx" + BODY[20:30], BODY[25:]], "starts": [0, 15, 25]}, ["span text"]),
    ("an overlap from before the one before", {"texts": [BODY[:20], BODY[5:30], BODY[2:]], "starts": [0, 5, 2]}, ["span order", "span text"]),
    ("a chunk inside another", {"texts": [BODY[:20], BODY[5:10], BODY[20:]], "starts": [0, 5, 20]}, ["span coverage", "span order", "span text"]),
    ("text that differs", {"texts": [TEXTS[0], "unopened items. ", TEXTS[2]]}, ["span text"]),
    ("text trimmed, span not", {"texts": [TEXTS[0].strip(), TEXTS[1], TEXTS[2]], "starts": [0, 13, 29], "ends": [13, 29, 42]}, ["span length: 1 chunks", "span text"]),
    ("two texts exchanged", {"texts": ["Ask the lead.", TEXTS[1], "Thirty days. "]}, ["span text"]),
    ("order turned round", {"texts": TEXTS[::-1], "starts": [29, 13, 0]}, ["span order: 2"]),
    ("order turned round over a skip", {"texts": [TEXTS[2], TEXTS[0]], "starts": [29, 0], "expected": 2, "skips": ["[13,29)"]}, ["span order"]),
    ("an end beyond the text", {"texts": [*TEXTS[:2], "Ask the lead.!"]}, ["span coverage", "span text"]),
    ("no vector", {"space": "toy", "vectors": [[1, 0, 0], None, [0, 0, 1]]}, ["embedding count: 2 for 3"]),
    ("a dimension", {"space": "toy", "vectors": [[1, 0, 0], [0, 1], [0, 0, 1]]}, ["embedding dimension: 1"]),
    ("a zero vector", {"space": "toy", "vectors": [[1, 0, 0], [0, 0, 0], [0, 0, 1]]}, ["zero vectors: 1"]),
    ("a zero vector where it is skipped", {"space": "skip", "vectors": [[1, 0, 0], [0, 0, 0], [0, 0, 1]]}, []),
    ("not of length 1", {"space": "unit", "vectors": [[1, 0, 0], [0, 1.002, 0], [0, 0, 0.5]]}, ["normalisation: 2"]),
    ("nearly of length 1", {"space": "unit", "vectors": [[1, 0, 0], [0, 1.0005, 0], [0.6, 0.8, 0]]}, []),
    ("not of length 1 where that is nothing", {"space": "toy", "vectors": [[9, 0, 0], [0, 1.002, 0], [0, 0, 0.5]]}, []),
    ("a vector too short to compare", {"space": "toy", "vectors": [[1, 0, 0], [1e-30, 0, 0], [0, 0, 1]]}, ["zero vectors"]),
    ("a vector too long to compare", {"space": "toy", "vectors": [[1, 0, 0], [1e30, 0, 0], [0, 0, 1]]}, ["normalisation"]),
    ("everything", {"texts": ["thirty days. ", TEXTS[2]], "starts": [1, 29], "ends": [13, 42], "space": "unit", "vectors": [[0, 0], None]},
     ["chunk count: 2", "span length: 1", "span coverage: 2 gaps", "span text", "embedding count: 1 for 2", "embedding dimension: 1", "zero vectors: 1"]),
]


@pytest.fixture(scope="module")
def spaces(module_database: Database) -> World:
    world = World(module_database, "verification")
    with module_database.role("operator") as operator:
        call(operator, "put_space", world.tenant, "unit", "m", "1", 3)
        call(operator, "put_space", world.tenant, "skip", "m", "1", 3, normalisation="none", zero_vectors="skip")
    return world


@pytest.mark.contract("B3", "E3")
@pytest.mark.parametrize("change, expected", [pytest.param(change, expected, id=name) for name, change, expected in FAULTS])
def test_each_fault_is_named(spaces: World, change: dict[str, Any], expected: list[str]) -> None:
    row = {"texts": TEXTS, "starts": None, "ends": None, "first": 1, "expected": 3, "vectors": None} | change
    with spaces.writer() as writer, writer.transaction(force_rollback=True):
        stage(writer, "r.md", **{key: row[key] for key in ("space", "skips") if key in row})
        add(writer, "r.md", "v1", row["texts"], row["starts"], row["ends"], first=row["first"], vectors=row["vectors"])
        state, chunks, faults = verify(writer, "r.md", row["expected"])
        assert len(faults) == len(expected), faults
        assert all(any(fault.startswith(start) for fault in faults) for start in expected), faults
        assert (state, chunks) == ("staged" if expected else "verified", len(row["texts"]))
        # What failed is staged still, says the same again, and cannot be activated.
        assert verify(writer, "r.md", row["expected"]) == (state, chunks, faults)
        assert call(writer, "list_revisions", "r.md")[0][1] == state
        elsewhere = row.get("space", "toy") not in ("toy", None)  # not in the active space
        with refused(writer, "RG405" if expected else "RG416" if elsewhere else None):
            call(writer, "activate", "r.md", "v1")


@pytest.mark.contract("B3", "D3")
@pytest.mark.parametrize("body, texts, empty", [("", [], True), (" \n\t\u00a0", [], True), (" \n\t ", [" \n\t "], True), (BODY, [], True), ("x", ["x"], False), (".", ["."], False)])
def test_an_empty_extraction_is_reported(writer: psycopg.Connection[Any], body: str, texts: list[str], empty: bool) -> None:
    stage(writer, "empty.md", body)
    if texts:
        add(writer, "empty.md", "v1", texts)
    state, _, faults = verify(writer, "empty.md", len(texts))
    assert (state, faults[:1]) == (("staged", ["empty extraction: there is no text to find"]) if empty else ("verified", []))


@pytest.mark.contract("B3", "D2")
@pytest.mark.parametrize("unit", ["code points", "UTF-16", "bytes", "what a reader sees"])
def test_spans_are_code_points(writer: psycopg.Connection[Any], unit: str) -> None:
    """With characters outside the basic plane, and with letters of two code points, only one way of counting fits."""
    texts = ["😀 Ru\u0308ckgabe: ", "thirty 👩\u200d🚀 days", " — é!"]
    measure = {"code points": len, "UTF-16": lambda text: len(text.encode("utf-16-le")) // 2, "bytes": lambda text: len(text.encode()),
               "what a reader sees": lambda text: len(text) - text.count("\u0308") - 2 * text.count("\u200d")}[unit]
    ends = [sum(map(measure, texts[: n + 1])) for n in range(3)]
    stage(writer, "u.md", "".join(texts))
    add(writer, "u.md", "v1", texts, [0, *ends[:2]], ends)
    state, _, faults = verify(writer, "u.md", 3)
    assert state == ("verified" if unit == "code points" else "staged")
    assert bool(faults) == (unit != "code points")


# -- Nothing changes afterwards -----------------------------------------------------------------------


@pytest.mark.contract("B1", "B9")
def test_the_same_again_is_nothing_and_other_content_is_refused(world: World) -> None:
    with world.writer() as writer:
        assert stage(writer, "r.md", space="toy") == ("v1", "staged", True)
        assert stage(writer, "r.md", space="toy") == ("v1", "staged", False)
        assert add(writer, "r.md", "v1", TEXTS[:2], vectors=UNIT[:2]) == 2
        assert add(writer, "r.md", "v1", TEXTS[:2], vectors=UNIT[:2]) == 0  # a retry
        assert add(writer, "r.md", "v1", TEXTS, vectors=UNIT) == 1  # a retry of more than was lost
        with refused(writer, "RG403"):
            add(writer, "r.md", "v1", ["Ninety days. "], vectors=UNIT[:1])
        with refused(writer, "RG403"):
            add(writer, "r.md", "v1", TEXTS[:1], first=7, vectors=UNIT[:1])  # the same chunk under two numbers
        assert verify(writer, "r.md", 3)[0] == "verified"
        assert verify(writer, "r.md", 3) == ("verified", 3, [])  # again
        assert stage(writer, "r.md", space="toy") == ("v1", "verified", False)
        assert add(writer, "r.md", "v1", TEXTS, vectors=UNIT) == 0
        for text, first in (("Ninety days. ", 1), ("More.", 4)):
            with refused(writer, "RG403"):
                add(writer, "r.md", "v1", [text], first=first, vectors=UNIT[:1])
        assert verify(writer, "r.md", 3)[1] == 3
    with world.database.superuser() as superuser:  # nothing was written twice
        counts = superuser.execute("""select count(*), count(distinct chunk_id) from pgrag_data.chunk join pgrag_data.tenant using (tenant_id) where tenant = %s
                                      union all select count(*), count(distinct chunk_no) from pgrag_data.chunk_vec join pgrag_data.tenant using (tenant_id) where tenant = %s""",
                                   (world.tenant, world.tenant)).fetchall()
    assert counts == [(3, 3), (3, 3)]


@pytest.mark.contract("B1", "B9")
@pytest.mark.parametrize("change", [
    {"body": BODY + " "}, {"title": "T"}, {"language": "de"}, {"product": "p"}, {"version": "2"}, {"tags": ["a"]}, {"dated": "2024-01-01"}, {"effective_from": "2024-01-01"},
    {"effective_to": "2034-01-01"}, {"parser": "other"}, {"chunker": "other"}, {"tokenizer": "other"}, {"space": "toy"}, {"skips": ["[0,1)"]}, {"product": ""},
])
def test_everything_that_shapes_a_revision_is_its_content(writer: psycopg.Connection[Any], change: dict[str, Any]) -> None:
    stage(writer, "r.md")
    arguments = {"body": BODY} | change
    with refused(writer, "RG403"):
        stage(writer, "r.md", arguments.pop("body"), **arguments)
    arguments = {"body": BODY} | change
    unnamed = stage(writer, "r.md", arguments.pop("body"), revision=None, **arguments)  # named by its content
    plain = stage(writer, "r.md", revision=None)
    assert unnamed[2] and plain[2] and len(unnamed[0]) == 16 and unnamed[0] != plain[0]
    assert stage(writer, "r.md", revision=None) == (plain[0], "staged", False)


@pytest.mark.contract("B1", "B9")
def test_tags_with_odd_characters_are_not_mistaken_for_others(writer: psycopg.Connection[Any]) -> None:
    """The hash that decides "the same content" tells one tag from two."""
    stage(writer, "r.md", tags=["a", "b"])
    for tags in (["a\x1fb"], ["a,b"], ["{a,b}"], ["b", "a"]):
        with refused(writer, "RG403"):
            stage(writer, "r.md", tags=tags)
    assert stage(writer, "r.md", tags=["a", "b"])[2] is False


@pytest.mark.contract("B1", "B9")
@pytest.mark.parametrize("change", [{"vectors": [[0, 1, 0]]}, {"sections": ["Elsewhere"]}, {"pages": [2]}, {"languages": ["de"]}])
def test_a_chunk_that_differs_in_anything_is_another(writer: psycopg.Connection[Any], change: dict[str, Any]) -> None:
    """Silently keeping the old one would leave a retry that was meant to repair it without effect."""
    chunk: dict[str, Any] = {"vectors": [[1, 0, 0]], "sections": ["Here"], "pages": [1], "languages": ["en"]}
    stage(writer, "r.md", space="toy")
    assert add(writer, "r.md", "v1", [BODY], **chunk) == 1
    assert add(writer, "r.md", "v1", [BODY], **chunk) == 0
    with refused(writer, "RG403"):
        add(writer, "r.md", "v1", [BODY], **(chunk | change))


@pytest.mark.contract("B9")
def test_a_missing_embedding_can_be_added(writer: psycopg.Connection[Any]) -> None:
    """A retry after a failed encoder neither repeats nor loses: what verification missed can be sent."""
    stage(writer, "r.md", space="toy")
    add(writer, "r.md", "v1", TEXTS, vectors=[UNIT[0], None, UNIT[2]])
    assert verify(writer, "r.md", 3)[2] == ["embedding count: 2 for 3 chunks"]
    add(writer, "r.md", "v1", TEXTS, vectors=UNIT)
    assert verify(writer, "r.md", 3)[0] == "verified"


# -- Identity -----------------------------------------------------------------------------------------


def chunk_id(*parts: Any) -> str:
    """The stated recipe: SHA-256 over tenant, source, document, revision, span and text, each with its length in bytes in front."""
    return hashlib.sha256(",".join(f"{len(str(part).encode())}:{part}" for part in parts).encode()).hexdigest()


@pytest.mark.contract("B1", "D1")
def test_same_name_same_text_distinct_ids(module_database: Database) -> None:
    """Two tenants, two sources, two folders, two revisions, two spans: never one id."""
    expected = {}
    for tenant in ("ids-a", "ids-b"):
        world = World(module_database, tenant)
        for source in ("handbook", "wiki"):
            for document in ("refund.md", "old/refund.md"):
                for revision in ("v1", "v2"):
                    world.put(document, ["Alike. ", "Alike. ", "Räume 😀"], source=source, revision=revision, activate=revision == "v2", readers=["everyone"])
                    if revision == "v2":
                        for start, text in ((0, "Alike. "), (7, "Alike. "), (14, "Räume 😀")):
                            expected[chunk_id(tenant, source, document, revision, start, start + len(text), text)] = (tenant, source, document, start)
        found = {hit["chunk_id"]: (tenant, hit["source"], hit["document"], hit["span_start"]) for hit in world.search("alike räume", k=100)["hits"]}
        assert found == {name: place for name, place in expected.items() if place[0] == tenant}
    assert len(expected) == 2 * 2 * 2 * 3
    with module_database.superuser() as superuser:
        total, distinct = superuser.execute("select count(*), count(distinct chunk_id) from pgrag_data.chunk join pgrag_data.tenant using (tenant_id) where tenant like 'ids-%'").fetchone()
    assert (total, distinct) == (48, 48)  # with those of v1
    # Control: the recipe is injective where a plain concatenation is not.
    assert chunk_id("a", "bc") != chunk_id("ab", "c")


@pytest.mark.contract("D1")
def test_ids_survive_ingestion_into_another_database(database: Database, module_database: Database) -> None:
    ids = []
    for one_database, before in ((module_database, 0), (database, 3)):
        world = World(one_database, "moved")
        for n in range(before):
            world.put(f"other{n}.md", "Something else, to move every internal number.")
        world.put("refund.md", "Refunds: thirty days.", title="Refunds")
        ids.append([hit["chunk_id"] for hit in world.search("refunds")["hits"]])
    assert ids[0] == ids[1] and len(ids[0]) == 1


@pytest.mark.contract("B1", "C6")
@pytest.mark.parametrize("key, good", [
    ("policies/refund.md", True), ("a b.md", True), ("urn:isbn:978", True), ("Ünï/文書.md", True), ("...", True), ("a..b/c", True), ("x" * 1000, True), ("-", True),
    ("", False), (None, False), ("/etc/passwd", False), ("//server/x", False), ("~/x", False), ("C:/x", False), ("c:x", False), ("file:///x", False), ("..", False), ("../x", False), ("a/../b", False),
    ("a/..", False), ("a\\b", False), ("a\nb", False), ("a\tb", False), ("a\x7fb", False), (" a", False), ("a ", False), ("x" * 1001, False),
    ("FILE:///x", False), ("\u00a0a", False), ("a\u2028b", False),
    ("".join(chr(0x4E00 + (n * 7919) % 20000) for n in range(1000)), False),  # 3000 bytes, more than an index takes
])
def test_document_keys(writer: psycopg.Connection[Any], key: str | None, good: bool) -> None:
    with refused(writer, None if good else "RG406"):
        assert call(writer, "stage_revision", key, BODY)[0][2] is True


@pytest.mark.contract("B1")
@pytest.mark.parametrize("name, good", [
    ("v1", True), ("Ünïcode 文書", True), ("x" * 200, True), ("", False), (" v1", False), ("v1 ", False), ("v\n1", False), ("v\x1b[0m", False), ("x" * 201, False),
    ("\u00a0v1", False), ("v1\u2003", False), ("v\u202e1", False), ("v\u200b1", False),
])
def test_names(desk: World, name: str, good: bool) -> None:
    code = None if good else "RG406"
    with desk.writer() as writer, refused(writer, code), writer.transaction(force_rollback=True):
        call(writer, "stage_revision", "r.md", BODY, revision=name)
    with desk.admin() as admin, refused(admin, code), admin.transaction(force_rollback=True):
        call(admin, "put_principal", name, "user")
    with desk.role("operator") as operator, operator.transaction(force_rollback=True):
        for function, *arguments in (("put_tenant", name), ("put_source", "desk", name), ("put_source", "desk", "s", [name]), ("put_space", "desk", name, "m", "1", 3),
                                     ("put_space", "desk", "s", name, "1", 3), ("put_space", "desk", "t", "m", name, 3)):
            with refused(operator, code):
                call(operator, function, *arguments)


@pytest.mark.contract("B1", "A9")
def test_a_writer_writes_to_its_own_source_only(world: World, module_database: Database) -> None:
    other = World(module_database, world.tenant + "-other")
    other.put("theirs.md", "Theirs.")
    world.put("wiki.md", "In the wiki.", source="wiki", revision="v1")
    with world.writer("handbook") as writer:
        for document in ("wiki.md", "theirs.md", "absent.md"):
            for function, arguments in (("add_chunks", ("v1", 1, ["x"], [0], [1], [1])), ("verify_revision", ("v1", 1)), ("set_access", (["everyone"],)), ("activate", ("v1",)),
                                        ("rollback", ()), ("delete_document", ()), ("list_revisions", ())):
                with refused(writer, "RG401", "no such document"):
                    call(writer, function, document, *arguments)
        for function, arguments in (("set_access", (["everyone"],)), ("activate", ("v1",)), ("rollback", ()), ("delete_document", ()), ("list_revisions", ())):
            for source in ("wiki", "absent"):
                with refused(writer, "RG401", "no such source"):
                    call(writer, function, "wiki.md", *arguments, source=source)
        assert call(writer, "list_documents") == call(writer, "list_documents", "wiki") == []
        stage(writer, "wiki.md")  # the same name is another document
    assert documents(world.search("wiki")) == ["wiki.md"]
    with world.writer("wiki") as writer:  # control
        assert [row[:4] for row in call(writer, "list_documents")] == [("wiki", "wiki.md", "v1", ["everyone"])]
        assert one(writer, "delete_document", "wiki.md", source="wiki") is True


# -- Bounds -------------------------------------------------------------------------------------------


@pytest.mark.contract("B3")
@pytest.mark.parametrize("body, code", [("x" * 16777216, None), ("x" * 16777217, "RG408"), ("é" * 8388608, None), ("é" * 8388609, "RG408"), (None, "RG408")], ids=["16 MiB", "one more", "in two bytes", "in two bytes, one more", "null"])
def test_a_body_has_16_mib(writer: psycopg.Connection[Any], body: str | None, code: str | None) -> None:
    with refused(writer, code):
        call(writer, "stage_revision", "large.md", body, revision="v1")


@pytest.mark.contract("B3")
@pytest.mark.parametrize("arguments, code", [
    ({"title": None}, "RG408"), ({"title": "x" * 1001}, "RG408"), ({"tags": None}, "RG408"), ({"tags": [None]}, "RG408"), ({"skips": None}, "RG408"), ({"parser": None}, "RG408"),
    ({"language": None}, "RG406"), ({"language": "english language"}, "RG406"), ({"language": ""}, "RG406"), ({"language": "d"}, "RG406"), ({"language": "de_DE"}, "RG406"),
    ({"language": "en" + "-abcdefgh" * 1000}, "RG406"),
    ({"effective_from": "2024-01-01", "effective_to": "2024-01-01"}, "RG408"), ({"effective_from": "infinity"}, "RG408"), ({"effective_to": "-infinity"}, "RG408"), ({"effective_from": "0044-03-15 BC"}, "RG408"), ({"effective_to": "10000-01-01"}, "RG408"),
    ({"space": "nowhere"}, "RG401"), ({"revision": " "}, "RG406"),
    ({"title": "x" * 1000}, None), ({"language": "pt-BR"}, None), ({"effective_from": "-infinity", "effective_to": "infinity"}, None), ({"effective_from": "0001-01-01", "effective_to": "9999-12-31"}, None), ({"tags": []}, None), ({"space": "toy"}, None),
])
def test_what_a_revision_may_say_of_itself(writer: psycopg.Connection[Any], arguments: dict[str, Any], code: str | None) -> None:
    with refused(writer, code):
        call(writer, "stage_revision", "r.md", BODY, **arguments)


@pytest.mark.contract("B3")
@pytest.mark.parametrize("change, code", [
    ({"first": 0}, "RG408"), ({"first": -1}, "RG408"), ({"first": None}, "RG408"), ({"first": 1000001}, "RG408"), ({"first": 1000000}, None),
    ({"texts": []}, "RG408"), ({"texts": None}, "RG408"), ({"texts": [None]}, "RG408"), ({"texts": [""]}, "RG408"), ({"texts": ["x" * 32769], "ends": [32769]}, "RG408"), ({"texts": ["x" * 32768], "ends": [32768]}, None),
    ({"texts": ["x"] * 2001, "starts": list(range(2001)), "ends": list(range(1, 2002)), "tokens": [1] * 2001}, "RG408"),
    ({"texts": ["x"] * 2000, "starts": list(range(2000)), "ends": list(range(1, 2001)), "tokens": [1] * 2000}, None),
    ({"texts": ["😀" * 32000] * 132, "starts": list(range(132)), "ends": list(range(32000, 32132)), "tokens": [1] * 132}, "RG408"),  # 16.1 MiB
    ({"starts": [0, 1]}, "RG408"), ({"starts": None}, "RG408"), ({"starts": [None]}, "RG408"), ({"starts": [-1]}, "RG408"), ({"ends": [0]}, "RG408"), ({"ends": [None]}, "RG408"), ({"ends": []}, "RG408"),
    ({"tokens": [-1]}, "RG408"), ({"tokens": [None]}, "RG408"), ({"tokens": [0]}, None),
    ({"sections": []}, "RG408"), ({"sections": ["a", "b"]}, "RG408"), ({"sections": [None]}, None), ({"pages": [1, 2]}, "RG408"), ({"pages": [None]}, None),
    ({"languages": ["no language"]}, "RG408"), ({"languages": [None]}, None), ({"languages": ["de", "en"]}, "RG408"),
    ({"sections": ["long section " * 100_000]}, "RG408"),
    ({"embeddings": ["[1,0,0]"]}, "RG305"),
])
def test_batches_of_chunks(writer: psycopg.Connection[Any], change: dict[str, Any], code: str | None) -> None:
    row = {"first": 1, "texts": ["x"], "starts": [0], "ends": [1], "tokens": [1]} | change
    stage(writer, "r.md", "x" * 32768)
    with refused(writer, code):
        assert one(writer, "add_chunks", "r.md", "v1", *(row.pop(key) for key in ("first", "texts", "starts", "ends", "tokens")), **row) == len(change.get("texts") or ["x"])


@pytest.mark.contract("E1", "B3")
@pytest.mark.parametrize("embeddings, code", [(None, "RG305"), ([], "RG408"), (["[1,0,0]", "[1,0,0]"], "RG408"), (["[1,0"], "22P02"), (["[1,inf,0]"], "22000"),
                                             ([json.dumps([1] * 3072)], "RG305"), ([None], None), (["[1,0,0]"], None)])
def test_batches_of_embeddings(writer: psycopg.Connection[Any], embeddings: list[str | None] | None, code: str | None) -> None:
    stage(writer, "r.md", "x", space="toy")
    with refused(writer, code):
        assert one(writer, "add_chunks", "r.md", "v1", 1, ["x"], [0], [1], [1], embeddings=embeddings) == 1


# -- What a tenant is made of -------------------------------------------------------------------------


@pytest.mark.contract("E1")
def test_spaces_do_not_change(world: World) -> None:
    definition: dict[str, Any] = {"metric": "cosine", "normalisation": "unit", "preprocessing": "nfc", "query_prefix": "query: ", "document_prefix": "passage: ", "storage": "float", "zero_vectors": "refuse"}
    changes: list[dict[str, Any]] = [{"normalisation": "none"}, {"preprocessing": ""}, {"query_prefix": ""}, {"document_prefix": ""}, {"zero_vectors": "skip"}]
    with world.role("operator") as operator:
        call(operator, "put_space", world.tenant, "e5", "e5-small", "1", 384, **definition)
        call(operator, "put_space", world.tenant, "e5", "e5-small", "1", 384, **definition)  # again
        for arguments, change in [(("e5-base", "1", 384), {}), (("e5-small", "2", 384), {}), (("e5-small", "1", 768), {}), *((("e5-small", "1", 384), change) for change in changes)]:
            with refused(operator, "RG407", "another definition"):
                call(operator, "put_space", world.tenant, "e5", *arguments, **(definition | change))
        for arguments, change in [((384,), {"metric": "l2"}), ((384,), {"storage": "double"}), ((384,), {"storage": None}), ((4001,), {"storage": "half"}), ((384,), {"normalisation": "l1"}), ((384,), {"zero_vectors": "keep"}), ((384,), {"query_prefix": None}),
                                  ((0,), {}), ((2001,), {}), ((None,), {})]:
            with refused(operator, "RG407", "hold"):
                call(operator, "put_space", world.tenant, "new", "m", "1", *arguments, **change)
        with refused(operator, "RG401"):
            call(operator, "put_space", "nowhere", "e5", "m", "1", 3)
        spaces = call(operator, "list_spaces", world.tenant)
    assert [row[:5] for row in spaces] == [("e5", False, "e5-small", "1", 384), ("toy", True, "toy-model", "1", 3)]  # the first one is active
    assert spaces[0][5:] == tuple(definition.values())
    with world.reader() as reader:
        assert call(reader, "active_space")[0][0] == "toy"


@pytest.mark.contract("B9", "C6")
def test_putting_twice_is_putting_once(world: World) -> None:
    with world.role("operator") as operator:
        call(operator, "put_tenant", world.tenant, "The Shop")
        call(operator, "put_tenant", world.tenant)
        assert [row[1:3] for row in call(operator, "list_tenants") if row[0] == world.tenant] == [("The Shop", "toy")]
        call(operator, "put_source", world.tenant, "handbook", ["encoder"], "authoritative")
        call(operator, "put_source", world.tenant, "handbook")  # left out is left alone
        assert [row[:3] for row in call(operator, "list_sources", world.tenant)] == [("handbook", "authoritative", ["encoder"]), ("wiki", "internal", [])]
        call(operator, "put_source", world.tenant, "handbook", [], "external")
        assert call(operator, "list_sources", world.tenant)[0][:3] == ("handbook", "external", [])
        for arguments, code in (((world.tenant, "handbook", None, "divine"), "RG407"), (("nowhere", "handbook"), "RG401"), ((world.tenant, "handbook", [None]), "RG406")):
            with refused(operator, code):
                call(operator, "put_source", *arguments)
    with world.writer() as writer:
        assert call(writer, "writer_source") == [(world.tenant, "handbook", "external", [])]
    with world.admin() as admin:
        for _ in range(2):
            call(admin, "put_principal", "carol", "user")
            call(admin, "put_principal", "team", "group")
            call(admin, "put_membership", "team", "carol")
        assert [row[:2] for row in call(admin, "list_principals")] == [("alice", "user"), ("bob", "user"), ("carol", "user"), ("everyone", "everyone"), ("staff", "group"), ("team", "group")]
        assert call(admin, "list_memberships") == [("staff", "alice", "user"), ("team", "carol", "user")]
        for function, arguments, code in (
            ("put_principal", ("carol", "group"), "RG407"), ("put_principal", ("dan", "robot"), "RG407"), ("put_principal", ("dan", None), "RG407"), ("put_principal", ("everyone", "user"), "RG407"),
            ("put_membership", ("carol", "alice"), "RG407"), ("put_membership", ("team", "everyone"), "RG407"), ("put_membership", ("team", "dan"), "RG401"), ("put_membership", (None, "carol"), "RG401"),
            ("drop_membership", ("team", "alice"), "RG401"), ("drop_principal", ("everyone",), "RG401"), ("drop_principal", ("dan",), "RG401"),
        ):
            with refused(admin, code):
                call(admin, function, *arguments)
        call(admin, "drop_membership", "team", "carol")
        call(admin, "drop_principal", "carol")
        assert "carol" not in [row[0] for row in call(admin, "list_principals")]
        assert call(admin, "list_memberships") == [("staff", "alice", "user")]


@pytest.mark.contract("A6", "B9")
def test_access_lists(world: World) -> None:
    world.put("r.md", "Refunds.", readers=["bob"])
    with world.admin() as admin:
        for readers, changed in ((["alice", "staff"], True), (["staff", "alice", "alice"], False), (["alice"], True), ([], True), ([], False), (["everyone"], True)):
            assert one(admin, "set_access", "r.md", readers, source="handbook") is changed
            assert call(admin, "list_documents", "handbook")[0][3] == sorted(set(readers))


@pytest.mark.contract("A6")
@pytest.mark.parametrize("readers, code", [(None, "RG408"), (["nobody"], "RG401"), (["alice", "nobody"], "RG401"), ([""], "RG401"), ([None], "RG408"), (["alice", None], "RG408"), (["alice"], None)])
def test_access_lists_name_readers_that_are_there(writer: psycopg.Connection[Any], readers: list[str | None] | None, code: str | None) -> None:
    stage(writer, "r.md")
    call(writer, "set_access", "r.md", ["bob"])
    with refused(writer, code):
        call(writer, "set_access", "r.md", readers)
    assert call(writer, "list_documents")[0][3] == (["bob"] if code else readers)


@pytest.mark.contract("B1")
def test_listing_revisions(world: World) -> None:
    with world.writer() as writer:
        world.database.put_document(writer, "r.md", "One.", revision="v1", title="One", effective_from="2024-01-01T00:00:00Z")
        world.database.put_document(writer, "r.md", "Two.", revision="v2")
        world.database.put_document(writer, "r.md", "Three.", revision="v3", activate=False)
        stage(writer, "r.md", revision="v4")
        rows = call(writer, "list_revisions", "r.md")
        assert [row[:3] for row in rows] == [("v1", "retired", "One"), ("v2", "active", ""), ("v3", "verified", ""), ("v4", "staged", "")]
        assert [row[5] for row in rows] == [1, 1, 1, 0]
        assert (rows[0][3].isoformat(), rows[0][4], rows[1][3]) == ("2024-01-01T00:00:00+00:00", None, None)
        assert [row[7] is not None for row in rows] == [True, True, True, False] and [row[8] is not None for row in rows] == [True, True, False, False]
        assert [row[:4] for row in call(writer, "list_documents")] == [("handbook", "r.md", "v2", ["everyone"])]
    with world.admin() as admin:
        assert call(admin, "list_revisions", "r.md", "handbook") == rows
        with refused(admin, "RG408"):
            call(admin, "list_revisions", "r.md")  # an admin says which source
    with world.reader() as reader, refused(reader, "42501"):  # control: readers list nothing
        call(reader, "list_documents")
