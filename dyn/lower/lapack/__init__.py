"""Ops of linear algebra as native calls of LAPACK and BLAS, for every matrix of a stack."""
