"""Random worlds, built in a database and in the reference model alike, and random questions to both.

A world is a tenant: users and groups in groups (cycles welcome), documents in two sources with a past of revisions, activations,
rollbacks, deletions and changes of readers. Texts are of words that stem to themselves, vectors of small whole numbers, whose
sums single precision holds exactly.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg

from tests.assurance import reference
from tests.assurance.reference import NOW, Answer, Chunk, Passage, Refused, Revision, Tenant
from tests.support import Database

WORDS = ("zorbak", "klimot", "vantur", "poldem", "grisp", "brunt", "flokt", "hamdok", "jurt", "kwomp", "lendurk", "mirbat",
         "norp", "plonk", "quark", "rumblot", "skorf", "trumpot", "ubrok", "wandok", "yurt", "zimdok", "bordat", "cromp")  # fmt: skip
ABSENT = "xanthop"
TRUST = {"handbook": "internal", "wiki": "external"}
SOURCES = tuple(TRUST)
DIMENSION = 4
PERIODS = [datetime(year, 1, 1, tzinfo=UTC) for year in (2019, 2021, 2023)]
OVER, LATER = datetime(2024, 6, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
TIMES = [datetime(2018, 6, 1, tzinfo=UTC), datetime(2020, 6, 1, tzinfo=UTC), datetime(2022, 6, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)]  # fmt: skip
DATES = (date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1))
Connection = psycopg.Connection[Any]


class Hands:
    """One connection for each role, and transactions of principals on them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._open = ExitStack()
        self.roles = {
            role: self._open.enter_context(psycopg.connect(database.dsn(f"app_{role}"), autocommit=True))
            for role in ("operator", "admin", "writer", "reader", "browser")
        }
        self.superuser = self._open.enter_context(database.superuser())
        self.ids: dict[str, Chunk] = {}  # of all tenants

    def close(self) -> None:
        self._open.close()

    def maintain(self) -> None:
        """All that there is to do."""
        done = []
        for _ in range(2000):
            action, remaining = self.roles["operator"].execute("select action, remaining from pgrag.maintain('0')").fetchone()
            done.append(action)
            if not remaining:
                return
        raise RuntimeError(f"maintenance does not end: {done[-50:]}")

    @contextmanager
    def on(self, role: str, tenant: str, subject: str, **claims: Any) -> Iterator[Connection]:
        """A transaction of the principal's, which commits."""
        kind = "reader" if role == "browser" else role
        connection = self.roles[role]
        with connection.transaction():
            connection.execute("select pgrag.authenticate(%s)", (self.database.token(tenant, subject, kind, **claims),))
            yield connection


class Twin:
    """A tenant twice: in the database and in the model. Each operation is done to both, and both have to say the same of it."""

    def __init__(self, hands: Hands, name: str) -> None:
        self.hands, self.model, self.number, self.partial = hands, Tenant(name), 0, False
        operator = hands.roles["operator"]
        with operator.transaction():
            operator.execute("select pgrag.put_tenant(%s)", (name,))
            for source, trust in TRUST.items():
                operator.execute("select pgrag.put_source(%s, %s, p_trust => %s)", (name, source, trust))
            operator.execute("select pgrag.put_space(%s, 'toy', 'toy-model', '1', %s, p_normalisation => 'none')", (name, DIMENSION))

    def both(self, role: str, change: Callable[[], Any], sql: str, parameters: Sequence[Any], source: str | None = None) -> str:
        """Do it in the database and to the model, which have to return the same, if the model says what; the SQLSTATE, empty where it was done."""
        expected, result, returned = "", None, None
        try:
            result = change()
        except Refused as refused:
            expected = refused.code
        try:
            with self.hands.on(role, self.model.name, "somebody", **({"source": source} if source else {})) as connection:
                (returned,) = connection.execute(sql, parameters).fetchone()
            got = ""
        except psycopg.Error as error:
            got = error.sqlstate or repr(error)
        assert got == expected, f"{sql} {parameters}: {got or 'done'}, the model says {expected or 'done'}"
        assert got or result is None or returned == result, f"{sql} {parameters} returned {returned}, the model says {result}"
        return got

    # ---- operations ----

    def put_principal(self, name: str, kind: str) -> None:
        self.both("admin", lambda: self.model.principals.update({name: kind}), "select pgrag.put_principal(%s, %s)", (name, kind))

    def put_membership(self, group: str, member: str) -> None:
        self.both("admin", lambda: self.model.put_membership(group, member), "select pgrag.put_membership(%s, %s)", (group, member))

    def drop_membership(self, group: str, member: str) -> None:
        self.both("admin", lambda: self.model.drop_membership(group, member), "select pgrag.drop_membership(%s, %s)", (group, member))

    def drop_principal(self, name: str) -> None:
        self.both("admin", lambda: self.model.drop_principal(name), "select pgrag.drop_principal(%s)", (name,))

    def write(self, source: str, documents: list[tuple[str, Revision]]) -> None:
        """Stage, and verify what is to be verified; in one transaction."""
        with self.hands.on("writer", self.model.name, "connector", source=source) as writer, writer.pipeline():
            for name, revision in documents:
                self.model.stage(source, name, revision)
                texts = [chunk.text for chunk in revision.chunks]
                ends = [sum(map(len, texts[: n + 1])) for n in range(len(texts))]
                vectors = None if revision.chunks[0].vector is None else [str(list(chunk.vector or ())) for chunk in revision.chunks]
                writer.execute(
                    "select pgrag.stage_revision(%s, %s, %s, %s, %s, p_tags => %s, p_effective_from => %s, p_effective_to => %s, p_space => %s, p_metadata => %s, p_product => %s, p_version => %s, p_dated => %s)",
                    (name, "".join(texts), revision.title, revision.language, revision.name, list(revision.tags), bound(revision.effective_from),
                     bound(revision.effective_to), vectors and "toy", json.dumps({"team": revision.team} if revision.team else {}),
                     revision.product, revision.version, revision.dated),
                )  # fmt: skip
                writer.execute(
                    "select pgrag.add_chunks(%s, %s, 1, %s, %s, %s, %s, p_embeddings => %s::public.vector[])",
                    (name, revision.name, texts, [0, *ends[:-1]], ends, [len(text.split()) for text in texts], vectors),
                )
                if revision.verified:
                    writer.execute("select pgrag.verify_revision(%s, %s, %s)", (name, revision.name, len(texts)))

    def learn_chunk_ids(self) -> None:
        """What the database calls each chunk."""
        rows = self.hands.superuser.execute(
            """select s.source, d.document, r.revision, c.chunk_no, encode(c.chunk_id, 'hex')
                 from pgrag_data.chunk c join pgrag_data.revision r using (tenant_id, revision_id) join pgrag_data.document d using (tenant_id, document_id)
                 join pgrag_data.source s using (tenant_id, source_id) join pgrag_data.tenant t using (tenant_id) where t.tenant = %s""",
            (self.model.name,),
        )
        for source, document, revision, number, chunk_id in rows:
            chunk = self.model.documents[source, document].revisions[revision].chunks[number - 1]
            assert chunk.chunk_id in ("", chunk_id) and self.hands.ids.setdefault(chunk_id, chunk) is chunk, f"{chunk_id} is another chunk's, or another now"
            chunk.chunk_id = chunk_id

    def set_access(self, source: str | None, name: str, readers: set[str], by: str = "writer") -> None:
        self.of_document(by, source, lambda its: self.model.set_access(its, name, readers), "set_access(%s, %s", (name, sorted(readers)))

    def activate(self, source: str | None, name: str, revision: str, expected: str | None = None, restore: bool = False, by: str = "writer") -> None:
        self.of_document(by, source, lambda its: self.model.activate(its, name, revision, expected=expected, restore=restore),
                         "activate(%s, %s, %s, %s", (name, revision, expected, restore))  # fmt: skip

    def rollback(self, source: str | None, name: str, revision: str | None = None, by: str = "writer") -> None:
        self.of_document(by, source, lambda its: self.model.rollback(its, name, revision), "rollback(%s, %s", (name, revision))

    def delete(self, source: str | None, name: str, by: str = "writer") -> None:
        self.of_document(by, source, lambda its: self.model.delete(its, name), "delete_document(%s", (name,))

    def of_document(self, by: str, source: str | None, change: Callable[[str], Any], call: str, parameters: Sequence[Any]) -> None:
        """By the source's connector, or by an administrator, who has to name the source."""

        def changed() -> Any:
            if source is None:
                raise Refused("RG408")
            return change(source)

        if by == "writer":
            self.both("writer", changed, f"select pgrag.{call})", parameters, source)
        else:
            self.both("admin", changed, f"select pgrag.{call}, p_source => %s)", (*parameters, source))


def bound(at: datetime) -> datetime | None:
    return None if at in (reference.ALWAYS, reference.FOREVER) else at


# ---- random worlds ----


def some_text(dice: random.Random) -> str:
    words = [dice.choice(WORDS[: dice.choice((6, 12, 24))]) for _ in range(dice.randint(3, 14))]
    if dice.random() < 0.2:
        words.insert(dice.randrange(len(words)), str(dice.randrange(100)))
    return " ".join(words).capitalize() + ". "


def some_vector(dice: random.Random) -> tuple[float, ...]:
    while not any(vector := tuple(dice.randint(-3, 8) for _ in range(DIMENSION))):
        pass
    return vector


def some_revision(dice: random.Random, name: str, known: list[str]) -> Revision:
    """``known``: texts of before, of which some come again, as they were or with a word changed."""
    texts = []
    for _ in range(dice.choice((1, 1, 2, 2, 3, 5))):
        text = some_text(dice)
        if known and dice.random() < 0.15:
            words = dice.choice(known).split()
            words[dice.randrange(len(words))] = dice.choice(WORDS)
            text = " ".join(words).rstrip(".") + ". "
        texts.append(text)
    known += texts
    embedded = dice.random() < 0.9
    effective_from = dice.choice((reference.ALWAYS, *PERIODS) * 5 + (LATER,))
    return Revision(
        name, [Chunk(text, some_vector(dice) if embedded else None) for text in texts],
        title=dice.choice(("", "", dice.choice(WORDS).capitalize())), language=dice.choice(("en", "en", "en", "xx")),
        tags=tuple(sorted(dice.sample(("new", "old", "draft"), dice.choice((0, 0, 1, 2))))), team=dice.choice((None, "ops", "law")),
        effective_from=effective_from, effective_to=reference.FOREVER if effective_from == LATER else dice.choice((reference.FOREVER,) * 6 + (OVER,)),
        product=dice.choice((None, "tent", "boat")), version=dice.choice((None, "1", "2")), dated=dice.choice((None, *DATES)), verified=dice.random() < 0.88,
    )  # fmt: skip


def random_world(hands: Hands, name: str, dice: random.Random) -> Twin:
    """A tenant with a past."""
    twin = Twin(hands, name)
    model = twin.model
    users, groups = [f"user-{n}" for n in range(dice.randint(3, 5))], [f"group-{n}" for n in range(dice.randint(1, 5))]
    with hands.on("admin", name, "root") as admin, admin.pipeline():
        for kind, names in (("user", users), ("group", groups)):
            for its in names:
                model.principals[its] = kind
                admin.execute("select pgrag.put_principal(%s, %s)", (its, kind))
        for group in groups:
            for member in dice.sample([*users, *groups], dice.randint(0, 3)):
                model.put_membership(group, member)
                admin.execute("select pgrag.put_membership(%s, %s)", (group, member))
    known: list[str] = []
    everybody = [*users, *groups, reference.EVERYONE]
    for source in SOURCES:
        names = [f"{n}.md" for n in range(dice.randint(4, 9))]
        twin.write(source, [(its, some_revision(dice, f"r{n}", known)) for its in names for n in range(1, dice.choice((1, 1, 2, 3, 4)) + 1)])
        with hands.on("writer", name, "connector", source=source) as writer, writer.pipeline():
            for its in names:
                document = model.documents[source, its]
                readers = set(dice.sample(everybody, dice.choice((0, 1, 1, 1, 2, 3))))
                model.set_access(source, its, readers)
                writer.execute("select pgrag.set_access(%s, %s)", (its, sorted(readers)))
                for revision in document.revisions.values():
                    if revision.verified and revision.effective_from < NOW and dice.random() < 0.9:
                        model.activate(source, its, revision.name)
                        writer.execute("select pgrag.activate(%s, %s)", (its, revision.name))
                for _ in range(dice.choice((0, 0, 1, 2, 3)) if len(document.standing) > 1 else 0):  # back, and forth again
                    named = dice.choice((None, *document.switches))
                    if dice.random() < 0.6 and (named or len(document.standing) > 1):
                        model.rollback(source, its, named)
                        writer.execute("select pgrag.rollback(%s, %s)", (its, named))
                    elif named:
                        model.activate(source, its, named)
                        writer.execute("select pgrag.activate(%s, %s)", (its, named))
    for _ in range(dice.randint(3, 8)):
        change(twin, dice)
    twin.learn_chunk_ids()
    return twin


def change(twin: Twin, dice: random.Random) -> None:
    """One random operation, which may be refused."""
    model = twin.model
    deleted = [key for key, document in model.documents.items() if document.deleted]
    source, name = dice.choice(deleted if deleted and dice.random() < 0.3 else list(model.documents))
    document = model.documents[source, name]
    groups = [p for p, kind in model.principals.items() if kind == "group"]
    anybody = [*model.principals, *groups, *(f"{kind}-{n}" for kind in ("user", "group") for n in range(3)), "nobody"]  # dropped ones among them
    unfit = [r.name for r in document.revisions.values() if not r.verified or r.effective_from > NOW or r.name not in document.switches]
    revision = dice.choice(unfit if unfit and dice.random() < 0.3 else [*document.revisions, "nowhere"])
    by = dice.choice(("writer", "writer", "admin"))
    where = source if by == "writer" or dice.random() < 0.9 else None
    name = name if dice.random() < 0.95 else "nowhere.md"
    which = dice.randrange(12)
    if which in (0, 11):
        twin.delete(where, name, by)
    elif which in (1, 2):
        twin.activate(where, name, revision, expected=dice.choice((None, None, document.active, "r1", "")), restore=dice.random() < 0.5, by=by)
    elif which == 3:
        twin.rollback(where, name, dice.choice((None, revision)), by)
    elif which == 4:
        twin.set_access(where, name, set(dice.sample(anybody, dice.randint(0, 2))), by)
    elif which == 5:
        twin.drop_membership(*dice.choice([*sorted(model.members), ("group-0", "user-0")]))
    elif which == 6:
        twin.put_membership(dice.choice([*groups, *anybody]), dice.choice((*anybody, reference.EVERYONE, reference.EVERYONE)))
    elif which in (7, 8):
        gone = dice.choice(anybody)
        kind = model.principals.get(gone)
        twin.drop_principal(gone)
        if kind and gone not in model.principals and dice.random() < 0.5:
            twin.put_principal(gone, kind)  # another of the same name
    elif which == 9 and document.name == name:
        twin.number += 1
        twin.write(source, [(name, some_revision(dice, f"s{twin.number}", []))])
        twin.learn_chunk_ids()
    elif which == 10 and document.deleted and document.active:
        twin.activate(source, document.name, document.active, restore=True)


# ---- random questions ----


@dataclass
class Question:
    """A request as the database takes it, and as the model does."""

    request: dict[str, Any]
    model: dict[str, Any]

    @property
    def threshold(self) -> float:
        return self.request.get("threshold", reference.THRESHOLDS[self.request["mode"]])


def some_time(dice: random.Random) -> datetime:
    """Within a period, or where one ends and the next begins."""
    return dice.choice((*PERIODS, OVER)) if dice.random() < 0.3 else dice.choice(TIMES) + timedelta(hours=dice.randrange(1000))


def some_question(dice: random.Random, texts: list[str]) -> Question:
    words = [dice.choice([*WORDS, ABSENT]) for _ in range(dice.choice((1, 2, 2, 3, 4, 6)))]
    phrases, excluded = [], []
    if dice.random() < 0.2:
        near = reference.tokens(dice.choice(texts)) if texts and dice.random() < 0.8 else dice.sample(WORDS, 2)
        at = dice.randrange(max(len(near) - 1, 1))
        phrases = [near[at : at + 2]]
    if dice.random() < 0.15:
        excluded = [dice.choice(WORDS)]
    written = " ".join([*words, *(f'"{" ".join(phrase)}"' for phrase in phrases), *(f"-{word}" for word in excluded)])
    mode, k = dice.choice(("lexical", "dense", "hybrid", "hybrid")), dice.choice((1, 2, 3, 5, 10))
    request: dict[str, Any] = {"question": written, "mode": mode, "k": k, "isolation": dice.choice(("auto", "strict"))}
    model: dict[str, Any] = {"question": " ".join([*words, *(word for phrase in phrases for word in phrase)]), "phrases": phrases, "excluded": excluded, "mode": mode, "k": k}
    if mode != "lexical":
        model["embedding"] = some_vector(dice)
        request |= {"space": "toy", "embedding": list(model["embedding"])}
    if mode == "hybrid" and dice.random() < 0.3:
        request["fusion"] = model["fusion"] = "rrf"
    if dice.random() < 0.25:
        request["candidates"] = model["candidates"] = dice.randint(k, 20)
    if dice.random() < 0.6:
        request["threshold"] = model["threshold"] = 0
    for cap in ("per_document", "per_source"):
        if dice.random() < 0.12:
            request[cap] = model[cap] = dice.randint(1, 3)
    if dice.random() < 0.3:
        model["as_of"] = some_time(dice)
        request["as_of"] = model["as_of"].isoformat()
    if dice.random() < 0.3:
        request["filter"] = model["filter"] = dice.choice((
            {"source": dice.choice(SOURCES)}, {"tags": [dice.choice(("new", "old"))]}, {"metadata": {"team": dice.choice(("ops", "law"))}},
            {"source": ["wiki", "nowhere"], "language": "xx"}, {"tags": ["new", "draft"], "language": ["en"]}, {"language": "xx"}, {"source": ["wiki", "handbook"], "language": "en"},
            {"product": dice.choice(("tent", "boat"))}, {"product": ["tent", "car"], "version": "1"}, {"version": ["1", "2"]},
            {"date_from": "2021-01-01"}, {"date_to": "2021-01-01"}, {"date_from": "2020-06-01", "date_to": "2021-06-01", "metadata": {"team": "ops"}},
        ))  # fmt: skip
    return Question(request, model)


def as_rows(question: Question, statement: str = "select chunk_id from pgrag.search({}) order by rank") -> tuple[str, dict[str, Any]]:
    """The same with arguments by name, of pgrag.search, which answers in rows, or another function."""
    given = {f"p_{name}": json.dumps(value) if name in ("filter", "embedding") else value for name, value in question.request.items()}
    casts = {"p_filter": "::jsonb", "p_embedding": "::public.vector", "p_as_of": "::timestamptz"}
    arguments = ", ".join(f"{name} => %({name})s{casts.get(name, '')}" for name in given)
    return statement.format(arguments), given


def answered(twin: Twin, reader: str, question: Question) -> Answer:
    """By the model."""
    return reference.search(twin.model, reader, NOW, **question.model)


def differences(expected: Answer, found: dict[str, Any]) -> list[str]:
    """In what the database's answer is not the model's; where an order hangs on the last bit, only in what may be shown at all, and what that is."""
    by_id = {p.chunk.chunk_id: p for p in expected.scope}
    wrong = [f"{hit['chunk_id'][:8]} is not visible" for hit in found["hits"] if hit["chunk_id"] not in by_id or any(d["chunk_id"] not in by_id for d in hit["duplicates"])]
    wrong += [f"{hit['chunk_id'][:8]}: {theirs!r}, the model says {ours!r}" for hit in found["hits"] if hit["chunk_id"] in by_id
              for ours, theirs in described(by_id[hit["chunk_id"]], hit) if ours != theirs]  # fmt: skip
    if wrong or found["complete"] != (found["complete_reason"] in ("k_returned", "all_matches_returned")) or len(found["hits"]) > found["policy"]["k"]:
        return wrong or ["complete or k is not kept"]
    seen: list[tuple[str, Any, Any]] = [("chunks", expected.chunks, found["scope"]["chunks"]), ("documents", expected.documents, found["scope"]["documents"])]
    if expected.sure:
        seen += [("status", expected.status, found["status"]), ("reason", expected.reason, found["reason"]), ("complete_reason", expected.complete_reason, found["complete_reason"]),
                 ("order", [hit.passage.chunk.chunk_id for hit in expected.hits], [hit["chunk_id"] for hit in found["hits"]])]  # fmt: skip
    wrong = [f"{what}: {theirs}, the model says {ours}" for what, ours, theirs in seen if ours != theirs]
    if wrong or not expected.sure:
        return wrong
    for ours, theirs in zip(expected.hits, found["hits"], strict=True):
        pairs = [
            (ours.score, theirs["score"]), (ours.relevance, theirs["relevance"]), (ours.lexical_rank, theirs["lexical_rank"]), (ours.dense_rank, theirs["dense_rank"]),
            (ours.lexical_score, theirs["lexical_score"]), (ours.cosine, theirs["dense_score"]), (ours.duplicates, [d["chunk_id"] for d in theirs["duplicates"]]),
        ]  # fmt: skip
        wrong += [f"{theirs['chunk_id'][:8]}: {b}, the model says {a}" for a, b in pairs if not same(a, b)]
    return wrong


def described(passage: Passage, hit: dict[str, Any]) -> list[tuple[Any, Any]]:
    """What a passage is, by the model and by a hit."""
    document, revision = passage.document, passage.revision
    start = sum(len(chunk.text) for chunk in revision.chunks[: passage.number - 1])
    return [(document.name, hit["document"]), (document.source, hit["source"]), (revision.name, hit["revision"]), (revision.name == document.active, hit["active"]),
            (passage.chunk.text, hit["text"]), (revision.title, hit["title"]), (revision.language, hit["language"]), ("", hit["section"]), (TRUST[document.source], hit["trust"]),
            (start, hit["span_start"]), (start + len(passage.chunk.text), hit["span_end"])]  # fmt: skip


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, int | float):
        return abs(a - b) < 2e-6
    return bool(a == b)
