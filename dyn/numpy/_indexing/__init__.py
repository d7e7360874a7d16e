"""Indexing: ``x[...]``, ``x.at[...]``, and functions that choose elements."""
