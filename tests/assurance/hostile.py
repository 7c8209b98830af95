"""A8, A9: whatever SQL an application role runs, no secret of its world comes out.

A grammar makes the SQL: typed expressions over every relation, function, operator and aggregate that the server has, calls of
pgrag's functions, cursors, prepared statements, blocks, plans, COPY, settings, DDL, locks, roles and forged principals. Statements
go down a pipeline, each in a unit that is rolled back, so that what an attacker may write does not wear the world down; whatever
comes back (rows, counts, notices, errors with their contexts, plans, notifications) is searched for the canaries of
tests/access/watch.py in every spelling. test_hostile_sql.py has the attacks that a person thought of; these are the others.

Where sqlsmith is installed (Debian: apt-get install sqlsmith), every fifth batch also runs what it generates.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg import pq

from tests.access.watch import Secret, World, canary
from tests.assurance.grammar import GROUPS, Catalog, Grammar, quote
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import patched
from tests.support import ROLES, Database

ROUNDS = 3  # sessions of each weight in a batch
UNITS = 80  # of a session
KEPT = 4  # statements that the user before prepared
TIMEOUT = "100ms"  # of a unit: a random join may never end
# How many sessions of a role a round has: readers and browsers are who asks questions.
WEIGHTS = {"reader": 3, "browser": 3, "writer": 2, "admin": 2, "auditor": 1, "operator": 1, "keys": 1}
TOKEN_ROLES = ("reader", "browser", "writer", "admin", "auditor")
DIAGNOSTICS = [getattr(pq.DiagnosticField, name) for name in (
    "MESSAGE_PRIMARY", "MESSAGE_DETAIL", "MESSAGE_HINT", "CONTEXT", "INTERNAL_QUERY", "SCHEMA_NAME", "TABLE_NAME", "COLUMN_NAME",
    "DATATYPE_NAME", "CONSTRAINT_NAME",
)]  # fmt: skip

# ---- what comes out ------------------------------------------------------------------------------------------------


class Secrets:
    """The canaries in every spelling, and whose business each is."""

    def __init__(self, world: World) -> None:
        self._known: dict[str, frozenset[str]] = {}
        self._spelled: dict[bytes, str] = {}
        # Who may not see a passage has no business with its name either.
        managers = frozenset({"writer", "admin"})
        ids = {f"id of {name}": Secret(chunk.encode(), managers) for name, chunk in world.chunks.items()}
        for name, secret in (world.secrets | ids).items():
            self._known[name] = secret.known_to
            for spelling in spellings(secret):
                self._spelled[spelling] = name
        # The words begin alike, so a few texts that are not there say that no word is.
        begins = spellings(Secret(b"zq7"))
        self._signs = sorted(begins | {s for s, name in self._spelled.items() if not any(begin in s for begin in begins)})
        self._any = re.compile(b"|".join(map(re.escape, sorted(self._spelled, key=len, reverse=True))))
        for name, secret in world.secrets.items():  # control: each is found in the middle of something, however it is spelled
            for around in (b"", b"a", b"ab"):
                whole = around + secret.value + around
                for spelled in (whole.hex().encode(), base64.b64encode(whole), base64.b64encode(whole + b"c"), " ".join(str(b - 256 if b > 127 else b) for b in whole).encode()):
                    assert self.named(b"x " + spelled) == {name}, (name, spelled)

    def named(self, data: bytes) -> set[str]:
        """The secrets that stand in it."""
        data = data.lower()
        if not any(sign in data for sign in self._signs):
            return set()
        joined = b" ".join(data.split())  # a plan is broken into lines anywhere
        return {self._spelled[found.group()] for found in self._any.finditer(joined)}

    def leaked(self, data: bytes, role: str) -> set[str]:
        return {name for name in self.named(data) if role not in self._known[name]}


def spellings(secret: Secret) -> set[bytes]:
    """As text, hexadecimal, a node tree's numbers, base64 at each of its offsets, octal escapes and backwards; in lower case."""
    value = secret.value
    forms = {spelling.encode() for spelling in secret.spellings} | {value.hex().encode()}
    for offset in range(3):  # what does not depend on the bytes before and after
        whole = base64.b64encode(b"\0" * offset + value)
        begin, end = (offset * 8 + 5) // 6, (offset + len(value)) * 8 // 6
        forms.add(whole[begin:end])
    forms.add(b"".join(b"\\%03o" % byte if byte > 126 or byte < 32 else bytes([byte]) for byte in value))
    if value.isascii():
        forms |= {value[::-1], value}
    return {form.lower() for form in forms if len(form) >= 3}


@dataclass
class Seen:
    """What a statement gave."""

    statement: str
    kind: str
    state: str
    rows: int
    said: list[bytes]


class Session:
    """A connection of one role, its statements in a pipeline and its output as bytes."""

    def __init__(self, database: Database, role: str, timeout: str = TIMEOUT) -> None:
        self.role, self._timeout = role, timeout
        self._dsn = database.dsn(f"app_{role}")
        self._open()

    def _open(self) -> None:
        for wait in range(50):  # a server that crashed has to recover first
            try:
                self._connection = psycopg.connect(self._dsn, autocommit=True)
                break
            except psycopg.OperationalError:
                if wait == 49:
                    raise
                time.sleep(0.2)
        self._pg = self._connection.pgconn
        self._pg.nonblocking = 0
        self._said: list[bytes] = []
        self._pg.notice_handler = self._heard

    def close(self) -> None:
        self._connection.close()

    def _heard(self, result: pq.abc.PGresult) -> None:
        self._said += [field for code in DIAGNOSTICS if (field := result.error_field(code))]

    def reset(self) -> None:
        """As DISCARD ALL leaves it, and with bounds on time."""
        for statement in (b"rollback", b"discard all", f"set statement_timeout = '{self._timeout}'; set lock_timeout = '30ms'; set client_min_messages = notice".encode()):
            self._pg.exec_(statement)
        self._said.clear()
        if self._pg.status != pq.ConnStatus.OK:
            self.close()
            self._open()
            self.reset()

    def send(self, units: Sequence[Sequence[str]]) -> None:
        """Each unit's statements up to the first that fails; ``receive`` gives what came of them."""
        self._pg.enter_pipeline_mode()
        for unit in units:
            for statement in unit:
                self._pg.send_query_params(statement.encode("utf-8", "replace"), None)
            self._pg.pipeline_sync()

    def receive(self, units: Sequence[Sequence[str]], kinds: Sequence[str]) -> Iterator[Seen]:
        for unit, kind in zip(units, kinds, strict=True):
            for statement in unit:
                result = self._pg.get_result()
                if result is None or self._pg.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError(f"the connection is gone ({self._pg.get_error_message().strip()}) at {statement[:300]}")
                self._pg.get_result()  # the end of this query's results
                if result.status != pq.ExecStatus.PIPELINE_ABORTED:
                    yield self._taken(statement, kind, result)
            while (end := self._pg.get_result()) is None or end.status != pq.ExecStatus.PIPELINE_SYNC:
                if self._pg.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError(f"the connection is gone ({self._pg.get_error_message().strip()})")
        self._pg.exit_pipeline_mode()

    def simply(self, statement: str, kind: str) -> Seen:
        """One statement by the simple protocol, as COPY needs it."""
        self._pg.send_query(statement.encode("utf-8", "replace"))
        last = None
        while (result := self._pg.get_result()) is not None:
            last = result
            if result.status == pq.ExecStatus.COPY_OUT:
                while True:
                    size, data = self._pg.get_copy_data(0)
                    if size <= 0:
                        break
                    self._said.append(bytes(data))
        return self._taken(statement, kind, last)

    def _taken(self, statement: str, kind: str, result: pq.abc.PGresult) -> Seen:
        said, self._said = self._said, []
        rows, state = 0, ""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?????").decode()
            said += [field for code in DIAGNOSTICS if (field := result.error_field(code))]
        else:
            rows = result.ntuples
            said.append(result.command_status or b"")
            said += [value for row in range(rows) for column in range(result.nfields) if (value := result.get_value(row, column)) is not None]
            while notify := self._pg.notifies():
                said += [notify.relname, notify.extra]
        return Seen(statement, kind, state, rows, said)


# ---- batches -------------------------------------------------------------------------------------------------------


class Attackers:
    """A world, a session of each role, and batches of what they try."""

    def __init__(self, database: Database) -> None:
        self.world = World(database)
        self.secrets = Secrets(self.world)
        self.catalog = Catalog.read(database)
        self.sessions = {role: Session(database, role) for role in ROLES}
        with database.reader("a", "alice") as reader:
            self.packet = json.dumps(database.packet(reader, "refund window"))
        named = [secret.value.decode() for secret in self.world.secrets.values() if secret.value.isascii()]
        self.guesses = [*named, *self.world.chunks.values(), self.world.pay, self.world.group, self.world.tenant_b, self.world.source_b, canary()]

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def batch(self, seed: int) -> Tally:
        dice = random.Random(seed)
        tally = Tally()
        insider = self.world.database.token("a", "bob")
        tokens = {role: self.world.token(role) if role in TOKEN_ROLES else "" for role in ROLES}
        queue = [role for role, weight in WEIGHTS.items() for _ in range(ROUNDS * weight)]
        dice.shuffle(queue)
        while queue:
            wave: dict[str, list[tuple[str, list[str]]]] = {}
            for role in list(dict.fromkeys(queue)):  # a session of each role at once: the server has a processor for each
                queue.remove(role)
                wave[role] = self._units(dice, role, tokens[role], insider)
            for role, units in wave.items():
                self.sessions[role].reset()
                self.sessions[role].send([unit for _, unit in units])
            for role, units in wave.items():
                self._judge(seed, role, units, tally, lambda role=role, units=units: self.sessions[role].receive([u for _, u in units], [k for k, _ in units]))
                self._copies(seed, dice, role, tokens[role], tally)
        if seed % 5 == 0 and shutil.which("sqlsmith"):
            self._smith(seed, "reader" if seed % 2 else "browser", tokens, tally)
        return tally

    def _units(self, dice: random.Random, role: str, token: str, insider: str) -> list[tuple[str, list[str]]]:
        """Of one session: settings, a principal, and units that are rolled back. The kind '' is not counted."""
        alone = role in ("reader", "browser", "auditor") and dice.random() < 0.15
        guesses = dice.sample(self.guesses, 3) if not alone and dice.random() < 0.15 else []  # alone, a NOTIFY with a guess would reach others
        grammar = Grammar(self.catalog, dice, role, token, guesses, self.packet)
        kept = False
        units: list[tuple[str, list[str]]] = [("session setting", [grammar.set()]) for _ in range(dice.choice((0, 0, 2, 4)))]
        if role in ("reader", "browser") and dice.random() < 0.3:  # a pooled connection, whose last user was in the group
            units.append(("", ["begin", f"select pgrag.authenticate({quote(insider)})", "savepoint fuzz"]))
            units += [("", ["rollback to fuzz", f"prepare kept{n} as {grammar.select()}", f"execute kept{n}"]) for n in range(KEPT)]
            units.append(("", ["rollback"]))
            kept = True
        isolation = dice.choice(("", "", "", " isolation level serializable", " isolation level repeatable read", " read only"))
        if not alone:
            units.append(("", [f"begin{isolation}", *([f"select pgrag.authenticate({quote(token)})"] if token else [])]))
            units.append(("", ["savepoint fuzz"]))
        first = [] if alone else ["rollback to fuzz"]
        for number in range(UNITS):
            kind, statements = grammar.unit()
            if kept and number % 16 == 7:
                kind, statements = "prepared", [f"execute kept{dice.randrange(KEPT)}"]
            units.append((kind, first + statements))
        return units

    def _copies(self, seed: int, dice: random.Random, role: str, token: str, tally: Tally) -> None:
        grammar, session = Grammar(self.catalog, dice, role, token, (), self.packet), self.sessions[role]

        def run() -> Iterator[Seen]:
            session.simply("rollback to fuzz", "")
            for statement in grammar.copies():
                yield session.simply(statement, "copy")
                session.simply("rollback to fuzz", "")
            session.simply("rollback", "")
            yield session.simply(grammar._call()[0], "after the transaction") if role in ("reader", "browser", "auditor") else Seen("", "", "", 0, [])

        self._judge(seed, role, [("copy", [])], tally, run)

    def _judge(self, seed: int, role: str, units: list[tuple[str, list[str]]], tally: Tally, outcome: Callable[[], Iterator[Seen]]) -> None:
        every: list[Seen] = []
        try:
            every.extend(seen for seen in outcome() if seen.kind and seen.statement != "rollback to fuzz")
        except psycopg.OperationalError as error:
            tally.failures.append(f"seed {seed}, {role}: {error}; after {every[-1].statement[:300] if every else 'the first'}")
            self.sessions[role].close()
            self.sessions[role]._open()
            return
        states = Counter("succeeded" if not seen.state else "refused (42501)" if seen.state == "42501" else
                         "refused (RG…)" if seen.state.startswith("RG") else "timed out" if seen.state in ("57014", "55P03") else "other errors" for seen in every)  # fmt: skip
        tally.cases += len(every)
        tally.counts += states
        tally.counts["with rows"] += sum(seen.rows > 0 for seen in every)
        tally.counts += Counter(f"of them {GROUPS[seen.kind]}" for seen in every)
        # PostgreSQL's own functions have internal errors for odd arguments; pgrag's must not.
        failed = [seen for seen in every if seen.state.startswith("XX") and any(b"pgrag" in said for said in seen.said)]
        tally.failures += [f"seed {seed}, {role}: {seen.state} {b' '.join(seen.said)[:200]!r} of {seen.statement[:400]}" for seen in failed]
        if leaked := self.secrets.leaked(b"\n".join(b"\n".join(seen.said) for seen in every), role):
            mentioned = self.secrets.named("\n".join(s for _, unit in units for s in unit).encode())
            if leaked := leaked - mentioned:  # an attacker who names a guess gets it back
                told = next((s for s in every if self.secrets.leaked(b"\n".join(s.said), role) - mentioned), every[0])
                tally.failures.append(f"seed {seed}, {role} saw {sorted(leaked)}: {told.statement[:600]}")

    def _smith(self, seed: int, role: str, tokens: dict[str, str], tally: Tally) -> None:
        """What sqlsmith makes of the catalog, through a session that is watched."""
        target = self.world.database.dsn(f"app_{role}")
        made = subprocess.run(["sqlsmith", f"--target={target}", "--dry-run", "--max-queries=150", f"--seed={seed}"], capture_output=True, text=True, check=False, timeout=120)
        statements = [s for s in re.split(r";\n", made.stdout) if s.strip() and not re.search(r"pg_sleep|pg_terminate|pg_cancel|pg_advisory|copy ", s)]
        units = [("", ["begin", f"select pgrag.authenticate({quote(tokens[role])})"]), ("", ["savepoint fuzz"])]
        units += [("sqlsmith", ["rollback to fuzz", statement]) for statement in statements]
        session = self.sessions[role]
        session.reset()
        session.send([unit for _, unit in units])
        self._judge(seed, role, units, tally, lambda: session.receive([u for _, u in units], [k for k, _ in units]))


@contextmanager
def opened(lab: Lab, broken: Callable[[Database], AbstractContextManager[None]] | None = None) -> Iterator[Batch]:
    with lab.database() as database, ExitStack() as stack:
        attackers = Attackers(database)
        stack.callback(attackers.close)
        if broken:
            stack.enter_context(broken(database))
        yield attackers.batch


# ---- controls ------------------------------------------------------------------------------------------------------


@contextmanager
def granted(database: Database, *statements: str) -> Iterator[None]:
    with database.superuser() as superuser:
        for statement in statements:
            superuser.execute(statement)
    yield


def open_table(database: Database) -> AbstractContextManager[None]:
    everybody = ", ".join(f"pgrag_{role}" for role in ROLES)
    return granted(database, f"grant usage on schema pgrag_data to {everybody}", f"grant select on pgrag_data.chunk to {everybody}",
                   f"create policy open on pgrag_data.chunk for select to {everybody} using (true)")  # fmt: skip


def open_view(database: Database) -> AbstractContextManager[None]:
    return granted(database, *(f"alter policy pgrag_{table}_select on pgrag_data.{table} using (true)" for table in ("document", "revision", "chunk", "source")))


def readable_keys(database: Database) -> AbstractContextManager[None]:
    everybody = ", ".join(f"pgrag_{role}" for role in ROLES)
    return granted(database, f"grant usage on schema pgrag_private to {everybody}", f"grant select on pgrag_private.signing_key to {everybody}",
                   f"create policy open on pgrag_private.signing_key for select to {everybody} using (true)")  # fmt: skip


def talkative_error(database: Database) -> AbstractContextManager[None]:
    """A refusal that quotes what it refuses."""
    return patched(database, "pgrag.can_read", ("begin\n  return exists (", TALKATIVE))


TALKATIVE = """begin
  if p_document is distinct from 'refund.md' then
    raise exception 'no such document' using errcode = 'RG401', detail = (select min(text) from pgrag_data.chunk where text ~ 'salary');
  end if;
  return exists ("""

PROOF = Proof(
    name="hostile SQL",
    contracts=("A2", "A8", "A9"),
    unit="statements",
    target=2_000_000,
    claim="No statement that an application role runs makes a secret of another tenant, of a hidden document or of a key come out in rows, notices, errors or plans.",
    opened=opened,
    controls={
        "a policy that lets all roles read chunks": Control(partial(opened, broken=open_table), ""),
        "views without their policies": Control(partial(opened, broken=open_view), ""),
        "an error that quotes a hidden passage": Control(partial(opened, broken=talkative_error), ""),
        "signing keys that may be selected": Control(partial(opened, broken=readable_keys), ""),
    },
)
