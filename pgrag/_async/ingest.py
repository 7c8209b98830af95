"""Ingesting a folder: one transaction for each document, so that a failure is one document's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg

from pgrag import log
from pgrag._async._flavour import in_thread
from pgrag._async.sessions import AsyncWriter, active_revision, async_writer, was_withdrawn
from pgrag.errors import IdentityError, IngestError, PgragError
from pgrag.ingest import SourceDocument, walk_documents
from pgrag.models import DocumentReport, IngestReport, Progress
from pgrag.protocols import Chunker, Embedder, Tokenizer


async def ingest_folder_async(
    connection: psycopg.AsyncConnection[Any],
    token: str | Callable[[], str],
    root: str | Path,
    *,
    embedder: Embedder | None,
    chunker: Chunker,
    tokenizer: Tokenizer,
    also: Embedder | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> IngestReport:
    """Ingest every document below ``root`` into the source of the writer's token.

    Each document, with all its revisions, is one transaction: it becomes visible whole or not at all, and
    an interruption (KeyboardInterrupt, cancellation, a crash) leaves whole documents behind. Running it
    again goes on: what is there is not encoded again.

    The last revision by effective date, of those that have begun, is put in force, unless it was rolled
    back from; earlier ones are put in force before it, so that a question about their time finds them.
    The readers are those that the file of the revision in force states, where it does. Documents that are
    no longer in the folder stay.

    Where a space is beside the active one, a second embedder, ``also``, encodes what is new for that one too.

    ``token`` may be a function that mints one, called for each document: then the folder may take longer
    than a token lives. The texts of the folder are in memory, and of one document the vectors of a batch.

    Raises IngestError before anything is written if a file cannot be read, and what ``check_embedder`` and
    authentication raise. An error that is one document's is in the report.
    """
    mint = token if callable(token) else lambda: token
    async with async_writer(connection, mint(), embedder=embedder) as w:
        await w.check_embedder(also)
    documents, skipped = await in_thread(walk_documents, root)
    groups = [list(revisions) for _, revisions in groupby(documents, key=lambda one: one.key)]
    del documents
    total = len(groups) + len(skipped)
    reports: list[DocumentReport] = []

    def tell(report: DocumentReport) -> None:
        reports.append(report)
        if progress is not None:
            progress(Progress(done=len(reports), total=total, report=report))

    for file in skipped:
        tell(DocumentReport(document=file.path, outcome="skipped", reason=file.reason))
    groups.reverse()
    while groups:
        revisions = groups.pop()  # so that its text can go
        try:
            async with async_writer(connection, mint(), embedder=embedder) as w:
                report = await _ingest_document(w, revisions, chunker, tokenizer, also)
        except IdentityError:
            raise  # everybody's, not this document's
        except (PgragError, psycopg.Error) as error:
            if connection.closed:
                raise
            report = _failure(revisions[0].key, error)
        tell(report)
    result = IngestReport(tuple(reports))
    log.event(
        "ingest_folder",
        documents=len(reports),
        created=len(result.created),
        unchanged=len(result.unchanged),
        failed=len(result.failed),
        skipped=len(result.skipped),
    )
    return result


async def _ingest_document(
    w: AsyncWriter,
    revisions: list[SourceDocument],
    chunker: Chunker,
    tokenizer: Tokenizer,
    also: Embedder | None,
) -> DocumentReport:
    key = revisions[0].key
    names: list[str] = []
    created: list[str] = []
    chunks = 0
    for one in revisions:
        # Readers belong to the document, not to a revision: those of the one in force are set, at the end.
        done = await w.ingest(
            replace(one, readers=None), chunker=chunker, tokenizer=tokenizer, also=also, activate=False
        )
        if done.faults:
            raise IngestError(
                "the document did not pass verification",
                code="RG412",
                detail="; ".join(done.faults),
                hint="Nothing of it was kept. Look at the file, and at what the chunker makes of it.",
            )
        names.append(done.revision)
        if done.created:
            created.append(done.revision)
            chunks += done.chunks
    before = await w.revisions(key)
    active = active_revision(before)
    new = {one.revision for one in before if one.state == "verified"}  # never in force
    now = dt.datetime.now(dt.UTC)
    begun = [
        place
        for place, one in enumerate(revisions)
        if one.effective_from is None or one.effective_from <= now
    ]
    wanted = active if not begun or was_withdrawn(before, names[begun[-1]]) else names[begun[-1]]
    for one, name in zip(revisions, names, strict=True):
        if name == wanted and one.readers is not None:
            await w.set_access(key, one.readers)
    for place in begun:
        if names[place] in new:
            await w.activate(key, names[place])
    if wanted is not None:
        await w.activate(key, wanted)
    return DocumentReport(
        document=key,
        outcome="created" if created else "unchanged",
        revisions=tuple(created),
        chunks=chunks,
        activated=wanted != active,
    )


def _failure(key: str, error: PgragError | psycopg.Error) -> DocumentReport:
    if isinstance(error, PgragError):
        code, reason = error.code, f"{error.message}: {error.detail}" if error.detail else error.message
    else:
        code, reason = error.sqlstate or "", error.diag.message_primary or type(error).__name__
    return DocumentReport(document=key, outcome="failed", code=code, reason=reason)
