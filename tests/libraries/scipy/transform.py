"""Calls of ``scipy.spatial.transform``: methods of its classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.libraries.calls import Maker, Table, normal, rising, uniform, unit_rows

TABLE = Table("scipy.spatial.transform")
_add = TABLE.add
_QUATERNIONS = unit_rows("n 4")


def rotations() -> Any:
    """The class ``Rotation``."""
    from scipy.spatial.transform import Rotation

    return Rotation


def transforms() -> Any:
    """The class ``RigidTransform``."""
    from scipy.spatial.transform import RigidTransform

    return RigidTransform


def _matrices(rigid: bool) -> Maker:
    """Rotation matrices, or those of rigid transforms."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        made = np.tile(np.eye(4), (n, 1, 1))
        made[:, :3, :3] = rotations().from_quat(rng.standard_normal((n, 4))).as_matrix()
        made[:, :3, 3] = rng.standard_normal((n, 3))
        return made if rigid else made[:, :3, :3].copy()

    return make


def _of(use: Any) -> Any:
    """Make a rotation of quaternions and use it; a rotation that comes out of it is given as quaternions."""
    return lambda f, xp, q, *others: use(rotations().from_quat(q), *others)


def _with(use: Any) -> Any:
    """Make a rigid transform of matrices and use it."""
    return lambda f, xp, m, *others: use(transforms().from_matrix(m), *others)


def _replaced(whole: Any) -> Any:
    """Set the first element to the last one."""
    whole[0] = whole[-1]
    return whole


for _name, _use in {
    "__getitem__": lambda r: r[1].as_quat(),
    "__mul__": lambda r: (r * r).as_quat(),
    "__pow__": lambda r: (r**0.5).as_quat(),
    "__setitem__": lambda r: _replaced(r).as_quat(),
    "as_davenport": lambda r: r.as_davenport([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "extrinsic"),
    "as_euler": lambda r: r.as_euler("xyz"),
    "as_matrix": lambda r: r.as_matrix(),
    "as_mrp": lambda r: r.as_mrp(),
    "as_quat": lambda r: r.as_quat(),
    "as_rotvec": lambda r: r.as_rotvec(),
    "approx_equal": lambda r: r.approx_equal(r),
    "concatenate": lambda r: rotations().concatenate([r, r]).as_quat(),
    "inv": lambda r: r.inv().as_quat(),
    "magnitude": lambda r: r.magnitude(),
    "mean": lambda r: r.mean().as_matrix(),
    "reduce": lambda r: r.reduce().as_quat(),
}.items():
    _add(f"Rotation.{_name}", _QUATERNIONS, by=_of(_use))
_add("Rotation.__iter__", _QUATERNIONS, by=_of(lambda r: [one.as_quat() for one in r]), eager_only="it is a loop")
_add(
    "Rotation.__repr__",
    _QUATERNIONS,
    by=_of(lambda r: repr(r).startswith("Rotation.from_matrix(")),
    eager_only="it is a text",
)
_add("Rotation.apply", _QUATERNIONS, normal("n 3"), by=_of(lambda r, v: r.apply(v)))
_add("Rotation.align_vectors", normal("n 3"), normal("n 3"), by=lambda f, xp, a, b: f(a, b)[0].as_matrix())
_add(
    "Rotation.from_davenport", normal("n 3"),
    by=lambda f, xp, x: f(xp.asarray([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]), "extrinsic", x).as_quat(),
)  # fmt: skip
_add("Rotation.from_euler", normal("n 3"), by=lambda f, xp, x: f("xyz", x).as_quat())
_add("Rotation.from_matrix", _matrices(rigid=False), by=lambda f, xp, x: f(x).as_quat())
_add("Rotation.from_mrp Rotation.from_rotvec", normal("n 3"), by=lambda f, xp, x: f(x).as_quat())
_add("Rotation.from_quat", normal("n 4"), by=lambda f, xp, x: f(x).as_quat())
_add(
    "Slerp.__init__ Slerp.__call__", _QUATERNIONS, rising("n"), uniform("5", 1.0, 1.5),
    by=lambda f, xp, q, times, at: _slerp()(times, rotations().from_quat(q))(at).as_quat(),
)  # fmt: skip


def _slerp() -> Any:
    """The class ``Slerp``."""
    from scipy.spatial.transform import Slerp

    return Slerp


for _name, _use in {
    "__getitem__": lambda t: t[1].as_matrix(),
    "__mul__": lambda t: (t * t).as_matrix(),
    "__pow__": lambda t: (t**0.5).as_matrix(),
    "__setitem__": lambda t: _replaced(t).as_matrix(),
    "as_components": lambda t: (t.as_components()[0], t.as_components()[1].as_matrix()),
    "as_dual_quat": lambda t: t.as_dual_quat(),
    "as_exp_coords": lambda t: t.as_exp_coords(),
    "as_matrix": lambda t: t.as_matrix(),
    "concatenate": lambda t: transforms().concatenate([t, t]).as_matrix(),
    "inv": lambda t: t.inv().as_matrix(),
    "mean": lambda t: t.mean().as_matrix(),
}.items():
    _add(f"RigidTransform.{_name}", _matrices(rigid=True), by=_with(_use))
_add(
    "RigidTransform.__iter__", _matrices(rigid=True), by=_with(lambda t: [one.as_matrix() for one in t]),
    eager_only="it is a loop",
)  # fmt: skip
_add("RigidTransform.apply", _matrices(rigid=True), normal("n 3"), by=_with(lambda t, v: t.apply(v)))
_add(
    "RigidTransform.from_components", normal("n 3"), _QUATERNIONS,
    by=lambda f, xp, v, q: f(v, rotations().from_quat(q)).as_matrix(),
)  # fmt: skip
_add("RigidTransform.from_dual_quat", unit_rows("n 8"), by=lambda f, xp, x: f(x).as_matrix())
_add("RigidTransform.from_exp_coords", normal("n 6"), by=lambda f, xp, x: f(x).as_matrix())
_add("RigidTransform.from_matrix", _matrices(rigid=True), by=lambda f, xp, x: f(x).as_matrix())
_add("RigidTransform.from_rotation", _QUATERNIONS, by=lambda f, xp, q: f(rotations().from_quat(q)).as_matrix())
_add("RigidTransform.from_translation", normal("n 3"), by=lambda f, xp, x: f(x).as_matrix())
_add(
    "RigidTransform.identity", normal("3"), by=lambda f, xp, x: f(2).as_matrix(), eager_only="it has no array as input"
)
_add("_rigid_transform.normalize_dual_quaternion", unit_rows("n 8"))
