"""The whole of it in one command: demo."""

from __future__ import annotations

import copy
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgrag import __version__, embedded
from pgrag.cli import _handbook
from pgrag.cli._handbook import Handbook
from pgrag.cli._output import console, line, progress, safe
from pgrag.cli._run import FAILED, OK, Run, command
from pgrag.cli.ask import abstention
from pgrag.cli.init import summary
from pgrag.embedders import load_embedder
from pgrag.errors import PgragError
from pgrag.models import Hit, Packet, Verdict


@dataclass(frozen=True)
class Ask:
    """One reader's question."""

    tenant: str
    reader: str
    who: str
    question: str
    as_of: str | None = None


@dataclass(frozen=True)
class Scene:
    """Questions to set side by side, and what is to be seen in the answers."""

    title: str
    asks: tuple[Ask, ...]
    moral: str


_GOODWILL = (
    "A customer came back seven weeks after delivery. Is a goodwill refund still possible, and who has to sign it?"
)
_DAYS = "Within how many days of delivery could unused goods be sent back for a refund?"
_WINDOW = "What is the refund window?"
_MARGIN = "Which gross margin does the floor PF-T1 stand for?"

SCENES = (
    Scene(
        "One question, two readers",
        (
            Ask("halvorsen", "bob", "bob, of finance", _GOODWILL),
            Ask("halvorsen", "alice", "alice, of support", _GOODWILL),
        ),
        "The page on exceptions is for finance. For alice it is not there: no place, no count, no score of hers "
        "has anything to do with it.",
    ),
    Scene(
        "One question, two dates",
        (
            Ask("halvorsen", "alice", "alice, 2023-09-10", _DAYS, "2023-09-10"),
            Ask("halvorsen", "alice", "alice, today", _DAYS),
        ),
        "Each revision is in force for its own time; today's permissions apply to yesterday's text.",
    ),
    Scene(
        "One question, two tenants",
        (
            Ask("halvorsen", "alice", "alice, of halvorsen", _WINDOW),
            Ask("kestrel", "erin", "erin, of kestrel", _WINDOW),
        ),
        "Both have a page policies/refund-window.md. No argument names a tenant: the token does.",
    ),
    Scene(
        "No evidence, no answer",
        (
            Ask("halvorsen", "alice", "alice", "How does quantum teleportation transfer the state of a particle?"),
        ),
        "A model that gets nothing has nothing to embroider.",
    ),
    Scene(
        "No permission, no evidence",
        (
            Ask("halvorsen", "bob", "bob, of the leads", _MARGIN),
            Ask("halvorsen", "dave", "dave, a contractor", _MARGIN),
        ),
        "Dave reads that there is no evidence, and not that there is a page that he may not read.",
    ),
)


@dataclass
class Story:
    """What happened, for people as it happens and for programs at the end."""

    out: Console | None
    steps: list[dict[str, Any]] = field(default_factory=list)
    scenes: list[dict[str, Any]] = field(default_factory=list)
    replies: list[dict[str, Any]] = field(default_factory=list)

    def print(self, *things: Any, **options: Any) -> None:
        """For people only."""
        if self.out is not None:
            self.out.print(*things, **options)

    @contextmanager
    def step(self, doing: str) -> Iterator[Callable[[str], None]]:
        """A part of the work; the block says what it did."""
        said: list[str] = []
        begin = time.perf_counter()
        with progress(doing):
            yield said.append
        seconds = time.perf_counter() - begin
        self.steps.append({"did": said[0], "seconds": round(seconds, 3)})
        self.print(line(("  done  ", "green"), said[0], (f"  {seconds:.1f} s", "dim")))


@command("demo", panel="Set up")
def demo(
    run: Run,
    path: Annotated[Path, typer.Option(help="Where the server and its data go.", metavar="DIR")] = Path(".pgrag/demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running.")] = False,
) -> int:
    """Show what pgrag does, on a PostgreSQL of its own and the sample handbook. Takes some seconds.

    One question asked by two readers, at two dates and in two tenants; two abstentions; a reply that is
    valid and three that are refused. Run it again and it goes on from what is there.
    """
    begin = time.perf_counter()
    story = Story(None if run.as_json else console())
    story.print(line(("pgrag ", "bold"), (__version__, "bold"), ": PostgreSQL decides what a model gets to see\n"))
    with story.step("starting PostgreSQL") as did:
        server = embedded.start(path, keep=keep)
        did(f"PostgreSQL {server.version} started in {path}")
    with server:
        handbook, failed = _set_up(story, server)
        for number, scene in enumerate(SCENES, 1):
            _show(story, handbook, number, scene)
        _replies(story, handbook)
        seconds = time.perf_counter() - begin
        _go_on(story, handbook, path, keep, seconds)
    if run.as_json:
        run.show(_document(story, handbook, seconds), lambda out: None)
    return FAILED if failed else OK


# -- Setting up -------------------------------------------------------------------------------------------


def _set_up(story: Story, server: embedded.EmbeddedServer) -> tuple[Handbook, int]:
    with _handbook.alone(server) as superuser:
        with story.step("creating a database") as did:
            _handbook.create_database(server, superuser)
            did(f"database {_handbook.DATABASE} with pgvector: all that a superuser is needed for")
        with story.step("installing pgrag") as did:
            key, kid = _handbook.install_as_owner(server)
            did("pgrag installed by the database's owner, who reads no row of it")
        with story.step("creating tenants and readers") as did:
            handbook = Handbook(server, key, kid, load_embedder("wordllama"))
            corpus = _handbook.put_people(handbook)
            some = summary(corpus)
            did(f"{some['tenants']} tenants with {some['sources']} sources, {some['principals']} readers and groups")
        begin = time.perf_counter()
        reports = [
            one
            for tenant in corpus
            for source in tenant.sources
            for one in _pages(handbook, tenant.tenant, source.source)
        ]
    failed = sum(one.outcome == "failed" for one in reports)
    passages = sum(one.chunks for one in reports)
    did_pages = f"{len(reports)} documents, {sum(len(one.revisions) for one in reports)} new revisions, {passages} new passages"
    seconds = time.perf_counter() - begin
    story.steps.append({"did": did_pages, "seconds": round(seconds, 3), "failed": failed})
    story.print(line(("  done  ", "green"), did_pages, (f"  {seconds:.1f} s", "dim")))
    for one in reports:
        if one.outcome == "failed":
            story.print(line(("  failed  ", "red"), f"{one.document}: {one.code} {one.reason}"))
    return handbook, failed
