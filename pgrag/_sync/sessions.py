# Generated from pgrag/_async/sessions.py by tools/unasync.py; do not edit.
# ruff: noqa: I001
# fmt: off
"""Sessions: a connection on which somebody is authenticated for the length of one transaction.

    with connect(dsn) as connection:
        with reader(connection, token) as r:
            packet = r.packet("What is the refund window?")

A session begins a transaction, authenticates, and commits at the end of its block, or rolls back if the
block raises. On a connection that is in a transaction already, it is a savepoint of that transaction,
which stays its owner's to commit; at its end, the principal that was there before is there again.

Every method calls one function of schema ``pgrag``. What pgrag refuses is a ``PgragError``; everything
else (a lost connection, a statement that was cancelled or timed out, a deadlock) is psycopg's exception,
unchanged. After either of them the block can only be left: the transaction has failed.

Statements are never prepared: a prepared statement outlives its transaction, and with it its principal.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, LiteralString, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from numpy.typing import NDArray
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, scalar_row

from pgrag import _requests, _reranking, log, metrics
from pgrag._sync._flavour import AnyConnection, in_thread, in_time, psycopg_connection
from pgrag._requests import Vector
from pgrag.errors import Conflict, EmbeddingError, IdentityError, InvalidInput, from_database
from pgrag.ingest import SourceDocument
from pgrag.models import (
    BlockStatus,
    Completeness,
    Diagnosis,
    Document,
    Excerpt,
    Filled,
    Identity,
    Ingested,
    MaintenanceStep,
    Membership,
    MissingEmbedding,
    Packet,
    Principal,
    Reply,
    Rerank,
    Revision,
    SearchCost,
    SearchResult,
    SigningKey,
    Source,
    SpaceStatus,
    Staged,
    Tenant,
    TenantSpace,
    Verdict,
    Verification,
)
from pgrag.protocols import Chunk, Chunker, Embedder, EmbeddingSpace, Reranker, Tokenizer
from pgrag.tokens import secret_bytes

_Row = TypeVar("_Row")
_AnySession = TypeVar("_AnySession", bound="Session")
Moment = dt.datetime | dt.date | str
"""A time with its zone, a day (its midnight in UTC), or either as ISO 8601 text."""


def connect(dsn: str, **options: Any) -> psycopg.Connection[Any]:
    """A connection that leaves nothing behind for its next user: no prepared statements, no autocommit.

    It speaks UTF-8, whatever PGCLIENTENCODING says. ``options`` are those of
    ``psycopg.Connection.connect``. Any other connection of psycopg 3 that speaks UTF-8 will do.
    """
    options = {"prepare_threshold": None, "autocommit": False, "client_encoding": "UTF8"} | options
    return psycopg.Connection.connect(dsn, **options)


# -- What all sessions share -----------------------------------------------------------------------------

# The open sessions of each connection, the innermost last.
_open: WeakKeyDictionary[Any, list[Session]] = WeakKeyDictionary()


class Session:
    """What is common to all sessions. Make one with ``reader``, ``writer`` and so on."""

    _writes = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def _fetch(
        self, event: str, kind: type[_Row] | None, statement: LiteralString, parameters: Sequence[Any] = ()
    ) -> list[_Row]:
        """All rows of a statement as ``kind``, or, for None, the values of its only column."""
        # The database knows one principal at a time. Without this, a session would act as whoever
        # authenticated on its connection after it.
        if _open.get(self._connection, [])[-1:] != [self]:
            raise IdentityError(
                "this session is not the open one of its connection",
                code="RG208",
                hint="Use a session within its block, and not while another is open on its connection.",
            )
        with log.timed(event) as fields:
            factory: Any = scalar_row if kind is None else class_row(kind)
            try:
                with self._connection.cursor(row_factory=factory) as cursor:
                    cursor.execute(statement, parameters, prepare=False)
                    rows: list[_Row] = cursor.fetchall()
            except psycopg.Error as error:
                if (said := from_database(error)) is not None:
                    raise said from error
                raise
            except UnicodeEncodeError:
                raise InvalidInput(
                    "an argument has characters that are no text",
                    code="RG408",
                    hint="Remove lone surrogates; and a connection has to have client_encoding UTF8.",
                ) from None
            fields["rows"] = len(rows)
        return rows

    def _value(self, event: str, statement: LiteralString, parameters: Sequence[Any] = ()) -> Any:
        return (self._fetch(event, None, statement, parameters))[0]


@contextmanager
def _session(
    kind: type[_AnySession], connection: AnyConnection, token: str | None, **options: Any
) -> Iterator[_AnySession]:
    driver = psycopg_connection(connection)
    inside = driver.info.transaction_status != TransactionStatus.IDLE
    with driver.transaction():
        session = kind(driver, **options)
        stack = _open.setdefault(driver, [])
        stack.append(session)
        try:
            before = None
            if token is not None:
                if inside:
                    before = session._value(
                        "principal", "select current_setting('pgrag.principal', true)"
                    )
                session._fetch("authenticate", None, "select pgrag.authenticate(%s)", (token,))
            yield session
            if driver.info.transaction_status == TransactionStatus.INERROR:
                if kind._writes:
                    # PostgreSQL answers COMMIT with ROLLBACK then, and says nothing.
                    raise psycopg.errors.InFailedSqlTransaction(
                        "an error inside this session was caught, and nothing of the session is kept"
                    )
                raise psycopg.Rollback()
            if inside and token is not None:
                session._fetch(
                    "principal", None, "select set_config('pgrag.principal', %s, true)", (before or "",)
                )
        finally:
            stack.remove(session)


def _active_space(session: Session) -> EmbeddingSpace | None:
    rows = session._fetch("active_space", EmbeddingSpace, "select * from pgrag.active_space()")
    return rows[0] if rows else None


def _next_space(session: Session) -> EmbeddingSpace | None:
    rows = session._fetch("next_space", EmbeddingSpace, "select * from pgrag.next_space()")
    return rows[0] if rows else None


def _space_named(session: Session, name: str | None) -> EmbeddingSpace | None:
    """The active space, unless the name is that of the one beside it."""
    active = _active_space(session)
    if name is None or (active is not None and active.space == name):
        return active
    beside = _next_space(session)
    return beside if beside is not None and beside.space == name else active


# -- Readers ---------------------------------------------------------------------------------------------

_ASKING: dict[str, LiteralString] = {
    "search_json": "select pgrag.search_json(%s::jsonb)::text",
    "packet_json": "select pgrag.packet_json(%s::jsonb)::text",
}


class Reader(Session):
    """Search, evidence and validation, within what the reader may see."""

    _writes = False

    def __init__(self, connection: psycopg.Connection[Any], *, embedder: Embedder | None = None) -> None:
        super().__init__(connection)
        self.embedder = embedder

    def whoami(self) -> Identity:
        """The principal of this session, as the database sees it."""
        return (self._fetch("whoami", Identity, "select * from pgrag.whoami()"))[0]

    def space(self) -> EmbeddingSpace | None:
        """What questions must be encoded with; None where the tenant has no embeddings."""
        return _active_space(self)

    def next_space(self) -> EmbeddingSpace | None:
        """The space beside the active one, which a question may name as ``space``; None if there is none."""
        return _next_space(self)

    def search(
        self,
        question: str,
        *,
        k: int = 10,
        mode: str | None = None,
        fusion: str = "convex",
        as_of: Moment | None = None,
        filter: Mapping[str, Any] | None = None,
        candidates: int = 100,
        threshold: float | None = None,
        embedding: Vector | None = None,
        space: str | None = None,
        probes: Sequence[str] = (),
        per_document: int | None = None,
        per_source: int | None = None,
        isolation: str = "auto",
        retry: bool = False,
        reranker: Reranker | None = None,
        rerank_candidates: int | None = None,
        rerank_timeout: float = 10.0,
    ) -> SearchResult:
        """The ``k`` (1 to 100) passages that answer the question best, or why there are none.

        ``mode`` is ``hybrid``, ``lexical`` or ``dense``; left out, it is ``hybrid`` where the session has an
        embedder, an ``embedding`` (with the name of its ``space``) is given or a ``space`` is named, and
        ``lexical`` otherwise.
        ``fusion`` is ``convex`` or ``rrf``; ``candidates`` (k to 1000) bounds each lane; below ``threshold``
        (0 to 1) the best hit is no evidence. ``as_of`` asks what was in force at that time. ``filter``
        narrows: source, language, product, version, tags, date_from, date_to, metadata. With the name of the
        ``space`` beside the active one (``next_space``) and its embedder, that one is asked.

        ``probes`` are up to 4 other wordings of the question, each a further lane. ``per_document`` and
        ``per_source`` (1 to 100) cap how many hits one document or source can have. ``isolation`` is
        ``auto`` or ``strict``. With ``retry``, a question that nothing matched well enough, or that caps or
        bounds left short of ``k``, is asked once more with a wider profile, as the same reader and with the
        same filter; the policy says so.

        ``reranker`` orders the best ``rerank_candidates`` (k to 100; left out, 50 or k) anew, within
        ``rerank_timeout`` seconds, in which the transaction stays open. It is given only passages whose
        source allows its processor. If it fails, the fused order stays, and ``rerank`` in the result says
        why.

        Raises InvalidInput (RG301 to RG304), and EmbeddingError (RG305) where the embedder's space is not
        the one that is asked, which is the tenant's active one if none is named.
        """
        with metrics.measured("search") as seen:
            request = self._request(
                question,
                k=k,
                mode=mode,
                fusion=fusion,
                as_of=as_of,
                filter=filter,
                candidates=candidates,
                threshold=threshold,
                embedding=embedding,
                space=space,
                probes=probes,
                per_document=per_document,
                per_source=per_source,
                isolation=isolation,
                retry=retry,
            )
            seen.asked(request)
            stage = _reranking.stage(reranker, k, candidates, rerank_candidates, rerank_timeout)
            with log.timed("search", mode=request["mode"]) as fields:
                answer, rerank = self._ask("search_json", request, retry, stage)
                result = replace(SearchResult.from_dict(answer), rerank=rerank)
                fields |= {"status": result.status, "reason": result.reason, "hits": len(result.hits)}
            seen.answered(answer, rerank)
            return result

    def packet(
        self,
        question: str,
        *,
        k: int = 8,
        budget: int = 8000,
        budget_unit: str = "characters",
        reserve: int = 0,
        strict: bool = False,
        mode: str | None = None,
        fusion: str = "convex",
        as_of: Moment | None = None,
        filter: Mapping[str, Any] | None = None,
        candidates: int = 100,
        threshold: float | None = None,
        embedding: Vector | None = None,
        space: str | None = None,
        probes: Sequence[str] = (),
        per_document: int | None = None,
        per_source: int | None = None,
        isolation: str = "auto",
        retry: bool = False,
        reranker: Reranker | None = None,
        rerank_candidates: int | None = None,
        rerank_timeout: float = 10.0,
    ) -> Packet:
        """Sealed evidence for a language model: whole passages within a budget, or an abstention.

        ``budget`` (1 to 1000000) is in ``budget_unit``: ``characters``, ``bytes`` or ``tokens``; of it the
        question (except in tokens) and ``reserve``, the room for instructions and the reply, are taken off.
        A passage that does not fit is left out and listed; with ``strict``, PacketError (RG502) is raised.
        Everything else is as for ``search``.
        """
        limits = _requests.packet_limits(budget, budget_unit, reserve, strict)
        with metrics.measured("packet") as seen:
            request = self._request(
                question,
                k=k,
                mode=mode,
                fusion=fusion,
                as_of=as_of,
                filter=filter,
                candidates=candidates,
                threshold=threshold,
                embedding=embedding,
                space=space,
                probes=probes,
                per_document=per_document,
                per_source=per_source,
                isolation=isolation,
                retry=retry,
            )
            seen.asked(request)
            stage = _reranking.stage(reranker, k, candidates, rerank_candidates, rerank_timeout)
            with log.timed("packet", mode=request["mode"]) as fields:
                answer, rerank = self._ask("packet_json", request, retry, stage, limits)
                packet = replace(Packet.from_dict(answer), rerank=rerank)
                fields |= {"status": packet.status, "reason": packet.reason, "excerpts": len(packet.excerpts)}
            seen.answered(answer, rerank)
            return packet

    def validate(
        self, packet: Packet | Mapping[str, Any] | str, reply: Reply | Mapping[str, Any] | str
    ) -> Verdict:
        """Whether each citation of the reply is evidence of this packet that the reader may see now.

        The reply may be JSON text as a model wrote it: what is not JSON is not valid. Raises PacketError
        (RG501) if the packet was altered, or was made for another reader.
        """
        parameters = (_requests.packet_json(packet), _requests.reply_json(reply))
        with metrics.measured("validate") as seen, log.timed("validate") as fields:
            text = self._value(
                "validate_reply", "select pgrag.validate_reply(%s::jsonb, %s::jsonb)::text", parameters
            )
            verdict = Verdict.from_dict(json.loads(text))
            fields |= {"valid": verdict.valid, "findings": len(verdict.findings)}
            seen.add(status="valid" if verdict.valid else "invalid", findings=len(verdict.findings))
        return verdict

    def excerpt(self, chunk_id: str, as_of: Moment | None = None) -> Excerpt:
        """One passage by its chunk id, now or as of a time.

        Raises NotFound (RG401), whether it is absent or not the reader's to see.
        """
        text = self._value(
            "excerpt",
            "select pgrag.excerpt(%s, %s::timestamptz)::text",
            (chunk_id, _requests.moment(as_of, "as_of", "RG303")),
        )
        return Excerpt.from_dict(json.loads(text))

    def can_read(self, source: str, document: str) -> bool:
        """Whether the reader may see the document now: ask before acting on what was retrieved."""
        return bool(self._value("can_read", "select pgrag.can_read(%s, %s)", (source, document)))

    def _ask(
        self,
        function: str,
        request: dict[str, Any],
        retry: bool,
        stage: _reranking.Stage | None,
        limits: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], Rerank | None]:
        """The answer of one of the two functions, after a retry and in a reranker's order if so wanted."""
        k, limits, wider = request["k"], limits or {}, {"profile": "retry"}
        if stage is None:
            answer = self._answer(function, request | limits)
            if _requests.may_retry(retry, answer, k):
                answer = self._answer(function, request | limits | wider)
            return answer, None
        found = self._answer("search_json", request | {"k": stage.candidates})
        if _requests.may_retry(retry, found, k):
            request = request | wider
            found = self._answer("search_json", request | {"k": stage.candidates})
        attempt = _reranking.Attempt(stage, found)
        if attempt.passages:
            try:
                with metrics.measured("rerank"):
                    scores = in_time(
                        stage.timeout, stage.reranker.rerank, request["question"], attempt.passages
                    )
                attempt.succeeded(scores)
            except Exception as error:
                attempt.failed(error)
        # The database applies the order to what it finds now: nothing that the reader may not see can come
        # in, and what was revoked while the reranker thought is gone.
        answer = self._answer(function, request | limits | attempt.request())
        return answer, attempt.outcome(answer)

    def _answer(self, function: str, request: dict[str, Any]) -> dict[str, Any]:
        with metrics.measured("database"):
            text = self._value(function, _ASKING[function], (_requests.to_json(request),))
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _request(
        self,
        question: str,
        *,
        mode: str | None,
        embedding: Vector | None,
        space: str | None,
        **bounds: Any,
    ) -> dict[str, Any]:
        if mode is None:
            # Who names a space does not want to be answered without one.
            mode = "lexical" if self.embedder is None and embedding is None and space is None else "hybrid"
        request = _requests.search_request(question, mode=mode, **bounds)
        if mode == "lexical":
            return request
        probes = request.get("probes", [])
        if embedding is not None:
            request |= {"embedding": _requests.query_vector(embedding), "space": space}
            wanted = probes
        else:
            wanted = [question, *probes]
        if self.embedder is None or not wanted:
            return request  # without an embedding, the database says what is missing
        asked = _space_named(self, space)
        which = "the tenant's active space" if space is None else "the space that is asked"
        asked = _requests.check_space(self.embedder, asked, which)
        with metrics.measured("encode"):
            encoded = in_thread(_embedded, self.embedder, wanted)
        vectors = [_requests.query_vector(vector, asked.dimension) for vector in encoded]
        if embedding is None:
            request |= {"embedding": vectors.pop(0), "space": space or asked.space}
        return request | ({"probe_embeddings": vectors} if vectors else {})


def _embedded(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    return [embedder.embed_query(text) for text in texts]


def _encoded(embedder: Embedder, space: EmbeddingSpace, texts: Sequence[str]) -> NDArray[Any]:
    """The vectors of documents' texts."""
    with metrics.measured("encode"):
        vectors = in_thread(embedder.embed_documents, texts)
    if vectors.shape != (len(texts), space.dimension):
        raise EmbeddingError(
            "the embedder's vectors have not the dimension of its space",
            code="RG305",
            detail=f"shape {vectors.shape}, not {(len(texts), space.dimension)}",
            hint="Correct the embedder, or the space that it states.",
        )
    return vectors


@contextmanager
def reader(
    connection: AnyConnection, token: str, *, embedder: Embedder | None = None
) -> Iterator[Reader]:
    """A reader's session. Raises IdentityError (RG2xx) where the token is not accepted."""
    with _session(Reader, connection, token, embedder=embedder) as session:
        yield session


# -- Documents, for writers and administrators -----------------------------------------------------------


class _Lifecycle(Session):
    """What writers do in their own source and administrators in every source of their tenant."""

    def whoami(self) -> Identity:
        """The principal of this session, as the database sees it."""
        return (self._fetch("whoami", Identity, "select * from pgrag.whoami()"))[0]

    def _set_access(self, document: str, readers: Sequence[str], source: str | None) -> bool:
        return bool(
            self._value(
                "set_access",
                "select pgrag.set_access(%s, %s::text[], %s)",
                (document, _requests.names("readers", readers), source),
            )
        )

    def _activate(
        self, document: str, revision: str, expected_active: str | None, restore: bool, source: str | None
    ) -> bool:
        return bool(
            self._value(
                "activate",
                "select pgrag.activate(%s, %s, %s, %s, %s)",
                (document, revision, expected_active, restore, source),
            )
        )

    def _rollback(
        self, document: str, revision: str | None, expected_active: str | None, source: str | None
    ) -> str:
        return str(
            self._value(
                "rollback",
                "select pgrag.rollback(%s, %s, %s, %s)",
                (document, revision, expected_active, source),
            )
        )

    def _delete(self, document: str, source: str | None) -> bool:
        return bool(self._value("delete", "select pgrag.delete_document(%s, %s)", (document, source)))

    def _documents(self, source: str | None) -> list[Document]:
        return self._fetch("documents", Document, "select * from pgrag.list_documents(%s)", (source,))

    def _revisions(self, document: str, source: str | None) -> list[Revision]:
        return self._fetch(
            "revisions", Revision, "select * from pgrag.list_revisions(%s, %s)", (document, source)
        )


class Writer(_Lifecycle):
    """A connector's session: documents of the one source that its token names."""

    def __init__(self, connection: psycopg.Connection[Any], *, embedder: Embedder | None = None) -> None:
        super().__init__(connection)
        self.embedder = embedder

    def source(self) -> Source:
        """The writer's source, and the processors that may receive its text."""
        return (
            self._fetch(
                "writer_source", Source, "select source, trust, processors from pgrag.writer_source()"
            )
        )[0]

    def space(self) -> EmbeddingSpace | None:
        """What documents must be encoded with; None where the tenant has no embeddings."""
        return _active_space(self)

    def next_space(self) -> EmbeddingSpace | None:
        """The space beside the active one, which documents are encoded in too; None if there is none."""
        return _next_space(self)

    def stage(
        self,
        document: SourceDocument | str,
        body: str | None = None,
        *,
        title: str = "",
        language: str = "en",
        revision: str | None = None,
        product: str | None = None,
        version: str | None = None,
        tags: Sequence[str] = (),
        dated: dt.date | None = None,
        effective_from: Moment | None = None,
        effective_to: Moment | None = None,
        parser: str = "text",
        chunker: str = "",
        tokenizer: str = "",
        space: str | None = None,
        skips: Sequence[tuple[int, int]] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Staged:
        """Begin a revision, of which nothing can be found until it is verified and activated.

        Either a SourceDocument, which brings all that a file says of itself, or a key and a ``body`` with
        the fields. ``skips`` are parts of the body (start, end in code points) that no chunk will cover.
        ``metadata`` is what else a search can filter by: names with a text, a number, a truth value or a list
        of texts each.
        The same content is the same revision: ``created`` is False then, and nothing changed.

        Raises Conflict (RG403) if a revision of this name has other content, and InvalidInput.
        """
        if isinstance(document, SourceDocument):
            return self.stage(
                document.key,
                document.body,
                title=document.title,
                language=document.language or "en",
                revision=document.revision,
                product=document.product,
                version=document.version,
                tags=document.tags,
                dated=document.date,
                effective_from=document.effective_from,
                effective_to=document.effective_to,
                parser=document.parser,
                chunker=chunker,
                tokenizer=tokenizer,
                space=space,
                skips=skips,
                metadata=metadata if metadata is not None else document.metadata,
            )
        rows = self._fetch(
            "stage",
            Staged,
            """
            select * from pgrag.stage_revision(
              p_document => %s, p_body => %s, p_title => %s, p_language => %s, p_revision => %s,
              p_product => %s, p_version => %s, p_tags => %s::text[], p_dated => %s::date,
              p_effective_from => %s::timestamptz, p_effective_to => %s::timestamptz,
              p_parser => %s, p_chunker => %s, p_tokenizer => %s, p_space => %s,
              p_skips => %s::text[]::int4range[], p_metadata => %s::jsonb)
            """,
            (
                document,
                body,
                title,
                language,
                revision,
                product,
                version,
                _requests.names("tags", tags),
                dated,
                _requests.moment(effective_from, "effective_from", "RG408"),
                _requests.moment(effective_to, "effective_to", "RG408"),
                parser,
                chunker,
                tokenizer,
                space,
                [f"[{start},{end})" for start, end in skips],
                _requests.metadata(metadata),
            ),
        )
        return rows[0]

    def add_chunks(
        self,
        document: str,
        revision: str,
        chunks: Sequence[Chunk],
        embeddings: Any,
        tokens: Sequence[int],
        first: int = 1,
    ) -> int:
        """Add chunks number ``first``, ``first + 1``, … to a staged revision; returns how many were new.

        ``embeddings`` has one row for each chunk, or is None if the revision was staged without a space;
        ``tokens`` are counted by the tokenizer that the revision was staged with. Any number of chunks is
        sent in batches of at most 500. The same chunks again change nothing.

        Raises Conflict (RG403) for other text under a number that is taken, and EmbeddingError (RG305).
        """
        if len(tokens) != len(chunks):
            raise InvalidInput(
                f"{len(chunks)} chunks need {len(chunks)} token counts, not {len(tokens)}",
                code="RG408",
                hint="Count each chunk's text with the tokenizer that the revision was staged with.",
            )
        vectors = None if embeddings is None else _requests.vector_literals(embeddings, len(chunks))
        added = 0
        for index, batch in _requests.batches(chunks):
            part = slice(index, index + len(batch))
            added += self._value(
                "add_chunks",
                """
                select pgrag.add_chunks(%s, %s, %s, %s::text[], %s::integer[], %s::integer[], %s::integer[],
                  %s::text[], %s::integer[], %s::text[], %s::text[]::public.vector[])
                """,
                (
                    document,
                    revision,
                    first + index,
                    [chunk.text for chunk in batch],
                    [chunk.start for chunk in batch],
                    [chunk.end for chunk in batch],
                    list(tokens[part]),
                    [chunk.section for chunk in batch],
                    [chunk.page for chunk in batch],
                    [chunk.language for chunk in batch],
                    None if vectors is None else vectors[part],
                ),
            )
        return added

    def verify(self, document: str, revision: str, expected: int) -> Verification:
        """Check a staged revision, with ``expected`` chunks, and freeze it; or name every fault."""
        rows = self._fetch(
            "verify",
            Verification,
            "select * from pgrag.verify_revision(%s, %s, %s)",
            (document, revision, expected),
        )
        return rows[0]

    def add_embeddings(
        self, document: str, revision: str, space: str, embeddings: Any, first: int = 1
    ) -> Completeness:
        """Add embeddings of chunks ``first``, ``first + 1``, … of a verified revision.

        The space is the active one or the one beside it. ``embeddings`` has one row for each chunk; any
        number is sent in batches of at most 500. The same embeddings again change nothing.

        Raises Conflict, RG403 where a chunk has another embedding and RG416 for any other space; and
        EmbeddingError (RG305).
        """
        vectors = _requests.vector_literals(embeddings, len(embeddings))
        rows: list[Completeness] = []
        for index in range(0, max(len(vectors), 1), _requests.BATCH_CHUNKS):
            rows = self._fetch(
                "add_embeddings",
                Completeness,
                "select * from pgrag.add_embeddings(%s, %s, %s, %s, %s::text[]::public.vector[])",
                (document, revision, space, first + index, vectors[index : index + _requests.BATCH_CHUNKS]),
            )
        return rows[0]

    def missing_embeddings(
        self, space: str, limit: int = 256, retained: bool = False
    ) -> list[MissingEmbedding]:
        """The next chunks of the source, ``limit`` (1 to 2000) at most, that a space has no embedding of yet.

        They are of the revisions in force, with ``retained`` of earlier ones too, for rollbacks.
        """
        _requests.whole("limit", limit, 1, 2000, "RG408")
        return self._fetch(
            "missing_embeddings",
            MissingEmbedding,
            "select * from pgrag.missing_embeddings(%s, %s, %s)",
            (space, limit, retained),
        )

    def fill_space(
        self, space: str | None = None, *, limit: int = 256, retained: bool = False
    ) -> Filled:
        """Encode what ``missing_embeddings`` lists with the session's embedder, one bounded step of it.

        While it says ``remaining``, there may be another. Give each step a session, and so a transaction, of
        its own: what was added is kept, and a killed step is done by the next call. Chunks are encoded as
        ``ingest`` encodes them. The space is the one beside the active one, or the one that is named.

        Raises InvalidInput (RG410) and EmbeddingError (RG305) as ``check_embedder`` does, before any text is
        sent; Conflict (RG416) if the space is neither the active one nor beside it; EmbeddingError (RG413).
        """
        if self.embedder is None:
            raise EmbeddingError(
                "the session has no embedder",
                code="RG305",
                hint="Pass the one of the space that is to be filled: writer(connection, token, embedder=…).",
            )
        found = _next_space(self) if space is None else _space_named(self, space)
        if found is None or space not in (None, found.space):
            raise Conflict(
                "no space is beside the active one"
                if space is None
                else "the space is neither the active one nor the one beside it",
                code="RG416",
                hint="An operator begins one: build_space(tenant, space).",
            )
        _requests.check_space(self.embedder, found, f"space {found.space}")
        self._check_processors(self.embedder)
        missing = self.missing_embeddings(found.space, limit, retained)
        if missing:
            vectors = _encoded(self.embedder, found, [one.text for one in missing])
            for index, run in _requests.runs(missing):
                self.add_embeddings(
                    run[0].document,
                    run[0].revision,
                    found.space,
                    vectors[index : index + len(run)],
                    first=run[0].chunk_no,
                )
        return Filled(space=found.space, added=len(missing), remaining=len(missing) == limit)

    def set_access(self, document: str, readers: Sequence[str]) -> bool:
        """Who may read the document, whole: users, services, groups, ``everyone``; ``[]`` for nobody."""
        return self._set_access(document, readers, None)

    def activate(
        self, document: str, revision: str, expected_active: str | None = None, restore: bool = False
    ) -> bool:
        """Put a verified revision in force; returns whether that changed anything.

        ``expected_active`` is the revision that you believe to be active, ``""`` for none: Conflict (RG402)
        if it is not. ``restore`` also lifts a tombstone, which is a Conflict (RG409) otherwise.
        """
        return self._activate(document, revision, expected_active, restore, None)

    def rollback(
        self, document: str, revision: str | None = None, expected_active: str | None = None
    ) -> str:
        """Put the revision before, or a named earlier one, back in force; returns its name."""
        return self._rollback(document, revision, expected_active, None)

    def delete(self, document: str) -> bool:
        """Hide the document with all its revisions; returns whether it was there to hide."""
        return self._delete(document, None)

    def documents(self) -> list[Document]:
        """The documents of the source, deleted ones too."""
        return self._documents(None)

    def revisions(self, document: str) -> list[Revision]:
        """The revisions of a document in the order in which they were staged."""
        return self._revisions(document, None)

    def check_embedder(self, also: Embedder | None = None) -> EmbeddingSpace | None:
        """The space that documents will be encoded in; None for a session without an embedder.

        ``also`` is the second embedder that ``ingest`` takes.

        Raises InvalidInput (RG410) if an embedder would send text where the source does not allow it, and
        EmbeddingError (RG305) if its vectors are not of the tenant's active space, or those of the second one
        not of the space beside it. Nothing is sent.
        """
        encoders = self._encoders(also)
        return encoders[0][1] if encoders else None

    def _encoders(self, also: Embedder | None) -> list[tuple[Embedder, EmbeddingSpace]]:
        if self.embedder is None:
            if also is not None:
                raise InvalidInput(
                    "there is a second embedder, and no first",
                    code="RG408",
                    hint="Give the session the embedder of the active space, too.",
                )
            return []
        beside = None if also is None else _next_space(self)
        encoders = _requests.encoders(self.embedder, also, _active_space(self), beside)
        self._check_processors(*(embedder for embedder, _ in encoders))
        return encoders

    def _check_processors(self, *embedders: Embedder) -> None:
        if any(embedder.processor is not None for embedder in embedders):
            source = self.source()
            for embedder in embedders:
                _requests.check_processor(embedder, source.source, source.processors)

    def ingest(
        self,
        document: SourceDocument,
        *,
        chunker: Chunker,
        tokenizer: Tokenizer,
        also: Embedder | None = None,
        activate: bool = True,
        expected_active: str | None = None,
    ) -> Ingested:
        """Stage, cut, encode, verify, set readers and activate one document, in this transaction.

        Content that was verified before is not cut or encoded again. A document that states no language
        counts as ``en``. With a fault, the revision stays staged and nothing else changes.

        The readers that the document states are set when it is put in force, is in force already, or
        nothing is: they must not open the text of another revision.

        A revision that was in force, and was left for one that was staged before it, was rolled back from.
        That is somebody's decision, and only ``activate`` undoes it.

        Encoding happens inside the transaction, so one document must not take an hour.

        Where a space is beside the active one, a second embedder, ``also``, encodes what is cut for that one
        too. Which of the two is the active space's may change, as it does when an operator switches.

        Raises what ``check_embedder`` raises, before any text is sent; Conflict; EmbeddingError (RG413).
        """
        with metrics.measured("ingest") as seen:
            done = self._ingest(document, chunker, tokenizer, also, activate, expected_active)
            seen.add(status="faulty" if done.faults else "verified", chunks=done.chunks)
            seen.add(created=done.created, activated=done.activated)
        return done

    def _ingest(
        self,
        document: SourceDocument,
        chunker: Chunker,
        tokenizer: Tokenizer,
        also: Embedder | None,
        activate: bool,
        expected_active: str | None,
    ) -> Ingested:
        encoders = self._encoders(also)
        space = encoders[0][1] if encoders else None
        staged = self.stage(
            document, chunker=chunker.name, tokenizer=tokenizer.name, space=space.space if space else None
        )
        name, key = staged.revision, document.key
        count = 0
        if staged.state == "staged":
            chunks = in_thread(chunker.chunk, document.body)
            count = len(chunks)
            # Batch by batch, so that only one batch's vectors are held.
            for index, batch in _requests.batches(chunks):
                texts = [chunk.text for chunk in batch]
                vectors = _encoded(*encoders[0], texts) if encoders else None
                tokens = [tokenizer.count(text) for text in texts]
                self.add_chunks(key, name, batch, vectors, tokens, first=index + 1)
            verification = self.verify(key, name, count)
            if verification.faults:
                faults = tuple(verification.faults)
                return Ingested(
                    document=key, revision=name, chunks=count, created=True, activated=False, faults=faults
                )
            for embedder, beside in encoders[1:]:
                for index, batch in _requests.batches(chunks):
                    vectors = _encoded(embedder, beside, [chunk.text for chunk in batch])
                    self.add_embeddings(key, name, beside.space, vectors, first=index + 1)
        revisions = self.revisions(key)
        active = active_revision(revisions)
        activate = activate and not was_withdrawn(revisions, name)
        if document.readers is not None and (activate or active in (None, name)):
            self.set_access(key, document.readers)
        activated = activate and self.activate(key, name, expected_active)
        return Ingested(
            document=key,
            revision=name,
            chunks=count,
            created=staged.state == "staged",
            activated=activated,
        )


def active_revision(revisions: Sequence[Revision]) -> str | None:
    """The revision in force."""
    return next((one.revision for one in revisions if one.state == "active"), None)


def was_withdrawn(revisions: Sequence[Revision], revision: str) -> bool:
    """Whether the revision was in force and then rolled back from."""
    return any(one.revision == revision and one.state == "withdrawn" for one in revisions)


@contextmanager
def writer(
    connection: AnyConnection, token: str, *, embedder: Embedder | None = None
) -> Iterator[Writer]:
    """A connector's session. Raises IdentityError (RG2xx) where the token is not accepted."""
    with _session(Writer, connection, token, embedder=embedder) as session:
        yield session


# -- Administrators --------------------------------------------------------------------------------------


class Admin(_Lifecycle):
    """An administrator's session: the people of one tenant, and what they may read."""

    def put_principal(self, name: str, kind: str) -> None:
        """Create a ``user``, ``service`` or ``group``; nothing happens if it exists with this kind."""
        self._fetch("put_principal", None, "select pgrag.put_principal(%s, %s)", (name, kind))

    def drop_principal(self, name: str) -> None:
        """Drop a user, service or group; what it could read does not pass to a successor of its name."""
        self._fetch("drop_principal", None, "select pgrag.drop_principal(%s)", (name,))

    def put_membership(self, group: str, member: str) -> None:
        """Make a user, service or group a member of a group."""
        self._fetch("put_membership", None, "select pgrag.put_membership(%s, %s)", (group, member))

    def drop_membership(self, group: str, member: str) -> None:
        """End a membership. Raises NotFound (RG401) if there is none."""
        self._fetch("drop_membership", None, "select pgrag.drop_membership(%s, %s)", (group, member))

    def principals(self) -> list[Principal]:
        """The users, services and groups of the tenant."""
        return self._fetch("principals", Principal, "select * from pgrag.list_principals()")

    def memberships(self) -> list[Membership]:
        """Who belongs directly to which group."""
        return self._fetch("memberships", Membership, "select * from pgrag.list_memberships()")

    def set_access(self, source: str, document: str, readers: Sequence[str]) -> bool:
        """Who may read the document, whole: users, services, groups, ``everyone``; ``[]`` for nobody."""
        return self._set_access(document, readers, source)

    def activate(
        self,
        document: str,
        revision: str,
        expected_active: str | None = None,
        restore: bool = False,
        *,
        source: str,
    ) -> bool:
        """As a writer's ``activate``, in a source of the tenant."""
        return self._activate(document, revision, expected_active, restore, source)

    def rollback(
        self,
        document: str,
        revision: str | None = None,
        expected_active: str | None = None,
        *,
        source: str,
    ) -> str:
        """As a writer's ``rollback``, in a source of the tenant."""
        return self._rollback(document, revision, expected_active, source)

    def delete(self, document: str, *, source: str) -> bool:
        """Hide the document with all its revisions; returns whether it was there to hide."""
        return self._delete(document, source)

    def documents(self, source: str | None = None) -> list[Document]:
        """The documents of the tenant, or of one source, deleted ones too."""
        return self._documents(source)

    def revisions(self, document: str, *, source: str) -> list[Revision]:
        """The revisions of a document in the order in which they were staged."""
        return self._revisions(document, source)


@contextmanager
def admin(connection: AnyConnection, token: str) -> Iterator[Admin]:
    """An administrator's session. Raises IdentityError (RG2xx) where the token is not accepted."""
    with _session(Admin, connection, token) as session:
        yield session


# -- Operators and key keepers: proven by their database role, without a token ---------------------------


class Operator(Session):
    """An operator's session: tenants, sources, spaces and the upkeep of searches, without any content."""

    def put_tenant(self, tenant: str, name: str | None = None) -> None:
        """Create a tenant, or rename it."""
        self._fetch("put_tenant", None, "select pgrag.put_tenant(%s, %s)", (tenant, name))

    def put_source(
        self,
        tenant: str,
        source: str,
        processors: Sequence[str] | None = None,
        trust: str | None = None,
    ) -> None:
        """Create a source, or change it; what is left out stays as it is.

        ``processors`` are the outside services that may receive its text, none by default. ``trust`` is
        ``untrusted``, ``external``, ``internal`` (the default) or ``authoritative``.
        """
        allowed = None if processors is None else _requests.names("processors", processors)
        self._fetch(
            "put_source",
            None,
            "select pgrag.put_source(%s, %s, %s::text[], %s)",
            (tenant, source, allowed, trust),
        )

    def put_space(self, tenant: str, space: EmbeddingSpace) -> None:
        """Register an embedding space, unchangeable from then on; a tenant's first one is its active one."""
        self._fetch(
            "put_space",
            None,
            "select pgrag.put_space(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                tenant,
                space.space,
                space.model,
                space.model_revision,
                space.dimension,
                space.metric,
                space.normalisation,
                space.preprocessing,
                space.query_prefix,
                space.document_prefix,
                space.storage,
                space.zero_vectors,
            ),
        )

    def tenants(self) -> list[Tenant]:
        """All tenants."""
        return self._fetch("tenants", Tenant, "select * from pgrag.list_tenants()")

    def sources(self, tenant: str) -> list[Source]:
        """The sources of a tenant."""
        return self._fetch(
            "sources", Source, "select source, trust, processors from pgrag.list_sources(%s)", (tenant,)
        )

    def spaces(self, tenant: str) -> list[TenantSpace]:
        """The embedding spaces of a tenant."""
        return self._fetch("spaces", TenantSpace, "select * from pgrag.list_spaces(%s)", (tenant,))

    def build_space(self, tenant: str, space: str) -> bool:
        """Begin to build a registered space beside the active one; returns whether that is new.

        From then on new revisions should be encoded for both (``ingest`` with ``also``), and those in force
        are by ``fill_space``. Questions keep to the active one. Raises Conflict (RG416).
        """
        return bool(self._value("build_space", "select pgrag.build_space(%s, %s)", (tenant, space)))

    def switch_space(self, tenant: str, space: str) -> bool:
        """Make the space beside the active one the active one, at once; returns whether it was not already.

        The one that was active is beside it from then on: the same call the other way around switches back.
        Raises Conflict (RG416) while documents in force have no embeddings there.
        """
        return bool(self._value("switch_space", "select pgrag.switch_space(%s, %s)", (tenant, space)))

    def retire_space(self, tenant: str, space: str) -> bool:
        """Give up a space that is not the active one, for good; returns whether that is new.

        ``maintain`` deletes its embeddings. Raises Conflict (RG416) for the active one.
        """
        return bool(self._value("retire_space", "select pgrag.retire_space(%s, %s)", (tenant, space)))

    def space_status(self, tenant: str) -> list[SpaceStatus]:
        """How far each embedding space of a tenant is, in the order in which they were registered."""
        return self._fetch(
            "space_status", SpaceStatus, "select * from pgrag.space_status(%s)", (tenant,)
        )

    def maintain(self, keep: dt.timedelta | None = None) -> MaintenanceStep:
        """Do one bounded step of what keeps searches fast; while it says ``remaining``, there is another.

        Give each step a session, and so a transaction, of its own: what a step did is there for others once
        it is committed. A block that was replaced is dropped after ``keep`` (left out, five minutes).

        Raises MaintenanceError (RG113) where the server lacks memory or room for an index; nothing is lost,
        and the step is tried again by the next call.
        """
        rows = self._fetch(
            "maintain",
            MaintenanceStep,
            "select * from pgrag.maintain(coalesce(%s::interval, '5 minutes'))",
            (_requests.span("keep", keep),),
        )
        return rows[0]

    def calibrate(self) -> list[SearchCost]:
        """Measure what searches cost here, by which they choose their route."""
        return self._fetch("calibrate", SearchCost, "select * from pgrag.calibrate()")

    def index_status(self) -> list[BlockStatus]:
        """The blocks behind dense search, and how stale they are."""
        return self._fetch(
            "index_status",
            BlockStatus,
            """
            select tenant, space, class as class_, chunks, state, vectors, loose, retired, bytes
              from pgrag.index_status()
            """,
        )

    def doctor(self) -> list[Diagnosis]:
        """Check the installation: the worst first, and last the checks that found nothing.

        It changes nothing. What it takes grows with documents and vectors: some seconds for a million.
        """
        return self._fetch(
            "doctor",
            Diagnosis,
            "select check_name as check, severity, object, finding, remedy from pgrag.doctor()",
        )


@contextmanager
def operator(connection: AnyConnection) -> Iterator[Operator]:
    """An operator's session: the connection's role must be a member of ``pgrag_operator``."""
    with _session(Operator, connection, None) as session:
        yield session


class Keys(Session):
    """A key keeper's session. Whoever can add a key can mint a token for anyone."""

    def add(self, kid: str, secret: bytes | str, issuer: str, audience: str) -> None:
        """Register a secret of 32 to 1024 bytes (of text, its UTF-8) under ``kid``; keys do not change."""
        self._fetch(
            "add_key",
            None,
            "select pgrag.add_signing_key(%s, %s, %s, %s)",
            (kid, secret_bytes(secret), issuer, audience),
        )

    def retire(self, kid: str) -> None:
        """End a key: its tokens are refused from commit on. Raises NotFound (RG401)."""
        self._fetch("retire_key", None, "select pgrag.retire_signing_key(%s)", (kid,))

    def list(self) -> Sequence[SigningKey]:
        """The keys by name, retired ones too."""
        return self._fetch("keys", SigningKey, "select * from pgrag.list_signing_keys()")


@contextmanager
def keys(connection: AnyConnection) -> Iterator[Keys]:
    """A key keeper's session: the connection's role must be a member of ``pgrag_keys``."""
    with _session(Keys, connection, None) as session:
        yield session
