"""Run the proofs of the boundary until each has the cases of a full run, and write docs/assurance.json and docs/assurance.md.

Counts add up over runs: each goes on from the seed after the last, as long as pgrag's SQL, the proof and the server's version are the
same, and starts from nothing where they are not. Two runs may go at once. Interrupted, a run keeps what its finished batches saw, and
gives back the seeds of the others. A batch that raises anything is a failure, and ends its proof. A record of other SQL is kept beside
the new one, with ``.before`` at the end of its name.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path
from shutil import copyfile
from threading import Event
from typing import Any

import psycopg

import pgrag
from pgrag import _sql
from tests.assurance.page import written
from tests.assurance.proof import Lab, Proof, Tally, upper_bound
from tests.assurance.proofs import PROOFS
from tests.server import Databases, running

DOCS = Path(__file__).resolve().parents[2] / "docs"
INTERRUPTED = Event()
KEPT = 20  # failures are kept in words up to so many; they are all counted


def main() -> int:
    """Run; 1 if a case failed or a control did not."""
    options = parser().parse_args()
    for end in (signal.SIGINT, signal.SIGTERM):  # in the background too, where a shell has it ignored
        signal.signal(end, interrupt)
    record = Record(options.json)
    if options.list:
        for entry in record.read()["proofs"]:
            print(f"{entry['proof']:24} {entry['cases']:>12,} of {entry['target']:>12,} {entry['unit']}, {len(entry['failures'])} failures")
        return 0
    bad = False
    with tempfile.TemporaryDirectory(prefix="pgrag-assurance-") as folder, running(Path(folder) / "data") as dsn:
        lab = Lab(Databases(dsn), Path(folder))
        with psycopg.connect(dsn) as connection:
            record.on(connection.execute("show server_version").fetchone()[0])
        try:
            for name in options.only or PROOFS:
                bad |= run(PROOFS[name], lab, record, 60 * options.minutes)
        except KeyboardInterrupt:
            say("interrupted: the same command goes on from here")
            return 130
        finally:
            lab.databases.drop()
    return int(bad)


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.assurance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=names, metavar="A,B", help=f"of {', '.join(PROOFS)}")
    parser.add_argument("--minutes", type=float, default=60, metavar="N", help="of each proof, at most (%(default)s)")
    parser.add_argument("--json", type=Path, default=DOCS / "assurance.json", metavar="FILE", help="the record (docs/assurance.json); the page is written beside it")
    parser.add_argument("--list", action="store_true", help="what has been counted so far, and stop")
    return parser


def names(text: str) -> list[str]:
    """Known proofs, of a comma-separated list."""
    if unknown := set(text.split(",")) - set(PROOFS):
        raise argparse.ArgumentTypeError(f"no such proof: {', '.join(sorted(unknown))}")
    return text.split(",")


def say(text: str) -> None:
    """Progress, to standard error."""
    print(text, file=sys.stderr, flush=True)


def interrupt(*_: Any) -> None:
    """End what is going on, and what comes after it too: raised within a callback that nobody waits for, the exception goes nowhere."""
    INTERRUPTED.set()
    raise KeyboardInterrupt


def unless_interrupted() -> None:
    """Raise what was raised already."""
    if INTERRUPTED.is_set():
        raise KeyboardInterrupt


def run(proof: Proof, lab: Lab, record: Record, seconds: float) -> bool:
    """Controls first, where they have not been seen, then batches until the target or the time is reached; whether anything was wrong."""
    if reason := proof.needs():
        say(f"{proof.name}: left out, {reason}")
        return False
    if not record.entry(proof)["controls"]:
        say(f"{proof.name}: controls")
        began = time.monotonic()
        took = proof.controlled(lab)
        record.change(proof, lambda entry: entry.update(controls=took, seconds=entry["seconds"] + time.monotonic() - began))
    began, told = time.monotonic(), 0.0
    if record.entry(proof)["cases"] < proof.target:
        with proof.opened(lab) as batch:
            while record.entry(proof)["cases"] < proof.target and time.monotonic() - began < seconds:
                unless_interrupted()
                seed, before = record.next_seed(proof), time.monotonic()
                try:
                    tally = batch(seed)
                except (Exception, KeyboardInterrupt) as error:
                    if INTERRUPTED.is_set():  # and closing a connection amid a statement may have made something else of it
                        record.change(proof, lambda entry, seed=seed: entry["returned"].append(seed))
                        raise KeyboardInterrupt from error
                    # Whatever it is, it is not what was to be seen.
                    record.add(proof, Tally(failures=[f"seed {seed}: {type(error).__name__}: {error}"]), time.monotonic() - before)
                    traceback.print_exc()
                    break
                record.add(proof, tally, time.monotonic() - before)
                if time.monotonic() - told > 20:
                    entry, told = record.entry(proof), time.monotonic()
                    say(f"{proof.name}: {entry['cases']:,} of {proof.target:,} {proof.unit}, {entry['failed']} failures, {entry['seconds']:.0f} s")
    entry = record.entry(proof)
    say(f"{proof.name}: {entry['cases']:,} {proof.unit}, {entry['failed']} failures, controls {entry['controls']}")
    for failure in entry["failures"]:
        say(f"  {failure}")
    return bool(entry["failed"]) or not all(entry["controls"].values())


def digest(script: str) -> str:
    """Of what a script does: without the lines that are comments, and without what \\d+ says of an object."""
    return hashlib.sha256(re.sub(r"^ *--[^\n]*\n|^comment on .*?;\n", "", script, flags=re.M | re.S).encode()).hexdigest()


class Record:
    """docs/assurance.json, which runs at the same time change one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sql = digest(_sql.build())
        self._server = ""

    def _written(self) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            return dict(json.loads(self._path.read_text(encoding="utf-8")))
        return {}

    def read(self) -> dict[str, Any]:
        """What is there of this installation's SQL; an empty record where that is another."""
        record = self._written()
        if record and record["sql_sha256"] == self._sql:
            return record
        if record and self._server:  # this run has begun its own
            raise SystemExit(f"{self._path}: another run counts other SQL in it")
        return {"version": pgrag.__version__, "sql_sha256": self._sql, "postgresql": "", "cpus": os.cpu_count(), "date": "", "remarks": [], "proofs": []}

    def on(self, server: str) -> None:
        """Which server it is; from here on the record is of this SQL."""
        record = self._written()
        if record and record["sql_sha256"] != self._sql:
            copyfile(self._path, f"{self._path}.before")
        self._changed(lambda record: record.update(postgresql=server))
        self._server = server

    def entry(self, proof: Proof) -> dict[str, Any]:
        """Of one proof, as far as it was made by the proof as it is and on this server; a new one otherwise."""
        return self._entry(self.read(), proof)

    def change(self, proof: Proof, change: Callable[[dict[str, Any]], None]) -> None:
        """Change one proof's entry."""
        self._changed(lambda record: change(self._entry(record, proof)))

    def _entry(self, record: dict[str, Any], proof: Proof) -> dict[str, Any]:
        said = {"proof": proof.name, "claim": proof.claim, "contracts": proof.contracts, "unit": proof.unit, "target": proof.target, "draw": proof.draw}
        of = {"postgresql": self._server, "sources_sha256": sources(proof.name)}
        for entry in record["proofs"]:
            if entry["proof"] == proof.name and entry["of"] == of:
                entry |= said
                return entry
        entry = said | {
            "of": of, "cases": 0, "draws": 0, "failed": 0, "failures": [], "upper_bound": None, "upper_bound_draws": None, "controls": {}, "counts": {},
            "figures": {}, "notes": [], "seconds": 0.0, "next_seed": 0, "returned": [],
        }  # fmt: skip
        order = list(PROOFS)
        record["proofs"] = sorted([entry, *(e for e in record["proofs"] if e["proof"] in PROOFS and e["proof"] != proof.name)], key=lambda e: order.index(e["proof"]))
        return entry

    def next_seed(self, proof: Proof) -> int:
        """A seed that nobody else takes."""
        taken: list[int] = []

        def take(entry: dict[str, Any]) -> None:
            if entry["returned"]:
                taken.append(entry["returned"].pop(0))
                return
            taken.append(entry["next_seed"])
            entry["next_seed"] += 1

        self.change(proof, take)
        return taken[0]

    def add(self, proof: Proof, tally: Tally, seconds: float) -> None:
        """Count a batch."""

        def add(entry: dict[str, Any]) -> None:
            entry["cases"] += tally.cases
            entry["draws"] += tally.draws
            entry["failed"] += len(tally.failures)
            entry["failures"] = (entry["failures"] + tally.failures)[:KEPT]
            for bound, number in (("upper_bound", "cases"), ("upper_bound_draws", "draws")):
                entry[bound] = None if entry["failed"] or not entry[number] or not proof.bounded else upper_bound(entry[number])
            entry["seconds"] = round(entry["seconds"] + seconds, 1)
            for name, count in tally.counts.items():
                entry["counts"][name] = entry["counts"].get(name, 0) + count
            entry["figures"] |= {name: round(figure, 3) for name, figure in tally.figures.items()}
            entry["notes"] = sorted({*entry["notes"], *tally.notes})

        self.change(proof, add)

    def _changed(self, change: Callable[[dict[str, Any]], None]) -> None:
        with Path(f"{self._path}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            record = self.read()
            change(record)
            record["date"] = date.today().isoformat()
            whole = self._path.with_suffix(".new")
            whole.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            whole.replace(self._path)
            self._path.with_suffix(".md").write_text(written(record), encoding="utf-8")


@cache
def sources(name: str) -> str:
    """Digest of the sources that a proof is made of: its module, and what of the tests that imports."""
    root, found = Path(__file__).resolve().parents[2], dict[str, bytes]()
    looked = [module.__name__ for module in sys.modules.values() if getattr(module, "PROOF", None) is PROOFS[name]]
    while looked:
        module = looked.pop()
        path = next((p for p in (root / f"{module.replace('.', '/')}.py", root / module.replace(".", "/") / "__init__.py") if p.exists()), None)
        if module in found or path is None:
            continue
        found[module] = path.read_bytes()
        for node in ast.walk(ast.parse(found[module])):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests"):
                looked += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return hashlib.sha256(b"".join(found[module] for module in sorted(found))).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
