"""``len(x)`` of arrays whose first size is a symbol: it is ``x.shape[0]``, for whoever traces and for nobody else."""

from __future__ import annotations

import builtins
import gc
import sys
import threading
import types
import weakref
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import LeakedTracerError, UndecidedDimError
from dyn.trace import answered_names

HERE = sys.modules[__name__]


def made(source: str, name: str) -> Any:
    """A module of its own, whose functions nobody has traced."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(source, vars(module))
    return module


def test_a_length_is_a_size_at_every_size() -> None:
    f = dyn.jit(lambda x: (x + len(x), len(x), len(x) // 2, len([1, 2])))
    for n in (3, 0, 1, 7):
        summed, length, half, two = f(np.ones((n, 2)))
        np.testing.assert_array_equal(summed, np.ones((n, 2)) + n)
        assert (length, half, two) == (n, n // 2, 2)
    assert (f.cache_info().compiles, f.cache_info().traces) == (1, 1)
    assert not hasattr(HERE, "len")


def test_functions_of_other_modules_ask_and_are_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made("def mean(x):\n    calls.append(1)\n    return x.sum() / len(x)\ncalls = []", "tests_of_lengths")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    first, second = dyn.jit(lambda x: module.mean(x) + 0), dyn.jit(lambda x: module.mean(x) * 2)
    for n in (3, 1, 5):
        assert first(np.arange(float(n))) == np.arange(float(n)).mean()
    assert (first.cache_info().compiles, len(module.calls)) == (1, 2)
    assert second(np.ones(4)) == 2
    assert len(module.calls) == 3  # the module is known
    assert not hasattr(module, "len")


def test_names_of_the_users_stay_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made("def f(x):\n    return x * len(x)\ndef len(x):\n    return 10", "tests_of_own_len")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert dyn.jit(module.f)(np.ones(2)).tolist() == [10, 10]
    assert module.len(None) == 10
    with pytest.raises(UndecidedDimError, match=r"len\(\) needs one value"):
        dyn.jit(lambda x: x * builtins.len(x))(np.ones(2))


def test_numbers_are_demanded_where_python_demands_them() -> None:
    with pytest.raises(UndecidedDimError, match="range"):
        dyn.jit(lambda x: sum(x[i] for i in range(len(x))))(np.ones(3))
    with pytest.raises(TypeError, match="unsized"):
        dyn.jit(len)(np.float64(1))
    fixed = dyn.jit(lambda x: sum(x[i] for i in range(len(x))), shapes="3")
    assert fixed(np.ones(3)) == 3


def test_other_threads_and_lists_have_pythons() -> None:
    inside, seen = threading.Event(), threading.Event()

    def traced(x: Any) -> Any:
        inside.set()
        assert seen.wait(20)
        return x * len(x)

    found: list[Any] = []

    def other() -> None:
        assert inside.wait(20)
        found.extend([len([1, 2, 3]), len(np.ones((4, 2))), len("ab"), vars(HERE)["len"] is answered_names.length])
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    np.testing.assert_array_equal(dyn.jit(traced)(np.ones(2)), [2, 2])
    thread.join()
    assert found == [3, 4, 2, True]
    assert not hasattr(HERE, "len")


def test_in_bodies_inner_functions_and_under_transformations() -> None:
    inner = dyn.jit(lambda x: x / len(x))

    def outer(x: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            return total + inner(x).sum() * len(x)

        return dyn.lax.fori_loop(0, 3, body, dnp.zeros((), x.dtype))

    f, slope = dyn.jit(outer), dyn.jit(dyn.grad(lambda x: (x * len(x)).sum()))
    for n in (2, 5):
        assert f(np.ones(n)) == 3 * n
        assert slope(np.ones(n)).tolist() == [n] * n
    assert f.cache_info().compiles == slope.cache_info().compiles == 1
    batched = dyn.jit(dyn.vmap(lambda x: x.sum() / len(x)))
    assert batched(np.ones((2, 3))).tolist() == batched(np.ones((2, 5))).tolist() == [1, 1]


def test_an_error_leaves_nothing_behind() -> None:
    def fails(x: Any) -> Any:
        assert len(x) is not None
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dyn.jit(fails)(np.ones(2))
    assert not hasattr(HERE, "len")


def test_arrays_that_their_traces_have_left_behind() -> None:
    kept: list[Any] = []
    dyn.jit(lambda x: kept.append(x * 2) or x)(np.ones(3))
    with pytest.raises(LeakedTracerError):
        len(kept[0])
    assert dyn.jit(lambda *xs: xs[0] + sum(map(len, xs)))(np.ones(2), np.ones(5)).tolist() == [8, 8]


def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    f = dyn.interop.jax.jit(lambda x: (x.sum() / len(x), jnp.ones(len(x)) * len(x)))
    for n in (3, 1, 8):
        mean, ones = f(jnp.arange(float(n)))
        assert float(mean) == np.arange(float(n)).mean()
        np.testing.assert_array_equal(ones, np.full(n, float(n)))
    assert (f.cache_info().compiles, f.cache_info().traces) == (1, 1)
    loop = dyn.interop.jax.jit(lambda x: sum(x[i] for i in range(len(x))))
    assert [float(loop(jnp.ones(n))) for n in (2, 3)] == [2, 3]


def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    f = dyn.interop.torch.jit(lambda x: (x.sum() / len(x), x.new_ones(len(x)) * len(x)), strict=True)
    for n in (3, 1, 0, 8):
        x = torch.arange(float(n))
        mean, ones = f(x)
        assert torch.equal(mean, x.sum() / n if n else x.sum() / torch.tensor(0.0)) or mean.isnan()
        assert torch.equal(ones, torch.full((n,), float(n)))
    assert f.cache_info().compiles == 1
    loop = dyn.interop.torch.jit(lambda x: sum(x[i] for i in range(len(x))), strict=True)
    assert [float(loop(torch.ones(n))) for n in (2, 3)] == [2, 3]

    class Mean(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sum(0) / len(x)

    module = dyn.interop.torch.jit(Mean(), strict=True)
    for n in (2, 5):
        x = torch.ones(n, 3, requires_grad=True)
        module(x).sum().backward()
        assert torch.allclose(x.grad, torch.full((n, 3), 1 / n))
    assert module.cache_info().compiles == 1


# ---- int and float -------------------------------------------------------------------------------------------------


def test_int_of_modules_that_ask_for_the_class_itself_is_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """``type(x) is int`` would not hold of another class: such modules get no answer, as before."""
    torch = pytest.importorskip("torch")
    import dyn.interop.torch as dyn_torch

    sources = {
        "tests_of_is": "def f(x):\n    n = int(x[0])\n    return x * n\ndef check(v):\n    return type(v) is int",
        "tests_of_classes": "def f(x):\n    n = int(x[0])\n    class B(int): pass\n    return x * n * (B(3) == 3)",
    }
    for name, source in sources.items():
        module = made(source, name)
        monkeypatch.setitem(sys.modules, name, module)
        with pytest.warns(dyn_torch.FallbackWarning):
            assert dyn_torch.jit(module.f)(torch.tensor([2, 3])).tolist() == [4, 6]
        assert not hasattr(module, "int")


def test_what_stands_for_int_is_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import dyn.interop.torch as dyn_torch

    module = made(
        "import pickle, numpy as np\n"
        "def f(x):\n"
        "    n = int(x[0])\n"
        "    seen.append((int == type(3), {int: 1}[type(3)], int.__name__, repr(int),\n"
        "                 pickle.loads(pickle.dumps(int)),\n"
        "                 isinstance(3, int), issubclass(bool, int), np.dtype(int), int('7'), int.from_bytes(b'a')))\n"
        "    return x * n\n"
        "seen = []",
        "tests_of_stand_ins",
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert dyn_torch.jit(module.f, strict=True)(torch.tensor([2, 3])).tolist() == [4, 6]
    assert module.seen[-1] == (True, 1, "int", "<class 'int'>", int, True, True, np.dtype(int), 7, 97)


def test_names_of_exec_are_not_kept() -> None:
    class Big:
        """Something that is held."""

    held: list[Any] = []
    for _ in range(3):
        names: dict[str, Any] = {"big": Big()}
        held.append(weakref.ref(names["big"]))
        exec("def f(x): return x / len(x)\ndef g(x): return f(x) * 2", names)
        assert dyn.jit(lambda x, g=names["g"]: g(x))(np.ones(4)).tolist() == [0.5] * 4
        assert "len" not in names
        del names
    gc.collect()
    assert sum(one() is not None for one in held) <= 1


def test_a_name_that_is_set_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made("def f(x):\n    global len\n    n = len(x)\n    len = str\n    return x * n", "tests_of_set_names")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert dyn.jit(module.f)(np.ones(2)).tolist() == [2, 2]
    assert module.len is str


class Size:
    """A size without a number."""


def of_types(value: Any) -> Any:
    return int if isinstance(value, Size) else NotImplemented


def asking(function: Any, *args: Any) -> Any:
    """The result of a function in a trace that asks of types where code has raised."""

    def trace() -> Any:
        try:
            return function(*args)
        except Exception as error:
            answered_names.ask_of_types(error)
            raise

    return answered_names.answered(trace)


@pytest.mark.parametrize(
    "demand", ["type(n) is int", "type(n) in (int, str)", "isinstance(n, int)", "isinstance(n, (int, str))"]
)
def test_types_are_asked_of_where_code_raises(demand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(answered_names.ANSWERS, "type", [of_types])
    module = made(f"def f(n):\n    calls.append(n)\n    assert {demand}\n    return n\ncalls = []", "tests_of_types")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    size = Size()
    assert asking(module.f, size) is size
    assert len(module.calls) == 2
    assert asking(module.f, size) is size
    assert len(module.calls) == 3  # the module is known
    assert (asking(module.f, 3), len(module.calls)) == (3, 4)
    for wrong in (2.0, None):
        with pytest.raises(AssertionError):
            asking(module.f, wrong)
    with pytest.raises(AssertionError):
        module.f(size)  # in no trace
    assert not {"type", "isinstance"} & vars(module).keys()


def test_types_are_not_asked_of_by_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(answered_names.ANSWERS, "type", [of_types])
    module = made(
        "def f(n):\n    calls.append(n)\n    if isinstance(n, str): return n\n    raise ValueError(n)\n"
        "def g(n):\n    calls.append(n)\n    return isinstance(n, int) or {}[n]\n"
        "calls = []",
        "tests_of_no_types",
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for function, error in ((module.f, ValueError), (module.g, KeyError)):
        with pytest.raises(error):
            asking(function, Size())
    assert len(module.calls) == 2  # neither names int where it raises
    with pytest.raises(ValueError) as raised:
        module.f(1)
    answered_names.ask_of_types(raised.value)  # in no trace: nothing


def test_sets_in_traces_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made("def f(*xs):\n    return set(x for x in xs), isinstance({1}, set), set()", "tests_of_sets")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Asking:
        """An element whose hash asks."""

        def __hash__(self) -> int:
            answered_names.ask(sys._getframe(1), "set")
            return 1

    one, other = Asking(), Asking()
    monkeypatch.setitem(answered_names.ANSWERS, "set", [lambda xs: list(xs) if one in list(xs) else NotImplemented])
    assert answered_names.answered(lambda: module.f(one, other)) == ([one, other], True, set())
    assert answered_names.answered(lambda: module.f(2, 2)) == ({2}, True, set())
    assert module.f(one, other) == ({one, other}, True, set())
    assert "set" not in vars(module)
