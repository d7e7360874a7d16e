"""Symbolic sizes as PyTorch holds them: ``torch.SymInt``, ``SymBool`` and ``SymFloat`` whose nodes are dyn's dims.

PyTorch's arithmetic on sizes, in C++ and in Python, calls methods of the node by their names (``SymNode`` in
``torch/fx/experimental/sym_node.py`` and ``c10/core/SymNodeImpl.h`` list them). With these nodes whatever PyTorch
computes of a size is an expression over dyn's symbols, and whatever it asks is asked of dyn's solver
(:mod:`dyn.interop.conditions`): there is no second algebra of shapes, and nothing to translate.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from fractions import Fraction
from types import FrameType
from typing import Any, cast

import torch

from dyn.errors import NotYetError
from dyn.interop import conditions
from dyn.interop.conditions import Condition
from dyn.shapes import Dim, RelKind, dim_max, dim_min, evaluate, floordiv, format_dim, mod, product
from dyn.source import is_user_frame, user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.dims import SymbolicDim, unwrap_dim, wrap_dim

ASKS_FOR_OTHERS = True

#: Python's functions of floats by the names of dyn's.
_IN_PYTHON: dict[str, Callable[..., float]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "true_divide": operator.truediv,
    "power": math.pow, "sqrt": math.sqrt,
}  # fmt: skip
#: Larger denominators are those of numbers such as 0.1, whose products with a size PyTorch rounds.
_MOST_EXACT = 1 << 20
#: The greatest denominator of ratios that floats stand for, and the greatest numerator of what is proved of them.
_MOST_DENOMINATOR, _MOST_ROUNDED = 1000, 1 << 51
_MOST_POWER = 8


_by_sizes: ContextVar[bool] = ContextVar("dyn_torch_by_sizes", default=False)


@contextlib.contextmanager
def answers_by_sizes(by_sizes: bool) -> Iterator[None]:
    """Have the traces that begin here answer questions that have a default by the sizes of the call, or not."""
    token = _by_sizes.set(by_sizes)
    try:
        yield
    finally:
        _by_sizes.reset(token)


class SizesNeeded(BaseException):
    """Ends a trace that failed, or was refused something, on the way of a default that is not this call's answer.

    Nobody but the caller of the trace is to see it, and so it is no ``Exception``.
    """


class Environment:
    """The ``shape_env`` of nodes, which PyTorch's Python code asks (``torch.fx.experimental.symbolic_shapes``).

    A question with a default (is this size 1? is that tensor contiguous?) has two answers that are right. The default
    leaves the program one for every size, and is taken first. It may be a way on which PyTorch refuses what it does
    for the sizes of this call, those of a broadcast above all. Such a trace is made again, by this call's sizes, with a
    guard wherever that is another way than the default's.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.settings = None
        self._by_sizes = _by_sizes.get()
        self._makes = self._decides = False
        #: How often a default was the answer.
        self.defaults = 0
        #: Whether a default was taken that is not the answer for this call's sizes, and a demand refused since.
        self.strayed = self.refused = False
        #: No fake kernel makes a size of its own up: sizes that depend on data are those of dyn's converters.
        self.allow_dynamic_output_shape_ops = self.allow_scalar_outputs = False
        self.pending_fresh_unbacked_symbols: list[Any] = []

    @contextlib.contextmanager
    def suppress_guards(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self) -> Iterator[None]:
        yield

    def evaluate_sym_node(self, node: SymNode, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
        """``guard_or_false`` and ``guard_or_true``."""
        if fallback_value is None:
            return cast(BoolNode, node).guard_bool()
        return self.known_or(cast(BoolNode, node).value, fallback_value)

    def known_or(self, condition: Condition | bool, default: bool) -> bool:
        """The truth value that is proved; otherwise the default, or in a trace by sizes that of this call."""
        known = conditions.known(condition, self.trace)
        if known is not None:
            return known
        here = conditions.for_this_call(condition, self.trace)
        if self._makes:
            return default
        if here is None or not (self._by_sizes and (self._decides or here is not default)):
            self.defaults += 1
            self.strayed |= here is not None and here is not default
            return default
        return conditions.decide(condition, self.trace)

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """While a tensor without elements is made of sizes and strides. What PyTorch asks of these has its default: the
        tensor is right for all."""
        self._makes, before = True, self._makes
        try:
            yield
        finally:
            self._makes = before

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """While something is done whose memory depends on the answers: in a trace by sizes all of them are guards."""
        before, self._decides = self._decides, True
        try:
            yield
        finally:
            self._decides = before

    def require(self, condition: Condition | bool) -> bool:
        """Whether what PyTorch demands holds (:func:`conditions.require`)."""
        holds = conditions.require(condition, self.trace)
        self.refused |= self.strayed and not holds
        return holds

    def _maybe_evaluate_static(self, expr: Any, **options: Any) -> bool | int | None:
        """``statically_known_true``. ``expr`` is a node's :attr:`SymNode.expr`."""
        if isinstance(expr, BoolNode):
            return conditions.known(expr.value, self.trace)
        return None

    def optimization_hint(self, expr: Any, fallback: Any = None) -> Any:
        """The size of this call would choose a way that is right for it alone."""
        return fallback

    def guard_or_defer_runtime_assert(self, expr: Any, msg: str, fx_node: Any = None) -> bool:
        return cast(BoolNode, expr).expect_true()


class SymNode:
    """What the three kinds of nodes have in common. PyTorch takes any object with these methods."""

    pytype: type
    fx_node = None
    hint = _hint = None

    def __init__(self, env: Environment) -> None:
        self.shape_env = env

    @property
    def trace(self) -> Trace:
        return self.shape_env.trace

    @property
    def expr(self) -> SymNode:
        return self

    @property
    def constant(self) -> int | bool | float | None:
        """The number that it is for every size."""
        return None

    # C++ asks each size several times at each operation.

    def is_int(self) -> bool:
        return False

    is_bool = is_float = is_int

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def has_hint(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return self.constant is not None

    def is_symbolic(self) -> bool:
        return True

    def maybe_as_int(self) -> Any:
        return None

    maybe_as_bool = maybe_as_float = constant_int = constant_bool = maybe_as_int

    def clone(self) -> SymNode:
        return self

    def str(self) -> str:
        return repr(self)

    _graph_repr = str

    def wrap_int(self, num: int) -> IntNode:
        return IntNode(self.shape_env, num)

    def wrap_bool(self, num: bool) -> BoolNode:
        return BoolNode(self.shape_env, num)

    def wrap_float(self, num: float) -> FloatNode:
        return FloatNode(self.shape_env, num)

    # Geometry: what SymNodeImpl asks of the first size, for all sizes and strides.

    def is_contiguous(self, sizes: Sequence[IntNode], strides: Sequence[IntNode]) -> BoolNode:
        return self._dense_in(sizes, strides, range(len(sizes)))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[IntNode], strides: Sequence[IntNode]) -> BoolNode:
        return self._dense_in(sizes, strides, (0, 2, 3, 1)) if len(sizes) == 4 else self.wrap_bool(False)

    def is_channels_last_contiguous_3d(self, sizes: Sequence[IntNode], strides: Sequence[IntNode]) -> BoolNode:
        return self._dense_in(sizes, strides, (0, 2, 3, 4, 1)) if len(sizes) == 5 else self.wrap_bool(False)

    is_channels_last_strides_2d = is_channels_last_contiguous_2d
    is_channels_last_strides_3d = is_channels_last_contiguous_3d

    def is_non_overlapping_and_dense(self, sizes: Sequence[IntNode], strides: Sequence[IntNode]) -> BoolNode:
        answer = self.wrap_bool(False)
        for order in _orders(len(sizes)):
            answer = answer.or_(self._dense_in(sizes, strides, order))
        return answer

    def is_non_overlapping_and_dense_indicator(self, sizes: Sequence[IntNode], strides: Sequence[IntNode]) -> IntNode:
        return self.wrap_int(int(self.is_non_overlapping_and_dense(sizes, strides).guard_or_false()))

    def _dense_in(self, sizes: Sequence[IntNode], strides: Sequence[IntNode], order: Sequence[int]) -> BoolNode:
        """Whether the elements lie one after the other, the last axis of ``order`` fastest."""
        answer, stride = self.wrap_bool(True), self.wrap_int(1)
        for axis in reversed(order):
            size = sizes[axis]
            answer = answer.and_(size.eq(self.wrap_int(1)).or_(strides[axis].eq(stride)))
            stride = stride.mul(size)
        return answer


def _is_written_by_user(frame: FrameType) -> bool:
    """Whether a comparison that ``frame`` asks for is an expression of the user's, and not of PyTorch's own code.

    Operators of ``SymInt`` come through one Python function of PyTorch's; what C++ compares does not.
    """
    outer = frame.f_back
    return (
        frame.f_code.co_name in ("binary_magic_impl", "rbinary_magic_impl")
        and outer is not None
        and is_user_frame(outer.f_code.co_filename)
    )


def _orders(rank: int) -> list[Sequence[int]]:
    """The orders of axes in memory that are asked for by name: rows first, channels last, and each axis last."""
    rows = list(range(rank))
    return [rows, *[[axis for axis in rows if axis != last] + [last] for last in rows[:-1]]]


class IntNode(SymNode):
    """The node of a ``torch.SymInt``: a dim."""

    pytype = int

    def __init__(self, env: Environment, dim: Dim) -> None:
        self.shape_env = env
        self.dim = dim

    def __repr__(self) -> str:
        return format_dim(self.dim)

    def is_int(self) -> bool:
        return True

    def maybe_as_int(self) -> int | None:
        return self.dim if isinstance(self.dim, int) else None

    constant_int = maybe_as_int

    @property
    def constant(self) -> int | None:
        return self.maybe_as_int()

    def _int(self, dim: Dim) -> IntNode:
        return IntNode(self.shape_env, dim)

    @property
    def _face(self) -> Any:
        """The dim with dyn's own operators, which demand of a divisor that it is not 0."""
        return wrap_dim(self.trace, self.dim)

    def add(self, other: IntNode) -> IntNode:
        return self._int(self.dim + other.dim)

    def sub(self, other: IntNode) -> IntNode:
        return self._int(self.dim - other.dim)

    def mul(self, other: IntNode) -> IntNode:
        return self._int(self.dim * other.dim)

    def neg(self) -> IntNode:
        return self._int(-self.dim)

    def pos(self) -> IntNode:
        return self

    floor = ceil = trunc = sym_int = pos

    def abs(self) -> IntNode:
        return self._int(cast(Any, unwrap_dim(abs(self._face))))

    def int_floordiv(self, other: IntNode) -> IntNode:
        if isinstance(other.dim, int) and other.dim:
            return self._int(floordiv(self.dim, other.dim))
        # What is left for the -1 of a reshape is most often a plain size, and others are computed of it.
        return self._int(self.trace.facts.simplify(cast(Any, unwrap_dim(self._face // other._face))))

    floordiv = int_floordiv

    def mod(self, other: IntNode) -> IntNode:
        if isinstance(other.dim, int) and other.dim:
            return self._int(mod(self.dim, other.dim))
        return self._int(cast(Any, unwrap_dim(self._face % other._face)))

    def pow_by_natural(self, other: IntNode) -> IntNode:
        power = other.guard_int()
        if power > _MOST_POWER:
            raise NotImplementedError(f"{self} ** {power}: powers of sizes above {_MOST_POWER}")
        return self._int(product([self.dim] * power))

    def lshift(self, other: IntNode) -> IntNode:
        return self._int(self.dim * 2 ** other.guard_int())

    def rshift(self, other: IntNode) -> IntNode:
        return self._int(floordiv(self.dim, 2 ** other.guard_int()))

    def sym_min(self, other: IntNode) -> IntNode:
        return self._int(dim_min(self.dim, other.dim))

    def sym_max(self, other: IntNode) -> IntNode:
        return self._int(dim_max(self.dim, other.dim))

    def sym_sum(self, nodes: Sequence[IntNode]) -> IntNode:
        total: Dim = 0
        for node in nodes:
            total = total + node.dim
        return self._int(total)

    def sym_float(self) -> FloatNode:
        return FloatNode(self.shape_env, self.dim)

    def int_truediv(self, other: IntNode) -> FloatNode:
        return self.sym_float().float_truediv(other.sym_float())

    def eq(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.equal(self.dim, other.dim))

    def ne(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.negated(conditions.equal(self.dim, other.dim)))

    def _compared(self, condition: Condition | bool) -> BoolNode:
        """A comparison that a method of this class was asked for, right below.

        To the user's own line it is a bool, as any number's is: ``n > 1 and mask`` may return it. To PyTorch's code it
        is a ``SymBool``, of which that asks no more than whether it is known.
        """
        if not isinstance(condition, bool) and self._is_decided_at_once(condition, sys._getframe(2)):
            condition = conditions.decide(condition, self.trace)
        return BoolNode(self.shape_env, condition)

    def _is_decided_at_once(self, condition: Condition, frame: FrameType) -> bool:
        """Whether a comparison that ``frame`` asks for is a bool. Of sizes that are known at run time there is none:
        ``torch._check`` takes it as it is."""
        return _is_written_by_user(frame) and condition.symbols() <= self.trace.sizes.keys()

    def ge(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.ordered(">=", self.dim, other.dim))

    def le(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.ordered("<=", self.dim, other.dim))

    def gt(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.ordered(">", self.dim, other.dim))

    def lt(self, other: IntNode) -> BoolNode:
        return self._compared(conditions.ordered("<", self.dim, other.dim))

    def guard_int(self, file: str = "", line: int = 0) -> int:
        """The number that it is in this call; a guard keeps the program for calls where it is the same one."""
        facts = self.trace.facts
        dim = facts.simplify(self.dim)
        if isinstance(dim, int):
            return dim
        if conditions.is_measured(dim, self.trace):
            return SymbolicDim(self.trace, dim).known(
                "int()", "use the size itself in shapes, or compute with a tensor of it."
            )
        value = evaluate(dim, self.trace.sizes)
        conditions.decide(conditions.equal(dim, value), self.trace)
        return value

    int_ = guard_int

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return self.ne(self.wrap_int(0)).guard_bool(file, line)

    bool_ = guard_bool

    def expect_size(self, file: str = "", line: int = 0) -> bool:
        return self.ge(self.wrap_int(0)).expect_true(file, line)


class BoolNode(SymNode):
    """The node of a ``torch.SymBool``: a condition."""

    pytype = bool

    def __init__(self, env: Environment, value: Condition | bool) -> None:
        super().__init__(env)
        self.value = value

    def __repr__(self) -> str:
        return str(self.value)

    def is_bool(self) -> bool:
        return True

    def maybe_as_bool(self) -> bool | None:
        return self.value if isinstance(self.value, bool) else None

    constant_bool = maybe_as_bool

    @property
    def constant(self) -> bool | None:
        return self.maybe_as_bool()

    def sym_not(self) -> BoolNode:
        return BoolNode(self.shape_env, conditions.negated(self.value))

    def and_(self, other: BoolNode) -> BoolNode:
        return BoolNode(self.shape_env, conditions.joined(True, self.value, other.value))

    def or_(self, other: BoolNode) -> BoolNode:
        return BoolNode(self.shape_env, conditions.joined(False, self.value, other.value))

    sym_and, sym_or, not_, bitwise_and, bitwise_or = and_, or_, sym_not, and_, or_

    def can_be_decided(self) -> bool:
        """Whether it is known, or decided by the sizes of this call."""
        known = conditions.known(self.value, self.trace) is not None
        return known or cast(Condition, self.value).symbols() <= self.trace.sizes.keys()

    def scalar(self) -> Any:
        """It as a truth value, or as a scalar of the program."""
        return _scalar(self.trace, self.value)

    def eq(self, other: BoolNode) -> BoolNode:
        return self.and_(other).or_(self.sym_not().and_(other.sym_not()))

    def ne(self, other: BoolNode) -> BoolNode:
        return self.eq(other).sym_not()

    def sym_ite(self, then: SymNode, otherwise: SymNode) -> SymNode:
        return then if self.guard_bool() else otherwise

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return conditions.decide(self.value, self.trace)

    bool_ = guard_bool

    def guard_or_false(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.known_or(self.value, False)

    guard_size_oblivious = guard_or_false

    def guard_or_true(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.known_or(self.value, True)

    def statically_known_true(self, file: str = "", line: int = 0) -> bool:
        return conditions.known(self.value, self.trace) is True

    def expect_true(self, file: str = "", line: int = 0) -> bool:
        return self.shape_env.require(self.value)

    def guard_int(self, file: str = "", line: int = 0) -> int:
        return int(self.guard_bool(file, line))

    int_ = guard_int


class ValueNode(BoolNode):
    """The node of a truth value that the program computes: a size that is 0 or 1, and its being 1.

    That may be demanded, and is not known when Python asks for it.
    """

    def __init__(self, env: Environment, truth: Any) -> None:
        self.truth = truth
        super().__init__(env, conditions.equal(size_from_value(env.trace, truth, "the truth value of a tensor"), 1))

    def scalar(self) -> Any:
        return self.truth

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        raise NotYetError(
            "Python asks for the truth value of a tensor, which is known when the program runs.",
            loc=user_loc(),
            remedy="compute with it: torch.where(condition, a, b); or decide outside of the function.",
        )

    bool_ = guard_bool

    def guard_int(self, file: str = "", line: int = 0) -> int:
        return int(self.guard_bool(file, line))

    int_ = guard_int


def _scalar(trace: Trace, condition: Condition | bool) -> Any:
    """A condition as a truth value, or as a scalar of the program."""
    if isinstance(condition, bool):
        return condition
    namespace = trace.namespace
    if isinstance(condition, conditions.Junction):
        join = namespace.logical_and if condition.every else namespace.logical_or
        return functools.reduce(join, [_scalar(trace, part) for part in condition.parts])
    compare = {RelKind.EQ: "equal", RelKind.GE: "greater_equal", RelKind.NONZERO: "not_equal"}[condition.yes.kind]
    left, right = trace.here.dim_value(condition.yes.lhs), trace.here.dim_value(condition.yes.rhs)
    return getattr(namespace, compare)(left, right)


def size_from_value(trace: Trace, count: Any, origin: str) -> Dim:
    """An integer scalar of the program, which is not negative, as a dim. ``origin`` says what it is."""
    return dim_from_value(trace.here, count.astype("int64")._value, "item", origin)


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

    def _ratio(self) -> tuple[Dim, int] | None:
        """It as a dim over a positive number, to be rounded; None where it is no such thing."""
        if isinstance(self.value, float):
            ratio = Fraction(self.value) if math.isfinite(self.value) else None
            if ratio is None or ratio.denominator > _MOST_EXACT:
                return None
            return ratio.numerator, ratio.denominator
        value = self.value
        is_dim = isinstance(value, int) or not hasattr(value, "element_type")
        return (value, self.denominator) if is_dim and self.factor is None else None

    def _exact(self) -> tuple[Dim, int] | None:
        """It as a dim over a power of two, which floats have without rounding; None where it is no such thing."""
        ratio = self._ratio()
        return None if ratio is None or ratio[1] & (ratio[1] - 1) else ratio

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

    def _computed(self, name: str, *others: FloatNode) -> FloatNode:
        """The result of dyn's function of that name, at each call."""
        function, operands = getattr(self.trace.namespace, name), (self, *others)
        made = FloatNode(self.shape_env, function(*[operand.scalar() for operand in operands]))
        here = [one for operand in operands if (one := operand.in_this_call()) is not None]
        if len(here) == len(operands):
            with contextlib.suppress(ArithmeticError, ValueError):  # which a program has infinities and NaNs for
                number = _IN_PYTHON[name](*[number for _, number in here])
                made._made_of = tuple([dim for dims, _ in here for dim in dims]), number
        return made

    def _of_two(self, other: FloatNode, name: str, rounded: Callable[..., tuple[Dim, int] | None]) -> FloatNode:
        own, its = self._exact(), other._exact()
        found = None if own is None or its is None else rounded(own, its)
        return self._computed(name, other) if found is None else FloatNode(self.shape_env, *found)

    def add(self, other: FloatNode) -> FloatNode:
        return self._of_two(other, "add", lambda a, b: (a[0] * b[1] + b[0] * a[1], a[1] * b[1]))

    def neg(self) -> FloatNode:
        return self.wrap_float(0.0).sub(self)

    def pos(self) -> FloatNode:
        return self

    def sub(self, other: FloatNode) -> FloatNode:
        return self._of_two(other, "subtract", lambda a, b: (a[0] * b[1] - b[0] * a[1], a[1] * b[1]))

    def mul(self, other: FloatNode) -> FloatNode:
        for one, factor in ((self, other.constant), (other, self.constant)):
            exact = one._exact()
            if exact is not None and exact[1] == 1 and factor is not None and math.isfinite(factor):
                if Fraction(factor).denominator > _MOST_EXACT:
                    return FloatNode(self.shape_env, exact[0], 1, factor)
        return self._of_two(other, "multiply", lambda a, b: (a[0] * b[0], a[1] * b[1]))

    def float_truediv(self, other: FloatNode) -> FloatNode:
        def rounded(a: tuple[Dim, int], b: tuple[Dim, int]) -> tuple[Dim, int] | None:
            if not isinstance(b[0], int) or b[0] <= 0 or a[1] * b[0] > _MOST_EXACT:
                return None
            return a[0] * b[1], a[1] * b[0]

        return self._of_two(other, "true_divide", rounded)

    def float_pow(self, other: FloatNode) -> FloatNode:
        return self._computed("power", other)

    # As C++ names them.
    pow, truediv = float_pow, float_truediv

    def _size(self, round: Callable[[Dim, int], Dim], name: str) -> IntNode:
        """A size of it, rounded: as a dim, or by dyn's function of that name at each call."""
        ratio = self._ratio() if self.factor is None else self._ratio_of_product(rounds_up=name == "ceil")
        return self._found(name, getattr(math, name)) if ratio is None else IntNode(self.shape_env, round(*ratio))

    def _found(self, name: str, in_python: Callable[[float], int]) -> RoundedNode:
        """A size of it that is found out at each call, rounded by dyn's function of that name."""
        scalar = getattr(self.trace.namespace, name)(self.scalar())
        return RoundedNode(self, integer(self.trace, scalar, f"{self!r}, rounded to an integer"), in_python)

    def _ratio_of_product(self, rounds_up: bool) -> tuple[Dim, int] | None:
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
        numerator = self.value * found[0]
        self.trace.demand(RelKind.GE, _MOST_ROUNDED, numerator, f"{self!r} is a float that is near enough to a ratio")
        return numerator, found[1]

    def floor(self) -> IntNode:
        return self._size(floordiv, "floor")

    def ceil(self) -> IntNode:
        return self._size(lambda a, b: -floordiv(-a, b), "ceil")

    def trunc(self) -> IntNode:
        if self._ratio() is None:
            return self._size(floordiv, "trunc")  # a ratio of a product with a float is not negative
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
        if self.factor is not None and self.factor > 0 and other.constant == 0:  # as its sign is
            own = self.value, 1
        if own is None or its is None:
            return self._measured(what, other)
        left, right = IntNode(self.shape_env, own[0] * its[1]), IntNode(self.shape_env, its[0] * own[1])
        return compare(left, right)

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

    def is_integer(self) -> BoolNode:
        ratio = self._ratio()
        if ratio is None:
            raise NotImplementedError(f"whether {self!r} is an integer")
        return IntNode(self.shape_env, mod(*ratio)).eq(self.wrap_int(0))

    def _sym_sqrt(self) -> FloatNode:
        return self._computed("sqrt")

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


def _small_ratio(factor: float, rounds_up: bool) -> tuple[int, int] | None:
    """The ratio of small numbers that a float is nearest to, where the float is so near that floors of its products
    with sizes are those of the ratio's (ceilings, with ``rounds_up``); None where there is none."""
    ratio = Fraction(factor).limit_denominator(_MOST_DENOMINATOR)
    if ratio <= 0 or float(ratio) != factor:
        return None
    error = (Fraction(factor) - ratio) / ratio
    error = error if rounds_up else -error
    return (ratio.numerator, ratio.denominator) if error <= Fraction(1, 1 << 54) else None


def integer(trace: Trace, scalar: Any, origin: str) -> Dim:
    """A whole number that the program computes, of any sign, as a dim: the difference of two that are measured."""
    kind = scalar.dtype.kind
    if kind == "f":
        most = 2.0**63
        fits = trace.namespace.logical_and(scalar >= -most, scalar < most)
        trace.demand(
            RelKind.EQ, size_from_value(trace, fits, f"whether {origin}, has 64 bits"), 1, f"{origin}, has 64 bits"
        )
        scalar = scalar.astype("int64")
    if kind == "u":
        return size_from_value(trace, scalar, origin)
    above = size_from_value(trace, trace.namespace.maximum(scalar, 0), f"{origin}, where it is positive")
    below = size_from_value(
        trace, trace.namespace.maximum(-scalar, 0), f"{origin}, where it is less than 0, without its sign"
    )
    return above - below


#: The types of numbers whose value is known to the program only.
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def as_torch(env: Environment, dim: Dim) -> Any:
    """A dim as PyTorch holds it: an int, or a ``torch.SymInt``."""
    return dim if isinstance(dim, int) else torch.SymInt(cast(Any, IntNode(env, dim)))


def as_dim(size: Any) -> Dim:
    """The dim of an int or a ``torch.SymInt``."""
    return size if isinstance(size, int) else size.node.dim


def as_dyn(trace: Trace, number: Any) -> Any:
    """A number of PyTorch's, symbolic or not, as dyn's functions take it: a size, or a scalar of the program."""
    if isinstance(number, torch.SymInt):
        return wrap_dim(trace, cast(Any, number.node).dim)
    if isinstance(number, torch.SymFloat):
        return cast(Any, number.node).scalar()
    if isinstance(number, torch.SymBool):
        return cast(Any, number.node).guard_bool()
    return number
