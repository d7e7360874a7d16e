"""``dyn.interop.torch.jit``: functions and modules of PyTorch, traced once for every shape and compiled by dyn."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.utils._pytree import tree_flatten, tree_unflatten

from dyn import api
from dyn.api import CacheInfo
from dyn.errors import ArgumentError, NotYetError, UnsupportedOpError
from dyn.forking import lock
from dyn.interop.torch.results import Collector, Outputs
from dyn.interop.torch.tracing import Tracing
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.static import Static
from dyn.trace.tracer import Tracer

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


def jit(function: Callable[..., Any] | None = None, /) -> Any:
    """Compile a function or a module of PyTorch, once for every shape: ``model = dyn.interop.torch.jit(model)``.

    It is traced at its first call, by running it once on tensors without elements, whose sizes are symbols. Each axis
    of each tensor that is an argument is symbolic, sizes 0 and 1 among them. What the function decides by a size is
    proved, or a guard: a call whose sizes go another way is traced again. Arguments that are no tensors are static.
    Parameters, and other tensors that it closes over, are read at each call; what it writes to them, to buffers or to
    arguments is written. It is traced again for another dtype, rank or tree of arguments, under another autocast, and
    when a module in it changes between ``train()`` and ``eval()``.

    Returns what ``function`` returns, with tensors of the same dtypes and strides as PyTorch's.

    Raises NotYetError for operations that have no converter, and where gradients are asked for; UnsupportedOpError for
    tensors that are not dense arrays on the CPU; ShapeError for arguments that do not fit together.
    """
    if function is None:
        return jit
    if not callable(function):
        raise ArgumentError(f"jit takes a function or a module, not a {type(function).__name__}.")
    return TorchJitted(function)


class TorchJitted:
    """A PyTorch function that dyn compiles. Made by :func:`jit`."""

    def __init__(self, function: Callable[..., Any], shapes: Sequence[str] | None = None) -> None:
        self._function = function
        #: What is declared of each tensor argument's shape, as in ``dyn.jit``.
        self.shapes = shapes
        self._name = getattr(function, "__name__", type(function).__name__)
        self._lock = lock()
        #: What compiles the function, for each way to call it that is not a size.
        self._families: dict[Any, _Family] = {}
        #: The modules that the function calls.
        self._modules: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        if not isinstance(function, torch.nn.Module):
            functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"dyn.interop.torch.jit({self._name})"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        tensors: list[torch.Tensor] = []
        rest: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
                rest.append(None)
            else:
                rest.append(Static("argument", leaf))
        key = (tree, tuple(rest), tuple([_type(t) for t in tensors]), _state(), self._training())
        family = self._families.get(key)
        if family is None or not family.is_current():
            family = _Family(self, tree, rest, [(tensor.dtype, tensor.device) for tensor in tensors])
        result = family(tensors)
        with self._lock:
            # The modules that were met by tracing belong to the key of the next call.
            key = (*key[:-1], self._training())
            self._families[key] = family
        return result

    def _training(self) -> tuple[bool, ...]:
        return tuple([module.training for module in self.modules()])

    def modules(self) -> list[torch.nn.Module]:
        """The modules that the function calls, as far as it was traced."""
        return list(self._modules)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function as it is; the modules that it calls are noted."""
        seen, thread = self._modules, threading.get_ident()

        def note(module: torch.nn.Module, given: Any) -> None:
            if threading.get_ident() == thread:
                seen.add(module)

        handle = torch.nn.modules.module.register_module_forward_pre_hook(note)
        try:
            return self._function(*args, **kwargs)
        finally:
            handle.remove()

    def cache_info(self) -> CacheInfo:
        """How many programs were compiled, calls that found one, guards that tell programs apart, compile seconds."""
        infos = [family.jitted.cache_info() for family in {id(f): f for f in self._families.values()}.values()]
        return CacheInfo(*[sum(column) for column in zip(*infos, strict=True)]) if infos else CacheInfo(0, 0, 0, 0.0)

    def explain(self) -> str:
        """What was traced, assumed, proved, stitched and generated, for each way in which it was called."""
        return "\n\n".join([str(family.jitted.explain()) for family in self._families.values()])


class _Family:
    """A function for one tree of arguments, one set of static ones and one state of PyTorch: its program of tensors."""

    def __init__(
        self, owner: TorchJitted, tree: Any, rest: Sequence[Any], types: Sequence[tuple[torch.dtype, torch.device]]
    ) -> None:
        self.owner, self.tree, self.rest, self.types = owner, tree, tuple(rest), tuple(types)
        #: The tensors that the programs capture, with the memory that they had.
        self._captured: tuple[tuple[torch.Tensor, int], ...] = ()
        #: Where modules have them: the dict of a module, and the name there.
        self._places: tuple[tuple[dict[str, Any], str, torch.Tensor], ...] = ()

        def traced(args: tuple[Any, ...]) -> Outputs:
            return self._trace(args)

        traced.__name__ = traced.__qualname__ = owner._name
        self.jitted = api.jit(traced, shapes=None if owner.shapes is None else {"args": tuple(owner.shapes)})

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        outputs: Outputs = self.jitted(tuple([tensor.detach() for tensor in tensors]))
        return outputs.plan.finish(outputs.results, tensors)

    def is_current(self) -> bool:
        """Whether the tensors that it captures are where they were."""
        return all(tensor.data_ptr() == address for tensor, address in self._captured) and all(
            names.get(name) is tensor for names, name, tensor in self._places
        )

    def _trace(self, tracers: Sequence[Tracer]) -> Outputs:
        trace = current_trace()
        assert trace is not None, "dyn.jit calls functions in a trace"
        tracing = Tracing(trace)
        pairs = zip(tracers, self.types, strict=True)
        given = [tracing.argument(tracer, *type, number) for number, (tracer, type) in enumerate(pairs)]
        left = iter(given)
        leaves = [next(left) if one is None else one.value for one in self.rest]
        args, kwargs = tree_unflatten(leaves, self.tree)
        with torch.no_grad(), enable_python_dispatcher(), _without_fast_paths(), tracing:
            returned = self.owner.call(args, kwargs)
        outputs = Collector(tracing, given).collect(returned)
        captured = [tensor for tensor, _ in tracing.captured.values()]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in captured):
            _refuse_gradients("a parameter")
        self._captured += tuple([(tensor, tensor.data_ptr()) for tensor in captured])
        self._places += tuple([
            (names, name, tensor)
            for module in self.owner.modules()
            for names in (module._parameters, module._buffers)
            for name, tensor in names.items()
            if tensor is not None and id(tensor) in tracing.captured
        ])  # fmt: skip
        return outputs


@contextlib.contextmanager
def _without_fast_paths() -> Iterator[None]:
    """Have ``torch.nn`` compute transformers as it does in training: their fast paths are one operation each."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _refuse_gradients(what: str) -> None:
    raise NotYetError(
        f"{what} requires grad, and compiled functions of PyTorch have no derivative yet.",
        loc=user_loc(),
        remedy="call it under torch.no_grad() or torch.inference_mode().",
    )


def _type(tensor: torch.Tensor) -> Any:
    """What of a tensor decides about its program, beside what dyn.jit looks at itself."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise UnsupportedOpError(
            f"a tensor of the class {type(tensor).__name__}.", loc=user_loc(), remedy="pass a plain torch.Tensor."
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        _refuse_gradients("an argument")
    return tensor.dtype, tensor.ndim, tensor.device


def _state() -> Any:
    """What of PyTorch's state decides about a program."""
    autocast = torch.is_autocast_enabled("cpu")
    return torch.get_default_dtype(), autocast and torch.get_autocast_dtype("cpu"), torch.is_grad_enabled()
