"""Runs that are long enough to be interrupted: a folder with servers and with what was done, so that the next one goes on.

A step is done once, and remembered with what it returned and how long it took. A run that was given so many minutes
begins no further step after them; the same command again continues.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._encoder import say
from benchmarks._server import SETTINGS, Server
from pgrag import embedded


class OutOfTime(Exception):
    """The minutes are over; the same command goes on from here."""


class Folder:
    """What is remembered in a folder, as one small JSON file. Whoever has the folder can mint tokens of its server."""

    def __init__(self, path: Path, end: float = float("inf")) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path, self._end = path, end
        self._file = path / "steps.json"
        self.steps: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def check(self) -> None:
        """Raise OutOfTime where the minutes are over."""
        if time.perf_counter() > self._end:
            raise OutOfTime

    def put(self, name: str, value: Any) -> None:
        """Remember a value."""
        self.steps[name] = value
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(self.steps, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._file)

    def forget(self, *beginnings: str) -> None:
        """Forget the steps whose names begin so."""
        for name in [name for name in self.steps if name.startswith(beginnings)]:
            del self.steps[name]
        self.put("forgotten", list(beginnings))

    def step(self, name: str, do: Callable[[], Any]) -> dict[str, Any]:
        """``seconds`` and ``value`` of a step, which is done if it is not yet."""
        if name not in self.steps:
            self.check()
            started = time.perf_counter()
            value = do()
            seconds = round(time.perf_counter() - started, 2)
            self.put(name, {"seconds": seconds, "value": value})
            say(f"{self.path.name}: {name} in {seconds:.1f} s")
        found: dict[str, Any] = self.steps[name]
        return found

    def blocks(self, name: str, count: int, size: int, do: Callable[[int], object]) -> dict[str, Any]:
        """A step in blocks: ``do(first)`` for every ``size`` of ``count``; it must do no harm when it is done twice."""

        def rest() -> int:
            begun = self.steps.get(f"{name}…", {"first": 0, "seconds": 0.0})
            for first in range(begun["first"], count, size):
                self.check()
                started = time.perf_counter()
                do(first)
                begun = {
                    "first": first + size,
                    "seconds": begun["seconds"] + time.perf_counter() - started,
                }
                if first // size % 10 == 9:
                    self.put(f"{name}…", begun)
                    say(f"{self.path.name}: {name}: {min(count, first + size)} of {count}")
            self.put(f"{name}…", begun)
            return count

        found = self.step(name, rest)
        if f"{name}…" in self.steps:  # of all the runs that it took
            found["seconds"] = round(self.steps.pop(f"{name}…")["seconds"], 2)
            self.put(name, found)
        return found


@contextmanager
def kept(folder: Folder, **settings: str) -> Iterator[Server]:
    """The server of a folder, with pgrag in it; it is stopped at the end, and its data stay."""
    secret = folder.path / "secret"
    if not secret.exists():
        embedded.write_private(secret, os.urandom(32).hex())
    with embedded.start(folder.path / "server", settings={**SETTINGS, **settings}, timeout=300) as started:
        server = Server(started, bytes.fromhex(secret.read_text()))
        with server.connection:
            yield server
