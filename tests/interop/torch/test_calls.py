"""Calls of ``dyn.interop.torch.jit`` by the native entry: what it makes itself, and what it must see between calls."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import dyn  # noqa: E402
import dyn.interop.torch as interop  # noqa: E402
from dyn.hosts import cpython, fast_path, native  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  # used by pytest
    assert fast_path() is None
    with torch.no_grad():
        yield


def hits(f: Any) -> int:
    """Calls that the entry made itself."""
    return f._native_hits()


def check(f: Any, plain: Callable[..., Any], *args: Any, quick: bool = True, **kwargs: Any) -> None:
    """Call until the entry knows the call; ``quick`` says whether it makes it. Results are those of ``plain``."""
    wanted = plain(*args, **kwargs)
    same(wanted, f(*args, **kwargs))
    before = hits(f)
    same(wanted, f(*args, **kwargs))
    assert hits(f) - before == quick


def quick(f: Any, plain: Callable[..., Any], *args: Any) -> None:
    """One call that the entry makes."""
    before = hits(f)
    same(plain(*args), f(*args))
    assert hits(f) == before + 1


def slow(f: Any, plain: Callable[..., Any], *args: Any) -> None:
    """One call that the entry leaves to Python."""
    before = hits(f)
    same(plain(*args), f(*args))
    assert hits(f) == before


def compiles(f: Any) -> int:
    return f.cache_info().compiles


def linear() -> tuple[Any, Any, Any]:
    """A module, the same compiled and called, and an argument."""
    module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    f = interop.jit(module)
    check(f, module, x)
    return module, f, x


class Net(torch.nn.Module):
    """Layers in a list, which it does not call, and one that it does; a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("shift", torch.randn(4))
        self.last = torch.nn.Linear(4, 4, bias=False)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x @ layer.weight + layer.bias
        return self.last(x + self.shift)


# ---- what it makes itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool", "complex64"])
def test_one_plan_serves_every_size(dtype: str) -> None:
    plain = lambda x: x.flip(0)  # noqa: E731
    f = interop.jit(plain)
    check(f, plain, torch.ones(3, 2, dtype=getattr(torch, dtype)))
    for shape in ((0, 2), (1, 1), (5, 0), (7, 3), (64, 300)):
        quick(f, plain, torch.randint(0, 2, shape).to(getattr(torch, dtype)))
    assert compiles(f) == 1


@pytest.mark.parametrize(
    "plain",
    [
        lambda x: (x + 1, x * 2),
        lambda x: [x + 1],
        lambda x: {"a": x + 1, "b": (x * 2, None, [x - 1])},
        lambda x: None,
        lambda x: (),
        lambda x: (x + 1, 3, "a"),
        lambda x: (x.shape, x.shape[0] * 2, x + 1),
        lambda x: OrderedDict(a=x + 1, b=x * 2),
        lambda x: Pair(x + 1, x * 2),
        lambda x: (x * 2).t(),
        lambda x: _views(x * 2),
        lambda x: (x * 2,) * 2,
    ],
)
def test_trees_of_results(plain: Callable[..., Any]) -> None:
    f = interop.jit(plain)
    x = torch.randn(3, 4)
    check(f, plain, x)
    quick(f, plain, torch.randn(1, 5))
    found, wanted = f(x), plain(x)
    assert type(found) is type(wanted)


class Pair(NamedTuple):
    """A tree that is no plain tuple."""

    first: Any
    second: Any


def _views(y: Any) -> Any:
    return y, y.t(), y


def test_results_that_share_memory_go_on_sharing_it() -> None:
    f = interop.jit(lambda x: _views(x * 2))
    x = torch.randn(3, 4)
    for _ in range(3):
        a, b, c = f(x)
        assert c is a
        a.zero_()
        assert not b.any()
    assert hits(f) == 2


def test_results_are_apart_from_call_to_call() -> None:
    f = interop.jit(lambda x: x + 1)
    x = torch.zeros(4)
    results = [f(x) for _ in range(4)]
    for number, result in enumerate(results):
        assert result.is_contiguous()
        assert not result.requires_grad
        result += number
    assert [float(result[0]) for result in results] == [1, 2, 3, 4]
    assert hits(f) == 3


@pytest.mark.parametrize(
    "plain",
    [lambda x: (x.view(-1), x + 1), lambda x: x.add_(1), lambda x: (x.t(), x), lambda x: [x.mul_(2), x + 1]],
)
def test_views_of_arguments_and_writes_are_left_to_python(plain: Callable[..., Any]) -> None:
    f = interop.jit(plain)
    for _ in range(3):
        x = torch.randn(2, 3)
        y = x.clone()
        same(plain(x), f(y))
        same(x, y)
    assert hits(f) == 0


def test_arguments_and_tensors_from_outside_are_returned_themselves() -> None:
    weight = torch.randn(3)
    f = interop.jit(lambda x, y: (y, {"x": x + y}, weight, [x, x, "a"]))
    for number in range(4):
        x, y = torch.randn(3), torch.randn(3)
        first, second, third, (fourth, fifth, word) = f(x, y)
        assert first is y
        assert third is weight
        assert fourth is fifth is x
        assert word == "a"
        same(x + y, second["x"])
        assert hits(f) == number
        gone = weakref.ref(x)
        del x, fourth, fifth
        assert gone() is None


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
def test_trees_of_arguments_and_statics() -> None:
    def plain(a: Any, b: Any, *, scale: Any = 1, how: str = "add", more: Any = None) -> Any:
        made = a["x"] * scale + b[0] if how == "add" else a["x"] - b[0]
        return made if more is None else made + more

    f = interop.jit(plain)
    x, y = torch.randn(3), torch.randn(3)
    check(f, plain, {"x": x}, (y, 3))
    check(f, plain, {"x": x}, [y], scale=2.0)
    check(f, plain, {"x": x}, [y], scale=2)
    check(f, plain, {"x": x}, [y], scale=True)
    check(f, plain, {"x": x}, [y], how="sub")
    check(f, plain, {"x": x}, [y], how="sub", more=y + 1)
    check(f, plain, {"x": x}, Pair(y, y), quick=False)
    check(f, plain, {"x": x, "y": x * 2}, (y, 4))
    quick(f, plain, {"x": x, "y": x * 2}, (y, 4))
    slow(f, plain, {"y": x * 2, "x": x}, (y, 4))
    slow(f, plain, {"x": x}, (y, 5))


def test_a_method_and_a_function_without_tensors() -> None:
    f = interop.jit(lambda n: torch.arange(n) * 2)
    check(f, lambda n: torch.arange(n) * 2, 3)
    check(f, lambda n: torch.arange(n) * 2, 4)
    weight = torch.randn(3)
    g = interop.jit(lambda: weight * 2)
    check(g, lambda: weight * 2)
    weight += 1
    quick(g, lambda: weight * 2)


# ---- what must be seen between calls: arguments ----------------------------------------------------------------------


def test_other_dtypes_ranks_and_layouts() -> None:
    plain = lambda x: x * 2  # noqa: E731
    f = interop.jit(plain)
    check(f, plain, torch.randn(4, 6))
    for other in (
        torch.randn(4, 6, dtype=torch.float64),
        torch.randn(6),
        torch.randn(4, 6).t(),
        torch.randn(4, 12)[:, ::2],
        torch.randn(6).expand(4, 6),
        torch.randn(4, 6, dtype=torch.complex64).conj().imag,
    ):
        slow(f, plain, other)
    check(f, plain, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), quick=False)
    # Rows, though they start anywhere.
    quick(f, plain, torch.randn(5, 6)[1:])
    quick(f, plain, torch.randn(4, 6).t()[:1, :1])


def test_a_negated_or_conjugated_argument() -> None:
    z = torch.randn(1, dtype=torch.complex64)
    plain = lambda x: x * 2  # noqa: E731
    f, g = interop.jit(plain), interop.jit(plain)
    check(f, plain, z.imag)
    slow(f, plain, z.conj().imag)
    check(g, plain, z)
    slow(g, plain, z.conj())


def test_the_same_tensor_twice() -> None:
    plain = lambda x, y: x * 2 + y  # noqa: E731
    x, y = torch.randn(3), torch.randn(3)
    f = interop.jit(plain)
    check(f, plain, x, x, quick=False)
    slow(f, plain, x, y)
    quick(f, plain, x, y)
    same(plain(x, x), f(x, x))


def test_a_subclass_and_other_arrays() -> None:
    class Named(torch.Tensor):
        pass

    module, f, x = linear()
    with pytest.warns(interop.FallbackWarning, match="class Named"):
        f(x.as_subclass(Named))
    quick(f, module, x)
    parameter = torch.nn.Parameter(x)
    check(f, module, parameter)


# ---- what must be seen between calls: modules ------------------------------------------------------------------------


def test_parameters_are_read_at_each_call() -> None:
    module, f, x = linear()
    module.weight.add_(1)
    quick(f, module, x)
    module.load_state_dict({name: value * 2 for name, value in module.state_dict().items()})
    quick(f, module, x)
    torch.optim.SGD(module.parameters(), 0.1)
    assert compiles(f) == 1


def _replace(module: Any) -> None:
    module.weight = torch.nn.Parameter(module.weight * 2)


def _other_data(module: Any) -> None:
    module.weight.data = module.weight.data * 2


def _assigned(module: Any) -> None:
    module.load_state_dict({name: value * 2 for name, value in module.state_dict().items()}, assign=True)


def _without_bias(module: Any) -> None:
    module.bias = None


def _swapped_data(module: Any) -> None:
    # The same memory, read in another way.
    module.weight.data = module.weight.data.view(4, 3).t()


def _set(module: Any) -> None:
    module.weight.set_(module.weight.detach() * 2)


def _swapped(module: Any) -> None:
    torch.utils.swap_tensors(module.weight, torch.nn.Parameter(module.weight * 2))


def _in_the_dict(module: Any) -> None:
    module._parameters["weight"] = torch.nn.Parameter(module.weight * 3)


def _other_dict(module: Any) -> None:
    module._parameters = {name: torch.nn.Parameter(value * 3) for name, value in module._parameters.items()}


def _to_double_and_back(module: Any) -> None:
    module.double()
    module.float()
    module.weight.mul_(2)


@pytest.mark.parametrize(
    "change",
    [
        _replace, _other_data, _assigned, _without_bias, _swapped_data, _set, _swapped,
        _in_the_dict, _other_dict, _to_double_and_back,
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_shortcuts", [True, False])
def test_a_module_that_has_changed(
    change: Callable[[Any], None], has_shortcuts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without what spares looking at each entry of a dict, and at each tensor."""
    if not has_shortcuts:
        monkeypatch.setattr("dyn.call.surroundings.has_dict_tags", lambda: False)
        monkeypatch.setattr("dyn.hosts.native._storage", lambda impl: (0, 0))
        native._exchange_type.cache_clear()
    try:
        module, f, x = linear()
        for _ in range(2):
            quick(f, module, x)
            change(module)
            check(f, module, x, quick=module.weight.is_contiguous())
            module.weight.data = module.weight.data.contiguous()
            check(f, module, x)
    finally:
        native._exchange_type.cache_clear()


def test_a_parameter_without_plain_memory() -> None:
    module, f, x = linear()
    dense = module.weight.data
    for odd in (dense.to_sparse(), torch.empty(3, 4, device="meta"), dense.to_mkldnn()):
        module.weight = torch.nn.Parameter(dense)
        check(f, module, x)
        torch.utils.swap_tensors(module.weight, torch.nn.Parameter(odd))
        before = hits(f)
        with pytest.raises(Exception):  # noqa: B017  # whatever says so
            f(x)
        assert hits(f) == before
    module.weight = torch.nn.Parameter(dense)
    check(f, module, x)


def test_a_parameter_of_another_dtype() -> None:
    module, f, x = linear()
    module.double()
    check(f, module, x.double())
    module.bfloat16()
    check(f, module, x.bfloat16())


def test_parts_that_are_replaced_added_and_removed() -> None:
    net, x = Net().eval(), torch.randn(2, 4)
    f = interop.jit(net)
    check(f, net, x)
    kept = [net.last]
    net.last = torch.nn.Linear(4, 4)  # the other one is alive
    check(f, net, x)
    net.layers[1] = torch.nn.Linear(4, 4)
    check(f, net, x)
    net.layers.append(torch.nn.Linear(4, 4))
    check(f, net, x)
    net.layers[0].weight = torch.nn.Parameter(torch.randn(4, 4))
    check(f, net, x)
    del net.layers[0]
    check(f, net, x)
    net.shift = torch.randn(4)
    check(f, net, x)
    net.last = kept[0]
    check(f, net, x)
    net.last.bias = torch.nn.Parameter(torch.randn(4))  # it had none
    check(f, net, x)


def test_training_and_not() -> None:
    class Either(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            return x * 2 if self.inner.training else x * 3

    module, x = Either(), torch.randn(3)
    f = interop.jit(module)
    for _ in range(3):
        module.train()
        check(f, module, x)
        module.eval()
        check(f, module, x)
        module.inner.train()
        check(f, module, x)
    assert compiles(f) == 2  # the last trace computes what the first one does, and runs its program
    module.eval()
    for _ in range(3):
        quick(f, module, x)
        module.train()
        quick(f, module, x)
        module.eval()


def test_hooks_that_are_added_and_removed() -> None:
    module, f, x = linear()
    handle = module.register_forward_hook(lambda module, given, result: result * 2)
    check(f, module, x, quick=False)
    handle.remove()
    check(f, module, x)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, given, result: result * 3)
    try:
        check(f, module, x, quick=False)
    finally:
        handle.remove()
    check(f, module, x)


def test_a_module_that_a_function_finds_by_its_name() -> None:
    modules = [torch.nn.Linear(4, 4)]
    plain = lambda x: modules[0](x)  # noqa: E731, PLW0108
    f, x = interop.jit(plain), torch.randn(2, 4)
    check(f, plain, x)
    modules[0] = torch.nn.Linear(4, 4)  # the one before is gone
    check(f, plain, x)


def test_other_modules_are_no_matter() -> None:
    one, two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    plain = lambda x, which: (one if which else two)(x)  # noqa: E731
    f, x = interop.jit(plain), torch.randn(2, 4)
    check(f, plain, x, True)
    check(f, plain, x, False)
    two.weight = torch.nn.Parameter(two.weight * 2)
    quick(f, plain, x, True)
    check(f, plain, x, False)
    check(f, plain, x, True)
    assert compiles(f) == 1  # the weights are hidden arguments: both traces compute the same of theirs


def test_weights_that_were_replaced_are_let_go() -> None:
    module, f, x = linear()
    gone = weakref.ref(module.weight)
    for _ in range(3):
        _assigned(module)
        check(f, module, x)
    gc.collect()
    assert gone() is None
    assert len(f.programs) == 1
    assert compiles(f) == 4  # those that are forgotten count


def test_a_compiled_function_is_let_go() -> None:
    _, f, _ = linear()
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


# ---- what must be seen between calls: PyTorch's state ----------------------------------------------------------------


def test_autocast_and_default_dtype() -> None:
    module, f, x = linear()
    with torch.autocast("cpu", torch.bfloat16):
        check(f, module, x)
    quick(f, module, x)
    plain = lambda x: x + torch.ones(1, dtype=torch.get_default_dtype())  # noqa: E731
    g = interop.jit(plain)
    check(g, plain, x)
    torch.set_default_dtype(torch.float64)
    try:
        check(g, plain, x)
    finally:
        torch.set_default_dtype(torch.float32)
    quick(g, plain, x)


def test_gradients_are_not_lost() -> None:
    module, f, x = linear()
    with torch.inference_mode():
        quick(f, module, x)
        quick(f, module, torch.randn(2, 4))
    with torch.enable_grad():
        before = hits(f)
        for _ in range(3):
            f(x).sum().backward()
        assert hits(f) == before
        torch.testing.assert_close(module.bias.grad, torch.full((3,), 6.0))
        module.requires_grad_(False)
        check(f, module, x)
        given = x.clone().requires_grad_()
        before = hits(f)
        f(given).sum().backward()
        assert given.grad is not None
        module.weight.requires_grad_()
        assert f(x).requires_grad
        assert hits(f) == before
    check(f, module, x)


def test_modes_see_what_pytorch_does() -> None:
    module, f, x = linear()
    with torch.device("cpu"):
        slow(f, module, x)
    quick(f, module, x)


def test_threads() -> None:
    net = Net().eval()
    f = interop.jit(net)
    check(f, net, torch.randn(2, 4))
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with torch.no_grad():
                for size in range(200):
                    x = torch.randn(size % 40 + number, 4)
                    torch.testing.assert_close(f(x), net(x))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert compiles(f) == 1
    assert hits(f) > 1500


def test_grad_mode_is_each_threads_own() -> None:
    _, f, x = linear()
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.extend([f(x).requires_grad, f(x).requires_grad]))
    thread.start()
    thread.join()
    assert found == [True, True]
    assert not f(x).requires_grad


def test_inside_of_a_trace_it_is_the_function() -> None:
    module, f, x = linear()
    outer = lambda x: f(x) + 1  # noqa: E731
    check(interop.jit(outer), lambda x: module(x) + 1, x)


def test_without_the_entry() -> None:
    module, f, x = linear()
    with dyn.config.override(fast_call=False):
        slow(f, module, x)
        slow(f, module, x)
    quick(f, module, x)


@pytest.mark.filterwarnings("ignore::dyn.RecompileWarning")
def test_more_ways_to_call_than_are_remembered() -> None:
    plain = lambda x, n: x * n  # noqa: E731
    f, x = interop.jit(plain), torch.randn(3)
    for n in range(dyn.call.MOST_PLANS + 3):
        check(f, plain, x, n)


def test_the_module_beside_it_is_as_it_was() -> None:
    module, f, x = linear()
    other = copy.deepcopy(module)
    other.weight.zero_()
    quick(f, module, x)
    assert module.state_dict().keys() == other.state_dict().keys()


# ---- what the entry knows of CPython and PyTorch ---------------------------------------------------------------------


def test_places_are_found_in_this_pytorch() -> None:
    keys = native._dispatch_keys()
    assert keys is not None
    assert native._storage(keys[0]) != (0, 0)


def test_a_dict_that_changes_where_it_is_not_looked_at() -> None:
    module, f, x = linear()
    for number in range(3):
        module.note = number  # in the dict of the module
        quick(f, module, x)
    assert cpython.has_dict_tags() in (True, False)
