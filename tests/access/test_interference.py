"""What a reader may not see changes nothing in what the reader gets: not an id, an order, a score, a count or a byte."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from tests.access.model import WORDS, text
from tests.functions.patched import few_searched, patched, scope_limit
from tests.support import Database

STEPS = 39  # three times each hand, on each of three routes: with the requests below, some 2,300 answers compared
TOY = {"space": "toy", "embedding": [0.5, 0.4, 0.3]}
REQUESTS: list[dict[str, Any]] = [
    {"question": "common refund window of the boat", "mode": "lexical", "k": 50},
    {
        "question": "salary holiday",
        "mode": "lexical",
        "k": 3,
        "candidates": 3,
        "filter": {"source": "handbook"},
        "as_of": "2030-01-01",
    },
    {"question": "invoice", "mode": "dense", "k": 5, "candidates": 5, **TOY},
    {"question": "tent lease", "mode": "hybrid", "k": 50, **TOY},
    {"question": "tent lease travel", "mode": "hybrid", "fusion": "rrf", "k": 7, "candidates": 7, **TOY},
    {"question": "holiday", "mode": "lexical", "k": 10, "probes": ["salary and travel", "deposit"]},
    {"question": "boat", "mode": "hybrid", "k": 10, "candidates": 10, "probes": ["lease", "refund window"], "probe_embeddings": [[0.1, 1, 0], [1, 0, 0.2]], **TOY},
    {"question": "tent \"common refund\" price", "mode": "lexical", "k": 50},  # visible or not, and hidden more and more often
    {"question": "\"window window\" tent", "mode": "hybrid", "k": 50, **TOY},
    {"question": "\"lagoon pier\" tent", "mode": "lexical", "k": 50},  # only ever hidden
    {"question": "\"salary holiday\" tent", "mode": "dense", "k": 50, **TOY},
    {"question": "refund window price -boat -\"common tent\"", "mode": "lexical", "k": 50},
    {"question": "common -refund -salary", "mode": "dense", "k": 50, **TOY},
    {"question": "common refund", "mode": "hybrid", "k": 20, "per_document": 1, "per_source": 3, **TOY},
    {"question": "common invoice", "mode": "lexical", "k": 20, "filter": {"metadata": {"team": "billing"}}},
    {"question": "common deposit", "mode": "hybrid", "k": 20, "filter": {"metadata": {"level": 1}, "language": "en"}, **TOY},
    {"question": "common salary \"stove tent\"", "mode": "lexical", "k": 5, "candidates": 5, "profile": "retry"},
    {"question": "common refund window price tent stove boat lease deposit invoice holiday salary travel", "mode": "lexical", "k": 50, "candidates": 50},
    {"question": "common refund window price -tent", "mode": "lexical", "k": 50, "isolation": "strict"},
    {"question": "common tent " + " ".join(f"word{n}" for n in range(70)), "mode": "lexical", "k": 50},  # more words than are used
]
ANSWERS = """
select string_agg(pgrag.search_json(request)::text, chr(10)) from unnest(%s::jsonb[]) as r (request)
union all
select (packet - array['seal', 'issued_at'])::text from pgrag.packet_json('{"question": "common refund", "mode": "lexical"}') as p (packet)
union all
select concat(tenant, known, groups) from pgrag.whoami()
union all
select string_agg(pgrag.can_read('handbook', document)::text, '') from unnest('{open-1,hidden-1,hidden-2,new-1}'::text[]) as n (document)
"""
# What a lexical lane with statistics over the whole tenant would compute: number, frequencies and average length.
GLOBAL = """
select (select array[count(*), avg(length)] from pgrag_data.chunk_lex),
       array_agg((select count(*) from pgrag_data.chunk_lex where lexemes @@ to_tsquery('simple', word)) order by word)
  from unnest(%s::text[]) as w (word)
"""


class World:
    """Tenant a, in which alice sees ten documents, and hands that change all the rest."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.database, self.dice, self.number = database, dice, 0
        for tenant in ("a", "b"):
            database.put_tenant(tenant, sources=("handbook", "wiki"))
            database.put_principals(
                tenant,
                users=["alice", "bob", "carol"],
                groups={"team": ["alice"], "hr": ["bob"], "board": ["hr", "carol"]},
            )
        with database.writer("a", "handbook") as writer:
            for number in range(10):
                self.put(writer, f"open-{number}", readers=[dice.choice(["everyone", "alice", "team"])])
                self.put(writer, f"hidden-{number}", readers=["hr"])
        self.reader, self.admin, self.operator = (
            psycopg.connect(database.dsn(f"app_{r}"), autocommit=True)
            for r in ("reader", "admin", "operator")
        )
        self.writer = psycopg.connect(database.dsn("app_writer"), autocommit=True)

    def close(self) -> None:
        for connection in (self.reader, self.admin, self.operator, self.writer):
            connection.close()

    def put(self, writer: psycopg.Connection[Any], key: str, **more: Any) -> str:
        texts = [text(self.dice) for _ in range(self.dice.randint(1, 4))]
        vectors = [[self.dice.random() + 0.1, self.dice.random(), self.dice.random()] for _ in texts]
        metadata = {"team": self.dice.choice(["billing", "ops"]), "level": self.dice.choice([1, 2])}
        return self.database.put_document(writer, key, texts, vectors=vectors, metadata=json.dumps(metadata), **more)

    def put_phrases(self) -> str:
        texts = ["Window window of a tent. ", "Salary holiday for a tent. ", "Stove tent at the lagoon pier, common refund. "]
        return self.database.put_document(self.writer, self.new(), texts, vectors=[[1, 1, 1]] * 3, readers=["hr"])

    def hidden(self) -> str:
        return f"hidden-{self.dice.randrange(10)}"

    def readers(self) -> list[str]:
        return self.dice.sample(["hr", "bob", "carol", "board"], self.dice.randint(0, 3))

    def new(self, word: str = "new") -> str:
        self.number += 1
        return f"{word}-{self.number}"

    def answers(self) -> list[str]:
        with self.reader.transaction():
            self.reader.execute("select pgrag.authenticate(%s)", (self.database.token("a", "alice"),))
            return [
                row[0]
                for row in self.reader.execute(
                    ANSWERS, ([json.dumps({"threshold": 0} | r) for r in REQUESTS],)
                )
            ]

    def step(self, name: str) -> None:
        hand = HANDS[name]
        tenant, source = (
            ("b", "handbook")
            if "another tenant" in name
            else ("a", "wiki" if "another source" in name else "handbook")
        )
        with self.writer.transaction(), self.admin.transaction():
            self.writer.execute(
                "select pgrag.authenticate(%s)", (self.database.token(tenant, "x", "writer", source=source),)
            )
            self.admin.execute("select pgrag.authenticate(%s)", (self.database.token(tenant, "x", "admin"),))
            hand(self)


def bad_draft(world: World) -> None:
    """Staged and never verified: nothing about it needs to be right."""
    key = world.new("draft")
    world.writer.execute(
        "select pgrag.stage_revision(%s, 'refund', p_space => 'toy', p_revision => 'r')", (key,)
    )
    world.writer.execute("select pgrag.set_access(%s, '{everyone}')", (key,))
    if world.dice.random() < 0.5:
        world.writer.execute(
            "select pgrag.add_chunks(%s, 'r', 1, '{refund}', '{0}', '{6}', '{1}', p_embeddings => '{\"[1,1,1]\"}')",
            (key,),
        )


def group(world: World) -> None:
    name = world.new("group")
    world.admin.execute("select pgrag.put_principal(%s, 'group')", (name,))
    world.admin.execute("select pgrag.put_membership('board', %s)", (name,))
    world.admin.execute("select pgrag.put_membership(%s, 'carol')", (name,))


def user(world: World) -> None:
    name = world.new("user")
    world.admin.execute("select pgrag.put_principal(%s, 'user')", (name,))
    world.admin.execute("select pgrag.put_membership('team', %s)", (name,))
    if world.dice.random() < 0.5:
        world.admin.execute("select pgrag.drop_principal(%s)", (name,))


def deleted(world: World) -> None:
    key = world.hidden()
    revision = world.put(world.writer, key, readers=["hr"])
    world.writer.execute("select pgrag.delete_document(%s)", (key,))
    world.writer.execute("select pgrag.activate(%s, %s, p_restore => true)", (key, revision))
    world.put(world.writer, key := world.new("gone"))
    world.writer.execute("select pgrag.delete_document(%s)", (key,))


HANDS: dict[str, Callable[[World], Any]] = {
    "a hidden document more": lambda w: w.put(w.writer, w.new(), readers=w.readers()),
    "a hidden document in another source": lambda w: w.put(w.writer, w.new(), readers=w.readers()),
    "a hidden document of a visible one's key in another source": lambda w: w.put(w.writer, f"open-{w.dice.randrange(10)}", readers=w.readers()),
    "a hidden document with the phrases that are asked for": lambda w: w.put_phrases(),
    "a hidden document's next revision": lambda w: w.put(w.writer, w.hidden(), readers=["hr"]),
    "a hidden document's readers": lambda w: w.writer.execute("select pgrag.set_access(%s, %s)", (w.hidden(), w.readers())),
    "a hidden document deleted and back, and a visible one made and deleted": deleted,
    "a visible document's next revision, not active": lambda w: w.put(w.writer, f"open-{w.dice.randrange(10)}", readers=None, activate=False),
    "a staged document": bad_draft,
    "a group": group,
    "a user": user,
    "a document of another tenant": lambda w: w.put(w.writer, f"open-{w.dice.randrange(10)}"),
    "a tenant, a source and a space": lambda w: [w.operator.execute(f"select pgrag.put_{t}", p) for t, p in (
        ("tenant(%s)", [w.new("tenant")]), ("source('a', %s)", [w.new("source")]), ("space('a', %s, 'm', '1', 3)", [w.new("space")]))],
}  # fmt: skip


def on(route: str, database: Database) -> ExitStack:
    """All searches in 'auto' through the index, where the route says so, and by their rarest words alone where it says 'rarest'."""
    stack = ExitStack()
    if route != "scope":
        stack.enter_context(scope_limit(database))
    if route == "rarest":
        stack.enter_context(few_searched(database, 1, 6))
    return stack


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
