"""Each proof in short: a few batches without a failure, and every control fails. In full: make assurance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.assurance.proof import Lab
from tests.assurance.proofs import PROOFS
from tests.server import Databases


@pytest.fixture(scope="session")
def lab(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(databases, Path(tmp_path_factory.mktemp("assurance")))


def able(name: str) -> None:
    if reason := PROOFS[name].needs():
        pytest.skip(reason)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.contract(*proof.contracts)) for name, proof in PROOFS.items()])
def test_no_case_fails(lab: Lab, name: str) -> None:
    able(name)
    with PROOFS[name].opened(lab) as batch:
        tallies = [batch(seed) for seed in range(PROOFS[name].short)]
    print(f"{name}: {sum(t.cases for t in tallies)} {PROOFS[name].unit}, {dict(sum((t.counts for t in tallies), start=Counter()))}")
    assert all(tally.cases for tally in tallies)
    assert [failure for tally in tallies for failure in tally.failures] == []


@pytest.mark.parametrize("name, control", [(name, control) for name, proof in PROOFS.items() for control in proof.controls])
def test_a_broken_guard_is_seen(lab: Lab, name: str, control: str) -> None:
    able(name)
    broken = PROOFS[name].controls[control]
    said: list[str] = []
    with broken.opened(lab) as batch:
        for seed in range(1, PROOFS[name].control_batches + 1):
            said += (tally := batch(seed)).failures
            if broken.failed(tally):
                return
    pytest.fail(f"nothing that has {broken.seen!r} in {said}")
