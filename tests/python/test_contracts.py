"""docs/contracts.md says what is kept, and each such promise has a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"^\| ([A-L]\d+)(?: \([a-z ]+\))? \| (.+?) \| (kept|planned) \| (.*?) \| (?:\[.*?\]\(\.\./(.*?)\))? ?\|$"
)


def promises() -> list[tuple[str, str, str, str | None]]:
    """Number, status, keeper and test of each row."""
    lines = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| |")]
    matches = [ROW.match(row) for row in rows]
    assert all(matches), [row for row, match in zip(rows, matches, strict=True) if not match]
    return [(match[1], match[3], match[4], match[5]) for match in matches if match]


def marked(text: str) -> set[str]:
    return {
        number
        for marks in re.findall(r"mark\.contract\(([^)]*)\)", text)
        for number in re.findall(r"[A-L]\d+", marks)
    }


@pytest.mark.parametrize(
    "number, test", [(number, test) for number, status, _, test in promises() if status == "kept"]
)
def test_a_kept_promise_has_its_test(number: str, test: str | None) -> None:
    assert test is not None
    assert number in marked((ROOT / test).read_text(encoding="utf-8"))


def test_every_marked_number_is_a_promise() -> None:
    known = {number for number, *_ in promises()}
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert marked(path.read_text(encoding="utf-8")) <= known, path


def test_what_keeps_a_promise_exists() -> None:
    sql = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "sql").rglob("*.sql"))
    for number, status, keeper, _ in promises():
        if status == "kept":
            assert keeper, number
            for name in re.findall(r"\bpgrag(?:_private|_data)?\.[a-z_]+", keeper):
                assert re.search(rf"create (?:or replace )?(?:function|table|view) {re.escape(name)}\b", sql), (number, name)
            for path in re.findall(r"\b(?:sql|pgrag|dist|migrations|benchmarks)/[\w./]*", keeper):
                assert (ROOT / path).exists(), (number, path)


def test_the_comparison_would_notice() -> None:
    """Control: a promise without a mark is seen."""
    assert "A1" not in marked('@pytest.mark.contract("A2", "B3")\ndef test_it(): ...')
