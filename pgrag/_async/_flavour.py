"""What asynchronous sessions do otherwise than synchronous ones; each flavour has its own file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from pgrag import _threads
from pgrag.errors import InvalidInput

AnyConnection = psycopg.AsyncConnection[Any]
_Result = TypeVar("_Result")


async def psycopg_connection(connection: AnyConnection) -> AnyConnection:
    """The connection itself."""
    if not isinstance(connection, psycopg.AsyncConnection):
        raise InvalidInput(
            f"an asynchronous session needs a psycopg.AsyncConnection, not {type(connection).__name__}",
            code="RG408",
            hint="Open one with pgrag.connect_async(dsn).",
        )
    return connection


async def in_thread(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of work that would hold up the event loop: encoding, cutting, reading files."""
    return await asyncio.to_thread(work, *arguments)


async def in_time(seconds: float, work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of work within so many seconds; else TimeoutError or Busy, and it goes on unattended."""
    result, leave = _threads.begin(work, *arguments)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(result)
    finally:
        leave()
