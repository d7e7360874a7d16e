"""Results of a call: how the native entry makes them of a program's arrays, and builds their tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from dyn.array import OWN, Array
from dyn.call.form import NoPlanError, host_record
from dyn.call.records import ObjectAddress, Row, records
from dyn.dtypes import DType
from dyn.hosts import JAX, NUMPY, TORCH, Host, keeps_order
from dyn.hosts.jax import JaxMaker
from dyn.hosts.native import holder_type, tensor_maker
from dyn.runtime.entry.layout import Build, BuildRecord, OutputRecord, PutRecord
from dyn.trace.pytree import TreeSpec, unflatten


@dataclasses.dataclass(frozen=True)
class ArgumentResult:
    """In the place of a result: the array of a leaf, which is none of NumPy's."""

    leaf: int


@dataclasses.dataclass(frozen=True)
class ConstantResult:
    """In the place of a result: an object."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Results:
    """The way from a program's results to those of a call.

    ``tree`` has a result's number in the place of each, and may have arguments and constants; ``finish`` makes of a
    tuple of the results what ``tree`` alone cannot say. ``wraps`` has for each result what makes it of the ndarray,
    where that is not NumPy's ``host``. With ``any_order`` results may lie in the order of axes of the arguments.
    """

    tree: Any
    finish: Callable[[Any], Any]
    host: Host = NUMPY
    wraps: tuple[Callable[[Any], Any], ...] = ()
    any_order: bool = False

    @staticmethod
    def of(out_tree: TreeSpec, host: Host) -> Results:
        """The results of a jitted function."""
        numbers = list(range(out_tree.num_leaves))
        tree = unflatten(out_tree, numbers)
        return Results(tree, lambda results: unflatten(out_tree, list(results)), host, any_order=keeps_order(host))


def output_maker(host: Host, dtype: DType, wrap: Callable[[Any], Any] | None) -> Row:
    """Maker of a host's results of a dtype, which is ``wrap`` where that is given, for an output record."""
    if wrap is None and host is JAX:
        wrap = JAX.maker(dtype.np)
    if wrap is not None:
        return {OutputRecord.WRAP: ObjectAddress(wrap)} | (_put(wrap) if isinstance(wrap, JaxMaker) else {})
    if host is NUMPY:
        return {}
    held = holder_type(Array, "_data", "_label") if host is OWN else None
    if held is not None:
        return {OutputRecord.HOLDER: host_record(held)}
    make = tensor_maker() if host is TORCH else 0
    return {OutputRecord.MAKE: make} if make else {OutputRecord.WRAP: ObjectAddress(host.wrap)}


def device_output_maker(host: Host, dtype: DType, wrap: Callable[[Any], Any] | None) -> Row:
    """Maker of a host's results of arrays on a device, for an output record; NumPy has no such arrays."""
    held = holder_type(Array, "_data", "_label") if host in (OWN, NUMPY) and wrap is None else None
    if held is not None:
        return {OutputRecord.HOLDER: host_record(held)}
    if host is NUMPY:
        raise NoPlanError
    return {OutputRecord.WRAP: ObjectAddress(host.wrap if wrap is None else wrap)}


def _put(maker: JaxMaker) -> Row:
    put = maker.put
    if put.function is None:
        return {}
    row: Row = {
        PutRecord.FUNCTION: ObjectAddress(put.function),
        PutRecord.AVALS: ObjectAddress(maker.avals),
        PutRecord.SHARDING: ObjectAddress(put.sharding),
        PutRecord.DEVICES: ObjectAddress(put.devices),
    }
    return {OutputRecord.PUT: records([row], PutRecord.BYTES)}


def build_steps(results: Results, count: int) -> tuple[list[Row], Callable[[Any], Any] | None]:
    """Stack-machine code that builds the results' tree; and what finishes it from a tuple, where its nodes are no plain
    containers."""
    steps: list[Row] = []

    def visit(node: Any) -> bool:
        kind = type(node)
        if kind is int:
            steps.append({BuildRecord.KIND: Build.RESULT, BuildRecord.COUNT: node})
        elif kind is ArgumentResult:
            steps.append({BuildRecord.KIND: Build.ARGUMENT, BuildRecord.COUNT: node.leaf})
        elif kind is ConstantResult or node is None:
            value = None if node is None else node.value
            steps.append({BuildRecord.KIND: Build.OBJECT, BuildRecord.VALUE: ObjectAddress(value)})
        elif kind in (tuple, list, dict):
            if not all(visit(item) for item in (node.values() if kind is dict else node)):
                return False
            step: Row = {
                BuildRecord.KIND: {tuple: Build.TUPLE, list: Build.LIST, dict: Build.DICT}[kind],
                BuildRecord.COUNT: len(node),
            }
            if kind is dict:
                step[BuildRecord.VALUE] = records([{0: ObjectAddress(one)} for one in (dict.fromkeys(node), *node)], 8)
            steps.append(step)
        else:
            return False
        return True

    plain = visit(results.tree)
    if not plain:
        steps.clear()
        visit(tuple(range(count)))
    end: Row = {BuildRecord.KIND: Build.END}
    return [*steps, end], None if plain else results.finish
