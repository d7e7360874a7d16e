"""Functions of dyn inside of JAX programs."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dyn.api import Jitted
from dyn.errors import ArgumentError
from dyn.fork_safety import lock
from dyn.frontend.compiled_function import CacheInfo
from dyn.interop.jax.internals import import_jax
from dyn.interop.jax.programs import ProgramFamily
from dyn.late_imports import import_whole
from dyn.trace.pytree import TreeSpec, flatten, unflatten, unflatten_sorted
from dyn.trace.signature import BoundArguments, Signature
from dyn.trace.tracer import Tracer
from dyn.tracebacks import without_own_frames

#: So many functions are remembered, the latest used.
MOST_FUNCTIONS = 1024


def call(
    function: Callable[..., Any],
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> JaxCallable:
    """Function of dyn as one of JAX, of JAX arrays and tracers.

    It works alone and under ``jax.jit``, ``grad``, ``jvp``, ``vmap``, ``linearize``, ``checkpoint``, ``lax.scan``, and
    these in each other: derivatives and many examples are dyn's ``jvp``, ``vjp`` and ``vmap`` of the function. JAX
    compiles a program for each shape, as ever; dyn compiles one for all of them. ``call(f)`` of the same ``f`` finds
    the programs of the first.

    Under ``jax.export`` with symbolic sizes the function is written as StableHLO instead, as ``exported`` does, and
    needs no dyn to run.

    Args:
        function: function written with dyn, jitted or not: ``dyn.jit``'s static arguments, declared dims and
            ``batch_invariant`` hold, the latter for the programs that dyn compiles.
            Arguments and results are trees of arrays and numbers, in dyn's or JAX's containers.
        static_argnums: positions of arguments that are compared by ``==``; each value has programs of its own.
        static_argnames: the same by names.

    Returns:
        A :class:`JaxCallable`. Its results are JAX arrays, of dtypes that JAX has: 64 bits become 32 unless
        ``jax_enable_x64`` is set.

    Raises:
        ArgumentError: when called, for what is neither array nor static.
        ShapeError: when called, for sizes that the function does not take.
        NotYetError: under ``jax.jit``, for results whose sizes depend on values.
        UnsupportedOpError: for a derivative that there is none of, when it is asked for.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.grad(dyn.interop.jax.call(lambda x: (x * x).sum()))(jnp.array([1.0, 2.0]))
        Array([2., 4.], dtype=float32)
    """
    if isinstance(function, JaxCallable):
        function = function.function
    if not callable(function):
        raise ArgumentError(
            f"call takes a function, not a {type(function).__name__}.", remedy="write call(f)(x), not call(f(x))."
        )
    import_jax()
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if isinstance(function, Jitted):
        names = tuple(dict.fromkeys([*names, *sorted(function.static_names)]))
    return _FUNCTIONS.get((function, numbers, names), lambda: JaxCallable(function, numbers, names))


class _Functions:
    """The functions that ``call`` has given, by the function and the static arguments."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[Any, JaxCallable] = OrderedDict()

    def get(self, key: Any, make: Callable[[], JaxCallable]) -> JaxCallable:
        try:
            hash(key)
        except TypeError:  # a bound method of something without a hash
            return make()
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = make()
                if len(self._known) > MOST_FUNCTIONS:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return found


_FUNCTIONS = _Functions()


@dataclass(frozen=True, slots=True)
class _ContainerTree:
    """A tree of dyn's containers, whose leaves may be JAX's."""

    outer: TreeSpec
    inner: tuple[Any, ...]

    @staticmethod
    def of(jax: Any, leaves: Sequence[Any], outer: TreeSpec) -> tuple[list[Any], _ContainerTree]:
        """The arrays of a tree, of which dyn knows the containers down to ``leaves``."""
        parts = [jax.tree.flatten(leaf) for leaf in leaves]
        return [leaf for found, _ in parts for leaf in found], _ContainerTree(outer, tuple([tree for _, tree in parts]))

    def leaves(self, jax: Any, arrays: Sequence[Any]) -> list[Any]:
        """dyn's leaves, of other arrays."""
        rest = iter(arrays)
        return [jax.tree.unflatten(tree, [next(rest) for _ in range(tree.num_leaves)]) for tree in self.inner]

    def names(self, jax: Any, roots: Sequence[str]) -> list[str]:
        """Names of the arrays, as the user would write them."""
        found: list[str] = []
        for root, tree in zip(roots, self.inner, strict=True):
            marked = jax.tree.unflatten(tree, list(range(tree.num_leaves)))
            paths, _ = jax.tree.flatten_with_path(marked)
            found += [root + jax.tree_util.keystr(path) for path, _ in paths]
        return found


class JaxCallable:
    """Function of dyn that JAX calls. Made by :func:`call`.

    Attributes:
        cache_info: counts of its programs.
    """

    def __init__(self, function: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        # A jitted function takes dyn's trees only, and JAX's are taken apart and put together here.
        plain = function.function if isinstance(function, Jitted) and not function.declares else function
        self._batch_invariant = isinstance(function, Jitted) and function.batch_invariant
        self._signature = Signature(plain, None, numbers, names)
        self._lock = lock()
        self._families: dict[Any, ProgramFamily] = {}

    def __repr__(self) -> str:
        return f"dyn.interop.jax.call({self.function!r})"

    @without_own_frames
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        jax = import_jax()
        import_whole("dyn.interop.jax.primitive")
        from dyn.interop.jax import primitive

        bound = self._signature.bind(args, kwargs)
        leaves, tree = _ContainerTree.of(jax, bound.leaves, bound.tree)
        family = self._family(jax, bound, tree)
        arrays = [self._array(jax, leaf, name) for leaf, name in zip(leaves, family.names, strict=True)]
        avals = [primitive.aval_of(a) for a in arrays]
        version = family.version(avals)
        if any(aval.symbolic for aval in avals):
            results = list(version.exported().call(*arrays))
        else:
            results = primitive.call(version, arrays)
        made_tree: _ContainerTree = version.told
        return unflatten(made_tree.outer, made_tree.leaves(jax, results))

    def _family(self, jax: Any, bound: BoundArguments, tree: _ContainerTree) -> ProgramFamily:
        key = (tree, bound.static, bound.keywords)
        found = self._families.get(key)
        if found is None:
            with self._lock:
                found = self._families.get(key)
                if found is None:
                    found = self._families[key] = self._make(jax, bound, tree)
        return found

    def _make(self, jax: Any, bound: BoundArguments, tree: _ContainerTree) -> ProgramFamily:
        # What is kept must not keep the arrays of this call.
        form = BoundArguments([], bound.tree, bound.static, bound.keywords)

        def body(tracers: list[Tracer]) -> tuple[list[Any], _ContainerTree]:
            made = self._signature.call(form, tree.leaves(jax, tracers), unflatten_sorted)
            return _ContainerTree.of(jax, *flatten(made))

        names = tree.names(jax, self._signature.leaf_names(form))
        return ProgramFamily(body, self._signature.name, names, batch_invariant=self._batch_invariant)

    def _array(self, jax: Any, leaf: Any, name: str) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf
        try:
            return jax.numpy.asarray(leaf)
        except (TypeError, ValueError):
            raise ArgumentError(
                f"{self._signature.name}(): {name} is a {type(leaf).__name__}, which is not an array.",
                remedy="pass an array or a number, or name the argument in call(f, static_argnames=...).",
            ) from None

    def cache_info(self) -> CacheInfo:
        """Counts of programs traced for it, derivatives and the like among them, and of those compiled by dyn.

        Returns:
            A :class:`dyn.CacheInfo`, whose other counts are 0.
        """
        programs = [version for family in tuple(self._families.values()) for version in family.programs()]
        return CacheInfo(traces=len(programs), compiles=sum(version.is_compiled for version in programs))
