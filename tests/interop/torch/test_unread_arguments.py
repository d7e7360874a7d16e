"""Every argument of every operation's schema is read by its converter, or known to change no result.

A converter that takes an argument and passes it over gives a wrong result without a word. Which it reads is looked up
in its source: the name of a parameter stands in its body. What it does not read has a mark here, with calls of the
operation of PyTorch's at two values, which give the same.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.interop.torch import converters  # noqa: E402
from tests.interop.torch.test_schemas import is_random  # noqa: E402

_ = dyn_torch  # fills the tables

#: Arguments that say where a result lies, and are read by the program's device or by the order of its axes.
PLACES = {"device", "layout", "pin_memory", "non_blocking", "memory_format", "generator", "requires_grad"}


@functools.cache
def names_read(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names that a function's body reads; None where it has no source of its own."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    made = next((one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.Lambda)), None)
    if made is None:
        return None
    body = made.body if isinstance(made.body, list) else [made.body]
    return frozenset(
        [
            one.id
            for part in body
            for one in ast.walk(part)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
        ]
    )


def unread(operation: Any, function: Callable[..., Any]) -> Iterator[str]:
    """The names of the schema's arguments that a function does not read."""
    function = inspect.unwrap(function)
    read = names_read(function)
    if read is None:
        return
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("tracing", "key"):
        parameters = parameters[1:]
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    rest = next((one for one in parameters if one.kind is one.VAR_POSITIONAL), None)
    by_name = {one.name: one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    named = next((one for one in parameters if one.kind is one.VAR_KEYWORD), None)
    arguments = [one for one in operation._schema.arguments if not (is_random(operation) and one.name == "generator")]
    for place, argument in enumerate(arguments):
        if argument.kwarg_only:
            found = by_name.get(argument.name, named)
        else:
            found = positional[place] if place < len(positional) else by_name.get(argument.name, rest)
        if (found is None or found.name not in read) and argument.name not in PLACES:
            yield argument.name


def rows() -> dict[tuple[str, str], Any]:
    tables = [(op, one.run) for op, one in converters.CONVERTERS.items()]
    tables += [(op, one.read) for op, one in converters.VIEWS.items()]
    tables += list(converters.IN_PLACE.items())
    return {(str(op), name): op for op, function in tables if not isinstance(op, str) for name in unread(op, function)}


ATEN = torch.ops.aten
X = torch.arange(24.0).reshape(1, 2, 3, 4) + 1
ROWS = torch.randn(5, 3)
AT = torch.tensor([1, 0, 2, 1])
POOLED, PLACES_2D = ATEN.max_pool2d_with_indices(X, [2, 2], [1, 1])
POOLED_3D, PLACES_3D = ATEN.max_pool3d_with_indices(X, [1, 2, 2], [1, 1, 1])
SAMPLES_2D, SAMPLES_3D = torch.full((1, 2, 2), 0.5), torch.full((1, 1, 3), 0.5)

#: Two calls that differ in the value of an argument alone, by the operation and the argument.
Calls = tuple[Callable[[], Any], Callable[[], Any]]


def _two(call: Callable[[Any], Any], first: Any, second: Any) -> Calls:
    return functools.partial(call, first), functools.partial(call, second)


def _unpooled(stride: Any, padding: Any) -> Any:
    return ATEN.max_unpool3d(
        torch.ones(1, 1, 1, 2, 2), torch.arange(4).reshape(1, 1, 1, 2, 2), [1, 4, 4], stride, padding
    )


def _pool_gradient(rank: int, **changed: Any) -> Any:
    places, size = (PLACES_2D, [2, 2]) if rank == 2 else (PLACES_3D, [1, 2, 2])
    given = {
        "kernel_size": size,
        "stride": [1] * rank,
        "padding": [0] * rank,
        "dilation": [1] * rank,
        "ceil_mode": False,
    }
    backward = getattr(ATEN, f"max_pool{rank}d_with_indices_backward")
    return backward(torch.ones(places.shape), X, *(given | changed).values(), places)


def _of_pools(rank: int) -> dict[tuple[str, str], Calls]:
    name = f"aten.max_pool{rank}d_with_indices_backward.default"
    return {(name, "ceil_mode"): _two(lambda value: _pool_gradient(rank, ceil_mode=value), False, True)}


def _unsorted(made: Any) -> Any:
    """Results whose order is anybody's, in one order."""
    return torch.sort(made[0] if isinstance(made, tuple) else made).values


SCALES = 0.1 + torch.rand(ROWS.shape[1], generator=torch.Generator().manual_seed(0))
WITHOUT_EFFECT: dict[tuple[str, str], Calls] = {
    ("aten._fake_quantize_learnable_per_tensor_affine.default", "grad_factor"): _two(
        lambda v: ATEN._fake_quantize_learnable_per_tensor_affine(ROWS, SCALES[:1], SCALES[:1], -8, 7, v), 1.0, 0.5
    ),
    ("aten._fake_quantize_learnable_per_channel_affine.default", "grad_factor"): _two(
        lambda v: ATEN._fake_quantize_learnable_per_channel_affine(ROWS, SCALES, SCALES, 1, -8, 7, v), 1.0, 0.5
    ),
    ("aten.embedding.default", "padding_idx"): _two(lambda v: ATEN.embedding(ROWS, AT, v), -1, 1),
    ("aten.embedding.default", "scale_grad_by_freq"): _two(lambda v: ATEN.embedding(ROWS, AT, -1, v), False, True),
    ("aten.embedding.default", "sparse"): _two(lambda v: ATEN.embedding(ROWS, AT, -1, False, v), False, True),
    ("aten.gather.default", "sparse_grad"): _two(
        lambda v: ATEN.gather(ROWS, 0, AT[:, None], sparse_grad=v), False, True
    ),
    ("aten.sort.stable", "stable"): _two(lambda v: ATEN.sort.stable(AT, stable=v)[0], False, True),
    ("aten.segment_reduce.default", "unsafe"): _two(
        lambda v: ATEN.segment_reduce(ROWS, "sum", lengths=torch.tensor([2, 3]), unsafe=v), False, True
    ),
    ("aten._unique2.default", "sorted"): _two(lambda v: _unsorted(ATEN._unique2(AT, v)), False, True),
    ("aten.unique_dim.default", "sorted"): _two(lambda v: ATEN.unique_dim(AT, 0, v)[0], False, True),
    ("aten.unique_dim.default", "return_inverse"): _two(lambda v: ATEN.unique_dim(AT, 0, True, v)[0], False, True),
    ("aten.unique_dim.default", "return_counts"): _two(lambda v: ATEN.unique_dim(AT, 0, True, True, v)[0], False, True),
    ("aten._cdist_forward.default", "compute_mode"): _two(lambda v: ATEN._cdist_forward(ROWS, ROWS + 1, 2.0, v), 1, 2),
    ("aten.topk.default", "sorted"): _two(lambda v: _unsorted(ATEN.topk(ROWS[:, 0], 3, 0, True, v)), False, True),
    **{
        (f"aten.isin.{name}", "assume_unique"): _two(call, False, True)
        for name, call in {
            "Tensor_Tensor": lambda v: ATEN.isin(AT[:3], AT[:3] + 1, assume_unique=v),
            "Tensor_Scalar": lambda v: ATEN.isin(AT[:3], 1, assume_unique=v),
            "Scalar_Tensor": lambda v: ATEN.isin(1, AT[:3], assume_unique=v),
        }.items()
    },
    **_of_pools(2),
    **_of_pools(3),
    ("aten.max_unpool3d.default", "stride"): _two(lambda v: _unpooled(v, [0, 0, 0]), [1, 2, 2], [1, 3, 3]),
    ("aten.max_unpool3d.default", "padding"): _two(lambda v: _unpooled([1, 2, 2], v), [0, 0, 0], [0, 1, 1]),
    ("aten._index_put_impl.default", "unsafe"): _two(
        lambda v: ATEN._index_put_impl(ROWS, [AT[:2]], ROWS[0], False, v), False, True
    ),
    ("aten.expand.default", "implicit"): _two(lambda v: ATEN.expand(ROWS[:1], [4, 3], implicit=v), False, True),
}

#: What is read elsewhere, or is known from another argument wherever PyTorch calls the operation.
ELSEWHERE = {
    ("aten.empty_permuted.default", "physical_layout"): "the order of axes of the result is made of it",
    ("aten.empty_strided.default", "stride"): "the order of axes of the result is made of it",
    ("aten.new_empty_strided.default", "stride"): "the order of axes of the result is made of it",
    ("prims.copy_strided.default", "stride"): "the order of axes of the result is made of it",
    ("aten._reshape_alias.default", "stride"): "follows from the sizes: it is how PyTorch itself has found the view",
    (
        "aten._linalg_svd.default",
        "driver",
    ): "PyTorch refuses it on the CPU, and it chooses a library's routine elsewhere",
    ("aten.convolution_backward.default", "bias_sizes"): "the sizes of the cotangent's channels",
    ("aten._scaled_mm.default", "use_fast_accum"): "sums are kept in float32 either way",
    ("aten._segment_reduce_backward.default", "output"): "the derivative finds the result again",
    **{
        (f"aten.max_pool{rank}d_with_indices_backward.default", name): "the places of the maxima follow from it"
        for rank in (2, 3)
        for name in ("kernel_size", "stride", "padding", "dilation")
    },
    **{
        (f"aten._convolution.{name}", setting): "it chooses among a library's routines"
        for name, settings in (("default", ["allow_tf32"]), ("deprecated", []))
        for setting in ("benchmark", "deterministic", "cudnn_enabled", *settings)
    },
    **{
        (f"aten.fractional_max_pool{rank}d_backward.default", name): "the places of the maxima follow from it"
        for rank in (2, 3)
        for name in ("kernel_size", "output_size")
    },
}


def test_every_argument_is_read_or_marked() -> None:
    found = set(rows())
    assert sorted(found - WITHOUT_EFFECT.keys() - ELSEWHERE.keys()) == []
    assert sorted((WITHOUT_EFFECT.keys() | ELSEWHERE.keys()) - found) == [], "a mark of what is read, or is no more"


@pytest.mark.parametrize("name", WITHOUT_EFFECT, ids=str)
def test_what_is_marked_has_no_effect(name: tuple[str, str]) -> None:
    first, second = WITHOUT_EFFECT[name]
    torch.testing.assert_close(first(), second())
