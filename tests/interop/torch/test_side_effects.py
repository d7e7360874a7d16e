"""What PyTorch's programs do beside computing: hooks, tensors that are kept, state that is saved, settings."""

from __future__ import annotations

import copy
import gc
import io
import re
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn.errors import NotYetError, UnsupportedOpError

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

FallbackWarning = dyn_torch.FallbackWarning
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")


def net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def gradients(model: Any, x: Any) -> Any:
    x = x.clone().requires_grad_()
    for parameter in model.parameters():
        parameter.grad = None
    made = model(x)
    (made * made).sum().backward()
    return made.detach(), x.grad, [parameter.grad for parameter in model.parameters()]


# ---- hooks -----------------------------------------------------------------------------------------------------------


def forward_pre_hook(model: Any) -> None:
    model[2].register_forward_pre_hook(lambda module, given: (given[0] * 2,))


def forward_hook(model: Any) -> None:
    model[0].register_forward_hook(lambda module, given, made: made + given[0].sum())


def full_backward_hook(model: Any) -> None:
    model[2].register_full_backward_hook(lambda module, of_inputs, of_outputs: (of_inputs[0] * 3,))


def full_backward_pre_hook(model: Any) -> None:
    model[2].register_full_backward_pre_hook(lambda module, of_outputs: (of_outputs[0].clamp(-1, 1),))


def tensor_hook(model: Any) -> None:
    def hooked(module: Any, given: Any, made: Any) -> None:
        if made.requires_grad:
            made.register_hook(lambda cotangent: cotangent * 2)

    model[1].register_forward_hook(hooked)


def parameter_hook(model: Any) -> None:
    def double(parameter: Any) -> None:
        parameter.grad.mul_(2)

    model[0].weight.register_hook(lambda cotangent: cotangent * 5)
    model[2].weight.register_post_accumulate_grad_hook(double)


HOOKS = [
    forward_pre_hook, forward_hook, full_backward_hook, full_backward_pre_hook, tensor_hook, parameter_hook,
]  # fmt: skip


@pytest.mark.parametrize("install", HOOKS, ids=lambda install: install.__name__)
def test_hooks(install: Callable[[Any], None]) -> None:
    model, again = net(), net()
    compiled = dyn_torch.jit(again, strict=True)
    same(gradients(model, torch.ones(2, 3)), gradients(compiled, torch.ones(2, 3)), 1e-4)
    install(model)
    install(again)
    for n in (3, 1, 0):
        x = torch.randn(n, 3)
        same(gradients(model, x), gradients(compiled, x), 1e-4)


def test_hooks_of_results_and_arguments_are_the_callers() -> None:
    seen: list[Any] = []
    compiled = dyn_torch.jit(lambda x: x.exp(), strict=True)
    for _ in range(2):
        x = torch.randn(3).requires_grad_()
        x.register_hook(seen.append)
        made = compiled(x)
        made.register_hook(lambda cotangent: cotangent * 2)
        made.sum().backward()
        same(2 * x.detach().exp(), seen.pop())


def test_tensors_that_are_kept_are_real_ones() -> None:
    kept: list[Any] = []

    def keeps_result(model: Any) -> None:
        model[0].register_forward_hook(lambda module, given, made: kept.append(made))

    def keeps_gradient(model: Any) -> None:
        model[0].register_full_backward_hook(lambda module, of_inputs, of_outputs: kept.append(of_outputs[0]))

    def sets_attribute(model: Any) -> None:
        model[0].register_forward_hook(lambda module, given, made: setattr(module, "last", made * 2))

    for install in (keeps_result, keeps_gradient):
        model = net()
        install(model)
        kinds = (UnsupportedOpError, NotYetError)
        with pytest.raises(kinds, match=r"keeps a traced tensor|a tensor is kept in a list"):
            dyn_torch.jit(copy.deepcopy(model), strict=True)(torch.ones(2, 3))
        compiled, x = dyn_torch.jit(model), torch.randn(2, 3)
        with pytest.warns(FallbackWarning, match=r"keeps a traced tensor|a tensor is kept in a list"):
            compiled(x)
        with warnings.catch_warnings():  # with gradients it is another trace, and is said again
            warnings.simplefilter("ignore", FallbackWarning)
            compiled(x.clone().requires_grad_())
            kept.clear()
            found = gradients(compiled, x)
        same(gradients(net(), x), found, 1e-4)
        assert all(type(one) is torch.Tensor for one in kept)
    model = net()
    sets_attribute(model)
    compiled = dyn_torch.jit(model, strict=True)
    for x in (torch.randn(2, 3), torch.randn(4, 3)):  # an attribute is set by each call
        same(gradients(net(), x), gradients(compiled, x), 1e-4)
        assert type(model[0].last) is torch.Tensor
        torch.testing.assert_close(model[0].last, 2 * torch.nn.functional.linear(x, model[0].weight, model[0].bias))


# ---- functions of autograd's own -------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """A derivative of one's own, with what it needs set up apart, and an output that has none."""

    @staticmethod
    def forward(x: Any, factor: float) -> Any:
        return x * factor, (x > 0).sum(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (cotangents[0] * ctx.factor * 7 * x if ctx.needs_input_grad[0] else None), None


def test_a_long_garbage_collection_of_another_thread_is_no_kept_tensor() -> None:
    """Python makes one collection at a time: what a trace leaves behind in cycles is found by the next."""
    begun = threading.Event()

    def slowly(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and threading.current_thread() is collector and not begun.is_set():
            begun.set()
            time.sleep(0.3)

    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        kept.append([y])  # a cycle, which alone is let go
        kept[0].append(kept[0])
        kept.clear()
        return y + 1

    collector = threading.Thread(target=gc.collect)
    dyn_torch.jit(lambda x: x * 3)(torch.ones(3))  # what a first program takes is not waited for below
    compiled = dyn_torch.jit(f, strict=True)
    gc.callbacks.append(slowly)
    try:
        collector.start()
        begun.wait(60)
        same(f(torch.ones(3)), compiled(torch.ones(3)))
    finally:
        gc.callbacks.remove(slowly)
        collector.join()


def test_functions_with_a_context_that_is_set_up() -> None:
    def f(x: Any) -> Any:
        made, count = Scaled.apply(x * 2, 3.0)
        return made * count

    compiled = dyn_torch.jit(f, strict=True)
    for n in (2, 1, 0, 5):
        x, y = [torch.randn(n, 3).requires_grad_()] * 2
        wanted, found = torch.autograd.grad(f(x).sum(), x), torch.autograd.grad(compiled(y).sum(), y)
        same(wanted, found, 1e-4)
        with torch.no_grad():
            same(f(x), compiled(x), 1e-4)
    assert compiled.cache_info().compiles == 2


# ---- state and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_training_goes_on_from_a_checkpoint(optimizer: str) -> None:
    data = [torch.randn(n, 3) for n in (4, 1, 3, 2, 5, 4)]

    def step(model: Any, optimiser: Any, x: Any) -> float:
        optimiser.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimiser.step()
        return loss.item()

    def start(model: Any) -> Any:
        return getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)

    plain = net()
    whole = start(plain)
    wanted = [step(plain, whole, x) for x in data]
    first = dyn_torch.jit(net(), strict=True)
    optimiser = start(first)
    found = [step(first, optimiser, x) for x in data[:3]]
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file)
    second = dyn_torch.jit(net(), strict=True)
    with torch.no_grad():
        second(data[0])  # compiled for other weights
    second.load_state_dict(saved["model"])
    optimiser = start(second)
    optimiser.load_state_dict(saved["optimiser"])
    found += [step(second, optimiser, x) for x in data[3:]]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-4, atol=1e-4)


def test_modes_of_autograd_and_autocast_take_turns() -> None:
    model = net()
    compiled = dyn_torch.jit(model, strict=True)
    x = torch.randn(2, 3)
    for _ in range(2):
        with torch.inference_mode():
            made = compiled(x)
            same(model(x), made, 1e-4)
            assert made.is_inference() or not made.requires_grad
        with torch.no_grad():
            assert not compiled(x).requires_grad
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype):
                assert compiled(x).dtype is dtype
                same(model(x).float(), compiled(x).float(), 2e-2)
        same(gradients(model, x), gradients(compiled, x), 1e-4)


def test_complex_tensors() -> None:
    def f(z: Any, w: Any) -> Any:
        made = torch.fft.fft(z * w.conj()) + z.abs() * torch.exp(1j * z.angle())
        return made, torch.view_as_real(made), made.real.sum(), torch.complex(z.real, w.imag)

    compiled = dyn_torch.jit(f, strict=True)
    for n in (4, 1, 3):
        inputs = [torch.randn(n, 3, dtype=torch.complex64).requires_grad_() for _ in range(2)]
        results = [f(*inputs), compiled(*inputs)]
        same([one.detach() for one in results[0]], [one.detach() for one in results[1]], 1e-4, in_strides=False)
        pulled = [torch.autograd.grad(one[0].abs().sum() + one[2], inputs) for one in results]
        same(pulled[0], pulled[1], 1e-3, in_strides=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(
            f(*[one.detach().conj() for one in inputs])[2], compiled(*[one.detach().conj() for one in inputs])[2], 1e-4
        )


# ---- tensors of classes of their own ---------------------------------------------------------------------------------


class Int8(torch.Tensor):
    """A weight of 8 bits with a scale for each row, as torchao writes them."""

    @staticmethod
    def __new__(cls, quantized: Any, scale: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, quantized.shape, dtype=scale.dtype)

    def __init__(self, quantized: Any, scale: Any) -> None:
        self.quantized, self.scale = quantized, scale

    def __tensor_flatten__(self) -> Any:
        return ["quantized", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["quantized"], inner["scale"])

    @classmethod
    def of(cls, weight: Any) -> Any:
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            x, weight, bias = args
            return (x @ weight.quantized.to(x.dtype).t()) * weight.scale.t() + bias
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].quantized.detach(), args[0].scale.detach())
        plain = torch.utils._pytree.tree_map_only(cls, lambda one: one.quantized * one.scale, args)
        return func(*plain, **(kwargs or {}))


class ByDispatch(Int8):
    """The same, that knows only of operations of the dispatcher."""

    __torch_function__ = torch._C._disabled_torch_function_impl


def layer_of(kind: Any) -> Any:
    layer = torch.nn.Linear(3, 4)
    layer.weight = torch.nn.Parameter(kind.of(layer.weight.detach()), requires_grad=False)
    return layer


@pytest.mark.parametrize("kind", [Int8, ByDispatch])
def test_weights_of_8_bits(kind: Any) -> None:
    layer = layer_of(kind)
    compiled = dyn_torch.jit(layer, strict=True)
    with torch.no_grad():
        for n in (2, 1, 0):
            x = torch.randn(n, 3)
            same(layer(x), compiled(x), 1e-4)
        layer.weight.scale.mul_(2)  # the tensors inside are read at each call
        same(layer(x + 1), compiled(x + 1), 1e-4)
    assert compiled.cache_info().compiles == 1
    x = torch.randn(5, 3, requires_grad=True)
    wanted, found = (torch.autograd.grad(run(x).square().sum(), [x, layer.bias]) for run in (layer, compiled))
    same(list(wanted), list(found), 1e-4)
    layer.weight.scale = layer.weight.scale * 3  # others are seen
    same(layer(x), compiled(x), 1e-4)
    layer.weight = torch.nn.Parameter(kind.of(torch.randn(4, 3)), requires_grad=False)
    same(layer(x), compiled(x), 1e-4)


@pytest.mark.parametrize("kind", [Int8, ByDispatch])
def test_weights_of_8_bits_are_arguments(kind: Any) -> None:
    """One program is for all sizes, and for all such weights."""

    def f(x: Any, weights: Any) -> Any:
        y = torch.nn.functional.linear(x, weights["w"], weights["b"])
        return y * weights["w"].shape[0], y.relu()

    compiled = dyn_torch.jit(f, strict=True)
    for n, m, k in ((2, 4, 3), (3, 5, 1), (1, 1, 2), (0, 3, 3)):
        weights = {"w": kind.of(torch.randn(m, k)), "b": torch.randn(m)}
        x = torch.randn(n, k)
        same(f(x, weights), compiled(x, weights), 1e-4)
    assert compiled.cache_info().compiles == 1
    x.requires_grad_()
    wanted, found = (torch.autograd.grad(run(x, weights)[1].square().sum(), x) for run in (f, compiled))
    same(list(wanted), list(found), 1e-4)


@pytest.mark.parametrize("kind", [Int8, ByDispatch])
def test_weights_of_8_bits_by_torch_compile(kind: Any) -> None:
    torch._dynamo.reset()
    layer = layer_of(kind)
    options = {"backend": "dyn", "dynamic": True, "options": {"strict": True}}
    compiled = torch.compile(layer, **options)
    f = torch.compile(torch.nn.functional.linear, **options)
    for n in (2, 3):
        x = torch.randn(n, 3, requires_grad=True)
        wanted, found = (torch.autograd.grad(run(x).square().sum(), [x, layer.bias]) for run in (layer, compiled))
        same(list(wanted), list(found), 1e-4)
        same(layer(x), f(x, layer.weight, layer.bias), 1e-4)
    torch._dynamo.reset()


class Context(ByDispatch):
    """One that is made of what has no hash, too, beside another wrapper."""

    def __init__(self, quantized: Any, scale: Any) -> None:
        super().__init__(quantized, scale)
        self.options: Any = {"bits": [8, torch.float32]}

    def __tensor_flatten__(self) -> Any:
        return ["quantized", "scale"], self.options

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        made = cls(inner["quantized"], inner["scale"])
        made.options = context
        assert tuple(size) == tuple(made.shape)
        return made


def test_tensors_in_tensors() -> None:
    """The scale of one is a wrapper itself, and what else it is made of is part of the program."""

    def f(x: Any, w: Any) -> Any:
        return torch.nn.functional.linear(x, w) * w.options["bits"][0]

    compiled = dyn_torch.jit(f, strict=True)
    for bits, programs in ((8, 1), (4, 2), (8, 2)):
        w = Context(torch.randint(-3, 3, (4, 1), dtype=torch.int8), ByDispatch.of(torch.randn(4, 1)))
        w.options = {"bits": [bits, torch.float32]}
        x = torch.randn(2 + bits, 1)
        same(f(x, w), compiled(x, w), 1e-4)
        assert compiled.cache_info().compiles == programs


def _with_gradient(w: Any) -> Any:
    return w.requires_grad_()


def _of_no_hash(w: Any) -> Any:
    made = Context(w.quantized, w.scale)
    made.options = {"bits": [{1}]}
    return made


@pytest.mark.parametrize(
    ("change", "f", "reason"),
    [
        (_with_gradient, torch.nn.functional.linear, "gradients of a tensor of the class ByDispatch."),
        (_of_no_hash, torch.nn.functional.linear, "an attribute that is neither one nor has a hash"),
        (lambda w: w, lambda x, w: w.detach(), "<lambda>() returns a tensor of the class ByDispatch"),
    ],
)
def test_wrappers_that_are_pytorchs(change: Any, f: Any, reason: str) -> None:
    x, w = torch.randn(2, 3), change(ByDispatch.of(torch.randn(4, 3)))
    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match=re.escape(reason)):
        found = compiled(x, w)
    wanted = f(x, w)
    assert type(found) is type(wanted)
    if type(found) is torch.Tensor:
        same(wanted.detach(), found.detach())


class _Cycle:
    """What the garbage collector alone finds."""

    def __init__(self) -> None:
        self.me = self


def test_what_the_collector_finalizes_is_not_the_functions() -> None:
    """Dynamo takes an optimizer's parameters out of its modules as the optimizer dies, whoever traces then."""
    other = torch.nn.Linear(2, 2)
    other.register_buffer("kept", torch.zeros(2))

    def f(x: Any) -> Any:
        gc.collect()
        return x + 1

    x = torch.ones(3)
    gc.disable()
    try:
        weakref.finalize(_Cycle(), lambda: other._buffers.pop("kept"))
        same(x + 1, dyn_torch.jit(f, strict=True)(x))
    finally:
        gc.enable()
    assert dict(other.named_buffers()) == {}


# ---- tensors that the function makes of numbers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor(0.0),
        lambda x: torch.tensor([0.0]),
        lambda x: torch.as_tensor(0.0),
        lambda x: torch.as_tensor([0.0], dtype=torch.float32),
        lambda x: torch.asarray(0.0),
        lambda x: torch.as_tensor(np.float32(0)),
        lambda x: x.new_tensor([0.0]),
        lambda x: torch.Tensor([0.0]),
        lambda x: torch.nn.Parameter(torch.tensor([0.0])).data,
        lambda x: torch.tensor(np.zeros(1, np.float32)),
    ],
)
def test_each_call_makes_another_tensor_of_numbers(make: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        total = make(x)
        total += x.sum()
        return total * 1

    compiled = dyn_torch.jit(f, strict=True)
    for n in (3, 5, 1, 3):
        torch.testing.assert_close(compiled(torch.ones(n)), f(torch.ones(n)))


def test_a_tensor_of_numbers_that_is_returned_is_the_callers() -> None:
    compiled = dyn_torch.jit(lambda x: (torch.tensor([1.0, 2.0]), x + 1), strict=True)
    first = compiled(torch.ones(2))[0]
    first += 5
    torch.testing.assert_close(compiled(torch.ones(3))[0], torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(first, torch.tensor([6.0, 7.0]))


def test_a_write_to_the_memory_of_an_array_is_pytorchs() -> None:
    kept = np.zeros(1, np.float32)

    def f(x: Any) -> Any:
        total = torch.from_numpy(kept)
        total += x.sum()
        return total * 1

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match="a write to a tensor that has the memory of a NumPy array"):
        assert float(compiled(torch.ones(3))) == 3.0
    assert float(compiled(torch.ones(4))) == 7.0
    assert kept[0] == 7.0
    with pytest.raises(NotYetError, match="copy the array first"):
        dyn_torch.jit(f, strict=True)(torch.ones(3))
    # It is read at each call, as what a function closes over is.
    read = dyn_torch.jit(lambda x: torch.from_numpy(kept) + x, strict=True)
    assert float(read(torch.ones(1))) == 8.0
    kept[0] = 1.0
    assert float(read(torch.ones(1))) == 2.0
