"""A private function of a test's database, changed for a while: a bound made small, or a guard taken out so that the test must fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.support import Database


def rewrite(database: Database, function: str, *changes: tuple[str, str]) -> str:
    """Each change replaces a text, which must be there, in the definition of ``pgrag_private.<function>``, or of a name with its schema;
    the definition of before."""
    function = function if "." in function else f"pgrag_private.{function}"
    with database.superuser() as superuser:
        (body,) = superuser.execute("select pg_get_functiondef(%s::regproc)", (function,)).fetchone()
        changed = body
        for old, new in changes:
            assert old in changed, (function, old)
            changed = changed.replace(old, new)
        superuser.execute(changed)
    return body


@contextmanager
def patched(database: Database, function: str, *changes: tuple[str, str]) -> Iterator[None]:
    """The same for a while."""
    body = rewrite(database, function, *changes)
    try:
        yield
    finally:
        with database.superuser() as superuser:
            superuser.execute(body)


@contextmanager
def all_patched(database: Database, *changes: tuple[str, str, str]) -> Iterator[None]:
    """Several at once: function, text, replacement."""
    with ExitStack() as stack:
        for function, old, new in changes:
            stack.enter_context(patched(database, function, (old, new)))
        yield


def scope_limit(database: Database, chunks: int = 0) -> AbstractContextManager[None]:
    """Scopes of more chunks than this take the index route, as long as isolation is 'auto'."""
    return patched(database, "scope_first_limit", ("20000", str(chunks)))


def blocks_cost_nothing(database: Database) -> None:
    """Whatever there is of blocks is searched, in this database from now on."""
    with database.superuser() as superuser:
        superuser.execute("update pgrag_data.search_cost set microseconds = case part when 'block' then 0.001 else 1000 end")


@contextmanager
def small_blocks(database: Database, least: int = 3) -> Iterator[None]:
    """Blocks deserve to be built from ``least`` vectors on, and cost nothing."""
    with patched(database, "block_least", ("1000", str(least))):
        blocks_cost_nothing(database)
        yield


def few_searched(database: Database, enough: int = 1, most: int = 5) -> AbstractContextManager[None]:
    """The index route looks for rare words until they find ``enough`` chunks, and for none that would make it more than ``most``."""
    return patched(database, "lexical_plans", ("> 10000 and", f"> {most} and"), ("v_plan, 100)", f"v_plan, {enough})"))
