"""dyn compiles array programs once for every shape.

::

    import numpy as np, dyn, dyn.numpy as dnp

    @dyn.jit
    def softmax(x):
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True)

    softmax(np.random.rand(3, 7).astype("f4"))       # compiles
    softmax(np.random.rand(0, 1024).astype("f4"))    # does not
    softmax.explain()
"""

from dyn import version as version  # isort: skip  # first, since it notes the time

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dyn import config, errors, hosts, numpy
from dyn.api import CacheInfo, Jitted, jit
from dyn.array import Array, NotAViewWarning, asarray, describe, device_put, view
from dyn.dtype_aliases import (
    bf16,
    c64,
    c128,
    f8e3m4,
    f8e4m3,
    f8e4m3b11fnuz,
    f8e4m3fn,
    f8e4m3fnuz,
    f8e5m2,
    f8e5m2fnuz,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from dyn.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
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
from dyn.late_imports import import_whole
from dyn.numpy._protocol import NAMESPACE
from dyn.runtime.staging import install_copier
from dyn.shapes import NamedDim as Dim
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.stages import Compiled, Lowered, Traced, install_dialects
from dyn.trace.context import install_namespace
from dyn.trace.foreign import install_counterparts
from dyn.trace.lift import install_view
from dyn.trace.methods import document_methods

if TYPE_CHECKING:
    from dyn import checkpoint_policies, debug, interop, lax, nn, random, tree
    from dyn.backends.devices import Device, devices
    from dyn.callbacks import io_callback, pure_callback
    from dyn.checkpointing import checkpoint, checkpoint_name, remat
    from dyn.custom import custom_jvp, custom_vjp
    from dyn.diagnosis.bisection import bisect
    from dyn.diagnosis.minimal import minify
    from dyn.foreign import ffi_call
    from dyn.frontend.compiled_function import RecompileWarning
    from dyn.frontend.history import report
    from dyn.profiling.session import profile
    from dyn.specialize.shared_code import CodeInfo, cache_info
    from dyn.transforms import (
        grad,
        hessian,
        jacfwd,
        jacobian,
        jacrev,
        jvp,
        linearize,
        stop_gradient,
        value_and_grad,
        vjp,
        vmap,
    )


def _module(name: str) -> Any:
    import_whole(name)
    return import_module(name)


def _as_stablehlo(stage: Any) -> str:
    return _module("dyn.interop.stablehlo").dump(stage)


def _staging_copier() -> int:
    return _module("dyn.backends.device_functions").staging_copier()


#: The namespaces that have what JAX has in modules of folders of these names.
_COUNTERPARTS = {
    "numpy": "dyn.numpy", "linalg": "dyn.numpy.linalg", "fft": "dyn.numpy.fft", "lax": "dyn.lax", "nn": "dyn.nn",
    "random": "dyn.random",
}  # fmt: skip


def _counterpart(folders: Sequence[str], name: str) -> str:
    for folder in reversed(folders):
        if folder in _COUNTERPARTS and name in _module(_COUNTERPARTS[folder]).__all__:
            return f"{_COUNTERPARTS[folder]}.{name}"
    return ""


install_counterparts(_counterpart)
install_dialects({"stablehlo": _as_stablehlo})
install_copier(_staging_copier)
install_namespace(NAMESPACE)
document_methods(NAMESPACE)
install_view(view, describe)

__version__ = "0.2.0.dev0"

#: Modules among them.
_MODULES = ("checkpoint_policies", "debug", "interop", "lax", "nn", "random", "tree")
#: Names that are imported when they are first asked for, and the modules that have them or that they are.
_LAZY = {
    "Device": "dyn.backends.devices", "devices": "dyn.backends.devices",
    "CodeInfo": "dyn.specialize.shared_code", "cache_info": "dyn.specialize.shared_code",
    "bisect": "dyn.diagnosis.bisection", "minify": "dyn.diagnosis.minimal",
    **{name: f"dyn.{name}" for name in _MODULES},
    **dict.fromkeys(("checkpoint", "checkpoint_name", "remat"), "dyn.checkpointing"),
    **dict.fromkeys(("custom_jvp", "custom_vjp"), "dyn.custom"),
    **dict.fromkeys(("io_callback", "pure_callback"), "dyn.callbacks"), "ffi_call": "dyn.foreign",
    "profile": "dyn.profiling.session",
    "RecompileWarning": "dyn.frontend.compiled_function", "report": "dyn.frontend.history",
    **dict.fromkeys(("grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "stop_gradient",
                     "value_and_grad", "vjp", "vmap"), "dyn.transforms"),
}  # fmt: skip

#: Names of the documented interface that this version does not have yet.
_LATER = frozenset({"load", "save"})


class _NotYetAttribute(errors.NotYetError, AttributeError):
    """A documented name that is asked for too early; an AttributeError too, so that hasattr answers False."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module = _module(_LAZY[name])
        value = globals()[name] = module if name in _MODULES else getattr(module, name)
        return value
    if name in _LATER:
        raise _NotYetAttribute(
            f"dyn.{name} comes in a later version of dyn.",
            remedy="compiled code is kept in DYN_CACHE_DIR, where another process finds it; a program is written and "
            "read as StableHLO by dyn.interop.stablehlo.dump and load.",
        )
    raise AttributeError(f"module 'dyn' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext dyn``: the magic ``%%dyn_explain``, and a display of compiles that take more than a second."""
    _module("dyn.jupyter").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext dyn``."""
    _module("dyn.jupyter").unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "Array", "CacheInfo", "CodeInfo", "Compiled", "DType", "Device", "Dim", "Jitted", "Lowered", "NotAViewWarning",
    "RecompileWarning", "ShapeDtypeStruct", "Traced", "__version__", "asarray", "bf16", "bfloat16", "bisect", "bool_",
    "c128", "c64", "cache_info", "checkpoint", "checkpoint_name", "checkpoint_policies", "complex128", "complex64",
    "config", "custom_jvp", "custom_vjp", "debug", "device_put", "devices", "dtype", "errors", "f16", "f32", "f64",
    "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu", "ffi_call",
    "float16", "float32", "float64", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "grad", "hessian", "hosts", "i16", "i32",
    "i64", "i8", "int16", "int32", "int64", "int8", "interop", "io_callback", "jacfwd", "jacobian", "jacrev", "jit",
    "jvp", "lax", "linearize", "minify", "nn", "numpy", "profile", "pure_callback", "random", "remat", "report",
    "stop_gradient", "tree", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "value_and_grad", "vjp",
    "vmap",
]  # fmt: skip
