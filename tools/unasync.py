"""Generate pgrag/_sync from pgrag/_async: the same code without async and await.

    python tools/unasync.py           # write
    python tools/unasync.py --check   # exit with 1 where a file is stale

Only tokens change, so comments and layout stay. ``_flavour.py``, where the two really differ, is written
by hand on both sides.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "pgrag"
BY_HAND = ("__init__.py", "_flavour.py")
HEADER = """\
# Generated from pgrag/_async/{name} by tools/unasync.py; do not edit.
# ruff: noqa: I001
# fmt: off
"""

_NAMES = {
    "AsyncConnection": "Connection",
    "AsyncIterator": "Iterator",
    "asynccontextmanager": "contextmanager",
    "connect_async": "connect",
    "ingest_folder_async": "ingest_folder",
    "_async": "_sync",
}
_PREFIXES = (("_Async", "_"), ("Async", ""), ("async_", ""))


def convert(source: str) -> str:
    """Synchronous source for asynchronous source. A docstring's examples become synchronous too."""
    lines = source.splitlines(keepends=True)
    out: list[str] = []
    row, column = 1, 0
    drop_space = False
    inside = 0  # of f-strings, which are one token in Python 3.11 and many from 3.12 on: left alone in both
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        inside += kind.endswith("STRING_START") - kind.endswith("STRING_END")
        is_text = kind == "STRING" and not re.match("[a-zA-Z]*[fF]", token.string)
        if inside or not (is_text or kind == "NAME"):
            continue  # copied as it stands, with the space around it
        between = _between(lines, (row, column), token.start)
        out.append(between.lstrip(" ") if drop_space else between)
        row, column = token.end
        drop_space = token.string in ("async", "await")
        if not drop_space:
            out.append(_text(token.string) if is_text else _name(token.string))
    out.append(_between(lines, (row, column), (len(lines) + 1, 0)))
    return "".join(out)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The source between two places."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    first = lines[start[0] - 1][start[1] :] if start[0] <= len(lines) else ""
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return first + "".join(lines[start[0] : end[0] - 1]) + last


def _name(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    for prefix, instead in _PREFIXES:
        if name.startswith(prefix):
            return instead + name.removeprefix(prefix)
    return name


def _text(text: str) -> str:
    text = re.sub(r"\b(?:async|await) ", "", text)
    return re.sub(r"\w+", lambda word: _name(word[0]), text)


def generated() -> dict[Path, str]:
    """Each generated file with its text."""
    files = sorted(path for path in (ROOT / "_async").glob("*.py") if path.name not in BY_HAND)
    return {
        ROOT / "_sync" / path.name: HEADER.format(name=path.name) + convert(path.read_text(encoding="utf-8"))
        for path in files
    }


def stale() -> list[Path]:
    """Files in pgrag/_sync that are not what they would be generated as, or should not be there."""
    wanted = generated()
    wrong = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    there = {path for path in (ROOT / "_sync").glob("*.py") if path.name not in BY_HAND}
    return wrong + sorted(there - wanted.keys())


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description="Generate pgrag/_sync from pgrag/_async.")
    parser.add_argument("--check", action="store_true", help="only exit with 1 where a file is stale")
    if parser.parse_args().check:
        for path in stale():
            print(f"{path.name} is stale: run python tools/unasync.py", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
