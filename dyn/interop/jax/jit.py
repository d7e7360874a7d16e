"""``dyn.interop.jax.jit``: JAX functions that are traced by JAX and compiled by dyn, once for every shape."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from dyn import dtypes, events
from dyn.array import is_own, use_up
from dyn.call import CallForm, NoPlanError, private, same_objects
from dyn.errors import ArgumentError, NotYetError, ShapeError, TraceError
from dyn.frontend.compiled_function import CacheInfo
from dyn.frontend.library import LibraryFunction
from dyn.frontend.retrace import Retrace
from dyn.interop.jax.arguments import Arguments, CallTree
from dyn.interop.jax.calls import CallKind, JaxCall, place_of, ranks_of
from dyn.interop.jax.devices import device_name, device_of, memory
from dyn.interop.jax.entry import donated_in, donated_label, form_of, is_for_entry, results_of, state_of, test_of
from dyn.interop.jax.internals import Internals, internals
from dyn.interop.jax.results import read_leaf
from dyn.interop.jax.traced_program import JaxProgram
from dyn.interop.jax.tracing import Exported, JaxTracing, LeafType
from dyn.lazy_property import lazy_property
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.specialize.call_arguments import OnNewShape, check_bools, check_on_new_shape
from dyn.trace.signature import Shapes, Signature
from dyn.trace.static_keys import Static
from dyn.tracebacks import without_own_frames

T = TypeVar("T")

#: Types of leaves that are remembered.
_MOST_TYPES = 65536


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    freeze_argnums: int | Sequence[int] = (),
    freeze_argnames: str | Sequence[str] = (),
    shapes: Shapes = None,
    device: str | None = None,
    on_new_shape: OnNewShape = "compile",
    batch_invariant: bool = False,
) -> Any:
    """Compile a JAX function once for every shape, in place of ``jax.jit``: one trace by JAX, one compile by dyn.

    Each axis of each argument that is an array by itself is symbolic. Arrays inside of containers (parameter trees,
    batches) have static shapes at first: an axis there that differs in a later call is symbolic from then on. Another
    rank is another program, as is another dtype, tree or static argument, and a container in which more than 32 axes
    have differed.

    Where JAX cannot trace for every size, the program is for fewer: for sizes that are equal, or larger than some
    other, or divisible, as those at hand are, and in the end for one value of a size alone. Each of these is a guard,
    with the line that made it necessary: other sizes get another program. :meth:`JaxJitted.explain` lists them. JAX
    takes symbolic sizes to be at least 1, so that 0 is always a value of its own.

    Results are ``jax.Array``, of the types that ``jax.jit`` gives, weak types too; large ones lie in the memory that
    dyn computed them in. Donated JAX arrays are deleted after the call. Under other transformations of JAX (``grad``,
    ``vmap``, ``jit`` of the result), and with ``jax_disable_jit``, the plain function is called.

    With arrays on a GPU (JAX's, ``dyn.Array``, any that DLPack can give) a function runs there, and with ``device`` it
    runs there wherever they are. Results there are JAX's arrays; where this JAX was not built for the device they are
    ``dyn.Array``. They take the memory of donated ``dyn.Array``, which are used up.

    Args:
        function: function of JAX's; None: a decorator is made.
        static_argnums: positions of arguments that are compared by ``==`` and hashed.
        static_argnames: the same by names.
        donate_argnums: positions of arguments whose memory results may take.
        donate_argnames: the same by names.
        freeze_argnums: positions of arguments that are the same arrays from call to call, as parameters of a model that
            is trained no more: matrices among them that are multiplied are kept once more, in the order in which
            products read them best, as long as the arrays are there. JAX's arrays do not change, so that other arrays
            are seen, and are kept too, four sets of them at once. Calls with others, and of arrays that are new at each
            call, go by a program that takes them. Arrays of other libraries are passed as ever, and so are all on GPUs.
        freeze_argnames: the same by names.
        shapes: dims of the arguments: ``"b s 768, s n"`` by position, a dict by name, trees like the arguments; names
            that are used twice are equal sizes, numbers are static, ``"..."`` makes all axes symbolic, inside of
            containers too.
        device: ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …: the function runs there, and arrays in this machine's memory
            are copied there at each call. Without it, it runs where its arguments are.
        on_new_shape: ``"error"`` raises instead of making a second program for other sizes.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, as
            :func:`dyn.jit` does.

    Returns:
        A :class:`JaxJitted`, called as the function is.

    Raises:
        ArgumentError: for the name of no device, for an option of another value, and for an argument that is frozen and
            static or donated; when called, for arguments that are no arrays, or in two places.
        BackendUnavailableError: when called, if there is no such device.
        UnsupportedOpError: when called, for operations that dyn has not.
        TypeError: and what else ``jax.jit`` raises for a function that cannot be traced with the sizes at hand.

    Example:
        >>> import jax.numpy as jnp
        >>> f = dyn.interop.jax.jit(lambda x: jnp.tanh(x).sum())
        >>> float(f(jnp.zeros(3))), float(f(jnp.zeros(5))), f.cache_info().compiles
        (0.0, 0.0, 1)
    """
    if function is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, freeze_argnums=freeze_argnums, freeze_argnames=freeze_argnames,
            shapes=shapes, device=device, on_new_shape=on_new_shape,
            batch_invariant=batch_invariant,
        )  # fmt: skip
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not a {type(function).__name__}.")
    check_on_new_shape(on_new_shape)
    check_bools("dyn.interop.jax.jit", batch_invariant=batch_invariant)
    signature = Signature(
        function, shapes, static_argnums, static_argnames, donate_argnums, donate_argnames,
        freeze_argnums=freeze_argnums, freeze_argnames=freeze_argnames,
    )  # fmt: skip
    return JaxJitted.single()(function, signature, device_name(device), on_new_shape, batch_invariant)


class JaxJitted(LibraryFunction[JaxCall, JaxProgram]):
    """JAX function that dyn compiles. Made by :func:`jit`.

    Attributes:
        programs: its programs, as dyn's own records.
    """

    def __init__(
        self, function: Callable[..., Any], signature: Signature, device: str | None,
        on_new_shape: OnNewShape = "compile", batch_invariant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(function, signature.name, on_new_shape=on_new_shape)
        self._signature, self._device, self._batch_invariant = signature, device, batch_invariant
        self._arguments = Arguments(signature)
        self._plans: dict[Any, CallTree] = {}
        #: The plans that later calls have widened, by the ranks of all leaves.
        self._wider: dict[Any, dict[tuple[int, ...], CallTree]] = {}
        #: The types of leaves in containers, by the identity of what JAX describes them with, which is kept.
        self._codes: dict[int, tuple[Any, int]] = {}
        self._types: dict[Any, int] = {}
        #: The shapes of all leaves at the first call of a tree, dtypes and ranks.
        self._first_shapes: dict[Any, list[tuple[int, ...]]] = {}

    def __repr__(self) -> str:
        return f"dyn.interop.jax.jit({self._signature.name})"

    # Calls

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> JaxCall | None:
        parts = self._internals
        if not stands and (not parts.outside() or parts.jax.config.jax_disable_jit):
            return None
        static: tuple[Static, ...] = ()
        if self._arguments.has_static:
            args, kwargs, static = self._arguments.split(args, kwargs)
        leaves, tree = parts.jax.tree_util.tree_flatten((args, kwargs))
        where = place_of(tree, static)
        plan = self._plans.get(where)
        if plan is None:
            plan = self._plans[where] = self._arguments.plan(parts.jax, tree, static)
        plain = parts.array if parts.alone else None
        if {*map(type, leaves)} <= {plain}:
            arrays: list[Any] = leaves
            avals: list[Any] = [leaf.aval for leaf in leaves]
            device = None if self._device == "cpu" else self._device
        else:
            arrays, avals = [], []
            for leaf, name in zip(leaves, plan.names, strict=True):
                if type(leaf) is plain:
                    array, aval = leaf, leaf.aval
                elif isinstance(leaf, parts.tracer):
                    return None
                else:
                    if stands and isinstance(leaf, ShapeDtypeStruct):
                        leaf = parts.jax.ShapeDtypeStruct(leaf.sizes(), dtypes.dtype(leaf.dtype).np)
                    array, aval = read_leaf(parts, leaf, f"{self._name}(): {name}")
                    if array is None and not stands:
                        raise ArgumentError(
                            f"{self._name}() was called with a ShapeDtypeStruct, which has no elements.",
                            remedy="pass arrays, or use .trace(...) and .eval_shape(...).",
                        )
                arrays.append(array)
                avals.append(aval)
            device = device_of(self._device, leaves, arrays, self._name, plan.names)
        wider = self._wider.get(where)
        plan = plan if wider is None else wider.get(ranks_of(avals), plan)
        symbolic = [avals[n] for n in plan.symbolic]
        shapes = tuple([aval.shape for aval in symbolic])
        types = tuple([(aval.dtype, bool(getattr(aval, "weak_type", False))) for aval in symbolic])
        kind = CallKind(tree, static, parts.settings(), types, self._fixed(plan, avals), plan, device)
        return JaxCall(leaves, arrays, avals, shapes, kind)

    @lazy_property
    def _internals(self) -> Internals:
        return internals()

    def _fixed(self, plan: CallTree, avals: Sequence[Any]) -> tuple[int, ...]:
        """A number for the type of each leaf that has static sizes."""
        codes = self._codes
        try:
            return tuple([codes[id(avals[n])][1] for n in plan.fixed])
        except KeyError:
            pass
        if len(codes) > _MOST_TYPES:
            codes = self._codes = {}
        found: list[int] = []
        for n in plan.fixed:
            aval = avals[n]
            with self._lock:
                kind = (plan.fixed_sizes(n, aval.shape), aval.dtype, aval.weak_type)
                code = self._types.setdefault(kind, len(self._types))
            codes[id(aval)] = aval, code
            found.append(code)
        return tuple(found)

    def _accept_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: JaxCall, program: JaxProgram) -> None:
        parts, plan = self._internals, call.plan
        if is_for_entry(parts, program, plan):
            self._show(args, kwargs, call, program)
        for number in plan.donated:  # JAX says so where they are used again
            leaf = call.given[number]
            if is_own(leaf):
                use_up(leaf, donated_label(self._name, plan.names[number]))
            elif isinstance(leaf, parts.jax.Array) and not leaf.is_deleted():
                leaf.delete()

    def _show(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: JaxCall, program: JaxProgram) -> None:
        """Leave calls like this one, in this state of JAX's settings, to the native entry from now on."""
        parts, plan = self._internals, call.plan
        table = self._call_table(lambda: state_of(parts))
        if table is None:
            return
        version = program.run.version_of(*[memory(call.arrays[n]) for n in program.kept])

        def form() -> CallForm:
            positional, named = private(args, kwargs)
            dynamic, static = (positional, named), ()
            if self._arguments.has_static:
                *dynamic, static = self._arguments.split(positional, named)
            leaves, tree = parts.jax.tree_util.tree_flatten(tuple(dynamic))
            if not same_objects(leaves, call.given) or (tree, static) != (call.kind.tree, call.kind.static):
                raise NoPlanError  # the containers hold something else by now
            return form_of(parts, self._signature, positional, named, call, call.kind.settings, program)

        with contextlib.suppress(NoPlanError):
            donated = donated_in(parts, self._name, call.given, plan, program)
            table.add(
                form, version.loaded, results_of(program), test_of(program), lambda form: donated,
                copies=self._device is not None,
            )  # fmt: skip

    # Programs

    def _find_program(self, call: JaxCall) -> JaxProgram | None:
        exactly, recent = (call.shapes, call.kind), self._programs.recent
        found = recent.get(exactly)
        if found is not None:
            return found
        found = super()._find_program(call)
        if found is not None:
            self._programs.remember(exactly, found, recent)
        elif (plan := self._wider_plan(call)) is not None:
            raise Retrace(lambda function: function._widen(call, plan), rereads=True)
        return found

    def _wider_plan(self, call: JaxCall) -> CallTree | None:
        """The plan with axes in containers symbolic that differ from those of the first such call; None for the first,
        and where nothing differs."""
        shapes = [tuple(aval.shape) for aval in call.avals]
        ranks, dtypes = ranks_of(call.avals), tuple([aval.dtype for aval in call.avals])
        with self._lock:
            first = self._first_shapes.setdefault(
                (call.place, call.kind.static, call.kind.settings, ranks, dtypes), shapes
            )
            # Another thread may have widened it.
            plan = self._wider.get(call.place, {}).get(ranks, self._plans[call.place])
        plan = plan.widened(first, shapes) or plan
        return None if plan is call.plan else plan

    def _widen(self, call: JaxCall, plan: CallTree) -> None:
        """Have a plan be that of all later calls with arrays of these ranks."""
        with self._lock:
            self._wider.setdefault(call.place, {})[ranks_of(call.avals)] = plan
            self._codes = {}  # numbers for types are those of a plan
        new = [place for place in plan.varying if place not in call.plan.varying]
        events.compiled("%s: symbolic from now on, since calls differ there: %s", self._name, ", ".join(new))

    def _programs_but_for_sizes(self, call: JaxCall) -> Sequence[JaxProgram]:
        made_for = call.made_for()  # sizes in containers are a part of keys
        return [one for one in self._programs.in_order if one.made_for == made_for]

    def _make_program(self, call: JaxCall) -> JaxProgram:
        sizes = self._arguments.sizes(call.plan, [tuple(aval.shape) for aval in call.avals])
        known = self._programs.of(call.key)
        for guard in known[-1].sizes.guards if known else ():
            learnt = sizes.again(guard)
            sizes = sizes if learnt is None else learnt
        return self._exported(call, lambda tracing: tracing.run(sizes))

    def _exported(self, call: JaxCall, trace: Callable[[JaxTracing], Exported]) -> JaxProgram:
        """A program of what JAX traces for a call."""
        parts = self._internals
        types = [LeafType(aval.dtype, bool(getattr(aval, "weak_type", False))) for aval in call.avals]

        def flat(given: Sequence[Any]) -> Any:
            dynamic, named = parts.jax.tree.unflatten(call.kind.tree, list(given))
            args, kwargs = self._arguments.joined(dynamic, named, call.kind.static)
            return self._function(*args, **kwargs)

        shapes = [tuple(aval.shape) for aval in call.avals]
        tracing = JaxTracing(parts, self._name, flat, types, shapes, call.plan.names, self._function)
        try:
            return JaxProgram(parts, self._name, call, trace(tracing), batch_invariant=self._batch_invariant)
        finally:
            with self._lock:
                self._traces += tracing.count

    def _use_program(self, program: JaxProgram, call: JaxCall, use: Callable[[JaxProgram], T]) -> T:
        """The result of ``use`` for a program, unless another has to be made, for the sizes of the call alone.

        That is where dyn cannot compile what JAX has exported for symbolic sizes, and where a program turns out not to
        be for these: JAX says then what is wrong with them, if anything is.
        """
        try:
            return use(program)
        except (TraceError, ShapeError, NotYetError) as error:
            self._forget_useless(program, call)
            if not program.sizes.free:
                raise
            sizes = self._arguments.sizes(call.plan, [tuple(aval.shape) for aval in call.avals])
            failure = error
            static = self._exported(call, lambda tracing: tracing.static(sizes, failure))
        except BaseException:
            self._forget_useless(program, call)
            raise
        made_for = call.made_for()
        static.introduce(made_for, self._why(made_for) or program.because)
        raise Retrace(lambda function: function._put_first(call, static), rereads=True)

    def _forget_useless(self, program: JaxProgram, call: JaxCall) -> None:
        """Forget a program that has not come to anything."""
        if not any(one.cache_info().compiles for one in program.functions):
            self._forget(self._programs.forget(call.key, lambda one: one is program))

    def _put_first(self, call: JaxCall, made: JaxProgram) -> None:
        """Have a program be tried before others, of which one does not know that it is not for a call's sizes."""
        self._programs.get(call.key, lambda one: False, lambda: made, first=True)

    # What there is

    def clear_cache(self) -> None:
        """Forget all programs, as ``jax.jit``'s method does."""
        with self._lock:
            self._traces, self._first_shapes = 0, {}
            self._forget_calls()
        self._programs.clear()

    def _info(self, program: JaxProgram) -> CacheInfo:
        info = super()._info(program) + (CacheInfo() if program.closures is None else program.closures.counts_beside())
        return info._replace(traces=0)  # JAX's are counted, of which dyn's are a part

    def _counted(self, info: CacheInfo) -> Mapping[str, int]:
        return {**super()._counted(info), "trace": info.traces}

    def _notes(self) -> Iterable[str]:
        plans = [plan for plans in self._wider.values() for plan in plans.values()]
        varying = dict.fromkeys([place for plan in plans for place in plan.varying])
        return [f"axes in containers, symbolic since calls differ there: {', '.join(varying)}"] if varying else []

    @without_own_frames
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results: ``jax.eval_shape`` of the plain function.

        Args:
            *args: arrays or ``jax.ShapeDtypeStruct``.
            **kwargs: arguments by name.

        Returns:
            A tree of ``jax.ShapeDtypeStruct``.
        """
        call_args, call_kwargs, static = self._arguments.split(args, kwargs)

        def dynamic(given: Any, named: Any) -> Any:
            again, keywords = self._arguments.joined(given, named, static)
            return self._function(*again, **keywords)

        return self._internals.jax.eval_shape(dynamic, call_args, call_kwargs)
