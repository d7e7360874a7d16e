"""Updates, and the neighbours that an UNROLL loop loads and stores together.

A thread that goes through neighbours moves them in accesses of up to 16 bytes. Whether an address is a multiple of
that is asked where it is used, for an array may begin anywhere and rows may have any length: where it is not, the
elements are moved one by one. What is computed is the same, element by element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.lower.gpu.scalars import apply, c_type, cast, memory_type
from dyn.schedule.kernel import Apply, Buffer, Expr, Index, Load, Loop, Role, Store, Update, most_iterations
from dyn.schedule.kernel_walks import stmt_exprs, walk_exprs
from dyn.shapes import Dim, Symbol, floordiv, free_symbols, linear_in, substitute

if TYPE_CHECKING:
    from dyn.lower.gpu.emit import Emitter

#: The name of a block's shared memory, and the bytes that all in it begins at a multiple of.
SHARED = "dyn_shared"
ALIGNMENT = 16
#: Loads that a thread which folds has asked for at a time; functions of each up to which the code is short; and those
#: of all, what combines states included, up to which states and elements fit into registers.
_LOADS_TOGETHER, _FEW_FUNCTIONS, _FUNCTIONS_TOGETHER = 16, 3, 100


def aligned(size: Dim) -> Dim:
    """A number of bytes, and what is left of its last ``ALIGNMENT``."""
    return floordiv(size + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT


def iterations_together(loop: Loop) -> int:
    """Iterations whose loads a thread asks for at a time, where a loop folds or scans what it reads: each waits for the
    one before it, and its load need not. 0 where that is left to the compiler."""
    if not (loop.folds or loop.carries) or loop.role is Role.UNROLL:
        return 0
    if loop.body and not (loop.carries and all(isinstance(stmt, Store) for stmt in loop.body)):
        return 0
    nodes = list(walk_exprs((*stmt_exprs(loop), *[value for stmt in loop.body for value in stmt_exprs(stmt)])))
    if loop.carries and any(isinstance(node, Load) and node.bound for node in nodes):
        return 0  # the place of a load may depend on what is carried
    loads, functions = (sum(isinstance(node, kind) for node in nodes) for kind in (Load, Apply))
    if loads == 0 or functions > _FEW_FUNCTIONS * loads:
        return 0
    combined = [node for fold in loop.folds for node in walk_exprs(fold.monoid.result)]
    functions += sum(isinstance(node, Apply) for node in combined)
    return min(_LOADS_TOGETHER // loads, _FUNCTIONS_TOGETHER // max(functions, 1))


def update(em: Emitter, stmt: Update) -> None:
    """Change an element where the mask says so. Narrow floats are combined in float32, and rounded each time."""
    for symbol, value in stmt.bound:
        em.symbols[symbol] = em.eval(value)
    head = "" if stmt.mask is None else f"if ({em.eval(stmt.mask)})"
    with em.braces(head):
        dtype = stmt.buffer.dtype
        of, place = memory_type(dtype), em.fresh("p")
        em.line(f"{of}* const {place} = {em.buffers[id(stmt.buffer)]} + ({em.dim(stmt.index)});")
        if stmt.state is not None:
            em.refs[id(stmt.state)] = em.fresh("o")
            em.line(f"const {c_type(dtype)} {em.refs[id(stmt.state)]} = *{place};")
        value = em.eval(stmt.value)
        if stmt.combine is not None:
            wide = dtype.wide
            old, new = (cast(dtype, wide, (text,)) for text in (f"(*{place})", value))
            names = em.fresh("o"), em.fresh("n")
            for name, text in zip(names, (old, new), strict=True):
                em.line(f"const {c_type(wide)} {name} = {text};")
            both = em.fresh("v")
            em.line(f"const {c_type(wide)} {both} = {apply(stmt.combine, wide, wide, names)};")
            value = cast(wide, dtype, (both,))
        em.line(f"*{place} = {value};")


def unroll_loop(em: Emitter, loop: Loop) -> None:
    """A loop in each thread: where it is as long as it may be, neighbours are loaded before and stored after it."""
    packs = _Packs(em, loop)
    most = most_iterations(loop.extent)
    if most is None or most & (most - 1) or not (packs.loads or packs.stores):
        em.serial_loop(loop)
        return
    em.start_folds(loop)
    extent = em.fresh("n")
    em.line(f"const long long {extent} = {em.dim(loop.extent)};")
    with em.braces(f"if ({extent} == {most})"):
        packs.whole(most)
    with em.braces("else"):
        em.iterations(loop, together=1)
    em.end_folds(loop)


class _Packs:
    """The accesses of an UNROLL loop that move neighbours."""

    def __init__(self, em: Emitter, loop: Loop) -> None:
        self.em, self.loop = em, loop
        self.loads: dict[int, Load] = {}
        self.stores: dict[int, Store] = {}
        for stmt in loop.body:
            if isinstance(stmt, Store) and self.is_contiguous(stmt.index):
                self.stores[id(stmt)] = stmt
        #: What is stored after the loop cannot be read in it.
        self.written = {id(stmt.buffer) for stmt in self.stores.values() if id(stmt.buffer) in em.scratch}
        for expr in walk_exprs((*stmt_exprs(loop), *[value for stmt in loop.body for value in stmt_exprs(stmt)])):
            if isinstance(expr, Load) and self.is_packed(expr):
                self.loads[id(expr)] = expr

    def is_contiguous(self, index: Dim) -> bool:
        linear = linear_in(index, self.loop.var)
        return linear is not None and linear[0] == 1

    def is_packed(self, load: Load) -> bool:
        if load.mask is not None or id(load.buffer) in self.written or not self.is_contiguous(load.index):
            return False
        return not any(_mentions(value, self.loop.var) for _, value in load.bound)

    def whole(self, most: int) -> None:
        """All iterations: reads, the loop, writes."""
        em, loop = self.em, self.loop
        for load in self.loads.values():
            for symbol, value in load.bound:
                em.symbols[symbol] = em.eval(value)
            name = self.declare(load.buffer, most)
            em.line(f"dyn_read({name}, {self.address(load.buffer, load.index)});")
            em.packs[id(load)] = name
        for store in self.stores.values():
            em.packs[id(store)] = self.declare(store.buffer, most)
        var = em.symbols[loop.var] = em.pack_index = em.fresh("u")
        em.line("#pragma unroll")
        with em.braces(f"for (int {var} = 0; {var} < {most}; ++{var})"):
            em.block_of(loop.body)
            em.fold(loop)
        for store in self.stores.values():
            em.line(f"dyn_write({self.address(store.buffer, store.index)}, {em.packs.pop(id(store))});")
        for key in self.loads:
            del em.packs[key]

    def declare(self, buffer: Buffer, most: int) -> str:
        name = self.em.fresh("p")
        self.em.line(f"dyn_pack<{memory_type(buffer.dtype)}, {most}> {name};")
        return name

    def address(self, buffer: Buffer, index: Dim) -> str:
        first = substitute(index, {self.loop.var: 0})
        return f"{self.em.buffers[id(buffer)]} + ({self.em.dim(first)})"


def _mentions(root: Expr, symbol: Symbol) -> bool:
    """Whether a value differs between the iterations of a loop over ``symbol``."""
    dims = [e.index if isinstance(e, Load) else e.expr for e in walk_exprs((root,)) if isinstance(e, Load | Index)]
    return any(symbol in free_symbols(dim) for dim in dims)
