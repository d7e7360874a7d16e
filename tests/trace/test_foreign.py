"""Tracers and dimensions that are handed to functions of JAX and of PyTorch."""

# ruff: noqa: PLW0108, PLC3002  # which function a line calls is what is tested

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import ArgumentError, TraceError
from dyn.trace.bytecode import UNKNOWN_CALLEE, callee

X = np.arange(3, dtype=np.float32)
JAX_REMEDY = (
    "Where all of the function is JAX's, compile it with dyn.interop.jax.jit; a part of it is called as "
    "dyn.interop.stablehlo.load(jax.export.export(jax.jit(part))(...).mlir_module_serialized)."
)
TORCH = "A module, or a function that is PyTorch's, is compiled with dyn.interop.torch.jit."
NAMESPACES = "use functions of dyn.numpy, dyn.nn and dyn.lax"


def refused(function: Callable[[Any], Any]) -> tuple[str, str]:
    """The problem and the remedy of the error of a function that is traced."""

    def f(x: Any) -> Any:
        return function(x)

    with pytest.raises(TraceError) as error:
        dyn.jit(f)(X)
    assert error.value.loc is not None
    assert error.value.loc.file == __file__
    return error.value.problem, error.value.remedy


def said(name: str, library: str, what: str = "an array of f32[x_0]") -> str:
    called = f"{name}() of {library}" if name else f"a function of {library}"
    why = f"{library} cannot compute with what dyn traces."
    return f"{called} was called with {what}, while 'f' is traced by dyn: {why}"


def test_functions_of_jax() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    assert refused(lambda x: jnp.sin(x)) == (said("sin", "JAX"), f"use dyn.numpy.sin. {JAX_REMEDY}")
    assert refused(lambda x: jnp.add(x, 1)) == (said("add", "JAX"), f"use dyn.numpy.add. {JAX_REMEDY}")
    assert refused(lambda x: jnp.concatenate([x, x]))[0] == said("concatenate", "JAX")
    assert refused(lambda x: jax.nn.gelu(x)) == (said("gelu", "JAX"), f"use dyn.nn.gelu. {JAX_REMEDY}")
    assert refused(lambda x: jnp.linalg.norm(x)) == (said("norm", "JAX"), f"use dyn.numpy.linalg.norm. {JAX_REMEDY}")
    unknown = said("entr", "JAX"), f"{NAMESPACES}. {JAX_REMEDY}"
    assert refused(lambda x: jax.scipy.special.entr(x)) == unknown
    assert refused(lambda x: jax.grad(lambda v: v.sum())(x)) == (said("", "JAX"), f"{NAMESPACES}. {JAX_REMEDY}")
    dimension = said("arange", "JAX", "the dimension x_0")
    assert refused(lambda x: jnp.arange(x.shape[0])) == (dimension, f"use dyn.numpy.arange. {JAX_REMEDY}")


def test_a_look_from_jax_in_c_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """``PyObject_HasAttrString`` prints errors that are no AttributeErrors, from Python 3.13 on."""
    jax = pytest.importorskip("jax")
    assert refused(lambda x: jax.nn.relu(x)) == (said("relu", "JAX"), f"use dyn.nn.relu. {JAX_REMEDY}")
    assert "Exception ignored" not in capfd.readouterr().err


def test_arrays_that_jax_refuses_in_c() -> None:
    """JAX raises a TypeError there, which is dyn's error once it leaves the function; to the function it is JAX's."""
    jax = pytest.importorskip("jax")
    assert refused(lambda x: jax.lax.add(x, x)) == (said("add", "JAX"), f"use dyn.lax.add. {JAX_REMEDY}")
    inner = refused(lambda x: dyn.lax.cond(x[0] > 0, lambda y: jax.nn.relu(y), lambda y: y, x))
    assert inner[1] == f"use dyn.nn.relu. {JAX_REMEDY}"
    with pytest.raises(TraceError) as caught:
        dyn.grad(lambda x: jax.nn.relu(x).sum())(X)
    assert caught.value.remedy == f"use dyn.nn.relu. {JAX_REMEDY}"
    assert caught.value.__suppress_context__

    def falls_back(x: Any) -> Any:
        try:
            return jax.nn.relu(x)
        except TypeError as error:
            caught_inside.append(type(error))
            return dyn.nn.relu(x)

    caught_inside: list[type] = []
    assert dyn.jit(falls_back)(X).tolist() == [0, 1, 2]
    assert caught_inside == [TypeError]

    def fails_later(x: Any) -> Any:
        falls_back(x)
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        dyn.jit(fails_later)(X)


def test_modules_of_pytorch_are_another_jits() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError) as error:
        dyn.jit(torch.nn.Linear(3, 4))
    assert str(error.value) == (
        "jit takes a function of dyn's arrays, and Linear is a module of PyTorch.\n"
        "  help: compile it with dyn.interop.torch.jit."
    )


def test_functions_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    sine = said("sin", "PyTorch"), f"use dyn.numpy.sin. {TORCH}"
    assert refused(lambda x: torch.sin(x)) == sine
    assert refused(lambda x: torch.sin(input=x)) == sine
    both = said("cat", "PyTorch"), f"{NAMESPACES}. {TORCH}"
    assert refused(lambda x: torch.cat([torch.ones(3), x])) == both
    assert refused(lambda x: torch.nn.functional.relu(x))[0] == said("relu", "PyTorch")
    assert refused(lambda x: torch.nn.Linear(3, 2)(x))[0] == said("linear", "PyTorch")


@pytest.mark.parametrize("library", ["jax.numpy", "torch"])
def test_operators_with_their_arrays_are_those_of_dyn(library: str) -> None:
    other = pytest.importorskip(library)
    ones: Any = other.ones(3)
    for function in (lambda x: ones + x, lambda x: x + ones, lambda x: ones * x - ones / (x + 1)):
        np.testing.assert_allclose(np.asarray(dyn.jit(function)(X)), np.asarray(function(other.asarray(X))), 1e-6)


def test_a_tracer_has_no_attribute_of_jax_for_others() -> None:
    found: list[bool] = []

    def f(x: Any) -> Any:
        found.extend([hasattr(x, "__jax_array__"), hasattr(x.shape[0], "__jax_array__")])
        return x

    dyn.jit(f)(X)
    assert found == [False, False]


# --- what a frame calls -----------------------------------------------------------------------------------------------


class Asking:
    """Its hash finds out who asks for it."""

    def __init__(self) -> None:
        self.callee: Any = None

    def __hash__(self) -> int:
        self.callee = callee(sys._getframe(1))
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


class Holder:
    def __init__(self, table: dict[Any, Any]) -> None:
        self.table = table

    @property
    def computed(self) -> dict[Any, Any]:
        return self.table


def test_the_function_that_a_frame_calls() -> None:
    one, table = Asking(), dict[Any, Any]()
    holder, functions = Holder(table), [table.get]

    def called(run: Callable[[], Any]) -> Any:
        run()
        return one.callee

    assert called(lambda: hash(one)) is hash
    assert called(lambda: table.get(one, 1 + len(functions))).__name__ == "get"
    assert called(lambda: holder.table.setdefault(one, [])).__name__ == "setdefault"
    assert called(lambda: set([one])) is set  # noqa: C405  # a call is what is tested
    assert called(lambda: max(len([1, 2]), hash(one))) is hash
    for run in (
        lambda: functions[0](one),
        lambda: {}.get(one),
        lambda: (lambda: table.get)()(one),
        lambda: holder.computed.get(one),
        lambda: table.get(one if functions else None),
        lambda: one in table,
    ):
        assert called(run) is UNKNOWN_CALLEE

    def often() -> int:
        return hash(one)

    assert {called(often) for _ in range(100)} == {hash}  # the interpreter makes other instructions of it
