"""The correctness parts of the check of a GPU (``scripts/gpu-check.sh``), on the software GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.gpu_check.checks import Check, Options
from benchmarks.gpu_check.outcomes import State, run_check
from benchmarks.gpu_check.parts import parts
from dyn import config
from tests.gpu.programs import Device

#: Models whose kernels other tests run there (``test_models.py``), or models that are left have: g++ would take a
#: minute for them.
ELSEWHERE = {"ASR", "seq2seq", "TTS", "Transformer", "BERT with a mask", "a step of training"}
CHECKS = [
    (part.name, check)
    for part in parts().values()
    if part.is_correctness
    for check in part.checks
    if check.name not in ELSEWHERE
]


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """As few kernels as there can be: g++ takes a second for some."""
    with config.override(variants="none"):
        yield


@pytest.mark.parametrize("check", [check for _, check in CHECKS], ids=[f"{part}/{c.name}" for part, c in CHECKS])
def test_check(cuda: Device, check: Check) -> None:
    outcome, goes_on = run_check(check, Options(cuda.name, (), small=True))
    if outcome.state is State.NOT_APPLICABLE:
        pytest.skip(outcome.message)
    assert (outcome.state, goes_on) == (State.PASSED, True), outcome.message
