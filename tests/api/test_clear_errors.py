"""Errors as users read them: what is wrong, and what to write."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

ONES = np.ones(3, "f4")
#: The namespace, to be called as its types forbid.
UNTYPED: Any = dnp


def text_of(call: Callable[[], Any]) -> str:
    """An error's text, its line as <line>."""
    with pytest.raises(dyn.errors.DynError) as caught:
        call()
    return re.sub(r"  at test_clear_errors\.py:\d+  .*", "  at <line>", str(caught.value))


async def _coroutine(x: Any) -> Any:
    return x


async def _stream(x: Any) -> Any:
    yield x


def _generator(x: Any) -> Any:
    yield x


class _Layer:
    def __init__(self) -> None:
        self.w = np.ones(4, "f4")
        self.parts = {"b": [np.ones(2, "f4"), np.ones(5, "f4")]}

    def __call__(self, x: Any) -> Any:
        return x + self.w


def _at(x: Any) -> Any:
    x.at[0] = 3
    return x


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "a class": (
        lambda: dyn.jit(_Layer),
        "jit takes a function, and _Layer is a class.\n"
        "  help: compile a method of its objects, as dyn.jit(_Layer(…).method), or a function that makes one.",
    ),
    "a coroutine": (
        lambda: dyn.jit(_coroutine),
        "jit takes a function that returns arrays, and _coroutine is a coroutine: it gives something to await.\n"
        "  help: compile the function that computes, and call it from there.",
    ),
    "a stream": (
        lambda: dyn.jit(_stream),
        "jit takes a function that returns arrays, and _stream is an asynchronous generator.\n"
        "  help: compile the function that computes, and call it from there.",
    ),
    "a generator": (
        lambda: dyn.jit(_generator),
        "jit takes a function that returns arrays, and _generator is a generator: what it yields is not known when it "
        "returns.\n  help: compile the function that computes, and call it from there.",
    ),
    "a static argument": (
        lambda: dyn.jit(lambda cfg, x: x, static_argnames="cgf"),
        "static_argnames: <lambda> has no argument 'cgf'.\n  help: did you mean 'cfg'? It has cfg, x.",
    ),
    "a dtype": (
        lambda: dyn.ShapeDtypeStruct(("n",), "flaot32"),
        "'flaot32' is not a dtype that dyn has.\n"
        f"  help: did you mean 'float32'? There are {', '.join(one.name for one in dyn.dtypes.ALL)}.",
    ),
    "places": (
        lambda: dnp.round(ONES, -400),
        "round: decimals is -400, and no float is beyond 1e308.\n  at <line>\n  help: pass a number from -308 to 308.",
    ),
    "a key": (
        lambda: dyn.random.normal((3,)),
        "normal takes a key first, and not a tuple.\n  at <line>\n"
        "  help: make one with dyn.random.key(seed): normal(key, …).",
    ),
    "at": (
        lambda: dyn.jit(_at)(ONES),
        "x.at[i] = v: x.at gives new arrays, and changes none.\n  at <line>\n"
        "  help: write x[i] = v, or y = x.at[i].set(v).",
    ),
    "a branch": (
        lambda: dyn.jit(lambda x: x if x.sum() > 0 else -x)(ONES),
        "a Python branch needs the elements of bool[], which are not known while '<lambda>' is traced.\n  at <line>\n"
        "  help: use dyn.numpy.where, dyn.lax.cond, or for a loop dyn.lax.while_loop; or make the value a static "
        "argument.",
    ),
    "ceil": (
        lambda: dyn.jit(lambda x: dnp.zeros(math.ceil(x.shape[0] / 2)))(ONES),
        "math.ceil() needs the elements of f64[], which are not known while '<lambda>' is traced.\n  at <line>\n"
        "  help: use dyn.numpy.ceil of arrays; of sizes write (n + 1) // 2 for n / 2, which is a size too.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_whole_texts(name: str) -> None:
    call, text = ERRORS[name]
    assert text_of(call).replace("i1[]", "bool[]") == text


def test_captured_arrays_have_the_names_of_variables_and_attributes() -> None:
    layer, weights = _Layer(), np.ones(4, "f4")
    found = [
        text_of(lambda: dyn.jit(layer.__call__)(ONES)),
        text_of(lambda: dyn.jit(lambda x: x + weights)(ONES)),
        text_of(lambda: dyn.jit(lambda x: (layer(x),))(ONES)),
        text_of(lambda: dyn.jit(lambda x: x * 2 + layer.parts["b"][1])(ONES)),
        text_of(lambda: dyn.jit(lambda x: x + _GLOBAL)(ONES)),
    ]
    assert [re.search(r": (.*) broadcasts axis 0", text.splitlines()[0])[1] for text in found[:3]] == [  # pyright: ignore
        "x + self_w", "x + weights", "x + layer_w",
    ]  # fmt: skip
    assert "x + GLOBAL" in found[4].replace("_GLOBAL", "GLOBAL")
    program = dyn.jit(lambda x: x + layer.parts["b"][1]).trace(np.ones(5, "f4")).as_text()
    assert "\"layer.parts['b'][1]\" hidden" in program


_GLOBAL = np.ones(7, "f4")


def test_a_file_that_is_not_there() -> None:
    pytest.importorskip("jaxlib")
    for name in ("nosuch.mlir", "/nowhere/at/all", "models/nosuch.mlirbc"):
        text = text_of(lambda name=name: dyn.interop.stablehlo.load(name))
        assert text == f"there is no file {name}.\n  help: check the path."
    assert text_of(lambda: dyn.interop.stablehlo.load("not a module")).startswith("this is no StableHLO module")


def test_what_is_no_file(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    lowered = dyn.jit(lambda x: x).lower(ONES)
    for given in (3, [1], lowered):
        assert text_of(lambda given=given: dyn.interop.stablehlo.load(given)) == (
            f"load() takes a module's text or bytes, or the path of its file, not a {type(given).__name__}.\n"
            "  help: of a program of dyn's write dyn.interop.stablehlo.dump(lowered), which is such text."
        )
    assert text_of(lambda: dyn.interop.stablehlo.load(tmp_path)) == (
        f"{tmp_path} cannot be read: Is a directory.\n  help: name the file of a module."
    )
    capsule = np.zeros(3).__dlpack__()
    assert text_of(lambda: dyn.numpy.from_dlpack(capsule)).splitlines()[-1] == (
        "  help: pass the array that it is of: a capsule can be read once."
    )


def test_a_command_that_is_misspelt() -> None:
    ran = subprocess.run([sys.executable, "-m", "dyn", "doctr"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == "python -m dyn: error: there is no command doctr: did you mean doctor?"


def test_a_variable_that_is_misspelt() -> None:
    for name, said in (("DYN_NUM_THRADS", True), ("DYN_SOMETHING_ELSE", False), ("DYN_NUM_THREADS", False)):
        ran = subprocess.run(
            [sys.executable, "-c", "import dyn"], capture_output=True, text=True, check=True,
            env={**os.environ, name: "2"},
        )  # fmt: skip
        told = f"UserWarning: {name} is no setting of dyn's.\n  help: did you mean DYN_NUM_THREADS?"
        assert (told in ran.stderr) == said
        assert said or not ran.stderr


# ---- tracebacks ------------------------------------------------------------------------------------------------------


def _layer(x: Any, w: Any) -> Any:
    return x @ w


def _fails(x: Any) -> Any:
    raise KeyError("mine")


def _endless(x: Any) -> Any:
    return _endless(x) + 1


FAILING: dict[str, Callable[[], Any]] = {
    "while it is traced": lambda: dyn.jit(lambda x: _layer(x, x[:2]) + 1)(np.ones((2, 3), "f4")),
    "when it is called": lambda: dyn.jit(_layer)(np.ones((2, 3)), np.ones((4, 5))),
    "an eager function": lambda: dnp.dot(np.ones(3), np.ones(4)),
    "an operator": lambda: dnp.ones(3) + dnp.ones(4),
    "a gradient": lambda: dyn.grad(lambda x: _layer(x, x[:2]).sum())(np.ones((2, 3))),
    "a batch": lambda: dyn.vmap(lambda x: _layer(x, x[:2]))(np.ones((5, 2, 3))),
    "a stage": lambda: dyn.jit(_fails).lower(ONES),
    "shapes ahead": lambda: dyn.jit(_fails).prepare([ONES]),
    "an error of the user's": lambda: dyn.jit(lambda x: _fails(x) + 1)(ONES),
    "of the user's, in a gradient": lambda: dyn.jit(dyn.grad(_fails))(1.0),
    "a method": lambda: dnp.ones(3).sum(axis=5),
    "a keyword": lambda: UNTYPED.sum(ONES, axes=0),
    "a keyword of a method": lambda: dnp.ones(3).sum(axes=0),
    "a keyword, while it is traced": lambda: dyn.jit(lambda x: UNTYPED.sum(x, axes=0))(ONES),
    "a keyword of a function that is checked": lambda: UNTYPED.quantile(ONES, 0.5, axes=0),
    "too few arguments": lambda: dyn.jit(lambda x: UNTYPED.sum())(ONES),
    "a branch": lambda: dyn.lax.cond(True, lambda x: _layer(x, x[:2]), lambda x: x, np.ones((2, 3))),
    "a scan": lambda: dyn.lax.associative_scan(lambda a, b: _layer(a, b[:2]), np.ones((4, 2, 3))),
    "a forward derivative": lambda: dyn.jvp(lambda x: _layer(x, x[:2]), (np.ones((2, 3)),), (np.ones((2, 3)),)),
    "a checkpoint": lambda: dyn.checkpoint(lambda x: _layer(x, x[:2]))(np.ones((2, 3))),
    "a compiled stage": lambda: (
        dyn.jit(_layer).lower(np.ones((2, 3)), np.ones((3, 5))).compile()(np.ones((2, 3)), np.ones((4, 5)))
    ),
    "the oracle": lambda: dyn.jit(_layer).reference(np.ones((2, 3)), np.ones((4, 5))),
}


def _frames(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("name", FAILING)
def test_tracebacks_end_in_the_users_code(name: str) -> None:
    with pytest.raises((dyn.errors.DynError, KeyError)) as caught:
        FAILING[name]()
    assert set(_frames(caught.value)) == {__file__}
    assert "During handling" not in "".join(traceback.format_exception(caught.value))
    if isinstance(caught.value, KeyError):
        assert traceback.extract_tb(caught.value.__traceback__)[-1].line == 'raise KeyError("mine")'
    with dyn.config.override(full_tracebacks=True), pytest.raises(BaseException) as caught:
        FAILING[name]()
    assert len(set(_frames(caught.value))) > 1


def test_a_keyword_of_no_name() -> None:
    signature = "(x, /, axis=None, dtype=None, keepdims=False, *, initial=None, where=None)"
    assert text_of(lambda: UNTYPED.sum(ONES, axes=0)) == (
        "sum(): got an unexpected keyword argument 'axes'.\n"
        "  at <line>\n"
        f"  help: did you mean axis? Its signature is {signature}."
    )
    assert text_of(lambda: dyn.jit(lambda x: x.sum(0, unknown=1))(ONES)) == (
        f"sum(): got an unexpected keyword argument 'unknown'.\n  at <line>\n  help: its signature is {signature}."
    )
    with pytest.raises(TypeError) as caught:  # Python's own, of a function that is no operation
        dyn.lax.scan(lambda c, x: (c, x), 0.0, ONES, wrong=1)  # pyright: ignore[reportCallIssue]
    assert str(caught.value) == "scan() got an unexpected keyword argument 'wrong'"
    assert set(_frames(caught.value)) == {__file__}


def test_endless_recursion_is_told_shortly() -> None:
    with pytest.raises(RecursionError) as caught:
        dyn.jit(_endless)(ONES)
    text = "".join(traceback.format_exception(caught.value))
    assert len(text.splitlines()) < 30
    assert "return _endless(x) + 1" in text


def test_faults_of_dyns_keep_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any, **kwargs: Any) -> Any:
        return list[int]()[0]

    monkeypatch.setattr("dyn.api.build_beside", fault)
    with pytest.raises(IndexError) as caught:
        dyn.jit(lambda x: x + 1)(ONES)
    assert set(_frames(caught.value)) == {__file__}  # this one's is the test's
    monkeypatch.setattr("dyn.api.build_beside", None)
    with pytest.raises(TypeError) as caught:
        dyn.jit(lambda x: x + 2)(ONES)
    assert any(file.endswith("dyn/api.py") for file in _frames(caught.value))


def test_stages_are_shown_in_a_line() -> None:
    def scale(x: Any, params: Any) -> Any:
        return (x * _GLOBAL[0]).sum(), params["w"]

    traced = dyn.jit(scale).trace(np.ones(3), {"w": np.ones(3)})
    heading = "scale(x: f64[x_0], params['w']: f64[params_w_0]) -> f64[], f64[params_w_0]"
    lowered = traced.lower()
    assert [repr(one) for one in (traced, lowered, lowered.compile())] == [
        f"Traced({heading})", f"Lowered({heading})", f"Compiled({heading})",
    ]  # fmt: skip
    many = repr(dyn.jit(lambda *xs: xs).trace(*[np.ones((1000, 1000))] * 200))
    assert "\n" not in many
    assert many.count("196 more") == 2
