"""Scalar functions have one row in each table: of emitters, of the StableHLO codec, of namespaces and front ends."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dyn
import dyn.lax
import dyn.numpy
from dyn.interop.stablehlo.codecs.table import codec_of
from dyn.ir.core import Op
from dyn.ir.opdef import REGISTRY, ElementLoops, OpDef, OpKind
from dyn.lower.gpu.scalars import TABLE as GPU
from dyn.lower.x86.scalars import TABLE as X86
from dyn.ops.scalar import Scalar
from dyn.stitch.scalar_work import HEAVY

SOURCES = Path(dyn.__file__).parent
#: The functions that take more than an instruction or two, but for those that combinations and indices are made of.
FUNCTIONS = [fn for fn in Scalar if fn.work >= HEAVY]


#: Files whose business a function is: sums of exponentials are a monoid.
OTHERS = {Scalar.EXP: {"schedule/monoids.py"}}


def scalar_ops() -> dict[str, OpDef]:
    """The ops that are a function of one element of each operand."""
    return {
        op.name: op
        for op in REGISTRY.values()
        if op.kind is OpKind.POINTWISE and isinstance(op.loops, ElementLoops) and op.name not in NO_FUNCTIONS
    }


#: Ops of elements that are no functions of numbers, with why.
NO_FUNCTIONS = {
    "copy": "moves", "map": "has a region", "checkpoint_name": "a mark", "stop_gradient": "a mark",
    "bitcast_convert": "the bits stay", "convert": "has a dtype for an operand", "select": "chooses",
    "complex": "makes numbers of two", "reduce_precision": "has attributes",
}  # fmt: skip


@pytest.mark.parametrize("fn", Scalar)
def test_each_emitter_has_a_row(fn: Scalar) -> None:
    assert fn in X86
    assert fn in GPU
    for row in (X86[fn], GPU[fn]):
        assert row.instructions >= 1
        assert (fn.work >= HEAVY) <= (row.instructions >= 8), "what is heavy is heavy everywhere"


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_no_other_file_below_the_ops_names_it(fn: Scalar) -> None:
    named = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(rf"\bScalar\.{fn.name}\b", path.read_text()) and path.relative_to(SOURCES).parts[0] != "ops"
    }
    assert named == {"lower/x86/scalars.py", "lower/gpu/scalars.py"} | OTHERS.get(fn, set())


@pytest.mark.parametrize("fn", [fn for fn in FUNCTIONS if fn not in (Scalar.ERF, Scalar.LOGISTIC)])
def test_its_op_names_it_once(fn: Scalar) -> None:
    text = (SOURCES / "ops" / "elementwise.py").read_text()
    assert len(re.findall(rf"\bScalar\.{fn.name}\b", text)) == 1


def ops_of(ops: Iterable[Op]) -> Iterator[Op]:
    """Ops, and those in their regions."""
    for op in ops:
        yield op
        for region in op.regions:
            yield from ops_of(region.ops)


def reached(functions: Iterable[Callable[..., Any]]) -> set[str]:
    """The ops that functions of up to three arrays become, in some dtype."""
    found: set[str] = set()
    for function in functions:
        for count in (1, 2, 3):
            for dtype in ("float32", "int32", "complex64"):
                specs = [dyn.ShapeDtypeStruct(("n",), dtype)] * count
                try:
                    traced = dyn.jit(function).trace(*specs).traced
                except Exception:  # of other arguments, or dtypes
                    continue
                found |= {op.opdef.name for op in ops_of(traced.function.ops)}
    return found


def exported(module: ModuleType) -> list[Callable[..., Any]]:
    """The functions that a module exports and that two arrays may be enough for."""
    made: list[Callable[..., Any]] = []
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) and "key" not in inspect.signature(value).parameters:
            made.append(value)
    return made


def _names(names: str, why: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), why)


#: Of what programs are read or made of, in no table of functions that users call.
_INSIDE = {
    "xla_erf_inv": "XLA's formula, for programs that are read and for random numbers",
    "trigamma": "the derivative of digamma",
    "fused_multiply_add": "what formulas and rewrites are made of",
    **_names("is_inf is_pos_inf is_neg_inf", "CHLO's: namespaces compare"),
}
_FORMULAS = "next_after"
#: By table, the ops that have no row there, with why.
MISSING: Mapping[str, Mapping[str, str]] = {
    "lax": {**_INSIDE, "round_nearest_even": "round has the rounding for an argument"},
    "numpy": {
        **_INSIDE,
        **_names(_FORMULAS, "a formula of other functions, which takes complex numbers too"),
        **_names("digamma erf erf_inv erfc lgamma logistic rsqrt round_nearest_afz", "NumPy has none"),
    },
    "torch": {
        **_INSIDE,
        **_names(_FORMULAS, "dyn.numpy's formula"),
        "popcnt": "PyTorch has none",
        "rsqrt": "PyTorch's is the reciprocal of the root",
        "round_nearest_afz": "PyTorch rounds to even",
    },
    "tf": {
        **_INSIDE,
        **_names(_FORMULAS, "dyn.numpy's formula"),
        **_names("cbrt count_leading_zeros shift_right_logical", "TensorFlow has none"),
        **_names("popcnt power clamp", "a converter of its own: the dtypes of operands and results differ"),
        "round_nearest_afz": "TensorFlow rounds to even",
    },
}


def _check(table: str, found: set[str]) -> None:
    missing = set(scalar_ops()) - found
    assert missing == set(MISSING[table]), (
        sorted(missing - set(MISSING[table])),
        sorted(set(MISSING[table]) - missing),
    )


def test_lax_has_a_row() -> None:
    _check("lax", reached(exported(dyn.lax)))


def test_numpy_has_a_row() -> None:
    _check("numpy", reached(exported(dyn.numpy)))


def test_torch_has_a_row(require_module: Callable[[str], ModuleType]) -> None:
    require_module("torch")
    from dyn.interop.torch.aten.tables import CONVERTERS

    _check("torch", reached(getattr(row.run, "__wrapped__", row.run) for row in CONVERTERS.values()))


def test_tensorflow_has_a_row() -> None:
    from dyn.interop.tf.ops.pointwise import _DIVISIONS, _PLAIN

    _check("tf", reached([*_PLAIN.values(), *_DIVISIONS.values()]))


@pytest.mark.parametrize("name", sorted(scalar_ops()))
def test_stablehlo_has_a_row(name: str) -> None:
    """JAX's functions are read from StableHLO too."""
    codec = codec_of(REGISTRY[name])
    assert codec.decode or name in ("trigamma", "erf_inv", "fused_multiply_add", "bitcast_convert"), codec.form
