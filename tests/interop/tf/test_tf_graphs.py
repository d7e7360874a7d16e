"""Compiled functions in graphs that TensorFlow runs, and derivatives of any order."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
import dyn.numpy as dnp
from tests.interop.tf.comparing import alike, tf

_rng = np.random.default_rng(0)
SHAPES = ((3, 4), (1, 4), (0, 4), (5, 4))


def normal(*shape: int) -> Any:
    return tf.constant(_rng.normal(size=shape).astype(np.float32))


def first(called: Callable[..., Any], x: Any, *sources: Any) -> Any:
    """The results of a function, and its gradients."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = called(x)
        loss = tf.reduce_sum(made * tf.sin(made))
    return made, tape.gradient(loss, [x, *sources])


def second(called: Callable[..., Any], x: Any, *sources: Any) -> Any:
    """Gradients of gradients."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        total = tf.add_n([tf.reduce_sum(one**2) for one in first(called, x, *sources)[1]])
    return outer.gradient(total, [x, *sources])


def test_derivatives_of_any_order() -> None:
    weights = tf.Variable(normal(4, 2))

    def function(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, weights)) ** 2

    compiled = dtf.jit(function, strict=True)
    for shape in SHAPES:
        x = normal(*shape)
        alike(second(compiled, x, weights), second(function, x, weights), 1e-4)
    x = tf.constant([0.3, -0.7])
    cube, results = dtf.jit(lambda x: tf.sin(x) ** 3, strict=True), []
    for called in (cube, lambda x: tf.sin(x) ** 3):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as middle:
                middle.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = called(x)
                y = inner.gradient(y, x)
            y = middle.gradient(y, x)
        results.append(outer.gradient(y, x))
    alike(results[0], results[1], 1e-4)


def test_a_variable_that_changes_between_a_call_and_its_gradients() -> None:
    weights, results = tf.Variable(2.0), []
    for called in (dtf.jit(lambda x: weights * x**3), lambda x: weights * x**3):
        weights.assign(2.0)
        x = tf.constant(3.0)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = called(x)
            weights.assign(100.0)
            found = inner.gradient(y, x)
        results.append((found, outer.gradient(found, x)))
    alike(*results)


def test_jacobians_by_one_persistent_tape() -> None:
    x, results = normal(3, 2), []
    for called in (dtf.jit(lambda x: tf.tanh(x) * x), lambda x: tf.tanh(x) * x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = called(x)
            loss = tf.reduce_sum(y)
        jacobian = tape.jacobian(y, x, experimental_use_pfor=False)
        results.append((tape.gradient(loss, x), tape.gradient(y, x), jacobian))
    alike(*results)


def test_in_a_tf_function() -> None:
    weights, count = tf.Variable(normal(4, 2)), tf.Variable(0)

    def function(x: Any) -> Any:
        count.assign_add(1)
        return tf.nn.relu(tf.matmul(x, weights)) + tf.cast(count, tf.float32)

    compiled = dtf.jit(function, strict=True)
    for run in (first, second):
        outer = tf.function(lambda x, run=run: run(compiled, x, weights), reduce_retracing=True)
        for shape in SHAPES:
            count.assign(0)
            wanted = run(function, x := normal(*shape), weights)
            count.assign(0)
            alike(outer(x), wanted, 1e-4)
            assert int(count) == 1
    assert "a call inside of a tf.function is a tf.numpy_function" in str(compiled.explain())
    # A tape around the outer function, which assigns between two calls.
    results: list[Any] = []
    for called in (compiled, function):

        def twice(x: Any, called: Any = called) -> Any:
            made = called(x)
            count.assign(10)
            return made * called(x)

        count.assign(0)
        weights.assign(tf.ones((4, 2)))
        results.append((first(tf.function(twice), tf.ones((2, 4)), weights), int(count)))
    alike(*results)


def test_sizes_that_the_outer_graph_knows_stay_known() -> None:
    compiled = dtf.jit(lambda x: {"wide": tf.concat([x, x], 1), "rows": tf.shape(x)[0]})
    outer = tf.function(compiled).get_concrete_function(tf.TensorSpec([None, 3]))
    assert outer.structured_outputs["wide"].shape.as_list() == [None, 6]
    assert outer.structured_outputs["rows"].shape.rank == 0


def test_draws_are_the_same_in_a_call_and_its_gradient() -> None:
    compiled = dtf.jit(lambda x: tf.nn.dropout(x, 0.5) * x, strict=True)

    @tf.function
    def outer(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        return y, tape.gradient(y, x)

    y, slope = outer(tf.ones(100))
    alike(slope, y * 2)
    assert 0 < float(tf.reduce_mean(y)) < 2
    again, _ = outer(tf.ones(100))
    assert not np.array_equal(again, y)


def test_in_a_pipeline_of_data() -> None:
    compiled = dtf.jit(lambda x: (x * 2, tf.reduce_sum(x, 1)), strict=True)
    data = tf.data.Dataset.from_tensor_slices(np.arange(14, dtype=np.float32).reshape(7, 2))
    data = data.batch(3).map(compiled, num_parallel_calls=2)
    assert data.element_spec[0].shape.as_list() == [None, 2]
    made = [(one.numpy(), two.numpy()) for one, two in data]
    assert [len(one) for one, _ in made] == [3, 3, 1]
    np.testing.assert_array_equal(made[2][0], [[24.0, 26.0]])
    assert compiled.cache_info().compiles == 1


def test_in_a_replica() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        weights = tf.Variable([1.0, 2.0])
    compiled = dtf.jit(lambda x: weights * x, strict=True)

    @tf.function
    def step(x: Any) -> Any:
        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(compiled(x) ** 2)
            slope = tape.gradient(loss, weights)
            weights.assign_sub(0.1 * slope)
            return loss

        return strategy.run(replica, args=(x,))

    losses = [float(step(tf.constant([1.0, 1.0]))) for _ in range(2)]
    np.testing.assert_allclose(losses, [5.0, 3.2], rtol=1e-6)


def test_where_a_call_has_to_be_a_part_of_the_graph() -> None:
    compiled = dtf.jit(lambda x: x + 1)
    alike(tf.function(lambda x: compiled(x) * 2, jit_compile=True)(tf.ones(3)), tf.ones(3) * 4)
    assert "jit_compile=True" in str(compiled.explain())
    inner = dtf.jit(lambda x: x + 1, strict=True)
    outer = dtf.jit(lambda x: inner(x) * 2, strict=True)
    alike(outer(tf.ones(3)), tf.ones(3) * 4)
    assert inner.cache_info().compiles == 0
    model = tf.keras.Sequential([tf.keras.Input((None, 2)), tf.keras.layers.Lambda(compiled)])
    alike(model(tf.ones((1, 3, 2))), tf.ones((1, 3, 2)) + 1)

    @tf.function
    def closes_over(x: Any) -> Any:
        here = x * 2
        return dtf.jit(lambda y: y + here)(x)

    with pytest.warns(dtf.FallbackWarning, match="runs in TensorFlow"):
        alike(closes_over(tf.ones(3)), tf.ones(3) * 3)


def test_functions_of_dyn_in_graphs_and_twice_differentiated() -> None:
    called = dtf.call(lambda x: dnp.tanh(x) ** 2)
    for shape in SHAPES:
        x = normal(*shape)
        wanted = second(lambda x: tf.tanh(x) ** 2, x)
        alike(second(called, x), wanted, 1e-4)
        alike(tf.function(lambda x: second(called, x))(x), wanted, 1e-4)
    mixed = tf.function(dtf.call(lambda x: {"a": x + 1, "n": dnp.argmax(x, axis=1)}))
    concrete = mixed.get_concrete_function(tf.TensorSpec([None, 4]))
    assert concrete.structured_outputs["a"].shape.as_list() == [None, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alike(mixed(tf.ones((2, 4)))["n"], tf.zeros(2, tf.int64))
