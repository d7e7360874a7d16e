"""PyTorch's transformations in and around compiled functions: torch.func, forward mode, second derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from dyn.errors import NotYetError, UnsupportedOpError

torch: Any = pytest.importorskip("torch")

from torch._higher_order_ops.scan import scan  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

#: PyTorch's own, of its forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

FallbackWarning = dyn_torch.FallbackWarning
weight = torch.randn(3, 3)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))


def per_sample_gradients(x: Any) -> Any:
    def loss(parameters: Any, row: Any) -> Any:
        return functional_call(net, parameters, (row[None],)).sum()

    return vmap(grad(loss), (None, 0))(dict(net.named_parameters()), x)


def pulled_back(x: Any) -> Any:
    made, pull = vjp(lambda y: (y @ weight).sigmoid(), x)[:2]
    return made, pull(made * 2)


INSIDE: dict[str, Callable[..., Any]] = {
    "grad": grad(lambda y: (y.sin() * y).sum()),
    "grad of what is closed over": lambda x: grad(lambda w: (x @ w).relu().sum())(weight),
    "grad_and_value": grad_and_value(lambda y: ((y @ weight).tanh().sum(), y * 2), has_aux=True),
    "vmap": vmap(lambda row: (row @ weight).softmax(-1) * row.sum()),
    "vmap along other axes": vmap(lambda row: torch.outer(row, row), in_dims=1, out_dims=2),
    "per-sample gradients": per_sample_gradients,
    "functional_call": lambda x: functional_call(net, {name: p * 2 for name, p in net.named_parameters()}, (x,)),
    "vjp": pulled_back,
    "jvp": lambda x: jvp(lambda y: (y @ weight).sigmoid() * y, (x,), (x * 2,)),
    "jacrev": lambda x: jacrev(lambda row: (row @ weight).sin())(x[0]),
    "jacfwd": lambda x: jacfwd(lambda row: (row @ weight).sin())(x[0]),
    "hessian": lambda x: hessian(lambda row: (row @ weight).sin().sum())(x[0]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside_of_a_compiled_function(name: str) -> None:
    function = INSIDE[name]
    compiled = dyn_torch.jit(function, strict=True)
    for n in (4, 1, 2):
        x = torch.randn(n, 3)
        same(function(x), compiled(x), 1e-4, in_strides=False)
    assert compiled.cache_info().compiles <= 3


def test_branches_and_scans_of_a_batch() -> None:
    def f(x: Any) -> Any:
        return (
            vmap(lambda row: torch.cond(row.sum() > 0, torch.sin, torch.cos, (row,)))(x),
            vmap(
                lambda row: torch.cond(
                    row[0] > 0, lambda: {"a": row * 2, "b": row[1]}, lambda: {"a": -row, "b": row[2]}
                )
            )(x),
            vmap(lambda row: torch.cond(weight.sum() > 0, lambda: row * 2, lambda: row - 1))(x),
            vmap(lambda row: scan(lambda c, y: (c * y + 1, c + y), row[0] * 1, row))(x),
        )

    def plain(x: Any) -> Any:
        scanned = []
        for row in x:
            c, rows = row[0], []
            for y in row:
                rows.append(c + y)
                c = c * y + 1
            scanned.append((c, torch.stack(rows)))
        return (
            torch.where(x.sum(1, keepdim=True) > 0, x.sin(), x.cos()),
            {"a": torch.where(x[:, :1] > 0, x * 2, -x), "b": torch.where(x[:, 0] > 0, x[:, 1], x[:, 2])},
            x * 2 if weight.sum() > 0 else x - 1,
            tuple(torch.stack(column) for column in zip(*scanned, strict=True)),
        )

    compiled = dyn_torch.jit(f, strict=True)
    for n in (4, 1, 3):
        x = torch.randn(n, 3)
        same(plain(x), compiled(x), 1e-4, in_strides=False)
    assert compiled.cache_info().compiles == 1


def of_dual_numbers(f: Any, x: Any) -> Any:
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(f(forward_ad.make_dual(x, x * 2))))


AROUND: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x: grad(lambda y: f(y).sum())(x),
    "grad of what is beside it": lambda f, x: grad(lambda y: (f(x) * y).sum())(x),
    "vmap": lambda f, x: vmap(f)(x),
    "per-sample gradients": lambda f, x: vmap(grad(lambda row: f(row).sum()))(x),
    "jvp": lambda f, x: jvp(f, (x,), (x * 2,)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "dual numbers": of_dual_numbers,
}


@pytest.mark.parametrize("name", AROUND)
def test_around_a_compiled_function(name: str) -> None:
    def function(x: Any) -> Any:
        return (x @ weight).softmax(-1) * x

    transform, x = AROUND[name], torch.randn(4, 3)
    compiled = dyn_torch.jit(function)
    for _ in range(3):  # before anything is compiled, and when the native entry has the call
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            same(transform(function, x), transform(compiled, x), 1e-4, in_strides=False)
        same(function(x), compiled(x))
        same(function(x[0]), compiled(x[0]))
    assert compiled.cache_info().compiles == 2
    assert "calls in eager PyTorch: a call inside of" in str(compiled.explain())
    with pytest.raises(UnsupportedOpError, match=r"a call inside of(.|\n)*jit the function that transforms"):
        transform(dyn_torch.jit(function, strict=True), x)


# ---- derivatives of derivatives --------------------------------------------------------------------------------------


def penalty(f: Any, x: Any) -> Any:
    """The gradients of a loss that has a gradient in it, as of WGAN-GP."""
    made = f(x)
    (slope,) = torch.autograd.grad(made.sum(), x, create_graph=True)
    return torch.autograd.grad((slope**2).sum() + made.sum(), [x, *net.parameters()], allow_unused=True)


def test_second_derivatives_are_made_by_the_function_as_it_is() -> None:
    compiled = dyn_torch.jit(net)
    with pytest.warns(FallbackWarning, match=r"a second derivative \(create_graph=True\)"):
        penalty(compiled, torch.randn(2, 3).requires_grad_())
    for n in (4, 1, 0):
        x = torch.randn(n, 3).requires_grad_()
        same(list(penalty(net, x)), list(penalty(compiled, x)), 1e-4, in_strides=False)  # and no word more
    assert compiled.cache_info().compiles == 1


def test_second_derivatives_of_what_depends_on_each_other() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * y.exp()
        return z, z.t(), (x * x)[:1]

    def run(g: Any, x: Any) -> Any:
        made = g(x, (x * 2).sin())
        (slope,) = torch.autograd.grad([(one * one).sum() for one in made], x, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        hvp = torch.autograd.functional.hvp(lambda x: g(x, x)[0].sum(), x, x)
        return slope, second, torch.autograd.grad(second.sum(), x), hvp

    x = torch.randn(2, 3).requires_grad_()
    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning):
        found = run(compiled, x)
    same(tree_leaves(run(f, x)), tree_leaves(found), 1e-4, in_strides=False)


def test_second_derivatives_that_are_refused() -> None:
    def dropped(x: Any) -> Any:
        return torch.nn.functional.dropout(x.exp())

    def writes(x: Any) -> Any:
        with torch.no_grad():
            buffer.add_(1)
        return x.exp() * buffer

    buffer, x = torch.zeros(3), torch.randn(3).requires_grad_()
    for function, strict, reason in (
        (dropped, False, "it draws random numbers"),
        (writes, False, "it writes to tensors"),
        (torch.exp, True, "strict=True"),
    ):
        made = dyn_torch.jit(function, strict=strict)(x)
        with pytest.raises(NotYetError, match=f"{reason}(.|\n)*call the function itself"):
            torch.autograd.grad(made.sum(), x, create_graph=True)
    given = x * 1
    made = dyn_torch.jit(lambda x: x * 2)(given)
    del given
    with pytest.raises(NotYetError, match="its arguments are gone"):
        torch.autograd.grad(made.sum(), x, create_graph=True)
    copy = x.detach().requires_grad_()
    made = dyn_torch.jit(lambda x: x * 2)(copy)
    with torch.no_grad():
        copy.add_(1)
    with pytest.raises(NotYetError, match="its arguments were written since"):
        torch.autograd.grad(made.sum(), copy, create_graph=True)


def test_second_derivatives_inside() -> None:
    def f(x: Any) -> Any:
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return (slope**2).sum()

    x = torch.randn(3).requires_grad_()
    compiled = dyn_torch.jit(f, strict=True)
    same(torch.autograd.grad(f(x), x), torch.autograd.grad(compiled(x), x), 1e-4)

    def through_a_branch(x: Any) -> Any:
        made = torch.cond(x.sum() > 0, lambda x: x**3, torch.exp, (x,))
        return torch.autograd.grad(made.sum(), x, create_graph=True)[0]

    lstm = torch.nn.LSTM(3, 2)

    def through_a_layer(x: Any) -> Any:
        return torch.autograd.grad(lstm(x[None])[0].sum(), x, create_graph=True)[0]

    for function in (through_a_branch, through_a_layer):
        with pytest.raises(NotYetError, match="a second derivative"):
            dyn_torch.jit(function, strict=True)(x)
