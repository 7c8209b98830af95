"""A9: how long an answer takes does not tell what is hidden from what is not there.

Questions come in pairs, in random order: about something that is there and hidden from who asks, and about something that is not
there at all. The figure of a kind is the area under the curve (AUC): the chance that a hidden one took longer than an absent one.
It is taken within pairs that follow each other, so that a machine that slows down for a second makes no difference, and over
several hidden and absent things, so that no figure hangs on one word's length or hash. A batch asks so many pairs; what is judged
is what all batches since the opening measured together: within 0.10 of one half while there are few, within 0.05 each thousand pairs.
That is of one answer: whoever may ask the same thing a thousand times can tell a difference that none of these figures shows.

Isolation 'strict' is held to it. Isolation 'auto', which may look rare words up in the tenant's index, is measured beside it and
published, and not judged.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import patched, scope_limit
from tests.support import Database

PAIRS = 150  # of a case in a batch
UNJUDGED = 40  # of one that is only published
KNOWN = 12  # things of each kind and side
ENOUGH = 1000  # pairs from which on the bound is the strict one
STRICT, LENIENT = 0.05, 0.10
ERROR = 0.413  # the standard error of such an area of n pairs, where there is nothing to be seen, is this / √n
SEEN = 0.9  # what a control by far must come to
HIDDEN = 800  # passages that the reader may not see, beside
PARTS = 60  # of each document whose word, vector, id or name is asked for


@dataclass(frozen=True)
class Case:
    """A statement, and its parameter for the thing number n that is hidden, or that is absent."""

    statement: str
    hidden: Callable[[int], str]
    absent: Callable[[int], str]
    judged: bool = True


def asked(isolation: str, **request: Any) -> Callable[[str], str]:
    return lambda question: json.dumps({"question": question, "mode": "lexical", "isolation": isolation, "threshold": 0} | request)


def near(place: int, there: bool = True) -> list[float]:
    """A direction of its own. The visible passages have the first two of sixteen, the hidden ones the next seven, and nobody the rest."""
    vector, first = [0.0] * 16, 2 if there else 9
    vector[first + place % 3], vector[first + 3 + place % 4] = 1.0, 0.25 * (1 + place % 4)
    return vector


class World:
    """Visible passages with nothing in common with the hidden ones, whose words, vectors and names are the secret."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.put_tenant("a", space=("toy", 16))
        database.put_principals("a", users=["alice", "bob"])
        with database.writer("a", "handbook") as writer:
            for number in range(60):
                database.put_document(writer, f"open-{number:04}", f"Refund rule {number} of the house.", vectors=[[1.0, 0.01 * number, *[0.0] * 14]])
            # A word that is rare in the whole tenant, one that is common there, and vectors in directions of their own.
            texts = [f"Salary {word(number)} of carol, grade {number}. " for number in range(HIDDEN)]
            for number in range(KNOWN):
                parts = [texts[number], *(f"The terms of grade {number}, part {part}. " for part in range(1, PARTS))]
                database.put_document(writer, f"hidden-{number:04}", parts, readers=["bob"], vectors=[near(number)] * PARTS)
            database.put_document(writer, "hidden-many", texts[KNOWN:], readers=["bob"], vectors=[near(number) for number in range(KNOWN, HIDDEN)])
        with database.superuser() as superuser:
            superuser.execute("vacuum analyze")
            self.chunks = [row[0] for row in superuser.execute(
                "select encode(c.chunk_id, 'hex') from pgrag_data.chunk c join pgrag_data.revision using (tenant_id, revision_id) join pgrag_data.document d using (document_id) "
                "where d.document ~ '^hidden-0' and c.chunk_no = 1 order by d.document")]  # fmt: skip
        assert len(self.chunks) == KNOWN

    def cases(self) -> dict[str, Case]:
        search = "select pgrag.search_json(%s::jsonb, %s)"
        cases = {}
        for isolation in ("strict", "auto"):
            lexical, dense = asked(isolation), partial(asked, isolation, mode="dense", space="toy")
            judged = isolation == "strict"
            cases |= {
                f"{isolation}: a rare word": Case(search, lambda n, ask=lexical: ask(word(n)), lambda n, ask=lexical: ask(word(10_000 + n)), judged),
                f"{isolation}: a common word": Case(search, lambda n, ask=lexical: ask("salary"), lambda n, ask=lexical: ask("zebras"), judged),
                f"{isolation}: a neighbour": Case(
                    search, lambda n, dense=dense: dense(embedding=near(n))("pay"), lambda n, dense=dense: dense(embedding=near(n, False))("pay"), judged),
            }  # fmt: skip
        return cases | {
            # Both are refused in the same words: the time of a refusal is what is measured.
            "the id of a passage": Case("select pgrag.excerpt(%s, p_token => %s)", lambda n: self.chunks[n], lambda n: f"{n:02x}" + self.chunks[n][:1:-1]),
            "the name of a document": Case("select pgrag.can_read('handbook', %s, %s)", lambda n: f"hidden-{n:04}", lambda n: f"absent-{n:04}"),
        }


def word(number: int) -> str:
    """A word of one length, which nothing stems."""
    return "qz" + "".join("bcdfghklmnprstvw"[(number * 2654435761 >> shift) & 15] for shift in range(0, 28, 4)) + "w"


def auc(pairs: Sequence[tuple[int, int]]) -> float:
    """The chance that a hidden one took longer than an absent one, of those within twenty pairs that follow each other."""
    areas = []
    for first in range(0, len(pairs), 20):
        near_by = pairs[first : first + 20]
        areas += [(h > a) + (h == a) / 2 for h, _ in near_by for _, a in near_by]
    return sum(areas) / len(areas)


class Clock:
    """Pairs that were timed so far, and what is judged of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.count = PAIRS
        self.cases = world.cases()
        self.pairs: dict[str, list[tuple[int, int]]] = {name: [] for name in self.cases}
        self._warm = False

    def batch(self, seed: int) -> Tally:
        dice = random.Random(seed)
        tally = Tally()
        token = self.world.database.token("a", "alice")
        with psycopg.connect(self.world.database.dsn("app_reader"), autocommit=True) as reader:
            for name, case in self.cases.items():
                if not self._warm:
                    self.timed(reader, case, token, dice, 20)
                count = self.count if case.judged else UNJUDGED
                self.pairs[name] += self.timed(reader, case, token, dice, count)
                tally.cases += count * case.judged
                tally.draws += case.judged * (len(self.pairs[name]) // ENOUGH - (len(self.pairs[name]) - count) // ENOUGH)
                tally.figures[f"AUC, {name}"] = round(auc(self.pairs[name]), 3)
                tally.figures[f"± of AUC, {name}"] = round(1.96 * ERROR / len(self.pairs[name]) ** 0.5, 3)
                tally.figures[f"median ms, {name}"] = round(median([h for h, _ in self.pairs[name]]) / 1e6, 3)
                if case.judged and (problem := self.judged(self.pairs[name], count)):
                    tally.failures.append(f"seed {seed}, {name}: {problem}")
        self._warm = True
        return tally

    @staticmethod
    def timed(reader: psycopg.Connection[Any], case: Case, token: str, dice: random.Random, count: int) -> list[tuple[int, int]]:
        """Nanoseconds of the hidden one and of the absent one, asked in random order."""
        pairs = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(count):
                number, sides = dice.randrange(KNOWN), [0, 0]
                for side in dice.sample((0, 1), 2):
                    parameters = ((case.hidden, case.absent)[side](number), token)
                    begin = time.perf_counter_ns()
                    try:
                        reader.execute(case.statement, parameters, prepare=False)
                    except psycopg.Error as error:
                        end = time.perf_counter_ns()
                        assert error.sqlstate == "RG401", error
                    else:
                        end = time.perf_counter_ns()
                    sides[side] = end - begin
                pairs.append((sides[0], sides[1]))
        finally:
            gc.enable()
        return pairs

    @staticmethod
    def judged(pairs: Sequence[tuple[int, int]], new: int) -> str:
        """What is wrong with a case's pairs, of which so many are new. Each full thousand is a figure of its own."""
        if len(pairs) < ENOUGH:
            # Noise makes a difference up for a while; a real one is in every third, and to the same side.
            third = len(pairs) // 3
            areas = [auc(pairs[n * third : (n + 1) * third]) for n in range(3)]
            apart = min(areas) > 0.5 + LENIENT or max(areas) < 0.5 - LENIENT
            return f"AUC {', '.join(f'{area:.3f}' for area in areas)} of {third} pairs each" if apart else ""
        if len(pairs) // ENOUGH == (len(pairs) - new) // ENOUGH:
            return ""
        area = auc(pairs[-ENOUGH:])
        return f"AUC {area:.3f} of {ENOUGH} pairs" if abs(area - 0.5) > STRICT else ""


def median(numbers: Sequence[int]) -> float:
    return sorted(numbers)[len(numbers) // 2]


@contextmanager
def opened(lab: Lab, broken: Callable[[Database], AbstractContextManager[None]] | None = None, case: str = "", by_far: bool = True) -> Iterator[Batch]:
    with lab.database() as database, ExitStack() as stack:
        clock = Clock(World(database))
        stack.enter_context(scope_limit(database))  # so small a corpus is read by its indexes, where isolation is 'auto'
        if broken:
            stack.enter_context(broken(database))
            clock.cases, clock.count = {case: clock.cases[case]}, 48 if by_far else ENOUGH
        yield partial(told, clock, case) if broken and by_far else clock.batch


def told(clock: Clock, case: str, seed: int) -> Tally:
    """A control's batch: it has to fail by far, or the measure is too weak for what it claims."""
    tally = clock.batch(seed)
    if auc(clock.pairs[case]) < SEEN:
        tally.failures.clear()
    return tally


def index_first(database: Database) -> AbstractContextManager[None]:
    """A lexical search that ranks what the index has of the whole tenant, and leaves out afterwards what the reader may not see."""
    return patched(database, "pgrag.search_json", ("begin\n  perform pgrag_private.check_json_request", """begin
  perform sum(ts_rank_cd(to_tsvector('english', c.text), plainto_tsquery('english', p_request ->> 'question')))
     from pgrag_data.chunk_lex l join pgrag_data.chunk c using (tenant_id, revision_id, chunk_no)
    where pgrag_private.lexeme_keys(l.tenant_id, tsvector_to_array(l.lexemes))
          @> pgrag_private.lexeme_keys(v_principal.tenant_id, tsvector_to_array(to_tsvector('english', p_request ->> 'question')));
  perform pgrag_private.check_json_request"""))


def a_little_longer(database: Database) -> AbstractContextManager[None]:
    """A search that reads the tenant's passages with the word once more, some tenths of a millisecond: what the strict bound is there for."""
    return patched(database, "pgrag.search_json", ("begin\n  perform pgrag_private.check_json_request", """begin
  if p_request ->> 'question' = 'salary' then perform sum(n) from generate_series(1, 400) n; end if;
  perform pgrag_private.check_json_request"""))


def described_first(database: Database) -> AbstractContextManager[None]:
    """An excerpt that is looked up by its id and described with the passages around it, and refused afterwards."""
    return patched(database, "pgrag.excerpt", ("begin\n  if p_chunk_id", """begin
  perform pgrag_private.describe_chunk(o.tenant_id, o.revision_id, o.chunk_no)
     from pgrag_data.chunk c join pgrag_data.chunk o on o.tenant_id = c.tenant_id and o.revision_id = c.revision_id
    where c.tenant_id = v_principal.tenant_id and c.chunk_id = decode(p_chunk_id, 'hex');
  if p_chunk_id"""))


PROOF = Proof(
    name="timing",
    contracts=("A9",),
    unit="timed pairs",
    target=15_000,
    claim="How long one answer takes tells a hidden word, neighbour, passage or document from an absent one no better than a coin, in strict isolation: the area under the curve of each thousand pairs is within 0.05 of one half.",
    opened=opened,
    bounded=False,
    draw="areas of a thousand pairs",
    controls={
        "a search that ranks before it filters": Control(partial(opened, broken=index_first, case="strict: a common word"), r"common word: AUC (0\.9|1)"),
        "a passage that is described before it is refused": Control(partial(opened, broken=described_first, case="the id of a passage"), r"passage: AUC (0\.9|1)"),
        "a search that takes a little longer": Control(partial(opened, broken=a_little_longer, case="strict: a common word", by_far=False), r"common word: AUC 0\.[5678]\d* of 1000"),
    },
)
