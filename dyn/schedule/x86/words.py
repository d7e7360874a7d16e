"""Contractions over words: a few neighbours along the contracted axis, side by side in 32 bits.

A contraction over ``k`` elements by a unit that takes them by ``g`` is one over ``⌈k / g⌉`` words: elements beyond
the last one are 0. The loops, panels and tiles around it are those of any other; what is packed are words, and what
multiplies and adds them is the unit's instruction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from dyn import dtypes
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Apply, Const, Expr, Index, Load, PackedWords, TileContract, known_factor
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.units import Unit
from dyn.shapes import as_dim, floordiv, substitute

#: The words of a vector of accumulators.
WORD = dtypes.uint32
#: Added to signed bytes where unsigned ones are multiplied: the same as flipping the upper bit of each.
FLIPPED = 0x80808080


def in_words(tile: TileContract, unit: Unit) -> TileContract:
    """The contraction over words: its operands are words, and its reduced dimension counts these."""
    lhs, rhs = [_words(words_of(tile, unit, number)) for number in (0, 1)]
    return replace(tile, lhs=lhs, rhs=rhs, red_extent=floordiv(tile.red_extent + (unit.group - 1), unit.group))


def words_of(tile: TileContract, unit: Unit, number: int) -> PackedWords:
    """The words that the left operand (number 0) or the right one (1) is multiplied in."""
    operand, flipped = (tile.rhs, False) if number else (tile.lhs, unit.signs_left)
    return PackedWords(operand, tile.red, tile.red_extent, unit.words[number], flipped)


def _words(words: PackedWords) -> Expr:
    """A word, for a value of the reduced dimension's symbol, which counts words."""
    bits = words.dtype.bits
    parts: list[Expr] = []
    for part in range(words.group):
        value = _element(words, part)
        if value.dtype.is_float:
            value = Apply(Scalar.BITCAST, (value,), dtypes.uint16)
        value = Apply(Scalar.CAST, (value,), WORD)
        value = Apply(Scalar.AND, (value, Const(WORD, (1 << bits) - 1)), WORD)
        parts.append(Apply(Scalar.SHL, (value, Const(WORD, bits * part)), WORD) if part else value)
    total = reduce(lambda a, b: Apply(Scalar.OR, (a, b), WORD), parts)
    return Apply(Scalar.XOR, (total, Const(WORD, FLIPPED)), WORD) if words.flipped else total


def _element(words: PackedWords, part: int) -> Expr:
    """An element of a word; 0 where there is none."""
    operand, place = words.elements, as_dim(words.red) * words.group + part
    change = {words.red: place}
    rewriter = Rewriter(lambda dim: substitute(dim, change))
    if known_factor(words.extent) % words.group == 0:
        return rewriter.expr(operand)
    exists = Apply(Scalar.LT, (Index(dtypes.int64, place), Index(dtypes.int64, words.extent)), dtypes.bool_)
    for load in [e for e in walk_exprs((operand,)) if isinstance(e, Load)]:
        mask, other = exists, Const(load.dtype, 0)
        if load.mask is not None:
            mask = Apply(Scalar.AND, (exists, rewriter.expr(load.mask)), dtypes.bool_)
            other = other if load.other is None else rewriter.expr(load.other)
        index, bound = rewriter.change(load.index), rewriter.bound(load.bound)
        rewriter.exprs[id(load)] = Load(load.buffer, index, bound, mask, other)
    found = rewriter.expr(operand)
    if isinstance(operand, Load) and operand.mask is None:
        return found
    return Apply(Scalar.SELECT, (exists, found, Const(operand.dtype, 0)), operand.dtype)
