"""Quantised weights with a scale and a zero point for each group of the contracted axis: one kernel, which computes an
element where it is multiplied or packed, and divides no number of a step."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends.families import host_target
from dyn.compilation_record import CompilationRecord
from dyn.lower.x86.emit import emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.launch import walk_launches
from dyn.schedule.target import Target

Array = np.ndarray
X86 = Target("x86", "x86-64-v4", vector_bytes=64, registers=32)
#: Rows of each way to multiply: few, and many.
ROWS = (0, 1, 2, 8, 9, 70)


def reshaped(x: Any, q: Any, s: Any, z: Any, g: Any) -> Any:
    k, n = q.shape
    return x @ ((q.astype("float32").reshape(k // g, g, n) - z[:, None]) * s[:, None]).reshape(k, n)


def parted_first(x: Any, q: Any, s: Any, z: Any, g: Any) -> Any:
    k, n = q.shape
    return x @ ((q.reshape(k // g, g, n).astype("float32") - z[:, None, :]) * s[:, None, :]).reshape(k, n)


def repeated(x: Any, q: Any, s: Any, z: Any, g: Any) -> Any:
    return x @ ((q.astype("float32") - dnp.repeat(z, g, axis=0)) * dnp.repeat(s, g, axis=0))


def columns_first(x: Any, q: Any, s: Any, z: Any, g: Any) -> Any:
    n, k = q.shape
    w = (q.astype("float32").reshape(n, k // g, g) - z[:, :, None]) * s[:, :, None]
    return x @ w.reshape(n, k).T


def columns_first_repeated(x: Any, q: Any, s: Any, z: Any, g: Any) -> Any:
    return x @ ((q.astype("float32") - dnp.repeat(z, g, axis=1)) * dnp.repeat(s, g, axis=1)).T


FORMS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (reshaped, parted_first, repeated, columns_first, columns_first_repeated)
}


def weight(g: int, groups: int, n: int, dtype: Any = np.int8) -> tuple[Array, Array, Array]:
    """Numbers of a weight, its scales and its zero points."""
    rng = np.random.default_rng(n)
    limits = np.iinfo(dtype)
    q = rng.integers(limits.min, limits.max, (g * groups, n), dtype, endpoint=True)
    return q, rng.random((groups, n)).astype(np.float32), rng.integers(-5, 6, (groups, n)).astype(np.float32)


def dequantised(q: Array, s: Array, z: Array, g: int) -> Array:
    s, z = [np.repeat(one.astype(np.float64), g, axis=0) for one in (s, z)]
    return (q.astype(np.float64) - z) * s


def few(rng: np.random.Generator, m: int, k: int) -> Array:
    return rng.standard_normal((m, k)).astype(np.float32)


def groups_of(f: Any) -> list[dict[str, Any]]:
    """What explain() says of the kernels of a jitted function's only program."""
    (way,) = f.explain().as_dict()["ways"]
    return way["programs"][0]["groups"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("g", "groups", "n"), [(32, 8, 96), (24, 5, 100), (3, 40, 70), (1, 33, 48), (192, 1, 64), (7, 300, 17), (32, 0, 16),
    (32, 4, 0), (32, 4, 1)],
)  # fmt: skip
def test_every_group_size(form: str, g: int, groups: int, n: int) -> None:
    """Arguments whose sizes are known by name, and arrays that never change."""
    function, first, rng = FORMS[form], form.startswith("columns"), np.random.default_rng(0)
    q, s, z = weight(g, groups, n)
    matrix = dequantised(q, s, z, g)
    given = [np.ascontiguousarray(one.T) if first else one for one in (q, s, z)]
    sizes = f"n {g}*j, n j, n j" if first else f"{g}*j n, j n, j n"
    named = dyn.jit(lambda x, q, s, z: function(x, q, s, z, g), shapes=f"m {g}*j, {sizes}")
    kept = [dyn.asarray(one) for one in given]
    fixed = dyn.jit(lambda x: function(x, *kept, g))
    for m in ROWS:
        x = few(rng, m, g * groups)
        bound = 2e-6 * (np.abs(x) @ np.abs(matrix)) + 1e-5
        for result in (named(x, *given), fixed(x)):
            assert result.shape == (m, n)
            assert (np.abs(np.asarray(result) - x @ matrix) <= bound).all()
    if 0 not in (groups, n) and g > 1:
        for f in (named, fixed):
            (group,) = groups_of(f)
            assert {"convert", "subtract", "multiply"} <= set(group["prologue"])
            assert "prologue, computed as operands are read: " in str(f.explain())
    if groups * g > 1 and n >= 16 and g > 1 and host_target().avx512:
        assert "from panels, at most 8 rows" in str(fixed.explain())


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", [np.float16, ml_dtypes.bfloat16])
def test_scales_of_16_bits(scales: Any, kind: Any) -> None:
    g, rng = 16, np.random.default_rng(1)
    q, s, z = weight(g, 6, 80, kind)
    s, z = s.astype(scales), z.astype(kind)
    matrix = dequantised(q, s, z, g)
    kept = [dyn.asarray(one) for one in (q, s, z)]

    def function(x: Any, q: Any, s: Any, z: Any) -> Any:
        w = (q.reshape(-1, g, q.shape[1]).astype("float32") - z.astype("float32")[:, None]) * s.astype("float32")[
            :, None
        ]
        return x @ w.reshape(q.shape)

    named = dyn.jit(function, shapes=f"m {g}*j, {g}*j n, j n, j n")
    fixed = dyn.jit(lambda x: function(x, *kept))
    for m in ROWS:
        x = few(rng, m, g * 6)
        for result in (named(x, q, s, z), fixed(x)):
            np.testing.assert_allclose(np.asarray(result), x @ matrix, rtol=1e-4, atol=1e-2)
    for f in (named, fixed):
        assert len(groups_of(f)) == 1, "scales are converted where they are read"


@pytest.mark.parametrize("word", [np.uint8, np.int32])
def test_numbers_of_four_bits_in_words(word: Any) -> None:
    """Two or eight in each: a number is computed of a word, a shift and a scale, none of which is a run of the same
    length."""
    g, k, n, rng = 32, 128, 80, np.random.default_rng(2)
    each, limits = 2 * np.dtype(word).itemsize, np.iinfo(word)
    words = rng.integers(limits.min, limits.max, (k // each, n), word, endpoint=True)
    s = rng.random((k // g, n)).astype(np.float32)
    bits = (words[:, None] >> (np.arange(each) * 4)[None, :, None]) & 15
    matrix = (bits.reshape(k, n).astype(np.float64) - 8) * np.repeat(s, g, axis=0)
    q, scales, shifts = dyn.asarray(words), dyn.asarray(s), dyn.asarray((np.arange(each) * 4).astype(word))

    def function(x: Any) -> Any:
        w = (q[:, None] >> shifts[None, :, None]) & 15
        return x @ ((w.reshape(k // g, g, n).astype("float32") - 8) * scales[:, None]).reshape(k, n)

    f = dyn.jit(function)
    for m in ROWS:
        x = few(rng, m, k)
        np.testing.assert_allclose(np.asarray(f(x)), x @ matrix, rtol=1e-4, atol=1e-3)
    (group,) = groups_of(f)
    assert {"and", "convert", "subtract", "multiply"} <= set(group["prologue"])


def test_a_row_alone_has_the_bits_of_a_row_among_others() -> None:
    """Whether it is multiplied as it is computed, group after group, or packed: as an argument, and from panels."""
    g, rng = 24, np.random.default_rng(3)
    q, s, z = weight(g, 30, 130)
    kept = [dyn.asarray(one) for one in (q, s, z)]
    x = few(rng, 40, g * 30)
    named = dyn.jit(lambda x, q, s, z: reshaped(x, q, s, z, g), shapes=f"m {g}*j, {g}*j n, j n, j n")
    with config.override(variants="all"):
        for call in (lambda x: named(x, q, s, z), dyn.jit(lambda x: reshaped(x, kept[0], kept[1], kept[2], g))):
            whole = np.asarray(call(x))
            for rows in (1, 2, 5, 8, 9):
                np.testing.assert_array_equal(np.asarray(call(x[:rows])), whole[:rows])


def test_an_argument_beside_panels_lies_along_columns_or_there_are_none() -> None:
    g, rng = 32, np.random.default_rng(4)
    q, s, z = weight(g, 4, 64)
    turned, x = dyn.asarray(np.ascontiguousarray(q.T)), few(rng, 3, g * 4)

    def function(x: Any, s: Any) -> Any:
        return x @ (turned.astype("float32").reshape((64, 4, g)) * s[:, :, None]).reshape((64, 4 * g)).T

    f = dyn.jit(function)
    np.testing.assert_allclose(f(x, np.ascontiguousarray(s.T)), x @ dequantised(q, s, 0 * z, g), rtol=1e-4, atol=1e-2)
    assert "panels" not in str(f.explain())


@pytest.mark.parametrize("sizes", ["m 128*j, 128*j n, j n, j n", "m 256, 256 n, 2 n, 2 n", "m j*g, j*g n, j n, j n"])
def test_the_steps_of_few_rows_are_not_divided(sizes: str) -> None:
    """The group of a step is found once for a run of steps, and a scale is read once for several of them."""

    def function(x: Any, q: Any, s: Any, z: Any) -> Any:
        groups, n = s.shape
        w = q.astype("float32").reshape(groups, q.shape[0] // groups, n)
        return x @ ((w - z[:, None]) * s[:, None]).reshape(q.shape)

    dtypes = "float32", "int8", "float32", "float32"
    shapes = [tuple(one.split()) for one in sizes.split(", ")]
    structs = [
        dyn.ShapeDtypeStruct(tuple([int(d) if d.isdigit() else d for d in one]), kind)
        for one, kind in zip(shapes, dtypes, strict=True)
    ]
    traced = dyn.jit(function).trace(*structs).traced
    launches = optimize(traced, X86, CompilationRecord()).launches
    (kernel,) = [
        variant.kernel for launch in walk_launches(launches) for variant in launch.variants
        if variant.note.startswith("streamed")
    ]  # fmt: skip
    lines = emit_kernel(kernel, X86).text.splitlines()
    first = next(n for n, line in enumerate(lines) if re.match(r"red\d*:", line))
    last = next(n for n, line in enumerate(lines) if n > first and re.match(r"red\.end\d*:", line))
    steps = lines[first:last]  # eight at a time
    assert sum("x i8>, ptr" in line for line in steps) >= 8
    assert not [line for line in steps if re.search(r"\b[su](div|rem)\b", line)]
    computed = steps[: next(n for n, line in enumerate(steps) if re.match(r"row\d*:", line))]
    vectors = sum("load <16 x float>" in line for line in computed)
    assert vectors == 2, "a scale and a zero point for eight steps"
