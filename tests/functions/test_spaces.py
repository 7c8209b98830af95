"""A change of encoder: a space built beside the active one, filled bit by bit, switched and switched back, given up; and half precision."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, add, call, documents, one, refused
from tests.functions.patched import patched
from tests.functions.test_blocks import agree, blocks_pay, dense, filled, found, maintain
from tests.support import Database

Vector = list[float]
ASKED = {"embedding": [1, 0.4, 0.2], "threshold": 0}


def operate(world: World, function: str, *positional: Any, **named: Any) -> Any:
    with world.role("operator") as operator:
        return call(operator, function, world.tenant, *positional, **named)


def build(world: World, space: str = "new", dimension: int = 3, **more: Any) -> None:
    operate(world, "put_space", space, f"model-{space}", "1", dimension, **{"normalisation": "none", **more})
    operate(world, "build_space", space)


def status(world: World) -> dict[str, tuple[Any, ...]]:
    """State, documents, chunks and what is missing, of each space."""
    return {space: tuple(rest) for space, *rest in operate(world, "space_status")}


def encode(space: str, document: str, number: int, dimension: int = 3) -> Vector:
    dice = random.Random(f"{space} {document} {number}")
    return [dice.random() + 0.01 for _ in range(dimension)]


def send(writer: psycopg.Connection[Any], document: str, revision: str, space: str, first: int, vectors: Sequence[Vector]) -> tuple[bool, int]:
    (answer,) = call(writer, "add_embeddings", document, revision, space, first, embeddings=[json.dumps(v) for v in vectors])
    return answer


def fill(world: World, space: str = "new", *, source: str = "handbook", limit: int = 256, most: int = 1000, retained: bool = False,
         encoder: Callable[[str, int], Vector] | None = None) -> list[tuple[str, int]]:  # fmt: skip
    """What a worker does: the next batch, encoded and sent, each in a transaction of its own, until there is none."""
    sent: list[tuple[str, int]] = []
    encoder = encoder or (lambda document, number: encode(space, document, number))
    for _ in range(most):
        with world.writer(source) as writer:
            batch = call(writer, "missing_embeddings", space, limit, retained)
            for document, revision, number, *_ in batch:
                send(writer, document, revision, space, number, [encoder(document, number)])
                sent.append((document, number))
        if not batch:
            break
    return sent


def kept(world: World, space: str) -> int:
    with world.database.superuser() as superuser:
        return superuser.execute("select count(*) from pgrag_data.chunk_vec v join pgrag_data.embedding_space s using (tenant_id, space_id)"
                                 " join pgrag_data.tenant t using (tenant_id) where (tenant, space) = (%s, %s)", (world.tenant, space)).fetchone()[0]  # fmt: skip


@contextmanager
def session(world: World, role: str, isolation: str = "read committed") -> Iterator[psycopg.Connection[Any]]:
    """A transaction that is open for longer, and waits for a lock for half a second."""
    with psycopg.connect(world.database.dsn(f"app_{role}", options="-c lock_timeout=500")) as connection:
        connection.execute(f"set transaction isolation level {isolation}")
        if role != "operator":
            kind, source = ("writer", "handbook") if role == "writer" else ("reader", None)
            token = world.database.token(world.tenant, "connector" if role == "writer" else "alice", kind, source=source)
            connection.execute("select pgrag.authenticate(%s)", (token,))
        yield connection


# ---- the way of a space ----------------------------------------------------------------------------------------


@pytest.mark.contract("E2")
def test_a_space_is_built_beside_filled_switched_and_back(world: World) -> None:
    texts = ["Refund one. ", "Refund two. ", "Refund three. "]
    for name in ("a", "b", "c"):
        world.put(name, texts, vectors=[encode("toy", name, n) for n in (1, 2, 3)], revision="v1")
    world.put("plain", "Refund in words alone.")  # never had an embedding, and wants none
    world.put("w", texts, vectors=[encode("toy", "w", n) for n in (1, 2, 3)], revision="v1", source="wiki")
    world.put("hidden", texts, vectors=[encode("toy", "h", n) for n in (1, 2, 3)], readers=["bob"])
    world.put("gone", texts, vectors=[encode("toy", "gone", n) for n in (1, 2, 3)], revision="v1")
    with world.writer() as writer:
        call(writer, "delete_document", "gone")
    old = {"space": "toy", **ASKED}
    new = {"space": "new", **ASKED}
    before = world.search("refund", "dense", **old)
    with world.reader() as reader:
        assert call(reader, "next_space") == []
    build(world)
    assert operate(world, "build_space", "new") == [(False,)]  # again
    with world.reader() as reader, world.writer() as writer:
        assert call(reader, "next_space") == call(writer, "next_space")
        assert call(reader, "next_space")[0][:4] == ("new", "model-new", "1", 3)
        assert call(reader, "active_space")[0][0] == "toy"
    assert status(world) == {"toy": ("active", 5, 15, 0), "new": ("next", 0, 0, 5)}

    # It is asked before it is switched to, and what is not there yet is not found; the active one answers as before.
    assert world.search("refund", "dense", **new)["reason"] == "nothing_matches"
    assert len(fill(world, limit=2, most=3)) == 6
    half_way = world.search("refund", "dense", **new)
    assert set(documents(half_way)) == {"a", "b"} and len(half_way["hits"]) == 6 and half_way["policy"]["space"] == "new"
    assert found(world.search("refund", "dense", **old)) == found(before)
    with world.role("operator") as operator, refused(operator, "RG416", "documents: 3"):
        call(operator, "switch_space", world.tenant, "new")
    # What is written meanwhile is in both.
    world.put("d", texts, vectors=[encode("toy", "d", n) for n in (1, 2, 3)], revision="v1", activate=False)
    with world.writer() as writer:
        assert send(writer, "d", "v1", "new", 1, [encode("new", "d", n) for n in (1, 2, 3)]) == (True, 0)
        call(writer, "activate", "d", "v1")
    assert {name for name, _ in fill(world)} == {"c", "hidden"}
    assert status(world)["new"] == ("next", 5, 15, 1)  # the other source's
    assert {name for name, _ in fill(world, source="wiki")} == {"w"}
    assert status(world) == {"toy": ("active", 6, 18, 0), "new": ("next", 6, 18, 0)}

    # One row changes: whoever has a snapshot keeps to it.
    with session(world, "reader", "repeatable read") as slow:
        first = found(world.database.search(slow, "refund", "dense", **old))
        assert operate(world, "switch_space", "new") == [(True,)]
        assert operate(world, "switch_space", "new") == [(False,)]
        assert found(world.database.search(slow, "refund", "dense", **old)) == first
        assert call(slow, "active_space")[0][0] == "toy"
        with world.reader() as reader:
            assert (call(reader, "active_space")[0][0], call(reader, "next_space")[0][0]) == ("new", "toy")
    after = world.search("refund", "dense", **new)
    assert set(documents(after)) == {"a", "b", "c", "d", "w"}  # not hidden, not gone
    assert after["scope"] == world.search("refund", "dense", **old)["scope"]
    assert found(world.search("refund", "dense", k=20, **new)) != found(world.search("refund", "dense", k=20, **old))  # control: they differ
    packet = world.packet("refund", "hybrid", **new)
    assert world.validate(packet, {"answer": "x", "citations": [{"id": "e1", "quote": "Refund"}]})["valid"]

    # Back, and for good.
    assert operate(world, "switch_space", "toy") == [(True,)]
    assert set(documents(world.search("refund", "dense", **old))) == {"a", "b", "c", "d", "w"}
    assert operate(world, "switch_space", "new") == [(True,)]
    with world.role("operator") as operator, refused(operator, "RG416", "active"):
        call(operator, "retire_space", world.tenant, "new")
    assert operate(world, "retire_space", "toy") == [(True,)]
    assert operate(world, "retire_space", "toy") == [(False,)]
    with world.reader() as reader:
        assert call(reader, "next_space") == []
        with refused(reader, "RG305"):
            world.database.search(reader, "refund", "dense", **old)
    with world.role("operator") as operator:
        for function in ("switch_space", "build_space"):
            with refused(operator, "RG416"):
                call(operator, function, world.tenant, "toy")
        with refused(operator, "RG407"):
            call(operator, "put_space", world.tenant, "toy", "another", "1", 3, normalisation="none")
    assert status(world)["toy"][0] == "retired" and status(world)["toy"][3] is None
    packet = world.packet("refund", "hybrid", **new)
    assert world.validate(packet, {"answer": "x", "citations": [{"id": "e1", "quote": "Refund"}]})["valid"]
    # What was deleted comes back with embeddings of today's space only.
    with world.writer() as writer:
        with refused(writer, "RG416"):
            call(writer, "activate", "gone", "v1", restore=True)
        send(writer, "gone", "v1", "new", 1, [encode("new", "gone", n) for n in (1, 2, 3)])
        call(writer, "activate", "gone", "v1", restore=True)
    assert "gone" in documents(world.search("refund", "dense", k=20, **new))


@pytest.mark.contract("E2", "B9")
def test_a_batch_is_taken_whole_once_or_not_at_all(world: World) -> None:
    world.put("d", [f"Part {n}. " for n in range(1, 5)], vectors=[encode("toy", "d", n) for n in range(1, 5)], revision="v1")
    build(world)
    right = [encode("new", "d", n) for n in range(1, 5)]
    with session(world, "writer") as one_, session(world, "writer") as other:  # two workers, each with batches of its own
        assert send(one_, "d", "v1", "new", 1, right[:1]) == (False, 3)
        one_.commit()
        assert send(other, "d", "v1", "new", 3, right[2:3]) == (False, 2)
    with world.writer() as writer:
        assert send(writer, "d", "v1", "new", 1, right[:1]) == (False, 2)  # the same again
        assert [row[2] for row in call(writer, "missing_embeddings", "new")] == [2, 4]
        (row,) = call(writer, "missing_embeddings", "new", 1)
        assert row == ("d", "v1", 2, "", "", "en", "Part 2. ")
    count = kept(world, "new")
    batch = "select * from pgrag.add_embeddings('d', 'v1', 'new', {}, '{}'::public.vector[])"
    with world.writer() as writer:
        for code, first, array in [
            ("RG403", 1, '{"[9,9,9]"}'),  # another vector
            ("RG403", 1, '{"[9,9,9]","[1,0,0]"}'),  # and with it a new one
            ("RG305", 2, '{"[1,2]"}'),
            ("RG305", 2, '{"[0,0,0]"}'),
            ("RG305", 2, '{"[1e16,0,0]"}'),
            ("RG408", 4, '{"[1,0,0]","[1,0,0]"}'),  # more than there are chunks
            ("RG408", 0, '{"[1,0,0]"}'),
            ("RG408", 2147483647, '{"[1,0,0]"}'),
            ("RG408", 2, "{}"),
            ("RG408", 2, "{null}"),
            ("RG408", 2, '{"[1,0,0]",null}'),
            ("RG408", 2, '{{"[1,0,0]"},{"[1,0,0]"}}'),
        ]:
            with refused(writer, code):
                writer.execute(batch.format(first, array))
        with refused(writer, "RG408"):
            call(writer, "add_embeddings", "d", "v1", "new", 2, embeddings=None)
        with refused(writer, "RG416"):
            operate(world, "put_space", "aside", "m", "1", 3)
            send(writer, "d", "v1", "aside", 1, right)
        for document, revision, space in [("none", "v1", "new"), ("d", "none", "new"), ("d", "v1", "none")]:
            with refused(writer, "RG401"):
                send(writer, document, revision, space, 1, right)
        for limit in (0, 2001, None):
            with refused(writer, "RG408"):
                call(writer, "missing_embeddings", "new", limit)
        call(writer, "stage_revision", "d", "another body", revision="v2", space="toy")
        with refused(writer, "RG405"):
            send(writer, "d", "v2", "new", 1, right[:1])
    assert kept(world, "new") == count == 2
    with world.writer() as writer:  # a bound that is not 1 is a list like any other
        assert writer.execute(batch.format(2, f'[5:5]={{"{right[1]}"}}')).fetchone() == (False, 1)
        assert send(writer, "d", "v1", "new", 1, right) == (True, 0)
        assert send(writer, "d", "v1", "new", 1, right) == (True, 0)
        assert call(writer, "missing_embeddings", "new") == []
    # Control: without the comparison another vector is passed over in silence.
    with patched(world.database, "pgrag.add_embeddings", ("is not true)", "is not true and false)")), world.writer() as writer:
        assert send(writer, "d", "v1", "new", 1, [[9, 9, 9]]) == (True, 0)


@pytest.mark.contract("E2")
def test_what_is_retained_is_filled_too_and_its_space_may_be_gone(world: World) -> None:
    """A revision that stood before; its only space is given up, and it is still known that it wants another."""
    for revision in ("v1", "v2"):
        world.put("d", f"Text {revision}.", vectors=[[1, 0, 0]], revision=revision)
    build(world)
    fill(world)
    operate(world, "switch_space", "new")
    with world.writer() as writer:
        assert call(writer, "missing_embeddings", "new") == []
        assert [row[1] for row in call(writer, "missing_embeddings", "new", 10, True)] == ["v1"]
    operate(world, "retire_space", "toy")
    maintain(world)
    with world.writer() as writer:
        assert [row[1] for row in call(writer, "missing_embeddings", "new", 10, True)] == ["v1"]
        # A rollback to it is refused, or it is missing from then on, in so many words, and found as soon as it has them.
        try:
            with writer.transaction():
                call(writer, "rollback", "d")
        except psycopg.Error as error:
            assert error.sqlstate == "RG416"
        else:
            assert [row[1] for row in call(writer, "missing_embeddings", "new")] == ["v1"]
    active = status(world)["new"]
    assert active[1] + active[3] == 1
    fill(world, retained=True)
    with world.writer() as writer:
        call(writer, "activate", "d", "v1")
    assert [hit["text"] for hit in world.search("text", "dense", space="new", **ASKED)["hits"]] == ["Text v1."]


@pytest.mark.contract("E2")
def test_a_retired_space_is_purged_in_steps(world: World) -> None:
    texts = [f"Part {n}. " for n in range(12)]
    world.put("d", texts, vectors=[encode("toy", "d", n) for n in range(12)])
    build(world)
    fill(world)
    with world.writer() as writer:
        call(writer, "stage_revision", "late", "Text.", revision="v1", space="toy")
        call(writer, "set_access", "late", ["everyone"])
    operate(world, "switch_space", "new")
    operate(world, "retire_space", "toy")
    answer = found(world.search("part", "dense", space="new", **ASKED))
    with patched(world.database, "purge_retired_spaces", ("20000", "5")):
        steps = []
        while "idle" not in steps:
            steps += maintain(world, 1)
            assert found(world.search("part", "dense", space="new", **ASKED)) == answer
        assert steps.count("purge") == 3 and kept(world, "toy") == 0 and kept(world, "new") == 12
    # A writer that was late leaves what the next step takes.
    with world.writer() as writer:
        add(writer, "late", "v1", ["Text."], vectors=[[1, 0, 0]])
    assert kept(world, "toy") == 1
    assert "purge" in maintain(world) and kept(world, "toy") == 0
    with world.writer() as writer:
        assert "embedding count" in call(writer, "verify_revision", "late", "v1", 1)[0][2][0]
        add(writer, "late", "v1", ["Text."], vectors=[[1, 0, 0]])
        assert call(writer, "verify_revision", "late", "v1", 1)[0][0] == "verified"
        with refused(writer, "RG416"):
            call(writer, "activate", "late", "v1")
        assert send(writer, "late", "v1", "new", 1, [[1, 0, 0]]) == (True, 0)
        assert call(writer, "activate", "late", "v1") == [(True,)]
    assert "purge" in maintain(world)
    assert "late" in documents(world.search("text", "dense", k=20, space="new", **ASKED))


@pytest.mark.contract("E2")
def test_two_purge_at_once_and_neither_waits(world: World) -> None:
    world.put("d", [f"Part {n}. " for n in range(8)], vectors=[encode("toy", "d", n) for n in range(8)])
    build(world)
    fill(world)
    operate(world, "switch_space", "new")
    operate(world, "retire_space", "toy")
    with patched(world.database, "purge_retired_spaces", ("20000", "5")), session(world, "operator") as first, session(world, "operator") as second:
        assert call(first, "maintain")[0][0] == "purge"
        call(second, "maintain")
        first.commit()
    maintain(world)
    assert kept(world, "toy") == 0 and kept(world, "new") == 8


# ---- races -----------------------------------------------------------------------------------------------------


def twice(world: World) -> None:
    """A document in force, and a revision of it that is verified, with embeddings in the old space only."""
    world.put("d", "Text one.", vectors=[[1, 0, 0]], revision="v1")
    world.put("d", "Text two.", vectors=[[0, 1, 0]], revision="v2", activate=False)


def attempt(*steps: Callable[[], Any]) -> list[str]:
    """Each step, one after the other; what it was refused for, of what a caller may be told to do again."""
    refusals = []
    for step in steps:
        try:
            step()
        except psycopg.Error as error:
            assert error.sqlstate in {"RG416", "55P03", "40001", "25P02"}, error
            refusals.append(error.sqlstate)
    return refusals


def activation_first(world: World) -> list[str]:
    build(world)
    fill(world)
    with session(world, "writer") as writer:
        call(writer, "activate", "d", "v2")
        refusals = attempt(lambda: operate_soon(world, "switch_space", "new"), writer.commit)
    return refusals + attempt(lambda: operate_soon(world, "switch_space", "new"))


def switch_first(world: World) -> list[str]:
    build(world)
    fill(world)
    with session(world, "operator") as operator, session(world, "writer") as writer:
        call(operator, "switch_space", world.tenant, "new")
        return attempt(lambda: call(writer, "activate", "d", "v2"), operator.commit, writer.commit)


def activation_while_the_build_is_open(world: World) -> list[str]:
    operate(world, "put_space", "new", "m", "1", 3, normalisation="none")
    with session(world, "operator") as operator, session(world, "writer") as writer:
        call(operator, "build_space", world.tenant, "new")
        refusals = attempt(lambda: call(writer, "activate", "d", "v2"), operator.commit)
        fill(world)
        return refusals + attempt(lambda: operate_soon(world, "switch_space", "new"), writer.commit)


def activation_older_than_the_build(world: World) -> list[str]:
    operate(world, "put_space", "new", "m", "1", 3, normalisation="none")
    with session(world, "writer") as writer:
        call(writer, "activate", "d", "v2")
        refusals = attempt(lambda: operate_soon(world, "build_space", "new"))
        attempt(lambda: fill(world))
        return refusals + attempt(lambda: operate_soon(world, "switch_space", "new"), writer.commit)


def activation_of_an_old_snapshot(world: World) -> list[str]:
    with session(world, "writer", "repeatable read") as writer:
        call(writer, "list_documents")
        build(world)
        fill(world)
        refusals = attempt(lambda: operate(world, "switch_space", "new"))
        return refusals + attempt(lambda: call(writer, "activate", "d", "v2"), writer.commit)


def switch_of_an_old_snapshot(world: World) -> list[str]:
    build(world)
    fill(world)
    with session(world, "operator", "repeatable read") as operator:
        call(operator, "space_status", world.tenant)
        with world.writer() as writer:
            call(writer, "activate", "d", "v2")
        return attempt(lambda: call(operator, "switch_space", world.tenant, "new"), operator.commit)


def operate_soon(world: World, function: str, *arguments: Any) -> None:
    with session(world, "operator") as operator:
        call(operator, function, world.tenant, *arguments)


def rollback_first(world: World) -> list[str]:
    with world.writer() as writer:
        call(writer, "activate", "d", "v2")
    build(world)
    fill(world)
    with session(world, "writer") as writer:
        call(writer, "rollback", "d")
        return attempt(lambda: operate_soon(world, "switch_space", "new"), writer.commit)


RACES = [activation_first, switch_first, rollback_first, activation_while_the_build_is_open, activation_older_than_the_build,
         activation_of_an_old_snapshot, switch_of_an_old_snapshot]  # fmt: skip


def lost(world: World) -> int:
    """Documents in force that the active space lacks."""
    return next(missing for state, _, _, missing in status(world).values() if state == "active")


@pytest.mark.contract("E2", "B4")
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
def test_no_activation_commits_behind_a_switch(world: World, race: Callable[[World], list[str]]) -> None:
    twice(world)
    refusals = race(world)
    assert refusals and lost(world) == 0
    # And it goes on: with embeddings in both, it is switched to.
    with world.writer() as writer:
        send(writer, "d", "v2", "toy", 1, [[0, 1, 0]])
    operate(world, "build_space", "new")
    fill(world, retained=True)
    operate(world, "switch_space", "new")
    with world.writer() as writer:
        call(writer, "activate", "d", "v2")
    assert lost(world) == 0
    assert found(world.search("text", "dense", space="new", **ASKED)) == [("d", "Text two.")]


@pytest.mark.contract("E2", "B4")
@pytest.mark.parametrize("race", [race for race in RACES if race not in (rollback_first, activation_older_than_the_build, switch_of_an_old_snapshot)], ids=lambda race: race.__name__)
def test_no_activation_commits_behind_a_switch_control(world: World, race: Callable[[World], list[str]]) -> None:
    twice(world)
    with patched(world.database, "pgrag.activate", (" for share", "")):
        race(world)
    assert lost(world) == 1


@pytest.mark.contract("E2")
def test_an_activation_waits_for_a_switch_and_is_then_refused(world: World) -> None:
    """With no bound on the wait: the later of the two knows of the earlier."""
    twice(world)
    build(world)
    fill(world)
    with session(world, "operator") as operator, session(world, "writer") as writer, ThreadPoolExecutor(1) as pool:
        writer.execute("set local lock_timeout = 0")
        call(operator, "switch_space", world.tenant, "new")
        activation = pool.submit(call, writer, "activate", "d", "v2")
        with world.database.superuser() as superuser:
            for _ in range(200):
                if superuser.execute("select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", (writer.info.backend_pid,)).fetchone():
                    break
                time.sleep(0.02)
            else:
                pytest.fail("it does not wait")
        operator.commit()
        with pytest.raises(psycopg.Error) as caught:
            activation.result(30)
        assert caught.value.sqlstate == "RG416"


@pytest.mark.contract("E2")
def test_a_space_that_is_being_retired_is_not_built(world: World) -> None:
    twice(world)
    operate(world, "put_space", "new", "m", "1", 3, normalisation="none")
    with session(world, "operator") as first, session(world, "operator") as second, ThreadPoolExecutor(1) as pool:
        second.execute("set local lock_timeout = 0")
        call(first, "retire_space", world.tenant, "new")
        building = pool.submit(call, second, "build_space", world.tenant, "new")
        time.sleep(0.5)
        first.commit()
        with pytest.raises(psycopg.Error) as caught:
            building.result(30)
        assert caught.value.sqlstate == "RG416"
    assert status(world)["new"][0] == "retired"
    with world.reader() as reader:
        assert call(reader, "next_space") == []


@pytest.mark.contract("E2")
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_two_workers_that_finish_a_revision_together_complete_it(world: World, isolation: str) -> None:
    """One of them may be told to do it again; a revision that has everything and is not complete would block the switch for good."""
    world.put("d", ["One. ", "Two. "], vectors=[[1, 0, 0], [0, 1, 0]], revision="v1")
    build(world)
    with session(world, "writer", isolation) as first, session(world, "writer", isolation) as second, ThreadPoolExecutor(1) as pool:
        for writer in (first, second):
            writer.execute("set local lock_timeout = 0")
            assert len(call(writer, "missing_embeddings", "new")) == 2
        send(first, "d", "v1", "new", 1, [[1, 0, 0]])
        late = pool.submit(send, second, "d", "v1", "new", 2, [[1, 0, 0]])
        time.sleep(0.3)
        first.commit()
        try:
            late.result(30)
            second.commit()
        except psycopg.Error as error:
            assert error.sqlstate == "40001"
            second.rollback()
    fill(world, encoder=lambda *_: [1, 0, 0])
    assert status(world)["new"][3] == 0
    assert operate(world, "switch_space", "new") == [(True,)]


# ---- blocks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def blocks(database: Database) -> Iterator[World]:
    with blocks_pay(database):
        world = World(database, f"spaces{time.monotonic_ns()}")
        filled(world, random.Random(1), 60)
        yield world


def live(world: World) -> dict[str, int]:
    """How many blocks serve each space."""
    with world.database.superuser() as superuser:
        return dict(superuser.execute("select space, count(*) from pgrag_data.dense_block join pgrag_data.embedding_space using (tenant_id, space_id)"
                                      " where state = 'live' group by 1").fetchall())  # fmt: skip


@pytest.mark.contract("E2", "F2")
def test_blocks_of_the_next_space_wait_until_it_has_everything(blocks: World) -> None:
    build(blocks)
    fill(blocks, limit=100, most=1)
    maintain(blocks)
    assert set(live(blocks)) == {"toy"}
    fill(blocks)
    maintain(blocks)
    assert set(live(blocks)) == {"toy", "new"}
    assert dense(blocks, space="new")["policy"]["dense_blocks"] and agree(blocks, space="new") >= 0.97
    # A switch builds nothing and drops nothing, back and forth.
    for space in ("new", "toy", "new"):
        operate(blocks, "switch_space", space)
        assert maintain(blocks) == ["idle"] and set(live(blocks)) == {"toy", "new"}
        for each in ("toy", "new"):
            assert dense(blocks, space=each)["policy"]["dense_blocks"] and agree(blocks, space=each) >= 0.97
    operate(blocks, "retire_space", "toy")
    assert {"purge", "retire", "drop"} <= set(maintain(blocks)) and set(live(blocks)) == {"new"}
    with blocks.database.superuser() as superuser:
        tables = {name for (name,) in superuser.execute("select relname from pg_class where relnamespace = 'pgrag_block'::regnamespace and relkind = 'r'")}
        assert {f"b{block}" for (block,) in superuser.execute("select block_id from pgrag_data.dense_block")} == tables
    assert agree(blocks, space="new") >= 0.97


@pytest.mark.contract("E2", "F2")
def test_one_document_that_is_late_costs_the_next_space_no_block(blocks: World) -> None:
    """It is compared until then: its change is later than the blocks."""
    build(blocks)
    fill(blocks)
    maintain(blocks)
    before = live(blocks)
    blocks.put("late", "A late part.", vectors=[[1, 0, 0]], revision="v1")
    assert "retire" not in maintain(blocks) and live(blocks) == before
    fill(blocks, encoder=lambda *_: [-1, 0, 0])
    answer = dense(blocks, space="new", embedding=[-1, 0, 0], k=1)
    assert documents(answer) == ["late"] and answer["policy"]["dense_blocks"]


@pytest.mark.contract("E2", "F2")
def test_blocks_of_the_next_space_control(blocks: World) -> None:
    """Built too early, they lack what comes later, and nothing says so."""
    build(blocks)
    fill(blocks, limit=150, most=1)
    with patched(blocks.database, "missing_in_space", ("count(*)", "0 * count(*)")):
        maintain(blocks)
    assert set(live(blocks)) == {"toy", "new"}
    with patched(blocks.database, "pgrag.add_embeddings", ("or exists (select from pgrag_data.dense_block b", "or false and exists (select from pgrag_data.dense_block b")):
        fill(blocks)
    assert dense(blocks, space="new")["policy"]["dense_blocks"]
    strict, auto = (set(found(dense(blocks, space="new", isolation=isolation))) for isolation in ("strict", "auto"))
    assert len(strict & auto) < 0.9 * len(strict)


@pytest.mark.contract("E2", "F2")
@pytest.mark.parametrize("space", ["toy", "new"])
def test_first_embeddings_are_found_though_there_are_blocks(blocks: World, space: str) -> None:
    """A document in force gets its first embeddings, in the active space or the one beside it."""
    blocks.put("lexical", "A lexical part.", revision="v1")
    build(blocks)
    fill(blocks)
    maintain(blocks)
    assert set(live(blocks)) == {"toy", "new"}
    request = {"space": space, "embedding": [-1, 0, 0], "k": 1}
    near: Vector = [-1, 0, 0]
    with blocks.writer() as writer:
        assert send(writer, "lexical", "v1", space, 1, [near]) == (True, 0)
    for isolation in ("strict", "auto"):
        answer = dense(blocks, isolation=isolation, **request)
        assert documents(answer) == ["lexical"] and ("dense_blocks" in answer["policy"]) == (isolation == "auto")
    if space == "new":
        operate(blocks, "switch_space", "new")
        maintain(blocks)
        assert documents(dense(blocks, **request)) == ["lexical"]


@pytest.mark.contract("E2", "F2")
def test_first_embeddings_control(blocks: World) -> None:
    blocks.put("lexical", "A lexical part.", revision="v1")
    maintain(blocks)
    with patched(blocks.database, "pgrag.add_embeddings", ("set changed_xid = pg_current_xact_id()", "set changed_xid = d.changed_xid")), blocks.writer() as writer:
        assert send(writer, "lexical", "v1", "toy", 1, [[-1, 0, 0]]) == (True, 0)
    answers = {isolation: documents(dense(blocks, isolation=isolation, embedding=[-1, 0, 0], k=1)) for isolation in ("strict", "auto")}
    assert answers["strict"] == ["lexical"] != answers["auto"]


# ---- half precision --------------------------------------------------------------------------------------------


def direction(dice: random.Random, dimension: int, length: float = 1.0) -> Vector:
    made = [dice.gauss(0, 1) for _ in range(dimension)]
    norm = math.hypot(*made)
    return [length * x / norm for x in made]


def share(first: dict[str, Any], second: dict[str, Any]) -> float:
    one_, other = (dict(zip(found(answer), [hit["dense_score"] for hit in answer["hits"]], strict=True)) for answer in (first, second))
    assert all(abs(one_[hit] - other[hit]) < 0.002 for hit in one_.keys() & other.keys())
    return len(one_.keys() & other.keys()) / len(one_)


@pytest.mark.contract("E4")
@pytest.mark.parametrize("normalisation, length", [("unit", 1.0), ("none", 1e6), ("none", 1e-6)])
def test_half_precision_finds_as_float_does(database: Database, normalisation: str, length: float) -> None:
    """The same vectors in a float space and in a half space beside it; exact and by blocks."""
    dice, dimension = random.Random(7), 48
    with blocks_pay(database):
        world = World(database, f"half{time.monotonic_ns()}", space=None)
        operate(world, "put_space", "float", "m", "1", dimension, normalisation=normalisation)
        vectors = {(f"d{n}", m): direction(dice, dimension, length) for n in range(60) for m in range(1, 6)}
        for n in range(60):
            texts = [f"d{n} part {m}. " for m in range(1, 6)]
            world.put(f"d{n}", texts, vectors=[vectors[f"d{n}", m] for m in range(1, 6)], space="float", revision="v1", readers=[["everyone"], ["bob"]][n % 3 == 0])
        build(world, "half", dimension, normalisation=normalisation, storage="half")
        fill(world, "half", limit=2000, encoder=lambda document, number: vectors[document, number])
        assert fill(world, "half") == []
        with world.writer() as writer:  # the same again, rounded as before
            assert send(writer, "d0", "v1", "half", 1, [vectors["d0", 1]]) == (True, 0)
            with refused(writer, "RG403"):
                send(writer, "d0", "v1", "half", 1, [vectors["d0", 2]])
        questions = [direction(dice, dimension, 3.0) for _ in range(20)]

        def shares(**request: Any) -> float:
            return sum(share(*(dense(world, space=space, embedding=q, k=10, **request) for space in ("float", "half"))) for q in questions) / len(questions)

        assert shares(isolation="strict") >= 0.99
        maintain(world)
        assert set(live(world)) == {"float", "half"} and dense(world, space="half", embedding=questions[0])["policy"]["dense_blocks"]
        assert shares() >= 0.97
        for q in questions[:3]:
            hybrid = [world.search("part", "hybrid", embedding=q, space=space, threshold=0) for space in ("float", "half")]
            assert abs(hybrid[0]["top_relevance"] - hybrid[1]["top_relevance"]) < 0.002
        assert not {name for q in questions for name, _ in found(dense(world, space="half", embedding=q))} & {f"d{n}" for n in range(0, 60, 3)}
        operate(world, "switch_space", "half")
        with world.role("operator") as operator:
            call(operator, "calibrate")
        # Control: coarser numbers are told from these.
        coarser = {key: [round(x / length * 2) * length / 2 + (length / 100 if n == 0 else 0) for n, x in enumerate(vector)] for key, vector in vectors.items()}
        operate(world, "retire_space", "float")
        maintain(world)
        build(world, "coarse", dimension)
        fill(world, "coarse", limit=2000, encoder=lambda document, number: coarser[document, number])
        coarse = [[set(found(dense(world, space=space, embedding=q, k=10, isolation="strict"))) for space in ("half", "coarse")] for q in questions]
        assert sum(len(a & b) for a, b in coarse) / 10 / len(questions) < 0.9


@pytest.mark.contract("E4")
def test_half_precision_without_scaling_control(world: World) -> None:
    """What has any length is scaled before it is rounded: as it is, it would not fit."""
    build(world, "half", normalisation="none", storage="half")
    operate(world, "switch_space", "half")
    world.put("d", "Text.", space="half", vectors=[[3e5, 4e5, 0]])
    assert world.search("text", "dense", space="half", embedding=[3, 4, 0])["hits"][0]["dense_score"] == pytest.approx(1, abs=1e-3)
    with patched(world.database, "half_of", ("l2_normalize(p_embedding)", "p_embedding")), pytest.raises(psycopg.Error, match="half"):
        world.put("e", "Text.", space="half", vectors=[[3e5, 4e5, 0]])


@pytest.mark.contract("E4")
def test_dimensions_that_only_half_precision_has(database: Database) -> None:
    dice = random.Random(3)
    with blocks_pay(database):
        world = World(database, "wide", space=None)
        with world.role("operator") as operator:
            for storage, dimension in (("half", 4001), ("float", 2001), ("half", 0)):
                with refused(operator, "RG407"):
                    call(operator, "put_space", world.tenant, "no", "m", "1", dimension, storage=storage)
            with refused(operator, "RG407"):
                call(operator, "put_space", world.tenant, "no", "m", "1", 3, storage="quarter")
            call(operator, "put_space", world.tenant, "wide", "m", "1", 3000, storage="half")
            call(operator, "put_space", world.tenant, "widest", "m", "1", 4000, storage="half")
        vectors = {}
        for n in range(12):
            vectors[n] = [direction(dice, 3000) for _ in range(5)]
            world.put(f"d{n}", [f"d{n} part {m}. " for m in range(5)], vectors=vectors[n], space="wide", revision="v1")
        for isolation in ("strict", "auto"):
            for n in (0, 11):
                answer = dense(world, isolation=isolation, space="wide", embedding=vectors[n][2], k=1)
                assert found(answer) == [(f"d{n}", f"d{n} part 2. ")] and answer["hits"][0]["dense_score"] == pytest.approx(1, abs=1e-3)
            maintain(world)
        assert dense(world, space="wide", embedding=vectors[0][0])["policy"]["dense_blocks"]
        assert agree(world, space="wide", embedding=direction(dice, 3000), k=10) >= 0.9
        operate(world, "build_space", "widest")
        fill(world, "widest", encoder=lambda document, number: direction(random.Random(f"{document} {number}"), 4000))
        operate(world, "switch_space", "widest")
        maintain(world)
        answer = dense(world, space="widest", embedding=direction(random.Random("d7 3"), 4000), k=1)
        assert found(answer) == [("d7", "d7 part 2. ")] and "dense_blocks" in answer["policy"]
        with world.writer() as writer, refused(writer, "RG305"):
            call(writer, "stage_revision", "x", "Text.", revision="v1", space="wide")
            add(writer, "x", "v1", ["Text."], vectors=[direction(dice, 4001)])


@pytest.mark.contract("E4", "B3")
def test_verification_names_faults_in_half_precision(world: World) -> None:
    for space, normalisation in (("unit", "unit"), ("free", "none")):
        operate(world, "put_space", space, "m", "1", 3, normalisation=normalisation, storage="half")

    def faults(space: str, *vectors: Sequence[float] | None) -> str:
        texts = [f"Part {n}. " for n in range(len(vectors))]
        name = f"{space} {vectors}"
        with world.writer() as writer:
            call(writer, "stage_revision", name, "".join(texts), revision="v1", space=space)
            add(writer, name, "v1", texts, vectors=vectors)
            assert add(writer, name, "v1", texts, vectors=vectors) == 0  # a retry
            with refused(writer, "RG403"):
                add(writer, name, "v1", texts, vectors=[[0.6, 0.1, -0.8], *vectors[1:]])
            ((_, _, said),) = call(writer, "verify_revision", name, "v1", len(texts))
        return "; ".join(said)

    assert faults("unit", [0.6, 0.8, 0]) == faults("free", [600, 800, 0]) == faults("free", [6e-9, 8e-9, 0]) == ""
    assert "embedding dimension" in faults("unit", [0.6, 0.8]) and "embedding dimension" in faults("free", [6, 8])
    assert "zero vectors" in faults("unit", [0, 0, 0]) and "zero vectors" in faults("free", [0, 0, 0])
    assert "not of length 1" in faults("unit", [3, 4, 0])
    assert "not of length 1" in faults("unit", [60000, 0, 0])
    assert "embedding count" in faults("unit", [0.6, 0.8, 0], None)
    with world.writer() as writer:
        for space, vector in (("unit", [70000, 0, 0]), ("unit", [60000, 60000, 0]), ("free", [1e16, 0, 0])):
            call(writer, "stage_revision", f"{space} {vector}", "Text.", revision="v1", space=space)
            with refused(writer, "RG305", "too long for half precision"):
                add(writer, f"{space} {vector}", "v1", ["Text."], vectors=[vector])
        assert one(writer, "add_chunks", f"{space} {vector}", "v1", 1, ["Text."], [0], [5], [1], embeddings=["[3,4,0]"]) == 1


# ---- what else reads embeddings --------------------------------------------------------------------------------


@pytest.mark.contract("E2", "F2", "B7")
def test_probes_and_dates_in_the_next_space(world: World) -> None:
    """Every way to ask takes p_space; a date finds what was in force then, if it has been filled too."""
    world.put("d", "Early text.", vectors=[[1, 0, 0]], revision="v1", effective_from="2001-01-01", effective_to="2010-01-01")
    world.put("d", "Later text.", vectors=[[1, 0, 0]], revision="v2", effective_from="2010-01-01")
    build(world, "new", 2)
    fill(world, "new", encoder=lambda *_: [1, 0])
    then = {"as_of": "2005-01-01T00:00:00Z", "threshold": 0}
    assert documents(world.search("text", "dense", embedding=[1, 0, 0], space="toy", **then)) == ["d"]
    assert world.search("text", "dense", embedding=[1, 0], space="new", **then)["hits"] == []
    fill(world, "new", retained=True, encoder=lambda *_: [1, 0])
    (hit,) = world.search("text", "dense", embedding=[1, 0], space="new", **then)["hits"]
    assert hit["revision"] == "v1"
    probes = {"probes": ["wording"], "probe_embeddings": [[0, 1]], "embedding": [0, -1], "threshold": 0}
    assert world.search("nothing", "dense", space="new", **probes)["hits"][0]["dense_score"] == pytest.approx(0)
    with world.reader() as reader:
        for space, embedding in (("toy", [1, 0]), ("new", [1, 0, 0]), ("none", [1, 0])):
            with refused(reader, "RG305"):
                world.database.search(reader, "text", "dense", embedding=embedding, space=space)
        with refused(reader, "RG305"):  # a probe of the other space
            world.database.search(reader, "text", "dense", space="new", **{**probes, "probe_embeddings": [[0, 1, 0]]})


@pytest.mark.contract("E2")
def test_a_tombstone_and_access_hold_in_both_spaces(world: World) -> None:
    for name in ("a", "b", "c"):
        world.put(name, "Text.", vectors=[[1, 0, 0]], revision="v1")
    build(world)
    fill(world)
    with world.writer() as writer:
        call(writer, "delete_document", "a")
        call(writer, "set_access", "b", ["bob"])
    for space in ("toy", "new"):
        assert documents(world.search("text", "dense", space=space, **ASKED)) == ["c"]
        assert set(documents(world.search("text", "dense", reader="bob", space=space, **ASKED))) == {"b", "c"}
    with world.writer() as writer:  # deleted: nothing to encode, and no way to be missing
        assert call(writer, "missing_embeddings", "new", 10, True) == []
    world.put("a2", "Text.", vectors=[[1, 0, 0]], revision="v1")
    assert status(world)["new"][3] == 1
    with world.writer() as writer:
        call(writer, "delete_document", "a2")
    assert status(world)["new"][3] == 0
