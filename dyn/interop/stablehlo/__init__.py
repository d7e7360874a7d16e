"""StableHLO in and out: ``load`` makes a function of dyn of a module, ``dump`` a module of a program of dyn."""

from dyn.interop.stablehlo.dump import dump
from dyn.interop.stablehlo.load import load, register_custom_call

__all__ = ["dump", "load", "register_custom_call"]
