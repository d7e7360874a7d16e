"""Every op's transformation rules, on its samples: derivatives against differences, batching against a loop.

The ops run in the reference, in float64 and complex128, at symbolic shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, Op, ParamInfo, Region, Value
from dyn.ir.differentiate import pull_back, push_forward, zeros
from dyn.ir.evaluate import run_sample
from dyn.ir.opdef import NOT_YET, REGISTRY, NoBatch, NoGrad, OpDef, Sample
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched, spread
from dyn.ir.verifier import verify
from dyn.ops.regions import scalar_region
from dyn.shapes import Facts, as_dim, symbol
from dyn.source import Loc
from tests.rarely import rarely

Array = np.ndarray[Any, Any]
LOC = Loc("sample.py", 1)
OPS = sorted(REGISTRY)
#: Ops whose vjp refuses, and whose jvp does, and which have neither.
FORWARD_ONLY = ("while", "variadic_scatter")
#: Ops whose complex results have phases that nothing determines, so that differences say nothing of them:
#: tests/ops/test_linear_algebra.py looks at what does not depend on them.
PHASES = ("eig", "eigh", "svd")
BACKWARD_ONLY = ("custom_vjp_call", "custom_vjp_forward")
REFUSED = ("custom_call",)
#: Draws, whose derivative is that of a number that keeps its place in the distribution, and not of its computation:
#: tests/ops/test_gamma_slope.py.
DRAWN = ("random_gamma",)
SMOOTH = [
    n
    for n in OPS
    if REGISTRY[n].vjp is not NOT_YET
    and not isinstance(REGISTRY[n].vjp, NoGrad)
    and n not in (*BACKWARD_ONLY, *REFUSED, *DRAWN)
]
BATCHED = [n for n in OPS if REGISTRY[n].batch is not NOT_YET and not isinstance(REGISTRY[n].batch, NoBatch)]
#: Ops that put elements in order, or select some.
CHOOSING = ("sort", "sort_by", "top_k", "select_and_scatter", "variadic_reduce", "variadic_reduce_window")
#: Steps that are differentiated as what they are near to.
STEPS = ("reduce_precision",)
#: Larger samples say nothing new, and take their time.
MOST_ELEMENTS = 70
#: But where it takes more to have windows, groups and dilations.
MORE_ELEMENTS = {"convolution": 500, "window_choice": 150}


def too_large(opdef: OpDef, sample: Sample) -> bool:
    return sum(x.size for x in sample.operands) > MORE_ELEMENTS.get(opdef.name, MOST_ELEMENTS)


def wide(array: Array) -> Array:
    """Floats as float64: differences need the digits."""
    dtype = dtypes.dtype(array.dtype)
    if dtype.kind is dtypes.Kind.COMPLEX:
        return array.astype(np.complex128)
    return array.astype(np.float64) if dtype.is_float else array


def wide_dtype(dtype: dtypes.DType) -> dtypes.DType:
    return dtypes.dtype(wide(np.zeros((), dtype.np)).dtype)


def wide_region(region: Region) -> Region:
    """A region of scalars, in the dtypes of ``wide``."""
    values: dict[Value, Value] = {}

    def own(old: Sequence[Value]) -> tuple[Value, ...]:
        values.update((v, Value(v.type.with_dtype(wide_dtype(v.dtype)))) for v in old)
        return tuple(values[v] for v in old)

    params, ops = own(region.params), list[Op]()
    for op in region.ops:
        attrs = {k: Dense(wide(v.array)) if isinstance(v, Dense) else v for k, v in op.attrs.items()}
        operands = tuple(values[v] for v in op.operands)
        ops.append(replace(op, operands=operands, attrs=attrs, results=own(op.results)))
    return Region(params, tuple(ops), tuple(values[v] for v in region.results))


def is_smooth(array: Array) -> bool:
    return array.dtype.kind in "fc"


class Program:
    """Parameters whose every axis is a symbol of its own, and what is built on them."""

    def __init__(self) -> None:
        self.builder = Builder(Facts.EMPTY, LOC)
        self.params: list[Value] = []
        self.arrays: list[Array] = []

    def param(self, array: Array) -> Value:
        number = len(self.params)
        shape = tuple(as_dim(symbol(f"x{number}_{axis}", f"x{number}.shape[{axis}]")) for axis in range(array.ndim))
        return self.like(array, shape)

    def like(self, array: Array, shape: tuple[Any, ...]) -> Value:
        value = Value(TensorType(dtypes.dtype(array.dtype), shape), f"x{len(self.params)}")
        self.params.append(value)
        self.arrays.append(array)
        return value

    def run(self, results: Sequence[Value]) -> list[Array]:
        infos = tuple(ParamInfo(v.name) for v in self.params)
        b = self.builder
        function = Function("rule", tuple(self.params), tuple(b.ops), tuple(results), b.facts, infos)
        return run_reference(verify(function, "a rule"), self.arrays)


def smooth_samples(opdef: OpDef) -> Iterator[Sample]:
    """Samples that have something to differentiate by, one for each shape and attributes."""
    seen: set[object] = set()
    for sample in opdef.samples():
        if sample.attrs.get("combine") == "body":  # refused: below
            continue
        operands = tuple(wide(x) for x in sample.operands)
        attrs = dict(sample.attrs)
        if "dtype" in attrs and isinstance(attrs["dtype"], dtypes.DType):
            if not attrs["dtype"].is_inexact:
                continue
            attrs["dtype"] = dtypes.complex128 if attrs["dtype"].kind is dtypes.Kind.COMPLEX else dtypes.float64
        key = (tuple((x.shape, x.dtype) for x in operands), repr(sorted(attrs.items())))
        if key in seen or not any(is_smooth(x) for x in operands) or too_large(opdef, sample):
            continue
        seen.add(key)
        scalar = all(not p.shape for region in sample.regions for p in region.params)
        regions = tuple(map(wide_region, sample.regions)) if scalar else sample.regions
        yield replace(sample, operands=operands, attrs=attrs, regions=regions)


def chooses(opdef: OpDef, sample: Sample) -> bool:
    """Whether results are operand elements that are chosen by their order, so that equal ones are kinks."""
    return opdef.name in CHOOSING or sample.attrs.get("combine") in ("maximum", "minimum")


def has_phases(opdef: OpDef, sample: Sample) -> bool:
    return opdef.name in PHASES and (opdef.name == "eig" or sample.operands[0].dtype.kind == "c")


def untied(sample: Sample, rng: np.random.Generator) -> Sample:
    """The sample with no two elements as near to each other as differences reach."""
    count = sum(x.size for x in sample.operands)
    steps = iter(np.split(rng.permutation(count), np.cumsum([x.size for x in sample.operands])[:-1]))
    moved = [(x, next(steps)) for x in sample.operands]
    return replace(sample, operands=tuple(x + 1e-3 * s.reshape(x.shape) if is_smooth(x) else x for x, s in moved))


def random_like(rng: np.random.Generator, array: Array) -> Array:
    made = rng.uniform(-1, 1, array.shape)
    return (made + 1j * rng.uniform(-1, 1, array.shape) if array.dtype.kind == "c" else made).astype(array.dtype)


def differentiated(opdef: OpDef, sample: Sample, rng: np.random.Generator) -> tuple[Program, list[Any], list[Any], Any]:
    """A program with an op, its tangents and its cotangents; the results, and the tangents and cotangents given."""
    program = Program()
    b = program.builder
    operands = [program.param(x) for x in sample.operands]
    results = b.emit(opdef, operands, sample.regions, **sample.attrs)
    ops = tuple(b.ops)
    tangents = {
        v: program.like(random_like(rng, x), v.shape)
        for v, x in zip(operands, sample.operands, strict=True)
        if is_smooth(x)
    }
    primal = program.run(results)
    cts = {v: program.like(random_like(rng, x), v.shape) for v, x in zip(results, primal, strict=True) if is_smooth(x)}
    pushed = dict(tangents)
    push_forward(b, ops, pushed)
    pulled = [None] * len(operands) if opdef.name in FORWARD_ONLY else pull_back(b, ops, cts, operands)
    out_tangents = [pushed.get(v) for v in results]
    return program, [*out_tangents], [*pulled], (operands, results, tangents, cts)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_agree(name: str) -> None:
    """``<ct, J t> == <J* ct, t>``, and J t is what differences give."""
    opdef, rng = REGISTRY[name], np.random.default_rng(0)
    for sample in smooth_samples(opdef):
        steps, tangents = _check_identity(opdef, sample, rng)
        if opdef.name in STEPS or has_phases(opdef, sample):
            continue
        if not chooses(opdef, sample):
            _against_differences(opdef, sample, steps, tangents)
            continue
        apart = untied(sample, rng)
        steps, tangents = _check_identity(opdef, apart, rng)
        _against_differences(opdef, apart, steps, tangents, kinks=0.0)


@pytest.mark.parametrize("name", BACKWARD_ONLY)
def test_cotangents_agree_with_differences(name: str) -> None:
    """``<J* ct, t>`` is what differences give for ``<ct, J t>``, and tangents are refused."""
    opdef, rng, h = REGISTRY[name], np.random.default_rng(0), 1e-6
    for sample in smooth_samples(opdef):
        program = Program()
        b = program.builder
        operands = [program.param(x) for x in sample.operands]
        results = b.emit(opdef, operands, sample.regions, **sample.attrs)
        ops, outs = tuple(b.ops), sample.attrs.get("outs", len(results))
        cts = {v: random_like(rng, x) for v, x in zip(results[:outs], program.run(results), strict=False)}
        given = {v: program.like(ct, v.shape) for v, ct in cts.items() if is_smooth(ct)}
        pulled = program.run(
            [zeros(b, operands[0].type) if v is None else v for v in pull_back(b, ops, given, operands)[:1]]
        )
        step = random_like(rng, sample.operands[0])
        ends = [
            run_sample(opdef, replace(sample, operands=(sample.operands[0] + sign * h * step, *sample.operands[1:])))
            for sign in (1, -1)
        ]
        slopes = [(up - down) / (2 * h) for up, down in zip(*ends, strict=True)]
        wanted = sum(
            (np.sum(cts[v] * s) for v, s in zip(results[:outs], slopes, strict=False) if v in given), np.zeros(())
        )
        np.testing.assert_allclose(np.sum(pulled[0] * step), wanted, rtol=1e-6, atol=1e-6)
        with pytest.raises(UnsupportedOpError) as caught:
            push_forward(b, ops, {operands[0]: operands[0]})
        assert str(caught.value) == (
            "f has a derivative of its own that goes backward (dyn.custom_vjp), and forward it has none.\n"
            "  at sample.py:1\n"
            "  help: use grad, vjp or jacrev, or give the function a dyn.custom_jvp, which serves both."
        )


def _pair(sample: Sample) -> tuple[int, int] | None:
    """Two operands that can be one value."""
    alike = [(x.shape, x.dtype) if is_smooth(x) and x.size else None for x in sample.operands]
    pairs = ((i, j) for j in range(len(alike)) for i in range(j) if alike[j] is not None and alike[i] == alike[j])
    return next(pairs, None)


@pytest.mark.parametrize("name", [n for n in SMOOTH if n not in FORWARD_ONLY])
def test_a_value_that_is_given_twice_has_a_cotangent_for_each(name: str) -> None:
    """The cotangent of a value that is two operands is the sum of what two values with the same numbers have."""
    opdef, rng = REGISTRY[name], np.random.default_rng(0)
    with_pairs = ((sample, pair) for sample in smooth_samples(opdef) if (pair := _pair(sample)) is not None)
    for sample, (i, j) in itertools.islice(with_pairs, 3):
        found: list[Array] = []
        arrays = [sample.operands[i] if k == j else x for k, x in enumerate(sample.operands)]
        cotangents: list[Array] | None = None
        for twice in (False, True):
            program = Program()
            b, operands = program.builder, list[Value]()
            for k, x in enumerate(arrays):
                operands.append(operands[i] if twice and k == j else program.param(x))
            results = b.emit(opdef, operands, sample.regions, **sample.attrs)
            ops = tuple(b.ops)
            if cotangents is None:
                cotangents = [random_like(rng, x) for x in program.run(results)]
            cts = {v: program.like(ct, v.shape) for v, ct in zip(results, cotangents, strict=True) if is_smooth(ct)}
            wanted = [operands[i]] if twice else [operands[i], operands[j]]
            pulled = [
                zeros(b, v.type) if ct is None else ct
                for v, ct in zip(wanted, pull_back(b, ops, cts, wanted), strict=True)
            ]
            found.append(np.sum(program.run(pulled), axis=0))
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9, err_msg=str(sample))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_has_no_derivative(name: str) -> None:
    opdef = REGISTRY[name]
    sample = opdef.samples()[0]
    b = Builder(Facts.EMPTY, LOC)
    operands = [Value(TensorType(dtypes.dtype(x.dtype), x.shape)) for x in sample.operands]
    results = b.emit(opdef, operands, sample.regions, **sample.attrs)
    asked: list[Callable[[], object]] = [
        lambda: push_forward(b, tuple(b.ops), {operands[0]: operands[0]}),
        lambda: pull_back(b, tuple(b.ops), {results[0]: operands[0]}, operands),
    ]
    for ask in asked:
        with pytest.raises(UnsupportedOpError) as caught:
            ask()
        assert str(caught.value) == (
            "custom_call: 'dyn.example' has no derivative: what it computes is not known.\n"
            "  at sample.py:1\n"
            "  help: give the function around it a dyn.custom_vjp or a dyn.custom_jvp."
        )


def _check_identity(opdef: OpDef, sample: Sample, rng: np.random.Generator) -> tuple[list[Array | None], list[Array]]:
    """``<ct, J t> == <J* ct, t>``; the operands' tangents t, and those J t of the results."""
    program, pushed, pulled, (operands, results, tangents, cts) = differentiated(opdef, sample, rng)
    b = program.builder
    filled = [
        zeros(b, v.type) if t is None else t for v, t in zip((*results, *operands), (*pushed, *pulled), strict=True)
    ]
    made = dict(zip((*results, *operands), program.run(filled), strict=True))
    given = {v: program.arrays[program.params.index(p)] for v, p in (*tangents.items(), *cts.items())}
    for value in (*results, *operands):
        assert made[value].shape == program.run([value])[0].shape
    with np.errstate(all="ignore"):
        forward = sum((np.sum(given[v] * made[v]) for v in results if v in cts), np.zeros(()))
        backward = sum((np.sum(made[v] * given[v]) for v in operands if v in tangents), np.zeros(()))
    if opdef.name not in FORWARD_ONLY:
        np.testing.assert_allclose(np.real(forward), np.real(backward), rtol=1e-9, atol=1e-9, err_msg=str(sample))
    return [given.get(v) for v in operands], [made[v] for v in results]


def _against_differences(
    opdef: OpDef, sample: Sample, steps: list[Array | None], tangents: list[Array], kinks: float = 0.1
) -> None:
    def at(h: float) -> list[Array]:
        moved = [x if t is None else x + h * t for x, t in zip(sample.operands, steps, strict=True)]
        return list(run_sample(opdef, replace(sample, operands=tuple(moved))))

    h = 1e-6
    for up, down, tangent in zip(at(h), at(-h), tangents, strict=True):
        if not is_smooth(up):
            continue
        with np.errstate(all="ignore"):
            slope = (up - down) / (2 * h)
            # At kinks, and where a function jumps, differences say nothing.
            calm = np.isfinite(slope) & np.isfinite(tangent) & (np.abs(slope) < 1e3)
        wrong = np.abs(slope - tangent) > 1e-4 * (1 + np.abs(slope))
        assert np.count_nonzero(wrong & calm) <= kinks * up.size, (opdef, sample, slope[wrong], tangent[wrong])


def test_a_scatter_with_a_body_has_no_derivative() -> None:
    opdef = REGISTRY["scatter"]
    sample = next(s for s in opdef.samples() if s.attrs["combine"] == "body")
    b = Builder(Facts.EMPTY, LOC)
    operands = [Value(TensorType(dtypes.dtype(x.dtype), x.shape)) for x in sample.operands]
    b.emit(opdef, operands, sample.regions, **sample.attrs)
    tangents = {operands[0]: Value(operands[0].type)}
    with pytest.raises(UnsupportedOpError) as caught:
        push_forward(b, tuple(b.ops), tangents)
    assert str(caught.value) == (
        "scatter: updates that are combined with body have no derivative here; those with add, replace, multiply, "
        "maximum and minimum have.\n  at sample.py:1\n  help: write the update as one of those, or give the function a "
        "derivative of its own."
    )


@pytest.mark.parametrize("combine", ["replace", "add", "multiply", "maximum", "minimum"])
def test_a_scatter_whose_body_is_a_known_one_has_the_derivative_of_that(combine: str) -> None:
    opdef = REGISTRY["scatter"]
    known = next(s for s in smooth_samples(opdef) if s.attrs["combine"] == combine and s.operands[0].size == 15)
    float64 = dtypes.dtype(np.dtype(np.float64))

    def build(b: Builder, old: Value, new: Value) -> Value:
        return new if combine == "replace" else b.op(combine, old, new)

    region = scalar_region((float64, float64), build)
    written = replace(known, attrs={**known.attrs, "combine": "body"}, regions=(region,))
    steps, tangents = _check_identity(opdef, written, np.random.default_rng(0))
    plain = _check_identity(opdef, known, np.random.default_rng(0))
    for mine, theirs in zip((*steps, *tangents), (*plain[0], *plain[1]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("every", [3, rarely(1)])
def test_batching_is_a_loop(every: int, name: str) -> None:
    """For every choice of operands that have the axis of examples, and for 0, 1 and 3 examples."""
    opdef, rng = REGISTRY[name], np.random.default_rng(0)
    seen: set[object] = set()
    for sample in opdef.samples():
        key = (tuple((x.shape, x.dtype.kind) for x in sample.operands), repr(sorted(sample.attrs.items())))
        if key in seen or too_large(opdef, sample):
            continue
        seen.add(key)
        if (len(seen) - 1) % every and len(seen) % 5:  # each fifth is for 0 and 1 examples too
            continue
        for flags in itertools.product((False, True), repeat=len(sample.operands)):
            if any(flags) and (len(flags) < 3 or rng.random() < 0.5):
                for count in (3,) if len(seen) % 5 else (0, 1, 3):
                    _check_batch(opdef, sample, flags, count, rng)


def _check_batch(opdef: OpDef, sample: Sample, flags: tuple[bool, ...], count: int, rng: np.random.Generator) -> None:
    examples = [
        np.stack([rng.permutation(x.reshape(-1)).reshape(x.shape) for _ in range(count)])
        if flag and count
        else np.zeros((0, *x.shape), x.dtype)
        if flag
        else x
        for x, flag in zip(sample.operands, flags, strict=True)
    ]
    program = Program()
    b = program.builder
    size = as_dim(symbol("n", "n"))
    values: list[Value] = []
    params: list[Value] = []
    for x, flag in zip(examples, flags, strict=True):
        if flag:
            inner = [as_dim(symbol(f"d{len(params)}_{axis}", "d")) for axis in range(x.ndim - 1)]
            values.append(program.like(x, (size, *inner)))
            params.append(Value(TensorType(values[-1].dtype, tuple(inner))))
        else:
            values.append(program.param(x))
            params.append(Value(values[-1].type))
    inside = Builder(b.facts, LOC)
    results = inside.emit(opdef, params, sample.regions, **sample.attrs)
    b.facts = inside.facts
    made, own = batched(b, Region(tuple(params), tuple(inside.ops), results), values, flags, size)
    full = [v if flag else spread(b, v, size) for v, flag in zip(made, own, strict=True)]
    found = program.run(full)
    for i in range(count):
        one = [x[i] if flag else x for x, flag in zip(examples, flags, strict=True)]
        wanted = run_sample(opdef, replace(sample, operands=tuple(one)))
        for array, expected in zip(found, wanted, strict=True):
            assert array[i].shape == expected.shape
            if dtypes.dtype(expected.dtype).is_inexact:
                a, e = array[i].astype(np.complex128), expected.astype(np.complex128)
                loose = {1: 0.13, 2: 1e-2}.get(expected.dtype.itemsize, 1e-4)
                np.testing.assert_allclose(a, e, rtol=loose, atol=loose, err_msg=f"{sample} {flags}")
            else:
                np.testing.assert_array_equal(array[i], expected, err_msg=f"{sample} {flags}")
    for array in found:
        assert array.shape[0] == count
