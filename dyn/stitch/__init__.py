"""Stitching: fusion of ops into kernels."""
