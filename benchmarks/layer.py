"""What pgrag's functions cost beside the bare SQL that they wrap: searching, knowing the reader, ingesting, switching.

The bare SQL of a search has the same scope, lanes, fusion and near-duplicate check as statements with literals, planned
each time, run by a superuser whom no policy concerns. That of an ingest is COPY of the same rows into tables with the
same columns, indexes and keys, without row-level security. Arms take turns; look at the ratios.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

import pgrag
from benchmarks import _metrics, _run, activation
from benchmarks._encoder import say
from benchmarks._report import Report
from benchmarks._scale import texts
from benchmarks._server import ALL, SOME, Server, Vectors, literal, throw_away
from benchmarks._synthetic import TOPICS, Space
from pgrag.protocols import Chunk, EmbeddingSpace

PARTS = ("search", "principal", "python", "ingest", "switches")
TENANT, EACH, FEW, DIMENSION = "layer", 20, 10, 384
"""EACH is chunks of a document, FEW the documents of a small scope."""
SPACE = EmbeddingSpace("made-up", "made-up", "1", DIMENSION)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and its vector as text."""

    text: str
    vector: str


def main() -> int:
    """Run, print tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="1,000 chunks, few questions: under a minute")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="rows of arm, collection, metric, value; FILE.meta.json beside it",
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(PARTS),
        metavar="A,B",
        help=f"of {','.join(PARTS)}",
    )
    parser.add_argument(
        "--chunks", type=int, metavar="N", help="10000, each of them read (short: 1000; at most 20000)"
    )
    parser.add_argument("--questions", type=int, metavar="N", help="of each cell (200; short: 10)")
    parser.add_argument("--seed", type=int, default=20, help="of texts and vectors (%(default)s)")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    chunks, started = options.chunks or (1_000 if options.short else 10_000), time.perf_counter()
    report = Report(options, "layer")
    with throw_away() as server:
        report.meta["versions"] |= server.versions()
        corpus = Corpus(server, chunks, options.questions or (10 if options.short else 200), options.seed)
        seconds = corpus.put()
        say(f"{chunks} chunks in {seconds:.0f} s")
        if "search" in options.only:
            search(corpus, report)
        if "principal" in options.only:
            principal(corpus, report)
        if "python" in options.only:
            python(corpus, report)
        if "ingest" in options.only:
            ingest(corpus, report, seconds)
        if "switches" in options.only:
            switches(server, report, (10, 1_000) if options.short else (10, 1_000, 100_000), options.short)
    report.close({}, time.perf_counter() - started)
    return 0


class Corpus:
    """A tenant whose reader ALL may see every document, and whose reader SOME ten."""

    def __init__(self, server: Server, chunks: int, questions: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        space, count = Space(DIMENSION), chunks // EACH
        middles = space.documents(draw.integers(TOPICS, size=count), draw)
        self.server, self.count = server, count
        self.vectors: Vectors = space.chunks(middles, EACH, draw)
        self.texts = [text + "\n" for text in texts(count * EACH, draw)]
        about = draw.integers(count, size=questions + 5)
        asked = space.questions(middles[about], draw)
        self.questions = [
            Asked(
                " ".join(draw.choice(sorted(set(self.texts[place * EACH].split())), 6, replace=False)),
                literal(vector),
            )
            for place, vector in zip(about, asked, strict=True)
        ]

    def documents(self) -> Iterator[tuple[str, str, str, str, list[Chunk]]]:
        """As Server.put_documents takes them."""
        for number in range(self.count):
            batch = self.texts[number * EACH : (number + 1) * EACH]
            ends = list(itertools.accumulate(len(text) for text in batch))
            its = [Chunk(text, end - len(text), end) for text, end in zip(batch, ends, strict=True)]
            yield str(number), "", "en", "".join(batch), its

    def put(self) -> float:
        """Put everything there, and say how many seconds pgrag's own path took."""
        self.server.put_tenant(TENANT, SPACE)
        started = time.perf_counter()
        self.server.put_documents(TENANT, self.documents(), SPACE, self.vectors)
        seconds = time.perf_counter() - started
        self.server.hide(TENANT, [str(number) for number in range(FEW, self.count)])
        self.server.connection.execute("vacuum (analyze)")
        return seconds

    def ids(self, reader: str) -> tuple[int, int]:
        """The tenant and the principal as the tables number them."""
        row = self.server.connection.execute(
            "select tenant_id, principal_id from pgrag_data.tenant join pgrag_data.principal using (tenant_id)"
            " where tenant = %s and principal.name = %s",
            (TENANT, reader),
        ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def compare(
    report: Report, cell: str, searches: Mapping[str, Callable[[Any], object]], asked: list[Asked], base: str
) -> list[str]:
    """The rows of some arms over the same questions, and a line of the table: p50 of each, and the first one's ratio."""
    queries: list[Any] = list(asked)
    _run.times(searches, queries[:5])
    taken = _run.times(searches, queries[5:])
    middle = {arm: _metrics.percentile(its, 0.5) for arm, its in taken.items()}
    quick = {arm: _metrics.percentile(its, 0.1) for arm, its in taken.items()}
    for arm, its in taken.items():
        ratio, ratio_p10 = middle[arm] / middle[base], quick[arm] / quick[base]
        report.row(arm, cell, "p50_ms", middle[arm], ratio=ratio, ratio_of_p10=ratio_p10, ratio_to=base)
        report.row(arm, cell, "p95_ms", _metrics.percentile(its, 0.95))
    first = next(iter(searches))
    figures = [f"{value:.3f}" for value in middle.values()]
    return [
        cell,
        *figures,
        f"{middle[first] / middle[base]:.2f}",
        f"{quick[first] / quick[base]:.2f}",
    ]


# -- A search, and the SQL in it ----------------------------------------------------------------------------

SCOPE = """
with recursive closure (principal_id) as (
  select p.principal_id from pgrag_data.principal p where p.tenant_id = {t} and p.principal_id = {reader} and p.dropped_at is null
  union
  select g.principal_id from closure c
    join pgrag_data.membership m on m.tenant_id = {t} and m.member_id = c.principal_id
    join pgrag_data.principal g on g.tenant_id = {t} and g.principal_id = m.group_id and g.dropped_at is null
), acl as (
  select distinct e.acl_id
    from (select principal_id from closure
          union all select p.principal_id from pgrag_data.principal p where p.tenant_id = {t} and p.kind = 'everyone') c
    join pgrag_data.acl_entry e on e.tenant_id = {t} and e.principal_id = c.principal_id
), visible as (
  select r.revision_id, r.chunk_count, r.lexeme_count
    from acl a
    join pgrag_data.document d on d.tenant_id = {t} and d.acl_id = a.acl_id
    join pgrag_data.revision r on r.tenant_id = d.tenant_id and r.revision_id = d.active_revision_id
    join pgrag_data.source s on s.tenant_id = d.tenant_id and s.source_id = d.source_id
   where d.deleted_at is null and transaction_timestamp() < r.effective_to
)
select array_agg(revision_id order by revision_id)::text, sum(chunk_count)::float8, sum(lexeme_count)::float8 / sum(chunk_count),
       tsvector_to_array(pgrag_private.to_lexemes('en', {question}))
  from visible"""

ID = "(select c.chunk_id from pgrag_data.chunk c where c.tenant_id = {t} and c.revision_id = x.revision_id and c.chunk_no = x.chunk_no)"

DENSE = f"""
dense as materialized (
  select x.*, row_number() over (order by x.cosine desc, x.chunk_id) as place
    from (select x.revision_id, x.chunk_no, {ID} as chunk_id, 1 - x.distance as cosine
            from (select v.revision_id, v.chunk_no, v.embedding operator(public.<=>) {{v}} as distance
                    from unnest({{revisions}}::bigint[]) as s (revision_id)
                    join pgrag_data.chunk_vec v on v.tenant_id = {{t}} and v.space_id = {{space}} and v.revision_id = s.revision_id
                  offset 0) x
           where x.distance <> 'NaN' order by x.distance fetch first {{limit}} rows with ties) x
   order by x.cosine desc, x.chunk_id limit {{limit}}
)"""

LEXICAL = f"""
hit as materialized (
  select l.revision_id, l.chunk_no, l.length, {{tf_as}}
    from unnest({{revisions}}::bigint[]) as s (revision_id)
   cross join lateral (select c.revision_id, c.chunk_no, c.language, c.length, c.lexemes from pgrag_data.chunk_lex c
                        where c.tenant_id = {{t}} and c.revision_id = s.revision_id offset 0) l
   where l.lexemes @@ {{any}} and l.language = any ('{{{{en}}}}')
), weight as materialized (
  select {{weights}} from (select {{df}} from hit) counted
), best as materialized (
  select x.revision_id, x.chunk_no
    from (select h.revision_id, h.chunk_no, {{score}} as score
            from (select hit.*, {{norm}} as k from hit offset 0) h cross join weight
           order by score desc fetch first 100 rows with ties) x
   order by x.score desc, {ID} limit 100
), chosen as (
  select x.revision_id, x.chunk_no, {ID} as chunk_id, {{norm}} as k, {{tf_as}}
    from (select revision_id, chunk_no from best {{also}}) x
   cross join lateral (select * from pgrag_data.chunk_lex l where l.tenant_id = {{t}} and l.revision_id = x.revision_id
                          and l.chunk_no = x.chunk_no offset 0) l
), lexical as materialized (
  select x.*, row_number() over (order by x.share desc, x.score desc, x.chunk_id) as place
    from (select h.revision_id, h.chunk_no, h.chunk_id, {{score}} as score, {{score}} / {{most}} as share,
                 least({{there}} / {{all}}, 1) as coverage, least({{smooth}} / {{all}}, 1) as evidence,
                 array[{{tf}}] as tf, array[{{parts}}] as part
            from chosen h cross join weight) x
   where x.coverage > 0
)"""

HYBRID = """
candidate as materialized (
  select revision_id, chunk_no, chunk_id from lexical where place <= 100 union select revision_id, chunk_no, chunk_id from dense
), scored as materialized (
  select c.revision_id, c.chunk_no, c.chunk_id, l.score as lexical_score, l.tf, l.part,
         case when l.place <= 100 then l.place end as lexical_rank, d.place as dense_rank,
         coalesce(l.share, 0) as share, coalesce(l.coverage, 0) as coverage, coalesce(l.evidence, 0) as evidence,
         (select 1 - (v.embedding operator(public.<=>) {v}) from pgrag_data.chunk_vec v
           where v.tenant_id = {t} and v.space_id = {space} and v.revision_id = c.revision_id and v.chunk_no = c.chunk_no) as cosine
    from candidate c
    left join lexical l on l.revision_id = c.revision_id and l.chunk_no = c.chunk_no
    left join dense d on d.revision_id = c.revision_id and d.chunk_no = c.chunk_no
), trusted as materialized (
  select a.best, 1 - least(a.best / 0.3, 1) * (1 - least(greatest((a.n * coalesce(a.r, 0.2) + 2) / (a.n + 10) / 0.2, 0), 1)) as trust
    from (select max(s.share) as best, greatest(count(s.cosine) - 3, 0) as n, corr(s.share, s.cosine order by s.chunk_id) as r
            from scored s where s.lexical_rank is not null) a
), ranked as (
  select s.revision_id, s.chunk_no, s.chunk_id, s.lexical_rank, s.lexical_score, s.dense_rank, s.cosine as dense_score, s.tf, s.part,
         (s.share / greatest(t.best, 0.3) + coalesce(t.trust, 1) * greatest(coalesce(s.cosine, 0), 0)) / 2 as score,
         sqrt(s.coverage * greatest(coalesce(s.cosine, s.evidence), 0)) as relevance
    from scored s left join trusted t on true
)"""

RANKED = {
    "dense": """
ranked as (
  select revision_id, chunk_no, chunk_id, null as lexical_rank, null as lexical_score, place as dense_rank, cosine as dense_score,
         null as tf, null as part, cosine as score, greatest(cosine, 0) as relevance
    from dense
)""",
    "lexical": """
ranked as (
  select revision_id, chunk_no, chunk_id, place as lexical_rank, score as lexical_score, null as dense_rank, null as dense_score,
         tf, part, share as score, evidence as relevance
    from lexical where place <= 100
)""",
    "hybrid": HYBRID,
}

PICK = """
picked as materialized (
  select r.*, row_number() over (order by r.score desc, r.chunk_id) as rank,
         c.text, c.section, c.page, c.language, c.span_start, c.span_end, v.revision, v.title, v.effective_from, v.effective_to,
         v.created_at, d.document, d.active_revision_id, s.source, s.trust, pgrag_private.distinct_words(c.text) as words
    from (select * from ranked order by score desc, chunk_id limit 10) r
   cross join lateral (select * from pgrag_data.chunk c where c.tenant_id = {t} and c.revision_id = r.revision_id and c.chunk_no = r.chunk_no offset 0) c
    join pgrag_data.revision v on v.tenant_id = {t} and v.revision_id = r.revision_id
    join pgrag_data.document d on d.tenant_id = {t} and d.document_id = v.document_id
    join pgrag_data.source s on s.tenant_id = {t} and s.source_id = d.source_id
)
select encode(p.chunk_id, 'hex'), p.rank, p.score, p.relevance, p.source, p.document, p.revision, p.active_revision_id = p.revision_id,
       p.title, p.section, p.page, p.language, p.span_start, p.span_end, nullif(p.effective_from, '-infinity'), nullif(p.effective_to, 'infinity'), p.created_at, p.trust,
       p.lexical_rank, p.lexical_score, p.dense_rank, p.dense_score, p.text, p.tf, p.part,
       exists (select from picked o
                where o.rank < p.rank and length(p.words) between 0.9 * length(o.words) and length(o.words) / 0.9
                  and length(ts_delete(p.words, tsvector_to_array(o.words))) <= 0.1 * (length(p.words) + length(o.words))
                  and pgrag_private.similarity(o.words, p.words) >= 0.9) as duplicate
  from picked p order by p.rank"""


class Bare:
    """A search as two statements with literals: the scope, and all the rest over it."""

    def __init__(self, corpus: Corpus, reader: str, mode: str) -> None:
        self._connection, self._mode = corpus.server.connection, mode
        tenant, principal = corpus.ids(reader)
        row = self._connection.execute(
            "select space_id from pgrag_data.embedding_space where tenant_id = %s", (tenant,)
        ).fetchone()
        assert row is not None
        self._fixed = {"t": str(tenant), "reader": str(principal), "space": str(row[0])}

    def search(self, asked: Asked) -> list[tuple[Any, ...]]:
        """The ten best, with the chunk's id first."""
        run = self._connection.execute
        scope = run(SCOPE.format(question=_quoted(asked.text), **self._fixed).encode()).fetchone()
        assert scope is not None
        revisions, chunks, length, lexemes = scope
        fields = {**self._fixed, "revisions": f"'{revisions}'", "v": f"'{asked.vector}'::public.vector",
                  "limit": "20" if self._mode == "dense" else "100"}  # fmt: skip
        ctes = []
        if self._mode != "lexical":
            ctes.append(DENSE.format(**fields))
        if self._mode != "dense":
            also = "union select revision_id, chunk_no from dense" if self._mode == "hybrid" else ""
            ctes.append(LEXICAL.format(**fields, also=also, **_slots(lexemes, chunks, length)))
        ctes.append(RANKED[self._mode].format(**fields))
        return run(("with " + ",".join(ctes) + "," + PICK.format(**fields)).encode()).fetchall()


def _slots(lexemes: list[str], chunks: float, length: float) -> dict[str, str]:
    """What the lexical lane's statement has once for each lexeme."""
    quoted = [_quoted("'" + lexeme.replace("'", "''") + "'") for lexeme in lexemes]
    slots = range(len(lexemes))

    def each(piece: Callable[[int], str], between: str = ", ") -> str:
        return between.join(map(piece, slots))

    def idf(more: int, rare: str) -> str:
        return f"ln(1 + (greatest({chunks + more} - ({rare}), 0) + 0.5::float8) / ({rare} + 0.5::float8))"

    return {
        "any": _quoted(" | ".join("'" + lexeme.replace("'", "''") + "'" for lexeme in lexemes)) + "::tsquery",
        "tf_as": each(
            lambda n: f"floor(0.6079271018540267::float8 / (1::float8 - ts_rank('{{1,1,1,1}}', l.lexemes, {quoted[n]}::tsquery))) as tf{n}"
        ),
        "df": each(lambda n: f"(count(*) filter (where tf{n} > 0))::float8 as df{n}"),
        "weights": each(lambda n: f"2.2::float8 * {idf(0, f'df{n}')} as w{n}, {idf(100, f'df{n} + 1')} as s{n}"),
        "norm": f"1.2::float8 * (0.25::float8 + 0.75::float8 * length / {length}::float8)",
        "score": "(" + each(lambda n: f"w{n} * tf{n} / (tf{n} + k)", " + ") + ")",
        "most": "(" + each(lambda n: f"w{n}", " + ") + ")",
        "all": "(" + each(lambda n: f"s{n}", " + ") + ")",
        "there": "(" + each(lambda n: f"case when tf{n} > 0 then s{n} else 0 end", " + ") + ")",
        "smooth": "(" + each(lambda n: f"s{n} * tf{n} / (tf{n} + k)", " + ") + ")",
        "tf": each(lambda n: f"tf{n}"),
        "parts": each(lambda n: f"w{n} * tf{n} / (tf{n} + k)"),
    }  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def searcher(corpus: Corpus, reader: str, mode: str) -> Callable[[Asked], list[tuple[Any, ...]]]:
    """pgrag.search with a token, as an application without pgrag's client would call it."""
    connection, token = corpus.server.connection, corpus.server.token(TENANT, reader)
    statement = "select chunk_id, s.* from pgrag.search(%s, 10, %s, %s::public.vector, %s, p_isolation => 'strict', p_token => %s) s"

    def search(asked: Asked) -> list[tuple[Any, ...]]:
        vector, space = (None, None) if mode == "lexical" else (asked.vector, SPACE.space)
        return connection.execute(
            statement, (asked.text, mode, vector, space, token), prepare=False
        ).fetchall()

    return search


def search(corpus: Corpus, report: Report) -> None:
    """Each mode and both readers: pgrag.search against the bare SQL."""
    lines = []
    for mode, (reader, seen) in itertools.product(
        ("dense", "lexical", "hybrid"), ((SOME, FEW), (ALL, corpus.count))
    ):
        ours, bare, cell = (
            searcher(corpus, reader, mode),
            Bare(corpus, reader, mode).search,
            f"{mode}/{seen * EACH}",
        )
        same = np.mean(
            [
                [row[0] for row in ours(asked)] == [row[0] for row in bare(asked)]
                for asked in corpus.questions[:20]
            ]
        )
        lines.append(
            [
                *compare(report, cell, {"pgrag": ours, "sql": bare}, corpus.questions, "sql"),
                f"{same:.2f}",
            ]
        )
        report.row("sql", cell, "same_answers", float(same))
    report.table(
        "pgrag.search and the SQL in it, by mode and visible chunks: p50 in ms",
        ["search", "pgrag", "sql", "ratio", "of p10", "same answers"],
        lines,
    )


# -- Who asks, and the client -------------------------------------------------------------------------------


def principal(corpus: Corpus, report: Report) -> None:
    """Verifying a token, or what an authenticated transaction keeps, against a statement that does nothing."""
    connection, token = corpus.server.connection, corpus.server.token(TENANT, SOME)
    check = "select pgrag_private.current_principal(%s, 'reader')"
    with connection.transaction():
        connection.execute("select pgrag.authenticate(%s)", (token,))
        line = compare(
            report,
            "principal",
            {
                "token": lambda _: connection.execute(check, (token,), prepare=False).fetchall(),
                "transaction": lambda _: connection.execute(check, (None,), prepare=False).fetchall(),
                "nothing": lambda _: connection.execute(
                    "select %s::text", (token,), prepare=False
                ).fetchall(),
            },
            corpus.questions,
            "nothing",
        )
    report.table(
        "Knowing the reader: p50 in ms", ["", "token", "transaction", "nothing", "ratio", "of p10"], [line]
    )


def python(corpus: Corpus, report: Report) -> None:
    """Reader.search in an open session against the statement that it runs."""
    token = corpus.server.token(TENANT, SOME)
    statement = """select pgrag.search_json(jsonb_build_object('question', %s::text, 'mode', 'dense', 'space', %s::text,
                                                               'embedding', %s::jsonb))"""
    with (
        psycopg.connect(corpus.server.embedded.superuser_dsn) as connection,
        pgrag.reader(connection, token) as reader,
    ):
        vectors = {asked.text: np.array(asked.vector[1:-1].split(","), float) for asked in corpus.questions}

        def client(asked: Asked) -> object:
            return reader.search(asked.text, mode="dense", embedding=vectors[asked.text], space=SPACE.space)

        def bare(asked: Asked) -> object:
            return connection.execute(statement, (asked.text, SPACE.space, asked.vector)).fetchall()

        line = compare(report, "python", {"client": client, "sql": bare}, corpus.questions, "sql")
    report.table("The client in Python: p50 in ms", ["", "client", "sql", "ratio", "of p10"], [line])


# -- Ingest -------------------------------------------------------------------------------------------------

TABLES = ("document", "revision", "revision_source", "chunk", "chunk_lex", "chunk_vec")
LEXEMES = """insert into copied.chunk_lex (tenant_id, revision_id, chunk_no, language, length, lexemes)
             select c.tenant_id, c.revision_id, c.chunk_no, c.language, pgrag_private.lexeme_count(x.lexemes), x.lexemes
               from copied.chunk c
               join copied.revision r on r.tenant_id = c.tenant_id and r.revision_id = c.revision_id
              cross join lateral (select pgrag_private.to_lexemes(c.language, concat_ws(chr(10), nullif(r.title, ''),
                                                                  nullif(c.section, ''), c.text)) as lexemes offset 0) x"""


def ingest(corpus: Corpus, report: Report, seconds: float) -> None:
    """The rate of staging, adding, verifying and activating against that of COPY, with and without foreign keys."""
    run, rows = corpus.server.connection.execute, dict[str, list[bytes]]()
    for table in TABLES:
        if table in ("chunk_lex", "chunk_vec"):
            continue  # made on the way, as pgrag's path makes them
        with (
            corpus.server.connection.cursor() as cursor,
            cursor.copy(_copy("pgrag_data", table, "to")) as out,
        ):
            rows[table] = [bytes(block) for block in out]
    keys = run("""select tenant_id, space_id, revision_id, chunk_no from pgrag_data.chunk_vec v
                    join pgrag_data.revision r using (tenant_id, revision_id, space_id) join pgrag_data.document d using (tenant_id, document_id)
                   order by d.document::integer, chunk_no""").fetchall()  # fmt: skip
    rates = {"pgrag": len(corpus.texts) / seconds}
    for arm, keyed in (("copy", True), ("copy_without_keys", False)):
        run("drop schema if exists copied cascade; create schema copied")
        for table in TABLES:
            run(
                sql.SQL("create table copied.{0} (like pgrag_data.{0} including all)").format(
                    sql.Identifier(table)
                )
            )
            run(sql.SQL("alter table copied.{} disable row level security").format(sql.Identifier(table)))
        if keyed:
            for table, name, definition in run(_KEYS, (list(TABLES),)).fetchall():
                run(f"alter table {table} add constraint {name} {definition}".encode())
        started = time.perf_counter()
        with corpus.server.connection.transaction():
            for table in TABLES:
                if table == "chunk_lex":
                    run(LEXEMES)
                    continue
                with (
                    corpus.server.connection.cursor() as cursor,
                    cursor.copy(_copy("copied", table, "from")) as into,
                ):
                    if table == "chunk_vec":
                        for key, vector in zip(keys, corpus.vectors, strict=True):
                            into.write_row((*key, literal(vector), None))
                    else:
                        for block in rows[table]:
                            into.write(block)
        rates[arm] = len(corpus.texts) / (time.perf_counter() - started)
        counted = run(
            "select count(*) from copied.chunk_lex join copied.chunk_vec using (tenant_id, revision_id, chunk_no)"
        ).fetchone()
        assert counted == (len(corpus.texts),)
    for arm, rate in rates.items():
        report.row(arm, "ingest", "chunks_per_s", rate, ratio=rates["pgrag"] / rate, ratio_of="pgrag")
    report.table(
        "Ingest: chunks a second",
        ["", *rates],
        [
            ["chunks/s", *(f"{rate:.0f}" for rate in rates.values())],
            ["pgrag to it", *(f"{rates['pgrag'] / rate:.2f}" for rate in rates.values())],
        ],
    )
    run("drop schema copied cascade")


# All but the pointer to the active revision, a cycle that COPY in order cannot fill.
_KEYS = """select 'copied.' || c.relname, k.conname,
                  regexp_replace(pg_get_constraintdef(k.oid), 'pgrag_data[.](document|revision|chunk)[(]', 'copied.\\1(')
             from pg_constraint k
             join pg_class c on c.oid = k.conrelid
            where k.contype = 'f' and k.connamespace = 'pgrag_data'::regnamespace and c.relname = any (%s)
              and k.conname <> 'document_active_revision_fkey'"""


def _copy(schema: str, table: str, direction: str) -> sql.Composed:
    return sql.SQL("copy {}.{} {}").format(
        sql.Identifier(schema),
        sql.Identifier(table),
        sql.SQL("to stdout" if direction == "to" else "from stdin"),
    )


# -- Switches -----------------------------------------------------------------------------------------------


def switches(server: Server, report: Report, sizes: tuple[int, ...], short: bool) -> None:
    """What activation, rollback, change of readers and tombstone cost, by the chunks of the document."""
    with pgrag.operator(server.connection) as operator:
        operator.put_tenant("switches")
        operator.put_source("switches", "documents")
    token = server.token("switches", "benchmark", "writer")
    with pgrag.connect(server.embedded.superuser_dsn) as connection:
        for size in sizes:
            activation.put_document(connection, token, f"{size} chunks", size)
        names = [f"{size} chunks" for size in sizes]
        medians = activation.measure(connection, token, names, 20 if short else 200)
    lines = []
    for switch, by in medians.items():
        for name in names:
            report.row(
                "pgrag", name, f"{switch}_ms", by[name], ratio=by[name] / by[names[0]], ratio_to=names[0]
            )
        lines.append([switch, *(f"{by[name]:.3f} ({by[name] / by[names[0]]:.2f})" for name in names)])
    report.table("Switches: p50 in ms (ratio to the smallest)", ["", *names], lines)


if __name__ == "__main__":
    sys.exit(main())
