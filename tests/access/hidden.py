"""A tenant in which alice sees ten documents, and hands that change all the rest."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg

from tests.access.model import text
from tests.functions.patched import few_searched, patched, scope_limit, small_blocks
from tests.support import Database

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
        self.database, self.dice, self.number, self.requests = database, dice, 0, REQUESTS
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
                    ANSWERS, ([json.dumps({"threshold": 0} | r) for r in self.requests],)
                )
            ]

    def maintained(self, most: int = 100) -> None:
        """Maintenance until there is nothing left to do, each step in a transaction of its own."""
        for _ in range(most):
            if not self.operator.execute("select remaining from pgrag.maintain('0')").fetchone()[0]:
                return

    def step(self, name: str) -> None:
        hand = HANDS.get(name) or UPKEEP[name]
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
        if name in UPKEEP:  # what was written is committed now
            self.maintained()


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


def another_space(world: World) -> None:
    """Another tenant changes its encoder, and maintenance goes on."""
    tenant = world.new("tenant")
    for call in ("pgrag.put_tenant(%(t)s)", "pgrag.put_space(%(t)s, 'one', 'm', '1', 3)", "pgrag.put_space(%(t)s, 'two', 'm', '2', 3)", "pgrag.build_space(%(t)s, 'two')",
                 "pgrag.switch_space(%(t)s, 'two')", "pgrag.retire_space(%(t)s, 'one')", "pgrag.maintain('10 ms')", "pgrag.index_status()",
                 "pgrag.space_status(%(t)s)"):  # fmt: skip
        world.operator.execute(f"select {call}", {"t": tenant})


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
    "a tenant's next space, and maintenance": another_space,
    "a tenant, a source and a space": lambda w: [w.operator.execute(f"select pgrag.put_{t}", p) for t, p in (
        ("tenant(%s)", [w.new("tenant")]), ("source('a', %s)", [w.new("source")]), ("space('a', %s, 'm', '1', 3)", [w.new("space")]))],
}  # fmt: skip


def of_another(world: World) -> None:
    """Another tenant writes, opens, closes, deletes and lets in."""
    for _ in range(world.dice.randint(1, 3)):
        world.put(world.writer, world.new(), readers=["everyone"])
    world.put(world.writer, key := world.new())
    world.writer.execute("select pgrag.set_access(%s, %s)", (key, world.readers()))
    if world.dice.random() < 0.5:
        world.writer.execute("select pgrag.delete_document(%s)", (key,))
    user(world)


def rolled_back(world: World) -> None:
    world.put(world.writer, key := world.hidden(), readers=["hr"])
    world.writer.execute("select pgrag.rollback(%s)", (key,))


# Whose rows maintenance goes through: of all tenants and lists, of which alice's have nothing to be done.
UPKEEP: dict[str, Callable[[World], Any]] = {
    "maintenance of what was hidden": lambda _: None,
    "a hidden list as long as a block, and maintenance": lambda w: [w.put(w.writer, w.new(), readers=["hr"]) for _ in range(3)],
    "a hidden document rolled back, and maintenance": rolled_back,
    "another tenant's writes, and its maintenance": of_another,
}  # fmt: skip


def on(route: str, database: Database) -> ExitStack:
    """All searches in 'auto' through the index, unless the route is 'scope': by their rarest words alone where it is 'rarest', and with
    blocks where it names some: a list has one from four vectors on, and the tenant where it is 'tenant block'."""
    stack = ExitStack()
    if route != "scope":
        stack.enter_context(scope_limit(database))
    if route == "rarest":
        stack.enter_context(few_searched(database, 1, 6))
    if "block" in route:
        stack.enter_context(small_blocks(database, 4))
        if route != "tenant block":
            stack.enter_context(patched(database, "deserves_block", ("10 * p_least", "1000000 * p_least")))
    return stack
