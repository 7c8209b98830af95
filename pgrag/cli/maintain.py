"""What keeps searches fast: maintain, calibrate, index."""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

import pgrag
from pgrag.cli._output import console, line, row, table
from pgrag.cli._run import Run, Usage, command
from pgrag.models import BlockStatus, MaintenanceStep

_UPKEEP = "Keep searches fast"
_DONE = {"idle": "nothing left to do", "busy": "others are at the rest of the work"}


@command("maintain", "dsn", panel=_UPKEEP)
def maintain(
    run: Run,
    once: Annotated[bool, typer.Option("--once", help="One step and no more.")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            help="Go on, and look again so long after there was nothing to do.",
            metavar="SECONDS",
            min=0.1,
            max=86400,
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            help="How long a block that was replaced is kept, for those who still search it.",
            metavar="SECONDS",
            min=0,
            max=86400 * 366,
            show_default="300",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="maintenance_work_mem for building indexes, as 2GB.", metavar="SIZE", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="max_parallel_maintenance_workers: how many processes help to build one.",
            min=0,
            max=1024,
            metavar="N",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Build, replace and drop the blocks behind dense search, step by step, until nothing is left to do.

    As a role of pgrag_operator. Each step is a transaction: run it again after an interruption, and it goes
    on from there. Ctrl-C ends it after the step under way, and a second one at once. Several may run side by
    side. With --json, each step is one line.

    $ pgrag maintain --memory 2GB --every 300
    """
    if once and every is not None:
        raise Usage("--once and --every contradict each other", hint="give one of them")
    kept = None if keep is None else dt.timedelta(seconds=keep)
    interruption = _Interruption()
    with _shown(run.as_json) as told, interruption.watched(told.stopping):
        while True:
            with run.connect() as connection:
                _configure(
                    connection, {"maintenance_work_mem": memory, "max_parallel_maintenance_workers": workers}
                )
                _round(connection, interruption, told, once, kept)
            if every is None:
                return
            told.waiting(every)
            time.sleep(every)


def _round(
    connection: psycopg.Connection[Any],
    interruption: _Interruption,
    told: _Told,
    once: bool,
    keep: dt.timedelta | None,
) -> None:
    while True:
        start = time.perf_counter()
        told.working()
        with interruption.held(), pgrag.operator(connection) as operator:
            step = operator.maintain(keep)
        told.done(step, time.perf_counter() - start)
        interruption.heeded()
        if once or not step.remaining:
            return


def _configure(connection: psycopg.Connection[Any], settings: dict[str, str | int | None]) -> None:
    """Settings of the session, beside those of the role and the server."""
    for name, value in settings.items():
        if value is not None:
            try:
                connection.execute("select set_config(%s, %s, false)", (name, str(value)))
            except psycopg.DataError as error:
                raise Usage(
                    error.diag.message_primary or f"{name} cannot be that",
                    hint=error.diag.message_hint or "for example --memory 2GB --workers 4",
                ) from None
    connection.commit()


class _Interruption:
    """Ctrl-C (and SIGTERM): at once between two steps; during one, at its end; the second time, at once."""

    def __init__(self) -> None:
        self._in_step = False
        self._asked = False
        self._tell: Callable[[], None] = lambda: None

    @contextmanager
    def watched(self, tell: Callable[[], None]) -> Iterator[None]:
        """Signals come here while the block runs; one that has to wait is told."""
        self._tell = tell
        before = {number: signal.signal(number, self._came) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A step, at the end of which an interruption is heeded."""
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False

    def heeded(self) -> None:
        """Raise KeyboardInterrupt if one came during a step."""
        if self._asked:
            raise KeyboardInterrupt

    def _came(self, number: int, frame: Any) -> None:
        if not self._in_step or self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._tell()


class _Told:
    """What is said while it goes on: each step on standard output, and on a terminal what is under way."""

    def __init__(self, as_json: bool, bar: Progress, task: TaskID) -> None:
        self.as_json = as_json
        self.bar = bar
        self.task = task
        self.last = ""

    def working(self) -> None:
        self.bar.reset(self.task, description=f"a step of maintenance{self.last}")

    def stopping(self) -> None:
        self.bar.update(self.task, description="stopping after this step; Ctrl-C again stops at once")

    def waiting(self, seconds: float) -> None:
        self.bar.reset(self.task, description=f"nothing to do; looking again in {seconds:g} s")

    def done(self, step: MaintenanceStep, seconds: float) -> None:
        self.last = f", after {step.action}"
        if self.as_json:
            print(json.dumps({**asdict(step), "seconds": round(seconds, 3)}))
        else:
            # Where both are one terminal, the bar's console prints above the bar.
            out = self.bar.console if self.bar.live.is_started and sys.stdout.isatty() else console()
            out.print(_line(step, seconds), soft_wrap=True)
        sys.stdout.flush()


@contextmanager
def _shown(as_json: bool) -> Iterator[_Told]:
    err = console(stderr=True)
    shown = err.is_terminal and not err.is_dumb_terminal
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not shown) as bar:
        yield _Told(as_json, bar, bar.add_task("maintenance", total=None))


def _line(step: MaintenanceStep, seconds: float) -> Any:
    what = _DONE.get(step.action)
    if what is not None:
        return line((f"{step.action:8}", "bold"), what)
    block = "" if step.block_id is None else f"block {step.block_id}"
    return line(
        (f"{step.action:8}", "bold"),
        f"{block:12}{step.rows:>10} rows{seconds:>9.1f} s",
        "" if step.note is None else f"  {step.note}",
    )


@command("calibrate", "dsn", panel=_UPKEEP)
def calibrate(run: Run) -> None:
    """Measure what the parts of a dense search cost on this machine; searches choose their route by it.

    As a role of pgrag_operator. It takes about a second; run it when nothing else is busy.

    $ pgrag calibrate --dsn postgresql://shop_operator@localhost/app
    """
    with run.connect() as connection, pgrag.operator(connection) as operator:
        costs = operator.calibrate()

    def people(out: Console) -> None:
        shown = table("part", "microseconds", "measured", right=("microseconds",))
        for one in costs:
            measured = (
                "as shipped" if one.measured_at is None else one.measured_at.isoformat(timespec="seconds")
            )
            row(shown, one.part, f"{one.microseconds:.3f}", measured)
        out.print(shown)

    run.show(costs, people)


@command("index", "dsn", panel=_UPKEEP)
def index(run: Run) -> None:
    """Show the blocks behind dense search: what is in them, and what is compared one by one beside them.

    As a role of pgrag_operator. Access lists are numbers here.

    $ pgrag index --json
    """
    with run.connect() as connection, pgrag.operator(connection) as operator:
        found = operator.index_status()
    run.show([_plain(one) for one in found], lambda out: _print(out, found))


def _plain(one: BlockStatus) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in asdict(one).items()}


def _print(out: Console, found: list[BlockStatus]) -> None:
    if not found:
        out.print("no blocks, and nothing that needs one: every search compares what it may see")
        return
    numbers = ("chunks", "vectors", "loose", "retired", "MB")
    shown = table("tenant", "space", "class", "state", *numbers, right=numbers)
    for one in found:
        megabytes = f"{one.bytes / 1048576:.1f}"
        row(
            shown,
            *(one.tenant, one.space, one.class_, one.state),
            *(one.chunks, one.vectors, one.loose, one.retired, megabytes),
        )
    out.print(shown)
