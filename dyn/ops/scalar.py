"""The closed set of scalar functions.

An op's ``loops`` rule is written in terms of these; an emitter has one total table over them. Adding a member means a
row here and in every emitter's table (``dyn.lower.x86.scalars``, ``dyn.lower.gpu.scalars``), and nothing else.
"""

from __future__ import annotations

from enum import Enum


class Scalar(Enum):
    """A function on scalars: its name in kernel text, how many arguments it takes, and about what an element costs.

    The unit of the last is that of ``dyn.schedule.cost``, about 1/32 ns. The figures are those that
    ``scripts/measure_prices.py`` measures of float32 on x86, and 1 for simple operations, which take less. Nothing but
    speed depends on them.
    """

    NEG = ("neg", 1)
    ABS = ("abs", 1)
    SIGN = ("sign", 1)
    EXP = ("exp", 1, 24)
    EXPM1 = ("expm1", 1, 32)
    LOG = ("log", 1, 28)
    LOG1P = ("log1p", 1, 52)
    TANH = ("tanh", 1, 30)
    LOGISTIC = ("logistic", 1, 36)
    ERF = ("erf", 1, 24)
    SQRT = ("sqrt", 1, 8)
    RSQRT = ("rsqrt", 1, 15)
    CBRT = ("cbrt", 1, 52)
    SIN = ("sin", 1, 54)
    COS = ("cos", 1, 52)
    TAN = ("tan", 1, 96)
    FLOOR = ("floor", 1)
    CEIL = ("ceil", 1)
    ROUND_EVEN = ("round_even", 1)
    #: To nearest, a half away from zero.
    ROUND_AFZ = ("round_afz", 1)
    IS_FINITE = ("is_finite", 1)
    #: Bitwise on integers, logical on booleans.
    NOT = ("not", 1)
    #: How many bits are set.
    POPCNT = ("popcnt", 1)
    #: How many bits above the highest that is set; the width, of 0.
    CLZ = ("clz", 1)
    ADD = ("add", 2)
    SUB = ("sub", 2)
    MUL = ("mul", 2)
    #: Integers truncate towards zero; x / 0 is -1, all bits set, and MIN / -1 is MIN, without a trap.
    DIV = ("div", 2, 6)
    #: The sign is the dividend's, as in C; x % 0 is x.
    REM = ("rem", 2, 12)
    POW = ("pow", 2, 115)
    #: The angle of the point (second, first) from the first axis, in [-pi, pi], with C's special cases.
    ATAN2 = ("atan2", 2, 54)
    #: NaN wins, and -0 is less than +0 (IEEE 754-2019 maximum).
    MAX = ("max", 2)
    #: NaN wins, and -0 is less than +0 (IEEE 754-2019 minimum).
    MIN = ("min", 2)
    #: ``fma(a, b, c)``: a * b + c, of floats; rounded once where the machine can, else twice.
    FMA = ("fma", 3)
    AND = ("and", 2)
    OR = ("or", 2)
    XOR = ("xor", 2)
    #: Shifts. By less than 0, or as many bits as there are or more, all of them leave: the result is 0, or for the
    #: arithmetic shift of a negative number -1.
    SHL = ("shl", 2)
    SHRA = ("shra", 2)
    SHRL = ("shrl", 2)
    #: Comparisons give booleans; each is false on NaN but for NE, which is true.
    EQ = ("eq", 2)
    NE = ("ne", 2)
    LT = ("lt", 2)
    LE = ("le", 2)
    GT = ("gt", 2)
    GE = ("ge", 2)
    #: ``select(p, a, b)``: a where p, else b.
    SELECT = ("select", 3)
    #: To the result's dtype. Float to integer truncates and saturates, NaN gives 0; anything to bool is ``!= 0``.
    CAST = ("cast", 1)
    #: The same bits as another dtype of that width; not for booleans.
    BITCAST = ("bitcast", 1)

    def __init__(self, text: str, arity: int, work: int = 1) -> None:
        self.text = text
        self.arity = arity
        self.work = work


#: The functions a reduction may combine with: associative and commutative.
MONOIDS = frozenset({Scalar.ADD, Scalar.MUL, Scalar.MAX, Scalar.MIN, Scalar.AND, Scalar.OR, Scalar.XOR})
COMPARISONS = frozenset({Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE})
#: The functions that counts of operations keep apart: those that XLA's cost analysis does.
TRANSCENDENTALS = frozenset({
    Scalar.EXP, Scalar.EXPM1, Scalar.LOG, Scalar.LOG1P, Scalar.TANH, Scalar.LOGISTIC, Scalar.ERF, Scalar.SQRT,
    Scalar.RSQRT, Scalar.CBRT, Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.POW, Scalar.ATAN2,
})  # fmt: skip
#: The functions that choose a value, or write the same one in another dtype: no arithmetic.
MOVES = frozenset({Scalar.SELECT, Scalar.CAST, Scalar.BITCAST})
