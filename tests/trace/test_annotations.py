# ruff: noqa: F722, F821, UP037  # annotations declare shapes with strings that are no types
# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false, reportGeneralTypeIssues=false
"""jaxtyping's annotations declare dims and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Optional

import numpy as np
import pytest
from jaxtyping import Bool, Float, Float32, Inexact, Int, Key, Num, Shaped

import dyn
from dyn import dtypes
from dyn.errors import ArgumentError, DynError, ShapeError
from dyn.trace.annotations import read_annotation
from tests.trace.tracing import text_of

Array = np.ndarray


def read(hint: Any) -> tuple[Any, ...] | None:
    found = read_annotation(hint)
    return None if found is None else (found.axes, found.variadic)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("b s 768", (("b", "s", 768), None)),
        ("", ((), None)),
        ("... n", ((None, "n"), 0)),
        ("b ...", (("b", None), 1)),
        ("*batch c", (("batch", "c"), 0)),
        ("c *#batch", (("c", "#batch"), 1)),
        ("_ _rows n", ((None, None, "n"), None)),
        ("*_ n", ((None, "n"), 0)),
        ("#b #4", (("#b", "#4"), None)),
        ("rows=3 n", ((3, "n"), None)),
        ("2*n n-1 n//2", (("2*n", "n-1", "n//2"), None)),
        ("?leaf {self.n}", ((None, None), None)),
    ],
)
def test_axes(text: str, axes: object) -> None:
    assert read(Float32[Array, text]) == axes


def test_what_else_may_be_written() -> None:
    plain: Any = Float32[Array, "n"]
    one = read(plain)
    assert read(Optional[plain]) == one  # noqa: UP045  # what users write
    assert read(plain | None) == one
    assert read(Float32[Array | list, "n"]) == one
    assert read(Annotated[Float32[Array, "n"], "a note"]) == one
    for other in (plain | Float32[Array, "m"], plain | int, int, None, Array, "n"):
        assert read(other) is None


def test_families_of_dtypes() -> None:
    allowed = {
        family: [d.short for d in dtypes.ALL if read_annotation(family[Array, "n"]).allows(d)]  # pyright: ignore
        for family in (Float32, Float, Int, Num, Inexact, Bool, Shaped, Key)
    }
    assert allowed[Float32] == ["f32"]
    small = ["f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"]
    unknown = ("f8e3m4", "f8e4m3", "f8e8m0fnu")  # to jaxtyping
    assert allowed[Float] == ["f16", "bf16", "f32", "f64", *small]
    assert allowed[Int] == ["i8", "i16", "i32", "i64"]
    assert allowed[Num] == [d.short for d in dtypes.ALL if d is not dtypes.bool_ and d.short not in unknown]
    assert allowed[Inexact] == ["f16", "bf16", "f32", "f64", "c64", "c128", *small]
    assert allowed[Bool] == ["i1"]
    assert allowed[Shaped] == [d.short for d in dtypes.ALL]
    assert allowed[Key] == []


def test_an_axis_that_cannot_be_read() -> None:
    assert text_of(ArgumentError, read_annotation, Float32[Array, "n f(n)"]) == (
        "cannot read the axis 'f(n)' of the annotation Float32[ndarray, 'n f(n)']: cannot read a dimension: "
        "no function 'f'; there are floordiv, mod, min, max, broadcast at column 2.\n"
        "  help: write a size, a name, or an expression of names, + - * // % min max."
    )


# --- in functions ------------------------------------------------------------------------------------------------


@dyn.jit
def linear(x: Float[Array, "*batch k"], w: Float32[Array, "k n"], bias: Float32[Array, "#n"]) -> Float[Array, ...]:
    return x @ w + bias


def ones(*shape: int, dtype: str = "f4") -> Any:
    return np.ones(shape, dtype)


def test_one_compile_serves_all_sizes() -> None:
    before = linear.cache_info().compiles
    for b in (0, 1, 2, 7):
        for n in (1, 3):
            for bias in {1, n}:
                got = linear(ones(b, 5, 4), ones(4, n), ones(bias))
                np.testing.assert_array_equal(got, np.full((b, 5, n), 5, "f4"))
    assert linear.cache_info().compiles == before + 1


def pair(x: Float32[Array, "*batch c"], y: Int[Array, "*batch"]) -> Any:
    return x[..., 0] + y


def joined(x: Float32[Array, "#n"], y: Float32[Array, "#n"]) -> Any:
    return x + y


def twice(x: Float32[Array, "n"], y: Float32[Array, "2*n"]) -> Any:
    return x + y[: x.shape[0]]


@pytest.mark.parametrize(
    ("fn", "args", "error", "text"),
    [
        (
            linear, (ones(2, 4), ones(3, 2), ones(2)), ShapeError,
            "w.shape[0] is 3, and it must be k = 4.\n  k is x.shape[1] = 4\n"
            "  help: pass arrays that agree, or give the two axes different names in shapes=.",
        ),
        (
            linear, (ones(2, 4), ones(4, 2, 1), ones(2)), ArgumentError,
            "linear(): w has 3 axes, and it is annotated as Float32[ndarray, 'k n'], which has 2.\n"
            "  help: pass an array of that rank, or change the annotation.",
        ),
        (
            linear, (ones(), ones(4, 2), ones(2)), ArgumentError,
            "linear(): x has 0 axes, and it is annotated as Float[ndarray, '*batch k'], which has at least 1.\n"
            "  help: pass an array of that rank, or change the annotation.",
        ),
        (
            linear, (ones(2, 4, dtype="i4"), ones(4, 2), ones(2)), ArgumentError,
            "linear(): x is int32, and it is annotated as Float[ndarray, '*batch k'].\n"
            "  help: change the annotation, or convert the array with .astype().",
        ),
    ],
)  # fmt: skip
def test_arguments_that_are_not_as_annotated(
    fn: Callable[..., Any], args: tuple[Any, ...], error: type[DynError], text: str
) -> None:
    assert text_of(error, dyn.jit(getattr(fn, "__wrapped__", fn)), *args) == text


def test_variadic_names_are_the_same_axes() -> None:
    f = dyn.jit(pair)
    assert f(ones(2, 3, 4), np.ones((2, 3), "i4")).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"y\.shape\[1\] is 2, and it must be batch_1 = 3"):
        f(ones(2, 3, 4), np.ones((2, 2), "i4"))


def test_marked_axes_broadcast() -> None:
    f = dyn.jit(joined)
    for n, m in ((3, 3), (1, 3), (3, 1), (0, 1), (1, 1)):
        assert f(ones(n), ones(m)).shape == np.broadcast_shapes((n,), (m,))
    assert f.cache_info().compiles == 1
    with pytest.raises(ShapeError):
        f(ones(2), ones(3))


def test_a_marked_axis_is_the_dim_or_one() -> None:
    """Beside a dim that is 1 it is 1, although the two would broadcast."""
    f = dyn.jit(linear.__wrapped__)
    assert f(ones(2, 4), ones(4, 3), ones(1)).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"bias\.shape\[0\] is annotated as #n, which is 1 or n"):
        f(ones(2, 4), ones(4, 1), ones(3))
    with pytest.raises(ShapeError, match=r"bias\.shape\[0\] is annotated as #n, which is 1 or n"):
        dyn.jit(linear.__wrapped__)(ones(2, 4), ones(4, 1), ones(3))


def test_annotations_hold_inside_a_trace() -> None:
    inner = dyn.jit(linear.__wrapped__)
    outer = dyn.jit(lambda x, w, b: inner(x, w, b) * 2)
    assert outer(ones(2, 4), ones(4, 3), ones(3)).shape == (2, 3)
    with pytest.raises(ShapeError):
        outer(ones(2, 4), ones(5, 3), ones(3))
    with pytest.raises(ShapeError):
        outer(ones(2, 4), ones(4, 3), ones(2))


def test_expressions() -> None:
    f = dyn.jit(twice)
    assert f(ones(3), ones(6)).shape == (3,)
    with pytest.raises(ShapeError):
        f(ones(3), ones(5))
