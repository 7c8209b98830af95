"""Minting: token."""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum
from typing import Annotated

import typer

from pgrag.cli._run import Run, Usage, command


class Kind(StrEnum):
    """What a token lets its bearer do."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"
    AUDITOR = "auditor"


_UNITS = {"s": 1, "m": 60, "h": 3600}


@command("token", "tenant", "subject", "source", panel="Set up")
def token(
    run: Run,
    kind: Annotated[Kind, typer.Option(help="A writer's token is for one --source.")] = Kind.READER,
    lifetime: Annotated[str, typer.Option(help="At most 24h, as 90s, 15m or 8h.", metavar="TIME")] = "15m",
) -> None:
    """Mint a token and print it, alone.

    It is signed on this machine with the key of PGRAG_SIGNING_KEY (hexadecimal), named PGRAG_KID, for
    PGRAG_ISSUER and PGRAG_AUDIENCE. Whoever holds the token is its subject until it expires.

    $ export PGRAG_TOKEN=$(pgrag token --tenant acme --subject alice)
    """
    seconds = _seconds(lifetime)
    minted = run.mint(kind.value, dt.timedelta(seconds=seconds))
    if run.as_json:
        run.show({"token": minted, "kind": kind.value, "expires_in": seconds}, lambda out: None)
    else:
        print(minted)


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([smh])", text, re.ASCII)
    if not found:
        raise Usage(f"{text[:20]!r} is no lifetime", hint="for example 90s, 15m or 8h")
    return int(found[1]) * _UNITS[found[2]]
