"""Calls of PyTorch functions as they are read: tensors, what decides on their program, and how users name it all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import SequenceKey, TreeSpec, keystr, tree_flatten

from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.frozen import record
from dyn.interop.torch.arguments import TensorSignature, type_of
from dyn.interop.torch.calls import torch_state, transformation
from dyn.interop.torch.devices import KINDS
from dyn.interop.torch.dynamic_shapes import DeclaredShapes, DynamicShapes
from dyn.interop.torch.objects import SIMPLE, ObjectLayout, Opened, leaf_paths
from dyn.interop.torch.randomness import GeneratorNumber
from dyn.interop.torch.subclasses import WrapperLayout, is_wrapper
from dyn.late_imports import import_whole
from dyn.source import user_loc
from dyn.trace.signature import Signature
from dyn.trace.static_keys import Static

if TYPE_CHECKING:
    from dyn.explain.versions import MadeFor


@record(eq=False)
class TorchCall:
    """A call as it was read. ``rest`` has the arguments that are no tensors, and how others hold tensors."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    leaves: list[Any]
    tree: TreeSpec
    tensors: list[torch.Tensor]
    generators: list[torch.Generator]
    rest: tuple[Static | ObjectLayout | WrapperLayout | GeneratorNumber | None, ...]
    types: tuple[TensorSignature, ...]
    settings: Any
    declared: DeclaredShapes | None

    @property
    def key(self) -> Hashable:
        """Key of the programs that it can have: its arguments but for tensors' sizes, and PyTorch's settings."""
        return self.tree, self.rest, self.types, self.settings, self.declared

    def labels(self) -> list[str]:
        """The leaves of the arguments as the user would write them: ``input_ids``, ``batch['mask']``."""
        function = self.function
        signature = Signature(function.forward if isinstance(function, torch.nn.Module) else function, None, (), ())
        labels: list[str] = []
        for path in leaf_paths((self.args, self.kwargs)):
            first: Any = path[1]
            is_positional = path[0] == SequenceKey(0)
            name = signature.argument_name(first.idx) if is_positional else signature.keyword_label(first.key)
            labels.append(name + keystr(path[2:]))
        return labels

    def names(self) -> list[str]:
        """The tensors, each as a user would write it."""
        names: list[str] = []
        for label, layout in zip(self.labels(), self.rest, strict=True):
            if layout is None:
                names.append(label)
            elif isinstance(layout, ObjectLayout | WrapperLayout):
                names += layout.tensor_names(label)
        return names

    def made_for(self) -> MadeFor:
        """Its key in words, without sizes and attributes."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, made_for_leaves

        labels, names = self.labels(), self.names()
        arguments = [
            ArgumentKey(name, str(type.dtype).removeprefix("torch."), type.rank, weak=False)
            for name, type in zip(names, self.types, strict=True)
        ]
        static = [(label, one.value) for label, one in zip(labels, self.rest, strict=True) if isinstance(one, Static)]
        return made_for_leaves(arguments, labels, static, self._settings(names))

    def _settings(self, names: Sequence[str]) -> Iterator[tuple[str, object]]:
        """Names, in words, and values of all that programs differ by beside the kinds of arguments."""
        typed = list(zip(names, self.types, strict=True))
        dtype, autocasts, has_gradients = self.settings
        yield "what requires a gradient", ", ".join([name for name, type in typed if type.has_gradient]) or "nothing"
        yield "gradient mode", "on" if has_gradients else "off"
        yield "the default dtype", dtype
        kinds = [f"{one} on {kind}" for kind, one in zip(KINDS, autocasts, strict=True) if one]
        yield "autocast", ", ".join(kinds) or "off"
        for name, type in typed:
            yield f"the layout of {name}", type.layout.describe()
            yield f"the device of {name}", type.device
            yield f"the tensor in {name}", "its own" if type.same_as is None else f"that in {names[type.same_as]}"


def read_call(
    function: Callable[..., Any], name: str, opened: Opened, shapes: DynamicShapes | DeclaredShapes | None,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> TorchCall:  # fmt: skip
    """A call, of which objects of the classes that are ``opened`` are trees of tensors.

    Raises:
        UnsupportedOpError: for what no program is given.
        ArgumentError: for what has no hash.
    """
    leaves, tree = tree_flatten((args, kwargs))
    tensors: list[torch.Tensor] = []
    generators: list[torch.Generator] = []
    rest: list[Static | ObjectLayout | WrapperLayout | GeneratorNumber | None] = []
    types: list[TensorSignature] = []

    def add(found: Sequence[torch.Tensor]) -> None:
        for tensor in found:
            types.append(type_of(tensor, tensors))
            tensors.append(tensor)

    _check_place()
    for leaf in leaves:
        inside: list[torch.Tensor] = []
        if isinstance(leaf, torch.Tensor) and is_wrapper(leaf) and shapes is None:
            rest.append(WrapperLayout.of(leaf, inside))
            _check_hash(leaf, rest[-1])
            add(inside)
        elif isinstance(leaf, torch.Tensor):
            add([leaf])
            rest.append(None)
        elif isinstance(leaf, torch.Generator):
            rest.append(GeneratorNumber.of(leaf, generators))
        elif type(leaf) not in SIMPLE and opened.takes(leaf):
            rest.append(opened.layout(leaf, inside))
            _check_hash(leaf, rest[-1])
            add(inside)
        else:
            rest.append(Static("argument", leaf))
    declared = shapes
    if isinstance(declared, DynamicShapes):
        key = (tree, tuple([type.rank for type in types]))
        own = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        declared = declared.declared(args, kwargs, key).of(own).among(tensors, own)
    call = TorchCall(
        function, args, kwargs, leaves, tree, tensors, generators, tuple(rest), tuple(types), torch_state(), declared
    )
    try:
        hash(call.key)
    except TypeError:
        raise _unhashable(name, call) from None
    return call


def _unhashable(function: str, call: TorchCall) -> ArgumentError:
    """The error for the first argument that is no tensor and has no hash."""
    for path, leaf in zip(leaf_paths((call.args, call.kwargs)), call.leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            continue
        try:
            hash(leaf)
        except TypeError:
            name = ("args" if path[0] == SequenceKey(0) else "kwargs") + keystr(path[1:])
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".removeprefix("builtins.")
            return ArgumentError(
                f"{function}(): {name} is a {kind}, which is neither a tensor nor has a hash.",
                loc=user_loc(),
                remedy="pass torch.as_tensor(...) of it." if hasattr(leaf, "__array__") else "pass a tuple.",
            )
    raise AssertionError("all arguments have hashes")


def _check_place() -> None:
    """Raise UnsupportedOpError where a call is a part of what PyTorch transforms."""
    place = transformation()
    if place is not None:
        raise UnsupportedOpError(
            f"a call inside of {place}.", loc=user_loc(), remedy="jit the function that transforms, with it inside."
        )


def _check_hash(argument: Any, layout: Any) -> None:
    """Raise UnsupportedOpError for an object with attributes that nothing can be found by."""
    try:
        hash(layout)
    except TypeError as error:
        raise UnsupportedOpError(
            f"a {type(argument).__name__} with tensors and an attribute that is neither one nor has a hash: {error}.",
            loc=user_loc(),
            remedy="pass the tensors, or register the class by torch.utils._pytree.register_pytree_node.",
        ) from None
