"""Front ends, a folder each: StableHLO, JAX, PyTorch."""
