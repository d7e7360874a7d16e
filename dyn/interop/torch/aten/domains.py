"""Elements that operations have no result for, checked as PyTorch checks them: at each call, before any write.

Elsewhere in dyn an integer divided by 0 is 0, the inverse of a singular matrix NaN, and nothing is raised. A program of
PyTorch's finds out whether there is such an element, by one more pass over what could have one, and demands that there
is none.
"""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.errors import TorchLinAlgError
from dyn.interop.torch.sizes import require_true, size_from_value
from dyn.shapes import Reason, Relation, RelKind
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: What PyTorch says of a matrix for which LAPACK's ``info`` is not 0, by the operation's last name. ``{}`` is the info.
_SINGULAR = {
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading "
    "minor of order {} is not positive-definite)",
    "solve": "The solver failed because the input matrix is singular",
    "lu_factor": "The diagonal element {} of U is zero, and using it on lu_solve would result in a division by zero",
}
_SINGULAR["cholesky_inverse"] = _SINGULAR["inverse"] = _SINGULAR["inv"]


def require_all(elements: Tracer, holds: Any, text: str) -> None:
    """Demand something of all elements of a tensor."""
    require_true(elements._trace.here, dnp.all(holds), text, "pass other elements.")


def require_divisor(made: Tracer, divisor: Tracer, operation: str) -> Tracer:
    """``made``, the result of a division, with the demand that no integer was divided by 0."""
    trace = made._trace.here
    known = trace.builder.uniform(divisor._value)
    if divisor.dtype.kind in "iu" and (known is None or known == 0):
        is_some = dnp.asarray(made.size) > 0
        holds = dnp.logical_not(dnp.any(divisor == 0) & is_some)
        require_true(
            trace,
            holds,
            f"ZeroDivisionError: {operation}() divides an integer by 0",
            "divide floats, or by other numbers.",
        )
    return made


def require_power(exponent: Tracer, base: Tracer) -> None:
    """Demand that an exponent of integers, one number for all of them, is not negative."""
    trace = exponent._trace.here
    known = trace.builder.uniform(exponent._value)
    if base.dtype.kind in "iu" and (known is None or known < 0):
        text = "Integers to negative integer powers are not allowed"
        require_true(trace, dnp.all(dnp.greater_equal(exponent, 0)), text, "take powers of floats.")


def require_factors(info: Tracer, name: str, *, is_matrix: bool) -> None:
    """Demand that ``info`` is 0 for each matrix of a stack, or for the one. ``name`` is the operation's for PyTorch."""
    trace = info._trace.here
    each = dnp.reshape(info, (-1,)).astype("int64")
    number, none = dnp.arange(each.shape[0]), dnp.asarray(each.size)
    first = dnp.min(dnp.where(each != 0, number, none), initial=none)
    worst = dnp.sum(dnp.where(number == first, each, dnp.zeros_like(each)))
    batch = size_from_value(trace, first, "the first matrix that has no result")
    place = size_from_value(trace, worst, "what LAPACK says of it")
    what = _SINGULAR[name.rpartition(".")[2]]
    dims = (place,) if "{}" in what else ()
    form = f"{name}: {what}" if is_matrix else f"{name}: (Batch element {{}}): {what}"
    reason = Reason.about(
        form, dims if is_matrix else (batch, *dims), user_loc(), TorchLinAlgError,
        "pass other matrices, or look at the info that torch.linalg's functions of the name with _ex return.",
    )  # fmt: skip
    trace.require(Relation(RelKind.EQ, place, 0, reason))


def require_probabilities(rows: Tracer) -> None:
    """Demand that each row of a matrix has weights to draw by."""
    trace = rows._trace.here
    remedy = "pass weights that are finite and not negative, some of them positive."
    text = "probability tensor contains either `inf`, `nan` or element < 0"
    require_true(trace, dnp.all(dnp.greater_equal(rows, 0) & dnp.isfinite(rows)), text, remedy)
    sums = dnp.sum(rows, axis=-1)
    require_true(trace, dnp.all(sums > 0), "invalid multinomial distribution (sum of probabilities <= 0)", remedy)
