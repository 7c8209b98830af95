"""A tenant of its own for a test, and the few words that all tests of the functions use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import psycopg
import pytest

from tests.support import Database


class World:
    """One tenant of a database, with two sources and the users alice and bob, of whom alice is staff.

    Connections are taken from a pool, as an application would: opening one costs more than most questions.
    """

    pool: ClassVar[dict[str, list[psycopg.Connection[Any]]]] = {}  # emptied at the end of each module, see conftest.py

    def __init__(self, database: Database, tenant: str, space: tuple[str, int] | None = ("toy", 3)) -> None:
        self.database = database
        self.tenant = tenant
        with self.role("operator") as operator:
            call(operator, "put_tenant", tenant)
            for source in ("handbook", "wiki"):
                call(operator, "put_source", tenant, source)
            if space:
                call(operator, "put_space", tenant, space[0], "toy-model", "1", space[1], normalisation="none")
        with self.admin() as admin:
            for name, kind in (("alice", "user"), ("bob", "user"), ("staff", "group")):
                call(admin, "put_principal", name, kind)
            call(admin, "put_membership", "staff", "alice")

    @contextmanager
    def role(self, role: str, token: str | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection of an application role, in a transaction that commits."""
        dsn = self.database.dsn(f"app_{role}")
        idle = self.pool.setdefault(dsn, [])
        connection = idle.pop() if idle else psycopg.connect(dsn)
        try:
            with connection.transaction():
                if token is not None:
                    connection.execute("select pgrag.authenticate(%s)", (token,))
                yield connection
        finally:
            idle.append(connection)

    @classmethod
    def close(cls) -> None:
        while cls.pool:
            for connection in cls.pool.popitem()[1]:
                connection.close()

    def reader(self, name: str = "alice") -> AbstractContextManager[psycopg.Connection[Any]]:
        return self.role("reader", self.database.token(self.tenant, name))

    def writer(self, source: str = "handbook") -> AbstractContextManager[psycopg.Connection[Any]]:
        return self.role("writer", self.database.token(self.tenant, "connector", "writer", source=source))

    def admin(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return self.role("admin", self.database.token(self.tenant, "root", "admin"))

    def put(self, document: str, body: str | Sequence[str], *, source: str = "handbook", **more: Any) -> str:
        with self.writer(source) as writer:
            return self.database.put_document(writer, document, body, **more)

    def search(self, question: str, mode: str = "lexical", *, reader: str = "alice", **request: Any) -> dict[str, Any]:
        with self.reader(reader) as connection:
            return self.database.search(connection, question, mode, **request)

    def packet(self, question: str, mode: str = "lexical", *, reader: str = "alice", **request: Any) -> dict[str, Any]:
        with self.reader(reader) as connection:
            return self.database.packet(connection, question, mode, **request)

    def validate(self, packet: Any, reply: Any, *, reader: str = "alice") -> dict[str, Any]:
        with self.reader(reader) as connection:
            return self.database.validate(connection, packet, reply)


@contextmanager
def refused(connection: psycopg.Connection[Any], code: str | None, word: str = "") -> Iterator[None]:
    """The statement inside fails with this code (None: it does not fail), and the transaction stays usable."""
    if code is None:
        yield
        return
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        yield
    assert caught.value.sqlstate == code, caught.value
    assert word in str(caught.value)
    if code.startswith("RG"):
        assert caught.value.diag.message_hint  # every refusal says what to do next


def call(connection: psycopg.Connection[Any], function: str, *positional: Any, **named: Any) -> list[tuple[Any, ...]]:
    """``select * from pgrag.<function>(…)``, arguments by position and by name (without the p_)."""
    casts = {"embeddings": "::public.vector[]", "embedding": "::public.vector", "skips": "::int4range[]", "filter": "::jsonb"}
    arguments = ["%s"] * len(positional) + [f"p_{name} => %s{casts.get(name, '')}" for name in named]
    values = [*positional, *named.values()]
    return connection.execute(f"select * from pgrag.{function}({', '.join(arguments)})", values).fetchall()


def one(connection: psycopg.Connection[Any], function: str, *positional: Any, **named: Any) -> Any:
    """The single value that the function returns."""
    return call(connection, function, *positional, **named)[0][0]


def add(connection: psycopg.Connection[Any], document: str, revision: str, texts: Sequence[str], starts: Sequence[int] | None = None,
        ends: Sequence[int] | None = None, *, first: int = 1, vectors: Sequence[Sequence[float] | None] | None = None, **more: Any) -> int:
    """pgrag.add_chunks; spans laid end to end where none are given."""
    starts = [sum(map(len, texts[:n])) for n in range(len(texts))] if starts is None else list(starts)
    ends = [start + len(text) for start, text in zip(starts, texts, strict=True)] if ends is None else list(ends)
    if vectors is not None:
        more["embeddings"] = [None if vector is None else json.dumps(vector) for vector in vectors]
    return one(connection, "add_chunks", document, revision, first, list(texts), starts, ends, [1] * len(texts), **more)


def documents(found: dict[str, Any]) -> list[str]:
    """The documents of the hits or excerpts, best first."""
    return [hit["document"] for hit in found.get("hits", found.get("excerpts"))]
