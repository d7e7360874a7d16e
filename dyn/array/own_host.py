"""``dyn.Array`` as a host: arguments of other libraries as NumPy's arrays, and results as arrays of their kind."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.array.array_type import contents, host_contents, is_own, made
from dyn.hosts import FOREIGN, NUMPY, Host, NumpyArray, host_of
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context
from dyn.trace.pytree import flatten, unflatten


class OwnHost:
    """``dyn.Array`` as a host: what is of no one library's kind."""

    name = "dyn"

    def view(self, value: Any) -> NumpyArray:
        return host_contents(value) if is_own(value) else FOREIGN.view(value)

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        return contents(value) if is_own(value) else FOREIGN.borrow(value)

    def has_device(self, context: Context) -> bool:
        return True

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        return made(array)


OWN = OwnHost()


def adapter_of(value: object) -> Host | None:
    """The host of an array leaf, ``dyn.Array`` among them; None for what is no array."""
    if is_own(value):
        return OWN
    found = host_of(value)
    return OWN if found is FOREIGN else found


def view(value: Any) -> NumpyArray:
    """The elements of any library's array as a NumPy array, without a copy where that is possible.

    Raises UnsupportedOpError for what has no place in a compiled program: another device, a gradient, a trace.
    """
    host = adapter_of(value)
    return np.asarray(value) if host is None else host.view(value)


def describe(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """The dtype and the shape of a :class:`Array`; None for anything else."""
    return (value.dtype, value.shape) if is_own(value) else None


def result_host(hosts: list[Host]) -> Host:
    """Host of a call's results: that of all arguments if they agree, else ``dyn.Array``; NumPy if there are none."""
    if not hosts:
        return NUMPY
    first = hosts[0]
    return first if all(host is first for host in hosts) else OWN


def to_numpy(leaves: Sequence[Any]) -> tuple[list[Any], Host] | None:
    """A call's leaves as plain NumPy arrays and numbers, and what its results are to become.

    Arrays of other libraries are viewed, arrays that lie oddly copied. None where nothing of that had to be done.
    Raises UnsupportedOpError for an array that cannot be viewed.
    """
    hosts = [adapter_of(leaf) for leaf in leaves]
    viewed = [leaf if host is None else host.borrow(leaf) for leaf, host in zip(leaves, hosts, strict=True)]
    if all(map(operator.is_, viewed, leaves)):
        return None
    return viewed, result_host([host for host in hosts if host is not None])


def from_numpy(host: Host, result: Any) -> Any:
    """A tree of fresh NumPy arrays as one of another library's."""
    if host is NUMPY:
        return result
    if type(result) is np.ndarray:
        return host.wrap(result)
    leaves, tree = flatten(result)
    return unflatten(tree, [host.wrap(leaf) for leaf in leaves])


def from_device(host: Host, result: Any) -> Any:
    """A tree of fresh arrays on a device as one of another library's; of :class:`Array` where that has none there."""
    leaves, tree = flatten(result)
    wraps = {context: (host if host.has_device(context) else OWN).wrap for context in {leaf.context for leaf in leaves}}
    return unflatten(tree, [wraps[leaf.context](leaf) for leaf in leaves])
