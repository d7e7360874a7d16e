"""NumPy's functions that this version does not have: each raises NotYetError, and says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dyn.errors import NotYetError
from dyn.source import user_loc

__all__ = [
    "argpartition", "bincount", "convolve", "correlate", "cross",
    "from_dlpack", "gcd", "histogram", "interp", "isin", "kron", "lcm", "median", "partition", "percentile",
    "quantile", "searchsorted",

]  # fmt: skip


def _raises(name: str, problem: str, remedy: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotYetError(f"{name} {problem}.", loc=user_loc(), remedy=remedy)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not yet: raises NotYetError. {name} {problem}."
    return function


def _later(name: str) -> Callable[..., Any]:
    return _raises(name, "comes later", "compute it outside of the compiled function.")


gcd = _later("gcd")
lcm = _later("lcm")

partition = _later("partition")
argpartition = _later("argpartition")
searchsorted = _later("searchsorted")
median = _later("median")
quantile = _later("quantile")
percentile = _later("percentile")
bincount = _later("bincount")
histogram = _later("histogram")
interp = _later("interp")
isin = _later("isin")

convolve = _later("convolve")
correlate = _later("correlate")
cross = _later("cross")
kron = _later("kron")
from_dlpack = _later("from_dlpack")
