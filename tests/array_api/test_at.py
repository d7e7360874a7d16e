"""``x.at[index]`` against JAX's, in a jitted function and on ``dyn.Array``: one program for every size."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import eager
from dyn.errors import ShapeError, UnsupportedOpError

Array = Any
SIZES = (1, 2, 7)
_MODES = ("drop", "clip", "fill", "promise_in_bounds")

#: ``fn(xp, x, i, v, m)``: an array of n rows of 3, places of them (some out of range, some twice), rows for these
#: places, and a mask of the rows.
Case = Callable[[Any, Array, Array, Array, Array], Array]
CASES: dict[str, Case] = {
    "set": lambda xp, x, i, v, m: x.at[i].set(v),
    "set_number": lambda xp, x, i, v, m: x.at[0].set(2.5),
    "set_last": lambda xp, x, i, v, m: x.at[-1, 1:].set(v[0, 1:]),
    "set_reversed": lambda xp, x, i, v, m: x.at[::-1].set(x * 2),
    "set_steps": lambda xp, x, i, v, m: x.at[::2, ::-2].set(7),
    "set_new_axis": lambda xp, x, i, v, m: x.at[:, None, 1].set(x[:, :1]),
    "set_all": lambda xp, x, i, v, m: x.at[...].set(x[0]),
    "set_pairs": lambda xp, x, i, v, m: x.at[i, xp.abs(i) % 3].set(v[:, 0]),
    "add": lambda xp, x, i, v, m: x.at[i].add(v),
    "add_column": lambda xp, x, i, v, m: x.at[i, 1].add(v[:, 0]),
    "add_traced_number": lambda xp, x, i, v, m: x.at[i[0]].add(v[0]),
    "add_twice": lambda xp, x, i, v, m: x.at[xp.abs(i) // 2, :2].add(1),
    "subtract": lambda xp, x, i, v, m: x.at[i].subtract(v),
    "subtract_range": lambda xp, x, i, v, m: x.at[:, 1:].subtract(x[:, :1]),
    "multiply": lambda xp, x, i, v, m: x.at[i].multiply(v),
    "divide": lambda xp, x, i, v, m: x.at[i].divide(v),
    "divide_range": lambda xp, x, i, v, m: x.at[:, :1].divide(4),
    "power": lambda xp, x, i, v, m: xp.abs(x).at[i].power(2.0),
    "min": lambda xp, x, i, v, m: x.at[i].min(v),
    "max": lambda xp, x, i, v, m: x.at[i].max(v),
    "max_range": lambda xp, x, i, v, m: x.at[:, 1].max(0),
    "apply_range": lambda xp, x, i, v, m: x.at[:, 1].apply(xp.exp),
    "apply_unique": lambda xp, x, i, v, m: x.at[i[:1]].apply(xp.sin, unique_indices=True),
    "get": lambda xp, x, i, v, m: x.at[i].get(),
    "get_range": lambda xp, x, i, v, m: x.at[::-1, 1].get(),
    "mask_set": lambda xp, x, i, v, m: x.at[m].set(3.5),
    "mask_set_row": lambda xp, x, i, v, m: x.at[m].set(v[0]),
    "mask_set_one_row": lambda xp, x, i, v, m: x.at[m, :].set(v[0][None]),
    "mask_whole": lambda xp, x, i, v, m: x.at[x > 0].set(0),
    "mask_add": lambda xp, x, i, v, m: x.at[m].add(1),
    "mask_subtract": lambda xp, x, i, v, m: x.at[m].subtract(1),
    "mask_multiply": lambda xp, x, i, v, m: x.at[m].multiply(v[0]),
    "mask_divide": lambda xp, x, i, v, m: x.at[m, ...].divide(4),
    "mask_power": lambda xp, x, i, v, m: xp.abs(x).at[m].power(3),
    "mask_min": lambda xp, x, i, v, m: x.at[m].min(0),
    "mask_max": lambda xp, x, i, v, m: x.at[m].max(v[0, 0]),
    "mask_apply": lambda xp, x, i, v, m: x.at[m].apply(xp.sin),
    "mask_scalar": lambda xp, x, i, v, m: x.at[True].set(2),
}
#: What JAX has no derivative of: it is tested by itself.
UNDIFFERENTIATED: dict[str, Case] = {
    "apply": lambda xp, x, i, v, m: x.at[i].apply(lambda e: e * 2 + 1),
    "apply_columns": lambda xp, x, i, v, m: x.at[:, xp.abs(i) % 3].apply(xp.sin),
}
for _mode in _MODES:
    CASES |= {
        f"set_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[i].set(v, mode=mode),
        f"add_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[i].add(v, mode=mode),
        f"set_far_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[(100 if mode != "promise_in_bounds" else 0), 1].set(
            9, mode=mode
        ),
        f"set_unwrapped_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[i].set(
            v, mode=mode, wrap_negative_indices=False
        ),
        f"get_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[i, 1].get(mode=mode, fill_value=-2),
        f"get_unwrapped_{_mode}": lambda xp, x, i, v, m, mode=_mode: x.at[:, i].get(
            mode=mode, fill_value=5, wrap_negative_indices=False
        ),
    }


def given(n: int, seed: int = 0) -> tuple[Array, ...]:
    rng = np.random.default_rng([n, seed])
    i = rng.permutation(np.arange(-n - 2, n + 2))[:5].astype(np.int32)
    v = rng.normal(0, 1, (5, 3)).astype(np.float32)
    return rng.normal(0, 1, (n, 3)).astype(np.float32), i, v, rng.random(n) < 0.5


def equal(mine: Any, theirs: Any) -> None:
    a, b = np.asarray(mine), np.asarray(theirs)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _distinct(i: Array, n: int) -> Array:
    """Places that name no row twice: JAX does not promise which of two values that are set stays."""
    return i[np.unique(np.where(i < 0, i + n, i), return_index=True)[1]]


def arguments(name: str, n: int) -> tuple[Array, ...]:
    x, i, v, m = given(n)
    if name.startswith("set"):
        i = _distinct(i, n)
        if "clip" in name or "unwrapped" in name:
            i = i[(i >= 0) & (i < n)] if "clip" in name else _distinct(i[i >= 0], n)
        if name == "set_clip":
            i = np.append(i[i < n - 1], n + 3).astype(np.int32)
        v = v[: len(i)]
    return x, i, v, m


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


@pytest.mark.parametrize("name", [*CASES, *UNDIFFERENTIATED])
def test_as_in_jax(name: str, jax: ModuleType) -> None:
    case = (CASES | UNDIFFERENTIATED)[name]
    mine = dyn.jit(lambda *args: case(dnp, *args))
    for n in SIZES:
        args = arguments(name, n)
        wanted = case(jax.numpy, *[jax.numpy.asarray(a) for a in args])
        equal(mine(*args), wanted)
        equal(mine.reference(*args), wanted)
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("name", [*CASES, *UNDIFFERENTIATED])
def test_outside_of_a_trace(name: str, jax: ModuleType) -> None:
    case = (CASES | UNDIFFERENTIATED)[name]
    for n in (7,):
        args = arguments(name, n)
        result = case(dnp, *[dyn.asarray(a) for a in args])
        assert type(result) is dyn.Array
        equal(result, case(jax.numpy, *[jax.numpy.asarray(a) for a in args]))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    """Against differences: JAX has no derivative of half of these."""
    case = CASES[name]

    def loss(x: Array, v: Array, i: Array, m: Array) -> Array:
        y = case(dnp, x, i, v, m)
        return dnp.sum(y * y * 0.5 + y * 0.25)

    value, gradient = dyn.jit(loss), dyn.jit(dyn.grad(loss, argnums=(0, 1)))
    for n in (1, 2, 7):
        x, i, v, m = arguments(name, n)
        x, v, step = x.astype("f8"), v.astype("f8"), 1e-6
        dx, dv = gradient(x, v, i, m)
        rng = np.random.default_rng(1)
        tx, tv = rng.normal(0, 1, x.shape), rng.normal(0, 1, v.shape)
        ahead, back = (value(x + h * tx, v + h * tv, i, m) for h in (step, -step))
        wanted = (float(ahead) - float(back)) / (2 * step)
        np.testing.assert_allclose(np.sum(dx * tx) + np.sum(dv * tv), wanted, rtol=1e-4, atol=1e-4)
    assert value.cache_info().compiles == gradient.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["set", "add", "mask_multiply", "divide", "get_fill", "set_last"])
def test_examples(name: str) -> None:
    case = CASES[name]
    batched = dyn.jit(dyn.vmap(lambda *args: case(dnp, *args)))
    single = dyn.jit(lambda *args: case(dnp, *args))
    rows = [given(7, seed) for seed in range(3)]
    wanted = [single(*row) for row in rows]
    equal(batched(*[np.stack(parts) for parts in zip(*rows, strict=True)]), np.stack(wanted))


def test_no_rows() -> None:
    @dyn.jit
    def mine(x: Array, i: Array, m: Array) -> Array:
        return x.at[i].set(1), x.at[i].set(1, mode="clip"), x.at[m].add(2), x.at[::2].set(3), x.at[i].apply(dnp.exp)

    mine(np.ones((4, 3), "f4"), np.array([1, 9]), np.ones(4, bool))
    assert [y.shape for y in mine(np.ones((0, 3), "f4"), np.array([0, -1]), np.ones(0, bool))] == [(0, 3)] * 5
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("f4", np.nan), ("f8", np.nan), ("c8", np.nan), ("i1", -128), ("i8", -(2**63)), ("u1", 255), ("u8", 2**64 - 1)]
)  # fmt: skip
def test_what_fills(dtype: str, fill: Any) -> None:
    x = dyn.asarray(np.arange(3).astype(dtype))
    np.testing.assert_array_equal(np.asarray(x.at[np.array([2, 3, -4])].get(mode="fill"))[1:], [fill, fill])


def test_a_value_for_each_that_a_mask_takes() -> None:
    @dyn.jit
    def mine(x: Array, m: Array) -> Array:
        y = x * 1
        y[m] *= 3
        y[y > 2] = y[y > 2] - 1
        return y, x.at[m].set(x[m] + 1), x.at[m].subtract(x[m]), x.at[x > 0].divide(x[x > 0])

    for n in (0, 1, 2, 7):
        x, _, _, m = given(n)
        y = x.copy()
        y[m] *= 3
        y[y > 2] -= 1
        wanted = [y, *(x.copy() for _ in range(3))]
        wanted[1][m] += 1
        wanted[2][m] = 0
        wanted[3][x > 0] = 1
        for a, b in zip(mine(x, m), wanted, strict=True):
            equal(a, b)
    assert mine.cache_info().compiles == 1


def test_the_last_of_several_stays() -> None:
    x = dyn.asarray(np.zeros(3, "f4"))
    assert x.at[np.array([1, 1, 1])].set(np.array([5, 6, 7])).tolist() == [0, 7, 0]


def test_one_program_for_every_number_and_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_PROGRAMS", eager._EagerPrograms())
    monkeypatch.setattr(eager, "MOST_LITERALS", 1 << 30)  # however many programs other tests have made
    for n in (5, 8):
        x = np.arange(float(n), dtype="f4")
        for number in range(-n, n):
            wanted = x.copy()
            wanted[number] += (number + 0.5) / 7.1
            assert dyn.asarray(x).at[number].add((number + 0.5) / 7.1).tolist() == wanted.tolist()
    assert len(eager._PROGRAMS._known) <= 1
    bounds = (None, -9, -3, -1, 0, 2, 5, 11)
    for part in [slice(a, b, s) for a in bounds for b in bounds for s in (1, -1, 3)]:
        wanted = x.copy()
        wanted[part] = 9
        assert dyn.asarray(x).at[part].set(9).tolist() == wanted.tolist(), part
    assert len(eager._PROGRAMS._known) <= 4


def test_integers() -> None:
    x = dyn.asarray(np.array([1, 2, 250], "u1"))
    assert x.at[0].subtract(2).tolist() == [255, 2, 250]
    assert x.at[2].add(10).tolist() == [1, 2, 4]
    assert x.at[1].divide(4).tolist() == [1, 0.5, 250]
    assert x.at[1].divide(4).dtype == np.float32
    assert x.at[1].power(3).tolist() == [1, 8, 250]
    assert x.at[1].set(2.9).tolist() == [1, 2, 250]


def shown(error: type[Exception], function: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(error) as caught:
        function(*args)
    return re.sub(r"at test_at.py:\d+  .*", "at <the line>", str(caught.value))


ROWS = np.zeros((4, 3), "f4")
ERRORS: dict[str, tuple[type[Exception], Callable[[Any], Any], str]] = {
    "mode": (
        UnsupportedOpError, lambda x: x.at[0].set(1, mode="wrap"),
        "x.at[...]: 'wrap' is no mode.\n  at <the line>\n"
        "  help: use 'drop', 'clip', 'fill' or 'promise_in_bounds', or leave it out.",
    ),
    "complex": (
        UnsupportedOpError, lambda x: x.at[0].set(1j),
        "x.at[...]: complex128 cannot be put into x (x_0, x_1).\n  at <the line>\n"
        "  help: take their real parts, or convert the array with .astype.",
    ),
    "shape": (
        ShapeError, lambda x: x.at[0].set(x[:, None]),
        "the values (x_0, 1, x_1) cannot be broadcast to x[index], (x_1,).\n  at <the line>\n"
        "  help: sizes must be 1 or the wanted ones, aligned at the last axis.",
    ),
    "mask_axes": (
        ShapeError, lambda x: x.at[x[None] > 0].set(1),
        "x.at[mask]: a mask with 3 axes for x (x_0, x_1), which has 2.\n  at <the line>\n"
        "  help: give a mask of its leading axes.",
    ),
    "mask_size": (
        ShapeError, lambda x: x.at[np.zeros(3, bool)].set(1),
        "3 == x_0 is required, but x_0 is 4: axis 0 of a mask is as long as that of the array.\n"
        "  x_0 is x.shape[0] = 4\n  at <the line>\n"
        "  help: pass arguments whose shapes satisfy it.",
    ),
    "apply": (
        UnsupportedOpError, lambda x: x.at[0].apply(lambda v: v > 0),
        "x.at[...].apply: the function gives bool, and x (x_0, x_1) stays float32.\n  at <the line>\n"
        "  help: convert its result with .astype.",
    ),
    "float_index": (
        UnsupportedOpError, lambda x: x.at[0.5].set(1),
        "an array cannot be indexed with the float 0.5.\n  at <the line>\n"
        "  help: use numbers, slices, None, Ellipsis, dimensions or an integer array.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    error, function, text = ERRORS[name]
    assert shown(error, dyn.jit(function), ROWS) == text


def test_errors_outside_of_a_trace() -> None:
    x = dyn.asarray(np.zeros(3, "i1"))
    assert shown(ShapeError, lambda: x.at[3].set(1)) == (
        "the index 3 is outside of axis 0, which has 3 elements.\n  at <the line>\n"
        "  help: use an index from -3 to 2, or say with mode= what is to become of it."
    )
    assert shown(UnsupportedOpError, lambda: x.at[0].set(300)) == (
        "the Python integer 300 does not fit in int8.\n  at <the line>\n"
        "  help: convert the array it meets to a wider dtype with .astype."
    )


def test_errors_name_the_values_and_the_index() -> None:
    """Sizes of a known program too: its error is that of a trace with numbers, of this call's arguments."""
    x = dyn.asarray(np.zeros(4, "f4"))
    for start, stop in ((1, 3), (0, 2), (1, 3)):
        size = "max(0, min(3, x_0) - 1)" if start else "min(2, x_0)"
        assert shown(ShapeError, lambda a=start, b=stop: x.at[a:b].set(dnp.ones(3))) == (
            f"values_0 broadcasts with {size} is required, but values_0 is 3 and {size} is 2 (x_0 is 4): "
            f"axis 0 of x[index], ({size},), is broadcast from the values, (values_0,).\n"
            "  x_0 is x.shape[0] = 4\n  values_0 is values.shape[0] = 3\n  at <the line>\n"
            "  help: pass arguments whose shapes satisfy it."
        )
        assert x.at[start:stop].set(dnp.ones(2)).sum() == 2
