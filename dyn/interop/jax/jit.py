"""``dyn.interop.jax.jit``: JAX functions that are traced by JAX and compiled by dyn, once for every shape.

This file is longer than most: a third of it says what each function takes and gives, and the rest is one class.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dyn import events
from dyn.array import Array, use_up
from dyn.call import CallForm, NoPlanError, private, same_objects
from dyn.errors import ArgumentError, ShapeError
from dyn.frontend.compiled_function import CacheInfo, CompiledFunction
from dyn.interop.jax.arguments import Arguments, CallTree
from dyn.interop.jax.calls import JaxCall, family_of, fits, place_of, ranks_of
from dyn.interop.jax.devices import device_name, device_of, memory
from dyn.interop.jax.entry import donated_in, donated_label, form_of, is_for_entry, results_of, state_of, test_of
from dyn.interop.jax.internals import Internals, internals
from dyn.interop.jax.results import read_leaf
from dyn.interop.jax.traced_program import JaxProgram, build
from dyn.interop.jax.tracing import JaxTracing, LeafType
from dyn.late_imports import import_whole
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.specialize.call_arguments import OnNewShape, check_on_new_shape
from dyn.stages import Traced
from dyn.trace.signature import Shapes, Signature
from dyn.trace.static_keys import Static

if TYPE_CHECKING:
    from dyn.explain.explanation import WayToCall
    from dyn.explain.versions import MadeFor

#: Calls, and types of leaves, that are remembered to the last detail.
_MOST_CALLS, _MOST_TYPES = 4096, 65536


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    shapes: Shapes = None,
    device: str | None = None,
    on_new_shape: OnNewShape = "compile",
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
        shapes: dims of the arguments: ``"b s 768, s n"`` by position, a dict by name, trees like the arguments; names
            that are used twice are equal sizes, numbers are static, ``"..."`` makes all axes symbolic, inside of
            containers too.
        device: ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …: the function runs there, and arrays in this machine's memory
            are copied there at each call. Without it, it runs where its arguments are.
        on_new_shape: ``"error"`` raises instead of making a second program for other sizes.

    Returns:
        A :class:`JaxJitted`, called as the function is.

    Raises:
        ArgumentError: for the name of no device; when called, for arguments that are no arrays, or in two places.
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
            donate_argnames=donate_argnames, shapes=shapes, device=device, on_new_shape=on_new_shape,
        )  # fmt: skip
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not a {type(function).__name__}.")
    signature = Signature(function, shapes, static_argnums, static_argnames, donate_argnums, donate_argnames)
    check_on_new_shape(on_new_shape)
    return JaxJitted.single()(function, signature, device_name(device), on_new_shape)


class JaxJitted(CompiledFunction[JaxProgram]):
    """JAX function that dyn compiles. Made by :func:`jit`.

    Attributes:
        programs: its programs, as dyn's own records.
    """

    def __init__(
        self, function: Callable[..., Any], signature: Signature, device: str | None,
        on_new_shape: OnNewShape = "compile",
    ) -> None:  # fmt: skip
        super().__init__(function, signature.name)
        self._signature, self._device, self._on_new_shape = signature, device, on_new_shape
        self._arguments = Arguments(signature)
        self._internals: Internals | None = None
        self._plans: dict[Any, CallTree] = {}
        #: The plans that later calls have widened, by the ranks of all leaves.
        self._wider: dict[Any, dict[tuple[int, ...], CallTree]] = {}
        #: The types of leaves in containers, by the identity of what JAX describes them with, which is kept.
        self._codes: dict[int, tuple[Any, int]] = {}
        self._types: dict[Any, int] = {}
        self._calls: dict[Any, JaxProgram] = {}
        #: The shapes of all leaves at the first call of a tree, dtypes and ranks.
        self._first_shapes: dict[Any, list[tuple[int, ...]]] = {}

    def __repr__(self) -> str:
        return f"dyn.interop.jax.jit({self._signature.name})"

    # Calling ------------------------------------------------------------------------------------------------------

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        parts = self._internals
        if parts is None:
            parts = self._internals = internals()
        if not parts.outside() or parts.jax.config.jax_disable_jit:
            return self._function(*args, **kwargs)
        call = self._taken_apart(parts, args, kwargs)
        if call is None:
            return self._function(*args, **kwargs)
        if not call.whole:
            raise ArgumentError(
                f"{self._signature.name}() was called with a ShapeDtypeStruct, which has no elements.",
                remedy="pass arrays, or use .trace(...) and .eval_shape(...).",
            )
        key = self._key(parts, call)
        arrays, plan, shapes = call.arrays, call.plan, key[3]
        program, result = self._calls.get(key), None
        if program is None:
            program, result, key, call = self._found_or_made(parts, key, call, arrays)
            plan, shapes = call.plan, key[3]
        if result is None:
            try:
                result = (program(arrays, shapes),)
            except ShapeError as error:
                result = self._refused(parts, key, call, program, error)
        if is_for_entry(parts, program, plan):
            self._accept(parts, args, kwargs, call, key[2], program)
        if plan.donated:
            self._delete(parts, call.given, plan)
        return result[0]

    def _accept(
        self, parts: Internals, args: tuple[Any, ...], kwargs: dict[str, Any], call: JaxCall, state: Any,
        program: JaxProgram,
    ) -> None:  # fmt: skip
        """Leave calls like this one, which was made in a state of JAX's settings, to the native entry from now on."""
        table = self._call_table(lambda: state_of(parts))
        if table is None:
            return
        plan, arrays = call.plan, call.arrays
        version = program.run.version_of(*[memory(arrays[n]) for n in program.kept])

        def form() -> CallForm:
            positional, named = private(args, kwargs)
            dynamic, static = (positional, named), ()
            if self._arguments.has_static:
                *dynamic, static = self._arguments.split(positional, named)
            leaves, tree = parts.jax.tree_util.tree_flatten(tuple(dynamic))
            if not same_objects(leaves, call.given) or (tree, static) != (call.tree, call.static):
                raise NoPlanError  # the containers hold something else by now
            return form_of(parts, self._signature, positional, named, call, state, program)

        with contextlib.suppress(NoPlanError):
            donated = donated_in(parts, self._signature.name, call.given, plan, program)
            table.add(
                form, version.loaded, results_of(program), test_of(program), lambda form: donated,
                copies=self._device is not None,
            )  # fmt: skip

    def _taken_apart(self, parts: Internals, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JaxCall | None:
        """None for a call with tracers."""
        static: tuple[Static, ...] = ()
        if self._arguments.has_static:
            args, kwargs, static = self._arguments.split(args, kwargs)
        leaves, tree = parts.jax.tree_util.tree_flatten((args, kwargs))
        where = place_of(tree, static)
        plan = self._plans.get(where)
        if plan is None:
            plan = self._plans[where] = self._arguments.plan(parts.jax, tree, static)
        wider = self._wider.get(where)
        plain = parts.array if parts.alone else None
        if {*map(type, leaves)} <= {plain}:
            avals = [leaf.aval for leaf in leaves]
            plan = plan if wider is None else wider.get(ranks_of(avals), plan)
            return JaxCall(tree, static, plan, leaves, leaves, avals, None if self._device == "cpu" else self._device)
        arrays, avals = list[Any](), list[Any]()
        for leaf, name in zip(leaves, plan.names, strict=True):
            if type(leaf) is plain:
                array, aval = leaf, leaf.aval
            elif isinstance(leaf, parts.tracer):
                return None
            else:
                array, aval = read_leaf(parts, leaf, f"{self._signature.name}(): {name}")
            arrays.append(array)
            avals.append(aval)
        plan = plan if wider is None else wider.get(ranks_of(avals), plan)
        device = device_of(self._device, leaves, arrays, self._signature.name, plan.names)
        return JaxCall(tree, static, plan, leaves, arrays, avals, device, all(array is not None for array in arrays))

    def _key(self, parts: Internals, call: JaxCall) -> Any:
        """Key of the program that a call takes, to the last size."""
        avals, plan = call.avals, call.plan
        symbolic = [avals[n] for n in plan.symbolic]
        shapes = tuple([aval.shape for aval in symbolic])
        types = tuple([(aval.dtype, bool(getattr(aval, "weak_type", False))) for aval in symbolic])
        return call.tree, call.static, parts.settings(), shapes, types, self._fixed(plan, avals), plan, call.device

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

    def _delete(self, parts: Internals, leaves: Sequence[Any], plan: CallTree) -> None:
        """Give donated arrays' memory back, and have JAX say so where they are used again."""
        for number in plan.donated:
            leaf = leaves[number]
            if isinstance(leaf, Array):
                use_up(leaf, donated_label(self._signature.name, plan.names[number]))
            elif isinstance(leaf, parts.jax.Array) and not leaf.is_deleted():
                leaf.delete()

    # Programs -----------------------------------------------------------------------------------------------------

    def _found_or_made(
        self, parts: Internals, key: Any, call: JaxCall, leaves: Sequence[Any] | None
    ) -> tuple[JaxProgram, tuple[Any] | None, Any, JaxCall]:
        """The program for a call that is not remembered, with its results where it was made now; and the call."""
        result: list[tuple[Any]] = []
        if self._programs.find(family_of(key), fits(key[3])) is None and (widened := self._widened(parts, call)):
            call, key = widened, self._key(parts, widened)
        shapes, family = key[3], family_of(key)

        def make() -> JaxProgram:
            if self._on_new_shape == "error":
                described = self._described(call)
                known = [one for one in self._programs.in_order if one.made_for == described]
                if known:  # which differ by sizes alone
                    lines = [line for line in known[-1].guard_lines() if not line.startswith(" ")]
                    told = "; ".join(lines) or "other sizes"
                    raise self._second_program(told, loc=user_loc())
            program, made = self._make(parts, family, call, leaves, shapes)
            result.append(made)
            return program

        program, made = self._programs.get(family, fits(shapes), make)
        if made:
            self._note_program()
        if len(self._calls) >= _MOST_CALLS:
            self._calls = {}
        self._calls[key] = program
        return program, result[0] if made else None, key, call

    def _widened(self, parts: Internals, call: JaxCall) -> JaxCall | None:
        """The call with axes in containers symbolic that differ from those of the first such call; None for the first.

        Its plan is that of all later calls with arrays of these ranks.
        """
        shapes = [tuple(aval.shape) for aval in call.avals]
        where = call.place
        ranks, dtypes = ranks_of(call.avals), tuple([aval.dtype for aval in call.avals])
        with self._lock:
            first = self._first_shapes.setdefault((where, call.static, parts.settings(), ranks, dtypes), shapes)
            # Another thread may have widened it.
            plan = self._wider.get(where, {}).get(ranks, self._plans[where])
            plan = plan.widened(first, shapes) or plan
            if plan is call.plan:
                return None
            # Numbers for types are those of a plan.
            self._wider.setdefault(where, {})[ranks] = plan
            self._codes = {}
        new = [place for place in plan.varying if place not in call.plan.varying]
        events.compiled("%s: symbolic from now on, since calls differ there: %s", self._signature.name, ", ".join(new))
        return call._replace(plan=plan)

    def _make(
        self, parts: Internals, family: Any, call: JaxCall, leaves: Sequence[Any] | None, shapes: Any
    ) -> tuple[JaxProgram, tuple[Any]]:
        sizes = self._arguments.sizes(call.plan, [tuple(aval.shape) for aval in call.avals])
        known = self._programs.of(family)
        for guard in known[-1].sizes.guards if known else ():
            learnt = sizes.again(guard)
            sizes = sizes if learnt is None else learnt
        tracing, name = self._tracing(parts, call), self._signature.name
        try:
            described = self._described(call)
            why = self._why(described)
            program, result = build(parts, name, call.plan, tracing, sizes, leaves, shapes, call.device, why)
            program.made_for = described
        finally:
            with self._lock:
                self._traces += tracing.count
        return program, (result,)

    def _described(self, call: JaxCall) -> MadeFor:
        """The key of a call in words, without sizes."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, made_for_leaves

        arguments = [
            ArgumentKey(name, str(aval.dtype), len(aval.shape), bool(getattr(aval, "weak_type", False)))
            for name, aval in zip(call.plan.names, call.avals, strict=True)
        ]
        return made_for_leaves(arguments, call.plan.names, [(one.name, one.value) for one in call.static])

    def _tracing(self, parts: Internals, call: JaxCall) -> JaxTracing:
        types = [LeafType(aval.dtype, bool(getattr(aval, "weak_type", False))) for aval in call.avals]

        def flat(given: Sequence[Any]) -> Any:
            dynamic, named = parts.jax.tree.unflatten(call.tree, list(given))
            args, kwargs = self._arguments.joined(dynamic, named, call.static)
            return self._function(*args, **kwargs)

        return JaxTracing(parts, self._signature.name, flat, types, [tuple(aval.shape) for aval in call.avals])

    def _refused(self, parts: Internals, key: Any, call: JaxCall, program: JaxProgram, error: ShapeError) -> tuple[Any]:
        """A call with sizes that a program turned out not to be for: JAX says what is wrong with them, or they get a
        program of their own."""
        if not program.sizes.free:
            raise error
        shapes, family, tracing = key[3], family_of(key), self._tracing(parts, call)
        sizes = self._arguments.sizes(call.plan, tracing.shapes)
        try:
            exported = tracing.static(sizes, error)
        finally:
            with self._lock:
                self._traces += tracing.count
        made = JaxProgram(parts, self._signature.name, call.plan, exported, device=call.device)
        made.made_for = self._described(call)
        made.run.reason = self._why(made.made_for)
        result = made(call.arrays, shapes)
        # Before the program that does not know that it is not for these.
        made, _ = self._programs.get(
            family, lambda known: known is not program and fits(shapes)(known), lambda: made, first=True
        )
        self._calls[key] = made
        return (result,)

    # What there is ------------------------------------------------------------------------------------------------

    def clear_cache(self) -> None:
        """Forget all programs, as ``jax.jit``'s method does."""
        with self._lock:
            self._calls, self._traces, self._first_shapes = {}, 0, {}
            self._forget_calls()
        self._programs.clear()

    def _info(self, program: JaxProgram) -> CacheInfo:
        return program.run.cache_info()._replace(traces=0)  # JAX's are counted, of which dyn's are a part

    def _made_for(self, program: JaxProgram) -> MadeFor:
        return program.made_for

    def _made_by(self, program: JaxProgram) -> tuple[str, Loc]:
        if not program.sizes.guards:
            return "", UNKNOWN
        guard = program.sizes.guards[-1]
        return f"{guard.place(program.places())}: {guard.why or guard.kind.value}", guard.loc

    def _counted(self, info: CacheInfo) -> Mapping[str, int]:
        return {**super()._counted(info), "trace": info.traces}

    def _way(self, program: JaxProgram) -> WayToCall:
        import_whole("dyn.explain.explanation")
        from dyn.explain.explanation import WayToCall

        lines = program.guard_lines()
        notes = ["sizes that JAX traced it for, which choose the program", *[f"  {line}" for line in lines]]
        return WayToCall(program.run.explain().versions, ("\n".join(notes),) if lines else ())

    def _notes(self) -> Iterable[str]:
        plans = [plan for plans in self._wider.values() for plan in plans.values()]
        varying = dict.fromkeys([place for plan in plans for place in plan.varying])
        return [f"axes in containers, symbolic since calls differ there: {', '.join(varying)}"] if varying else []

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the results: ``jax.eval_shape`` of the plain function.

        Args:
            *args: arrays or ``jax.ShapeDtypeStruct``.
            **kwargs: arguments by name.

        Returns:
            A tree of ``jax.ShapeDtypeStruct``.
        """
        parts = self._internals = self._internals or internals()
        call_args, call_kwargs, static = self._arguments.split(args, kwargs)

        def dynamic(given: Any, named: Any) -> Any:
            again, keywords = self._arguments.joined(given, named, static)
            return self._function(*again, **keywords)

        return parts.jax.eval_shape(dynamic, call_args, call_kwargs)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        parts = self._internals = self._internals or internals()
        call = self._taken_apart(parts, args, kwargs)
        if call is None:
            raise ArgumentError(f"{self._name}.prepare() takes no tracers.")
        program, _, _, call = self._found_or_made(parts, self._key(parts, call), call, None)
        avals = [call.avals[n] for n in program.kept]
        program.run.prepare([tuple([ShapeDtypeStruct(tuple(aval.shape), aval.dtype) for aval in avals])])

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        parts = self._internals = self._internals or internals()
        call = self._taken_apart(parts, args, kwargs)
        if call is None:
            raise ArgumentError(f"{self._name}.trace() takes no tracers.")
        program, *_ = self._found_or_made(parts, self._key(parts, call), call, None)
        return program.run.trace(*program.structs())
