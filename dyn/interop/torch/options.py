"""Options of compiled PyTorch functions, however they are compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from dyn.errors import ArgumentError
from dyn.frozen import record
from dyn.source import user_loc
from dyn.specialize.call_arguments import OnNewShape, check_bools
from dyn.trace.partition import Memory


@record()
class TorchOptions:
    """``strict``: nothing is left to eager PyTorch. ``memory``: how much gradients compute again. ``on_new_shape``:
    what is done where sizes need a second program. ``freeze``: nothing changes the tensors that are closed over.
    ``batch_invariant``: rows of products have the same bits in every batch."""

    strict: bool = False
    memory: Memory = "default"
    on_new_shape: OnNewShape = "compile"
    freeze: bool = False
    batch_invariant: bool = False

    @staticmethod
    def of(given: Mapping[str, Any], what: str) -> TorchOptions:
        """The options that ``what`` was given. ArgumentError for others, and for other values."""
        names = [field.name for field in fields(TorchOptions)]
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise ArgumentError(
                f"{what} has no option {', '.join(unknown)}.", loc=user_loc(), remedy=f"it has {', '.join(names)}."
            )
        made = TorchOptions(**given)
        check_bools(what, strict=made.strict, freeze=made.freeze, batch_invariant=made.batch_invariant)
        for name, kind in (("memory", Memory), ("on_new_shape", OnNewShape)):
            value = getattr(made, name)
            if value not in get_args(kind):
                values = " or ".join(map(repr, get_args(kind)))
                raise ArgumentError(
                    f"the option {name} of {what} is {value!r}.", loc=user_loc(), remedy=f"pass {values}."
                )
        return made


DEFAULT = TorchOptions()
