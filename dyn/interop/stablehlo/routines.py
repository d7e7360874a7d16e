"""LAPACK's routines that dyn has no op for, as custom calls of NumPy arrays, so that programs with them run.

They are defined as ``lapack.<routine>`` when this module is imported, for all four dtypes under one name. Operands
are stacks of matrices; each matrix is computed alone, by SciPy. What has an op (``lu``, ``eigh``, …) is read as that op
instead, with its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.ops.custom_call import define
from dyn.requirements import scipy_module

Array = np.ndarray[Any, Any]
_INFO = np.dtype(np.int32)


def _routine(name: str, like: Array) -> Callable[..., Any]:
    found: Any = scipy_module("linalg", f"lapack.{name}").get_lapack_funcs(name, dtype=like.dtype)
    return found


def _unitary(name: str, like: Array) -> Callable[..., Any]:
    """``orgqr`` and its kin, which are called ``ungqr`` where numbers are complex."""
    return _routine(("un" if like.dtype.kind == "c" else "or") + name, like)


def _stacked(
    one: Callable[..., tuple[Any, ...]], arrays: tuple[Array, ...], ranks: tuple[int, ...], made: list[Array]
) -> Any:
    """Fill ``made`` with what ``one`` gives for each matrix; ``ranks`` are the operands' own, without the stack's."""
    lead = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    with np.errstate(all="ignore"):
        for place in np.ndindex(lead):
            for whole, part in zip(made, one(*(x[place] for x in arrays)), strict=True):
                whole[place] = part
    return tuple(made) if len(made) > 1 else made[0]


def _infos(lead: tuple[int, ...]) -> Array:
    return np.zeros(lead, _INFO)


def geqrf(a: Array) -> Any:
    """R, below it the reflectors that Q is made of, and their factors."""
    *lead, m, n = a.shape
    made = [np.array(a), np.zeros((*lead, min(m, n)), a.dtype)]
    if 0 in (m, n):
        return tuple(made)
    run = _routine("geqrf", a)

    def one(x: Array) -> tuple[Any, ...]:
        factors, taus, _, _ = run(x)
        return factors, taus

    return _stacked(one, (a,), (2,), made)


def geqp3(a: Array, pivots: Array) -> Any:
    """``geqrf`` of a matrix with its columns in an order of falling norms, which is another result, from 1 on."""
    *lead, m, n = a.shape
    if pivots.any():
        raise NotImplementedError("lapack.geqp3: columns that are to stay in front are not supported")
    order = np.broadcast_to(np.arange(1, n + 1, dtype=pivots.dtype), (*lead, n)).copy()
    made = [np.array(a), order, np.zeros((*lead, min(m, n)), a.dtype)]
    if 0 in (m, n):
        return tuple(made)
    run = _routine("geqp3", a)

    def one(x: Array) -> tuple[Any, ...]:
        factors, found, taus, _, _ = run(x)
        return factors, found, taus

    return _stacked(one, (a,), (2,), made)


def orgqr(a: Array, taus: Array) -> Any:
    """The first columns of Q, as many as ``a`` has, from reflectors."""
    if a.size == 0:
        return np.array(a)
    if taus.shape[-1] == 0:  # no reflector: the identity
        return np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape).copy()
    run = _unitary("gqr", a)

    def one(x: Array, t: Array) -> tuple[Any, ...]:
        q, _, _ = run(x, t)
        return (q,)

    return _stacked(one, (a, taus), (2, 1), [np.array(a)])


def ormqr(a: Array, taus: Array, c: Array, left: bool, transpose: bool) -> Any:
    """Q or its adjoint times ``c`` (``left``), or ``c`` times it, Q from reflectors."""
    if c.size == 0 or taus.shape[-1] == 0:
        return np.array(c)
    run = _unitary("mqr", a)
    how = "N" if not transpose else "C" if a.dtype.kind == "c" else "T"

    def one(x: Array, t: Array, y: Array) -> tuple[Any, ...]:
        side = "L" if left else "R"
        _, work, _ = run(side, how, x, t, y, -1)
        made, _, _ = run(side, how, x, t, y, int(np.real(work[0])))
        return (made,)

    return _stacked(one, (a, taus, c), (2, 1, 2), [np.array(c)])


def geev(a: Array) -> Any:
    """Eigenvalues, and the left and the right eigenvectors; and whether there was no answer."""
    *lead, n, _ = a.shape
    wide = np.result_type(a.dtype, np.complex64)
    made = [np.zeros((*lead, n), wide), np.zeros(a.shape, wide), np.zeros(a.shape, wide), _infos(tuple(lead))]
    if n == 0:
        return tuple(made)
    run, real = _routine("geev", a), a.dtype.kind != "c"

    def one(x: Array) -> tuple[Any, ...]:
        *values, left, right, info = run(x, compute_vl=1, compute_vr=1)
        if not real:
            return values[0], left, right, info
        w = values[0] + 1j * values[1]
        return w, _unpacked(w, left), _unpacked(w, right), info

    return _stacked(one, (a,), (2,), made)


def _unpacked(w: Array, vectors: Array) -> Array:
    """Of a conjugate pair LAPACK has the real parts in one column and the imaginary ones in the next."""
    made = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    for i in np.flatnonzero(w.imag > 0):
        made[:, i] = vectors[:, i] + 1j * vectors[:, i + 1]
        made[:, i + 1] = made[:, i].conj()
    return made


def gehrd(a: Array) -> Any:
    """A matrix with nothing below the first subdiagonal but reflectors, their factors, and whether it failed."""
    *lead, n, _ = a.shape
    made = [np.array(a), np.zeros((*lead, max(n - 1, 0)), a.dtype), _infos(tuple(lead))]
    if n == 0:
        return tuple(made)
    run = _routine("gehrd", a)
    return _stacked(lambda x: tuple(run(x)), (a,), (2,), made)


def gees(a: Array) -> Any:
    """The triangular factor of Schur's form, the unitary one, eigenvalues, and whether there was no answer."""
    *lead, n, _ = a.shape
    real = a.dtype.kind != "c"
    values = [np.zeros((*lead, n), a.dtype) for _ in range(2 if real else 1)]
    made = [np.array(a), np.array(a), *values, _infos(tuple(lead))]
    if n == 0:
        return tuple(made)
    run = _routine("gees", a)

    def one(x: Array) -> tuple[Any, ...]:
        form, _, *w, vectors, _, info = run(lambda *_: None, x)
        return form, vectors, *w, info

    return _stacked(one, (a,), (2,), made)


def sytrd(a: Array, lower: bool) -> Any:
    """A Hermitian matrix made tridiagonal: reflectors, both diagonals, the reflectors' factors, whether it failed."""
    *lead, n, _ = a.shape
    part = a.real.dtype
    sizes = ((n, part), (max(n - 1, 0), part), (max(n - 1, 0), a.dtype))
    made = [np.array(a), *(np.zeros((*lead, size), dtype) for size, dtype in sizes), _infos(tuple(lead))]
    if n == 0:
        return tuple(made)
    run = _routine("hetrd" if a.dtype.kind == "c" else "sytrd", a)
    return _stacked(lambda x: tuple(run(x, lower=int(lower))), (a,), (2,), made)


def gtsv(below: Array, diagonal: Array, above: Array, b: Array) -> Any:
    """``X`` of a tridiagonal system, and the row where it is singular, or 0.

    All diagonals have the matrix's length: the first of ``below`` and the last of ``above`` count for nothing.
    """
    *lead, n, _ = b.shape
    made = [np.array(b), _infos(tuple(lead))]
    if b.size == 0:
        return tuple(made)
    run = _routine("gtsv", b)

    def one(dl: Array, d: Array, du: Array, y: Array) -> tuple[Any, ...]:
        if n == 1:  # SciPy's call wants diagonals that are not empty
            return y / d, int(d[0] == 0)
        _, _, _, x, info = run(dl[1:], d, du[:-1], y)
        return x, info

    return _stacked(one, (below, diagonal, above, b), (1, 1, 1, 2), made)


def permutation(pivots: Array, size: int) -> Any:
    """The order of ``size`` rows after row i and row ``pivots[i]`` were exchanged, for i from 0 on."""
    order = np.broadcast_to(np.arange(size, dtype=pivots.dtype), (*pivots.shape[:-1], size)).copy()

    def one(p: Array) -> tuple[Any, ...]:
        rows = np.arange(size, dtype=pivots.dtype)
        for i, other in enumerate(p):
            if 0 <= other < size:  # what is no row is exchanged with none, as on a GPU
                rows[i], rows[other] = rows[other], rows[i]
        return (rows,)

    return _stacked(one, (pivots,), (1,), [order])


ROUTINES: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (geqrf, geqp3, orgqr, ormqr, geev, gehrd, gees, sytrd, gtsv, permutation)
}
for _name, _function in ROUTINES.items():
    define(f"lapack.{_name}", _function)
