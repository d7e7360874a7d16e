"""``torch.compile(backend="dyn")``: forward and backward graphs, beside eager PyTorch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dyn
from dyn.backends import deferred, x86
from dyn.backends.binaries import cache_info
from dyn.specialize.shared_code import CODES

torch: Any = pytest.importorskip("torch")
nn = torch.nn

from torch.utils._python_dispatch import is_in_torch_dispatch_mode  # noqa: E402

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.interop.torch.graphs import LoweredGraph  # noqa: E402

MODELS: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        [(3, 4), (5, 4), (1, 4), (7, 4)],
    ),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)),
        [(2, 3, 6, 6), (3, 3, 6, 8), (4, 3, 5, 5)],
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [(2, 5, 8), (3, 4, 8), (2, 7, 8)],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_those_of_pytorch(name: str) -> None:
    make, shapes = MODELS[name]
    torch.manual_seed(0)
    model = make()
    ours = copy.deepcopy(model)
    compiled = torch.compile(ours, backend="dyn", dynamic=True)
    steps = [torch.optim.SGD(m.parameters(), 0.05) for m in (model, ours)]
    for shape in shapes:
        x = torch.randn(shape)
        losses: list[Any] = []
        for run, step in zip((model, compiled), steps, strict=True):
            step.zero_grad()
            loss = (run(x) ** 2).mean()
            loss.backward()
            step.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    for (key, wanted), found in zip(model.state_dict().items(), ours.state_dict().values(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}")


def test_inference() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    compiled = torch.compile(model, backend="dyn", dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 1, 8):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def runs(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> int:
    """Compare calls with eager ones; the number of Dynamo's graphs."""
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, backend="dyn", **options)
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=1e-5, atol=1e-5)
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


ROWS = [(torch.ones(n),) for n in (3, 5, 8)]


def test_sizes_are_symbols_from_the_first_call_on() -> None:
    assert runs(lambda x: x * 2, ROWS, dynamic=True) == 1
    assert runs(lambda x: x * 3, ROWS, dynamic=None) == 1
    assert runs(lambda x: x * 4, ROWS, dynamic=False) == 3


def test_sizes_that_are_equal_at_first_are_two() -> None:
    assert runs(lambda x, y: x.sum() + y.sum() * 7, [(torch.ones(n), torch.ones(m)) for n, m in ((3, 3), (4, 5))]) == 1


def test_what_dynamo_is_told_of_sizes_for_the_whole_process_holds() -> None:
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        assert runs(lambda x: x * 9, ROWS) == 3


def test_settings_of_dynamo_are_as_they_were_after_a_call_and_for_other_backends() -> None:
    def told() -> tuple[Any, ...]:
        config = torch._dynamo.config
        return config.assume_static_by_default, config.recompile_limit, torch.fx.experimental._config.use_duck_shape

    seen: list[tuple[Any, ...]] = []

    def other(graph: Any, inputs: Any) -> Any:
        seen.append(told())
        return graph

    before = told()
    runs(lambda x: x * 11, ROWS)
    assert told() == before
    torch.compile(lambda x: x * 12, backend=other)(torch.ones(3))
    assert seen == [before]
    with pytest.raises(RuntimeError):
        torch.compile(lambda x: x.reshape(7, 5), backend="dyn")(torch.ones(3))
    assert told() == before


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_are_one(mode: str) -> None:
    assert runs(lambda x: x * 5, ROWS[:1], mode=mode, fullgraph=True) == 1


def broken_in_two(x: Any) -> Any:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def test_graphs_that_break() -> None:
    assert runs(broken_in_two, ROWS[:1]) == 2
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(broken_in_two, backend="dyn", fullgraph=True)(torch.ones(3))


def test_traces_that_do_not_end_in_turn_leave_pytorch_as_it_was() -> None:
    was_in_mode = is_in_torch_dispatch_mode()
    first_begun, second_begun, first_ended = (threading.Event() for _ in range(3))

    def first(x: Any) -> Any:
        first_begun.set()
        assert second_begun.wait(60)
        return x + 1

    def second(x: Any) -> Any:
        second_begun.set()
        assert first_ended.wait(60)
        return x + 2

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(dyn_torch.jit(first, strict=True), torch.ones(3))
        assert first_begun.wait(60)
        other = pool.submit(dyn_torch.jit(second, strict=True), torch.ones(3))
        assert one.result().tolist() == [2, 2, 2]
        first_ended.set()
        assert other.result().tolist() == [3, 3, 3]
    assert is_in_torch_dispatch_mode() == was_in_mode
    assert runs(broken_in_two, ROWS[:1]) == 2


def test_numbers_are_arguments_of_graphs() -> None:
    calls = [(torch.ones(3), 4), (torch.ones(5), -7), (torch.ones(2), 9)]
    assert runs(lambda x, n: x * n + n, calls, dynamic=True) == 1
    sizes = [(torch.ones(3), 4), (torch.ones(5), 7), (torch.ones(2), 9)]
    assert runs(lambda x, n: x.sum() + torch.arange(n), sizes, dynamic=True) == 1
    floats = [(torch.ones(3), 0.5), (torch.ones(5), -0.25), (torch.ones(2), 1e-3)]
    assert runs(lambda x, s: x * (s * 2 + 1), floats, dynamic=True) == 1


def test_sizes_that_are_arguments_may_be_left_open() -> None:
    """A program that was made for sizes is not taken where one of them is -1, which stands for what is left."""
    x = torch.arange(12.0)
    views = ((2, 6), (3, 4), (4, -1), (6, -1), (-1, 2), (12, 1), (6, 2), (-1, 12))
    runs(lambda x, n, m: x.view(n, m) * 2, [(x, *sizes) for sizes in views], dynamic=True)
    repeated = ((12, 6), (12, 3), (-1, 5), (12, -1), (-1, -1), (12, 4))
    runs(lambda x, n, m: x[:, None].expand(n, m) + 1, [(x, *sizes) for sizes in repeated], dynamic=True)


def test_numbers_in_both_directions() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    compiled = torch.compile(lambda x, n: (x @ weight) * n, backend="dyn", dynamic=True)
    for n in (4, 6, 9):
        weight.grad = None
        compiled(torch.ones(n, 3), n + 3).sum().backward()
        torch.testing.assert_close(weight.grad, torch.full((3, 3), float(n * (n + 3))))


def test_floats_that_no_tensor_carries() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from dyn.interop.torch.backend import compiled

    graph = torch.fx.Graph()
    x, factor = graph.placeholder("x"), graph.placeholder("factor")
    x.meta["val"], factor.meta["val"] = torch.ones(3), ShapeEnv().create_unbacked_symfloat()
    graph.output((graph.call_function(torch.ops.aten.mul.Tensor, (x, factor)),))
    run = compiled(torch.fx.GraphModule(torch.nn.Module(), graph))
    for number in (2.5, -0.125):
        (made,) = run(torch.ones(3), number)
        torch.testing.assert_close(made, torch.full((3,), number))


def without_converter(x: Any) -> Any:
    y = x + 1
    return torch.special.airy_ai(y) * 2


def test_an_operation_in_eager_pytorch_has_the_users_line() -> None:
    with pytest.warns(dyn_torch.FallbackWarning) as caught:
        runs(without_converter, ROWS, dynamic=True)
    assert str(caught[0].message).splitlines() == [
        "graph: 1 operation in eager PyTorch:",
        "  aten.special_airy_ai.default: has no converter.",
        f"    at test_backend.py:{without_converter.__code__.co_firstlineno + 2}  return torch.special.airy_ai(y) * 2",
        '  help: strict=True of jit, or options={"strict": True} of torch.compile, makes it an error.',
    ]
    assert len(caught) == 1


def test_strict_is_an_option() -> None:
    compiled = torch.compile(without_converter, backend="dyn", options={"strict": True})
    with pytest.raises(dyn.errors.NotYetError, match="airy_ai"):
        compiled(torch.ones(3))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": {"max_autotune": True, "strict": True}}, "has no option max_autotune"),
        ({"options": {"strict": 1}}, "the option strict of torch.compile(backend='dyn') is 1"),
        ({"mode": "fastest"}, "has no mode 'fastest'"),
    ],
)
def test_others_are_refused_by_name(options: dict[str, Any], problem: str) -> None:
    compiled = torch.compile(torch.sin, backend="dyn", **options)
    with pytest.raises(Exception) as error:
        compiled(torch.ones(3))
    assert problem in str(error.value)
    assert isinstance(error.value.__cause__ or error.value, dyn.errors.ArgumentError | RuntimeError)


def test_gradients_of_attention_with_shared_heads() -> None:
    """Four heads of the query on two of keys and values, whose cotangents are sums over those that share one."""

    def heads(x: Any, count: int) -> Any:
        return x.unflatten(-1, (count, 4)).transpose(1, 2)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(
            heads(q, 4), heads(k, 2), heads(v, 2), is_causal=True, enable_gqa=True
        )

    compiled = torch.compile(attention, backend="dyn", dynamic=True)
    for batch, length in ((2, 5), (3, 4)):
        inputs = [torch.randn(batch, length, width, requires_grad=True) for width in (16, 8, 8)]
        wanted, found = [torch.autograd.grad((f(*inputs) ** 2).sum(), inputs) for f in (attention, compiled)]
        for a, b in zip(wanted, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


# ---- graphs and their programs ---------------------------------------------------------------------------------------

SHAPES = [(2, 7), (1, 5), (7, 1), (1, 1), (3, 9)]


class Block(nn.Module):
    """Attention under a mask, and a perceptron: with the floats that modules keep, and sizes in views."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.joined, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.dropout = nn.LayerNorm(8), nn.Dropout(0.0)

    def forward(self, words: Any, mask: Any) -> Any:
        x = self.words(words)
        batch, length = words.shape
        q, k, v = self.joined(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mask = mask[:, None, None, :].expand(batch, 1, length, length)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm(x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, 8))))
        return nn.functional.gelu(x) / length


@pytest.mark.parametrize("training", [False, True])
def test_graphs_that_differ_in_sizes_alone_have_one_program(training: bool) -> None:
    torch.manual_seed(0)
    model = Block().train(training)
    compiled = torch.compile(model, backend="dyn", dynamic=True)
    torch._dynamo.utils.counters.clear()
    for shape in SHAPES:
        arguments = torch.randint(0, 11, shape), torch.ones(shape, dtype=torch.bool)
        found: list[Any] = []
        for run in (model, compiled):
            model.zero_grad()
            with torch.set_grad_enabled(training):
                made = run(*arguments)
            if training:
                (made**2).sum().backward()
            found.append([made.detach(), *[p.grad for p in model.parameters()]])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 4
    report = str(dyn_torch.explain(compiled))
    assert report.startswith("torch.compile: 4 graphs, 1 program\n")
    assert "compiled 1 time in " in report


def test_sizes_that_were_equal_at_first() -> None:
    def f(x: Any, y: Any) -> Any:
        return x.sin() * 2, y.new_ones(y.shape[0] + 1) * 3

    calls = [(torch.ones(n), torch.ones(m)) for n, m in ((2, 2), (3, 5), (4, 4), (6, 2), (1, 1))]
    assert runs(f, calls, dynamic=True) > 1


def test_numbers_that_are_constants_of_some_graphs() -> None:
    sizes = [(torch.ones(3), 4), (torch.ones(1), 1), (torch.ones(5), 1), (torch.ones(1), 6), (torch.ones(2), 0)]
    assert runs(lambda x, n: x.sum() * n + torch.arange(n).sum(), sizes, dynamic=True) > 1


def test_other_structures_have_programs_of_their_own() -> None:
    factors = [2.0, torch.tensor(3.0)]
    for factor in factors:
        assert runs(lambda x, factor=factor: x * factor, ROWS, dynamic=True) == 1
    for dtype in (torch.float64, torch.int32):
        assert runs(lambda x: x * 2, [(torch.ones(3, dtype=dtype),)], dynamic=True) == 1
    assert runs(lambda x: x.reshape(2, 3), [(torch.ones(6),), (torch.ones(3, 2),)], dynamic=False) == 2
    torch._dynamo.reset()
    assert runs(lambda x: x.reshape(3, 2), [(torch.ones(6),), (torch.ones(3, 2),)], dynamic=False) == 2


class Twice(torch.autograd.Function):
    """Twice its argument, whose derivative it says is 5."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cotangents[0] * 5


def partly(x: Any) -> Any:
    with torch.no_grad():
        scale = x.sum()
        with torch.enable_grad():
            y = x * 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ torch.ones(4, 4)
    return (y + Twice.apply(x)) * scale + z.float()


def in_place(x: Any) -> Any:
    x[1:].mul_(2)
    x.add_(1)
    return x.t()[1:], x * 3


def inner(x: Any) -> Any:
    y = x.detach().requires_grad_()
    return x + torch.autograd.grad((y**3).sum(), y)[0]


def of_functions(x: Any) -> Any:
    _, pushed = torch.func.jvp(torch.sin, (x,), (x.detach() * 2,))
    return torch.func.vmap(torch.func.grad(lambda row: (row.sin() * row).sum()))(x) + pushed


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore::DeprecationWarning:torch.*")
@pytest.mark.parametrize("function", [partly, in_place, inner, of_functions])
def test_what_is_recorded_of_a_graph(function: Callable[..., Any]) -> None:
    compiled = torch.compile(function, backend="dyn", dynamic=True)
    for n in (3, 5, 1):
        x, found = torch.randn(n, 4), []
        for run in (function, compiled):
            leaf = x.clone().requires_grad_()
            given = leaf * 1  # no leaf: it may be written
            made = run(given)
            made = made if isinstance(made, tuple) else (made,)
            loss = sum((one**2).sum() for one in (*made, given))
            again = function is not of_functions  # AOTAutograd's, which refuses the second time
            first = torch.autograd.grad(loss, leaf, retain_graph=again)
            found.append([made, given, first, torch.autograd.grad(loss, leaf) if again else None])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_overlapping_arguments_are_pytorchs() -> None:
    def f(x: Any, part: Any) -> Any:
        part.add_(1)
        return x * 2

    compiled = torch.compile(f, backend="dyn", dynamic=True)
    whole, again = torch.ones(4), torch.ones(4)
    with pytest.warns(dyn_torch.FallbackWarning, match="shares memory with"):
        torch.testing.assert_close(compiled(whole, whole[1:]), f(again, again[1:]))
    torch.testing.assert_close(whole, again)
    torch.testing.assert_close(compiled(whole, torch.ones(3)), f(again, torch.ones(3)))


def test_dropout_is_the_same_in_both_directions() -> None:
    compiled = torch.compile(lambda x: nn.functional.dropout(x, 0.5) * 3, backend="dyn", dynamic=True)
    patterns: list[Any] = []
    for n in (40, 60, 40):
        x = torch.ones(n, requires_grad=True)
        y = compiled(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(grad, y)
        patterns.append(y)
    assert not torch.equal(patterns[0], patterns[2])


def test_second_derivatives_are_pytorchs() -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.compile(lambda x: x**3, backend="dyn", dynamic=True)(x)
    with pytest.warns(dyn_torch.FallbackWarning, match="second derivative"):
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 6 * x.detach())


def test_functions_of_higher_order() -> None:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    runs(f, ROWS, dynamic=True)


def test_modes_are_restored_where_a_graph_stops_in_the_middle() -> None:
    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            return torch.special.airy_ai(x)

    compiled = torch.compile(f, backend="dyn", options={"strict": True})
    with pytest.raises(dyn.errors.NotYetError, match="airy_ai"):
        compiled(torch.ones(3))
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


# ---- reports, and saved work -----------------------------------------------------------------------------------------


def test_explain() -> None:
    def broken(x: Any) -> Any:
        y = x.sum(0)
        torch._dynamo.graph_break()
        return torch.special.airy_ai(y)

    first = torch.compile(broken, backend="dyn", dynamic=True)
    assert str(dyn_torch.explain(first)) == (
        "torch.compile: 0 graphs, 0 programs\n  not called yet: nothing is compiled"
    )
    with pytest.warns(dyn_torch.FallbackWarning):
        first(torch.ones(3, 2))
    model = Block().eval()
    model.compile(backend="dyn", dynamic=True)
    with torch.no_grad():
        model(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool))
    line = broken.__code__.co_firstlineno
    report = str(dyn_torch.explain(first))
    assert report.startswith("torch.compile: 2 graphs, 2 programs\n")
    assert f"of broken at test_backend.py:{line + 1}  y = x.sum(0)\n  compiled 1 time in" in report
    assert f"from test_backend.py:{line + 1}  y = x.sum(0)\n" in report
    assert "1 operation in eager PyTorch:\n    aten.special_airy_ai.default: has no converter." in report
    assert "airy_ai" not in str(dyn_torch.explain(model))
    assert str(dyn_torch.explain(model)).startswith("torch.compile: 1 graph, 1 program\n")
    whole = str(dyn_torch.explain())
    assert all(part in whole for part in (report.partition("\n\n")[2], "scaled_dot_product_attention"))


@pytest.mark.parametrize("given", [torch.sin, torch.compile(torch.sin, backend="eager"), nn.Linear(2, 2), 3])
def test_explain_of_others(given: Any) -> None:
    with pytest.raises(dyn.errors.ArgumentError, match=r"explain takes what torch.compile\(backend='dyn'\) returned"):
        dyn_torch.explain(given)


def forget_code() -> None:
    """As in a process that finds no more than the cache on disk, and compiles nothing in the background."""
    assert deferred.finish()
    torch._dynamo.reset()
    CODES.clear()
    x86._BINARIES.clear()


def test_what_is_on_disk_is_not_compiled_again(tmp_path: Path) -> None:
    def f(x: Any, w: Any) -> Any:
        return nn.functional.gelu(x @ w) * x.shape[0]

    path = tmp_path / "f"
    with dyn.config.override(cache_dir=str(tmp_path / "cache")):
        w = torch.randn(4, 4, requires_grad=True)
        for again in (False, True):
            forget_code()
            before = cache_info().misses
            compiled = torch.compile(f, backend="dyn", dynamic=True)
            torch.autograd.grad(compiled(torch.ones(3, 4), w).sum(), w)
            assert (cache_info().misses == before) == again
        saved = torch.compile(f, backend="dyn", dynamic=True, fullgraph=True).aot_compile(((torch.ones(3, 4), w), {}))
        saved.save_compiled_function(str(path))
        forget_code()
        before = cache_info().misses
        with path.open("rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        for n in (3, 6):
            wanted, found = (torch.autograd.grad(run(torch.ones(n, 4), w).sum(), w) for run in (f, loaded))
            torch.testing.assert_close(found, wanted)
        assert cache_info().misses == before


def test_what_dynamo_found_is_saved_with_the_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``TORCH_CACHING_PRECOMPILE``: another process traces nothing."""
    from torch._dynamo.precompile_context import PrecompileContext

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    module = PrecompiledModule()
    x = torch.randn(3, 4)
    for is_saved in (False, True):
        torch._dynamo.reset()
        PrecompileContext.clear()
        with torch._dynamo.config.patch(caching_precompile=True):
            compiled = torch.compile(module, backend="dyn", dynamic=True, options={"strict": True})
            stance = "fail_on_recompile" if is_saved else "default"
            with torch.compiler.set_stance(stance):
                for n in (3, 2):
                    wanted, found = (torch.autograd.grad(run(x[:n]).sum(), module.weight) for run in (module, compiled))
                    torch.testing.assert_close(found, wanted)
            torch.compiler.save_cache_artifacts()
    torch._dynamo.reset()
    PrecompileContext.clear()


class PrecompiledModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))
        self.scale = 3

    def forward(self, x: Any) -> Any:
        return (nn.functional.gelu(x @ self.weight) * self.scale).softmax(-1).square() * x.shape[0]


def test_graphs_that_cannot_be_saved_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> Any:
        raise ValueError("no")

    monkeypatch.setattr(LoweredGraph, "saved", refuse)
    with torch._dynamo.config.patch(caching_precompile=True):
        compiled = torch.compile(lambda x: x + 1, backend="dyn", dynamic=True)
        with pytest.warns(UserWarning, match=r"is not saved by caching_precompile: no"):
            compiled(torch.ones(3))
    torch._dynamo.reset()


def test_numbers_of_a_convolution_that_are_arguments() -> None:
    """Dynamo makes sizes of them; there is a program for each."""
    convolved = torch.nn.functional.conv_transpose1d
    compiled = torch.compile(
        lambda x, weight, stride: convolved(x, weight, stride=stride), backend="dyn", dynamic=True,
        options={"strict": True},
    )  # fmt: skip
    weight = torch.randn(3, 3, 3)
    for length, stride in ((4, 2), (5, 3), (6, 2), (4, 1)):
        x = torch.randn(1, 3, length)
        torch.testing.assert_close(compiled(x, weight, stride), convolved(x, weight, stride=stride))
