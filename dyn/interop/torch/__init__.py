"""PyTorch in: ``jit`` compiles functions and modules of PyTorch, once for every shape."""

from dyn.interop.torch import aten as _aten  # fills the tables of converters
from dyn.interop.torch.jit import TorchJitted, jit

_ = _aten

__all__ = ["TorchJitted", "jit"]
