"""StableHLO programs as plain records, and what a codec is: how an op is written as StableHLO, and read again.

Nothing here knows of MLIR: ``dyn.interop.stablehlo.mlir`` turns these records into a module of jaxlib's bindings and
back. The codecs of the ops are in ``dyn.interop.stablehlo.codecs``. Types are tensors whose sizes are dims; in a
program that was read a size may be None, for ``?``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn, Protocol

import numpy as np

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, RelKind, SymExpr, format_dim
from dyn.source import UNKNOWN, Loc


@record()
class HloType:
    """``tensor<?x4xf32>``, with ``bounds`` ``tensor<?x4xf32, #stablehlo.bounds<8, ?>>``."""

    dtype: DType
    shape: tuple[Dim | None, ...]
    #: The most that a size is, None where nothing is said; empty where nothing is said of any.
    bounds: tuple[int | None, ...] = ()

    @staticmethod
    def of(type: TensorType) -> HloType:
        return HloType(type.dtype, type.shape)

    @property
    def static(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(d, int) for d in self.shape)

    def bound(self, axis: int) -> int | None:
        """The most that the size of an axis is, where the type says that."""
        return self.bounds[axis] if self.bounds else None

    def __str__(self) -> str:
        dims = ["?" if d is None else format_dim(d) for d in self.shape]
        return f"{self.dtype}[{', '.join(dims)}]"


@record(eq=False)
class HloValue:
    """A tensor in a program, compared by identity."""

    type: HloType

    @property
    def shape(self) -> tuple[Dim | None, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


# What an attribute may be: an int (64 bits), a bool, a float, a string, an array (dense elements), a tuple of ints or
# of bools, a tuple of such tuples, a tuple of attributes, a mapping, or one of these:


@record()
class HloEnum:
    """``#stablehlo<comparison_direction LT>``."""

    kind: str
    value: str


@record()
class HloNumbers:
    """Dimension numbers: ``#stablehlo.gather<offset_dims = [1], …>``; fields that are left out are empty or 0."""

    kind: str
    fields: Mapping[str, Any]

    def axes(self, name: str) -> tuple[int, ...]:
        return tuple(self.fields.get(name, ()))


@record()
class HloSymbol:
    """``@name``: a function of the module."""

    name: str


@record()
class HloInt:
    """An integer of fewer bits than 64."""

    value: int
    bits: int = 32


@record()
class HloFloat:
    """A float of 32 bits; others have 64."""

    value: float


@record()
class HloText:
    """An attribute that only StableHLO itself understands, as MLIR's text."""

    text: str


@record(eq=False)
class HloOp:
    """One operation: its full name (``stablehlo.add``), operands, attributes, regions, results and its line."""

    name: str
    operands: tuple[HloValue, ...]
    attrs: Mapping[str, Any]
    results: tuple[HloValue, ...]
    regions: tuple[HloRegion, ...] = ()
    loc: Loc = UNKNOWN


@record(eq=False)
class HloRegion:
    """One block: parameters, ops, and what its ``return`` gives. Some regions use values from around them."""

    params: tuple[HloValue, ...]
    ops: tuple[HloOp, ...]
    results: tuple[HloValue, ...]


@record(eq=False)
class HloFunction:
    """A function of a module. ``params`` and ``results`` attributes are one mapping for each."""

    name: str
    body: HloRegion
    param_attrs: tuple[Mapping[str, Any], ...] = ()
    result_attrs: tuple[Mapping[str, Any], ...] = ()
    public: bool = True
    #: What people call the parameters.
    param_names: tuple[str, ...] = ()


@record(eq=False)
class HloModule:
    """A module: its functions by name, in order."""

    name: str
    functions: Mapping[str, HloFunction]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


# --- what rules are given -----------------------------------------------------------------------------------------


class Encoder(Protocol):
    """A StableHLO program that grows: what an op is written with."""

    @property
    def facts(self) -> Facts: ...

    @property
    def for_xla(self) -> bool:
        """Whether XLA's results count, where they are not those of the specification."""
        ...

    def ops(
        self,
        name: str,
        /,
        operands: Sequence[HloValue],
        types: Sequence[HloType],
        regions: Sequence[HloRegion] = (),
        **attrs: Any,
    ) -> tuple[HloValue, ...]:
        """Append an operation; attributes that are None are left out."""
        ...

    def op(
        self,
        name: str,
        *operands: HloValue,
        type: HloType | None = None,
        regions: Sequence[HloRegion] = (),
        **attrs: Any,
    ) -> HloValue:
        """Append an operation of one result, of the first operand's type unless it says otherwise."""
        ...

    def constant(self, array: Any, dtype: DType | None = None) -> HloValue: ...

    def full(self, value: Any, type: HloType) -> HloValue:
        """A number everywhere in a shape."""
        ...

    def spread(self, value: HloValue, type: HloType, dims: Sequence[int]) -> HloValue:
        """``broadcast_in_dim``, static or dynamic."""
        ...

    def cast(self, value: HloValue, type: HloType) -> HloValue:
        """A value as one of another type that is known to be the same: sizes may be written differently."""
        ...

    def reshaped(self, value: HloValue, shape: Sequence[Dim]) -> HloValue:
        """``reshape``, static or dynamic."""
        ...

    def sliced(
        self, value: HloValue, start: Sequence[Dim], limit: Sequence[Dim], strides: Sequence[Dim], type: HloType
    ) -> HloValue:
        """``slice``, static or dynamic."""
        ...

    def padded(self, value: HloValue, hole: HloValue, paddings: Sequence[Sequence[Dim]], type: HloType) -> HloValue:
        """``pad``, static or dynamic: before, after and between the elements."""
        ...

    def dim(self, dim: Dim) -> HloValue:
        """A dim as an int64 scalar."""
        ...

    def dims(self, dims: Sequence[Any]) -> HloValue:
        """Dims as an int64 vector; of tuples of dims, a matrix."""
        ...

    def region(self, region: Any) -> HloRegion:
        """A region of an op (:class:`dyn.ir.core.Region`)."""
        ...

    def inlined(self, region: Any, args: Sequence[HloValue]) -> tuple[HloValue, ...]:
        """The ops of a region here, with ``args`` for its parameters; gives its results."""
        ...

    def block(
        self, types: Sequence[HloType], build: Callable[[Any, tuple[HloValue, ...]], Sequence[HloValue]]
    ) -> HloRegion:
        """The region whose results are what ``build(encoder, params)`` gives."""
        ...

    def function(self, name: str, region: HloRegion) -> HloSymbol:
        """A private function of the module, for calls."""
        ...

    def outlined(self, name: str, region: Any) -> HloSymbol | None:
        """A region of an op as a private function; None where it is none of its parameters alone."""
        ...


#: ``encode(e, op, operands)``: the results of an op (:class:`dyn.ir.core.Op`), written with ``e``.
EncodeRule = Callable[[Any, Any, tuple[HloValue, ...]], Sequence[HloValue]]


class Decoder(Protocol):
    """A program that is being read, at one of its operations, which becomes ops of the builder ``b``.

    ``imported`` are the Python functions that came with the module, by their numbers.
    """

    b: Any
    imported: Mapping[int, Any]

    def value(self, value: HloValue) -> Any:
        """A tensor as a :class:`dyn.ir.core.Value`."""
        ...

    def dims(self, value: HloValue) -> tuple[Dim, ...]:
        """An integer tensor whose elements are sizes, flattened; those that depend on data the program measures."""
        ...

    def matrix(self, value: HloValue) -> tuple[tuple[Dim, ...], ...]:
        """The sizes in an integer matrix, row by row; as :meth:`dims` otherwise."""
        ...

    def known(self, value: HloValue) -> np.ndarray[Any, Any] | None:
        """The elements of an integer tensor as far as they are sizes, as an array of dims; None where they are not."""
        ...

    def scalar_region(self, region: HloRegion, count: int | None = None) -> Any:
        """A region of scalar code, as a :class:`dyn.ir.core.Region`."""
        ...

    def closed(self, regions: Sequence[HloRegion], types: Sequence[TensorType]) -> tuple[tuple[Any, ...], list[Any]]:
        """Regions of array code with parameters of ``types``, and the values from around them that they read.

        Each region has those as parameters after its own.
        """
        ...

    def demand(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        """Demand a relation of sizes at the operation's line; ``text`` says why."""
        ...

    def fail(self, text: str, remedy: str = "") -> NoReturn:
        """Raise UnsupportedOpError for the operation, with its line."""
        ...


#: ``decode(d, op)``: the results of an operation as values of ``d.b``.
DecodeRule = Callable[[Any, HloOp], Sequence[Any]]


@record()
class Codec:
    """Codec of an op: how it is written as StableHLO, and which operations are read as it.

    ``form`` says what it becomes, for people: its twin's name, ``"decomposed: …"``, or ``"identity"``.
    """

    form: str
    encode: EncodeRule
    decode: Mapping[str, DecodeRule] = field(default_factory=dict[str, DecodeRule])


def is_static(shape: Sequence[Dim | None]) -> bool:
    """Whether all sizes are numbers."""
    return not any(d is None or isinstance(d, SymExpr) for d in shape)
