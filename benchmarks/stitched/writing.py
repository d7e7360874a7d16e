"""How the programs of this folder are written: once over a namespace, with NumPy in float64 to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.memory.program import Function, Make, Program, TorchGradient, over

#: A function of a namespace (``numpy``, ``jax.numpy``, ``dyn.numpy``) and of arrays.
Plain = Callable[..., Any]


def forward(family: str, name: str, what: str, make: Make, plain: Plain, torch_form: Function, **other: Any) -> Program:
    """A program that all libraries but PyTorch write alike; ``other`` is of :class:`Program`, its ``numpy`` and all."""
    import jax.numpy as jnp

    import dyn.numpy as dnp

    forms: dict[str, Function] = {"dyn": over(plain, dnp), "jax": over(plain, jnp), "numpy": over(plain, np)}
    forms |= {who: other.pop(who) for who in list(forms) if who in other}
    forms["numpy"] = in_float64(forms["numpy"])
    return Program(name, what, make, torch=torch_form, family=family, **forms, **other)


def backward(
    family: str, name: str, what: str, make: Make, plain: Plain, torch_form: Function, gradients: Function, leading: int
) -> Program:
    """The gradients of a program by its arguments, all of which are differentiated by: ``make`` draws a cotangent after
    them. ``gradients`` is NumPy's form."""
    import jax
    import jax.numpy as jnp

    import dyn
    import dyn.numpy as dnp

    def pulled(vjp: Function, function: Function) -> Function:
        return lambda *arguments: vjp(function, *arguments[:-1])[1](arguments[-1])

    return Program(
        name, what, make, family=family, numpy=in_float64(gradients), dyn=pulled(dyn.vjp, over(plain, dnp)),
        jax=pulled(jax.vjp, over(plain, jnp)), torch=TorchGradient(torch_form, leading, cotangent=True),
    )  # fmt: skip


def in_float64(function: Function) -> Function:
    """A function of NumPy that computes in float64, with arguments and results of float32; integers are left alone."""

    def wrapped(*arguments: Any) -> Any:
        return _cast(function(*_cast(list(arguments), "f4", "f8")), "f8", "f4")

    return wrapped


def _cast(tree: Any, old: str, new: str) -> Any:
    if isinstance(tree, tuple | list):
        return [_cast(one, old, new) for one in tree]
    array = np.asarray(tree)
    return array.astype(new) if array.dtype == old else array
