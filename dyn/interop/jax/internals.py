"""Parts of JAX that have no public name, each with a replacement for versions that lack it."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dyn.errors import BackendUnavailableError
from dyn.interop.internal_names import absent, find_module, lacks
from dyn.requirements import install_extra

#: The versions that the tests have passed with.
KNOWN = ("0.9", "0.10")


def import_jax() -> Any:
    """``jax``; BackendUnavailableError without it."""
    try:
        import jax
        import jax.export  # pyright: ignore[reportUnusedImport]  # it is no part of "import jax"
    except ImportError as error:
        raise BackendUnavailableError(
            f"JAX cannot be imported ({error}).", remedy=f"install it with: {install_extra('jax')}"
        ) from error
    return jax


#: The names without a public one, by the module that has them, that are used only once a size was asked something.
#: Functions that are written anew there are asked for one by one (``functions_of_sizes.FUNCTIONS``).
_NAMES: Mapping[str, tuple[str, ...]] = {
    "jax._src.config": ("eager_constant_folding",),
    "jax._src.core": (
        "InconclusiveDimensionOperation", "Tracer", "concrete_or_error", "is_constant_dim", "is_symbolic_dim",
        "jaxprs_in_params", "max_dim", "min_dim",
    ),
    "jax._src.export.shape_poly": ("BoundsPrecision",),
    "jax._src.interpreters.partial_eval": ("DynamicJaxprTrace",),
    "jax._src.dtypes": ("default_float_dtype", "dtype"),
    "jax._src.interpreters.mlir": ("aval_to_ir_type", "custom_call", "eval_dynamic_shape_as_tensor", "lower_fun"),
    "jax._src.lib.mlir": ("ir",),
    "jax._src.lax.convolution": ("conv_general_dilated_p",),
    "jax._src.lax.lax": (
        "_convert_element_type", "_sort_le_comparator", "_sort_lt_comparator", "canonicalize_precision",
    ),
    "jax._src.numpy.util": ("promote_dtypes", "promote_dtypes_inexact"),
    "jax._src.random.core": ("_random_bits", "_split"),
}  # fmt: skip


def check_names(names: Mapping[str, tuple[str, ...]] = _NAMES) -> None:
    """Raise BackendUnavailableError where modules of JAX's have not all of some names."""
    lacking = [one for module, own in names.items() for one in absent(_home(module), own)]
    if lacking:
        raise _lacks(lacking)


def found(module: str, name: str) -> Any:
    """A name in a module of JAX's; None where this JAX has it not."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


#: Modules that had another name in versions that are still read: the name of today, and that one (JAX 0.9).
_FORMER = {"jax._src.random.core": "jax._src.random"}
#: Functions that a version which is still read has not, and needs not: nothing there calls them (JAX 0.9).
_ADDED = frozenset([("jax._src.lax.lax", "stack")])


def required(module: str, name: str | None = None) -> Any:
    """A module of JAX's, or a name in it; BackendUnavailableError, which says what is missing, where this JAX has it
    not."""
    own = find_module(_home(module))
    found = own if name is None else getattr(own, name, None)
    if found is None:
        raise _lacks([f"{module}.{name}" if name else module])
    return found


def _home(module: str) -> str:
    """The name of a module in this JAX."""
    return _FORMER[module] if module in _FORMER and find_module(module) is None else module


def _lacks(names: list[str]) -> BackendUnavailableError:
    version = str(getattr(importlib.import_module("jax"), "__version__", "unknown"))
    return lacks("JAX", version, names, KNOWN, f"install another one with: {install_extra('jax')}")


def added_later(module: str, name: str) -> bool:
    """Return True if a function is one that this JAX has not, and has no need of."""
    return (module, name) in _ADDED and found(module, name) is None


def ir_type(ctx: Any, aval: Any) -> Any:
    """The type of MLIR's of an abstract value, in a rule that lowers to ``ctx``."""
    convert = required("jax._src.interpreters.mlir", "aval_to_ir_type")
    takes_context = len(inspect.signature(convert).parameters) == 2  # not in JAX 0.9
    return convert(ctx.module_context, aval) if takes_context else convert(aval)


def is_weakly_typed_scalar(value: Any) -> bool:
    """Return True if a value is a number whose type gives way to those of others."""
    own = found("jax._src.dtypes", "is_weakly_typed_scalar")
    if own is None:
        own = required("jax._src.dtypes", "is_python_scalar")  # its name in JAX 0.9
    return own(value)


#: The settings that decide what JAX traces, where it has no list of its own.
_SETTINGS = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_rank_promotion", "jax_numpy_dtype_promotion",
    "jax_default_prng_impl", "jax_threefry_partitionable", "jax_softmax_custom_jvp", "jax_random_seed_offset",
    "jax_debug_nans", "jax_debug_infs", "jax_default_dtype_bits",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Internals:
    """The parts of JAX that a call goes through.

    ``settings()`` is hashable, and differs where JAX would trace another program. ``outside()`` is whether no trace of
    JAX's goes on in this thread.
    """

    jax: Any
    settings: Callable[[], Any]
    outside: Callable[[], bool]
    dimension: type
    array: type
    tracer: type
    #: Have exceptions keep the frames of JAX's own, in a ``with``.
    whole_tracebacks: Callable[[], Any]
    #: Whether arrays can be on one device alone.
    alone: bool


def internals() -> Internals:
    """Find them, which imports JAX; BackendUnavailableError without it."""
    jax = import_jax()
    cpu = jax.devices("cpu")[0]
    array = type(jax.numpy.zeros(()))
    settings = found("jax._src.config", "trace_context")
    outside = getattr(found("jax._src.core", "trace_ctx"), "is_top_level", None)
    dimension = type(jax.export.symbolic_shape("(a,)")[0])
    config = jax.config

    def read_settings() -> Any:
        return tuple([getattr(config, name, None) for name in _SETTINGS])

    return Internals(
        jax, read_settings if settings is None else settings, _always if outside is None else outside,
        dimension, array, jax.core.Tracer,
        _whole_tracebacks, jax.devices() == [cpu] == jax.devices("cpu"),
    )  # fmt: skip


def _whole_tracebacks() -> Any:
    filtering = found("jax._src.config", "traceback_filtering")
    return contextlib.nullcontext() if filtering is None else filtering("off")


def _always() -> bool:
    return True
