"""Steps of random programs with the operations that everyday functions do not come down to.

What is in ``tests.models.random_programs`` and ``random_regions`` draws the rest: ``test_every_op_is_drawn`` sees to it
that together they leave nothing out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dyn.dtypes import Kind

if TYPE_CHECKING:
    from dyn.trace.tracer import Tracer
    from tests.models.random_programs import Chooser

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _float(t: Tracer) -> bool:
    return t.element_type.name in _FLOATS


def _wide(t: Tracer) -> bool:
    return t.element_type.name in ("float32", "float64")


def _integer(t: Tracer) -> bool:
    return t.element_type.is_integer


def _with_axis(t: Tracer) -> bool:
    return t.ndim > 0


def _ordered(t: Tracer) -> bool:
    return t.ndim > 0 and t.element_type.kind is not Kind.COMPLEX


@dataclass(frozen=True)
class Texts:
    """A step on a value for which ``keep`` holds: one of the texts that are made for it."""

    keep: Callable[[Tracer], bool]
    texts: Callable[[Chooser, str], list[str]]

    def all(self, c: Chooser) -> list[str]:
        x = c.value(self.keep)
        return [] if x is None else self.texts(c, x)

    def __call__(self, c: Chooser) -> str | None:
        texts = self.all(c)
        return c.one(*texts) if texts else None


# ---- of each element -------------------------------------------------------------------------------------------------


def _unary(c: Chooser, x: str) -> list[str]:
    names = (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan", "erf", "erfc", "erf_inv", "lgamma",
        "digamma", "sign", "is_finite", "bessel_i0e", "bessel_i1e", "rsqrt", "logistic", "cbrt", "exp2", "square",
        "stop_gradient",
    )  # fmt: skip
    return [
        *(f"dyn.lax.{name}({x})" for name in names), *(f"op('{name}', {x})" for name in (*names[:6], "trigamma")),
        f"dyn.lax.round({x}, dyn.lax.RoundingMethod.{c.one('TO_NEAREST_EVEN', 'AWAY_FROM_ZERO')})",
        f"dyn.lax.polygamma({c.one(0, 1, 2)}, {x})", f"dyn.lax.integer_pow({x}, {c.one(0, 1, 2, 3, -1)})",
        *(f"op('{name}', {x})" for name in ("is_inf", "is_pos_inf", "is_neg_inf", "round_nearest_afz", "copy")),
        f"dyn.lax.reduce_precision({x}, {c.one(5, 8)}, {c.one(3, 10)})", f"dnp.sinc({x})", f"dnp.i0({x})",
        f"dnp.frexp({x})[0]", f"dnp.modf({x})[0]", f"dnp.spacing({x})", f"dnp.deg2rad({x})", f"dnp.isposinf({x})",
    ]  # fmt: skip


def _several(c: Chooser, x: str) -> list[str]:
    near = c.value(lambda t: t.ndim == c.rank(x) and t.element_type is c.dtype(x)) or x
    y = c.one(near, f"dnp.flip({x})", f"dnp.cos({x})")
    return [
        *(f"dyn.lax.{name}({x}, {y})" for name in ("nextafter", "atan2", "pow", "rem", "max", "sub", "igamma", "zeta")),
        f"op('next_after', {x}, {y})", f"op('atan2', {x}, {y})", f"op('fused_multiply_add', {x}, {y}, {x})",
        f"dyn.lax.complex({x}, {y})", f"op('complex', {x}, {y})", f"dyn.lax.clamp({x}, {y}, {x})",
        f"dyn.lax.select({x} > 0, {x}, {y})", f"dyn.lax.betainc(dnp.exp({x}), dnp.exp({y}), dyn.nn.sigmoid({x}))",
        f"mapped(lambda a: a * 2 + dnp.sin(a), {x})", f"mapped(lambda a: dnp.where(a > 0, a, a * a), {x})",
        f"halved({x})", f"dyn.checkpoint_name({x}, 'x')", f"dyn.lax.optimization_barrier(({x}, {y}))[{c.one(0, 1)}]",
        f"dyn.lax.composite(lambda a, b: a * b + a, 'tests.both')({x}, {y})",
    ]  # fmt: skip


def _bits(c: Chooser, x: str) -> list[str]:
    near = c.value(lambda t: t.ndim == c.rank(x) and t.element_type is c.dtype(x)) or x
    shifts = ("shift_left", "shift_right_logical", "shift_right_arithmetic", "bitwise_xor")
    return [
        *(f"dyn.lax.{name}({x}, {near})" for name in shifts), f"dyn.lax.clz({x})", f"dyn.lax.population_count({x})",
        f"op('count_leading_zeros', {x})", f"op('popcnt', {x})", f"dyn.lax.bitwise_not({x})", f"dnp.gcd({x}, {near})",
        f"dnp.lcm({x} % 8, {near} % 6)", f"op('sign', {x})", f"dyn.lax.rem({x}, {near})", f"dyn.lax.div({x}, {near})",
    ]  # fmt: skip


def _as_bits(c: Chooser, x: str) -> list[str]:
    same = {8: "uint8 int8", 16: "uint16 int16 float16 bfloat16", 32: "uint32 int32 float32", 64: "uint64 int64"}
    other = {8: "uint16", 16: "uint8 uint32", 32: "uint16 uint64", 64: "int32 uint8"}
    return [f"dyn.lax.bitcast_convert_type({x}, '{c.one(*kinds[c.dtype(x).bits].split())}')" for kinds in (same, other)]


# ---- places and order ------------------------------------------------------------------------------------------------


def _windows_in(c: Chooser, x: str) -> list[str]:
    rank, axis = c.rank(x), c.axis(x)
    number = c.value(lambda t: t.element_type.is_integer and t.ndim == 0) or c.one("1", "-1", "40")
    starts = f"({', '.join([number] * rank)},)"
    halves = f"tuple(d // 2 for d in {x}.shape)"
    pads = ", ".join(c.one("(0, 0, 0)", "(1, 2, 0)", "(-1, 0, 1)", "(0, -1, 0)", "(2, 0, 2)") for _ in range(rank))
    return [
        f"dyn.lax.dynamic_slice({x}, {starts}, {halves})", f"dyn.lax.dynamic_index_in_dim({x}, {number}, {axis})",
        f"dyn.lax.dynamic_update_slice({x}, {x}[{', '.join([':2'] * rank)}], {starts})",
        f"dyn.lax.dynamic_update_index_in_dim({x}, dnp.take({x}, 0, axis={axis}, mode='clip'), {number}, {axis})",
        f"dyn.lax.pad({x}, {x}.dtype.type(1), ({pads},))", f"dyn.lax.rev({x}, (0,))", f"dyn.lax.collapse({x}, 0)",
        f"dyn.lax.split({x}, ({x}.shape[0] // 2, {x}.shape[0] - {x}.shape[0] // 2))[{c.one(0, 1)}]",
        f"dyn.lax.slice_in_dim({x}, 0, {x}.shape[{axis}], 2, {axis})", f"dnp.kron({x}, {x}[:2])",
        f"op('get_dimension_size', {x}, dimension={axis % rank}) + {x}.astype('int32')",
        f"dyn.lax.broadcasted_iota('float32', {x}.shape, 0)", f"dnp.insert({x}, 0, 1, axis={axis})",
    ]  # fmt: skip


def _sorted(c: Chooser, x: str) -> list[str]:
    axis, most = c.axis(x), f"{x}[..., :{c.one(1, 2, 5)}].shape[-1]"
    y = c.value(lambda t: t.ndim == c.rank(x)) or x
    few = f"dnp.ravel({x})[:40]"  # the reference compares elements one by one, in Python
    down = f"lambda p, q: {c.one('p > q', 'dnp.abs(p) < dnp.abs(q)', 'p * p < q * q', '-p < -q', 'dnp.sin(p) < dnp.sin(q)')}"  # noqa: E501
    return [
        f"greatest_of({x})[{c.one(0, 1)}]",
        f"dyn.lax.top_k({x}, dnp.minimum(dnp.sum({x} > 0), {x}.shape[-1]))[0]",
        f"dyn.lax.top_k({x}, {x}.shape[-1] // 2)[{c.one(0, 1)}]", f"dyn.lax.top_k({x}, {most})[0]",
        f"dyn.lax.sort(({x}, {y}), {axis}, num_keys={c.one(1, 2)})[{c.one(0, 1)}]",
        f"dyn.lax.sort_key_val({x}, {y}, {axis})[1]", f"dyn.lax.sort_by({few}, {down})",
        f"dyn.lax.sort_by(({few}, {few} * 2), lambda p, q, r, s: (p < q) | ((p == q) & (r > s)))[{c.one(0, 1)}]",
        f"dnp.sort({x}, {axis}, descending=True)", f"dnp.argsort({x}, {axis}, descending=True)",
        f"dnp.lexsort(({x}, {x} * 0), {axis})", f"dnp.median({x}, {axis}, keepdims={c.one(True, False)})",
        f"dnp.quantile({x}, {c.one(0, 0.3, 1, [0.5, 0.9])}, {axis}, method='{c.one('linear', 'lower', 'nearest')}')",
        f"dnp.nanmedian({x}, {axis})", f"dnp.partition({x}[..., :1], 0)", f"dnp.searchsorted(dnp.sort({x}.ravel()), {y})",  # noqa: E501
        f"dnp.digitize({x}, dnp.asarray([-1.0, 0.0, 2.0]))", f"dnp.isin({x}, {y}.ravel()[:9])",
        f"dnp.interp({x}, dnp.arange(4.0), dnp.asarray([1.0, -1.0, 3.0, 0.5]))",
    ]  # fmt: skip


def _measured(c: Chooser, x: str) -> list[str]:
    """Shapes that depend on values."""
    axis = c.axis(x)
    return [
        f"{x}[{x} > 0]", f"dnp.nonzero({x})[0]", f"dnp.argwhere({x} > 1)", f"dnp.unique({x})", f"dnp.unique({x} > 0)",
        f"dnp.compress(dnp.ravel({x}) > 0, dnp.ravel({x}))", f"dnp.arange(dnp.sum({x} > 0))", f"dnp.trim_zeros(dnp.ravel({x}))",  # noqa: E501
        f"dnp.repeat({x}, (dnp.ravel({x})[:1] > 0).astype('int32'), axis=None)[:1]",
        f"dnp.bincount((dnp.ravel({x}) > 0).astype('int32'), length=3)", f"dnp.flatnonzero({x})",
        f"dnp.union1d({x}, {x}[::2])", f"dnp.sort({x}[{x} != 0])", f"dnp.cumsum({x}[{x} > 0])", f"dnp.unique({x}, axis={axis})",  # noqa: E501
        f"dnp.histogram({x}, 4, range=(-2, 2))[0]", f"dnp.extract({x} > 0, {x}) * 2",
    ]  # fmt: skip


# ---- folds and windows -----------------------------------------------------------------------------------------------


def _folds(c: Chooser, x: str) -> list[str]:
    rank, axis = c.rank(x), c.axis(x) % c.rank(x)
    window = tuple(c.one(1, 2, 3) if a == axis else 1 for a in range(rank))
    strides = tuple(c.one(1, 2) if a == axis else 1 for a in range(rank))
    padding = c.one("'SAME'", "'VALID'")
    zero = f"{x}.dtype.type(0)"
    fold = c.one("dyn.lax.add", "dyn.lax.max", "lambda p, q: p * dyn.lax.full_like(p, 2) + q")
    combine = c.one("lambda p, q: p + q", "dnp.maximum", "lambda p, q: p * q", "lambda p, q: dnp.fmin(p, q)")
    least = f"{x} * 0 - 1"
    return [
        f"dyn.lax.reduce_window({x}, {zero}, {fold}, {window}, {strides}, {padding})",
        f"dyn.lax.reduce_window(({x}, {x}), (0, 1), lambda p, q: (dnp.maximum(p[0], q[0]), p[1] - q[1]), {window}, {strides}, {padding})[{c.one(0, 1)}]",  # noqa: E501
        f"dyn.lax.select_and_scatter({x}, dyn.lax.ge, {window}, {strides}, {padding}, "
        f"dyn.lax.reduce_window({x}, {zero}, dyn.lax.add, {window}, {strides}, {padding}), {zero}, dyn.lax.add)",
        f"dyn.lax.cum{c.one('max', 'min', 'sum', 'prod', 'logsumexp')}({x}, {axis}, {c.one(True, False)})",
        f"dyn.lax.associative_scan({combine}, {x}, {c.one(True, False)}, {axis})",
        f"dyn.lax.reduce_{c.one('max', 'min', 'prod', 'sum', 'xor', 'or')}({x}, ({axis},))",
        f"dyn.lax.arg{c.one('max', 'min')}({x}, {axis}, 'int32')", f"dnp.average({x}, axis={axis}, weights=dnp.exp({least}))",  # noqa: E501
        f"dnp.gradient(dnp.concatenate([{x}, {x}, {x}], axis={axis}), axis={axis})", f"dnp.trapezoid({x}, axis={axis})",
        f"dyn.lax.csr_matmul(dnp.ravel({x})[:9], dnp.arange(dnp.ravel({x})[:9].shape[0]) * {c.one(3, 7)} % 5 - 1, "
        f"dnp.asarray({c.one([0, 2, 2, 5, 99], [1, 3], [0])}), {x})",
        f"dnp.convolve(dnp.ravel({x})[:30], dnp.asarray([1, 2, 1]), mode='{c.one('full', 'same')}')",
    ]  # fmt: skip


def _of_windows(c: Chooser, x: str) -> list[str]:
    """What chooses an element of each window: a greatest one passes its cotangent on."""
    axis, size, stride = c.axis(x) % c.rank(x), c.one(1, 2, 3), c.one(1, 2)
    window, strides = (tuple(n if a == axis else 1 for a in range(c.rank(x))) for n in (size, stride))
    zero, padding = f"{x}.dtype.type(0)", c.one("'SAME'", "'VALID'")
    pool = f"dyn.nn.max_pool(dnp.reshape(a, (1, -1, 1)), {size}, {stride})"
    fold = f"dyn.lax.reduce_window(a, {zero}, dyn.lax.{c.one('max', 'min')}, {window}, {strides}, {padding})"
    return [
        *(f"dyn.grad(lambda a: dnp.sum(({y}) ** 2))({x})" for y in (pool, fold)),
        f"dyn.jvp(lambda a: {fold}, ({x},), ({x},))[1]",
    ]  # fmt: skip


def _normal(c: Chooser, x: str) -> list[str]:
    axis = c.axis(x) % c.rank(x)
    others = tuple(a for a in range(c.rank(x)) if a != axis)
    mean, spread = f"dnp.sum({x}, {others}) * 0.1", f"dnp.sum({x} * {x}, {others}) * 0.1"
    kind = f"{x}.dtype"
    mean, spread = f"({mean}).astype({kind})", f"({spread}).astype({kind})"
    return [
        f"dyn.lax.batch_norm_training({x}, {mean}, {spread}, 0.1, {axis})[{c.one(0, 1, 2)}]",
        f"dyn.lax.batch_norm_inference({x}, {mean}, {spread}, {mean}, {spread}, 0.1, {axis})",
        f"dyn.lax.batch_norm_grad({x}, {mean}, {mean}, {spread}, {x}, 0.1, {axis})[{c.one(0, 1, 2)}]",
    ]  # fmt: skip


# ---- matrices, spectra, chance ---------------------------------------------------------------------------------------


def _matrices(c: Chooser, x: str) -> list[str]:
    a, s = f"matrix({x})", f"positive({x})"
    return [
        f"dnp.linalg.inv({a})", f"dnp.linalg.det({a})", f"dnp.linalg.slogdet({a})[{c.one(0, 1)}]", f"dnp.linalg.pinv({a})",  # noqa: E501
        f"dnp.linalg.solve({a}, {s})", f"dnp.linalg.solve({a}, {s}[0, :])", f"dnp.linalg.cholesky({s})", f"op('adjugate', {a})",  # noqa: E501
        f"dnp.linalg.eigvalsh({s})", f"dnp.abs(dnp.linalg.eigh({s})[1])", f"dnp.abs(dnp.linalg.eigvals({a}))",
        f"dnp.linalg.svdvals({a})", f"dnp.abs(dnp.linalg.svd({a})[0])", f"dnp.abs(dnp.linalg.qr({a})[{c.one(0, 1)}])",
        f"dyn.lax.linalg.lu({a})[0]", f"dnp.linalg.matrix_power({a}, {c.one(0, 1, 3, -1)})",
        f"dyn.lax.linalg.triangular_solve({a}, {s}, left_side={c.one(True, False)}, lower={c.one(True, False)})",
        f"dyn.lax.linalg.cholesky({s})", f"dnp.linalg.norm({a}, {c.one(None, 1, 2, repr('nuc'))})", f"dnp.linalg.lstsq({a}, {s})[0]",  # noqa: E501
        f"dyn.lax.dot_general({a}, {s}, (((1,), (0,)), ((), ())))", f"dnp.linalg.cond({a})", f"dnp.linalg.eig({a})[0]",
    ]  # fmt: skip


def _spectra(c: Chooser, x: str) -> list[str]:
    axis = c.axis(x)
    name = c.one("fft", "ifft", "rfft", "ihfft", "irfft", "hfft", "fftshift", "fftn", "rfftn")
    along = f"axes=({axis},)" if name in ("fftshift", "fftn", "rfftn") else f"axis={axis}"
    return [f"dnp.fft.{name}({x}, {along})", f"dnp.fft.{c.one('fft', 'rfft', 'irfft')}({x}, {c.one(1, 2, 5)})"]


def _chance(c: Chooser, x: str) -> list[str]:
    key = f"dyn.random.fold_in(dyn.random.key({c.one(0, 7)}), dnp.asarray({x}.size))"
    state = "dnp.asarray([3, 5], dtype='uint64')"
    return [
        *(f"dyn.random.{name}({key}, {x}.shape)" for name in ("normal", "uniform", "exponential", "gumbel", "laplace")),
        f"dyn.random.gamma({key}, dnp.exp(dnp.abs({x}) * 0.1))", f"dyn.random.poisson({key}, dnp.abs({x}) % 9)",
        f"dyn.random.randint({key}, {x}.shape, -3, 9)", f"dyn.random.bernoulli({key}, 0.3, {x}.shape)",
        f"dyn.random.permutation({key}, {x})", f"dyn.random.bits({key}, {x}.shape)", f"dyn.random.split({key}, 3)",
        f"dyn.random.truncated_normal({key}, -1.0, 2.0, {x}.shape)", f"dyn.random.categorical({key}, {x})",
        f"dyn.random.choice({key}, {x}, (3,))", f"dyn.random.dirichlet({key}, dnp.exp(dnp.abs({x})))",
        f"dyn.lax.rng_bit_generator({state}, {x}.shape)[{c.one(0, 1)}]",
        f"dyn.lax.rng_bit_generator({state}, {x}.shape, 'uint64', dyn.lax.RandomAlgorithm.RNG_PHILOX)[1]",
        f"dyn.vmap(lambda k: dyn.random.normal(k, (3,)))(dyn.random.split({key}, {x}.size % 5))",
    ]  # fmt: skip


FAMILIES: tuple[tuple[Texts, ...], ...] = (
    (Texts(lambda t: t.element_type.is_inexact, _unary),),
    (Texts(_float, _several), Texts(lambda _: True, _several)),
    (Texts(_integer, _bits), Texts(lambda t: t.element_type.kind is not Kind.BOOL and t.element_type.bits < 65
                                   and t.element_type.kind is not Kind.COMPLEX, _as_bits)),
    (Texts(_with_axis, _windows_in),),
    (Texts(_ordered, _sorted),),
    (Texts(_ordered, _measured),),
    (Texts(_ordered, _folds), Texts(lambda t: _wide(t) and t.ndim > 0, _of_windows)),
    (Texts(lambda t: _float(t) and t.ndim > 0, _normal),),
    (Texts(lambda _: True, _matrices),),
    (Texts(_with_axis, _spectra),),
    (Texts(_ordered, _chance), Texts(lambda t: _wide(t) and t.ndim > 0, _chance)),
)  # fmt: skip
