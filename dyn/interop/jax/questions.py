"""What JAX and the user's lines ask of symbolic sizes while a function is traced.

A comparison by ``==`` of two sizes that JAX cannot decide is False there, without a word, since it has to be answered
for hashing. So ``if x.shape[0] == 1`` would go one way for every size, and where two sizes have to be equal JAX says so
later, in as many ways as it has operations. Here each such answer is noted: the program is then for the sizes for which
it is true, and an operation that failed did so because of one that is wrong for the sizes at hand.

JAX's class of dimensions has no place for a listener; its ``__eq__`` and ``__bool__`` get one, once, which asks nothing
of anyone unless the thread is tracing here.
"""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

from dyn.forking import lock
from dyn.source import UNKNOWN, Loc, is_user_frame


@dataclass(frozen=True, slots=True)
class Question:
    """``left == right``, which was answered no. ``direct``: by a line outside of JAX, which may do as it likes then."""

    left: str
    right: str
    loc: Loc
    direct: bool


class _Listener(threading.local):
    """Who listens on this thread."""

    ear: Ear | None = None


_LISTENER = _Listener()


class Ear:
    """Notes the questions of one trace, each once for each line that asks it."""

    def __init__(self) -> None:
        self._heard: dict[Any, tuple[Any, Any, Loc, bool]] = {}

    def hear(self, left: Any, right: Any, frame: FrameType | None) -> None:
        """Note that ``left == right`` was answered no, where it is asked by an expression in ``frame``."""
        while frame is not None and frame.f_code.co_name in ("__ne__", "__eq__") and not is_user(frame.f_code):
            frame = frame.f_back
        if frame is None or _compares(frame):
            self.note(left, right, frame)

    def note(self, left: Any, right: Any, frame: FrameType | None) -> None:
        """Note a question of ``frame``."""
        direct = frame is not None and is_user(frame.f_code)
        loc = _loc_of(frame)
        # The sizes are kept by the note, so that no other object gets their ids.
        self._heard.setdefault((id(left), id(right), loc), (left, right, loc, direct))

    def questions(self) -> list[Question]:
        """What was heard, oldest first."""
        found: dict[Question, None] = {}
        for left, right, loc, direct in self._heard.values():
            found[Question(str(left), str(right), loc, direct)] = None
        return list(found)


#: What expressions of Python's compare with. Native code, which is called, does so for its tables: JAX's caches compare
#: sizes with any that they have, of other traces too.
_COMPARING = frozenset({dis.opmap["COMPARE_OP"], dis.opmap["CONTAINS_OP"]})


def _compares(frame: FrameType) -> bool:
    """Whether what a frame is at is a comparison."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _COMPARING


#: Whether code of a file is the user's.
_OWN: dict[str, bool] = {}
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def is_user(code: CodeType) -> bool:
    """Whether code is the user's, or of a library of theirs: not dyn's, JAX's, NumPy's or Python's own."""
    return _is_own(code.co_filename)


def _is_own(name: str) -> bool:
    own = _OWN.get(name)
    if own is None:
        folders = [os.path.dirname(path) + os.sep for path in map(_file_of, ("jax", "jaxlib", "numpy")) if path]
        standard = name.startswith(_LIBRARY) and "site-packages" not in name
        own = is_user_frame(name) and not standard and not name.startswith((*folders, "<frozen"))
        _OWN[name] = own
    return own


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def _loc_of(frame: FrameType | None) -> Loc:
    while frame is not None:
        if is_user(frame.f_code):
            return Loc(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return UNKNOWN


def loc_of_error(error: BaseException) -> Loc:
    """The user's innermost line that an exception came through, or that the operation comes from which was lowered."""
    found, step = UNKNOWN, error.__traceback__
    while isinstance(step, TracebackType):
        frame = step.tb_frame
        if is_user(frame.f_code):
            found = Loc(frame.f_code.co_filename, step.tb_lineno, frame.f_code.co_name)
        elif "eqn" in frame.f_locals:
            line = _line_of(frame.f_locals["eqn"])
            found = found if line is None else line
        step = step.tb_next
    return found


def _line_of(equation: Any) -> Loc | None:
    """The user's line that an equation of JAX's comes from; lowering has left it."""
    traceback = getattr(getattr(equation, "source_info", None), "traceback", None)
    for frame in getattr(traceback, "frames", ()):
        if _is_own(frame.file_name):
            return Loc(frame.file_name, frame.line_num, frame.function_name)
    return None


@contextmanager
def listening(dimension: type) -> Iterator[Ear]:
    """Listen to what this thread asks of sizes of the class ``dimension``."""
    _install(dimension)
    ear, before = Ear(), _LISTENER.ear
    _LISTENER.ear = ear
    try:
        yield ear
    finally:
        _LISTENER.ear = before


@contextmanager
def silence() -> Iterator[None]:
    """Compare sizes without being heard."""
    before, _LISTENER.ear = _LISTENER.ear, None
    try:
        yield
    finally:
        _LISTENER.ear = before


_installing = lock()


def _install(dimension: Any) -> None:
    """Have a class of dimensions tell who listens; it answers as before."""
    with _installing:
        if not getattr(dimension.__eq__, "_dyn_listens", False):
            _install_once(dimension)


def _install_once(dimension: Any) -> None:
    equal, truth = dimension.__eq__, getattr(dimension, "__bool__", None)

    def heard_eq(self: Any, other: Any) -> Any:
        answer = equal(self, other)
        ear = _LISTENER.ear
        if ear is not None and not answer and (isinstance(other, dimension | int)):
            ear.hear(self, other, sys._getframe(1))
        return answer

    def heard_bool(self: Any) -> bool:
        answer = True if truth is None else bool(truth(self))
        ear = _LISTENER.ear
        if ear is not None and answer:
            ear.note(self, 0, sys._getframe(1))
        return answer

    heard_eq._dyn_listens = True  # pyright: ignore[reportFunctionMemberAccess]  # functions take attributes
    dimension.__eq__ = heard_eq
    dimension.__bool__ = heard_bool
