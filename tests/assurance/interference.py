"""Twin worlds that differ in what the reader may not see alone: every answer and every error is the same to the last byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from tests.access import hidden
from tests.access.hidden import HANDS
from tests.access.model import WORDS
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.functions.patched import all_patched
from tests.support import Database

PAIRS = 20  # of a batch: the world before and after one change of what is hidden
QUESTIONS = 5  # of those in tests/access/hidden.py, and as many random ones
# What is refused: an error says the same too. {chunk} and {document} are hidden ones, or of the other tenant.
REFUSED = (
    "select pgrag.excerpt('{chunk}')", "select pgrag.excerpt('{chunk}', '2025-01-01')", "select pgrag.can_read('handbook', '{document}')",
    "select pgrag.search_json('{{\"question\": \"common\", \"mode\": \"lexical\", \"filter\": {{\"{document}\": 1}}}}')",
    "select pgrag.search_json('{{\"question\": \"common\", \"mode\": \"dense\", \"space\": \"{document}\", \"embedding\": [1, 1, 1]}}')",
)  # fmt: skip


class World(hidden.World):
    """With random questions, asked in strict isolation or in one that is scope-first here; and refused ones."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        super().__init__(database, dice)
        with database.superuser() as superuser:
            chunks = superuser.execute("select encode(c.chunk_id, 'hex'), d.document from pgrag_data.chunk c join pgrag_data.revision r using (tenant_id, revision_id) join pgrag_data.document d using (tenant_id, document_id) where d.document like 'hidden%' order by 2, 1").fetchall()
        chunk, document = dice.choice(chunks)
        self.requests = [*dice.sample(hidden.REQUESTS, QUESTIONS), *(self.question() for _ in range(QUESTIONS))]
        self.refused = [call.format(chunk=chunk, document=document) for call in REFUSED]

    def question(self) -> dict[str, Any]:
        dice = self.dice
        request: dict[str, Any] = {"question": " ".join(dice.choices([*WORDS, "common", "zebra"], k=dice.randint(1, 5))),
                                   "mode": dice.choice(("lexical", "dense", "hybrid")), "k": dice.choice((1, 3, 10, 50)), "isolation": dice.choice(("auto", "strict"))}  # fmt: skip
        if dice.random() < 0.2:
            request["question"] += f' "{dice.choice(WORDS)} {dice.choice(WORDS)}"'
        if dice.random() < 0.2:
            request["question"] += f" -{dice.choice(WORDS)}"
        if request["mode"] != "lexical":
            request |= {"space": "toy", "embedding": [round(dice.random() + 0.1, 2) for _ in range(3)]}
        if dice.random() < 0.3:
            request["candidates"] = request["k"]
        if dice.random() < 0.7:
            request["threshold"] = 0
        if dice.random() < 0.2:
            request["filter"] = dice.choice(({"source": "handbook"}, {"source": ["wiki", "handbook"]}, {"metadata": {"team": "billing"}}, {"metadata": {"level": 1}}))
        if dice.random() < 0.2:
            request["as_of"] = "2030-01-01"
        return request

    def everything(self) -> list[str]:
        """All answers, and errors in all their fields."""
        said = self.answers()
        with self.reader.transaction():
            self.reader.execute("select pgrag.authenticate(%s)", (self.database.token("a", "alice"),))
            for call in self.refused:
                try:
                    with self.reader.transaction():
                        said.append(repr(self.reader.execute(call).fetchall()))
                except psycopg.Error as error:
                    its = error.diag
                    said.append(repr((its.sqlstate, its.message_primary, its.message_detail, its.message_hint, its.context)))
        return said


def compared(database: Database, seed: int, pairs: int = PAIRS) -> Tally:
    """One world, and so many changes of what is hidden."""
    tally, dice = Tally(), random.Random(seed)
    with closing(World(database, dice)) as world:
        before = world.everything()
        tally.counts["answers"] += len(before)
        for _ in range(pairs):
            name = dice.choice(list(HANDS))
            world.step(name)
            if dice.random() < 0.05:
                with database.superuser() as superuser:
                    superuser.execute("analyze pgrag_data.document, pgrag_data.revision, pgrag_data.chunk_lex, pgrag_data.chunk_vec")
            after = world.everything()
            tally.cases += 1
            tally.counts["answers"] += len(after)
            tally.counts["bytes"] += sum(map(len, after))
            tally.failures += [f"seed {seed}, {name}: {a[:200]} … {b[:200]}" for a, b in zip(before, after, strict=True) if a != b][:3]
            before = after
    return tally


@contextmanager
def opened(lab: Lab, *changes: tuple[str, str, str], pairs: int = PAIRS) -> Iterator[Batch]:
    """Each batch in a database of its own. ``changes`` take guards out: function, text, replacement."""

    def batch(seed: int) -> Tally:
        with lab.database() as database, all_patched(database, *changes):
            return compared(database, seed, pairs)

    yield batch


PROOF = Proof(
    name="no interference",
    contracts=("A7", "A9", "F9"),
    unit="pairs of worlds",
    target=10_000,
    claim="Not a byte of an answer or an error differs with what the reader may not see.",
    opened=opened,
    controls={
        "chunks are counted over the tenant": Control(lambda lab: opened(lab, ("search_scope", "sum(v.chunk_count)", "(select sum(r.chunk_count) from pgrag_data.revision r where r.tenant_id = p_tenant_id)"), pairs=13), ""),
        "internal numbers are shown": Control(lambda lab: opened(lab, ("describe_chunk", "'section', c.section", "'section', (SELECT count(*) FROM pgrag_data.chunk x)"), pairs=13), ""),
        "an error names the document": Control(lambda lab: opened(lab, ("not_found", "'Check the name;", "(select count(*)::text from pgrag_data.document) || 'Check the name;"), pairs=13), ""),
    },
)
