"""From files to passages: reading documents, cutting them, counting tokens. No database here."""

from pgrag.ingest.chunkers import StructureChunker, WindowChunker
from pgrag.ingest.documents import SkippedFile, SourceDocument, read_document, walk_documents
from pgrag.ingest.tokenizers import HuggingFaceTokenizer, WordTokenizer

__all__ = [
    "HuggingFaceTokenizer",
    "SkippedFile",
    "SourceDocument",
    "StructureChunker",
    "WindowChunker",
    "WordTokenizer",
    "read_document",
    "walk_documents",
]
