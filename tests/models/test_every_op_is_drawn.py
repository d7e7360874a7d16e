"""Random programs leave no op out: each is what some step of theirs comes down to."""

from __future__ import annotations

import contextlib
import functools
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.ir.builder import Builder
from dyn.ir.core import Op
from dyn.ops import OWN_OPS
from dyn.trace.function import LeafSpec, trace_function
from dyn.trace.tracer import Tracer
from tests.models import random_ops
from tests.models.random_programs import FAMILIES, NAMES, REFUSALS, Chooser

#: Ops that no program may have before it is compiled, and why.
LEFT_OUT = {
    "from_panels": "a pass makes it, of weights that never change",
    "view_as_real": "a pass makes it, of complex numbers that lie in memory",
}
#: Named like the steps of a program: bodies have names of their own.
_POOL = (
    ("v0", "float32", ("n", "m")), ("v1", "float64", ("n",)), ("v2", "int32", ("n",)), ("v3", "bool", ("n", "m")),
    ("v4", "complex64", ("m",)), ("v5", "float32", ()), ("v6", "uint32", ("m", "n")), ("v7", "int64", ()),
)  # fmt: skip


def test_every_op_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {op.name for op in OWN_OPS} - LEFT_OUT.keys()
    append = Builder.append

    def noted(self: Builder, op: Op) -> Any:
        missing.discard(op.opdef.name)
        return append(self, op)

    monkeypatch.setattr(Builder, "append", noted)

    def draw(random: Random, tracers: list[Tracer], *, first: bool) -> Any:
        pool = dict(zip([name for name, _, _ in _POOL], tracers, strict=True))
        c = Chooser(random, pool, [])
        drawn = [step(c) for family in FAMILIES for step in family]
        if first:
            drawn += [text for family in random_ops.FAMILIES for step in family for text in step.all(c)]
        for text in drawn:
            if text is not None:
                try:
                    eval(text, {**NAMES, **pool})
                except REFUSALS:
                    continue
        return tracers[0]

    leaves = [LeafSpec(name, dtypes.dtype(dtype), axes) for name, dtype, axes in _POOL]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(200):
            random = Random(seed)
            drawn = functools.partial(draw, random, first=seed < 2)
            with contextlib.suppress(ShapeError):  # steps that no sizes are for together: they are drawn all the same
                trace_function(drawn, "drawn", leaves)
            if not missing:
                break
    assert not missing, "no step draws these ops: give them one in tests/models/random_ops.py"
