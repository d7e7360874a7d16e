"""The examples of the StableHLO specification, op by op: as they are printed, and in the generic form."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import UnsupportedOpError
from dyn.interop.stablehlo import load, mlir
from dyn.interop.stablehlo.decode import decoders, is_known
from tests.interop.spec_examples import EXAMPLES, REFUSED, Example, Refused

pytest.importorskip("jaxlib")
BY_NAME = {e.name: e for e in EXAMPLES}
#: Operations that the specification has no example of, or that are no part of it.
ELSEWHERE = {
    "stablehlo.broadcast", "stablehlo.composite", "stablehlo.custom_call", "stablehlo.dot", "stablehlo.dynamic_conv",
    "stablehlo.dynamic_gather", "stablehlo.dynamic_pad", "stablehlo.real_dynamic_slice",
}  # fmt: skip


def arrays(example: Example) -> list[Any]:
    params = mlir.parse(example.text, is_known).functions["main"].body.params
    return [np.array(x, p.dtype.np) for x, p in zip(example.inputs, params, strict=True)]


@functools.lru_cache(maxsize=1)
def computed() -> dict[str, tuple[Any, ...]]:
    """The results of all examples, as one program: a compile for each would take a minute."""
    given = {name: arrays(e) for name, e in BY_NAME.items()}
    programs = {name: load(e.text) for name, e in BY_NAME.items()}

    @dyn.jit
    def all_of_them(given: Any) -> Any:
        made = {name: programs[name](*args) for name, args in given.items()}
        return {name: m if isinstance(m, tuple) else (m,) for name, m in made.items()}

    return all_of_them(given)


@pytest.mark.parametrize("name", BY_NAME)
def test_what_the_specification_says(name: str) -> None:
    wanted, made = BY_NAME[name].results, computed()[name]
    assert len(made) == len(wanted)
    for actual, expected in zip(made, wanted, strict=True):
        array = np.asarray(actual)
        other = np.array(expected, array.dtype)
        assert array.shape == other.shape
        if array.dtype.kind in "biu":
            np.testing.assert_array_equal(array, other)
        else:
            np.testing.assert_allclose(array, other, 1e-6, 1e-7, equal_nan=True)
            if array.dtype.kind == "f" and name in ("ceil", "sign"):
                np.testing.assert_array_equal(np.signbit(array)[1:], np.signbit(other)[1:])  # a NaN's is nobody's


@pytest.mark.parametrize("name", BY_NAME)
def test_both_forms_are_one_program(name: str) -> None:
    example = BY_NAME[name]
    context = mlir.bindings().context()
    with context, mlir.bindings().ir.Location.unknown():
        module = mlir.bindings().ir.Module.parse(example.text)
        texts = [str(module), str(module.operation.get_asm(print_generic_op_form=True))]
    assert '"stablehlo' in texts[1]
    assert '"func.func"' in texts[1]
    programs = [str(load(text).trace(*arrays(example)).function).splitlines() for text in texts]
    # Lines stand at other places.
    assert [line.split("  @")[0] for line in programs[0]] == [line.split("  @")[0] for line in programs[1]]


def test_every_operation_has_an_example() -> None:
    shown = {f"stablehlo.{word}" for e in EXAMPLES for word in e.text.replace('"', " ").replace(".", " ").split()}
    known = {name for name in decoders() if name.startswith("stablehlo.")}
    assert known - shown == ELSEWHERE


def traced(text: str) -> Any:
    params = mlir.parse(text, is_known).functions["main"].body.params
    return load(text).trace(*[np.zeros([d for d in p.shape if isinstance(d, int)], p.dtype.np) for p in params])


@pytest.mark.parametrize("refused", REFUSED, ids=lambda r: r.name)
def test_what_is_not_there_is_named(refused: Refused) -> None:
    with pytest.raises(UnsupportedOpError) as error:
        traced(refused.text)
    assert str(error.value).startswith(refused.said)
