"""Elements as integer keys in their order, as LLVM IR for vectors and scalars."""

from __future__ import annotations

from dyn.frozen import record
from dyn.lower.native import FunctionBuilder

#: Bits of a place in a word, and those of all of them.
_PLACE = 32
PLACES = (1 << _PLACE) - 1


@record()
class KeyKind:
    """Elements that become keys: of how many bits, whether they are unsigned, and of floats the bits of infinity."""

    bits: int
    unsigned: bool = False
    infinity: int = 0

    @property
    def width(self) -> int:
        """Bits of a key."""
        return 64 if self.bits == 64 else 32


#: What is sorted here.
SORTED = {
    "bool": KeyKind(8, unsigned=True),
    **{f"int{bits}": KeyKind(bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": KeyKind(bits, unsigned=True) for bits in (8, 16, 32, 64)},
    "float16": KeyKind(16, infinity=0x7C00),
    "bfloat16": KeyKind(16, infinity=0x7F80),
    "float32": KeyKind(32, infinity=0x7F800000),
    "float64": KeyKind(64, infinity=0x7FF0000000000000),
}


@record()
class LaneBuilder:
    """Instructions on so many lanes at once; on one, on scalars."""

    f: FunctionBuilder
    lanes: int

    def type(self, bits: int) -> str:
        return f"i{bits}" if self.lanes == 1 else f"<{self.lanes} x i{bits}>"

    def constant(self, value: int, bits: int) -> str:
        value = value - (1 << bits) if value >> (bits - 1) & 1 and value > 0 else value
        return str(value) if self.lanes == 1 else f"splat (i{bits} {value})"

    def op(self, name: str, a: str, b: int | str, bits: int) -> str:
        other = b if isinstance(b, str) else self.constant(b, bits)
        return self.f.binary(name, a, other, self.type(bits))

    def icmp(self, how: str, a: str, b: int, bits: int) -> str:
        return self.f.icmp(how, a, self.constant(b, bits), self.type(bits))

    def select(self, condition: str, a: str, b: str, bits: int) -> str:
        mask = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        return self.f.value(f"select {mask} {condition}, {self.type(bits)} {a}, {self.type(bits)} {b}")

    def cast(self, op: str, value: str, source: int, target: int) -> str:
        return value if source == target else self.f.cast(op, value, self.type(source), self.type(target))

    def numbers(self, first: str) -> str:
        """Integers of 64 bits from ``first`` on."""
        if self.lanes == 1:
            return first
        type, zeros = self.type(64), ", ".join(["i32 0"] * self.lanes)
        lane = self.f.value(f"insertelement {type} poison, i64 {first}, i64 0")
        every = self.f.value(f"shufflevector {type} {lane}, {type} poison, <{self.lanes} x i32> <{zeros}>")
        return self.op("add", every, f"<{', '.join(f'i64 {lane}' for lane in range(self.lanes))}>", 64)

    def load(self, bits: int, base: str, place: str) -> str:
        return self.f.value(f"load {self.type(bits)}, ptr {self.f.at(base, place, f'i{bits}')}, align {bits // 8}")

    def store(self, value: str, bits: int, base: str, place: str) -> None:
        self.f.emit(f"store {self.type(bits)} {value}, ptr {self.f.at(base, place, f'i{bits}')}, align {bits // 8}")


def key_of(v: LaneBuilder, raw: str, kind: KeyKind, *, descending: bool, zeros: bool) -> str:
    """The keys of elements, of 64 bits where these have as many, else of 32: all NaN are alike, and more than others.

    With ``zeros`` -0.0 is less than 0.0, else alike.
    """
    bits, sign, width = kind.bits, 1 << (kind.bits - 1), kind.width
    key = raw
    if kind.infinity:
        # A float that is not negative has bits in its order as a signed integer; a negative one in the other order.
        key = v.op("xor", raw, v.op("and", v.op("ashr", raw, bits - 1, bits), sign - 1, bits), bits)
        size = v.op("and", raw, sign - 1, bits)
        key = v.select(v.icmp("ugt", size, kind.infinity, bits), v.constant(sign - 1, bits), key, bits)
        if not zeros:
            key = v.select(v.icmp("eq", size, 0, bits), v.constant(0, bits), key, bits)
    elif kind.unsigned and bits == width:
        key = v.op("xor", raw, sign, bits)
    key = v.cast("zext" if kind.unsigned else "sext", key, bits, width)
    return v.op("xor", key, -1, width) if descending else key


def element_of(v: LaneBuilder, key: str, kind: KeyKind, width: int, *, descending: bool) -> str:
    """The elements that keys of ``width`` bits stand for."""
    bits, sign = kind.bits, 1 << (kind.bits - 1)
    if descending:
        key = v.op("xor", key, -1, width)
    key = v.cast("trunc", key, width, bits)
    if kind.infinity:
        return v.op("xor", key, v.op("and", v.op("ashr", key, bits - 1, bits), sign - 1, bits), bits)
    return v.op("xor", key, sign, bits) if kind.unsigned and bits == width else key


def word_of(v: LaneBuilder, raw: str, kind: KeyKind, digit: int, place: str, *, descending: bool) -> str:
    """The keys of elements, or their lower or upper halves (``digit`` 0 or 1), above their places from ``place`` on."""
    key = key_of(v, raw, kind, descending=descending, zeros=False)
    if kind.width == 32:
        key = v.op("shl", v.cast("sext", key, 32, 64), _PLACE, 64)
    elif digit == 0:  # it has no sign
        key = v.op("xor", v.op("shl", key, _PLACE, 64), 1 << 63, 64)
    else:
        key = v.op("and", key, ~PLACES, 64)
    return v.op("or", key, v.numbers(place), 64)
