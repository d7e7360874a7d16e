"""A sample of each operation that has a converter, by TensorFlow's name: inputs for a size, and a call.

Longer than most files: it is a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interop.tf.comparing import tf

raw = tf.raw_ops
SIZES = (0, 1, 2, 7, 64)
Inputs = Callable[[int], tuple[Any, ...]]


def floats(*shape: int, seed: int = 0, low: float = -2, high: float = 2) -> Any:
    return tf.constant(np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32))


def integers(*shape: int, seed: int = 0, low: int = -9, high: int = 9, dtype: str = "int32") -> Any:
    return tf.constant(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))


def bools(*shape: int, seed: int = 0) -> Any:
    return tf.constant(np.random.default_rng(seed).integers(0, 2, shape).astype(bool))


def complexes(*shape: int, seed: int = 0) -> Any:
    return tf.complex(floats(*shape, seed=seed), floats(*shape, seed=seed + 1))


INPUTS: dict[str, Inputs] = {
    "x": lambda n: (floats(n, 3, seed=n),),
    "xy": lambda n: (floats(n, 3, seed=n), floats(n, 3, seed=n + 1)),
    "xyz": lambda n: (floats(n, 3, seed=n), floats(n, 3, seed=n + 1), floats(n, 3, seed=n + 2)),
    "positive": lambda n: (floats(n, 3, seed=n, low=0.1),),
    "positives": lambda n: (floats(n, 3, seed=n, low=0.1), floats(n, 3, seed=n + 1, low=0.1)),
    "unit": lambda n: (floats(n, 3, seed=n, low=-0.9, high=0.9),),
    "i": lambda n: (integers(n, 3, seed=n),),
    "ij": lambda n: (integers(n, 3, seed=n), integers(n, 3, seed=n + 1, low=1)),
    "b": lambda n: (bools(n, 3, seed=n),),
    "bc": lambda n: (bools(n, 3, seed=n), bools(n, 3, seed=n + 1)),
    "bxy": lambda n: (bools(n, 3, seed=n), floats(n, 3, seed=n), floats(n, 3, seed=n + 1)),
    "c": lambda n: (complexes(n, 3, seed=n),),
    "image": lambda n: (floats(n, 5, 6, 3, seed=n),),
    "image, boxes": lambda n: (floats(2, n + 1, 6, 3, seed=n), floats(n, 4, seed=n, low=-0.2, high=1.2)),
    "wide image": lambda n: (floats(2, n, 5, 3, seed=n, low=-0.5, high=1.5),),
    "image, kernel": lambda n: (floats(n, 5, 6, 3, seed=n), floats(2, 3, 3, 2, seed=n)),
    "volume": lambda n: (floats(n, 4, 5, 6, 2, seed=n),),
    "volume, kernel": lambda n: (floats(n, 4, 5, 6, 2, seed=n), floats(2, 2, 2, 2, 3, seed=n)),
    "matrix": lambda n: (floats(n, 4, 4, seed=n),),
    "long matrix": lambda n: (floats(2, 5, n, seed=n),),
    "boxes": lambda n: (floats(n, 4, seed=n, low=0, high=1), tf.round(floats(n, seed=n + 1, low=-9, high=19)) / 20),
    "matrices": lambda n: (floats(2, n, 3, seed=n), floats(2, 3, n + 1, seed=n)),
    "table, index": lambda n: (floats(n, 3, seed=n), integers(n + 1, seed=n, low=0, high=max(n, 1))),
    "table, rows": lambda n: (floats(n, 3, seed=n), integers(n, seed=n, low=0, high=4)),
    "table, parts": lambda n: (floats(n, 3, seed=n), integers(n, seed=n, low=0, high=4)),
    "table, segments": lambda n: (floats(n, 3, seed=n), tf.sort(integers(n, seed=n, low=0, high=4)) * 2 + 1),
    "vector": lambda n: (integers(n, seed=n, low=0, high=9),),
    "channels": lambda n: (floats(n, 4, 5, 3, seed=n), *[floats(3, seed=k, low=0.1) for k in range(4)]),
}


@dataclass(frozen=True)
class Sample:
    """A call of operations: ``run`` of the ``inputs`` of that name, at ``sizes``, and whether it is differentiated.

    ``theirs`` is the same by operations whose gradients TensorFlow has on every processor.
    """

    name: str
    inputs: str
    run: Callable[..., Any]
    sizes: tuple[int, ...] = SIZES
    is_differentiated: bool = True
    tolerance: float = 5e-5
    theirs: Callable[..., Any] | None = None


SAMPLES: list[Sample] = []


def add(name: str, inputs: str, run: Callable[..., Any], **options: Any) -> None:
    SAMPLES.append(Sample(name, inputs, run, **options))


def add_each(names: str, inputs: str, make: Callable[[str], Callable[..., Any]], **options: Any) -> None:
    for name in names.split():
        add(name, inputs, make(name), **options)


def unary(name: str) -> Callable[..., Any]:
    operation = getattr(raw, name)
    key = "features" if name.startswith(("Relu", "Elu", "Selu", "Soft", "LeakyRelu")) else "x"
    key = {"Softmax": "logits", "LogSoftmax": "logits"}.get(name, key)
    return lambda x: operation(**{key: x})


def binary(name: str) -> Callable[..., Any]:
    operation = getattr(raw, name)
    return lambda x, y: operation(x=x, y=y)


def named(names: str, prefix: str = "") -> list[tuple[str, Callable[..., Any]]]:
    return [(prefix + name, getattr(raw, prefix + name)) for name in names.split()]


SOME = {"sizes": SIZES[1:]}
FIXED = {"is_differentiated": False}

# ---- one element of each operand -------------------------------------------------------------------------------------

add_each("Abs Neg Exp Expm1 Square Sin Cos Tan Atan Sinh Cosh Tanh Asinh Erf Erfc Sigmoid", "x", unary)
add_each("Relu Relu6 Elu Selu Softplus Softsign LeakyRelu Softmax LogSoftmax", "x", unary)
add_each("Log Log1p Sqrt Rsqrt Reciprocal Inv Lgamma Digamma", "positive", unary)
add_each("Asin Acos Atanh Erfinv", "unit", unary)
add("Acosh", "positive", lambda x: raw.Acosh(x=x + 1))
add_each("Sign Floor Ceil Rint Round IsNan IsInf IsFinite", "x", unary, is_differentiated=False)
add_each("Add AddV2 Sub Mul Maximum Minimum SquaredDifference Atan2 MulNoNan", "xy", binary)
add_each("RealDiv Div DivNoNan Pow Xlogy Xlog1py Xdivy", "positives", binary)
add_each("FloorDiv FloorMod TruncateMod", "positives", binary, is_differentiated=False)
add("NextAfter", "xy", lambda x, y: raw.NextAfter(x1=x, x2=y), **FIXED)
add_each("Less LessEqual Greater GreaterEqual Equal NotEqual", "xy", binary, is_differentiated=False)
add_each("FloorDiv FloorMod TruncateDiv TruncateMod Maximum Minimum Div", "ij", binary)
add_each("BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift", "ij", binary)
add("Invert", "i", unary("Invert"))
add_each("LogicalAnd LogicalOr", "bc", binary)
add("LogicalNot", "b", unary("LogicalNot"))
add("Polygamma", "positive", lambda x: [raw.Polygamma(a=n, x=x) for n in (0.0, 1.0)], tolerance=2e-4, **FIXED)
add("AddN", "xyz", lambda x, y, z: raw.AddN(inputs=[x, y, z]))
add("Cast", "x", lambda x: [tf.cast(x, dtype) for dtype in ("float64", "float16", "bfloat16")], tolerance=2e-2)
add("Cast", "i", lambda x: [tf.cast(x, dtype) for dtype in ("int8", "int64", "uint8", "bool", "float32", "uint16")])
add("Bitcast", "x", lambda x: raw.Bitcast(input=x, type=tf.uint32), **FIXED)
add("Select", "bxy", lambda b, x, y: raw.Select(condition=b, x=x, y=y))
add("SelectV2", "bxy", lambda b, x, y: raw.SelectV2(condition=b, t=x, e=y))
add("ClipByValue", "x", lambda x: raw.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=1.0))
add("ZerosLike OnesLike", "x", lambda x: [raw.ZerosLike(x=x), raw.OnesLike(x=x)])
add("IdentityN", "xy", lambda x, y: raw.IdentityN(input=[x, y]))
add("Identity Snapshot PreventGradient StopGradient", "x", lambda x: [
    raw.Identity(input=x), raw.Snapshot(input=x), raw.StopGradient(input=x), raw.PreventGradient(input=x)
], **FIXED)  # fmt: skip
add("Complex", "xy", lambda x, y: raw.Complex(real=x, imag=y), **FIXED)
add("Real Imag Conj ComplexAbs Angle", "c", lambda c: [
    raw.Real(input=c), raw.Imag(input=c), raw.Conj(input=c), raw.ComplexAbs(x=c), raw.Angle(input=c)
])  # fmt: skip
add_each("Exp Sin Square Neg Sqrt", "c", unary)

for _name, _run in named("ReluGrad Relu6Grad LeakyReluGrad SoftplusGrad SoftsignGrad"):
    add(_name, "xy", lambda x, y, _run=_run: _run(gradients=x, features=y), **FIXED)
for _name, _run in named("EluGrad SeluGrad"):
    add(_name, "xy", lambda x, y, _run=_run: _run(gradients=x, outputs=y), **FIXED)
for _name, _run in named("SigmoidGrad TanhGrad RsqrtGrad SqrtGrad ReciprocalGrad InvGrad"):
    add(_name, "positives", lambda y, dy, _run=_run: _run(y=y, dy=dy), **FIXED)

# ---- along axes ------------------------------------------------------------------------------------------------------

for _name in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
    _sizes = SOME if _name == "Mean" else {}
    _run = getattr(raw, _name)
    add(_name, "x", lambda x, _run=_run: [
        _run(input=x, axis=axis, keep_dims=keep) for axis in (0, 1, [0, 1], [-1], []) for keep in (False, True)
    ], is_differentiated=_name not in ("EuclideanNorm", "Prod"), **_sizes)  # fmt: skip
    if _name != "EuclideanNorm":
        add(_name, "i", lambda x, _run=_run: [_run(input=x, axis=axis) for axis in (1, [])])
add("Prod ListDiff", "positive", lambda x: raw.Prod(input=x, axis=1))
add("All Any", "b", lambda b: [
    run(input=b, axis=axis) for run in (raw.All, raw.Any) for axis in (0, 1, [0, 1], [])
])  # fmt: skip
add("ArgMax ArgMin", "x", lambda x: [run(input=x, dimension=-1) for run in (raw.ArgMax, raw.ArgMin)], **FIXED)
add("ArgMax", "i", lambda x: raw.ArgMax(input=x, dimension=1, output_type=tf.int32))
for _name, _run in named("Cumsum Cumprod"):
    add(_name, "positive", lambda x, _run=_run: [
        _run(x=x, axis=axis, exclusive=exclusive, reverse=reverse)
        for axis in (0, -1) for exclusive in (False, True) for reverse in (False, True)
    ], is_differentiated=_name == "Cumsum", sizes=(0, 1, 2, 7), tolerance=2e-4)  # fmt: skip
add("L2Loss", "x", lambda x: raw.L2Loss(t=x))
add("TopKV2", "x", lambda x: raw.TopKV2(input=x, k=2))
add("TopKV2", "i", lambda x: raw.TopKV2(input=x, k=tf.minimum(tf.shape(x)[1], 3)))
add("InTopKV2", "table, rows", lambda x, i: raw.InTopKV2(predictions=x, targets=i % 3, k=2), **FIXED)
add("SparseSoftmaxCrossEntropyWithLogits", "table, rows", lambda x, i: (
    raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=i % 3)[0]
))  # fmt: skip
add("SoftmaxCrossEntropyWithLogits", "xy", lambda x, y: (
    raw.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.nn.softmax(y))[0]
))  # fmt: skip

# ---- shapes ----------------------------------------------------------------------------------------------------------

add("Reshape", "x", lambda x: [tf.reshape(x, shape) for shape in ([-1], [3, -1], [tf.shape(x)[0], 1, 3], [-1, 3, 1])])
add("Squeeze ExpandDims", "x", lambda x: [
    raw.Squeeze(input=x[:, None], axis=[1]), raw.ExpandDims(input=x, axis=-1), raw.ExpandDims(input=x, axis=0)
])  # fmt: skip
add("Transpose", "x", lambda x: [tf.transpose(x), tf.transpose(x[None], [2, 0, 1])])
add("BroadcastTo Fill Tile", "x", lambda x: [
    raw.BroadcastTo(input=x, shape=[2, tf.shape(x)[0], 3]), raw.BroadcastTo(input=x[:, :1], shape=[tf.shape(x)[0], 4]),
    raw.Fill(dims=[tf.shape(x)[0], 2], value=1.5) * x[:, :1], raw.Tile(input=x, multiples=[2, 3]),
    raw.Tile(input=x, multiples=[tf.shape(x)[0], 1]),
], sizes=(0, 1, 2, 7))  # fmt: skip
add("Pack Unpack", "xy", lambda x, y: [
    raw.Pack(values=[x, y], axis=0), raw.Pack(values=[x, y], axis=-1), *raw.Unpack(value=x, num=3, axis=1),
    *raw.Unpack(value=tf.stack([x, y]), num=2, axis=0),
])  # fmt: skip
add("ConcatV2 ConcatOffset", "xy", lambda x, y: [
    raw.ConcatV2(values=[x, y, x], axis=0), raw.ConcatV2(values=[x, y], axis=-1)
])  # fmt: skip
add("Split SplitV", "x", lambda x: [
    *raw.Split(axis=1, value=x, num_split=3), *raw.Split(axis=0, value=tf.concat([x, x], 0), num_split=2),
    *raw.SplitV(value=x, size_splits=[1, -1], axis=-1, num_split=2),
    *raw.SplitV(value=tf.concat([x, x], 0), size_splits=[tf.shape(x)[0], -1], axis=0, num_split=2),
])  # fmt: skip
add("Pad PadV2", "x", lambda x: [
    raw.Pad(input=x, paddings=[[1, 0], [0, 2]]), raw.PadV2(input=x, paddings=[[0, 1], [1, 1]], constant_values=3.0),
    raw.Pad(input=x, paddings=[[tf.shape(x)[0], 0], [0, 0]]),
])  # fmt: skip
add("MirrorPad", "x", lambda x: [
    raw.MirrorPad(input=x, paddings=[[0, 0], [1, 2]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")
], is_differentiated=False, **SOME)  # fmt: skip
add("ReverseV2 Roll", "x", lambda x: [
    raw.ReverseV2(tensor=x, axis=[0]), raw.ReverseV2(tensor=x, axis=[-1, 0]), raw.Roll(input=x, shift=[1], axis=[0]),
    raw.Roll(input=x, shift=[-2, 1], axis=[1, 0]),
])  # fmt: skip
add("Roll InvertPermutation Empty", "x", lambda x: [
    raw.Roll(input=x, shift=tf.shape(x)[:1] // 2, axis=[0]), tf.signal.fftshift(x),
    raw.Roll(input=x, shift=tf.cast(x[:2, 0] * 9, tf.int32)[-1:], axis=[1]),
    raw.InvertPermutation(x=tf.argsort(x[:, 0])), raw.Empty(shape=tf.shape(x), dtype=tf.float32, init=True),
], is_differentiated=False, **SOME)  # fmt: skip
add("Roll", "x", lambda x: [tf.signal.fftshift(x, 0), tf.signal.ifftshift(x)])
add("Slice StridedSlice", "x", lambda x: [
    raw.Slice(input=x, begin=[0, 1], size=[-1, 2]), x[::2], x[::-1], x[:, 1], x[..., -2:], x[tf.shape(x)[0] // 2 :],
    x[:, tf.newaxis, ::-2],
])  # fmt: skip
add("StridedSliceGrad", "x", lambda x: raw.StridedSliceGrad(
    shape=[tf.shape(x)[0] * 2, 3], begin=[0, 0], end=[0, 3], strides=[2, 1], dy=x, begin_mask=1, end_mask=1
), **FIXED)  # fmt: skip
add("TensorStridedSliceUpdate", "xy", lambda x, y: raw.TensorStridedSliceUpdate(
    input=x, begin=[0, 0], end=[0, 2], strides=[1, 1], value=y[:, :2], begin_mask=1, end_mask=1
), is_differentiated=False)  # fmt: skip
add("Range", "x", lambda x: [
    tf.range(tf.shape(x)[0]), tf.range(tf.shape(x)[0], 0, -1), tf.range(1, tf.shape(x)[0], 3),
    tf.range(0.0, 1.0, 0.25), tf.range(x[0, 0], x[0, 0] + 3.0, 0.5), tf.range(2.0, x[0, 0] - 3, -0.75),
    tf.range(tf.cast(tf.shape(x)[0], tf.float32)),
], is_differentiated=False, **SOME)  # fmt: skip
add("Shape ShapeN Size Rank", "xy", lambda x, y: [
    raw.Shape(input=x), *raw.ShapeN(input=[x, y]), raw.Size(input=x), raw.Rank(input=x),
    raw.Shape(input=x, out_type=tf.int64),
], **FIXED)  # fmt: skip
add("BroadcastArgs", "xy", lambda x, y: raw.BroadcastArgs(s0=tf.shape(x), s1=tf.shape(y[:, :1])), **FIXED)
add("BroadcastGradientArgs", "xy", lambda x, y: x * y[:, :1] + y[0], **SOME)
add("InvertPermutation", "x", lambda x: raw.InvertPermutation(x=[2, 0, 1]), **FIXED)
add("EnsureShape", "x", lambda x: raw.EnsureShape(input=x, shape=[None, 3]))
add("DynamicStitch ParallelDynamicStitch DynamicPartition", "table, parts", lambda x, i: [
    *(parts := tf.dynamic_partition(x, i, 4)), *tf.dynamic_partition(x[:, None], i[:, None] // 2, 2),
    tf.dynamic_stitch(tf.dynamic_partition(tf.range(tf.shape(x)[0]), i, 4), parts),
    raw.DynamicStitch(indices=[tf.range(tf.shape(x)[0]), tf.range(tf.shape(x)[0]) + 2], data=[x, x * 2])[2:],
    raw.ParallelDynamicStitch(indices=[tf.range(tf.shape(x)[0])[:, None]], data=[x[:, None]]),
])  # fmt: skip
add("DynamicStitch ParallelDynamicStitch", "xy", lambda x, y: [
    run(indices=[[0, 2], [1]], data=[tf.stack([x, y]), x[None]])
    for run in (raw.DynamicStitch, raw.ParallelDynamicStitch)
], is_differentiated=False)  # fmt: skip

# ---- elements by their places ----------------------------------------------------------------------------------------

add("GatherV2 Gather", "table, index", lambda x, i: [
    raw.Gather(params=x, indices=i), raw.GatherV2(params=x, indices=i[:, None], axis=0),
    raw.GatherV2(params=x, indices=[2, 0], axis=1),
    raw.GatherV2(params=x, indices=i[:-1, None] % 3, axis=1, batch_dims=1),
], **SOME)  # fmt: skip
add("Slice Pad", "table, index", lambda x, i: [
    raw.Slice(input=x, begin=tf.stack([i[0], 0]), size=[-1, -1]),
    raw.Slice(input=x, begin=[0, 1], size=tf.stack([i[0], -1])),
    raw.Slice(input=x, begin=tf.stack([i[0], 1]), size=tf.stack([1, i[0] * 0 - 1])),
    raw.Pad(input=x, paddings=[[i[0], 1], [0, i[0]]]),
], **SOME)  # fmt: skip
add("GatherNd", "table, index", lambda x, i: [
    raw.GatherNd(params=x, indices=i[:, None]), raw.GatherNd(params=x, indices=tf.stack([i, i % 3], 1))
], **SOME)  # fmt: skip
add("ScatterNd", "table, rows", lambda x, i: raw.ScatterNd(indices=i[:, None], updates=x, shape=[5, 3]))
for _name, _run in named("Update Add Sub Max Min", "TensorScatter"):
    add(_name, "table, rows", lambda x, i, _run=_run: _run(
        tensor=tf.zeros([5, 3]), indices=tf.range(tf.minimum(tf.shape(i)[0], 5))[:, None], updates=x[:5]
    ), is_differentiated=not _name.endswith(("Max", "Min")))  # fmt: skip
add("OneHot", "table, rows", lambda x, i: [
    raw.OneHot(indices=i, depth=3, on_value=2.0, off_value=-1.0),
    raw.OneHot(indices=i, depth=tf.shape(x)[0], on_value=1.0, off_value=0.0, axis=0),
], **FIXED)  # fmt: skip
add("Where", "b", lambda b: raw.Where(condition=b))
for _name, _run in named("Sum Prod Max Min", "UnsortedSegment"):
    add(_name, "table, rows", lambda x, i, _run=_run: _run(data=x, segment_ids=i - 1, num_segments=3))
add("Bincount DenseBincount", "vector", lambda i: [
    raw.Bincount(arr=i, size=7, weights=tf.zeros([0], tf.float32)),
    raw.DenseBincount(input=i, size=5, weights=tf.cast(i, tf.float32)),
    raw.DenseBincount(input=i, size=9, weights=tf.zeros([0], tf.int32), binary_output=True),
])  # fmt: skip
add("Unique UniqueV2", "vector", lambda i: [*raw.Unique(x=i), *raw.UniqueV2(x=i, axis=[0])])

# ---- matrices --------------------------------------------------------------------------------------------------------

add("MatMul", "xy", lambda x, y: [
    raw.MatMul(a=x, b=y, transpose_b=True), raw.MatMul(a=x, b=y, transpose_a=True)
], tolerance=2e-4)  # fmt: skip
add("BatchMatMul BatchMatMulV2 BatchMatMulV3", "matrices", lambda x, y: [
    raw.BatchMatMul(x=x, y=y), raw.BatchMatMulV2(x=x, y=y[:1]), raw.BatchMatMulV2(x=x, y=x, adj_y=True),
    raw.BatchMatMulV3(x=x, y=y, Tout=tf.float32),
], is_differentiated=False, tolerance=2e-4)  # fmt: skip
add("BatchMatMulV2", "matrices", lambda x, y: raw.BatchMatMulV2(x=x, y=y), tolerance=2e-4)
add("Einsum", "matrices", lambda x, y: [
    raw.Einsum(inputs=[x, y], equation="bij,bjk->bik"), raw.Einsum(inputs=[x, x], equation="...j,...j->..."),
], tolerance=2e-4)  # fmt: skip
add("Einsum", "matrix", lambda a: [
    raw.Einsum(inputs=[a], equation=equation) for equation in ("bii->b", "...ii->...i", "bii->ib", "bij->j")
], tolerance=2e-4)  # fmt: skip
add("MatrixBandPart", "matrix", lambda a: [
    raw.MatrixBandPart(input=a, num_lower=low, num_upper=high) for low, high in ((-1, 0), (0, -1), (1, 2))
])  # fmt: skip
add("MatrixDiagV3 MatrixDiagPartV3 MatrixSetDiagV3", "matrix", lambda a: [
    tf.linalg.diag(a[:, 0]), tf.linalg.diag_part(a), tf.linalg.set_diag(a, a[:, 1]),
    *[tf.linalg.diag(tf.ensure_shape(a[:, 0], [None, 4]), k=k, padding_value=2) for k in (1, -2)],
    *[tf.linalg.diag_part(a, k=k) for k in (1, -1)], *[tf.linalg.set_diag(a, a[:, 1, :3], k=k) for k in (1, -1)],
])  # fmt: skip
#: Where shorter diagonals of a band lie, those above the main one and those below.
ALIGNED = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def band(a: Any, k: tuple[int, int], align: str) -> list[Any]:
    """The diagonals of matrices, and these as matrices and in the places of others."""
    part = tf.linalg.diag_part(a, k=k, align=align, padding_value=5)
    whole = tf.ensure_shape(part, [None, k[1] - k[0] + 1, None])  # TensorFlow takes an open size for -1
    known = tf.ensure_shape(a[:, :, :3], [2, 5, 3])
    return [
        part, tf.linalg.diag(whole, k=k, align=align),
        tf.linalg.set_diag(known, tf.linalg.diag_part(known, k=k, align=align) * 2, k=k, align=align),
    ]  # fmt: skip


add("MatrixDiagV3 MatrixDiagPartV3 MatrixSetDiagV3", "long matrix", lambda a: [
    *[band(a, k, align) for align in ALIGNED for k in ((-1, 1), (0, 1), (-1, 0))],
    tf.linalg.diag_part(a, k=2), tf.linalg.diag(a[0], k=1), tf.linalg.diag(a[0], k=-3, padding_value=1),
    tf.linalg.diag(a[0], k=-1, num_rows=tf.shape(a)[2] + 1, padding_value=3), tf.linalg.diag(a[0], num_cols=70),
], sizes=(3, 4, 7, 64), **FIXED)  # fmt: skip
add("MatrixDiagV2 MatrixDiagPartV2 MatrixSetDiagV2", "long matrix", lambda a: [
    raw.MatrixDiagPartV2(input=a, k=[-1, 1], padding_value=5.0),
    raw.MatrixDiagV2(
        diagonal=tf.ensure_shape(a[:, :3], [2, 3, None]), k=[-1, 1], num_rows=-1, num_cols=-1, padding_value=2.0
    ),
    raw.MatrixSetDiagV2(input=a, diagonal=raw.MatrixDiagPartV2(input=a, k=1, padding_value=0.0) * 2, k=1),
], sizes=(3, 4, 7, 64), **FIXED)  # fmt: skip
add("Cholesky", "matrix", lambda a: (
    raw.Cholesky(input=tf.matmul(a, a, transpose_b=True) + tf.eye(4))
), is_differentiated=False, tolerance=2e-4)  # fmt: skip

# ---- images ----------------------------------------------------------------------------------------------------------


def _dilated(kernel: Any, dilation: int) -> Any:
    """A kernel with zeros between its elements: without oneDNN TensorFlow has no gradients of dilated convolutions."""
    height, width, *channels = kernel.shape
    apart = tf.reshape(kernel, [height, 1, width, 1, *channels])
    apart = tf.pad(apart, [[0, 0], [0, dilation - 1], [0, 0], [0, dilation - 1], [0, 0], [0, 0]])
    whole = tf.reshape(apart, [height * dilation, width * dilation, *channels])
    return whole[: (height - 1) * dilation + 1, : (width - 1) * dilation + 1]


for _stride, _padding, _dilation in ((1, "SAME", 1), (2, "VALID", 1), (2, "SAME", 1), (1, "VALID", 2)):
    add(
        "Conv2D Conv2DBackpropInput Conv2DBackpropFilter", "image, kernel",
        lambda x, k, s=_stride, p=_padding, d=_dilation: tf.nn.conv2d(x, k, s, p, dilations=d), tolerance=2e-4, **SOME,
        theirs=lambda x, k, s=_stride, p=_padding, d=_dilation: tf.nn.conv2d(x, _dilated(k, d), s, p),
    )  # fmt: skip
add("Conv3D Conv3DBackpropInputV2 Conv3DBackpropFilterV2", "volume, kernel", lambda x, k: (
    raw.Conv3D(input=x, filter=k, strides=[1, 1, 2, 1, 1], padding="SAME")
), tolerance=2e-4, sizes=(1, 2))  # fmt: skip
add(
    "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter", "image, kernel",
    lambda x, k: [
        raw.DepthwiseConv2dNative(input=x, filter=k, strides=[1, s, s, 1], padding=p)
        for s, p in ((1, "SAME"), (2, "VALID"))
    ],
    tolerance=2e-4, sizes=(1, 2, 7),
)  # fmt: skip
for _name, _pool, _pool3 in (
    ("MaxPool", tf.nn.max_pool2d, tf.nn.max_pool3d), ("AvgPool", tf.nn.avg_pool2d, tf.nn.avg_pool3d)
):  # fmt: skip
    add(f"{_name} {_name}Grad", "image", lambda x, _pool=_pool: [
        _pool(x, k, s, p) for k, s, p in ((2, 2, "VALID"), (3, 1, "SAME"), ([2, 3], 2, "SAME"))
    ], **SOME)  # fmt: skip
    add(f"{_name}3D {_name}3DGrad", "volume", lambda x, _pool=_pool3: _pool(x, 2, 2, "SAME"), sizes=(1, 2))
add("BiasAdd BiasAddV1 BiasAddGrad", "channels", lambda x, b, *_: [
    raw.BiasAdd(value=x, bias=b), raw.BiasAddV1(value=x, bias=b), raw.BiasAddGrad(out_backprop=x)
], is_differentiated=False, tolerance=2e-4)  # fmt: skip
add("BiasAdd BiasAddGrad", "channels", lambda x, b, *_: raw.BiasAdd(value=x, bias=b), tolerance=2e-4)
for _name, _run in named("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"):
    add(f"{_name} {_name.replace('Norm', 'NormGrad')}", "channels", lambda x, s, o, m, v, _run=_run: [
        _run(x=x, scale=s, offset=o, mean=m, variance=v, is_training=False).y,
        *_run(x=x, scale=s, offset=o, mean=[], variance=[], is_training=True)[:3],
    ], is_differentiated=_name == "FusedBatchNormV3", tolerance=5e-4, **SOME)  # fmt: skip
#: With corners aligned, and with pixels' centers at halves.
CORNERS = ((False, False), (True, False), (False, True))
add("ResizeBilinear ResizeNearestNeighbor ResizeBicubic", "wide image", lambda x: [
    run(images=x, size=size, align_corners=align, half_pixel_centers=half)
    for run in (raw.ResizeBilinear, raw.ResizeNearestNeighbor, raw.ResizeBicubic)
    for size in ([7, 4], [1, 9])
    for align, half in CORNERS
], is_differentiated=False, **SOME)  # fmt: skip
add("ResizeArea", "wide image", lambda x: [
    raw.ResizeArea(images=x, size=size, align_corners=align) for size in ([7, 4], [1, 9]) for align in (False, True)
], is_differentiated=False, **SOME)  # fmt: skip
for _kernel in ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]:
    add("ScaleAndTranslate ScaleAndTranslateGrad", "wide image", lambda x, kernel=_kernel: [
        raw.ScaleAndTranslate(
            images=x, size=[4, 7], scale=scale, translation=shift, kernel_type=kernel, antialias=antialias
        )
        for scale, shift in (([0.5, 0.7], [0.3, -1.2]), ([1.5, 3.0], [-2.0, 0.5]))
        for antialias in (False, True)
    ], tolerance=2e-4, **SOME)  # fmt: skip
add("CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes", "image, boxes", lambda x, boxes: [
    tf.image.crop_and_resize(x, boxes, tf.range(tf.shape(boxes)[0]) % 2, size) for size in ([3, 4], [1, 2])
], tolerance=2e-4)  # fmt: skip
add("CropAndResize", "image, boxes", lambda x, boxes: [
    raw.CropAndResize(
        image=image, boxes=boxes, box_ind=tf.range(tf.shape(boxes)[0]) % 2, crop_size=[1, 4], method=method,
        extrapolation_value=3.0,
    )
    for method in ("bilinear", "nearest") for image in (x, tf.cast(x * 50, tf.int32), tf.cast(x, tf.float16))
], **FIXED)  # fmt: skip
for _mode in ("NEAREST", "BILINEAR"):
    add("ImageProjectiveTransformV3 ImageProjectiveTransformV2", "wide image", lambda x, mode=_mode: [
        *[
            raw.ImageProjectiveTransformV3(
                images=image, transforms=transform, output_shape=[6, 4], fill_value=3.0, interpolation=mode,
                fill_mode=fill,
            )
            for image in (x, tf.cast(tf.abs(x) * 99, tf.uint8))
            for fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
            for transform in (
                [[1.0, 0.1, 0.3, -0.1, 0.9, 0.2, 0, 0]], [[0.5, 0.3, -20.3, 0.4, 1.9, 30.2, 0.01, 0.02]] * 2,
                [[1.0, 0, 2, 0, 1, 5, -0.5, 0]],
            )
        ],
        raw.ImageProjectiveTransformV2(
            images=x, transforms=[[1.0, 0, -0.5, 0, 1, 0.5, 0, 0]], output_shape=[5, 4], interpolation=mode
        ),
    ], is_differentiated=False, **SOME)  # fmt: skip
add("ImageProjectiveTransformV3", "wide image", lambda x: raw.ImageProjectiveTransformV3(
    images=x, transforms=[[1.0, 0.1, 0.3, -0.1, 0.9, 0.2, 0, 0]], output_shape=[6, 4], fill_value=0.0,
    interpolation="BILINEAR",
), **SOME)  # fmt: skip
add("ExtractImagePatches", "image", lambda x: [
    raw.ExtractImagePatches(
        images=x, ksizes=[1, *size, 1], strides=[1, 2, stride, 1], rates=[1, rate, 1, 1], padding=padding
    )
    for size in ((1, 1), (2, 3)) for stride in (1, 2) for rate in (1, 2) for padding in ("SAME", "VALID")
], **FIXED)  # fmt: skip
add("RGBToHSV", "wide image", lambda x: [raw.RGBToHSV(images=x), raw.RGBToHSV(images=tf.round(x))], tolerance=2e-4)
add("HSVToRGB AdjustHue AdjustSaturation AdjustContrastv2", "wide image", lambda x: [
    raw.HSVToRGB(images=x), *[raw.AdjustHue(images=x, delta=delta) for delta in (0.2, -0.7)],
    *[raw.AdjustSaturation(images=x, scale=scale) for scale in (0.0, 1.5)],
    raw.AdjustContrastv2(images=x, contrast_factor=1.5),
    *[raw.HSVToRGB(images=tf.cast(x, dtype)) for dtype in (tf.float16, tf.bfloat16, tf.float64)],
    *[raw.RGBToHSV(images=tf.cast(x, dtype))[..., 1:] for dtype in (tf.float16, tf.bfloat16, tf.float64)],
], tolerance=2e-4, is_differentiated=False, **SOME)  # fmt: skip
add("LRN LRNGrad", "image", lambda x: [
    raw.LRN(input=x), raw.LRN(input=x, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75)
])  # fmt: skip
add("SpaceToBatchND BatchToSpaceND", "image", lambda x: [
    y := raw.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[0, 1], [0, 0]]),
    raw.BatchToSpaceND(input=y, block_shape=[2, 3], crops=[[0, 1], [0, 0]]),
], **SOME)  # fmt: skip
add("SpaceToDepth DepthToSpace", "image", lambda x: [
    raw.SpaceToDepth(input=x[:, :4], block_size=2), raw.DepthToSpace(input=tf.tile(x, [1, 1, 1, 4]), block_size=2)
], **SOME)  # fmt: skip

add("NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5", "boxes", lambda boxes, scores: [
    *[
        raw.NonMaxSuppressionV3(
            boxes=boxes, scores=scores, max_output_size=most, iou_threshold=overlap, score_threshold=least
        )
        for most in (0, 5, 70) for overlap, least in ((0.3, 0.1), (0.6, -1.0))
    ],
    *[
        one
        for is_padded in (False, True)
        for one in raw.NonMaxSuppressionV4(
            boxes=boxes, scores=scores, max_output_size=5, iou_threshold=0.5, score_threshold=-9.0,
            pad_to_max_output_size=is_padded,
        )
    ],
    *[
        one
        for sigma, overlap in ((0.0, 0.4), (0.3, 1.0), (0.3, 0.5))
        for least, is_padded in ((0.2, False), (-9.0, True))
        for one in raw.NonMaxSuppressionV5(
            boxes=boxes, scores=scores, max_output_size=9, iou_threshold=overlap, score_threshold=least,
            soft_nms_sigma=sigma, pad_to_max_output_size=is_padded,
        )
    ],
], **FIXED)  # fmt: skip

# ---- random numbers --------------------------------------------------------------------------------------------------

for _dtype in (tf.float32, tf.float16, tf.bfloat16, tf.float64):
    add(
        "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomGetKeyCounter", "x",
        lambda x, dtype=_dtype: [
            tf.random.stateless_uniform(tf.shape(x), [1, 2], dtype=dtype),
            tf.random.stateless_normal([tf.shape(x)[0]], [3, 4], dtype=dtype),
            tf.random.stateless_truncated_normal(tf.shape(x), [7, 8], dtype=dtype),
        ],
        **FIXED,
    )  # fmt: skip
add("StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2", "x", lambda x: [
    tf.random.stateless_uniform(tf.shape(x), [5, 6], low, high, dtype)
    for low, high, dtype in (
        (0, 10, tf.int32), (-(2**31), 2**31 - 1, tf.int32), (-(2**63), 2**63 - 1, tf.int64), (3, 10**10, tf.int64),
        *[(None, None, dtype) for dtype in (tf.int32, tf.uint32, tf.int64, tf.uint64)],
    )
], **FIXED)  # fmt: skip
add("StatelessRandomGammaV3", "x", lambda x: [
    tf.random.stateless_gamma(tf.shape(x), [5, 4], tf.constant(alpha, dtype), dtype=dtype)
    for alpha in ([0.3, 1.0, 2.5], 0.7) for dtype in (tf.float32, tf.float64, tf.float16)
], tolerance=2e-4, **FIXED)  # fmt: skip

# ---- more rows, lengths and places -----------------------------------------------------------------------------------

add("CumulativeLogsumexp", "x", lambda x: tf.math.cumulative_logsumexp(x, 1))
for _name, _run in named("Sum Mean Prod Max Min", "Segment"):
    add(_name, "table, segments", lambda x, i, _run=_run: [
        _run(data=x, segment_ids=i), _run(data=tf.cast(x * 5, tf.int32), segment_ids=i),
    ])  # fmt: skip
add("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN", "table, index", lambda x, i: [
    run(data=x, indices=i, segment_ids=tf.range(tf.shape(i)[0]) // 2)
    for run in (raw.SparseSegmentSum, raw.SparseSegmentMean, raw.SparseSegmentSqrtN)
], is_differentiated=False, **SOME)  # fmt: skip
add("Bucketize", "x", lambda x: raw.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.5]), **FIXED)
add("LowerBound UpperBound", "x", lambda x: [
    run(sorted_inputs=tf.sort(x, 1), values=x) for run in (raw.LowerBound, raw.UpperBound)
], **FIXED)  # fmt: skip
add("ReverseSequence", "table, rows", lambda x, i: raw.ReverseSequence(input=x, seq_lengths=i % 4, seq_dim=1))
add("UniqueWithCounts UniqueWithCountsV2", "vector", lambda i: [
    *raw.UniqueWithCounts(x=i), *raw.UniqueWithCountsV2(x=i, axis=[0])
])  # fmt: skip
add("DenseBincount", "i", lambda i: raw.DenseBincount(input=tf.abs(i), size=5, weights=tf.zeros([0], tf.int32)))
add("CheckNumerics", "x", lambda x: raw.CheckNumerics(tensor=x, message="finite"))
add("ResizeBilinearGrad ResizeNearestNeighborGrad ResizeBicubicGrad", "wide image", lambda x: [
    run(images=x, size=[7, 4], align_corners=align, half_pixel_centers=half)
    for run in (raw.ResizeBilinear, raw.ResizeNearestNeighbor, raw.ResizeBicubic)
    for align, half in CORNERS
], sizes=(1, 2, 7))  # fmt: skip
add("MirrorPadGrad", "x", lambda x: tf.pad(x, [[0, 0], [1, 2]], "REFLECT"), **SOME)

# ---- linear algebra, Fourier transforms, statistics ------------------------------------------------------------------


def regular(a: Any) -> Any:
    return tf.matmul(a, a, transpose_b=True) + tf.eye(4) * 3


add("MatrixInverse MatrixDeterminant LogMatrixDeterminant", "matrix", lambda a: [
    raw.MatrixInverse(input=regular(a)), raw.MatrixInverse(input=regular(a), adjoint=True), tf.linalg.det(regular(a)),
    tf.linalg.slogdet(regular(a))[1],
], tolerance=1e-3, sizes=(0, 1, 2))  # fmt: skip
add("MatrixSolve MatrixTriangularSolve", "matrix", lambda a: [
    raw.MatrixSolve(matrix=regular(a), rhs=a), raw.MatrixSolve(matrix=regular(a), rhs=a, adjoint=True),
    *[
        raw.MatrixTriangularSolve(matrix=regular(a), rhs=a, lower=lower, adjoint=adjoint)
        for lower in (False, True) for adjoint in (False, True)
    ],
], tolerance=1e-3, sizes=(0, 1, 2), is_differentiated=False)  # fmt: skip
add("SelfAdjointEigV2 Svd Qr", "matrix", lambda a: [
    raw.SelfAdjointEigV2(input=regular(a), compute_v=False)[0], raw.Svd(input=a, compute_uv=False)[0],
    tf.abs(raw.Qr(input=a)[1]),
], tolerance=1e-3, sizes=(0, 1, 2), is_differentiated=False)  # fmt: skip
add("Cross", "xy", lambda x, y: raw.Cross(a=x, b=y))
add("FFT IFFT FFT2D IFFT2D FFT3D IFFT3D", "c", lambda c: [
    run(input=x) for run, x in (
        (raw.FFT, c), (raw.IFFT, c), (raw.FFT2D, c[None]), (raw.IFFT2D, c[None]), (raw.FFT3D, c[None]),
        (raw.IFFT3D, c[None]),
    )
], sizes=(1, 2, 7), tolerance=2e-4)  # fmt: skip
add("RFFT IRFFT RFFT2D IRFFT2D RFFT3D IRFFT3D", "x", lambda x: [
    raw.RFFT(input=x, fft_length=[3]), raw.IRFFT(input=tf.signal.rfft(x), fft_length=[2]),
    y := raw.RFFT2D(input=x[None], fft_length=[tf.shape(x)[0], 3]),
    raw.IRFFT2D(input=y, fft_length=[tf.shape(x)[0], 3]),
    z := raw.RFFT3D(input=x[None], fft_length=[1, tf.shape(x)[0], 3]),
    raw.IRFFT3D(input=z, fft_length=[1, tf.shape(x)[0], 3]),
], sizes=(1, 2, 7), tolerance=2e-4, **FIXED)  # fmt: skip
add("Ndtri", "x", lambda x: raw.Ndtri(x=tf.sigmoid(x)), tolerance=2e-4, **FIXED)
add("PopulationCount ApproximateEqual", "ij", lambda i, j: [
    raw.PopulationCount(x=i), raw.ApproximateEqual(x=tf.cast(i, tf.float32), y=tf.cast(j, tf.float32), tolerance=2.5)
])  # fmt: skip

#: Operations that other tests run: those of functions, loops, lists, variables, and draws without a seed.
_ELSEWHERE = """
    Assert Case StatelessCase If StatelessIf While StatelessWhile PartitionedCall StatefulPartitionedCall
    OptionalNone OptionalFromValue OptionalGetValue ReadVariableOp AssignVariableOp AssignAddVariableOp
    AssignSubVariableOp VarIsInitializedOp VariableShape DisableCopyOnRead ResourceGather ResourceGatherNd
    ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterMax ResourceScatterMin ResourceScatterUpdate
    ResourceScatterNdAdd ResourceScatterNdUpdate ResourceScatterNdMax ResourceScatterNdMin
    ResourceStridedSliceAssign EmptyTensorList TensorListConcatV2 TensorListElementShape TensorListFromTensor
    TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListReserve
    TensorListResize TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
    TensorListStack
    RandomUniform RandomStandardNormal RandomUniformInt RandomShuffle TruncatedNormal Multinomial
    StatelessRandomGetAlg
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
    FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient
    SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReduceSum SparseReorder
    SparseReshape SparseSegmentMeanGrad SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad
    SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentSumGradV2
    SparseSegmentSumWithNumSegments SparseTensorDenseAdd SparseTensorDenseMatMul SparseToDense
"""
ELSEWHERE = frozenset(_ELSEWHERE.split())


def names(samples: Iterable[Sample] = ()) -> set[str]:
    """The operations that the samples are of."""
    return {name for sample in (samples or SAMPLES) for name in sample.name.split()}
