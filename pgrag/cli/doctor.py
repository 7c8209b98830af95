"""Whether an installation is as it should be: doctor."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

import pgrag
from pgrag.cli._output import line
from pgrag.cli._run import FAILED, OK, Run, command
from pgrag.models import Diagnosis

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@command("doctor", "dsn", panel="Set up")
def doctor(
    run: Run,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for warnings too.")] = False,
) -> int:
    """Check an installation: security, versions, keys, indexes, statistics. Each fault comes with its remedy.

    As a role of pgrag_operator. It changes nothing. A remedy that ends with a semicolon is SQL, for a
    superuser or the owner of the object. Exit code 1 where there is an error.

    $ pgrag doctor --json --strict
    """
    with run.connect() as connection, pgrag.operator(connection) as operator:
        said = operator.doctor()
    found = [one for one in said if one.severity != "ok"]
    passed = [one for one in said if one.severity == "ok"]
    count = {one: sum(each.severity == one for each in found) for one in _STYLES}
    document = {
        **{f"{severity}s": number for severity, number in count.items()},
        "findings": [asdict(one) for one in found],
        "passed": [one.check for one in passed],
    }
    run.show(document, lambda out: _print(out, found, passed, count))
    return FAILED if count["error"] or (strict and count["warning"]) else OK


def _print(out: Console, found: list[Diagnosis], passed: list[Diagnosis], count: dict[str, int]) -> None:
    for one in found:
        where = "" if one.object is None else f"  {one.object}"
        out.print(
            line((f"{one.severity:8}", _STYLES.get(one.severity, "")), (one.check, "bold"), where),
            soft_wrap=True,
        )
        out.print(line("        ", one.finding), soft_wrap=True)
        if one.remedy is not None:
            out.print(line("        ", (one.remedy, "green")), soft_wrap=True)
    if found:
        out.print()
    words = [f"{number} {name if number == 1 else name + 's'}" for name, number in count.items() if number]
    out.print(f"{', '.join(words) or 'no fault'}; {len(passed)} checks found nothing")
