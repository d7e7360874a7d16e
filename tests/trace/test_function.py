"""From Python functions to programs: dims and their sizes, captured arrays, results, source lines."""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ArgumentError, ShapeError, TraceError, UnsupportedOpError
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.trace.context import current_trace
from dyn.trace.function import LeafSpec, trace_function
from tests.trace.tracing import body, guards, leaf, text_of, trace

# ---- dims ------------------------------------------------------------------------------------------------------------


def test_dims_and_text() -> None:
    traced = trace(lambda x, w: x @ w, leaf("x", None, "k"), leaf("params['w']", "k", 4))
    text = print_function(traced.function)
    assert text.splitlines()[:3] == [
        'func @f(%x: f32[x_0, k] "x", %params_w: f32[k, 4] "params[\'w\']") -> (f32[x_0, 4] "result") {',
        '  dim k: "x.shape[1]"',
        '  dim x_0: "x.shape[0]"',
    ]
    assert print_function(parse_function(text)) == text


def test_no_coincidences() -> None:
    traced = trace(lambda x, y: x, leaf("x", None, sizes=(3,)), leaf("y", None, sizes=(3,)))
    assert len(traced.function.symbols()) == 2
    assert traced.function.facts.relations == ()


def test_dims_declared_by_expression() -> None:
    def fn(x: Any, y: Any) -> Any:
        assert x.shape[0] == 2 * y.shape[0]
        assert y.shape[0] == 3
        return x

    traced = trace(fn, leaf("x", "2*n", sizes=(6,)), leaf("y", "n", sizes=(3,)))
    assert guards(traced) == ["n == 3"]
    assert [s.origin for s in traced.function.symbols()] == ["y.shape[0]"]


def test_a_size_that_follows_from_an_expression() -> None:
    traced = trace(lambda x, y: x.shape[1] == 4, leaf("x", "n*m + 1", "n", sizes=(13, 4)), leaf("y", "m", sizes=(3,)))
    assert guards(traced) == ["n == 4"]
    traced = trace(lambda x: bool(x.shape[0] == 9), leaf("x", "2*n + 1", sizes=(9,)))
    assert [s.origin for s in traced.function.symbols()] == ["the declared dim n"]


MISMATCH = "pass arrays that agree, or give the two axes different names in shapes=."


@pytest.mark.parametrize(
    ("leaves", "text"),
    [
        (
            [leaf("x", "b", "n", sizes=(2, 3)), leaf("w", "n", sizes=(4,))],
            f"w.shape[0] is 4, and it must be n = 3.\n  n is x.shape[1] = 3\n  help: {MISMATCH}",
        ),
        (
            [leaf("x", "2*n", sizes=(7,)), leaf("y", "n", sizes=(3,))],
            f"x.shape[0] is 7, and it must be 2*n = 6.\n  n is y.shape[0] = 3\n  help: {MISMATCH}",
        ),
        (
            [leaf("x", "2*n", sizes=(7,))],
            f"x.shape[0] is 7, and it must be 2*n = 6.\n  n is the declared dim n = 3\n  help: {MISMATCH}",
        ),
        (
            [leaf("x", "n + 3", sizes=(2,))],
            "x.shape[0] is 2, and it must be n + 3, where n is a size.\n  n is the declared dim n = -1\n"
            "  help: pass a larger array, or change shapes=.",
        ),
        (
            [leaf("x", "n", 768, sizes=(2, 767))],
            "x.shape[1] is 767, and it is declared to be 768.\n"
            "  help: pass an array whose axis 1 has 768 elements, or change shapes=.",
        ),
    ],
)
def test_sizes_that_do_not_fit(leaves: list[LeafSpec], text: str) -> None:
    called: list[Any] = []
    assert text_of(ShapeError, trace, lambda *x: called.append(x), *leaves) == text
    assert called == []


def test_the_same_text_before_compiling_and_when_called() -> None:
    f = dyn.jit(lambda x, w: dnp.sum(x) + dnp.sum(w), shapes="b n, n")
    x, w = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    first = text_of(ShapeError, f, x, w)
    assert f.cache_info().compiles == 0
    f(x, w[:3])
    assert text_of(ShapeError, f, x, w) == first


def test_a_range_of_a_name_that_no_axis_has() -> None:
    dims = (dyn.Dim("t"),)
    assert text_of(ArgumentError, trace, lambda x: x, leaf("x", "s", sizes=(4,)), dims=dims) == (
        "dims= declares t, which no axis of an argument is.\n"
        "  help: name an axis t in shapes=, or leave the declaration out."
    )


def test_a_range() -> None:
    dims = (dyn.Dim("s", min=2, max=8, multiple_of=2, likely=(4,)),)
    traced = trace(lambda x: x, leaf("x", "s", sizes=(4,)), dims=dims)
    (declaration,) = traced.function.facts.declarations
    assert declaration.describe() == "2 <= s <= 8, s % 2 == 0"
    assert "likely 4 \"dyn.Dim('s') says so\"" in print_function(traced.function)
    for size in (0, 5, 10):
        assert text_of(ShapeError, trace, lambda x: x, leaf("x", "s", sizes=(size,)), dims=dims) == (
            f"x.shape[0] is {size}, and 2 <= s <= 8, s % 2 == 0 was declared.\n"
            "  help: pass an array of a size that was declared, or change the declaration of s."
        )


def test_constraints() -> None:
    leaves = [leaf("x", "n", sizes=(4,)), leaf("y", None, sizes=(3,))]
    constraints = ("n > y.shape[0]", "n % 2 == 0")
    traced = trace(lambda x, y: x.shape[0] != y.shape[0], *leaves, constraints=constraints)
    assert guards(traced) == []
    assert [r.describe() for r in traced.function.facts.relations] == ["n >= y_0 + 1", "n % 2 == 0"]
    assert text_of(ShapeError, trace, lambda x: x, leaf("x", "n", sizes=(4,)), constraints=("n <= 3",)) == (
        "3 >= n is required, but n is 4: constraints='n <= 3'.\n"
        "  n is x.shape[0] = 4\n"
        "  at constraints=\n"
        "  help: pass arguments whose shapes satisfy it."
    )
    assert text_of(ArgumentError, trace, lambda x: x, leaf("x", "n"), constraints=("k == 3",)).startswith(
        "cannot read a dimension: unknown name 'k' (known: n, x.shape[0]) at column 1.\n"
    )


def test_a_dim_that_is_no_name() -> None:
    assert text_of(ArgumentError, trace, lambda x: x, leaf("x", "2*y.shape[0]")) == (
        "x.shape[0] is declared as 2*y.shape[0], and y.shape[0] is not the name of a dim.\n"
        "  help: give that axis a name in shapes=, and use the name."
    )


def test_branches() -> None:
    def fn(x: Any) -> Any:
        if x.shape[0] > 2:
            return x + 1
        return x

    long = trace(fn, leaf("x", None, sizes=(3,)))
    short = trace(fn, leaf("x", None, sizes=(2,)))
    assert (guards(long), guards(short)) == (["x_0 >= 3"], ["2 >= x_0"])
    assert len(long.function.ops) > len(short.function.ops) == 0
    (guard,) = long.guards
    assert guard.reason.loc is not None
    assert guard.reason.loc.code == "if x.shape[0] > 2:"


# ---- captured arrays -------------------------------------------------------------------------------------------------


def test_captured_arrays() -> None:
    w, v = np.ones(3, np.float32), np.ones(3, np.float32)

    def fn(x: Any) -> Any:
        return (x + w) * w + v

    traced = trace(fn, leaf("x", "n", 3))
    assert [(i.name, i.hidden) for i in traced.function.infos] == [
        ("x", False),
        ("captured0", True),
        ("captured1", True),
    ]
    assert traced.captured[0] is w
    assert traced.captured[1] is v
    assert '%captured0: f32[3] "captured0" hidden' in print_function(traced.function)


def test_captured_arrays_are_read_at_each_call() -> None:
    w = np.ones(3, np.float32)
    f = dyn.jit(lambda x: x + w)
    x = np.zeros(3, np.float32)
    assert np.asarray(f(x)).tolist() == [1, 1, 1]
    w[1] = 5
    assert np.asarray(f(x)).tolist() == [1, 5, 1]
    assert f.cache_info().compiles == 1


def test_scalars_become_constants() -> None:
    class Level(enum.IntEnum):
        HIGH = 3

    def fn(x: Any) -> Any:
        return x * np.float32(2) + Level.HIGH + np.array(1, np.float32)[()]

    assert trace(fn, leaf("x")).captured == ()


@pytest.mark.parametrize(
    ("array", "problem", "remedy"),
    [
        (
            np.array(["a"]),
            "an array of dtype <U1 has no place in a compiled program.",
            "convert it to a numeric dtype first, for example array.astype('float32').",
        ),
        (
            np.array([None]),
            "an array of dtype object has no place in a compiled program.",
            "convert it to a numeric dtype first, for example array.astype('float32').",
        ),
        (
            np.ma.masked_array([1.0], [True]),
            "a masked array has no place in a compiled program: its mask would be lost.",
            "use array.filled(value), and pass the mask as an array of its own.",
        ),
    ],
)
def test_arrays_that_are_refused(array: Any, problem: str, remedy: str) -> None:
    def fn(x: Any) -> Any:
        return dnp.add(x, array)

    assert text_of(UnsupportedOpError, trace, fn, leaf("x", None)) == (
        f"{problem}\n  at test_function.py:N  return dnp.add(x, array)\n  help: {remedy}"
    )


def test_integers_that_do_not_fit() -> None:
    assert text_of(UnsupportedOpError, trace, lambda: 2**63) == (
        "the Python integer 9223372036854775808 does not fit in int64.\n"
        '  at tracing.py:N  traced = trace_function(lambda tracers: fn(*tracers), "f", leaves, '
        "Declarations(dims, constraints))\n"
        "  help: use a float, or a NumPy uint64."
    )


def test_arrays_of_other_byte_orders() -> None:
    w = np.array([1.0, 2.0], ">f4")
    traced = trace(lambda x: x + w, leaf("x", 2))
    assert str(traced.function.params[1].type) == "f32[2]"
    f = dyn.jit(lambda x: x + w)
    assert np.asarray(f(np.zeros(2, np.float32))).tolist() == [1.0, 2.0]


def test_bfloat16_arrays() -> None:
    w = np.ones(2, ml_dtypes.bfloat16)
    assert str(trace(lambda: w).function.params[0].type) == "bf16[2]"


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "type"),
    [(1, "i64[]"), (True, "i1[]"), (1.5, "f32[]"), (1j, "c64[]"), (np.float64(1), "f64[]"), (np.ones(2), "f64[2]")],
)
def test_weak_results(result: Any, type: str) -> None:
    assert [str(v.type) for v in trace(lambda: result).function.results] == [type]


def test_weak_results_in_float64() -> None:
    with dyn.config.override(default_float="float64"):
        traced = trace(lambda: (1.5, 1j))
    assert [str(v.type) for v in traced.function.results] == ["f64[]", "c128[]"]


def test_trees_of_results() -> None:
    traced = trace(lambda x: {"b": (x, None), "a": [x, 1]}, leaf("x", None))
    assert traced.function.result_names == ("result['a'][0]", "result['a'][1]", "result['b'][0]")
    assert "\"result['a'][0]\"" in print_function(traced.function)
    assert trace(lambda: None).function.results == ()
    assert body(trace(lambda: ())) == ["return"]


@pytest.mark.parametrize(
    ("result", "what"), [("a", "str (result)"), ({"y": {1}}, "set (result['y'])"), ([int], "type (result[0])")]
)
def test_results_that_are_no_arrays(result: Any, what: str) -> None:
    assert text_of(TraceError, trace, lambda: result).split("\n")[0] == (f"f returns a {what}, which is not an array.")


def test_a_trace_ends_when_the_function_raises() -> None:
    def fn(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        trace(fn, leaf("x"))
    assert current_trace() is None


@pytest.mark.parametrize(
    ("name", "text"), [("f", "f"), ("<lambda>", "lambda"), ("größe", "größe"), ("2x", "function_2x"), ("", "function")]
)
def test_names_of_functions(name: str, text: str) -> None:
    function = trace_function(lambda x: x[0], name, [leaf("x")]).function
    assert function.name == text
    assert print_function(parse_function(print_function(function))) == print_function(function)


# ---- source lines ----------------------------------------------------------------------------------------------------


class Model:
    def __call__(self, x: Any) -> Any:
        return self.inner(x)

    def inner(self, x: Any) -> Any:
        return dnp.exp(x)


def test_source_lines() -> None:
    def nested(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return dnp.tanh(y)

        return inner(x)

    def many(x: Any) -> Any:
        return [dnp.sin(x) for _ in range(2)]

    def lines(x: Any) -> Any:
        return dnp.negative(
            dnp.cos(x)
        )  # fmt: skip

    def places(fn: Any) -> list[tuple[str, str, str]]:
        return [(op.opdef.name, op.loc.function, op.loc.code) for op in trace(fn, leaf("x", None)).function.ops]

    assert places(nested) == [("tanh", "inner", "return dnp.tanh(y)")]
    assert [p[0::2] for p in places(many)] == [("sine", "return [dnp.sin(x) for _ in range(2)]")] * 2
    assert places(Model()) == [("exponential", "inner", "return dnp.exp(x)")]
    assert places(Model().inner) == [("exponential", "inner", "return dnp.exp(x)")]
    assert [p[:2] for p in places(lambda x: -x)] == [("negate", "<lambda>")]
    assert [p[2] for p in places(lines)] == ["dnp.cos(x)", "return dnp.negative("]
    assert all(op.loc.file == __file__ for op in trace(nested, leaf("x", None)).function.ops)


def test_lines_of_operators() -> None:
    traced = trace(lambda x: x + x.sum(), leaf("x", None))
    assert {op.loc.function for op in traced.function.ops} == {"<lambda>"}
    assert {op.loc.file for op in traced.function.ops} == {__file__}
    assert dtypes.float32 is traced.function.results[0].dtype
