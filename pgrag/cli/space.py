"""Embedding spaces, and changing from one to another: space status, build, fill, switch, retire."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

import pgrag
from pgrag.cli._output import line, progress, row, table
from pgrag.cli._run import WRITER, Run, Usage, app, command, whole_number
from pgrag.models import Filled

_STEPS = "In this order"

space = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Change the embedding model, beside the work of others: build, fill, switch, retire.",
)
app.add_typer(space, name="space", rich_help_panel="Change")

Name = Annotated[str, typer.Argument(help="The space's name.", metavar="NAME")]


class Storage(StrEnum):
    """How vectors are kept."""

    FLOAT = "float"
    HALF = "half"


@command("status", "dsn", "tenant", panel=_STEPS, group=space)
def status(run: Run) -> None:
    """Show a tenant's embedding spaces, and how many documents in force each of them lacks.

    As a role of pgrag_operator. Questions are asked in the active one, unless they name the next one.

    $ pgrag space status --tenant acme
    """
    tenant = run.need("tenant")
    with run.connect() as connection, pgrag.operator(connection) as operator:
        definitions = {one.space: one for one in operator.spaces(tenant)}
        found = []
        for one in operator.space_status(tenant):
            its = definitions[one.space]
            found.append(
                {**asdict(one), "model": its.model, "dimension": its.dimension, "storage": its.storage}
            )
    run.show(found, lambda out: _print_status(out, found))


def _print_status(out: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        out.print("no embedding space: questions are answered by words alone")
        return
    numbers = ("documents", "chunks", "missing")
    shown = table("space", "state", "model", "dimension", "storage", *numbers, right=("dimension", *numbers))
    for one in found:
        row(shown, *(one[str(column.header)] for column in shown.columns))
    out.print(shown)


@command("build", "dsn", "tenant", "next_embedder", panel=_STEPS, group=space)
def build(
    run: Run,
    name: Annotated[
        str | None,
        typer.Argument(help="The space's name. Left out, the embedder's own.", metavar="NAME"),
    ] = None,
    storage: Annotated[
        Storage | None,
        typer.Option(help="How its vectors are kept: half from 768 dimensions on.", show_default="float"),
    ] = None,
) -> None:
    """Begin to build a space beside the active one. Questions keep to the active one.

    As a role of pgrag_operator. With --next-embedder, the space of that model is registered first; without,
    it has to be registered.

    $ pgrag space build bge-m3-half --tenant acme --next-embedder http:https://encoder/v1 --storage half
    """
    tenant = run.need("tenant")
    embedder = run.settings.open_next_embedder()
    if embedder is None and (name is None or storage is not None):
        raise Usage(
            "no next embedder is given, whose space is to be registered",
            hint="--next-embedder; or only the name of a space that is registered",
        )
    with run.connect() as connection, pgrag.operator(connection) as operator:
        if embedder is not None:
            its = replace(embedder.space, space=name or embedder.space.space)
            name = its.space
            operator.put_space(tenant, replace(its, storage=storage.value) if storage else its)
        assert name is not None
        changed = operator.build_space(tenant, name)
    said = (
        "is beside the active one now"
        if changed
        else "was beside the active one already, or is the active one"
    )
    run.show(
        {"tenant": tenant, "space": name, "changed": changed},
        lambda out: out.print(line((str(name), "bold"), f" {said}")),
    )


@command("fill", *WRITER, "embedder", "next_embedder", panel=_STEPS, group=space)
def fill(
    run: Run,
    batch: Annotated[
        str, typer.Option(help="Chunks a transaction, 1 to 2000.", metavar="N", show_default="256")
    ] = "256",
    retained: Annotated[
        bool, typer.Option("--retained", help="Of earlier revisions too, for rollbacks.")
    ] = False,
    active: Annotated[
        bool, typer.Option("--active", help="What the active space lacks instead, by --embedder.")
    ] = False,
) -> None:
    """Encode what a source has for the space beside the active one, batch by batch, until nothing is missing.

    As a connector, for each source. Each batch is a transaction: run it again after an interruption, and it
    goes on from there. Nobody waits for it.

    $ pgrag space fill --tenant acme --source handbook --subject crawler --next-embedder http:https://encoder/v1
    """
    limit = whole_number("batch", batch, "RG408")
    steps: list[Filled] = []
    finished = False
    try:
        _fill(run, limit, retained, active, steps)
        finished = True
    finally:
        if finished or steps:
            done = {
                "space": steps[-1].space,
                "added": sum(one.added for one in steps),
                "batches": len(steps),
                "finished": finished,
            }
            run.show(done, lambda out: _print_filled(out, done))


def _fill(run: Run, limit: int, retained: bool, active: bool, steps: list[Filled]) -> None:
    run.token("writer")  # whether there can be one is known before the model is loaded
    run.need("embedder" if active else "next_embedder")
    embedder = run.settings.open_embedder() if active else run.settings.open_next_embedder()
    with run.connect() as connection, progress("filling") as advance:
        while True:
            # Minted anew for each batch, so that no token expires on the way.
            with pgrag.writer(connection, run.token("writer"), embedder=embedder) as writer:
                its = writer.space() if active else None
                step = writer.fill_space(its.space if its else None, limit=limit, retained=retained)
            steps.append(step)
            advance(sum(one.added for one in steps), None)
            if not step.remaining:
                return


def _print_filled(out: Console, done: dict[str, Any]) -> None:
    rest = "nothing of the source is missing" if done["finished"] else "the rest is not done"
    out.print(line((str(done["added"]), "bold"), f" embeddings were added in {done['space']}; {rest}"))


@command("switch", "dsn", "tenant", panel=_STEPS, group=space)
def switch(run: Run, name: Name) -> None:
    """Make the space beside the active one the active one, at once for everybody. It works both ways.

    As a role of pgrag_operator. Refused as long as a document in force has no embeddings there. From then on
    questions are encoded by its model.

    $ pgrag space switch bge-m3-half --tenant acme
    """
    tenant = run.need("tenant")
    with run.connect() as connection, pgrag.operator(connection) as operator:
        changed = operator.switch_space(tenant, name)
    said = "is the active one now" if changed else "was the active one already"
    run.show(
        {"tenant": tenant, "space": name, "changed": changed},
        lambda out: out.print(line((name, "bold"), f" {said}")),
    )


@command("retire", "dsn", "tenant", panel=_STEPS, group=space)
def retire(run: Run, name: Name) -> None:
    """Give up a space that is not the active one. There is no way back.

    As a role of pgrag_operator. pgrag maintain deletes its embeddings.

    $ pgrag space retire minilm --tenant acme
    """
    tenant = run.need("tenant")
    with run.connect() as connection, pgrag.operator(connection) as operator:
        changed = operator.retire_space(tenant, name)
    said = "is retired; pgrag maintain deletes its embeddings" if changed else "was retired already"
    run.show(
        {"tenant": tenant, "space": name, "changed": changed},
        lambda out: out.print(line((name, "bold"), f" {said}")),
    )
