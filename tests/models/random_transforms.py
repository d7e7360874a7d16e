"""Steps of random programs that transform, repeat or choose functions made of any other steps.

A body is the text of an expression of ``a``: each step in it is tried on a value like the one that it will be given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dyn.trace.tracer import Tracer
    from tests.models.random_programs import Chooser

#: How deep such functions may stand in one another.
_DEPTH = 2
Step = Callable[["Chooser"], "str | None"]


def body(c: Chooser, value: Tracer, families: Sequence[tuple[Step, ...]], names: dict[str, Any], refusals: Any) -> str:
    """An expression of ``a``, which is like ``value``, of one to three steps."""
    text = "a"
    for _ in range(c.random.randint(1, 3)):
        own = type(c)(c.random, {"a": value}, [], c.depth + 1)
        expression = c.random.choice(c.random.choice(families))(own)
        if expression is None:
            continue
        try:
            found = eval(expression, {**names, "a": value})
        except refusals:
            continue
        text, value = (expression if text == "a" else f"(lambda a: {expression})({text})"), found
    return text


def make_steps(families: Sequence[tuple[Step, ...]], names: dict[str, Any], refusals: Any) -> tuple[Step, Step]:
    """The steps that draw bodies from ``families``: functions in all ways, and functions with rules of their own."""

    def drawn(c: Chooser, value: Tracer) -> str:
        return body(c, value, families, names, refusals)

    def composed(c: Chooser) -> str | None:
        x = c.value()
        if x is None or c.depth >= _DEPTH:
            return None
        calls = _whole(c, x, [drawn(c, c.pool[x]) for _ in range(2)])
        if c.rank(x):
            row = eval(f"dnp.sum({x}, 0).astype({x}.dtype)", {**names, **c.pool})
            calls += _by_rows(c, x, drawn(c, row))
        if c.dtype(x).name in ("float32", "float64"):
            few = eval(f"dnp.ravel({x})[:3]", {**names, **c.pool})
            calls += _jacobians(c, x, drawn(c, few))
        return c.one(*calls)

    def ruled(c: Chooser) -> str | None:
        x = c.value(lambda t: t.element_type.is_inexact)
        return None if x is None or c.depth >= _DEPTH else c.one(*_ruled(c, x, drawn(c, c.pool[x])))

    return composed, ruled


def _total(text: str) -> str:
    """A real number of whatever an expression gives."""
    return f"dnp.sum(dnp.real({text}).astype('float64') * 0.5)"


def _like(text: str, name: str = "a") -> str:
    """An array like ``name`` that depends on an expression of ``a``."""
    return f"({name} * {name}.dtype.type(1) + dnp.mean(dnp.real({text}))).astype({name}.dtype)"


def _whole(c: Chooser, x: str, bodies: list[str]) -> list[str]:
    one, two = bodies
    f, total = f"lambda a: {one}", f"lambda a: {_total(one)}"
    flag = c.one(f"dnp.sum({x} != 0) > 3", f"{x}.size > 3 * dnp.sum({x} == {x})", f"dnp.any(dnp.real({x}) > 1)")
    calls = [
        f"dyn.jit({f})({x})",
        f"dyn.lax.composite({f}, 'tests.body')({x})", f"dyn.lax.cond({flag}, {f}, lambda a: dnp.zeros_like({one}), {x})",  # noqa: E501
        f"dyn.lax.cond({flag}, lambda a: {_like(one)}, lambda a: {_like(two)}, {x})",
        f"dyn.lax.switch(dnp.sum({x} != 0) % 4 - 1, [lambda a: {_like(one)}, lambda a: {_like(two)}, lambda a: a], {x})",  # noqa: E501
        f"dyn.lax.fori_loop(0, {c.one(0, 1, 3, f'{x}.size % 4')}, lambda i, a: {_like(one)}, {x})",
        f"dyn.lax.while_loop(lambda s: s[0] < {c.one(0, 2)}, lambda s: (s[0] + 1, (lambda a: {_like(one)})(s[1])), (0, {x}))[1]",  # noqa: E501
        f"dyn.stop_gradient(({f})({x}))",
    ]  # fmt: skip
    if c.dtype(x).is_inexact:
        seed = f"dyn.jvp({f}, ({x},), ({c.one(x, f'dnp.ones_like({x})')},))[1]"
        calls += [
            f"dyn.grad({total})({x})", f"dyn.value_and_grad({total})({x})[{c.one(0, 1)}]", seed,
            f"dyn.linearize({f}, {x})[1]({x})", f"(lambda y, pull: pull(y)[0])(*dyn.vjp({f}, {x}))",
            f"dyn.grad(lambda b: {_total(f'dyn.grad({total})(b) * b')})({x})", f"dyn.jvp(dyn.grad({total}), ({x},), ({x},))[1]",  # noqa: E501
            f"dyn.grad(lambda b: {_total(f'dyn.lax.cond({flag}, lambda a: {_like(one)}, lambda a: a, b)')})({x})",
            f"dyn.grad(lambda b: {_total(f'dyn.lax.fori_loop(0, 2, lambda i, a: {_like(one)}, b)')})({x})",
        ]  # fmt: skip
    return calls


def _ruled(c: Chooser, x: str, one: str) -> list[str]:
    """A function with a rule for its derivative, or for what is kept for it."""
    f, total = f"lambda a: {one}", f"lambda a: {_total(one)}"
    policy = c.one("dots_saveable", "nothing_saveable", "everything_saveable")
    own = c.one("dyn.checkpoint", "with_vjp", "with_jvp")
    return [
        f"{own}({f})({x})", f"dyn.grad(lambda b: {_total(f'{own}({f})(b)')})({x})",
        f"dyn.grad({own}({total}))({x})", f"dyn.jvp({c.one('dyn.checkpoint', 'with_jvp')}({f}), ({x},), ({x},))[1]",
        f"dyn.grad(dyn.checkpoint({total}, policy=dyn.checkpoint_policies.{policy}))({x})",
        f"dyn.grad(lambda b: {_total(f'dyn.grad({own}({total}))(b) * b')})({x})",
    ]  # fmt: skip


def _by_rows(c: Chooser, x: str, one: str) -> list[str]:
    f = f"lambda a: {one}"
    carry = f"(s * s.dtype.type(1) + dnp.mean(dnp.real((lambda a: {one})(r)))).astype(s.dtype)"

    def scan(name: str) -> str:
        start = f"dnp.sum({name}, 0).astype({name}.dtype)"
        return f"dyn.lax.scan(lambda s, r: ({carry}, ({f})(r)), {start}, {name}, reverse={c.one(True, False)})"

    calls = [
        f"dyn.vmap({f})({x})", f"dyn.vmap({f}, {c.one(0, -1)}, {c.one(0, -1)})({x})", f"dyn.lax.map({f}, {x})",
        f"{scan(x)}[{c.one(0, 1)}]", f"dyn.vmap({f})({x}[:3])",
        f"dyn.vmap(lambda a: dyn.lax.fori_loop(0, 2, lambda i, a: {_like(one)}, a))({x})",
        f"dyn.vmap(lambda a: dyn.lax.cond(dnp.sum(a != 0) > 1, lambda a: {_like(one)}, lambda a: a, a))({x})",
        f"dyn.vmap(lambda a: dyn.lax.while_loop(lambda s: s[0] < dnp.sum(a != 0) % 3, lambda s: (s[0] + 1, {_like(one, 's[1]')}), (0, a))[1])({x})",  # noqa: E501
    ]  # fmt: skip
    if c.dtype(x).is_inexact:
        calls += [
            f"dyn.vmap(dyn.grad(lambda a: {_total(one)}))({x})", f"dyn.grad(lambda b: {_total(f'dyn.vmap({f})(b)')})({x})",  # noqa: E501
            f"dyn.jvp(dyn.vmap({f}), ({x},), ({x},))[1]", f"dyn.grad(lambda b: {_total(f'dyn.lax.map({f}, b)')})({x})",
            f"dyn.grad(lambda b: {_total(scan('b') + '[0]')})({x})", f"dyn.vmap(dyn.checkpoint({f}))({x})",
            f"dyn.vmap(with_vjp({f}))({x})", f"dyn.vmap(dyn.grad(lambda a: {_total(f'with_jvp({f})(a)')}))({x})",
        ]  # fmt: skip
    return calls


def _jacobians(c: Chooser, x: str, one: str) -> list[str]:
    few, f = f"dnp.ravel({x})[:3]", f"lambda a: dnp.ravel({one})[:5]"
    return [f"dyn.jac{c.one('fwd', 'rev')}({f})({few})", f"dyn.hessian(lambda a: {_total(one)})({few})"]
