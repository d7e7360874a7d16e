"""``dyn.Array``, dyn's own array, for results that are of no one library's kind; and which kind results are."""

from dyn.array.array_type import Array, is_own, made, needs_copy, use_up
from dyn.array.changes import NotAViewWarning, become, stand_for
from dyn.array.conversions import asarray, captured_on, device_put, read_lists
from dyn.array.own_host import OWN, adapter_of, describe, from_device, from_numpy, result_host, to_numpy, view

__all__ = [
    "OWN", "Array", "NotAViewWarning", "adapter_of", "asarray", "become", "captured_on", "describe", "device_put",
    "from_device", "from_numpy", "is_own", "made", "needs_copy", "read_lists", "result_host", "stand_for", "to_numpy",
    "use_up", "view",
]  # fmt: skip
