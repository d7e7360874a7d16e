"""The native function that CPython calls for a compiled one: its text, and the records that lead it."""
