"""Slices of a contraction's operands in shared memory: some elements along an operand's own axis, by some steps of the
contracted one.

A slice lies as its operand does in memory: steps apart, or elements. Either way a thread reads 16 bytes at a time: of
one step the elements that it has side by side, or of one element some steps.

Lines are padded so that neither the threads that copy nor those that multiply meet others in a bank: a quarter of a
warp's 16 bytes each lie in different ones.
"""

from __future__ import annotations

from dyn.frozen import record
from dyn.shapes import Dim, floordiv

#: Bytes that a thread takes from shared memory at a time.
ACCESS = 16


@record()
class SliceLayout:
    """Places of a slice of ``most`` elements by ``depth`` steps, in words of ``word`` bytes.

    ``side_by_side`` elements along the operand's own axis belong to one thread. ``along_steps``: the steps of an
    element lie side by side, rather than the elements of a step.
    """

    most: int
    depth: int
    word: int
    side_by_side: int
    along_steps: bool = False

    @property
    def access(self) -> int:
        """Words of an access."""
        return ACCESS // self.word

    @property
    def line(self) -> int:
        """Words from a step to the next one; or from the elements of a thread to the next thread's."""
        return self.access + (self.side_by_side * self.depth if self.along_steps else self.most)

    @property
    def size(self) -> int:
        """Words of a slice."""
        return self.line * (self.most // self.side_by_side if self.along_steps else self.depth)

    @property
    def stride(self) -> int:
        """Words from a row to the next one: steps, or elements, as they lie."""
        return self.depth if self.along_steps else self.line

    @property
    def pad(self) -> int:
        """Words that are free after the elements of a thread."""
        return self.access if self.along_steps else 0

    def place(self, element: Dim, step: Dim) -> Dim:
        """The place of an element's step."""
        if not self.along_steps:
            return step * self.line + element
        return element * self.depth + floordiv(element, self.side_by_side) * self.pad + step
