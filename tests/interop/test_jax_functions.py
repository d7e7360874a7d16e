"""Functions of ``jax.numpy``, ``lax``, ``jax.random``, ``jax.nn`` and ``jax.scipy``: JAX's results, by one program.

Where Python that JAX's functions are written in goes two ways, there are two programs: ``PROGRAMS`` says of which.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

jax: Any = pytest.importorskip("jax")
import jax.numpy as _jnp  # noqa: E402
import jax.scipy as _jsp  # noqa: E402
from jax import lax as _lax  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402

#: What they say of their functions' arguments is not about symbolic sizes.
jnp: Any = _jnp
jsp: Any = _jsp
lax: Any = _lax

KEY = jax.random.key(0)
SIZES = (5, 8, 1, 2, 3, 12, 7, 16, 20, 33)


def reals(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def rising(n: int) -> Any:
    return np.sort(reals(n))


def heads(n: int, groups: int = 4) -> tuple[Any, ...]:
    """Queries, keys and values of n places each."""
    return reals(2, n, 4, 8), reals(2, n, groups, 8), reals(2, n, groups, 8)


def with_lengths(q: Any, k: Any, v: Any, lengths: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, query_seq_lengths=lengths, key_value_seq_lengths=lengths)


#: Of each function its arguments at a size.
CASES: dict[str, tuple[Callable[..., Any], Callable[[int], Sequence[Any]]]] = {
    "searchsorted": (
        jnp.searchsorted,
        lambda n: (
            rising(n),
            reals(5),
        ),
    ),
    "searchsorted_scan_unrolled": (
        lambda x, v: jnp.searchsorted(x, v, method="scan_unrolled"),
        lambda n: (
            rising(n),
            reals(5),
        ),
    ),
    "searchsorted_sort": (
        lambda x, v: jnp.searchsorted(x, v, method="sort"),
        lambda n: (
            rising(n),
            reals(5),
        ),
    ),
    "searchsorted_cmp": (
        lambda x, v: jnp.searchsorted(x, v, method="compare_all"),
        lambda n: (
            rising(n),
            reals(5),
        ),
    ),
    "digitize": (
        jnp.digitize,
        lambda n: (
            reals(5),
            rising(n),
        ),
    ),
    "interp": (
        jnp.interp,
        lambda n: (
            reals(5),
            rising(n),
            reals(n),
        ),
    ),
    "histogram": (
        lambda x, b: jnp.histogram(x, b)[0],
        lambda n: (
            reals(50),
            rising(n + 1),
        ),
    ),
    "histogram10": (lambda x: jnp.histogram(x)[0], lambda n: (reals(n),)),
    "convolve": (
        jnp.convolve,
        lambda n: (
            reals(n),
            reals(3),
        ),
    ),
    "convolve_same": (
        lambda a, b: jnp.convolve(a, b, mode="same"),
        lambda n: (
            reals(n + 3),
            reals(3),
        ),
    ),
    "correlate": (
        jnp.correlate,
        lambda n: (
            reals(n + 3),
            reals(3),
        ),
    ),
    "correlate_full": (
        lambda a, b: jnp.correlate(a, b, mode="full"),
        lambda n: (
            reals(n + 3),
            reals(3),
        ),
    ),
    "detrend": (jsp.signal.detrend, lambda n: (reals(n + 2),)),
    "detrend_c": (lambda x: jsp.signal.detrend(x, type="constant"), lambda n: (reals(n + 2),)),
    "array_split": (lambda x: [a.sum() for a in jnp.array_split(x, 3)], lambda n: (reals(n + 3),)),
    "permutation": (lambda x: jnp.sort(jax.random.permutation(KEY, x)), lambda n: (reals(n),)),
    "permutation_n": (lambda x: jnp.sort(jax.random.permutation(KEY, x.shape[0])), lambda n: (reals(n),)),
    "choice": (lambda x: jax.random.choice(KEY, x, (3,)), lambda n: (reals(n + 3),)),
    "choice_p": (
        lambda x: jax.random.choice(KEY, x, (3,), p=jnp.ones(x.shape[0]) / x.shape[0]),
        lambda n: (reals(n + 3),),
    ),
    "choice_norep": (lambda x: jax.random.choice(KEY, x, (3,), replace=False), lambda n: (reals(n + 3),)),
    "logspace": (lambda x: jnp.logspace(0, 1, x.shape[0]), lambda n: (reals(n),)),
    "linspace": (lambda x: jnp.linspace(0, 1, x.shape[0]), lambda n: (reals(n),)),
    "geomspace": (lambda x: jnp.geomspace(1, 2, x.shape[0]), lambda n: (reals(n),)),
    "indices": (lambda x: jnp.indices(x.shape), lambda n: (reals(n, 3),)),
    "polyval": (
        jnp.polyval,
        lambda n: (
            reals(n),
            reals(5),
        ),
    ),
    "fill_diagonal": (lambda x: jnp.fill_diagonal(x, 1.0, inplace=False), lambda n: (reals(n, n),)),
    "fill_diagonal2": (lambda x: jnp.fill_diagonal(x, 1.0, inplace=False), lambda n: (reals(n, n + 1),)),
    "hanning": (lambda x: jnp.hanning(x.shape[0]), lambda n: (reals(n),)),
    "hamming": (lambda x: jnp.hamming(x.shape[0]), lambda n: (reals(n),)),
    "blackman": (lambda x: jnp.blackman(x.shape[0]), lambda n: (reals(n),)),
    "bartlett": (lambda x: jnp.bartlett(x.shape[0]), lambda n: (reals(n),)),
    "kaiser": (lambda x: jnp.kaiser(x.shape[0], 3.0), lambda n: (reals(n),)),
    "setdiff1d": (
        lambda a, b: jnp.setdiff1d(a, b, size=3, fill_value=0),
        lambda n: (
            np.arange(n + 4),
            np.arange(2),
        ),
    ),
    "pad_reflect": (lambda x: jnp.pad(x, 2, mode="reflect"), lambda n: (reals(n + 2),)),
    "pad_symmetric": (lambda x: jnp.pad(x, 2, mode="symmetric"), lambda n: (reals(n + 2),)),
    "pad_wrap": (lambda x: jnp.pad(x, 2, mode="wrap"), lambda n: (reals(n + 2),)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), lambda n: (reals(n),)),
    "trapezoid": (jnp.trapezoid, lambda n: (reals(n + 1),)),
    "gradient": (jnp.gradient, lambda n: (reals(n + 2),)),
    "percentile": (lambda y: jnp.percentile(y, 30.0), lambda n: (reals(n),)),
    "median": (jnp.median, lambda n: (reals(n),)),
    "unique": (lambda y: jnp.unique(y, size=3), lambda n: (reals(n + 3),)),
    "sort": (jnp.sort, lambda n: (reals(n),)),
    "cov": (jnp.cov, lambda n: (reals(3, n + 1),)),
    "corrcoef": (jnp.corrcoef, lambda n: (reals(3, n + 1),)),
    "roll": (lambda y: jnp.roll(y, 2), lambda n: (reals(n),)),
    "tile": (lambda y: jnp.tile(y, 3), lambda n: (reals(n),)),
    "repeat": (lambda y: jnp.repeat(y, 3), lambda n: (reals(n),)),
    "diff": (jnp.diff, lambda n: (reals(n + 1),)),
    "vander": (lambda y: jnp.vander(y, 4), lambda n: (reals(n),)),
    "tri": (jnp.tril, lambda n: (reals(n, n),)),
    "diag": (jnp.diag, lambda n: (reals(n),)),
    "diagonal": (jnp.diagonal, lambda n: (reals(n, n + 2),)),
    "kron": (lambda y: jnp.kron(y, y), lambda n: (reals(n),)),
    "outer": (lambda y: jnp.outer(y, y), lambda n: (reals(n),)),
    "split": (lambda y: jnp.split(y, 2)[0], lambda n: (reals(2 * n),)),
    "reshape2": (lambda y: y.reshape(-1, 2), lambda n: (reals(2 * n),)),
    "eye": (lambda y: jnp.eye(y.shape[0]), lambda n: (reals(n),)),
    "attention": (
        jax.nn.dot_product_attention,
        lambda n: (
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
        ),
    ),
    "attention_causal": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        lambda n: (
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
        ),
    ),
    "attention_gqa": (
        jax.nn.dot_product_attention,
        lambda n: (
            reals(2, n, 4, 8),
            reals(2, n, 2, 8),
            reals(2, n, 2, 8),
        ),
    ),
    "attention_len": (
        with_lengths,
        lambda n: (
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
            np.array([1, 1], "i4"),
        ),
    ),
    "attention_win": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, local_window_size=2),
        lambda n: (
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
            reals(2, n, 4, 8),
        ),
    ),
    "resize": (lambda y: jax.image.resize(y, (2 * y.shape[0], 3), "bilinear"), lambda n: (reals(n, 3),)),
    "scan": (lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x)[1], lambda n: (reals(n),)),
    "scan by its length": (
        lambda x: lax.scan(lambda c, none: (c * 2, c + (none is None)), 1.0, None, length=x.shape[0])[1] + x[0],
        lambda n: (reals(n),),
    ),
    "scan by length and elements": (
        lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x, x.shape[0], True, 2, False)[1],
        lambda n: (reals(n),),
    ),
    "the last": (lambda x: x[x.shape[0] - 1] + x[x.shape[0] // 2], lambda n: (reals(n),)),
    "rows in the middle": (lambda x: x[:, x.shape[1] // 2, None], lambda n: (reals(3, n),)),
    "set in the middle": (lambda x: x.at[x.shape[0] // 2].set(7.0), lambda n: (reals(n),)),
    "kaiser by name": (lambda x: jnp.kaiser(x.shape[0], beta=8.6), lambda n: (reals(n),)),
    "array_split by NumPy's number": (lambda x: jnp.array_split(x, np.int64(3))[0], lambda n: (reals(n + 3),)),
    "fori_loop from a narrow number": (
        lambda x: lax.fori_loop(np.int8(0), 50 * x.shape[0], lambda i, c: c + i, x.astype("int32")[0]),
        lambda n: (reals(n),),
    ),
    "pmean over examples": (
        jax.vmap(lambda v: (v - lax.pmean(v, "b")) * lax.psum(1, "b"), axis_name="b"),
        lambda n: (reals(n),),
    ),
    "psum over two axes": (
        jax.vmap(jax.vmap(lambda v: v / lax.psum(v, ("a", "b")), axis_name="b"), axis_name="a"),
        lambda n: (abs(reals(n, 3)) + 1,),
    ),
    "gradient of a normalisation over examples": (
        jax.grad(lambda x: (jax.vmap(lambda v: v / lax.pmean(v**2, "b"), axis_name="b")(x) ** 3).sum()),
        lambda n: (reals(n),),
    ),
    "all_gather over examples": (
        jax.vmap(lambda v: lax.all_gather(v, "b", tiled=True).sum() * v * lax.axis_size("b"), axis_name="b"),
        lambda n: (reals(n, 2),),
    ),
    "all_gather over two axes": (
        jax.vmap(jax.vmap(lambda v: lax.all_gather(v, "a") + lax.all_gather(v, "b"), axis_name="b"), axis_name="a"),
        lambda n: (reals(n, n),),
    ),
    "gradient of all_gather": (
        jax.vmap(jax.grad(lambda v: (lax.all_gather(v, "b") ** 2).sum() * v), axis_name="b"),
        lambda n: (reals(n),),
    ),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, deg=2, w=abs(y)), lambda n: (rising(n + 4), reals(n + 4))),
    "polyfit with its spread": (lambda x, y: jnp.polyfit(x, y, 2, cov=True), lambda n: (rising(n + 4), reals(n + 4))),
    "polyfit with all": (lambda x, y: jnp.polyfit(x, y, 2, None, True), lambda n: (rising(n + 4), reals(n + 4))),
    "chunk": (lambda x: jnp.pad(x, (0, -x.shape[0] % 8)).reshape(-1, 8).sum(1), lambda n: (reals(n),)),
    "halves": (lambda x: x[: x.shape[0] // 2].sum() + x[x.shape[0] // 2 :].sum(), lambda n: (reals(n),)),
    "add2": (
        lambda x, y: x + y,
        lambda n: (
            reals(n),
            reals(n),
        ),
    ),
    "concat": (
        lambda x, y: jnp.concatenate([x, y]) * jnp.concatenate([y, x]),
        lambda n: (
            reals(n),
            reals(n),
        ),
    ),
    "cumsum": (jnp.cumsum, lambda n: (reals(n),)),
    "nanmedian": (jnp.nanmedian, lambda n: (reals(n),)),
    "bincount": (lambda x: jnp.bincount(x, length=4), lambda n: (np.arange(n) % 4,)),
    "logsumexp": (jsp.special.logsumexp, lambda n: (reals(n),)),
    "block": (lambda x: jnp.block([[x, x], [x, x]]), lambda n: (reals(n, n),)),
    "meshgrid": (lambda x: jnp.meshgrid(x, x)[0], lambda n: (reals(n),)),
    "poly": (lambda x: jnp.polymul(x, x), lambda n: (reals(n),)),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=4)[0], lambda n: (reals(n + 4),)),
    "top_k": (lambda x: lax.top_k(x, 3)[0], lambda n: (reals(n + 3),)),
    "argpartition": (lambda x: jnp.partition(x, 2), lambda n: (reals(n + 3),)),
    "segment_sum": (
        lambda x, i: jax.ops.segment_sum(x, i, num_segments=x.shape[0]),
        lambda n: (
            reals(n),
            np.arange(n) % 2,
        ),
    ),
    "one_hot": (lambda x: jax.nn.one_hot(x, 7), lambda n: (np.arange(n) % 7,)),
    "normal": (lambda x: jax.random.normal(KEY, x.shape), lambda n: (reals(n),)),
    "categorical": (lambda x: jax.random.categorical(KEY, x), lambda n: (reals(3, n),)),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(x.shape[0]) * 9), lambda n: (reals(n, n),)),
    "solve": (
        jnp.linalg.solve,
        lambda n: (
            reals(n, n) + 4 * np.eye(n, dtype="f4"),
            reals(n),
        ),
    ),
}
#: Programs of functions whose Python goes several ways: by which array is the longer, by a last axis of one element.
PROGRAMS = {"convolve": 2, "solve": 2}


@pytest.mark.parametrize("name", CASES)
def test_one_program(name: str) -> None:
    function, arguments = CASES[name]
    run, plain = djax.jit(function), jax.jit(function)
    for n in SIZES:
        given = arguments(n)
        try:
            wanted = plain(*given)
        except Exception:  # too few elements
            continue
        made = run(*given)
        for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert run.cache_info().compiles == PROGRAMS.get(name, 1)


def test_no_size_of_attention_is_a_number() -> None:
    """A question about heads is about the axis of heads: others stay symbols, and one trace is enough."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    run = djax.jit(attention)
    for batch, length, heads, groups, size in ((2, 5, 4, 2, 8), (1, 9, 8, 2, 4), (3, 1, 2, 1, 8), (2, 16, 4, 4, 1)):
        given = [reals(batch, length, count, size) for count in (heads, groups, groups)]
        np.testing.assert_allclose(run(*given), attention(*given), rtol=1e-4, atol=1e-5)
    texts = [guard.text(program.places()) for program in run.programs for guard in program.sizes.guards]
    assert [text for text in texts if text.endswith(tuple("0123456789")) and "%" not in text] == []
    assert run.cache_info().compiles == 1


def test_a_chunk_that_is_padded_divides() -> None:
    run = djax.jit(lambda x: jnp.pad(x, (0, -x.shape[0] % 8)).reshape(-1, 8).sum(1))
    for n in (1, 7, 8, 9, 64, 65):
        made = run(np.ones(n, "f4"))
        assert made.shape == (math.ceil(n / 8),)
        assert float(made.sum()) == n
    info = run.cache_info()
    assert (info.compiles, info.traces) == (1, 1)
    assert run.programs[0].sizes.guards == ()


def test_permutations_are_those_of_jax() -> None:
    """Bit by bit, also where another number of sorts is needed: that is another program."""
    run = djax.jit(lambda x: jax.random.permutation(KEY, x))
    for n in (1, 2, 100, 1625, 1626, 3000):
        x = np.arange(n, dtype="f4")
        np.testing.assert_array_equal(run(x), jax.random.permutation(KEY, x))
    assert run.cache_info().compiles == 2


def test_users_functions_in_scans() -> None:
    def combine(a: Any, b: Any) -> Any:
        return {"m": jnp.einsum("...ij,...jk->...ik", b["m"], a["m"]), "s": a["s"] + b["s"]}

    def scanned(reverse: bool, m: Any, s: Any) -> Any:
        return lax.associative_scan(combine, {"m": m, "s": s}, reverse=reverse)

    for reverse in (False, True):
        run = djax.jit(functools.partial(scanned, reverse))
        for n in (1, 2, 7, 16, 33):
            m, s = reals(n, 2, 2) * 0.5, reals(n)
            wanted = scanned(reverse, m, s)
            made = run(m, s)
            np.testing.assert_allclose(made["m"], wanted["m"], rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(made["s"], wanted["s"], rtol=1e-4, atol=1e-5)
        assert run.cache_info().compiles == 1


@pytest.mark.parametrize("fn", [jnp.add, lax.mul, lambda a, b: a * b * 0.5])
def test_weak_types_of_scans(fn: Callable[..., Any]) -> None:
    """As JAX has them: weak elements are weak again where there is one, which is a program of its own then."""

    def scanned(weak: bool, x: Any) -> Any:
        return lax.associative_scan(fn, jnp.full(x.shape, 2.0) if weak else x)

    for weak, programs in ((False, 1), (True, 2)):
        function = functools.partial(scanned, weak)
        run = djax.jit(function)
        for n in (5, 1, 2, 8):
            made, wanted = run(reals(n)), jax.jit(function)(reals(n))
            assert (made.dtype, made.weak_type) == (wanted.dtype, wanted.weak_type)
            np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
        assert run.cache_info().compiles == programs


def test_loops_whose_number_of_steps_is_a_size_have_gradients() -> None:
    def f(x: Any, y: Any) -> Any:
        return lax.fori_loop(y.shape[0], x.shape[0], lambda i, c: c * 0.9 + jnp.sin(x[i]), 0.0)

    run = djax.jit(jax.grad(f))
    for n, first in ((5, 1), (9, 3), (4, 4), (3, 7)):  # a loop of no steps has a program of its own
        x, y = reals(n), reals(first)
        wanted = jax.grad(f)(jnp.asarray(x), jnp.asarray(y))
        np.testing.assert_allclose(run(x, y), wanted, rtol=1e-4, atol=1e-6)
        assert run.cache_info().compiles == (1 if n > first else 2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
def test_gradients_of_convolutions_with_strides(strides: tuple[int, int], padding: str) -> None:
    def loss(x: Any, w: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jnp.tanh(lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=layout)).sum()

    gradient = jax.grad(loss, argnums=(0, 1))
    run = djax.jit(gradient)
    w = reals(3, 2, 2, 4)
    for n, height, width in ((2, 8, 8), (3, 9, 13), (4, 32, 17), (2, 5, 6), (5, 12, 7)):
        x = reals(n, height, width, 2)
        for actual, wanted in zip(run(x, w), gradient(jnp.asarray(x), jnp.asarray(w)), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-3, atol=1e-4)
    assert run.cache_info().compiles == 1


def test_functions_are_written_where_jax_has_them() -> None:
    """Their sources, and the lines of users' that an operation is said to come from."""
    djax.jit(lambda x: jnp.hanning(x.shape[0]))(reals(4))
    assert "def kaiser(" in inspect.getsource(_jnp.kaiser)
    assert inspect.signature(lax.scan).parameters["reverse"].default is False
    made = jax.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, c: c + 1, x))(1.0)
    summarize: Any = importlib.import_module("jax._src.source_info_util").summarize
    assert "test_jax_functions.py" in summarize(made.eqns[0].source_info)


def test_axes_that_an_array_has_not() -> None:
    for own in (jax.jit, djax.jit):
        with pytest.raises(ValueError, match="axis 3 is out of bounds"):
            own(lambda x: lax.associative_scan(jnp.add, x, axis=3))(reals(4))


def test_jax_is_itself_outside_of_traces() -> None:
    djax.jit(lambda x: jnp.hanning(x.shape[0]))(reals(4))
    (n,) = jax.export.symbolic_shape("n")
    with pytest.raises(Exception, match="requires a constant"):
        int(n)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        range(n)
    with pytest.raises(Exception, match="inconclusive"):
        assert n > 3
    assert n != 3
    assert len(jnp.hanning(5)) == 5
    assert jnp.array_split(jnp.arange(5), 2)[0].shape == (3,)
