"""What pgrag raises: one small tree, each error with a code, a fact and a next step.

The codes are SQLSTATEs of class ``RG``, the same in SQL and in Python, and each code is always the same
class here. What PostgreSQL or the network have to say (a lost connection, a deadlock, a cancelled
statement) is not pgrag's to explain and stays psycopg's exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg


class PgragError(Exception):
    """A failure that pgrag explains: ``code`` as in docs/errors.md, ``message``, ``detail`` and ``hint``."""

    def __init__(self, message: str, *, hint: str = "", code: str = "RG000", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message


class InstallError(PgragError):
    """pgrag cannot be installed here, or is not installed as it should be (RG1xx)."""


class MaintenanceError(PgragError):
    """A step of maintenance cannot be done with what the server has (RG113)."""


class IdentityError(PgragError):
    """Nobody is authenticated, or the token or key is not accepted (RG2xx)."""


class InvalidInput(PgragError):
    """An argument is outside what the call accepts (RG3xx; of RG4xx names, settings and batches)."""


class WriteError(PgragError):
    """A document, revision, source or principal cannot be changed like that (RG4xx)."""


class NotFound(WriteError):
    """There is no such thing, or it is not yours to see, which reads the same (RG401)."""


class Conflict(WriteError):
    """What is there is not what the change expected: look and decide again (RG402, RG403, RG409, RG416)."""


class PacketError(PgragError):
    """A packet was altered or was made for another reader, or does not fit its budget (RG5xx)."""


class IngestError(PgragError):
    """A document cannot be read or prepared (RG412)."""


class EmbeddingError(PgragError):
    """An embedding model or provider failed (RG413), or a vector is of another space (RG305)."""


class RerankError(PgragError):
    """A reranker is not known, cannot be loaded, or failed (RG415)."""


_BLOCKS: dict[str, type[PgragError]] = {
    "RG1": InstallError,
    "RG2": IdentityError,
    "RG3": InvalidInput,
    "RG4": WriteError,
    "RG5": PacketError,
}
_CODES: dict[str, type[PgragError]] = {
    "RG113": MaintenanceError,
    "RG305": EmbeddingError,
    "RG401": NotFound,
    "RG402": Conflict,
    "RG403": Conflict,
    "RG406": InvalidInput,
    "RG407": InvalidInput,
    "RG408": InvalidInput,
    "RG409": Conflict,
    "RG410": InvalidInput,
    "RG411": InvalidInput,
    "RG412": IngestError,
    "RG413": EmbeddingError,
    "RG414": InvalidInput,
    "RG415": RerankError,
    "RG416": Conflict,
}


def class_of(code: str) -> type[PgragError]:
    """The class that stands for a code."""
    return _CODES.get(code) or _BLOCKS.get(code[:3], PgragError)


def from_database(error: psycopg.Error) -> PgragError | None:
    """What the database said, if pgrag said it; None for everything that is psycopg's own."""
    code = error.sqlstate or ""
    if not code.startswith("RG"):
        return None
    said = error.diag
    return class_of(code)(
        said.message_primary or "the database refused",
        code=code,
        detail=said.message_detail or "",
        hint=said.message_hint or "",
    )
