"""From a folder to evidence: reading, cutting, encoding and activating every document below a root.

    report = ingest_folder(connection, token, "handbook/", embedder=embedder,
                           chunker=StructureChunker(), tokenizer=WordTokenizer())

``ingest_folder_async`` is the same for an asynchronous connection.
"""

from __future__ import annotations

from pgrag._async.ingest import ingest_folder_async
from pgrag._sync.ingest import ingest_folder
from pgrag.models import DocumentReport, IngestReport, Progress

__all__ = ["DocumentReport", "IngestReport", "Progress", "ingest_folder", "ingest_folder_async"]
