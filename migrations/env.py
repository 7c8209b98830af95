"""What Alembic runs for every command: see pgrag/migrations.py."""

import psycopg
from alembic import context
from sqlalchemy import create_engine, pool

from pgrag.migrations import VERSION_TABLE, VERSION_TABLE_SCHEMA

stamp = {"version_table": VERSION_TABLE, "version_table_schema": VERSION_TABLE_SCHEMA}

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", **stamp)
    with context.begin_transaction():
        context.run_migrations()
else:
    # libpq connects, so that every connection string that psql takes is taken here.
    dsn = context.config.attributes["dsn"]
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=pool.NullPool
    )
    with engine.connect() as connection:
        context.configure(connection=connection, **stamp)
        with context.begin_transaction():
            context.run_migrations()
