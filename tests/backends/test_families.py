"""Families of targets: what their records say."""

from __future__ import annotations

import pytest

from dyn.backends.families import FAMILIES, family_of, host_target
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.lower.gpu.dialect import gpu_target
from dyn.schedule.target import Target
from tests.lower import gpu_kernels

TARGETS = (host_target(), gpu_target("cuda", "sm_90a"), gpu_target("rocm", "gfx90a"), gpu_target("rocm", "gfx1100"))


def test_every_family_has_a_target_here() -> None:
    assert {target.family for target in TARGETS} == set(FAMILIES)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_a_launch_takes_is_within_limits(target: Target) -> None:
    family = family_of(target)
    limits = family.schedules().limits(target)
    text = family.render(gpu_kernels.teams(), target)
    assert limits.warp <= limits.threads
    assert text.threads == limits.threads
    assert limits.warp == max(target.warp, 1)
    assert family.compiler(target).target == target


def test_programs_for_gpus_are_not_run_yet() -> None:
    with pytest.raises(NotYetError) as error:
        family_of(TARGETS[1]).backend(TARGETS[1])
    assert str(error.value) == (
        "programs for cuda:sm_90a are not compiled yet.\n  help: compile for this machine's processor."
    )


def test_other_families_are_refused() -> None:
    with pytest.raises(UnsupportedOpError) as error:
        family_of(Target("abacus", "wood"))
    assert str(error.value) == "abacus:wood is of no family.\n  help: use one of x86, cuda, rocm."
