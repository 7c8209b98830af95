"""The views and the functions show the same: what a plain model says, of random tenants, for every reader."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.access.model import Tenant, build, random_tenant
from tests.support import Database

WORLDS = 12
REQUESTS: list[dict[str, Any]] = [
    {"question": "common", "mode": "lexical", "k": 100, "threshold": 0},
    {"question": "zebra", "mode": "dense", "k": 100, "threshold": 0, "space": "toy", "embedding": [1, 1, 1]},
    {
        "question": "common",
        "mode": "hybrid",
        "k": 100,
        "threshold": 0,
        "space": "toy",
        "embedding": [1, 1, 1],
    },
]


@pytest.fixture(scope="module")
def worlds(module_database: Database) -> list[Tenant]:
    """A dozen tenants side by side in one database, with the same names everywhere."""
    made = []
    for seed in range(WORLDS):
        dice = random.Random(seed)
        tenant = random_tenant(dice, f"tenant-{seed}")
        build(module_database, tenant, dice)
        made.append(tenant)
    return made


@contextmanager
def principal(connection: psycopg.Connection[Any], token: str) -> Iterator[psycopg.Connection[Any]]:
    """One principal after the other on one connection, as a pool does it."""
    with connection.transaction():
        connection.execute("select pgrag.authenticate(%s)", (token,))
        yield connection


def browsed(connection: psycopg.Connection[Any]) -> tuple[list[Any], list[Any]]:
    documents = connection.execute("select source, document, revision from pgrag.documents").fetchall()
    chunks = connection.execute(
        "select source, document, revision, chunk_no, text from pgrag.chunks"
    ).fetchall()
    return sorted(documents), sorted(chunks)


def answered(connection: psycopg.Connection[Any], request: dict[str, Any]) -> list[Any]:
    found = connection.execute("select pgrag.search_json(%s)", (json.dumps(request),)).fetchone()[0]
    assert found["complete"]
    assert found["scope"]["chunks"] == len(found["hits"])
    return sorted((hit["source"], hit["document"], hit["revision"], hit["text"]) for hit in found["hits"])


def differences(database: Database, worlds: list[Tenant]) -> list[tuple[str, str, str]]:
    """Where views, functions and model do not agree: tenant, reader, path."""
    found = []
    can_read = "select source, document from unnest(%s::text[], %s::text[]) as n (source, document) where pgrag.can_read(source, document)"
    with database.role("browser") as browser, database.role("reader") as reader:
        for tenant in worlds:
            names = [
                ("handbook", "nothing.md"),
                *((document.source, document.key) for document in tenant.documents),
            ]
            for user in [*tenant.users, "mallory"]:
                token = database.token(tenant.name, user)
                rows, chunks = sorted(tenant.rows(user)), sorted(tenant.chunks(user))
                texts = sorted((source, key, revision, text) for source, key, revision, _, text in chunks)
                with principal(browser, token):
                    if browsed(browser) != (rows, chunks):
                        found.append((tenant.name, user, "views"))
                with principal(reader, token):
                    for request in REQUESTS:
                        if answered(reader, request) != texts:
                            found.append((tenant.name, user, request["mode"]))
                    readable = reader.execute(can_read, tuple(map(list, zip(*names, strict=True)))).fetchall()
                    if sorted(readable) != [row[:2] for row in rows]:
                        found.append((tenant.name, user, "can_read"))
    return found


@pytest.mark.contract("A4", "A5", "A6", "A8")
def test_views_functions_and_model_agree(module_database: Database, worlds: list[Tenant]) -> None:
    assert differences(module_database, worlds) == []
    sizes = [len(tenant.rows(user)) for tenant in worlds for user in tenant.users]
    assert len(set(sizes)) > 5 and max(sizes) > 5  # the worlds are not all alike, and not all empty


@pytest.mark.contract("A5", "A8", "A9")
def test_excerpts_are_those_chunks_and_no_others(module_database: Database, worlds: list[Tenant]) -> None:
    with module_database.superuser() as superuser:
        everything = superuser.execute("""
            select t.tenant, encode(c.chunk_id, 'hex'), c.text from pgrag_data.chunk c join pgrag_data.tenant t using (tenant_id)""").fetchall()  # fmt: skip
    for tenant in worlds[:4]:
        user = max(tenant.users, key=lambda user: len(tenant.rows(user)))
        mine = {text for *_, text in tenant.chunks(user)}
        with module_database.reader(tenant.name, user) as reader:
            for owner, chunk_id, text in everything:
                expected = text if owner == tenant.name and text in mine else None
                try:
                    with reader.transaction():
                        found = reader.execute("select pgrag.excerpt(%s) ->> 'text'", (chunk_id,)).fetchone()[
                            0
                        ]
                except psycopg.Error as error:
                    assert error.sqlstate == "RG401"
                    found = None
                assert found == expected


@pytest.mark.contract("A8")
def test_a_permissive_policy_would_be_noticed(new_database: Callable[[], Database]) -> None:
    """Control: with the tables opened to the views' owner, the comparison fails; on fewer tables the joins still hold."""
    database = new_database()
    dice = random.Random(1)
    tenants = [random_tenant(dice, name, 8) for name in ("a", "b")]
    for tenant in tenants:
        build(database, tenant, dice)
    assert differences(database, tenants) == []
    with database.superuser() as superuser:
        for table in ("source", "revision", "chunk", "document"):
            superuser.execute(
                f"create policy open on pgrag_data.{table} for select to pgrag_viewer using (true)"
            )
            assert bool(differences(database, tenants)) == (table == "document")
        superuser.execute("drop policy open on pgrag_data.document")
        assert differences(database, tenants) == []


@pytest.mark.contract("A8", "B4")
def test_views_follow_what_changes_in_a_transaction(database: Database) -> None:
    """In an open transaction of a browser: a revocation, an activation and a tombstone count from the next statement on."""
    database.put_tenant("a")
    database.put_principals("a", users=["alice"], groups={"team": ["alice"]})
    with database.writer("a", "handbook") as writer:
        database.put_document(writer, "x.md", "One.", readers=["team"], revision="r1")
    steps = (
        ("select pgrag.drop_membership('team', 'alice')", set()),
        ("select pgrag.put_membership('team', 'alice')", {("handbook", "x.md", "r1")}),
        ("select pgrag.delete_document('x.md', 'handbook')", set()),
        (
            "select pgrag.activate('x.md', 'r1', p_restore => true, p_source => 'handbook')",
            {("handbook", "x.md", "r1")},
        ),
    )
    with database.role("browser") as connection:
        connection.execute("select pgrag.authenticate(%s)", (database.token("a", "alice"),))
        connection.execute("prepare kept as select source, document, revision from pgrag.documents")
        for call, expected in steps:
            with database.admin("a") as admin:
                admin.execute(call)
            assert set(browsed(connection)[0]) == expected
            assert set(connection.execute("execute kept").fetchall()) == expected
