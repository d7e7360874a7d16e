"""NumPy's functions, called with ``dyn.Array`` and with arrays that are being traced, in NumPy's order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import UnsupportedOpError

Array = Any
X = np.array([[3.0, 1.0, 2.0], [0.5, -4.0, 7.0]])

#: Of the array; NumPy calls its method of the name, with NumPy's options.
BY_METHODS: dict[str, Callable[[Array], Any]] = {
    "sum": np.sum,
    "sum axis": lambda x: np.sum(x, 0, None, None, True),
    "prod": lambda x: np.prod(x, axis=1),
    "sum where": lambda x: np.sum(x, where=np.array([True, False, True]), initial=2.0),
    "mean": lambda x: np.mean(x, axis=0, keepdims=True),
    "mean dtype": lambda x: np.mean(x, dtype=np.float32),
    "std": lambda x: np.std(x, axis=1, ddof=1),
    "var": np.var,
    "max": lambda x: np.max(x, axis=0),
    "amax": lambda x: np.amax(x, 1),
    "min": lambda x: np.min(x, initial=-9),
    "all": lambda x: np.all(x > 0, axis=0),
    "any": lambda x: np.any(x > 0),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": np.argmin,
    "argsort": np.argsort,
    "argsort kind": lambda x: np.argsort(x, axis=0, kind="stable"),
    "argpartition": lambda x: np.take_along_axis(x, np.argpartition(x, 1), -1)[:, 1],
    "clip": lambda x: np.clip(x, 0, 2),
    "clip one": lambda x: np.clip(x, None, 2),
    "cumsum": np.cumsum,
    "cumprod": lambda x: np.cumprod(x, 1),
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "take mode": lambda x: np.take(x, [0, 9], mode="clip"),
    "round": lambda x: np.round(x / 3, 1),
    "around": np.around,
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "reshape": lambda x: np.reshape(x, (3, 2)),
    "reshape -1": lambda x: np.reshape(x, -1),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "transpose": np.transpose,
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "nonzero": lambda x: np.nonzero(x > 1)[1],
    "searchsorted": lambda x: np.searchsorted(np.cumsum(x * x), 4.0, "right"),
}
#: Of the array; NumPy computes these itself of a dyn.Array, and dyn in a trace.
OTHERS: dict[str, Callable[[Array], Any]] = {
    "sort": lambda x: np.sort(x, 0),
    "partition": lambda x: np.partition(x, 1, -1)[:, 1],
    "trace": lambda x: np.trace(x, 1),
    "diagonal": lambda x: np.diagonal(x, 0),
    "ptp": lambda x: np.ptp(x, 0),
    "ravel": lambda x: np.ravel(x, "C"),
    "copy": lambda x: np.copy(x, order="C"),
    "size": lambda x: np.array(np.size(x)),
    "shape": lambda x: np.array(np.shape(x)),
    "imag": np.imag,
    "real": np.real,
    "dot": lambda x: np.dot(x, x.T),
    "median": lambda x: np.median(x, 0),
    "average": lambda x: np.average(x, 0, np.array([1.0, 3.0])),
    "count": lambda x: np.count_nonzero(x > 1, axis=0),
    "rank": lambda x: np.linalg.matrix_rank(x, 7.0),
    "norm": lambda x: np.linalg.norm(x, 1, 0),
    "compress": lambda x: np.compress(np.array([True, False, True]), x, 1),
    "histogram": lambda x: np.histogram(x, 3, (-4, 8), True)[0],
    "quantile": lambda x: np.quantile(x, 0.25, 0),
    "histogram weights": lambda x: np.histogram(x, 3, (-4, 8), None, np.abs(x))[0],
    "diff": lambda x: np.diff(x, 1, 0),
    "pinv": lambda x: np.linalg.pinv(x, 1e-9),
    "nan_to_num": lambda x: np.nan_to_num(x, True, 0.0),
    "roll": lambda x: np.roll(x, 1, 0),
    "einsum": lambda x: np.einsum("ij->j", x, optimize=True),
    "stack": lambda x: np.stack([x, x], 1),
    "concatenate": lambda x: np.concatenate([x, x], 1),
    "where": lambda x: np.where(x > 0, x, 0),
    "flip": lambda x: np.flip(x, 0),
    "unique": np.unique,
    "expand": lambda x: np.expand_dims(x, 0),
    "tile": lambda x: np.tile(x, (2, 1)),
    "pad": lambda x: np.pad(x, 1, "constant", constant_values=2),
    "isin": lambda x: np.isin(x, [1.0, 7.0], kind="sort"),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1], indexing="ij")[0],
    "interp": lambda x: np.interp(x, [0.0, 1.0], [5.0, 6.0]),
    "fft": lambda x: np.abs(np.fft.fft(x, 4, 0)),
    "outer": lambda x: np.outer(x, x[0]),
    "cov": lambda x: np.cov(x, None, False),
}


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*BY_METHODS, *OTHERS])
def test_of_an_eager_array(name: str) -> None:
    """Those that NumPy leaves to methods give a ``dyn.Array``."""
    call = (BY_METHODS | OTHERS)[name]
    found = call(dyn.asarray(X))
    close(found, call(X))
    assert name not in BY_METHODS or isinstance(found, dyn.Array)


#: The sizes of their results are known when they run, and not before.
SIZES = {"size", "shape", "nonzero", "unique"}


def test_in_a_trace() -> None:
    """All in one program, in the dtypes and with the values of NumPy."""
    calls = {name: call for name, call in (BY_METHODS | OTHERS).items() if name not in SIZES}
    step = dyn.jit(lambda x: {name: call(x) for name, call in calls.items()}, shapes="2 3")
    found = step(X)
    for name, call in calls.items():
        close(found[name], call(X))
        assert np.asarray(found[name]).dtype == np.asarray(call(X)).dtype, name
    step(X[::-1] * 2)
    assert step.cache_info().compiles == 1


def test_options_that_dyn_has_not() -> None:
    def refused(call: Callable[[Array], Any], text: str) -> None:
        with pytest.raises(UnsupportedOpError) as caught:
            dyn.jit(call)(X)
        assert "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at ")) == text

    refused(
        lambda x: np.quantile(x, 0.5, weights=np.abs(x), method="inverted_cdf"),
        "np.quantile does not take weights=Tracer<f64[x_0, x_1]> for arrays that are being traced.\n"
        "  help: leave it out: dyn.numpy.quantile has no such option.",
    )
