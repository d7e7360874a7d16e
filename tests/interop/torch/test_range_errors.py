"""Indices and counts that an axis does not have: errors of PyTorch's, and of compiled functions too."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F

import dyn
import dyn.interop.torch as dyn_torch
from dyn.errors import OutOfRangeError

Case = tuple[Callable[..., Any], list[int], list[int]]


def at(*places: int) -> Any:
    return torch.tensor(places, dtype=torch.int64)


def rows(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of a matrix and one index for each of some rows."""
    return lambda x, k: function(x, k[:, None])


#: Functions of a 3 × 4 tensor and indices, indices that are out of range, and others that are not.
INDEXED: dict[str, Case] = {
    "gather": (rows(lambda x, k: x.gather(1, k)), [1, 4], [3, 0]),
    "gather, negative": (rows(lambda x, k: x.gather(1, k)), [-1], [3]),
    "index_select": (lambda x, k: x.index_select(0, k), [0, 3], [0, 2]),
    "index_select, negative": (lambda x, k: x.index_select(0, k), [-1], [0]),
    "take": (lambda x, k: x.take(k), [12], [-12, 11]),
    "take, negative": (lambda x, k: x.take(k), [0, -13], []),
    "index": (lambda x, k: x[k], [3], [-3, 2]),
    "index, negative": (lambda x, k: x[k], [0, -4], [0]),
    "index of the second axis": (lambda x, k: x[:, k], [1, 4], [3, -4]),
    "index by two": (lambda x, k: x[k, k], [2, 3], [2, -3]),
    "index_put": (lambda x, k: torch.index_put(x, (k,), torch.tensor(1.0)), [3], [2]),
    "index_add": (lambda x, k: x.index_add(0, k, x[: k.shape[0]]), [4], [0]),
    "index_copy": (lambda x, k: x.index_copy(0, k, x[: k.shape[0]]), [4], [0]),
    "index_fill": (lambda x, k: x.index_fill(0, k, 1.0), [-4], [-3]),
    "index_reduce": (lambda x, k: x.index_reduce(0, k, x[: k.shape[0]], "prod"), [4], [0]),
    "put": (lambda x, k: x.put(k, x.view(-1)[: k.shape[0]]), [12], [-12]),
    "scatter": (rows(lambda x, k: x.scatter(1, k, 1.0)), [4], [3]),
    "scatter, negative": (rows(lambda x, k: x.scatter(1, k, 1.0)), [-1], [3]),
    "scatter_add": (rows(lambda x, k: x.scatter_add(1, k, x)), [0, 4], [0, 3]),
    "scatter_reduce": (rows(lambda x, k: x.scatter_reduce(1, k, x, "sum")), [4], [3]),
    "embedding": (lambda x, k: F.embedding(k, x), [3], [2]),
    "embedding, negative": (lambda x, k: F.embedding(k, x), [-1], [2]),
    "embedding with padding": (lambda x, k: F.embedding(k, x, padding_idx=1), [1, 7], [1]),
    "embedding_bag": (lambda x, k: F.embedding_bag(k, x, torch.zeros(1, dtype=torch.int64)), [1, 9], [1, 2]),
    "nll_loss": (lambda x, k: F.nll_loss(x[: k.shape[0]], k), [0, 9], [0, -100]),
    "cross_entropy": (lambda x, k: F.cross_entropy(x[: k.shape[0]], k), [-1, 2], [3, 2]),
}  # fmt: skip


def error_of(function: Callable[..., Any], *args: Any) -> Exception:
    with pytest.raises((IndexError, RuntimeError)) as caught:
        function(*args)
    return caught.value


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize("name", INDEXED)
def test_indices_that_tensors_hold(name: str) -> None:
    function, wrong, right = INDEXED[name]
    x = torch.arange(12.0).reshape(3, 4)
    compiled = dyn_torch.jit(function, strict=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, at(*right)), function(x, at(*right)))
        error = error_of(compiled, x, at(*wrong))
        assert isinstance(error, type(error_of(function, x, at(*wrong))))
        assert isinstance(error, OutOfRangeError)
        assert f"index {next(k for k in wrong if k not in range(3))} is out of" in str(error)
        torch.testing.assert_close(compiled(x, at()), function(x, at()), equal_nan=True)
    assert compiled.cache_info().compiles == 1


#: Functions of a 3 × 4 tensor that refuse it, and take a 5 × 6 one.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "select": lambda x: x.select(0, 4),
    "select, negative": lambda x: x[-5],
    "narrow": lambda x: x.narrow(0, 1, 4),
    "topk": lambda x: x.topk(5)[0],
    "topk of a size": lambda x: x.topk(8 - x.shape[0])[0],
    "kthvalue": lambda x: x.kthvalue(5)[0],
    "cross": lambda x: torch.linalg.cross(x[:, 3:], x[:, 3:]),
    "max_pool": lambda x: F.max_pool2d(x[None], 5),
    "scatter of more rows": lambda x: x.scatter(1, torch.zeros(5, 1, dtype=torch.long), 1.0),
    "masked_scatter": lambda x: (
        x.masked_scatter(x > 100, torch.ones(0)) if x.shape[0] == 5 else x.masked_scatter(x >= 0, torch.ones(11))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_counts_that_an_axis_does_not_have(name: str) -> None:
    function = REFUSED[name]
    compiled = dyn_torch.jit(function, strict=True)
    small, large = torch.arange(12.0).reshape(3, 4), torch.arange(30.0).reshape(5, 6)
    for x in (small, large, small):
        if x is small:
            assert isinstance(error_of(compiled, x), type(error_of(function, x)))
        else:
            torch.testing.assert_close(compiled(x), function(x))


def test_the_text_names_operation_axis_and_index() -> None:
    gather = dyn_torch.jit(lambda x, k: x.gather(1, k))
    error = error_of(gather, torch.zeros(3, 4), torch.tensor([[1, -7]]))
    assert isinstance(error, OutOfRangeError)
    assert error.problem == "gather(): index -7 is out of bounds for dimension 1 with size 4."
    assert error.remedy == "use an index that the axis has."
    assert error.loc is not None
    assert "x.gather(1, k)" in error.loc.code


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("far", [2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_indices_as_far_off_as_can_be(dtype: torch.dtype, far: int) -> None:
    if not torch.iinfo(dtype).min <= far <= torch.iinfo(dtype).max:
        return
    index, select = dyn_torch.jit(lambda x, k: x[k]), dyn_torch.jit(lambda x, k: x.index_select(0, k))
    x, k = torch.arange(5.0), torch.tensor([2, far, -1 if far > 0 else 1], dtype=dtype)
    for function in (index, select):
        with pytest.raises(IndexError):
            function(x, k)


def test_nothing_is_taken_of_nothing() -> None:
    index, none = dyn_torch.jit(lambda x, k: (x[k], x.index_select(0, k))), torch.zeros(0, 3)
    assert [one.shape for one in index(none, at())] == [(0, 3), (0, 3)]
    with pytest.raises(IndexError, match="an index is of an axis that has elements"):
        index(none, at(0))


def test_a_call_that_is_refused_writes_nothing() -> None:
    def write(x: Any, k: Any) -> Any:
        x.add_(1)
        x[k] = 5.0
        return x.sum()

    compiled, x = dyn_torch.jit(write), torch.zeros(4)
    with pytest.raises(IndexError):
        compiled(x, at(1, 4))
    assert x.tolist() == [0, 0, 0, 0]
    assert compiled(x, at(1, -1)) == 12
    assert x.tolist() == [1, 5, 1, 5]


def test_branches_and_loops_check_their_own_indices() -> None:
    from torch._higher_order_ops.scan import scan

    def chosen(flag: Any, x: Any, k: Any) -> Any:
        return torch.cond(flag, lambda x, k: x[k] * 2, lambda x, k: x[k * 0] + 1, (x, k))

    def looped(x: Any, k: Any) -> Any:
        return scan(lambda c, one: (c + x[one], c + 0), torch.zeros(()), k)[0]

    x = torch.arange(4.0)
    compiled = dyn_torch.jit(chosen, strict=True)
    with torch.no_grad():
        assert compiled(torch.tensor(False), x, at(9, 1)).tolist() == [1, 1]
        assert compiled(torch.tensor(True), x, at(3, 1)).tolist() == [6, 2]
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            compiled(torch.tensor(True), x, at(9, 1))
        loop = dyn_torch.jit(looped, strict=True)
        assert loop(x, at(3, 1, -1)) == 7
        with pytest.raises(IndexError, match="is inside of axis 0"):  # of a number in Python's hands
            loop(x, at(3, 4, 1))


def test_gradients_check_indices_once() -> None:
    def f(x: Any, k: Any) -> Any:
        return (x[k] ** 2).sum() + x.gather(0, k[:, None]).sum() + x.take(k).sum()

    compiled, x = dyn_torch.jit(f, strict=True), torch.arange(6.0).reshape(3, 2).requires_grad_()
    (wanted,) = torch.autograd.grad(f(x, at(2, 0, 2)), x)
    (found,) = torch.autograd.grad(compiled(x, at(2, 0, 2)), x)
    torch.testing.assert_close(found, wanted)
    with pytest.raises(IndexError):
        compiled(x, at(3))


def test_places_that_are_known_to_be_there_are_not_checked() -> None:
    def sorted_rows(x: Any) -> Any:
        order = x.argsort(1)
        return x.gather(1, order), x[torch.arange(x.shape[0])]

    compiled = dyn_torch.jit(sorted_rows, strict=True)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), sorted_rows(x))
    assert "measure" not in str(compiled.explain())


def test_dyns_own_indices_are_index_errors_too() -> None:
    import numpy as np

    first = dyn.jit(lambda x: x[3])
    with pytest.raises(IndexError):
        first(np.zeros(3))
    assert first(np.arange(4.0)) == 3


#: Functions of a matrix and indices, which are clamped to those that there are.
CLAMPED: dict[str, Callable[[Any, Any], Any]] = {
    "by sizes": lambda x, k: x[k.clamp(0, x.shape[0] - 1)],
    "by sizes, the other way round": lambda x, k: x[k.clamp(max=x.shape[0] - 1).clamp(min=0)],
    "from the end": lambda x, k: x[k.clamp(-x.shape[0], x.shape[0] - 1)],
    "of another axis": lambda x, k: x[:, k.clamp(0, x.shape[1] - 1)],
    "by less than there are": lambda x, k: x[k.clamp(0, x.shape[0] // 2)],
    "in rows": lambda x, k: x.gather(1, k.clamp(0, x.shape[1] - 1)[None].expand(x.shape[0], -1)),
    "to one": lambda x, k: F.embedding(k.clamp(0, 0), x),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAMPED)
def test_clamped_indices_need_no_pass(name: str) -> None:
    function = CLAMPED[name]
    compiled = dyn_torch.jit(function, strict=True)
    for rows_, columns, places in ((3, 4, [9, -7, 1]), (1, 1, [-1, 2**40]), (5, 2, []), (2, 7, [0])):
        x = torch.randn(rows_, columns)
        torch.testing.assert_close(compiled(x, at(*places)), function(x, at(*places)))
    assert compiled.cache_info().compiles == 1
    assert "greatest index" not in str(compiled.explain())
    # Where there is nothing to clamp to, no index is one.
    for rows_, columns in ((0, 4), (3, 0), (0, 0)):
        x = torch.randn(rows_, columns)
        outcomes: list[Any] = []
        for run in (function, compiled):
            try:
                outcomes.append(run(x, at(1, 2)).shape)
            except IndexError:
                outcomes.append(IndexError)
            except RuntimeError:
                outcomes.append(IndexError)
        assert outcomes[0] == outcomes[1]


def test_what_is_clamped_to_more_than_there_is_is_looked_at() -> None:
    def f(x: Any, k: Any) -> Any:
        return x[k.clamp(0, x.shape[0])]

    compiled = dyn_torch.jit(f, strict=True)
    x = torch.randn(3, 2)
    torch.testing.assert_close(compiled(x, at(2, -5)), f(x, at(2, -5)))
    with pytest.raises(OutOfRangeError, match="index 3 is out of bounds for dimension 0 with size 3"):
        compiled(x, at(2, 5))
    with pytest.raises(OutOfRangeError):
        dyn_torch.jit(lambda x, k: x[k.clamp(max=x.shape[0] - 1)], strict=True)(x, at(-4))
    with pytest.raises(OutOfRangeError):
        dyn_torch.jit(lambda x, k: x[k.clamp(min=0)], strict=True)(x, at(3))


def test_bicubic_interpolation_looks_at_no_index() -> None:
    """Its positions are clamped. Those of bilinear interpolation are computed of fractions."""
    compiled = dyn_torch.jit(lambda x: F.interpolate(x, size=(4, 6), mode="bicubic"), strict=True)
    for height, width in ((3, 5), (1, 1), (8, 2)):
        x = torch.randn(1, 2, height, width)
        torch.testing.assert_close(compiled(x), F.interpolate(x, size=(4, 6), mode="bicubic"))
    assert "greatest index" not in str(compiled.explain())
    assert compiled.cache_info().compiles == 1


def test_reports_tell_indices_apart() -> None:
    """Each by a name of its own, and by the line that has it."""

    def f(x: Any, k: Any, m: Any) -> Any:
        first = x[k]
        second = x[m]
        return first, second, F.embedding(m, x)

    compiled = dyn_torch.jit(f, strict=True)
    compiled(torch.ones(5, 2), at(1, 2), at(0, 4))
    first = f.__code__.co_firstlineno + 1
    dims = [line.strip() for line in str(compiled.explain()).splitlines() if line.strip().startswith("index_")]
    dims = [line for line in dims if " = " in line]
    assert [line.partition(" = ")[0] for line in dims] == [
        "index_above", "index_below", "index_above_2", "index_below_2", "index_above_3", "index_below_3",
    ]  # fmt: skip
    lines = [first, first, first + 1, first + 1, first + 2, first + 2]
    for line, number in zip(dims, lines, strict=True):
        what = "1 + the greatest" if "above" in line else "minus the least"
        assert f" = {what} index at test_range_errors.py:{number}" in line


#: What goes wrong: while a function is traced, at a call, in a layer that the caller sees only PyTorch's code of.
FAILING: dict[str, Callable[[], Any]] = {
    "shapes, at the first call": lambda: dyn_torch.jit(lambda x: x @ x[:, :2])(torch.ones(3, 4)),
    "shapes, at a call": lambda: dyn_torch.jit(torch.add)(torch.ones(3), torch.ones(4)),
    "shapes, in layers": lambda: dyn_torch.jit(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(5, 4)))(
        torch.ones(2, 3)
    ),
    "an axis": lambda: dyn_torch.jit(lambda x: x.sum(3))(torch.ones(3)),
    "an index": lambda: dyn_torch.jit(lambda x, k: x[k])(torch.ones(3), at(7)),
    "no converter": lambda: dyn_torch.jit(lambda x: torch.special.airy_ai(x) + 1, strict=True)(torch.ones(3)),
    "an index, by torch.compile": lambda: torch.compile(lambda x, k: x[k], backend="dyn")(torch.ones(3), at(7)),
    "an error of the user's": lambda: dyn_torch.jit(lambda x: x / {}["a"])(torch.ones(3)),
}


@pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")
@pytest.mark.parametrize("name", FAILING)
def test_tracebacks_end_in_the_users_code(name: str) -> None:
    def files() -> list[str]:
        with pytest.raises((dyn.errors.DynError, IndexError, KeyError)) as caught:
            FAILING[name]()
        return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]

    shown = files()
    own = str(Path(dyn.__file__).parent)
    assert not [file for file in shown if file.startswith(own)]
    if "torch.compile" not in name:  # whose wrapper PyTorch shows itself
        assert shown[-1] == __file__
    with dyn.config.override(full_tracebacks=True):
        assert [file for file in files() if file.startswith(own)]
