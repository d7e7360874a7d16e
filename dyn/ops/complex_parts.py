"""Complex arithmetic in real ops: ``OpDef.parts``.

A rule takes a builder, the op, and its operands, each a real value or the pair of a complex one's parts; it gives the
result in the same form. The formulas avoid overflow that the result does not have (R. L. Smith, "Algorithm 116", 1962,
for the quotient; W. Kahan, "Branch cuts for complex elementary functions", 1987, for the rest), and keep the signs of
zeros on the branch cuts. Errors are bounded relative to the result's absolute value, not part by part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ir.inline_regions import build_region
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic

Pair = tuple[Value, Value]
#: ``rule(builder, op, operands)``: a result, in real ops.
PartsRule = Callable[[Any, Any, tuple[Any, ...]], Any]

_BITS = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


def part_dtype(dtype: DType) -> DType:
    """The dtype of a complex dtype's parts; another dtype itself."""
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def stack(b: Builder, values: Sequence[Value], axis: int) -> Value:
    """Values of one type along a new axis."""
    shape = (*values[0].shape[:axis], 1, *values[0].shape[axis:])
    return b.op("concatenate", *[b.op("reshape", v, shape=shape) for v in values], dimension=axis)


def select_index(b: Builder, x: Value, axis: int, index: int) -> Value:
    """The elements at one index of an axis, without that axis."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    start = [index if a == axis else 0 for a in range(len(x.shape))]
    limit = [index + 1 if a == axis else size for a, size in enumerate(x.shape)]
    cut = b.op("slice", x, start=tuple(start), limit=tuple(limit), strides=(1,) * len(x.shape))
    return b.op("reshape", cut, shape=shape)


class Real(Arithmetic):
    """Real arithmetic on values, for rules that are formulas."""

    def copysign(self, size: Value, sign: Value) -> Value:
        """``size``, which is not negative, with the sign of ``sign``."""
        bits = self.b.op("bitcast_convert", sign, dtype=_BITS[sign.dtype])
        return self.where(self.cmp(bits, "LT", 0), self.f("negate", size), size)

    def hypot(self, x: Value, y: Value) -> Value:
        """``sqrt(x*x + y*y)``; infinite where either is, else NaN where either is."""
        a, c = self.f("abs", x), self.f("abs", y)
        high, low = self.f("maximum", a, c), self.f("minimum", a, c)
        plain = self.f("or", self.cmp(high, "EQ", 0.0), self.cmp(high, "EQ", math.inf))
        ratio = self.where(plain, 0.0, self.div(low, high))
        size = self.mul(high, self.f("sqrt", self.add(self.mul(ratio, ratio), 1.0)))
        infinite = self.f("or", self.cmp(a, "EQ", math.inf), self.cmp(c, "EQ", math.inf))
        return self.where(infinite, math.inf, size)

    def sinh_cosh(self, x: Value) -> Pair:
        """From ``t = exp(|x|) - 1``: sinh is ``(t + t / (t + 1)) / 2``, cosh is ``1 + t*t / (2 * (t + 1))``."""
        t = self.f("exponential_minus_one", self.f("abs", x))
        finite = self.f("is_finite", t)
        e = self.add(t, 1.0)
        share = self.where(finite, self.div(t, e), 1.0)
        sinh = self.copysign(self.mul(self.add(t, share), 0.5), x)
        half = self.mul(e, 0.5)
        cosh = self.add(half, self.div(self.fill(x, 0.5), e))
        return sinh, cosh

    def log_abs(self, x: Value, y: Value) -> Value:
        """``log(hypot(x, y))``, precise where that is near 0."""
        a, c = self.f("abs", x), self.f("abs", y)
        high, low = self.f("maximum", a, c), self.f("minimum", a, c)
        inside = self.f("and", self.cmp(high, "GT", 0.6), self.cmp(high, "LT", 1.7))
        excess = self.add(self.mul(self.sub(high, 1.0), self.add(high, 1.0)), self.mul(low, low))
        near = self.mul(self.f("log_plus_one", self.where(inside, excess, 0.0)), 0.5)
        return self.where(inside, near, self.f("log", self.hypot(x, y)))


# --- arithmetic -----------------------------------------------------------------------------------------------------


def componentwise(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """The op on the real parts, and on the imaginary parts; what is real is used in both."""
    re, im = (
        b.op(op.opdef.name, *[x[i] if isinstance(x, tuple) else x for x in operands], **op.attrs) for i in range(2)
    )
    return re, im


def product(r: Real, x: Pair, y: Pair) -> Pair:
    """``(a + bi) * (c + di)``, as it is written."""
    (a, b), (c, d) = x, y
    return r.sub(r.mul(a, c), r.mul(b, d)), r.add(r.mul(a, d), r.mul(b, c))


def quotient(r: Real, x: Pair, y: Pair) -> Pair:
    """Smith's: divided by the larger part of the divisor first. Of a divisor that is 0, both parts by its size."""
    (a, b), (c, d) = x, y
    first = r.cmp(r.f("abs", c), "GE", r.f("abs", d))
    p, q = r.where(first, c, d), r.where(first, d, c)
    u, v = r.where(first, a, b), r.where(first, b, a)
    zero = r.cmp(p, "EQ", 0.0)
    zero = r.f("and", zero, r.cmp(q, "EQ", 0.0))
    ratio = r.where(zero, 0.0, r.div(q, p))
    whole = r.where(zero, r.f("abs", p), r.add(p, r.mul(q, ratio)))
    re = r.where(zero, u, r.add(u, r.mul(v, ratio)))
    im = r.where(zero, v, r.sub(v, r.mul(u, ratio)))
    im = r.where(first, im, r.f("negate", im))
    return r.div(re, whole), r.div(im, whole)


def multiply(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    return product(Real(b), *operands)


def extreme(r: Real, x: Pair, y: Pair, direction: str) -> Pair:
    """The greater (``"GT"``) or lesser (``"LT"``) one of two numbers as NumPy orders them.

    That is by real parts, and by imaginary ones where these are equal. It is ``x`` where both are, and where ``x`` has
    a NaN; else ``y`` where that has one.
    """

    def is_nan(*parts: Value) -> Value:
        found = [r.cmp(part, "NE", part) for part in parts]
        return found[0] if len(found) == 1 else r.f("or", *found)

    beyond = r.f("and", r.cmp(x[0], direction, y[0]), r.f("not", is_nan(x[1], y[1])))
    level = r.f("and", r.cmp(x[0], "EQ", y[0]), r.cmp(x[1], direction.replace("T", "E"), y[1]))
    first = r.f("or", is_nan(*x), r.f("or", beyond, level))
    return r.where(first, x[0], y[0]), r.where(first, x[1], y[1])


def folded(name: str) -> PartsRule:
    """The rule of a fold by a monoid: sums are those of each part, and products the fold ``name`` with a body."""

    def rule(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
        if op.attrs["combine"] == "add":
            return componentwise(b, op, operands)
        (x,) = operands
        part = x[0].dtype

        def step(inner: Builder, p: tuple[Value, ...]) -> Pair:
            return product(Real(inner), (p[0], p[1]), (p[2], p[3]))

        body = build_region(b, [TensorType(part, ())] * 4, step)
        one, zero = (b.op("constant", value=Dense(part.np.type(number))) for number in (1, 0))
        attrs = {key: value for key, value in op.attrs.items() if key not in ("combine", "nonempty")}
        re, im = b.op_all(name, *x, one, zero, regions=(body,), **attrs)
        return re, im

    return rule


def divide(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    return quotient(Real(b), *operands)


def abs_(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Value:
    return Real(b).hypot(*operands[0])


def sign(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """``z / |z|``; of zero zero, and where one part alone is infinite its direction, as NumPy has it."""
    r, (re, im) = Real(b), operands[0]
    size = r.hypot(re, im)
    zero = r.cmp(size, "EQ", 0.0)
    endless = [r.cmp(r.f("abs", part), "EQ", math.inf) for part in (re, im)]
    one = r.f("xor", *endless)

    def direction(part: Value, infinite: Value) -> Value:
        inside = r.where(zero, part, r.div(part, size))
        return r.where(one, r.where(infinite, r.f("sign", part), 0.0), inside)

    return direction(re, endless[0]), direction(im, endless[1])


def compare(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Value:
    """EQ and NE: of both parts, of either."""
    re, im = componentwise(b, op, operands)
    return b.op("and" if op.attrs["direction"] == "EQ" else "or", re, im)


# --- exponentials ---------------------------------------------------------------------------------------------------


def _polar(r: Real, power: Value, angle: Value) -> Pair:
    """``exp(power) * (cos(angle) + i sin(angle))``; a zero angle stays what it is.

    Of an infinite power and an angle that is infinite or no number the result is 0, or its real part infinite, as C99
    (annex G) has it. Of a finite one it is NaN, also where ``exp(power)`` overflows or is 0.
    """
    size = r.f("exponential", power)
    re, im = r.mul(size, r.f("cosine", angle)), r.mul(size, r.f("sine", angle))
    lost = r.f("not", r.f("is_finite", angle))
    nothing = r.f("and", r.cmp(power, "EQ", -math.inf), lost)
    re = r.where(r.f("and", r.cmp(power, "EQ", math.inf), lost), size, re)
    flat = r.cmp(angle, "EQ", 0.0)
    none = r.copysign(r.fill(angle, 0.0), angle)
    return r.where(flat, size, r.where(nothing, 0.0, re)), r.where(flat, angle, r.where(nothing, none, im))


def exponential(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    r, (re, im) = Real(b), operands[0]
    return _polar(r, re, im)


def exponential_minus_one(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """``expm1(a) * cos(b) - 2 * sin(b / 2)**2`` is the real part."""
    r, (re, im) = Real(b), operands[0]
    half = r.f("sine", r.mul(im, 0.5))
    grown = r.f("exponential_minus_one", re)
    real = r.sub(r.mul(grown, r.f("cosine", im)), r.mul(r.mul(half, half), 2.0))
    # Where nothing but -1 is left of it the angle does not matter, nor where it is infinite and there is no angle.
    endless = r.f("and", r.cmp(r.f("abs", re), "EQ", math.inf), r.f("not", r.f("is_finite", im)))
    gone = r.f("and", r.cmp(grown, "EQ", -1.0), r.f("is_finite", im))
    plain = r.f("or", r.cmp(im, "EQ", 0.0), r.f("or", gone, endless))
    return r.where(plain, grown, real), _polar(r, re, im)[1]


def _log(r: Real, z: Pair) -> Pair:
    return r.log_abs(*z), r.f("atan2", z[1], z[0])


def log(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    return _log(Real(b), operands[0])


def log_plus_one(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """Near 0, half of ``log1p(a * (a + 2) + b * b)`` is the real part."""
    r, (re, im) = Real(b), operands[0]
    high = r.f("maximum", r.f("abs", re), r.f("abs", im))
    near = r.cmp(high, "LT", 0.5)
    excess = r.add(r.mul(re, r.add(re, 2.0)), r.mul(im, im))
    small = r.mul(r.f("log_plus_one", r.where(near, excess, 0.0)), 0.5)
    one = r.add(re, 1.0)
    return r.where(near, small, r.log_abs(one, im)), r.f("atan2", im, one)


def logistic(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """``1 / (1 + exp(-z))`` or ``exp(z) / (1 + exp(z))``, whichever does not overflow."""
    r, (re, im) = Real(b), operands[0]
    left = r.cmp(re, "LT", 0.0)
    angle = r.where(left, im, r.f("negate", im))
    e = _polar(r, r.f("negate", r.f("abs", re)), angle)
    numerator = r.where(left, e[0], 1.0), r.where(left, e[1], 0.0)
    return quotient(r, numerator, (r.add(e[0], 1.0), e[1]))


def power(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """``exp(w * log(z))``; ``z**0`` is 1, and 0 to a power with a positive real part is 0."""
    r, (z, w) = Real(b), operands
    exponent = product(r, w, _log(r, z))
    re, im = _polar(r, exponent[0], exponent[1])
    none = r.f("and", r.cmp(z[0], "EQ", 0.0), r.cmp(z[1], "EQ", 0.0))
    nothing = r.f("and", none, r.cmp(w[0], "GT", 0.0))
    undefined = r.f("and", none, r.cmp(w[0], "LE", 0.0))
    re, im = (r.where(nothing, 0.0, r.where(undefined, math.nan, v)) for v in (re, im))
    one = r.f("and", r.cmp(w[0], "EQ", 0.0), r.cmp(w[1], "EQ", 0.0))
    return r.where(one, 1.0, re), r.where(one, 0.0, im)


# --- roots ----------------------------------------------------------------------------------------------------------


def _sqrt(r: Real, z: Pair) -> Pair:
    """``t = sqrt((|a| + |z|) / 2)`` is one part up to its sign, and ``b / 2t`` the other."""
    re, im = z
    a, c = r.f("abs", re), r.f("abs", im)
    t = r.f("sqrt", r.add(r.mul(a, 0.5), r.mul(r.hypot(re, im), 0.5)))
    other = r.where(r.cmp(t, "EQ", 0.0), c, r.div(c, r.mul(t, 2.0)))
    endless = r.cmp(c, "EQ", math.inf)
    left = r.cmp(re, "LT", 0.0)
    real, size = r.where(left, other, t), r.where(left, t, other)
    return r.where(endless, math.inf, real), r.copysign(r.where(endless, math.inf, size), im)


def sqrt(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    return _sqrt(Real(b), operands[0])


def rsqrt(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    r = Real(b)
    root = _sqrt(r, operands[0])
    return quotient(r, (r.fill(root[0], 1.0), r.fill(root[0], 0.0)), root)


# --- trigonometry ---------------------------------------------------------------------------------------------------


def _grown(r: Real, share: Value, size: Value, angle: Value, x: Value) -> Value:
    """``share * size``, of an angle's share and ``sinh(x)`` or ``cosh(x)``.

    Where there is no angle it is the size, of an infinite ``x`` and of a size of 0; and NaN where a size overflows.
    """
    whole = r.f("or", r.cmp(size, "EQ", 0.0), r.cmp(r.f("abs", x), "EQ", math.inf))
    return r.where(r.f("and", whole, r.f("not", r.f("is_finite", angle))), size, r.mul(share, size))


def sine(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    r, (re, im) = Real(b), operands[0]
    sinh, cosh = r.sinh_cosh(im)
    real = r.mul(r.f("sine", re), cosh)
    return r.where(r.cmp(re, "EQ", 0.0), re, real), _grown(r, r.f("cosine", re), sinh, re, im)


def cosine(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    r, (re, im) = Real(b), operands[0]
    sinh, cosh = r.sinh_cosh(im)
    imag = r.mul(r.f("sine", re), sinh)
    # On the axes it is a zero, with the product of both signs, however large the other part is.
    axis = r.f("or", r.cmp(re, "EQ", 0.0), r.f("and", r.cmp(im, "EQ", 0.0), r.f("not", r.f("is_finite", re))))
    flat = r.mul(r.copysign(r.fill(re, 0.0), re), r.copysign(r.fill(im, 1.0), im))
    return _grown(r, r.f("cosine", re), cosh, re, im), r.f("negate", r.where(axis, flat, imag))


def _tanh(r: Real, z: Pair) -> Pair:
    """tanh, with ``t = tan(b)``, ``s = sinh(a)``, ``w = 1 + t*t``: ``(w*s * sqrt(1 + s*s) + i*t) / (1 + w * s*s)``.

    Where ``s`` is large it is ``±1 + i * 4 sin(b) cos(b) exp(-2|a|)``.
    """
    re, im = z
    a = r.f("abs", re)
    far = r.cmp(a, "GT", 20.0 if re.dtype is dtypes.float64 else 10.0)
    s, _ = r.sinh_cosh(r.where(far, 0.0, re))
    t = r.f("tan", im)
    w = r.add(r.mul(t, t), 1.0)
    square = r.mul(s, s)
    whole = r.add(r.mul(w, square), 1.0)
    real = r.div(r.mul(r.mul(w, s), r.f("sqrt", r.add(square, 1.0))), whole)
    small = r.mul(r.f("exponential", r.mul(a, -2.0)), 4.0)
    rest = r.mul(r.mul(r.f("sine", im), r.f("cosine", im)), small)
    endless, lost = r.cmp(a, "EQ", math.inf), r.f("not", r.f("is_finite", im))
    rest = r.where(r.f("and", endless, lost), r.copysign(r.fill(im, 0.0), im), rest)
    one = r.f("and", far, r.f("or", endless, r.f("is_finite", im)))  # else it is NaN, as the tangent is
    return (
        r.where(one, r.copysign(r.fill(re, 1.0), re), r.where(r.cmp(re, "EQ", 0.0), re, real)),
        r.where(far, rest, r.where(r.cmp(im, "EQ", 0.0), im, r.div(t, whole))),
    )


def tanh(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    return _tanh(Real(b), operands[0])


def tan(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """``-i * tanh(i * z)``"""
    r, (re, im) = Real(b), operands[0]
    u, v = _tanh(r, (r.f("negate", im), re))
    return v, r.f("negate", u)
