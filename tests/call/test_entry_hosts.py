"""The native entry and arrays of all kinds: a call by it and one by Python are told apart by nothing.

Each call is made until the entry knows its form, then compared with the same call through Python alone: results, their
kinds, or the whole text of the error.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from tests.threads import in_threads

Array = np.ndarray[Any, Any]


def hits(f: Any) -> int:
    return 0 if f._table is None else f._table.hits


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, in words that can be compared."""
    try:
        result = call(*args)
    except Exception as error:
        return type(error), str(error)
    parts = list(result) if isinstance(result, tuple | list) else [result]
    return [type(result), *(_told(part) for part in parts)]


def _told(part: Any) -> Any:
    kind = type(part)
    if kind.__module__ == "torch":
        assert not part.requires_grad
        data = part.view(getattr(sys.modules["torch"], f"int{8 * part.element_size()}")) if _is_narrow(part) else part
        return kind, str(part.dtype), tuple(part.shape), _order_of(data.numpy()), data.numpy().tobytes()
    array = np.asarray(part)
    if kind is np.ndarray:
        assert part.flags.writeable
    return kind, array.dtype.str, array.dtype.name, array.shape, _order_of(array), array.tobytes()


def _order_of(array: Array) -> list[int]:
    """The axes of several elements, as they lie in memory without gaps, from the outermost on."""
    order = sorted(range(array.ndim), key=lambda axis: (array.shape[axis] != 1, -array.strides[axis]))
    assert array.transpose(order).flags.c_contiguous
    return [axis for axis in order if array.shape[axis] != 1] if array.size else []


def _is_narrow(part: Any) -> bool:
    return "float8" in str(part.dtype) or "bfloat16" in str(part.dtype)


def same(f: Any, *args: Any, fast: bool | None = None) -> Any:
    """The outcome of a call, which is that of Python; ``fast`` says whether the entry makes it."""
    for _ in range(2):
        outcome(f, *args)
    before = hits(f)
    found = outcome(f, *args)
    if fast is not None:
        assert hits(f) - before == fast
    assert found == outcome(f._call_slow, *args)
    return found


# ---- NumPy's, however they lie ---------------------------------------------------------------------------------------


def _laid_out(array: Array, draw: random.Random) -> Array:
    """An array of the same dtype, up to its byte order, that lies some other way."""
    for _ in range(draw.randint(1, 4)):
        change = draw.randrange(6)
        if change == 0:
            array = array.transpose(draw.sample(range(array.ndim), array.ndim))
        elif change == 1 and array.ndim:
            axis, step = draw.randrange(array.ndim), draw.choice([-1, 2, -2, 3])
            array = array[(slice(None),) * axis + (slice(None, None, step),)]
        elif change == 2 and array.ndim < 6:
            array = np.broadcast_to(array[None], (draw.randint(0, 4), *array.shape))
        elif change == 3:
            array = array.astype(array.dtype.newbyteorder(draw.choice("<>")), order="K")
        elif change == 4:
            array = array[..., None]
        elif array.size:
            raw = np.empty(array.nbytes + 1, "u1")[1:].view(array.dtype).reshape(array.shape)
            raw[...] = array
            array = raw
    return array


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f2", "f4", "i8", "f8", "c8", "c16", ml_dtypes.bfloat16])
def test_arrays_that_lie_anyhow(dtype: Any) -> None:
    draw, numbers = random.Random(str(dtype)), np.random.default_rng(0)
    functions = {rank: dyn.jit(lambda x, y: (x, y)) for rank in range(16)}
    for _ in range(300):
        shape = [draw.choice([0, 1, 2, 3, 5, 8, 9, 16, 17, 33, 70]) for _ in range(draw.randint(0, 3))]
        plain = numbers.integers(0, 100, shape).astype(dtype)
        odd = _laid_out(plain, draw)
        before = np.array(odd)
        f = functions[odd.ndim]
        f(before, plain) if odd.ndim == plain.ndim else f(odd, plain)
        seen = hits(f)
        x, y = f(odd, plain)
        assert hits(f) == seen + 1
        for given, got in ((odd, x), (plain, y)):
            assert got.tobytes() == np.array(given, given.dtype.newbyteorder("="), order="C").tobytes()
            assert got.shape == given.shape
            assert not np.shares_memory(got, given)
        assert before.tobytes() == np.array(odd).tobytes()


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_large_arrays_that_lie_otherwise(dtype: str) -> None:
    f = dyn.jit(lambda x: x)
    base = np.random.default_rng(0).integers(0, 100, (1031, 517)).astype(dtype)
    cube = base[:1024, :512].reshape(64, 16, 512)
    for x in (
        base.T,
        base[::-1, ::2],
        base.T[3:, 1:],
        base.astype(base.dtype.newbyteorder(">")),
        np.asfortranarray(base),
        np.concatenate([base.ravel()] * 5)[1:].reshape(-1, 2)[:, ::-1],
        np.frombuffer(b"1" + base.tobytes(), dtype, offset=1),
    ):
        f(x)
        assert f(x).tobytes() == np.ascontiguousarray(x, x.dtype.newbyteorder("=")).tobytes()
    g = dyn.jit(lambda x: x)
    for axes in ((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1), (1, 2, 0)):
        x = cube.transpose(axes)
        g(x)
        assert g(x).tobytes() == np.ascontiguousarray(x).tobytes()


def test_an_array_that_changes_between_calls() -> None:
    f = dyn.jit(lambda x: x * 2)
    x = np.arange(12.0)
    same(f, x, fast=True)
    x[3] = 100
    assert f(x)[3] == 200
    x.shape = (3, 4)
    same(f, x, fast=True)
    x = x.T
    same(f, x, fast=True)
    x.flags.writeable = False
    same(f, x, fast=True)


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.0, 2.0]]).view(np.matrix), np.float64(3), np.array(["a"]), np.array([None]),
        np.array([1], "M8[s]"),
        np.zeros(3, [("a", "f4")]), np.rec.array([(1.0,)], dtype=[("a", "f8")]), np.longdouble(1) * np.ones(2),
        np.ma.masked_array([1.0, 2.0], [True, False]), "text", object(), np.zeros(2).flat,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_plain_array(value: Any) -> None:
    f = dyn.jit(lambda x: x)
    f(np.ones((1, 2)))
    f(np.ones(3))
    same(f, value)


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch(require_module: Callable[[str], Any]) -> Any:
    return require_module("torch")


NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (4, 3)])
def test_tensors(torch: Any, name: str, shape: tuple[int, ...]) -> None:
    f = dyn.jit(lambda x: (x, x))
    same(f, torch.ones(shape).to(getattr(torch, name)), fast=True)


def test_tensors_that_lie_anyhow(torch: Any) -> None:
    f, g = dyn.jit(lambda x: x), dyn.jit(lambda x: x)
    base = torch.arange(24.0).reshape(4, 6)
    for x in (base.T, base[::2], base[:, 1::2], base[:, :3], base[1:2], base[:, 0:1].expand(4, 3), base[:0].T):
        same(f, x, fast=True)
    misaligned = torch.frombuffer(bytearray(b"\0" + np.arange(5, dtype="f4").tobytes()), dtype=torch.float32, offset=1)
    same(g, misaligned, fast=True)
    large = torch.arange(600_000.0).reshape(600, 1000)
    same(f, large.T, fast=True)
    same(f, large, fast=True)


def odd_tensors(torch: Any) -> dict[str, Any]:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    resized = torch.zeros(3)
    resized.untyped_storage().resize_(0)
    return {
        "gradient": torch.ones(3, requires_grad=True),
        "computed": torch.ones(3, requires_grad=True) * 2,
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "frozen parameter": torch.nn.Parameter(torch.ones(3), requires_grad=False),
        "buffer": torch.nn.Buffer(torch.ones(3)),
        "sparse": torch.ones(3).to_sparse(),
        "meta": torch.ones(3, device="meta"),
        "mkldnn": torch.ones(3).to_mkldnn(),
        "fake": fake,
        "zero": torch._efficientzerotensor((3,)),
        "negated": torch.tensor([1 + 2j, 3 - 4j, 5j]).conj().imag,
        "inference": torch.inference_mode()(lambda: torch.ones(3))(),
    }


#: Those that the entry reads where no gradients are computed.
READ = ("gradient", "computed", "parameter", "frozen parameter")


@pytest.mark.parametrize("kind", [
    "gradient", "computed", "parameter", "frozen parameter", "buffer", "sparse", "meta", "mkldnn", "fake", "zero",
    "negated", "inference",
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor", "ignore:.*sparse.*:UserWarning")
def test_tensors_that_are_more_than_memory(torch: Any, kind: str) -> None:
    f = dyn.jit(lambda x: x + 1)
    f(torch.ones(3))
    f(torch.ones(3))
    x = odd_tensors(torch)[kind]
    same(f, x)
    with torch.no_grad():
        same(f, x, fast=True if kind in READ else None)
    same(f, torch.ones(3), fast=True)


@pytest.mark.parametrize("kind", ["gradient", "computed", "parameter", "frozen parameter"])
def test_gradients_are_asked_for_at_each_call(torch: Any, kind: str) -> None:
    f = dyn.jit(lambda x: x + 1)
    x = odd_tensors(torch)[kind]
    wanted = x.requires_grad
    with torch.no_grad():
        same(f, x, fast=True)
        with torch.enable_grad():
            same(f, x, fast=not wanted)
    same(f, x, fast=not wanted)
    with torch.inference_mode():
        same(f, x, fast=True)
    x = x.detach().requires_grad_(not wanted)
    with torch.no_grad():
        same(f, x, fast=True)
    # Other threads have settings of their own.
    told: list[Any] = []
    with torch.no_grad():
        other = threading.Thread(target=lambda: told.append(outcome(f, x)))
        other.start()
        other.join()
    assert isinstance(told[0], tuple) is x.requires_grad


def test_parameters_of_a_module(torch: Any) -> None:
    layer = torch.nn.Linear(5, 3)
    f = dyn.jit(lambda p, x: x @ p["weight"].T + p["bias"])
    x = torch.randn(7, 5)
    parameters = dict(layer.named_parameters())
    with torch.no_grad():
        same(f, parameters, x, fast=True)
        result = f(parameters, x)
        assert type(result) is torch.Tensor
        torch.testing.assert_close(result, layer(x))


def test_numbers_that_cpythons_buffers_have_not() -> None:
    jnp = pytest.importorskip("jax.numpy")
    import dyn.interop.jax as djax

    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"):
        f = dyn.jit(lambda x, y: (x + x, y))
        g = djax.jit(lambda x, y: (x + x, y), donate_argnums=0)
        for shape in ((3,), (0,), (1,), (10_000,), ()):
            for n in range(2):
                x, y = jnp.ones(shape, name) * (n + 1), jnp.zeros(shape, name)
                if len(shape) == 1 and shape != (0,):
                    f(x, y)
                    f(x, y)
                    same(f, x, y, fast=True)
                elif shape == ():
                    same(f, x, y)
                before = hits(g)
                a, _ = g(x, y)
                assert n == 0 or hits(g) == before + 1
                assert x.is_deleted()
                assert a.dtype.name == name
                assert (np.asarray(a, "f4") == 2 * (n + 1)).all()
        deleted = jnp.ones(3, name)
        deleted.delete()
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            f(deleted, deleted)


def test_a_conjugated_tensor(torch: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    x = torch.tensor([1 + 2j, 3 - 4j])
    same(f, x, fast=True)
    same(f, x.conj(), fast=False)
    assert f(x.conj()).tolist() == [2 - 2j, 4 + 4j]


def test_a_tensor_that_changes_between_calls(torch: Any) -> None:
    f = dyn.jit(lambda x: x * 2)
    x = torch.arange(6.0)
    same(f, x, fast=True)
    x.requires_grad_()
    kind, text = same(f, x, fast=False)
    assert kind is dyn.errors.UnsupportedOpError or kind is dyn.errors.ArgumentError
    assert "requires grad" in text
    x.requires_grad_(False)
    same(f, x, fast=True)
    x.resize_(2, 3)
    same(f, x, fast=True)
    x.t_()
    same(f, x, fast=True)
    x.data = torch.arange(4, dtype=torch.int32)
    same(f, x)


def test_a_tensor_inside_of_functorch(torch: Any) -> None:
    f = dyn.jit(lambda x: x + 1)
    f(torch.ones(3))
    f(torch.ones(3))
    texts: list[Any] = []

    def body(x: Any) -> Any:
        texts.append(outcome(f, x))
        texts.append(outcome(f._call_slow, x))
        return x

    torch.func.vmap(body)(torch.ones(2, 3))
    assert texts[0] == texts[1]
    assert issubclass(texts[0][0], dyn.errors.DynError)


def test_a_mode_that_sees_what_is_asked_of_tensors(torch: Any, collect_no_more: Callable[[], None]) -> None:
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            gc.collect()  # Python code in the middle of reading
            return func(*args, **(kwargs or {}))

    f = dyn.jit(lambda d: d["a"] + d["b"])
    tree = {"a": torch.ones(3), "b": torch.ones(3)}
    same(f, tree, fast=True)
    collect_no_more()
    with Mode():
        same(f, tree, fast=True)


def test_what_empties_the_arguments_while_they_are_read(torch: Any) -> None:
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            tree.clear()
            gc.collect()
            return func(*args, **(kwargs or {}))

    f = dyn.jit(lambda d: (d["a"] + d["b"], d["c"]))
    for _ in range(3):
        tree = {"a": torch.ones(300), "b": torch.ones(300), "c": np.ones((300, 2)).T}
        result = f(tree)
    tree = {"a": torch.ones(300), "b": torch.ones(300), "c": np.ones((300, 2)).T}
    before = hits(f)
    with Mode():
        result = f(tree)
    assert hits(f) == before + 1
    assert not tree
    assert np.asarray(result[0]).tolist() == [2.0] * 300
    assert np.asarray(result[1]).shape == (2, 300)


def test_kinds_of_results(torch: Any) -> None:
    f = dyn.jit(lambda x, y: (x + 1, y + 1))
    n, t, own = np.ones(3, "f4"), torch.ones(3), dyn.asarray(np.ones(3, "f4"))
    for x in (n, t, own, 2.0, np.float32(2)):
        for y in (n, t, own, 2.0, np.float32(2)):
            same(f, x, y)
    assert type(f(t, 2.0)[1]) is torch.Tensor
    assert type(f(t, n)[0]) is dyn.Array
    assert type(f(own, own)[0]) is dyn.Array


def test_results_are_of_the_tensor_alone(torch: Any) -> None:
    f = dyn.jit(lambda x: (x, x.T, dnp.sum(x)))
    x = torch.arange(6.0).reshape(2, 3)
    f(x)
    a, b, c = f(x)
    del x
    a.add_(1)
    b.mul_(2)
    assert a.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert b.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert c.item() == 15
    a.requires_grad_()
    a.sum().backward()
    assert a.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_references_and_memory_of_tensors(torch: Any) -> None:
    resource = pytest.importorskip("resource")
    f = dyn.jit(lambda x, n: (x + 1, {"n": n}))
    x, n = torch.ones(1000), np.ones((40, 30), "f4").T
    for _ in range(100):
        f(x, x)
        f(x.requires_grad_(False), n)
    before = [sys.getrefcount(one) for one in (x, n, torch.Tensor, None, True, False)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20_000):
        f(x, x)
        f(x, n)
    after = [sys.getrefcount(one) for one in (x, n, torch.Tensor, None, True, False)]
    assert after[:2] == before[:2]
    # The others are everybody's; 20,000 references too many or too few would show all the same.
    assert all(abs(a - b) < 1_000 for a, b in zip(after, before, strict=True)), (before, after)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 20_000


def test_a_refusal_drops_what_it_held(torch: Any) -> None:
    f = dyn.jit(lambda x, y: x + y)
    x, y = torch.ones(3), torch.ones(3)
    f(x, y)
    y.requires_grad_()
    for _ in range(10):
        outcome(f, x, y)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        outcome(f, x, y)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_tensors_from_many_threads(torch: Any) -> None:
    f = dyn.jit(lambda x, y: x * 2 + y)

    def work(number: int) -> None:
        for round in range(150):
            size = (number * 37 + round * 101) % 50_000 + 1
            x = torch.full((size,), float(number))
            y = np.full((2, size), float(round), "f4").T[:, 0] if number % 2 else torch.full((size,), float(round))
            result = np.asarray(f(x, y))
            assert result.shape == (size,)
            assert (result == 2 * number + round).all()

    in_threads(work, range(8))


def test_wrong_arguments_beside_tensors(torch: Any) -> None:
    f = dyn.jit(lambda x, y: x + y, shapes="n, n")
    same(f, torch.ones(3), torch.ones(3), fast=True)
    for y in (torch.ones(4), torch.ones(3, 1), torch.ones(3, dtype=torch.float64), torch.ones(1), None, "x", [1]):
        same(f, torch.ones(3), y)
