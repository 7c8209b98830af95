"""A state machine over everything that changes what a reader sees: after each step the database says what the model says.

Hypothesis chooses the steps, and shrinks what fails to the shortest story that still does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.assurance import differential, reference, worlds
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.assurance.reference import NOW, Chunk, Revision
from tests.assurance.worlds import SOURCES, Hands, Twin
from tests.functions.patched import all_patched
from tests.support import Database

STORIES, STEPS = 12, 25  # of a batch; of a story, at most
USERS, GROUPS = ("ann", "bob", "cy"), ("team", "board")
NAMES = ("a.md", "b.md", "c.md")
TEXTS = st.lists(st.lists(st.sampled_from(worlds.WORDS[:8]), min_size=2, max_size=9).map(lambda words: " ".join(words) + ". "), min_size=1, max_size=3)
VECTORS = st.tuples(*(st.integers(0, 4),) * (worlds.DIMENSION - 1), st.integers(1, 4))


def machine(hands: Hands, tally: Tally) -> type[RuleBasedStateMachine]:
    """A machine whose every story is a new tenant."""

    class Machine(RuleBasedStateMachine):
        twin: Twin
        moments = (*worlds.PERIODS, worlds.OVER, *worlds.TIMES)

        @initialize()
        def begin(self) -> None:
            tally.draws += 1
            self.step = 0
            self.twin = Twin(hands, f"t{tally.draws}")
            self.issued: list[differential.Issued] = []
            for name in USERS:
                self.twin.put_principal(name, "user")
            for name in GROUPS:
                self.twin.put_principal(name, "group")

        def documents(self) -> list[tuple[str, str]]:
            return list(self.twin.model.documents)

        def some(self) -> bool:
            return bool(self.twin.model.documents)

        def principals(self) -> list[str]:
            return list(self.twin.model.principals)

        # ---- steps ----

        @rule(source=st.sampled_from(SOURCES), name=st.sampled_from(NAMES), texts=TEXTS, data=st.data(), verified=st.booleans(), over=st.integers(0, 5))
        def stage(self, source: str, name: str, texts: list[str], data: st.DataObject, verified: bool, over: int) -> None:
            self.twin.number += 1
            chunks = [Chunk(text, data.draw(VECTORS)) for text in texts]
            ends = {"effective_to": worlds.OVER} if over == 0 else {"effective_from": worlds.PERIODS[over - 1]} if over < 3 else {}
            self.twin.write(source, [(name, Revision(f"r{self.twin.number}", chunks, verified=verified or over > 2, **ends))])
            self.twin.learn_chunk_ids()

        @rule(source=st.sampled_from(SOURCES), name=st.sampled_from(NAMES), texts=TEXTS, data=st.data(), reader=st.sampled_from((*USERS, *GROUPS)))
        def publish(self, source: str, name: str, texts: list[str], data: st.DataObject, reader: str) -> None:
            """All that it takes, so that there is always something to see."""
            self.stage(source=source, name=name, texts=texts, data=data, verified=True, over=3)
            self.twin.set_access(source, name, {reader})
            self.twin.activate(source, name, f"r{self.twin.number}", restore=True)

        @precondition(some)
        @rule(data=st.data(), restore=st.booleans())
        def activate(self, data: st.DataObject, restore: bool) -> None:
            key = data.draw(st.sampled_from(self.documents()))
            document = self.twin.model.documents[key]
            revision = data.draw(st.sampled_from([*document.revisions, "nowhere"]))
            self.twin.activate(*key, revision, data.draw(st.sampled_from([None, None, document.active, "", *document.revisions])), restore)

        @precondition(some)
        @rule(data=st.data())
        def rollback(self, data: st.DataObject) -> None:
            key = data.draw(st.sampled_from(self.documents()))
            self.twin.rollback(*key, data.draw(st.sampled_from([None, *self.twin.model.documents[key].revisions])))

        @precondition(some)
        @rule(data=st.data())
        def delete(self, data: st.DataObject) -> None:
            self.twin.delete(*data.draw(st.sampled_from(self.documents())))

        @precondition(some)
        @rule(data=st.data())
        def set_access(self, data: st.DataObject) -> None:
            readers = data.draw(st.lists(st.sampled_from([*self.principals(), "nobody"]), max_size=3))
            self.twin.set_access(*data.draw(st.sampled_from(self.documents())), set(readers))

        @rule(group=st.sampled_from(GROUPS), member=st.sampled_from((*USERS, *GROUPS)))
        def put_membership(self, group: str, member: str) -> None:
            if {group, member} <= set(self.principals()):
                self.twin.put_membership(group, member)

        @rule(data=st.data())
        def drop_membership(self, data: st.DataObject) -> None:
            if members := sorted(self.twin.model.members):
                self.twin.drop_membership(*data.draw(st.sampled_from(members)))

        @rule(name=st.sampled_from((*USERS, *GROUPS, "nobody")))
        def drop_and_put_again(self, name: str) -> None:
            """What it could read, its successor of the same name cannot."""
            self.twin.drop_principal(name)
            if name in (*USERS, *GROUPS):
                self.twin.put_principal(name, "user" if name in USERS else "group")

        @rule()
        def maintain(self) -> None:
            hands.roles["operator"].execute("select * from pgrag.maintain('1 second')")

        @rule(data=st.data(), reader=st.sampled_from(USERS))
        def packet(self, data: st.DataObject, reader: str) -> None:
            words = " ".join(data.draw(st.lists(st.sampled_from(worlds.WORDS[:8]), min_size=1, max_size=4)))
            question = worlds.Question({"question": words, "mode": "lexical", "k": 5, "threshold": 0}, {"question": words, "mode": "lexical", "k": 5, "threshold": 0})
            with hands.on("reader", self.twin.model.name, reader) as connection:
                found = connection.execute("select pgrag.packet_json(%s)", (json.dumps(question.request),)).fetchone()[0]
            answer = worlds.answered(self.twin, reader, question)
            if answer.sure:
                ours = reference.pack(answer, words, 0, found["limits"]["budget"])
                assert [e["chunk_id"] for e in found["excerpts"]] == ours.excerpts, "packet"
            self.issued.append(differential.Issued(reader, self.twin.model.dropped[reader], found, question))

        # ---- what holds after each of them ----

        @invariant()
        def readers_see_what_the_model_says(self) -> None:
            if not hasattr(self, "twin"):
                return
            tally.cases += 1
            self.step += 1
            for reader in USERS:
                ours = {(p.chunk.chunk_id, p.revision.name, p.number) for p in self.twin.model.visible(reader, NOW)}
                with hands.on("browser", self.twin.model.name, reader) as browser:
                    theirs = set(browser.execute("select chunk_id, revision, chunk_no from pgrag.chunks").fetchall())
                assert theirs == ours, f"pgrag.chunks of {reader}"
                common = {"question": "zorbak klimot", "mode": "hybrid", "k": 3, "threshold": 0}
                question = worlds.Question(common | {"space": "toy", "embedding": [1, 2, 0, 1]}, common | {"embedding": (1, 2, 0, 1)})
                if self.step % 3 == 1:  # what the past of each document is has to be known, too
                    question.model["as_of"] = self.moments[self.step % len(self.moments)]
                    question.request["as_of"] = question.model["as_of"].isoformat()
                elif self.step % 3 == 2:
                    question.request["filter"] = question.model["filter"] = {"source": "wiki"}
                with hands.on("reader", self.twin.model.name, reader) as connection:
                    found = connection.execute("select pgrag.search_json(%s)", (json.dumps(question.request),)).fetchone()[0]
                assert not (wrong := worlds.differences(worlds.answered(self.twin, reader, question), found)), (reader, wrong)

        def teardown(self) -> None:
            if hasattr(self, "twin"):
                replies = Tally()
                differential.judge_replies(self.twin, self.issued, replies)
                tally.counts["replies"] += replies.counts["replies"]
                assert not replies.failures, replies.failures[:3]

    return Machine


def told(database: Database, seed: int, *, shrink: bool = True) -> Tally:
    """A batch of stories. To make a failing one short takes minutes."""
    tally = Tally()
    with closing(Hands(database)) as hands:
        made = machine(hands, tally)
        hypothesis.seed(seed)(made)
        try:
            run_state_machine_as_test(
                made,
                settings=settings(max_examples=STORIES, stateful_step_count=STEPS, database=None, deadline=None, print_blob=False,
                                  phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
                                  suppress_health_check=list(HealthCheck), report_multiple_bugs=False),
            )  # fmt: skip
        except AssertionError as error:
            tally.failures.append(f"seed {seed}: {error} {' | '.join(getattr(error, '__notes__', []))[-1500:]}")
    return tally


@contextmanager
def opened(lab: Lab, *changes: tuple[str, str, str]) -> Iterator[Batch]:
    """Each batch in a database of its own. ``changes`` take guards out: function, text, replacement."""

    def batch(seed: int) -> Tally:
        with lab.database() as database, all_patched(database, *changes):
            return told(database, seed, shrink=not changes)

    yield batch


# Any revision of the document, instead of the active one.
_ANY = "r.document_id = (select x.document_id from pgrag_data.revision x where x.tenant_id = d.tenant_id and x.revision_id = d.active_revision_id)"

PROOF = Proof(
    name="stateful",
    contracts=("A6", "B2", "B4", "B5", "B8", "H3"),
    unit="steps",
    target=50_000,
    claim="After each step every reader sees what the model says, and each operation is done or refused as it says.",
    opened=opened,
    draw="stories",
    controls={
        "a name inherits what its predecessor could read": Control(lambda lab: opened(lab, ("closure", "(p.principal_id = closure.p_reader_id) AND (p.dropped_at IS NULL)", "p.name IN (SELECT q.name FROM pgrag_data.principal q WHERE q.principal_id = p_reader_id)")), "pgrag.chunks of"),
        "deleted documents stay visible": Control(lambda lab: opened(lab, ("visible_revisions", " and d.deleted_at is null", "")), "pgrag.chunks of|is not visible"),
        "revisions show before they are put in force": Control(lambda lab: opened(lab, ("visible_revisions", "r.revision_id = d.active_revision_id", _ANY)), "pgrag.chunks of|is not visible"),
    },
)
