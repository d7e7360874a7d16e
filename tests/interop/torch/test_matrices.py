"""Linear algebra through ``dyn.interop.torch.jit``: derivatives of determinants, stacks beside single matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

DETERMINANTS: dict[str, Callable[[Any], Any]] = {
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "logdet": lambda a: torch.logdet(a @ a.mT + torch.tril(a)),
    "complex": lambda a: torch.linalg.det(torch.complex(a, a.mT * 0.5)).abs(),
}


def rows(shape: tuple[int, ...]) -> Any:
    return torch.randn(shape) + 2 * torch.eye(shape[-1])


@pytest.mark.parametrize("name", DETERMINANTS)
def test_gradients_of_determinants(name: str) -> None:
    """PyTorch keeps the factors of the transpose where rows are contiguous, which its derivatives count on."""
    function = DETERMINANTS[name]

    def slope(a: Any) -> Any:
        a = a.detach().requires_grad_()
        return torch.autograd.grad(function(a).sum(), a)[0]

    compiled, whole = dyn_torch.jit(function, strict=True), dyn_torch.jit(slope, strict=True)
    for shape in ((3, 3), (2, 2), (1, 1), (0, 0), (2, 3, 3), (1, 2, 2), (0, 2, 2)):
        a = rows(shape)
        for given in (a, a.mT, a.mT.contiguous().mT):
            x = given.detach().requires_grad_()
            wanted = slope(given)
            same(wanted, torch.autograd.grad(compiled(x).sum(), x)[0], 1e-4, in_strides=False)
            same(wanted, whole(given), 1e-4, in_strides=False)


def test_gradients_of_determinants_of_singular_matrices() -> None:
    compiled = dyn_torch.jit(torch.linalg.det, strict=True)
    for a in (torch.tensor([[1.0, 2.0], [2.0, 4.0]]), torch.zeros(3, 3), torch.ones(3, 3).tril() - torch.eye(3)):
        x = a.requires_grad_()
        wanted, found = (torch.autograd.grad(function(x), x)[0] for function in (torch.linalg.det, compiled))
        same(wanted, found, 1e-4, in_strides=False)


SOLVERS: dict[str, Callable[[Any, Any], Any]] = {
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a),
    "solve": torch.linalg.solve,
    "solve from the right": lambda a, b: torch.linalg.solve(a, b, left=False),
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_stacks_beside_single_matrices(name: str) -> None:
    """Of either operand there may be a stack beside one matrix of the other, in gradients too."""
    function = SOLVERS[name]
    compiled = dyn_torch.jit(function, strict=True)
    for lead, its in (((), (2,)), ((2,), ()), ((1,), (2,)), ((), (0,)), ((), ())):
        a, b = rows((*lead, 3, 3)).requires_grad_(), torch.randn(*its, 3, 3, requires_grad=True)
        wanted, found = function(a, b), compiled(a, b)
        same(wanted.detach(), found.detach(), 1e-4)
        cotangent = torch.randn(wanted.shape)
        slopes = [torch.autograd.grad(one, (a, b), cotangent) for one in (wanted, found)]
        same(slopes[0], slopes[1], 1e-3, in_strides=False)
