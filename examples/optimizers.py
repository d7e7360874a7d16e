"""Adam (Kingma and Ba 2014, https://arxiv.org/abs/1412.6980) with optax's interface: a pair of functions over trees.

Both functions are plain array code, written with the names that ``dyn.numpy`` and ``jax.numpy`` share, so the same
source serves either: ``adam(1e-3)`` and ``adam(1e-3, lib=jax)``. Parameters and their state stay trees of arrays; what
makes an optimiser quick, that all of its updates lie in the compiled step, needs nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree

import dyn

Tree = Any


class GradientTransformation(NamedTuple):
    """An optimiser: ``state = init(params)``, and ``updates, state = update(grads, state, params)``."""

    init: Callable[[Tree], Tree]
    update: Callable[..., tuple[Tree, Tree]]


class AdamState(NamedTuple):
    """How many updates there were (int32, no axes), and the running means of gradients and of their squares."""

    count: Any
    mean: Tree
    square: Tree


def adam(
    learning_rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, *, lib: Any = dyn
) -> GradientTransformation:
    """Adam, with corrected means. ``lib`` is what computes: ``dyn`` or ``jax``.

    ``update`` takes a tree of gradients like the parameters, in their dtypes, and gives the steps to add to them.
    """

    def init(params: Tree) -> AdamState:
        def zeros() -> Tree:
            return optree.tree_map(lambda p: np.zeros(p.shape, p.dtype), params)

        return AdamState(np.zeros((), np.int32), zeros(), zeros())

    def update(grads: Tree, state: AdamState, params: Tree = None) -> tuple[Tree, AdamState]:
        count = state.count + 1
        # What is left of the zeros that the means began with.
        left1, left2 = (lib.numpy.power(np.float32(b), count.astype(np.float32)) for b in (b1, b2))
        mean = optree.tree_map(lambda g, m: b1 * m + (1 - b1) * g, grads, state.mean)
        square = optree.tree_map(lambda g, v: b2 * v + (1 - b2) * (g * g), grads, state.square)
        rate, size = learning_rate / (1 - left1), 1 / (1 - left2)
        updates = optree.tree_map(lambda m, v: -rate * m / (lib.numpy.sqrt(v * size) + eps), mean, square)
        return updates, AdamState(count, mean, square)

    return GradientTransformation(init, update)


def apply_updates(params: Tree, updates: Tree) -> Tree:
    """The parameters after a step, in their dtypes."""
    return optree.tree_map(lambda p, u: (p + u).astype(p.dtype), params, updates)
