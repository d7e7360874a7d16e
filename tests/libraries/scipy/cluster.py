"""Calls of ``scipy.cluster``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.libraries.calls import Maker, Table, classes, normal, positive

TABLE = Table("scipy.cluster")
_add = TABLE.add
_TREE = "the result is an object of Python"


def _linkage() -> Maker:
    """The linkage of some points."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        from scipy.cluster.hierarchy import linkage

        return linkage(rng.standard_normal((n, 2)), "single")

    return make


def _inconsistency(f: Any) -> Any:
    """The inconsistency of a linkage."""
    from scipy.cluster.hierarchy import inconsistent

    return inconsistent(f)


_add("vq.whiten", positive("n 3"))
_add("vq.vq", normal("n 3"), normal("2 3"))
_add("vq.kmeans", normal("n 3"), normal("2 3"), rng=1)
_add("vq.kmeans2", normal("n 3"), normal("2 3"), minit="matrix", missing="warn")

_POINTS = normal("n 2")
_METHODS = "average centroid complete linkage median single ward weighted"
_add(" ".join([f"hierarchy.{name}" for name in _METHODS.split()]), _POINTS)
_add("hierarchy.fclusterdata", _POINTS, t=1.0)
_add(
    "hierarchy.cophenet hierarchy.inconsistent hierarchy.is_monotonic hierarchy.is_valid_linkage",
    _linkage(),
    wide_only=True,
)
_add(
    "hierarchy.leaves_list hierarchy.num_obs_linkage hierarchy.maxdists hierarchy.to_mlab_linkage",
    _linkage(),
    wide_only=True,
)
_add("hierarchy.from_mlab_linkage", _linkage(), by=lambda f, xp, z: f(_mlab(z)))
_add("hierarchy.is_valid_im", _linkage(), by=lambda f, xp, z: f(_inconsistency(z)))
_add("hierarchy.maxinconsts", _linkage(), by=lambda f, xp, z: f(z, _inconsistency(z)))
_add("hierarchy.maxRstat", _linkage(), by=lambda f, xp, z: f(z, _inconsistency(z), 1))
_add("hierarchy.fcluster", _linkage(), t=2, criterion="maxclust")
_add("hierarchy.leaders", _linkage(), by=lambda f, xp, z: f(z, xp.astype(_flat(z), xp.int32)))
_add("hierarchy.correspond", _linkage(), normal("n"), by=lambda f, xp, z, x: f(z, _distances(xp, z)), wide_only=True)
_add("hierarchy.is_isomorphic", classes("n"), classes("n"))
_add("hierarchy.optimal_leaf_ordering", _linkage(), _POINTS, wide_only=True)
_add("hierarchy.to_tree", _linkage(), by=lambda f, xp, z: f(z).pre_order(), eager_only=_TREE, wide_only=True)
_add(
    "hierarchy.dendrogram",
    _linkage(),
    by=lambda f, xp, z: f(z, no_plot=True)["leaves"],
    eager_only=_TREE,
    wide_only=True,
)


def _mlab(z: Any) -> Any:
    """A linkage in MATLAB's form."""
    from scipy.cluster.hierarchy import to_mlab_linkage

    return to_mlab_linkage(z)


def _flat(z: Any) -> Any:
    """The flat clusters of a linkage."""
    from scipy.cluster.hierarchy import fcluster

    return fcluster(z, 2, "maxclust")


def _distances(xp: Any, z: Any) -> Any:
    """A condensed distance matrix of as many points as a linkage has."""
    count = z.shape[0] + 1
    return xp.ones(count * (count - 1) // 2)
