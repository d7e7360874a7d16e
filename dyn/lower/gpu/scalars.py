"""Table of C++ expressions, one for each :class:`~dyn.ops.scalar.Scalar`.

A row is given the dtype of its (last) argument, the dtype of its result and the arguments' texts, which are names or
literals and may be repeated. Nothing here relies on what C++ leaves undefined: integers wrap through an unsigned type,
divisions do not trap, conversions saturate. The compilers are told not to contract ``a*b + c``, so each operation on
floats is rounded by itself; the functions of the vendor's math library are used in their accurate versions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.frozen import record
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Const

Emit = Callable[[DType, DType, tuple[str, ...]], str]


@record()
class ScalarText:
    """A scalar function on GPUs: what writes it, and about how many instructions it takes in float32."""

    emit: Emit
    instructions: int = 1


#: How values are declared.
C_TYPES = {
    dtypes.bool_: "bool", dtypes.int8: "signed char", dtypes.uint8: "unsigned char",
    dtypes.int16: "short", dtypes.uint16: "unsigned short", dtypes.int32: "int", dtypes.uint32: "unsigned int",
    dtypes.int64: "long long", dtypes.uint64: "unsigned long long",
    dtypes.float32: "float", dtypes.float64: "double",
    **{d: f"dyn_{d.short}" for d in dtypes.ALL if d.is_narrow},
}  # fmt: skip


def c_type(dtype: DType) -> str:
    """The C++ type of an element."""
    found = C_TYPES.get(dtype)
    if found is None:
        raise NotYetError(
            f"{dtype.name} is not generated for GPUs yet.", remedy="compute with the real and imaginary parts."
        )
    return found


def memory_type(dtype: DType) -> str:
    """The C++ type of an element in memory: a bool is a byte there, which is true for whatever is not 0."""
    return "unsigned char" if dtype is dtypes.bool_ else c_type(dtype)


def apply(fn: Scalar, source: DType, result: DType, args: tuple[str, ...]) -> str:
    """``fn`` of arguments of dtype ``source`` (of SELECT: its two last)."""
    return TABLE[fn].emit(source, result, args)


def _row(name: str, *, floats: str = "", signed: str = "", unsigned: str = "", booleans: str = "") -> Emit:
    """A template by kind of dtype; ``unsigned`` is ``signed`` where not given, and ``""`` is not defined.

    ``{0}``, ``{1}`` are the arguments, ``{T}`` their type, ``{f}`` the suffix of a math function, and ``{W}`` an
    unsigned type that wraps: at least as wide as ``int``, for narrower operands are promoted to that.
    """

    def row(source: DType, result: DType, args: tuple[str, ...]) -> str:
        if source.is_narrow:
            template = ""
        elif source is dtypes.bool_:
            template = booleans
        elif source.is_float:
            template = floats
        else:
            template = unsigned if unsigned and source.kind is Kind.UINT else signed
        if not template:
            raise UnsupportedOpError(f"{name} of {source.name} is not defined.", remedy="cast the argument first.")
        wide = "unsigned long long" if source.bits == 64 else "unsigned int"
        suffix = "" if source is dtypes.float64 else "f"
        return template.format(*args, T=c_type(source), W=wide, f=suffix)

    return row


def _math(name: str, template: str = "") -> Emit:
    """A function of floats only."""
    return _row(name, floats=template or name + "{f}({0})")


def _arithmetic(name: str, sign: str, booleans: str = "") -> Emit:
    return _row(
        name, floats=f"{{0}} {sign} {{1}}", signed=f"({{T}})(({{W}}){{0}} {sign} ({{W}}){{1}})", booleans=booleans
    )


def _bitwise(name: str, sign: str, booleans: str) -> Emit:
    return _row(name, signed=f"({{T}})({{0}} {sign} {{1}})", booleans=booleans)


def _counted(name: str, word: str) -> Emit:
    """A count of bits by the vendor's function for words; what is narrower is filled up with zeros, which ``clz``
    then counts too."""

    def row(source: DType, result: DType, args: tuple[str, ...]) -> str:
        if not source.is_integer:
            raise UnsupportedOpError(f"{name} of {source.name} is not defined.", remedy="cast the argument first.")
        of = c_type(source)
        if source.bits == 64:
            return f"({of})__{word}ll((long long){args[0]})"
        unsigned = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int"}[source.bits]
        more = f" - {32 - source.bits}" if word == "clz" and source.bits < 32 else ""
        return f"({of})(__{word}((int)({unsigned}){args[0]}){more})"

    return row


def _bitcast(source: DType, result: DType, args: tuple[str, ...]) -> str:
    return args[0] if source is result else f"dyn_bitcast<{c_type(result)}>({args[0]})"


def _compare(name: str, sign: str) -> Emit:
    every = f"{{0}} {sign} {{1}}"
    return _row(name, floats=every, signed=every, booleans=every)


def _select(source: DType, result: DType, args: tuple[str, ...]) -> str:
    return f"{args[0]} ? {args[1]} : {args[2]}"


def cast(source: DType, result: DType, args: tuple[str, ...]) -> str:
    """Conversion as ``Scalar.CAST`` documents it. Narrow floats are rounded once, to nearest even: a float64 passes
    through a float32 that is rounded to odd, and an integer that a float32 does not hold is past most formats' range;
    for the others it is rounded to float32 first, as ml_dtypes does it."""
    (a,) = args
    if source is result:
        return a
    if source.is_narrow:
        return cast(dtypes.float32, result, (f"{C_TYPES[source]}_to_float({a})",))
    if result.is_narrow:
        single = a if source is dtypes.float32 else f"(float){a}"
        if source is dtypes.float64:
            single = f"dyn_round_to_odd({a})"
        return f"dyn_float_to_{C_TYPES[result].removeprefix('dyn_')}({single})"
    to = c_type(result)
    if result is dtypes.bool_:
        return f"{a} != 0"
    if source.is_float and result.is_integer:
        info = np.iinfo(result.np)
        low, high = (_float_literal(float(edge), source) for edge in (int(info.min), int(info.max) + 1))
        least, most = (_integer_literal(int(edge), result) for edge in (info.min, info.max))
        return f"dyn_saturate<{to}>({a}, {low}, {high}, {least}, {most})"
    return f"({to}){a}"


TABLE: dict[Scalar, ScalarText] = {
    Scalar.NEG: ScalarText(_row("neg", floats="-{0}", signed="({T})(0 - ({W}){0})")),
    Scalar.ABS: ScalarText(
        _row("abs", floats="fabs{f}({0})", signed="{0} < 0 ? ({T})(0 - ({W}){0}) : {0}", unsigned="{0}")
    ),
    Scalar.SIGN: ScalarText(
        _row(
            "sign",
            floats="{0} > 0 ? 1 : {0} < 0 ? -1 : {0}",  # of a zero that zero, of NaN that NaN
            signed="({T})(({0} > 0) - ({0} < 0))",
            unsigned="({T})({0} > 0)",
            booleans="{0}",
        )
    ),
    Scalar.EXP: ScalarText(_math("exp"), 8),
    Scalar.EXPM1: ScalarText(_math("expm1"), 20),
    Scalar.LOG: ScalarText(_math("log"), 14),
    Scalar.LOG1P: ScalarText(_math("log1p"), 20),
    Scalar.TANH: ScalarText(_math("tanh"), 20),
    Scalar.LOGISTIC: ScalarText(_math("logistic", "1 / (1 + exp{f}(-{0}))"), 16),
    Scalar.ERF: ScalarText(_math("erf"), 24),
    Scalar.SQRT: ScalarText(_math("sqrt"), 8),
    Scalar.RSQRT: ScalarText(_math("rsqrt"), 4),
    Scalar.CBRT: ScalarText(_math("cbrt"), 20),
    Scalar.SIN: ScalarText(_math("sin"), 30),
    Scalar.COS: ScalarText(_math("cos"), 30),
    Scalar.TAN: ScalarText(_math("tan"), 40),
    Scalar.FLOOR: ScalarText(_math("floor")),
    Scalar.CEIL: ScalarText(_math("ceil")),
    Scalar.ROUND_EVEN: ScalarText(_math("round_even", "rint{f}({0})")),
    Scalar.ROUND_AFZ: ScalarText(_math("round_afz", "round{f}({0})")),
    Scalar.IS_FINITE: ScalarText(_row("is_finite", floats="{0} - {0} == 0", signed="true", booleans="true")),
    Scalar.NOT: ScalarText(_row("not", signed="({T})~{0}", booleans="!{0}")),
    Scalar.POPCNT: ScalarText(_counted("popcnt", "popc")),
    Scalar.CLZ: ScalarText(_counted("clz", "clz")),
    Scalar.ADD: ScalarText(_arithmetic("add", "+", booleans="{0} || {1}")),
    Scalar.SUB: ScalarText(_arithmetic("sub", "-")),
    Scalar.MUL: ScalarText(_arithmetic("mul", "*", booleans="{0} && {1}")),
    Scalar.DIV: ScalarText(_row("div", floats="{0} / {1}", signed="dyn_div<{T}>({0}, {1})"), 10),
    Scalar.REM: ScalarText(_row("rem", floats="fmod{f}({0}, {1})", signed="dyn_rem<{T}>({0}, {1})"), 20),
    Scalar.POW: ScalarText(_row("pow", floats="pow{f}({0}, {1})", signed="dyn_ipow<{T}>({0}, {1})"), 60),
    Scalar.ATAN2: ScalarText(_math("atan2", "atan2{f}({0}, {1})"), 40),
    Scalar.MAX: ScalarText(
        _row("max", floats="dyn_max({0}, {1})", signed="{0} > {1} ? {0} : {1}", booleans="{0} || {1}")
    ),
    Scalar.MIN: ScalarText(
        _row("min", floats="dyn_min({0}, {1})", signed="{0} < {1} ? {0} : {1}", booleans="{0} && {1}")
    ),
    Scalar.FMA: ScalarText(_math("fma", "fma{f}({0}, {1}, {2})")),
    Scalar.AND: ScalarText(_bitwise("and", "&", booleans="{0} && {1}")),
    Scalar.OR: ScalarText(_bitwise("or", "|", booleans="{0} || {1}")),
    Scalar.XOR: ScalarText(_bitwise("xor", "^", booleans="{0} != {1}")),
    Scalar.SHL: ScalarText(_row("shl", signed="dyn_shl<{T}>({0}, {1})")),
    Scalar.SHRA: ScalarText(_row("shra", signed="dyn_shra<{T}>({0}, {1})")),
    Scalar.SHRL: ScalarText(_row("shrl", signed="dyn_shrl<{T}>({0}, {1})")),
    Scalar.EQ: ScalarText(_compare("eq", "==")),
    Scalar.NE: ScalarText(_compare("ne", "!=")),
    Scalar.LT: ScalarText(_compare("lt", "<")),
    Scalar.LE: ScalarText(_compare("le", "<=")),
    Scalar.GT: ScalarText(_compare("gt", ">")),
    Scalar.GE: ScalarText(_compare("ge", ">=")),
    Scalar.SELECT: ScalarText(_select),
    Scalar.CAST: ScalarText(cast),
    Scalar.BITCAST: ScalarText(_bitcast),
}


# --- literals ----------------------------------------------------------------------------------------------------


def literal(const: Const) -> str:
    """A constant as an expression of its own C++ type, in parentheses where it is negative."""
    dtype, value = const.dtype, const.value
    if dtype is dtypes.bool_:
        return "true" if value else "false"
    if dtype.is_narrow:
        bits = int(np.asarray(value).astype(dtype.np).view(f"u{dtype.itemsize}"))
        return f"{C_TYPES[dtype]}{{{bits:#0{2 + dtype.bits // 4}x}}}"
    return _float_literal(float(value), dtype) if dtype.is_float else _integer_literal(int(value), dtype)


def _float_literal(value: float, dtype: DType) -> str:
    """The shortest decimal that reads back as the same number. Infinities and NaN are written as bits."""
    with np.errstate(over="ignore"):
        number = np.asarray(value).astype(dtype.np)[()]
    single = dtype is dtypes.float32
    if np.isfinite(number):
        text = f"{number!s}{'f' if single else ''}"
    else:
        bits = int(number.view(np.uint32 if single else np.uint64))
        bits &= (1 << (dtype.bits - 1)) - 1
        text = f"__int_as_float({bits:#x})" if single else f"__longlong_as_double({bits:#x}LL)"
        text = f"-{text}" if number < 0 else text
    return f"({text})" if text.startswith("-") else text


def _integer_literal(value: int, dtype: DType) -> str:
    if dtype.bits < 32:
        return f"(({c_type(dtype)}){value})"
    suffix = ("u" if dtype.kind is Kind.UINT else "") + ("LL" if dtype.bits == 64 else "")
    if value == -(1 << (dtype.bits - 1)) and dtype.kind is Kind.INT:  # C++ has no negative literals: -(2**31) overflows
        return f"({value + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"
