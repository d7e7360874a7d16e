"""Listeners in JAX's class of dimensions, and in functions of its that decide on symbolic sizes: they ask who answers.

They get a listener, once for the process, which answers for nobody unless the thread is tracing here
(:func:`answered`). Comparisons, truth values, hashes and numbers of sizes are asked for by the class's methods, an
order by ``_geq_decision``, bounds by ``_bounds_decision``, a division by ``divide_shape_sizes``; functions that
count by a size are those of :mod:`~dyn.interop.jax.functions_of_sizes` and
:mod:`~dyn.interop.jax.transforms_of_sizes`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from dyn.fork_safety import lock
from dyn.interop.jax import compile_time, floats_of_sizes, functions_of_sizes, transforms_of_sizes
from dyn.interop.jax.answers import Answers
from dyn.interop.jax.askers import acts, asker, is_user
from dyn.interop.jax.internals import added_later, check_names, required
from dyn.interop.jax.sets_of_sizes import SetOfSizes
from dyn.trace import answered_names
from dyn.trace.patched_names import all_active

#: Its functions are called in the places of JAX's, which they call: frames of theirs are as JAX's (dyn.tracebacks).
IN_PLACES_OF_JAX = True


class _Listener(threading.local):
    """The answers of this thread's trace."""

    ear: Answers | None = None


_LISTENER = _Listener()


@contextmanager
def answered(dimension: type, answers: Answers) -> Iterator[None]:
    """Have what this thread asks of sizes of the class ``dimension`` answered."""
    _install(dimension)
    before, _LISTENER.ear = _LISTENER.ear, answers
    try:
        with all_active(_MATH):
            yield
    finally:
        _LISTENER.ear = before


@contextmanager
def _unheard() -> Iterator[None]:
    """Compare sizes as JAX does."""
    before, _LISTENER.ear = _LISTENER.ear, None
    try:
        yield
    finally:
        _LISTENER.ear = before


def _float_of(name: str, size: Any, frame: FrameType) -> Any:
    """A function of ``math`` of a size of this thread's trace; None for everything else."""
    ear = _LISTENER.ear
    if ear is None or not ear.is_own(size):
        return None
    with _unheard():
        return ear.computed(size, name, frame, of_python=True)


_MATH = floats_of_sizes.of_math(_float_of)
_installing = lock()


def _install(dimension: Any) -> None:
    """Have a class of dimensions, and the functions that decide on them, ask who answers."""
    with _installing:
        if not getattr(dimension.__eq__, "_dyn_listens", False):
            _install_once(dimension)


#: Functions that try whether a size is a number.
_PROBING = frozenset({"is_constant_dim", "_convertible_to_int", "convert_to_index"})
#: Modules of JAX's whose code asks for lengths.
ASK_FOR_LENGTHS = ("jax._src.numpy.lax_numpy", "jax._src.numpy.polynomial", "jax._src.scipy.signal")
#: The tables of functions that are others in traces.
_WRITTEN = (functions_of_sizes, transforms_of_sizes)
#: NumPy's functions that ask an object for a method of their name.
_NUMERIC = ("sqrt", "log", "log2", "log10", "exp", "ceil", "floor", "rint", "trunc")


def _install_once(dimension: Any) -> None:
    equal, truth, hashed, number, to_power = (
        dimension.__eq__, getattr(dimension, "__bool__", None), dimension.__hash__, dimension.__int__,
        dimension.__pow__,
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
            frame = sys._getframe(1)
            if ear.is_own(self) and is_user(frame.f_code):
                answered_names.ask(frame, "set")
            with _unheard():
                ear.look_up(self, frame)
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

    def heard_len(self: Any) -> int:
        if _LISTENER.ear is not None and self.ndim and not isinstance(self.shape[0], int):
            answered_names.ask(sys._getframe(1))
        return length(self)

    def heard_pow(self: Any, power: Any, modulo: Any = None) -> Any:
        ear, found = _LISTENER.ear, None
        if ear is not None and modulo is None:
            with _unheard():
                found = ear.power(self, power)
        return to_power(self, power, modulo) if found is None else found

    def heard_round(self: Any, *digits: Any) -> Any:
        ear = _LISTENER.ear
        if ear is not None and ear.has_floats and not digits and not self.shape and self.aval.weak_type:
            # It may be the float of a size, which Python rounds to an ``int``, and JAX to an array of int32.
            raise required("jax").errors.ConcretizationTypeError(self, "It is rounded, as Python's floats are.")
        return rounded(self, *digits)

    def noted(name: str) -> Callable[[Any], Any]:
        own = getattr(dimension, name)

        def as_value(self: Any) -> Any:
            ear = _LISTENER.ear
            if ear is not None:
                with _unheard():
                    ear.compute_with(self)
            return own(self)

        return as_value

    def type_of(value: Any) -> Any:
        ear = _LISTENER.ear
        is_size = ear is not None and isinstance(value, dimension) and ear.is_own(value)
        return int if is_size else NotImplemented

    def set_of(elements: list[Any]) -> Any:
        ear = _LISTENER.ear
        if ear is None or not any(_has_size(ear, one) for one in elements):
            return NotImplemented
        frame = sys._getframe(1)
        return SetOfSizes(elements, lambda one: _numbers(ear, one, frame))

    def numeric(name: str) -> Callable[[Any], Any]:
        def computed(self: Any) -> Any:
            ear = _LISTENER.ear
            if ear is not None:
                with _unheard():
                    found = ear.computed(self, name, sys._getframe(1), of_python=False)
                if found is not None:
                    return found
            raise TypeError(
                f"loop of ufunc does not support argument 0 of type {type(self).__name__} which has no callable "
                f"{name} method"
            )

        return computed

    wrapped: list[tuple[str, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = [
        ("jax._src.export.shape_poly", "_geq_decision", _order_by),
        ("jax._src.export.shape_poly", "_bounds_decision", _bounds_by),
        ("jax._src.core", "divide_shape_sizes", _division_by), ("jax._src.core", "concrete_or_error", _number_by),
        *[
            (module, name, _in_trace(written))
            for table in _WRITTEN for module, name, written in table.FUNCTIONS if not added_later(module, name)
        ],
    ]  # fmt: skip
    # Nothing is changed before all of it was found: an error leaves JAX as it is.
    check_names()
    found = [_found(module, name) for module, name, _ in wrapped]
    tracer: Any = required("jax._src.core", "Tracer")
    length, rounded = tracer.__len__, tracer.__round__
    staging: Any = required("jax._src.interpreters.partial_eval", "DynamicJaxprTrace")
    staged = compile_time.leave_in_program(staging.process_primitive, _are_sizes_in)
    modules = ("jax._src.source_info_util", "jax._src.traceback_util")
    exclude = [required(module, "register_exclusion") for module in modules]
    for file in (
        __file__,
        compile_time.__file__,
        *[str(table.__file__) for table in _WRITTEN],
    ):  # JAX's lines of users' are not these
        for register in exclude:
            register(file)
    tracer.__len__, tracer.__round__, staging.process_primitive = heard_len, heard_round, staged
    answered_names.METHODS.add(heard_len)
    answered_names.ANSWERS["type"].append(type_of)
    answered_names.ANSWERS["set"].append(set_of)
    for name in _NUMERIC:
        setattr(dimension, name, numeric(name))
    for name in ("dimension_as_value", "__jax_array__"):
        setattr(dimension, name, noted(name))
    heard_eq._dyn_listens = True  # pyright: ignore[reportFunctionMemberAccess]  # functions take attributes
    dimension.__eq__, dimension.__bool__, dimension.__hash__ = heard_eq, heard_bool, heard_hash
    dimension.__ne__ = ordered(operator.ne)
    dimension.__lt__, dimension.__le__ = ordered(operator.lt), ordered(operator.le)
    dimension.__gt__, dimension.__ge__ = ordered(operator.gt), ordered(operator.ge)
    dimension.__int__, dimension.__index__, dimension.__pow__ = heard_int, heard_index, heard_pow
    for (module, name, by), own in zip(wrapped, found, strict=True):
        _wrap(module, name, own, by)


def _found(module: str, name: str) -> Any:
    """A function that a module of JAX's calls by a name: its own, or one of Python's."""
    return getattr(builtins, name, None) or required(module, name)


def _wrap(module: str, name: str, own: Any, by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have a function of JAX's do as ``by`` has it: itself, for users may have it under names of their own; where it is
    no function of Python's, under its name in its module."""
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


def _has_size(ear: Answers, value: Any) -> bool:
    """Return True if a value is a size of a trace, or a tuple with one in it."""
    return any(_has_size(ear, one) for one in value) if isinstance(value, tuple) else ear.is_own(value)


def _numbers(ear: Answers, value: Any, frame: FrameType) -> Any:
    """The numbers of sizes in a value, which have a program for each."""
    if isinstance(value, tuple):
        return tuple([_numbers(ear, one, frame) for one in value])
    return ear.taken(value, frame) if ear.is_own(value) else value


def _are_sizes_in(arguments: Sequence[Any], params: Mapping[str, Any]) -> bool:
    """Return True if an operation's arguments and parameters have sizes of this thread's trace among them."""
    ear = _LISTENER.ear
    return ear is not None and (any(map(ear.is_own, arguments)) or compile_time.any_size(params, ear.is_own))


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


def _bounds_by(decide: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    """``_bounds_decision``: whether sizes are divided by positive ones is asked, and then bounds are not known.

    Where JAX chooses the greater of two sizes or the lesser one, it is told what is proved of their difference.
    """
    inconclusive: Any = required("jax._src.core", "InconclusiveDimensionOperation")
    choosing: Any = required("jax._src.export.shape_poly", "BoundsPrecision").FOR_GEQ0_OR_LEQ0

    def decided(size: Any, precision: Any) -> tuple[float, float]:
        ear = _LISTENER.ear
        with _unheard():
            try:
                least, most = decide(size, precision)
            except inconclusive:
                if ear is None or not ear.divides_by_positive(size, asker()):
                    raise
                least, most = -np.inf, np.inf
            if ear is None or precision is not choosing or least >= 0 or most <= 0:
                return least, most
            if ear.is_proved_at_least(size, 0):
                return 0, most
            return (least, 0) if ear.is_proved_at_least(0, size) else (least, most)

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
    """The integer that a number of Python's or NumPy's is equal to; None for any other object."""
    if isinstance(value, int | np.integer):
        return int(value)
    return int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else None
