"""Nearest neighbours: images of another size, each of whose elements is one of the image's, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._decomp.decompositions import upsample_compute_output_size
from torch._dispatch.python import no_python_dispatcher

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import CHANNELS_LAST, converts, kept_order, operation
from dyn.interop.torch.composites import composite
from dyn.interop.torch.layouts import Order
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp


def _channels_last(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """Channels last, where the first argument lies so."""
    order = kept_order(args, kwargs)
    return order if order in CHANNELS_LAST.values() else None


def _source(size: Any, made: Any, factor: Any) -> Tracer:
    """The place in an axis of ``size`` of each of ``made`` elements: in float32, and never past the end."""
    return _places(dnp.arange(made, dtype="int64").astype("float32"), size, made, factor)


def _kept_source(size: Any, made: Any, factor: Any) -> Tracer:
    """Source places of an axis as :func:`_source` has them, without its factor where the axis stays as long as it is or
    is doubled (``nearest_idx`` of PyTorch's)."""
    found = _source(size, made, factor)
    if factor is None:
        return found
    place, before, after = dnp.arange(made, dtype="int64"), dnp.asarray(size), dnp.asarray(made)
    return dnp.where(after == before, place, dnp.where(after == 2 * before, place // 2, found))


def _nearest_source(size: Any, made: Any, factor: Any) -> Tracer:
    """The places that are nearest to the middles of elements (``nearest_exact_idx``)."""
    return _places(dnp.arange(made, dtype="int64").astype("float32") + 0.5, size, made, factor)


def _places(point: Tracer, size: Any, made: Any, factor: Any) -> Tracer:
    if factor is None:
        scale = dnp.asarray(size).astype("float32") / dnp.asarray(made).astype("float32")
    else:
        scale = (1.0 / dnp.asarray(factor, dtype="float64")).astype("float32")
    found = dnp.floor(point * scale).astype("int64")
    return dnp.minimum(found, dnp.asarray(size).astype("int64") - 1)


def _resized(a: Tracer, sizes: Sequence[Any], factors: Sequence[Any], source: Callable[..., Tracer]) -> Tracer:
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), a.ndim - len(sizes)):
        a = dnp.take(a, source(a.shape[axis], size, factor), axis=axis)
    return a


def _register(name: str, rank: int, source: Callable[..., Tracer], of_gradients: Callable[..., Tracer]) -> None:
    """Nearest neighbours of images of ``rank`` axes beside batch and channels, by the places of ``source``."""

    def positive(factors: Sequence[Any]) -> list[Any]:
        given = [*factors, *[None] * (rank - len(factors))]
        return [None if isinstance(factor, int | float) and factor <= 0 else factor for factor in given]

    def forward(a: Tracer, output_size: Sequence[Any], *factors: Any, **named: Any) -> Tracer:
        return _resized(a, output_size, positive([*factors, *named.values()]), source)

    def backward(
        cotangent: Tracer, output_size: Sequence[Any], input_size: Sequence[Any], *factors: Any, **named: Any
    ) -> Tracer:
        given = positive([*factors, *named.values()])
        start = dnp.zeros(tuple(input_size), dtype=cotangent.dtype)
        return vjp(lambda a: _resized(a, output_size, given, of_gradients), start)[1](cotangent)[0]

    converts(f"{name}.default", order=_channels_last)(forward)
    converts(f"{name}_backward.default", order=_channels_last)(backward)
    _keep_whole(name)


def _keep_whole(name: str) -> None:
    """Have an operation come to its converter: PyTorch writes it for traces by others, whose places are not those of
    its own kernels, and may be one too far."""
    whole = operation(f"{name}.default")

    @composite(f"{name}.default")
    def kept(*args: Any, **kwargs: Any) -> Any:
        with no_python_dispatcher():  # which would write it by others before anybody sees it
            return whole(*args, **kwargs)

    @composite(f"{name}.vec")
    def of_lists(a: Any, output_size: Any, scale_factors: Any) -> Any:
        sizes = upsample_compute_output_size(a.size(), output_size, scale_factors)
        return kept(a, sizes, *(scale_factors or ()))


#: PyTorch's kernel for images of two axes looks at the sizes first, and so do those of all gradients.
for _rank, _own in ((1, _source), (2, _kept_source), (3, _source)):
    _register(f"upsample_nearest{_rank}d", _rank, _own, _kept_source)
    _register(f"_upsample_nearest_exact{_rank}d", _rank, _nearest_source, _nearest_source)
