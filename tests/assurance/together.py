"""What the proofs of many at once have in common: processes that share numbers, since threads would wait for one another in Python."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

ACKNOWLEDGED, BEGUN, DONE, COUNTS = 0, 1, 2, 3
NEAR = "p_embedding => '[1, 0, 0]', p_space => 'toy', "  # arguments of a dense search
_shared: Any = None


def numbers() -> Any:
    """What this process shares with the one that started it."""
    return _shared


def _share(array: Any) -> None:
    global _shared
    _shared = array


@contextmanager
def processes(number: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """So many processes, and the numbers that they share with this one."""
    context = multiprocessing.get_context("spawn")
    array = context.RawArray("q", COUNTS + number)
    with ProcessPoolExecutor(number, context, _share, (array,)) as pool:
        yield pool, array
