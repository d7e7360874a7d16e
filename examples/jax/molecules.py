"""Molecular dynamics of a Lennard-Jones fluid in a periodic box: neighbour lists, and steps of velocity Verlet.

The number of particles changes with every system; each looks at its nearest neighbours alone, found anew for each call.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: Particles that one looks at, and how far it sees.
NEIGHBOURS, CUTOFF = 12, 2.5
STEPS, DT = 5, 0.002


def init(seed: int = 0) -> dict[str, Any]:
    """Strength and size of the particles."""
    return {"epsilon": jnp.float32(1.0), "sigma": jnp.float32(1.0)}


def apart(a: jax.Array, b: jax.Array, box: jax.Array) -> jax.Array:
    """From ``b`` to ``a`` the shortest way through the periodic box."""
    d = a - b
    return d - box * jnp.round(d / box)


def neighbours(positions: jax.Array, box: jax.Array) -> jax.Array:
    """The nearest particles of each, ``(n, NEIGHBOURS)``; itself where it has fewer."""
    n = positions.shape[0]
    distances = jnp.sum(apart(positions[:, None], positions[None], box) ** 2, -1)
    far = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, distances)
    padded = jnp.concatenate([far, jnp.full((n, NEIGHBOURS), jnp.inf, far.dtype)], axis=1)
    order = jnp.argsort(padded, axis=1)[:, :NEIGHBOURS]
    return jnp.where(order < n, order, jnp.arange(n)[:, None])


def energy(params: dict[str, Any], positions: jax.Array, near: jax.Array, box: jax.Array) -> jax.Array:
    """The potential energy; pairs that both list each other count half each."""
    squared = jnp.sum(apart(positions[:, None], positions[near], box) ** 2, -1)
    own = near == jnp.arange(positions.shape[0])[:, None]
    inside = (squared < CUTOFF**2) & ~own
    sixth = (params["sigma"] ** 2 / jnp.where(inside, squared, 1.0)) ** 3
    return 0.5 * jnp.sum(jnp.where(inside, 4 * params["epsilon"] * (sixth * sixth - sixth), 0.0))


def simulate(
    params: dict[str, Any], positions: jax.Array, velocities: jax.Array, box: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Positions and velocities, ``(n, 3)``, after ``STEPS`` steps, and the energy at each."""
    near = neighbours(positions, box)
    potential = jax.value_and_grad(lambda x: energy(params, x, near, box))

    def step(state: tuple[jax.Array, ...], _: None) -> tuple[tuple[jax.Array, ...], jax.Array]:
        x, v, slope = state
        v = v - 0.5 * DT * slope
        x = x + DT * v
        value, slope = potential(x)
        v = v - 0.5 * DT * slope
        return (x, v, slope), value + 0.5 * jnp.sum(v * v)

    start = potential(positions)[1]
    (x, v, _), energies = lax.scan(step, (positions, velocities, start), None, length=STEPS)
    return x % box, v, energies


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Fluids of any number of particles, placed near a lattice so that none lies on another."""
    rng = np.random.default_rng(seed)
    made: list[tuple[jax.Array, ...]] = []
    for _ in range(count):
        n = int(rng.integers(2, 150))
        side = int(np.ceil(n ** (1 / 3)))
        lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3), -1).reshape(-1, 3)[:n] * 1.2
        positions = lattice + rng.uniform(-0.05, 0.05, (n, 3))
        arrays = (positions, rng.standard_normal((n, 3)), np.full(3, max(side * 1.2, 2.5)))
        made.append(tuple([jnp.asarray(a, jnp.float32) for a in arrays]))
    return made


PROGRAM = simulate
#: A velocity for each particle.
SHAPES = "..., n 3, n 3, 3"
