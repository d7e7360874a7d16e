"""LLVM IR as text, written by appending strings.

Nothing here knows what is being computed. A function's text is a :class:`Chunk`, a list of lines and of further
chunks: a chunk that was put down earlier may still be written to, which is how values are hoisted out of loops
without an optimiser. Names are plain strings (``%v12``, ``@f``, ``i64 7``'s ``7``), types are :class:`VType`.

The text is for LLVM 22: opaque pointers, ``splat (float 1.0)`` constants.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import count
from typing import TypeAlias

from dyn.frozen import record

Chunk: TypeAlias = "list[str | Chunk]"

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}
_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


@record()
class VType:
    """``lanes`` elements of an LLVM scalar type; one lane is the scalar type itself. Made by :func:`vtype`."""

    elem: str
    lanes: int
    #: As written in IR: ``<16 x float>``, ``float``.
    text: str
    #: As written in the names of intrinsics: ``v16f32``, ``f32``.
    mangled: str

    @property
    def is_float(self) -> bool:
        return self.elem in ("float", "double", "half")

    @property
    def bits(self) -> int:
        """The width of one element."""
        return _BITS[self.elem]

    def of(self, elem: str) -> VType:
        """The vector type of as many lanes of another element type."""
        return vtype(elem, self.lanes)

    def __str__(self) -> str:
        return self.text


def vtype(elem: str, lanes: int = 1) -> VType:
    """The type of ``lanes`` elements; ``lanes=1`` is the scalar. There is one object for each type."""
    return _vtype(elem, lanes)


@cache
def _vtype(elem: str, lanes: int) -> VType:
    mangled = _MANGLED.get(elem, elem)
    if lanes == 1:
        return VType(elem, 1, elem, mangled)
    return VType(elem, lanes, f"<{lanes} x {elem}>", f"v{lanes}{mangled}")


def float_literal(value: float, elem: str) -> str:
    """A floating constant as LLVM reads it exactly: the bits of the double, rounded to the element type first."""
    if elem == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(value: float | bool, elem: str) -> str:
    """A scalar constant of an element type."""
    if elem in ("float", "double"):
        return float_literal(float(value), elem)
    if elem == "i1":
        return "true" if value else "false"
    bits = _BITS[elem]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def constant(value: float | bool, ty: VType) -> str:
    """A constant of a type, the same in every lane."""
    # 0.0 == -0.0, so that a cache would take the one for the other.
    return _constant.__wrapped__(value, ty) if value == 0 else _constant(value, ty)


@lru_cache(maxsize=4096)
def _constant(value: float | bool, ty: VType) -> str:
    text = literal(value, ty.elem)
    return text if ty.lanes == 1 else f"splat ({ty.elem} {text})"


@lru_cache(maxsize=512)
def iota(elem: str, lanes: int, start: int = 0, step: int = 1) -> str:
    """The constant ``<start, start + step, …>``; for one lane the scalar ``start``."""
    if lanes == 1:
        return literal(start, elem)
    return "<" + ", ".join([f"{elem} {literal(start + step * i, elem)}" for i in range(lanes)]) + ">"


def render(chunk: Chunk) -> str:
    """The lines of a chunk and of the chunks within it, in order."""
    lines: list[str] = []
    _flatten(chunk, lines)
    return "\n".join(lines)


def _flatten(chunk: Chunk, out: list[str]) -> None:
    for item in chunk:
        if isinstance(item, str):
            out.append(item)
        else:
            _flatten(item, out)


class FunctionText:
    """One function under construction. ``here`` is the chunk that is appended to, ``block`` the label of the basic
    block that ``here`` is in. Whoever points ``here`` at an older chunk must not start blocks until it points back."""

    def __init__(self) -> None:
        self.body: Chunk = []
        self.here: Chunk = self.body
        self.block = "entry"
        self.declarations: dict[str, None] = {}
        self._count = count()

    # --- names, lines, blocks ----------------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        """An unused local name."""
        return f"%{hint}{next(self._count)}"

    def emit(self, line: str) -> None:
        """An instruction without a result."""
        self.here.append("  " + line)

    def value(self, rhs: str, hint: str = "v") -> str:
        """An instruction with a result, whose name is returned."""
        name = f"%{hint}{next(self._count)}"
        self.here.append(f"  {name} = {rhs}")
        return name

    def label(self, hint: str) -> str:
        """An unused block label."""
        return f"{hint}{next(self._count)}"

    def start(self, label: str) -> None:
        """Begin a block; the one before must have been ended by a branch."""
        self.here.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.here.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        self.here.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def chunk(self) -> Chunk:
        """Put down a chunk here, to be written to later."""
        made: Chunk = []
        self.here.append(made)
        return made

    def declare(self, declaration: str) -> None:
        """An external function; repeated declarations are one."""
        self.declarations[declaration] = None

    # --- instructions ------------------------------------------------------------------------------------------

    def op(self, opcode: str, ty: VType, a: str, b: str) -> str:
        """``a opcode b``: ``fadd``, ``add``, ``and``, ``icmp slt``, …"""
        return self.value(f"{opcode} {ty.text} {a}, {b}")

    def neg(self, ty: VType, a: str) -> str:
        return self.value(f"fneg {ty.text} {a}")

    def select(self, condition: str, ty: VType, a: str, b: str) -> str:
        return self.value(f"select {ty.of('i1').text} {condition}, {ty.text} {a}, {ty.text} {b}")

    def cast(self, opcode: str, source: VType, a: str, result: VType) -> str:
        """``zext``, ``bitcast``, ``sitofp``, …; nothing when the types are the same."""
        if source is result:
            return a
        return self.value(f"{opcode} {source.text} {a} to {result.text}")

    def call(self, name: str, result: VType, args: Sequence[tuple[VType, str]], tail: str = "") -> str:
        """Call ``@name`` and declare it. ``tail`` appends further, literal arguments such as ``i1 false``."""
        types = ", ".join([t.text for t, _ in args])
        values = ", ".join([f"{t.text} {v}" for t, v in args])
        if tail:
            kinds = ", ".join([part.strip().split(" ")[0] for part in tail.split(",")])
            types, values = f"{types}, {kinds}", f"{values}, {tail}"
        self.declarations[f"declare {result.text} @{name}({types})"] = None
        return self.value(f"call {result.text} @{name}({values})")

    def intrinsic(self, name: str, ty: VType, *args: str) -> str:
        """An overloaded intrinsic all of whose arguments and whose result have one type: ``llvm.fma``."""
        return self.call(f"llvm.{name}.{ty.mangled}", ty, [(ty, a) for a in args])

    def fma(self, ty: VType, a: str, b: str, c: str) -> str:
        """``a * b + c``, rounded once."""
        return self.intrinsic("fma", ty, a, b, c)

    def gep(self, elem: str, pointer: str, index: str) -> str:
        """``pointer + index`` elements."""
        if index == "0":
            return pointer
        return self.value(f"getelementptr {elem}, ptr {pointer}, i64 {index}", "p")

    def load(self, ty: VType, pointer: str, align: int) -> str:
        return self.value(f"load {ty.text}, ptr {pointer}, align {align}")

    def store(self, ty: VType, value: str, pointer: str, align: int) -> None:
        self.here.append(f"  store {ty.text} {value}, ptr {pointer}, align {align}")

    def store_past_caches(self, ty: VType, value: str, pointer: str, align: int) -> None:
        """A streaming store: weakly ordered, and the line is in no cache afterwards."""
        self.declare("!0 = !{i32 1}")
        self.here.append(f"  store {ty.text} {value}, ptr {pointer}, align {align}, !nontemporal !0")

    def masked_load(self, ty: VType, pointer: str, align: int, mask: str, other: str) -> str:
        """The elements where ``mask``, ``other`` elsewhere; what is masked off is not read."""
        m = ty.of("i1")
        name = f"llvm.masked.load.{ty.mangled}.p0"
        self.declarations[f"declare {ty.text} @{name}(ptr, {m.text}, {ty.text})"] = None
        return self.value(f"call {ty.text} @{name}(ptr align {align} {pointer}, {m.text} {mask}, {ty.text} {other})")

    def prefetch(self, pointer: str, *, write: bool = False) -> None:
        """Ask for a line that is read soon, or written; any address will do."""
        self.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 3, i32 1)")

    def masked_store(self, ty: VType, value: str, pointer: str, align: int, mask: str) -> None:
        m = ty.of("i1")
        name = f"llvm.masked.store.{ty.mangled}.p0"
        self.declarations[f"declare void @{name}({ty.text}, ptr, {m.text})"] = None
        self.emit(f"call void @{name}({ty.text} {value}, ptr align {align} {pointer}, {m.text} {mask})")

    def gather(self, ty: VType, pointer: str, index: str, align: int, mask: str, other: str) -> str:
        """The elements at ``pointer + index`` (``<lanes x i64>``, counted in elements) where ``mask``."""
        pointers, m = ty.of("ptr"), ty.of("i1")
        p = self.value(f"getelementptr {ty.elem}, ptr {pointer}, {ty.of('i64').text} {index}", "p")
        name = f"llvm.masked.gather.{ty.mangled}.{pointers.mangled}"
        self.declarations[f"declare {ty.text} @{name}({pointers.text}, {m.text}, {ty.text})"] = None
        return self.value(
            f"call {ty.text} @{name}({pointers.text} align {align} {p}, {m.text} {mask}, {ty.text} {other})"
        )

    def scatter(self, ty: VType, value: str, pointer: str, index: str, align: int, mask: str) -> None:
        pointers, m = ty.of("ptr"), ty.of("i1")
        p = self.value(f"getelementptr {ty.elem}, ptr {pointer}, {ty.of('i64').text} {index}", "p")
        name = f"llvm.masked.scatter.{ty.mangled}.{pointers.mangled}"
        self.declarations[f"declare void @{name}({ty.text}, {pointers.text}, {m.text})"] = None
        self.emit(f"call void @{name}({ty.text} {value}, {pointers.text} align {align} {p}, {m.text} {mask})")

    def first_lanes(self, left: str, lanes: int) -> str:
        """The mask of the first ``left`` of some lanes; ``left`` is an i64, not negative, and may be more.

        Counted in elements that fill a register, and in bytes where there are many lanes: one comparison. LLVM 22
        spills the mask of a comparison of half a register as a whole one, with whatever lies in the other half.
        """
        ty = vtype(f"i{max(8, 128 // lanes)}", lanes)
        whole = vtype("i64")
        bound = self.intrinsic("umin", whole, left, str(lanes))
        if ty.elem != "i64":
            bound = self.cast("trunc", whole, bound, vtype(ty.elem))
        return self.op("icmp ult", ty, iota(ty.elem, lanes), self.splat(ty, bound))

    def splat(self, ty: VType, scalar: str) -> str:
        """A scalar (a name or a literal of ``ty.elem``) in every lane."""
        if ty.lanes == 1:
            return scalar
        if not scalar.startswith("%"):
            return f"splat ({ty.elem} {scalar})"
        first = self.value(f"insertelement {ty.text} poison, {ty.elem} {scalar}, i64 0")
        mask = f"<{ty.lanes} x i32> zeroinitializer"
        return self.value(f"shufflevector {ty.text} {first}, {ty.text} poison, {mask}")

    def extract(self, ty: VType, vector: str, lane: int) -> str:
        """One lane, as a scalar."""
        return vector if ty.lanes == 1 else self.value(f"extractelement {ty.text} {vector}, i64 {lane}")

    def shuffle(self, ty: VType, a: str, b: str, lanes: Sequence[int]) -> str:
        """``lanes`` picks from ``a`` (0 …) and ``b`` (``ty.lanes`` …); one lane gives a scalar."""
        if len(lanes) == 1:
            return self.extract(ty, *((a, lanes[0]) if lanes[0] < ty.lanes else (b, lanes[0] - ty.lanes)))
        picks = ", ".join([f"i32 {lane}" for lane in lanes])
        return self.value(f"shufflevector {ty.text} {a}, {ty.text} {b}, <{len(lanes)} x i32> <{picks}>")

    # --- loops -------------------------------------------------------------------------------------------------

    def loop(
        self,
        start: str,
        stop: str,
        step: int | str,
        carried: Sequence[tuple[VType, str]] = (),
        *,
        at_least_once: bool = False,
        hint: str = "loop",
    ) -> CountedLoop:
        """Open ``for i in range(start, stop, step)``; see :class:`CountedLoop`."""
        return CountedLoop(self, start, stop, step, carried, at_least_once=at_least_once, hint=hint)


class CountedLoop:
    """``for index in range(start, stop, step)`` with values carried from one iteration to the next.

    Opening it leaves ``fn`` inside the body, where ``index`` and ``carried`` are names. ``close(next)`` gives the
    values to carry on, leaves the loop, and returns the names of the final values: the initial ones if it did not run.
    ``at_least_once`` leaves out the test before the first iteration.
    """

    def __init__(
        self,
        fn: FunctionText,
        start: str,
        stop: str,
        step: int | str,
        carried: Sequence[tuple[VType, str]],
        *,
        at_least_once: bool,
        hint: str,
    ) -> None:
        self.fn, self.start, self.stop, self.step = fn, start, stop, step
        self._types = [ty for ty, _ in carried]
        self._initial = [value for _, value in carried]
        self._body, self._exit = fn.label(hint), fn.label(f"{hint}.end")
        self._at_least_once = at_least_once
        if at_least_once:
            fn.branch(self._body)
        else:
            fn.branch_if(fn.op("icmp slt", vtype("i64"), start, stop), self._body, self._exit)
        self._before = fn.block
        fn.start(self._body)
        self.index = fn.fresh("i")
        self.carried = [fn.fresh("c") for _ in carried]
        self._phis = fn.chunk()

    def close(self, values: Sequence[str] = ()) -> list[str]:
        """Carry ``values`` to the next iteration and leave the loop; the final values."""
        fn = self.fn
        following = fn.value(f"add nsw i64 {self.index}, {self.step}", "i")
        again = fn.op("icmp slt", vtype("i64"), following, self.stop)
        fn.branch_if(again, self._body, self._exit)
        latch, before = fn.block, self._before
        self._phis.append(f"  {self.index} = phi i64 [ {self.start}, %{before} ], [ {following}, %{latch} ]")
        for name, ty, initial, value in zip(self.carried, self._types, self._initial, values, strict=True):
            self._phis.append(f"  {name} = phi {ty.text} [ {initial}, %{before} ], [ {value}, %{latch} ]")
        fn.start(self._exit)
        if self._at_least_once:
            return list(values)
        return [
            fn.value(f"phi {ty.text} [ {initial}, %{before} ], [ {value}, %{latch} ]")
            for ty, initial, value in zip(self._types, self._initial, values, strict=True)
        ]
