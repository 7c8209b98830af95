"""Many at once: switches under readers, revocations, every interleaving of small transactions, and a transaction-pooling proxy."""

from __future__ import annotations

import json
import multiprocessing
import os
import pwd
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.assurance.proof import Batch, Lab, Proof, Tally
from tests.functions.patched import patched, scope_limit
from tests.support import AUDIENCE, ISSUER, KID, PASSWORD, SECRET, Database

Connection = psycopg.Connection[Any]
TOLD = 5  # failures of a batch that are put into words by each process; all of them are counted


def failing(tally: Tally, text: str) -> None:
    """Count a failure, and say what it was unless there are many."""
    tally.failures.append(text if len(tally.failures) < TOLD else "as before")


@contextmanager
def fresh(lab: Lab) -> Iterator[Database]:
    """A database of a proof's own."""
    database = lab.databases.new()
    try:
        yield database
    finally:
        lab.databases.drop(database)


# ---- processes ---------------------------------------------------------------------------------------------
# Threads would wait for one another in Python; what processes share is an array of numbers.

ACKNOWLEDGED, BEGUN, DONE, COUNTS = 0, 1, 2, 3
_shared: Any = None


def _share(array: Any) -> None:
    global _shared
    _shared = array


@contextmanager
def processes(number: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """So many processes, and the numbers that they share with this one."""
    context = multiprocessing.get_context("spawn")
    array = context.RawArray("q", COUNTS + number)
    with ProcessPoolExecutor(number, context, _share, (array,)) as pool:
        yield pool, array


# ---- switches ----------------------------------------------------------------------------------------------

READERS, SWITCHES, READS_EACH = 4, 20, 205


@dataclass(frozen=True)
class Storm:
    """What a reading process has to know."""

    reader: str
    browser: str
    token: str
    seed: int
    torn: bool = False  # read by a function that looks twice


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


_SEARCH = "select revision, text from pgrag.search('refund rule', 20, '{}', {}p_threshold => 0, p_token => %s)"
_NEAR = "p_embedding => '[1, 0, 0]', p_space => 'toy', "
_PACKET = """select e ->> 'revision', e ->> 'text' from jsonb_array_elements(
               pgrag.packet_json('{"question": "refund rule", "k": 20, "mode": "lexical", "threshold": 0}', %s) -> 'excerpts') e"""
_LOOK = """select 'v' || split_part(split_part(t, 'edition ', 2), '.', 1), t from unnest(public.look_twice()) t"""
READ_BY: Mapping[str, tuple[str, str, int, int]] = {  # role, statement, how many a pipeline, how often a pipeline of it comes
    "chunks view": ("browser", "select revision, text from pgrag.chunks", 16, 10),
    "documents view": ("browser", "select revision, chunks from pgrag.documents", 16, 6),
    "dense search": ("reader", _SEARCH.format("dense", _NEAR), 8, 4),
    "lexical search": ("reader", _SEARCH.format("lexical", ""), 4, 2),
    "hybrid search": ("reader", _SEARCH.format("hybrid", _NEAR), 4, 1),
    "packet": ("reader", _PACKET, 4, 1),
    "one snapshot": ("reader", _SEARCH.format("dense", _NEAR), 4, 1),  # REPEATABLE READ: all of them see the same
}


def keep_reading(storm: Storm, number: int) -> Tally:
    """Read until told to stop. Each statement has a snapshot of its own, those of a pipeline too."""
    dice, tally, last = random.Random(storm.seed * READERS + number), Tally(), -1
    names = list(READ_BY)
    weights = [often for *_, often in READ_BY.values()]
    with psycopg.connect(storm.reader, autocommit=True) as reader, psycopg.connect(storm.browser, autocommit=True) as browser:
        while not _shared[DONE]:
            (name,) = dice.choices(names, weights)
            role, statement, times, _ = READ_BY[name]
            if storm.torn:
                role, statement, times, name = "reader", _LOOK, 1, "two statements"
            connection = browser if role == "browser" else reader
            floor = _shared[ACKNOWLEDGED]
            with connection.pipeline():
                if role == "browser":
                    connection.execute("begin")
                    connection.execute("select pgrag.authenticate(%s)", (storm.token,))
                elif name == "one snapshot":
                    connection.execute("begin isolation level repeatable read")
                cursors = [connection.execute(statement, (storm.token,) if "%s" in statement else None) for _ in range(times)]
                if role == "browser" or name == "one snapshot":
                    connection.execute("commit")
            ceiling = _shared[BEGUN]
            seen = [_outcome(name, cursor.fetchall()) for cursor in cursors]
            for n, edition in enumerate(seen):
                tally.counts["reads"] += 1
                where = f"seed {storm.seed}, reader {number}, by {name}:"
                if isinstance(edition, str):
                    failing(tally, f"{where} {edition}")
                elif edition < last:
                    failing(tally, f"{where} edition {edition} after {last}")
                elif not floor <= edition <= ceiling:
                    failing(tally, f"{where} edition {edition}, while {floor} to {ceiling} could be in force")
                elif name == "one snapshot" and edition != seen[0]:
                    failing(tally, f"{where} edition {edition} at look {n} of a snapshot that had {seen[0]}")
                else:
                    # That it happens shows that the statements of a pipeline, and of a transaction, have each its own snapshot.
                    tally.counts["switches seen within a pipeline"] += n > 0 and edition > last
                    last = edition
            tally.counts[f"reads by {name}"] += len(seen)
            _shared[COUNTS + number] += len(seen)
    return tally


def _outcome(name: str, rows: list[Any]) -> int | str:
    if name == "documents view":
        return counted(rows)
    if name == "two statements":
        editions = sorted({int(revision[1:]) for revision, _ in rows})
        return editions[0] if len(editions) == 1 else f"a mix of editions {editions}"
    return whole(rows)


Activate = Callable[[Connection, str, int], None]


def activate(writer: Connection, token: str, edition: int) -> None:
    """The next edition, half of the time naming the one before."""
    expected = f"v{edition - 1}" if edition % 2 else None
    with writer.transaction():
        writer.execute("select pgrag.authenticate(%s)", (token,))
        (changed,) = writer.execute("select pgrag.activate('rules.md', %s, %s)", (f"v{edition}", expected)).fetchone()
    assert changed


def activate_in_two(writer: Connection, token: str, edition: int) -> None:
    """What no activation is: the old one away, and, once that is committed, the new one there."""
    for statement in ("select pgrag.delete_document('rules.md')", f"select pgrag.activate('rules.md', 'v{edition}', p_restore => true)"):
        with writer.transaction():
            writer.execute("select pgrag.authenticate(%s)", (token,))
            writer.execute(statement)


def storm(database: Database, pool: ProcessPoolExecutor, shared: Any, seed: int, *, switch: Activate = activate,
          reads_each: int = READS_EACH, torn: bool = False) -> Tally:  # fmt: skip
    """A tenant with one document of many editions, put in force one after the other while processes read."""
    tenant = f"s{seed}-{time.monotonic_ns()}"
    database.put_tenant(tenant)
    database.put_principals(tenant, users=["alice"])
    with database.writer(tenant, "handbook") as writer:
        for edition in range(SWITCHES + 1):
            texts = [f"Refund rule {number} of edition {edition}. " for number in range(passages_of(edition))]
            vectors = [[1, number / 10, 0] for number in range(len(texts))]
            database.put_document(writer, "rules.md", texts, revision=f"v{edition}", vectors=vectors,
                                  readers=["alice"] if edition == 0 else None, activate=edition == 0)  # fmt: skip
    if torn:
        look_twice(database, tenant)
    shared[:] = [0] * len(shared)
    task = Storm(database.dsn("app_reader"), database.dsn("app_browser"), database.token(tenant, "alice"), seed, torn)
    reading = [pool.submit(keep_reading, task, number) for number in range(READERS)]
    token = database.token(tenant, "connector", "writer", source="handbook")
    switched = 0
    try:
        with psycopg.connect(database.dsn("app_writer"), autocommit=True) as writer:
            for edition in range(1, SWITCHES + 1):
                while sum(shared[COUNTS:]) < reads_each * edition and not any(reader.done() for reader in reading):
                    time.sleep(0.0005)
                shared[BEGUN] = edition
                switch(writer, token, edition)
                shared[ACKNOWLEDGED] = edition
                switched += 1
    finally:
        shared[DONE] = 1
    return sum((reader.result(60) for reader in reading), start=Tally(switched))


def look_twice(database: Database, tenant: str) -> None:
    """A function that looks at the first passage in force, and a moment later, in another statement, at the second."""
    look = """(select c.text from pgrag_data.document d join pgrag_data.chunk c on c.revision_id = d.active_revision_id
               join pgrag_data.tenant t on t.tenant_id = d.tenant_id where t.tenant = '{}' and c.chunk_no = {})"""
    with database.superuser() as superuser:
        superuser.execute(
            "create or replace function public.look_twice() returns text[] language plpgsql volatile security definer as $$ declare v_first text := "
            f"{look.format(tenant, 1)}; begin perform pg_sleep(0.001); return array[v_first, {look.format(tenant, 2)}]; end $$"
        )


@contextmanager
def switching(lab: Lab, *, volatile: bool = False, **how: Any) -> Iterator[Batch]:
    with fresh(lab) as database, processes(READERS) as (pool, shared):
        if volatile:
            with database.superuser() as superuser:
                superuser.execute("""
                    do $$ declare v_function regprocedure; begin
                      for v_function in select p.oid from pg_proc p where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace)
                                           and p.provolatile = 's' loop
                        execute format('alter function %s volatile', v_function);
                      end loop; end $$""")
        yield lambda seed: storm(database, pool, shared, seed, **how)


SWITCHES_PROOF = Proof(
    name="switches",
    contracts=("B4",),
    unit="activations",
    target=5_000,
    claim="No read during activations is a mix of two revisions, lacks a passage, is older than what was committed when it began, or goes back.",
    opened=switching,
    controls={
        "a reader of two statements": partial(switching, torn=True, reads_each=8),
        "functions that do not keep their caller's snapshot": partial(switching, volatile=True, reads_each=8),
        "a switch in two transactions": partial(switching, switch=activate_in_two, reads_each=8),
    },
)


# ---- revocations -------------------------------------------------------------------------------------------

PROBES = 32
_TOPIC = 'select document, revision from pgrag.search(%(topic)s, 20, \'{}\', {}p_threshold => 0, p_token => %(token)s)'
_REQUEST = '{{"question": "{}", "k": 20, "mode": "lexical", "threshold": 0{}}}'
LOOK_BY: Mapping[str, str] = {
    "lexical": _TOPIC.format("lexical", ""),
    "dense": _TOPIC.format("dense", _NEAR),
    "hybrid": _TOPIC.format("hybrid", _NEAR),
    "strict": "select e ->> 'document', e ->> 'revision' from jsonb_array_elements(pgrag.search_json(%(strict)s, %(token)s) -> 'hits') e",
    "packet": "select e ->> 'document', e ->> 'revision' from jsonb_array_elements(pgrag.packet_json(%(request)s, %(token)s) -> 'excerpts') e",
    "excerpt": "select e ->> 'document', e ->> 'revision' from pgrag.excerpt(%(chunk)s, null, %(token)s) e",
    "can_read": "select %(document)s::text, %(revision)s::text where pgrag.can_read('handbook', %(document)s, %(token)s)",
    "validate_reply": """select %(document)s::text, %(revision)s::text
        where (pgrag.validate_reply(%(packet)s, '{"answer": "So.", "citations": [{"id": "e1"}]}', %(token)s) -> 'valid')::boolean""",
}  # fmt: skip
BROWSE_BY: Mapping[str, str] = {
    "documents view": "select document, revision from pgrag.documents",
    "chunks view": "select document, revision from pgrag.chunks",
}
# What is said of an excerpt that is not to be had, of whatever is asked with a retired key, and of the packet of a reader who was dropped.
REFUSED = {"RG401", "RG203", "RG501"}


class Revoking:
    """A tenant with documents, and connections that live as long as it: revokers, and readers with plans made before."""

    def __init__(self, database: Database, seed: int, stack: ExitStack) -> None:
        self.database, self.dice = database, random.Random(seed)
        self.tenant = f"r{seed}-{time.monotonic_ns()}"
        database.put_tenant(self.tenant)
        database.put_principals(self.tenant, users=["alice", "bob"], groups={"outer": ["middle"], "middle": ["inner"], "inner": ["alice"]})
        self.documents = [f"d{number}" for number in range(6)]
        with database.writer(self.tenant, "handbook") as writer:
            for number, document in enumerate(self.documents):
                for revision in ("v1", "v2"):
                    database.put_document(writer, document, f"Of topic{number} edition {revision} speaks.", revision=revision,
                                          vectors=[[1, number / 10, 0]], readers=["bob"], activate=revision == "v1")  # fmt: skip
        self.writer, self.admin, self.keys, self.reader, self.within, self.browser = (
            stack.enter_context(psycopg.connect(database.dsn(f"app_{role}"), autocommit=True))
            for role in ("writer", "admin", "keys", "reader", "reader", "browser")
        )
        self.tokens = {
            "writer": database.token(self.tenant, "connector", "writer", source="handbook"),
            "admin": database.token(self.tenant, "root", "admin"),
            "bob": database.token(self.tenant, "bob"),
        }
        self.number = 0

    def call(self, *statements: str, only: str = "") -> None:
        """One transaction, of the connector or of an administrator."""
        role = only or self.dice.choice(("writer", "admin"))
        connection = self.writer if role == "writer" else self.admin
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (self.tokens[role],))
            for statement in statements:
                connection.execute(statement)

    def access(self, document: str, readers: str) -> str:
        return f"select pgrag.set_access('{document}', '{{{readers}}}', 'handbook')"

    def switch(self, document: str, revision: str) -> str:
        return f"select pgrag.activate('{document}', '{revision}', p_restore => true, p_source => 'handbook')"


@dataclass(frozen=True)
class Revocation:
    """What lets the reader see a document, and what takes that away."""

    readers: str
    revoke: tuple[str, ...]
    prepare: tuple[str, ...] = ()  # by an administrator, beforehand
    restore: tuple[str, ...] = ()  # and afterwards
    reader: str = "alice"
    key: str = ""  # a key of its own, which is what is revoked
    replaced: bool = False  # by another revision, which is seen then


def revocations(world: Revoking, document: str) -> dict[str, Revocation]:
    """Every way, on this document."""
    n, there, away = world.number, "select pgrag.put_membership('{}', '{}')", "select pgrag.drop_membership('{}', '{}')"
    group, person, drop = "select pgrag.put_principal('{}', 'group')", "select pgrag.put_principal('{}', 'user')", "select pgrag.drop_principal('{}')"

    def chain(*names: str) -> tuple[str, ...]:
        return (*(group.format(name) for name in names[:-1]), *(there.format(names[m], names[m + 1]) for m in range(len(names) - 1)))

    def membership(group: str, member: str) -> Revocation:
        return Revocation("outer,bob", (away.format(group, member),), restore=(there.format(group, member),))

    return {
        "access": Revocation("alice,bob", (world.access(document, "bob"),)),
        "access of a group": Revocation("outer,bob", (world.access(document, "bob"),)),
        "access, to another group": Revocation("outer,bob", (world.access(document, f"bob,x{n}"),), prepare=(group.format(f"x{n}"),)),
        "membership": Revocation("inner,bob", (away.format("inner", "alice"),), restore=(there.format("inner", "alice"),)),
        "membership below": membership("inner", "alice"),
        "membership between": membership("middle", "inner"),
        "membership above": membership("outer", "middle"),
        "both ways of a diamond": Revocation(
            f"t{n},bob", (away.format(f"t{n}", f"l{n}"), away.format(f"r{n}", "alice")),
            prepare=(*chain(f"t{n}", f"l{n}", "alice"), group.format(f"r{n}"), there.format(f"t{n}", f"r{n}"), there.format(f"r{n}", "alice"))),
        "group": Revocation(f"g{n},bob", (drop.format(f"g{n}"),), prepare=chain(f"g{n}", "alice")),
        "group in a group": Revocation(f"g{n},bob", (drop.format(f"h{n}"),), prepare=chain(f"g{n}", f"h{n}", "alice")),
        "reader": Revocation(f"u{n},bob", (drop.format(f"u{n}"),), prepare=(person.format(f"u{n}"),), reader=f"u{n}"),
        "reader in a group": Revocation(f"g{n},bob", (drop.format(f"u{n}"),), prepare=(person.format(f"u{n}"), *chain(f"g{n}", f"u{n}")), reader=f"u{n}"),
        "document": Revocation("outer,bob", (f"select pgrag.delete_document('{document}', 'handbook')",)),
        "another revision": Revocation("outer,bob", (world.switch(document, "v2"),), replaced=True),
        "rollback": Revocation("alice,bob", (f"select pgrag.rollback('{document}', p_source => 'handbook')",), replaced=True),
        "key": Revocation("outer,bob", (), key=f"{world.tenant}-{n}"),
    }  # fmt: skip


def probe(world: Revoking, way: str, tally: Tally) -> None:
    """Seen, revoked, and seen no more: in every way to look, in statements of their own and in a transaction that was open."""
    world.number += 1
    number = world.dice.randrange(len(world.documents))
    document = world.documents[number]
    case = revocations(world, document)[way]
    revision, other = ("v2", "v1") if way == "rollback" else ("v1", "v2")
    world.call(*case.prepare, world.access(document, case.readers),
               *((world.switch(document, "v1"),) if revision == "v2" else ()), world.switch(document, revision), only="admin")  # fmt: skip
    if case.key:
        world.keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (case.key, SECRET, ISSUER, AUDIENCE))
    token = world.database.token(world.tenant, case.reader, kid=case.key or KID)
    asked: dict[str, Any] = {
        "token": token, "topic": f"topic{number}", "document": document, "revision": revision,
        "request": _REQUEST.format(f"topic{number}", ""), "strict": _REQUEST.format(f"topic{number}", ', "isolation": "strict"'),
    }  # fmt: skip
    asked["packet"] = world.reader.execute("select pgrag.packet_json(%(request)s, %(token)s)::text", asked).fetchone()[0]
    excerpts = json.loads(asked["packet"])["excerpts"]
    asked["chunk"] = excerpts[0]["chunk_id"] if excerpts else ""
    where = f"{world.tenant}, probe {world.number}, {way} of {document}"

    # The same looks before and after: five functions, each in a statement of its own or in the transaction that is open, and a view.
    looks = [(name, LOOK_BY[name], world.dice.choice((world.reader, world.within))) for name in world.dice.sample(list(LOOK_BY), 5)]
    looks += [(name, BROWSE_BY[name], world.browser) for name in world.dice.sample(list(BROWSE_BY), 1)]

    def look(when: str, seen: bool) -> None:
        for name, statement, connection in looks:
            if name == "can_read" and not seen and case.replaced:
                continue  # the document may be read, in the other revision
            found = (document, revision) in ask(connection, statement, asked if connection is world.reader else asked | {"token": None}, where, tally)
            tally.counts["reads"] += 1
            if found is not seen:
                within = "" if connection is world.reader else " in a transaction that was open"
                failing(tally, f"{where}: {when}, {name}{within} {'shows' if found else 'does not show'} {revision}")

    for connection in (world.within, world.browser):
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
    try:
        look("before", True)
        if case.key:
            world.keys.execute("select pgrag.retire_signing_key(%s)", (case.key,))
        else:
            administered = any(word in case.revoke[0] for word in ("membership", "principal"))
            world.call(*case.revoke, only="admin" if administered else "")
        look("after", False)
        # Others keep what they had: nothing is taken from everybody.
        kept = ask(world.reader, LOOK_BY["lexical"], asked | {"token": world.tokens["bob"]}, where, tally)
        expected = (document, other if case.replaced else revision)
        if (expected in kept) is (way == "document"):
            failing(tally, f"{where}: afterwards bob sees {kept}")
    finally:
        for connection in (world.within, world.browser):
            connection.execute("rollback")
    world.call(*case.restore, only="admin")
    tally.cases += 1
    tally.counts[way] += 1


def ask(connection: Connection, statement: str, asked: Mapping[str, Any], where: str, tally: Tally) -> list[tuple[Any, ...]]:
    """The rows, or none where it is refused as it may be."""
    try:
        with connection.transaction():
            return connection.execute(statement, asked).fetchall()
    except psycopg.Error as error:
        if error.sqlstate not in REFUSED:
            failing(tally, f"{where}: {statement.split('(')[0]}: {error}")
        return []


def revoked(database: Database, seed: int) -> Tally:
    """So many probes in a tenant of their own, every way as often."""
    tally = Tally()
    with ExitStack() as stack:
        world = Revoking(database, seed, stack)
        ways = list(revocations(world, "d0"))
        order = (ways * (PROBES // len(ways) + 1))[:PROBES]
        world.dice.shuffle(order)
        for way in order:
            probe(world, way, tally)
    return tally


@contextmanager
def revoking(lab: Lab, *changes: tuple[str, str, str], cached: bool = False) -> Iterator[Batch]:
    """``changes``: function, text, replacement. ``cached``: access lists are those that a session saw first."""
    with fresh(lab) as database, ExitStack() as stack:
        for function, old, new in changes:
            stack.enter_context(patched(database, function, (old, new)))
        if cached:
            with database.superuser() as superuser:
                superuser.execute("alter function pgrag_private.permitted_acls rename to asked_acls")
                superuser.execute("""
                    create function pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns setof bigint language plpgsql stable as $$
                    declare v_name text := format('kept.acls_%s_%s', p_tenant_id, p_reader_id);
                    begin
                      if coalesce(current_setting(v_name, true), '') = '' then
                        perform set_config(v_name, array(select pgrag_private.asked_acls(p_tenant_id, p_reader_id))::text, false);
                      end if;
                      return query select unnest(current_setting(v_name)::bigint[]);
                    end $$;
                    alter function pgrag_private.permitted_acls owner to pgrag_engine""")
        yield partial(revoked, database)


REVOCATIONS_PROOF = Proof(
    name="revocations",
    contracts=("A2", "A6", "B4", "B8", "H3"),
    unit="probes",
    target=10_000,
    claim="What was revoked is not shown by any function or view in a statement that begins after the commit, in a transaction that was open either.",
    opened=revoking,
    controls={
        "access lists kept from before": partial(revoking, cached=True),
        "a tombstone hides nothing": lambda lab: revoking(lab, ("visible_revisions", "d.deleted_at is null", "true")),
        "a reply is not checked again": lambda lab: revoking(
            lab, ("pgrag.validate_reply", "not found or v_chunk.revision_id <> all (v_scope)", "not found")),
        "keys that are retired still count": lambda lab: revoking(lab, ("current_principal", "and k.retired_at is null", "")),
    },
)  # fmt: skip


# ---- interleavings -----------------------------------------------------------------------------------------
# Specifications as those of PostgreSQL's isolationtester: sessions with a few steps each, run in every order. A step that blocks is
# noticed and completed later. The model is short: what is committed, and what each open transaction has done. A statement sees
# what is committed when it runs, or when its transaction began where that is REPEATABLE READ; whoever waited for a row runs again on
# what was committed meanwhile. So each answer is known exactly.

INTERLEAVINGS = 100
DOCUMENTS = ("d", "e")
PARTS = 4  # passages of a revision, all of which a search must show


@dataclass
class State:
    """What is committed."""

    readers: dict[str, tuple[str, ...]]
    active: dict[str, str]
    deleted: set[str]
    revisions: set[tuple[str, str]]
    members: set[tuple[str, str]]
    keys: dict[str, bool]  # and whether they are valid

    def copy(self) -> State:
        return State(dict(self.readers), dict(self.active), set(self.deleted), set(self.revisions), set(self.members), dict(self.keys))

    def visible(self, user: str = "alice") -> tuple[str, ...]:
        """Documents with their revisions, as a reader has them."""
        held = {user, "everyone"}
        while more := {group for group, member in self.members if member in held} - held:
            held |= more
        return tuple(sorted(f"{d}:{r}" for d, r in self.active.items() if d not in self.deleted and held & set(self.readers[d])))


@dataclass(frozen=True)
class Step:
    """A step in words, what it does on a connection, and what it does to the model; either gives an answer or an SQLSTATE."""

    name: str
    run: Callable[[Connection, dict[str, Any]], Any]
    model: Callable[[State, dict[str, Any]], Any]
    changes: bool = True  # anything that others see


@dataclass(frozen=True)
class Role:
    """A session: who it is, and its steps; BEGIN and COMMIT among them, or each step is a transaction."""

    role: str
    steps: tuple[Step, ...]
    token: str = ""
    kid: str = ""
    snapshot: bool = False  # REPEATABLE READ


BEGIN = Step("begin", lambda *_: None, lambda *_: None)
COMMIT = Step("commit", lambda *_: None, lambda *_: None)


def changing(name: str, statement: str, model: Callable[[State], Any]) -> Step:
    return Step(name, lambda connection, _: connection.execute(statement).fetchone()[0], lambda state, _: model(state))


def to_activate(document: str, revision: str, expected: str | None = None) -> Step:
    def model(state: State) -> Any:
        if (document, revision) not in state.revisions:
            return "RG401"
        if state.active[document] == revision and document not in state.deleted:
            return False
        if expected is not None and state.active[document] != expected:
            return "RG402"
        if document in state.deleted:
            return "RG409"
        state.active[document] = revision
        return True

    guard = "null" if expected is None else f"'{expected}'"
    return changing(f"activate {document}:{revision}{f' after {expected}' * bool(expected)}",
                    f"select pgrag.activate('{document}', '{revision}', {guard}, false, 'handbook')", model)  # fmt: skip


def to_open(document: str, readers: tuple[str, ...]) -> Step:
    def model(state: State) -> bool:
        changed = set(state.readers[document]) != set(readers)
        state.readers[document] = readers
        return changed

    names = ",".join(readers)
    return changing(f"readers of {document}: {names}", f"select pgrag.set_access('{document}', '{{{names}}}', 'handbook')", model)


def to_delete(document: str) -> Step:
    def model(state: State) -> bool:
        changed = document not in state.deleted
        state.deleted.add(document)
        return changed

    return changing(f"delete {document}", f"select pgrag.delete_document('{document}', 'handbook')", model)


def to_leave(group: str, member: str) -> Step:
    def model(state: State) -> Any:
        if (group, member) not in state.members:
            return "RG401"
        state.members.discard((group, member))
        return ""

    return changing(f"{member} out of {group}", f"select pgrag.drop_membership('{group}', '{member}')::text", model)


def to_ingest(document: str) -> Step:
    """A new revision, staged, cut and verified: in this transaction, and not yet in force."""

    def run(connection: Connection, kept: dict[str, Any]) -> Any:
        return kept["ingest"](connection, document, kept["new"])

    def model(state: State, kept: dict[str, Any]) -> Any:
        state.revisions.add((document, kept["new"]))
        return kept["new"]

    return Step(f"ingest {document}", run, model)


def to_activate_new(document: str) -> Step:
    return Step(
        f"activate {document}:new",
        lambda connection, kept: to_activate(document, kept["new"]).run(connection, kept),
        lambda state, kept: to_activate(document, kept["new"]).model(state, kept),
    )


def to_look(way: str, user: str = "alice") -> Step:
    """Everything that the reader may see, each revision whole."""
    search = "select document || ':' || revision from pgrag.search('rule', 100, '{}', {}p_threshold => 0, p_token => %(token)s)"
    statement = {
        "lexical": search.format("lexical", ""),
        "dense": search.format("dense", _NEAR),
        "packet": """select e ->> 'document' || ':' || (e ->> 'revision') from jsonb_array_elements(pgrag.packet_json(
                     '{"question": "rule", "k": 100, "mode": "lexical", "threshold": 0}', %(token)s) -> 'excerpts') e""",
        "view": "select document || ':' || revision from pgrag.chunks",
    }[way]

    def run(connection: Connection, kept: dict[str, Any]) -> tuple[str, ...]:
        found = Counter(name for (name,) in connection.execute(statement, {"token": kept["token"]}))
        return tuple(sorted(name if number == PARTS else f"{name} ({number} of {PARTS})" for name, number in found.items()))

    return Step(f"{way} of {user}", run, lambda state, kept: _unless_retired(state, kept, state.visible(user)), changes=False)


def _unless_retired(state: State, kept: dict[str, Any], answer: Any) -> Any:
    return answer if state.keys.get(kept["kid"]) else "RG203"


def to_validate(document: str, user: str = "alice") -> Step:
    """Whether a packet from before holds: what is wrong with its citation of the document."""

    def run(connection: Connection, kept: dict[str, Any]) -> str:
        reply = {"answer": "So.", "citations": [{"id": kept["excerpt of"][document]}]}
        (verdict,) = connection.execute("select pgrag.validate_reply(%s, %s, %s)", (kept["packet"], json.dumps(reply), kept["token"])).fetchone()
        return ",".join(finding["check"] for finding in verdict["findings"])

    def model(state: State, kept: dict[str, Any]) -> str:
        seen = state.copy()
        seen.deleted.clear()
        if not any(name.startswith(f"{document}:") for name in seen.visible(user)):
            return "readable"
        return "deleted" if document in state.deleted else "" if state.active[document] == kept["was"][document] else "active"

    return Step(f"validate {document}", run, lambda state, kept: _unless_retired(state, kept, model(state, kept)), changes=False)


MAINTAIN = Step("maintain", lambda connection, kept: kept["maintain"](connection), lambda *_: None, changes=False)


def to_key(kid: str, valid: bool) -> Step:
    """Add one, or retire it."""

    def run(connection: Connection, kept: dict[str, Any]) -> str:
        name = kept["kids"][kid]
        if valid:
            connection.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (name, SECRET, ISSUER, AUDIENCE))
        else:
            connection.execute("select pgrag.retire_signing_key(%s)", (name,))
        return ""

    def model(state: State, _: dict[str, Any]) -> str:
        state.keys[kid] = valid
        return ""

    return Step(f"{'add' if valid else 'retire'} key {kid}", run, model)


Spec = Callable[[random.Random], tuple[Role, ...]]


def _revoked(dice: random.Random) -> Step:
    return dice.choice((to_open("d", ("bob",)), to_open("d", ()), to_leave("inner", "alice"), to_leave("outer", "inner"), to_delete("d")))


def _look(dice: random.Random) -> Step:
    return to_look(dice.choice(("lexical", "dense", "packet")))


def _written(dice: random.Random, document: str = "d") -> Step:
    return dice.choice((to_activate(document, "v1"), to_open(document, ("alice",)), to_open(document, ("bob",)), to_delete(document)))


def transaction(*steps: Step) -> tuple[Step, ...]:
    return (BEGIN, *steps, COMMIT)


SPECS: Mapping[str, Spec] = {
    "activate and activate": lambda dice: (
        Role("writer", transaction(to_activate("d", "v1", "v0"))),
        Role("writer", transaction(to_activate("d", "v2", dice.choice(("v0", "v0", None))))),
        Role("reader", (_look(dice), _look(dice)), "alice"),
    ),
    "activate and search": lambda dice: (
        Role("writer", transaction(to_activate("d", "v1"))),
        Role("reader", transaction(_look(dice)), "alice"),
        Role("browser", transaction(to_look("view")), "alice", snapshot=dice.random() < 0.5),
    ),
    "activate and a snapshot": lambda dice: (
        Role("writer", transaction(to_activate("d", "v1"))),
        Role("reader", transaction(_look(dice), _look(dice)), "alice", snapshot=True),
        Role("reader", (_look(dice),), "alice"),
    ),
    "revoke and search": lambda dice: (
        Role("admin", transaction(_revoked(dice))),
        Role("reader", transaction(_look(dice), to_validate("d")), "alice"),
        Role("reader", (_look(dice), to_validate("d")), "alice"),
    ),
    "revoke, then ingest": lambda dice: (  # the new enemy: nobody whose right was taken before may see what came after, in any snapshot
        Role("admin", (*transaction(_revoked(dice)),)),
        Role("writer", transaction(to_ingest("d"), to_activate_new("d"))),
        Role("reader", (_look(dice), _look(dice)), "alice"),
    ),
    "revoke, and ingest afterwards": lambda dice: (
        Role("both", (*transaction(to_open("d", ("bob",))), *transaction(to_ingest("d"), to_activate_new("d")))),
        Role("reader", transaction(_look(dice)), "alice", snapshot=dice.random() < 0.5),
    ),
    "delete and validate": lambda dice: (
        Role("writer", transaction(to_delete("d"))),
        Role("reader", transaction(to_validate("d"), to_validate("d")), "alice"),
        Role("reader", (to_validate("d"), _look(dice)), "alice"),
    ),
    "maintain and search": lambda _: (
        Role("operator", (*transaction(MAINTAIN), *transaction(MAINTAIN))),
        Role("reader", (to_look("dense"), to_look("dense"), to_look("dense")), "alice"),
    ),
    "maintain and activate": lambda dice: (
        Role("operator", (*transaction(MAINTAIN), MAINTAIN)),
        Role("writer", transaction(_written(dice))),
        Role("reader", (to_look("dense"), to_look("dense")), "alice"),
    ),
    "maintain and maintain": lambda _: (
        Role("operator", transaction(MAINTAIN)), Role("operator", transaction(MAINTAIN)), Role("reader", (to_look("dense"),), "alice"),
    ),
    "keys": lambda dice: (
        Role("keys", (*transaction(to_key("new", True)), to_key("old", False))),
        Role("reader", transaction(_look(dice)), "alice", "old"),
        Role("reader", (_look(dice),), "alice", dice.choice(("new", "old"))),
    ),
    "three that write": lambda dice: (
        Role("writer", transaction(to_activate("d", "v1", dice.choice(("v0", None))))),
        Role("writer", transaction(to_activate("d", "v2", dice.choice(("v0", "v1"))))),
        Role("admin", transaction(dice.choice((to_open("d", ("bob",)), to_delete("d"))))),
    ),
}  # fmt: skip


def orders(lengths: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of each session."""
    if not any(lengths):
        yield ()
    for session, left in enumerate(lengths):
        if left:
            for rest in orders((*lengths[:session], left - 1, *lengths[session + 1 :])):
                yield (session, *rest)


def every_order() -> list[tuple[str, tuple[int, ...]]]:
    """All permutations of all specifications, shuffled once: batches take them from there."""
    every = [(name, order) for name, spec in SPECS.items() for order in orders(tuple(len(role.steps) for role in spec(random.Random(0))))]
    random.Random(0).shuffle(every)
    return every


EVERY_ORDER = every_order()


class Session:
    """A connection with a thread of its own, and the transaction that it is in."""

    def __init__(self, arena: Arena, role: Role, number: int) -> None:
        self.arena, self.role = arena, role
        name = "writer" if role.role == "both" else role.role
        self.connection, self.pool = arena.connected(name, number)
        self.kid = role.kid or "test"
        kept = {"token": arena.token(name, role.token, self.kid)} if role.token or name in ("writer", "admin") else {}
        self.kept = arena.kept | kept | {"kid": self.kid}
        self.open, self.failed = False, False
        self.done: list[Step] = []  # in this transaction
        self.snapshot: State | None = None
        self.waiting: list[Step] = []
        self.running: tuple[Step, Future[Any]] | None = None

    def run(self, step: Step) -> Any:
        """In the session's thread: the answer, or the SQLSTATE."""
        connection, kept = self.connection, self.kept
        try:
            if step is BEGIN:
                connection.execute(f"begin isolation level {'repeatable read' if self.role.snapshot else 'read committed'}")
                if "token" in kept:
                    connection.execute("select pgrag.authenticate(%s)", (kept["token"],))
                return None
            if step is COMMIT:
                return connection.execute("commit").statusmessage == "ROLLBACK" or None
            within = {"token": None} if self.open else {}
            return step.run(connection, kept | within)
        except psycopg.Error as error:
            return error.sqlstate

    def expected(self, step: Step, state: State) -> Any:
        """What the model says, which changes with it."""
        if step is BEGIN:
            self.open, self.failed, self.done = True, False, []
            self.snapshot = state.copy() if self.role.snapshot else None
            if "token" in self.kept and not state.keys.get(self.kid):
                self.failed = True
                return "RG203"
            return None
        if step is COMMIT:
            self.open = False
            if self.failed:
                return True
            for change in self.done:
                change.model(state, self.kept)
            return None
        if not self.open:
            return step.model(state, self.kept)
        if self.failed:
            return "25P02"
        seen = (self.snapshot or state).copy()
        for change in self.done:
            change.model(seen, self.kept)
        answer = step.model(seen, self.kept)
        if isinstance(answer, str) and answer.startswith("RG"):
            self.failed = True
        elif step.changes:
            self.done.append(step)
        return answer


class Arena:
    """A tenant that is put back to where it was before each order."""

    def __init__(self, database: Database, stack: ExitStack) -> None:
        self.database, self.stack = database, stack
        self.tenant = f"i{time.monotonic_ns()}"
        self.pools: dict[tuple[str, int], tuple[Connection, ThreadPoolExecutor]] = {}
        self.tokens: dict[tuple[str, str, str], str] = {}
        self.steps: Counter[str] = Counter()
        database.put_tenant(self.tenant)
        database.put_principals(self.tenant, users=["alice", "bob"], groups={"outer": ["inner"], "inner": ["alice"]})
        with database.writer(self.tenant, "handbook") as writer:
            for document in DOCUMENTS:
                for revision in ("v0", "v1", "v2"):
                    self.ingest(writer, document, revision)
                writer.execute("select pgrag.set_access(%s, '{}')", (document,))
                writer.execute("select pgrag.activate(%s, 'v0')", (document,))
        self.superuser = stack.enter_context(database.superuser())
        self.number = 0
        self.retired = True
        self.kids = {"test": KID}
        self.state = State({d: () for d in DOCUMENTS}, dict.fromkeys(DOCUMENTS, "v0"), set(), {(d, f"v{n}") for d in DOCUMENTS for n in range(3)},
                           {("outer", "inner"), ("inner", "alice")}, {})  # fmt: skip
        self.kept: dict[str, Any] = {}

    def ingest(self, writer: Connection, document: str, revision: str) -> str:
        texts = [f"Rule {number} of {document} in {revision}. " for number in range(PARTS)]
        vectors = [[1, number / 10, len(revision) / 20] for number in range(PARTS)]
        return self.database.put_document(writer, document, texts, revision=revision, vectors=vectors, readers=None, activate=False)

    def maintain(self, operator: Connection) -> None:
        (action,) = operator.execute("select action from pgrag.maintain('0')").fetchone()
        self.steps[f"maintain: {action}"] += 1

    def maintained(self, steps: int) -> None:
        (operator, _) = self.connected("operator", 99)
        for _ in range(steps):
            if not operator.execute("select remaining from pgrag.maintain('0')").fetchone()[0]:
                return

    def connected(self, role: str, number: int) -> tuple[Connection, ThreadPoolExecutor]:
        """Connections and threads stay for the next order."""
        if (role, number) not in self.pools:
            connection = self.stack.enter_context(psycopg.connect(self.database.dsn(f"app_{role}"), autocommit=True))
            self.pools[role, number] = connection, self.stack.enter_context(ThreadPoolExecutor(1))
        return self.pools[role, number]

    def token(self, role: str, subject: str, kid: str) -> str:
        name = (role, subject, self.kids[kid])
        if name not in self.tokens:
            more = {"source": "handbook"} if role == "writer" else {}
            kind = role if role in ("writer", "admin") else "reader"
            self.tokens[name] = self.database.token(self.tenant, subject or "someone", kind, kid=self.kids[kid], **more)
        return self.tokens[name]

    def reset(self, dice: random.Random) -> State:
        """Where an order begins: all of it as always but for who reads what."""
        self.number += 1
        (admin, _), (keys, _) = self.connected("admin", 99), self.connected("keys", 99)
        readers = {d: dice.choice((("alice",), ("inner",), ("outer", "bob"), ("everyone",))) for d in DOCUMENTS}
        with admin.transaction():
            admin.execute("select pgrag.authenticate(%s)", (self.token("admin", "", "test"),))
            for document in DOCUMENTS:
                admin.execute("select pgrag.set_access(%s, %s, 'handbook')", (document, list(readers[document])))
                admin.execute("select pgrag.activate(%s, 'v0', null, true, 'handbook')", (document,))
            admin.execute("select pgrag.put_membership('outer', 'inner')")
            admin.execute("select pgrag.put_membership('inner', 'alice')")
        if self.retired:  # by the order before
            self.kids |= {"old": f"{self.tenant}-{self.number}"}
            keys.execute("select pgrag.add_signing_key(%s, %s, %s, %s)", (self.kids["old"], SECRET, ISSUER, AUDIENCE))
            self.retired = False
        self.kids["new"] = f"{self.tenant}-{self.number}-new"
        self.state = State(readers, dict.fromkeys(DOCUMENTS, "v0"), set(), self.state.revisions, {("outer", "inner"), ("inner", "alice")},
                           {"test": True, "old": True})  # fmt: skip
        self.kept = {"new": f"n{self.number}", "ingest": self.ingest, "maintain": self.maintain, "kids": self.kids, "was": dict(self.state.active)}
        return self.state

    def packet(self) -> None:
        """What alice has read before."""
        (reader, _) = self.connected("reader", 99)
        (packet,) = reader.execute("""select pgrag.packet_json('{"question": "rule", "k": 100, "mode": "lexical", "threshold": 0}', %s)""",
                                   (self.token("reader", "alice", "test"),)).fetchone()  # fmt: skip
        self.kept |= {"packet": json.dumps(packet), "excerpt of": {e["document"]: e["id"] for e in packet["excerpts"]}}

    def stored(self) -> tuple[dict[str, str], set[str], dict[str, tuple[str, ...]], int]:
        """Active revisions, deleted documents, readers, and how much the ledger lacks."""
        rows = self.superuser.execute(
            """select d.document, r.revision, d.deleted_at is not null,
                      array(select p.name::text from pgrag_data.acl_entry e join pgrag_data.principal p using (tenant_id, principal_id)
                             where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id order by 1)
                 from pgrag_data.document d join pgrag_data.revision r on r.revision_id = d.active_revision_id
                 join pgrag_data.tenant t on t.tenant_id = d.tenant_id where t.tenant = %s""", (self.tenant,)).fetchall()  # fmt: skip
        (gaps,) = self.superuser.execute(
            "select count(*) from pgrag_data.tenant t cross join lateral pgrag_private.ledger_gaps(t.tenant_id) where t.tenant = %s", (self.tenant,)
        ).fetchone()
        return {d: r for d, r, _, _ in rows}, {d for d, _, gone, _ in rows if gone}, {d: tuple(names) for d, *_, names in rows}, gaps

    def waits(self, session: Session) -> bool:
        """Whether PostgreSQL says that it waits for another session."""
        return bool(self.superuser.execute("select pg_blocking_pids(%s)", (session.connection.info.backend_pid,)).fetchone()[0])


class Run:
    """One order of one specification."""

    def __init__(self, arena: Arena, name: str, order: tuple[int, ...], dice: random.Random, tally: Tally) -> None:
        self.arena, self.order, self.tally = arena, order, tally
        self.roles = SPECS[name](dice)
        self.state = arena.reset(dice)
        if any(step.name.startswith("validate") for role in self.roles for step in role.steps):
            arena.packet()
        if name.startswith("maintain"):  # blocks in any state of work
            arena.maintained(dice.choice((0, 1, 2, 3, 4, 6, 20)))
        self.sessions = [Session(arena, role, number) for number, role in enumerate(self.roles)]
        self.name = name
        self.said: list[str] = []

    def __call__(self) -> None:
        left = [list(role.steps) for role in self.roles]
        for number in self.order:
            session, step = self.sessions[number], left[number].pop(0)
            if session.running:
                session.waiting.append(step)
            else:
                self.take(session, step)
        while any(session.running for session in self.sessions):
            self.settle()
        active, deleted, readers, gaps = self.arena.stored()
        expected = (self.state.active, self.state.deleted, {d: tuple(sorted(names)) for d, names in self.state.readers.items()}, 0)
        if (active, deleted, readers, gaps) != expected:
            self.fails(f"the state is {(active, deleted, readers, gaps)}, not {expected}")
        if self.state.keys.get("old") is False:
            self.arena.retired = True
        self.tally.cases += 1
        self.tally.counts[self.name] += 1

    def fails(self, text: str) -> None:
        failing(self.tally, f"{self.name}, {self.arena.tenant}, order {''.join(map(str, self.order))}: {'; '.join(self.said)}: {text}")

    def take(self, session: Session, step: Step) -> None:
        """Until it has answered or waits for another; then those who waited for it, first of all."""
        session.running = step, session.pool.submit(session.run, step)
        if self.answered(session):
            self.compare(session)
            self.settle()

    def settle(self) -> None:
        """Whoever has waited and goes on now. Of two that waited for one row and have both answered, one has failed, and was first."""
        while ready := [session for session in self.sessions if session.running and self.answered(session)]:
            self.compare(min(ready, key=lambda session: not str(session.running[1].result()).startswith("RG")))

    def compare(self, session: Session) -> None:
        step, future = session.running  # type: ignore[misc]
        answer, session.running = future.result(), None
        expected = session.expected(step, self.state)
        self.said.append(f"{self.sessions.index(session)} {step.name} = {answer}")
        if answer != expected:
            self.fails(f"expected {expected}")
        if session.waiting:
            self.take(session, session.waiting.pop(0))

    def answered(self, session: Session) -> bool:
        step, future = session.running  # type: ignore[misc]
        deadline = time.monotonic() + 20
        while True:
            with suppress(StillRunning):
                future.result(0.003)
                return True
            if self.arena.waits(session) and not future.done():
                if not step.changes and step is not MAINTAIN:
                    self.fails(f"{step.name} waits for another session")
                self.tally.counts["steps that waited"] += 1
                return False
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {step.name} neither answers nor waits")


def interleaved(arena: Arena, seed: int, only: str = "") -> Tally:
    """The next orders."""
    tally = Tally()
    every = [entry for entry in EVERY_ORDER if entry[0].startswith(only)]
    for number in range(seed * INTERLEAVINGS, (seed + 1) * INTERLEAVINGS):
        name, order = every[number % len(every)]
        Run(arena, name, order, random.Random(number), tally)()
        if len(tally.failures) >= TOLD:
            break
    tally.counts += arena.steps
    arena.steps.clear()
    return tally


@contextmanager
def interleaving(lab: Lab, *changes: tuple[str, str, str], only: str = "") -> Iterator[Batch]:
    """``changes``: function, text, replacement. A block pays from four vectors on, so that maintenance has work."""
    with fresh(lab) as database, ExitStack() as stack:
        stack.enter_context(scope_limit(database))
        stack.enter_context(patched(database, "block_least", ("1000", "4")))
        for function, old, new in changes:
            stack.enter_context(patched(database, function, (old, new)))
        with database.superuser() as superuser:
            superuser.execute("update pgrag_data.search_cost set microseconds = case part when 'block' then 0.001 else 1000 end")
        arena = Arena(database, stack)
        yield lambda seed: interleaved(arena, seed, only)


_CHECKED = "not found or v_chunk.revision_id <> all (v_scope)"
INTERLEAVINGS_PROOF = Proof(
    name="interleavings",
    contracts=("A2", "A6", "B4", "B8", "B9", "H3"),
    unit="interleavings",
    target=len(EVERY_ORDER),
    claim=f"In all {len(EVERY_ORDER):,} orders of the steps of two or three small transactions, each answer and the final state are those of a short model.",
    opened=interleaving,
    controls={
        "an activation that holds no lock and compares nothing": lambda lab: interleaving(
            lab, ("switch_revision", " for no key update", ""),
            ("switch_revision", "\n     and d.active_revision_id is not distinct from v_locked.active_revision_id", ""), only="activate and activate"),
        "a reply is not checked again": lambda lab: interleaving(lab, ("pgrag.validate_reply", _CHECKED, "not found"), only="delete and validate"),
        "a key that is retired still counts": lambda lab: interleaving(lab, ("current_principal", "and k.retired_at is null", ""), only="keys"),
        "a block that forgets what changed": lambda lab: interleaving(
            lab, ("compared_revisions", "where not pg_visible_in_snapshot(d.changed_xid, a.snapshot)", "where false"), only="maintain and activate"),
    },
)  # fmt: skip


# ---- a transaction-pooling proxy ---------------------------------------------------------------------------

CLIENTS, CONNECTIONS, CHECKOUTS = 4, 3, 125  # processes, connections of each to the proxy, checkouts of each in a batch
SERVERS = 2  # connections of the proxy to the server, for each role
TENANTS, USERS = ("north", "south"), ("ann", "ben", "eve")
CLEANING = ("server_reset_query = DISCARD ALL", "server_reset_query_always = 1")
NOBODY = {"RG201", "RG208"}  # what is said to whoever proves nothing; the second where a principal was left behind


def proxy() -> str | None:
    """Where PgBouncer is."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/sbin")


@contextmanager
def pooled(database: Database, settings: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """PgBouncer in transaction mode before the database: where a reader and a browser connect."""
    program = proxy()
    assert program
    server = conninfo_to_dict(database.dsn())
    # PgBouncer refuses to be root, and whoever runs it must be able to reach the server's socket.
    socket = Path(str(server["host"])) / f".s.PGSQL.{server.get('port', 5432)}"
    uid = os.geteuid() or (socket.stat().st_uid if socket.exists() else 0) or pwd.getpwnam("nobody").pw_uid
    home = Path(tempfile.mkdtemp(prefix="pgb-"))  # short enough for a socket, and nobody's home
    target = " ".join(f"{name}={server[name]}" for name in ("host", "port") if server.get(name))
    lines = [
        "[databases]", f"{database.name} = {target} pool_size={SERVERS}", "[pgbouncer]", "listen_port = 6432", f"unix_socket_dir = {home}",
        "auth_type = scram-sha-256", f"auth_file = {home}/users.txt", "pool_mode = transaction", f"logfile = {home}/log", f"pidfile = {home}/pid",
        "log_connections = 0", "log_disconnections = 0", *settings, "",
    ]  # fmt: skip
    (home / "pgbouncer.ini").write_text("\n".join(lines))
    (home / "users.txt").write_text("".join(f'"app_{role}" "{PASSWORD}"\n' for role in ("reader", "browser")))
    for path in (home, *home.iterdir()):
        os.chown(path, uid, -1)
    given: dict[str, Any] = {"user": uid, "group": pwd.getpwuid(uid).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    process = subprocess.Popen([program, "-q", home / "pgbouncer.ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **given)
    try:
        deadline = time.monotonic() + 10
        while not (home / ".s.PGSQL.6432").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer did not start: {(home / 'log').read_text() if (home / 'log').exists() else ''}")
            time.sleep(0.02)
        first, second = (
            make_conninfo("", host=str(home), port=6432, dbname=database.name, user=f"app_{role}", password=PASSWORD) for role in ("reader", "browser")
        )
        yield first, second
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(home)


@dataclass(frozen=True)
class Pool:
    """What a client has to know: where the proxy is, everybody's token, and what everybody may see."""

    reader: str
    browser: str
    tokens: dict[tuple[str, str], str]
    visible: dict[tuple[str, str], frozenset[str]]
    seed: int
    cleaned: bool  # the proxy resets each connection between two clients
    cursors: bool  # users leave cursors, too


def furnished(database: Database) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], frozenset[str]]]:
    """Two tenants with the same names, groups and documents in each; tokens, and the texts that each user may see."""
    tokens: dict[tuple[str, str], str] = {}
    visible: dict[tuple[str, str], frozenset[str]] = {}
    for number, tenant in enumerate(TENANTS):
        groups = {"team": ["ann", "ben"], "chiefs": ["eve"]}
        database.put_tenant(tenant)
        database.put_principals(tenant, users=USERS, groups=groups)
        every: dict[str, list[str]] = {**{f"own-{user}.md": [user] for user in USERS}, **{f"of-{group}.md": [group] for group in groups},
                                       "open.md": ["everyone"]}  # fmt: skip
        with database.writer(tenant, "handbook") as writer:
            for place, (document, readers) in enumerate(every.items()):
                database.put_document(writer, document, f"Refund rule of {tenant} {document}.", readers=readers, vectors=[[1, place / 10, number / 10]])
        for user in USERS:
            tokens[tenant, user] = database.token(tenant, user)
            of = {"everyone", user} | {group for group, members in groups.items() if user in members}
            visible[tenant, user] = frozenset(f"Refund rule of {tenant} {document}." for document, readers in every.items() if of & set(readers))
    return tokens, visible


_ALL = "select text from pgrag.search('refund rule', 50, '{}', {}p_threshold => 0, p_token => %s)"
ASK_BY = {"dense": _ALL.format("dense", _NEAR), "lexical": _ALL.format("lexical", "")}
_CHUNKS = "select text from pgrag.chunks"


class Client:
    """One process's connections, each transaction on which may be on any connection of the server."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool, self.number = pool, number
        self.dice = random.Random(f"{pool.seed} {number}")
        self.tally = Tally()
        self.connections: list[Connection] = [self.connect("reader") for _ in range(CONNECTIONS)]
        self.browser = self.connect("browser")
        self.kinds: dict[Callable[[Connection, str, frozenset[str]], None], int] = {
            self.transaction: 25, self.token: 15, self.view: 20, self.nobody: 16, self.nobody_browses: 6, self.broken: 4, self.cancelled: 1,
            self.gone: 2, self.leaves_principal: 4, self.leaves_settings: 3, self.leaves_statement: 4,
        } | ({self.leaves_cursor: 6} if pool.cursors else {})  # fmt: skip

    def connect(self, role: str) -> Connection:
        return psycopg.connect(getattr(self.pool, role), autocommit=True, prepare_threshold=None)

    def run(self, checkouts: int) -> Tally:
        people = list(self.pool.tokens)
        kinds, weights = list(self.kinds), list(self.kinds.values())
        for _ in range(checkouts):
            (kind,) = self.dice.choices(kinds, weights)
            person = self.dice.choice(people)
            self.at = f"seed {self.pool.seed}, client {self.number}, checkout {self.tally.cases}, {kind.__name__} of {'/'.join(person)}"
            connection = self.dice.choice(self.connections)
            try:
                kind(connection, self.pool.tokens[person], self.pool.visible[person])
            except psycopg.Error as error:
                if error.sqlstate == "57014":  # a cancellation that came late hit whoever had the server's connection then
                    self.tally.counts["cancelled by another"] += 1
                else:
                    failing(self.tally, f"{self.at}: {error.sqlstate} {error}")
                self.replace(connection)
            self.tally.cases += 1
            self.tally.counts[kind.__name__] += 1
        for connection in (*self.connections, self.browser):
            connection.close()
        return self.tally

    def replace(self, connection: Connection) -> None:
        if connection is self.browser:
            self.browser = self.connect("browser")
        else:
            self.connections[self.connections.index(connection)] = self.connect("reader")
        connection.close()

    def saw(self, cursor: psycopg.Cursor[Any], may: frozenset[str]) -> None:
        """All that the person may see, and nothing else."""
        found = frozenset(text for (text,) in cursor)
        if found != may:
            failing(self.tally, f"{self.at}: too much: {sorted(found - may)}, too little: {sorted(may - found)}")

    def refused(self, connection: Connection, statement: str, codes: set[str], arguments: Sequence[Any] = ()) -> None:
        """Refused, and not answered with somebody's rows."""
        try:
            rows = connection.execute(statement, arguments).fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in codes:
                raise
            self.tally.counts[f"refused {error.sqlstate}"] += 1
        else:
            failing(self.tally, f"{self.at}: {statement.split('(')[0]} was answered with {rows[:3]}")

    # Those who behave.

    def transaction(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        with connection.pipeline(), connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            cursors = [connection.execute(ASK_BY[self.dice.choice(list(ASK_BY))], (None,)) for _ in range(self.dice.choice((1, 1, 2)))]
        for cursor in cursors:
            self.saw(cursor, may)

    def token(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        self.saw(connection.execute(ASK_BY["dense"], (token,)), may)

    def view(self, _: Connection, token: str, may: frozenset[str]) -> None:
        with self.browser.pipeline(), self.browser.transaction():
            self.browser.execute("select pgrag.authenticate(%s)", (token,))
            cursor = self.browser.execute(_CHUNKS)
        self.saw(cursor, may)

    def nobody(self, connection: Connection, *_: Any) -> None:
        self.refused(connection, ASK_BY["dense"], NOBODY, (None,))

    def nobody_browses(self, *_: Any) -> None:
        self.refused(self.browser, _CHUNKS, NOBODY)

    # Those whom something happens to.

    def broken(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        self.refused(connection, *self.dice.choice((("select 1 / 0", {"22012"}), ("select pgrag.excerpt('nothing')", {"RG401"}),
                                                    ("select * from pgrag_data.chunk", {"42501"}))))  # fmt: skip
        self.refused(connection, ASK_BY["dense"], {"25P02"}, (None,))
        connection.execute(self.dice.choice(("rollback", "commit")))

    def cancelled(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        done = threading.Event()

        def cancel() -> None:
            while not done.wait(0.01):  # one that comes before the statement is lost
                connection.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            self.refused(connection, "select pg_sleep(10)", {"57014"})
        finally:
            done.set()
            thread.join()
        connection.execute("rollback")

    def gone(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        """It disappears in the middle of its transaction."""
        connection.execute("begin")
        connection.execute("select pgrag.authenticate(%s)", (token,))
        self.replace(connection)

    # Those who leave something behind, for themselves or for whoever comes next.

    def leaves_principal(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            self.saw(connection.execute(ASK_BY["dense"], (None,)), may)
            connection.execute("select set_config('pgrag.principal', current_setting('pgrag.principal'), false)")

    def leaves_settings(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        settings = ["set search_path = pg_temp, public", "set enable_indexscan = off", "set hnsw.ef_search = 1", "set plan_cache_mode = force_generic_plan"]
        if self.pool.cleaned:
            settings += ["set row_security = off", "set default_transaction_isolation = 'serializable'"]
        connection.execute(self.dice.choice(settings))
        self.saw(connection.execute(ASK_BY["lexical"], (token,)), may)

    def leaves_statement(self, connection: Connection, token: str, may: frozenset[str]) -> None:
        """One of that name is there, from oneself or from somebody else: it runs as whoever runs it."""
        prepared = "select from pg_prepared_statements where name = 'theft'"
        with connection.transaction():
            there = connection.execute(prepared).fetchone() is not None
            if there and self.pool.cleaned:
                failing(self.tally, f"{self.at}: a prepared statement was left")
            if not there:
                connection.execute("prepare theft as " + ASK_BY["dense"].replace("%s", "null"))
            connection.execute("select pgrag.authenticate(%s)", (token,))
            self.saw(connection.execute("execute theft"), may)
            self.tally.counts["statements found"] += there
        self.refused(connection, "execute theft", NOBODY | {"26000"})  # on this connection of the server, or on another

    def leaves_cursor(self, connection: Connection, token: str, _: frozenset[str]) -> None:
        """Rows in a cursor WITH HOLD are its maker's, and the proxy has to close it."""
        self.refused(connection, "fetch all from hold", {"34000"})
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            connection.execute("declare hold cursor with hold for " + ASK_BY["dense"].replace("%s", "null"))


def check_out(pool: Pool, number: int) -> Tally:
    """One process."""
    return Client(pool, number).run(CHECKOUTS)


def checked_out(given: Pool, pool: ProcessPoolExecutor) -> Tally:
    return sum((task.result(300) for task in [pool.submit(check_out, given, number) for number in range(CLIENTS)]), start=Tally())


@contextmanager
def pooling(lab: Lab, *changes: tuple[str, str, str], cursors: bool = False) -> Iterator[Batch]:
    """Every other batch through a proxy that resets connections. ``cursors``: the other one's users leave cursors, too."""
    with fresh(lab) as database, processes(CLIENTS) as (pool, _), ExitStack() as stack:
        for function, old, new in changes:
            stack.enter_context(patched(database, function, (old, new)))
        tokens, visible = furnished(database)
        plain, cleaning = (stack.enter_context(pooled(database, settings)) for settings in ((), CLEANING))

        def batch(seed: int) -> Tally:
            if cursors or changes or seed % 2 == 0:
                return checked_out(Pool(*plain, tokens, visible, seed, False, cursors), pool)
            return checked_out(Pool(*cleaning, tokens, visible, seed, True, True), pool)

        yield batch


POOL_PROOF = Proof(
    name="pool",
    contracts=("A2", "A3"),
    unit="checkouts",
    target=100_000,
    claim="Behind a transaction-pooling proxy nobody sees another's row: whoever proves nothing is refused, whatever the one before left or did.",
    opened=pooling,
    controls={
        "a principal that outlives its transaction": lambda lab: pooling(
            lab, ("pgrag.authenticate", "v_setting), true)", "v_setting), false)"),
            ("current_principal", "v_fields[9] <> pgrag_private.transaction_mark()", "false")),
        "cursors with a proxy that resets nothing": partial(pooling, cursors=True),
    },
    short=2,
    needs=lambda: "" if proxy() else "there is no pgbouncer here: apt-get install pgbouncer",
)  # fmt: skip

PROOFS_HERE = [SWITCHES_PROOF, REVOCATIONS_PROOF, INTERLEAVINGS_PROOF, POOL_PROOF]
