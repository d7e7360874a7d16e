"""How exact long sums and their kin are, beside NumPy and PyTorch.

Each program runs along rows and along columns of arrays of some sizes and kinds, and is compared with the same in
extended precision. An error is the largest one of a result, in units of the dtype's epsilon of the largest element of
the exact result. Nothing is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import Report, Table

Array = np.ndarray[Any, Any]
#: A function of an array and the axis that it goes along.
Program = Callable[[Any, int], Any]
AXES = {"rows": 1, "columns": 0}
#: An error that is as good as none: the unit in which the results are given.
UNIT = 1.0


@dataclass(frozen=True)
class Entry:
    """The errors of one program on one array, in epsilons: dyn's, and others' by name."""

    program: str
    axis: str
    dtype: str
    data: str
    size: int
    dyn: float
    others: dict[str, float]

    @property
    def best(self) -> float:
        """The least error of the others."""
        return min(self.others.values())

    @property
    def is_met(self) -> bool:
        """Whether the error is at most twice the least one, or a unit."""
        return self.dyn <= max(2 * self.best, UNIT)


def _shifted(np_: Any, x: Any, axis: int) -> tuple[Any, Any]:
    top = np_.max(x, axis=axis, keepdims=True)
    return top, np_.exp(x - top)


def _logsumexp(np_: Any, x: Any, axis: int) -> Any:
    top, e = _shifted(np_, x, axis)
    return np_.log(np_.sum(e, axis=axis, keepdims=True)) + top


def _softmax(np_: Any, x: Any, axis: int) -> Any:
    _, e = _shifted(np_, x, axis)
    return e / np_.sum(e, axis=axis, keepdims=True)


def _layer_norm(np_: Any, x: Any, axis: int) -> Any:
    centred = x - np_.mean(x, axis=axis, keepdims=True)
    return centred / np_.sqrt(np_.var(x, axis=axis, keepdims=True) + 1e-5)


#: As users write them for NumPy; dyn runs the same.
PROGRAMS: dict[str, Callable[[Any, Any, int], Any]] = {
    "sum": lambda np_, x, axis: np_.sum(x, axis=axis),
    "mean": lambda np_, x, axis: np_.mean(x, axis=axis),
    "var": lambda np_, x, axis: np_.var(x, axis=axis),
    "cumsum": lambda np_, x, axis: np_.cumsum(x, axis=axis),
    "dot": lambda np_, x, axis: np_.vecdot(x, x, axis=axis),
    "norm": lambda np_, x, axis: np_.linalg.norm(x, axis=axis),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "layer norm": _layer_norm,
}


def _torch_programs() -> dict[str, Program]:
    import torch

    def layer_norm(x: Any, axis: int) -> Any:
        if axis == 1:
            return torch.nn.functional.layer_norm(x, x.shape[1:])
        spread, mean = torch.var_mean(x, dim=0, correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(spread + 1e-5)

    return {
        "sum": lambda x, axis: x.sum(axis),
        "mean": lambda x, axis: x.mean(axis),
        "var": lambda x, axis: x.var(axis, correction=0),
        "cumsum": lambda x, axis: x.cumsum(axis),
        "dot": lambda x, axis: torch.linalg.vecdot(x, x, dim=axis),
        "norm": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
        "logsumexp": lambda x, axis: torch.logsumexp(x, axis, keepdim=True),
        "softmax": torch.softmax,
        "layer norm": layer_norm,
    }


def array(data: str, size: int, dtype: str) -> Array:
    """A row of a kind of data."""
    drawn = np.random.default_rng(size).standard_normal(size)
    made = {
        "constant": np.full(size, 0.1),
        "normal": drawn,
        "normal + 1000": drawn + 1000,
        "1e8, then ones": np.concatenate([[1e8], np.ones(size - 1)]),
    }
    return made[data].astype(dtype)


DATA = ("constant", "normal", "normal + 1000", "1e8, then ones")


def _error(got: Any, exact: Array, scale: float, epsilon: float) -> float:
    apart = np.abs(np.asarray(got).astype(np.longdouble) - exact)
    worst = float(np.max(np.where(np.isnan(apart), np.inf, apart))) if apart.size else 0.0
    return worst / scale / epsilon


def entries(
    sizes: Sequence[int], dtypes: Sequence[str], programs: Sequence[str], *, torch: bool = True
) -> Iterator[Entry]:
    """The errors of all programs on all arrays."""
    import dyn

    dnp: Any = dyn.numpy
    of_torch = _torch_programs() if torch else {}
    compiled = {
        (name, axis): dyn.jit(lambda x, name=name, axis=axis: PROGRAMS[name](dnp, x, axis))
        for name in programs
        for axis in AXES.values()
    }
    for dtype in dtypes:
        for size in sizes:
            for data in DATA:
                row = array(data, size, dtype)
                wide = row.astype(np.longdouble)[None]
                both = np.stack([row, row])
                for name in programs:
                    exact = PROGRAMS[name](np, wide, 1)
                    largest = float(np.max(np.abs(exact)))
                    if data == "constant" and name in ("var", "layer norm"):  # 0, and what is left of the squares
                        largest = float(wide[0, 0]) ** 2 if name == "var" else 1.0
                    for axis, number in AXES.items():
                        x = both if number else np.ascontiguousarray(both.T)
                        truth = exact if number or exact.ndim == 1 else exact.T
                        with np.errstate(all="ignore"):
                            found = {"NumPy": PROGRAMS[name](np, x, number)}
                        if torch:
                            found["PyTorch"] = _of_torch(of_torch[name], x, number)
                        mine = compiled[name, number](x)
                        epsilon = float(np.finfo(dtype).eps)
                        errors = {who: _error(value, truth, largest, epsilon) for who, value in found.items()}
                        own = _error(mine, truth, largest, epsilon)
                        yield Entry(name, axis, dtype, data, size, own, errors)


def _of_torch(program: Program, x: Array, axis: int) -> Array:
    import torch

    return program(torch.from_numpy(x), axis).numpy()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", default="1000,30000,1000000,10000000", help="elements (default: %(default)s)")
    parser.add_argument("--dtypes", default="float32,float64", help="default: %(default)s")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="default: all of %(default)s")
    parser.add_argument("--all", action="store_true", help="a table of every array too")


def run(arguments: argparse.Namespace) -> Report:
    programs = arguments.programs.split(",")
    if unknown := set(programs) - set(PROGRAMS):
        raise ValueError(f"no programs are called {', '.join(sorted(unknown))}.")
    sizes = [int(size) for size in arguments.sizes.split(",")]
    found = list(entries(sizes, arguments.dtypes.split(","), programs))
    tables = [_worst(found, dtype) for dtype in arguments.dtypes.split(",")]
    missed = [entry for entry in found if not entry.is_met]
    if missed:
        tables.append(_each("More than twice the better one's, and than a unit", missed))
    if arguments.all:
        tables.append(_each("All", found))
    notes = (
        "errors in epsilons of the dtype, of the largest element of the exact result",
        f"{len(found) - len(missed)} of {len(found)} results are within twice the better one's error, or a unit",
    )
    data = {"entries": [vars(entry) for entry in found]}
    return Report("Accuracy of long sums", tuple(tables), notes, data)


def _worst(found: Sequence[Entry], dtype: str) -> Table:
    """The largest errors over all kinds of data and sizes."""
    rows: list[tuple[str, ...]] = []
    for key in dict.fromkeys((entry.program, entry.axis) for entry in found):
        own = [entry for entry in found if entry.dtype == dtype and (entry.program, entry.axis) == key]
        others = [max(entry.others[who] for entry in own) for who in own[0].others]
        met = sum(entry.is_met for entry in own)
        cells = [max(entry.dyn for entry in own), *others]
        rows.append((" of ".join(key), *map(_number, cells), f"{met} of {len(own)}"))
    return Table(f"Largest errors, {dtype}", ("program", "dyn", *found[0].others, "met"), tuple(rows))


def _each(title: str, found: Sequence[Entry]) -> Table:
    rows = [
        (
            f"{e.program} of {e.axis}, {e.dtype}, {e.data}, {e.size:.0e}",
            *map(_number, (e.dyn, *e.others.values())),
        )
        for e in found
    ]
    return Table(title, ("program", "dyn", *found[0].others), tuple(rows))


def _number(error: float) -> str:
    return f"{error:.2f}" if error < 100 else f"{error:.1e}"
