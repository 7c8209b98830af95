"""What a reader may not see changes nothing in what the reader gets: not an id, an order, a score, a count or a byte."""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest

from tests.access.hidden import GLOBAL, HANDS, World, on
from tests.access.model import WORDS
from tests.functions.patched import patched
from tests.support import Database

STEPS = 42  # three times each hand, on each of three routes: with the requests below, some 2,300 answers compared


@pytest.mark.contract("A4", "A7", "F9", "F8")
@pytest.mark.parametrize("route", ["scope", "index", "rarest"])
def test_hidden_rows_change_no_byte(database: Database, route: str) -> None:
    with closing(World(database, random.Random(7))) as world, database.superuser() as superuser, on(route, database):
        before, global_before = world.answers(), superuser.execute(GLOBAL, (WORDS,)).fetchone()
        found = [json.loads(answer) for answer in before[0].splitlines()]
        assert all(answer["hits"] for answer in found) and sum(answer["status"] == "evidence" for answer in found) >= len(found) - 1
        assert {answer["policy"].get("lexical_route") for answer in found} == {None, "scope"} | ({"index"} if route != "scope" else set())
        policies = [answer["policy"] for answer in found]
        assert any("relaxed" in policy for policy in policies) and any("phrases" in policy for policy in policies) and any("excluded" in policy for policy in policies)
        assert (sum("words_not_searched" in policy.get("lexical_bound", {}) for policy in policies) >= 5) == (route == "rarest")
        assert any(hit["probe"] for answer in found for hit in answer["hits"]) and any(answer["complete_reason"] == "capped" for answer in found)
        moved = 0
        for step in range(STEPS):
            name = list(HANDS)[step % len(HANDS)]
            world.step(name)
            assert world.answers() == before, f"step {step}: {name}"
            after = superuser.execute(GLOBAL, (WORDS,)).fetchone()
            moved += after != global_before
            global_before = after
            if step in (13, 26):
                superuser.execute("analyze")  # other statistics, other plans, the same answers
        assert moved >= STEPS / 3  # control: statistics over all rows of the lanes' table moved all the time
        with database.writer("a", "handbook") as writer:  # control: one visible document more, and the answers change
            world.put(writer, "one-more", readers=["team"])
        assert [old == new for old, new in zip(before, world.answers(), strict=True)] == [False, False, True, True]


@pytest.mark.contract("A7")
def test_statistics_over_all_rows_would_be_noticed(database: Database) -> None:
    """Control: a lexical lane that counts documents over the whole tenant, and the same comparison."""
    with closing(World(database, random.Random(3))) as world, database.superuser() as superuser:
        body = superuser.execute(
            "select pg_get_functiondef('pgrag_private.search_scope'::regproc)"
        ).fetchone()[0]
        everything = "(select sum(r.chunk_count) from pgrag_data.revision r where r.tenant_id = p_tenant_id)"
        patched = body.replace("sum(v.chunk_count)", everything)
        assert patched != body  # where N comes from
        before = world.answers()
        world.step("a hidden document more")
        assert world.answers() == before
        superuser.execute(patched)
        patched_before = world.answers()
        world.step("a hidden document more")
        assert world.answers() != patched_before
        superuser.execute(body)
        assert world.answers() == before


@pytest.mark.contract("A7")
@pytest.mark.parametrize("function, change", [
    ("visible_row", ("= any ((@).acls)", "is not null")),  # frequencies of the whole tenant, and its chunks
    ("estimate_df", ("0.5)::double precision * v_step", "0.5)::double precision * (select count(*) from pgrag_data.chunk_lex)")),
    ("phrases_occur", ("= any (p_scope.acls)", "is not null")),  # a phrase that only hidden chunks hold
])  # fmt: skip
def test_the_index_route_over_all_rows_would_be_noticed(database: Database, function: str, change: tuple[str, str]) -> None:
    """Control: the index finds chunks of the whole tenant, and each place that looks them up has to keep to the scope."""
    with closing(World(database, random.Random(3))) as world, on("rarest", database):
        world.step("a hidden document more")
        before = world.answers()
        with patched(database, function, change):
            patched_before = world.answers()
            world.step("a hidden document more")
            world.step("a hidden document with the phrases that are asked for")
            assert world.answers() != patched_before
        assert world.answers() == before
