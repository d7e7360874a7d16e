"""The arrays that user code holds while it is traced: attributes, operators, and what they refuse."""

from __future__ import annotations

import builtins
import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import LeakedTracerError, TraceError, UndecidedDimError
from dyn.ir.types import TensorType
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer, active_trace
from tests.trace.tracing import leaf, text_of, trace

Fn = Callable[[Any], Any]


def on_array(fn: Fn, *axes: int | str | None, dtype: dtypes.DType = dtypes.float32) -> Any:
    """What ``fn`` gives for a tracer of ``f32[n, 3]``, or of other axes."""
    found: list[Any] = []
    trace(lambda x: found.append(fn(x)), leaf("x", *(axes if axes else ("n", 3)), dtype=dtype))
    return found[0]


def test_attributes() -> None:
    def fn(x: Any) -> None:
        assert isinstance(x, Tracer)
        assert repr(x) == "Tracer<f32[n, 3]>"
        assert str(x.shape) == "(n, 3)"
        assert (x.dtype, x.element_type, x.ndim, x.itemsize, x.weak) == (np.float32, dtypes.float32, 2, 4, False)
        assert (str(x.size), str(x.nbytes)) == ("3*n", "12*n")
        assert str(x.T.shape) == "(3, n)"
        assert len(x[0]) == 3
        assert x.__array_namespace__() is dnp
        assert active_trace(1, x) is x._trace
        for other in (copy.copy(x), copy.deepcopy([x])[0]):
            assert other is not x
            assert other.value_in(x._trace) is x.value_in(x._trace)

    on_array(fn)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
)
def test_operators(name: str) -> None:
    fn = getattr(operator, name)
    wanted = "i1" if name in ("eq", "ne", "lt", "le", "gt", "ge") else "f32"
    others: list[Any] = [2, 2.5, np.float32(2), np.ones(3, np.float32)]
    results = on_array(lambda x: [r for other in others for r in (fn(x, other), fn(other, x))])
    assert {str(r._value.type) for r in results} == {f"{wanted}[n, 3]"}
    assert on_array(lambda x: fn(x, x.shape[0])).dtype == wanted.replace("i1", "?").replace("f32", "f4")


@pytest.mark.parametrize(("name", "dtype"), [("and_", dtypes.int32), ("or_", dtypes.bool_), ("xor", dtypes.int32)])
def test_bit_operators(name: str, dtype: dtypes.DType) -> None:
    fn = getattr(operator, name)
    one = np.array(1, dtype.np)[()]
    assert on_array(lambda x: fn(x, x), dtype=dtype).dtype == dtype.np
    assert on_array(lambda x: fn(one, x), dtype=dtype).dtype == dtype.np


def test_other_operators() -> None:
    for fn in (operator.neg, operator.pos, abs):
        assert str(on_array(fn)._value.type) == "f32[n, 3]"
    assert on_array(operator.invert, dtype=dtypes.int32).dtype == np.int32
    assert str(on_array(lambda x: x @ x, "n", "n")._value.type) == "f32[n, n]"
    assert str(on_array(lambda x: np.ones((2, 3), np.float32) @ x, 3, "n")._value.type) == "f32[2, n]"


def test_operators_with_something_else() -> None:
    def fn(x: Any) -> None:
        for bad in ("a", None, [1, 2], {}, float):
            with pytest.raises(TypeError, match="unsupported operand"):
                x + bad  # pyright: ignore[reportUnusedExpression]
            with pytest.raises(TypeError, match="unsupported operand"):
                bad - x  # pyright: ignore[reportUnusedExpression]
            if not isinstance(bad, list):
                assert (x == bad) is False

    on_array(fn)


def test_protocols_and_methods() -> None:
    assert str(on_array(lambda x: np.sum(np.exp(x), axis=1))._value.type) == "f32[n]"
    assert str(on_array(lambda x: x.sum(axis=0).reshape(3, 1))._value.type) == "f32[3, 1]"
    assert str(on_array(lambda x: x[:, 1])._value.type) == "f32[n]"

    def fn(x: Any) -> None:
        assert not hasattr(x, "_repr_html_")
        assert not hasattr(x, "__dlpack__")
        assert not hasattr(x, "__array_interface__")
        assert not hasattr(x, "no_such_method")

    on_array(fn)
    with pytest.raises(AttributeError) as error:
        on_array(lambda x: x.__cuda_array_interface__)
    assert str(error.value) == "'Tracer' object has no attribute '__cuda_array_interface__'"


# ---- what needs elements ---------------------------------------------------------------------------------------------

KEEP = "keep it an array, or make the value a static argument."


def loop(x: Any) -> None:
    if x:
        raise AssertionError


BRANCH = "use dyn.numpy.where, dyn.lax.cond, or for a loop dyn.lax.while_loop; or make the value a static argument."


@pytest.mark.parametrize(
    ("fn", "what", "remedy"),
    [
        (
            loop,
            "a Python branch",
            BRANCH,
        ),
        (
            lambda x: x and 1,
            "a Python branch",
            BRANCH,
        ),
        (int, "int()", KEEP),
        (float, "float()", KEEP),
        (complex, "complex()", KEEP),
        (
            lambda x: [1, 2][x],
            "a Python index",
            "index with the array itself (dyn.numpy.take), or make it a static argument.",
        ),
        (range, "a Python index", "index with the array itself (dyn.numpy.take), or make it a static argument."),
        (
            lambda x: range(1, x),
            "range()",
            "use dyn.lax.fori_loop or scan for a loop, dyn.numpy.arange for an array of its numbers, or make the value "
            "a static argument.",
        ),
        (
            lambda x: x.item(),
            "item()",
            "keep it an array, or return it from the function and call item() outside.",
        ),
        (lambda x: x.tolist(), "tolist()", "return it from the function and call tolist() outside."),
        (np.asarray, "numpy.asarray()", "use dyn.numpy.asarray, which takes dimensions and arrays that are traced."),
        (
            lambda x: np.array([x, 1.0]),
            "np.array()",
            "use dyn.numpy.array, which takes dimensions and arrays that are traced.",
        ),
        (
            lambda x: x.__array__(),
            "a conversion to a NumPy array",
            "use functions of dyn.numpy (or numpy functions that dyn knows) on it.",
        ),
        (lambda x: 3 in x, "'in'", "use (x == value).any(), which gives an array."),
        (pickle.dumps, "pickling", "return the array from the function and pickle the result."),
    ],
)
def test_what_needs_elements(fn: Fn, what: str, remedy: str) -> None:
    problem, place, last = text_of(TraceError, trace, fn, leaf("x", dtype=dtypes.int32)).split("\n")
    assert problem == f"{what} needs the elements of x (i32[]), which are not known while 'f' is traced."
    assert place.startswith("  at ")
    assert last == f"  help: {remedy}"


def test_a_whole_text() -> None:
    def fn(x: Any) -> Any:
        total = x.sum()
        if total > 0:
            return x
        return -x

    assert text_of(TraceError, trace, fn, leaf("x", None)) == (
        "a Python branch needs the elements of i1[], which are not known while 'f' is traced.\n"
        "  at test_tracer.py:N  if total > 0:\n"
        f"  help: {BRANCH}"
    )


def test_what_a_branch_asked_of_was_made_elsewhere() -> None:
    """In a region: the line that made it, and what that is inside of."""

    def body(c: Any) -> Any:
        going = c > 0
        c = c * 2
        return c if going else -c

    def fn(x: Any) -> Any:
        return trace_region(x._trace, body, [TensorType(dtypes.float32, ())], name="the body of scan") and x

    assert text_of(TraceError, trace, fn, leaf("x", None)) == (
        "a Python branch needs the elements of i1[], which are not known while 'the body of scan' is traced.\n"
        "  it was made at test_tracer.py:N  going = c > 0\n"
        "  which is in the body of scan, in f\n"
        "  at test_tracer.py:N  return c if going else -c\n"
        f"  help: {BRANCH}"
    )


def test_what_leaks_from_a_region_says_from_which() -> None:
    kept: list[Any] = []

    def fn(x: Any) -> Any:
        types = [TensorType(dtypes.float32, ())]
        trace_region(x._trace, lambda c: kept.append(c * 2) or c, types, name="the body of scan")
        return x

    trace(fn, leaf("x", None))
    assert text_of(LeakedTracerError, lambda: kept[0] + 1) == (
        "an array (f32[]) of a trace of 'the body of scan' is used outside that trace.\n"
        "  it was made at test_tracer.py:N  trace_region(x._trace, lambda c: kept.append(c * 2) or c, types, "
        'name="the body of scan")\n'
        "  which is in the body of scan, in f\n"
        "  at test_tracer.py:N  assert text_of(LeakedTracerError, lambda: kept[0] + 1) == (\n"
        "  help: return it from the function instead of keeping it in a global, an attribute or a list."
    )


def test_assignment_in_a_region() -> None:
    def fn(x: Any) -> None:
        def body(carry: Any) -> Any:
            y[0] = carry
            return carry

        y = x + 1
        dyn.lax.fori_loop(0, 2, lambda _, carry: body(carry), 0.0)

    assert text_of(TraceError, trace, fn, leaf("x", None)) == (
        "an array (f32[x_0]) of 'f' cannot be changed in the body of fori_loop: what is computed there is not known "
        "outside.\n"
        "  it was made at test_tracer.py:N  y = x + 1\n"
        "  at test_tracer.py:N  y[0] = carry\n"
        "  help: return the new value, as a carried value or a result."
    )


def test_hash() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'Tracer'"):
        on_array(lambda x: {x: 1})


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_rows_of_a_static_axis() -> None:
    def fn(x: Any) -> Any:
        a, b, c = x
        assert len(x) == 3
        return a + b * c

    assert str(on_array(fn, 3, "n")._value.type) == "f32[n]"
    assert on_array(lambda x: [str(row._value.type) for row in x], 0, "n") == []


def test_rows_of_an_axis_that_a_branch_decided() -> None:
    traced = trace(
        lambda x: sum(x) if x.shape[0] == 2 else x[0],
        leaf("x", None, 4, sizes=(2, 4)),
    )
    assert [str(v.type) for v in traced.function.results] == ["f32[4]"]


def test_rows_of_an_axis_that_is_not_known() -> None:
    def fn(x: Any) -> Any:
        total = 0
        for row in x:
            total = total + row
        return total

    assert text_of(UndecidedDimError, trace, fn, leaf("x", None, sizes=(3,))) == (
        "a Python loop over the rows needs one value of the dimension x_0 (x_0 is x.shape[0]), "
        "and it differs from call to call.\n"
        "  at test_tracer.py:N  for row in x:\n"
        "  help: compute with whole arrays, or make the axis static with shapes=, which unrolls the loop."
    )

    def ask(x: Any) -> int:
        return builtins.len(x)  # by another name it is a size

    assert text_of(UndecidedDimError, trace, ask, leaf("x", None, sizes=(3,))) == (
        "len() needs one value of the dimension x_0 (x_0 is x.shape[0]), and it differs from call to call.\n"
        "  at test_tracer.py:N  return builtins.len(x)  # by another name it is a size\n"
        "  help: use x.shape[0] in shapes and arithmetic, or make the axis static with shapes=."
    )
    for call, text in ((len, "len() of unsized object"), (iter, "iteration over a 0-d array")):
        with pytest.raises(TypeError) as error:
            trace(call, leaf("x"))
        assert str(error.value) == text


# ---- tracers that outlive their trace --------------------------------------------------------------------------------


def test_leaked() -> None:
    kept: list[Any] = []
    trace(lambda x: kept.append(x * 2), leaf("x", None))
    for fn in (lambda x: x + 1, lambda x: x.sum(), np.exp, lambda x: x.shape[0] + 1):
        with pytest.raises(LeakedTracerError):
            fn(kept[0])
    assert text_of(LeakedTracerError, lambda: kept[0] + 1) == (
        "an array (f32[x_0]) of a trace of 'f' is used outside that trace.\n"
        '  it was made at test_tracer.py:N  trace(lambda x: kept.append(x * 2), leaf("x", None))\n'
        "  at test_tracer.py:N  assert text_of(LeakedTracerError, lambda: kept[0] + 1) == (\n"
        "  help: return it from the function instead of keeping it in a global, an attribute or a list."
    )
    assert text_of(LeakedTracerError, trace, lambda y: y + kept[0], leaf("y", None)).startswith(
        "an array (f32[x_0]) of a trace of 'f' is used outside that trace.\n"
    )


def test_tracers_of_two_traces() -> None:
    def outer(x: Any) -> Any:
        trace(lambda y: y + x, leaf("y", 3))

    assert text_of(LeakedTracerError, trace, outer, leaf("x", 3)) == (
        "an array (f32[3]) of a trace of 'f' is used in a trace of 'f'.\n"
        '  it was made at tracing.py:N  traced = trace_function(lambda tracers: fn(*tracers), "f", leaves, '
        "Declarations(dims, constraints))\n"
        '  at test_tracer.py:N  trace(lambda y: y + x, leaf("y", 3))\n'
        "  help: pass it to the inner function as an argument."
    )
