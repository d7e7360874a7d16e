"""Compiled modules and functions as objects: attributes, copies, pickles, methods, other versions of PyTorch."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.threads import in_threads  # noqa: E402


class Scale(nn.Module):
    """A module with a parameter, a buffer, a part, and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(()))
        self.part = nn.Linear(3, 3)
        self.factor = 2.0

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return self.part(x) * self.weight * (3.0 if self.training else 1.0)

    def double(self) -> Any:
        return self.part(self.weight)


@dyn_torch.jit
def doubled(x: Any) -> Any:
    """Twice."""
    return x * 2


class Model:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @dyn_torch.jit
    def __call__(self, x: Any) -> Any:
        return x * self.factor


def test_attributes_are_those_of_the_module() -> None:
    module = Scale()
    compiled = dyn_torch.jit(module)
    assert compiled.weight is module.weight
    assert compiled.part is module.part
    assert compiled.factor == 2.0
    assert list(compiled.state_dict()) == ["weight", "count", "part.weight", "part.bias"]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in module.parameters()]
    assert list(compiled.modules()) == [module, module.part]
    assert {"weight", "state_dict", "cache_info"} <= set(dir(compiled))
    with pytest.raises(AttributeError, match="'Scale' object has no attribute 'nothing'"):
        _ = compiled.nothing
    compiled.factor = 5.0
    compiled.weight = nn.Parameter(torch.zeros(3))
    assert module.factor == 5.0
    assert not module.weight.any()
    del compiled.factor
    assert not hasattr(module, "factor")


def test_methods_that_return_the_module_return_the_compiled_one() -> None:
    module = Scale()
    compiled = dyn_torch.jit(module)
    assert compiled.eval() is compiled
    assert not module.training
    with torch.no_grad():
        x = torch.randn(2, 3)
        same(module(x), compiled(x))
        assert compiled.train().training
        same(module(x), compiled(x))
        assert compiled.to(torch.float64) is compiled
        same(module(x.double()), compiled(x.double()))
        compiled.float().load_state_dict(Scale().state_dict())
        same(module(x), compiled(x))
        before = sum(compiled.cache_info()[:2])
        same(module(x), compiled.forward(x))  # is a call
        assert sum(compiled.cache_info()[:2]) == before + 1
        same(compiled.double(), module.double())


def test_optimisers_take_its_parameters() -> None:
    compiled = dyn_torch.jit(nn.Linear(2, 1))
    x = torch.ones(3, 2)
    with torch.no_grad():
        before = compiled(x)
    for parameter in compiled.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(compiled.parameters(), lr=1.0).step()
    with torch.no_grad():
        same(before - 3, compiled(x))


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"]
)
def test_copies_of_modules_are_apart(duplicate: Any) -> None:
    compiled = dyn_torch.jit(Scale().eval(), dynamic_shapes={"x": {0: torch.export.Dim("n", max=5)}}, strict=True)
    x = torch.randn(2, 3)
    with torch.no_grad():
        compiled(x)
        other = duplicate(compiled)
        assert isinstance(other, dyn_torch.TorchJitted)
        same(compiled(x), other(x))
        other.weight.mul_(2)
        same(compiled(x) * 2, other(x))
        with pytest.raises(ValueError, match="n <= 5 was declared"):
            other(torch.randn(6, 3))
    assert (other.count.item(), compiled.count.item()) == (3, 3)


def test_functions_are_pickled_by_name_and_are_methods() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice.")
    x = torch.ones(2)
    same(Model(3.0)(x), x * 3)
    same(Model(4.0)(x), x * 4)
    inner = dyn_torch.jit(torch.nn.functional.relu)
    same(pickle.loads(pickle.dumps(inner))(-x), x * 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("__version__ = '2.3.1+cu121'", "PyTorch 2.3.1+cu121 is installed, and"),
        ("__version__ = '2.130.0'", "PyTorch 2.130.0 is installed, and"),
        ("raise ImportError('libtorch.so is missing')", "PyTorch cannot be imported (libtorch.so is missing), and"),
    ],
)
def test_another_pytorch_is_refused_with_the_version_that_is_needed(tmp_path: Path, text: str, problem: str) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dyn; import dyn.interop.torch"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.strip().splitlines()[-2:] == [
        f"dyn.errors.BackendUnavailableError: {problem} dyn.interop.torch needs one of torch==2.13.*, torch==2.14.*, "
        "torch==2.15.*.",
        "  help: install it with: pip install 'torch>=2.13,<2.16'",
    ]


def test_torch_says_that_it_compiles_while_anything_is_traced() -> None:
    """In whichever thread: the last trace that ends sets PyTorch's settings back, also when it ends by an error.
    Whether layers of transformers take their fast paths is the user's setting, in a trace too."""
    seen: list[tuple[bool, bool]] = []

    def settings() -> tuple[bool, bool]:
        return torch.compiler.is_compiling(), torch.backends.mha.get_fastpath_enabled()

    def work(number: int) -> None:
        def f(x: Any) -> Any:
            seen.append(settings())
            if number == 2:
                raise RuntimeError("as it may happen")
            return x + number

        with contextlib.suppress(RuntimeError):
            dyn_torch.jit(f, strict=True)(torch.ones(3))

    before = settings()
    in_threads(work, range(4))
    assert seen == [(True, True)] * 4
    assert settings() == before == (False, True)


def test_compiled_modules_are_modules_and_parts_of_others() -> None:
    module = Scale()
    compiled = dyn_torch.jit(module)
    assert isinstance(compiled, nn.Module)
    parent = nn.Sequential(compiled, nn.Linear(3, 2))
    names = ["0.weight", "0.count", "0.part.weight", "0.part.bias", "1.weight", "1.bias"]
    assert list(parent.state_dict()) == names
    assert [name for name, _ in parent.named_parameters()] == [name for name in names if name != "0.count"]
    assert list(parent.modules()) == [parent, module, module.part, parent[1]]
    x = torch.randn(2, 3)
    with torch.no_grad():
        assert not parent.eval()[0].training
        same(nn.Sequential(module, parent[1])(x), parent(x))
        parent.double()
        same(nn.Sequential(module, parent[1])(x.double()), parent(x.double()))
        parent.load_state_dict({name: torch.zeros_like(value) for name, value in parent.state_dict().items()})
        assert not module.weight.any()
    for other in (copy.deepcopy(parent), pickle.loads(pickle.dumps(parent))):
        assert isinstance(other[0], dyn_torch.TorchJitted)
        assert other[0].weight is not module.weight
        assert list(other.state_dict()) == names
    whole = dyn_torch.jit(parent.float(), strict=True)
    parent(x).sum().backward()
    wanted = [p.grad.clone() for p in parent.parameters()]
    parent.zero_grad()
    whole(x).sum().backward()
    same(wanted, [p.grad for p in parent.parameters()])
