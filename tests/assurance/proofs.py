"""All proofs, in the order of the page."""

from __future__ import annotations

from tests.assurance import differential, interference, mutants, stateful
from tests.assurance.proof import Proof

PROOFS: dict[str, Proof] = {
    proof.name: proof for proof in (differential.PROOF, stateful.PROOF, mutants.PROOF, interference.PROOF)
}
