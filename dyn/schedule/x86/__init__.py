"""Schedules of x86 alone: tiles of contractions, and blocking for caches."""
