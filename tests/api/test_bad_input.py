"""Bad input through the public API: the whole text of every error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

LENGTH_N: Any = dyn.f32["n"]


def text_of(error: type[Exception], call) -> str:
    with pytest.raises(error) as caught:
        call()
    return re.sub(r"(test_bad_input\.py):\d+", r"\1:N", str(caught.value))


def test_wrong_rank_against_a_declaration() -> None:
    f = dyn.jit(lambda x: x + 1, shapes="b s")
    assert text_of(dyn.errors.ArgumentError, lambda: f(np.zeros((2, 3, 4), "f4"))) == (
        "<lambda>(): x has 3 axes, and it is declared with 2: (b, s).\n"
        "  help: pass an array of that rank, or change the declaration."
    )


def test_wrong_dtype_against_an_annotation() -> None:
    @dyn.jit
    def f(x: LENGTH_N):  # pyright: ignore[reportInvalidTypeForm]  # a declaration, not a type
        return x + 1

    assert text_of(dyn.errors.ArgumentError, lambda: f(np.zeros(3, "f8"))) == (
        "f(): x is float64, and it is annotated as float32.\n  help: pass x.astype('float32')."
    )


def test_a_broken_equality() -> None:
    f = dyn.jit(lambda x, w: x @ w)
    f(np.zeros((2, 3), "f4"), np.zeros((3, 4), "f4"))
    assert text_of(dyn.errors.ShapeError, lambda: f(np.zeros((2, 3), "f4"), np.zeros((5, 4), "f4"))) == (
        "x_1 == w_0 is required, but x_1 is 3 and w_0 is 5: "
        "axis 1 of the left operand is multiplied and summed with axis 0 of the right one.\n"
        "  x_1 is x.shape[1] = 3\n"
        "  w_0 is w.shape[0] = 5\n"
        "  at test_bad_input.py:N  f = dyn.jit(lambda x, w: x @ w)\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_a_broken_declared_dim() -> None:
    f = dyn.jit(lambda x: x + 1, shapes="n 768")
    f(np.zeros((1, 768), "f4"))
    assert text_of(dyn.errors.ShapeError, lambda: f(np.zeros((1, 767), "f4"))) == (
        "x.shape[1] is 767, and it is declared to be 768.\n"
        "  help: pass an array whose axis 1 has 768 elements, or change shapes=."
    )


def test_a_dim_out_of_its_range() -> None:
    f = dyn.jit(lambda x: x + 1, shapes="s", dims=[dyn.Dim("s", min=1, max=512)])
    f(np.zeros(3, "f4"))
    assert text_of(dyn.errors.ShapeError, lambda: f(np.zeros(513, "f4"))) == (
        "x.shape[0] is 513, and 1 <= s <= 512 was declared.\n"
        "  help: pass an array of a size that was declared, or change the declaration of s."
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda h: h.T + 1, (2**63 - 1, 0)),
        (lambda h: dnp.flip(h.T[..., None], 1), (2**63 - 1, 0, 1)),
        (lambda h: dnp.concatenate([h.T, h.T + 1], 1), (2**63 - 1, 0)),
        (lambda h: dyn.nn.softmax(h.T + np.int8(1), 1).astype("int8"), (2**63 - 1, 0)),
        (lambda h: dnp.sum(h.T, dtype="int8"), ()),
        (lambda h: dyn.lax.fori_loop(0, 3, lambda _, a: a + 1, h.T), (2**63 - 1, 0)),
    ],
)
def test_rows_of_nothing_are_not_gone_through(f: Callable[..., Any], shape: tuple[int, ...], threads: int) -> None:
    """However many there are: a kernel that writes no element is not launched."""
    jitted, h = dyn.jit(f), np.empty((0, 2**63 - 1), "i1")
    small = np.asarray(jitted(np.ones((2, 3), "i1")))
    with dyn.config.override(num_threads=threads):
        for settings in ({"fast_call": False}, {}):
            with dyn.config.override(**settings):
                result = np.asarray(jitted(h))
                assert (result.shape, result.dtype) == (shape, np.dtype("i1"))
                assert np.asarray(jitted(np.ones((2, 3), "i1"))).tobytes() == small.tobytes()


def test_sizes_whose_product_passes_2_to_63() -> None:
    f = dyn.jit(lambda x: dnp.zeros((x.shape[0], 2**33, x.shape[0]), dtype="float32"))
    assert f(np.zeros(0, "i1")).shape == (0, 2**33, 0)
    assert text_of(dyn.errors.ShapeError, lambda: f(np.zeros(2**20, "i1"))) == (
        "an array of this call would have more than 2^63 bytes (arguments: x (1048576,)).\n"
        "  help: pass smaller arguments."
    )


def test_mismatched_pytrees_compile_separately() -> None:
    f = dyn.jit(lambda params: params["a"] + params.get("b", 1))
    assert f({"a": np.float32(1)}) == 2
    assert f({"a": np.float32(1), "b": np.float32(3)}) == 4
    assert f.cache_info().compiles == 2


def test_a_compiled_stage_refuses_another_tree() -> None:
    f = dyn.jit(lambda params: params["a"] * 2)
    compiled = f.trace({"a": np.zeros(3, "f4")}).lower().compile()
    assert compiled({"a": np.ones(5, "f4")}).tolist() == [2.0] * 5
    assert text_of(dyn.errors.ArgumentError, lambda: compiled({"b": np.ones(5, "f4")})) == (
        "dyn.jit(<lambda>) was compiled for arguments ({'a': *},), not ({'b': *},).\n"
        "  help: compile for the other tree as well, or call the jitted function."
    )


def test_a_numpy_function_that_dyn_does_not_know() -> None:
    f = dyn.jit(lambda x: np.polydiv(x, x) + 1)
    assert text_of(dyn.errors.UnsupportedOpError, lambda: f(np.zeros(3, "f4"))) == (
        "np.polydiv is not a function that dyn knows.\n"
        "  at test_bad_input.py:N  f = dyn.jit(lambda x: np.polydiv(x, x) + 1)\n"
        "  help: build it from functions of dyn.numpy, or compute it outside of the compiled function; dyn.numpy.poly "
        "is the nearest that is there."
    )


def test_int_of_a_dim() -> None:
    f = dyn.jit(lambda x: x * int(x.shape[0]))
    assert text_of(dyn.errors.UndecidedDimError, lambda: f(np.zeros(3, "f4"))) == (
        "int() needs one value of the dimension x_0 (x_0 is x.shape[0]), and it differs from call to call.\n"
        "  at test_bad_input.py:N  f = dyn.jit(lambda x: x * int(x.shape[0]))\n"
        "  help: use the dimension itself in shapes and arithmetic, or make it static with shapes=."
    )


def test_an_undecidable_branch_without_sizes() -> None:
    f = dyn.jit(lambda x: x if x.shape[0] > 128 else -x)
    assert text_of(dyn.errors.UndecidedDimError, lambda: f.trace(dyn.ShapeDtypeStruct(("n",), "float32"))) == (
        "whether n > 128 cannot be decided: n is x.shape[0].\n"
        "  at test_bad_input.py:N  f = dyn.jit(lambda x: x if x.shape[0] > 128 else -x)\n"
        "  help: call the function with arrays instead of tracing it for a ShapeDtypeStruct, declare the dimension's "
        "range with dyn.Dim or constraints=, or use dyn.numpy.where."
    )


def test_a_branch_on_a_dim_makes_a_guard_and_a_second_program() -> None:
    f = dyn.jit(lambda x: x if x.shape[0] > 4 else -x)
    assert f(np.ones(3, "f4")).tolist() == [-1.0] * 3
    assert f(np.ones(2, "f4")).tolist() == [-1.0] * 2
    assert f.cache_info().compiles == 1
    assert f(np.ones(5, "f4")).tolist() == [1.0] * 5
    assert f.cache_info()[:3] == (2, 1, 2)
    assert "the branch on x_0 > 4" in str(f.explain())


@pytest.mark.parametrize("axis", ["2*k", "k+1", "3*k+2"])
def test_a_guard_on_a_dim_that_was_declared_as_a_formula(axis: str) -> None:
    f = dyn.jit(lambda x: x if x.shape[0] > 4 else -x, shapes=axis)
    small, large = {"2*k": (4, 6), "k+1": (4, 5), "3*k+2": (2, 5)}[axis]
    assert f(np.ones(large, "f4")).tolist() == [1.0] * large
    assert f(np.ones(small, "f4")).tolist() == [-1.0] * small
    assert f(np.ones(large + 6, "f4")).tolist() == [1.0] * (large + 6)
    assert f.cache_info()[:3] == (2, 1, 2)


def test_a_size_whose_factor_passes_64_bits_is_refused() -> None:
    f = dyn.jit(lambda x: dnp.zeros((x.shape[0] * 2**40, x.shape[0] * 2**40), "bool"))
    assert f(np.ones(0, "f4")).shape == (0, 0)
    assert text_of(dyn.errors.ShapeError, lambda: f(np.ones(4, "f4"))) == (
        "an array of this call would have more than 2^63 bytes (arguments: x (4,)).\n  help: pass smaller arguments."
    )


def test_the_longest_axis_there_is_may_be_reduced() -> None:
    """Its chunks are counted without a number that passes 2^63."""
    f = dyn.jit(lambda x: dnp.sum(x, 1))
    for length in (2**62, 2**63 - 1):
        assert f(np.empty((0, length), "i1")).shape == (0,)


def test_a_size_inside_a_kernel_that_passes_64_bits_is_named() -> None:
    """No array is too large here: the loop over an axis of no elements would be."""
    f = dyn.jit(lambda x: dnp.sum(dnp.concatenate([x, x], 1), 1))
    assert f(np.empty((0, 2**61), "i1")).shape == (0,)
    assert text_of(dyn.errors.ShapeError, lambda: f(np.empty((0, 2**62), "i1"))).splitlines()[0] == (
        "2*x_1 is 9223372036854775808 in this call, and sizes have 64 bits."
    )


def test_on_new_shape_error() -> None:
    f = dyn.jit(lambda x: x if x.shape[0] > 4 else -x, on_new_shape="error")
    f(np.ones(3, "f4"))
    assert text_of(dyn.errors.ShapeError, lambda: f(np.ones(5, "f4"))) == (
        "<lambda>() needs a second program for these arguments: "
        "it has one for 4 >= x_0, by the branch on not x_0 > 4 (test_bad_input.py:N).\n"
        "  help: call it with such arguments before on_new_shape='error' is set, or remove the branch."
    )


def test_a_compiled_program_for_other_shapes() -> None:
    f = dyn.jit(lambda x: x if x.shape[0] > 4 else -x)
    compiled = f.trace(np.ones(3, "f4")).lower().compile()
    assert text_of(dyn.errors.ShapeError, lambda: compiled(np.ones(5, "f4"))) == (
        "dyn.jit(<lambda>) was compiled for other shapes: it is for 4 >= x_0, by the branch on not x_0 > 4 "
        "(test_bad_input.py:N).\n  help: call the jitted function."
    )


def test_an_object_array() -> None:
    f = dyn.jit(lambda x: x + 1)
    assert text_of(dyn.errors.ArgumentError, lambda: f(np.array([object()]))) == (
        "<lambda>(): x: an array of dtype object has no place in a compiled program.\n"
        "  help: convert it to a numeric dtype first, for example array.astype('float32')."
    )


def test_not_an_array() -> None:
    f = dyn.jit(lambda x: x)
    assert text_of(dyn.errors.ArgumentError, lambda: f("text")) == (
        "<lambda>(): x is a str, which is not an array.\n"
        "  help: pass an array or a number, or name the argument in static_argnames=."
    )


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype="f4").reshape(4, 6)[:, ::2],
        np.arange(24, dtype="f4").reshape(4, 6).T,
        np.arange(24, dtype="f4").reshape(4, 6)[::-1, ::-1],
        np.arange(24, dtype=">f4").reshape(4, 6),
        np.zeros((0, 6), "f4"),
        np.frombuffer(b"\0" + np.arange(24, dtype="f4").tobytes(), "f4", offset=1).reshape(4, 6),
        np.broadcast_to(np.float32(3), (4, 6)),
    ],
    ids=["strided", "transposed", "reversed", "byte-swapped", "empty", "misaligned", "read-only"],
)
def test_arrays_that_lie_oddly_simply_work(array: np.ndarray) -> None:
    f = dyn.jit(lambda x: x * 2 + 1)
    result = f(array)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, array * 2 + 1)


def test_a_dim_that_would_be_negative() -> None:
    f = dyn.jit(lambda x: x * 2, shapes="n+3")
    assert f(np.ones(3, "f4")).tolist() == [2.0] * 3
    assert text_of(dyn.errors.ShapeError, lambda: f(np.ones(2, "f4"))) == (
        "n >= 0 is required, but n is -1: the dim n is a size.\n"
        "  n is the declared dim n = -1\n"
        "  help: pass arguments whose shapes satisfy it."
    )
