"""A step of training a graph network: messages along edges are summed at nodes by ``segment_sum``.

Nodes and edges are as many as the graph has.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FEATURES, CLASSES = 8, 4


def init(seed: int = 0, width: int = 16, layers: int = 3) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(seed), 3 * layers + 2))

    def dense(rows: int, columns: int) -> dict[str, jax.Array]:
        return {"w": jax.random.normal(next(keys), (rows, columns)) / np.sqrt(rows), "b": jnp.zeros(columns)}

    return {
        "embed": dense(FEATURES, width),
        "layers": [
            {"message": dense(2 * width, width), "update": dense(2 * width, width)} for _ in range(layers)
        ],
        "head": dense(width, CLASSES),
    }  # fmt: skip


def apply(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ p["w"] + p["b"]


def logits(params: dict[str, Any], nodes: jax.Array, senders: jax.Array, receivers: jax.Array) -> jax.Array:
    """A score for each class of each node."""
    count = nodes.shape[0]
    x = jax.nn.relu(apply(params["embed"], nodes))
    degree = jax.ops.segment_sum(jnp.ones(senders.shape[0]), receivers, count)
    for p in params["layers"]:
        pairs = jnp.concatenate([x[senders], x[receivers]], axis=-1)
        sums = jax.ops.segment_sum(jax.nn.relu(apply(p["message"], pairs)), receivers, count)
        strongest = jax.ops.segment_max(x[senders], receivers, count)
        mean = sums / jnp.maximum(degree, 1.0)[:, None] + jnp.where(jnp.isfinite(strongest), strongest, 0.0)
        x = x + jax.nn.relu(apply(p["update"], jnp.concatenate([x, mean], axis=-1)))
    return apply(params["head"], x)


def train(
    params: dict[str, Any], nodes: jax.Array, senders: jax.Array, receivers: jax.Array, labels: jax.Array
) -> tuple[jax.Array, dict[str, Any]]:
    """The loss, and the parameters after a step of gradient descent."""

    def loss(params: dict[str, Any]) -> jax.Array:
        scores = jax.nn.log_softmax(logits(params, nodes, senders, receivers))
        return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))

    value, gradients = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Graphs of all sizes."""
    rng = np.random.default_rng(seed)
    made: list[tuple[jax.Array, ...]] = []
    for _ in range(count):
        n, e = int(rng.integers(2, 80)), int(rng.integers(1, 300))
        ends = jnp.asarray(rng.integers(0, n, (2, e)), jnp.int32)
        nodes = jnp.asarray(rng.standard_normal((n, FEATURES)), jnp.float32)
        made.append((nodes, ends[0], ends[1], jnp.asarray(rng.integers(0, CLASSES, n), jnp.int32)))
    return made


PROGRAM = train
#: Two ends for each edge, a label for each node.
SHAPES = f"..., n {FEATURES}, e, e, n"
