"""A real server for every test: embedded by default, PGRAG_TEST_DSN (a superuser's) where set, or a container."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server import TEMPLATE, Databases, running
from tests.support import Database


@pytest.fixture(scope="session")
def server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A superuser's connection string to the server under test."""
    with running(tmp_path_factory.mktemp("server") / "data") as dsn:
        yield dsn


@pytest.fixture(scope="session")
def databases(server_dsn: str) -> Iterator[Databases]:
    """Databases of that server; all are dropped at the end."""
    databases = Databases(server_dsn)
    yield databases
    databases.drop()


@pytest.fixture(scope="session")
def template(databases: Databases) -> str:
    """The name of the database that they are copies of."""
    return TEMPLATE


@pytest.fixture(scope="session")
def new_database(databases: Databases) -> Callable[[], Database]:
    """Makes databases with pgrag and nothing else in them."""
    return databases.new


@pytest.fixture
def database(new_database: Callable[[], Database]) -> Database:
    """An empty pgrag database, this test's own."""
    return new_database()


@pytest.fixture(scope="module")
def module_database(new_database: Callable[[], Database]) -> Database:
    """An empty pgrag database that the tests of one module share."""
    return new_database()


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared collections, from PGRAG_DATA or the folder beside the checkout; the test skips where there are none."""
    shared = Path(__file__).resolve().parents[2] / "shared"
    root = Path(os.environ.get("PGRAG_DATA") or shared / "data")
    if not root.is_dir():
        # A gate that has the folder and not the data would pass by not looking.
        if os.environ.get("CI") and shared.is_dir():
            pytest.fail("../shared is here, and its collections are not")
        pytest.skip("the shared collections are not here; set PGRAG_DATA to their folder")
    return root
