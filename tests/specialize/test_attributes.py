"""Attributes of a static ``self``, and of objects that a function closes over, are conditions of its program."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def ones(*shape: int) -> Any:
    return np.ones(shape, "f4")


class Part:
    def __init__(self) -> None:
        self.b = np.zeros(4, "f4")


class Base:
    def __init__(self) -> None:
        self.w = ones(4)
        self.scale = 3.0
        self.parts = [Part(), Part()]
        self.config: dict[str, Any] = {"k": 3, "part": Part()}
        self.pair: Any = (Part(), 7)
        self.unread = 1


class Model(Base):
    offset = 10

    @property
    def half(self) -> float:
        return self.scale / 2

    def compute(self, x: Any) -> Any:
        bias = self.bias if hasattr(self, "bias") else 0  # type: ignore[attr-defined]
        parts = sum(part.b for part in self.parts) + self.config["part"].b + self.pair[0].b
        return x * self.w * self.half + parts + self.config["k"] + bias + self.offset


def _replace_array(m: Any) -> None:
    m.w = m.w * 5


def _in_place(m: Any) -> None:
    m.w *= 5


def _other_dtype(m: Any) -> None:
    m.w = np.full(4, 2.0)


def _other_rank(m: Any) -> None:
    m.w = ones(2, 4)


def _number(m: Any) -> None:
    m.scale = 5.0


def _part(m: Any) -> None:
    m.parts[0].b = ones(4)


def _longer(m: Any) -> None:
    m.parts.append(Part())
    m.parts[-1].b = ones(4)


def _item(m: Any) -> None:
    m.parts[1] = Part()
    m.parts[1].b = 2 * ones(4)


def _entry(m: Any) -> None:
    m.config["k"] = 4


def _part_in_dict(m: Any) -> None:
    m.config["part"].b = ones(4)


def _part_in_tuple(m: Any) -> None:
    m.pair[0].b = ones(4)


def _new_attribute(m: Any) -> None:
    m.bias = 1


def _hidden_class_attribute(m: Any) -> None:
    m.offset = 20


CHANGES = [
    _replace_array, _other_dtype, _other_rank, _number, _part, _longer, _item, _entry, _part_in_dict, _part_in_tuple,
    _new_attribute, _hidden_class_attribute,
]  # fmt: skip


def _static() -> Any:
    return dyn.jit(Model.compute, static_argnums=0)


@pytest.mark.parametrize("change", [*CHANGES, _in_place])
@pytest.mark.parametrize("way", ["static", "bound", "closure", "inside", "derivative"])
def test_changes_after_the_first_call_are_seen(change: Any, way: str) -> None:
    m, x = Model(), ones(4)
    jitted = _static()
    functions: dict[str, Any] = {
        "static": lambda x: jitted(m, x),
        "bound": dyn.jit(m.compute),
        "closure": dyn.jit(lambda x: m.compute(x) + 0),
        "inside": dyn.jit(lambda x: jitted(m, x) + 0),
        "derivative": dyn.jit(dyn.grad(lambda v: dnp.sum(m.compute(v) * v))),
    }
    eager: Any = {"derivative": lambda: dyn.grad(lambda v: dnp.sum(m.compute(v) * v))(x)}  # traced at each call
    want, call = eager.get(way, lambda: m.compute(x)), lambda: functions[way](x)
    for _ in range(3):
        np.testing.assert_array_equal(call(), want())
    change(m)
    for _ in range(3):
        np.testing.assert_array_equal(call(), want())


@pytest.mark.parametrize("change", CHANGES)
def test_calls_in_between_are_the_native_entrys(change: Any) -> None:
    m, x, f = Model(), ones(4), _static()
    f(m, x)
    before = f._native_hits()
    for _ in range(3):
        f(m, x)
    assert f._native_hits() - before == 3
    change(m)
    f(m, x)
    before = f._native_hits()
    for _ in range(3):
        f(m, x)
    assert f._native_hits() - before == 3


def test_what_is_not_read_is_no_condition() -> None:
    m, x, f = Model(), ones(4), _static()
    f(m, x)
    m.unread = 2
    m.other = 3  # type: ignore[attr-defined]
    f(m, x)
    assert f._native_hits() == 1
    assert f.cache_info().compiles == 1


def test_a_value_that_comes_back_finds_its_program() -> None:
    m, x, f = Model(), ones(4), _static()
    for scale in (3.0, 5.0, 3.0, 5.0, float("3.0")):
        m.scale = scale
        np.testing.assert_array_equal(f(m, x), m.compute(x))
    assert len(f.programs) == 2


def test_replaced_arrays_need_no_code_and_are_let_go() -> None:
    m, x, f = Model(), ones(4), _static()
    f(m, x)
    gone = weakref.ref(m.w)
    for _ in range(5):
        m.w = m.w + 1
        np.testing.assert_array_equal(f(m, x), m.compute(x))
    assert len(f.programs) == 1
    assert f.cache_info().compiles <= 6
    gc.collect()
    assert gone() is None


def test_what_the_function_sets_itself_is_no_condition() -> None:
    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        def add(self, x: Any) -> Any:
            self.calls += 1
            return x + 1

    c = Counter()
    f = dyn.jit(Counter.add, static_argnums=0)
    for _ in range(4):
        np.testing.assert_array_equal(f(c, ones(3)), 2 * ones(3))
    assert c.calls == 1
    assert f._native_hits() == 3


def test_explain_says_what_has_changed() -> None:
    m, x, f = Model(), ones(4), _static()
    f(m, x)
    m.scale = 5.0
    f(m, x)
    assert "Model.scale has changed" in str(f.explain())


def test_objects_that_are_compared_by_value_are_static_as_before() -> None:
    @dataclass(frozen=True)
    class Config:
        scale: float

    f = dyn.jit(lambda c, x: x * c.scale, static_argnums=0)
    np.testing.assert_array_equal(f(Config(3.0), ones(3)), 3 * ones(3))
    np.testing.assert_array_equal(f(Config(5.0), ones(3)), 5 * ones(3))
    assert f.cache_info().compiles == 2


def test_classes_with_slots_and_ways_of_their_own_are_left_alone() -> None:
    class Slots:
        __slots__ = ("w",)

        def __init__(self) -> None:
            self.w = 3.0

    class Odd:
        w = 3.0

        def __getattribute__(self, name: str) -> Any:
            return 3.0 if name == "w" else object.__getattribute__(self, name)

    for one in (Slots(), Odd()):
        f = dyn.jit(lambda c, x: x * c.w, static_argnums=0)
        np.testing.assert_array_equal(f(one, ones(3)), 3 * ones(3))


def test_classes_are_as_they_were_after_a_trace() -> None:
    m, f = Model(), _static()
    f(m, ones(4))
    assert "__getattribute__" not in vars(Model)
    with pytest.raises(dyn.errors.ShapeError):
        f(m, ones(3))
    assert "__getattribute__" not in vars(Model)


def test_threads_that_trace_methods_of_one_class() -> None:
    models = [Model() for _ in range(6)]
    f, failures = _static(), list[BaseException]()

    def run(m: Any) -> None:
        try:
            for number in range(4):
                m.w = ones(4) * number
                np.testing.assert_array_equal(f(m, ones(4)), m.compute(ones(4)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(m,)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert "__getattribute__" not in vars(Model)


def test_gradients_of_methods() -> None:
    m = Model()
    f = dyn.jit(dyn.grad(lambda v: dnp.sum(m.compute(v))))
    np.testing.assert_allclose(f(ones(4)), m.w * m.half)
    m.w = m.w * 7
    np.testing.assert_allclose(f(ones(4)), m.w * m.half)


@dataclass
class Config:
    scale: float = 2.0
    tags: tuple[str, ...] = ()


def test_attributes_of_dataclasses_that_can_change() -> None:
    class Model:
        def __init__(self) -> None:
            self.config = Config()

        @dyn.jit(static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return x * self.config.scale

    model = Model()
    x = ones(3)
    np.testing.assert_array_equal(model(x), [2, 2, 2])
    model.config.scale = 5.0
    np.testing.assert_array_equal(model(x), [5, 5, 5])
    model.config.tags = ("not", "read")
    np.testing.assert_array_equal(model(x), [5, 5, 5])
    model.config = Config(7.0)
    np.testing.assert_array_equal(model(x), [7, 7, 7])
    assert Model.__call__.cache_info().traces == 3
    config = Config()
    closed = dyn.jit(lambda x: x * config.scale)
    closed(x)
    config.scale = 3.0
    np.testing.assert_array_equal(closed(x), [3, 3, 3])
