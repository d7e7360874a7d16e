"""Functions with control flow, variables, assertions, and parts that only TensorFlow can run."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError
from tests.interop.tf.comparing import alike, check, tf

LENGTHS = (1, 0, 2, 7)


def vector(n: int) -> Any:
    return tf.constant(np.arange(n, dtype=np.float32) - 2)


def test_sizes_fold_through_what_tensorflow_does_with_them() -> None:
    def function(x: Any) -> Any:
        shape = tf.shape(x)
        rows, columns = tf.unstack(shape)
        rest = tf.concat([[rows * 2], tf.expand_dims(columns // 2, 0)], 0)
        flat = tf.reshape(x, [tf.reduce_prod(shape[:1]) * tf.cast(columns, tf.int32)])
        square = tf.zeros([tf.maximum(rows, 3), tf.minimum(columns, rows + 1)])
        return (
            tf.reshape(x, rest),
            flat,
            square,
            tf.size(x),
            tf.cast(rows, tf.float32) * x,
            rows % 2,
            tf.range(rows) < 2,
        )

    compiled = check(function, [(tf.zeros((n, 4)) + n,) for n in LENGTHS])
    assert "measure" not in str(compiled.explain())


def test_sizes_that_a_question_about_sizes_chooses() -> None:
    def function(x: Any, y: Any) -> Any:
        both = x + y
        n, m = tf.shape(x)[0], tf.shape(y)[0]
        broadcast = tf.where(tf.equal(n, 1), m, n)
        return both + tf.zeros([broadcast]), tf.zeros([tf.where(n >= m, n, m)]), tf.cast(tf.cast(n, tf.bool), tf.int32)

    sizes = ((1, 5), (5, 1), (3, 3), (1, 1), (0, 1), (0, 0))
    compiled = check(function, [(vector(n), vector(m)) for n, m in sizes])
    assert "measure" not in str(compiled.explain())


def test_loops() -> None:
    @tf.function
    def function(x: Any) -> Any:
        total = tf.zeros([])
        for value in x:
            total = total * 0.5 + value
        rows = tf.TensorArray(tf.float32, tf.shape(x)[0])
        for i in tf.range(tf.shape(x)[0]):
            rows = rows.write(i, tf.stack([x[i], x[i] * 2]))
        i = tf.constant(0)
        while tf.reduce_sum(x) + tf.cast(i, tf.float32) < 5.0:
            i += 1
        scanned = tf.scan(lambda a, b: a + b, x, initializer=1.0)
        mapped = tf.map_fn(lambda a: a * 3, x)
        return total, rows.stack(), i, scanned, mapped, tf.foldl(lambda a, b: a - b, x, initializer=0.0)

    check(function, [(vector(n),) for n in LENGTHS])


def test_branches() -> None:
    @tf.function
    def function(x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            y = x * 2
        else:
            y = x - 1
        z = tf.cond(tf.shape(x)[0] > 3, lambda: tf.reduce_sum(x), lambda: tf.constant(-1.0))
        w = tf.switch_case(tf.shape(x)[0] % 3, [lambda: x, lambda: x + 1, lambda: x + 2])
        return y, z, w

    check(function, [(vector(n) + 1,) for n in LENGTHS])


def test_branches_of_other_sizes() -> None:
    @tf.function
    def function(x: Any, y: Any, p: Any) -> Any:
        chosen = tf.cond(p, lambda: x, lambda: y)
        found = tf.cond(p, lambda: tf.unique(x).y, lambda: tf.boolean_mask(y, y > 0))
        kept = tf.cond(p, lambda: (tf.where(x > 0), x), lambda: (tf.where(y > 1), y))
        return chosen * 2 + 1, found, kept, tf.reduce_sum(found)

    calls = [(vector(n), vector(m), tf.constant(p)) for n in LENGTHS for m in LENGTHS for p in (True, False)]
    check(function, calls)


def test_branches_on_sizes_of_other_sizes() -> None:
    """Sizes choose the program, where branches give others; what only the program finds out is compared there."""

    @tf.function
    def padded(x: Any) -> Any:
        return tf.cond(tf.shape(x)[0] < 4, lambda: tf.pad(x, [[0, 4 - tf.shape(x)[0]]]), lambda: x) * 2

    check(padded, [(vector(n),) for n in LENGTHS], compiles=2)

    @tf.function
    def chosen(x: Any) -> Any:
        found = tf.boolean_mask(x, x > 0)
        both = tf.cond(tf.shape(found)[0] == tf.shape(x)[0], lambda: x * 1, lambda: found * 2)
        more = tf.cond(
            tf.logical_or(tf.size(found) > 3, tf.size(x) < 2), lambda: tf.concat([found, x], 0), lambda: found
        )
        return both + found, more

    compiled = check(chosen, [(vector(n) + k,) for n in LENGTHS for k in (0, 3)])
    assert str(compiled.explain()).count("size = the size of the result") == 1  # the other size is that which was found


def test_variables_and_lists_in_branches_of_other_sizes() -> None:
    table = tf.Variable(tf.zeros([0, 2]), shape=[None, 2])

    @tf.function
    def function(x: Any, p: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[])
        if p:
            table.assign(tf.stack([x, x], 1))
            rows = rows.unstack(x)
        else:
            table.assign(tf.zeros([3, 2]))
            rows = rows.write(0, 1.0)
        return rows.stack(), tf.identity(table)

    check(function, [(vector(n), tf.constant(p)) for n in LENGTHS for p in (True, False)])


def test_variables_are_read_and_assigned_where_they_lie() -> None:
    counter, weights, table = tf.Variable(0), tf.Variable(tf.ones((3, 2))), tf.Variable(tf.zeros((4, 2)))

    def function(x: Any) -> Any:
        counter.assign_add(1)
        before = tf.matmul(x, weights)
        weights.assign(weights * 2)
        table.scatter_nd_add(tf.constant([[1], [1]]), tf.ones((2, 2)))
        return before, tf.matmul(x, weights), tf.gather(table, [1, 3]), counter.read_value()

    compiled = dtf.jit(function, strict=True)
    for n in LENGTHS:
        kept = [tf.identity(one) for one in (counter, weights, table)]
        wanted = function(tf.ones((n, 3)))
        after = [tf.identity(one) for one in (counter, weights, table)]
        for one, value in zip((counter, weights, table), kept, strict=True):
            one.assign(value)
        alike(compiled(tf.ones((n, 3))), wanted)
        alike([tf.identity(one) for one in (counter, weights, table)], after)
    weights.assign_sub(weights)  # what TensorFlow assigns between calls is seen
    assert float(tf.reduce_sum(compiled(tf.ones((2, 3)))[0])) == 0
    assert compiled.cache_info().compiles == 1


def test_results_stay_what_they_were_when_variables_change() -> None:
    weights = tf.Variable(tf.ones((4096,)))
    compiled = dtf.jit(lambda x: (weights.read_value(), weights + x, x))
    same, more, given = compiled(tf.ones((4096,)))
    weights.assign_add(tf.ones((4096,)))
    for _ in range(3):
        compiled(tf.zeros((4096,)))
    assert [float(tf.reduce_max(one)) for one in (same, more, given)] == [1.0, 2.0, 1.0]


def test_variables_in_loops_and_branches() -> None:
    total = tf.Variable(0.0)

    @tf.function
    def function(x: Any) -> Any:
        total.assign(0.0)
        for value in x:
            total.assign_add(value)
        if tf.reduce_sum(x) > 1:
            total.assign(total * 2)
        return total * 1.0

    check(function, [(vector(n) + 3,) for n in LENGTHS])


def test_assertions_are_facts_and_checks() -> None:
    @tf.function
    def function(x: Any, y: Any) -> Any:
        tf.debugging.assert_equal(tf.shape(x)[0], tf.shape(y)[0], "as many rows")
        tf.debugging.assert_non_negative(x, "at least 0")
        y = tf.ensure_shape(y, [None, 2])
        return tf.reduce_sum(x) + tf.reduce_sum(y)

    compiled = check(function, [(tf.ones(n), tf.ones((n, 2))) for n in LENGTHS])
    with pytest.raises(ShapeError, match="as many rows"):
        compiled(tf.ones(3), tf.ones((2, 2)))
    with pytest.raises(ShapeError, match="at least 0"):
        compiled(-tf.ones(3), tf.ones((3, 2)))
    with pytest.raises(ShapeError, match="2"):
        compiled(tf.ones(3), tf.ones((3, 5)))


def test_operations_without_a_converter_run_in_tensorflow() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        z = tf.nn.erosion2d(y, tf.zeros((2, 2, 1)), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]) + 1
        return z, tf.shape(z)

    compiled = dtf.jit(function)
    with pytest.warns(dtf.FallbackWarning, match="Dilation2D: has no converter"):
        alike(compiled(tf.ones((2, 4, 5, 1))), function(tf.ones((2, 4, 5, 1))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alike(compiled(tf.ones((1, 7, 3, 1))), function(tf.ones((1, 7, 3, 1))))
    assert compiled.cache_info().compiles == 1
    assert "1 operation in TensorFlow" in str(compiled.explain())
    with pytest.raises(NotYetError, match="Dilation2D has no converter"):
        dtf.jit(function, strict=True)(tf.ones((2, 4, 5, 1)))


def test_tables_stay_with_tensorflow() -> None:
    keys, values = tf.constant([1, 2, 3], tf.int64), tf.constant([10.0, 20.0, 30.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)

    def function(x: Any) -> Any:
        return table.lookup(x) * 2

    compiled = dtf.jit(function)
    with pytest.warns(dtf.FallbackWarning, match="LookupTableFindV2"):
        compiled(keys)
    for n in (2, 0, 3):
        given = tf.range(n, dtype=tf.int64)
        alike(compiled(given), function(given))


def test_tensors_that_are_no_arrays_are_tensorflows() -> None:
    compiled = dtf.jit(tf.strings.length)
    with pytest.warns(dtf.FallbackWarning, match="a tensor of string"):
        assert compiled(tf.constant(["one", "three"])).numpy().tolist() == [3, 5]
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with pytest.warns(dtf.FallbackWarning, match="RaggedTensor"):
        alike(dtf.jit(lambda x: tf.reduce_sum(x, 1))(ragged), tf.reduce_sum(ragged, 1))
    with pytest.raises(UnsupportedOpError, match="a tensor of string"):
        dtf.jit(tf.strings.length, strict=True)(tf.constant(["one"]))


def test_dtypes_and_ranks_are_programs_of_their_own() -> None:
    compiled = dtf.jit(lambda x, y=None: tf.reduce_sum(x, -1) if y is None else x + y)
    for x in (tf.ones((2, 3)), tf.ones((2, 3, 4)), tf.ones(3, tf.float64), tf.ones(3, tf.bfloat16), tf.ones(5)):
        alike(compiled(x), tf.reduce_sum(x, -1))
    assert compiled.cache_info().compiles == 5
    alike(compiled(np.ones(2, np.float32), 2.0), tf.constant([3.0, 3.0]))
    alike(compiled(tf.ones(2), y=tf.ones(2)), tf.constant([2.0, 2.0]))
    with pytest.raises(ArgumentError, match="hash"):
        compiled(tf.ones(2), slice(np.ones(2)))


def test_where_tensorflow_needs_a_size_it_is_fixed() -> None:
    compiled = dtf.jit(lambda x: x * sum(range(x.shape[-1])), strict=True)
    for shape in ((2, 3), (5, 3), (2, 4), (0, 4)):
        alike(compiled(tf.ones(shape)), tf.ones(shape) * sum(range(shape[-1])))
    assert compiled.cache_info().compiles == 2
    assert "sizes are fixed to ((None, 3),)" in str(compiled.explain())


def test_structures() -> None:
    compiled = dtf.jit(lambda batch, scale: {"y": batch["a"] * scale, "n": None, "t": (batch["b"], 3)})
    made = compiled({"a": tf.ones(2), "b": tf.zeros((1, 2))}, scale=2)
    assert made["n"] is None
    assert float(made["y"][0]) == 2
    assert made["t"][0].shape == (1, 2)


def test_random_numbers_follow_seeds() -> None:
    def stateless(x: Any) -> Any:
        seed, shape = tf.constant([3, 4]), tf.shape(x)
        return tf.random.stateless_uniform(shape, seed), tf.random.stateless_normal(shape, seed)

    check(stateless, [(tf.zeros((n, 3)),) for n in LENGTHS])

    compiled = dtf.jit(lambda x: tf.random.normal(tf.shape(x)) + tf.random.uniform(tf.shape(x)), strict=True)
    tf.random.set_seed(1)
    first, second = compiled(tf.zeros(1000)), compiled(tf.zeros(1000))
    tf.random.set_seed(1)
    alike(compiled(tf.zeros(1000)), first)
    assert float(tf.reduce_max(tf.abs(first - second))) > 0.5
    assert abs(float(tf.reduce_mean(first)) - 0.5) < 0.15


def test_threads() -> None:
    weights = tf.Variable(tf.ones((3, 3)))
    compiled = dtf.jit(lambda x: tf.matmul(x, weights))
    failed: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for _ in range(20):
                alike(compiled(tf.ones((n, 3)) * n), tf.ones((n, 3)) * 3 * n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert compiled.cache_info().compiles == 1


def test_where_tensorflow_needs_more_sizes_the_batch_stays_open() -> None:
    compiled = dtf.jit(lambda x: x * sum(range(x.shape[1])), strict=True)
    for shape in ((2, 3, 4), (5, 3, 4), (0, 3, 4), (1, 2, 4)):
        alike(compiled(tf.ones(shape)), tf.ones(shape) * sum(range(shape[1])))
    assert compiled.cache_info().compiles == 2
    assert "sizes are fixed to ((None, 3, 4),)" in str(compiled.explain())


def test_where_tensorflow_needs_features_words_and_masks_stay_open() -> None:
    compiled = dtf.jit(lambda x, mask: x * sum(range(x.shape[-1])) * tf.cast(mask, x.dtype)[..., None], strict=True)
    for n, length in ((2, 3), (1, 5), (0, 7)):
        x, mask = tf.ones((n, length, 4)), tf.ones((n, length), tf.bool)
        alike(compiled(x, mask), x * 6)
    assert compiled.cache_info().compiles == 1


def test_a_loop_whose_state_grows() -> None:
    def function(x: Any) -> Any:
        shapes = tf.TensorShape([]), tf.TensorShape([None, None])
        start = tf.constant(0), tf.zeros([tf.shape(x)[0], 0])

        def step(i: Any, made: Any) -> Any:
            return i + 1, tf.concat([made, x[:, i : i + 1] * 2], 1)

        return tf.while_loop(lambda i, made: i < tf.shape(x)[1], step, start, shapes)[1]

    compiled = dtf.jit(function, strict=True)
    for shape in ((2, 3), (2, 0), (0, 3), (7, 1)):
        alike(compiled(tf.ones(shape)), tf.ones(shape) * 2)
    assert compiled.cache_info().compiles == 1


def agree(f: Any, *calls: tuple[Any, ...]) -> Any:
    """Assert that a function gives what TensorFlow gives, call after call; the compiled one."""
    compiled = dtf.jit(f, strict=True)
    for args in calls:
        made, expected = compiled(*args), f(*args)
        assert made.shape == expected.shape
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=1e-5)
    return compiled


def test_gather_counts_batch_axes_by_its_indices() -> None:
    for batch in (-1, -2, 1):
        agree(
            lambda a, i, n=batch: tf.gather(a, i, axis=-1, batch_dims=n),
            (tf.random.normal((2, 3, 4), seed=1), tf.zeros((2, 3), tf.int32)),
            (tf.random.normal((2, 5, 3), seed=1), tf.ones((2, 2), tf.int32)),
        )


def test_ranges_that_go_down_by_a_computed_step() -> None:
    compiled = agree(
        lambda n, d: tf.range(n, 0, d),
        *[(tf.constant(n), tf.constant(d)) for n, d in ((6, -2), (-6, 2), (0, 2), (-3, 1), (5, -7))],
    )
    with pytest.raises(ShapeError, match="steps other than 0"):
        compiled(tf.constant(1), tf.constant(0))
    for n, d in ((5, 2), (-5, -1)):  # away from 0, where TensorFlow's range ends
        with pytest.raises(ShapeError, match="lead from its start to its limit"):
            compiled(tf.constant(n), tf.constant(d))
    agree(lambda n: tf.range(n, 5), *[(tf.constant(n),) for n in (-2, 2, 5)])


def test_classes_that_are_none_are_not_among_the_most_probable() -> None:
    agree(
        lambda targets, p: tf.math.in_top_k(targets, p, 2),
        (tf.constant([9, -1, 0, 2]), tf.constant([[1.0, 2, 3]] * 4)),
        (tf.constant([2, 1, 0]), tf.constant([[1.0, 2, 3], [np.nan, 1, 2], [3, np.nan, 1]])),
    )


def test_numbers_of_groups_have_programs_of_their_own() -> None:
    calls = [((2, 7, 8, 3), (3, 2, 3, 4)), ((1, 5, 5, 4), (3, 2, 2, 4)), ((1, 5, 5, 4), (3, 2, 1, 4))]
    compiled = agree(
        lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"),
        *[(tf.random.normal(x, seed=1), tf.random.normal(k, seed=2)) for x, k in (*calls, *calls)],
    )
    assert compiled.cache_info().compiles == 3


def test_a_function_that_asks_which_replica_it_is_in_is_tensorflows() -> None:
    def step(x: Any) -> Any:
        return x + tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)

    compiled = dtf.jit(step)
    with pytest.warns(dtf.FallbackWarning, match="a function that asks which replica it is in"):
        np.testing.assert_array_equal(compiled(tf.ones(2)), [1, 1])
    with pytest.raises(NotYetError, match="which replica"):
        dtf.jit(step, strict=True)(tf.ones(2))


def test_gradients_of_what_is_gathered_of_no_rows() -> None:
    compiled = dtf.jit(lambda x: tf.gather(x, tf.argsort(x, 1), axis=1, batch_dims=1), strict=True)
    for shape in ((2, 3), (0, 4), (3, 0), (1, 1)):
        x = tf.random.uniform(shape, seed=1)
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = tf.reduce_sum(compiled(x) * 2)
        np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(made, x)), np.full(shape, 2.0))


def squares(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * tf.sin(x)
    return tape.jacobian(y, x)


def with_sums(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * tf.reduce_sum(x, -1, keepdims=True)
    return tape.jacobian(y, x)


def hessian(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.sin(x) * x**2)
        gradient = inner.gradient(y, x)
    return outer.jacobian(gradient, x)


def of_each_example(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x) * 2
    return tape.batch_jacobian(y, x)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (squares, [(3,), (1,), (5,), (0,)]),
        (with_sums, [(3, 4), (1, 1), (2, 1), (1, 3)]),
        (hessian, [(3,), (1,), (5,)]),
        (of_each_example, [(3, 4), (1, 1), (2, 5)]),
    ],
)
def test_jacobians_in_a_function(function: Any, shapes: Any) -> None:
    """``tape.jacobian`` writes a gradient for each element at once (``pfor``), which counts the axes of sums."""
    compiled = dtf.jit(function, strict=True)
    for shape in shapes:
        x = tf.random.uniform(shape, seed=1)
        np.testing.assert_allclose(compiled(x), function(x), rtol=1e-4, atol=1e-5)
    assert compiled.cache_info().traces == 1
