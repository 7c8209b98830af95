"""All proofs, in the order of the page."""

from __future__ import annotations

from tests.assurance import (
    concurrency,
    crashes,
    differential,
    hostile,
    interference,
    malformed,
    mutants,
    stateful,
    timing,
)
from tests.assurance.proof import Proof

PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        differential.PROOF, stateful.PROOF, mutants.PROOF, interference.PROOF, hostile.PROOF, *concurrency.PROOFS_HERE, crashes.PROOF,
        timing.PROOF, malformed.PROOF,
    )
}  # fmt: skip
