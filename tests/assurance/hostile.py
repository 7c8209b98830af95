"""A8, A9: whatever SQL an application role runs, no secret of its world comes out.

A grammar makes the SQL: typed expressions over every relation, function, operator and aggregate that the server has, calls of
pgrag's functions, cursors, prepared statements, blocks, plans, COPY, settings, DDL, locks, roles and forged principals. Statements
go down a pipeline, each in a unit that is rolled back, so that what an attacker may write does not wear the world down; whatever
comes back (rows, counts, notices, errors with their contexts, plans, notifications) is searched for the canaries of
tests/access/watch.py and of ``furnish``, in the spellings of ``respelled`` and by their beginnings. test_hostile_sql.py has the
attacks that a person thought of; these are the others. Searches are well formed for the most part, so that every mode and route of
them answers: a proof that never saw one fails.

A count, a hash or a division by zero can say one bit without any canary. So in every tenth batch readers and browsers ask two copies
of the world the same, through pgrag's functions and views, without catalogs, statistics and the clock: one copy lacks all that is
hidden, and no answer may differ. Of what catalogs and time tell, this shows nothing; nor of the block of the whole tenant, whose
cost is known to tell something (docs/contracts.md). "No interference" is the proof of that matter.

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
from psycopg import pq, sql

from tests.access.watch import Secret, World, canary
from tests.assurance.grammar import GROUPS, MODES, SEARCHES, Catalog, Grammar, quote
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import blocks_cost_nothing, patched, rewrite
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

    def __init__(self, world: World, others: Sequence[str]) -> None:
        # No function tells a writer or an admin what a chunk is called, so its name is nobody's business but a reader's who may see it.
        secrets = world.secrets | {f"id of {name}": Secret(chunk.encode()) for name, chunk in world.chunks.items()}
        self._known = {name: secret.known_to for name, secret in secrets.items()}
        # The words begin alike: of the forms that hold such a beginning, none is there if it is not.
        begins = sorted(spellings(Secret(b"zq7"), 3))
        self._forms: dict[bytes, list[tuple[bytes, str]]] = {}
        for name, secret in secrets.items():
            for form in spellings(secret):
                self._forms.setdefault(next((begin for begin in begins if begin in form), form), []).append((form, name))
        words = {name: secret.value for name, secret in secrets.items() if secret.value.startswith(b"zq7")}
        self._pieces = {piece_of(word, [*words.values(), *(other.encode() for other in others)]): name for name, word in words.items()}
        self._lengths = sorted({len(piece) for piece in self._pieces})
        for name, secret in world.secrets.items():  # control: each is found in the middle of something long, however it is spelled
            for before in (0, 1, 2, 50, 60):
                for spelled in respelled(b"x" * before + secret.value + b"y" * 100):
                    assert self.named(b"x " + spelled) == {name}, (name, before, spelled)
        for piece, name in self._pieces.items():
            assert self.named(b"(" + piece + b",") == self.named(piece) == {name}, (name, piece)

    def named(self, data: bytes) -> set[str]:
        """The secrets that stand in it, or enough of the beginning of one to tell it from the others."""
        flat = flattened(data)
        found = {name for sign, forms in self._forms.items() if sign in flat for form, name in forms if form in flat}
        for piece in PIECE.findall(data.lower()) if b"zq7" in flat else ():
            found |= {self._pieces[piece[:length]] for length in self._lengths if piece[:length] in self._pieces}
        return found

    def leaked(self, data: bytes, role: str) -> set[str]:
        return {name for name in self.named(data) if role not in self._known[name]}


PIECE = re.compile(rb"zq7[0-9a-f]{4,}")
# What may stand between the parts of something: breaks of base64 and of plans, commas and quotes of an array, bars, braces, escapes.
PLAIN = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
BETWEEN = bytes(byte for byte in range(128) if not chr(byte).isalnum() and byte not in b"+/")


def flattened(data: bytes) -> bytes:
    """In lower case, and letters, digits and what base64 has besides only, as if written in one."""
    return data.replace(b"\\n", b"").translate(PLAIN, BETWEEN)


def piece_of(word: bytes, words: Sequence[bytes]) -> bytes:
    """The least beginning of a canary that no other has: four of its own characters, or more."""
    length = 7
    while sum(other.startswith(word[:length]) for other in words) > 1:
        length += 1
    return word[:length]


def spellings(secret: Secret, least: int = 6) -> set[bytes]:
    """Flattened: as it is, hexadecimal, numbers of bytes, base64 at each of its offsets, each of them backwards too, octal escapes, read as Latin-1."""
    forms = {secret.value.decode("latin-1").encode(), b"".join(b"\\%03o" % byte if byte > 126 or byte < 32 else bytes([byte]) for byte in secret.value)}
    for value in (secret.value, secret.value[::-1]):
        forms |= {value, value.hex().encode(), " ".join(str(byte - 256 if byte > 127 else byte) for byte in value).encode()}
        for offset in range(3):  # what does not depend on the bytes before and after
            whole = base64.b64encode(b"\0" * offset + value)
            begin, end = (offset * 8 + 5) // 6, (offset + len(value)) * 8 // 6
            forms.add(whole[begin:end])
    return {flat for form in forms if len(flat := flattened(form)) >= least}


def respelled(whole: bytes) -> Iterator[bytes]:
    """As SQL can spell it; base64 in lines, as PostgreSQL breaks it, and these in JSON."""
    for value in (whole, whole[::-1]):
        yield value
        yield value.hex().encode()
        yield base64.encodebytes(value)
        yield base64.encodebytes(value).replace(b"\n", b"\\n")
        yield " ".join(str(byte - 256 if byte > 127 else byte) for byte in value).encode()
    yield whole.decode("latin-1").encode()
    yield whole.upper()
    yield b"{" + b",".join(whole[n : n + 1] for n in range(len(whole))) + b"}"
    yield b"\n".join(whole[n : n + 1] for n in range(len(whole)))


@dataclass
class Seen:
    """What a statement gave."""

    statement: str
    kind: str
    state: str
    rows: int
    said: list[bytes]  # rows, notifications, or an error
    heard: list[bytes]  # notices

    def parts(self) -> dict[str, bytes]:
        """What came out, by the way that it came."""
        way = "error" if self.state else self.kind if self.kind in ("copy", "cursor", "plan", "prepared") else "rows"
        return {way: b"\n".join(self.said), "notice": b"\n".join(self.heard)}


    def timeless(self) -> tuple[str, int, list[bytes], list[bytes]]:
        """State, rows and notices, without what a packet has of its time."""
        return self.state, self.rows, *([PASSING.sub(b"", part) for part in parts] for parts in (self.said, self.heard))


PASSING = re.compile(rb'"(?:seal|issued_at)": "[^"]*"')


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
        last, copied = None, []
        while (result := self._pg.get_result()) is not None:
            last = result
            if result.status == pq.ExecStatus.COPY_OUT:
                while True:
                    size, data = self._pg.get_copy_data(0)
                    if size <= 0:
                        break
                    copied.append(bytes(data))
        seen = self._taken(statement, kind, last)
        seen.said += copied
        return seen

    def _taken(self, statement: str, kind: str, result: pq.abc.PGresult) -> Seen:
        heard, self._said = self._said, []
        rows, state, said = 0, "", []
        if result.status == pq.ExecStatus.FATAL_ERROR:
            state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"?????").decode()
            said = [field for code in DIAGNOSTICS if (field := result.error_field(code))]
        else:
            rows = result.ntuples
            said = [result.command_status or b""]
            said += [value for row in range(rows) for column in range(result.nfields) if (value := result.get_value(row, column)) is not None]
            while notify := self._pg.notifies():
                said += [notify.relname, notify.extra]
        return Seen(statement, kind, state, rows, said, heard)


# ---- batches -------------------------------------------------------------------------------------------------------


SMALL = (("block_least", "1000", "12"), ("deserves_block", "10 * p_least", "2 * p_least"), ("scope_first_limit", "20000", "0"))
ROUTES = ("exact", "class_blocks", "tenant_block")
ASKED = re.compile(r"^select .*?\bpgrag\.(search|packet)(_json)?\(.*?(?:p_mode => '|\"mode\": \")(lexical|dense|hybrid)\b", re.S)
ENOUGH = 4  # batches, after which every function and mode has been answered


def furnish(world: World) -> None:
    """More places with a secret, and a block of each access list with vectors and one of the tenant, costs by which they are used."""
    database, managers, operators = world.database, frozenset({"writer", "admin"}), frozenset({"operator"})
    for tenant, a, sources in (("a", "a", {"processor": world.wiki}), (world.tenant_b, "b", {"processor": "handbook", "processor of the other source": world.source_b})):
        with database.role("operator") as operator:
            operator.execute("select pgrag.put_tenant(%s, %s)", (tenant, f"The {world.secret(f'{a}: name of the tenant', operators)} company"))
            for what, source in sources.items():
                operator.execute("select pgrag.put_source(%s, %s, %s)", (tenant, source, [f"model-{world.secret(f'{a}: {what}', operators)}"]))
        known = managers if tenant == "a" else frozenset()
        document, revision = world.secret(f"{a}: long document", known), world.secret(f"{a}: revision", known)
        section, version, passage = (world.secret(f"{a}: {what}") for what in ("section", "version", "passage"))
        space, readers = ("toy", [world.group]) if tenant == "a" else (world.space_b, ["everyone"])
        with database.writer(tenant, "handbook") as writer:
            put_long(writer, f"{document}.md", f"The bonus of {passage}", readers, space, section, p_revision=revision, p_version=version)
    with database.writer("a", "handbook") as writer:
        put_long(writer, "guide.md", "The refund window of trains", ["everyone"], "toy", "Trains", p_version="v1")
    for function, old, new in SMALL:
        rewrite(database, function, (old, new))
    blocks_cost_nothing(database)
    with psycopg.connect(database.dsn("app_operator"), autocommit=True) as operator:
        while operator.execute("select remaining from pgrag.maintain('0')").fetchone()[0]:
            pass
    with database.superuser() as superuser:
        superuser.execute("analyze")
        for name in ("a: passage", "b: passage", "a: wiki text"):
            chunk = "select encode(chunk_id, 'hex') from pgrag_data.chunk where strpos(text, %s) > 0 limit 1"
            (world.chunks[name],) = superuser.execute(chunk, (world.secrets[name].value.decode(),)).fetchone()


def put_long(writer: psycopg.Connection, document: str, text: str, readers: Sequence[str], space: str, section: str, **more: str) -> None:
    """A document of some passages, enough for a block."""
    texts = [f"{text}, rule {n}. " for n in range(14)]
    given = {"p_document": document, "p_body": "".join(texts), "p_space": space} | more
    named = ", ".join(f"{name} => %({name})s" for name in given)
    (revision,) = writer.execute(f"select revision from pgrag.stage_revision({named})", given).fetchone()
    ends = [sum(map(len, texts[: n + 1])) for n in range(len(texts))]
    vectors = [f"[1,{n / 10},{n % 3}]" for n in range(len(texts))]
    writer.execute("select pgrag.add_chunks(%s, %s, 1, %s, %s, %s, %s, %s, p_embeddings => %s::public.vector[])",
                   (document, revision, texts, [0, *ends[:-1]], ends, [5] * len(texts), [section] * len(texts), vectors))  # fmt: skip
    assert writer.execute("select state from pgrag.verify_revision(%s, %s, %s)", (document, revision, len(texts))).fetchone() == ("verified",)
    writer.execute("select pgrag.set_access(%s, %s)", (document, list(readers)))
    writer.execute("select pgrag.activate(%s, %s)", (document, revision))


@contextmanager
def twins(database: Database) -> Iterator[tuple[Database, Database]]:
    """Two copies, the same to the byte for alice of tenant a: from the second all is gone that she may not see. Nobody writes to them,
    and none is analyzed, so that even rows without an order come in the same one."""
    copies = Database(database.admin_dsn, f"{database.name}_whole"), Database(database.admin_dsn, f"{database.name}_less")
    with psycopg.connect(database.admin_dsn, autocommit=True) as superuser:
        try:
            for copy, source in zip(copies, (database, copies[0]), strict=True):
                superuser.execute(sql.SQL("create database {} template {} owner pgrag_test_installer").format(sql.Identifier(copy.name), sql.Identifier(source.name)))
                superuser.execute(sql.SQL("revoke temporary on database {} from public").format(sql.Identifier(copy.name)))
                with copy.superuser() as inside:
                    inside.execute(STILL if copy is copies[0] else HIDDEN)
            yield copies
        finally:
            for copy in copies:
                superuser.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(copy.name)))


STILL = """do $$ declare r record; begin
  for r in select c.oid::regclass as name from pg_class c where c.relnamespace::regnamespace::text ~ '^pgrag' and c.relkind = 'r' loop
    execute format('alter table %s set (autovacuum_enabled = false)', r.name);
  end loop;
end $$"""
HIDDEN = """
set session_replication_role = replica;
create temp table shown as
  select d.* from pgrag_data.document d join pgrag_data.tenant t using (tenant_id)
   where t.tenant = 'a' and d.deleted_at is null and d.active_revision_id is not null
     and exists (select from pgrag_data.acl_entry e join pgrag_data.principal p using (tenant_id, principal_id)
                  where e.tenant_id = d.tenant_id and e.acl_id = d.acl_id and p.name in ('everyone', 'alice'));
do $$
declare
  r record;
begin
  for r in select c.oid::regclass as name, array_agg(a.attname::text) as columns
             from pg_class c join pg_attribute a on a.attrelid = c.oid and attnum > 0 and not attisdropped
            where c.relnamespace = 'pgrag_data'::regnamespace and c.relkind = 'r' group by c.oid having 'tenant_id' = any (array_agg(a.attname)) loop
    execute format('delete from %s x where tenant_id not in (select tenant_id from shown)', r.name);
    if 'revision_id' = any (r.columns) then
      execute format('delete from %s x where revision_id not in (select active_revision_id from shown)', r.name);
    elsif 'document_id' = any (r.columns) then
      execute format('delete from %s x where document_id not in (select document_id from shown)', r.name);
    elsif 'acl_id' = any (r.columns) then -- the block of the tenant, too
      execute format('delete from %s x where acl_id is null or acl_id not in (select acl_id from shown)', r.name);
    end if;
  end loop;
end $$;
delete from pgrag_data.source where source_id not in (select source_id from shown);
delete from pgrag_data.principal where name not in ('everyone', 'alice', 'bob');
delete from pgrag_data.membership;
drop table shown;
"""


class Attackers:
    """A world, a session of each role, and batches of what they try."""

    def __init__(self, database: Database, broken: Callable[[Database], AbstractContextManager[None]] | None = None) -> None:
        self.world = World(database)
        self.stack = ExitStack()
        furnish(self.world)
        stranger = canary()
        self.secrets = Secrets(self.world, [stranger])
        self.catalog = Catalog.read(database)
        self.pure = self.catalog.pure()
        copies = self.stack.enter_context(twins(database))
        self.twins = {role: [Session(copy, role) for copy in copies] for role in ("reader", "browser")}
        self.sessions = {role: Session(database, role) for role in ROLES}
        self.superuser = self.stack.enter_context(database.superuser())
        with database.reader("a", "alice") as reader:
            self.packet = json.dumps(database.packet(reader, "refund window", k=3))
        named = [secret.value.decode() for secret in self.world.secrets.values() if secret.value.isascii()]
        self.guesses = [*named, *self.world.chunks.values(), self.world.pay, self.world.group, self.world.tenant_b, self.world.source_b, stranger]
        self.batches, self.answered = 0, Counter[str]()
        for where in (database, *copies) if broken else ():
            self.stack.enter_context(broken(where))

    def close(self) -> None:
        for session in (*self.sessions.values(), *(session for pair in self.twins.values() for session in pair)):
            session.close()
        self.stack.close()

    def batch(self, seed: int) -> Tally:
        dice = random.Random(seed)
        tally = Tally()
        # The block of the tenant is searched where those of the lists cannot be: as if they came with a dump from another cluster.
        ours = "case when %s then c.system_identifier else 0 end"
        self.superuser.execute(f"update pgrag_data.dense_block set system_identifier = {ours} from pg_control_system() c where acl_id is not null", (seed % 2 == 0,))
        insider = self.world.database.token("a", "bob")
        tokens = {role: self.world.token(role) if role in TOKEN_ROLES else "" for role in ROLES}
        queue = [role for role, weight in WEIGHTS.items() for _ in range(ROUNDS * weight)]
        tally.draws = len(queue)
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
        if seed % 10 == 2:
            for role in ("reader", "browser") * 2:
                self._compare(seed, dice, role, tokens[role], tally)
        self.batches += 1
        self.answered.update({name: count for name, count in tally.counts.items() if name.endswith("answered")})
        if self.batches == ENOUGH:  # a search that is always refused would show nothing
            wanted = [*(f"{name.removeprefix('pgrag.')} {mode} answered" for name in SEARCHES for mode in MODES), *(f"route {route} answered" for route in ROUTES)]
            tally.failures += [f"seed {seed}: in {ENOUGH} batches never {name}" for name in wanted if not self.answered[name]]
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
            yield session.simply(grammar._call()[0], "after the transaction") if role in ("reader", "browser", "auditor") else Seen("", "", "", 0, [], [])

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
        tally.counts += Counter(name for seen in every if seen.kind in ("search", "call") and not seen.state for name in answers(seen))
        # PostgreSQL's own functions have internal errors for odd arguments; pgrag's must not.
        failed = [seen for seen in every if seen.state.startswith("XX") and any(b"pgrag" in said for said in seen.said)]
        tally.failures += [f"seed {seed}, {role}: {seen.state} {b' '.join(seen.said)[:200]!r} of {seen.statement[:400]}" for seen in failed]
        if self.secrets.leaked(b"\n".join(b"\n".join(seen.said + seen.heard) for seen in every), role):
            mentioned = self.secrets.named("\n".join(s for _, unit in units for s in unit).encode())  # an attacker who names a guess gets it back
            ways: dict[str, set[str]] = {}
            told = ""
            for seen in every:
                for way, part in seen.parts().items():
                    if found := self.secrets.leaked(part, role) - mentioned:
                        ways.setdefault(way, set()).update(found)
                        told = told or seen.statement
            if ways:
                tally.failures.append(f"seed {seed}, {role} saw {'; '.join(f'in {way}: {sorted(found)}' for way, found in ways.items())}; first by {told[:600]}")

    def _compare(self, seed: int, dice: random.Random, role: str, token: str, tally: Tally) -> None:
        """The same questions where nothing is hidden, for want of it: no answer may differ by a bit."""
        grammar = Grammar(self.pure, dice, role, token, dice.sample(self.guesses, 3), self.packet)
        units = [("", ["begin", f"select pgrag.authenticate({quote(token)})"]), ("", ["savepoint fuzz"])]
        units += [(kind, ["rollback to fuzz", *statements]) for kind, statements in (grammar.unit() for _ in range(UNITS))]
        heard: list[list[Seen]] = []
        for session in self.twins[role]:
            session.reset()
            session.send([unit for _, unit in units])
            heard.append([seen for seen in session.receive([u for _, u in units], [k for k, _ in units]) if seen.kind and seen.statement != "rollback to fuzz"])
            session.reset()  # its last statement may have a guess, which others of its role see in pg_stat_activity
        for ours, theirs in zip(*heard, strict=True):
            if {ours.state, theirs.state} & {"57014", "55P03"}:
                continue
            tally.counts["compared with a world without what is hidden"] += 1
            tally.counts["of them with rows"] += ours.rows > 0
            if ours.timeless() != theirs.timeless():
                tally.failures.append(f"seed {seed}, {role} is told of what is hidden by {ours.statement[:600]}")

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


def answers(seen: Seen) -> Iterator[str]:
    """Of a search that found something: function, mode and route."""
    whole = b"\n".join(seen.said)
    if (asked := ASKED.search(seen.statement)) and (b'"chunk_id"' in whole or (asked[2] is None and asked[1] == "search" and seen.rows)):
        yield f"{asked[1]}{asked[2] or ''} {asked[3]} answered"
        yield from (f"route {route} answered" for route in ROUTES if b'"dense_route": "%s"' % route.encode() in whole)


@contextmanager
def opened(lab: Lab, broken: Callable[[Database], AbstractContextManager[None]] | None = None) -> Iterator[Batch]:
    with lab.database() as database, ExitStack() as stack:
        attackers = Attackers(database, broken)
        stack.callback(attackers.close)
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


def open_statistics(database: Database) -> AbstractContextManager[None]:
    return granted(database, f"grant select on pg_statistic to {', '.join(f'pgrag_{role}' for role in ROLES)}")


def naming_policy(database: Database) -> AbstractContextManager[None]:
    """A policy that names what it hides, which plans say."""
    visible = "tenant_id = (select pgrag_private.browse_tenant()) and active_revision_id = any ((select pgrag_private.browse_revisions())::bigint[])"
    return granted(database, f"""do $$ begin execute format('alter policy pgrag_document_select on pgrag_data.document using ({visible} and document <> %L)',
        (select min(document) from pgrag_data.document where document ~ '^pay-')); end $$""")  # fmt: skip


def view_without_barrier(database: Database) -> AbstractContextManager[None]:
    """A condition instead of a policy, in a view that does not keep the caller's own behind it."""
    return granted(database, "alter policy pgrag_chunk_select on pgrag_data.chunk using (true)", """create or replace view pgrag.chunks with (security_barrier = false) as
        select encode(c.chunk_id, 'hex') as chunk_id, (select s.source from pgrag_data.source s limit 1) as source,
               (select d.document from pgrag_data.document d limit 1) as document, (select r.revision from pgrag_data.revision r limit 1) as revision,
               c.chunk_no, c.section, c.page, c.language, c.span_start, c.span_end, c.token_count as tokens, c.text
          from pgrag_data.chunk c where c.revision_id + 0 = any (pgrag_private.browse_revisions())""")  # fmt: skip


def unfiltered_blocks(database: Database) -> AbstractContextManager[None]:
    """A search of a block that takes every row of it for visible."""
    return granted(database, "create or replace function pgrag_private.visible_row(p_row text, p_scope text, p_counted boolean) returns text "
                             "language sql immutable parallel safe return 'true'")  # fmt: skip


def talkative(how: str) -> Callable[[Database], AbstractContextManager[None]]:
    """A refusal that quotes what it refuses."""
    return lambda database: patched(database, "pgrag.can_read", ("begin\n  return exists (", f"""begin
  if p_document is distinct from 'refund.md' then
    {how.format("(select min(text) from pgrag_data.chunk where text ~ 'salary')")};
  end if;
  return exists ("""))  # fmt: skip


def telltale(database: Database) -> AbstractContextManager[None]:
    """One bit, and no canary."""
    deleted = "exists (select from pgrag_data.document d where d.deleted_at is not null)"
    return patched(database, "pgrag_private.retrieve", ("'complete', v_complete in", f"'complete', not {deleted} and v_complete in"))


def control(broken: Callable[[Database], AbstractContextManager[None]], seen: str) -> Control:
    """``seen``: by whom, which way, and the kind of the secret."""
    return Control(partial(opened, broken=broken), seen)


PROOF = Proof(
    name="hostile SQL",
    contracts=("A2", "A8", "A9"),
    unit="statements",
    draw="sessions",
    target=2_000_000,
    claim="No statement that an application role runs makes a secret of another tenant, of a hidden document or of a key come out in rows, notices, errors or plans.",
    opened=opened,
    short=ENOUGH,
    controls={
        "a policy that lets all roles read chunks": control(open_table, r"saw .*in rows: [^;]*'b: text'"),
        "such a policy, by COPY": control(open_table, r"saw .*in copy: [^;]*'b: text'"),
        "views without their policies": control(open_view, r"browser saw .*in rows: [^;]*'b: text'"),
        "views without their policies, by a cursor": control(open_view, r"browser saw .*in cursor: \['[ab]: "),
        "a view that the caller's conditions get behind": control(view_without_barrier, r"browser saw .*in (error|notice): [^;]*'[ab]: (text|passage)'"),
        "a policy that names a hidden document": control(naming_policy, r"browser saw .*in plan: [^;]*'a: document"),
        "statistics that may be selected": control(open_statistics, r"saw .*in rows: .*pg_stat"),
        "blocks searched without the filter": control(unfiltered_blocks, r"reader saw .*in rows: [^;]*'a: passage'"),
        "an error that quotes a hidden passage": control(talkative("raise exception 'x' using errcode = 'RG401', detail = {}"), r"reader saw .*in error: [^;]*'a: text'"),
        "a notice that quotes a hidden passage": control(talkative("raise notice '%', {}"), r"reader saw .*in notice: [^;]*'a: text'"),
        "an answer that is complete only where nothing was deleted": control(telltale, "reader is told of what is hidden"),
        "signing keys that may be selected": control(readable_keys, r"saw .*in (rows|copy|cursor): [^;]*'key \d"),
    },
)
