"""Tokens that a JWT library refuses to make: any header, any payload, any signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

from tests.support import AUDIENCE, ISSUER, KID, SECRET

HEADER = {"alg": "HS256", "typ": "JWT", "kid": KID}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def b64url(data: bytes | str) -> str:
    data = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(payload: Any, header: Any = HEADER, secret: bytes = SECRET, digest: Any = hashlib.sha256) -> str:
    """A token with a good HMAC over whatever it is given: text goes in as it is, all else as JSON."""
    parts = [part if isinstance(part, bytes | str) else json.dumps(part) for part in (header, payload)]
    signed = ".".join(map(b64url, parts))
    return f"{signed}.{b64url(hmac.new(secret, signed.encode(), digest).digest())}"


def claims(tenant: str, subject: str, /, **changes: Any) -> dict[str, Any]:
    """A reader's claims; a change to None takes a claim away."""
    base = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "tenant": tenant, "kind": "reader"}
    base |= {"exp": int(time.time()) + 600}
    return {name: value for name, value in (base | changes).items() if value is not None}


def respelled(token: str) -> str:
    """The same signature in other letters: the last one carries two bits that a lax decoder drops."""
    return token[:-1] + ALPHABET[ALPHABET.index(token[-1]) ^ 1]


Builder = Callable[[str, str], str]


def _claims(**changes: Any) -> Builder:
    return lambda tenant, subject: forge(claims(tenant, subject, **changes))


def _header(header: Any, **more: Any) -> Builder:
    return lambda tenant, subject: forge(claims(tenant, subject), header, **more)


def _text(change: Callable[[str], str]) -> Builder:
    return lambda tenant, subject: change(forge(claims(tenant, subject)))


def _payload(change: Callable[[str], str | bytes]) -> Builder:
    return lambda tenant, subject: forge(change(json.dumps(claims(tenant, subject))))


def _ago(seconds: float) -> float:
    return time.time() - seconds


ATTACKER = b"a key of the attacker's own choosing"
JWK = {"kty": "oct", "k": b64url(ATTACKER), "kid": KID}

# What is wrong with a token, and the error that answers it. Each builder takes the tenant and the subject that
# the token pretends to.
BAD_TOKENS: dict[str, tuple[Builder, str]] = {
    # the algorithm
    "alg none, unsigned": (
        lambda t, s: forge(claims(t, s), HEADER | {"alg": "none"}).rsplit(".", 1)[0] + ".",
        "RG202",
    ),
    "alg none, signed": (_header(HEADER | {"alg": "none"}), "RG202"),
    "alg nOnE": (_header(HEADER | {"alg": "nOnE"}), "RG202"),
    "alg RS256, the secret as its public key": (_header(HEADER | {"alg": "RS256"}), "RG202"),
    "alg HS512": (_header(HEADER | {"alg": "HS512"}, digest=hashlib.sha512), "RG202"),
    "alg lower-case": (_header(HEADER | {"alg": "hs256"}), "RG202"),
    "alg a list": (_header(HEADER | {"alg": ["HS256"]}), "RG202"),
    "alg absent": (_header({"kid": KID}), "RG202"),
    "alg said twice": (_header(f'{{"alg": "HS256", "kid": "{KID}", "alg": "none"}}'), "RG202"),
    "alg said twice, once in escapes": (
        _header(f'{{"alg": "HS256", "kid": "{KID}", "\\u0061lg": "none"}}'),
        "RG202",
    ),
    # the key
    "kid absent": (_header({"alg": "HS256"}), "RG202"),
    "kid null": (_header(HEADER | {"kid": None}), "RG202"),
    "kid a number": (_header(HEADER | {"kid": 1}), "RG202"),
    "kid said twice": (_header(f'{{"alg": "HS256", "kid": "{KID}", "kid": "{KID}"}}'), "RG202"),
    "kid unknown": (_header(HEADER | {"kid": "no-such-key"}), "RG203"),
    "kid in capitals": (_header(HEADER | {"kid": KID.upper()}), "RG203"),
    "kid with SQL in it": (_header(HEADER | {"kid": f"x' union select '{KID}"}), "RG203"),
    "kid a path": (_header(HEADER | {"kid": "../../../dev/null"}, secret=b""), "RG203"),
    "key of the attacker": (_header(HEADER, secret=ATTACKER), "RG203"),
    "key in the header, jwk": (_header(HEADER | {"jwk": JWK}, secret=ATTACKER), "RG203"),
    "key by address, jku": (_header(HEADER | {"jku": "https://a.example/keys"}, secret=ATTACKER), "RG203"),
    "key is public knowledge": (_header(HEADER, secret=AUDIENCE.encode()), "RG203"),
    "crit": (_header(HEADER | {"crit": ["exp"]}), "RG202"),
    "crit null": (_header(HEADER | {"crit": None}), "RG202"),
    "header not an object": (_header([HEADER]), "RG202"),
    "header not JSON": (_header("alg: HS256"), "RG202"),
    # the signature
    "signature empty": (_text(lambda token: token.rsplit(".", 1)[0] + "."), "RG203"),
    "signature cut": (_text(lambda token: token[:-4]), "RG203"),
    "signature longer": (_text(lambda token: token + "AAAA"), "RG203"),
    "signature of another token": (
        lambda t, s: forge(claims(t, s)).rsplit(".", 1)[0] + "." + forge(claims(t, "x")).rsplit(".", 1)[1],
        "RG203",
    ),
    "signature spelled otherwise": (_text(respelled), "RG203"),
    "payload swapped": (
        lambda t, s: ".".join(
            [(p := forge(claims(t, "x")).split("."))[0], b64url(json.dumps(claims(t, s))), p[2]]
        ),
        "RG203",
    ),
    # the letters
    "empty": (lambda t, s: "", "RG202"),
    "two parts": (_text(lambda token: token.rsplit(".", 1)[0]), "RG202"),
    "four parts": (_text(lambda token: token + "." + token.rsplit(".", 1)[1]), "RG202"),
    "empty parts": (lambda t, s: "..", "RG202"),
    "white space inside": (_text(lambda token: token[:20] + " " + token[20:]), "RG202"),
    "line break at the end": (_text(lambda token: token + "\n"), "RG202"),
    "white space before a part": (_text(lambda token: token.replace(".", ".\t")), "RG202"),
    "padding": (_text(lambda token: token + "="), "RG202"),
    "base64, not base64url": (_text(lambda token: token + "+/"), "RG202"),
    "letters that only look alike": (_text(lambda token: "\u0435" + token[1:]), "RG202"),
    "a scheme before it": (_text(lambda token: "Bearer " + token), "RG202"),
    "huge": (_claims(padding="x" * 4096), "RG202"),
    # the claims
    "payload not JSON": (_payload(lambda text: text[:-1]), "RG202"),
    "payload a list": (_payload(lambda text: f"[{text}]"), "RG202"),
    "payload a text": (_payload(json.dumps), "RG202"),
    "payload not UTF-8": (_payload(lambda text: text.encode() + b"\xff"), "RG202"),
    "payload with a zero byte": (_payload(lambda text: text.replace('"sub": "', '"sub": "\x00')), "RG202"),
    "payload with an escaped zero": (
        _payload(lambda text: text.replace('"sub": "', '"sub": "\\u0000')),
        "RG202",
    ),
    "sub said twice": (_payload(lambda text: text[:-1] + ', "sub": "x"}'), "RG202"),
    "sub said twice, once in escapes": (_payload(lambda text: text[:-1] + ', "s\\u0075b": "x"}'), "RG202"),
    "sub absent": (_claims(sub=None), "RG202"),
    "sub empty": (_claims(sub=""), "RG202"),
    "sub a number": (_claims(sub=1), "RG202"),
    "sub too long": (_claims(sub="x" * 201), "RG202"),
    "tenant absent": (_claims(tenant=None), "RG202"),
    "tenant a list": (lambda t, s: forge(claims(t, s, tenant=[t])), "RG202"),
    "kind absent": (_claims(kind=None), "RG202"),
    "kind unknown": (_claims(kind="superuser"), "RG202"),
    "kind in capitals": (_claims(kind="Reader"), "RG202"),
    "kind a list": (_claims(kind=["reader"]), "RG202"),
    "a writer without a source": (_claims(kind="writer"), "RG202"),
    "a reader with a source": (_claims(source="handbook"), "RG202"),
    "exp absent": (_claims(exp=None), "RG202"),
    "exp a text": (_claims(exp="4102444800"), "RG202"),
    "exp true": (_claims(exp=True), "RG202"),
    "exp past": (lambda t, s: forge(claims(t, s, exp=_ago(1))), "RG204"),
    "exp long past": (_claims(exp=-1), "RG204"),
    "nbf a text": (_claims(nbf="0"), "RG202"),
    "nbf in the future": (lambda t, s: forge(claims(t, s, nbf=_ago(-60))), "RG205"),
    "iss of another": (_claims(iss="others"), "RG206"),
    "iss absent": (_claims(iss=None), "RG206"),
    "aud of another": (_claims(aud="others"), "RG206"),
    "aud absent": (_claims(aud=None), "RG206"),
    "aud in capitals": (_claims(aud=AUDIENCE.upper()), "RG206"),
    "aud a list without us": (_claims(aud=["others", AUDIENCE + "x"]), "RG206"),
    "aud a list in a list": (_claims(aud=[[AUDIENCE]]), "RG206"),
    "aud an object": (_claims(aud={AUDIENCE: 1}), "RG206"),
    "tenant unknown": (lambda t, s: forge(claims("nowhere", s)), "RG207"),
    "tenant in capitals": (lambda t, s: forge(claims(t.upper(), s)), "RG207"),
    "tenant a pattern": (lambda t, s: forge(claims("%", s)), "RG207"),
    "tenant with SQL in it": (lambda t, s: forge(claims("x' or 'x' = 'x", s)), "RG207"),
    "a writer of no source": (_claims(kind="writer", source="nowhere"), "RG207"),
}
