"""The ops that LAPACK computes, each with what writes its native call: one entry a routine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from dyn.ir.core import Op
from dyn.ir.opdef import Library
from dyn.lower.abi import LIBRARY_SYMBOL
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


@dataclass(frozen=True, slots=True)
class LibraryText:
    """A library call as LLVM IR: a module that defines ``symbol`` (``dyn.lower.lapack.call``)."""

    symbol: str
    text: str


def emit_library_call(op: Op) -> LibraryText | None:
    """The native code of a library call; None where it has none. It depends on the dtype, the ranks and the attributes:
    equal calls have equal symbols."""
    loops = op.opdef.loops
    if not isinstance(loops, Library) or loops.routine is None:
        return None
    types = ",".join(f"{v.dtype.name}{len(v.shape)}" for v in (*op.operands, *op.results))
    identity = f"{loops.routine} {types} {sorted(op.attrs.items())}"
    symbol = f"{LIBRARY_SYMBOL}{loops.routine}_{sha256(identity.encode()).hexdigest()[:16]}"
    call = LibraryCall(op, symbol)
    ROUTINES[loops.routine](call)
    return LibraryText(symbol, call.module.text())
