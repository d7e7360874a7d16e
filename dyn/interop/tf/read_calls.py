"""Calls of TensorFlow functions as they are read: tensors, static arguments, and how users name them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Hashable, Iterable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dyn import dtypes
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.frozen import record
from dyn.interop.tf.internals import tf
from dyn.interop.tf.values import check_is_array
from dyn.late_imports import import_whole
from dyn.source import user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, unflatten
from dyn.trace.signature import Signature
from dyn.trace.static_keys import Static
from dyn.trace.tracer import Tracer

if TYPE_CHECKING:
    from dyn.explain.versions import MadeFor


@record()
class SparseLeaf:
    """A ``tf.SparseTensor`` among the arguments of a call, of so many axes: three of the call's tensors."""

    rank: int

    #: Its tensors, as a user would write them.
    PARTS: ClassVar[tuple[str, ...]] = ("indices", "values", "dense_shape")

    def built(self, indices: Any, values: Any, sizes: Any) -> Any:
        """The sparse tensor of tensors of a graph: there is a value for each index, which has a place for each axis."""
        indices = tf.ensure_shape(indices, [None, self.rank])
        values = tf.reshape(values, tf.shape(indices)[:1])
        return tf.SparseTensor(indices, values, tf.ensure_shape(sizes, [self.rank]))


@record(eq=False)
class TfCall:
    """A call as it was read: its tensors, and the ``rest`` of the leaves, None for tensors. ``key`` is that of the
    programs that it can have, which fixed sizes tell apart."""

    function: Callable[..., Any]
    name: str
    tree: TreeSpec
    tensors: list[Any]
    rest: tuple[Static | SparseLeaf | None, ...]
    shapes: list[tuple[int, ...]]
    key: Hashable

    def labels(self) -> list[str]:
        """The leaves of the arguments as a user would write them: ``x``, ``batch['mask']``."""
        function: Any = self.function
        if not isinstance(function, FunctionType | MethodType):
            function = getattr(function, "python_function", None) or getattr(function, "call", function)
        signature = Signature(function, None, (), ())
        args, kwargs = self.tree.children()
        labels = [signature.argument_name(number) for number in range(len(args.children()))]
        labels += [signature.keyword_label(str(keyword)) for keyword in kwargs.entries()]
        parts = zip(labels, [*args.children(), *kwargs.children()], strict=True)
        return [name for label, part in parts for name in leaf_names(part, label)]

    def called(self) -> list[str]:
        """The tensors, as a user would write them."""
        found: list[str] = []
        for label, one in zip(self.labels(), self.rest, strict=True):
            if one is None:
                found.append(label)
            elif isinstance(one, SparseLeaf):
                found += [f"{label}.{part}" for part in one.PARTS]
        return found

    def made_for(self) -> MadeFor:
        """Its key in words, without sizes."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, made_for_leaves

        labels = self.labels()
        arguments = [
            ArgumentKey(name, one.dtype.name, len(one.shape), weak=False)
            for name, one in zip(self.called(), self.tensors, strict=True)
        ]
        static = [(label, one.value) for label, one in zip(labels, self.rest, strict=True) if isinstance(one, Static)]
        return made_for_leaves(arguments, labels, static)

    def flat(self) -> Callable[..., Any]:
        """The function of its tensors alone."""

        def flat(*tensors: Any) -> Any:
            left = iter(tensors)

            def leaf(one: Static | SparseLeaf | None) -> Any:
                if isinstance(one, SparseLeaf):
                    return one.built(*itertools.islice(left, len(one.PARTS)))
                return next(left) if one is None else one.value

            args, kwargs = unflatten(self.tree, list(map(leaf, self.rest)))
            return self.function(*args, **kwargs)

        flat.__name__ = self.name if self.name.isidentifier() else "function"
        return flat


def read_call(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool
) -> TfCall | None:
    """A call; None for one of a model of Keras's that is put together.

    With ``stands``, specifications may stand for tensors.

    Raises:
        UnsupportedOpError: for tensors that are no arrays.
        ArgumentError: for what is neither a tensor nor has a hash.
    """
    leaves, tree = flatten((args, kwargs))
    if any(map(is_of_keras, leaves)):
        return None
    tensors, rest = _apart(map(_stand_in, leaves) if stands else leaves, name)
    shapes = [tuple(tensor.shape) for tensor in tensors]
    key = (tree, rest, tuple([(tensor.dtype, len(shape)) for tensor, shape in zip(tensors, shapes, strict=True)]))
    try:
        hash(key)
    except TypeError:
        raise ArgumentError(
            f"{name}(): an argument is neither a tensor nor has a hash.",
            loc=user_loc(),
            remedy="pass a tensor, or a tuple.",
        ) from None
    return TfCall(function, name, tree, tensors, rest, shapes, key)


def _apart(leaves: Iterable[Any], name: str) -> tuple[list[Any], tuple[Static | SparseLeaf | None, ...]]:
    """The tensors among the leaves of a call, and the others."""
    tensors: list[Any] = []
    rest: list[Static | SparseLeaf | None] = []
    for leaf in leaves:
        if isinstance(leaf, np.ndarray | np.generic):
            leaf = tf.convert_to_tensor(leaf)
        if isinstance(leaf, Tracer):
            raise ArgumentError(
                f"{name}() is TensorFlow's, and is called in a trace of dyn's with {leaf!r}.",
                loc=user_loc(),
                remedy="call it outside, or call the function of dyn's in it by dyn.interop.tf.call.",
            )
        if isinstance(leaf, tf.TensorSpec):  # of a call that is not made
            tensors.append(leaf)
            rest.append(None)
        elif isinstance(leaf, tf.Tensor):
            check_is_array(leaf)
            tensors.append(leaf)
            rest.append(None)
        elif isinstance(leaf, tf.SparseTensor | tf.SparseTensorSpec) and leaf.shape.rank is not None:
            parts = _parts_of(leaf)
            for part in parts if isinstance(leaf, tf.SparseTensor) else ():
                check_is_array(part)
            tensors += parts
            rest.append(SparseLeaf(leaf.shape.rank))
        elif isinstance(leaf, tf.__internal__.CompositeTensor) and not isinstance(leaf, tf.Variable):
            raise UnsupportedOpError(
                f"an argument that is a {type(leaf).__name__}, whose elements do not lie in an array.",
                loc=user_loc(),
                remedy="pass tf.sparse.to_dense(x) or x.to_tensor().",
            )
        else:
            rest.append(Static("argument", leaf))
    return tensors, tuple(rest)


def _parts_of(sparse: Any) -> list[Any]:
    """The tensors of a sparse one, or their specifications."""
    if isinstance(sparse, tf.SparseTensor):
        return [sparse.indices, sparse.values, sparse.dense_shape]
    rank = sparse.shape.rank
    return [tf.TensorSpec([None, rank], tf.int64), tf.TensorSpec([None], sparse.dtype), tf.TensorSpec([rank], tf.int64)]


def is_of_keras(leaf: object) -> bool:
    """Whether something stands for a tensor in a model of Keras that is put together."""
    keras = sys.modules.get("keras")  # who has one has imported it
    return keras is not None and isinstance(leaf, getattr(keras, "KerasTensor", ()))


def _stand_in(leaf: Any) -> Any:
    """The specification of a tensor for what stands for one."""
    if isinstance(leaf, ShapeDtypeStruct):
        return tf.TensorSpec(leaf.sizes(), tf.as_dtype(dtypes.dtype(leaf.dtype).name))
    return leaf
