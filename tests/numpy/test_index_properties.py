"""Reading and writing by random indices, against NumPy: one compile for all sizes of the symbolic axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyn.errors import ShapeError
from dyn.numpy._indexing.getitem import scatter_update
from tests.canary import compile_traced, run_compiled
from tests.numpy.differential import assignments, compiled_form, draw, parse_spec, run, trace

Array = np.ndarray[Any, Any]
_COMBINES = {
    "replace": None, "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
#: Sizes that a symbolic axis is given; numbers and index arrays stay inside of all that are not 0.
_SIZES = (0, 1, 2, 5)


class Drawn:
    """An index: its items, index arrays standing as the numbers of parameters."""

    def __init__(self, items: tuple[Any, ...], specs: tuple[str, ...], axes: dict[int, int]) -> None:
        self.items = items
        self.specs = specs
        #: Which axis each parameter indexes.
        self.axes = axes

    def __repr__(self) -> str:
        return f"{self.specs[0]}[{self.items}] of {self.specs}"

    def index(self, arrays: tuple[Any, ...]) -> Any:
        return tuple(arrays[i.number] if isinstance(i, Given) else i for i in self.items)


class Given:
    """An item that is an array argument."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"array {self.number}"


def _slices() -> st.SearchStrategy[slice]:
    bounds = st.one_of(st.none(), st.integers(-6, 6))
    return st.builds(slice, bounds, bounds, st.sampled_from([None, None, 1, 2, 3, -1, -2]))


@st.composite
def drawn(pick: Callable[[st.SearchStrategy[Any]], Any]) -> Drawn:
    """An array of up to three axes, symbolic or static, and an index of it with any mixture of items."""
    names = [pick(st.sampled_from(["n", "n", "m", "3", "4"])) for _ in range(pick(st.integers(1, 3)))]
    specs = [f"int64 {' '.join(names)}"]
    items: list[Any] = []
    axes: dict[int, int] = {}
    batch = pick(st.sampled_from([(), ("k",), ("k", "2"), ("2",)]))
    used = pick(st.integers(0, len(names)))
    dots = pick(st.one_of(st.none(), st.integers(0, used)))
    for axis in range(used):
        if dots == axis:
            items.append(Ellipsis)
        real = axis if dots is None or axis < dots else axis + len(names) - used
        kind = pick(st.sampled_from(["slice", "slice", "number", "array", "array"]))
        if kind == "slice":
            items.append(pick(_slices()))
        elif kind == "number" and names[real].isdigit():
            items.append(pick(st.integers(-3, 2)))
        elif kind == "number":
            items.append(pick(st.sampled_from([0, -1])))
        else:
            axes[len(specs)] = real
            items.append(Given(len(specs)))
            own = batch[pick(st.integers(0, len(batch))) :]
            sizes = ["1" if d.isdigit() and pick(st.booleans()) else d for d in own]
            specs.append(" ".join(["int64", *sizes]))
        if pick(st.integers(0, 4)) == 0:
            items.append(None)
    return Drawn(tuple(items), tuple(specs), axes)


def _arguments(case: Drawn, env: dict[str, int]) -> list[Array]:
    """An array and index arrays that stay inside of it, also counted from the end."""
    whole = draw(case.specs[0], env, 0)
    arrays = [whole]
    for number, spec in enumerate(case.specs[1:], 1):
        _, shape = parse_spec(spec)
        sizes = tuple(d if isinstance(d, int) else env[d] for d in shape)
        size = max(whole.shape[case.axes[number]], 1)
        arrays.append(np.random.default_rng(number).integers(-size, size, sizes))
    return arrays


_SETTINGS = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@_SETTINGS
@given(drawn())
def test_reading(case: Drawn) -> None:
    try:
        traced = trace(lambda xp, *arrays: arrays[0][case.index(arrays)], *case.specs)
    except ShapeError:
        return  # a number that is outside of a static axis
    forms = (run, *compiled_form(traced))
    for env in assignments(case.specs, _SIZES):
        arrays = _arguments(case, env)
        try:
            wanted = arrays[0][case.index(tuple(arrays))]
        except IndexError:
            if np.broadcast_shapes(*[a.shape for a in arrays[1:]]).count(0):
                continue  # of no places at all NumPy looks at those that were given, and may not like them
            for form in forms:
                with pytest.raises(ShapeError):
                    form(traced, arrays)
            continue
        for form in forms:
            (actual,) = form(traced, arrays)
            np.testing.assert_array_equal(actual, wanted, err_msg=f"{case} at {env}", strict=True)


@_SETTINGS
@given(drawn(), st.sampled_from(sorted(_COMBINES)))
def test_writing(case: Drawn, combine: str) -> None:
    def program(xp: Any, *arrays: Any) -> Any:
        index = case.index(arrays)
        # Different numbers, so that it shows which of several updates for one place was the last.
        taken = arrays[0][index]
        updates = xp.arange(taken.size).reshape(taken.shape) - 3
        return scatter_update(arrays[0], index, updates, combine), scatter_update(arrays[0], index, 2.0, combine)

    try:
        traced = trace(program, *case.specs)
    except ShapeError:
        return
    compiled = compile_traced(traced, [np.asarray(a) for a in traced.captured])
    for env in assignments(case.specs, _SIZES):
        arrays = _arguments(case, env)
        index = case.index(tuple(arrays))
        try:
            taken = arrays[0][index]
        except IndexError:
            continue
        wanted: list[Array] = []
        for updates in (np.arange(taken.size).reshape(taken.shape) - 3, np.int64(2)):
            result, ufunc = arrays[0].copy(), _COMBINES[combine]
            if ufunc is not None:
                ufunc.at(result, index, updates)
            else:
                result[index] = updates
            wanted.append(result)
        for actual in (run(traced, arrays), run_compiled(compiled, arrays)):
            for a, w in zip(actual, wanted, strict=True):
                np.testing.assert_array_equal(a, w, err_msg=f"{case} {combine} at {env}", strict=True)
