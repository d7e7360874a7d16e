"""``freeze=True``: what it keeps, and what is seen of parameters that are written to all the same."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint

from dyn.backends.families import host_target
from dyn.errors import ArgumentError
from dyn.interop.torch import jit

pytestmark = pytest.mark.skipif(host_target().vector_bytes < 32, reason="this processor reads matrices as they lie")


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 48), torch.nn.GELU(), torch.nn.Linear(48, 33)).eval()


def by_dynamo(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend="dyn", options=options)


def from_panels(compiled: Any) -> int:
    """How many products the programs of a jitted function read from panels."""
    return variants_from_panels(str(compiled.explain()))


def variants_from_panels(text: str) -> int:
    return sum("from panels" in line for line in text.splitlines() if line.strip().startswith("variant"))


WAYS: dict[str, Callable[[], Any]] = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compile", [jit, by_dynamo])
def test_a_frozen_module_computes_what_it_is(way: str, compile: Callable[..., Any]) -> None:
    from dyn.interop.torch import explain

    torch._dynamo.reset()
    m = model()
    f = compile(m, freeze=True)
    with WAYS[way]():
        for rows in (0, 1, 2, 5, 17):
            x = torch.randn(rows, 20)
            torch.testing.assert_close(f(x), m(x), rtol=1e-4, atol=1e-5)
    assert variants_from_panels(str(f.explain() if compile is jit else explain(f))) >= 2


def test_products_are_read_from_panels_and_without_freezing_are_not() -> None:
    m, x = model(), torch.randn(3, 20)
    frozen, plain = jit(m, freeze=True), jit(m)
    with torch.no_grad():
        frozen(x)
        plain(x)
    assert from_panels(frozen) == 2
    assert from_panels(plain) == 0


def test_dynamo_s_graphs_read_panels_of_each_module_that_is_alike() -> None:
    from dyn.interop.torch import explain

    torch._dynamo.reset()
    first, second, x = model(), model(), torch.randn(3, 20)
    with torch.no_grad():
        second[0].weight.mul_(2)
        f, g = by_dynamo(first, freeze=True), by_dynamo(second, freeze=True)
        for _ in range(3):
            torch.testing.assert_close(f(x), first(x), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(g(x), second(x), rtol=1e-4, atol=1e-5)
    told = str(explain(f)) + str(explain(g))
    assert variants_from_panels(told) == 4
    assert "not called yet" not in str(explain(f))
    assert "packed" not in told


def test_nothing_is_frozen_where_gradients_are_recorded() -> None:
    m, x = model(), torch.randn(3, 20)
    f = jit(m, freeze=True)
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(2):
        f(x).sum().backward()
        reference = copy.deepcopy(m)
        for own, other in zip(m.parameters(), reference.parameters(), strict=True):
            assert own.grad is not None
            other.grad = None
        reference(x).sum().backward()
        for own, other in zip(m.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)
            own.grad = None
        optimizer.step()
    assert from_panels(f) == 0


WRITES: dict[str, Callable[[Any], None]] = {
    "data": lambda m: m[0].weight.data.mul_(2),
    "an alias by from_numpy": lambda m: np.multiply(m.alias, 2, out=m.alias),
    "copy_": lambda m: m[0].weight.copy_(torch.ones(48, 20)),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "load_state_dict(assign=True)": lambda m: m.load_state_dict(
        {k: v + 1 for k, v in m.state_dict().items()}, assign=True
    ),
    "another parameter": lambda m: setattr(m[0], "weight", torch.nn.Parameter(torch.ones(48, 20))),
    "data set": lambda m: setattr(m[0].weight, "data", torch.ones(48, 20)),
}
#: What puts other memory in the place of a parameter's is seen by frozen modules too.
SEEN = ("load_state_dict(assign=True)", "another parameter", "data set")


@pytest.mark.parametrize("compile", [jit, by_dynamo])
@pytest.mark.parametrize("write", WRITES)
def test_without_freezing_each_write_is_seen(write: str, compile: Callable[..., Any]) -> None:
    m, x = aliased(), torch.randn(3, 20)
    f = compile(m)
    with torch.no_grad():
        f(x)
        WRITES[write](m)
        torch.testing.assert_close(f(x), m(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compile", [jit, by_dynamo])
@pytest.mark.parametrize("write", SEEN)
def test_other_memory_is_seen_by_frozen_modules(write: str, compile: Callable[..., Any]) -> None:
    m, x = aliased(), torch.randn(3, 20)
    f = compile(m, freeze=True)
    with torch.no_grad():
        f(x)
        WRITES[write](m)
        torch.testing.assert_close(f(x), m(x), rtol=1e-4, atol=1e-4)


def aliased() -> Any:
    """A module whose first weight is the memory of a NumPy array."""
    m: Any = model()
    m.alias = np.random.default_rng(0).standard_normal((48, 20)).astype("f4")
    m[0].weight = torch.nn.Parameter(torch.from_numpy(m.alias))
    return m


def test_a_function_that_is_frozen_anew_has_the_weights_of_now() -> None:
    m, x = model(), torch.randn(3, 20)
    with torch.no_grad():
        jit(m, freeze=True)(x)
        m[0].weight.mul_(3)
        torch.testing.assert_close(jit(m, freeze=True)(x), m(x), rtol=1e-4, atol=1e-4)


def test_what_the_program_writes_is_not_frozen() -> None:
    class Remembers(torch.nn.Module):
        state: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.randn(20, 20))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x @ self.state
            self.state.mul_(0.5)
            return y

    m, x = Remembers(), torch.randn(3, 20)
    f, other = jit(m, freeze=True), copy.deepcopy(m)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(x), other(x), rtol=1e-4, atol=1e-4)


def test_shared_and_double_weights_and_narrow_floats() -> None:
    shared = torch.nn.Linear(24, 24, bias=False)
    m = torch.nn.Sequential(shared, torch.nn.Tanh(), shared).eval()
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        own, x = copy.deepcopy(m).to(dtype), torch.randn(5, 24, dtype=dtype)
        f = jit(own, freeze=True)
        with torch.no_grad():
            torch.testing.assert_close(f(x), own(x), rtol=2e-2, atol=2e-2)
        # Without AVX-512 numbers of 16 bits are packed as they are converted.
        assert (from_panels(f) >= 1) is (dtype is not torch.bfloat16 or host_target().avx512)


def test_the_option_is_a_bool() -> None:
    with pytest.raises(ArgumentError, match="option freeze"):
        jit(model(), freeze="yes")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("compile", [jit, by_dynamo])
def test_what_is_written_in_place_is_not_seen(compile: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    m, x = model(), torch.randn(3, 20)
    f = compile(m, freeze=True)
    with torch.no_grad():
        before = f(x)
        m[0].weight.mul_(2)
        torch.testing.assert_close(f(x), before)
        m[0].bias.add_(1)  # no matrix: it is read where it lies
        assert not torch.allclose(f(x), before)


@pytest.mark.parametrize("wrap", ["checkpoint", "plain"])
def test_training_by_dynamo_sees_each_step(wrap: str) -> None:
    """Graphs of higher-order operations go by AOTAutograd, which runs their halves without recording gradients."""
    torch._dynamo.reset()
    m = model().train()
    other = copy.deepcopy(m)

    def run(module: Any, x: torch.Tensor) -> torch.Tensor:
        if wrap == "checkpoint":
            return torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
        return module(x)

    f = torch.compile(lambda x: run(m, x), backend="dyn", options={"freeze": True})
    steps = [torch.optim.SGD(one.parameters(), 0.1) for one in (m, other)]
    for _ in range(3):
        x = torch.randn(4, 20)
        results = [f(x), run(other, x)]
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
        for result, step in zip(results, steps, strict=True):
            step.zero_grad()
            result.square().mean().backward()
            step.step()


def test_static_inputs_are_not_frozen() -> None:
    """``mark_static_address`` says where a tensor lies, not that nothing changes it: caches are marked so."""
    torch._dynamo.reset()
    cache, x = torch.randn(20, 32), torch.randn(3, 20)
    torch._dynamo.mark_static_address(cache)
    f = torch.compile(lambda x, cache: x @ cache, backend="dyn", options={"freeze": True})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(x, cache), x @ cache, rtol=1e-4, atol=1e-4)
            cache.copy_(torch.randn(20, 32))


def test_modules_that_are_gone_take_their_programs_with_them() -> None:
    torch._dynamo.reset()
    m: Any = None
    x, ends = torch.randn(3, 20), list[weakref.ref[Any]]()
    f = torch.compile(lambda m, x: m(x), backend="dyn", options={"freeze": True})
    with torch.no_grad():
        for _ in range(4):
            m = torch.nn.Linear(20, 48)
            torch.testing.assert_close(f(m, x), m(x), rtol=1e-4, atol=1e-4)
            ends.append(weakref.ref(m.weight))
    del m
    torch._dynamo.reset()
    gc.collect()
    assert [end() for end in ends] == [None] * 4


@pytest.mark.parametrize("compile", [jit, by_dynamo])
def test_rows_are_invariant_by_an_option(compile: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    m, x = torch.nn.Linear(700, 130), torch.randn(40, 700)
    f = compile(m, batch_invariant=True)
    with torch.no_grad():
        whole = f(x)
        for rows in (2, 5, 33):
            assert torch.equal(f(x[:rows]), whole[:rows])


class Dequantised(torch.nn.Module):
    """A layer whose weight has a scale and a zero point for each group of 16 of its inputs, in one of some layouts."""

    q: Any
    s: Any
    z: Any

    def __init__(self, layout: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layout = layout
        shapes = ((48, 64), (48, 4), (48, 4)) if layout == "n,k" else ((64, 48), (4, 48), (4, 48))
        self.register_buffer("q", torch.randint(-128, 128, shapes[0], dtype=torch.int8))
        self.register_buffer("s", torch.rand(shapes[1]))
        self.register_buffer("z", torch.randint(-5, 6, shapes[2]).float())

    def forward(self, x: Any) -> Any:
        q, s, z = self.q, self.s, self.z
        if self.layout == "n,k":
            return x @ ((q.reshape(48, 4, 16).float() - z[:, :, None]) * s[:, :, None]).reshape(48, 64).T
        if self.layout == "repeated":
            s, z = (one.repeat_interleave(16, dim=0) for one in (s, z))
            return x @ ((q.to(torch.float32) - z) * s)
        return x @ ((q.float().view(4, 16, 48) - z[:, None]) * s[:, None, :]).reshape(64, 48)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("layout", ["k,n", "n,k", "repeated"])
def test_weights_with_scales_by_groups_are_computed_where_they_are_multiplied(layout: str, *, frozen: bool) -> None:
    m = Dequantised(layout)
    f = jit(m, freeze=frozen)
    with torch.no_grad():
        for rows in (0, 1, 8, 9, 70):
            x = torch.randn(rows, 64)
            torch.testing.assert_close(f(x), m(x), rtol=1e-4, atol=1e-2)
    (way,) = f.explain().as_dict()["ways"]
    (group,) = way["programs"][0]["groups"]
    assert {"convert", "subtract", "multiply"} <= set(group["prologue"])
    assert bool(from_panels(f)) is frozen
