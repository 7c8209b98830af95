"""docs/assurance.md is what the record says, and every public function is attacked by a proof."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.assurance.grammar import Catalog
from tests.assurance.page import written
from tests.assurance.proofs import PROOFS
from tests.support import Database

ROOT = Path(__file__).resolve().parents[2]


def public(database: Database, *roles: str) -> set[str]:
    """Functions and views of schema pgrag; those that one of the roles may use, if any is named."""
    with database.superuser() as superuser:
        return {row[0] for row in superuser.execute(
            """select proname from pg_proc where pronamespace = 'pgrag'::regnamespace
                  and (%(roles)s = '{}' or exists (select from unnest(%(roles)s::text[]) as r (role) where has_function_privilege(role, oid, 'execute')))
               union select relname from pg_class where relnamespace = 'pgrag'::regnamespace and relkind = 'v'""", {"roles": list(roles)})}  # fmt: skip


def called(*proofs: str) -> set[str]:
    """What the statements in these modules name; comments and docstrings are no statements."""
    names: set[str] = set()
    for path in (ROOT / "tests" / "assurance" / f"{proof}.py" for proof in proofs):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said]
        names |= {name for text in texts for name in re.findall(r"\bpgrag\.([a-z_]+)", text)}
    return names


@pytest.mark.contract("A5")
def test_no_public_function_is_left_out(database: Database) -> None:
    """Every one is called by the fuzzers, which take the list from the database; what readers are answered by is compared, too."""
    compared = called("differential", "worlds", "interference", "revocations") | {"version"}  # a constant
    assert public(database, "pgrag_reader", "pgrag_browser") - compared == set()
    assert public(database) == {function.name.split(".")[1] for function in Catalog.read(database).public if function.roles} | {"chunks", "documents"}
    with database.superuser() as superuser:  # controls
        superuser.execute("create function pgrag.brand_new() returns integer return 1; create function pgrag.granted() returns integer return 1")
        superuser.execute("revoke all on function pgrag.brand_new, pgrag.granted from public; grant execute on function pgrag.granted to pgrag_reader")
    assert public(database, "pgrag_reader", "pgrag_browser") - compared == {"granted"}
    assert public(database) - {function.name.split(".")[1] for function in Catalog.read(database).public if function.roles} == {"brand_new", "chunks", "documents"}


def test_the_page_is_written_from_the_record() -> None:
    record = json.loads((ROOT / "docs" / "assurance.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "assurance.md").read_text(encoding="utf-8") == written(record)
    assert {entry["proof"] for entry in record["proofs"]} == set(PROOFS)
    for entry in record["proofs"]:
        assert entry["cases"], entry["proof"]
        assert all(control.seen for control in PROOFS[entry["proof"]].controls.values()), entry["proof"]
        # A failure may be published before it is mended, with what is known of it.
        assert not entry["failed"] or any(remark.startswith(f"{entry['proof']}: ") for remark in record["remarks"]), entry["proof"]
        assert set(entry["controls"]) == set(PROOFS[entry["proof"]].controls) and all(entry["controls"].values()), entry["proof"]
