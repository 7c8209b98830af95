"""Documents in: ingest."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pgrag.cli._output import line, progress, row, table
from pgrag.cli._run import FAILED, OK, WRITER, Run, command, whole_number
from pgrag.ingest import HuggingFaceTokenizer, StructureChunker, WindowChunker, WordTokenizer
from pgrag.ingest.pipeline import DocumentReport, Progress, ingest_folder
from pgrag.protocols import Chunker, Tokenizer

_OUTCOMES = ("created", "unchanged", "failed", "skipped")


class Cut(StrEnum):
    """How a text becomes passages."""

    STRUCTURE = "structure"
    WINDOW = "window"


@command("ingest", *WRITER, "embedder", "next_embedder", panel="Change")
def ingest(
    run: Run,
    folder: Annotated[
        Path,
        typer.Argument(help="Its .md and .txt files; a document's key is the path below it.", metavar="DIR"),
    ],
    chunker: Annotated[
        Cut, typer.Option(help="By headings and paragraphs, or windows of one size.")
    ] = Cut.STRUCTURE,
    target: Annotated[
        str | None, typer.Option(help="Code points a passage, at most.", show_default="1200", metavar="N")
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            help="Code points repeated from the passage before.",
            show_default="0, or 200 for window",
            metavar="N",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json to count tokens with. Left out: words.", metavar="FILE"),
    ] = None,
) -> int:
    """Bring the documents of a folder into a source: read, cut, encode, verify, put in force.

    Each document is one transaction: an interruption leaves whole documents, and running it again goes on
    from there. What is unchanged is not encoded again. Without --embedder, it is found by its words alone.
    While a space is built beside the active one, --next-embedder encodes what is new for that one too. Exit
    code 1 if a document failed.

    $ pgrag ingest handbook/ --tenant acme --source handbook --subject crawler --embedder wordllama
    """
    reports: list[DocumentReport] = []
    finished = False
    try:
        _ingest(
            run, folder, _chunker(chunker, target=target, overlap=overlap), _tokenizer(tokenizer), reports
        )
        finished = True
    finally:
        if finished or reports:
            document = _document(run, reports, finished)
            run.show(document, lambda out: _print(out, reports, finished, run.settings.embedder))
    return FAILED if any(one.outcome == "failed" for one in reports) else OK


def _chunker(cut: Cut, **sizes: str | None) -> Chunker:
    """The chunker of that name, with its own defaults for the sizes that are None."""
    given = {name: whole_number(name, text, "RG411") for name, text in sizes.items() if text is not None}
    return WindowChunker(**given) if cut is Cut.WINDOW else StructureChunker(**given)


def _tokenizer(file: Path | None) -> Tokenizer:
    return WordTokenizer() if file is None else HuggingFaceTokenizer(file)


def _ingest(
    run: Run, folder: Path, chunker: Chunker, tokenizer: Tokenizer, reports: list[DocumentReport]
) -> None:
    run.token("writer")  # whether there can be one is known before the model is loaded
    with run.connect() as connection, progress("ingesting") as advance:

        def tell(step: Progress) -> None:
            reports.append(step.report)
            advance(step.done, step.total)

        ingest_folder(
            connection,
            lambda: run.token("writer"),  # minted anew for each document, so that none expires on the way
            folder,
            embedder=run.settings.open_embedder(),
            also=run.settings.open_next_embedder(),
            chunker=chunker,
            tokenizer=tokenizer,
            progress=tell,
        )


def count(reports: list[DocumentReport]) -> dict[str, int]:
    """How many documents had which outcome."""
    return {outcome: sum(one.outcome == outcome for one in reports) for outcome in _OUTCOMES}


def _document(run: Run, reports: list[DocumentReport], finished: bool) -> dict[str, Any]:
    return {**count(reports), "finished": finished, "documents": [asdict(one) for one in reports]}


def _print(out: Console, reports: list[DocumentReport], finished: bool, embedder: str | None) -> None:
    for one in reports:
        if one.outcome in ("failed", "skipped"):
            code = f"{one.code} " if one.code else ""
            out.print(
                line(
                    (one.outcome, "red" if one.outcome == "failed" else "dim"),
                    f" {one.document}: {code}{one.reason}",
                )
            )
    shown = table("documents", "", right=("",))
    for outcome, number in count(reports).items():
        row(shown, outcome, number)
    out.print(shown)
    passages = sum(one.chunks for one in reports)
    encoded = f"encoded by {embedder}" if embedder else "not encoded: found by their words alone"
    out.print(
        line((f"{passages} new passages, {encoded}{'' if finished else '; the rest is not done'}", "dim"))
    )
