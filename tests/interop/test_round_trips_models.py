"""Whole programs written as StableHLO and read again: the same dims by the same names, the same facts and results."""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
import dyn.tree
from dyn import lax
from dyn.backends.reference import run_reference
from dyn.errors import DynError
from dyn.interop.stablehlo import dump, load, mlir
from dyn.interop.stablehlo.dump import module_of
from dyn.interop.stablehlo.mlir.context import ELEMENTS
from dyn.ir.core import Function
from dyn.shapes import format_dim
from examples import bert, gpt
from tests.models.random_programs import make_program
from tests.models.test_gpt import HEADS, LAYERS, WIDTH, parameters, step

pytest.importorskip("jaxlib")
RNG = np.random.default_rng(5)
BERT = bert.BertConfig(layers=1, width=12, heads=3, intermediate=20, vocabulary=30, positions=16)
GPT = gpt.GptConfig(layers=1, width=12, heads=3, vocabulary=30, positions=16)


def dims_of(function: Function) -> list[list[str]]:
    return [[format_dim(d) for d in v.shape] for v in function.results]


def demands_of(function: Function) -> list[str]:
    """The demands of a program, and why; not which line of which file that is."""
    return [str(r.describe()) + ": " + r.reason.text for r in function.facts.relations]


def leaves_of(args: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in dyn.tree.flatten(args)[0]]


def came_back(function: Any, calls: list[Any]) -> Function:
    """The program as it is read again, traced; held to what was written, at the sizes of all calls."""
    before = function.trace(*calls[0])
    loaded = load(dump(before))
    after = loaded.trace(*leaves_of(calls[0])).function
    assert dims_of(after) == dims_of(before.function)
    assert demands_of(after) == demands_of(before.function)
    captured = [np.asarray(a) for a in before.traced.captured]
    for args in calls:
        leaves = leaves_of(args)
        wanted = run_reference(before.function, [*leaves, *captured])
        for x, y in zip(run_reference(after, leaves), wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, 1e-4, 1e-5)
    return after


def ids(*shape: int) -> Any:
    return RNG.integers(0, 30, shape)


def encoder() -> tuple[Any, list[Any]]:
    params = bert.init_params(BERT)

    @dyn.jit(shapes="b s, b s")
    def encode(words: Any, mask: Any) -> Any:
        return bert.encode(params, words, mask, config=BERT)

    return encode, [(ids(*shape), np.ones(shape, np.int32)) for shape in ((2, 3), (1, 1), (0, 4), (3, 16))]


def language_model() -> tuple[Any, list[Any]]:
    params = gpt.init_params(GPT)

    @dyn.jit(shapes="b s")
    def logits(words: Any) -> Any:
        return gpt.logits(params, words, GPT)

    return logits, [(ids(*shape),) for shape in ((2, 3), (1, 1), (4, 16))]


def training() -> tuple[Any, list[Any]]:
    params = gpt.init_params(GPT)
    function = dyn.value_and_grad(lambda p, ids: gpt.loss(p, ids=ids, config=GPT))
    gradients = dyn.jit(function, shapes=(gpt.shapes_of(params), "b s"))
    return gradients, [(params, ids(*shape)) for shape in ((2, 4), (1, 2), (3, 9))]


def decoding() -> tuple[Any, list[Any]]:
    def past(b: int, s: int) -> Any:
        return [tuple(RNG.random((2, b, s, HEADS, WIDTH), np.float32)) for _ in range(LAYERS)]

    params = parameters()
    whole = [(f"b s {HEADS} {WIDTH}",) * 2] * LAYERS
    decode = dyn.jit(step, shapes=(gpt.shapes_of(params), "b t", whole))
    return decode, [(params, ids(b, t), past(b, s)) for b, t, s in ((2, 3, 4), (1, 1, 0), (1, 1, 9))]


MODELS = {"encoder": encoder, "language model": language_model, "training": training, "decoding": decoding}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models(name: str) -> None:
    came_back(*MODELS[name]())


def measured() -> dict[str, tuple[Any, list[Any]]]:
    """Programs whose sizes depend on values."""
    xs = [np.array(values, np.float64) for values in ([0, 1, 0, 3, 4], [0], [], [2, 2])]

    def kept(x: Any) -> Any:
        positive = x[x > 1]
        return positive, dnp.cumsum(positive) * 2

    def begun(x: Any, n: Any) -> Any:
        return x[: lax.as_dim(n, max=x.shape[0], name="k")] + 1

    def branched(x: Any) -> Any:
        return lax.cond(dnp.sum(x) > 2, lambda: dnp.sum(x[x > 1]), lambda: dnp.sum(x))

    return {
        "nonzero": (dyn.jit(lambda x: dnp.nonzero(x)[0]), [(x,) for x in xs]),
        "a mask": (dyn.jit(kept), [(x,) for x in xs]),
        "unique": (dyn.jit(dnp.unique), [(x,) for x in xs]),
        "a number": (dyn.jit(begun), [(x, np.int32(min(len(x), 2))) for x in xs]),
        "in a branch": (dyn.jit(branched), [(x,) for x in xs]),
    }


@pytest.mark.parametrize("name", sorted(measured()))
def test_sizes_that_are_measured_come_back(name: str) -> None:
    function, calls = measured()[name]
    loaded = load(dump(function.trace(*calls[0])))
    for args in calls:
        wanted = function(*args)
        for x, y in zip(leaves_of(loaded(*args)), leaves_of(wanted), strict=True):
            np.testing.assert_array_equal(x, y)
    assert loaded.cache_info().compiles == 1
    if name != "in a branch":  # where the size is known inside alone, what is demanded of it the ops there demand again
        after = loaded.trace(*calls[0]).function
        assert dims_of(after) == dims_of(function.trace(*calls[0]).function)
        assert demands_of(after) == demands_of(function.trace(*calls[0]).function)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    """Some are refused by dyn, or have what is not written: of most there is a form."""
    program = make_program(Random(seed), most=5)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        arrays = [np.ascontiguousarray(a) for a in program.data(program.calls[0])]
        try:
            traced = program.jitted().trace(*arrays)
            text = dump(traced)
            wanted = run_reference(traced.function, [*arrays, *map(np.asarray, traced.traced.captured)])
        except DynError:
            pytest.skip("the program is refused")
        after = load(text).trace(*arrays).function
        assert dims_of(after) == dims_of(traced.function)
        for x, y in zip(run_reference(after, arrays), wanted, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x.astype(complex), y.astype(complex), 1e-2, 1e-3)


def refined(module: Any, leaves: list[Any]) -> str:
    """A module's text when its arguments have these shapes."""
    m, names = mlir.bindings(), {dtype.name: name for name, dtype in ELEMENTS.items()}
    types = ",".join(["tensor<" + "".join(f"{n}x" for n in a.shape) + names[a.dtype.name] + ">" for a in leaves])
    passes = f"stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes"
    pipeline = f"builtin.module({passes},func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes)"
    with module.context:
        m.passmanager.PassManager.parse(pipeline).run(module.operation)
    return mlir.text_of(module)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_modules_are_refined_to_static_shapes(name: str) -> None:
    function, calls = MODELS[name]()
    traced = function.trace(*calls[0])
    for args in [c for c in calls if all(a.size for a in leaves_of(c))]:
        text = refined(mlir.write(module_of(traced, for_xla=True)), leaves_of(args))
        assert not re.search(r"tensor<[^>]*\?", text), f"{name} has symbolic sizes left"
        assert "dynamic_" not in text.replace("dynamic_slice", "").replace("dynamic_update_slice", "")
