"""Every order of the steps of small transactions, as PostgreSQL's isolationtester does it, against a short model."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.assurance.proof import WORDED, Batch, Control, Lab, Proof, Tally
from tests.assurance.together import NEAR
from tests.functions.patched import all_patched, scope_limit, small_blocks
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database

Connection = psycopg.Connection[Any]

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


def to_activate_new(document: str, expected: str | None = None) -> Step:
    return Step(
        f"activate {document}:new{f' after {expected}' * bool(expected)}",
        lambda connection, kept: to_activate(document, kept["new"], expected).run(connection, kept),
        lambda state, kept: to_activate(document, kept["new"], expected).model(state, kept),
    )


def to_look(way: str, user: str = "alice") -> Step:
    """Everything that the reader may see, each revision whole."""
    search = "select document || ':' || revision from pgrag.search('rule', 100, '{}', {}p_threshold => 0, p_token => %(token)s)"
    statement = {
        "lexical": search.format("lexical", ""),
        "dense": search.format("dense", NEAR),
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
    "ingest and ingest": lambda dice: (  # the same revision, of which one may fail afterwards; and a retry, whatever has become of it
        Role("writer", transaction(to_ingest("d"), to_activate_new("d", dice.choice((None, "v0", "v1"))))),
        Role("writer", (*transaction(to_ingest("d")), *transaction(to_ingest("d")))),
        Role("reader", (_look(dice),), "alice"),
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
        self.waited: Any = None  # the last one of these that had to

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

    def stored(self) -> tuple[dict[str, str], set[str], dict[str, tuple[str, ...]], int, list[int]]:
        """Active revisions, deleted documents, readers, how much the ledger lacks, and how many passages the new revision has, where there is one."""
        rows = self.superuser.execute(
            """select d.document, r.revision, d.deleted_at is not null,
                      array(select p.name::text from pgrag_data.acl_entry e join pgrag_data.principal p using (tenant_id, principal_id)
                             where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id order by 1)
                 from pgrag_data.document d join pgrag_data.revision r on r.revision_id = d.active_revision_id
                 join pgrag_data.tenant t on t.tenant_id = d.tenant_id where t.tenant = %s""", (self.tenant,)).fetchall()  # fmt: skip
        gaps, passages = self.superuser.execute(
            """select (select count(*) from pgrag_private.ledger_gaps(t.tenant_id)),
                      array(select (select count(*) from pgrag_data.chunk c where c.tenant_id = r.tenant_id and c.revision_id = r.revision_id)
                              from pgrag_data.revision r where r.tenant_id = t.tenant_id and r.revision = %s)
                 from pgrag_data.tenant t where t.tenant = %s""", (self.kept["new"], self.tenant)).fetchone()  # fmt: skip
        return {d: r for d, r, _, _ in rows}, {d for d, _, gone, _ in rows if gone}, {d: tuple(names) for d, *_, names in rows}, gaps, passages

    def waits(self, session: Session) -> bool:
        """Whether PostgreSQL says that it waits for another session; not for autovacuum, which cuts a table's end off for a moment."""
        blocked = "select from pg_stat_activity where pid = any (pg_blocking_pids(%s)) and backend_type = 'client backend'"
        return self.superuser.execute(blocked, (session.connection.info.backend_pid,)).fetchone() is not None


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
        stored = self.arena.stored()
        new = [PARTS for _, revision in self.state.revisions if revision == self.arena.kept["new"]]
        expected = (self.state.active, self.state.deleted, {d: tuple(sorted(names)) for d, names in self.state.readers.items()}, 0, new)
        if stored != expected:
            self.fails(f"the state is {stored}, not {expected}")
        if self.state.keys.get("old") is False:
            self.arena.retired = True
        self.tally.cases += 1
        self.tally.counts[self.name] += 1

    def fails(self, text: str) -> None:
        self.tally.fail(f"{self.name}, {self.arena.tenant}, order {''.join(map(str, self.order))}: {'; '.join(self.said)}: {text}")

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
                self.tally.counts["steps that waited"] += session.waited is not session.running
                session.waited = session.running
                return False
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {step.name} neither answers nor waits")


def interleaved(arena: Arena, seed: int, only: str = "") -> Tally:
    """The next orders: after the last of them the first again, with another draw of its variants."""
    tally = Tally()
    every = [entry for entry in EVERY_ORDER if entry[0].startswith(only)]
    for number in range(seed * INTERLEAVINGS, (seed + 1) * INTERLEAVINGS):
        name, order = every[number % len(every)]
        Run(arena, name, order, random.Random(number), tally)()
        tally.draws += number < len(every)
        if len(tally.failures) >= WORDED:
            break
    tally.counts += arena.steps
    arena.steps.clear()
    return tally


@contextmanager
def interleaving(lab: Lab, *changes: tuple[str, str, str], only: str = "") -> Iterator[Batch]:
    """``changes``: function, text, replacement. A block pays from four vectors on, so that maintenance has work."""
    with lab.database() as database, ExitStack() as stack:
        stack.enter_context(scope_limit(database))
        stack.enter_context(small_blocks(database, 4))
        stack.enter_context(all_patched(database, *changes))
        arena = Arena(database, stack)
        yield lambda seed: interleaved(arena, seed, only)


_CHECKED = "not found or v_chunk.revision_id <> all (v_scope)"
PROOF = Proof(
    name="interleavings",
    contracts=("A2", "A6", "B4", "B8", "B9", "H3"),
    unit="interleavings",
    draw="orders",
    target=3 * len(EVERY_ORDER),
    claim=f"In all {len(EVERY_ORDER):,} orders of the steps of two or three small transactions, each order once, with one draw of its variants, and then again "
          "with others, each answer and the final state are those of a short model.",
    opened=interleaving,
    controls={
        "an activation that holds no lock and compares nothing": Control(lambda lab: interleaving(
            lab, ("switch_revision", " for no key update", ""),
            ("switch_revision", "\n     and d.active_revision_id is not distinct from v_locked.active_revision_id", ""), only="activate and activate"),
            r"activate d:v\d( after v\d)? = True: expected RG402"),
        "a reply is not checked again": Control(lambda lab: interleaving(
            lab, ("pgrag.validate_reply", _CHECKED, "not found"), only="delete and validate"), r"validate d = : expected deleted"),
        "a key that is retired still counts": Control(lambda lab: interleaving(
            lab, ("current_principal", "and k.retired_at is null", ""), only="keys"), r" of alice = \([^)]*\): expected RG203"),
        "a block that forgets what changed": Control(lambda lab: interleaving(
            lab, ("compared_revisions", "and not pg_visible_in_snapshot(d.changed_xid, a.snapshot)", "and false"), only="maintain and activate"),
            r"dense of alice = \([^)]*\): expected \("),
        "a revision that is staged twice at once": Control(lambda lab: interleaving(
            lab, ("pgrag.stage_revision", "on conflict on constraint revision_revision_key do nothing", ""), only="ingest and ingest"), r"ingest d = 23505: expected n"),
    },
)  # fmt: skip
