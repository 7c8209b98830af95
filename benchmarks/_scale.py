"""The lexical lane on one large tenant, against the SQL that a competent person writes for it.

The text is made up: words by Zipf's law, ten chunks a document. Questions are of two kinds: eight words so common
that every chunk has one of them, and six words of some chunk as they come. Readers are two: one who may see
everything, and one who may see every tenth document.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import _metrics, _run
from benchmarks._arms import Query
from benchmarks._encoder import say
from benchmarks._report import Report
from benchmarks._server import ALL, SOME, Server
from pgrag.protocols import Chunk

CHUNKS_OF_ONE, WORDS_OF_ONE, VOCABULARY = 10, 120, 30_000
SHARE = 10
"""Every SHARE-th document may be seen by the narrow reader."""
TENANT, EVERYONE, PRINCIPALS = 1, 0, {ALL: 1, SOME: 2}


def run(options: argparse.Namespace, report: Report) -> int:
    """Load, ask in turns, and report times as ratios."""
    started = time.perf_counter()
    count = options.chunks or (10_000 if options.short else 100_000)
    asked = 8 if options.short else 40
    with _run.running(options, None) as run:
        server = run.server
        draw = np.random.default_rng(options.seed)
        chunks = list(texts(count, draw))
        load(server, chunks)
        say(f"{len(chunks)} chunks in {time.perf_counter() - started:.0f} s")
        report.meta["versions"] |= server.versions()
        report.meta["scale"] = {"chunks": len(chunks), "plans": {}, **settings(server)}
        common, ordinary = [], []
        for _ in range(asked + 2):
            common.append(" ".join(word(rank) for rank in draw.choice(12, 8, replace=False)))
            ordinary.append(
                " ".join(
                    draw.choice(sorted(set(chunks[draw.integers(len(chunks))].split())), 6, replace=False)
                )
            )
        lines = []
        for kind, questions in (("every-chunk", common), ("ordinary", ordinary)):
            queries = [
                Query(text, tuple(its), None)
                for text, its in zip(questions, server.lexemes(["en"], questions), strict=True)
            ]
            for reader, name in ((ALL, f"scale/{kind}"), (SOME, f"scale/{kind}/narrow")):
                searches = arms(server, reader)
                _run.times(searches, queries[:2])
                taken = _run.times(searches, queries[2:])
                matched = float(np.mean([matches(server, reader, query) for query in queries[2:6]]))
                report.meta["scale"]["plans"][name] = {
                    "matching_chunks": matched,
                    "overlap_with_strict": overlap(searches, queries[2:12]),
                    **policy(server, reader, queries[2].text),
                }
                middle = {arm: _metrics.percentile(its, 0.5) for arm, its in taken.items()}
                for arm, its in taken.items():
                    ratios = {
                        f"ratio_to_{other}": middle[arm] / middle[other] for other in middle if other != arm
                    }
                    report.row(arm, name, "p50_ms", middle[arm], chunks=len(chunks), **ratios)
                    report.row(arm, name, "p95_ms", _metrics.percentile(its, 0.95), chunks=len(chunks))
                ours = middle["pgrag"]
                others = [f"{middle[arm]:.2f} ({ours / middle[arm]:.2f})" for arm in middle if arm != "pgrag"]
                lines.append([name, f"{matched:.0f}", f"{ours:.2f}", *others])
        report.table(
            f"{len(chunks)} chunks: p50 in ms, and pgrag's as a ratio to it",
            ["questions", "matching", "pgrag", *(arm for arm in searches if arm != "pgrag")],
            lines,
        )
        for name, plan in report.meta["scale"]["plans"].items():
            report.say(
                f"{name}: {json.dumps({key: value for key, value in plan.items() if key != 'matching_chunks'})}"
            )
        report.close({}, time.perf_counter() - started)
    return 0


# -- Text ---------------------------------------------------------------------------------------------------


def word(rank: int) -> str:
    """A word that no stemmer changes, one for each rank."""
    syllables = ""
    number = int(rank) + 10
    while number:
        number, digit = divmod(number, 60)
        syllables += "bdfgklmnprtv"[digit // 5] + "aeiou"[digit % 5]
    return syllables + "k"


def texts(count: int, draw: np.random.Generator) -> Iterator[str]:
    """Chunks of 60 to 180 words; the chance of a word is as 1 / (rank + 2.7)."""
    chances = 1 / (np.arange(VOCABULARY) + 2.7)
    chances /= chances.sum()
    words = np.array([word(rank) for rank in range(VOCABULARY)])
    for _ in range(count // CHUNKS_OF_ONE * CHUNKS_OF_ONE):
        length = int(draw.integers(WORDS_OF_ONE // 2, WORDS_OF_ONE * 3 // 2))
        yield " ".join(words[draw.choice(VOCABULARY, length, p=chances)])


def load(server: Server, chunks: list[str]) -> None:
    """The chunks in a tenant of pgrag, and once more in the tables of somebody else."""
    server.put_tenant("scale", None)

    def documents() -> Iterator[tuple[str, str, str, str, list[Chunk]]]:
        for first in range(0, len(chunks), CHUNKS_OF_ONE):
            its, start = [], 0
            for text in chunks[first : first + CHUNKS_OF_ONE]:
                its.append(Chunk(text + "\n", start, start + len(text) + 1))
                start += len(text) + 1
            yield str(first // CHUNKS_OF_ONE), "", "en", "".join(chunk.text for chunk in its), its

    server.put_documents("scale", documents(), None, None)
    count = len(chunks) // CHUNKS_OF_ONE
    server.hide("scale", [str(number) for number in range(count) if number % SHARE])
    # The SQL that a competent person writes. Who may see a document is a table, as pgrag's lists of readers are.
    server.connection.execute(f"""
        create table peer.chunk as
        select {TENANT} as tenant_id, d.document::integer as document_id, l.chunk_no, c.text, l.lexemes
          from pgrag_data.chunk_lex l
          join pgrag_data.chunk c using (tenant_id, revision_id, chunk_no)
          join pgrag_data.document d on (d.tenant_id, d.active_revision_id) = (l.tenant_id, l.revision_id)
         order by 1, 2, 3;
        alter table peer.chunk add primary key (tenant_id, document_id, chunk_no);
        create index on peer.chunk using gin (lexemes);
        create table peer.reader as
        select {TENANT} as tenant_id, case when n % {SHARE} = 0 then {EVERYONE} else {PRINCIPALS[ALL]} end as principal_id, n as document_id
          from generate_series(0, {count - 1}) n;
        alter table peer.reader add primary key (tenant_id, principal_id, document_id);
        create index on peer.reader (tenant_id, document_id);
    """)
    server.connection.execute("vacuum (analyze)")


# -- Arms ---------------------------------------------------------------------------------------------------

_PEER = """
    from peer.chunk c join peer.reader r using (tenant_id, document_id)
   where c.tenant_id = %(tenant)s and r.principal_id = any (%(principals)s) and c.lexemes @@ %(query)s::tsquery"""


def arms(server: Server, reader: str) -> dict[str, Callable[[Query], object]]:
    """The ten best of each: pgrag, also with every chunk read (strict), and both of PostgreSQL's ranking functions,
    one of them also without parallel workers.
    """
    connection, token = server.connection, server.token("scale", reader)

    def ours(isolation: str, query: Query) -> object:
        return connection.execute(
            "select document, score, text from pgrag.search(%s, 10, 'lexical', p_isolation => %s, p_token => %s)",
            (query.text, isolation, token),
        ).fetchall()

    def theirs(function: str, query: Query) -> object:
        return connection.execute(
            f"select c.document_id, c.chunk_no, c.text, {function}(c.lexemes, %(query)s::tsquery) as score {_PEER}"
            " order by score desc, c.document_id, c.chunk_no limit 10",
            _parameters(reader, query),
        ).fetchall()

    def serial(query: Query) -> object:
        with connection.transaction():
            connection.execute("set local max_parallel_workers_per_gather = 0")
            return theirs("ts_rank", query)

    return {
        "pgrag": partial(ours, "auto"),
        "pgrag_strict": partial(ours, "strict"),
        "ts_rank": partial(theirs, "ts_rank"),
        "ts_rank_serial": serial,
        "ts_rank_cd": partial(theirs, "ts_rank_cd"),
    }


def _parameters(reader: str, query: Query) -> dict[str, object]:
    return {"tenant": TENANT, "principals": [EVERYONE, PRINCIPALS[reader]], "query": query.tsquery("any")}


def overlap(searches: Mapping[str, Callable[[Query], Any]], queries: Sequence[Query]) -> float:
    """The share of the ten best of reading every chunk that pgrag finds by itself, from 0 to 1; 1 where it is exact."""
    shares = []
    for query in queries:
        exact, found = ({row[2] for row in searches[arm](query)} for arm in ("pgrag_strict", "pgrag"))
        shares.append(len(exact & found) / max(1, len(exact)))
    return float(np.mean(shares))


def matches(server: Server, reader: str, query: Query) -> int:
    """How many chunks of the reader's match."""
    row = server.connection.execute(f"select count(*) {_PEER}", _parameters(reader, query)).fetchone()
    assert row is not None
    return int(row[0])


def policy(server: Server, reader: str, question: str) -> dict[str, object]:
    """How pgrag said that it went about it: its route, and whether a bound was hit."""
    row = server.connection.execute(
        "select pgrag.search_json(%s::jsonb, %s) -> 'policy'",
        (json.dumps({"question": question, "mode": "lexical"}), server.token("scale", reader)),
    ).fetchone()
    assert row is not None
    return {key: value for key, value in row[0].items() if key.startswith("lexical_") or key == "isolation"}


def settings(server: Server) -> dict[str, str]:
    """What of the server's settings decides these times."""
    names = ["shared_buffers", "work_mem", "max_parallel_workers_per_gather", "jit"]
    rows = server.connection.execute(
        "select name, current_setting(name) from unnest(%s::text[]) as n (name)", (names,)
    )
    return dict(rows.fetchall())
