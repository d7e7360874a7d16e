"""Replays, bisections and smaller programs of functions of every front end but TensorFlow's, which has tests apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dyn.diagnosis.stored import StoredProgram


def is_nan(program: StoredProgram, arrays: Sequence[Any]) -> str:
    return "makes NaN" if any(np.isnan(one).any() for one in program(*arrays)) else ""


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    import dyn.interop.torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(3)

        def forward(self, x: Any) -> Any:
            return torch.log(self.norm(x))

    model = dyn.interop.torch.jit(torch.nn.Sequential(torch.nn.Linear(4, 3), Block()))
    for rows in (1, 5):
        x = torch.ones(rows, 4)
        with torch.inference_mode():
            replay = model.replay(x)
        assert replay.stop is not None
        assert (replay.stop.cause, replay.stop.op, replay.stop.loc.module) == ("nan", "log", "1")
        assert replay.stop.loc.code == "return torch.log(self.norm(x))"
        assert dyn.bisect(model, [x]).culprit is None
        found = dyn.minify(model, [x], fails=is_nan)
        assert (found.after, "log" in found.program.text) == (1, True)
    with torch.inference_mode():
        never = model.replay(torch.ones(0, 4))
    assert never.stop is None


def test_results_of_a_library_s_functions() -> None:
    """What a PyTorch function returns and what it writes are the results of one program."""
    torch = pytest.importorskip("torch")
    import dyn.interop.torch

    def twice(x: Any) -> Any:
        x.add_(1)
        return {"twice": x * 2}

    f = dyn.interop.torch.jit(twice)
    for size in (0, 1, 3):
        x = torch.ones(size)
        replay = f.replay(x)
        results = [np.asarray(one) for one in replay.result]
        assert sorted([one.sum() for one in results]) == [2 * size, 4 * size]
        assert repr(replay.result) == f"results of a program: {results!r}"
        assert dyn.bisect(f, [x], expected=results).culprit is None
        assert dyn.bisect(f, [x], expected=[one + 1 for one in results]).culprit == ("trace" if size else None)
        with pytest.raises(dyn.errors.ArgumentError) as error:
            dyn.bisect(f, [x], expected={"twice": x})
        assert str(error.value) == (
            "bisect: expected= is another tree than the function's result.\n"
            "  help: the program's results are a list of 2, too: replay(...).result has them in this order."
        )
        assert x.sum() == size  # it was not written to


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    import dyn.interop.jax

    f = dyn.interop.jax.jit(lambda x: jax.nn.softmax(jax.numpy.log(x), axis=-1))
    for size in (1, 4):
        replay = f.replay(jax.numpy.zeros((size,)))
        assert replay.stop is not None
        assert (replay.stop.cause, replay.stop.op) == ("infinity", "log")
        x = jax.numpy.ones((size,))
        np.testing.assert_array_equal(f.replay(x).result, f(x))
        assert dyn.bisect(f, [x]).culprit is None
    assert f.cache_info().compiles == 1
    with pytest.raises(dyn.errors.ArgumentError) as error:
        f.replay(jax.ShapeDtypeStruct((3,), "float32"))
    assert "which has no elements" in str(error.value)


def test_stablehlo() -> None:
    import dyn.interop.stablehlo

    text = dyn.jit(dyn.numpy.log).lower(np.zeros(3, "f4")).as_text("stablehlo")
    f = dyn.interop.stablehlo.load(text)
    replay = f.replay(np.zeros(2, "f4"))
    assert replay.stop is not None
    assert replay.stop.cause == "infinity"
    assert f.replay(np.ones(0, "f4")).stop is None
    assert dyn.bisect(f, [np.ones(2, "f4")]).culprit is None
