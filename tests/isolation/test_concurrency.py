"""Many at once: a reader sees one revision whole, a switch has one winner, and nobody waits who need not.

PGRAG_FULL=1 makes the storm ten times as long.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support import Database

LONGER = 10 if os.environ.get("PGRAG_FULL") else 1
READS, SWITCHES = 10_000 * LONGER, 500 * LONGER
REVISIONS = {f"v{number}": 2 + number for number in range(1, 5)}  # and how many chunks: no two have as many
Connection = psycopg.Connection[Any]
Read = Callable[[Connection], tuple[str, ...]]

# ---- reads during switches ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def switching(module_database: Database) -> Database:
    """One document with four revisions, whose every chunk names its revision and answers the question."""
    module_database.put_tenant("t")
    module_database.put_principals("t", users=["alice"])
    with module_database.writer("t", "handbook") as writer:
        for revision, chunks in REVISIONS.items():
            texts = [f"Refund rule {number} of edition {revision}. " for number in range(chunks)]
            vectors = [[1, number / 10, 0] for number in range(chunks)]
            module_database.put_document(
                writer, "rules.md", texts, revision=revision, vectors=vectors, activate=revision == "v1"
            )
    return module_database


def outcome(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Revision and text of each passage seen, to the revisions seen, or to what is missing of the one."""
    revisions = sorted({revision for revision, _ in found})
    assert all(f"edition {revision}." in text for revision, text in found)
    if len(revisions) == 1 and len({text for _, text in found}) == len(found) == REVISIONS[revisions[0]]:
        return (revisions[0],)
    return (*revisions, f"{len(found)} passages")


def by_search(database: Database, mode: str) -> Read:
    token = database.token("t", "alice")
    embedding = "" if mode == "lexical" else "p_embedding => '[1, 0, 0]', p_space => 'toy', "
    query = f"select revision, text from pgrag.search('refund rule', 20, '{mode}', {embedding}p_threshold => 0, p_token => %s)"
    return lambda connection: outcome(connection.execute(query, (token,)).fetchall())


def by_packet(database: Database) -> Read:
    token = database.token("t", "alice")
    query = """select e ->> 'revision', e ->> 'text' from jsonb_array_elements(
                 pgrag.packet_json('{"question": "refund rule", "k": 20, "mode": "lexical", "threshold": 0}', %s) -> 'excerpts') e"""
    return lambda connection: outcome(connection.execute(query, (token,)).fetchall())


def by_view(database: Database) -> Read:
    token = database.token("t", "alice")

    def read(connection: Connection) -> tuple[str, ...]:
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (token,))
            return outcome(connection.execute("select revision, text from pgrag.chunks").fetchall())

    return read


def by_two_statements(volatility: str) -> Callable[[Database], Read]:
    """A reader that looks twice: the active revision's first chunk, and a moment later its second."""

    def make(database: Database) -> Read:
        look = ("(select c.text from pgrag_data.document d join pgrag_data.chunk c on c.revision_id = d.active_revision_id "
                "where d.document = 'rules.md' and c.chunk_no = {})")  # fmt: skip
        with database.superuser() as superuser:
            superuser.execute(
                f"create or replace function public.look_twice_{volatility}() returns text[] language plpgsql {volatility} security definer as "
                f"$$ declare v_first text := {look.format(1)}; begin perform pg_sleep(0.001); return array[v_first, {look.format(2)}]; end $$"
            )

        def read(connection: Connection) -> tuple[str, ...]:
            texts = connection.execute(f"select public.look_twice_{volatility}()").fetchone()[0]
            return tuple(sorted({text.split("edition ")[1].rstrip(". ") for text in texts}))

        return read

    return make


def storm(
    database: Database, readers: Sequence[tuple[str, Read]], reads: int, switches: int
) -> list[Counter[tuple[str, ...]]]:
    """Read in as many threads as there are readers while another switches, spread over all of it; what each saw, how often."""
    seen: list[Counter[tuple[str, ...]]] = [Counter() for _ in readers]
    done = threading.Event()
    started = threading.Barrier(len(readers) + 1)

    def total() -> int:
        return sum(counter.total() for counter in seen)

    def keep_reading(role: str, read: Read, counter: Counter[tuple[str, ...]]) -> None:
        with psycopg.connect(database.dsn(f"app_{role}"), autocommit=True) as connection:
            started.wait(30)
            while not done.is_set():
                counter[read(connection)] += 1

    def keep_switching() -> None:
        names = list(REVISIONS)
        token = database.token("t", "connector", "writer", source="handbook")
        with psycopg.connect(database.dsn("app_writer"), autocommit=True) as connection:
            started.wait(30)
            for number in range(1, switches + 1):
                while total() < reads * number / switches and not done.is_set():
                    time.sleep(0.0005)
                with connection.transaction():
                    connection.execute("select pgrag.authenticate(%s)", (token,))
                    connection.execute("select pgrag.activate('rules.md', %s)", (names[number % len(names)],))

    with ThreadPoolExecutor(len(readers) + 1) as pool:
        reading = [
            pool.submit(keep_reading, role, read, counter)
            for (role, read), counter in zip(readers, seen, strict=True)
        ]
        switching = pool.submit(keep_switching)
        try:
            while not switching.done() and not any(future.done() for future in reading):
                time.sleep(0.01)
        finally:
            done.set()
        for future in (*reading, switching):
            future.result(60)
    return seen


@pytest.mark.contract("B4")
def test_a_reader_sees_one_revision_and_all_of_it(switching: Database) -> None:
    readers = [
        ("reader", by_search(switching, "hybrid")),
        ("reader", by_search(switching, "lexical")),
        ("reader", by_packet(switching)),
        ("browser", by_view(switching)),
    ]
    with switching.superuser() as superuser:
        query = "select count(*) from pgrag_data.activation"
        (before,) = superuser.execute(query).fetchone()
        start = time.monotonic()
        seen = storm(switching, readers, READS, SWITCHES)
        (after,) = superuser.execute(query).fetchone()
    print(
        f"{sum(counter.total() for counter in seen)} reads during {after - before} switches in {time.monotonic() - start:.1f} s: {seen}"
    )
    assert sum(counter.total() for counter in seen) >= READS and after - before == SWITCHES
    for counter in seen:
        assert set(counter) == {(revision,) for revision in REVISIONS}  # each seen, whole, and nothing else
        assert counter.total() > READS / 50


@pytest.mark.contract("B4")
def test_a_reader_of_two_statements_is_torn(switching: Database) -> None:
    """Control: the storm does tear what can be torn. The same function, STABLE, reads both with its caller's snapshot."""
    (torn,) = storm(switching, [("reader", by_two_statements("volatile")(switching))], 800, 160)
    (whole,) = storm(switching, [("reader", by_two_statements("stable")(switching))], 800, 160)
    print(
        f"volatile: {sum(n for seen, n in torn.items() if len(seen) > 1)} of {torn.total()} torn; stable: {whole}"
    )
    assert any(len(seen) == 2 for seen in torn)
    assert set(whole) == {(revision,) for revision in REVISIONS}


@pytest.mark.contract("B4")
def test_the_log_of_switches_has_no_gap(database: Database) -> None:
    """Switches of one document queue: each says what it replaced, and that is what the one before put there."""
    put_document(database, revisions=4)

    def switch(number: int) -> None:
        for turn in range(10):
            activate = ("select pgrag.activate('d', %s)", (f"v{(number + turn) % 4}",))
            try:
                with database.writer("t", "handbook") as writer:
                    writer.execute(*(("select pgrag.rollback('d')", ()) if turn % 3 == 2 else activate))
            except psycopg.Error as error:
                if error.sqlstate != "RG405":  # the others have rolled back all that there was
                    raise

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(switch, range(4)))
    with database.superuser() as superuser:
        log = superuser.execute(
            "select revision_id, replaced_revision_id from pgrag_data.activation order by activation_id"
        ).fetchall()
        (active,) = superuser.execute("select active_revision_id from pgrag_data.document").fetchone()
    assert len(log) > 20
    assert [replaced for _, replaced in log] == [None, *(revision for revision, _ in log[:-1])]
    assert active == log[-1][0]


# ---- one winner --------------------------------------------------------------------------------------------


def put_document(database: Database, revisions: int = 2) -> None:
    """Tenant t and its document d with verified revisions v0, v1, …, v0 active."""
    database.put_tenant("t")
    database.put_principals("t", users=["alice", "bob", "carol"])
    with database.writer("t", "handbook") as writer:
        for number in range(revisions):
            database.put_document(
                writer, "d", f"Refund rule {number}.", revision=f"v{number}", activate=number == 0
            )


def at_once(database: Database, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
    """Run each statement as a writer in a connection of its own, all at the same moment; its value or its SQLSTATE."""
    barrier = threading.Barrier(len(statements))

    def run(statement: tuple[str, Sequence[Any]]) -> Any:
        try:
            with database.writer("t", "handbook") as writer:
                barrier.wait(30)
                return writer.execute(*statement).fetchone()[0]
        except psycopg.Error as error:
            return error.sqlstate

    with ThreadPoolExecutor(len(statements)) as pool:
        return list(pool.map(run, statements))


@pytest.mark.contract("B4")
def test_of_those_who_expect_the_same_one_wins(database: Database) -> None:
    put_document(database, revisions=7)
    for _ in range(10):
        with database.writer("t", "handbook") as writer:
            writer.execute("select pgrag.activate('d', 'v0')")
        answers = at_once(
            database, [("select pgrag.activate('d', %s, 'v0')", (f"v{number}",)) for number in range(1, 7)]
        )
        assert Counter(answers) == {True: 1, "RG402": 5}
        with database.superuser() as superuser:
            active = superuser.execute(
                "select revision from pgrag_data.revision join pgrag_data.document on active_revision_id = revision_id"
            ).fetchone()
        assert active == (f"v{1 + answers.index(True)}",)
    # Control: those who expect nothing all have their turn.
    assert (
        at_once(
            database, [("select pgrag.activate('d', %s)", (f"v{number}",)) for number in range(1, 7)]
        ).count(True)
        >= 5
    )


@pytest.mark.contract("A6", "B4")
def test_the_same_new_readers_at_once_are_one_access_list(database: Database) -> None:
    put_document(database)
    with database.writer("t", "handbook") as writer:
        for number in range(6):
            database.put_document(writer, f"d{number}", "Text.")
    groups = [f"team{number}" for number in range(10)]
    database.put_principals("t", groups={group: [] for group in groups})
    count = "select count(*), (select count(*) from pgrag_data.acl_entry) from pgrag_data.acl"
    with database.superuser() as superuser:
        for group in groups:
            lists, entries = superuser.execute(count).fetchone()
            answers = at_once(
                database,
                [
                    ("select pgrag.set_access(%s, %s)", (f"d{number}", ["alice", group]))
                    for number in range(6)
                ],
            )
            assert answers == [True] * 6
            assert superuser.execute(count).fetchone() == (lists + 1, entries + 2)
            assert (
                len(
                    superuser.execute(
                        "select distinct acl_id from pgrag_data.document where document <> 'd'"
                    ).fetchall()
                )
                == 1
            )


@pytest.mark.contract("B9")
def test_the_same_revision_staged_at_once_is_one(database: Database) -> None:
    database.put_tenant("t")
    for number in range(10):
        stage = ("select created from pgrag.stage_revision(%s, 'The same text.')", (f"new{number}",))
        assert Counter(at_once(database, [stage] * 6)) == {True: 1, False: 5}


# ---- who waits for whom ------------------------------------------------------------------------------------


def open_writer(database: Database) -> Connection:
    """A writer in a transaction that the test ends itself."""
    connection = psycopg.connect(database.dsn("app_writer"))
    connection.execute(
        "select pgrag.authenticate(%s)", (database.token("t", "connector", "writer", source="handbook"),)
    )
    return connection


def await_block(database: Database, blocked: Connection, by: Connection) -> None:
    """Until PostgreSQL says that the one waits for the other."""
    with database.superuser() as superuser:
        deadline = time.monotonic() + 10
        while [by.info.backend_pid] != superuser.execute(
            "select pg_blocking_pids(%s)", (blocked.info.backend_pid,)
        ).fetchone()[0]:
            assert time.monotonic() < deadline, "it does not wait"
            time.sleep(0.005)


@pytest.mark.contract("B4")
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_activation_under_way_blocks_no_reader(database: Database, end: str) -> None:
    put_document(database)
    impatient = {"options": "-c statement_timeout=5s -c lock_timeout=200ms"}
    token = database.token("t", "alice")
    search = "select revision from pgrag.search('refund rule', p_mode => 'lexical', p_token => %s)"
    with (
        open_writer(database) as switcher,
        psycopg.connect(database.dsn("app_reader", **impatient), autocommit=True) as reader,
    ):
        assert switcher.execute("select pgrag.activate('d', 'v1', 'v0')").fetchone()[0]
        assert reader.execute(search, (token,)).fetchall() == [("v0",)]
        packet = reader.execute(
            """select pgrag.packet_json('{"question": "refund rule", "mode": "lexical"}', %s)""", (token,)
        ).fetchone()[0]
        assert [excerpt["revision"] for excerpt in packet["excerpts"]] == ["v0"]
        reply = """{"answer": "It is so.", "citations": [{"id": "e1"}]}"""
        valid = reader.execute(
            "select pgrag.validate_reply(%s, %s, %s) -> 'valid'",
            (psycopg.types.json.Jsonb(packet), reply, token),
        ).fetchone()
        assert valid == (True,)
        assert reader.execute("select pgrag.can_read('handbook', 'd', %s)", (token,)).fetchone() == (True,)
        with psycopg.connect(database.dsn("app_browser", **impatient)) as browser:
            browser.execute("select pgrag.authenticate(%s)", (token,))
            assert browser.execute("select revision from pgrag.documents").fetchall() == [("v0",)]
        # Control: the row is locked, and whoever asks for it waits.
        with (
            psycopg.connect(database.dsn(**impatient)) as superuser,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            superuser.execute("select from pgrag_data.document for update")
        getattr(switcher, end)()
        assert reader.execute(search, (token,)).fetchall() == [("v1" if end == "commit" else "v0",)]


CHUNK = "select pgrag.add_chunks('n', 'v', %s, %s, %s, %s, %s)"
VERIFY = "select state, chunks, faults from pgrag.verify_revision('n', 'v', %s)"
TEXTS = ["One. ", "Two. ", "Three."]


def chunk(first: int, last: int) -> tuple[int, list[str], list[int], list[int], list[int]]:
    """Chunks `first` to `last`, counted from 1, of TEXTS as arguments of CHUNK."""
    ends = [sum(map(len, TEXTS[:number])) for number in range(1, len(TEXTS) + 1)]
    chosen = range(first - 1, last)
    return (
        first,
        [TEXTS[n] for n in chosen],
        [ends[n] - len(TEXTS[n]) for n in chosen],
        [ends[n] for n in chosen],
        [1 for _ in chosen],
    )


@pytest.fixture
def staged(database: Database) -> Database:
    """Document n with revision v staged, of three chunks the first two added, and its body as long as they are."""
    database.put_tenant("t")
    with database.writer("t", "handbook") as writer:
        writer.execute("select pgrag.stage_revision('n', %s, p_revision => 'v')", ("".join(TEXTS[:2]),))
        writer.execute(CHUNK, chunk(1, 2))
    return database


def stored(database: Database) -> tuple[str, int, int]:
    with database.superuser() as superuser:
        return superuser.execute(
            "select state, chunk_count, (select count(*)::int from pgrag_data.chunk) from pgrag_data.revision"
        ).fetchone()


@pytest.mark.contract("B1", "B3")
def test_chunks_that_come_during_verification_are_refused(staged: Database) -> None:
    with open_writer(staged) as verifier, open_writer(staged) as adder, ThreadPoolExecutor(1) as pool:
        assert verifier.execute(VERIFY, (2,)).fetchone() == ("verified", 2, [])
        adding = pool.submit(adder.execute, CHUNK, chunk(3, 3))
        await_block(staged, adder, by=verifier)
        verifier.commit()
        with pytest.raises(psycopg.Error) as caught:
            adding.result(10)
        assert caught.value.sqlstate == "RG403"
        adder.rollback()
    assert stored(staged) == ("verified", 2, 2)


@pytest.mark.contract("B3")
def test_verification_waits_for_chunks_on_their_way_and_sees_them(staged: Database) -> None:
    with open_writer(staged) as adder, open_writer(staged) as verifier, ThreadPoolExecutor(1) as pool:
        assert adder.execute(CHUNK, chunk(3, 3)).fetchone() == (1,)
        verifying = pool.submit(lambda: verifier.execute(VERIFY, (2,)).fetchone())
        await_block(staged, verifier, by=adder)
        adder.commit()
        state, chunks, faults = verifying.result(10)
        verifier.commit()
    assert (state, chunks) == ("staged", 3)
    assert any(fault.startswith("chunk count") for fault in faults)
    assert stored(staged) == ("staged", 0, 3)


@pytest.mark.contract("B3")
def test_chunks_that_are_taken_back_do_not_count(staged: Database) -> None:
    with open_writer(staged) as adder, open_writer(staged) as verifier, ThreadPoolExecutor(1) as pool:
        adder.execute(CHUNK, chunk(3, 3))
        verifying = pool.submit(lambda: verifier.execute(VERIFY, (2,)).fetchone())
        await_block(staged, verifier, by=adder)
        adder.rollback()
        assert verifying.result(10) == ("verified", 2, [])
        verifier.commit()
    assert stored(staged) == ("verified", 2, 2)


@pytest.mark.contract("B3", "B9")
def test_two_verifications_and_two_equal_batches_are_one(staged: Database) -> None:
    again = [(CHUNK, chunk(1, 2))] * 4 + [("select state from pgrag.verify_revision('n', 'v', 2)", ())] * 4
    assert at_once(staged, again) == [0] * 4 + ["verified"] * 4
    assert stored(staged) == ("verified", 2, 2)


@pytest.mark.contract("B9")
def test_two_writers_that_each_add_and_verify_do_not_wait_for_each_other(staged: Database) -> None:
    with open_writer(staged) as one, open_writer(staged) as other, ThreadPoolExecutor(1) as pool:
        assert one.execute(CHUNK, chunk(1, 2)).fetchone() == (0,)
        adding = pool.submit(lambda: other.execute(CHUNK, chunk(1, 2)).fetchone())
        await_block(staged, other, by=one)  # with a shared lock it would go on, and verifying would deadlock
        assert one.execute(VERIFY, (2,)).fetchone() == ("verified", 2, [])
        one.commit()
        assert adding.result(10) == (0,)
        assert other.execute(VERIFY, (2,)).fetchone() == ("verified", 2, [])
        other.commit()
    assert stored(staged) == ("verified", 2, 2)


@pytest.mark.contract("B9")
def test_the_same_new_batch_at_once_is_added_once(database: Database) -> None:
    database.put_tenant("t")
    for _ in range(5):
        with database.superuser() as superuser:
            superuser.execute("truncate pgrag_data.document, pgrag_data.revision cascade")
        with database.writer("t", "handbook") as writer:
            writer.execute("select pgrag.stage_revision('n', %s, p_revision => 'v')", ("".join(TEXTS),))
        assert sorted(at_once(database, [(CHUNK, chunk(1, 3))] * 4)) == [0, 0, 0, 3]
        assert stored(database) == ("staged", 0, 3)


@pytest.mark.contract("B1", "B3")
def test_a_verified_revision_has_what_was_verified(database: Database) -> None:
    """Whichever comes first, many times over: never a chunk more than was checked."""
    database.put_tenant("t")
    states = Counter()
    for _ in range(30):
        with database.superuser() as superuser:
            superuser.execute("truncate pgrag_data.document, pgrag_data.revision cascade")
        with database.writer("t", "handbook") as writer:
            writer.execute("select pgrag.stage_revision('n', %s, p_revision => 'v')", ("".join(TEXTS[:2]),))
            writer.execute(CHUNK, chunk(1, 2))
        at_once(
            database, [(CHUNK, chunk(3, 3)), ("select state from pgrag.verify_revision('n', 'v', 2)", ())]
        )
        states[stored(database)] += 1
    print(states)
    assert set(states) <= {("verified", 2, 2), ("staged", 0, 3)}
