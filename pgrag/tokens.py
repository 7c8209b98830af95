"""Minting tokens: the application server's part of an identity. The database only verifies.

A token is a JSON Web Token signed with HS256, so that any JWT library can make one. It says which tenant
and which subject it is for; what the subject may read is never in it, so that a revocation works at once.
"""

from __future__ import annotations

import datetime as dt
import re

import jwt

from pgrag.errors import IdentityError, InvalidInput

KINDS = ("reader", "writer", "admin", "auditor")
SHORTEST = dt.timedelta(seconds=1)
LONGEST = dt.timedelta(hours=24)
# Two servers' clocks are never the same: a token must not be refused for being a moment too young.
_SKEW = dt.timedelta(seconds=60)


def mint(
    secret: bytes | str,
    *,
    kid: str,
    issuer: str,
    audience: str,
    tenant: str,
    subject: str,
    kind: str = "reader",
    source: str | None = None,
    lifetime: dt.timedelta = dt.timedelta(minutes=15),
    now: dt.datetime | None = None,
) -> str:
    """A token for ``subject`` of ``tenant``, valid for ``lifetime``, from one second to 24 hours.

    ``secret`` is what was registered under ``kid``, at least 32 bytes; text stands for its UTF-8 bytes and
    is not decoded from hexadecimal. ``kind`` is reader, writer, admin or auditor, and a writer names its
    ``source``. ``now`` (aware) is for tests.

    Raises IdentityError (RG202, RG211) or, for a name that the database would refuse, InvalidInput (RG406).
    """
    key = secret_bytes(secret)
    if not isinstance(kid, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", kid):
        raise IdentityError(
            "this cannot be the name of a key",
            code="RG211",
            hint="Use 1 to 64 letters, digits, hyphens or underscores.",
        )
    if kind not in KINDS:
        raise _refused("the kind of token is not known", f"Kinds: {', '.join(KINDS)}.")
    if (kind == "writer") != (source is not None):
        raise _refused("a writer's token names a source, and no other does", "Give source= with a writer.")
    if not isinstance(lifetime, dt.timedelta) or not SHORTEST <= lifetime <= LONGEST:
        raise _refused(
            "the lifetime must be from one second to 24 hours",
            "Mint short tokens, and new ones when they are needed.",
        )
    if now is None:
        now = dt.datetime.now(dt.UTC)
    elif now.tzinfo is None:
        raise _refused("now must say its time zone", "For example datetime.now(UTC).")
    names = {"issuer": issuer, "audience": audience, "tenant": tenant, "subject": subject, "source": source}
    for what, name in names.items():
        if name is not None or what != "source":
            _check_name(what, name)
    try:
        nbf, exp = int((now - _SKEW).timestamp()), int((now + lifetime).timestamp())
    except OverflowError:
        raise _refused("now is too near the end of all dates", "Leave it out for the present.") from None
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": subject,
        "tenant": tenant,
        "kind": kind,
        "nbf": nbf,
        "exp": exp,
    }
    if source is not None:
        claims["source"] = source
    return jwt.encode(claims, key, algorithm="HS256", headers={"kid": kid})


def secret_bytes(secret: bytes | str) -> bytes:
    """The bytes of a signing secret, of which there are 32 to 1024. Raises IdentityError (RG211)."""
    if isinstance(secret, str):
        try:
            secret = secret.encode()
        except UnicodeEncodeError:
            raise IdentityError(
                "the secret has characters that are no text", code="RG211", hint="Pass it as bytes."
            ) from None
    if not isinstance(secret, bytes) or not 32 <= len(secret) <= 1024:
        raise IdentityError(
            "the secret must have 32 to 1024 bytes",
            code="RG211",
            hint="Take 32 bytes of a strong random source, for example: openssl rand -hex 32.",
        )
    return secret


def _check_name(what: str, name: object) -> None:
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= 200
        or name != name.strip(" ")
        or re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name)
    ):
        raise InvalidInput(
            f"this cannot be the name of the {what}",
            code="RG406",
            hint="Use 1 to 200 characters, without control characters and without white space at either end.",
        )


def _refused(fact: str, hint: str) -> IdentityError:
    return IdentityError(fact, code="RG202", hint=hint)
