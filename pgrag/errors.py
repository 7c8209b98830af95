"""What pgrag raises: one small tree, each error with a code, a fact and a next step."""

from __future__ import annotations


class PgragError(Exception):
    """A failure that pgrag explains: ``code`` as in docs/errors.md, ``detail`` and ``hint``."""

    def __init__(self, message: str, *, hint: str = "", code: str = "RG000", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.hint = hint


class InvalidInput(PgragError):
    """An argument is outside what the call accepts."""


class IngestError(PgragError):
    """A document cannot be read or prepared."""


class EmbeddingError(PgragError):
    """An embedding model or provider failed, or is not the one that was configured."""
