"""Plans of the native entry for JAX functions: calls whose leaves are JAX's arrays, NumPy's, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn.array import OWN, adapter_of, is_own
from dyn.call import STATIC, CallForm, LeafForm, NoPlanError, Results, Step
from dyn.hosts import JAX, NUMPY
from dyn.interop.jax.arguments import CallTree
from dyn.interop.jax.calls import JaxCall
from dyn.interop.jax.internals import Internals, found
from dyn.interop.jax.traced_program import JaxProgram
from dyn.runtime.entry.layout import NOT_ZERO, TEST_DEPTH, SizeOp
from dyn.shapes import Dim, Opaque, OpaqueKind, RelKind, Symbol
from dyn.trace.signature import Signature

_NUMBERS = (bool, int, float, complex)
_RELATIONS = {RelKind.EQ: SizeOp.EQ, RelKind.GE: SizeOp.GE, RelKind.NONZERO: SizeOp.NE}
_OPAQUE = {
    OpaqueKind.FLOORDIV: SizeOp.DIVIDE, OpaqueKind.MOD: SizeOp.REMAINDER, OpaqueKind.MAX: SizeOp.MAX,
    OpaqueKind.MIN: SizeOp.MIN,
}  # fmt: skip
#: Guards with more than this are tested in Python.
_MOST_LEVELS, _MOST_STEPS = 4, 256


def state_of(parts: Internals) -> Callable[[], Any]:
    """State that decides about a call beside its arguments: JAX's settings, or None where a trace of JAX's goes on."""
    outside, config, settings = parts.outside, parts.jax.config, parts.settings
    usual = settings()
    with parts.jax.disable_jit():
        is_told = settings() != usual  # JAX's own list of settings has it
    if not is_told:
        return lambda: settings() if outside() and not config.jax_disable_jit else None
    trace, top = found("jax._src.core", "trace_state_strong_ref"), found("jax._src.core", "eval_trace")
    axes, no_axes = found("jax._src.core", "axis_env_state"), found("jax._src.core", "top_axis_env")
    if not _agrees(outside, lambda: trace.value is top and axes.value is no_axes):
        return lambda: settings() if outside() else None
    # As ``outside()`` has it, in half the time.
    return lambda: settings() if trace.value is top and axes.value is no_axes else None


def _agrees(outside: Callable[[], bool], other: Callable[[], bool]) -> bool:
    """Whether another way to see a trace of JAX's sees those that there are."""
    import jax

    answers: list[tuple[bool, bool]] = []

    def ask(x: Any) -> Any:
        answers.append((outside(), other()))
        return x

    try:
        ask(None)
        jax.eval_shape(ask, jax.ShapeDtypeStruct((), np.float32))
        jax.vmap(ask, axis_name="axis")(np.zeros(1, np.float32))
    except AttributeError:
        return False
    return all(a == b for a, b in answers)


def is_for_entry(parts: Internals, program: JaxProgram, plan: CallTree) -> bool:
    """Tell whether calls of a program are for the entry.

    They are not where arrays of JAX's may lie on several devices, where results are no plain arrays, where a program
    for a device has used up what it was given, and where arguments are frozen: which arrays they are is asked in
    Python.
    """
    return parts.alone and not plan.frozen and program.is_plain and (program.device is None or not plan.donated)


def donated_label(function: str, name: str) -> str:
    """What a ``dyn.Array`` that was donated says it was."""
    return f"it was {name} of {function}()"


def donated_in(
    parts: Internals, function: str, leaves: Sequence[Any], plan: CallTree, program: JaxProgram
) -> dict[int, str | None]:
    """The leaves that a call deletes, numbered as ``form_of`` does; those of ``dyn.Array`` with their label."""
    number, donated = _numbered(program), dict[int, str | None]()
    for n in plan.donated:
        if is_own(leaves[n]):
            donated[number[n]] = donated_label(function, plan.names[n])
        elif isinstance(leaves[n], parts.jax.Array):
            donated[number[n]] = None
    return donated


def test_of(program: JaxProgram) -> list[Step]:
    """The program's guards as a test of the sizes of leaves, numbered as ``form_of`` does; NoPlanError for others."""
    number = _numbered(program)
    binds: dict[Symbol, list[Step]] = {}
    for bind in program.binding.binds:
        leaf = number[program.plan.symbolic[bind.input]]
        size: list[Step] = [(SizeOp.SIZE, leaf, bind.axis), *_value(bind.offset, binds), (SizeOp.SUB, 0, 0)]
        binds[bind.symbol] = [*size, *_value(bind.factor, binds), (SizeOp.DIVIDE, 0, 0)]
    steps: list[Step] = []
    for guard in program.guards:
        if guard.kind not in _RELATIONS:
            raise NoPlanError
        right = 0 if guard.kind is RelKind.NONZERO else guard.rhs
        steps += [*_value(guard.lhs, binds), *_value(right, binds)]
        steps += [(_RELATIONS[guard.kind], 0, 0), (SizeOp.CHECK, 0, 0)]
    return steps


def _value(dim: Dim, binds: Mapping[Symbol, list[Step]], depth: int = 0) -> list[Step]:
    """Instructions that leave a dim on the stack; NoPlanError for one of many terms."""
    if isinstance(dim, int):
        if abs(dim) >= 2**63 or depth > TEST_DEPTH - 8:
            raise NoPlanError
        return [(SizeOp.NUMBER, dim, 0)]
    if dim.height > _MOST_LEVELS:
        raise NoPlanError
    steps = _value(dim.constant, binds, depth)
    for mono, coefficient in dim.terms:
        steps += _value(coefficient, binds, depth + 1)
        for atom, power in mono.factors:
            made = binds[atom] if isinstance(atom, Symbol) else _opaque(atom, binds, depth + 2)
            steps += [*made, (SizeOp.MUL, 0, 0)] * power
        steps.append((SizeOp.ADD, 0, 0))
    if len(steps) > _MOST_STEPS:
        raise NoPlanError
    return steps


def _opaque(term: Opaque, binds: Mapping[Symbol, list[Step]], depth: int) -> list[Step]:
    if term.kind not in _OPAQUE:
        raise NoPlanError
    first, *rest = term.args
    steps = _value(first, binds, depth)
    for dim in rest:
        steps += [*_value(dim, binds, depth + 1), (_OPAQUE[term.kind], 0, 0)]
    return steps


def _numbered(program: JaxProgram) -> dict[int, int]:
    """The number of each leaf in a plan: first those that the program takes, in its order."""
    count = len(program.plan.names)
    order = [*program.kept, *(n for n in range(count) if n not in program.kept)]
    return {leaf: place for place, leaf in enumerate(order)}


def form_of(
    parts: Internals, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], call: JaxCall, state: Any,
    program: JaxProgram,
) -> CallForm:  # fmt: skip
    """The form of a call that ``program`` has made in a state of JAX's settings; NoPlanError where the entry cannot
    tell that it is one."""
    leaves, avals, plan, number = call.given, call.avals, call.plan, _numbered(program)
    dynamic, named = parts.jax.tree.unflatten(call.kind.tree, [number[n] for n in range(len(leaves))])
    rest = iter(dynamic)
    numbers = [STATIC if n in signature.static_numbers else next(rest) for n in range(len(args))]
    numbers += [named.get(name, STATIC) for name in kwargs]
    wanted = {number[n]: _leaf_form(leaves[n], avals[n], n, plan) for n in number}
    return CallForm(args, kwargs, numbers, len(leaves), wanted, state)


def _leaf_form(leaf: Any, aval: Any, number: int, plan: CallTree) -> LeafForm:
    if type(leaf) in _NUMBERS:
        return LeafForm(narrow=np.dtype(aval.dtype).itemsize == (8 if type(leaf) is complex else 4))
    if adapter_of(leaf) not in (JAX, NUMPY, OWN) or not hasattr(leaf, "dtype"):  # others are read by DLPack
        raise NoPlanError
    if aval.dtype != leaf.dtype:  # NumPy's numbers of 64 bits are narrower ones to JAX
        raise NoPlanError
    shape = tuple(aval.shape)
    fixed = plan.fixed_sizes(number, shape) if number in plan.fixed else (None,) * len(shape)
    sizes = tuple([size if own is not None or size == 0 else NOT_ZERO for own, size in zip(fixed, shape, strict=True)])
    return LeafForm(sizes, None if is_own(leaf) else bool(getattr(aval, "weak_type", False)))


def results_of(program: JaxProgram) -> Results:
    """The results of a program, in JAX's tree."""
    try:
        template = program.tree.unflatten(list(range(len(program.wrappers))))
    except Exception:  # a class that takes arrays alone
        template = object()
    host, wrappers = (JAX, tuple(program.wrappers)) if program.device is None else (OWN, ())
    return Results(template, lambda results: program.tree.unflatten(list(results)), host, wrappers)
