"""What the front ends have in common: compiled functions, their reports, and calls that another library makes."""
