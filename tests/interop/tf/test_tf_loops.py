"""Loops: those that a ``break`` ends, lists and arrays that grow in them, and gradients through all of these."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dyn.interop.tf as dtf
from dyn.errors import UnsupportedOpError
from tests.interop.tf.comparing import alike, check, tf
from tests.interop.tf.operations import floats

SIZES = (3, 0, 1, 5)
VECTORS = [(tf.range(float(n)),) for n in SIZES]
#: Without rows TensorFlow has no shape for what a list of none is stacked to.
MATRICES = [(floats(n, 3, seed=n),) for n in (3, 1, 5, 8)]


# ---- lists that grow -------------------------------------------------------------------------------------------------


def growing(**options: Any) -> Any:
    return tf.TensorArray(tf.float32, 0, dynamic_size=True, **options)


def breaks(x: Any) -> Any:
    rows = growing()
    for i in tf.range(tf.shape(x)[0]):
        if x[i] > 2.0:
            break
        rows = rows.write(i, x[i] * 2)
    return rows.stack()


def appends(x: Any) -> Any:
    rows = growing(element_shape=[])
    for i in tf.range(tf.shape(x)[0]):
        rows = rows.write(rows.size(), x[i] * 2)
    return rows.stack(), rows.size()


def selects(x: Any) -> Any:
    rows, count = growing(), 0
    for i in tf.range(tf.shape(x)[0]):
        if x[i] > 1.0:
            rows = rows.write(count, x[i] * 2)
            count += 1
    return rows.stack()


def halves(x: Any) -> Any:
    """As many steps as the values say."""
    rows, rest, i = growing(element_shape=[]), tf.constant(100.0), 0
    while rest > 1.0:
        rows = rows.write(i, rest)
        rest = rest / 2.0 - tf.reduce_sum(x)
        i += 1
    return rows.stack(), rest, i


def leaps(x: Any) -> Any:
    """Places that the values say, in a list that has elements before."""
    rows = growing(element_shape=[]).write(1, 7.0)
    for i in tf.range(tf.shape(x)[0]):
        rows = rows.write(tf.cast(x[i], tf.int32) * 2, x[i])
    return rows.stack(), rows.size()


def in_loops(x: Any) -> Any:
    rows, count = growing(element_shape=[]), tf.shape(x)[0]
    for i in tf.range(count):
        for j in tf.range(i):
            rows = rows.write(rows.size(), x[i] * x[j])
    return rows.stack()


def after_a_loop(x: Any) -> Any:
    rows = growing(element_shape=[])
    for i in tf.range(tf.shape(x)[0]):
        if x[i] != 1.0:
            rows = rows.write(rows.size(), x[i])
    rows = rows.write(rows.size(), 9.0)
    rows = rows.write(rows.size() + 2, 8.0)
    return rows.stack()


def two_lists(x: Any) -> Any:
    odd, even = growing(element_shape=[]), growing(element_shape=[])
    for i in tf.range(tf.shape(x)[0]):
        if i % 2 == 0:
            even = even.write(even.size(), x[i])
        else:
            odd = odd.write(odd.size(), x[i])
    return even.stack(), odd.stack()


def downwards(x: Any) -> Any:
    rows, sparse_rows = growing(element_shape=[]), growing(element_shape=[])
    for i in tf.range(tf.shape(x)[0] - 1, -1, -1):
        rows = rows.write(rows.size(), x[i])
    for i in tf.range(tf.shape(x)[0] - 1, -1, -2):
        sparse_rows = sparse_rows.write(i, x[i])
    return rows.stack(), sparse_rows.stack()


def from_one(x: Any) -> Any:
    rows, i = growing(element_shape=[]), 1
    while tf.shape(x)[0] >= i:
        rows = rows.write(i - 1, x[i - 1])
        i += 1
    return rows.stack(), i


def by_threes(x: Any) -> Any:
    rows, i = growing(element_shape=[]), 0
    while i <= tf.shape(x)[0] - 1:
        rows = rows.write(rows.size(), x[i])
        i += 3
    return rows.stack(), i


@pytest.mark.parametrize(
    ("function", "loops"),
    [
        (breaks, 1), (appends, 1), (selects, 1), (after_a_loop, 1), (two_lists, 1), (downwards, 2), (from_one, 1),
        (by_threes, 1), (halves, 2), (leaps, 2), (in_loops, 4),
    ],
)  # fmt: skip
def test_lists_that_grow(function: Any, loops: int) -> None:
    """A loop runs once for its sizes, and once more for its values, only where nothing says how long it runs."""
    compiled = check(tf.function(function), VECTORS)
    lowered = compiled.lower(tf.range(3.0)).as_text("dhlo")
    assert len(re.findall(r"= while\b", lowered)) == loops, lowered


def test_sums_that_are_read_again_while_the_list_grows() -> None:
    @tf.function
    def f(x: Any) -> Any:
        rows = growing(clear_after_read=False, element_shape=[3]).write(0, tf.reduce_sum(x, 0))
        for i in tf.range(tf.shape(x)[0]):
            rows = rows.write(i + 1, rows.read(i) + x[i])
        return rows.stack()

    check(f, [(floats(n, 3),) for n in SIZES])


def test_greedy_decoding() -> None:
    weights, table = floats(3, 4, seed=1), floats(4, 3, seed=2)

    @tf.function
    def f(x: Any) -> Any:
        state, tokens, last = tf.reduce_sum(x, 0), tf.TensorArray(tf.int32, 0, dynamic_size=True), tf.constant(0)
        for i in tf.range(10):
            state = tf.tanh(state + tf.gather(table, last))
            last = tf.argmax(tf.linalg.matvec(weights, state, transpose_a=True), output_type=tf.int32)
            tokens = tokens.write(i, last)
            if last == 3:
                break
        return tokens.stack()

    check(f, [(floats(n, 3, seed=n),) for n in SIZES])


def test_a_list_that_is_read_while_nothing_says_how_long_it_becomes() -> None:
    def f(x: Any) -> Any:
        rows, i = growing(clear_after_read=False, element_shape=[]).write(0, tf.reduce_sum(x)), 0
        while rows.read(i) > 1.0:
            rows = rows.write(i + 1, rows.read(i) / 2.0)
            i += 1
        return rows.stack()

    said = "elements read of a list that grows without a greatest length, in the loop that it grows in"
    compiled = dtf.jit(f)
    with pytest.warns(dtf.FallbackWarning, match=said):
        alike(compiled(tf.range(4.0)), tf.constant([6.0, 3.0, 1.5, 0.75]))
    with pytest.raises(UnsupportedOpError) as caught:
        dtf.jit(f, strict=True)(tf.range(4.0))
    assert str(caught.value) == (
        f"{said}.\n  in the operation while/TensorArrayV2Read/TensorListGetItem (TensorListGetItem) of TensorFlow's "
        "graph\n  help: give tf.while_loop maximum_iterations, or a tf.range to go over."
    )


# ---- arrays that grow ------------------------------------------------------------------------------------------------


def loop(step: Any, start: Any, steps: Any, *sizes: Any) -> Any:
    """The state after so many steps, whose sizes are left open as ``sizes`` says."""
    invariants = [tf.TensorShape([]), tf.TensorShape(list(sizes))]
    return tf.while_loop(lambda i, _: i < steps, lambda i, x: (i + 1, step(i, x)), [0, start], invariants)[1]


def decodes(x: Any) -> Any:
    """Words behind one another, until all rows are at their end."""
    weights = tf.reshape(tf.range(12.0), (3, 4))
    words = tf.zeros([tf.shape(x)[0], 1], tf.int32)
    for i in tf.range(5):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(words, tf.TensorShape([None, None]))])
        scores = tf.matmul(x, weights) * tf.cast(tf.reduce_sum(words, 1, keepdims=True) - i, tf.float32)
        word = tf.argmax(scores, -1, output_type=tf.int32)
        words = tf.concat([words, word[:, None]], 1)
        if tf.reduce_all(word == 0):
            break
    return words


def caches(x: Any) -> Any:
    """Two states that grow together, along axes of their own."""

    def step(i: Any, keys: Any, values: Any) -> Any:
        weights = tf.nn.softmax(tf.linalg.matvec(keys, x[i], transpose_a=True))
        return (
            i + 1,
            tf.concat([keys, x[i][:, None]], 1),
            tf.concat([values, tf.linalg.matvec(values, weights, True)[None]], 0),
        )

    start = [0, tf.ones([3, 1]), tf.ones([1, 3])]
    invariants = [tf.TensorShape([]), tf.TensorShape([3, None]), tf.TensorShape([None, 3])]
    return tf.while_loop(lambda i, k, v: i < tf.shape(x)[0], step, start, invariants)[1:]


def doubles(x: Any) -> Any:
    return loop(lambda i, one: tf.concat([one, one + 1], 0), x, 3, None, 3)


def shrinks(x: Any) -> Any:
    return loop(lambda i, one: one[1:], x, tf.minimum(2, tf.shape(x)[0]), None, 3)


def filters(x: Any) -> Any:
    return loop(lambda i, one: tf.boolean_mask(one, one[:, 0] > tf.cast(i, tf.float32) / 4), x, 2, None, 3)


def along_two_axes(x: Any) -> Any:
    return loop(lambda i, one: tf.pad(one, [[0, 1], [1, 1]]), x, 2, None, None)


def takes_what_is_found(x: Any) -> Any:
    return loop(lambda i, one: tf.concat([one, x[: i + 1][x[: i + 1, 0] > 0]], 0), x[:0], tf.shape(x)[0], None, 3)


@pytest.mark.parametrize(
    "function", [decodes, caches, doubles, shrinks, filters, along_two_axes, takes_what_is_found]
)  # fmt: skip
def test_arrays_that_grow(function: Any) -> None:
    check(tf.function(function), [(floats(n, 3, seed=n),) for n in SIZES])


def test_an_array_that_grows_by_what_is_in_it() -> None:
    def f(x: Any) -> Any:
        return loop(lambda i, one: tf.concat([one, one[one > 0]], 0), x, 2, None)

    said = "a loop whose state grows, by as much as its own elements say."
    compiled = dtf.jit(f)
    with pytest.warns(dtf.FallbackWarning, match=said):
        alike(compiled(tf.constant([1.0, -1.0])), tf.constant([1.0, -1.0, 1.0, 1.0, 1.0]))
    with pytest.raises(UnsupportedOpError) as caught:
        dtf.jit(f, strict=True)(tf.constant([1.0, -1.0]))
    assert str(caught.value) == (
        f"{said}\n  in the operation while (StatelessWhile) of TensorFlow's graph\n"
        "  help: give tf.while_loop maximum_iterations, or a tf.range to go over."
    )


# ---- variables, and gradients ----------------------------------------------------------------------------------------


def test_functions_in_loops_that_assign() -> None:
    scale = tf.Variable(2.0)

    @tf.function
    def inner(x: Any) -> Any:
        scale.assign_add(1.0)
        return x * scale

    @tf.function
    def f(x: Any) -> Any:
        scale.assign(2.0)
        rows, total = growing(element_shape=[]), tf.constant(0.0)
        for i in tf.range(tf.shape(x)[0]):
            if total > 5.0:
                break
            total += inner(x[i])
            rows = rows.write(rows.size(), total)
        return rows.stack(), scale.read_value()

    check(f, VECTORS)


WEIGHTS = tf.Variable([1.0, 2.0, 3.0])


@tf.function
def weighted(x: Any) -> Any:
    return x * WEIGHTS


def broken_sum(x: Any) -> Any:
    total = tf.zeros([3])
    for i in tf.range(tf.shape(x)[0]):
        if tf.reduce_sum(total) > 2.0:
            break
        total = total * 0.5 + weighted(x[i]) * x[i]
    return total


def broken_list(x: Any) -> Any:
    rows = growing()
    for i in tf.range(tf.shape(x)[0]):
        if tf.reduce_sum(x[i]) > 3.0:
            break
        rows = rows.write(i, weighted(x[i]) * x[i])
    return rows.stack()


def halved(x: Any) -> Any:
    while tf.reduce_sum(x * x) > 1.0:
        x = weighted(x) * 0.2
    return x


def selected(x: Any) -> Any:
    rows = growing(element_shape=[3])
    for i in tf.range(tf.shape(x)[0]):
        if x[i, 0] > 0:
            rows = rows.write(rows.size(), weighted(x[i]) ** 2)
    return rows.stack()


def nested(x: Any) -> Any:
    total = tf.zeros([3])
    for i in tf.range(tf.shape(x)[0]):
        part = x[i]
        for _ in tf.range(2):
            if tf.reduce_sum(part) > 4.0:
                part = part * 0.5
            else:
                part = weighted(part) + x[i]
        total += part * part
    return total


@pytest.mark.parametrize("function", [broken_sum, broken_list, halved, selected, nested])
def test_gradients_of_loops(function: Any) -> None:
    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = function(tf.ensure_shape(x, [None, 3]))
            loss = tf.reduce_sum(made**2)
        return made, tape.gradient(loss, [x, WEIGHTS])

    check(f, MATRICES, tolerance=1e-4)


# ---- ranges, and products of batches ---------------------------------------------------------------------------------


def test_ranges_that_go_down() -> None:
    @tf.function
    def f(x: Any) -> Any:
        n, total = tf.shape(x)[0], tf.constant(0.0)
        for i in tf.range(n - 1, -1, -1):
            total = total * 0.5 + x[i]
        return tf.range(n, 0, -1), tf.range(n - 1, -1, -2), tf.range(tf.cast(n, tf.float32), -2.0, -0.5), total

    check(f, VECTORS)
    pairs = [(tf.constant(n), tf.constant(step)) for n, step in ((5, -2), (1, -1), (0, -1), (-4, 2))]
    check(lambda n, step: tf.range(n, 0, step), pairs)


@pytest.mark.parametrize("shapes", [((-1, 2, 3), (1, 3, 4)), ((1, -1, 3), (-1, 3, 2)), ((-1, 2, 3), (-1, 3, 2))])
def test_products_of_batches_that_broadcast(shapes: Any) -> None:
    @tf.function
    def f(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            made = tf.einsum("...ij,...jk->...ik", a, b)
            loss = tf.reduce_sum(made**2)
        return made, tape.gradient(loss, [a, b])

    own = [[tuple(n if size < 0 else size for size in shape) for shape in shapes] for n in SIZES]
    check(f, [tuple(floats(*shape, seed=k) for k, shape in enumerate(pair)) for pair in own], tolerance=1e-4)
