"""Operations of ops: every op has a count, and counts are those that one makes by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import numpy as np
import pytest

from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Op
from dyn.ir.opdef import REGISTRY, Composite, Control, Inline, LibraryRoutine, OpDef, Sample
from dyn.ops.counts import UnknownCount, at_sizes, leaves_of, log2
from dyn.ops.scalar import COMPARISONS, MOVES, TRANSCENDENTALS, Scalar
from dyn.ops.work import OpWork, work_of
from dyn.pipeline import PIPELINE
from dyn.shapes import as_dim, evaluate, format_dim, symbol
from tests.ops.test_ops import OPS, function_of

#: Ops without operations of their own: passes write others in their place, or their regions run.
WITHOUT = (Composite, Inline, Control)


def leaves(ops: Iterable[Op]) -> Iterator[Op]:
    """The ops of a function and those of the regions of its loops and choices."""
    for op in ops:
        if isinstance(op.opdef.loops, Control):
            for region in op.regions:
                yield from leaves(region.ops)
        else:
            yield op


def some_samples(name: str) -> list[Sample]:
    """An op's largest sample, its smallest, and the last one."""
    samples = sorted(REGISTRY[name].samples(), key=lambda sample: sum(x.size for x in sample.operands))
    return [samples[0], samples[-1], REGISTRY[name].samples()[-1]]


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_a_count(name: str) -> None:
    for sample in some_samples(name):
        function, sizes = function_of(REGISTRY[name], sample)
        for step in PIPELINE:
            function = step(function)
        for op in leaves(function.ops):
            if isinstance(op.opdef.loops, Inline):  # a barrier: groups are cut without it
                continue
            work = work_of(op)
            for count in (*work.flops.values(), work.transcendentals):
                if not any(isinstance(one, UnknownCount) for one in leaves_of(count)):
                    inner = {s: 3 for s in leaves_of(count) if s not in sizes}  # sizes that are found out
                    assert evaluate(at_sizes(count, {**sizes, **inner}), {**sizes, **inner}) >= 0


def test_what_a_library_computes_says_how_many_operations_that_takes() -> None:
    says = {name for name in OPS if REGISTRY[name].flops is not None}
    assert says == {name for name in OPS if isinstance(REGISTRY[name].loops, LibraryRoutine)} | {"csr_matmul"}
    assert not says & {name for name in OPS if isinstance(REGISTRY[name].loops, WITHOUT)}


def test_of_an_op_that_does_not_say_the_operations_are_unknown() -> None:
    function, _ = function_of(REGISTRY["sort"], REGISTRY["sort"].samples()[0])
    (op,) = function.ops
    silent = object.__new__(OpDef)  # one more of its name is not registered
    for field in fields(OpDef):
        setattr(silent, field.name, None if field.name == "flops" else getattr(op.opdef, field.name))
    (unknown,) = leaves_of(work_of(replace(op, opdef=silent)).total)
    assert isinstance(unknown, UnknownCount)
    assert (unknown.name, unknown.origin) == ("flops(sort)", "operations of sort at sample.py:1")


def test_an_op_that_others_take_the_place_of_has_no_operations() -> None:
    function, _ = function_of(REGISTRY["while"], REGISTRY["while"].samples()[0])
    with pytest.raises(IRError) as error:
        work_of(function.ops[0])
    assert str(error.value) == "while at sample.py:1 has no operations of its own: others take its place."


def counted(name: str, *arrays: np.ndarray, **attrs: object) -> tuple[dict[str, int], int]:
    """The operations of an op on arrays, at their sizes: by dtype, and transcendental functions."""
    function, sizes = function_of(REGISTRY[name], Sample(arrays, attrs))
    work = OpWork.sum([work_of(op) for op in function.ops])
    flops = {dtype.name: evaluate(at_sizes(count, sizes), sizes) for dtype, count in work.flops.items()}
    return flops, evaluate(at_sizes(work.transcendentals, sizes), sizes)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_elementwise_ops(size: int) -> None:
    x, n = np.ones(size, np.float32), np.ones(size, np.int32)
    assert counted("add", x, x) == ({"float32": size}, 0)
    assert counted("multiply", n, n) == ({"int32": size}, 0)
    assert counted("fused_multiply_add", x, x, x) == ({"float32": 2 * size}, 0)
    assert counted("tanh", x) == ({}, size)
    assert counted("compare", x, x, direction="LT") == ({"float32": size}, 0)
    # What only chooses, converts or moves.
    assert counted("select", x > 0, x, x) == ({}, 0)
    assert counted("convert", x, dtype=dtypes.float64) == ({}, 0)
    assert counted("pad", x, x.sum(), edge_padding_low=(1,), edge_padding_high=(2,), interior_padding=(0,)) == ({}, 0)
    assert counted("reverse", x, dims=(0,))[0] == {}


def test_what_moves_elements_counts_for_nothing() -> None:
    for name in ("gather", "concatenate", "dynamic_slice", "dynamic_update_slice", "transpose", "iota", "compact"):
        function, _ = function_of(REGISTRY[name], REGISTRY[name].samples()[-1])
        assert [work_of(op).total for op in function.ops] == [0], name


def test_a_function_that_is_used_twice_counts_once() -> None:
    # Threefry: every word of a block goes into many others.
    function, sizes = function_of(REGISTRY["threefry2x32"], REGISTRY["threefry2x32"].samples()[-1])
    (op,) = function.ops
    blocks = np.prod([evaluate(d, sizes) for d in op.result.shape])
    # 20 rounds of two additions' worth: add, two shifts, or, xor; 5 injections of the key; the key's third word; the
    # two words of the counter, and those of the result.
    rounds, injections, schedule = 20 * 5, 5 * 3, 2 + 2
    assert evaluate(work_of(op).flops[dtypes.uint32], sizes) == blocks * (rounds + injections + schedule)


def test_folds_count_their_elements() -> None:
    x = np.ones((3, 5), np.float32)
    assert counted("reduce", x, axes=(1,), combine="add", nonempty=False) == ({"float32": 15}, 0)
    assert counted("cumulative", x, dimension=1, combine="add", reverse=False) == ({"float32": 15}, 0)
    window = {
        "window": (1, 2), "strides": (1, 1), "padding": ((0, 0), (0, 0)), "base_dilations": (1, 1),
        "window_dilations": (1, 1), "combine": "maximum",
    }  # fmt: skip
    assert counted("reduce_window", x, **window) == ({"float32": 3 * 4 * 2}, 0)


def test_regions_count_as_their_ops() -> None:
    sample = REGISTRY["variadic_reduce"].samples()[0]
    function, _ = function_of(REGISTRY["variadic_reduce"], sample)
    (op,) = function.ops
    chosen = [r for r in op.regions[0].ops if r.opdef.name in ("compare", "or", "and")]
    elements = as_dim(op.operands[0].shape[0]) * op.operands[0].shape[1]
    assert work_of(op).total == len(chosen) * elements


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 4), (3, 0, 4), (1, 1, 1), (7, 64, 5)])
def test_contractions(m: int, k: int, n: int) -> None:
    x, y = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,), "rhs_contracting": (0,)}
    assert counted("dot_general", x, y, **attrs) == ({"float32": 2 * m * k * n}, 0)


def test_matrices_and_transforms() -> None:
    a, b = np.eye(6), np.ones((6, 2))
    assert counted("cholesky", a, lower=True) == ({"float64": 72}, 0)
    assert counted("cholesky", a.astype(np.complex128), lower=True) == ({"float64": 4 * 72}, 0)
    assert counted("solve", a, b) == ({"float64": 144 + 144}, 0)
    assert counted("svd", a, full_matrices=False, vectors=False) == ({"float64": 4 * 216 - 288}, 0)
    assert counted("fft", np.ones((3, 8), np.complex64), fft_type="FFT", fft_length=(8,)) == (
        {"float32": 3 * 5 * 8 * 3}, 0,
    )  # fmt: skip
    assert counted("sort", np.ones((2, 9), np.float32), dimension=1, descending=False) == ({"float32": 18 * 4}, 0)


def test_logarithms_of_sizes() -> None:
    assert [log2(n) for n in (0, 1, 2, 3, 4, 5, 1 << 40, (1 << 40) + 1)] == [0, 0, 1, 2, 2, 3, 40, 41]
    n = symbol("n")
    count = 2 * as_dim(n) * log2(as_dim(n) + 1)
    assert format_dim(count) == "2*n*log2(n + 1)"
    assert log2(as_dim(n) + 1) == log2(as_dim(n) + 1)
    assert leaves_of(count) == {n}
    assert at_sizes(count, {n: 8}) == 64
    assert format_dim(at_sizes(count, {n: as_dim(symbol("m"))})) == "2*m*log2(m + 1)"


def test_the_classes_of_scalar_functions_are_apart() -> None:
    assert not TRANSCENDENTALS & MOVES
    assert not (TRANSCENDENTALS | MOVES) & (COMPARISONS | {Scalar.ADD, Scalar.FMA, Scalar.DIV, Scalar.MAX})
