"""What a proof of the boundary is: seeded batches of cases, none of which may fail, and controls, which have to.

A proof is a module of this folder with a ``PROOF``. ``make test`` runs a few batches of each and every control
(test_proofs.py); ``make assurance`` goes on from the last seed until the target is reached, and writes docs/assurance.json
and docs/assurance.md (__main__.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.server import Databases
from tests.support import Database

WORDED = 5  # failures of a batch that ``fail`` puts into words


@dataclass
class Tally:
    """What a batch saw: cases, whatever failed, further counts by name, and figures, of which a later one replaces an earlier one."""

    cases: int = 0
    draws: int = 0  # of which so many are independent: worlds, sessions, …
    failures: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # worth saying on the page, each once
    figures: dict[str, float] = field(default_factory=dict)  # of all that the opened proof has seen so far

    def fail(self, text: str) -> None:
        """Count a failure, and say what it was unless there are many."""
        self.failures.append(text if len(self.failures) < WORDED else "as before")

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.cases + other.cases, self.draws + other.draws, self.failures + other.failures, self.counts + other.counts, self.notes + other.notes, self.figures | other.figures)


@dataclass(frozen=True)
class Lab:
    """Where proofs run: databases of the server under test, and a folder for servers of a proof's own."""

    databases: Databases
    folder: Path

    @contextmanager
    def database(self) -> Iterator[Database]:
        """A database for a while."""
        database = self.databases.new()
        try:
            yield database
        finally:
            self.databases.drop(database)


Batch = Callable[[int], Tally]
"""A seed to what came of it. The same seed makes the same cases, except where processes race."""


Opened = Callable[[Lab], AbstractContextManager[Batch]]


@dataclass(frozen=True)
class Control:
    """A guard that is broken: within a few batches one has to fail, and to say what ``seen``, a pattern, is found in."""

    opened: Opened
    seen: str

    def failed(self, tally: Tally) -> bool:
        """Whether it was seen, and not something else."""
        return any(re.search(self.seen, failure, re.S) for failure in tally.failures)


@dataclass(frozen=True)
class Proof:
    """``opened`` gives the batches on the guards as they are; each of ``controls`` breaks one and gives batches that must fail."""

    name: str
    contracts: tuple[str, ...]
    unit: str  # what a case is, in the plural
    target: int  # cases of the full run
    claim: str  # one sentence: what holds in every case
    opened: Opened
    controls: Mapping[str, Control]
    bounded: bool = True  # whether the rule of three says something of its cases
    draw: str = ""  # what the cases hang on that is drawn independently, in the plural; of these the bound is, too
    short: int = 1  # batches in make test
    control_batches: int = 5  # within so many batches a control has to fail
    needs: Callable[[], str] = str  # why it cannot run here; empty if it can

    def controlled(self, lab: Lab) -> dict[str, int]:
        """How many batches each control took until it failed; 0 if it did not."""
        took = {}
        for name, control in self.controls.items():
            with control.opened(lab) as batch:
                took[name] = next((n for n in range(1, self.control_batches + 1) if control.failed(batch(n))), 0)
        return took


def upper_bound(cases: int) -> float:
    """95 % upper bound of the failures' share where none of so many failed: the rule of three."""
    return 3 / cases if cases else 1.0
