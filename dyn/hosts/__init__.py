"""What an argument is: adapters for the arrays of each host. Empty in this version, which takes NumPy's."""
