"""The namespace as a whole: what it has, what tracers hand to it, and calls outside of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn.numpy as dnp
from dyn import dtypes, nn
from dyn.errors import ShapeError
from dyn.numpy._protocol import NAMESPACE
from dyn.trace.tracer import Tracer
from tests.numpy.differential import compare, trace

# The functions of the Python array API standard 2024.12, without its extensions, devices and inspection.
ARRAY_API = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
    bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast
    ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like
    equal exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal
    hypot iinfo imag inf isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp
    logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum
    moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod
    real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort split
    sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all
    unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like bool int8 int16 int32 int64
    uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()  # noqa: SIM905 - names in rows are easier to compare with the standard


def test_the_array_api_is_there() -> None:
    assert [name for name in ARRAY_API if name not in dnp.__all__] == []


@pytest.mark.parametrize("module", [dnp, nn], ids=["numpy", "nn"])
def test_public_names_exist_and_are_documented(module: Any) -> None:
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) and not isinstance(value, type):
            assert (value.__doc__ or "").strip(), name


def test_names_that_numpy_has_are_numpy_s() -> None:
    own = {"bfloat16", "flatten", "special", *(d.name for d in dtypes.FLOAT8)}
    assert [name for name in dnp.__all__ if not hasattr(np, name) and name not in own] == []


def test_methods_are_functions() -> None:
    def program(xp: Any, x: Any) -> Any:
        assert x.__array_namespace__() is dnp
        return x.__array_namespace__().exp(x), x.T, x.mT, x.real, x.size * xp.ones(2), x.nbytes * xp.ones(2)

    def oracle(xp: Any, x: Any) -> Any:
        return np.exp(x), x.T, x.mT, x.real, x.size * np.ones(2), x.nbytes * np.ones(2)

    compare(program, "float64 n 3", oracle=oracle)


def test_the_namespace_knows_its_operands() -> None:
    for value in (1, 2.5, True, 1j, np.float32(3), np.zeros(3), np.array(3)):
        assert NAMESPACE.is_operand(value)
    for value in (None, "x", [1], (1,), {}, object()):
        assert not NAMESPACE.is_operand(value)
    assert NAMESPACE.module() is dnp


def test_questions_about_dtypes() -> None:
    def program(xp: Any, x: Any) -> Any:
        assert xp.result_type(x, 1.5) == np.float32
        assert xp.result_type(x, np.float64) == np.float64
        assert xp.result_type(x, x.shape[0]) == np.float32
        assert xp.result_type(1, 2.5) == np.float64
        assert xp.result_type(np.int32, "uint8") == np.int32
        assert xp.promote_types("int32", "float32") == np.float64
        assert xp.can_cast(x, "float64")
        assert not xp.can_cast("float64", "float32")
        assert xp.isdtype(x.dtype, "real floating")
        assert not xp.isdtype(x.dtype, ("integral", "bool"))
        assert xp.isdtype(xp.bfloat16, "numeric")
        assert xp.finfo(x.dtype).max == np.finfo(np.float32).max
        assert xp.iinfo("int8").max == 127
        assert (xp.ndim(x), xp.shape(x)[1], xp.shape([[1, 2]]), xp.ndim(2.0)) == (2, 3, (1, 2), 0)
        return x

    trace(program, "float32 n 3")


# ---- outside of a trace ----------------------------------------------------------------------------------------------


def test_calls_outside_of_a_trace_compute() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(dnp.exp(-x), np.exp(-x), rtol=1e-6)
    np.testing.assert_array_equal(dnp.concatenate([x, x], axis=1), np.concatenate([x, x], axis=1))
    np.testing.assert_array_equal(dnp.sum(x, axis=0, keepdims=True), x.sum(0, keepdims=True))
    np.testing.assert_array_equal(dnp.reshape(x, (4, -1)), x.reshape(4, -1))
    np.testing.assert_allclose(dnp.matmul(x, x.T), x @ x.T)
    np.testing.assert_allclose(np.asarray(nn.softmax(x)).sum(-1), np.ones(3), rtol=1e-6)
    left, right = dnp.split(x, 2, axis=1)
    np.testing.assert_array_equal(left, x[:, :2])
    np.testing.assert_array_equal(right, x[:, 2:])
    zeros, counted = dnp.zeros((2, 3)), dnp.arange(5)
    assert (np.asarray(zeros).dtype, np.shape(zeros), np.asarray(counted).tolist()) == (
        np.float32,
        (2, 3),
        [0, 1, 2, 3, 4],
    )
    assert dnp.broadcast_shapes((3, 1), (4,)) == (3, 4)
    assert not isinstance(zeros, Tracer)


def test_errors_outside_of_a_trace_are_the_same() -> None:
    with pytest.raises(ShapeError) as caught:
        dnp.add(np.zeros((3, 4)), np.zeros((2, 4)))
    assert "broadcast" in str(caught.value)
    with pytest.raises(ShapeError):
        dnp.nonzero(np.float32(1))


def test_functions_of_numpys_modules() -> None:
    def program(xp: Any, x: Any) -> Any:
        return np.linalg.norm(x, axis=1), np.fft.rfft(x, 4, axis=-1).real

    compare(program, "float64 n 3")
