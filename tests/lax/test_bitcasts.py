"""Bits as numbers of other widths: sizes that are demanded, refusals, examples, and StableHLO of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import lax
from dyn.errors import DynError, ShapeError, UnsupportedOpError
from dyn.interop.stablehlo import dump, load

SIZES = (0, 1, 2, 7, 64, 1000)


def bytes_of(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 256, shape, np.uint8)


def test_one_compile_cuts_and_joins_at_every_size() -> None:
    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        cut = lax.bitcast_convert_type(x, np.uint8)
        return cut + np.uint8(1), lax.bitcast_convert_type(cut, np.int16), lax.bitcast_convert_type(y, np.float32)

    for n in SIZES:
        words, bytes_ = bytes_of((n, 2)).view(np.int16).reshape(n), bytes_of((n, 3, 4))
        whole, back, floats = f(words, bytes_)
        np.testing.assert_array_equal(whole, words.view(np.uint8).reshape(n, 2) + np.uint8(1))
        np.testing.assert_array_equal(back, words)
        np.testing.assert_array_equal(floats, bytes_.view(np.float32)[..., 0])
    assert f.cache_info().compiles == 1


def test_what_is_cut_and_joined_again_is_what_was_there() -> None:
    def f(x: Any) -> Any:
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, np.uint16), np.float64)

    assert "bitcast_regroup" not in dyn.jit(f).lower(np.ones(3)).as_text()


def test_examples_are_cut_and_joined_alike() -> None:
    x = bytes_of((3, 5, 8)).view(np.float64)[..., 0]
    cut = dyn.vmap(lambda x: lax.bitcast_convert_type(x, np.int32), in_axes=1)(x)
    np.testing.assert_array_equal(cut, x.T.copy().view(np.int32).reshape(5, 3, 2))
    np.testing.assert_array_equal(dyn.vmap(lambda x: lax.bitcast_convert_type(x, np.float64))(cut), x.T)


def message(call: Callable[[], Any], kind: type[DynError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def test_refusals() -> None:
    x = np.ones((2, 3), np.complex64)
    assert message(lambda: lax.bitcast_convert_type(x, np.float32), UnsupportedOpError) == (
        "bitcast_regroup: complex64 has no bits to reinterpret: only integers and floats have\n"
        "  help: take the real and imaginary parts"
    )
    assert message(lambda: lax.bitcast_convert_type(x.real > 0, np.int8), UnsupportedOpError) == (
        "bitcast_convert: bool has no bits to reinterpret: only integers and floats have\n"
        "  help: convert it with .astype first"
    )
    assert message(lambda: lax.bitcast_convert_type(np.int8(1), np.int16), ShapeError) == (
        "bitcast_regroup: i8[] has no axis of 2 elements to join into one int16"
    )
    assert lax.bitcast_convert_type(x, np.complex64).shape == (2, 3)
    f = dyn.jit(lambda x: lax.bitcast_convert_type(x, np.int32))
    assert f(bytes_of((2, 4))).shape == (2,)
    assert message(lambda: f(bytes_of((2, 3))), ShapeError) == (
        "x_1 == 4 is required, but x_1 is 3: 4 elements of uint8 are joined into one int32.\n"
        "  x_1 is x.shape[1] = 3\n"
        "  help: pass arguments whose shapes satisfy it."
    )


def test_modules_of_jax_and_back() -> None:
    jax = pytest.importorskip("jax")
    n = jax.export.symbolic_shape("n")[0]
    args = jax.ShapeDtypeStruct((n,), np.float32), jax.ShapeDtypeStruct((n, 2), np.int8)

    def f(x: Any, y: Any) -> Any:
        return jax.lax.bitcast_convert_type(x, np.uint8), jax.lax.bitcast_convert_type(y, np.float16)

    loaded = load(jax.export.export(jax.jit(f))(*args).mlir_module_serialized)
    again = load(dump(loaded.lower(np.ones(3, np.float32), np.ones((3, 2), np.int8))))
    for size in (1, 2, 7):
        x, y = bytes_of((size, 4)).view(np.float32)[:, 0], bytes_of((size, 2)).view(np.int8)
        for program in (loaded, again):
            for one, other in zip(program(x, y), f(x, y), strict=True):
                np.testing.assert_array_equal(one, np.asarray(other))
