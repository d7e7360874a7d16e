"""StableHLO in and out."""

from dyn.interop.stablehlo.dump import dump

__all__ = ["dump"]
