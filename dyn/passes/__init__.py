"""Passes: each makes of a function another that computes the same, ``Function -> Function``."""
