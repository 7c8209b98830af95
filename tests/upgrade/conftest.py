"""One spare server for these tests, and each of them finds it empty."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pgrag import embedded
from tests.upgrade.cluster import INSTALLER, Cluster


@pytest.fixture(scope="session")
def spare_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with psql and pg_dump beside it, whatever server the other tests use."""
    fast = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    try:
        server = embedded.start(
            tmp_path_factory.mktemp("spare") / "server",
            bindir=os.environ.get("PGRAG_TEST_BINDIR"),
            settings=fast,
        )
    except embedded.EmbeddedError as error:
        pytest.skip(f"no embedded server to spare: {error}")
    with server:
        if not (server.bindir / "psql").exists() or not (server.bindir / "pg_dump").exists():
            pytest.skip(f"{server.bindir} has no psql and pg_dump")
        yield Cluster(server)


@pytest.fixture
def cluster(spare_server: Cluster) -> Cluster:
    """The server with one role more than PostgreSQL's own: the least that can install."""
    spare_server.clean()
    spare_server.create_role(INSTALLER)
    return spare_server
