"""Measurements on a GPU, by the events of its driver."""
