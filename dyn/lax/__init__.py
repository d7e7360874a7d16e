"""Control flow and the raw ops, with JAX's names and argument orders."""

from dyn.lax import linalg
from dyn.lax._control import cond, fori_loop, map, scan, switch, while_loop
from dyn.lax._dims import as_dim
from dyn.lax._fft import FftType, fft
from dyn.lax._reduce import reduce, reduce_window
from dyn.transforms import stop_gradient

__all__ = [
    "FftType", "as_dim", "cond", "fft", "fori_loop", "linalg", "map", "reduce", "reduce_window", "scan",
    "stop_gradient", "switch", "while_loop",
]  # fmt: skip
