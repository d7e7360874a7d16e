"""Sizes as floats, as PyTorch holds them: ``torch.SymFloat`` whose nodes are ratios of dims, or computed scalars."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import torch

from dyn.interop.sizes import conditions
from dyn.interop.sizes.ratios import Ratio
from dyn.interop.torch.errors import TorchDomainError
from dyn.interop.torch.sizes import (
    BoolNode,
    IntNode,
    ValueNode,
    attribute_of_number,
    format_number,
    is_made_by_user,
    require_true,
    size_from_value,
)
from dyn.interop.torch.sym_nodes import Environment, NodeTypes, SymNode
from dyn.shapes import Dim, Reason, Relation, RelKind, evaluate, literal
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.patched_names import Replacement

ASKS_FOR_OTHERS = True

#: Python's functions of floats by the names of dyn's.
_IN_PYTHON: dict[str, Callable[..., float]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "true_divide": operator.truediv,
    "power": math.pow, "sqrt": math.sqrt, "cos": math.cos, "cosh": math.cosh, "sin": math.sin, "sinh": math.sinh,
    "tan": math.tan, "tanh": math.tanh, "arcsin": math.asin, "arccos": math.acos, "arctan": math.atan,
    "log2": math.log2, "abs": math.fabs, "remainder": operator.mod, "floor_divide": operator.floordiv,
}  # fmt: skip
#: Python's comparisons by the names of dyn's.
_IN_PYTHON_ORDER: dict[str, Callable[[float, float], bool]] = {
    "equal": operator.eq, "not_equal": operator.ne, "greater_equal": operator.ge, "less_equal": operator.le,
    "greater": operator.gt, "less": operator.lt,
}  # fmt: skip
#: Larger denominators are those of numbers such as 0.1, whose products with a size PyTorch rounds.
_MOST_EXACT = 1 << 20
#: The greatest denominator of ratios that floats stand for, and the greatest numerator of what is proved of them.
_MOST_DENOMINATOR, _MOST_ROUNDED = 1000, 1 << 51
#: The greatest power of a size that is surely no infinity.
_MOST_POWER = 16
#: Functions that have no result where the divisor is 0.
_DIVISIONS = frozenset({"true_divide", "remainder", "floor_divide"})
#: What to do where Python has no result of numbers.
_REMEDY = "pass other numbers."
#: The functions that are 0 where one of their operands is, all of which are positive else; of positive powers the base.
_OF_FACTORS = frozenset({"sqrt", "power", "multiply", "true_divide"})


def _of_one(name: str) -> Callable[[FloatNode], FloatNode]:
    """A node's method that computes dyn's function of that name, at each call."""
    return lambda node: node.computed(name)


class FloatNode(SymNode):
    """The node of a ``torch.SymFloat``: a size as a float, or what was computed of one.

    It is a dim over a small number, rounded (``n / 3``); a dim by a float, rounded (``n * 0.7``); or a scalar of the
    program. Floors and signs of the first are dims and conditions for every size, and of the second where that can be
    proved of all floats (:func:`_small_ratio`). Others, and what is computed of what was rounded before, are found out
    at each call.
    """

    pytype = float

    def __init__(self, env: Environment, value: Any, denominator: int = 1, factor: float | None = None) -> None:
        super().__init__(env)
        self.value, self.denominator, self.factor = value, denominator, factor
        #: Of a scalar that sizes alone make: these, and the number that it is in this call.
        self._made_of: tuple[tuple[Dim, ...], float] | None = None
        #: Of a scalar that no data makes: the dims, none negative, without which it would be 0, and not else.
        self._factors: tuple[Dim, ...] | None = None

    def __repr__(self) -> str:
        text = str(self.value) if isinstance(self.value, int | float) else f"float({self.value!r})"
        text = text if self.factor is None else f"{text} * {self.factor}"
        return text if self.denominator == 1 else f"{text} / {self.denominator}"

    def is_float(self) -> bool:
        return True

    def maybe_as_float(self) -> float | None:
        value = self.value
        return value / self.denominator if isinstance(value, int | float) else None

    @property
    def constant(self) -> float | None:
        return self.maybe_as_float()

    def _ratio(self) -> Ratio | None:
        """It as a dim over a positive number, to be rounded; None where it is no such thing."""
        if isinstance(self.value, float):
            ratio = Ratio.of(self.value)
            return ratio if ratio is not None and _is_small(ratio) else None
        value = self.value
        is_dim = isinstance(value, int) or not hasattr(value, "element_type")
        return Ratio(value, self.denominator) if is_dim and self.factor is None else None

    def _exact(self) -> Ratio | None:
        """It as a dim over a power of two, which floats have without rounding; None where it is no such thing."""
        ratio = self._ratio()
        return ratio if ratio is not None and _is_power_of_two(ratio.divisor) else None

    def scalar(self) -> Any:
        """It as a number, or as a scalar of the program."""
        if self.constant is not None:
            return self.constant
        if hasattr(self.value, "element_type"):
            return self.value
        # Python's floats, and so PyTorch's, have 64 bits.
        scalar = self.trace.here.dim_value(self.value).astype("float64")
        scalar = scalar if self.factor is None else scalar * self.factor
        return scalar if self.denominator == 1 else scalar / float(self.denominator)

    def in_this_call(self) -> tuple[tuple[Dim, ...], float] | None:
        """The number that it is in this call, with the sizes that it is made of; None where data makes it."""
        if self.constant is not None:
            return (), self.constant
        if hasattr(self.value, "element_type"):
            return self._made_of
        if conditions.is_measured(self.value, self.trace):
            return None
        size = evaluate(self.value, self.trace.sizes)
        return (self.value,), size / self.denominator if self.factor is None else size * self.factor

    def _is_finite(self) -> bool:
        """Whether it is a size, divided or multiplied by a finite number."""
        if self.constant is not None:
            return math.isfinite(self.constant)
        return not hasattr(self.value, "element_type") and (self.factor is None or math.isfinite(self.factor))

    def _graph_repr(self) -> str:
        """Its text: the number's, where the user's code makes it."""
        return str(self.in_text()) if is_made_by_user(sys._getframe(2)) else repr(self)

    def in_text(self) -> float:
        """The number that it is in this call, for a string, which is made once: with a guard."""
        if self.constant is None and self.in_this_call() is None:
            raise NotImplementedError(f"the text of {self!r}, which is computed at each call")
        return self.guard_float()

    def factors(self) -> tuple[Dim, ...] | None:
        """Dims, none negative, without which it would be 0, and only so; None where no such are known."""
        if self.constant is not None:
            return () if self.constant > 0 else None
        if hasattr(self.value, "element_type"):
            return self._factors
        counts = (self.factor is None or self.factor > 0) and self.trace.facts.ge(self.value, 0).proved
        return (self.value,) if counts else None

    def _require_nonzero(self, text: str) -> None:
        """Demand that it isn't 0, of the sizes where these decide it. ``text`` is that of the error where it is."""
        if self.constant == 0:
            raise ZeroDivisionError(text)
        factors = self.factors()
        if factors is None and not hasattr(self.value, "element_type") and self.constant is None:
            factors = (self.value,)
        if factors is None:
            require_true(self.trace, self.scalar() != 0, text, _REMEDY)
            return
        reason = Reason.about(literal(text), (), user_loc(), TorchDomainError, _REMEDY)
        for dim in factors:
            self.trace.require(Relation(RelKind.NONZERO, dim, 0, reason))

    def _require_result(self, name: str, made: FloatNode, operands: tuple[FloatNode, ...]) -> None:
        """Demand that Python's function has a result here, where dyn's makes an infinity or NaN.

        Those of ``math`` raise if a number that is no NaN makes one, or finite ones make an infinity; a division if its
        divisor is 0.
        """
        is_counted = self.factors() is not None
        if name in ("add", "subtract", "multiply", "abs") or (name == "sqrt" and is_counted):
            return
        power = operands[1].constant if name == "power" else None
        if name in _DIVISIONS:
            operands[1]._require_nonzero("float division by zero")
        elif is_counted and power is not None and abs(power) <= _MOST_POWER:
            if power < 0:
                self._require_nonzero(f"0.0 cannot be raised to the power {power}")
        else:
            dnp = self.trace.namespace
            result, scalars = made.scalar(), [one.scalar() for one in operands]
            finite = functools.reduce(dnp.logical_and, [dnp.isfinite(one) for one in scalars])
            nan = functools.reduce(dnp.logical_or, [dnp.isnan(one) for one in scalars])
            has_result = dnp.where(dnp.isnan(result), nan, dnp.isfinite(result) | dnp.logical_not(finite))
            require_true(self.trace, has_result, f"Python's {name} has no result of these numbers", _REMEDY)

    def computed(self, name: str, *others: FloatNode) -> FloatNode:
        """The result of dyn's function of that name, at each call."""
        function, operands = getattr(self.trace.namespace, name), (self, *others)
        made = FloatNode(self.shape_env, function(*[operand.scalar() for operand in operands]))
        self._require_result(name, made, operands)
        positive = name != "power" or ((power := others[0].constant) is not None and 0 < power <= _MOST_POWER)
        if name in _OF_FACTORS and positive:
            parts = [one.factors() for one in (operands[:1] if name == "power" else operands)]
            if None not in parts:
                made._factors = tuple([dim for part in parts for dim in part or ()])
        here = [one for operand in operands if (one := operand.in_this_call()) is not None]
        if len(here) == len(operands):
            with contextlib.suppress(ArithmeticError, ValueError):  # which a program has infinities and NaNs for
                number = _IN_PYTHON[name](*[number for _, number in here])
                made._made_of = tuple([dim for dims, _ in here for dim in dims]), number
        return made

    def _of_two(self, other: FloatNode, name: str, exactly: Callable[[Ratio, Ratio], Ratio | None]) -> FloatNode:
        own, its = self._exact(), other._exact()
        found = None if own is None or its is None else exactly(own, its)
        return self.computed(name, other) if found is None else self._of(found)

    def _of(self, ratio: Ratio) -> FloatNode:
        assert isinstance(ratio.divisor, int), "floats of sizes are over numbers"
        return FloatNode(self.shape_env, ratio.dividend, ratio.divisor)

    def add(self, other: FloatNode) -> FloatNode:
        return self._of_two(other, "add", operator.add)

    def neg(self) -> FloatNode:
        return self.wrap_float(0.0).sub(self)

    def pos(self) -> FloatNode:
        return self

    def sub(self, other: FloatNode) -> FloatNode:
        return self._of_two(other, "subtract", operator.sub)

    def mul(self, other: FloatNode) -> FloatNode:
        for one, factor in ((self, other.constant), (other, self.constant)):
            exact = one._exact()
            if exact is not None and exact.divisor == 1 and factor is not None and math.isfinite(factor):
                if Fraction(factor).denominator > _MOST_EXACT:
                    return FloatNode(self.shape_env, exact.dividend, 1, factor)
        return self._of_two(other, "multiply", operator.mul)

    def float_truediv(self, other: FloatNode) -> FloatNode:
        def exactly(a: Ratio, b: Ratio) -> Ratio | None:
            made = a.over(b)
            return made if made is not None and _is_small(made) else None

        return self._of_two(other, "true_divide", exactly)

    def abs(self) -> FloatNode:
        return self.computed("abs")

    def mod(self, other: FloatNode) -> FloatNode:
        return self.computed("remainder", other)

    def floordiv(self, other: FloatNode) -> FloatNode:
        return self.computed("floor_divide", other)

    def float_pow(self, other: FloatNode) -> FloatNode:
        return self.computed("power", other)

    # As C++ names them.
    pow, truediv = float_pow, float_truediv

    def _size(self, round: Callable[[Ratio], Dim], name: str) -> IntNode:
        """A size of it, rounded: as a dim, or by dyn's function of that name at each call."""
        ratio = self._ratio() if self.factor is None else self._ratio_of_product(rounds_up=name == "ceil")
        return self._found(name, getattr(math, name)) if ratio is None else IntNode(self.shape_env, round(ratio))

    def _found(self, name: str, in_python: Callable[[float], int]) -> RoundedNode:
        """A size of it that is found out at each call, rounded by dyn's function of that name."""
        scalar = getattr(self.trace.namespace, name)(self.scalar())
        return RoundedNode(self, integer(self.trace, scalar, f"{self!r}, rounded to an integer"), in_python)

    def _ratio_of_product(self, rounds_up: bool) -> Ratio | None:
        """The ratio whose floor, or ceiling, is that of the product with a float; None where none is known.

        The proof, of the size n, the float c = p/q (1 + d), and u = 2**-53: the product is n p/q (1 + d)(1 + e) with d
        and e no more than u. Where n p/q is no integer it is 1/q or more from the next one, and the error is less than
        that while n p < 2**51. Where it is an integer, floats beside it are further than 1 - u from it, relatively, so
        that an error of u/2 is rounded away, half to even. Greater errors the other way do not change what is asked.
        """
        assert self.factor is not None, "it is a product"
        found = _small_ratio(self.factor, rounds_up)
        if found is None or not self.trace.facts.ge(self.value, 0).proved:
            return None
        ratio = Ratio(self.value) * found
        told = f"{self!r} is a float that is near enough to a ratio"
        self.trace.demand(RelKind.GE, _MOST_ROUNDED, ratio.dividend, told)
        return ratio

    def floor(self) -> IntNode:
        return self._size(Ratio.floor, "floor")

    def ceil(self) -> IntNode:
        return self._size(Ratio.ceil, "ceil")

    def trunc(self) -> IntNode:
        if self._ratio() is None:
            return self._size(Ratio.floor, "trunc")  # a ratio of a product with a float is not negative
        if self.ge(self.wrap_float(0.0)).guard_bool():
            return self.floor()
        return self.ceil()

    sym_int = trunc

    def round(self, digits: int | None = None) -> IntNode:
        """To the nearest integer, half to even."""
        if digits is not None:
            raise NotImplementedError(f"round() of {self!r} to digits")
        return self._found("rint", round)

    def sym_float(self) -> FloatNode:
        return self

    def _compared(self, other: FloatNode, compare: Any, what: str) -> BoolNode:
        own, its = self._ratio(), other._ratio()
        for one, number in ((self, other.constant), (other, self.constant)):
            if number is not None and not math.isfinite(number) and one._is_finite():
                # Any finite number is to an infinity, or to NaN, as 0 is.
                left, right = (0.0, number) if one is self else (number, 0.0)
                return self.wrap_bool(_IN_PYTHON_ORDER[what](left, right))
        if self.factor is not None and self.factor > 0 and other.constant == 0:  # as its sign is
            own = Ratio(self.value)
        if own is None or its is None:
            return self._measured(what, other)
        left, right = own.across(its)
        return compare(IntNode(self.shape_env, left), IntNode(self.shape_env, right))

    def _measured(self, what: str, other: FloatNode) -> BoolNode:
        """A comparison of what is computed at each call, by the name of dyn's function."""
        return ValueNode(self.shape_env, getattr(self.trace.namespace, what)(self.scalar(), other.scalar()))

    def eq(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.eq, "equal")

    def ne(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.ne, "not_equal")

    def ge(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.ge, "greater_equal")

    def le(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.le, "less_equal")

    def gt(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.gt, "greater")

    def lt(self, other: FloatNode) -> BoolNode:
        return self._compared(other, IntNode.lt, "less")

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return self.ne(self.wrap_float(0.0)).guard_bool(file, line)

    bool_ = guard_bool

    def is_integer(self) -> BoolNode:
        ratio = self._ratio()
        if ratio is None:
            raise NotImplementedError(f"whether {self!r} is an integer")
        return IntNode(self.shape_env, ratio.rest()).eq(self.wrap_int(0))

    # Python's functions of floats, as PyTorch names them: ``math.sqrt`` in a graph of Dynamo's, and in a trace.

    sym_sqrt, sym_log2 = _of_one("sqrt"), _of_one("log2")
    sym_cos, sym_sin, sym_tan = _of_one("cos"), _of_one("sin"), _of_one("tan")
    sym_cosh, sym_sinh, sym_tanh = _of_one("cosh"), _of_one("sinh"), _of_one("tanh")
    sym_acos, sym_asin, sym_atan = _of_one("arccos"), _of_one("arcsin"), _of_one("arctan")

    # As Python's functions name them.
    _sym_sqrt, _sym_log2 = sym_sqrt, sym_log2

    def guard_float(self, file: str = "", line: int = 0) -> float:
        """The number that it is in this call; a guard keeps the program for calls where it is the same one."""
        here = self.in_this_call()
        if here is None:
            raise NotImplementedError(f"float() of {self!r}, which is computed at each call")
        dims, number = here
        for dim in dims:
            IntNode(self.shape_env, dim).guard_int(file, line)
        return number

    float_ = guard_float


def _powers(name: str, own: str) -> Replacement[bool]:
    """A power of ``torch.SymFloat``s while a function is traced. PyTorch's demands that the base is not negative."""
    of_torch = getattr(torch.SymFloat, name)

    def power(number: torch.SymFloat, other: Any) -> Any:
        is_number = isinstance(other, int | float | torch.SymInt | torch.SymFloat)
        if not is_number or not isinstance(cast(Any, number.node), FloatNode):
            return of_torch(number, other)
        return getattr(number, own)(other)

    return Replacement(torch.SymFloat, name, power)


#: What is done otherwise with ``torch.SymFloat``s while a function is traced.
FLOAT_OPERATORS = (
    _powers("__pow__", "__float_pow__"), _powers("__rpow__", "__rfloat_pow__"),
    Replacement(torch.SymFloat, "__getattribute__", attribute_of_number),
    Replacement(torch.SymFloat, "__format__", format_number),
)  # fmt: skip


class RoundedNode(IntNode):
    """The node of a float, rounded to a size that is found out at each call. ``round`` is the function of ``math``."""

    def __init__(self, of: FloatNode, dim: Dim, round: Callable[[float], int]) -> None:
        super().__init__(of.shape_env, dim)
        self.of, self.round = of, round

    def guard_int(self, file: str = "", line: int = 0) -> int:
        """The number that it is in this call, where sizes make it, with a guard on these."""
        known = self.of.in_this_call()
        return super().guard_int(file, line) if known is None else self.round(self.of.guard_float(file, line))

    int_ = guard_int


def _is_small(ratio: Ratio) -> bool:
    """Whether a divisor is one of numbers such as 0.5, whose products with a size PyTorch does not round."""
    return isinstance(ratio.divisor, int) and ratio.divisor <= _MOST_EXACT


def _is_power_of_two(number: Dim) -> bool:
    return isinstance(number, int) and not number & (number - 1)


def _small_ratio(factor: float, rounds_up: bool) -> Ratio | None:
    """The ratio of small numbers that a float is nearest to, where the float is so near that floors of its products
    with sizes are those of the ratio's (ceilings, with ``rounds_up``); None where there is none."""
    ratio = Fraction(factor).limit_denominator(_MOST_DENOMINATOR)
    if ratio <= 0 or float(ratio) != factor:
        return None
    error = (Fraction(factor) - ratio) / ratio
    error = error if rounds_up else -error
    return Ratio.of(ratio) if error <= Fraction(1, 1 << 54) else None


def integer(trace: Trace, scalar: Any, origin: str) -> Dim:
    """A whole number that the program computes, of any sign, as a dim: the difference of two that are measured."""
    kind = scalar.dtype.kind
    if kind == "f":
        most = 2.0**63
        fits = trace.namespace.logical_and(scalar >= -most, scalar < most)
        require_true(trace, fits, f"{origin}, does not fit into 64 bits", _REMEDY)
        scalar = scalar.astype("int64")
    if kind == "u":
        return size_from_value(trace, scalar, origin)
    above = size_from_value(trace, trace.namespace.maximum(scalar, 0), f"{origin}, where it is positive")
    below = size_from_value(
        trace, trace.namespace.maximum(-scalar, 0), f"{origin}, where it is less than 0, without its sign"
    )
    return above - below


#: The nodes that a trace of PyTorch's has.
NODE_TYPES = NodeTypes(IntNode, BoolNode, FloatNode)
