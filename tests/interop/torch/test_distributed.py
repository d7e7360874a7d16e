"""Data parallel training: two processes with gloo, one pair for all that is asked of them."""

from __future__ import annotations

import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import NotYetError  # noqa: E402
from dyn.interop.torch import TorchJitted  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch.distributed with gloo")


class Network(nn.Module):
    """Dynamo leaves code of PyTorch's own alone, as that of ``Sequential``, where it comes to it by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.second(nn.functional.gelu(self.first(x)))


def network() -> Any:
    torch.manual_seed(0)
    return Network()


def trained(model: Any, run: Any, rank: int, counts: list[int], count: Callable[[], int]) -> Any:
    """Losses of three steps on batches that each process has of its own, and the parameters after them.

    ``counts`` gets what there is to ``count`` after each step.
    """
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses: list[float] = []
    for number in range(3):
        torch.manual_seed(10 * number + rank)
        optimizer.zero_grad()
        loss = (run(torch.randn(3 + number, 4)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        counts.append(count())
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return losses, [p.detach().clone() for p in whole]


def sharded(layers: bool = False, made: Callable[[Any], Any] = lambda layer: layer, **options: Any) -> Any:
    """The network as ``fully_shard`` makes it: as one, or each of its ``layers`` beside the rest, each ``made`` so."""
    from torch.distributed.fsdp import fully_shard

    model = network()
    model.first, model.second = made(model.first), made(model.second)
    if layers:
        fully_shard(model.first, **options)
        fully_shard(model.second, **options)
    return fully_shard(model, **options)


def checkpointed(layer: Any) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    return checkpoint_wrapper(layer)


def checked(rank: int) -> list[str]:
    """What is not as in eager PyTorch, in one of the processes."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    parallel: Callable[[Any], Any] = DistributedDataParallel
    compiled: list[TorchJitted] = []
    make: Any = TorchJitted.__init__

    def noted(self: TorchJitted, *args: Any, **kwargs: Any) -> None:
        compiled.append(self)
        make(self, *args, **kwargs)

    TorchJitted.__init__ = noted  # of this process alone

    def programs() -> int:
        return sum(program.jitted.cache_info().compiles for one in compiled for program in one.programs)

    model = parallel(network())
    wanted = trained(model, model, rank, [], programs)
    problems: list[str] = []

    def check(name: str, model: Any, run: Any, made: int = 1, wanted: Any = wanted, rtol: float = 1e-4) -> None:
        counts = [programs()]
        try:
            torch.testing.assert_close(trained(model, run, rank, counts, programs), wanted, rtol=rtol, atol=rtol / 100)
        except AssertionError as error:
            problems.append(f"{name}: {error}")
        if [count - counts[0] for count in counts[1:]] != [made] * 3:
            problems.append(f"{name}: {counts}")

    model = parallel(dyn_torch.jit(network(), strict=True))
    check("DDP of jit", model, model)
    options = {"backend": "dyn", "dynamic": True, "options": {"strict": True}}
    model = parallel(torch.compile(network(), **options))
    check("DDP of torch.compile", model, model)
    torch._dynamo.reset()
    model = parallel(network())
    check("torch.compile of DDP", model, torch.compile(model, **options))
    model = parallel(network())
    with pytest.warns(dyn_torch.FallbackWarning, match="gets ready at each call to add up gradients. 1 part of it is"):
        check("jit of DDP", model, dyn_torch.jit(model))

    torch._dynamo.reset()
    model = sharded()
    check("torch.compile of fully_shard", model, torch.compile(model, **options))
    torch._dynamo.reset()
    model = sharded(layers=True)
    check("torch.compile of sharded layers", model, torch.compile(model, **options))
    model = sharded()
    with pytest.warns(dyn_torch.FallbackWarning, match="gathers its parameters at each call. 1 part of it is compiled"):
        check("jit of fully_shard", model, whole := dyn_torch.jit(model))
    assert whole.cache_info()[:2] == (1, 2)
    assert str(whole.explain()).startswith("FSDPNetwork: 1 compile, 2 hits"), str(whole.explain())
    with pytest.raises(NotYetError, match="gathers its parameters at each call"):
        dyn_torch.jit(sharded(), strict=True)(torch.ones(3, 4))
    model = sharded(made=dyn_torch.jit)
    check("fully_shard around jit", model, model, 2)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(True, checkpointed, mp_policy=policy)
    halves = trained(model, model, rank, [], programs)
    model = sharded(True, checkpointed, mp_policy=policy)

    def run(x: Any) -> Any:
        return model(x).clone()

    with pytest.warns(dyn_torch.FallbackWarning, match="gathers its parameters at each call. 2 parts of it are compi"):
        check("jit of sharded layers", model, dyn_torch.jit(run), 2, halves, 0.05)
    with pytest.raises(NotYetError, match="as fully_shard makes it"):
        fully_shard(dyn_torch.jit(network()))
    return problems


def process(rank: int, path: str, answers: Any) -> None:
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)  # PyTorch's own, where Dynamo loads itself
    warnings.filterwarnings("ignore", "The .grad attribute", UserWarning)  # Dynamo's own, of what a hook has given
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    try:
        answers.put(checked(rank))
    except BaseException:
        answers.put([traceback.format_exc()])
        raise
    finally:
        torch.distributed.destroy_process_group()


def test_steps_of_two_processes_are_those_of_eager_pytorch(tmp_path: Path) -> None:
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
