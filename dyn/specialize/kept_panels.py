"""Captured arrays in panels, which programs read in their place: computed once, shared by the programs that read them,
and gone with these or with the array."""

from __future__ import annotations

import contextlib
import math
import mmap
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.array import is_own
from dyn.fork_safety import lock
from dyn.hosts import JAX, host_of
from dyn.ir.core import Dense
from dyn.ops.panels import panel_shape
from dyn.trace.function import TracedFunction
from dyn.trace.held import Frozen, HeldBuffer

if TYPE_CHECKING:
    from dyn.passes.panel_weights import Panels

Array = np.ndarray[Any, Any]

#: Bytes of a huge page of Linux on x86.
_HUGE_PAGE = 2 << 20


def frozen_of(traced: TracedFunction, captured: Sequence[Any]) -> dict[int, Frozen]:
    """The captured arrays of a program, by number, that nothing changes, by what they are the memory of.

    A ``dyn.Array`` that is assigned to stands for other memory from then on, and JAX's arrays are immutable. A NumPy
    array may change between calls, whatever its flags say; PyTorch's and others are frozen where users say so.
    ``captured`` are the program's arrays, or :class:`HeldBuffer` of its own.
    """
    found = dict(traced.frozen)
    for number, one in enumerate(captured):
        if isinstance(one, HeldBuffer) or is_own(one):
            found[number] = Frozen(one.data if isinstance(one, HeldBuffer) else one._data)
        elif host_of(one) is JAX:
            found[number] = Frozen(one)
    return found


class KeptPanels:
    """The panels of this process, by the object whose memory they were computed from.

    They are held by the programs that read them alone: this table forgets what no program has.
    """

    def __init__(self) -> None:
        self._lock = lock()
        self._known: weakref.WeakValueDictionary[tuple[Any, ...], Array] = weakref.WeakValueDictionary()
        #: The object that each number which ``id`` gave was last the number of.
        self._owners: dict[int, weakref.ref[Any]] = {}

    def __len__(self) -> int:
        """The number of arrays that are kept."""
        return len(self._known)

    def get(self, frozen: Frozen, array: Array | Dense, panels: Panels) -> Array:
        """The panels of an array, which is the memory of something frozen, or of a constant, which is frozen itself.
        Who asks for the same at once waits."""
        number, lies = id(frozen.owner), None
        if not isinstance(array, Dense):
            lies = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        key = (number, frozen.stamp, lies, panels.views, panels.axes, panels.width, panels.group)
        with self._lock:
            known = self._owners.get(number)
            found = self._known.get(key) if known is not None and known() is frozen.owner else None
            if found is None:
                self._note(number, frozen.owner)
                found = self._known[key] = in_panels(array.array if isinstance(array, Dense) else array, panels)
            return found

    def _note(self, number: int, owner: Any) -> None:
        """Note whose number a number is; that of others, which are gone, has no panels any more."""
        known = self._owners.get(number)
        if known is None or known() is not owner:
            for old in [key for key in self._known if key[0] == number]:
                self._known.pop(old, None)  # the last program of it may end meanwhile
            self._owners = {n: one for n, one in self._owners.items() if one() is not None}
            self._owners[number] = weakref.ref(owner)


def in_panels(array: Array, panels: Panels) -> Array:
    """The matrices of an array in panels, as ``dyn.ops.panels`` says."""
    for name, argument in panels.views:
        array = array.reshape(argument) if name == "reshape" else array.transpose(argument)
    matrices = array.transpose(panels.axes)
    *batch, rows, columns = matrices.shape
    width, group = panels.width, panels.group
    made = _zeros(panel_shape(batch, rows, columns, width, group), array.dtype)
    whole = columns // width
    full = whole * width
    # Views alone, no padded copy: of a large weight that would be as much memory again.
    for number in range(group):
        own = matrices[..., number::group, :]
        count = own.shape[-2]
        cut = own[..., :full].reshape(*batch, count, whole, width)
        made[..., :whole, :count, :, number] = cut.swapaxes(-2, -3)
        made[..., whole:, :count, : columns - full, number] = own[..., None, :, full:]
    return made


def _zeros(shape: tuple[Any, ...], dtype: Any) -> Array:
    """An array of zeros, in huge pages where it is as large as one and Linux has them: a few rows read it at the
    memory's speed, and a walk for every 4 KiB takes up to half of that."""
    bytes = math.prod(shape) * np.dtype(dtype).itemsize
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if bytes < _HUGE_PAGE or advice is None:
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, bytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        memory.madvise(advice)
    address = np.frombuffer(memory, np.uint8, 1).__array_interface__["data"][0]
    return np.frombuffer(memory, dtype, math.prod(shape), -address % _HUGE_PAGE).reshape(shape)


def out_of_panels(made: Array, panels: Panels, shape: Sequence[int]) -> Array:
    """The array of a shape of which these are the panels."""
    shapes = [tuple(shape)]
    for name, argument in panels.views:
        before = shapes[-1]
        shapes.append(argument if name == "reshape" else tuple([before[axis] for axis in argument]))
    *batch, rows, columns = [shapes[-1][axis] for axis in panels.axes]
    array = np.empty((*batch, rows, columns), made.dtype)
    whole, group = columns // panels.width, panels.group
    full = whole * panels.width
    for number in range(group):
        own = array[..., number::group, :]
        count = own.shape[-2]
        for panel in range(whole):
            at = panel * panels.width
            own[..., at : at + panels.width] = made[..., panel, :count, :, number]
        if full < columns:
            own[..., full:] = made[..., whole, :count, : columns - full, number]
    array = array.transpose(np.argsort(panels.axes))
    for (name, argument), before in reversed(list(zip(panels.views, shapes, strict=False))):
        array = array.reshape(before) if name == "reshape" else array.transpose(np.argsort(argument))
    return np.ascontiguousarray(array)


PANELS = KeptPanels()
