"""Elements that operations have no result for: errors of PyTorch's, and of compiled functions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.errors import DomainError  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch

Arguments = tuple[Any, ...]


def ints(*numbers: int, dtype: Any = torch.int64) -> Any:
    return torch.tensor(numbers, dtype=dtype)


EYE, SINGULAR = torch.eye(3), torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
NEGATIVE = torch.diag(torch.tensor([1.0, -1.0, 2.0]))


def stacked(*matrices: Any) -> Any:
    return torch.stack(matrices) if matrices else torch.zeros(0, 3, 3)


def truncated(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="trunc")


def floored(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="floor")


#: Functions, arguments that they refuse, and others of the same ranks that they take, empty ones among them.
CASES: dict[str, tuple[Callable[..., Any], list[Arguments], list[Arguments]]] = {
    name: (
        function,
        [(ints(4, -7), ints(2, 0)), (ints(4, -7, 1), ints(0))],
        [(ints(4, -7), ints(2, -2)), (ints(), ints(0)), (ints(5), ints(3)), (ints(5, 7), ints(3))],
    )
    for name, function in {
        "floor_divide": torch.floor_divide, "remainder": torch.remainder, "fmod": torch.fmod,
        "div, floor": floored, "div, trunc": truncated, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    }.items()
}  # fmt: skip
CASES |= {
    "division in place": (
        lambda a, b: a.clone().floor_divide_(b), [(ints(1, 2), ints(1, 0))], [(ints(1, 2), ints(1, 3))],
    ),
    "bytes": (
        lambda a, b: a % b, [(ints(1, dtype=torch.uint8), ints(0, dtype=torch.uint8))],
        [(ints(7, dtype=torch.uint8), ints(4, dtype=torch.uint8))],
    ),
    "a number over": (lambda b: 7 // b, [(ints(2, 0),)], [(ints(2, 3),), (ints(),)]),
    "over a number": (lambda a: a // 0, [(ints(2),), (ints(1, 2, 3),)], [(ints(),)]),
    "powers": (lambda a: a**-1, [(ints(2, 3),), (ints(),)], []),
    "powers by a tensor": (torch.pow, [], [(ints(2, 1, -1, 0), ints(-1, -1, -3, 2)), (ints(3), ints(2))]),
    "inv": (torch.linalg.inv, [(SINGULAR,)], [(EYE,)]),
    "inv of a stack": (torch.linalg.inv, [(stacked(EYE, SINGULAR),)], [(stacked(EYE, 2 * EYE),), (stacked(),)]),
    "inverse": (torch.inverse, [(stacked(SINGULAR, EYE),)], [(stacked(EYE),)]),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, -2), [(SINGULAR,)], [(EYE,)]),
    "solve": (
        torch.linalg.solve, [(stacked(EYE, SINGULAR), torch.ones(2, 3, 1))],
        [(stacked(EYE, NEGATIVE), torch.ones(2, 3, 1)), (stacked(), torch.ones(0, 3, 1))],
    ),
    "cholesky": (torch.linalg.cholesky, [(NEGATIVE,)], [(EYE,)]),
    "cholesky of a stack": (torch.linalg.cholesky, [(stacked(EYE, NEGATIVE),)], [(stacked(EYE),), (stacked(),)]),
    "lu_factor": (torch.linalg.lu_factor, [(SINGULAR,)], [(EYE,)]),
    "cholesky_inverse": (torch.cholesky_inverse, [(torch.zeros(3, 3),)], [(EYE,)]),
    "multinomial": (
        lambda p: torch.multinomial(p, 1),
        [(torch.tensor(p),) for p in ([0.5, -1.0], [0.5, float("nan")], [1.0, float("inf")], [0.0, 0.0])],
        [(torch.tensor([0.0, 2.0]),)],
    ),
    "multinomial of rows": (
        lambda p: torch.multinomial(p, 2, replacement=True), [(torch.tensor([[1.0, 0.0], [0.0, 0.0]]),)],
        [(torch.tensor([[1.0, 0.0], [0.0, 3.0]]),), (torch.zeros(0, 2),)],
    ),
    "poisson": (torch.poisson, [(torch.tensor([0.0, -1.0]),)], [(torch.zeros(2),), (torch.zeros(0),)]),
    "bernoulli": (torch.bernoulli, [(torch.tensor([0.0, 1.5]),)], [(torch.tensor([0.0, 1.0]),)]),
    "normal": (
        torch.normal, [(torch.zeros(2), torch.tensor([0.0, -1.0]))], [(torch.ones(2), torch.zeros(2))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_elements_without_a_result(name: str) -> None:
    function, wrong, right = CASES[name]
    compiled = dyn_torch.jit(function, strict=True)
    for _ in range(2):
        for arguments in right:
            same(function(*arguments), compiled(*arguments), 1e-4, in_strides=False)
        for arguments in wrong:
            with pytest.raises(RuntimeError) as theirs:
                function(*arguments)
            with pytest.raises(DomainError) as ours:
                compiled(*arguments)
            assert isinstance(ours.value, type(theirs.value))
    assert compiled.cache_info().compiles == 1


def test_nothing_is_written_before() -> None:
    @dyn_torch.jit(strict=True)
    def step(a: Any, b: Any) -> Any:
        a += 1
        return a // b

    a = ints(1, 2)
    with pytest.raises(DomainError):
        step(a, ints(1, 0))
    assert a.tolist() == [1, 2]
    assert step(a, ints(1, 1)).tolist() == [2, 3]
    assert a.tolist() == [2, 3]


def test_the_text_is_pytorchs_and_names_the_line() -> None:
    invert = dyn_torch.jit(lambda a: torch.linalg.inv(a) * 2, strict=True)
    with pytest.raises(torch.linalg.LinAlgError) as caught:
        invert(stacked(EYE, SINGULAR))
    error: Any = caught.value
    with pytest.raises(torch.linalg.LinAlgError) as theirs:
        torch.linalg.inv(stacked(EYE, SINGULAR))
    assert error.problem == str(theirs.value)
    assert (
        error.remedy
        == "pass other matrices, or look at the info that torch.linalg's functions of the name with _ex return."
    )
    assert error.loc is not None
    assert "torch.linalg.inv(a)" in error.loc.code


def test_info_says_so_where_it_is_asked_for() -> None:
    compiled = dyn_torch.jit(lambda a: torch.linalg.inv_ex(a)[1], strict=True)
    matrices = stacked(EYE, SINGULAR)
    same(torch.linalg.inv_ex(matrices)[1], compiled(matrices))
    checked = dyn_torch.jit(lambda a: torch.linalg.inv_ex(a, check_errors=True), strict=True)
    with pytest.raises(torch.linalg.LinAlgError):
        checked(matrices)


@pytest.mark.filterwarnings("ignore::dyn.interop.torch.FallbackWarning")
def test_in_graphs_of_torch_compile_and_in_branches() -> None:
    compiled = torch.compile(lambda a, b: a // b, backend="dyn", dynamic=True, options={"strict": True})
    assert compiled(ints(5, 7), ints(2, 3)).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(ints(5, 7), ints(2, 0))
    branching = dyn_torch.jit(
        lambda p, a, b: torch.cond(p, lambda a, b: a // b, lambda a, b: a + b, (a, b)), strict=True
    )
    assert branching(torch.tensor(False), ints(5, 7), ints(2, 0)).tolist() == [7, 7]
    with pytest.raises(DomainError):
        branching(torch.tensor(True), ints(5, 7), ints(2, 0))
