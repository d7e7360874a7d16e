"""What TensorFlow's kernels find in data: integers divided by 0, places that lists do not have, and NaN."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.interop.tf as dyn_tf
from dyn.errors import DomainError, OutOfRangeError, ShapeError
from tests.interop.tf.comparing import alike, check, tf


def raises(compiled: Any, function: Any, args: tuple[Any, ...], error: type[Exception], text: str) -> None:
    """Assert that TensorFlow raises for a call, and dyn with this text, of which the place is left out."""
    with pytest.raises(tf.errors.OpError):
        function(*args)
    with pytest.raises(error) as caught:
        compiled(*args)
    lines = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
    assert re.sub(r" at \w+\.py:\d+", "", "\n".join(lines)) == text


# ---- integers divided by 0 -------------------------------------------------------------------------------------------

BY_ZERO = "integer division by zero.\n  help: divide by what is not 0."
DIVISIONS = [
    tf.math.floordiv, tf.math.floormod, tf.truncatediv, tf.truncatemod, lambda a, b: tf.raw_ops.Div(x=a, y=b),
]  # fmt: skip


@pytest.mark.parametrize("function", DIVISIONS, ids=["floordiv", "floormod", "truncatediv", "truncatemod", "div"])
def test_integers_divided_by_zero(function: Any) -> None:
    def pair(a: list[int], b: list[int]) -> tuple[Any, ...]:
        return tf.constant(a, tf.int32), tf.constant(b, tf.int32)

    compiled = check(function, [pair([7, -8], [2, 3]), pair([], []), pair([5], [-2]), pair([7, -8, 9], [-2])])
    raises(compiled, function, pair([7, -8], [0, 3]), DomainError, BY_ZERO)
    alike(compiled(*pair([], [0])), function(*pair([], [0])))  # of nothing by 0 there is no quotient
    assert compiled.cache_info().compiles == 1


def test_floats_divided_by_zero_are_infinities() -> None:
    check(lambda a, b: (a / b, a // b), [(tf.constant([1.0, -1.0]), tf.constant([0.0, 2.0]))])


def test_integers_divided_by_zero_in_a_loop_and_a_branch() -> None:
    count = tf.Variable(0)

    @tf.function
    def f(a: Any, b: Any) -> Any:
        total = tf.constant(0)
        for i in tf.range(tf.shape(a)[0]):
            if a[i] > 0:
                total += a[i] // b[i]
        count.assign(total)
        return total

    def pair(a: list[int], b: list[int]) -> tuple[Any, ...]:
        return tf.constant(a, tf.int32), tf.constant(b, tf.int32)

    # Where the branch is not taken, nothing is divided.
    compiled = check(f, [pair([7, -8], [2, 0]), pair([], []), pair([5], [-2]), pair([1, 2, 0], [1, 1, 0])])
    raises(compiled, f, pair([7, 8, 9], [2, 0, 3]), DomainError, BY_ZERO)
    assert count.numpy() == 3


# ---- places of lists -------------------------------------------------------------------------------------------------

PLACES = "\n  help: use an index that the axis has."


def place(n: int) -> Any:
    return tf.constant(n)


def test_places_that_a_list_does_not_have() -> None:
    @tf.function
    def writes(x: Any, i: Any) -> Any:
        return tf.TensorArray(tf.float32, 2).write(i, tf.reduce_sum(x)).stack()

    @tf.function
    def reads(x: Any, i: Any) -> Any:
        return tf.TensorArray(tf.float32, tf.shape(x)[0]).unstack(x).read(i)

    x = tf.constant([1.0, 2.0])
    compiled = check(writes, [(x, place(0)), (x, place(1)), (x[:0], place(1)), (x[:1], place(0))])
    for n, said in ((2, "index_above is 1 + the greatest index = 3"), (-1, "index_below is minus the least index = 1")):
        text = f"trying to modify element {n} in a list with 2 elements.\n  {said}{PLACES}"
        raises(compiled, writes, (x, place(n)), OutOfRangeError, text)
    compiled = check(reads, [(x, place(0)), (x, place(1)), (x[:1], place(0)), (tf.range(7.0), place(6))])
    said = "x_0 is x.shape[0] = 2\n  index_above is 1 + the greatest index = 3"
    text = f"trying to access element 2 in a list with 2 elements.\n  {said}{PLACES}"
    raises(compiled, reads, (x, place(2)), OutOfRangeError, text)


def test_places_that_a_list_does_not_have_in_a_loop() -> None:
    @tf.function
    def f(x: Any, steps: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 2)
        for i in tf.range(steps):
            rows = rows.write(i, tf.reduce_sum(x))
        return rows.stack()

    x = tf.constant([1.0, 2.0])
    compiled = check(f, [(x, place(2)), (x[:0], place(1)), (x[:1], place(2))])
    text = (
        "trying to modify an element that a list does not have.\n  fault is 1 where that is so = 1\n"
        "  help: use a place that the list has."
    )
    raises(compiled, f, (x, place(5)), OutOfRangeError, text)


def test_places_that_are_proved_to_be_there_are_not_looked_at() -> None:
    def f(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, tf.shape(x)[0])
        for i in tf.range(tf.shape(x)[0]):
            rows = rows.write(i, x[i] * 2)
        return rows.stack()

    compiled = check(f, [(tf.range(float(n)),) for n in (3, 1, 5)])
    assert "measure" not in compiled.lower(tf.range(3.0)).as_text("dhlo")


# ---- counts ----------------------------------------------------------------------------------------------------------


def test_counts_of_numbers_below_zero() -> None:
    def f(x: Any) -> Any:
        return tf.math.bincount(x), tf.math.bincount(x, minlength=5), tf.math.bincount(x, maxlength=2)

    compiled = check(f, [(tf.constant(x, tf.int32),) for x in ([1, 2, 2], [], [0], [4, 4, 9, 0])])
    text = "bincount of a number below 0.\n  help: count numbers that are not negative."
    raises(compiled, f, (tf.constant([1, -2, 2]),), DomainError, text)


# ---- NaN -------------------------------------------------------------------------------------------------------------


def mixed(*shape: int, dtype: str = "float32") -> Any:
    """Numbers, infinities and NaN."""
    random = np.random.default_rng(sum(shape))
    made = random.normal(size=shape)
    for value in (np.inf, -np.inf, np.nan, np.nan):
        made[random.uniform(size=shape) < 0.2] = value
    return tf.cast(made, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_in_the_places_of_the_greatest_and_the_least(dtype: str) -> None:
    def f(x: Any) -> Any:
        return tf.argmax(x, 1), tf.argmin(x, 1), tf.argmax(tf.transpose(x), 0), tf.argmin(x, 1, tf.int32)

    calls = [(mixed(n, m, dtype=dtype),) for n, m in ((3, 5), (0, 4), (1, 1), (33, 65), (2, 300))]
    check(f, [*calls, (tf.cast([[np.nan] * 3, [-np.inf, np.nan, -np.inf], [np.nan, np.inf, np.inf]], dtype),)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_in_pools(dtype: str) -> None:
    def f(x: Any) -> Any:
        most = tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.nn.max_pool2d(x, 2, 1, "VALID")
        # Of nothing but -inf TensorFlow has the least number; of float16 -inf where the processor computes with these.
        most = tuple([tf.maximum(one, one.dtype.min) for one in most])
        return *most, tf.nn.avg_pool2d(x, 2, 1, "SAME")

    check(f, [(mixed(*shape, dtype=dtype),) for shape in ((2, 5, 6, 3), (0, 4, 4, 2), (1, 3, 2, 1), (3, 8, 9, 16))])


def test_gradients_of_pools_pass_nan_by() -> None:
    """As TensorFlow's do, but for windows that begin with one."""

    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = tf.nn.max_pool2d(x, 2, 2, "SAME")
        return tape.gradient(made, x)

    nan, inf = np.nan, np.inf
    rows = [[1.0, nan, nan, nan, -inf, -inf], [3.0, 2.0, nan, nan, -inf, nan], [inf, nan, 5.0, 4.0, 0.0, nan]]
    x = tf.reshape(tf.constant(rows), (1, 3, 6, 1))
    compiled = check(f, [(x,), (x[:, 1:],), (tf.tile(x, (2, 1, 1, 3)),)])
    assert compiled(x[:0]).shape == (0, 3, 6, 1)  # TensorFlow's kernel of oneDNN ends the process here
    assert compiled.cache_info().compiles == 1


# ---- tracebacks ------------------------------------------------------------------------------------------------------


def test_tracebacks_end_in_the_users_code() -> None:
    added, gathered = dyn_tf.jit(lambda x, y: x + y), dyn_tf.jit(lambda x: tf.gather(x, [7]))
    added(tf.ones(3), tf.ones(3))

    def files(call: Any, error: type[Exception]) -> list[str]:
        with pytest.raises(error) as caught:
            call()
        return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]

    own = str(Path(dyn.__file__).parent)
    for call, error in (
        (lambda: added(tf.ones(3), tf.ones(4)), ShapeError),
        (lambda: gathered(tf.ones(3)), OutOfRangeError),
    ):
        assert set(files(call, error)) == {__file__}
        with dyn.config.override(full_tracebacks=True):
            assert [file for file in files(call, error) if file.startswith(own)]
