"""Errors of the namespace: the whole text, with the user's line."""

# ruff: noqa: PLW0108 - a lambda is the user's line that an error has to name

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn.errors import (
    DynError,
    InvalidValueError,
    LeakedTracerError,
    NotYetError,
    ShapeError,
    TraceError,
    UndecidedDimError,
    UnsupportedOpError,
)
from tests.numpy.differential import rendered, run, trace

Raises = tuple[type[DynError], Callable[..., Any], tuple[str, ...], str]


CASES: dict[str, Raises] = {
    "unknown_function": (
        UnsupportedOpError, lambda x: np.polydiv(x, x), ("float32 n",),
        "np.polydiv is not a function that dyn knows.\n"
        "  at <the line>\n"
        "  help: build it from functions of dyn.numpy, or compute it outside of the compiled function; "
        "dyn.numpy.poly is the nearest that is there.",
    ),
    "lists_of_different_lengths": (
        UnsupportedOpError, lambda x: x + dnp.asarray([[1, 2], [3]]), ("float32 n",),
        "asarray: nested lists of different lengths are no array.\n"
        "  at <the line>\n"
        "  help: make the lists equally long.",
    ),
    "unknown_submodule": (
        UnsupportedOpError, lambda x: np.lib.stride_tricks.sliding_window_view(x, 2), ("float32 n",),
        "np.lib.stride_tricks.sliding_window_view is not a function that dyn knows.\n"
        "  at <the line>\n"
        "  help: build it from functions of dyn.numpy, or compute it outside of the compiled function.",
    ),
    "unknown_ufunc": (
        UnsupportedOpError, lambda x: np.isnat(x), ("float32 n",),
        "np.isnat is not a function that dyn knows.\n"
        "  at <the line>\n"
        "  help: build it from functions of dyn.numpy, or compute it outside of the compiled function; "
        "dyn.numpy.isnan is the nearest that is there.",
    ),
    "ufunc_method": (
        UnsupportedOpError, lambda x: np.subtract.reduce(x), ("float32 n",),
        "np.subtract.reduce is not there for arrays that are being traced.\n"
        "  at <the line>\n"
        "  help: use a function such as dyn.numpy.sum, prod, max, min, any or all.",
    ),
    "function_option": (
        UnsupportedOpError, lambda x: np.stack([x, x], casting="unsafe"), ("float32 n",),
        "np.stack does not take casting='unsafe' for arrays that are being traced.\n"
        "  at <the line>\n"
        "  help: leave it out: dyn.numpy.stack has no such option.",
    ),
    "broadcast": (
        ShapeError, lambda x, y: x + y, ("float32 3 4", "float32 5"),
        "x + y: the shapes (3, 4) and (5,) do not broadcast: on axis 1 the sizes are 4 and 5, and neither is "
        "1.\n"
        "  at <the line>\n"
        "  help: make the sizes equal, or one of them 1, as in x[:, None].",
    ),
    "object_array": (
        UnsupportedOpError, lambda x: x + np.array([None, 1]), ("float32 n",),
        "an array of dtype object has no place in a compiled program.\n"
        "  at <the line>\n"
        "  help: convert it to a numeric dtype first, for example array.astype('float32').",
    ),
    "list_operand": (
        UnsupportedOpError, lambda x: dnp.add(x, [1, 2]), ("float32 n",),
        "add does not take a list for an array.\n"
        "  at <the line>\n"
        "  help: make it an array with dyn.numpy.asarray.",
    ),
    "no_operand": (
        UnsupportedOpError, lambda x: dnp.add(x, None), ("float32 n",),
        "add does not take a NoneType for an array.\n"
        "  at <the line>\n"
        "  help: pass an array.",
    ),
    "bool_of_a_value": (
        TraceError, lambda x: 1 if x > 0 else 2, ("float32",),
        "a Python branch needs the elements of i1[], which are not known while 'program' is traced.\n"
        "  at <the line>\n"
        "  help: use dyn.numpy.where, dyn.lax.cond, or for a loop dyn.lax.while_loop; or make the value a static "
        "argument.",
    ),
    "int_of_a_dim": (
        UndecidedDimError, lambda x: int(x.shape[0]), ("float32 n",),
        "int() needs one value of the dimension n (n is x.shape[0]), and it differs from call to call.\n"
        "  at <the line>\n"
        "  help: use the dimension itself in shapes and arithmetic, or make it static with shapes=.",
    ),
    "branch_on_a_dim": (
        UndecidedDimError, lambda x: 1 if x.shape[0] > 3 else 2, ("float32 n",),
        "whether n > 3 cannot be decided: n is x.shape[0].\n"
        "  at <the line>\n"
        "  help: call the function with arrays instead of tracing it for a ShapeDtypeStruct, declare the "
        "dimension's range with dyn.Dim or constraints=, or use dyn.numpy.where.",
    ),
    "matmul": (
        ShapeError, lambda x, y: x @ y, ("float32 n 3", "float32 4 m"),
        "x @ y: x (n, 3) and y (4, m) do not fit: axis 1 of the left has 3 elements, and axis 0 of the right "
        "has 4.\n"
        "  at <the line>\n"
        "  help: the two sizes have to be equal; transpose or reshape one of the arrays.",
    ),
    "matmul_of_a_scalar": (
        ShapeError, lambda x: x @ x.sum(), ("float32 n 3",),
        "matmul: matmul takes arrays with axes, and one is 0-d.\n"
        "  at <the line>\n"
        "  help: use multiply.",
    ),
    "reshape": (
        ShapeError, lambda x: x.reshape(5, 2), ("float32 3 4",),
        "reshape: x (3, 4) has 12 elements, and the shape (5, 2) has 10.\n"
        "  at <the line>\n"
        "  help: give sizes with as many elements; -1 stands for the one size that follows from the others.",
    ),
    "reshape_rest": (
        ShapeError, lambda x: x.reshape(5, -1), ("float32 3 4",),
        "reshape: x (3, 4) does not fit in (5, -1): 12 elements are no multiple of 5.\n"
        "  at <the line>\n"
        "  help: give sizes whose product divides the number of elements.",
    ),
    "reshape_two_unknowns": (
        ShapeError, lambda x: x.reshape(-1, -1), ("float32 3 4",),
        "reshape: the shape (-1, -1) has more than one -1.\n"
        "  at <the line>\n"
        "  help: use -1 once, and sizes of 0 or more elsewhere.",
    ),
    "reshape_of_nothing": (
        ShapeError, lambda x: x.reshape(0, -1), ("float32 n 4",),
        "reshape: the shape (0, -1) leaves -1 undecided, because a size is 0.\n"
        "  at <the line>\n"
        "  help: write the size instead of -1.",
    ),
    "mask": (
        ShapeError, lambda x: x[x[:2] > 0], ("float32 3 4",),
        "3 == 2 cannot hold.\n"
        "  needed: axis 0 of a mask has the size of axis 0 of x (3, 4)\n"
        "  at <the line>\n"
        "  help: make the sizes agree, or change the declaration that fixes them.",
    ),
    "traced_bound": (
        UnsupportedOpError, lambda x: x[x.sum() :: -1], ("int64 n",),
        "a slice does not take a traced bound with a step below 0.\n"
        "  at <the line>\n"
        "  help: use integer scalars, and reverse with dyn.numpy.flip.",
    ),
    "float_bound": (
        UnsupportedOpError, lambda x: x[x.sum() :], ("float32 n",),
        "a slice does not take a traced bound that is f32[].\n"
        "  at <the line>\n"
        "  help: use integer scalars, and reverse with dyn.numpy.flip.",
    ),
    "float_index": (
        UnsupportedOpError, lambda x: x[1.5], ("float32 3 4",),
        "an array cannot be indexed with the float 1.5.\n"
        "  at <the line>\n"
        "  help: use numbers, slices, None, Ellipsis, dimensions or an integer array.",
    ),
    "float_indices": (
        UnsupportedOpError, lambda x: x[x], ("float32 3",),
        "an array cannot be indexed with float32 elements.\n"
        "  at <the line>\n"
        "  help: convert the index with .astype('int32').",
    ),
    "index_outside": (
        ShapeError, lambda x: x[7], ("float32 3 4",),
        "the index 7 is outside of axis 0 of x (3, 4), which has 3 elements.\n"
        "  at <the line>\n"
        "  help: use an index from -3 to 2.",
    ),
    "too_many_indices": (
        ShapeError, lambda x: x[0, 0, 0], ("float32 3 4",),
        "the index of x (3, 4) has 3 entries for 2 axes.\n"
        "  at <the line>\n"
        "  help: index each axis at most once.",
    ),
    "step_zero": (
        UnsupportedOpError, lambda x: x[::0], ("float32 n",),
        "a slice does not take the step 0.\n"
        "  at <the line>\n"
        "  help: use an int other than 0.",
    ),
    "axis": (
        ShapeError, lambda x: dnp.sum(x, axis=3), ("float32 n 4",),
        "sum: axis 3 is not an axis of an array with 2 axes.\n"
        "  at <the line>\n"
        "  help: its axes are from -2 to 1.",
    ),
    "axis_of_a_scalar": (
        ShapeError, lambda x: dnp.sum(x, axis=0), ("float32",),
        "sum: axis 0 is not an axis of an array with 0 axes.\n"
        "  at <the line>\n"
        "  help: its axes are none: it is 0-d.",
    ),
    "axis_twice": (
        ShapeError, lambda x: dnp.sum(x, axis=(0, 0)), ("float32 n 4",),
        "sum: the axes (0, 0) of an array with 2 axes are not different.\n"
        "  at <the line>\n"
        "  help: name each axis once.",
    ),
    "axis_kind": (
        UnsupportedOpError, lambda x: x.sum("rows"), ("float32 n 4",),
        "sum: an axis is an int, not the str 'rows'.\n"
        "  at <the line>\n"
        "  help: pass the number of the axis.",
    ),
    "transpose": (
        ShapeError, lambda x: x.transpose(0), ("float32 n 4",),
        "transpose: 1 axes are named, and x (n, 4) has 2.\n"
        "  at <the line>\n"
        "  help: name every axis once.",
    ),
    "concatenate": (
        ShapeError, lambda x, y: dnp.concatenate([x, y]), ("float32 n 4", "float32 n 5"),
        "concatenate: x (n, 4) and y (n, 5) do not fit: axis 1 has 4 and 5 elements.\n"
        "  at <the line>\n"
        "  help: all axes but axis 0 have to be equal.",
    ),
    "concatenate_nothing": (
        ShapeError, lambda x: dnp.concatenate([]), ("float32 n",),
        "concatenate takes a list of at least one array.\n"
        "  at <the line>\n"
        "  help: write concatenate([x, y]).",
    ),
    "stack": (
        ShapeError, lambda x, y: dnp.stack([x, y]), ("float32 4", "float32 n 4"),
        "stack: x (4,) and y (n, 4) do not fit: the numbers of axes differ.\n"
        "  at <the line>\n"
        "  help: all axes have to be equal.",
    ),
    "split": (
        ShapeError, lambda x: dnp.split(x, 2), ("float32 3 4",),
        "split: axis 0 of x (3, 4) cannot be cut in 2 equal parts.\n"
        "  at <the line>\n"
        "  help: use array_split, or a list of indices.",
    ),
    "squeeze": (
        ShapeError, lambda x: dnp.squeeze(x, 0), ("float32 3 n",),
        "squeeze: axis 0 of x (3, n) has 3 elements, not 1.\n"
        "  at <the line>\n"
        "  help: name only axes of size 1.",
    ),
    "unstack": (
        ShapeError, lambda x: dnp.unstack(x), ("float32 n",),
        "unstack: axis 0 of x (n,) has no static size, so how many arrays it gives is open.\n"
        "  at <the line>\n"
        "  help: declare the size with shapes=, or compute on the whole array.",
    ),
    "broadcast_to": (
        ShapeError, lambda x: dnp.broadcast_to(x, (3, 5)), ("float32 3 4",),
        "broadcast_to: x (3, 4) cannot be broadcast to (3, 5).\n"
        "  at <the line>\n"
        "  help: sizes must be 1 or the wanted ones, aligned at the last axis.",
    ),
    "number_too_great": (
        UnsupportedOpError, lambda x: x + 300, ("uint8 n",),
        "the Python integer 300 does not fit in uint8.\n"
        "  at <the line>\n"
        "  help: convert the array it meets to a wider dtype with .astype.",
    ),
    "negative_power": (
        InvalidValueError, lambda x: x**-1, ("int32 n",),
        "integers to negative integer powers are not whole: x ** -1.\n"
        "  at <the line>\n"
        "  help: convert the array with .astype('float32'), or use dyn.numpy.float_power.",
    ),
    "negative_size": (
        ShapeError, lambda x: dnp.zeros((2, -1)), ("int32 n",),
        "zeros: the shape (2, -1) has a negative size.\n"
        "  at <the line>\n"
        "  help: sizes are 0 or more.",
    ),
    "float_size": (
        UnsupportedOpError, lambda x: dnp.zeros((2.5,)), ("int32 n",),
        "zeros does not take the float 2.5 for a size.\n"
        "  at <the line>\n"
        "  help: use an int, or a dimension such as x.shape[0].",
    ),
    "traced_range": (
        UnsupportedOpError, lambda x: dnp.arange(x), ("int64 3",),
        "arange does not take a bound that is i64[3].\n"
        "  at <the line>\n"
        "  help: use scalars.",
    ),
    "dtype": (
        UnsupportedOpError, lambda x: x.astype("nope"), ("int32 n",),
        "'nope' is not a dtype that dyn has.\n"
        "  at <the line>\n"
        "  help: use one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, "
        "bfloat16, float32, float64, complex64, complex128, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, "
        "float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu.",
    ),
    "complex": (
        UnsupportedOpError, lambda x: dnp.cbrt(x), ("complex64 n",),
        "cbrt: takes float operands, not complex64\n"
        "  at <the line>\n"
        "  help: convert it with .astype",
    ),
    "negative_bool": (
        UnsupportedOpError, lambda x: -x, ("bool n",),
        "negative does not take booleans.\n"
        "  at <the line>\n"
        "  help: use dyn.numpy.logical_not.",
    ),
    "bits_of_floats": (
        UnsupportedOpError, lambda x: x & 1, ("float32 n",),
        "bitwise_and takes integers or booleans, not float32.\n"
        "  at <the line>\n"
        "  help: convert the array with .astype first, or use logical_and, logical_or, logical_not.",
    ),
    "where_of_max": (
        UnsupportedOpError, lambda x: dnp.max(x, where=x > 0), ("float32 n",),
        "max with where= needs initial=: it may leave nothing over.\n"
        "  at <the line>\n"
        "  help: pass initial=, for example -dyn.numpy.inf.",
    ),
    "nonzero": (
        ShapeError, lambda x: dnp.nonzero(x), ("float32",),
        "nonzero: an array without axes has no places.\n"
        "  at <the line>\n"
        "  help: pass dyn.numpy.reshape(x, (1,)), or take the array itself for a number.",
    ),
    "repeats": (
        ShapeError, lambda x: dnp.repeat(x, [[1, 2]]), ("float32 n",),
        "repeat: the numbers have 2 axes, and are a vector.\n"
        "  at <the line>\n"
        "  help: flatten them.",
    ),
    "einsum_diagonal": (
        ShapeError, lambda x: np.einsum("ii", x), ("float32 3 4",),
        "einsum('ii'): the label i stands for axes of 3 and 4 elements.\n"
        "  at <the line>\n"
        "  help: use a label for each.",
    ),
    "take_mode": (
        InvalidValueError, lambda x: dnp.take(x, [1], mode="nearest"), ("float32 n",),
        "take: 'nearest' is no mode.\n"
        "  at <the line>\n"
        "  help: use 'clip', 'wrap' or 'fill'.",
    ),
    "take_raise": (
        NotYetError, lambda x: np.take(x, [1], mode="raise"), ("float32 n",),
        "take with mode='raise' comes later: compiled code does not look for indices out of range.\n"
        "  at <the line>\n"
        "  help: leave mode out, or use 'clip', 'wrap' or 'fill'.",
    ),
    "take_floats": (
        UnsupportedOpError, lambda x: np.take(x, x), ("float32 n",),
        "take: the indices of x (n,) are float32, not integers.\n"
        "  at <the line>\n"
        "  help: convert them with .astype('int32').",
    ),
    "take_along_axis_rank": (
        ShapeError, lambda x, i: np.take_along_axis(x, i, 1), ("float32 n 3", "int64 n"),
        "take_along_axis: x (n, 3) has 2 axes, and the indices have 1.\n"
        "  at <the line>\n"
        "  help: give indices with as many axes, of size 1 where they are the same for all.",
    ),
    "put_along_axis_in_place": (
        UnsupportedOpError, lambda x: dnp.put_along_axis(np.zeros(2), np.array([0]), x[0], 0), ("float32 n",),
        "put_along_axis cannot change a ndarray, which is not dyn's.\n"
        "  at <the line>\n"
        "  help: write y = dyn.numpy.put_along_axis(…, inplace=False), which gives a new array, or use "
        "np.put_along_axis.",
    ),
    "pad_mode": (
        NotYetError, lambda x: np.pad(x, 1, mode="mean"), ("float32 n",),
        "pad with mode='mean' comes later.\n"
        "  at <the line>\n"
        "  help: use 'constant', 'edge', 'reflect', 'symmetric', 'wrap'.",
    ),
    "diag_rank": (
        ShapeError, lambda x: np.diag(x), ("float32 2 3 4",),
        "diag: x (2, 3, 4) has 3 axes.\n"
        "  at <the line>\n"
        "  help: pass a vector or a matrix.",
    ),
    "diagonal_rank": (
        ShapeError, lambda x: np.diagonal(x), ("float32 n",),
        "diagonal: x (n,) has fewer than 2 axes.\n"
        "  at <the line>\n"
        "  help: pass a matrix.",
    ),
    "vsplit_rank": (
        ShapeError, lambda x: np.vsplit(x, 2), ("float32 n",),
        "vsplit: x (n,) has fewer than 2 axes.\n"
        "  at <the line>\n"
        "  help: use split, and name the axis.",
    ),
    "index_arrays_do_not_broadcast": (
        ShapeError, lambda x: x[[0, 1], [0, 1, 2]], ("float32 n m",),
        "x[...]: the shapes (2,) and (3,) do not broadcast: on axis 0 the sizes are 2 and 3, and neither is 1.\n"
        "  at <the line>\n"
        "  help: make the sizes equal, or one of them 1, as in x[:, None].",
    ),
    "einsum_labels": (
        ShapeError, lambda x: dnp.einsum("ijk->ik", x), ("float32 n m",),
        "einsum('ijk->ik'): 'ijk' does not label the 2 axes of an array.\n"
        "  at <the line>\n"
        "  help: write one label an axis.",
    ),
    "einsum_sizes": (
        ShapeError, lambda x, y: dnp.einsum("ij,jk->ik", x, y), ("float32 n 3", "float32 4 m"),
        "einsum('ij,jk->ik'): x (n, 3) and y (4, m) do not fit: axis 1 of the left has 3 elements, and axis "
        "0 of the right has 4.\n"
        "  at <the line>\n"
        "  help: the two sizes have to be equal; transpose or reshape one of the arrays.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    kind, program, specs, text = CASES[name]
    with pytest.raises(kind) as caught:
        trace(lambda xp, *arrays: program(*arrays), *specs)
    assert rendered(caught.value) == text
    assert caught.value.loc is not None
    # The line is the user's: the one in this file that the lambda stands on.
    assert caught.value.loc.file == __file__
    assert "lambda" in linecache.getline(__file__, caught.value.loc.line)


# ---- attributes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("foo", ""),
        ("reshap", " Did you mean 'reshape'?"),
        ("exp", " There is a function: dyn.numpy.exp(x)."),
    ],
)
def test_unknown_attribute(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        trace(lambda xp, x: getattr(x, name), "float32 n")
    assert str(caught.value) == f"an array that is being traced (Tracer<f32[n]>) has no attribute '{name}'.{text}"
    assert trace(lambda xp, x: x + hasattr(x, name), "float32 n")


# ---- errors of calls -------------------------------------------------------------------------------------------------


def test_shapes_that_do_not_broadcast_when_called() -> None:
    traced = trace(lambda xp, x, y: x + y, "float32 n", "float32 m")
    with pytest.raises(ShapeError) as caught:
        run(traced, [np.zeros(3, np.float32), np.zeros(4, np.float32)])
    assert rendered(caught.value) == (
        "n broadcasts with m is required, but n is 3 and m is 4: x + y broadcasts axis 0.\n  at <the line>"
    )


def test_max_of_nothing_when_called() -> None:
    traced = trace(lambda xp, x: xp.max(x, axis=1), "float32 n m")
    with pytest.raises(ShapeError) as caught:
        run(traced, [np.zeros((3, 0), np.float32)])
    assert rendered(caught.value) == (
        "m >= 1 is required, but m is 0: the maximum of nothing has no value, and an axis that is reduced is empty.\n"
        "  at <the line>"
    )


def test_index_outside_when_called() -> None:
    traced = trace(lambda xp, x: x[2], "float32 n")
    with pytest.raises(ShapeError) as caught:
        run(traced, [np.zeros(2, np.float32)])
    assert rendered(caught.value) == (
        "n >= 3 is required, but n is 2: the index 2 is inside of axis 0.\n  at <the line>"
    )


def test_tracer_that_outlived_its_trace() -> None:
    kept: list[Any] = []
    trace(lambda xp, x: kept.append(x) or x + 1, "float32 n")
    for use in (lambda: dnp.exp(kept[0]), lambda: kept[0] + 1, lambda: dnp.zeros(kept[0].shape)):
        with pytest.raises(LeakedTracerError):
            use()


def test_lists_of_different_lengths_outside_of_traces() -> None:
    with pytest.raises(UnsupportedOpError, match="nested lists of different lengths are no array"):
        dnp.asarray([[1, 2], [3]])


NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "operands": (lambda: dnp.ones((2, 3)) + dnp.ones((2, 4)), "x_1 is x.shape[1] = 3\n  y_1 is y.shape[1] = 4"),
    "a_list": (lambda: dnp.stack([dnp.ones(3), dnp.ones(4)]), "arrays_0_0 is arrays[0].shape[0] = 3"),
    "by_keyword": (
        lambda: dnp.repeat(dnp.ones(3), repeats=dnp.ones(2, dtype="int32")),
        "x_0 is x.shape[0] = 3\n  repeats_0 is repeats.shape[0] = 2",
    ),
    "more_by_position": (
        lambda: dnp.broadcast_arrays(dnp.ones(3), dnp.ones(4)), "arrays_1_0 is arrays[1].shape[0] = 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_calls_outside_of_traces_name_the_parameters(name: str) -> None:
    call, names = NAMES[name]
    with pytest.raises(ShapeError) as caught:
        call()
    assert names in str(caught.value)
