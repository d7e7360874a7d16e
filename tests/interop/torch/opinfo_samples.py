"""PyTorch's samples of its operators (``op_db``), each run by PyTorch, run on dyn, and compared."""

from __future__ import annotations

import random
import unittest.mock
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map

import dyn.interop.torch as dyn_torch
from dyn.errors import DynError, NotYetError, UnsupportedOpError

#: The ways to run an operator on dyn: its results, and their gradients too. Dynamo is asked for a tenth of the
#: operators, always the same ones.
STAGES = ("forward", "gradient", "dynamo")
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool")
_DYNAMO_SHARE = 10

#: Kinds of outcomes: as PyTorch has it; what of the results is not; no results, since a converter is missing, dyn says
#: that it has not that, or something else was raised; PyTorch itself raises.
PASSED, REFUSED_BY_PYTORCH = "passed", "eager refuses"
WRONG = ("values", "dtype", "shape", "strides", "tree")
FALLBACK = ("no converter", "refused")
KINDS = (PASSED, *WRONG, *FALLBACK, "failed", "crashed", "hung", REFUSED_BY_PYTORCH)

#: Operators whose results have elements that nobody has written. Random ones are told by running them twice.
UNWRITTEN = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip
#: One is not enough: what dropout takes may be no more than zeros.
_SEEDS = (1, 2, 3, 4)
#: PyTorch has the equal ones of many elements, as they are in dtypes of few numbers, in an order of its own.
_UNSTABLE = {(name, dtype) for name in ("sort", "argsort") for dtype in ("bool", "bfloat16")}
#: In the place of tolerances: bit for bit.
_EXACT = (-1.0, -1.0)
#: The tests of PyTorch's that compare one way to compute an operator with another; their tolerances are ours.
_TESTS = {
    None, "TestCommon", "TestConsistency", "TestDecomp", "TestEagerFusionOpInfo", "TestInductorOpInfo",
    "TestUnaryUfuncs",
}  # fmt: skip


@lru_cache(maxsize=1)
def operators() -> dict[str, Any]:
    """The OpInfos by their names: ``div``'s variants are ``div_floor_rounding`` and others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

        return {info.formatted_name: info for info in op_db}


@lru_cache(maxsize=1)
def core_operators() -> frozenset[str]:
    """The names of the ATen operations that PyTorch calls core."""
    names: set[str] = set()
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten":
            found = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if found is not None and torch.Tag.core in found.tags:
                names.add(packet)
    return frozenset(names)


def is_for_dynamo(name: str) -> bool:
    """Whether an operator is of the tenth that Dynamo is asked for."""
    return zlib.crc32(name.encode()) % _DYNAMO_SHARE == 0


@lru_cache(maxsize=2)
def samples(name: str, dtype: str, stage: str = "forward") -> list[Any]:
    """The samples of an operator, always the same ones; none of a dtype that it does not take or differentiate."""
    info, asks_gradients = operators()[name], stage == "gradient"
    if getattr(torch, dtype) not in (info.backward_dtypes if asks_gradients else info.dtypes):
        return []
    if asks_gradients and not info.supports_autograd:
        return []
    _seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=asks_gradients))


def _seed(number: int) -> None:
    torch.default_generator.manual_seed(number)  # torch.manual_seed may be taken away from operators
    np.random.seed(number)
    random.seed(number)


def compiled(name: str, stage: str) -> Callable[..., Any]:
    """An operator that dyn compiles, for all of its samples."""
    function = operators()[name].op

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    if stage != "dynamo":
        return dyn_torch.jit(call, strict=True)
    torch._dynamo.reset()
    return torch.compile(call, backend="dyn", dynamic=True, options={"strict": True})


def outcome(
    name: str, dtype: str, number: int, function: Callable[..., Any], stage: str = "forward"
) -> tuple[str, str]:
    """The kind of a sample's outcome, and why, where ``function`` is what dyn compiles."""
    info, sample = operators()[name], samples(name, dtype, stage)[number]
    call = ((sample.input, *sample.args), sample.kwargs)
    what = _DETERMINED.get(info.aten_name, lambda results: results)
    of = sample.output_process_fn_grad
    try:
        wanted = _ran(info.op, call, 0, of)
        with unittest.mock.patch.object(torch, "manual_seed"):  # some operators seed themselves
            is_determined = (
                name not in UNWRITTEN
                and (name, dtype) not in _UNSTABLE
                and all(compared(wanted, _ran(info.op, call, seed, of), _EXACT) is None for seed in _SEEDS)
            )
    except Exception as error:
        return REFUSED_BY_PYTORCH, f"{type(error).__name__}: {_line(str(error))}"
    try:
        found = _ran(function, call, 0, of)  # with the same cotangents
    except Exception as error:
        return _refusal(error)
    difference = compared(wanted, found, None)
    if difference is None and is_determined:
        wanted, found = (((what(results)), *rest) for results, *rest in (wanted, found))
        allowed = tolerance(info, getattr(torch, dtype))
        difference = compared(wanted, found, allowed)
        if difference is not None and _is_as_near(info, call, wanted, found, allowed, of):
            difference = None
    return difference or (PASSED, "")


def _is_as_near(
    info: Any, call: Any, wanted: Any, found: Any, allowed: tuple[float, float], of: Callable[[Any], Any]
) -> bool:
    """Whether results are as near to those of float64 as PyTorch's are, where these are further off than tolerances.

    As near is within four times their greatest error, of each result: sums have other orders.
    """
    try:
        exact, *rest = _ran(info.op, tree_map(_in_float64, call), 0, of)
    except Exception:
        return False
    what = _DETERMINED.get(info.aten_name, lambda results: results)
    for a, b, true in zip(*[tree_flatten(one)[0] for one in (wanted, found, (what(exact), *rest))], strict=True):
        if compared(a, b, allowed) is None:
            continue
        if not (isinstance(a, torch.Tensor) and a.dtype.is_floating_point and true.dtype is torch.float64):
            return False
        own, theirs = ((one.double() - true).abs() for one in (b, a))
        if not torch.equal(b.isfinite(), a.isfinite()) or own.nan_to_num().max() > 4 * theirs.nan_to_num().max():
            return False
    return True


def _in_float64(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def _of_eigenvectors(results: Any) -> Any:
    """Eigenvalues, and of each vector its product with itself: it may be turned by any number of size 1."""
    values, vectors = results
    return values, vectors[..., :, None, :] * vectors[..., None, :, :].conj()


def _of_svd(results: Any) -> Any:
    u, s, v = results
    columns = s.shape[-1]
    return (u[..., :columns] * s[..., None, :]) @ v[..., :columns, :], s


#: What is determined of the results of operators whose factors are not: their products.
_DETERMINED: dict[str, Callable[[Any], Any]] = {
    "linalg_svd": _of_svd,
    "svd": lambda results: _of_svd((*results[:2], results[2].mH)),
    # Of equal elements any may be the one whose place it is.
    "mode": lambda results: results[0],
    "kthvalue": lambda results: results[0],
    "topk": lambda results: results[0],
    "linalg_eig": _of_eigenvectors,
    "linalg_eigh": lambda results: (results[0], (results[1] * results[0][..., None, :]) @ results[1].mH),
}


def _ran(function: Callable[..., Any], call: Any, seed: int, of: Callable[[Any], Any] = lambda results: results) -> Any:
    """The results of a call, and the arguments afterwards: operations in place write there.

    Gradients are those ``of`` the results: PyTorch's samples say what of them is determined, as signs of singular
    vectors are not.
    """
    args, kwargs = tree_map(_copied, call)
    inputs = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    _seed(seed)
    with torch.set_grad_enabled(bool(inputs)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = function(*args, **kwargs)
        gradients = _gradients(of(results) if inputs else results, inputs)
    return _detached(results), args, kwargs, gradients


def _gradients(results: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """The gradients of results by the inputs that require them, for cotangents that are always the same."""
    outputs = [leaf for leaf in tree_flatten(results)[0] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not inputs or not outputs:
        return ()
    generator = torch.Generator().manual_seed(7)
    # Of float64 those of float32: what is exact is found with the same ones.
    drawn = [torch.complex64 if one.is_complex() else torch.float32 for one in outputs]
    cotangents = [
        torch.randn(x.shape, generator=generator, dtype=d).to(x.dtype) for x, d in zip(outputs, drawn, strict=True)
    ]
    made = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
    return [None if one is None else one.contiguous() for one in made]  # gradients may lie as they like


def _detached(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, value)


def _copied(value: Any) -> Any:
    """A tensor with the same elements and strides and memory of its own; others as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return value.detach().clone().requires_grad_(value.requires_grad)
    storage = value.untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype)
    made.set_(storage, value.storage_offset(), value.shape, value.stride())
    return made.requires_grad_(value.requires_grad)


def _refusal(error: BaseException) -> tuple[str, str]:
    """The outcome of an error. Dynamo raises its own, with dyn's as the cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, DynError):
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    if cause is None:
        return "failed", f"{type(error).__name__}: {_line(str(error))}"
    problem = _line(cause.problem)
    if isinstance(cause, NotYetError) and problem.endswith(" has no converter."):
        return "no converter", problem.removesuffix(" has no converter.")
    if isinstance(cause, NotYetError | UnsupportedOpError):
        return "refused", problem
    return "failed", f"{type(cause).__name__}: {problem}"


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def tolerance(info: Any, dtype: torch.dtype) -> tuple[float, float]:
    """The relative and absolute tolerances of an OpInfo on the CPU: PyTorch's own of the dtype, or larger ones."""
    from torch.testing._internal.common_device_type import toleranceOverride

    relative, absolute = torch.testing._comparison.default_tolerances(dtype)
    for decorator in info.decorators:
        is_for_us = getattr(decorator, "cls_name", None) in _TESTS and getattr(decorator, "device_type", None) != "cuda"
        for own in getattr(decorator, "decorators", [decorator]):
            if is_for_us and isinstance(own, toleranceOverride) and dtype in own.d:
                relative, absolute = max(relative, own.d[dtype].rtol), max(absolute, own.d[dtype].atol)
    return relative, absolute


def compared(wanted: Any, found: Any, allowed: tuple[float, float] | None) -> tuple[str, str] | None:
    """What is not as it should be, and how; None where all is. Elements are not looked at without tolerances."""
    leaves, tree = tree_flatten(wanted)
    given, its = tree_flatten(found)
    if tree != its:
        return "tree", f"{_line(str(its))} for {_line(str(tree))}"
    differences = [_difference(a, b, allowed) for a, b in zip(leaves, given, strict=True)]
    # The gravest one, of several results.
    return min([d for d in differences if d is not None], key=lambda d: WRONG.index(d[0]), default=None)


def _difference(a: Any, b: Any, allowed: tuple[float, float] | None) -> tuple[str, str] | None:
    if not isinstance(a, torch.Tensor):
        return None if a is b or (type(a), str(a)) == (type(b), str(b)) else ("values", f"{b!r} for {a!r}"[:200])
    if not isinstance(b, torch.Tensor) or a.layout is not b.layout:
        return "tree", f"{type(b).__name__} for {type(a).__name__}"
    for what in ("dtype", "shape"):
        if getattr(a, what) != getattr(b, what):
            return what, f"{getattr(b, what)} for {getattr(a, what)}"
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if allowed is not None:
        try:
            relative, absolute = _of_results(allowed, a.dtype)
            torch.testing.assert_close(b, a, rtol=relative, atol=absolute, equal_nan=True)
        except AssertionError as error:
            return "values", _line(str(error))
    if a.numel() and _strides(a) != _strides(b):
        return "strides", f"{b.stride()} for {a.stride()}, of {tuple(a.shape)}"
    return None


def _of_results(allowed: tuple[float, float], dtype: torch.dtype) -> tuple[float, float]:
    """Tolerances of results, which may have another dtype than the sample: the larger ones."""
    if allowed == _EXACT or not (dtype.is_floating_point or dtype.is_complex):
        return 0.0, 0.0
    relative, absolute = torch.testing._comparison.default_tolerances(dtype)
    return max(relative, allowed[0]), max(absolute, allowed[1])


def _strides(tensor: torch.Tensor) -> Sequence[int]:
    """The strides that say where elements are: an axis of size 1 has any."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
