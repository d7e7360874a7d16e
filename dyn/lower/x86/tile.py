"""The leaves of contractions: packs and multiplications, in the loops that ``dyn.schedule.x86.blocked`` makes.

What multiplies a tile is a function (``tile_kernels.py`` and its neighbours), chosen here by how a Multiply says that
its products are added. There is one for whole tiles, and lower and narrower ones for what is left over, which are
called through a pointer: a tail costs no second copy of the loops around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dyn.lower.x86.leaf_functions import LeafFunction, define
from dyn.lower.x86.tile_computed import multiply_computed
from dyn.lower.x86.tile_dot import Dot
from dyn.lower.x86.tile_ints import Ints
from dyn.lower.x86.tile_kernels import Micro, Operands, Rhs
from dyn.lower.x86.tile_pack import PackedBlock, Packer
from dyn.lower.x86.tile_registers import TileRegisters
from dyn.lower.x86.tile_stream import Stream
from dyn.lower.x86.tile_turned import Turned
from dyn.lower.x86.tile_words import WordPacker
from dyn.schedule.kernel import Algorithm, Expr, Load, Multiply, Pack, Space, known_factor, most_iterations
from dyn.schedule.strided import strided
from dyn.schedule.x86.blocking import blocking
from dyn.schedule.x86.units import unit_of
from dyn.shapes import Dim, Symbol

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: Heights of a tile over panels that lie in memory, where it is a low one: arithmetic may be all that few rows take.
_LOW_IN_PANELS = (2, 4)


def emit_pack(em: KernelEmitter, stmt: Pack) -> None:
    """Emit a pack in the open scope."""
    packer = Packer(em, stmt) if stmt.words is None else WordPacker(em, stmt, stmt.words)
    i, j, place = stmt.outer, stmt.inner, em.address(stmt.buffer, stmt.place)
    packer.pack(PackedBlock(em.dim(i.start), em.dim(j.start), em.dim(i.extent), em.dim(j.extent), place, stmt.stride))
    em.scopes.clobber()


def emit_multiply(em: KernelEmitter, stmt: Multiply) -> None:
    """Emit a multiplication in the open scope."""
    operands, acc = _operands(stmt), em.address(stmt.acc, stmt.place)
    rows, cols, depth = [em.dim(interval.extent) for interval in stmt.intervals]
    first = Ints(em.fn).test("ne", em.dim(stmt.first), "0")
    a, lda = _address(em, stmt, stmt.lhs), em.dim(_step(stmt.lhs, stmt.rows.var, stmt.red.var))
    if stmt.algorithm is Algorithm.COMPUTED:
        multiply_computed(em, stmt, operands, acc, first, (a, lda))
    else:
        b, panel = _address(em, stmt, stmt.rhs), "null"
        along, across = stmt.red.var, stmt.cols.var
        if stmt.algorithm in (Algorithm.DOTS, Algorithm.TURNED):
            along, across = across, along
        if stmt.algorithm is Algorithm.TURNED:
            panel = em.alloc_scratch(em.target.lanes(stmt.acc.dtype.itemsize) * em.target.vector_bytes)
        ldb = str(stmt.tile.columns) if stmt.tile.from_panels else em.dim(_step(stmt.rhs, along, across))
        if stmt.packed is not None:
            panel = em.address(stmt.packed.buffer, stmt.packed.place)
        if stmt.column_sums is not None:
            panel = em.address(stmt.column_sums.buffer, stmt.column_sums.place)
        em.fn.emit(
            f"call void {_kernel(em, stmt, operands, rows, cols)}(ptr {a}, i64 {lda}, i64 {rows}, ptr {b}, i64 {ldb}, "
            f"i64 {cols}, i64 {depth}, ptr {acc}, i1 {first}, ptr {panel})"
        )
    em.scopes.clobber()


def _operands(stmt: Multiply) -> Operands:
    """The dtypes that both operands are read in: words of a unit as if they were accumulators, but for those of a left
    operand that are read where it lies."""
    acc, lhs, rhs = stmt.acc.dtype, stmt.lhs.dtype, stmt.rhs.dtype
    if stmt.unit is None:
        return Operands(lhs, rhs, acc)
    assert isinstance(stmt.lhs, Load)
    return Operands(lhs if stmt.lhs.buffer.space is Space.GLOBAL else acc, acc, acc)


def _step(operand: Expr, slow: Symbol, fast: Symbol) -> Dim:
    """The distance of neighbours along an operand's slow axis."""
    found = strided(operand, slow, fast)
    assert found is not None, "what is multiplied lies there, or is packed"
    return found.slow


def _address(em: KernelEmitter, stmt: Multiply, operand: Expr) -> str:
    """The address of the first element of an operand that is read."""
    assert isinstance(operand, Load)
    with em.scope():
        for interval in stmt.intervals:
            em.bind(interval.var, em.dim(interval.start))
        return em.address(operand.buffer, operand.index)


def _kernel(em: KernelEmitter, stmt: Multiply, operands: Operands, rows: str, cols: str) -> str:
    """The function that multiplies, for what there is of a tile's rows and columns."""
    height, width, ints = stmt.tile.rows, stmt.tile.columns, Ints(em.fn)

    def named(leaf: LeafFunction) -> str:
        define(em, leaf)
        return f"@{leaf.name}"

    if stmt.algorithm is not Algorithm.TILE:
        return named(_few_rows(em, stmt, operands))
    lanes = em.target.lanes(stmt.acc.dtype.itemsize)
    few = ints.test("slt", cols, str(stmt.narrow + 1)) if stmt.narrow else ""
    if stmt.packed is not None:
        packing = named(_packing(em, stmt, operands, width // lanes))
        return ints.choose(few, named(_packing(em, stmt, operands, stmt.narrow // lanes)), packing) if few else packing
    narrow, most = stmt.narrow // lanes, most_iterations(stmt.cols.extent)
    vectors = narrow if narrow and most is not None and most <= stmt.narrow else -(-width // lanes)
    own = main = named(_tile(em, stmt, operands, height, vectors))
    if narrow and vectors != narrow:
        main = ints.choose(few, named(_tile(em, stmt, operands, height, narrow)), main)
    if known_factor(stmt.rows.extent) % height == 0:
        return main
    for low in reversed(_low_heights(stmt)):
        kernel = own if low == height else named(_tile(em, stmt, operands, low, vectors))
        main = ints.choose(ints.test("slt", rows, str(low + 1)), kernel, main)
    return main


def _low_heights(stmt: Multiply) -> list[int]:
    """Heights of a tile for the rows that are left over."""
    height = stmt.tile.rows
    if stmt.unit is not None and stmt.unit.rows > 1:  # registers of as many rows as there are
        return list(range(stmt.unit.rows, height, stmt.unit.rows))
    return [low for low in _LOW_IN_PANELS if low < height] if stmt.tile.from_panels else [max(height // 2, 1)]


def _few_rows(em: KernelEmitter, stmt: Multiply, operands: Operands) -> LeafFunction:
    """The function for a few rows and any number of columns."""
    target, height = em.target, stmt.tile.rows
    vec = em.register(stmt.acc.dtype, target.lanes(stmt.acc.dtype.itemsize))
    if stmt.algorithm is Algorithm.STREAM:
        unit = unit_of(target, operands.lhs, operands.rhs, operands.acc)
        # More rows of such operands are added by pairs of floats.
        by_pairs = unit is not None and operands.acc.is_float and not target.batch_invariant
        return Stream(vec, height, operands, target, by_pairs).leaf()
    assert isinstance(stmt.stride, int)
    kind = Turned if stmt.algorithm is Algorithm.TURNED else Dot
    return kind(vec, height, operands, target, stmt.stride).leaf()


def _micro(em: KernelEmitter, stmt: Multiply, operands: Operands, rows: int, vectors: int, rhs: Rhs) -> Micro:
    vec = em.register(stmt.acc.dtype, em.target.lanes(stmt.acc.dtype.itemsize))
    assert isinstance(stmt.stride, int)
    return Micro(vec, rows, vectors, stmt.stride, rhs, stmt.first != 1, 1, operands, em.target)


def _tile(em: KernelEmitter, stmt: Multiply, operands: Operands, rows: int, vectors: int) -> LeafFunction:
    """The function for a tile of so many rows and vectors of columns, of a panel."""
    if stmt.unit is not None and stmt.unit.rows > 1:
        vec = em.register(stmt.acc.dtype, em.target.lanes(stmt.acc.dtype.itemsize))
        assert isinstance(stmt.stride, int)
        return TileRegisters(vec, rows, vectors, stmt.stride, stmt.first != 1, operands, stmt.unit).leaf()
    own = blocking(em.target)
    unroll = own.unroll if rows == stmt.tile.rows else 1
    ragged = not (unroll > 1 and known_factor(stmt.red.extent) % unroll == 0)
    micro = _micro(em, stmt, operands, rows, vectors, Rhs.PACKED)
    takes = stmt.column_sums is not None and not stmt.column_sums.makes
    return replace(micro, unroll=unroll, ahead=own.ahead, ragged=ragged, unit=stmt.unit, takes_sums=takes).leaf()


def _packing(em: KernelEmitter, stmt: Multiply, operands: Operands, vectors: int) -> LeafFunction:
    """The function for a tile that packs the panel, or all of some panels, as it reads the right operand: so many
    vectors of columns."""
    panels, lanes = stmt.packed, em.target.lanes(stmt.acc.dtype.itemsize)
    assert panels is not None
    micro = _micro(em, stmt, operands, stmt.tile.rows, vectors, Rhs.PACKING)
    if panels.width < stmt.tile.columns:
        return replace(micro, panel=panels.width // lanes, apart=panels.panel_stride).leaf()
    return replace(micro, unroll=blocking(em.target).unroll).leaf()
