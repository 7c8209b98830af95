"""Settings: from arguments, else the environment, else a file; the first that says something wins.

    setting           environment               pgrag.toml
    dsn               PGRAG_DSN                 dsn = "postgresql://app@db/knowledge"
    token             PGRAG_TOKEN               token = "…"
    signing_key       PGRAG_SIGNING_KEY         signing_key = "…"              hexadecimal, 64 digits or more
    kid               PGRAG_KID                 kid = "2025-06"
    issuer            PGRAG_ISSUER              issuer = "my-app"
    audience          PGRAG_AUDIENCE            audience = "pgrag"
    tenant            PGRAG_TENANT              tenant = "halvorsen"
    subject           PGRAG_SUBJECT             subject = "alice"
    source            PGRAG_SOURCE              source = "handbook"
    embedder          PGRAG_EMBEDDER            embedder = "wordllama"         as load_embedder takes it
    embedder_options  PGRAG_EMBEDDER_OPTIONS    [embedder_options]             in the environment, as JSON
    reranker          PGRAG_RERANKER            reranker = "mmr"               as load_reranker takes it
    reranker_options  PGRAG_RERANKER_OPTIONS    [reranker_options]             in the environment, as JSON

``next_embedder`` and ``next_embedder_options`` are written likewise: the embedder of the space that is built
beside the active one.

The file is the one that ``config`` or PGRAG_CONFIG names, else ``pgrag.toml`` in the current directory
where there is one. A setting in it that is not known is an error: a misspelt one would be silently unset.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrag.embedders import load_embedder
from pgrag.errors import InvalidInput
from pgrag.protocols import Embedder, Reranker
from pgrag.rerankers import load_reranker
from pgrag.tokens import secret_bytes

FILE = "pgrag.toml"
_OPTIONS = ("embedder_options", "next_embedder_options", "reranker_options")


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """What a command or an application is told from outside. Its ``repr`` shows no secret."""

    dsn: str | None = None
    token: str | None = None
    signing_key: bytes | None = None
    kid: str | None = None
    issuer: str | None = None
    audience: str | None = None
    tenant: str | None = None
    subject: str | None = None
    source: str | None = None
    embedder: str | None = None
    embedder_options: Mapping[str, Any] = field(default_factory=dict)
    next_embedder: str | None = None
    next_embedder_options: Mapping[str, Any] = field(default_factory=dict)
    reranker: str | None = None
    reranker_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        *,
        config: str | Path | None = None,
        **given: str | bytes | Mapping[str, Any] | None,
    ) -> Self:
        """The settings; ``given`` are those of the caller, of which None means not given.

        Raises InvalidInput (RG414), which says the setting's name and never its value.
        """
        names = [one.name for one in fields(cls)]
        for name in given:
            if name not in names:
                _unknown(name, names, "the arguments")
        stated = {name: os.environ.get(f"PGRAG_{name.upper()}") or None for name in names}
        from_file = _read(config or os.environ.get("PGRAG_CONFIG") or None, names)
        chosen: dict[str, Any] = {}
        for wins in (from_file, stated, given):
            chosen |= {name: value for name, value in wins.items() if value is not None}
        return cls(**{name: _parsed(name, value) for name, value in chosen.items()})

    def open_embedder(self) -> Embedder | None:
        """The embedder that is named, with its options; None where none is."""
        return _embedder("embedder_options", self.embedder, self.embedder_options)

    def open_next_embedder(self) -> Embedder | None:
        """The embedder of the space beside the active one, with its options; None where none is named."""
        return _embedder("next_embedder_options", self.next_embedder, self.next_embedder_options)

    def open_reranker(self) -> Reranker | None:
        """The reranker that is named, with its options; None where none is."""
        if not self.reranker:
            return None
        try:
            return load_reranker(self.reranker, **self.reranker_options)
        except TypeError:
            _misfit("reranker_options", "reranker", self.reranker_options, "See docs/reranking.md.")

    def __repr__(self) -> str:
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("token", "signing_key"):
            shown[name] = "…" if shown[name] else None
        shown["dsn"] = _without_password(self.dsn)
        for name in _OPTIONS:
            shown[name] = sorted(shown[name])  # an option may be a key
        said = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value)
        return f"Settings({said})"


def _embedder(setting: str, name: str | None, options: Mapping[str, Any]) -> Embedder | None:
    if not name:
        return None
    try:
        return load_embedder(name, **options)
    except TypeError:
        _misfit(setting, "embedder", options, "http:… needs model and dimension; wordllama has no options.")


def _misfit(setting: str, what: str, options: Mapping[str, Any], hint: str) -> NoReturn:
    # The names alone: a value may be a key.
    given = ", ".join(sorted(options)) or "nothing is given"
    _refuse(f"the setting {setting} does not fit the {what}: {given}", hint)


def _without_password(dsn: str | None) -> str | None:
    if dsn is None:
        return None
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "…"
    secret = [name for name in parts if "password" in name or name == "oauth_client_secret"]
    return make_conninfo("", **(parts | dict.fromkeys(secret, None)))


def _read(config: str | Path | None, names: list[str]) -> dict[str, Any]:
    path = Path(config or FILE)
    if config is None and not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(f"the settings file {path} cannot be read: {error.strerror}", "Check PGRAG_CONFIG.")
    except (ValueError, RecursionError):  # of TOML, of UTF-8, and of integers of thousands of digits
        # Its parser's words would quote the line.
        _refuse(f"the settings file {path} is not TOML", 'A line is written: name = "value".')
    for name in content:
        if name not in names:
            _unknown(name, names, str(path))
    return content


def _parsed(name: str, value: Any) -> Any:
    if name in _OPTIONS:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            _refuse(f"the setting {name} is no table", 'For example {"model": "bge-m3", "dimension": 1024}.')
        return dict(value)
    if name == "signing_key":
        if isinstance(value, str):
            try:
                value = bytes.fromhex(value)
            except ValueError:
                value = b""
        if not isinstance(value, bytes) or not value:
            _refuse(f"the setting {name} is not hexadecimal", "For example: openssl rand -hex 32")
        return secret_bytes(value)
    if not isinstance(value, str):
        _refuse(f"the setting {name} is not text", f'Write it in quotes: {name} = "…".')
    return value


def _unknown(name: str, names: list[str], where: str) -> NoReturn:
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"Did you mean {close[0]}? " if close else ""
    _refuse(f"there is no setting {name!r:.60} ({where})", f"{guess}Known: {', '.join(names)}.")


def _refuse(fact: str, hint: str) -> NoReturn:
    raise InvalidInput(fact, code="RG414", hint=hint)
