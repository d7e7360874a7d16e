"""Units with accumulators in tile registers (AMX), which no machine of ours has: each instruction is a call of what
Intel's manual defines it to be (``tile_machine.py``), and LLVM's assembly has the instructions themselves."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
from dyn import dtypes
from dyn.backends import amx, x86
from dyn.backends.amx import INSTRUCTIONS, TileInstruction, passes, products, usable_features
from dyn.backends.base import Source
from dyn.backends.x86 import X86Backend, host_target
from dyn.dtypes import DType
from dyn.errors import CompileError
from dyn.lower.x86 import tile_registers
from dyn.lower.x86.emit import emit_kernel, link
from dyn.lower.x86.tile_registers import TileRegisters
from dyn.schedule.kernel import Kernel, Load, Operand, Tile, TileContract
from dyn.schedule.sizes import Reach
from dyn.schedule.target import Target
from dyn.schedule.x86.contractions import contract_schedules
from dyn.schedule.x86.panels import panel_layout
from dyn.schedule.x86.units import tile_unit_of
from dyn.shapes import as_dim, floordiv
from tests.guard_pages import GuardedMemory
from tests.lower.contractions import LHS, RHS, contraction, store_bias
from tests.lower.tile_machine import PREFIX, TileMachine, in_software, tile_machine
from tests.lower.x86_run import Compiled, compile_kernels

Array = np.ndarray[Any, Any]
F32, I32 = dtypes.float32, dtypes.int32
BF16, I8, U8 = dtypes.bfloat16, dtypes.int8, dtypes.uint8
FEATURES = "+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx512vnni,+avx512bf16,+avx2,+fma,+f16c"
SAPPHIRE = Target("x86", "sapphirerapids", f"+amx-tile,+amx-int8,+amx-bf16,{FEATURES}", 64, 32)
PAIRS = [(I8, I8, "tdpbssd"), (I8, U8, "tdpbsud"), (U8, I8, "tdpbusd"), (U8, U8, "tdpbuud"), (BF16, BF16, "tdpbf16ps")]
BY_NAME = {one.name: one for one in INSTRUCTIONS}
LAYOUTS = [(left, right) for left in LHS for right in RHS]
#: (rows, columns, reduced): around a register, two of them, words and steps of 16 of these.
SIZES = (
    (0, 5, 7), (5, 0, 7), (3, 4, 0), (1, 1, 1), (1, 1, 2), (2, 15, 3), (9, 16, 63), (15, 17, 64), (16, 31, 65),
    (17, 32, 31), (31, 33, 32), (32, 47, 33), (33, 48, 127), (34, 49, 5), (64, 64, 128), (65, 20, 131),
)  # fmt: skip

pytestmark = pytest.mark.skipif(not host_target().avx512, reason="kernels around tile registers are of AVX-512")


def sums_of(left: DType) -> DType:
    return F32 if left.is_float else I32


def sample(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Numbers with all limits of integers, floats of several sizes, and subnormal ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        value = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype("f4")
        value[rng.random(shape) < 0.02] = 2.0**-129
        return value.astype(ml_dtypes.bfloat16)
    limits = np.iinfo(dtype.np)
    return rng.choice([limits.min, limits.max, 1, 0, 77], shape).astype(dtype.np)


def words(values: Array, axis: int, group: int) -> Array:
    """Groups of neighbours along an axis, the last of them filled with 0: a new axis behind the others."""
    values = np.moveaxis(values, axis, -1)
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % group)])
    grouped = values.reshape(*values.shape[:-1], values.shape[-1] // group, group)
    return np.moveaxis(grouped, -2, axis)


def reference(one: TileInstruction, a: Array, b: Array) -> Array:
    """Products of matrices as the instruction adds them, 16 words at a time."""
    if one.acc == "f4":
        a, b = a.view("u2"), b.view("u2")
    left, right = words(a, 1, one.group), words(b, 0, one.group)
    acc = np.zeros((a.shape[0], b.shape[1]), one.acc)
    for first in range(0, left.shape[1], 16):
        acc = products(one, acc, left[:, first : first + 16], right[first : first + 16])
    return acc


def run(kernel: Compiled, a: Array, b: Array, lhs: str = "mk", rhs: str = "kn", *more: Array) -> Array:
    c = np.full((a.shape[0], b.shape[1]), 77, kernel.kernel.buffers[2].dtype.np)
    left = np.ascontiguousarray(a.T if lhs == "km" else a)
    right = np.ascontiguousarray(b.T if rhs == "nk" else b)
    kernel((a.shape[0], b.shape[1], a.shape[1]), [left, right, c, *more])
    return c


# --- definitions ----------------------------------------------------------------------------------------------------


def rounded(value: Fraction) -> Fraction:
    """To the nearest of 24 bits, ties to even, and to 0 what is then less than normal numbers are."""
    if value == 0:
        return value
    exponent = 0
    while abs(value) / Fraction(2) ** exponent >= 2:
        exponent += 1
    while abs(value) / Fraction(2) ** exponent < 1:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    found = round(value / unit) * unit  # Python rounds ties to even
    return found if abs(found) >= Fraction(2) ** -126 else Fraction(0)


def test_pairs_of_bfloat16_by_fractions() -> None:
    """The definition again, in exact numbers: sums that cancel, ties, and what is subnormal on the way."""
    rng = np.random.default_rng(2)
    one, rows, words_, columns = BY_NAME["tdpbf16ps"], 4, 16, 5
    for scale in (1.0, 2.0**-63, 2.0**45):
        shapes = ((rows, words_, 2), (words_, columns, 2))
        left, right = [
            ((rng.integers(-255, 256, s) * 2.0 ** rng.integers(-30, 3, s) * scale).astype("f4").view("u4") >> 16)
            for s in shapes
        ]
        left, right = left.astype("u2"), right.astype("u2")
        acc = (rng.standard_normal((rows, columns)) * scale).astype("f4")
        got = products(one, acc, left, right)
        numbers = [(bits.astype("u4") << 16).view("f4") for bits in (left, right)]
        for m, n in np.ndindex(rows, columns):
            pair = [Fraction(0), Fraction(0)]
            for k, g in np.ndindex(words_, 2):
                x, y = [Fraction(float(v)) for v in (numbers[0][m, k, g], numbers[1][k, n, g])]
                x, y = [v if abs(v) >= Fraction(2) ** -126 else Fraction(0) for v in (x, y)]
                pair[g] = rounded(pair[g] + x * y)
            expected = rounded(Fraction(float(acc[m, n])) + rounded(pair[0] + pair[1]))
            assert Fraction(float(got[m, n])) == expected


@pytest.mark.parametrize("value", [2.0**-126, 2.0**-126 * (1 - 2.0**-8), 2.0**-133])
def test_subnormal_numbers_are_zero(value: float) -> None:
    one = BY_NAME["tdpbf16ps"]
    bits = (np.array([[[value, 0.0]]], "f4").view("u4") >> 16).astype("u2")
    ones = (np.ones((1, 1, 2), "f4").view("u4") >> 16).astype("u2")
    expected = np.float32(value if value >= 2.0**-126 else 0.0)
    assert products(one, np.zeros((1, 1), "f4"), bits, ones)[0, 0] == expected
    assert products(one, np.array([[value]], np.float32), bits * 0, ones)[0, 0] == expected


def test_sums_of_bytes_wrap() -> None:
    left, right = np.full((1, 1, 4), -128, "i1"), np.full((1, 1, 4), -128, "i1")
    acc = np.array([[2**31 - 1]], "i4")
    np.testing.assert_array_equal(products(BY_NAME["tdpbssd"], acc, left, right), [[-(2**31) + 65535]])


# --- kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right", "name"), PAIRS, ids=[name for *_, name in PAIRS])
@pytest.mark.parametrize("static", [False, True])
def test_packed_operands(left: DType, right: DType, name: str, static: bool) -> None:
    """Every layout of both operands, at sizes around registers, words and steps: the definition's bits."""
    acc = sums_of(left)
    (*_, variant) = contract_schedules(SAPPHIRE, acc, Reach(left, right, rhs_columns=True))
    assert (variant.tile, variant.note) == (
        Tile(32, 32, (Operand.LHS, Operand.RHS), unit=name), f"packed 32x32, {name}"
    )  # fmt: skip
    sizes = SIZES[3:12:2] if static else SIZES
    cases = [
        (x, y, extents)
        for x, y in (LAYOUTS if not static else LAYOUTS[:1])
        for extents in (sizes if static else [(None, None, None)])
    ]
    made = [
        contraction("g", x, y, variant.tile, dtype=acc, operands=(left, right), extents=extents)
        for x, y, extents in cases
    ]
    with tile_machine() as machine:
        kernels = compile_kernels(made, SAPPHIRE, host_target(), machine)
        for (x, y, extents), kernel in zip(cases, kernels, strict=True):
            for m, n, k in sizes if extents[0] is None else [extents]:
                assert m is not None
                assert n is not None
                assert k is not None
                a, b = sample(left, (m, k), 1), sample(right, (k, n), 2)
                got = run(kernel, a, b, x, y)
                np.testing.assert_array_equal(got, reference(BY_NAME[name], a, b))
    assert name in machine.ran


@pytest.mark.parametrize(("left", "right", "name"), PAIRS[::4], ids=[name for *_, name in PAIRS[::4]])
def test_blocks_of_the_reduced_dimension(left: DType, right: DType, name: str) -> None:
    """Sums wait in scratch for the next block, and do not tell where it was cut; an epilogue reads them."""
    acc = sums_of(left)
    tile = Tile(32, 32, (Operand.LHS, Operand.RHS), unit=name)
    made = contraction("g", "mk", "kn", tile, dtype=acc, operands=(left, right), epilogue=store_bias(acc))
    with tile_machine() as machine:
        (kernel,) = compile_kernels([made], SAPPHIRE, host_target(), machine)
        for m, n, k in [(40, 37, 4001), (9, 70, 2050)]:
            a, b = sample(left, (m, k), 1), sample(right, (k, n), 2)
            bias = sample(I8, (n,), 3).astype(acc.np)
            want = reference(BY_NAME[name], a, b) + bias
            np.testing.assert_array_equal(run(kernel, a, b, "mk", "kn", bias), want)


def in_panels(values: Array, width: int, group: int) -> Array:
    """A matrix [k, n] as ``[⌈n / width⌉, ⌈k / group⌉, width, group]``."""
    k, n = values.shape
    padded = np.pad(values, ((0, -k % group), (0, -n % width)))
    return np.ascontiguousarray(padded.reshape(padded.shape[0] // group, group, -1, width).transpose(2, 0, 3, 1))


def over_panels(kernel: Kernel, width: int, group: int) -> Kernel:
    """The kernel of one panel, whose right operand lies in it."""
    (tile,) = kernel.body
    assert isinstance(tile, TileContract)
    red, col = as_dim(tile.red), as_dim(tile.col)
    step = floordiv(red, group)
    place = step * (width * group) + col * group + red - step * group
    return replace(kernel, body=(replace(tile, rhs=Load(kernel.buffers[1], place)),))


@pytest.mark.parametrize("width", [16, 48, 64, 96])
@pytest.mark.parametrize(("left", "right", "name"), [PAIRS[0], PAIRS[4]], ids=["tdpbssd", "tdpbf16ps"])
def test_panels_that_lie_in_memory(left: DType, right: DType, name: str, width: int) -> None:
    """The right operand in a panel, and the left one where it lies or packed; nothing is read behind either."""
    acc, one = sums_of(left), BY_NAME[name]
    group = one.group
    with tile_machine() as machine:
        for factor, sizes in ((group, (1, 15, 16, 17, 33)), (1, (1, 16, 35))):
            reach = Reach(left, right, rhs_panels=(width, group), reduced_factor=factor)
            *few, many = contract_schedules(SAPPHIRE, acc, reach)
            if left.is_float:  # bits do not depend on the number of rows
                assert (few, many.min_rows, many.max_rows) == ([], 0, None)
            else:
                assert (few[0].min_rows, few[0].max_rows, many.min_rows, many.max_rows) == (0, 4, 5, None)
                assert few[0].adds_alike
            assert many.tile.unit == name
            assert many.note == f"32x{width} from panels, {name}"
            assert (Operand.LHS in many.tile.staged) is (factor == 1)
            for columns, k in itertools.product({1, width // 2, width}, (1, 2, 16, 17, 40)):
                depth = k * factor
                made = contraction(
                    "g", "mk", "kn", many.tile, dtype=acc, operands=(left, right),
                    extents=(None, columns, depth if factor > 1 else None),
                )  # fmt: skip
                (kernel,) = compile_kernels([over_panels(made, width, group)], SAPPHIRE, host_target(), machine)
                for m in sizes:
                    a, b = sample(left, (m, depth), 1), sample(right, (depth, columns), 2)
                    panels = in_panels(b, width, group)
                    memory = [GuardedMemory(value.nbytes, value.itemsize) for value in (a, panels)]
                    guarded = [g.array(v.shape, v.dtype) for g, v in zip(memory, (a, panels), strict=True)]
                    for to, value in zip(guarded, (a, panels), strict=True):
                        to[...] = value
                    c = np.full((m, columns), 77, acc.np)
                    kernel((m, columns, depth), [*guarded, c])
                    del guarded
                    for own in memory:
                        own.free()
                    np.testing.assert_array_equal(c, reference(one, a, b))


# --- schedules ------------------------------------------------------------------------------------------------------


def test_few_rows_keep_to_vectors() -> None:
    """Streams of up to 8 rows, and panels of up to 4 of integers; these add alike. Floats do not: over panels there is
    one unit for all rows, and streams have none where rows have the same bits in every batch."""
    for left, right, acc in ((BF16, BF16, F32), (I8, I8, I32)):
        low, many = contract_schedules(SAPPHIRE, acc, Reach(left, right, rhs_columns=True), cols=768)
        assert low.note.startswith("streamed")
        assert (low.max_rows, many.min_rows, many.tile.rows) == (8, 9, 32)
        assert low.adds_alike is (acc is I32)
    invariant = replace(SAPPHIRE, batch_invariant=True)
    (one,) = contract_schedules(invariant, F32, Reach(BF16, BF16, rhs_panels=(64, 2), reduced_factor=2))
    assert (one.tile.unit, one.max_rows) == ("tdpbf16ps", None)
    packed = contract_schedules(invariant, F32, Reach(BF16, BF16, rhs_columns=True))[-1]
    assert packed.tile.unit == ""
    few, many = contract_schedules(invariant, I32, Reach(I8, I8, rhs_panels=(64, 4), reduced_factor=4))
    assert (few.tile.unit, many.tile.unit) == ("vpdpbusd", "tdpbssd")


def test_panels_are_pairs_of_registers() -> None:
    """Signed bytes have panels of 64 columns, where vectors alone would have 48."""
    plain = replace(SAPPHIRE, features=FEATURES)
    assert panel_layout(plain, I8, I8, I32, 768) == (48, 4)
    assert panel_layout(SAPPHIRE, I8, I8, I32, 768) == (64, 4)
    assert panel_layout(SAPPHIRE, I8, I8, I32, 96) == (64, 4)
    assert panel_layout(SAPPHIRE, BF16, BF16, F32, 768) == panel_layout(plain, BF16, BF16, F32, 768) == (64, 2)


def test_features_choose() -> None:
    """One of both features; none without AVX-512; a name alone says nothing."""
    bytes_, floats = Reach(I8, I8, rhs_columns=True), Reach(BF16, BF16, rhs_columns=True)

    def units(target: Target) -> tuple[str, str]:
        found = [contract_schedules(target, acc, reach)[-1] for acc, reach in ((I32, bytes_), (F32, floats))]
        return found[0].tile.unit, found[1].tile.unit

    assert units(SAPPHIRE) == ("tdpbssd", "tdpbf16ps")
    assert units(replace(SAPPHIRE, features=f"+amx-int8,{FEATURES}")) == ("tdpbssd", "vdpbf16ps")
    assert units(replace(SAPPHIRE, features=f"+amx-bf16,-amx-int8,{FEATURES}")) == ("vpdpbusd", "tdpbf16ps")
    assert units(replace(SAPPHIRE, features="")) == ("vpmaddwd", "")


def test_units_are_the_instructions_that_are_tested() -> None:
    """The target's table and the processor's test agree on names, features and dtypes."""
    for left, right, name in PAIRS:
        unit, one = tile_unit_of(SAPPHIRE, left, right, sums_of(left)), BY_NAME[name]
        assert unit is not None
        assert (unit.name, unit.feature, unit.group) == (one.name, one.feature, one.group)
        if not left.is_float:
            assert [d.np for d in (*unit.words, I32)] == [np.dtype(d) for d in (one.left, one.right, one.acc)]
    assert len(PAIRS) == len(INSTRUCTIONS)


# --- the assembly ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right", "name"), PAIRS, ids=[name for *_, name in PAIRS])
def test_assembly(left: DType, right: DType, name: str) -> None:
    """LLVM has the instructions: four products for four loads, registers as they are numbered, and one release."""
    acc = sums_of(left)
    tile = Tile(32, 32, (Operand.LHS, Operand.RHS), unit=name)
    text = emit_kernel(contraction("g", "mk", "kn", tile, dtype=acc, operands=(left, right)), SAPPHIRE)
    assembly = X86Backend(SAPPHIRE).assembly(Source(link([text]), (text.symbol,)))
    whole = assembly.partition(f".32x2.s32.{name}:")[2].partition("retq")[0]
    found = re.findall(r"\t(ldtilecfg|tile\w+|tdp\w+)\t?(.*)", whole)
    step = [f"{instruction} {registers}" for instruction, registers in found if instruction == name]
    expected = [
        f"{name} %tmm{right_}, %tmm{left_}, %tmm{2 * (left_ - 4) + right_ - 6}" for left_ in (4, 5) for right_ in (6, 7)
    ]
    assert step == expected * 2, "all steps, and the last one"
    assert [instruction for instruction, _ in found].count("ldtilecfg") == 2
    assert found[-1][0] == "tilerelease"
    assert [instruction for instruction, _ in found].count("tilerelease") == 1


# --- permission and the test ----------------------------------------------------------------------------------------


def compiled_in_software(machine: Any) -> amx.Compile:
    def compile(text: str, symbols: tuple[str, ...]) -> Mapping[str, int]:
        backend = X86Backend()
        code = backend.load(backend.compile(Source(in_software(text), symbols)), machine.symbols)
        return {symbol: code.address(symbol) for symbol in symbols}

    return compile


def test_instructions_that_are_as_they_are_defined() -> None:
    with tile_machine() as machine:
        assert all(passes(one, compiled_in_software(machine)) for one in INSTRUCTIONS)


FOUND = "+sse2,+amx-tile,+amx-int8,-avx10.1,+amx-bf16"


def test_what_fails_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instruction that adds both products of a word to one sum: a warning, and its feature is gone."""
    monkeypatch.setattr(amx, "_permitted", lambda: True)
    with tile_machine() as machine:
        compile = compiled_in_software(machine)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert usable_features(FOUND, compile) == FOUND
        right = amx.products

        def other(one: TileInstruction, acc: Array, left: Array, b: Array) -> Array:
            if one.name != "tdpbf16ps":
                return right(one, acc, left, b)
            for k in range(left.shape[1]):
                acc = right(one, acc, left[:, k : k + 1], b[k : k + 1])
            return acc

        monkeypatch.setattr("tests.lower.tile_machine.products", other)
        with pytest.warns(RuntimeWarning, match="tdpbf16ps of this processor did not compute what Intel defines"):
            assert usable_features(FOUND, compile) == "+sse2,+amx-tile,+amx-int8,-avx10.1,-amx-bf16"


def test_what_cannot_be_compiled_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "_permitted", lambda: True)

    def refuse(text: str, symbols: tuple[str, ...]) -> Mapping[str, int]:
        raise CompileError("LLVM refused the text.", remedy="none")

    with pytest.warns(RuntimeWarning, match="tdpbssd, tdpbsud, tdpbusd, tdpbuud, tdpbf16ps of this processor"):
        assert usable_features(FOUND, refuse) == "+sse2,+amx-tile,-amx-int8,-avx10.1,-amx-bf16"


def test_a_refusal_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs then; nor where the processor has no such registers."""

    def never(text: str, symbols: tuple[str, ...]) -> Mapping[str, int]:
        raise AssertionError(text, symbols)

    monkeypatch.setattr(amx, "_permitted", lambda: False)
    assert usable_features(FOUND, never) == "+sse2,+amx-tile,-amx-int8,-avx10.1,-amx-bf16"
    monkeypatch.setattr(amx, "_permitted", lambda: pytest.fail("nobody has to ask"))
    assert usable_features("+sse2,-amx-int8,+avx2", never) == "+sse2,-amx-int8,+avx2"


@pytest.mark.skipif("+amx" in host_target().features, reason="this machine has tile registers")
def test_linux_refuses_what_there_is_not() -> None:
    assert amx._permitted() is False  # pyright: ignore[reportPrivateUsage]


@pytest.mark.skipif("+amx-" not in host_target().features, reason="this machine has no tile registers")
@pytest.mark.parametrize(("left", "right", "name"), PAIRS, ids=[name for *_, name in PAIRS])
def test_on_the_processor(left: DType, right: DType, name: str) -> None:
    """Where there are such registers, kernels have the definition's bits."""
    if not host_target().has(BY_NAME[name].feature):
        pytest.skip(f"this machine has no {name}")
    acc, tile = sums_of(left), Tile(32, 32, (Operand.LHS, Operand.RHS), unit=name)
    (kernel,) = compile_kernels([contraction("g", "mk", "kn", tile, dtype=acc, operands=(left, right))])
    for m, n, k in SIZES:
        a, b = sample(left, (m, k), 1), sample(right, (k, n), 2)
        np.testing.assert_array_equal(run(kernel, a, b), reference(BY_NAME[name], a, b))


# --- programs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[TileMachine]:
    """This machine as if it had tile registers, for whole programs."""
    host, own = host_target(), x86.load_object
    target = replace(host, features=f"+amx-tile,+amx-int8,+amx-bf16,+avx512bf16,+avx512vnni,{host.features}")
    with tile_machine() as machine:
        monkeypatch.setattr(x86, "_this_machine", lambda: target)
        monkeypatch.setattr(tile_registers, "PREFIX", PREFIX)
        monkeypatch.setattr(
            x86,
            "load_object",
            lambda data, symbols, imports: own(data, symbols, {**(imports or {}), **machine.symbols}),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        )
        TileRegisters.leaf.cache_clear()
        yield machine
        TileRegisters.leaf.cache_clear()


def sums(x: Any, w: Any) -> Any:
    wide = "float32" if x.dtype == "bfloat16" else "int32"
    return dyn.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=wide)


@pytest.mark.skipif(not host_target().has("avx512bf16"), reason="few rows are multiplied by AVX-512 BF16")
@pytest.mark.parametrize(("left", "right", "name"), [PAIRS[0], PAIRS[2], PAIRS[4]], ids=["i8", "u8", "bf16"])
def test_programs(programs: TileMachine, left: DType, right: DType, name: str) -> None:
    """A captured weight in panels and an argument; a transposed argument. What explains a program names the unit."""
    one, reduced, columns = BY_NAME[name], 70, 75
    b = sample(right, (reduced, columns), 2)
    w = dyn.asarray(b)
    frozen, argument = dyn.jit(lambda x: sums(x, w)), dyn.jit(sums)
    turned = dyn.jit(lambda x, y: sums(x, y.T))
    for rows in (40, 17, 9, 8, 1, 0):
        x = sample(left, (rows, reduced), rows)
        want = reference(one, x, b)
        programs.ran.clear()
        np.testing.assert_array_equal(np.asarray(frozen(x)), want)
        assert (name in programs.ran) is (rows > (0 if left.is_float else 4))
        programs.ran.clear()
        got = np.asarray(argument(x, b))
        assert (name in programs.ran) is (rows > 8)
        if rows > 8 or not left.is_float:
            np.testing.assert_array_equal(got, want)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=np.abs(want).max(initial=0) * 1e-5)
        got = np.asarray(turned(x, np.ascontiguousarray(b.T)))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=np.abs(want).max(initial=0) * 1e-5)
    explained = str(frozen.explain())
    assert f"32x64 from panels, {name}" in explained
    assert (", vpdpbusd, at most 4 rows" in explained) is not left.is_float
    assert f"packed 32x32, {name}" in str(argument.explain())


@pytest.mark.skipif(not host_target().has("avx512bf16"), reason="few rows are multiplied by AVX-512 BF16")
def test_rows_of_bfloat16_in_every_batch(programs: TileMachine) -> None:
    """A weight in panels has one unit for all rows. Of an argument few rows are streamed, and with ``batch_invariant``
    no tile register adds floats."""
    b = sample(BF16, (70, 75), 2)
    w = dyn.asarray(b)
    x = sample(BF16, (40, 70), 1)
    for invariant in (False, True):
        f = dyn.jit(lambda x: sums(x, w), batch_invariant=invariant)
        whole = np.asarray(f(x))
        for rows in (1, 8, 9, 33):
            np.testing.assert_array_equal(np.asarray(f(x[:rows])), whole[:rows])
        assert "tdpbf16ps: always" in str(f.explain())
    programs.ran.clear()
    g = dyn.jit(sums, batch_invariant=True)
    whole = np.asarray(g(x, b))
    for rows in (1, 8, 9, 33):
        np.testing.assert_array_equal(np.asarray(g(x[:rows], b)), whole[:rows])
    assert "tdpbf16ps" not in programs.ran
    assert "tdpbf16ps" not in str(g.explain())
