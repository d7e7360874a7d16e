"""Programs of any size, for how the time and memory of compiling them grow.

``python -m benchmarks.growing PROGRAM SIZE`` compiles one and prints one JSON object: the seconds that the process
computed for, those of its stages, and by how much its memory grew. A small program is compiled before, so that imports
are not counted; nothing is found on disk.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

#: A function to compile, and its arguments.
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _vector(size: Any = "n") -> Any:
    import dyn

    return dyn.ShapeDtypeStruct((size,), "float32")


def concatenation(size: int) -> Case:
    """So many arrays one after the other, each of a length of its own."""
    import dyn.numpy as dnp

    return lambda *xs: dnp.concatenate(xs), tuple(_vector(f"n{i}") for i in range(size))


def slices(size: int) -> Case:
    """The sum of so many shifted slices, as stencils and filters are written."""

    def f(x: Any) -> Any:
        n = x.shape[0] - size
        total = x[:n]
        for i in range(1, size):
            total = total + x[i : n + i]
        return total

    return f, (_vector(),)


def constant(size: int) -> Case:
    """A literal of so many elements, as modules have them."""
    import numpy as np

    from dyn.trace.context import current_trace
    from dyn.trace.tracer import Tracer

    array = np.arange(size, dtype=np.float32)

    def f(x: Any) -> Any:
        trace = current_trace()
        assert trace is not None
        return x + Tracer(trace, trace.constant(array))

    return f, (_vector(size),)


def elementwise(size: int) -> Case:
    """A chain of so many elementwise operations."""
    import dyn.numpy as dnp

    def f(x: Any) -> Any:
        for i in range(size // 2):
            x = dnp.sin(x) if i % 4 == 0 else x * 0.5
            x = x + 1.5
        return x

    return f, (_vector(),)


def mixed(size: int) -> Case:
    """A chain of so many operations, reductions and matrix products among them."""
    import dyn
    import dyn.numpy as dnp

    def f(x: Any) -> Any:
        for i in range(size // 4):
            x = x - dnp.max(x, axis=-1, keepdims=True)
            x = dnp.tanh(x @ x) if i % 3 == 0 else dnp.exp(x) * 2
        return x

    return f, (dyn.ShapeDtypeStruct(("n", "n"), "float32"),)


def reductions(size: int) -> Case:
    """A chain of so many operations, each second one a reduction."""
    import dyn
    import dyn.numpy as dnp

    def f(x: Any) -> Any:
        for _ in range(size // 2):
            x = x - dnp.sum(x, axis=-1, keepdims=True)
        return x

    return f, (dyn.ShapeDtypeStruct(("m", "n"), "float32"),)


def parameters(size: int) -> Case:
    """The sum of so many arrays of one shape."""

    def f(*xs: Any) -> Any:
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    return f, tuple(_vector() for _ in range(size))


def results(size: int) -> Case:
    """So many results of one array."""
    return lambda x: [x + float(i) for i in range(size)], (_vector(),)


def levels(size: int) -> Case:
    """A size of so many levels, each of which has the one before twice."""
    import numpy as np

    def f(x: Any, y: Any) -> Any:
        n, least = x.shape[0], y.shape[0]
        for _ in range(size):
            n = np.maximum(n // 2, least) + np.minimum(n // 3, least)
        return x * n

    return f, (_vector(), _vector("m"))


#: Each program, and the size to which it is to compile in a time that grows no faster than n log n.
GROWING: dict[str, tuple[Callable[[int], Case], int]] = {
    "concatenation": (concatenation, 500), "slices": (slices, 160), "constant": (constant, 1_000_000),
    "elementwise": (elementwise, 2000), "mixed": (mixed, 2000), "reductions": (reductions, 2000),
    "parameters": (parameters, 1000), "results": (results, 1000), "levels": (levels, 1000),
}  # fmt: skip


def compile_of(program: str, size: int) -> dict[str, Any]:
    """Trace, lower and compile a program of a size; what that took."""
    import dyn

    function, arguments = GROWING[program][0](size)
    before, start = _peak(), time.process_time()
    compiled = dyn.jit(function).trace(*arguments).lower().compile()
    seconds = time.process_time() - start
    record = compiled.version.record
    return {"cpu_seconds": seconds, "bytes": _peak() - before, "stages": dict(record.seconds)}


def _peak() -> int:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    from dyn import config

    with config.override(cache_dir="0"):
        compile_of("elementwise", 4)
        print(json.dumps(compile_of(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
