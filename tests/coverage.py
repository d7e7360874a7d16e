"""``docs/coverage.md``: what is known and tested of each op, read off the ops and the tests themselves.

``python -m tests.coverage`` writes it; ``tests/meta/test_coverage.py`` fails where it is not what would be written. An
op counts as tested where a parametrised test of the suite, which has to pass, runs over it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import dyn
from dyn import dtypes
from dyn.interop.stablehlo.codecs import CODECS
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import NOT_YET, REGISTRY, Composite, LibraryRoutine, NoBatch, NoGrad, OpDef, OpKind
from dyn.ir.types import TensorType
from dyn.schedule.orderings import ORDERINGS
from dyn.shapes import Facts
from dyn.source import Loc
from tests.interop.harness_page import lines_for_coverage

PATH = Path(dyn.__file__).resolve().parents[1] / "docs" / "coverage.md"

_TESTED = "✓"
_NONE = "–"


@dataclass(frozen=True)
class Column:
    """A column: its title, what it says of ops, and the tests that run over them (``module::function``).

    ``told`` gives a mark and a reason for an op that needs no test, or that has no rule yet.
    """

    title: str
    meaning: str
    tests: tuple[str, ...]
    told: Callable[[OpDef], tuple[str, str] | None] = lambda op: None


def _no_gradient(op: OpDef) -> tuple[str, str] | None:
    if isinstance(op.vjp, NoGrad):
        return "0", op.vjp.reason
    if op.name in tested(_RULES + "test_what_is_not_known_has_no_derivative"):
        return "none", "what it computes is not known: a derivative of one's own goes around it"
    return ("later", "its derivative is not written yet") if op.vjp is NOT_YET else None


def _no_batch(op: OpDef) -> tuple[str, str] | None:
    if isinstance(op.batch, NoBatch):
        return "none", op.batch.reason
    return ("later", "its batching is not written yet") if op.batch is NOT_YET else None


def _made_of(op: OpDef) -> set[OpDef]:
    """The ops that an op is computed with: itself if it is not made up of others."""
    if not isinstance(op.loops, Composite) or op.simplify is None:
        return {op}
    found: set[OpDef] = set()
    for sample in op.samples():
        b = Builder(Facts.EMPTY, Loc("sample.py", 1))
        params = [Value(TensorType(dtypes.dtype(x.dtype), x.shape)) for x in sample.operands]
        b.emit(op, params, sample.regions, **sample.attrs)
        own = b.ops.pop()
        op.simplify(b, own)
        found.update(inner.opdef for inner in _all_ops(b.ops))
    return found


def _all_ops(ops: Iterable[Op]) -> Iterable[Op]:
    for op in ops:
        yield op
        for region in op.regions:
            yield from _all_ops(region.ops)


def _on_host(op: OpDef) -> bool:
    """Whether a library on the host computes it: no kernel does, and it is no sort, which GPUs have kernels for."""
    routine = op.loops.routine if isinstance(op.loops, LibraryRoutine) else None
    return op.kind is OpKind.OPAQUE and routine not in ORDERINGS


def _no_gpu(op: OpDef) -> tuple[str, str] | None:
    if not any(_on_host(part) for part in _made_of(op)):
        return None
    return "later", "a library on the host computes it; there is none for GPUs yet"


def _unwritten(op: OpDef) -> tuple[str, str] | None:
    return (
        ("none", "StableHLO has no form of a size that a program measures")
        if op.kind is OpKind.DATA_DEPENDENT_SIZE
        else None
    )


def _own_call(op: OpDef) -> tuple[str, str] | None:
    own = "custom_call" in CODECS[op.name].form
    return ("dyn", "a custom call that dyn reads and runs, and JAX does not") if own else _unwritten(op)


def _no_size_0(op: OpDef) -> tuple[str, str] | None:
    empty = any(0 in array.shape for sample in op.samples() for array in sample.operands)
    return None if empty else ("n/a", "it takes nothing that can be empty")


_OPS, _RULES, _LOWER = "tests.ops.test_ops::", "tests.ops.test_transform_rules::", "tests.lower."
_INTEROP = "tests.interop."
_GPU = (_LOWER + "test_gpu_samples::test_texts",)

COLUMNS = (
    Column(
        "reference", "types and values agree with NumPy", (_OPS + "test_the_type_is_what_the_reference_gives",)
    ),
    Column("symbolic", "over undecided shapes, checks included", (_OPS + "test_the_type_of_undecided_shapes",)),
    Column(
        "size 0", "among its samples are empty arrays", (_OPS + "test_samples_have_sizes_0_and_1_and_more",), _no_size_0
    ),
    Column("text", "its text parses back", (_OPS + "test_the_text_parses_back",)),
    Column(
        "grad", "vjp and jvp against differences and each other, or the one that there is",
        (
            _RULES + "test_derivatives_agree", _RULES + "test_cotangents_agree_with_differences",
            "tests.ops.test_gamma_slope::test_both_derivatives_of_draws",
        ),
        _no_gradient,
    ),
    Column("vmap", "batching against a loop", (_RULES + "test_batching_is_a_loop",), _no_batch),
    Column(
        "x86", "compiled with every axis symbolic, and run",
        tuple(_LOWER + test for test in (
            "test_op_programs::test_samples", "test_op_samples::test_compiled_samples",
            "test_x86_samples::test_samples", "test_composites::test_compiled_samples",
        )),
    ),
    Column("CUDA", "its text is generated", _GPU, _no_gpu),
    Column("ROCm", "its text is generated", _GPU, _no_gpu),
    Column(
        "HLO out", "written as StableHLO, and run by JAX",
        (_INTEROP + "test_jax_runs_dyn::test_samples_run_in_jax",), _own_call,
    ),
    Column(
        "HLO in", "read back: the same results, the same dims",
        (_INTEROP + "test_round_trips::test_samples_come_back",), _unwritten,
    ),
)  # fmt: skip


def tested(place: str) -> frozenset[str]:
    """The names that a test is parametrised with."""
    module, _, function = place.partition("::")
    marks = getattr(importlib.import_module(module), function).pytestmark
    names: set[str] = set()
    for mark in marks:
        if mark.name == "parametrize" and mark.args[0] == "name":
            names.update(mark.args[1])
    return frozenset(names)


def table() -> str:
    """The whole page."""
    covered = [frozenset[str]().union(*(tested(place) for place in column.tests)) for column in COLUMNS]
    reasons: dict[str, int] = {}
    rows: list[list[str]] = []
    for name in sorted(REGISTRY):
        row = [f"`{name}`"]
        for column, names in zip(COLUMNS, covered, strict=True):
            told = column.told(REGISTRY[name])
            if told is None:
                row.append(_TESTED if name in names else _NONE)
            else:
                mark, reason = told
                row.append(f"{mark} [{reasons.setdefault(reason, len(reasons) + 1)}]")
        rows.append(row)
    holes = sum(cell == _NONE for row in rows for cell in row)
    later = sum(cell.startswith("later") for row in rows for cell in row)
    return "\n".join(
        [
            "# Coverage", "",
            "*After this page you know of each operation what is tested of it, and what is for later.*", "",
            f"{len(rows)} ops. Written by `python -m tests.coverage` from the ops and the tests that run over them; "
            f"{later} cells are for later, {holes} are holes.", "",
            *(f"- **{column.title}**: {column.meaning}" for column in COLUMNS), "",
            *_lines(("op", *(column.title for column in COLUMNS)), rows), "",
            *(f"{number}. {reason}" for reason, number in reasons.items()), "",
            *lines_for_coverage(),
        ]
    )  # fmt: skip


def _lines(titles: tuple[str, ...], rows: list[list[str]]) -> Iterable[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main() -> None:
    PATH.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
