"""Kernel IR to C++ for GPUs: one emitter, and a record for each vendor's spelling."""
