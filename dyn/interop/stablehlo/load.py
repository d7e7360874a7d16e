"""StableHLO programs as functions of dyn."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dyn.api import Jitted, jit
from dyn.errors import ArgumentError, ArtifactError
from dyn.fork_safety import lock
from dyn.interop.stablehlo import mlir
from dyn.interop.stablehlo.custom_calls import Imported
from dyn.interop.stablehlo.decode import CustomCall, OpReader, is_known
from dyn.interop.stablehlo.encode import DIMS
from dyn.interop.stablehlo.hlo import DecodeRule, HloFunction, HloModule, HloType, HloValue
from dyn.ir.core import Value
from dyn.shapes import Dim, Relation, RelKind
from dyn.source import user_loc
from dyn.specialize.call_arguments import check_bools
from dyn.trace.context import Trace
from dyn.trace.lift import lift
from dyn.trace.tracer import Tracer, active_trace

_custom_calls: dict[str, CustomCall] = {}
_lock = lock()


def register_custom_call(name: str, impl: CustomCall) -> None:
    """Registration of what a custom call computes, in every program that is traced from now on.

    Args:
        name: name of the custom call.
        impl: function of arrays, and of the call's attributes by name (``backend_config`` among them), that is traced
            like any other and gives an array, or a tuple of them.
    """
    if not callable(impl):
        raise ArgumentError(f"register_custom_call takes a function, not a {type(impl).__name__}.")
    with _lock:
        _custom_calls[name] = impl


def custom_calls() -> dict[str, CustomCall]:
    """The functions that were registered for custom calls, by name."""
    with _lock:
        return dict(_custom_calls)


def load(
    source: str | bytes | os.PathLike[str], *, name: str = "main", trusted: bool = False, batch_invariant: bool = False
) -> Jitted:
    """StableHLO program as a jitted function: callable, traceable, and inlined where another trace calls it.

    Sizes that are ``?`` are symbolic; where the producer has names for them (``jax.export`` does), those are theirs.
    Shape arithmetic becomes arithmetic of dims, and what the program asserts of its shapes is checked at each call.

    Args:
        source: a module's text, its bytecode or a portable artifact, or the path of a file with one of these: a string
            is a path if such a file exists.
        name: the function of the module that is called.
        trusted: whether the module is read in this process alone. Else a process of its own reads it first, for
            damaged and hostile modules can end the process of MLIR's reader: the first takes some 0.2 s longer, and
            those within 20 s after it some 10 ms.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        A :class:`dyn.Jitted` of the module's arguments in order, which gives its result, or a tuple of several.

    Raises:
        ArtifactError: with MLIR's line and column, for what is no StableHLO module; for a file that cannot be read.
        ArgumentError: for what is neither text, bytes nor a path, and for an option that is no bool.
        UnsupportedOpError: for types that dyn has not; when traced, for operations that it has not, with their line.
        BackendUnavailableError: without jaxlib.

    Example:
        >>> text = dyn.interop.stablehlo.dump(dyn.jit(lambda x: x + 1).trace(np.zeros(3)))
        >>> dyn.interop.stablehlo.load(text)(np.array([1.0, 2.0]))
        array([2., 3.])
    """
    check_bools("dyn.interop.stablehlo.load", trusted=trusted, batch_invariant=batch_invariant)
    contents, file = _contents(source)
    module = mlir.parse(contents, is_known, file=file, trusted=trusted)
    return function_of(module, name, batch_invariant=batch_invariant)


#: Texts that are no module's, and are meant for a file's name.
_IS_PATH = re.compile(r"[^\s()={}]+\.(mlir|mlirbc|bc|txt|shlo|stablehlo)|[^\s()={}\"]*/[^\s()={}\"]*")


def _contents(source: str | bytes | os.PathLike[str]) -> tuple[str | bytes, str]:
    """The module's text or bytes, and the name of its file, ``-`` where there is none."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "-"
    if isinstance(source, str):
        if "\n" in source or len(source) > 4096 or not os.path.exists(source):
            if _IS_PATH.fullmatch(source):
                raise ArtifactError(f"there is no file {source}.", remedy="check the path.")
            return source, "-"
    elif not isinstance(source, os.PathLike):
        raise ArgumentError(
            f"load() takes a module's text or bytes, or the path of its file, not a {type(source).__name__}.",
            remedy="of a program of dyn's write dyn.interop.stablehlo.dump(lowered), which is such text.",
        )
    try:
        return Path(source).read_bytes(), os.fspath(source)
    except OSError as error:
        raise ArtifactError(
            f"{os.fspath(source)} cannot be read: {error.strerror}.", remedy="name the file of a module."
        ) from None


def function_of(
    module: HloModule, name: str = "main", rules: Mapping[str, DecodeRule] | None = None, *, device: str | None = None,
    donate_argnums: Sequence[int] = (), imported: Sequence[Imported] = (),
    demands: Callable[[Sequence[Sequence[Dim]]], Iterable[Relation]] | None = None, batch_invariant: bool = False,
    closed_over: Mapping[int, Any] = MappingProxyType({}),
) -> Jitted:  # fmt: skip
    """A function of a module that was read, which runs on ``device``, is given some arguments, and may have rows with
    the same bits in every batch (:func:`dyn.jit`).

    ``rules`` read operations instead of those of the specification, where a producer's have another meaning;
    ``imported`` are the Python functions that the module may call, and there are no others. ``demands`` gives what is
    demanded of the arguments' shapes beside what the module says. ``closed_over`` are arrays in the place of arguments,
    by number, which the function does not take.
    """
    function = module.functions.get(name)
    if function is None:
        raise ArtifactError(
            f"the module has no function @{name}; it has {', '.join(f'@{f}' for f in module.functions) or 'none'}.",
            remedy="name one of them: load(source, name=…).",
        )
    types = [v.type for v in function.body.params]
    names = _param_names(function)
    taken = [number for number in range(len(types)) if number not in closed_over]

    def program(*args: Any) -> Any:
        given = {**closed_over, **dict(zip(taken, args, strict=True))}
        trace, values = _lifted(types, names, [given[number] for number in range(len(types))])
        for relation in () if demands is None else demands([value.shape for value in values]):
            trace.require(relation)
        made = OpReader(module, trace, custom_calls(), rules, imported).call(function, values)
        results = tuple([Tracer(trace, v) for v in made])
        return results[0] if len(results) == 1 else results

    program.__name__ = re.sub(r"\W+", "_", module.name if name == "main" else name) or "main"
    program.__doc__ = f"The StableHLO function @{name} of {', '.join(map(str, types))}."
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in map(names.__getitem__, taken)]
    program.__signature__ = inspect.Signature(parameters)
    dims = dim_names(function)
    shapes = ", ".join([_axes(types[number], number, dims) for number in taken])
    return jit(
        program, shapes=shapes or None, device=device, donate_argnums=donate_argnums, batch_invariant=batch_invariant
    )


def _axes(type: HloType, number: int, dims: Mapping[tuple[int, int], str]) -> str:
    words = [str(d) if isinstance(d, int) else dims.get((number, axis), "_") for axis, d in enumerate(type.shape)]
    return " ".join(words) or "()"


def _param_names(function: HloFunction) -> list[str]:
    """Names that people know: those of the locations where they are names, ``arg0`` otherwise."""
    names: list[str] = []
    given = function.param_names or ("",) * len(function.body.params)
    for number, name in enumerate(given):
        plain = name.isidentifier() and name not in names and not re.fullmatch(r"arg\d+", name)
        names.append(name if plain else f"arg{number}")
    return names


def dim_names(function: HloFunction) -> dict[tuple[int, int], str]:
    """The axes whose sizes the producer has names for: dyn's attributes, or the assertions of ``jax.export``."""
    places = {value: number for number, value in enumerate(function.body.params)}
    sizes: dict[HloValue, tuple[int, int]] = {}
    names: dict[tuple[int, int], str] = {}
    for number, attrs in enumerate(function.param_attrs):
        words = str(attrs.get(DIMS, "")).split()
        names.update(((number, axis), word) for axis, word in enumerate(words) if word.isidentifier() and word != "_")
    for op in function.body.ops:
        if op.name == "stablehlo.get_dimension_size" and op.operands[0] in places:
            sizes[op.results[0]] = places[op.operands[0]], op.attrs["dimension"]
        elif op.name in ("stablehlo.convert", "stablehlo.reshape") and op.operands[0] in sizes:
            sizes[op.results[0]] = sizes[op.operands[0]]
        elif op.name == "stablehlo.custom_call" and op.attrs["call_target_name"] == "shape_assertion":
            _names_in(str(op.attrs.get("error_message", "")), op.operands[1:], sizes, names)
    return names


_AGAIN = re.compile(r"dimension size \S+ \(= \{(\d+)\}\) and the specification '(\w+)' \(= \{\d+\}\)")
_SPECIFIED = re.compile(r"'(\w+)' = \{(\d+)\} from specification '(\w+)' for dimension")


def _names_in(
    message: str, operands: Sequence[HloValue], sizes: Mapping[HloValue, tuple[int, int]],
    names: dict[tuple[int, int], str],
) -> None:  # fmt: skip
    """The names in an assertion of ``jax.export``: ``'b' = {0} from specification 'b' for dimension …``.

    And of other axes that are of the same size: ``dimension size args[1].shape[0] (= {0}) and the specification 'b'``.
    """
    for number, name in _AGAIN.findall(message):
        place = sizes.get(operands[int(number)]) if int(number) < len(operands) else None
        if place is not None and name.isidentifier():
            names.setdefault(place, name)
    for name, number, specification in _SPECIFIED.findall(message):
        place = sizes.get(operands[int(number)]) if int(number) < len(operands) else None
        if place is not None and name == specification and name.isidentifier():
            names.setdefault(place, name)


def _lifted(types: Sequence[HloType], names: Sequence[str], args: Sequence[Any]) -> tuple[Trace, list[Value]]:
    """The trace that the program is called in, and the arguments in it, of the types that it takes."""
    trace = active_trace(*args)
    assert trace is not None, "a loaded program runs in a trace"
    values: list[Value] = []
    for type, name, arg in zip(types, names, args, strict=True):
        value = lift(trace, arg)
        if value.type.weak:
            value = trace.emit("convert", value, dtype=type.dtype)
        if value.dtype is not type.dtype or len(value.shape) != len(type.shape):
            raise ArgumentError(
                f"{name} is {value.type}, and the imported program takes {type}.",
                loc=user_loc(),
                remedy="convert it with .astype, or give it that many axes.",
            )
        for axis, (own, wanted) in enumerate(zip(value.shape, type.shape, strict=True)):
            if wanted is not None:
                trace.demand(RelKind.EQ, own, wanted, f"the imported program takes {name} with axis {axis} of {wanted}")
            bound = type.bound(axis)
            if bound is not None:
                text = f"the imported program takes {name} with axis {axis} of at most {bound}"
                trace.demand(RelKind.GE, bound, own, text)
        values.append(value)
    return trace, values
