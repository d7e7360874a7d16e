"""NumPy's calls with arrays that are being traced: ``np.sum(x)``, ``np.add(x, y)``, ``np.copyto(x, y)``, ``out=``.

NumPy's functions and dyn's have other names and orders of arguments here and there. A call is bound to the signature of
NumPy's function, and dyn's gets the required arguments by place, and the others by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.array import Array as OwnArray
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._indexing.at import At
from dyn.numpy._operands import shape_of
from dyn.numpy._public import Array
from dyn.shapes import Dim, format_shape
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: NumPy's options that change nothing here, and the values that they change nothing at; None: at any.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...] | None] = {
    "kind": None,  # of a sort, each of which is stable here
    "subok": None,
    "optimize": None,
    "overwrite_input": None,
    "like": (None,),
    "copy": (True, None),
    "order": ("K", "A", "C", None),
    "sorted": (True,),
    "sparse": (False,),
    "casting": ("same_kind", "safe", "equiv", "no"),
}
#: Names of NumPy's that dyn's functions have another name for.
_NAMES = {"rcond": "rtol"}
#: What a ufunc does at places, by the methods of ``x.at[i]``.
_AT = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "power",
    "minimum": "min", "maximum": "max",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function; None of one that has none, which is written in C."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def translated(
    name: str, theirs: Callable[..., Any], own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call of NumPy's function as those of dyn's; UnsupportedOpError for options that dyn has not."""
    signature, ours = _signature(theirs), _signature(own)
    if signature is None or ours is None:
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    places: list[Any] = []
    options: dict[str, Any] = {}
    for parameter, value in bound.arguments.items():
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            places.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            options.update(value)
        elif kind is inspect.Parameter.KEYWORD_ONLY or signature.parameters[parameter].default is not inspect._empty:
            options[parameter] = value
        else:
            places.append(value)
    known = ours.parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    by_name = {k for k, p in known.items() if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    taken: dict[str, Any] = {}
    for option, value in options.items():
        renamed = option if option in by_name else _NAMES.get(option, option)
        if option == "out":
            taken["out"] = value
            continue
        if value is np._NoValue or _changes_nothing(option, value, option in by_name):
            continue
        if renamed not in by_name and not takes_any:
            place = list(signature.parameters).index(option) if option in signature.parameters else -1
            if place == len(places) and list(known)[place : place + 1] and list(known)[place] not in by_name:
                places.append(value)  # an argument with a default in NumPy, and one that has no name here
                continue
            raise UnsupportedOpError(
                f"np.{name} does not take {option}={value!r} for arrays that are being traced.",
                loc=user_loc(),
                remedy=f"leave it out: dyn.numpy.{name} has no such option.",
            )
        taken[renamed] = value
    return tuple(places), taken


def _changes_nothing(option: str, value: Any, is_known: bool) -> bool:
    if is_known or option not in _WITHOUT_EFFECT:
        return False
    values = _WITHOUT_EFFECT[option]
    return values is None or value in values


# ---- results that are written into an array ------------------------------------------------------------------------


def written(name: str, out: Any, result: Any) -> Any:
    """``out``, an array of dyn's, after a result was written into it, as by ``out[...] = result``.

    Raises UnsupportedOpError where ``out`` is no such array, or has a dtype that the result's does not go into without
    loss of kind; ShapeError where it has fewer axes.
    """
    if isinstance(out, tuple):
        outs: tuple[Any, ...] = out
        if all(v is None for v in outs):
            return result
        if len(outs) == 1:
            return written(name, outs[0], result)
        pairs = zip(outs, result, strict=True)
        return tuple([given if into is None else written(name, into, given) for into, given in pairs])
    if out is None:
        return result
    if not isinstance(out, OwnArray):  # with elements, or traced
        raise UnsupportedOpError(
            f"np.{name} cannot write into out=, a {type(out).__name__}, while a function is being traced.",
            loc=user_loc(),
            remedy="use the result, or make the array that it is written into in the function.",
        )
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise UnsupportedOpError(
            f"np.{name} cannot write a result of {result.dtype.name} into out=, of {out.dtype.name}.",
            loc=user_loc(),
            remedy="make out= in the dtype of the result, or convert the result with .astype.",
        )
    if result.ndim > out.ndim:
        raise ShapeError(
            f"np.{name} cannot write a result of shape {format_shape(_dims(result))} into out=, of shape "
            f"{format_shape(_dims(out))}.",
            loc=user_loc(),
            remedy="make out= in the shape of the result.",
        )
    out[...] = result
    return out


def _dims(x: Tracer | OwnArray) -> tuple[Dim, ...]:
    return shape_of(x) if isinstance(x, Tracer) else x.shape


# ---- functions that change their first argument --------------------------------------------------------------------


def _target(name: str, x: Any) -> Tracer:
    if isinstance(x, Tracer):
        return x
    raise UnsupportedOpError(
        f"np.{name} cannot change a {type(x).__name__} while a function is being traced.",
        loc=user_loc(),
        remedy="make the array that it changes in the function, as by dyn.numpy.array(x).",
    )


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """``dst`` becomes ``src`` where ``where`` is true."""
    from_ = src if isinstance(src, Tracer) else None
    x = _target("copyto", dst)
    if from_ is not None and casting in ("same_kind", "safe", "equiv", "no"):
        if not np.can_cast(from_.dtype, x.dtype, casting):
            raise UnsupportedOpError(
                f"np.copyto cannot write {from_.element_type.name} into {x.element_type.name} with "
                f"casting={casting!r}.",
                loc=user_loc(),
                remedy="convert the source with .astype, or pass casting='unsafe'.",
            )
    if where is True:
        x[...] = src
    else:
        x._become(_same_type(x, x._trace.namespace.where(where, src, x)))


def _same_type(x: Tracer, result: Array) -> Tracer:
    """A result in the shape and dtype of ``x``."""
    namespace = x._trace.namespace
    return namespace.broadcast_to(namespace.astype(result, x.element_type), x.shape)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """``a`` becomes, where the mask is true, the ``values`` at the same places, gone through again and again."""
    x = _target("putmask", a)
    namespace = x._trace.namespace
    many = namespace.reshape(namespace.resize(values, (x.size,)), x.shape)
    x._become(_same_type(x, namespace.where(mask, namespace.astype(many, x.element_type), x)))


def at(ufunc: Any, x: Any, indices: Any, *values: Any) -> None:
    """``np.add.at(x, i, v)``: ``x`` with ``v`` added at places, each time that one is named."""
    name, target = f"{ufunc.__name__}.at", _target(f"{ufunc.__name__}.at", x)
    if ufunc.__name__ not in _AT or len(values) != 1:
        raise UnsupportedOpError(
            f"np.{name} is not there for arrays that are being traced.",
            loc=user_loc(),
            remedy=f"there are np.{', np.'.join(f'{known}.at' for known in sorted(_AT))}.",
        )
    target._become(getattr(At(target)[indices], _AT[ufunc.__name__])(values[0]))


def _by_new_array(name: str) -> Callable[..., None]:
    """A function whose way to give a new array is ``inplace=False``."""

    def change(a: Any, *args: Any, **kwargs: Any) -> None:
        x = _target(name, a)
        x._become(getattr(x._trace.namespace, name)(x, *args, inplace=False, **kwargs))

    return change


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """``a`` with values at numbers of its elements; those that are out of range are left out."""
    x = _target("put", a)
    x._become(x._trace.namespace.put(x, ind, v, None if mode == "raise" else mode, inplace=False))


#: NumPy's functions that change their first argument.
CHANGING: dict[str, Callable[..., None]] = {
    "copyto": copyto, "put": put, "putmask": putmask, "place": _by_new_array("place"),
    "fill_diagonal": _by_new_array("fill_diagonal"), "put_along_axis": _by_new_array("put_along_axis"),
}  # fmt: skip


# ---- methods that change their array -------------------------------------------------------------------------------


def sort(x: Tracer, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tracer:
    """``x`` after ``x.sort()``."""
    _no_fields("sort", order)
    return x._trace.namespace.sort(x, axis)


def partition(x: Tracer, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None) -> Tracer:
    """``x`` after ``x.partition(kth)``."""
    _no_fields("partition", order)
    return x._trace.namespace.partition(x, kth, axis)


def fill(x: Tracer, value: Any) -> Tracer:
    """``x`` after ``x.fill(value)``."""
    return x._trace.namespace.assigned(x, ..., value)


def put_in(x: Tracer, indices: Any, values: Any, mode: str = "raise") -> Tracer:
    """``x`` after ``x.put(indices, values)``."""
    return x._trace.namespace.put(x, indices, values, None if mode == "raise" else mode, inplace=False)


def _no_fields(name: str, order: Any) -> None:
    if order is not None:
        raise UnsupportedOpError(
            f"x.{name}(order={order!r}): arrays of dyn have no fields.", loc=user_loc(), remedy="leave order out."
        )


#: The values of arrays after methods that change them.
AFTER: dict[str, Callable[..., Tracer]] = {"sort": sort, "partition": partition, "fill": fill, "put": put_in}
