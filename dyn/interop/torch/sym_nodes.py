"""The environment in which PyTorch asks questions of symbolic sizes, and what the nodes of all of them have in common.

PyTorch's arithmetic on sizes, in C++ and in Python, calls methods of the node by their names (``SymNode`` in
``torch/fx/experimental/sym_node.py`` and ``c10/core/SymNodeImpl.h`` list them). With dyn's nodes whatever PyTorch
computes of a size is an expression over dyn's symbols, and whatever it asks is asked of dyn's solver
(:mod:`dyn.interop.sizes.conditions`): there is no second algebra of shapes, and nothing to translate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from dyn.frontend.retrace import Retrace
from dyn.frozen import record
from dyn.interop.sizes import conditions
from dyn.interop.sizes.conditions import Comparison, Condition
from dyn.shapes import Dim, RelKind
from dyn.trace.context import Trace

if TYPE_CHECKING:
    from dyn.interop.torch.float_sizes import FloatNode
    from dyn.interop.torch.forks import Forks
    from dyn.interop.torch.sizes import BoolNode, IntNode

ASKS_FOR_OTHERS = True

_by_sizes: ContextVar[bool] = ContextVar("dyn_torch_by_sizes", default=False)


@contextlib.contextmanager
def answers_by_sizes(by_sizes: bool) -> Iterator[None]:
    """Have the traces that begin here answer questions that have a default by the sizes of the call, or not."""
    token = _by_sizes.set(by_sizes)
    try:
        yield
    finally:
        _by_sizes.reset(token)


def by_sizes_lacking() -> Retrace:
    """The end of a trace that failed, or was refused something, after a default answer that is not this call's."""
    return Retrace(lambda attempt: attempt.answer_by_sizes())


@record()
class NodeTypes:
    """The classes of nodes: of ``torch.SymInt``, ``SymBool`` and ``SymFloat``."""

    integer: type[IntNode]
    boolean: type[BoolNode]
    floating: type[FloatNode]


class Environment:
    """The ``shape_env`` of nodes, which PyTorch's Python code asks (``torch.fx.experimental.symbolic_shapes``).

    A question with a default (is this size 1? is that tensor contiguous?) has two answers that are right. The default
    leaves the program one for every size, and is taken first. It may be a way on which PyTorch refuses what it does
    for the sizes of this call, those of a broadcast above all. Such a trace is made again, by this call's sizes, with a
    guard wherever that is another way than the default's.
    """

    def __init__(self, trace: Trace, types: NodeTypes) -> None:
        self.trace, self.types = trace, types
        #: What answers the user's questions of values that only the running program knows.
        self.forks: Forks | None = None
        self.settings = None
        self._by_sizes = _by_sizes.get()
        self._makes = self._decides = False
        #: How often a default was the answer.
        self.defaults = 0
        #: Whether a default was taken that is not the answer for this call's sizes, and a demand refused since.
        self.strayed = self.refused = False
        #: The sizes that such questions were about.
        self._asked: frozenset[Dim] = frozenset()
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
            return cast("BoolNode", node).guard_bool()
        return self.known_or(cast("BoolNode", node).value, fallback_value)

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
            if here is not None and here is not default:
                self.strayed = True
                self._asked |= _sides(condition)
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
        if self._asked & _sides(condition) and conditions.for_this_call(condition, self.trace) is None:
            # Whether a size is another one that the program finds out hangs on the way that was taken: it may be 1.
            self.refused = True
        holds = conditions.require(condition, self.trace)
        self.refused |= self.strayed and not holds
        return holds

    def _maybe_evaluate_static(self, expr: Any, **options: Any) -> bool | int | None:
        """``statically_known_true``. ``expr`` is a node's :attr:`SymNode.expr`."""
        if isinstance(expr, SymNode) and expr.is_bool():
            return conditions.known(cast("BoolNode", expr).value, self.trace)
        return None

    def optimization_hint(self, expr: Any, fallback: Any = None) -> Any:
        """The size of this call would choose a way that is right for it alone."""
        return fallback

    def guard_or_defer_runtime_assert(self, expr: Any, msg: str, fx_node: Any = None) -> bool:
        return cast("BoolNode", expr).expect_true()


def _sides(condition: Condition | bool) -> frozenset[Dim]:
    """The two sizes that a condition says are equal."""
    if isinstance(condition, bool) or not isinstance(condition, Comparison) or condition.yes.kind is not RelKind.EQ:
        return frozenset()
    return frozenset((condition.yes.lhs, condition.yes.rhs)) - {1}


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

    #: As an expression of SymPy's it is one that has no parts, and no symbol: PyTorch 2.14 looks for unbacked ones.
    args = ()
    is_Symbol = False

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
        return self.shape_env.types.integer(self.shape_env, num)

    def wrap_bool(self, num: bool) -> BoolNode:
        return self.shape_env.types.boolean(self.shape_env, num)

    def wrap_float(self, num: float) -> FloatNode:
        return self.shape_env.types.floating(self.shape_env, num)

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


def _orders(rank: int) -> list[Sequence[int]]:
    """The orders of axes in memory that are asked for by name: rows first, channels last, and each axis last."""
    rows = list(range(rank))
    return [rows, *[[axis for axis in rows if axis != last] + [last] for last in rows[:-1]]]
