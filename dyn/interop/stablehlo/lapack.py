"""Custom calls of linear algebra, as JAX emits them: LAPACK's on a CPU, cuSOLVER's on a GPU, XLA's on a TPU.

Where dyn has an op of the kind the call is read as that op: the matrices for which LAPACK would say that there is no
answer have NaN in them, and so the ``info`` beside them is how many there are. The other routines are ``custom_call``s
of ``routines``, which have no derivative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.interop.stablehlo import routines
from dyn.interop.stablehlo.hlo import DecodeRule, HloOp
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.linalg.matrices import Matrices, complex_of, real_of
from dyn.shapes import Dim, dim_max, dim_min

_Shape = tuple[Dim, ...]


# --- what rules ask ---------------------------------------------------------------------------------------------------


def config(op: HloOp) -> Mapping[str, Any]:
    """The options that the call has beside its operands."""
    for name in ("mhlo.backend_config", "backend_config"):
        found = op.attrs.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _letter(op: HloOp, name: str) -> str:
    """One of LAPACK's options, which are the codes of letters."""
    return chr(int(config(op)[name]))


def _operand(d: Any, op: HloOp) -> Value:
    return d.value(op.operands[0])


def _flag(op: HloOp, name: str, letter: str, code: str) -> bool:
    """An option that is a bool for one library, and a letter for LAPACK."""
    return bool(config(op)[name]) if name in config(op) else _letter(op, letter) == code


def _pass_over(op: HloOp, *names: str) -> None:
    """Look at options that change nothing: how it is computed, or whether results are filled in that are read."""
    for name in names:
        config(op).get(name)


def _none(d: Any, shape: _Shape, dtype: DType) -> Value:
    """Zeros, where a result has nothing to say."""
    zero = Matrices(d.b).fill(Value(TensorType(dtype, ())), 0)
    return d.b.op("broadcast_in_dim", zero, shape=shape, dims=())


def _failures(d: Any, x: Value, axes: int) -> Value:
    """Number of NaN in each matrix, or each vector, of a result."""
    m, rank = Matrices(d.b), len(x.shape)
    part = m.real(x)
    nan = d.b.op("convert", m.cmp(part, "NE", part), dtype=dtypes.int32)
    return d.b.op("reduce", nan, axes=tuple(range(rank - axes, rank)), combine="add", nonempty=False)


def _routine(
    d: Any, name: str, operands: Sequence[Value], results: Sequence[tuple[DType, _Shape]], **given: Any
) -> Any:
    """A call of one of ``routines``."""
    assert name in routines.ROUTINES
    return d.b.op_all(
        "custom_call", *operands, target=f"lapack.{name}", dtypes=tuple([t for t, _ in results]),
        shapes=tuple([s for _, s in results]), attributes=tuple(sorted(given.items())),
    )  # fmt: skip


# --- factors ----------------------------------------------------------------------------------------------------------


def _potrf(d: Any, op: HloOp) -> Sequence[Value]:
    factor = d.b.op("cholesky", _operand(d, op), lower=_flag(op, "lower", "uplo", "L"))
    return [factor, _failures(d, factor, 2)]


def _getrf(d: Any, op: HloOp) -> Sequence[Value]:
    """Rows are counted from 1 there; and a singular matrix has factors."""
    a = _operand(d, op)
    factors, pivots, _ = d.b.op_all("lu", a)
    return [factors, Matrices(d.b).add(pivots, 1), _none(d, a.shape[:-2], dtypes.int32)]


def _permutation(d: Any, op: HloOp) -> Sequence[Value]:
    """The order of rows that exchanges make, one after the other."""
    pivots, size = _operand(d, op), op.results[0].shape[-1]
    if not isinstance(size, int):
        raise d.fail("makes orders of a length that is not known", "sizes have to follow from the arguments' shapes.")
    return _routine(d, "permutation", [pivots], [(pivots.dtype, (*pivots.shape[:-1], size))], size=size)


def _lu(d: Any, op: HloOp) -> Sequence[Value]:
    return d.b.op_all("lu", _operand(d, op))


def _geqrf(d: Any, op: HloOp) -> Sequence[Value]:
    a = _operand(d, op)
    taus = (a.dtype, (*a.shape[:-2], dim_min(*a.shape[-2:])))
    return _routine(d, "geqrf", [a], [(a.dtype, a.shape), taus])


def _geqp3(d: Any, op: HloOp) -> Sequence[Value]:
    a, pivots = (d.value(v) for v in op.operands[:2])
    taus = (a.dtype, (*a.shape[:-2], dim_min(*a.shape[-2:])))
    return _routine(d, "geqp3", [a, pivots], [(a.dtype, a.shape), (pivots.dtype, pivots.shape), taus])


def _orgqr(d: Any, op: HloOp) -> Sequence[Value]:
    a, taus = (d.value(v) for v in op.operands[:2])
    return _routine(d, "orgqr", [a, taus], [(a.dtype, a.shape)])


def _ormqr(d: Any, op: HloOp) -> Sequence[Value]:
    a, taus, c = (d.value(v) for v in op.operands[:3])
    given = {name: bool(config(op)[name]) for name in ("left", "transpose")}
    return _routine(d, "ormqr", [a, taus, c], [(c.dtype, c.shape)], **given)


def _trsm(d: Any, op: HloOp) -> Sequence[Value]:
    a, b = (d.value(v) for v in op.operands[:2])
    how = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[_letter(op, "trans_x")]
    made = d.b.op(
        "triangular_solve", a, b, left_side=_letter(op, "side") == "L", lower=_letter(op, "uplo") == "L",
        unit_diagonal=_letter(op, "diag") == "U", transpose_a=how,
    )  # fmt: skip
    return [made]


def _gtsv(d: Any, op: HloOp) -> Sequence[Value]:
    """With the diagonals that LAPACK leaves behind, of which nobody can make use."""
    *diagonals, b = [d.value(v) for v in op.operands[:4]]
    x, info = _routine(d, "gtsv", [*diagonals, b], [(b.dtype, b.shape), (dtypes.int32, b.shape[:-2])])
    return [*diagonals, x, info]


def _gtsv2(d: Any, op: HloOp) -> Sequence[Value]:
    return [_gtsv(d, op)[3]]


# --- values and vectors -----------------------------------------------------------------------------------------------


def _gesdd(d: Any, op: HloOp) -> Sequence[Value]:
    """Vectors that nobody reads are not computed; LAPACK leaves them as they were where it is not asked for them."""
    a, mode = _operand(d, op), _letter(op, "mode")
    u, s, vh = d.b.op_all("svd", a, full_matrices=mode == "A", vectors=True)
    if mode == "N":
        u, vh = (_none(d, tuple([n or 0 for n in v.shape]), a.dtype) for v in op.results[2:4])
    return [a, s, u, vh, _failures(d, s, 1)]


def _syevd(d: Any, op: HloOp) -> Sequence[Value]:
    lower = _flag(op, "lower", "uplo", "L")
    _pass_over(op, "mode", "algorithm")
    values, vectors = d.b.op_all("eigh", _operand(d, op), lower=lower, vectors=True)
    return [vectors, values, _failures(d, values, 1)]


def _eigh(d: Any, op: HloOp) -> Sequence[Value]:
    """XLA's: ``"lower,sorted,sweeps,tolerance"`` in a text. What need not be sorted may be."""
    lower = str(op.attrs.get("backend_config", "1")).split(",", 1)[0] == "1"
    values, vectors = d.b.op_all("eigh", _operand(d, op), lower=lower, vectors=True)
    return [vectors, values]


def _geev(d: Any, op: HloOp) -> Sequence[Value]:
    """With left eigenvectors it is LAPACK's own; a real matrix's eigenvalues are two results."""
    a, m = _operand(d, op), Matrices(d.b)
    wide = complex_of(a.dtype)
    if _letter(op, "compute_left") == "V":
        types = [(wide, a.shape[:-1]), (wide, a.shape), (wide, a.shape), (dtypes.int32, a.shape[:-2])]
        w, left, right, info = _routine(d, "geev", [a], types)
    else:
        w, right = d.b.op_all("eig", a, vectors=True)
        left, info = _none(d, a.shape, wide), _failures(d, w, 1)
    _pass_over(op, "compute_right")
    values = [w] if a.dtype is wide else [m.f("real", w), m.f("imag", w)]
    return [*values, left, right, info]


def _gees(d: Any, op: HloOp) -> Sequence[Value]:
    a = _operand(d, op)
    lead = a.shape[:-2]
    _pass_over(op, "mode")
    if _letter(op, "sort") != "N":
        d.fail("brings eigenvalues into an order", "leave them as they come.")
    values = [(a.dtype, a.shape[:-1])] * (1 if a.dtype is complex_of(a.dtype) else 2)
    *made, info = _routine(d, "gees", [a], [(a.dtype, a.shape), (a.dtype, a.shape), *values, (dtypes.int32, lead)])
    return [*made, _none(d, lead, dtypes.int32), info]


def _gehrd(d: Any, op: HloOp) -> Sequence[Value]:
    a = _operand(d, op)
    taus = (*a.shape[:-2], dim_max(a.shape[-1] - 1, 0))
    if (config(op)["low"], config(op)["high"]) != (1, op.operands[0].shape[-1]):
        d.fail("reduces a part of the matrix", "reduce all of it.")
    return _routine(d, "gehrd", [a], [(a.dtype, a.shape), (a.dtype, taus), (dtypes.int32, a.shape[:-2])])


def _sytrd(d: Any, op: HloOp) -> Sequence[Value]:
    a, lower = _operand(d, op), _flag(op, "lower", "uplo", "L")
    part, less = real_of(a.dtype), (*a.shape[:-2], dim_max(a.shape[-1] - 1, 0))
    types = [(a.dtype, a.shape), (part, a.shape[:-1]), (part, less), (a.dtype, less), (dtypes.int32, a.shape[:-2])]
    return _routine(d, "sytrd", [a], types, lower=lower)


# --- the table --------------------------------------------------------------------------------------------------------

#: LAPACK's names without the letter of the dtype; ``{or}`` and ``{sy}`` are others where numbers are complex.
_ROUTINES: Mapping[str, DecodeRule] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "geqp3": _geqp3, "{or}gqr": _orgqr, "{or}mqr": _ormqr,
    "trsm": _trsm, "gtsv": _gtsv, "gesdd": _gesdd, "gesvd": _gesdd, "{sy}evd": _syevd, "geev": _geev, "gees": _gees,
    "gehrd": _gehrd, "{sy}trd": _sytrd,
}  # fmt: skip


def _lapack() -> dict[str, DecodeRule]:
    made: dict[str, DecodeRule] = {}
    for name, rule in _ROUTINES.items():
        for letter in "sdcz":
            words = {"or": "un", "sy": "he"} if letter in "cz" else {"or": "or", "sy": "sy"}
            made[f"lapack_{letter}{name.format(**words)}_ffi"] = rule
    return made


#: Those of the GPU's solvers that take what LAPACK's take.
_SOLVER: Mapping[str, DecodeRule] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "orgqr": _orgqr, "ormqr": _ormqr, "syevd": _syevd,
    "sytrd": _sytrd,
}  # fmt: skip

#: By the names of custom calls.
LAPACK: Mapping[str, DecodeRule] = {
    **_lapack(),
    **{f"{maker}solver_{name}_ffi": rule for maker in ("cu", "hip") for name, rule in _SOLVER.items()},
    "cusparse_gtsv2_ffi": _gtsv2,
    "hipsparse_gtsv2_ffi": _gtsv2,
    "cu_lu_pivots_to_permutation": _permutation,
    "hip_lu_pivots_to_permutation": _permutation,
    "LuDecomposition": _lu,
    "Qr": _geqrf,
    "ProductOfElementaryHouseholderReflectors": _orgqr,
    "Eigh": _eigh,
}
