"""The families of targets, a record each: its limits and schedules, and what renders, compiles and loads its code.

Rooms above ask for the family of a target, and never which one it is. A new family is one more entry of ``FAMILIES``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dyn.backends.base import Backend, Compiler, ObjectBackend, RenderedKernel
from dyn.backends.cuda import CudaBackend
from dyn.backends.rocm import RocmBackend
from dyn.backends.x86 import X86Backend, target_for
from dyn.backends.x86 import host_target as x86_host_target
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.frozen import record
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import parse_device
from dyn.runtime.driver import context_of
from dyn.runtime.loading import load_modules
from dyn.schedule.target import Target

if TYPE_CHECKING:
    from dyn.dtypes import DType
    from dyn.schedule.families import Schedules
    from dyn.schedule.kernel import Kernel
    from dyn.shapes import Dim


@record()
class TargetFamily:
    """A family of targets.

    ``schedules()`` are its limits and its table of schedules by class of nest. ``render`` writes a kernel's text for a
    target, and says what a launch of it takes (:class:`dyn.backends.base.RenderedKernel`); ``scratch`` says how many
    bytes of scratch that will be. ``compiler`` makes a binary
    of it, on machines too that have no such device. ``backend`` builds the texts of programs and loads what it has
    built, kernels of GPUs into the device of a number. The host program and the native entry are code for this machine
    whatever the kernels are for: ``host_backend()``. ``on_device`` says that buffers are in a device's memory.
    """

    schedules: Callable[[], Schedules]
    render: Callable[[Kernel, Target], RenderedKernel]
    scratch: Callable[[Kernel, Target], Dim]
    compiler: Callable[[Target], Backend]
    backend: Callable[[Target, int], ObjectBackend]
    on_device: bool = False
    #: Whether texts begin with the kernel's note, which equal kernels of other groups have another one of.
    has_notes: bool = False
    #: The columns of a panel in which a right operand that never changes is kept, and the rows of a step, by the dtypes
    #: of both operands and of the sums, and how many columns it has; None where it is read as it lies.
    panel_layout: Callable[[Target, DType, DType, DType, int], tuple[int, int] | None] = lambda *operands: None
    #: Regular expression of its members' names. Which of them there are is for its compiler to say.
    members: str = r".+"


@functools.cache
def _x86_emitter() -> tuple[Callable[[Kernel, Target], RenderedKernel], Callable[[Kernel, Target], Dim]]:
    load_modules("dyn.lower.x86.emit")  # a process that finds its objects does without
    from dyn.lower.x86.emit import emit_kernel, scratch_bytes

    return emit_kernel, scratch_bytes


def _render_x86(kernel: Kernel, target: Target) -> RenderedKernel:
    return _x86_emitter()[0](kernel, target)


def _scratch_gpu(kernel: Kernel, target: Target) -> Dim:
    return _render_gpu(kernel, target).scratch_bytes


def _scratch_x86(kernel: Kernel, target: Target) -> Dim:
    return _x86_emitter()[1](kernel, target)


def _panel_layout_x86(
    target: Target, lhs: DType, rhs: DType, acc: DType, columns: int
) -> tuple[int, int] | None:  # fmt: skip
    load_modules("dyn.schedule.x86.panels")  # programs without weights do without
    from dyn.schedule.x86.panels import panel_layout

    return panel_layout(target, lhs, rhs, acc, columns)


def _schedules_of(name: str) -> Callable[[], Schedules]:
    def schedules() -> Schedules:
        load_modules("dyn.schedule.families")  # a process that finds its objects does without
        from dyn.schedule.families import SCHEDULES

        return SCHEDULES[name]

    return schedules


def _render_gpu(kernel: Kernel, target: Target) -> RenderedKernel:
    import_whole("dyn.lower.gpu.emit")
    from dyn.lower.gpu.emit import emit_kernel

    return emit_kernel(kernel, target)


def _on_gpu(compiler: Callable[[Target], Compiler]) -> Callable[[Target, int], ObjectBackend]:
    def backend(target: Target, ordinal: int) -> ObjectBackend:
        import_whole("dyn.backends.gpu", "dyn.backends.host_and_device")
        from dyn.backends.gpu import GpuBackend
        from dyn.backends.host_and_device import PlacedBackend

        return PlacedBackend(GpuBackend(compiler(target), ordinal), host_backend())

    return backend


def _gpu_family(name: str, compiler: Callable[[Target], Compiler], members: str) -> TargetFamily:
    backend = _on_gpu(compiler)
    return TargetFamily(
        _schedules_of(name), _render_gpu, _scratch_gpu, compiler, backend, on_device=True, has_notes=True,
        members=members,
    )  # fmt: skip


#: By ``Target.family``.
FAMILIES: Mapping[str, TargetFamily] = {
    "x86": TargetFamily(
        _schedules_of("x86"),
        _render_x86,
        _scratch_x86,
        X86Backend,
        lambda target, _: X86Backend(target),
        panel_layout=_panel_layout_x86,
    ),
    "cuda": _gpu_family("cuda", CudaBackend, r"sm_\d+[af]?"),
    "rocm": _gpu_family("rocm", RocmBackend, r"gfx[0-9a-f]+(:\w+[+-])*"),
}


def family_of(target: Target) -> TargetFamily:
    """The family of a target. Raises UnsupportedOpError for a target of none."""
    found = FAMILIES.get(target.family)
    if found is None:
        raise UnsupportedOpError(f"{target} is of no family.", remedy=f"use one of {', '.join(FAMILIES)}.")
    return found


def host_target() -> Target:
    """This machine's processor, or the one that the setting ``target_cpu`` names."""
    return x86_host_target()


def host_backend() -> ObjectBackend:
    """The backend of code that runs on this machine's processor: host programs, the runtime, the native entry."""
    target = host_target()
    return family_of(target).backend(target, 0)


@record()
class Placement:
    """A device that a program is for: a target, and the number of the device among those of its family."""

    target: Target
    ordinal: int = 0

    @property
    def on_device(self) -> bool:
        """Whether its buffers are in a device's memory."""
        return family_of(self.target).on_device


def placement_of(device: str | None) -> Placement:
    """The placement of a device by its name, ``"cuda:1"``; None and ``"cpu"`` are this machine's processor.

    ArgumentError for a name of no device, BackendUnavailableError where the device is not there.
    """
    parsed = None if device is None else parse_device(device)
    if parsed is None:
        return Placement(host_target())
    family, ordinal = parsed
    return Placement(gpu_target(family, context_of(family, ordinal).device.arch), ordinal)


def parse_target(text: str) -> Target:
    """The target of a text, ``"cuda:sm_90a"``, ``"rocm:gfx90a"``, ``"x86:x86-64-v3"``. ArgumentError for any other."""
    family, _, arch = text.partition(":")
    if family not in FAMILIES or not re.fullmatch(FAMILIES[family].members, arch):
        raise ArgumentError(
            f"{text!r} is no target.",
            remedy='use a family and one of its members, as "cuda:sm_90a", "rocm:gfx90a" or "x86:x86-64-v3".',
        )
    return target_for(arch) if family == "x86" else gpu_target(family, arch)


def gpu_target(family: str, arch: str) -> Target:
    """The target of a GPU's architecture."""
    import_whole("dyn.lower.gpu.dialect")
    from dyn.lower.gpu.dialect import gpu_target

    return gpu_target(family, arch)
