"""Values of a host program that nobody has looked at yet: no code behind them may rely on one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import ShapeError
from dyn.lower.host import Fault
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import HostText
from dyn.pipeline import Optimized, compile_program, optimize
from dyn.shapes import Dim, Reason, Relation, RelKind, as_dim, broadcast, floordiv
from dyn.shapes import symbol as new_symbol

n_symbol, m_symbol = new_symbol("n", "x.shape[0]"), new_symbol("m", "x.shape[1]")
n, m = as_dim(n_symbol), as_dim(m_symbol)


def _sizes() -> SizeEmitter:
    sizes = SizeEmitter(HostText())
    sizes.know(n_symbol, "%n")
    sizes.know(m_symbol, "%m")
    sizes.refuse_nonsense()
    return sizes


def test_a_size_is_no_size_before_it_was_looked_at() -> None:
    sizes = _sizes()
    name = sizes.compute(n * m)
    assert sizes.compute(n * m) == name
    with pytest.raises(AssertionError) as caught:
        sizes.dim(n * m)
    assert str(caught.value) == "the size n*m has not been computed and looked at"
    sizes.refuse_nonsense()
    assert sizes.dim(n * m) == name
    assert sizes.text.faults == {Fault.TOO_LARGE}


def test_a_size_that_is_broadcast_may_have_no_value() -> None:
    """It is looked at after what a check says, which knows the operation."""
    sizes = _sizes()
    name = sizes.compute(broadcast(n, m))
    assert len(sizes.scope.conflicts) == 1
    sizes.refuse_nonsense([(3, "%failed")])
    assert sizes.dim(broadcast(n, m)) == name
    assert sizes.text.faults == {Fault.NO_VALUE}
    lines = "\n".join(sizes.text.lines)
    assert lines.index("%failed") < lines.index("label %no_value")


def test_a_demand_without_a_value_is_refused() -> None:
    """``broadcast(n, m) == n`` says nothing of a call whose sizes do not broadcast: it must not be taken to hold."""
    traced = dyn.jit(lambda x, y: (x + 1, y * 2)).trace(np.ones(2, "f4"), np.ones(3, "f4")).traced
    x, y = (v.shape[0] for v in traced.function.params)
    relation = Relation(RelKind.EQ, broadcast(x, y), x, Reason("a test says so"))
    facts = traced.function.facts.assume(relation)
    made = optimize(replace(traced, function=replace(traced.function, facts=facts)), host_target(), CompilationRecord())
    loaded = compile_program(made, [], X86Backend(host_target()), CompilationRecord())
    for good in ((3, 3), (3, 1), (0, 1), (1, 1)):
        first, second = loaded([np.ones(size, "f4") for size in good])
        assert (first.shape, second.shape) == ((good[0],), (good[1],))
    with pytest.raises(ShapeError, match=re.escape("sizes 3 and 8 cannot be broadcast together")):
        loaded([np.ones(3, "f4"), np.ones(8, "f4")])
    with pytest.raises(ShapeError, match="is required"):
        loaded([np.ones(1, "f4"), np.ones(8, "f4")])


def test_an_estimate_is_no_size() -> None:
    sizes = _sizes()
    dim = floordiv(n * m, 3)
    sizes.estimates([dim])
    estimated = sizes.scope.estimates[dim].name
    assert not sizes.scope.overflow
    assert not sizes.text.faults
    with pytest.raises(AssertionError):
        sizes.dim(dim)
    assert sizes.compute(dim) != estimated
    assert len(sizes.scope.overflow) == 1, "the product of the size itself has no flag"
    sizes.refuse_nonsense()
    assert sizes.dim(dim) != estimated
    sizes.estimates([dim])  # what was looked at is as good an estimate as any
    assert sizes.scope.estimates[dim].name == sizes.dim(dim)


def test_what_is_computed_in_a_scope_is_known_there_alone() -> None:
    sizes = _sizes()
    with sizes.within(sizes.scope.inner()):
        sizes.compute(n * m + 1)
        sizes.refuse_nonsense()
        assert sizes.dim(n * m + 1)
    with pytest.raises(AssertionError):
        sizes.dim(n * m + 1)


def _with_cost(program: Optimized, cost: Dim) -> Optimized:
    """A program whose first kernel is said to cost so much."""
    first, *rest = program.launches
    variants = tuple(replace(variant, cost=cost) for variant in first.variants)
    launches = (replace(first, variants=variants), *rest)
    return replace(program, launches=launches, host=replace(program.host, launches=launches))


def test_a_size_of_what_is_measured_does_not_come_from_a_cost() -> None:
    """The cost wraps to 0, which costs nothing. The size of the result contains the same quotient, and is refused."""

    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        count = dnp.nonzero(y + 1)[0].shape[0]
        n = x.shape[0]
        return dnp.zeros((count * (n * n // 3), 0))

    traced = f.trace(np.ones((2, 0), "f4"), np.ones(3, "f4")).traced
    made = optimize(traced, host_target(), CompilationRecord())
    x = made.function.params[0]
    size = x.shape[0]
    program = _with_cost(made, floordiv(size * size, 3))
    loaded = compile_program(program, [], X86Backend(host_target()), CompilationRecord())
    (small,) = loaded([np.ones((6, 0), "f4"), np.ones(3, "f4")])
    assert small.shape == (36, 0)
    with pytest.raises(ShapeError) as caught:
        loaded([np.ones((2**33, 0), "f4"), np.ones(1, "f4")])
    assert caught.value.problem == (
        "x_0**2 is 73786976294838206464 in this call, a part of count*floordiv(x_0**2, 3), and sizes have 64 bits."
    )


def test_a_size_of_what_is_measured_does_not_come_from_a_region_that_is_not_run() -> None:
    """What a region demands is computed before anything runs, where nonsense is no failure yet."""

    @dyn.jit
    def f(p: Any, x: Any, y: Any) -> Any:
        n = x.shape[0]
        part = n * n // 3
        first = lax.cond(p, lambda: y[part], lambda: dnp.float32(0))
        count = dnp.nonzero(y + 1)[0].shape[0]
        return first, dnp.zeros((count * part, 0))

    no = np.bool_(False)
    assert f(no, np.ones((6, 0), "f4"), np.ones(3, "f4"))[1].shape == (36, 0)
    with pytest.raises(ShapeError) as caught:
        f(no, np.ones((2**33, 0), "f4"), np.ones(1, "f4"))
    assert caught.value.problem == (
        "x_0**2 is 73786976294838206464 in this call, a part of floordiv(x_0**2, 3) + 1, and sizes have 64 bits."
    )
