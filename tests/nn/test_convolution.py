"""Convolutions and pools: every layout, any sizes, against the reference, a slow NumPy loop and JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dyn
from dyn import nn
from dyn.dtypes import dtype as dtype_of
from tests.canary import compile_traced, run_compiled
from tests.numpy.differential import compare, run, trace

Array = np.ndarray[Any, Any]
Require = Callable[[str], ModuleType]


@pytest.fixture
def lax(require_module: Require) -> Any:
    """``jax.lax`` in double precision."""
    jax = require_module("jax")
    with jax.enable_x64(True):
        yield jax.lax


# ---- random configurations -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A convolution: its options and the sizes of several calls."""

    numbers: tuple[str, str, str]
    options: dict[str, Any]
    groups: int
    batch_groups: int
    kernel: tuple[int, ...]
    channels: int
    features: int
    images: tuple[tuple[int, ...], ...]
    dtype: str
    static: bool

    def arrays(self, image: tuple[int, ...], rng: np.random.Generator) -> tuple[Array, Array]:
        """An image ``[batch, *places]`` and a kernel, in the case's layouts."""
        sizes = dict(zip(self.spatial(), image[1:], strict=True))
        left = sizes | {"N": image[0] * self.batch_groups, "C": self.channels * self.groups}
        right = dict(zip(self.spatial(), self.kernel, strict=True))
        right |= {"I": self.channels, "O": self.features * self.groups * self.batch_groups}
        low = 0 if self.dtype.startswith("u") else -3
        element = dtype_of(self.dtype).np
        lhs = rng.integers(low, 4, [left[c] for c in self.numbers[0]]).astype(element)
        return lhs, rng.integers(low, 4, [right[c] for c in self.numbers[1]]).astype(element)

    def spatial(self) -> str:
        return "".join(c for c in self.numbers[1] if c not in "OI")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(0, 3))
    letters = "HWD"[:rank]
    layouts: list[tuple[str, str, str]] = [
        (f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        (f"NC{letters}", f"OI{letters}", f"NC{letters}"),
    ]
    left, right, out = ("".join(draw(st.permutations(first + letters))) for first in ("NC", "OI", "NC"))
    numbers = draw(st.sampled_from([*layouts, *layouts, (left, right, out)]))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    dilated = draw(st.booleans())
    by_name = not dilated and draw(st.booleans())
    options: dict[str, Any] = {
        "window_strides": each(1, 3),
        "padding": draw(st.sampled_from(["SAME", "VALID", "SAME_LOWER"]))
        if by_name
        else tuple(zip(each(-1, 3), each(-1, 3), strict=True)),
        "lhs_dilation": each(1, 3) if dilated else (1,) * rank,
        "rhs_dilation": each(1, 2),
    }
    groups, batch_groups = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)]))
    sizes = st.sampled_from([0, 1, 2, 3, 5, 7, 12, 19])
    images = tuple(tuple(draw(sizes) for _ in range(rank + 1)) for _ in range(3))
    channels, features = draw(st.sampled_from([1, 2, 5, 17])), draw(st.sampled_from([1, 2, 18]))
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "bfloat16", "int32", "uint8"]))
    return Case(
        numbers, options, groups, batch_groups, each(1, 4), channels, features, images, dtype, draw(st.booleans())
    )


def specs(case: Case) -> tuple[str, str]:
    """The types that are traced: of sizes only the kernel's are known, where it is static."""
    rng = np.random.default_rng(0)
    lhs, rhs = case.arrays(case.images[0], rng)
    image = " ".join(c.lower() for c in case.numbers[0])
    kernel = [str(n) if case.static else f"k{c.lower()}" for c, n in zip(case.numbers[1], rhs.shape, strict=True)]
    if case.static:
        image = " ".join(
            str(n) if c == "C" else c.lower() for c, n in zip(case.numbers[0], lhs.shape, strict=True)
        )  # fmt: skip
    return f"{case.dtype} {image}", f"{case.dtype} {' '.join(kernel)}"


def program_of(case: Case) -> Callable[..., Any]:
    return lambda xp, x, w: nn.conv(
        x, w, **case.options, dimension_numbers=case.numbers,
        feature_group_count=case.groups, batch_group_count=case.batch_groups,
    )  # fmt: skip


def close(actual: Array, wanted: Array, terms: int) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if actual.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, wanted)
    else:
        eps = {2: 2.0**-7, 4: 2.0**-22, 8: 2.0**-50}[actual.dtype.itemsize]
        a, b = actual.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=eps, atol=9 * terms * eps if eps < 1e-3 else eps)


def slowly(x: Array, w: Array, case: Case, pads: tuple[tuple[int, int], ...]) -> Array:
    """A convolution by its definition, a product at a time."""
    letters = case.spatial()
    left = x.transpose([case.numbers[0].index(c) for c in "NC" + letters]).astype(np.float64)
    right = w.transpose([case.numbers[1].index(c) for c in "OI" + letters]).astype(np.float64)
    strides, base, spread = (case.options[n] for n in ("window_strides", "lhs_dilation", "rhs_dilation"))
    counts: list[int] = []
    for n, k, s, (low, high), b, d in zip(left.shape[2:], right.shape[2:], strides, pads, base, spread, strict=True):
        padded = (max((n - 1) * b + 1, 0) if n else 0) + low + high
        counts.append(max((padded - (k - 1) * d - 1) // s + 1, 0))
    batch, features = left.shape[0] // case.batch_groups, right.shape[0] // (case.groups * case.batch_groups)
    result = np.zeros((batch, right.shape[0], *counts))
    for o, place in itertools.product(range(right.shape[0]), itertools.product(*map(range, counts))):
        g = o // features
        rows = slice(g * batch, (g + 1) * batch) if case.batch_groups > 1 else slice(None)
        first = g * case.channels if case.groups > 1 else 0
        for taps in itertools.product(*map(range, right.shape[2:])):
            at = [p * s + t * d - low for p, s, t, d, (low, _) in zip(place, strides, taps, spread, pads, strict=True)]
            if all(a >= 0 and a % b == 0 and a // b < n for a, b, n in zip(at, base, left.shape[2:], strict=True)):
                pixel = left[rows, first : first + case.channels, *[a // b for a, b in zip(at, base, strict=True)]]
                result[:, o, *place] += pixel @ right[o, :, *taps]
    return result.transpose([("NC" + letters).index(c) for c in case.numbers[2]])


@given(case=cases(), seed=st.integers(0, 9))
@settings(max_examples=40)
def test_random_convolutions(case: Case, seed: int) -> None:
    check(case, seed)


def check(case: Case, seed: int) -> None:
    """Compile and run a convolution at several sizes, and compare it with the reference."""
    traced = trace(program_of(case), *specs(case))
    program = compile_traced(traced, [])
    rng = np.random.default_rng(seed)
    for number, image in enumerate(case.images):
        x, w = case.arrays(image, rng)
        (wanted,) = run(traced, [x, w])
        (actual,) = run_compiled(program, [x, w])
        close(actual, wanted, w.size // max(case.features, 1))
        if number == 0 and not isinstance(case.options["padding"], str) and case.dtype == "float64":
            close(wanted, slowly(x, w, case, case.options["padding"]), w.size)


@pytest.mark.parametrize("numbers", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NCH", "OIH", "NHC")])
@pytest.mark.parametrize("known", [True, False], ids=["groups are a number", "groups are a size"])
def test_undeclared_groups(numbers: tuple[str, str, str], known: bool) -> None:
    """One compile for one channel and one feature a group and for more of either, however many groups there are."""
    at, spatial = numbers[0].index("C"), len(numbers[0]) - 2

    def program(xp: Any, x: Any, w: Any) -> Any:
        groups = 9 if known else x.shape[at] // w.shape[numbers[1].index("I")]
        y = nn.conv(x, w, (1,) * spatial, "SAME", dimension_numbers=numbers, feature_group_count=groups)
        return (nn.relu(y),)

    traced = trace(
        program,
        *[f"float64 {' '.join(f'{n}{c}' for c in axes)}".lower() for n, axes in zip("xw", numbers, strict=False)],
    )
    compiled = compile_traced(traced, [])
    rng = np.random.default_rng(0)
    places = "HW"[:spatial]
    for groups, channels, features, size in itertools.product(
        (9,) if known else (1, 2, 9, 20), (1, 2), (1, 3), (0, 1, 6)
    ):
        left = {"N": 2, "C": groups * channels, **dict.fromkeys(places, size)}
        right = {"I": channels, "O": groups * features, **dict.fromkeys(places, 3)}
        x, w = (
            rng.integers(-3, 4, [sizes[c] for c in axes]).astype("f8")
            for sizes, axes in ((left, numbers[0]), (right, numbers[1]))
        )
        (actual,), (wanted,) = run_compiled(compiled, [x, w]), run(traced, [x, w])
        np.testing.assert_array_equal(actual, wanted)


@given(case=cases())
@settings(max_examples=15)
def test_random_convolutions_agree_with_jax(case: Case, require_module: Require) -> None:
    jax = require_module("jax")
    traced = trace(program_of(case), *specs(case))
    rng = np.random.default_rng(0)
    x, w = case.arrays(tuple(max(n, 1) for n in case.images[0]), rng)
    (actual,) = run(traced, [x, w])
    if min(actual.shape, default=1) == 0:
        return
    with jax.enable_x64(True):
        wanted = jax.lax.conv_general_dilated(
            x, w, **case.options, dimension_numbers=case.numbers, feature_group_count=case.groups,
            batch_group_count=case.batch_groups,
        )  # fmt: skip
    close(actual, np.asarray(wanted), w.size)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 4))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    padding = tuple((min(a, b), max(a, b)) for a, b in zip(each(-1, 3), each(-1, 3), strict=True))
    return {
        "window": each(1, 4), "strides": each(1, 3), "padding": padding, "base_dilations": each(1, 2),
        "window_dilations": each(1, 2), "combine": draw(st.sampled_from(["maximum", "minimum", "add", "multiply"])),
    }  # fmt: skip


@given(attrs=windows(), dtype=st.sampled_from(["float32", "float64", "float16", "int8", "uint32"]), data=st.data())
@settings(max_examples=30)
def test_random_windows(attrs: dict[str, Any], dtype: str, data: st.DataObject, require_module: Require) -> None:
    from dyn.numpy._operands import emit

    rank = len(attrs["window"])
    traced = trace(lambda xp, x: emit("reduce_window", x, **attrs), f"{dtype} {' '.join('abcd'[:rank])}")
    program = compile_traced(traced, [])
    rng = np.random.default_rng(0)
    for _ in range(3):
        shape = tuple(data.draw(st.sampled_from([0, 1, 2, 5, 7, 18])) for _ in range(rank))
        x = rng.integers(0 if dtype[0] == "u" else -2, 3, shape).astype(dtype)
        (wanted,) = run(traced, [x])
        np.testing.assert_array_equal(run_compiled(program, [x])[0], wanted)
        if wanted.size == 0 or x.size == 0 or dtype == "float16":
            continue
        jax = require_module("jax")
        monoid = {
            "maximum": jax.lax.max, "minimum": jax.lax.min, "add": jax.lax.add, "multiply": jax.lax.mul,
        }[attrs["combine"]]  # fmt: skip
        with jax.enable_x64(True):
            init = {"maximum": -np.inf, "minimum": np.inf, "add": 0, "multiply": 1}[attrs["combine"]]
            if dtype[0] in "iu" and not np.isfinite(init):
                init = np.iinfo(dtype).min if init < 0 else np.iinfo(dtype).max
            theirs = jax.lax.reduce_window(
                x, np.array(init, dtype), monoid, attrs["window"], attrs["strides"], attrs["padding"],
                attrs["base_dilations"], attrs["window_dilations"],
            )  # fmt: skip
        np.testing.assert_array_equal(wanted, np.asarray(theirs))


# ---- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("transpose_kernel", [False, True])
def test_conv_transpose(padding: str, transpose_kernel: bool, lax: Any) -> None:
    for stride, window in [(1, 3), (2, 3), (2, 2), (3, 2)]:
        kernel = np.random.default_rng(0).normal(size=(window, window, 3, 3))

        def program(xp: Any, x: Any, s: int = stride, k: Array = kernel) -> Any:
            return nn.conv_transpose(x, k, s, padding, transpose_kernel=transpose_kernel)

        def oracle(xp: Any, x: Array, s: int = stride, k: Array = kernel) -> Any:
            return np.asarray(lax.conv_transpose(x, k, (s, s), padding, transpose_kernel=transpose_kernel))

        compare(program, "float64 n h 5 3", sizes=(1, 2, 7), oracle=oracle)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_max_and_min_pool(layout: str, dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        options: dict[str, Any] = {"dimension_numbers": layout}
        return (
            nn.max_pool(x, 2, 2, **options),
            nn.max_pool(x, (3, 2), (2, 1), "SAME", **options),
            nn.min_pool(x, 2, 1, [(1, 0), (0, 1)], window_dilation=2, **options),
        )

    def oracle(xp: Any, x: Array) -> Any:
        axes = [layout.index(c) for c in "HW"]
        return (
            pooled(x, axes, (2, 2), (2, 2), ((0, 0), (0, 0)), np.maximum),
            pooled(x, axes, (3, 2), (2, 1), tuple(same(x.shape[a], w, s) for a, w, s in zip(axes, (3, 2), (2, 1))),  # noqa: B905
                   np.maximum),
            pooled(x, axes, (2, 2), (1, 1), ((1, 0), (0, 1)), np.minimum, spread=2),
        )  # fmt: skip

    compare(program, f"{dtype} n {'h w 3' if layout == 'NHWC' else '3 h w'}", sizes=(0, 1, 2, 7), oracle=oracle)


def same(size: int, window: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def pooled(
    x: Array, axes: list[int], window: Any, strides: Any, pads: Any, fold: Any, spread: int = 1, fill: Any = None
) -> Array:
    """Windows of the two ``axes``, an element at a time."""
    if fill is None:
        low = fold is np.maximum
        if x.dtype.kind == "b":
            fill = not low
        elif x.dtype.kind in "iu":
            fill = np.iinfo(x.dtype).min if low else np.iinfo(x.dtype).max
        else:
            fill = -np.inf if low else np.inf
    widths = [(0, 0)] * x.ndim
    for axis, pad in zip(axes, pads, strict=True):
        widths[axis] = pad
    padded = np.pad(x, widths, constant_values=fill)
    shape = list(x.shape)
    for axis, w, s in zip(axes, window, strides, strict=True):
        shape[axis] = max((padded.shape[axis] - (w - 1) * spread - 1) // s + 1, 0)
    result = np.full(shape, fill, x.dtype)
    for place in itertools.product(*(range(shape[a]) for a in axes)):
        at: list[Any] = [slice(None)] * x.ndim
        for axis, p in zip(axes, place, strict=True):
            at[axis] = p
        for taps in itertools.product(*map(range, window)):
            source = list(at)
            for axis, p, s, t in zip(axes, place, strides, taps, strict=True):
                source[axis] = p * s + t * spread
            result[tuple(at)] = fold(result[tuple(at)], padded[tuple(source)])
    return result


def test_avg_pool() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            nn.avg_pool(x, 2, 2),
            nn.avg_pool(x, 3, 2, "SAME"),
            nn.avg_pool(x, 3, 2, "SAME", count_include_pad=False),
            nn.avg_pool(x, (2, 1), padding=[(1, 1), (0, 0)], count_include_pad=False),
        )

    def oracle(xp: Any, x: Array) -> Any:
        def total(x: Array, window: Any, strides: Any, pads: Any) -> Array:
            return pooled(x, [1, 2], window, strides, pads, np.add, fill=0)

        ones, pads = np.ones_like(x), tuple(same(n, 3, 2) for n in x.shape[1:3])
        wide = ((3, 3), (2, 2), pads)
        tall = ((2, 1), (1, 1), ((1, 1), (0, 0)))
        return (
            total(x, (2, 2), (2, 2), ((0, 0), (0, 0))) / 4,
            total(x, *wide) / 9,
            total(x, *wide) / total(ones, *wide),
            total(x, *tall) / total(ones, *tall),
        )

    compare(program, "float64 2 h w 3", sizes=(1, 2, 7), oracle=oracle)


def test_global_pools() -> None:
    compare(
        lambda xp, x: (nn.global_avg_pool(x), nn.global_max_pool(x, keepdims=True, dimension_numbers="NCHW")),
        "float64 n 3 h w",
        sizes=(1, 2, 7),
        oracle=lambda xp, x: (x.mean((1, 2)), x.max((2, 3), keepdims=True)),
    )


def test_batch_group_and_instance_norm() -> None:
    def program(xp: Any, x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
        return (
            nn.batch_norm(x, mean, var * var, weight, bias, axis=1),
            nn.group_norm(x, 2, weight, bias, axis=1),
            nn.instance_norm(x, weight, bias, axis=1),
        )

    def oracle(xp: Any, x: Array, mean: Array, var: Array, weight: Array, bias: Array) -> Any:
        m, v, w, b = (t[:, None, None] for t in (mean, var * var, weight, bias))
        parts = x.reshape(x.shape[0], 2, 2, *x.shape[2:])

        def normal(x: Array, axes: tuple[int, ...]) -> Array:
            centred = x - x.mean(axes, keepdims=True)
            return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)

        return (
            (x - m) / np.sqrt(v + 1e-5) * w + b,
            normal(parts, (2, 3, 4)).reshape(x.shape) * w + b,
            normal(x, (2, 3)) * w + b,
        )

    compare(program, "float64 n 4 h w", *["float64 4"] * 4, sizes=(0, 1, 2, 7), oracle=oracle, rtol=1e-9)


def test_cross_entropy_with_integer_labels() -> None:
    def oracle(xp: Any, x: Array, labels: Array) -> Any:
        picked = labels % 5
        shifted = x - x.max(1, keepdims=True)
        log_softmax = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        return -np.take_along_axis(log_softmax, picked[:, None], 1)[:, 0]

    compare(
        lambda xp, x, labels: nn.softmax_cross_entropy_with_integer_labels(x, labels % 5),
        "float64 n 5", "int64 n", oracle=oracle, rtol=1e-12,
    )  # fmt: skip


def test_cross_entropy_of_infinite_logits() -> None:
    loss = dyn.jit(nn.softmax_cross_entropy_with_integer_labels)
    x = np.array([[1e30, 0, -1e30], [-np.inf, 0, 0], [-np.inf, 0, 0], [0, 0, 0], [0, np.nan, 0]], np.float32)
    labels = np.array([0, 0, 1, 7, 0], np.int32)
    np.testing.assert_allclose(loss(x, labels), [0, np.inf, np.log(2), np.nan, np.nan], rtol=1e-6)


def test_log_sums_of_infinities() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf], [inf, 0], [inf, -inf], [nan, 0], [1e30, 1e30]], np.float32)
    np.testing.assert_array_equal(dyn.jit(lambda x: nn.logsumexp(x, 1))(x), np.array([-inf, inf, inf, nan, 1e30], "f4"))
    finite = np.array([[0, -inf], [1e30, 0]], np.float32)
    np.testing.assert_array_equal(dyn.jit(nn.log_softmax)(finite), np.array([[0, -inf], [0, -1e30]], np.float32))


# ---- what is refused -------------------------------------------------------------------------------------------------


def refusal(program: Callable[..., Any], *specs: str) -> dyn.errors.DynError:
    with pytest.raises(dyn.errors.DynError) as raised:
        trace(program, *specs)
    return raised.value


def test_errors() -> None:
    wrong = refusal(lambda xp, x, w: nn.conv(x, w, dimension_numbers=("NHWC", "OIHX", "NHWC")), "float32 n h w c",
                    "float32 o i h w")  # fmt: skip
    assert wrong.problem == (
        "conv: the dimension_numbers ('NHWC', 'OIHX', 'NHWC') do not name 4 axes of image, kernel and result."
    )
    assert wrong.remedy == (
        'write for example ("NHWC", "HWIO", "NHWC"): N and C, O and I, and the same spatial letters.'
    )
    rank = refusal(lambda xp, x, w: nn.conv(x, w), "float32 n c h", "float32 o i h w")
    assert rank.problem == "conv: the image is x (n, c, h) and the kernel y (o, i, h, w); both need as many axes."
    name = refusal(lambda xp, x, w: nn.conv(x, w, 1, "FULL"), "float32 n c h", "float32 o i h")
    assert (name.problem, name.remedy) == ("conv has no padding 'FULL'.", 'write "SAME", "SAME_LOWER" or "VALID".')
    pairs = refusal(lambda xp, x, w: nn.conv(x, w, 1, [(1, 1)]), "float32 n c h w", "float32 o i h w")
    assert pairs.problem == "conv: padding is [(1, 1)], and 2 pairs are needed."
    strides = refusal(lambda xp, x: nn.max_pool(x, 2, 0), "float32 n h w c")
    assert strides.problem == "max_pool: strides is 0, and 2 positive numbers are needed."
    image = refusal(lambda xp, x: nn.max_pool(x, 2, dimension_numbers="NHC"), "float32 n h w c")
    assert image.problem == "max_pool: x (n, h, w, c) is no image NHC."
    dilated = refusal(lambda xp, x, w: nn.conv(x, w, 1, "SAME", 2), "float32 n c h", "float32 o i h")
    assert dilated.problem == 'conv does not take padding="SAME" with lhs_dilation (2,).'
    groups = refusal(lambda xp, x, w: nn.conv(x, w, feature_group_count=2), "float32 n 4 h", "float32 5 2 h")
    assert groups.problem == "convolution: the kernel's output features, 5, cannot be shared out among 2 groups"
    both = refusal(lambda xp, x, w: nn.conv(x, w, feature_group_count=2, batch_group_count=2), "float32 4 4 h",
                   "float32 4 2 h")  # fmt: skip
    assert both.problem == "convolution: feature_group_count 2 and batch_group_count 2 are both given"


def test_features_that_do_not_fit() -> None:
    conv = dyn.jit(nn.conv)
    ok = np.ones((1, 3, 5), np.float32), np.ones((2, 3, 2), np.float32)
    assert conv(*ok).shape == (1, 2, 4)
    with pytest.raises(dyn.errors.ShapeError, match="as many input features as a group of the image has features"):
        conv(ok[0], np.ones((2, 4, 2), np.float32))
    with pytest.raises(dyn.errors.ShapeError, match="a window along axis 2 has at least one element"):
        conv(ok[0], np.ones((2, 3, 0), np.float32))
    assert conv(np.ones((0, 3, 1), np.float32), ok[1]).shape == (0, 2, 0)
    assert conv.cache_info().compiles == 1
