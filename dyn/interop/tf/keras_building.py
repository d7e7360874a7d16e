"""Keras's layers, metrics and optimizers that a trace builds: by the first call's sizes, and undone where it fails.

Most layers make their weights when they are first called, of the sizes that they are given. A trace for open sizes has
none to give. It ends there (:class:`NeedsBuilding`), and one for the sizes of the call builds what there is to build,
as Keras does. Whatever a trace has built that fails, for its sizes or by the user's error, is unbuilt as before it.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class NeedsBuilding(BaseException):
    """Ends a trace for open sizes where it comes to a layer that is built by sizes.

    No ``Exception``: neither Keras nor the function that is traced is to handle it.
    """


@dataclass
class _Trace:
    """A trace for dyn: whether it ``may_build``, and how to undo what it has built, by the object's id."""

    may_build: bool
    undo: dict[int, Callable[[], None]] = field(default_factory=dict[int, Callable[[], None]])
    called: list[Any] = field(default_factory=list[Any])


_CURRENT = threading.local()


def _current() -> _Trace | None:
    return getattr(_CURRENT, "trace", None)


@contextmanager
def building(may_build: bool) -> Iterator[None]:
    """A trace for dyn, in which layers are built where it ``may_build``; otherwise it ends by NeedsBuilding.

    Where it raises, layers, metrics, optimizers and Keras's global state are as they were before.
    """
    _install()
    before, globals_before = _current(), _global_state()
    trace = _CURRENT.trace = _Trace(may_build)
    try:
        yield
    except BaseException:
        for undo in reversed(list(trace.undo.values())):
            undo()
        for layer in trace.called:
            layer._clear_losses()  # tensors of a graph that is gone
        for undo in globals_before:
            undo()
        raise
    finally:
        _CURRENT.trace = before


# ---- states ----------------------------------------------------------------------------------------------------------


def _kept(thing: Any) -> Callable[[], None]:
    """A function that gives an object its attributes back, and those lists, dicts and sets their elements."""
    attributes = vars(thing)
    before = dict(attributes)
    # Proxies of TensorFlow's are not among them: they say that they are dicts.
    containers = [_contents(value) for value in before.values() if issubclass(type(value), list | dict | set)]
    tracker = before.get("_tracker")
    locked = False
    if tracker is not None:
        locked = tracker.locked
        containers += [_contents(store) for _, store in tracker.config.values() if isinstance(store, list)]
        containers += [_contents(numbers) for numbers in tracker.stored_ids.values()]

    def restore() -> None:
        attributes.clear()
        attributes.update(before)
        for put_back in containers:
            put_back()
        if tracker is not None:
            tracker.locked = locked

    return restore


def _contents(container: Any) -> Callable[[], None]:
    """A function that gives a container its elements back, past what Keras's own methods track."""
    if isinstance(container, list):
        elements = list[Any](container)
        # A list that TensorFlow tracks has its elements a second time, in a list of its own, and marks of its changes.
        attributes = getattr(container, "__dict__", {})
        storage, marks = attributes.get("_storage"), dict(attributes)

        def put_back_list() -> None:
            list.__setitem__(container, slice(None), elements)
            if isinstance(storage, list):
                storage[:] = elements
            attributes.update(marks)

        return put_back_list
    kind: Any = dict if isinstance(container, dict) else set
    copy = kind(container)

    def put_back() -> None:
        kind.clear(container)
        kind.update(container, copy)

    return put_back


def _global_state() -> list[Callable[[], None]]:
    """Functions that bring back Keras's global state of this thread: scopes, the numbers in names, and Python's random
    numbers, from which it takes the seeds of what has none."""
    module: Any = sys.modules.get("keras.src.backend.common.global_state")
    if module is None:
        return []
    return [_kept(module.GLOBAL_STATE_TRACKER), functools.partial(random.setstate, random.getstate())]


# ---- hooks -----------------------------------------------------------------------------------------------------------

#: Methods of Keras's that build, by module and class: that of layers and metrics asks for sizes, those of losses and
#: optimizers for the structure of targets, and the shapes of weights.
_BUILDERS = (
    ("keras.src.layers.layer", "Layer", "_maybe_build", True),
    ("keras.src.trainers.compile_utils", "CompileMetrics", "build", True),
    ("keras.src.trainers.compile_utils", "CompileLoss", "build", False),
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "build", False),
)


def _install() -> None:
    """Have Keras's methods ask for a trace of dyn's. Does nothing while Keras is not imported, and the second time."""
    for module, owner, method, is_by_sizes in _BUILDERS:
        found: Any = getattr(sys.modules.get(module), owner, None)
        own = getattr(found, method, None)
        if own is None or hasattr(own, "of_dyn"):
            continue
        hook: Any = functools.wraps(own)(_hook(own, is_by_sizes))
        hook.of_dyn = True  # how the second time is told
        setattr(found, method, hook)


def _hook(own: Callable[..., Any], is_by_sizes: bool) -> Callable[..., Any]:
    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace = _current()
        if trace is not None:
            if hasattr(self, "_clear_losses"):
                trace.called.append(self)
            if not self.built:
                if is_by_sizes and not trace.may_build and _has_state(self):
                    raise NeedsBuilding
                for part in _parts(self):
                    trace.undo.setdefault(id(part), _kept(part))
        return own(self, *args, **kwargs)

    return build


def _has_state(thing: Any) -> bool:
    """Whether building makes more of an object than a mark that it is built."""
    is_default = getattr(getattr(thing, "build", None), "_is_default", False)
    return not is_default or any(not layer.built for layer in getattr(thing, "_layers", ()))


def _parts(thing: Any) -> list[Any]:
    """An object, and the layers in it that are not built."""
    layers = getattr(thing, "_flatten_layers", None)
    inner = [] if layers is None else [one for one in layers(include_self=False) if not one.built]
    return [thing, *inner]
