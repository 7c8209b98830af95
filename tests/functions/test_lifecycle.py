"""Which revision answers: activation, rollback, effective periods, tombstones, and nothing left of what was replaced."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.functions.helpers import World, add, call, documents, one, refused

DENSE = {"embedding": [1, 0, 0], "space": "toy"}
CITE = {"answer": "Thirty days.", "citations": [{"id": "e1"}]}


def answers(world: World, as_of: str | None = None, reader: str = "alice", document: str = "refund.md") -> str | None:
    """The revision that answers a question about refunds, which is the same in every lane and on every path."""
    revisions = set()
    for mode in ("lexical", "dense", "hybrid"):
        found = world.search("refund", mode, reader=reader, as_of=as_of, **(DENSE if mode != "lexical" else {}))
        revisions.add(tuple(sorted({hit["revision"] for hit in found["hits"] if hit["document"] == document})))
    revisions.add(tuple(sorted({e["revision"] for e in world.packet("refund", reader=reader, as_of=as_of)["excerpts"] if e["document"] == document})))
    assert len(revisions) == 1, revisions  # no two paths differ
    (revision,) = revisions
    assert len(revision) <= 1, revision  # and no two revisions are mixed
    return revision[0] if revision else None


def put(world: World, revision: str, start: str | None = None, end: str | None = None, *, activate: bool = True, readers: list[str] | None = ["everyone"]) -> None:  # noqa: B006
    world.put("refund.md", f"Refund rule {revision}.", revision=revision, vectors=[[1, 0, 0]], effective_from=start, effective_to=end, activate=activate, readers=readers)


# -- The switch ---------------------------------------------------------------------------------------


@pytest.mark.contract("B4")
def test_activation(world: World) -> None:
    put(world, "v1", activate=False)
    with world.writer() as writer:
        call(writer, "stage_revision", "refund.md", "Refund rule v3.", revision="v3")
    put(world, "v2", activate=False)
    assert answers(world) is None
    with world.writer() as writer:
        for arguments, code in (
            (("refund.md", "v3"), "RG405"),  # staged
            (("refund.md", "v9"), "RG401"), (("absent.md", "v1"), "RG401"), (("refund.md", None), "RG401"), ((None, "v1"), "RG401"),
            (("refund.md", "v1", "v2"), "RG402"), (("refund.md", "v1", "v1"), "RG402"),  # none is active
        ):
            with refused(writer, code):
                call(writer, "activate", *arguments)
        assert one(writer, "activate", "refund.md", "v1", "") is True
    assert answers(world) == "v1"
    with world.writer() as writer:
        assert one(writer, "activate", "refund.md", "v1") is False  # no switch
        for expected in ("v1", "", "v2"):  # already so: a retry that lost the first answer is told so, whatever it expected then
            assert one(writer, "activate", "refund.md", "v1", expected) is False
        for expected in ("", "v2", "V1"):
            with refused(writer, "RG402", "active: v1"):
                call(writer, "activate", "refund.md", "v2", expected)
    assert answers(world) == "v1"
    with world.admin() as admin:  # an administrator may as well, and says in which source
        assert one(admin, "activate", "refund.md", "v2", "v1", source="handbook") is True
    assert answers(world) == "v2"


@pytest.mark.contract("B5")
def test_rollback(world: World) -> None:
    for revision in ("v1", "v2", "v3"):
        put(world, revision)
    put(world, "never", activate=False)
    with world.writer() as writer:
        with refused(writer, "RG402"):
            call(writer, "rollback", "refund.md", expected_active="v2")
        assert one(writer, "rollback", "refund.md", "v3") == "v3"  # it is active: nothing to do, and no error
        for revision, code in (("never", "RG405"), ("v9", "RG401")):
            with refused(writer, code):
                call(writer, "rollback", "refund.md", revision)
    assert answers(world) == "v3"  # control: what was refused changed nothing
    for expected in ("v2", "v1"):
        with world.writer() as writer:
            assert one(writer, "rollback", "refund.md") == expected
        assert answers(world) == expected
    with world.writer() as writer:
        with refused(writer, "RG405"):  # not to and fro: v2 and v3 were withdrawn
            call(writer, "rollback", "refund.md")
        assert one(writer, "rollback", "refund.md", "v3", "v1") == "v3"  # by name, to any that was active
    assert answers(world) == "v3"
    with world.writer() as writer:
        assert one(writer, "activate", "refund.md", "v2") is True
    assert answers(world) == "v2"


@pytest.mark.contract("B4", "B5")
def test_a_switch_is_one_row_and_is_recorded(world: World) -> None:
    put(world, "v1")
    put(world, "v2")
    with world.writer() as writer:
        call(writer, "rollback", "refund.md")
        call(writer, "activate", "refund.md", "v1")  # nothing to do, nothing to record
    with world.database.superuser() as superuser:
        log = superuser.execute("""
            select a.action, r.revision, p.revision, a.subject from pgrag_data.activation a
              join pgrag_data.tenant t using (tenant_id) join pgrag_data.revision r using (tenant_id, revision_id)
              left join pgrag_data.revision p on p.tenant_id = a.tenant_id and p.revision_id = a.replaced_revision_id
             where t.tenant = %s order by a.activation_id""", (world.tenant,)).fetchall()
    assert log == [("activate", "v1", None, "connector"), ("activate", "v2", "v1", "connector"), ("rollback", "v1", "v2", "connector")]


# -- Effective periods --------------------------------------------------------------------------------


@pytest.mark.contract("B7")
def test_a_revision_of_the_future_is_not_activated(world: World) -> None:
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    put(world, "v1")
    put(world, "v2", soon, activate=False)
    with world.writer() as writer, refused(writer, "RG405", "not in force yet"):
        call(writer, "activate", "refund.md", "v2")
    assert answers(world) == "v1" and answers(world, "2999-01-01") == "v1"  # what was never active is in force at no time
    put(world, "v3", (dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)).isoformat())
    assert answers(world) == "v3"  # control


@pytest.mark.contract("B7")
@pytest.mark.parametrize("periods, cases", [
    pytest.param([("v1", "2023-01-01", None), ("v2", "2024-06-01", None), ("v3", "2025-01-01", None)],
                 {"2022-12-31": None, "2023-01-01": "v1", "2024-05-31": "v1", "2024-06-01": "v2", "2024-12-31T23:59:59.999999Z": "v2", "2025-01-01T00:00:00Z": "v3", "2099-01-01": "v3", None: "v3"},
                 id="one after another"),
    pytest.param([("v9", "2024-01-01", None), ("v10", "2023-01-01", None), ("v2", "2025-01-01", None)],
                 {"2023-06-01": "v10", "2024-06-01": "v9", "2025-06-01": "v2", None: "v2"}, id="neither number nor order of writing counts"),
    pytest.param([("a", "2020-01-01", None), ("b", "2023-01-01", "2023-07-01"), ("c", "2024-01-01", None)],
                 {"2022-06-01": "a", "2023-06-01": "b", "2023-07-01": "a", "2023-12-31": "a", "2024-01-01": "c"}, id="an exception within a rule"),
    pytest.param([("a", "2023-01-01", "2023-06-01"), ("b", "2024-01-01", None)], {"2023-05-31": "a", "2023-06-01": None, "2023-12-31": None, "2024-01-01": "b"}, id="a gap"),
    pytest.param([("a", None, "2023-01-01"), ("b", "2023-01-01", None)], {"0001-01-01": "a", "2022-12-31": "a", "2023-01-01": "b"}, id="since ever"),
    pytest.param([("first", "2023-01-01", None), ("second", "2023-01-01", None), ("third", "2023-01-01", None)], {"2022-12-31": None, "2023-06-01": "third", None: "third"}, id="the same day: activated last"),
    pytest.param([("first", None, None), ("second", None, None)], {"2020-01-01": "second", "2099-01-01": "second", None: "second"}, id="without dates: activated last"),
])
def test_as_of(world: World, periods: list[tuple[str, str | None, str | None]], cases: dict[str | None, str | None]) -> None:
    for revision, start, end in periods:
        put(world, revision, start, end)
    assert {as_of: answers(world, as_of) for as_of in cases} == cases


@pytest.mark.contract("B5", "B7")
def test_a_rolled_back_revision_is_withdrawn_until_it_is_activated_again(world: World) -> None:
    put(world, "v1", "2023-01-01")
    put(world, "v2", "2024-01-01")
    times = ("2023-06-01", "2024-06-01", None)
    assert [answers(world, as_of) for as_of in times] == ["v1", "v2", "v2"]
    with world.writer() as writer:
        call(writer, "rollback", "refund.md")
    assert [answers(world, as_of) for as_of in times] == ["v1", "v1", "v1"]
    with world.writer() as writer:
        call(writer, "activate", "refund.md", "v2")
    assert [answers(world, as_of) for as_of in times] == ["v1", "v2", "v2"]


@pytest.mark.contract("B5", "B7")
def test_today_and_as_of_now_agree_after_a_rollback_by_name(world: World) -> None:
    """Back over two revisions: neither of the two is in force any more."""
    for revision, start in (("v1", "2022-01-01"), ("v2", "2023-01-01"), ("v3", "2024-01-01")):
        put(world, revision, start)
    with world.writer() as writer:
        call(writer, "rollback", "refund.md", "v1")
    assert answers(world) == "v1"
    assert answers(world, dt.datetime.now(dt.UTC).isoformat()) == "v1"


@pytest.mark.contract("B7")
def test_an_active_revision_expires(world: World) -> None:
    put(world, "v1", "2020-01-01", "2023-01-01")
    assert answers(world) is None
    assert world.search("refund")["reason"] == "nothing_visible"
    assert (answers(world, "2022-12-31"), answers(world, "2023-01-01")) == ("v1", None)
    with world.reader() as reader:
        assert one(reader, "can_read", "handbook", "refund.md") is False
    put(world, "v2", "2023-01-01", "2999-01-01")
    assert (answers(world), answers(world, "2022-12-31")) == ("v2", "v1")  # control


@pytest.mark.contract("B7", "A6")
def test_todays_access_rules_apply_to_yesterdays_text(world: World) -> None:
    put(world, "v1", "2023-01-01")
    put(world, "v2", "2024-01-01")
    for readers, who in ((["bob"], "bob"), (["staff"], "alice"), ([], None)):
        with world.admin() as admin:
            call(admin, "set_access", "refund.md", readers, source="handbook")
        for reader in ("alice", "bob"):
            for as_of, revision in (("2023-06-01", "v1"), ("2024-06-01", "v2"), (None, "v2")):
                assert answers(world, as_of, reader) == (revision if reader == who else None)
    with world.admin() as admin:
        call(admin, "set_access", "refund.md", ["staff"], source="handbook")
        call(admin, "drop_membership", "staff", "alice")
    assert answers(world, "2023-06-01") is None


@pytest.mark.contract("B7", "F4")
def test_as_of_says_what_it_shows(world: World) -> None:
    put(world, "v1", "2023-01-01")
    put(world, "v2", "2024-01-01", "2999-01-01")
    old, new = world.search("refund", as_of="2023-06-01")["hits"][0], world.search("refund")["hits"][0]
    assert (old["active"], old["effective_from"], old["effective_to"]) == (False, "2023-01-01T00:00:00.000000Z", None)
    assert (new["active"], new["effective_from"], new["effective_to"]) == (True, "2024-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z")
    assert world.packet("refund", as_of="2023-06-01")["as_of"] == "2023-06-01T00:00:00.000000Z"
    with world.reader() as reader:
        for as_of, chunk, code in (("2023-06-01", old, None), (None, old, "RG401"), (None, new, None), ("2023-06-01", new, "RG401")):
            with refused(reader, code):
                assert one(reader, "excerpt", chunk["chunk_id"], as_of)["text"] == chunk["text"]


# -- Deletion -----------------------------------------------------------------------------------------


@pytest.mark.contract("B8")
def test_a_tombstone_hides_on_every_path(world: World) -> None:
    put(world, "v1", "2023-01-01")
    put(world, "v2", "2024-01-01")
    world.put("other.md", "Refund of others.", vectors=[[1, 0, 0]])
    chunks = [world.search("refund rule", as_of=as_of)["hits"][0]["chunk_id"] for as_of in ("2023-06-01", None)]
    packets = [world.packet("refund rule", as_of=as_of, k=1) for as_of in ("2023-06-01", None)]
    assert [world.validate(packet, CITE)["valid"] for packet in packets] == [True, True]

    with world.writer() as writer:
        with refused(writer, "RG401"):
            call(writer, "delete_document", "absent.md")
        assert one(writer, "delete_document", "refund.md") is True
        assert answers(world) == "v2"  # not committed yet
    assert [answers(world, as_of) for as_of in (None, "2023-06-01", "2099-01-01")] == [None] * 3
    assert documents(world.search("refund")) == ["other.md"] and world.search("refund")["scope"] == {"documents": 1, "chunks": 1}
    with world.reader() as reader:
        assert one(reader, "can_read", "handbook", "refund.md") is False
        for chunk in chunks:
            for as_of in (None, "2023-06-01"):
                with refused(reader, "RG401"):
                    call(reader, "excerpt", chunk, as_of)
        assert one(reader, "can_read", "handbook", "other.md") is True  # control
    assert [world.validate(packet, CITE)["findings"][0]["check"] for packet in packets] == ["deleted", "deleted"]

    with world.writer() as writer:
        assert one(writer, "delete_document", "refund.md") is False  # once
        assert call(writer, "list_documents")[1][2:] [2] is not None  # deleted_at
        put_again = call(writer, "stage_revision", "refund.md", "Refund rule v2.", revision="v3")  # staging brings nothing back
        assert put_again[0][1:] == ("staged", True)
        for arguments in (("refund.md", "v2"), ("refund.md", "v1"), ("refund.md", "v1", "v2"), ("refund.md", "v1", None, False), ("refund.md", "v1", None, None)):
            with refused(writer, "RG409"):
                call(writer, "activate", *arguments)
        with refused(writer, "RG409"):
            call(writer, "rollback", "refund.md")
    assert answers(world) is None
    with world.writer() as writer:
        assert one(writer, "activate", "refund.md", "v2", restore=True) is True
    assert (answers(world), answers(world, "2023-06-01")) == ("v2", "v1")
    assert [world.validate(packet, CITE)["valid"] for packet in packets] == [True, True]


# -- Nothing left of what was replaced ----------------------------------------------------------------


@pytest.mark.contract("B8", "B4")
def test_five_chunks_become_three(world: World) -> None:
    five = [f"Refund rule {name} applies. " for name in ("alpha", "beta", "gamma", "delta", "epsilon")]
    three = [five[0], "Refund rule zeta applies. ", "Refund rule eta applies. "]
    vectors = [[1, n / 10, 0] for n in range(5)]
    world.put("rules.md", five, revision="five", vectors=vectors, effective_from="2023-01-01")
    old = {hit["chunk_id"] for hit in world.search("refund rule", k=100)["hits"]}
    world.put("rules.md", three, revision="three", vectors=vectors[:3], effective_from="2024-01-01")

    for mode in ("lexical", "dense", "hybrid"):
        request = DENSE if mode != "lexical" else {}
        for question in ("refund rule", "alpha beta gamma delta epsilon refund"):
            found = world.search(question, mode, k=100, threshold=0, **request)
            assert {hit["revision"] for hit in found["hits"]} == {"three"} and len(found["hits"]) == 3
            assert not {hit["chunk_id"] for hit in found["hits"]} & old  # also of the passage that did not change
            assert sorted(hit["text"] for hit in found["hits"]) == sorted(three)
            past = world.search(question, mode, k=100, threshold=0, as_of="2023-06-01", **request)
            assert {hit["chunk_id"] for hit in past["hits"]} == old  # control: they are there, for questions about then
        assert found["scope"] == {"documents": 1, "chunks": 3}
    for word in ("beta", "gamma", "delta", "epsilon"):
        assert world.search(word)["reason"] == "nothing_matches"
        assert word not in str(world.packet("refund rule " + word, budget=1_000_000)["excerpts"])
    with world.reader() as reader:
        for chunk_id in old:
            with refused(reader, "RG401"):
                call(reader, "excerpt", chunk_id)


@pytest.mark.contract("B4", "B7")
def test_revisions_are_never_mixed(world: World) -> None:
    """Three documents, each with its own dates: every answer has one revision of each, the one in force."""
    for document, starts in (("a.md", ("2021-01-01", "2023-01-01")), ("b.md", ("2022-01-01", "2024-01-01")), ("c.md", ("2023-01-01", "2025-01-01"))):
        for n, start in enumerate(starts, 1):
            world.put(document, [f"Refund part {part} of {document} in version {n}. " for part in range(3)], revision=f"v{n}", vectors=[[1, 0, 0]] * 3, effective_from=start)
    expected: dict[str | None, Any] = {"2020-06-01": "", "2021-06-01": "a1", "2022-06-01": "a1 b1", "2023-06-01": "a2 b1 c1", "2024-06-01": "a2 b2 c1", "2025-06-01": "a2 b2 c2", None: "a2 b2 c2"}
    for as_of, revisions in expected.items():
        for mode in ("lexical", "dense", "hybrid"):
            hits = world.search("refund part version", mode, k=100, as_of=as_of, threshold=0, **(DENSE if mode != "lexical" else {}))["hits"]
            assert sorted({f"{hit['document'][0]}{hit['revision'][1]}" for hit in hits}) == revisions.split()
            assert len(hits) == 3 * len(revisions.split())


@pytest.mark.contract("B2", "B8")
def test_a_restaged_document_stays_hidden_until_activated(world: World) -> None:
    put(world, "v1")
    with world.writer() as writer:
        call(writer, "delete_document", "refund.md")
        call(writer, "stage_revision", "refund.md", "Refund rule v2.", revision="v2", space="toy")
        add(writer, "refund.md", "v2", ["Refund rule v2."], vectors=[[1, 0, 0]])
        assert call(writer, "verify_revision", "refund.md", "v2", 1)[0][0] == "verified"
    assert answers(world) is None and answers(world, "2026-01-01") is None
    with world.writer() as writer:
        call(writer, "activate", "refund.md", "v2", restore=True)
    assert answers(world) == "v2"
