"""Programs of front ends, written down where these front ends are: DHLO text, which dyn reads by itself, and StableHLO.

``python -m benchmarks.gpu_check.written`` writes the files beside this one anew; it takes JAX and PyTorch.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_check.checks import Figures, NotApplicableError, Options, compare, there
from dyn.backends.families import placement_of
from dyn.backends.reference import run_reference
from dyn.compilation_record import CompilationRecord
from dyn.errors import DynError
from dyn.ir.core import Function
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.runtime.device_memory import DeviceArray
from dyn.shapes import Symbol, as_dim, evaluate
from dyn.specialize.program import Program
from dyn.trace.function import TracedFunction

_FOLDER = Path(__file__).parent / "written"
#: Sizes of the dims that a program is called at.
_SIZES = ((2, 5), (1, 1), (3, 33))


def written_programs() -> dict[str, Callable[[Options], Figures]]:
    """A check for each file, by its name."""
    found: dict[str, Callable[[Options], Figures]] = {}
    for path in sorted(_FOLDER.glob("*.dhlo")):
        found[f"{path.stem} (DHLO)"] = functools.partial(_dhlo, path)
    for path in sorted(_FOLDER.glob("*.mlir")):
        found[f"{path.stem} (StableHLO)"] = functools.partial(_stablehlo, path)
    return found


def arguments_of(function: Function, sizes: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
    """Random arguments of a program at some sizes: its dims take these in turns, unless the facts know them."""
    rng, numbers = np.random.default_rng(0), dict[Symbol, int]()
    for number, symbol in enumerate(function.symbols()):
        known = function.facts.simplify(as_dim(symbol))
        numbers[symbol] = known if isinstance(known, int) else sizes[number % 2]
    arrays: list[np.ndarray[Any, Any]] = []
    for param in function.params:
        shape = tuple([evaluate(dim, numbers) for dim in param.shape])
        dtype = param.dtype
        drawn = rng.integers(0, 5, shape) if dtype.is_integer else rng.standard_normal(shape) / 4
        arrays.append(drawn.astype(dtype.np))
    return arrays


def _dhlo(path: Path, options: Options) -> Mapping[str, object]:
    function = parse_function(path.read_text("utf-8"))
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    program = Program(traced, placement_of(options.device), CompilationRecord()).load(())
    for sizes in _SIZES:
        arrays = arguments_of(function, sizes)
        results = [x.to_numpy() if isinstance(x, DeviceArray) else x for x in program(arrays)]
        compare(results, run_reference(function, arrays), sizes, 40)
    return {"shapes": len(_SIZES)}


def _stablehlo(path: Path, options: Options) -> Mapping[str, object]:
    from dyn.interop import stablehlo

    try:
        function = stablehlo.load(path.read_text("utf-8"), trusted=True)
    except DynError as error:
        raise NotApplicableError(f"jaxlib here does not read it: {str(error).splitlines()[0]}") from None
    specs = parse_function(path.with_suffix(".dhlo").read_text("utf-8"))
    for sizes in _SIZES:
        arrays = arguments_of(specs, sizes)
        compare(function(*there(options.device, arrays)), function.reference(*arrays), sizes, 40)
    return {"shapes": len(_SIZES)}


def _jax_block(x: Any, wq: Any, wk: Any, wv: Any, w: Any, scale: Any) -> Any:
    """A block of a decoder: causal attention of ``x[b, s, 16]``, and a loop over what it gives."""
    import jax
    from jax import numpy as jnp

    scores = (x @ wq) @ jnp.swapaxes(x @ wk, 1, 2) / 4
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -1e9)
    y = x + jax.nn.softmax(scores, axis=-1) @ (x @ wv)
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5) * scale
    _, sums = jax.lax.scan(lambda c, row: (c * 0.5 + row, c), jnp.zeros_like(y[:, 0]), jnp.swapaxes(y, 0, 1))
    return y + jax.nn.gelu(y @ w) @ w.T, sums


def _write() -> None:
    """Write a block of JAX's as DHLO and as StableHLO, and a layer of PyTorch's as DHLO."""
    _FOLDER.mkdir(exist_ok=True)
    sizes = {"b": 2, "s": 5}
    shapes: list[tuple[int | str, ...]] = [("b", "s", 16), *[(16, 16)] * 3, (16, 32), (16,)]
    jit: Any = importlib.import_module("dyn.interop.jax").jit
    arrays = [np.ones([sizes[d] if isinstance(d, str) else d for d in shape], np.float32) for shape in shapes]
    lowered = jit(_jax_block).lower(*arrays)
    (_FOLDER / "jax_block.mlir").write_text(lowered.as_text("stablehlo"), "utf-8")
    (_FOLDER / "jax_block.dhlo").write_text(lowered.as_text("dhlo"), "utf-8")
    torch: Any = importlib.import_module("torch")
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True).eval()
    jit, given = importlib.import_module("dyn.interop.torch").jit, torch.randn(2, 5, 16)
    compiled = jit(layer, dynamic_shapes={"src": {0: torch.export.Dim("b"), 1: torch.export.Dim("s"), 2: 16}})
    with torch.no_grad():
        compiled(given)
        (made,) = compiled.programs
        function = made.version([given]).traced.function
    # Weights are arguments like others.
    text = print_function(replace(function, infos=tuple([replace(info, hidden=False) for info in function.infos])))
    (_FOLDER / "torch_layer.dhlo").write_text(text, "utf-8")


if __name__ == "__main__":
    _write()
