"""Every op's samples, written as StableHLO and read again: the same results and the same symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import dyn
from dyn.backends.reference import run_reference
from dyn.errors import ShapeError
from dyn.interop.stablehlo import dump, load
from dyn.interop.stablehlo.codecs import CODECS
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.ops import OWN_OPS
from dyn.shapes import format_dim
from tests.interop.programs import NAMES, distinct, of_sample, retraced
from tests.rarely import rarely

pytest.importorskip("jaxlib")


def test_every_op_has_a_codec() -> None:
    assert CODECS.keys() == {op.name for op in OWN_OPS}


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [2, rarely(10)])
def test_samples_come_back(most: int, name: str, symbolic: bool) -> None:
    opdef = REGISTRY[name]
    for sample in list(distinct(opdef.samples()))[:most]:
        before = of_sample(opdef, sample, symbolic=symbolic)
        after = retraced(load(dump(before)), sample, symbolic=symbolic)
        wanted = run_reference(before.function, sample.operands)
        actual = run_reference(after.function, sample.operands)
        for x, y in zip(actual, wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x.astype(complex), y.astype(complex), rtol=2e-3, atol=1e-6, err_msg=f"{sample}")
        sizes = [[[format_dim(d) for d in v.shape] for v in f.function.results] for f in (before, after)]
        assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", sorted(n for n in NAMES if REGISTRY[n].kind is OpKind.INDEXED))
def test_bytecode_and_portable_artifacts_say_the_same(name: str) -> None:
    sample = next(iter(REGISTRY[name].samples()))
    traced = of_sample(REGISTRY[name], sample, symbolic=True)
    (wanted,) = run_reference(traced.function, sample.operands)
    for source in (dump(traced, format="bytecode"), dump(traced, version="1.0.0"), dump(traced, version=12)):
        assert isinstance(source, bytes)
        again = retraced(load(source), sample, symbolic=True)
        (actual,) = run_reference(again.function, sample.operands)
        np.testing.assert_array_equal(actual, wanted)


def test_a_size_that_broadcasts_with_a_number() -> None:
    """Tell whether the number is 1 is not asked again."""
    three = np.ones(3, np.float32)
    f = dyn.jit(lambda x: x + three)
    again = load(dump(f.trace(three)))
    for n in (1, 3):
        np.testing.assert_array_equal(again(np.ones(n, np.float32)), [2, 2, 2])
    with pytest.raises(ShapeError, match=r"^x_0 broadcasts with 3 is required, but x_0 is 2: x \+ three"):
        again(np.ones(2, np.float32))
