"""Sparse gradients and matrices: as in eager PyTorch, which makes these calls itself, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")


def by_dynamo(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="dyn", dynamic=True)


WAYS = [dyn_torch.jit, by_dynamo]


class Embedded(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        make = {"embedding": torch.nn.Embedding, "bag": torch.nn.EmbeddingBag}[kind]
        self.table = make(9, 2, sparse=True)

    def forward(self, i: Any) -> Any:
        return self.table(i).sin()


@pytest.mark.parametrize("compile", WAYS)
@pytest.mark.parametrize("kind", ["embedding", "bag"])
def test_sparse_gradients(kind: str, compile: Callable[[Any], Any]) -> None:
    """Steps of SparseAdam, each on the sum of two gradients, leave PyTorch's weights."""
    torch.manual_seed(0)
    ours, theirs = Embedded(kind), Embedded(kind)
    theirs.load_state_dict(ours.state_dict())
    compiled = compile(ours)
    optimizers = [torch.optim.SparseAdam(list(one.parameters()), 0.1) for one in (ours, theirs)]
    for n in (3, 1, 5):
        given = [torch.randint(9, (n, 2)) for _ in range(2)]
        for model, run, optimizer in zip((ours, theirs), (compiled, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            for i in given:
                run(i).square().sum().backward()
            assert model.table.weight.grad.is_sparse
        grads = [one.table.weight.grad for one in (ours, theirs)]
        assert grads[0].is_coalesced() == grads[1].is_coalesced()
        ours_now, theirs_now = (one.coalesce() for one in grads)
        same(theirs_now.values(), ours_now.values(), 1e-5)
        same(theirs_now.indices(), ours_now.indices())
        for optimizer in optimizers:
            optimizer.step()
        same(ours.table.weight, theirs.table.weight, 1e-4)


def test_a_sparse_embedding_without_gradients_is_compiled() -> None:
    torch.manual_seed(0)
    model = Embedded("embedding")
    compiled = dyn_torch.jit(model)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for n in (3, 1, 5):
                i = torch.randint(9, (n, 2))
                same(model(i), compiled(i), 1e-5)
    nothing_fell_back(compiled)
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("compile", WAYS)
@pytest.mark.parametrize("is_given", [False, True], ids=["closed over", "given"])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_products_with_sparse_matrices(layout: Any, is_given: bool, compile: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    matrix = torch.where(torch.rand(4, 5) < 0.5, torch.rand(4, 5), torch.zeros(())).to_sparse(layout=layout)
    function = (lambda x, s: s @ layer(x)) if is_given else (lambda x: matrix @ layer(x))
    more = (matrix,) if is_given else ()
    compiled = compile(function)
    x = torch.randn(5, 3)
    with torch.no_grad():
        same(function(x, *more), compiled(x, *more), 1e-5)
    given = x.clone().requires_grad_()
    gradients = [
        torch.autograd.grad(run(given, *more).square().sum(), [given, *layer.parameters()])
        for run in (function, compiled)
    ]
    same(gradients[0], gradients[1], 1e-5)


def test_what_is_sparse_is_said() -> None:
    matrix = torch.eye(3).to_sparse()
    with pytest.raises(NotYetError, match=r"a tensor of the layout torch\.sparse_coo, which the function closes over"):
        dyn_torch.jit(lambda x: matrix @ x, strict=True)(torch.ones(3, 2))
    with pytest.raises(NotYetError, match=r"a sparse gradient\."):
        dyn_torch.jit(Embedded("embedding"), strict=True)(torch.zeros(2, dtype=torch.int64))
