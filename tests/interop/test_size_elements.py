"""Arithmetic of the elements of tensors of sizes against Python's integers."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dyn import dtypes, shapes
from dyn.interop.sizes import elements
from dyn.interop.sizes.conditions import Comparison, Condition, Junction
from dyn.interop.sizes.elements import SizeQuery, UnknownError, each_element, reduce_elements
from dyn.interop.sizes.values import vector
from dyn.shapes import Facts, SymExpr, evaluate, symbol


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPARISONS: dict[elements.Symbol, Callable[..., Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
#: Functions of elements, and what they are of integers.
BINARY: dict[str, tuple[elements.ElementFunction, Callable[..., Any]]] = {
    "add": (elements.add, lambda a, b: a + b),
    "subtract": (elements.subtract, lambda a, b: a - b),
    "multiply": (elements.multiply, lambda a, b: a * b),
    "maximum": (elements.maximum, max),
    "minimum": (elements.minimum, min),
    "divide": (elements.divide, truncated),
    "remainder": (elements.remainder, lambda a, b: a - b * truncated(a, b)),
    "floor_divide": (elements.floor_divide, lambda a, b: a // b),
    "ceil_divide": (elements.ceil_divide, lambda a, b: -(-a // b)),
    "floor_remainder": (elements.floor_remainder, lambda a, b: a % b),
    **{symbol: (elements.comparing(symbol), compare) for symbol, compare in COMPARISONS.items()},
}  # fmt: skip
UNARY: dict[str, tuple[elements.ElementFunction, Callable[[Any], Any]]] = {
    "negate": (elements.negate, lambda a: -a),
    "absolute": (elements.absolute, abs),
    "sign": (elements.sign, lambda a: (a > 0) - (a < 0)),
}


def value(element: Any, sizes: dict[shapes.Symbol, int]) -> Any:
    """The number or truth value that an element is at these sizes."""
    if isinstance(element, Condition):
        return element.holds(sizes)
    if isinstance(element, elements.Rounded):
        dividend, divisor = evaluate(element.of.dividend, sizes), evaluate(element.of.divisor, sizes)
        quotient = truncated(dividend, divisor)
        return (dividend - divisor * quotient if element.rest else quotient) + evaluate(element.more, sizes)
    if isinstance(element, elements.Sign):
        return int(np.sign(evaluate(element.of, sizes)))
    return evaluate(element, sizes)


@pytest.mark.parametrize("seed", range(8))
def test_elements_are_what_integers_are_at_every_size(seed: int) -> None:
    rng = random.Random(seed)
    n, m = symbol("n"), symbol("m")
    a = SizeQuery(Facts.none(), dtypes.int64)
    assignments = [{n: x, m: y} for x in (0, 1, 2, 9, 40) for y in (0, 1, 3, 9)]
    pool: list[tuple[Any, list[Any]]] = [
        (shapes.as_dim(one), [sizes[one] for sizes in assignments]) for one in (n, m)
    ] + [(number, [number] * len(assignments)) for number in (-3, 0, 1, 2, 8)]
    known = 0
    for _ in range(300):
        left, right = rng.choice(pool), rng.choice(pool)
        if rng.random() < 0.2:
            function, reference = UNARY[rng.choice(sorted(UNARY))]
            operands = [left]
        else:
            function, reference = BINARY[rng.choice(sorted(BINARY))]
            operands = [left, right]
        try:
            made = function(a, *[element for element, _ in operands])
        except UnknownError:
            continue
        known += 1
        wanted = [reference(*numbers) for numbers in zip(*[numbers for _, numbers in operands], strict=True)]
        assert [value(made, sizes) for sizes in assignments] == wanted
        if isinstance(made, int | SymExpr) and not isinstance(made, bool) and max(map(abs, wanted)) < 10**6:
            pool.append((made, wanted))
    assert known > 100


def test_a_division_is_known_where_the_divisor_is_at_least_1() -> None:
    n = shapes.as_dim(symbol("n"))
    a = SizeQuery(Facts.none(), dtypes.int64)
    for function in (elements.divide, elements.remainder, elements.floor_divide, elements.floor_remainder):
        with pytest.raises(UnknownError):
            function(a, 8, n)
        with pytest.raises(UnknownError):
            function(a, 8, 0)
        assert isinstance(function(a, 8, n + 1), SymExpr)


def test_choices_are_dims_where_they_broadcast_or_are_extremes() -> None:
    n, m = (shapes.as_dim(symbol(name)) for name in "nm")
    facts = Facts.none().assume(shapes.Relation(shapes.RelKind.BROADCASTS, n, m, shapes.Reason("they are added")))
    a = SizeQuery(facts, dtypes.int64)
    one = elements.comparing("==")(a, n, 1)
    assert isinstance(one, Comparison)
    assert elements.select(a, one, m, n) is shapes.broadcast(m, n)
    greater = elements.comparing(">=")(a, n, m)
    assert elements.select(a, greater, n, m) is shapes.dim_max(n, m)
    assert elements.select(a, greater, m, n) is shapes.dim_min(n, m)
    with pytest.raises(UnknownError):
        elements.select(a, greater, n, 7)


def test_arrays_of_elements() -> None:
    n = shapes.as_dim(symbol("n"))
    a = SizeQuery(Facts.none(), dtypes.int64)
    x = np.stack([vector([n, 2]), vector([3, 4])])
    assert each_element(a, elements.add, x, np.array(1)).tolist() == [[n + 1, 3], [4, 5]]
    assert reduce_elements(a, elements.multiply, x, (1,), 1).tolist() == [2 * n, 12]
    assert reduce_elements(a, elements.add, x, (0, 1), 0)[()] == n + 9
    assert reduce_elements(a, elements.add, x[:, :0], (1,), 5).tolist() == [5, 5]
    assert reduce_elements(a, elements.add, x[:0], (1,), 5).tolist() == []
    assert reduce_elements(a, elements.add, x[:0], (0, 1), 5)[()] == 5
    both = reduce_elements(a, elements.both, each_element(a, elements.comparing(">"), x, np.array(1)), (0, 1), True)
    assert isinstance(both[()], Comparison | Junction)
