"""Damaged and hostile modules: what fuzzing found, what is made to be endless, and a few more at random."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from dyn.backends.python_process import PythonServer
from dyn.errors import ArtifactError, UnsupportedOpError
from dyn.interop.stablehlo import load
from dyn.interop.stablehlo.mlir import guard, untrusted_modules
from tests.interop.fuzz_mutations import mutated
from tests.interop.fuzz_process import examined, read
from tests.interop.fuzz_seeds import BY_HAND

pytest.importorskip("jaxlib")
FOUND = Path(__file__).parent / "fuzz_corpus" / "found"
F = "tensor<f32>"


@pytest.fixture(scope="module")
def fresh() -> Iterator[ProcessPoolExecutor]:
    """A process that forks others; this one may have JAX, which has threads."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def chained(count: int, line: str) -> str:
    """Functions each of which calls the next one."""
    texts = [f"func.func private @f{n}(%x: {F}) -> {F} {{ {line.format(n + 1)} }}\n" for n in range(count)]
    last = f"func.func private @f{count}(%x: {F}) -> {F} {{ return %x : {F} }}\n"
    return (
        "".join(texts)
        + last
        + f"func.func @main(%x: {F}) -> {F} {{ %0 = call @f0(%x) : ({F}) -> {F} return %0 : {F} }}"
    )


def nested_ifs(depth: int) -> str:
    i = "tensor<i1>"
    end = f"}}, {{ stablehlo.return %p : {i} }}) : ({i}) -> {i}\n"
    return (
        f"func.func @main(%p: {i}) -> {i} {{"
        + '%r = "stablehlo.if"(%p) ({\n' * depth
        + f"stablehlo.return %p : {i} {end}"
        + f"stablehlo.return %r : {i} {end}" * (depth - 1) + f"return %r : {i} }}"
    )  # fmt: skip


def squares(count: int) -> str:
    """``(a + b)`` squared over and over."""
    sizes = "".join(
        f"%{name} = stablehlo.get_dimension_size %x, dim = {axis} : (tensor<?x?xf32>) -> tensor<i32>\n"
        for axis, name in enumerate("ab")
    )
    lines = "".join(f"%{n + 1} = stablehlo.multiply %{n}, %{n} : tensor<i32>\n" for n in range(count))
    return (
        f"func.func @main(%x: tensor<?x?xf32>) -> tensor<i32> {{\n{sizes}%0 = stablehlo.add %a, %b : tensor<i32>\n"
        f"{lines}return %{count} : tensor<i32> }}"
    )


DEEP = "this is no StableHLO module: its brackets are more than 256 deep."
ONE = f"%0 = call @f{{}}(%x) : ({F}) -> {F} return %0 : {F}"
TWO = f"%0 = call @f{{0}}(%x) : ({F}) -> {F} %1 = call @f{{0}}(%0) : ({F}) -> {F} return %1 : {F}"
HOSTILE = {
    "modules": ("module {" * 100_000, ArtifactError, DEEP),
    "brackets": ("module attributes {a = " + "[" * 100_000 + "]" * 100_000 + "} {}", ArtifactError, DEEP),
    "tuples": ("func.func @main(%x: " + "tuple<" * 100_000 + ">" * 100_000 + ") { return }", ArtifactError, DEEP),
    "closed first": (
        'module attributes {a = ">>", b = affine_set<(d) : (' + "d >= 0, " * 9999 + "d >= 0)>} " + "{ module " * 300,
                     ArtifactError, DEEP),
    "signs": ("module attributes {a = affine_map<(d0) -> (" + "-" * 100_000 + "d0)>} {}", ArtifactError,
              "this is no StableHLO module: more than 256 signs follow each other."),
    "aliases": ("#a0 = [1, 2]\n" + "".join(f"#a{n + 1} = [#a{n}, #a{n}]\n" for n in range(64)) + "module {}",
                ArtifactError,
                "this is no StableHLO module: #a16 has more than 1000000 characters with the aliases in it."),
    "integers": ("func.func @main(%x: tensor<2xi16777215>) { return }", ArtifactError,
                 "this is no StableHLO module: no integer is i16777215."),
    "results": (f"func.func @main(%x: {F}) -> {F} {{ return %x#2147483647 : {F} }}", ArtifactError,
                "this is no StableHLO module: no operation has as many results as %x#2147483647."),
    "regions": (nested_ifs(110), UnsupportedOpError, "regions are more than 100 deep."),
    "calls": (chained(1000, ONE), UnsupportedOpError, "@f99 calls itself, or calls are 100 deep."),
    "calls of calls": (chained(40, TWO), UnsupportedOpError,
                       "the functions of the module call each other too often: written out, it is too large."),
    "axes": ("func.func @main(%x: tensor<" + "1x" * 65 + "f32>) { return }", UnsupportedOpError,
             "values of type tensor<1x1x"),
    "bytes": ("func.func @main(%x: tensor<3000000000x3000000000xf32>) { return }", UnsupportedOpError,
              "values of type tensor<3000000000x3000000000xf32> are not supported: an array has 64 axes and 2**63"),
    "names": ('func.func @main() attributes {"\\FF" = 1 : i32} { return }', ArtifactError,
              "this is no StableHLO module: it has names that are no text"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_has_no_end_is_refused(name: str, fresh: ProcessPoolExecutor) -> None:
    source, kind, said = HOSTILE[name]
    (outcome,) = fresh.submit(examined, [source]).result()
    assert outcome.kind == kind.__name__, outcome
    assert outcome.said.startswith(said)


def test_what_is_large_and_short_is_traced(fresh: ProcessPoolExecutor) -> None:
    enormous = (BY_HAND / "enormous.mlir").read_text()
    assert [o.kind for o in fresh.submit(examined, [enormous, squares(60)]).result()] == ["traced", "traced"]


@pytest.mark.parametrize("path", sorted(FOUND.glob("*")), ids=lambda p: p.stem)
def test_what_was_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_SECONDS", 3)
    with pytest.raises(ArtifactError, match="this is no StableHLO module: "):
        load(path, trusted=False)


def test_how_the_guard_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArtifactError) as error:
        guard.checked((FOUND / "segfault.bin").read_bytes())
    assert str(error.value) == (
        "this is no StableHLO module: MLIR's reader ended with signal 11\n"
        "  help: the bytes are damaged, or made by something else than MLIR."
    )
    reader = PythonServer(untrusted_modules.__file__)
    monkeypatch.setattr(guard, "_READER", reader)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(ArtifactError) as error:
        guard.checked(b"ML\xefR")
    assert str(error.value) == (
        "modules are read in a process of its own first, which cannot be started: "
        "[Errno 2] No such file or directory: '/no/such/python'\n"
        "  help: load(…, trusted=True) reads it in this process; do so where you know who wrote it."
    )


def test_some_at_random(fresh: ProcessPoolExecutor) -> None:
    texts = [path.read_text() for path in sorted(BY_HAND.glob("*.mlir"))]
    rng = random.Random(7)
    sources = [mutated(rng.choice(texts), texts, rng) for _ in range(150)]
    made = fresh.submit(examined, sources).result()
    assert not [(source, o) for source, o in zip(sources, made, strict=True) if o.finding]


def test_the_corpus_itself() -> None:
    wanted = {"tuples": "UnsupportedOpError", "tokens": "UnsupportedOpError", "recursion": "UnsupportedOpError",
              "quantized": "UnsupportedOpError", "sparse": "UnsupportedOpError"}  # fmt: skip
    for path in sorted(BY_HAND.glob("*.mlir")):
        assert read(path.read_text()).kind == wanted.get(path.stem, "traced"), path.stem
