"""Front ends, a folder each: StableHLO, JAX, PyTorch, TensorFlow and Keras."""
