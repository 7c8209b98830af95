"""docs/assurance.md, from the record."""

from __future__ import annotations

from typing import Any


def written(record: dict[str, Any]) -> str:
    """The page."""
    lines = ["# Assurance", "", "| proof | cases | failures |", "|---|---|---|"]
    lines += [f"| {e['proof']} | {e['cases']:,} {e['unit']} | {e['failed']} |" for e in record["proofs"]]
    return "\n".join(lines) + "\n"
