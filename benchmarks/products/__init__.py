"""Products of matrices that ``python -m benchmarks contractions`` times: their arrays, and the way they are timed."""
