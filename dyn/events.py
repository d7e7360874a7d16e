"""Log of compilations, guards and caches: ``DYN_LOG=compile,guards,cache`` shows its lines on stderr.

Each topic is a logger of Python's ``logging``: ``dyn.compile``, ``dyn.guards`` or ``dyn.cache``, at the level INFO, so
that programs that configure logging get them without DYN_LOG. An event is a line. Nothing is emitted on the path of a
warm call, and callers ask :func:`wanted` first where the text costs something.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from dyn import config

_ROOT = "dyn"
_LOGGERS = {topic: logging.getLogger(f"{_ROOT}.{topic}") for topic in config.TOPICS}


class _ToStderr(logging.Handler):
    """Shows the events of the topics that the setting ``log`` names. It looks stderr up anew for each."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.removeprefix(f"{_ROOT}.") in config.current().topics():
            try:
                sys.stderr.write(f"{record.name}: {record.getMessage()}\n")
            except Exception:  # what logging does with a stream that is gone
                self.handleError(record)


def _attach() -> None:
    logger = logging.getLogger(_ROOT)
    if not any(isinstance(handler, _ToStderr) for handler in logger.handlers):
        # It is silent unless it is asked for, and so keeps logging's handler of last resort from speaking up, as a
        # NullHandler would.
        logger.addHandler(_ToStderr())
    for topic in config.current().topics():  # so that what is logged without this file is shown too
        _LOGGERS[topic].setLevel(logging.INFO)


_attach()


#: Is told of a stage of a compilation as it ends: the function's name, the stage, and its beginning and end by
#: ``time.perf_counter``.
StageListener = Callable[[str, str, float, float], None]
_LISTENERS: list[StageListener] = []


def listen(listener: StageListener) -> None:
    """Have a listener told of the stages of compilations, on the threads that compile."""
    _LISTENERS.append(listener)


def unlisten(listener: StageListener) -> None:
    """Tell a listener nothing any more."""
    _LISTENERS.remove(listener)


#: Is told of a stage as it begins: the function's name, the stage, and the time by ``time.perf_counter``.
BeginListener = Callable[[str, str, float], None]
_BEGIN_LISTENERS: list[BeginListener] = []


def listen_to_begins(listener: BeginListener) -> None:
    """Have a listener told of stages of compilations as they begin; each ends, with an error or without."""
    _BEGIN_LISTENERS.append(listener)


def unlisten_to_begins(listener: BeginListener) -> None:
    """Tell a listener of no more stages that begin."""
    _BEGIN_LISTENERS.remove(listener)


def begin(name: str, stage: str, start: float) -> None:
    """A stage of a function's compilation begins."""
    for listener in tuple(_BEGIN_LISTENERS):
        listener(name, stage, start)


def stage(name: str, stage: str, start: float, end: float) -> None:
    """A stage of a function's compilation has ended."""
    for listener in tuple(_LISTENERS):
        listener(name, stage, start, end)


def wanted(topic: str) -> bool:
    """Whether anybody listens to a topic."""
    return topic in config.current().topics() or _LOGGERS[topic].isEnabledFor(logging.INFO)


def compiled(text: str, *values: object) -> None:
    """A function was compiled, or is about to be: what, why, how long it took."""
    _emit("compile", text, values)


def guards(text: str, *values: object) -> None:
    """A Python branch on a dim was recorded, or went another way than in every program there is."""
    _emit("guards", text, values)


def cache(text: str, *values: object) -> None:
    """Code was found in a cache, missed there, stored or refused."""
    _emit("cache", text, values)


def _emit(topic: str, text: str, values: tuple[object, ...]) -> None:
    if not wanted(topic):
        return
    logger = _LOGGERS[topic]
    # Past the level of the logger: DYN_LOG is asked for by name, and need not lower the level for all handlers' sake.
    logger.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, values, None))
