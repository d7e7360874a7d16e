"""Frames that ask about a size, told apart: the user's, those of JAX's functions, and of its operations' rules."""

from __future__ import annotations

import dis
import functools
import os
import sys
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

from dyn.source import UNKNOWN, Loc, is_user_frame
from dyn.trace.bytecode import UNKNOWN_CALLEE, callee

#: What expressions of Python's compare with. Native code, which is called, does so for its tables: JAX's caches compare
#: sizes with any that they have, of other traces too.
_COMPARING = frozenset({dis.opmap["COMPARE_OP"], dis.opmap["CONTAINS_OP"]})


_CALLING = frozenset(code for name, code in dis.opmap.items() if name.startswith(("CALL", "PRECALL")))


def compares(frame: FrameType) -> bool:
    """Tell whether what a frame is at is a comparison."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _COMPARING


def calls(frame: FrameType) -> bool:
    """Tell whether what a frame is at is a call, of native code then: other code has a frame of its own."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _CALLING


def calls_builtin(frame: FrameType) -> bool:
    """Tell whether a frame calls a function or a type of Python's own (``table.get``, ``operator.eq``), or may.

    JAX's functions, which look sizes up among those they have compiled for, are native too: to them, sizes that are
    written differently are other ones, and what they are found by is only ever found for the same trace.
    """
    if not calls(frame):
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


def is_standard(code: CodeType) -> bool:
    """Tell whether code is of Python's own library."""
    return _is_of_library(code.co_filename)


def _is_of_library(file: str) -> bool:
    return file.startswith(_LIBRARY) and "site-packages" not in file


#: Parts of JAX that are written in terms of others, and that take answers as Python's own: they are told the truth.
_WRITTEN_WITH_IT = ("numpy", "scipy", "nn", "lax", "image", "ops", "random", "random.py", "third_party")
#: But these ask for nothing that a result depends on.
_IDLE = frozenset({
    ("lax.py", "broadcast_in_dim"),  # the same shape again: asked for where arrays are spread over devices alone
    ("lax.py", "_tile_abstract_eval"),  # an error about such arrays
})  # fmt: skip


def acts(frame: FrameType) -> bool:
    """Tell whether the code of a frame takes an answer as it is: the user's, or a function of JAX's made of others."""
    asker: FrameType | None = frame
    while asker is not None and is_standard(asker.f_code):
        asker = asker.f_back
    if asker is None:
        return False
    file = asker.f_code.co_filename
    part = _part_of_jax(file)
    idle = (os.path.basename(file), asker.f_code.co_name) in _IDLE
    return part is None or (part in _WRITTEN_WITH_IT and not idle)


def demands(frame: FrameType | None) -> bool:
    """Tell whether JAX's code asks in order to raise where sizes are not equal: the rules of its operations do.

    Whether a size is 1 they ask too, and know what to do where it is not.
    """
    return _rule(frame).endswith("_shape_rule") or broadcasts(frame)


def broadcasts(frame: FrameType | None) -> bool:
    """Tell whether JAX's code asks in order to broadcast, which it also does where a size is 1."""
    return _rule(frame) == "_try_broadcast_shapes"


def _rule(frame: FrameType | None) -> str:
    """The function that asks, beyond those that compare for it."""
    while frame is not None and frame.f_code.co_name.startswith(("definitely_equal", "<")):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_name


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
        own = is_user_frame(name) and not _is_of_library(name) and not name.startswith((*folders, "<frozen"))
        _OWN[name] = own
    return own


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def loc_of(frame: FrameType | None) -> Loc:
    """The user's innermost line from a frame on; UNKNOWN without one."""
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


def asker() -> FrameType | None:
    """The frame that has asked what is being decided, beyond JAX's class of dimensions and its listener."""
    return beyond_the_class(sys._getframe(1))


def beyond_the_class(frame: FrameType | None) -> FrameType | None:
    """The first frame from ``frame`` on that is neither of JAX's class of dimensions nor of what listens to it.

    Nor is it the ``__eq__`` of a dataclass, which asks for others: JAX's tables have keys with sizes in them, and
    compare them with those of other traces, which meet there by chance.
    """
    while frame is not None and (
        frame.f_code.co_filename.endswith(("shape_poly.py", "listening.py")) or _is_generated(frame.f_code)
    ):
        frame = frame.f_back
    return frame


def _is_generated(code: CodeType) -> bool:
    return code.co_filename == "<string>" and code.co_name == "__eq__"
