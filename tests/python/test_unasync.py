"""The synchronous code is what the asynchronous code would be without async and await."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "unasync.py"


@pytest.fixture
def unasync() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unasync", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_stale(unasync: ModuleType) -> None:
    assert unasync.stale() == []
    assert {path.name for path in unasync.generated()} == {"sessions.py", "ingest.py"}


def test_what_is_stale_is_noticed(unasync: ModuleType, tmp_path: Path) -> None:
    for folder in ("_async", "_sync"):
        (tmp_path / folder).mkdir()
    (tmp_path / "_async" / "a.py").write_text("async def a() -> None: ...\n")
    unasync.ROOT = tmp_path
    assert [path.name for path in unasync.stale()] == ["a.py"]  # missing
    for path, text in unasync.generated().items():
        path.write_text(text)
    assert unasync.stale() == []  # control
    (tmp_path / "_sync" / "a.py").write_text("def a() -> None: ...\n")
    (tmp_path / "_sync" / "old.py").write_text("")
    assert [path.name for path in unasync.stale()] == ["a.py", "old.py"]


def test_the_command() -> None:
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_conversion(unasync: ModuleType) -> None:
    source = '''"""Use it as ``async with async_thing() as t: await t.run()``, or AsyncThing."""
import asyncio  # async stays in a comment
from contextlib import asynccontextmanager
from pgrag._async.other import AsyncThing


class AsyncThing:
    async def run(self, x: str = f"await {1 + 1} {{}}") -> None:
        async with self.lock, other() as (
            a,
        ):
            await self.go(
                [await one async for one in self.many()], "async_thing"
            )  # await

@asynccontextmanager
async def async_thing():
\tyield await AsyncThing()
'''
    assert (
        unasync.convert(source)
        == '''"""Use it as ``with thing() as t: t.run()``, or Thing."""
import asyncio  # async stays in a comment
from contextlib import contextmanager
from pgrag._sync.other import Thing


class Thing:
    def run(self, x: str = f"await {1 + 1} {{}}") -> None:
        with self.lock, other() as (
            a,
        ):
            self.go(
                [one for one in self.many()], "thing"
            )  # await

@contextmanager
def thing():
\tyield Thing()
'''
    )
