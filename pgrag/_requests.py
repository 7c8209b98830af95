"""Checking and shaping what is sent to the database: the same for asynchronous and synchronous sessions.

The database checks everything again. These checks are for a quicker and nearer error, and for what a
conversion would hide: Python's True is 1, and 1.5 becomes 1 on the way into an integer.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pgrag.errors import EmbeddingError, InvalidInput
from pgrag.models import MissingEmbedding, Packet, Reply
from pgrag.protocols import Chunk, Embedder, EmbeddingSpace

Vector = Sequence[float] | NDArray[Any]

_IDENTITY = (
    "model",
    "model_revision",
    "dimension",
    "metric",
    "normalisation",
    "preprocessing",
    "query_prefix",
    "document_prefix",
)
MOST_PROBES = 4
BATCH_CHUNKS = 500
_BATCH_BYTES = 8 * 1024 * 1024


def refuse(code: str, fact: str, hint: str, detail: str = "") -> NoReturn:
    """Raise InvalidInput."""
    raise InvalidInput(fact, code=code, hint=hint, detail=detail)


# -- Questions -----------------------------------------------------------------------------------------


def search_request(
    question: str,
    *,
    k: int,
    mode: str,
    fusion: str,
    as_of: dt.datetime | dt.date | str | None,
    filter: Mapping[str, Any] | None,
    candidates: int,
    threshold: float | None,
    probes: Sequence[str],
    per_document: int | None,
    per_source: int | None,
    isolation: str,
    retry: bool,
) -> dict[str, Any]:
    """The JSON request of a search, without embeddings; None where the database's default is meant."""
    _check_question("question", question)
    if isinstance(probes, str) or not isinstance(probes, Sequence) or len(probes) > MOST_PROBES:
        refuse(
            "RG308",
            f"the probes must be a list of at most {MOST_PROBES} texts",
            "Other wordings of the question; leave them out for none.",
        )
    for probe in probes:
        _check_question("probe", probe)
    whole("k", k, 1, 100, "RG302")
    whole("candidates", candidates, k, 1000, "RG302")
    for cap, most in (("per_document", per_document), ("per_source", per_source)):
        if most is not None:
            whole(cap, most, 1, 100, "RG302")
    for name, value, known in (
        ("mode", mode, ("hybrid", "lexical", "dense")),
        ("fusion", fusion, ("convex", "rrf")),
        ("isolation", isolation, ("auto", "strict")),
    ):
        if value not in known:
            refuse("RG303", f"the {name} is not known", f"One of: {', '.join(known)}.")
    if threshold is not None and (
        isinstance(threshold, bool)
        or not isinstance(threshold, int | float | np.floating)
        or not 0 <= threshold <= 1
    ):
        refuse("RG303", "the threshold must be from 0 to 1", "Leave it out for the mode's default.")
    if not isinstance(retry, bool):
        refuse("RG303", "retry must be true or false", "Leave it out for false.")
    # What is left out means its default, so that a database of 0.1 can be asked, too.
    further = {
        "probes": list(probes) or None,
        "per_document": None if per_document is None else int(per_document),
        "per_source": None if per_source is None else int(per_source),
        "isolation": None if isolation == "auto" else isolation,
    }
    return {
        "question": question,
        "k": int(k),
        "mode": mode,
        "fusion": fusion,
        "as_of": moment(as_of, "as_of", "RG303"),
        "filter": _plain_filter(filter),
        "candidates": int(candidates),
        "threshold": None if threshold is None else float(threshold),
    } | {name: value for name, value in further.items() if value is not None}


def _check_question(what: str, text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        refuse("RG301", f"the {what} is empty", f"Pass the {what}'s text.")
    if len(text) > 4000:
        fact = f"{len(text)} characters; the bound is 4000"
        refuse("RG301", f"the {what} is too long", "Ask for what is sought, without its context.", fact)
    if not _is_storable(text):
        refuse("RG301", f"the {what} has characters that are no text", "Remove NUL and lone surrogates.")


def may_retry(retry: bool, answer: Mapping[str, Any], k: int) -> bool:
    """Whether an answer is to be asked for again, with the wider profile.

    It is if it abstains for lack of a match or of a near one, or if caps or bounds left fewer than ``k``.
    """
    if not retry:
        return False
    if answer["status"] == "abstain":
        return answer["reason"] in ("nothing_matches", "below_threshold")
    found = sum(len(answer.get(name, ())) for name in ("hits", "excerpts", "omitted"))
    return not answer["complete"] and found < k


def packet_limits(budget: int, budget_unit: str, reserve: int, strict: bool) -> dict[str, Any]:
    """The fields that a packet's request has beyond a search's."""
    whole("budget", budget, 1, 1_000_000, "RG306")
    whole("reserve", reserve, 0, 1_000_000, "RG306")
    if budget_unit not in ("characters", "bytes", "tokens"):
        refuse("RG306", "the budget's unit is not known", "Units: characters, bytes, tokens.")
    if not isinstance(strict, bool):
        refuse("RG306", "strict must be true or false", "Leave it out for false.")
    return {"budget": int(budget), "budget_unit": budget_unit, "reserve": int(reserve), "strict": strict}


def whole(name: str, value: object, low: int, high: int, code: str) -> None:
    """Refuse everything that is not a whole number in the range; True is not one, and 2.0 neither."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        refuse(
            code,
            f"{name} must be a whole number from {low} to {high}",
            "Write it without a fraction and without quotes.",
            f"{name}: {value!r:.40}",
        )


def moment(value: dt.datetime | dt.date | str | None, name: str, code: str) -> str | None:
    """A point in time as text with its offset. A day is its midnight in UTC, as is text without an offset."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            refuse(code, f"{name} must be a point in time", "Write it as 2024-03-01 or 2024-03-01T12:00:00Z.")
        value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time(), dt.UTC)
    if value is None:
        return None
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        refuse(
            code,
            f"{name} must say its time zone",
            "For example datetime(2024, 3, 1, tzinfo=UTC), or date(2024, 3, 1) for its midnight in UTC.",
        )
    return value.isoformat()


def span(name: str, value: dt.timedelta | None) -> dt.timedelta | None:
    """A span of time, from 0 on."""
    if value is not None and (not isinstance(value, dt.timedelta) or value < dt.timedelta()):
        refuse("RG408", f"{name} must be a span of time, from 0 on", "For example timedelta(minutes=5).")
    return value


def metadata(given: Mapping[str, Any] | None) -> str:
    """Free metadata as JSON; what it may hold is the database's to say."""
    if given is not None and not isinstance(given, Mapping):
        refuse("RG408", "the metadata must be a mapping", 'For example {"team": "billing"}.')
    return to_json(dict(given or {}))


def _plain_filter(filter: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if filter is None:
        return None
    if not isinstance(filter, Mapping):
        refuse("RG304", "the filter must be a mapping", 'For example {"source": "handbook"}.')
    return {
        str(key): value.isoformat()
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        else list(value)
        if isinstance(value, tuple | set | frozenset)
        else value
        for key, value in filter.items()
    }


def to_json(value: Any) -> str:
    """JSON for a jsonb parameter. Raises InvalidInput (RG307) for what JSON or PostgreSQL cannot hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        refuse("RG307", "the request has a value that JSON cannot hold", "Use text, numbers, lists, dicts.")
    if "\\u0000" in text.replace("\\\\", ""):
        refuse("RG307", "the request has a NUL character", "PostgreSQL cannot store it: remove it.")
    if not _is_storable(text):
        refuse("RG307", "the request has characters that are no text", "Remove lone surrogates.")
    return text


def _is_storable(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


# -- Replies -------------------------------------------------------------------------------------------


def packet_json(packet: Packet | Mapping[str, Any] | str | bytes) -> str:
    """A packet as it was issued, in JSON. Raises PacketError (RG501) for what is no packet at all."""
    if isinstance(packet, str | bytes):
        packet = Packet.from_json(packet)
    elif not isinstance(packet, Packet):
        packet = Packet.from_dict(packet)
    return to_json(packet.raw)


def reply_json(reply: Reply | Mapping[str, Any] | str | bytes) -> str:
    """A reply in JSON. What is not JSON, or says a key twice, becomes ``null``: of no shape, so not valid.

    A language model wrote it: it is judged, not trusted, and no exception is its verdict.
    """
    if isinstance(reply, Reply):
        reply = reply.to_dict()
    try:
        if isinstance(reply, str | bytes):
            reply = json.loads(reply, object_pairs_hook=_unique, parse_constant=_no_constant)
        return to_json(reply)
    except (ValueError, RecursionError, InvalidInput):
        return "null"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# -- Embeddings ----------------------------------------------------------------------------------------


def check_space(
    embedder: Embedder, space: EmbeddingSpace | None, which: str = "the tenant's active space"
) -> EmbeddingSpace:
    """The space, if the embedder's vectors belong to it. Equal dimensions prove nothing.

    The space's name is the tenant's own affair, and so is what its database does with vectors (storage,
    zero vectors). Raises EmbeddingError (RG305).
    """
    if space is None:
        raise EmbeddingError(
            "the tenant has no embedding space",
            code="RG305",
            hint='An operator registers one with put_space; until then, search with mode="lexical".',
        )
    ours = embedder.space
    different = _different(embedder, space)
    if different:
        raise EmbeddingError(
            f"the embedder's vectors are not of {which}",
            code="RG305",
            detail="; ".join(
                f"{name}: {getattr(ours, name)!r:.100}, and the space has {getattr(space, name)!r:.100}"
                for name in different
            ),
            hint=f"Use the model of space {space.space}, or have an operator register this one's space.",
        )
    return space


def _different(embedder: Embedder, space: EmbeddingSpace) -> list[str]:
    return [name for name in _IDENTITY if getattr(embedder.space, name) != getattr(space, name)]


def encoders(
    embedder: Embedder,
    also: Embedder | None,
    active: EmbeddingSpace | None,
    beside: EmbeddingSpace | None,
) -> list[tuple[Embedder, EmbeddingSpace]]:
    """The active space and, with a second embedder, the one beside it, each with the embedder that is its.

    Which embedder is whose changes with a switch, and may change while a folder is ingested.
    """
    if also and active and _different(embedder, active) and not _different(also, active):
        embedder, also = also, embedder
    found = [(embedder, check_space(embedder, active))]
    if also is not None and beside is not None:
        found.append((also, check_space(also, beside, "the space beside the active one")))
    return found


def check_processor(embedder: Embedder, source: str, processors: Sequence[str]) -> None:
    """Refuse an encoder that would send the source's text somewhere it may not go (RG410)."""
    receiver = embedder.processor
    if receiver is not None and receiver not in processors:
        refuse(
            "RG410",
            f"the source {source} does not allow its text to go to {receiver}",
            f"An operator allows it: put_source(…, processors=[…, {receiver!r}]); or use a local embedder.",
            f"allowed: {', '.join(processors) or 'nobody'}",
        )


def query_vector(vector: Vector, dimension: int | None = None) -> list[float]:
    """A question's vector as numbers for JSON, of single precision, as the database keeps them."""
    row = _array(vector)
    if row.ndim != 1 or (dimension is not None and row.shape != (dimension,)):
        raise EmbeddingError(
            "the embedding has not the dimension of its space",
            code="RG305",
            detail=f"shape {row.shape}" + (f"; the space has {dimension}" if dimension else ""),
            hint="Encode the question with the space's model.",
        )
    return [float(f"{number:.9g}") for number in row.tolist()]


def vector_literals(vectors: Any, count: int) -> list[str]:
    """Documents' vectors in PostgreSQL's notation, one for each of ``count`` chunks."""
    rows = _array(vectors)
    if rows.ndim != 2 or len(rows) != count:
        raise EmbeddingError(
            f"{count} chunks need {count} vectors",
            code="RG305",
            detail=f"shape {rows.shape}",
            hint="Pass one row for each chunk, in their order.",
        )
    return ["[" + ",".join(map("%.9g".__mod__, row)) + "]" for row in rows.tolist()]


def _array(vectors: Any) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # too large for single precision is infinite, and refused below
            array: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.array(np.nan, dtype=np.float32)
    if not np.isfinite(array).all():
        raise EmbeddingError(
            "an embedding is not made of finite numbers",
            code="RG305",
            hint="Pass rows of numbers, all of one length; check the model that made them.",
        )
    return array


# -- Documents -----------------------------------------------------------------------------------------


def batches(chunks: Sequence[Chunk]) -> Iterator[tuple[int, Sequence[Chunk]]]:
    """The chunks in batches that one call takes, each with the index of its first."""
    first = size = 0
    for index, chunk in enumerate(chunks):
        weight = len(chunk.text.encode("utf-8", "surrogatepass"))
        if index - first >= BATCH_CHUNKS or (index > first and size + weight > _BATCH_BYTES):
            yield first, chunks[first:index]
            first, size = index, 0
        size += weight
    if first < len(chunks):
        yield first, chunks[first:]


def runs(missing: Sequence[MissingEmbedding]) -> Iterator[tuple[int, Sequence[MissingEmbedding]]]:
    """The chunks in runs of one revision and consecutive numbers, each with the index of its first."""
    first = 0
    for index, (before, after) in enumerate(pairwise(missing), 1):
        follows = (before.document, before.revision, before.chunk_no + 1)
        if (after.document, after.revision, after.chunk_no) != follows:
            yield first, missing[first:index]
            first = index
    if missing:
        yield first, missing[first:]


def names(what: str, given: Sequence[str]) -> list[str]:
    """A list of names; one text instead of a list would become its letters."""
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        refuse("RG408", f"the {what} must be a list of names", 'For example ["staff"], or [] for nobody.')
    return list(given)
