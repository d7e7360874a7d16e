"""Questions that JAX's code and the user's lines ask of symbolic sizes while a function is traced.

JAX answers a comparison by ``==`` of two sizes with no where it cannot decide it, and a truth value with yes: it has to
answer, for hashing. So ``if x.shape[0] == 1`` would go one way for every size. Here each such answer is noted. Unless
it is right for all sizes, the program is for those sizes alone for which it is, and is traced again where it is wrong
for the sizes at hand (:func:`~dyn.interop.jax.size_assumptions.guards_of_answers`).

That holds for the user's lines and for the functions of JAX's that are written in terms of others: ``jax.numpy``,
``jax.scipy``, ``jax.lax``, … Those that JAX is built upon ask whether sizes are *known* to be equal
(``core.definitely_equal``), and where they are not known to be, take a way that is right for both, or raise: then what
was noted says which answer was wrong. Sizes that a line of the user's looks up in a table are compared by their hashes
first, which are not those of numbers: such a size is made a number (:attr:`Question.looked_up`).

Comparisons by ``<`` and its kin, ``int()`` and ``range()`` need no listener: JAX decides them for all sizes, or raises.
JAX's class of dimensions has no place for a listener; its ``__eq__``, ``__bool__`` and ``__hash__`` get one, once,
which asks nothing of anyone unless the thread is tracing here.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    MethodDescriptorType,
    MethodWrapperType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any, cast

from dyn.fork_safety import lock
from dyn.source import UNKNOWN, Loc, is_user_frame
from dyn.trace.bytecode import UNKNOWN_CALLEE, callee


@dataclass(frozen=True, slots=True)
class Question:
    """``left == right``, which was answered no.

    ``direct``: by code that may do as it likes then. ``settled``: no is right for all sizes that the trace is for.
    ``looked_up``: no comparison was made, but ``left`` was looked for in a table.
    """

    left: str
    right: str
    loc: Loc
    direct: bool
    settled: bool = False
    looked_up: bool = False


class _Listener(threading.local):
    """The recorder of questions on this thread."""

    ear: QuestionLog | None = None


_LISTENER = _Listener()


class QuestionLog:
    """Notes the questions of one trace, each once for each line that asks it."""

    def __init__(self) -> None:
        self._heard: dict[Any, tuple[Any, Any, Loc, bool]] = {}
        self._looked_up: dict[Any, tuple[Any, Loc]] = {}

    def hear(self, left: Any, right: Any, frame: FrameType | None) -> None:
        """Note that ``left == right`` was answered no, where it is asked by an expression in ``frame``."""
        while frame is not None and frame.f_code.co_name in ("__ne__", "__eq__") and not is_user(frame.f_code):
            frame = frame.f_back
        if frame is None or _compares(frame) or (_acts(frame) and _calls_builtin(frame)):
            self.note(left, right, frame)

    def note(self, left: Any, right: Any, frame: FrameType | None) -> None:
        """Note a question of ``frame``."""
        direct = frame is not None and _acts(frame)
        loc = _loc_of(frame)
        # The sizes are kept by the note, so that no other object gets their ids.
        self._heard.setdefault((id(left), id(right), loc), (left, right, loc, direct))

    def look_up(self, size: Any, frame: FrameType | None) -> None:
        """Note that the hash of a size is asked for in ``frame``, where that is a table of the user's."""
        while frame is not None and (frame.f_code.co_name == "__hash__" or _is_standard(frame.f_code)):
            frame = frame.f_back
        if frame is not None and is_user(frame.f_code) and (not _calls(frame) or _calls_builtin(frame)):
            loc = _loc_of(frame)
            self._looked_up.setdefault((id(size), loc), (size, loc))

    def questions(self) -> list[Question]:
        """The questions that were recorded, oldest first."""
        found: dict[Question, None] = {}
        with unrecorded():
            for left, right, loc, direct in self._heard.values():
                found[Question(str(left), str(right), loc, direct, direct and _differ(left, right))] = None
            for size, loc in self._looked_up.values():
                found[Question(str(size), "0", loc, direct=True, looked_up=True)] = None
        return list(found)


def _differ(left: Any, right: Any) -> bool:
    """Tell whether JAX can prove that two sizes differ, for all that a trace is for."""
    difference = left - right
    for less, more in ((0, difference), (difference, 0)):
        try:
            if less < more:
                return True
        except Exception:  # JAX raises where it does not know
            continue
    return False


#: What expressions of Python's compare with. Native code, which is called, does so for its tables: JAX's caches compare
#: sizes with any that they have, of other traces too.
_COMPARING = frozenset({dis.opmap["COMPARE_OP"], dis.opmap["CONTAINS_OP"]})


_CALLING = frozenset(code for name, code in dis.opmap.items() if name.startswith("CALL"))


def _compares(frame: FrameType) -> bool:
    """Tell whether what a frame is at is a comparison."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _COMPARING


def _calls(frame: FrameType) -> bool:
    """Tell whether what a frame is at is a call, of native code then: other code has a frame of its own."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _CALLING


def _calls_builtin(frame: FrameType) -> bool:
    """Tell whether a frame calls a function or a type of Python's own (``table.get``, ``operator.eq``), or may.

    JAX's functions, which look sizes up among those they have compiled for, are native too: to them, sizes that are
    written differently are other ones, and what they are found by is only ever found for the same trace.
    """
    if not _calls(frame):
        return False
    found = callee(frame)
    while isinstance(found, functools.partial):
        found = cast("functools.partial[Any]", found).func
    if found is UNKNOWN_CALLEE:
        return True
    module = getattr(found, "__module__", None) or type(found).__module__
    return isinstance(found, _BUILTINS) or module in ("builtins", "collections", "operator", "itertools")


_BUILTINS = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)


#: Whether code of a file is the user's.
_OWN: dict[str, bool] = {}
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def is_user(code: CodeType) -> bool:
    """Tell whether code is the user's, or of a library of theirs: not dyn's, JAX's, NumPy's or Python's own."""
    return _is_own(code.co_filename)


def _is_standard(code: CodeType) -> bool:
    """Tell whether code is of Python's own library."""
    return code.co_filename.startswith(_LIBRARY) and "site-packages" not in code.co_filename


#: Parts of JAX that are written in terms of others, and that take answers as Python's own: they are told the truth.
_WRITTEN_WITH_IT = ("numpy", "scipy", "nn", "lax", "image", "ops", "random.py", "third_party")
#: But these ask for nothing that a result depends on.
_IDLE = frozenset({
    ("lax.py", "broadcast_in_dim"),  # the same shape again: asked for where arrays are spread over devices alone
    ("lax.py", "_tile_abstract_eval"),  # an error about such arrays
})  # fmt: skip


def _acts(frame: FrameType) -> bool:
    """Tell whether the code of a frame takes an answer as it is: the user's, or a function of JAX's made of others."""
    asker: FrameType | None = frame
    while asker is not None and _is_standard(asker.f_code):
        asker = asker.f_back
    if asker is None:
        return False
    file = asker.f_code.co_filename
    part = _part_of_jax(file)
    idle = (os.path.basename(file), asker.f_code.co_name) in _IDLE
    return part is None or (part in _WRITTEN_WITH_IT and not idle)


@functools.lru_cache(maxsize=4096)
def _part_of_jax(file: str) -> str | None:
    """The folder or file of JAX's implementation that a file is in; None for any other file."""
    path = _file_of("jax")
    folder = os.path.join(os.path.dirname(path), "_src", "") if path else None
    if folder is None or not file.startswith(folder):
        return None
    return file[len(folder) :].split(os.sep, 1)[0]


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
def record_questions(dimension: type) -> Iterator[QuestionLog]:
    """Listen to what this thread asks of sizes of the class ``dimension``."""
    _install(dimension)
    ear, before = QuestionLog(), _LISTENER.ear
    _LISTENER.ear = ear
    try:
        yield ear
    finally:
        _LISTENER.ear = before


@contextmanager
def unrecorded() -> Iterator[None]:
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
    equal, truth, hashed = dimension.__eq__, getattr(dimension, "__bool__", None), dimension.__hash__

    def heard_eq(self: Any, other: Any) -> Any:
        answer = equal(self, other)
        ear = _LISTENER.ear
        if ear is not None and not answer and isinstance(other, dimension | int) and _same_trace(self, other):
            ear.hear(self, other, sys._getframe(1))
        return answer

    def heard_bool(self: Any) -> bool:
        answer = True if truth is None else bool(truth(self))
        ear = _LISTENER.ear
        if ear is not None and answer:
            ear.note(self, 0, sys._getframe(1))
        return answer

    def heard_hash(self: Any) -> int:
        ear = _LISTENER.ear
        if ear is not None:
            ear.look_up(self, sys._getframe(1))
        return hashed(self)

    heard_eq._dyn_listens = True  # pyright: ignore[reportFunctionMemberAccess]  # functions take attributes
    dimension.__eq__ = heard_eq
    dimension.__bool__ = heard_bool
    dimension.__hash__ = heard_hash


def _same_trace(size: Any, other: Any) -> bool:
    """Tell whether two sizes are of one trace; JAX says that others are not equal."""
    return isinstance(other, int) or getattr(other, "scope", None) is getattr(size, "scope", None)
