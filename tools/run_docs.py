"""Run what README and docs show, and write down what it really prints.

A fenced block runs when its info string has a word after its language:

    ```sql reader=alice@halvorsen    psql, as a role of pgrag_reader, with the variable :token
    ```sql role=operator             psql, as another application role, or role=superuser
    ```python reader=alice@halvorsen the variables PGRAG_DSN and PGRAG_TOKEN in the environment
    ```console run                   bash, each line after "$ "; the same environment

and a ```text block that follows it at once is its output. ``ci`` instead of ``run`` says that the gate itself
runs the command; a test looks for it there. A block in one of these languages without such a word is a
mistake.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```(sql|python|console)([^\n]*)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class World:
    """Where the blocks run: connection strings by application role, and tokens."""

    dsn: Callable[[str], str]
    token: Callable[[str, str], str]  # kind, who ("alice@halvorsen", or "handbook@halvorsen" for a writer)
    bindir: Path
    owner_dsn: str  # of a database with vector and without pgrag, as its owner: $PGRAG_OWNER_DSN


def run_block(language: str, words: dict[str, str], code: str, world: World) -> str:
    """What the block prints, standard error included."""
    role = words.get("role") or next(
        (word for word in words if word in ("reader", "writer", "admin", "browser")), "reader"
    )
    environment = os.environ | {
        "PGRAG_DSN": world.dsn(role),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PGRAG_OWNER_DSN": world.owner_dsn,
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{world.bindir}:{environment['PATH']}"
    if who := words.get("browser", words.get(role)):
        environment["PGRAG_TOKEN"] = world.token("reader" if role == "browser" else role, who)
    if language == "sql":
        command = [
            str(world.bindir / "psql"),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-P",
            "footer=off",
            environment["PGRAG_DSN"],
        ]
        command[1:1] = ["-v", f"token={environment.get('PGRAG_TOKEN', '')}"]
        code = "\\set QUIET on\n" + code
    elif language == "python":
        command = [sys.executable, "-"]
    else:
        command = ["bash", "-eu", "-o", "pipefail"]
        code = "\n".join(line.removeprefix("$ ") for line in code.splitlines())
    done = subprocess.run(
        command,
        input=code,
        env=environment,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{language} block failed with {done.returncode}:\n{code}\n{done.stdout}")
    return done.stdout


def refreshed(page: Path, world: World) -> str:
    """The page with the outputs of its blocks as they are now."""

    def replace(match: re.Match[str]) -> str:
        language, info, code, output = match.groups()
        words = dict(word.split("=", 1) if "=" in word else (word, "") for word in info.split())
        if not words:
            raise ValueError(f"{page.name}: a {language} block does not say how it runs:\n{code}")
        if "ci" in words:
            return match[0]
        printed = run_block(language, words, code, world)
        if output is None:
            return match[0]
        shown = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
        return match[0].replace(f"```text\n{output}```", f"```text\n{shown}\n```")

    return BLOCK.sub(replace, page.read_text(encoding="utf-8"))
