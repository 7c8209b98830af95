"""Tokens: what is minted here is what the database accepts, and nothing else is minted."""

from __future__ import annotations

import datetime as dt
from typing import Any

import jwt
import psycopg
import pytest

from pgrag.errors import IdentityError, InvalidInput, PgragError
from pgrag.tokens import KINDS, LONGEST, mint
from tests.support import AUDIENCE, ISSUER, KID, SECRET, Database

GOOD: dict[str, Any] = {"kid": KID, "issuer": ISSUER, "audience": AUDIENCE, "tenant": "a", "subject": "alice"}


@pytest.fixture(scope="module")
def tenant(module_database: Database) -> Database:
    module_database.put_tenant("a")
    return module_database


def whoami(database: Database, kind: str, token: str) -> tuple[Any, ...] | None:
    with psycopg.connect(database.dsn(f"app_{kind}")) as connection:
        return connection.execute(
            "select tenant, subject, kind, source from pgrag.whoami(%s)", (token,)
        ).fetchone()


@pytest.mark.contract("A2")
@pytest.mark.parametrize("kind", KINDS)
def test_the_database_accepts_what_is_minted(tenant: Database, kind: str) -> None:
    source = "handbook" if kind == "writer" else None
    for subject in ("alice", "o'neill+ärzte@例え.example", "x" * 200):
        token = mint(SECRET, **(GOOD | {"subject": subject}), kind=kind, source=source)
        assert whoami(tenant, kind, token) == ("a", subject, kind, source)


@pytest.mark.contract("A2")
def test_the_database_refuses_what_time_has_passed(tenant: Database) -> None:
    now = dt.datetime.now(dt.UTC)
    minute = dt.timedelta(minutes=1)
    for code, start in (("RG204", now - 2 * minute), ("RG205", now + 5 * minute)):
        with pytest.raises(psycopg.Error) as error:
            whoami(tenant, "reader", mint(SECRET, **GOOD, lifetime=minute, now=start))
        assert error.value.sqlstate == code
    # Control, and a clock that is half a minute fast here does no harm.
    for start in (now, now.astimezone(dt.timezone(dt.timedelta(hours=-7))), now + minute / 2):
        assert whoami(tenant, "reader", mint(SECRET, **GOOD, lifetime=minute, now=start))


def test_what_a_token_says() -> None:
    now = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    token = mint(
        "a text of at least thirty-two bytes", **GOOD, kind="writer", source="wiki", lifetime=LONGEST, now=now
    )
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT", "kid": KID}
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims == {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant": "a", "kind": "writer", "source": "wiki",
        "nbf": now.timestamp() - 60, "exp": now.timestamp() + 86400,
    }  # fmt: skip
    assert "source" not in jwt.decode(mint(SECRET, **GOOD), options={"verify_signature": False})


@pytest.mark.parametrize(
    ("kind", "code", "arguments"),
    [
        (IdentityError, "RG211", {"secret": b"x" * 31}),
        (IdentityError, "RG211", {"secret": "x" * 31}),
        (IdentityError, "RG211", {"secret": b"x" * 1025}),
        (IdentityError, "RG211", {"secret": None}),
        (IdentityError, "RG211", {"secret": "\udcff" * 40}),
        (IdentityError, "RG211", {"kid": "a b"}),
        (IdentityError, "RG211", {"kid": ""}),
        (IdentityError, "RG202", {"kind": "root"}),
        (IdentityError, "RG202", {"kind": "writer"}),
        (IdentityError, "RG202", {"kind": "reader", "source": "wiki"}),
        (IdentityError, "RG202", {"lifetime": dt.timedelta(0)}),
        (IdentityError, "RG202", {"lifetime": dt.timedelta(seconds=-1)}),
        (IdentityError, "RG202", {"lifetime": LONGEST + dt.timedelta(seconds=1)}),
        (IdentityError, "RG202", {"lifetime": 900}),
        (IdentityError, "RG202", {"now": dt.datetime(2026, 3, 1)}),
        (InvalidInput, "RG406", {"tenant": ""}),
        (InvalidInput, "RG406", {"subject": " alice"}),
        (InvalidInput, "RG406", {"subject": "a\nb"}),
        (InvalidInput, "RG406", {"subject": "x" * 201}),
        (InvalidInput, "RG406", {"subject": "a\udcff"}),
        (InvalidInput, "RG406", {"audience": None}),
        (InvalidInput, "RG406", {"kind": "writer", "source": ""}),
    ],
)
def test_what_is_not_minted(kind: type[PgragError], code: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(kind) as error:
        mint(**({"secret": SECRET} | GOOD | arguments))
    assert error.value.code == code and error.value.hint
    assert mint(SECRET, **GOOD)  # control
