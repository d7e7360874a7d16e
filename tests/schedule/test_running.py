"""Running reductions as generated kernels: NumPy's bits, of narrower floats those of its sums in float64 up to a part's
length, in every place, for any threads."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Array = np.ndarray[Any, Any]
SHAPES = [(0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (2, 7, 64), (64, 2, 7), (5, 33, 300), (1, 1000, 1)]


def numbers(shape: tuple[int, ...], dtype: Any) -> Array:
    x = np.random.default_rng(shape[0] + shape[-1]).normal(0, 4, shape)
    return x.astype(dtype)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int64, np.int8, np.uint16, ml_dtypes.bfloat16, np.float16]
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_are_numpys_bit_for_bit(dtype: Any, axis: int) -> None:
    running = dyn.jit(lambda x: dnp.cumsum(x, axis=axis, dtype=dyn.dtype(dtype)))
    wide = dtype if np.issubdtype(dtype, np.integer) else np.float64
    for shape in SHAPES:
        x = numbers(shape, dtype)
        wanted = np.cumsum(x, axis=axis, dtype=wide).astype(dtype)
        found = running(x)
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()
    assert running.cache_info().compiles == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_zeros_keep_their_signs_and_nan_stays(axis: int) -> None:
    x = np.array([[-0.0, -0.0, 0.0, -0.0], [-0.0, 1.0, np.nan, 2.0], [np.inf, -np.inf, 1.0, -0.0]], np.float32)
    found = dyn.jit(lambda x: dnp.cumsum(x, axis=axis))(x)
    with np.errstate(invalid="ignore"):
        wanted = np.cumsum(x, axis=axis)
    np.testing.assert_array_equal(found, wanted)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_integers_wrap() -> None:
    x = np.full(5, 2**62, np.int64)
    assert dnp.cumsum(x).tolist() == np.cumsum(x).tolist()
    assert dnp.cumprod(x).tolist() == np.cumprod(x).tolist()


@pytest.mark.parametrize("shown", ["transposed", "reversed", "broadcast", "computed", "undecided"])
def test_what_is_shown_and_computed_on_the_way_is_read_in_place(shown: str) -> None:
    def running(x: Any, y: Any, np: Any) -> Any:
        views = {
            "transposed": lambda: x.T,
            "reversed": lambda: x[::-1, ::-1],
            "broadcast": lambda: np.broadcast_to(x[:1], x.shape),
            "computed": lambda: x * 2 + 1,
            "undecided": lambda: x + y,
        }
        return np.cumsum(views[shown](), axis=1)

    function = dyn.jit(lambda x, y: running(x, y, dnp))
    for m, n in ((1, 1), (2, 7), (64, 1), (0, 2), (7, 0), (33, 100)):
        x, y = numbers((m, n), np.float64), numbers((1, n), np.float64)
        if m:
            np.testing.assert_array_equal(function(x, y), running(x, y, np))
    assert function.cache_info().compiles == 1


@pytest.mark.parametrize("shape", [(4, 50_000), (50_000, 4), (3000, 300)])
def test_any_number_of_threads_gives_the_same(shape: tuple[int, int]) -> None:
    x = numbers(shape, np.float32)
    found: list[bytes] = []
    for threads in (1, 4):
        with dyn.config.override(num_threads=threads):
            running = dyn.jit(lambda x: (dnp.cumsum(x, axis=0), dnp.cumsum(x, axis=1)))
            found.append(b"".join(part.tobytes() for part in running(x)))
    assert found[0] == found[1]


def test_it_is_a_kernel_of_its_own_and_says_so() -> None:
    function = dyn.jit(lambda x: dnp.exp(dnp.cumsum(x * 2, axis=0)))
    function(numbers((3, 4), np.float32))
    text = str(function.explain())
    assert "running cumulative [x_0, x_1]: 1 op" in text
    assert "exponential at test_running.py" in text
    assert "stays outside: a running reduction takes nothing else" in text


def test_long_rows_in_parts() -> None:
    """NumPy's bits in float64 up to a part; beyond it the same whether one kernel or three launches go through parts,
    for any number of threads, and no further from what the numbers come to."""
    sums = {
        "front": lambda x: dnp.cumsum(x, axis=1),
        "back": lambda x: dyn.lax.cumsum(x, 1, reverse=True),
        "greatest": lambda x: dyn.lax.cummax(x, 1),
        "products": lambda x: dnp.cumprod(x * 0.01 + 1, axis=1),
        "half": lambda x: dnp.cumsum(dnp.astype(x, "float16"), axis=1),
        "integers": lambda x: dnp.cumsum(dnp.astype(x * 100, "int32"), axis=1, dtype="int32"),
    }
    shapes = [(2, 32_768), (2, 32_769), (7, 65_536), (8, 40_000), (1, 100_003), (0, 40_000), (3, 0)]
    arrays = [np.random.default_rng(s[1]).normal(0.1, 1, s).astype(np.float32) for s in shapes]
    for program in sums.values():
        found: list[list[bytes]] = []
        for variants, threads in (("none", 1), ("all", 1), ("all", 3)):
            with dyn.config.override(variants=variants, num_threads=threads):
                running = dyn.jit(program)
                found.append([running(x).tobytes() for x in arrays])
        assert found[0] == found[1] == found[2]
    long = arrays[4]
    found_sums = dyn.jit(sums["front"])(long)
    exact = np.cumsum(long.astype(np.float64), axis=1)
    np.testing.assert_array_equal(found_sums, exact.astype(np.float32))
    in_float64 = np.cumsum(arrays[0], axis=1, dtype=np.float64).astype(np.float32)
    assert dyn.jit(sums["front"])(arrays[0]).tobytes() == in_float64.tobytes()
