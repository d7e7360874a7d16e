"""``set(lengths)`` of JAX's sizes: elements are compared by answers, and are numbers where their order counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

Sizes = Sequence[Any]
#: Each is fewer than the programs that a warning is about.
CALLS = (((3, 3), (5, 5), (1, 1), (4, 4), (3, 5), (5, 3)), ((4, 3), (8, 4), (1, 4), (3, 3), (2, 8), (4, 4)))


@dataclass(frozen=True)
class Shape:
    """A key that has a size in it."""

    size: Any


def only(sizes: Sizes) -> Any:
    (size,) = set(sizes)
    return size


def added(n: Any, m: Any) -> int:
    made = set([n]).copy()  # noqa: C405  # a call is what is tested
    made.add(m)
    made.add(4)
    made.discard(3)
    made |= {8}
    made.remove(8)
    return len(made)


#: A number of two sizes, by a set.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "len": lambda n, m: len(set([n, m])),  # noqa: C405  # a call is what is tested
    "of a generator": lambda n, m: len(set(size + 1 for size in (n, m))),  # noqa: C401
    "of several": lambda n, m: len(set((n, m, 4, n + m))),  # noqa: C405
    "in": lambda n, m: (4 in set([n, m])) + 2 * (n in set([m, 3])) + 4 * (m in set([7, 9])),  # noqa: C405
    "==": lambda n, m: (set([n, m]) == {4}) + 2 * ({3, 5} == set([m, n])),  # noqa: C405
    "!=": lambda n, m: float(set([n]) != set([m])),  # noqa: C405
    "<=": lambda n, m: (set([n]) <= set([m, 4])) + 2 * (set([n, m]) > {3}),  # noqa: C405
    "|": lambda n, m: len(set([n]) | {m, 4}) + 10 * len({4} | set([n, m])),  # noqa: C405
    "&": lambda n, m: len(set([n, 4]) & {m, 4}) + 10 * len(set([n]).intersection([m], [3, m])),  # noqa: C405
    "-": lambda n, m: len(set([n, 4]) - {m}) + 3 * len({m, 5} - set([n, 4])) + 10 * len(set([n]).difference([m, 3])),  # noqa: C405
    "^": lambda n, m: len(set([n, 4]) ^ {m}) + 10 * len(set([n]).symmetric_difference([m, 3])),  # noqa: C405
    "union": lambda n, m: len(set([n]).union([m], [4])) + 10 * len({3, 4}.union(set([n, m]))),  # noqa: C405
    "subsets": lambda n, m: set([n]).issubset([m, 3]) + 2 * set([n, m]).issuperset([4]),  # noqa: C405
    "isdisjoint": lambda n, m: float(set([n]).isdisjoint([m, 3])),  # noqa: C405
    "order": lambda n, m: sum(size * 10**at for at, size in enumerate(set([n, m, 4]))),  # noqa: C405
    "pop": lambda n, m: set([n, m]).pop(),  # noqa: C405
    "sorted": lambda n, m: sorted(set([n, m]))[0],  # noqa: C405
    "the only one": lambda n, m: only([n, n]) + m,
    "isinstance": lambda n, m: float(isinstance(set([n, m]), set)),  # noqa: C405
    "a frozen one": lambda n, m: len(frozenset(set([n, m]))),  # noqa: C405
    "add": added,
    "shapes": lambda n, m: len(set([(n, 2), (m, 2), (4, 2)])) + 10 * ((4, 2) in set([(n, 2)])),  # noqa: C405
    "shapes by order": lambda n, m: float(next(iter(set([(n, 1), (m, 1)])))[0]),  # noqa: C405
    "sizes and shapes": lambda n, m: len(set([n, (m,), m, (4,), (n,), 4, None])),  # noqa: C405
    "keys with sizes": lambda n, m: len(set([Shape(n), Shape(m), Shape(4)])),  # noqa: C405
}


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("name", USES)
def test_sets_are_as_those_of_numbers(name: str, calls: Sequence[tuple[int, int]], quick_xla: None) -> None:
    def function(x: Any, y: Any) -> Any:
        return x.sum() * USES[name](x.shape[0], y.shape[0])

    run, plain = djax.jit(function), jax.jit(function)
    for n, m in calls:
        x, y = np.full(n, 2, np.float32), np.ones(m, np.float32)
        assert float(run(x, y)) == float(plain(x, y)), (n, m)


def test_lengths_that_agree_are_one_program() -> None:
    """As in flax's ``scan``."""

    def scanned(x: Any, y: Any) -> Any:
        lengths = set(jax.tree.leaves([leaf.shape[0] for leaf in (x, y)]))
        if len(lengths) > 1:
            raise ValueError(f"Inconsistent lengths: {lengths}")
        (length,) = lengths
        return jax.lax.scan(lambda carry, given: (carry + given[0], carry * given[1]), 0.0, (x, y), length=length)

    run = djax.jit(scanned)
    for n in (3, 1, 8, 5):
        x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        for mine, own in zip(run(x, y), scanned(jnp.asarray(x), jnp.asarray(y)), strict=True):
            np.testing.assert_allclose(mine, own, 1e-6)
    assert run.cache_info()[:2] == (1, 3)
    with pytest.raises(ValueError) as raised:
        run(np.ones(3, np.float32), np.ones(4, np.float32))
    assert str(raised.value) == "Inconsistent lengths: {3, 4}"
    assert "set" not in globals()


def test_what_has_no_hash_is_no_element() -> None:
    run = djax.jit(lambda x: x * len(set([x.shape[0], []])))  # noqa: C405
    with pytest.raises(TypeError) as raised:
        run(np.ones(3, np.float32))
    assert str(raised.value) == "unhashable type: 'list'"
