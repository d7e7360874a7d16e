"""Kernel IR as text: for people, for golden files, and, hashed, as a kernel's identity.

Symbols, buffers and references print by position, not by the names they were made with, so that two kernels that
compute the same thing print the same text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Apply,
    Block,
    Buffer,
    Clear,
    Const,
    Digits,
    Expr,
    Fold,
    Index,
    Interval,
    Kernel,
    Let,
    Load,
    Loop,
    Monoid,
    Multiply,
    Pack,
    Ref,
    Role,
    Spill,
    Stmt,
    Store,
    TileContract,
    Update,
)
from dyn.schedule.kernel_walks import children, stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, format_dim

_VARIABLE = {Role.GRID: "g", Role.TEAM: "t", Role.LANE: "i", Role.SERIAL: "j", Role.UNROLL: "u"}


def kernel_text(kernel: Kernel) -> str:
    """The text of a kernel, its note included."""
    header = f"// {kernel.note}\n" if kernel.note else ""
    return header + _KernelPrinter(kernel).text()


def kernel_hash(kernel: Kernel) -> str:
    """Twenty hex digits that are equal for kernels of equal text; the name and the note do not count."""
    return hashlib.sha256(_KernelPrinter(kernel).text().encode()).hexdigest()[:20]


def kernel_name(kernel: Kernel) -> str:
    """The name by which a kernel's code is known: equal kernels have one. That of a kernel is found once."""
    found = _NAMES.get(kernel)
    if found is None:
        found = _NAMES[kernel] = f"k_{kernel_hash(kernel)}"
    return found


_NAMES: WeakKeyDictionary[Kernel, str] = WeakKeyDictionary()


def _combined(folds: Sequence[Fold]) -> list[tuple[Expr, ...]]:
    """The expressions of folds over states."""
    monoids = [m for f in folds for m in (f.monoid, f.leaf.monoid)]
    return [m.result for m in monoids if m.scalar is None] + [f.block.lifted for f in folds if f.block is not None]


class _KernelPrinter:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.symbols: dict[Symbol, str] = {s: f"d{i}" for i, s in enumerate(kernel.dims)}
        self.buffers = {id(b): f"b{i}" for i, b in enumerate(kernel.buffers)}
        self.buffers |= {id(b): f"s{i}" for i, b in enumerate(kernel.scratch)}
        self.refs: dict[int, str] = {}
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.uses: Counter[int] = Counter()
        for stmt in walk_stmts(kernel.body):
            folds = stmt.folds if isinstance(stmt, Loop) else ()
            for roots in (stmt_exprs(stmt), *_combined(folds)):
                self.uses.update(id(r) for r in roots)
                for expr in walk_exprs(roots):
                    self.uses.update(id(c) for c in children(expr))

    def text(self) -> str:
        buffers = ", ".join(f"{self.buffers[id(b)]}: {b.dtype}{self.part(b)}" for b in self.kernel.buffers)
        factors = self.kernel.factors
        dims = ", ".join(f"{self.symbols[s]}{': 0 or 1' if s in factors else ''}" for s in self.kernel.dims)
        copies = f" in {self.kernel.copies} sets" if self.kernel.copies > 1 else ""
        overlapping = ", ".join(f"b{number}" for number in sorted(self.kernel.overlapping))
        overlaps = f" where {overlapping} may overlap" if overlapping else ""
        self.lines.append(f"kernel({buffers})[{dims}]{copies}{overlaps} {{")
        for buffer in self.kernel.scratch:
            space = buffer.space.value
            self.lines.append(f"  {space} {self.buffers[id(buffer)]}: {buffer.dtype}[{self.dim(buffer.size)}]")
        self.block(self.kernel.body, 1, {})
        return "\n".join([*self.lines, "}"]) + "\n"

    def part(self, buffer: Buffer) -> str:
        return "" if buffer.size == 0 else f", part of {self.dim(buffer.size)}"

    def fresh(self, prefix: str) -> str:
        name = f"{prefix}{self.counts[prefix]}"
        self.counts[prefix] += 1
        return name

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def dim(self, dim: Dim) -> str:
        return format_dim(dim, self.symbols)

    def block(self, body: tuple[Stmt, ...], depth: int, lets: dict[int, str]) -> None:
        for stmt in body:
            if isinstance(stmt, Store):
                value = self.expr(stmt.value, depth, lets)
                self.line(depth, f"{self.buffers[id(stmt.buffer)]}[{self.dim(stmt.index)}] = {value}")
            elif isinstance(stmt, Update):
                self.update(stmt, depth, lets)
            elif isinstance(stmt, Loop):
                self.loop(stmt, depth, lets)
            elif isinstance(stmt, TileContract):
                self.tile(stmt, depth, lets)
            elif isinstance(stmt, Let):
                value = self.dim(stmt.value)
                name = self.symbols[stmt.var] = self.fresh("x")
                self.line(depth, f"let {name} = {value}")
            elif isinstance(stmt, Pack):
                self.pack(stmt, depth)
            elif isinstance(stmt, Clear):
                self.line(depth, f"clear {self.buffers[id(stmt.acc)]}")
            elif isinstance(stmt, Spill):
                rows = f"{self.dim(stmt.start)}, {stmt.rows} rows of {stmt.columns}"
                parts = f", {stmt.parts} parts" if stmt.parts > 1 else ""
                to = f"{self.buffers[id(stmt.buffer)]}[{self.dim(stmt.place)}]"
                self.line(depth, f"spill {self.buffers[id(stmt.acc)]} from {rows}{parts} to {to}")
            else:
                self.multiply(stmt, depth)

    def update(self, stmt: Update, depth: int, lets: dict[int, str]) -> None:
        old = ""
        if stmt.state is not None:
            self.refs[id(stmt.state)] = self.fresh("o")
            old = f" from {self.refs[id(stmt.state)]}"
        value = self.expr(stmt.value, depth, lets)
        bindings = ""
        for symbol, bound in stmt.bound:
            self.symbols.setdefault(symbol, self.fresh("v"))
            bindings += f" with {self.symbols[symbol]} = {self.expr(bound, depth, lets)}"
        place = f"{self.buffers[id(stmt.buffer)]}[{self.dim(stmt.index)}{bindings}]"
        how = "replaced" if stmt.combine is None else stmt.combine.text
        where = "" if stmt.mask is None else f" where {self.expr(stmt.mask, depth, lets)}"
        self.line(depth, f"update {place}{old} {how} by {value}{where}")

    def loop(self, loop: Loop, depth: int, lets: dict[int, str]) -> None:
        inits = [self.expr(carry.init, depth, lets) for carry in loop.carries]
        bindings = ""
        for symbol, value in loop.bound:
            self.symbols.setdefault(symbol, self.fresh("v"))
            bindings += f" with {self.symbols[symbol]} = {self.expr(value, depth, lets)}"
        var = self.symbols[loop.var] = self.fresh(_VARIABLE[loop.role])
        width = f" of {loop.width} lanes" if loop.role is Role.TEAM else ""
        order = "" if loop.order is None else f" in {loop.order.unroll} x {loop.order.lanes}"
        if loop.order is not None and loop.role is Role.SERIAL:
            order = f" by {loop.order.step}"
        if loop.order is not None and any(fold.block is not None for fold in loop.folds):
            order += f" in runs of {' x '.join(map(str, loop.order.runs))}"
        start = "" if loop.start == 0 else f"{self.dim(loop.start)} <= "
        extent = self.dim(loop.extent) if loop.start == 0 else f"{self.dim(loop.start)} + ({self.dim(loop.extent)})"
        count = f" by {loop.step}" if loop.step != 1 else ""
        if loop.count is not None:
            self.symbols[loop.count] = self.fresh("x")
            count = f" by {self.symbols[loop.count]}"
        self.line(depth, f"{loop.role.value} {start}{var} < {extent}{bindings}{width}{order}{count} {{")
        inner = dict(lets)
        for carry, init in zip(loop.carries, inits, strict=True):
            name = self.refs[id(carry.state)] = self.refs[id(carry.ref)] = self.fresh("c")
            self.line(depth + 1, f"{name} = carried {carry.ref.dtype} from {init}")
        self.block(loop.body, depth + 1, inner)
        for fold in loop.folds:
            values = [self.expr(value, depth + 1, inner) for value in fold.values]
            names = [self.fresh("r") for _ in fold.refs]
            self.refs.update((id(ref), name) for ref, name in zip(fold.refs, names, strict=True))
            how, inits = self.monoid(fold.monoid, depth + 1), map(self.literal, fold.monoid.init)
            runs = "" if fold.block is None else self.runs(fold.block, depth + 1)
            self.line(depth + 1, f"{', '.join(names)} = fold {how} from {', '.join(inits)}{runs}: {', '.join(values)}")
        values = [self.expr(carry.value, depth + 1, inner) for carry in loop.carries]
        for carry, value in zip(loop.carries, values, strict=True):
            self.line(depth + 1, f"{self.refs[id(carry.state)]} <- {value}")
        self.line(depth, "}")

    def monoid(self, monoid: Monoid, depth: int) -> str:
        """The function that combines two states: its name, or what comes of ``(a, …), (b, …)``."""
        if monoid.scalar is not None:
            return monoid.scalar.text
        for states, prefix in ((monoid.left, "a"), (monoid.right, "b")):
            self.refs.update((id(ref), self.fresh(prefix)) for ref in states)
        lets: dict[int, str] = {}
        results = [self.expr(result, depth, lets) for result in monoid.result]
        left, right = (", ".join(self.refs[id(ref)] for ref in state) for state in (monoid.left, monoid.right))
        return f"({left}), ({right}) -> ({', '.join(results)})"

    def runs(self, block: Block, depth: int) -> str:
        """The fold of runs of elements: its monoid, and the state that a run becomes."""
        how, inits = self.monoid(block.monoid, depth), ", ".join(map(self.literal, block.monoid.init))
        self.refs.update((id(ref), self.fresh("s")) for ref in block.state)
        lets: dict[int, str] = {}
        lifted = ", ".join(self.expr(value, depth, lets) for value in block.lifted)
        state = ", ".join(self.refs[id(ref)] for ref in block.state)
        return f" over runs ({state}) -> ({lifted}) of {how} from {inits}"

    def tile(self, tile: TileContract, depth: int, lets: dict[int, str]) -> None:
        row = self.symbols[tile.row] = self.fresh("m")
        col = self.symbols[tile.col] = self.fresh("n")
        red = self.symbols[tile.red] = self.fresh("k")
        acc = self.refs[id(tile.acc)] = self.fresh("acc")
        extents = f"{row} < {self.dim(tile.row_extent)}, {col} < {self.dim(tile.col_extent)}"
        self.line(
            depth,
            f"contract {acc}: {tile.acc.dtype}[{extents}] over {red} < {self.dim(tile.red_extent)} tile {tile.tile} {{",
        )
        self.digits(tile.digits, depth + 1)
        self.line(depth + 1, f"lhs {self.expr(tile.lhs, depth + 1, {})}")
        self.line(depth + 1, f"rhs {self.expr(tile.rhs, depth + 1, {})}")
        self.block(tile.epilogue, depth + 1, dict(lets))
        self.line(depth, "}")

    def digits(self, several: Sequence[Digits], depth: int) -> None:
        for digits in several:
            parts: list[str] = []
            for symbol, extent in digits.parts:
                name = self.symbols[symbol] = self.fresh("p")
                parts.append(f"{name} < {self.dim(extent)}")
            self.line(depth, f"digits of {self.dim(digits.value)}: {', '.join(parts)}")

    def interval(self, interval: Interval, prefix: str) -> str:
        start, extent = self.dim(interval.start), self.dim(interval.extent)
        name = self.symbols[interval.var] = self.fresh(prefix)
        return f"{name} < {extent}" if interval.start == 0 else f"{start} <= {name} < {start} + ({extent})"

    def pack(self, pack: Pack, depth: int) -> None:
        intervals = f"{self.interval(pack.outer, 'p')}, {self.interval(pack.inner, 'p')}"
        words = ""
        if pack.words is not None:
            words = f" in words of {pack.words.dtype}" + (", flipped" if pack.words.flipped else "")
        staged, pad = "", ""
        if (own := pack.staged) is not None:
            staged = f" staged {own.outer}x{own.inner} in {own.slots} slots of {own.slot}"
            staged += ", copied" if own.copied else ""
            pad = f", {own.pad} free after {own.every}" if own.pad else ""
        to = f"{self.buffers[id(pack.buffer)]}[{self.dim(pack.place)}, {pack.stride} a row{pad}]"
        self.line(depth, f"pack {to} for {intervals}{words}{staged} {{")
        self.digits(pack.digits, depth + 1)
        value = pack.value if pack.words is None else pack.words.elements
        self.line(depth + 1, f"value {self.expr(value, depth + 1, {})}")
        self.line(depth, "}")

    def multiply(self, stmt: Multiply, depth: int) -> None:
        intervals = ", ".join(
            self.interval(interval, prefix) for interval, prefix in zip(stmt.intervals, "mnk", strict=True)
        )
        unit = "" if stmt.unit is None else f" by {stmt.unit.text}"
        acc = f"{self.buffers[id(stmt.acc)]}[{self.dim(stmt.place)}, {stmt.stride} a row]"
        how = f"{stmt.algorithm.value} {stmt.tile.rows}x{stmt.tile.columns}" + (
            f" or {stmt.narrow}" if stmt.narrow else ""
        )
        how += f" in {stmt.parts} parts" if stmt.parts > 1 else ""
        begin = {1: "", 0: " adding"}
        first = begin[stmt.first] if isinstance(stmt.first, int) else f" from 0 if {self.dim(stmt.first)}"
        self.line(depth, f"multiply {acc} for {intervals}{unit} {how}{first} {{")
        self.line(depth + 1, f"lhs {self.expr(stmt.lhs, depth + 1, {})}")
        self.line(depth + 1, f"rhs {self.expr(stmt.rhs, depth + 1, {})}")
        if stmt.packed is not None:
            own = stmt.packed
            place = (
                f"{self.buffers[id(own.buffer)]}[{self.dim(own.place)}, {own.width} a row, {own.panel_stride} a panel]"
            )
            self.line(depth + 1, f"packs rhs to {place}")
        if stmt.column_sums is not None:
            sums = stmt.column_sums
            place = f"{self.buffers[id(sums.buffer)]}[{self.dim(sums.place)}]"
            self.line(depth + 1, f"{'makes' if sums.makes else 'takes'} column sums at {place}")
        self.line(depth, "}")

    def literal(self, const: Const) -> str:
        return f"{const.value!r}:{const.dtype}"

    def expr(self, root: Expr, depth: int, lets: dict[int, str]) -> str:
        """The text of an expression; what is used more than once is named first, on lines of its own."""
        done: dict[int, str] = {}
        for expr in walk_exprs((root,)):
            if id(expr) in lets:
                done[id(expr)] = lets[id(expr)]
                continue
            text = self.node(expr, done)
            if self.uses[id(expr)] > 1 and isinstance(expr, Apply | Load):
                name = lets[id(expr)] = self.fresh("%")
                self.line(depth, f"{name} = {text}")
                text = name
            done[id(expr)] = text
        return done[id(root)]

    def node(self, expr: Expr, done: dict[int, str]) -> str:
        if isinstance(expr, Const):
            return self.literal(expr)
        if isinstance(expr, Ref):
            return self.refs[id(expr)]
        if isinstance(expr, Index):
            return f"index({self.dim(expr.expr)}):{expr.dtype}"
        if isinstance(expr, Load):
            bindings = ""
            for symbol, value in expr.bound:
                self.symbols.setdefault(symbol, self.fresh("v"))
                bindings += f" with {self.symbols[symbol]} = {done[id(value)]}"
            text = f"{self.buffers[id(expr.buffer)]}[{self.dim(expr.index)}{bindings}]"
            if expr.mask is not None and expr.other is not None:
                text += f" where {done[id(expr.mask)]} else {done[id(expr.other)]}"
            return text
        args = ", ".join(done[id(a)] for a in expr.args)
        suffix = f":{expr.dtype}" if expr.fn is Scalar.CAST else ""
        return f"{expr.fn.text}({args}){suffix}"
