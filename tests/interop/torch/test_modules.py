"""Modules of PyTorch through ``dyn.interop.torch.jit``: parameters, buffers, modes, threads, states of PyTorch."""

from __future__ import annotations

import copy
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dyn
from tests.threads import in_threads

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

MODULES: dict[str, tuple[Callable[[], Any], list[tuple[int, ...]]]] = {
    "linear": (lambda: nn.Linear(4, 3), [(2, 4), (1, 4), (0, 4), (3, 2, 4)]),
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), [(2, 4), (1, 4)]),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, stride=2), [(2, 3, 8), (1, 3, 5)]),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1), [(2, 3, 8, 8), (1, 3, 5, 9)]),
    "conv2d in groups": (lambda: nn.Conv2d(4, 8, 3, groups=2, dilation=2), [(2, 4, 8, 8), (1, 4, 6, 9)]),
    "conv2d transposed": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        [(2, 4, 8, 8), (1, 4, 5, 9)],
    ),
    "batch norm": (lambda: nn.BatchNorm2d(3), [(2, 3, 4, 4), (1, 3, 5, 2)]),
    "group norm": (lambda: nn.GroupNorm(2, 4), [(2, 4, 8), (1, 4, 5)]),
    "instance norm": (lambda: nn.InstanceNorm1d(4), [(2, 4, 8), (1, 4, 5)]),
    "rms norm": (lambda: nn.RMSNorm(4), [(2, 4), (1, 4), (0, 4)]),
    "max pool": (lambda: nn.MaxPool2d(2), [(2, 3, 8, 8), (1, 3, 6, 9)]),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(1), [(2, 3, 8, 8), (1, 3, 6, 9)]),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(2, 5, 8), (1, 3, 8)]),
    "gru": (lambda: nn.GRU(4, 8), [(5, 2, 4), (5, 3, 4)]),
    "upsample": (lambda: nn.Upsample(scale_factor=2), [(2, 3, 4, 4), (1, 3, 5, 3)]),
    "upsample bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), [(2, 3, 4, 4), (1, 3, 5, 3)]),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), [(2, 4, 4, 4), (1, 4, 5, 3)]),
    "unfold": (lambda: nn.Unfold(2), [(2, 3, 4, 4), (1, 3, 5, 3)]),
    "prelu": (nn.PReLU, [(2, 3), (1, 3)]),
    "glu": (nn.GLU, [(2, 4), (1, 6)]),
    "reflection": (lambda: nn.ReflectionPad2d(1), [(2, 3, 4, 4), (1, 3, 5, 3)]),
    "dropout": (nn.Dropout, [(2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_at_several_shapes_is_one_program(name: str) -> None:
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    compiled = dyn_torch.jit(module)
    for shape in shapes:
        x = torch.randn(shape)
        with torch.no_grad():
            same(module(x), compiled(x), 1e-4)
    ranks = {len(shape) for shape in shapes}
    assert compiled.cache_info().compiles == len(ranks)


def test_parameters_are_read_at_each_call() -> None:
    module = nn.Linear(3, 2)
    compiled, x = dyn_torch.jit(module), torch.randn(4, 3)
    with torch.no_grad():
        same(module(x), compiled(x))
        module.weight.mul_(2)  # as optimisers do
        same(module(x), compiled(x))
        module.load_state_dict(nn.Linear(3, 2).state_dict())
        same(module(x), compiled(x))
        module.weight.data = torch.randn(2, 3)  # other memory
        same(module(x), compiled(x))
        module.weight = nn.Parameter(torch.randn(2, 3))  # another parameter
        same(module(x), compiled(x))


def moving(module: Any) -> None:
    """Give each parameter other memory, with the same values."""
    for parameter in module.parameters():
        parameter.data = parameter.data.clone()


def test_parameters_whose_memory_is_other_memory_at_each_call() -> None:
    """They are arguments of the program in the end, and nothing is traced any more."""
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    theirs, inside = copy.deepcopy(module), copy.deepcopy(module)
    compiled = dyn_torch.jit(module)
    step = dyn_torch.jit(lambda x: trained(inside, inside, x), strict=True)
    programs: list[Any] = []
    for number in range(8):
        x = torch.full((number + 1, 3), 0.1)
        for one in (module, theirs, inside):
            moving(one)
        wanted = trained(theirs, theirs, x)
        same(wanted, trained(module, compiled, x))
        same(wanted, step(x))
        for one in (module, inside):
            same(list(theirs.parameters()), list(one.parameters()))
        programs.append([*compiled.programs, *step.programs])
    assert programs[-1] == programs[-2] == programs[-3]
    x = torch.ones(2, 3)
    with torch.no_grad():
        for _ in range(6):
            moving(module)
            same(module(x), compiled(x))
    with pytest.raises(NotYetError, match="compiled: it closes over tensors that have moved in memory"):
        torch.autograd.grad(compiled(x).square().sum(), module.weight, create_graph=True)


def trained(module: Any, run: Any, x: Any) -> Any:
    """The loss of a step of gradient descent."""
    loss = run(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    return loss.detach()


def test_buffers_that_a_module_writes() -> None:
    module = nn.BatchNorm1d(3)
    ours = copy.deepcopy(module)
    compiled = dyn_torch.jit(ours)
    for n in (4, 2, 7):
        x = torch.randn(n, 3)
        with torch.no_grad():
            same(module(x), compiled(x))
        same(module.state_dict(), ours.state_dict())
    assert compiled.cache_info().compiles == 1
    module.eval()
    ours.eval()
    with torch.no_grad():
        same(module(x), compiled(x))
    same(module.state_dict(), ours.state_dict())


def test_autocast_is_a_program_of_its_own() -> None:
    module = nn.Linear(3, 2)
    compiled, x = dyn_torch.jit(module), torch.randn(4, 3)
    with torch.no_grad():
        for _ in range(2):
            same(module(x), compiled(x))
            with torch.autocast("cpu", torch.bfloat16):
                wanted, found = module(x), compiled(x)
                assert wanted.dtype is found.dtype is torch.bfloat16
                same(wanted, found, 2e-2)


def test_static_arguments_and_trees() -> None:
    def f(tree: dict[str, Any], factor: float = 1.0, *, flag: bool = False) -> dict[str, Any]:
        return {"a": tree["a"] * factor, "b": [tree["b"], None, flag]}

    compiled = dyn_torch.jit(f)
    tree = {"a": torch.ones(2), "b": torch.zeros(3)}
    calls: list[tuple[Any, dict[str, Any]]] = [
        ((tree,), {}), ((tree, 2.0), {"flag": True}), ((tree, -0.0), {}), ((tree, 0.0), {}),
    ]  # fmt: skip
    for arguments, named in calls:
        wanted, found = f(*arguments, **named), compiled(*arguments, **named)
        assert str(wanted) == str(found)  # of -0.0 too


def test_eight_threads() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    compiled = dyn_torch.jit(module)

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for n in range(1, 12):
                x = torch.randn(n, 4, generator=generator)
                same(module(x), compiled(x))

    in_threads(work, range(8))


def test_a_branch_on_a_size_is_a_guard_with_its_line() -> None:
    def f(x: Any) -> Any:
        if x.shape[0] > 3:
            return x * 2
        return x - 1

    compiled = dyn_torch.jit(f)
    for n in (5, 2, 9, 0, 1, 4):
        x = torch.randn(n)
        same(f(x), compiled(x))
    info = compiled.cache_info()
    assert (info.compiles, info.hits) == (2, 4)
    assert "x.shape[0] > 3" in str(compiled.explain())


def test_what_does_not_fit_is_named() -> None:
    compiled = dyn_torch.jit(lambda x, y: x @ y)
    compiled(torch.ones(2, 3), torch.ones(3, 4))
    with pytest.raises(dyn.errors.ShapeError) as error:
        compiled(torch.ones(2, 3), torch.ones(5, 4))
    assert str(error.value).startswith("x_1 == y_0 is required, but x_1 is 3 and y_0 is 5")
    assert compiled.cache_info().compiles == 1


def test_a_tensor_of_another_class_or_place() -> None:
    class Own(torch.Tensor):
        pass

    compiled = dyn_torch.jit(torch.sin, strict=True)
    for tensor in (torch.ones(3).as_subclass(Own), torch.ones(3).to_sparse(), torch.ones(3, device="meta")):
        with pytest.raises(dyn.errors.DynError):
            compiled(tensor)


class Halved(nn.Module):
    """A module with a buffer that it writes, a number and a size among its results."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        return {"half": self.norm(x)[:, : x.shape[1] // 2], "twice": x.shape[0] * 2}


def test_exported_programs_run_at_every_size(tmp_path: Any) -> None:
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    dynamic = torch.export.Dim.DYNAMIC
    exported = torch.export.export(
        module, (torch.randn(2, 5, 8),), dynamic_shapes=({0: dynamic, 1: dynamic},), strict=False
    )
    torch.export.save(exported, tmp_path / "layer.pt2")
    compiled = dyn_torch.jit(torch.export.load(tmp_path / "layer.pt2"))
    for shape in ((2, 5, 8), (1, 5, 8), (3, 1, 8), (1, 1, 8)):
        x = torch.randn(shape)
        with torch.no_grad():
            same(module(x), compiled(x), in_strides=False)
    assert compiled.cache_info().compiles == 1


_OPEN_EXPORTED = """
import sys, torch
from dyn.backends import binaries
from dyn.interop import torch as dyn_torch
layer = dyn_torch.jit(torch.export.load(sys.argv[1]))
with torch.no_grad():
    print([layer(torch.ones(shape)).shape for shape in ((2, 5, 8), (1, 1, 8))] and layer.cache_info().compiles)
print(binaries.cache_info().misses)
"""


@pytest.mark.slow
def test_an_exported_program_is_compiled_by_one_process_for_all(tmp_path: Path) -> None:
    """Another process traces it, and finds all machine code on disk."""
    dynamic = torch.export.Dim.DYNAMIC
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    axes = ({0: dynamic, 1: dynamic},)
    torch.export.save(
        torch.export.export(layer, (torch.randn(2, 5, 8),), dynamic_shapes=axes, strict=False), tmp_path / "layer.pt2"
    )
    command = [sys.executable, "-c", _OPEN_EXPORTED, str(tmp_path / "layer.pt2")]
    environment = os.environ | {"DYN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    compiled, found = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert compiled[0] == found[0] == "1"
    assert int(compiled[1]) > 0
    assert found[1] == "0"


def test_an_exported_program_checks_what_it_was_told() -> None:
    rows = torch.export.Dim("rows", max=64)
    module = Halved().train()
    compiled = dyn_torch.jit(torch.export.export(module, (torch.randn(5, 4),), dynamic_shapes=({0: rows},)))
    with torch.no_grad():
        for size in (3, 7):
            found = compiled(torch.randn(size, 4))
            assert (found["half"].shape, found["twice"]) == ((size, 2), 2 * size)
    assert int(module.norm.num_batches_tracked) == 2
    with pytest.raises(AssertionError, match="<= 64"):
        compiled(torch.randn(65, 4))


def test_a_module_whose_modes_keep_values_of_other_ranks() -> None:
    module = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3))
    compiled = dyn_torch.jit(module, strict=True)
    for training in (True, False, True, False):
        module.train(training)
        x = torch.randn(2, 4)
        compiled(x).sum().backward()
    module.eval()
    torch.testing.assert_close(compiled(x), module(x))
    assert compiled.cache_info().compiles <= 3


def test_forward_and_methods_have_the_signatures_of_the_modules() -> None:
    """transformers' Trainer drops what ``forward`` has no parameter for; ``torch.export`` asks for it, too."""

    class Scaled(nn.Module):
        def forward(self, x: Any, *, scale: float = 2.0) -> Any:
            """Scale."""
            return x * scale

        def named(self, x: Any, name: str = "") -> Any:
            return self(x), name

    module = Scaled()
    compiled = dyn_torch.jit(module)
    for name in ("forward", "named", "train"):
        assert inspect.signature(getattr(compiled, name)) == inspect.signature(getattr(module, name))
    assert compiled.forward.__doc__ == "Scale."
    for rows in (3, 0, 1):
        same(compiled.forward(torch.ones(rows), scale=3.0), module(torch.ones(rows), scale=3.0))
    assert compiled.cache_info().compiles == 1
