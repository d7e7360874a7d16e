"""Steps of random programs with regions: loops, choices, folds, and transformations of functions with such in them.

Each is the text of one call, whose functions are lambdas of one or two arrays. A body that a loop repeats gives what it
was given, up to dtype and shape; one that is differentiated is smooth wherever random numbers are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.models.random_programs import Chooser

#: Of any array ``a``, an array like it.
_SAME = (
    "a * 0.5", "a + 1", "dnp.sin(a)", "dnp.tanh(a) * a", "-a", "a * a * 0.125", "dnp.where(a > 0, a * 0.5, -a)", "a",
    "dnp.maximum(a, 0.25)", "a / (1 + a * a)", "dnp.exp(-a * a)", "dnp.abs(a)", "dnp.minimum(a, a * a)",
)  # fmt: skip
#: Of an array with an axis, an array like it.
_ROWS = (
    "a[::-1]", "dnp.roll(a, 1)", "dnp.cumsum(a, -1) * 0.125", "dnp.sort(a, -1)", "a - dnp.mean(a, -1, keepdims=True)",
    "a - dnp.max(a, -1, keepdims=True)", "dyn.nn.softmax(a, axis=-1)", "a + a[0]", "a * a[2]", "dnp.cumprod(a, 0)",
    "a + dnp.sum(a)", "a * dnp.prod(a, -1, keepdims=True)", "scatter_update(a, 0, 1, 'add')",
    "a[dnp.argsort(a, -1) * 0]",
    "dnp.take_along_axis(a, dnp.argsort(a, axis=-1), axis=-1)", "dnp.flip(a)", "a + dnp.argmax(a, -1, keepdims=True)",
)  # fmt: skip
#: Of an array, another one.
_OTHER = (
    "dnp.sum(a)", "dnp.mean(a)", "dnp.ravel(a)", "dnp.sum(a, 0)", "dnp.max(a, -1)", "a[..., None] * a[None]", "a[1:]",
    "dnp.var(a, 0)", "dnp.concatenate([a, a])", "a.T", "dyn.nn.logsumexp(a, axis=-1)", "a @ a.T", "dnp.prod(a, 0)",
    "dnp.tril(a)", "dnp.einsum('...i,...i->...', a, a)", "dnp.reshape(a, (-1, 1))", "a[0]", "dnp.stack([a, a * a])",
)  # fmt: skip


def _same(c: Chooser, rank: int, name: str = "a") -> str:
    """An expression of ``name`` with its shape and dtype."""
    text = c.one(*_SAME, *(_ROWS if rank else ()))
    if c.random.random() < 0.3:
        text = f"({text}) * {c.one('0.5', 'dnp.cos(a)', '(1 + a)')}"
    return _renamed(text, name)


def _renamed(text: str, name: str) -> str:
    """An expression of ``a`` as one of ``name``, in its dtype."""
    own = re.sub(r"(?<![\w.])a(?!\w)", name, text)
    return f"({own}).astype({name}.dtype)"


def _any(c: Chooser, rank: int) -> str:
    return c.one(_same(c, rank), c.one(*_OTHER) if rank else "a * 2")


def _float(c: Chooser) -> str | None:
    """A value that can be differentiated by, in a dtype with digits to spare."""
    return c.value(lambda t: t.element_type.name in ("float32", "float64"))


def control(c: Chooser) -> str | None:
    """A loop or a choice."""
    x = c.value(lambda t: t.element_type.kind.name in ("FLOAT", "INT"))
    if x is None:
        return None
    rank = c.rank(x)
    one, two, three = (f"lambda a: {_same(c, rank)}" for _ in range(3))
    flag = c.one(f"dnp.sum({x}) > 0", f"dnp.any({x} > 1)", f"{x}.size > 3 * dnp.sum({x} * 0)")
    other = c.value(lambda t: t.ndim == rank and t.element_type is c.pool[x].element_type) or x
    calls = [
        f"dyn.lax.cond({flag}, {one}, {two}, {x})",
        f"dyn.lax.cond({flag}, lambda a: {_any(c, rank)}, lambda a: {_any(c, rank)}, {x})",
        f"dyn.lax.switch(dnp.sum({x} > 0) % 4 - 1, [{one}, {two}, {three}], {x})",
        f"dyn.lax.fori_loop(0, {c.one(0, 1, 3)}, lambda i, a: {_same(c, rank)}, {x})",
        f"dyn.lax.fori_loop(0, 3, lambda i, a: ({_same(c, rank)} + i).astype(a.dtype), {x})",
        f"dyn.lax.while_loop(lambda s: s[0] < dnp.sum({x} > 0) % 5, lambda s: (s[0] + 1, "
        f"{_renamed(c.one(*_SAME), 's[1]')}), (0, {x}))[1]",
        f"dyn.lax.fori_loop(0, 2, lambda i, a: dyn.lax.cond(dnp.sum(a) > 0, {one}, {two}, a), {x})",
    ]
    if rank:
        start = f"dnp.zeros_like(dnp.sum({x}, 0)).astype({x}.dtype)"
        step = f"({_renamed(c.one(*_SAME), 's')} + r).astype(s.dtype)"
        calls += [
            f"dyn.lax.scan(lambda s, r: ({step}, {c.one('s', 'r * s', 'dnp.sum(s)')}), {start}, {x}"
            f"{c.one('', ', reverse=True')})[{c.one(0, 1)}]",
            f"dyn.lax.map(lambda a: {_any(c, rank - 1)}, {x})",
            "dyn.lax.scan(lambda s, r: (s + dnp.sum(r[0] * r[1]).astype(s.dtype), s), "
            f"dnp.sum({x} * 0).astype({x}.dtype), ({x}, {other}))[1]",
            f"dyn.lax.fori_loop(0, {x}.shape[0], lambda i, a: ({_same(c, rank)} + {x}[i]).astype(a.dtype), {x})",
            f"dyn.lax.reduce({x}, {c.one(0, 1)}, lambda p, q: (p * 0.5 + q).astype(q.dtype), ({c.axis(x)},))",
            f"dyn.lax.reduce(({x}, {x}), (0, 1), lambda p, q: (dnp.maximum(p[0], q[0]), p[1] - q[1]), "
            f"({c.axis(x)},))[1]",
        ]  # fmt: skip
    return c.one(*calls)


def transformed(c: Chooser) -> str | None:
    """A derivative, or a function for many examples."""
    x = _float(c)
    if x is None:
        return None
    rank = c.rank(x)
    body = smooth(c, rank)
    total = f"lambda a: dnp.sum({body})"
    calls = [
        f"dyn.grad({total})({x})",
        f"dyn.value_and_grad({total})({x})[1]",
        f"dyn.jvp(lambda a: {body}, ({x},), (dnp.ones_like({x}),))[1]",
        f"dyn.grad(lambda b: dnp.sum(dyn.grad({total})(b) * b))({x})",
        f"dyn.jvp(dyn.grad({total}), ({x},), ({x},))[1]",
        f"dyn.linearize(lambda a: {body}, {x})[1]({x})",
    ]
    if rank:
        one = smooth(c, rank - 1)
        calls += [
            f"dyn.vmap(lambda a: {one}, {c.one(0, -1)})({x})",
            f"dyn.vmap(lambda a: {one}, out_axes={c.one(0, -1)})({x})",
            f"dyn.vmap(dyn.grad(lambda a: dnp.sum({one})))({x})",
            f"dyn.grad(lambda b: dnp.sum(dyn.vmap(lambda a: {one})(b)))({x})",
            f"dyn.vmap(lambda a: dyn.lax.cond(dnp.sum(a) > 0, lambda: {_same(c, rank - 1)}, lambda: -a))({x})",
            f"dyn.vmap(lambda a: dyn.lax.fori_loop(0, 2, lambda i, s: {_renamed(c.one(*_SAME), 's')}, a))({x})",
        ]
    return c.one(*calls)


def smooth(c: Chooser, rank: int) -> str:
    """An expression of ``a`` that has derivatives, through loops and choices too."""
    one, two = _same(c, rank), _same(c, rank)
    texts = [
        one, _any(c, rank), f"(lambda a: {one})({two})",
        f"dyn.lax.cond(dnp.sum(a) > 0, lambda a: {one}, lambda a: {two}, a)",
        f"dyn.lax.cond(dnp.sum(a) > 0, lambda: {one}, lambda: a * 2)",
        f"dyn.lax.fori_loop(0, {c.one(0, 1, 2)}, lambda i, a: {one}, a)",
    ]  # fmt: skip
    if rank:
        step = f"({_renamed(c.one(*_SAME), 's')} * 0.5 + r).astype(s.dtype)"
        texts += [
            f"dyn.lax.scan(lambda s, r: ({step}, s * r), dnp.sum(a, 0), a)[{c.one(0, 1)}]",
            f"dyn.lax.map(lambda a: {_same(c, rank - 1)}, a)",
            "dyn.lax.fori_loop(0, a.shape[0], lambda i, s: s * 0.5 + a[i] * a[0], dnp.sum(a, 0))",
            "dyn.lax.reduce(a, 1, lambda p, q: p * dnp.sin(q) + q, (0,))",
            f"dyn.vmap(lambda a: {_same(c, rank - 1)})(a)",
        ]
    return c.one(*texts)
