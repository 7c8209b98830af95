"""Groups in groups, and taking access away: at commit, and by one row, however much hangs on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support import Database

WRITES = """
select coalesce(sum(pg_stat_get_xact_tuples_inserted(oid)), 0)::integer, coalesce(sum(pg_stat_get_xact_tuples_updated(oid)), 0)::integer,
       coalesce(sum(pg_stat_get_xact_tuples_deleted(oid)), 0)::integer
  from pg_class where relkind = 'r' and relnamespace = 'pgrag_data'::regnamespace
"""
BIG = 400  # chunks of the big document, members of the big group
MODES: dict[str, dict[str, Any]] = {
    "lexical": {},
    "dense": {"embedding": [1, 0, 0], "space": "toy"},
    "hybrid": {"embedding": [1, 0, 0], "space": "toy"},
}


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    """A big document for a big group, which is in a group that is in a group, and one for everyone."""
    database = module_database
    database.put_tenant("a")
    users = ["alice", "bob", *(f"user-{number}" for number in range(BIG))]
    database.put_principals(
        "a", users=users, groups={"company": ["division"], "division": ["team"], "team": users, "hr": ["bob"]}
    )
    with database.writer("a", "handbook") as writer:
        database.put_document(
            writer, "big.md", [f"Refund rule {number}. " for number in range(BIG)], readers=["company"]
        )
        database.put_document(writer, "open.md", "Refund for everyone.")
    return database


def visible(connection: psycopg.Connection[Any]) -> set[str]:
    rows = connection.execute(
        "select document from pgrag.search('refund', 100, 'lexical', p_threshold => 0)"
    ).fetchall()
    return {document for (document,) in rows}


SET = "select pgrag.set_access('big.md', '{{{}}}', 'handbook')"
REVOCATIONS = {  # what is called, what puts it back, and how many rows that inserts, updates and deletes
    "a membership": (
        "select pgrag.drop_membership('team', 'alice')",
        "select pgrag.put_membership('team', 'alice')",
        (0, 0, 1),
    ),
    "a group's membership": (
        "select pgrag.drop_membership('division', 'team')",
        "select pgrag.put_membership('division', 'team')",
        (0, 0, 1),
    ),
    "access to the document": (SET.format("hr"), SET.format("company"), (2, 1, 0)),
    "access, to nobody": (SET.format(""), SET.format("company"), (2, 1, 0)),
    "the document": (
        "select pgrag.delete_document('big.md', 'handbook')",
        "select pgrag.activate('big.md', revision, p_restore => true, p_source => 'handbook') from pgrag.list_revisions('big.md', 'handbook')",
        (1, 1, 0),
    ),
}


@pytest.mark.contract("A6", "B8")
@pytest.mark.parametrize("name", REVOCATIONS)
def test_a_revocation_is_one_row_and_takes_effect_at_commit(world: Database, name: str) -> None:
    call, restore, writes = REVOCATIONS[name]
    with world.admin(
        "a"
    ) as admin:  # lists are shared, and made once: this one is there before it is asked for
        admin.execute("select pgrag.set_access('open.md', '{hr}', 'handbook')")
        admin.execute("select pgrag.set_access('open.md', '{everyone}', 'handbook')")
    with world.reader("a", "alice") as reader:
        found = reader.execute("select chunk_id from pgrag.search('rule 7', 1, 'lexical')").fetchone()[0]
        packet = world.packet(reader, "rule 7")
        assert packet["excerpts"]
        with world.admin("a") as admin:
            admin.execute(call)
            assert admin.execute(WRITES).fetchone() == writes
            assert visible(reader) == {"open.md", "big.md"}  # until it commits
        assert visible(reader) == {"open.md"}  # the next statement of a transaction that is open
        assert not reader.execute("select pgrag.can_read('handbook', 'big.md')").fetchone()[0]
        with pytest.raises(psycopg.Error) as caught, reader.transaction():
            reader.execute("select pgrag.excerpt(%s)", (found,))
        assert caught.value.sqlstate == "RG401"
        verdict = world.validate(reader, packet, {"answer": "x", "citations": [{"id": "e1"}]})
        assert [finding["check"] for finding in verdict["findings"]] == [
            "deleted" if name == "the document" else "readable"
        ]
        assert world.packet(reader, "rule 7")["excerpts"] == []
    with world.admin("a") as admin:
        admin.execute(restore)
    with world.reader("a", "alice") as reader:  # control: put back, it is there again
        assert visible(reader) == {"big.md", "open.md"}


@pytest.mark.contract("A6")
def test_a_new_access_list_costs_its_entries_and_no_more(world: Database) -> None:
    with world.admin("a") as admin:
        admin.execute("select pgrag.set_access('big.md', '{bob,hr}', 'handbook')")
        assert admin.execute(WRITES).fetchone() == (1 + 2 + 2, 1, 0)
        assert not admin.execute("select pgrag.set_access('big.md', '{hr,bob,hr}', 'handbook')").fetchone()[
            0
        ]  # the same list
        assert admin.execute(WRITES).fetchone() == (1 + 2 + 2, 1, 0)
        admin.rollback()


@pytest.mark.contract("A6")
def test_a_dropped_group_opens_nothing_and_is_one_row(database: Database) -> None:
    database.put_tenant("a")
    database.put_principals(
        "a", users=["alice", "bob"], groups={"company": ["team"], "team": ["alice", "bob"]}
    )
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "team.md", "Refund of the team.", readers=["team"])
        database.put_document(writer, "company.md", "Refund of the company.", readers=["company"])
        database.put_document(writer, "both.md", "Refund of both.", readers=["team", "bob"])
    with database.reader("a", "alice") as alice, database.reader("a", "bob") as bob:
        assert visible(alice) == visible(bob) == {"team.md", "company.md", "both.md"}
        with database.admin("a") as admin:
            admin.execute("select pgrag.drop_principal('team')")
            assert admin.execute(WRITES).fetchone() == (0, 1, 0)
        assert visible(alice) == set()
        assert visible(bob) == {"both.md"}
        with database.admin("a") as admin:  # the same name again is another group
            admin.execute("select pgrag.put_principal('team', 'group')")
            admin.execute("select pgrag.put_membership('team', 'alice')")
        assert visible(alice) == set()
        with database.admin("a") as admin:
            assert admin.execute("select count(*) from pgrag.list_memberships()").fetchone()[0] == 1
            admin.execute("select pgrag.set_access('team.md', '{team}', 'handbook')")
        assert visible(alice) == {"team.md"}  # control: until it is given something of its own


@pytest.mark.contract("A6")
def test_a_user_who_comes_back_inherits_nothing(database: Database) -> None:
    database.put_tenant("a")
    database.put_principals("a", users=["alice"], groups={"team": ["alice"]})
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "own.md", "Refund for alice.", readers=["alice"])
        database.put_document(writer, "team.md", "Refund of the team.", readers=["team"])
        database.put_document(writer, "open.md", "Refund for everyone.")
    with database.reader("a", "alice") as proven:  # as alice, before she leaves
        assert visible(proven) == {"own.md", "team.md", "open.md"}
        with database.admin("a") as admin:
            admin.execute("select pgrag.drop_principal('alice')")
        assert visible(proven) == set()
        with database.reader("a", "alice") as reader:
            assert visible(reader) == set()
        for kind in ("user", "service"):
            with database.admin("a") as admin:
                admin.execute("select pgrag.put_principal('alice', %s)", (kind,))
            with database.reader("a", "alice") as reader:
                assert visible(reader) == {"open.md"}
                assert reader.execute("select groups from pgrag.whoami()").fetchone()[0] == ["everyone"]
            assert visible(proven) == set()  # a principal that was proven before is still the one that left
            with database.admin("a") as admin:
                admin.execute("select pgrag.drop_principal('alice')")


SHAPES: dict[str, tuple[dict[str, list[str]], str, set[str]]] = {
    # memberships, whose, and the groups that it is in
    "a user": ({"g": ["alice"]}, "alice", {"g"}),
    "a group in a group": ({"g": ["h"], "h": ["alice"]}, "alice", {"g", "h"}),
    "the other direction": ({"g": ["alice"], "h": ["g"], "i": []}, "alice", {"g", "h"}),
    "a cycle": ({"g": ["h", "alice"], "h": ["i"], "i": ["g"]}, "alice", {"g", "h", "i"}),
    "a cycle that is elsewhere": ({"g": ["h"], "h": ["g"], "i": ["alice"]}, "alice", {"i"}),
    "a group of itself": ({"g": ["g", "alice"]}, "alice", {"g"}),
    "a diamond": (
        {"top": ["l", "r"], "l": ["base"], "r": ["base"], "base": ["alice"]},
        "alice",
        {"top", "l", "r", "base"},
    ),
    "a chain": (
        {f"g{n}": [f"g{n + 1}"] for n in range(60)} | {"g60": ["alice"]},
        "alice",
        {f"g{n}" for n in range(61)},
    ),
    "nobody": ({"g": [], "h": ["g"]}, "alice", set()),
}


@pytest.mark.contract("A6")
@pytest.mark.parametrize("shape", SHAPES)
def test_groups_in_groups(module_database: Database, shape: str) -> None:
    groups, user, expected = SHAPES[shape]
    tenant = f"groups: {shape}"
    module_database.put_tenant(tenant, space=None)
    module_database.put_principals(tenant, users=["alice", "eve"], groups=groups)
    with module_database.writer(tenant, "handbook") as writer:
        for group in groups:
            module_database.put_document(writer, group, f"Refund of {group}.", readers=[group])
    for subject, there in ((user, expected), ("eve", set())):
        with module_database.reader(tenant, subject) as reader:
            assert visible(reader) == there
            assert set(reader.execute("select groups from pgrag.whoami()").fetchone()[0]) == there | {
                "everyone"
            }


@pytest.mark.contract("A6")
def test_everyone_is_everyone_of_the_tenant(database: Database) -> None:
    for tenant in ("a", "b"):
        database.put_tenant(tenant)
        database.put_principals(tenant, users=["alice"])
        with database.admin(tenant) as admin:
            admin.execute("select pgrag.put_principal('robot', 'service')")
        with database.writer(tenant, "handbook") as writer:
            database.put_document(writer, f"{tenant}.md", "Refund for everyone.")
            database.put_document(writer, "robot.md", "Refund for robots.", readers=["robot"])
            database.put_document(writer, "nobody.md", "Refund for nobody.", readers=[])
            database.put_document(writer, "new.md", "Refund, no readers yet.", readers=None)
    for tenant in ("a", "b"):
        for subject, documents in (
            ("alice", {f"{tenant}.md"}),
            ("robot", {f"{tenant}.md", "robot.md"}),
            ("mallory", set()),
        ):
            with database.reader(tenant, subject) as reader:
                assert visible(reader) == documents
    with database.admin("a") as admin:
        for call, code in (
            ("select pgrag.drop_principal('everyone')", "RG401"),
            ("select pgrag.put_membership('everyone', 'alice')", "RG407"),
            ("select pgrag.put_principal('everyone', 'group')", "RG407"),
        ):
            with pytest.raises(psycopg.Error) as caught, admin.transaction():
                admin.execute(call)
            assert caught.value.sqlstate == code


@pytest.mark.contract("A4", "A5")
@pytest.mark.parametrize("mode", MODES)
def test_hidden_rows_never_use_up_a_place(crowded: Database, mode: str) -> None:
    """Hundreds of hidden chunks match better in every lane, and k visible ones come back for every k."""
    for k in (1, 7, 25):
        with crowded.reader("a", "alice") as reader:
            found = crowded.search(
                reader, "refund refund window", mode, k=k, candidates=k, threshold=0, **MODES[mode]
            )
        assert len(found["hits"]) == k
        assert {hit["document"].split("-")[0] for hit in found["hits"]} == {"visible"}
        assert (found["complete"], found["complete_reason"]) == (True, "k_returned")
    with crowded.reader("a", "alice") as reader:  # fewer than k: all that there are, and the answer says so
        found = crowded.search(reader, "refund window", mode, k=100, threshold=0, **MODES[mode])
    assert (len(found["hits"]), found["complete"], found["complete_reason"]) == (
        30,
        True,
        "all_matches_returned",
    )
    with crowded.reader("a", "bob") as reader:  # control: the hidden ones do match better
        found = crowded.search(reader, "refund refund window", mode, k=25, threshold=0, **MODES[mode])
    assert {hit["document"].split("-")[0] for hit in found["hits"]} == {"hidden"}


@pytest.fixture(scope="module")
def crowded(new_database: Callable[[], Database]) -> Database:
    """30 visible documents, and 300 hidden ones in five ways, all of which match better."""
    database = new_database()
    for tenant in ("a", "b"):
        database.put_tenant(tenant, sources=("handbook", "wiki"))
        database.put_principals(tenant, users=["alice", "bob"], groups={"hr": ["bob"]})
    better, near, far = "Refund window. Refund refund window.", [1, 0, 0], [1, 0.6, 0.2]
    with database.writer("a", "handbook") as writer:
        for number in range(30):
            text = f"Of many other things, number {number} also mentions a refund within some window of time."
            database.put_document(writer, f"visible-{number}", text, vectors=[far])
        database.put_document(writer, "hidden-big", [better] * 150, vectors=[near] * 150, readers=["hr"])
        database.put_document(writer, "hidden-staged", [better] * 40, vectors=[near] * 40, activate=False)
        database.put_document(writer, "hidden-old", [better] * 40, vectors=[near] * 40)
        database.put_document(writer, "hidden-old", "Nothing of it.", vectors=[[0, 0, 1]], readers=["hr"])
        database.put_document(writer, "hidden-deleted", [better] * 40, vectors=[near] * 40)
        writer.execute("select pgrag.delete_document('hidden-deleted')")
    with database.writer("b", "handbook") as writer:
        database.put_document(writer, "hidden-b", [better] * 40, vectors=[near] * 40)
    return database
