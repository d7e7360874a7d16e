"""Types of elements in registers and in memory."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86.llvm_text import VType, vtype

#: What an element is in a register. Narrow floats are their bits, for nothing computes with them.
REGISTERS = {
    dtypes.bool_: "i1", dtypes.int8: "i8", dtypes.uint8: "i8", dtypes.int16: "i16", dtypes.uint16: "i16",
    dtypes.int32: "i32", dtypes.uint32: "i32", dtypes.int64: "i64", dtypes.uint64: "i64",
    dtypes.float32: "float", dtypes.float64: "double", **{d: f"i{d.bits}" for d in dtypes.ALL if d.is_narrow},
}  # fmt: skip


def register(dtype: DType, width: int = 1) -> VType:
    """The type of ``width`` elements of a dtype that there are registers for."""
    return vtype(REGISTERS[dtype], width)
