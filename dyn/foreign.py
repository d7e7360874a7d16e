"""Native functions that programs call without Python: ``dyn.ffi_call``."""

from __future__ import annotations

import ctypes
import os
from _ctypes import CFuncPtr
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dyn.callbacks import VMAP_METHODS
from dyn.custom import custom_vjp
from dyn.errors import ArgumentError
from dyn.ir.external import External, NativeFunction, VmapMethod
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.external import call_external, declared_results, operand_values
from dyn.trace.pytree import flatten, leaf_names
from dyn.trace.tracer import active_trace
from dyn.transforms import Transformed

Function = Callable[..., Any]
#: A function of ctypes, ``(library, symbol)``, or an address.
Target = Any


def ffi_call(
    target: Target, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: VmapMethod | None = None,
    vjp: Function | None = None, context: Any = None, errors: Mapping[int, str] = MappingProxyType({}),
) -> Function:  # fmt: skip
    """A native function as a function of arrays, which compiled code calls without Python and without the GIL.

    It has the C signature ``int32_t f(void *context, const Tensor *in, Tensor *out)``, where
    ``struct Tensor { void *data; DLDataType dtype; int32_t rank; const int64_t *dims, *strides; }``: one
    for each array, in the order of the arguments, and one for each result, whose memory is there already. All are dense
    and row-major, and ``strides`` is null. It returns 0, or a number that makes the call an error. It must be safe to
    call from any thread, keeps no pointer, and writes to nothing but its results (``docs/callbacks.md``).

    Args:
        target: a function of ctypes (one that Python is called by takes the GIL itself), a pair of a shared library's
            path and a symbol, or an address.
        result_shape_dtypes: a tree of what has ``shape`` and ``dtype``, such as ``dyn.ShapeDtypeStruct``; or a function
            of the arguments that gives one: ``lambda x, y: dyn.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype)``.
            Sizes may be dimensions.
        has_side_effect: whether it does something beside giving results. It then runs exactly as often as the program
            comes by, in the program's order; else not where nobody reads a result.
        vmap_method: as that of :func:`dyn.pure_callback`.
        vjp: its derivative, ``vjp(args, results, cotangents)``, gives a tuple with a cotangent for each argument, None
            for zero. Without, a derivative by what it is given is an error.
        context: what it is given as ``context``: an address, or an object of ctypes, which is kept alive. None is null.
        errors: texts for the numbers that it may return.

    Returns:
        A function of arrays and numbers (trees of them), to the tree that ``result_shape_dtypes`` declares.

    Raises:
        ArgumentError: where ``target`` is none of these, or not found.
        ExternalError: from calls for which the function returns another number than 0.
    """
    function = _native(target, context, errors)
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ArgumentError(
            f"ffi_call: vmap_method={vmap_method!r} is none.",
            loc=user_loc(),
            remedy=f"pass one of {', '.join(map(repr, VMAP_METHODS))}, or None.",
        )
    foreign = _Foreign(f"ffi_call of {_name_of(target)}", function, result_shape_dtypes, has_side_effect, vmap_method)

    call = foreign.call if vjp is None else _with_derivative(foreign, vjp)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            raise ArgumentError(
                f"{foreign.name} takes arrays by position, and was given {', '.join(kwargs)}.",
                loc=user_loc(),
                remedy="leave the names out.",
            )
        return call(*args)

    return Transformed("ffi_call", call, inside)


@dataclass(frozen=True, eq=False)
class _Foreign:
    """A native function with the types of its results."""

    name: str
    function: NativeFunction
    declared: Any
    effects: bool
    vmap_method: VmapMethod | None

    def call(self, *args: Any) -> Any:
        """The call, in the trace of its arguments."""
        leaves, tree = flatten(args)
        trace = active_trace(*leaves)
        assert trace is not None, "Transformed calls it in a trace"
        wanted = self.declared(*args) if callable(self.declared) and not _is_type(self.declared) else self.declared
        values = operand_values(trace, leaves, leaf_names(tree, "args"), self.name)
        external = External(self.name, user_loc(), self.function, self.effects, False, self.vmap_method)
        return call_external(trace, external, values, declared_results(self.name, wanted))


def _is_type(value: Any) -> bool:
    """Whether a value declares a result, though it can be called."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _with_derivative(foreign: _Foreign, vjp: Function) -> Function:
    """The call with the derivative that the user gave."""
    called = custom_vjp(foreign.call)

    def forward(*args: Any) -> Any:
        made = foreign.call(*args)
        return made, (args, made)

    def backward(kept: Any, cotangents: Any) -> Any:
        args, made = kept
        return tuple(vjp(args, made, cotangents))

    called.defvjp(forward, backward)
    return called


# --- targets ------------------------------------------------------------------------------------------------------


def _native(target: Target, context: Any, errors: Mapping[int, str]) -> NativeFunction:
    place, kept = _context(context)
    if isinstance(target, tuple) and len(target) == 2:
        library, symbol = target
        address = _symbol(os.fspath(library), symbol)
    elif isinstance(target, CFuncPtr):
        address = ctypes.cast(target, ctypes.c_void_p).value or 0
    elif isinstance(target, int) and not isinstance(target, bool):
        address = target
    else:
        raise ArgumentError(
            f"ffi_call: {target!r} is no native function.",
            loc=user_loc(),
            remedy='pass a function of ctypes, ("library.so", "symbol"), or an address.',
        )
    if not 0 < address < 1 << 63:
        raise ArgumentError(
            f"ffi_call: {address:#x} is no address of a function.",
            loc=user_loc(),
            remedy="pass the address of a function that is loaded.",
        )
    return NativeFunction(address, place, MappingProxyType(dict(errors)), (target, kept))


def _symbol(library: str, symbol: str) -> int:
    """The address of a symbol; its library stays loaded."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError as error:
        raise ArgumentError(
            f"ffi_call: the library {library!r} cannot be loaded: {error}.",
            loc=user_loc(),
            remedy="pass the path of a shared library.",
        ) from None
    try:
        return ctypes.cast(getattr(loaded, symbol), ctypes.c_void_p).value or 0
    except AttributeError:
        raise ArgumentError(
            f"ffi_call: the library {library!r} has no symbol {symbol!r}.",
            loc=user_loc(),
            remedy='export it: in C++ with extern "C".',
        ) from None


def _context(context: Any) -> tuple[int, Any]:
    """The address of a context, and what has to stay alive for it."""
    if context is None:
        return 0, None
    if isinstance(context, int) and not isinstance(context, bool):
        return context, None
    if isinstance(context, ctypes.Structure | ctypes.Union | ctypes.Array | ctypes._SimpleCData):
        return ctypes.addressof(context), context
    raise ArgumentError(
        f"ffi_call: context is a {type(context).__name__}.",
        loc=user_loc(),
        remedy="pass an address, or an object of ctypes.",
    )


def _name_of(target: Target) -> str:
    if isinstance(target, tuple):
        return str(target[1])
    if isinstance(target, int):
        return f"{target:#x}"
    return getattr(target, "__name__", "a function of ctypes")
