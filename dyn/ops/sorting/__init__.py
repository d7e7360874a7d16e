"""Sorting, the greatest elements, and what runs along an axis."""
