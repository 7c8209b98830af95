"""F6, H1: input of any shape is answered or refused in words, and nothing breaks on it.

Every function of schema pgrag that an application role may call (they are read from the catalog, so that a new one is tried from its
first day) is called with values that are right but for one or two: of wrong shape, length or size, at the ends of their type, in
scripts and marks that trip what counts characters; tokens, requests, packets and replies are changed from good ones. So is what the
Python layer reads: documents, corpus and settings files, packets, replies, endpoints' answers, and the arguments of sessions. What
may come out is success, an error of class RG, or one of PostgreSQL's own that is listed here with its reason; in Python, the
package's errors, or PostgreSQL's.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import math
import random
import re
import string
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

import pgrag
from pgrag import tokens
from pgrag._requests import packet_json, reply_json
from pgrag.config import Settings
from pgrag.embedders import load_embedder
from pgrag.errors import PgragError
from pgrag.ingest import chunkers, documents, tokenizers
from pgrag.models import Packet
from pgrag.protocols import Chunk, EmbeddingSpace, Passage
from pgrag.rerankers import load_reranker
from pgrag.rerankers.mmr import MMR
from pgrag.setup import load_corpus
from tests.access.forge import BAD_TOKENS, claims, forge
from tests.assurance.grammar import Catalog, Function, quote
from tests.assurance.hostile import Seen, Session
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.endpoint import Endpoint
from tests.functions.patched import patched
from tests.support import ROLES, Database

CALLS, PYTHON = 1200, 600  # inputs of a batch, to SQL and to Python
TIMEOUT = "3s"  # no input may take longer
SLOW = {"calibrate": 0.02, "doctor": 0.05, "maintain": 0.3, "index_status": 0.3}  # how often, beside the others

WHICH = {"p_document", "p_revision", "p_tenant", "p_token", "p_source", "p_group", "p_member", "p_name", "p_kid", "p_space", "p_chunk_id"}
MOSTLY = {"p_source", "p_embeddings", "p_embedding", "p_mode"}  # optional, and mostly needed
ONLY_TOGETHER = {"p_order", "p_reranker", "p_probes", "p_probe_embeddings", "p_expected_active"}
TOGETHER: dict[str, dict[str, Sequence[str]]] = {  # arguments that are good for a function together
    "add_chunks": {"p_document": ("staged.md",), "p_revision": ("r1",)}, "add_embeddings": {"p_document": ("d1.md",), "p_revision": ("r1",), "p_space": ("toy",), "p_embeddings": ('{"[1,0.2,1]"}',)}, "verify_revision": {"p_document": ("staged.md", "d0.md"), "p_revision": ("r1",)},
    "activate": {"p_document": ("d0.md",), "p_revision": ("r2",)}, "rollback": {"p_document": ("d0.md",), "p_revision": ("r1",)}, "set_access": {"p_document": ("d0.md", "staged.md")}, "delete_document": {"p_document": ("d0.md", "staged.md")},
    "list_revisions": {"p_document": ("d0.md",)}, "retire_signing_key": {"p_kid": ("spare",)}, "drop_membership": {"p_member": ("alice",)}, "drop_principal": {"p_name": ("bob", "staff")}, "put_space": {"p_space": ("s2",)},
    "build_space": {"p_space": ("next",)}, "switch_space": {"p_space": ("next", "toy")}, "retire_space": {"p_space": ("next",)}, "can_read": {"p_document": ("d0.md",)}, "stage_revision": {"p_revision": ("r3", "r1"), "p_space": ("toy",)},
    "search": {"p_mode": ("lexical", "dense", "hybrid"), "p_space": ("toy",)}, "packet": {"p_mode": ("lexical", "dense", "hybrid"), "p_space": ("toy",)},
}  # fmt: skip

# PostgreSQL's own errors, of the literals and casts before a function is called, or where its own words say all there is to say.
ALLOWED = {
    "22P02": "a text that is no value of the parameter's type, such as a vector or JSON",
    "22007": "a time that PostgreSQL 16 does not know, such as an infinite interval",
    "22P05": "JSON with \\u0000, which is no text in PostgreSQL",
    "22003": "a number beyond its type, such as JSON's of 140,000 digits",
    "22000": "a vector of no dimension or with NaN in it, or a range whose end is before its start",
}

ROUNDS = 12  # batches in which each function has to have answered

# ---- values --------------------------------------------------------------------------------------------------------

ODD = (
    "", " ", "\t\n", "x", "x" * 201, "x" * 5000, "e\u0301\u0301\u0301", "\u0301", "\u202eover\u202c", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\ufeff", "\uffff", "\ufffd", "\x01", "\x7f", "\x85",
    "'", '"', "\\", "%", "_", "$1", "{", "}", "[", "null", "NaN", "true", "(((", ".*+?", "a|b", "<->", "!", "!!x", "a & & b", ":*", "''", '"" ""', '"unclosed', "-", "--", "/*", "a\u00a0b", "ß", "İ", "ﬃ", "١٢٣", "中文字符", "\u0e01\u0e33",
    "../x", "/x", "a/../b", "a//b", "x/", ".", "everyone", "..", "\\x00", "E-42", "1e999", "0x1F", "2020-13-45", "a\r\nb", "\u2028", "x " * 2100, "qz" * 1500, "-x -y", '"a b" -"c d"', "\u0600", "\u1d17a", "A\u030a" * 300,
)  # fmt: skip
WHOLE = (-(2**31), -1, 0, 1, 2, 3, 100, 101, 1000, 1001, 65536, 2**31 - 1)
REAL = ("0", "-0", "1", "0.5", "-1", "1.0000001", "NaN", "Infinity", "-Infinity", "1e308", "-1e-308", "5e-324")
TIMES = ("infinity", "-infinity", "epoch", "4714-11-24 BC", "294276-12-31 23:59:59.999999", "2024-02-29 24:00:00", "0001-01-01", "2024-01-01", "2999-01-01", "1969-12-31 23:59:59.999999+14", "9999-12-31")
VECTORS = ("[1,0.2,0]", "[0,0,0]", "[1]", "[1,2,3,4]", "[-1,-1,-1]", "[1e38,1e38,1e38]", "[1e-45,0,0]", "[3.4e38,-3.4e38,1]", f"[{','.join(['1'] * 2000)}]", f"[{','.join(['1'] * 16000)}]", "[1e-30,0,0]")
JSONS = ("null", "true", "0", "-1", "1.5", "1e400", "-0", "123456789012345678901234567890", '""', '"x"', "[]", "{}", "[[]]", "[null]", '{"": 1}', '"\\u0301"', '"\\ud83d\\ude00"', '"' + "x" * 5000 + '"', "[" * 400 + "]" * 400,
         '{"a":' * 300 + "1" + "}" * 300, "[" + ",".join(["1"] * 3000) + "]", '"1"', '"NaN"', '{"a": 1, "a": 2}', '["x", "x"]', "[1, \"1\", null, {}]", "1.0", "1e0", "2147483648", '"infinity"', '"\\u202e"')  # fmt: skip
BROKEN_JSON = ('"\\u0000"', '{"a\\u0000": 1}', '"\\ud800"', "{", "'x'", "nan", "[" * 9000 + "]" * 9000, "1" + "0" * 140000)


def text(dice: random.Random) -> str:
    roll = dice.random()
    if roll < 0.6:
        return dice.choice(ODD)
    if roll < 0.8:
        return dice.choice(ODD) + dice.choice(ODD)
    return "".join(chr(dice.choice((dice.randint(32, 126), dice.randint(0xA0, 0x2FFF), dice.randint(0x10000, 0x1FFFF)))) for _ in range(dice.randint(1, 40)))


def array(dice: random.Random, item: Callable[[], str]) -> str:
    """An array's text: empty, long, of several dimensions, with NULLs, or from another first index."""
    made = ['"' + item().replace("\\", "\\\\").replace('"', '\\"') + '"' if dice.random() < 0.9 else "NULL" for _ in range(dice.choice((0, 1, 2, 3, 5, 30)))]
    roll = dice.random()
    if roll < 0.1 and made:
        return f"{{{{{','.join(made)}}},{{{','.join(made)}}}}}"
    if roll < 0.2 and made:
        return f"[5:{4 + len(made)}]={{{','.join(made)}}}"
    if roll < 0.25:
        return "{" + ",".join(made[:1] * 3000) + "}"
    return "{" + ",".join(made) + "}"


def changed(dice: random.Random, value: Any, depth: int = 0) -> Any:
    """A JSON value with something in it taken away, added, or put for something else. Numbers of any size are texts in ``Raw``."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key, copy = dice.choice(list(value)), dict(value)
        roll = dice.random()
        if roll < 0.15:
            del copy[key]
        elif roll < 0.25:
            copy[text(dice)[:60]] = None
        else:
            copy[key] = changed(dice, value[key], depth + 1)
        return copy
    if isinstance(value, list) and value and dice.random() < 0.7:
        place, copy = dice.randrange(len(value)), list(value)
        roll = dice.random()
        if roll < 0.2:
            copy.insert(place, value[place])
        elif roll < 0.4:
            del copy[place]
        else:
            copy[place] = changed(dice, value[place], depth + 1)
        return copy
    if isinstance(value, str) and value and dice.random() < 0.3:
        place = dice.randrange(len(value))
        return dice.choice((value[:place], value[:place] + dice.choice(ODD)[:50] + value[place:], value.upper(), value + " ", value[::-1]))
    return dice.choice((None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, [None], [[1]], text(dice), json.loads(dice.choice(JSONS)) if dice.random() < 0.5 else 2**31))


class World:
    """A tenant with something of everything, and good values for every parameter."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.put_tenant("a", sources=("handbook", "wiki"))
        database.put_principals("a", users=["alice", "bob"], groups={"staff": ["alice"]})
        with database.role("operator") as operator:
            operator.execute("select pgrag.put_space('a', 'next', 'next-model', '1', 3, p_normalisation => 'none')")
        with database.role("keys") as keys:
            keys.execute("select pgrag.add_signing_key('spare', %s, 'others', 'pgrag')", (b"s" * 32,))
        with database.writer("a", "handbook") as writer:
            for number in range(6):
                database.put_document(writer, f"d{number}.md", f"The refund window of rule {number} is 30 days.", revision="r1", vectors=[[1, 0.2, number]])
            database.put_document(writer, "d0.md", "The refund window is 40 days.", revision="r2", vectors=[[1, 0, 0]], activate=False)
            writer.execute("select pgrag.stage_revision('staged.md', 'Refund at will.', p_revision => 'r1', p_space => 'toy')")
        with database.reader("a", "alice") as reader:
            self.packet = database.packet(reader, "refund window")
            self.chunk = self.packet["excerpts"][0]["chunk_id"]
        self.request: dict[str, Any] = {"question": "refund window", "mode": "hybrid", "k": 5, "embedding": [1, 0.2, 0], "space": "toy", "fusion": "rrf", "as_of": None, "filter": {"source": "handbook"},
                                        "candidates": 50, "threshold": 0, "probes": ["days"], "probe_embeddings": [[1, 0, 0]], "per_document": 2, "per_source": 3, "isolation": "strict", "profile": "normal",
                                        "order": [self.chunk], "reranker": "r"}  # fmt: skip
        self.reply = {"answer": "30 days", "citations": [{"id": "e1", "quote": "30 days"}]}
        self.good: dict[str, Sequence[str]] = {
            "p_document": ("d0.md", "staged.md", "new.md"), "p_revision": ("r1", "r2"), "p_expected_active": ("r1",), "p_source": ("handbook",), "p_tenant": ("a",), "p_space": ("toy", "next"), "p_question": ("refund window",),
            "p_k": ("5",), "p_mode": ("lexical", "hybrid", "dense"), "p_embedding": ("[1,0.2,0]",), "p_fusion": ("convex", "rrf"), "p_filter": ('{"source": "handbook"}',), "p_candidates": ("100",), "p_threshold": ("0",),
            "p_probes": ('{"days"}',), "p_probe_embeddings": ('{"[1,0,0]"}',), "p_per_document": ("2",), "p_per_source": ("2",), "p_isolation": ("auto", "strict"), "p_profile": ("normal",), "p_order": (f"{{{self.chunk}}}",),
            "p_reranker": ("r",), "p_budget": ("8000",), "p_budget_unit": ("characters", "bytes", "tokens"), "p_reserve": ("0",), "p_chunk_id": (self.chunk,), "p_first": ("1",), "p_texts": ('{"Refund at will."}',), "p_starts": ("{0}",),
            "p_ends": ("{15}",), "p_tokens": ("{3}",), "p_sections": ('{"Rules"}',), "p_pages": ("{1}",), "p_languages": ("{en}",), "p_embeddings": ('{"[1,0,0]"}',), "p_body": ("The refund window.",), "p_title": ("Refunds",),
            "p_language": ("en",), "p_tags": ("{refund}",), "p_skips": ('{"[0,3)"}',), "p_metadata": ('{"team": "x", "n": 1}',), "p_expected_chunks": ("1",), "p_readers": ("{alice,everyone}",), "p_kind": ("user", "group"), "p_name": ("carol", "alice"),
            "p_group": ("staff",), "p_member": ("bob",), "p_kid": ("k2",), "p_secret": ("\\x" + "ab" * 32,), "p_issuer": ("tests",), "p_audience": ("pgrag",), "p_processors": ("{}",), "p_trust": ("internal",), "p_model": ("m",),
            "p_model_revision": ("1",), "p_dimension": ("3",), "p_metric": ("cosine",), "p_normalisation": ("unit", "none"), "p_storage": ("float", "half"), "p_zero_vectors": ("refuse",), "p_keep": ("5 minutes",), "p_limit": ("10",),
            "p_request": (json.dumps(self.request),), "p_packet": (json.dumps(self.packet),), "p_reply": (json.dumps(self.reply),), "p_dated": ("2024-01-01",), "p_effective_from": ("2024-01-01",), "p_effective_to": ("2999-01-01",),
        }  # fmt: skip

    def bad(self, dice: random.Random, name: str, kind: str) -> str | None:
        """A value's text, or None for NULL; KeyError for a type of which nothing is known."""
        made = {
            "text": lambda: text(dice), "integer": lambda: str(dice.choice((*WHOLE, 2**31, -(2**40)))), "bigint": lambda: str(dice.choice((*WHOLE, 2**63 - 1, -(2**63)))), "boolean": lambda: dice.choice(("true", "false")),
            "double precision": lambda: dice.choice(REAL), "real": lambda: dice.choice(REAL[:9]), "numeric": lambda: dice.choice((*REAL[:9], "1" * 200)), "vector": lambda: dice.choice((*VECTORS, "[]", "[NaN,0,0]", "[1e39,0,0]", "x")),
            "text[]": lambda: array(dice, lambda: text(dice)[:300]), "integer[]": lambda: array(dice, lambda: str(dice.choice(WHOLE))), "vector[]": lambda: array(dice, lambda: dice.choice(VECTORS[:7])),
            "int4range[]": lambda: array(dice, lambda: dice.choice(("[0,3)", "empty", "(,)", "[1,1]", "[-5,2)", "[0,2147483647)", "(5,6)", "[2,9)"))), "timestamp with time zone": lambda: dice.choice(TIMES),
            "date": lambda: dice.choice(("infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "2024-02-29", "epoch")), "interval": lambda: dice.choice(("0", "-1 day", "infinity", "178000000 years", "-178000000 years", "1 microsecond", "1 mon -31 days")),
            "bytea": lambda: dice.choice(("\\x", "\\x00", "\\x" + "00" * 32, "\\x" + "ff" * 31, "\\x" + "ab" * 1025, "\\x" + "ab" * 100_000)), "jsonb": lambda: self.json(dice, name),
        }[kind]  # fmt: skip
        if name == "p_token":
            return self.token(dice)
        if kind == "text" and name in self.good and dice.random() < 0.3:
            return mutated(dice, dice.choice(self.good[name]))
        return None if dice.random() < 0.12 else made()

    def json(self, dice: random.Random, name: str) -> str:
        roll = dice.random()
        if roll < 0.05:
            return dice.choice(BROKEN_JSON)
        if roll < 0.2 or name not in self.good:
            return dice.choice(JSONS)
        value = json.loads(dice.choice(self.good[name]))
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            value = changed(dice, value)
        if roll < 0.25 and isinstance(value, dict) and value:  # a key that is there twice: the last one counts
            return json.dumps(value)[:-1] + f', "{dice.choice(list(value))}": {dice.choice(JSONS)}}}'
        return json.dumps(value, ensure_ascii=dice.random() < 0.5)

    def token(self, dice: random.Random) -> str:
        roll = dice.random()
        if roll < 0.4:
            return BAD_TOKENS[dice.choice(list(BAD_TOKENS))][0]("a", "alice")
        if roll < 0.7:
            return mutated(dice, self.database.token("a", "alice"))
        made = changed(dice, claims("a", "alice"))
        return forge(made if dice.random() < 0.7 else claims("a", "alice"), dice.choice(({"alg": "HS256", "kid": "test-key"}, changed(dice, {"alg": "HS256", "kid": "test-key"}), b"\xff\xfe", dice.choice(BROKEN_JSON)[:3000])))


def mutated(dice: random.Random, good: str) -> str:
    """A few letters changed, added or taken away."""
    letters = list(good)
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(letters) + 1)
        match dice.randrange(4):
            case 0:
                letters[place:place] = dice.choice(ODD)[:20]
            case 1:
                del letters[place : place + dice.randint(1, 5)]
            case 2:
                letters[place : place + 1] = dice.choice(string.printable[:94])
            case _:
                letters[place:place] = letters[:place]
    return "".join(letters)[:6000]


# ---- SQL -----------------------------------------------------------------------------------------------------------


class Callers:
    """A session of each role, and batches of calls."""

    def __init__(self, database: Database) -> None:
        self.world = World(database)
        self.functions = [f for f in Catalog.read(database).public if f.roles]
        self.weights = [SLOW.get(f.name.split(".")[1], 1.0) * (1 + len(f.arguments) / 4) for f in self.functions]
        self.sessions = {role: Session(database, role, TIMEOUT) for role in ROLES}
        self.answered = Counter({function.name: 0 for function in self.functions})
        self.rounds = 0

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def calls(self, dice: random.Random, tally: Tally, seed: int) -> None:
        by_role: dict[str, list[str]] = {role: [] for role in ROLES}
        for function in [*self.functions, *dice.choices(self.functions, self.weights, k=CALLS - len(self.functions))]:
            role = dice.choice(sorted(function.roles))
            try:
                by_role[role].append(self.call(dice, function))
            except KeyError as unknown:
                tally.failures.append(f"{function.name}: nothing is known to pass as {unknown}: add values of that type to malformed.py")
        for role, statements in by_role.items():
            session = self.sessions[role]
            session.reset()
            units = [["begin", *self.authenticated(role)], ["savepoint fuzz"], *(["rollback to fuzz", statement] for statement in statements)]
            session.send(units)
            every: list[Seen] = []
            try:
                every.extend(seen for seen in session.receive(units, [""] * 2 + ["call"] * len(statements)) if seen.kind and seen.statement != "rollback to fuzz")
            except psycopg.OperationalError as error:
                tally.failures.append(f"seed {seed}, {role}: {error}")
                session.close()
                session._open()
            session.reset()  # its locks
            tally.cases += len(every)
            tally.counts += Counter("succeeded" if not s.state else "refused by pgrag" if s.state.startswith("RG") else "refused by PostgreSQL" for s in every)
            tally.counts += Counter(f"SQLSTATE {s.state}" for s in every if s.state and not s.state.startswith("RG"))
            tally.failures += [f"seed {seed}, {role}: {s.state} {b' / '.join(s.said)[:500].decode(errors='replace')} of {short(s.statement)}"
                               for s in every if s.state and not s.state.startswith("RG") and (s.state not in ALLOWED or within(s))]  # fmt: skip
            self.answered.update(re.match(r"select \* from (pgrag\.\w+)", s.statement)[1] for s in every if not s.state)
        self.rounds += 1
        tally.figures["public functions that answered"] = sum(bool(n) for n in self.answered.values())
        if self.rounds == ROUNDS:
            tally.failures += [f"{name}: every call in {ROUNDS} batches was refused" for name, n in self.answered.items() if not n]

    def authenticated(self, role: str) -> list[str]:
        if role in ("operator", "keys"):
            return []
        kind = role if role in ("writer", "admin", "auditor") else "reader"
        return [f"select pgrag.authenticate({quote(self.world.database.token('a', 'alice', kind, source='handbook' if kind == 'writer' else None))})"]

    def call(self, dice: random.Random, function: Function) -> str:
        """A call that is good but for one or two arguments."""
        short_name = function.name.split(".")[1]
        good = self.world.good | TOGETHER.get(short_name, {})
        # What says which thing is meant is mostly right, or little of a function would be reached.
        weights = [0.25 if name in WHICH else 1.0 for name, _, _ in function.arguments]
        wrong = set(dice.choices(range(len(weights)), weights, k=dice.choice((0, 1, 1, 1, 1, 2, 2, 4)))) if weights else set()
        given = []
        for place, (name, kind, default) in enumerate(function.arguments):
            if place in wrong:
                value = self.world.bad(dice, name, kind)
            elif default and (name not in good or name in ONLY_TOGETHER or dice.random() < (0.1 if name in MOSTLY else 0.7)):
                continue
            else:
                value = dice.choice(good[name]) if name in good else self.world.bad(dice, name, kind)
            given.append(f"{name} => {'null' if value is None else quote(value)}::{kind}")
        return f"select * from {function.name}({', '.join(given)})"


def within(seen: Seen) -> bool:
    """Whether an error arose in a function of pgrag's, which should have said it in its own words, and not before one was called."""
    return any(b"function pgrag" in said for said in seen.said)


def short(call: str) -> str:
    return call if len(call) < 700 else f"{call[:450]} …({len(call)} characters)… {call[-200:]}"


# ---- Python --------------------------------------------------------------------------------------------------------

Try = tuple[str, Callable[[], Any]]  # what is called, in words, and the call


class Python:
    """What the package reads, from callers, files, models and endpoints."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.endpoint = Endpoint(lambda request: (200, {}, self.answer))
        self.answer = b""
        self.embedder = load_embedder(f"http:{self.endpoint.url}", model="m", dimension=3, retries=0)
        self.reranker = load_reranker(f"http:{self.endpoint.url}", model="m", retries=0)
        self.connections = {role: psycopg.connect(world.database.dsn(f"app_{role}", options=f"-c statement_timeout={TIMEOUT}"), autocommit=True) for role in ("reader", "writer", "admin", "operator", "keys")}

    def close(self) -> None:
        self.embedder.close()
        self.reranker.close()
        self.endpoint.close()
        for connection in self.connections.values():
            connection.close()

    def tries(self, dice: random.Random, tally: Tally, seed: int) -> None:
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("try_")]
        for number in range(PYTHON):
            said, call = kinds[number % len(kinds)](dice)
            tally.cases += 1
            try:
                with warnings.catch_warnings(action="error"):
                    call()
            except PgragError as error:
                tally.counts["refused in Python"] += 1
                if not error.code.startswith("RG") or error.code == "RG000":
                    tally.failures.append(f"seed {seed}: no code of pgrag's, {error!r}, of {short(said)}")
            except psycopg.Error as error:
                # What PostgreSQL says is psycopg's to raise; a NUL is refused by psycopg itself.
                tally.counts["refused by PostgreSQL, in Python"] += 1
                if error.sqlstate not in ALLOWED and "NUL" not in str(error):
                    tally.failures.append(f"seed {seed}: {type(error).__name__} {error.sqlstate} {str(error)[:300]} of {short(said)}")
            except Exception as error:
                tally.failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]} of {short(said)}")
            else:
                tally.counts["succeeded in Python"] += 1

    # -- each gives a call --

    def try_token(self, dice: random.Random) -> Try:
        good = {"kid": "k", "issuer": "i", "audience": "a", "tenant": "t", "subject": "s", "kind": "reader", "source": None, "lifetime": dt.timedelta(minutes=5), "now": None}
        secret: Any = dice.choice((b"x" * 32, "x" * 40, b"", "é" * 16, b"x" * 2000, text(dice), 1, None))
        for name in dice.sample(list(good), dice.choice((1, 1, 2))):
            good[name] = {
                "lifetime": dice.choice((dt.timedelta.max, dt.timedelta.min, dt.timedelta(0), dt.timedelta(microseconds=1), dt.timedelta(hours=24), 5, None)),
                "now": dice.choice((dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC), dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1, tzinfo=dt.UTC))), "kind": dice.choice(("writer", "admin", text(dice), None)),
            }.get(name, dice.choice((text(dice), text(dice), None, 1, "\ud800")))  # fmt: skip
        return f"tokens.mint({secret!r}, **{good!r})", lambda: tokens.mint(secret, **good)

    def try_chunker(self, dice: random.Random) -> Try:
        kind = dice.choice((chunkers.WindowChunker, chunkers.StructureChunker))
        sizes = dice.choice(((dice.randint(1, 60), 0), (dice.randint(10, 200), dice.randint(0, 9)), (dice.choice((*WHOLE, True, 1.5, "9", None)), dice.choice((*WHOLE, False, None)))))
        body = self.body(dice)
        if any(ch in body for ch in "\ud800"):
            body = body.replace("\ud800", "")
        return f"{kind.__name__}{sizes!r}.chunk({body!r})", lambda: self.cut(kind(*sizes), body)

    @staticmethod
    def cut(chunker: Any, body: str) -> None:
        """Whatever the text, its passages are its own, in order, and leave out nothing but white space."""
        end = 0
        for chunk in chunker.chunk(body):
            assert body[chunk.start : chunk.end] == chunk.text, "a passage is not what stands there"
            assert not body[end : chunk.start].strip() and chunk.end > end, "a passage leaves text out, or adds none"
            end = chunk.end
        assert not body[end:].strip(), "the end is left out"
        assert tokenizers.WordTokenizer().count(body) >= 0

    def body(self, dice: random.Random) -> str:
        parts = ("# ", "## ", "\n", "\n\n", "```\n", "~~~", "- ", "1. ", "| a | b |\n|---|---|\n", "> ", "    ", "\t", "<div>", "[x](y)", "***\n", "---\n", "=====\n", "word ", "Sentence. ", "x" * 50, "\r\n", "\r", "\x0b", "\x0c", "\u2028", "![", "`", "&amp;", "\\", "[^1]:")  # fmt: skip
        return "".join(dice.choice(parts) if dice.random() < 0.7 else text(dice)[:80] for _ in range(dice.choice((0, 1, 3, 10, 60))))

    def try_document(self, dice: random.Random) -> Try:
        keys = ("title", "language", "product", "version", "revision", "tags", "readers", "effective_from", "effective_to", "date", "metadata", "x", "? ", "<<")
        values = ("x", "[a, b]", "{a: 1}", "2024-01-01", "2024-13-45", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "null", "~", "yes", "0x1f", "1e9", "&a [*a]", "*a", "!!python/object:x y", "|\n  z", '"\\ud800"', "'", "[", "{{{", "- x",
                  "!!binary zz", "1:30:00", '"\\0"', '"\\x85"', "1" * 5000, "{a: [1, {b: c}]}", "[[x]]", "2024-W01-1", "20240101", "24:00")  # fmt: skip
        lines = [f"{dice.choice(keys)}: {dice.choice(values) if dice.random() < 0.8 else text(dice)[:100]}" for _ in range(dice.randint(0, 4))]
        head = dice.choice(("---\n", "---\n", "---\n", "\ufeff---\n", "\n --- \r\n", "")) + "\n".join(lines) + dice.choice(("\n---\n", "\n---\n", "\n---", "\n", "\n---\r"))
        content = (head + self.body(dice)).encode("utf-8", "surrogatepass")
        if dice.random() < 0.15:
            place = dice.randrange(len(content) + 1)
            content = content[:place] + dice.choice((b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf")) + content[place:]
        name = dice.choice(("a.md", "a.md", "a.txt", "a@2024-01-01.md", "a@2024-13-01.md", "é.markdown", "a@0000-01-01.md", "a b.md", "@2024-01-01.md"))

        def read() -> None:
            path = self.folder / name
            path.write_bytes(content)
            try:
                documents.read_document(path, self.folder)
                documents.walk_documents(self.folder)
            finally:
                path.unlink()

        return f"read_document of {name!r}: {content!r}", read

    def try_corpus(self, dice: random.Random) -> Try:
        good = {"tenants": [{"tenant": "t", "name": "T", "sources": [{"source": "s", "trust": "internal", "processors": []}], "groups": ["g"], "users": ["u"], "services": [], "memberships": [{"group": "g", "members": ["u"]}]}]}
        made = json.dumps(changed(dice, changed(dice, good) if dice.random() < 0.3 else good))
        if dice.random() < 0.5:
            odd = dice.choice(("2024-13-45", "2024-01-01 99:99:99", "2024-02-30", "!!int x", "!!float x", "!!timestamp x", "!!binary é", "&a [*a]", "{[1]: 2}", "1" * 5000, "0x", "0b2", "? x", "<<: 1", "!!set [a]", "!!omap {a: b}", "!!bool x", "190:20:30", "=", "-.inf", "{<<: [1]}"))
            made = made.replace(dice.choice(('"t"', '"s"', '"g"', '["u"]', '"T"', "[]")), odd, 1)
        if dice.random() < 0.2:
            made = mutated(dice, made)
        return f"load_corpus of {made!r}", lambda: self.with_file("corpus.yaml", made, load_corpus)

    def try_settings(self, dice: random.Random) -> Try:
        names = ("dsn", "token", "signing_key", "kid", "tenant", "embedder", "embedder_options", "reranker", "reranker_options", "x")
        values = ('"x"', "1", "true", "[]", '{a = 1}', '""', '"http:x"', '"mmr"', '"host=/tmp password=x"', "1979-05-27", "nan", '"\\u0000"', '"zz"', '"' + "ab" * 40 + '"', "'''x", '"postgresql://u:p@h:99999/d"', '"\\ud800"', "1" * 5000, "0x", "{lambda_ = 7}", "99:99:99", "2024-13-45")
        made = "\n".join(f"{dice.choice(names)} = {dice.choice(values)}" for _ in range(dice.randint(0, 3)))

        def load(path: Path) -> None:
            settings = Settings.load(config=path, **dice.choice(({}, {"embedder_options": text(dice)}, {"signing_key": text(dice)}, {"reranker": text(dice)}, {"nothing": "x"}, {"dsn": text(dice)})))
            repr(settings)
            settings.open_reranker()

        return f"Settings.load of {made!r}", lambda: self.with_file("pgrag.toml", made, load)

    def with_file(self, name: str, content: str, read: Callable[[Path], Any]) -> None:
        path = self.folder / name
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            read(path)
        finally:
            path.unlink()

    def try_packet(self, dice: random.Random) -> Try:
        made = self.world.json(dice, "p_packet")
        if dice.random() < 0.3:
            made = mutated(dice, made)
        if dice.random() < 0.5:
            return f"Packet.from_json({made!r})", lambda: Packet.from_json(made).to_json()
        return f"packet_json({made!r})", lambda: packet_json(dice.choice((made, made.encode("utf-8", "surrogatepass"))))

    def try_reply(self, dice: random.Random) -> Try:
        made = dice.choice((self.world.json(dice, "p_reply"), mutated(dice, json.dumps(self.world.reply)), text(dice), "NaN", '{"answer": Infinity}'))
        given: Any = dice.choice((made, made.encode("utf-8", "surrogatepass"), {"answer": text(dice), "citations": dice.choice(([], None, [float("nan")], {1: 2}, {"x"}))}, pgrag.Reply(text(dice), (pgrag.Citation(text(dice), "\ud800"),))))
        if dice.random() < 0.4:
            return f"reply_json({given!r})", lambda: json.loads(reply_json(given))
        return f"reader.validate(packet, {given!r})", lambda: self.session("reader", lambda r: r.validate(self.world.packet, given))

    def try_endpoint(self, dice: random.Random) -> Try:
        good: Any = dice.choice((
            {"model": "m", "data": [{"index": 0, "embedding": [1, 0.2, 0]}, {"index": 1, "embedding": [0, 1, 0]}]}, {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 1, "relevance_score": 0.1}]},
        ))  # fmt: skip
        made = json.dumps(changed(dice, good)).encode()
        if dice.random() < 0.4:
            made = dice.choice((mutated(dice, made.decode()).encode("utf-8", "replace"), dice.choice(BROKEN_JSON).encode(), made.replace(b"0.2", dice.choice((b"1e400", b"NaN", b"1" * 400, b"1" * 5000))), made.replace(b"0.5", dice.choice((b"1e400", b"NaN", b"1" * 400, b"1" * 5000))), b"\xff\xfe" + made))
        embeds = dice.random() < 0.5

        def ask() -> None:
            self.answer = made
            if embeds:
                assert math.isfinite(float(self.embedder.embed_documents(["x", "y"]).sum()))
            else:
                assert all(map(math.isfinite, self.reranker.rerank("q", [Passage("x", 1.0), Passage("y", 0.5)])))

        return f"{'embed_documents' if embeds else 'rerank'}, answered with {made!r}", ask

    def try_adapter(self, dice: random.Random) -> Try:
        url = dice.choice(("http:", "http:http://", "http:https://h:99999", "http:https://u:p@h/", "http:https://h/?q", "http:ftp://h", "http:http://h", "http:https://[::1", "mmr", "wordllama:x", text(dice), "http:" + text(dice), "cross-encoder:", "sentence-transformers:", "http:https://\u0130/", "http:https://xn--a/", "http:https://" + "a" * 300))
        options: dict[str, Any] = {"model": "m"} if url.startswith("http:") else {}
        which = dice.choice((load_embedder, load_reranker))
        if which is load_embedder and options:
            options |= {"dimension": dice.choice((3, 0, -1, True, 1.5, None, "3"))}
        if options and dice.random() < 0.5:
            options |= dice.choice(({"api_key": text(dice)}, {"api_key_env": "PGRAG_NO_SUCH_VARIABLE"}, {"batch_size": dice.choice((*WHOLE, True, "1"))}, {"retries": dice.choice((-1, 1.5, None))}, {"processor": text(dice)}))
        if url == "mmr" and which is load_reranker:
            options = {"lambda_": dice.choice((0, 1, 2, -1, math.nan, math.inf, True, "x", None, 10**400))}
        if url == "mmr" and which is load_embedder:
            options = {}

        def load() -> None:
            loaded = which(url, **options)
            repr(loaded)
            if hasattr(loaded, "close"):
                loaded.close()

        return f"{which.__name__}({url!r}, **{options!r})", load

    def try_mmr(self, dice: random.Random) -> Try:
        passages = [Passage(text(dice), dice.choice((0.0, 1.0, -1.0, 1e308, 5e-324, 0.3))) for _ in range(dice.randint(0, 6))]

        def rank() -> None:
            scores = MMR(dice.random()).rerank(text(dice), passages)
            assert len(scores) == len(passages) and all(map(math.isfinite, scores)), scores

        return f"MMR().rerank({passages!r})", rank

    def try_session(self, dice: random.Random) -> Try:
        """A method of a session, with good arguments but for one or two."""
        role = dice.choice(("reader", "reader", "reader", "writer", "writer", "admin", "operator", "keys"))
        kind = {"reader": pgrag.Reader, "writer": pgrag.Writer, "admin": pgrag.Admin, "operator": pgrag.Operator, "keys": pgrag.Keys}[role]
        left_out = {"calibrate", "doctor", "ingest", "fill_space", "check_embedder"}
        methods = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_") and name not in left_out]
        name = dice.choice(("search", "packet")) if role == "reader" and dice.random() < 0.6 else dice.choice(methods)
        parameters = [p for p in inspect.signature(getattr(kind, name)).parameters.values() if p.name != "self"]
        wrong = {p.name for p in dice.sample(parameters, min(len(parameters), dice.choice((1, 1, 2))))}
        given = {p.name: self.odd(dice, p) if p.name in wrong else self.usual(dice, p) for p in parameters if p.name in wrong or p.default is p.empty}
        if name in ("search", "packet"):
            given.setdefault("mode", "lexical")
        return f"{role}.{name}(**{given!r})", lambda: self.session(role, lambda session: getattr(session, name)(**given))

    def usual(self, dice: random.Random, parameter: inspect.Parameter) -> Any:
        values = {
            "question": "refund window", "packet": self.world.packet, "reply": self.world.reply, "chunk_id": self.world.chunk, "source": "handbook", "document": "d0.md", "revision": "r1", "chunks": [Chunk("Refund at will.", 0, 15)],
            "embeddings": [[1.0, 0.0, 0.0]], "tokens": [3], "expected": 1, "space": "toy", "readers": ["alice"], "name": "carol", "kind": "user", "group": "staff", "member": "bob", "tenant": "a", "kid": "k9", "secret": b"x" * 32, "issuer": "i", "audience": "a",
        }  # fmt: skip
        if parameter.name == "space" and "EmbeddingSpace" in str(parameter.annotation) and "put" not in parameter.name:
            return EmbeddingSpace(space="s9", model="m", model_revision="1", dimension=3)
        return values[parameter.name]

    def odd(self, dice: random.Random, parameter: inspect.Parameter) -> Any:
        """Of the type that the signature states, or of one that its check is there for."""
        kind = str(parameter.annotation).removeprefix("<class '").removesuffix("'>")
        if "EmbeddingSpace" in kind:
            return EmbeddingSpace(space=text(dice), model=text(dice), model_revision="1", dimension=dice.choice(WHOLE), metric=dice.choice(("cosine", text(dice))), query_prefix=text(dice))
        if "Reranker" in kind:
            return None
        if "SourceDocument" in kind:
            return dice.choice((text(dice), "d0.md"))
        if parameter.name == "chunks":
            return [Chunk(text(dice), dice.choice(WHOLE), dice.choice(WHOLE)) for _ in range(dice.randint(0, 3))]
        if parameter.name in ("embedding", "embeddings", "probe_embeddings"):
            return dice.choice(([], [1.0], [[1.0, 0, 0]], [math.nan] * 3, [math.inf, 0, 0], ["x"], [[1], [2, 3]], [1e39, 0, 0], [[]], [[0.0, 0, 0]] * 50, *((None,) if parameter.name == "embedding" else ())))
        if parameter.name == "tokens":
            return [dice.choice(WHOLE) for _ in range(dice.randint(0, 3))]
        if parameter.name == "skips":
            return [(dice.choice(WHOLE), dice.choice(WHOLE)) for _ in range(dice.randint(0, 3))]
        if parameter.name == "secret":
            return dice.choice((b"", b"x" * 31, b"x" * 5000, text(dice)))
        if parameter.name in ("packet", "reply"):
            return dice.choice((self.world.json(dice, f"p_{parameter.name}"), changed(dice, getattr(self.world, parameter.name))))
        if "Mapping" in kind:
            return dice.choice((None, {}, {"source": text(dice)}, {text(dice)[:80]: [text(dice)]}, {"tags": []}, {"dated": dt.date.max}, {"metadata": changed(dice, {"a": [1, "x"]})}, {"n": math.nan}, {"n": 10**400}, {"source": {"x"}}))
        if "Sequence" in kind:
            return dice.choice(([], [text(dice)], [text(dice)] * 3, ["everyone"], [""], ["x"] * 300, ("alice", "bob")))
        if "timedelta" in kind:
            return dice.choice((None, dt.timedelta(0), dt.timedelta.max, dt.timedelta.min))
        if "Moment" in kind or "date" in kind:
            return dice.choice((None, dt.date(2024, 1, 1), dt.date.max, dt.datetime.max.replace(tzinfo=dt.UTC), dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))), *(() if "Moment" not in kind else ("x", "2024-01-01", dt.datetime(2024, 1, 1)))))
        if "bool" in kind:
            return dice.choice((True, False))
        if "int" in kind:
            return dice.choice((*WHOLE, *((True, 2.0, "3", None, 10**40) if parameter.name in ("k", "candidates", "budget", "reserve", "per_document", "per_source", "rerank_candidates") else ())))
        if "float" in kind:
            return dice.choice((0, 1, -1, 0.5, math.nan, math.inf, True, "x", None, 10**400) if parameter.name == "threshold" else (0.5, 0, -1, math.nan, math.inf, 601))
        return dice.choice((text(dice), text(dice), "\ud800", "a\0b"))

    def session(self, role: str, use: Callable[[Any], Any]) -> None:
        """In a transaction that is undone."""
        opened: Any = getattr(pgrag, role)
        connection = self.connections[role]
        token = [] if role in ("operator", "keys") else [self.world.database.token("a", "alice", role, source="handbook" if role == "writer" else None)]
        try:
            with opened(connection, *token) as session:
                use(session)
                raise Undone
        except Undone:
            pass


class Undone(Exception):
    """Takes back what a session wrote."""


# ---- the proof -----------------------------------------------------------------------------------------------------


@contextmanager
def opened(lab: Lab, broken: Callable[[Database], AbstractContextManager[None]] | None = None) -> Iterator[Batch]:
    with lab.database() as database, ExitStack() as stack:
        callers = Callers(database)
        stack.callback(callers.close)
        python = Python(callers.world, Path(stack.enter_context(tempfile.TemporaryDirectory(dir=lab.folder))))
        stack.callback(python.close)
        if broken:
            stack.enter_context(broken(database))

        def batch(seed: int) -> Tally:
            dice, tally = random.Random(seed), Tally()
            callers.calls(dice, tally, seed)
            if not broken:
                python.tries(dice, tally, seed)
            return tally

        yield batch


def internal_error(database: Database) -> AbstractContextManager[None]:
    """A lookup that goes wrong inside for a name without a letter."""
    return patched(database, "pgrag.can_read", ("begin\n  return exists (", "begin\n  if p_document !~ '[[:alnum:]]' then raise exception 'unexpected' using errcode = 'XX000'; end if;\n  return exists ("))


def unchecked_cast(database: Database) -> AbstractContextManager[None]:
    """A name that is cast before anybody has looked at it: of a caller's literal the same code would be allowed."""
    return patched(database, "pgrag.can_read", ("begin\n  return exists (", "begin\n  if p_document !~ '[[:alpha:]]' then perform p_document::numeric; end if;\n  return exists ("))


def unchecked_lengths(database: Database) -> AbstractContextManager[None]:
    return patched(database, "pgrag.add_chunks", ("     or cardinality(p_tokens) is distinct from v_count\n", ""), (" or n is null or n < 0", ""))


PROOF = Proof(
    name="malformed input",
    contracts=("F6", "H1"),
    unit="inputs",
    target=100_000,
    claim="No input of whatever shape to a function, a file or a session ends in anything but an answer, a refusal in pgrag's words, or one of a few of PostgreSQL's own errors of literals, before a function is called; every function answers some.",
    opened=opened,
    controls={
        "an internal error": Control(partial(opened, broken=internal_error), "XX000 .*can_read"),
        "a cast of what was not checked": Control(partial(opened, broken=unchecked_cast), "22P02 .*can_read"),
        "arrays whose lengths are not compared": Control(partial(opened, broken=unchecked_lengths), "23502 .*add_chunks"),
    },
)
