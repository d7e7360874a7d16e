"""JAX functions compiled by dyn: traced once by JAX, for every shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.api import Jitted
from dyn.errors import ArgumentError, NotYetError
from dyn.forking import lock
from dyn.interop.jax.exported import import_jax
from dyn.interop.stablehlo.load import load


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] = (),
    shapes: str | None = None,
) -> Any:
    """In place of ``jax.jit``: one trace by JAX and one compile by dyn serve every shape.

    Each axis of each argument that is an array by itself is symbolic; ``shapes="b s 768, s n"`` names axes of the
    dynamic arguments, says which are equal, and makes those that are numbers static. Arrays inside of containers
    (parameter trees) have static shapes: another shape there is another program, as is another dtype or another value
    of a static argument. Results are JAX arrays where arguments are.

    JAX takes symbolic sizes to be at least 1: with an argument of size 0 the program is traced for that shape alone.

    Raises what JAX raises where it cannot trace a function for symbolic sizes (undecided comparisons of sizes, a
    convolution or FFT whose length decides its code): name equal sizes, or make them static, with ``shapes=``.
    """
    if function is None:
        return functools.partial(jit, static_argnums=static_argnums, shapes=shapes)
    if not callable(function):
        raise ArgumentError(f"jit takes a function, not a {type(function).__name__}.")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    return JaxJitted(function, numbers, shapes)


class JaxJitted:
    """A JAX function that dyn compiles. Made by :func:`jit`."""

    def __init__(self, function: Callable[..., Any], static: tuple[int, ...], shapes: str | None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._static = static
        self._shapes = None if shapes is None else [s.strip() for s in shapes.split(",")]
        self._programs: dict[Any, tuple[Jitted, Any, tuple[int, ...]]] = {}
        self._lock = lock()

    def __call__(self, /, *args: Any) -> Any:
        jax = import_jax()
        dynamic = [a for i, a in enumerate(args) if i not in self._static]
        leaves, tree = jax.tree.flatten(dynamic)
        bare = [jax.tree.structure(a) == jax.tree.structure(0) for a in dynamic]
        key = self._key(args, dynamic, leaves, tree, bare)
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key)
                if program is None:
                    program = self._programs[key] = self._export(jax, args, dynamic, bare)
        run, out_tree, kept = program
        arrays = [self._array(jax, leaves[i]) for i in kept]
        made = run(*arrays)
        results = list(made) if isinstance(made, tuple) else [made]
        return jax.tree.unflatten(out_tree, [jax.numpy.asarray(r) for r in results])

    @staticmethod
    def _array(jax: Any, leaf: Any) -> Any:
        return leaf if isinstance(leaf, jax.Array | np.ndarray) else np.asarray(jax.numpy.asarray(leaf))

    def cache_info(self) -> tuple[int, int]:
        """How often JAX has traced, and how often dyn has compiled."""
        return len(self._programs), sum(run.cache_info().compiles for run, _, _ in self._programs.values())

    def _key(self, args: Any, dynamic: list[Any], leaves: list[Any], tree: Any, bare: list[bool]) -> Any:
        """What another program is made for: trees, dtypes, ranks, static shapes and values, and which sizes are 0."""
        jax = import_jax()
        types = tuple([(jax.numpy.result_type(leaf).name, np.ndim(leaf)) for leaf in leaves])
        sizes = tuple([
            tuple([n == 0 for n in np.shape(a)]) if own else tuple([np.shape(x) for x in jax.tree.leaves(a)])
            for a, own in zip(dynamic, bare, strict=True)
        ])  # fmt: skip
        empty = tuple([np.shape(a) if own and 0 in np.shape(a) else None for a, own in zip(dynamic, bare, strict=True)])
        static = tuple([args[i] for i in self._static])
        return tree, types, sizes, empty, static, bool(jax.config.jax_enable_x64)

    def _export(self, jax: Any, args: Any, dynamic: list[Any], bare: list[bool]) -> tuple[Jitted, Any, tuple[int, ...]]:
        specs = self._specs(jax, dynamic, bare)
        static = {i: args[i] for i in self._static}

        def closed(*given: Any) -> Any:
            rest = iter(given)
            return self._function(*[static[i] if i in static else next(rest) for i in range(len(args))])

        exported = jax.export.export(jax.jit(closed))(*specs)
        unknown = [a.dtype for a in exported.out_avals if a.dtype.name not in {d.name for d in dtypes.ALL}]
        if unknown:
            raise NotYetError(f"results of dtype {unknown[0]} come later.")
        return load(exported.mlir_module_serialized), exported.out_tree, tuple(exported.module_kept_var_idx)

    def _specs(self, jax: Any, dynamic: list[Any], bare: list[bool]) -> list[Any]:
        """What JAX traces with: symbols for the sizes of bare arrays."""
        scope, specs = jax.export.SymbolicScope(), list[Any]()
        for number, (arg, own) in enumerate(zip(dynamic, bare, strict=True)):
            if not own or 0 in np.shape(arg):
                specs.append(jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), jax.numpy.result_type(x)), arg))
                continue
            words = self._words(number, np.ndim(arg))
            text = f"({', '.join(words)},)" if words else "()"
            shape = jax.export.symbolic_shape(text, scope=scope)
            specs.append(jax.ShapeDtypeStruct(shape, jax.numpy.result_type(arg)))
        return specs

    def _words(self, number: int, rank: int) -> list[str]:
        given = self._shapes[number] if self._shapes is not None and number < len(self._shapes) else "..."
        words = ["_"] * rank if given == "..." else [] if given == "()" else given.split()
        if len(words) != rank:
            raise ArgumentError(f"shapes= gives argument {number} the axes {given!r}, and it has {rank}.")
        return [f"d{number}_{axis}" if word == "_" else word for axis, word in enumerate(words)]
