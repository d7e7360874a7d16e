"""The way of a call, by a front end of a few lines: binding, programs, fallbacks, and calls that are read again."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError
from dyn.explain.versions import ArgumentKey, MadeFor, made_for_leaves
from dyn.frontend.fallback import Fallback, FallbackWarning
from dyn.frontend.library import LibraryFunction, LibraryProgram
from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.specialize.call_arguments import OnNewShape
from dyn.stages import Traced


@record(eq=False)
class Call:
    arrays: tuple[Any, ...]

    @property
    def key(self) -> Any:
        return tuple([(a.dtype, a.ndim) for a in self.arrays])

    def made_for(self) -> MadeFor:
        keys = [ArgumentKey(f"x{n}", a.dtype.name, a.ndim, weak=False) for n, a in enumerate(self.arrays)]
        return made_for_leaves(keys, [key.name for key in keys], [])


class Arrays(LibraryProgram[Call]):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.run = dyn.jit(function)

    @property
    def functions(self) -> tuple[Any, ...]:
        return (self.run,)

    def __call__(self, call: Call) -> Any:
        return self.run(*call.arrays)

    def trace(self, call: Call) -> Traced:
        return self.run.trace(*call.arrays)

    def prepare(self, call: Call) -> None:
        self.run.prepare([call.arrays])


class Compiled(LibraryFunction[Call, Arrays]):
    """Functions of NumPy's arrays; of complex numbers they are NumPy's, and outside of programs where one is None."""

    def __init__(
        self, function: Callable[..., Any], *, strict: bool = False, on_new_shape: OnNewShape = "compile"
    ) -> None:
        super().__init__(function, "f", library="NumPy", remedy="be strict.", strict=strict, on_new_shape=on_new_shape)
        self.lock = self._lock
        self.changed = 0
        self.left: list[tuple[Any, ...]] = []

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> Call | None:
        if any(one is None for one in args):
            return None
        if any(np.iscomplexobj(one) for one in args):
            raise UnsupportedOpError("complex numbers.")
        return Call(args)

    def _while_making(self) -> Any:
        return self.lock

    def _make_program(self, call: Call) -> Arrays:
        return Arrays(self._function)

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.left.append(args)
        return super()._run_eagerly(args, kwargs)

    def _fallback_for(self, program: Arrays, call: Call, error: Exception) -> Fallback | None:
        if self._strict or not isinstance(error, NotYetError):
            return None
        reason = self._reason_of(error)
        return Fallback(reason, lambda: program.leave_to_library(call, reason))


def test_programs_are_by_key_and_counted() -> None:
    f = Compiled(lambda x: x * 2)
    for shape in ((3,), (0,), (1,), (5, 2), (2, 2)):
        np.testing.assert_array_equal(f(np.ones(shape)), np.full(shape, 2.0))
    assert (f.cache_info().compiles, len(f.programs), f.left) == (2, 2, [])
    assert "x0 has 2 axes, and had 1 in program 1" in str(f.explain())


def test_calls_that_are_none_for_programs_are_made_without_a_word() -> None:
    f = Compiled(lambda x, y: x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(1, None) == 1
    assert f.left == [(1, None)]
    assert not f.programs
    with pytest.raises(dyn.errors.ArgumentError, match="not traced ahead"):
        f.trace(1, None)


def test_arguments_that_programs_do_not_take_are_the_librarys() -> None:
    f = Compiled(lambda x: x + 1)
    with pytest.warns(FallbackWarning, match=r"f runs in NumPy: complex numbers.*\n.*\n.*help: be strict"):
        assert f(np.array([1j]))[0] == 1 + 1j
    assert "calls in NumPy: complex numbers." in str(f.explain())
    strict = Compiled(lambda x: x + 1, strict=True)
    with pytest.raises(UnsupportedOpError):
        strict(np.array([1j]))
    assert strict.left == []


def of_numpy(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        raise NotYetError("a function that asks for NumPy's arrays.")
    return x + 1


def test_what_cannot_be_compiled_is_remembered_once_the_library_has_made_the_call() -> None:
    f = Compiled(of_numpy)
    with pytest.warns(FallbackWarning, match=r"asks for NumPy's arrays"):
        assert f(np.zeros(2)).tolist() == [1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(np.zeros(3)).tolist() == [1, 1, 1]
    assert (len(f.left), f.cache_info().compiles) == (2, 0)
    with pytest.raises(NotYetError, match="asks for NumPy's arrays"):
        f.trace(np.zeros(3))
    with pytest.raises(NotYetError):
        Compiled(of_numpy, strict=True)(np.zeros(2))


def test_what_the_library_raises_in_dyns_place_is_raised_and_nothing_is_said() -> None:
    def fails(x: Any) -> Any:
        of_numpy(x)
        raise ZeroDivisionError("mine")

    f = Compiled(fails)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match="mine") as caught:
                f(np.zeros(2))
            assert caught.value.__context__ is None
    assert not f.explain().as_dict().get("fallbacks")


def test_users_errors_are_theirs() -> None:
    f = Compiled(lambda x: x + np.zeros(3))
    with pytest.raises(ShapeError):
        f(np.zeros(2))
    assert f.left == []
    assert f(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_call_is_read_again_after_a_change() -> None:
    class Changing(Compiled):
        def _find_program(self, call: Call) -> Arrays | None:
            if not self.changed:
                raise Retrace(lambda function: setattr(function, "changed", 1), rereads=True)
            return super()._find_program(call)

    for use in (lambda f: f(np.zeros(2)), lambda f: f.trace(np.zeros(2)), lambda f: f.prepare([np.zeros(2)])):
        f = Changing(lambda x: x + 1)
        use(f)
        assert (f.changed, len(f.programs)) == (1, 1)


def test_code_that_the_library_runs_may_ask_another_function_for_a_trace() -> None:
    """An outer function's: none of the one whose call the library makes."""

    def asks(x: Any, y: Any) -> Any:
        raise Retrace(lambda outer: outer.append("changed"))

    f = Compiled(asks)
    with pytest.raises(Retrace) as caught:
        f(np.zeros(2), None)
    outer: list[str] = []
    caught.value.change(outer)
    assert outer == ["changed"]


def test_threads_make_one_program() -> None:
    made: list[int] = []

    class Counting(Compiled):
        def _make_program(self, call: Call) -> Arrays:
            made.append(1)
            return super()._make_program(call)

    f = Counting(lambda x: x + 1)
    barrier = threading.Barrier(8)

    def call() -> None:
        barrier.wait()
        assert f(np.zeros(3)).tolist() == [1, 1, 1]

    threads = [threading.Thread(target=call) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(made) == len(f.programs) == f.cache_info().compiles == 1


def test_another_program_is_an_error_where_it_is_asked_for() -> None:
    class Sized(Arrays):
        def __init__(self, function: Callable[..., Any], size: int) -> None:
            super().__init__(function)
            self.size = size

        def fits(self, call: Call) -> bool:
            return call.arrays[0].shape[0] == self.size

        def conditions(self) -> str:
            return f"{self.size} rows"

    class Fixed(Compiled):
        def _make_program(self, call: Call) -> Arrays:
            return Sized(self._function, call.arrays[0].shape[0])

    f = Fixed(lambda x: x + 1, on_new_shape="error")
    for shape in ((2,), (2,), (2, 2)):
        f(np.zeros(shape))
    with pytest.raises(ShapeError, match=r"f\(\) needs a second program .* 2 rows"):
        f(np.zeros(3))
    assert len(f.programs) == 2


def test_shapes_without_dtypes_are_refused_by_prepare() -> None:
    """A tuple is the arguments of a call, and shapes among them are no arrays."""

    def double(x: Any) -> Any:
        return x.sum(axis=-1) * 2

    def said(given: Any, strict: bool = False) -> list[str]:
        with pytest.raises(ArgumentError) as caught:
            Compiled(double, strict=strict).prepare([given])
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        return [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]

    fails = "is a call with numbers and without arrays, and it fails"
    dtype = "with the dtype that the array has: 'float32', or 'int64' for ids."
    for strict in (False, True):
        problem, remedy = said((8, 128), strict)
        assert problem.startswith(f"prepare: f(8, 128) {fails}: ")
        assert remedy == f"  help: pass dyn.ShapeDtypeStruct((8, 128), dtype), {dtype}"
    with pytest.raises(ArgumentError) as caught:
        dyn.jit(double).prepare([((8, 128),)])
    assert caught.value.problem == (
        f"prepare: double((8, 128)) {fails}: AttributeError: 'tuple' object has no attribute 'sum'."
    )
    assert caught.value.remedy == f"pass dyn.ShapeDtypeStruct((8, 128), dtype), {dtype}"
    with pytest.raises(ArgumentError) as caught:
        dyn.jit(lambda x, y: x @ y).prepare([{"x": (8, 4), "y": (4, 2)}])
    assert caught.value.remedy == (
        f"pass dyn.ShapeDtypeStruct((8, 4), dtype), dyn.ShapeDtypeStruct((4, 2), dtype), {dtype}"
    )
    dyn.jit(lambda n, m: n + m).prepare([(8, 128)])  # numbers are arguments too
    with pytest.raises(KeyError, match="mine"):  # the function's own
        dyn.jit(lambda n: {}["mine"]).prepare([(8,)])


def test_what_a_call_would_leave_to_the_library_is_said_by_prepare() -> None:
    f = Compiled(of_numpy)
    with pytest.warns(FallbackWarning, match="asks for NumPy's arrays"):
        f.prepare([np.zeros(2)])
    with pytest.warns(FallbackWarning, match=r"complex numbers(.|\n)*\n  it is prepared for complex128\[2\]\n  help: "):
        f.prepare([np.zeros(2, complex)])
    assert f.left == []
    with pytest.raises(UnsupportedOpError):
        Compiled(of_numpy, strict=True).prepare([np.zeros(2, complex)])


def test_arguments_are_read_once() -> None:
    class Speaker:
        """An array that counts how often it is asked for."""

        def __init__(self) -> None:
            self.array, self.asked = np.ones(3), 0

        def __dlpack__(self, **options: Any) -> Any:
            self.asked += 1
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    f, x = dyn.jit(lambda x: x + 1), Speaker()
    for count in (1, 2):
        assert np.asarray(f(x)).tolist() == [2, 2, 2]
        assert x.asked == count
