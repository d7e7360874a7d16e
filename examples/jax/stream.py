"""``make jax``: programs of JAX over streams of shapes, once by ``dyn.interop.jax.jit`` and once by ``jax.jit``.

Each of the files beside this one has a program as JAX's users write them, its parameters, and requests of ever-changing
sizes. Exits with 1 where dyn compiled more than once, or where results differ.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from dyn.interop import jax as dyn_jax

PROGRAMS = ("decoder", "cnn", "unet", "molecules", "graphs", "lstm")
#: Largest difference, of numbers and relative to them: sums in another order.
TOLERANCE = 2e-4


@dataclass(frozen=True)
class Outcome:
    """What became of one program: how far results are apart, and the seconds they took, first calls included."""

    name: str
    requests: int
    compiles: int
    difference: float
    dyn_seconds: float
    jax_seconds: float

    @property
    def is_right(self) -> bool:
        return self.compiles == 1 and self.difference <= TOLERANCE


def serve(name: str, count: int, seed: int = 0) -> Outcome:
    """Run the program ``name`` on ``count`` requests, both ways."""
    module = importlib.import_module(name)
    params, requests = module.init(), module.requests(count, seed)
    ours = dyn_jax.jit(module.PROGRAM, shapes=getattr(module, "SHAPES", None))
    theirs = jax.jit(module.PROGRAM)
    seconds, worst = [0.0, 0.0], 0.0
    for request in requests:
        made = [_timed(f, params, request, seconds, place) for place, f in enumerate((ours, theirs))]
        worst = max(worst, difference(*made))
    return Outcome(name, count, ours.cache_info().compiles, worst, *seconds)


def _timed(f: Callable[..., Any], params: Any, request: tuple[Any, ...], seconds: list[float], place: int) -> Any:
    start = time.perf_counter()
    result = jax.block_until_ready(f(params, *request))
    seconds[place] += time.perf_counter() - start
    return result


def difference(made: Any, wanted: Any) -> float:
    """The largest one of two trees of arrays; infinite where trees, dtypes or shapes are others."""
    if jax.tree.structure(made) != jax.tree.structure(wanted):
        return float("inf")
    worst = 0.0
    for x, y in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return float("inf")
        a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
        worst = max(worst, float(np.max(np.abs(a - b) / np.maximum(1, np.abs(b)), initial=0.0)))
    return worst


def table(outcomes: list[Outcome]) -> Table:
    made = Table(title="requests of ever-changing shapes, first calls included", title_style="bold", box=box.SIMPLE)
    for column in ("program", "requests", "compiles", "dyn s", "jax.jit s", "ratio", "difference"):
        made.add_column(column, justify="left" if column == "program" else "right")
    for o in outcomes:
        style = None if o.is_right else "red"
        numbers = (f"{o.dyn_seconds:.2f}", f"{o.jax_seconds:.2f}", f"{o.jax_seconds / o.dyn_seconds:.1f}×")
        made.add_row(o.name, str(o.requests), str(o.compiles), *numbers, f"{o.difference:.1e}", style=style)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(prog="make jax", description=__doc__)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="which ones (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=30, help="of each program (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the requests (default: %(default)s)")
    options = parser.parse_args()
    names = [name for name in options.programs.split(",") if name]
    if unknown := [name for name in names if name not in PROGRAMS]:
        parser.error(f"--programs: there is no {unknown[0]}; there are {', '.join(PROGRAMS)}.")
    if options.requests < 1:
        parser.error(f"argument --requests: {options.requests} is less than 1")
    console = Console(highlight=False)
    outcomes: list[Outcome] = []
    for name in names:
        with console.status(f"{name} ..."):
            outcomes.append(serve(name, options.requests, options.seed))
    console.print(table(outcomes))
    wrong = [o for o in outcomes if not o.is_right]
    for o in wrong:
        console.print(f"error: {o.name}: {o.compiles} compiles, results differ by {o.difference:.1e}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # also where it is run as a module
    sys.exit(main())
