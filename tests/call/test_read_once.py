"""A caller's containers and arrays are read once a call, however they change while it traces, compiles and runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def ones(*shape: int) -> Any:
    return np.ones(shape, "f4")


def _replaced_array(box: dict[str, Any]) -> None:
    box["x"] = np.arange(4.0)


def _replaced_by_rank(box: dict[str, Any]) -> None:
    box["x"] = ones(2, 4)


def _replaced_by_number(box: dict[str, Any]) -> None:
    box["x"] = 3.0


def _number_replaced_by_array(box: dict[str, Any]) -> None:
    box["n"] = ones(4)


def _number_replaced_by_float(box: dict[str, Any]) -> None:
    box["n"] = 2.5


def _longer_list(box: dict[str, Any]) -> None:
    box["list"].append(ones(4))


def _shorter_list(box: dict[str, Any]) -> None:
    del box["list"][0]


def _other_keys(box: dict[str, Any]) -> None:
    del box["n"]
    box["m"] = 7


def _other_dtype(box: dict[str, Any]) -> None:
    box["x"].dtype = np.int32


def _other_rank(box: dict[str, Any]) -> None:
    box["x"].shape = (1, 4)


def _other_item_size(box: dict[str, Any]) -> None:
    box["x"].dtype = np.float64
    box["list"][:] = [ones(2)]


CHANGES = [
    _replaced_array, _replaced_by_rank, _replaced_by_number, _number_replaced_by_array, _number_replaced_by_float,
    _longer_list, _shorter_list, _other_keys, _other_dtype, _other_rank, _other_item_size,
]  # fmt: skip


def new_box() -> dict[str, Any]:
    return {"x": ones(4), "n": 3, "list": [ones(4), 2 * ones(4)]}


def expected(box: dict[str, Any]) -> Any:
    return box["x"] * 2 + box["n"] + sum(box["list"])


def in_thread(change: Callable[[dict[str, Any]], None], box: dict[str, Any]) -> None:
    """Make a change while another thread traces."""
    thread = threading.Thread(target=change, args=(box,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", ["function", "thread"])
def test_containers_that_change_while_they_are_traced(change: Any, place: str) -> None:
    box = new_box()
    want = expected(new_box())
    calls: list[int] = []

    @dyn.jit
    def f(d: Any) -> Any:
        if not calls:
            calls.append(1)
            change(box) if place == "function" else in_thread(change, box)
        return d["x"] * 2 + d["n"] + sum(d["list"])

    np.testing.assert_array_equal(f(box), want)
    # What the box is by now gets its own program, or the error of plain NumPy, and the first kind of call keeps its.
    for _ in range(3):
        fresh = new_box()
        fresh["n"], fresh["x"] = 5, np.arange(4, dtype="f4")
        np.testing.assert_array_equal(f(fresh), expected(fresh))
    assert f.cache_info().compiles == 1
    assert f.cache_info().hits == 3
    if set(box) == {"x", "n", "list"}:
        for _ in range(2):
            np.testing.assert_array_equal(f(box), expected(box))


@pytest.mark.parametrize("change", CHANGES)
def test_the_next_such_call_is_the_native_entrys(change: Any) -> None:
    """A call during which nothing changes makes the plan that one with a change did not."""
    box = new_box()
    calls: list[int] = []

    @dyn.jit
    def f(d: Any) -> Any:
        if not calls:
            calls.append(1)
            change(box)
        return d["x"] * 2 + d["n"] + sum(d["list"])

    f(box)
    f(new_box())
    before = f._native_hits()
    for _ in range(4):
        f(new_box())
    assert f._native_hits() - before == 4


def test_donated_arrays_that_change_while_they_are_traced() -> None:
    x = ones(4)
    calls: list[int] = []

    def update(w: Any, g: Any) -> Any:
        if not calls:
            calls.append(1)
            x.shape = (2, 2)
        return w - dnp.sum(g)

    f = dyn.jit(update, donate_argnums=0)
    np.testing.assert_array_equal(f(x, ones(1)), np.zeros(4))
    for _ in range(3):
        y = ones(6)
        result = f(y, ones(1))
        assert result is y
        np.testing.assert_array_equal(y, np.zeros(6))
    assert f.cache_info().compiles == 1


def test_captured_arrays_that_change_in_place() -> None:
    w = ones(4)
    f = dyn.jit(lambda x: x + w)
    np.testing.assert_array_equal(f(ones(4)), 2 * ones(4))
    w.shape = (2, 2)
    w[:] = 5
    np.testing.assert_array_equal(f(ones(4)), 6 * ones(4))


def test_a_program_refuses_an_array_of_another_dtype_in_words() -> None:
    f = dyn.jit(lambda x: x + 1)
    version = f.version_of(ones(4))
    x = ones(4)
    x.shape = (2, 2)
    with pytest.raises(dyn.errors.ArgumentError) as error:
        version.call([x])
    assert str(error.value) == (
        "lambda(): x was f32 with 1 axis when the call began, and is float32 with 2 axes now: its dtype or shape "
        "was set in place meanwhile.\n  help: pass a copy where others change an array that a call reads."
    )


def test_lists_given_to_functions_outside_of_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that grows while the program for its arrays is made."""
    import dyn.eager

    arrays = [dnp.asarray(ones(3)), dnp.asarray(ones(3))]
    known = dyn.eager._PROGRAMS.find

    def find(key: Any) -> Any:
        if len(arrays) == 2:
            arrays.append(dnp.asarray(ones(3)))
        return known(key)

    monkeypatch.setattr(dyn.eager._PROGRAMS, "find", find)
    for _ in range(4):
        given = arrays[:2]
        arrays[:] = given
        np.testing.assert_array_equal(np.asarray(dnp.concatenate(arrays)), np.ones(6))


@pytest.mark.parametrize("change", CHANGES)
def test_functions_of_jax(change: Any) -> None:
    pytest.importorskip("jax")
    import dyn.interop.jax

    box = new_box()
    calls: list[int] = []

    def function(d: Any) -> Any:
        if not calls:
            calls.append(1)
            change(box)
        return d["x"] * 2 + d["n"] + sum(d["list"])

    f = dyn.interop.jax.jit(function)
    np.testing.assert_array_equal(f(box), expected(new_box()))
    for _ in range(3):
        fresh = new_box()
        fresh["n"], fresh["x"] = 5, np.arange(4, dtype="f4")
        np.testing.assert_array_equal(f(fresh), expected(fresh))
    if set(box) == {"x", "n", "list"}:
        for _ in range(2):
            np.testing.assert_allclose(np.asarray(f(box)), expected(box))


def test_donated_arrays_of_jax_in_containers_that_change() -> None:
    """The arrays that were given are deleted, not those that the container has by now."""
    jax = pytest.importorskip("jax")
    import dyn.interop.jax

    given, other = jax.numpy.ones(4), jax.numpy.zeros(4)
    box = {"w": given}

    def function(d: Any) -> Any:
        box["w"] = other
        return {"w": d["w"] * 2}

    f = dyn.interop.jax.jit(function, donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(f(box)["w"]), 2 * np.ones(4))
    assert given.is_deleted()
    assert not other.is_deleted()


def test_functions_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    import dyn.interop.torch

    def box_of() -> dict[str, Any]:
        return {"x": torch.ones(4), "list": [torch.ones(4), 2 * torch.ones(4)]}

    def compute(d: Any) -> Any:
        return d["x"] * 2 + sum(d["list"])

    def replaced(box: Any) -> None:
        box["x"] = torch.arange(4.0, dtype=torch.float64)

    def longer(box: Any) -> None:
        box["list"].append(torch.ones(4))

    def other_data(box: Any) -> None:
        box["x"].data = torch.ones(2, 4)

    for change in (replaced, longer, other_data):
        box = box_of()
        calls: list[int] = []

        def function(d: Any, change: Any = change, box: Any = box, calls: list[int] = calls) -> Any:
            if not calls:
                calls.append(1)
                in_thread(change, box)
            return compute(d)

        f = dyn.interop.torch.jit(function)
        f(box)
        for _ in range(3):
            torch.testing.assert_close(f(box_of()), compute(box_of()))
        for _ in range(3):
            torch.testing.assert_close(f(box), compute(box))


def test_settings_that_a_function_leaves_behind() -> None:
    """A plan is for the settings under which the program was made, not for those that its trace has left behind."""
    stack: list[Any] = []

    @dyn.jit
    def f(x: Any) -> Any:
        if not stack:
            stack.append(dyn.config.override(default_float="float64"))
            stack[0].__enter__()
        return x + dnp.zeros(()).astype(dnp.zeros(()).dtype)

    try:
        f(ones(3))
        assert dnp.zeros(()).dtype == np.float64
        assert [f(ones(3)).dtype for _ in range(3)] == [np.float64] * 3
    finally:
        stack[0].__exit__(None, None, None)
