# ruff: noqa: E501  # what is drawn is a table of texts, one a line
"""Random programs whose branches, divisions, slices and loops hang on sizes.

A program is grown line by line; a line (or a branch with all its lines) stays if the plain program still gives
something, or fails for its sizes alone, at one of a few sizes. Everything that it computes comes of small whole numbers
by exact operations, so that there is one right result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.adversary.plain import SIZES_ALONE, run_plain
from tests.adversary.programs import Argument, Program, axes_of, values


#: A value: its name, its rank, and whether it is of floats ("f"), integers ("i") or truth values ("b").
@dataclass(frozen=True)
class Value:
    name: str
    rank: int
    kind: str


@dataclass(eq=False)
class _Draw:
    random: Random
    arguments: tuple[Argument, ...]
    values: list[Value]
    dims: list[str]
    lines: list[str] = field(default_factory=list[str])
    #: Names of sizes that no argument's shape says.
    data_dependent: set[str] = field(default_factory=set[str])
    huge: bool = False
    count: int = 0

    def one(self, *options: str) -> str:
        return self.random.choice(options)

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # Sizes ------------------------------------------------------------------------------------------------------

    def atom(self) -> str:
        """A size, rather one of those made last."""
        known = [d for d in self.dims if d not in self.data_dependent or self.random.random() < 0.5] or self.dims
        return known[-1] if self.random.random() < 0.3 else self.random.choice(known)

    def number(self) -> str:
        return str(self.random.choice((0, 1, 1, 2, 2, 3, 4, 5, 7, 8, -1, -2)))

    def divisor(self) -> str:
        """What may be 0, or less."""
        a, b = self.atom(), self.atom()
        return self.one(
            a, f"({a} - {self.random.randint(1, 5)})", f"({a} - {b})", f"({a} % {self.random.randint(2, 4)})",
            str(self.random.randint(2, 5)), f"-{self.random.randint(1, 3)}", f"({a} * {b})", f"most({a}, 1)",
            f"({self.random.randint(2, 6)} - {a})", f"low({a}, {b})", f"({a} // 2)",
        )  # fmt: skip

    def size(self, depth: int = 2) -> str:
        """An expression of sizes, of either sign."""
        if depth == 0 or self.random.random() < 0.25:
            return self.atom() if self.random.random() < 0.75 else self.number()
        a, b = self.size(depth - 1), self.size(depth - 1)
        options = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"{_in(a)} // {self.divisor()}",
            f"{_in(a)} % {self.divisor()}", f"low({a}, {b})", f"most({a}, {b})", f"({a} - {self.number()})",
            f"({a} * 2)", f"abs({a} - {b})", f"-{_in(a)}", f"{_in(a)} // {self.random.randint(2, 4)}",
            f"{_in(a)} % {self.random.randint(2, 4)}", f"{_in(a)} ** 2",
        ]  # fmt: skip
        if self.huge and self.random.random() < 0.5:
            large = f"({self.atom()} * 2**{self.random.choice((20, 31, 32, 40, 61, 62, 63))})"
            options = [f"({a} * {large})", large, f"{large} // {self.divisor()}", f"{large} % {self.divisor()}",
                       f"{large} // ({self.atom()} - {self.atom()})", f"-{large} // ({self.atom()} - {self.number()})"]  # fmt: skip
        return self.random.choice(options)

    def short(self) -> str:
        """A size that is rather small, for results."""
        a, b = self.atom(), self.atom()
        return self.one(
            a, a, b, f"{a} // 2", f"{_in(a)} - 1", f"{a} + 1", f"{a} // {self.divisor()}", f"{a} % {self.divisor()}",
            f"low({a}, {b})", f"most({a}, {b})", f"most({a} - {b}, 0)", f"abs({a} - {b})", f"{a} - {b}",
            str(self.random.randint(0, 4)), f"low({self.size()}, 9)",
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        a, b, c = self.size(), self.size(1), self.atom()
        n = self.random.randint(0, 6)
        options = [
            f"{a} == {b}", f"{a} != {b}", f"{a} < {b}", f"{a} <= {b}", f"{a} > {n}", f"{a} >= {n}",
            f"{_in(a)} % {self.divisor()} == 0", f"{c} % {self.divisor()} == {self.random.randint(0, 2)}",
            f"{c} // {self.divisor()} > {n}", f"{c} // {self.divisor()} <= {n}", f"{c} > {n}", f"{c} == {n}",
            f"{c} != {n}", f"{n - 1} < {a} <= {n + 3}", f"{c}", f"not {c}", f"{c} * {self.atom()} > {3 * n}",
        ]  # fmt: skip
        text = self.random.choice(options)
        if depth and self.random.random() < 0.2:
            return f"{text} {self.one('and', 'or')} {self.condition(depth - 1)}"
        return text

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, low: int = 0, high: int = 4, kinds: str = "fi") -> Value | None:
        fitting = [v for v in self.values if low <= v.rank <= high and v.kind in kinds]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.45 else self.random.choice(fitting)


def _rounds(d: _Draw) -> str:
    """The rounds of a loop that the reference goes through too."""
    return f"low({d.short()}, 99)" if d.huge else d.short()


def _in(text: str) -> str:
    """An operand, in brackets where it has to be."""
    return (
        text
        if text.isidentifier()
        or (text.startswith("(") and text.endswith(")"))
        or ("(" not in text and " " not in text and "-" not in text)
        else f"({text})"
    )


# ---- expressions -----------------------------------------------------------------------------------------------------

#: A text, its rank and its kind.
Made = tuple[str, int, str]


def _index(d: _Draw) -> str:
    """One part of an index."""
    a, b = d.short(), d.short()
    step = d.one("", "", "", ":2", ":-1", ":3", ":-2")
    return d.one(
        f"{a}:{step}", f":{a}{step}", f"{a}:{b}{step}", f"-{_in(a)}:{step}", f":-{_in(b)}{step}", "::-1", "1:", ":-1",
        f"{a}:{a} + {b}{step}", f"{d.random.randint(0, 4)}:{d.random.randint(2, 7)}", f"{b}::-1",
    )  # fmt: skip


def _elementwise(d: _Draw) -> Made | None:
    v, w = d.value(), d.value()
    if v is None or w is None:
        return None
    kind = "f" if "f" in (v.kind, w.kind) else "i"
    rank = max(v.rank, w.rank)
    one: list[Made] = [
        (f"{v.name} + {w.name}", rank, kind), (f"{v.name} - {w.name}", rank, kind),
        (f"dnp.maximum({v.name}, {w.name})", rank, kind), (f"dnp.clip({v.name} * {w.name}, -9, 9)", rank, kind),
        (f"dnp.where({v.name} > {w.name}, {v.name}, {w.name})", rank, kind), (f"-{v.name}", v.rank, v.kind),
        (f"dnp.abs({v.name})", v.rank, v.kind), (f"dnp.clip({v.name} + ({d.size()}), -99, 99)", v.rank, v.kind),
        (f"{v.name} * ({d.condition(0)})", v.rank, v.kind), (f"{v.name} % 3", v.rank, v.kind),
        (f"dnp.clip({v.name} * ({d.short()}), -99, 99)", v.rank, v.kind), (f"{v.name} + W[0, 1]", v.rank, "f"),
        (f"dnp.minimum({v.name}, {d.random.randint(-2, 3)})", v.rank, v.kind),
        (f"({v.name} > {w.name})", rank, "b"), (f"({v.name} != {d.random.randint(-1, 2)})", v.rank, "b"),
    ]  # fmt: skip
    return d.random.choice(one)


def _sliced(d: _Draw) -> Made | None:
    v = d.value(1, 3)
    if v is None:
        return None
    name, rank, kind = v.name, v.rank, v.kind
    options: list[Made] = [
        (f"{name}[{_index(d)}]", rank, kind), (f"{name}[{_index(d)}]", rank, kind),
        (f"{name}[..., {_index(d)}]", rank, kind), (f"{name}[{d.short()}]", rank - 1, kind),
        (f"{name}[-{_in(d.short())}]", rank - 1, kind), (f"{name}[..., {d.random.randint(0, 5)}]", rank - 1, kind),
        (f"{name}[{d.random.randint(0, 5)}]", rank - 1, kind), (f"{name}[i]", rank - 1, kind), (f"{name}[j]", rank, kind),
        (f"{name}[K]", rank, kind), (f"{name}[dnp.arange({d.short()})]", rank, kind), (f"{name}[None]", rank + 1, kind),
        (f"{name}[..., None]", rank + 1, kind), (f"dnp.take({name}, j, {d.random.randrange(rank)}, mode='clip')", rank, kind),
        (f"dyn.lax.slice_in_dim({name}, {d.short()}, {d.short()}, {d.random.randint(1, 3)})", rank, kind),
        (f"dyn.lax.dynamic_slice_in_dim({name}, i, {d.short()}, {d.random.randrange(rank)})", rank, kind),
        (f"dyn.lax.dynamic_update_slice_in_dim({name}, {name}[{_index(d)}], i, 0)", rank, kind),
        (f"dnp.diff({name})", rank, kind), (f"dnp.split({name}, 2)[{d.random.randint(0, 1)}]", rank, kind),
        (f"dnp.array_split({name}, 3)[{d.random.randint(0, 2)}]", rank, kind),
        (f"scatter_update({name}, {d.short()}, 7, '{d.one('add', 'replace')}')", rank, kind),
        (f"scatter_update({name}, j, 3, '{d.one('add', 'replace')}')", rank, kind),
        (f"scatter_update({name}, slice({d.short()}, {d.short()}), 5, 'replace')", rank, kind),
        (f"{name}.at[{_index(d)}].add(2)", rank, kind), (f"{name}.at[{d.short()}].set(1)", rank, kind),
        (f"{name}.at[j].{d.one('add', 'set', 'max')}(1)", rank, kind),
    ]  # fmt: skip
    if rank >= 2:
        options += [
            (f"{name}[{_index(d)}, {_index(d)}]", rank, kind), (f"{name}[{d.short()}, {_index(d)}]", rank - 1, kind),
            (f"{name}[:, {d.short()}]", rank - 1, kind), (f"dnp.diagonal({name}, {d.random.randint(-1, 2)})", rank - 1, kind),
            (f"{name}[j, :{d.short()}]", rank, kind), (f"{name}[:, j]", rank, kind), (f"dnp.tril({name}, 1)", rank, kind),
        ]  # fmt: skip
    return d.random.choice(options)


def _shaped(d: _Draw) -> Made | None:
    v = d.value(1, 3)
    w = d.value(1, 3)
    if v is None or w is None:
        return None
    name, rank, kind = v.name, v.rank, v.kind
    both = "f" if "f" in (kind, w.kind) else "i"
    size, axis = d.short(), d.random.randrange(rank)
    options: list[Made] = [
        (f"dnp.reshape({name}, (most({size}, 1), -1))", 2, kind), (f"dnp.reshape({name}, (-1, most({size}, 1)))", 2, kind),
        (f"dnp.reshape({name}, (-1,))", 1, kind), (f"dnp.reshape({name}, (most({size}, 0), most({d.short()}, 0)))", 2, kind),
        (f"dnp.reshape({name}, (abs({name}.shape[0] // {d.divisor()}), {name}.shape[0]))", 2, kind), (f"{name}.T", rank, kind),
        (f"dnp.reshape({name}, (1, -1, 2))", 3, kind), (f"dnp.reshape({name}, (most({size}, 0), abs({d.short()}), {name}.size // most({size}, 1)))", 3, kind),
        (f"dnp.broadcast_to({name}, ({size}, *{name}.shape))", rank + 1, kind),
        (f"dnp.concatenate([{name}, {w.name}])", rank, both), (f"dnp.concatenate([{name}, {name}[:{size}]])", rank, kind),
        (f"dnp.stack([{name}, {w.name}])", rank + 1, both), (f"dnp.tile({name}, {size})", rank, kind),
        (f"dnp.repeat({name}, {size}, {axis})", rank, kind), (f"dnp.roll({name}, {d.size(1)}, {axis})", rank, kind),
        (f"dnp.pad({name}, [({size}, {d.short()})] + [(0, 0)] * {rank - 1})", rank, kind),
        (f"dnp.flip({name}, {axis})", rank, kind), (f"dnp.expand_dims({name}, {axis})", rank + 1, kind),
        (f"dnp.arange({size})", 1, "i"), (f"dnp.arange({d.short()}, {d.short()}, {d.one('1', '2', '-1', '3')})", 1, "i"),
        (f"dnp.zeros(({size}, {d.short()}))", 2, "f"), (f"dnp.ones({name}.shape[0])", 1, "f"),
        (f"dnp.full(({size},), {d.number()})", 1, "i"), (f"dnp.eye({size}, {d.short()})", 2, "f"),
        (f"dnp.reshape({name}, {w.name}.shape)", w.rank, kind), (f"{name} + dnp.zeros({w.name}.shape)", max(rank, w.rank), "f"),
        (f"dnp.squeeze({name}, {axis})", rank - 1, kind), (f"dnp.broadcast_to({name}, {w.name}.shape)", w.rank, kind),
        (f"dnp.swapaxes({name}, 0, {axis})", rank, kind), (f"dnp.broadcast_to({name}[:1], {name}.shape)", rank, kind),
        (f"dnp.full(({size},), {d.size(1)}, '{d.one('int8', 'uint8', 'int32')}')", 1, "i"), (f"({name} > 0).astype('int8') + {d.short()}", rank, "i"),
    ]  # fmt: skip
    return d.random.choice(options)


def _reduced(d: _Draw) -> Made | None:
    v, w = d.value(1, 3), d.value(1, 2)
    if v is None or w is None:
        return None
    name, rank, kind = v.name, v.rank, v.kind
    both = "f" if "f" in (kind, w.kind) else "i"
    axis = d.random.randrange(rank)
    options: list[Made] = [
        (f"dnp.sum({name}, {axis})", rank - 1, kind), (f"dnp.sum({name})", 0, kind), (f"dnp.max({name}, {axis})", rank - 1, kind),
        (f"dnp.min({name})", 0, kind), (f"dnp.argmax({name}, {axis})", rank - 1, "i"),
        (f"dnp.max({name}, {axis}, initial=-3)", rank - 1, kind), (f"dnp.cumsum({name}, {axis})", rank, kind),
        (f"dnp.sort({name}, {axis})", rank, kind), (f"dnp.argsort({name}, {axis})", rank, "i"),
        (f"dnp.count_nonzero({name}, {axis})", rank - 1, "i"), (f"dnp.sum({name}, {axis}, keepdims=True)", rank, kind),
        (f"dnp.clip(dnp.matmul({name}, {w.name}), -99, 99)", max(rank + w.rank - 2, 0), both),
        (f"dnp.clip(dnp.outer({name}, {w.name}), -9, 9)", 2, both), (f"dnp.clip(dnp.convolve({name}, {w.name}), -9, 9)", 1, both),
        (f"dnp.searchsorted(dnp.sort({name}), {w.name})", w.rank, "i"), (f"dnp.max({name}[:{d.short()}])", 0, kind),
        (f"dyn.lax.top_k({name}, {d.short()})[{d.random.randint(0, 1)}]", rank, kind),
        (f"dnp.any({name} > 0, {axis})", rank - 1, "b"), (f"dnp.prod(dnp.clip({name}, -1, 1), {axis})", rank - 1, kind),
        (f"dnp.clip(dnp.dot({name}, W.T[:, :{d.short()}]), -99, 99)", rank, "f"),
    ]  # fmt: skip
    return d.random.choice(options)


def _of_data(d: _Draw) -> Made | None:
    """A size that hangs on values."""
    v = d.value(1, 2)
    if v is None:
        return None
    return d.random.choice([
        (f"{v.name}[{v.name} > {d.random.randint(-4, 3)}]", 1, v.kind), (f"dnp.nonzero({v.name})[0]", 1, "i"),
        (f"dnp.unique({v.name})", 1, v.kind), (f"dnp.repeat({v.name}, dnp.abs({v.name}).astype('int64') % 3)" if v.rank == 1
         else f"dnp.flatnonzero({v.name})", 1, v.kind if v.rank == 1 else "i"),
    ])  # fmt: skip


def body(d: _Draw, name: str, rank: int, *, same: bool) -> str:
    """An expression of ``name``; with ``same`` of its shape, up to what sizes may do."""
    number, text = d.random.randint(1, 3), name
    alike = [
        f"{name} * 2",
        f"{name} + 1",
        f"-{name}",
        f"{name} * ({d.size(1)})",
        f"{name} + ({d.size(1)})",
        f"{name} % 3",
    ]
    if rank:
        alike += [
            f"{name}[::-1]", f"dnp.roll({name}, {d.size(1)}, 0)", f"dnp.cumsum({name}, 0)", f"{name} + {name}[{d.short()}]",
            f"{name} - {name}[0]", f"{name} * {name}[{d.random.randint(0, 5)}]", f"{name} + dnp.sum({name}[{_index(d)}])",
            f"dnp.concatenate([{name}[{number}:], {name}[:{number}]])", f"{name}.at[{_index(d)}].add(1)",
            f"dnp.where(dnp.arange({name}.shape[0])[(...,) + (None,) * {rank - 1}] < {d.short()}, {name}, 0)",
            f"{name} + dnp.max({name})", f"dnp.reshape(dnp.reshape({name}, (most({d.short()}, 1), -1)), {name}.shape)",
        ]  # fmt: skip
    if not same and rank:
        alike += [
            f"{name}[{_index(d)}]", f"{name}[{d.short()}]", f"dnp.sum({name}, 0)", f"dnp.reshape({name}, (most({d.short()}, 1), -1))",
            f"dnp.max({name}, 0)", f"dnp.ravel({name})[:{d.short()}]", f"dnp.concatenate([{name}, {name}])",
        ]  # fmt: skip
    text = d.random.choice(alike)
    other = d.value(rank, rank)
    if d.random.random() < 0.25 and other is not None:
        text = f"{text} + {other.name}"
    return f"dnp.clip({text}, -99, 99)"


def _controlled(d: _Draw) -> Made | None:
    v = d.value(0, 3, "f")
    if v is None:
        return None
    name, rank = v.name, v.rank
    flag = d.one(f"dnp.sum({name}) > 0", f"i > {d.random.randint(-2, 4)}", f"dnp.any({name} == 1)", f"i < {d.short()}")
    one, two, three = (body(d, "a", rank, same=True) for _ in range(3))
    options: list[Made] = [
        (f"dyn.lax.cond({flag}, lambda a: {one}, lambda a: {two}, {name})", rank, "f"),
        (f"dyn.lax.cond({flag}, lambda: {body(d, name, rank, same=True)}, lambda: {name})", rank, "f"),
        (f"dyn.lax.switch(i, [lambda a: {one}, lambda a: {two}, lambda a: {three}], {name})", rank, "f"),
        (f"dyn.lax.fori_loop(0, {d.short()}, lambda k, a: ({one}).astype(a.dtype), {name})", rank, "f"),
        (f"dyn.lax.fori_loop({d.short()}, {d.short()}, lambda k, a: (dnp.clip(a + k, -99, 99)).astype(a.dtype), {name})", rank, "f"),
        (f"dyn.lax.while_loop(lambda s: s[0] < {_rounds(d)}, lambda s: (s[0] + 1, (lambda a: {one})(s[1]).astype({name}.dtype)), (0, {name}))[1]", rank, "f"),
    ]  # fmt: skip
    if rank:
        inner = body(d, "a", rank - 1, same=False)
        options += [
            (f"dyn.lax.cond({flag}, lambda: dnp.sum({name}[{d.short()}]), lambda: dnp.sum({name}) * 0)", 0, "f"),
            (f"dyn.lax.cond({flag}, lambda: dnp.sum(dnp.max({name}, 0)), lambda: dnp.sum({name}))", 0, "f"),
            (f"dyn.lax.map(lambda a: {inner}, {name})", rank, "f"),
            (f"dyn.lax.scan(lambda s, r: (dnp.clip(s + dnp.sum(r), -99, 99), s), dnp.sum({name}) * 0, {name})[1]", 1, "f"),
            (f"dyn.lax.scan(lambda s, a: (s, {inner}), 0, {name})[1]", rank, "f"),
            (f"dyn.lax.scan(lambda s, k: (dnp.clip(s + {name}[k], -99, 99), dnp.sum(s)), dnp.sum({name}, 0) * 0, dnp.arange({d.short()}))[{d.random.randint(0, 1)}]", rank - 1, "f"),
            (f"dyn.lax.fori_loop(0, {d.short()}, lambda k, a: a + {name}[k], dnp.sum({name}, 0) * 0)", rank - 1, "f"),
            (f"dyn.lax.fori_loop(0, {name}.shape[0] - {d.random.randint(0, 2)}, lambda k, a: a.at[k].set(a[k + 1] * 0 + k), {name})", rank, "f"),
        ]  # fmt: skip
    return d.random.choice(options)


def _transformed(d: _Draw) -> Made | None:
    v = d.value(0, 3, "f")
    if v is None:
        return None
    name, rank = v.name, v.rank
    smooth = ["a * a", f"a * ({d.size(1)})", "a * a * 2 + a"]
    if rank:
        smooth += [
            f"a[{_index(d)}] * 2", f"a[{d.short()}] * a", f"dnp.reshape(a, (most({d.short()}, 1), -1))", "dnp.cumsum(a, 0)",
            f"dnp.concatenate([a, a[:{d.short()}] * 3])", f"dnp.broadcast_to(a, ({d.short()}, *a.shape))",
            f"dnp.pad(a, [({d.short()}, 1)] + [(0, 0)] * {rank - 1})", "a * dnp.sum(a, 0)", f"dnp.roll(a, {d.size(1)}, 0) * a",
            f"dyn.lax.fori_loop(0, {d.short()}, lambda k, s: dnp.clip(s + a[0], -99, 99), a)", "a[j] * 2", f"a.at[{_index(d)}].set(0)",
        ]  # fmt: skip
    text = d.random.choice(smooth)
    total = f"lambda a: dnp.sum({text})"
    options: list[Made] = [
        (f"dnp.clip(dyn.grad({total})({name}), -99, 99)", rank, "f"), (f"dyn.jit(lambda a: {body(d, 'a', rank, same=False)})({name})", rank, "f"),
        (f"dnp.clip(dyn.jvp({total}, ({name},), ({name},))[1], -99, 99)", 0, "f"),
        (f"dnp.clip(dyn.grad(dyn.checkpoint({total}))({name}), -99, 99)", rank, "f"),
        (f"dnp.clip(dyn.value_and_grad({total})({name})[1], -99, 99)", rank, "f"),
        (f"dyn.jit(lambda a: a * 2 if a.shape and a.shape[0] > {d.random.randint(0, 6)} else a)({name})", rank, "f"),
    ]  # fmt: skip
    if rank:
        inner = body(d, "a", rank - 1, same=False)
        options += [
            (f"dyn.vmap(lambda a: {inner})({name})", rank, "f"), (f"dyn.vmap(lambda a, b: a + b)({name}, {name}[:{d.short()}])", rank, "f"),
            (f"dyn.vmap(lambda a: {inner}, {d.random.randrange(rank)})({name})", rank, "f"),
            (f"dyn.vmap(lambda a: dyn.lax.cond(dnp.sum(a) > 0, lambda: {body(d, 'a', rank - 1, same=True)}, lambda: a))({name})", rank, "f"),
        ]  # fmt: skip
    return d.random.choice(options)


_FAMILIES: tuple[tuple[Callable[[_Draw], Made | None], int], ...] = (
    (_elementwise, 4), (_sliced, 6), (_shaped, 6), (_reduced, 4), (_of_data, 1), (_controlled, 4), (_transformed, 3),
)  # fmt: skip


def _expression(d: _Draw) -> Made | None:
    families, weights = zip(*_FAMILIES, strict=True)
    return d.random.choices(families, weights)[0](d)


# ---- lines -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Unit:
    """Lines that stay or go together, and what they add."""

    lines: tuple[str, ...]
    values: tuple[Value, ...] = ()
    dims: tuple[str, ...] = ()


def _plain_line(d: _Draw) -> _Unit | None:
    made = _expression(d)
    if made is None or not 0 <= made[1] <= 4:
        return None
    name = d.fresh("v")
    return _Unit((f"{name} = {made[0]}",), (Value(name, made[1], made[2]),))


def _size_line(d: _Draw) -> _Unit | None:
    name = d.fresh("n")
    v = d.value(1, 3)
    text = f"{v.name}.shape[{d.random.randrange(v.rank)}]" if v is not None and d.random.random() < 0.3 else d.size()
    return _Unit((f"{name} = {text}",), (), (name,))


def _branch(d: _Draw) -> _Unit | None:
    """An ``if`` whose arms give a value of one rank each, perhaps after a size of its own."""
    arms = [_expression(d) for _ in range(2)]
    if any(a is None for a in arms):
        return None
    (one, rank, kind), (two, other, kind2) = [a for a in arms if a is not None]
    name = d.fresh("v")
    if rank != other or d.random.random() < 0.3:
        v = next((v for v in reversed(d.values) if v.rank == rank), None)
        if v is None:
            return None
        two, kind2 = f"{v.name} * 2", v.kind
    lines = [f"if {d.condition()}:", f"    {name} = {one}", "else:", f"    {name} = {two}"]
    if d.random.random() < 0.2:
        lines[2:2] = [f"elif {d.condition(0)}:", f"    {name} = {two}"]
    return _Unit(tuple(lines), (Value(name, rank, "f" if "f" in (kind, kind2) else kind),))


def _size_branch(d: _Draw) -> _Unit | None:
    name = d.fresh("n")
    return _Unit(
        (f"if {d.condition()}:", f"    {name} = {d.size()}", "else:", f"    {name} = {d.size(1)}"), (), (name,)
    )


def _while(d: _Draw) -> _Unit | None:
    """A Python loop on a size, of a few rounds."""
    n, k = d.fresh("n"), d.fresh("k")
    smaller = d.one(
        f"{n} // 2", f"{n} - {d.random.randint(1, 3)}", f"{n} // {d.divisor()}", f"low({n} // 2, {d.atom()})"
    )
    test = d.one(f"{n} > 1", f"{n} >= {d.random.randint(1, 4)}", f"{n} % 2 == 0", f"{n} != {d.number()}", n)
    v = d.value(1, 2)
    more = ()
    if v is not None and d.random.random() < 0.4:
        return _Unit(
            (f"{n}, {k}, {n}v = {d.size(1)}, 0, {v.name}", f"while {k} < 4 and {test}:", f"    {n}, {k} = {smaller}, {k} + 1",
             f"    {n}v = {n}v[{d.one(f':{n}', f'{n}:', ':-1', '::2')}]"), (Value(f"{n}v", v.rank, v.kind),), (n,),
        )  # fmt: skip
    return _Unit(
        (f"{n}, {k} = {d.size(1)}, 0", f"while {k} < 4 and {test}:", f"    {n}, {k} = {smaller}, {k} + 1"), more, (n,)
    )


def _return_early(d: _Draw) -> _Unit | None:
    v = d.value(0, 3)
    return None if v is None else _Unit((f"if {d.condition()}:", f"    return {v.name},"))


def _nested(d: _Draw) -> _Unit | None:
    """A jitted function with a branch of its own."""
    v = d.value(1, 3)
    if v is None:
        return None
    own = _Draw(d.random, (), [Value("a", v.rank, v.kind)], ["p"])
    outer, name = d.fresh("f"), d.fresh("v")
    made = [_expression(own) for _ in range(2)]
    if any(m is None or m[1] != v.rank or " i" in m[0] or "j" in m[0] for m in made):
        return None
    one, two = (m[0] for m in made if m is not None)
    return _Unit(
        ("@dyn.jit", f"def {outer}(a):", f"    p = a.shape[{d.random.randrange(v.rank)}]", f"    if {own.condition()}:",
         f"        return {one}", f"    return {two}", f"{name} = {outer}({v.name})"),
        (Value(name, v.rank, v.kind),),
    )  # fmt: skip


_LINES: tuple[tuple[Callable[[_Draw], _Unit | None], int], ...] = (
    (_plain_line, 10), (_size_line, 5), (_branch, 7), (_size_branch, 2), (_while, 2), (_return_early, 2), (_nested, 1),
)  # fmt: skip


def make_program(random: Random, *, most: int = 7) -> Program:
    """A program of up to ``most`` units of lines. What it is depends on ``random`` alone."""
    arguments = _arguments(random)
    d = _begin(random, arguments)
    head = len(d.lines)
    calls = _trial_calls(random, arguments)
    wanted = random.randint(2, most)
    for _ in range(3 * wanted):
        units, weights = zip(*_LINES, strict=True)
        unit = random.choices(units, weights)[0](d)
        if unit is None:
            continue
        lines = [*d.lines, *unit.lines]
        if not _gives(
            arguments, [*lines, f"return {', '.join(v.name for v in (unit.values or d.values[-1:]))},"], calls
        ):
            continue
        d.lines[:] = lines
        d.values += unit.values
        d.dims += unit.dims
        if unit.values and unit.values[0].rank and random.random() < 0.3:
            name = d.fresh("n")
            d.lines.append(f"{name} = {unit.values[0].name}.shape[{random.randrange(unit.values[0].rank)}]")
            d.dims.append(name)
        wanted -= 1
        if wanted == 0:
            break
    made = [v.name for v in d.values[-3:]]
    # Sizes that nothing else asks for are results too.
    sizes = [n for n in d.dims if n.startswith("n")][-2:]
    results = [*made, *(f"dnp.clip(dnp.asarray({n}), -999, 999)" for n in sizes)] if len(d.lines) > head else made
    return Program(arguments, (*d.lines, f"return {', '.join(results)},"), random.random() < 0.2)


def _arguments(random: Random) -> tuple[Argument, ...]:
    names: list[str | int] = ["n", "n", "m", "m", "k", 3]
    made: list[Argument] = []
    for name in "xyz"[: random.choice((1, 2, 2, 3))]:
        rank = random.choice((1, 1, 2, 2, 3))
        axes = tuple(random.choice(names) for _ in range(rank))
        made.append(Argument(name, random.choice(("float64", "float64", "float32", "int64")), axes))
    if random.random() < 0.12:
        made.append(Argument("h", "int8", (0, "h")))
    return (*made, Argument("i", "int64", ()), Argument("j", "int64", (random.choice(("n", "q")),)))


def _begin(random: Random, arguments: Sequence[Argument]) -> _Draw:
    d = _Draw(random, tuple(arguments), [], [])
    for a in arguments:
        if a.name not in "ijh":
            d.values.append(Value(a.name, len(a.axes), "f" if a.dtype.startswith("float") else "i"))
        if a.axes and a.name != "j":
            names = [f"{a.name}{number}" for number in range(len(a.axes))]
            d.lines.append(f"{', '.join(names)}, = {a.name}.shape")
            d.dims += [n for n in names if n != "h0"]
    d.huge = any(a.name == "h" for a in arguments) or random.random() < 0.08
    return d


def _trial_calls(random: Random, arguments: Sequence[Argument]) -> list[dict[str, int]]:
    names = axes_of(arguments)
    return [{name: random.choice(sizes) for name in names} for sizes in ((4, 6), (2, 3, 5), (6, 8, 7), (1, 2, 4))]


def _gives(arguments: tuple[Argument, ...], lines: Sequence[str], calls: Sequence[dict[str, int]]) -> bool:
    """Whether the plain program gives something at one of the sizes, and never fails for another reason than sizes."""
    program, seen = Program(arguments, tuple(lines)), False
    for sizes in calls:
        outcome = run_plain(program, values(program, tuple(a.shape(sizes) for a in arguments)))
        if outcome.kind not in ("arrays", *SIZES_ALONE):
            return False
        if outcome.kind == "arrays":
            seen = True
            break
    return seen
