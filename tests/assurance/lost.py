"""A connection that is lost in the middle of what it does, at the client's end or the server's: as crashes.py, and the server goes on."""

from __future__ import annotations

from functools import partial

from tests.assurance.crashes import crashing, in_pieces, missing
from tests.assurance.proof import Control, Proof

PROOF = Proof(
    name="lost connections",
    contracts=("B9", "L4"),
    unit="lost connections",
    target=1_000,
    claim="A connection lost at any moment leaves all of what it did or nothing, and what is done again goes on from there.",
    opened=partial(crashing, severed=True),
    draw="losses",
    controls={"a writer that commits between its steps": Control(partial(crashing, kinds=("ingest",), sabotage=in_pieces, severed=True), "was under way, and there is")},
    needs=missing,
)
