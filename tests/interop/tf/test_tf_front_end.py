"""TensorFlow's compiled functions have what those of every front end have."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

tf: Any = pytest.importorskip("tensorflow")

import dyn  # noqa: E402
import dyn.interop.tf as dtf  # noqa: E402
from tests.frontend.test_every_front_end import (  # noqa: E402
    FrontEnd,
    ones,
    test_cost_analysis,
    test_errors_name_arguments_as_users_do,
    test_explanations,
    test_many_programs_are_worth_a_word,
    test_signatures_are_those_of_what_is_compiled,
    test_stages_and_stablehlo,
    test_the_report_of_the_process,
    test_what_is_prepared_is_compiled_once,
)

__all__ = [
    "test_cost_analysis",
    "test_errors_name_arguments_as_users_do",
    "test_explanations",
    "test_many_programs_are_worth_a_word",
    "test_signatures_are_those_of_what_is_compiled",
    "test_stages_and_stablehlo",
    "test_the_report_of_the_process",
    "test_what_is_prepared_is_compiled_once",
]


@pytest.fixture
def front() -> FrontEnd:
    return FrontEnd(tf.constant, dtf.jit, tf.tanh, lambda x: x)


def test_on_new_shape_of_sizes_that_are_fixed() -> None:
    f = dtf.jit(lambda x: tf.stack([x[n] for n in range(x.shape[0])]), on_new_shape="error")
    np.testing.assert_array_equal(f(tf.ones(2)), [1, 1])
    with pytest.raises(dyn.errors.ShapeError, match="needs a second program for these arguments: it has one for"):
        f(tf.ones(3))


def test_a_model_is_prepared_by_specifications() -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    f = dtf.jit(model)
    f.prepare([(tf.TensorSpec((n, 4), tf.float32),) for n in (2, 5)])
    assert f.cache_info().compiles == 1
    np.testing.assert_allclose(f(ones(7, 4)), model(ones(7, 4)), rtol=1e-6)
    assert f.cache_info().compiles == 1
    assert "inputs.shape[0]" in str(f.explain())
    assert "stablehlo.dot_general" in f.lower(ones(2, 4)).as_text("stablehlo")


def test_models_are_no_methods_and_are_not_copied_as_functions() -> None:
    class Scaled(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable([2.0])

        def __call__(self, x: Any) -> Any:
            return x * self.w

    class Holder:
        net = dtf.jit(Scaled())
        double = dtf.jit(lambda self, x: x * 2)

    np.testing.assert_array_equal(Holder().net(tf.ones(2)), [2, 2])
    np.testing.assert_array_equal(Holder().double(tf.ones(2)), [2, 2])
    with pytest.raises(TypeError, match="copy the model, and compile the copy"):
        copy.deepcopy(Holder.net)


def test_lines_are_said_to_be_of_layers() -> None:
    keras = pytest.importorskip("keras")
    layers = [keras.layers.Dense(4, name="first"), keras.layers.Dense(2, name="last")]
    model = keras.Sequential([keras.Input((3,)), *layers], name="two")
    run = dtf.jit(model)
    run(tf.ones((2, 3)))
    text = str(run.explain())
    assert "(two" in text
    assert "first" in text
    with pytest.raises(dyn.errors.ShapeError, match="first"):
        run(tf.ones((2, 5)))


def test_replays_and_bisections() -> None:
    scale = tf.Variable([1.0, 2.0])
    compiled = dtf.jit(lambda x: tf.math.log(x) * scale)
    for rows in (1, 3):
        replay = compiled.replay(tf.zeros([rows, 2]))
        assert replay.stop is not None
        assert (replay.stop.cause, replay.stop.op) == ("infinity", "log")
        x = tf.ones([rows, 2])
        (result,) = replay.again(stop_at=()).result.results
        assert result.shape == (rows, 2)
        assert dyn.bisect(compiled, [x]).culprit is None
        compiled(x)
    assert compiled.cache_info().compiles == 1
