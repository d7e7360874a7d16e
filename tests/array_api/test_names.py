"""The array API standard's names and signatures: those of ``array_api_strict``, read from its functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, BackendUnavailableError, DynError, InvalidValueError, UnsupportedOpError
from dyn.trace.tracer import Tracer

VERSION = "2024.12"
#: What is its own, and no part of the standard.
_STRICT = {
    "ArrayAPIStrictFlags", "Device", "__version__", "get_array_api_strict_flags", "reset_array_api_strict_flags",
    "set_array_api_strict_flags",
}  # fmt: skip
#: Extensions, which have tests of their own.
_EXTENSIONS = {"linalg", "fft"}


@pytest.fixture(scope="module")
def strict() -> Iterator[ModuleType]:
    module = pytest.importorskip("array_api_strict")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "__dyn__", True, raising=False)
        module.set_array_api_strict_flags(api_version=VERSION)
        yield module
        module.reset_array_api_strict_flags()


def _names(strict: ModuleType) -> list[str]:
    return sorted(set(strict.__all__) - _STRICT - _EXTENSIONS)


def test_names(strict: ModuleType) -> None:
    missing = [name for name in _names(strict) if not hasattr(dnp, name)]
    assert missing == []
    assert [name for name in _names(strict) if name not in dnp.__all__] == []
    assert (dnp.__array_api_version__, dnp.newaxis) == (VERSION, None)
    assert (dnp.e, dnp.pi, dnp.inf) == (np.e, np.pi, np.inf)
    assert np.isnan(dnp.nan)


def _refusal(wanted: inspect.Signature, own: inspect.Signature) -> str | None:
    """Why a call that the standard allows is one that a function does not take; None where it takes them all."""
    mine = list(own.parameters.values())
    if any(p.kind is Parameter.VAR_POSITIONAL for p in mine):
        return None
    places = [p for p in mine if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    given = 0
    for parameter in wanted.parameters.values():
        name = parameter.name
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            if given >= len(places):
                return f"{name} is not taken by position"
            if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and places[given].name != name:
                return f"parameter {given} is {places[given].name}, not {name}"
            given += 1
        if parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            found = own.parameters.get(name)
            if found is None or found.kind is Parameter.POSITIONAL_ONLY:
                return f"{name}= is not taken"
            if parameter.default is not Parameter.empty and found.default is Parameter.empty:
                return f"{name} may not be left out"
            plain = isinstance(parameter.default, bool | int | float | str)
            # correction=0.0 is a ddof of 0 here, of which NumPy's name comes first.
            if plain and found.default != parameter.default and name != "correction":
                return f"{name} is {found.default!r} when it is left out, not {parameter.default!r}"
    required = [p for p in places[given:] if p.default is Parameter.empty]
    return f"{required[0].name} has to be given" if required else None


def test_signatures(strict: ModuleType) -> None:
    refused: dict[str, str] = {}
    for name in _names(strict):
        function = getattr(strict, name)
        if not callable(function) or isinstance(function, type):
            continue
        found = _refusal(inspect.signature(function), inspect.signature(getattr(dnp, name)))
        if found is not None:
            refused[name] = found
    assert refused == {}


#: Attributes of arrays that the standard has, those of ``array_api_strict`` in public.
_SPECIAL = ("__array_namespace__", "__dlpack__", "__dlpack_device__", "__setitem__")


def test_attributes(strict: ModuleType) -> None:
    own = set(dir(type(strict.asarray(1))))
    public = {name for name in own if not name.startswith("_")} | {
        name for name in own if name.startswith("__") and name not in dir(object) and name not in ("__buffer__",)
    }
    public -= {"__module__", "__dict__", "__weakref__", "__annotations__", "__array__"}
    assert [name for name in sorted(public) if not hasattr(dyn.Array, name)] == []
    # A traced array has no elements to export.
    assert [name for name in sorted(public) if not hasattr(Tracer, name)] == ["__dlpack__", "__dlpack_device__"]
    assert set(_SPECIAL) <= own


def test_constants_and_dtypes() -> None:
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
             "complex64", "complex128"]  # fmt: skip
    for name in names:
        own = np.dtype(getattr(dnp, name))
        assert own.name == name
        assert dnp.zeros(2, dtype=getattr(dnp, name)).dtype == own
        assert dnp.asarray([0, 1], dtype=getattr(dnp, name)).dtype == getattr(dnp, name)


# ---- the namespace ---------------------------------------------------------------------------------------------------


def test_the_namespace_of_an_array() -> None:
    x = dnp.asarray([1.0, 2.0])
    assert type(x) is dyn.Array
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is dnp
    with pytest.raises(ArgumentError) as caught:
        x.__array_namespace__(api_version="2019.12")
    assert _placed(caught.value) == (
        "dyn.numpy follows the array API standard 2024.12, not '2019.12'.\n  at <the line>\n"
        "  help: ask for one of 2021.12, 2022.12, 2023.12, 2024.12."
    )


def _placed(error: BaseException) -> str:
    return re.sub(r"at test_names.py:\d+  .*", "at <the line>", str(error))


@pytest.mark.parametrize(
    "make",
    [
        lambda: dnp.zeros(3), lambda: dnp.ones((2, 3)), lambda: dnp.empty(0), lambda: dnp.full((2,), 5),
        lambda: dnp.arange(4), lambda: dnp.linspace(0.0, 1.0, 5), lambda: dnp.eye(3), lambda: dnp.asarray([1, 2]),
        lambda: dnp.asarray(np.ones(2)), lambda: dnp.asarray(1.5), lambda: dnp.asarray([dnp.asarray(1), 2]),
        lambda: dnp.from_dlpack(np.ones(3)), lambda: dnp.meshgrid(dnp.arange(3), dnp.arange(2))[1],
        lambda: dnp.sum(dnp.arange(4)), lambda: dnp.sin(0.5), lambda: dnp.zeros_like(dnp.arange(3)),
    ],
)  # fmt: skip
def test_what_is_made_is_of_the_namespace(make: Callable[[], Any]) -> None:
    assert type(make()) is dyn.Array
    assert make().__array_namespace__() is dnp


def test_numpy_stays_numpy() -> None:
    """dyn's contract: functions give arrays of the library whose arrays they were given."""
    assert type(dnp.sin(np.ones(3))) is np.ndarray
    assert type(dnp.add(np.ones(3), dnp.ones(3, dtype="f8"))) is dyn.Array


def test_inspection() -> None:
    info = dnp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}
    assert (info.default_device(), info.devices()[0]) == ("cpu", "cpu")
    assert info.default_dtypes() == {
        "real floating": np.float32, "complex floating": np.complex64, "integral": np.int64, "indexing": np.int64,
    }  # fmt: skip
    assert info.default_dtypes(device="cpu") == info.default_dtypes()
    with dyn.config.override(default_float="float64"):
        assert info.default_dtypes()["complex floating"] == np.complex128
        assert dnp.zeros(1).dtype == dnp.arange(1.0).dtype == np.float64
    assert dnp.arange(3).dtype == info.default_dtypes()["integral"]
    assert dnp.argmax(dnp.arange(3)).dtype == info.default_dtypes()["indexing"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("bool", "bool"), ("signed integer", "int8 int16 int32 int64"), ("real floating", "float32 float64"),
        ("unsigned integer", "uint8 uint16 uint32 uint64"), ("complex floating", "complex64 complex128"),
        ("integral", "int8 int16 int32 int64 uint8 uint16 uint32 uint64"),
        (("bool", "real floating"), "bool float32 float64"), ((), ""),
        ("numeric", "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"),
        (None, "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"),
    ],
)  # fmt: skip
def test_dtypes_by_kind(kind: Any, names: str) -> None:
    found = dnp.__array_namespace_info__().dtypes(kind=kind)
    assert list(found) == names.split()
    assert all(dtype == np.dtype(name) for name, dtype in found.items())
    for name in found:
        if kind is not None:
            assert dnp.isdtype(getattr(dnp, name), kind)


def test_no_such_kind() -> None:
    with pytest.raises(ArgumentError) as caught:
        dnp.__array_namespace_info__().dtypes(kind="float")
    assert _placed(caught.value) == (
        "dtypes: 'float' is no kind of dtype.\n  at <the line>\n"
        "  help: use one of 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating', "
        "'complex floating', 'numeric'."
    )


# ---- devices and DLPack ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda d: dnp.zeros(3, device=d), lambda d: dnp.ones(3, device=d), lambda d: dnp.empty(3, device=d),
        lambda d: dnp.full(3, 1.0, device=d), lambda d: dnp.arange(3, device=d), lambda d: dnp.eye(3, device=d),
        lambda d: dnp.linspace(0.0, 1.0, 3, device=d), lambda d: dnp.asarray([1], device=d),
        lambda d: dnp.zeros_like(dnp.ones(3), device=d), lambda d: dnp.ones_like(dnp.ones(3), device=d),
        lambda d: dnp.empty_like(dnp.ones(3), device=d), lambda d: dnp.full_like(dnp.ones(3), 2, device=d),
        lambda d: dnp.astype(dnp.ones(3), dnp.int32, device=d), lambda d: dnp.from_dlpack(dnp.ones(3), device=d),
    ],
)  # fmt: skip
def test_devices(make: Callable[[Any], Any]) -> None:
    assert make(None).device == make("cpu").device == "cpu"
    assert make(make("cpu").device).shape == make(None).shape
    with pytest.raises(ArgumentError) as caught:
        make("tpu")
    assert str(caught.value) == (
        'there is no device \'tpu\'.\n  help: use one of "cpu", "cuda", "cuda:1", "rocm", "rocm:1"; see dyn.devices().'
    )
    if not any(one.kind == "cuda" for one in dyn.devices()):
        with pytest.raises(BackendUnavailableError) as missing:
            make("cuda")
        assert "NVIDIA's driver" in str(missing.value)


def test_to_another_device() -> None:
    x = dnp.ones(3)
    assert x.to_device("cpu").device == "cpu"
    assert x.to_device(x.device).shape == x.shape
    with pytest.raises(ArgumentError) as caught:
        x.to_device("tpu")
    assert "there is no device 'tpu'" in str(caught.value)
    if not any(one.kind == "cuda" for one in dyn.devices()):
        with pytest.raises(BackendUnavailableError) as missing:
            x.to_device("cuda")
        assert "NVIDIA's driver" in str(missing.value)


def test_dlpack() -> None:
    source = np.arange(3.0)
    x = dnp.from_dlpack(source)
    source[0] = 9
    assert x.tolist() == [0, 1, 2]
    assert dnp.from_dlpack(x) is x
    copied = dnp.from_dlpack(x, copy=True)
    assert not np.shares_memory(np.asarray(copied), np.asarray(x))
    shared = dnp.from_dlpack(source, copy=False)
    assert np.shares_memory(np.asarray(shared), source)
    with pytest.raises(UnsupportedOpError) as caught:
        dnp.from_dlpack([1.0])
    assert _placed(caught.value) == (
        "from_dlpack: a list has no __dlpack__.\n  at <the line>\n  help: use dyn.numpy.asarray."
    )
    traced = dyn.jit(lambda y: y + dnp.from_dlpack(source))
    assert traced(np.ones(3)).tolist() == [10, 2, 3]


def test_copies() -> None:
    x = dnp.asarray([1.0, 2.0])
    assert dnp.asarray(x) is dnp.asarray(x, copy=False) is x
    assert dnp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match="copy is False"):
        dnp.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="copy"):
        dnp.asarray(x, dtype=dnp.int32, copy=False)

    def inside(y: Any) -> Any:
        assert dnp.asarray(y) is dnp.asarray(y, copy=False) is y
        copied = dnp.asarray(y, copy=True)
        copied[0] = 7
        with pytest.raises(ValueError, match="copy is False"):
            dnp.asarray([1.0], copy=False)
        with pytest.raises(ValueError, match="copy is False"):
            dnp.asarray(y, dtype="i4", copy=False)
        return y, copied

    assert [y.tolist() for y in dyn.jit(inside)(np.array([1.0, 2.0]))] == [[1, 2], [7, 2]]


def test_copies_that_are_not_wanted() -> None:
    """Memory of any strides is taken over; what would have to be copied is an error."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for own in (x, x.T, x[::-1, ::2], np.asfortranarray(x), x[:, :0], x[1, 1:2].reshape(())):
        taken = dnp.asarray(own, copy=False)
        np.testing.assert_array_equal(taken, own)
        assert own.size == 0 or np.shares_memory(np.asarray(taken), own)
        np.testing.assert_array_equal(dnp.add(taken, 1), own + 1)
    swapped = x.astype(">f4")
    packed = np.zeros(3, np.dtype([("a", "i1"), ("b", "f4")]))["b"]
    for value, kind in (
        (swapped, "a ndarray whose elements are not aligned, or have another byte order, becomes an array"),
        (packed, "a ndarray whose elements are not aligned, or have another byte order, becomes an array"),
        (x.astype(np.float64), "a ndarray of float64 becomes an array of float32"),
        ([1.0], "a list becomes an array"),
        (1.0, "a float becomes an array"),
    ):
        dtype = np.float32 if isinstance(value, np.ndarray) and value.dtype == np.float64 else None
        for make in (dnp.asarray, dyn.asarray):
            with pytest.raises(InvalidValueError) as caught:
                make(value, dtype, copy=False)
            assert caught.value.problem == f"asarray: {kind} by copying, and copy is False."


def test_tensors_that_have_to_be_copied() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    np.testing.assert_array_equal(dnp.asarray(x.T, copy=False), x.T)
    with pytest.raises(InvalidValueError) as caught:
        dnp.asarray(torch.complex(x, x).conj(), copy=False)
    assert caught.value.problem == "asarray: a Tensor becomes an array by copying, and copy is False."


# ---- dtypes ----------------------------------------------------------------------------------------------------------


def test_limits() -> None:
    for dtype, part, bits in (("f4", "f4", 32), ("f8", "f8", 64), ("c8", "f4", 32), ("c16", "f8", 64)):
        info = dnp.finfo(np.dtype(dtype))
        assert info == dnp.finfo(dnp.zeros(2, dtype=dtype))
        assert (info.bits, info.dtype) == (bits, np.dtype(part))
        for name in ("eps", "max", "min", "smallest_normal"):
            value = getattr(info, name)
            assert type(value) is float
            assert value == float(getattr(np.finfo(part), name))
        assert info.tiny == np.finfo(part).tiny
    assert dnp.finfo(dyn.bfloat16).eps == 2.0**-7
    for dtype in ("i1", "u2", "i4", "u8"):
        info = dnp.iinfo(dnp.zeros(1, dtype=dtype))
        assert (info.bits, info.max, info.min, info.dtype) == (
            8 * np.dtype(dtype).itemsize, np.iinfo(dtype).max, np.iinfo(dtype).min, np.dtype(dtype),
        )  # fmt: skip


@contextmanager
def raises(text: str) -> Iterator[None]:
    with pytest.raises(DynError) as caught:
        yield
    assert _placed(caught.value) == text


def test_no_limits() -> None:
    with raises("finfo: int32 is no float dtype.\n  at <the line>\n  help: use dyn.numpy.iinfo."):
        dnp.finfo(dnp.int32)
    with raises("iinfo: float32 is no integer dtype.\n  at <the line>\n  help: use dyn.numpy.finfo."):
        dnp.iinfo(dnp.float32)
    with raises("result_type of nothing.\n  at <the line>\n  help: give an array or a dtype."):
        dnp.result_type()


@pytest.mark.parametrize(
    ("n", "prepend", "append"), [(1, 0, None), (1, None, [5.0]), (2, [1.0, 2.0], 3), (3, [4.0], [1.0, 1.0])]
)
def test_differences(n: int, prepend: Any, append: Any) -> None:
    def edge(value: Any) -> Any:
        return np.array(value) if isinstance(value, list) else value

    x = np.array([1.0, 4.0, 9.0, 7.0])
    ours = dyn.jit(lambda x: dnp.diff(x, n=n, prepend=edge(prepend), append=edge(append)))
    for size in (1, 2, 4):
        more = {k: edge(v) for k, v in (("prepend", prepend), ("append", append)) if v is not None}
        np.testing.assert_array_equal(ours(x[:size]), np.diff(x[:size], n=n, **more))
    assert ours.cache_info().compiles == 1
