"""dyn compiles array programs once for every shape.

::

    import numpy as np, dyn, dyn.numpy as dnp

    @dyn.jit
    def softmax(x):
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True)

    softmax(np.random.rand(3, 7).astype("f4"))       # compiles
    softmax(np.random.rand(0, 1024).astype("f4"))    # does not
    print(softmax.explain())
"""

from dyn import config, errors, nn, numpy
from dyn.api import CacheInfo, Compiled, Jitted, Lowered, ShapeDtypeStruct, Traced, jit
from dyn.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dyn.numpy._protocol import NAMESPACE
from dyn.shapes import NamedDim as Dim
from dyn.trace.context import install_namespace

install_namespace(NAMESPACE)

#: Short names, for annotations: ``x: dyn.f32["b", "s", 768]``.
f16, f32, f64, bf16 = float16, float32, float64, bfloat16
i8, i16, i32, i64 = int8, int16, int32, int64
u8, u16, u32, u64 = uint8, uint16, uint32, uint64
c64, c128 = complex64, complex128

__version__ = "0.1.0.dev0"
