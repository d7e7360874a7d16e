"""Random numbers: of a distribution, in permutations, dropout.

Each operation has a key of its own (:class:`dyn.interop.torch.randomness.Keys`). Floats are drawn as PyTorch draws
them: uniform ones with all the bits that numbers just below 1 have, and the others of 16 bits by way of float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import dyn.numpy as dnp
from dyn import random
from dyn.interop.torch.aten.domains import require_all, require_probabilities
from dyn.interop.torch.aten.tables import converts, in_place, kept_order, named_order, operation
from dyn.interop.torch.converters import CONVERTERS, Converter
from dyn.interop.torch.tensors import numpy_dtype, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.shapes import RelKind
from dyn.trace.context import current_trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.tracer import Tracer

#: Bits of the numbers just below 1, and the unsigned integers that are drawn for them.
_DIGITS = {"float16": (11, "uint16"), "bfloat16": (8, "uint8"), "float32": (24, "uint32"), "float64": (53, "uint64")}
#: Half of the distance between 1 and the number below it: the least that PyTorch's exponential_ gives.
_LEAST = {"float32": 2.0**-25, "float64": 2.0**-54}


def draws(*names: str, order: Any = lambda args, kwargs: None) -> Callable[[Any], Any]:
    """Register a function of a key, values and sizes as the converter of operations that draw random numbers."""

    def register(function: Any) -> Any:
        for name in names:
            schema = operation(name)._schema.arguments
            CONVERTERS[operation(name)] = Converter(_drawing(function, [arg.name for arg in schema]), order)
        return function

    return register


def _drawing(function: Any, names: Sequence[str]) -> Any:
    """A converter of an operation whose arguments have these names; ``function`` gets a key, and no generator."""

    @functools.wraps(function)
    def run(tracing: TorchTracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = {**dict(zip(names, args, strict=False)), **kwargs}
        given = [arg for arg, name in zip(args, names, strict=False) if name != "generator"]
        rest = {name: tracing.value(arg) for name, arg in kwargs.items() if name != "generator"}
        return function(tracing.keys.new(named.get("generator")), *tracing.value(given), **rest)

    return run


def _of_first(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return kept_order(args, kwargs)


# ---- floats ----------------------------------------------------------------------------------------------------------


def _float_dtype(dtype: torch.dtype | None) -> np.dtype[Any]:
    return np.dtype(numpy_dtype(dtype or torch.get_default_dtype()))


def _unit(key: Any, shape: Sequence[Any], dtype: Any) -> Any:
    """Floats in [0, 1), of a float dtype."""
    digits, bits = _DIGITS[np.dtype(dtype).name]
    drawn = random.bits(key, tuple(shape), bits)
    return (drawn >> (drawn.dtype.itemsize * 8 - digits)).astype(dtype) * dnp.asarray(2.0**-digits, dtype=dtype)


def _wide(dtype: Any) -> Any:
    """The dtype that numbers of another one are computed in."""
    return np.dtype("float64") if np.dtype(dtype).name == "float64" else np.dtype("float32")


def _normal(key: Any, shape: Sequence[Any], dtype: Any) -> Any:
    """Floats of mean 0 and variance 1, in the dtype to compute in; complex ones of variance 1 in all."""
    if np.dtype(dtype).kind == "c":
        return random.normal(key, tuple(shape), dtype)
    return random.normal(key, tuple(shape), _wide(dtype))


@draws("rand.default", "rand.generator")
def rand(key: Any, sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    return _unit(key, sizes, _float_dtype(dtype))


@draws("rand_like.default", "rand_like.generator", order=named_order)
def rand_like(key: Any, a: Tracer, dtype: Any = None, **options: Any) -> Tracer:
    return _unit(key, a.shape, a.dtype if dtype is None else _float_dtype(dtype))


@draws("randn.default", "randn.generator")
def randn(key: Any, sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    chosen = _float_dtype(dtype)
    return _normal(key, sizes, chosen).astype(chosen)


@draws("randn_like.default", "randn_like.generator", order=named_order)
def randn_like(key: Any, a: Tracer, dtype: Any = None, **options: Any) -> Tracer:
    chosen = a.dtype if dtype is None else _float_dtype(dtype)
    return _normal(key, a.shape, chosen).astype(chosen)


@draws("uniform.default", order=_of_first)
def uniform(key: Any, a: Tracer, low: Any = 0.0, high: Any = 1.0) -> Tracer:
    wide = _wide(a.dtype)
    low, high = (dnp.asarray(bound, dtype=wide) for bound in (low, high))
    return (_unit(key, a.shape, a.dtype).astype(wide) * (high - low) + low).astype(a.dtype)


@draws("normal_functional.default", order=_of_first)
def normal(key: Any, a: Tracer, mean: Any = 0.0, std: Any = 1.0) -> Tracer:
    return _scaled(_normal(key, a.shape, a.dtype), mean, std).astype(a.dtype)


@draws("normal.float_float")
def normal_of_numbers(key: Any, mean: Any, std: Any, sizes: Sequence[Any], dtype: Any = None, **options: Any) -> Tracer:
    chosen = _float_dtype(dtype)
    return _scaled(_normal(key, sizes, chosen), mean, std).astype(chosen)


@draws("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal_of_tensors(key: Any, mean: Any, std: Any = 1.0) -> Tracer:
    whole = dnp.add(mean, std) if isinstance(mean, Tracer) and isinstance(std, Tracer) else None
    like: Any = (mean if isinstance(mean, Tracer) else std) if whole is None else whole
    dtype = mean.dtype if isinstance(mean, Tracer) else std.dtype
    if isinstance(std, Tracer):
        require_all(std, dnp.greater_equal(std, 0), "normal expects all elements of std >= 0.0")
    return _scaled(_normal(key, like.shape, dtype), mean, std).astype(dtype)


def _scaled(noise: Any, mean: Any, std: Any) -> Any:
    mean, std = (dnp.asarray(number).astype(noise.dtype) for number in (mean, std))
    return noise * std + mean


def _exponential(key: Any, shape: Sequence[Any], dtype: Any) -> Any:
    """Floats of the density exp(-x), x > 0, in the dtype to compute in."""
    wide = _wide(dtype)
    return dnp.maximum(-dnp.log1p(-_unit(key, shape, wide)), dnp.asarray(_LEAST[wide.name], dtype=wide))


@draws("exponential.default", order=_of_first)
def exponential(key: Any, a: Tracer, rate: Any = 1.0) -> Tracer:
    drawn = _exponential(key, a.shape, a.dtype)
    return (drawn / dnp.asarray(rate, dtype=drawn.dtype)).astype(a.dtype)


@draws("cauchy.default", order=_of_first)
def cauchy(key: Any, a: Tracer, median: Any = 0.0, sigma: Any = 1.0) -> Tracer:
    return _scaled(random.cauchy(key, a.shape, _wide(a.dtype)), median, sigma).astype(a.dtype)


@draws("log_normal.default", order=_of_first)
def log_normal(key: Any, a: Tracer, mean: Any = 1.0, std: Any = 2.0) -> Tracer:
    return dnp.exp(_scaled(_normal(key, a.shape, a.dtype), mean, std)).astype(a.dtype)


@draws("geometric.default", order=_of_first)
def geometric(key: Any, a: Tracer, p: Any) -> Tracer:
    wide = _wide(a.dtype)
    return dnp.ceil(_exponential(key, a.shape, wide) / -math.log1p(-p)).astype(a.dtype) if p < 1 else dnp.ones_like(a)


@draws("_standard_gamma.default", order=_of_first)
def standard_gamma(key: Any, a: Tracer) -> Tracer:
    return random.gamma(key, a.astype(_wide(a.dtype)), a.shape, _wide(a.dtype)).astype(a.dtype)


@draws("_sample_dirichlet.default", order=_of_first)
def sample_dirichlet(key: Any, a: Tracer) -> Tracer:
    return random.dirichlet(key, a.astype(_wide(a.dtype)), a.shape[:-1], _wide(a.dtype)).astype(a.dtype)


@draws("poisson.default", order=_of_first)
def poisson(key: Any, a: Tracer) -> Tracer:
    require_all(a, dnp.greater_equal(a, 0), "invalid Poisson rate, expected rate to be non-negative")
    return random.poisson(key, a.astype(_wide(a.dtype)), a.shape, "int64").astype(a.dtype)


@draws("binomial.default", order=_of_first)
def binomial(key: Any, count: Tracer, prob: Tracer) -> Tracer:
    wide = _wide(count.dtype)
    return random.binomial(key, count.astype(wide), prob.astype(wide), count.shape, wide).astype(count.dtype)


# ---- coins -----------------------------------------------------------------------------------------------------------


def _coins(key: Any, shape: Sequence[Any], p: Any) -> Any:
    """True with the probability ``p``, a number or an array that broadcasts to ``shape``."""
    if isinstance(p, Tracer):
        require_all(
            p, dnp.greater_equal(p, 0) & dnp.less_equal(p, 1), "bernoulli expects all elements of p to be in [0, 1]"
        )
        wide = _wide(p.dtype)
        return _unit(key, shape, wide) < p.astype(wide)
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli expects p to be in [0, 1], but got p={p}")
    return _unit(key, shape, "float32") < dnp.asarray(p, dtype="float32")


@draws("bernoulli.default")
def bernoulli(key: Any, p: Tracer) -> Tracer:
    return _coins(key, p.shape, p).astype(p.dtype)


@draws("bernoulli.p", "bernoulli.Tensor", order=_of_first)
def bernoulli_like(key: Any, a: Tracer, p: Any = 0.5) -> Tracer:
    return _coins(key, a.shape, p).astype(a.dtype)


@draws("native_dropout.default", order=lambda args, kwargs: [_of_first(args, kwargs)] * 2)
def native_dropout(key: Any, a: Tracer, p: Any, train: bool | None) -> tuple[Tracer, Tracer]:
    """The elements that are kept, scaled so that the mean stays the same, and their mask."""
    if train is False or p == 0:
        return dnp.array(a, copy=True), dnp.ones(a.shape, dtype="bool")
    kept = _coins(key, a.shape, 1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return native_dropout_backward(a, kept, scale), kept


@converts("native_dropout_backward.default", order=_of_first)
def native_dropout_backward(cotangent: Tracer, kept: Tracer, scale: float) -> Tracer:
    # A product, as PyTorch's: infinity that is dropped is NaN. With the scale it is a float.
    cotangent = cotangent.astype("float32") if cotangent.dtype.kind in "biu" else cotangent
    return cotangent * kept.astype(cotangent.dtype) * dnp.asarray(scale, dtype=cotangent.dtype)


def rrelu(key: Any, a: Tracer, lower: Any, upper: Any) -> tuple[Tracer, Tracer]:
    """``a`` with slopes drawn from [lower, upper] where it is not positive, and the slopes, which are 1 elsewhere."""
    slopes = dnp.where(dnp.less_equal(a, 0), uniform(key, a, lower, upper), dnp.ones_like(a))
    return a * slopes, slopes


@draws("rrelu_with_noise_functional.default", order=lambda args, kwargs: [_of_first(args, kwargs)] * 2)
def rrelu_functional(
    key: Any, a: Tracer, noise: Tracer, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False
) -> tuple[Tracer, Tracer]:
    return rrelu(key, a, lower, upper) if training else (_leaky(a, lower, upper), noise)


def _leaky(a: Tracer, lower: Any, upper: Any) -> Tracer:
    return dnp.where(dnp.less_equal(a, 0), a * dnp.asarray((lower + upper) / 2, dtype=a.dtype), a)


@in_place("rrelu_with_noise.default")
def rrelu_with_noise(
    tracing: TorchTracing, target: Any, noise: Any, lower: Any = 0.125, upper: Any = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Any:  # fmt: skip
    """``rrelu_with_noise``, which writes the slopes to ``noise``."""
    a = record_of(target).value
    if not training:
        return tracing.maker.fresh(_leaky(a, lower, upper), target.dtype, target.device)
    made, slopes = rrelu(tracing.keys.new(generator), a, lower, upper)
    tracing.write(noise, slopes)
    return tracing.maker.fresh(made, target.dtype, target.device, _of_first((target,), {}))


# ---- integers and permutations ---------------------------------------------------------------------------------------


def _demand(high: Any, low: Any, text: str) -> None:
    trace = current_trace()
    assert trace is not None, "converters run in a trace"
    trace.demand(RelKind.GE, high, low, text)


def _integers(key: Any, sizes: Sequence[Any], low: Any, high: Any, dtype: Any) -> Tracer:
    least, end = unwrap_dim(low), unwrap_dim(high)
    if least is not None and end is not None:
        _demand(end - 1, least, "random integers are drawn from at least one")
    return random.randint(key, tuple(sizes), low, high, "int64").astype(dtype)


@draws("randint.default", "randint.generator")
def randint(key: Any, high: Any, sizes: Sequence[Any], dtype: Any = torch.int64, **options: Any) -> Tracer:
    return _integers(key, sizes, 0, high, numpy_dtype(dtype or torch.int64))


@draws("randint.low", "randint.low_generator")
def randint_from(
    key: Any, low: Any, high: Any, sizes: Sequence[Any], dtype: Any = torch.int64, **options: Any
) -> Tracer:
    return _integers(key, sizes, low, high, numpy_dtype(dtype or torch.int64))


@draws("randint_like.default", "randint_like.generator", "randint_like.Tensor", "randint_like.Tensor_generator",
       order=named_order)  # fmt: skip
def randint_like(key: Any, a: Tracer, high: Any, dtype: Any = None, **options: Any) -> Tracer:
    return _integers(key, a.shape, 0, high, a.dtype if dtype is None else numpy_dtype(dtype))


@draws("randint_like.low_dtype", "randint_like.low_generator_dtype", order=named_order)
def randint_like_from(key: Any, a: Tracer, low: Any, high: Any, dtype: Any = None, **options: Any) -> Tracer:
    return _integers(key, a.shape, low, high, a.dtype if dtype is None else numpy_dtype(dtype))


def _most(dtype: Any) -> int:
    """The greatest of the integers that ``random_()`` draws: all of the dtype, of floats those that are exact."""
    chosen = np.dtype(dtype)
    if chosen.kind in "iu":
        return min(int(np.iinfo(chosen).max), 2**63 - 1)
    return 1 if chosen.kind == "b" else 2 ** _DIGITS[chosen.name][0]


@draws("random.default", order=_of_first)
def random_whole(key: Any, a: Tracer) -> Tracer:
    most = _most(a.dtype)
    if most == 2**63 - 1:
        return (random.bits(key, a.shape, "uint64") >> 1).astype(a.dtype)
    return _integers(key, a.shape, 0, most + 1, a.dtype)


@draws("random.to", order=_of_first)
def random_to(key: Any, a: Tracer, high: Any) -> Tracer:
    return _integers(key, a.shape, 0, high, a.dtype)


@draws("random.from", order=_of_first)
def random_from(key: Any, a: Tracer, low: Any, high: Any) -> Tracer:
    return _integers(key, a.shape, low, _most(a.dtype) + 1 if high is None else high, a.dtype)


@draws("randperm.default", "randperm.generator")
def randperm(key: Any, count: Any, dtype: Any = torch.int64, **options: Any) -> Tracer:
    return random.permutation(key, count).astype(numpy_dtype(dtype or torch.int64))


@draws("multinomial.default")
def multinomial(key: Any, weights: Tracer, count: Any, replacement: bool = False) -> Tracer:
    """Places, each as likely as its weight: the least of exponential numbers over weights, or by running sums."""
    rows = weights if weights.ndim == 2 else weights[None]
    rows = rows.astype(_wide(rows.dtype))
    _demand(unwrap_dim(count), 1, "some categories are drawn")
    require_probabilities(rows)
    if replacement:
        sums = dnp.cumsum(rows, axis=-1)
        target = _unit(key, (rows.shape[0], count), rows.dtype) * dnp.max(sums, axis=-1, keepdims=True, initial=0)
        places = dnp.sum(sums[:, None, :] <= target[:, :, None], axis=-1, dtype="int64")
    else:
        _demand(rows.dims[1], unwrap_dim(count), "without replacement there are as many categories as are drawn")
        times = _exponential(key, rows.shape, rows.dtype) / rows
        places = dnp.argsort(times, axis=-1, stable=True)[:, :count]
    return places if weights.ndim == 2 else places[0]


# ---- in place --------------------------------------------------------------------------------------------------------


@in_place("bernoulli_.float")
def bernoulli_(tracing: TorchTracing, target: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """``bernoulli_``, whose functional sibling has no default for ``p``."""
    tracing.write(target, bernoulli_like(tracing.keys.new(generator), record_of(target).value, p))
    return target


@in_place("normal_.default")
def normal_(tracing: TorchTracing, target: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Any:
    """``normal_``, whose functional sibling has another name."""
    tracing.write(target, normal(tracing.keys.new(generator), record_of(target).value, mean, std))
    return target
