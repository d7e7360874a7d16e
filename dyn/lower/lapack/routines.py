"""The ops that LAPACK computes, each with what writes its native call: one entry a routine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dyn.lower.lapack import solving, spectral
from dyn.lower.lapack.call import LibraryCall

#: By ``Library.routine``. Each writes the code of one call for all matrices of a stack.
ROUTINES: Mapping[str, Callable[[LibraryCall], None]] = {
    "cholesky": solving.cholesky,
    "triangular_solve": solving.triangular_solve,
    "lu": solving.lu,
    "qr": solving.qr,
    "solve": solving.solve,
    "inverse": solving.inverse,
    "det": solving.det,
    "slogdet": solving.slogdet,
    "eigh": spectral.eigh,
    "svd": spectral.svd,
    "eig": spectral.eig,
}
