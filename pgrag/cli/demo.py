"""The whole of it in one command: demo."""

from __future__ import annotations

import copy
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
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
from pgrag.cli._output import console, line, progress, write_json
from pgrag.cli._run import FAILED, OK, Run, command
from pgrag.cli.ask import abstention
from pgrag.cli.init import summary
from pgrag.embedders import load_embedder
from pgrag.errors import PgragError
from pgrag.ingest.pipeline import DocumentReport, Progress
from pgrag.models import Packet, Verdict


@dataclass(frozen=True)
class Ask:
    """One reader's question."""

    tenant: str
    reader: str
    who: str
    question: str
    as_of: str | None = None
    k: int = 1


@dataclass(frozen=True)
class Scene:
    """Questions to set side by side, and what is to be seen in the answers."""

    title: str
    asks: tuple[Ask, ...]
    moral: str


_GOODWILL = (
    "A customer came back seven weeks after delivery. "
    "Is a goodwill refund still possible, and who has to sign it?"
)
_DAYS = "Within how many days of delivery could unused goods be sent back for a refund?"
_WINDOW = "What is the refund window?"
_MARGIN = "Which gross margin does the floor PF-T1 stand for?"

SCENES = (
    Scene(
        "One question, two readers",
        (
            Ask("halvorsen", "bob", "bob, of finance", _GOODWILL, k=2),
            Ask("halvorsen", "alice", "alice, of support", _GOODWILL, k=2),
        ),
        "The page on exceptions is for finance. For alice it is not there: it takes no place in her answer "
        "and weighs in none of her scores.",
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
            Ask(
                "halvorsen",
                "alice",
                "alice",
                "How does quantum teleportation transfer the state of a particle?",
            ),
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
class Step:
    """A part of the work, while it runs."""

    advance: Callable[[int, int | None], None]
    did: str = ""
    """What it did, said at its end."""


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
    def step(self, doing: str) -> Iterator[Step]:
        """A part of the work, with a bar while it runs and a line at its end."""
        begin = time.perf_counter()
        with progress(doing) as advance:
            step = Step(advance)
            yield step
        seconds = time.perf_counter() - begin
        self.steps.append({"did": step.did, "seconds": round(seconds, 3)})
        self.print(line(("  done  ", "green"), step.did, (f"  {seconds:.1f} s", "dim")), soft_wrap=True)


@command("demo", panel="Set up")
def demo(
    run: Run,
    path: Annotated[Path, typer.Option(help="Where the server and its data go.", metavar="DIR")] = Path(
        ".pgrag/demo"
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running.")] = False,
) -> int:
    """Show what pgrag does, on a PostgreSQL of its own and the sample handbook. Takes some seconds.

    One question asked by two readers, at two dates and in two tenants; two abstentions; a reply that is
    valid and four that are refused. Run it again and it goes on from what is there.
    """
    begin = time.perf_counter()
    story = Story(None if run.as_json else console())
    story.print(line((f"pgrag {__version__}", "bold"), ": the database decides what a model gets to see\n"))
    with _start(story, path, keep) as server:
        handbook = _set_up(story, server)
        reports = _put_pages(story, handbook)
        for number, scene in enumerate(SCENES, 1):
            _play(story, handbook, number, scene)
        _judge_replies(story, handbook, len(SCENES) + 1)
        ways = _ways_on(handbook)
    seconds = time.perf_counter() - begin
    _end(story, ways, keep, seconds)
    if run.as_json:
        write_json(_as_json(story, ways, seconds))
    return FAILED if any(one.outcome == "failed" for one in reports) else OK


# -- Setting up -----------------------------------------------------------------------------------------


def _start(story: Story, path: Path, keep: bool) -> embedded.EmbeddedServer:
    with story.step("starting PostgreSQL") as step:
        server = embedded.start(path, keep=keep)
        step.did = f"PostgreSQL {server.version} in {path}"
    return server


def _set_up(story: Story, server: embedded.EmbeddedServer) -> Handbook:
    with _handbook.alone(server) as superuser:
        with story.step("creating a database") as step:
            _handbook.create_database(server, superuser)
            step.did = f"database {_handbook.DATABASE} with pgvector, as the superuser"
        with story.step("installing pgrag") as step:
            key, kid = _handbook.install_as_owner(server)
            step.did = "pgrag, as the owner of the database"
        with story.step("creating tenants and readers") as step:
            handbook = Handbook(server, key, kid, load_embedder("wordllama"))
            some = summary(_handbook.put_people(handbook))
            people = f"{some['principals']} people and groups"
            step.did = f"{some['tenants']} tenants, {some['sources']} sources, {people}"
    return handbook


def _put_pages(story: Story, handbook: Handbook) -> list[DocumentReport]:
    reports: list[DocumentReport] = []
    with story.step("reading the handbooks") as step:
        sources = _handbook.sources()
        for tenant, source in sources:

            def tell(now: Progress) -> None:
                reports.append(now.report)
                step.advance(len(reports), sum(sources.values()))

            _handbook.put_pages(handbook, tenant, source, tell)
        new = [one for one in reports if one.outcome == "created"]
        passages = sum(one.chunks for one in new)
        did = f": {passages} passages cut and encoded" if new else ""
        step.did = f"{len(reports)} documents, {len(new)} of them new{did}"
    for one in reports:
        if one.outcome == "failed":
            story.print(line(("  failed  ", "red"), f"{one.document}: {one.code} {one.reason}"))
    return reports


# -- Asking ---------------------------------------------------------------------------------------------


def _play(story: Story, handbook: Handbook, number: int, scene: Scene) -> None:
    shown = Table.grid(padding=(0, 2, 0, 0))
    answers = []
    for one in scene.asks:
        packet = handbook.ask(one.tenant, one.reader, one.question, as_of=one.as_of, k=one.k)
        answers.append({**asdict(one), "packet": packet.raw})
        _add_evidence(shown, one.who, packet)
    story.scenes.append({"title": scene.title, "answers": answers, "moral": scene.moral})
    _head(story, number, scene.title, f"“{scene.asks[0].question}”")
    story.print(Padding(shown, (0, 0, 0, 3)))
    _tail(story, scene.moral)


def _head(story: Story, number: int, title: str, about: str) -> None:
    story.print(line(f"\n{number}  ", (title, "bold cyan")))
    story.print(Padding(line((about, "italic")), (0, 0, 1, 3)))


def _tail(story: Story, moral: str) -> None:
    story.print(Padding(line((moral, "dim")), (1, 0, 0, 3)))


def _add_evidence(shown: Table, who: str, packet: Packet) -> None:
    """What a reader got: the place of each passage, and its sentence that is nearest to the question."""
    if packet.status != "evidence":
        shown.add_row(line((who, "bold")), "", abstention(packet.reason, None, packet.policy))
    for hit in packet.excerpts:
        since = f", since {hit.effective_from:%Y-%m-%d}" if hit.effective_from else ""
        found = line(hit.document, (since, "dim"), "\n", (telling(hit.text, packet.question), "green"))
        shown.add_row(line((who, "bold")), line((hit.id, "cyan")), found)
        who = ""


def telling(text: str, question: str) -> str:
    """The sentence or table row of a passage that shares most with the question."""
    # A word with a digit in it, such as a code, is seldom there by chance.
    weight = {word: 5 if re.search(r"\d", word) else 1 for word in _words(question)}
    sentences = [one for one in re.split(r"(?<=[.!?])\s+|\n+", text) if _words(one) and one[0] != "#"]
    best = max(sentences, key=lambda one: sum(weight.get(word, 0) for word in _words(one)), default=text)
    plain = " ".join(re.sub(r"\*\*|`|^\W*\||\|\s*$", "", best).split())
    return plain if len(plain) <= 150 else f"{plain[:149].rsplit(' ', 1)[0]}…"


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w[\w-]+", text.casefold()) if len(word) > 3}


# -- Replying -------------------------------------------------------------------------------------------


def _judge_replies(story: Story, handbook: Handbook, number: int) -> None:
    packet = handbook.ask("halvorsen", "alice", _DAYS).raw
    foreign = handbook.ask("halvorsen", "bob", _DAYS).raw
    _head(
        story,
        number,
        "Replies are checked",
        "An answer comes with citations. Each is looked up in the packet, and in the database as it is now.",
    )
    shown = Table.grid(padding=(0, 2, 0, 0))
    for what, given, reply in _replies(packet, foreign):
        verdict = handbook.judge("halvorsen", "alice", given, reply)
        story.replies.append({"what": what, "reply": reply, **_as_document(verdict)})
        shown.add_row(line((what, "bold")), _verdict(reply, verdict))
    story.print(Padding(shown, (0, 0, 0, 3)))
    _tail(story, "Valid: evidence that alice may see now. That the answer follows from it is not proven.")


def _replies(
    packet: dict[str, Any], foreign: dict[str, Any]
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What is to be said of a reply, the packet that comes with it, the reply."""
    quoted = {"id": "e1", "quote": "within **30 days** of delivery"}
    honest = {"answer": "Within 30 days of delivery.", "citations": [quoted]}
    forged = copy.deepcopy(packet)
    forged["excerpts"][0]["text"] = forged["excerpts"][0]["text"].replace("30 days", "90 days")
    return [
        ("quoting e1", packet, honest),
        ("an invented citation", packet, {"answer": "Within 90 days.", "citations": [{"id": "e9"}]}),
        ("no citation", packet, {"answer": "Within 90 days.", "citations": []}),
        ("a forged packet", forged, {"answer": "Within 90 days.", "citations": [{"id": "e1"}]}),
        ("bob's packet", foreign, honest),
    ]


def _as_document(verdict: Verdict | PgragError) -> dict[str, Any]:
    if isinstance(verdict, PgragError):
        return {"valid": False, "error": {"code": verdict.code, "message": verdict.message}}
    return {"valid": verdict.valid, "verdict": verdict.raw}


def _verdict(reply: dict[str, Any], verdict: Verdict | PgragError) -> Text:
    cited = ", ".join(str(one["id"]) for one in reply["citations"]) or "nothing"
    said = line(f"“{reply['answer']}” citing {cited}\n")
    if isinstance(verdict, PgragError):
        return said.append_text(line(("refused: ", "bold red"), f"{verdict.code} {verdict.message}"))
    if verdict.valid:
        return said.append_text(
            line(("valid: ", "bold green"), "alice may see it, and it has the words quoted")
        )
    return said.append_text(
        line(("refused: ", "bold red"), "; ".join(one.message for one in verdict.findings))
    )


# -- The end --------------------------------------------------------------------------------------------


def _ways_on(handbook: Handbook) -> dict[str, str]:
    """What to go on with, by name."""
    server = handbook.server
    python, here = _short(Path(sys.executable)), shlex.quote(str(_short(server.path)))
    pgrag = "pgrag" if shutil.which("pgrag") else f"{python} -m pgrag"
    psql = "psql" if shutil.which("psql") else server.bindir / "psql"
    dsn = handbook.dsn("demo_reader")
    return {
        "config": f"export PGRAG_CONFIG={shlex.quote(str(_short(_handbook.config_file(server))))}",
        "search": f'{pgrag} search "Up to what price per night may I book a hotel?" --subject jonas',
        "status": f"{pgrag} status",
        "keep": f"{pgrag} demo --keep --path {here}",
        "stop": f"{python} -m pgrag.embedded stop {here}",
        "dsn": dsn,
        "psql": f"{psql} {shlex.quote(dsn)}",
        "token": f"{pgrag} token --subject bob",
    }


def _short(path: Path) -> Path:
    """The path from here, where it is below here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _end(story: Story, ways: dict[str, str], keep: bool, seconds: float) -> None:
    story.print(line(("\nGo on", "bold cyan"), (f"  (all of this took {seconds:.1f} s)", "dim")))
    if keep:
        _command(story, "The server runs until:", ways["stop"])
    else:
        _command(
            story,
            "The server is stopped, its data is kept. To start it again and leave it running:",
            ways["keep"],
        )
    _command(
        story,
        "Ask as anyone of the corpus (examples/handbook/README.md):",
        ways["config"],
        ways["search"],
        ways["status"],
    )
    _command(
        story,
        "Or in SQL, as a role that may execute pgrag's functions and read no table:",
        ways["psql"],
        "begin;",
        f"select pgrag.authenticate('…');   -- the output of: {ways['token']}",
        "select rank, document, text from pgrag.search('refund window', p_mode => 'lexical');",
        "commit;",
    )


def _command(story: Story, about: str, *lines: str) -> None:
    story.print(line(f"   {about}"), soft_wrap=True)
    for one in lines:  # never wrapped: they are there to be copied
        story.print(line("     ", (one, "bold")), soft_wrap=True)


def _as_json(story: Story, ways: dict[str, str], seconds: float) -> dict[str, Any]:
    parts = {"steps": story.steps, "scenes": story.scenes, "replies": story.replies}
    return {"version": __version__, "seconds": round(seconds, 3), **parts, "go_on": ways}
