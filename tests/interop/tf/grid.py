"""Samples of operations against TensorFlow, and the whole grid: ``python -m tests.interop.tf.grid [NAME ...]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import dyn.interop.tf as dtf
from tests.interop.tf.comparing import alike, tf
from tests.interop.tf.operations import INPUTS, SAMPLES, Sample


def _gradients(called: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Results of a call, and the gradients of a sum of their squares by arguments that have them."""
    sources = [arg for arg in args if arg.dtype.is_floating or arg.dtype.is_complex]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        made = called(*args)
        floats = [one for one in tf.nest.flatten(made) if one.dtype.is_floating or one.dtype.is_complex]
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.abs(tf.cast(one, _wide(one.dtype))))) for one in floats])
    found = tape.gradient(loss, sources, unconnected_gradients="zero")
    return made, [tf.convert_to_tensor(one) for one in found]


def _wide(dtype: Any) -> Any:
    return dtype if dtype.is_complex else tf.float32


def check_samples(samples: Sequence[Sample]) -> None:
    """Assert that samples of the same inputs give TensorFlow's values, and gradients, by one program for all sizes."""

    @tf.autograph.experimental.do_not_convert  # the table's lambdas have no lines of their own
    def run(*args: Any) -> Any:
        return [sample.run(*args) for sample in samples]

    def theirs(*args: Any) -> Any:
        return [(sample.theirs or sample.run)(*args) for sample in samples]

    compiled, first = dtf.jit(run, strict=True), samples[0]
    tolerance = max(sample.tolerance for sample in samples)
    for n in first.sizes:
        args = INPUTS[first.inputs](n)
        if not first.is_differentiated or not any(arg.dtype.is_floating or arg.dtype.is_complex for arg in args):
            alike(compiled(*args), theirs(*args), tolerance, f"size {n}")
            continue
        made, wanted = _gradients(compiled, args), _gradients(theirs, args)
        alike(made[0], wanted[0], tolerance, f"size {n}")
        for one, other in zip(made[1], wanted[1], strict=True):
            scale = 1 + (float(tf.reduce_max(tf.abs(other))) if tf.size(other) else 0.0)
            alike(one, other, tolerance * scale, f"the gradient at size {n}")
    assert compiled.cache_info().compiles == 1


def main(asked: Sequence[str]) -> int:
    """Each sample by itself; the number of those that differ."""
    samples = [one for one in SAMPLES if not asked or set(one.name.split()) & set(asked)]
    failed = 0
    for sample in samples:
        try:
            check_samples([sample])
        except Exception as error:
            failed += 1
            text = "\n  ".join(str(error).strip().splitlines()[:12])
            print(f"{sample.name} of {sample.inputs}: {type(error).__name__}\n  {text}", flush=True)
    print(f"{len(samples)} samples, {failed} failed.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
