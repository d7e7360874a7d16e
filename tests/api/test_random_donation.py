"""Random programs with donated arguments give the bits that they give without, whoever takes whose memory.

Steps read their operands at the same places, at others, transposed, folded and contracted; results come in any order,
of a program, a loop or a choice. ``--hypothesis-profile=thorough`` runs many more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import hypothesis
import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn, tree

_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
COUNT = 1000 if _THOROUGH else 24
SIZES = [0, 1, 2, 3, 7, 33]

Step = Callable[[Any, Any, Any, Any], Any]
#: Functions of three values and of what is not donated: places on the first axis, and the rows of a gradient's factors.
SAME_PLACES: dict[str, Step] = {
    "add": lambda a, b, c, _: a + b,
    "multiply and add": lambda a, b, c, _: a * b + c,
    "scaled": lambda a, b, c, _: a - b * 2,
    "greater": lambda a, b, c, _: dnp.maximum(a, b),
    "chosen": lambda a, b, c, _: dnp.where(a > b, b, c),
}
OTHER_PLACES: dict[str, Step] = {
    "reversed": lambda a, b, c, _: a[::-1] + b,
    "rolled": lambda a, b, c, _: dnp.roll(a, 1, axis=0) + b,
    "looked up": lambda a, b, c, given: a[given[0]] + b,
    "updated": lambda a, b, c, given: a.at[given[0]].add(b[::-1]),
    "without sums": lambda a, b, c, _: a - dnp.sum(b, axis=-1, keepdims=True, dtype=b.dtype),
    "first row": lambda a, b, c, _: a + b[:1],
    "running": lambda a, b, c, _: dnp.cumulative_sum(a, axis=0, dtype=a.dtype),
}
SQUARE: dict[str, Step] = {"transposed": lambda a, b, c, _: a.T + b, "product": lambda a, b, c, _: a @ b + c}
FLOATS: dict[str, Step] = {"quotient": lambda a, b, c, _: a / (abs(b) + 1)}
ROWS: dict[str, Step] = {"softmax": lambda a, b, c, _: nn.softmax(a, axis=-1) + c}
MATRICES: dict[str, Step] = {"gradient": lambda a, b, c, given: c - (given[1].T @ given[2]) * 2}
WHOLE, LOOPS = "whole", ["whole", "whole", "fori_loop", "scan", "cond", "nested"]


@dataclass(frozen=True)
class Program:
    """A program over ``count`` arrays of one shape: steps, and which values are results."""

    count: int
    shape: tuple[str, ...]
    dtype: Any
    steps: tuple[tuple[str, tuple[int, int, int]], ...]
    results: tuple[int, ...]
    inside: str
    donated: tuple[int, ...]
    declared: bool

    @staticmethod
    def of(r: Random) -> Program:
        shape = r.choice([(), ("n",), ("n", "m"), ("n", "n")])
        dtype = r.choice([np.float32] * 4 + [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int8])
        floats = FLOATS if dtype in (np.float32, np.float64) else {}
        others = OTHER_PLACES | (ROWS if floats else {}) if shape else {}
        others = others | (SQUARE if shape == ("n", "n") else {}) | (MATRICES if len(shape) == 2 and floats else {})
        names = [*SAME_PLACES, *floats, *SAME_PLACES, *others]
        count = r.randint(2, 5)
        steps = [(r.choice(names), count + number) for number in range(r.randint(2, 8))]
        made = tuple([(name, (r.randrange(n), r.randrange(n), r.randrange(n))) for name, n in steps])
        results = tuple([r.randrange(count if r.random() < 0.9 else 0, count + len(made)) for _ in range(4)])
        donated = tuple([n for n in range(count) if r.random() < 0.8]) or (0,)
        return Program(count, shape, dtype, made, results, r.choice(LOOPS), donated, r.random() < 0.7)

    def step(self, values: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """The results of the steps: as many as there are arrays, where those are carried."""
        known = [*values]
        every = SAME_PLACES | OTHER_PLACES | SQUARE | FLOATS | ROWS | MATRICES
        for name, (a, b, c) in self.steps:
            known.append(every[name](known[a], known[b], known[c], given).astype(values[0].dtype))
        found = [known[number] for number in self.results]
        return tuple(found if self.inside == WHOLE else [*found, *values][: len(values)])

    def __call__(self, *arguments: Any) -> Any:
        values, given = arguments[: self.count], arguments[self.count :]

        def step(state: Any) -> tuple[Any, ...]:
            return self.step(state, given)

        def inner(_: Any, state: Any) -> tuple[Any, ...]:
            first, *rest = dyn.lax.fori_loop(0, 2, lambda _, s: (s[0], *step(s)[1:]), state)
            return step((*rest, first))

        match self.inside:
            case "fori_loop":
                return dyn.lax.fori_loop(0, 3, lambda _, state: step(state), values)
            case "scan":
                return dyn.lax.scan(lambda state, _: (step(state), state[0]), values, None, length=3)
            case "cond":
                return dyn.lax.cond(given[3] > 0, step, lambda state: tuple(state[::-1]), values)
            case "nested":
                return dyn.lax.fori_loop(0, 2, inner, values)
            case _:
                return step(values)

    def jitted(self, donated: tuple[int, ...]) -> Callable[..., Any]:
        rows, columns = (*self.shape, "1", "1")[:1], (*self.shape, "1", "1")[1:2]
        shapes = [*[" ".join(self.shape) or "()"] * self.count, rows[0], f"k {rows[0]}", f"k {columns[0]}", "()"]
        return dyn.jit(self, donate_argnums=donated, shapes=", ".join(shapes) if self.declared else None)

    def data(self, n: int, r: Random) -> list[Any]:
        rng, m, k = np.random.default_rng(r.randrange(1000)), r.choice([0, 1, 2, 5, 17, 64]), r.choice([0, 1, 3, 700])
        sizes = tuple([{"n": n, "m": m}[name] for name in self.shape])
        rows, columns = (*sizes, 1, 1)[:2]
        values = [np.asarray(rng.random(sizes) * 7 - 2).astype(self.dtype) for _ in range(self.count)]
        factors = [rng.random((k, size)).astype(self.dtype) for size in (rows, columns)]
        return [*values, rng.integers(0, max(rows, 1), rows), *factors, np.int32(r.randrange(2))]


@pytest.mark.parametrize("start", range(0, COUNT, 8))
def test_donation_changes_no_bit(start: int) -> None:
    for seed in range(start, start + 8):
        r = Random(seed)
        program = Program.of(r)
        plain, donating = program.jitted(()), program.jitted(program.donated)
        for n in SIZES:
            arrays = program.data(n, r)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                wanted = [np.array(x) for x in tree.leaves(plain(*[np.copy(a) for a in arrays]))]
                given = [np.copy(a) for a in arrays]
                found = tree.leaves(donating(*given))
            for number, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
                assert np.asarray(ours).tobytes() == theirs.tobytes(), f"seed {seed}, result {number} at {n}: {program}"
            for number in set(range(len(arrays))) - set(program.donated):
                assert given[number].tobytes() == arrays[number].tobytes(), f"seed {seed}: argument {number} changed"
