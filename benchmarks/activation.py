"""What a switch costs at 10 and at 10,000 chunks: activation, rollback, change of readers, tombstone.

The claim is that size does not matter, so the figure to look at is the ratio of the two medians in one run.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

import pgrag
from benchmarks._report import lines
from pgrag import _sql, embedded, tokens

KEY = {"kid": "benchmark", "issuer": "benchmark", "audience": "pgrag"}


def prepare(connection: psycopg.Connection[Any], secret: bytes) -> None:
    """Install as the superuser that the throw-away server has, and make one tenant."""
    connection.execute("create extension vector")
    connection.execute(_sql.install_script())
    connection.execute("grant pgrag_keys, pgrag_operator, pgrag_admin, pgrag_writer to current_user")
    with pgrag.keys(connection) as keys:
        keys.add(KEY["kid"], secret, KEY["issuer"], KEY["audience"])
    with pgrag.operator(connection) as operator:
        operator.put_tenant("benchmark")
        operator.put_source("benchmark", "documents")


def put_document(connection: psycopg.Connection[Any], token: str, document: str, chunks: int) -> None:
    """Two revisions of ``chunks`` chunks of 100 characters, both verified, the first one active."""
    for revision in ("v1", "v2"):
        texts = [f"{revision} {number} ".ljust(99, "x") + "\n" for number in range(chunks)]
        with pgrag.writer(connection, token):
            connection.execute(
                "select pgrag.stage_revision(%s, %s, p_revision => %s)", (document, "".join(texts), revision)
            )
            for first in range(0, chunks, 2000):
                batch = texts[first : first + 2000]
                starts = [100 * (first + number) for number in range(len(batch))]
                connection.execute(
                    "select pgrag.add_chunks(%s, %s, %s, %s, %s, %s, %s)",
                    (
                        document,
                        revision,
                        first + 1,
                        batch,
                        starts,
                        [start + 100 for start in starts],
                        [3] * len(batch),
                    ),
                )
            connection.execute("select pgrag.verify_revision(%s, %s, %s)", (document, revision, chunks))
    with pgrag.writer(connection, token) as writer:
        writer.activate(document, "v1")


def measure(
    connection: psycopg.Connection[Any], token: str, documents: list[str], repeats: int
) -> dict[str, dict[str, float]]:
    """Median milliseconds of each switch of each document, with the commit and without the authentication.

    The documents take turns, so that what else the machine does falls on all of them alike.
    """
    steps = {
        "activate": ("select pgrag.activate(%s, 'v2')", "select pgrag.activate(%s, 'v1')"),
        "rollback": ("select pgrag.rollback(%s, 'v2')", "select pgrag.rollback(%s, 'v1')"),
        "set_access": ("select pgrag.set_access(%s, '{everyone}')", "select pgrag.set_access(%s, '{}')"),
        "delete": (
            "select pgrag.delete_document(%s)",
            "select pgrag.activate(%s, 'v1', p_restore => true)",
        ),
    }
    medians: dict[str, dict[str, float]] = {}
    for name, statements in steps.items():
        times: dict[str, list[float]] = {document: [] for document in documents}
        for repeat in range(repeats):
            for document in documents:
                connection.execute("select pgrag.authenticate(%s)", (token,))
                start = time.perf_counter()
                connection.execute(statements[repeat % len(statements)], (document,))
                connection.commit()
                times[document].append(1000 * (time.perf_counter() - start))
        medians[name] = {document: statistics.median(times[document]) for document in documents}
    return medians


def main() -> int:
    """Run, print a table, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="20 repeats of each switch instead of 200")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write a list of rows: arm, collection, metric, value"
    )
    options = parser.parse_args()
    secret, sizes = secrets.token_bytes(32), {"10 chunks": 10, "10000 chunks": 10_000}
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded.start(Path(folder) / "data") as server,
        pgrag.connect(server.superuser_dsn) as connection,
    ):
        with connection.transaction():
            prepare(connection, secret)
        token = tokens.mint(
            secret, **KEY, tenant="benchmark", subject="benchmark", kind="writer", source="documents"
        )
        for document, chunks in sizes.items():
            put_document(connection, token, document, chunks)
        medians = measure(connection, token, list(sizes), 20 if options.short else 200)
    small, large = sizes
    print(f"{'switch':<12}{small:>14}{large:>14}{'ratio':>8}")
    for name, by_document in medians.items():
        ratio = by_document[large] / by_document[small]
        print(f"{name:<12}{by_document[small]:>11.3f} ms{by_document[large]:>11.3f} ms{ratio:>8.2f}")
    if options.json:
        rows = [
            {"arm": "pgrag", "collection": document, "metric": f"{name}_ms", "value": round(value, 3)}
            for name, by_document in medians.items()
            for document, value in by_document.items()
        ]
        options.json.write_text(lines(rows), encoding="utf-8")
    return 0
