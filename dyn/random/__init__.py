"""Random numbers from keys, as in JAX: ``dyn.random`` draws what ``jax.random`` draws.

::

    key = dyn.random.key(0)
    key, sub = dyn.random.split(key)
    noise = dyn.random.normal(sub, x.shape)      # inside dyn.jit: one compile for every shape

A key is a uint32 array of two words, of shape (2,): ``key`` and ``PRNGKey`` make the same, and there are no typed keys.
The same key gives the same numbers on every machine, for any number of threads, inside of ``dyn.jit`` and outside.
``docs/random.md`` says which numbers are JAX's to the bit. dtypes are JAX's as it comes: float32 (dyn's default float),
int32, uint32.
"""

from __future__ import annotations

from dyn.random._binomial import binomial
from dyn.random._continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    normal,
    pareto,
    truncated_normal,
)
from dyn.random._derived import (
    ball,
    double_sided_maxwell,
    f,
    generalized_normal,
    geometric,
    maxwell,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from dyn.random._gamma import beta, chisquare, dirichlet, gamma, loggamma, poisson, t
from dyn.random._keys import PRNGKey, fold_in, key, key_data, key_impl, split, wrap_key_data
from dyn.random._matrices import multivariate_normal, orthogonal
from dyn.random._selection import categorical, choice, permutation
from dyn.random._uniform import bernoulli, bits, rademacher, randint, uniform

__all__ = [
    "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "dirichlet", "double_sided_maxwell", "exponential", "f", "fold_in", "gamma", "generalized_normal", "geometric",
    "gumbel", "key", "key_data", "key_impl", "laplace", "loggamma", "logistic", "lognormal", "maxwell",
    "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson", "rademacher", "randint",
    "rayleigh", "split", "t", "triangular", "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data",
]  # fmt: skip
