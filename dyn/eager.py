"""Calls outside of a trace: what is called is compiled for its arrays, and run.

There are two ways to find the program. dyn's own functions never change: theirs are known by the function and by what
is no array among the arguments (:func:`call_eagerly`). A function of the user's is traced at each call, as it may read
what has changed since, and its machine code is found by what was traced (:func:`call_traced`): numbers and arrays that
it closes over are parameters of that, so that new ones need no other code.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import config
from dyn.api import Jitted, jit
from dyn.array import OWN, adapter_of, from_numpy, result_host
from dyn.errors import DynError
from dyn.forking import lock
from dyn.hosts import host_of
from dyn.specialize.arguments import read_leaf
from dyn.specialize.version import build, load_compiler
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.lift import weak_dtype
from dyn.trace.literals import is_literal
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, unflatten
from dyn.trace.static import Static, is_plain
from dyn.trace.tracer import Tracer

if TYPE_CHECKING:
    from dyn.call import CallTable

#: So many programs of dyn's own functions are remembered, the latest used.
MOST_PROGRAMS = 1024


def is_array(value: object) -> bool:
    """Whether a leaf is an array, rather than a number, a dtype or another part of the call."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    return host_of(value) is not None


# ---- functions of the user's -----------------------------------------------------------------------------------------


class CarriedSize:
    """A size among the arguments of a traced call, which is a dim of the program: others need no other code."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


def carried(size: Any) -> CarriedSize | None:
    """A size as an argument for :func:`call_traced`; None for a literal, and for what no array could have."""
    return CarriedSize(size) if type(size) is int and size >= 0 and not is_literal(size) else None


def call_traced(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, numbers: bool = True) -> Any:
    """``fn(*args, **kwargs)``, traced now and compiled unless an equal program was.

    Arrays are arguments of the program, and Python numbers are if ``numbers`` says so; everything else goes to ``fn``
    as it is. Results are of the arrays' kind.
    """
    load_compiler()
    name = getattr(fn, "__name__", "function")
    leaves, tree = flatten((args, kwargs))
    sizes = {n for n, leaf in enumerate(leaves) if type(leaf) is CarriedSize}
    for n in sizes:
        leaves[n] = np.empty((leaves[n].value, 0), np.uint8)
    places = [n for n, leaf in enumerate(leaves) if is_array(leaf) or (numbers and weak_dtype(leaf) is not None)]
    hosts = [adapter_of(leaves[n]) for n in places]
    values = [leaves[n] if host is None else host.view(leaves[n]) for n, host in zip(places, hosts, strict=True)]
    names = _leaf_names(tree)
    given = [read_leaf(value, names[n], name) for value, n in zip(values, places, strict=True)]
    arrays = [leaf.array for leaf in given if leaf.array is not None]

    def call(tracers: list[Tracer]) -> Any:
        filled = list(leaves)
        for place, tracer in zip(places, tracers, strict=True):
            filled[place] = tracer.shape[0] if place in sizes else tracer
        inner_args, inner_kwargs = unflatten(tree, filled)
        return fn(*inner_args, **inner_kwargs)

    specs = [
        LeafSpec(names[n], leaf.dtype, (None,) * leaf.rank, leaf.weak, array.shape)
        for n, leaf, array in zip(places, given, arrays, strict=True)
    ]
    version = build(trace_function(call, name, specs, abstracts_closures=True))
    kinds = [host for n, host in zip(places, hosts, strict=True) if host is not None and n not in sizes]
    return from_numpy(result_host(kinds), version.call(arrays))


def _leaf_names(tree: TreeSpec) -> list[str]:
    """The leaves of ``(args, kwargs)`` as errors call them."""
    args, kwargs = tree.children()
    named = zip(kwargs.entries(), kwargs.children(), strict=True)
    return [*leaf_names(args, "args"), *(path for name, child in named for path in leaf_names(child, str(name)))]


# ---- dyn's own functions ---------------------------------------------------------------------------------------------


class _Role(Enum):
    """Role of a parameter of a function of dyn's, as its annotation says."""

    #: ``Size``: for all sizes there is one program.
    SIZE = "size"
    #: ``Shape``: one size or several, for all of which there is one program.
    SHAPE = "shape"
    #: ``ArrayLike``: a Python number may be an argument of the program.
    ARRAY = "array"
    #: Anything else: it decides what the program is.
    FIXED = "fixed"


@dataclass(frozen=True)
class _Roles:
    """The roles of a function's parameters."""

    positional: tuple[_Role, ...]
    more: _Role
    named: dict[str, _Role]

    def of(self, place: int | str) -> _Role:
        if isinstance(place, str):
            return self.named.get(place, _Role.FIXED)
        return self.positional[place] if place < len(self.positional) else self.more


#: The names in annotations, the first that is there counts.
_WORDS = (("Shape", _Role.SHAPE), ("Size", _Role.SIZE), ("ArrayLike", _Role.ARRAY))


@functools.cache
def _roles(fn: Callable[..., Any]) -> _Roles:
    positional: list[_Role] = []
    named: dict[str, _Role] = {}
    more = _Role.FIXED
    for parameter in inspect.signature(fn).parameters.values():
        words = set(re.findall(r"\w+", str(parameter.annotation)))
        role = next((role for word, role in _WORDS if word in words), _Role.FIXED)
        named[parameter.name] = role
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = role
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(role)
    return _Roles(tuple(positional), more, named)


class _Programs:
    """Jitted functions by what they were made of."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[Any, Jitted] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: Any) -> Jitted | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def keep(self, key: Any, program: Jitted) -> None:
        with self._lock:
            self._known[key] = program
            if len(self._known) > MOST_PROGRAMS:
                self._known.popitem(last=False)


_PROGRAMS = _Programs()


class EagerFunction:
    """A function of dyn's own for calls outside of traces: ``function(*args, **kwargs)``.

    That is ``slow``, which ends in :func:`call_eagerly`, until a call of arrays and constants went well; from then on
    it is a built-in function that makes such calls itself (``dyn.call``), and leaves the others to ``slow``.
    """

    def __init__(self, slow: Callable[..., Any]) -> None:
        self._slow = self.function = slow
        self._lock = lock()
        self._table: CallTable | None = None

    def accept(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], tree: TreeSpec, places: Sequence[int], program: Jitted,
        arrays: Sequence[Any],
    ) -> None:  # fmt: skip
        """Leave calls like this one to the native entry: the leaves at ``places`` are ``program``'s arguments."""
        from dyn.call import STATIC, Form, Results, is_readable, make_table

        if not all(map(is_readable, arrays)) or not config.current().fast_call:
            return
        hosts = [host for host in map(adapter_of, arrays) if host is not None]
        viewed = [array if (host := adapter_of(array)) is None else host.view(array) for array in arrays]
        version = program.version_of(*viewed)
        with self._lock:
            if self._table is None:
                self._table = make_table(self._slow)
                if self._table is not None:
                    self.function = self._table.function
        if self._table is None:
            return

        def form() -> Form:
            numbers: list[Any] = [STATIC] * tree.num_leaves
            for number, place in enumerate(places):
                numbers[place] = number
            positional, named = unflatten(tree, numbers)
            return Form(args, kwargs, [*positional, *named.values()], len(places))

        self._table.add(form, version.loaded, Results.of(version.traced.out_tree, result_host(hosts)))


def call_eagerly(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], told: EagerFunction | None = None
) -> Any:
    """``fn(*args, **kwargs)`` of a function of dyn's own, compiled once for all arrays of its dtypes and ranks.

    Sizes and Python numbers are arguments of the program as well, where the annotations of ``fn`` let them be: others
    need no program of their own. The results are of the arrays' kind, ``dyn.Array`` where there are none. ``told``
    makes the next such call, if it can.
    """
    sized = _with_sizes(fn, args, kwargs)
    leaves, tree = flatten((args, kwargs) if sized is None else sized.arguments)
    result = _result(fn, sized, leaves, tree, args, kwargs, told)
    return result if any(is_array(leaf) for leaf in flatten((args, kwargs))[0]) else from_numpy(OWN, result)


def _result(
    fn: Callable[..., Any], sized: _Sized | None, leaves: list[Any], tree: TreeSpec, args: tuple[Any, ...],
    kwargs: dict[str, Any], told: EagerFunction | None,
) -> Any:  # fmt: skip
    given = [place for place, leaf in enumerate(leaves) if is_array(leaf) or type(leaf) is _Number]
    values = [leaf.value if type(leaf) is _Number else leaf for leaf in (leaves[place] for place in given)]
    parts = list(leaves)
    for place in given:
        parts[place] = None
    if not all(map(is_plain, parts)):
        return call_traced(fn, args, kwargs, numbers=False)
    marks = () if sized is None else sized.marks
    key = (fn, tree, marks, tuple(given), tuple([None if part is None else Static("", part) for part in parts]))
    known = _PROGRAMS.find(key)
    if known is not None:
        try:
            result = known(*values)
            # Arguments that are numbers or sizes have been looked at in Python: whether they fit, and what they are.
            if told is not None and sized is None and given:
                told.accept(args, kwargs, tree, given, known, values)
            return result
        except DynError:
            # The error tells of the line that the program was first made for: a new one tells of this line.
            return call_traced(fn, args, kwargs, numbers=False)
    program = _program(fn, parts, given, tree, marks)
    try:
        result = program(*values)
    except DynError:
        if sized is None:
            raise
        return call_traced(fn, args, kwargs, numbers=False)  # which has the sizes as numbers, in its errors too
    _PROGRAMS.keep(key, program)
    return result


def _program(
    fn: Callable[..., Any], parts: list[Any], places: list[int], tree: TreeSpec, marks: _Marks
) -> Jitted:  # fmt: skip
    # A program that is kept must not keep the arrays that it was made for: they are not among the parts.
    def program(*arrays: Any) -> Any:
        filled = list(parts)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        inner_args, inner_kwargs = unflatten(tree, filled)
        inner_args = list(inner_args)
        for place, single in marks:
            holder: Any = inner_kwargs if isinstance(place, str) else inner_args
            dims = holder[place].shape[:-1]
            holder[place] = dims[0] if single else dims
        return fn(*inner_args, **inner_kwargs)

    program.__name__ = fn.__name__
    return jit(program)


# ---- sizes and numbers as arguments ----------------------------------------------------------------------------------


#: The place of each argument that is carried by a shape, and whether it is one size alone rather than several.
_Marks = tuple[tuple[int | str, bool], ...]


class _Number:
    """A Python number that is an argument of the program."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class _Sized:
    """A call whose sizes are the shapes of arrays without elements, and whose numbers are arguments of the program."""

    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    marks: _Marks


def _with_sizes(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Sized | None:
    """The call with sizes as shapes and numbers as arguments; None where there are none of them."""
    roles = _roles(fn)
    marks: list[tuple[int | str, bool]] = []
    changed: dict[int | str, Any] = {}
    for place, value in (*enumerate(args), *kwargs.items()):
        role = roles.of(place)
        if role in (_Role.SIZE, _Role.SHAPE):
            several = isinstance(value, tuple | list)
            carrier = _carrier(value if several else (value,)) if role is _Role.SHAPE or not several else None
            if carrier is not None:
                marks.append((place, not several))
                changed[place] = carrier
        elif role is _Role.ARRAY and type(value) in (int, float, complex) and not is_literal(value, of_user=True):
            if _fits(value, [given for at, given in (*enumerate(args), *kwargs.items()) if roles.of(at) is role]):
                changed[place] = _Number(value)
    if not changed:
        return None
    new = tuple([changed.get(place, value) for place, value in enumerate(args)])
    return _Sized((new, {name: changed.get(name, value) for name, value in kwargs.items()}), tuple(marks))


def _carrier(sizes: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """An array without elements whose leading axes have these sizes; None where they are none."""
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in sizes):
        return None
    try:
        return np.empty((*map(int, sizes), 0), np.uint8)
    except ValueError:  # more than any array has
        return None


def _fits(value: Any, met: Sequence[Any]) -> bool:
    """Whether an integer fits the integers that it meets: one that does not is an error, which its trace raises."""
    if type(value) is not int:
        return True
    arrays = [leaf for leaf in flatten(list(met))[0] if is_array(leaf)]
    if not all(isinstance(getattr(array, "dtype", None), np.dtype) for array in arrays):
        return False  # of another library, or of none: left to the trace
    limits = [np.iinfo(array.dtype) for array in arrays if array.dtype.kind in "iu"]
    return all(limit.min <= value <= limit.max for limit in [*limits, np.iinfo(np.int64)])
