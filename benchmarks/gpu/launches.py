"""Numbers of kernels that a call launches: by dyn, from a program's launches and their conditions; by PyTorch, from the
operations that it runs on this machine's processor.

No GPU is needed, and none is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dyn.schedule.launch import Condition, Launch, Variant
from dyn.shapes import Symbol, evaluate


def launched(launches: Sequence[Launch], env: Mapping[Symbol, int]) -> list[tuple[Launch, Variant]]:
    """Launches that a call with these sizes makes, in order, and the variant of each. Those of no blocks are none.

    Raises ValueError for a program with loops or branches, whose launches its data decide.
    """
    found: list[tuple[Launch, Variant]] = []
    for launch in launches:
        if launch.bodies:
            raise ValueError(f"{launch.group.name} has launches of its own, whose number depends on data.")
        other = any(_holds(condition, env) for condition in launch.unless)
        if other or not launch.variants or not (launch.when is None or _holds(launch.when, env)):
            continue
        variant = next(v for v in launch.variants if v.condition is None or _holds(v.condition, env))
        if evaluate(variant.grid, env):
            found.append((launch, variant))
    return found


def _holds(condition: Condition, env: Mapping[Symbol, int]) -> bool:
    size = evaluate(condition.dim, env)
    return condition.low <= size and (condition.high is None or size <= condition.high)


def eager_operations(call: Callable[[], object]) -> int:
    """Operations of PyTorch's that compute or copy something in a call, derivatives included: a kernel or more each."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            self.count += not (func.is_view or name in _NO_KERNEL)
            return func(*args, **(kwargs or {}))

    with Counting() as counting:
        call()
    return counting.count


#: Operations that compute nothing, and those that read a size or a number.
_NO_KERNEL = frozenset({"_unsafe_view", "detach", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh"})


def inductor_kernels(call: Callable[[], object]) -> int:
    """Kernels and library calls of the graphs that Inductor compiles in a call: what its scheduler has after fusing.

    Its fusion is that for a processor, where it is as for a GPU but for what lies beside products and sorts.
    """
    import torch
    from torch._functorch import config as autograd_config
    from torch._inductor import config, scheduler

    count = 0

    def counting(nodes: list[Any]) -> list[Any]:
        nonlocal count
        count += sum(not isinstance(node, scheduler.NopKernelSchedulerNode) for node in nodes)
        return nodes

    torch._dynamo.reset()
    whole = autograd_config.patch(enable_autograd_cache=False)  # what is found on disk is scheduled no more
    with whole, config.patch(_post_fusion_custom_pass=counting, fx_graph_cache=False):
        call()
    return count
