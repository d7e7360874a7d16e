"""Front ends, a folder each: StableHLO, JAX, PyTorch, TensorFlow. Empty in this version."""
