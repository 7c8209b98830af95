"""What the database answers, as values. All are frozen, and all times are aware."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

from pgrag.errors import PacketError
from pgrag.protocols import EmbeddingSpace

_Value = TypeVar("_Value")
_TIMES = ("as_of", "issued_at", "effective_from", "effective_to", "ingested_at")


def _pick(kind: type[_Value], given: Mapping[str, Any], **more: Any) -> _Value:
    """A value of the fields that it knows: a database of a later release may say more than is known here."""
    known = {one.name for one in fields(kind) if one.init}  # type: ignore[arg-type]
    picked = {name: given[name] for name in known & given.keys()} | more
    for name in picked.keys() & set(_TIMES):
        if isinstance(picked[name], str):
            picked[name] = dt.datetime.fromisoformat(picked[name])
    return kind(**picked)


# -- Reading -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """One passage and where it is from."""

    id: str = ""
    """What a reply cites, such as ``e1``; empty outside of a packet."""
    chunk_id: str
    """SHA-256, 64 hexadecimal digits, over tenant, source, document, revision, span and text."""
    source: str
    document: str
    revision: str
    active: bool
    """Whether the revision is the one in force now."""
    title: str
    section: str
    page: int | None
    language: str
    span_start: int
    span_end: int
    """Where the passage stands in the document's text, in ``span_unit``."""
    span_unit: str
    tokens: int
    tokenizer: str
    trust: str
    """``untrusted``, ``external``, ``internal`` or ``authoritative``."""
    effective_from: dt.datetime | None
    effective_to: dt.datetime | None
    ingested_at: dt.datetime
    text: str = ""
    """Empty only in a packet that was stored without its texts."""

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """An excerpt of the form that the database writes."""
        return _pick(cls, given)


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the question that a passage has: how often (``tf``), and its part of the lexical score."""

    term: str
    tf: int
    score: float


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A passage that says nearly the same as a hit and gave up its place to it."""

    chunk_id: str
    source: str
    document: str
    similarity: float
    """From 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Excerpt):
    """A passage that was found, with its rank (from 1) and scores. A lane that did not find it says None."""

    rank: int
    score: float
    """What the hits are ordered by; of reciprocal ranks where ``fusion="rrf"``."""
    relevance: float
    """From 0 to 1, comparable across questions; the threshold applies to it."""
    lexical_rank: int | None
    lexical_score: float | None
    dense_rank: int | None
    dense_score: float | None
    probe: int | None = None
    """Which probe (from 1) it fits better than the question itself; None if none."""
    matched_terms: tuple[Term, ...] = ()
    """Of the question itself, the one that adds most first."""
    duplicates: tuple[Duplicate, ...] = ()

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """A hit of the form that the database writes; one of 0.1 has no terms and no duplicates."""
        return _pick(
            cls,
            given,
            matched_terms=tuple(_pick(Term, one) for one in given.get("matched_terms") or ()),
            duplicates=tuple(_pick(Duplicate, one) for one in given.get("duplicates") or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """What became of reranking. Unless ``status`` is ``applied``, the order is the fused one."""

    name: str
    """The reranker's."""
    processor: str | None
    """Who received question and passages; None is this process."""
    status: str
    """``applied``, ``failed`` or ``skipped``."""
    reason: str | None = None
    """Of a failure: timeout, busy, error, wrong_count or not_finite. Of skipping: abstained (there was no
    evidence to order) or not_permitted (no source of the hits allows the processor)."""
    detail: str = ""
    """What the reranker said of its failure."""
    latency_ms: float = field(default=0.0, compare=False)
    """How long the reranker took, or was waited for."""
    candidates: int = 0
    """How many passages it was given."""
    truncated: int | None = None
    """How many of them it read in part only; None where it does not say."""
    scores: dict[str, float] = field(default_factory=dict)
    """Chunk id to score, best first, of all that it scored."""
    dropped: tuple[str, ...] = ()
    """Chunk ids that it scored and that are not among the k, best first."""
    withheld: tuple[str, ...] = ()
    """Chunk ids that it was not given, since their source does not allow the processor; they come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The hits, best first, or the reason why there are none or why they are no evidence."""

    status: str
    """``evidence`` or ``abstain``."""
    reason: str | None
    """Of an abstention: nothing_visible, stop_words_only, nothing_matches or below_threshold."""
    complete: bool
    complete_reason: str
    top_relevance: float | None
    scope: dict[str, int]
    """How many documents and chunks the reader may see."""
    policy: dict[str, Any]
    """How the question was answered: mode, fusion, weights, threshold, space."""
    hits: tuple[Hit, ...]
    processors: dict[str, list[str]] = field(default_factory=dict)
    """For each source of the hits, the outside services that may receive its text."""
    rerank: Rerank | None = None
    """What became of reranking, where it was asked for."""
    raw: dict[str, Any] = field(repr=False, compare=False)
    """Exactly what the database gave."""

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """A result of the form that the database writes."""
        hits = tuple(Hit.from_dict(hit) for hit in given["hits"])
        return _pick(cls, given, hits=hits, rerank=None, raw=given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """Evidence for a question within a budget, sealed for one reader; or an abstention.

    ``raw`` is what the seal covers. Keep or send that (``to_json``), not these fields.
    """

    question: str
    status: str
    """``evidence`` or ``abstain``."""
    reason: str | None
    """Why it abstains: as of a SearchResult, or ``over_budget``."""
    excerpts: tuple[Hit, ...]
    """Whole passages, best first, with the ids that a reply cites."""
    omitted: tuple[dict[str, Any], ...]
    """What did not fit: chunk_id, rank, size, reason."""
    complete: bool
    complete_reason: str
    as_of: dt.datetime | None
    access_state: str
    corpus_state: str
    policy: dict[str, Any]
    limits: dict[str, Any]
    """``budget``, ``reserve``, ``question``, ``evidence`` and ``left``, all in ``unit``."""
    rerank: Rerank | None = field(default=None, compare=False)
    """What became of reranking, where it was asked for. It is not in ``raw``: the policy there names the
    reranker, if one made the order."""
    issued_at: dt.datetime
    seal: str = field(repr=False)
    raw: dict[str, Any] = field(repr=False, compare=False)
    """Exactly what the database gave."""

    @classmethod
    def from_dict(cls, given: Any) -> Self:
        """A packet of the form that the database writes; its texts may be left out.

        Raises PacketError (RG501) for anything else. Whether it was altered, only the database can tell.
        """
        try:
            hits = tuple(Hit.from_dict(excerpt) for excerpt in given["excerpts"])
            return _pick(cls, given, excerpts=hits, omitted=tuple(given["omitted"]), rerank=None, raw=given)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _no_packet() from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A packet from ``to_json``."""
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            raise _no_packet() from None
        return cls.from_dict(given)

    def to_json(self) -> str:
        """The packet as one JSON object, which ``from_json`` and ``validate`` take."""
        return json.dumps(self.raw, ensure_ascii=False)


def _no_packet() -> PacketError:
    return PacketError(
        "this is not a packet",
        code="RG501",
        hint="Pass the packet as r.packet(…) returned it, or what its to_json() wrote.",
    )


# -- Replies -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Citation:
    """A reference to an excerpt of the packet by its id, with the words that it is cited for, if any."""

    id: str
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a language model made of a packet."""

    answer: str
    citations: tuple[Citation, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The reply in the form that the database reads."""
        cited = [
            {"id": one.id} if one.quote is None else {"id": one.id, "quote": one.quote}
            for one in self.citations
        ]
        return {"answer": self.answer, "citations": cited}


@dataclass(frozen=True, slots=True)
class Finding:
    """One failing check: ``id`` is the citation's, or None where the whole reply is meant."""

    check: str
    id: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether each citation is evidence that the reader may see now; not whether the answer follows."""

    valid: bool
    findings: tuple[Finding, ...]
    citations: tuple[dict[str, Any], ...]
    """Those that passed: id, chunk_id, source, document, revision, and how the quote was found."""
    support: str
    checks: tuple[str, ...]
    """The checks that ran."""
    raw: dict[str, Any] = field(repr=False, compare=False)
    """Exactly what the database gave."""

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """A verdict of the form that the database writes."""
        findings = tuple(_pick(Finding, one) for one in given["findings"])
        more = {name: tuple(given[name]) for name in ("citations", "checks")}
        return _pick(cls, given, findings=findings, raw=given, **more)


# -- Who and what is there -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The principal of a session."""

    tenant: str
    subject: str
    kind: str
    source: str | None
    """Of a writer."""
    known: bool | None
    """Of a reader: whether the tenant knows the subject. One that it does not know sees nothing."""
    groups: list[str]
    expires_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant, for operators."""

    tenant: str
    name: str
    active_space: str | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where documents come from; ``processors`` are the outside services that may receive its text."""

    source: str
    trust: str
    processors: list[str]


@dataclass(frozen=True, slots=True)
class TenantSpace(EmbeddingSpace):
    """An embedding space of a tenant, and whether it is the one in use."""

    active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStatus:
    """How far an embedding space is, among the tenant's documents in force that have embeddings."""

    space: str
    state: str
    """``active``, ``next`` (beside the active one), ``registered`` or ``retired``."""
    documents: int
    """That have all their embeddings in it."""
    chunks: int
    """Of those documents."""
    missing: int | None
    """Documents that have not; None of a retired space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user, service or group (or ``everyone``) of a tenant."""

    name: str
    kind: str
    created_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A direct member of a group, and the member's kind."""

    group: str
    member: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as its administrators see it."""

    source: str
    document: str
    active_revision: str | None
    readers: list[str]
    deleted_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision; ``state`` is ``staged``, ``verified``, ``active``, ``retired`` or ``withdrawn``."""

    revision: str
    state: str
    title: str
    effective_from: dt.datetime | None
    effective_to: dt.datetime | None
    chunks: int
    """0 until it is verified."""
    created_at: dt.datetime
    verified_at: dt.datetime | None
    activated_at: dt.datetime | None
    """When it was last put in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A signing key by name; its secret is never shown."""

    kid: str
    issuer: str
    audience: str
    created_at: dt.datetime
    retired_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceStep:
    """One step of maintenance, which is done."""

    action: str
    """``fold``, ``purge``, ``drop``, ``renumber``, ``create``, ``copy``, ``index`` or ``retire``; where there
    was nothing to do, ``idle``, or ``busy`` if others are at all the work there is."""
    block_id: int | None
    rows: int
    """Vectors (of ``purge``, embeddings of a retired space that were deleted), documents that were
    renumbered, or rows of the ledger that were folded."""
    remaining: bool
    """Whether there may be another step."""
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """What a part of a dense search costs on this machine."""

    part: str
    """``document`` (to look one up), ``vector`` (to compare one of 384 dimensions) or ``block`` (to search
    one)."""
    microseconds: float
    measured_at: dt.datetime | None
    """None: as shipped, not measured here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStatus:
    """A class of vectors, with the blocks that stand for it in searches."""

    tenant: str
    space: str
    class_: str
    """``tenant``, or ``list`` and the number of an access list."""
    chunks: int
    """In force now."""
    state: str
    """``live``, ``building``, ``none`` (yet) or ``unusable`` (brought by a dump, or dropped by hand)."""
    vectors: int
    """In the blocks."""
    loose: int
    """Chunks that are compared one by one meanwhile."""
    retired: int
    """Vectors that the blocks hold in vain."""
    bytes: int
    """On disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a check of the installation has found, or that it found nothing."""

    check: str
    severity: str
    """``error``, ``warning``, ``note``, or ``ok``: nothing."""
    object: str | None
    finding: str
    remedy: str | None
    """SQL, where it ends with a semicolon; otherwise what to do."""


# -- Writing -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A revision that is begun, or that was there already (``created`` False) in this state."""

    revision: str
    state: str
    """``staged`` or ``verified``."""
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """``verified``, or ``staged`` with the faults that keep it there."""

    state: str
    chunks: int
    faults: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEmbedding:
    """A chunk that wants an embedding in a space, and what there is of it to encode."""

    document: str
    revision: str
    chunk_no: int
    title: str
    section: str
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """How much of a revision is in a space."""

    complete: bool
    missing: int
    """Chunks that have no embedding there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """One step of filling a space, which is done."""

    space: str
    added: int
    """Embeddings."""
    remaining: bool
    """Whether there may be another step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of one document. With ``faults`` it is staged, and nothing of it can be found."""

    document: str
    revision: str
    chunks: int
    """Cut by this call."""
    created: bool
    """Whether there was something to do; False if this content was verified before."""
    activated: bool
    """Whether this call put the revision in force."""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReport:
    """What became of one document of a folder, all its revisions together."""

    document: str
    """Its key, or the path of a skipped file relative to the root."""
    outcome: str
    """``created``, ``unchanged``, ``failed`` or ``skipped``."""
    revisions: tuple[str, ...] = ()
    """The revisions that were created."""
    chunks: int = 0
    """In those revisions."""
    activated: bool = False
    """Whether another revision is in force now than before."""
    code: str = ""
    """Of a failure: pgrag's code, or the SQLSTATE."""
    reason: str = ""
    """Why it failed or was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One document is done: the ``done``-th of ``total``."""

    done: int
    total: int
    report: DocumentReport


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of a folder, document by document."""

    documents: tuple[DocumentReport, ...]

    def of(self, outcome: str) -> list[DocumentReport]:
        """The documents with this outcome."""
        return [one for one in self.documents if one.outcome == outcome]

    @property
    def created(self) -> list[DocumentReport]:
        """Documents that have a new revision."""
        return self.of("created")

    @property
    def unchanged(self) -> list[DocumentReport]:
        """Documents whose revisions were all there."""
        return self.of("unchanged")

    @property
    def failed(self) -> list[DocumentReport]:
        """Documents that are as they were, because of an error."""
        return self.of("failed")

    @property
    def skipped(self) -> list[DocumentReport]:
        """Files that are no documents."""
        return self.of("skipped")
