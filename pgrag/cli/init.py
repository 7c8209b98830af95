"""Installing: init."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg import sql
from psycopg.rows import dict_row
from rich.console import Console

import pgrag
from pgrag import __version__, _sql, tokens
from pgrag.cli._output import line
from pgrag.cli._run import DEFAULT_NAME, Run, Usage, command
from pgrag.config import Settings
from pgrag.errors import InstallError
from pgrag.setup import CorpusTenant, apply_corpus

_WHERE = """
    select current_database() as database, current_user as "user", rolsuper as superuser,
           current_setting('server_version') as server,
           (select extversion from pg_extension where extname = 'vector') as vector
      from pg_roles where rolname = current_user
"""


@command("init", "dsn", "kid", "issuer", "audience", "embedder", panel="Set up")
def init(
    run: Run,
    setup: Annotated[
        Path | None,
        typer.Option(help="Also create the tenants, sources and readers of this YAML file.", metavar="FILE"),
    ] = None,
    new_key: Annotated[
        bool,
        typer.Option(
            "--new-key", help="Also create a signing key, named by --kid. Whoever has it can mint any token."
        ),
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="Where its secret goes, readable by you alone. Left out: printed, once.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Install pgrag into a database, and say what was done. All of it happens, or nothing.

    As the owner of the database, a role with CREATEROLE, after a superuser's "create extension vector". What
    is there already stays as it is, so that it can be run again.

    $ pgrag init --dsn postgresql://owner@localhost/app --new-key --kid app-1 --key-file app-1.key

    $ pgrag init --setup corpus.yaml --embedder wordllama
    """
    kid = run.need("kid") if new_key else None
    if key_file is not None and not new_key:
        raise Usage("--key-file is for the secret of a new key", hint="add --new-key")
    if "embedder" in run.given and setup is None:
        raise Usage("--embedder is for the tenants of a file, which get its space", hint="add --setup")
    with (
        run.connect() as connection,
        _secret_file(key_file if new_key else None) as keep,
        connection.transaction(),
    ):
        done = _where(connection)
        done["installed"] = install(connection)
        secret = add_key(connection, kid, run.settings) if kid else None
        done["key"] = kid and _key(kid, secret, keep(secret) if secret else None)
        corpus = _apply(run, connection, setup, secret) if setup else None
        done["setup"] = corpus and summary(corpus)
    run.show(done, lambda out: _print(out, done))


# -- Steps, which the demo takes too --------------------------------------------------------------------


def install(connection: psycopg.Connection[Any]) -> bool:
    """Install this version in the connection's transaction; False if it is there already."""
    found = installed_version(connection)
    if found == __version__:
        return False
    if found is not None:
        raise InstallError(
            f"this database has pgrag {found}, and this is {__version__}",
            code="RG105",
            hint="To upgrade: python -m pgrag.migrations upgrade head, with the dsn in PGRAG_DSN.",
        )
    # A file of this package, byte for byte; psycopg wants a literal for everything else.
    connection.execute(_sql.install_script().encode())
    return True


def installed_version(connection: psycopg.Connection[Any]) -> str | None:
    """The version that an installation left as its stamp, whichever way it was done."""
    stamp = connection.execute("select to_regclass('public.pgrag_alembic_version')").fetchone()
    if stamp is None or stamp[0] is None:
        return None
    version = connection.execute("select version_num from public.pgrag_alembic_version").fetchone()
    return None if version is None else str(version[0])


@contextmanager
def borrowed(connection: psycopg.Connection[Any], *roles: str) -> Iterator[None]:
    """Membership in roles of pgrag for the length of the block, inside one transaction.

    Who installed has the right to grant them and is none of them: it gives back what it takes, so that the
    installation leaves an owner who cannot mint or administer.
    """
    taken = []
    for role in roles:
        row = connection.execute("select pg_has_role(%s, 'usage')", (role,)).fetchone()
        if row is not None and not row[0]:
            name = sql.Identifier(role)
            connection.execute(sql.SQL("grant {} to current_user with inherit true, set false").format(name))
            taken.append(name)
    yield
    for name in taken:
        connection.execute(sql.SQL("revoke {} from current_user granted by current_user").format(name))


def add_key(connection: psycopg.Connection[Any], kid: str, settings: Settings) -> bytes | None:
    """Register a new signing key; its secret, or None if there is a key of this name."""
    with borrowed(connection, "pgrag_keys"), pgrag.keys(connection) as keys:
        if any(one.kid == kid for one in keys.list()):
            return None
        secret = secrets.token_bytes(32)
        keys.add(kid, secret, settings.issuer or DEFAULT_NAME, settings.audience or DEFAULT_NAME)
    return secret


def summary(corpus: tuple[CorpusTenant, ...]) -> dict[str, int]:
    """How much a set-up file describes."""
    return {
        "tenants": len(corpus),
        "sources": sum(len(one.sources) for one in corpus),
        "principals": sum(len(one.principals) for one in corpus),
        "memberships": sum(len(one.memberships) for one in corpus),
    }


# -- The rest -------------------------------------------------------------------------------------------


def _where(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    found = connection.cursor(row_factory=dict_row).execute(_WHERE).fetchone()
    assert found is not None
    return {**found, "version": __version__}


def _apply(
    run: Run, connection: psycopg.Connection[Any], file: Path, secret: bytes | None
) -> tuple[CorpusTenant, ...]:
    key = secret or run.settings.signing_key
    if key is None:
        raise Usage(
            "--setup creates readers, and that takes an administrator's token",
            hint="--new-key creates the key that signs one; or give PGRAG_SIGNING_KEY and PGRAG_KID",
        )
    kid = run.need("kid")

    def admin_token(tenant: str) -> str:
        return tokens.mint(
            key,
            kid=kid,
            issuer=run.settings.issuer or DEFAULT_NAME,
            audience=run.settings.audience or DEFAULT_NAME,
            tenant=tenant,
            subject="pgrag init",
            kind="admin",
        )

    embedder = run.settings.open_embedder()
    with borrowed(connection, "pgrag_operator", "pgrag_admin"):
        return apply_corpus(
            connection,
            file,
            admin_token=admin_token,
            space=embedder.space if embedder else None,
        )


@contextmanager
def _secret_file(path: Path | None) -> Iterator[Callable[[bytes], str | None]]:
    """A new file of this user's alone, made before anything else is done and gone if it is not needed."""
    if path is None:
        yield lambda secret: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Usage(
            f"{path} cannot be made: {error.strerror}", hint="--key-file names a file that is not there yet"
        ) from None
    kept = False

    def keep(secret: bytes) -> str:
        nonlocal kept
        os.write(descriptor, secret.hex().encode() + b"\n")
        os.fsync(descriptor)
        kept = True
        return str(path)

    try:
        yield keep
    except BaseException:
        kept = False
        raise
    finally:
        os.close(descriptor)
        if not kept:
            path.unlink()


def _key(kid: str, secret: bytes | None, file: str | None) -> dict[str, Any]:
    shown = secret.hex() if secret and not file else None
    return {"kid": kid, "created": secret is not None, "file": file, "secret": shown}


def _print(out: Console, done: dict[str, Any]) -> None:
    who = "a superuser" if done["superuser"] else "not a superuser"
    rows = [
        ("database", f"{done['database']} as {done['user']}, {who}"),
        ("server", f"PostgreSQL {done['server']}, pgvector {done['vector']}"),
        ("pgrag", f"{done['version']} {'installed' if done['installed'] else 'was installed already'}"),
    ]
    if key := done["key"]:
        rows.append(("signing key", _about_key(key)))
    if setup := done["setup"]:
        rows.append(("set up", ", ".join(f"{number} {what}" for what, number in setup.items())))
    for name, text in rows:
        out.print(line((f"{name:12}", "bold"), text), soft_wrap=True)
    if done["installed"]:
        out.print(
            line((f"{'next':12}", "bold"), "grant pgrag_reader to <your application's login role>;"),
            soft_wrap=True,
        )


def _about_key(key: dict[str, Any]) -> str:
    if not key["created"]:
        return f"{key['kid']} was there already, and its secret is not shown again"
    return (
        f"{key['kid']} created, secret in {key['file']}"
        if key["file"]
        else f"{key['kid']} created, secret {key['secret']}"
    )
