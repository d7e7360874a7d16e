"""Sorting, and what is found by it: orders, distinct elements, sets, quantiles."""
