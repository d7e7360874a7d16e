"""What a compiled function has, whichever library it is of: reports, stages, preparation, limits, names."""

from __future__ import annotations

import contextlib
import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.explain.explanation import Explanation
from dyn.interop import stablehlo
from dyn.shapes import free_symbols
from tests.explain.test_html import Checker


@dataclass(frozen=True)
class FrontEnd:
    """A library: its arrays, dyn's ``jit`` for it, and the functions of it that tests are written with."""

    array: Callable[[Any], Any]
    jit: Callable[..., Any]
    tanh: Callable[[Any], Any]
    #: ``x + 1`` where x has fewer than 3 rows, and ``x`` else.
    small: Callable[[Any], Any]
    #: Whether static arguments are named; others are static where they are no arrays.
    names_static: bool = False


def small(x: Any) -> Any:
    return x + 1 if x.shape[0] < 3 else x


def _dyn() -> FrontEnd:
    return FrontEnd(np.asarray, dyn.jit, dnp.tanh, small, names_static=True)


def _jax() -> FrontEnd:
    jax = pytest.importorskip("jax")
    import dyn.interop.jax as djax

    return FrontEnd(jax.numpy.asarray, djax.jit, jax.numpy.tanh, small, names_static=True)


def _torch() -> FrontEnd:
    torch = pytest.importorskip("torch")
    import dyn.interop.torch as dtorch

    return FrontEnd(torch.as_tensor, dtorch.jit, torch.tanh, small)


MADE = {"dyn": _dyn, "jax": _jax, "torch": _torch}


@pytest.fixture(params=MADE)
def front(request: pytest.FixtureRequest) -> FrontEnd:
    return MADE[request.param]()


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def project(front: FrontEnd, **options: Any) -> Any:
    def project(x: Any, batch: Any) -> Any:
        return front.tanh(x) @ batch["w"]

    return front.jit(project, **options)


def test_explanations(front: FrontEnd) -> None:
    f = project(front)
    assert str(f.explain()).endswith("not called yet: nothing is compiled")
    for rows in (2, 5):
        f(front.array(ones(rows, 3)), {"w": front.array(ones(3, 4))})
    report = f.explain()
    assert isinstance(report, Explanation)
    assert len(report.versions) == 1
    assert str(report).startswith("project: 1 compile, ")
    page = report._repr_html_()
    Checker(page)
    assert "<svg" in page
    assert "project" in page
    plain = json.loads(report.to_json())
    ((program,),) = [way["programs"] for way in plain["ways"]]
    assert plain["counts"]["compile"] == 1
    assert program["groups"]
    assert {row["origin"] for row in program["dims"]} >= {"x.shape[0]"}
    assert all(seconds >= 0 for _, seconds in program["stages"])


def test_errors_name_arguments_as_users_do(front: FrontEnd) -> None:
    f = project(front)
    f(front.array(ones(2, 3)), {"w": front.array(ones(3, 4))})
    with pytest.raises(Exception, match=r"x.*w|shape|dot") as caught:
        f(front.array(ones(2, 3)), {"w": front.array(ones(5, 4))})
    if isinstance(caught.value, dyn.errors.ShapeError):
        assert "x.shape[1] = 3" in str(caught.value)
        assert "batch['w'].shape[0] = 5" in str(caught.value)


def test_what_is_prepared_is_compiled_once(front: FrontEnd) -> None:
    f = project(front)
    struct = dyn.ShapeDtypeStruct
    if front.jit.__module__ == "dyn.interop.jax.jit":
        import jax

        struct = jax.ShapeDtypeStruct
    f.prepare([(struct((rows, 3), "float32"), {"w": struct((3, 4), "float32")}) for rows in (2, 9)])
    info = f.cache_info()
    assert (info.compiles, info.hits) == (1, 0)
    assert info.traces >= 1
    for rows in (2, 5, 9):
        made = f(front.array(ones(rows, 3)), {"w": front.array(ones(3, 4))})
        np.testing.assert_allclose(np.asarray(made), np.tanh(1.0) * np.full((rows, 4), 3), rtol=1e-6)
    assert f.cache_info()[:3:2] == info[:3:2]
    assert f.cache_info().traces == info.traces


def test_stages_and_stablehlo(front: FrontEnd) -> None:
    f = project(front)
    given = front.array(ones(2, 3)), {"w": front.array(ones(3, 4))}
    lowered = f.lower(*given)
    assert "contract" in lowered.as_text("stitch") or "dot_general" in lowered.as_text()
    text = lowered.as_text("stablehlo")
    assert "stablehlo.dot_general" in text
    again = stablehlo.load(text)
    for rows in (1, 6):
        np.testing.assert_allclose(again(ones(rows, 3), ones(3, 4)), np.tanh(1.0) * np.full((rows, 4), 3), rtol=1e-6)
    assert f.trace(*given).as_text().startswith("func @project(")
    assert f.cache_info().compiles == 0


def test_cost_analysis(front: FrontEnd) -> None:
    cost = project(front).lower(front.array(ones(2, 3)), {"w": front.array(ones(3, 4))}).compile().cost_analysis()
    names = {symbol.name for count in cost.values() for symbol in free_symbols(count)}
    assert "x_0" in names
    m, k = 7, 5 if "x_1" in names else 3  # JAX's calls leave all but one size as they are
    n = 9 if "batch_w_1" in names else 4
    assert cost.at({name: {"x_0": m, "x_1": k, "batch_w_1": n}[name] for name in names}) == {
        "flops": 2 * m * k * n,
        "transcendentals": m * k,
        "bytes accessed": 4 * (3 * m * k + k * n + m * n),
    }


def test_on_new_shape(front: FrontEnd) -> None:
    f = front.jit(front.small, on_new_shape="error")
    np.testing.assert_array_equal(np.asarray(f(front.array(ones(2)))), [2, 2])
    np.testing.assert_array_equal(np.asarray(f(front.array(ones(1)))), [2])
    with pytest.raises(dyn.errors.ShapeError, match=r"small\(\) needs a second program for these arguments"):
        f(front.array(ones(5)))
    assert f.cache_info().compiles == 1
    with pytest.raises(dyn.errors.ArgumentError, match="on_new_shape"):
        front.jit(front.small, on_new_shape="warn")


def test_many_programs_are_worth_a_word(front: FrontEnd) -> None:
    options = (
        {} if front.jit.__module__ in ("dyn.interop.torch.jit", "dyn.interop.tf.jit") else {"static_argnames": "k"}
    )

    def scaled(x: Any, k: int) -> Any:
        return x * k

    f = front.jit(scaled, **options)
    for k in range(7):
        f(front.array(ones(3)), k=k)
    with pytest.warns(dyn.RecompileWarning) as caught:
        f(front.array(ones(3)), k=7)
    f(front.array(ones(3)), k=8)
    assert [str(one.message) for one in caught] == [
        "scaled() has been compiled 8 times: the static argument k has had 8 values, the last 7.\n"
        "  help: pass it as an array, or with fewer values."
    ]
    assert caught[0].filename == __file__
    because = [report.because for report in f.explain().versions]
    assert because[0] == ""
    assert because[-1].startswith("k = 8, and was ")


def test_branches_that_make_many_programs() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        for bound in range(20):
            if x.shape[0] == bound:
                return x + bound
        return x

    for rows in range(7):
        f(ones(rows))
    with pytest.warns(dyn.RecompileWarning, match=r"f\(\) has been compiled 8 times: calls differ by .*x_0"):
        f(ones(7))
    f(ones(8))


def test_the_report_of_the_process(front: FrontEnd) -> None:
    def reported(x: Any) -> Any:
        return front.tanh(x) * 3

    before = len(dyn.report().compiles)
    f = front.jit(reported)
    f(front.array(ones(3)))
    f(front.array(ones(3)))
    f(front.array(np.ones((3, 3), np.float32)))
    report = dyn.report()
    first, second = report.compiles[before:]
    assert first.function == second.function == "reported"
    assert first.because == ""
    assert "x has 2 axes, and had 1" in second.because
    assert first.seconds > 0
    assert first.loc.file == __file__
    assert "reported: " in str(report)
    Checker(report._repr_html_())
    assert json.loads(report.to_json())["compiles"][-1]["function"] == "reported"


def test_signatures_are_those_of_what_is_compiled(front: FrontEnd) -> None:
    """As Keras asks for them (``getfullargspec``, which does not follow ``__wrapped__``), of methods too."""

    def scaled(x: Any, *, by: float = 2.0) -> Any:
        return x * by

    class Holder:
        method = front.jit(lambda self, x: x)

    f = front.jit(scaled)
    assert inspect.signature(f) == inspect.signature(scaled)
    assert inspect.getfullargspec(f).kwonlydefaults == {"by": 2.0}
    assert inspect.getfullargspec(Holder.method).args == ["self", "x"]
    assert list(inspect.signature(Holder().method).parameters) == ["x"]
    assert "function" in inspect.signature(type(f)).parameters


def test_callable_objects_keep_their_attributes_to_themselves(front: FrontEnd) -> None:
    class Layer:
        def __init__(self) -> None:
            self._version, self._key, self._read, self.trace, self.programs = "1.0", 0, "r", "t", 3

        def __call__(self, x: Any) -> Any:
            return front.tanh(x)

    f = front.jit(Layer())
    np.testing.assert_allclose(np.asarray(f(front.array(ones(3)))), np.tanh(ones(3)), rtol=1e-6)
    assert f.cache_info().compiles == 1


def test_arguments_without_a_text(front: FrontEnd) -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    options = {"static_argnames": "k"} if front.names_static else {}
    f = front.jit(lambda x, k: front.tanh(x), **options)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(f(front.array(ones(3)), k=Mute())), np.tanh(ones(3)), rtol=1e-6)
    assert "Mute object" in str(f.explain()) or f.cache_info().compiles == 2


def test_on_new_shape_of_a_size_of_0(front: FrontEnd) -> None:
    f = front.jit(lambda x: front.tanh(x) + 1, on_new_shape="error")
    f(front.array(ones(3)))
    with contextlib.suppress(dyn.errors.ShapeError):  # JAX has no symbol for a size of 0
        f(front.array(ones(0)))
    assert f.cache_info().compiles == 1


def test_warnings_that_are_errors_are_raised_by_each_call() -> None:
    torch = pytest.importorskip("torch")
    import dyn.interop.torch as dtorch

    f = dtorch.jit(lambda x: x * float(x.numpy()[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            with pytest.raises(dtorch.FallbackWarning):
                f(torch.ones(3))
    assert f.cache_info().compiles == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", dyn.RecompileWarning)
        g = dtorch.jit(lambda x, k: x * k * float(x.numpy()[0]))
        for k in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dtorch.FallbackWarning)
                g(torch.ones(3), k)


def test_lines_are_said_to_be_of_the_parts_of_models() -> None:
    """``encoder.layer.3.attention`` beside the line, in explanations and in errors."""
    torch: Any = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.inner(x)) + x

    model = torch.nn.Sequential(Block(), torch.nn.ModuleDict({"last": Block()})["last"])
    run = dyn.interop.torch.jit(model)
    run(torch.ones(3, 4))
    line = Block.forward.__code__.co_firstlineno + 1
    text = str(run.explain())
    for path in ("0.inner", "0", "1.inner", "1"):
        assert f"test_every_front_end.py:{line} ({path})  return torch.relu" in text
    with pytest.raises(Exception, match=r"\(0\.inner\)  return torch\.relu"):
        run(torch.ones(3, 5))
    outside = dyn.interop.torch.jit(lambda x: model(x) * 2)
    outside(torch.ones(3, 4))
    assert "(1.inner)  return torch.relu" in str(outside.explain())
    assert "test_every_front_end.py" in str(outside.explain())
    assert torch.nn.Module.__call__.__name__ == "_wrapped_call_impl"
