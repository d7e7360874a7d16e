"""Definition of an op: one record that holds everything dyn knows of it.

The class stands here so that the IR can refer to it; the records themselves are the business of ``dyn/ops``. A rule
that waits for a later version is :data:`NOT_YET`: asking for it raises. An op whose derivative is zero wherever it has
one says so, with the reason (:class:`NoGrad`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from dyn.dtypes import DType
from dyn.errors import DynError, IRError, NotYetError
from dyn.frozen import record
from dyn.ir.types import TensorType
from dyn.shapes import Answer, Dim, RelKind
from dyn.source import Loc

if TYPE_CHECKING:
    from dyn.ir.builder import Builder
    from dyn.ir.core import Op, Region, Value


class OpKind(Enum):
    """Access pattern of an op to its operands; fusion is decided by this, never by a name."""

    __hash__ = object.__hash__  # that of Enum is written in Python

    #: Each result element from the operands' elements at the same index.
    POINTWISE = "pointwise"
    #: Each result element is one operand element, found by index arithmetic alone.
    VIEW = "view"
    #: Elements from nothing but their index: constants, iota, sizes.
    GENERATE = "generate"
    #: Each result element is an operand element, chosen by a computed index or a condition.
    INDEXED = "indexed"
    #: A monoid, or the op's own region, over some axes.
    REDUCE = "reduce"
    #: A monoid over a window around each result element.
    WINDOW = "window"
    #: Sums of products.
    CONTRACT = "contract"
    #: A copy of the first operand with updates combined into it at computed places.
    SCATTER = "scatter"
    #: A monoid over all elements up to each, along one axis.
    RUNNING = "running"
    #: Runs its regions: a loop, or a choice.
    CONTROL = "control"
    #: Finds out a dim: the symbol that is its attribute ``dim`` is from then on the number that its operand is.
    DATA_DEPENDENT_SIZE = "measure"
    #: Its first region, written out where it stands (``loops`` says when).
    CALL = "call"
    #: Its operands again, each as a result. What reads a result is neither merged with what reads the operand, nor run
    #: before all operands are there. It takes no time and no memory.
    BARRIER = "barrier"
    #: Has no loops: a library computes it, or it is made up of other ops.
    OPAQUE = "opaque"


class _Marks(Enum):
    NOT_YET = "not yet"
    FROM_VJP = "from vjp"


#: A rule that is not written yet.
NOT_YET = _Marks.NOT_YET
#: The ``jvp`` of an op whose Jacobian is diagonal: what its ``vjp`` makes of a cotangent, it makes of a tangent.
FROM_VJP = _Marks.FROM_VJP


@record()
class NoGrad:
    """Instead of ``vjp`` and ``jvp``: nothing comes through, and why that is right."""

    reason: str


@record()
class NoBatch:
    """Instead of ``batch``: examples cannot be computed together. Why, for people, and what to do instead."""

    reason: str
    remedy: str


PIECEWISE_CONSTANT = NoGrad("it is piecewise constant: its derivative is 0 wherever there is one")
NOT_CONTINUOUS = NoGrad("its results, or its operands, are integers, booleans or bits")
READS_NOTHING = NoGrad("it reads no elements")

Attrs = Mapping[str, Any]


class TypeContext(Protocol):
    """Context of a type rule: the op's regions, and questions about and demands on the dimensions."""

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of the op."""
        ...

    def inside(self, number: int) -> TypeContext:
        """The context of region ``number``: what is demanded there has to hold where the region runs."""
        ...

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str | Callable[[], str]) -> None:
        """Demand a relation: proved, or recorded to be checked at run time; refuted is a ShapeError.

        ``text`` says why. One that takes long to write is a function: few are read.
        """
        ...

    def require_broadcast(self, size: Dim, wanted: Dim, text: str | Callable[[], str]) -> None:
        """Demand that an axis of a size broadcasts to one of another.

        A new op demands that they are equal, unless it is proved that the one may be stretched to the other.
        """
        ...

    def eq(self, lhs: Dim, rhs: Dim) -> Answer: ...

    def fail(self, text: str, remedy: str = "") -> Exception:
        """The error to raise for operands whose shapes the op does not take."""
        ...

    def unsupported(self, text: str, remedy: str = "") -> Exception:
        """The error to raise for operands whose dtypes the op does not take."""
        ...


class ScalarBuilder(Protocol):
    """Builder of scalar code for ``loops`` rules. Values are opaque to the rule."""

    def apply(self, fn: Any, args: Sequence[Any], dtype: DType) -> Any: ...

    def const(self, dtype: DType, value: bool | int | float) -> Any: ...

    def index(self, dtype: DType, expr: Dim) -> Any:
        """An index expression as a value."""
        ...

    def bind(self, value: Any) -> Dim:
        """An integer value as an index expression."""
        ...

    def pair(self, real: Any, imag: Any, dtype: DType) -> Any:
        """A complex value of its parts, to be stored."""
        ...

    def parts(self, value: Any) -> tuple[Any, Any]:
        """The parts of a complex value."""
        ...

    def part(self, value: Any, number: Dim) -> Any:
        """The real part of a complex value where a number is 0, the imaginary one where it is 1."""
        ...


#: ``get(i, index, mask=None, other=None)`` is operand ``i``'s element at an index. Where ``mask`` is false nothing is
#: read, and the value is ``other`` or any other: the rule has to select.
Get = Callable[..., Any]
#: ``at(k, op, index, get)``: the scalar code of a result element, given a way to get operands' elements.
ElementRule: TypeAlias = "Callable[[ScalarBuilder, Op, tuple[Dim, ...], Get], Any]"


@record()
class ElementLoops:
    """``loops`` of an op each of whose result elements is scalar code over operand elements."""

    at: ElementRule


@record()
class Pieces(ElementLoops):
    """``loops`` of an op whose result is its operands one after the other along its attribute ``dimension``."""


@record()
class ReductionLoops:
    """``loops`` of a reduction: its attributes ``axes`` are folded with ``combine``."""

    combine: Callable[[Any], Any]


@record()
class OrderedReductionLoops:
    """``loops`` of a reduction with the op's own region, in the order of the elements.

    The operands are n arrays, all folded along the attributes ``axes``, and n scalars that the folds start from. The
    region takes what n folds have come to and the next n elements, and gives what they come to then.
    """


@record()
class ContractionLoops:
    """``loops`` of a contraction: StableHLO's dot_general dimension numbers, in its attributes."""


@record()
class RunningLoops:
    """``loops`` of a running reduction: along the attribute ``dimension``, each element is ``combine`` of its operand's
    elements up to there, in their order; from the last one on with the attribute ``reverse``."""

    combine: Callable[[Any], Any]


@record()
class CompactionLoops:
    """``loops`` of an op that gives the elements of its second operand where the first one, a mask, is true, one behind
    the other along the attribute ``dimension``: the first ``size`` of them, and zeros where there are fewer."""


class Control(Enum):
    """``loops`` of an op that runs its regions, from the host program: how."""

    #: While the first region, of the carried values, gives true, they become what the second one gives.
    WHILE = "while"
    #: The first region for each slice of the arrays, with carried values (``attrs``: carries, length, reverse).
    SCAN = "scan"
    #: The region that the first operand numbers; the last one for numbers that there are no regions for.
    CASE = "case"
    #: The first region where the first operand is true, else the second.
    IF = "if"


class Inline(Enum):
    """``loops`` of a CALL or a BARRIER: when what it stands for takes its place."""

    #: When the trace ends: derivatives were asked for by then, and nothing else looks at it.
    AFTER_TRACE = "after the trace"
    #: Before the passes: until then a program may be written out in another form, in which it has a name.
    BEFORE_PASSES = "before the passes"
    #: When groups are cut: passes respect a barrier, and groups wait where it says so.
    STITCHED = "when stitched"


@record()
class LibraryRoutine:
    """``loops`` of an OPAQUE op that a library computes: the host program calls its ``reference``; or native code, if
    there is some for it, by the name ``routine`` (``dyn.lower.library_calls``).

    ``into(results, *arrays, **attrs)`` computes what ``reference`` does into arrays that are there, which saves a
    copy of large results. They may lie where operands lie.
    """

    routine: str | None = None
    into: Callable[..., None] | None = None


@record()
class Composite:
    """``loops`` of an OPAQUE op that other ops make up: its ``simplify`` gives their results, always."""


@record()
class Scatter:
    """``loops`` of an op that puts updates into windows of its first operand, in the updates' row-major order.

    ``updates(op)`` are those, ``windows(op)`` the dimension numbers that say where they go, with the operands that hold
    each window's start. ``combine(attrs)`` is how an update joins what is there, None where it takes its place, or
    where the op has a region: that gives what will be there, from what is there and the update. A window that would
    leave the array is moved inside with ``clamp``; without, what lies outside of it is left out.
    """

    updates: Callable[[Op], Value]
    windows: Callable[[Op], tuple[Any, tuple[Value, ...]]]
    combine: Callable[[Any], Any]
    clamp: bool = False


@record()
class WindowFold:
    """``loops`` of an op each of whose result elements folds the elements under the taps of a window.

    ``extents(op)`` are the numbers of taps, ``at(k, op, index, taps, get, wide)`` is what a tap of the window of the
    result element at ``index`` contributes, in the dtype ``wide`` that is computed with. ``identity(attrs, dtype)``
    changes nothing under ``combine(attrs)``. Windows of different sizes have one axis of taps, of as many as
    ``length(k, op, index, get)`` finds for each, a dim of bound values that is not negative.
    """

    combine: Callable[[Attrs], Any]
    identity: Callable[[Attrs, DType], bool | int | float]
    extents: Callable[[Op], tuple[Dim, ...]]
    at: Callable[..., Any]
    length: Callable[..., Dim] | None = None


@record()
class OrderedWindows:
    """``loops`` of an op each of whose result elements folds those under the taps of a window, in their order.

    The operands and the region are those of an OrderedReduction. ``extents(op)`` are the numbers of taps;
    ``at(k, op, number, index, taps, get, hole)`` is what array ``number`` has under a tap of the window of the result
    element at ``index``, or ``hole`` where it has nothing.
    """

    extents: Callable[[Op], tuple[Dim, ...]]
    at: Callable[..., Any]


@record()
class Convolution:
    """``loops`` of a convolution: StableHLO's dimension numbers, in its attributes."""


Loops = (
    ElementLoops
    | ReductionLoops
    | OrderedReductionLoops
    | WindowFold
    | OrderedWindows
    | ContractionLoops
    | Convolution
    | Scatter
    | RunningLoops
    | CompactionLoops
    | Control
    | Inline
    | LibraryRoutine
    | Composite
    | None
)
TypeRule = Callable[[TypeContext, tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]
#: ``reference(*arrays, **attrs)``: the result, or a tuple of them where there are several. An op's regions are one
#: more argument, ``regions``: functions on arrays (``dyn.ir.evaluate``).
Reference = Callable[..., Any]
#: ``vjp(b, op, cotangents)``: from the cotangents of an op's results (None where one is zero, but not for all) those
#: of its operands (None where one is zero, or has no derivative), made with the builder ``b``. Nothing is conjugated:
#: of ``y = f(z)`` with complex numbers it is ``ct * f'(z)``, as in JAX. A DynError in place of a cotangent is raised if
#: that operand depends on what is differentiated by.
VjpRule: TypeAlias = "Callable[[Builder, Op, tuple[Any, ...]], Sequence[Value | DynError | None]]"
#: ``jvp(b, op, tangents)``: from the tangents of an op's operands (None where one is zero, but not for all) those of
#: its results. ``op`` is in the program already.
JvpRule: TypeAlias = "Callable[[Builder, Op, tuple[Any, ...]], Sequence[Value | None]]"
#: ``batch(b, op, operands, batched, size)``: the results for ``size`` examples at once, each with the new axis in
#: front. Of ``operands`` those that are ``batched`` have that axis in front too; there is at least one.
BatchRule: TypeAlias = "Callable[[Builder, Op, tuple[Value, ...], tuple[bool, ...], Dim], Sequence[Value]]"

#: ``flops(op)``: the operations that an op takes, in real arithmetic.
FlopRule: TypeAlias = "Callable[[Op], Dim]"


@record()
class Sample:
    """A small call of an op for its tests: operand arrays, attributes and regions."""

    operands: tuple[np.ndarray[Any, Any], ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: They read nothing from outside.
    regions: tuple[Region, ...] = ()


@record(eq=False)
class OpDef:
    """An op: its StableHLO name, its kind and every rule that some part of dyn needs.

    ``types`` gives the result types and demands what must hold of the dims; ``loops`` says how it computes;
    ``reference`` computes it with NumPy (``reference(*arrays, **attrs)``, with concrete dims); ``samples`` are calls
    for the tests; ``vjp``, ``jvp``, ``batch`` are the transformation rules (``VjpRule``, ``JvpRule``, ``BatchRule``).
    How it is written as StableHLO is said in ``dyn.interop.stablehlo.codecs``.
    ``simplify(b, op)`` may give cheaper values of equal types, or None: it may look at what ``b`` has built
    (``b.producer``, ``b.uniform``, ``b.facts``), and must give the same numbers to the bit.
    """

    name: str
    kind: OpKind
    types: TypeRule
    loops: Loops
    reference: Reference
    samples: Callable[[], list[Sample]]
    vjp: VjpRule | NoGrad | _Marks
    jvp: JvpRule | NoGrad | _Marks
    batch: BatchRule | NoBatch | _Marks
    simplify: Callable[[Builder, Op], tuple[Value, ...] | None] | None = None
    #: For a VIEW: the elements lie in the operand's own order, so the two can share memory.
    keeps_order: bool = False
    #: How it acts on complex numbers, in real ops: ``parts(b, op, operands)``, where a complex operand is the pair of
    #: its parts, gives a value or such a pair. None for what moves elements: it moves the parts alike.
    parts: Callable[[Builder, Op, tuple[Any, ...]], Any] | None = None
    #: ``prune(op, live)``: the op without results that are not among the values ``live``.
    prune: Callable[[Op, set[Value]], Op] | None = None
    #: ``prepare(op)``: the op with more results, after its own, for a ``vjp`` that is to come.
    prepare: Callable[[Op], Op] | None = None
    #: Of a CALL: transformations see the ops of its first region, and not the op.
    transparent: bool = False
    #: Of a CALL: its last region is the rule of its derivative, and nothing that it computes itself.
    has_backward: bool = False
    #: Whether an op does something beside giving its results, so that it runs exactly when the program says so, in the
    #: order in which the program says it (``dyn.ir.effects``). None where it never does.
    effects: Callable[[Op], bool] | None = None
    #: ``determined(operands, results)``: where operands leave results open, as they do phases of vectors, arrays of
    #: what they do not leave open. None where the results are that.
    determined: Callable[[Sequence[np.ndarray[Any, Any]], Sequence[np.ndarray[Any, Any]]], tuple[Any, ...]] | None = (
        None
    )
    #: The operations that it takes. None where its ``loops`` tell (``dyn.ops.work``): those of a library tell nothing.
    flops: FlopRule | None = None
    #: Whether the results are those of operands that differ from the given ones by about a rounding of their largest
    #: elements, as factors of matrices and solutions of equations are (N. Higham, *Accuracy and Stability*, 1.5).
    is_backward_stable: bool = False

    def __post_init__(self) -> None:
        if self.name in REGISTRY:
            raise IRError(f"op {self.name} is defined twice")
        REGISTRY[self.name] = self

    def __repr__(self) -> str:
        return self.name

    def rule(self, which: Literal["vjp", "jvp", "batch"], loc: Loc | None = None) -> Any:
        """The transformation rule ``which``; NotYetError, at ``loc``, where there is none yet."""
        rule = getattr(self, which)
        if rule is NOT_YET:
            what, remedy = _MISSING[which]
            raise NotYetError(f"{self.name} has no {what} yet.", loc=loc, remedy=remedy)
        return rule


_OWN_RULE = "give the function around it a derivative of its own, with dyn.custom_vjp or dyn.custom_jvp."
#: What a rule that is not there yet is called, and what to do without it.
_MISSING = {
    "vjp": ("derivative backward", _OWN_RULE),
    "jvp": ("derivative forward", _OWN_RULE),
    "batch": ("rule for many examples at once", "use dyn.lax.map, which takes one after the other."),
}

#: Every op by name; filled when ``dyn.ops`` is imported, read by the parser.
REGISTRY: dict[str, OpDef] = {}
