"""Collectives of two processes with gloo, in programs: as in eager PyTorch, forwards and backwards, by both ways in."""

from __future__ import annotations

import copy
import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch.distributed with gloo")


def functions() -> dict[str, Callable[[Any], Any]]:
    """Functions of a tensor of an even number of rows, by name."""
    import torch.distributed as dist
    from torch.distributed import _functional_collectives as fc

    group: Any = dist.group.WORLD

    def in_place(x: Any) -> Any:
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    def in_turn(x: Any) -> Any:
        first = fc.all_reduce(x.sin(), "sum", group)
        second = fc.all_reduce(x.cos() + first, "max", group)
        return first * second

    def gathered_in_place(x: Any) -> Any:
        y = x.new_empty(2 * x.shape[0], x.shape[1])
        dist.all_gather_into_tensor(y, x * 2)
        return y + 1

    def scattered_in_place(x: Any) -> Any:
        y = x.new_empty(x.shape[0] // 2, x.shape[1])
        dist.reduce_scatter_tensor(y, x * 2)
        return y + 1

    def sent_in_place(x: Any) -> Any:
        y = x * 2
        dist.broadcast(y, 1)
        return y + 1

    def exchanged_in_place(x: Any) -> Any:
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x * 2)
        return y + 1

    return {
        "dist.all_reduce": in_place,
        "dist.all_gather_into_tensor": gathered_in_place,
        "dist.reduce_scatter_tensor": scattered_in_place,
        "dist.broadcast": sent_in_place,
        "dist.all_to_all_single": exchanged_in_place,
        "all_to_all_single": lambda x: fc.all_to_all_single(x * 2, None, None, group).exp(),
        "permute_tensor": lambda x: fc.permute_tensor((x * 2).reshape(-1), [1, 0], group).exp(),
        "all_reduce_coalesced": lambda x: sum(fc.all_reduce_coalesced([x * 2, x.sin()], "sum", group)),
        "all_gather_into_tensor_coalesced": lambda x: sum(fc.all_gather_into_tensor_coalesced([x * 2, x.sin()], group)),
        "reduce_scatter_tensor_coalesced": lambda x: sum(
            fc.reduce_scatter_tensor_coalesced([x * 2, x.sin()], "sum", [0, 0], group)
        ),
        "all_reduce of means": lambda x: fc.all_reduce(x * 2, "avg", group).exp(),
        "all_reduce": lambda x: fc.all_reduce(x * 2, "sum", group).exp(),
        "all_gather_tensor": lambda x: fc.all_gather_tensor(x * 2, 0, group).exp(),
        "reduce_scatter_tensor": lambda x: fc.reduce_scatter_tensor(x * 2, "sum", 0, group).exp(),
        "broadcast": lambda x: fc.broadcast(x * 2, 1, group) + x,
        "wait_tensor": lambda x: fc.wait_tensor(fc.all_reduce(x * 2, "sum", group)) + 1,
        "in turn": in_turn,
    }


#: The functions at which Dynamo breaks its graph.
BREAK = ("dist.broadcast",)
#: The functions through which PyTorch takes derivatives.
DIFFERENTIABLE = ("all_reduce", "all_gather_tensor", "reduce_scatter_tensor")


def checked(rank: int) -> list[str]:
    """What is not as in eager PyTorch, in one of the processes."""
    problems: list[str] = []
    for name, function in functions().items():
        for way in ("jit", "torch.compile"):
            compiled = compiled_by(way, function, fullgraph=name not in BREAK)
            for rows in (4, 2, 4):
                for has_gradient in (False, *([True] if name in DIFFERENTIABLE else [])):
                    torch.manual_seed(rank)
                    x = torch.randn(rows, 3, requires_grad=has_gradient)
                    try:
                        wanted, found = function(x), compiled(x)
                        torch.testing.assert_close(found + 0, wanted + 0, msg=f"{name} by {way}, {rows}")
                        if has_gradient:
                            gradients = [torch.autograd.grad((one * one).sum(), x)[0] for one in (wanted, found)]
                            torch.testing.assert_close(*gradients, msg=f"gradient of {name} by {way}, {rows}")
                    except Exception:
                        problems.append(f"{name} by {way}, {rows} rows: {traceback.format_exc()}")
            text = str(dyn_torch.explain(compiled))
            is_whole = way == "jit" and name.startswith("dist.")
            if ("calls in eager PyTorch" in text) != is_whole:
                problems.append(f"{name} by {way}: {text}")
    for way in ("jit", "torch.compile"):
        for check in (checked_parallel, checked_sharded):
            try:
                check(way)
            except Exception:
                problems.append(f"{check.__name__} by {way}: {traceback.format_exc()}")
    return problems


class Perceptron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


def checked_parallel(way: str) -> None:
    """Raise AssertionError where a module whose layers lie in two processes is not as one that lies in each."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    whole = Perceptron()
    plan: Any = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    parts = parallelize_module(copy.deepcopy(whole), init_device_mesh("cpu", (2,)), plan)
    compiled = compiled_by(way, parts)
    for rows in (3, 5, 2):
        for has_gradient in (False, True):
            torch.manual_seed(rows)
            x = torch.randn(rows, 4, requires_grad=has_gradient)
            with torch.set_grad_enabled(has_gradient):
                wanted, found = whole(x), compiled(x)
            torch.testing.assert_close(found, wanted)
            if has_gradient:
                for (name, _), one, other in zip(
                    [("x", x), *whole.named_parameters()],
                    torch.autograd.grad(wanted.square().sum(), [x, *whole.parameters()]),
                    torch.autograd.grad(found.square().sum(), [x, *parts.parameters()]),
                    strict=True,
                ):
                    gathered = other.full_tensor() if hasattr(other, "full_tensor") else other
                    torch.testing.assert_close(gathered, one, msg=f"gradient of {name}, {rows} rows")
    check_way(way, compiled)


def checked_sharded(way: str) -> None:
    """Raise AssertionError where a function of tensors that lie in two processes is not as in eager PyTorch."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))

    def function(x: Any, weight: Any) -> Any:
        return (x @ weight).sin().redistribute(mesh, [Replicate()]).to_local()

    compiled = compiled_by(way, function)
    for rows in (4, 6, 2):
        for has_gradient in (False, True):
            torch.manual_seed(rows)
            given = [
                distribute_tensor(one, mesh, [placement]).requires_grad_(has_gradient)
                for one, placement in ((torch.randn(rows, 4), Shard(0)), (torch.randn(4, 6), Replicate()))
            ]
            wanted, found = function(*given), compiled(*given)
            torch.testing.assert_close(found, wanted)
            if has_gradient:
                gradients = [torch.autograd.grad(one.square().sum(), given) for one in (wanted, found)]
                for one, other in zip(*gradients, strict=True):
                    assert one.placements == other.placements
                    torch.testing.assert_close(other.full_tensor(), one.full_tensor())
    check_way(way, compiled)


def compiled_by(way: str, function: Any, *, fullgraph: bool = True) -> Any:
    torch._dynamo.reset()
    if way == "jit":
        return dyn_torch.jit(function)
    return torch.compile(function, backend="dyn", dynamic=True, fullgraph=fullgraph)


def check_way(way: str, compiled: Any) -> None:
    """``jit`` leaves tensors of several processes to eager PyTorch; AOTAutograd takes them apart for dyn."""
    text = str(dyn_torch.explain(compiled))
    assert ("calls in eager PyTorch" in text) == (way == "jit"), text


def process(rank: int, path: str, answers: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    try:
        answers.put(checked(rank))
    except BaseException:
        answers.put([traceback.format_exc()])
        raise
    finally:
        torch.distributed.destroy_process_group()


def test_collectives_of_two_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=process, args=(rank, str(tmp_path / "store"), answers)) for rank in range(2)]
    for one in processes:
        one.start()
    try:
        found = [answers.get(timeout=300) for _ in processes]
        assert found == [[], []], "\n".join(problem for problems in found for problem in problems)
    finally:
        for one in processes:
            one.join(timeout=30)
            if one.is_alive():
                one.kill()
