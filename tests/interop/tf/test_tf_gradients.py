"""Gradients through compiled functions, and whole training steps, against TensorFlow's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
import dyn.numpy as dnp
from tests.interop.tf.comparing import alike, tf

keras = tf.keras
layers = keras.layers
_rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def the_same_numbers_after_any_tests() -> None:
    """A test draws what it draws alone: which tests a process has run before it depends on the run."""
    _rng.bit_generator.state = np.random.default_rng(0).bit_generator.state


def normal(*shape: int) -> Any:
    return tf.constant(_rng.normal(size=shape).astype(np.float32))


def words(*shape: int) -> Any:
    return tf.constant(_rng.integers(0, 50, shape).astype(np.int32))


def check_gradients(
    function: Any, calls: Iterable[tuple[Any, ...]], variables: Any = (), tolerance: float = 2e-5
) -> None:
    """Assert that gradients by float arguments and variables are TensorFlow's, by one program with its gradient."""
    compiled = dtf.jit(function, strict=True)

    def gradients(called: Any, args: tuple[Any, ...]) -> Any:
        floats = [arg for arg in args if arg.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            made = called(*args)
            loss = tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32) ** 2) for one in tf.nest.flatten(made)])
        found = tape.gradient(loss, [*floats, *variables], unconnected_gradients="zero")
        return made, [tf.convert_to_tensor(one) for one in found]

    for args in calls:
        wanted, compiled_gradients = gradients(function, args), gradients(compiled, args)
        alike(compiled_gradients[0], wanted[0], tolerance)
        for one, other in zip(compiled_gradients[1], wanted[1], strict=True):
            scale = 1 + float(tf.reduce_max(tf.abs(other))) if tf.size(other) else 1
            alike(one, other, tolerance * scale)
    assert compiled.cache_info().compiles == 1


def test_operations() -> None:
    weights = tf.Variable(normal(4, 3))

    def function(x: Any, y: Any) -> Any:
        z = tf.tanh(tf.matmul(x, weights)) * y
        return (
            z,
            tf.nn.softmax(z),
            x[:, ::2] + y[:, :1],
            tf.reduce_max(x, 1),
            tf.concat([x, z], 1),
            tf.gather(x, [0, 2], axis=1),
        )

    # y's rows may be 1: which axes a gradient is summed over is known at run time.
    sizes = ((3, 3), (1, 1), (5, 1), (0, 0), (7, 7))
    check_gradients(function, [(normal(a, 4), normal(b, 3)) for a, b in sizes], [weights])


def test_rules_of_the_users_own_and_stopped_gradients() -> None:
    @tf.custom_gradient
    def odd(x: Any) -> Any:
        return x * 2, lambda dy: dy * 100

    def function(x: Any) -> Any:
        return odd(x) + tf.stop_gradient(x * 5) + tf.maximum(x, 0.0) + tf.abs(x)

    check_gradients(function, [(tf.constant([-1.0, 0.0, 2.0]),), (tf.zeros(0),)])


def test_loops() -> None:
    @tf.function
    def function(x: Any) -> Any:
        total = tf.zeros_like(x[0])
        for i in tf.range(3):
            total = tf.tanh(total + x[i])
        return total, tf.scan(lambda a, b: a * 0.5 + tf.sin(b), x)

    check_gradients(function, [(normal(n, m),) for n, m in ((3, 2), (5, 1), (4, 7))])


def perceptron() -> Any:
    given = keras.Input((8,))
    x = layers.BatchNormalization()(layers.Dense(16, activation="relu")(given))
    return keras.Model(given, layers.Dense(1)(layers.Dropout(0.3, seed=3)(x)))


def images() -> Any:
    given = keras.Input((None, None, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, strides=2, padding="same")(given)))
    x = layers.AveragePooling2D(2, padding="same")(layers.SeparableConv2D(8, 3)(layers.MaxPooling2D()(x)))
    return keras.Model(given, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


def text() -> Any:
    given = keras.Input((None,), dtype="int32")
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(layers.Embedding(50, 8)(given))
    return keras.Model(given, layers.Dense(3)(layers.GRU(5)(x)))


def transformer() -> Any:
    given = keras.Input((None,), dtype="int32")
    x = layers.Embedding(50, 16)(given)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8, dropout=0.1)(x, x, use_causal_mask=True))
    y = layers.Dense(16)(layers.Dense(32, activation="gelu")(x))
    return keras.Model(given, layers.Dense(50)(layers.Dropout(0.1)(layers.LayerNormalization()(x + y))))


def classes(n: int) -> Any:
    return tf.constant(_rng.integers(0, 3, n).astype(np.int32))


MODELS: dict[str, tuple[Callable[[], Any], str, list[Any]]] = {
    "perceptron": (perceptron, "adam", [(normal(n, 8), normal(n, 1)) for n in (4, 3, 1, 16)]),
    "images": (
        images,
        "sgd",
        [(normal(n, h, w, 3), classes(n)) for n, h, w in ((4, 16, 17), (3, 20, 16), (7, 15, 15))],
    ),
    "text": (text, "adam", [(words(n, m), classes(n)) for n, m in ((4, 3), (3, 7), (7, 2))]),
    "transformer": (transformer, "adamw", [(words(n, m), words(n, m)) for n, m in ((4, 3), (3, 7), (7, 2))]),
}


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_one_program(name: str) -> None:
    build, optimizer, batches = MODELS[name]
    loss = "mse" if name == "perceptron" else keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def made() -> Any:
        keras.utils.set_random_seed(1)
        model = build()
        model.compile(optimizer=optimizer, loss=loss)
        model._symbolic_build(data_batch=batches[0])
        return model

    own, theirs = made(), made()
    step = dtf.jit(own.train_step, strict=True)
    reference = tf.function(theirs.train_step, reduce_retracing=True)
    for batch in batches:
        alike(step(batch)["loss"], reference(batch)["loss"], 1e-4)
    assert step.cache_info().compiles == 1
    for one, other in zip(own.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=3e-4)


def test_models_are_differentiated() -> None:
    model = text()
    check_gradients(model, [(words(n, m),) for n, m in ((2, 5), (1, 1), (3, 7))], model.trainable_variables, 1e-4)


def test_functions_of_dyn_are_differentiated_by_tensorflow() -> None:
    def function(x: Any, y: Any) -> Any:
        return {"a": dnp.tanh(x) @ y, "n": dnp.argmax(x, axis=1)}

    called = dtf.call(function)
    for n in (3, 1, 0, 5):
        x, y = normal(n, 4), normal(4, 2)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            made = called(x, y)
            loss = tf.reduce_sum(made["a"] ** 2)
        with tf.GradientTape() as other:
            other.watch([x, y])
            wanted = tf.reduce_sum(tf.matmul(tf.tanh(x), y) ** 2)
        alike(tape.gradient(loss, [x, y]), other.gradient(wanted, [x, y]), 1e-4)
        alike(called(x, y)["n"], tf.argmax(x, 1))


def test_branches() -> None:
    def function(x: Any) -> Any:
        def large() -> Any:
            y = tf.exp(x * 0.1)
            z = tf.reduce_sum(y, 0, keepdims=True) * y
            return tf.reduce_mean(z * x + z[:1], axis=1)

        return tf.cond(tf.reduce_sum(x) > 0, large, lambda: tf.reduce_sum(tf.sin(x) * x, 1))

    check_gradients(function, [(tf.abs(normal(n, 3)) * sign,) for n in (3, 1, 7) for sign in (1, -1)])


def test_lists_that_grow() -> None:
    def function(x: Any) -> Any:
        def body(i: Any, rows: Any) -> Any:
            return i + 1, rows.write(i, x[i] * 2)

        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False)
        _, rows = tf.while_loop(lambda i, _: i < tf.shape(x)[0], body, (0, rows))
        two = tf.TensorArray(tf.float32, 0, dynamic_size=True).write(0, x).write(1, x * 3)
        return rows.stack(), tf.cast(rows.size(), tf.float32), two.stack()

    check_gradients(function, [(normal(n, 3),) for n in (3, 1, 7)])


def test_einsum_with_open_axes() -> None:
    check_gradients(
        lambda x, y: [tf.einsum("...nd,...md->...nm", x, y), tf.einsum("...d,...d->...", x, x)],
        [(normal(n, 3, 4), normal(n, 2, 4)) for n in (3, 1, 7)],
    )


def test_what_tensorflow_makes_no_gradient_of_is_its_own() -> None:
    compiled, x = dtf.jit(lambda x: tf.linalg.qr(x)[1] ** 2), normal(3, 3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.warns(dtf.FallbackWarning, match="makes no gradient of it for open sizes"):
            loss = tf.reduce_sum(compiled(x))
    assert tape.gradient(loss, x).shape == (3, 3)


def test_branches_of_sizes_of_their_own() -> None:
    def function(x: Any, p: Any) -> Any:
        kept = tf.cond(p, lambda: tf.boolean_mask(x, x > 0) ** 2, lambda: x * 3.0)
        case = tf.where(p, 0, 1)
        return kept, tf.switch_case(case, [lambda: x, lambda: tf.concat([x, x], 0), lambda: x[:1]])

    check_gradients(function, [(normal(n), tf.constant(p)) for n in (3, 0, 1, 8) for p in (True, False)])


BRANCHES: dict[str, Callable[..., Any]] = {
    "of one size": lambda x, p: tf.cond(p, lambda: tf.sin(x) * x, lambda: x**4),
    "with a size found inside": lambda x, p: tf.cond(
        p, lambda: tf.boolean_mask(tf.sin(x) * x, x > 0), lambda: tf.tanh(x) * x**3
    ),
    "that keep other things": lambda x, p: tf.cond(
        p, lambda: tf.sin(x) * x, lambda: x * tf.tanh(tf.reduce_sum(tf.sin(x)) ** 2) ** 3
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_derivatives_of_branches_of_any_order(name: str) -> None:
    """Branches give their derivatives what is unlike that of another branch, and sizes that only they know."""
    function = tf.function(BRANCHES[name])

    def derivative(called: Any, x: Any, p: Any, order: int) -> Any:
        if not order:
            return called(x, p)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(derivative(called, x, p, order - 1) ** 2)
        return tape.gradient(loss, x)

    compiled = dtf.jit(function, strict=True)
    for n in (4, 0, 1):
        x = normal(n)
        for p in (tf.constant(True), tf.constant(False)):
            for order in (1, 2):
                made, wanted = (derivative(called, x, p, order) for called in (compiled, function))
                np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)


def test_gradients_of_branches_in_branches() -> None:
    @tf.function
    def function(x: Any, p: Any) -> Any:
        inner = lambda: tf.cond(  # noqa: E731
            tf.reduce_sum(x) > 0, lambda: tf.sin(x) * x, lambda: tf.exp(x) * tf.reduce_sum(x) ** 2
        )
        return tf.cond(p, inner, lambda: tf.tanh(x) * x)

    check_gradients(function, [(normal(n), tf.constant(p)) for n in (3, 0, 1) for p in (True, False)])


TABLE: Any = tf.Variable(np.arange(20, dtype=np.float32).reshape(5, 4) / 10)
LOOKUPS: dict[str, Callable[..., Any]] = {
    "rows": lambda i: tf.gather(TABLE, i),
    "rows by axes of indices": lambda i: tf.nn.embedding_lookup(TABLE, tf.stack([i, i], 1)),
    "rows twice": lambda i: tf.gather(TABLE, i) * 2 + tf.sin(tf.gather(TABLE, i[::-1])),
    "rows by two dtypes": lambda i: tf.gather(TABLE, i) + tf.gather(TABLE, tf.cast(i, tf.int64)),
    "elements": lambda i: tf.gather_nd(TABLE, tf.stack([i, i % 4], 1)),
    "rows by n-d index": lambda i: tf.gather_nd(TABLE, i[:, None]),
    "rows and all": lambda i: tf.gather(TABLE, i) + tf.reduce_sum(TABLE),
    "columns": lambda i: tf.gather(TABLE, i % 4, axis=1),
    "rows of a copy": lambda i: tf.gather(TABLE * 2, i),
    "rows in a branch": lambda i: tf.cond(tf.size(i) > 1, lambda: tf.gather(TABLE, i), lambda: tf.gather(TABLE, i) * 2),
}


def same_cotangents(made: Any, wanted: Any) -> None:
    """Assert that two cotangents of one source are given in one form."""
    assert type(made) is type(wanted)
    if isinstance(wanted, tf.IndexedSlices):
        alike([made.indices, made.values, made.dense_shape], [wanted.indices, wanted.values, wanted.dense_shape])
    else:
        alike(made, wanted)


@pytest.mark.parametrize("name", LOOKUPS)
def test_gradients_of_lookups_are_indexed_slices_as_in_tensorflow(name: str) -> None:
    function = tf.function(LOOKUPS[name])
    compiled = dtf.jit(function, strict=True)
    for n in (3, 0, 1, 6):
        i = words(n) % 5
        found: list[Any] = []
        seconds: list[Any] = []
        for called in (compiled, function):
            with tf.GradientTape(persistent=True) as outer:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(called(i) ** 3)
                first = tape.gradient(loss, TABLE)
                again = tf.reduce_sum((first.values if isinstance(first, tf.IndexedSlices) else first) ** 2)
            inside = tf.function(lambda i, called=called: _gradient(called, i))(i)
            found.append((first, inside))
            seconds.append(tf.convert_to_tensor(outer.gradient(again, TABLE)))
        for made, wanted in zip(*found, strict=True):
            same_cotangents(made, wanted)
        alike(*seconds)  # which rows come twice depends on what is computed again
    assert (
        compiled.cache_info().compiles <= 4
    )  # of the function: with its gradient, alone, and of that and its gradient


def _gradient(called: Any, i: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(called(i) ** 3)
    return tape.gradient(loss, TABLE)


def test_sparse_cotangents_go_both_ways() -> None:
    """An argument that is looked up in, a result in which others look up, and an optimizer of rows."""
    compiled, own = dtf.jit(lambda t, i: tf.gather(t, i) * 2, strict=True), dtf.jit(lambda x: tf.sin(x), strict=True)  # noqa: PLW0108

    def arguments(called: Any) -> Any:
        table, i = tf.reshape(tf.range(8.0), (4, 2)), tf.constant([1, 3, 1])
        with tf.GradientTape() as tape:
            tape.watch(table)
            loss = tf.reduce_sum(called(table, i) ** 2)
        return tape.gradient(loss, table)

    same_cotangents(arguments(compiled), arguments(lambda t, i: tf.gather(t, i) * 2))

    def results(called: Any) -> Any:
        x = tf.reshape(tf.range(8.0), (4, 2))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.gather(called(x), [0, 0, 3]) ** 2)
        return tape.gradient(loss, x)

    for call in (results, tf.function(results, autograph=False)):
        alike(call(own), call(tf.sin))
    weights = tf.Variable(tf.ones((5, 2)))
    step = dtf.jit(lambda i: tf.reduce_sum(tf.gather(weights, i) ** 2), strict=True)
    for n in (3, 1, 0):
        with tf.GradientTape() as tape:
            loss = step(words(n) % 5)
        slices = tape.gradient(loss, weights)
        weights.scatter_sub(tf.IndexedSlices(0.1 * slices.values, slices.indices))
        keras.optimizers.Adagrad(0.1).apply_gradients([(slices, weights)])
    assert float(tf.reduce_min(weights)) < 1


OPTIMIZERS: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        name: (functools.partial(getattr(keras.optimizers, name), 1e-2), "float32")
        for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Lion", "Ftrl", "Adafactor")
    },
    "Nadam": (lambda: keras.optimizers.Nadam(1e-2), "float32"),
    "Lamb": (lambda: keras.optimizers.Lamb(1e-2), "float32"),
    "RMSprop with momentum": (lambda: keras.optimizers.RMSprop(1e-2, momentum=0.5, centered=True), "float32"),
    "Adam of all": (lambda: keras.optimizers.Adam(1e-2, global_clipnorm=1.0, use_ema=True), "mixed_bfloat16"),
    "SGD with momentum": (lambda: keras.optimizers.SGD(1e-2, momentum=0.9, nesterov=True), "mixed_float16"),
}
#: Of weights and losses. What steps add to a weight is below a tenth, and off by a few of float16's units of rounding,
#: 2**-11. Adam divides gradients by their size, and so makes a whole step, 1e-2, of one that is bfloat16's rounding.
TOLERANCES = {"float32": 1e-4, "mixed_float16": 1e-3, "mixed_bfloat16": 2e-2}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sparse_gradients_and_mixed_precision(name: str) -> None:
    """Weights, and what optimizers keep, are TensorFlow's after steps over batches of several sizes.

    Keras multiplies float16's loss by 2**15, and leaves out a step, with half that from then on, whose gradients
    overflow: that of a batch with large targets here.
    """
    optimizer, policy = OPTIMIZERS[name]
    tolerance = TOLERANCES[policy]
    batches = [(words(n, m) % 20, tf.tanh(normal(n, 1)) / 2) for n, m in ((4, 3), (3, 7), (1, 1), (2, 5))]
    if policy == "mixed_float16":
        batches.insert(2, (words(2, 3) % 20, tf.fill((2, 1), 1e3)))

    def made() -> Any:
        keras.utils.set_random_seed(1)
        given = keras.Input((None,), dtype="int32")
        x = layers.GlobalAveragePooling1D()(layers.Dense(6, activation="relu")(layers.Embedding(20, 6)(given)))
        model = keras.Model(given, layers.Dense(1, dtype="float32")(x))
        model.compile(optimizer=optimizer(), loss="mse")
        model._symbolic_build(data_batch=batches[0])
        return model

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        own, theirs = made(), made()
        step = dtf.jit(own.train_step)
        for batch in batches:  # a warning of a fallback is an error
            alike(step(batch)["loss"], theirs.train_step(batch)["loss"], tolerance)
    finally:
        keras.config.set_dtype_policy(before)
    assert step.cache_info().compiles == 1
    if policy == "mixed_float16":
        assert own.optimizer.dynamic_scale.numpy() == 2**14
    kept = [[*model.weights, *model.optimizer.variables] for model in (own, theirs)]
    for one, other in zip(*kept, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance, err_msg=other.path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("operation", ["ReluGrad", "Relu6Grad"])
def test_infinite_gradients_at_units_that_are_off(operation: str, dtype: str) -> None:
    """They are NaN, as TensorFlow's kernels have it: loss scaling knows by them that a step overflowed."""

    def f(gradients: Any, features: Any) -> Any:
        return getattr(tf.raw_ops, operation)(gradients=gradients, features=features)

    features = tf.cast(tf.constant([-1.0, 0.0, 1.0, 7.0, np.nan] * 3), dtype)
    gradients = tf.cast(tf.constant([np.inf] * 5 + [-2.0] * 5 + [np.nan] * 5), dtype)
    made, expected = [tf.cast(g(gradients, features), tf.float64).numpy() for g in (dtf.jit(f), f)]
    np.testing.assert_array_equal(made, expected)


def test_gradients_of_loops_of_as_many_steps_as_the_data_says() -> None:
    check_gradients(tf.linalg.expm, [(normal(n, 3, 3) * 0.1,) for n in (2, 0, 1)])


def test_a_gradient_that_dyn_does_not_have_is_tensorflows_after_a_call_without_one() -> None:
    def doubled(x: Any) -> Any:
        def step(i: Any, made: Any) -> Any:
            return i + 1, tf.concat([made, made * 2], 0)

        shapes = tf.TensorShape([]), tf.TensorShape([None])
        return tf.while_loop(lambda i, made: i < 2, step, (0, x), shapes)[1]

    x = normal(3)
    compiled = dtf.jit(doubled)
    alike(compiled(x), doubled(x))
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.warns(dtf.FallbackWarning, match="a list that a loop fills with tensors of the size grown"):
            made = compiled(x)
    alike(tape.gradient(made, x), tf.fill([3], 9.0))


def test_slices_whose_bounds_are_data() -> None:
    def function(x: Any, i: Any) -> Any:
        return x[i:], x[: i + 1], x[-i:], tf.reverse(x[i : i + 2], [0])

    check_gradients(function, [(normal(n, 3), tf.constant(min(n, k))) for n, k in ((7, 2), (1, 1), (2, 0), (64, 40))])


@tf.custom_gradient
def doubled(x: Any) -> Any:
    """Twice ``x``, whose gradient wants a number for its size."""

    def slope(cotangent: Any) -> Any:
        return cotangent * int(x.shape[0])

    return x * 2, slope


def gradient_of(function: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = function(x)
    return tape.gradient(made, x)


def test_a_gradient_that_fails_is_tensorflows_and_calls_without_a_tape_are_dyns() -> None:
    f = dtf.jit(lambda x: doubled(x) + 1)
    with pytest.warns(dtf.FallbackWarning, match="gradient"):
        assert gradient_of(f, tf.ones(3)).numpy().tolist() == [3, 3, 3]
    assert gradient_of(f, tf.ones(2)).numpy().tolist() == [2, 2]
    assert f(tf.ones(3)).numpy().tolist() == [3, 3, 3]
    assert f.cache_info().compiles == 1
    in_graph = tf.function(lambda x: gradient_of(f, x))
    assert in_graph(tf.ones(3)).numpy().tolist() == [3, 3, 3]


def test_a_gradient_that_fails_by_one_variable_leaves_the_others() -> None:
    factor = tf.Variable(2.0, trainable=False)
    f = dtf.jit(lambda x: x * 2 + doubled(tf.fill([tf.shape(x)[0]], 1.0) * factor))
    assert gradient_of(f, tf.ones(3)).numpy().tolist() == [2, 2, 2]
    with tf.GradientTape() as tape:
        tape.watch(factor)
        with pytest.warns(dtf.FallbackWarning, match="gradient"):
            made = f(tf.ones(3))
    assert float(tape.gradient(made, factor)) == 9
