"""Operations on values at the edges, where XLA's results are not the specification's, or where it leaves them open.

Each group is arguments and functions of them; a group is one program of JAX and one of dyn. Numbers so small that they
are subnormal are left out: XLA takes them for zeros on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

Cases = dict[str, Callable[..., Any]]
Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf

FLOATS = np.array(
    [
        0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, NAN, -NAN, INF, -INF, 3.4e38, -3.4e38, 127.5, 128, 255.7,
        256, -128.5, -129, 32767.5, 65535.9, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967296.0,
        9.223372e18, -9.223372e18, 1.8446744e19, 1e20, -1e20,
    ],
    np.float32,
)  # fmt: skip
WIDE = np.concatenate([FLOATS.astype(np.float64), [1e300, -1e300, 2147483647.5, -2147483648.9, 4294967295.9]])
with np.errstate(over="ignore"):
    ALL_FLOATS = {
        "float32": FLOATS,
        "float64": WIDE,
        "float16": FLOATS.astype(np.float16),
        "bfloat16": FLOATS.astype(ml_dtypes.bfloat16),
    }
INTEGERS = {
    "int8": np.array([0, 1, -1, 2, 7, 8, -8, 100, 127, -127, -128], np.int8),
    "int32": np.array([0, 1, -1, 2, -2, 7, 31, 32, 33, 63, 64, -100, 2**31 - 1, -(2**31)], np.int32),
    "uint32": np.array([0, 1, 2, 7, 31, 32, 33, 64, 100, 2**31, 2**32 - 1], np.uint32),
    "int64": np.array([0, 1, -1, 2, 63, 64, 65, 2**31, 2**63 - 1, -(2**63), 2**53 + 1], np.int64),
}
TARGETS = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "float16", "bfloat16", "float32",
    "float64", "complex64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


def pairs(values: Array) -> tuple[Array, Array]:
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


def conversions() -> Cases:
    return {t: (lambda x, t=t: lax.convert_element_type(x, t)) for t in TARGETS}


INTEGER_PAIRS: Cases = {
    "div": lax.div, "rem": lax.rem, "shift_left": lax.shift_left, "arithmetic": lax.shift_right_arithmetic,
    "logical": lax.shift_right_logical, "mul": lax.mul, "add": lax.add, "max": lax.max, "min": lax.min,
    "floor_divide": lambda x, y: x // y, "mod": lambda x, y: x % y, "neg": lambda x, y: -x,
    "abs": lambda x, y: jnp.abs(x), "sign": lambda x, y: lax.sign(x), "count": lambda x, y: lax.population_count(x),
    "clz": lambda x, y: lax.clz(x), "clamp": lambda x, y: lax.clamp(x, y, x - 1),
    "cube": lambda x, y: lax.integer_pow(x, 3), "power": jnp.power, "divmod": lambda x, y: jnp.divmod(x, y)[0],
    "by a constant": lambda x, y: lax.div(x, jnp.full_like(x, 3)),
}  # fmt: skip

FLOAT_PAIRS: Cases = {
    "max": lax.max, "min": lax.min, "rem": lax.rem, "pow": lax.pow, "atan2": lax.atan2, "next": lax.nextafter,
    "clamp": lambda x, y: lax.clamp(x, y, jnp.ones_like(x)), "clamp 1": lambda x, y: lax.clamp(jnp.ones_like(x), x, y),
    "div": lax.div, "mod": lambda x, y: x % y, "floor_divide": lambda x, y: x // y, "fmod": jnp.fmod,
    "heaviside": jnp.heaviside, "copysign": jnp.copysign, "fmax": jnp.fmax, "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
}  # fmt: skip

FLOAT_FUNCTIONS: Cases = {
    "sign": lax.sign, "away": lax.round,
    "even": jnp.rint, "ceil": lax.ceil, "floor": lax.floor,
    "trunc": jnp.trunc, "exp": lax.exp, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p, "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "tanh": lax.tanh, "logistic": lax.logistic, "asin": lax.asin,
    "acosh": lax.acosh, "atanh": lax.atanh, "erf": lax.erf, "erf_inv": lax.erf_inv, "digamma": lax.digamma,
    "5, 2 bits": lambda x: lax.reduce_precision(x, 5, 2), "2, 0 bits": lambda x: lax.reduce_precision(x, 2, 0),
    "power -2": lambda x: lax.integer_pow(x, -2), "power 0": lambda x: lax.integer_pow(x, 0),
    "argmax": lambda x: lax.argmax(x, 0, np.int32), "argmin": lambda x: lax.argmin(x, 0, np.int32),
    "argmax of zeros": lambda x: jnp.argmax(x[:2]), "argmin of zeros": lambda x: jnp.argmin(x[:2]), "sort": lax.sort,
    "order": lambda x: lax.sort((x, lax.iota(np.int32, x.shape[0])), num_keys=1)[1],
    "top": lambda x: lax.top_k(x, 5), "max": lambda x: lax.reduce_max(x, (0,)), "min": lambda x: jnp.min(x[:10]),
    "max of zeros": lambda x: jnp.max(x[:2]), "min of zeros": lambda x: jnp.min(x[:2]), "cummax": lax.cummax,
    "cummin": lambda x: lax.cummin(x, reverse=True), "cumsum": lambda x: lax.cumsum(x[:8], reverse=True),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x), x), "frexp": lambda x: jnp.frexp(x)[1],
    "unique": lambda x: jnp.unique(x, size=40), "nan_to_num": jnp.nan_to_num, "signbit": jnp.signbit,
}  # fmt: skip

LINE = np.arange(1, 11, dtype=np.float32)
GRID = np.arange(20, dtype=np.float32).reshape(4, 5)
PLACES = np.array([[-2], [-1], [0], [5], [8], [9], [10], [100]], np.int32)
CORNERS = np.array([[0, 0], [3, 4], [2, 3], [-1, 0], [0, -1], [3, 3], [2, 4], [4, 5]], np.int32)
UPDATES = np.arange(16, dtype=np.float32).reshape(8, 2)
BLOCKS = 100 + np.arange(32, dtype=np.float32).reshape(8, 2, 2)
_SCATTERS = {
    "set": lax.scatter, "add": lax.scatter_add, "min": lax.scatter_min, "max": lax.scatter_max, "mul": lax.scatter_mul,
}  # fmt: skip
_ALONG = lax.ScatterDimensionNumbers((1,), (), (0,))
_ONE = lax.ScatterDimensionNumbers((0,), (), (0,))
_NUMBERS = {
    "blocks": lax.ScatterDimensionNumbers((1, 2), (), (0, 1)),
    "rows": lax.ScatterDimensionNumbers((1,), (0,), (0, 1)),
    "columns": lax.ScatterDimensionNumbers((1,), (1,), (0, 1)),
    "exchanged": lax.ScatterDimensionNumbers((1, 2), (), (1, 0)),
}


def scatters() -> Cases:
    made: Cases = {}
    for name, scatter in _SCATTERS.items():
        for mode in ("clip", "fill", None):
            made[f"{name}, {mode}"] = lambda x, i, u, s=scatter, m=mode: s(x, i, u, _ALONG, mode=m)
            made[f"{name} at 9, {mode}"] = lambda x, i, u, s=scatter, m=mode: s(x, i[5], u[0], _ONE, mode=m)
        for mode in ("clip", "drop"):
            at = {"set": "set", "add": "add", "min": "min", "max": "max", "mul": "multiply"}[name]
            made[f"at.{at}, {mode}"] = lambda x, i, u, a=at, m=mode: getattr(x.at[i[:, 0]], a)(7.0, mode=m)
    made["sub"] = lambda x, i, u: lax.scatter_sub(x, i, u, _ALONG)
    made["apply"] = lambda x, i, u: lax.scatter_apply(x, i, jnp.sin, _ALONG, update_shape=(8, 2))
    for dtype in ("uint8", "int8", "uint64"):
        made[f"places of {dtype}"] = lambda x, i, u, d=dtype: lax.scatter_add(x, i.astype(d), u, _ALONG)
    made["segment_sum"] = lambda x, i, u: jax.ops.segment_sum(u, i[:, 0], 6)
    return made


def scatters_of_blocks() -> Cases:
    made: Cases = {}
    for name, numbers in _NUMBERS.items():
        for kind in ("set", "add"):

            def case(x: Any, i: Any, u: Any, n: Any = numbers, s: Any = _SCATTERS[kind]) -> Any:
                return s(x, i, u if len(n.update_window_dims) == 2 else u[:, 0], n)

            made[f"{name}, {kind}"] = case
    return made


def gathers() -> Cases:
    along, blocks = lax.GatherDimensionNumbers((1,), (), (0,)), lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    made: Cases = {}
    for mode in ("clip", "fill"):
        made[f"along, {mode}"] = lambda x, y, i, j, m=mode: lax.gather(x, i, along, (2,), mode=m)
        made[f"blocks, {mode}"] = lambda x, y, i, j, m=mode: lax.gather(y, j, blocks, (2, 2), mode=m)
        for dtype in ("int32", "uint8", "bool"):
            made[f"{dtype}, {mode}"] = lambda x, y, i, j, d=dtype, m=mode: lax.gather(
                x.astype(d), i, along, (2,), mode=m
            )
    made["promised"] = lambda x, y, i, j: lax.gather(x, i, along, (2,), mode="promise_in_bounds")
    made["another value"] = lambda x, y, i, j: lax.gather(x, i, along, (2,), mode="fill", fill_value=-5)
    for mode in ("fill", "clip", "wrap"):
        made[f"take, {mode}"] = lambda x, y, i, j, m=mode: jnp.take(x, i, mode=m)
    made["x[i]"] = lambda x, y, i, j: x[i]
    made["y[i, j]"] = lambda x, y, i, j: y[j[:, 0], j[:, 1]]
    for dtype in ("int32", "uint32", "uint64"):
        made[f"dynamic_slice, {dtype}"] = lambda x, y, i, j, d=dtype: jnp.stack(
            [lax.dynamic_slice(x, (i[k, 0].astype(d),), (3,)) for k in range(8)]
        )
    made["update"] = lambda x, y, i, j: jnp.stack(
        [lax.dynamic_update_slice(y, -jnp.ones((2, 3), "f4"), (i[k, 0], j[k, 1])) for k in range(8)]
    )
    return made


def windows() -> Cases:
    made: Cases = {}
    monoids = {"add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min}
    for name, fn in monoids.items():
        for init in (0.0, 1.0, -3.0, NAN):
            for padding in ("SAME", "VALID", ((1, 3),), ((-1, -2),)):
                made[f"{name} from {init}, {padding}"] = lambda x, y, z, f=fn, i=init, p=padding: lax.reduce_window(
                    x, np.float32(i), f, (4,), (2,), p
                )
            made[f"{name} from {init}, dilated"] = lambda x, y, z, f=fn, i=init: lax.reduce_window(
                x, np.float32(i), f, (3,), (1,), ((2, 2),), base_dilation=(2,), window_dilation=(2,)
            )
    half: Any = lambda a, b: a * np.float32(0.5) + b  # noqa: E731
    made["in order"] = lambda x, y, z: lax.reduce_window(x, np.float32(2), half, (3,), (1,), ((1, 1),))
    made["in order, dilated"] = lambda x, y, z: lax.reduce_window(
        x, np.float32(2), half, (3,), (1,), ((1, 1),), base_dilation=(2,)
    )
    made["in order, cut"] = lambda x, y, z: lax.reduce_window(x, np.float32(2), half, (3,), (1,), ((-1, 0),))
    made["two arrays"] = lambda x, y, z: lax.reduce_window(
        (x, z), (np.float32(-1), np.int32(7)), lambda a, b: (lax.add(a[0], b[0]), lax.max(a[1], b[1])), (3,), (1,),
        ((1, 1),),
    )  # fmt: skip
    for name, fn in {"or": lax.bitwise_or, "and": lax.bitwise_and, "xor": lax.bitwise_xor}.items():
        made[name] = lambda x, y, z, f=fn: lax.reduce_window(z, np.int32(5), f, (3,), (1,), ((1, 2),))
    made["nothing"] = lambda x, y, z: lax.reduce_window(x[:0], np.float32(2), lax.add, (2,), (1,), ((1, 2),))
    made["two axes"] = lambda x, y, z: lax.reduce_window(y, np.float32(2), lax.add, (2, 3), (1, 2), ((1, 1), (2, 0)))
    made["running"] = lambda x, y, z: lax.reduce_window(x, np.float32(2), lax.add, (10,), (1,), ((9, 0),))
    made["reduce"] = lambda x, y, z: lax.reduce(y, np.float32(2), lax.add, (0,))
    made["reduce in order"] = lambda x, y, z: lax.reduce(y, np.float32(2), half, (1,))
    made["reduce nothing"] = lambda x, y, z: lax.reduce(y[:0], np.float32(2), lax.add, (0,))
    return made


IMAGE = np.random.default_rng(0).integers(-3, 4, (4, 6, 5)).astype(np.float32)
KERNEL = np.random.default_rng(1).integers(-3, 4, (8, 3, 2)).astype(np.float32)


def _convolved(x: Any, k: Any, **how: Any) -> Any:
    return lax.conv_general_dilated(x, k, dimension_numbers=("NCH", "OIH", "NCH"), **how)


_BITS: tuple[Any, ...] = ("uint8", "uint32", "uint64")

MIXED: Cases = {
    "negative padding": lambda x, k: _convolved(
        x, k, window_strides=(1,), padding=((-2, 3),), feature_group_count=2, lhs_dilation=(2,), rhs_dilation=(2,)
    ),
    "groups of a batch": lambda x, k: _convolved(
        x[:, :3], k, window_strides=(1,), padding=((-1, 2),), batch_group_count=2
    ),
    "small integers": lambda x, k: _convolved(
        x.astype("int8") * 40, k.astype("int8"), window_strides=(1,), padding=((1, 1),), feature_group_count=2
    ),
    "preferred type": lambda x, k: _convolved(
        x.astype("int8"), k.astype("int8"), window_strides=(1,), padding=((1, 1),), feature_group_count=2,
        preferred_element_type=np.int32,
    ),
    "products that overflow": lambda x, k: [
        lax.dot((x[0] * 50).astype(t), (x[0].T * 50).astype(t)) for t in ("int8", "uint8", "int16", "int32")
    ],
    "products of truths": lambda x, k: lax.dot(x[0] > 0, x[0].T > 0),
    "products of mixed types": lambda x, k: lax.dot_general(
        x[0].astype("bfloat16"), x[0].T, (((1,), (0,)), ((), ())), preferred_element_type=np.float32
    ),
    "pad": lambda x, k: lax.pad(x[0], np.float32(9), ((-8, 2, 1), (-2, -2, 2))),
    "pad, cut": lambda x, k: lax.pad(x[0], np.float32(9), ((-6, 0, 0), (-20, 22, 2))),
    "iota": lambda x, k: [lax.iota(t, 300) for t in ("int8", "uint8", "float16", "bfloat16", "complex64")],
    "bitcast": lambda x, k: [
        lax.bitcast_convert_type(x, np.uint8), lax.bitcast_convert_type((x * 1000).astype("int8")[:, :, :4], np.int32),
        lax.bitcast_convert_type(x[:, :, :2], np.int64),
    ],
    "switch": lambda x, k: [
        lax.switch(jnp.int32(i), [lambda v: v, lambda v: v * 2, lambda v: v * 3], x) for i in (-5, -1, 0, 2, 3, 100)
    ],
    "clamp by crossed bounds": lambda x, k: lax.clamp(np.float32(2), x, np.float32(-2)),
    "bits": lambda x, k: [
        lax.rng_bit_generator(np.arange(4).astype("uint32"), (n,), dtype=t, algorithm=a)
        for n in (0, 1, 2, 5)
        for t in _BITS
        for a in (lax.RandomAlgorithm.RNG_THREE_FRY, lax.RandomAlgorithm.RNG_PHILOX)
    ],
    "slope of a window": lambda x, k: jax.grad(
        lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (3,), (2,), ((1, 1),)).sum()
    )(jnp.array([1, 1, NAN, 2, 2, 3, NAN, NAN, 1, 0], "f4")),
    "ragged_dot": lambda x, k: [
        lax.ragged_dot(x[0], jnp.ones((2, 5, 3), "f4"), jnp.array([2, n], "i4")) for n in (3, 30, -1)
    ],
    "no Cholesky factor": lambda x, k: lax.linalg.cholesky(-x[0, :5] @ x[0, :5].T),
    "means of nothing": lambda x, k: jnp.mean(x[:0]),
}  # fmt: skip

GROUPS: dict[str, tuple[tuple[Array, ...], Cases]] = {
    **{f"integers of {t}": (pairs(v), INTEGER_PAIRS) for t, v in INTEGERS.items()},
    **{f"conversions of {t}": ((v,), conversions()) for t, v in {**ALL_FLOATS, **INTEGERS}.items()},
    **{f"pairs of {t}": (pairs(v), FLOAT_PAIRS) for t, v in ALL_FLOATS.items() if t in ("float32", "bfloat16")},
    **{f"functions of {t}": ((v,), FLOAT_FUNCTIONS) for t, v in ALL_FLOATS.items() if t in ("float32", "bfloat16")},
    "scatters": ((LINE, PLACES, UPDATES), scatters()),
    "scatters of blocks": ((GRID, CORNERS, BLOCKS), scatters_of_blocks()),
    "gathers": ((LINE, GRID, PLACES, CORNERS), gathers()),
    "windows": ((LINE, GRID, np.arange(10, dtype=np.int32)), windows()),
    "others": ((IMAGE, KERNEL), MIXED),
}
