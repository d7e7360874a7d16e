"""Programs of many variables, which are read by one operation and assigned by one function."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.errors import ShapeError
from dyn.interop.tf.internals import context, resource_variable_ops
from tests.interop.tf.comparing import tf


class Many(tf.Module):
    """Variables of many dtypes and shapes, all of which a step assigns."""

    def __init__(self) -> None:
        super().__init__()
        self.floats = [tf.Variable(tf.fill([n, 3], float(n))) for n in range(8)]
        self.number = tf.Variable(2.0)
        self.count = tf.Variable(0, dtype=tf.int64)
        self.flag = tf.Variable([True, False])
        self.half = tf.Variable(tf.ones([5], tf.bfloat16))
        self.large = tf.Variable(tf.ones([100, 17]))
        self.open = tf.Variable(tf.zeros([2]), shape=tf.TensorShape([None]))

    def step(self, x: Any) -> Any:
        for one in self.floats:
            one.assign_add(tf.fill(tf.shape(one), tf.reduce_sum(x)))
        self.number.assign(self.number * 2.0)
        self.count.assign_add(1)
        self.flag.assign(~self.flag)
        self.half.assign(self.half + 1)
        self.large.assign(self.large + tf.reduce_max(x))
        self.open.assign(x)
        return self.number + 1.0

    def values(self) -> list[Any]:
        rest = [self.number, self.count, self.flag, self.half, self.large, self.open]
        return [one.numpy().copy() for one in [*self.floats, *rest]]


def test_all_are_assigned_as_tensorflow_assigns_them() -> None:
    own, theirs = Many(), Many()
    compiled = dtf.jit(own.step, strict=True)
    for n in (2, 5, 1, 5, 3):
        x = tf.constant(np.arange(n, dtype=np.float32))
        before = [one.read_value() for one in own.floats]
        kept = [one.numpy().copy() for one in before]
        np.testing.assert_array_equal(compiled(x), theirs.step(x))
        for one, other in zip(own.values(), theirs.values(), strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(before, kept, strict=True):  # what was read stays what it was
            np.testing.assert_array_equal(one.numpy(), other)
        for module in (own, theirs):  # TensorFlow's own assignments in between
            module.large.assign_sub(tf.ones([100, 17]))
            module.floats[2].assign(tf.zeros([2, 3]))
    assert compiled.cache_info().compiles == 1


def test_variables_and_tensors_without_axes_are_read_natively() -> None:
    """TensorFlow gives NumPy scalars for them, which the native entry does not read: each call went through Python."""
    number = tf.Variable(2.0)
    half = tf.Variable(tf.ones([], tf.bfloat16))

    @dtf.jit(strict=True)
    def step(x: Any) -> Any:
        number.assign_add(x)
        half.assign(half + 1)
        return number * 2.0

    for n in range(5):
        assert float(step(tf.constant(float(n)))) == 2 * (2 + sum(range(n + 1)))
    assert float(half) == 6
    (program,) = [one for version in step.programs for one in version.programs]
    assert program.function._native_hits() == 4


def test_variables_that_are_copied_when_they_are_read() -> None:
    """A sparse update has TensorFlow write to a variable's memory in place, and copy it for whoever reads it."""
    variables = [tf.Variable(tf.ones([6, 4])) for _ in range(6)]

    @dtf.jit
    def doubled() -> Any:
        for one in variables:
            one.assign(one * 2.0)
        return [one + 0.0 for one in variables]

    for turn in range(3):
        for one in variables:
            one.scatter_add(tf.IndexedSlices(tf.ones([1, 4]), [turn]))
        wanted = [one.numpy() * 2 for one in variables]
        for one, made, other in zip(variables, doubled(), wanted, strict=True):
            np.testing.assert_array_equal(made, other)
            np.testing.assert_array_equal(one.numpy(), other)


def test_gradients_of_many_variables() -> None:
    weights = [tf.Variable(np.random.default_rng(n).normal(size=(3, 3)).astype(np.float32)) for n in range(7)]

    def function(x: Any) -> Any:
        for one in weights:
            x = tf.tanh(x @ one)
        return x

    compiled = dtf.jit(function, strict=True)
    for n in (2, 1, 0, 5):
        x = tf.ones((n, 3))
        found: list[Any] = []
        for call in (compiled, function):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as tape:
                    y = tf.reduce_sum(call(x) ** 2)
                grads = tape.gradient(y, weights)
                total = tf.add_n([tf.reduce_sum(one**2) for one in grads])
            found.append([*grads, *outer.gradient(total, [*weights, x])])
        for own, other in zip(*found, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


def test_threads_assign_many_variables() -> None:
    module = [tf.Variable(tf.zeros([4])) for _ in range(8)]

    @dtf.jit
    def step(x: Any) -> Any:
        for one in module:
            one.assign(x + tf.zeros([4]))
        return x * 2.0

    def run(value: float) -> None:
        for _ in range(20):
            assert float(step(tf.constant(value))) == value * 2

    threads = [threading.Thread(target=run, args=(float(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in module:
        assert set(one.numpy()) <= set(map(float, range(8)))


def test_functions_of_assignments_go_with_their_programs(collect_no_more: Any) -> None:
    variables = [tf.Variable(0.0) for _ in range(6)]

    def step(x: Any) -> None:
        for one in variables:
            one.assign_add(x)

    def names() -> list[str]:
        return [name for name in context.context().list_function_names() if name.startswith("__dyn_assign")]

    gc.collect()
    before = set(names())
    compiled = dtf.jit(step)
    compiled(tf.constant(2.0))
    compiled(tf.constant(3.0))
    assert len(set(names()) - before) == 1
    assert [float(one.numpy()) for one in variables] == [5.0] * 6
    del compiled
    gc.collect()
    assert set(names()) <= before


def test_a_variable_that_has_no_value() -> None:
    handle = resource_variable_ops.eager_safe_variable_handle(tf.ones(3), tf.TensorShape([3]), None, "empty", False)
    compiled = dtf.jit(lambda x: x + tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), strict=True)
    with pytest.raises(ShapeError, match="declared to be 3"):
        compiled(tf.ones(3))
    tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones(3))
    np.testing.assert_array_equal(compiled(tf.ones(3)), [2, 2, 2])


def test_what_is_assigned_has_the_variables_sizes() -> None:
    """One row is not spread over many: TensorFlow assigns values of the variable's own shape."""
    variable, changing = tf.Variable(tf.zeros((3, 2))), tf.Variable(tf.zeros((3, 2)), shape=[None, 2])
    for assign, value in ((variable.assign, 1), (variable.assign_add, 2), (changing.assign_sub, -1)):
        compiled = dtf.jit(lambda x, assign=assign: assign(x).read_value(), strict=True)
        np.testing.assert_array_equal(compiled(tf.ones((3, 2))), np.full((3, 2), value))
        for rows in (1, 0, 4):
            with pytest.raises(ShapeError):
                compiled(tf.ones((rows, 2)))
    compiled = dtf.jit(lambda x: changing.assign(x).read_value(), strict=True)
    for rows in (1, 0, 4):
        np.testing.assert_array_equal(compiled(tf.ones((rows, 2))), np.ones((rows, 2)))
        assert len(changing.numpy()) == rows


def test_variables_that_a_trace_creates_before_it_fails() -> None:
    """TensorFlow initializes what the first trace creates once that is done; the next attempt finds it created."""

    class Scaled(tf.Module):
        weights: Any = None

        def __call__(self, x: Any) -> Any:
            if self.weights is None:
                self.weights = tf.Variable(tf.fill([3], 2.0))
            return x * self.weights * sum(range(x.shape[-1]))

    compiled = dtf.jit(Scaled(), strict=True)
    for rows in (2, 0, 5):
        np.testing.assert_array_equal(compiled(tf.ones((rows, 3))), np.full((rows, 3), 6.0))
    assert compiled.cache_info().compiles == 1


def test_metrics_that_are_made_of_a_known_size_train_in_one_program() -> None:
    """The trace for open sizes fails once the optimizer has made its state."""
    given = tf.keras.Input((4,))
    model = tf.keras.Model(given, tf.keras.layers.Dense(1, activation="sigmoid")(given))
    metrics = [tf.keras.metrics.F1Score(threshold=0.5), tf.keras.metrics.R2Score()]
    model.compile("adam", "binary_crossentropy", metrics=metrics)
    compiled = dtf.jit(model.train_step, strict=True)
    for rows in (5, 2, 7):
        made = compiled((tf.ones((rows, 4)), tf.ones((rows, 1))))
        assert np.isfinite(float(made["loss"]))
    assert compiled.cache_info().compiles == 1


def test_a_variable_that_is_watched_though_it_is_not_trained() -> None:
    trained, watched = tf.Variable(3.0), tf.Variable(2.0, trainable=False)
    compiled = dtf.jit(lambda x: x * trained * watched**2, strict=True)
    with tf.GradientTape() as tape:
        made = compiled(tf.constant(1.0))
    assert [None if one is None else float(one) for one in tape.gradient(made, [trained, watched])] == [4.0, None]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(watched)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            made = compiled(tf.constant(1.0))
        found = tape.gradient(made, [trained, watched])
    assert [float(one) for one in found] == [4.0, 12.0]
    assert float(outer.gradient(found[1], watched)) == 6.0
