"""What user code can do with ``x.shape[0]``: arithmetic, questions, and what it is told when there is no answer."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import dyn
from dyn.errors import ArgumentError, IRError, LeakedTracerError, ShapeError, TraceError, UndecidedDimError
from dyn.shapes import evaluate
from dyn.trace import dims
from dyn.trace.dims import SymbolicDim, max_dim, min_dim, unwrap_dim
from tests.trace.tracing import body, guards, leaf, text_of, trace

DimFn = Callable[..., Any]


def on_dim(fn: DimFn, sizes: tuple[int, ...] | None = (5, 3), **options: Any) -> Any:
    """What ``fn`` gives for the first dim of ``x: f32[x_0, x_1]``, and the traced function."""
    found: list[Any] = []

    def traced(x: Any) -> Any:
        found.append(fn(*x.shape))
        return x

    return trace(traced, leaf("x", None, None, sizes=sizes), **options), found[0]


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda n, m: n + 1, "x_0 + 1"),
        (lambda n, m: 1 + n, "x_0 + 1"),
        (lambda n, m: n + m, "x_0 + x_1"),
        (lambda n, m: n - m, "x_0 - x_1"),
        (lambda n, m: 3 - n, "-x_0 + 3"),
        (lambda n, m: n * m * 2, "2*x_0*x_1"),
        (lambda n, m: 2 * n, "2*x_0"),
        (lambda n, m: n // 2, "floordiv(x_0, 2)"),
        (lambda n, m: 7 // n, "floordiv(7, x_0)"),
        (lambda n, m: n % m, "mod(x_0, x_1)"),
        (lambda n, m: 7 % n, "mod(7, x_0)"),
        (lambda n, m: divmod(n, 2), "(floordiv(x_0, 2), mod(x_0, 2))"),
        (lambda n, m: divmod(2, n), "(floordiv(2, x_0), mod(2, x_0))"),
        (lambda n, m: n**3, "x_0**3"),
        (lambda n, m: n**0, "1"),
        (lambda n, m: -n, "-x_0"),
        (lambda n, m: +n, "x_0"),
        (lambda n, m: abs(n), "x_0"),
        (lambda n, m: abs(n - m), "max(-x_0 + x_1, x_0 - x_1)"),
        (lambda n, m: round(n), "x_0"),
        (lambda n, m: (math.floor(n), math.ceil(n), math.trunc(n)), "(x_0, x_0, x_0)"),
        (lambda n, m: n - n, "0"),
        (lambda n, m: (n + m) - m, "x_0"),
        (lambda n, m: sum([n, m, 1]), "x_0 + x_1 + 1"),
        (lambda n, m: np.int64(2) * n, "2*x_0"),
        (lambda n, m: n + np.int32(2), "x_0 + 2"),
        (lambda n, m: np.minimum(n, 3), "min(3, x_0)"),
        (lambda n, m: np.negative(n), "-x_0"),
        (min_dim, "min(x_0, x_1)"),
        (lambda n, m: max_dim(4, m), "max(4, x_1)"),
        (lambda n, m: min_dim(4, 3), "3"),
        (lambda n, m: f"{n}!", "x_0!"),
        (lambda n, m: copy.copy(n), "x_0"),
    ],
)
def test_arithmetic(fn: DimFn, text: str) -> None:
    traced, result = on_dim(fn)
    assert str(result) == text
    assert guards(traced) == []
    assert traced.function.ops == ()


@hypothesis.given(
    names=st.lists(st.sampled_from(["add", "sub", "mul", "floordiv", "mod"]), min_size=1, max_size=4),
    numbers=st.lists(st.integers(-4, 9), min_size=4, max_size=4),
    size=st.integers(0, 9),
)
def test_arithmetic_is_that_of_integers(names: list[str], numbers: list[int], size: int) -> None:
    def compute(n: Any) -> Any:
        for name, number in zip(names, numbers, strict=False):
            if number or name not in ("floordiv", "mod"):
                n = getattr(operator, name)(n, number)
        return n

    traced, result = on_dim(lambda n, m: compute(n), sizes=None)
    (symbol, _) = traced.function.symbols()
    dim = result.dim if isinstance(result, SymbolicDim) else result
    assert evaluate(dim, {symbol: size}) == compute(size)


@pytest.mark.parametrize(
    ("fn", "type"),
    [
        (lambda n, m: n / 2, "f64[]~"),
        (lambda n, m: n / m, "f64[]~"),
        (lambda n, m: 1.0 / n, "f64[]~"),
        (lambda n, m: n**-0.5, "f64[]~"),
        (lambda n, m: n * 2.5, "f64[]~"),
        (lambda n, m: 2.5 - n, "f64[]~"),
        (lambda n, m: n + np.float32(1), "f32[]"),
        (lambda n, m: np.float32(1) + n, "f32[]"),
        (lambda n, m: n < 2.5, "i1[]"),
        (lambda n, m: n == 2.5, "i1[]"),
        (lambda n, m: n != 2.5, "i1[]"),
        (lambda n, m: n * np.ones(3, np.float32), "f32[3]"),
        (lambda n, m: np.ones(3, np.float32) * n, "f32[3]"),
    ],
)
def test_arithmetic_with_other_numbers_gives_scalars(fn: DimFn, type: str) -> None:
    traced, result = on_dim(fn)
    assert repr(result) == f"Tracer<{type}>"
    assert guards(traced) == []


def test_arithmetic_with_arrays() -> None:
    traced = trace(lambda x: x / x.shape[0] + x.shape[1] * x, leaf("x", None, None))
    sizes = [op.attrs["size"] for op in traced.function.ops if op.opdef.name == "dim_size"]
    assert list(map(str, sizes)) == ["x_0", "x_1"]
    assert str(traced.function.results[0].type) == "f32[x_0, x_1]"


@pytest.mark.parametrize("name", ["add", "sub", "floordiv", "mod", "truediv", "pow", "lt", "ge"])
def test_arithmetic_with_something_else(name: str) -> None:
    def fn(n: Any, m: Any) -> Any:
        with pytest.raises(TypeError):
            getattr(operator, name)(n, "a")
        with pytest.raises(TypeError):
            getattr(operator, name)(None, n)

    on_dim(fn)


def test_equality_with_something_else() -> None:
    traced, result = on_dim(lambda n, m: (n == "a", n == None, n != "a", n in ("a", None)))  # noqa: E711
    assert result == (False, False, True, False)
    assert guards(traced) == []


def test_division_by_zero() -> None:
    assert text_of(ShapeError, on_dim, lambda n, m: n // 0) == (
        "floordiv(x_0, 0) divides by zero.\n"
        "  at test_dims.py:N  assert text_of(ShapeError, on_dim, lambda n, m: n // 0) == (\n"
        "  help: use max(n, 1) as a divisor that may be 0."
    )


def test_sizes_of_other_kinds() -> None:
    class Three:
        def __index__(self) -> int:
            return 3

    assert [unwrap_dim(d) for d in (3, np.int8(3), Three())] == [3, 3, 3]
    assert [unwrap_dim(d) for d in (True, 3.0, None, np.array(3), "3", np.float32(3))] == [None] * 6
    assert text_of(ArgumentError, min_dim, 3, "a") == (
        "'a' is a str, not a size.\n  at tracing.py:N  fn(*args, **kwargs)\n  help: pass ints and dimensions."
    )


# ---- questions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "answer"),
    [
        (lambda n, m: n == n, True),
        (lambda n, m: n != n + 1, True),
        (lambda n, m: n >= 0, True),
        (lambda n, m: n + 1 > 0, True),
        (lambda n, m: n < 0, False),
        (lambda n, m: n <= n + m, True),
        (lambda n, m: bool(n + 1), True),
        (lambda n, m: 2 * n % 2 == 0, True),
        (lambda n, m: 2 * n == 2 * m + 1, False),
        (lambda n, m: n in (n, 3), True),
        (lambda n, m: 0 <= n, True),  # noqa: SIM300
    ],
)
def test_questions_that_are_proved(fn: DimFn, answer: bool) -> None:
    traced, result = on_dim(fn, sizes=None)
    assert result is answer
    assert guards(traced) == []


@pytest.mark.parametrize(
    ("fn", "answer", "guard"),
    [
        (lambda n, m: n == 5, True, "x_0 == 5"),
        (lambda n, m: n == 4, False, "x_0 - 4 != 0"),
        (lambda n, m: n != 4, True, "x_0 - 4 != 0"),
        (lambda n, m: n == m, False, "x_0 - x_1 != 0"),
        (lambda n, m: n > 4, True, "x_0 >= 5"),
        (lambda n, m: n > 5, False, "5 >= x_0"),
        (lambda n, m: n >= 5, True, "x_0 >= 5"),
        (lambda n, m: n < 6, True, "6 >= x_0 + 1"),
        (lambda n, m: n < m, False, "x_0 >= x_1"),
        (lambda n, m: n <= m, False, "x_0 - 1 >= x_1"),
        (lambda n, m: 4 < n, True, "x_0 >= 5"),  # noqa: SIM300
        (lambda n, m: bool(n), True, "x_0 != 0"),
        (lambda n, m: bool(n - 5), False, "x_0 - 5 == 0"),
        (lambda n, m: n % 2 == 1, True, "mod(x_0, 2) == 1"),
        (lambda n, m: np.int64(5) == n, True, "x_0 == 5"),
        (lambda n, m: min(n, m) is m, True, "x_0 >= x_1 + 1"),
        (lambda n, m: n in (1, 5), True, "x_0 - 1 != 0, x_0 == 5"),
        (lambda n, m: (n, m) == (5, 3), True, "x_0 == 5, x_1 == 3"),
    ],
)
def test_questions_that_the_sizes_answer(fn: DimFn, answer: bool, guard: str) -> None:
    traced, result = on_dim(fn)
    assert result is answer
    assert ", ".join(guards(traced)) == guard
    env = dict(zip(traced.function.symbols(), (5, 3), strict=True))
    assert all(g.holds(env) for g in traced.guards)


def test_a_guard_is_asked_for_once_and_then_known() -> None:
    def fn(n: Any, m: Any) -> Any:
        return n > 3, n > 2, n == 0, n + 1 >= 5, m == 3, int(m), list(range(m)), float(m), hash(m) == hash(3), {m: 1}[3]

    traced, result = on_dim(fn)
    assert result == (True, True, False, True, True, 3, [0, 1, 2], 3.0, True, 1)
    assert guards(traced) == ["x_0 >= 4", "x_1 == 3"]
    assert [str(g.reason.text) for g in traced.guards] == ["the branch on x_0 > 3", "the branch on x_1 == 3"]
    assert traced.guards[0].reason.loc is not None
    assert traced.guards[0].reason.loc.function == "fn"
    assert traced.guards[0].reason.loc.code.startswith("return n > 3")


def test_ranges_decide() -> None:
    def fn(x: Any) -> Any:
        n = x.shape[0]
        assert n >= 8
        assert n <= 512
        assert n % 8 == 0
        return x

    traced = trace(fn, leaf("x", "n"), dims=(dyn.Dim("n", min=8, max=512, multiple_of=8),))
    assert guards(traced) == []


@pytest.mark.parametrize(
    ("fn", "question"),
    [
        (lambda n, m: n == 4, "x_0 == 4"),
        (lambda n, m: n != 4, "x_0 == 4"),
        (lambda n, m: n > 128, "x_0 > 128"),
        (lambda n, m: n <= 128, "x_0 <= 128"),
        (lambda n, m: bool(n), "x_0 == 0"),
        (lambda n, m: n % 8 == 0, "mod(x_0, 8) == 0"),
    ],
)
def test_questions_without_an_answer(fn: DimFn, question: str) -> None:
    text = text_of(UndecidedDimError, on_dim, fn, sizes=None)
    first, place, remedy = text.split("\n")
    assert first == f"whether {question} cannot be decided: x_0 is x.shape[0]."
    assert place.startswith("  at test_dims.py:N  (lambda n, m: ")
    assert remedy == (
        "  help: call the function with arrays instead of tracing it for a ShapeDtypeStruct, declare the dimension's "
        "range with dyn.Dim or constraints=, or use dyn.numpy.where."
    )


def test_the_whole_text() -> None:
    def fn(x: Any, y: Any) -> Any:
        if x.shape[0] > y.shape[0]:
            return x
        return y

    assert text_of(UndecidedDimError, trace, fn, leaf("x", None), leaf("y", "m")) == (
        "whether x_0 > m cannot be decided: m is y.shape[0], x_0 is x.shape[0].\n"
        "  at test_dims.py:N  if x.shape[0] > y.shape[0]:\n"
        "  help: call the function with arrays instead of tracing it for a ShapeDtypeStruct, declare the dimension's "
        "range with dyn.Dim or constraints=, or use dyn.numpy.where."
    )


def test_dyn_itself_makes_no_guards() -> None:
    here: dict[str, Any] = {"__name__": "dyn.numpy.somewhere", "__builtins__": __builtins__}
    source = "def ask(x):\n    return x.shape[0] > 2"
    exec(compile(source, dyn.__file__.replace("__init__", "somewhere"), "exec"), here)
    assert text_of(IRError, trace, here["ask"], leaf("x", None, sizes=(3,))) == (
        "dyn's own code branches on x_0 > 2\n  at somewhere.py:N\n  help: ask trace.facts there."
    )
    with dyn.config.override(verify_ir=False):
        assert guards(trace(lambda x: here["ask"](x) and x, leaf("x", None, sizes=(3,)))) == ["x_0 >= 3"]


# ---- never -----------------------------------------------------------------------------------------------------------

STATIC = "or make it static with shapes=."


@pytest.mark.parametrize(
    ("fn", "what", "remedy"),
    [
        (lambda n, m: int(n), "int()", f"use the dimension itself in shapes and arithmetic, {STATIC}"),
        (
            lambda n, m: float(n),
            "float()",
            "write x / dim, dim ** -0.5 or dim * 1.0: they give a scalar, computed at each call.",
        ),
    ],
)
def test_what_needs_one_value(fn: DimFn, what: str, remedy: str) -> None:
    first, place, last = text_of(UndecidedDimError, on_dim, fn).split("\n")
    assert first == (
        f"{what} needs one value of the dimension x_0 (x_0 is x.shape[0]), and it differs from call to call."
    )
    assert place.startswith("  at test_dims.py:N  ")
    assert last == f"  help: {remedy}"


# ---- dims that outlive their trace -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (lambda n: n + 1, "the dimension x_0"),
        (lambda n: 1 + n, "the dimension x_0"),
        (lambda n: -n, "the dimension x_0"),
        (lambda n: n == 3, "the dimension x_0"),
        (lambda n: n > 3, "the dimension x_0"),
        (bool, "the dimension x_0"),
        (int, "the dimension x_0"),
        (lambda n: n * 2.5, "the dimension x_0"),
        (lambda n: n**-0.5, "the dimension x_0"),
        (lambda n: n**2, "the dimension x_0"),
    ],
)
def test_leaked(fn: DimFn, what: str) -> None:
    _, n = on_dim(lambda n, m: n)
    text = text_of(LeakedTracerError, fn, n)
    assert text.startswith(f"{what} of a trace of 'f' is used outside that trace.\n  at ")
    assert text.endswith(
        "\n  help: return it from the function instead of keeping it in a global, an attribute or a list."
    )
    assert str(n) == "x_0"


def test_two_traces() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return y + (x.shape[0] + y.shape[0])

        return trace(inner, leaf("y", None))

    assert text_of(LeakedTracerError, trace, outer, leaf("x", None)) == (
        "the dimensions x_0 and y_0 belong to different traces, of 'f' and of 'f'.\n"
        "  at test_dims.py:N  return y + (x.shape[0] + y.shape[0])\n"
        "  help: pass arrays to the inner function as arguments, and take their shapes there."
    )


def test_dims_of_results() -> None:
    traced = trace(lambda x: x.shape[0], leaf("x", None))
    assert body(traced) == ['dim x_0: "x.shape[0]"', "%0 = dim_size() {dtype = #i64, size = x_0} : i64[]~",
                            "%1 = convert(%0) {dtype = #i64} : i64[]", "return %1"]  # fmt: skip
    assert issubclass(UndecidedDimError, TraceError)


def test_sizes_are_not_written_out_while_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a size of many levels takes longer than its arithmetic, and only errors show it."""
    written: list[object] = []
    monkeypatch.setattr(dims, "format_dim", lambda dim: str(written.append(dim)))

    @dyn.jit
    def f(x: Any) -> Any:
        size = x.shape[0]
        for _ in range(30):
            size = np.maximum(size // 2, 3) + np.minimum(size // 3, 5)
        return x * size

    f.trace(dyn.ShapeDtypeStruct(("n",), "float32"))
    assert not written
