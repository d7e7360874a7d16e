"""Answers to what JAX's code and the user's lines ask of symbolic sizes while a function is traced.

JAX answers a comparison by ``==`` of two sizes with no where it cannot decide it, and a truth value with yes: it has to
answer, for hashing. So ``if x.shape[0] == 1`` would go one way for every size. A comparison by ``<`` and its kin, a
division that has to leave no rest, and ``int()`` raise where JAX cannot decide them. Here each question is answered as
PyTorch's are (:mod:`dyn.interop.torch.sym_nodes`): by a proof of dyn's, from what is known of the sizes and was
answered before; else as the sizes of the call at hand have it, and the answer is a guard of the program
(:class:`~dyn.interop.jax.sizes.SizeGuard`).

That holds for the user's lines and for the functions of JAX's that are written in terms of others: ``jax.numpy``,
``jax.scipy``, ``jax.lax``, … Those that JAX is built upon ask whether sizes are *known* to be equal
(``core.definitely_equal``), and where they are not known to be, take a way that is right for both, or raise. They are
told what is proved; what they were told wrongly is noted (:attr:`Answers.doubts`), so that a trace that fails can be
made again under the right answer. Sizes that a line of the user's looks up in a table are compared by their hashes
first, which are not those of numbers: such a size is made a number (:attr:`Answers.looked_up`).

JAX's class of dimensions, and three functions of its, get a listener, once, which answers for nobody unless the thread
is tracing here.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import (
    FrameType,
    FunctionType,
)
from typing import Any

import numpy as np

from dyn.errors import ArgumentError
from dyn.fork_safety import lock
from dyn.interop.jax import functions_of_sizes
from dyn.interop.jax.askers import (
    acts,
    asker,
    beyond_the_class,
    broadcasts,
    calls,
    calls_builtin,
    compares,
    demands,
    is_standard,
    is_user,
    loc_of,
)
from dyn.interop.jax.internals import required
from dyn.interop.jax.sizes import ReasonKind, SizeGuard, TraceSizes
from dyn.shapes import Dim, RelKind, Symbol, free_symbols, mod, parse_dim
from dyn.source import Loc


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two sizes that are equal in this call, and that JAX's own code was told are not."""

    left: Dim
    right: Dim
    loc: Loc


class _Listener(threading.local):
    """The answers of this thread's trace."""

    ear: Answers | None = None


_LISTENER = _Listener()


class Answers:
    """The answers of one trace.

    Attributes:
        sizes: the sizes of the call, with the guards that answers have made.
        doubts: what JAX's own code was told, and is otherwise in this call, oldest first.
        looked_up: sizes that a table of the user's was asked for, each with the line.
        needed: sizes that JAX's own code needed numbers for, the latest last.
    """

    def __init__(self, sizes: TraceSizes) -> None:
        self.sizes = sizes
        self._facts = sizes.facts()
        self._scope: Any = None
        self._dims: dict[str, Dim | None] = {}
        self._doubts: dict[Doubt, None] = {}
        self._looked_up: dict[Symbol, Loc] = {}
        self._needed: dict[Symbol, None] = {}
        self._refused: dict[SizeGuard, None] = {}
        self._spread: dict[SizeGuard, None] = {}

    @property
    def settled(self) -> TraceSizes:
        """The sizes of a trace that came to its end: those that JAX raised for, and the function went on, too."""
        return functools.reduce(TraceSizes.with_guard, self._refused, self.sizes)

    @property
    def spread(self) -> TraceSizes:
        """The sizes, of which those are known to be 1 that JAX has to broadcast in this call and raised for instead."""
        return functools.reduce(TraceSizes.with_guard, self._spread, self.sizes)

    @property
    def needed(self) -> list[Symbol]:
        return list(self._needed)

    @property
    def doubts(self) -> list[Doubt]:
        return list(self._doubts)

    @property
    def looked_up(self) -> dict[Symbol, Loc]:
        return dict(self._looked_up)

    def shapes(self, jax: Any) -> dict[int, tuple[Any, ...]]:
        """The shapes of the call's symbolic leaves, whose sizes are answered for from here on."""
        found = self.sizes.shapes(jax)
        sizes = [size for shape in found.values() for size in shape if not isinstance(size, int)]
        self._scope = sizes[0].scope if sizes else None
        return found

    # What is asked ------------------------------------------------------------------------------------------------

    def dim(self, size: Any) -> Dim | None:
        """The dim that a size of JAX's is; None for one of another trace."""
        if isinstance(size, int):
            return size
        if getattr(size, "scope", None) is not self._scope:
            try:
                return operator.index(size)
            except TypeError:
                return None
        text = str(size)
        if text not in self._dims:
            try:
                self._dims[text] = parse_dim(text.replace("^", "**"), self.sizes.symbols)
            except ArgumentError:  # a name that the function itself has brought
                self._dims[text] = None
        return self._dims[text]

    def is_own(self, size: Any) -> bool:
        """Whether it is a symbolic size of this trace."""
        return self._scope is not None and getattr(size, "scope", None) is self._scope

    def equal(self, left: Any, right: Any, frame: FrameType | None) -> bool:
        """``left == right``, which JAX cannot decide, where it is asked by an expression in ``frame``."""
        frame = beyond_the_class(frame)
        is_acting = frame is not None and acts(frame)
        if not (frame is None or compares(frame) or (is_acting and calls_builtin(frame))):
            return False
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None:
            return False
        if is_acting:
            return self._decided(ReasonKind.ASKED, (RelKind.EQ, a, b), (RelKind.NONZERO, a - b, 0), loc_of(frame))
        if self.sizes.value(a) != self.sizes.value(b):
            if demands(frame):
                self._refuse(a, b, frame)
            return False
        if self._facts.eq(a, b).proved:
            return True
        if not any(isinstance(one, int) and one < 2 for one in (a, b)) and demands(frame):
            self._take(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, a, b, loc_of(frame)))
            return True
        self._doubts.setdefault(Doubt(a, b, loc_of(frame)))
        return False

    def is_true(self, size: Any, frame: FrameType | None) -> bool:
        """``bool(size)``."""
        dim = self.dim(size)
        if dim is None or frame is None or not acts(frame):
            return True
        return self._decided(ReasonKind.ASKED, (RelKind.NONZERO, dim, 0), (RelKind.EQ, dim, 0), loc_of(frame))

    def at_least(self, left: Any, right: Any, frame: FrameType | None) -> bool | None:
        """``left >= right``, which JAX cannot decide; None where it is not about this trace."""
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None or self.sizes.value(a) is None or self.sizes.value(b) is None:
            return None
        return self._decided(ReasonKind.ORDER, (RelKind.GE, a, b), (RelKind.GE, b, a + 1), loc_of(frame))

    def quotient(self, left: Any, right: Any, frame: FrameType | None) -> bool | None:
        """Whether ``right``, which is at least 1, divides ``left``; None where it is not about this trace."""
        a, b = self.dim(left), self.dim(right)
        if a is None or b is None or self.sizes.value(a) is None or not self.sizes.value(b):
            return None
        if self._facts.divides(b, a).proved:
            return True
        rest = mod(a, b)
        return self._decided(ReasonKind.DIVIDES, (RelKind.EQ, rest, 0), (RelKind.NONZERO, rest, 0), loc_of(frame))

    def number(self, size: Any, frame: FrameType | None) -> int | None:
        """``int(size)`` in a line of the user's, which has a program for each value; None elsewhere."""
        return None if frame is None or not is_user(frame.f_code) else self.taken(size, frame)

    def taken(self, size: Any, frame: FrameType | None) -> int | None:
        """The number that a size is, which has a program for each; None where it is not of this trace."""
        dim = self.dim(size)
        value = None if dim is None else self.sizes.value(dim)
        if dim is not None and value is not None and not self._facts.eq(dim, value).proved:
            self._take(SizeGuard.of(ReasonKind.NUMBER, RelKind.EQ, dim, value, loc_of(frame)))
        return value

    def need(self, size: Any) -> None:
        """Note that JAX's own code needs a number in the place of a size, and will say so."""
        dim = self.dim(size)
        for symbol in () if dim is None else free_symbols(dim):
            self._needed.pop(symbol, None)
            self._needed[symbol] = None

    def computed(self, size: Any, function: str, frame: FrameType | None) -> Any:
        """NumPy's ``function`` of a size, which is of its number: a program for each; None outside of this trace."""
        value = self.taken(size, frame) if self.is_own(size) else None
        return None if value is None else getattr(np, function)(value)

    def look_up(self, size: Any, frame: FrameType | None) -> None:
        """Note that the hash of a size is asked for in ``frame``, where that is a table of the user's."""
        while frame is not None and (frame.f_code.co_name == "__hash__" or is_standard(frame.f_code)):
            frame = frame.f_back
        if frame is None or not is_user(frame.f_code) or (calls(frame) and not calls_builtin(frame)):
            return
        dim = self.dim(size)
        for symbol in () if dim is None else free_symbols(dim):
            self._looked_up.setdefault(symbol, loc_of(frame))

    def _refuse(self, a: Dim, b: Dim, frame: FrameType | None) -> None:
        """Note that JAX is about to raise for sizes that differ: a function that goes on is for such sizes only.

        Where one of them is 1 in this call JAX would have gone on, had it known.
        """
        if any(isinstance(one, int) and one < 2 for one in (a, b)):
            return
        loc, spread = loc_of(frame), [one for one in (a, b) if broadcasts(frame)]
        ones = [one for one in spread if self.sizes.value(one) == 1]
        for one in ones:
            self._spread.setdefault(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, one, 1, loc))
        for difference in () if ones else (a - b, *[one - 1 for one in spread]):
            if not self._facts.nonzero(difference).proved:
                self._refused.setdefault(SizeGuard.of(ReasonKind.EQUAL, RelKind.NONZERO, difference, 0, loc))

    # How it is answered -------------------------------------------------------------------------------------------

    def _decided(self, kind: ReasonKind, yes: tuple[RelKind, Dim, Dim], no: tuple[RelKind, Dim, Dim], loc: Loc) -> bool:
        """The answer to a question: proved, or that of the sizes of this call, which is a guard then."""
        asked, opposite = (SizeGuard.of(kind, *one, loc) for one in (yes, no))
        answer = self._facts.ask(asked.relation)
        if answer.proved or answer.refuted:
            return answer.proved
        if self._facts.ask(opposite.relation).proved:
            return False
        holds = asked.relation.holds(self.sizes.actual)
        self._take(asked if holds else opposite)
        return holds

    def _take(self, guard: SizeGuard) -> None:
        self.sizes = self.sizes.with_guard(guard)
        self._facts = self._facts.assume(guard.relation)


@contextmanager
def answered(dimension: type, answers: Answers) -> Iterator[None]:
    """Have what this thread asks of sizes of the class ``dimension`` answered."""
    _install(dimension)
    before, _LISTENER.ear = _LISTENER.ear, answers
    try:
        yield
    finally:
        _LISTENER.ear = before


def current() -> Answers | None:
    """The answers of the trace of this thread."""
    return _LISTENER.ear


@contextmanager
def _unheard() -> Iterator[None]:
    """Compare sizes as JAX does."""
    before, _LISTENER.ear = _LISTENER.ear, None
    try:
        yield
    finally:
        _LISTENER.ear = before


_installing = lock()


def _install(dimension: Any) -> None:
    """Have a class of dimensions, and the functions that decide on them, ask who answers."""
    with _installing:
        if not getattr(dimension.__eq__, "_dyn_listens", False):
            _install_once(dimension)


#: Functions that try whether a size is a number.
_PROBING = frozenset({"is_constant_dim", "_convertible_to_int", "convert_to_index"})
#: NumPy's functions that ask an object for a method of their name.
_NUMERIC = ("sqrt", "log", "log2", "log10", "exp", "ceil", "floor", "rint", "trunc")


def _install_once(dimension: Any) -> None:
    equal, truth, hashed, number = (
        dimension.__eq__, getattr(dimension, "__bool__", None), dimension.__hash__, dimension.__int__
    )  # fmt: skip

    def heard_eq(self: Any, other: Any) -> Any:
        ear, frame = _LISTENER.ear, sys._getframe(1)
        if ear is not None and (found := _by_array(ear, self, other, operator.eq, frame)) is not _NO_ARRAY:
            return found
        answer = equal(self, other)
        if ear is None or answer:
            return answer
        number = _as_integer(other)
        if number is None and not (isinstance(other, dimension) and other.scope is self.scope):
            return answer  # not of this trace: JAX says that these are not equal
        with _unheard():
            return ear.equal(self, other if number is None else number, frame)

    def ordered(by: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        own = getattr(dimension, f"__{by.__name__}__")

        def compared(self: Any, other: Any) -> Any:
            ear = _LISTENER.ear
            if ear is not None and (found := _by_array(ear, self, other, by, sys._getframe(1))) is not _NO_ARRAY:
                return found
            return own(self, other)

        return compared

    def heard_bool(self: Any) -> bool:
        answer, ear = True if truth is None else bool(truth(self)), _LISTENER.ear
        if ear is None or not answer:
            return answer
        with _unheard():
            return ear.is_true(self, sys._getframe(1))

    def heard_hash(self: Any) -> int:
        ear = _LISTENER.ear
        if ear is not None:
            with _unheard():
                ear.look_up(self, sys._getframe(1))
        return hashed(self)

    def heard_int(self: Any) -> int:
        ear = _LISTENER.ear
        if ear is not None:
            with _unheard():
                found = ear.number(self, sys._getframe(1))
            if found is not None:
                return found
        return number(self)

    def heard_index(self: Any) -> int:
        ear, frame = _LISTENER.ear, sys._getframe(1)
        if ear is not None and frame.f_code.co_name not in _PROBING:
            with _unheard():
                found = ear.number(self, frame)
                if found is not None:
                    return found
                ear.need(self)
        raise TypeError(f"{type(self).__name__!r} object cannot be interpreted as an integer")

    def numeric(name: str) -> Callable[[Any], Any]:
        def computed(self: Any) -> Any:
            ear = _LISTENER.ear
            if ear is not None:
                with _unheard():
                    found = ear.computed(self, name, sys._getframe(1))
                if found is not None:
                    return found
            raise TypeError(
                f"loop of ufunc does not support argument 0 of type {type(self).__name__} which has no callable "
                f"{name} method"
            )

        return computed

    for file in (__file__, functions_of_sizes.__file__):  # JAX's lines of users' are not these
        required("jax._src.source_info_util", "register_exclusion")(file)
        required("jax._src.traceback_util", "register_exclusion")(file)
    for name in _NUMERIC:
        setattr(dimension, name, numeric(name))
    heard_eq._dyn_listens = True  # pyright: ignore[reportFunctionMemberAccess]  # functions take attributes
    dimension.__eq__, dimension.__bool__, dimension.__hash__ = heard_eq, heard_bool, heard_hash
    dimension.__ne__ = ordered(operator.ne)
    dimension.__lt__, dimension.__le__ = ordered(operator.lt), ordered(operator.le)
    dimension.__gt__, dimension.__ge__ = ordered(operator.gt), ordered(operator.ge)
    dimension.__int__, dimension.__index__ = heard_int, heard_index
    _wrap("jax._src.export.shape_poly", "_geq_decision", _order_by)
    _wrap("jax._src.core", "divide_shape_sizes", _division_by)
    _wrap("jax._src.core", "concrete_or_error", _number_by)
    for module, name, written in functions_of_sizes.FUNCTIONS:
        _wrap(module, name, _in_trace(written))


def _wrap(module: str, name: str, by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have a function of JAX's do as ``by`` has it: itself, for users may have it under names of their own; where it is
    no function of Python's, under its name in its module."""
    own = getattr(builtins, name, None) or required(module, name)
    inner = inspect.unwrap(own)
    own = inner if isinstance(inner, FunctionType) and not inner.__closure__ else own
    if not isinstance(own, FunctionType) or own.__closure__:
        setattr(required(module), name, functools.wraps(own)(by(own)))
        return
    copied = FunctionType(own.__code__, own.__globals__, own.__name__, own.__defaults__)
    copied.__kwdefaults__, copied.__qualname__, copied.__module__ = own.__kwdefaults__, own.__qualname__, own.__module__
    own.__signature__ = inspect.signature(own)
    consts = tuple([by(copied) if one == _PLACE else one for one in _forwarded.__code__.co_consts])
    code = own.__code__
    own.__code__ = _forwarded.__code__.replace(
        co_consts=consts, co_name=own.__name__, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )


_PLACE = "the function that is called"


def _forwarded(*args: Any, **kwargs: Any) -> Any:
    called: Any = "the function that is called"
    return called(*args, **kwargs)


#: Functions of JAX's that ask whether places have 32 bits, and know what to do where nobody knows.
_GENERAL = frozenset({"_top_k_abstract_eval"})


def _is_huge(*sizes: Any) -> bool:
    return any(isinstance(size, int) and size >= 2**31 - 1 for size in sizes)


def _order_by(decide: Callable[..., bool]) -> Callable[..., bool]:
    inconclusive: Any = required("jax._src.core", "InconclusiveDimensionOperation")

    def decided(left: Any, right: Any, text: Callable[[], str]) -> bool:
        ear = _LISTENER.ear
        try:
            with _unheard():
                return decide(left, right, text)
        except inconclusive:
            frame = asker()
            if ear is None or frame is None or (_is_huge(left, right) and frame.f_code.co_name in _GENERAL):
                raise
            with _unheard():
                answer = ear.at_least(left, right, frame)
            if answer is None:
                raise
            return answer

    return decided


def _division_by(divide: Callable[..., Any]) -> Callable[..., Any]:
    """``divide_shape_sizes``: a rest that has to be 0 is asked for, and the quotient is by a positive number."""

    def divided(dividend: Any, divisor: Any) -> Any:
        ear = _LISTENER.ear
        if ear is None or all(isinstance(size, int) for size in (*dividend, *divisor)):
            return divide(dividend, divisor)
        left, right, sign = list(dividend), [], 1
        for size in divisor:  # equal sizes are cancelled, and may be anything
            at = next((n for n, one in enumerate(left) if str(one) == str(size)), None)
            if at is not None:
                del left[at]
            elif isinstance(size, int) and size < 0:
                sign, right = -sign, [*right, -size]
            else:
                right.append(size)
        whole, part = (functools.reduce(operator.mul, sizes, 1) for sizes in (left, right))
        with _unheard():
            quotient, rest = divmod(whole, part)
            if isinstance(rest, int):
                return divide(dividend, divisor) if rest else sign * quotient
            answer = ear.quotient(whole, part, asker())
            return sign * quotient if answer else divide(dividend, divisor)

    return divided


def _number_by(concrete: Callable[..., Any]) -> Callable[..., Any]:
    """``concrete_or_error``: a size that has to be a Python number stays a size."""

    def found(force: Any, value: Any, context: str = "") -> Any:
        ear = _LISTENER.ear
        if ear is not None and force in (int, operator.index) and ear.is_own(value):
            return value
        return concrete(force, value, context)

    return found


def _in_trace(written: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of JAX's that is another one in traces."""

    def by(own: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            return own(*args, **kwargs) if _LISTENER.ear is None else written(own, *args, **kwargs)

        return called

    return by


#: What is compared with is no array.
_NO_ARRAY: Any = object()


def _by_array(ear: Answers, size: Any, other: Any, by: Callable[[Any, Any], Any], frame: FrameType) -> Any:
    """A size compared with an array, by elements: JAX's do it themselves, NumPy's are compared with the number."""
    if not isinstance(other, np.ndarray):
        is_array = hasattr(other, "__array_priority__") and isinstance(other, required("jax").Array)
        return NotImplemented if is_array else _NO_ARRAY
    with _unheard():
        number = ear.taken(size, frame) if acts(frame) else None
    return _NO_ARRAY if number is None else by(number, other)


def _as_integer(value: Any) -> int | None:
    """What a number is as an integer; None for one that is none, and for anything else."""
    if isinstance(value, int | np.integer):
        return int(value)
    return int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else None
