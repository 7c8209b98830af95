"""Reading Markdown and plain text files.

A document's key is its path relative to the root that was given, so a local path never reaches the
database. What a file says of itself stands in front matter, which is not part of the body::

    ---
    title: Travel policy
    readers: [staff]
    effective_from: 2024-06-01
    ---

Whoever forgets a dash must not thereby publish a document to everyone: front matter that is not
understood, to the last key, is an error and never text.
"""

from __future__ import annotations

import datetime as dt
import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from pgrag.errors import IngestError
from pgrag.ingest.chunkers import heading_text

_PARSERS = {".md": "markdown-1", ".markdown": "markdown-1", ".txt": "text-1"}
_TEXT_KEYS = ("title", "language", "product", "version", "revision")
_LIST_KEYS = ("tags", "readers")
_TIME_KEYS = ("effective_from", "effective_to")
_KEYS = (*_TEXT_KEYS, *_LIST_KEYS, *_TIME_KEYS, "date", "metadata")

_RULE = r"---[ \t]*(?:\r\n|\n|\r|\Z)"
# Blank lines and spaces before the first rule are let through: otherwise a stray one would turn the list
# of readers into text.
_FRONT_MATTER = re.compile(rf"\A(?:[ \t]*(?:\r\n|\n|\r))*[ \t]*{_RULE}")
_FRONT_MATTER_END = re.compile(rf"^{_RULE}", re.MULTILINE)
_DATED_NAME = re.compile(r"(?P<stem>.+)@(?P<date>\d{4}-\d{2}-\d{2})")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_HEADING = re.compile(r"# +(\S.*)")


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One file, read: the body and what is known about it. Times are in UTC."""

    key: str
    """Path relative to the root, with ``/``, without the ``@date`` of a revision."""
    body: str
    title: str
    language: str | None
    product: str | None
    version: str | None
    tags: tuple[str, ...]
    readers: tuple[str, ...] | None
    """None where the file says nothing; empty where it says: nobody."""
    revision: str | None
    effective_from: dt.datetime | None
    effective_to: dt.datetime | None
    date: dt.date | None
    parser: str
    metadata: dict[str, Any] = field(default_factory=dict)
    """What else a search can filter by: texts, numbers, truth values and lists of texts, by name."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A path that ``walk_documents`` left out, relative to the root, and why."""

    path: str
    reason: str


def read_document(path: str | Path, root: str | Path) -> SourceDocument:
    """Read one ``.md``, ``.markdown`` or ``.txt`` file below the root, UTF-8 with or without a BOM.

    ``policy@2024-06-01.md`` is revision ``2024-06-01`` of ``policy.md``, effective from that day; what
    the front matter states goes first.
    """
    location = _inside(Path(path), _resolve_root(Path(root)))
    name = location.name
    parser = _PARSERS.get(Path(name).suffix.lower())
    if parser is None:
        _refuse(name, "is not of a supported type", f"supported: {', '.join(_PARSERS)}")
    return _read(Path(path), location, parser)


def walk_documents(root: str | Path) -> tuple[list[SourceDocument], list[SkippedFile]]:
    """Read all documents below the root, by key and then by effective date (undated first).

    Names that begin with a dot, linked folders and files of other types are skipped and listed. A link
    that leads out of the root, or a document that cannot be read, is an error.
    """
    base = _resolve_root(Path(root))
    documents: list[SourceDocument] = []
    skipped: list[SkippedFile] = []
    names: dict[tuple[str, str | None], str] = {}
    for path, reason in _files(base):
        if reason in ("hidden", "unsupported type"):  # not even looked at: it may be a dangling link
            relative = path.relative_to(base).as_posix()
            skipped.append(SkippedFile(relative.encode(errors="backslashreplace").decode(), reason))
            continue
        location = _inside(path, base)
        if reason:
            skipped.append(SkippedFile(location.as_posix(), reason))
            continue
        document = _read(path, location, _PARSERS[path.suffix.lower()])
        earlier = names.setdefault((document.key, document.revision), location.as_posix())
        if earlier != location.as_posix():
            _refuse(
                location.as_posix(),
                f"and {earlier} are both revision {document.revision!r} of {document.key}",
                "give each its own revision in the front matter or the file name, or remove one",
            )
        documents.append(document)
    never = dt.datetime.min.replace(tzinfo=dt.UTC)
    documents.sort(key=lambda one: (one.key, one.effective_from or never, one.revision or ""))
    return documents, skipped


# -- Files ---------------------------------------------------------------------------------------------


def _refuse(name: str, fact: str, hint: str) -> NoReturn:
    raise IngestError(f"{name} {fact}", hint=hint, code="RG412")


def _resolve_root(root: Path) -> Path:
    try:
        base = root.resolve(strict=True)
        found = base.is_dir()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        found = False
    if not found:
        _refuse(f"the root {str(root)!r}", "is not a folder", "give the folder that holds the documents")
    return base


def _inside(path: Path, base: Path) -> Path:
    """The path relative to the root, as it is named there, after making sure that it ends up there."""
    try:
        named = path.parent.resolve(strict=True) / path.name
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        _refuse(path.name, "cannot be read: no such file, or a broken link", "check the path")
    if not (named.is_relative_to(base) and real.is_relative_to(base)):
        _refuse(path.name, "leads out of the root folder", "give a file below the root, or copy it there")
    location = named.relative_to(base)
    try:
        location.as_posix().encode()
    except UnicodeEncodeError:
        _refuse(ascii(location.as_posix()), "has a name that is not UTF-8", "rename the file")
    return location


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """All paths below the folder with the reason why each is skipped, empty for a document."""
    try:
        entries = [(path, _skipped(path)) for path in sorted(folder.iterdir())]
    except OSError as error:
        _refuse(folder.name, f"cannot be listed: {error.strerror}", "check the permissions of the folder")
    for path, reason in entries:
        if reason is None:
            yield from _files(path)
        else:
            yield path, reason


def _skipped(path: Path) -> str | None:
    """Why a path is skipped, empty for a document, None for a folder that is not."""
    if path.name.startswith("."):
        return "hidden"
    if path.is_dir():
        # Its documents have a key where they are; a link may also be a loop.
        return "link to a folder" if path.is_symlink() else None
    if path.suffix.lower() not in _PARSERS:
        return "unsupported type"
    return "not a regular file" if path.exists() and not path.is_file() else ""


def _read(path: Path, location: Path, parser: str) -> SourceDocument:
    name = location.as_posix()
    text = _decode(path, name)
    stated, body = _front_matter(text, name)

    key, dated = _split_revision(location, name)
    revision = stated.get("revision")
    start, stop = stated.get("effective_from"), stated.get("effective_to")
    if dated is not None:
        revision = revision or dated.isoformat()
        start = start or dt.datetime.combine(dated, dt.time(), dt.UTC)
    if start and stop and stop <= start:
        _refuse(name, f"ends ({stop.isoformat()}) before it starts ({start.isoformat()})", "swap the two")
    title = stated.get("title") or (_first_heading(body) if parser == "markdown-1" else "")
    return SourceDocument(
        key=key,
        body=body,
        title=title or Path(key).stem,
        language=stated.get("language"),
        product=stated.get("product"),
        version=stated.get("version"),
        tags=stated.get("tags", ()),
        readers=stated.get("readers"),
        revision=revision,
        effective_from=start,
        effective_to=stop,
        date=stated.get("date"),
        parser=parser,
        metadata=stated.get("metadata", {}),
    )


def _decode(path: Path, name: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        _refuse(name, f"cannot be read: {error.strerror}", "check that it is a file and its permissions")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(
            name,
            f"is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}",
            "save the file as UTF-8",
        )
    if (nul := content.find(b"\0")) >= 0:
        _refuse(
            name,
            f"has a NUL byte at offset {nul}, which PostgreSQL cannot store",
            "remove it, or check that this is a text file",
        )
    return text.lstrip("\ufeff")


def _split_revision(location: Path, name: str) -> tuple[str, dt.date | None]:
    match = _DATED_NAME.fullmatch(location.stem)
    if not match:
        return name, None
    try:
        date = dt.date.fromisoformat(match["date"])
    except ValueError:
        _refuse(name, f"has no such date as {match['date']}", "name it <document>@<year>-<month>-<day>")
    return location.with_name(match["stem"] + location.suffix).as_posix(), date


def _first_heading(body: str) -> str:
    fence = ""
    for line in re.split(r"\r\n|\n|\r", body):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and (heading := _HEADING.fullmatch(line)):
            return heading_text(heading[1].rstrip(" \t#"))
    return ""


# -- Front matter --------------------------------------------------------------------------------------


def _front_matter(text: str, name: str) -> tuple[dict[str, Any], str]:
    """What the file states about itself, and the body."""
    begin = _FRONT_MATTER.match(text)
    if not begin:
        return {}, text
    end = _FRONT_MATTER_END.search(text, begin.end())
    if not end:
        _refuse(
            name,
            "begins with front matter (---) that does not end",
            "close it with a line ---, or write *** if it was meant as a rule",
        )
    try:
        # Composed, not loaded: the nodes keep each value as it was written (version 1.10 stays 1.10,
        # language no stays no), show a key that is given twice, and never become Python objects.
        node = yaml.compose(text[begin.end() : end.start()], Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # Beside its own errors, those of chr(): an escape may name a character that there is not.
        _refuse(name, f"has front matter that is not YAML: {_one_line(error)}", "check its syntax")
    return _stated(node, name), text[end.end() :]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _stated(node: yaml.Node | None, name: str) -> dict[str, Any]:
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        _refuse(
            name,
            "has front matter that is not a list of keys and values",
            "write one key: value a line, or *** if the first line was meant as a rule",
        )
    stated: dict[str, Any] = {}
    for key_node, value in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            guess = f"did you mean {close[0]}? " if close else ""
            _refuse(
                name, f"has an unknown key {key!r} in its front matter", f"{guess}known: {', '.join(_KEYS)}"
            )
        if key in stated:
            _refuse(name, f"has the key {key} twice in its front matter", "keep one")
        if key in _LIST_KEYS:
            items = value.value if isinstance(value, yaml.SequenceNode) else [value]
            stated[key] = tuple(dict.fromkeys(_scalar(item, key, name) for item in items))
        elif key in _TIME_KEYS:
            stated[key] = _time(_scalar(value, key, name), key, name)
        elif key == "metadata":
            stated[key] = _metadata(value, name)
        elif key == "date":
            stated[key] = _date(_scalar(value, key, name), name)
        else:
            stated[key] = _scalar(value, key, name)
    return stated


def _metadata(node: yaml.Node, name: str) -> dict[str, Any]:
    """Numbers and truth values as YAML reads them, everything else as it was written."""
    if not isinstance(node, yaml.MappingNode):
        _refuse(name, "has metadata that are not keys and values", "write metadata: {team: billing}")
    found: dict[str, Any] = {}
    for key_node, value in node.value:
        key = _scalar(key_node, "metadata", name)
        if key in found:
            _refuse(name, f"has the metadata {key} twice in its front matter", "keep one")
        if isinstance(value, yaml.SequenceNode):
            found[key] = [_scalar(item, f"metadata {key}", name) for item in value.value]
            continue
        text = _scalar(value, f"metadata {key}", name)
        if value.tag == "tag:yaml.org,2002:bool":
            found[key] = text.lower() in ("true", "yes", "on")
        elif re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) and value.tag.endswith((":int", ":float")):
            found[key] = _number(text, f"metadata {key}", name)
        else:
            found[key] = text
    return found


def _number(text: str, key: str, name: str) -> float | int:
    number: float | int
    try:
        number = float(text) if "." in text else int(text)
    except ValueError:  # of thousands of digits
        number = math.inf
    if number == math.inf or number == -math.inf:
        _refuse(name, f"has a number in {key} that is too large", "write it in quotes, as a text")
    return number


def _scalar(node: yaml.Node, key: str, name: str) -> str:
    text = node.value.strip() if isinstance(node, yaml.ScalarNode) else ""
    if not text or node.tag == "tag:yaml.org,2002:null":
        wanted = "a text or a list of texts" if key in _LIST_KEYS else "one value"
        _refuse(name, f"has no usable {key} in its front matter", f"give {wanted}, or leave the key out")
    if _NO_TEXT.search(text):
        _refuse(
            name,
            f"has a character in {key} of its front matter that PostgreSQL cannot store",
            "remove the escape of a NUL or of half a surrogate pair",
        )
    return text


def _time(text: str, key: str, name: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(text)
        return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        _refuse(
            name,
            f"has {key} {text!r}, which is not a date or a time",
            "write 2024-06-01 (midnight UTC) or 2024-06-01T09:00:00+02:00",
        )


def _date(text: str, name: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        _refuse(name, f"has date {text!r}, which is not a date", "write 2024-06-01")
