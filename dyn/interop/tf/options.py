"""Options of compiled TensorFlow functions."""

from __future__ import annotations

from dyn.frozen import record
from dyn.specialize.call_arguments import OnNewShape, check_bools, check_on_new_shape


@record()
class TfOptions:
    """``strict``: nothing is left to TensorFlow. ``on_new_shape``: what is done where sizes need a second program.
    ``freeze``: variables are seldom assigned. ``batch_invariant``: rows of products have the same bits in every
    batch."""

    strict: bool = False
    on_new_shape: OnNewShape = "compile"
    freeze: bool = False
    batch_invariant: bool = False

    def check(self, what: str) -> None:
        """Raise ArgumentError for values that ``what``, a function as users call it, does not take."""
        check_on_new_shape(self.on_new_shape)
        check_bools(what, strict=self.strict, freeze=self.freeze, batch_invariant=self.batch_invariant)


DEFAULT = TfOptions()
