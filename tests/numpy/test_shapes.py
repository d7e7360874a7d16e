"""Broadcasting, reshaping, moving, joining and cutting: NumPy's results at every size, from one trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dyn.shapes import RelKind
from tests.numpy.differential import SIZES, Program, compare, trace

# ---- broadcasting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("n", "m"),
        ("n 3", "3"),
        ("n 3", "m 3"),
        ("n 1", "1 m"),
        ("n m", "k"),
        ("n 3", "m 1"),
        ("", "n"),
        ("3 1 n", "m n"),
    ],
)
def test_undecided_broadcast(x: str, y: str) -> None:
    compare(lambda xp, a, b: a + b, f"float32 {x}", f"float32 {y}")


def test_three_way_broadcast() -> None:
    compare(lambda xp, x, y, z: xp.where(x > 0, y, z), "float32 n", "float32 m", "float32 k")


def test_proved_sizes_need_no_check() -> None:
    traced = trace(lambda xp, x, y: (x + y) * x - 1, "float32 n 3", "float32 n 3")
    assert traced.function.facts.relations == ()
    assert not any(op.opdef.name == "broadcast_in_dim" and op.operands[0].shape for op in traced.function.ops)


def test_undecided_broadcast_is_one_check() -> None:
    traced = trace(lambda xp, x, y: (x + y) * y + x, "float32 n", "float32 m")
    assert [r.kind for r in traced.function.facts.relations] == [RelKind.BROADCASTS]
    assert "x + y broadcasts axis 0" in {r.reason.text for r in traced.function.facts.relations}


def test_rows_of_a_table() -> None:
    # x + table[:n] fits only where the table has n rows.
    traced = compare(lambda xp, x, t: x + t[: x.shape[0]], "float32 n 3", "float32 4 3", sizes=(0, 1, 2, 4, 5))
    (relation,) = traced.function.facts.relations
    assert relation.kind is RelKind.EQ


def test_broadcast_to() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return xp.broadcast_to(x, (m, n)), xp.broadcast_to(x[:, None], (n, m)), xp.broadcast_to(2.5, (n, 3))

    compare(program, "float32 n", "float32 m")
    compare(lambda xp, x, y: xp.broadcast_to(x, (3, y.shape[0])), "float32 n", "float32 m")
    compare(lambda xp, x: xp.broadcast_to(x, (2, 7)), "float32 n")
    compare(lambda xp, x, y: xp.broadcast_arrays(x, y, 1.0), "float32 n 1", "float32 m")


def test_broadcast_shapes() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.zeros(xp.broadcast_shapes(x.shape, y.shape, (3, 1)))

    compare(program, "float32 n", "float32 3 m")


# ---- reshape ---------------------------------------------------------------------------------------------------------

RESHAPES: dict[str, tuple[Program, str]] = {
    "flat": (lambda xp, x: x.reshape(-1), "n 3 m"),
    "merge": (lambda xp, x: x.reshape(x.shape[0], -1), "n 3 4"),
    "split": (lambda xp, x: x.reshape(*x.shape[:2], 2, 3), "n m 6"),
    "infer_static": (lambda xp, x: x.reshape((x.shape[0] + 1, -1)[0] - 1, 2, 3), "n 6"),
    "rows": (lambda xp, x: xp.reshape(x, (-1, 6)), "n m 6"),
    "by_dims": (lambda xp, x: x.reshape(x.shape[0] * x.shape[1], 3), "n m 3"),
    "quotient": (lambda xp, x: x.reshape(-1, 2), "n"),
    "quotient_of_product": (lambda xp, x: x.reshape(2, -1), "n 3"),
    "fixed": (lambda xp, x: x.reshape(2, 7), "n m"),
    "ravel": (lambda xp, x: (xp.ravel(x), x.ravel(), x.flatten()), "n 3 m"),
    "scalar": (lambda xp, x: (x.sum().reshape(1, 1), x.sum().reshape(-1)), "n"),
    "expand": (lambda xp, x: (xp.expand_dims(x, 0), xp.expand_dims(x, -1), xp.expand_dims(x, (0, 2, -1))), "n 3"),
    "squeeze": (lambda xp, x: (xp.squeeze(x, 1), x.squeeze((1, -1))), "n 1 3 1"),
    "atleast": (lambda xp, x: (xp.atleast_2d(x), xp.atleast_1d(x.sum())), "n"),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshape(name: str) -> None:
    program, axes = RESHAPES[name]
    # Where a size is 0 NumPy cannot say what -1 is.
    compare(program, f"float32 {axes}", sizes=(1, 2, 7) if name == "merge" else SIZES)


def test_reshape_infers_where_a_size_is_zero() -> None:
    # NumPy cannot say what -1 is when the first size is 0; here it follows from the shapes alone.
    traced = trace(lambda xp, x: x.reshape(*x.shape[:2], 12, -1), "float32 n m 768")
    assert str(traced.function.results[0].type) == "f32[n, m, 12, 64]"
    assert traced.function.facts.relations == ()


def test_squeeze_of_an_undecided_axis_is_checked() -> None:
    compare(lambda xp, x: xp.squeeze(x, 0), "float32 n 3")


# ---- the order of axes -----------------------------------------------------------------------------------------------


def test_transposes() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            x.T, x.transpose(2, 0, 1), x.transpose((1, 0, 2)), xp.transpose(x), x.transpose(), xp.swapaxes(x, 0, -1),
            x.swapaxes(0, 1), xp.moveaxis(x, 0, -1), xp.moveaxis(x, (0, 1), (-1, 0)), xp.permute_dims(x, (1, 2, 0)),
            xp.matrix_transpose(x), x.mT,
        )  # fmt: skip

    compare(program, "float32 n 3 m")


def test_flips_and_rolls() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.flip(x), xp.flip(x, 0), xp.flip(x, (0, 1)), xp.flipud(x), xp.fliplr(x), xp.roll(x, 1, 0),
            xp.roll(x, -2, 1), xp.roll(x, 3), xp.roll(x, (1, 2), (0, 1)), xp.roll(x, x.shape[0] + 1, 1),
        )  # fmt: skip

    compare(program, "float32 n m")


# ---- joining and cutting ---------------------------------------------------------------------------------------------


def test_joining() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.concatenate([x, y]), xp.concatenate([x, x], axis=-1), xp.concatenate([x, y], axis=None),
            xp.concat([x, y, x]), xp.stack([x, x + 1]), xp.stack([x, x], axis=-1), xp.vstack([x, y]),
            xp.hstack([x, x]), xp.hstack([x[:, 0], y[:, 0]]), xp.vstack([x[:, 0], x[:, 1]]),
        )  # fmt: skip

    compare(program, "float32 n 3", "float32 m 3")


def test_joined_dtypes_and_numbers() -> None:
    compare(lambda xp, x, y: xp.concatenate([x, y]), "int32 n", "float32 m")
    compare(lambda xp, x: xp.stack([x.sum(), 1.0, x.max(initial=3)]), "float64 n")


def test_joined_arrays_must_fit() -> None:
    compare(lambda xp, x, y: xp.concatenate([x, y]), "float32 n m", "float32 n k")
    compare(lambda xp, x, y: xp.stack([x, y]), "float32 n", "float32 m")


def test_repeating() -> None:
    def program(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return (
            xp.tile(x, 2), xp.tile(x, (2, 1, 3)), xp.tile(x, (n, 1)), xp.repeat(x, 3), xp.repeat(x, 2, axis=1),
            xp.repeat(x, n, axis=0), x.repeat(0, 0),
        )  # fmt: skip

    compare(program, "float32 n m")


def test_cutting() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.split(x, 3, axis=1), xp.split(x, [2], axis=0), xp.split(x, [1, 4, 5], axis=0), xp.array_split(x, 3),
            xp.array_split(x, 4, axis=1), xp.unstack(x, axis=1),
        )  # fmt: skip

    compare(program, "float32 n 6")
    compare(lambda xp, x: xp.split(x, 2), "float32 n 3")


def test_padding() -> None:
    def program(xp: Any, x: Any) -> Any:
        return xp.pad(x, 1), xp.pad(x, (0, 2), constant_values=5), xp.pad(x, ((1, 0), (2, 3))), xp.pad(x, 0)

    compare(program, "float32 n m")
    traced = trace(lambda xp, x: xp.pad(x, ((0, x.shape[0]), (1, 1))), "float32 n 3")
    assert str(traced.function.results[0].type) == "f32[2*n, 5]"


def test_sizes_in_shape_arguments() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return (
            xp.zeros((n, m + 1)), xp.ones(n * m), xp.full((n // 2, m % 3), 7), xp.arange(n), xp.arange(n, n + m),
            xp.arange(0, n, 3), xp.arange(n, -1, -2), xp.arange(n - 3), xp.eye(n, m), xp.eye(n, k=1),
            xp.linspace(0.0, 1.0, n + 1), xp.size(x), xp.size(x, 0),
        )  # fmt: skip

    def oracle(xp: Any, x: Any, y: Any) -> Any:
        return tuple(np.asarray(v) if isinstance(v, int) else v for v in program(xp, x, y))

    compare(program, "float32 n", "float32 m", oracle=oracle, rtol=1e-12)


def test_creation() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.zeros_like(x), xp.ones_like(x, dtype="int32"), xp.full_like(x, 2.5), xp.full_like(x, 2, shape=(2, 3)),
            xp.zeros(()), xp.zeros((2, 3), "int8"), xp.full((2,), True), xp.full((2, 3), x.sum()), xp.identity(3),
            xp.arange(5), xp.arange(2, 9, 3), xp.arange(9, 2, -2), xp.arange(0), xp.arange(5, dtype="float32"),
            xp.arange(0.5, 2.5, 0.25), xp.arange(3.0), xp.eye(3, 4, k=-1), xp.tri(3, 4, 1), xp.linspace(0, 1, 5),
            xp.linspace(0, 1, 5, endpoint=False), xp.linspace(2, 3, 1), xp.tril(x), xp.triu(x, 1), xp.tril(x, -1),
            xp.asarray([1, 2, 3]), xp.asarray([[1.5], [2.5]]), xp.asarray([x.sum(), 1.0]), xp.array(3), xp.asarray([4]),
            xp.asarray([]), xp.copy(x), xp.meshgrid(x[0], xp.arange(4)), xp.meshgrid(x[0], x[0], indexing="ij"),
        )  # fmt: skip

    compare(program, "float64 3 n", rtol=1e-12)


def test_empty_is_defined() -> None:
    compare(
        lambda xp, x: (xp.empty((x.shape[0], 3)), xp.empty_like(x)),
        "float64 n",
        oracle=lambda xp, x: (xp.zeros((x.shape[0], 3)), xp.zeros_like(x)),
    )
