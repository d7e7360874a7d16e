"""Nested scopes of values, and code that is put into the outermost one possible.

A :class:`LoopScope` is a stretch of structured code, such as the body of a loop. Each has an ``entry`` chunk that lies
in its parent's code just before it: code for the parent that is wanted only once inside is written there. So a value
whose operands are known at depth ``d`` is computed at depth ``d``, in front of whatever encloses its use, and no
optimiser has to hoist it.

A scope may be *guarded*: control may pass it by. Arithmetic moves out of it all the same, for nothing here traps; a
load may not, for there may be nothing to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dyn.frozen import record
from dyn.lower.x86.llvm_text import Chunk, FunctionText, VType
from dyn.shapes import Symbol


@record()
class LaneValue:
    """A computed value: one scalar when uniform, ``Lanes.unroll`` vectors when varying.

    ``depth`` is that of the scope it is known in. A *volatile* value read memory that the kernel also writes.
    """

    ty: VType
    parts: tuple[str, ...]
    depth: int
    varying: bool = False
    volatile: bool = False


@record()
class Lanes:
    """A super-vector of iterations of one symbol: ``unroll`` vectors of ``width`` lanes, next to each other.

    Lane ``k`` of vector ``u`` is ``symbol == base + u*width + k``. ``masks`` holds an ``<width x i1>`` for each vector
    that says which lanes exist; None when all do.
    """

    symbol: Symbol
    width: int
    unroll: int
    #: The name of an i64: the symbol's value in the first lane.
    base: str
    masks: tuple[str, ...] | None = None
    #: In the last vector of a LANE loop, whose mask says so too, the name of an i64: how many lanes exist, or more.
    left: str = ""


@dataclass(slots=True, eq=False)
class LoopScope:
    """One level of nesting. ``floor`` is the depth of the innermost guarded scope: loads stay at or below it."""

    depth: int
    entry: Chunk
    floor: int
    lanes: Lanes | None
    #: The depth at which ``lanes`` was bound; varying values are never shallower.
    lanes_depth: int
    values: dict[object, LaneValue] = field(default_factory=dict[object, LaneValue])
    #: Values that a store may change; forgotten at each store to scratch.
    volatile: dict[object, LaneValue] = field(default_factory=dict[object, LaneValue])
    symbols: list[Symbol] = field(default_factory=list[Symbol])


class Scopes:
    """The stack of open scopes of a function."""

    def __init__(self, fn: FunctionText) -> None:
        self.fn = fn
        self.stack = [LoopScope(0, [], 0, None, 0)]
        self.top = self.stack[0]
        #: What each symbol in scope is: the depth, and its value as an i64 (in the first lane, for a lane symbol).
        self.symbols: dict[Symbol, tuple[int, str]] = {}

    def push(self, *, guarded: bool = False) -> LoopScope:
        """Open a scope at the current point."""
        top = self.top
        depth = top.depth + 1
        self.top = LoopScope(depth, self.fn.chunk(), depth if guarded else top.floor, top.lanes, top.lanes_depth)
        self.stack.append(self.top)
        return self.top

    def pop(self) -> None:
        """Close the innermost scope; what was known in it is forgotten."""
        closed = self.stack.pop()
        for symbol in closed.symbols:
            self.symbols.pop(symbol, None)
        self.top = self.stack[-1]

    def chunk(self, depth: int) -> Chunk:
        """The chunk that code at a depth is written to now."""
        return self.fn.body if depth >= self.top.depth else self.stack[depth + 1].entry

    def bind(self, symbol: Symbol, value: str) -> None:
        """Give a symbol a uniform value for the rest of the scope."""
        self.symbols[symbol] = (self.top.depth, value)
        self.top.symbols.append(symbol)

    def bind_lanes(self, lanes: Lanes) -> None:
        """Make a symbol varying for the rest of the scope."""
        self.bind(lanes.symbol, lanes.base)
        self.top.lanes, self.top.lanes_depth = lanes, self.top.depth

    def find(self, key: object) -> LaneValue | None:
        """The value that was computed before under a key; None if it is not known here."""
        for scope in reversed(self.stack):
            found = scope.values.get(key)
            if found is not None:
                return found
            if scope.volatile:
                found = scope.volatile.get(key)
                if found is not None:
                    return found
        return None

    def keep(self, key: object, value: LaneValue) -> LaneValue:
        """Remember a value under a key, in the scope it was computed in."""
        scope = self.stack[value.depth]
        (scope.volatile if value.volatile else scope.values)[key] = value
        return value

    def forget(self, key: object) -> None:
        """A key stands for another value from now on."""
        for scope in self.stack:
            scope.values.pop(key, None)
            scope.volatile.pop(key, None)

    def clobber(self) -> None:
        """Scratch was written to: forget what was read from it."""
        for scope in self.stack:
            scope.volatile.clear()
