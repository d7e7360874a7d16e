"""The instructions of units that take words (``dyn.schedule.x86.units``)."""

from __future__ import annotations

from dyn.lower.x86.llvm_text import VType, constant, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import register
from dyn.schedule.units import Unit
from dyn.schedule.x86.words import FLIPPED

#: LLVM's names, by the unit and the bytes of a vector.
_INTRINSICS = {
    ("vpdpbusd", 64): "llvm.x86.avx512.vpdpbusd.512",
    ("vpdpbusd", 32): "llvm.x86.avx512.vpdpbusd.256",
    ("vpmaddwd", 64): "llvm.x86.avx512.pmaddw.d.512",
    ("vpmaddwd", 32): "llvm.x86.avx2.pmadd.wd",
    ("vdpbf16ps", 64): "llvm.x86.avx512bf16.dpbf16ps.512",
}


def add_products(m: Machine, unit: Unit, vec: VType, lhs: str, rhs: str, acc: str) -> str:
    """``acc`` and the products of a word of the left operand, in every lane, with words of the right one."""
    elem = "bfloat" if vec.is_float else register(unit.words[0]).elem
    part = vtype(elem, vec.lanes * unit.group)
    first, second = (rhs, lhs) if unit.swapped else (lhs, rhs)
    words = [(part, m.fn.cast("bitcast", vec, value, part)) for value in (first, second)]
    name = _INTRINSICS[unit.name, unit.vector_bytes]
    if unit.name != "vpmaddwd":
        return m.fn.call(name, vec, [(vec, acc), *words])
    return m.fn.op("add", vec, acc, m.fn.call(name, vec, words))


def add_offset(m: Machine, unit: Unit, vec: VType, rhs: str, acc: str) -> str:
    """``acc`` and what a step of a left operand that was made unsigned adds to each column too much."""
    return add_products(m, unit, vec, constant(FLIPPED, vec), rhs, acc)
