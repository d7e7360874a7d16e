"""Each operation that has a converter, against TensorFlow: values, and gradients where it has them.

Samples of the same inputs share a program here; ``make tensorflow-operations`` gives each one a program of its own.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from dyn.interop.tf.converter_registry import OPERATIONS
from tests.interop.tf.grid import check_samples
from tests.interop.tf.operations import ELSEWHERE, SAMPLES, Sample, names

#: So many samples share a program.
MOST = 14


def _groups() -> dict[str, list[Sample]]:
    """Samples that share a program, by a name."""
    alike: dict[tuple[object, ...], list[Sample]] = defaultdict(list)
    for sample in SAMPLES:
        alike[sample.inputs, sample.sizes, sample.is_differentiated].append(sample)
    made: dict[str, list[Sample]] = {}
    for (inputs, sizes, is_differentiated), samples in alike.items():
        for start in range(0, len(samples), MOST):
            what = f"{inputs}, {'gradients' if is_differentiated else 'values'} at {sizes}, {start // MOST}"
            made[what] = samples[start : start + MOST]
    return made


GROUPS = _groups()


@pytest.mark.parametrize("name", GROUPS)
def test_operations(name: str) -> None:
    check_samples(GROUPS[name])


def test_each_converter_has_a_sample() -> None:
    known = names(SAMPLES) | ELSEWHERE
    assert sorted({*OPERATIONS.converters, *OPERATIONS.folds} - known) == []
    assert sorted(known - {*OPERATIONS.converters, *OPERATIONS.folds}) == []
