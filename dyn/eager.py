"""Calls outside of a trace: what is called is compiled for its arrays, and run.

There are two ways to find the program. dyn's own functions never change: theirs are known by the function and by what
is no array among the arguments (:func:`call_eagerly`). A function of the user's is traced at each call, as it may read
what has changed since, and its machine code is found by what was traced (:func:`call_traced`): numbers and arrays that
it closes over are parameters of that, so that new ones need no other code.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dyn import config
from dyn.api import Jitted, jit
from dyn.array import OWN, adapter_of, device_put, from_device, from_numpy, result_host
from dyn.errors import ArgumentError, DynError
from dyn.fork_safety import lock
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import parse_device
from dyn.source import user_loc
from dyn.specialize.arguments import read_leaf
from dyn.specialize.placement import placement_for
from dyn.specialize.runtime_arguments import CARRIED, CarriedNumber, CarriedSize, is_array, with_carried
from dyn.specialize.version import build, load_compiler
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.lift import weak_dtype
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, unflatten
from dyn.trace.signature import bind_arguments
from dyn.trace.static_keys import Static, is_plain
from dyn.trace.symbol_reuse import MEMORIES
from dyn.trace.tracer import Tracer
from dyn.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from dyn.call import CallTable
    from dyn.trace.context import Trace

#: So many programs of dyn's own functions are remembered, the latest used.
MOST_PROGRAMS = 1024
#: A function that has so many programs has no more of them for literals: these are arguments then, as other numbers.
MOST_LITERALS = 24

F = TypeVar("F", bound=Callable[..., Any])


# ---- functions of the user's -----------------------------------------------------------------------------------------


def call_traced(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, numbers: bool = True,
    device: str | None = None,
) -> Any:  # fmt: skip
    """``fn(*args, **kwargs)``, traced now and compiled unless an equal program was.

    Arrays are arguments of the program, and Python numbers are if ``numbers`` says so; everything else goes to ``fn``
    as it is. Results are of the arrays' kind. It runs where the arrays are, or on ``device``.
    """
    leaves, tree = flatten((args, kwargs))
    names = _leaf_names(tree, _positional_names(fn, len(args)))
    return call_leaves(
        fn, getattr(fn, "__name__", "function"), leaves, tree, names=names, numbers=numbers, device=device
    )


def call_leaves(
    fn: Callable[..., Any], name: str, leaves: list[Any], tree: TreeSpec, *, names: list[str] | None = None,
    numbers: bool = True, device: str | None = None,
) -> Any:  # fmt: skip
    """Make a traced call whose ``(args, kwargs)`` are a tree of these leaves.

    Errors call the function ``name``, and the leaves ``names``; None: ``args[0]`` and so on.
    """
    load_compiler()
    leaves = list(leaves)
    sizes = {n for n, leaf in enumerate(leaves) if type(leaf) is CarriedSize}
    for n in sizes:
        leaves[n] = leaves[n].carrier()
    places = [n for n, leaf in enumerate(leaves) if is_array(leaf) or (numbers and weak_dtype(leaf) is not None)]
    hosts = [adapter_of(leaves[n]) for n in places]
    values = [leaves[n] if host is None else host.borrow(leaves[n]) for n, host in zip(places, hosts, strict=True)]
    if names is None:
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
    with MEMORIES.of((name, *[(spec.name, len(spec.axes)) for spec in specs])) as memory:
        traced = trace_function(call, name, specs, abstracts_closures=True, memory=memory)
    placement = placement_for(values, device, name, lambda: [names[n] for n in places])
    version = build(traced, shapes=[array.shape for array in arrays], placement=placement)
    kinds = [host for n, host in zip(places, hosts, strict=True) if host is not None and n not in sizes]
    returned = from_numpy if placement is None else from_device
    return returned(result_host(kinds), version.call(arrays))


def _leaf_names(tree: TreeSpec, positional: Sequence[str] | None = None) -> list[str]:
    """The leaves of ``(args, kwargs)`` as errors call them; ``positional`` are names of the arguments by position."""
    args, kwargs = tree.children()
    if positional is None:
        positional = [f"args[{number}]" for number in range(args.num_children)]
    named = [*zip(positional, args.children(), strict=True), *zip(kwargs.entries(), kwargs.children(), strict=True)]
    return [path for name, child in named for path in leaf_names(child, str(name))]


def _positional_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Names of the first ``count`` arguments by position of a function: those of its parameters, ``more[0]`` of
    ``*more``."""
    names: list[str] = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{number}]" for number in range(count - len(names))]
    return names[:count]


# ---- dyn's own functions ---------------------------------------------------------------------------------------------


class _EagerPrograms:
    """Jitted functions by what they were made of."""

    def __init__(self) -> None:
        self._lock = lock()
        # None: such a call has no program whose sizes are dims, though it has one whose sizes are numbers.
        self._known: OrderedDict[Any, Jitted | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: Any) -> Jitted | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def is_useless(self, key: Any) -> bool:
        with self._lock:
            return key is not None and self._known.get(key, self) is None

    def keep(self, key: Any, program: Jitted | None) -> None:
        with self._lock:
            self._known[key] = program
            if len(self._known) > MOST_PROGRAMS:
                self._known.popitem(last=False)


_PROGRAMS = _EagerPrograms()


class EagerFunction:
    """A function of dyn's own for calls outside of traces: ``function(*args, **kwargs)``.

    That is ``slow``, which ends in :func:`call_eagerly`, until a call went well; from then on it is a built-in function
    that makes such calls itself (``dyn.call``), and leaves the others to ``slow``.
    """

    def __init__(self, slow: Callable[..., Any]) -> None:
        self._slow = self.function = slow
        self._lock = lock()
        self._table: CallTable | None = None
        #: How many programs calls have needed.
        self.programs = 0

    def accept(self, call: _EagerFunctionCall, program: Jitted) -> None:
        """Leave calls like this one to the native entry: what is carried are ``program``'s arguments."""
        import_whole("dyn.call")
        from dyn.call import STATIC, CallForm, LeafForm, Results, is_readable, make_table

        arrays = [leaf for leaf in call.carried if is_array(leaf)]
        if not call.carried or not all(map(is_readable, arrays)) or not config.current().calls_natively:
            return
        hosts = [host for host in map(adapter_of, arrays) if host is not None]
        values = [value if (host := adapter_of(value)) is None else host.borrow(value) for value in call.values()]
        version = program.version_of(*values)
        with self._lock:
            # A function that has been called in very many ways starts anew with the latest.
            if self._table is None or self._table.is_full:
                self._table = make_table(self._slow)
                self.function = self._slow if self._table is None else self._table.function
            table = self._table
        if table is None:
            return

        def form() -> CallForm:
            numbers: list[Any] = [STATIC] * call.tree.num_leaves
            leaves: dict[int, LeafForm] = {}
            for number, (place, leaf) in enumerate(zip(call.places, call.carried, strict=True)):
                numbers[place] = number
                if type(leaf) is CarriedSize:
                    leaves[number] = LeafForm(is_size=True)
                elif type(leaf) is CarriedNumber:
                    leaves[number] = LeafForm(limits=leaf.limits)
            positional, named = unflatten(call.tree, numbers)
            return CallForm(call.args, call.kwargs, [*positional, *named.values()], len(call.places), leaves)

        table.add(form, version.loaded, Results.of(version.traced.out_tree, result_host(hosts) if hosts else OWN))


def eager_function(
    fn: F, find_trace: Callable[[tuple[Any, ...], dict[str, Any]], Trace | None],
    record: Callable[[tuple[Any, ...], dict[str, Any]], Any],
) -> F:  # fmt: skip
    """``fn`` for calls inside of traces and outside: there ``record`` calls it, here it is compiled and run.

    ``find_trace`` gives the trace that a call with such arguments belongs to.
    """

    def slow(*args: Any, **kwargs: Any) -> Any:
        if find_trace(args, kwargs) is None:
            return call_eagerly(fn, args, kwargs, eager)
        return record(args, kwargs)

    eager = EagerFunction(slow)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return eager.function(*args, **kwargs)
            except TypeError as error:
                misfit = None if isinstance(error, DynError) else _misfit(fn, args, kwargs)
                if misfit is None:
                    raise
                raise misfit from None
        except Exception as error:
            hide_own_frames(error)
            raise

    return call  # pyright: ignore[reportReturnType]  # wraps() keeps the signature, its type does not


def _misfit(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentError | None:
    """The error of a call with arguments that a function of dyn's own does not have; None for other calls."""
    signature = inspect.signature(fn)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    bare = signature.replace(parameters=plain, return_annotation=signature.empty)
    try:
        bind_arguments(fn.__name__, bare, args, kwargs, user_loc())
    except ArgumentError as error:
        return error.with_traceback(None)
    return None


class _EagerFunctionCall:
    """A call of a function of dyn's own: its leaves, and which of them are arguments of the program.

    ``args`` and ``kwargs`` are what was given. ``tree`` and ``leaves`` are those of the call with sizes and numbers in
    wrappers, where they are carried.
    """

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], given: Any, device: str | None
    ) -> None:
        self.fn, self.args, self.kwargs, self.device = fn, args, kwargs, device
        self.parts, self.tree = flatten(given)
        self.places = [n for n, leaf in enumerate(self.parts) if type(leaf) in CARRIED or is_array(leaf)]
        self.carried = [self.parts[place] for place in self.places]
        for place in self.places:
            self.parts[place] = None

    def values(self) -> list[Any]:
        """The arguments of the program."""
        return [
            leaf.carrier() if type(leaf) is CarriedSize else leaf.value if type(leaf) is CarriedNumber else leaf
            for leaf in self.carried
        ]

    def key(self) -> Any:
        """Key of the call's program; None where a part of the call must not be kept alive."""
        if not all(map(is_plain, self.parts)):
            return None
        kinds = tuple([(n, type(leaf) is CarriedSize) for n, leaf in zip(self.places, self.carried, strict=True)])
        parts = tuple([None if part is None else Static("", part) for part in self.parts])
        return (self.fn, self.tree, kinds, parts, self.device)


def call_eagerly(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], told: EagerFunction | None = None
) -> Any:
    """``fn(*args, **kwargs)`` of a function of dyn's own, compiled once for all arrays of its dtypes and ranks.

    Sizes and Python numbers are arguments of the program as well, where the annotations of ``fn`` let them be: others
    need no program of their own. The results are of the arrays' kind, ``dyn.Array`` where there are none. ``told``
    makes the next such call, if it can.

    With ``device=``, of a function that has it, what is made of nothing but numbers is made there; what is computed of
    arrays is computed where these are, and put there.
    """
    import_whole("dyn.call")
    from dyn.call import private

    args, kwargs = private(args, kwargs)  # other threads may change a list while its arrays are compiled for
    device = _device_of(fn, kwargs)
    has_arrays = any(map(is_array, flatten((args, kwargs))[0]))
    if device is None:
        result = _result(fn, args, kwargs, told)
        return result if has_arrays else from_numpy(OWN, result)
    result = _result(fn, args, {**kwargs, "device": None}, None, None if has_arrays else device)
    leaves, tree = flatten(result)
    return unflatten(tree, [device_put(leaf, device) for leaf in leaves])


def _device_of(fn: Callable[..., Any], kwargs: dict[str, Any]) -> str | None:
    """The device that a call says its results are to be on; None where it says nothing. ArgumentError for no name."""
    device = kwargs.get("device")
    if device is None or "device" not in inspect.signature(fn).parameters:
        return None
    name = str(device)
    parse_device(name)
    return name


def _result(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], told: EagerFunction | None,
    device: str | None = None,
) -> Any:  # fmt: skip
    """The result of a call, on ``device`` if that is given, or else where its arrays are."""
    literals = told is None or told.programs < MOST_LITERALS
    given = with_carried(fn, args, kwargs, literals=literals)
    call = _EagerFunctionCall(fn, args, kwargs, (args, kwargs) if given is None else given, device)
    key = call.key()
    if given is not None and _PROGRAMS.is_useless(key):
        call = _EagerFunctionCall(fn, args, kwargs, (args, kwargs), device)
        given, key = None, call.key()
    if key is None:
        return call_traced(fn, args, kwargs, numbers=False, device=device)
    known = _PROGRAMS.find(key)
    program = _program(call) if known is None else known
    has_failed, result = False, None
    try:
        result = program(*call.values())
    except DynError:
        has_failed = True
    if has_failed:
        # The error of a known program tells of the line that it was first made for, one with sizes that are dims of
        # those, and any of its own arguments, which are the leaves of these: a new program has sizes as numbers, and
        # tells of this line and of these arguments.
        result = call_traced(fn, args, kwargs, numbers=False, device=device)
        if known is None and given is not None and program.cache_info().compiles == 0:
            _PROGRAMS.keep(key, None)
        return result
    if known is None:
        _PROGRAMS.keep(key, program)
        if told is not None:
            told.programs += 1
    elif told is not None:
        told.accept(call, program)
    return result


def _program(call: _EagerFunctionCall) -> Jitted:
    # A program that is kept must not keep the arrays that it was made for: they are not among the parts.
    fn, tree, parts, places = call.fn, call.tree, call.parts, call.places
    sizes = {place for place, leaf in zip(places, call.carried, strict=True) if type(leaf) is CarriedSize}

    def program(*arrays: Any) -> Any:
        filled = list(parts)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array.shape[0] if place in sizes else array
        args, kwargs = unflatten(tree, filled)
        return fn(*args, **kwargs)

    program.__name__ = fn.__name__
    made = jit(program, device=call.device)
    made.warns_of_many = False  # it is no function of a user's
    return made
