"""Operations of the table against TensorFlow, with open sizes: many share a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from dyn.errors import ShapeError
from tests.interop.tf.comparing import check, tf

SIZES = (0, 1, 2, 7, 64)


def floats(*shape: int, seed: int = 0, low: float = -2, high: float = 2) -> Any:
    return tf.constant(np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32))


def integers(*shape: int, seed: int = 0, low: int = -9, high: int = 9, dtype: str = "int32") -> Any:
    return tf.constant(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))


UNARY: dict[str, list[Callable[..., Any]]] = {
    "exponents": [tf.exp, tf.math.expm1, tf.sinh, tf.cosh, tf.tanh, tf.sigmoid, tf.math.erf, tf.math.erfc],
    "angles": [tf.sin, tf.cos, tf.atan, tf.asinh, lambda x: tf.asin(x / 2), lambda x: tf.acos(x / 2)],
    "positive": [
        lambda x: tf.sqrt(tf.abs(x)),
        lambda x: tf.math.rsqrt(tf.abs(x) + 1),
        lambda x: tf.math.log(tf.abs(x) + 1),
        lambda x: tf.math.log1p(tf.abs(x)),
        lambda x: tf.math.reciprocal(x + 4),
        lambda x: tf.math.lgamma(x + 4),
        lambda x: tf.math.digamma(x + 4),
        lambda x: tf.math.xlogy(x, tf.abs(x)),
        lambda x: tf.math.xdivy(x, x + 4),
        lambda x: tf.acosh(tf.abs(x) + 1),
        lambda x: tf.atanh(x / 3),
        lambda x: tf.math.erfinv(x / 3),
    ],
    "rounding": [tf.floor, tf.math.ceil, tf.round, tf.math.rint, tf.sign, tf.abs, tf.negative, tf.square],
    "activations": [
        tf.nn.relu,
        tf.nn.relu6,
        tf.nn.elu,
        tf.nn.selu,
        tf.nn.softplus,
        tf.nn.softsign,
        tf.nn.leaky_relu,
        tf.nn.silu,
        lambda x: tf.nn.gelu(x, approximate=True),
        lambda x: tf.nn.gelu(x, approximate=False),
    ],
    "questions": [tf.math.is_nan, tf.math.is_inf, tf.math.is_finite, lambda x: tf.logical_not(x > 0)],
    "casts": [
        lambda x: tf.cast(x, tf.int32),
        lambda x: tf.cast(x, tf.float64),
        lambda x: tf.cast(x, tf.float16),
        lambda x: tf.cast(x, tf.bfloat16),
        lambda x: tf.cast(x > 0, tf.int8),
        lambda x: tf.bitcast(x, tf.int32),
    ],
    "made like it": [
        tf.zeros_like,
        tf.ones_like,
        tf.identity,
        tf.stop_gradient,
        lambda x: tf.clip_by_value(x, -1.0, 1.0),
        lambda x: tf.fill(tf.shape(x), 3.0),
        lambda x: tf.ones([tf.shape(x)[1], 2]),
        tf.size,
        tf.rank,
        lambda x: tf.shape(x, out_type=tf.int64),
        lambda x: tf.eye(tf.shape(x)[0]),
    ],
}


@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name: str) -> None:
    functions = UNARY[name]
    check(lambda x: [function(x) for function in functions], [(floats(n, 3, seed=n),) for n in SIZES], tolerance=3e-5)


def test_binary() -> None:
    def function(x: Any, y: Any) -> Any:
        return [
            x + y,
            x - y,
            x * y,
            x / y,
            x // y,
            x % y,
            tf.maximum(x, y),
            tf.minimum(x, y),
            tf.atan2(x, y),
            tf.math.squared_difference(x, y),
            tf.math.divide_no_nan(x, y - y),
            tf.abs(x) ** y,
            tf.where(x > y, x, y),
            x < y,
            x <= y,
            x > y,
            x >= y,
            tf.equal(x, y),
            tf.not_equal(x, y),
            tf.add_n([x + y, y + x]),
            tf.math.multiply_no_nan(x, y),
            tf.raw_ops.Select(condition=x + y > 0, x=x + y, y=x - y),
        ]

    check(function, [(floats(n, 3, seed=n), floats(n, 3, seed=n + 1, low=1)) for n in SIZES])
    # An undecided broadcast: 1 meets any size, on either side.
    check(function, [(floats(a, 3, seed=a), floats(b, 1, seed=b, low=1)) for a, b in ((7, 1), (1, 7), (2, 2), (0, 1))])


def test_integers() -> None:
    def function(x: Any, y: Any) -> Any:
        return [
            x + y,
            x // y,
            x % y,
            x * y,
            tf.bitwise.bitwise_and(x, y),
            tf.bitwise.bitwise_or(x, y),
            tf.bitwise.bitwise_xor(x, y),
            tf.bitwise.invert(x),
            tf.truncatediv(x, y),
            tf.truncatemod(x, y),
            tf.bitwise.left_shift(x, tf.abs(y)),
            tf.bitwise.right_shift(x, tf.abs(y)),
            tf.math.floordiv(x, -y),
        ]

    check(function, [(integers(n, seed=n), integers(n, seed=n, low=1)) for n in SIZES])


def test_reductions() -> None:
    def function(x: Any) -> Any:
        return [
            tf.reduce_sum(x),
            tf.reduce_sum(x, 0),
            tf.reduce_mean(x, -1),
            tf.reduce_max(x, 1),
            tf.reduce_min(x, 0),
            tf.reduce_prod(x, -1, keepdims=True),
            tf.reduce_any(x > 0, 1),
            tf.reduce_all(x > 0),
            tf.argmax(x, -1),
            tf.argmin(x, 1, tf.int32),
            tf.reduce_logsumexp(x, -1),
            tf.nn.softmax(x),
            tf.nn.log_softmax(x),
            tf.math.reduce_std(x, 1),
            tf.math.reduce_variance(x, 1),
            tf.cumsum(x, 1),
            tf.cumsum(x, 0, exclusive=True),
            tf.cumsum(x, 1, reverse=True),
            tf.math.cumprod(x, 1),
            tf.nn.l2_loss(x),
            tf.norm(x, axis=1),
            tf.math.top_k(x, 2)[0],
            tf.math.top_k(x, 2)[1],
            tf.math.l2_normalize(x, -1),
        ]

    check(function, [(floats(n, 5, seed=n),) for n in SIZES], tolerance=2e-5)


def test_shapes() -> None:
    def function(x: Any) -> Any:
        n = tf.shape(x)[0]
        return [
            tf.reshape(x, [-1, 2]),
            tf.reshape(x, [n, 2, 3]),
            tf.reshape(x, [n, -1]),
            tf.transpose(x),
            tf.expand_dims(x, 1),
            tf.squeeze(x[:, None], 1),
            tf.concat([x, x + 1], 0),
            tf.concat([x, x], -1),
            tf.stack([x, x], 1),
            tf.tile(x, [2, 1]),
            tf.tile(x, [1, n]),
            tf.reverse(x, [1]),
            tf.roll(x, 1, 1),
            tf.pad(x, [[1, 2], [0, 1]]),
            tf.pad(x, [[0, n], [1, 0]], constant_values=2.0),
            tf.broadcast_to(x, [2, n, 6]),
            tf.split(x, 3, 1),
            tf.split(x, [1, 2, 3], 1),
            tf.split(x, [1, -1], 1),
            tf.unstack(x, axis=1),
            tf.range(n),
            tf.range(0, n, 2),
            tf.range(n)[:, None] * 3,
            tf.repeat(x, 2, 0),
            tf.linspace(0.0, 1.0, 5),
            tf.meshgrid(tf.range(n), tf.range(3)),
            tf.shape(tf.reshape(x, [-1])),
            tf.linalg.matrix_transpose(x),
        ]

    check(function, [(floats(n, 6, seed=n),) for n in SIZES])


def test_slices() -> None:
    def function(x: Any) -> Any:
        n = tf.shape(x)[0]
        return [
            x[:, 0],
            x[:, 1:3],
            x[:, ::-1],
            x[..., -1],
            x[:, tf.newaxis, ::2],
            x[: n // 2],
            x[n // 2 :],
            x[1:],
            x[:-1],
            tf.slice(x, [0, 1], [n, 2]),
            tf.slice(x, [0, 1], [-1, -1]),
            x[:, -3:-1],
            tf.gather(x, [0, 2, 0], axis=1),
            tf.boolean_mask(x, x[:, 0] > 0),
            tf.where(x > 0),
            x[n:],
            x[::2, 1],
            tf.one_hot(tf.range(n) % 3, 3),
            tf.one_hot(tf.range(n) - 1, n),
            tf.scatter_nd(tf.range(n)[:, None] * 2, x, [n * 2, 6]),
            tf.tensor_scatter_nd_update(x, tf.range(n // 2)[:, None], x[: n // 2] * 2),
            tf.gather_nd(x, tf.stack([tf.range(n), tf.range(n) % 6], 1)),
            tf.gather(x, tf.range(n) % 6, axis=1, batch_dims=1),
            tf.math.unsorted_segment_sum(x, tf.range(n) % 3 - 1, 2),
            tf.math.bincount(tf.range(n) % 4, minlength=4, maxlength=4),
        ]

    check(function, [(floats(n, 6, seed=n),) for n in SIZES])


def test_gather() -> None:
    def function(x: Any, i: Any) -> Any:
        return [
            tf.gather(x, i),
            tf.gather(x, i[:, None] * 0, axis=1),
            tf.nn.embedding_lookup(x, i),
            tf.gather_nd(x, i[:, None]),
            tf.tensor_scatter_nd_add(x, i[:, None], tf.gather(x, i)),
            x[i[0]],
            x[: i[0]],
        ]

    check(function, [(floats(n, 3, seed=n), integers(n + 1, low=0, high=n, seed=n)) for n in SIZES[1:]])


def test_matrices() -> None:
    def function(x: Any, w: Any) -> Any:
        return [
            tf.matmul(x, w),
            tf.matmul(w, x, transpose_a=True, transpose_b=True),
            tf.einsum("ab,bc->ca", x, w),
            tf.matmul(x[None], w[None]),
            tf.tensordot(x, w, 1),
            tf.linalg.matvec(x, w[:, 0]),
            tf.matmul(x[:, None], w[None], transpose_a=False),
            tf.einsum("ab,ab->a", x, x),
            tf.matmul(x[None, None], x[None, None], transpose_b=True),
            tf.linalg.band_part(tf.matmul(x, x, transpose_b=True), -1, 0),
        ]

    check(function, [(floats(n, 5, seed=n), floats(5, 4, seed=1)) for n in SIZES], tolerance=2e-5)


def test_images() -> None:
    kernel, deep, wide = floats(3, 3, 3, 4), floats(3, 3, 3, 2), floats(1, 1, 3, 6)

    def function(x: Any) -> Any:
        return [
            tf.nn.conv2d(x, kernel, 1, "SAME"),
            tf.nn.conv2d(x, kernel, 2, "VALID"),
            tf.nn.conv2d(x, kernel, 2, "SAME"),
            tf.nn.conv2d(x, kernel, 1, "SAME", dilations=2),
            tf.nn.conv2d(x, kernel, 1, [[0, 0], [1, 2], [0, 1], [0, 0]]),
            tf.nn.depthwise_conv2d(x, deep, [1, 1, 1, 1], "SAME"),
            tf.nn.depthwise_conv2d(x, deep, [1, 2, 2, 1], "VALID"),
            tf.nn.conv2d(x, wide, 1, "VALID"),
            tf.nn.max_pool2d(x, 3, 2, "SAME"),
            tf.nn.max_pool2d(x, 2, 2, "VALID"),
            tf.nn.avg_pool2d(x, 3, 2, "SAME"),
            tf.nn.avg_pool2d(x, 2, 1, "VALID"),
            tf.nn.bias_add(x, [1.0, 2.0, 3.0]),
            tf.nn.conv2d_transpose(
                x, floats(2, 2, 5, 3), [tf.shape(x)[0], tf.shape(x)[1] * 2, tf.shape(x)[2] * 2, 5], 2
            ),
            tf.image.resize(x, [5, 7]),
            tf.image.resize(x, [8, 3], "nearest"),
            tf.reduce_mean(x, [1, 2]),
            tf.keras.layers.UpSampling2D(2)(x),
            tf.nn.space_to_depth(x[:, :4, :4], 2),
            tf.nn.depth_to_space(tf.tile(x, [1, 1, 1, 4]), 2),
        ]

    calls = [(floats(n, h, w, 3, seed=n),) for n, h, w in ((1, 5, 7), (2, 8, 4), (7, 4, 4))]
    check(function, calls, tolerance=5e-5)


def test_padding_by_mirrors() -> None:
    def function(x: Any) -> Any:
        return [tf.pad(x, [[0, 0], [2, 1]], mode) for mode in ("REFLECT", "SYMMETRIC")]

    check(function, [(floats(n, 6, seed=n),) for n in SIZES[1:]])


def test_images_of_no_batch() -> None:
    """TensorFlow's own convolution gives no images the channels of its input."""
    made = dtf.jit(lambda x: tf.nn.max_pool2d(tf.nn.conv2d(x, floats(3, 3, 3, 4), 1, "SAME"), 2, 2, "SAME"))
    assert made(floats(0, 4, 6, 3)).shape == (0, 2, 3, 4)


def test_normalization() -> None:
    scale, offset, mean, variance = floats(3), floats(3, seed=1), floats(3, seed=2), floats(3, seed=3, low=1)

    def function(x: Any) -> Any:
        apart = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]
        together = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
        own = tf.nn.moments(x, [1, 2])
        return [apart, list(together), tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3), list(own)]

    check(function, [(floats(n, 3, 4, 3, seed=n),) for n in SIZES[1:]], tolerance=5e-5)


def test_losses() -> None:
    def function(logits: Any, labels: Any) -> Any:
        one_hot = tf.one_hot(labels, 4)
        return [
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
            tf.nn.softmax_cross_entropy_with_logits(one_hot, logits),
            tf.nn.sigmoid_cross_entropy_with_logits(one_hot, logits),
            tf.math.in_top_k(labels, logits, 2),
        ]

    check(function, [(floats(n, 4, seed=n), integers(n, low=0, high=4, seed=n)) for n in SIZES])


def test_indices_into_an_open_number_of_axes() -> None:
    """It chooses the program: TensorFlow reads it off the index's last axis."""
    table = tf.Variable(tf.reshape(tf.range(6.0), (3, 2)))

    @tf.function
    def function(x: Any, i: Any) -> Any:
        taken = tf.gather_nd(x, i)
        scattered = tf.scatter_nd(i, taken, tf.shape(x))
        return taken, tf.gather_nd(table, i), scattered, tf.tensor_scatter_nd_add(x, i, taken)

    x = tf.reshape(tf.range(6.0), (3, 2))
    indices = [[[0, 1], [2, 0]], [[1], [2]], [[0, 1]], [[2]]]
    compiled = check(function, [(x, tf.constant(one)) for one in indices], compiles=2)
    with pytest.raises(ShapeError, match="an index into an array of 2 axes is about more of them"):
        compiled(x, tf.constant([[0, 1, 2]]))


def test_rows_of_batches_of_a_variable() -> None:
    table = tf.Variable(tf.reshape(tf.range(24.0), (2, 3, 4)))

    def function(i: Any) -> Any:
        return tf.raw_ops.ResourceGather(resource=table.handle, indices=i, dtype=tf.float32, batch_dims=1)

    check(function, [(tf.constant(one, tf.int32, (2, len(one) // 2)),) for one in ([2, 1], [0, 1, 2, 2], [])])


def test_equality_of_shapes_that_may_not_broadcast() -> None:
    def f(x: Any, y: Any) -> Any:
        return x == y, x != y, tf.where(x == y, 1.0, 2.0)

    fits = [(floats(2, 3), floats(3)), (floats(2, 3), floats(1)), (floats(2, 7), floats(7)), (floats(0, 1), floats(4))]
    check(f, [*fits, (floats(2, 3), floats(4)), (floats(2, 5), floats(4)), *fits], compiles=2)
    check(lambda x: x[x > 0] == floats(1), [(floats(n),) for n in (0, 1, 7)])


def test_diagonals_of_an_open_size() -> None:
    def f(x: Any) -> Any:  # TensorFlow takes the size for -1, and says that the matrices are empty
        made = tf.linalg.diag(x, k=1)
        return made, tf.reduce_sum(tf.transpose(made, [0, 2, 1]) * 2.0, -1)

    compiled = dtf.jit(f, strict=True)
    for n in SIZES:
        made = compiled(floats(3, n))
        np.testing.assert_array_equal(made[0], tf.linalg.diag(floats(3, n), k=1))
        np.testing.assert_allclose(made[1], 2 * tf.reduce_sum(made[0], 1), atol=1e-6)
    assert compiled.cache_info().compiles == 1


def test_resizes_to_sizes_that_are_given() -> None:
    check(
        lambda x, n: [
            tf.image.resize(x, [n[0], n[1]], method, antialias=antialias)
            for method in ("bilinear", "bicubic", "area", "lanczos3", "mitchellcubic")
            for antialias in (False, True)
        ],
        [(floats(2, *sizes, 3), tf.constant(new)) for sizes, new in (((5, 6), [3, 9]), ((1, 40), [7, 1]))],
        tolerance=1e-4,
    )


def test_losses_of_sequences() -> None:
    def f(x: Any, labels: Any) -> Any:
        lengths = tf.fill([tf.shape(labels)[0]], tf.shape(labels)[1])
        return tf.nn.ctc_loss(labels, x, lengths, tf.fill(tf.shape(lengths), tf.shape(x)[0]), blank_index=0)

    calls = [
        (floats(*size, 5), integers(*words, low=1, high=5)) for size, words in (((6, 2), (2, 3)), ((9, 3), (3, 2)))
    ]
    check(f, calls, tolerance=1e-4)
