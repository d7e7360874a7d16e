"""Complex numbers, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.torch.aten.pointwise import sign
from dyn.interop.torch.aten.tables import converts, operands_order, pointwise, view
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.tensors import TensorRecord, numpy_dtype, record_of
from dyn.trace.tracer import Tracer

# ---- parts -----------------------------------------------------------------------------------------------------------


@converts("complex.default", order=operands_order)
def complex_(real: Tracer, imag: Tracer) -> Tracer:
    return lax.complex(*dnp.broadcast_arrays(real, imag))


def _of_pairs(pairs: Tracer) -> Tracer:
    return lax.complex(pairs[..., 0], pairs[..., 1])


def _pairs(a: Tracer) -> Tracer:
    return dnp.stack([dnp.real(a), dnp.imag(a)], axis=-1)


def _order_of_pairs(record: TensorRecord) -> Order | None:
    return None if record.order is None else (*record.order, len(record.order))


def _order_of_complex(record: TensorRecord) -> Order | None:
    """Pairs lie in memory one after the other: their axis is the innermost."""
    order = record.order
    return None if order is None or order[:-1] == tuple(range(len(order) - 1)) else order[:-1]


@view("view_as_real.default", write=lambda whole, new: _of_pairs(new), order=_order_of_pairs, is_dense=True)
def view_as_real(a: Tracer) -> Tracer:
    return _pairs(a)


@view("view_as_complex.default", write=lambda whole, new: _pairs(new), order=_order_of_complex, is_dense=True)
def view_as_complex(a: Tracer) -> Tracer:
    return _of_pairs(a)


converts("_conj_physical.default", "conj_physical.default", order=operands_order)(dnp.conj)


def _order_of_whole(record: TensorRecord) -> Order | None:
    return record.order


def _is_its_own_inverse(name: str, function: Callable[[Any], Tracer]) -> None:
    """Register a view whose elements are read by a function, and written by it, too."""
    view(name, write=lambda whole, new: function(new), order=_order_of_whole, is_dense=True)(function)


_is_its_own_inverse("_conj.default", dnp.conj)
_is_its_own_inverse("_neg_view.default", dnp.negative)


@converts("angle.default", order=operands_order)
def angle(a: Any) -> Tracer:
    if a.dtype.kind == "c":
        return dnp.angle(a)
    if a.dtype.kind in "iub":
        a = a.astype(numpy_dtype(torch.get_default_dtype()))
    # A NaN is kept; the angle of -0.0 is 0.
    made = dnp.where(a < 0, dnp.asarray(dnp.pi, dtype=a.dtype), dnp.zeros_like(a))
    return dnp.where(dnp.isnan(a), a, made)


@pointwise("sgn.default", operands=1)
def sgn(a: Any) -> Any:
    if a.dtype.kind != "c":
        return sign(a)
    size = dnp.abs(a)
    return dnp.where(size == 0, dnp.zeros_like(a), a / dnp.where(size == 0, dnp.ones_like(size), size))


# ---- Fourier transforms ----------------------------------------------------------------------------------------------

#: PyTorch's numbers for what a transform is divided by, none of it, its root and its length: NumPy's names, where the
#: inverse is what divides.
_FORWARD, _INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


def _order(last: int) -> Any:
    """How transforms lie in memory: axes that are not transformed first, each kind by its strides; and the axes that
    come ``last``, as they are given."""

    def order(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
        rank, axes = args[0].ndim, [axis % args[0].ndim for axis in args[1]]
        own = record_of(args[0]).order or tuple(range(rank))
        sorted_, rest = axes[: len(axes) - last], axes[len(axes) - last :]
        by_strides = [axis for axis in own if axis not in axes] + [axis for axis in own if axis in sorted_]
        made = (*by_strides, *rest)
        return None if made == tuple(range(rank)) else made

    return order


@converts("_fft_c2c.default", order=_order(0))
def fft_c2c(a: Tracer, axes: Sequence[int], normalization: int, forward: bool) -> Tracer:
    if not axes:
        return a
    if forward:
        return dnp.fft.fftn(a, axes=tuple(axes), norm=_FORWARD[normalization])
    return dnp.fft.ifftn(a, axes=tuple(axes), norm=_INVERSE[normalization])


@converts("_fft_r2c.default", order=_order(1))
def fft_r2c(a: Tracer, axes: Sequence[int], normalization: int, onesided: bool) -> Tracer:
    if onesided:
        return dnp.fft.rfftn(a, axes=tuple(axes), norm=_FORWARD[normalization])
    return dnp.fft.fftn(a, axes=tuple(axes), norm=_FORWARD[normalization])


@converts("_fft_c2r.default", order=_order(1))
def fft_c2r(a: Tracer, axes: Sequence[int], normalization: int, last_dim_size: Any) -> Tracer:
    sizes = [*[a.shape[axis] for axis in axes[:-1]], last_dim_size]
    return dnp.fft.irfftn(a, s=sizes, axes=tuple(axes), norm=_INVERSE[normalization])
