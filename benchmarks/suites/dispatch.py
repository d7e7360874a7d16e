"""What a warm call costs: checks, results and the way there, beside NumPy, PyTorch and JAX.

Everything runs in one process and one thread. Each call is timed in short bursts; the bursts of all calls take turns,
and the quickest burst counts, so that what disturbs the machine is left out of every number alike.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import describe_cpu
from benchmarks.report import Report, Table

Call = Callable[[], object]
TRAINING = "training step, 6 layers of 64"


@dataclass
class Case:
    """One row of the table: a call by its function and arguments."""

    what: str
    who: str
    function: Callable[..., object]
    arguments: tuple[Any, ...]
    seconds: float = float("inf")
    #: Settings in force during a burst.
    settings: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    clock: Callable[[], float] = time.perf_counter
    #: Seconds of a call in each burst.
    bursts: list[float] = field(default_factory=list[float])

    def burst(self, count: int) -> None:
        """Make ``count`` calls, and keep their time, as the best if it is."""
        function, arguments = self.function, self.arguments
        with self.settings():
            start = self.clock()
            for _ in itertools.repeat(None, count):
                function(*arguments)
            self.bursts.append((self.clock() - start) / count)
        self.seconds = min(self.seconds, self.bursts[-1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bursts", type=int, default=60, help="bursts of each call (default: %(default)s)")
    parser.add_argument("--burst-ms", type=float, default=2.0, help="length of a burst (default: %(default)s)")
    parser.add_argument("--skip-peers", action="store_true", help="leave PyTorch and JAX out")


def run(arguments: argparse.Namespace) -> Report:
    if arguments.bursts < 1 or arguments.burst_ms <= 0:
        raise ValueError("--bursts must be at least 1, and --burst-ms more than 0.")
    cases = [*numpy_cases(), *eager_cases()]
    if not arguments.skip_peers:
        cases += [*peer_cases(), *jax_eager_cases()]
    measure(cases, arguments.bursts, arguments.burst_ms)
    return report(cases)


def measure(cases: Sequence[Case], bursts: int, burst_ms: float = 2.0) -> None:
    """Time all calls, in turn."""
    counts: list[int] = []
    for case in cases:
        case.burst(3)  # compiles
        case.burst(20)
        counts.append(max(1, int(burst_ms * 1e-3 / case.seconds)))
    for _ in range(bursts):
        for case, count in zip(cases, counts, strict=True):
            case.burst(count)


def numpy_cases() -> list[Case]:
    """Calls with NumPy arrays."""
    import dyn
    from dyn.runtime.entry.layout import RELEASE_BYTES

    plus_one = dyn.jit(lambda x: x + 1)
    slowly = functools.partial(dyn.config.override, fast_call=False)
    x = np.arange(8, dtype="f4")
    large = np.zeros(RELEASE_BYTES // 8, "f4")  # with the result of the same size the call touches RELEASE_BYTES
    below = large[:-8]
    tree = {f"layer{i}": x for i in range(200)}
    fortran = np.asfortranarray(np.zeros((2000, 2000), "f4"))
    cases = [
        Case("x + 1, 8 floats", "dyn", plus_one, (x,)),
        Case("x + 1, 8 floats", "numpy", lambda x: x + 1, (x,)),
        Case("x + 1, 8 floats, strided", "dyn", plus_one, (np.zeros(16, "f4")[::2],)),
        Case("x + 1, 8 floats, strided", "numpy", lambda x: x + 1, (np.zeros(16, "f4")[::2],)),
        Case("x + 1, 8 floats, no native entry", "dyn", dyn.jit(lambda x: x + 1), (x,), settings=slowly),
        Case("200-leaf dict, one leaf used", "dyn", dyn.jit(lambda tree: tree["layer0"] + 1), (tree,)),
        Case("200-leaf dict in and out", "dyn", dyn.jit(lambda tree: tree), (tree,)),
        Case("200-leaf dict in and out", "numpy", lambda: list(np.empty((200, 8))), ()),
        Case("x + 1, 2000 x 2000, Fortran order", "dyn", plus_one, (fortran,)),
        Case("x + 1, 2000 x 2000, Fortran order", "numpy", lambda x: x + 1, (fortran,)),
        Case(f"x + 1, {below.size} floats, GIL kept", "dyn", plus_one, (below,)),
        Case(f"x + 1, {below.size} floats, GIL kept", "numpy", lambda x: x + 1, (below,)),
        Case(f"x + 1, {large.size} floats, GIL released", "dyn", plus_one, (large,)),
        Case(f"x + 1, {large.size} floats, GIL released", "numpy", lambda x: x + 1, (large,)),
        Case("dyn.Array: x + 1", "dyn", plus_one, (dyn.asarray(x),)),
    ]
    step = _training(dyn.numpy, dyn.grad)
    cases += [
        Case(TRAINING, "dyn", _loop(dyn.jit(step)), ()),
        Case(f"{TRAINING}, donated", "dyn", _loop(dyn.jit(step, donate_argnums=0)), ()),
        Case(f"{TRAINING}, donated, dyn.Array", "dyn", _loop(dyn.jit(step, donate_argnums=0), dyn.asarray), ()),
    ]
    for count in (4, 16):
        first = dyn.jit(lambda *arrays: arrays[0] + 1)
        cases.append(Case(f"{count} arrays of 8 floats, x + 1", "dyn", first, (x,) * count))
    return cases


#: Eager calls by their names: a function of a library's NumPy and of an array of its of 2 x 3 floats.
EAGER: dict[str, Callable[[Any, Any], object]] = {
    "add(x, x)": lambda np, x: np.add(x, x),
    "add(x, 2.5)": lambda np, x: np.add(x, 2.5),
    "zeros(5)": lambda np, x: np.zeros(5),
    "full((5, 2), 2.5)": lambda np, x: np.full((5, 2), 2.5),
    "reshape(x, (2, -1))": lambda np, x: np.reshape(x, (2, -1)),
    "reshape(x, (3, 2))": lambda np, x: np.reshape(x, (3, 2)),
    "sum(x, axis=0)": lambda np, x: np.sum(x, axis=0),
    "clip(x, 0, 3)": lambda np, x: np.clip(x, 0, 3),
}
#: The same of what arrays do themselves.
OPERATORS: dict[str, Callable[[Any], object]] = {
    "a + a": lambda a: a + a,
    "a + 1": lambda a: a + 1,
    "a * 2.5": lambda a: a * 2.5,
    "-a": lambda a: -a,
    "a @ a.T": lambda a: a @ a.T,
    "a < a": lambda a: a < a,
    "a[1:3]": lambda a: a[1:3],
    "a[0]": lambda a: a[0],
    "a.sum()": lambda a: a.sum(),
    "a.reshape(3, 2)": lambda a: a.reshape(3, 2),
}


def eager_cases() -> list[Case]:
    """Calls outside of jit with arrays, numbers, sizes and options, and what ``dyn.Array`` does; beside NumPy's."""
    import dyn

    x = np.arange(6, dtype="f4").reshape(2, 3)
    cases = [
        Case(f"{what}, eager", who, function, (module, x))
        for what, function in EAGER.items()
        for who, module in (("dyn", dyn.numpy), ("numpy", np))
    ]
    cases += [
        Case(f"{what}, array's own", who, function, (array,))
        for what, function in OPERATORS.items()
        for who, array in (("dyn", dyn.asarray(x)), ("numpy", x))
    ]
    lax: dict[str, Callable[[], object]] = {
        "lax.sin(x)": lambda: dyn.lax.sin(x),
        "lax.add(x, 2.5)": lambda: dyn.lax.add(x, 2.5),
        "lax.iota(dtype, 5)": lambda: dyn.lax.iota("float32", 5),
    }
    return [*cases, *(Case(f"{what}, eager", "dyn", function, ()) for what, function in lax.items())]


def jax_eager_cases() -> list[Case]:
    """The same calls of JAX."""
    import jax

    x = jax.numpy.arange(6.0).reshape(2, 3)
    return [
        *(Case(f"{what}, eager", "jax", function, (jax.numpy, x)) for what, function in EAGER.items()),
        *(Case(f"{what}, array's own", "jax", function, (x,)) for what, function in OPERATORS.items()),
    ]


def _training(numpy: Any, grad: Callable[..., Any]) -> Callable[..., Any]:
    """A step of gradient descent of a perceptron."""

    def loss(params: list[Any], x: Any, y: Any) -> Any:
        for weights in params:
            x = numpy.tanh(x @ weights)
        return numpy.sum((x - y) ** 2)

    def step(params: list[Any], x: Any, y: Any) -> Any:
        gradients = grad(loss)(params, x, y)
        return [w - 0.01 * dw for w, dw in zip(params, gradients, strict=True)]

    return step


def _loop(
    step: Callable[..., Any], asarray: Callable[[Any], Any] = np.array, ready: Callable[[Any], object] | None = None
) -> Call:
    """Calls of a training step, each of which is given the parameters that the one before it returned."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal((64, 64)).astype("f4") / 8 for _ in range(6)]
    params = [asarray(one) for one in weights]
    x, y = asarray(weights[0][:8]), asarray(weights[1][:8])

    def call() -> object:
        nonlocal params
        params = step(params, x, y)
        return params if ready is None else ready(params)

    return call


def peer_cases() -> list[Case]:
    """Calls of PyTorch and JAX, and of dyn with their arrays."""
    import jax
    import torch

    import dyn
    import dyn.interop.jax
    import dyn.interop.torch

    torch.set_num_threads(1)
    plus_one = dyn.jit(lambda x: x + 1)
    t, j = torch.arange(8.0), jax.numpy.arange(8.0)
    jitted = jax.jit(lambda x: x + 1)
    leaf = jax.jit(lambda tree: tree["layer0"] + 1)
    step, array, ready = _training(jax.numpy, jax.grad), jax.numpy.array, jax.block_until_ready
    training = [
        Case(f"{TRAINING}{', donated' * bool(given)}", who, _loop(jit(step, donate_argnums=given), array, ready), ())
        for given in ((), (0,))
        for who, jit in (("jax.jit", jax.jit), ("interop.jax", dyn.interop.jax.jit))
    ]
    return [
        *training,
        Case("torch in, torch out", "torch", lambda x: x + 1, (t,)),
        Case("JAX in, JAX out", "jax.jit", jitted, (j,)),
        Case("interop.jax.jit, x + 1", "jax.jit", jitted, (j,)),
        Case("interop.jax.jit, x + 1", "dyn", dyn.interop.jax.jit(lambda x: x + 1), (j,)),
        Case("interop.jax.jit, six arrays", "jax.jit", jax.jit(_six), (j,) * 6),
        Case("interop.jax.jit, six arrays", "dyn", dyn.interop.jax.jit(_six), (j,) * 6),
        Case("200-leaf dict, one leaf used", "jax.jit", leaf, ({f"layer{i}": j for i in range(200)},)),
        Case("torch in, torch out", "dyn", plus_one, (t,)),
        Case("JAX in, JAX out", "dyn", plus_one, (j,)),
        *_torch_cases(torch, dyn.interop.torch.jit),
    ]


def _torch_cases(torch: Any, jit: Callable[[Any], Any]) -> list[Case]:
    """Functions and modules of PyTorch: eager, by its compiler, by dyn alone and by dyn behind Dynamo."""

    class Sum(torch.nn.Module):
        """``count`` layers, of which only the parameters count."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(count)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = x + layer.weight + layer.bias
            return x

    x = torch.randn(4, 4)
    calls: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "interop.torch.jit, x + 1": (lambda x: x + 1, (x,)),
        "interop.torch.jit, three tensors": (lambda x, y, z: x + y * z, (x, x + 1, x + 2)),
        "interop.torch.jit, a dict of three": (lambda x: {"a": x + 1, "b": (x * 2, x - 1)}, (x,)),
        "interop.torch.jit, Linear(4, 4)": (torch.nn.Linear(4, 4), (x,)),
        "interop.torch.jit, 100 parameters": (Sum(50), (x,)),
    }
    compilers = {
        "torch": lambda function: function,
        "inductor": lambda function: torch.compile(function, dynamic=True),
        "dyn": jit,
        "backend=dyn": lambda function: torch.compile(function, dynamic=True, backend="dyn"),
    }
    return [
        Case(what, who, compiler(function), given, settings=torch.no_grad)
        for what, (function, given) in calls.items()
        for who, compiler in compilers.items()
    ]


def _six(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    return a + b * c - d * e + f


def report(cases: list[Case]) -> Report:
    who = [
        name
        for name in ("dyn", "numpy", "torch", "inductor", "backend=dyn", "jax.jit", "interop.jax", "jax")
        if any(case.who == name for case in cases)
    ]
    rows: list[tuple[str, ...]] = []
    for what in dict.fromkeys(case.what for case in cases):
        found = {case.who: case.seconds for case in cases if case.what == what}
        rows.append((what, *(nanoseconds(found.get(name)) for name in who)))
    load = os.getloadavg()[0]
    notes = (
        f"{describe_cpu()}; one thread; load {load:.1f} at the end.",
        "The quickest of short bursts, the loop around it included. JAX returns before its result is there.",
    )
    data = {"calls": [{"call": case.what, "who": case.who, "seconds": case.seconds} for case in cases]}
    return Report("Dispatch", (Table("A warm call, ns", ("call", *who), tuple(rows)),), notes, data)


def nanoseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e9:,.0f}"
