"""A stack deep enough for a proof, however deep the stack is already."""

from __future__ import annotations

import _thread
import contextvars
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def on_enough_stack(compute: Callable[[], T]) -> T:
    """``compute()``; where the stack runs out, once more on the stack of a thread of its own.

    How deep a proof goes is bounded by the levels that an expression may have (``MAX_HEIGHT``), so an answer does not
    depend on who asks. What ``compute`` leaves behind when it is cut off must be of use, or none, as a memo table is.
    """
    try:
        return compute()
    except RecursionError:
        pass
    found: list[T] = []
    failed: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(compute))
        except BaseException as error:
            failed.append(error)
        finally:
            done.release()

    _thread.start_new_thread(run, ())
    done.acquire()
    if failed:
        raise failed[0]
    return found[0]
