"""Rerankers. Each adapter is imported only when it is asked for, with the package it needs."""

from __future__ import annotations

from typing import Any

from pgrag.errors import RerankError
from pgrag.protocols import Reranker

_KNOWN = "mmr, cross-encoder:<folder>, http:<base URL>"


def load_reranker(name: str, /, **options: Any) -> Reranker:
    """The reranker of that name; options go to its class.

    - ``mmr``: less of the same; needs no model.
    - ``cross-encoder:<folder>``: a model of the sentence-transformers library in a folder, never the network.
    - ``http:<base URL>``: an endpoint that has ``/rerank``; hosted ones require ``model``.

    Raises RerankError (RG415).
    """
    kind, _, rest = name.partition(":")
    if name == "mmr":
        from pgrag.rerankers.mmr import MMR

        return MMR(**options)
    if kind == "cross-encoder" and rest:
        from pgrag.rerankers.cross_encoder import CrossEncoder

        return CrossEncoder(rest, **options)
    if kind == "http" and rest:
        from pgrag.rerankers.http import HttpReranker

        return HttpReranker(rest, **options)
    raise RerankError(f"unknown reranker {name!r}", hint=f"known: {_KNOWN}", code="RG415")
