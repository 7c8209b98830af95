"""Work that may be given up: nobody waits for it longer than told, not even the interpreter at its end."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")
MOST_GIVEN_UP = 32
_given_up: set[threading.Thread] = set()
_counting = threading.Lock()


class Busy(Exception):
    """Too much earlier work was given up and has not ended."""


def begin(work: Callable[..., _Result], *arguments: Any) -> tuple[Future[_Result], Callable[[], None]]:
    """The result to come, and what is to be called when nobody waits for it any more, whether it came or not.

    A daemon thread does it: those of an executor are waited for when the interpreter ends. Raises Busy where
    32 such threads still run though they were given up: a service that hangs must not collect them for ever.
    """
    with _counting:
        _given_up.difference_update([thread for thread in _given_up if not thread.is_alive()])
        if len(_given_up) >= MOST_GIVEN_UP:
            raise Busy(f"{len(_given_up)} earlier calls were given up and have not ended")
    future: Future[_Result] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work, *arguments)
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:
            # SystemExit or CancelledError of the work must not become the caller's.
            future.set_exception(RuntimeError(f"the work ended with {type(error).__name__}"))
        else:
            future.set_result(result)

    def leave() -> None:
        if not future.done():
            with _counting:
                _given_up.add(thread)

    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled, only given up
    thread = threading.Thread(target=run, name="pgrag", daemon=True)
    thread.start()
    return future, leave
