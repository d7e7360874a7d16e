"""What the native entry is told of JAX functions: calls whose leaves are JAX's arrays, NumPy's, or numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn.call import STATIC, Form, LeafForm, NoPlanError, Results, Step
from dyn.hosts import JAX
from dyn.interop.jax.arguments import Plan
from dyn.interop.jax.internals import Internals
from dyn.interop.jax.versions import Program
from dyn.runtime.entry.layout import NOT_ZERO, TEST_DEPTH, SizeOp
from dyn.trace.signature import Signature

_NUMBERS = (bool, int, float, complex)
_COMPARISONS = {"==": SizeOp.EQ, "!=": SizeOp.NE, ">=": SizeOp.GE}
_OPERATORS: dict[type[ast.operator], SizeOp] = {
    ast.Add: SizeOp.ADD, ast.Sub: SizeOp.SUB, ast.Mult: SizeOp.MUL, ast.FloorDiv: SizeOp.DIVIDE,
    ast.Mod: SizeOp.REMAINDER,
}  # fmt: skip
_CALLS = {"floordiv": SizeOp.DIVIDE, "mod": SizeOp.REMAINDER, "max": SizeOp.MAX, "min": SizeOp.MIN}


def state_of(parts: Internals) -> Callable[[], Any]:
    """What decides about a call beside its arguments: JAX's settings, or None where a trace of JAX's goes on."""
    outside, config, settings = parts.outside, parts.jax.config, parts.settings
    usual = settings()
    with parts.jax.disable_jit():
        is_told = settings() != usual  # JAX's own list of settings has it
    if is_told:
        return lambda: settings() if outside() else None
    return lambda: settings() if outside() and not config.jax_disable_jit else None


def is_for_entry(parts: Internals, plan: Plan, program: Program) -> bool:
    """Whether calls of a program are for the entry.

    They are not where arrays may lie on several devices, where some are donated, which ends them, and where results are
    no plain arrays.
    """
    return parts.alone and not plan.donated and program.is_plain


def test_of(program: Program) -> list[Step]:
    """The program's guards as a test of the sizes of leaves, numbered as ``form_of`` does; NoPlanError for others."""
    number = _numbered(program)
    steps: list[Step] = []
    for guard in program.sizes.guards:
        _write(ast.parse(guard.left.strip().replace("^", "**"), mode="eval").body, program, number, steps)
        _write(ast.parse(guard.right.strip().replace("^", "**"), mode="eval").body, program, number, steps)
        steps += [(_COMPARISONS[guard.op], 0, 0), (SizeOp.CHECK, 0, 0)]
    return steps


def _write(node: ast.expr, program: Program, number: Mapping[int, int], steps: list[Step], depth: int = 0) -> None:
    """Instructions that leave the value of an expression on the stack."""
    if depth > TEST_DEPTH - 4:
        raise NoPlanError
    match node:
        case ast.Constant(value=int(value)) if abs(value) < 2**63:
            steps.append((SizeOp.NUMBER, value, 0))
        case ast.Name(id=name) if name in program.sizes.places:
            place = program.sizes.places[name]
            steps += [
                (SizeOp.SIZE, number[place.leaf], place.axis), (SizeOp.NUMBER, place.offset, 0), (SizeOp.SUB, 0, 0),
                (SizeOp.NUMBER, place.factor, 0), (SizeOp.DIVIDE, 0, 0),
            ]  # fmt: skip
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            steps.append((SizeOp.NUMBER, 0, 0))
            _write(operand, program, number, steps, depth + 1)
            steps.append((SizeOp.SUB, 0, 0))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 1 <= power <= 8:
            for count in range(power):
                _write(left, program, number, steps, depth + 1)
                if count:
                    steps.append((SizeOp.MUL, 0, 0))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            _write(left, program, number, steps, depth)
            _write(right, program, number, steps, depth + 1)
            steps.append((_OPERATORS[type(op)], 0, 0))
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _CALLS:
            _write(left, program, number, steps, depth)
            _write(right, program, number, steps, depth + 1)
            steps.append((_CALLS[name], 0, 0))
        case _:
            raise NoPlanError


def _numbered(program: Program) -> dict[int, int]:
    """The number of each leaf in a plan: first those that the program takes, in its order."""
    count = len(program.plan.names)
    order = [*program.kept, *(n for n in range(count) if n not in program.kept)]
    return {leaf: place for place, leaf in enumerate(order)}


def form_of(
    parts: Internals, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], tree: Any,
    leaves: Sequence[Any], avals: Sequence[Any], plan: Plan, program: Program,
) -> Form:  # fmt: skip
    """The form of a call that ``program`` has made; NoPlanError where the entry cannot tell that it is one."""
    number = _numbered(program)
    dynamic, named = parts.jax.tree.unflatten(tree, [number[n] for n in range(len(leaves))])
    rest = iter(dynamic)
    numbers = [STATIC if n in signature.static_numbers else next(rest) for n in range(len(args))]
    numbers += [named.get(name, STATIC) for name in kwargs]
    wanted = {number[n]: _leaf_form(leaves[n], avals[n], n, plan) for n in number}
    return Form(args, kwargs, numbers, len(leaves), wanted, parts.settings())


def _leaf_form(leaf: Any, aval: Any, number: int, plan: Plan) -> LeafForm:
    if type(leaf) in _NUMBERS:
        return LeafForm(narrow=np.dtype(aval.dtype).itemsize == (8 if type(leaf) is complex else 4))
    if aval.dtype != leaf.dtype:  # NumPy's numbers of 64 bits are narrower ones to JAX
        raise NoPlanError
    shape = tuple(aval.shape)
    fixed = plan.fixed_sizes(number, shape) if number in plan.fixed else (None,) * len(shape)
    sizes = tuple([size if own is not None or size == 0 else NOT_ZERO for own, size in zip(fixed, shape, strict=True)])
    return LeafForm(sizes, bool(getattr(aval, "weak_type", False)))


def results_of(program: Program) -> Results:
    """The results of a program, in JAX's tree."""
    try:
        template = program.tree.unflatten(list(range(len(program.wrappers))))
    except Exception:  # a class that takes arrays alone
        template = object()
    return Results(template, lambda results: program.tree.unflatten(list(results)), JAX, tuple(program.wrappers))
