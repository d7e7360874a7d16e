"""Programs of dyn in JAX: each op's samples, and programs that JAX calls at several shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.reference import run_reference
from dyn.errors import NotYetError
from dyn.interop.stablehlo.codecs import CODECS
from dyn.ir.opdef import REGISTRY, Sample
from dyn.ops.regions import monoid_of
from tests.interop.programs import NAMES, distinct, of_sample

jax = pytest.importorskip("jax")
from dyn.interop.jax import exported  # noqa: E402  # needs JAX

#: What only dyn runs: custom calls of its own and of its users, and sizes that a program measures.
OWN = {"measure", "custom_call"} | {
    name for name, codec in CODECS.items() if codec.form.startswith("custom_call: dyn.")
}


#: What XLA cannot refine: they are exported with sizes that are numbers alone.
STATIC = {"bitcast_regroup"}


def _in_any_order(name: str, sample: Sample) -> bool:
    """Tell whether a fold gives the same whichever way it goes: StableHLO leaves the order of a body open."""
    if not name.startswith("variadic"):
        return True
    (region,) = sample.regions
    return monoid_of(region) is not None


@pytest.mark.parametrize("name", sorted({*NAMES} - OWN))
def test_samples_run_in_jax(name: str) -> None:
    opdef = REGISTRY[name]
    samples = [s for s in distinct(opdef.samples()) if _in_any_order(name, s)]
    full = [s for s in samples if all(a.size for a in s.operands)]
    calls = [(s, False) for s in full[:3]] + [(s, True) for s in full[:1] if name not in STATIC]
    calls += [(s, False) for s in samples if not all(a.size for a in s.operands)][:1]
    for sample, symbolic in calls:
        traced = of_sample(opdef, sample, symbolic=symbolic)
        with jax.enable_x64(True):
            made = exported(traced).call(*sample.operands)
        actual = made if isinstance(made, tuple) else (made,)
        for x, y in zip(actual, run_reference(traced.function, sample.operands), strict=True):
            own = np.asarray(x)
            assert (own.dtype, own.shape) == (y.dtype, y.shape)
            rtol = 2e-2 if y.dtype.itemsize == 2 else 2e-5
            np.testing.assert_allclose(own.astype(complex), y.astype(complex), rtol, 1e-5, err_msg=f"{sample}")


@dyn.jit
def block(x: Any, w: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
    y = (e / dnp.sum(e, axis=-1, keepdims=True)) @ w
    return dnp.reshape(y, (-1,)), dnp.cumsum(x, axis=1), x[::2, 1:]


def test_one_module_serves_every_shape() -> None:
    once = exported(
        block.trace(dyn.ShapeDtypeStruct(("b", "s"), "float32"), dyn.ShapeDtypeStruct(("s", "n"), "float32"))
    )
    assert [str(a) for a in once.in_avals] == ["float32[b,s]", "float32[s,n]"]
    again = jax.export.deserialize(once.serialize())
    rng = np.random.default_rng(0)
    for b, s, n in ((3, 4, 5), (1, 1, 2), (7, 64, 1)):
        x, w = rng.random((b, s), np.float32), rng.random((s, n), np.float32)
        for run in (jax.jit(once.call), again.call):
            for actual, wanted in zip(run(x, w), block(x, w), strict=True):
                np.testing.assert_allclose(actual, wanted, 1e-5, 1e-6)


def test_sizes_that_depend_on_values_are_refused() -> None:
    traced = dyn.jit(lambda x: dnp.nonzero(x)[0], shapes="n").trace(np.ones(3))
    with pytest.raises(NotYetError) as refused:
        exported(traced)
    first, place, remedy = str(refused.value).splitlines()
    assert first == "count, a size that depends on values, has no form that XLA can refine."
    assert "test_jax_runs_dyn.py:" in place
    assert remedy == "  help: give the function a size of your own (size= of nonzero, unique and their kin)."


def test_bits_of_another_width_with_symbolic_sizes_are_refused() -> None:
    once = dyn.jit(lambda x: dyn.lax.bitcast_convert_type(x, np.uint8))
    with pytest.raises(NotYetError) as refused:
        exported(once.trace(dyn.ShapeDtypeStruct(("n",), "float32")))
    first, place, remedy = str(refused.value).splitlines()
    assert first == (
        "bits as numbers of another width, of an array with symbolic sizes, have no form that XLA can refine."
    )
    assert "test_jax_runs_dyn.py:" in place
    assert remedy == "  help: give the array sizes that are numbers."


def test_what_dyn_demands_of_sizes_jax_checks() -> None:
    once = exported(block.trace(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)))
    with pytest.raises(ValueError, match="refining shapes"):
        once.call(np.ones((2, 3), np.float32), np.ones((4, 4), np.float32))
