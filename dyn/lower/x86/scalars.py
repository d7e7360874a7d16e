"""Table of instructions for each :class:`~dyn.ops.scalar.Scalar`, on one vector or scalar.

A row's function takes the machine, the dtype and the register type of its (last) argument, and the arguments' names.
CAST has two dtypes and stands in ``casts.py``; the transcendental functions are polynomials in ``vector_math.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.lower.x86 import division, vector_math
from dyn.lower.x86.bounds import ErrorBound, bounds
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine
from dyn.ops.scalar import Scalar

Emit = Callable[[Machine, DType, VType, tuple[str, ...]], str]


@record()
class ScalarRow:
    """A scalar function on x86: what writes it, about how many instructions it takes, and by dtype how far results of
    floats are from the exact ones; without bounds they are rounded correctly."""

    emit: Emit
    instructions: int = 1
    bounds: Mapping[DType, ErrorBound] | None = None


def apply(m: Machine, fn: Scalar, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    """The result of a scalar function on arguments of ``dtype``, which are of type ``ty`` in registers."""
    return TABLE[fn].emit(m, dtype, ty, args)


def _unsupported(fn: str, dtype: DType) -> UnsupportedOpError:
    return UnsupportedOpError(f"{fn} of {dtype.name} is not defined.", remedy="cast the argument first.")


def _opcodes(name: str, *, floats: str = "", signed: str = "", unsigned: str = "", booleans: str = "") -> Emit:
    """Code of one instruction, by kind of dtype; ``unsigned`` is ``signed`` where not given."""

    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if dtype is dtypes.bool_:
            opcode = booleans
        elif dtype.is_float:
            opcode = floats
        else:
            opcode = unsigned if unsigned and dtype.kind is Kind.UINT else signed
        if not opcode:
            raise _unsupported(name, dtype)
        return m.fn.op(opcode, ty, args[0], args[1])

    return row


def _compare(name: str, ordered: str, integer: str) -> Emit:
    """Booleans compare as 0 and 1; false on NaN but for NE."""
    prefix = "" if integer in ("eq", "ne") else "u"
    signed = integer if not prefix else "s" + integer
    unsigned = f"icmp {prefix}{integer}"
    return _opcodes(name, floats=f"fcmp {ordered}", signed=f"icmp {signed}", unsigned=unsigned, booleans=unsigned)


def _neg(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    if dtype is dtypes.bool_:
        raise _unsupported("neg", dtype)
    return m.fn.neg(ty, args[0]) if dtype.is_float else m.fn.op("sub", ty, constant(0, ty), args[0])


def _abs(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    if dtype.is_float:
        return m.fn.intrinsic("fabs", ty, args[0])
    if dtype.kind is Kind.INT:
        return m.fn.call(f"llvm.abs.{ty.mangled}", ty, [(ty, args[0])], tail="i1 false")
    return args[0]


def _sign(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    """-1, 0, 1; of a zero that zero, of NaN that NaN."""
    fn, x = m.fn, args[0]
    if dtype is dtypes.bool_:
        raise _unsupported("sign", dtype)
    if dtype.is_float:
        one = fn.intrinsic("copysign", ty, constant(1.0, ty), x)
        return fn.select(fn.op("fcmp one", ty, x, constant(0.0, ty)), ty, one, x)
    positive = fn.cast("zext", ty.of("i1"), fn.op("icmp ne", ty, x, constant(0, ty)), ty)
    if dtype.kind is Kind.UINT:
        return positive
    return fn.op("or", ty, fn.op("ashr", ty, x, constant(ty.bits - 1, ty)), positive)


def _intrinsic(name: str) -> Emit:
    """A rounding of floats."""

    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if not dtype.is_float:
            raise _unsupported({"roundeven": "round_even", "round": "round_afz"}.get(name, name), dtype)
        return m.fn.intrinsic(name, ty, args[0])

    return row


def _math(name: str, function: Callable[..., str]) -> Emit:
    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if not dtype.is_float:
            raise _unsupported(name, dtype)
        return function(m, ty, *args)

    return row


def _fused(m: Machine, ty: VType, a: str, b: str, c: str) -> str:
    return m.fma(ty, a, b, c)


def _is_finite(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    if not dtype.is_float:
        return constant(True, ty.of("i1"))
    return m.fn.op("fcmp olt", ty, m.fn.intrinsic("fabs", ty, args[0]), constant(float("inf"), ty))


def _not(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    if dtype.is_float:
        raise _unsupported("not", dtype)
    return m.fn.op("xor", ty, args[0], constant(True if dtype is dtypes.bool_ else -1, ty))


def _extremum(name: str) -> Emit:
    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        fn = m.fn
        if dtype is dtypes.bool_:
            return fn.op("or" if name == "max" else "and", ty, *args)
        if dtype.is_float:
            return fn.intrinsic("maximum" if name == "max" else "minimum", ty, *args)
        return fn.intrinsic(("s" if dtype.kind is Kind.INT else "u") + name, ty, *args)

    return row


def _count(name: str, intrinsic: str, tail: str = "") -> Emit:
    """A number of bits, of integers."""

    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if not dtype.is_integer:
            raise _unsupported(name, dtype)
        return m.fn.call(f"llvm.{intrinsic}.{ty.mangled}", ty, [(ty, args[0])], tail=tail)

    return row


def _shift(name: str, opcode: str) -> Emit:
    """LLVM leaves shifts by the width or more undefined; here all bits leave. As unsigned, less than 0 is much."""

    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if not dtype.is_integer:
            raise _unsupported(name, dtype)
        fn, (x, by) = m.fn, args
        most = fn.intrinsic("umin", ty, by, constant(ty.bits - 1, ty))
        shifted = fn.op(opcode, ty, x, most)
        if opcode == "ashr":  # by one bit less than all, what is left is the sign
            return shifted
        return fn.select(fn.op("icmp eq", ty, most, by), ty, shifted, constant(0, ty))

    return row


def _divide(name: str) -> Emit:
    def row(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
        if dtype is dtypes.bool_:
            raise _unsupported(name, dtype)
        if dtype.is_float:
            return m.fn.op("fdiv", ty, *args) if name == "div" else vector_math.remainder(m, ty, *args)
        return division.divide(m, ty, *args, signed=dtype.kind is Kind.INT, rest=name == "rem")

    return row


def _pow(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    if dtype is dtypes.bool_:
        raise _unsupported("pow", dtype)
    if dtype.is_float:
        return vector_math.pow_(m, ty, *args)
    return vector_math.integer_pow(m, ty, *args, signed=dtype.kind is Kind.INT)


def _select(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    return m.fn.select(args[0], ty, args[1], args[2])


def _cast(m: Machine, dtype: DType, ty: VType, args: tuple[str, ...]) -> str:
    raise AssertionError("casts.cast knows both dtypes")


TABLE: dict[Scalar, ScalarRow] = {
    Scalar.NEG: ScalarRow(_neg),
    Scalar.ABS: ScalarRow(_abs),
    Scalar.SIGN: ScalarRow(_sign),
    Scalar.EXP: ScalarRow(_math("exp", vector_math.exp), 12, bounds((1.0, 1.5), (1.0, 1.5))),
    Scalar.EXPM1: ScalarRow(_math("expm1", vector_math.expm1), 20, bounds((2.0, 2.0), (2.0, 2.5))),
    Scalar.LOG: ScalarRow(_math("log", vector_math.log), 20, bounds((1.0, 1.0), (1.0, 1.0))),
    Scalar.LOG1P: ScalarRow(_math("log1p", vector_math.log1p), 24, bounds((2.0, 2.0), (2.0, 2.0))),
    Scalar.TANH: ScalarRow(_math("tanh", vector_math.tanh), 20, bounds((5.0, 6.0), (3.0, 3.5))),
    Scalar.LOGISTIC: ScalarRow(_math("logistic", vector_math.logistic), 16, bounds((3.0, 3.0), (3.0, 3.0))),
    Scalar.ERF: ScalarRow(_math("erf", vector_math.erf), 14, bounds((6.0, 7.0), (2.0, 3.0))),
    Scalar.SQRT: ScalarRow(_intrinsic("sqrt"), 4),
    Scalar.RSQRT: ScalarRow(_math("rsqrt", vector_math.rsqrt), 4, bounds((1.5, 1.5), (1.5, 1.5))),
    Scalar.CBRT: ScalarRow(_math("cbrt", vector_math.cbrt), 24, bounds((1.0, 1.0), (1.0, 1.0))),
    Scalar.SIN: ScalarRow(_math("sin", vector_math.sin), 24, bounds((1.0, 1.0), (1.0, 1.0))),
    Scalar.COS: ScalarRow(_math("cos", vector_math.cos), 24, bounds((1.0, 1.0), (1.0, 1.0))),
    Scalar.TAN: ScalarRow(_math("tan", vector_math.tan), 28, bounds((1.5, 1.5), (2.5, 2.5))),
    Scalar.FLOOR: ScalarRow(_intrinsic("floor")),
    Scalar.CEIL: ScalarRow(_intrinsic("ceil")),
    Scalar.ROUND_EVEN: ScalarRow(_intrinsic("roundeven")),
    Scalar.ROUND_AFZ: ScalarRow(_intrinsic("round")),
    Scalar.IS_FINITE: ScalarRow(_is_finite),
    Scalar.NOT: ScalarRow(_not),
    Scalar.POPCNT: ScalarRow(_count("popcnt", "ctpop")),
    Scalar.CLZ: ScalarRow(_count("clz", "ctlz", "i1 false")),
    Scalar.ADD: ScalarRow(_opcodes("add", floats="fadd", signed="add", booleans="or")),
    Scalar.SUB: ScalarRow(_opcodes("sub", floats="fsub", signed="sub")),
    Scalar.MUL: ScalarRow(_opcodes("mul", floats="fmul", signed="mul", booleans="and")),
    Scalar.DIV: ScalarRow(_divide("div"), 4),
    Scalar.REM: ScalarRow(_divide("rem"), 8),
    Scalar.POW: ScalarRow(_pow, 60, bounds((1.0, 1.0), (1.0, 1.5))),
    Scalar.ATAN2: ScalarRow(_math("atan2", vector_math.atan2), 40, bounds((3.0, 3.0), (3.0, 3.0))),
    Scalar.MAX: ScalarRow(_extremum("max"), 3),
    Scalar.MIN: ScalarRow(_extremum("min"), 3),
    Scalar.FMA: ScalarRow(_math("fma", _fused)),
    Scalar.AND: ScalarRow(_opcodes("and", signed="and", booleans="and")),
    Scalar.OR: ScalarRow(_opcodes("or", signed="or", booleans="or")),
    Scalar.XOR: ScalarRow(_opcodes("xor", signed="xor", booleans="xor")),
    Scalar.SHL: ScalarRow(_shift("shl", "shl")),
    Scalar.SHRA: ScalarRow(_shift("shra", "ashr")),
    Scalar.SHRL: ScalarRow(_shift("shrl", "lshr")),
    Scalar.EQ: ScalarRow(_compare("eq", "oeq", "eq")),
    Scalar.NE: ScalarRow(_compare("ne", "une", "ne")),
    Scalar.LT: ScalarRow(_compare("lt", "olt", "lt")),
    Scalar.LE: ScalarRow(_compare("le", "ole", "le")),
    Scalar.GT: ScalarRow(_compare("gt", "ogt", "gt")),
    Scalar.GE: ScalarRow(_compare("ge", "oge", "ge")),
    Scalar.SELECT: ScalarRow(_select),
    Scalar.CAST: ScalarRow(_cast),
    Scalar.BITCAST: ScalarRow(_cast),
}  # fmt: skip
