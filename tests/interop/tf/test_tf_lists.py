"""``tf.TensorArray`` and loops whose sizes change: rows of lengths of their own, and what is left to TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from tests.interop.tf.comparing import alike, check, tf

PAIRS = [(tf.range(float(a)), 10 + tf.range(float(b))) for a, b in ((2, 3), (3, 2), (4, 4), (0, 3), (1, 0))]


def array(size: int, **options: Any) -> Any:
    return tf.TensorArray(tf.float32, size, infer_shape=False, **options)


def test_rows_of_unequal_lengths() -> None:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        rows = array(3, element_shape=[None]).write(0, x).write(2, y).write(1, x[:1])
        grown = array(0, dynamic_size=True).write(0, x).write(1, y).write(2, x + 1)
        parts = array(2).split(tf.concat([x, y], 0), [tf.shape(x)[0], tf.shape(y)[0]])
        return (
            rows.concat(),
            rows.read(2) * 2,
            rows.read(0),
            grown.concat(),
            grown.size(),
            parts.read(1),
            parts.concat(),
        )

    check(f, PAIRS)


def test_gradients_of_rows() -> None:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            rows = array(3).write(0, x).write(2, y * y).write(1, x * 2)
            made = tf.reduce_sum(rows.concat() ** 2) + tf.reduce_sum(rows.read(2))
        return made, tape.gradient(made, [x, y])

    check(f, PAIRS)
    compiled = dtf.jit(lambda x, y: array(2).write(0, x).write(1, y).concat(), strict=True)
    for x, y in PAIRS:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            made = tf.reduce_sum(compiled(x, y) ** 2)
        alike(tape.gradient(made, [x, y]), [2 * x, 2 * y])


def test_rows_of_one_shape_are_one_array() -> None:
    @tf.function
    def f(x: Any, k: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 3).write(0, x).write(1, x * 2).write(2, x + 1)
        total = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.reduce_sum(rows.read(i))), [0, 0.0])[1]
        return rows.stack(), rows.read(k), rows.gather([2, 0]), total

    check(f, [(tf.range(float(n)), tf.constant(k)) for n, k in ((2, 0), (5, 2), (0, 1))])


def test_rows_at_a_place_that_is_computed() -> None:
    @tf.function
    def f(x: Any, y: Any, k: Any) -> Any:
        return array(2).write(0, x).write(1, y).read(k)

    check(f, [(x, y, tf.constant(k)) for x, y in PAIRS for k in (0, 1)])


def test_rows_that_do_not_fit() -> None:
    compiled = dtf.jit(lambda x, y: array(2).write(0, x).write(1, y).stack(), strict=True)
    alike(compiled(tf.ones(3), tf.ones(3)), tf.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"x_0 == y_0 is required, but x_0 is 3 and y_0 is 2"):
        compiled(tf.ones(3), tf.ones(2))
    for place in (2, -1):
        with pytest.raises(ShapeError, match=f"element {place} of a list of 2 elements"):
            dtf.jit(lambda x, place=place: array(2).write(place, x).concat(), strict=True)(tf.ones(3))


def test_a_list_that_a_loop_over_a_size_fills() -> None:
    @tf.function
    def f(x: Any) -> Any:
        count = tf.shape(x)[0]
        _, made = tf.while_loop(
            lambda i, rows: i < count, lambda i, rows: (i + 1, rows.write(i, x[i] * 2)),
            [0, tf.TensorArray(tf.float32, count)],
        )  # fmt: skip
        return made.stack()

    check(f, [(tf.range(float(n)),) for n in (1, 3, 0, 5)])


def grows(x: Any) -> Any:
    return tf.while_loop(
        lambda i, c: i < 2, lambda i, c: (i + 1, tf.concat([c, c + 1], 0)), [0, x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )[1] * 2  # fmt: skip


def appends(x: Any) -> Any:
    made = tf.zeros([0])
    for i in tf.range(tf.shape(x)[0]):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(made, tf.TensorShape([None]))])
        made = tf.concat([made, x[:i]], 0)
    return made * 2


def ragged(x: Any) -> Any:
    count = tf.shape(x)[0]
    rows = array(count, element_shape=[None])
    return tf.while_loop(lambda i, _: i < count, lambda i, one: (i + 1, one.write(i, x[: i + 1])), [0, rows])[
        1
    ].concat()


@pytest.mark.parametrize("function", [grows, appends])
def test_loops_whose_state_grows(function: Any) -> None:
    check(tf.function(function), [(tf.range(float(n)),) for n in (3, 0, 1, 5)])


@pytest.mark.parametrize(
    ("function", "said"),
    [(ragged, "a list that a loop fills with tensors of the size bound, which each step finds out")],
)
def test_loops_whose_sizes_change_are_said_to_be_tensorflows(function: Any, said: str) -> None:
    compiled, graph = dtf.jit(function), tf.function(function, reduce_retracing=True)
    with pytest.warns(dtf.FallbackWarning, match=said):
        alike(compiled(tf.range(3.0)), graph(tf.range(3.0)))
    for n in (1, 5):
        alike(compiled(tf.range(float(n))), graph(tf.range(float(n))))
    with pytest.raises((NotYetError, UnsupportedOpError), match=said):
        dtf.jit(function, strict=True)(tf.range(3.0))


def test_states_of_two_sizes_that_are_one_in_this_call() -> None:
    def f(x: Any, y: Any) -> Any:
        return tf.while_loop(lambda i, c: i < 2, lambda i, c: (i + 1, y + 1.0), [0, x])[1]

    compiled = dtf.jit(f)
    for n in (3, 5):
        alike(compiled(tf.zeros(n), tf.range(float(n))), tf.range(float(n)) + 1)
    assert compiled.cache_info().compiles == 1
    assert not compiled.fallbacks.said
    # As the state of another size than what it becomes, it is carried in room for both: by another program.
    np.testing.assert_array_equal(compiled(tf.zeros(2), tf.range(3.0)), [1, 2, 3])
    np.testing.assert_array_equal(compiled(tf.zeros(4), tf.range(2.0)), [1, 2])
    assert compiled.cache_info().compiles == 2
    assert not compiled.fallbacks.said
