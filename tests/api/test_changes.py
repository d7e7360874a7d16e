"""Changes of ``dyn.Array``: who sees them, who does not, and when the memory stays the same."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import NotAViewWarning
from dyn.errors import ArgumentError, DonatedError, UnsupportedOpError


def address(x: Any) -> int:
    return x._data.ctypes.data


def fresh(count: int = 4, dtype: str = "f4") -> Any:
    """An array whose memory nobody else holds."""
    return dyn.asarray(np.arange(count, dtype=dtype))


@pytest.mark.parametrize(
    "change",
    [
        "x[0] = 5", "x[-1] = 2.5", "x[1:] = x[:-1]", "x[::-1] = x[:]", "x[:] = x[::-1]", "x[...] = 7", "x[()] = 7",
        "x[x == 1] = 0", "x[[0, 2]] = [8, 9]", "x[[0, 2],] = x[1]", "x[None, :2] = [[8, 9]]", "x[True] = 3",
        "x[0:0] = 3", "x[np.array([3, 3])] = np.array([1, 2], 'u1')", "x[0] = x[3]", "x += 1", "x -= x",
        "x *= np.arange(4, dtype=x.dtype)", "x **= 2", "x[1:3] += 4", "x.fill(3)", "x.put([0, -1], [5, 6])",
        "x[:] = x[::-1]; x.sort()", "x[:] = x[::-1]; x.partition(2)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f4", "i8", "c16"])
def test_as_numpy(change: str, dtype: str) -> None:
    theirs, ours = np.arange(4, dtype=dtype), fresh(dtype=dtype)
    exec(change, {"x": theirs, "np": np})
    before = {"x": ours, "np": np}
    exec(change, before)
    assert before["x"] is ours
    np.testing.assert_array_equal(np.asarray(ours), theirs)
    assert ours.dtype == theirs.dtype


def test_memory_is_written_to_while_nobody_else_holds_it() -> None:
    x = fresh()
    before = address(x)
    for number in range(3):
        x[number] = 9
        x.sort()
        x[:2] += 1
    assert address(x) == before


@pytest.mark.parametrize("count", [3, 100_000, 1_000_000])
def test_results_of_programs_are_written_to(count: int) -> None:
    """Large ones lie in blocks of the runtime's pool, which a capsule owns."""
    f = dyn.jit(lambda x: (x + 1, x * 2))
    for _ in range(3):
        x, other = f(dyn.asarray(np.zeros(count, "f4")))
        before = address(x)
        x[0] = 5
        assert address(x) == before
        assert x[0].item() == 5
        assert other[0].item() == 0


@pytest.mark.parametrize(
    "holds",
    [
        lambda x: x[1:],
        lambda x: x[...],
        lambda x: x.T,
        lambda x: x[None, :2],
        copy.copy,
        copy.deepcopy,
        np.asarray,
        np.from_dlpack,
        lambda x: np.asarray(x)[2:],
        lambda x: memoryview(np.asarray(x).data),
        dyn.jit(lambda y: y),
        list,
        lambda x: x.reshape(2, 2),
        dnp.squeeze,
        lambda x: dnp.broadcast_to(x, (2, 4)),
        lambda x: x.astype(x.dtype),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_what_was_made_of_it_before_keeps_its_elements(holds: Callable[[Any], Any], large: bool) -> None:
    x = fresh()
    if large:
        x = (dnp.arange(100_000).astype("f4") + 1)[:4]  # a part of a block of the pool
    held = holds(x)
    before = np.array(held)
    x[:] = -1
    x += 4
    x.fill(8)
    np.testing.assert_array_equal(np.array(held), before)
    assert x.tolist() == [8, 8, 8, 8]


def test_the_memory_is_the_arrays_again_once_nobody_holds_it() -> None:
    x = fresh()
    before, part = address(x), x[1:]
    del part
    x[0] = 1
    assert address(x) == before
    view = np.asarray(x)
    x[0] = 2
    assert address(x) != before
    assert view[0] == 1


def test_memory_of_others_is_not_written_to() -> None:
    own = np.zeros(3, "f4")
    x = dnp.asarray(own, copy=False)
    x[0] = 1
    assert own.tolist() == [0, 0, 0]

    class Lent:
        """Memory that its owner lends by NumPy's protocol."""

        def __init__(self) -> None:
            self.memory = bytearray(12)
            self.array = np.frombuffer(self.memory, "f4")

    lent = Lent()
    x = dnp.asarray(lent.array, copy=False)
    lent.array = np.zeros(0)
    x[0] = 1
    assert bytes(lent.memory) == bytes(12)
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3)
    x = dnp.asarray(tensor, copy=False)
    x[1] = 4
    assert tensor.tolist() == [0, 0, 0]
    assert x.tolist() == [0, 4, 0]


def test_values_become_elements_as_by_numpy() -> None:
    x, theirs = fresh(dtype="i4"), np.arange(4, dtype="i4")
    for value in (2.7, True, np.float64(3.9), np.array([1.5, 2.5, 3.5, 4.5])):
        x[:] = value
        theirs[:] = value
        np.testing.assert_array_equal(np.asarray(x), theirs)
    for value, error in ((2**40, OverflowError), (float("nan"), ValueError), ([1, 2, 3], ValueError)):
        with pytest.raises(error):
            x[:] = value
    with pytest.raises(IndexError):
        x[9] = 1
    np.testing.assert_array_equal(np.asarray(x), theirs)


def test_operators_keep_dtype_and_shape() -> None:
    x = fresh()
    x += np.ones(4)
    assert x.dtype == np.float32
    assert x.tolist() == [1, 2, 3, 4]
    n = fresh(dtype="i4")
    with pytest.raises(ArgumentError, match=r"x \+= y: the result is float\d+\[4\], and x stays int32\[4\]"):
        n += 0.5
    with pytest.raises(ArgumentError, match=r"x stays float32\[4\]"):
        x += np.ones((2, 4), "f4")
    assert x.tolist() == [1, 2, 3, 4]


def test_out_is_written_to() -> None:
    x, out = fresh(), dnp.zeros((), "f4")
    same = out
    assert x.sum(out=out) is out
    assert same.item() == 6
    with pytest.raises(UnsupportedOpError, match="cannot write a result of float32 into out=, of int32"):
        x.sum(out=dnp.zeros((), "i4"))


# ---- programs that captured it ---------------------------------------------------------------------------------------


def test_programs_see_changes_and_are_not_traced_again() -> None:
    traced: list[int] = []
    w = fresh(3)

    @dyn.jit
    def f(x: Any) -> Any:
        traced.append(1)
        return x * w

    ones = np.ones(3, "f4")
    for value in (5, 6, 6, 7):
        for _ in range(3):  # in Python, then by the native entry
            np.testing.assert_array_equal(f(ones), np.asarray(w))
        w[0] = value
        w += 1
    np.testing.assert_array_equal(f(ones), np.asarray(w))
    assert traced == [1]
    assert f.cache_info().compiles == 1
    hits = f._native_hits()
    f(ones)
    assert f._native_hits() == hits + 1


def test_a_program_keeps_one_memory_of_what_changes() -> None:
    w = fresh(3)
    f = dyn.jit(lambda x: x * w)
    held: list[weakref.ref[Any]] = []
    for _ in range(5):
        f(np.ones(3, "f4"))
        held.append(weakref.ref(w._data))
        w[0] = 1
    f(np.ones(3, "f4"))
    gc.collect()
    assert sum(one() is not None for one in held) <= 1


@pytest.mark.parametrize("number", [0, 1])
def test_each_way_to_close_over_it(number: int) -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = fresh(2)
            self.parts = [fresh(2), fresh(2)]

        def __call__(self, x: Any) -> Any:
            return (x * self.w + self.parts[number]).sum()

    layer = Layer()
    functions: list[Callable[[Any], Any]] = [
        dyn.jit(layer.__call__), dyn.jit(dyn.jit(layer.__call__)), dyn.grad(layer.__call__),
        dyn.jit(dyn.grad(layer.__call__)), dyn.vmap(lambda x: layer(x[None])), dyn.checkpoint(layer.__call__),
        lambda x: dyn.lax.fori_loop(0, 2, lambda i, y: y + layer.w[0], x),
    ]  # fmt: skip
    x = np.ones(2, "f4")
    for function in functions:
        for value in (3, 9):
            function(x)
            after = np.array(function(x))
            layer.w[:] = value
            layer.parts[number] += 1
            changed = np.array(function(x))
            assert not np.array_equal(after, changed)


def test_a_captured_array_that_was_donated_stays_as_it_was_captured() -> None:
    w = fresh(3)
    f = dyn.jit(lambda x: x + w)
    ones = np.ones(3, "f4")
    expected = np.array(f(ones))
    dyn.jit(lambda x: x * 2, donate_argnums=0)(w)
    with pytest.raises(DonatedError):
        w[0] = 1
    np.testing.assert_array_equal(f(ones), expected)


def test_in_a_trace_it_cannot_be_changed() -> None:
    w = fresh(3)

    def assign(x: Any) -> Any:
        w[0] = x[0]
        return x

    def fill(x: Any) -> Any:
        w.fill(1)
        return x

    for f, what in ((assign, "x[i] = v"), (fill, "x.fill()")):
        with pytest.raises(UnsupportedOpError) as caught:
            dyn.jit(f)(np.ones(3, "f4"))
        lines = str(caught.value).splitlines()
        assert (lines[0], lines[-1]) == (
            f"{what}: an array that was made outside of the function that is being traced cannot be changed in it.",
            "  help: change a copy, as by y = dyn.numpy.array(x), or write y = x.at[i].set(v).",
        )
    assert w.tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedOpError, match=r"x \+= y: an array that was made outside"):
        dyn.jit(w.__iadd__)(np.ones(3, "f4"))
    assert w.tolist() == [0, 1, 2]


# ---- threads, pickles ------------------------------------------------------------------------------------------------


def test_no_change_of_another_thread_is_lost() -> None:
    x = dyn.asarray(np.zeros(8, "i8"))
    f = dyn.jit(lambda: x + 0)

    def count(number: int) -> None:
        for _ in range(200):
            x[number] = x[number].item() + 1
            f()

    threads = [threading.Thread(target=count, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.tolist() == [200] * 8


def test_a_call_that_runs_reads_what_the_array_was_when_it_began() -> None:
    """Its memory, which another thread takes from the name meanwhile, is there until the end of the call."""
    x = dyn.asarray(np.zeros(1 << 20, "f4"))
    f = dyn.jit(lambda x: dnp.sin(dnp.cos(dnp.sin(x))).max() - dnp.sin(dnp.cos(dnp.sin(x))).min())
    f(x)
    seen: list[float] = []

    def run() -> None:
        seen.extend(float(f(x)) for _ in range(60))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        x += 1  # another memory each time
    thread.join()
    assert seen == [0] * 60


def test_pickles_have_the_elements_of_now() -> None:
    x = fresh(2)
    x[1] = 8
    assert pickle.loads(pickle.dumps(x)).tolist() == [0, 8]
    other = copy.copy(x)
    other[0] = 3
    assert x.tolist() == [0, 8]
    assert other.tolist() == [3, 8]


# ---- parts are no views ----------------------------------------------------------------------------------------------

PART = (
    "a part of an array is changed, and the array that it was taken from stays as it is: parts of a dyn.Array are no "
    "views.\n  help: assign to the array itself (x[0, 1] = v for x[0][1] = v), or change a copy of the part."
)


@pytest.mark.parametrize(
    "change",
    ["x[0][1] = 5", "p = x[1:]; p += 1", "x.T[0] = 1", "x.mT.fill(2)", "p = x[1:][:, 0]; p.sort()", "x[...][0] = 1"],
)
def test_who_changes_a_part_is_told_that_the_whole_stays(change: str) -> None:
    """NumPy's array would change: nothing differs in silence."""
    x = dyn.asarray(np.arange(6.0).reshape(3, 2))
    with pytest.warns(NotAViewWarning, match=f"^{re.escape(PART)}$") as caught:
        exec(compile(change, __file__, "exec"), {"x": x})
    assert caught[0].filename == __file__
    assert x.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    "change",
    [
        "x[0, 1] = 5", "p = x[1:]; del x; p += 1", "x[[0, 1]][0] = 1", "p = x[0] + 1; p[0] = 1", "x[x > 1].fill(0)",
        "p = copy.copy(x); p[0] = 1", "p = x[1:]; x[0] = 1", "x[1:] += 1", "x[0] += x[1]", "p = x.copy()[1:]; p[0] = 1",
    ],
)  # fmt: skip
def test_other_changes_warn_of_nothing(change: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(change, {"x": dyn.asarray(np.arange(6.0).reshape(3, 2)), "copy": copy})


@pytest.mark.parametrize(
    "call",
    [
        "xp.put(x, [0, -1], [5, 6])", "xp.place(x, x > 1, [8, 9])", "xp.fill_diagonal(x, 7)",
        "xp.put_along_axis(x, xp.asarray([[1], [0], [1]]), values=4, axis=1)", "xp.put(a=x, ind=[1], v=[2])",
    ],
)  # fmt: skip
def test_functions_that_change_their_argument(call: str) -> None:
    """As NumPy's: dyn's arrays, eager and traced; those of others are errors, for their memory is not dyn's."""
    theirs = np.arange(6.0).reshape(3, 2)
    eval(call, {"xp": np, "x": theirs})
    ours = dyn.asarray(np.arange(6.0).reshape(3, 2))
    name = ours
    assert eval(call, {"xp": dnp, "x": ours}) is None
    np.testing.assert_array_equal(np.asarray(name), theirs)

    def traced(x: Any) -> Any:
        assert eval(call, {"xp": dnp, "x": x}) is None
        return x

    np.testing.assert_array_equal(dyn.jit(traced)(np.arange(6.0).reshape(3, 2)), theirs)
    with pytest.raises(UnsupportedOpError, match="cannot change a ndarray, which is not dyn's"):
        eval(call, {"xp": dnp, "x": np.arange(6.0).reshape(3, 2)})


READS: dict[str, Any] = {
    "a number": lambda y, w: y * float(np.asarray(w)[0]),
    "an item": lambda y, w: y * w.item(0),
    "a list": lambda y, w: y + w.tolist()[1],
    "a branch": lambda y, w: y if w.item(0) > 3 else -y,
    "an index": lambda y, w: y[: int(w.item(0))],
    "NumPy's": lambda y, w: y + np.asarray(w).sum(),
    "the transpose": lambda y, w: y * w.T.sum(),
    "a copy": lambda y, w: y * copy.copy(w).sum() + copy.deepcopy(w)[1],
    "a text": lambda y, w: y * len(f"{w}"),
    "in a gradient": lambda y, w: dyn.grad(lambda z: z.sum() * w.item(0))(y),
    "in a function": lambda y, w: dyn.jit(lambda y: y * w.item(1))(y),
    "whether it has": lambda y, w: y * (7.0 in w),
}


@pytest.mark.parametrize("name", READS)
def test_programs_whose_trace_read_elements_are_for_these(name: str) -> None:
    """Whatever Python makes of the elements is in the program: it is traced again when they change."""
    w, function, y = fresh(3), READS[name], np.ones(4, "f4")
    f = dyn.jit(lambda y: function(y, w))
    for change in (lambda: None, lambda: w.__setitem__(0, 3), lambda: w.__setitem__(slice(2), 7.0), lambda: w.fill(2)):
        change()
        for _ in range(3):  # in Python, then by the native entry
            np.testing.assert_array_equal(f(y), np.asarray(function(dyn.asarray(y), w)))


def test_no_change_is_lost_that_another_thread_makes_beside_an_operator() -> None:
    x = dyn.asarray(np.zeros(1000, "f4"))

    def add_nothing() -> None:
        z = x
        for _ in range(100):
            z += 0

    def assign() -> None:
        for place in range(1000):
            x[place] = 1

    def count() -> None:
        z = total
        for _ in range(50):
            z += 1

    total = dyn.asarray(np.zeros(2, "i8"))
    threads = [threading.Thread(target=run) for run in (add_nothing, assign, count, count, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.tolist() == [1] * 1000
    assert total.tolist() == [150, 150]


def test_code_of_the_users_runs_before_memory_is_written_to() -> None:
    x = fresh(3)
    x[0] = 9
    kept: list[Any] = []

    class Number:
        def __float__(self) -> float:
            kept.append(np.asarray(x))
            return 5.0

        def __index__(self) -> int:
            kept.append(copy.copy(x))
            return 2

    x[Number()] = Number()
    assert [np.asarray(one).tolist() for one in kept] == [[9, 1, 2]] * len(kept)
    assert len(kept) == 2
    assert x.tolist() == [9, 1, 5]
