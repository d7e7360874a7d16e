"""Matrices that programs keep in panels: which, whose they are, how long they live, and what is seen of changes."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.interop.stablehlo
import dyn.numpy as dnp
from dyn import config
from dyn.backends.families import family_of, host_target
from dyn.dtypes import dtype
from dyn.ir.core import Dense, buffers
from dyn.passes.panel_weights import Panels
from dyn.specialize.kept_panels import PANELS, in_panels, out_of_panels
from dyn.trace.constants import captured_constant
from dyn.trace.context import current_trace
from dyn.trace.held import Frozen
from dyn.trace.tracer import Tracer

Array = np.ndarray
#: Rows around the heights of tiles.
ROWS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64)
#: What has no vectors that are wide enough keeps none.
pytestmark = pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor reads matrices as they lie")


def kept(function: Any, *arguments: Array) -> int:
    """The bytes in panels of a jitted function's program."""
    return function.lower(*arguments).compile().memory_analysis().kept


def random(*shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / 4).astype(dyn.dtypes.dtype(dtype).np)


def product(w: Any, n: int = 0) -> Any:
    """A jitted product with a matrix."""
    return dyn.jit(lambda x: x @ w + n)


@pytest.fixture(autouse=True)
def packing() -> Iterator[None]:
    """Weights are packed, whatever the environment says."""
    with config.override(pack_weights=True):
        yield


@pytest.mark.parametrize("columns", [16, 17, 31, 63, 64, 65, 96, 100, 128, 200])
@pytest.mark.parametrize("turned", [False, True], ids=["k,n", "n,k"])
def test_every_number_of_rows_and_columns_is_right(columns: int, *, turned: bool) -> None:
    reduced = 37
    matrix = random(columns, reduced) if turned else random(reduced, columns)
    w, b = dyn.asarray(matrix), dyn.asarray(random(columns))
    f = dyn.jit(lambda x: dnp.maximum(x @ (w.T if turned else w) + b, 0))
    for rows in ROWS:
        x = random(rows, reduced)
        want = np.maximum(x.astype("f8") @ (matrix.T if turned else matrix) + np.asarray(b), 0)
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-5)
    assert f.cache_info().compiles == 1
    assert kept(f, random(2, reduced)) > 0


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "cascadelake", "x86-64"])
def test_dtypes_on_levels_of_processors(name: str, cpu: str) -> None:
    with config.override(target_cpu=cpu):
        matrix, exact = random(1100, 80, dtype=name), 2e-2 if dtype(name).itemsize == 2 else 1e-4
        w = dyn.asarray(matrix)
        f = dyn.jit(lambda x: x @ w)
        for rows in (1, 5, 20):
            x = random(rows, 1100, dtype=name)
            want = x.astype("f8") @ matrix.astype("f8")
            np.testing.assert_allclose(np.asarray(f(x)).astype("f8"), want, rtol=exact, atol=exact * 10)
        target = host_target()
        own = dtype(name)
        layout = family_of(target).panel_layout(target, own, own, own.wide, 80)
        assert (kept(f, random(2, 1100, dtype=name)) > 0) is (layout is not None)


def sums(x: Any, w: Any) -> Any:
    """Products of integers, or of narrow floats, added in 32 bits."""
    wide = "float32" if dtype(x.dtype).is_float else "int32"
    return dyn.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=wide)


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize("reduced", [1, 3, 4, 66, 1101])
@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("int16", "int16")]
)
def test_integers_at_the_limits_of_their_dtypes(left: str, right: str, reduced: int, cpu: str) -> None:
    with config.override(target_cpu=cpu):
        check_integers(left, right, reduced)


def check_integers(left: str, right: str, reduced: int) -> None:
    rng = np.random.default_rng(reduced)

    def extremes(name: str, *shape: int) -> Array:
        limits = np.iinfo(name)
        return rng.choice([limits.min, limits.max, 1, 0, 77], shape).astype(name)

    for turned in (False, True):
        matrix = extremes(right, 100, reduced) if turned else extremes(right, reduced, 100)
        w = dyn.asarray(matrix)
        f = dyn.jit(lambda x, w=w, turned=turned: sums(x, w.T if turned else w))
        for rows in ROWS:
            x = extremes(left, rows, reduced)
            want = (x.astype("i8") @ (matrix.T if turned else matrix).astype("i8")).astype("i4")
            np.testing.assert_array_equal(np.asarray(f(x)), want)
        if host_target().has("avx512vnni") and (left, right) in (("int8", "int8"), ("uint8", "int8")):
            assert kept(f, extremes(left, 2, reduced)) > 0
            tiles = "tdpbssd" if left == "int8" else "tdpbusd"
            explained = str(f.explain())
            if host_target().has("amx-int8"):
                assert f", {tiles}: always" in explained
                assert ("vpdpbusd, at most 4 rows" in explained) is (reduced > 1)
            else:
                assert "vpdpbusd: always" in explained
        if host_target().vector_bytes == 32 and reduced > 1:
            lies = "6x16 from panels" if right == "int16" else "packed 6x16"
            assert f"{lies}, vpmaddwd: always" in str(f.explain())


@pytest.mark.parametrize("reduced", [1, 2, 7, 64, 1001])
def test_bfloat16_has_the_bits_of_its_unit_for_every_number_of_rows(reduced: int) -> None:
    matrix, x = random(reduced, 100, dtype="bfloat16"), random(40, reduced, dtype="bfloat16")
    w = dyn.asarray(matrix)
    f, g = dyn.jit(lambda x: sums(x, w)), dyn.jit(sums)
    whole = np.asarray(f(x))
    np.testing.assert_allclose(whole, x.astype("f8") @ matrix.astype("f8"), rtol=1e-4, atol=1e-4)
    for rows in (1, 2, 3, 5, 8, 9, 40):
        np.testing.assert_array_equal(np.asarray(f(x[:rows])), whole[:rows])
        if not host_target().has("amx-bf16"):  # docs/numerics.md
            np.testing.assert_array_equal(np.asarray(g(x[:rows], matrix)), whole[:rows])


COMPUTED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    # What the left operand is, its dtype before, and that of the weight.
    "square": (lambda x: x * x, "bfloat16", "bfloat16"),
    "behind a conversion": (lambda x: x.astype("bfloat16"), "float32", "bfloat16"),
    "greater than 0": (lambda x: dnp.maximum(x, 0), "bfloat16", "bfloat16"),
    "turned": (lambda x: (x + 1).T.T, "bfloat16", "bfloat16"),
    "negative": (lambda x: -x, "int8", "int8"),
    "quantised": (lambda x: dnp.clip(dnp.round(x * 10), -127, 127).astype("int8"), "float32", "int8"),
    "unsigned": (lambda x: x * 3, "uint8", "int8"),
    "wider": (lambda x: x * 3, "int8", "int16"),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_left_operands_that_are_computed_beside_words(name: str) -> None:
    function, left, right = COMPUTED[name]
    rng = np.random.default_rng(0)
    matrix = rng.integers(-9, 9, (66, 70)).astype(dtype(right).np)
    w = dyn.asarray(matrix)
    f, g = dyn.jit(lambda x: sums(function(x), w)), dyn.jit(function)
    for rows in ROWS:
        x = rng.integers(0 if left == "uint8" else -9, 9, (rows, 66)).astype(dtype(left).np)
        want = np.asarray(g(x)).astype("f8") @ matrix.astype("f8")
        np.testing.assert_allclose(np.asarray(f(x)), want, rtol=1e-3, atol=1e-3)
    assert "from panels" in str(f.explain()) or not host_target().avx512


def test_another_tensor_at_the_same_address_is_another() -> None:
    """Of another shape or dtype: its strides, and the number of its panels, may be the same."""
    memory = np.random.default_rng(0).random((20, 250), "f4")
    frozen = Frozen(np.zeros(1))
    panels = Panels(0, (0, 1), 64)
    one, other = PANELS.get(frozen, memory[:, :249], panels), PANELS.get(frozen, memory, panels)
    assert one[-1, :, 250 - 192 - 1].max() == 0 < other[-1, :, 250 - 192 - 1].max()
    assert PANELS.get(frozen, memory.view("i4"), panels).dtype == np.int32


def test_a_narrow_weight_is_kept_as_narrow_as_it_is() -> None:
    matrix = random(50, 64, dtype="bfloat16")
    w, x = dyn.asarray(matrix), random(3, 50)
    f = dyn.jit(lambda x: x @ w.astype("float32"))
    np.testing.assert_allclose(f(x), x @ matrix.astype("f4"), rtol=1e-4, atol=1e-4)
    assert kept(f, x) == (50 * 64 * 2 if host_target().avx512 else 0)  # which has the masks to read it under


@pytest.mark.parametrize("turned", [False, True], ids=["k,n", "n,k"])
@pytest.mark.parametrize("columns", [16, 70, 96, 200])
def test_dequantised_weights_are_computed_from_panels(columns: int, *, turned: bool) -> None:
    rng = np.random.default_rng(columns)
    matrix = rng.integers(-128, 128, (columns, 65) if turned else (65, columns)).astype("i1")
    q, s, zero = (
        dyn.asarray(matrix),
        dyn.asarray(random(columns)),
        dyn.asarray(rng.integers(-3, 4, columns).astype("i1")),
    )

    def function(x: Any) -> Any:
        if turned:
            return x @ ((q - zero[:, None]).astype("float32") * s[:, None]).T
        return x @ ((q.astype("float32") - zero) * s)

    f = dyn.jit(function)
    with config.override(pack_weights=False):
        g = dyn.jit(function)
        wanted = [np.asarray(g(random(rows, 65))) for rows in ROWS]
    for rows, want in zip(ROWS, wanted, strict=True):
        np.testing.assert_allclose(f(random(rows, 65)), want, rtol=1e-4, atol=1e-4)
    if host_target().avx512:
        assert "from panels, at most 8 rows" in str(f.explain())
        assert "prologue, computed as operands are read" in str(f.explain())
    assert 0 < kept(f, random(2, 65)) < 2 * 65 * 300
    x = random(40, 65)
    whole = np.asarray(f(x))
    for rows in (1, 5, 8, 9):
        assert np.array_equal(np.asarray(f(x[:rows])), whole[:rows])


def test_a_result_that_is_transposed_leaves_the_weight_on_the_right() -> None:
    """Exchanged, the operands would have a left one in panels, which is packed at each call."""
    matrix = random(70, 65)
    w = dyn.asarray(matrix)
    f = dyn.jit(lambda v: (v.T @ w.T).T)
    g = dyn.jit(lambda v, w: (v.T @ w.T).T)
    for columns in ROWS:
        v = random(65, columns)
        np.testing.assert_allclose(f(v), matrix @ v, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(g(v, matrix), matrix @ v, rtol=1e-4, atol=1e-4)
    assert "from panels" in str(f.explain())


HEADS: dict[str, tuple[str, bool, bool]] = {
    # The product, whether the weight's heads are rows, and whether it is read from panels as it lies in them.
    "queries": ("bsd,dhk->bshk", False, True),
    "heads first": ("bsd,dhk->bhsk", False, True),
    "out of heads": ("bshk,hkd->bsd", True, True),
    "out of heads that lie apart": ("bhsk,hkd->bsd", True, False),
}


@pytest.mark.parametrize("head", [20, 64])
@pytest.mark.parametrize("name", HEADS)
def test_weights_of_several_axes(name: str, head: int) -> None:
    subscripts, are_rows, in_place = HEADS[name]
    matrix = random(3, head, 60) if are_rows else random(60, 3, head)
    w = dyn.asarray(matrix)
    f = dyn.jit(lambda x: dnp.maximum(dnp.einsum(subscripts, x, w), 0))
    given = {"bsd": (60,), "bshk": (3, head), "bhsk": (head,)}[subscripts.split(",")[0]]
    for b, s in ((1, 1), (2, 3), (1, 9), (0, 3), (3, 7)):
        x = random(b, 3, s, *given) if subscripts.startswith("bhsk") else random(b, s, *given)
        want = np.maximum(np.einsum(subscripts, x.astype("f8"), matrix), 0)
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-4)
    width = 64 if host_target().registers >= 32 else 16
    are_whole = are_rows or head % width == 0  # no panel has some of one head and of the next
    assert (kept(f, x) > 0) is are_whole
    if are_whole:
        assert ("packed" in str(f.explain())) is not in_place


def test_no_sums_are_taken_in_parts_over_panels() -> None:
    matrix = random(20_000, 64, dtype="bfloat16")
    w, x = dyn.asarray(matrix), random(400, 20_000)
    f = dyn.jit(lambda x: x @ w.astype("float32"))
    whole = np.asarray(f(x))
    if kept(f, x):
        assert "parts" not in str(f.explain())
        for rows in (1, 2, 5, 9, 33):
            assert np.array_equal(np.asarray(f(x[:rows])), whole[:rows])


@pytest.mark.parametrize("target", ["x86:x86-64-v3", "x86:x86-64-v4", "x86:x86-64", "cuda:sm_90a"])
def test_another_target_has_panels_of_its_own(target: str, require_module: Callable[[str], ModuleType]) -> None:
    if target.startswith("cuda"):
        require_module("cuda.bindings.nvrtc")
    w, x = dyn.asarray(random(70, 64)), random(3, 70)
    with config.override(cache_dir=""):
        lowered = dyn.jit(lambda x: x @ w * 3.5).lower(x)
        compiled = lowered.compile(target=target)
    assert "contract" in compiled.as_text("kernel")
    assert (compiled.memory_analysis().kept > 0) is (target in ("x86:x86-64-v3", "x86:x86-64-v4"))


def test_panels_of_a_processor_with_fewer_registers() -> None:
    w, x = dyn.asarray(random(70, 64)), random(3, 70)
    with config.override(target_cpu="x86-64-v3"):
        np.testing.assert_allclose(dyn.jit(lambda x: x @ w * 3.5)(x), x @ np.asarray(w) * 3.5, rtol=1e-4, atol=1e-4)


def test_what_memory_analysis_says_can_be_copied() -> None:
    w = dyn.asarray(random(20, 32))
    found = dyn.jit(lambda x: x @ w).lower(random(3, 20)).compile().memory_analysis()
    again = pickle.loads(pickle.dumps(copy.deepcopy(found)))
    assert (again, again.kept) == (found, found.kept) == ("0", 20 * 32 * 4)


def test_a_weight_that_is_computed_and_read_elsewhere_too() -> None:
    matrix, x = np.random.default_rng(0).integers(-9, 9, (40, 40)).astype("i1"), random(5, 40)
    q = dyn.asarray(matrix)

    def function(x: Any) -> Any:
        w = q.astype("float32") * 0.5
        return x @ w + dnp.sum(w, axis=0), x @ (w + w.T), q[0]

    f = dyn.jit(function)
    w = matrix.astype("f4") * 0.5
    for got, want in zip(f(x), (x @ w + w.sum(0), x @ (w + w.T), matrix[0]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_float32_rows_have_the_same_bits_alone_and_in_any_batch() -> None:
    w = dyn.asarray(random(20_000, 40))
    f, x = dyn.jit(lambda x: x @ w), random(70, 20_000)
    whole = np.asarray(f(x))
    for rows in (1, 2, 3, 4, 5, 6, 7, 33):
        assert np.array_equal(np.asarray(f(x[:rows])), whole[:rows])
    assert np.array_equal(np.asarray(f(x[69:])), whole[69:])


def test_columns_first_have_the_bits_of_what_is_packed_at_each_call() -> None:
    w, x = dyn.asarray(random(300, 130)), random(50, 300)
    f = dyn.jit(lambda x: dnp.tanh(x @ w))
    with config.override(pack_weights=False):
        g = dyn.jit(lambda x: dnp.tanh(x @ w))
        without = [np.asarray(g(x[:rows])) for rows in ROWS[1:]]
        assert kept(g, x) == 0
    for rows, want in zip(ROWS[1:], without, strict=True):
        assert np.array_equal(np.asarray(f(x[:rows])), want[: len(x)])


def test_an_array_that_is_assigned_to_is_read_anew() -> None:
    w, x = dyn.asarray(random(20, 32)), random(3, 20)
    f = dyn.jit(lambda x: x @ w)
    before = np.asarray(f(x))
    w[0] = 7
    np.testing.assert_allclose(f(x), x @ np.asarray(w), rtol=1e-4, atol=1e-5)
    assert not np.allclose(before, f(x))
    assert f.cache_info().compiles == 1


def test_a_numpy_array_may_change_between_calls_and_is_read_where_it_lies() -> None:
    w, x = random(20, 32), random(3, 20)
    f = dyn.jit(lambda x: x @ w)
    f(x)
    w[:] = random(20, 32) + 1
    np.testing.assert_allclose(f(x), x @ w, rtol=1e-4, atol=1e-5)
    assert kept(f, x) == 0
    view = w.view()
    view.setflags(write=False)
    g = dyn.jit(lambda x: x @ view)
    g(x)
    w[:] = 1
    np.testing.assert_allclose(g(x), x @ w, rtol=1e-4, atol=1e-5)


def _panels_of(function: Any) -> list[Array]:
    ((_, program),) = function._programs.pairs()
    return [one for one in program.loaded.captured if one.ndim == 4]


def test_programs_share_panels_and_they_go_with_the_last() -> None:
    w = dyn.asarray(random(40, 64))
    f, g, h = dyn.jit(lambda x: x @ w), dyn.jit(lambda x, y: x @ w + y), dyn.jit(lambda x: x @ w.T)
    f(random(2, 40))
    g(random(2, 40), random(64))
    h(random(2, 64))
    (one,), (same,), (turned,) = [_panels_of(function) for function in (f, g, h)]
    assert np.shares_memory(one, same)
    assert not np.shares_memory(one, turned)
    base: Any = one if one.base is None else one.base
    alive = weakref.ref(base)
    before = len(PANELS)
    del one, same, base, f, g
    gc.collect()
    assert alive() is None
    assert len(PANELS) < before


def test_first_calls_in_threads_that_free_other_weights() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(20):
                matrix = np.random.default_rng(seed * 100 + n).random((30, 48), "f4")
                w = dyn.asarray(matrix)
                f = product(w)
                x = random(5, 30)
                np.testing.assert_allclose(f(x), x @ matrix, rtol=1e-4, atol=1e-5)
                del w, f
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_matrix_that_two_threads_need_first_is_one() -> None:
    w, x = dyn.asarray(random(256, 512)), random(2, 256)
    functions = [product(w, n) for n in range(4)]
    barrier = threading.Barrier(4)

    def call(f: Callable[[Array], object]) -> None:
        barrier.wait()
        f(x)

    threads = [threading.Thread(target=call, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *others = [_panels_of(f)[0] for f in functions]
    assert all(np.shares_memory(first, other) for other in others)


def test_explain_says_what_is_kept() -> None:
    w, x = dyn.asarray(random(20, 32)), random(3, 20)
    f = dyn.jit(lambda x: x @ w @ w.T)
    f(x)
    text = str(f.explain())
    assert "from panels: always" in text
    assert "2 arrays that never change, kept in panels, as products read them: " in text
    assert "2 arrays that never change" in f.explain()._repr_html_()


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, w: dyn.lax.scan(lambda c, row: (dnp.tanh(c @ w + row), c), x[0], x)[1],
    "scan in scan": lambda x, w: dyn.lax.fori_loop(
        0, 2, lambda i, c: dyn.lax.fori_loop(0, 3, lambda j, d: dnp.tanh(d @ w), c) @ w.T, x
    ),
    "while": lambda x, w: dyn.lax.while_loop(lambda c: dnp.sum(dnp.abs(c @ w)) > 0.1, lambda c: (c @ w) * 0.1, x),
    "cond": lambda x, w: dyn.lax.cond(x[0, 0] > 0, lambda x: x @ w, lambda x: x @ w.T, x),
    "switch": lambda x, w: dyn.lax.switch(1, [lambda x: x, lambda x: x @ w, lambda x: x @ (w + 1)], x),
    "map": lambda x, w: dyn.lax.map(lambda row: row @ w, x),
    "vmap": lambda x, w: dyn.vmap(lambda row: row @ w)(x),
    "checkpoint": lambda x, w: dyn.checkpoint(lambda x: dnp.tanh(x @ w))(x),
    "gradient": lambda x, w: dyn.grad(lambda x: dnp.sum(dnp.tanh(x @ w)))(x),
    "changed in the loop": lambda x, w: dyn.lax.fori_loop(0, 2, lambda i, c: (c[0] @ c[1], c[1] * 2), (x, w))[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_products_in_regions(name: str) -> None:
    matrix = random(32, 32)
    w, function = dyn.asarray(matrix), LOOPS[name]
    f = dyn.jit(lambda x: function(x, w))
    with config.override(pack_weights=False):
        g = dyn.jit(lambda x: function(x, w))
        wanted = [np.asarray(g(random(rows, 32))) for rows in (1, 3, 9)]
    with config.override(verify_ir=True):
        for rows, want in zip((1, 3, 9), wanted, strict=True):
            np.testing.assert_allclose(f(random(rows, 32)), want, rtol=2e-4, atol=2e-5)
        # What a loop changes is another matrix in each step.
        assert (kept(f, random(3, 32)) > 0) is (name not in ("changed in the loop",))


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize(
    ("shape", "views", "axes"),
    [
        ((5, 70), (), (0, 1)),
        ((70, 5), (), (1, 0)),
        ((3, 7, 40), (), (0, 2, 1)),
        ((6, 4, 10), (("reshape", (24, 10)),), (0, 1)),
        ((4, 6, 10), (("transpose", (2, 0, 1)), ("reshape", (10, 24))), (1, 0)),
        ((0, 8), (), (0, 1)),
        ((8, 0), (), (0, 1)),
        ((1, 1), (), (0, 1)),
    ],
)
def test_arrays_are_made_of_panels_again(
    shape: tuple[int, ...], views: tuple[tuple[str, tuple[int, ...]], ...], axes: tuple[int, ...], group: int
) -> None:
    array = random(*shape)
    panels = Panels(0, axes, 16, group, views)
    again = out_of_panels(in_panels(array, panels), panels, shape)
    assert again.flags.c_contiguous
    np.testing.assert_array_equal(again, array)


def constant_product(w: Array, *, more: Callable[[Any, Any], Any] = lambda y, w: y) -> tuple[Any, Callable[[], Dense]]:
    """A jitted product with a constant, and what its programs' captured constant is."""

    def f(x: Any) -> Any:
        trace = current_trace()
        assert trace is not None
        matrix = Tracer(trace, captured_constant(trace, w))
        return more(x @ matrix, matrix)

    jitted = dyn.jit(f)

    def constant() -> Dense:
        ((_, version),) = jitted._programs.pairs()
        (dense,) = version.program.traced.captured
        assert isinstance(dense, Dense)
        return dense

    return jitted, constant


def test_constants_are_left_to_panels() -> None:
    """Their elements are made again for whoever asks: another program, a text, a reference."""
    w, x = random(40, 64), random(3, 40)
    f, constant = constant_product(w)
    want = x @ w
    for _ in range(2):
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-5)
    dense = constant()
    assert dense._array is None, "the elements are there once"
    np.testing.assert_array_equal(dense.array, w)
    np.testing.assert_array_equal(np.asarray(dense), w)
    assert not dense.array.flags.writeable
    assert dense == Dense(w)
    np.testing.assert_allclose(f(x[:1]), want[:1], rtol=1e-4, atol=1e-5)
    text = f.lower(x).as_text("stablehlo")
    assert "dot_general" in text


def test_constants_that_are_read_otherwise_too_stay() -> None:
    w, x = random(40, 64), random(3, 40)
    f, constant = constant_product(w, more=lambda y, w: y + w[0])
    np.testing.assert_allclose(f(x), x @ w + w[0], rtol=1e-4, atol=1e-5)
    assert constant()._array is not None


def test_constants_stay_where_nothing_is_packed() -> None:
    w, x = random(40, 64), random(3, 40)
    with config.override(pack_weights=False):
        f, constant = constant_product(w)
        np.testing.assert_allclose(f(x), x @ w, rtol=1e-4, atol=1e-5)
        assert constant()._array is not None


def test_constants_of_stablehlo_are_left_to_panels(require_module: Callable[[str], ModuleType]) -> None:
    require_module("jaxlib")
    w, x = dyn.asarray(random(40, 64)), random(3, 40)
    text = dyn.jit(lambda x: x @ w).lower(dyn.ShapeDtypeStruct(("n", 40), "float32")).as_text("stablehlo")
    f = dyn.interop.stablehlo.load(text)
    want = x @ np.asarray(w)
    for rows in (3, 1, 2):
        np.testing.assert_allclose(f(x[:rows]), want[:rows], rtol=1e-4, atol=1e-5)
    ((_, version),) = f._programs.pairs()
    (dense,) = [one for one in buffers(version.program.traced.function.ops).values() if one.shape == (40, 64)]
    assert dense._array is None
    np.testing.assert_array_equal(dense.array, np.asarray(w))
