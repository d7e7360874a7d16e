"""Calls into loaded host programs: what they take, what they refuse, and many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dyn import config, dtypes
from dyn.backends import runtime_tables
from dyn.backends.call_frames import CallFrame
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.reference import run_reference
from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import IRError, ShapeError
from dyn.ir.core import Function
from dyn.pipeline import compile_program, optimize
from dyn.shapes import Reason, Relation, RelKind, floordiv
from dyn.trace.function import TracedFunction
from tests.stitch.models import LOC, Model, transformer
from tests.threads import in_threads

Array = np.ndarray[Any, Any]
_BACKEND = X86Backend(host_target())


def load(function: Function, captured: Sequence[Array] = ()) -> LoadedProgram:
    traced = TracedFunction(function, (), tuple(captured), None)  # pyright: ignore[reportArgumentType]  # no tree
    record = CompilationRecord()
    with config.override(verify_ir=True):
        optimized = optimize(traced, host_target(), record)
    return compile_program(optimized, captured, _BACKEND, record)


def _softmax() -> Function:
    m = Model("softmax")
    return m.function(m.softmax(m.param("x", "n", "m")))


@pytest.fixture(scope="module")
def softmax() -> LoadedProgram:
    return load(_softmax())


def _expected(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


def _values(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


# --- arrays of every sort ---------------------------------------------------------------------------------------------


def _misaligned(x: Array) -> Array:
    raw = np.empty(x.nbytes + 1, np.uint8)
    view = raw[1:].view(np.uint8)
    array = np.frombuffer(view.data, dtype="f4", count=x.size).reshape(x.shape)
    array[...] = x
    assert not array.flags.aligned
    return array


def _readonly(x: Array) -> Array:
    x = x.copy()
    x.setflags(write=False)
    return x


class _Subclass(np.ndarray):
    """A subclass that says nothing of its own."""


KINDS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda x: x,
    "transposed": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "misaligned": _misaligned,
    "read-only": _readonly,
    "zero strides": lambda x: np.broadcast_to(x[:1], x.shape),
    "subclass": lambda x: x.view(_Subclass),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_arrays_may_be(softmax: LoadedProgram, kind: str) -> None:
    x = KINDS[kind](_values(7, 19))
    before = x.copy()
    (y,) = softmax([x])
    np.testing.assert_allclose(y, _expected(np.ascontiguousarray(before).astype("f4")), rtol=2e-6)
    np.testing.assert_array_equal(x, before)
    assert type(y) is np.ndarray
    assert y.flags.c_contiguous
    assert y.flags.writeable
    assert not np.shares_memory(x, y)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (3, 1), (1, 1000), (1000, 3)])
def test_sizes(softmax: LoadedProgram, shape: tuple[int, int]) -> None:
    x = _values(*shape)
    (y,) = softmax([x])
    assert y.shape == shape
    np.testing.assert_allclose(y, _expected(x), rtol=1e-5)


def test_scalars_and_other_dtypes() -> None:
    m = Model("f")
    x, y = m.param("x", dtype=dtypes.bfloat16), m.param("y", "n", dtype=dtypes.bool_)
    program = load(m.function(m.op("negate", x), m.op("not", y)))
    a, b = program([np.array(1.5, ml_dtypes.bfloat16), np.array([True, False, True])[::-1]])
    assert (a.shape, a.dtype, float(a)) == ((), np.dtype(ml_dtypes.bfloat16), -1.5)
    assert b.tolist() == [False, True, False]
    scalar: Any = np.array(2.0, ml_dtypes.bfloat16)[()]  # has no memory of its own
    a, _ = program([scalar, np.zeros(3, bool)])
    assert float(a) == -2


def test_outputs_are_fresh(softmax: LoadedProgram) -> None:
    x = _values(4, 4)
    (first,), (second,) = softmax([x]), softmax([x])
    assert not np.shares_memory(first, second)
    first[...] = 0
    np.testing.assert_allclose(second, _expected(x), rtol=1e-6)


def test_a_program_of_nothing() -> None:
    m = Model("f")
    m.param("x", "n")
    assert load(m.function())([np.zeros(3, "f4")]) == []


# --- captured arrays --------------------------------------------------------------------------------------------------


def _affine(w: Array, b: Array) -> LoadedProgram:
    m = Model("affine")
    x = m.param("x", "n", 3)
    weight, bias = m.param("w", 3, 2, hidden=True), m.param("b", 2, hidden=True)
    return load(m.function(m.add(m.dot(x, weight), bias)), [w, b])


@pytest.mark.parametrize("order", ["C", "F"])
def test_captured_arrays_are_read_anew_at_each_call(order: str) -> None:
    w, b = np.array(_values(3, 2), order=order), _values(2)  # pyright: ignore[reportArgumentType, reportCallIssue]
    program = _affine(w, b)
    x = _values(5, 3)
    np.testing.assert_allclose(program([x])[0], x @ w + b, rtol=1e-5)
    w *= 2
    b += 1
    np.testing.assert_allclose(program([x])[0], x @ w + b, rtol=1e-5)


def test_captured_arrays_are_what_was_traced() -> None:
    with pytest.raises(IRError):
        _affine(_values(3, 3), _values(2))
    with pytest.raises(IRError):
        _affine(_values(3, 2).astype("f8"), _values(2))


# --- refusals ---------------------------------------------------------------------------------------------------------


def _two(kind: RelKind, lhs: str, rhs: str) -> LoadedProgram:
    """x[n] and y[m] with a relation between n and m."""
    m = Model("f")
    x, y = m.param("x", "n"), m.param("y", "m")
    sides = {"n": m.dim("n"), "m": m.dim("m"), "8": 8, "0": 0, "2*n": 2 * m.dim("n")}
    relation = Relation(kind, sides[lhs], sides[rhs], Reason("it is so", LOC))
    m.b.facts = m.b.facts.assume(relation)
    return load(m.function(m.op("negate", x), m.op("negate", y)))


@pytest.mark.parametrize(
    ("kind", "lhs", "rhs", "good", "bad"),
    [
        (RelKind.EQ, "n", "m", (3, 3), (3, 4)),
        (RelKind.EQ, "2*n", "m", (3, 6), (3, 7)),
        (RelKind.GE, "n", "m", (4, 3), (3, 4)),
        (RelKind.NONZERO, "n", "0", (1, 0), (0, 1)),
        (RelKind.DIVIDES, "8", "n", (16, 1), (12, 1)),
        (RelKind.DIVIDES, "n", "m", (3, 9), (3, 10)),
        (RelKind.DIVIDES, "n", "m", (0, 0), (0, 1)),
        (RelKind.BROADCASTS, "n", "m", (1, 5), (2, 5)),
        (RelKind.BROADCASTS, "n", "m", (0, 1), (0, 2)),
        (RelKind.SAME_NUMEL, "2*n", "m", (1, 2), (1, 3)),
    ],
)
def test_relations(kind: RelKind, lhs: str, rhs: str, good: tuple[int, int], bad: tuple[int, int]) -> None:
    program = _two(kind, lhs, rhs)
    assert [a.shape for a in program([np.zeros(n, "f4") for n in good])] == [(n,) for n in good]
    with pytest.raises(ShapeError, match="it is so"):
        program([np.zeros(n, "f4") for n in bad])


def test_a_size_that_has_no_value() -> None:
    m = Model("f")
    x, y = m.param("x", "n"), m.param("y", "m")
    wide = m.op("broadcast_in_dim", m.number(1.0), shape=(floordiv(x.shape[0], y.shape[0]),), dims=())
    program = load(m.function(m.op("negate", wide)))
    assert program([np.zeros(7, "f4"), np.zeros(2, "f4")])[0].tolist() == [-1, -1, -1]
    with pytest.raises(ShapeError) as caught:
        program([np.zeros(7, "f4"), np.zeros(0, "f4")])
    assert str(caught.value) == (
        "floordiv(n, m) divides by zero: m is 0.\n"
        "  n is the size n = 7\n"
        "  m is the size m = 0\n"
        "  at model.py:1\n"
        "  help: use max(n, 1) as a divisor that may be 0."
    )


def test_the_first_failure_is_reported() -> None:
    m = Model("f")
    x, y = m.param("x", "n", 4), m.param("y", "n", 5)
    program = load(m.function(m.op("negate", x), m.op("negate", y)))
    with pytest.raises(ShapeError) as caught:
        program([np.zeros((3, 9), "f4"), np.zeros((7, 9), "f4")])
    assert str(caught.value).startswith("x.shape[1] is 9, and it is declared to be 4.")


def test_sizes_that_pass_the_address_space() -> None:
    """Arrays of nothing may have large sides; what is computed of them may not."""
    m = Model("outer")
    x, y = m.param("x", "k", "n"), m.param("y", "k", "m")
    program = load(
        m.function(m.op("dot_general", x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(0,), rhs_contracting=(0,)))
    )
    assert program([np.zeros((0, 2), "f4"), np.zeros((0, 3), "f4")])[0].tolist() == [[0] * 3] * 2
    huge = np.zeros((0, 1 << 32), "f4")
    with pytest.raises(ShapeError) as caught:
        program([huge, huge])
    assert str(caught.value) == (
        "an array of this call would have more than 2^63 bytes (arguments: x (0, 4294967296), y (0, 4294967296)).\n"
        "  help: pass smaller arguments."
    )


def test_no_memory_for_the_arena_and_then_a_good_call() -> None:
    m = Model("outer")
    x, y = m.param("x", "k", "n"), m.param("y", "k", "m")
    square = m.op("dot_general", x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(0,), rhs_contracting=(0,))
    program = load(m.function(m.reduce(square, (0, 1), keep=False)))
    large = np.zeros((0, 1 << 29), "f4")  # 2^60 bytes between the two kernels, 2^46 of parts
    with pytest.raises(MemoryError) as caught:
        program([large, large])
    assert str(caught.value) == (
        "outer: no memory for 1152991873351024640 bytes of intermediate arrays "
        "(arguments: x (0, 536870912), y (0, 536870912))"
    )
    assert program([np.ones((2, 3), "f4"), np.ones((2, 5), "f4")])[0] == 30


def test_no_memory_for_an_output_and_then_a_good_call() -> None:
    m = Model("outer")
    x, y = m.param("x", "k", "n"), m.param("y", "k", "m")
    product = m.op("dot_general", x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(0,), rhs_contracting=(0,))
    program = load(m.function(product))
    large = np.zeros((0, 1 << 29), "f4")
    with pytest.raises(MemoryError):
        program([large, large])
    assert program([np.ones((2, 3), "f4"), np.ones((2, 5), "f4")])[0].sum() == 30


# --- many at once -----------------------------------------------------------------------------------------------------


def _transformer() -> tuple[Function, LoadedProgram, list[Array]]:
    function = transformer(1)
    rng = np.random.default_rng(1)
    captured = [
        (rng.standard_normal([d for d in p.shape if isinstance(d, int)]) * 0.1).astype("f4")
        for p, info in zip(function.params, function.infos, strict=True)
        if info.hidden
    ]
    return function, load(function, captured), captured


def _inputs(batch: int, length: int) -> list[Array]:
    rng = np.random.default_rng(batch * 1000 + length)
    ids = rng.integers(0, 100, (batch, length)).astype("i4")
    return [ids, np.where(rng.random((batch, length)) < 0.2, -1e4, 0).astype("f4")]


def test_threads_agree_with_one() -> None:
    """Eight threads and 200 calls each, of one program with an arena and scratch, at sizes of their own."""
    function, program, captured = _transformer()
    sizes = [(1, 5), (2, 7), (3, 1), (1, 33), (0, 4), (2, 16), (4, 3), (1, 1)]
    alone = {size: program(_inputs(*size))[0].copy() for size in sizes}
    for size in sizes:
        (expected,) = run_reference(function, [*_inputs(*size), *captured])
        np.testing.assert_allclose(alone[size], expected, rtol=2e-3, atol=2e-4)

    def work(number: int) -> int:
        good = 0
        for call in range(200):
            size = sizes[(number + call) % len(sizes)]
            good += np.array_equal(program(_inputs(*size))[0], alone[size])
        return good

    assert in_threads(work, range(8)) == [200] * 8


def test_failures_in_threads_stay_apart(softmax: LoadedProgram) -> None:
    program = _two(RelKind.EQ, "n", "m")

    def work(number: int) -> int:
        caught = 0
        for call in range(100):
            size = number * 100 + call
            try:
                program([np.zeros(size, "f4"), np.zeros(size + call % 2, "f4")])
            except ShapeError as error:
                caught += f"n is {size} and m is {size + 1}:" in str(error)
        return caught

    assert in_threads(work, range(4)) == [50] * 4


def test_a_call_within_a_call() -> None:
    """An output's allocation may run Python code, which may call the program again."""
    m = Model("f")
    program = load(m.function(m.add(m.param("x", "n"), 1.0)))
    frame_of_the_first: list[Array] = []

    class Once:
        """Called by the outer call while it allocates."""

        done = False

    plain = CallFrame.allocate

    def allocate(frame: Any, index: int) -> int:
        if not Once.done:
            Once.done = True
            frame_of_the_first.extend(program([np.arange(5, dtype="f4")]))
        return plain(frame, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallFrame, "allocate", allocate)
        (outer,) = program([np.arange(3, dtype="f4")])
    assert outer.tolist() == [1, 2, 3]
    assert frame_of_the_first[0].tolist() == [1, 2, 3, 4, 5]


def test_the_table_is_made_once() -> None:
    fresh = runtime_tables._Runtime()
    assert len(set(in_threads(lambda _: fresh.address(), range(32)))) == 1


# --- what a call asks ------------------------------------------------------------------------------------------------


def test_captured_arrays_cost_a_call_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 captured arrays: a call asks none of them for its memory again."""
    asked: list[int] = []
    put = CallFrame.put

    def counting(frame: CallFrame, number: int, array: Any) -> bool:
        asked.append(number)
        return put(frame, number, array)

    monkeypatch.setattr(CallFrame, "put", counting)
    m = Model("many")
    x, y = m.param("x", "n"), m.param("y", "n")
    for number in range(200):
        m.param(f"w{number}", 4, hidden=True)
    program = load(m.function(m.add(x, y)), [np.ones(4, "f4") for _ in range(200)])
    a, b = np.ones(8, "f4"), np.ones(8, "f4")
    program([a, b])
    assert sorted(asked) == list(range(202))
    asked.clear()
    for _ in range(3):
        program([a, b])
    assert asked == [0, 1] * 3
