"""PyTorch in: ``jit`` compiles functions and modules of PyTorch, once for every shape."""

from dyn.interop.torch.installed import check

check()

from dyn.interop.torch import aten as _aten  # noqa: E402  # fills the tables of converters
from dyn.interop.torch.fallback import FallbackWarning  # noqa: E402
from dyn.interop.torch.jit import TorchJitted, jit  # noqa: E402

_ = _aten

__all__ = ["FallbackWarning", "TorchJitted", "jit"]
