"""A connection pool in which nothing of one request reaches the next.

    PGRAG_DSN=postgresql://app@db/knowledge PGRAG_TOKEN=… python examples/pool.py "What is the refund window?"

The principal ends with its transaction. What can outlive a transaction is what somebody left on the
connection: a prepared statement, a setting, a temporary object. With injected SQL that somebody may be an
attacker, and whoever gets the connection next would run what was prepared. So at check-in the pool runs
DISCARD ALL. It also forgets statements that psycopg prepared by itself, which psycopg would not know:
hence prepare_threshold=None, with which it prepares none.
"""

import os
import sys
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

import pgrag


def discard(connection: psycopg.Connection[Any]) -> None:
    """Take a connection back: the pool has ended its transaction, and DISCARD ALL ends everything else."""
    connection.autocommit = True  # it cannot run inside a transaction
    connection.execute("discard all")
    connection.autocommit = False


def open_pool(dsn: str, size: int = 4) -> ConnectionPool[psycopg.Connection[Any]]:
    """The pool of an application."""
    return ConnectionPool(
        dsn, min_size=1, max_size=size, kwargs={"prepare_threshold": None}, reset=discard, open=True
    )


def main() -> None:
    """Answer each question of the command line as the reader that the token names."""
    with open_pool(os.environ["PGRAG_DSN"]) as pool:
        for question in sys.argv[1:]:
            with pool.connection() as connection, pgrag.reader(connection, os.environ["PGRAG_TOKEN"]) as r:
                result = r.search(question, k=3)
            print(f"{question} -> {result.status}")
            for hit in result.hits:
                print(f"  {hit.rank}. {hit.source}:{hit.document} ({hit.revision})  {hit.relevance:.3f}")


if __name__ == "__main__":
    main()
