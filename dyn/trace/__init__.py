"""Python to DHLO: tracers, dims, trees, signatures."""
