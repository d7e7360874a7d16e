"""``tf.vectorized_map`` and Jacobians: TensorFlow writes a loop's body for all of its steps at once."""

from __future__ import annotations

from typing import Any

import pytest

from dyn.errors import ShapeError
from tests.interop.tf.comparing import check, tf
from tests.interop.tf.operations import floats

SIZES = (3, 0, 1, 5)
ROWS = [(floats(n, 3, seed=n),) for n in SIZES]
SOME = [call for call in ROWS if call[0].shape[0]]


def squares(row: Any) -> Any:
    return tf.reduce_sum(row * row) + row


def products(row: Any) -> Any:
    matrix = tf.reshape(tf.range(6.0), (2, 3))
    return tf.linalg.matvec(matrix, row) * tf.gather(row, [1]) + tf.sort(row)[:2] + tf.nn.softmax(row)[1:]


def branches(row: Any) -> Any:
    return tf.cond(tf.reduce_sum(row) > 0, lambda: row * 2, lambda: row - 1)


def matrices(row: Any) -> Any:
    return tf.matmul(row[:, None], row[None]) + tf.reduce_max(row, keepdims=True)


@pytest.mark.parametrize("function", [squares, products, branches, matrices])
def test_vectorized_maps(function: Any) -> None:
    check(tf.function(lambda x: tf.vectorized_map(function, x)), ROWS)


def test_a_loop_of_as_many_steps_as_each_row_says() -> None:
    def steps(row: Any) -> Any:
        return tf.while_loop(
            lambda i, total: tf.reduce_sum(total) < 4.0, lambda i, total: (i + 1, total + 1.0), [0, row]
        )[1]

    # Of no rows TensorFlow has no shape for what it stacks.
    check(tf.function(lambda x: tf.vectorized_map(steps, x)), SOME)


def test_jacobians() -> None:
    layer = tf.keras.layers.Dense(4, activation="tanh")
    layer.build((None, 3))

    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            made = tf.reduce_sum(x**2, 1)
            sums = tf.reduce_sum(layer(x), 0)
        return tape.jacobian(made, x), tape.jacobian(sums, layer.trainable_variables)

    check(f, ROWS)


def test_hessians() -> None:
    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                made = tf.reduce_sum(tf.sin(x) * x)
            slope = inner.gradient(made, x)
        return outer.jacobian(slope, x)

    check(f, ROWS)


def test_jacobians_of_each_of_a_batch() -> None:
    layer = tf.keras.layers.Dense(4, activation="relu")
    layer.build((None, 3))

    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            made = tf.tanh(x @ tf.ones([3, 2])) * x[:, :1]
            other = layer(x)
        return tape.batch_jacobian(made, x), tape.batch_jacobian(other, x)

    compiled = check(f, SOME)
    # TensorFlow divides by the number of rows, too.
    with pytest.raises(ShapeError, match="x_0 != 0 is required, but x_0 is 0: a size is divided by it"):
        compiled(tf.ones((0, 3)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        f(tf.ones((0, 3)))
