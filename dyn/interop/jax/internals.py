"""Parts of JAX that have no public name, each with a replacement for versions that lack it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dyn.errors import BackendUnavailableError
from dyn.requirements import install_extra


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


def found(module: str, name: str) -> Any:
    """A name in a module of JAX's; None where this JAX has it not."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


def required(module: str, name: str | None = None) -> Any:
    """A module of JAX's, or a name in it; BackendUnavailableError, which says what is missing, where this JAX has it
    not."""
    own = importlib.import_module(module) if importlib.util.find_spec(module) is not None else None
    found = own if name is None else getattr(own, name, None)
    if found is None:
        version = getattr(importlib.import_module("jax"), "__version__", "unknown")
        raise BackendUnavailableError(
            f"this JAX, {version}, has no {module}{f'.{name}' if name else ''}, which dyn asks.",
            remedy=f"install another one with: {install_extra('jax')}",
        )
    return found


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
