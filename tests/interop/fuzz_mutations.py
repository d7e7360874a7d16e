"""Modules that nobody meant: mutations of bytes, and of a text's words and lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

NUMBERS = (
    "0", "1", "-1", "2", "7", "63", "64", "100", "255", "2147483647", "2147483648", "-2147483649", "4294967296",
    "1000000000000", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "?",
)  # fmt: skip
ELEMENTS = (
    "i1", "i4", "i8", "ui8", "i32", "i64", "ui64", "i128", "f8E4M3FN", "f16", "bf16", "f32", "f64", "f128", "tf32",
    "index", "complex<f32>", "complex<f64>", "complex<i32>", "!quant.uniform<i8:f32, 0.5>", "!stablehlo.token",
    "vector<2xf32>",
)  # fmt: skip
TYPES = (
    "tensor<f32>", "tensor<?xf32>", "tensor<0xf32>", "tensor<*xf32>",
    "tensor<9223372036854775807x9223372036854775807xf32>",
    "tensor<1000000000000xf32>", "tensor<?x?x?xi64>", "tuple<tensor<f32>, tensor<i32>>", "!stablehlo.token", "f32",
    "index", "memref<2xf32>", "tensor<2xf32, #stablehlo.bounds<5>>", "tensor<?xf32, #stablehlo.bounds<5>>", "()",
)  # fmt: skip
_WORD = re.compile(r'"[^"\n]*"|[%@#!^]?[A-Za-z_][\w.$]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\S')
_SIZE = re.compile(r"(?<=<)[\dx?]+x(?=[a-z!])")
_TENSOR = re.compile(r"tensor<[^<>]*>")
_ELEMENT = re.compile(r"(?<=x)(?:i|ui|f|bf)\d+\b")


def mutated(source: str | bytes, others: Sequence[str | bytes], rng: random.Random) -> str | bytes:
    """One to four mutations of a module; a text may be mutated as bytes too."""
    if isinstance(source, str) and rng.random() < 0.85:
        texts = [o for o in others if isinstance(o, str)]
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            source = rng.choice(_OF_TEXT)(source, texts, rng)
        return source
    data = source.encode() if isinstance(source, str) else source
    blobs = [o.encode() if isinstance(o, str) else o for o in others]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(_OF_BYTES)(data, blobs, rng)
    return data


# --- bytes ------------------------------------------------------------------------------------------------------------


def _flip(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _overwrite(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    place, count = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 4, 8))
    return (
        data[:place] + rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", rng.randbytes(1))) * count + data[place + count :]
    )


def _cut(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[place + rng.choice((1, 1, 2, 8, 64)) :]


def _repeat(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    last = min(len(data), first + rng.choice((1, 4, 16, 256)))
    return data[:last] + data[first:last] * rng.choice((1, 1, 2, 100)) + data[last:]


def _splice(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(blobs)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _move(data: bytes, blobs: Sequence[bytes], rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    part = data[first : first + rng.choice((1, 4, 16, 64))]
    rest = data[:first] + data[first + len(part) :]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + part + rest[place:]


_OF_BYTES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip, _flip, _flip, _overwrite, _overwrite, _cut, _drop, _repeat, _splice, _move,
)  # fmt: skip


# --- text -------------------------------------------------------------------------------------------------------------


def _replaced(text: str, pattern: re.Pattern[str], new: Callable[[str], str], rng: random.Random) -> str:
    """One place, or a word wherever it stands."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    if rng.random() < 0.25:
        return text.replace(one[0], new(one[0]))
    return text[: one.start()] + new(one[0]) + text[one.end() :]


def _number(text: str, texts: Sequence[str], rng: random.Random) -> str:
    return _replaced(text, re.compile(r"-?\b\d+\b"), lambda _: rng.choice(NUMBERS), rng)


def _size(text: str, texts: Sequence[str], rng: random.Random) -> str:
    sizes = "".join(f"{rng.choice(NUMBERS[:6] + NUMBERS[11:])}x" for _ in range(rng.randrange(4)))
    return _replaced(text, _SIZE, lambda _: sizes, rng)


def _type(text: str, texts: Sequence[str], rng: random.Random) -> str:
    return _replaced(text, _TENSOR, lambda _: rng.choice(TYPES), rng)


def _element(text: str, texts: Sequence[str], rng: random.Random) -> str:
    chosen = rng.choice(ELEMENTS)
    return _replaced(text, _ELEMENT, lambda _: chosen, rng)


def _word(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """A word becomes another one, of this text or of another."""
    words = _WORD.findall(rng.choice((text, text, rng.choice(texts))))
    return _replaced(text, _WORD, lambda _: rng.choice(words) if words else "", rng)


def _alike(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """A word becomes one of its kind: a value, a function, an operation."""
    words = _WORD.findall(text)
    one = rng.choice(words) if words else ""
    kind = one[0] if one and one[0] in "%@#!^" else "stablehlo." if one.startswith("stablehlo.") else ""
    like = [w for w in words if kind and w.startswith(kind)] or words or [""]
    return _replaced(text, re.compile(re.escape(one) if one else "$^"), lambda _: rng.choice(like), rng)


def _less(text: str, texts: Sequence[str], rng: random.Random) -> str:
    return _replaced(text, _WORD, lambda _: "", rng)


def _lines(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """Lines that are dropped, doubled, moved, or another module's."""
    lines = text.split("\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[place]
        case 1:
            lines.insert(other, lines[place])
        case 2:
            lines[place], lines[other] = lines[other], lines[place]
        case _:
            lines.insert(place, rng.choice(rng.choice(texts).split("\n")))
    return "\n".join(lines)


def _nested(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """Brackets in brackets, a few or very many."""
    depth = rng.choice((2, 20, 150, 400, 5000, 100_000))
    opened, closed = rng.choice((("(", ")"), ("[", "]"), ("{", "}"), ("tuple<", ">"), ("dense<", ">"), ("loc(", ")")))
    place = rng.randrange(len(text) + 1)
    inner = text[place : place + rng.choice((0, 0, 5, 50))]
    ends = closed * depth if rng.random() < 0.7 else ""
    return text[:place] + opened * depth + inner + ends + text[place + len(inner) :]


def _renamed_functions(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """Calls go to another function, to the caller itself perhaps."""
    names = re.findall(r"func\.func (?:\w+ )*@(\w+)", text) or ["main"]
    return _replaced(text, re.compile(r"(?<=call )@\w+"), lambda _: f"@{rng.choice(names)}", rng)


def _attributes(text: str, texts: Sequence[str], rng: random.Random) -> str:
    """An attribute gets another name, or the value of another one."""
    values = re.findall(r"= ([^,{}=\n]+)", text) or ["1"]
    if rng.random() < 0.4:
        return _replaced(
            text, re.compile(r"\w+(?= = [^%])"), lambda w: rng.choice((w + "s", "x", "value", "dimension")), rng
        )
    return _replaced(text, re.compile(r"(?<== )[^,{}=\n]+"), lambda _: rng.choice(values), rng)


_OF_TEXT: tuple[Callable[[str, Sequence[str], random.Random], str], ...] = (
    _number, _number, _number, _size, _size, _type, _type, _element, _element, _word, _alike, _alike, _less, _lines,
    _lines, _nested, _renamed_functions, _attributes, _attributes,
)  # fmt: skip
