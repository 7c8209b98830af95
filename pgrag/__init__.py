"""PostgreSQL as the evidence boundary of a retrieval-augmented generation system."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

from pgrag import errors, tokens
from pgrag._async.sessions import (
    AsyncAdmin,
    AsyncKeys,
    AsyncOperator,
    AsyncReader,
    AsyncWriter,
    async_admin,
    async_keys,
    async_operator,
    async_reader,
    async_writer,
    connect_async,
)
from pgrag._sync.sessions import (
    Admin,
    Keys,
    Operator,
    Reader,
    Writer,
    admin,
    connect,
    keys,
    operator,
    reader,
    writer,
)
from pgrag.models import Citation, Excerpt, Hit, Packet, Reply, SearchResult, Verdict

if TYPE_CHECKING:
    from pgrag import embedded

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncKeys",
    "AsyncOperator",
    "AsyncReader",
    "AsyncWriter",
    "Citation",
    "Excerpt",
    "Hit",
    "Keys",
    "Operator",
    "Packet",
    "Reader",
    "Reply",
    "SearchResult",
    "Verdict",
    "Writer",
    "__version__",
    "admin",
    "async_admin",
    "async_keys",
    "async_operator",
    "async_reader",
    "async_writer",
    "connect",
    "connect_async",
    "embedded",
    "errors",
    "keys",
    "operator",
    "reader",
    "tokens",
    "writer",
]


def __getattr__(name: str) -> Any:
    # Imported when it is asked for: python -m pgrag.embedded would otherwise find it imported already.
    if name == "embedded":
        return importlib.import_module("pgrag.embedded")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
