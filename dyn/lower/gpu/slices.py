"""Layouts of an operand's slices in shared memory.

Elements lie step by step of the contracted axis, in each the elements along the operand's own axis; or, of an operand
that is copied as it lies in memory, element by element, in each its steps. A thread reads 16 bytes of either at a time:
of one step the elements that it has side by side, or of one element some steps.

Lines are padded so that neither who copies nor who multiplies meets other threads in a bank: a quarter of a warp's 16
bytes each lie in different ones.
"""

from __future__ import annotations

from dyn.frozen import record

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

    def place(self, element: str, step: str) -> str:
        """The place of an element's step; both are C++ expressions."""
        if not self.along_steps:
            return f"({step}) * {self.line} + ({element})"
        side = self.side_by_side
        if side == 1:
            return f"({element}) * {self.line} + ({step})"
        return f"({element}) / {side} * {self.line} + ({element}) % {side} * {self.depth} + ({step})"

    def own_place(self, thread: str, which: str, step: str) -> str:
        """The place of the ``which``-th of the elements that a thread has side by side; those of all threads have
        numbers."""
        if not self.along_steps:
            return f"({step}) * {self.line} + ({thread}) * {self.side_by_side} + ({which})"
        return f"({thread}) * {self.line} + ({which}) * {self.depth} + ({step})"
