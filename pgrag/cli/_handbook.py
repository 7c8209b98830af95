"""The demo's world: an embedded server with the sample corpus, set up as a careful installation would be.

A superuser only creates the database and the extension. The owner installs; one login role asks, one
brings documents in, one keeps people and tenants, and each has no more than that takes.
"""

from __future__ import annotations

import json
import secrets
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

import pgrag
from pgrag import _sql, tokens
from pgrag.cli._run import DEFAULT_NAME
from pgrag.cli.init import add_key, borrowed, install
from pgrag.config import Settings
from pgrag.embedded import EmbeddedServer, write_private
from pgrag.errors import PgragError
from pgrag.ingest import StructureChunker, WordTokenizer, walk_documents
from pgrag.ingest.pipeline import IngestReport, Progress, ingest_folder
from pgrag.models import Packet, Verdict
from pgrag.protocols import Embedder
from pgrag.setup import CorpusTenant, apply_corpus, load_corpus

DATABASE = "handbook"
_OWNER = "demo_owner"
_LOGINS = {
    "demo_reader": ("pgrag_reader",),
    "demo_connector": ("pgrag_writer",),
    "demo_keeper": ("pgrag_operator", "pgrag_admin"),
}
_KID = "demo"
_LOCK = 7090213004  # of advisory locks; two demos in one directory set up one after the other


@dataclass(frozen=True)
class Handbook:
    """The sample corpus in a database of ``server``, and the key that speaks for its people."""

    server: EmbeddedServer
    key: bytes
    kid: str
    embedder: Embedder

    def dsn(self, user: str) -> str:
        """A connection string without a password, which is in a file of this user's alone."""
        return _dsn(self.server, user)

    def token(self, tenant: str, subject: str, kind: str = "reader", source: str | None = None) -> str:
        """A token of 15 minutes."""
        return tokens.mint(
            self.key,
            kid=self.kid,
            issuer=DEFAULT_NAME,
            audience=DEFAULT_NAME,
            tenant=tenant,
            subject=subject,
            kind=kind,
            source=source,
        )

    def ask(self, tenant: str, reader: str, question: str, *, as_of: str | None = None, k: int = 4) -> Packet:
        """A packet for a reader, by the role that can only ask."""
        with self._reading(tenant, reader) as session:
            return session.packet(question, as_of=as_of, k=k)

    def judge(
        self, tenant: str, reader: str, packet: dict[str, Any], reply: dict[str, Any]
    ) -> Verdict | PgragError:
        """The verdict on a reply, or the error if the packet is not this reader's."""
        try:
            with self._reading(tenant, reader) as session:
                return session.validate(packet, reply)
        except PgragError as error:
            return error

    @contextmanager
    def _reading(self, tenant: str, reader: str) -> Iterator[pgrag.Reader]:
        token = self.token(tenant, reader)
        with (
            pgrag.connect(self.dsn("demo_reader")) as connection,
            pgrag.reader(connection, token, embedder=self.embedder) as session,
        ):
            yield session


# -- Setting up: each step finds what an earlier run has done -------------------------------------------


@contextmanager
def alone(server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """The superuser's connection, while no other demo sets up in this server."""
    with psycopg.connect(server.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("select pg_advisory_lock(%s)", (_LOCK,))
        yield superuser


def create_database(server: EmbeddedServer, superuser: psycopg.Connection[Any]) -> None:
    """What takes a superuser: the roles that log in, a database of the owner's, the extension in it."""
    users = (_OWNER, *_LOGINS)
    passwords = {user: secrets.token_hex(16) for user in users}
    for user, password in passwords.items():
        known = superuser.execute("select 1 from pg_roles where rolname = %s", (user,)).fetchone()
        verb = sql.SQL("alter role" if known else "create role")
        options = sql.SQL("login createrole" if user == _OWNER else "login")
        superuser.execute(
            sql.SQL("{} {} {} password {}").format(verb, sql.Identifier(user), options, password)
        )
    write_private(
        _pgpass(server), "".join(f"*:*:*:{user}:{password}\n" for user, password in passwords.items())
    )
    if not superuser.execute("select 1 from pg_database where datname = %s", (DATABASE,)).fetchone():
        name, owner = sql.Identifier(DATABASE), sql.Identifier(_OWNER)
        superuser.execute(sql.SQL("create database {} owner {}").format(name, owner))
    with psycopg.connect(server.dsn(DATABASE), autocommit=True) as inside:
        inside.execute("create extension if not exists vector")


def install_as_owner(server: EmbeddedServer) -> tuple[bytes, str]:
    """Install, give each login its roles, and make a signing key or find the earlier run's."""
    before = _earlier_key(server)
    with pgrag.connect(_dsn(server, _OWNER)) as connection, connection.transaction():
        install(connection)
        for user, roles in _LOGINS.items():
            for role in roles:
                grant = sql.SQL("grant {} to {}")
                connection.execute(grant.format(sql.Identifier(role), sql.Identifier(user)))
        with borrowed(connection, "pgrag_keys"), pgrag.keys(connection) as keys:
            valid = {one.kid for one in keys.list() if one.retired_at is None}
        if before is not None and before[1] in valid:
            key, kid = before
        else:
            kid = f"{_KID}-{secrets.token_hex(4)}"
            key = _new_key(connection, kid)
    write_private(config_file(server), _config(server, key, kid))
    return key, kid


def _new_key(connection: psycopg.Connection[Any], kid: str) -> bytes:
    key = add_key(connection, kid, Settings())
    assert key is not None  # nobody else has the name
    return key


def put_people(handbook: Handbook) -> tuple[CorpusTenant, ...]:
    """Tenants, sources, people and groups, of the corpus's own file."""
    with pgrag.connect(handbook.dsn("demo_keeper")) as connection:
        return apply_corpus(
            connection,
            _sql.files("handbook") / "corpus.yaml",
            admin_token=lambda tenant: handbook.token(tenant, "demo", "admin"),
            space=handbook.embedder.space,
        )


def sources() -> dict[tuple[str, str], int]:
    """How many documents each source of each tenant has."""
    corpus = load_corpus(_sql.files("handbook") / "corpus.yaml")
    names = [(one.tenant, source.source) for one in corpus for source in one.sources]
    return {name: len({page.key for page in walk_documents(_folder(*name))[0]}) for name in names}


def put_pages(
    handbook: Handbook, tenant: str, source: str, progress: Callable[[Progress], None]
) -> IngestReport:
    """The pages of one source, by a connector that can write nowhere else."""
    with pgrag.connect(handbook.dsn("demo_connector")) as connection:
        return ingest_folder(
            connection,
            lambda: handbook.token(tenant, "demo", "writer", source),
            _folder(tenant, source),
            embedder=handbook.embedder,
            chunker=StructureChunker(),
            tokenizer=WordTokenizer(),
            progress=progress,
        )


def _folder(tenant: str, source: str) -> Path:
    return _sql.files("handbook") / tenant / source


# -- Its files ------------------------------------------------------------------------------------------


def config_file(server: EmbeddedServer) -> Path:
    """Settings with which the other commands go on."""
    return server.path / "pgrag.toml"


def _dsn(server: EmbeddedServer, user: str) -> str:
    return server.dsn(DATABASE, user, passfile=str(_pgpass(server)))


def _pgpass(server: EmbeddedServer) -> Path:
    return server.path / "pgpass"


def _config(server: EmbeddedServer, key: bytes, kid: str) -> str:
    settings = {
        "dsn": _dsn(server, "demo_reader"),
        "signing_key": key.hex(),
        "kid": kid,
        "tenant": "halvorsen",
        "subject": "alice",
        "embedder": "wordllama",
    }
    # JSON's strings are TOML's, but for escaped surrogate pairs: an emoji in the path would be one.
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in settings.items())


def _earlier_key(server: EmbeddedServer) -> tuple[bytes, str] | None:
    """Of the file alone: the environment may have settings for another database."""
    try:
        given = tomllib.loads(config_file(server).read_text(encoding="utf-8"))
        return bytes.fromhex(given["signing_key"]), str(given["kid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
