"""Calls that are left to TensorFlow: as graphs, which Python traces once, wherever they can be."""

from __future__ import annotations

from typing import Any

import pytest

import dyn.interop.tf as dtf
from tests.interop.tf.comparing import alike, tf

TEXTS = [tf.constant(words, tf.string) for words in (["a", "bc"], [], ["def"], ["a", "b", "c", "d", "e"])]
STRINGS = "a tensor of string, of which dyn has no arrays"


def call(compiled: Any, *args: Any) -> Any:
    """A call from one line, of which it is said once that TensorFlow makes it."""
    return compiled(*args)


def test_calls_of_tensorflows_are_those_of_one_graph() -> None:
    traced: list[Any] = []

    def lengths(x: Any) -> Any:
        traced.append(x)
        total = tf.constant(0)
        for length in tf.strings.length(x):
            total += length
        return total

    compiled = dtf.jit(lengths)
    with pytest.warns(dtf.FallbackWarning, match=STRINGS):
        call(compiled, TEXTS[0])
    for x in TEXTS:
        alike(call(compiled, x), tf.reduce_sum(tf.strings.length(x)))
    # For two texts, and then for any number of them.
    assert [one.shape.as_list() for one in traced] == [[2], [None]]
    assert compiled.cache_info().compiles == 0


def test_a_function_of_numbers_that_is_left_to_tensorflow() -> None:
    traced: list[Any] = []

    def shown(x: Any) -> Any:
        traced.append(x)
        return tf.strings.as_string(x * 2)

    compiled = dtf.jit(shown)
    with pytest.warns(dtf.FallbackWarning, match="AsString"):
        alike(call(compiled, tf.range(3.0)), tf.strings.as_string(tf.range(3.0) * 2))
    seen = len(traced)
    for n in (1, 0, 5, 7):
        alike(call(compiled, tf.range(float(n))), tf.strings.as_string(tf.range(float(n)) * 2))
    assert len(traced) == seen + 1


def test_a_function_of_tensorflows_is_called_as_it_is() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def upper(x: Any) -> Any:
        return tf.strings.upper(x)

    compiled = dtf.jit(upper)
    with pytest.warns(dtf.FallbackWarning, match=STRINGS):
        call(compiled, TEXTS[0])
    for x in TEXTS:
        alike(call(compiled, x), tf.strings.upper(x))
    assert upper.experimental_get_tracing_count() == 1


def test_sizes_that_python_counts_have_a_graph_each() -> None:
    traced: list[int] = []

    def joined(x: Any) -> Any:
        traced.append(x.shape[0])
        return tf.strings.join([x[n] for n in range(x.shape[0])], "-")

    compiled = dtf.jit(joined)
    with pytest.warns(dtf.FallbackWarning, match=STRINGS):
        call(compiled, TEXTS[0])
    for x in (TEXTS[3], TEXTS[2], TEXTS[0], TEXTS[3], TEXTS[2]):
        alike(call(compiled, x), tf.strings.reduce_join(x, separator="-"))
    # An open size, which it cannot count, was tried once beside the first size.
    assert traced == [2, None, None, 5, 1, 2]


def test_what_only_runs_eagerly_runs_eagerly() -> None:
    def longest(x: Any) -> Any:
        return max(x.numpy(), key=len) if len(x.numpy()) else b""

    compiled = dtf.jit(longest)
    with pytest.warns(dtf.FallbackWarning, match=STRINGS):
        call(compiled, TEXTS[0])
    assert [call(compiled, x) for x in TEXTS] == [b"bc", b"", b"def", b"a"]


def test_errors_of_a_graph_are_the_users_own() -> None:
    runs: list[Any] = []

    def numbers(x: Any) -> Any:
        runs.append(x)
        return tf.strings.to_number(x)

    compiled = dtf.jit(numbers)
    with pytest.warns(dtf.FallbackWarning, match=STRINGS):
        call(compiled, tf.constant(["1"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string: abc"):
        call(compiled, tf.constant(["abc"]))
    alike(call(compiled, tf.constant(["2"])), tf.constant([2.0]))
    assert len(runs) == 1
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        call(compiled)


def test_variables_and_gradients_of_calls_that_are_left_to_tensorflow() -> None:
    scale, count = tf.Variable(3.0), tf.Variable(0)

    def scaled(x: Any, words: Any) -> Any:
        count.assign_add(1)
        return x * scale * tf.cast(tf.size(words), tf.float32)

    compiled = dtf.jit(scaled)
    for calls, (n, words) in enumerate(zip((2, 0, 1, 4), TEXTS, strict=True), 1):
        x = tf.range(float(n))
        with tf.GradientTape() as tape:
            tape.watch(x)
            if calls == 1:
                with pytest.warns(dtf.FallbackWarning, match=STRINGS):
                    made = call(compiled, x, words)
            else:
                made = call(compiled, x, words)
        own, of_scale = tape.gradient(made, [x, scale])
        size = float(len(words))
        alike(own, tf.fill([n], 3.0 * size))
        alike(of_scale, tf.reduce_sum(x) * size)
        assert count.numpy() == calls
