"""What a switch costs does not depend on the size of what is switched: counted in rows and in bytes of WAL, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.support import Database

SMALL, LARGE = 10, 10_000
PAGE = 8192
TABLES = "pg_class c where c.relnamespace in ('pgrag_data'::regnamespace, 'pgrag_private'::regnamespace) and c.relkind = 'r'"
ROWS = f"""select sum(pg_stat_get_xact_tuples_inserted(c.oid))::int, sum(pg_stat_get_xact_tuples_updated(c.oid))::int,
                  sum(pg_stat_get_xact_tuples_deleted(c.oid))::int from {TABLES}"""


@dataclass
class Cost:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    wal: int = 0

    @property
    def rows(self) -> tuple[int, int, int]:
        return self.inserted, self.updated, self.deleted


@contextmanager
def counted(connection: psycopg.Connection[Any], cost: Cost) -> Iterator[None]:
    """Rows by PostgreSQL's own counters, WAL from before the statement until after the commit."""
    connection.execute(
        ROWS
    )  # warms the catalog cache: what it reads first may be pruned, which is WAL as well
    (start,) = connection.execute("select pg_current_wal_insert_lsn()").fetchone()
    before = connection.execute(ROWS).fetchone()
    yield
    after = connection.execute(ROWS).fetchone()
    connection.commit()
    (cost.wal,) = connection.execute(
        "select (pg_current_wal_insert_lsn() - %s::pg_lsn)::int", (start,)
    ).fetchone()
    connection.rollback()
    cost.inserted, cost.updated, cost.deleted = (new - old for new, old in zip(after, before, strict=True))


@pytest.fixture(scope="module")
def sized(module_database: Database) -> Database:
    """For each size a document with two revisions of as many chunks, and a group that reads few or many documents."""
    module_database.put_tenant("t")
    module_database.put_principals(
        "t", users=["alice", "bob"], groups={f"group{size}": ["bob"] for size in (SMALL, LARGE)}
    )
    for size in (SMALL, LARGE):
        texts = [f"Passage {number} on refunds. " for number in range(size)]
        for revision in ("v1", "v2"):
            with module_database.writer("t", "handbook") as writer:
                module_database.put_document(
                    writer, f"doc{size}", [revision, *texts[1:]], revision=revision, activate=revision == "v1"
                )
    for size in (SMALL, LARGE):
        with module_database.writer("t", "handbook") as writer:
            for number in range(1 if size == SMALL else 200):
                module_database.put_document(
                    writer, f"of-group{size}-{number}", f"Passage {number}.", readers=[f"group{size}"]
                )
    with module_database.superuser() as superuser:
        superuser.execute("vacuum analyze")  # no page is pruned, and no hint bit written, on the way
        found = superuser.execute("select d.document, r.chunk_count from pgrag_data.revision r join pgrag_data.document d using (document_id) "
                                  "where d.document like 'doc%'").fetchall()  # fmt: skip
    assert sorted(found) == sorted(
        [("doc10", SMALL), ("doc10", SMALL), ("doc10000", LARGE), ("doc10000", LARGE)]
    )
    return module_database


STEPS: list[
    tuple[str, str, tuple[int, int, int]]
] = [  # what is done to each, in this order; rows inserted (the log, and the ledger's two), updated, deleted
    ("activate", "select pgrag.activate('doc{}', 'v2', 'v1')", (3, 1, 0)),
    ("rollback", "select pgrag.rollback('doc{}')", (3, 1, 0)),
    ("new readers", "select pgrag.set_access('doc{}', '{{alice}}')", (2, 1, 0)),
    ("nobody", "select pgrag.set_access('doc{}', '{{}}')", (2, 1, 0)),
    ("delete", "select pgrag.delete_document('doc{}')", (1, 1, 0)),
    ("restore", "select pgrag.activate('doc{}', 'v2', p_restore => true)", (2, 1, 0)),
]


@pytest.mark.contract("B4", "B5", "A6", "B8")
def test_a_switch_is_one_row_whatever_the_size(sized: Database) -> None:
    with sized.writer(
        "t", "handbook"
    ) as writer:  # both access lists are there already: making one is not the switch
        for readers in (["alice"], []):
            sized.put_document(writer, f"of-{readers}", "Any text.", readers=readers)
    # A first round, unmeasured, leaves each page as the second finds it.
    costs: dict[tuple[str, int], Cost] = {}
    for _ in range(2):
        with sized.writer("t", "handbook") as writer:
            for size in (SMALL, LARGE):
                writer.execute(
                    f"select pgrag.activate('doc{size}', 'v1'), pgrag.set_access('doc{size}', '{{everyone}}')"
                )
        for name, statement, _ in STEPS:
            for size in (SMALL, LARGE):
                cost = costs[name, size] = Cost()
                with sized.writer("t", "handbook") as writer, counted(writer, cost):
                    assert writer.execute(statement.format(size)).fetchone()[0]
    for name, _, rows in STEPS:
        small, large = costs[name, SMALL], costs[name, LARGE]
        print(f"{name:12} rows {small.rows} {large.rows}  WAL bytes {small.wal} {large.wal}")
        assert small.rows == large.rows == rows, name
        assert abs(small.wal - large.wal) <= PAGE, name
        assert 0 < large.wal <= 2 * PAGE, name


@pytest.mark.contract("A6")
@pytest.mark.parametrize(
    "statement, rows",
    [
        ("select pgrag.drop_membership('group{}', 'bob')", (0, 0, 1)),
        ("select pgrag.drop_principal('group{}')", (0, 1, 0)),
    ],
    ids=["membership", "group"],
)
def test_a_revocation_is_one_row_however_much_is_revoked(
    sized: Database, statement: str, rows: tuple[int, int, int]
) -> None:
    costs = {}
    for size in (SMALL, LARGE):
        costs[size] = Cost()
        with sized.admin("t") as admin, counted(admin, costs[size]):
            admin.execute(statement.format(size))
    print(statement, costs)
    assert costs[SMALL].rows == costs[LARGE].rows == rows
    assert abs(costs[SMALL].wal - costs[LARGE].wal) <= PAGE


@pytest.mark.contract("B4")
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_the_probe_counts(sized: Database, size: int) -> None:
    """Control: a design that marks chunks instead of moving a pointer is seen for what it is."""
    cost = Cost()
    query = ("update pgrag_data.chunk c set page = 1 from pgrag_data.revision r join pgrag_data.document d using (document_id) "
             "where c.revision_id = r.revision_id and r.revision = 'v1' and d.document = %s")  # fmt: skip
    with psycopg.connect(sized.dsn()) as superuser, counted(superuser, cost):
        superuser.execute(query, (f"doc{size}",))
    assert cost.rows == (0, size, 0)
    assert (cost.wal > 2 * PAGE) == (size == LARGE)
