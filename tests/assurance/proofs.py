"""All proofs, in the order of the page."""

from __future__ import annotations

from tests.assurance import (
    crashes,
    differential,
    hostile,
    interference,
    interleavings,
    lost,
    malformed,
    mutants,
    pool,
    revocations,
    stateful,
    switches,
    timing,
)
from tests.assurance.proof import Proof

PROOFS: dict[str, Proof] = {
    module.PROOF.name: module.PROOF
    for module in (
        differential, stateful, mutants, interference, hostile, switches, revocations, interleavings, pool, crashes, lost, timing, malformed,
    )
}  # fmt: skip
