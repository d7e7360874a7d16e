"""The public surface: what ``import dyn`` gives, and what it says of what it does not have yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.interop import stablehlo
from tests.threads import in_threads


def test_every_public_name_is_there() -> None:
    for name in dyn.__all__:
        assert getattr(dyn, name) is not None


def test_import_leaves_for_later_what_few_programs_or_only_calls_need() -> None:
    later = ("dyn.lax", "dyn.nn", "dyn.backends", "dyn.pipeline", "logging", "llvmlite", "scipy")
    code = (
        "import numpy, sys; before = set(sys.modules); import dyn; "
        f"print([name for name in {later!r} if name in sys.modules and name not in before]); "
        "assert {'nn', 'Device', 'devices', 'jit'} <= set(dir(dyn)); "
        "assert dyn.lax is sys.modules['dyn.lax'] and dyn.nn is sys.modules['dyn.nn']; "
        "assert dyn.devices.__module__ == 'dyn.backends.devices'"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_front_ends_are_imported_when_they_are_asked_for() -> None:
    code = (
        "import sys, dyn; dyn.interop; assert {'jax', 'torch'} <= set(dir(dyn.interop)); "
        "print([name for name in ('jax', 'torch', 'tensorflow', 'dyn.interop.stablehlo') if name in sys.modules]); "
        "print(dyn.interop.stablehlo.load.__name__, hasattr(dyn.interop, 'nonsense'))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\nload False\n"


def test_a_later_name_says_so() -> None:
    for name in ("load", "save"):
        with pytest.raises(dyn.errors.NotYetError) as error:
            getattr(dyn, name)
        assert str(error.value) == (
            f"dyn.{name} comes in a later version of dyn.\n  help: compiled code is kept in DYN_CACHE_DIR, where "
            "another process finds it; a program is written and read as StableHLO by dyn.interop.stablehlo.dump and "
            "load."
        )
        assert not hasattr(dyn, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dyn.nonsense  # noqa: B018


def test_jit_bare_and_with_options_and_as_a_method() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = np.float32(scale)

        @dyn.jit(static_argnums=0)
        def __call__(self, x):
            return x * self.scale

    model = Model(3)
    assert model(np.ones(2, "f4")).tolist() == [3.0, 3.0]
    assert model(np.ones(1, "f4")).tolist() == [3.0]
    twice = dyn.jit(shapes="n")(lambda x: x * 2)
    assert twice(np.ones(2, "f4")).tolist() == [2.0, 2.0]


def test_static_arguments_make_programs() -> None:
    f = dyn.jit(lambda x, axis: dnp.sum(x, axis=axis), static_argnames="axis")
    x = np.arange(6, dtype="f4").reshape(2, 3)
    assert f(x, axis=0).tolist() == [3.0, 5.0, 7.0]
    assert f(x, axis=1).tolist() == [3.0, 12.0]
    assert f(x[:1], axis=1).tolist() == [3.0]
    assert f.cache_info().compiles == 2


def test_pytrees_in_and_out() -> None:
    @dyn.jit
    def f(tree):
        return {"sum": tree["a"] + tree["b"][0], "more": (tree["b"][1] * 2, None)}

    result = f({"a": np.ones(3, "f4"), "b": [np.ones(3, "f4"), np.arange(2)]})
    assert result["sum"].tolist() == [2.0] * 3
    assert result["more"][0].tolist() == [0, 2]
    assert result["more"][1] is None


def test_nested_jit_is_inlined_and_holds_to_its_declarations() -> None:
    inner = dyn.jit(lambda x, y: x * y, shapes="n, n")
    outer = dyn.jit(lambda x, y: inner(x, y) + 1)
    assert outer(np.ones(3, "f4"), np.ones(3, "f4")).tolist() == [2.0] * 3
    assert (inner.cache_info().compiles, outer.cache_info().compiles) == (0, 1)
    with pytest.raises(dyn.errors.ShapeError, match=r"declares y\.shape"):
        outer(np.ones(3, "f4"), np.ones(4, "f4"))


def test_captured_arrays_are_read_at_each_call() -> None:
    weight = np.ones(3, "f4")
    f = dyn.jit(lambda x: x * weight)
    assert f(np.ones(3, "f4")).tolist() == [1.0] * 3
    weight[:] = 5
    assert f(np.ones(3, "f4")).tolist() == [5.0] * 3
    assert f.cache_info().compiles == 1


class _Kind(np.ndarray[Any, Any]):
    """A class of arrays that somebody made."""


def _field() -> Any:
    return np.ones(4, [("a", "i1"), ("b", "f4")])["b"]


def _misaligned() -> Any:
    return np.zeros(17, "u1")[1:].view("f4")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: np.ones(4, ">f4"), id="another byte order"),
        pytest.param(lambda: np.ones(8, ">f8")[::-2], id="another byte order, strided"),
        pytest.param(lambda: np.ones((4, 4), ">c8").T, id="another byte order, transposed"),
        pytest.param(lambda: np.ones(4, ">i4").view(_Kind), id="another byte order, another class"),
        pytest.param(lambda: np.array(1.0, ">f4"), id="another byte order, one element"),
        pytest.param(lambda: np.ones(8, "f2")[::2], id="strided"),
        pytest.param(lambda: np.ones((4, 4), "f4")[::-1], id="backward"),
        pytest.param(lambda: np.ones((4, 4), "f4").view(np.matrix), id="a matrix"),
        pytest.param(_field, id="a field"),
        pytest.param(_misaligned, id="misaligned"),
        pytest.param(lambda: np.ones((0, 3), ">f4"), id="no elements"),
    ],
)
def test_captured_arrays_of_any_layout(make: Any) -> None:
    """What is written to them, by whatever name, is seen by the next call."""
    weight = make()
    seen = weight.view()
    seen.flags.writeable = False
    f = dyn.jit(lambda x: (x + seen, dnp.reshape(seen, (-1,)), lax.fori_loop(0, 2, lambda i, v: v + seen, x)))
    x = np.zeros(weight.shape, weight.dtype.newbyteorder("="))
    for number in (2, 3, 4):
        weight[...] = number
        for results in (f(x), f.reference(x)):
            assert [r.dtype for r in results] == [x.dtype] * 3
            for result, factor in zip(results, (1, 1, 2), strict=True):
                np.testing.assert_array_equal(result, np.full(result.shape, number * factor))
    assert f.cache_info().compiles == 1
    loaded = stablehlo.load(stablehlo.dump(f.trace(x)))
    np.testing.assert_array_equal(loaded(x)[0], np.full(x.shape, 4))


def test_results_are_arrays_of_their_own() -> None:
    x = np.arange(4, dtype="f4")
    a, b, c = dyn.jit(lambda x: (x, x, x.reshape(2, 2)))(x)
    a[0] = b[0] = c[0, 0] = 9
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (a[1], b[1], c[0, 1]) == (1.0, 1.0, 1.0)


def test_stages_follow_jax() -> None:
    f = dyn.jit(lambda x: dnp.sum(x * 2.0, axis=-1))
    traced = f.trace(dyn.ShapeDtypeStruct(("n", 8), "float32"))
    assert "func @" in traced.as_text()
    lowered = traced.lower()
    for dialect in ("dhlo", "stitch", "kernel", "host"):
        assert lowered.as_text(dialect)
    compiled = lowered.compile()
    assert compiled(np.ones((3, 8), "f4")).tolist() == [16.0] * 3
    assert compiled(np.ones((0, 8), "f4")).shape == (0,)
    assert "define" in compiled.as_text("llvm")
    assert compiled.as_text("asm")
    with pytest.raises(dyn.errors.ArgumentError, match="there is no dialect 'nonsense'"):
        lowered.as_text("nonsense")


def test_many_threads_compile_once_and_agree() -> None:
    f = dyn.jit(lambda x: dnp.tanh(x) @ x.T)
    inputs = [np.random.default_rng(i).standard_normal((i % 5 + 1, 6)).astype("f4") for i in range(16)]

    def work(x: np.ndarray[Any, Any]) -> None:
        for _ in range(20):
            np.testing.assert_allclose(f(x), np.tanh(x) @ x.T, rtol=1e-5, atol=1e-5)

    in_threads(work, inputs)
    assert f.cache_info().compiles == 1


def test_explain_before_and_after_the_first_call() -> None:
    @dyn.jit
    def softmax(x):
        return dyn.nn.softmax(x)

    assert str(softmax.explain()) == "softmax: 0 compiles, 0 hits, 0 guards\n  not called yet: nothing is compiled"
    softmax(np.ones((2, 3), "f4"))
    text = str(softmax.explain())
    for part in ("dims", "x_0 = x.shape[0]", "stitch", "memory", "compiled", "variant"):
        assert part in text


def test_dump_writes_the_text_after_each_pass(tmp_path) -> None:
    with dyn.config.override(dump=str(tmp_path)):
        dyn.jit(lambda x: x + 1)(np.ones(3, "f4"))
    written = sorted(path.name for path in tmp_path.iterdir())
    stages = [name.split("-", 1)[1] for name in written if name.startswith("lambda.0001.") and name.endswith(".txt")]
    for stage in ("trace.txt", "refine_shapes.txt", "stitch.txt", "kernels.txt", "host.txt", "llvm.txt"):
        assert stage in stages


def test_importing_dyn_loads_nothing_behind_tracing() -> None:
    """What only a compilation needs is imported by the first one: ``import dyn`` takes a third less without it."""
    code = "import sys, dyn; print(*sys.modules)"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    heavy = {"dyn.lower", "dyn.stitch", "dyn.pipeline", "dyn.explain", "dyn.backends.x86", "llvmlite", "scipy"}
    heavy |= {"logging", "concurrent.futures", "filelock", "platformdirs", "numpy.ma"}
    assert heavy & set(done.stdout.split()) == set()


def test_an_argument_that_is_no_array_is_one_error() -> None:
    with pytest.raises(dyn.errors.ArgumentError, match="mode is a str") as error:
        dyn.jit(lambda x, mode: x)(np.ones(3), "sum")
    assert error.value.__context__ is None
