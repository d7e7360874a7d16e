"""``dyn.numpy.special`` beside SciPy: dyn's own functions, and those that SciPy computes by a call back."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import dyn
import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError

#: Every ufunc of SciPy's that takes floats, by how many.
UFUNCS = {
    name: function
    for name in dir(scipy.special)
    if isinstance(function := getattr(scipy.special, name), np.ufunc)
    and not name.startswith("_")
    and any(kind.partition("->")[0] == "d" * function.nin for kind in function.types)
}
OWN = dnp.special.__all__


def values(name: str, count: int) -> list[Any]:
    rng = np.random.default_rng(count)
    return [rng.uniform(0.05, 0.95, (count, 2)[: 1 + number % 2][::-1]) for number in range(UFUNCS[name].nin)]


def test_there_are_many() -> None:
    assert len(UFUNCS) > 150


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_as_scipy_at_all_sizes_by_one_program(name: str) -> None:
    """Called by dyn's name, and by SciPy's own function of a traced array; operands broadcast."""
    theirs = UFUNCS[name]
    ours = dyn.jit(lambda *xs: (getattr(dnp.special, name)(*xs), theirs(*xs)))
    tolerance = 1e-12 if name in OWN else 0
    for count in (0, 1, 2, 5):
        args = values(name, count)
        with warnings.catch_warnings():  # of floats that some of them make integers
            warnings.simplefilter("ignore")
            wanted, results = theirs(*args), ours(*args)
        for found in results:
            for own, one in zip(*[x if theirs.nout > 1 else (x,) for x in (found, wanted)], strict=True):
                assert (own.shape, own.dtype) == (one.shape, one.dtype)
                np.testing.assert_allclose(own, one, rtol=tolerance)
    assert ours.cache_info().compiles <= 2  # operands of one element each may need one of their own


@pytest.mark.parametrize("name", OWN)
def test_dyns_own_have_derivatives_and_no_call_back(name: str) -> None:
    function = getattr(dnp.special, name)
    x = np.array([0.2, 0.5, 0.9])
    slope = dyn.vmap(dyn.grad(function))(x)
    step = 1e-6
    theirs = getattr(scipy.special, name)
    np.testing.assert_allclose(slope, (theirs(x + step) - theirs(x - step)) / (2 * step), rtol=1e-6)
    assert "callback" not in dyn.jit(function).lower(x).as_text()
    assert function(np.array([1, 2])).dtype == np.float32
    with pytest.raises(
        UnsupportedOpError, match=f"{'psi' if name == 'digamma' else name} does not take complex arrays"
    ):
        function(np.array([1j]))


def test_kinds_dtypes_and_numbers() -> None:
    x = np.array([0.5, 1.5], "f4")
    assert dnp.special.jv(1, x).dtype == np.float32  # Python's numbers are weak
    assert dnp.special.jv(np.float64(1), x).dtype == np.float64
    assert isinstance(dnp.special.jv(1.0, dnp.asarray(x)), dyn.Array)
    assert dyn.jit(lambda x: dnp.special.jv(x.shape[0] * 1.0, x))(x).dtype == np.float32
    real, imag = dnp.special.sici(x)
    np.testing.assert_array_equal(np.stack([real, imag]), np.stack(scipy.special.sici(x)))
    np.testing.assert_array_equal(dnp.special.wofz(x + 1j), scipy.special.wofz(x + 1j))
    np.testing.assert_array_equal(dyn.vmap(lambda x: dnp.special.jv(2.0, x))(x), scipy.special.jv(2.0, x))
    rows = np.ones((3, 1)) * [[1.0], [2.0], [3.0]]
    np.testing.assert_array_equal(
        dyn.vmap(lambda v: dnp.special.jv(v, x))(rows), scipy.special.jv(rows, x).reshape(3, 2)
    )


def test_errors() -> None:
    with pytest.raises(AttributeError, match=r"module 'dyn.numpy.special' has no attribute 'nosuch'"):
        dnp.special.nosuch  # noqa: B018
    with pytest.raises(UnsupportedOpError, match=r"special\.jv takes 2 arrays, not 1"):
        dnp.special.jv(np.ones(2))
    with pytest.raises(UnsupportedOpError, match=r"special\.ndtri does not take complex128"):
        dnp.special.ndtri(np.ones(2) * 1j)
    with pytest.raises(UnsupportedOpError, match="pure_callback of jv has no derivative"):
        dyn.grad(lambda x: dnp.special.jv(1.0, x))(1.0)


@pytest.mark.parametrize("switch", ["0", "1"])
def test_with_scipys_array_api_and_without(switch: str) -> None:
    code = (
        "import dyn, numpy as np, scipy.special as s\n"
        "f = dyn.jit(lambda x: s.expit(x) + s.jv(1.0, x) + s.gammainc(2.0, x) + s.xlogy(x, x) + s.stdtr(3.0, x))\n"
        "for n in (2, 5, 9):\n"
        "    x = np.linspace(0.1, 2, n)\n"
        "    wanted = s.expit(x) + s.jv(1.0, x) + s.gammainc(2.0, x) + s.xlogy(x, x) + s.stdtr(3.0, x)\n"
        "    np.testing.assert_allclose(f(x), wanted, rtol=1e-12)\n"
        "print(f.cache_info().compiles, dyn.numpy.special.jv(1.0, x).sum() > 0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"SCIPY_ARRAY_API": switch}
    )
    assert ran.stdout.split() == ["1", "True"]
