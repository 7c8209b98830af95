"""Asking: search, packet, validate."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import pgrag
from pgrag.cli import _run
from pgrag.cli._output import line, row, safe, table
from pgrag.cli._run import ABSTAINED, INVALID_REPLY, OK, READER, Run, Usage, command
from pgrag.errors import InvalidInput
from pgrag.models import Hit, Packet, SearchResult, Verdict

_ASK = "Ask"


class Mode(StrEnum):
    """Which lanes answer."""

    HYBRID = "hybrid"
    LEXICAL = "lexical"
    DENSE = "dense"


class Fusion(StrEnum):
    """How the lanes of a hybrid search become one order."""

    CONVEX = "convex"
    RRF = "rrf"


class Unit(StrEnum):
    """What a budget counts."""

    CHARACTERS = "characters"
    BYTES = "bytes"
    TOKENS = "tokens"


Question = Annotated[str, typer.Argument(help="The question, as a person would ask it.")]
K = Annotated[str, typer.Option("--k", "-k", help="How many passages at most, 1 to 100.", metavar="N")]
OfMode = Annotated[
    Mode | None, typer.Option(help="Left out: hybrid with an embedder, lexical without.", show_default=False)
]
OfFusion = Annotated[
    Fusion, typer.Option(help="How hybrid ranks: a weighted sum of scores, or reciprocal ranks.")
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="The rules of that day: 2024-03-01 or 2024-03-01T12:00:00Z.", metavar="TIME"
    ),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="By source, language, product, version, tags, date_from, date_to; several, or one JSON object.",
        metavar="KEY=VALUE",
    ),
]


def parse_filter(given: list[str] | None) -> dict[str, Any] | None:
    """``key=value`` pairs, or one JSON object, as the filter that the database takes."""
    if not given:
        return None
    if given[0].lstrip().startswith("{"):
        try:
            (whole,) = given
            found: dict[str, Any] = json.loads(whole)
        except ValueError:
            raise _bad_filter(given[0]) from None
        return found
    values: dict[str, list[str]] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _bad_filter(pair)
        values.setdefault(key, []).append(value)
    return {key: some if len(some) > 1 or key == "tags" else some[0] for key, some in values.items()}


def _bad_filter(text: str) -> InvalidInput:
    fact = f"the filter {text[:60]!r} is neither key=value nor one JSON object"
    return InvalidInput(
        fact, code="RG304", hint="""For example --filter tags=refunds, or '{"tags": ["refunds"]}'."""
    )


@contextmanager
def _asking(run: Run, mode: Mode | None) -> Iterator[pgrag.Reader]:
    token = run.token("reader")
    embedder = None if mode is Mode.LEXICAL else run.settings.open_embedder()
    with run.connect() as connection, pgrag.reader(connection, token, embedder=embedder) as session:
        yield session


@command("search", *READER, panel=_ASK)
def search(
    run: Run,
    question: Question,
    k: K = "10",
    mode: OfMode = None,
    fusion: OfFusion = Fusion.CONVEX,
    as_of: AsOf = None,
    where: Filter = None,
) -> int:
    """List the passages that answer a question, best first, of those that the reader may see.

    Exit code 3 where there is no evidence.

    $ pgrag search "How long is the refund window?" -k 3

    $ pgrag search "hotel limit" --as-of 2024-03-01 --filter source=handbook --json
    """
    number = _run.whole_number("k", k, "RG302")
    narrowed = parse_filter(where)
    with _asking(run, mode) as reader:
        result: SearchResult = reader.search(
            question,
            k=number,
            mode=mode and mode.value,
            fusion=fusion.value,
            as_of=as_of,
            filter=narrowed,
        )
    run.show(result.raw, lambda out: print_result(out, result))
    return OK if result.status == "evidence" else ABSTAINED


@command("packet", *READER, panel=_ASK)
def packet(
    run: Run,
    question: Question,
    k: K = "8",
    mode: OfMode = None,
    fusion: OfFusion = Fusion.CONVEX,
    as_of: AsOf = None,
    where: Filter = None,
    budget: Annotated[str, typer.Option(help="Room for all of it.", metavar="N")] = "8000",
    budget_unit: Annotated[Unit, typer.Option(help="What the budget counts.")] = Unit.CHARACTERS,
    reserve: Annotated[
        str, typer.Option(help="Of the budget, room for instructions and reply.", metavar="N")
    ] = "0",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse (RG502) instead of leaving out a passage that does not fit."),
    ] = False,
) -> int:
    """Make a sealed evidence packet for a language model, or abstain.

    Passages are whole or absent, never cut. Keep the JSON: the reply is validated against it. Exit code 3
    where it abstains.

    $ pgrag packet "How long is the refund window?" --budget 4000 --json > packet.json
    """
    number = _run.whole_number("k", k, "RG302")
    room = _run.whole_number("budget", budget, "RG306")
    reserved = _run.whole_number("reserve", reserve, "RG306")
    narrowed = parse_filter(where)
    with _asking(run, mode) as reader:
        made: Packet = reader.packet(
            question,
            k=number,
            budget=room,
            reserve=reserved,
            budget_unit=budget_unit.value,
            strict=strict,
            mode=mode and mode.value,
            fusion=fusion.value,
            as_of=as_of,
            filter=narrowed,
        )
    run.show(made.raw, lambda out: print_packet(out, made))
    return OK if made.status == "evidence" else ABSTAINED


@command("validate", *READER[:-1], panel=_ASK)
def validate(
    run: Run,
    packet_file: Annotated[
        str, typer.Option("--packet", help="The packet's JSON, or - for standard input.", metavar="FILE")
    ],
    reply_file: Annotated[
        str, typer.Option("--reply", help="The reply's JSON, or - for standard input.", metavar="FILE")
    ],
) -> int:
    """Check the citations of a reply against its packet, and against the database as it is now.

    A reply is {"answer": "…", "citations": [{"id": "e1", "quote": "…"}]}. Exit code 4 where a check fails; a
    packet that is not this reader's, or was altered, is an error (RG501).

    $ llm < packet.json | pgrag validate --packet packet.json --reply -
    """
    if packet_file == reply_file == "-":
        raise Usage("packet and reply cannot both be standard input", hint="give one of them as a file")
    given = Packet.from_json(_read(packet_file))
    reply = _read(reply_file)
    token = run.token("reader")
    with run.connect() as connection, pgrag.reader(connection, token) as reader:
        verdict: Verdict = reader.validate(given, reply)
    run.show(verdict.raw, lambda out: print_verdict(out, verdict))
    return OK if verdict.valid else INVALID_REPLY


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Usage(f"{name} cannot be read: {error.strerror}", hint="give a file that exists") from None
    except UnicodeDecodeError:
        raise Usage(f"{name} is not UTF-8", hint="save it as UTF-8, as JSON is") from None


# -- For people -----------------------------------------------------------------------------------------


def print_result(out: Console, result: SearchResult) -> None:
    """The hits as a table, or why there are none."""
    if result.status != "evidence":
        out.print(abstention(result.reason, result.top_relevance, result.policy))
    if result.hits:
        shown = table("#", "score", "passage", right=("#", "score"))
        for hit in result.hits:
            place = line((address(hit), "bold"), f"\n{hit.section}" if hit.section else "")
            row(shown, hit.rank, f"{hit.score:.3f}", place.append_text(line("\n", (_short(hit.text), "dim"))))
        out.print(shown)
    seen = f"{result.scope['chunks']} passages of {result.scope['documents']} documents"
    how = " ".join(str(result.policy[name]) for name in ("mode", "fusion") if name in result.policy)
    out.print(line((f"{how}, among {seen} that the reader may see", "dim")))


def print_packet(out: Console, made: Packet) -> None:
    """The excerpts whole, as a model would get them, and what the limits did."""
    if made.status != "evidence":
        out.print(abstention(made.reason, None, made.policy))
    for one in made.excerpts:
        out.print(line((f"{one.id}  ", "bold cyan"), (address(one), "bold")))
        facts = [one.section, f"trust: {one.trust}", _period(one), "" if one.active else "not in force now"]
        out.print(line(("; ".join(fact for fact in facts if fact), "dim")))
        out.print(f"{safe(one.text.strip())}\n")
    limits = made.limits
    for omitted in made.omitted:
        size = f"{omitted['size']} {limits['unit']}"
        out.print(line((f"left out: the passage at rank {omitted['rank']}, of {size}", "yellow")))
    used = f"{limits['evidence']} of {limits['budget']} {limits['unit']} are evidence, {limits['left']} left"
    out.print(line((f"{used}; sealed {made.seal[:12]}", "dim")))


_QUOTES = {
    "none": "",
    "exact": ", quoted exactly",
    "normalised": ", quoted but for spaces and dashes",
}


def print_verdict(out: Console, verdict: Verdict) -> None:
    """Valid or not, each finding, each citation that passed, and what was not proven."""
    out.print(line(("valid", "bold green") if verdict.valid else ("refused", "bold red")))
    for finding in verdict.findings:
        out.print(line("  ", (finding.check, "red"), f"  {finding.id or 'the reply'}: {finding.message}"))
    for cited in verdict.citations:
        where = f"{cited['source']}:{cited['document']} @ {cited['revision']}"
        out.print(line("  ", (cited["id"], "green"), f"  {where}{_QUOTES.get(cited['quote'], '')}"))
    out.print(line((f"support {verdict.support}", "dim")))


_REASONS = {
    "nothing_visible": "there is nothing that this reader may see",
    "stop_words_only": "the question has only words that say nothing",
    "nothing_matches": "nothing that this reader may see matches",
    "below_threshold": "nothing that this reader may see is near enough",
    "over_budget": "no passage fits the budget",
}


def abstention(reason: str | None, top: float | None, policy: Mapping[str, Any]) -> Text:
    """Why there is no evidence, in a line."""
    figures = "" if top is None else f" (at best {top:.3f}; {policy['threshold']} is needed)"
    return line(("no evidence: ", "bold yellow"), _REASONS.get(reason or "", str(reason)), figures)


def address(hit: Hit) -> str:
    """Where a passage is from."""
    return f"{hit.source}:{hit.document} @ {hit.revision}"


def _period(hit: Hit) -> str:
    begins = f"from {hit.effective_from:%Y-%m-%d}" if hit.effective_from else ""
    ends = f"until {hit.effective_to:%Y-%m-%d}" if hit.effective_to else ""
    return " ".join(part for part in (begins, ends) if part)


def _short(text: str, length: int = 240) -> str:
    flat = " ".join(re.sub(r"\A(?:#+ .*\n+)+", "", text).split())  # its headings are said already
    return flat if len(flat) <= length else f"{flat[: length - 1].rsplit(' ', 1)[0]}…"
