"""Whole programs on disk: what is found does what was made does, says what it says, and is never another's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config, lax
from dyn.backends import programs, x86
from dyn.backends.cache import current_store
from dyn.backends.programs import Found, ObjectFile, Programs, parse_found
from dyn.backends.x86 import X86Backend
from dyn.errors import IRError, ShapeError
from dyn.specialize.shared_code import Codes
from dyn.stages import Compiled
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer

ROOT = Path(__file__).resolve().parents[2]
SIZES = (0, 1, 2, 7, 64, 1000)
Make = Callable[[], Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of each test's own, no code in memory, and no verifier, which wants to see the passes."""
    monkeypatch.setattr("dyn.specialize.program.CODES", Codes(most=0))
    with config.override(cache_dir=str(tmp_path), verify_ir=False):
        yield tmp_path


def compiled(make: Make, *arguments: Any) -> Compiled:
    """A function that is new to this process, compiled."""
    return make().trace(*arguments).lower().compile()


def made_and_found(make: Make, *arguments: Any) -> tuple[Compiled, Compiled]:
    """The same program twice: lowered, and found."""
    made, found = compiled(make, *arguments), compiled(make, *arguments)
    assert "lower" in made.version.record.seconds
    assert list(found.version.record.seconds) == ["trace", "find", "load"]
    return made, found


def softmax() -> Any:
    @dyn.jit
    def softmax(x: Any) -> Any:
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True)

    return softmax


def add() -> Any:
    return dyn.jit(lambda x, y: x + y, shapes="n, n")


VECTORS = (dyn.ShapeDtypeStruct(("n",), "float32"),) * 2
MATRIX = dyn.ShapeDtypeStruct((None, None), "float32")


def literal(array: Any) -> Any:
    """An array that is part of the program, as front ends make one."""
    trace = current_trace()
    assert trace is not None
    return Tracer(trace, trace.constant(array))


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_it_computes_the_same_for_every_size() -> None:
    made, found = made_and_found(softmax, MATRIX)
    for rows in SIZES:
        for columns in SIZES[1:]:
            x = np.random.default_rng(rows).standard_normal((rows, columns), np.float32)
            np.testing.assert_array_equal(found(x), made(x))
            np.testing.assert_allclose(found(x).sum(axis=-1), np.ones(rows), rtol=1e-5)


@pytest.mark.parametrize("dialect", ["dhlo", "stitch", "kernel", "host", "llvm", "asm"])
def test_its_texts_are_the_same(dialect: str) -> None:
    made, found = made_and_found(softmax, MATRIX)
    lines = [re.sub(r"@ \S+", "@", c.as_text(dialect)) for c in (found, made)]
    assert lines[0] == lines[1] != ""
    assert found.memory_analysis() == made.memory_analysis()
    assert found.version.record.kernels_compiled == made.version.record.kernels_compiled > 0


def test_its_explanation_is_the_same() -> None:
    def explained() -> str:
        function = softmax()
        function(np.ones((3, 4), np.float32))
        return re.sub(r"(?m)^.*(ms\b|from memory|compiled).*\n?", "", str(function.explain()))

    first = explained()
    assert "max" in first
    assert explained() == first


def test_large_constants_are_those_of_the_trace() -> None:
    """The entry has their digests alone. A program of other ones is another, with the same machine code."""
    c = np.random.default_rng(0).random((20, 20))

    def adding(array: Any, more: Any) -> Make:
        def add(x: Any) -> Any:
            return x + literal(array), x * literal(more), lax.scan(lambda s, r: (s + r, s), x[0], literal(array))

        return lambda: dyn.jit(add)

    x = np.ones((20, 20))
    for first, second in ((c, c + 1), (c + 1, c), (c, c)):
        made, found = made_and_found(adding(first, second), x)
        for program in (made, found):
            added, multiplied, (total, rows) = program(x)
            np.testing.assert_array_equal(added, x + first)
            np.testing.assert_array_equal(multiplied, x * second)
            np.testing.assert_allclose(total, x[0] + first.sum(axis=0))
            np.testing.assert_allclose(rows[1], x[0] + first[0])
        assert "\n  constant 0: 3200 bytes\n" in found.as_text("host")
        if first is not c:
            assert {origin.name for origin in made.version.record.origins} == {"MEMORY"}


def test_constants_that_a_pass_made_are_made_again() -> None:
    """No trace has them: such a program is lowered in each process, and its code is found all the same."""
    z = np.random.default_rng(0).random(100) * (1 + 2j)
    make = lambda: dyn.jit(lambda x: x * literal(z))  # noqa: E731
    for _ in range(2):
        program = compiled(make, np.ones(100))
        np.testing.assert_array_equal(program(np.ones(100)), z)
        assert "lower" in program.version.record.seconds


def test_a_call_that_fails_says_why() -> None:
    made, found = made_and_found(add, *VECTORS)
    arguments = np.ones(3, np.float32), np.ones(4, np.float32)
    for _ in range(2):
        texts: list[str] = []
        for program in (made, found):
            with pytest.raises(ShapeError) as error:
                program(*arguments)
            texts.append(str(error.value))
        assert texts[0] == texts[1]
        assert texts[0] == (
            "y.shape[0] is 4, and it must be n = 3.\n"
            "  n is x.shape[0] = 3\n"
            "  help: pass arrays that agree, or give the two axes different names in shapes=."
        )
    np.testing.assert_array_equal(found(arguments[0], arguments[0]), [2, 2, 2])


def test_why_a_call_failed_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks are known by number: where the code is not that of the program, nothing can be said of them."""
    _, found = made_and_found(add, *VECTORS)
    monkeypatch.setattr(X86Backend, "key", lambda self, source: "another")
    with pytest.raises(IRError) as error:
        found(np.ones(3, np.float32), np.ones(4, np.float32))
    assert str(error.value) == (
        "lambda: a call failed, and why is not known: the code found in the cache is that of another program.\n"
        "  help: this is a bug in dyn; please report it with the program, and clear the cache."
    )


def test_guards_choose_among_what_is_found() -> None:
    def branches() -> Any:
        @dyn.jit
        def branches(x: Any) -> Any:
            return x + 1 if x.shape[0] > 8 else x * 3

        return branches

    def run(function: Any) -> list[float]:
        return [float(function(np.full(n, 5, np.float32))[0]) for n in (3, 9, 8, 100, 1)]

    first, second = branches(), branches()
    assert run(first) == run(second) == [15, 6, 15, 6, 15]
    assert first.cache_info().compiles == second.cache_info().compiles == 2
    for made, found in zip(first.programs, second.programs, strict=True):
        assert "find" in found.record.seconds
        assert "lower" not in found.record.seconds
        names = [
            [(b.symbol.name, b.input, b.axis, b.factor, b.offset) for b in v.traced.binding.binds]
            for v in (made, found)
        ]
        assert names[0] == names[1] != []


def test_guards_of_dims_that_are_solved_for() -> None:
    def branches() -> Any:
        @dyn.jit(shapes="2*n+1")
        def branches(x: Any) -> Any:
            return x + 1 if (x.shape[0] - 1) // 2 > 4 else x * 3

        return branches

    for _ in range(2):
        function = branches()
        assert [float(function(np.full(n, 5, np.float32))[0]) for n in (3, 11, 9, 101)] == [15, 6, 15, 6]
        assert function.cache_info().compiles == 2


def test_donated_memory_is_taken() -> None:
    def step() -> Any:
        return dyn.jit(lambda w, g, b: w - 0.1 * g, shapes="n, n, k", donate_argnums=(0, 2))

    for expected in (False, True):
        function = step()
        w, g = np.ones(SIZES[-1], np.float32), np.ones(SIZES[-1], np.float32)
        address = w.__array_interface__["data"][0]
        with pytest.warns(UserWarning, match="no result can take the memory of the donated b") as told:
            result = function(w, g, np.ones(3, np.int32))
        assert len(told) == 1
        assert result.__array_interface__["data"][0] == address
        np.testing.assert_allclose(result, 0.9)
        assert ("lower" not in function.programs[0].record.seconds) is expected


def test_captured_arrays_are_each_programs_own() -> None:
    def make(value: float) -> Any:
        weights = np.full(4, value, np.float32)
        return dyn.jit(lambda x: x + weights, shapes="4")

    x = np.zeros(4, np.float32)
    assert [float(make(value)(x)[0]) for value in (1, 2, 3)] == [1, 2, 3]


def test_constants_are_part_of_a_program() -> None:
    """``-0.0`` and ``0.0`` have one text in Python, and two results."""

    def make(value: float) -> Any:
        return dyn.jit(lambda x: dnp.copysign(1.0, dnp.where(x > 0, x, np.float32(value))))

    x = np.zeros(3, np.float32)
    assert [float(make(value)(x)[0]) for value in (0.0, -0.0, 0.0, -0.0)] == [1, -1, 1, -1]


def test_the_bodies_of_reductions_are_part_of_a_program() -> None:
    def make(body: Callable[[Any, Any], Any]) -> Any:
        return dyn.jit(lambda x: lax.reduce(x, np.float32(1), body, (0,)))

    bodies: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a * 2 + b, lambda a, b: a + b * 2, lambda a, b: b * 2 + a * 3, lambda a, b: a * 2 + b
    ]  # fmt: skip
    x = np.array([3, 5], np.float32)
    functions = [make(body) for body in bodies]
    assert [float(function(x)) for function in functions] == [15, 17, 37, 15]
    lowered = ["lower" in function.programs[0].record.seconds for function in functions]
    assert lowered == [True, True, True, False]


# ---- other machines --------------------------------------------------------------------------------------------------


PASSES = {"inline_calls", "refine_shapes", "simplify", "stitch"}


# Not x86-64-v3, which may be this machine.
@pytest.mark.parametrize("target", ["x86:x86-64-v2", "cuda:sm_90a"])
def test_passes_run_once_whatever_the_targets(target: str, require_module: Callable[[str], ModuleType]) -> None:
    if target.startswith("cuda"):
        require_module("cuda.bindings.nvrtc")
    lowered = softmax().trace(MATRIX).lower()
    assert lowered.record.seconds.keys() > PASSES
    assert "lower" not in lowered.record.seconds
    made = lowered.compile(target=target)
    assert list(made.program.record.seconds) == ["trace", "find", "lower", "render", "compile"]
    here = lowered.compile()
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(here(x), softmax()(x))
    assert made.as_text("kernel") != here.as_text("kernel")
    assert made.as_text("dhlo") == here.as_text("dhlo")


@pytest.mark.parametrize("target", ["x86:x86-64-v3", "cuda:sm_90a"])
def test_what_was_compiled_for_another_machine_is_found(
    target: str, require_module: Callable[[str], ModuleType]
) -> None:
    """No kernel is lowered again; what is looked at afterwards is as it was."""
    if target.startswith("cuda"):
        require_module("cuda.bindings.nvrtc")
    made, found = [softmax().trace(MATRIX).lower().compile(target=target) for _ in range(2)]
    assert "lower" in made.program.record.seconds
    assert list(found.program.record.seconds) == ["trace", "find"]
    assert found.program.record.kernels_compiled == made.program.record.kernels_compiled > 0
    assert {origin.name for origin in found.program.record.kernel_origins()} <= {"DISK", "MEMORY"}
    for dialect in ("dhlo", "kernel", "host", "asm"):
        texts = [re.sub(r"@ \S+", "@", one.as_text(dialect)) for one in (made, found)]
        assert texts[0] == texts[1] != ""
    assert list(found.program.record.seconds) == ["trace", "find"]


def test_passes_run_again_under_other_settings() -> None:
    lowered = softmax().trace(MATRIX).lower()
    with config.override(optimize=not config.current().optimize):
        assert lowered.compile(target="x86:x86-64-v3").program.record.seconds.keys() > PASSES


# ---- what is not found -----------------------------------------------------------------------------------------------


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("program_*.bin"))


def test_library_calls_are_not_kept() -> None:
    def make() -> Any:
        return dyn.jit(lambda x: dnp.real(dnp.fft.fft(x)) + 1)

    arguments = (MATRIX,)
    for _ in range(2):
        assert "lower" in compiled(make, *arguments).version.record.seconds


@pytest.mark.parametrize("changes", [{"verify_ir": True}, {"dump": "dump"}, {"cache_dir": "0"}])
def test_who_wants_to_see_the_passes_sees_them(folder: Path, changes: dict[str, Any]) -> None:
    if "dump" in changes:
        changes = {"dump": str(folder / "dump")}
    compiled(softmax, MATRIX)
    before = entries(folder)
    with config.override(**changes):
        assert "stitch" in compiled(softmax, MATRIX).version.record.seconds
        compiled(add, *VECTORS)
    assert entries(folder) == before


def test_another_target_is_another_program() -> None:
    compiled(add, *VECTORS)
    with config.override(target_cpu="x86-64"):
        assert "lower" in compiled(add, *VECTORS).version.record.seconds


@pytest.mark.parametrize("version", [None, "another"])
def test_other_sources_make_other_programs(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str | None) -> None:
    compiled(add, *VECTORS)
    before = len(entries(folder))
    monkeypatch.setattr(programs, "code_version", lambda: version)
    assert "lower" in compiled(add, *VECTORS).version.record.seconds
    assert len(entries(folder)) == before + (version is not None)


@pytest.mark.parametrize("what", ["toolchain", "np"])
def test_other_libraries_make_other_programs(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    compiled(add, *VECTORS)
    if what == "toolchain":
        monkeypatch.setattr(x86, "toolchain", lambda: "another")
    else:
        monkeypatch.setattr(np, "__version__", "another")
    assert "lower" in compiled(add, *VECTORS).version.record.seconds


def test_edited_sources_keep_nothing_but_find_what_there_is(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    compiled(softmax, MATRIX)
    before = entries(folder)
    monkeypatch.setattr(programs, "is_unchanged", lambda: False)
    assert "lower" in compiled(add, *VECTORS).version.record.seconds
    assert "lower" in compiled(add, *VECTORS).version.record.seconds
    assert entries(folder) == before
    assert "lower" not in compiled(softmax, MATRIX).version.record.seconds


def test_an_op_that_is_not_dyns_own_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyn.specialize.program.OWN_OPS", frozenset())
    for _ in range(2):
        assert "lower" in compiled(add, *VECTORS).version.record.seconds


def test_a_missing_object_is_made_again(folder: Path) -> None:
    compiled(add, *VECTORS)
    for path in folder.rglob("*.bin"):
        if not path.name.startswith("program_"):
            path.unlink()
    x86._BINARIES.clear()
    program = compiled(add, *VECTORS)
    assert "lower" in program.version.record.seconds
    x86._BINARIES.clear()
    found = compiled(add, *VECTORS)
    assert "lower" not in found.version.record.seconds
    assert {origin.value for origin in found.version.record.origins} == {"from disk"}
    np.testing.assert_array_equal(found(*[np.ones(3, np.float32)] * 2), [2, 2, 2])


@pytest.mark.parametrize("damage", [b"", b"cut", b"kernels 1\nsomething else"])
def test_what_is_no_program_is_not_believed(folder: Path, damage: bytes) -> None:
    compiled(add, *VECTORS)
    store = current_store()
    assert store is not None
    for name in entries(folder):
        if damage.startswith(b"kernels"):
            store.write(name.removesuffix(".bin"), damage)
        else:
            Path(store.path(name.removesuffix(".bin"))).write_bytes(damage)
    assert "lower" in compiled(add, *VECTORS).version.record.seconds
    assert "lower" not in compiled(add, *VECTORS).version.record.seconds


# ---- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [
        Found((ObjectFile("ab", ("dyn_host",)),), 0),
        Found(
            (ObjectFile("ab", ("k_1",)), ObjectFile("cd", ("dyn_host",)), ObjectFile("ef", ("g",))),
            1,
            ((0, 2), (1, 0)),
            (3, 4),
        ),
        Found((ObjectFile("ab", ("a", "b", "c")),), 0),
    ],
)
def test_entries_are_read_as_they_were_written(found: Found) -> None:
    assert parse_found(found.text()) == found


@pytest.mark.parametrize("text", ["", "kernels", "kernels 1\nkernels 2", "kernels x", "kernels 1\npart a", "\0"])
def test_other_texts_are_no_entries(text: str) -> None:
    with pytest.raises(ValueError):  # whatever int() and unpacking say
        parse_found(text)


def test_an_own_text_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = X86Backend()
    asked: list[str] = []

    def source() -> programs.Source:
        asked.append("asked")
        return programs.Source("define void @own() {\n  ret void\n}\n", ("own",))

    first = programs.build_own(backend, "test", source)
    assert programs.build_own(backend, "test", source).binary == first.binary
    assert len(asked) == 1
    monkeypatch.setattr(programs, "code_version", lambda: "another")
    assert programs.build_own(backend, "test", source).binary == first.binary
    assert len(asked) == 2
    assert Programs(backend).key(lambda: None) is None


# ---- processes -------------------------------------------------------------------------------------------------------

PROGRAM = """
    import json, sys
    import numpy as np, dyn, dyn.numpy as dnp
    from dyn import nn
    w = np.linspace(-1, 1, 64 * 64, dtype="f4").reshape(64, 64)
    @dyn.jit(shapes="b s 64, b s", constraints="s <= 512")
    def layer(x, mask):
        for _ in range(2):
            y = nn.softmax(x @ w + mask[..., None], axis=-1)
            x = nn.layer_norm(x + y @ w) + dnp.where(mask[..., None] > 0, dnp.tanh(y), x)
        return x, dnp.sum(x, axis=(0, 1))
    sums = []
    for b, s in ((0, 3), (1, 1), (2, 7), (3, 64)):
        x = np.linspace(-1, 1, b * s * 64, dtype="f4").reshape(b, s, 64)
        sums.append([float(r.sum()) for r in layer(x, np.ones((b, s), "f4"))])
    rooms = ("dyn.stitch", "dyn.schedule", "dyn.lower", "dyn.pipeline", "llvmlite")
    lowered = sorted(m for m in sys.modules if m.startswith(rooms))
    (version,) = layer.programs
    try:
        layer(np.ones((1, 2, 64), "f4"), np.ones((1, 3), "f4"))
    except dyn.errors.ShapeError as error:
        failed = str(error)
    print(json.dumps({
        "sums": sums, "lowered": lowered, "failed": failed, "stages": list(version.record.seconds),
        "origins": sorted({origin.value for origin in version.record.origins}),
    }))
"""


def test_a_new_process_finds_everything_and_lowers_nothing(tmp_path: Path) -> None:
    """Whatever order sets have in it; and why a call fails is made out from the same checks."""

    def run(seed: int) -> dict[str, Any]:
        environment = os.environ | {
            "DYN_CACHE_DIR": str(tmp_path), "DYN_VERIFY": "0", "PYTHONHASHSEED": str(seed),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    cold = run(0)
    assert cold["origins"] == ["compiled"]
    for seed in (1, 2, 3):
        warm = run(seed)
        assert warm["stages"] == ["trace", "find", "load"]
        assert warm["origins"] == ["from disk"]
        assert warm["lowered"] == ["dyn.lower", "dyn.lower.abi", "dyn.schedule", "dyn.schedule.target"]
        assert (warm["sums"], warm["failed"]) == (cold["sums"], cold["failed"])
