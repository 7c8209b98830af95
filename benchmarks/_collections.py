"""Reading test collections, cutting them into cells, and drawing samples from them.

A collection is a folder of three files: ``corpus.jsonl`` (id, text, and where there are any: title, language),
``queries.jsonl`` (id, text; language, answerable, pool) and ``qrels.tsv`` (query-id, corpus-id, score, with a
header or without one). A cell is a collection, or the part of it that is in one language.
"""

from __future__ import annotations

import json
import os
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_LONGEST_QUESTION, _LONGEST_TITLE = 4000, 1000
# Judgements whose question and document are of two languages, as a share of all: above it, they are one cell.
_CROSSING = 0.05


class CollectionError(Exception):
    """A collection that was asked for cannot be read."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is indexed; ``text`` is never blank."""

    id: str
    title: str
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what is known of its answer."""

    id: str
    text: str
    gold: dict[str, int] = field(default_factory=dict)
    """Grades by document id; a grade above 0 is relevant. Empty where nothing was judged relevant."""
    answerable: bool | None = None
    """As the collection says; None where it says nothing."""
    pool: tuple[str, ...] = ()
    """Documents that belong to the question without being judged: a sample keeps them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured at once: documents of one tenant and the questions over them."""

    name: str
    collection: str
    language: str
    """Of most documents; what pairs cells for foreign questions."""
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions with gold: nDCG and recall are defined for these only."""
        return tuple(question for question in self.questions if question.gold)


def find(given: Sequence[Path]) -> list[Path]:
    """The collection folders among and directly below the given ones, or below the default one.

    A collection has a corpus and questions. Raises CollectionError for a given folder without any; the default
    one may be absent.
    """
    if not given:
        default = Path(os.environ.get("PGRAG_DATA") or ROOT.parent / "shared" / "data")
        return _below(default)
    found = []
    for folder in given:
        if not (collections := _below(folder)):
            raise CollectionError(
                f"{folder} has no collection: corpus.jsonl and queries.jsonl, in it or below it"
            )
        found += collections
    return list(dict.fromkeys(found))


def _below(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [
        place
        for place in (folder, *sorted(folder.iterdir()))
        if (place / "corpus.jsonl").is_file() and (place / "queries.jsonl").is_file()
    ]


def read(folder: Path, language: str = "en") -> list[Cell]:
    """The cells of one collection. ``language`` is what a document is in that states none."""
    folder = folder.resolve()
    notes: Counter[str] = Counter()
    gold = _read_gold(folder / "qrels.tsv")
    documents: dict[str, Document] = {}
    for row in _lines(folder / "corpus.jsonl"):
        title, text = _text(row.get("title"))[:_LONGEST_TITLE], _text(row.get("text"))
        if _is_blank(text):
            title, text = "", title  # nothing but a title is a text
        if _is_blank(text):
            notes["documents without any text left out"] += 1
            continue
        document = Document(_id(row), title, text, _language(row) or language)
        documents.setdefault(document.id, document)
    rows = [row for row in _lines(folder / "queries.jsonl") if _text(row.get("text")).strip()]
    if _is_of_headings(folder, rows):
        documents = _without_headings(documents, rows, gold)
        notes["headings that are the question taken out of its gold document"] += len(rows)
    questions: dict[str, tuple[Question, str | None]] = {}
    for row in rows:
        name = _id(row)
        text = _text(row["text"]).strip()
        if len(text) > _LONGEST_QUESTION:
            notes[f"questions cut at {_LONGEST_QUESTION} characters"] += 1
        relevant = {key: grade for key, grade in gold.get(name, {}).items() if grade > 0}
        said = row.get("answerable")
        question = Question(
            name,
            text[:_LONGEST_QUESTION],
            gold[name] if relevant else {},
            bool(said) if said is not None else None,
            tuple(map(str, row.get("pool") or ())),
        )
        questions.setdefault(name, (question, _language(row)))
    said_of_it = tuple(f"{count} {what}" for what, count in notes.items())
    return list(_cells(folder.name, documents, list(questions.values()), said_of_it))


def _cells(
    name: str,
    documents: dict[str, Document],
    questions: Sequence[tuple[Question, str | None]],
    notes: tuple[str, ...],
) -> Iterator[Cell]:
    """One cell, or one a language where both documents and questions keep to their own."""
    languages = Counter(document.language for document in documents.values())

    def spoken(question: Question, said: str | None) -> str | None:
        known = [documents[key].language for key in (*question.gold, *question.pool) if key in documents]
        return said if said in languages else known[0] if known else None

    told = [(question, spoken(question, said)) for question, said in questions]
    judgements = [
        documents[key].language == spoken_in
        for question, spoken_in in told
        for key in question.gold
        if key in documents
    ]
    crossing = judgements.count(False) > _CROSSING * len(judgements)
    if len(languages) < 2 or crossing or all(spoken_in is None for _, spoken_in in told):
        main = languages.most_common(1)[0][0] if languages else "en"
        yield Cell(
            name, name, main, tuple(documents.values()), tuple(question for question, _ in questions), notes
        )
        return
    for language in sorted(languages):
        its = tuple(question for question, spoken_in in told if spoken_in == language)
        if its:
            texts = tuple(document for document in documents.values() if document.language == language)
            yield Cell(f"{name}/{language}", name, language, texts, its, notes)


def sample(cell: Cell, documents: int, questions: int, seed: int) -> Cell:
    """A seeded sample: some of the questions, all that belongs to them, and other documents up to a number.

    The questions come in a drawn order, so that the first of them are a sample too.
    """
    draw = random.Random(f"{seed}/{cell.name}")
    asked = cell.questions
    if len(asked) > questions:
        asked = tuple(draw.sample(asked, questions))
    there = {document.id for document in cell.documents}
    kept = {key for question in asked for key in (*question.gold, *question.pool)} & there
    others = [document.id for document in cell.documents if document.id not in kept]
    kept.update(draw.sample(others, min(len(others), max(0, documents - len(kept)))))
    texts = tuple(document for document in cell.documents if document.id in kept)
    if len(texts) == len(cell.documents) and len(asked) == len(cell.questions):
        return cell
    note = f"a sample: {len(texts)} of {len(cell.documents)} documents, {len(asked)} of {len(cell.questions)} questions"
    return replace(cell, documents=texts, questions=asked, notes=(*cell.notes, note))


# -- Files as they come ------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise CollectionError(f"{path.name}, line {number} of {path.parent.name}: {error}") from error
            if not isinstance(row, dict) or ("id" not in row and "_id" not in row):
                raise CollectionError(
                    f"{path.name}, line {number} of {path.parent.name}: an object with an id is expected"
                )
            yield row


def _is_blank(text: str) -> bool:
    return not text.strip("\u200b\ufeff" + string.whitespace + "\u00a0\u2028\u2029\u3000")


def _id(row: dict[str, Any]) -> str:
    return str(row["id"] if "id" in row else row["_id"])


def _text(value: object) -> str:
    """Text that PostgreSQL can hold: no NUL, no half of a surrogate pair."""
    text = "" if value is None else str(value)
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")


def _language(row: dict[str, Any]) -> str | None:
    said = row.get("language") or row.get("lang")
    return said if isinstance(said, str) and _LANGUAGE.fullmatch(said) and len(said) <= 35 else None


def _read_gold(path: Path) -> dict[str, dict[str, int]]:
    """Grades by question and document. Three columns, or the four of TREC; a line without a number is a header."""
    gold: dict[str, dict[str, int]] = {}
    if not path.is_file():
        return gold
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        parts = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if len(parts) < 3:
            continue
        try:
            grade = round(float(parts[-1]))
        except ValueError:
            continue
        gold.setdefault(parts[0].strip(), {})[parts[-2].strip()] = max(grade, 0)
    return gold


# -- A collection whose questions are headings of its documents ---------------------------------------------


def _is_of_headings(folder: Path, rows: Sequence[dict[str, Any]]) -> bool:
    """Whether each question is a heading of its gold document and SOURCE.txt asks to take that out."""
    source = folder / "SOURCE.txt"
    return (
        bool(rows)
        and all(row.get("heading") for row in rows)
        and source.is_file()
        and '"heading"' in source.read_text(encoding="utf-8", errors="replace")
    )


def _without_headings(
    documents: dict[str, Document], rows: Iterable[dict[str, Any]], gold: dict[str, dict[str, int]]
) -> dict[str, Document]:
    """The documents, each without the heading lines that are a question about it."""
    changed = dict(documents)
    for row in rows:
        heading = re.escape(_text(row["heading"]).strip())
        for key in gold.get(_id(row), {}):
            if key in changed:
                text = re.sub(rf"(?m)^[#*_ \t]*{heading}[#*_ \t]*$\n?", "", changed[key].text)
                changed[key] = replace(changed[key], text=text if text.strip() else changed[key].text)
    return changed
