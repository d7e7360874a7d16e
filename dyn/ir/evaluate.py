"""Running ops one by one with their NumPy references, and the regions that they have.

To an op's reference its regions are functions: ``reference(*arrays, regions=(f, …), **attrs)``, where ``f(*arrays)``
gives a tuple of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from dyn.frozen import record
from dyn.ir.core import Op, Region, Value, attr_values
from dyn.ir.data_dependent import bound_dim, size_demand
from dyn.ir.differentiate import leading_to
from dyn.ir.opdef import OpDef, OpKind, Sample
from dyn.shapes import Relation, Symbol, evaluate

Array = np.ndarray[Any, Any]


@record(eq=False)
class RegionFunction:
    """A region as NumPy code: arrays for its parameters to a tuple of arrays, its results.

    A region of elementwise ops on scalars may be called with arrays of one shape instead: it then computes for all of
    their elements at once. Raises ShapeError where the sizes are not what the region demands.
    """

    region: Region
    #: The values from outside that it reads.
    captured: Mapping[Value, Array]
    env: Mapping[Symbol, int]
    #: What is checked once the dims are known that the region measures.
    relations: Sequence[Relation] = ()
    #: The region as a function that somebody else has written, in place of its ops one by one.
    body: Callable[..., tuple[Array, ...]] | None = None

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        region = self.region
        self.check()
        if self.body is not None:
            return self.body(*map(np.asarray, arrays))
        shapes = [tuple(evaluate(d, self.env) for d in param.shape) for param in region.params]
        exact = [np.shape(a) for a in arrays] == shapes
        values = {**self.captured, **dict(zip(region.params, map(np.asarray, arrays), strict=True))}
        late = [r for r in region.demands if not r.symbols() <= self.env.keys()]
        run_ops(region.ops, values, self.env, region.results, exact=exact, relations=(*self.relations, *late))
        return tuple(values[v] for v in region.results)

    def check(self) -> None:
        """Raise the ShapeError of a demand that does not hold, of those about dims that are known before it runs."""
        check_relations(self.region.demands, self.env)

    def no_rows(self, first: int) -> tuple[Array, ...]:
        """Results of a loop over no steps, from number ``first`` on: arrays without rows."""
        results = self.region.results[first:]
        return tuple(np.zeros((0, *(evaluate(d, self.env) for d in v.shape)), v.dtype.np) for v in results)


def run_ops(
    ops: Sequence[Op],
    values: MutableMapping[Value, Array],
    env: Mapping[Symbol, int],
    kept: Iterable[Value],
    *,
    exact: bool = True,
    relations: Sequence[Relation] = (),
) -> Mapping[Symbol, int]:
    """Compute the ops in order, and give all sizes that are known then.

    ``values`` has what the ops read, gets what they make, and loses what is not ``kept``.

    Ops that nothing that is kept comes of are left out, as compiled code leaves them out: a loop that nobody reads does
    not run, and so asks for nothing.

    With ``exact`` every result has to have the shape that its type says. Of the ``relations`` those that are about a
    dim that the ops measure are checked then; ShapeError where one does not hold.
    """
    needed = set(kept)
    ops = leading_to(ops, needed)
    last = {value: op for op in ops for value in op.reads()}
    for op in ops:
        regions = tuple([region_function(region, values, env, relations) for region in op.regions])
        results, env = run_op(op, [values[v] for v in op.operands], env, regions, exact=exact, relations=relations)
        values.update(zip(op.results, results, strict=True))
        for value in op.reads():
            if last[value] is op and value not in needed:
                values.pop(value, None)
    return env


def run_op(
    op: Op,
    operands: Sequence[Array],
    env: Mapping[Symbol, int],
    regions: Sequence[RegionFunction],
    *,
    exact: bool = True,
    relations: Sequence[Relation] = (),
) -> tuple[tuple[Array, ...], Mapping[Symbol, int]]:
    """Results of an op's reference, and the sizes that are known after it: those before, and that which it measures.

    ``exact`` and ``relations`` are those of :func:`run_ops`.
    """
    bound = bound_dim(op)
    if not exact and op.opdef.kind is OpKind.VIEW:  # of a scalar: the same
        found: Any = operands[0]
    else:
        attrs = attr_values(op.attrs, env) if bound is None else dict(op.attrs)
        found = op.opdef.reference(*operands, **attrs, **({"regions": tuple(regions)} if op.regions else {}))
    if bound is not None:
        env = {**env, bound: int(np.asarray(found))}
        check_relations((size_demand(op), *relations), env, bound)
    arrays = tuple([np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))])
    for result, array in zip(op.results, arrays, strict=True):
        expected = tuple(evaluate(d, env) for d in result.shape) if exact else array.shape
        if array.shape != expected or array.dtype != result.dtype.np:
            raise AssertionError(f"{op!r} gave {array.dtype}{array.shape}, not {result.dtype}{expected}")
    return arrays, env


def check_relations(relations: Iterable[Relation], env: Mapping[Symbol, int], bound: Symbol | None = None) -> None:
    """ShapeError for the first relation between dims of ``env`` that does not hold; only those about ``bound``."""
    for relation in relations:
        symbols = relation.symbols()
        if symbols <= env.keys() and (bound is None or bound in symbols) and not relation.holds(env):
            raise relation.error(relation.failure(env), loc=relation.reason.loc)


def region_function(
    region: Region, outer: Mapping[Value, Array], env: Mapping[Symbol, int], relations: Sequence[Relation] = ()
) -> RegionFunction:
    """A region as a function; ``outer`` has the values from outside that it reads."""
    return RegionFunction(region, {value: outer[value] for value in region.reads()}, env, relations)


def run_sample(opdef: OpDef, sample: Sample) -> tuple[Array, ...]:
    """Results of an op's reference for a sample of it, in a tuple."""
    attrs = dict(sample.attrs)
    if sample.regions:
        attrs["regions"] = tuple(region_function(region, {}, {}) for region in sample.regions)
    found = opdef.reference(*sample.operands, **attrs)
    return tuple(np.asarray(array) for array in (found if isinstance(found, tuple) else (found,)))
