"""Arrays of every library: in without a copy, out as the caller's kind, and what cannot be taken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import hosts
from dyn.array import view

Require = Callable[[str], ModuleType]


@pytest.fixture
def torch(require_module: Require) -> Any:
    return require_module("torch")


@pytest.fixture
def jax(require_module: Require) -> Any:
    return require_module("jax")


class ByDlpack:
    """An array that speaks DLPack alone."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class ByInterface:
    """An array that has ``__array_interface__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


def problem(call: Callable[[], object]) -> str:
    with pytest.raises(dyn.errors.ArgumentError) as caught:
        call()
    return str(caught.value)


DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16"]


# --- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_torch_in_torch_out(torch: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = (torch.arange(int(np.prod(shape))) % 2).reshape(shape).to(getattr(torch, dtype))
    result = dyn.jit(lambda t: {"same": t, "list": [t]})(x)
    for y in (result["same"], result["list"][0]):
        assert type(y) is torch.Tensor
        assert y.dtype is x.dtype
        assert torch.equal(x, y)
        assert y.data_ptr() != x.data_ptr() or x.numel() == 0


def test_torch_memory_is_read_where_it_lies(torch: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert view(x).ctypes.data == x.data_ptr()
    half = x.to(torch.bfloat16)
    assert view(half).ctypes.data == half.data_ptr()
    assert view(half).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_memory_may_be_resized_after_a_call(torch: Any, dtype: str) -> None:
    """As sharded training does with parameters; that of an array that is kept may not."""
    x, w = torch.ones(3, dtype=getattr(torch, dtype)), torch.ones(3, dtype=getattr(torch, dtype))
    f = dyn.jit(lambda t: t + w)
    for _ in range(3):
        f(x)
    assert np.asarray(hosts.TORCH.borrow(x)).ctypes.data == x.data_ptr()
    assert (x.untyped_storage().resizable(), w.untyped_storage().resizable()) == (True, False)
    dnp.add(x, 1)
    assert x.untyped_storage().resizable()
    view(x)
    assert not x.untyped_storage().resizable()


def test_torch_calls_are_warm(torch: Any) -> None:
    f = dyn.jit(lambda x, k, s: x * k + 1, static_argnames="s")
    for n in (0, 1, 7, 1000):
        assert torch.equal(f(torch.ones(n), 2.0, s=(1, "a")), torch.full((n,), 3.0))
    assert f.cache_info()[:2] == (1, 3)
    np.testing.assert_array_equal(f(np.ones(3, "f4"), 2.0, s=(1, "a")), np.full(3, 3, "f4"))
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("change", ["t", "flip", "conj", "parameter", "strided"])
def test_torch_tensors_that_lie_oddly(torch: Any, change: str) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = {
        "t": x.t,
        "flip": lambda: x.flip(0),
        "conj": lambda: torch.complex(x, -x).conj().imag,
        "parameter": lambda: torch.nn.Parameter(x, requires_grad=False),
        "strided": lambda: x[:, ::2],
    }[change]()
    assert torch.equal(dyn.jit(lambda t: t * 2)(y), y.detach() * 2)


def test_torch_results_are_the_callers_own(torch: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    y = f(torch.zeros(5000))
    y.add_(1)
    del f
    assert y.sum() == 10_000


def test_torch_gradients(torch: Any) -> None:
    f = dyn.jit(lambda model: model["w"] * 2)
    w = torch.ones(3, requires_grad=True)
    assert problem(lambda: f({"w": w})) == (
        "<lambda>(): model['w']: a torch tensor that requires grad: gradients do not flow through a compiled "
        "function.\n  help: pass tensor.detach(), or make the call under torch.no_grad()."
    )
    with torch.no_grad():
        assert not f({"w": w}).requires_grad
    assert torch.equal(f({"w": w.detach()}), torch.full((3,), 2.0))


def test_torch_tensors_that_are_not_arrays(torch: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    assert problem(lambda: f(torch.eye(3).to_sparse())) == (
        "<lambda>(): x: a torch tensor whose elements do not lie in an array (sparse_coo).\n"
        "  help: pass tensor.to_dense()."
    )
    assert problem(lambda: f(torch.ones(3, device="meta"))) == (
        "<lambda>(): x: a torch tensor on meta: it cannot be read by this machine's processor.\n"
        "  help: pass tensor.cpu()."
    )


def test_torch_tensors_that_a_function_closes_over(torch: Any) -> None:
    w = torch.ones(3, dtype=torch.bfloat16)
    f = dyn.jit(lambda x: x * w)
    assert torch.equal(f(torch.ones(3, dtype=torch.bfloat16)), w)
    w.mul_(2)
    assert torch.equal(f(torch.ones(3, dtype=torch.bfloat16)), w)


# --- JAX --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("int64", "float64")])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_jax_in_jax_out(jax: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = (jax.numpy.arange(int(np.prod(shape))) % 2).reshape(shape).astype(dtype)
    (y,) = dyn.jit(lambda t: (t,))(x)
    assert isinstance(y, jax.Array)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(y, x)


def test_jax_memory_is_read_and_taken_over(jax: Any) -> None:
    x = jax.numpy.arange(5000.0)
    assert view(x).ctypes.data == x.unsafe_buffer_pointer()
    f = dyn.jit(lambda x: x + 1)
    f(np.asarray(x))
    array = f(np.asarray(x))
    assert array.ctypes.data % 64 == 0
    assert hosts.JAX.wrap(array).unsafe_buffer_pointer() == array.ctypes.data
    y = dyn.jit(lambda x: x + 1)(x)
    np.testing.assert_array_equal(y + 0, np.asarray(x) + 1)


def test_jax_tracers_and_keys(jax: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    assert problem(lambda: jax.jit(f)(jax.numpy.ones(3))) == (
        "<lambda>(): x: a JAX tracer: inside of jax.jit and its like there are no elements to compute with.\n"
        "  help: call the function as dyn.interop.jax.call(f)(x), or outside of the JAX transformation."
    )
    assert problem(lambda: f(jax.random.key(0))) == (
        "<lambda>(): x: a JAX array of dtype key<fry>, which is not a number.\n"
        "  help: pass jax.random.key_data(x), or draw the numbers before the call."
    )


# --- others, and mixtures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ByDlpack, ByInterface, memoryview])
def test_other_arrays_give_dyn_arrays(make: Callable[[Any], Any]) -> None:
    x = np.arange(6, dtype="f4")
    if make is memoryview:
        with pytest.raises(dyn.errors.ArgumentError):
            dyn.jit(lambda t: t + 1)(make(x))
        return
    assert np.shares_memory(view(make(x)), x)
    y = dyn.jit(lambda t: t + 1)(make(x))
    assert type(y) is dyn.Array
    np.testing.assert_array_equal(y, x + 1)


def test_bfloat16_by_dlpack(torch: Any) -> None:
    x = torch.arange(4).to(torch.bfloat16)
    array = view(ByDlpack(x))
    assert array.dtype == ml_dtypes.bfloat16
    assert array.ctypes.data == x.data_ptr()
    assert array.tolist() == [0, 1, 2, 3]


def test_dlpack_of_another_device() -> None:
    assert problem(lambda: dyn.jit(lambda t: t + 1)(ByDlpack(np.ones(3), (7, 1)))) == (
        "<lambda>(): t: a ByDlpack on device (7, 1) of DLPack: it cannot be read by this machine's processor.\n"
        "  help: copy it to the CPU first."
    )


def test_a_producer_that_fails() -> None:
    class Broken(ByDlpack):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("nothing to give")

    assert problem(lambda: dyn.jit(lambda t: t + 1)(Broken(None))) == (
        "<lambda>(): t: a Broken that does not give its elements: nothing to give\n"
        "  help: convert it to a NumPy array first."
    )


def test_the_kind_of_results(torch: Any, jax: Any) -> None:
    f = dyn.jit(lambda tree: sum(tree[1:], tree[0]))
    n, t, j = np.ones(3, "f4"), torch.ones(3), jax.numpy.ones(3)
    d, o = dyn.asarray(n), ByDlpack(n)
    for tree, kind in [
        ([n, n], np.ndarray), ([n, 2.0], np.ndarray), ([n, np.float32(1)], np.ndarray), ([1.0, 2], np.ndarray),
        ([t, t], torch.Tensor), ([t, 1.0], torch.Tensor), ([j, j, 1], jax.Array), ([d, d], dyn.Array),
        ([d, 1.0], dyn.Array), ([n, t], dyn.Array), ([t, j], dyn.Array), ([d, n], dyn.Array), ([o, o], dyn.Array),
        ([o, t], dyn.Array), ([np.float32(1), t], dyn.Array),
    ]:  # fmt: skip
        assert isinstance(f(tree), kind), (tree, kind)
    assert dyn.jit(lambda: dnp.zeros(3))().__class__ is np.ndarray


def test_compiled_stages_convert_too(torch: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    compiled = f.lower(dyn.ShapeDtypeStruct((None,), "float32")).compile()
    assert torch.equal(compiled(torch.ones(4)), torch.full((4,), 2.0))


def test_eager_functions_convert_too(torch: Any) -> None:
    assert torch.equal(dnp.add(torch.ones(3), 1), torch.full((3,), 2.0))


def test_dyn_imports_no_library_for_its_arrays() -> None:
    code = (
        "import sys, numpy as np, dyn\n"
        "f = dyn.jit(lambda x: x + 1)\n"
        "f(np.ones(3)); f(dyn.asarray(np.ones(3)))\n"
        "print(sorted({'torch', 'jax', 'tensorflow'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_fast_path_says_why_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from dyn.hosts import cpython

    assert hosts.fast_path() is None
    monkeypatch.setattr(cpython.PyObjects, "ARRAY_FLAGS", 60)
    assert cpython._misread() == "NumPy's arrays keep their flags elsewhere"
    monkeypatch.setattr(cpython.PyObjects, "SIZE", 8)
    assert cpython._misread() == "tuples, lists and dicts keep their lengths elsewhere"
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert cpython.fast_path.__wrapped__() == "the native entry is for CPython, and this is pypy"
