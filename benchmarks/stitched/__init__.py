"""Programs of several reductions, gathers and what is around them, by family, written for each library."""
