"""pgrag inside an application's own SQLAlchemy session and transaction.

    PGRAG_DSN=postgresql://app@db/knowledge PGRAG_TOKEN=… python examples/sqlalchemy_session.py "Who pays?"

The session is handed in as it is. pgrag takes a savepoint of its transaction for the length of the block
and never commits: what is written is kept or dropped by the application, together with its own writes.
After the block nobody is authenticated in the transaction, or whoever was before.
"""

import os
import sys

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

import pgrag


def open_engine(dsn: str) -> Engine:
    """An engine for any libpq connection string. Nothing is prepared: see examples/pool.py."""
    return create_engine(
        "postgresql+psycopg://", connect_args={**conninfo_to_dict(dsn), "prepare_threshold": None}
    )


def main() -> None:
    """Answer the question of the command line within a transaction that is the application's."""
    engine = open_engine(os.environ["PGRAG_DSN"])
    with Session(engine) as session, session.begin():
        session.execute(text("set local statement_timeout = '5s'"))  # the application's, for all that follows
        with pgrag.reader(session, os.environ["PGRAG_TOKEN"]) as r:
            packet = r.packet(sys.argv[1], budget=2000)
            timeout = session.execute(text("show statement_timeout")).scalar_one()
        print(f"{packet.status}, {len(packet.excerpts)} excerpts, within {timeout}")
        for excerpt in packet.excerpts:
            print(f"  [{excerpt.id}] {excerpt.source}:{excerpt.document}  {excerpt.text.splitlines()[0]}")
    engine.dispose()


if __name__ == "__main__":
    main()
