"""Calls of array-api-extra and of einops."""

from __future__ import annotations

from typing import Any

from tests.libraries.calls import Table, classes, complexes, constant, integers, normal, positive

# einops's other functions know arrays by their classes alone; those of `array_api` take any namespace.
EXTRA, EINOPS = Table("array_api_extra"), Table("einops")
_add = EXTRA.add

_add("angle", complexes("n"))
_add("apply_where", normal("n"), by=lambda f, xp, x: f(x > 0, (x,), lambda x: x**0.5, fill_value=0.0))
_add("apply_where", normal("n"), variant="two", by=lambda f, xp, x: f(x > 0, (x,), lambda x: x, lambda x: -x))
_add("argpartition", normal("n"), by=lambda f, xp, x: xp.take(x, f(x, 1))[1])
_add("partition", normal("n"), by=lambda f, xp, x: f(x, 1)[1])
for _name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
    _add("at", positive("n 3"), variant=_name, by=lambda f, xp, x, name=_name: getattr(f(x)[1:, 0], name)(2.0))
_add("at", positive("n 3"), variant="mask", by=lambda f, xp, x: f(x)[x > 1.0].set(0.0))
_add("atleast_nd", normal("n"), by=lambda f, xp, x: f(x, ndim=3))
_add("broadcast_shapes", normal("n 3"), normal("3"), by=lambda f, xp, x, y: x + xp.zeros(f(x.shape, y.shape)))
_add("cov", normal("3 n"))
_add("create_diagonal", normal("n"), offset=1)
_add("default_dtype", normal("n"), by=lambda f, xp, x: xp.astype(x, f(xp)))
_add("deg2rad rad2deg sinc nan_to_num", normal("n"))
_add("diag_indices", normal("n n"), by=lambda f, xp, x: x[f(x.shape[0], xp=xp)])
_add("tril_indices triu_indices", normal("n n"), by=lambda f, xp, x: x[f(x.shape[0], xp=xp)])
_add("expand_dims", normal("n"), axis=(0, 2))
_add("isclose", normal("n"), normal("n"))
_add("isin", integers("n"), constant([1, 3]))
_add("kron", normal("n 2"), normal("2 2"))
_add("lazy_apply", normal("n"), by=lambda f, xp, x: f(_doubled, x, shape=x.shape, dtype=x.dtype, as_numpy=True))
_add("nanmax nanmean nanmin nansum", normal("n"), by=lambda f, xp, x: f(xp.where(x > 1, xp.nan, x)))
_add("nunique", integers("n"))
_add("one_hot", classes("n"), num_classes=4)
_add("pad", normal("n 3"), pad_width=((1, 2), (0, 1)))
_add("searchsorted", constant([0.0, 0.5, 1.0]), normal("n"))
_add("setdiff1d", integers("n"), constant([1, 3]))
_add("union1d", integers("n"), constant([1, 9]))
_add("unravel_index", integers("n", 0, 12), by=lambda f, xp, x: f(x, (3, 4)))


def _doubled(x: Any) -> Any:
    """A function of NumPy's arrays."""
    return x * 2


_add = EINOPS.add
_add("array_api.rearrange", normal("n 3 4"), pattern="a b c -> c (a b)")
_add("array_api.rearrange", normal("n 6"), variant="split", pattern="a (b c) -> b a c", b=2)
for _name in ("sum", "mean", "max", "min", "prod"):
    _add("array_api.reduce", normal("n 3 4"), variant=_name, pattern="a b c -> a c", reduction=_name)
_add("array_api.repeat", normal("n 3"), pattern="a b -> a r b", r=2)
_add("array_api.pack", normal("n 3"), normal("n 2 3"), by=lambda f, xp, x, y: f([x, y], "n * c")[0])
_add("array_api.unpack", normal("n 6"), by=lambda f, xp, x: f(x, [(2,), (2, 2)], "n *"))
_add("array_api.asnumpy", normal("n 3"), eager_only="it gives NumPy's array")
