"""Results at the edges: XLA's of JAX functions, the specification's of StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn.interop.stablehlo import load

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

import dyn  # noqa: E402
from dyn.interop import jax as djax  # noqa: E402  # needs JAX
from tests.interop.xla_cases import GROUPS, LINE, Array  # noqa: E402  # needs JAX

#: Relative errors of functions: dyn's and XLA's are not the same to the last bit.
NARROW = ("float16", "bfloat16", "float64")
TOLERANCES = {1: 0.2, 2: 2e-2, 4: 1e-5, 8: 1e-12}


def assert_alike(actual: Any, wanted: Any, what: str) -> None:
    """Assert equal types, integers, signs of zeros, infinities and NaNs; other floats nearly."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), what
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, wanted, what)
        return
    if wanted.dtype.kind == "c":
        assert_alike(actual.real, wanted.real, what)
        assert_alike(actual.imag, wanted.imag, what)
        return
    tolerance = TOLERANCES[wanted.dtype.itemsize]
    one, other = actual.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(other[one == 0]), what)
    np.testing.assert_allclose(one, other, tolerance, tolerance / 100, err_msg=what)


@pytest.mark.parametrize("group", GROUPS)
def test_jax_functions_compute_what_xla_does(group: str) -> None:
    args, cases = GROUPS[group]

    def program(*arrays: Any) -> dict[str, Any]:
        return {name: fn(*arrays) for name, fn in cases.items()}

    with jax.enable_x64(True):
        wanted, actual = jax.jit(program)(*args), djax.jit(program)(*args)
    for name in cases:
        leaves = zip(jax.tree.leaves(actual[name]), jax.tree.leaves(wanted[name]), strict=True)
        for one, other in leaves:
            assert_alike(one, other, f"{group}: {name}")


# --- the same modules by the specification's words --------------------------------------------------------------------


def loaded(fn: Callable[..., Any], *args: Array) -> Any:
    return load(export.export(jax.jit(fn))(*args).mlir_module_serialized)(*args)


def test_padding_of_a_loaded_module_is_made_of_initial_values() -> None:
    x = np.zeros((1, 6, 1), np.float32)

    def windows(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(1), lax.add, (1, 4, 1), (1, 2, 1), "SAME")

    assert np.asarray(djax.jit(windows)(x)).ravel().tolist() == np.asarray(windows(x)).ravel().tolist() == [1, 1, 1]
    assert loaded(windows, x).ravel().tolist() == [2, 1, 2]


def test_an_update_of_a_loaded_module_is_dropped_element_by_element() -> None:
    update = np.array([-1, -2], np.float32)

    def scattered(x: Any, u: Any) -> Any:
        return lax.scatter(x, jnp.array([9]), u, lax.ScatterDimensionNumbers((0,), (), (0,)))

    assert np.asarray(djax.jit(scattered)(LINE, update)).tolist() == LINE.tolist()
    assert loaded(scattered, LINE, update).tolist() == [*LINE[:-1].tolist(), -1]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7])
def test_windows_wider_than_the_array_are_dropped(size: int) -> None:
    """Without a compile for each size: the last place that a window may have is a size itself."""
    function = djax.jit(lambda x, u, i: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((0,), (), (0,))))
    plain: Any = jax.jit(lambda x, u, i: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((0,), (), (0,))))
    for place in (-1, 0, 1, size - 3, size - 2, size):
        args = (np.arange(size, dtype=np.float32), np.ones(min(3, size), np.float32), np.array([place], np.int32))
        np.testing.assert_array_equal(function(*args), plain(*args))


def test_windows_at_every_size() -> None:
    def windows(x: Any) -> Any:
        half: Any = lambda a, b: a * np.float32(0.5) + b  # noqa: E731
        return [
            lax.reduce_window(x, np.float32(2), lax.add, (3,), (2,), "SAME"),
            lax.reduce_window(x, np.float32(2), half, (3,), (1,), ((1, 1),)),
        ]

    function = djax.jit(windows)
    for size in (1, 2, 3, 8):
        x = np.arange(size, dtype=np.float32)
        for one, other in zip(function(x), jax.jit(windows)(x), strict=True):
            np.testing.assert_array_equal(one, other)


def test_divisions_by_zero_in_loops() -> None:
    def divided(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: lax.div(c, y) + lax.rem(c, y), x)

    x, y = np.array([7, 8, -9], np.int32), np.array([0, 3, 0], np.int32)
    np.testing.assert_array_equal(djax.jit(divided)(x, y), jax.jit(divided)(x, y))


# --- dyn's programs, which XLA computes -------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [g for g in GROUPS if g.rpartition(" ")[2] not in ("int8", "int64", *NARROW)])
def test_xla_computes_what_dyn_does(group: str) -> None:
    """Of modules as the specification has them, whose programs go back to XLA."""
    args, cases = GROUPS[group]

    def program(*arrays: Any) -> dict[str, Any]:
        return {name: fn(*arrays) for name, fn in cases.items()}

    with jax.enable_x64(True):
        module = export.export(jax.jit(program))(*args)
        names = [
            jax.tree_util.keystr(path)
            for path, _ in jax.tree_util.tree_leaves_with_path(module.out_tree.unflatten(module.out_avals))
        ]
        function = load(module.mlir_module_serialized, trusted=True)
        given = [args[i] for i in module.module_kept_var_idx]
        actual = djax.exported(function.trace(*given)).call(*given)
    for name, one, other in zip(names, actual, function(*given), strict=True):
        assert_alike(one, other, f"{group}: {name}")


def test_xla_computes_windows_and_scatters_of_dyn_at_every_size() -> None:
    """One module: what lies partly outside, on either side or on both, and padding that is made of initial values."""
    numbers = dyn.lax.ScatterDimensionNumbers((0,), (), (0,))

    @dyn.jit(shapes="n, w, 1")
    def program(x: Any, u: Any, i: Any) -> Any:
        half: Any = lambda a, b: a * np.float32(0.5) + b  # noqa: E731
        return (
            dyn.lax.scatter_add(x, i, u, numbers),
            dyn.lax.scatter(x, i, u, numbers),
            dyn.lax.reduce_window(x, np.float32(2), half, (3,), (2,), "SAME"),
            dyn.lax.reduce_window(x, np.float32(2), lambda a, b: a * b, (2,), (1,), ((1, 0),), base_dilation=(2,)),
        )

    i32, f32 = np.int32, np.float32
    once = djax.exported(program.trace(np.ones(5, f32), np.ones(3, f32), np.ones(1, i32)))
    for size, width in ((1, 1), (1, 3), (2, 3), (3, 3), (8, 3), (8, 1)):
        for place in (-(2**31), -width, -1, 0, 1, size - width, size - 1, size, 2**31 - 1):
            args = np.arange(size, dtype=f32) + 1, 10 + np.arange(width, dtype=f32), np.array([place], i32)
            for one, other in zip(once.call(*args), program(*args), strict=True):
                np.testing.assert_array_equal(one, other, f"{size}, {width}, {place}")


def test_products_that_are_added_are_rounded_as_the_program_says() -> None:
    """As JAX rounds them operation by operation; XLA's kernels round some of them once. A draw may hang on it."""

    def rates(x: Any) -> Any:
        b = 0.931 + 2.53 * jax.lax.sqrt(x)
        return (2 * (0.02483 * b - 0.059) / x + b) * x + 0.43

    x = np.geomspace(1e4, 1e6, 1000).astype("f4")
    made = djax.jit(rates)(x)
    with jax.disable_jit():
        wanted = rates(jnp.asarray(x))
    assert np.asarray(made).tobytes() == np.asarray(wanted).tobytes()
