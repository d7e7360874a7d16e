"""Objects, lists and dicts as arguments and results: what they hold goes in and out, and what changes is changed."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from dyn.errors import NotYetError, ShapeError

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch


class Layer:
    """Rows so far, as a cache of keys has them."""

    def __init__(self) -> None:
        self.rows: Any = None
        self.is_ready = False

    def update(self, x: Any) -> Any:
        if not self.is_ready:
            self.rows, self.is_ready = x.new_zeros((0, x.shape[1])), True
        self.rows = torch.cat([self.rows, x])
        return self.rows


class Cache:
    def __init__(self, layers: int) -> None:
        self.layers = [Layer() for _ in range(layers)]
        self.first = self.layers[0]


@dataclass
class Batch:
    x: Any
    weight: float


def step(x: Any, cache: Cache, label: str = "sum") -> Any:
    rows = [layer.update(x * (number + 1)) for number, layer in enumerate(cache.layers)]
    return {label: sum(one.sum() for one in rows), "cache": cache}


def test_a_cache_goes_in_and_out() -> None:
    """The caller's own object has what PyTorch's would have, and is what is returned; lengths grow, programs do not."""
    compiled = dyn_torch.jit(step, strict=True)
    for _ in range(2):
        theirs, ours = Cache(2), Cache(2)
        layers = [*ours.layers]
        for length in (3, 1, 0, 1, 2):
            x = torch.randn(length, 2)
            wanted, found = step(x, theirs), compiled(x, ours)
            same(wanted["sum"], found["sum"])
            same([one.rows for one in theirs.layers], [one.rows for one in ours.layers])
            assert found["cache"] is ours
            assert ours.layers[0] is ours.first is layers[0]
    assert compiled.cache_info().compiles == 2  # an empty cache, and one that holds rows


def test_objects_that_the_function_makes() -> None:
    def function(x: Any) -> Any:
        cache = Cache(1)
        cache.first.update(x)
        return cache, [cache.first], Batch(x * 2, 3.0), x.shape

    compiled = dyn_torch.jit(function, strict=True)
    for length in (2, 1, 5):
        x = torch.randn(length, 2)
        cache, [layer], batch, shape = compiled(x)
        assert cache.first is cache.layers[0] is layer
        assert (type(batch), batch.weight, shape) == (Batch, 3.0, x.shape)
        same((x, x * 2), (layer.rows, batch.x))
    assert compiled.cache_info().compiles == 1


def test_objects_that_are_arguments_are_told_apart_by_what_they_hold() -> None:
    compiled = dyn_torch.jit(lambda batch: batch.x.sum() * batch.weight, strict=True)
    for weight in (2.0, 3.0, 2.0):
        for length in (3, 1):
            batch = Batch(torch.randn(length), weight)
            same(batch.x.sum() * weight, compiled(batch))
    assert compiled.cache_info().compiles == 2


def test_gradients_come_through_objects() -> None:
    def function(batch: Any) -> Any:
        return Batch(batch.x.exp(), 1.0)

    compiled = dyn_torch.jit(function, strict=True)
    x = torch.randn(3, requires_grad=True)
    compiled(Batch(x, 2.0)).x.sum().backward()
    same(x.exp().detach(), x.grad)


def test_what_a_function_changes_of_containers() -> None:
    def function(rows: Any, named: Any, counts: Any, ordered: Any) -> Any:
        rows.append(rows[0] * 2)
        named["sum"] = rows[0].sum()
        del named["old"]
        counts["seen"].append(rows[0].shape[0])
        ordered.move_to_end("a")
        return rows, rows[0]

    compiled = dyn_torch.jit(function, strict=True)
    for length in (3, 1):
        x = torch.randn(length)
        given = [x], {"old": 1}, defaultdict(list, seen=[]), OrderedDict(a=x, b=x)
        again: Any = copy.copy(given[0]), dict(given[1]), defaultdict(list, seen=[]), OrderedDict(given[3])
        function(*given)
        rows, first = compiled(*again)
        assert rows is again[0]
        assert first is x
        assert [*again[3]] == ["b", "a"]
        same(given[:2], again[:2])
        assert again[2] == {"seen": [length]}
    assert compiled.cache_info().compiles == 1


class Slotted:
    """An object whose state is in no dict."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


def test_an_object_that_is_no_tree_is_refused() -> None:
    def function(x: Any) -> Any:
        return {"inner": [Slotted(x * 2)]}

    with pytest.raises(NotYetError) as raised:
        dyn_torch.jit(function, strict=True)(torch.ones(2))
    assert str(raised.value).splitlines()[0] == (
        "function() returns an object that holds tensors and is no tree: [...]['inner'][0] is a Slotted."
    )
    compiled = dyn_torch.jit(function)
    with pytest.warns(dyn_torch.FallbackWarning, match="is a Slotted"):
        same(2 * torch.ones(2), compiled(torch.ones(2))["inner"][0].x)


def test_an_object_with_what_has_no_hash() -> None:
    compiled = dyn_torch.jit(lambda cache: cache.first.rows * 2)
    cache = Cache(1)
    cache.first.rows, cache.layers = torch.ones(2), {1, 2}  # type: ignore[assignment]
    with pytest.warns(dyn_torch.FallbackWarning, match="a Cache with tensors and an attribute that is neither"):
        same(2 * torch.ones(2), compiled(cache))


class Scaled(torch.nn.Module):
    """A module with attributes that are no parameters."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.config = Batch(None, 3.0)
        self.table = {"shift": 1.0}
        self.unread = 0
        self.mask: Any = None

    def forward(self, x: Any) -> Any:
        if self.mask is None:
            self.mask = torch.full((2,), 0.5)
        self.length, self.last = x.shape[0], x * 3
        return self.linear(x) * self.factor * self.config.weight * self.mask + self.table["shift"]


def test_attributes_that_forward_reads() -> None:
    module = Scaled()
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    changes: list[Any] = [
        lambda m: None, lambda m: None, lambda m: setattr(m, "factor", 3.0), lambda m: delattr(m, "factor"),
        lambda m: setattr(m, "factor", float("3")), lambda m: setattr(m.config, "weight", 4.0),
        lambda m: m.table.update(shift=2.0), lambda m: setattr(m, "mask", torch.ones(2)),
        lambda m: setattr(m, "unread", m.unread + 1),
        lambda m: m.linear.register_forward_hook(lambda *given: given[2] * 2),
    ]  # fmt: skip
    kept: list[int] = []
    compiles: list[int] = []
    for change in changes:
        change(module)
        change(again)
        for length in (3, 1):
            x = torch.randn(length, 2)
            with torch.no_grad():
                same(module(x), compiled(x))
            assert again.length == length
            same(x * 3, again.last)
        kept.append(len(compiled.programs))
        compiles.append(compiled.cache_info().compiles)
    # Without a mask and with it; two changes lead back to what was compiled. What relies on a tensor that is replaced,
    # or on hooks that are others, is forgotten.
    assert kept == [2, 2, 3, 3, 3, 4, 5, 2, 2, 1]
    assert compiles == [2, 2, 3, 3, 3, 4, 5, 6, 6, 7]


def test_attributes_are_looked_at_by_the_native_entry() -> None:
    class Times(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.factor

    times = Times()
    compiled = dyn_torch.jit(times, strict=True)
    x = torch.ones(3)
    for factor in (2.0, 3.0, 2.0, float("2")):
        times.factor = factor
        for _ in range(3):
            same(x * factor, compiled(x))
    assert compiled._native_hits() > 4
    assert compiled.cache_info().compiles == 2


class Counting(torch.nn.Module):
    """A module whose calls read and set numbers and a tensor: its own, its class's, and those of an object."""

    count = 0

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.state, self.config, self.below = 1.0, torch.zeros(1), Batch(None, 2.0), -3

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.below -= x.shape[0]
        self.rate *= 0.5
        self.config.weight += 1.0
        self.state = torch.cat([self.state * 0.5, x])
        return x * self.count * self.rate + self.state.sum() * self.config.weight + self.below


def test_what_calls_read_and_set_is_passed_to_the_program() -> None:
    module = Counting()
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    for count, length in enumerate((2, 0, 1, 5, 3), 1):
        x = torch.randn(length)
        same(module(x), compiled(x))
        same(module.state, again.state)
        numbers = [(one.count, one.below, one.rate, one.config.weight) for one in (module, again)]
        assert numbers[0] == numbers[1]
        assert [type(one) for one in numbers[1]] == [int, int, float, float]
        assert again.count == count
    again.count = module.count = 7  # by others, too
    same(module(torch.ones(2)), compiled(torch.ones(2)))
    assert compiled.cache_info().compiles == 1


def test_gradients_come_to_a_state_that_calls_read_and_set() -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.state: Any = None

        def forward(self, x: Any) -> Any:
            self.state = x if self.state is None else torch.tanh(self.linear(self.state)) + x
            return self.state.square().sum()

    module = Recurrent()
    again = copy.deepcopy(module)
    compiled = dyn_torch.jit(again, strict=True)
    for _ in range(4):
        x = torch.randn(2, 3)
        wanted, found = module(x), compiled(x)
        same(wanted.detach(), found.detach())
        for loss in (wanted, found):
            loss.backward(retain_graph=True) if loss.requires_grad else None
        same([p.grad for p in module.parameters()], [p.grad for p in again.parameters()])
    assert compiled.cache_info().compiles == 2  # no state, and one


class Naming(torch.nn.Module):
    name = ""

    def forward(self, x: Any) -> Any:
        self.name += "x"
        return x * len(self.name)


def test_what_else_calls_read_and_set() -> None:
    """Each call reads what the one before it has set: a few are compiled, and eager PyTorch makes the others."""
    compiled = dyn_torch.jit(Naming())
    for count in range(1, 5):
        same(torch.full((2,), float(count)), compiled(torch.ones(2)))
    with pytest.warns(dyn_torch.FallbackWarning, match=r"Naming\.name is read and changed by each call"):
        same(torch.full((2,), 5.0), compiled(torch.ones(2)))
    same(torch.full((2,), 6.0), compiled(torch.ones(2)))
    strict = dyn_torch.jit(Naming(), strict=True)
    for _ in range(4):
        strict(torch.ones(2))
    with pytest.raises(NotYetError, match=r"Naming\.name"):
        strict(torch.ones(2))


class Sized:
    """An object with integers of every kind of use."""

    def __init__(self, n: int, *, axis: int = -1) -> None:
        self.x, self.n, self.axis, self.counts = torch.arange(12.0).reshape(3, 4) + 1, n, axis, [n, 2]


def test_integers_of_objects_are_sizes() -> None:
    """One program for all of them, where nothing asks which they are."""

    def function(one: Any) -> Any:
        one.n += one.x.shape[0]
        rows = one.x.repeat(one.counts[0], 1)
        return rows.sum(one.axis) * one.n, torch.arange(one.n), one.x / one.counts[1], one.counts[0] * 2

    compiled = dyn_torch.jit(function, strict=True)
    for n in (2, 0, 1, 5, 3):
        theirs, ours = Sized(n), Sized(n)
        same(function(theirs), compiled(ours))
        assert (ours.n, type(ours.n)) == (n + 3, int) == (theirs.n, int)
    assert compiled.cache_info().compiles == 1


INTEGERS: list[tuple[Any, int]] = [
    (lambda one: one.x.sum(one.n), 2),
    (lambda one: one.x[one.n], 1),
    (lambda one: [one.x for _ in range(one.n)], 2),
    (lambda one: one.x * (2 if one.n == 1 else 3), 2),
    (lambda one: one.x * (2 if isinstance(one.n, int) else 3), 1),
    (lambda one: one.x * {0: 2, 1: 3}[one.n], 2),
    (lambda one: (f"{one.n}", one.x**one.n), 2),
    (lambda one: one.x * round(one.n / 3, 1), 2),  # of which the program has no form: it is a number
    (lambda one: torch.nn.functional.dropout(one.x, 0.0 * one.n), 1),
]


@pytest.mark.parametrize("number", range(len(INTEGERS)))
def test_uses_of_integers_of_objects(number: int) -> None:
    function, programs = INTEGERS[number]
    compiled = dyn_torch.jit(function, strict=True)
    for n in (0, 1, 0, 1):
        same(function(Sized(n)), compiled(Sized(n)))
    assert compiled.cache_info().compiles == programs


def test_errors_are_those_of_calls_with_integers_of_objects() -> None:
    compiled = dyn_torch.jit(lambda one: one.x.reshape(one.n, 4), strict=True)
    with pytest.raises(ShapeError):
        compiled(Sized(2))
    same(compiled(Sized(3)), Sized(3).x)


def test_a_buffer_that_is_replaced_is_refused() -> None:
    class Running(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.mean = self.mean * 0.5 + x.mean(0) * 0.5
            return x - self.mean

    module = Running()
    with pytest.raises(
        NotYetError, match=r"Running\.mean, a parameter, a buffer or a module, is replaced in the function"
    ):
        dyn_torch.jit(module, strict=True)(torch.ones(3, 2))
    same(torch.zeros(2), module.mean)
    with pytest.warns(dyn_torch.FallbackWarning, match=r"Running\.mean"):
        dyn_torch.jit(module)(torch.ones(3, 2))
    same(torch.full((2,), 0.5), module.mean)


def test_an_entry_of_a_modules_dict_that_is_replaced_is_refused() -> None:
    class Noting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.noted: dict[str, Any] = {}

        def forward(self, x: Any) -> Any:
            self.noted["sum"] = x.sum()
            return x * 2

    module = Noting()
    with pytest.raises(NotYetError, match="the entry 'sum' of a dict is replaced"):
        dyn_torch.jit(module, strict=True)(torch.ones(3))
    assert module.noted == {}


KEPT: list[Any] = []


def test_tensors_that_are_kept_outside_are_refused() -> None:
    """Of hooks that keep activations, and of lists that a function closes over, nothing is left behind."""
    seen: list[Any] = []
    named: dict[str, Any] = {}

    def closing(x: Any) -> Any:
        seen.append(x * 2)
        return x + 1

    def keeping(x: Any) -> Any:
        KEPT.append(x * 2)
        return x + 1

    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module[0].register_forward_hook(lambda module, given, made: named.update(last=made))
    cases: list[tuple[Any, Any, Any]] = [(closing, seen, list), (keeping, KEPT, list), (module, named, dict)]
    for function, kept, kind in cases:
        x = torch.ones(3, 2)
        with pytest.raises(
            NotYetError, match=f"a tensor is kept in a {kind.__name__} that the function, or a hook of a module, closes"
        ):
            dyn_torch.jit(function, strict=True)(x)
        assert kept == kind()
        compiled = dyn_torch.jit(function)
        with pytest.warns(dyn_torch.FallbackWarning, match="a tensor is kept"):
            same(function(x), compiled(x))
        assert len(kept) == (1 if kind is dict else 2)
        for one in kept if kind is list else kept.values():
            assert type(one) is torch.Tensor


def test_what_else_is_kept_outside_is_kept_once() -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x + 1

    compiled = dyn_torch.jit(function, strict=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert calls == [1]


class Pair:
    """Registered without keys, which is PyTorch's default; made by tensors alone."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b, self.size = a, b, a.shape[0]


class HasPair:
    def __init__(self) -> None:
        self.x, self.pair = torch.ones(3), Pair(torch.ones(3), torch.ones(3))


def test_classes_that_are_registered_without_keys() -> None:
    torch.utils._pytree.register_pytree_node(Pair, lambda one: ((one.a, one.b), None), lambda own, _: Pair(*own))
    compiled = dyn_torch.jit(lambda pair: pair.a + pair.b, strict=True)
    for n in (3, 5, 1):
        same(compiled(Pair(torch.ones(n), torch.ones(n))), torch.full((n,), 2.0))
    assert compiled.cache_info().compiles == 1
    with pytest.raises(ShapeError, match=r"pair\[1\]"):
        compiled(Pair(torch.ones(2), torch.ones(3)))
    same(dyn_torch.jit(lambda one: one.x + one.pair.b, strict=True)(HasPair()), torch.full((3,), 2.0))


def test_stages_of_functions_that_change_objects() -> None:
    """They find out, as a call does, that the object has to be taken apart, and read the arguments again."""

    class Count:
        n = 0

    def counted(x: Any, count: Any) -> Any:
        count.n = x.sum()
        return x * 2

    compiled = dyn_torch.jit(counted, strict=True)
    assert "func @counted" in compiled.trace(torch.ones(3), Count()).as_text()
    compiled.prepare([(torch.ones(3), Count())])
    count = Count()
    same(compiled(torch.ones(3), count), torch.full((3,), 2.0))
    assert count.n == 3
    assert compiled.cache_info().compiles == 1
