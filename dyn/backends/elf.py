"""Loads relocatable x86-64 ELF objects without a linker and without LLVM.

What LLVM emits for position-independent code is simple: a few sections and a handful of kinds of relocation (System V
ABI, AMD64 supplement, table 4.9). Loading it here takes a fraction of a millisecond, so that a program whose code was
kept from an earlier run starts without importing llvmlite.

Memory is written first and made executable or read-only afterwards, never both at once, and is never unmapped. Calls
out of the object go through stubs, since what they call may be more than 2 GiB away. Unwind tables are left out: no
exception passes through compiled code.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from dyn.errors import ArtifactError
from dyn.frozen import record


class UnsupportedObject(Exception):
    """An object that is not broken, but needs more than this loader does: a real linker has to load it."""


# ---- the format ------------------------------------------------------------------------------------------------------

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_ET_REL, _EM_X86_64 = 1, 62
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL, _SHT_UNWIND = 2, 4, 8, 9, 0x70000001
#: Arrays of functions that a loader would have to call.
_SHT_INIT = frozenset({14, 15, 16})
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_SHN_UNDEF, _SHN_RESERVED, _SHN_ABS = 0, 0xFF00, 0xFFF1
_STB_LOCAL, _STT_TLS, _STT_IFUNC = 0, 6, 10

# Kinds of relocation, by what is stored: S the symbol, A the addend, P the place, G the symbol's slot, L its stub.
_NONE, _ABS64, _PC32, _PLT32, _GOTPCREL, _ABS32, _ABS32S, _PC64, _GOTPCRELX, _REX_GOTPCRELX = (
    0, 1, 2, 4, 9, 10, 11, 24, 41, 42,
)  # fmt: skip
_GOT_KINDS = frozenset({_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX})
_SIZES = {_ABS64: 8, _PC64: 8, _PC32: 4, _PLT32: 4, _ABS32: 4, _ABS32S: 4} | dict.fromkeys(_GOT_KINDS, 4)

_PAGE = 4096
#: jmp *0(%rip), then the address that it jumps to.
_STUB = struct.Struct("<6sQ2x")
_JUMP = b"\xff\x25\x00\x00\x00\x00"
#: What an object may take in memory; more is a corrupted size.
_MOST_BYTES = 1 << 30


@record()
class _ElfSection:
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    @property
    def loaded(self) -> bool:
        return bool(self.flags & _SHF_ALLOC) and self.type != _SHT_UNWIND


@record()
class _ElfSymbol:
    name: str
    binding: int
    type: int
    section: int
    value: int


@record()
class _Relocation:
    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@record()
class _Object:
    sections: tuple[_ElfSection, ...]
    symbols: tuple[_ElfSymbol, ...]
    relocations: tuple[_Relocation, ...]


def _broken(what: str) -> NoReturn:
    raise ArtifactError(f"this is not an ELF object for x86-64: {what}.")


def _parse(data: bytes) -> _Object:
    """Everything that loading looks at, with every offset and number checked."""
    if len(data) < _EHDR.size:
        _broken("it is cut off")
    try:
        ident, type_, machine, _, _, _, at, _, _, _, _, size, count, _ = _EHDR.unpack_from(data)
        if ident[:6] != b"\x7fELF\x02\x01":
            _broken("it does not begin as one")
        if (type_, machine, size) != (_ET_REL, _EM_X86_64, _SHDR.size):
            _broken(f"type {type_}, machine {machine}, section headers of {size} bytes")
        if at + count * size > len(data):
            _broken("it is cut off")
        sections = tuple([_section(data, at + i * size) for i in range(count)])
        symbols = _symbols(data, sections)
        return _Object(sections, symbols, _relocations(data, sections, symbols))
    except (struct.error, UnicodeDecodeError) as error:
        raise ArtifactError(f"this is not an ELF object for x86-64: {error}.") from error


def _section(data: bytes, at: int) -> _ElfSection:
    _, type_, flags, _, offset, size, link, info, align, _ = _SHDR.unpack_from(data, at)
    section = _ElfSection(type_, flags, offset, size, link, info, max(align, 1))
    if type_ != _SHT_NOBITS and offset + size > len(data):
        _broken("a section lies outside it")
    if size > _MOST_BYTES:
        _broken(f"a section has {size} bytes")
    if section.loaded:
        if section.align & (section.align - 1):
            _broken(f"a section is aligned to {align} bytes")
        if section.align > _PAGE:
            raise UnsupportedObject(f"a section is aligned to {align} bytes")
        if flags & _SHF_TLS or type_ in _SHT_INIT:
            raise UnsupportedObject("it has thread-local data or constructors")
        if flags & _SHF_WRITE and flags & _SHF_EXEC:
            raise UnsupportedObject("a section is both writable and executable")
    return section


def _symbols(data: bytes, sections: tuple[_ElfSection, ...]) -> tuple[_ElfSymbol, ...]:
    tables = [s for s in sections if s.type == _SHT_SYMTAB]
    if len(tables) != 1 or tables[0].link >= len(sections):
        _broken("it has no symbol table of its own")
    names = sections[tables[0].link]
    if names.type == _SHT_NOBITS:
        _broken("its names are missing")
    strings = data[names.offset : names.offset + names.size]
    if tables[0].size % _SYM.size:
        _broken("its symbol table is cut off")
    table = data[tables[0].offset : tables[0].offset + tables[0].size]
    symbols: list[_ElfSymbol] = []
    for name, info, _, section, value, _ in _SYM.iter_unpack(table):
        end = strings.find(b"\0", name)
        if end < 0:
            _broken("a name has no end")
        if section < _SHN_RESERVED and (section >= len(sections) or (section and value > sections[section].size)):
            _broken("a symbol lies outside its section")
        symbols.append(_ElfSymbol(strings[name:end].decode(), info >> 4, info & 15, section, value))
    return tuple(symbols)


def _relocations(
    data: bytes, sections: tuple[_ElfSection, ...], symbols: tuple[_ElfSymbol, ...]
) -> tuple[_Relocation, ...]:
    found: list[_Relocation] = []
    for table in sections:
        if table.type not in (_SHT_RELA, _SHT_REL):
            continue
        if table.info >= len(sections) or table.size % _RELA.size:
            _broken("a relocation table is cut off, or is for no section")
        target = sections[table.info]
        if not target.loaded:
            continue
        if table.type == _SHT_REL:
            raise UnsupportedObject("a relocation without an addend")
        if target.type == _SHT_NOBITS:
            _broken("a relocation of a section that has no contents")
        for offset, info, addend in _RELA.iter_unpack(data[table.offset : table.offset + table.size]):
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            if kind == _NONE:
                continue
            if kind not in _SIZES:
                raise UnsupportedObject(f"a relocation of kind {kind}")
            if symbol >= len(symbols) or offset + _SIZES[kind] > target.size:
                _broken("a relocation lies outside its section")
            found.append(_Relocation(table.info, offset, kind, symbol, addend))
    return tuple(found)


# ---- memory ----------------------------------------------------------------------------------------------------------

_READ, _WRITE, _EXEC = 1, 2, 4
_PRIVATE_ANONYMOUS = 0x22
_FAILED = 2**64 - 1


@record()
class _Libc:
    mmap: Callable[..., int | None]
    mprotect: Callable[..., int]
    munmap: Callable[..., int]


@lru_cache(maxsize=1)
def _libc() -> _Libc:
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    functions = _Libc(library.mmap, library.mprotect, library.munmap)
    library.mmap.restype = pointer
    library.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_long)
    library.mprotect.argtypes = (pointer, size, number)
    library.munmap.argtypes = (pointer, size)
    return functions


def _map(size: int) -> int:
    """New memory that can be written. It belongs to no Python object: nothing ever unmaps it."""
    address = _libc().mmap(None, size, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if address is None or address == _FAILED:
        raise MemoryError(f"no {size} bytes of memory for code")
    return address


def _protect(address: int, size: int, how: int) -> None:
    if size and _libc().mprotect(address, size, how):
        raise UnsupportedObject("this system refuses to make memory executable")


def map_code(code: bytes) -> int:
    """The address of machine code that refers to nothing outside itself, in memory that is never unmapped.

    UnsupportedObject where the system does not let a process make code.
    """
    size = _round(len(code), _PAGE)
    address = _map(size)
    ctypes.memmove(address, code, len(code))
    try:
        _protect(address, size, _READ | _EXEC)
    except UnsupportedObject:
        _libc().munmap(address, size)
        raise
    return address


# ---- loading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Libraries in which names are looked up: the process's, and libm, which it may not have loaded for all."""
    found = [ctypes.CDLL(None)]
    with contextlib.suppress(OSError):  # a C library that is all in one file
        found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)


def process_symbol(name: str) -> int | None:
    """The address of a C function in this process, such as ``expf`` or ``memcpy``."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
    return None


@dataclass(slots=True)
class _Image:
    """An object's memory under construction: code and stubs, then constants and slots, then data."""

    object: _Object
    imports: Mapping[str, int]
    #: Where each loaded section lies in the image.
    places: dict[int, int] = field(default_factory=dict[int, int])
    stubs: dict[int, int] = field(default_factory=dict[int, int])
    slots: dict[int, int] = field(default_factory=dict[int, int])
    #: Where constants and data begin, and the whole ends; multiples of a page.
    constants: int = 0
    data: int = 0
    size: int = 0
    base: int = 0

    def lay_out(self) -> None:
        at = self._place(0, lambda flags: bool(flags & _SHF_EXEC))
        at = _round(at, _STUB.size)
        for relocation in self.object.relocations:
            if relocation.kind == _PLT32 and self._is_undefined(relocation.symbol):
                if relocation.symbol not in self.stubs:
                    self.stubs[relocation.symbol] = at
                    at += _STUB.size
        self.constants = at = _round(at, _PAGE)
        at = self._place(at, lambda flags: not flags & (_SHF_EXEC | _SHF_WRITE))
        at = _round(at, 8)
        for relocation in self.object.relocations:
            if relocation.kind in _GOT_KINDS and relocation.symbol not in self.slots:
                self.slots[relocation.symbol] = at
                at += 8
        self.data = at = _round(at, _PAGE)
        self.size = _round(self._place(at, lambda flags: bool(flags & _SHF_WRITE)), _PAGE)
        if self.size > _MOST_BYTES:
            _broken(f"it takes {self.size} bytes")

    def _place(self, at: int, wanted: Callable[[int], bool]) -> int:
        for number, section in enumerate(self.object.sections):
            if section.loaded and wanted(section.flags):
                at = self.places[number] = _round(at, section.align)
                at += section.size
        return at

    def _is_undefined(self, symbol: int) -> bool:
        return self.object.symbols[symbol].section == _SHN_UNDEF

    def address(self, number: int) -> int:
        """Address of a symbol."""
        symbol = self.object.symbols[number]
        if symbol.type in (_STT_TLS, _STT_IFUNC):
            raise UnsupportedObject(f"{symbol.name} is no plain symbol")
        if symbol.section == _SHN_ABS:
            return symbol.value
        if symbol.section != _SHN_UNDEF:
            place = self.places.get(symbol.section)
            if place is None:
                raise UnsupportedObject(f"{symbol.name} is in a section that is not loaded")
            return self.base + place + symbol.value
        if number == 0:
            return 0  # "no symbol": the addend is all
        found = self.imports.get(symbol.name)
        if found is None:
            found = process_symbol(symbol.name)
        if found is None:
            raise UnsupportedObject(f"{symbol.name} is not in this process")
        return found

    def build(self, data: bytes) -> bytearray:
        """The contents, for memory at ``base``."""
        image = bytearray(self.size)
        for number, place in self.places.items():
            section = self.object.sections[number]
            if section.type != _SHT_NOBITS:
                image[place : place + section.size] = data[section.offset : section.offset + section.size]
        for symbol, place in self.stubs.items():
            _STUB.pack_into(image, place, _JUMP, self.address(symbol))
        for symbol, place in self.slots.items():
            struct.pack_into("<Q", image, place, self.address(symbol))
        for relocation in self.object.relocations:
            self._relocate(image, relocation)
        return image

    def _relocate(self, image: bytearray, relocation: _Relocation) -> None:
        kind, symbol = relocation.kind, relocation.symbol
        place = self.places[relocation.section] + relocation.offset
        if kind in _GOT_KINDS:
            target = self.base + self.slots[symbol]
        elif kind == _PLT32 and symbol in self.stubs:
            target = self.base + self.stubs[symbol]
        else:
            target = self.address(symbol)
        value = target + relocation.addend
        if kind not in (_ABS64, _ABS32, _ABS32S):
            value -= self.base + place
        width = _SIZES[kind]
        signed = kind in (_ABS32S, _PC64) or (width == 4 and kind != _ABS32)
        low, high = (-(1 << 8 * width - 1), 1 << 8 * width - 1) if signed else (0, 1 << 8 * width)
        if not low <= value < high:
            raise UnsupportedObject(f"{self.object.symbols[symbol].name} is too far away")
        image[place : place + width] = value.to_bytes(width, "little", signed=signed)


def load_object(data: bytes, exported: tuple[str, ...], imports: Mapping[str, int] | None = None) -> dict[str, int]:
    """Map a relocatable object and return the addresses of the symbols ``exported``.

    What it calls is looked for in ``imports`` and then in the process. ArtifactError for bytes that are not a whole
    object or do not define those symbols; UnsupportedObject where a real linker is needed, or where the system does
    not let a process make code; MemoryError. Then nothing stays mapped.
    """
    if sys.platform != "linux" or sys.byteorder != "little" or struct.calcsize("P") != 8:
        raise UnsupportedObject("this is not Linux on x86-64")
    parsed = _parse(data)
    defined = {s.name: i for i, s in enumerate(parsed.symbols) if s.binding != _STB_LOCAL and s.section != _SHN_UNDEF}
    missing = [name for name in exported if name not in defined]
    if missing:
        _broken(f"it does not define {', '.join(missing)}")
    image = _Image(parsed, {} if imports is None else imports)
    image.lay_out()
    if image.size == 0:
        _broken("it has no contents")
    image.base = _map(image.size)
    try:
        contents = image.build(data)
        addresses = {name: image.address(defined[name]) for name in exported}
        ctypes.memmove(image.base, (ctypes.c_char * image.size).from_buffer(contents), image.size)
        _protect(image.base, image.constants, _READ | _EXEC)
        _protect(image.base + image.constants, image.data - image.constants, _READ)
    except BaseException:
        _libc().munmap(image.base, image.size)
        raise
    return addresses


def _round(value: int, to: int) -> int:
    return (value + to - 1) // to * to
