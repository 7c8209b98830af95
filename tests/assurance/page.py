"""docs/assurance.md, from the record. What is said beside the figures is here; the figures are not."""

from __future__ import annotations

import re
from typing import Any

INTRODUCTION = """# Assurance

pgrag's claim is a boundary: what a reader may not see does not come out, whatever is asked, whoever asks, whatever happens meanwhile. This
page says how often that was tried, and what came of it. `make assurance` runs the proofs and writes it; each goes on from the last seed until
it has its cases, an hour at a time, and `make test` runs all of them in short. A proof counts for nothing unless it can fail: each has
controls, in which a guard is taken out on purpose, and they have to fail.

Where no case failed, the bound is the rule of three: with 95 % confidence fewer than that share of such cases would fail. Cases of one draw
(a world, a session) hang together, so the bound by draws is the one that holds where a fault would show in many cases of a draw or in none.
Neither says anything of cases that are not of the kind that was drawn.
"""

INFERRED = [
    ("any role of the database, without a token", "pgrag's objects and the source of its functions; sizes, row counts and numbers of scans of whole tables, over all tenants, and of each block: of one access list or one tenant, by a number", "PostgreSQL's catalogs and statistics views, which are open to all", "accepted; contents and names of tenants are in none of them"),
    ("any role", "who is connected, and, of sessions of its own role, the text of their statements", "`pg_stat_activity`", "pass tokens and questions as parameters: those are not shown"),
    ("any role", "which tables are locked, and that somebody is writing", "`pg_locks`, waiting for a lock", "no row of pgrag's is named in it"),
    ("any role", "how many transactions the server makes", "transaction ids, log positions", "accepted"),
    ("a reader", "in `auto` isolation, of more than 20,000 visible chunks: how common a word or a filter's value is in the tenant, hidden rows included", "the time that a search takes, counters of its own transaction", "`p_isolation => 'strict'`"),
    ("a reader", "whether something hidden is there: no better than the bound above", "the clock", "measured: see *timing*"),
    ("a reader", "with blocks over the whole tenant: roughly how much of it is hidden near a question", "the time, whether `policy.dense_route` is the tenant's block, and which near neighbours are found", "`p_isolation => 'strict'`"),
    ("a reader who is answered by blocks of its own lists", "how much of these has gone since they were built, and how fast the installation is", "`policy.dense_costs`, `policy.dense_fell_back`", "`p_isolation => 'strict'`"),
    ("a reader whose packet was issued before", "that an excerpt cannot be read any more; that it was deleted or superseded only while still permitted", "`pgrag.validate_reply`", "wanted"),
    ("the next user of a pooled connection", "texts of prepared statements, rows of a cursor `WITH HOLD`, and what else a session keeps", "`pg_prepared_statements`, `fetch`", "`discard all`; a principal is never carried over"),
    ("a writer", "documents of its own source; whether a name is a principal of its tenant; names of its tenant's spaces", "`pgrag.set_access` refuses an unknown reader", "wanted: a typing error would share with nobody"),
    ("an administrator", "principals, memberships, names of documents and revisions of its tenant, and who may read them", "`pgrag.list_…`", "wanted; no text"),
    ("an operator", "names of tenants, sources and spaces; how many chunks lie under each access list, by number", "`pgrag.list_…`, `index_status`, `space_status`, `doctor`", "wanted; no text, no names of documents or principals"),
    ("whoever may add a signing key", "everything, as any reader", "minting", "keep `pgrag_keys` apart"),
    ("the role that installed pgrag, a superuser, whoever has the files, the backups or a replica", "everything", "reading", "outside of the boundary"),
]  # fmt: skip


def written(record: dict[str, Any]) -> str:
    """The page."""
    lines = [
        INTRODUCTION,
        f"Version {record['version']}, its SQL without comments with SHA-256 `{record['sql_sha256'][:16]}…`, PostgreSQL {record['postgresql']}, {record['cpus']} processors, {record['date']}.",
        "",
        "## What was tried",
        "",
        "| proof | what holds in every case | cases | of | from | failures | 95 % bound | by draws | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in record["proofs"]:
        by_case, by_draw = ("" if bound is None else f"{bound:.1e}" for bound in (entry["upper_bound"], entry["upper_bound_draws"]))
        drawn = f"{entry['draws']:,} {entry['draw']}" if entry["draw"] else ""
        lines.append(
            f"| {entry['proof']} ({', '.join(entry['contracts'])}) | {entry['claim']} | {entry['cases']:,} {entry['unit']} | {entry['target']:,} | {drawn} | {entry['failed']} | {by_case} | {by_draw} | {entry['seconds']:,.0f} |"
        )
    lines += ["", "## What it was"]
    for entry in record["proofs"]:
        lines += ["", f"**{entry['proof']}**", "", *(f"- {line}" for line in counted(entry["counts"]) + measured(entry.get("figures", {})))]
    lines += ["", "## Controls", "", "Each has to fail; the number is that of the batch in which it did.", "", "| proof | the guard that was taken out | failed in batch |", "|---|---|---|"]
    lines += [f"| {entry['proof']} | {name} | {took or '**not**'} |" for entry in record["proofs"] for name, took in entry["controls"].items()]
    lines += mutants(next((entry for entry in record["proofs"] if entry["proof"] == "mutants"), None))
    if record.get("remarks"):
        lines += ["", "## Remarks", "", *(f"- {remark}" for remark in record["remarks"])]
    if failures := [(entry["proof"], failure) for entry in record["proofs"] for failure in entry["failures"]]:
        lines += ["", "## Failures", "", *(f"- {proof}: `{failure.replace('`', chr(39))}`" for proof, failure in failures)]
    lines += ["", "## What can still be inferred", "", "| who | can learn | how | what bounds it |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in INFERRED]
    return "\n".join(lines) + "\n"


def counted(counts: dict[str, int]) -> list[str]:
    """A line for each kind: `pairs, index` and `pairs, scope` are of one, what has no like is of none."""
    kinds: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        kind = re.match(r"of them|SQLSTATE|refused|[^,:]*?(?=[,:] | by |$)", name).group()  # type: ignore[union-attr]
        kinds.setdefault(kind, []).append(name)
    alone = [names[0] for names in kinds.values() if len(names) == 1]
    lines = ["; ".join(f"{name} {counts[name]:,}" for name in alone)] if alone else []
    return lines + [f"{kind}: " + "; ".join(f"{name.removeprefix(kind).lstrip(',: ')} {counts[name]:,}".lstrip() for name in names) for kind, names in kinds.items() if len(names) > 1]


def measured(figures: dict[str, float]) -> list[str]:
    """A line for each thing that was measured: `AUC, a word` and `median ms, a word` are of one."""
    things: dict[str, list[str]] = {}
    for name, figure in figures.items():
        what, _, thing = name.partition(", ")
        things.setdefault(thing, []).append(f"{what} {figure:.3f}".removesuffix(".000"))
    return [f"{thing}: {', '.join(values)}".removeprefix(": ") for thing, values in things.items()]


def mutants(entry: dict[str, Any] | None) -> list[str]:
    """How many guards' loss was noticed, and which was not."""
    if not entry or not entry["cases"]:
        return []
    noticed = sum(count for name, count in entry["counts"].items() if name.startswith("noticed"))
    lines = ["", "## Mutants", "",
             f"Of {entry['cases']:,} mutants that installed, {noticed:,} were noticed ({noticed / entry['cases']:.1%}), {entry['failed']:,} were not and are under Failures. The rest, by why they are not noticed here:", ""]  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for name, _, why in sorted(note.rpartition(" → ") for note in entry.get("notes", [])):
        reasons.setdefault(why, []).append(f"`{name}`")
    return lines + [f"- {why} ({len(names)}): {', '.join(names)}" for why, names in sorted(reasons.items())]
