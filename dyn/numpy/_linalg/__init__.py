"""Linear algebra: products, norms, factors, systems of equations. ``dyn.numpy.linalg`` has the public names."""
