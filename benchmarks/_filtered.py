"""A made-up company for the benchmarks of speed: documents in access classes, readers in groups, and their questions.

Every class is an access list: a group of its own, as a project has, and often one or two larger groups besides. The sizes of
classes and the popularity of groups have heavy tails, and a class is about some areas of the space more than others. Readers
are sets of groups, found so that what they may see is near to the share that a cell asks for. All of it comes from a
seed, block by block, so that a load that was interrupted goes on with the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._scale import word
from benchmarks._synthetic import AREAS, TOPICS, Space

Integers = NDArray[np.int64]
Vectors = NDArray[np.float32]

EACH, WORDS, WIDTH = 20, 25, 180
"""Chunks of a document; of a chunk, words at most, and characters with the spaces after the last word."""
CLASSES, GROUPS = 100, 100
OWN = 0.9
"""The share of a class's documents that are about its own areas; the others are about anything."""
BLOCK = 500
"""Documents that are made, loaded and committed together."""
NEGATIVE = "negative"
SHARES = {"0.1%": 0.001, "1%": 0.01, "5%": 0.05, "20%": 0.2, "50%": 0.5, "100%": 1.0, NEGATIVE: 0.015}


@dataclass(frozen=True)
class Reader:
    """Somebody in a set of groups."""

    name: str
    groups: tuple[int, ...]
    classes: tuple[int, ...]
    """Those that at least one of the groups opens."""
    documents: Integers
    """What can be seen, by number, in order."""

    @property
    def chunks(self) -> int:
        """How many chunks that is."""
        return len(self.documents) * EACH


@dataclass(frozen=True)
class Asked:
    """A question of a reader."""

    reader: Reader
    text: str
    vector: str
    """As pgvector reads it."""
    point: Vectors


class Company:
    """``documents`` documents of EACH chunks in a space of ``dimension``."""

    def __init__(self, documents: int, dimension: int = 384, seed: int = 20, classes: int = CLASSES) -> None:
        self.documents, self.seed = documents, seed
        self.space = Space(dimension, seed)
        draw = np.random.default_rng((seed, documents, 1))
        sizes = np.arange(1, classes + 1) ** -1.2
        self.class_of: Integers = draw.choice(classes, documents, p=sizes / sizes.sum()).astype(np.int64)
        self.class_of[:classes] = np.arange(classes)  # none is empty
        popular = draw.permutation(np.arange(1, classes + 1) ** -1.0)
        self.lists: list[tuple[int, ...]] = []
        """The groups of each class: one of its own, so that no two lists are equal, and up to two others."""
        topics = np.empty(documents, np.int64)
        for number in range(classes):
            further = draw.choice(classes, draw.integers(3), replace=False, p=popular / popular.sum())
            self.lists.append((number, *(int(group) for group in further if group != number)))
            its = np.flatnonzero(self.class_of == number)
            areas = draw.choice(AREAS, max(1, round(25 * math.sqrt(len(its) / documents))), replace=False)
            own = np.flatnonzero(np.isin(self.space.area_of, areas))
            if not len(own):
                own = np.arange(TOPICS)
            anything = draw.random(len(its)) >= OWN
            topics[its] = np.where(anything, draw.integers(TOPICS, size=len(its)), draw.choice(own, len(its)))
        self.topics: Integers = topics

    @property
    def chunks(self) -> int:
        """In all."""
        return self.documents * EACH

    @cached_property
    def middles(self) -> NDArray[np.float64]:
        """Of the documents, in latent coordinates."""
        return self.space.documents(self.topics, np.random.default_rng((self.seed, self.documents, 2)))

    def vectors(self, path: Path) -> Vectors:
        """Of all chunks, from a file that is made where it is not yet there."""
        if not path.exists():
            partial = path.with_suffix(".partial.npy")
            shape = (self.chunks, self.space.dimension)
            made = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=shape)
            for first in range(0, self.documents, BLOCK):
                its = self.middles[first : first + BLOCK]
                draw = np.random.default_rng((self.seed, self.documents, 3, first))
                made[first * EACH : (first + len(its)) * EACH] = self.space.chunks(its, EACH, draw)
            made.flush()
            partial.rename(path)
        found: Vectors = np.load(path, mmap_mode="r")
        return found

    def texts(self, first: int) -> Iterator[str]:
        """Of the chunks of the documents from ``first`` on, to the end of a block: WIDTH characters each."""
        draw = np.random.default_rng((self.seed, self.documents, 4, first))
        count = min(BLOCK, self.documents - first) * EACH
        places = np.searchsorted(_CHANCES, draw.random((count, WORDS)))
        for its in _WORDS[places]:
            text = " ".join(its)
            if len(text) >= WIDTH:
                text = text[: text.rindex(" ", 0, WIDTH)]
            yield text.ljust(WIDTH)

    # -- Readers --------------------------------------------------------------------------------------------

    def reader(self, name: str, groups: Sequence[int]) -> Reader:
        """Of these groups."""
        chosen = set(groups)
        classes = tuple(number for number, its in enumerate(self.lists) if chosen.intersection(its))
        documents = np.flatnonzero(np.isin(self.class_of, classes))
        return Reader(name, tuple(sorted(chosen)), classes, documents)

    def readers(self, cell: str, share: float, count: int) -> list[Reader]:
        """``count`` readers who may see about this share, of all the sets of groups that were tried, and each in several
        groups where that can be."""
        if share >= 1:
            return [self.reader(f"{cell}-0", range(len(self.lists)))]
        draw = np.random.default_rng((self.seed, self.documents, 5, round(share * 10_000)))
        sizes = np.bincount(self.class_of, minlength=len(self.lists))
        opens = np.zeros((len(self.lists), len(self.lists)), bool)  # by group and class
        for number, its in enumerate(self.lists):
            opens[list(its), number] = True
        tried: dict[tuple[int, ...], float] = {}
        for _ in range(20_000):
            groups = draw.choice(len(self.lists), draw.integers(1, 31), replace=False)
            # Cut where the share is passed, so that every size of set has its chance.
            seen = np.logical_or.accumulate(opens[groups]) @ sizes / self.documents
            place = int(np.argmin(np.abs(np.log(seen / share))))
            tried[tuple(sorted(groups[: place + 1].tolist()))] = float(abs(np.log(seen[place] / share)))
        near = [groups for groups in tried if tried[groups] < 0.05]
        if len(near) < count:
            near = sorted(tried, key=tried.__getitem__)[:count]
        near.sort(key=lambda groups: (len(groups), groups))
        places = np.linspace(0, len(near) - 1, count + 2)[1:-1] if len(near) > count + 1 else range(count)
        return [
            self.reader(f"{cell}-{number}", near[round(place)])
            for number, place in enumerate(places[: len(near)])
        ]

    # -- Questions ------------------------------------------------------------------------------------------

    def questions(self, cell: str, readers: Sequence[Reader], count: int, kind: int = 0) -> list[Asked]:
        """The readers ask in turn. Every other question is about a document that its reader may see, and the others
        about any document; in the negative cell all are about areas that the reader sees least of. ``kind`` gives other
        questions of the same sort."""
        draw = np.random.default_rng((self.seed, self.documents, 6, list(SHARES).index(cell), kind))
        about = []
        for number in range(count):
            reader = readers[number % len(readers)]
            if cell == NEGATIVE:
                about.append(int(draw.choice(self._foreign(reader))))
            elif number // len(readers) % 2:
                about.append(int(draw.integers(self.documents)))
            else:
                about.append(int(draw.choice(reader.documents)))
        points = self.space.questions(self.middles[about], draw)
        return [
            Asked(
                readers[number % len(readers)],
                " ".join(_WORDS[np.searchsorted(_CHANCES, draw.random(6))]),
                vector_text(point),
                point,
            )
            for number, point in enumerate(points)
        ]

    def _foreign(self, reader: Reader) -> Integers:
        """The documents of the ten areas that the reader sees least of."""
        area = self.space.area_of[self.topics]
        seen = np.bincount(area[reader.documents], minlength=AREAS)
        least = np.argsort(seen / np.maximum(1, np.bincount(area, minlength=AREAS)), kind="stable")
        return np.flatnonzero(np.isin(area, least[:10]))


def _vocabulary() -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    chances = 1 / (np.arange(20_000) + 2.7)
    return np.array([word(rank) for rank in range(len(chances))], object), np.cumsum(chances / chances.sum())


_WORDS, _CHANCES = _vocabulary()


def vector_text(point: Vectors) -> str:
    """A vector as pgvector reads it, every digit of it."""
    return "[" + ",".join(map(str, point)) + "]"


def nearest(vectors: Vectors, asked: Sequence[Asked], k: int = 10) -> list[tuple[Integers, float]]:
    """Of each question, the k nearest chunks that its reader may see, exactly, and the cosine of the last of them."""
    found: list[tuple[Integers, float]] = [(np.empty(0, np.int64), -1.0)] * len(asked)
    by_reader: dict[str, list[int]] = {}
    for place, question in enumerate(asked):
        by_reader.setdefault(question.reader.name, []).append(place)
    for places in by_reader.values():
        reader = asked[places[0]].reader
        points = np.stack([asked[place].point for place in places])
        best = np.full((len(places), k), -2.0, np.float32)
        ids = np.full((len(places), k), -1, np.int64)
        for first in range(0, len(reader.documents), 1000):
            documents = reader.documents[first : first + 1000]
            chunks = (documents[:, None] * EACH + np.arange(EACH)).ravel()
            cosines = np.concatenate([best, points @ vectors[chunks].T], axis=1)
            numbers = np.concatenate([ids, np.broadcast_to(chunks, (len(places), len(chunks)))], axis=1)
            top = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
            best, ids = np.take_along_axis(cosines, top, axis=1), np.take_along_axis(numbers, top, axis=1)
        for place, its, cosines in zip(places, ids, best, strict=True):
            found[place] = its[its >= 0], float(cosines[its >= 0].min())
    return found


def recall(vectors: Vectors, question: Asked, truth: tuple[Integers, float], answer: Sequence[int]) -> float:
    """The share of the exact answer's length that is as near as its last: a tie is no miss."""
    its, last = truth
    if not len(answer):
        return 0.0
    cosines = vectors[np.asarray(answer)] @ question.point
    return min(1.0, float((cosines >= last - 1e-6).sum() / len(its)))
