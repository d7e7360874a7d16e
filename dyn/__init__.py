"""dyn compiles array programs once for every shape."""
