"""What a change of encoder shows, and to whom: texts to encode go to the writer of their own source, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.access.watch import canary
from tests.functions.patched import patched
from tests.support import Database

MISSING = "select * from pgrag.missing_embeddings('new', 2000, %s)"
SECRETS = {name: canary() for name in ("wiki title", "wiki section", "wiki text", "b text", "b title", "deleted text", "staged text")}


@pytest.fixture(scope="module")
def filled(module_database: Database) -> Database:
    """Two sources in tenant a and one in b, each with texts that want an embedding in a space of the same name."""
    for tenant in ("a", "b"):
        module_database.put_tenant(tenant, sources=("handbook", "wiki"))
        module_database.put_principals(tenant, users=["alice"])
        with module_database.role("operator") as operator:
            operator.execute("select pgrag.put_space(%s, 'new', 'm', '1', 3), pgrag.build_space(%s, 'new')", (tenant, tenant))
    put = module_database.put_document
    with module_database.writer("a", "handbook") as writer:
        put(writer, "own.md", "Own text.", vectors=[[1, 0, 0]], revision="v1", title="Own title", readers=[])
        put(writer, "old.md", f"Deleted {SECRETS['deleted text']}.", vectors=[[1, 0, 0]], revision="v1")
        writer.execute("select pgrag.delete_document('old.md')")
        writer.execute("select pgrag.stage_revision('own.md', %s, p_revision => 'v2', p_space => 'toy')", (SECRETS["staged text"],))
    with module_database.writer("a", "wiki") as writer:
        writer.execute("select pgrag.stage_revision('w.md', 'Wiki ' || %s, p_revision => 'v1', p_title => %s, p_space => 'toy')", (SECRETS["wiki text"], SECRETS["wiki title"]))
        text = f"Wiki {SECRETS['wiki text']}"
        writer.execute("select pgrag.add_chunks('w.md', 'v1', 1, %s, '{0}', %s, '{1}', %s, p_embeddings => '{\"[1,0,0]\"}')", ([text], [len(text)], [SECRETS["wiki section"]]))
        assert writer.execute("select state from pgrag.verify_revision('w.md', 'v1', 1)").fetchone() == ("verified",)
        writer.execute("select pgrag.set_access('w.md', '{everyone}'), pgrag.activate('w.md', 'v1')")
    with module_database.writer("b", "handbook") as writer:
        put(writer, "own.md", f"Of b {SECRETS['b text']}.", vectors=[[1, 0, 0]], revision="v1", title=SECRETS["b title"])
    return module_database


@contextmanager
def listed(database: Database, tenant: str, source: str) -> Iterator[str]:
    with database.writer(tenant, source) as writer:
        yield json.dumps(writer.execute(MISSING, (True,)).fetchall())


def told(text: str) -> set[str]:
    return {name for name, value in SECRETS.items() if value in text}


@pytest.mark.contract("E2", "A5", "A9", "C1")
def test_what_is_to_be_encoded_is_listed_to_its_own_source(filled: Database) -> None:
    with listed(filled, "a", "handbook") as text:
        assert told(text) == set() and "Own text." in text and "Own title" in text  # whoever may read it: the connector brought it
    with listed(filled, "a", "wiki") as text:
        assert told(text) == {"wiki title", "wiki section", "wiki text"} and "Own" not in text
    with listed(filled, "b", "handbook") as text:
        assert told(text) == {"b text", "b title"}
    with listed(filled, "b", "wiki") as text:
        assert json.loads(text) == []
    # Control: without the source's guard the other source's texts are there.
    with patched(filled, "pgrag.missing_embeddings", ("and d.source_id = v_source.source_id", "")), listed(filled, "a", "handbook") as text:
        assert told(text) == {"wiki title", "wiki section", "wiki text"}


@pytest.mark.contract("E2", "A3", "A9")
def test_no_other_role_is_told_a_text(filled: Database) -> None:
    seen: list[Any] = []
    for role, kind in (("reader", "reader"), ("admin", "admin"), ("auditor", "auditor"), ("browser", "reader"), ("operator", ""), ("keys", "")):
        with filled.role(role) as connection:
            if kind:
                connection.execute("select pgrag.authenticate(%s)", (filled.token("a", "alice", kind),))
            for call in ("missing_embeddings('new')", "add_embeddings('w.md', 'v1', 'new', 1, '{\"[1,0,0]\"}')"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught, connection.transaction():
                    connection.execute(f"select * from pgrag.{call}")
                seen.append(str(caught.value))
    with filled.role("operator") as operator:
        for tenant in ("a", "b"):
            seen.append(operator.execute("select * from pgrag.space_status(%s)", (tenant,)).fetchall())
            for function in ("build_space", "switch_space", "retire_space"):
                for space in ("new", "toy", "none"):
                    try:
                        with operator.transaction(force_rollback=True):
                            seen.append(operator.execute(f"select pgrag.{function}(%s, %s)", (tenant, space)).fetchall())
                    except psycopg.Error as error:
                        seen.append(f"{error} {error.diag.message_detail} {error.diag.context}")
    assert told(repr(seen)) == set() and len(seen) == 32
    with filled.role("writer") as connection, pytest.raises(psycopg.Error) as caught:  # and nobody at all
        connection.execute(MISSING, (False,))
    assert caught.value.sqlstate == "RG201"


@pytest.mark.contract("E2", "A9")
def test_absent_and_foreign_read_the_same(filled: Database) -> None:
    def refusal(writer: psycopg.Connection[Any], *arguments: str) -> tuple[Any, ...]:
        call = "missing_embeddings(%s)" if len(arguments) == 1 else "add_embeddings(%s, %s, %s, 1, '{\"[1,0,0]\"}')"
        with pytest.raises(psycopg.Error) as caught, writer.transaction():
            writer.execute(f"select * from pgrag.{call}", arguments)
        diag = caught.value.diag
        return diag.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint

    with filled.role("operator") as operator:
        operator.execute("select pgrag.put_space('b', 'secret', 'm', '1', 3)")
    with filled.writer("a", "handbook") as writer:
        assert refusal(writer, "w.md", "v1", "new") == refusal(writer, "none.md", "v1", "new")
        assert refusal(writer, "w.md", "v1", "none") == refusal(writer, "none.md", "v9", "new")
        assert refusal(writer, "own.md", "v1", "secret") == refusal(writer, "own.md", "v1", "none")
        assert refusal(writer, "own.md", "v9", "new")[0] == "RG401"
        assert refusal(writer, "own.md", "v2", "new")[0] == "RG405"  # control: about its own it is told more
        assert refusal(writer, "secret") == refusal(writer, "none")
    # Nothing of it was kept.
    with filled.superuser() as superuser:
        assert superuser.execute("select count(*) from pgrag_data.chunk_vec join pgrag_data.embedding_space using (tenant_id, space_id) where space = 'new'").fetchone() == (0,)
