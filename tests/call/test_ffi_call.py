"""Native functions that programs call: compiled C, functions of ctypes, and machine code made here."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ArgumentError, DynError, ExternalError, UnsupportedOpError
from tests.threads import in_threads

Array = Any
SIZES = (0, 1, 2, 7, 64, 1000)

SOURCE = r"""
#include <stdint.h>
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data; DLDataType dtype; int32_t rank; const int64_t *dims; const int64_t *strides;
} Tensor;

int32_t outer(void *context, const Tensor *in, Tensor *out) {
    if (in[0].dtype.code != 2 || in[0].dtype.bits != 32 || in[0].dtype.lanes != 1) return 7;
    if (in[0].rank != 1 || in[1].rank != 1 || out[0].rank != 2 || in[0].strides) return 8;
    int64_t n = in[0].dims[0], m = in[1].dims[0];
    float scale = context ? *(float *)context : 1.0f;
    const float *x = in[0].data, *y = in[1].data;
    float *z = out[0].data;
    for (int64_t i = 0; i < n; i++) for (int64_t j = 0; j < m; j++) z[i * m + j] = scale * x[i] * y[j];
    return 0;
}
"""


class Tensor(ctypes.Structure):
    """The C struct."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
    )  # fmt: skip

    def array(self) -> Array:
        shape = tuple(self.dims[: self.rank])
        count = int(np.prod(shape))
        memory: Any = (ctypes.c_float * count).from_address(self.data or 8)
        return np.frombuffer(memory, np.float32, count).reshape(shape)


SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.POINTER(Tensor))


@SIGNATURE
def plus_one(context: Any, inputs: Any, outputs: Any) -> int:
    """A C function made of Python, so that nothing needs a compiler."""
    outputs[0].array()[...] = inputs[0].array() + 1
    return 0


@SIGNATURE
def refuses(context: Any, inputs: Any, outputs: Any) -> int:
    return 3


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=2e-5, atol=2e-5)


def text_of(kind: type[DynError], call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*args)
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  at "))


def same(x: Any) -> Any:
    return x


@pytest.fixture(scope="module")
def library(require_tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = require_tool("gcc", "g++", "cc")
    folder = tmp_path_factory.mktemp("ffi")
    (folder / "outer.c").write_text(SOURCE)
    made = folder / "outer.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", made, folder / "outer.c"], check=True)
    return made


def outer_of(library: Path, **options: Any) -> Any:
    def rule(x: Any, y: Any) -> Any:
        return dyn.ShapeDtypeStruct((x.shape[0], y.shape[0]), "float32")

    return dyn.ffi_call((library, "outer"), rule, **options)


def test_a_function_of_a_library(library: Path) -> None:
    outer = outer_of(library, context=ctypes.c_float(2))
    f = dyn.jit(lambda x, y: outer(x + 1, y) + 1)
    for n in SIZES:
        for m in (0, 1, 3):
            x, y = floats(n), floats(m, seed=1)
            close(f(x, y), 2 * np.outer(x + 1, y) + 1)
    assert f.cache_info().compiles == 1
    close(outer(floats(2), floats(3)), 2 * np.outer(floats(2), floats(3)))
    close(dyn.jit(lambda x: outer(dnp.transpose(x)[0], x[:, 0]))(floats(4, 5)), 2 * np.outer(*[floats(4, 5)[:, 0]] * 2))


def test_the_reference_calls_it_too(library: Path) -> None:
    outer = outer_of(library, context=ctypes.c_float(2), errors={7: "it takes float32"})
    f = dyn.jit(lambda x, y: outer(x + 1, y[::2]) + 1)
    for n in (0, 1, 3):
        close(f.reference(floats(n), floats(5)), f(floats(n), floats(5)))
    scalar = dyn.ffi_call(plus_one, dyn.ShapeDtypeStruct((), "float32"))
    close(dyn.jit(scalar).reference(np.float32(2)), 3)
    with pytest.raises(ExternalError) as caught:
        dyn.jit(outer).reference(floats(2).astype(np.float64), floats(2))
    assert caught.value.problem == "ffi_call of outer failed: it returned 7, it takes float32."


def test_its_errors_by_number(library: Path) -> None:
    outer = outer_of(library, errors={7: "it takes float32"})
    wide = floats(2).astype(np.float64)
    f = dyn.jit(outer)
    for call in (f, outer, f):
        with pytest.raises(ExternalError) as caught:
            call(wide, wide)
        lines = str(caught.value).splitlines()
        assert lines[0] == "ffi_call of outer failed: it returned 7, it takes float32."
        assert lines[1].startswith("  at test_ffi_call.py:")
    with pytest.raises(RuntimeError):
        f(wide, wide)
    close(f(floats(2), floats(2)), np.outer(floats(2), floats(2)))


def test_its_derivative_and_many_examples(library: Path) -> None:
    def pull(args: Any, result: Any, ct: Any) -> Any:
        x, y = args
        return dnp.sum(ct * y, axis=1), dnp.sum(ct * x[:, None], axis=0)

    outer = outer_of(library, vjp=pull, vmap_method="sequential")
    x, y = floats(2), floats(3, seed=1)
    for f in (dyn.grad(lambda x, y: dnp.sum(outer(x, y) ** 2), argnums=(0, 1)),):
        for made in (f(x, y), dyn.jit(f)(x, y)):
            close(made[0], 2 * x * np.sum(y * y))
            close(made[1], 2 * y * np.sum(x * x))
    many = dyn.vmap(outer, in_axes=(0, None))
    close(many(floats(4, 2), y), floats(4, 2)[:, :, None] * y)
    assert many(floats(0, 2), y).shape == (0, 2, 3)
    plain = outer_of(library)
    assert text_of(UnsupportedOpError, dyn.grad(lambda x: dnp.sum(plain(x, y))), x) == (
        "custom_call: ffi_call of outer has no derivative: what it computes is not known.\n"
        "  help: give the function around it a dyn.custom_vjp or a dyn.custom_jvp."
    )
    assert text_of(UnsupportedOpError, dyn.vmap(plain, in_axes=(0, None)), floats(4, 2), y).splitlines()[0] == (
        "vmap: ffi_call of outer says nothing of how it is called for many examples."
    )


def test_functions_of_ctypes() -> None:
    add = dyn.ffi_call(plus_one, same, vmap_method="broadcast_all")
    f = dyn.jit(lambda x: add(x) * 2)
    for n in SIZES:
        close(f(floats(n)), (floats(n) + 1) * 2)
    assert f.cache_info().compiles == 1
    close(dyn.vmap(add)(floats(3, 2)), floats(3, 2) + 1)
    close(dyn.jit(lambda x: lax.scan(lambda c, row: (add(c) + row, c), np.float32(0), x)[0])(np.ones(4, "f4")), 8)
    address = ctypes.cast(plus_one, ctypes.c_void_p).value
    close(dyn.ffi_call(address, same)(floats(3)), floats(3) + 1)


def test_in_programs_that_jax_calls() -> None:
    jax = pytest.importorskip("jax")
    from dyn.interop.jax import call

    add, refuse = dyn.ffi_call(plus_one, same), dyn.ffi_call(refuses, same)
    np.testing.assert_array_equal(jax.jit(call(dyn.jit(lambda x: add(x) * 2)))(jax.numpy.ones(3)), [4, 4, 4])
    with pytest.raises(Exception, match="a function of ctypes failed: it returned 3"):
        jax.block_until_ready(jax.jit(call(dyn.jit(refuse)))(jax.numpy.ones(3)))


def test_machine_code() -> None:
    from dyn.backends.base import Source
    from dyn.backends.x86 import X86Backend

    text = """
    define i32 @halved(ptr %context, ptr %in, ptr %out) {
      %source = load ptr, ptr %in, align 8
      %target = load ptr, ptr %out, align 8
      %x = load float, ptr %source, align 4
      %half = fmul float %x, 5.0e-1
      store float %half, ptr %target, align 4
      ret i32 0
    }
    """
    backend = X86Backend()
    code = backend.load(backend.compile(Source(text, ("halved",))))
    halved = dyn.ffi_call(code.address("halved"), same)
    assert dyn.jit(lambda x: halved(x) + 1)(np.float32(3)) == 2.5


def test_calls_in_threads_and_through_the_native_entry() -> None:
    """Calls let go of the GIL however small they are: what is called may want it, or take long."""
    inside, both = threading.Barrier(2, timeout=30), []

    @SIGNATURE
    def meets(context: Any, inputs: Any, outputs: Any) -> int:
        both.append(inside.wait())
        outputs[0].array()[...] = inputs[0].array()
        return 0

    meet = dyn.ffi_call(meets, same)
    f = dyn.jit(lambda x: meet(x) + 1)
    for _ in range(3):
        in_threads(f, [floats(3)] * 2)
    assert len(both) == 6
    assert f.cache_info()[:2] == (1, 5)


def test_effects_run_once_and_pure_functions_where_they_are_needed() -> None:
    count = [0]

    @SIGNATURE
    def counts(context: Any, inputs: Any, outputs: Any) -> int:
        count[0] += 1
        return count[0] == 3

    pure, effect = (dyn.ffi_call(counts, None, has_side_effect=flag) for flag in (False, True))
    f = dyn.jit(lambda x: (pure(x), effect(x), effect(x), x)[3])
    f(floats(1))
    assert count == [2]
    assert text_of(ExternalError, f, floats(1)) == (
        "ffi_call of a function of ctypes failed: it returned 1.\n"
        "  help: what the number means is for the function to say: errors= takes a text for each."
    )
    assert count == [3]
    assert text_of(ExternalError, dyn.jit(dyn.ffi_call(refuses, same)), floats(1)).startswith(
        "ffi_call of a function of ctypes failed: it returned 3."
    )


def test_what_is_no_native_function(tmp_path: Path) -> None:
    call: Any = dyn.ffi_call
    assert text_of(ArgumentError, call, "outer", same) == (
        "ffi_call: 'outer' is no native function.\n"
        '  help: pass a function of ctypes, ("library.so", "symbol"), or an address.'
    )
    missing = str(tmp_path / "missing.so")
    assert text_of(ArgumentError, call, (missing, "f"), same) == (
        f"ffi_call: the library {missing!r} cannot be loaded: {missing}: cannot open shared object file: No such file "
        "or directory.\n"
        "  help: pass the path of a shared library."
    )
    assert text_of(ArgumentError, call, 0, same) == (
        "ffi_call: 0x0 is no address of a function.\n  help: pass the address of a function that is loaded."
    )
    assert text_of(ArgumentError, lambda: call(plus_one, same, context="x")) == (
        "ffi_call: context is a str.\n  help: pass an address, or an object of ctypes."
    )
    assert text_of(ArgumentError, lambda: call(plus_one, same)(x=floats(1))) == (
        "ffi_call of a function of ctypes takes arrays by position, and was given x.\n  help: leave the names out."
    )
    assert text_of(ArgumentError, lambda: call(plus_one, same)("text")).startswith("ffi_call of")


def test_a_symbol_that_is_not_there(library: Path) -> None:
    assert text_of(ArgumentError, dyn.ffi_call, (str(library), "inner"), same) == (
        f"ffi_call: the library '{library}' has no symbol 'inner'.\n  help: export it: in C++ with extern \"C\"."
    )


def test_the_types_of_all_dtypes() -> None:
    """DLPack's codes, bits and lanes."""
    seen: list[tuple[int, int, int]] = []

    @SIGNATURE
    def looks(context: Any, inputs: Any, outputs: Any) -> int:
        seen.append((inputs[0].code, inputs[0].bits, inputs[0].lanes))
        return 0

    look = dyn.ffi_call(looks, None, has_side_effect=True)
    expected = {
        "bool": (6, 8), "int8": (0, 8), "int64": (0, 64), "uint16": (1, 16), "float16": (2, 16), "bfloat16": (4, 16),
        "float64": (2, 64), "complex64": (5, 64), "float8_e4m3fn": (10, 8),
    }  # fmt: skip
    for name, (code, bits) in expected.items():
        look(np.zeros(2, dyn.dtype(name).np))
        assert seen.pop() == (code, bits, 1), name
