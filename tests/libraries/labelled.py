"""Calls of xarray on ``DataArray`` and ``Dataset`` that wrap an array."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tests.libraries.calls import Call, Table, normal, positive

TABLE = Table("xarray")


def _use(name: str, use: Callable[..., Any], *, eager_only: str = "") -> None:
    """Add a call on two wrapped arrays, of the dims ``x, y`` and ``x``; its result is unwrapped."""

    def by(function: Any, xp: Any, *arrays: Any) -> Any:
        xarray = importlib.import_module("xarray")
        first = function(arrays[0], dims=("x", "y"))
        result = use(first, function(arrays[1], dims=("x",)), xarray)
        results = result if isinstance(result, (list, tuple)) else [result]
        return [one.data if isinstance(one, xarray.DataArray) else one for one in results]

    makers = (normal("n 4"), positive("n"))
    TABLE.calls.append(Call("xarray.DataArray", makers, by, eager_only=eager_only, variant=name))


_use("arithmetic", lambda a, b, xr: 2 * a + a**2 - 1)
_use("broadcasting", lambda a, b, xr: a * b)
_use("comparison", lambda a, b, xr: (a > b) & (a < 2))
for _name in ("sum", "mean", "max", "min", "std", "var", "prod", "any", "all", "count", "median"):
    _use(f"{_name} over x", lambda a, b, xr, name=_name: getattr(a, name)("x"))
for _name in ("sum", "mean", "max", "argmax", "cumsum", "cumprod"):
    _use(f"{_name} over y", lambda a, b, xr, name=_name: getattr(a, name)("y"))
_use("mean without skipna", lambda a, b, xr: a.mean("x", skipna=False))
_use("abs and round", lambda a, b, xr: abs(a).round())
_use("astype", lambda a, b, xr: a.astype("float32"))
_use("where", lambda a, b, xr: a.where(a > 0, 0.0))
_use("where nan", lambda a, b, xr: a.where(a > 0))
_use("xr.where", lambda a, b, xr: xr.where(a > 0, a, b))
_use("clip", lambda a, b, xr: a.clip(-1.0, 1.0))
_use("fillna", lambda a, b, xr: a.where(a > 0).fillna(1.0))
_use("isnull", lambda a, b, xr: a.where(a > 0).isnull())
_use("isel", lambda a, b, xr: a.isel(x=slice(1, None), y=0))
_use("isel of a list", lambda a, b, xr: a.isel(y=[0, 2]))
_use("sel", lambda a, b, xr: a.assign_coords(y=[1, 2, 3, 4]).sel(y=3))
_use("indexing", lambda a, b, xr: a[1:, ::2])
_use("concat", lambda a, b, xr: xr.concat([a, a + 1], "x"))
_use("concat of a new dim", lambda a, b, xr: xr.concat([a, a + 1], "z"))
_use("stack", lambda a, b, xr: a.stack(z=("x", "y")), eager_only="it makes an index of NumPy")
_use("transpose", lambda a, b, xr: a.transpose("y", "x"))
_use("expand_dims", lambda a, b, xr: a.expand_dims("z"))
_use("squeeze", lambda a, b, xr: a.isel(y=[0]).squeeze("y"))
_use("shift", lambda a, b, xr: a.shift(x=1))
_use("roll", lambda a, b, xr: a.roll(x=1))
_use("diff", lambda a, b, xr: a.diff("x"))
_use("pad", lambda a, b, xr: a.pad(x=(1, 1), constant_values=0.0))
_use("dot", lambda a, b, xr: xr.dot(a, b, dim="x"))
_use(
    "apply_ufunc",
    lambda a, b, xr: xr.apply_ufunc(
        lambda u, v: u + 2 * v[..., None], a, b, input_core_dims=[["y"], []], output_core_dims=[["y"]]
    ),
)
_use("full_like", lambda a, b, xr: xr.full_like(a, 2.0) + a)
_use("zeros_like", lambda a, b, xr: xr.zeros_like(a) + a)
_use("rolling mean", lambda a, b, xr: a.rolling(y=2).mean())
_use("rolling construct", lambda a, b, xr: a.rolling(y=2).construct("window"))
_use("coarsen", lambda a, b, xr: a.coarsen(y=2).sum())
_use("sortby", lambda a, b, xr: a.sortby(xr.DataArray([3, 1, 2, 0], dims="y")))
_use("weighted", lambda a, b, xr: a.weighted(b).mean("x"))
_use("groupby", lambda a, b, xr: a.assign_coords(y=[0, 0, 1, 1]).groupby("y").mean())
_use("dataset", lambda a, b, xr: list((xr.Dataset({"a": a, "b": b}) * 2).mean("x").data_vars.values()))
_use("polyval", lambda a, b, xr: xr.polyval(a, xr.DataArray([1.0, 2.0], dims="degree", coords={"degree": [0, 1]})))
_use("integrate", lambda a, b, xr: a.assign_coords(y=[0.0, 1.0, 2.0, 4.0]).integrate("y"))
_use("differentiate", lambda a, b, xr: a.assign_coords(y=[0.0, 1.0, 2.0, 4.0]).differentiate("y"))
_use("interp", lambda a, b, xr: a.assign_coords(y=[0.0, 1.0, 2.0, 3.0]).interp(y=1.5))
_use("equals", lambda a, b, xr: a.equals(a + 0))
_use("to_numpy", lambda a, b, xr: a.to_numpy(), eager_only="it gives NumPy's array")
