"""Native code that is written by hand: a builder of scalar LLVM IR with structured control flow.

For the code around kernels, which no C compiler builds: the thread pool, the allocator, the entries that hosts call.
Such code is full of branches and of variables that change, so variables are stack slots and control flow is a ``with``
block; LLVM turns both into registers (``Source(effort=PROMOTE)``). Nothing hoists, unrolls or vectorises a loop: where
that counts it is written so.

::

    m = Module()
    f = m.function("sum_to", "i64", [("i64", "n")])
    total, i = f.var("i64", "0"), f.var("i64", "0")
    with f.loop() as loop:
        loop.break_unless(f.icmp("slt", i.get(), "%n"))
        total.set(f.add(total.get(), i.get()))
        i.set(f.add(i.get(), "1"))
    f.ret("i64", total.get())
    m.text()

Values are strings, as LLVM writes them: ``%n``, ``@table``, ``7``. Integers are ``i64`` unless a type is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from dyn.errors import IRError


class Module:
    """Globals, declarations and functions of one translation unit."""

    def __init__(self) -> None:
        self._head: dict[str, str] = {}
        self._functions: list[FunctionBuilder] = []
        self._strings: dict[bytes, str] = {}

    def text(self) -> str:
        """The module's LLVM IR. Every function must have been ended by a return in every branch."""
        return "\n".join([*self._head.values(), "", *(f.text() for f in self._functions)])

    def symbol(self, name: str) -> str:
        """The address of a symbol that the loader supplies."""
        self._head.setdefault(name, f"@{name} = external global i8")
        return f"@{name}"

    def declare(self, name: str, result: str, arguments: Sequence[str], *, varargs: bool = False) -> str:
        """A function that is defined elsewhere."""
        inside = ", ".join([*arguments, *(["..."] if varargs else [])])
        self._head.setdefault(name, f"declare {result} @{name}({inside})")
        return f"@{name}"

    def variable(self, name: str, type: str, init: str = "zeroinitializer", *, align: int = 8) -> str:
        """A global variable of this module."""
        self._head.setdefault(name, f"@{name} = internal global {type} {init}, align {align}")
        return f"@{name}"

    def string(self, text: str) -> str:
        """The address of a constant C string."""
        data = text.encode() + b"\0"
        found = self._strings.get(data)
        if found is None:
            found = self._strings[data] = f"@.text{len(self._strings)}"
            escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
            self._head[found] = f'{found} = private constant [{len(data)} x i8] c"{escaped}"'
        return found

    def function(
        self,
        name: str,
        result: str,
        params: Sequence[tuple[str, str]],
        *,
        exported: bool = True,
        inline: bool = False,
        attributes: str = "",
    ) -> FunctionBuilder:
        """A new function; its parameters are ``%name``. It is inlined where that is asked for, and nowhere else;
        ``attributes`` are LLVM's."""
        function = FunctionBuilder(
            name, result, params, exported=exported, attributes="alwaysinline" if inline else attributes
        )
        self._functions.append(function)
        return function


class Var:
    """A variable on the stack."""

    def __init__(self, function: FunctionBuilder, type: str, address: str) -> None:
        self._function, self.type, self.address = function, type, address

    def get(self) -> str:
        return self._function.load(self.type, self.address)

    def set(self, value: str) -> None:
        self._function.store(self.type, value, self.address)


class Branch:
    """The two sides of an ``if_else``; each is entered by ``with``."""

    def __init__(self, function: FunctionBuilder, condition: str) -> None:
        self._function = function
        self._then, self._otherwise, self._end = (function.fresh(n) for n in ("then", "else", "end"))
        self._condition = condition

    @contextmanager
    def then(self) -> Iterator[None]:
        """The code that runs where the condition holds; comes first."""
        f = self._function
        f.emit_end(f"br i1 {self._condition}, label %{self._then}, label %{self._otherwise}")
        f.label(self._then)
        yield
        f.jump(self._end)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The code that runs where it does not; comes second."""
        f = self._function
        f.label(self._otherwise)
        yield
        f.jump(self._end)
        f.label(self._end)


class EndlessLoop:
    """An endless loop, left by a break."""

    def __init__(self, function: FunctionBuilder) -> None:
        self._function = function
        self.head, self.done = function.fresh("loop"), function.fresh("done")

    def break_if(self, condition: str) -> None:
        self._function.branch(condition, self.done)

    def break_unless(self, condition: str) -> None:
        f = self._function
        following = f.fresh("go")
        f.emit_end(f"br i1 {condition}, label %{following}, label %{self.done}")
        f.label(following)

    def continue_(self) -> None:
        self._function.jump(self.head)


class FunctionBuilder:
    """A function being written. A block that has been ended, by a return or a break, takes no more code."""

    def __init__(
        self, name: str, result: str, params: Sequence[tuple[str, str]], *, exported: bool, attributes: str
    ) -> None:
        inside = ", ".join(f"{type} %{param}" for type, param in params)
        linkage = "" if exported else "internal "
        attributes = f"{attributes} " if attributes else ""
        self.name = name
        self._open = f"define {linkage}{result} @{name}({inside}) {attributes}{{"
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._names = count()
        self._ended = False

    def text(self) -> str:
        if not self._ended:
            raise IRError(f"the native function {self.name} runs off its end")
        return "\n".join([self._open, "entry:", *self._slots, "  br label %start", "start:", *self._lines, "}", ""])

    # Blocks -----------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        return f"{name}.{next(self._names)}"

    def emit(self, line: str) -> None:
        if self._ended:
            raise IRError(f"code after the end of a block in native function {self.name}: {line}")
        self._lines.append(f"  {line}")

    def emit_end(self, line: str) -> None:
        """A terminator."""
        self.emit(line)
        self._ended = True

    def label(self, name: str) -> None:
        self._lines.append(f"{name}:")
        self._ended = False

    def jump(self, label: str) -> None:
        """Go to a label, unless the block has ended already."""
        if not self._ended:
            self.emit_end(f"br label %{label}")

    def branch(self, condition: str, label: str) -> None:
        """Go to a label where a condition holds, and on otherwise."""
        following = self.fresh("go")
        self.emit_end(f"br i1 {condition}, label %{label}, label %{following}")
        self.label(following)

    @contextmanager
    def if_(self, condition: str) -> Iterator[None]:
        """Code that runs where a condition holds."""
        then, end = self.fresh("then"), self.fresh("end")
        self.emit_end(f"br i1 {condition}, label %{then}, label %{end}")
        self.label(then)
        yield
        self.jump(end)
        self.label(end)

    def if_else(self, condition: str) -> Branch:
        """``branch = f.if_else(c)``, then ``with branch.then():`` and ``with branch.otherwise():``."""
        return Branch(self, condition)

    @contextmanager
    def loop(self) -> Iterator[EndlessLoop]:
        loop = EndlessLoop(self)
        self.jump(loop.head)
        self.label(loop.head)
        yield loop
        self.jump(loop.head)
        self.label(loop.done)

    @contextmanager
    def count(self, extent: str) -> Iterator[str]:
        """``for i in range(extent)``; gives i."""
        i = self.var("i64", "0")
        with self.loop() as loop:
            now = i.get()
            loop.break_unless(self.icmp("slt", now, extent))
            yield now
            i.set(self.add(now, "1"))

    def ret(self, type: str = "void", value: str = "") -> None:
        self.emit_end(f"ret {type} {value}".rstrip())

    def ret_if(self, condition: str, type: str, value: str) -> None:
        """Return a value where a condition holds."""
        with self.if_(condition):
            self.ret(type, value)

    def unreachable(self) -> None:
        self.emit_end("unreachable")

    # Values -----------------------------------------------------------------------------------------------------

    def value(self, text: str) -> str:
        """The result of an instruction."""
        name = f"%v{next(self._names)}"
        self.emit(f"{name} = {text}")
        return name

    def var(self, type: str, init: str | None = None) -> Var:
        """A variable, set to ``init`` here and now."""
        address = self.stack(type)
        var = Var(self, type, address)
        if init is not None:
            var.set(init)
        return var

    def stack(self, type: str, *, align: int = 8) -> str:
        """Memory in the function's frame."""
        name = f"%s{next(self._names)}"
        self._slots.append(f"  {name} = alloca {type}, align {align}")
        return name

    def alloca(self, bytes: str, *, align: int = 16) -> str:
        """``bytes`` bytes of stack, until the function returns: not inside a loop."""
        return self.value(f"alloca i8, i64 {bytes}, align {align}")

    def binary(self, op: str, a: str, b: str, type: str = "i64") -> str:
        return self.value(f"{op} {type} {a}, {b}")

    def add(self, a: str, b: str, type: str = "i64") -> str:
        return self.binary("add", a, b, type)

    def sub(self, a: str, b: str, type: str = "i64") -> str:
        return self.binary("sub", a, b, type)

    def mul(self, a: str, b: str, type: str = "i64") -> str:
        return self.binary("mul", a, b, type)

    def and_(self, a: str, b: str, type: str = "i64") -> str:
        return self.binary("and", a, b, type)

    def or_(self, a: str, b: str, type: str = "i64") -> str:
        return self.binary("or", a, b, type)

    def icmp(self, condition: str, a: str, b: str, type: str = "i64") -> str:
        return self.value(f"icmp {condition} {type} {a}, {b}")

    def is_null(self, pointer: str) -> str:
        return self.icmp("eq", pointer, "null", "ptr")

    def select(self, condition: str, a: str, b: str, type: str = "i64") -> str:
        return self.value(f"select i1 {condition}, {type} {a}, {type} {b}")

    def cast(self, op: str, value: str, source: str, target: str) -> str:
        """``zext``, ``sext``, ``trunc``, ``ptrtoint``, ``inttoptr`` …"""
        return self.value(f"{op} {source} {value} to {target}")

    def at(self, pointer: str, offset: str | int, type: str = "i8") -> str:
        """The address ``offset`` elements of ``type`` (bytes, unless said) after a pointer."""
        return pointer if offset in (0, "0") else self.value(f"getelementptr {type}, ptr {pointer}, i64 {offset}")

    def load(self, type: str, pointer: str, offset: str | int = 0, *, align: int | None = None) -> str:
        """Load the value ``offset`` bytes after a pointer."""
        return self.value(f"load {type}, ptr {self.at(pointer, offset)}, align {align or _align(type)}")

    def store(self, type: str, value: str, pointer: str, offset: str | int = 0) -> None:
        self.emit(f"store {type} {value}, ptr {self.at(pointer, offset)}, align {_align(type)}")

    def call(self, result: str, function: str, arguments: Sequence[tuple[str, str]], *, signature: str = "") -> str:
        """A call; ``arguments`` are (type, value). A variadic function's whole type is its ``signature``."""
        inside = ", ".join(f"{type} {value}" for type, value in arguments)
        text = f"call {signature or result} {function}({inside})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    # Atomics ----------------------------------------------------------------------------------------------------

    def load_atomic(self, type: str, pointer: str, order: str = "acquire") -> str:
        return self.value(f"load atomic {type}, ptr {pointer} {order}, align {_align(type)}")

    def store_atomic(self, type: str, value: str, pointer: str, order: str = "release") -> None:
        self.emit(f"store atomic {type} {value}, ptr {pointer} {order}, align {_align(type)}")

    def rmw(self, op: str, type: str, pointer: str, value: str, order: str = "acq_rel") -> str:
        """An atomic read-modify-write (``xchg``, ``add``, …); gives the old value."""
        return self.value(f"atomicrmw {op} ptr {pointer}, {type} {value} {order}, align {_align(type)}")

    def cas(self, type: str, pointer: str, expected: str, wanted: str) -> tuple[str, str]:
        """Compare and exchange; gives the value found and whether it was exchanged."""
        pair = self.value(f"cmpxchg ptr {pointer}, {type} {expected}, {type} {wanted} acq_rel acquire")
        return self.value(f"extractvalue {{ {type}, i1 }} {pair}, 0"), self.value(
            f"extractvalue {{ {type}, i1 }} {pair}, 1"
        )


def _align(type: str) -> int:
    return {"i8": 1, "i1": 1, "i16": 2, "i32": 4, "float": 4}.get(type, 8)
