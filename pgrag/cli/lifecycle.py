"""What is in force, and for whom: activate, rollback, revoke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

import pgrag
from pgrag.cli._output import line
from pgrag.cli._run import WRITER, Run, command, unverified
from pgrag.errors import IdentityError

_LIFECYCLE = "Change"

Document = Annotated[str, typer.Argument(help="The document's key: its path below the root of its source.")]
Expected = Annotated[
    str | None,
    typer.Option(
        "--expected", help="Only if this revision is the active one; '' for none.", metavar="REVISION"
    ),
]


@contextmanager
def _changing(run: Run) -> Iterator[tuple[Any, dict[str, str]]]:
    """A session that may change documents, and the argument by which it is told the source.

    A writer's token has its source in it; an administrator's has not, and needs --source.
    """
    token = run.token("writer")
    with run.connect() as connection:
        if _kind(token) == "admin":
            source = run.need("source")
            with pgrag.admin(connection, token) as admin:
                yield admin, {"source": source}
        else:
            with pgrag.writer(connection, token) as writer:
                yield writer, {}


def _kind(token: str) -> str:
    claims = unverified(token)
    if claims is None:
        raise IdentityError(
            "the token is not a token that pgrag understands", code="RG202", hint="pgrag token mints one."
        )
    return str(claims.get("kind"))


@command("activate", *WRITER, panel=_LIFECYCLE)
def activate(
    run: Run,
    document: Document,
    revision: Annotated[str, typer.Argument(help="A verified revision of it.")],
    expected: Expected = None,
    restore: Annotated[bool, typer.Option("--restore", help="Also bring a deleted document back.")] = False,
) -> None:
    """Put a revision in force. Readers see all of the old one or all of the new one.

    $ pgrag activate policies/refund-window.md 2024-06-01 --source handbook --expected 2023-02-01
    """
    with _changing(run) as (session, where):
        changed = session.activate(document, revision, expected_active=expected, restore=restore, **where)
    said = "is in force now" if changed else "was in force already"
    run.show(
        {"document": document, "revision": revision, "changed": changed},
        lambda out: out.print(line((revision, "bold"), f" of {document} {said}")),
    )


@command("rollback", *WRITER, panel=_LIFECYCLE)
def rollback(
    run: Run,
    document: Document,
    to: Annotated[
        str | None, typer.Option("--to", help="Left out: the one before.", metavar="REVISION")
    ] = None,
    expected: Expected = None,
) -> None:
    """Put an earlier revision back in force, and withdraw the one that is.

    $ pgrag rollback policies/refund-window.md --source handbook
    """
    with _changing(run) as (session, where):
        revision = session.rollback(document, to, expected_active=expected, **where)
    run.show(
        {"document": document, "revision": revision},
        lambda out: out.print(line((revision, "bold"), f" of {document} is in force again")),
    )


@command("revoke", *WRITER, panel=_LIFECYCLE)
def revoke(
    run: Run,
    document: Document,
    readers: Annotated[
        str,
        typer.Option(
            help="Who may still read it: users, services, groups or everyone, with commas.",
            metavar="A,B",
            show_default="nobody",
        ),
    ] = "",
) -> None:
    """Say who may still read a document; by default nobody. At once, and for all its revisions.

    $ pgrag revoke policies/refund-window.md --source handbook --readers finance,bob
    """
    names = [name for name in (part.strip() for part in readers.split(",")) if name]
    with _changing(run) as (session, where):
        # The administrator's names the source first.
        changed = session.set_access(*where.values(), document, names)
    who = ", ".join(names) if names else "nobody"
    run.show(
        {"document": document, "readers": names, "changed": changed},
        lambda out: out.print(
            line(document, " is read by ", (who, "bold"), "" if changed else ", as before")
        ),
    )
