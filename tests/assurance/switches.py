"""Readers while documents are switched, to the next revision and back: each read is of one, whole, and never of an older switch than before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from tests.access.hidden import on
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.assurance.together import ACKNOWLEDGED, BEGUN, COUNTS, DONE, NEAR, numbers, processes
from tests.support import Database

Connection = psycopg.Connection[Any]

READERS, SWITCHES, READS_EACH = 4, 20, 205
ROUTES = ("scope", "index", "class blocks")  # by seed


@dataclass(frozen=True)
class Storm:
    """What a reading process has to know."""

    reader: str
    browser: str
    token: str
    seed: int
    route: str
    torn: bool = False  # read by a function that looks twice


def schedule(seed: int) -> list[int]:
    """The edition in force after each switch: a new one for the most part, or, by a rollback, that of before which still stands."""
    dice, standing, editions, new = random.Random(seed), [0], [0], 0
    while len(editions) <= SWITCHES:
        if len(standing) > 1 and dice.random() < 0.25:
            standing.pop()
        else:
            standing.append(new := new + 1)
        editions.append(standing[-1])
    return editions


def passages_of(edition: int) -> int:
    """How many passages an edition has: its neighbours have other numbers."""
    return 2 + edition % 3


def whole(rows: Sequence[tuple[str, str]]) -> int | str:
    """Revision and text of what was seen, to the one edition that it is all of, or to what is wrong."""
    editions = {int(revision[1:]) for revision, _ in rows} | {int(text.split("edition ")[1].split(".")[0]) for _, text in rows}
    if len(editions) != 1:
        return f"a mix of editions {sorted(editions)}" if editions else "nothing"
    (edition,) = editions
    if len({text for _, text in rows}) != passages_of(edition) or len(rows) != passages_of(edition):
        return f"{len(rows)} passages of edition {edition}, which has {passages_of(edition)}"
    return edition


def counted(rows: Sequence[tuple[str, int]]) -> int | str:
    """The same of a list of documents: revision and number of passages."""
    if len(rows) != 1:
        return f"{len(rows)} documents"
    edition = int(rows[0][0][1:])
    return edition if rows[0][1] == passages_of(edition) else f"edition {edition} with {rows[0][1]} passages"


_SEARCH = "select revision, text from pgrag.search('refund rule', 20, '{}', {}p_threshold => 0, p_token => %s) where document = 'rules.md'"
_PACKET = """select e ->> 'revision', e ->> 'text' from jsonb_array_elements(
               pgrag.packet_json('{"question": "refund rule", "k": 20, "mode": "lexical", "threshold": 0}', %s) -> 'excerpts') e where e ->> 'document' = 'rules.md'"""
_LOOK = """select 'v' || split_part(split_part(t, 'edition ', 2), '.', 1), t from unnest(public.look_twice()) t"""
READ_BY: Mapping[str, tuple[str, str, int, int]] = {  # role, statement, how many a pipeline, how often a pipeline of it comes
    "chunks view": ("browser", "select revision, text from pgrag.chunks where document = 'rules.md'", 16, 10),
    "documents view": ("browser", "select revision, chunks from pgrag.documents where document = 'rules.md'", 16, 6),
    "dense search": ("reader", _SEARCH.format("dense", NEAR), 8, 4),
    "lexical search": ("reader", _SEARCH.format("lexical", ""), 4, 2),
    "hybrid search": ("reader", _SEARCH.format("hybrid", NEAR), 4, 1),
    "packet": ("reader", _PACKET, 4, 1),
    "one snapshot": ("reader", _SEARCH.format("dense", NEAR), 4, 1),  # REPEATABLE READ: all of them see the same
}


def keep_reading(storm: Storm, number: int) -> Tally:
    """Read until told to stop. Each statement has a snapshot of its own, those of a pipeline too."""
    dice, tally, last = random.Random(storm.seed * READERS + number), Tally(), 0
    editions = schedule(storm.seed)
    names = list(READ_BY)
    weights = [often for *_, often in READ_BY.values()]
    with psycopg.connect(storm.reader, autocommit=True) as reader, psycopg.connect(storm.browser, autocommit=True) as browser:
        while not numbers()[DONE]:
            (name,) = dice.choices(names, weights)
            role, statement, times, _ = READ_BY[name]
            if storm.torn:
                role, statement, times, name = "reader", _LOOK, 1, "two statements"
            connection = browser if role == "browser" else reader
            floor = numbers()[ACKNOWLEDGED]
            with connection.pipeline():
                if role == "browser":
                    connection.execute("begin")
                    connection.execute("select pgrag.authenticate(%s)", (storm.token,))
                elif name == "one snapshot":
                    connection.execute("begin isolation level repeatable read")
                cursors = [connection.execute(statement, (storm.token,) if "%s" in statement else None) for _ in range(times)]
                if role == "browser" or name == "one snapshot":
                    connection.execute("commit")
            ceiling = numbers()[BEGUN]
            seen = [_outcome(name, cursor.fetchall()) for cursor in cursors]
            for n, edition in enumerate(seen):
                tally.counts["reads"] += 1
                where = f"seed {storm.seed}, {storm.route}, reader {number}, by {name}:"
                if isinstance(edition, str):
                    tally.fail(f"{where} {edition}")
                    continue
                # An edition may come back: the earliest switch that it can be of, for whoever has seen what was seen before.
                possible = [switch for switch in range(floor, ceiling + 1) if editions[switch] == edition]
                later = [switch for switch in possible if switch >= last]
                if not possible:
                    tally.fail(f"{where} edition {edition}, while those of switches {floor} to {ceiling} could be in force: {editions[floor : ceiling + 1]}")
                elif not later:
                    tally.fail(f"{where} edition {edition} of switch {possible[-1]} after that of switch {last}")
                elif name == "one snapshot" and edition != seen[0]:
                    tally.fail(f"{where} edition {edition} at look {n} of a snapshot that had {seen[0]}")
                else:
                    # That it happens shows that the statements of a pipeline, and of a transaction, have each its own snapshot.
                    tally.counts["switches seen within a pipeline"] += n > 0 and later[0] > last
                    tally.counts["reads of a revision that was put back"] += edition < max(editions[: later[0] + 1])
                    last = later[0]
            tally.counts[f"reads by {name}"] += len(seen)
            numbers()[COUNTS + number] += len(seen)
    return tally


def _outcome(name: str, rows: list[Any]) -> int | str:
    if name == "documents view":
        return counted(rows)
    if name == "two statements":
        editions = sorted({int(revision[1:]) for revision, _ in rows})
        return editions[0] if len(editions) == 1 else f"a mix of editions {editions}"
    return whole(rows)


Switch = Callable[[Connection, str, int, int], None]


def switch_to(writer: Connection, token: str, edition: int, before: int) -> None:
    """The next edition, or back to one; half of the time naming the one before, and where to."""
    expected, named = (f"v{before}", f"v{edition}") if edition % 2 else (None, None)
    with writer.transaction():
        writer.execute("select pgrag.authenticate(%s)", (token,))
        if edition < before:
            (now,) = writer.execute("select pgrag.rollback('rules.md', %s, %s)", (named, expected)).fetchone()
            assert now == f"v{edition}", (now, edition)
        else:
            (changed,) = writer.execute("select pgrag.activate('rules.md', %s, %s)", (f"v{edition}", expected)).fetchone()
            assert changed


def switch_in_two(writer: Connection, token: str, edition: int, _: int) -> None:
    """What no switch is: the old one away, and, once that is committed, the new one there."""
    for statement in ("select pgrag.delete_document('rules.md')", f"select pgrag.activate('rules.md', 'v{edition}', p_restore => true)"):
        with writer.transaction():
            writer.execute("select pgrag.authenticate(%s)", (token,))
            writer.execute(statement)


def storm(database: Database, pool: ProcessPoolExecutor, shared: Any, seed: int, *, switch: Switch = switch_to,
          reads_each: int = READS_EACH, torn: bool = False) -> Tally:  # fmt: skip
    """A tenant with one document of many editions, put in force one after the other while processes read, by the route of the seed."""
    route = ROUTES[seed % len(ROUTES)]
    tenant, editions = f"s{seed}-{time.monotonic_ns()}", schedule(seed)
    database.put_tenant(tenant)
    database.put_principals(tenant, users=["alice"])
    with database.writer(tenant, "handbook") as writer:
        for edition in range(max(editions) + 1):
            texts = [f"Refund rule {number} of edition {edition}. " for number in range(passages_of(edition))]
            vectors = [[1, number / 10, 0] for number in range(len(texts))]
            database.put_document(writer, "rules.md", texts, revision=f"v{edition}", vectors=vectors,
                                  readers=["alice"] if edition == 0 else None, activate=edition == 0)  # fmt: skip
        # Beside it in its block, which is there whatever is in force.
        database.put_document(writer, "other.md", [f"Another matter {n}. " for n in range(4)], vectors=[[n / 10, 1, 0.5] for n in range(4)], readers=["alice"])
    if torn:
        look_twice(database, tenant)
    shared[:] = [0] * len(shared)
    task = Storm(database.dsn("app_reader"), database.dsn("app_browser"), database.token(tenant, "alice"), seed, route, torn)
    token = database.token(tenant, "connector", "writer", source="handbook")
    tally = Tally(draws=1)
    with (on(route, database), psycopg.connect(database.dsn("app_writer"), autocommit=True) as writer,
          psycopg.connect(database.dsn("app_operator"), autocommit=True) as operator):  # fmt: skip
        maintained(operator, tally)
        reading = [pool.submit(keep_reading, task, number) for number in range(READERS)]
        try:
            for number in range(1, SWITCHES + 1):
                while sum(shared[COUNTS:]) < reads_each * number and not any(reader.done() for reader in reading):
                    time.sleep(0.0005)
                shared[BEGUN] = number
                switch(writer, token, editions[number], editions[number - 1])
                shared[ACKNOWLEDGED] = number
                tally.cases += 1
                tally.counts["rollbacks"] += editions[number] < editions[number - 1]
                if "block" in route:  # the blocks are put in order while all read
                    maintained(operator, tally, 3)
        finally:
            shared[DONE] = 1
            read = [reader.result(60) for reader in reading]
    return sum(read, start=tally)


def maintained(operator: Connection, tally: Tally, most: int = 50) -> None:
    for _ in range(most):
        action, remaining = operator.execute("select action, remaining from pgrag.maintain()").fetchone()
        tally.counts["blocks built"] += action == "index"
        if not remaining:
            return


def look_twice(database: Database, tenant: str) -> None:
    """A function that looks at the first passage in force, and a moment later, in another statement, at the second."""
    look = """(select c.text from pgrag_data.document d join pgrag_data.chunk c on c.revision_id = d.active_revision_id
               join pgrag_data.tenant t on t.tenant_id = d.tenant_id where t.tenant = '{}' and d.document = 'rules.md' and c.chunk_no = {})"""
    with database.superuser() as superuser:
        superuser.execute(
            "create or replace function public.look_twice() returns text[] language plpgsql volatile security definer as $$ declare v_first text := "
            f"{look.format(tenant, 1)}; begin perform pg_sleep(0.001); return array[v_first, {look.format(tenant, 2)}]; end $$"
        )


@contextmanager
def switching(lab: Lab, *, volatile: bool = False, **how: Any) -> Iterator[Batch]:
    with lab.database() as database, processes(READERS) as (pool, shared):
        if volatile:
            with database.superuser() as superuser:
                superuser.execute("""
                    do $$ declare v_function regprocedure; begin
                      for v_function in select p.oid from pg_proc p where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace)
                                           and p.provolatile = 's' loop
                        execute format('alter function %s volatile', v_function);
                      end loop; end $$""")
        yield lambda seed: storm(database, pool, shared, seed, **how)


PROOF = Proof(
    name="switches",
    contracts=("B4",),
    unit="activations",
    draw="storms",
    target=5_000,
    claim="No read during activations and rollbacks, by any route, is a mix of two revisions, lacks a passage, is older than what was committed when it began, "
          "or goes back.",
    opened=switching,
    short=3,
    controls={
        "a reader of two statements": Control(partial(switching, torn=True, reads_each=8), "by two statements: a mix of editions"),
        "functions that do not keep their caller's snapshot": Control(partial(
            switching, volatile=True, reads_each=8), "by [^:]*(search|packet|view|snapshot): (a mix of|.* passages of|nothing|.* documents)"),
        "a switch in two transactions": Control(partial(switching, switch=switch_in_two, reads_each=8), "by [^:]*: (nothing|0 documents)"),
    },
)  # fmt: skip
