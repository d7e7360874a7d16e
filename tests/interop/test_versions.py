"""Portable artifacts of older versions, and of one that is newer than ours."""

from __future__ import annotations

import numpy as np
import pytest

from dyn.errors import ArtifactError
from dyn.interop.stablehlo import load, mlir
from dyn.interop.stablehlo.decode import is_known
from dyn.interop.stablehlo.mlir import portable_artifact
from tests.interop.spec_examples import EXAMPLES, Example

pytest.importorskip("jaxlib")
#: Operations that came later, by the first version that has them.
LATER = {"tan": "1.4.0"}


def versions() -> list[str]:
    stablehlo = mlir.bindings().stablehlo
    return [stablehlo.get_minimum_version(), "1.0.0", "1.4.0", stablehlo.get_current_version()]


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_artifacts_of_each_version_are_read_again(example: Example) -> None:
    m = mlir.bindings()
    context = m.context()
    with context, m.ir.Location.unknown():
        module = m.ir.Module.parse(example.text)
    wanted = [op.name for op in mlir.parse(example.text, is_known).functions["main"].body.ops]
    for version in versions():
        if number(version) < number(LATER.get(example.name, "0.0.0")):
            with pytest.raises(ArtifactError, match=f"cannot be written for StableHLO {version}"):
                portable_artifact(module, version)
            continue
        data = portable_artifact(module, version)
        assert data[5:].startswith(f"StableHLO_v{version}".encode())
        again = mlir.parse(data, is_known, trusted=True)
        assert [op.name for op in again.functions["main"].body.ops] == wanted


def test_an_artifact_that_is_newer_says_so() -> None:
    m = mlir.bindings()
    with m.context(), m.ir.Location.unknown():
        module = m.ir.Module.parse("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
    current = m.stablehlo.get_current_version()
    data = portable_artifact(module, current)
    newer = data.replace(f"StableHLO_v{current}".encode(), b"StableHLO_v9" + f"StableHLO_v{current}".encode()[12:])
    with pytest.raises(ArtifactError) as error:
        load(newer)
    assert str(error.value) == (
        f"this is an artifact of StableHLO 9{current[1:]}, and jaxlib here has {current}.\n"
        "  help: write it for an older version, or install a newer jaxlib."
    )
    assert load(data)(np.float32(2)) == 2
