"""Library calls that there is native code for, by the name ``LibraryRoutine.routine``."""

from __future__ import annotations

from hashlib import sha256

from dyn.frozen import record
from dyn.ir.core import Op
from dyn.ir.opdef import LibraryRoutine
from dyn.lower.abi import LIBRARY_SYMBOL, NATIVE_SYMBOL
from dyn.lower.lapack.call import LibraryCall
from dyn.lower.lapack.routines import ROUTINES
from dyn.lower.sorting.call import SortCall
from dyn.lower.sorting.keys import SORTED
from dyn.schedule.target import Target


@record()
class LibraryText:
    """A library call as LLVM IR: a module that defines ``symbol`` (``dyn.lower.native_call``)."""

    symbol: str
    text: str


def emit_library_call(op: Op, target: Target, *, lapack: bool) -> LibraryText | None:
    """The native code of a library call; None where it has none, as LAPACK's have without ``lapack``.

    It depends on the dtypes, the ranks, the attributes, and for what is sorted on the target's vectors: equal calls
    have equal symbols.
    """
    loops = op.opdef.loops
    if not isinstance(loops, LibraryRoutine) or loops.routine is None:
        return None
    types = ",".join(f"{v.dtype.name}{len(v.shape)}" for v in (*op.operands, *op.results))
    identity = f"{loops.routine} {types} {sorted(op.attrs.items())}"
    if loops.routine in ROUTINES:
        if not lapack:
            return None
        call = LibraryCall(op, _symbol(LIBRARY_SYMBOL, loops.routine, identity))
        ROUTINES[loops.routine](call)
        return LibraryText(call.symbol, call.module.text())
    width = target.vector_bytes
    if loops.routine != "sort" or not width:
        return None
    keys = op.operands[: op.attrs.get("num_keys", 1)]
    if any(value.dtype.name not in SORTED for value in keys):
        return None
    sort = SortCall(op, _symbol(NATIVE_SYMBOL, loops.routine, f"{identity} {width}"), width)
    sort.write()
    return LibraryText(sort.symbol, sort.module.text())


def _symbol(prefix: str, routine: str, identity: str) -> str:
    return f"{prefix}{routine}_{sha256(identity.encode()).hexdigest()[:16]}"
