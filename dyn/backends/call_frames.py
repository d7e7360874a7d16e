"""Frames of calls by Python: the tensors that a host program reads and writes, and what it has told so far."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.runtime.limits import UNANSWERED

Array = np.ndarray[Any, Any]

# A tensor is four words of eight bytes: data, dtype and rank, dims, strides. The dtype of an input says whether its
# memory is to be taken.
_WORDS, _DATA, _RANK, _DIMS = 4, 0, 1, 2
_NO_SITE = -1


class CallFrame:
    """The tensors of one call, laid out once and used by one call at a time; and what the call has been told so far.

    ``ranks`` are those of all tensors, ``typestrs`` the inputs' dtypes and ``dtypes`` the outputs'.

    Words: a tensor an input, a tensor an output, then the dims of each in turn.
    """

    def __init__(self, ranks: Sequence[int], typestrs: Sequence[str], dtypes: Sequence[np.dtype[Any]]) -> None:
        inputs = len(typestrs)
        self.words = (ctypes.c_int64 * (_WORDS * len(ranks) + sum(ranks) + 1))()
        self.address = ctypes.addressof(self.words)
        #: For each tensor the number of its first word, and where its dims begin and end.
        self.places: list[tuple[int, int, int]] = []
        at = _WORDS * len(ranks)
        for number, rank in enumerate(ranks):
            first = _WORDS * number
            self.words[first + _RANK] = rank << 32
            self.words[first + _DIMS] = self.address + 8 * at
            self.places.append((first, at, at + rank))
            at += rank
        self.inputs = inputs
        #: The dtypes of the inputs, as NumPy's interface of arrays has them.
        self.typestrs = typestrs
        self.out_address = self.address + 8 * _WORDS * inputs
        self.dtypes = dtypes
        self.outputs: list[Any] = []
        self.site = _NO_SITE
        self.values: tuple[int, ...] = ()
        self.error: BaseException | None = None
        #: Of a call on a device, the address of its runtime table.
        self.beside: int | None = None

    def put(self, number: int, array: Array) -> bool:
        """Describe an array that compiled code can read; the caller keeps it alive.

        It is read once: False, and nothing is described, where it has another dtype or rank than the tensor, as one
        whose dtype or shape was set in place since the program was found.
        """
        now = array.__array_interface__
        _, start, end = self.places[number]
        if now["typestr"] != self.typestrs[number] or len(now["shape"]) != end - start:
            return False
        self.describe(number, now["data"][0], now["shape"])
        return True

    def describe(self, number: int, address: int, shape: tuple[int, ...]) -> None:
        """Describe a dense array by its address and shape."""
        first, start, end = self.places[number]
        self.words[first] = address
        if start < end:
            self.words[start:end] = shape

    def label(self, tags: Sequence[int]) -> None:
        """Note a word of 32 bits with each output, for who is asked for its memory."""
        for number, tag in enumerate(tags, self.inputs):
            first, start, end = self.places[number]
            self.words[first + _RANK] = (end - start) << 32 | tag

    def tensor(self, number: int) -> tuple[int, tuple[int, ...]]:
        """The address and the shape of a tensor, inputs first."""
        first, start, end = self.places[number]
        return self.words[first], tuple(self.words[start:end])

    def data(self, index: int) -> int:
        """The address of an output's memory, as far as native code has noted it; 0 where it has not."""
        return self.tensor(self.inputs + index)[0]

    def give(self, number: int, given: int) -> None:
        """Whether the output that may take an input's memory has to take it."""
        first, start, end = self.places[number]
        self.words[first + _RANK] = (end - start) << 32 | given

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of an output, once the call has computed it."""
        return self.tensor(self.inputs + index)[1]

    def begin(self) -> None:
        self.outputs = [None] * len(self.dtypes)
        for index in range(len(self.dtypes)):
            self.words[self.places[self.inputs + index][0]] = 0
        self.error = None
        self.site, self.values = _NO_SITE, ()

    def interrupted(self) -> bool:
        """Whether Python was asked for memory, or told of a failure, and an exception came before it could answer."""
        asked = [self.words[self.places[self.inputs + index][0]] for index in range(len(self.outputs))]
        return self.site == _NO_SITE or any(
            data == UNANSWERED and array is None for data, array in zip(asked, self.outputs, strict=True)
        )

    def allocate(self, index: int) -> int:
        """The memory of a new output, whose dims have been written."""
        array = self.outputs[index] = np.empty(self.shape(index), self.dtypes[index])
        return array.__array_interface__["data"][0]


def shapes_and_tags(address: int, count: int) -> list[tuple[tuple[int, ...], int]]:
    """The shape of each of so many tensors at an address, and what it is tagged with."""
    words = (ctypes.c_int64 * (_WORDS * count)).from_address(address)
    found: list[tuple[tuple[int, ...], int]] = []
    for first in range(0, _WORDS * count, _WORDS):
        rank, tag = words[first + _RANK] >> 32, words[first + _RANK] & 0xFFFFFFFF
        found.append((tuple((ctypes.c_int64 * rank).from_address(words[first + _DIMS])) if rank else (), tag))
    return found


class _Frames(threading.local):
    """The frames of the calls in progress on this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[CallFrame] = []


FRAMES = _Frames()
