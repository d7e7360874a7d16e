"""Families of targets: what their records say."""

from __future__ import annotations

import pytest

from dyn.backends.families import FAMILIES, family_of, host_target, parse_target
from dyn.errors import ArgumentError, UnsupportedOpError
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


def test_backends_say_what_they_compile_for() -> None:
    for target in TARGETS:
        assert family_of(target).backend(target, 0).target == target
    assert [family_of(target).on_device for target in TARGETS] == [False, True, True, True]


def test_targets_by_name() -> None:
    assert [parse_target(str(target)) for target in TARGETS[1:]] == list(TARGETS[1:])
    assert parse_target("x86:x86-64-v3").vector_bytes == 32
    assert parse_target("rocm:gfx90a:sramecc+:xnack-").arch == "gfx90a:sramecc+:xnack-"


@pytest.mark.parametrize("text", ["sm_90a", "cuda", "cuda:", "cuda:gfx90a", "rocm:sm_90", "cuda:sm_90a,", "x86:"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_target(text)
    assert str(error.value) == (
        f"{text!r} is no target.\n"
        '  help: use a family and one of its members, as "cuda:sm_90a", "rocm:gfx90a" or "x86:x86-64-v3".'
    )


def test_other_families_are_refused() -> None:
    with pytest.raises(UnsupportedOpError) as error:
        family_of(Target("abacus", "wood"))
    assert str(error.value) == "abacus:wood is of no family.\n  help: use one of x86, cuda, rocm."
