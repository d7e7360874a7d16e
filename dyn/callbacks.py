"""Python functions that programs call while they run: ``dyn.pure_callback`` and ``dyn.io_callback``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from dyn import dtypes
from dyn.array import OWN, adapter_of, from_numpy, result_host
from dyn.errors import ArgumentError, ShapeError
from dyn.ir.external import External, ExternalResult, VmapMethod
from dyn.shapes import Dim
from dyn.source import Loc, user_loc
from dyn.trace.context import Trace
from dyn.trace.external import DeclaredResults, call_external, declared_results, operand_values
from dyn.trace.lift import as_numpy, settled_dtype, weak_dtype
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text, unflatten
from dyn.trace.tracer import active_trace

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
VMAP_METHODS: tuple[str, ...] = get_args(VmapMethod)


def pure_callback(
    callback: Function, result_shape_dtypes: Any, *args: Any, sharding: Any = None,
    vmap_method: VmapMethod | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call a Python function without side effects, in a program and outside of one, as ``jax.pure_callback`` does.

    It may be called any number of times, and not at all where nobody reads what it gives; calls with equal arguments
    are not merged. It is called on the thread that made the call, with the GIL; what it raises comes out of the call of
    the compiled function.

    Args:
        callback: the function. It is given NumPy arrays of its own, in the trees of ``args`` and ``kwargs``, and
            returns a tree of arrays, or of Python numbers.
        result_shape_dtypes: a tree of what has ``shape`` and ``dtype``, such as ``dyn.ShapeDtypeStruct``, or None.
            Sizes may be dimensions (``x.shape[0]``), those that a program measures among them.
        *args: trees of arrays, numbers and dimensions, for the callback.
        sharding: None, or anything: there is one device.
        vmap_method: how ``dyn.vmap`` calls it: ``"sequential"`` (or ``"sequential_unrolled"``) once for each example;
            ``"expand_dims"`` once, with an axis of examples in front, which has size 1 where all share the argument;
            ``"broadcast_all"`` once, with that axis repeated; ``"legacy_vectorized"`` once, with no axis where all
            share. None makes ``vmap`` an error.
        **kwargs: the same by name.

    Returns:
        A tree like ``result_shape_dtypes``. Outside of a program the arrays are of the kind that the arguments are.

    Raises:
        ShapeError, ArgumentError: where what the callback returns is not what was declared.
        UnsupportedOpError: under a derivative by what the callback is given (wrap the function around it in
            ``dyn.custom_vjp`` or ``dyn.custom_jvp``), or under ``vmap`` without a ``vmap_method``.
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ArgumentError(
            f"pure_callback: vmap_method={vmap_method!r} is none.",
            loc=user_loc(),
            remedy=f"pass one of {', '.join(map(repr, VMAP_METHODS))}, or None.",
        )
    return _call("pure_callback", callback, result_shape_dtypes, args, kwargs, False, False, vmap_method)


def io_callback(
    callback: Function, result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False, **kwargs: Any
) -> Any:
    """Call a Python function that has side effects, as ``jax.experimental.io_callback`` does.

    It is called exactly as often as the program comes by: once for each step of a loop, and only in the branch that is
    taken. Calls of one program come in its order, ``ordered`` or not.

    Args:
        callback: the function. It is given NumPy arrays of its own, in the trees of ``args`` and ``kwargs``, and
            returns a tree of arrays, or of Python numbers.
        result_shape_dtypes: tree of what has ``shape`` and ``dtype``, such as ``dyn.ShapeDtypeStruct``, or None. Sizes
            may be dimensions.
        *args: trees of arrays, numbers and dimensions, for the callback.
        sharding: None, or anything: there is one device.
        ordered: whether vmap is an error, which otherwise calls it once for each example.
        **kwargs: trees for the callback by name.

    Returns:
        A tree like ``result_shape_dtypes``. Outside of a program the arrays are of the kind that the arguments are.

    Raises:
        ShapeError: if what the callback returns has another shape than was declared.
        ArgumentError: if it returns another tree or dtype; if it cannot be called, or an argument is none.

    Example:
        >>> seen = []
        >>> dyn.jit(lambda x: dyn.io_callback(lambda v: seen.append(int(v)), None, x.sum()))(np.array([1, 2]))
        >>> seen
        [3]
    """
    return _call("io_callback", callback, result_shape_dtypes, args, kwargs, True, ordered, "sequential")


def _call(
    kind: str, callback: Function, result_shape_dtypes: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
    effects: bool, ordered: bool, vmap_method: VmapMethod | None,
) -> Any:  # fmt: skip
    name = callback_name(kind, callback)
    declared = declared_results(name, result_shape_dtypes)
    leaves, tree = flatten((args, kwargs))
    call = ArrayCall(name, callback, tree, declared.tree, declared.named, user_loc())
    trace = active_trace(*leaves)
    if trace is None:
        return _eagerly(call, leaves, declared)
    return emit_call(trace, call, leaves, argument_names(tree), declared, effects, ordered, vmap_method)


def emit_call(
    trace: Trace, call: ArrayCall, leaves: Sequence[Any], names: Sequence[str], declared: DeclaredResults,
    effects: bool, ordered: bool, vmap_method: VmapMethod | None,
) -> Any:  # fmt: skip
    """The call in a program."""
    values = operand_values(trace, leaves, names, call.name)
    external = External(call.name, call.loc, call, effects, ordered, vmap_method)
    return call_external(trace, external, values, declared)


def callback_name(kind: str, callback: Function) -> str:
    """The name of a callback in errors; ArgumentError for what cannot be called."""
    if not callable(callback):
        raise ArgumentError(
            f"{kind} takes a function, not a {type(callback).__name__}.",
            loc=user_loc(),
            remedy="pass the function itself.",
        )
    return f"{kind} of {getattr(callback, '__name__', type(callback).__name__)}"


def argument_names(tree: TreeSpec) -> list[str]:
    """The user's names for the leaves of ``(args, kwargs)``."""
    pairs = zip(("args", "kwargs"), tree.children(), strict=True)
    return [name for root, part in pairs for name in leaf_names(part, root)]


@dataclass(frozen=True, eq=False)
class ArrayCall:
    """A callback that is given the trees of its arguments, and whose results are checked."""

    name: str
    callback: Function
    tree: TreeSpec
    results: TreeSpec
    named: tuple[str, ...]
    loc: Loc

    def __call__(self, arrays: Sequence[Any], expected: Sequence[ExternalResult]) -> list[Array]:
        args, kwargs = unflatten(self.tree, list(arrays))
        made = self.callback(*args, **kwargs)
        leaves, tree = flatten(made)
        if tree != self.results:
            raise ArgumentError(
                f"{self.name} returned {tree_text(tree)}, and {tree_text(self.results)} was declared.",
                loc=self.loc,
                remedy="return a tree of the structure of result_shape_dtypes, or declare what it returns.",
            )
        return [self._checked(*each) for each in zip(leaves, expected, self.named, strict=True)]

    def _checked(self, leaf: Any, expected: ExternalResult, name: str) -> Array:
        weak = weak_dtype(leaf)
        if weak is not None and weak.kind.value <= expected.dtype.kind.value:  # a Python number has no dtype of its own
            array = np.array(leaf, expected.dtype.np)
        elif weak is not None or isinstance(leaf, np.generic) or adapter_of(leaf) is not None:
            array = as_numpy(leaf)
        else:
            raise ArgumentError(
                f"{self.name}: {name} is a {type(leaf).__name__}, which is not an array.",
                loc=self.loc,
                remedy="return arrays, or Python numbers.",
            )
        wanted = expected.dtype
        if array.dtype != wanted.np:
            raise ArgumentError(
                f"{self.name}: {name} is {array.dtype}, and {wanted.name} was declared.",
                loc=self.loc,
                remedy=f"return it as {wanted.name}, or declare what it returns.",
            )
        if array.shape != expected.shape:
            raise ShapeError(
                f"{self.name}: {name} has the shape {array.shape}, and {expected.shape} was declared.",
                loc=self.loc,
                remedy="return an array of the declared shape, or declare what it returns.",
            )
        return array


def _eagerly(call: ArrayCall, leaves: Sequence[Any], declared: DeclaredResults) -> Any:
    expected = [ExternalResult(d, _numbers(s)) for d, s in zip(declared.dtypes, declared.shapes, strict=True)]
    made = call(
        [own_array(leaf, name, call) for leaf, name in zip(leaves, argument_names(call.tree), strict=True)], expected
    )
    hosts = [host for leaf in leaves if (host := adapter_of(leaf)) is not None]
    host = result_host(hosts) if hosts else OWN
    return from_numpy(host, unflatten(declared.tree, [np.array(x) for x in made]))


def _numbers(shape: Sequence[Dim]) -> tuple[int, ...]:
    return tuple([int(size) for size in shape if isinstance(size, int)])


def own_array(leaf: Any, name: str, call: Any) -> Array:
    """A copy of an array or a number, as compiled code would hand it over; ArgumentError for anything else."""
    weak = weak_dtype(leaf)
    if weak is not None:
        return np.array(leaf, settled_dtype(weak).np)
    if adapter_of(leaf) is None:
        raise ArgumentError(
            f"{call.name}: {name} is a {type(leaf).__name__}, which is not an array.",
            loc=call.loc,
            remedy="pass arrays or numbers there, and close over everything else.",
        )
    return np.array(known_array(leaf))


def known_array(leaf: Any) -> Array:
    """An array of any library as a NumPy array of a dtype that dyn has."""
    array = as_numpy(leaf)
    dtypes.dtype(array.dtype)
    return array
