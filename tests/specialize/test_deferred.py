"""Variants that are compiled once a call has met their condition: when that is, and that nothing else changes."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, nn
from dyn.api import Jitted
from dyn.backends.deferred import MOST_MADE, DeferredKernels, DeferredState, finish
from dyn.backends.programs import Deferred, Found, parse_found
from dyn.errors import ArgumentError, CompileError
from dyn.schedule.kernel_text import kernel_name
from dyn.schedule.launch import walk_launches
from dyn.specialize.program import Program
from dyn.specialize.shared_code import CODES
from dyn.specialize.version import Version
from tests.threads import in_threads

Array = np.ndarray[Any, Any]
_ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_background() -> Iterator[None]:
    """Nothing is found that other tests have compiled, and variants are compiled as users have them."""
    CODES.clear()
    with config.override(variants="background"):
        yield
    assert finish()


def _array(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def _names(version: Version) -> list[str]:
    """The names of the kernels that are for sizes which agree."""
    launches = walk_launches(version.optimized.launches)
    variants = [variant for launch in launches for variant in launch.variants]
    return [kernel_name(v.kernel) for v in variants if v.deferred and v.note.endswith("nothing stretched")]


def _states(f: Jitted) -> list[DeferredState]:
    """The states of the kernels that are for sizes which agree."""
    return [v.program.deferred_states()[name] for v in f.programs for name in _names(v)]


def _add() -> Jitted:
    @dyn.jit
    def add(x: Any, y: Any) -> Any:
        return x + y

    return add


# --- when they are compiled -------------------------------------------------------------------------------------------


def test_a_first_call_compiles_what_its_sizes_choose() -> None:
    f = _add()
    x, y = _array(5, 7), _array(5, 7, seed=1)
    np.testing.assert_array_equal(f(x, y), x + y)
    assert _states(f) == [DeferredState.MADE]


def test_a_call_that_meets_a_condition_has_the_variant_compiled() -> None:
    f = _add()
    x, row, y = _array(5, 7), _array(1, 7), _array(5, 7, seed=1)
    f(x, row)
    assert _states(f) == [DeferredState.NOT_YET]
    assert "nothing stretched: when" in (text := str(f.explain()))
    assert ", not compiled yet\n" in text
    with dyn.profile() as before:
        first = f(x, y)
    assert finish()
    assert _states(f) == [DeferredState.MADE]
    assert ", compiled\n" in str(f.explain())
    with dyn.profile() as after:
        np.testing.assert_array_equal(f(x, y), first)
    np.testing.assert_array_equal(first, x + y)
    assert [launch.kernel.variant for launch in before.events().launches] == ["loop add"]
    assert [launch.kernel.variant for launch in after.events().launches] == ["loop add, nothing stretched"]


def _sum_of_rows() -> Jitted:
    return dyn.jit(lambda x: dnp.sum(x * 2, axis=-1))


def _ran(f: Jitted, x: Array) -> tuple[list[str], bytes]:
    """The variants that a call runs, and the bits of its result."""
    with dyn.profile() as profile:
        result = f(x)
    return [launch.kernel.variant for launch in profile.events().launches], result.tobytes()


def test_launches_in_parts_run_once_all_of_them_are_made() -> None:
    """One kernel does what they do until then; nothing waits for them, and the bits are the same."""
    short, long = _array(5, 7), _array(2, 100_003)
    f = _sum_of_rows()
    assert _ran(f, short)[0] == ["stitch reduce_multiply"]
    one, first = _ran(f, long)
    assert one == ["reduce_multiply, parts one by one"]
    assert finish()
    several, second = _ran(f, long)
    assert several == ["reduce_multiply, parts", "reduce_multiply, parts joined"]
    assert first == second
    assert _ran(f, short)[0] == ["stitch reduce_multiply"]


def test_launches_in_parts_are_compiled_ahead_and_by_calls_that_choose_them() -> None:
    parts = ["reduce_multiply, parts", "reduce_multiply, parts joined"]
    long = _array(2, 100_003)
    f = _sum_of_rows()
    f(_array(5, 7))
    f.prepare([(dyn.ShapeDtypeStruct(long.shape, "float32"),)])
    assert _ran(f, long)[0] == parts
    CODES.clear()
    g = _sum_of_rows()
    g(long)
    assert _ran(g, long)[0] == parts


def test_calls_by_the_native_entry_have_them_compiled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    f = _add()
    x, row, y = _array(5, 7), _array(1, 7), _array(5, 7, seed=1)
    f(x, row)

    def refused(*_: Any) -> Any:
        raise AssertionError("a call came to Python")

    monkeypatch.setattr(Jitted, "_try_call", refused)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, y), x + y)
    assert finish()
    assert _states(f) == [DeferredState.MADE]
    np.testing.assert_array_equal(f(x, y), x + y)


def test_settings_say_when() -> None:
    x, row, y = _array(5, 7), _array(1, 7), _array(5, 7, seed=1)
    f = _add()
    with config.override(variants="none"):
        f(x, y)
        f(x, row)
        f(x, y)
        assert finish()
        assert _states(f) == [DeferredState.NOT_YET]
    with config.override(variants="all"):
        g = _add()
        g(x, row)
        assert _states(g) == [DeferredState.MADE]
    assert _states(f) == [DeferredState.MADE], "they are no part of what tells programs apart: both have the same code"
    with pytest.raises(ArgumentError, match="name one of background, all, none"), config.override(variants="some"):
        pass


def test_they_are_counted() -> None:
    x, row = _array(5, 7), _array(1, 7)
    f = _add()
    f(x, row)
    assert dyn.cache_info()[-2:] == (1, 4), "that for a row, and four others"
    f(x, x)
    assert finish()
    assert dyn.cache_info()[-2:] == (2, 3)
    assert f.cache_info().compiles == 1


class _Maker:
    """A maker of kernels at made-up addresses."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def make_deferred(self, names: Sequence[str]) -> list[int]:
        self.asked += names
        return [4096 + len(self.asked)] * len(names)


def test_at_most_some_of_each_launch_are_made() -> None:
    kernels = [Deferred(f"k{n}", (0,)) for n in range(6)] + [Deferred("other", (1,)), Deferred("both", (0, 1))]
    made, maker = DeferredKernels(kernels), _Maker()
    made.add_maker(maker)
    made.make(["k5"])
    made.make()
    assert maker.asked == ["k5", "k0", "k1", "k2", "other"]
    assert len(maker.asked) == MOST_MADE + 1
    states = made.states()
    assert states["k3"] is states["k4"] is states["both"] is DeferredState.TOO_MANY
    made.make()
    assert len(maker.asked) == MOST_MADE + 1


def test_what_fails_is_told_once_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    f = _add()
    x, row, y = _array(5, 7), _array(1, 7), _array(5, 7, seed=1)
    f(x, row)
    asked: list[Any] = []

    def fail(self: Program, names: Sequence[str]) -> list[int]:
        asked.append(names)
        raise CompileError("LLVM refused the text of k.")

    monkeypatch.setattr(Program, "make_deferred", fail)
    with caplog.at_level("INFO", "dyn.cache"):
        for _ in range(3):
            np.testing.assert_array_equal(f(x, y), x + y)
            assert finish()
    assert _states(f) == [DeferredState.FAILED]
    assert len(asked) == 1
    told = [record.getMessage() for record in caplog.records if "could not be compiled" in record.getMessage()]
    assert len(told) == 1
    assert told[0].endswith(
        "could not be compiled; calls go on with a more general variant: CompileError: LLVM refused the text of k."
    )
    assert ", could not be compiled\n" in str(f.explain())


def test_memory_is_given_back_with_the_program() -> None:
    f = _add()
    f(_array(5, 7), _array(1, 7))
    (version,) = f.programs
    kernels, program = weakref.ref(version.loaded.deferred), weakref.ref(version.program)
    CODES.clear()
    del f, version
    gc.collect()
    assert kernels() is None
    assert program() is None


def test_a_program_that_dies_meanwhile() -> None:
    """The code is remembered, and nobody is left who could make its variants: the next program does."""
    f = _add()
    x, row = _array(5, 7), _array(1, 7)
    f(x, row)
    (version,) = f.programs
    kernels, (name,) = version.loaded.deferred, _names(version)
    del f, version
    gc.collect()
    kernels.make()
    assert kernels.states()[name] is DeferredState.NOT_YET
    g = _add()
    g(x, x)
    g(x, x)
    assert finish()
    assert kernels.states()[name] is DeferredState.MADE


# --- many at once -----------------------------------------------------------------------------------------------------


def test_threads_that_call_while_a_variant_is_compiled() -> None:
    @dyn.jit
    def f(x: Any, y: Any) -> Any:
        return nn.gelu(x + y) * x

    x, row, y = _array(50, 70), _array(1, 70), _array(50, 70, seed=1)
    f(x, row)
    with config.override(variants="none"):
        expected = f(x, y)

    def call(_: int) -> int:
        with config.override(variants="background"):
            return sum(not np.array_equal(f(x, y), expected) for _ in range(2000))

    assert in_threads(call, range(4)) == [0] * 4
    assert finish()
    assert _states(f) == [DeferredState.MADE]


_PRELUDE = """
import os, sys, threading, time
import numpy as np
import dyn, dyn.numpy as dnp
from dyn.backends.deferred import DeferredState, finish

@dyn.jit
def f(x, y):
    return dyn.nn.gelu(x + y)

def states():
    # That of the kernel for sizes which agree; the one for a row is made with the first call.
    return {[DeferredState.NOT_YET, DeferredState.MADE][made() - 1]}

def made():
    (version,) = f.programs
    return list(version.program.deferred_states().values()).count(DeferredState.MADE)

x, row, y = (np.random.default_rng(0).standard_normal(s).astype("f4") for s in ((60, 70), (1, 70), (60, 70)))
f(x, row)
"""


def run(script: str, **environment: str) -> str:
    """What a script prints in a process of its own, which must end well."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PRELUDE) + textwrap.dedent(script)], cwd=_ROOT, capture_output=True,
        text=True, timeout=120, check=False, env={"PATH": "/usr/bin:/bin", "DYN_CACHE_DIR": "0", **environment},
    )  # fmt: skip
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert not result.stderr
    return result.stdout


def test_a_forked_child_makes_its_own() -> None:
    """Also what its parent had begun to make when it forked."""
    run("""
        f(x, y)  # the parent is at it
        for _ in range(2):
            child = os.fork()
            if not child:
                f(x, y)
                assert finish() and states() == {DeferredState.MADE}
                assert f(x, y).tobytes() == f(y, x).tobytes()
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert finish() and states() == {DeferredState.MADE}
    """)


@pytest.mark.parametrize("wait", [0, 0.001, 0.005, 0.02])
def test_the_end_of_the_process_while_a_variant_is_compiled(wait: float) -> None:
    run(f"f(x, y)\ntime.sleep({wait})")


def test_calls_that_are_registered_for_the_end() -> None:
    """By then nobody compiles variants any more."""
    assert (
        run("""
        import atexit
        atexit.register(lambda: print(f(x, y).shape, states() == {DeferredState.NOT_YET}))
        import dyn.backends.deferred as deferred
        atexit.register(deferred._threads()._close)
    """).strip()
        == "(60, 70) True"
    )


def test_daemon_threads_that_call_at_the_end() -> None:
    run("""
        def work():
            while True:
                f(x, y), f(x, row)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.01)
    """)


def test_without_threads(tmp_path: Path) -> None:
    """Where the system has no thread to give, calls go on with what there is."""
    run("""
        import resource
        dyn.config._current.set(dyn.config.replace(dyn.config.current(), num_threads=1))
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (os.sysconf("SC_PAGE_SIZE") * pages,) * 2)
        for _ in range(3):
            f(x, y)
        assert finish() and states() == {DeferredState.NOT_YET}, states()
    """)


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_another_process_finds_them(tmp_path: Path) -> None:
    folder = {"DYN_CACHE_DIR": str(tmp_path)}
    assert run(
        "print(states() == {DeferredState.NOT_YET}); f(x, y); finish(); print(states() == {DeferredState.MADE})",
        **folder,
    ) == ("True\nTrue\n")
    assert (
        run("print(states() == {DeferredState.MADE}, 'llvmlite' in sys.modules); f(x, y)", **folder) == "True False\n"
    )


def test_a_process_that_found_its_program_compiles_others(tmp_path: Path) -> None:
    folder = {"DYN_CACHE_DIR": str(tmp_path)}
    run("assert states() == {DeferredState.NOT_YET}", **folder)
    run("assert states() == {DeferredState.NOT_YET} and not f.programs[0].record.sources", **folder)
    run("f(x, y); assert finish() and states() == {DeferredState.MADE}", **folder)
    run("assert states() == {DeferredState.MADE}", **folder)


def test_a_removed_object_is_compiled_again(tmp_path: Path) -> None:
    folder = {"DYN_CACHE_DIR": str(tmp_path)}
    run("", **folder)
    before = set(tmp_path.rglob("*.bin"))
    run(
        "assert states() == {DeferredState.NOT_YET}; f(x, y); assert finish() and states() == {DeferredState.MADE}",
        **folder,
    )
    (made,) = set(tmp_path.rglob("*.bin")) - before
    made.unlink()
    run(
        "assert states() == {DeferredState.NOT_YET}; f(x, y); assert finish() and states() == {DeferredState.MADE}",
        **folder,
    )


def test_what_is_written_is_read() -> None:
    found = Found((), 0, deferred=((Deferred("k_1", (0, 3)), None), (Deferred("k_2", (1,)), "abc")))
    assert parse_found(found.text()) == found


# --- prepare ----------------------------------------------------------------------------------------------------------


def test_prepare() -> None:
    f = _add()
    spec = dyn.ShapeDtypeStruct((5, 7), "float32")
    f.prepare([(_array(5, 7), _array(1, 7))])
    assert f.cache_info()[:2] == (1, 0)
    assert _states(f) == [DeferredState.NOT_YET]
    f.prepare([{"x": spec, "y": spec}, (spec, 2.0)])
    assert f.cache_info()[:2] == (2, 0)
    assert DeferredState.MADE in _states(f)
    f(_array(3, 4), _array(3, 4))
    assert f.cache_info()[:2] == (2, 1)


def test_prepare_takes_the_only_argument_alone() -> None:
    @dyn.jit(static_argnums=1)
    def f(x: Any, k: int = 2) -> Any:
        return x * k

    f.prepare([dyn.ShapeDtypeStruct((4,), "float32"), _array(3), (_array(3), 3)])
    assert f.cache_info().compiles == 2


def test_prepare_takes_numbers_for_sizes() -> None:
    f = _add()
    with pytest.raises(ArgumentError) as caught:
        f.prepare([(dyn.ShapeDtypeStruct(("n", 7), "float32"), 1.0)])
    assert str(caught.value).splitlines() == [
        "a call cannot be prepared for the shape ('n', 7).",
        "  help: give a number for each size.",
    ]


def test_prepare_goes_the_way_of_its_sizes() -> None:
    @dyn.jit
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 10 else x + 1

    f.prepare([dyn.ShapeDtypeStruct((n,), "float32") for n in (4, 40, 5)])
    assert f.cache_info().compiles == 2


def test_prepare_of_arrays_of_others(require_module: Callable[[str], Any]) -> None:
    torch = require_module("torch")
    f = _add()
    f.prepare([(torch.zeros(5, 7), torch.zeros(5, 7))])
    assert _states(f) == [DeferredState.MADE]


# --- the same results -------------------------------------------------------------------------------------------------

_PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...], ...]]]] = {
    "add": (lambda x, y: x + y, [((40, 70), (1, 70)), ((40, 70), (40, 70)), ((40, 70), (40, 1)), ((1, 1), (1, 1))]),
    "softmax": (
        lambda x, y: nn.softmax(x + y), [((40, 70), (40, 70)), ((40, 70), (1, 70)), ((0, 70), (0, 70))]
    ),
    "sums": (lambda x, y: dnp.sum(x * y), [((40, 70), (40, 70)), ((40, 70), (40, 1)), ((400, 700), (400, 700))]),
    "columns": (lambda x, y: dnp.sum(x * y, axis=0), [((40, 70), (40, 70)), ((4000, 7), (4000, 7)), ((9, 1), (9, 1))]),
    "layer norm": (
        nn.layer_norm, [((40, 70), (70,), (70,)), ((3, 1), (1,), (1,)), ((2, 2), (2,), (2,))]
    ),
    "product": (lambda x, w: x @ w, [((40, 70), (70, 30)), ((3, 70), (70, 30)), ((1, 1), (1, 1)), ((4, 0), (0, 5))]),
    "transpose": (lambda x, y: x.T + y, [((40, 70), (70, 40)), ((3, 70), (70, 3)), ((70, 3), (3, 70))]),
    "adam": (
        lambda p, g, m, v: (p - 0.1 * m / (dnp.sqrt(v * v) + 1e-8), 0.9 * m + g, 0.99 * v + g * g),
        [((50,),) * 4, ((1,), (50,), (50,), (1,))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_PROGRAMS))
def test_every_variant_computes_the_same(name: str) -> None:
    """Each deferred kernel alone beside those that are always there, at sizes for which it is chosen and others."""
    function, sizes = _PROGRAMS[name]
    calls = [tuple(_array(*shape, seed=n) for n, shape in enumerate(shapes)) for shapes in sizes]
    with config.override(variants="none"):
        f = dyn.jit(function)
        expected = [flat(f(*call)) for call in calls]
        ran = 0
        while True:
            (version,) = f.programs
            names = list(version.loaded.deferred.states())
            if ran == len(names):
                break
            version.loaded.deferred.make([names[ran]])
            assert [flat(f(*call)) for call in calls] == expected
            ran += 1
            CODES.clear()  # the next one starts without
            f = dyn.jit(function)
            f(*calls[0])


def flat(results: Any) -> list[bytes]:
    """The bits of results."""
    return [np.ascontiguousarray(r).tobytes() for r in (results if isinstance(results, tuple) else (results,))]


def test_the_example_of_the_documentation() -> None:
    page = (_ROOT / "docs" / "schedules.md").read_text()
    (code,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "prepare" in text]
    names: dict[str, Any] = {}
    exec(compile(code, "schedules.md", "exec"), names)
    assert finish()
    states = names["add"].programs[0].program.deferred_states()
    assert list(states.values()).count(DeferredState.MADE) == 3
