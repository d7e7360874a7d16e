"""StableHLO's records as modules of jaxlib's MLIR bindings, and back: only this folder touches the bindings."""

from dyn.interop.stablehlo.mlir.context import bindings
from dyn.interop.stablehlo.mlir.forms import parsed, portable_artifact, text_of, version_of_weeks
from dyn.interop.stablehlo.mlir.reading import parse
from dyn.interop.stablehlo.mlir.untrusted_modules import bytecode_of
from dyn.interop.stablehlo.mlir.writing import write

__all__ = ["bindings", "bytecode_of", "parse", "parsed", "portable_artifact", "text_of", "version_of_weeks", "write"]
