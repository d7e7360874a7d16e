"""Units: what multiplies and adds the elements of a tile. A target's table has a row for each that it has."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record


@record()
class Unit:
    """An instruction that adds the products of ``group`` neighbours along the contracted axis to each accumulator.

    It takes them as words of 32 bits, of elements of a dtype for each operand: ``words``; and adds in one of ``sums``,
    a vector of ``vector_bytes`` at once. With ``rows`` an accumulator is a register of so many such vectors, and
    ``steps`` words along the contracted axis are multiplied at once: a tile register.
    With ``signs_left`` the left operand's are signed where the instruction takes unsigned ones: they are made 128
    greater, and what that adds to each column is taken off at the end. ``swapped``, it takes the right operand first.
    """

    name: str
    feature: str
    words: tuple[DType, DType]
    group: int
    sums: tuple[DType, ...] = (dtypes.int32, dtypes.uint32)
    signs_left: bool = False
    swapped: bool = False
    vector_bytes: int = 64
    rows: int = 1
    steps: int = 1

    @property
    def text(self) -> str:
        """The part of a kernel's name that tells its kernels from others'."""
        return self.name + (".signed" if self.signs_left else ".swapped" if self.swapped else "")
