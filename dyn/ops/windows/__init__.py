"""Windows that slide over arrays: convolutions, and reductions in windows."""
