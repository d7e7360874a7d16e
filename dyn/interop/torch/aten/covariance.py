"""Covariance, whose weights PyTorch's own form looks at while it computes."""

from __future__ import annotations

from typing import Any

import torch

from dyn.interop.torch.composites import composite


def _require(is_right: bool, text: str) -> None:
    """Raise RuntimeError, as PyTorch does, for arguments that do not fit."""
    if not is_right:
        raise RuntimeError(f"cov(): {text}")


def _require_weights(weights: Any, name: str, observations: Any) -> None:
    """Demand a weight of 0 or more for each observation."""
    _require(weights.ndim <= 1, f"expected {name} to have one or fewer dimensions")
    torch._check(weights.numel() == observations, lambda: f"cov(): expected {name} to have one number an observation")
    torch.ops.aten._assert_async.msg((weights >= 0).all(), f"cov() takes {name} that are not negative")


@composite("cov.default")
def cov(a: Any, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance of variables, which are rows, over observations: ``fweights`` are counts of these, integers, and
    ``aweights`` their importance, floats."""
    _require(a.ndim <= 2, "expected input to have two or fewer dimensions")
    _require(a.dtype is not torch.bool, "bool dtype is not supported for input")
    rows = a.reshape(1, -1) if a.ndim < 2 else a
    count, weights = rows.shape[1], None
    if fweights is not None:
        _require(not fweights.dtype.is_floating_point, "expected fweights to have integral dtype")
        _require_weights(fweights, "fweights", count)
        weights = fweights
    if aweights is not None:
        _require(aweights.dtype.is_floating_point, "expected aweights to have floating point dtype")
        _require_weights(aweights, "aweights", count)
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        divisor = torch.sym_max(count - correction, 0)
        mean = rows.sum(1) / count
    else:
        total = weights.sum()
        torch.ops.aten._assert_async.msg(total != 0, "cov() takes weights whose sum is not 0")
        is_importance = aweights is not None and correction != 0
        excess = correction * (weights * aweights).sum() / total if is_importance else correction
        divisor = (total - excess).clamp(min=0)
        mean = (rows * weights).sum(1) / total
    centered = rows - mean[:, None]
    weighted = centered if weights is None else centered * weights
    return ((centered @ weighted.t().conj()) / divisor).squeeze()
