"""Codecs: ops written as StableHLO, and read again; a file for each kind of op."""
