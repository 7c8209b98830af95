"""Asking: search, packet, validate."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import pgrag
from pgrag.cli import _run
from pgrag.cli._output import line, row, safe, table
from pgrag.cli._run import ABSTAINED, INVALID_REPLY, OK, READER, Run, Usage, command
from pgrag.errors import InvalidInput
from pgrag.models import Hit, Packet, Rerank, SearchResult, Verdict

_ASK = "Ask"
_RANKING = "Ranking"


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
        help="By source, language, product, version, tags, date_from, date_to; several, or one JSON object, "
        "which may have metadata.",
        metavar="KEY=VALUE",
    ),
]


def _ranking(option: str, about: str, metavar: str | None = None) -> Any:
    return typer.Option(option, help=about, metavar=metavar, show_default=False, rich_help_panel=_RANKING)


Probes = Annotated[
    list[str] | None, _ranking("--probe", "The question in other words; up to four of them.", "TEXT")
]
PerDocument = Annotated[str | None, _ranking("--per-document", "At most so many of one document.", "N")]
PerSource = Annotated[str | None, _ranking("--per-source", "At most so many of one source.", "N")]
Retry = Annotated[bool, _ranking("--retry", "Ask once more, and wider, where too little is found.")]
OfSpace = Annotated[
    str | None, _ranking("--space", "Ask the space beside the active one, by its name.", "NAME")
]
Strict = Annotated[bool, _ranking("--strict-isolation", "Scope first everywhere, also where it is slower.")]


def parse_filter(given: list[str] | None) -> dict[str, Any] | None:
    """``key=value`` pairs, or one JSON object, as the filter that the database takes."""
    if not given:
        return None
    if given[0].lstrip().startswith("{"):
        try:
            (whole,) = given
            found: dict[str, Any] = json.loads(whole)
        except (ValueError, RecursionError):
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


def _asked(
    run: Run,
    k: str,
    mode: Mode | None,
    fusion: Fusion,
    as_of: str | None,
    where: list[str] | None,
    probes: list[str] | None,
    per_document: str | None,
    per_source: str | None,
    retry: bool,
    space: str | None,
    strict_isolation: bool,
) -> dict[str, Any]:
    """What search and packet are both asked, in the session's words."""

    def cap(name: str, text: str | None) -> int | None:
        return None if text is None else _run.whole_number(name, text, "RG302")

    return {
        "k": _run.whole_number("k", k, "RG302"),
        "mode": mode and mode.value,
        "fusion": fusion.value,
        "as_of": as_of,
        "filter": parse_filter(where),
        "probes": probes or (),
        "per_document": cap("per_document", per_document),
        "per_source": cap("per_source", per_source),
        "retry": retry,
        "space": space,
        "isolation": "strict" if strict_isolation else "auto",
        "reranker": run.settings.open_reranker(),
    }


@command("search", *READER, "reranker", panel=_ASK)
def search(
    run: Run,
    question: Question,
    k: K = "10",
    mode: OfMode = None,
    fusion: OfFusion = Fusion.CONVEX,
    as_of: AsOf = None,
    where: Filter = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each hit why it ranks where it does.")
    ] = False,
    probes: Probes = None,
    per_document: PerDocument = None,
    per_source: PerSource = None,
    retry: Retry = False,
    space: OfSpace = None,
    strict_isolation: Strict = False,
) -> int:
    """List the passages that answer a question, best first, of those that the reader may see.

    Exit code 3 where there is no evidence. The JSON explains whether asked to or not.

    $ pgrag search "How long is the refund window?" -k 3 --explain

    $ pgrag search "hotel limit" --as-of 2024-03-01 --filter source=handbook --json
    """
    asked = _asked(
        run, k, mode, fusion, as_of, where, probes, per_document, per_source, retry, space, strict_isolation
    )
    with _asking(run, mode) as reader:
        result: SearchResult = reader.search(question, **asked)
    document = result.raw | ({"rerank": asdict(result.rerank)} if result.rerank else {})
    run.show(document, lambda out: (print_explanation if explain else print_result)(out, result))
    return OK if result.status == "evidence" else ABSTAINED


@command("packet", *READER, "reranker", panel=_ASK)
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
    probes: Probes = None,
    per_document: PerDocument = None,
    per_source: PerSource = None,
    retry: Retry = False,
    space: OfSpace = None,
    strict_isolation: Strict = False,
) -> int:
    """Make a sealed evidence packet for a language model, or abstain.

    Passages are whole or absent, never cut. Keep the JSON: the reply is validated against it. Exit code 3
    where it abstains.

    $ pgrag packet "How long is the refund window?" --budget 4000 --json > packet.json
    """
    asked = _asked(
        run, k, mode, fusion, as_of, where, probes, per_document, per_source, retry, space, strict_isolation
    )
    room = _run.whole_number("budget", budget, "RG306")
    reserved = _run.whole_number("reserve", reserve, "RG306")
    with _asking(run, mode) as reader:
        made: Packet = reader.packet(
            question, budget=room, budget_unit=budget_unit.value, reserve=reserved, strict=strict, **asked
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
        # JSON is UTF-8 whatever the locale says, and some editors and shells put a mark before it.
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8-sig")
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
    _print_how(out, result)


def _print_how(out: Console, result: SearchResult) -> None:
    _print_rerank(out, result.rerank)
    seen = f"{result.scope['chunks']} passages of {result.scope['documents']} documents"
    how = " ".join(str(result.policy[name]) for name in ("mode", "fusion") if name in result.policy)
    wider = ", asked once more and wider" if result.policy.get("profile") == "retry" else ""
    out.print(line((f"{how}{wider}, among {seen} that the reader may see", "dim")))


def _print_rerank(out: Console, rerank: Rerank | None) -> None:
    """What a person has to know of it: nothing, if all went as was asked."""
    if rerank is None:
        return
    if rerank.status != "applied" and rerank.reason != "abstained":
        why = _NOT_RERANKED.get(rerank.reason or "", str(rerank.reason))
        detail = f" ({rerank.detail})" if rerank.detail else ""
        out.print(line((f"not reranked by {rerank.name}: {why}{detail}", "yellow")))
    elif rerank.withheld:
        fact = f"{len(rerank.withheld)} passages were not sent to {rerank.processor}, which their sources do"
        out.print(line((f"{fact} not allow; they come last", "yellow")))


_NOT_RERANKED = {
    "timeout": "no answer in time",
    "busy": "earlier calls still hang",
    "error": "it failed",
    "wrong_count": "its answer is not one score a passage",
    "not_finite": "its answer has scores that are not finite",
    "not_permitted": "no source of the hits allows its processor",
}


def print_explanation(out: Console, result: SearchResult) -> None:
    """Each hit with what each stage made of it, then what was in force, and which bounds were met."""
    if result.status != "evidence":
        out.print(abstention(result.reason, result.top_relevance, result.policy))
    scores = result.rerank.scores if result.rerank else {}
    for hit in result.hits:
        out.print(line((f"{hit.rank:>2}  ", "bold cyan"), (address(hit), "bold")))
        facts = [f"score {hit.score:.3f}, relevance {hit.relevance:.3f}"]
        if hit.chunk_id in scores:
            facts.append(
                f"reranked {list(scores).index(hit.chunk_id) + 1}., score {scores[hit.chunk_id]:.3f}"
            )
        facts += [f"best by probe {hit.probe}"] if hit.probe else []
        facts += [f"trust {hit.trust}", _period(hit), "" if hit.active else "not in force now"]
        lines = [line("; ".join(fact for fact in facts if fact))]
        terms = ", ".join(f"{one.term} ×{one.tf} {one.score:.2f}" for one in hit.matched_terms)
        lines.append(_lane("lexical", hit.lexical_rank, hit.lexical_score, terms))
        if result.policy["mode"] != "lexical":
            lines.append(_lane("dense", hit.dense_rank, hit.dense_score))
        lines += [
            line(("also     ", "dim"), f"{one.source}:{one.document}, alike {one.similarity:.2f}")
            for one in hit.duplicates
        ]
        lines.append(line((f"{hit.section}: " if hit.section else "", "dim"), (_short(hit.text, 160), "dim")))
        for one in lines:
            out.print(Padding(one, (0, 0, 0, 4)))
    bound = "all that was asked for" if result.complete else "not all that was asked for"
    last = {
        "policy": "; ".join(_settings(result.policy)),
        "answer": f"{bound} ({result.complete_reason})",
    }
    if result.rerank and result.rerank.status == "applied":
        done = result.rerank
        counts = [f"{done.name} of {done.candidates} passages in {done.latency_ms:.0f} ms"]
        counts += [f"{done.truncated} of them cut"] if done.truncated else []
        counts += [f"{len(done.dropped)} of them behind the last shown"] if done.dropped else []
        last["rerank"] = ", ".join(counts)
    shown = Table.grid(padding=(0, 2, 0, 0))
    for name, text in last.items():
        row(shown, line((name, "bold")), text)
    out.print(shown)
    _print_how(out, result)


def _lane(name: str, rank: int | None, score: float | None, more: str = "") -> Text:
    place = f"rank {rank:<3}" if rank is not None else "no rank "
    value = "" if score is None else f" score {score:<7.3f}"
    return line((f"{name:<8} ", "dim"), f"{place}{value}", f" {more}" if more else "")


def _settings(policy: Mapping[str, Any]) -> list[str]:
    """``name value`` of each setting, those within one after its name."""

    def shown(value: Any) -> str:
        if isinstance(value, Mapping):
            return " ".join(_settings(value))
        return " ".join(map(str, value)) if isinstance(value, list) else str(value)

    return [f"{name} {shown(policy[name])}" for name in sorted(policy)]


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
    _print_rerank(out, made.rerank)
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
