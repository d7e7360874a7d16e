"""Programs that were once compiled wrongly or not at all: each was found by a random one."""

from __future__ import annotations

import pytest

from dyn import dtypes
from tests.models.checked import check_program
from tests.models.random_programs import SIZES, Argument, Program


def program(text: str, results: str, *, special: bool = False, **arguments: str) -> Program:
    """A program of lines; an argument is ``x="float32 n 3"``, and may say after a colon how its memory lies."""
    made: list[Argument] = []
    for name, spec in arguments.items():
        kind, _, layout = spec.partition(": ")
        dtype, *axes = kind.split()
        made.append(
            Argument(name, dtypes.dtype(dtype), tuple(int(a) if a.isdigit() else a for a in axes), layout or "C")
        )
    calls = tuple(dict.fromkeys("nmk", size) for size in SIZES[:-1])
    return Program(
        tuple(made), tuple(filter(None, map(str.strip, text.splitlines()))), (results,), False, special, calls, 1
    )


FOUND = {
    "a row of a softmax whose reduced axis is read at one place": program(
        """
        v0 = dyn.nn.softmax(x, axis=-2)
        v1 = v0[0]
        v2 = dnp.logical_xor(v1, v1)
        """,
        "v2", x="uint32 3 n",
    ),
    "a tile of a layer norm beside what it reads": program(
        """
        v0 = dyn.nn.layer_norm(dnp.astype(x, 'float16'), axis=-1)
        v1 = dnp.tile(v0, 2)
        """,
        "v1", x="float64 n",
    ),
    "the direction of a complex number with an infinite part": program(
        "v0 = dnp.sign(x)", "v0", special=True, x="complex128 n",
    ),
    "a convolution of a row shown several times, whose neighbours in memory are not those of the image": program(
        """
        v0 = dnp.broadcast_to(x, (1, 3, 2))
        v1 = dyn.nn.conv(v0, y, 1, 'VALID', dimension_numbers=('NHC', 'HIO', 'NHC'))
        """,
        "v1", x="float32 2", y="float32 2 2 2",
    ),
    "a convolution of every other channel, and of pixels backwards": program(
        """
        v0 = dyn.nn.conv(x[..., ::2], y, 1, 'VALID', dimension_numbers=('NHC', 'HIO', 'NHC'))
        v1 = dyn.nn.conv(x[:, ::-1, :2], y, 2, 'SAME', dimension_numbers=('NHC', 'HIO', 'NHC'))
        v2 = dnp.concatenate([v0, v1], axis=1)
        """,
        "v2", x="float32 2 n 4", y="float32 2 2 2",
    ),
    "a convolution of an image without rows": program(
        """
        v0 = dnp.reshape(x[:0], (1, -1, 3, 2))
        v1 = dyn.nn.conv(v0, dnp.ones((2, 2, 2, 2), 'float32'), dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
        """,
        "v1", x="float32 6",
    ),
    "the logarithm of the gamma function at the lower infinity": program(
        "v0 = dyn.lax.lgamma(x)", "v0", special=True, x="float32 n",
    ),
    "a derivative of an operation that is given one array twice": program(
        """
        v0 = (dnp.sum(x, 1) * 0.1).astype('float64')
        v1 = dyn.grad(lambda a: dnp.sum(dyn.lax.batch_norm_grad(a, v0, v0, v0 * v0, a, 0.1, 0)[0]))(x)
        """,
        "v1", x="float64 n 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    check_program(FOUND[name])
