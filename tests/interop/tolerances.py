"""When two results are the same: JAX's own tolerances, and what they are for primitives that need others.

JAX compares what it runs with itself at ``jax._src.public_test_util.tolerance``: a few units in the last place. That
is the rule here too, relative and absolute. ``BY_PRIMITIVE`` has what differs between two compilers by right, each with
its reason; JAX has such a table too, where it compares itself with TensorFlow (``jax2tf_limitations.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tolerance:
    """The relative and absolute differences allowed, by NumPy's name of the dtype, and why."""

    why: str
    by_dtype: dict[str, float]


_16_BITS = "XLA rounds each partial result to 16 bits; here they have 32, and one rounding at the end"
_SUMS = "sums of products in another order; either is as far from what 64 bits give"
BY_PRIMITIVE: dict[str, Tolerance] = {
    "atanh": Tolerance("XLA's is 3.2e-15 off, and this one 5.8e-17", {"float64": 5e-15}),
    "conv_general_dilated": Tolerance(
        _SUMS + " (1e-4 in JAX's own comparison)",
        {"float32": 2e-5, "float64": 5e-14, "complex64": 2e-5, "complex128": 5e-14},
    ),
    "cumprod": Tolerance(_16_BITS, {"bfloat16": 2e-2}),
    "cumsum": Tolerance(_16_BITS, {"bfloat16": 3e-2, "float16": 3e-3}),
    "dot_general": Tolerance(_SUMS, {"float32": 5e-6}),
    "fft": Tolerance(
        "an error is relative to the greatest of thousands of terms, and a third of XLA's here",
        {"float32": 2e-5, "complex64": 2e-5},
    ),
    "log": Tolerance(
        "XLA's is 1.8e-15 off where a number's size is near 1, and this one 1.6e-16", {"complex128": 4e-15}
    ),
    "log1p": Tolerance("XLA's is 6.1e-15 off, and this one 7e-17", {"float64": 1e-14}),
    "pow": Tolerance(
        "the error of a logarithm is multiplied by the exponent; either is 1.5e-6 off",
        {"complex64": 5e-6, "complex128": 2e-14},
    ),
    "reduce": Tolerance(_16_BITS, {"float16": 3e-3}),
    "tan": Tolerance("XLA's is 1.1e-6 off, and this one 1.2e-7", {"complex64": 2e-6}),
    "triangular_solve": Tolerance(_SUMS, {"float32": 5e-6}),
}


def tolerance(group: str, dtype: np.dtype[Any]) -> float:
    """The difference that is allowed for a primitive's results of a dtype."""
    from jax._src.public_test_util import default_tolerance

    own = BY_PRIMITIVE.get(group)
    usual = float(default_tolerance()[dtype])
    return max(usual, own.by_dtype.get(dtype.name, 0.0)) if own is not None else usual


def compared(harness: Any, args: Sequence[Any], actual: Sequence[Any], wanted: Sequence[Any]) -> tuple[str, str]:
    """Tell whether an example's results are JAX's: an outcome and its reason."""
    group = harness.group_name
    if len(actual) != len(wanted):
        return "failed", f"{len(actual)} results, not {len(wanted)}"
    for x, y in zip(actual, wanted, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return "failed", f"{x.dtype}{x.shape} is not {y.dtype}{y.shape}"
    determined = DETERMINED.get(group)
    if determined is not None:
        actual, wanted = determined(harness, args, actual), determined(harness, args, wanted)
    for number, (own, other) in enumerate(zip(actual, wanted, strict=True)):
        allowed = tolerance(group, other.dtype)
        if allowed == 0:
            if not np.array_equal(own, other):
                return "failed", f"result {number}: {np.count_nonzero(own != other)} of {own.size} integers differ"
            continue
        reason = differing(own, other, allowed)
        if reason:
            return "failed", f"result {number}: {reason}"
    return "passed", ""


def differing(own: Array, other: Array, allowed: float) -> str:
    """How floating numbers differ by more than ``allowed``, ``""`` if they do not. Parts of complex ones each."""
    if own.dtype.kind == "c":
        a, b = [np.stack([z.real, z.imag]).astype(np.float64) for z in (own, other)]
    else:
        a, b = own.astype(np.float64), other.astype(np.float64)
    if own.dtype.kind == "c":  # as JAX has it: a number is close where the whole of it is
        size = np.broadcast_to(np.abs(other.astype(np.complex128)), b.shape)
    else:
        size = np.abs(b)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.all(same[odd]):
        at = tuple(np.argwhere(odd & ~same)[0])
        return f"{a[at]:.6g} is not {b[at]:.6g}"
    with np.errstate(all="ignore"):
        gap = np.where(odd, 0.0, np.abs(a - b))
        bad = gap > allowed + allowed * np.where(np.isfinite(size), size, 0.0)
        worst = np.where(bad, gap / (1.0 + np.where(np.isfinite(size), size, 0.0)), 0.0)
    if not bad.any():
        return ""
    at = np.unravel_index(int(np.argmax(worst)), worst.shape)
    return f"{np.count_nonzero(bad)} of {own.size} differ, most {a[at]:.9g} from {b[at]:.9g} ({worst[at]:.1e})"


# --- what is determined -----------------------------------------------------------------------------------------------


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _sorted(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Of a sort that need not be stable the keys, and which elements come together."""
    if harness.params["is_stable"] or len(results) == 1:
        return list(results)
    order = np.lexsort(results[::-1])
    return [*results[: harness.params["num_keys"]], *(x[order] for x in results)]


def _eigh(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Vectors up to a phase: what they are the factors of, and that they are orthonormal."""
    v, w = results
    return [w, (v * w[..., None, :]) @ _adjoint(v), _adjoint(v) @ v]


def _eig(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Each vector up to a phase: how far it is from being one, and its length."""
    a, (w, *vectors) = np.asarray(args[0]), results
    made = [w]
    left = harness.params["compute_left_eigenvectors"]
    for number, v in enumerate(vectors):
        if left and number == 0:
            rest = _adjoint(v) @ a - w[..., :, None] * _adjoint(v)
        else:
            rest = a @ v - v * w[..., None, :]
        made += [rest / (1 + np.linalg.norm(a, axis=(-2, -1), keepdims=True)), np.linalg.norm(v, axis=-2)]
    return made


def _svd(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Pairs of vectors up to a phase: what they are the factors of, and that they are orthonormal."""
    if len(results) == 1:
        return list(results)
    s, u, vh = results
    k = s.shape[-1]
    return [s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], _adjoint(u) @ u, vh @ _adjoint(vh)]


def _cholesky(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """One triangle, for JAX says that there may be anything in the other, which its public function fills with zeros.

    Factors differ by a matrix's condition, which is great in these examples, and their products do not.
    """
    (factor,) = results
    lower = np.tril(factor)
    size = np.linalg.norm(lower, axis=(-2, -1), keepdims=True) ** 2
    return [lower @ _adjoint(lower) / (1 + size), np.sign(np.real(np.diagonal(lower, axis1=-2, axis2=-1)))]


def _approx_top_k(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Of equal elements any: what stands at the places."""
    values, places = results
    return [values, np.take_along_axis(np.asarray(args[0]), places, axis=-1)]


def _solution(harness: Any, args: Sequence[Any], results: Sequence[Array]) -> list[Array]:
    """Of a singular matrix, which examples have at greater sizes, none: a last bit decides between infinity and NaN."""
    matrix = np.asarray(args[0], np.float64)
    return [] if np.linalg.cond(matrix) > 1e15 else list(results)


#: What an example's arguments determine of its results, where that is not all: ``(harness, args, results)``.
DETERMINED: dict[str, Callable[[Any, Sequence[Any], Sequence[Array]], list[Array]]] = {
    "approx_top_k": _approx_top_k, "cholesky": _cholesky, "custom_linear_solve": _solution, "sort": _sorted,
    "eigh": _eigh, "eig": _eig, "svd": _svd,
}  # fmt: skip
