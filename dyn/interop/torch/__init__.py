"""PyTorch in: ``jit`` compiles functions and modules of PyTorch, once for every shape."""

from dyn.interop.torch.installed import check

check()

from dyn.frontend.fallback import FallbackWarning  # noqa: E402
from dyn.interop.torch import aten as _aten  # noqa: E402  # fills the tables of converters
from dyn.interop.torch import higher_order as _higher_order  # noqa: E402  # and of operations of functions
from dyn.interop.torch.jit import TorchJitted, jit  # noqa: E402
from dyn.interop.torch.report import explain  # noqa: E402

_ = _aten, _higher_order

__all__ = ["FallbackWarning", "TorchJitted", "explain", "jit"]
