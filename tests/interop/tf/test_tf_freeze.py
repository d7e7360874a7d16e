"""``freeze=True``: what is kept, when nothing is, and that each way to assign a variable is seen."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.interop.tf as dtf
from dyn.backends.families import host_target
from dyn.errors import ArgumentError
from dyn.interop.tf.frozen import MOST_ASSIGNED
from dyn.specialize.kept_panels import PANELS
from tests.interop.tf.comparing import tf

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor reads matrices as they lie")


def model() -> Any:
    keras.utils.set_random_seed(0)
    own = keras.layers.Dense(48, activation="gelu"), keras.layers.Dense(33)
    return keras.Sequential([keras.Input((20,)), *own])


def rows(count: int) -> Any:
    return tf.constant(np.random.default_rng(count).standard_normal((count, 20)), tf.float32)


def check(f: Any, m: Any, count: int = 3) -> None:
    np.testing.assert_allclose(f(rows(count)), m(rows(count)), rtol=1e-4, atol=1e-4)


def from_panels(compiled: Any) -> int:
    """How many products the programs of a compiled function read from panels."""
    lines = str(compiled.explain()).splitlines()
    return sum("from panels" in line for line in lines if line.strip().startswith("variant"))


def test_a_frozen_model_computes_what_it_is_by_one_program() -> None:
    m = model()
    f, plain = dtf.jit(m, freeze=True), dtf.jit(m)
    for count in (3, 0, 1, 2, 17):
        check(f, m, count)
        check(plain, m, count)
    assert from_panels(f) == 2
    assert "2 arrays that never change, kept in panels" in str(f.explain())
    assert from_panels(plain) == 0
    info = f.cache_info()
    assert (info.compiles, info.hits, info.traces) == (1, 4, 1)


def test_stages_read_panels_too() -> None:
    m, x = model(), rows(3)
    f = dtf.jit(m, freeze=True)
    f.prepare([(x,)])
    assert from_panels(f) == 2
    assert f.lower(x).compile().memory_analysis().kept > 0
    check(f, m)
    assert f.cache_info().compiles == 1


def test_functions_that_close_over_nothing_and_over_what_is_no_matrix() -> None:
    scale = tf.Variable(tf.ones([20]))
    empty = tf.Variable(tf.ones([20, 0]))
    for function in (lambda x: x * 2.0, lambda x: x * scale, lambda x: tf.matmul(x, empty)):
        f = dtf.jit(function, freeze=True)
        for count in (3, 0, 1):
            np.testing.assert_allclose(f(rows(count)), function(rows(count)))
        assert from_panels(f) == 0
        assert f.cache_info().compiles == 1
    scale.assign(tf.fill([20], 3.0))  # it is no matrix: it is read at each call
    f = dtf.jit(lambda x: x * scale, freeze=True)
    np.testing.assert_allclose(f(rows(3)), rows(3) * 3.0)


def saved(m: Any, folder: Path) -> Any:
    other = model()
    other.set_weights([one * 0.5 + 1 for one in m.get_weights()])
    other.save_weights(folder / "kept.weights.h5")
    return folder / "kept.weights.h5"


WRITES: dict[str, Callable[[Any, Path], Any]] = {
    "assign": lambda m, _: m.layers[0].kernel.assign(m.layers[0].kernel * 2),
    "assign_add": lambda m, _: m.layers[0].kernel.value.assign_add(tf.ones([20, 48])),
    "assign_sub by Keras": lambda m, _: m.layers[0].kernel.assign_sub(tf.ones([20, 48])),
    "a slice": lambda m, _: m.layers[0].kernel.value[3].assign(m.layers[0].kernel[3] * 2 + 1),
    "scatter_add": lambda m, _: m.layers[0].kernel.value.scatter_add(
        tf.IndexedSlices(tf.ones([1, 48]), [2])
    ),
    "an optimizer": lambda m, _: tf.raw_ops.ResourceApplyGradientDescent(
        var=m.layers[0].kernel.value.handle, alpha=0.1, delta=tf.ones([20, 48])
    ),
    "set_weights": lambda m, _: m.set_weights([one + 1 for one in m.get_weights()]),
    "load_weights": lambda m, folder: m.load_weights(saved(m, folder)),
    "in a tf.function": lambda m, _: tf.function(lambda: m.layers[1].kernel.value.assign(tf.ones([48, 33])))(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's, as it saves weights
@pytest.mark.parametrize("write", WRITES)
def test_each_way_to_assign_is_seen_by_the_same_program(write: str, tmp_path: Path) -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    for _ in range(2):
        check(f, m)
        before = f(rows(3)).numpy()
        WRITES[write](m, tmp_path)
        check(f, m)
        if write != "in a tf.function":  # which assigns the same again
            assert not np.allclose(f(rows(3)), before)
    assert from_panels(f) == 2 or write in ("a slice", "scatter_add")
    assert f.cache_info().compiles <= 2


def test_what_is_assigned_is_let_go_with_its_panels() -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    check(f, m)
    gc.collect()
    kept = len(PANELS)
    for number in range(4):
        m.set_weights([one + number for one in m.get_weights()])
        check(f, m)
        check(f, m)
    gc.collect()
    assert len(PANELS) == kept


def test_a_variable_that_each_call_finds_assigned_is_passed_from_then_on() -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    check(f, m)
    for _ in range(MOST_ASSIGNED + 2):
        m.layers[0].kernel.assign(m.layers[0].kernel + 1)
        check(f, m)
    assert from_panels(f) == 1  # the other one stays
    assert f"not frozen, since {MOST_ASSIGNED} calls in a row found them assigned: " in str(f.explain())
    assert "kernel (20, 48)" in str(f.explain())
    compiles = f.cache_info().compiles
    for _ in range(4):
        m.layers[0].kernel.assign(m.layers[0].kernel + 1)
        check(f, m)
    assert f.cache_info().compiles == compiles


def test_slices_that_are_assigned_have_tensorflow_copy_at_each_read() -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    check(f, m)
    m.layers[0].kernel.value[0].assign(tf.zeros([48]))
    for _ in range(MOST_ASSIGNED + 1):
        check(f, m)
    assert from_panels(f) == 1
    m.layers[0].kernel.value[1].assign(tf.zeros([48]))
    check(f, m)


def test_assignments_with_calls_in_between_do_not_count_together() -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    for number in range(2 * MOST_ASSIGNED):
        m.layers[0].kernel.assign(m.layers[0].kernel * 0.5 + number)
        check(f, m)
        check(f, m)
    assert from_panels(f) == 2
    assert f.cache_info().compiles == 1


def test_nothing_is_frozen_where_a_tape_records() -> None:
    m, other = model(), model()
    f = dtf.jit(m, freeze=True)
    for _ in range(3):
        tapes = []
        for function, own in ((f, m), (other, other)):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(function(rows(3)) ** 2)
            tapes.append(tape.gradient(loss, own.trainable_variables))
            for variable, gradient in zip(own.trainable_variables, tapes[-1], strict=True):
                variable.assign_sub(0.01 * gradient)
        for a, b in zip(*tapes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    assert from_panels(f) == 0
    assert f.cache_info().compiles == 1
    check(f, other)
    assert from_panels(f) == 2  # which is another program, of calls that no tape records
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(f(rows(5)))
    assert all(one is not None for one in tape.gradient(loss, m.trainable_variables))
    assert f.cache_info().compiles == 2


def test_a_call_in_a_graph_has_gradients_and_freezes_nothing() -> None:
    m, x = model(), rows(3)
    f = dtf.jit(m, freeze=True)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(f(x))
        return loss, tape.gradient(loss, m.trainable_variables)

    for _ in range(2):
        loss, gradients = step(x)
        np.testing.assert_allclose(loss, tf.reduce_sum(m(x)), rtol=1e-4)
        assert all(one is not None for one in gradients)
        m.layers[0].kernel.assign(m.layers[0].kernel * 2)
    assert from_panels(f) == 0


def test_what_the_function_assigns_is_not_frozen() -> None:
    state, weight = tf.Variable(tf.eye(20)), tf.Variable(tf.random.normal([20, 48]))

    def step(x: Any) -> Any:
        y = tf.matmul(tf.matmul(x, state), weight)
        state.assign(state * 0.5)
        return y

    f, x = dtf.jit(step, freeze=True), rows(3)
    for power in range(4):
        np.testing.assert_allclose(f(x), tf.matmul(x, weight) * 0.5**power, rtol=1e-4, atol=1e-4)
    assert from_panels(f) == 1
    assert f.cache_info().compiles == 1


def test_variables_of_all_dtypes_and_of_open_shapes() -> None:
    for dtype in (tf.float64, tf.float16, tf.bfloat16):
        weight = tf.Variable(tf.cast(tf.random.normal([24, 40]), dtype))
        f = dtf.jit(lambda x, weight=weight: tf.matmul(x, weight), freeze=True)
        x = tf.cast(tf.random.normal([5, 24]), dtype)
        np.testing.assert_allclose(
            tf.cast(f(x), tf.float32), tf.cast(tf.matmul(x, weight), tf.float32), rtol=2e-2, atol=2e-1
        )
        assert from_panels(f) == 1, dtype
    open_rows = tf.Variable(tf.ones([20, 3]), shape=tf.TensorShape([20, None]))
    f = dtf.jit(lambda x: tf.matmul(x, open_rows), freeze=True)
    for columns in (3, 1, 5):
        open_rows.assign(tf.fill([20, columns], float(columns)))
        np.testing.assert_allclose(f(rows(2)), tf.matmul(rows(2), open_rows), rtol=1e-4, atol=1e-4)
    assert from_panels(f) == 0


def test_models_that_are_alike_have_weights_of_their_own() -> None:
    first, second = model(), model()
    second.set_weights([one * 2 for one in second.get_weights()])
    f, g = dtf.jit(first, freeze=True), dtf.jit(second, freeze=True)
    either = dtf.jit(lambda m, x: m(x), freeze=True)
    for _ in range(2):
        check(f, first)
        check(g, second)
        for m in (first, second):
            np.testing.assert_allclose(either(m, rows(4)), m(rows(4)), rtol=1e-4, atol=1e-4)
        second.set_weights([one * 2 for one in second.get_weights()])
    assert [from_panels(one) for one in (f, g, either)] == [2, 2, 4]


def test_models_that_are_gone_take_their_panels_with_them() -> None:
    gc.collect()
    before = len(PANELS)

    class Product(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(tf.random.normal([20, 48]))

        def __call__(self, x: Any) -> Any:
            return tf.matmul(x, self.weight)

    m: Any = Product()
    f, end = dtf.jit(m, freeze=True), weakref.ref(m)
    check(f, m)
    assert len(PANELS) == before + 1
    del f, m
    gc.collect()
    assert end() is None
    assert len(PANELS) == before


def test_threads_see_what_they_have_assigned() -> None:
    weight = tf.Variable(tf.zeros([20, 48]))
    f, x = dtf.jit(lambda x: tf.matmul(x, weight), freeze=True), tf.ones([3, 20])
    f(x)
    written, faults, lock = [0.0], list[Any](), threading.Lock()

    def call() -> None:
        for _ in range(40):
            least = written[0]
            found = float(f(x)[0, 0]) / 20
            if found < least:
                faults.append((found, least))

    def write() -> None:
        for number in range(1, 21):
            with lock:
                weight.assign(tf.fill([20, 48], float(number)))
                written[0] = float(number)
            if float(f(x)[0, 0]) / 20 != number:
                faults.append(number)

    threads = [threading.Thread(target=call) for _ in range(3)] + [threading.Thread(target=write)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not faults
    np.testing.assert_allclose(f(x), tf.fill([3, 48], 400.0))


def test_a_saved_model_is_frozen_as_it_is_loaded(tmp_path: Path) -> None:
    m = model()
    m.export(tmp_path / "model", verbose=False)
    f = dtf.load(tmp_path / "model", freeze=True)
    for count in (3, 1, 17):
        check(f, m, count)
    assert from_panels(f) == 2
    with pytest.raises(ArgumentError, match=r"option freeze of dyn\.interop\.tf\.load is 'yes'"):
        dtf.load(tmp_path / "model", freeze="yes")  # pyright: ignore[reportArgumentType]


def test_on_new_shape_counts_no_program_of_variables() -> None:
    m = model()
    f = dtf.jit(m, freeze=True, on_new_shape="error")
    check(f, m)
    for _ in range(MOST_ASSIGNED + 1):
        m.layers[0].kernel.assign(m.layers[0].kernel + 1)
        check(f, m, 5)


def test_without_panels_it_is_right_too() -> None:
    m = model()
    f = dtf.jit(m, freeze=True)
    with dyn.config.override(pack_weights=False):
        check(f, m)
        m.layers[0].kernel.assign(m.layers[0].kernel + 1)
        check(f, m)
    assert from_panels(f) == 0


def test_the_option_is_a_bool() -> None:
    with pytest.raises(ArgumentError, match=r"option freeze of dyn\.interop\.tf\.jit is 'yes'"):
        dtf.jit(model(), freeze="yes")  # pyright: ignore[reportArgumentType]
