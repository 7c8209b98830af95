"""What is counted is not lost: neither to a run of other SQL, nor to an interrupt that went nowhere."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.assurance import __main__ as runner
from tests.assurance.proof import Tally
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


def test_an_interrupt_that_went_nowhere_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "INTERRUPTED", runner.Event())
    with pytest.raises(KeyboardInterrupt):
        runner.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        runner.unless_interrupted()
