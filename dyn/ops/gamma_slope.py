"""Derivative of a gamma-distributed number by the distribution's parameter, its place in the distribution fixed.

That is what a draw's derivative is (M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization gradients", 2018):
``dx/da = -(dP/da) / p`` with P the distribution function and p the density of ``x``. All is computed in float64.
"""

from __future__ import annotations

import math

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.masked_loops import while_any

_EPSILON = 2.0**-52
#: Steps of the continued fraction: near ``x = a`` it takes some sqrt(a).
_MOST_STEPS = 4000
_HUGE = 2.0**200


def gamma_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None]:
    change = tangents[1]
    return (None,) if change is None else (Arithmetic(b).mul(change, _slope(b, op)),)


def gamma_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[None, Value]:
    return None, Arithmetic(b).mul(cts[0], _slope(b, op))


def _slope(b: Builder, op: Op) -> Value:
    """Derivative of the numbers, or of their logarithms, whichever the op draws."""
    m, (alpha, drawn) = Arithmetic(b), (op.operands[1], op.result)
    a, y = (b.op("convert", v, dtype=dtypes.float64) for v in (alpha, drawn))
    if op.attrs["log_space"]:
        slope = logarithmic_slope(b, a, y, m.f("exponential", y))
    else:
        slope = m.mul(y, logarithmic_slope(b, a, m.f("log", y), y))
        slope = m.where(m.cmp(y, "EQ", 0), 0, slope)
    return b.op("convert", slope, dtype=alpha.dtype)


def logarithmic_slope(b: Builder, a: Value, log: Value, x: Value) -> Value:
    """``d log(x) / da``, for a number ``x`` of the distribution with the parameter ``a`` and its logarithm; float64.

    NaN where ``a`` is not positive, and where ``x`` is negative.
    """
    m = Arithmetic(b)
    valid = m.f("and", m.cmp(a, "GT", 0), m.cmp(x, "GE", 0))
    upper = m.f("and", m.cmp(x, "GT", 1), m.cmp(x, "GT", a))
    finite = m.f("and", valid, m.cmp(x, "LT", math.inf))
    sums = _series(b, m.f("and", finite, m.f("not", upper)), a, x)
    tails = _fraction(b, m.f("and", finite, upper), a, x)
    # P is ``sum * p * x / a``, and Q is ``fraction * p * x``.
    growth = m.sub(log, m.f("digamma", m.add(a, 1)))
    below = m.div(m.neg(m.add(m.mul(sums[0], growth), sums[1])), a)
    above = m.add(m.mul(tails[0], m.sub(log, m.f("digamma", a))), tails[1])
    return m.where(valid, m.where(upper, above, below), math.nan)


def _series(b: Builder, open_: Value, a: Value, x: Value) -> tuple[Value, Value]:
    """The sum of ``x**n / ((a + 1) … (a + n))`` and its derivative by a: each term's is it times a harmonic sum."""

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        m, (place, term, harmonic, total, slope), (x,) = Arithmetic(b), state, fixed
        place = m.add(place, 1)
        term = m.div(m.mul(term, x), place)
        harmonic = m.add(harmonic, m.div(m.fill(place, 1), place))
        change = m.mul(term, harmonic)
        total, slope = m.add(total, m.where(left, term, 0)), m.sub(slope, m.where(left, change, 0))
        small = m.f("and", *[
            m.cmp(v, "LE", m.mul(m.f("abs", of), _EPSILON)) for v, of in ((term, total), (change, slope))
        ])  # fmt: skip
        return m.f("and", left, m.f("not", small)), [place, term, harmonic, total, slope]

    m = Arithmetic(b)
    one, none = m.fill(a, 1), m.fill(a, 0)
    made = while_any(b, open_, [a, one, none, one, none], [x], step)
    return made[3], made[4]


def _fraction(b: Builder, open_: Value, a: Value, x: Value) -> tuple[Value, Value]:
    """Legendre's continued fraction ``1/(x+1-a- 1(1-a)/(x+3-a- 2(2-a)/(x+5-a- …)))`` and its derivative by a.

    Numerators and denominators come from the two before them, and so do their derivatives. The elements that are done
    go on with the rest, and keep what they had.
    """

    def step(b: Builder, left: Value, state: list[Value], fixed: list[Value]) -> tuple[Value, list[Value]]:
        m, (number, *pairs, value, slope), (a, x) = Arithmetic(b), state, fixed
        p, dp, q, dq, p_before, dp_before, q_before, dq_before = pairs
        number = m.add(number, 1)
        whole = m.sub(m.add(x, m.add(number, number)), m.sub(a, 1))
        part = m.mul(number, m.sub(number, a))

        def following(now: Value, change: Value, before: Value, change_before: Value) -> tuple[Value, Value]:
            made = m.sub(m.mul(whole, now), m.mul(part, before))
            moved = m.sub(m.mul(whole, change), m.mul(part, change_before))
            return made, m.add(m.sub(moved, now), m.mul(number, before))

        new_p, new_q = following(p, dp, p_before, dp_before), following(q, dq, q_before, dq_before)
        ratio = m.div(new_p[0], new_q[0])
        change = m.div(m.sub(new_p[1], m.mul(ratio, new_q[1])), new_q[0])
        still = [
            m.cmp(m.f("abs", m.sub(new, old)), "LE", m.mul(m.f("abs", new), _EPSILON))
            for new, old in ((ratio, value), (change, slope))
        ]
        on = m.f("and", m.f("not", m.f("and", *still)), m.cmp(number, "LT", _MOST_STEPS))
        factor = m.where(m.cmp(m.f("abs", new_q[0]), "GT", _HUGE), 1 / _HUGE, m.fill(a, 1))
        scaled = [m.mul(v, factor) for v in (*new_p, *new_q, p, dp, q, dq)]
        kept = [m.where(left, ratio, value), m.where(left, change, slope)]
        return m.f("and", left, on), [number, *scaled, *kept]

    m = Arithmetic(b)
    one, none = m.fill(a, 1), m.fill(a, 0)
    whole = m.sub(m.add(x, 1), a)
    value = m.div(one, whole)
    start = [one, none, whole, m.neg(one), none, none, one, none]
    made = while_any(b, open_, [none, *start, value, m.mul(value, value)], [a, x], step)
    return made[-2], made[-1]
