"""Operations of functions: ``torch.cond``, loops, scans and flexible attention are regions of one program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from dyn.errors import LeakedTracerError, NotYetError

torch: Any = pytest.importorskip("torch")

from torch._higher_order_ops import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_over  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch.nn.functional import dropout, scaled_dot_product_attention  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

associative: Any = associative_scan
weight, bias = torch.randn(3, 3).requires_grad_(), torch.randn(3).requires_grad_()
table = torch.randn(12)


# What the operations are, in Python. PyTorch's own compile their functions first, and refuse some.


def plain_cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


def plain_while(cond_fn: Any, body_fn: Any, state: Any) -> Any:
    while cond_fn(*state):
        state = body_fn(*state)
    return state


def plain_scan(f: Any, state: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    rows, steps = [], range(tree_leaves(xs)[0].shape[dim])
    for i in reversed(steps) if reverse else steps:
        state, row = f(state, tree_map(lambda x: x.select(dim, i), xs))  # noqa: B023
        rows.append(row)
    return state, tree_map(lambda *row: torch.stack(row).movedim(0, dim), *(reversed(rows) if reverse else rows))


def plain_map(f: Any, xs: Any, *rest: Any) -> Any:
    rows = [f(tree_map(lambda x: x[i], xs), *rest) for i in range(len(tree_leaves(xs)[0]))]  # noqa: B023
    return tree_map(lambda *row: torch.stack(row), *rows)


Ops = tuple[Any, Any, Any, Any]
OURS: Ops = (torch.cond, while_loop, scan, map_over)
PLAIN: Ops = (plain_cond, plain_while, plain_scan, plain_map)


# ---- with gradients -------------------------------------------------------------------------------------------------


def closes_over_parameters(ops: Ops, x: Any) -> Any:
    return ops[0](x.sum() > 0, lambda x: (x @ weight).relu() + bias, lambda x: (x + bias) @ weight.t(), (x,))


def trees(ops: Ops, x: Any) -> Any:
    return ops[0](
        x.max() > 1, lambda x: {"a": x.sum(0), "b": [x, None]}, lambda x: {"a": x[0], "b": [x * 2, None]}, (x,)
    )


def no_gradient_here(ops: Ops, x: Any) -> Any:
    return ops[0](x.sum() > 0, lambda x: x.detach() * x, lambda x: (x * x).detach() + x, (x,))


def depend_on_each_other(ops: Ops, x: Any) -> Any:
    y = x * 3
    z = y.sin()
    return ops[0](x.sum() > 0, lambda: y * z, lambda: y + z * z) + ops[0](x[0, 0] > 0, torch.mul, torch.sub, (y, z))


def in_each_other(ops: Ops, x: Any) -> Any:
    y = x * 2
    return ops[0](x.sum() > 0, lambda: ops[0](y[0, 0] > 0, lambda: y * x, lambda: y - bias), y.exp)


def by_a_size(ops: Ops, x: Any) -> Any:
    return ops[0](x.shape[0] > 2, torch.sin, torch.cos, (x,))


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cotangents[0] * 5


def a_function_of_autograds(ops: Ops, x: Any) -> Any:
    return ops[0](x.sum() > 0, lambda x: Twice.apply(x) * x, Twice.apply, (x,))


def recurrence(ops: Ops, x: Any) -> Any:
    return ops[2](lambda c, y: ((c @ weight + y).tanh(), c * y), bias * 2, x)


def scan_of_trees(ops: Ops, x: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        return {"h": c["h"] * bias + y[0], "n": c["n"] + 1}, (c["h"] * y[1], [y[0].sum() * c["n"]])

    return ops[2](step, {"h": torch.zeros(3), "n": torch.zeros((), dtype=torch.int64)}, (x, x * 2), reverse=True)


def scan_of_one_leaf(ops: Ops, x: Any) -> Any:
    return ops[2](lambda c, y: ({"h": (c["h"] + y).detach() * y}, [c["h"] + y]), {"h": x[:, 0] * 2}, x, dim=1)


def choice_in_a_scan(ops: Ops, x: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        return ops[0](y.sum() > 0, torch.mul, lambda c, y: c - y * bias, (c, y)), c + y

    return ops[2](step, torch.ones(3), x)


def scans_in_each_other(ops: Ops, x: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        return ops[2](lambda d, z: (d * z + y + bias, d), c, x)[0].tanh(), c @ weight + x.sum(0)

    return ops[2](step, x[0] * 1, x)


def mapped(ops: Ops, x: Any) -> Any:
    return ops[3](lambda row, k: {"a": (row * k + bias).sin()}, x, x[0] * 2)


WITH_GRADIENTS = [
    closes_over_parameters, trees, no_gradient_here, depend_on_each_other, in_each_other, by_a_size,
    a_function_of_autograds, recurrence, scan_of_trees, scan_of_one_leaf, choice_in_a_scan,
    scans_in_each_other, mapped,
]  # fmt: skip


def run(f: Callable[..., Any], x: Any) -> Any:
    """Results, and what the parameters and the argument get as gradients: nothing is as good as 0."""
    inputs = [x.clone().requires_grad_(), weight, bias]
    made = f(inputs[0])
    total = sum((leaf * leaf).sum() for leaf in tree_leaves(made) if leaf is not None and leaf.requires_grad)
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return made, [torch.zeros_like(a) if g is None else g for a, g in zip(inputs, found, strict=True)]


@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=lambda case: case.__name__)
def test_gradients(case: Callable[..., Any]) -> None:
    compiled = dyn_torch.jit(lambda x: case(OURS, x), strict=True)
    with torch.no_grad():
        dyn_torch.jit(lambda x: case(OURS, x), strict=True)(torch.randn(2, 3))
    for n in (4, 1, 3):
        for sign in (1, -1):
            x = torch.randn(n, 3).abs() * sign
            same(run(lambda x: case(PLAIN, x), x), run(compiled, x), 1e-4, in_strides=False)
    assert compiled.cache_info().compiles == (2 if case is by_a_size else 1)


# ---- without ---------------------------------------------------------------------------------------------------------


def writes_in_a_branch(ops: Ops, x: Any) -> Any:
    buffer = torch.zeros(3)
    view = buffer[1:]

    def up(x: Any) -> Any:
        view.add_(x[0, 0])
        x.mul_(2)
        return x.sum()

    def down(x: Any) -> Any:
        buffer.mul_(2).add_(1)
        return x.prod()

    return ops[0](x.sum() > 0, up, down, (x,)), buffer + view.sum()


def by_an_item(ops: Ops, x: Any) -> Any:
    count = (x > 0).sum().item()
    return ops[0](count > 2, lambda x: x + count, lambda x: x - count, (x,))


def integers(ops: Ops, x: Any) -> Any:
    made, count = ops[0](x.sum() > 0, lambda x: (x + 1, 3), lambda x: (x - 1, x.shape[0]), (x,))
    return made * count, torch.zeros(count)


def sizes_of_data(ops: Ops, x: Any) -> Any:
    return ops[0](x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x.nonzero().sum().to(x.dtype), (x,))


def subscripts(ops: Ops, x: Any) -> Any:
    place = x.sum(1).argmax()
    return ops[0](x.sum() > 0, lambda: x[place], lambda: x[x.shape[0] - 1 - place])


def until_it_is_large(ops: Ops, x: Any) -> Any:
    return ops[1](lambda i, y: y.sum() < 100, lambda i, y: (i + 1, y * y + x.abs() + 1), (torch.tensor(0), x))


def counted(ops: Ops, x: Any) -> Any:
    return ops[1](lambda i, y: 2 * i < x.shape[0], lambda i, y: (i + 1, y + i), (0, x))


def writes_in_a_loop(ops: Ops, x: Any) -> Any:
    buffer = torch.zeros(3)

    def body(i: Any, y: Any) -> Any:
        buffer.add_(y[0])
        return i + 1, y + buffer

    made = ops[1](lambda i, y: (i < 3) & (buffer.sum() < 9), body, (torch.tensor(0), x))
    return made, ops[2](lambda c, y: (c + buffer.add_(1).sum(), c * y), torch.ones(()), x), buffer


def loop_of_trees(ops: Ops, x: Any) -> Any:
    def body(state: Any) -> Any:
        return ({"i": state["i"] + 1, "y": state["y"] @ weight.detach()},)

    return ops[1](lambda state: state["i"] < 3, body, ({"i": torch.tensor(0), "y": x},))


def closed_over_views(ops: Ops, x: Any) -> Any:
    turned = (x + 1).t()
    return ops[0](x.sum() > 0, lambda: turned + 1, lambda: turned * 2), turned + weight.detach().t()[0, 0]


WITHOUT = [
    writes_in_a_branch, by_an_item, integers, sizes_of_data, subscripts, until_it_is_large, counted, writes_in_a_loop,
    loop_of_trees, closed_over_views,
]  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT, ids=lambda case: case.__name__)
def test_values_and_writes(case: Callable[..., Any]) -> None:
    compiled = dyn_torch.jit(lambda x: case(OURS, x), strict=True)
    with torch.no_grad():
        for n in (4, 1, 3):
            for sign in (1, -1):
                x = torch.randn(n, 3).abs() * sign
                y = x.clone()
                same(case(PLAIN, x), compiled(y), 1e-4)
                same(x, y)
    assert compiled.cache_info().compiles == 1


def test_associative_scans_of_every_length_are_one_program() -> None:
    def f(x: Any, y: Any) -> Any:
        product = associative(torch.mul, x, 0, combine_mode="generic")
        pair = associative(
            lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (x, y), 1, combine_mode="generic", reverse=True
        )
        return product, pair

    compiled = dyn_torch.jit(f, strict=True)
    for n in (4, 1, 9):
        wanted = [torch.randn(n, 3).requires_grad_() for _ in range(2)]
        given = [one.detach().requires_grad_() for one in wanted]
        results = [f(*wanted), compiled(*given)]
        same(results[0], results[1], 1e-4)
        for one in results:
            torch.stack([leaf.sum() for leaf in tree_leaves(one)]).sum().backward()
        same([one.grad for one in wanted], [one.grad for one in given], 1e-4)
    assert compiled.cache_info().compiles == 1


# ---- random numbers -------------------------------------------------------------------------------------------------


def test_each_step_draws_its_own_numbers_and_the_derivative_the_same() -> None:
    def f(x: Any) -> Any:
        _, rows = scan(lambda c, y: (c + 1, dropout(y, 0.5)), torch.zeros(()), x)
        _, drawn = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y[1:], torch.rand(1)])),
                              (torch.tensor(0), torch.zeros(3)))  # fmt: skip
        return rows, torch.cond(x.sum() > 0, lambda x: dropout(x, 0.5), lambda x: x, (x,)), drawn

    compiled = dyn_torch.jit(f, strict=True)
    x = torch.ones(64, 8).requires_grad_()
    torch.manual_seed(0)
    rows, chosen, drawn = compiled(x)
    (gradient,) = torch.autograd.grad((rows + chosen).sum(), x)
    same((rows + chosen).detach(), gradient)  # 2 for what is kept, of ones
    assert len({tuple(row.tolist()) for row in rows}) > 32
    assert len(set(drawn.tolist())) == 3
    assert not torch.equal(rows, chosen)
    torch.manual_seed(0)
    same((rows, chosen, drawn), compiled(x))


# ---- flexible attention ----------------------------------------------------------------------------------------------


def relative(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return score + (i - j) * 0.1 * (h + 1) + table[i - j + 5]


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def heads(batch: int, length: int, other: int) -> Any:
    q, k, v = torch.randn(batch, length, 2, 4).transpose(1, 2), *torch.randn(2, batch, 2, other, 4)
    return q, k, v


def test_scores_that_a_function_changes() -> None:
    def plain(q: Any, k: Any, v: Any) -> Any:
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        return scaled_dot_product_attention(
            q, k, v, attn_mask=distance * 0.1 * torch.arange(1, 3)[:, None, None] + table[distance + 5]
        )

    compiled = dyn_torch.jit(lambda q, k, v: flex_attention(q, k, v, score_mod=relative), strict=True)
    for batch, length, other in ((2, 5, 5), (1, 1, 3), (3, 6, 4)):
        given = heads(batch, length, other)
        found = compiled(*given)
        same(plain(*given), found, 1e-4, in_strides=False)
        assert found.transpose(1, 2).is_contiguous()  # as the query
    assert compiled.cache_info().compiles <= 2


def test_masks_in_blocks() -> None:
    whole = create_block_mask(causal, None, None, 150, 150, device="cpu")

    def f(q: Any, k: Any, v: Any) -> Any:
        mask = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    def closed_over(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=whole)

    for function, lengths in ((f, (5, 1, 200)), (closed_over, (150,))):
        compiled = dyn_torch.jit(function, strict=True)
        for length in lengths:
            given = heads(2, length, length)
            same(scaled_dot_product_attention(*given, is_causal=True), compiled(*given), 1e-4)


# ---- what is left to PyTorch ----------------------------------------------------------------------------------------


def test_gradients_that_are_refused_are_stated() -> None:
    def loop(x: Any) -> Any:
        return while_loop(lambda y: y.sum() < 9, lambda y: (y * 2 + 1,), (x,))[0]

    def writes(x: Any) -> Any:
        buffer = torch.zeros(3)

        def branch(x: Any) -> Any:
            buffer.add_(1)
            return x * 2

        return torch.cond(x.sum() > 0, branch, torch.sin, (x,)) + buffer

    for function, reason in ((loop, "through while_loop"), (writes, "through a cond that writes")):
        with pytest.raises(NotYetError, match=reason):
            dyn_torch.jit(function, strict=True)(torch.ones(3).requires_grad_())


def test_branches_that_do_not_go_together() -> None:
    for other in (lambda x: (x, x), lambda x: x.double(), lambda x: x[:, 0]):
        compiled = dyn_torch.jit(lambda x, other=other: torch.cond(x.sum() > 0, torch.sin, other, (x,)))
        with warnings.catch_warnings():  # PyTorch raises for them too, and nothing is said of a fallback
            warnings.simplefilter("error", dyn_torch.FallbackWarning)
            with pytest.raises(Exception, match=r"(?s).+"):
                compiled(torch.ones(2, 3))


def test_a_tensor_that_leaks_out_of_a_branch() -> None:
    leaked: list[Any] = []

    def f(x: Any) -> Any:
        made = torch.cond(x.sum() > 0, lambda x: leaked.append(x * 2) or x.sin(), torch.cos, (x,))
        return made + leaked.pop()

    with pytest.raises(LeakedTracerError, match="is used outside that trace"):
        dyn_torch.jit(f, strict=True)(torch.ones(3))


# ---- torch.compile --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_graphs_of_dynamo() -> None:
    def f(x: Any, h: Any) -> Any:
        x = torch.cond(x.sum() > 0, lambda x: (x @ weight).relu(), lambda x: x @ weight.t() + bias, (x,))
        last, rows = scan(lambda c, y: (c * y + bias, c + y), h, x)
        return last, rows, map_over(lambda row, k: row * k, x, h)

    def plain(x: Any, h: Any) -> Any:
        x = plain_cond(x.sum() > 0, lambda x: (x @ weight).relu(), lambda x: x @ weight.t() + bias, (x,))
        last, rows = plain_scan(lambda c, y: (c * y + bias, c + y), h, x)
        return last, rows, plain_map(lambda row, k: row * k, x, h)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="dyn", dynamic=True, fullgraph=True, options={"strict": True})
    for n in (4, 7):
        torch.manual_seed(n)
        x, h = torch.randn(n, 3), torch.randn(3)
        wanted, found = run(lambda x: plain(x, h), x), run(lambda x: compiled(x, h), x)  # noqa: B023
        same(tree_leaves(wanted), tree_leaves(found), 1e-4, in_strides=False)
