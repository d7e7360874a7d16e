"""One compile for every size, the same numbers inside of jit and outside, and what is refused."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import random
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError

Array = np.ndarray[Any, Any]
KEY = random.key(3)
SIZES = ((0, 3), (1, 1), (2, 7), (7, 0), (64, 2), (1000, 3))


def everything(key: Any, x: Any) -> dict[str, Any]:
    """Each function with a shape from ``x`` (n, m)."""
    shape, n = x.shape, x.shape[0]
    return {
        "split": random.split(key, n),
        "bits": random.bits(key, shape, "uint8"),
        "uniform": random.uniform(key, shape, minval=-1.0, maxval=x + 2),
        "normal": random.normal(key, shape),
        "truncated_normal": random.truncated_normal(key, -1.0, 1.0, shape),
        "exponential": random.exponential(key, (n, 2)),
        "gumbel": random.gumbel(key, (2, *shape)),
        "laplace": random.laplace(key, shape),
        "logistic": random.logistic(key, shape),
        "cauchy": random.cauchy(key, shape),
        "randint": random.randint(key, shape, 0, 100),
        "below_a_size": random.randint(key, (3,), 0, n + 1),
        "bernoulli": random.bernoulli(key, x * 0.25),
        "rademacher": random.rademacher(key, shape),
        "permutation": random.permutation(key, n),
        "rows": random.permutation(key, x),
        "choice": random.choice(key, n + 1, (4,)),
        "some_rows": random.choice(key, x, (n,), False),
        "categorical": random.categorical(key, dnp.concatenate([x, dnp.ones((1, x.shape[1]), x.dtype)]), 0),
        "gamma": random.gamma(key, x + 1),
        "poisson": random.poisson(key, x * 3),
        "binomial": random.binomial(key, n, x),
        "dirichlet": random.dirichlet(key, x + 1),
    }


def test_one_compile_is_for_every_size() -> None:
    f = dyn.jit(everything)
    for shape in SIZES:
        x = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        inside = f(KEY, x)
        for name, wanted in everything(KEY, x).items():
            assert inside[name].dtype == wanted.dtype
            np.testing.assert_array_equal(inside[name], wanted, err_msg=f"{name} {shape}")
    assert f.cache_info().compiles == 1


def test_calls_outside_of_jit_share_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new size, bound or rate needs no program of its own."""
    made: list[str] = []
    program = dyn.eager._program  # pyright: ignore[reportPrivateUsage]

    def counted(call: Any) -> Any:
        made.append(call.fn.__name__)
        return program(call)

    monkeypatch.setattr(dyn.eager, "_program", counted)
    monkeypatch.setattr(dyn.eager, "_PROGRAMS", dyn.eager._EagerPrograms())  # pyright: ignore[reportPrivateUsage]
    # Numbers that are written in this function would be literals, with programs of their own.
    rate, offset = float("99.5"), int("100")
    with dyn.config.override(fast_call=False):  # calls that the native entry knows need no program at all
        for size in (11, 12, 0, 1, 64):
            random.laplace(KEY, (size, 2))
            random.uniform(KEY, size, minval=size / 7, maxval=rate + size)
            random.randint(KEY, (size,), -size, offset + size, "int16")
            random.permutation(KEY, size)
            random.choice(KEY, size + 1, (size,))
            random.poisson(KEY, size / 2, (3, size))
            random.fold_in(KEY, size + offset)
            random.split(KEY, size)
    assert sorted(made) == [
        "choice", "fold_in", "laplace", "permutation", "poisson", "randint", "split", "uniform",
    ]  # fmt: skip


def test_keys_are_unpacked_and_indexed() -> None:
    @dyn.jit
    def f(key):
        key, sub = random.split(key)
        several = random.split(sub, 3)
        return random.uniform(key, (2,)), random.uniform(several[2], (2,)), random.wrap_key_data(random.key_data(sub))

    first, second = random.split(KEY)
    a, b, c = f(KEY)
    np.testing.assert_array_equal(a, random.uniform(first, (2,)))
    np.testing.assert_array_equal(b, random.uniform(random.split(second, 3)[2], (2,)))
    np.testing.assert_array_equal(c, second)


def test_results_are_of_the_kind_of_the_key() -> None:
    assert type(random.uniform(KEY, (2,))) is np.ndarray
    assert type(random.key(1)) is np.ndarray


def test_a_key_of_the_program_itself() -> None:
    f = dyn.jit(lambda x: x + random.uniform(random.key(5), x.shape))
    x = np.zeros((3, 2), np.float32)
    np.testing.assert_array_equal(f(x), random.uniform(random.key(5), (3, 2)))


def test_no_gradient_comes_through_bits() -> None:
    f = dyn.grad(lambda x: dyn.numpy.sum(random.uniform(random.fold_in(KEY, x.astype("uint32")), (3,)) * x))
    x = np.float32(2)
    np.testing.assert_allclose(f(x), random.uniform(random.fold_in(KEY, 2), (3,)).sum(), rtol=1e-6)


def test_gradients_through_gamma_at_every_size() -> None:
    f = dyn.jit(dyn.grad(lambda a: dyn.numpy.sum(random.gamma(KEY, a))))
    for size in (0, 1, 2, 7, 64, 1000):
        a = np.linspace(0.1, 9, size, dtype=np.float32)
        each = dyn.jvp(lambda a: random.gamma(KEY, a), (a,), (np.ones_like(a),))[1]
        np.testing.assert_allclose(f(a), each, rtol=1e-6)
    assert f.cache_info().compiles == 1


def test_the_default_dtype_of_floats_is_dyn_s() -> None:
    with dyn.config.override(default_float="float64"):
        assert random.uniform(KEY, (2,)).dtype == np.float64
        assert random.bernoulli(KEY, 0.5, (2,)).dtype == np.bool_


# ---- what is refused -------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, type[Exception], str, str]] = {
    "no key": (
        lambda: random.uniform(np.zeros(2, np.float32)), UnsupportedOpError,
        "uniform takes a key of dtype uint32, not float32.", "make one with dyn.random.key(seed).",
    ),
    "several keys": (
        lambda: random.normal(random.split(KEY, 3)), ShapeError,
        "normal takes one key, of shape (2,), not an array with 2 axes.", "use dyn.vmap for several keys.",
    ),
    "a float seed": (
        lambda: random.key(np.zeros((), np.float32)), UnsupportedOpError,
        "key takes an integer seed, not float32.", "convert it with .astype('uint32').",
    ),
    "several seeds": (
        lambda: random.key(np.zeros(3, np.int32)), ShapeError,
        "key takes one seed, not an array with 1 axes.", "use dyn.vmap for several.",
    ),
    "a long seed": (
        lambda: random.key(2**64), UnsupportedOpError,
        f"key takes a seed of 64 bits, not {2**64}.", "use seed % 2**64.",
    ),
    "another generator": (
        lambda: random.key(0, impl="rbg"), NotYetError,
        "key: the generator 'rbg' comes later.", "leave it out: it is 'threefry2x32'.",
    ),
    "integers of uniform": (
        lambda: random.uniform(KEY, (), "int32"), UnsupportedOpError,
        "uniform draws numbers of a float dtype, not of int32.", "leave dtype out, or name one.",
    ),
    "floats of randint": (
        lambda: random.randint(KEY, (), 0, 1, "float32"), UnsupportedOpError,
        "randint draws numbers of an integer dtype, not of float32.", "leave dtype out, or name one.",
    ),
    "signed bits": (
        lambda: random.bits(KEY, (), "int32"), UnsupportedOpError,
        "bits draws numbers of an unsigned integer dtype, not of int32.", "leave dtype out, or name one.",
    ),
    "an unsigned sign": (
        lambda: random.rademacher(KEY, (), "uint8"), UnsupportedOpError,
        "rademacher draws -1 too, which uint8 does not have.", "use a signed dtype.",
    ),
    "an integer chance": (
        lambda: random.bernoulli(KEY, np.int32(1)), UnsupportedOpError,
        "bernoulli takes a float probability, not int32.", "convert it with .astype('float32').",
    ),
    "a complex bound": (
        lambda: random.uniform(KEY, (), minval=np.complex64(1)), UnsupportedOpError,
        "uniform takes real parameters, not complex64.", "pass the real or imaginary part.",
    ),
    "a mode": (
        lambda: random.gumbel(KEY, (), mode="highest"), UnsupportedOpError,
        "gumbel: 'highest' is no mode.", "use 'low' or 'high'.",
    ),
    "a negative size": (
        lambda: random.normal(KEY, (3, -1)), ShapeError,
        "normal: the shape (3, -1) has a negative size.", "sizes are 0 or more.",
    ),
    "fold_in of a float": (
        lambda: random.fold_in(KEY, 1.5), UnsupportedOpError,
        "fold_in takes an integer, not float64.", "convert it with .astype.",
    ),
    "a permutation of a number": (
        lambda: random.permutation(KEY, np.float32(3)), ShapeError,
        "permutation takes an array with at least one axis, or a size.",
        "pass an int or a dimension for a permutation of arange.",
    ),
    "a short shape": (
        lambda: random.categorical(KEY, np.zeros((3, 4, 5), np.float32), shape=(2,)), ArgumentError,
        "categorical: a shape of 1 axes does not end in the 2 axes that the logits have beside theirs.",
        "put what is drawn of each in front of the logits' own shape.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, kind, problem, remedy = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    error: Any = caught.value
    assert error.problem == problem
    assert error.remedy == remedy
    assert error.loc is not None
    assert error.loc.file.endswith("test_shapes.py")


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="choice finds enough to choose from"):
        random.choice(KEY, 3, (4,), False)
    with pytest.raises(ShapeError, match="choice finds enough to choose from"):
        random.choice(KEY, 0, (1,))
    with pytest.raises(ShapeError, match="choice takes a probability for each slice"):
        random.choice(KEY, 3, (2,), p=np.ones(4, np.float32))
    with pytest.raises(ShapeError, match="is broadcast from"):
        random.uniform(KEY, (3,), minval=np.zeros(2, np.float32))
    with pytest.raises(ShapeError, match="does not broadcast to the shape"):
        random.gamma(KEY, np.ones((2, 3), np.float32), (3,))
    with pytest.raises(ShapeError, match="the key of normal is two words"):
        random.normal(np.zeros(3, np.uint32), (2,))
    with pytest.raises(TypeError):
        random.normal(KEY, (2,), None, 5)  # pyright: ignore[reportCallIssue]


def test_public_names_are_documented() -> None:
    assert isinstance(dyn.random, types.ModuleType)
    assert sorted(random.__all__, key=str) == sorted(set(random.__all__), key=str)
    for name in random.__all__:
        assert (getattr(random, name).__doc__ or "").strip(), name
