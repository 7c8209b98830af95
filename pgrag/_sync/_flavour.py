"""What synchronous sessions do otherwise than asynchronous ones; each flavour has its own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Union

import psycopg

from pgrag import _threads
from pgrag.errors import InvalidInput

if TYPE_CHECKING:
    import sqlalchemy
    import sqlalchemy.orm

AnyConnection = Union[psycopg.Connection[Any], "sqlalchemy.Connection", "sqlalchemy.orm.Session"]
_Result = TypeVar("_Result")


def psycopg_connection(connection: Any) -> psycopg.Connection[Any]:
    """The psycopg connection, which may be under a SQLAlchemy Session or Connection.

    There the transaction is SQLAlchemy's: it is made to begin here, so that the session finds itself inside
    of one and takes a savepoint, and committing or rolling back stays with its owner.
    """
    if isinstance(connection, psycopg.Connection):
        return connection
    if callable(getattr(connection, "connection", None)):  # a Session
        connection = connection.connection()
    driver = getattr(getattr(connection, "connection", None), "driver_connection", None)
    if not isinstance(driver, psycopg.Connection):
        raise InvalidInput(
            f"a session needs a connection of psycopg 3, not {type(driver or connection).__name__}",
            code="RG408",
            hint="Pass pgrag.connect(dsn), or a SQLAlchemy Session or Connection (postgresql+psycopg).",
        )
    connection.exec_driver_sql("select 1")
    return driver


def in_thread(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of the work, done here and now."""
    return work(*arguments)


def in_time(seconds: float, work: Callable[..., _Result], *arguments: Any) -> _Result:
    """The result of work within so many seconds; else TimeoutError or Busy, and it goes on unattended."""
    result, leave = _threads.begin(work, *arguments)
    try:
        return result.result(seconds)
    finally:
        leave()
