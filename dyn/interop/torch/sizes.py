"""Symbolic sizes as PyTorch holds them: ``torch.SymInt`` and ``SymBool`` whose nodes are dyn's dims and conditions.

This file is longer than most: its two nodes make one another.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import torch

from dyn.errors import NotYetError, UndecidedDimError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.conditions import Condition
from dyn.interop.torch.errors import TorchDomainError
from dyn.interop.torch.sym_nodes import Environment, SymNode
from dyn.shapes import (
    Dim,
    Reason,
    Relation,
    RelKind,
    dim_max,
    dim_min,
    evaluate,
    floordiv,
    format_dim,
    literal,
    mod,
    product,
)
from dyn.source import is_user_frame, user_loc
from dyn.trace import answered_names
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.dims import SymbolicDim, unwrap_dim, wrap_dim
from dyn.trace.patched_names import Replacement

if TYPE_CHECKING:
    from dyn.interop.torch.float_sizes import FloatNode

ASKS_FOR_OTHERS = True

_MOST_POWER = 8


#: Modules whose code is between a call of ``len`` or ``int`` and what answers it.
_BETWEEN = (
    "dyn.", "torch._ops", "torch._compile", "torch._dynamo.eval_frame", "torch.overrides", "torch._tensor",
    "torch.fx.experimental.sym_node",
)  # fmt: skip


def asking_frame() -> FrameType | None:
    """The frame of the code that calls ``len``, ``int`` or ``float``."""
    frame = sys._getframe(1)
    while frame is not None and _is_between(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _is_between(module: str) -> bool:
    return module == "torch" or module.startswith(_BETWEEN)


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


def is_made_by_user(frame: FrameType) -> bool:
    """Whether what ``frame`` asks of a number it asks in code of the user's."""
    return is_user_frame(frame.f_code.co_filename)


class IntNode(SymNode):
    """The node of a ``torch.SymInt``: a dim."""

    pytype = int

    def __init__(self, env: Environment, dim: Dim) -> None:
        self.shape_env = env
        self.dim = dim

    def __repr__(self) -> str:
        return format_dim(self.dim)

    def _graph_repr(self) -> str:
        """Its text: the number's, where the user's code makes it."""
        return str(self.in_text()) if is_made_by_user(sys._getframe(2)) else repr(self)

    def in_text(self) -> int:
        """The number that it is in this call, for a string, which is made once: with a guard."""
        if conditions.is_measured(self.dim, self.trace):
            raise NotImplementedError(f"the text of {self!r}, which is known when the program runs")
        return self.guard_int()

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

    def bitwise_and(self, other: IntNode) -> IntNode:
        """The bits that both have. Of a number they are remainders of quotients by powers of 2, in two's complement."""
        mask = other.dim if isinstance(other.dim, int) else self.dim if isinstance(self.dim, int) else other.guard_int()
        size = self.dim if not isinstance(self.dim, int) else other.dim
        return self._int(_masked(size, mask) if mask >= 0 else size - _masked(size, ~mask))

    def bitwise_or(self, other: IntNode) -> IntNode:
        return self.add(other).sub(self.bitwise_and(other))

    def bitwise_xor(self, other: IntNode) -> IntNode:
        return self.bitwise_or(other).sub(self.bitwise_and(other))

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
        return self.shape_env.types.floating(self.shape_env, self.dim)

    def sym_sqrt(self) -> FloatNode:
        return self.sym_float().sym_sqrt()

    def sym_log2(self) -> FloatNode:
        return self.sym_float().sym_log2()

    _sym_sqrt, _sym_log2 = sym_sqrt, sym_log2

    def int_truediv(self, other: IntNode) -> FloatNode:
        return self.sym_float().float_truediv(other.sym_float())

    def eq(self, other: IntNode) -> BoolNode:
        if other.shape_env is not self.shape_env:  # of a trace that has ended, as a key of a table that stays
            return BoolNode(self.shape_env, False)
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

    def int_(self) -> int:
        """``int(n)``: the size itself where the code that asks can be given that; else the number, with a guard."""
        if not isinstance(self.trace.facts.simplify(self.dim), int):
            answered_names.ask(asking_frame(), "int")
        return self.guard_int()

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

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        return self.ne(self.wrap_int(0)).guard_bool(file, line)

    bool_ = guard_bool

    def expect_size(self, file: str = "", line: int = 0) -> bool:
        return self.ge(self.wrap_int(0)).expect_true(file, line)


def _masked(size: Dim, mask: int) -> Dim:
    """The bits of a size that a mask has, which is not negative: each run of them as one remainder."""
    total: Dim = 0
    low = 0
    while mask >> low:
        if not (mask >> low) & 1:
            low += 1
            continue
        high = low
        while (mask >> high) & 1:
            high += 1
        total = total + mod(floordiv(size, 1 << low), 1 << (high - low)) * (1 << low)
        low = high
    return total


_HASH: Any = torch.SymInt.__hash__


def _hash(size: torch.SymInt) -> int:
    """A size as a key of the user's tables, with a guard. einops has a way of its own for sizes without a hash."""
    frame = sys._getframe(1)
    asks = is_made_by_user(frame) and not frame.f_globals.get("__name__", "").startswith("einops")
    return hash(cast(Any, size.node).guard_int()) if asks and isinstance(size.node, IntNode) else _HASH(size)


def format_number(number: Any, form: str) -> str:
    """The text of a symbolic number in some form: the number's, where the user's code makes it."""
    in_text: Callable[[], int | float] | None = getattr(number.node, "in_text", None)
    if in_text is None or not (form or is_made_by_user(sys._getframe(1))):
        return object.__format__(number, form)
    return format(in_text(), form)


def attribute_of_number(number: Any, name: str) -> Any:
    """An attribute of a symbolic number. Of ``__class__``, which ``isinstance`` asks for beside the type, code of the
    user's has Python's."""
    if name == "__class__" and is_made_by_user(sys._getframe(1)):
        return getattr(object.__getattribute__(number, "node"), "pytype", type(number))
    return object.__getattribute__(number, name)


def _root(number: Any) -> Any:
    return torch.sym_sqrt(number)


def _logarithm(number: Any) -> Any:
    return cast(Any, torch)._sym_log2(number)


#: What ints have, and ``torch.SymInt`` has not, while a function is traced: NumPy's functions ask for methods.
OPERATORS: tuple[Replacement[bool], ...] = (
    Replacement(torch.SymInt, "__divmod__", lambda a, b: (a // b, a % b)),
    Replacement(torch.SymInt, "__rdivmod__", lambda a, b: (b // a, b % a)),
    Replacement(torch.SymInt, "__getattribute__", attribute_of_number),
    Replacement(torch.SymInt, "__hash__", _hash),
    Replacement(torch.SymInt, "__format__", format_number),
    Replacement(torch.SymInt, "sqrt", _root),
    Replacement(torch.SymFloat, "sqrt", _root),
    Replacement(torch.SymInt, "log2", _logarithm),
    Replacement(torch.SymFloat, "log2", _logarithm),
)


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
        try:
            return conditions.decide(self.value, self.trace)
        except UndecidedDimError:
            answer = self._answer()
            if answer is None:
                raise
            return answer

    bool_ = guard_bool

    def _answer(self) -> bool | None:
        """The answer for one of the ways that the function goes; None where there is none."""
        return None if self.shape_env.forks is None else self.shape_env.forks.answer(self)

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

    def _graph_repr(self) -> str:
        raise NotImplementedError("the text of a truth value of a tensor, which is known when the program runs")

    def scalar(self) -> Any:
        return self.truth

    def guard_bool(self, file: str = "", line: int = 0) -> bool:
        known = conditions.known(self.value, self.trace)
        answer = self._answer() if known is None else known
        if answer is not None:
            return answer
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


def require_true(trace: Trace, truth: Any, text: str, remedy: str = "") -> None:
    """Demand that a truth value of the program is true: ``text`` is that of the error where it is not."""
    bad = size_from_value(trace, trace.namespace.logical_not(truth), "1 where this is so")
    trace.require(Relation(RelKind.EQ, bad, 0, Reason.about(literal(text), (), user_loc(), TorchDomainError, remedy)))


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
