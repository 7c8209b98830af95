"""The blocks behind the dense lane: made to pay for forty vectors, in random worlds, against comparing every vector."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import psycopg
import pytest

from tests.functions.helpers import World, call
from tests.functions.patched import patched, scope_limit, small_blocks
from tests.support import Database

EMBEDDING = [1.0, 0.4, 0.2]
READERS = [["everyone"], ["staff"], ["bob"], ["alice", "bob"], ["alice"]]


@contextmanager
def blocks_pay(database: Database) -> Iterator[None]:
    """A block pays from 40 vectors on, every scope is only counted, and a block costs nothing."""
    with ExitStack() as stack:
        stack.enter_context(scope_limit(database))
        stack.enter_context(small_blocks(database, 40))
        yield


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    with database.superuser() as superuser:
        superuser.execute("delete from pgrag_data.scope_total where false")
    with blocks_pay(database):
        yield World(database, f"blocks{time.monotonic_ns()}")


def maintain(world: World, most: int = 1000, keep: str = "0") -> list[str]:
    """The steps that were to be done, each in a transaction of its own."""
    done = []
    for _ in range(most):
        with world.role("operator") as operator:
            ((action, _, _, remaining, _),) = call(operator, "maintain", keep)
        done.append(action)
        if not remaining:
            break
    return done


def put(world: World, dice: random.Random, name: str, readers: list[str], chunks: int = 5) -> None:
    texts = [f"{name} part {n}. " for n in range(chunks)]
    vectors = [[dice.random() + 0.05, dice.random(), dice.random()] for _ in texts]
    world.put(name, texts, vectors=vectors, revision=f"r{dice.random()}", readers=readers)


def filled(world: World, dice: random.Random, documents: int = 120) -> None:
    for n in range(documents):
        put(world, dice, f"d{n}", READERS[n % len(READERS)])


def dense(world: World, reader: str = "alice", isolation: str = "auto", **request: Any) -> dict[str, Any]:
    request = {"embedding": EMBEDDING, "space": "toy", "k": 20, "threshold": 0, **request}
    return world.search("part", "dense", reader=reader, isolation=isolation, **request)


def found(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(hit["document"], hit["text"]) for hit in answer["hits"]]


def visible(world: World, reader: str) -> set[tuple[str, str]]:
    with world.database.superuser() as superuser:
        return set(superuser.execute(
            """select d.document::text, c.text from pgrag_data.tenant t join pgrag_data.principal p using (tenant_id)
                cross join unnest(pgrag_private.scope(t.tenant_id, p.principal_id, null, null)) as s (revision_id)
                 join pgrag_data.revision r on r.tenant_id = t.tenant_id and r.revision_id = s.revision_id
                 join pgrag_data.document d on d.tenant_id = t.tenant_id and d.document_id = r.document_id
                 join pgrag_data.chunk c on c.tenant_id = t.tenant_id and c.revision_id = s.revision_id
                where t.tenant = %s and p.name = %s""", (world.tenant, reader)))  # fmt: skip


def agree(world: World, **request: Any) -> float:
    """The share of what comparing everything finds that blocks find; nothing else is found, and nothing is short."""
    shares = []
    for reader in ("alice", "bob"):
        exact, auto = (dense(world, reader, isolation, **request) for isolation in ("strict", "auto"))
        assert exact["policy"]["dense_route"] == "exact" and exact["scope"] == auto["scope"]
        assert len(auto["hits"]) == len(exact["hits"]) and auto["complete_reason"] == exact["complete_reason"]
        assert set(found(auto)) <= visible(world, reader)
        shares.append(len(set(found(exact)) & set(found(auto))) / max(1, len(exact["hits"])))
    return sum(shares) / len(shares)


def total(world: World) -> tuple[Any, Any]:
    """The ledger's sums by access list, and the same counted."""
    with world.database.superuser() as superuser:
        (tenant,) = superuser.execute("select tenant_id from pgrag_data.tenant where tenant = %s", (world.tenant,)).fetchone()
        ledger = superuser.execute(
            "select acl_id, sum(documents), sum(chunks), sum(lexemes) from pgrag_data.scope_total where tenant_id = %s and until > now()"
            " group by 1 having sum(documents) <> 0 order by 1", (tenant,)).fetchall()  # fmt: skip
        counted = superuser.execute(
            "select d.acl_id, count(*), sum(r.chunk_count), sum(r.lexeme_count) from pgrag_data.document d"
            " join pgrag_data.revision r on (r.tenant_id, r.revision_id) = (d.tenant_id, d.active_revision_id)"
            " where d.tenant_id = %s and d.deleted_at is null and r.effective_to > now() group by 1 order by 1", (tenant,)).fetchall()  # fmt: skip
    return ledger, counted


@pytest.mark.contract("F2", "A4", "K5")
def test_blocks_find_what_comparing_everything_finds(world: World) -> None:
    dice = random.Random(1)
    filled(world, dice)
    assert "dense_blocks" not in dense(world)["policy"]
    steps = maintain(world)
    assert {"create", "copy", "index"} <= set(steps) and steps[-1] == "idle"
    routes = {dense(world, reader)["policy"]["dense_route"] for reader in ("alice", "bob")}
    assert routes <= {"class_blocks", "tenant_block"}
    assert agree(world) >= 0.97
    assert agree(world, filter={"source": "handbook"}) >= 0.97
    assert dense(world, filter={"source": "wiki"})["reason"] == "nothing_visible"
    # Words that must or must not be there are in the scan, and many are passed by.
    assert {name for name, _ in found(dense(world, k=5, candidates=5))} <= {f"d{n}" for n in range(120)}
    auto, exact = (world.search('"part 3" -d7', "dense", isolation=isolation, embedding=EMBEDDING, space="toy", k=20, threshold=0) for isolation in ("auto", "strict"))
    assert len(auto["hits"]) == len(exact["hits"]) == 20 and all("part 3" in text for _, text in found(auto))


@pytest.mark.contract("F2", "A4", "A6", "B4")
def test_what_changes_is_seen_at_once_with_and_without_maintenance(world: World) -> None:
    """Replaced, re-permitted, deleted and restored documents, blocks stale by any amount: never short, never hidden."""
    dice = random.Random(2)
    filled(world, dice, 120)
    maintain(world)
    shares, there, deleted = [], {f"d{n}" for n in range(120)}, set[str]()
    for _step in range(40):
        for _ in range(dice.randint(1, 6)):
            name = f"d{dice.randrange(130)}"
            action = dice.choice(["put", "access", "access", "delete"])
            if name in deleted:
                with world.writer() as writer:
                    writer.execute("select pgrag.activate(%s, (select revision from pgrag.list_revisions(%s) limit 1), p_restore => true)", (name, name))
                deleted.remove(name)
            if action == "put" or name not in there:
                put(world, dice, name, dice.choice(READERS), dice.randint(1, 8))
                there.add(name)
                continue
            with world.writer() as writer:
                if action == "access":
                    call(writer, "set_access", name, dice.choice(READERS))
                else:
                    call(writer, "delete_document", name)
                    deleted.add(name)
        if dice.random() < 0.5:
            maintain(world, dice.randint(1, 4), dice.choice(["0", "1 hour"]))
        ledger, counted = total(world)
        assert ledger == counted
        shares.append(agree(world, k=dice.choice([1, 10, 30])))
    assert sum(shares) / len(shares) >= 0.97
    maintain(world)
    assert agree(world) >= 0.97
    ledger, counted = total(world)
    assert ledger == counted


@pytest.mark.contract("F2", "A4")
@pytest.mark.parametrize("function, change", [
    ("visible_row", ("= any ((@).acls)", "is not null")),  # hidden rows of the tenant's block are shown
    ("visible_row", ("and d.deleted_at is null", "")),
    ("compared_revisions", ("and not pg_visible_in_snapshot(d.changed_xid, a.snapshot)", "and false")),  # what changed since is not searched
    ("switch_revision", ("changed_xid = pg_current_xact_id()", "changed_xid = changed_xid")),
])  # fmt: skip
def test_control_without_a_guard_the_answer_is_another(world: World, function: str, change: tuple[str, str]) -> None:
    dice = random.Random(3)
    filled(world, dice, 120)
    maintain(world)
    with patched(world.database, function, change):
        for n in range(20):
            if n % 2 == 0:
                put(world, dice, f"d{n}", READERS[n % len(READERS)])
        with world.writer() as writer:
            for n in range(20, 70):
                call(writer, "delete_document", f"d{n}")
        with world.database.superuser() as superuser:  # the tenant's block alone
            superuser.execute("update pgrag_data.dense_block set state = 'retired' where acl_id is not null")
        try:
            wrong = agree(world, k=30) < 0.97
        except AssertionError:
            wrong = True
    assert wrong


def scans(connection: psycopg.Connection[Any]) -> dict[int, int]:
    """Of the index of each block, as this session has counted them."""
    return {
        int(name[1:]): n
        for name, n in connection.execute(
            "select relname, pg_stat_get_xact_numscans(i.indexrelid) from pg_class c join pg_index i on i.indrelid = c.oid where relnamespace = 'pgrag_block'::regnamespace"
        )
    }


@pytest.mark.contract("A9", "F2")
def test_a_block_of_others_is_never_opened(world: World) -> None:
    """In the result, and in what PostgreSQL counts: bob is in no list that only alice is in."""
    filled(world, random.Random(4), 150)
    maintain(world)
    with world.database.superuser() as superuser:
        (tenant,) = superuser.execute("select tenant_id from pgrag_data.tenant where tenant = %s", (world.tenant,)).fetchone()
        superuser.execute("update pgrag_data.dense_block set state = 'retired' where acl_id is null and tenant_id = %s", (tenant,))
        lists = dict(superuser.execute(
            """select b.block_id, array_agg(p.name::text) from pgrag_data.dense_block b join pgrag_data.acl_entry e using (tenant_id, acl_id)
                 join pgrag_data.principal p using (tenant_id, principal_id) where b.tenant_id = %s and b.state = 'live' group by 1""", (tenant,)).fetchall())  # fmt: skip
    assert len(lists) == len(READERS)
    opened = {}
    for reader in ("alice", "bob"):
        groups = {"alice": {"alice", "staff", "everyone"}, "bob": {"bob", "everyone"}}[reader]
        may = {block for block, names in lists.items() if groups & set(names)}
        with world.reader(reader) as connection:
            before = scans(connection)
            said = world.database.search(connection, "part", "dense", embedding=EMBEDDING, space="toy", k=5)["policy"]["dense_blocks"]
            scanned = {block for block, n in scans(connection).items() if n > before[block]}
        assert scanned == may and said == len(may), reader
        opened[reader] = scanned
    assert opened["bob"] < set(lists)  # control: there are blocks that bob may not see


@pytest.mark.contract("A7")
def test_costs_tell_nothing_of_another_tenant_that_was_writing(database: Database, world: World) -> None:
    """A transaction of somebody else's that was open when blocks were begun makes no document pass for changed."""

    def costs(busy: bool) -> Any:
        its, other = World(database, f"{world.tenant}-{busy}"), World(database, f"{world.tenant}-{busy}-other")
        with psycopg.connect(database.dsn("app_writer")) as writer:
            if busy:
                writer.execute("select pgrag.authenticate(%s)", (database.token(other.tenant, "connector", "writer", source="handbook"),))
                writer.execute("select pgrag.stage_revision('slow', 'It goes on and on.')")
            filled(its, random.Random(7), 60)
            maintain(its)
            writer.rollback()
        return dense(its)["policy"]["dense_costs"]

    assert costs(busy=True) == costs(busy=False)
    with patched(database, "dense_plan", ("and not pg_visible_in_snapshot(d.changed_xid, l.snapshot)", "")):
        world.tenant += "-control"
        assert costs(busy=True) != costs(busy=False)


@pytest.mark.contract("A4", "F2")
def test_no_candidate_counts_twice(world: World) -> None:
    """A block that has nothing of a phrase comes back short: then its list is compared whole, and what is loose is compared with it, once."""
    filled(world, random.Random(8), 60)
    maintain(world)
    for n in range(12):
        world.put(f"late-{n}", [f"A gift card of {n}. ", f"Another gift card, {n}. "], vectors=[[1, 0.1 * n, 0.2], [1, 0.1 * n, 0.3]], readers=["everyone"])
    request = {"embedding": EMBEDDING, "space": "toy", "k": 10, "candidates": 10, "threshold": 0}
    twice = patched(world.database, "compared_revisions", ("a.acl_id <> all (p_plan.exact_acls)", "true"))
    for guard, found_hits in ((nullcontext(), 10), (twice, 5)):
        with guard:
            answer = world.search('"gift card"', "dense", **request)
            assert answer["policy"]["dense_fell_back"] and len(answer["hits"]) == found_hits  # control: half of them
    # A second block, of what changed, has again what the first one had already of it.
    strict = dense(world, isolation="strict", k=20)
    with world.database.superuser() as superuser:
        superuser.execute("update pgrag_data.document d set changed_xid = pg_current_xact_id() from pgrag_data.tenant t where t.tenant_id = d.tenant_id and t.tenant = %s", (world.tenant,))
    maintain(world)
    assert found(dense(world, k=20)) == found(strict)


@pytest.mark.contract("F3")
def test_a_scope_without_a_word_is_ranked_by_vectors(world: World) -> None:
    """Stop words leave nothing to divide by."""
    world.put("stop", "To be or not to be. ", vectors=[[1, 0, 0]], readers=["alice"])
    for isolation in ("auto", "strict"):
        answer = world.search("boat", "hybrid", embedding=[1, 0, 0], space="toy", k=5, threshold=0, isolation=isolation)
        assert [hit["document"] for hit in answer["hits"]] == ["stop"]


@pytest.mark.contract("F2")
def test_the_ledger_does_not_grow_with_periods(world: World) -> None:
    """Each of these revisions has an end of its own, and the next one replaces it: two rows of a kind, which come to nothing."""
    for n in range(12):
        world.put("d", f"Rule {n}. ", revision=f"r{n}", readers=["everyone"], effective_to=f"{2100 + n}-01-01")

    def rows() -> int:
        with world.database.superuser() as superuser:
            return superuser.execute("select count(*) from pgrag_data.scope_total join pgrag_data.tenant t using (tenant_id) where t.tenant = %s", (world.tenant,)).fetchone()[0]

    before = rows()
    maintain(world)
    ledger, counted = total(world)
    assert before >= 23 and rows() == 1 and ledger == counted


@pytest.mark.contract("F2", "B7")
def test_what_is_over_is_in_no_block_and_maintenance_ends(world: World) -> None:
    for n in range(60):
        over = {"effective_to": "2020-01-01"} if n % 4 == 0 else {}
        world.put(f"d{n}", [f"d{n} part {part}. " for part in range(5)], vectors=[[1.0, 0.01 * n, 0.1 * part] for part in range(5)], readers=["everyone"], **over)
    assert maintain(world)[-1] == "idle" and agree(world) == 1.0
    with world.database.superuser() as superuser:
        assert {225} == {row[0] for row in superuser.execute("select b.vectors from pgrag_data.dense_block b join pgrag_data.tenant t using (tenant_id) where t.tenant = %s and state = 'live'", (world.tenant,))}
    # Control: copied, they pass for retired, and each block is built anew as soon as it is there.
    with patched(world.database, "copy_to_block", ("and transaction_timestamp() < d.active_until", "")):
        put(world, random.Random(6), "late", ["everyone"], 60)
        assert maintain(world, most=60)[-1] != "idle"
    assert maintain(world)[-1] == "idle"


@pytest.mark.contract("F2")
def test_maintenance_that_is_killed_resumes(world: World) -> None:
    filled(world, random.Random(5), 50)
    done: list[str] = []
    while "idle" not in done:
        with psycopg.connect(world.database.dsn("app_operator")) as operator:  # each step once in vain
            call(operator, "maintain", "0")
            with world.database.superuser() as superuser:
                superuser.execute("select pg_terminate_backend(%s)", (operator.info.backend_pid,))
            with pytest.raises(psycopg.Error):
                operator.execute("select 1")
        done += maintain(world, 1)
        if len(done) % 7 == 0:
            assert agree(world) >= 0.97
    assert agree(world) >= 0.97
    assert done.count("index") == done.count("create") > 2, done
    with world.database.superuser() as superuser:
        tables = {name for (name,) in superuser.execute("select relname from pg_class where relnamespace = 'pgrag_block'::regnamespace and relkind = 'r'")}
        assert {f"b{block}" for (block,) in superuser.execute("select block_id from pgrag_data.dense_block")} == tables  # nothing lies about


@pytest.mark.contract("F2")
def test_writers_that_go_on_keep_no_block_waiting(world: World) -> None:
    """There is always something to fold then."""
    dice = random.Random(5)
    filled(world, dice, 100)

    def steps() -> set[str]:
        done = []
        for _ in range(10):
            with world.writer() as writer:
                for reader in ("alice", "everyone") * 3:
                    call(writer, "set_access", "d0", [reader])
            done += maintain(world, 1)
        return set(done)

    maintain(world, 1)  # what there is by now
    with patched(world.database, "pgrag.maintain", ("v_folded >= 250", "v_folded > 0")):
        assert steps() == {"fold"}  # control
    assert "index" in steps()


@pytest.mark.contract("F2")
def test_two_at_once_do_different_work(world: World) -> None:
    filled(world, random.Random(6), 100)
    first, second = (psycopg.connect(world.database.dsn("app_operator")) for _ in range(2))
    with first, second:
        worked: dict[Any, list[str]] = {}
        for _ in range(200):
            one, other = call(first, "maintain", "0")[0], call(second, "maintain", "0")[0]
            for action, block, *_ in (one, other):
                worked.setdefault(block, []).append(action)
            assert one[1] is None or one[1] != other[1]
            first.commit()
            second.commit()
            if one[0] == other[0] == "idle":
                break
        else:
            pytest.fail("no end")
    assert all(actions.count("index") <= 1 and actions.count("create") <= 1 for block, actions in worked.items() if block)
    assert agree(world) >= 0.97


@pytest.mark.contract("F2")
def test_a_block_of_another_system_or_without_its_table_serves_nobody(world: World) -> None:
    """What a dump brings along: transaction ids that mean nothing here."""
    dice = random.Random(7)
    filled(world, dice, 120)
    maintain(world)
    assert dense(world)["policy"]["dense_route"] != "exact"
    with world.database.superuser() as superuser:
        superuser.execute("update pgrag_data.dense_block set system_identifier = 1")
    put(world, dice, "new", ["everyone"])
    assert dense(world)["policy"]["dense_route"] == "exact" and agree(world) == 1
    with world.database.superuser() as superuser:  # as after a restore into a cluster that is younger
        superuser.execute("update pgrag_data.document set changed_xid = '999999999999'")
    maintain(world)
    assert dense(world)["policy"]["dense_route"] != "exact" and agree(world) >= 0.97
    with world.role("operator") as operator:
        assert max(loose for *_, loose, _, _ in call(operator, "index_status")) == 0
    with world.database.superuser() as superuser:  # as after a restore into a copy of this cluster
        superuser.execute("update pgrag_data.dense_block set table_oid = 1")
    assert dense(world)["policy"]["dense_route"] == "exact"
    with world.role("operator") as operator:
        assert {state for *_, state, _, _, _, _ in call(operator, "index_status")} == {"unusable"}
    maintain(world)
    assert dense(world)["policy"]["dense_route"] != "exact"
    with world.database.superuser() as superuser:
        for (table,) in superuser.execute("select relname from pg_class where relnamespace = 'pgrag_block'::regnamespace and relkind = 'r'").fetchall():
            superuser.execute(f"drop table pgrag_block.{table}")
    assert dense(world)["policy"]["dense_route"] == "exact"
    maintain(world)
    assert dense(world)["policy"]["dense_route"] != "exact"


@pytest.mark.contract("F2", "B7")
def test_an_as_of_question_finds_what_no_block_has(world: World) -> None:
    """Blocks have active revisions; what was in force before is compared, however many blocks there are."""
    dice = random.Random(12)
    filled(world, dice, 100)
    for n in range(0, 100, 2):
        texts = [f"d{n} new {m}. " for m in range(5)]
        world.put(f"d{n}", texts, vectors=[[dice.random(), 1.0, dice.random()] for _ in texts], revision="later", readers=READERS[n % len(READERS)], effective_from="2020-01-01")
    maintain(world)
    as_of = {"as_of": "2010-01-01T00:00:00Z"}
    strict, auto = (dense(world, isolation=isolation, k=100, **as_of) for isolation in ("strict", "auto"))
    assert found(auto) == found(strict) and auto["policy"]["dense_route"] == "exact"
    assert any("part" in text and int(name[1:]) % 2 == 0 for name, text in found(auto))  # a replaced revision is among them
    assert "dense_blocks" in dense(world)["policy"]  # control: today's question takes them
    change = ("case when p_search.as_of is null then p_search.isolation else 'strict' end", "p_search.isolation")
    with patched(world.database, "retrieve", change):
        assert found(dense(world, k=100, **as_of)) != found(strict)  # control


@pytest.mark.contract("F2")
def test_a_block_of_which_nothing_is_left_is_not_searched(world: World) -> None:
    """It would be walked to the end for nothing, and everything compared on top."""
    dice = random.Random(11)
    filled(world, dice, 100)
    maintain(world)
    assert "dense_blocks" in dense(world)["policy"]
    filled(world, dice, 100)
    policy = dense(world)["policy"]
    assert policy["dense_route"] == "exact" and not {"dense_blocks", "dense_fell_back"} & policy.keys()
    with patched(world.database, "dense_plan", ("share_least      constant double precision := 0.05", "share_least      constant double precision := -1"),
                 ("v_block / l.share", "v_block"), ("v_block / v_whole.share", "v_block"), ("+ v_compared * greatest(p_scope.chunks - sum(l.share * l.all_vectors), 0)", "")):  # fmt: skip
        assert dense(world)["policy"]["dense_fell_back"]  # control


@pytest.mark.contract("F2")
def test_settings_of_the_session_are_as_they_were(world: World) -> None:
    filled(world, random.Random(8), 100)
    maintain(world)
    with world.reader() as connection:
        connection.execute("select '[1]'::public.vector; set local hnsw.ef_search = 77; set local hnsw.iterative_scan = strict_order")
        assert world.database.search(connection, "part", "dense", embedding=EMBEDDING, space="toy")["policy"]["dense_blocks"]
        assert connection.execute("show hnsw.ef_search").fetchone() == ("77",)
        assert connection.execute("show hnsw.iterative_scan").fetchone() == ("strict_order",)


@pytest.mark.contract("F1", "F2")
def test_the_ledger_is_folded_without_a_change(world: World) -> None:
    dice = random.Random(9)
    for _ in range(40):
        put(world, dice, "often", ["everyone"])
        with world.writer() as writer:
            call(writer, "set_access", "often", ["alice"])
            call(writer, "set_access", "often", ["everyone"])
    before, counted = total(world)
    assert before == counted
    assert "fold" in maintain(world)
    assert total(world) == (before, counted)
    with world.database.superuser() as superuser:
        assert superuser.execute("select max(n) from (select count(*) as n from pgrag_data.scope_total group by tenant_id, acl_id) t").fetchone()[0] < 64


@pytest.mark.contract("F2")
def test_calibration_measures_and_keeps(world: World) -> None:
    with world.role("operator") as operator:
        shipped = {part: (cost, at) for part, cost, at in call(operator, "calibrate")}
    filled(world, random.Random(10), 250)
    maintain(world)
    with world.role("operator") as operator:
        measured = {part: (cost, at) for part, cost, at in call(operator, "calibrate")}
        status = call(operator, "index_status")
    assert set(measured) == {"document", "vector", "block"} and measured != shipped
    for part, (cost, at) in measured.items():
        assert at is not None and 0.001 < cost < 100_000, part
    assert {row[4] for row in status} == {"live"} and all(row[8] > 0 for row in status)
    assert dense(world)["policy"]["dense_costs"]["exact"] > 0


@pytest.mark.contract("L4")
def test_without_shared_memory_one_worker_builds_and_without_any_the_step_is_kept(world: World) -> None:
    """A trigger stands for the server that has no memory for several workers, then for none."""
    dice = random.Random(11)
    filled(world, dice)
    trigger = """
        create function public.no_memory() returns event_trigger language plpgsql as $$
          begin
            if tg_tag = 'CREATE INDEX' and current_setting('max_parallel_maintenance_workers')::integer >= {} then
              raise exception using errcode = '53100', message = 'could not resize shared memory segment';
            end if;
          end $$;
        create event trigger no_memory on ddl_command_start execute function public.no_memory()"""
    untrigger = "drop event trigger no_memory; drop function public.no_memory()"
    with world.database.superuser() as superuser:
        superuser.execute(trigger.format(0))
        try:
            with pytest.raises(psycopg.Error) as caught:
                maintain(world)
            assert caught.value.sqlstate == "RG113" and caught.value.diag.message_hint
            superuser.execute(untrigger)
            superuser.execute(trigger.format(1))
            assert "index" in maintain(world)
        finally:
            superuser.execute(untrigger)
