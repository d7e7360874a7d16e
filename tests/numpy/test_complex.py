"""Complex arrays: NumPy's values at every size from one compile, special cases, and what is not there."""

from __future__ import annotations

import cmath
import re
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DynError, UnsupportedOpError
from dyn.numpy._indexing.getitem import scatter_update
from tests.numpy.differential import compare

Array = np.ndarray[Any, Any]
UNARY = (
    "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "square",
    "reciprocal", "abs", "sign", "negative", "positive", "conj", "real", "imag", "angle", "isnan", "isinf", "isfinite",
    "logical_not", "exp2",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "power", "equal", "not_equal", "logical_and", "isclose")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, -30.0, 30.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    compare(lambda xp, x: getattr(xp, name)(x), f"{dtype} n 3", rtol=1e-5 if dtype == "complex64" else 1e-12)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: str) -> None:
    rtol = 2e-4 if dtype == "complex64" else 1e-11
    compare(lambda xp, x, y: getattr(xp, name)(x, y), f"{dtype} n", f"{dtype} m", rtol=rtol)


def test_beside_reals() -> None:
    def program(xp: Any, z: Any, x: Any) -> Any:
        return z * x, x - z, z + 1j, x * 2j, xp.where(x > 0, z, x), z**2, z**-1, 1 / z, z == x

    compare(program, "complex128 n", "float64 n")


def test_moving_and_reducing() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            x.T, xp.concatenate([x, y]), x[:, ::-1], xp.sum(x * y, axis=1), xp.mean(x, axis=0), x @ y.T,
            xp.sum(xp.abs(x) ** 2), xp.reshape(x, (-1,)), xp.stack([x, xp.conj(y)]), x.astype("complex64"), x,
        )  # fmt: skip

    compare(program, "complex128 n 3", "complex128 n 3")


def test_one_result_several_times_and_parameters_as_results() -> None:
    compare(lambda xp, x: (x, x, x.T, x * 2, x * 2), "complex64 n m")


def test_constants_and_ranges() -> None:
    table = np.array([1 + 2j, 3 - 1j, np.complex128(complex(-0.0, 5))])

    def program(xp: Any, x: Any) -> Any:
        return x * table, xp.ones(3, "complex64"), xp.full((2,), 1 - 2j), xp.arange(3).astype("complex128")

    compare(program, "complex128 n 3")


def grid(dtype: Any = np.complex128) -> Any:
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    z = np.empty(a.size, dtype)
    z.real, z.imag = a.ravel(), b.ravel()
    return z


def agree(actual: Array, wanted: Array, z: Array) -> None:
    """Close where both parts are finite, signs of zeros included."""
    for got, want in ((actual.real, wanted.real), (actual.imag, wanted.imag)):
        finite = np.isfinite(want) & np.isfinite(wanted.real) & np.isfinite(wanted.imag)
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-13, atol=1e-15, err_msg=str(z[finite]))
        zero = finite & (want == 0)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=str(z[zero]))


@pytest.mark.parametrize("name", ["sqrt", "log", "exp", "tanh", "abs"])
def test_special_values(name: str) -> None:
    z = grid()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z)
        actual: Any = np.asarray(dyn.jit(getattr(dnp, name))(z))
    if name == "abs":
        np.testing.assert_allclose(actual, wanted, rtol=1e-15)
        return
    agree(actual, wanted, z)
    assert (np.isnan(actual.real) | np.isnan(actual.imag))[np.isnan(z.real) & np.isnan(z.imag)].all()


def test_signs_of_infinities() -> None:
    """One infinite part is the direction; of two there is none."""
    with np.errstate(all="ignore"):
        wanted = np.sign(grid())
    got: Any = np.asarray(dyn.jit(dnp.sign)(grid()))
    np.testing.assert_allclose(got, wanted, rtol=1e-15)


def test_square_roots_and_logarithms_of_infinities() -> None:
    z: Any = np.array([complex(x, y) for x in SPECIAL for y in (np.inf, -np.inf)])
    actual: Any = np.asarray(dyn.jit(dnp.sqrt)(z))
    np.testing.assert_array_equal(actual.real, np.inf)
    np.testing.assert_array_equal(actual.imag, z.imag)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_nothing_overflows_on_the_way(dtype: str) -> None:
    big, small = (1e30, 1e-30) if dtype == "complex64" else (1e300, 1e-300)
    z = np.array([complex(big, big), complex(big, -1), complex(small, small), complex(0, big), complex(3, 4)], dtype)
    size, one, half = dyn.jit(lambda v: (dnp.abs(v), v / v, v / (2 * v)))(z)
    np.testing.assert_allclose(size, np.abs(z.astype(np.complex128)), rtol=1e-6)
    np.testing.assert_allclose(one, np.ones(5), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(half, np.full(5, 0.5), rtol=1e-6, atol=1e-7)
    root = np.asarray(dyn.jit(dnp.sqrt)(z))
    np.testing.assert_allclose(root, [cmath.sqrt(complex(v)) for v in z.astype(np.complex128)], rtol=1e-6)


def test_division_by_zero() -> None:
    x, y = np.array([1 + 2j, -1 - 1j, 0j, 1 + 1j]), np.array([0j, 0j, 0j, complex(0, -0.0)])
    with np.errstate(all="ignore"):
        wanted = x / y
    np.testing.assert_array_equal(dyn.jit(lambda a, b: a / b)(x, y), wanted)


def drawn(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), ()])
def test_products(axis: Any) -> None:
    f = dyn.jit(lambda x: dnp.prod(x, axis=axis))
    for n in (0, 1, 2, 7, 64):
        x = drawn(3, n)
        np.testing.assert_allclose(f(x), np.prod(x, axis=axis), rtol=1e-4, atol=1e-6)
    assert f.cache_info().compiles == 1


def test_products_in_windows() -> None:
    f = dyn.jit(lambda x: dyn.lax.reduce_window(x, 1.0 + 0j, dyn.lax.mul, (3,), (2,), ((1, 1),)))
    for n in (1, 2, 7, 64):
        x = drawn(n)
        padded = np.concatenate([[1], x, [1]])
        wanted = [np.prod(padded[i : i + 3]) for i in range(0, n, 2)]
        np.testing.assert_allclose(f(x), wanted[: len(np.asarray(f(x)))], rtol=1e-5)
        assert len(np.asarray(f(x))) == max(0, (n - 1) // 2 + 1)
    assert f.cache_info().compiles == 1


def test_products_at_places() -> None:
    f = dyn.jit(lambda x, at, new: x.at[at].multiply(new))
    for n in (1, 2, 7, 64):
        x, new = drawn(n, 2), drawn(2 * n, 2)
        at = np.arange(2 * n) * 5 % n
        wanted = x.copy()
        np.multiply.at(wanted, at, new)
        np.testing.assert_allclose(f(x, at, new), wanted, rtol=1e-4)
    assert f.cache_info().compiles == 1


def test_derivatives_of_products() -> None:
    """By a real number that all factors depend on: ``d|prod(1 + i t x)|**2 / dt``, by differences."""

    def size(t: Any) -> Any:
        turned = dnp.prod(1 + 1j * t * dnp.asarray([0.5, -1.5, 2.0], dtype=dyn.float64))
        return dnp.real(turned) ** 2 + dnp.imag(turned) ** 2

    slope = np.asarray(dyn.jit(dyn.grad(size))(np.float64(0.7)))
    step = 1e-6
    above, below = (np.asarray(dyn.jit(size)(np.float64(0.7 + s))) for s in (step, -step))
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-6)


def test_one_compile_for_all_sizes() -> None:
    f = dyn.jit(lambda x, y: dnp.sum(dnp.exp(x * y), axis=-1) / (x.shape[0] + 1j))
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 7, 64, 1000):
        x, y = ((rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))).astype(np.complex64) for _ in "xy")
        wanted = np.sum(np.exp((x * y).astype(np.complex128)), axis=-1) / (3 + 1j)
        np.testing.assert_allclose(f(x, y), wanted, rtol=1e-4, atol=1e-4)
    assert f.cache_info().compiles == 1


REFUSED: dict[str, tuple[type[DynError], Any, str, str]] = {
    "order": (
        UnsupportedOpError, lambda v: v < v,
        "compare: complex64 numbers have no order: LT does not take them",
        "compare their absolute values, or their real parts",
    ),
    "greatest": (
        UnsupportedOpError, lambda v: dnp.max(v, initial=0.0),
        "reduce: maximum does not take complex64, which has no order",
        "reduce the absolute values, or a part.",
    ),
    "least of a window": (
        UnsupportedOpError, lambda v: dyn.nn.min_pool(v[None, :, None], 2),
        "reduce_window: minimum does not take complex64, which has no order", "reduce the absolute values, or a part.",
    ),
    "softmax": (
        UnsupportedOpError, dyn.nn.softmax, "reduce: maximum does not take complex64, which has no order",
        "reduce the absolute values, or a part.",
    ),
    "hypot": (
        UnsupportedOpError, lambda v: dnp.hypot(v, v), "hypot does not take complex arrays.",
        "pass their real parts, imaginary parts or absolute values.",
    ),
    "floor": (
        UnsupportedOpError, dnp.floor, "floor does not take complex arrays.",
        "round their real and imaginary parts.",
    ),
    "isposinf": (
        UnsupportedOpError, dnp.isposinf, "isposinf does not take complex arrays.",
        "ask for their real and imaginary parts.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_named(name: str) -> None:
    kind, program, problem, remedy = REFUSED[name]
    with pytest.raises(kind) as caught:
        dyn.jit(program)(np.ones(3, np.complex64))
    assert (caught.value.problem, caught.value.remedy) == (problem, remedy)
    assert caught.value.loc is not None
    assert caught.value.loc.file.endswith("test_complex.py")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_libraries_take_complex_numbers(dtype: str) -> None:
    """Of parameters, of what kernels compute, and of one another; their results are read by kernels, or are results."""

    def program(xp: Any, x: Any) -> Any:
        once = xp.cumsum(x, axis=0)
        return once, xp.cumprod(x * 0.5 + 1, axis=1) - 1j, xp.cumsum(once, axis=1), xp.cumsum(xp.real(once), axis=1)

    compare(program, f"{dtype} n m", rtol=1e-4)


def test_updates_and_gathers() -> None:
    places = np.array([0, 2, 0])

    def program(xp: Any, x: Any) -> Any:
        return xp.pad(x, 1), x[places], scatter_update(x, slice(1, 3), 2j), scatter_update(x, places, 1 - 1j, "add")

    def oracle(xp: Any, x: Any) -> Any:
        replaced, added = x.copy(), x.copy()
        replaced[1:3] = 2j
        np.add.at(added, places, 1 - 1j)
        return np.pad(x, 1), x[places], replaced, added

    compare(program, "complex128 n", sizes=(3, 7), oracle=oracle)


CONTRACTIONS = {
    "ik,kj->ij": ((0, 1), (1, 2)),
    "ik,jk->ij": ((0, 1), (2, 1)),
    "bik,bkj->bij": ((3, 0, 1), (3, 1, 2)),
    "ik,k->i": ((0, 1), (1,)),
    "k,kj->j": ((1,), (1, 2)),
    "k,jk->j": ((1,), (2, 1)),
    "ki,kj->ij": ((1, 0), (1, 2)),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("names", CONTRACTIONS)
def test_contractions_at_all_sizes(names: str, dtype: str) -> None:
    f = dyn.jit(lambda x, y: dnp.einsum(names, x, y))
    rng, real = np.random.default_rng(1), {"complex64": np.float32, "complex128": np.float64}[dtype]
    for sizes in (
        (0, 3, 4, 1),
        (3, 0, 4, 1),
        (3, 4, 0, 2),
        (1, 1, 1, 1),
        (2, 5, 3, 2),
        (9, 33, 17, 3),
        (40, 65, 50, 2),
    ):
        x, y = (np.empty([sizes[a] for a in axes], dtype) for axes in CONTRACTIONS[names])
        for array in (x, y):
            array.real, array.imag = rng.standard_normal((2, *array.shape)).astype(real)
        tolerance = 1e-5 if dtype == "complex64" else 1e-13
        np.testing.assert_allclose(f(x, y), np.einsum(names, x, y), rtol=tolerance, atol=tolerance * (1 + sizes[1]))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("names", ["ik,kj->ij", "ik,jk->ij", "ik,k->i"])
def test_a_matrix_of_complex_numbers_is_read_where_it_lies(names: str) -> None:
    """One real contraction, and nothing as large as the matrix in memory beside it."""
    shapes = {"ik,kj->ij": ("m k", "k n"), "ik,jk->ij": ("m k", "n k"), "ik,k->i": ("n k", "k")}[names]
    f = dyn.jit(lambda x, y: dnp.einsum(names, x, y), shapes=", ".join(shapes))
    lowered = f.lower(*[dyn.ShapeDtypeStruct(tuple(shape.split()), "complex64") for shape in shapes])
    assert lowered.as_text("stitch").count("contract dot_general") == 1
    analysis = str(lowered.compile().memory_analysis())
    assert re.search(r"k\*n|n\*k", analysis) is None, analysis


def test_a_computed_matrix_of_complex_numbers() -> None:
    """Its parts are operands of four real contractions."""
    f = dyn.jit(lambda x, y: x @ (y * y))
    x, y = (np.random.default_rng(2).standard_normal((2, 5, 5)) * (1 + 2j)).astype("complex64")
    np.testing.assert_allclose(f(x, y), x @ (y * y), rtol=1e-5, atol=1e-4)
    assert str(f.explain()).count("contract dot_general") == 4


def test_derivatives_of_contractions() -> None:
    x, y = (np.random.default_rng(3).standard_normal((2, 4, 4)) * (1 + 2j)).astype("complex128")
    f = dyn.jit(lambda x, y: dnp.sum(x @ y.T @ x[0]))
    step, direction = 1e-6, (1 - 0.5j) * np.ones((4, 4))
    for argument in range(2):
        gradient = dyn.jit(dyn.grad(f, argnums=argument, holomorphic=True))(x, y)
        moved = [[v + s * step * direction if a == argument else v for a, v in enumerate((x, y))] for s in (1, -1)]
        slope = (complex(f(*moved[0])) - complex(f(*moved[1]))) / (2 * step)
        np.testing.assert_allclose(np.sum(np.asarray(gradient) * direction), slope, rtol=1e-6)
