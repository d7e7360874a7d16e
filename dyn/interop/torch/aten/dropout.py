"""Dropout of elements and of features: no question about sizes is asked, so that 0 is a size like others."""

from __future__ import annotations

from typing import Any

import torch

from dyn.interop.torch.composites import composite

#: Of ``selu``: what it comes near to on the left, times its scale.
_ALPHA = 1.7580993408473766


def _noise(a: Any, p: float, is_feature: bool) -> Any:
    """1 for what is kept: each element, or each feature of each example."""
    if not is_feature:
        return torch.empty_like(a).bernoulli_(1 - p)
    if a.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return a.new_empty((*a.shape[:2], *[1] * (a.ndim - 2))).bernoulli_(1 - p)


def _dropped(a: Any, p: float, train: bool, *, is_feature: bool = False, is_alpha: bool = False) -> Any:
    """``a`` itself where nothing is dropped."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train:
        return a
    if not is_feature and not is_alpha:
        return torch.native_dropout(a, p, train)[0]
    if p == 1:
        return a * torch.zeros((), dtype=a.dtype)
    noise = _noise(a, p, is_feature)
    if not is_alpha:
        return a * (noise / (1 - p))
    scale = 1 / ((_ALPHA**2 * p + 1) * (1 - p)) ** 0.5
    return a * (noise * scale) + ((noise - 1) * (_ALPHA * scale) + _ALPHA * scale * p)


@composite("dropout.default")
def dropout(a: Any, p: float, train: bool) -> Any:
    return _dropped(a, p, train)


@composite("feature_dropout.default")
def feature_dropout(a: Any, p: float, train: bool) -> Any:
    return _dropped(a, p, train, is_feature=True)


@composite("alpha_dropout.default")
def alpha_dropout(a: Any, p: float, train: bool) -> Any:
    return _dropped(a, p, train, is_alpha=True)


@composite("feature_alpha_dropout.default")
def feature_alpha_dropout(a: Any, p: float, train: bool) -> Any:
    return _dropped(a, p, train, is_feature=True, is_alpha=True)


def _written(a: Any, dropped: Any) -> Any:
    return a if dropped is a else a.copy_(dropped)


@composite("dropout_.default")
def dropout_(a: Any, p: float, train: bool) -> Any:
    return _written(a, dropout(a, p, train))


@composite("feature_dropout_.default")
def feature_dropout_(a: Any, p: float, train: bool) -> Any:
    return _written(a, feature_dropout(a, p, train))


@composite("alpha_dropout_.default")
def alpha_dropout_(a: Any, p: float, train: bool) -> Any:
    return _written(a, alpha_dropout(a, p, train))


@composite("feature_alpha_dropout_.default")
def feature_alpha_dropout_(a: Any, p: float, train: bool) -> Any:
    return _written(a, feature_alpha_dropout(a, p, train))
