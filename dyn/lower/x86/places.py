"""Places in memory of the lanes of an access, and vectors that are loaded from them and stored to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dyn.dtypes import DType
from dyn.lower.x86.llvm_text import VType, constant
from dyn.shapes import Dim, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: So many bytes before they are read masked loads are asked for, and loads of short runs: places of a window, of which
#: others are read between.
_AHEAD, AHEAD_OF_RUNS = 1024, 2048


class LanePlaces:
    """Places of an access's lanes: ``step`` 1 is one vector, -1 one that is reversed, one of ``steps`` every
    so-manieth element, None is anywhere. Plain vectors are asked for so many bytes ``ahead``. ``in_order`` says that
    later iterations read what lies behind."""

    ahead = 0
    in_order = True

    def __init__(
        self, em: KernelEmitter, dtype: DType, pointer: str, index: Dim, steps: tuple[int, ...] = (),
        in_order: bool = True,
    ) -> None:  # fmt: skip
        lanes, indices = em.lanes, em.indices
        self.in_order = in_order
        self.fn, self.lanes, self.size = em.fn, lanes, dtype.itemsize
        elem = em.memory(dtype).elem
        linear = None
        if not isinstance(index, int) and indices.vectors.keys().isdisjoint(index.symbols):
            linear = linear_in(index, lanes.symbol)
        self.step = linear[0] if linear is not None and linear[0] in (1, -1, *steps) else None
        if self.step is not None:
            address = indices.address(pointer, elem, index)
            self.pointer, self.depth, self.index = address.parts[0], address.depth, None
            return
        uniform, varying = indices.split(index)
        address, self.index = indices.address(pointer, elem, uniform), indices.vector(varying)
        self.pointer, self.depth = address.parts[0], max(address.depth, self.index.depth)

    @classmethod
    def neighbours(cls, em: KernelEmitter, dtype: DType, pointer: str, depth: int, ahead: int = 0) -> LanePlaces:
        """Places next to each other from a pointer on."""
        place = cls.__new__(cls)
        place.fn, place.lanes, place.size = em.fn, em.lanes, dtype.itemsize
        place.step, place.pointer, place.depth, place.index, place.ahead = 1, pointer, depth, None, ahead
        return place

    def _part(self, u: int) -> str:
        first = u * self.lanes.width if self.step == 1 else -(u + 1) * self.lanes.width + 1
        return self.fn.gep("i8", self.pointer, str(first * self.size))

    def _reverse(self, ty: VType, vector: str) -> str:
        return self.fn.shuffle(ty, vector, "poison", range(ty.lanes - 1, -1, -1))

    def load(self, u: int, ty: VType, mask: str | None, other: str | None) -> str:
        fn = self.fn
        if self.index is not None:
            every = mask if mask is not None else constant(True, ty.of("i1"))
            return fn.gather(
                ty, self.pointer, self.index.parts[u], self.size, every, other if other is not None else zero(ty)
            )
        if self.step not in (1, -1):
            return self._picked(u, ty, mask, other)
        if self.step == -1:
            if mask is not None:
                mask = self._reverse(ty.of("i1"), mask)
            if other is not None:
                other = self._reverse(ty, other)
        part_at = self._part(u)
        if mask is None:
            if self.ahead:
                fn.prefetch(fn.gep("i8", part_at, str(self.ahead)))
            part = fn.load(ty, part_at, self.size)
        else:
            self._ask_ahead(part_at)
            part = fn.masked_load(ty, part_at, self.size, mask, other if other is not None else zero(ty))
        return part if self.step == 1 else self._reverse(ty, part)

    def _ask_ahead(self, part: str) -> None:
        """Ask for what a masked load some vectors further on will read: prefetchers follow no masked loads."""
        if not self.in_order:
            return
        self.fn.prefetch(self.fn.gep("i8", part, str(_AHEAD if self.step != -1 else -_AHEAD)))

    def _picked(self, u: int, ty: VType, mask: str | None, other: str | None) -> str:
        """Every ``step``-th element of as many vectors. Only what is picked is read: the rest may not be there."""
        fn, step, w = self.fn, self.step, self.lanes.width
        assert isinstance(step, int)
        bits = ty.of("i1")
        picked = [lane * step % w for lane in range(w)]
        result = ""
        for number in range(step):
            places = range(number * w, (number + 1) * w)
            if mask is None:
                flags = ", ".join(f"i1 {'false' if at % step else 'true'}" for at in places)
                wanted = f"<{flags}>"
            else:
                wanted = fn.shuffle(bits, mask, "zeroinitializer", [w if at % step else at // step for at in places])
            first = self.fn.gep("i8", self.pointer, str((u * step + number) * w * self.size))
            self._ask_ahead(first)
            part = fn.masked_load(ty, first, self.size, wanted, zero(ty))
            if not result:
                result = part
                continue
            # Lanes before come from what is picked so far, the first time by their own places in the first vector.
            own = [lane * step // w == number for lane in range(w)]
            before = picked if number == 1 else list(range(w))
            chosen = [w + lane * step % w if o else b for lane, (o, b) in enumerate(zip(own, before, strict=True))]
            result = fn.shuffle(ty, result, part, chosen)
        if mask is None or other is None:
            return result
        return fn.select(mask, ty, result, other)

    def store_all(self, ty: VType, parts: Sequence[str], masks: Sequence[str] | None) -> None:
        """Store the vectors of all lanes."""
        for u, part in enumerate(parts):
            self.store(u, ty, part, masks[u] if masks is not None else None)

    def stream_all(self, ty: VType, parts: Sequence[str]) -> None:
        """Store the vectors of all lanes past the caches: neighbours, each at a multiple of its bytes or of a line."""
        for u, part in enumerate(parts):
            self.fn.store_past_caches(ty, part, self._part(u), min(ty.bits * ty.lanes // 8, 64))

    def store(self, u: int, ty: VType, value: str, mask: str | None) -> None:
        fn = self.fn
        if self.index is not None:
            every = mask if mask is not None else constant(True, ty.of("i1"))
            fn.scatter(ty, value, self.pointer, self.index.parts[u], self.size, every)
            return
        if self.step == -1:
            value = self._reverse(ty, value)
            if mask is not None:
                mask = self._reverse(ty.of("i1"), mask)
        if mask is None:
            fn.store(ty, value, self._part(u), self.size)
        else:
            part = self._part(u)
            fn.prefetch(fn.gep("i8", part, str(_AHEAD if self.step != -1 else -_AHEAD)), write=True)
            fn.masked_store(ty, value, part, self.size, mask)


def zero(ty: VType) -> str:
    """The constant 0 of a type."""
    return "zeroinitializer" if ty.lanes > 1 else constant(0, ty)
