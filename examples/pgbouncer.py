"""pgrag behind PgBouncer in transaction mode, which gives every transaction any server connection.

    PGRAG_DSN="host=127.0.0.1 port=6432 dbname=knowledge user=app" PGRAG_TOKEN=… \\
      python examples/pgbouncer.py "What is the refund window?" "Who may approve it?"

    [pgbouncer]
    pool_mode = transaction

Why this works, although the connection is somebody else's a moment later:

- Authenticating and asking are one transaction, and PgBouncer never splits a transaction. `pgrag.reader`
  begins it, authenticates, and commits at the end of the block.
- The proof of who is asking is a transaction-local setting: PostgreSQL forgets it at the end.
- Were it left behind, or copied out by injected SQL and set again, it would not count: it is signed with a
  key of the database and names the backend and the transaction that it was made for. The answer is RG208.
- pgrag prepares no statements (`prepare_threshold=None`). A prepared statement would stay on the server
  connection, and in transaction mode PgBouncer runs no reset query. If the application's other code can be
  made to run injected SQL, let PgBouncer clean up as well, at the price of a round trip a transaction:
  `server_reset_query = DISCARD ALL` with `server_reset_query_always = 1`.
"""

import os
import sys

import pgrag


def main() -> None:
    """Answer each question in a transaction of its own, and say which server connection it had."""
    with pgrag.connect(os.environ["PGRAG_DSN"]) as connection:
        for question in sys.argv[1:]:
            with pgrag.reader(connection, os.environ["PGRAG_TOKEN"]) as r:
                who = r.whoami()
                result = r.search(question, k=3)
                backend = connection.execute("select pg_backend_pid()").fetchone()
            print(f"{who.subject} on backend {backend[0] if backend else '?'}: {question} -> {result.status}")
            for hit in result.hits:
                print(f"  {hit.rank}. {hit.source}:{hit.document}  {hit.relevance:.3f}")


if __name__ == "__main__":
    main()
