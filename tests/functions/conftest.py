from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.functions.helpers import World
from tests.support import Database


@pytest.fixture
def world(module_database: Database, request: pytest.FixtureRequest) -> World:
    """A tenant that this test alone uses, in the module's database."""
    return World(module_database, re.sub(r"\W+", "-", request.node.name)[:100].strip("-"))


@pytest.fixture(scope="module", autouse=True)
def _closed_connections() -> Iterator[None]:
    yield
    World.close()
