"""The process that compiles one program, twice, and says what took how long.

``python -m benchmarks.compiling PROGRAM`` prints one JSON object: the seconds of ``import dyn`` (NumPy's among them),
and for each compilation its seconds, those of its stages, and where each piece of machine code came from. The first is
what a new process does; the second finds all machine code in memory.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any


def bert(layers: int = 12) -> tuple[Any, tuple[Any, ...]]:
    """BERT-base as the example has it. What its weights are makes no difference to the compiler."""
    import numpy as np

    import dyn
    from examples.bert import BertConfig, _build, encode

    config = BertConfig(layers=layers)
    params = _build(config, lambda name, shape: np.zeros(shape, np.float32))

    @dyn.jit(shapes="b s, b s", constraints=f"s <= {config.positions}")
    def model(ids: Any, mask: Any) -> Any:
        return encode(params, ids, mask, config=config)

    tokens = dyn.ShapeDtypeStruct(("b", "s"), "int64")
    return model, (tokens, tokens)


def mlp() -> tuple[Any, tuple[Any, ...]]:
    """Three layers, 784 to 10."""
    import numpy as np

    import dyn
    from dyn import nn

    sizes = (784, 512, 512, 10)
    weights = [(np.zeros((m, n), np.float32), np.zeros(n, np.float32)) for m, n in itertools.pairwise(sizes)]

    @dyn.jit
    def model(x: Any) -> Any:
        for kernel, bias in weights[:-1]:
            x = nn.relu(nn.linear(x, kernel, bias))
        return nn.softmax(nn.linear(x, *weights[-1]), axis=-1)

    return model, (dyn.ShapeDtypeStruct(("n", 784), "float32"),)


def softmax() -> tuple[Any, tuple[Any, ...]]:
    """One kernel."""
    import dyn
    import dyn.numpy as dnp

    @dyn.jit
    def model(x: Any) -> Any:
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True)

    return model, (dyn.ShapeDtypeStruct(("m", "n"), "float32"),)


def gpt(layers: int = 12) -> tuple[Any, tuple[Any, ...]]:
    """The loss of a GPT as large as GPT-2, of its parameters: what ``gpt_step`` is compared with."""
    import dyn
    from examples.gpt import loss

    config, params = _gpt_of(layers)

    def forward(params: Any, ids: Any) -> Any:
        return loss(params, ids, config)

    return dyn.jit(forward), (params, dyn.ShapeDtypeStruct(("b", "s"), "int64"))


def gpt_step(layers: int = 12) -> tuple[Any, tuple[Any, ...]]:
    """A step of its training: loss, gradients of all parameters, Adam, all arrays updated where they lie."""
    import dyn
    from examples.gpt import loss
    from examples.optimizers import AdamState, adam, apply_updates

    config, params = _gpt_of(layers)
    state = AdamState(dyn.ShapeDtypeStruct((), "int32"), params, params)
    update = adam(1e-3).update

    def step(params: Any, state: Any, ids: Any) -> Any:
        value, gradients = dyn.value_and_grad(loss)(params, ids, config)
        updates, state = update(gradients, state, params)
        return value, apply_updates(params, updates), state

    return dyn.jit(step, donate_argnums=(0, 1)), (params, state, dyn.ShapeDtypeStruct(("b", "s"), "int64"))


def _gpt_of(layers: int) -> tuple[Any, Any]:
    """The sizes of a GPT, and its parameters without elements."""
    import dyn
    from examples.gpt import GptConfig, make_params

    config = GptConfig(layers, 768, 12, 50257, 1024)
    return config, make_params(config, lambda name, *shape: dyn.ShapeDtypeStruct(shape, "float32"))


PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "bert": bert, "mlp": mlp, "softmax": softmax, "gpt": gpt, "gpt_step": gpt_step,
}  # fmt: skip


def compile_once(program: str) -> dict[str, Any]:
    """Trace, lower and compile a program, of which this process knows nothing but perhaps machine code."""
    model, arguments = PROGRAMS[program]()
    start, cpu = time.perf_counter(), time.process_time()
    compiled = model.trace(*arguments).lower().compile()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    record = compiled.version.record
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "stages": dict(record.seconds),
        "kernels": record.kernels_compiled,
        "origins": dict(Counter(origin.value for origin in record.origins)),
        "llvm": "llvmlite" in sys.modules,
    }


def main() -> None:
    start = time.perf_counter()
    importlib.import_module("dyn")
    imported = time.perf_counter() - start
    runs = [compile_once(sys.argv[1]) for _ in range(2)]
    print(json.dumps({"import": imported, "runs": runs}))


if __name__ == "__main__":
    main()
