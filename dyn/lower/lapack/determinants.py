"""Products of many numbers that neither overflow nor vanish on the way, as determinants are: in native code."""

from __future__ import annotations

from dyn.lower.lapack.call import LibraryCall
from dyn.lower.native import FunctionBuilder, Var

_LN2 = "0x3FE62E42FEFA39EF"
_ROOT8 = "0x4006A09E667F3BCD"  # 2 sqrt(2)
_TWO54 = "0x4350000000000000"


class ScaledProduct:
    """A product as a number whose greater part is in [2, 4), or is 0, inf or NaN, and a power of 2."""

    def __init__(self, call: LibraryCall) -> None:
        self.call, self.f = call, call.f
        self.re, self.im = self.f.var("double", "1.0"), self.f.var("double", "0.0")
        self.power = self.f.var("i64", "0")
        self._scale(self.re, self.im)

    def multiply(self, place: str) -> None:
        """Multiply the product by the number at ``place``, of the call's dtype."""
        f, call = self.f, self.call
        re, im = f.var("double", call.wide(f.load(call.real, place))), f.var("double", "0.0")
        if call.complex:
            im.set(call.wide(f.load(call.real, place, call.real_item)))
        self._scale(re, im)
        a, b, c, d = self.re.get(), self.im.get(), re.get(), im.get()
        if call.complex:
            self.re.set(_binary(f, "fsub", _binary(f, "fmul", a, c), _binary(f, "fmul", b, d)))
            self.im.set(_binary(f, "fadd", _binary(f, "fmul", a, d), _binary(f, "fmul", b, c)))
        else:
            self.re.set(_binary(f, "fmul", a, c))
        self._scale(self.re, self.im)

    def negate_if(self, condition: str) -> None:
        for part in (self.re, self.im):
            own = part.get()
            part.set(self.f.select(condition, self.f.value(f"fneg double {own}"), own, "double"))

    def store(self, place: str) -> None:
        """The product itself, as a number of the call's dtype; a zero without a sign."""
        f, call = self.f, self.call
        limit = str(1 << 20)  # beyond it whatever is not 0 or NaN has overflowed or vanished
        power = call.least(call.most(self.power.get(), f"-{limit}"), limit)
        power = f.cast("trunc", power, "i64", "i32")
        ldexp = call.module.declare("ldexp", "double", ["double", "i32"])
        for number, part in enumerate((self.re, self.im) if call.complex else (self.re,)):
            scaled = f.call("double", ldexp, [("double", part.get()), ("i32", power)])
            f.store(call.real, call.number(_binary(f, "fadd", scaled, "0.0")), place, number * call.real_item)

    def store_logarithm(self, sign: str, logarithm: str) -> None:
        """The direction, a number of size 1 or a 0, and the logarithm of the size."""
        f, call = self.f, self.call
        if call.complex:
            hypot = call.module.declare("hypot", "double", ["double", "double"])
            size = f.call("double", hypot, [("double", self.re.get()), ("double", self.im.get())])
            zero = f.value(f"fcmp oeq double {size}, 0.0")
            by = f.select(zero, "1.0", size, "double")
            parts = [_binary(f, "fdiv", part.get(), by) for part in (self.re, self.im)]
        else:
            own = self.re.get()
            size = f.value(f"call double @{_absolute(call)}(double {own})")
            parts = [_direction(f, own)]
        for number, part in enumerate(parts):
            f.store(call.real, call.number(_binary(f, "fadd", part, "0.0")), sign, number * call.real_item)
        # Next to 1 what is left of the power is 0, and the logarithm is right to the last bit.
        great = f.value(f"fcmp ogt double {size}, {_ROOT8}")
        size = _binary(f, "fmul", size, f.select(great, "0.25", "0.5", "double"))
        power = f.add(self.power.get(), f.select(great, "2", "1"))
        log = f.call("double", call.module.declare("log", "double", ["double"]), [("double", size)])
        rest = _binary(f, "fmul", f.cast("sitofp", power, "i64", "double"), _LN2)
        f.store(call.real, call.number(_binary(f, "fadd", log, rest)), logarithm)

    def _scale(self, re: Var, im: Var) -> None:
        """Bring two parts of a number to where the greater is in [2, 4), and count the power."""
        f = self.f
        small = f.icmp("eq", self._exponent(re, im), "0")
        by = f.select(small, _TWO54, "1.0", "double")
        self._times(re, im, by)
        exponent = self._exponent(re, im)
        usual = f.and_(f.icmp("ne", exponent, "0"), f.icmp("ne", exponent, "2047"), "i1")
        factor = f.cast("bitcast", f.binary("shl", f.sub("2047", exponent), "52"), "i64", "double")
        self._times(re, im, f.select(usual, factor, "1.0", "double"))
        grown = f.select(usual, f.sub(exponent, "1024"), "0")
        self.power.set(f.add(self.power.get(), f.sub(grown, f.select(small, "54", "0"))))

    def _exponent(self, re: Var, im: Var) -> str:
        """The exponent of the greater part, as its bits have it."""
        f = self.f
        bits = [f.and_(f.cast("bitcast", part.get(), "double", "i64"), str(2**63 - 1)) for part in (re, im)]
        return f.binary("lshr", self.call.most(*bits), "52")

    def _times(self, re: Var, im: Var, factor: str) -> None:
        for part in (re, im) if self.call.complex else (re,):
            part.set(_binary(self.f, "fmul", part.get(), factor))


def _binary(f: FunctionBuilder, op: str, a: str, b: str) -> str:
    return f.binary(op, a, b, "double")


def _absolute(call: LibraryCall) -> str:
    call.module.declare("llvm.fabs.f64", "double", ["double"])
    return "llvm.fabs.f64"


def _direction(f: FunctionBuilder, number: str) -> str:
    """1, -1 or 0; NaN of NaN."""
    below = f.select(f.value(f"fcmp olt double {number}, 0.0"), "-1.0", number, "double")
    return f.select(f.value(f"fcmp ogt double {number}, 0.0"), "1.0", below, "double")
