"""The runtime in plain Python: the same results to the last bit, and what programs may not ask of it is found."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, lax
from dyn.backends import python_runtime
from dyn.backends.python_runtime import PythonRuntime
from dyn.backends.runtime_tables import CTYPES, RuntimeTable
from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import DynError, OverrunError, RuntimeTableError
from dyn.lower import abi
from dyn.pipeline import compile_program, optimize
from dyn.runtime.stand_ins import CALLS
from tests.canary import compile_traced
from tests.planted import planted
from tests.threads import in_threads

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def all_runtimes_end() -> Iterator[None]:
    yield
    gc.collect()
    assert not python_runtime._RUNTIMES


def numbers(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def both_ways(f: Callable[..., Any], *arguments: Any, threads: int = 3) -> Any:
    """The results of the runtime in Python, which the native one's are equal to, bit by bit."""
    native = dyn.tree.leaves(f(*arguments))
    with config.override(python_runtime=True, num_threads=threads):
        made = dyn.tree.leaves(f(*arguments))
    for a, b in zip(native, made, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions of the table that programs have called."""
    names: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        method = getattr(PythonRuntime, name)

        def call(self: PythonRuntime, *arguments: Any) -> Any:
            names.append(name)
            return method(self, *arguments)

        return call

    for word in abi.RUNTIME_TABLE:
        if word is not None and hasattr(PythonRuntime, word.name):
            monkeypatch.setattr(PythonRuntime, word.name, watched(word.name))
    return names


# --- the same results ------------------------------------------------------------------------------------------------


def test_every_function_of_the_table_has_its_place() -> None:
    for name, word in zip([field for field, *_ in RuntimeTable._fields_][1:], abi.RUNTIME_TABLE, strict=True):
        place = getattr(RuntimeTable, name).offset // 8
        assert name == ("threads" if word is None else word.name)
        assert place == getattr(abi, name.upper())
        if word is not None and place not in (abi.FETCH, abi.STAGE):
            assert hasattr(PythonRuntime, name)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 100_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_elementwise(size: int, threads: int, asked: list[str]) -> None:
    both_ways(dyn.jit(lambda x, y: dnp.tanh(x) * y + 1), numbers(size), numbers(size), threads=threads)
    assert asked.count("launch") == (size > 0)
    assert asked.count("alloc_output") == asked.count("begin") == asked.count("end") == 1


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (300, 700), (3, 100_000)])
def test_reductions(shape: tuple[int, int]) -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True), dnp.sum(x, axis=0), dnp.sum(x)

    both_ways(f, numbers(*shape))


def test_a_broadcast_that_is_undecided() -> None:
    f = dyn.jit(lambda x, y: x * y + 1)
    for m in (1, 5):
        both_ways(f, numbers(5), numbers(m))


def test_products(asked: list[str]) -> None:
    both_ways(dyn.jit(lambda x, w: dnp.tanh(x @ w) @ w.T), numbers(130, 70), numbers(70, 90))
    assert "launch" in asked


def test_arenas_of_few_bytes_are_seen(asked: list[str]) -> None:
    both_ways(dyn.jit(lambda x: dnp.sort(dnp.cumsum(x)) - dnp.sum(x)), numbers(20))
    assert asked.count("alloc") == asked.count("free") >= 1


def test_native_routines_share_their_rows(asked: list[str]) -> None:
    both_ways(dyn.jit(lambda x: (dnp.sort(x, axis=-1), dnp.argsort(x, axis=0))), numbers(3000, 40))
    assert {"call", "parallel_for"} <= set(asked)
    assert asked.count("alloc") == asked.count("free")


def test_linear_algebra(asked: list[str]) -> None:
    a = numbers(3, 6, 6, dtype="f8")
    both_ways(dyn.jit(lambda x: dnp.linalg.solve(x, x + 1)), a)
    assert "call" in asked or "library" in asked


def test_data_dependent_sizes(asked: list[str]) -> None:
    f = dyn.jit(lambda x: dnp.sum(x[x > 0]) + dnp.nonzero(x)[0])
    for size in (0, 1, 1000):
        both_ways(f, numbers(size))


def test_loops_and_branches() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        def step(state: Any) -> Any:
            n, y = state
            return n + 1, lax.cond(dnp.sum(y) > 0, lambda y: y * 0.5 - 1, lambda y: dnp.flip(y) + 1, y)

        return lax.while_loop(lambda state: state[0] < 7, step, (dnp.asarray(0), x))

    for size in (0, 1, 5000):
        both_ways(f, numbers(size))


def test_nested_functions_and_gradients() -> None:
    inner = dyn.jit(lambda x, w: dnp.tanh(x @ w))
    loss = dyn.jit(lambda w, x: dnp.mean(inner(inner(x, w), w.T) ** 2))
    both_ways(dyn.jit(dyn.value_and_grad(loss)), numbers(20, 30), numbers(9, 20))
    both_ways(dyn.vmap(dyn.grad(loss), in_axes=(None, 0)), numbers(20, 30), numbers(4, 9, 20))


def test_captured_and_constant_arrays() -> None:
    captured, constant = numbers(1000), np.arange(20_000, dtype="f4")
    both_ways(dyn.jit(lambda x: x + captured + dnp.asarray(constant)[:1000]), numbers(1000))


def test_donated_arguments() -> None:
    f = dyn.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = numbers(500)
    native = f(x.copy())
    with config.override(python_runtime=True):
        given = x.copy()
        made = f(given)
    assert np.shares_memory(made, given)
    assert made.tobytes() == native.tobytes()


def test_calls_of_python_functions(asked: list[str]) -> None:
    def half(x: Array) -> Array:
        return x / 2

    @dyn.jit
    def f(x: Any) -> Any:
        return dyn.pure_callback(half, dyn.ShapeDtypeStruct(x.shape, "float32"), x * 3) + 1

    both_ways(f, numbers(50))
    assert asked.count("call") == 1


def test_an_error_of_a_python_function_is_raised() -> None:
    def refuse(x: Array) -> Array:
        raise LookupError("not today")

    @dyn.jit
    def f(x: Any) -> Any:
        return dyn.pure_callback(refuse, dyn.ShapeDtypeStruct(x.shape, "float32"), dnp.sort(x)) + 1

    with config.override(python_runtime=True), pytest.raises(LookupError, match="not today"):
        f(numbers(50))


def test_an_eager_call() -> None:
    with config.override(python_runtime=True):
        assert dnp.add(np.ones(3, "f4"), 1).tolist() == [2, 2, 2]


def test_failed_checks_say_the_same(asked: list[str]) -> None:
    f = dyn.jit(lambda x, y: x + y)
    f(numbers(3), numbers(3))
    texts: list[str] = []
    for python in (False, True):
        with config.override(python_runtime=python), pytest.raises(dyn.errors.ShapeError) as caught:
            f(numbers(3), numbers(4))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert asked.count("fail") == 1


def test_no_memory_says_the_same() -> None:
    f = dyn.jit(lambda x: dnp.sum(dnp.sort(x[:, None] * dnp.ones((1, 1 << 35), "f8"), axis=0)))
    texts: list[str] = []
    for python in (False, True):
        with config.override(python_runtime=python), pytest.raises(MemoryError) as caught:
            f(numbers(1 << 10))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_threads_call_at_once() -> None:
    f = dyn.jit(lambda x: dnp.sort(dnp.tanh(x) * 2) + dnp.sum(x))
    arrays = [numbers(1000 + k) for k in range(8)]
    native = [f(x).tobytes() for x in arrays]

    def call(x: Array) -> bytes:
        with config.override(python_runtime=True, num_threads=2):
            return f(x).tobytes()

    assert in_threads(call, arrays) == native


def test_a_call_within_a_call() -> None:
    inner = dyn.jit(lambda x: dnp.sort(x) * 2)

    @dyn.jit
    def f(x: Any) -> Any:
        return dyn.pure_callback(inner, dyn.ShapeDtypeStruct(x.shape, "float32"), x) + 1

    both_ways(f, numbers(40))


def test_profiles_see_the_launches() -> None:
    f = dyn.jit(lambda x: dnp.tanh(x) + 1)
    f(numbers(10))
    with config.override(python_runtime=True), dyn.profile() as profile:
        f(numbers(10))
    assert len(profile.events().launches) == 1


def test_calls_by_the_native_entry_go_on() -> None:
    """Plans of the native entry are for the settings under which they were made."""
    f = dyn.jit(lambda x: x + 1)
    x = numbers(4)
    for python in (False, True, False, True):
        with config.override(python_runtime=python):
            for _ in range(3):
                assert f(x).tobytes() == (x + 1).tobytes()
    assert f.cache_info().compiles == 1


# --- what is found ---------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime() -> PythonRuntime:
    """The runtime of a call of a small program, which has not begun."""
    program = compile_traced(dyn.jit(lambda x: dnp.tanh(x) + 1).trace(numbers(5)).traced, ())
    frame = program._frame()
    frame.put(0, numbers(5))
    frame.begin()
    return program._python_runtime(frame)


def native(runtime: PythonRuntime, name: str, *arguments: int) -> int:
    """Call a function of the runtime's table, as compiled code does."""
    place = getattr(abi, name.upper())
    function = abi.RUNTIME_TABLE[place - 1]
    assert function is not None
    kind = ctypes.CFUNCTYPE(CTYPES[function.result], *[CTYPES[type] for type, _ in function.params])
    return kind((ctypes.c_int64 * abi.TABLE_WORDS).from_address(runtime.address)[place])(runtime.address, *arguments)


def problem(runtime: PythonRuntime) -> str:
    with pytest.raises(DynError) as caught:
        runtime.finish()
    assert caught.value.remedy.startswith("this is a bug in dyn, or in a native function")
    return caught.value.problem


def test_a_block_is_aligned_and_full_of_nan(runtime: PythonRuntime) -> None:
    for size in (0, 1, 64, 1000):
        block = native(runtime, "alloc", size)
        assert block % 64 == 0
        assert ctypes.string_at(block, size) == b"\xff" * size
        native(runtime, "free", block, size if size != 64 else 0)
    runtime.finish()


def test_a_block_that_is_freed_twice(runtime: PythonRuntime) -> None:
    block = native(runtime, "alloc", 100)
    native(runtime, "free", block, 100)
    native(runtime, "free", block, 100)
    assert problem(runtime) == f"lambda: the block at {block:#x} was freed twice."


def test_a_block_of_nobody(runtime: PythonRuntime) -> None:
    native(runtime, "free", 4096, 0)
    assert problem(runtime) == "lambda: the block at 0x1000 was freed, and never allocated."


def test_a_block_of_another_size(runtime: PythonRuntime) -> None:
    native(runtime, "free", native(runtime, "alloc", 100), 64)
    assert problem(runtime) == "lambda: a block of 100 bytes was freed as one of 64."


def test_a_size_below_zero(runtime: PythonRuntime) -> None:
    assert not native(runtime, "alloc", -1)
    assert problem(runtime) == "lambda: an arena of -1 bytes."


def test_blocks_that_are_left(runtime: PythonRuntime) -> None:
    native(runtime, "alloc", 100)
    native(runtime, "alloc", 24)
    assert problem(runtime) == "lambda: 2 blocks were not freed when the call ended, of 100, 24 bytes."


@pytest.mark.parametrize("place", [-1, 100])
def test_bytes_beside_a_block(runtime: PythonRuntime, place: int) -> None:
    block = native(runtime, "alloc", 100)
    ctypes.c_char.from_address(block + place).value = b"x"
    native(runtime, "free", block, 100)
    assert problem(runtime) == "lambda: bytes beside an arena of 100 bytes were written before it was freed."


def test_results_that_there_are_none_of(runtime: PythonRuntime) -> None:
    assert not native(runtime, "alloc_output", 1, 0)
    assert problem(runtime) == "lambda: there is no result 1."


def test_a_result_that_is_asked_for_twice(runtime: PythonRuntime) -> None:
    assert native(runtime, "alloc_output", 0, 0)
    assert not native(runtime, "alloc_output", 0, 0)
    assert problem(runtime) == "lambda: memory was asked twice for result 0."


def begun(runtime: PythonRuntime) -> Any:
    values = (ctypes.c_int64 * 1)(5)
    native(runtime, "begin", 0, ctypes.addressof(values), 1)
    return values


@pytest.mark.parametrize(
    ("by", "what"),
    [(2, "f32[x_0] lies at {0:#x}, which is not aligned"), (4, "the 20 bytes of f32[x_0] at {0:#x} lie in no array")],
)
def test_a_buffer_that_is_no_array(runtime: PythonRuntime, by: int, what: str) -> None:
    values, there = begun(runtime), runtime.frame.tensor(0)[0]
    buffers = (ctypes.c_int64 * 2)(there + by, there)
    kernel = ctypes.CFUNCTYPE(None)(lambda: pytest.fail("it was run"))
    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    assert native(runtime, "launch", address, 1, 0, ctypes.addressof(buffers), 0, 1, 0, 0) == 1
    text = problem(runtime)
    assert text.startswith("lambda: launch 0, ")
    assert text.endswith(what.format(there + by) + ".")
    del values


def test_launches_of_nothing(runtime: PythonRuntime) -> None:
    values = begun(runtime)
    assert native(runtime, "launch", 0, 1, 0, 0, 0, 1, 0, 0) == 1
    assert ": kernel None, grid 1, 0 bytes of scratch." in problem(runtime)
    del values


def test_a_launch_that_there_is_none_of(runtime: PythonRuntime) -> None:
    assert native(runtime, "launch", 1, 1, 0, 0, 0, 1, 0, 99) == 1
    assert problem(runtime) == "lambda: there is no launch 99."


def test_a_kernel_that_writes_beside_its_result() -> None:
    def two(x: Any) -> Any:
        return dnp.cumsum(x, 0) + 1

    optimized = optimize(dyn.jit(two).trace(numbers(5, 7)).traced, host_target(), CompilationRecord())
    stores = planted(optimized, len(optimized.launches) - 1, stores=lambda buffer: 1 if buffer.size == 0 else None)
    program = compile_program(stores, [], X86Backend(host_target()), CompilationRecord())
    with config.override(python_runtime=True), pytest.raises(OverrunError) as caught:
        program([numbers(5, 7)])
    assert caught.value.problem.startswith("two: bytes beside result 0 of 140 bytes were written by launch ")


def test_an_external_function_that_writes_beside_its_result() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)

    @kind
    def longer(context: Any, inputs: int, outputs: int) -> int:
        data = ctypes.c_int64.from_address(outputs).value
        ctypes.memset(data, 0, 4 * 7 + 1)
        return 0

    f = dyn.jit(lambda x: dyn.ffi_call(longer, dyn.ShapeDtypeStruct(x.shape, "float32"))(x))
    f(numbers(7))
    with config.override(python_runtime=True), pytest.raises(OverrunError) as caught:
        f(numbers(7))
    assert "of 28 bytes were written by the call 0, custom_call." in caught.value.problem


def test_programs_that_leak_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    f = dyn.jit(lambda x: dnp.sort(dnp.cumsum(x)) * 2)
    monkeypatch.setattr(PythonRuntime, "free", lambda self, block, bytes: None)
    with config.override(python_runtime=True), pytest.raises(RuntimeTableError, match="were not freed"):
        f(numbers(30))


def test_an_interrupt_before_python_answers(runtime: PythonRuntime) -> None:
    """A signal's handler may raise as Python is entered: nothing is answered, and the call ends by that."""
    runtime._state[CALLS] = (runtime._state[CALLS] or 0) + 1
    with pytest.raises(KeyboardInterrupt):
        runtime.finish()


def test_an_interrupt_while_python_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: PythonRuntime, bytes: int) -> int:
        raise KeyboardInterrupt

    f = dyn.jit(lambda x: dnp.sort(dnp.cumsum(x)) * 2)
    monkeypatch.setattr(PythonRuntime, "alloc", interrupted)
    with config.override(python_runtime=True), pytest.raises(KeyboardInterrupt):
        f(numbers(30))
