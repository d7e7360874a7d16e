"""Tile registers (AMX) in NumPy: a text for them runs on any machine, each instruction a call of what it is defined as.

As strict as the processor: what faults there (registers that are not configured, shapes that do not fit) is an error
here, and so are reserved bits. Each thread has registers of its own.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from dyn.backends.amx import INSTRUCTIONS, TileInstruction, products

Array = np.ndarray[Any, Any]
PREFIX = "dyn_tile_"
_PALETTE, _REGISTERS, _ROWS, _ROW = 1, 8, 16, 64


class Registers(threading.local):
    """A thread's registers: rows of bytes, and how many there are of both; nothing without a configuration."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.tiles: list[Array] = []


class TileMachine:
    """The instructions, and the faults that there were."""

    def __init__(self) -> None:
        self.registers = Registers()
        self.faults: list[str] = []
        #: Names of the instructions that ran in any thread.
        self.ran: set[str] = set()
        pointer, number, register = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint8
        kinds: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
            "ldtilecfg": (self.configure, (pointer,)),
            "tilerelease": (self.release, ()),
            "tilezero": (self.zero, (register,)),
            "tileloadd64": (self.load, (register, pointer, number)),
            "tilestored64": (self.store, (register, pointer, number)),
            **{one.name: (partial(self.multiply, one), (register,) * 3) for one in INSTRUCTIONS},
        }
        self._functions = {
            name: ctypes.CFUNCTYPE(None, *types)(partial(self._run, name, function))
            for name, (function, types) in kinds.items()
        }

    @property
    def symbols(self) -> dict[str, int]:
        """The addresses of the instructions, by the names that a text has for them."""
        return {
            f"{PREFIX}{name}": ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self._functions.items()
        }

    def _run(self, name: str, function: Callable[..., None], *args: Any) -> None:
        """An instruction: Python's errors do not get through compiled code."""
        self.ran.add(name)
        try:
            function(*args)
        except Exception as error:
            self.faults.append(f"{name}{args}: {error}")

    def configure(self, address: int) -> None:
        raw = np.array(_memory(address, 64))
        sizes, rows = raw[16:32].view(np.uint16), raw[48:56]
        assert raw[0] == _PALETTE
        assert not np.concatenate([raw[1:16], raw[32:48], raw[56:]]).any(), "reserved bits"
        assert (sizes <= _ROW).all()
        assert (rows <= _ROWS).all()
        assert ((sizes == 0) == (rows == 0)).all()
        self.registers.shapes = [(int(r), int(s)) for r, s in zip(rows, sizes, strict=True)]
        self.registers.tiles = [np.zeros((_ROWS, _ROW), np.uint8) for _ in range(_REGISTERS)]

    def release(self) -> None:
        self.registers.shapes, self.registers.tiles = [], []

    def _shape(self, register: int) -> tuple[int, int]:
        assert self.registers.shapes, "no configuration"
        rows, size = self.registers.shapes[register]
        assert rows, f"register {register} has no rows"
        return rows, size

    def zero(self, register: int) -> None:
        self._shape(register)
        self.registers.tiles[register][:] = 0

    def load(self, register: int, address: int, stride: int) -> None:
        rows, size = self._shape(register)
        tile = np.zeros((_ROWS, _ROW), np.uint8)
        for row in range(rows):
            tile[row, :size] = _memory(address + row * stride, size)
        self.registers.tiles[register] = tile

    def store(self, register: int, address: int, stride: int) -> None:
        rows, size = self._shape(register)
        for row in range(rows):
            _memory(address + row * stride, size)[:] = self.registers.tiles[register][row, :size]

    def multiply(self, one: TileInstruction, acc: int, left: int, right: int) -> None:
        assert len({acc, left, right}) == 3
        (rows, size), (left_rows, left_size), (words, right_size) = [self._shape(r) for r in (acc, left, right)]
        assert rows == left_rows
        assert size == right_size
        assert left_size == 4 * words
        assert size % 4 == 0
        tiles = self.registers.tiles
        own = [
            tiles[r][:n, :s].copy() for r, n, s in ((acc, rows, size), (left, rows, left_size), (right, words, size))
        ]
        sums = own[0].view(one.acc)
        a = own[1].view(one.left).reshape(rows, words, one.group)
        b = own[2].view(one.right).reshape(words, size // 4, one.group)
        made = np.zeros((_ROWS, _ROW), np.uint8)
        made[:rows, :size] = np.ascontiguousarray(products(one, sums, a, b)).view(np.uint8).reshape(rows, size)
        tiles[acc] = made


def _memory(address: int, size: int) -> Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def in_software(text: str) -> str:
    """A text whose instructions of tile registers are calls of a TileMachine's."""
    names = [*[one.name for one in INSTRUCTIONS], "ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64"]
    for name in names:
        text = text.replace(f"@llvm.x86.{name}(", f"@{PREFIX}{name}(")
    return text


@contextmanager
def tile_machine() -> Iterator[TileMachine]:
    """A machine whose faults are errors at the end."""
    machine = TileMachine()
    yield machine
    assert not machine.faults, machine.faults[:5]
