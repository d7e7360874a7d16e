"""Elements at computed places: slices and their updates, gathers and scatters."""
