"""Sorting as native calls: networks in vector registers, and merges of what they have put in order."""
