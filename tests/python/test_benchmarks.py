"""Benchmarks run, in their short form, and write what they say that they write. What they measure is no test's matter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_activation(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "activation", "--short", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert {row["collection"] for row in rows} == {"10 chunks", "10000 chunks"}
    assert {row["metric"] for row in rows} == {"activate_ms", "rollback_ms", "set_access_ms", "delete_ms"}
    assert all(row.keys() == {"arm", "collection", "metric", "value"} and row["value"] > 0 for row in rows)


def test_an_unknown_benchmark_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "activation" in done.stderr
