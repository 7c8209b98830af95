"""docs/assurance.md is what the record says, and every public function is attacked by a proof."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.assurance.page import written
from tests.assurance.proofs import PROOFS
from tests.support import Database

ROOT = Path(__file__).resolve().parents[2]


EXEMPT = {"calibrate"}  # takes nothing, and gives three numbers that say how fast the machine is


def public(database: Database) -> set[str]:
    """Functions and views of schema pgrag."""
    with database.superuser() as superuser:
        return {row[0] for row in superuser.execute(
            "select proname from pg_proc where pronamespace = 'pgrag'::regnamespace union select relname from pg_class where relnamespace = 'pgrag'::regnamespace and relkind = 'v'")} - EXEMPT  # fmt: skip


def attacked() -> set[str]:
    """What the proofs and the tests of access call by name."""
    texts = [path.read_text(encoding="utf-8") for folder in ("access", "assurance") for path in (ROOT / "tests" / folder).glob("*.py") if path != Path(__file__)]
    return {name for text in texts for name in re.findall(r"\bpgrag\.([a-z_]+)", text)}


@pytest.mark.contract("A5")
def test_no_public_function_is_left_out(database: Database) -> None:
    assert public(database) - attacked() == set()
    with database.superuser() as superuser:  # control
        superuser.execute("create function pgrag.brand_new() returns integer return 1")
    assert public(database) - attacked() == {"brand_new"}


def test_the_page_is_written_from_the_record() -> None:
    record = json.loads((ROOT / "docs" / "assurance.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "assurance.md").read_text(encoding="utf-8") == written(record)
    assert {entry["proof"] for entry in record["proofs"]} == set(PROOFS)
    for entry in record["proofs"]:
        assert entry["cases"], entry["proof"]
        # A failure may be published before it is mended, with what is known of it.
        assert not entry["failed"] or any(remark.startswith(f"{entry['proof']}: ") for remark in record["remarks"]), entry["proof"]
        assert set(entry["controls"]) == set(PROOFS[entry["proof"]].controls) and all(entry["controls"].values()), entry["proof"]
