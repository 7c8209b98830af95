"""A throw-away server with pgrag in it, and documents put there through pgrag's own writer functions."""

from __future__ import annotations

import datetime as dt
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

import pgrag
from pgrag import _sql, embedded, tokens
from pgrag.protocols import Chunk, EmbeddingSpace

KEY = {"kid": "benchmark", "issuer": "benchmark", "audience": "pgrag"}
SOURCE = "documents"
ALL, SOME = "all", "some"
"""The two readers of each tenant: one may see everything, the other what is not kept from it."""

SETTINGS = {"fsync": "off", "shared_buffers": "512MB", "max_wal_size": "4GB", "autovacuum": "off"}
"""Of the server; everything else as PostgreSQL comes."""

Vectors = NDArray[np.float32]


class Server:
    """One database with pgrag, and a superuser's connection to it on which each statement is its own transaction."""

    def __init__(self, server: embedded.EmbeddedServer, secret: bytes | None = None) -> None:
        self.embedded = server
        self._secret = secret or secrets.token_bytes(32)
        self.connection = psycopg.connect(server.superuser_dsn, autocommit=True, prepare_threshold=None)
        installed = self.connection.execute("select to_regnamespace('pgrag') is not null").fetchone()
        if installed != (True,):
            self.install()

    def install(self) -> None:
        """Put pgrag into the database, and beside it a schema for everybody else."""
        with self.connection.transaction():
            self.connection.execute("create extension if not exists vector")
            self.connection.execute(_sql.build())
            self.connection.execute(
                "grant pgrag_keys, pgrag_operator, pgrag_admin, pgrag_writer, pgrag_reader to current_user"
            )
            with pgrag.keys(self.connection) as keys:
                keys.add(KEY["kid"], self._secret, KEY["issuer"], KEY["audience"])
            self.connection.execute("create schema if not exists peer")

    def token(self, tenant: str, subject: str, kind: str = "reader") -> str:
        """A token that outlasts the run."""
        source = SOURCE if kind == "writer" else None
        lifetime = dt.timedelta(hours=20)
        return tokens.mint(
            self._secret, **KEY, tenant=tenant, subject=subject, kind=kind, source=source, lifetime=lifetime
        )

    def put_tenant(self, tenant: str, space: EmbeddingSpace | None) -> None:
        """A tenant with a source, a space and both readers."""
        with pgrag.operator(self.connection) as operator:
            operator.put_tenant(tenant)
            operator.put_source(tenant, SOURCE, processors=["benchmark"])
            if space is not None:
                operator.put_space(tenant, space)
        with pgrag.admin(self.connection, self.token(tenant, "benchmark", "admin")) as admin:
            for reader in (ALL, SOME):
                admin.put_principal(reader, "user")

    def put_documents(
        self,
        tenant: str,
        documents: Iterable[tuple[str, str, str, str, Sequence[Chunk]]],
        space: EmbeddingSpace | None,
        vectors: Vectors | None,
    ) -> None:
        """Documents as (key, title, language, body, chunks), all visible to everyone, in transactions of 500.

        ``vectors`` has one row for each chunk, in the same order. Statements are pipelined.
        """
        token, done, first = self.token(tenant, "benchmark", "writer"), 0, 0
        batch: list[tuple[str, str, str, str, Sequence[Chunk]]] = []

        def flush() -> None:
            nonlocal first
            with (
                self.connection.transaction(),
                self.connection.pipeline(),
                self.connection.cursor() as cursor,
            ):
                cursor.execute("select pgrag.authenticate(%s)", (token,))
                for key, title, language, body, chunks in batch:
                    rows = (
                        None
                        if vectors is None
                        else [literal(row) for row in vectors[first : first + len(chunks)]]
                    )
                    first += len(chunks)
                    for statement, parameters in _put(
                        key, title, language, body, chunks, space.space if space else None, rows
                    ):
                        cursor.execute(statement, parameters)
            batch.clear()

        for document in documents:
            batch.append(document)
            done += 1
            if len(batch) == 500:
                flush()
        flush()
        verified = self.connection.execute(
            "select count(*) from pgrag_data.document d join pgrag_data.tenant t using (tenant_id)"
            " where t.tenant = %s and d.active_revision_id is not null",
            (tenant,),
        ).fetchone()
        if verified != (done,):
            raise RuntimeError(f"{verified} of {done} documents of {tenant} could be put in force")

    def hide(self, tenant: str, keys: Sequence[str]) -> None:
        """Keep documents from the reader SOME."""
        with self.connection.transaction(), self.connection.pipeline():
            self.connection.execute(
                "select pgrag.authenticate(%s)", (self.token(tenant, "benchmark", "writer"),)
            )
            for key in keys:
                self.connection.execute("select pgrag.set_access(%s, array[%s])", (key, ALL))

    def lexemes(self, languages: Sequence[str], texts: Sequence[str]) -> list[list[str]]:
        """The lexemes of each text, once each, in all the languages: what a question is looked for with."""
        rows = self.connection.execute(
            """select array(select distinct lexeme collate "C"
                              from unnest(%s::text[]) as l (language),
                                   unnest(tsvector_to_array(pgrag_private.to_lexemes(l.language, t.text))) as lexeme
                             order by 1)
                 from unnest(%s::text[]) with ordinality as t (text, place) order by t.place""",
            (list(languages), list(texts)),
        )
        return [row[0] for row in rows]

    def versions(self) -> dict[str, str]:
        """What was measured, by name."""
        row = self.connection.execute(
            "select current_setting('server_version'), (select extversion from pg_extension where extname = 'vector')"
        ).fetchone()
        assert row is not None
        return {"postgresql": row[0], "pgvector": row[1]}


def _put(
    key: str,
    title: str,
    language: str,
    body: str,
    chunks: Sequence[Chunk],
    space: str | None,
    vectors: list[str] | None,
) -> Iterator[tuple[sql.SQL, Sequence[Any]]]:
    yield (
        sql.SQL("select pgrag.stage_revision(%s, %s, %s, %s, 'v1', p_space => %s)"),
        (key, body, title, language, space),
    )
    starts, ends = [chunk.start for chunk in chunks], [chunk.end for chunk in chunks]
    texts, counts = [chunk.text for chunk in chunks], [len(chunk.text.split()) for chunk in chunks]
    yield (
        sql.SQL("select pgrag.add_chunks(%s, 'v1', 1, %s, %s, %s, %s, p_embeddings => %s::public.vector[])"),
        (key, texts, starts, ends, counts, vectors),
    )
    yield sql.SQL("select pgrag.verify_revision(%s, 'v1', %s)"), (key, len(chunks))
    yield sql.SQL("select pgrag.set_access(%s, '{everyone}')"), (key,)
    yield sql.SQL("select pgrag.activate(%s, 'v1')"), (key,)


def literal(vector: NDArray[Any]) -> str:
    """A vector as pgvector and JSON both write it."""
    return json.dumps(vector.tolist(), separators=(",", ":"))


@contextmanager
def throw_away(**settings: str) -> Iterator[Server]:
    """A server in a temporary directory, stopped and removed at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="pgrag-benchmark-") as folder,
        embedded.start(Path(folder) / "data", settings={**SETTINGS, **settings}) as started,
    ):
        server = Server(started)
        with server.connection:
            yield server
