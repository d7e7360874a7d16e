"""Sparse tensors: as arguments and results, embeddings of their rows, products, and gradients of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.interop.keras as dyn_keras
import dyn.interop.tf as dtf
from dyn.errors import DomainError, OutOfRangeError
from tests.interop.tf.comparing import alike, check, tf
from tests.interop.tf.operations import floats, integers

SIZES = (3, 0, 1, 6)
TABLE = tf.Variable(tf.sin(tf.reshape(tf.range(20.0), (5, 4))))


def sparse(n: int, *, is_full: bool = False) -> Any:
    """Numbers of rows of the table at some places of ``n`` rows; with one in each row where it ``is_full``."""
    random = np.random.default_rng(n)
    places = {(int(random.integers(0, n)), int(random.integers(0, 4))) for _ in range(5 if n else 0)}
    found = sorted(places | ({(row, 0) for row in range(n)} if is_full else set()))
    values = random.integers(0, 5, len(found)).astype(np.int64)
    return tf.SparseTensor(np.array(found, np.int64).reshape(-1, 2), values, [n, 4])


def weights(numbers: Any) -> Any:
    return tf.SparseTensor(numbers.indices, tf.cos(tf.cast(numbers.values, tf.float32)) + 1.5, numbers.dense_shape)


NUMBERS = [(sparse(n),) for n in SIZES]
FULL = [(sparse(n, is_full=True),) for n in SIZES]
FLOATS = [(weights(one),) for (one,) in NUMBERS]


def with_gradients(function: Any) -> Any:
    """The results of a function, with their gradients by the table and by the floats among the arguments."""

    @tf.function
    def f(*args: Any) -> Any:
        with tf.GradientTape() as tape:
            values = [one.values for one in args if one.dtype.is_floating]
            tape.watch(values)
            made = function(*args)
            loss = tf.reduce_sum(tf.sin(made) * made)
        found = tape.gradient(loss, [TABLE, *values], unconnected_gradients="zero")
        return made, [tf.convert_to_tensor(one) for one in found]

    return f


@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embeddings(combiner: str, is_fast: bool) -> None:
    options = {"combiner": combiner, "allow_fast_lookup": is_fast}
    check(with_gradients(lambda x: tf.nn.embedding_lookup_sparse(TABLE, x, None, **options)), FULL, tolerance=1e-4)
    check(with_gradients(lambda x: tf.nn.safe_embedding_lookup_sparse(TABLE, x, **options)), NUMBERS, tolerance=1e-4)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embeddings_with_weights(combiner: str) -> None:
    def safe(x: Any, y: Any) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(TABLE, x, y, combiner=combiner, default_id=2)

    def bounded(x: Any, y: Any) -> Any:
        return tf.nn.embedding_lookup_sparse(TABLE, x, y, combiner=combiner, max_norm=1.0)

    check(with_gradients(safe), [(x, weights(x)) for (x,) in NUMBERS], tolerance=1e-4)
    check(with_gradients(bounded), [(x, weights(x)) for (x,) in FULL], tolerance=1e-4)


def test_the_rows_of_an_embedding_that_are_trained() -> None:
    compiled = dtf.jit(lambda x: tf.nn.embedding_lookup_sparse(TABLE, x, None, combiner="mean"), strict=True)
    for (x,) in FULL:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(compiled(x) ** 2)
        found = tape.gradient(loss, TABLE)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup_sparse(TABLE, x, None, combiner="mean") ** 2)
        alike(tf.convert_to_tensor(found), tf.convert_to_tensor(tape.gradient(loss, TABLE)), 1e-4)
    assert compiled.cache_info().compiles == 1


def test_layers_of_keras() -> None:
    embedding, dense = tf.keras.layers.Embedding(5, 3), tf.keras.layers.Dense(3, activation="relu")
    embedding.build()
    dense.build((None, 4))
    check(embedding, NUMBERS)
    check(dense, FLOATS)


def test_products() -> None:
    check(with_gradients(lambda x: tf.sparse.sparse_dense_matmul(x, TABLE[:4])), FLOATS, tolerance=1e-4)

    def others(x: Any) -> Any:
        dense = tf.sparse.to_dense(x)
        return (
            tf.sparse.sparse_dense_matmul(tf.sparse.transpose(x), dense),
            tf.sparse.sparse_dense_matmul(x, dense, adjoint_a=True),
            tf.sparse.sparse_dense_matmul(x, dense, adjoint_b=True),
        )

    check(others, FLOATS)


def test_sparse_results() -> None:
    def f(x: Any) -> Any:
        return (
            x,
            x * 2.0,
            tf.sparse.transpose(x),
            tf.sparse.retain(x, x.values > 1),
            tf.sparse.expand_dims(x, 0),
            tf.sparse.reshape(x, [-1, 2]),
            tf.sparse.reshape(x, [4, -1]),
            tf.sparse.fill_empty_rows(x, 3.0),
            tf.sparse.from_dense(tf.sparse.to_dense(x)),
        )

    check(f, FLOATS)
    # TensorFlow broadcasts no axis of 1 to one of 0.
    check(lambda x: (x / (tf.ones([1, 4]) * 3.0), x * tf.range(4.0)), [one for one in FLOATS if one[0].shape[0]])


def test_dense_results() -> None:
    def f(x: Any) -> Any:
        return (
            tf.sparse.to_dense(x, 7.0),
            tf.sparse.reduce_sum(x, 1),
            tf.sparse.reduce_sum(x),
            tf.sparse.reduce_sum(x, 0, keepdims=True),
            tf.sparse.add(x, tf.ones(tf.cast(x.dense_shape, tf.int32))),
        )

    check(f, FLOATS)


def test_elements_in_any_order() -> None:
    indices = tf.constant([[2, 1], [0, 3], [2, 0], [0, 1]], tf.int64)
    x = tf.SparseTensor(indices, tf.constant([1.0, 2.0, 3.0, 4.0]), [4, 4])
    compiled = check(lambda x: (tf.sparse.reorder(x), tf.sparse.fill_empty_rows(x, 9.0)), [(x,), *FLOATS])
    assert not compiled.fallbacks.said


def test_segments_of_rows_with_gradients() -> None:
    @tf.function
    def f(x: Any, rows: Any, segments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            folds = tf.sparse.segment_sum, tf.sparse.segment_mean, tf.sparse.segment_sqrt_n
            made = [fold(x, rows, segments) for fold in folds]
            made += [fold(x, rows, segments, num_segments=6) for fold in folds]
            made += [fold(x, rows, segments, sparse_gradient=True) for fold in folds]
            loss = tf.add_n([tf.reduce_sum(tf.sin(one) * one) for one in made])
        return made, tf.convert_to_tensor(tape.gradient(loss, x))

    def call(n: int) -> tuple[Any, ...]:
        count = 6 if n else 0
        rows = integers(count, seed=n, low=0, high=max(n, 1))
        return floats(n, 4, seed=n), rows, tf.sort(integers(count, seed=n + 1, low=0, high=4))

    check(f, [call(n) for n in SIZES], tolerance=1e-4)


class Clicks(tf.keras.Model):
    """Sums of the embeddings of whatever a row has, behind a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = self.add_weight(shape=(9, 4), initializer="uniform", name="table")
        self.dense = tf.keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(tf.nn.safe_embedding_lookup_sparse(tf.convert_to_tensor(self.table), x, combiner="sqrtn"))


def test_training_over_sparse_batches() -> None:
    random = np.random.default_rng(0)
    numbers = random.integers(0, 9, (20, 5)) * (random.uniform(size=(20, 5)) < 0.5)
    wanted = random.normal(size=(20, 1)).astype(np.float32)
    rows = tf.sparse.from_dense(numbers.astype(np.int64))

    def trained(*, by_dyn: bool) -> Any:
        tf.keras.utils.set_random_seed(0)
        model = Clicks()
        model.compile("adam", loss="mse")
        if by_dyn:
            dyn_keras.compile(model)
        # Batches of 8, 8 and 4.
        batches = tf.data.Dataset.from_tensor_slices((rows, wanted)).batch(8)
        losses = model.fit(batches, epochs=2, verbose=0, shuffle=False)
        if by_dyn:
            compiled = model.train_function.compiled
            assert compiled.cache_info().compiles == 1
            assert not compiled.fallbacks.said
        return losses.history["loss"], [weight.numpy() for weight in model.weights]

    (losses, weights), (own_losses, own_weights) = trained(by_dyn=True), trained(by_dyn=False)
    np.testing.assert_allclose(losses, own_losses, rtol=1e-5)
    for one, other in zip(weights, own_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def message(error: BaseException) -> str:
    return "\n".join([line for line in str(error).splitlines() if not line.startswith("  at ")])


def test_errors() -> None:
    twice = tf.SparseTensor([[0, 1], [0, 1]], [1.0, 2.0], [2, 4])
    compiled = dtf.jit(tf.sparse.to_dense, strict=True)
    with pytest.raises(DomainError) as caught:
        compiled(twice)
    assert message(caught.value) == (
        "the indices of a sparse tensor do not go up.\n  help: sort it by tf.sparse.reorder, and give each index once."
    )
    compiled = dtf.jit(lambda x: tf.sparse.reshape(x, [3, 3]), strict=True)
    with pytest.raises(DomainError) as caught:
        compiled(twice)
    assert message(caught.value) == (
        "a sparse tensor that is reshaped to another number of elements.\n"
        "  help: give sizes whose product is that of the tensor's own."
    )
    compiled = dtf.jit(lambda x: tf.sparse.sparse_dense_matmul(x, tf.ones((4, 2))), strict=True)
    with pytest.raises(OutOfRangeError, match="index 9 is out of range for axis 0, of 2 elements"):
        compiled(tf.SparseTensor([[9, 1]], [1.0], [2, 4]))


def test_ahead_of_a_call() -> None:
    compiled = dtf.jit(lambda x: tf.sparse.reduce_sum(x, 1), strict=True)
    lowered = compiled.lower(tf.SparseTensorSpec([None, None], tf.float32))
    assert "func" in lowered.as_text("stablehlo")
    for (x,) in FLOATS:
        alike(compiled(x), tf.sparse.reduce_sum(x, 1))
    assert compiled.cache_info().compiles == 1
    assert "x.values" in str(compiled.explain())


def test_inside_of_a_tf_function() -> None:
    compiled = dtf.jit(lambda x: tf.sparse.sparse_dense_matmul(x, TABLE[:4]))
    graph = tf.function(lambda x: compiled(x) * 2, reduce_retracing=True)
    for (x,) in FLOATS:
        alike(graph(x), tf.sparse.sparse_dense_matmul(x, TABLE[:4]) * 2)
