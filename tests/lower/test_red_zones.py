"""Reads and writes beside arrays are found, wherever the arrays lie: in the arena, in scratch, as results."""

from __future__ import annotations

import ctypes
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import pipeline
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import OverrunError
from dyn.pipeline import Optimized, compile_program, optimize
from dyn.schedule.kernel import Buffer
from dyn.shapes import Dim
from dyn.specialize.shared_code import CODES
from dyn.trace.function import TracedFunction
from tests.canary import fenced, run_compiled, watched
from tests.interop.processes import Lost, in_processes
from tests.planted import Shift, nowhere, planted

_HERE = "tests.lower.test_red_zones"
_X = np.arange(35, dtype="f4").reshape(5, 7)
_SQUARE = np.ones((16, 16), "f4")


def two_slots(x: Any) -> Any:
    """Two kernels that write into the arena, and one that writes the result."""
    return dnp.cumsum(dnp.cumsum(x, 0), 0) + 1


def softmax(x: Any) -> Any:
    """A kernel with scratch, as long as a row."""
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    return e / dnp.sum(e, axis=-1, keepdims=True)


def by(elements: int) -> Shift:
    """Global buffers, so many elements beside."""
    return lambda buffer: elements if buffer.size == 0 else None


def _behind_scratch(buffer: Buffer) -> Dim | None:
    return None if buffer.size == 0 else buffer.size + 16


def _before_scratch(buffer: Buffer) -> Dim | None:
    return None if buffer.size == 0 else -16


def _trace(function: Any, x: Any = _X) -> TracedFunction:
    return dyn.jit(function).trace(x).traced


def _optimized(function: Any, *, red_zones: bool = True) -> Optimized:
    with dyn.config.override(red_zones=red_zones):
        return optimize(_trace(function), host_target(), CompilationRecord())


def _loaded(program: Optimized) -> LoadedProgram:
    return compile_program(program, [], X86Backend(host_target()), CompilationRecord())


# ---- arenas ----------------------------------------------------------------------------------------------------------


def test_right_programs_touch_no_red_zone() -> None:
    program = _loaded(_optimized(two_slots))
    for shape in ((0, 0), (1, 1), (5, 7), (16, 16), (3, 1000)):
        x = np.ones(shape, "f4")
        (result,) = run_compiled(program, [x])
        np.testing.assert_array_equal(result, np.cumsum(np.cumsum(x, 0), 0) + 1)


@pytest.mark.parametrize("at_start", [False, True])
@pytest.mark.parametrize(
    ("launch", "shift", "where"),
    [
        (0, 1, "behind f32[x_0, x_1], which it makes"),
        (1, 1, "behind f32[x_0, x_1], which it makes"),
        (0, -1, "before slot 0 of the arena, which is for f32[x_0, x_1]"),
        (1, -1, "behind slot 0 of the arena, which is for f32[x_0, x_1]"),
    ],
)
def test_a_write_beside_a_temporary_is_found(launch: int, shift: int, where: str, at_start: bool) -> None:
    program = _loaded(planted(_optimized(two_slots), launch, stores=by(shift)))
    for x in (_X, _SQUARE):
        with pytest.raises(OverrunError) as caught:
            run_compiled(program, [x], at_start=at_start)
        assert caught.value.problem == f"the kernel cumulative wrote {where}."
        assert caught.value.remedy == "report the program: this is an error of dyn."
        assert caught.value.loc is not None


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_read_beside_a_temporary_is_nan(shift: int) -> None:
    made = planted(_optimized(two_slots), 1, loads=by(shift))
    (result,) = run_compiled(_loaded(made), [_SQUARE])
    assert np.isnan(result).any()
    # Without red zones the neighbour is read, and nothing tells. Before the first slot there is none.
    if shift > 0:
        made = planted(_optimized(two_slots, red_zones=False), 1, loads=by(shift))
        (result,) = run_compiled(_loaded(made), [_SQUARE])
        assert np.isfinite(result[:-1]).all()


def test_a_write_in_a_loop_is_found() -> None:
    def loop(x: Any) -> Any:
        return dyn.lax.fori_loop(0, 3, lambda i, v: dnp.cumsum(dnp.cumsum(v, 0), 0), x)

    made = _optimized(loop)
    inside = [number for number, launch in enumerate(made.launches) if launch.bodies]
    assert inside
    program = _loaded(made)
    (result,) = run_compiled(program, [_SQUARE])
    expected = _SQUARE
    for _ in range(6):
        expected = np.cumsum(expected, 0)
    np.testing.assert_array_equal(result, expected)


def test_the_zones_of_what_is_measured_are_looked_at() -> None:
    def measured(x: Any) -> Any:
        rows = x[dnp.nonzero(x[:, 0])[0]]
        return dnp.cumsum(dnp.cumsum(rows, 0), 0) + 1

    made = _optimized(measured)
    assert len(set(made.host.segments)) == 2
    (result,) = run_compiled(_loaded(made), [_X])
    np.testing.assert_array_equal(result, np.cumsum(np.cumsum(_X[1:], 0), 0) + 1)
    last = max(n for n, launch in enumerate(made.launches) if launch.group.name.startswith("cumulative"))
    with pytest.raises(OverrunError) as caught:
        run_compiled(_loaded(planted(made, last, stores=by(1))), [_X])
    assert caught.value.problem == "the kernel cumulative wrote behind f32[count, x_1], which it makes."


def test_an_external_function_that_writes_beside_its_result_is_named() -> None:
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    def write(context: int, inputs: int, outputs: int) -> int:
        data = ctypes.c_int64.from_address(outputs).value
        rows = ctypes.c_int64.from_address(ctypes.c_int64.from_address(outputs + 16).value).value
        for i in range(rows + 1):
            ctypes.c_float.from_address(data + 4 * i).value = i
        return 0

    native = signature(write)
    address = ctypes.cast(native, ctypes.c_void_p).value
    function = dyn.jit(lambda x: dyn.ffi_call(address, dyn.ShapeDtypeStruct(x.shape, "float32"))(x) + 1)
    with dyn.config.override(red_zones=True), pytest.raises(OverrunError) as caught:
        function(np.ones(5, "f4"))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the function ffi_call of {address:#x} wrote behind f32[x_0], which it makes."
    assert lines[1].startswith("  at test_red_zones.py:")
    assert lines[2:] == ["  help: write no more than the sizes that the function is told."]


# ---- scratch and results ---------------------------------------------------------------------------------------------


def touch(what: tuple[str, str, bool]) -> Any:
    """Touch what nobody may touch, in Python and by the native entry. For a process of its own."""
    kind, how, native = what
    at_start = how == "before"
    step = -1 if at_start else 1
    x = np.ones((256, 256), "f4")
    loads, stores, function, launch = nowhere, nowhere, two_slots, 2
    match kind:
        case "argument read":
            loads, launch = by(step), 0
        case "result write":
            stores = by(step)
        case "scratch write":
            function, launch = softmax, 0
            stores = _before_scratch if at_start else _behind_scratch
        case "scratch read":
            function, launch = softmax, 0
            loads = _before_scratch if at_start else _behind_scratch
        case _:
            pass
    whole = pipeline.optimize
    wrong = mock.patch.object(pipeline, "optimize", lambda *a: planted(whole(*a), launch, loads=loads, stores=stores))
    CODES.clear()
    result = np.empty(0)
    with dyn.config.override(cache_dir="0", fast_call=native), fenced(), wrong:
        jitted = dyn.jit(function)
        for number in range(3):
            with watched(at_start=at_start) as guarded:
                try:
                    result = np.array(jitted(guarded.copy(x)))
                except AssertionError as error:
                    return str(error)
                if native and number:
                    assert guarded.counts["a result"] == 1
    return bool(np.isnan(result).any())


@pytest.mark.parametrize(("size", "small"), [(3, True), (100_000, False)])
def test_results_of_the_native_entry_lie_between_guard_pages(size: int, small: bool) -> None:
    x = np.arange(size, dtype="f4")
    with fenced():
        function = dyn.jit(lambda x: x + 1)
        for number in range(4):
            with watched() as guarded:
                result = function(guarded.copy(x))
                np.testing.assert_array_equal(result, x + 1)
                del result
                assert not guarded.blocks
                if number > 1:
                    assert (len(guarded.buffers), guarded.counts) == ((2, {}) if small else (1, {"a result": 1}))
        assert function.cache_info().hits == 3


_CRASH = Lost("crashed", "SIGSEGV: Fatal Python error: Segmentation fault")


def test_what_is_touched_beside_scratch_arguments_and_results_is_found() -> None:
    right = [("nothing", "", native) for native in (False, True)]
    wrong = [("argument read", "before", True), ("argument read", "behind", False), ("scratch read", "behind", True)]
    wrong += [("scratch write", "before", True), ("scratch write", "behind", False)]
    wrong += [("result write", how, native) for how in ("before", "behind") for native in (False, True)]
    answers = dict(in_processes(f"{_HERE}:touch", [*right, *wrong], workers=1, limit=300.0))
    assert [answers[task] for task in right] == [False, False]
    assert {answers[task] for task in wrong} == {_CRASH}, answers
