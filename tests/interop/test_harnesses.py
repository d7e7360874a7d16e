"""A sample of JAX's own examples, of every primitive; all of them are ``python -m tests.interop.harnesses``."""

from __future__ import annotations

import collections
import re

import pytest

from tests.interop.harnesses import example, harnesses
from tests.interop.outcomes import Outcome, judged

jax = pytest.importorskip("jax")
pytest.importorskip("absl")

#: Loops in loops: seconds for each to compile.
_SLOW = re.compile(r"igamma|regularized_incomplete_beta|random_gamma|200_200|lhs_float32_14_15")
#: The examples of a primitive that are taken, and of the few that have many forms.
_FEW, _MANY = 2, 6
_FORMS = ("scatter", "scatter_add", "gather", "dot_general", "conv_general_dilated", "pad", "reduce_window_add", "svd")


def sample() -> list[str]:
    """Examples of each primitive, as far from each other in JAX's order as can be."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for name, harness in harnesses().items():
        groups[harness.group_name].append(name)
    chosen: list[str] = []
    for group, names in groups.items():
        quick = [n for n in names if not _SLOW.search(n)]
        count = min(_MANY if group in _FORMS else _FEW, len(quick))
        chosen += [quick[i * len(quick) // count] for i in range(count)]
    return chosen


SAMPLE = sample()


@pytest.mark.parametrize("name", SAMPLE)
def test_examples(name: str) -> None:
    with jax.enable_x64(True):
        harness = harnesses()[name]
        kind, reason = example(harness, only_read=False)
    assert judged(Outcome(harness.group_name, name, kind, reason))[0] in ("passed", "gap", "not exported"), reason
