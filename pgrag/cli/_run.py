"""One run of a command: its settings, its sessions, its output, and how it ends.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 abstained (search, packet), 4 invalid reply
(validate), 130 interrupted, 141 the reader of a pipe went away.
"""

from __future__ import annotations

import datetime as dt
import errno
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any

import jwt
import psycopg
import typer
from rich.console import Console

import pgrag
from pgrag import __version__, tokens
from pgrag.cli import _output
from pgrag.config import Settings
from pgrag.embedded import EmbeddedError
from pgrag.errors import InvalidInput, PgragError, from_database

# What psycopg warns of when it is interrupted within a statement is no output of a command; errors are.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

OK, FAILED, USAGE, ABSTAINED, INVALID_REPLY, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

DEFAULT_NAME = "pgrag"
_PANEL = "Settings (else from the environment, else from pgrag.toml)"


def _setting(option_name: str, about: str) -> Any:
    option = typer.Option(f"--{option_name}", help=about, show_default=False, rich_help_panel=_PANEL)
    return Annotated[str | None, option]


_SHARED: Mapping[str, Any] = {
    "dsn": _setting("dsn", "The database, as a libpq connection string or URL \\[PGRAG_DSN]."),
    "token": _setting(
        "token", "Who is asking. Left out, one is minted with the signing key \\[PGRAG_TOKEN]."
    ),
    "tenant": _setting("tenant", "Tenant of a token that is minted \\[PGRAG_TENANT]."),
    "subject": _setting(
        "subject", "Reader, connector or administrator of a token that is minted \\[PGRAG_SUBJECT]."
    ),
    "source": _setting("source", "Source of the documents \\[PGRAG_SOURCE]."),
    "kid": _setting("kid", "Name of the signing key \\[PGRAG_KID]."),
    "issuer": _setting("issuer", "Issuer in tokens; pgrag if left out \\[PGRAG_ISSUER]."),
    "audience": _setting("audience", "Audience of tokens; pgrag if left out \\[PGRAG_AUDIENCE]."),
    "embedder": _setting("embedder", "wordllama, sentence-transformers:… or http:… \\[PGRAG_EMBEDDER]."),
    "next_embedder": _setting(
        "next-embedder", "That of the space beside the active one \\[PGRAG_NEXT_EMBEDDER]."
    ),
    "reranker": _setting("rerank", "mmr, cross-encoder:<folder> or http:<URL> \\[PGRAG_RERANKER]."),
}
_CONFIG = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="File with settings \\[PGRAG_CONFIG, else ./pgrag.toml].",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
_JSON = Annotated[bool, typer.Option("--json", help="One JSON document on standard output and nothing else.")]

READER = ("dsn", "token", "tenant", "subject", "embedder")
WRITER = ("dsn", "token", "tenant", "subject", "source")

app = typer.Typer(
    name="pgrag",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback with local variables would show tokens
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no evidence (search, packet), "
    "4 a reply that is not valid (validate), 130 interrupted. With --json, errors are JSON too, but for "
    "arguments and options that are missing or not known.",
)


@app.callback(invoke_without_command=True)
def _about(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """PostgreSQL decides what a language model gets to see: evidence for who is asking, and nothing else.

    Start with: pgrag demo
    """
    if version:
        print(f"pgrag {__version__}")
        raise typer.Exit


class Usage(PgragError):
    """The command line itself is wrong or incomplete."""


class Run:
    """What a command gets beside its own arguments."""

    def __init__(self, given: Mapping[str, str | None], as_json: bool) -> None:
        self.given = {name: value for name, value in given.items() if value is not None}
        self.as_json = as_json

    @cached_property
    def settings(self) -> Settings:
        """The command line's settings, else the environment's, else the file's."""
        return Settings.load(**self.given)

    # -- Sessions ---------------------------------------------------------------------------------------

    def need(self, name: str) -> str:
        """A setting, which the command cannot do without."""
        value: str | None = getattr(self.settings, name)
        if value is None:
            option = f"--{name.replace('_', '-')} or " if name in _SHARED else ""
            raise Usage(
                f"no {name.replace('_', ' ')} is given",
                hint=f"{option}PGRAG_{name.upper()}, or {name} in pgrag.toml",
            )
        return value

    def token(self, kind: str) -> str:
        """The token that is given; or a new one for the tenant and subject, if the signing key is at hand."""
        # Who names a subject means that one, whatever token the environment has.
        minted = "token" not in self.given and self.given.keys() & {"tenant", "subject"}
        if self.settings.token is not None and not minted:
            self._check_source(self.settings.token)
            return self.settings.token
        if self.settings.signing_key is None:
            raise Usage(
                "no token is given, nor a key to sign one with",
                hint="--token or PGRAG_TOKEN; or PGRAG_SIGNING_KEY, PGRAG_KID, --tenant and --subject",
            )
        return self.mint(kind)

    def _check_source(self, token: str) -> None:
        """Refuse a source on the command line that is not the writer's token's, which alone counts."""
        given = self.given.get("source")
        if given is None:
            return
        claims = unverified(token) or {}  # of what is no token, the database says so
        if claims.get("source", given) != given:
            raise Usage(f"the token is for another source than {given}", hint="leave out one of the two")

    def mint(self, kind: str, lifetime: dt.timedelta = dt.timedelta(minutes=15)) -> str:
        """A token by the signing key, for the tenant, the subject and (of a writer) the source."""
        key = self.settings.signing_key
        if key is None:
            raise Usage("no signing key is given", hint="PGRAG_SIGNING_KEY, or signing_key in pgrag.toml")
        return tokens.mint(
            key,
            kid=self.need("kid"),
            issuer=self.settings.issuer or DEFAULT_NAME,
            audience=self.settings.audience or DEFAULT_NAME,
            tenant=self.need("tenant"),
            subject=self.need("subject"),
            kind=kind,
            source=self.need("source") if kind == "writer" else None,
            lifetime=lifetime,
        )

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection, closed at the end of the block."""
        try:
            connection = pgrag.connect(self.need("dsn"))
        except (psycopg.ProgrammingError, UnicodeError):
            # libpq quotes what it cannot parse, and that may be a password.
            raise Usage(
                "the dsn is not a connection string", hint="for example postgresql://user@host/database"
            ) from None
        with connection:
            yield connection

    # -- Output -----------------------------------------------------------------------------------------

    def show(self, document: Any, people: Callable[[Console], None]) -> None:
        """The result: as JSON, or as ``people`` is told to print it."""
        if self.as_json:
            _output.write_json(document)
        else:
            people(_output.console())


def command(
    name: str, *shared: str, panel: str, group: typer.Typer = app
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Make a function a command: ``function(run, **arguments)``, which returns an exit code or None for 0.

    The settings named by ``shared``, ``--config`` and ``--json`` are added to its options.
    """

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        options = {key: _SHARED[key] for key in shared} | {"config": _CONFIG} if shared else {}

        def entry(**arguments: Any) -> None:
            as_json = arguments.pop("as_json")
            given = {key: arguments.pop(key) for key in options}
            raise typer.Exit(_outcome(lambda: function(Run(given, as_json), **arguments), as_json))

        added = [_keyword(key, annotation) for key, annotation in options.items()]
        entry_signature = inspect.Signature(
            [*(p.replace(kind=p.KEYWORD_ONLY) for p in own), *added, _keyword("as_json", _JSON, False)]
        )
        entry.__signature__ = entry_signature  # type: ignore[attr-defined]  # what typer reads
        entry.__annotations__ = {p.name: p.annotation for p in entry_signature.parameters.values()}
        entry.__doc__ = function.__doc__
        group.command(name, rich_help_panel=panel)(entry)
        return function

    return register


def _keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _outcome(run: Callable[[], int | None], as_json: bool) -> int:
    """The exit code of a run, after saying what went wrong."""
    try:
        code = run() or OK
        sys.stdout.flush()  # here, where a broken pipe is still ours to handle
        return code
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _output.write_error("interrupted", as_json=as_json)
        return INTERRUPTED
    except psycopg.Error as error:
        known = from_database(error)
        if known is None:
            _output.write_error(
                _fact(error), code=error.sqlstate or "", hint=_next_step(error), as_json=as_json
            )
        else:
            _write_known(known, as_json)
    except EmbeddedError as error:
        _output.write_error(str(error), hint=error.hint, as_json=as_json)
    except PgragError as error:
        _write_known(error, as_json)
        return USAGE if isinstance(error, Usage) else FAILED
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _forget_output()
        _output.write_error(f"the output cannot be written: {error.strerror}", as_json=as_json)
    return FAILED


def unverified(token: str) -> dict[str, Any] | None:
    """What a token says of itself, None if it is none. Only to choose the call by: the database verifies."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.InvalidTokenError, UnicodeEncodeError):
        return None
    return claims


def _forget_output() -> None:
    # Python would complain once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_known(error: PgragError, as_json: bool) -> None:
    _output.write_error(
        error.message,
        code="" if error.code == "RG000" else error.code,
        detail=error.detail,
        hint=error.hint,
        as_json=as_json,
    )


def _fact(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip() or type(error).__name__


def _next_step(error: psycopg.Error) -> str:
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            "search, packet and validate need the role pgrag_reader, ingest and space fill pgrag_writer, "
            "doctor, maintain, calibrate, index and space pgrag_operator; init needs the database's owner: "
            "grant the role to the user of the dsn, or give another dsn"
        )
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return "is the server running, and is the dsn right? See --dsn and PGRAG_DSN"
    return error.diag.message_hint or ""


# -- Arguments ------------------------------------------------------------------------------------------


def whole_number(what: str, text: str, code: str) -> int:
    """The number that a text is; its bounds are for the session to check.

    Raises InvalidInput for "1.5", "true", "2x" or "".
    """
    if not re.fullmatch(r"-?[0-9]{1,9}", text, re.ASCII):
        fact = f"{what} must be a whole number, not {text[:40]!r}"
        raise InvalidInput(fact, code=code, hint="Write it without a fraction, for example 5.")
    return int(text)
