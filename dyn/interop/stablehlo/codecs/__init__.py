"""Codecs: how each op is written as StableHLO, and read again. One table; a file for each kind of op."""

from dyn.interop.stablehlo.codecs.table import CODECS, codec_of

__all__ = ["CODECS", "codec_of"]
