"""The common part of all front ends: compiled functions, their reports, and calls that another library makes."""
