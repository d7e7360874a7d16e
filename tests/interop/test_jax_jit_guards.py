"""Programs that JAX cannot trace for every size: the sizes they are for, by which line, and the number of traces."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import dyn  # noqa: E402
import dyn.interop.jax as djax  # noqa: E402
from tests.interop.counting import counts  # noqa: E402


def ones(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))


def guards(run: Any) -> list[list[str]]:
    """For each program its guards, without why."""
    notes = ["\n".join(way.notes).splitlines()[1:] for way in run.explain().ways]
    return [[line[2:].split(":")[0] for line in lines if line[2] != " "] for lines in notes]


def outcome(run: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        return run(*args)
    except Exception as error:  # whatever JAX raises is compared
        return error


def check(function: Callable[..., Any], calls: Sequence[Sequence[Any]], **options: Any) -> Any:
    """Results, or errors, as ``jax.jit`` has them."""
    run, plain = djax.jit(function, **options), jax.jit(function)
    for args in calls:
        wanted, actual = outcome(plain, args), outcome(run, args)
        if isinstance(wanted, Exception):
            assert (type(actual), str(actual)) == (type(wanted), str(wanted))
            continue
        assert jax.tree.structure(actual) == jax.tree.structure(wanted)
        for a, w in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
            assert (a.shape, a.dtype, a.weak_type) == (w.shape, w.dtype, w.weak_type)
            np.testing.assert_allclose(a, w, 1e-4, 1e-5)
    return run


def test_sizes_that_have_to_be_equal() -> None:
    run = check(lambda x, y: x @ y, [(ones(2, 3), ones(3, 4)), (ones(1, 7), ones(7, 4)), (ones(2, 3), ones(4, 3))])
    assert guards(run) == [["x.shape[1] == y.shape[0]"]]
    # One; and those that say what is wrong with the last call.
    assert counts(run) == (4, 1)


def test_broadcasting_has_programs_of_its_own() -> None:
    run = check(lambda x, y, z: x + y + z, [(ones(3),) * 3, (ones(7),) * 3, (ones(7), ones(7), ones(1))])
    assert guards(run) == [
        ["x.shape[0] == y.shape[0]", "x.shape[0] == z.shape[0]"],
        ["x.shape[0] == y.shape[0]", "z.shape[0] == 1"],
    ]


def test_shapes_that_have_to_be_alike() -> None:
    run = check(lambda x, y: jnp.stack([x, y]), [(ones(2, 3),) * 2, (ones(1, 7),) * 2, (ones(1, 7), ones(2, 7))])
    sides = [{tuple(sorted(guard.split(" == "))) for guard in one} for one in guards(run)]  # JAX 0.9 asks y's first
    assert sides == [{("x.shape[0]", "y.shape[0]"), ("x.shape[1]", "y.shape[1]")}]
    assert run.cache_info().compiles == 1


def test_a_size_that_has_to_be_what_the_function_has() -> None:
    w = ones(5, 3)
    run = check(lambda x: x @ w, [(ones(n, 5),) for n in (1, 2, 7, 64)] + [(ones(2, 4),)])
    assert guards(run) == [["x.shape[1] == 5"]]
    assert run.cache_info().compiles == 1


def test_divisions() -> None:
    run = check(lambda x: x.reshape(2, -1), [(ones(n),) for n in (4, 6, 100, 7)])
    assert guards(run) == [["x.shape[0] % 2 == 0"]]
    heads = check(lambda x: x.reshape(*x.shape[:2], 8, -1).swapaxes(1, 2), [(ones(3, 4, 16),), (ones(1, 2, 24),)])
    assert guards(heads) == [["x.shape[2] % 8 == 0"]]
    rows = check(lambda x: x.reshape(-1, 8), [(ones(n, 4),) for n in (4, 6, 100)])
    assert guards(rows) == [["x.shape[0]*x.shape[1] % 8 == 0"]]
    halves = check(lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :], [(ones(n),) for n in (4, 6, 64, 7)])
    assert guards(halves) == [["x.shape[0] % 2 == 0"]]
    assert {r.cache_info().compiles for r in (run, heads, rows, halves)} == {1}


def test_divisions_of_divisions() -> None:
    """The divisions of a UNet on its way down and up again, without a declaration."""

    def pool(x: Any) -> Any:
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (2,), (2,), "VALID")

    def unet(x: Any) -> Any:
        half = pool(x)
        up = jnp.stack([jnp.repeat(pool(half), 2), half]).sum(0)
        return jnp.stack([jnp.repeat(up, 2), x])

    run = check(unet, [(ones(n),) for n in (8, 12, 4, 100)])
    assert guards(run) == [["floordiv(x.shape[0], 2) % 2 == 0", "x.shape[0] % 4 == 0"]]
    assert run.cache_info().compiles == 1


def test_which_is_larger() -> None:
    run = check(lambda x: jax.lax.top_k(x, 3), [(ones(n),) for n in (4, 64, 3, 2)])
    assert guards(run) == [["x.shape[0] >= 3"]]
    branch = check(lambda x: x if x.shape[0] > 5 else x * 2, [(ones(n),) for n in (4, 6, 64, 1, 5)])
    assert guards(branch) == [["5 >= x.shape[0]"], ["x.shape[0] >= 6"]]
    assert branch.cache_info().compiles == 2


def test_equal_expressions() -> None:
    table = ones(16, 4)
    run = check(lambda x: x + table[: x.shape[1]], [(ones(2, n, 4),) for n in (3, 7, 16, 1, 17)])
    assert guards(run) == [["x.shape[1] == min(16, x.shape[1])", "x.shape[2] == 4"]]
    assert run.cache_info().compiles == 1


def convolved(x: Any, w: Any, stride: int) -> Any:
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )  # fmt: skip


def test_equal_divisions_of_residual_blocks() -> None:
    w3, w1 = ones(3, 3, 4, 4), ones(1, 1, 4, 4)

    def block(x: Any) -> Any:
        return convolved(convolved(x, w3, 2), w3, 2) + convolved(x, w1, 4)

    run = check(block, [(ones(2, n, n + 3, 4),) for n in (13, 16, 9)])
    assert run.cache_info().compiles == 1
    assert "x.shape[0]" not in " ".join(guards(run)[0])


def test_what_the_lines_of_users_ask() -> None:
    # A comparison that JAX answers with no for every size, and says nothing.
    one = check(lambda x: x if x.shape[0] == 1 else x * 2, [(ones(n),) for n in (4, 1, 6)])
    assert guards(one) == [["x.shape[0] != 1"], ["x.shape[0] == 1"]]
    even = check(lambda x: x if not x.shape[0] % 2 else x * 2, [(ones(n),) for n in (4, 7, 6, 1)])
    assert guards(even) == [["x.shape[0] % 2 == 0"], ["x.shape[0] % 2 != 0"]]
    same = check(lambda x, y: x if x.shape == y.shape else y, [(ones(3), ones(3)), (ones(3), ones(4))])
    assert guards(same) == [["x.shape[0] == y.shape[0]"], ["x.shape[0] != y.shape[0]"]]
    among = check(lambda x: x * 2 if x.shape[0] in (4, 7) else x, [(ones(n),) for n in (4, 6, 7, 8)])
    assert among.cache_info().compiles == 3


def test_static_where_jax_takes_no_symbol() -> None:
    run = check(lambda x: sum(jnp.unstack(x, axis=1)), [(ones(n, 8),) for n in (1, 2, 7)])
    assert guards(run) == [["x.shape[1] == 8"]]
    loop = check(lambda x: x.sum(1) + sum(x[0, i] for i in range(x.shape[1])), [(ones(n, 3),) for n in (1, 2, 7)])
    assert guards(loop) == [["x.shape[1] == 3"]]
    # What takes the number of a size is answered: there is one trace for each value.
    length = check(lambda x: int(x.shape[0]) * x, [(ones(n),) for n in (4, 6, 8)])
    assert guards(length) == [["x.shape[0] == 4"], ["x.shape[0] == 6"], ["x.shape[0] == 8"]]
    assert counts(length) == (3, 3)


def test_many_values_are_worth_a_word() -> None:
    def scaled(x: Any) -> Any:
        return x * int(x.shape[0])

    run = djax.jit(scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 8):
            run(ones(n))
    with pytest.warns(dyn.RecompileWarning) as caught:
        run(ones(8))
    run(ones(9))
    line = scaled.__code__.co_firstlineno + 1
    assert [str(w.message) for w in caught] == [
        "scaled() has been compiled 8 times: calls differ by x.shape[0]: a line takes the number at "
        f"test_jax_jit_guards.py:{line}  return x * int(x.shape[0]).\n"
        "  help: compute with the size, or declare it as static."
    ]


def test_explain() -> None:
    def added(x: Any, y: Any) -> Any:
        return x + y

    run = djax.jit(added)
    assert str(run.explain()) == (
        "added: 0 compiles, 0 hits, 0 guards, 0 traces\n  not called yet: nothing is compiled"
    )
    run(ones(3), ones(3))
    line = added.__code__.co_firstlineno + 1
    assert str(run.explain()).split("\n  dims")[0] == (
        "added: 1 compile, 0 hits, 0 guards, 1 trace\n"
        "  sizes that JAX traced it for, which choose the program\n"
        "    x.shape[0] == y.shape[0]: JAX wants equal sizes\n"
        f"      at test_jax_jit_guards.py:{line}  return x + y"
    )


def test_a_demand_of_dyn_is_answered_by_jax() -> None:
    # JAX reshapes a symbol to 12 without a word; the program is for 12 alone.
    run = check(lambda x: x.reshape(3, 4), [(ones(12),), (ones(13),), (ones(12),)])
    assert run.cache_info().compiles == 1


def test_errors_are_those_of_jax() -> None:
    calls = 0

    def wrong(x: Any) -> Any:
        nonlocal calls
        calls += 1
        raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        djax.jit(wrong)(ones(3))
    assert raised.value.args == ("mine",)
    assert calls <= 3


def test_errors_of_jax_name_the_function_and_its_argument() -> None:
    def signed(x: Any, batch: Any) -> Any:
        return x if batch["mask"].sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as error:
        djax.jit(signed)(np.ones(3, "f4"), {"mask": np.ones(2, "f4")})
    line = signed.__code__.co_firstlineno
    assert f"while tracing the function signed at {__file__}:{line} for jit." in str(error.value)
    assert "depends on the value of the argument batch_mask." in str(error.value)
