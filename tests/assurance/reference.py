"""What pgrag promises, worked out once more in plain Python: who sees what, in which revision, ranked how, packed how.

It shares nothing with the SQL but the numbers that docs/ranking.md and the contracts state. Slow and simple on purpose: lists
are walked, nothing is kept. Texts are of words that no stemmer changes, so that a word is its own lexeme.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

K1, B = 1.2, 0.75
THRESHOLDS = {"lexical": 0.22, "dense": 0.30, "hybrid": 0.40}
EVERYONE = "everyone"
NOW = datetime(2026, 1, 1, tzinfo=UTC)  # no period begins or ends between this and the day of the test
FOREVER, ALWAYS = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)


class Refused(Exception):
    """An operation that pgrag has to refuse, with this SQLSTATE."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Chunk:
    """A passage; ``chunk_id`` is the database's name for it, learned when it is written."""

    text: str
    vector: tuple[float, ...] | None
    chunk_id: str = ""


@dataclass
class Revision:
    name: str
    chunks: list[Chunk]
    title: str = ""
    language: str = "en"
    tags: tuple[str, ...] = ()
    team: str | None = None  # its metadata
    product: str | None = None
    version: str | None = None
    dated: date | None = None
    effective_from: datetime = ALWAYS
    effective_to: datetime = FOREVER
    verified: bool = True


@dataclass
class Document:
    source: str
    name: str
    readers: set[str] = field(default_factory=set)
    listed: frozenset[tuple[str, int]] = frozenset()  # the readers as they were named, each with its generation: a new one of a name is another
    revisions: dict[str, Revision] = field(default_factory=dict)
    active: str | None = None
    deleted: bool = False
    switches: list[str] = field(default_factory=list)  # what each activation and rollback put in force
    standing: dict[str, int] = field(default_factory=dict)  # revision: the switch that last put it in force, unless it was withdrawn

    def switch(self, revision: str, *, back: bool) -> None:
        """Put in force. A rollback withdraws all that was put in force after the revision was."""
        if back:
            last = max(n for n, name in enumerate(self.switches) if name == revision)
            self.standing = {name: n for name, n in self.standing.items() if n <= last}
        self.switches.append(revision)
        self.standing[revision] = len(self.switches) - 1
        self.active, self.deleted = revision, False

    def effective(self, at: datetime) -> Revision | None:
        """Of what stands, what was in force at the time: that which took effect last, and of those what was put in force last."""
        found = [r for r in self.revisions.values() if r.name in self.standing and r.effective_from <= at < r.effective_to]
        return max(found, key=lambda r: (r.effective_from, self.standing[r.name]), default=None)


@dataclass
class Passage:
    """A visible chunk and where it is from."""

    document: Document
    revision: Revision
    number: int
    chunk: Chunk

    @cached_property
    def words(self) -> list[str]:
        return tokens(self.revision.title) + tokens(self.chunk.text)


def tokens(text: str) -> list[str]:
    """Words, in order."""
    return [word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if word]


@dataclass
class Tenant:
    """The whole state of one tenant."""

    name: str
    principals: dict[str, str] = field(default_factory=lambda: {EVERYONE: EVERYONE})  # name: kind
    members: set[tuple[str, str]] = field(default_factory=set)  # group, member
    documents: dict[tuple[str, str], Document] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)  # users, and how often: the next of the name is another
    gone: Counter[str] = field(default_factory=Counter)  # the same of all principals

    # ---- operations: each changes the state, or is refused ----

    def put_membership(self, group: str, member: str) -> None:
        if group not in self.principals or member not in self.principals:
            raise Refused("RG401")
        if self.principals[group] != "group" or member == EVERYONE:
            raise Refused("RG407")
        self.members.add((group, member))

    def drop_membership(self, group: str, member: str) -> None:
        if (group, member) not in self.members:
            raise Refused("RG401")
        self.members.discard((group, member))

    def drop_principal(self, name: str) -> None:
        """For good: a new one of the name is another."""
        if name not in self.principals or name == EVERYONE:
            raise Refused("RG401")
        self.gone[name] += 1
        if self.principals.pop(name) == "user":
            self.dropped[name] += 1
        self.members = {(g, m) for g, m in self.members if name not in (g, m)}
        for document in self.documents.values():
            document.readers.discard(name)

    def document(self, source: str, name: str) -> Document:
        if (source, name) not in self.documents:
            raise Refused("RG401")
        return self.documents[source, name]

    def stage(self, source: str, name: str, revision: Revision) -> None:
        document = self.documents.setdefault((source, name), Document(source, name))
        document.revisions.setdefault(revision.name, revision)

    def set_access(self, source: str, name: str, readers: set[str]) -> bool:
        """Whether that changed the list."""
        document = self.document(source, name)
        if not readers <= set(self.principals):
            raise Refused("RG401")
        before, document.listed = document.listed, frozenset((reader, self.gone[reader]) for reader in readers)
        document.readers = set(readers)
        return document.listed != before

    def activate(self, source: str, name: str, revision: str, *, expected: str | None = None, restore: bool = False) -> bool:
        """Whether that changed anything."""
        document = self.document(source, name)
        if revision not in document.revisions:
            raise Refused("RG401")
        if not document.revisions[revision].verified or document.revisions[revision].effective_from > NOW:
            raise Refused("RG405")
        if document.active == revision and not document.deleted:
            return False
        if expected is not None and expected != (document.active or ""):
            raise Refused("RG402")
        if document.deleted and not restore:
            raise Refused("RG409")
        document.switch(revision, back=False)
        return True

    def rollback(self, source: str, name: str, revision: str | None = None) -> str:
        """What is in force now."""
        document = self.document(source, name)
        if revision is not None and revision not in document.revisions:
            raise Refused("RG401")
        if revision is not None and revision == document.active:
            if document.deleted:
                raise Refused("RG409")
            return revision
        if revision is None:
            others = {n: at for n, at in document.standing.items() if n != document.active}
            revision = max(others, key=others.__getitem__, default=None)
        elif revision not in document.switches:
            revision = None
        if revision is None:
            raise Refused("RG405")
        if document.deleted:
            raise Refused("RG409")
        document.switch(revision, back=True)
        return revision

    def delete(self, source: str, name: str) -> bool:
        """Whether it was there."""
        document = self.document(source, name)
        there, document.deleted = not document.deleted, True
        return there

    # ---- who sees what ----

    def closure(self, reader: str) -> set[str]:
        """The reader, everyone, and the groups that they are in, however deep; nobody, if there is no such reader."""
        if self.principals.get(reader) not in ("user", "service"):
            return set()
        found = {reader, EVERYONE}
        while more := {group for group, member in self.members if member in found} - found:
            found |= more
        return found

    def visible(self, reader: str, now: datetime, as_of: datetime | None = None, wanted: dict[str, Any] | None = None) -> list[Passage]:
        """The chunks that the reader may be shown, of the revisions in force, or in force then; access is today's."""
        mine = self.closure(reader)
        found = []
        for document in self.documents.values():
            if document.deleted or document.active is None or not mine & document.readers:
                continue
            revision = document.revisions[document.active] if as_of is None else document.effective(as_of)
            if revision is None or (as_of or now) >= revision.effective_to or not passes(document, revision, wanted or {}):
                continue
            found += [Passage(document, revision, number, chunk) for number, chunk in enumerate(revision.chunks, start=1)]
        return found


def passes(document: Document, revision: Revision, wanted: dict[str, Any]) -> bool:
    """Whether a filter lets it pass."""
    return all(
        {
            "source": lambda value: document.source in ([value] if isinstance(value, str) else value),
            "language": lambda value: revision.language in ([value] if isinstance(value, str) else value),
            "tags": lambda value: set(value) <= set(revision.tags),
            "product": lambda value: revision.product in ([value] if isinstance(value, str) else value),
            "version": lambda value: revision.version in ([value] if isinstance(value, str) else value),
            "date_from": lambda value: revision.dated is not None and revision.dated >= date.fromisoformat(value),
            "date_to": lambda value: revision.dated is not None and revision.dated <= date.fromisoformat(value),
            "metadata": lambda value: all(name == "team" and revision.team == its for name, its in value.items()),
        }[key](value)
        for key, value in wanted.items()
    )


# ---- ranking ----


@dataclass
class Hit:
    passage: Passage
    score: float
    relevance: float
    lexical_rank: int | None = None
    lexical_score: float | None = None
    dense_rank: int | None = None
    cosine: float | None = None
    duplicates: list[str] = field(default_factory=list)


@dataclass
class Answer:
    status: str
    reason: str | None
    complete_reason: str
    hits: list[Hit]
    documents: int
    chunks: int
    sure: bool = True  # whether no order in it hangs on the last bit of a number
    matches: int = 0  # what the lanes found
    scope: list[Passage] = field(default_factory=list)


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def idf(chunks: float, frequency: float) -> float:
    return math.log(1 + (max(chunks - frequency, 0) + 0.5) / (frequency + 0.5))


def holds(passage: Passage, phrases: Sequence[list[str]], excluded: Sequence[str]) -> bool:
    """Whether it has every phrase, in order, and none of the excluded words."""
    words = passage.words
    there = all(any(words[n : n + len(phrase)] == phrase for n in range(len(words))) for phrase in phrases)
    return there and not set(words) & set(excluded)


def correlation(pairs: list[tuple[float, float]]) -> float | None:
    """None where it is not defined."""
    xs, ys = zip(*pairs, strict=True)
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        return None
    x, y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    covariance = math.fsum((a - x) * (b - y) for a, b in pairs)
    return covariance / math.sqrt(math.fsum((a - x) ** 2 for a in xs) * math.fsum((b - y) ** 2 for b in ys))


def alike(one: str, other: str) -> bool:
    """Near-duplicates: nine of ten words in common, and every number."""
    a, b = set(tokens(one)), set(tokens(other))
    if len(a | b) < 8 or any(c.isdigit() for word in a ^ b for c in word):
        return False
    return 1 - len(a ^ b) / len(a | b) >= 0.9 - 1e-12


def tied(values: Sequence[tuple[float, Any]]) -> bool:
    """Whether two of these, in order, are so near that the last bit decides. What was added up to the same out of the same is the
    same to the last bit in the database too; out of something else it may not be.
    """
    return any(abs(a - b) < 1e-12 and (a, made_of) != (b, others) for (a, made_of), (b, others) in pairwise(values))


def search(
    tenant: Tenant, reader: str, now: datetime, *, question: str, phrases: Sequence[list[str]] = (), excluded: Sequence[str] = (),
    mode: str = "hybrid", fusion: str = "convex", k: int = 10, candidates: int = 100, embedding: tuple[float, ...] | None = None,
    as_of: datetime | None = None, filter: dict[str, Any] | None = None, per_document: int = 100, per_source: int = 100,
    threshold: float | None = None,
) -> Answer:  # fmt: skip
    """One question. ``question`` is its words, those of its phrases among them."""
    scope = tenant.visible(reader, now, as_of, filter)
    sure = True
    if phrases and not any(holds(p, phrases, []) for p in scope):
        phrases = ()  # a phrase that nothing visible holds is asked for as words
    asked = list(dict.fromkeys(tokens(question)))
    by_id = {p.chunk.chunk_id: p for p in scope}
    average = sum(len(p.words) for p in scope) / len(scope) if scope else 1.0
    # A word is a lexeme of a language: chunks of another are not counted among those that have it. English has a stemmer, "xx" has none.
    frequency = {language: {word: sum(word in p.words for p in scope if p.revision.language == language) for word in asked}
                 for language in {p.revision.language for p in scope}}  # fmt: skip

    # The lexical lane
    scores, share, coverage, evidence, made_of = {}, {}, {}, {}, {}
    for key, passage in by_id.items():
        words = passage.words
        counts = {word: words.count(word) for word in asked}
        if mode == "dense" or not any(counts.values()) or not holds(passage, phrases, excluded):
            continue
        weight = {word: (K1 + 1) * idf(len(scope), n) for word, n in frequency[passage.revision.language].items()}
        smooth = {word: idf(len(scope) + 100, n + 1) for word, n in frequency[passage.revision.language].items()}
        norm = K1 * (1 - B + B * len(words) / average)
        made_of[key] = (tuple(counts.items()), len(words), passage.revision.language)
        scores[key] = math.fsum(weight[w] * n / (n + norm) for w, n in counts.items())
        share[key] = scores[key] / math.fsum(weight.values())
        coverage[key] = min(math.fsum(smooth[w] for w, n in counts.items() if n) / math.fsum(smooth.values()), 1)
        evidence[key] = min(math.fsum(smooth[w] * n / (n + norm) for w, n in counts.items()) / math.fsum(smooth.values()), 1)
    lexical = sorted(scores, key=lambda key: (-share[key], -scores[key], key))
    sure &= not tied([(share[key], made_of[key]) for key in lexical])
    lexical_rank = {key: n for n, key in enumerate(lexical[:candidates], start=1)}

    # The dense lane
    cosines = {}
    if mode != "lexical" and embedding is not None:
        cosines = {key: cosine(p.chunk.vector, embedding) for key, p in by_id.items() if p.chunk.vector is not None}
    near = sorted((key for key in cosines if holds(by_id[key], phrases, excluded)), key=lambda key: (-cosines[key], key))
    sure &= not tied([(cosines[key], None) for key in near])
    dense_rank = {key: n for n, key in enumerate(near[:candidates], start=1)}

    # Fusion
    best = max((share[key] for key in lexical_rank), default=None)
    trust = 1.0
    if lexical_rank and mode == "hybrid":
        pairs = [(share[key], cosines[key]) for key in lexical_rank if key in cosines]
        points, r = max(len(pairs) - 3, 0), correlation(pairs) if pairs else None
        if r is None and points:
            sure = False  # of equal numbers PostgreSQL may see a variance in the last bit
        agreement = (points * (0.2 if r is None else r) + 2) / (points + 10) / 0.2
        trust = 1 - min(best / 0.3, 1) * (1 - min(max(agreement, 0), 1))
    hits = []
    for key in dict.fromkeys([*lexical_rank, *dense_rank]):
        its = max(cosines.get(key, 0), 0)
        if mode == "lexical":
            score, relevance = share[key] / max(best or 0, 1), evidence[key]
        elif mode == "dense":
            score, relevance = cosines[key], its
        else:
            score = (share.get(key, 0) / max(best or 0, 0.3) + trust * its) / 2
            if fusion == "rrf":
                score = sum(w / (60 + ranks[key]) for w, ranks in ((0.7, lexical_rank), (0.3, dense_rank)) if key in ranks)
            relevance = math.sqrt(coverage.get(key, 0) * (its if key in cosines else evidence.get(key, 0)))
        hits.append(Hit(by_id[key], score, relevance, lexical_rank.get(key), scores.get(key), dense_rank.get(key), cosines.get(key)))
    hits.sort(key=lambda hit: (-hit.score, hit.passage.chunk.chunk_id))
    sure &= not tied([(hit.score, None if fusion == "rrf" and mode == "hybrid" else (made_of.get(hit.passage.chunk.chunk_id), hit.cosine)) for hit in hits])

    # The k best, with caps, and near-duplicates under the first
    taken: list[Hit] = []
    capped = False
    for hit in hits:
        document = hit.passage.document
        same = [t for t in taken if t.passage.document is document]
        beside = [t for t in taken if t.passage.document.source == document.source]
        if len(same) >= per_document or len(beside) >= per_source:
            capped = True
        elif twin := next((t for t in taken if alike(t.passage.chunk.text, hit.passage.chunk.text)), None):
            twin.duplicates.append(hit.passage.chunk.chunk_id)
        else:
            taken.append(hit)
            if len(taken) == k:
                break
    full = len(lexical_rank) == candidates or len(dense_rank) == candidates
    complete = "k_returned" if len(taken) == k else "capped" if capped or full else "all_matches_returned"
    bound = THRESHOLDS[mode] if threshold is None else threshold
    top = max((hit.relevance for hit in taken), default=0.0)
    sure &= not taken or abs(top - bound) > 1e-9
    reason = "nothing_visible" if not scope else "nothing_matches" if not taken else "below_threshold" if top < bound else None
    return Answer(
        "abstain" if reason else "evidence", reason, complete, taken, len({id(p.document) for p in scope}), len(scope), sure, len(hits), scope
    )


@dataclass
class Packet:
    status: str
    reason: str | None
    excerpts: list[str]  # chunk ids
    omitted: list[str]
    left: int


def pack(answer: Answer, question: str, threshold: float, budget: int, reserve: int = 0) -> Packet:
    """Whole passages in the order of rank while they fit, none below the threshold; the budget is in characters."""
    left = budget - len(question) - reserve
    if left <= 0:
        raise Refused("RG306")
    excerpts, omitted = [], []
    for hit in answer.hits if answer.status == "evidence" else []:
        if round(hit.relevance, 6) < threshold:
            continue
        if len(hit.passage.chunk.text) <= left:
            left -= len(hit.passage.chunk.text)
            excerpts.append(hit.passage.chunk.chunk_id)
        else:
            omitted.append(hit.passage.chunk.chunk_id)
    return Packet("evidence" if excerpts else "abstain", None if excerpts else answer.reason or "over_budget", excerpts, omitted, left)
