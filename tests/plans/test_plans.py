"""What the planner makes of it, on statistics of some thousand chunks: facts that the design rests on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.access.model import WORDS
from tests.functions.patched import few_searched, scope_limit
from tests.support import Database

DOCUMENTS, CHUNKS, OPEN = 100, 50, 3  # of tenant a; alice may read OPEN of its documents, bob all of them
ALL = DOCUMENTS * CHUNKS
SEARCHES = {
    "lexical": """select pgrag.search_json('{"question": "refund window", "mode": "lexical"}')""",
    "dense": """select pgrag.search_json('{"question": "refund", "mode": "dense", "space": "toy", "embedding": [1, 1, 1]}')""",
}
INDEXES = {
    "chunk_lex": ("chunk_lex_pkey", "chunk_lex_keys"), "chunk_vec": ("chunk_vec_pkey",), "chunk": ("chunk_pkey", "chunk_chunk_id_key"),
    "revision": ("revision_pkey", "revision_revision_key", "revision_document_key", "revision_facets", "revision_dated"),
}  # fmt: skip
# What else a question may ask for, each of which reads rows in a way of its own.
TOY = '"space": "toy", "embedding": [1, 1, 1]'
MORE = {
    "hybrid": f"""select pgrag.search_json('{{"question": "refund window", {TOY}}}')""",
    "a phrase": """select pgrag.search_json('{"question": "\\"refund and\\" window", "mode": "lexical"}')""",
    "a phrase that nothing visible holds": """select pgrag.search_json('{"question": "\\"word is zanzibar\\" window", "mode": "lexical"}')""",
    "a dense phrase": f"""select pgrag.search_json('{{"question": "\\"refund and\\" window", "mode": "dense", {TOY}}}')""",
    "a dense exclusion": f"""select pgrag.search_json('{{"question": "window -refund", "mode": "dense", {TOY}}}')""",
    "probes": f"""select pgrag.search_json('{{"question": "refund", "probes": ["tent", "boat lease"], "probe_embeddings": [[1, 0, 1], [0, 1, 1]], {TOY}}}')""",
    "caps": f"""select pgrag.search_json('{{"question": "refund window", "per_document": 1, "per_source": 2, {TOY}}}')""",
    "a filter": """select pgrag.search_json('{"question": "refund window", "mode": "lexical", "filter": {"language": "en", "tags": ["shop"], "metadata": {"team": "a"}}}')""",
    "more words than are used": f"""select pgrag.search_json('{{"question": "refund window {" ".join(f"word{n}" for n in range(70))}", "mode": "lexical"}}')""",
}
# Scans and tuples of this transaction: of a table, and of an index by its name.
COUNTERS = """
select relname, pg_stat_get_xact_numscans(oid), pg_stat_get_xact_tuples_returned(oid), pg_stat_get_xact_tuples_fetched(oid)
  from pg_class where relnamespace = 'pgrag_data'::regnamespace and relkind in ('r', 'i')
"""


@pytest.fixture(scope="module")
def world(module_database: Database) -> Database:
    database = module_database
    for tenant in ("a", "b"):
        database.put_tenant(tenant)
        database.put_principals(tenant, users=["alice", "bob"], groups={"team": ["bob"]})
    with database.writer("a", "handbook") as writer:
        for document in range(DOCUMENTS):
            texts = [
                f"Rule {document}.{n}: {WORDS[n % 12]} and {WORDS[(n + document) % 12]} within {n} days. "
                for n in range(CHUNKS)
            ]
            if document == 7:
                texts[0] = "The rare word is zanzibar. "
            vectors = [[1 + n % 5, 1 + n % 7, document % 3] for n in range(CHUNKS)]
            readers = ["everyone"] if document < OPEN else ["team"]
            database.put_document(writer, f"{document}.md", texts, readers=readers, vectors=vectors, tags=["shop"], metadata='{"team": "a"}')
    with database.writer("b", "handbook") as writer:
        database.put_document(writer, "b.md", ["A refund window. "] * CHUNKS, vectors=[[1, 1, 1]] * CHUNKS)
    with database.superuser() as superuser:
        superuser.execute("vacuum analyze")
        assert superuser.execute("select count(*) from pgrag_data.chunk").fetchone()[0] == ALL + CHUNKS
    return database


@pytest.fixture
def superuser(world: Database) -> Iterator[psycopg.Connection[Any]]:
    """A superuser in a transaction that is undone: indexes and policies come and go with it."""
    with psycopg.connect(world.dsn()) as connection:
        yield connection
        connection.rollback()


def explain(connection: psycopg.Connection[Any], sql: str, options: str = "costs off") -> str:
    return "\n".join(row[0] for row in connection.execute(f"explain ({options}) {sql}"))


def counted(connection: psycopg.Connection[Any], sql: str) -> dict[str, tuple[int, int, int]]:
    """Scans, and tuples returned and fetched, for each table and index, of the second execution."""
    connection.execute(sql)
    before = {name: rest for name, *rest in connection.execute(COUNTERS)}
    connection.execute(sql)
    return {
        name: tuple(b - a for a, b in zip(before[name], rest, strict=True))
        for name, *rest in connection.execute(COUNTERS)
    }


RARE = "select revision_id from pgrag_data.chunk_lex where tenant_id = 1 and lexemes @@ 'zanzibar'"


@pytest.mark.contract("A8")
def test_the_constant_policy_folds_away_and_a_real_one_costs_the_index(
    superuser: psycopg.Connection[Any],
) -> None:
    """Why the engine's policy is `true`: `@@` is not leakproof, and below a predicate it cannot reach an index."""
    superuser.execute("create index gin_of_the_test on pgrag_data.chunk_lex using gin (lexemes)")
    superuser.execute("set local role pgrag_engine")
    assert "Bitmap Index Scan on gin_of_the_test" in explain(superuser, RARE)
    assert "Filter" not in explain(superuser, "select revision_id from pgrag_data.chunk_lex")
    superuser.execute("reset role")
    superuser.execute(
        "alter policy pgrag_chunk_lex_engine on pgrag_data.chunk_lex using (tenant_id = nullif(current_setting('pgrag.x', true), '')::bigint)"
    )
    superuser.execute("set local role pgrag_engine")
    plan = explain(superuser, RARE)
    assert "gin_of_the_test" not in plan
    assert "current_setting" in plan


@pytest.mark.contract("A8")
def test_the_owner_plans_for_no_row(superuser: psycopg.Connection[Any]) -> None:
    superuser.execute("set local role pgrag_owner")
    assert "One-Time Filter: false" in explain(superuser, "select * from pgrag_data.chunk")
    superuser.execute("set local role pgrag_engine")  # control
    assert "One-Time Filter" not in explain(superuser, "select * from pgrag_data.chunk")


@pytest.mark.contract("A8")
@pytest.mark.parametrize("view", ["pgrag.documents", "pgrag.chunks"])
def test_browse_policies_are_init_plans(world: Database, view: str) -> None:
    """The principal is verified and the scope computed a few times a statement, however many rows there are."""
    with world.superuser() as superuser:
        superuser.execute(f"alter database {world.name} set track_functions = 'all'")
    calls, rows = {}, {}
    for subject in ("alice", "bob"):
        with world.role("browser") as browser:
            browser.execute("select pgrag.authenticate(%s)", (world.token("a", subject),))
            plan = explain(browser, f"select * from {view}", "verbose, costs off")
            lines = [line.strip() for line in plan.splitlines() if "browse_" in line]
            assert lines
            assert {line.split("(")[0] for line in lines} == {
                "Output: pgrag_private.browse_tenant",
                "Output: pgrag_private.browse_revisions",
            }
            assert plan.count("InitPlan ") >= len(lines)
            before = dict(browser.execute("select funcname, calls from pg_stat_xact_user_functions"))
            rows[subject] = len(browser.execute(f"select * from {view}").fetchall())
            after = dict(browser.execute("select funcname, calls from pg_stat_xact_user_functions"))
            calls[subject] = {
                name: after[name] - before.get(name, 0)
                for name in ("browse_tenant", "browse_revisions", "scope")
            }
    assert rows["bob"] == rows["alice"] * DOCUMENTS / OPEN
    assert calls["alice"] == calls["bob"]
    tables = 3 if view == "pgrag.documents" else 4
    assert calls["bob"]["browse_tenant"] <= tables
    assert calls["bob"]["scope"] == calls["bob"]["browse_revisions"] <= tables - 1
    with world.superuser() as superuser:
        superuser.execute(f"alter database {world.name} reset track_functions")


@pytest.mark.contract("A8")
def test_without_the_sub_select_the_policy_would_be_called_for_each_row(
    world: Database, superuser: psycopg.Connection[Any]
) -> None:
    """Control for the one above: the function itself in the policy, as one would first write it."""
    superuser.execute(
        "alter policy pgrag_chunk_select on pgrag_data.chunk using (revision_id = any (pgrag_private.browse_revisions()))"
    )
    superuser.execute("select pgrag.authenticate(%s)", (world.token("a", "alice"),))
    superuser.execute(
        "grant execute on function pgrag_private.browse_revisions() to pgrag_viewer; set local role pgrag_viewer"
    )
    plan = explain(superuser, "select * from pgrag_data.chunk", "verbose, costs off")
    assert "ANY (pgrag_private.browse_revisions())" in plan


@pytest.mark.contract("A4", "A7", "A9")
@pytest.mark.parametrize(("mode", "table"), [("lexical", "chunk_lex"), ("dense", "chunk_vec")])
def test_a_small_scope_is_read_by_the_primary_key(world: Database, mode: str, table: str) -> None:
    """The lanes touch the rows of the scope and no others: not the hidden ones, not another tenant's."""
    visible = OPEN * CHUNKS
    with world.reader("a", "alice") as reader:
        found = counted(reader, SEARCHES[mode])
        scans, returned, _ = found[f"{table}_pkey"]
        assert scans
        assert visible <= returned <= 2 * visible  # at most twice over
        assert found[table][0] == 0 or found[table][1] == 0  # no sequential scan read anything
        assert found["chunk"][1] == 0 and found["chunk"][2] <= 2 * visible
    # control: the same search with the indexes off reads all there is (the lanes forbid that, so it is allowed first)
    with world.superuser() as superuser:
        superuser.execute("alter function pgrag_private.lexical_lane reset enable_seqscan; alter function pgrag_private.compare_vectors reset enable_seqscan")
    with world.reader("a", "alice") as reader:
        reader.execute(
            "set local enable_indexscan = off; set local enable_indexonlyscan = off; set local enable_bitmapscan = off"
        )
        assert counted(reader, SEARCHES[mode])[table][1] >= ALL
    with world.superuser() as superuser:
        superuser.execute("alter function pgrag_private.lexical_lane set enable_seqscan = off; alter function pgrag_private.compare_vectors set enable_seqscan = off")


@pytest.mark.contract("A7")
def test_a_small_scope_reads_the_same_however_much_is_hidden(world: Database) -> None:
    """What a search touches is a matter of the scope: the same counters before and after a thousand hidden chunks."""
    with world.reader("a", "alice") as reader:
        before = {mode: counted(reader, search) for mode, search in SEARCHES.items()}
    with world.writer("a", "handbook") as writer:
        world.put_document(
            writer, "more.md", ["A refund window. "] * 1000, vectors=[[1, 1, 1]] * 1000, readers=["team"]
        )
    with world.reader("a", "alice") as reader:
        after = {mode: counted(reader, search) for mode, search in SEARCHES.items()}
    lanes = ("chunk_lex", "chunk_lex_pkey", "chunk_vec", "chunk_vec_pkey", "chunk")
    assert {mode: [c[name] for name in lanes] for mode, c in after.items()} == {
        mode: [c[name] for name in lanes] for mode, c in before.items()
    }
    with world.reader("a", "bob") as reader:  # control: whoever may see them reads them
        assert counted(reader, SEARCHES["lexical"])["chunk_lex_pkey"] != before["lexical"]["chunk_lex_pkey"]


def read(found: dict[str, tuple[int, int, int]], table: str) -> int:
    """Rows of the table that were read, in sequence or found by an index."""
    return found[table][1] + sum(found[index][1] for index in INDEXES[table])


@pytest.mark.contract("A4", "A7", "A9")
@pytest.mark.parametrize("search", MORE)
def test_no_row_outside_the_scope_is_touched(world: Database, search: str) -> None:
    """Whatever is asked for: neither by the indexes for large scopes, nor by more than a few reads of each visible row."""
    visible = OPEN * CHUNKS
    with world.reader("a", "alice") as reader:
        found = counted(reader, MORE[search])
        assert found["chunk_lex_keys"][0] == found["revision_facets"][0] == found["revision_dated"][0] == 0
        assert read(found, "revision") <= 5 * OPEN + 1000  # those of the visible documents, and some for each hit
        lanes = {table: read(found, table) for table in ("chunk_lex", "chunk_vec", "chunk")}
        # Vectors are read twice a wording where many are as near as the last, as all of these are.
        assert max(lanes.values()) <= 9 * visible and lanes["chunk_lex"] + lanes["chunk_vec"] >= visible, lanes
        assert found["chunk_lex"][1] == found["chunk_vec"][1] == found["chunk"][1] == 0  # no sequential scan
    with world.reader("a", "bob") as reader:  # control: who may see more reads more
        found = counted(reader, MORE[search])
        assert max(read(found, table) for table in ("chunk_lex", "chunk_vec")) >= ALL


@pytest.mark.contract("F1", "A7", "A9")
@pytest.mark.parametrize("search", ["lexical", "hybrid", "a phrase"])
def test_a_large_scope_is_searched_through_the_index(world: Database, search: str) -> None:
    statement = (SEARCHES | MORE)[search]
    strict = statement.replace("}')", ', "isolation": "strict"}\')')
    with scope_limit(world, 1000), world.reader("a", "bob") as reader:
        found = counted(reader, statement)
        assert found["chunk_lex_keys"][0] >= 1 and found["chunk_lex"][1] == 0
        assert found["chunk_lex_pkey"][1] < ALL / 2  # the sample, and what is read again of the best
        found = counted(reader, strict)
        assert found["chunk_lex_keys"][0] == 0 and read(found, "chunk_lex") >= ALL  # each chunk of the scope
    with world.reader("a", "bob") as reader:
        found = counted(reader, statement)
        assert found["chunk_lex_keys"][0] == 0 and read(found, "chunk_lex") >= ALL  # as below the bound
    with scope_limit(world, 1000), world.reader("a", "alice") as reader:
        assert counted(reader, statement)["chunk_lex_keys"][0] == 0  # and for whoever sees less


@pytest.mark.contract("F1")
def test_a_rare_word_costs_what_it_finds(world: Database) -> None:
    """Beside a common one, which is not searched for; control: together they read what either finds."""
    search = """select pgrag.search_json('{"question": "zanzibar rule", "mode": "lexical"}')"""
    with scope_limit(world, 1000), world.reader("a", "bob") as reader:
        with few_searched(world, 1, 100):
            rare = read(counted(reader, search), "chunk_lex")
        both = read(counted(reader, search), "chunk_lex")
    assert rare < 2000 and both >= ALL


@pytest.mark.contract("F5", "A9")
def test_filters_of_a_large_scope_use_their_index(world: Database) -> None:
    filters = {"tags": '{"tags": ["nowhere"]}', "metadata": '{"metadata": {"team": "b"}}', "product": '{"product": "tent"}', "version": '{"version": ["1", "2"]}'}
    searches = {name: f"""select pgrag.search_json('{{"question": "refund window", "mode": "lexical", "filter": {filter_}}}')""" for name, filter_ in filters.items()}
    with scope_limit(world, 10), world.reader("a", "bob") as reader:
        for name, search in searches.items():
            found = counted(reader, search)
            assert found["revision_facets"][0] >= 1, name
            assert read(found, "revision") <= 10, name  # none has it, and none was looked at
            assert counted(reader, search.replace("}}')", '}, "isolation": "strict"}\')'))["revision_facets"][0] == 0
    with world.reader("a", "bob") as reader:  # control: below the bound each document is looked at
        for search in searches.values():
            found = counted(reader, search)
            assert found["revision_facets"][0] == 0 and read(found, "revision") >= DOCUMENTS


@pytest.mark.contract("F1")
def test_estimates_are_near(world: Database) -> None:
    """From about a thousand of five thousand chunks, though all documents are alike and each word comes every twelfth; of a scope
    that is only counted, from half as many.
    """
    with world.superuser() as superuser:
        rows = superuser.execute("""
            with listed as (select r.tenant_id, array_agg(r.revision_id order by r.revision_id) as revisions, array_agg(r.chunk_count order by r.revision_id) as counts,
                                   null::pgrag_private.search_scope as scope
                              from pgrag_data.revision r join pgrag_data.tenant t using (tenant_id) where t.tenant = 'a' group by 1),
                 counted as (select l.tenant_id, null::bigint[] as revisions, null::integer[] as counts,
                                    row(l.tenant_id, array_agg(l.acl_id order by l.acl_id), array_agg(l.chunks order by l.acl_id), null,
                                        array[('{en}', null, null, sum(l.chunks), 0)::pgrag_private.scope_part], 0, sum(l.chunks), null)::pgrag_private.search_scope as scope
                               from (select l.tenant_id, l.acl_id, sum(l.chunks) as chunks from pgrag_data.scope_total l group by 1, 2) l
                               join pgrag_data.tenant t using (tenant_id) where t.tenant = 'a' group by 1)
            select e.lexeme, e.df, e.seen, (select count(*) from pgrag_data.chunk_lex l where l.tenant_id = s.tenant_id and l.lexemes @@ pgrag_private.lexeme_query(e.lexeme))
              from (select tenant_id, revisions, counts, row(tenant_id, null, null, null, null, null, null, null)::pgrag_private.search_scope as scope from listed
                    union all select * from counted) s
             cross join pgrag_private.estimate_df(s.scope, s.revisions, s.counts, '{en}', array['rule', 'tent', 'boat', 'invoic', 'zanzibar', 'nowher', '7']) e""").fetchall()
    assert len(rows) == 14
    for lexeme, estimate, seen, exact in rows:
        if exact > 500:
            assert estimate == pytest.approx(exact, rel=0.25) and seen, lexeme
        if not exact:
            assert not seen and 0 < estimate < 20
    assert sum(exact > 500 for *_, exact in rows) >= 8


ORDERS = {
    "chunk": ("chunk_chunk_id_key", "unique (chunk_id, tenant_id)", "unique (tenant_id, chunk_id)"),
    "document": ("document_document_key", "unique (source_id, document, tenant_id)", "unique (tenant_id, source_id, document)"),
}  # fmt: skip


@contextmanager
def tenant_first(world: Database, table: str) -> Iterator[None]:
    """A key in the order that it had once, so that it finds rows by the tenant alone."""
    name, today, once = ORDERS[table]
    change = f"alter table pgrag_data.{table} drop constraint {name}, add constraint {name} {{}}"
    with world.superuser() as superuser:
        superuser.execute(change.format(once))
        try:
            yield
        finally:
            superuser.execute(change.format(today))


@pytest.mark.contract("B9")
def test_a_tenant_that_statistics_do_not_know_is_written_by_key(world: Database) -> None:
    """Planned for each value, a look at one chunk, as a foreign key takes, read all that the new tenant had: seconds a batch."""

    def read_of_the_tenant(tenant: str) -> int:
        world.put_tenant(tenant)
        with world.writer(tenant, "handbook") as writer:
            before = {name: returned for name, _, returned, _ in writer.execute(COUNTERS)}
            world.put_document(writer, "new.md", ["A rule. "] * 300, vectors=[[1, 1, 1]] * 300)
            after = {name: returned for name, _, returned, _ in writer.execute(COUNTERS)}
        return after["chunk_chunk_id_key"] - before["chunk_chunk_id_key"]

    assert read_of_the_tenant("new") <= 3 * 300
    with world.superuser() as superuser:
        superuser.execute("alter function pgrag.add_chunks set plan_cache_mode = force_custom_plan")
        try:
            assert read_of_the_tenant("newer") <= 3 * 300  # the other guard: that index cannot be read by the tenant alone
            with tenant_first(world, "chunk"):
                assert read_of_the_tenant("newest") > 20 * 300  # control
        finally:
            superuser.execute("alter function pgrag.add_chunks set plan_cache_mode = force_generic_plan")


@pytest.mark.contract("A7")
def test_a_hit_is_looked_up_by_its_whole_key_among_small_tenants(world: Database) -> None:
    """Statistics say that a tenant has a document or two, so that to the planner any index that begins with the tenant is as good
    as the primary key; of a large tenant it would read all documents for each hit. So none does.
    """
    for n in range(150):
        world.put_tenant(f"small{n}")
        with world.writer(f"small{n}", "handbook") as writer:
            world.put_document(writer, "only.md", ["A refund window. "], vectors=[[1, 1, 1]])

    def documents_read() -> int:
        with world.superuser() as superuser:
            superuser.execute("analyze")
        with world.reader("a", "bob") as reader:
            reader.execute("set local enable_seqscan = off")  # which so few documents are read by otherwise
            found = counted(reader, SEARCHES["dense"])
        return sum(returned for name, (_, returned, _) in found.items() if name.startswith("document_"))

    assert documents_read() <= 6 * DOCUMENTS
    with tenant_first(world, "document"):
        assert documents_read() > 12 * DOCUMENTS  # control
