"""Python's part of a backward pass: hooks and backward functions that change lists, attributes or variables, or print.

A backward pass is traced once, and what its Python code does beside computing would be done then, and by no pass. Code
of the user's that a traced pass comes to is watched: the objects that it reaches before the pass (arguments, variables
of closures and globals) are compared once it has run, and are put back.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import io
import random
import sys
import weakref
from _lsprof import Profiler
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from dyn.errors import NotYetError
from dyn.interop.torch.attributes import is_plain, own_names
from dyn.interop.torch.objects import MOST, SIMPLE, holds, is_set
from dyn.source import UNKNOWN, Loc, is_user_frame, loc_at
from dyn.trace.garbage import is_collecting
from dyn.trace.patched_names import Replacement

#: Containers whose contents Python tells, and that can be filled again.
_FILLED = (list, dict, set, deque, bytearray)
_OUTPUT = (open, io.open)
#: What has nothing that a pass could change. A size leads to the trace that it is of.
_UNWATCHED: Any = (*SIMPLE, torch.SymInt, torch.SymFloat, torch.SymBool)
_LOGGING = "logging/__init__.py"
#: Arrays with more elements are not compared.
_MOST_ELEMENTS = 1 << 20


def _is_iterator(value: Any) -> bool:
    """Whether something is at a place which Python keeps to itself: generators, ``map``, iterators of containers.

    A class of the user's has its place in attributes, and a file in the system.
    """
    if not isinstance(value, Iterator) or isinstance(value, io.IOBase):
        return False
    return not isinstance(type(value).__next__, FunctionType)


def _is_kept(frame: FrameType, function: Any) -> bool:
    """Return True if the state of random numbers is read or set by PyTorch, which keeps it where Dynamo compiles."""
    caller = frame.f_back  # of the function in Python's ``random``
    return (
        function.__name__ in ("getstate", "setstate")
        and caller is not None
        and not is_user_frame(caller.f_code.co_filename)
    )


@dataclass(slots=True)
class _Frame:
    """A call of the user's code, and the variables of closures and globals that it may set, as they were."""

    frame: FrameType
    closed: dict[str, Any]
    globals: dict[str, Any]


@dataclass(eq=False)
class _Watch:
    """The objects that the user's code of a backward pass reaches, with what they had before."""

    #: Whether attributes of modules count: inside of a function each call sets those.
    with_modules: bool
    before: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    #: The objects that lead to others and have nothing of their own, by identity, so that none is come to twice.
    passed: dict[int, Any] = field(default_factory=dict)
    frames: list[_Frame] = field(default_factory=list)
    #: The first effect that is none of an object's: what it does, and the line.
    effect: tuple[str, Loc] | None = None
    #: The line of the code that was come to first.
    loc: Loc | None = None
    #: Variables of closures that were set: the code that did, the name, the value and the one before.
    variables: list[tuple[CodeType, str, Any, Any]] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take an event of the interpreter's (``sys.setprofile``)."""
        if is_collecting():
            return
        if event == "c_call":
            self._note_output(frame, argument)
        elif event == "call" and is_user_frame(frame.f_code.co_filename):
            self._note_call(frame)
        elif event == "return" and self.frames and self.frames[-1].frame is frame:
            self._note_return(self.frames.pop())

    def _note_output(self, frame: FrameType, function: Any) -> None:
        if self.effect is not None or not isinstance(function, BuiltinFunctionType | BuiltinMethodType):
            return
        owner = getattr(function, "__self__", None)
        is_written = isinstance(owner, io.IOBase) and function.__name__ == "write"
        name = frame.f_code.co_filename
        if (is_written or function in _OUTPUT) and (is_user_frame(name) or name.endswith(_LOGGING)):
            self.note_effect("prints or writes to a file", frame)
            if not name.endswith(_LOGGING):  # whose handlers keep errors to themselves
                raise self.refusal()
        elif isinstance(owner, random.Random) and not _is_kept(frame, function):
            self.note_effect("draws random numbers of Python's", frame)
            raise self.refusal()

    def refusal(self) -> NotYetError:
        """The error for the effect that was noted. It is raised before a function has it, where nobody can undo it."""
        assert self.effect is not None, "one was noted"
        return NotYetError(
            f"a backward pass that {self.effect[0]}, which Python does, and no program.",
            loc=self.effect[1],
            remedy="write to a tensor in place, which each backward pass does.",
        )

    def note_effect(self, what: str, frame: FrameType) -> None:
        """Note an effect of the code that a frame is of, or that has called it."""
        caller: FrameType | None = frame
        while caller is not None and not is_user_frame(caller.f_code.co_filename):
            caller = caller.f_back
        self.effect = self.effect or (what, _line(frame if caller is None else caller))

    def _note_call(self, frame: FrameType) -> None:
        code = frame.f_code
        if self.loc is None:
            self.loc = _line(frame)
        names = frame.f_locals
        closed = {name: names[name] for name in code.co_freevars if name in names}
        known = {name: frame.f_globals[name] for name in code.co_names if name in frame.f_globals}
        is_outermost = not self.frames
        for name, value in (*closed.items(), *known.items()):
            if _is_iterator(value):
                self.note_effect(f"may take from the iterator {name}", frame)
                raise self.refusal()
        self.frames.append(_Frame(frame, closed, known))
        self._keep((*closed.values(), *known.values(), *(names.values() if is_outermost else ())))

    def _note_return(self, call: _Frame) -> None:
        now = call.frame.f_locals
        for name, value in call.closed.items():
            if now.get(name) is not value:
                self.effect = self.effect or (f"sets the variable {name}", _line(call.frame))
                self.variables.append((call.frame.f_code, name, now.get(name), value))
        for name, value in call.globals.items():
            if call.frame.f_globals.get(name) is not value:
                self.effect = self.effect or (f"sets the variable {name}", _line(call.frame))
                call.frame.f_globals[name] = value

    def _keep(self, roots: Iterable[Any]) -> None:
        """Keep what objects, and those that they lead to, have now."""
        left = list(roots)
        while left and len(self.before) + len(self.passed) < MOST:
            one = left.pop()
            if id(one) in self.before or id(one) in self.passed or isinstance(one, _UNWATCHED):
                continue
            content = self._content(one)
            if content is not None:
                self.before[id(one)] = one, content
                if not isinstance(content, np.ndarray):
                    left += content.values() if isinstance(content, dict) else content
                if not isinstance(one, type) and is_plain(type(one)):
                    left.append(type(one))
            else:
                self.passed[id(one)] = one
                left += _leading(one)

    def _content(self, one: Any) -> Any:
        """A copy of what an object has that may change; None of one that has nothing that is watched."""
        if isinstance(one, _FILLED):
            return _copied(one)
        if isinstance(one, torch.nn.Module):
            return dict(own_names(one)) if self.with_modules else None
        if isinstance(one, type):
            own = {name: value for name, value in vars(one).items() if not name.startswith("__")}
            return own if _is_users(one) else None
        if isinstance(one, torch.Tensor | FunctionType | MethodType | torch.optim.Optimizer):
            return None
        if isinstance(one, array):
            return one.tobytes()
        if isinstance(one, np.ndarray):
            return one.copy() if one.size <= _MOST_ELEMENTS and not one.dtype.hasobject else None
        if (slots := _slots(type(one))) is not None:
            return {name: getattr(one, name) for name in slots if hasattr(one, name)}
        if is_plain(type(one)) or isinstance(one, torch.autograd.function.BackwardCFunction):
            return dict(own_names(one))
        return None

    def changed(self) -> Iterator[tuple[Any, Any]]:
        """The objects that have something else now, with what they had."""
        for one, before in list(self.before.values()):
            now = self._content(one)
            if not _is_same(now, before):
                yield one, before


def _leading(one: Any) -> tuple[Any, ...]:
    if isinstance(one, FunctionType):
        cells = [cell.cell_contents for cell in one.__closure__ or () if is_set(cell)]
        return (*cells, *(one.__defaults__ or ()))
    if isinstance(one, MethodType):
        return one.__self__, one.__func__
    if isinstance(one, functools.partial):
        return one.func, *one.args, *one.keywords.values()
    if isinstance(one, weakref.ref):
        return (one(),)
    return tuple(one) if isinstance(one, tuple) else ()


def _is_users(kind: type) -> bool:
    """Whether a class is written in a file of the user's."""
    return is_user_frame(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...] | None:
    """The names of the slots of a class of the user's whose objects have all of their state there; None for others."""
    layers = [one for one in kind.__mro__ if one is not object]
    if not layers or any("__slots__" not in vars(one) for one in layers):
        return None
    names = [vars(one)["__slots__"] for one in layers]
    flat = [name for own in names for name in ((own,) if isinstance(own, str) else own)]
    return tuple([name for name in flat if not name.startswith("__")]) if _is_users(kind) else None


def _copied(one: Any) -> Any:
    return dict(one) if isinstance(one, dict) else bytes(one) if isinstance(one, bytearray) else list(one)


def _is_same(now: Any, before: Any) -> bool:
    if isinstance(before, bytes):
        return now == before
    if isinstance(before, np.ndarray):
        return now.dtype == before.dtype and now.shape == before.shape and now.tobytes() == before.tobytes()
    if len(now) != len(before):
        return False
    if isinstance(before, dict):
        return all(name in now and now[name] is value for name, value in before.items())
    return all(a is b for a, b in zip(now, before, strict=True))


def _restore(one: Any, before: Any) -> None:
    """Have an object hold what it held."""
    if isinstance(one, np.ndarray):
        one[...] = before
        return
    if isinstance(one, array):
        one[:] = array(one.typecode, before)
        return
    if isinstance(one, type) or _slots(type(one)) is not None:
        names = vars(one) if isinstance(one, type) else [name for name in _slots(type(one)) or () if hasattr(one, name)]
        for name in [name for name in names if name not in before and not name.startswith("__")]:
            delattr(one, name)
        for name, value in before.items():
            now = vars(one).get(name) if isinstance(one, type) else getattr(one, name, None)
            if now is not value:
                setattr(one, name, value)
        return
    own = one if isinstance(one, _FILLED) else own_names(one)
    if isinstance(own, bytearray):
        own[:] = before
        return
    own.clear()
    own.extend(before) if isinstance(own, list | deque) else own.update(before)


def _restore_variable(code: CodeType, name: str, now: Any, before: Any) -> None:
    """Have a variable of the closures that functions of some code are of hold what it held."""
    for function in gc.get_referrers(code):
        if isinstance(function, FunctionType) and function.__code__ is code:
            cell = (function.__closure__ or ())[code.co_freevars.index(name)]
            if is_set(cell) and cell.cell_contents is now:
                cell.cell_contents = before


def _line(frame: FrameType) -> Loc:
    code = frame.f_code
    return loc_at(code.co_filename, frame.f_lineno, code.co_name)


@contextlib.contextmanager
def refused(*, with_modules: bool = True) -> Iterator[None]:
    """Refuse what Python code in a traced backward pass does beside computing, and have it undone.

    Raises NotYetError where it changes what was there before, ``with_modules`` their attributes too, or prints.
    """
    if isinstance(getattr(sys.getprofile(), "__self__", None), _Watch):  # somebody watches already
        yield
        return
    watch = _Watch(with_modules)
    try:
        with _PRINT.active(watch), _profiled_by(watch.note):
            yield
    finally:
        watch.frames.clear()
        changed = list(watch.changed())
        keeps = any(holds(_copied(one), _is_traced) for one, _ in changed if isinstance(one, list | dict))
        for one, content in changed:
            _restore(one, content)
        for variable in reversed(watch.variables):
            _restore_variable(*variable)
    effect = watch.effect
    if effect is None and changed:
        one = changed[0][0]
        kind = type(one).__name__
        if keeps:
            raise NotYetError(
                f"a tensor is kept in a {kind} that a backward pass changes.",
                loc=watch.loc,
                remedy="write it to a tensor or a buffer in place.",
            )
        effect = f"changes a {kind}" if isinstance(one, _FILLED) else f"sets an attribute of a {kind}", watch.loc
    if effect is not None:
        watch.effect = effect[0], effect[1] or UNKNOWN
        raise watch.refusal()


@contextlib.contextmanager
def _profiled_by(note: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Have a function take the interpreter's events in place of the profiler that is at work, if one is."""
    before = sys.getprofile()
    if isinstance(before, Profiler):  # up to Python 3.11 the interpreter knows of it, and cannot be given it again
        before.disable()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        if isinstance(before, Profiler):
            before.enable()
        else:
            sys.setprofile(before)


def _printed(*args: Any, **kwargs: Any) -> None:
    """Print, but in a backward pass that is traced."""
    watch = _PRINT.current
    if watch is None:
        _PLAIN_PRINT(*args, **kwargs)
    else:
        watch.note_effect("prints or writes to a file", sys._getframe(1))


_PLAIN_PRINT = builtins.print
_PRINT: Replacement[_Watch] = Replacement(builtins, "print", _printed)


def _is_traced(value: Any) -> bool:
    return isinstance(value, FakeTensor)
