"""The arguments of a jitted function's calls: bound to its signature, read as arrays, placed, and used up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dyn import config
from dyn.array import from_device, from_numpy, is_own, to_numpy, use_up
from dyn.config import Config
from dyn.errors import ArgumentError, TraceError
from dyn.frozen import record
from dyn.hosts import NUMPY, Host, keeps_order
from dyn.source import user_loc
from dyn.specialize.arguments import ArgumentLeaf, read_leaf
from dyn.specialize.placement import placement_for
from dyn.specialize.version import Version
from dyn.trace.function import Declarations
from dyn.trace.lift import weak_dtype
from dyn.trace.signature import BoundArguments, Signature

if TYPE_CHECKING:
    from dyn.backends.families import Placement

Array = np.ndarray[Any, Any]
#: What is done where sizes need a program beside those that there are.
OnNewShape = Literal["compile", "error"]


def check_on_new_shape(value: str) -> None:
    """Raise ArgumentError for what ``on_new_shape=`` cannot be."""
    if value not in get_args(OnNewShape):
        raise ArgumentError(f"on_new_shape={value!r} is neither 'compile' nor 'error'.")


def check_bools(what: str, **options: object) -> None:
    """Raise ArgumentError for an option of ``what``, a function as users call it, that is no bool."""
    for name, value in options.items():
        if not isinstance(value, bool):
            raise ArgumentError(f"the option {name} of {what} is {value!r}.", loc=user_loc(), remedy="pass a bool.")


@dataclass
class JitOptions:
    """The options of ``dyn.jit``: declarations, what another shape does, the device, and whether rows have the same
    bits in every batch."""

    declarations: Declarations
    on_new_shape: OnNewShape
    device: str | None
    batch_invariant: bool = False

    def compiling(self) -> AbstractContextManager[object]:
        """The settings in force, as the options change them for programs that are made."""
        return compiling_with(batch_invariant=self.batch_invariant)


def compiling_with(*, batch_invariant: bool) -> AbstractContextManager[object]:
    """The settings in force, as an option changes them for programs that are made."""
    return config.override(batch_invariant=True) if batch_invariant else nullcontext()


@record(eq=False)
class BoundCall:
    """A call as it was read: its arguments as they are ``bound``, and ``viewed`` as NumPy's arrays or those of a
    device, under the settings there were. Its results become the ``host``'s."""

    bound: BoundArguments
    viewed: BoundArguments
    host: Host
    leaves: list[ArgumentLeaf]
    arrays: list[Any]
    placement: Placement | None
    settings: Config
    #: Key of the programs that it can have.
    key: Any


class CallArguments:
    """Reader of the arguments of calls of one function.

    Attributes:
        signature: the function's signature.
        options: what it was jitted with.
    """

    def __init__(self, signature: Signature, options: JitOptions) -> None:
        self.signature = signature
        self.options = options

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return self.signature.name

    @property
    def title(self) -> str:
        """``dyn.jit(name)``, for messages."""
        return f"dyn.jit({self.signature.name})"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """Bind the arguments of a call to the function's parameters."""
        return self.signature.bind(args, kwargs)

    def viewed(self, bound: BoundArguments) -> tuple[BoundArguments, Host]:
        """A call with NumPy's arrays, itself if it has no others; and what its results become."""
        try:
            found = to_numpy(bound.leaves)
        except TraceError:
            self.leaves(bound)  # raises, with the argument's name
            raise
        return (bound, NUMPY) if found is None else (replace(bound, leaves=found[0]), found[1])

    def placement(self, bound: BoundArguments) -> Placement | None:
        """The device that a call runs on, or None for the processor (``dyn.specialize.placement``)."""
        return placement_for(
            bound.leaves, self.options.device, self.signature.name, lambda: self.signature.leaf_names(bound)
        )

    def read(self, bound: BoundArguments, viewed: BoundArguments, host: Host, placement: Placement | None) -> BoundCall:
        """A call, read once, as it was bound, :meth:`viewed` and placed."""
        leaves, settings = self.leaves(viewed), config.current()
        arrays, key = self.arrays(leaves), self.key(viewed, leaves, placement)
        return BoundCall(bound, viewed, host, leaves, arrays, placement, settings, key)

    def run(self, version: Version, call: BoundCall) -> Any:
        """The results of a version for a call, as arrays of its host's."""
        if version.program.placement.on_device:
            return from_device(call.host, version.call(call.arrays))
        beside = () if call.viewed is call.bound else self.originals(call.bound)
        order = keeps_order(call.host)
        return from_numpy(
            call.host, version.call(call.arrays, beside, any_order=order, givers=self.givers(call.viewed))
        )

    def originals(self, bound: BoundArguments) -> list[Array] | None:
        """The arrays that a call was given, where it donates some and all are NumPy's: copies are made of some of them,
        and their memory is not to be written to any more than that of the others. None where it is not known."""
        if not self.signature.donated_names:
            return None
        leaves = [leaf for leaf in bound.leaves if weak_dtype(leaf) is None]
        return leaves if all(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves) else None

    def donated_arrays(self, bound: BoundArguments, version: Version) -> dict[int, str]:
        """The leaves that are dyn.Array whose memory a program's results may take, with what they are labelled with."""
        reuses = version.loaded.interface.reuses if self.signature.donated_names else ()
        found = [reuse.input for reuse in reuses if is_own(bound.leaves[reuse.input])]
        if not found:
            return {}
        names = self.signature.leaf_names(bound)
        return {number: f"it was {names[number]} of {self.signature.name}()" for number in found}

    def use_up(self, bound: BoundArguments, version: Version) -> None:
        """End the donated arrays of a call that went well, as JAX does. NumPy's cannot be told."""
        for number, label in self.donated_arrays(bound, version).items():
            use_up(bound.leaves[number], label)

    def leaves(self, bound: BoundArguments) -> list[ArgumentLeaf]:
        """The leaves of a call, read once: NumPy's arrays as views of them.

        Another thread, or the function itself while it is traced, may give an array another dtype or shape in place.
        """
        name = self.signature.name
        try:
            return [read_leaf(value, "", name) for value in bound.leaves]
        except ArgumentError:
            pass  # names cost time and are needed for an error only
        names = self.signature.leaf_names(bound)
        return [read_leaf(value, where, name) for value, where in zip(bound.leaves, names, strict=True)]

    def givers(self, bound: BoundArguments) -> dict[int, Array]:
        """The NumPy arrays that a call donates, by the leaf's number: a result in such an array's memory is itself."""
        if not self.signature.donated_names:
            return {}
        donated = self.signature.donated(bound)
        return {n: leaf for n, leaf in enumerate(bound.leaves) if donated[n] and type(leaf) is np.ndarray}

    def arrays(self, leaves: list[ArgumentLeaf]) -> list[Any]:
        arrays = [leaf.array for leaf in leaves if leaf.array is not None]
        if len(arrays) != len(leaves):
            raise ArgumentError(
                f"{self.signature.name}() was called with a ShapeDtypeStruct, which has no elements.",
                remedy="pass arrays, or use .trace(...).lower().compile().",
            )
        return arrays

    def key(self, bound: BoundArguments, leaves: list[ArgumentLeaf], placement: Placement | None = None) -> Any:
        """Key of the programs for a call; without a placement that of what is traced for one, wherever it runs."""
        types = tuple((leaf.dtype, leaf.rank, leaf.weak) for leaf in leaves)
        key = (bound.tree, bound.static, bound.keywords, types, config.current().key(), ())
        return key if placement is None else (*key, placement)


def broken_guard_text(version: Version, arrays: Sequence[Array]) -> str:
    """What a program is for, by a guard that does not hold for some arrays, in words."""
    guard = version.traced.broken(arrays)
    if guard is None:
        return "others"
    return f"{guard.describe()}, by {guard.reason.text} ({guard.reason.loc})"
