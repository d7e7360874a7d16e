"""Views of a tensor's bits as numbers of another dtype: ``x.view(torch.int32)``."""

from __future__ import annotations

from typing import Any

import torch

import dyn.numpy as dnp
from dyn import lax
from dyn.dtypes import DType, Kind
from dyn.interop.torch.aten.complexes import view_as_complex, view_as_real
from dyn.interop.torch.aten.tables import view
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.tensors import TensorRecord, known_dtype, torch_dtype
from dyn.trace.tracer import Tracer


def _kept(record: TensorRecord, dtype: torch.dtype) -> Order | None:
    return record.order


def _written(whole: Tracer, new: Tracer, dtype: torch.dtype) -> Tracer:
    own = torch_dtype(whole.element_type)
    assert own is not None, "values of a trace of PyTorch have dtypes of its"
    return bits_as(new, own)


@view("view.dtype", write=_written, order=_kept, is_dense=True)
def bits_as(a: Tracer, dtype: torch.dtype) -> Tracer:
    """The bits of an array as numbers of another dtype: of narrower ones the last axis has more, of wider ones fewer.
    A complex number is two floats, a truth value a byte."""
    own, new = a.element_type, known_dtype(dtype)
    if own is new:
        return a
    sizes = list(a.shape)
    if own.bits > new.bits:
        sizes[-1] = sizes[-1] * (own.bits // new.bits)
    elif own.bits < new.bits:
        sizes[-1] = sizes[-1] // (new.bits // own.bits)
    parts = _parts_of(a)
    if own.bits < new.bits:
        parts = dnp.reshape(parts, (*sizes, new.bits // own.bits * parts.shape[-1]))
    parts = _regrouped(parts, _part(new))
    per_element = 2 if new.kind is Kind.COMPLEX else 1
    return _whole(dnp.reshape(parts, (*sizes, per_element)), new)


def _part(dtype: DType) -> DType:
    """The dtype of the numbers that an element is made of, which have bits: bytes of truth values, floats of complex
    numbers."""
    if dtype.kind is Kind.COMPLEX:
        return known_dtype(torch.float32 if dtype.bits == 64 else torch.float64)
    return known_dtype(torch.uint8) if dtype.kind is Kind.BOOL else dtype


def _parts_of(a: Tracer) -> Tracer:
    """The numbers that each element is made of, along a new last axis."""
    if a.element_type.kind is Kind.COMPLEX:
        return view_as_real(a)
    return dnp.expand_dims(a.astype(_part(a.element_type).np), -1)


def _whole(parts: Tracer, dtype: DType) -> Tracer:
    """Elements of the numbers that they are made of, along the last axis."""
    if dtype.kind is Kind.COMPLEX:
        return view_as_complex(parts)
    one = parts[..., 0]
    return one != 0 if dtype.kind is Kind.BOOL else one


def _regrouped(parts: Tracer, dtype: DType) -> Tracer:
    """Numbers along the last axis as those of another dtype that have the same bits."""
    own: Any = parts.element_type
    if own.bits < dtype.bits:
        count = dtype.bits // own.bits
        parts = dnp.reshape(parts, (*parts.shape[:-1], parts.shape[-1] // count, count))
    made = lax.bitcast_convert_type(parts, dtype.np)
    if own.bits > dtype.bits:
        made = dnp.reshape(made, (*parts.shape[:-1], parts.shape[-1] * (own.bits // dtype.bits)))
    return made
