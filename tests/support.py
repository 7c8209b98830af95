"""A pgrag database for a test, and the people who use it.

with database.reader("a", "alice") as connection:      # authenticated, in a transaction, rolled back
    database.search(connection, "refund window")
with database.writer("a", "handbook") as connection:   # committed
    database.put_document(connection, "refund.md", "Thirty days.", readers=["everyone"])
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jwt
import psycopg
from psycopg import sql

ROLES = ("reader", "writer", "admin", "auditor", "operator", "keys", "browser")
PASSWORD = "test-" + secrets.token_hex(8)
SECRET = secrets.token_bytes(32)
ISSUER, AUDIENCE, KID = "tests", "pgrag", "test-key"


class Database:
    """One database with pgrag in it; ``admin_dsn`` is a superuser's."""

    def __init__(self, admin_dsn: str, name: str) -> None:
        self.admin_dsn = admin_dsn
        self.name = name

    def dsn(self, user: str | None = None, **more: Any) -> str:
        """A connection string: of the superuser, or of one of the application's roles (``app_reader``)."""
        if user is not None:
            more |= {"user": user, "password": PASSWORD}
        return psycopg.conninfo.make_conninfo(self.admin_dsn, dbname=self.name, **more)

    def superuser(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(), autocommit=True)

    @contextmanager
    def role(self, role: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection of an application role, in a transaction that commits."""
        with psycopg.connect(self.dsn(f"app_{role}")) as connection:
            yield connection

    def token(
        self,
        tenant: str,
        subject: str,
        kind: str = "reader",
        *,
        secret: bytes = SECRET,
        kid: str = KID,
        **claims: Any,
    ) -> str:
        now = int(time.time())
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "tenant": tenant,
            "kind": kind,
            "exp": now + 3600,
            "nbf": now - 60,
        }
        payload |= claims
        payload = {key: value for key, value in payload.items() if value is not None}
        return jwt.encode(payload, secret, algorithm="HS256", headers={"kid": kid})

    @contextmanager
    def _authenticated(self, role: str, token: str) -> Iterator[psycopg.Connection[Any]]:
        with self.role(role) as connection:
            connection.execute("select pgrag.authenticate(%s)", (token,))
            yield connection

    @contextmanager
    def reader(self, tenant: str, subject: str) -> Iterator[psycopg.Connection[Any]]:
        with self._authenticated("reader", self.token(tenant, subject)) as connection:
            yield connection

    @contextmanager
    def writer(self, tenant: str, source: str) -> Iterator[psycopg.Connection[Any]]:
        with self._authenticated(
            "writer", self.token(tenant, "connector", "writer", source=source)
        ) as connection:
            yield connection

    @contextmanager
    def admin(self, tenant: str) -> Iterator[psycopg.Connection[Any]]:
        with self._authenticated("admin", self.token(tenant, "root", "admin")) as connection:
            yield connection

    # What tests say again and again.

    def put_tenant(
        self, tenant: str, sources: Sequence[str] = ("handbook",), space: tuple[str, int] | None = ("toy", 3)
    ) -> None:
        """A tenant with sources, and with an embedding space (name, dimension) unless that is None."""
        with self.role("operator") as connection:
            connection.execute("select pgrag.put_tenant(%s)", (tenant,))
            for source in sources:
                connection.execute("select pgrag.put_source(%s, %s)", (tenant, source))
            if space:
                connection.execute(
                    "select pgrag.put_space(%s, %s, 'toy-model', '1', %s, p_normalisation => 'none')",
                    (tenant, *space),
                )

    def put_principals(
        self, tenant: str, users: Sequence[str] = (), groups: dict[str, Sequence[str]] | None = None
    ) -> None:
        """Users, and groups with their members (users or groups, in any order)."""
        groups = groups or {}
        with self.admin(tenant) as connection:
            for user in users:
                connection.execute("select pgrag.put_principal(%s, 'user')", (user,))
            for group in groups:
                connection.execute("select pgrag.put_principal(%s, 'group')", (group,))
            for group, members in groups.items():
                for member in members:
                    connection.execute("select pgrag.put_membership(%s, %s)", (group, member))

    def put_document(
        self,
        connection: psycopg.Connection[Any],
        document: str,
        body: str | Sequence[str],
        *,
        readers: Sequence[str] | None = ("everyone",),
        revision: str | None = None,
        vectors: Sequence[Sequence[float]] | None = None,
        space: str | None = None,
        activate: bool = True,
        **metadata: Any,
    ) -> str:
        """Stage, chunk (one chunk, or one for each text given), verify, set readers, activate; the revision's name."""
        texts = [body] if isinstance(body, str) else list(body)
        if vectors is not None:
            space = space or "toy"
        arguments = {
            "p_document": document,
            "p_body": "".join(texts),
            "p_revision": revision,
            "p_space": space,
        }
        arguments |= {f"p_{name}": value for name, value in metadata.items()}
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
        )
        name = connection.execute(
            sql.SQL("select revision from pgrag.stage_revision({})").format(named), arguments
        ).fetchone()[0]
        starts = [sum(map(len, texts[:n])) for n in range(len(texts))]
        ends = [start + len(text) for start, text in zip(starts, texts, strict=True)]
        embeddings = (
            None if vectors is None else ["[" + ",".join(map(repr, vector)) + "]" for vector in vectors]
        )
        for first in range(0, len(texts), 2000):
            batch = slice(first, first + 2000)
            connection.execute(
                "select pgrag.add_chunks(%s, %s, %s, %s, %s, %s, %s, p_embeddings => %s::public.vector[])",
                (
                    document,
                    name,
                    first + 1,
                    texts[batch],
                    starts[batch],
                    ends[batch],
                    [len(t.split()) for t in texts[batch]],
                    embeddings and embeddings[batch],
                ),
            )
        state, _, faults = connection.execute(
            "select * from pgrag.verify_revision(%s, %s, %s)", (document, name, len(texts))
        ).fetchone()
        assert state == "verified", faults
        if readers is not None:
            connection.execute("select pgrag.set_access(%s, %s)", (document, list(readers)))
        if activate:
            connection.execute("select pgrag.activate(%s, %s)", (document, name))
        return name

    def put_many(self, tenant: str, document: str, count: int = 1600, readers: Sequence[str] = ("everyone",)) -> None:
        """A document with so many tiny passages and vectors, and costs by which 1,000 vectors deserve a block."""
        with self.superuser() as superuser:
            superuser.execute("update pgrag_data.search_cost set microseconds = 1000 where part = 'vector'")
        vectors = [(math.cos(n), math.sin(n), 1.0) for n in range(count)]
        with self.writer(tenant, "handbook") as writer:
            self.put_document(writer, document, [f"Word {n}. " for n in range(count)], readers=readers, vectors=vectors)

    def search(
        self, connection: psycopg.Connection[Any], question: str, mode: str = "lexical", **request: Any
    ) -> dict[str, Any]:
        """pgrag.search_json."""
        request = {"question": question, "mode": mode} | request
        return connection.execute("select pgrag.search_json(%s)", (json.dumps(request),)).fetchone()[0]

    def packet(
        self, connection: psycopg.Connection[Any], question: str, mode: str = "lexical", **request: Any
    ) -> dict[str, Any]:
        """pgrag.packet_json."""
        request = {"question": question, "mode": mode} | request
        return connection.execute("select pgrag.packet_json(%s)", (json.dumps(request),)).fetchone()[0]

    def validate(self, connection: psycopg.Connection[Any], packet: Any, reply: Any) -> dict[str, Any]:
        return connection.execute(
            "select pgrag.validate_reply(%s, %s)", (json.dumps(packet), json.dumps(reply))
        ).fetchone()[0]
