"""The families of targets, each with what renders, builds and loads its code: the only place that knows them by name.

Rooms above ask for the family of a target, and never which one it is. A new family is one more entry of ``FAMILIES``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dyn.backends.base import ObjectBackend, RenderedKernel
from dyn.backends.loading import loading
from dyn.backends.x86 import X86Backend
from dyn.backends.x86 import host_target as x86_host_target
from dyn.errors import NotYetError
from dyn.schedule.target import Target

if TYPE_CHECKING:
    from dyn.schedule.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Family:
    """A family of targets.

    ``render`` writes a kernel's text for a target. ``backend`` builds texts and loads what it has built. The host
    program and the native entry are code for this machine whatever the kernels are for: ``host_backend()``.
    """

    render: Callable[[Kernel, Target], RenderedKernel]
    backend: Callable[[Target], ObjectBackend]


@functools.cache
def _x86_emitter() -> Callable[[Kernel, Target], RenderedKernel]:
    with loading():  # a process that finds its objects does without
        from dyn.lower.x86.emit import emit_kernel

    return emit_kernel


def _render_x86(kernel: Kernel, target: Target) -> RenderedKernel:
    return _x86_emitter()(kernel, target)


#: By ``Target.family``.
FAMILIES: Mapping[str, Family] = {"x86": Family(_render_x86, X86Backend)}


def family_of(target: Target) -> Family:
    """The family of a target. Raises NotYetError for one whose programs cannot be run yet."""
    found = FAMILIES.get(target.family)
    if found is None:
        raise NotYetError(
            f"programs for {target} are not compiled yet.", remedy="compile for this machine's processor."
        )
    return found


def host_target() -> Target:
    """This machine's processor, or the one that the setting ``target_cpu`` names."""
    return x86_host_target()


def host_backend() -> ObjectBackend:
    """The backend of code that runs on this machine's processor: host programs, the runtime, the native entry."""
    target = host_target()
    return family_of(target).backend(target)
