"""dyn's programs as primitives of JAX, with rules for all that JAX does to programs.

``dyn_call`` is a program; ``dyn_linear`` is half of a derivative, which is linear in all but its residuals, and knows
its transpose. Outside of JAX's traces they run at once, on the arrays' own memory. A program that XLA compiled calls
the machine code with the memory of its buffers (``dyn.runtime.xla_handler``), or Python where that has a part in it.

Importing this module imports JAX.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.backends.xla_call import CALLS, PROCESS
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.hosts.jax import JaxHost
from dyn.interop.jax.programs import Aval, Derivative, FamilyProgram, ProgramFamily
from dyn.source import user_loc

jax: Any = importlib.import_module("jax")
_core: Any = importlib.import_module("jax.extend.core")
_ad: Any = importlib.import_module("jax.interpreters.ad")
_batching: Any = importlib.import_module("jax.interpreters.batching")
_mlir: Any = importlib.import_module("jax.interpreters.mlir")

dyn_call_p: Any = _core.Primitive("dyn_call")
dyn_linear_p: Any = _core.Primitive("dyn_linear")
dyn_call_p.multiple_results = dyn_linear_p.multiple_results = True

_HOST = JaxHost()
#: What XLA calls dyn's handler. Its attributes are found by their order, which is that of their names.
_TARGET = "dyn_program"


def aval_of(value: Any) -> Aval:
    """JAX's type of an array, or of another abstract value."""
    known = value if isinstance(value, jax.core.ShapedArray) else jax.typeof(value)
    if jax.dtypes.issubdtype(known.dtype, jax.dtypes.extended) or known.dtype == jax.dtypes.float0:
        raise UnsupportedOpError(
            f"a JAX array of dtype {known.dtype}, which is not a number.",
            loc=user_loc(),
            remedy="pass jax.random.key_data(x), or draw the numbers before the call.",
        )
    return Aval(dtypes.dtype(known.dtype), tuple(known.shape), bool(known.weak_type))


def call(version: FamilyProgram, arrays: Sequence[Any]) -> list[Any]:
    """The program's results for JAX's arrays or tracers."""
    return dyn_call_p.bind(*arrays, version=version)


# --- running ----------------------------------------------------------------------------------------------------------


def _run(version: FamilyProgram, arrays: Sequence[Any]) -> list[Any]:
    """The results of JAX arrays, where these are."""
    # In JAX's traces Python's numbers are left as they are: NumPy gives them 64 bits.
    types = [value.dtype.np for value in version.traced.function.params]
    given = [np.asarray(array, dtype) for array, dtype in zip(arrays, types, strict=False)]
    made = [_HOST.wrap(array) for array in version.run(given)]
    places = {device for array in arrays if isinstance(array, jax.Array) for device in array.devices()}
    if len(places) == 1:
        (device,) = places
        made = [array if array.devices() == {device} else jax.device_put(array, device) for array in made]
    return made


def _call_impl(*arrays: Any, version: FamilyProgram) -> list[Any]:
    return _run(version, arrays)


def _linear_impl(*arrays: Any, half: ProgramFamily, **_: Any) -> list[Any]:
    return _run(half.version([aval_of(a) for a in arrays]), arrays)


dyn_call_p.def_impl(_call_impl)
dyn_linear_p.def_impl(_linear_impl)


def _lower(ctx: Any, version: FamilyProgram, operands: Sequence[Any]) -> Any:
    """A call of ``version`` from a program of XLA's. Its machine code is made now, while errors have their lines."""
    if any(not isinstance(size, int) for aval in (*ctx.avals_in, *ctx.avals_out) for size in aval.shape):
        raise NotYetError(
            f"{version.family.name}: a call of dyn's machine code has symbolic sizes, which XLA does not compile.",
            remedy="export dyn.interop.jax.exported(f.trace(...)).call instead.",
        )
    run = version.compiled.on_host
    record = CALLS.record(run, version.family.name) if tuple(ctx.module_context.platforms) == ("cpu",) else None
    if record is not None:
        _register()
        return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, process=np.int64(PROCESS), record=np.int64(record))

    def called(*arrays: Any) -> tuple[Any, ...]:
        return tuple(run([np.asarray(array) for array in arrays]))

    results, _, _ = _mlir.emit_python_callback(
        ctx, called, None, list(operands), ctx.avals_in, ctx.avals_out, has_side_effect=False, returns_token=False
    )
    return results


@functools.lru_cache(maxsize=1)
def _register() -> None:
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(ctypes.CFUNCTYPE(None)(CALLS.handler())), platform="cpu")


def _call_lowering(ctx: Any, *operands: Any, version: FamilyProgram) -> Any:
    return _lower(ctx, version, operands)


def _linear_lowering(ctx: Any, *operands: Any, half: ProgramFamily, **_: Any) -> Any:
    return _lower(ctx, half.version([aval_of(a) for a in ctx.avals_in]), operands)


_mlir.register_lowering(dyn_call_p, _call_lowering)
_mlir.register_lowering(dyn_linear_p, _linear_lowering)


# --- types ------------------------------------------------------------------------------------------------------------


def _call_types(*avals: Any, version: FamilyProgram) -> list[Any]:
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in version.results(avals)]


def _linear_types(*avals: Any, results: Sequence[Any], **_: Any) -> list[Any]:
    return list(results)


dyn_call_p.def_abstract_eval(_call_types)
dyn_linear_p.def_abstract_eval(_linear_types)


# --- derivatives ------------------------------------------------------------------------------------------------------


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is _ad.Zero


def _differentiated(
    family: ProgramFamily, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The results of a function and their tangents: its program with residuals, and a linear function of these."""
    by = tuple([i for i, tangent in enumerate(tangents) if not _is_zero(tangent)])
    version = family.linearized(by).version([aval_of(p) for p in primals])
    derivative: Derivative = version.told
    made = call(version, primals)
    count = len(made) - sum(source >= 0 for source in derivative.sources)
    results = made[:count]
    residuals = [made[count + s] if s >= 0 else primals[-1 - s] for s in derivative.sources]
    dots: list[Any] = [_ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if derivative.places:
        types = tuple([_type_of(results[place]) for place in derivative.places])
        given = [*residuals, *[tangents[i] for i in by]]
        pushed = dyn_linear_p.bind(
            *given, half=derivative.push, other=derivative.pull, residuals=len(residuals), results=types
        )
        for place, dot in zip(derivative.places, pushed, strict=True):
            dots[place] = dot
    return results, dots


def _type_of(value: Any) -> Any:
    """The shape and the dtype alone: the type of a tangent."""
    known = jax.typeof(value)
    return jax.core.ShapedArray(known.shape, known.dtype)


def _call_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, version: FamilyProgram
) -> tuple[list[Any], list[Any]]:
    return _differentiated(version.family, primals, tangents)


def _linear_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, half: ProgramFamily, residuals: int, **params: Any
) -> tuple[list[Any], list[Any]]:
    if not all(_is_zero(t) for t in tangents[:residuals]):
        return _differentiated(half, primals, tangents)
    steps = [_ad.instantiate_zeros(t) for t in tangents[residuals:]]
    params |= {"half": half, "residuals": residuals}
    return dyn_linear_p.bind(*primals, **params), dyn_linear_p.bind(*primals[:residuals], *steps, **params)


def _linear_transpose(
    cotangents: Sequence[Any],
    *operands: Any,
    half: ProgramFamily,
    other: ProgramFamily,
    residuals: int,
    results: Sequence[Any],
) -> list[Any]:
    given, unknown = operands[:residuals], operands[residuals:]
    types = tuple([u.aval if _ad.is_undefined_primal(u) else _type_of(u) for u in unknown])
    types = tuple([jax.core.ShapedArray(t.shape, t.dtype) for t in types])
    steps = [_ad.instantiate_zeros(ct) for ct in cotangents]
    pulled = dyn_linear_p.bind(*given, *steps, half=other, other=half, residuals=residuals, results=types)
    wanted = [ct if _ad.is_undefined_primal(u) else None for u, ct in zip(unknown, pulled, strict=True)]
    return [None] * residuals + wanted


def _call_transpose(cotangents: Sequence[Any], *operands: Any, version: FamilyProgram) -> list[Any]:
    """The transpose of a program that whoever asks says is linear: its derivative, which is the same everywhere."""
    by = tuple([i for i, operand in enumerate(operands) if _ad.is_undefined_primal(operand)])
    primals = [jax.numpy.zeros(x.aval.shape, x.aval.dtype) if i in by else x for i, x in enumerate(operands)]
    pulled = jax.vjp(lambda *chosen: _with(version, primals, by, chosen), *[primals[i] for i in by])[1](
        [_ad.instantiate_zeros(ct) for ct in cotangents]
    )
    wanted = dict(zip(by, pulled, strict=True))
    return [wanted.get(i) for i in range(len(operands))]


def _with(version: FamilyProgram, primals: Sequence[Any], by: Sequence[int], chosen: Sequence[Any]) -> list[Any]:
    given = dict(enumerate(primals)) | dict(zip(by, chosen, strict=True))
    return call(version, [given[i] for i in range(len(primals))])


_ad.primitive_jvps[dyn_call_p] = _call_jvp
_ad.primitive_transposes[dyn_call_p] = _call_transpose
_ad.primitive_jvps[dyn_linear_p] = _linear_jvp
_ad.primitive_transposes[dyn_linear_p] = _linear_transpose


# --- many examples ----------------------------------------------------------------------------------------------------


def _call_batched(
    arrays: Sequence[Any], axes: Sequence[int | None], *, version: FamilyProgram
) -> tuple[list[Any], list[int]]:
    many = version.family.batched(tuple(axes)).version([aval_of(a) for a in arrays])
    made = call(many, arrays)
    return made, [0] * len(made)


def _linear_batched(
    arrays: Sequence[Any], axes: Sequence[int | None], *, half: ProgramFamily, other: ProgramFamily, residuals: int,
    results: Sequence[Any],
) -> tuple[list[Any], list[int]]:  # fmt: skip
    count = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    # Every example has its own tangents, so that the transpose, too, has a cotangent for every example.
    given = list(arrays)
    for number in range(residuals, len(arrays)):
        given[number] = _front(given[number], axes[number], count)
    kept = tuple(axes[:residuals])
    types = tuple([jax.core.ShapedArray((count, *t.shape), t.dtype) for t in results])
    made = dyn_linear_p.bind(
        *given,
        half=half.batched((*kept, *[0] * (len(arrays) - residuals))),
        other=other.batched((*kept, *[0] * len(results))),
        residuals=residuals,
        results=types,
    )
    return made, [0] * len(made)


def _front(array: Any, axis: int | None, count: int) -> Any:
    """The array with the examples along its first axis; the same for all of them where they have no axis."""
    if axis is None:
        return jax.numpy.broadcast_to(array, (count, *array.shape))
    return array if axis == 0 else jax.numpy.moveaxis(array, axis, 0)


_batching.primitive_batchers[dyn_call_p] = _call_batched
_batching.primitive_batchers[dyn_linear_p] = _linear_batched
