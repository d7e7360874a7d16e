"""Code that raises because a size of JAX's is no ``int``: it is one where that code is traced again."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

SIZES = (3, 1, 5, 8, 3)

#: Ways to demand a number of Python's, each a body with ``n``.
DEMANDS = {
    "type is": "if type(n) is not int: raise ValueError('n must be an int')",
    "type ==": "if type(n) != int: raise ValueError('n must be an int')",
    "type in": "if type(n) not in (int, float): raise ValueError('n must be an int')",
    "isinstance": "if not isinstance(n, int): raise TypeError('n must be an int')",
    "isinstance of several": "if not isinstance(n, (str, int)): raise TypeError('n must be an int')",
    "isinstance of a union": "if not isinstance(n, int | str): raise TypeError('n must be an int')",
    "isinstance or less": "if not isinstance(n, int) or n < 0: raise TypeError('n must be at least 0')",
    "assert": "assert isinstance(n, int), n",
}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Makes a module of a library's, of its source."""

    def made(source: str) -> Any:
        module = types.ModuleType("tests_of_types_of_sizes")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(source, vars(module))
        return module

    return made


def lines(*sizes: int) -> list[Any]:
    return [np.linspace(1.0, 2.0, n, dtype=np.float32) for n in sizes]


@pytest.mark.parametrize("demand", DEMANDS)
def test_a_size_is_an_int_to_code_that_demands_one(demand: str, library: Callable[[str], Any]) -> None:
    module = library(f"def counted(x, n):\n    {DEMANDS[demand]}\n    return x * n\n")
    first = djax.jit(lambda x: module.counted(x, x.shape[0]))
    second = djax.jit(lambda x: module.counted(x, 2 * len(x)) + 1)
    for x in lines(*SIZES):
        np.testing.assert_array_equal(first(x), x * np.float32(len(x)))
        np.testing.assert_array_equal(second(x), x * np.float32(2 * len(x)) + np.float32(1))
    assert first.cache_info().compiles == second.cache_info().compiles == 1
    assert first.cache_info().traces == 2  # what it raised, and then the size is one
    assert second.cache_info().traces == 1  # the module is known
    assert not {"type", "isinstance"} & vars(module).keys()


def test_the_number_of_steps_of_a_loop(library: Callable[[str], Any]) -> None:
    """As of equinox's loops, whose number of steps is compared with one that JAX counts."""
    module = library(
        "from jax import lax\n"
        "def loop(body, value, *, max_steps):\n"
        "    def cond(carry):\n"
        "        if type(max_steps) is not int:\n"
        "            raise ValueError('`max_steps` must be a Python integer')\n"
        "        return carry[0] < max_steps\n"
        "    return lax.while_loop(cond, lambda carry: (carry[0] + 1, body(carry[1])), (0, value))[1]\n"
    )
    run = djax.jit(lambda x: module.loop(lambda v: v * 2, x, max_steps=len(x)))
    for x in lines(*SIZES):
        np.testing.assert_array_equal(run(x), x * np.float32(2.0 ** len(x)))
    assert run.cache_info().compiles == 1


def test_what_stands_for_type_is_taken_for_it(library: Callable[[str], Any]) -> None:
    module = library(
        "def made(n):\n"
        "    if type(n) is not int: raise TypeError(n)\n"
        "    return looked_at(n)\n"
        "def looked_at(n):\n"
        "    seen.append((type(3), type('a'), type(n), type('C', (), {'size': 3}).size, isinstance(int, type),\n"
        "                 issubclass(type, type), type == type(int), {type: 1}[type(int)], repr(type),\n"
        "                 type.__name__, isinstance(type, type), type.mro(int) == int.mro()))\n"
        "    return n\n"
        "seen = []\n"
    )
    run = djax.jit(lambda x: x * module.made(x.shape[0]))
    for x in lines(*SIZES):
        np.testing.assert_array_equal(run(x), x * np.float32(len(x)))
    answers = (int, str, int, 3, True, True, True, 1, "<class 'type'>", "type", True, True)
    assert module.seen[0] == answers
    assert run.cache_info().compiles == 1


def test_other_numbers_and_classes_keep_theirs(library: Callable[[str], Any]) -> None:
    module = library(
        "def made(n, x):\n"
        "    if not isinstance(n, int): raise TypeError(n)\n"
        "    return [isinstance(n, float), isinstance(n, str), isinstance(n, bool), isinstance(x, int),\n"
        "            isinstance(True, int), isinstance(2.0, int)]\n"
    )
    run = djax.jit(lambda x: (x, module.made(x.shape[0], x)))
    assert [bool(one) for one in run(lines(4)[0])[1]] == [False, False, False, False, True, False]


def test_modules_that_ask_for_type_itself_keep_pythons(library: Callable[[str], Any]) -> None:
    module = library(
        "def counted(x, n):\n"
        "    if type(n) is not int: raise ValueError('n must be an int')\n"
        "    return x * n\n"
        "def is_meta(cls):\n"
        "    return cls is type\n"
    )
    run = djax.jit(lambda x: module.counted(x, x.shape[0]))
    for x in lines(3, 5, 3):
        np.testing.assert_array_equal(run(x), x * np.float32(len(x)))
    assert run.cache_info().compiles == 2  # one for each number
    assert "type" not in vars(module)


def test_errors_about_other_things_are_the_functions(library: Callable[[str], Any]) -> None:
    module = library(
        "def counted(x, n, *, axis):\n"
        "    if not isinstance(axis, int): raise TypeError('axis must be an int, not ' + repr(axis))\n"
        "    return x.sum(axis) * n\n"
    )
    run = djax.jit(lambda x: module.counted(x, x.shape[0], axis="0"))
    with pytest.raises(TypeError) as raised:
        run(lines(3)[0])
    assert str(raised.value) == "axis must be an int, not '0'"
    assert "isinstance" not in vars(module)


def test_numbers_of_steps_that_python_counts_have_a_program_each(library: Callable[[str], Any]) -> None:
    module = library(
        "def repeated(x, n):\n"
        "    if not isinstance(n, int): raise TypeError(n)\n"
        "    for _ in range(n): x = x + 1\n"
        "    return x\n"
    )
    run = djax.jit(lambda x: module.repeated(x, x.shape[0]))
    for x in lines(3, 5, 3):
        np.testing.assert_allclose(run(x), x + np.float32(len(x)), 1e-6)
    assert run.cache_info().compiles == 2


def test_greater_and_lesser_sizes_are_what_is_proved_of_them() -> None:
    """``x[2:]`` has ``max(0, n - 2)`` elements: ``n - 2`` where it was answered that there are as many."""

    def pairs(x: Any) -> Any:
        if len(x) < 2:
            return x.sum()
        later = jnp.concatenate([x[2:], x[:1]])
        total, _ = jax.lax.scan(lambda carry, given: (carry + given[0] * given[1], None), 0.0, (x[1:], later))
        return total

    run = djax.jit(pairs)
    for x in lines(3, 5, 2, 1, 8):
        np.testing.assert_allclose(run(x), pairs(jnp.asarray(x)), 1e-6)
    assert run.cache_info()[:2] == (2, 3)  # one for each answer
    assert run.cache_info().traces == 2
