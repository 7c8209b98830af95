"""What is counted is not lost: neither to a run of other SQL, nor to an interrupt that went nowhere."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.assurance import __main__ as runner
from tests.assurance.proof import Lab, Tally
from tests.assurance.proofs import PROOFS

PROOF = PROOFS["timing"]


def begun(path: Path, monkeypatch: pytest.MonkeyPatch, sql: str) -> runner.Record:
    monkeypatch.setattr(runner._sql, "build", lambda: sql)
    record = runner.Record(path)
    record.on("18.0")
    return record


def test_a_record_of_other_sql_is_kept_and_stops_whoever_counts_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    first = begun(path, monkeypatch, "select 1;\n")
    first.add(PROOF, Tally(cases=3), 1)
    assert begun(path, monkeypatch, "-- why\nselect 1;\ncomment on table t is 'a; b';\n").entry(PROOF)["cases"] == 3  # the same SQL
    second = begun(path, monkeypatch, "select 2;\n")
    assert second.entry(PROOF)["cases"] == 0
    with pytest.raises(SystemExit, match="other SQL"):
        first.add(PROOF, Tally(cases=1), 1)
    second.add(PROOF, Tally(cases=5), 1)
    kept = json.loads(Path(f"{path}.before").read_text(encoding="utf-8"))
    assert [entry["cases"] for entry in kept["proofs"]] == [3] and second.entry(PROOF)["cases"] == 5


@pytest.mark.parametrize("broken", [False, True], ids=["swallowed", "another error"])
def test_an_interrupt_ends_the_run_and_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """Wherever it was raised: in a callback that nobody waits for, or where closing a connection made another error of it."""
    monkeypatch.setattr(runner, "INTERRUPTED", runner.Event())

    def batch(seed: int) -> Tally:
        if seed == 1:
            with suppress(KeyboardInterrupt):
                runner.interrupt(signal.SIGINT, None)
            if broken:
                raise psycopg.OperationalError("another command is already in progress")
        return Tally(cases=1)

    record = begun(tmp_path / "record.json", monkeypatch, "select 1;\n")
    proof = replace(PROOF, target=9, controls={}, opened=lambda _: nullcontext(batch))
    with pytest.raises(KeyboardInterrupt):
        runner.run(proof, Lab(None, tmp_path), record, 60)
    entry = record.entry(proof)
    assert (entry["cases"], entry["failed"], entry["returned"]) == ((1, 0, [1]) if broken else (2, 0, []))
