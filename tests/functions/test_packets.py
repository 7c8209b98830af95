"""Evidence packets and the replies to them: budgets, abstentions, the seal, and each check of a citation."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.functions.helpers import World, call, one, refused
from tests.support import Database

DENSE = {"embedding": [1, 0, 0], "space": "toy"}
CITE = {"answer": "Thirty days.", "citations": [{"id": "e1"}]}


# -- Budgets ------------------------------------------------------------------------------------------

# Best first: the more often the word, the higher; lengths in characters, bytes and stored tokens all differ.
PASSAGES = ["widget widget widget widget", "widget widget widget äöü 😀😀😀😀", "widget widget " + "long " * 100, "widget ok"]
TOKENS = [3, 40, 90, 5]
SIZES = {"characters": [len(text) for text in PASSAGES], "bytes": [len(text.encode()) for text in PASSAGES], "tokens": TOKENS}


@pytest.fixture(scope="module")
def shelf(module_database: Database) -> World:
    world = World(module_database, "shelf")
    with world.writer() as writer:
        for n, (text, tokens) in enumerate(zip(PASSAGES, TOKENS, strict=True)):
            call(writer, "stage_revision", f"{n}.md", text, revision="v1", language="xx", tokenizer="counter-1")
            call(writer, "add_chunks", f"{n}.md", "v1", 1, [text], [0], [len(text)], [tokens])
            call(writer, "verify_revision", f"{n}.md", "v1", 1)
            call(writer, "set_access", f"{n}.md", ["everyone"])
            call(writer, "activate", f"{n}.md", "v1")
    return world


@pytest.mark.contract("G2")
@pytest.mark.parametrize("unit", ["characters", "bytes", "tokens"])
def test_budgets(shelf: World, unit: str) -> None:
    """Every budget up to one that holds all: whole passages, in rank order, as many as fit, and the arithmetic."""
    question = "wídget widget"
    share = {"characters": 13, "bytes": 14, "tokens": 0}[unit]
    order = [hit["text"] for hit in shelf.search(question, threshold=0)["hits"]]
    assert sorted(order) == sorted(PASSAGES) and order[0] == PASSAGES[0]
    sizes = [SIZES[unit][PASSAGES.index(text)] for text in order]
    reserve = 10
    for budget in [share + reserve + room for room in (1, min(sizes) - 1, min(sizes), sizes[0] - 1 or 1, sizes[0], sizes[0] + sizes[1] - 1, sizes[0] + sizes[1], sum(sizes) - 1, sum(sizes), sum(sizes) + 1)]:
        left, kept, dropped = budget - reserve - share, [], []
        for rank, (text, size) in enumerate(zip(order, sizes, strict=True), 1):
            if size <= left:
                left -= size
                kept.append(text)
            else:
                dropped.append({"rank": rank, "size": size, "reason": "over_budget"})
        packet = shelf.packet(question, threshold=0, budget=budget, budget_unit=unit, reserve=reserve)
        assert [excerpt["text"] for excerpt in packet["excerpts"]] == kept
        assert [{key: entry[key] for key in ("rank", "size", "reason")} for entry in packet["omitted"]] == dropped
        assert packet["limits"] == {"budget": budget, "unit": unit, "reserve": reserve, "question": share, "evidence": budget - reserve - share - left, "left": left} | (
            {"tokenizers": ["counter-1"] if packet["excerpts"] else []} if unit == "tokens" else {})
        assert [excerpt["id"] for excerpt in packet["excerpts"]] == [f"e{n + 1}" for n in range(len(kept))]
        assert (packet["status"], packet["reason"]) == (("evidence", None) if kept else ("abstain", "over_budget"))
        with shelf.reader() as reader, refused(reader, "RG502" if dropped else None):  # strict: all, or none and an error
            strict = shelf.database.packet(reader, question, threshold=0, budget=budget, budget_unit=unit, reserve=reserve, strict=True)
            assert strict["excerpts"] == packet["excerpts"]
    assert not dropped and len(kept) == 4  # control: the last budget held all


@pytest.mark.contract("G2")
def test_an_oversize_passage_is_skipped_and_smaller_ones_still_fit(shelf: World) -> None:
    packet = shelf.packet("widget", threshold=0, budget=100)
    assert [excerpt["text"] for excerpt in packet["excerpts"]] == [text for text in PASSAGES if len(text) < 100]
    (entry,) = packet["omitted"]
    assert entry.keys() == {"chunk_id", "rank", "size", "reason"} and entry["size"] == len(PASSAGES[2])
    assert "long" not in json.dumps(packet)  # nothing of it, not even a beginning
    with shelf.reader() as reader, refused(reader, "RG502", "514 characters"):
        shelf.database.packet(reader, "widget", threshold=0, budget=100, strict=True)


@pytest.mark.contract("G1")
def test_what_a_packet_holds(shelf: World) -> None:
    packet, again = shelf.packet("widget", k=2), shelf.packet("widget", k=2)
    assert packet.keys() == {"version", "question", "status", "reason", "excerpts", "omitted", "complete", "complete_reason", "as_of", "access_state", "corpus_state", "policy", "limits", "issued_at", "seal"}
    assert packet["policy"] == {
        "mode": "lexical", "k": 2, "candidates": 100, "profile": "normal", "isolation": "auto", "lexical_route": "scope",
        "bm25": {"k1": 1.2, "b": 0.75}, "threshold": 0.22}
    assert (packet["version"], packet["question"], packet["complete_reason"]) == (1, "widget", "k_returned")
    for excerpt, hit in zip(packet["excerpts"], shelf.search("widget", k=2)["hits"], strict=True):
        assert excerpt == hit | {"id": excerpt["id"], "text_sha256": hashlib.sha256(hit["text"].encode()).hexdigest()}
    drop = lambda one: {key: value for key, value in one.items() if key not in ("issued_at", "seal")}  # noqa: E731
    assert drop(packet) == drop(again) and packet["seal"] != again["seal"]  # another time is another seal
    # The states are the reader's: equal while nothing it may see changes.
    assert shelf.packet("anything else")["corpus_state"] == packet["corpus_state"]
    bob = shelf.packet("widget", k=2, reader="bob")
    assert bob["corpus_state"] == packet["corpus_state"] and bob["access_state"] != packet["access_state"]


@pytest.mark.contract("G1", "A7")
def test_states_change_with_what_the_reader_may_see(world: World) -> None:
    def states() -> tuple[str, str]:
        packet = world.packet("refund")
        return packet["access_state"], packet["corpus_state"]

    world.put("a.md", "Refund.", revision="v1")
    before = states()
    world.put("hidden.md", "Refund.", readers=["bob"])
    with world.admin() as admin:
        call(admin, "put_principal", "others", "group")
        call(admin, "put_membership", "others", "bob")
    assert states() == before
    world.put("a.md", "Refunds.", revision="v2")
    access, corpus = states()
    assert access == before[0] and corpus != before[1]
    with world.writer() as writer:
        call(writer, "rollback", "a.md")
    assert states() == before  # the same state has the same digest
    with world.admin() as admin:
        call(admin, "put_membership", "others", "alice")
    assert states()[0] != before[0] and states()[1] == before[1]


# -- Abstention ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(module_database: Database) -> World:
    world = World(module_database, "shop")
    world.put("refund.md", "Refunds are paid within thirty days of delivery.", vectors=[[1, 0, 0]])
    world.put("tents.md", "Tents are kept dry.", vectors=[[0.9, 0.5, 0]])
    world.put("secret.md", "Zebra refunds.", vectors=[[0, 0, 1]], readers=["bob"])
    return world


@pytest.mark.contract("G3", "A3")
@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_abstentions_say_why(shop: World, mode: str) -> None:
    vector = lambda *values: {} if mode == "lexical" else {"embedding": list(values), "space": "toy"}  # noqa: E731
    away = vector(0, 0.1, 1)
    cases: list[tuple[str, dict[str, Any], str | None]] = [
        ("refunds within days", vector(1, 0, 0), None),
        ("refunds within days", vector(1, 0, 0) | {"reader": "nobody"}, "nothing_visible"),
        ("refunds within days", vector(1, 0, 0) | {"filter": {"source": "wiki"}}, "nothing_visible"),
        ("refunds within days", vector(1, 0, 0) | {"as_of": "2024-01-01", "filter": {"language": "de"}}, "nothing_visible"),
        ("quantum teleportation refunds of particles in entangled states", away, "below_threshold"),
        ("quantum teleportation", away, "nothing_matches" if mode == "lexical" else "below_threshold"),
        ("the of and", away, "stop_words_only" if mode == "lexical" else "below_threshold"),
        ("zebra", away, "nothing_matches" if mode == "lexical" else "below_threshold"),
        ("refunds within days", vector(1, 0.1, 0) | {"threshold": 1}, "below_threshold"),
        ("quantum teleportation refunds of particles in entangled states", away | {"threshold": 0}, None),
    ]
    for question, request, reason in cases:
        request = dict(request)
        reader = request.pop("reader", "alice")
        packet = shop.packet(question, mode, reader=reader, **request)
        assert (packet["status"], packet["reason"]) == (("abstain", reason) if reason else ("evidence", None)), (question, request)
        assert bool(packet["excerpts"]) == (reason is None)
        assert "secret" not in json.dumps(packet) and packet["complete"] is True
        found = shop.search(question, mode, reader=reader, **request)
        assert (found["status"], found["reason"]) == (packet["status"], packet["reason"])
        if reason == "below_threshold":
            assert found["hits"] and found["top_relevance"] < found["policy"]["threshold"]  # search shows them, and says so
        assert shop.validate(packet, {"answer": "", "citations": []}, reader=reader)["valid"]
    assert shop.packet("zebra", mode, reader="bob", **vector(0, 0, 1))["status"] == "evidence"  # control


@pytest.mark.contract("G3")
def test_no_excerpt_is_below_the_threshold(shop: World) -> None:
    for threshold in (0, 0.2, 0.5, 0.9):
        packet = shop.packet("refunds tents thirty", "hybrid", threshold=threshold, **DENSE)
        wide = shop.packet("refunds tents thirty", "hybrid", threshold=0, **DENSE)
        assert [e["document"] for e in packet["excerpts"]] == [e["document"] for e in wide["excerpts"] if e["relevance"] >= threshold]
    assert len(wide["excerpts"]) == 2


# -- The seal -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed(shop: World) -> dict[str, Any]:
    """A packet with every kind of field: two excerpts, one omitted, a filter's policy, an effective period."""
    shop.put("old.md", "Refunds were paid within sixty days of delivery. " * 3, vectors=[[0.8, 0.1, 0]], effective_from="2023-01-01", title="Old")
    packet = shop.packet("refunds within days of delivery", "hybrid", threshold=0, budget=150, as_of="2024-06-01T12:00:00.5Z", **DENSE)
    assert len(packet["excerpts"]) == 2 and len(packet["omitted"]) == 1 and packet["excerpts"][1]["text"]
    return packet


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every leaf of a JSON value; empty lists and objects are leaves."""
    if isinstance(value, (dict, list)) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def altered(packet: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    packet = copy.deepcopy(packet)
    inner: Any = packet
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    return packet


def other(value: Any) -> Any:
    """A value of the same type that differs as little as can be."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 0.000001
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
        case None:
            return 1
        case list():
            return [*value, {}]
    return {**value, "x": 1}


@pytest.mark.contract("G5")
def test_the_seal_covers_every_field(shop: World, sealed: dict[str, Any]) -> None:
    paths = list(leaves(sealed))
    assert len(paths) > 70 and ("excerpts", 1, "text") in paths and ("policy", "bm25", "k1") in paths
    with shop.reader() as reader:
        assert shop.database.validate(reader, sealed, CITE)["valid"]  # control
        for path in paths:
            for change in (other, lambda value: None if value is not None else "null", lambda value: [value]):
                with refused(reader, "RG501"):
                    shop.database.validate(reader, altered(sealed, path, change), CITE)
        for path in {whole[:n] for whole in paths for n in range(1, len(whole))}:  # and each object and list around them
            for change in (lambda value: None, lambda value: {}, lambda value: [value], lambda value: {**value, "more": 1} if isinstance(value, dict) else [*value, value[0]]):
                with refused(reader, "RG501"):
                    shop.database.validate(reader, altered(sealed, path, change), CITE)
        for key in sealed:
            with refused(reader, "RG501"):
                shop.database.validate(reader, {name: value for name, value in sealed.items() if name != key}, CITE)
        with refused(reader, "RG501"):
            shop.database.validate(reader, sealed | {"more": 1}, CITE)
        assert shop.database.validate(reader, sealed, CITE)["valid"]


@pytest.mark.contract("G5")
def test_excerpts_cannot_be_exchanged(shop: World, sealed: dict[str, Any]) -> None:
    second = shop.packet("refunds within days of delivery", threshold=0)
    changes: list[dict[str, Any]] = [
        sealed | {"excerpts": sealed["excerpts"][::-1]}, sealed | {"excerpts": sealed["excerpts"][:1]}, sealed | {"excerpts": [*sealed["excerpts"], sealed["excerpts"][0]]},
        sealed | {"excerpts": second["excerpts"]}, second | {"excerpts": sealed["excerpts"]}, sealed | {"seal": second["seal"]},
        sealed | {"excerpts": [second["excerpts"][0], *sealed["excerpts"][1:]]},
        altered(altered(sealed, ("excerpts", 0, "text"), lambda _: "Ninety days."), ("excerpts", 0, "text_sha256"), lambda _: hashlib.sha256(b"Ninety days.").hexdigest()),
    ]
    with shop.reader() as reader:
        for changed in changes:
            with refused(reader, "RG501"):
                shop.database.validate(reader, changed, CITE)
        for packet in (sealed, second):
            assert shop.database.validate(reader, packet, CITE)["valid"]


@pytest.mark.contract("G5", "A1")
def test_a_packet_is_one_readers(shop: World, sealed: dict[str, Any], module_database: Database) -> None:
    elsewhere = World(module_database, "shop-elsewhere")
    elsewhere.put("refund.md", "Refunds are paid within thirty days of delivery.")
    theirs = elsewhere.packet("refunds")
    assert elsewhere.validate(theirs, CITE)["valid"]
    for world, reader, packet in ((shop, "bob", sealed), (shop, "nobody", sealed), (elsewhere, "alice", sealed), (shop, "alice", theirs)):
        with world.reader(reader) as connection, refused(connection, "RG501"):
            module_database.validate(connection, packet, CITE)
    with module_database.writer("shop", "handbook") as writer, refused(writer, "42501"):
        module_database.validate(writer, sealed, CITE)
    bob = shop.packet("refunds", reader="bob")  # control: bob's own
    assert shop.validate(bob, CITE, reader="bob")["valid"]


@pytest.mark.contract("G5")
def test_another_database_seals_with_another_key(shop: World, sealed: dict[str, Any]) -> None:
    with shop.database.superuser() as superuser:
        with superuser.transaction(force_rollback=True):
            superuser.execute("update pgrag_private.internal_key set inner_pad = set_byte(inner_pad, 0, get_byte(inner_pad, 0) # 1) where purpose = 'seal'")
            token = shop.database.token("shop", "alice")
            with refused(superuser, "RG501"):
                superuser.execute("select pgrag.validate_reply(%s, %s, %s)", (json.dumps(sealed), json.dumps(CITE), token))
        assert superuser.execute("select pgrag.validate_reply(%s, %s, %s) -> 'valid'", (json.dumps(sealed), json.dumps(CITE), token)).fetchone() == (True,)


def as_javascript_would(value: Any) -> Any:
    """All numbers are floats there, and 1.0 is written 1."""
    if isinstance(value, dict):
        return {key: as_javascript_would(inner) for key, inner in reversed(value.items())}  # in another order
    if isinstance(value, list):
        return [as_javascript_would(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if float(value).is_integer() else float(value)
    return value


@pytest.mark.contract("G5")
@pytest.mark.parametrize("change", [
    pytest.param(lambda text: json.dumps(json.loads(text)), id="ascii"), pytest.param(lambda text: json.dumps(json.loads(text), ensure_ascii=False, indent=2, sort_keys=True), id="indented"),
    pytest.param(lambda text: json.dumps(as_javascript_would(json.loads(text))), id="as JavaScript"),
])
def test_a_packet_survives_json(module_database: Database, change: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    world = World(module_database, "json-" + request.node.callspec.id)
    world.put("a.md", "Refund “quoted” \\ \" / \t é e\u0301 😀 \u2028 \x7f </script> rule.", vectors=[[1, 0, 0]], title="Té\"st")
    world.put("b.md", "Refund refund.", vectors=[[0.001, 1, 0]])
    with world.reader() as reader:
        text = reader.execute("select pgrag.packet_json(%s)::text", (json.dumps({"question": "refund \u2028 “rule” \\ 😀", "threshold": 0, "k": 5, **DENSE}),)).fetchone()[0]
        packet = json.loads(change(text))
        assert any(excerpt["dense_score"] == 1 for excerpt in packet["excerpts"]) and 0 < min(excerpt["dense_score"] for excerpt in packet["excerpts"]) < 0.002
        verdict = reader.execute("select pgrag.validate_reply(%s, %s)", (change(text), json.dumps(CITE))).fetchone()[0]
        assert verdict["valid"]
        with refused(reader, "RG501"):  # control
            reader.execute("select pgrag.validate_reply(%s, %s)", (change(text).replace("refund", "refunD", 1), json.dumps(CITE)))


@pytest.mark.contract("G5")
def test_a_packet_validates_without_its_texts(shop: World, sealed: dict[str, Any]) -> None:
    bare = copy.deepcopy(sealed)
    for excerpt in bare["excerpts"]:
        del excerpt["text"]
    assert shop.validate(bare, {"answer": "Thirty.", "citations": [{"id": "e1", "quote": "within thirty days"}]})["valid"]  # the quote is looked for in the database
    del bare["excerpts"][0]["text_sha256"]
    with shop.reader() as reader, refused(reader, "RG501"):
        shop.database.validate(reader, bare, CITE)


@pytest.mark.contract("G5")
@pytest.mark.parametrize("packet", ["null", "1", '"x"', "[]", "{}", '{"excerpts": []}', '{"excerpts": null, "seal": null}', '{"excerpts": {}, "seal": "x"}', '{"excerpts": [1], "seal": "x"}',
                                    '{"excerpts": [[{"id": "e1"}]]}', '{"excerpts": ["text"]}', '{"excerpts": [null]}', '{"excerpts": [{}], "as_of": "soon"}', None])
def test_what_is_no_packet_is_refused(shop: World, packet: str | None) -> None:
    with shop.reader() as reader, refused(reader, "RG501"):
        reader.execute("select pgrag.validate_reply(%s, %s)", (packet, json.dumps(CITE)))


# -- Replies ------------------------------------------------------------------------------------------


@pytest.mark.contract("H1", "H4")
@pytest.mark.parametrize("reply, checks", [
    ({"answer": "Thirty days.", "citations": [{"id": "e1"}]}, []),
    ({"answer": "Ninety days.", "citations": [{"id": "e1"}]}, []),  # membership is not support, and the result says so
    ({"answer": "", "citations": []}, []), ({"answer": " \n", "citations": []}, []), ({"answer": "", "citations": [{"id": "e1"}]}, []),
    ({"answer": "Thirty.", "citations": [{"id": "e1"}, {"id": "e2", "quote": "Tents"}]}, []),
    ({"answer": "Thirty.", "citations": []}, ["citations"]),
    ({"answer": "Thirty.", "citations": [{"id": "e9"}]}, ["unknown"]), ({"answer": "Thirty.", "citations": [{"id": ""}]}, ["unknown"]), ({"answer": "Thirty.", "citations": [{"id": "E1"}]}, ["unknown"]),
    ({"answer": "Thirty.", "citations": [{"id": " e1"}]}, ["unknown"]), ({"answer": "Thirty.", "citations": [{"id": "CHUNK"}]}, ["unknown"]),
    ({"answer": "Thirty.", "citations": [{"id": "e1"}, {"id": "e1"}]}, ["duplicate"]), ({"answer": "Thirty.", "citations": [{"id": "e9"}, {"id": "e9"}]}, ["unknown", "duplicate"]),
    ({"answer": "Thirty.", "citations": [{"id": 1}]}, ["shape"]), ({"answer": "Thirty.", "citations": [{"id": None}]}, ["shape"]), ({"answer": "Thirty.", "citations": [{}]}, ["shape"]),
    ({"answer": "Thirty.", "citations": ["e1"]}, ["shape"]), ({"answer": "Thirty.", "citations": [["e1"]]}, ["shape"]), ({"answer": "Thirty.", "citations": [None]}, ["shape"]),
    ({"answer": "Thirty.", "citations": [{"id": "e1", "page": 2}]}, ["shape"]), ({"answer": "Thirty.", "citations": [{"id": "e1", "quote": 1}]}, ["shape"]), ({"answer": "Thirty.", "citations": [{"id": "e1", "quote": ["a"]}]}, ["shape"]),
    ({"answer": "Thirty.", "citations": {"id": "e1"}}, ["shape"]), ({"answer": "Thirty.", "citations": None}, ["shape"]), ({"answer": "Thirty."}, ["shape"]), ({"citations": [{"id": "e1"}]}, ["shape"]),
    ({"answer": 30, "citations": [{"id": "e1"}]}, ["shape"]), ({"answer": None, "citations": [{"id": "e1"}]}, ["shape"]), ({"answer": ["Thirty."], "citations": [{"id": "e1"}]}, ["shape"]),
    ({"answer": "Thirty.", "citations": [{"id": "e1"}], "confidence": 0.9}, ["shape"]), ([], ["shape"]), (None, ["shape"]), ("Thirty.", ["shape"]), ({}, ["shape"]),
    ({"answer": "Thirty.", "citations": [{"id": "e1", "quote": "ninety"}]}, ["quote"]), ({"answer": "Thirty.", "citations": [{"id": "e2", "quote": "thirty days"}]}, ["quote"]),  # in the other excerpt
    ({"answer": "Thirty.", "citations": [{"id": "e9"}, {"id": "e1", "quote": "ninety"}, {"id": 5}, {"id": "e1"}]}, ["unknown", "quote", "shape", "duplicate"]),
])
def test_replies(shop: World, reply: Any, checks: list[str]) -> None:
    packet = shop.packet("refunds tents thirty", threshold=0, filter={"source": "handbook"}, k=2)
    assert [excerpt["document"] for excerpt in packet["excerpts"]] == ["refund.md", "tents.md"]
    reply = json.loads(json.dumps(reply).replace("CHUNK", packet["excerpts"][0]["chunk_id"]))
    verdict = shop.validate(packet, reply)
    assert [finding["check"] for finding in verdict["findings"]] == checks
    assert verdict["valid"] is (not checks)
    assert verdict["support"].startswith("not proven")
    assert set(checks) <= set(verdict["checks"]) and all(finding["message"] for finding in verdict["findings"])
    assert verdict.keys() == {"valid", "findings", "citations", "checks", "support"}
    for citation in verdict["citations"]:  # each points at what the packet has under its id
        excerpt = next(excerpt for excerpt in packet["excerpts"] if excerpt["id"] == citation["id"])
        assert {key: citation[key] for key in ("chunk_id", "source", "document", "revision")} == {key: excerpt[key] for key in ("chunk_id", "source", "document", "revision")}


@pytest.mark.contract("H1")
def test_very_many_citations_are_refused_quickly(shop: World) -> None:
    """Quadratic work in what a model wrote would let one reply hold a backend for minutes."""
    packet = shop.packet("refunds")
    with shop.reader() as reader:
        reader.execute("set local statement_timeout = '2s'")
        verdict = shop.database.validate(reader, packet, {"answer": "x", "citations": [{"id": f"e{n}"} for n in range(10_000)]})
    assert not verdict["valid"]


TEXT = "“Unopened” items — up to 30 days’ return;\n\n  café: Ru\u0308ckgabe 5\u00a0% off, co\u2010op."


@pytest.fixture(scope="module")
def quotable(shop: World) -> dict[str, Any]:
    shop.put("quotes.md", TEXT, source="wiki")
    packet = shop.packet("unopened items café", filter={"source": "wiki"})
    assert packet["excerpts"][0]["text"] == TEXT
    return packet


@pytest.mark.contract("H2")
@pytest.mark.parametrize("quote, found", [
    (None, "none"),
    (TEXT, "exact"), ("Unopened", "exact"), ("30 days’ return", "exact"), ("Ru\u0308ckgabe", "exact"), (";\n\n  café", "exact"),
    ('"Unopened" items', "normalised"), ("items - up to", "normalised"), ("30 days' return", "normalised"), ("30 days‘ return", "normalised"), ("R\u00fcckgabe 5", "normalised"), ("return; café", "normalised"),
    ("  up \t to\n30 ", "normalised"), ("5 % off", "normalised"), ("co-op", "normalised"), ("cafe\u0301:", "normalised"),
    ("unopened", "missing"), ("60 days", "missing"), ("Unopened items", "missing"), ("30 days return", "missing"), ("caf: R", "missing"), ("days’ return; tents", "missing"), ("Ruckgabe", "missing"),
    ("items … days", "missing"), ("", "missing"), (" ", "missing"), ("\n\n", "missing"), (TEXT + "!", "missing"), ("%", "exact"), ("_", "missing"), (".*", "missing"),
])
def test_quotes(shop: World, quotable: dict[str, Any], quote: str | None, found: str) -> None:
    verdict = shop.validate(quotable, {"answer": "x", "citations": [{"id": "e1"} | ({} if quote is None else {"quote": quote})]})
    assert [citation["quote"] for citation in verdict["citations"]] == ([] if found == "missing" else [found])
    assert [finding["check"] for finding in verdict["findings"]] == (["quote"] if found == "missing" else [])
    assert verdict["valid"] is (found != "missing")


@pytest.mark.contract("H1", "G3")
def test_replies_to_an_abstention(shop: World) -> None:
    packet = shop.packet("quantum teleportation")
    assert packet["status"] == "abstain"
    for reply, checks in (({"answer": "", "citations": []}, []), ({"answer": "I do not know.", "citations": []}, ["citations"]), ({"answer": "Thirty days.", "citations": [{"id": "e1"}]}, ["unknown"])):
        assert [finding["check"] for finding in shop.validate(packet, reply)["findings"]] == checks


@pytest.mark.contract("H3")
@pytest.mark.parametrize("event, today, past", [
    ("nothing", [], []), ("superseded", ["active"], []), ("rolled back", ["active"], []), ("expired", ["active"], []), ("deleted", ["deleted"], ["deleted"]),
    ("readers changed", ["readable"], ["readable"]), ("left the group", ["readable"], ["readable"]), ("group dropped", ["readable"], ["readable"]),
    ("deleted and readers changed", ["readable"], ["readable"]), ("superseded and readers changed", ["readable"], ["readable"]), ("purged", ["readable"], ["readable"]),
    ("deleted and restored", [], []), ("superseded and rolled back", [], []), ("revision staged", [], []),
])
def test_a_citation_is_checked_again(world: World, event: str, today: list[str], past: list[str]) -> None:
    """What happened since the packet was made, and what it does to a citation of today's packet and of one as of 2023."""
    database = world.database
    world.put("r.md", "Refund rule one.", revision="v1", readers=["staff"], effective_from="2022-01-01")
    world.put("r.md", "Refund rule two.", revision="v2", readers=["staff"], effective_from="2024-01-01")
    packets = [world.packet("refund rule", as_of=as_of) for as_of in (None, "2023-06-01")]
    assert [packet["excerpts"][0]["revision"] for packet in packets] == ["v2", "v1"]
    assert all(world.validate(packet, CITE)["valid"] for packet in packets)

    with world.writer() as writer:
        if event.startswith("superseded"):
            database.put_document(writer, "r.md", "Refund rule three.", revision="v3", readers=None, effective_from="2025-01-01")
        if event == "revision staged":
            database.put_document(writer, "r.md", "Refund rule three.", revision="v3", readers=None, activate=False)
        if event.endswith("rolled back"):
            call(writer, "rollback", "r.md")
        if event.startswith("deleted"):
            call(writer, "delete_document", "r.md")
        if event.endswith("restored"):
            call(writer, "activate", "r.md", "v2", restore=True)
        if event.endswith("readers changed"):
            call(writer, "set_access", "r.md", ["bob"])
    with world.admin() as admin:
        if event == "left the group":
            call(admin, "drop_membership", "staff", "alice")
        if event == "group dropped":
            call(admin, "drop_principal", "staff")
    with database.superuser() as superuser:
        if event == "expired":  # time passes: the period's end is moved into the past
            superuser.execute("update pgrag_data.revision r set effective_to = now() - interval '1 second' from pgrag_data.tenant t where t.tenant_id = r.tenant_id and t.tenant = %s and revision = 'v2'", (world.tenant,))
        if event == "purged":
            for table in ("chunk_lex", "chunk"):
                superuser.execute(f"delete from pgrag_data.{table} using pgrag_data.tenant t where t.tenant_id = {table}.tenant_id and t.tenant = %s", (world.tenant,))

    for packet, expected in zip(packets, (today, past), strict=True):
        verdict = world.validate(packet, CITE)
        assert [finding["check"] for finding in verdict["findings"]] == expected
        assert verdict["valid"] is (not expected) and len(verdict["citations"]) == (0 if expected else 1)


@pytest.mark.contract("H3", "A9")
def test_hidden_deleted_and_absent_read_the_same(world: World) -> None:
    """To one who may not read it. To one who may, they differ: that is the control."""
    for name in ("hidden", "deleted", "purged", "deleted-open"):
        world.put(f"{name}.md", f"Refund {name}.", readers=["staff"])
    packets = {name: world.packet(f"refund {name}", k=1) for name in ("hidden", "deleted", "purged", "deleted-open")}
    chunk_ids = {name: packet["excerpts"][0]["chunk_id"] for name, packet in packets.items()} | {"absent": "0" * 64}
    with world.writer() as writer:
        for name in ("hidden", "deleted"):
            call(writer, "set_access", f"{name}.md", ["bob"])
        for name in ("deleted", "deleted-open"):
            call(writer, "delete_document", f"{name}.md")
    with world.database.superuser() as superuser:
        for table in ("chunk_lex", "chunk"):
            superuser.execute(f"delete from pgrag_data.{table} where (tenant_id, revision_id, chunk_no) in (select tenant_id, revision_id, chunk_no from pgrag_data.chunk where chunk_id = decode(%s, 'hex'))"
                              if table == "chunk_lex" else "delete from pgrag_data.chunk where chunk_id = decode(%s, 'hex')", (chunk_ids["purged"],))
    findings = {name: json.dumps(world.validate(packet, CITE)["findings"]) for name, packet in packets.items()}
    assert findings["hidden"] == findings["deleted"] == findings["purged"] != findings["deleted-open"]

    errors = []
    with world.reader() as reader:
        for name in ("hidden", "deleted", "purged", "deleted-open", "absent"):
            with pytest.raises(Exception) as caught, reader.transaction():
                call(reader, "excerpt", chunk_ids[name])
            errors.append((caught.value.sqlstate, caught.value.diag.message_primary, caught.value.diag.message_detail, caught.value.diag.message_hint))
            assert one(reader, "can_read", "handbook", f"{name}.md") is (name == "purged")  # of the document there is still a revision
    assert len(set(errors)) == 1 and errors[0][0] == "RG401"
    with world.reader("bob") as reader:
        assert one(reader, "excerpt", chunk_ids["hidden"])["text"] == "Refund hidden."
        assert one(reader, "can_read", "handbook", "hidden.md") is True


@pytest.mark.contract("A5", "A10")
def test_excerpt_and_can_read(shop: World) -> None:
    hit = shop.search("refunds thirty")["hits"][0]
    with shop.reader() as reader:
        excerpt = one(reader, "excerpt", hit["chunk_id"])
        assert excerpt == {key: hit[key] for key in excerpt} and excerpt["text"].startswith("Refunds are paid")
        for chunk_id in (hit["chunk_id"].upper(), hit["chunk_id"][:-1], hit["chunk_id"] + "0", "", "e1", "\\x" + hit["chunk_id"], hit["chunk_id"] + "\n", "x" * 64, None):
            with refused(reader, "RG401", "no such excerpt"):
                call(reader, "excerpt", chunk_id)
        for source, document, readable in (("handbook", "refund.md", True), ("handbook", "secret.md", False), ("handbook", "absent.md", False), ("wiki", "refund.md", False), ("absent", "refund.md", False),
                                           ("handbook", "REFUND.md", False), (None, "refund.md", False), ("handbook", None, False)):
            assert one(reader, "can_read", source, document) is readable
    with shop.reader("bob") as reader:
        assert one(reader, "can_read", "handbook", "secret.md") is True
    with shop.reader("nobody") as reader:
        assert one(reader, "can_read", "handbook", "refund.md") is False
        with refused(reader, "RG401"):
            call(reader, "excerpt", hit["chunk_id"])
    token = shop.database.token("shop", "alice")
    with shop.role("reader") as nobody:  # a token in the call is enough, and leaves nothing behind
        assert one(nobody, "can_read", "handbook", "refund.md", token=token) is True
        with refused(nobody, "RG201"):
            call(nobody, "can_read", "handbook", "refund.md")


@pytest.mark.contract("G5", "A6")
def test_a_packet_does_not_pass_to_a_successor_of_the_same_name(database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"])
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "refund.md", "Refunds are paid within thirty days.")
    with database.reader("a", "alice") as reader:
        packet = database.packet(reader, "refunds paid")
        assert database.validate(reader, packet, CITE)["valid"]  # control
    with database.admin("a") as admin:
        admin.execute("select pgrag.drop_principal('alice')")
        admin.execute("select pgrag.put_principal('alice', 'user')")
    with database.reader("a", "alice") as reader:
        assert database.packet(reader, "refunds paid")["excerpts"]  # she may read the same
        with refused(reader, "RG501"):
            database.validate(reader, packet, CITE)
