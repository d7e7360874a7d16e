"""Functions outside of programs, as attributes of the ops that call them.

Compiled code refers to an external function by its number among those of the program, in the order in which the traced
program first calls them. So code is shared by programs that differ in nothing but what they call, and may be kept on
disk, where no Python function has a place.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from dyn.dtypes import DType, dtype
from dyn.errors import ExternalError
from dyn.frozen import record
from dyn.ir.core import Op, attrs_key
from dyn.source import Loc

Array = np.ndarray[Any, Any]
#: How a call for one example becomes a call for many: ``jax.pure_callback`` says what each means.
VmapMethod = Literal["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]


@record()
class ExternalResult:
    """A result that a call has to give, in the call at hand."""

    dtype: DType
    shape: tuple[int, ...]


class PythonFunction(Protocol):
    """``function(arrays, expected)``: the results for operands that it may keep, checked against ``expected``."""

    def __call__(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> Sequence[Array]: ...


@record(eq=False)
class NativeFunction:
    """``int32 f(void* context, const Tensor* in, Tensor* out)`` at an address, as ``docs/callbacks.md`` says.

    ``errors`` are texts for the numbers that it may return, ``keep`` what has to stay alive for it to be called.
    """

    address: int
    context: int
    errors: Mapping[int, str]
    keep: object


@record(eq=False)
class External:
    """A function that programs call: each is itself, and no two are equal.

    ``name`` is what errors call it, ``loc`` the line that the call stands in.
    """

    name: str
    loc: Loc
    function: PythonFunction | NativeFunction
    #: Whether it does something beside giving its results: it then runs exactly when the program says so.
    effects: bool = False
    #: Whether examples must not be taken apart by vmap, since their calls would come in another order.
    ordered: bool = False
    vmap_method: VmapMethod | None = None
    #: Whether a Python function is given the program's own memory, which it neither keeps nor writes to, not copies.
    borrows: bool = False

    def failure(self, answer: int) -> ExternalError:
        """The error that a native function's answer is."""
        assert isinstance(self.function, NativeFunction)
        text = self.function.errors.get(answer)
        return ExternalError(
            f"{self.name} failed: it returned {answer}{'' if text is None else f', {text}'}.",
            loc=self.loc,
            remedy="what the number means is for the function to say: errors= takes a text for each."
            if text is None
            else "",
        )

    def run_native(self, arrays: Sequence[Array], expected: Sequence[ExternalResult]) -> tuple[Array, ...]:
        """Call a native function with copies of arrays; ExternalError where it answers that it failed."""
        assert isinstance(self.function, NativeFunction)
        given = [np.array(x, order="C") for x in arrays]
        made = [np.empty(x.shape, x.dtype.np) for x in expected]
        inputs, outputs = _Tensors(given), _Tensors(made)
        answer = _NATIVE(self.function.address)(self.function.context, inputs.address, outputs.address)
        if answer != 0:
            raise self.failure(answer)
        return tuple(made)

    def __repr__(self) -> str:
        return f"<{self.name}>"


#: A tensor in memory: data, dtype, rank, dims, strides.
TENSOR = struct.Struct("PIiPP")
#: ``(context, in, out)``
_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)


class _Tensors:
    """Arrays as native functions are given them, which have to live as long as this does."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._dims = [(ctypes.c_int64 * max(x.ndim, 1))(*x.shape) for x in arrays]
        records = [
            TENSOR.pack(x.ctypes.data, dtype(x.dtype).dlpack, x.ndim, ctypes.addressof(dims), 0)
            for x, dims in zip(arrays, self._dims, strict=True)
        ]
        self._memory = ctypes.create_string_buffer(b"".join(records))
        self.address = ctypes.addressof(self._memory)


@record(eq=False)
class ExternalTarget:
    """The target of a ``custom_call``: an external function, or what is registered for a name, with attributes."""

    target: External | str
    #: How many results it gives.
    results: int
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Its name in errors."""
        return repr(self.target) if isinstance(self.target, str) else self.target.name

    @property
    def runs_python(self) -> bool:
        return isinstance(self.target, str) or not isinstance(self.target.function, NativeFunction)

    @property
    def effects(self) -> bool:
        return isinstance(self.target, External) and self.target.effects

    def key(self) -> tuple[object, ...]:
        """The parts that equality compares: an attribute 1 is neither 1.0 nor True."""
        return self.target, self.results, attrs_key(dict(self.attributes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExternalTarget) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())


def callee_of(op: Op) -> ExternalTarget | None:
    """The function that an op calls; None of ops that call nothing outside."""
    target = op.attrs.get("target")
    if not isinstance(target, External | str):
        return None
    return ExternalTarget(target, len(op.results), op.attrs.get("attributes", ()))


def callees(ops: Sequence[Op]) -> tuple[ExternalTarget, ...]:
    """The functions that ops call, those in their regions too, each once, in order."""
    found: dict[ExternalTarget, None] = {}
    _collect(ops, found)
    return tuple(found)


def _collect(ops: Sequence[Op], found: dict[ExternalTarget, None]) -> None:
    for op in ops:
        callee = callee_of(op)
        if callee is not None:
            found.setdefault(callee)
        for region in op.regions:
            _collect(region.ops, found)
