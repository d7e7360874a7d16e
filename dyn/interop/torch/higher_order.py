"""PyTorch's operations of functions, ``torch.cond`` and its kin, as branches and loops of the program.

A branch, or the body of a loop, is a region (:mod:`dyn.trace.control`) that the function is run in. It may read what is
around it as any code does, and write to it where no gradients are asked for; random numbers that it draws are others at
each step. Derivatives are PyTorch's own: a branch, or a step, is run once more with autograd recording, in a region of
the second half, and its cotangents are pulled through what it leaves.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch._C._functorch import TransformType
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

import dyn.numpy as dnp
from dyn.errors import NotYetError, TraceError
from dyn.interop.torch.composites import chosen, current_tracing
from dyn.interop.torch.converters import HIGHER_ORDER
from dyn.interop.torch.region_gradients import (
    Recorded,
    attached,
    is_differentiable,
    refuse_writes,
    with_gradients,
    with_others,
    zeros_like,
)  # fmt: skip
from dyn.interop.torch.regions import Needs, RegionLeaf, here, in_region, left_by, value_of, write_back, written_out
from dyn.interop.torch.scopes import RegionScope
from dyn.interop.torch.sizes import as_dyn
from dyn.interop.torch.tensors import inverse, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.branch_sizes import Unequal
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

Function = Callable[..., Any]


def higher_order(operation: Any) -> Callable[[Function], Function]:
    """Register a function of the trace and of an operation's arguments, in the place of the operation.

    It is called above autograd, whose part it takes, and below, where autograd is not there.
    """

    def register(function: Function) -> Function:
        HIGHER_ORDER[operation] = function
        key = torch._C.DispatchKey.Autograd
        operation.py_kernels[key] = chosen(
            lambda *args, **kwargs: function(current_tracing(), *args, **kwargs), operation.py_kernels[key]
        )
        operation._dispatch_cache.clear()
        return function

    return register


# ---- branches -------------------------------------------------------------------------------------------------------


@higher_order(cond_op)
def cond(
    tracing: TorchTracing, pred: Any, true_fn: Function, false_fn: Function, operands: Sequence[Any],
    unequal: Unequal = Unequal.DEMANDED,
) -> Any:  # fmt: skip
    if isinstance(pred, torch.SymBool) and cast(Any, pred.node).can_be_decided():
        pred = bool(pred)
    if not isinstance(pred, torch.Tensor | torch.SymBool):
        return (true_fn if pred else false_fn)(*operands)
    flag, drawn, has_gradients = _truth(tracing, pred), tracing.keys.position, torch.is_grad_enabled()

    def choose(branch: Callable[[Function], Sequence[Tracer]]) -> list[Tracer]:
        ways = [functools.partial(branch, function) for function in (true_fn, false_fn)]
        return control.switch(here(), flag, ways, (), "cond", unequal)

    def write(needs: Needs) -> Any:
        ends: list[tuple[TreeSpec, list[RegionLeaf]]] = []
        read: dict[int, Any] = {}

        def branch(function: Function) -> list[Tracer]:
            with in_region(tracing, needs, left_by(needs)) as scope:
                leaves, tree = tree_flatten(function(*operands))
                ends.append((tree, [RegionLeaf.of(tracing, leaf, "a branch of cond") for leaf in leaves]))
                made = [value_of(tracing, leaf) for leaf in leaves if leaf is not None] + left_by(needs)
            read.update(scope.read)
            return made

        values = iter(choose(branch))
        (tree, own), (other, its) = ends
        if tree != other:
            raise TraceError(f"a branch of cond gives {tree}, and the other one {other}.", loc=user_loc())
        inputs = with_gradients(operands, list(read.values())) if has_gradients else {}
        if inputs:
            refuse_writes(needs, "a cond")
        leaves = [a.beside(b, "cond") for a, b in zip(own, its, strict=True)]
        results = [leaf.made(tracing, None if leaf.kind is type(None) else next(values)) for leaf in leaves]
        write_back(tracing, needs, list(values))
        return results, tree, inputs

    results, tree, inputs = written_out(tracing, write)
    recorded = Recorded(tracing, drawn)

    def pull(cotangents: Sequence[Any]) -> Mapping[int, Tracer]:
        def branch(function: Function) -> list[Tracer]:
            aliases = {key: recorded.alias(one) for key, one in inputs.items()}
            own = with_others(operands, aliases)
            return recorded.pulled(lambda: function(*own), list(aliases.values()), aliases, cotangents)

        return dict(zip(inputs, choose(branch), strict=True))

    return tree_unflatten(attached(tracing, results, pull, inputs), tree)


def _cond_of_a_batch(
    interpreter: Any, pred: Any, true_fn: Function, false_fn: Function, operands: Sequence[Any]
) -> Any:  # fmt: skip
    """A choice for each example of a batch (``torch.vmap``): both branches, and one of each two elements."""
    condition = pred if isinstance(pred, torch.Tensor) else torch.scalar_tensor(pred, dtype=torch.bool)
    ways = [function(*operands) for function in (true_fn, false_fn)]
    return tree_map(lambda a, b: None if a is None else torch.where(condition.reshape(()) != 0, a, b), *ways)


def _truth(tracing: TorchTracing, condition: Any) -> Tracer:
    """A condition, of any form that PyTorch has, as a scalar."""
    if isinstance(condition, torch.SymBool):
        return dnp.asarray(cast(Any, condition.node).scalar())
    if isinstance(condition, torch.Tensor):
        return dnp.reshape(value_of(tracing, condition), ()) != 0
    return dnp.asarray(bool(condition))


# ---- loops ----------------------------------------------------------------------------------------------------------


@higher_order(while_loop_op)
def while_loop(
    tracing: TorchTracing, cond_fn: Function, body_fn: Function, carried: Sequence[Any], additional: Sequence[Any],
    mutated_arg_indices: str = "",
) -> Any:  # fmt: skip
    starts = [RegionLeaf.of(tracing, one, "while_loop").varying() for one in carried]
    count, has_gradients = len(starts), torch.is_grad_enabled()

    def write(needs: Needs) -> Any:
        ends: list[list[RegionLeaf]] = []
        trees: list[TreeSpec] = []
        read: dict[int, Any] = {}

        def given(state: Sequence[Tracer]) -> list[Any]:
            return [leaf.made(tracing, value) for leaf, value in zip(starts, state, strict=False)]

        def region(state: Sequence[Tracer]) -> contextlib.AbstractContextManager[RegionScope]:
            memory = state[count : count + len(needs.written)]
            return in_region(tracing, needs, memory, state[-1] if needs.steps else None, is_loop=True)

        def condition(state: Sequence[Tracer]) -> Tracer:
            with region(state) as scope:
                before = [storage.version for storage in needs.written]
                made = _truth(tracing, cond_fn(*given(state), *additional))
                if set(scope.written) - set(needs.written) or before != [one.version for one in needs.written]:
                    raise NotYetError(
                        "the condition of while_loop writes to a tensor from outside.", loc=user_loc(),
                        remedy="write in the body.",
                    )  # fmt: skip
            read.update(scope.read)
            return made

        def body(state: Sequence[Tracer]) -> list[Tracer]:
            with region(state) as scope:
                leaves, tree = tree_flatten(body_fn(*given(state), *additional))
                trees.append(tree)
                ends.append([RegionLeaf.of(tracing, leaf, "the body of while_loop") for leaf in leaves])
                made = [value_of(tracing, leaf) for leaf in leaves] + left_by(needs)
            read.update(scope.read)
            return [*made, dnp.add(state[-1], 1)] if needs.steps else made

        start = [value_of(tracing, one) for one in carried] + left_by(needs)
        start += [dnp.zeros((), dtype="int64")] if needs.steps else []
        made = control.while_loop(here(), condition, body, start)
        if has_gradients and with_gradients(carried, additional, list(read.values())):
            raise NotYetError(
                "gradients through while_loop, whose steps are not counted before it runs.",
                loc=user_loc(),
                remedy="use torch._higher_order_ops.scan, or call it under torch.no_grad().",
            )
        leaves = [a.beside(b, "while_loop") for a, b in zip(starts, ends[-1], strict=True)]
        results = [leaf.made(tracing, value) for leaf, value in zip(leaves, made, strict=False)]
        write_back(tracing, needs, made[count : count + len(needs.written)])
        return tree_unflatten(results, trees[-1])

    return written_out(tracing, write)


@higher_order(scan_op)
def scan(tracing: TorchTracing, combine_fn: Function, init: Any, xs: Any, additional_inputs: Sequence[Any] = ()) -> Any:
    return tuple(_Scan(tracing, combine_fn, init, xs, additional_inputs, "scan").results())


def _scan_of_trees(run: Function, combine_fn: Function, init: Sequence[Any], xs: Sequence[Any]) -> tuple[Any, Any]:
    """A scan whose ``combine_fn(*init, *xs)`` gives a pair of trees, as a pair of trees."""
    trees: list[tuple[TreeSpec, TreeSpec]] = []

    def combine(*given: Any) -> list[Any]:
        carry, row = combine_fn(*given)
        (carried, tree), (stacked, row_tree) = tree_flatten(carry), tree_flatten(row)
        trees.append((tree, row_tree))
        return [*carried, *stacked]

    made = scan_op(combine, list(init), list(xs), ())
    tree, row_tree = trees[-1]
    return tree_unflatten(made[: len(init)], tree), tree_unflatten(made[len(init) :], row_tree)


@higher_order(map_impl)
def map_over(
    tracing: TorchTracing, function: Function, xs: Any, pos_args: Sequence[Any], mutated_arg_indices: str = ""
) -> Any:  # fmt: skip
    if mutated_arg_indices:
        raise NotYetError(
            "a map over slices whose function writes to its arguments has no converter.",
            loc=user_loc(),
            remedy="return the new values.",
        )
    trees: list[TreeSpec] = []

    def combine(*given: Any) -> list[Any]:
        leaves, tree = tree_flatten(function(*given))
        trees.append(tree)
        return leaves

    return tree_unflatten(_Scan(tracing, combine, (), xs, pos_args, "map").results(), trees[0])


def associative_scan(
    operator: Function, leaves: Sequence[Any], dim: int = 0, additional_inputs: Sequence[Any] = ()
) -> list[Any]:  # fmt: skip
    """Each slice of ``leaves`` along their first axis combined with all before it, one after the other.

    ``operator(*a, *b, *more)`` takes and gives slices whose first axis has one element.
    """
    assert dim == 0, "PyTorch has moved the axis there"

    count = len(leaves)

    def combine(*given: Any) -> list[Any]:
        before, after, more = given[:count], given[count : 2 * count], given[2 * count :]
        made = tree_leaves(operator(*before, *[one[None] for one in after], *more))
        return [*made, *[one[0] for one in made]]

    first, rest = [one[:1] for one in leaves], [one[1:] for one in leaves]
    made = _Scan(current_tracing(), combine, first, rest, additional_inputs, "associative_scan").results()
    return [torch.cat([one, later]) for one, later in zip(first, made[count:], strict=True)]


class _Scan:
    """A loop over rows: ``function(*state, *rows, *more)`` gives the next state, and what is stacked."""

    def __init__(
        self, tracing: TorchTracing, function: Function, init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any],
        what: str,
    ) -> None:  # fmt: skip
        self.tracing, self.function, self.what = tracing, function, what
        self.init, self.xs, self.more = tuple(init), tuple(xs), tuple(more)
        self.starts = [RegionLeaf.of(tracing, one, what) for one in init]
        self.count = len(self.starts)
        self.has_gradients = torch.is_grad_enabled()
        self.recorded = Recorded(tracing, tracing.keys.position)
        #: The tensors that get gradients: all of them, and those that each step is given as they are.
        self.inputs: dict[int, Any] = {}
        self.shared: dict[int, Any] = {}
        #: The states that the steps started from, and the numbers of the steps, where the derivative needs them.
        self.states: list[Tracer] = []
        self.numbers: list[Tracer] = []

    def results(self) -> list[Any]:
        """The last state, and what is stacked."""
        return attached(self.tracing, written_out(self.tracing, self._write), self._pull, self.inputs)

    def _rows(self, values: Sequence[Tracer]) -> list[Any]:
        made = zip(values, self.xs, strict=False)
        return [self.tracing.maker.fresh(value, x.dtype, x.device) for value, x in made]

    def _carried(self, values: Sequence[Tracer]) -> list[Any]:
        return [leaf.made(self.tracing, value) for leaf, value in zip(self.starts, values, strict=False)]

    def _values(self, tensors: Sequence[Any]) -> list[Tracer]:
        return [value_of(self.tracing, one) for one in tensors]

    def _write(self, needs: Needs) -> list[Any]:
        tracing, count = self.tracing, self.count
        ends: list[list[RegionLeaf]] = []
        read: dict[int, Any] = {}

        def step(state: Sequence[Tracer], row: Sequence[Tracer]) -> Any:
            with in_region(tracing, needs, state[count:], row[-1] if needs.steps else None, is_loop=True) as scope:
                made = self.function(*self._carried(state), *self._rows(row), *self.more)
                leaves = tree_leaves(made, is_leaf=lambda one: one is None)
                ends.append([RegionLeaf.of(tracing, leaf, f"the body of {self.what}") for leaf in leaves])
                values = [None if leaf is None else value_of(tracing, leaf) for leaf in leaves]
                carried = [*values[:count], *left_by(needs)]
            read.update(scope.read)
            self.shared = with_gradients(self.more, list(read.values())) if self.has_gradients else {}
            self.inputs = {**with_gradients(self.init, self.xs), **self.shared} if self.has_gradients else {}
            if self.inputs and not needs.states:
                needs.again(states=True)
            stacked = [one for one in values[count:] if one is not None]
            return carried, [*stacked, *state[:count]] if needs.states else stacked

        self.numbers = []
        if needs.steps:
            self.numbers = [dnp.arange(as_dyn(tracing.trace, self.xs[0].shape[0]), dtype="int64")]
        start, over = [*self._values(self.init), *left_by(needs)], [*self._values(self.xs), *self.numbers]
        last, stacked = control.scan(here(), step, start, over, None, False, self.what)
        if self.inputs:
            refuse_writes(needs, f"a {self.what}")
        own, rows = ends[-1], iter(stacked)
        both = zip(self.starts, own, last, strict=False)
        results = [a.beside(b, self.what).made(tracing, value) for a, b, value in both]
        for leaf in own[count:]:
            results.append(leaf.in_rows().made(tracing, None if leaf.kind is type(None) else next(rows)))
        self.states = list(rows)
        write_back(tracing, needs, last[count:])
        return results

    def _pull(self, cotangents: Sequence[Any]) -> Mapping[int, Tracer]:
        """Cotangents of the inputs: the steps backwards, each run once more."""
        tracing, recorded = self.tracing, self.recorded
        states = [number for number, one in enumerate(self.init) if is_differentiable(one)]
        rows = [number for number, one in enumerate(self.xs) if one.requires_grad]
        n, m = len(states), len(states) + len(rows)
        of_last, of_rows = cotangents[:n], cotangents[n:]

        def tensors(values: Iterable[Tracer], like: Sequence[Any]) -> list[Any]:
            return [tracing.maker.fresh(value, one.dtype, one.device) for value, one in zip(values, like, strict=False)]

        def step(after: Sequence[Tracer], row: Sequence[Tracer]) -> Any:
            state = self._carried(row)
            row = row[self.count :]
            own = self._rows(row)
            row = row[len(own) :]
            given = [*tensors(after, of_last), *tensors(row, of_rows)]
            aliases = {key: recorded.alias(one) for key, one in self.shared.items()}
            more = with_others(self.more, aliases)
            leaves = [*[state[i] for i in states], *[own[i] for i in rows], *aliases.values()]
            for leaf in leaves:
                leaf.requires_grad_()
            made = recorded.pulled(
                lambda: self.function(*state, *own, *more), leaves, aliases, given, row[-1] if self.numbers else None
            )
            totals = [dnp.add(total, one) for total, one in zip(after[n:], made[m:], strict=True)]
            return [*made[:n], *totals], made[n:m]

        shared = [zeros_like(value) for value in self._values(list(self.shared.values()))]
        over = [*self.states, *self._values(self.xs), *self._values(of_rows), *self.numbers]
        last, found = control.scan(here(), step, [*self._values(of_last), *shared], over, None, True, self.what)
        places = [*[self.init[i] for i in states], *[self.xs[i] for i in rows], *self.shared.values()]
        total: dict[int, Tracer] = {}
        for one, value in zip(places, [*last[:n], *found, *last[n:]], strict=True):
            total[id(one)] = dnp.add(total[id(one)], value) if id(one) in total else value
        return total


# ---- others ---------------------------------------------------------------------------------------------------------


@higher_order(flex_attention)
def flex(
    tracing: TorchTracing, query: Any, key: Any, value: Any, score_mod: Function, block_mask: Any, scale: Any,
    kernel_options: Any, score_mod_other_buffers: Any = (), mask_mod_other_buffers: Any = (),
) -> Any:  # fmt: skip
    rest = (score_mod, block_mask, scale, kernel_options, score_mod_other_buffers, mask_mod_other_buffers)
    made, sums, most = math_attention(query, key, value, *rest)
    order = record_of(tracing.taken(query)).order
    if order is not None:  # it lies in memory as the query does, but for its last axis
        order = (*[axis for axis in order if axis != 3], 3)
        made = made.permute(order).contiguous().permute(inverse(order))
    return made, sums, most


@higher_order(invoke_subgraph)
def called(tracing: TorchTracing, subgraph: Function, identifier: str, *operands: Any) -> Any:
    return subgraph(*operands)


def _install(module: str, name: str, function: Function) -> None:
    """Have a function of PyTorch's own code be another one in the traces of dyn."""
    found = importlib.import_module(f"torch._higher_order_ops.{module}")
    setattr(found, name, chosen(function, getattr(found, name)))


cond_op.functorch_table[TransformType.Vmap] = chosen(_cond_of_a_batch, cond_op.functorch_table[TransformType.Vmap])
# These are what Dynamo makes of trees, and of an associative scan of one length.
_install("scan", "_maybe_compile_and_run_fn", _scan_of_trees)
_install("associative_scan", "generic_associative_scan", associative_scan)
