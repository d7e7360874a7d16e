"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.converters import Data
from dyn.interop.tf.converter_registry import takes_call
from dyn.trace.dims import min_dim


def _corners(boxes: Data) -> tuple[Any, Any]:
    """The least and the greatest corners of boxes, which may be given by any two opposite ones."""
    return dnp.minimum(boxes[..., :2], boxes[..., 2:]), dnp.maximum(boxes[..., :2], boxes[..., 2:])


def _area(low: Data, high: Data) -> Any:
    sides = high - low
    return sides[..., 0] * sides[..., 1]


def _overlaps(boxes: Data, one: Data) -> Any:
    """Intersection over union of boxes with one of them."""
    low, high = _corners(boxes)
    own_low, own_high = _corners(one)
    areas, own = _area(low, high), _area(own_low, own_high)
    common_low, common_high = dnp.maximum(low, own_low), dnp.minimum(high, own_high)
    common = _area(common_low, dnp.maximum(common_high, common_low))
    is_some = (areas > 0) & (own > 0)
    return dnp.where(is_some, common / dnp.where(is_some, areas + own - common, 1), 0)


def _selected(
    boxes: Data, scores: Data, most: Any, overlap: Data, least: Data, sigma: Data | None = None
) -> tuple[Any, Any, Any]:
    """Numbers and scores of the boxes that stay, in ``most`` places, and how many they are.

    The best box stays, and those that overlap it by more than ``overlap`` go. With a ``sigma`` others lose a part of
    their scores ("Soft-NMS", Bodla and others, 2017). A score below 0 rises by that, and is chosen by what it was
    before: TensorFlow looks at a box again only once its turn has come.
    """
    count, dtype = boxes.shape[0], scores.dtype
    number = dnp.arange(count).astype("int64")
    is_open = scores > least

    def choose(state: Any) -> Any:
        step, is_open, now, numbers, kept = state
        rank = dnp.where(is_open, dnp.where(scores < 0, scores, now), -dnp.inf)
        best = dnp.argmin(dnp.where(is_open & (rank == dnp.max(rank, initial=-dnp.inf)), number, count))
        overlaps = _overlaps(boxes, boxes[best])
        numbers, kept = numbers.at[step].set(best.astype("int32")), kept.at[step].set(now[best])
        is_open = is_open & (number != best)
        if sigma is None:
            return step + 1, is_open & (overlaps <= overlap), now, numbers, kept
        is_soft = sigma > 0
        scale = dnp.where(is_soft, -0.5 / dnp.where(is_soft, sigma, 1), 0).astype(dtype)
        weights = dnp.where(overlaps <= overlap, dnp.exp(scale * overlaps * overlaps), 0).astype(dtype)
        now = now * weights
        return step + 1, is_open & (is_soft | (overlaps <= overlap)) & (now > least), now, numbers, kept

    places = min_dim(most, count)
    start = (
        dnp.zeros((), dtype="int64"), is_open, scores, dnp.zeros((places,), dtype="int32"),
        dnp.zeros((places,), dtype=dtype),
    )  # fmt: skip
    made = lax.while_loop(lambda state: (state[0] < places) & dnp.any(state[1]), choose, start)
    return made[3], made[4], made[0]


def _padded(a: Data, most: Any) -> Any:
    return lax.pad(a, dnp.zeros((), dtype=a.dtype), [(0, most - a.shape[0], 0)])


def _result(call: Any, chosen: Data, count: Data, most: Any) -> Any:
    """The chosen numbers or scores: as many as there are, or as are asked for at most."""
    if call.attributes(["pad_to_max_output_size"]).get("pad_to_max_output_size"):
        return _padded(chosen, most)
    return chosen[: lax.as_dim(count, name="boxes")]


@takes_call("NonMaxSuppressionV3")
@takes_call("NonMaxSuppressionV4", "NonMaxSuppressionV5", attrs=["pad_to_max_output_size"])
def non_max_suppression(call: Any) -> Any:
    boxes, scores = call.value(0), call.value(1)
    most = call.sizes(2)
    numbers, kept, count = _selected(boxes, scores, most, *call.values(3))
    chosen = _result(call, numbers, count, most)
    if call.node.op == "NonMaxSuppressionV3":
        return chosen
    if call.node.op == "NonMaxSuppressionV4":
        return [chosen, count.astype("int32")]
    return [chosen, _result(call, kept, count, most), count.astype("int32")]
