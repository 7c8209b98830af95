"""Random worlds and questions: the database and the reference model see the same rows, in the same order, in the same packet."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, NamedTuple

import psycopg

from tests.assurance import reference, worlds
from tests.assurance.proof import Batch, Control, Lab, Proof, Tally
from tests.assurance.reference import NOW
from tests.assurance.worlds import ABSENT, Hands, Twin
from tests.functions.patched import all_patched, scope_limit, small_blocks
from tests.support import Database

READERS = 4  # of a world, each time that it is judged
QUESTIONS = 4  # for each of them
WORLDS = 10  # of a batch, as tenants of one database
PACKETS = 1
EXCERPTS = 3


class Issued(NamedTuple):
    """A packet, and to whom: how often a user of that name had been dropped before."""

    reader: str
    dropped: int
    packet: dict[str, Any]
    question: worlds.Question


def judge(twin: Twin, dice: random.Random, tally: Tally) -> list[Issued]:
    """All that some readers of the world may be given, compared; the packets, with their reader and question."""
    issued = []
    model, hands = twin.model, twin.hands
    users = [name for name, kind in model.principals.items() if kind == "user"]
    nobodies = ["stranger", dice.choice(list(model.principals))]  # a group or everyone cannot be a reader, whatever the token says
    everything = [chunk for d in model.documents.values() for r in d.revisions.values() for chunk in r.chunks]
    in_force = sum(len(d.revisions[d.active].chunks) for d in model.documents.values() if d.active and not d.deleted)
    partial = False
    for reader in dice.sample([*users, *nobodies], min(READERS, len(users) + 2)):
        seen = model.visible(reader, NOW)
        shown = {p.chunk.chunk_id for p in seen}
        questions = [worlds.some_question(dice, [p.chunk.text for p in seen]) for _ in range(QUESTIONS)]
        budgets = [dice.choice((60, 120, 300, 2000)) + len(q.request["question"]) for q in questions[:PACKETS]]
        with hands.on("reader", model.name, reader) as connection:
            found = [row[0] for row in connection.execute(
                "select pgrag.search_json(r) from unnest(%s::jsonb[]) with ordinality as q (r, n) order by n", ([json.dumps(q.request) for q in questions],))]  # fmt: skip
            packets = [row[0] for row in connection.execute(
                "select pgrag.packet_json(r) from unnest(%s::jsonb[]) with ordinality as q (r, n) order by n",
                ([json.dumps(q.request | {"budget": budget}) for q, budget in zip(questions, budgets, strict=False)],))]  # fmt: skip
            rows = [[row[0] for row in connection.execute(*worlds.as_rows(q))] for q in questions[:PACKETS]]
            statement, given = worlds.as_rows(questions[0], "select pgrag.packet({}, p_budget => %(budget)s)")
            by_packet = connection.execute(statement, given | {"budget": budgets[0]}).fetchone()[0]
            who = connection.execute("select tenant, subject, kind, source, known, groups from pgrag.whoami()").fetchone()
            names = list(model.documents)
            readable = connection.execute(
                "select array_agg(pgrag.can_read(s, d) order by n) from unnest(%s::text[], %s::text[]) with ordinality as x (s, d, n)",
                ([source for source, _ in names], [name for _, name in names]),
            ).fetchone()[0]
        with hands.on("browser", model.name, reader) as connection:
            documents = connection.execute("select source, document, revision from pgrag.documents").fetchall()
            chunks = connection.execute("select chunk_id, source, document, revision, chunk_no, text from pgrag.chunks").fetchall()

        def check(wrong: list[str], what: Any, kind: str, reader: str = reader, sure: bool = True) -> None:
            tally.cases += sure
            tally.counts[f"of them by {kind}" if sure else "besides, without an order"] += 1
            tally.failures.extend(f"{model.name}, {reader}, {what}: {each}" for each in wrong[:3])

        for question, answer in zip(questions, found, strict=True):
            expected = worlds.answered(twin, reader, question)
            check(worlds.differences(expected, answer), question.request, "search_json", sure=expected.sure)
            tally.counts["questions with hits"] += bool(expected.hits)
            tally.counts["questions answered by blocks"] += "dense_blocks" in answer["policy"]
            tally.counts["questions answered by the lexical index"] += answer["policy"].get("lexical_route") == "index"
            tally.counts["questions with k hits"] += expected.complete_reason == "k_returned"
            partial |= 0 < len(seen) < in_force and expected.matches > question.request["k"]
        for question, answer, ids in zip(questions, found, rows, strict=False):
            theirs = [hit["chunk_id"] for hit in answer["hits"]]
            check([f"{ids}, search_json says {theirs}"] if ids != theirs else [], {"rows": question.request}, "search")
        for question, budget, packet in zip(questions, budgets, packets, strict=False):
            expected = worlds.answered(twin, reader, question)
            ours = reference.pack(expected, question.request["question"], question.threshold, budget)
            theirs = reference.Packet(packet["status"], packet["reason"], [e["chunk_id"] for e in packet["excerpts"]],
                                      [o["chunk_id"] for o in packet["omitted"]], packet["limits"]["left"])  # fmt: skip
            issued.append(Issued(reader, model.dropped[reader], packet, question))
            unseen = [i for i in [*theirs.excerpts, *theirs.omitted] if i not in {p.chunk.chunk_id for p in expected.scope}]
            check([f"{theirs}, the model says {ours}"] if expected.sure and ours != theirs else unseen, {"packet": question.request, "budget": budget},
                  "packet_json", sure=expected.sure)  # fmt: skip
        ours = {key: its for key, its in packets[0].items() if key not in ("seal", "issued_at")}
        theirs = {key: its for key, its in by_packet.items() if key not in ("seal", "issued_at")}
        check([f"{theirs}, packet_json says {ours}"] if ours != theirs else [], {"packet": questions[0].request}, "packet")
        mine = model.closure(reader)
        ours = (model.name, reader, "reader", None, bool(mine), sorted(mine - {reader}))
        check([f"{who}, the model says {ours}"] if ours != who else [], "whoami", "whoami")
        ours = [any(p.document is d for p in seen) for d in model.documents.values()]
        check([f"can_read: {readable}, the model says {ours}"] if readable != ours else [], "can_read", "can_read")
        ours = {(p.document.source, p.document.name, p.revision.name) for p in seen}
        check([f"pgrag.documents: {sorted(ours ^ set(documents))}"] if ours != set(documents) or len(documents) != len(ours) else [], "documents", "documents")
        ours = {(p.chunk.chunk_id, p.document.source, p.document.name, p.revision.name, p.number, p.chunk.text) for p in seen}
        check([f"pgrag.chunks: {sorted(ours ^ set(chunks))}"] if ours != set(chunks) or len(chunks) != len(ours) else [], "chunks", "chunks")
        token = hands.database.token(model.name, reader)
        for chunk in dice.sample(everything, min(len(everything), EXCERPTS)):
            at = worlds.some_time(dice) if dice.random() < 0.3 else None
            try:
                text = hands.roles["reader"].execute("select pgrag.excerpt(%s, %s, %s) ->> 'text'", (chunk.chunk_id, at, token)).fetchone()[0]
            except psycopg.Error as error:
                text = error.sqlstate
            then = shown if at is None else {p.chunk.chunk_id for p in model.visible(reader, NOW, at)}
            expected_text = chunk.text if chunk.chunk_id in then else "RG401"
            check([f"{text}, the model says {expected_text}"] if text != expected_text else [], f"excerpt as of {at}", "excerpt")
    twin.partial |= partial
    return issued


def judge_replies(twin: Twin, issued: list[Issued], tally: Tally) -> None:
    """Packets of before: what of them may still be cited, and if not, why."""
    model = twin.model
    passages = {c.chunk_id: (d, r) for d in model.documents.values() for r in d.revisions.values() for c in r.chunks}
    for reader, dropped, packet, question in issued:
        ours: Any = []
        now = {p.chunk.chunk_id for p in model.visible(reader, NOW, question.model.get("as_of"))}
        for excerpt in packet["excerpts"]:
            document, _ = passages[excerpt["chunk_id"]]
            if excerpt["chunk_id"] not in now:
                readable = model.closure(reader) & document.readers
                ours.append((excerpt["id"], "readable" if not readable else "deleted" if document.deleted else "active"))
        if model.dropped[reader] != dropped:
            ours = "RG501"  # another principal now, to whom the packet was not issued
        citations = [{"id": e["id"], "quote": e["text"][:7]} for e in packet["excerpts"]]
        check_reply(twin, reader, packet, {"answer": "It is so." if citations else "", "citations": citations}, ours, tally)
        tally.counts["replies that no longer hold"] += bool(ours)
        bare = packet | {"excerpts": [{key: its for key, its in e.items() if key != "text"} for e in packet["excerpts"]]}
        check_reply(twin, reader, bare, {"answer": "It is so." if citations else "", "citations": citations}, ours, tally)
        # Replies of another shape, and packets that were changed
        first = [] if not citations or isinstance(ours, str) else [(i, c) for i, c in ours if i == "e1"]
        for wrong, expected in (
            ({"answer": "It is so.", "citations": []}, [(None, "citations")]), ({"answer": 1, "citations": []}, [(None, "shape")]),
            ({"answer": "", "citations": {}}, [(None, "shape")]), ({"answer": "", "citations": [], "more": 1}, [(None, "shape")]), ("", [(None, "shape")]),
            ({"answer": "x", "citations": [{"id": "e1"}, {"id": "e1"}]}, [*first, ("e1", "duplicate")] if citations else None),
            ({"answer": "x", "citations": [{"id": "e99"}]}, [("e99", "unknown")]), ({"answer": "x", "citations": [{"id": 1}]}, [(None, "shape")]),
            ({"answer": "x", "citations": ["e1"]}, [(None, "shape")]), ({"answer": "x", "citations": [{"id": "e1", "why": ""}]}, [(None, "shape")]),
            ({"answer": "x", "citations": [{"id": "e1", "quote": 1}]}, [(None, "shape")]), ({"answer": "x", "citations": [{"id": "e1"}] * 101}, [(None, "shape")]),
            ({"answer": "x", "citations": [{"id": "e1", "quote": ABSENT}]}, (first or [("e1", "quote")]) if citations else None),
        ):  # fmt: skip
            if expected is not None:
                check_reply(twin, reader, packet, wrong, ours if isinstance(ours, str) else expected, tally)
        excerpts = packet["excerpts"]
        for changed in ({"question": "another"}, {"excerpts": {}}, {"excerpts": ["e1"]}, {"seal": None}, {"as_of": "2020-01-01T00:00:00Z"},
                        {"excerpts": [excerpts[0] | {"text": "It is not so."}, *excerpts[1:]]} if excerpts else {"excerpts": [{}]}):  # fmt: skip
            check_reply(twin, reader, packet | changed, {"answer": "", "citations": []}, "RG501", tally)
        check_reply(twin, reader, [packet], {"answer": "", "citations": []}, "RG501", tally)


def check_reply(twin: Twin, reader: str, packet: Any, reply: Any, ours: Any, tally: Tally) -> None:
    """The findings, or the SQLSTATE, of one reply."""
    token = twin.hands.database.token(twin.model.name, reader)
    try:
        verdict = twin.hands.roles["reader"].execute("select pgrag.validate_reply(%s, %s, %s)", (json.dumps(packet), json.dumps(reply), token)).fetchone()[0]
        theirs: Any = [(finding["id"], finding["check"]) for finding in verdict["findings"]]
    except psycopg.Error as error:
        theirs = error.sqlstate
    tally.counts["replies"] += 1
    if theirs != ours:
        tally.failures.append(f"{twin.model.name}, {reader}, validate_reply of {json.dumps(reply)[:100]}: {theirs}, the model says {ours}")


def routed(database: Database, seed: int) -> AbstractContextManager[None]:
    """Every third seed by the indexes for large scopes, which have to find the same, and every third with blocks, which hold so few that they do."""
    return (nullcontext(), scope_limit(database, 3), small_blocks(database))[seed % 3]


@contextmanager
def opened(lab: Lab, *changes: tuple[str, str, str]) -> Iterator[Batch]:
    """Each batch in a database of its own. ``changes`` take guards out: function, text, replacement."""

    def batch(seed: int) -> Tally:
        with lab.database() as database, routed(database, seed), all_patched(database, *changes):
            return compared(database, seed, stop=bool(changes))

    yield batch


def compared(database: Database, seed: int, count: int = WORLDS, *, stop: bool = False, changes: int = 3) -> Tally:
    """A batch of worlds in this database; to the first that differs, if that is all that one wants to know."""
    tally, dice, twins = Tally(), random.Random(seed), []
    with closing(Hands(database)) as hands:
        for number in range(count):
            name = f"w{seed}-{number}"
            try:
                twins.append(twin := worlds.random_world(hands, name, dice))
                if seed % 3 == 2:
                    hands.maintain()
                issued = judge(twin, dice, tally)
                for _ in range(dice.randint(changes - 1, changes + 1)):  # and again, on connections that have answered, after something changed
                    worlds.change(twin, dice)
                    if stop and not tally.failures:
                        judge_views(twin, tally)
                if seed % 3 == 2 and dice.random() < 0.5:  # otherwise what changed is loose
                    hands.maintain()
                judge_replies(twin, issued, tally)
                judge(twin, dice, tally)
            except AssertionError as error:
                tally.failures.append(f"{name}: {error}")
            tally.draws += 1
            tally.counts["worlds of partial visibility with more matches than k"] += twin.partial
            if tally.failures and stop:
                return tally
        for twin in twins:  # what was done to the others changed nothing here
            judge_views(twin, tally)
    return tally


def judge_views(twin: Twin, tally: Tally) -> None:
    """What each reader may browse."""
    for reader in (name for name, kind in twin.model.principals.items() if kind == "user"):
        with twin.hands.on("browser", twin.model.name, reader) as connection:
            theirs = set(connection.execute("select chunk_id, revision from pgrag.chunks").fetchall())
        ours = {(p.chunk.chunk_id, p.revision.name) for p in twin.model.visible(reader, NOW)}
        tally.cases += 1
        tally.counts["of them by chunks"] += 1
        if theirs != ours:
            tally.failures.append(f"{twin.model.name}, {reader}, pgrag.chunks after the other worlds: {sorted(ours ^ theirs)}")


PROOF = Proof(
    name="reference model",
    contracts=("A3", "A4", "A5", "A6", "A8", "B2", "B5", "B7", "F1", "F3", "F5", "G2", "G3", "H3"),
    unit="result sets",
    target=1_130_000,  # in more than 10,000 worlds
    claim="Every reader is given what the model gives, row for row, in the same order, with the same scores, in the same packet, and nothing else.",
    opened=opened,
    draw="worlds",
    controls={
        "deleted documents stay visible": Control(lambda lab: opened(lab, ("visible_revisions", " and d.deleted_at is null", "")), "pgrag.chunks|is not visible|chunks: "),
        "dropped groups still count": Control(lambda lab: opened(lab, ("closure", " AND (g.dropped_at IS NULL)", "")), "pgrag.chunks|is not visible|chunks: "),
        "a rollback withdraws nothing": Control(lambda lab: opened(lab, ("standing_revisions", "(b.action = 'rollback'::text)", "false")), "as_of|as of 20|rollback"),
        "k1 is 1.3": Control(lambda lab: opened(lab, ("lexical_lane", "2.2::float8 *", "2.3::float8 *")), r"the model says \d\.\d"),
    },
)
