"""The namespace as tracers see it: operators, methods, ``np.*`` functions and ufuncs all lead here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.ir.core import Value
from dyn.numpy import _numpy_calls as numpy_calls
from dyn.numpy import _ufunc_methods as ufunc_methods
from dyn.numpy._in_place import in_place
from dyn.numpy._indexing.at import At
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.update import assigned
from dyn.numpy._operands import taking_lists
from dyn.numpy._standard import check_device, check_version
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.lift import is_liftable
from dyn.trace.methods import METHODS
from dyn.trace.tracer import Tracer

#: Attributes that are a function of the array.
_ATTRIBUTES = {"real": "real", "imag": "imag"}
#: The modules of NumPy whose functions dyn has.
_MODULES = ("linalg", "fft", "special")


def _is_special(name: str, ufunc: Any) -> bool:
    """Whether a ufunc is one of ``scipy.special``."""
    special = sys.modules.get("scipy.special._ufuncs")
    return getattr(special, name, None) is ufunc


class NumpyNamespace:
    """The one implementation of ``dyn.trace.context.Namespace``."""

    def is_operand(self, value: object) -> bool:
        """Tell whether operators take ``value`` beside an array."""
        return is_liftable(value)

    def has(self, name: str) -> bool:
        """Tell whether there is a function of this name, such as ``zeros`` or ``linalg.norm``."""
        found = self._function(name)
        return callable(found) and not isinstance(found, type)

    def wrap(self, trace: Trace, value: Value) -> Tracer:
        """The tracer of a value."""
        return Tracer(trace, value)

    def module(self) -> ModuleType:
        """``dyn.numpy``."""
        return sys.modules["dyn.numpy"]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = getattr(self.module(), name)
        self.__dict__[name] = found  # operators ask for it at each call
        return found

    def standard(self, api_version: str | None) -> ModuleType:
        """``dyn.numpy``, for a version of the array API standard."""
        check_version(api_version)
        return self.module()

    def check_device(self, what: str, device: object) -> None:
        """Raise ArgumentError for a device that there is not."""
        check_device(what, device)

    def getitem(self, x: Tracer, index: Any) -> Tracer:
        """``x[index]``."""
        result = getitem(x, index)
        return result.renewed() if result is x else result

    def assigned(self, x: Tracer, index: Any, value: Any) -> Tracer:
        """``x`` after ``x[index] = value``."""
        return assigned(x, index, value)

    def in_place(self, name: str, x: Tracer, other: Any) -> Tracer:
        """``x`` after ``x += other``, and its like."""
        return in_place(name, x, other)

    def at(self, x: Any) -> At:
        """``x.at``."""
        return At(x)

    def method(self, x: Tracer, name: str) -> Any:
        """``x.name``, where the class does not have it: an attribute that is computed."""
        if name in _ATTRIBUTES:
            return getattr(self, _ATTRIBUTES[name])(x)
        if name in ("itemsize", "nbytes"):
            itemsize = x.element_type.itemsize
            return itemsize if name == "itemsize" else x.size * itemsize
        raise AttributeError(self._no_attribute(x, name))

    def _no_attribute(self, x: Tracer, name: str) -> str:
        text = f"an array that is being traced ({x!r}) has no attribute {name!r}."
        if name in self._names():
            return f"{text} There is a function: dyn.numpy.{name}(x)."
        near = get_close_matches(name, [*METHODS, *_ATTRIBUTES], 1)
        return f"{text} Did you mean {near[0]!r}?" if near else text

    def _names(self) -> list[str]:
        return list(self.module().__all__)

    # ---- NumPy's protocols -------------------------------------------------------------------------------------------

    def from_ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``np.add(x, y)`` and its like."""
        name = ufunc.__name__
        if method == "at":
            return numpy_calls.at(ufunc, *inputs)
        out = kwargs.pop("out", None)
        if getattr(np, name, None) is not ufunc and method == "__call__" and _is_special(name, ufunc):
            name = f"special.{name}"
        if method != "__call__":
            own = self._known(name)
            with taking_lists():
                result = ufunc_methods.called(name, method, own, inputs, kwargs)
            return numpy_calls.written(name, out, result)
        if kwargs:
            self._refuse_options(name, kwargs)
        return numpy_calls.written(name, out, self._call(name, inputs, {}))

    def from_function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``np.sum(x)`` and its like."""
        name = func.__name__
        if func.__module__ != "numpy":
            name = f"{func.__module__}.{name}".removeprefix("numpy.")
        if name in numpy_calls.CHANGING:
            return numpy_calls.CHANGING[name](*args, **kwargs)
        own = self._known(name)
        places, options = numpy_calls.translated(name, func, own, args, kwargs)
        out = options.pop("out", None)
        return numpy_calls.written(name, out, self._call(name, places, options))

    def changed(self, name: str, x: Tracer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tracer:
        """``x`` after ``x.sort()``, and its like."""
        return numpy_calls.AFTER[name](x, *args, **kwargs)

    def written(self, name: str, out: Any, result: Any) -> Any:
        """``out`` after the result of the method ``name`` was written into it."""
        return numpy_calls.written(name, out, result)

    def _refuse_options(self, name: str, options: dict[str, Any]) -> None:
        listed = " and ".join(f"{option}=" for option in sorted(options))
        remedies = {
            "where": "choose with dyn.numpy.where.",
            "dtype": "convert the operands or the result with .astype.",
        }
        raise UnsupportedOpError(
            f"np.{name} does not take {listed} for arrays that are being traced.",
            loc=user_loc(),
            remedy=next((remedies[option] for option in sorted(options) if option in remedies), "leave it out."),
        )

    def _function(self, name: str) -> Any:
        """The function of dyn.numpy, or of one of its modules (``linalg.norm``); None where there is none."""
        module, _, last = name.rpartition(".")
        home = self.module() if not module else getattr(self.module(), module, None) if module in _MODULES else None
        if home is None or (last not in home.__all__ and module != "special"):
            return None
        return getattr(home, last, None)

    def _known(self, name: str) -> Callable[..., Any]:
        function = self._function(name)
        if function is None:
            near = get_close_matches(name, self._names(), 1, 0.7)
            hint = f"; dyn.numpy.{near[0]} is the nearest that is there" if near else ""
            raise UnsupportedOpError(
                f"np.{name} is not a function that dyn knows.",
                loc=user_loc(),
                remedy=f"build it from functions of dyn.numpy, or compute it outside of the compiled function{hint}.",
            )
        return function

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self._known(name)
        try:
            with taking_lists():
                return function(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, UnsupportedOpError) or "argument" not in str(error):
                raise
            raise UnsupportedOpError(
                f"dyn.numpy does not take these arguments of np.{name}: {error}.",
                loc=user_loc(),
                remedy="leave out what dyn.numpy's function of that name does not have.",
            ) from None


NAMESPACE = NumpyNamespace()
