"""Random programs of all public functions on the software GPU: compiled once, called at many sizes, as on the processor
(``tests/models``). ``--hypothesis-profile=thorough`` runs many more."""

from __future__ import annotations

import warnings
from random import Random

import hypothesis
import numpy as np
import pytest

import dyn
from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.errors import ShapeError
from tests.gpu.programs import Device
from tests.models.checked import Discard, _largest, discarding
from tests.models.noise import disagreement, noisy_runs
from tests.models.random_programs import LARGEST, REFUSALS, Program, make_program

_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
#: How many programs are compared on each kind of device; those that say nothing are left out.
COUNT = 400 if _THOROUGH else 6


def check_program(program: Program, device: Device) -> None:
    """Compile once for the device and compare at every size."""
    function, called = program.jitted(), 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            traced = function.trace(*program.data(program.calls[0])).traced
        except REFUSALS as error:
            raise Discard(f"{type(error).__name__}") from None
        for sizes in program.calls:
            arrays = [np.array(a, a.dtype.newbyteorder("="), order="C") for a in program.data(sizes)]
            given = [*arrays, *[np.asarray(a) for a in traced.captured]]
            if _largest(traced, given) > LARGEST:
                continue
            there = [dyn.device_put(array, device.name) for array in arrays]
            try:
                wanted, runs = run_reference(traced.function, given), noisy_runs(traced.function, given)
            except ShapeError:
                with pytest.raises(ShapeError):
                    function(*there)
                continue
            with discarding():
                found = function(*there)
            for number, (value, result) in enumerate(zip(wanted, found, strict=True)):
                assert result.device == device.name
                problem = disagreement(
                    result.to_numpy(), value, [run[number] for run in runs], dtypes.dtype(value.dtype)
                )
                assert not problem, f"result {number} at {sizes}: {problem}"
            called += 1
    if not called:
        raise Discard("no call")
    assert function.cache_info().compiles == 1


def test_programs_agree_with_the_reference(device: Device) -> None:
    compared, seed = 0, 0
    while compared < COUNT:
        seed += 1
        program = make_program(Random(f"{device.name} {seed}"), most=6)
        try:
            check_program(program, device)
        except Discard:
            continue
        except BaseException as error:
            error.add_note(f"seed {seed}:{program!r}")
            raise
        compared += 1
